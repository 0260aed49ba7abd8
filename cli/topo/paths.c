/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the pairs of a machine in one line per kind: pairs with the same distance, path,
 * figures and state share a line. */
#include "topo/topo.h"

#include <stdlib.h>
#include <string.h>

#include "columns.h"
#include "machine/checks/checks.h"
#include "machine_options.h"

enum seen { SEEN_NOT, SEEN_GOOD, SEEN_DEGRADED, SEEN_FAILED, SEEN_REFUSED };

/* State of one direction of a pair. */
struct direction {
    char label[32];
    char path[64]; /* "" when every path is off */
    char access[4];
    int64_t mbps, latency_ns;
    int64_t measured_mbps, read_mbps; /* 0: not measured; read_mbps: only for host memory */
    enum answer usable;
    enum seen seen;
};

enum { NAMED = 4 };

struct group {
    struct direction direction;
    bool one_way; /* its members are single directions, since the reverse direction differs */
    int n;
    int64_t low_mbps, high_mbps; /* range of the measured values; 0: none */
    int named[NAMED][2];
};

struct groups {
    const struct topo *topo;
    struct group *list;
    int n, capacity, pairs;
};

/* Names a path. Relay paths through different GPUs get the same name; --routes lists them. */
static void name_path(const struct route *route, char *text, size_t size)
{
    const char *through = route->kind == ROUTE_RELAY ? strstr(route->text, " through gpu") : NULL;
    if (through)
        snprintf(text, size, "%.*s through a GPU between", (int)(through - route->text),
                 route->text);
    else
        snprintf(text, size, "%s", route->text);
}

/* Compares the measured and expected values. Measurements use direct access and are not compared
 * with other paths. The path test between a GPU and the host is that of the CPU's mapping, not
 * of copies. */
static enum seen judge_pair(const struct machine *machine, const struct machine_measured *m,
                            const struct route *best, bool host)
{
    bool direct = best && route_is_direct(best);
    if (!m)
        return SEEN_NOT;
    if (text_is(m->proof, "failed") && !host)
        return SEEN_FAILED;
    if (text_is(m->proof, "refused") && !host)
        return SEEN_REFUSED;
    int64_t mbps = number_or(m->write_mbps, 0);
    if (direct && mbps && mbps < check_threshold(machine, best->mbps))
        return SEEN_DEGRADED;
    return mbps || text_is(m->proof, "proven") ? SEEN_GOOD : SEEN_NOT;
}

static void read_direction(const struct topo *topo, int a, int b, struct direction *direction)
{
    struct routes routes = {.n = 0};
    memset(direction, 0, sizeof *direction);
    bool host = topo->ends[a].kind == ENDPOINT_HOST || topo->ends[b].kind == ENDPOINT_HOST;
    if (!host) /* the host has no position in the tree */
        topo_label(topo, a, b, direction->label, sizeof direction->label);
    if (a < topo->gpus && b < topo->gpus)
        topo_access(topo, a, b, direction->access);
    explain_routes(topo->machine, &topo->ends[a], &topo->ends[b], &routes);
    const struct route *best = routes_best(&routes);
    const struct machine_measured *m =
        machine_find_measured(topo->machine, topo->ends[a].name, topo->ends[b].name);
    direction->seen = judge_pair(topo->machine, m, best, host);
    direction->measured_mbps = m ? number_or(m->write_mbps, 0) : 0;
    direction->read_mbps = m && host ? number_or(m->read_mbps, 0) : 0;
    if (!best)
        return;
    name_path(best, direction->path, sizeof direction->path);
    direction->mbps = best->mbps;
    direction->latency_ns = best->latency_ns;
    direction->usable = best->usable;
}

static bool directions_match(const struct direction *x, const struct direction *y)
{
    return strcmp(x->label, y->label) == 0 && strcmp(x->path, y->path) == 0 &&
           strcmp(x->access, y->access) == 0 && x->mbps == y->mbps &&
           x->latency_ns == y->latency_ns && x->usable == y->usable && x->seen == y->seen;
}

