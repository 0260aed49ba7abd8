/* SPDX-License-Identifier: Apache-2.0 */
/* Error log of a device: the last lines in memory, and on standard error as SOFT_HCA_LOG says. */
#include "hca.h"

#include <stdarg.h>
#include <stdio.h>

const char *address_text(uint32_t address, char *text)
{
    if (address_is_ipv4(address))
        snprintf(text, ADDRESS_TEXT, "%u.%u.%u.%u", address >> 24, address >> 16 & 0xff,
                 address >> 8 & 0xff, address & 0xff);
    else
        snprintf(text, ADDRESS_TEXT, "LID %u", address);
    return text;
}

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
