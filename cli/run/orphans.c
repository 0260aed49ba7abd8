/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that PEs started and left behind. The launcher is their subreaper (prctl(2)), so
 * they become its children when their parents end, in whatever session or process group. One of
 * them may be the PE itself, detached as a daemon; all others end with the job. */
#include "run/hosts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_CHILDREN = 8192, END_STEP_US = 2000 };

/* How long the launcher waits for a process after SIGKILL. */
static const uint64_t killed_ns = UINT64_C(5000000000);

bool run_become_subreaper(void)
{
    return prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
}

/* ------------------------------------------------------------------------------------- children */

static pid_t parent_of(const char *number)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%.20s/stat", number);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *name_ends = strrchr(text, ')'); /* "PID (NAME) STATE PARENT": any NAME */
    int parent = 0;
    return name_ends && sscanf(name_ends + 1, " %*c %d", &parent) == 1 ? (pid_t)parent : 0;
}

/* Whether waitid() accepts the process as a child, regardless of /proc. */
static bool is_child(pid_t pid)
{
    siginfo_t info;
    return pid > 0 && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/* Fallback when the kernel has no list of a process's children. */
static int search_children(pid_t *children)
{
    int count = 0;
    const pid_t own = run_proc_number(getpid());
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; processes && (entry = readdir(processes));)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && count < MOST_CHILDREN &&
            parent_of(entry->d_name) == own)
            children[count++] = (pid_t)atoi(entry->d_name);
    if (processes)
        closedir(processes);
    return count;
}

static int list_children(pid_t *children)
{
    int count = 0, kept = 0, number;
    FILE *list = fopen("/proc/thread-self/children", "re");
    if (!list)
        count = search_children(children);
    while (list && count < MOST_CHILDREN && fscanf(list, "%d", &number) == 1)
        children[count++] = (pid_t)number;
    if (list)
        fclose(list);
    for (int i = 0; i < count; i++) {
        pid_t pid = run_proc_pid(children[i]);
        if (is_child(pid))
            children[kept++] = pid;
    }
    return kept;
}

static bool is_known(const struct run *run, pid_t pid)
{
    for (int pe = 0; pe < run->started; pe++)
        if (run->pes[pe].pid == pid)
            return true;
    for (int host = 0; host < run->hosts.count; host++)
        if (run->hosts.list[host].pid == pid)
            return true;
    return pid == run->guard.pid;
}

/* Lists children that are neither PEs nor the guard. The next call overwrites *orphans. */
static int list_orphans(const struct run *run, pid_t **orphans)
{
    static pid_t children[MOST_CHILDREN];
    int count = list_children(children), kept = 0;
    for (int i = 0; i < count; i++)
        if (!is_known(run, children[i]))
            children[kept++] = children[i];
    *orphans = children;
    return kept;
}

/* ---------------------------------------------------------------------------- processes of a PE */

/* *empty: the environment is empty, as in a process in the middle of execve(). */
static bool environment_holds(pid_t pid, const char *entry, bool *empty)
{
    char path[64];
    static char text[65536];
    snprintf(path, sizeof path, "/proc/%d/environ", (int)run_proc_number(pid));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    *empty = false;
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, sizeof text);
    close(fd);
    *empty = n == 0;
    /* including the terminating zero; the launcher's variables are first in a PE's environment */
    return n > 0 && memmem(text, (size_t)n, entry, strlen(entry) + 1) != NULL;
}

pid_t run_find_detached(struct run *run, int number)
{
    const struct run_pe *pe = &run->pes[number];
    char entry[32];
    snprintf(entry, sizeof entry, "WEFT_PE=%d", run->first + number);
    for (;;) {
        pid_t *orphans;
        bool may_yet = false;
        int count = list_orphans(run, &orphans);
        for (int i = 0; i < count; i++) {
            bool empty;
            if (!environment_holds(orphans[i], entry, &empty)) {
                may_yet |= empty && !run_is_dying(orphans[i]);
                continue;
            }
            if (getpgid(orphans[i]) != pe->group)
                return orphans[i];
            may_yet = true; /* a child of setsid(1) leaves the group only after its parent's end */
        }
        if (!may_yet || run->ending.linger_ms <= 0)
            return 0;
        run->ending.linger_ms -= END_STEP_US / 1000;
        usleep(END_STEP_US);
    }
}

bool run_is_dying(pid_t pid)
{
    char path[64], text[4096];
    if (pid <= 0)
        return false;
    const int number = (int)run_proc_number(pid);
    snprintf(path, sizeof path, "/proc/%d/exe",
             number); /* released with its memory, before anything else */
    if (readlink(path, text, sizeof text) < 0)
        return errno == ENOENT || errno == ESRCH;
    snprintf(path, sizeof path, "/proc/%d/status", number);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == ESRCH;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return strstr(text, "CoreDumping:\t1") != NULL;
}

/* --------------------------------------------------------------------------------------- ending */

/* Kills a marked process by pidfd and checks the mark again, since the pid may have been reused
 * after it was listed. */
static void kill_if_marked(pid_t pid, const char *mark)
{
    bool empty;
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd >= 0 && environment_holds(pid, mark, &empty))
        syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
    if (pidfd >= 0)
        close(pidfd);
}

/* After the launcher's death its orphans have other parents, so that only their environment
 * identifies them. Repeats until none is found, since one may have forked meanwhile. */
void run_kill_marked(const char *mark)
{
    /* A process in execve() shows its environment a moment later; kernel threads never do. */
    enum { MOST_ROUNDS = 100, EMPTY_ROUNDS = 5 };
    for (int round = 0, again = 1; again && round < MOST_ROUNDS; round++) {
        again = 0;
        DIR *processes = opendir("/proc");
        for (struct dirent *entry; processes && (entry = readdir(processes));) {
            pid_t pid = run_proc_pid((pid_t)atoi(entry->d_name));
            bool empty;
            if (pid <= 0 || pid == getpid())
                continue;
            if (environment_holds(pid, mark, &empty)) {
                again = 1;
                kill_if_marked(pid, mark);
            } else if (empty && round < EMPTY_ROUNDS)
                again = 1;
        }
        if (processes)
            closedir(processes);
        if (again)
            usleep(END_STEP_US);
    }
}

void run_reap_orphans(struct run *run)
{
    pid_t *orphans;
    int count = list_orphans(run, &orphans);
    for (int i = 0; i < count; i++)
        waitpid(orphans[i], NULL, WNOHANG);
}

/* Repeats until there are none, since the children of an ended orphan become children of this
 * process. */
void run_end_orphans(struct run *run)
{
    uint64_t kill_ns = clock_now_ns() + run->options.grace_ns, give_up_ns = kill_ns + killed_ns;
    for (;;) {
        pid_t *orphans;
        int count = list_orphans(run, &orphans), left = 0;
        uint64_t now = clock_now_ns();
        for (int i = 0; i < count; i++) {
            kill(orphans[i], now < kill_ns ? SIGTERM : SIGKILL);
            kill(orphans[i], SIGCONT); /* a stopped process handles only this and SIGKILL */
            left += waitpid(orphans[i], NULL, WNOHANG) == 0;
        }
        if (count == 0 || now > give_up_ns)
            return;
        if (left)
            usleep(END_STEP_US);
    }
}
