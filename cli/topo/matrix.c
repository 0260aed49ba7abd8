/* SPDX-License-Identifier: Apache-2.0 */
/* The matrices that `weft topo` prints: distances, and with --full every figure of every pair. */
#include "topo/topo.h"

#include <inttypes.h>
#include <string.h>

#include "columns.h"
#include "machine_options.h"

typedef void cell_function(const struct topo *topo, int a, int b, char *cell, size_t size);

/* Rows [r0, r1) and columns [c0, c1) of a matrix; at most `most` columns of text, 0: no limit. */
struct area {
    int r0, r1, c0, c1;
    int least; /* least width of a cell */
    int most;
};

static int name_width(const struct topo *topo, int at)
{
    return columns_of(topo->ends[at].name);
}

static void print_block(const struct topo *topo, const struct area *area, const int *wide,
                        int first, cell_function *cell, FILE *to)
{
    fprintf(to, "%*s", first, "");
    for (int b = area->c0; b < area->c1; b++)
        fprintf(to, "  %*s", wide[b], topo->ends[b].name);
    fputc('\n', to);
    for (int a = area->r0; a < area->r1; a++) {
        fprintf(to, "%-*s", first, topo->ends[a].name);
        for (int b = area->c0; b < area->c1; b++) {
            char text[32];
            cell(topo, a, b, text, sizeof text);
            fprintf(to, "  %*s", wide[b], text);
        }
        fputc('\n', to);
    }
}

/* Number of columns that fit on a line after `first` columns of text; at least one. */
static int columns_that_fit(const struct area *area, const int *wide, int first)
{
    int used = first, n = 0;
    for (int b = area->c0; b < area->c1; b++, n++) {
        used += 2 + wide[b];
        if (area->most && used > area->most && n)
            return n;
    }
    return n ? n : 1;
}

/* Prints a matrix; a wide one as blocks of about equal width, one below the other. */
static void print_area(const struct topo *topo, struct area area, cell_function *cell, FILE *to)
{
    static int wide[TOPO_MOST];
    int first = 0;
    for (int a = area.r0; a < area.r1; a++)
        first = name_width(topo, a) > first ? name_width(topo, a) : first;
    for (int b = area.c0; b < area.c1; b++)
        wide[b] = name_width(topo, b) < area.least ? area.least : name_width(topo, b);
    int n = area.c1 - area.c0, fit = columns_that_fit(&area, wide, first), end = area.c1;
    int blocks = (n + fit - 1) / fit, each = (n + blocks - 1) / blocks;
    for (int i = 0; area.c0 < end; i++) {
        int room = columns_that_fit(&area, wide, first);
        area.c1 = area.c0 + (room < each ? room : each);
        area.c1 = area.c1 < end ? area.c1 : end;
        if (i)
            fputc('\n', to);
        print_block(topo, &area, wide, first, cell, to);
        area.c0 = area.c1;
        area.c1 = end;
    }
}

static void print_matrix(const struct topo *topo, int n, int least, cell_function *cell, FILE *to)
{
    print_area(topo, (struct area){.r1 = n, .c1 = n, .least = least}, cell, to);
}

/* Quantity of a table: speed or latency. */
struct quantity {
    int64_t (*expected)(const struct route *route);
    int64_t (*measured)(const struct machine_measured *measured);
    const char *(*show)(int64_t value, char *buffer, size_t size);
};

static int64_t route_mbps(const struct route *route)
{
    return route->mbps;
}

static int64_t route_ns(const struct route *route)
{
    return route->latency_ns;
}

static int64_t measured_mbps(const struct machine_measured *measured)
{
    return number_or(measured->write_mbps, 0);
}

static int64_t measured_ns(const struct machine_measured *measured)
{
    return number_or(measured->latency_ns, 0);
}

static const struct quantity speed = {route_mbps, measured_mbps, show_gbps};
static const struct quantity latency = {route_ns, measured_ns, show_us};

/* Expected value of the best route between two ends; 0: unknown. `off`: all routes are off. */
static int64_t expected_of(const struct topo *topo, const struct quantity *q, int a, int b,
                           bool *off, bool *direct)
{
    struct routes routes = {.n = 0};
    explain_routes(topo->machine, &topo->ends[a], &topo->ends[b], &routes);
    const struct route *best = routes_best(&routes);
    *off = routes.n && !best;
    *direct = best && route_is_direct(best);
    return best ? q->expected(best) : 0;
}

