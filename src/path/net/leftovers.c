/* SPDX-License-Identifier: Apache-2.0 */
/* Removes files that killed processes have left in /dev/shm. libfabric's provider shm keeps a file
 * of 16 MiB there for each endpoint, named after the process, "PID:N:N". Such files fill that file
 * system, and a later process with the same PID cannot make its own. Files of this user that no
 * process uses are removed. */
#include "path/net/net.h"

#include "base/log.h"
#include "boot/boot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_endpoint(const char *name, pid_t *pid)
{
    int process, domain, endpoint, used = 0;
    bool fits = sscanf(name, "%9d:%9d:%9d%n", &process, &domain, &endpoint, &used) == 3;
    *pid = process;
    return fits && process > 0 && name[used] == '\0';
}

/* Whether the process of the file has ended, as far as this process can see: /dev/shm may be shared
 * with PID namespaces that count for themselves. This process has made no file yet. Only one PE of
 * the node checks the files of other processes: two at a time would take each other's open files
 * for used ones. */
static bool is_gone(pid_t pid, bool others)
{
    return pid == getpid() || (others && kill(pid, 0) < 0 && errno == ESRCH);
}

/* Whether no process has the file open or mapped: only then does the kernel grant a write lease. */
static bool is_unused(int file)
{
    struct stat is;
    return fstat(file, &is) == 0 && S_ISREG(is.st_mode) && is.st_uid == geteuid() &&
           fcntl(file, F_SETLEASE, F_WRLCK) == 0;
}

static bool remove_if_unused(int folder, const char *name)
{
    int file = openat(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool removed = file >= 0 && is_unused(file) && unlinkat(folder, name, 0) == 0;
    if (file >= 0)
        close(file);
    return removed;
}

void net_remove_leftovers(const struct path_world *world)
{
    DIR *folder = opendir("/dev/shm");
    const struct dirent *entry;
    bool others = world->boot->local_pe == 0;
    int removed = 0;
    pid_t pid;
    while (folder && (entry = readdir(folder)))
        if (is_endpoint(entry->d_name, &pid) && is_gone(pid, others))
            removed += remove_if_unused(dirfd(folder), entry->d_name);
    if (folder)
        closedir(folder);
    if (removed)
        log_info(LOG_NET,
                 "path net: %d files of provider shm that killed processes have left in /dev/shm "
                 "are removed",
                 removed);
}
