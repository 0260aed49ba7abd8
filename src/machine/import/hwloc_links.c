/* SPDX-License-Identifier: Apache-2.0 */
/* Imports the links of GPUs from hwloc's XML, versions 2 and 3: the matrices NVLinkBandwidth and
 * XGMIBandwidth. Rows and columns are GPUs (nvml0, rsmi0), NVSwitches and, on POWER, CPU packages.
 * A cell has the rate of all links between two of them in MB/s, one direction, with the rate of one
 * link by its generation (source: hwloc/topology-nvml.c, topology-rsmi.c). So rate divided by rate
 * is the number of links. XGMIBandwidth has pairs that other GPUs connect, too: the matrix XGMIHops
 * has more than 1 for these. And the NUMA nodes that are memory of GPUs. */
#include "machine/import/import.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "machine/facts.h"

enum { ENDS_MOST = 256, LINKS_MOST = 64, LINK_OLD_MBPS = 20000, LINK_MBPS = 25000 };
/* Rates of one xGMI link by amdgpu, and what older hwloc writes for any number of links. */
enum { XGMI_MBPS = 50000, XGMI_NEW_MBPS = 64000, XGMI_ANY_MBPS = 100000 };

/* A row or column. */
struct link_end {
    const struct xml_node *object; /* NULL: the file has no such object */
    struct machine_gpu *gpu;       /* NULL: not a GPU */
    const char *type;              /* of the object, "OSDev" */
    int64_t number;                /* its gp_index */
    int64_t links;                 /* of a GPU */
};

struct link_matrix {
    const struct xml_node *element;
    const char *name; /* "NVLinkBandwidth", "XGMIBandwidth" */
    bool xgmi;
    struct link_end ends[ENDS_MOST];
    int n;
    int64_t *cells;                 /* n * n: MB/s, or hops */
    const struct link_matrix *hops; /* NULL: the file has none for these ends */
};

/* --- the objects of the rows ------------------------------------------------------------------ */

static void find_link_objects(struct link_matrix *matrix, const struct xml_node *node)
{
    const char *type = xml_value(node, "type"), *index = xml_value(node, "gp_index");
    int64_t number;
    if (xml_is(node, "object") && type && index && import_number(index, 0, INT64_MAX, &number))
        for (int i = 0; i < matrix->n; i++)
            if (matrix->ends[i].number == number && strcmp(matrix->ends[i].type, type) == 0)
                matrix->ends[i].object = node;
    for (const struct xml_node *at = node->first; at; at = at->next)
        find_link_objects(matrix, at);
}

/* The PCI device that is or contains an object. */
static const char *pci_address_of(const struct xml_node *object, char address[IMPORT_ADDRESS])
{
    for (; object; object = object->parent)
        if (import_address(xml_value(object, "pci_busid"), address))
            return address;
    return NULL;
}

static void find_link_gpus(struct machine *m, struct link_matrix *matrix)
{
    char address[IMPORT_ADDRESS];
    for (int i = 0; i < matrix->n; i++) {
        struct link_end *end = &matrix->ends[i];
        if (strcmp(end->type, "OSDev") != 0 || !pci_address_of(end->object, address))
            continue;
        for (size_t g = 0; g < m->n_gpus; g++)
            if (text_is(m->gpus[g].bdf, address))
                end->gpu = &m->gpus[g];
    }
}

/* --- text of the matrix ----------------------------------------------------------------------- */

/* Copies the next word; false at the end of the text. */
static bool next_of_list(const char **at, char word[64])
{
    *at += strspn(*at, " \t\r\n");
    size_t n = strcspn(*at, " \t\r\n");
    if (!n || n >= 64)
        return false;
    memcpy(word, *at, n);
    word[n] = '\0';
    *at += n;
    return true;
}

/* Reads "802", or "OSDev:802" of a matrix with several types. */
static bool read_link_end(struct machine *m, struct link_matrix *matrix, const char *word)
{
    const char *colon = strchr(word, ':'), *type = xml_value(matrix->element, "type");
    if (matrix->n == ENDS_MOST || (!colon && !type))
        return false;
    struct link_end *end = &matrix->ends[matrix->n++];
    *end = (struct link_end){.type = colon ? machine_printf(m, "%.*s", (int)(colon - word), word)
                                           : type};
    return import_number(colon ? colon + 1 : word, 0, INT64_MAX, &end->number);
}

