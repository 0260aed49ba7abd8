/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines. A line is written with one write(2) so that lines of several PEs do not mix. */
#include "base/log.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/printable.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 1600, HOST_BYTES = 65 };

static _Atomic int own_pe = -1;
static uint64_t start_ns;
static pthread_once_t file_once = PTHREAD_ONCE_INIT;
static int file_fd = -1; /* WEFT_LOG_FILE, or -1 */
static char host_name[HOST_BYTES];

/* A failure is often the only line of a process; its time must show how long the process had
 * run. */
static __attribute__((constructor)) void record_start(void)
{
    start_ns = clock_now_ns();
}

void log_set_pe(int pe)
{
    atomic_store_explicit(&own_pe, pe, memory_order_relaxed);
}

int log_enabled(enum log_level level, enum log_subsystem subsystem)
{
    return (int)level <= log_level_of((log_levels)config_int(CONFIG_LOG), subsystem);
}

/* Replaces %h, %p and %% of WEFT_LOG_FILE. Returns false where the name is too long. */
static bool make_file_name(const char *pattern, char *name, size_t bytes)
{
    size_t n = 0;
    for (; *pattern && n < bytes; pattern++) {
        if (*pattern != '%')
            n += (size_t)snprintf(name + n, bytes - n, "%c", *pattern);
        else if (*++pattern == 'h')
            n += (size_t)snprintf(name + n, bytes - n, "%s", host_name);
        else if (*pattern == 'p')
            n += (size_t)snprintf(name + n, bytes - n, "%d", (int)getpid());
        else
            n += (size_t)snprintf(name + n, bytes - n, "%%");
    }
    return n < bytes;
}

/* O_NONBLOCK: a FIFO without a reader must not stop the job. */
static void open_file(void)
{
    char name[PATH_MAX];
    const char *pattern = config_string(CONFIG_LOG_FILE);
    if (!pattern[0])
        return;
    if (gethostname(host_name, sizeof host_name - 1))
        snprintf(host_name, sizeof host_name, "unknown");
    if (make_file_name(pattern, name, sizeof name))
        file_fd =
            open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644);
    else
        errno = ENAMETOOLONG;
    if (file_fd < 0)
        dprintf(STDERR_FILENO,
                "weft: WEFT_LOG_FILE: %.200s cannot be opened: %s; log lines go to stderr\n",
                printable(name), strerror(errno));
}

/* Writes the wall clock (UTC) and the host, with which each line of a file begins. */
static int format_origin(char *text, size_t bytes)
{
    struct timespec now;
    struct tm utc;
    char date[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
    return snprintf(text, bytes, "%s.%06ldZ %s ", date, now.tv_nsec / 1000, host_name);
}

void log_line(enum log_level level, enum log_subsystem subsystem, const char *format, ...)
{
    if (!log_enabled(level, subsystem))
        return;
    pthread_once(&file_once, open_file);

    double seconds = (double)(clock_now_ns() - start_ns) * 1e-9;
    int pe = atomic_load_explicit(&own_pe, memory_order_relaxed);

    char line[LINE_BYTES], who[24] = "";
    int origin = file_fd < 0 ? 0 : format_origin(line, sizeof line);
    if (pe >= 0)
        snprintf(who, sizeof who, "[%d]", pe);
    int n =
        origin + snprintf(line + origin, sizeof line - (size_t)origin, "weft%s %.6f %s %s: ", who,
                          seconds, log_level_names[level], log_subsystem_names[subsystem]);
    va_list args;
    va_start(args, format);
    vsnprintf(line + n, sizeof line - (size_t)n - 1, format, args);
    va_end(args);
    n = (int)strlen(printable(line));
    line[n++] = '\n';
    ssize_t written = file_fd < 0 ? 0 : write(file_fd, line, (size_t)n);
    /* An error is also shown to the user who watches the job. */
    if (file_fd < 0 || level == LOG_ERROR || written != n)
        written = write(STDERR_FILENO, line + origin, (size_t)(n - origin));
    (void)written;
}
