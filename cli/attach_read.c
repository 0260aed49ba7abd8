/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the black boxes of a running job: the system segment is a memfd that every PE holds open,
 * so the kernel shows it under /proc/PID/fd to the same user, with no privilege and no help from
 * the process, which may hang. Nothing read there is trusted. */
#include "attach.h"

#include "base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_PES = 4096 };

static int open_system_segment(int pid, char *why, int why_bytes)
{
    char path[300];
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *directory = opendir(path);
    if (!directory) {
        snprintf(why, (size_t)why_bytes,
                 errno == ENOENT
                     ? "there is no process %d (%s: %s)"
                     : "process %d cannot be looked into (%s: %s); attach as the same user",
                 pid, path, strerror(errno));
        return -1;
    }
    int found = -1;
    for (struct dirent *entry; found < 0 && (entry = readdir(directory));) {
        char target[128];
        snprintf(path, sizeof path, "/proc/%d/fd/%.20s", pid, entry->d_name);
        ssize_t n = readlink(path, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        if (strncmp(target, "/memfd:weft-system", 18) == 0)
            found = open(path, O_RDONLY | O_CLOEXEC);
    }
    closedir(directory);
    if (found < 0)
        snprintf(why, (size_t)why_bytes,
                 "process %d is not a PE of a Weft job (it holds no memfd \"weft-system\"); give "
                 "the PID of a PE, not of its launcher",
                 pid);
    return found;
}

static void copy_box(struct attach_pe *pe, const struct box *box)
{
    memcpy(&pe->box, box, sizeof pe->box);
    memcpy(&pe->device, (const char *)box + BOX_DEVICE_OFFSET, sizeof pe->device);
    pe->present = pe->box.magic == BOX_MAGIC && pe->box.version == BOX_VERSION;
    pe->box.program[sizeof pe->box.program - 1] = '\0';
    pe->box.failure[sizeof pe->box.failure - 1] = '\0';
    for (int i = 0; i < BOX_PATHS; i++)
        pe->box.paths[i][sizeof pe->box.paths[i] - 1] = '\0';
    pe->alive = pe->present && pe->box.pid > 0 && (kill(pe->box.pid, 0) == 0 || errno == EPERM);
}

static bool copy_boxes(int fd, struct attach_job *job, char *why, int why_bytes)
{
    struct stat info;
    struct box *first;
    if (fstat(fd, &info) || (size_t)info.st_size < sizeof *first ||
        (first = mmap(NULL, sizeof *first, PROT_READ, MAP_SHARED, fd, 0)) == MAP_FAILED) {
        snprintf(why, (size_t)why_bytes, "the system segment cannot be mapped: %s",
                 strerror(errno));
        return false;
    }
    int count = first->local_npes;
    bool known = first->magic == BOX_MAGIC && first->version == BOX_VERSION;
    munmap(first, sizeof *first);
    size_t stride = count > 0 && count <= MOST_PES ? (size_t)info.st_size / (size_t)count : 0;
    if (!known || stride < BOX_BYTES) {
        snprintf(why, (size_t)why_bytes,
                 "the job is still starting, or runs another version of Weft");
        return false;
    }
    job->pes = calloc((size_t)count, sizeof *job->pes);
    job->count = job->pes ? count : 0;
    for (int i = 0; i < job->count; i++) {
        off_t at = (off_t)(stride * (size_t)i);
        struct box *box = mmap(NULL, BOX_BYTES, PROT_READ, MAP_SHARED, fd, at);
        if (box == MAP_FAILED)
            continue;
        copy_box(&job->pes[i], box);
        munmap(box, BOX_BYTES);
    }
    return job->pes != NULL;
}

bool attach_read(int pid, struct attach_job *job, char *why, int why_bytes)
{
    *job = (struct attach_job){.now_ns = clock_now_ns()};
    int fd = open_system_segment(pid, why, why_bytes);
    if (fd < 0)
        return false;
    bool good = copy_boxes(fd, job, why, why_bytes);
    close(fd);
    return good;
}

void attach_free(struct attach_job *job)
{
    free(job->pes);
    job->pes = NULL;
}
