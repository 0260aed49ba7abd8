/* SPDX-License-Identifier: Apache-2.0 */
/* One line on stderr per event, with level, PE and the time since the process loaded the library.
 * The level comes from WEFT_LOG; a fault is logged once, where it is first detected. */
#ifndef WEFT_BASE_LOG_H
#define WEFT_BASE_LOG_H

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_line(enum log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3), cold));
int log_enabled(enum log_level level);
void log_set_pe(int pe);

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...)                                                                             \
    do {                                                                                           \
        if (log_enabled(LOG_DEBUG))                                                                \
            log_line(LOG_DEBUG, __VA_ARGS__);                                                      \
    } while (0)

#endif
