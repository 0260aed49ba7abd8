/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and maps the system segment of a running job. See system_segment.h. */
#include "tool/system_segment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/printable.h"
#include "box/box.h"

enum { MOST_SLOTS = 4096, MOST_DEPTH = 8 };

static bool is_system_segment(const char *path)
{
    static const char name[] = "/memfd:weft-system";
    char target[128];
    ssize_t n = readlink(path, target, sizeof target - 1);
    target[n > 0 ? n : 0] = '\0';
    return strncmp(target, name, sizeof name - 1) == 0;
}

/* Opens the segment of a process. -1: the process has none; -2 with errno: its descriptors cannot
 * be listed. */
static int open_memfd(int pid)
{
    char path[300];
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *directory = opendir(path);
    if (!directory)
        return -2;
    int found = -1;
    for (struct dirent *entry; found < 0 && (entry = readdir(directory));) {
        snprintf(path, sizeof path, "/proc/%d/fd/%.20s", pid, entry->d_name);
        if (is_system_segment(path))
            found = open(path, O_RDONLY | O_CLOEXEC);
    }
    closedir(directory);
    return found;
}

static bool find_slots(struct system_segment *segment, char *why, int why_bytes)
{
    struct stat info;
    struct box *first;
    if (fstat(segment->fd, &info) || (size_t)info.st_size < sizeof *first ||
        (first = mmap(NULL, sizeof *first, PROT_READ, MAP_SHARED, segment->fd, 0)) == MAP_FAILED) {
        snprintf(why, (size_t)why_bytes, "the system segment cannot be mapped: %s",
                 strerror(errno));
        return false;
    }
    int count = first->local_npes;
    bool known = first->magic == BOX_MAGIC && first->version == BOX_VERSION;
    munmap(first, sizeof *first);
    segment->slots = count > 0 && count <= MOST_SLOTS ? count : 0;
    segment->stride = segment->slots ? (size_t)info.st_size / (size_t)count : 0;
    if (known && segment->stride >= BOX_BYTES)
        return true;
    snprintf(why, (size_t)why_bytes, "the job is still starting, or uses another version of Weft");
    return false;
}

bool system_segment_open(int pid, struct system_segment *segment, char *why, int why_bytes)
{
    *segment = (struct system_segment){.fd = open_memfd(pid)};
    if (segment->fd == -2)
        snprintf(why, (size_t)why_bytes,
                 errno == ENOENT
                     ? "there is no process %d (/proc/%d/fd: %s)"
                     : "process %d cannot be inspected (/proc/%d/fd: %s); run as its user or as "
                       "root",
                 pid, pid, strerror(errno));
    if (segment->fd == -1)
        snprintf(
            why, (size_t)why_bytes,
            "process %d is not a PE of a Weft job (it has no memfd \"weft-system\"), and it has "
            "started no PE on this machine",
            pid);
    if (segment->fd < 0)
        return false;
    if (find_slots(segment, why, why_bytes))
        return true;
    system_segment_close(segment);
    return false;
}

void system_segment_close(struct system_segment *segment)
{
    close(segment->fd);
    segment->fd = -1;
}

const void *system_segment_map(const struct system_segment *segment, int slot, size_t bytes)
{
    if (bytes > segment->stride)
        return NULL;
    off_t at = (off_t)(segment->stride * (size_t)slot);
    void *mapped = mmap(NULL, bytes, PROT_READ, MAP_SHARED, segment->fd, at);
    return mapped == MAP_FAILED ? NULL : mapped;
}

/* Searches a process and its descendants for a PE, depth first. */
static int find_pe(int pid, int depth)
{
    char path[64];
    int fd = open_memfd(pid), child, found = 0;
    if (fd >= 0) {
        close(fd);
        return pid;
    }
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    FILE *children = depth ? fopen(path, "re") : NULL;
    while (children && !found && fscanf(children, "%d", &child) == 1)
        found = find_pe(child, depth - 1);
    if (children)
        fclose(children);
    return found;
}

int system_segment_find_pe(int pid)
{
    return find_pe(pid, MOST_DEPTH);
}

void system_segment_text(char *to, const char *from, size_t bytes)
{
    memcpy(to, from, bytes);
    to[bytes - 1] = '\0';
    printable(to);
}
