/* SPDX-License-Identifier: Apache-2.0 */
/* The job that start.c simulates, in real processes of this machine: `weft run --hosts` with a
 * remote shell that starts the agents here, and PEs that exchange as the simulated ones do. See
 * scale.h. */
#include "bench/bench.h"
#include "bench/scale/group.h"
#include "commands.h"
#include "own_path.h"

#include "tool/boot.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCHES = 15, EXCHANGES = 10, RUNS = 5 };

/* weft bench scale --as-shell HOST COMMAND...: executes the command here. */
int scale_be_shell(int argc, char **argv)
{
    if (argc < 2)
        return EXIT_USAGE;
    execvp(argv[1], argv + 1);
    fprintf(stderr, "weft bench scale: %s: %s\n", argv[1], strerror(errno));
    return 127;
}

/* Mean time of an exchange: the median of batches. */
static double time_exchanges(struct boot *boot, int batches, const char *mine, char *all,
                             size_t bytes, weft_status *status)
{
    double means[BATCHES];
    for (int batch = 0; batch < batches && !*status; batch++) {
        uint64_t began = clock_now_ns();
        for (int i = 0; i < EXCHANGES && !*status; i++)
            *status = boot->ops->allgather(boot, mine, all, bytes);
        means[batch] = (double)(clock_now_ns() - began) / 1000 / EXCHANGES;
    }
    return *status ? 0 : scale_median(means, batches);
}

/* 1 barrier and 1 exchange, as the simulated job has, or many that are timed. */
static weft_status exchange(struct boot *boot, size_t bytes, bool many, double us[SCALE_REPEATED])
{
    char *mine = calloc(1, bytes + 1), *all = calloc((size_t)boot->npes, bytes + 1);
    weft_status status = mine && all ? WEFT_OK : WEFT_ERR_NO_MEMORY;
    if (!status && many) {
        us[0] = time_exchanges(boot, BATCHES, NULL, NULL, 0, &status);
        us[1] = time_exchanges(boot, BATCHES, mine, all, bytes, &status);
    } else if (!status) {
        status = boot->ops->allgather(boot, NULL, NULL, 0);
        status = status ? status : boot->ops->allgather(boot, mine, all, bytes);
    }
    free(mine);
    free(all);
    return status;
}

/* weft bench scale --as-pe FILE BYTES MANY: exchanges; with MANY, PE 0 writes the times. */
int scale_be_pe(int argc, char **argv)
{
    struct boot *boot;
    double us[SCALE_REPEATED] = {0};
    if (argc < 3)
        return EXIT_USAGE;
    const bool many = *argv[2] == '1';
    weft_status status = boot_open(&boot, NULL, 0);
    if (status) {
        fprintf(stderr, "weft bench scale: %s\n", weft_last_error());
        return EXIT_FAULT;
    }
    status = exchange(boot, strtoul(argv[1], NULL, 10), many, us);
    FILE *file = !status && many && boot->pe == 0 ? fopen(argv[0], "we") : NULL;
    if (file)
        fprintf(file, "%f %f\n", us[0], us[1]);
    if (file)
        fclose(file);
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

/* The measured job: this program, and files for its results. */
struct measured_job {
    const struct scale_job *job;
    char self[PATH_MAX];
    char counts[64], times[64]; /* paths of files in memory, which end with this process */
    char *hosts;
    double all_s, own_s; /* time of CPUs: of all processes of the machine, and of this job */
};

/* Time that the CPUs of this machine were not idle; 0: unknown. */
static double read_busy_s(void)
{
    unsigned long long user = 0, nice = 0, kernel = 0, idle, wait, irq = 0, soft = 0, stolen = 0;
    FILE *file = fopen("/proc/stat", "re");
    if (file && fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &kernel,
                       &idle, &wait, &irq, &soft, &stolen) != 8)
        user = nice = kernel = irq = soft = stolen = 0;
    if (file)
        fclose(file);
    return (double)(user + nice + kernel + irq + soft + stolen) / (double)sysconf(_SC_CLK_TCK);
}

