/* SPDX-License-Identifier: Apache-2.0 */
/* The names of paths, and WEFT_PATH as a list of them. Needs no table of a path. */
#include "path/path.h"

#include "base/status.h"

#include <stdio.h>
#include <string.h>

const char *path_name(enum path_id path)
{
    static const char *const names[PATH_COUNT] = {
#define NAME(id, table) [PATH_##id] = #table,
        PATH_LIST(NAME)
#undef NAME
    };
    return (unsigned)path < PATH_COUNT ? names[path] : "none";
}

static void list_paths(char *text, size_t bytes)
{
    size_t used = 0;
    for (int i = 0; i < PATH_COUNT && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", i ? ", " : "",
                                 path_name((enum path_id)i));
}

static weft_status fail_unknown_path(const char *word, size_t length)
{
    char names[128];
    list_paths(names, sizeof names);
    return base_fail(WEFT_ERR_CONFIG, "WEFT_PATH names \"%.*s\", which is not a path; paths are %s",
                     (int)length, word, names);
}

static weft_status find_path(const char *word, size_t length, enum path_id *path)
{
    for (int i = 0; i < PATH_COUNT; i++) {
        const char *name = path_name((enum path_id)i);
        if (strlen(name) == length && strncmp(name, word, length) == 0) {
            *path = (enum path_id)i;
            return WEFT_OK;
        }
    }
    return fail_unknown_path(word, length);
}

static weft_status parse_word(const char *word, size_t length, struct path_order *order)
{
    bool exclude = length > 0 && word[0] == '^';
    enum path_id path = PATH_NONE;
    weft_status status = find_path(word + exclude, length - exclude, &path);
    if (status)
        return status;
    if (exclude) {
        order->excluded |= 1u << path;
        return WEFT_OK;
    }
    for (int i = 0; i < order->count; i++)
        if (order->order[i] == path)
            return WEFT_OK;
    order->order[order->count++] = path;
    order->forced = true;
    return WEFT_OK;
}

weft_status path_order_parse(const char *text, struct path_order *order)
{
    *order = (struct path_order){0};
    while (*text) {
        size_t length = strcspn(text, ",");
        weft_status status = parse_word(text, length, order);
        if (status)
            return status;
        text += length + (text[length] == ',');
    }
    return WEFT_OK;
}