static struct group *find_group(struct groups *groups, const struct direction *direction,
                                bool one_way)
{
    for (int i = 0; i < groups->n; i++)
        if (groups->list[i].one_way == one_way &&
            directions_match(&groups->list[i].direction, direction))
            return &groups->list[i];
    if (groups->n == groups->capacity) {
        groups->capacity = groups->capacity ? 2 * groups->capacity : 16;
        groups->list = realloc(groups->list, (size_t)groups->capacity * sizeof *groups->list);
        if (!groups->list)
            abort();
    }
    struct group *group = &groups->list[groups->n++];
    *group = (struct group){.direction = *direction, .one_way = one_way};
    return group;
}

static void add_measured(struct group *group, int64_t mbps)
{
    if (mbps && (!group->low_mbps || mbps < group->low_mbps))
        group->low_mbps = mbps;
    if (mbps > group->high_mbps)
        group->high_mbps = mbps;
}

static void add_pair_to_group(struct groups *groups, int a, int b,
                              const struct direction *direction, bool one_way)
{
    struct group *group = find_group(groups, direction, one_way);
    if (group->n < NAMED) {
        group->named[group->n][0] = a;
        group->named[group->n][1] = b;
    }
    group->n++;
    add_measured(group, direction->measured_mbps);
    add_measured(group, direction->read_mbps);
}

/* Adds a pair, once when both directions are alike. */
static void add_one_pair(struct groups *groups, int a, int b)
{
    struct direction there, back;
    read_direction(groups->topo, a, b, &there);
    if (b >= groups->topo->gpus && groups->topo->ends[b].kind != ENDPOINT_HOST)
        back = there; /* a GPU and a NIC or disk have one path for both directions */
    else
        read_direction(groups->topo, b, a, &back);
    bool measured_back = back.seen != SEEN_NOT || there.seen == SEEN_NOT;
    if (!measured_back) /* for a GPU and the host only one direction is recorded */
        back.seen = there.seen;
    bool same = directions_match(&there, &back);
    add_pair_to_group(groups, a, b, &there, !same);
    if (same)
        add_measured(find_group(groups, &there, false), back.measured_mbps);
    else
        add_pair_to_group(groups, b, a, &back, true);
    groups->pairs++;
}

/* --- text ------------------------------------------------------------------------------------- */

static const char *access_words(const char *access)
{
    return !*access || strcmp(access, "rwa") == 0 ? ""
           : strcmp(access, "rw-") == 0           ? "; no atomics"
           : strcmp(access, "---") == 0           ? "; the driver refuses peer access"
           : strcmp(access, "???") == 0           ? "; peer access unknown"
                                                  : "; peer access in part (--full)";
}

static void seen_words(const struct group *group, char *text, size_t size)
{
    char low[16], high[16];
    static const char *const words[] = {"", "", " (degraded)", "; BAD: test failed",
                                        "; OFF: the driver refuses it"};
    snprintf(text, size, "%s", words[group->direction.seen]);
    if (!group->low_mbps || group->direction.seen > SEEN_DEGRADED)
        return;
    show_gbps(group->low_mbps, low, sizeof low);
    show_gbps(group->high_mbps, high, sizeof high);
    bool one = strcmp(low, high) == 0;
    snprintf(text, size, "; measured %s%s%s%s", low, one ? "" : " to ", one ? "" : high,
             words[group->direction.seen]);
}

static void format_figures(const struct group *group, char *text, size_t size)
{
    char gbps[16], us[16];
    const struct direction *direction = &group->direction;
    if (!*direction->path)
        snprintf(text, size, ", off: no path");
    else if (!direction->mbps)
        snprintf(text, size, ", speed unknown: %s", direction->path);
    else
        snprintf(text, size, ", %s GB/s%s%s%s: %s", show_gbps(direction->mbps, gbps, sizeof gbps),
                 direction->latency_ns ? ", " : "",
                 direction->latency_ns ? show_us(direction->latency_ns, us, sizeof us) : "",
                 direction->latency_ns ? " us" : "", direction->path);
}

/* Whether other groups have the same label, so that the matrix does not identify the pairs. */
static bool is_ambiguous(const struct groups *groups, const struct group *group)
{
    int n = 0;
    for (int i = 0; i < groups->n; i++)
        n += strcmp(groups->list[i].direction.label, group->direction.label) == 0;
    return n > 1;
}

