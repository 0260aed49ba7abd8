/* SPDX-License-Identifier: Apache-2.0 */
/* Imports the text of `nvidia-smi topo -m` (or -mp, -mps): a matrix of distances, then legends.
 * Reads the forms of several versions: NICs as columns of their own name, or as NIC0 ... with a
 * legend of names; columns "CPU Affinity", "NUMA Affinity" and "GPU NUMA ID" or fewer; SOC, the
 * former name of SYS; tabs, or the spaces of copied text; a prompt above it, "> " before quoted
 * lines; escape sequences that underline the heading. The matrix has no PCI addresses, models,
 * rates or port states. For a pair with NVLink it has neither the PCIe distance nor whether a
 * switch connects the two. These facts stay unknown. */
#include "machine/import/import.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

enum { SMI_ENDS_MOST = 128, NAME_BYTES = 48, WORD_BYTES = 96, SMI_LINKS_MOST = 64 };

enum column { COLUMN_CPUS, COLUMN_NUMA, COLUMN_GPU_NUMA, COLUMNS_MOST };

/* A row or column of the matrix. */
struct smi_end {
    char heading[NAME_BYTES]; /* "GPU0", "NIC1", "mlx5_0" */
    char name[NAME_BYTES];    /* name in the model: "gpu0", or the legend's "mlx5_2" */
    int64_t gpu;              /* GPU index, -1 for a NIC */
    unsigned long line;       /* line of its row */
    bool named;               /* the legend has its name */
};

struct smi_reader {
    struct import *im;
    const char *at, *end;
    unsigned long line;
    bool cut; /* a line was too long */
    struct smi_end ends[SMI_ENDS_MOST];
    int n;
    enum column columns[COLUMNS_MOST];
    int n_columns;
    const char *
        *cells; /* [row * n + column]: cells above the diagonal, to compare with those below */
};

/* --- lines and words -------------------------------------------------------------------------- */

/* Copies the next line without escape sequences, control characters and the "> " of a message that
 * quotes it; false at the end. */
static bool next_line(struct smi_reader *r, char *line, size_t size)
{
    size_t n = 0;
    if (r->at == r->end)
        return false;
    while (r->at < r->end && *r->at != '\n') {
        unsigned char c = (unsigned char)*r->at++;
        if (c == 0x1b) {
            while (r->at < r->end && *r->at != '\n' && !isalpha((unsigned char)*r->at))
                r->at++;
            r->at += r->at < r->end && *r->at != '\n';
            continue;
        }
        r->cut |= n + 1 == size;
        if (n + 1 < size)
            line[n++] = c < ' ' || c > '~' ? ' ' : (char)c;
    }
    r->at += r->at < r->end;
    r->line++;
    line[n] = '\0';
    for (char *quote = line + strspn(line, " "); *quote == '>'; quote += strspn(quote, " "))
        *quote = ' ';
    return true;
}

/* Copies the next word of a line; empty when there is none. Truncates longer words, which match no
 * known word. */
static const char *next_word(const char *at, char word[WORD_BYTES])
{
    size_t n = strcspn(at += strspn(at, " "), " ");
    snprintf(word, WORD_BYTES, "%.*s", (int)(n < WORD_BYTES ? n : WORD_BYTES - 1), at);
    return at + n;
}

/* "GPU12" -> 12, else -1. */
static int64_t gpu_number(const char *word)
{
    int64_t number;
    if (strncmp(word, "GPU", 3) != 0 || !isdigit((unsigned char)word[3]) || strlen(word) > 7)
        return -1;
    char digits[8];
    snprintf(digits, sizeof digits, "%.6s", word + 3 + strspn(word + 3, "0"));
    return import_number(*digits ? digits : "0", 0, 1023, &number) ? number : -1;
}

static bool is_name(const char *word)
{
    static const char *const letters =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
        "_.:-";
    return isalpha((unsigned char)*word) && strspn(word, letters) == strlen(word) &&
           strlen(word) < NAME_BYTES;
}

/* --- the heading ------------------------------------------------------------------------------ */

static struct smi_end *find_heading(struct smi_reader *r, const char *word)
{
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->ends[i].heading, word) == 0)
            return &r->ends[i];
    return NULL;
}

