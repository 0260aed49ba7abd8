/* SPDX-License-Identifier: Apache-2.0 */
/* One line per event, on stderr or in WEFT_LOG_FILE, with the subsystem, the PE and the time since
 * the process loaded the library. WEFT_LOG sets the levels; a fault is logged once, where it is
 * first detected. */
#ifndef WEFT_BASE_LOG_H
#define WEFT_BASE_LOG_H

#include "base/log_levels.h"

void log_line(enum log_level level, enum log_subsystem subsystem, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));
int log_enabled(enum log_level level, enum log_subsystem subsystem);
void log_set_pe(int pe);

#define log_error(subsystem, ...) log_line(LOG_ERROR, subsystem, __VA_ARGS__)
#define log_warn(subsystem, ...)  log_line(LOG_WARN, subsystem, __VA_ARGS__)
#define log_info(subsystem, ...)  log_line(LOG_INFO, subsystem, __VA_ARGS__)
#define log_debug(subsystem, ...)                                                                  \
    do {                                                                                           \
        if (log_enabled(LOG_DEBUG, subsystem))                                                     \
            log_line(LOG_DEBUG, subsystem, __VA_ARGS__);                                           \
    } while (0)

#endif
