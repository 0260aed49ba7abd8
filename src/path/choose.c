/* SPDX-License-Identifier: Apache-2.0 */
/* Which path to take: a pure function of facts and configuration, so that it can be replayed on a
 * recorded machine and tested by tables. */
#include "path/path.h"

#include "base/status.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    bool exists;
} paths[PATH_COUNT] = {
#define ROW(id, name, exists) {name, exists},
    PATH_LIST(ROW)
#undef ROW
};

/* The library's own order: the fastest class first. `weak` is for tests and never chosen unasked. */
static const enum path_id own_order[] = {PATH_SELF, PATH_P2P, PATH_STAGED, PATH_GDA, PATH_NET};

const char *path_name(enum path_id path)
{
    return (unsigned)path < PATH_COUNT ? paths[path].name : "unknown";
}

static weft_status find_path(const char *word, size_t length, enum path_id *path)
{
    for (int i = 0; i < PATH_COUNT; i++) {
        if (strlen(paths[i].name) != length || strncmp(paths[i].name, word, length) != 0)
            continue;
        if (!paths[i].exists)
            return base_fail(WEFT_ERR_CONFIG,
                             "WEFT_PATH names \"%s\", which this version of Weft "
                             "does not have yet",
                             paths[i].name);
        *path = (enum path_id)i;
        return WEFT_OK;
    }
    return base_fail(WEFT_ERR_CONFIG,
                     "WEFT_PATH names \"%.*s\", which is not a path; paths are self, p2p, weak",
                     (int)length, word);
}

static weft_status parse_word(const char *word, size_t length, struct path_order *order)
{
    bool exclude = length > 0 && word[0] == '^';
    enum path_id path = PATH_SELF;
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

/* NULL when the path can be used between the two, else why not. */
static const char *obstacle(enum path_id path, const struct path_facts *facts,
                            const struct path_order *order)
{
    if (order->excluded & (1u << path))
        return "excluded by WEFT_PATH";
    if (!paths[path].exists)
        return "not in this version of Weft";
    switch (path) {
    case PATH_SELF:
        return facts->same_pe ? NULL : "another PE";
    case PATH_P2P:
    case PATH_WEAK:
        if (facts->same_pe && path == PATH_P2P)
            return "the same PE";
        if (!facts->same_node)
            return "the PEs run on different kernels";
        if (!facts->shared_memory)
            return "the peer's memory is not mapped here";
        return facts->mapped_proof < 0 ? "its proof failed" : NULL;
    default:
        return "not in this version of Weft";
    }
}

weft_status path_choose(const struct path_facts *facts, const struct path_order *order,
                        struct path_choice *choice)
{
    const enum path_id *list = order->forced ? order->order : own_order;
    int count = order->forced ? order->count : (int)(sizeof own_order / sizeof own_order[0]);
    size_t used = 0;
    char *text = choice->reason;
    text[0] = '\0';
    /* A PE reaches itself by plain copies whatever is forced between PEs, unless that is excluded. */
    if (facts->same_pe && !obstacle(PATH_SELF, facts, order)) {
        choice->path = PATH_SELF;
        snprintf(text, sizeof choice->reason, "the same PE");
        return WEFT_OK;
    }
    for (int i = 0; i < count; i++) {
        const char *why_not = obstacle(list[i], facts, order);
        if (!why_not) {
            choice->path = list[i];
            snprintf(text + used, sizeof choice->reason - used, "%s%s: %s", used ? "; " : "",
                     path_name(list[i]), order->forced ? "chosen by WEFT_PATH" : "shared memory");
            return WEFT_OK;
        }
        int n = snprintf(text + used, sizeof choice->reason - used, "%s%s: %s", used ? "; " : "",
                         path_name(list[i]), why_not);
        used = n > 0 && used + (size_t)n < sizeof choice->reason ? used + (size_t)n : used;
    }
    return base_fail(WEFT_ERR_NO_PATH, "no path is left (%s)%s", text,
                     order->forced ? "; WEFT_PATH allows no other" : "");
}