static weft_status add_end(struct smi_reader *r, const char *word)
{
    if (!is_name(word))
        return import_fail(r->im, r->line, "\"%s\" in the heading is not the name of a GPU or NIC",
                           word);
    if (find_heading(r, word))
        return import_fail(r->im, r->line, "%s appears twice in the heading", word);
    if (r->n == SMI_ENDS_MOST)
        return import_fail(r->im, r->line, "there are more than %d columns", SMI_ENDS_MOST);
    struct smi_end *end = &r->ends[r->n++];
    end->gpu = gpu_number(word);
    snprintf(end->heading, sizeof end->heading, "%.47s", word);
    if (end->gpu >= 0)
        snprintf(end->name, sizeof end->name, "gpu%" PRId64, end->gpu);
    else
        snprintf(end->name, sizeof end->name, "%.47s", word);
    for (int i = 0; i + 1 < r->n; i++)
        if (strcmp(r->ends[i].name, end->name) == 0)
            return import_fail(r->im, r->line, "%s appears twice in the heading", word);
    return WEFT_OK;
}

/* Reads the columns to the right of the devices. */
static weft_status read_columns(struct smi_reader *r, const char *at)
{
    static const char *const titles[] = {"CPU Affinity", "NUMA Affinity", "GPU NUMA ID"};
    at += strspn(at, " ");
    while (*at) {
        int c = 0;
        while (c < COLUMNS_MOST && strncmp(at, titles[c], strlen(titles[c])) != 0)
            c++;
        if (c == COLUMNS_MOST || r->n_columns == COLUMNS_MOST)
            return import_fail(r->im, r->line,
                               "the heading \"%.40s\" is not known; known are devices, CPU "
                               "Affinity, NUMA Affinity and GPU NUMA ID",
                               at);
        r->columns[r->n_columns++] = (enum column)c;
        at += strlen(titles[c]);
        at += strspn(at, " ");
    }
    return WEFT_OK;
}

static weft_status read_heading(struct smi_reader *r, const char *line)
{
    char word[WORD_BYTES];
    for (const char *at = line, *after;; at = after) {
        after = next_word(at, word);
        if (!*word)
            return WEFT_OK;
        if (strcmp(word, "X") == 0)
            return import_fail(r->im, r->line, "the heading that names the columns is missing");
        if (strcmp(word, "CPU") == 0 || strcmp(word, "NUMA") == 0 || strcmp(word, "GPU") == 0)
            return read_columns(r, at);
        weft_status status = add_end(r, word);
        if (status)
            return status;
    }
}

/* --- rows ------------------------------------------------------------------------------------- */

/* Index of a distance, -1 when the word is not a distance. */
static int distance_of(const char *word)
{
    static const char *const words[] = {"PIX", "PXB", "PHB", "NODE", "SYS", "SOC"};
    for (int i = 0; i < 6; i++)
        if (strcmp(word, words[i]) == 0)
            return i;
    return -1;
}

static int64_t links_of(const char *word)
{
    int64_t links;
    return strncmp(word, "NV", 2) == 0 && import_number(word + 2, 1, SMI_LINKS_MOST, &links) ? links
                                                                                             : 0;
}

static weft_status bad_cell(const struct smi_reader *r, int row, int column, const char *word)
{
    if (word_is_one_of(word, "OK|NS|CNS|GNS|TNS|DR|U"))
        return import_fail(r->im, r->line,
                           "this is a matrix of nvidia-smi topo -p2p, which has no distances; "
                           "topo -m writes them");
    return import_fail(r->im, r->line,
                       "%s %s: \"%.20s\" is not one of X, PIX, PXB, PHB, NODE, SYS, SOC, NV#",
                       r->ends[row].heading, r->ends[column].heading, word);
}

static weft_status read_cell(struct smi_reader *r, int row, int column, const char *word)
{
    struct machine *m = r->im->machine;
    static const char *const levels[] = {"pix", "pxb", "phb", "node", "sys", "sys"};
    const struct smi_end *a = &r->ends[row], *b = &r->ends[column];
    const char **mirror = &r->cells[column * r->n + row];
    int level = distance_of(word);
    if (level < 0 && !(links_of(word) && a->gpu >= 0 && b->gpu >= 0))
        return bad_cell(r, row, column, word);
    if (row > column && strcmp(*mirror, word) != 0)
        return import_fail(r->im, r->line, "%s %s is %s, but %s %s in line %lu is %s", a->heading,
                           b->heading, word, b->heading, a->heading, b->line, *mirror);
    if (row > column)
        return WEFT_OK;
    r->cells[row * r->n + column] = machine_printf(m, "%s", word);
    struct machine_distance *d = machine_add_distance(m);
    text_set(m, &d->a, a->name);
    text_set(m, &d->b, b->name);
    if (level >= 0)
        text_set(m, &d->level, levels[level]);
    else
        text_unknown(m, &d->level, "nvidia-smi prints the links of this pair instead");
    if (level < 0)
        number_set(&d->links, links_of(word));
    return WEFT_OK;
}

