/* SPDX-License-Identifier: Apache-2.0 */
/* Imports the links of GPUs from hwloc's XML, versions 2 and 3: the matrix NVLinkBandwidth. Its
 * rows and columns are GPUs (nvml0), NVSwitches and, on POWER, CPU packages. A cell has the rate of
 * all links between two of them in MB/s, one direction, with the rate of one link by its generation
 * (source: hwloc/topology-nvml.c). So rate divided by rate is the number of links. */
#include "machine/import/import.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "machine/facts.h"

enum { ENDS_MOST = 256, LINKS_MOST = 64, LINK_OLD_MBPS = 20000, LINK_MBPS = 25000 };

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
    struct link_end ends[ENDS_MOST];
    int n;
    int64_t *mbps; /* n * n cells */
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
    matrix->mbps = machine_alloc(m, (size_t)most * sizeof *matrix->mbps);
    for (const struct xml_node *at = matrix->element->first; at; at = at->next) {
        const char *text = xml_is(at, "u64values") && at->text ? at->text : "";
        while (next_of_list(&text, word))
            if (n == most || !import_number(word, 0, INT64_MAX, &matrix->mbps[n++]))
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
static int64_t links_of_rate(int64_t mbps, int64_t generation)
{
    int64_t each = generation == 1                                  ? LINK_OLD_MBPS
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
    text_set(m, &link.kind, "nvlink");
    import_link_generation(from->gpu, &link);
    int64_t mbps = matrix->mbps[row * matrix->n + column];
    int64_t n = links_of_rate(mbps, number_or(link.gen, 0));
    if (!n || from->links + n > LINKS_MOST) {
        import_warn(im, matrix->element->line,
                    "NVLinkBandwidth: %lld MB/s between %s:%lld and %s:%lld is not the rate of up "
                    "to %d links; these links are unknown",
                    (long long)mbps, from->type, (long long)from->number, to->type,
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

static void add_matrix_links(struct import *im, struct link_matrix *matrix)
{
    for (int row = 0; row < matrix->n; row++) {
        struct link_end *end = &matrix->ends[row];
        if (!end->gpu || end->gpu->nvlinks.known)
            continue;
        bool whole = true;
        for (int column = 0; column < matrix->n; column++)
            if (column != row && matrix->mbps[row * matrix->n + column] > 0)
                whole &= add_cell_links(im, matrix, row, column);
        if (whole)
            number_set(&end->gpu->nvlinks, end->links);
    }
}

void import_hwloc_links(struct import *im, const struct xml_node *root)
{
    struct machine *m = im->machine;
    for (const struct xml_node *at = root->first; at; at = at->next) {
        const char *name = strncmp(at->name, "distances2", 10) == 0 ? xml_value(at, "name") : NULL;
        if (!name || strcmp(name, "NVLinkBandwidth") != 0)
            continue;
        struct link_matrix *matrix = machine_alloc(m, sizeof *matrix);
        matrix->element = at;
        if (!read_link_ends(m, matrix) || !read_link_cells(m, matrix)) {
            import_warn(im, at->line,
                        "NVLinkBandwidth is no matrix of numbers with a row for each index; the "
                        "links are unknown");
            continue;
        }
        find_link_objects(matrix, root);
        find_link_gpus(m, matrix);
        add_matrix_links(im, matrix);
    }
    for (size_t i = 0; i < m->n_gpus; i++)
        if (!m->gpus[i].nvlinks.known)
            number_unknown(m, &m->gpus[i].nvlinks,
                           "no matrix NVLinkBandwidth of the file has all its links");
}
