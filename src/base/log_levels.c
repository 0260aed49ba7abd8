/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing of WEFT_LOG. See log_levels.h. */
#include "base/log_levels.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

const char *const log_level_names[] = {"error", "warn", "info", "debug"};

const char *const log_subsystem_names[] = {
#define NAME(id, name) name,
    LOG_SUBSYSTEMS(NAME)
#undef NAME
};

_Static_assert(2 * LOG_SUBSYSTEM_COUNT <= 8 * sizeof(log_levels), "two bits a subsystem");

/* Returns the index of a name with that length, in any case of letters, or -1. */
static int find_word(const char *const *names, int count, const char *text, size_t length)
{
    for (int i = 0; i < count; i++)
        if (strlen(names[i]) == length && strncasecmp(names[i], text, length) == 0)
            return i;
    return -1;
}

/* Parses one entry, LEVEL or SUBSYSTEM:LEVEL. */
static bool parse_entry(const char *text, size_t length, log_levels *levels)
{
    int first = 0, last = LOG_SUBSYSTEM_COUNT - 1;
    const char *colon = memchr(text, ':', length);
    if (colon) {
        size_t name_length = (size_t)(colon - text);
        first = last = find_word(log_subsystem_names, LOG_SUBSYSTEM_COUNT, text, name_length);
        text += name_length + 1;
        length -= name_length + 1;
    }
    int level = find_word(log_level_names, LOG_DEBUG + 1, text, length);
    if (first < 0 || level < 0)
        return false;
    for (int i = first; i <= last; i++)
        *levels = (*levels & ~((log_levels)3 << (2 * i))) | (log_levels)level << (2 * i);
    return true;
}

bool log_levels_parse(const char *text, log_levels *levels)
{
    parse_entry("warn", 4, levels);
    for (;;) {
        size_t length = strcspn(text, ",");
        if (!parse_entry(text, length, levels))
            return false;
        if (!text[length])
            return true;
        text += length + 1;
    }
}
