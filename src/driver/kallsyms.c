/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that cannot read a file, by Landlock. See kallsyms.h. */
#include "driver/kallsyms.h"

#include "base/thread.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Linux's linux/landlock.h, which older systems do not have. The system calls have the same numbers
 * on all architectures. */
enum {
    CREATE_RULESET = 444,
    ADD_RULE = 445,
    RESTRICT_SELF = 446,
    RULE_PATH_BENEATH = 1,
    ACCESS_READ_FILE = 1 << 2,
    LOG_SAME_EXEC_OFF = 1 << 0,
};

struct ruleset_attr {
    uint64_t handled_access_fs;
};

struct path_beneath_attr {
    uint64_t allowed_access;
    int32_t parent_fd;
} __attribute__((packed));

struct restricted_call {
    void (*run)(void *argument);
    void *argument;
};

/* Other processes of /proc are left out, since there may be many; "self" stays. */
static bool is_allowed(const char *name, const char *hidden, bool processes)
{
    return strcmp(name, hidden) != 0 && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
           (processes || !isdigit((unsigned char)name[0]));
}

/* Allows to read all that is below the folder, except for one entry of it. */
static void allow_all_but(int ruleset, const char *folder, const char *hidden, bool processes)
{
    DIR *list = opendir(folder);
    for (const struct dirent *entry; list && (entry = readdir(list));) {
        if (!is_allowed(entry->d_name, hidden, processes))
            continue;
        const struct path_beneath_attr rule = {
            .allowed_access = ACCESS_READ_FILE,
            .parent_fd = openat(dirfd(list), entry->d_name, O_PATH | O_CLOEXEC)};
        if (rule.parent_fd < 0)
            continue;
        syscall(ADD_RULE, ruleset, RULE_PATH_BENEATH, &rule, 0);
        close(rule.parent_fd);
    }
    if (list)
        closedir(list);
}

/* Both apply to this thread, not to its process. Landlock requires that the thread can gain no
 * privileges. The refusal is no incident for the kernel's audit log (Linux 6.15). */
static void restrict_thread(int ruleset)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
        syscall(RESTRICT_SELF, ruleset, LOG_SAME_EXEC_OFF))
        syscall(RESTRICT_SELF, ruleset, 0);
}

static void *run_restricted(void *argument)
{
    const struct restricted_call *call = argument;
    const struct ruleset_attr attr = {.handled_access_fs = ACCESS_READ_FILE};
    int ruleset = (int)syscall(CREATE_RULESET, &attr, sizeof attr, 0);
    if (ruleset >= 0) {
        allow_all_but(ruleset, "/", "proc", true);
        allow_all_but(ruleset, "/proc", "kallsyms", false);
        restrict_thread(ruleset);
        close(ruleset);
    }
    call->run(call->argument);
    return NULL;
}

void driver_run_without_kallsyms(void (*run)(void *argument), void *argument)
{
    struct restricted_call call = {run, argument};
    pthread_t thread;
    if (thread_start(&thread, run_restricted, &call))
        run(argument);
    else
        pthread_join(thread, NULL);
}
