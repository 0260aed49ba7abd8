/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines. A line is written with one write(2) so that lines of several PEs do not mix. */
#include "base/log.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/printable.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static _Atomic int own_pe = -1;
static uint64_t start_ns;

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

int log_enabled(enum log_level level)
{
    return (int)level <= config_choice(CONFIG_LOG);
}

void log_line(enum log_level level, const char *format, ...)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    if (!log_enabled(level))
        return;

    double seconds = (double)(clock_now_ns() - start_ns) * 1e-9;
    int pe = atomic_load_explicit(&own_pe, memory_order_relaxed);

    char line[1400];
    int n = pe < 0 ? snprintf(line, sizeof line, "weft %.6f %s: ", seconds, names[level])
                   : snprintf(line, sizeof line, "weft[%d] %.6f %s: ", pe, seconds, names[level]);
    va_list args;
    va_start(args, format);
    vsnprintf(line + n, sizeof line - (size_t)n - 1, format, args);
    va_end(args);
    n = (int)strlen(printable(line));
    line[n++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, (size_t)n);
    (void)written;
}