static void cell_expected(const struct topo *topo, const struct quantity *q, int a, int b,
                          char *cell, size_t size)
{
    bool off, direct;
    if (a == b || (a >= topo->gpus && b >= topo->gpus)) {
        snprintf(cell, size, a == b ? "X" : "-");
        return;
    }
    int64_t value = expected_of(topo, q, a, b, &off, &direct);
    if (off)
        snprintf(cell, size, "off");
    else
        q->show(value, cell, size);
}

static void cell_gbps(const struct topo *topo, int a, int b, char *cell, size_t size)
{
    cell_expected(topo, &speed, a, b, cell, size);
}

static void cell_us(const struct topo *topo, int a, int b, char *cell, size_t size)
{
    cell_expected(topo, &latency, a, b, cell, size);
}

static char capability(struct machine_text word, char letter)
{
    return !word.value || text_is(word, "unknown") ? '?' : text_is(word, "ok") ? letter : '-';
}

void topo_access(const struct topo *topo, int a, int b, char access[4])
{
    const struct machine_p2p *p =
        machine_find_p2p(topo->machine, topo->ends[a].index, topo->ends[b].index);
    access[0] = p ? capability(p->read, 'r') : '?';
    access[1] = p ? capability(p->write, 'w') : '?';
    access[2] = p ? capability(p->atomics, 'a') : '?';
    access[3] = '\0';
}

static void cell_p2p(const struct topo *topo, int a, int b, char *cell, size_t size)
{
    char access[4];
    topo_access(topo, a, b, access);
    snprintf(cell, size, "%s", a == b ? "X" : access);
}

/* A cell with the measured and the expected value. */
static void cell_with_expected(const struct topo *topo, const struct quantity *q, int a, int b,
                               char *cell, size_t size)
{
    const struct machine_measured *m =
        machine_find_measured(topo->machine, topo->ends[a].name, topo->ends[b].name);
    char expected[16], measured[16], percent[24];
    bool off, direct;
    if (a == b || (m && m->proof.value && !text_is(m->proof, "proven"))) {
        snprintf(cell, size, "%s", a == b ? "X" : text_is(m->proof, "failed") ? "BAD" : "OFF");
        return;
    }
    int64_t value = m ? q->measured(m) : 0, of = expected_of(topo, q, a, b, &off, &direct);
    q->show(value, measured, sizeof measured);
    snprintf(percent, sizeof percent, "%" PRId64, of > 0 ? (value * 100 + of / 2) / of : 0);
    if (direct && of > 0 && value > 0) /* measurements use direct access */
        snprintf(cell, size, "%.8s/%.8s %.6s%%", measured, q->show(of, expected, sizeof expected),
                 percent);
    else
        snprintf(cell, size, "%.8s", measured);
}

static void cell_gbps_with_expected(const struct topo *topo, int a, int b, char *cell, size_t size)
{
    cell_with_expected(topo, &speed, a, b, cell, size);
}

static void cell_us_with_expected(const struct topo *topo, int a, int b, char *cell, size_t size)
{
    cell_with_expected(topo, &latency, a, b, cell, size);
}

/* --- output ----------------------------------------------------------------------------------- */

/* Explains every label that appears in the matrix. */
static void print_legend(const struct topo *topo, bool all, FILE *to)
{
    static const char *const words[][2] = {
        {"NV", "NV#: # NVLinks bonded"},
        {"XG", "XG#: # xGMI links bonded"},
        {"PIX", "PIX: one PCIe switch between"},
        {"PXB", "PXB: several PCIe switches between"},
        {"PHB", "PHB: one root complex"},
        {"NODE", "NODE: one NUMA node"},
        {"SYS", "SYS: across NUMA nodes"},
        {"NET", "NET: in another host"},
        {"?", "?: unknown"},
        {"", "#?: links unknown"},
    };
    bool stands[sizeof words / sizeof words[0]] = {false};
    int used = 0;
    for (int a = 0; a < topo->n; a++)
        for (int b = a + 1; b < topo->n; b++) {
            char label[32];
            if (!all && topo->gpus && a >= topo->gpus)
                continue;
            topo_label(topo, a, b, label, sizeof label);
            for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
                stands[i] |= *words[i][0] ? strncmp(label, words[i][0], strlen(words[i][0])) == 0
                                          : strchr(label + 1, '?') != NULL;
        }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        int more = (int)strlen(words[i][1]);
        if (!stands[i])
            continue;
        bool fits = !used || used + 2 + more <= columns_limit();
        fprintf(to, "%s%s", !used ? "" : fits ? "  " : "\n", words[i][1]);
        used = !used || !fits ? more : used + 2 + more;
    }
    fputc('\n', to);
}