static void names(const struct groups *groups, const struct group *group, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < NAMED && i < group->n; i++) {
        const char *a = groups->topo->ends[group->named[i][0]].name;
        const char *b = groups->topo->ends[group->named[i][1]].name;
        used += (size_t)snprintf(text + used, size - used, "%s%.32s%s%.32s", i ? ", " : "; ", a,
                                 group->one_way ? "->" : "-", b);
    }
    if (group->n > NAMED)
        snprintf(text + used, size - used, " and %d more", group->n - NAMED);
}

static const char *pair_noun(const struct group *group)
{
    if (group->one_way)
        return group->n == 1 ? "direction" : "directions";
    return group->n == 1 ? "pair" : "pairs";
}

static void print_group(const struct groups *groups, const struct group *group, const char *title,
                        FILE *to)
{
    char count[32], path[128], seen[80], who[400] = "";
    bool all = groups->n == 1 && group->n > 1;
    if (is_ambiguous(groups, group))
        names(groups, group, who, sizeof who);
    format_figures(group, path, sizeof path);
    seen_words(group, seen, sizeof seen);
    snprintf(count, sizeof count, "%s%d %s", all ? "all " : "", group->n, pair_noun(group));
    const char *label = group->direction.label;
    columns_print(to, 16, "%-13s %s%s%s%s%s%s%s%s%s", title, count, *label ? " " : "", label, path,
                  *group->direction.path && group->direction.usable == ANSWER_UNKNOWN
                      ? "; unknown whether it is on"
                      : "",
                  strchr(label + !!*label, '?') ? "; links unknown" : "",
                  access_words(group->direction.access), seen, who);
}

static int faster_first(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    if (x->direction.mbps != y->direction.mbps)
        return x->direction.mbps < y->direction.mbps ? 1 : -1;
    return strcmp(x->direction.label, y->direction.label)
               ? strcmp(x->direction.label, y->direction.label)
               : y->n - x->n;
}

/* Prints under a title the pairs of rows [0, a1) and columns [b0, b1) right of the row. */
static void print_section(const struct topo *topo, const char *title, int a1, int b0, int b1,
                          FILE *to)
{
    struct groups groups = {.topo = topo};
    for (int a = 0; a < a1; a++)
        for (int b = b0 > a ? b0 : a + 1; b < b1; b++)
            add_one_pair(&groups, a, b);
    if (groups.n)
        qsort(groups.list, (size_t)groups.n, sizeof *groups.list, faster_first);
    for (int i = 0; i < groups.n; i++)
        print_group(&groups, &groups.list[i], i ? "" : title, to);
    free(groups.list);
}

/* Prints the pairs with host memory, for which the host is temporarily added after the devices. */
static void print_host(const struct topo *topo, FILE *to)
{
    static struct topo with_host;
    with_host = *topo;
    if (topo->n == TOPO_MOST ||
        endpoint_find(topo->machine, "host", &with_host.ends[with_host.n]) != WEFT_OK)
        return;
    with_host.n++;
    print_section(&with_host, "GPU to host", topo->gpus, topo->n, with_host.n, to);
}

/* Prints how many directions between GPUs have passed the path test. */
static void print_verified(const struct topo *topo, FILE *to)
{
    int directions = 0, proven = 0;
    for (int a = 0; a < topo->gpus; a++)
        for (int b = 0; b < topo->gpus; b++) {
            const struct machine_measured *m =
                machine_find_measured(topo->machine, topo->ends[a].name, topo->ends[b].name);
            directions += a != b;
            proven += m && text_is(m->proof, "proven");
        }
    if (directions && proven)
        columns_print(to, 14,
                      "verified      %d of %d directions between GPUs: kernels on both exchanged "
                      "data, flags and atomics",
                      proven, directions);
    else if (directions)
        fputs("verified      not verified (run --measure)\n", to);
}

void topo_paths(const struct topo *topo, FILE *to)
{
    if (topo->gpus == 0)
        return;
    columns_print_heading(
        to, "Paths: expected in one direction, GB/s of large copies and us of 8 bytes");
    print_section(topo, "GPU to GPU", topo->gpus, 0, topo->gpus, to);
    print_section(topo, "GPU to NIC", topo->gpus, topo->gpus, topo->gpus + topo->nics, to);
    print_section(topo, "GPU to disk", topo->gpus, topo->gpus + topo->nics, topo->n, to);
    print_host(topo, to);
    print_verified(topo, to);
}
