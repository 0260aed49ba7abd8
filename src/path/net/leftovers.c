/* SPDX-License-Identifier: Apache-2.0 */
/* What processes that were killed have left of libfabric's provider shm: a file of 16 MiB in
 * /dev/shm for each endpoint, named by the process, "PID:N:N". They fill that file system, and a
 * process that is later given the same number cannot make its own. Those of this user are removed
 * that belong to nobody any more. */
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

/* Its process is no more, as far as this one sees: /dev/shm may be shared with others, whose
 * processes have numbers of their own. This process has made none yet. One PE of the node looks at
 * those of others: two at a time would take each other for users. */
static bool is_gone(pid_t pid, bool others)
{
    return pid == getpid() || (others && kill(pid, 0) < 0 && errno == ESRCH);
}

/* Nobody has it open or mapped, wherever: else the kernel gives no lease for writing. */
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
        log_info("path net: %d files of provider shm that killed processes have left in /dev/shm "
                 "are removed",
                 removed);
}