/* Whether all labels of the rows from r0 on are the same. */
static bool is_uniform(const struct topo *topo, const struct area *area, char *label, size_t size)
{
    label[0] = '\0';
    for (int a = area->r0; a < area->r1; a++)
        for (int b = area->c0; b < area->c1; b++) {
            char here[32];
            if (a == b)
                continue;
            topo_label(topo, a, b, here, sizeof here);
            if (*label && strcmp(label, here) != 0)
                return false;
            snprintf(label, size, "%s", here);
        }
    return *label;
}

/* Least width of a column of labels: "NODE", or "NODE?" where the links of a pair are unknown. */
static int label_width(const struct topo *topo)
{
    for (int a = 0; a < topo->gpus; a++)
        for (int b = a + 1; b < topo->gpus; b++)
            if (routes_links(topo->machine, topo->ends[a].index, topo->ends[b].index).unknown)
                return 5;
    return 4;
}

static bool fits_on_lines(const struct topo *topo, int columns)
{
    int used = 0;
    for (int a = 0; a < topo->n; a++)
        used = name_width(topo, a) > used ? name_width(topo, a) : used;
    for (int b = 0; b < columns; b++)
        used += 2 + (name_width(topo, b) > 4 ? name_width(topo, b) : 4);
    return used <= columns_limit();
}

void topo_matrix(const struct topo *topo, FILE *to)
{
    char label[32];
    int columns = topo->gpus ? topo->gpus : topo->n;
    struct area gpus = {.r1 = columns, .c1 = columns};
    struct area others = {.r0 = columns,
                          .r1 = topo->n,
                          .c1 = columns,
                          .least = label_width(topo),
                          .most = columns_limit()};
    bool alike = columns < 2 || is_uniform(topo, &gpus, label, sizeof label);
    if (alike && columns > 1)
        fprintf(to, "%s%d pair%s of %s: %s\n", columns > 2 ? "all " : "",
                columns * (columns - 1) / 2, columns > 2 ? "s" : "",
                topo->gpus ? "GPUs" : "devices", label);
    others.r0 = alike ? columns : 0;
    struct area nics = {.r0 = columns, .r1 = columns + topo->nics, .c1 = columns};
    if (alike && topo->gpus && !fits_on_lines(topo, columns) &&
        is_uniform(topo, &nics, label, sizeof label)) {
        fprintf(to, "all %d pairs of a GPU and a NIC: %s\n", topo->gpus * topo->nics, label);
        others.r0 = nics.r1;
    }
    if (others.r0 < others.r1)
        print_area(topo, others, topo_label, to);
}

void topo_distances(const struct topo *topo, FILE *to)
{
    int columns = topo->gpus ? topo->gpus : topo->n;
    if (topo->n < 2)
        return;
    columns_print_heading(to, "Distance");
    if (fits_on_lines(topo, columns) || !topo_host_distances(topo, to))
        topo_matrix(topo, to);
    print_legend(topo, false, to);
}

static void print_measured(const struct topo *topo, FILE *to)
{
    if (topo->machine->n_measured == 0 || topo->gpus < 2)
        return;
    columns_print_heading(to, "Measured/expected GB/s, row writes to column (BAD: test failed, "
                              "OFF: no peer access)");
    print_matrix(topo, topo->gpus, 12, cell_gbps_with_expected, to);
    columns_print_heading(to, "Measured/expected us, one way, 8 bytes");
    print_matrix(topo, topo->gpus, 14, cell_us_with_expected, to);
}

void topo_matrices(const struct topo *topo, FILE *to)
{
    if (topo->n > 1) {
        columns_print_heading(to, "Distance");
        print_matrix(topo, topo->n, label_width(topo), topo_label, to);
        print_legend(topo, true, to);
        columns_print_heading(to, "Expected GB/s, one way, large copies");
        print_matrix(topo, topo->n, 4, cell_gbps, to);
    }
    if (topo->gpus > 1) {
        columns_print_heading(to, "Expected us, one way, 8 bytes");
        print_matrix(topo, topo->gpus, 4, cell_us, to);
        columns_print_heading(to, "Peer access by the driver (r read, w write, a atomics, "
                                  "- refused, ? unknown)");
        print_matrix(topo, topo->gpus, 4, cell_p2p, to);
    }
    print_measured(topo, to);
}
