/* SPDX-License-Identifier: Apache-2.0 */
/* Process numbers in /proc. A /proc mounted outside this PID namespace (a container that kept
 * its host's /proc, `unshare --pid` without --mount-proc) has other numbers than fork(), kill()
 * and waitid() use here; mixing them would name a wrong process. */
#include "run/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* This process's number in /proc; 0: there is no /proc. */
static pid_t own_proc_number(void)
{
    char text[32];
    ssize_t n = readlink("/proc/self", text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    return (pid_t)atoi(text);
}

/* Finds the line of the file that starts with `key` and returns the rest of it. */
static bool find_line(const char *path, const char *key, char *line, size_t size)
{
    FILE *file = fopen(path, "re");
    bool found = false;
    while (file && !found && fgets(line, (int)size, file))
        found = strncmp(line, key, strlen(key)) == 0;
    if (file)
        fclose(file);
    if (found)
        memmove(line, line + strlen(key), strlen(line + strlen(key)) + 1);
    return found;
}

/* How many numbers the "NSpid:" line of a process has, from the namespace of /proc inwards;
 * *at_depth gets the one at `depth` (from 1). */
static int namespace_numbers(pid_t number, int depth, pid_t *at_depth)
{
    char path[64], line[256];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)number);
    if (!find_line(path, "NSpid:", line, sizeof line))
        return 0;
    char *at = line, *end;
    for (long value = strtol(at, &end, 10); end != at; value = strtol(at, &end, 10)) {
        if (++count == depth)
            *at_depth = (pid_t)value;
        at = end;
    }
    return count;
}

pid_t run_proc_number(pid_t pid)
{
    char path[64], line[64];
    pid_t own = own_proc_number();
    if (own == getpid() || own == 0)
        return pid;
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0)
        return 0;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
    bool known = find_line(path, "Pid:", line, sizeof line);
    close(pidfd);
    return known ? (pid_t)atoi(line) : 0;
}

pid_t run_proc_pid(pid_t number)
{
    pid_t own = own_proc_number(), pid = 0;
    if (own == getpid() || own == 0)
        return number;
    int depth = namespace_numbers(own, 0, &pid);
    if (depth < 2 || namespace_numbers(number, depth, &pid) < depth)
        return 0;
    /* A sibling namespace may use the same number. */
    return pid > 0 && run_proc_number(pid) == number ? pid : 0;
}