static bool read_link_ends(struct machine *m, struct link_matrix *matrix)
{
    char word[64];
    for (const struct xml_node *at = matrix->element->first; at; at = at->next) {
        const char *text = xml_is(at, "indexes") && at->text ? at->text : "";
        while (next_of_list(&text, word))
            if (!read_link_end(m, matrix, word))
                return false;
        if (*text)
            return false;
    }
    return matrix->n > 0;
}

static bool read_link_cells(struct machine *m, struct link_matrix *matrix)
{
    int most = matrix->n * matrix->n, n = 0;
    char word[64];
    matrix->cells = machine_alloc(m, (size_t)most * sizeof *matrix->cells);
    for (const struct xml_node *at = matrix->element->first; at; at = at->next) {
        const char *text = xml_is(at, "u64values") && at->text ? at->text : "";
        while (next_of_list(&text, word))
            if (n == most || !import_number(word, 0, INT64_MAX, &matrix->cells[n++]))
                return false;
        if (*text)
            return false;
    }
    return n == most;
}

/* --- links ------------------------------------------------------------------------------------ */

/* The number of links whose rates make up a cell; 0: not a multiple of the rate of one link. The
 * generation decides between the two rates of hwloc. Where it is unknown, the newer one goes
 * first. */
static int64_t links_of_rate(bool xgmi, int64_t mbps, int64_t generation)
{
    int64_t each = xgmi              ? (mbps % XGMI_MBPS ? XGMI_NEW_MBPS : XGMI_MBPS)
                   : generation == 1 ? LINK_OLD_MBPS
                   : generation >= 5 && mbps % (2 * LINK_MBPS) == 0 ? 2 * LINK_MBPS
                   : generation || mbps % LINK_MBPS == 0            ? LINK_MBPS
                                                                    : LINK_OLD_MBPS;
    return mbps % each ? 0 : mbps / each;
}

static void set_link_peer(struct machine *m, const struct link_end *to, struct machine_link *link)
{
    char address[IMPORT_ADDRESS];
    if (to->object)
        text_set(m, &link->peer,
                 to->gpu                              ? "gpu"
                 : xml_value(to->object, "pci_busid") ? "switch"
                                                      : "cpu");
    else
        text_unknown(m, &link->peer, "the file has no %s:%lld", to->type, (long long)to->number);
    if (to->gpu)
        link->peer_gpu = to->gpu->index;
    if ((to->gpu || text_is(link->peer, "switch")) && pci_address_of(to->object, address))
        text_set(m, &link->peer_bdf, address);
}

/* False when the number of links is unknown. */
static bool add_cell_links(struct import *im, struct link_matrix *matrix, int row, int column)
{
    struct machine *m = im->machine;
    struct link_end *from = &matrix->ends[row], *to = &matrix->ends[column];
    struct machine_link link = {.kind = {0}};
    text_set(m, &link.kind, matrix->xgmi ? "xgmi" : "nvlink");
    import_link_generation(from->gpu, &link);
    int64_t mbps = matrix->cells[row * matrix->n + column];
    int64_t n = links_of_rate(matrix->xgmi, mbps, number_or(link.gen, 0));
    if (!n || from->links + n > LINKS_MOST) {
        import_warn(im, matrix->element->line,
                    "%s: %lld MB/s between %s:%lld and %s:%lld is not the rate of up "
                    "to %d links; these links are unknown",
                    matrix->name, (long long)mbps, from->type, (long long)from->number, to->type,
                    (long long)to->number, LINKS_MOST);
        return false;
    }
    if (!link.gen.known)
        number_set(&link.mbps, mbps / n);
    link.gpu = from->gpu->index;
    number_set(&link.active, 1);
    set_link_peer(m, to, &link);
    for (int64_t i = 0; i < n; i++) {
        number_set(&link.link, from->links++);
        *machine_add_link(m) = link;
    }
    return true;
}

/* A cell that stands for links between the two ends themselves. */
static bool is_direct(const struct link_matrix *matrix, int row, int column)
{
    int at = row * matrix->n + column;
    return row != column && matrix->cells[at] > 0 && !(matrix->hops && matrix->hops->cells[at] > 1);
}