static bool is_cpu_list(const char *word)
{
    return isdigit((unsigned char)*word) && strspn(word, "0123456789,-") == strlen(word);
}

/* The CPU affinity of a GPU with a single NUMA node is the list of CPUs of that node. It is unknown
 * when two GPUs report different CPUs for a node. */
static void set_cpus(struct machine *m, int64_t node, const char *cpus)
{
    struct machine_numa *numa = machine_find_numa(m, node);
    if (!numa) {
        numa = machine_add_numa(m);
        number_set(&numa->index, node);
        if (cpus)
            text_set(m, &numa->cpus, cpus);
    } else if (cpus && numa->cpus.value && strcmp(numa->cpus.value, cpus) != 0) {
        text_unknown(m, &numa->cpus, "its GPUs report different CPUs, %s and %s", numa->cpus.value,
                     cpus);
    }
}

/* The node of "0"; of "0,3-9,11-17" too where the memory of GPUs is coherent: the nodes of MIG
 * instances follow that of the CPU. -1 for any other list. */
static int64_t cpu_node_of(const char *numa, bool coherent)
{
    char first[WORD_BYTES];
    int64_t node;
    size_t length = coherent ? strcspn(numa, ",") : strlen(numa);
    snprintf(first, sizeof first, "%.*s", (int)length, numa);
    return import_number(first, 0, 4095, &node) ? node : -1;
}

static weft_status read_smi_affinity(struct smi_reader *r, const struct smi_end *end,
                                     const char *at)
{
    struct machine *m = r->im->machine;
    char words[COLUMNS_MOST + 1][WORD_BYTES];
    const char *of[COLUMNS_MOST] = {NULL};
    int n = 0;
    for (; n <= COLUMNS_MOST; n++) {
        at = next_word(at, words[n]);
        if (!*words[n])
            break;
    }
    if (n > r->n_columns)
        return import_fail(r->im, r->line, "the row of %s is longer than the heading",
                           end->heading);
    if (n < r->n_columns || end->gpu < 0)
        return WEFT_OK; /* a short row does not show which column is absent */
    for (int i = 0; i < n; i++)
        of[r->columns[i]] = words[i];
    const char *cpus = of[COLUMN_CPUS], *numa = of[COLUMN_NUMA], *memory = of[COLUMN_GPU_NUMA];
    if (cpus && strcmp(cpus, "N/A") != 0 && !is_cpu_list(cpus))
        return import_fail(r->im, r->line, "CPU Affinity of %s: \"%s\" is not a list of CPUs",
                           end->heading, cpus);
    if (numa && strcmp(numa, "N/A") != 0 && !is_cpu_list(numa))
        return import_fail(r->im, r->line, "NUMA Affinity of %s: \"%s\" is not a list of nodes",
                           end->heading, numa);
    struct machine_gpu *gpu = machine_find_gpu(m, end->gpu);
    int64_t node = -1;
    if (memory && strcmp(memory, "N/A") != 0) {
        if (!import_number(memory, 0, 4095, &node))
            return import_fail(r->im, r->line, "GPU NUMA ID of %s: \"%s\" is not a node",
                               end->heading, memory);
        number_set(&gpu->memory_numa, node);
    }
    if (numa && (node = cpu_node_of(numa, gpu->memory_numa.known)) >= 0) {
        number_set(&gpu->numa, node);
        set_cpus(m, node, cpus && is_cpu_list(cpus) ? cpus : NULL);
    } else if (numa) {
        number_unknown(m, &gpu->numa, "nvidia-smi prints %s", numa);
    }
    return WEFT_OK;
}

static weft_status read_row(struct smi_reader *r, int row, const char *line)
{
    char word[WORD_BYTES];
    struct smi_end *end = &r->ends[row];
    const char *at = next_word(line, word);
    end->line = r->line;
    if (strcmp(word, end->heading) != 0)
        return import_fail(r->im, r->line, "expected the row of %s, found \"%.40s\"", end->heading,
                           word);
    for (int i = 0; i < r->n; i++) {
        at = next_word(at, word);
        if (!*word)
            return import_fail(r->im, r->line,
                               "the row of %s has %d cells, but the heading has %d devices",
                               end->heading, i, r->n);
        if ((i == row) != (strcmp(word, "X") == 0))
            return i == row ? import_fail(r->im, r->line, "%s %s: \"%.20s\", expected X",
                                          end->heading, end->heading, word)
                            : bad_cell(r, row, i, word);
        weft_status status = i == row ? WEFT_OK : read_cell(r, row, i, word);
        if (status)
            return status;
    }
    return read_smi_affinity(r, end, at);
}

