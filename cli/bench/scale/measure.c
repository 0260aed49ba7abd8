/* SPDX-License-Identifier: Apache-2.0 */
/* The job that start.c simulates, in real processes of this machine: `weft run --hosts` with a
 * remote shell that starts the agents here, and PEs that exchange as the simulated ones do. See
 * scale.h. */
#include "bench/bench.h"
#include "bench/scale/scale.h"
#include "commands.h"
#include "own_path.h"

#include "tool/boot.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXCHANGES = 20 };

/* weft bench scale --as-shell HOST COMMAND...: executes the command here. */
int scale_be_shell(int argc, char **argv)
{
    if (argc < 2)
        return EXIT_USAGE;
    execvp(argv[1], argv + 1);
    fprintf(stderr, "weft bench scale: %s: %s\n", argv[1], strerror(errno));
    return 127;
}

static double time_exchanges(struct boot *boot, int count, const char *mine, char *all,
                             size_t bytes, weft_status *status)
{
    uint64_t began = clock_now_ns();
    for (int i = 0; i < count && !*status; i++)
        *status = boot->ops->allgather(boot, mine, all, bytes);
    return (double)(clock_now_ns() - began) / 1000 / count;
}

/* weft bench scale --as-pe FILE BYTES MANY: 1 barrier and 1 exchange as the simulated job has, or
 * with MANY a mean of several. PE 0 writes the times. */
int scale_be_pe(int argc, char **argv)
{
    struct boot *boot;
    if (argc < 3)
        return EXIT_USAGE;
    const size_t bytes = strtoul(argv[1], NULL, 10);
    const int count = *argv[2] == '1' ? EXCHANGES : 1;
    weft_status status = boot_open(&boot, NULL, 0);
    if (status) {
        fprintf(stderr, "weft bench scale: %s\n", weft_last_error());
        return EXIT_FAULT;
    }
    char *mine = calloc(1, bytes + 1), *all = calloc((size_t)boot->npes, bytes + 1);
    if (!mine || !all)
        status = WEFT_ERR_NO_MEMORY;
    double barrier_us = status ? 0 : time_exchanges(boot, count, NULL, NULL, 0, &status);
    double exchange_us = status ? 0 : time_exchanges(boot, count, mine, all, bytes, &status);
    FILE *file = !status && boot->pe == 0 && count > 1 ? fopen(argv[0], "we") : NULL;
    if (file)
        fprintf(file, "%f %f\n", barrier_us, exchange_us);
    if (file)
        fclose(file);
    free(mine);
    free(all);
    boot->ops->close(boot, status == WEFT_OK);
    return status ? EXIT_FAULT : EXIT_GOOD;
}

/* "a,b,..." with the PEs of each host; NULL: no memory. */
static char *make_host_list(const struct scale_job *job)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    if (!to)
        return NULL;
    for (int pe = 0, host = 0; pe < job->pes; pe += job->per_host, host++)
        fprintf(to, "%shost%d:%d", host ? "," : "", host,
                job->pes - pe < job->per_host ? job->pes - pe : job->per_host);
    return fclose(to) == 0 ? text : NULL;
}

/* Starts the job in a child process: `weft run` in it changes signals and limits. */
static bool run_measured_job(const struct scale_job *job, const char *self, const char *hosts,
                             const char *counts, const char *times, bool many)
{
    char rsh[PATH_MAX + 40], fan_out[24], bytes[24];
    snprintf(rsh, sizeof rsh, "%s bench scale --as-shell", self);
    snprintf(fan_out, sizeof fan_out, "--fan-out=%d", job->fan_out);
    snprintf(bytes, sizeof bytes, "%zu", job->bytes);
    char *const words[] = {
        (char *)self, "run",         "--bind=none",    fan_out,        "--rsh",          rsh,
        "--hosts",    (char *)hosts, "--count-frames", (char *)counts, (char *)self,     "bench",
        "scale",      "--as-pe",     (char *)times,    bytes,          many ? "1" : "0", NULL};
    pid_t pid = fork();
    int status = 0;
    if (pid == 0) {
        execv(self, words);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
        fprintf(stderr, "weft bench scale: the measured job of %d PEs failed\n", job->pes);
        return false;
    }
    return true;
}

static bool read_numbers(const char *path, const char *format, void *a, void *b)
{
    FILE *file = fopen(path, "re");
    bool good = file && fscanf(file, format, a, b) == 2;
    if (file)
        fclose(file);
    if (!good)
        fprintf(stderr, "weft bench scale: %s: the measured job wrote no result\n", path);
    return good;
}

bool scale_measure(const struct scale_job *job, struct scale_measured *measured)
{
    static char self[PATH_MAX];
    char folder[] = "/tmp/weft-scale-XXXXXX", counts[64], times[64];
    if (!cli_own_path(self) || !mkdtemp(folder)) {
        fprintf(stderr, "weft bench scale: a folder in /tmp: %s\n", strerror(errno));
        return false;
    }
    snprintf(counts, sizeof counts, "%s/counts", folder);
    snprintf(times, sizeof times, "%s/times", folder);
    char *hosts = make_host_list(job);
    unsigned long long sent = 0, received = 0;
    bool good = hosts && run_measured_job(job, self, hosts, counts, times, false) &&
                read_numbers(counts, "%llu %llu", &sent, &received) &&
                run_measured_job(job, self, hosts, counts, times, true) &&
                read_numbers(times, "%lf %lf", &measured->barrier_us, &measured->exchange_us);
    measured->frames_of_launcher = sent;
    measured->frames_to_launcher = received;
    free(hosts);
    unlink(counts);
    unlink(times);
    rmdir(folder);
    return good;
}