/* Every pair has the rate that older hwloc writes for any number of links. */
static bool counts_no_links(const struct link_matrix *matrix)
{
    bool any = false;
    for (int row = 0; row < matrix->n; row++)
        for (int column = 0; column < matrix->n; column++)
            if (is_direct(matrix, row, column)) {
                any = true;
                if (matrix->cells[row * matrix->n + column] != XGMI_ANY_MBPS)
                    return false;
            }
    return matrix->xgmi && any;
}

static void add_matrix_links(struct import *im, struct link_matrix *matrix)
{
    if (counts_no_links(matrix)) {
        import_warn(im, matrix->element->line,
                    "%s: every pair has %d MB/s, which older hwloc writes for any number of links; "
                    "the links are unknown",
                    matrix->name, XGMI_ANY_MBPS);
        return;
    }
    for (int row = 0; row < matrix->n; row++) {
        struct link_end *end = &matrix->ends[row];
        if (!end->gpu || end->gpu->nvlinks.known)
            continue;
        bool whole = true;
        for (int column = 0; column < matrix->n; column++)
            if (is_direct(matrix, row, column))
                whole &= add_cell_links(im, matrix, row, column);
        if (whole)
            number_set(&end->gpu->nvlinks, end->links);
    }
}

/* Reads the first matrix of that name. NULL: there is none, or it cannot be read, which is then a
 * warning. */
static struct link_matrix *read_link_matrix(struct import *im, const struct xml_node *root,
                                            const char *name)
{
    for (const struct xml_node *at = root->first; at; at = at->next) {
        const char *here = strncmp(at->name, "distances2", 10) == 0 ? xml_value(at, "name") : NULL;
        if (!here || strcmp(here, name) != 0)
            continue;
        struct link_matrix *matrix = machine_alloc(im->machine, sizeof *matrix);
        *matrix = (struct link_matrix){.element = at, .name = name};
        if (read_link_ends(im->machine, matrix) && read_link_cells(im->machine, matrix))
            return matrix;
        import_warn(im, at->line,
                    "%s is no matrix of numbers with a row for each index; the links are unknown",
                    name);
        return NULL;
    }
    return NULL;
}

static bool have_equal_ends(const struct link_matrix *a, const struct link_matrix *b)
{
    bool equal = a->n == b->n;
    for (int i = 0; equal && i < a->n; i++)
        equal =
            a->ends[i].number == b->ends[i].number && strcmp(a->ends[i].type, b->ends[i].type) == 0;
    return equal;
}

void import_hwloc_links(struct import *im, const struct xml_node *root)
{
    struct machine *m = im->machine;
    for (int xgmi = 0; xgmi < 2; xgmi++) {
        struct link_matrix *matrix =
            read_link_matrix(im, root, xgmi ? "XGMIBandwidth" : "NVLinkBandwidth");
        if (!matrix)
            continue;
        const struct link_matrix *hops = xgmi ? read_link_matrix(im, root, "XGMIHops") : NULL;
        matrix->xgmi = xgmi;
        matrix->hops = hops && have_equal_ends(matrix, hops) ? hops : NULL;
        find_link_objects(matrix, root);
        find_link_gpus(m, matrix);
        add_matrix_links(im, matrix);
    }
    for (size_t i = 0; i < m->n_gpus; i++)
        if (!m->gpus[i].nvlinks.known)
            number_unknown(m, &m->gpus[i].nvlinks, "no matrix %s of the file has all its links",
                           text_is(m->gpus[i].vendor, "amd") ? "XGMIBandwidth" : "NVLinkBandwidth");
}

/* --- memory of GPUs --------------------------------------------------------------------------- */

void import_hwloc_memory(struct import *im, const struct xml_node *root)
{
    struct machine *m = im->machine;
    const char *subtype = xml_value(root, "subtype"), *index = xml_value(root, "os_index");
    char address[IMPORT_ADDRESS] = "";
    int64_t node;
    for (const struct xml_node *at = root->first; at; at = at->next)
        if (xml_is(at, "info") && xml_value(at, "name") && xml_value(at, "value") &&
            strcmp(xml_value(at, "name"), "PCIBusID") == 0)
            import_address(xml_value(at, "value"), address);
        else
            import_hwloc_memory(im, at);
    if (!subtype || strcmp(subtype, "GPUMemory") != 0 || !index ||
        !import_number(index, 0, 4095, &node))
        return;
    for (size_t i = 0; i < m->n_gpus; i++)
        if (text_is(m->gpus[i].bdf, address))
            number_set(&m->gpus[i].memory_numa, node);
}
