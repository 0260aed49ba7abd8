/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the path of a pair: a pure function of facts, path tests and configuration, so that it
 * can be replayed on a recorded machine and tested by tables. The paths are those of the list in
 * path.h. */
#include "path/path.h"

#include "base/status.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

/* NULL if the path can be used between the two PEs, else why not. */
static const char *find_obstacle(enum path_id path, const struct path_facts *facts,
                                 const struct path_order *order)
{
    if (order->excluded & (1u << path))
        return "excluded by WEFT_PATH";
    if (facts->failed & (1u << path))
        return "its path test failed";
    const char *why_not = path_ops_of(path)->obstacle(facts);
    return why_not ? why_not : facts->lacks[path];
}

/* Whether WEFT_PATH restricts the paths to this memory. It does not if it names only paths that
 * cannot reach such memory. */
static bool is_restricted(const struct path_facts *facts, const struct path_order *order)
{
    bool applies = facts->kind == WEFT_GPU;
    for (int i = 0; i < order->count; i++)
        applies |= !path_ops_of(order->order[i])->gpu_only;
    return order->forced && applies;
}

/* The k-th path to try; PATH_NONE after the last. The order is that of WEFT_PATH, or that of the
 * list. A PE reaches its own memory by plain copies whatever WEFT_PATH names for other PEs, unless
 * that is excluded. */
static enum path_id find_candidate(const struct path_facts *facts, const struct path_order *order,
                                   int k)
{
    bool forced = is_restricted(facts, order);
    bool own_first = facts->same_pe && forced;
    if (own_first && k == 0)
        return PATH_SELF;
    k -= own_first;
    if (forced)
        return k < order->count ? order->order[k] : PATH_NONE;
    for (int i = 0; i < PATH_COUNT; i++) {
        const struct path_ops *ops = path_ops_of((enum path_id)i);
        bool usable = ops->automatic && (facts->kind == WEFT_GPU || !ops->gpu_only);
        if (usable && k-- == 0)
            return (enum path_id)i;
    }
    return PATH_NONE;
}

static const char *explain_choice(enum path_id path, const struct path_facts *facts,
                                  const struct path_order *order)
{
    const struct path_ops *ops = path_ops_of(path);
    return facts->same_pe                ? "the same PE"
           : facts->has[path]            ? facts->has[path]
           : ops->route                  ? ops->route(facts)
           : is_restricted(facts, order) ? "chosen by WEFT_PATH"
                                         : ops->why;
}

bool path_is_slow(uint32_t mbps, uint32_t behind)
{
    return mbps && behind / 2 > mbps;
}

const char *path_why(enum path_id path, const struct path_facts *facts,
                     const struct path_order *order, enum path_id chosen)
{
    const char *why_not = find_obstacle(path, facts, order);
    enum path_id tried;
    if (path == chosen)
        return explain_choice(path, facts, order);
    if (why_not)
        return why_not;
    for (int k = 0; (tried = find_candidate(facts, order, k)) != PATH_NONE; k++)
        if (tried == path)
            return "another path has priority";
    return is_restricted(facts, order) ? "WEFT_PATH does not name it"
                                       : "used only if WEFT_PATH names it";
}

/* Appends a reason behind `used` bytes of text, and returns the new length. */
static size_t add_reason(char *text, size_t used, size_t space, enum path_id path, const char *why)
{
    enum { REASON_LEAST_BYTES = 24 };
    char reason[PATH_REASON_BYTES];
    if (used + REASON_LEAST_BYTES > space)
        return used;
    snprintf(reason, sizeof reason, "%s%s: %.*s", used ? "; " : "", path_name(path),
             (int)sizeof reason - 32, why);
    base_shorten(text + used, space - used, reason);
    return used + strlen(text + used);
}

weft_status path_choose(const struct path_facts *facts, const struct path_order *order,
                        struct path_choice *choice, char text[PATH_REASON_BYTES])
{
    size_t used = 0;
    enum path_id path;
    enum { CHOSEN_BYTES = 288 }; /* space that is kept for the reason of the chosen path */
    text[0] = '\0';
    choice->reason = text;
    choice->found = "";
    choice->chosen_at = choice->shown = 0;
    for (int k = 0; (path = find_candidate(facts, order, k)) != PATH_NONE; k++) {
        const char *why_not = find_obstacle(path, facts, order);
        const char *why = why_not ? why_not : explain_choice(path, facts, order);
        size_t space = (size_t)PATH_REASON_BYTES - (why_not ? CHOSEN_BYTES : 0);
        choice->chosen_at = (uint16_t)(used ? used + 2 : 0);
        used = add_reason(text, used, space, path, why);
        choice->path = path;
        if (!why_not)
            return WEFT_OK;
    }
    choice->path = PATH_NONE;
    return base_fail(WEFT_ERR_NO_PATH, "no path is left to its %s memory (%s)%s",
                     facts->kind == WEFT_GPU ? "GPU" : "host", text,
                     is_restricted(facts, order) ? "; WEFT_PATH allows no other" : "");
}
