/* SPDX-License-Identifier: Apache-2.0 */
/* Error log of a device: the last lines in memory, and on standard error as SOFT_HCA_LOG says. */
#include "hca.h"

#include <stdarg.h>
#include <stdio.h>

void log_error(struct device *d, const char *format, ...)
{
    struct log_line *line = &d->record.lines[d->record.line_count % LOG_LINES];
    va_list args;
    va_start(args, format);
    vsnprintf(line->text, sizeof line->text, format, args);
    va_end(args);
    line->number = ++d->record.line_count;
    d->record.errors++;
    if (d->config->log >= LOG_ERRORS)
        fprintf(stderr, "mlx5_soft%u (LID %u): %s\n", d->number, d->lid, line->text);
}
