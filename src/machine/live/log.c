/* SPDX-License-Identifier: Apache-2.0 */
/* Errors that the NVIDIA driver wrote into the kernel log since boot: Xid of GPUs, SXid of
 * NVSwitches. Reads /dev/kmsg, else syslog(2). Numbers are those of NVIDIA's "Xid Errors". */
#include "machine/live/live.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <unistd.h>

enum { RECORD_BYTES = 16384, LOG_MOST = 16 << 20, SYSLOG_READ_ALL = 3, SYSLOG_SIZE = 10 };

struct log_reader {
    struct machine *machine;
    double uptime_s; /* negative: not known */
};

/* Xid numbers of errors of hardware or firmware, after which a GPU or link needs at least a reset.
 * Other numbers are mostly errors of programs. */
static bool is_hardware(long xid)
{
    static const short list[] = {48,  62,  64,  74,  79,  95,  110, 119, 120, 136,
                                 140, 143, 144, 145, 146, 147, 148, 149, 150};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        if (list[i] == xid)
            return true;
    return false;
}

/* The GPU of an address such as "0000:3b:00", which has no function number. */
static struct machine_gpu *find_gpu_at(struct machine *machine, const char *place)
{
    for (size_t i = 0; i < machine->n_gpus; i++) {
        const char *bdf = text_or(machine->gpus[i].bdf, "");
        size_t length = strcspn(bdf, ".");
        if (length && strncasecmp(place, bdf, length) == 0)
            return &machine->gpus[i];
    }
    return NULL;
}

static void record_xid(struct log_reader *log, const char *line, double at_s)
{
    char place[32];
    long xid;
    if (sscanf(line, "Xid (PCI:%31[0-9a-fA-F:.]): %ld", place, &xid) != 2)
        return;
    struct machine_gpu *g = find_gpu_at(log->machine, place);
    if (!g)
        return;
    number_set(&g->xids, number_or(g->xids, 0) + 1);
    /* keeps the last hardware error, else the last error */
    if (is_hardware(number_or(g->xid, 0)) && !is_hardware(xid))
        return;
    number_set(&g->xid, xid);
    number_set(&g->xid_hardware, is_hardware(xid));
    text_set(log->machine, &g->xid_text, line);
    g->xid_age_s = (struct machine_number){.why = "the log line has no time"};
    if (log->uptime_s >= 0 && at_s >= 0 && at_s <= log->uptime_s)
        number_set(&g->xid_age_s, (int64_t)(log->uptime_s - at_s));
}

/* "SXid (PCI:0000:04:00.0): 12028, Non-fatal, Link 32 egress ...". */
static void record_sxid(struct log_reader *log, const char *line)
{
    struct machine_driver *d = &log->machine->drivers;
    bool fatal = strstr(line, "Fatal") != NULL;
    number_set(&d->sxids, number_or(d->sxids, 0) + 1);
    if (number_is(d->sxid_fatal, 1) && !fatal)
        return;
    number_set(&d->sxid_fatal, fatal);
    text_set(log->machine, &d->sxid_text, line);
}

/* Parses a record of /dev/kmsg, "6,339,5140900,-;NVRM: ...", or a line of syslog,
 * "<6>[    5.140900] NVRM: ...". */
static void parse_log_line(struct log_reader *log, char *line)
{
    double at_s = -1;
    unsigned long long microseconds;
    if (sscanf(line, "%*u,%*u,%llu,", &microseconds) == 1)
        at_s = (double)microseconds / 1e6;
    else if (sscanf(line, "<%*u>[ %lf]", &at_s) != 1)
        at_s = -1;
    char *sxid = strstr(line, "SXid (PCI:"), *xid = strstr(line, "Xid (PCI:");
    if (sxid && strstr(line, "nvidia-nvswitch"))
        record_sxid(log, sxid);
    else if (xid && !sxid && strstr(line, "NVRM"))
        record_xid(log, xid, at_s);
}

static void parse_log_text(struct log_reader *log, char *text)
{
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        parse_log_line(log, line);
}

/* Each read of /dev/kmsg returns one record; EPIPE means that records were overwritten meanwhile. A
 * plain file, as in tests, returns everything. */
static bool read_kmsg(struct log_reader *log, const char *path)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    char *record = fd >= 0 ? malloc(RECORD_BYTES) : NULL;
    size_t all = 0;
    ssize_t n = 0;
    while (record && all < LOG_MOST) {
        n = read(fd, record, RECORD_BYTES - 1);
        if (n < 0 && (errno == EPIPE || errno == EINTR))
            continue;
        if (n <= 0)
            break;
        record[n] = '\0';
        all += (size_t)n;
        parse_log_text(log, record);
    }
    int error = errno;
    bool good = record && (n >= 0 || error == EAGAIN);
    free(record);
    if (fd >= 0)
        close(fd);
    errno = error;
    return good;
}

static bool read_syslog(struct log_reader *log)
{
    int size = klogctl(SYSLOG_SIZE, NULL, 0);
    char *text = size > 0 ? malloc((size_t)size + 1) : NULL;
    int n = text ? klogctl(SYSLOG_READ_ALL, text, size) : -1;
    int error = errno;
    if (n >= 0) {
        text[n] = '\0';
        parse_log_text(log, text);
    }
    free(text);
    errno = error;
    return n >= 0;
}

void live_log(struct machine *machine, const struct machine_source *source)
{
    struct machine_driver *d = &machine->drivers;
    struct log_reader log = {.machine = machine, .uptime_s = -1};
    struct live_path path = live_path(source, "dev/kmsg");
    char line[64];
    bool nvidia = false;
    for (size_t i = 0; i < machine->n_gpus; i++)
        nvidia |= text_is(machine->gpus[i].vendor, "nvidia");
    if (!nvidia)
        return;
    if (live_line(live_path(source, "proc/uptime").text, line, sizeof line))
        log.uptime_s = strtod(line, NULL);
    bool read = read_kmsg(&log, path.text);
    int error = errno;
    if (!read && !*source->root)
        read = read_syslog(&log);
    number_set(&d->kernel_log, read);
    if (!read) {
        number_unknown(machine, &d->kernel_log, "%s: %s", path.text, strerror(error));
        number_unknown(machine, &d->sxids, "%s: %s", path.text, strerror(error));
        return;
    }
    number_set(&d->sxids, number_or(d->sxids, 0));
    for (size_t i = 0; i < machine->n_gpus; i++)
        number_set(&machine->gpus[i].xids, number_or(machine->gpus[i].xids, 0));
}
