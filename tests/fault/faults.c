/* SPDX-License-Identifier: Apache-2.0 */
/* See faults.h. */
#include "fault/faults.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST_RUNNING = 16, MOST_NAMES = 256 };

static struct {
    pid_t pid;
    int output;
} running[MOST_RUNNING];

static char mark[64];
static char names_before[MOST_NAMES][256];
static int count_before;

static void pause_ms(int ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

static int output_of(pid_t pid)
{
    for (int i = 0; i < MOST_RUNNING; i++)
        if (running[i].pid == pid)
            return running[i].output;
    return -1;
}

pid_t faults_start(char *const argv[])
{
    int slot = 0;
    while (running[slot].pid)
        slot++;
    int output = memfd_create("output", MFD_CLOEXEC);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(output, 1);
        dup2(output, 2);
        fcntl(1, F_SETFL, O_APPEND); /* several processes write to the file */
        execv(argv[0], argv);
        _exit(127);
    }
    running[slot].pid = pid;
    running[slot].output = output;
    return pid;
}

static void read_output(int fd, struct outcome *outcome)
{
    ssize_t n = pread(fd, outcome->output, sizeof outcome->output - 1, 0);
    outcome->output[n > 0 ? n : 0] = '\0';
}

void faults_peek(pid_t pid, struct outcome *outcome)
{
    read_output(output_of(pid), outcome);
}

void faults_await(pid_t pid, const char *text)
{
    static struct outcome seen;
    for (int i = 0; i < 2000; i++) {
        faults_peek(pid, &seen);
        if (strstr(seen.output, text))
            return;
        pause_ms(10);
    }
    fail_msg("\"%s\" was not printed within 20 s; what was: %s", text, seen.output);
}

void faults_wait(pid_t pid, struct outcome *outcome)
{
    int status = 0;
    pid_t ended = 0;
    for (int i = 0; i < 6000 && !ended; i++) {
        ended = waitpid(pid, &status, WNOHANG);
        if (!ended)
            pause_ms(10);
    }
    if (!ended) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
    }
    outcome->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    for (int i = 0; i < MOST_RUNNING; i++) {
        if (running[i].pid != pid)
            continue;
        read_output(running[i].output, outcome);
        close(running[i].output);
        running[i].pid = 0;
    }
    if (!ended)
        fail_msg("did not end within a minute; what it printed: %s", outcome->output);
}

void faults_run(char *const argv[], struct outcome *outcome)
{
    faults_wait(faults_start(argv), outcome);
}

bool faults_contain(const struct outcome *outcome, const char *text)
{
    return strstr(outcome->output, text) != NULL;
}

void faults_expect(const struct outcome *outcome, int status, const char *text)
{
    if (outcome->status != status || (text && !faults_contain(outcome, text)))
        fail_msg("expected status %d and \"%s\"; got status %d and:\n%s", status, text ? text : "",
                 outcome->status, outcome->output);
}

/* Below the kernel's ephemeral ports, between the ranges of random_kills and of run_by_rank.sh. */
static int first_port(void)
{
    return 12000 + (int)(getpid() * 37 % 6400);
}

static int ports_given;

int faults_port(void)
{
    return first_port() + ports_given++ % 100 * 16;
}

/* ------------------------------------------------------------------------------- left behind */

/* 1: a process of this test, 0: of another, -1: there is none, or a zombie, which has no
 * environment.
 */
static int is_ours(const char *pid)
{
    char path[64], environment[65536];
    snprintf(path, sizeof path, "/proc/%.20s/environ", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, environment, sizeof environment);
    close(fd);
    return n <= 0 ? -1 : memmem(environment, (size_t)n, mark, strlen(mark) + 1) != NULL;
}

static bool has_mark(const char *pid)
{
    return is_ours(pid) == 1;
}

/* Zombies have no environment and do not count. */
static int find_process(char *name, size_t size)
{
    int count = 0;
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; processes && (entry = readdir(processes));) {
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9' || !has_mark(entry->d_name))
            continue;
        count++;
        snprintf(name, size, "process %.20s", entry->d_name);
    }
    if (processes)
        closedir(processes);
    return count;
}