static double to_s(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

/* Starts the job in a child process: `weft run` in it changes signals and limits. */
static bool run_measured_job(struct measured_job *measured, bool many)
{
    const struct scale_job *job = measured->job;
    char *self = measured->self, rsh[PATH_MAX + 40], fan_out[24], bytes[24];
    struct rusage used;
    snprintf(rsh, sizeof rsh, "%s bench scale --as-shell", self);
    snprintf(fan_out, sizeof fan_out, "--fan-out=%d", job->fan_out);
    snprintf(bytes, sizeof bytes, "%zu", job->bytes);
    char *const words[] = {self,
                           "run",
                           "--bind=none",
                           fan_out,
                           "--rsh",
                           rsh,
                           "--hosts",
                           measured->hosts,
                           "--count-frames",
                           measured->counts,
                           self,
                           "bench",
                           "scale",
                           "--as-pe",
                           measured->times,
                           bytes,
                           many ? "1" : "0",
                           NULL};
    const double busy_s = read_busy_s();
    pid_t pid = fork();
    int status = 0;
    if (pid == 0) {
        execv(self, words);
        _exit(127);
    }
    if (pid < 0 || wait4(pid, &status, 0, &used) != pid || status) {
        fprintf(stderr, "weft bench scale: the measured job of %d PEs failed\n", job->pes);
        return false;
    }
    measured->all_s += read_busy_s() - busy_s;
    measured->own_s += to_s(used.ru_utime) + to_s(used.ru_stime);
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

/* Measures the costs of frames, predicts with them, and measures, several times. */
static bool compare(struct measured_job *measured, struct scale_compared times[SCALE_REPEATED])
{
    double predicted[SCALE_REPEATED][RUNS], found[SCALE_REPEATED][RUNS];
    struct scale_job job = *measured->job;
    const struct scale_processes processes = {.hosts = (job.pes + job.per_host - 1) / job.per_host,
                                              .per_host =
                                                  job.pes < job.per_host ? job.pes : job.per_host};
    for (int run = 0; run < RUNS; run++) {
        double us[SCALE_REPEATED];
        if (!scale_costs_measure(&processes, &job.costs) || !scale_predict(&job, us) ||
            !run_measured_job(measured, true) ||
            !read_numbers(measured->times, "%lf %lf", &found[0][run], &found[1][run]))
            return false;
        for (int i = 0; i < SCALE_REPEATED; i++)
            predicted[i][run] = us[i];
    }
    for (int i = 0; i < SCALE_REPEATED; i++)
        times[i] = (struct scale_compared){.predicted_us = scale_median(predicted[i], RUNS),
                                           .measured_us = scale_median(found[i], RUNS),
                                           .least_us = found[i][0], /* they are sorted now */
                                           .most_us = found[i][RUNS - 1]};
    return true;
}

/* Makes a file in memory, which processes of this user open by `path` while this one runs. Returns
 * its descriptor, or -1. */
static int make_file(char *path, size_t size)
{
    int file = memfd_create("weft-scale", MFD_CLOEXEC);
    snprintf(path, size, "/proc/%d/fd/%d", (int)getpid(), file);
    return file;
}

bool scale_measure(const struct scale_job *job, struct scale_measured *measured)
{
    struct measured_job real = {.job = job};
    int counts = make_file(real.counts, sizeof real.counts);
    int times = make_file(real.times, sizeof real.times);
    if (!cli_own_path(real.self) || counts < 0 || times < 0)
        return scale_report_errno("files for the results");
    real.hosts = make_host_list(job);
    unsigned long long sent = 0, received = 0;
    bool good = real.hosts && run_measured_job(&real, false) &&
                read_numbers(real.counts, "%llu %llu", &sent, &received);
    real.all_s = real.own_s = 0;
    good = good && compare(&real, measured->times);
    measured->frames_of_launcher = sent;
    measured->frames_to_launcher = received;
    measured->others = real.all_s > real.own_s ? (real.all_s - real.own_s) / real.all_s : 0;
    free(real.hosts);
    close(counts);
    close(times);
    return good;
}