/* --- the whole -------------------------------------------------------------------------------- */

static void add_smi_gpus(struct smi_reader *r)
{
    struct machine *m = r->im->machine;
    for (int i = 0; i < r->n; i++) {
        if (r->ends[i].gpu < 0)
            continue;
        struct machine_gpu *gpu = machine_add_gpu(m);
        number_set(&gpu->index, r->ends[i].gpu);
        text_set(m, &gpu->vendor, "nvidia");
    }
    import_number_gpus(m);
}

/* Reads a line of the legend such as "NIC0: mlx5_0"; ignores lines that explain words. */
static weft_status read_legend(struct smi_reader *r, const char *line)
{
    char word[WORD_BYTES], name[WORD_BYTES];
    next_word(next_word(line, word), name);
    size_t n = strlen(word);
    if (n < 5 || strncmp(word, "NIC", 3) != 0 || word[n - 1] != ':' ||
        !isdigit((unsigned char)word[3]))
        return WEFT_OK;
    word[n - 1] = '\0';
    struct smi_end *end = find_heading(r, word);
    if (!end)
        return import_fail(r->im, r->line, "the legend names %s, but no column has this name",
                           word);
    if (!is_name(name))
        return import_fail(r->im, r->line, "%s: \"%.40s\" is not the name of a NIC", word, name);
    for (int i = 0; i < r->n; i++)
        if (end->named || strcmp(r->ends[i].name, name) == 0)
            return import_fail(r->im, r->line, "%s: %s is named twice", word, name);
    snprintf(end->name, sizeof end->name, "%.47s", name);
    end->named = true;
    return WEFT_OK;
}

/* Replaces the names of the heading by those of the legend, and adds the NICs. */
static void rename_ends(struct smi_reader *r)
{
    struct machine *m = r->im->machine;
    for (int i = 0; i < r->n; i++) {
        const struct smi_end *end = &r->ends[i];
        for (size_t d = 0; end->named && d < m->n_distances; d++) {
            struct machine_distance *distance = &m->distances[d];
            if (text_is(distance->a, end->heading))
                text_set(m, &distance->a, end->name);
            if (text_is(distance->b, end->heading))
                text_set(m, &distance->b, end->name);
        }
        if (end->gpu < 0)
            text_set(m, &machine_add_nic(m)->name, end->name);
    }
}

static bool is_gpu_line(const char *line)
{
    char word[WORD_BYTES];
    next_word(line, word);
    return gpu_number(word) >= 0;
}

weft_status import_smi(struct import *im, const char *text, size_t length)
{
    enum { LINE_BYTES = 16384 };
    char *line = machine_alloc(im->machine, LINE_BYTES);
    struct smi_reader *r = machine_alloc(im->machine, sizeof *r);
    *r = (struct smi_reader){.im = im, .at = text, .end = text + length};
    bool found = false;
    while (!found && next_line(r, line, LINE_BYTES))
        found = is_gpu_line(line);
    if (!found)
        return import_fail(im, 1, "there is no heading with GPU0 as nvidia-smi topo -m prints it");
    weft_status status = read_heading(r, line);
    if (status)
        return status;
    add_smi_gpus(r);
    r->cells = machine_alloc(im->machine, (size_t)r->n * (size_t)r->n * sizeof *r->cells);
    for (int row = 0; row < r->n && !status; row++) {
        if (!next_line(r, line, LINE_BYTES) || !line[strspn(line, " ")])
            return import_fail(im, r->line, "there is no row of %s (the text is truncated)",
                               r->ends[row].heading);
        status = read_row(r, row, line);
    }
    while (!status && next_line(r, line, LINE_BYTES))
        status = read_legend(r, line);
    if (!status && r->cut)
        status = import_fail(im, 1, "a line is longer than %d characters", LINE_BYTES);
    if (status)
        return status;
    rename_ends(r);
    im->machine->note = machine_printf(
        im->machine,
        "read from the text of nvidia-smi topo -m; facts it does not have are unknown");
    return WEFT_OK;
}
