/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's services: whether fabric manager and IMEX run, and the version of the fabric manager. */
#include "machine/live/live.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

static bool process_runs(struct machine *machine, const struct machine_source *source,
                         const char *comm)
{
    const char **names = live_names(machine, live_path(source, "proc").text);
    for (; *names; names++) {
        char line[64];
        if (isdigit((unsigned char)**names) &&
            live_line(live_path(source, "proc/%s/comm", *names).text, line, sizeof line) &&
            strcmp(line, comm) == 0)
            return true;
    }
    return false;
}

/* The kernel keeps only 15 characters of a process name. */
static void read_service_state(struct machine *machine, const struct machine_source *source,
                               const char *program, struct machine_text *to)
{
    char comm[16];
    snprintf(comm, sizeof comm, "%s", program);
    if (!live_exists(live_path(source, "usr/bin/%s", program).text))
        text_set(machine, to, "absent");
    else
        text_set(machine, to, process_runs(machine, source, comm) ? "running" : "stopped");
}

/* Runs the program with --version and copies its output, with a limit of one second. False with
 * errno on failure. */
static bool run_version(const char *path, char *text, size_t size)
{
    enum { LIMIT_NS = 1000000000 };
    int ends[2];
    size_t used = 0;
    if (access(path, X_OK) != 0 || pipe2(ends, O_CLOEXEC) != 0)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        int nothing = open("/dev/null", O_RDWR);
        dup2(nothing, 0);
        dup2(ends[1], 1);
        dup2(nothing, 2);
        execl(path, path, "--version", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    uint64_t end_ns = clock_now_ns() + LIMIT_NS, now;
    while (pid > 0 && used + 1 < size && (now = clock_now_ns()) < end_ns) {
        struct pollfd watched = {.fd = ends[0], .events = POLLIN};
        ssize_t n = 0;
        if (poll(&watched, 1, (int)((end_ns - now) / 1000000) + 1) > 0)
            n = read(ends[0], text + used, size - 1 - used);
        if (n <= 0)
            break;
        used += (size_t)n;
    }
    text[used] = '\0';
    close(ends[0]);
    if (pid > 0) {
        kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    errno = ETIMEDOUT;
    return used > 0;
}

/* Finds the version in an output such as "Fabric Manager version is : 570.86.15". */
static void read_service_version(struct machine *machine, const struct machine_source *source,
                                 struct machine_text *to)
{
    struct live_path path = live_path(source, "usr/bin/nv-fabricmanager");
    char text[512], *save = NULL;
    if (!run_version(path.text, text, sizeof text)) {
        text_unknown(machine, to, "%s --version: %s", path.text, strerror(errno));
        return;
    }
    for (char *word = strtok_r(text, " :\n", &save); word; word = strtok_r(NULL, " :\n", &save))
        if (isdigit((unsigned char)word[0]) && strchr(word, '.') &&
            strspn(word, "0123456789.") == strlen(word)) {
            text_set(machine, to, word);
            return;
        }
    text_unknown(machine, to, "%s --version prints no version", path.text);
}

void live_services(struct machine *machine, const struct machine_source *source)
{
    struct machine_driver *d = &machine->drivers;
    bool nvidia = false;
    for (size_t i = 0; i < machine->n_pci; i++)
        nvidia |= number_is(machine->pci[i].vendor, 0x10de);
    if (!nvidia) {
        text_set(machine, &d->fabric_manager, "absent");
        text_set(machine, &d->imex, "absent");
        return;
    }
    read_service_state(machine, source, "nv-fabricmanager", &d->fabric_manager);
    read_service_state(machine, source, "nvidia-imex", &d->imex);
    if (!text_is(d->fabric_manager, "absent"))
        read_service_version(machine, source, &d->fabric_manager_version);
}