static bool was_there(const char *name)
{
    for (int i = 0; i < count_before; i++)
        if (strcmp(names_before[i], name) == 0)
            return true;
    return false;
}

/* libfabric's files are weft-PID:..., of a test that runs now. */
static bool is_anothers_file(const char *name)
{
    char pid[21] = "";
    return sscanf(name, "weft-%20[0-9]:", pid) == 1 && is_ours(pid) == 0;
}

static int find_files(const char *folder, char *name, size_t size, bool remember)
{
    int count = 0;
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        char path[300];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (!strstr(entry->d_name, "weft") || strstr(entry->d_name, "test") || strlen(path) > 255)
            continue; /* files of other tests (tests/layout/temporary_names.sh) */
        if (remember && count_before < MOST_NAMES)
            strcpy(names_before[count_before++], path);
        if (was_there(path) || is_anothers_file(entry->d_name))
            continue;
        count++;
        snprintf(name, size, "file %s", path);
    }
    if (entries)
        closedir(entries);
    return count;
}

static bool holds(const char *pid, const char *socket)
{
    char folder[64];
    snprintf(folder, sizeof folder, "/proc/%.20s/fd", pid);
    DIR *entries = opendir(folder);
    bool found = false;
    for (struct dirent *entry; entries && !found && (entry = readdir(entries));) {
        char link[64] = "";
        found = readlinkat(dirfd(entries), entry->d_name, link, sizeof link - 1) > 0 &&
                strcmp(link, socket) == 0;
    }
    if (entries)
        closedir(entries);
    return found;
}

/* True: the socket belongs to another process; other runs of these or similar tests may use the
 * same ports. */
static bool is_anothers(unsigned long inode)
{
    char socket[64];
    snprintf(socket, sizeof socket, "socket:[%lu]", inode);
    DIR *processes = opendir("/proc");
    bool found = false;
    for (struct dirent *entry; processes && !found && (entry = readdir(processes));)
        found = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
                holds(entry->d_name, socket) && !has_mark(entry->d_name);
    if (processes)
        closedir(processes);
    return found;
}

/* A connection that is not accepted yet has no inode; its listener has one. */
static int find_sockets(char *name, size_t size)
{
    int count = 0;
    char line[256], ours[32];
    snprintf(ours, sizeof ours, "@weft/%u/", (unsigned)geteuid());
    FILE *sockets = fopen("/proc/net/unix", "r");
    while (sockets && fgets(line, sizeof line, sockets)) {
        char *found = strstr(line, ours);
        int port = found ? atoi(found + strlen(ours)) : 0;
        int given = ports_given < 100 ? ports_given : 100;
        unsigned long inode = 0;
        sscanf(line, "%*s %*s %*s %*s %*s %*s %lu", &inode);
        if (port < first_port() || port >= first_port() + 16 * given || !inode ||
            is_anothers(inode))
            continue;
        count++;
        snprintf(name, size, "socket %.200s", found);
    }
    if (sockets)
        fclose(sockets);
    return count;
}

void faults_remember(void)
{
    char name[320];
    count_before = 0;
    /* For processes started from here on: /proc shows the initial environment of this process. */
    snprintf(mark, sizeof mark, "FAULT_TEST_MARK=%d", (int)getpid());
    putenv(mark);
    find_files("/dev/shm", name, sizeof name, true);
    find_files("/tmp", name, sizeof name, true);
}

void faults_expect_nothing_left(void)
{
    char name[320] = "";
    for (int i = 0; i < 200; i++) {
        if (find_process(name, sizeof name) + find_files("/dev/shm", name, sizeof name, false) +
                find_files("/tmp", name, sizeof name, false) + find_sockets(name, sizeof name) ==
            0)
            return;
        pause_ms(10);
    }
    fail_msg("left behind: %s", name);
}
