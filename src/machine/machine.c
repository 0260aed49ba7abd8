/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the model, setting and reading facts, and lookups. Independent of where facts come from
 * and of what follows from them. */
#include "machine/machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "base/status.h"

struct machine_block {
    struct machine_block *next;
    size_t used, size;
    _Alignas(16) char data[];
};

static void out_of_memory(void)
{
    fputs("weft: out of memory\n", stderr);
    abort();
}

struct machine *machine_new(const char *origin)
{
    struct machine *machine = calloc(1, sizeof *machine);
    if (!machine)
        out_of_memory();
    machine->origin = machine_printf(machine, "%s", origin);
    return machine;
}

void machine_free(struct machine *machine)
{
    if (!machine)
        return;
    for (struct machine_block *block = machine->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    free(machine);
}

void *machine_alloc(struct machine *machine, size_t bytes)
{
    struct machine_block *block = machine->blocks;
    bytes = (bytes + 15) & ~(size_t)15;
    if (!block || block->size - block->used < bytes) {
        size_t size = bytes > 32768 ? bytes : 32768;
        block = malloc(sizeof *block + size);
        if (!block)
            out_of_memory();
        block->next = machine->blocks;
        block->used = 0;
        block->size = size;
        machine->blocks = block;
    }
    void *memory = block->data + block->used;
    block->used += bytes;
    memset(memory, 0, bytes);
    return memory;
}

static const char *format_text(struct machine *machine, const char *format, va_list arguments)
{
    char most[256]; /* nearly all texts fit: they are formatted once */
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(most, sizeof most, format, again);
    va_end(again);
    if (length < 0)
        return "";
    char *text = machine_alloc(machine, (size_t)length + 1);
    if ((size_t)length < sizeof most)
        memcpy(text, most, (size_t)length);
    else
        vsnprintf(text, (size_t)length + 1, format, arguments);
    return printable(text); /* device names may contain control characters */
}

const char *machine_printf(struct machine *machine, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *text = format_text(machine, format, arguments);
    va_end(arguments);
    return text;
}

/* Appends an item to a list, which grows by doubling; *moved is the new start of the list. The old
 * copy stays in its block until the machine is freed. */
static void *append_item(struct machine *machine, void *items, size_t *count, size_t item_bytes,
                         void **moved)
{
    size_t n = *count;
    bool full = n == 0 || (n >= 4 && (n & (n - 1)) == 0);
    if (full) {
        char *larger = machine_alloc(machine, (n ? 2 * n : 4) * item_bytes);
        if (n)
            memcpy(larger, items, n * item_bytes);
        items = larger;
    }
    *moved = items;
    *count = n + 1;
    machine->link_ranges = NULL;
    return (char *)items + n * item_bytes;
}

#define ADD(member, singular, ...)                                                                 \
    struct machine_##singular *machine_add_##singular(struct machine *machine)                     \
    {                                                                                              \
        void *moved;                                                                               \
        void *item = append_item(machine, machine->member, &machine->n_##member,                   \
                                 sizeof *machine->member, &moved);                                 \
        machine->member = moved;                                                                   \
        return item;                                                                               \
    }
MACHINE_LISTS(ADD)
#undef ADD

void *record_append(struct machine *machine, const struct machine_record *record)
{
    void *moved;
    void **items = (void **)((char *)machine + record->offset);
    size_t *count = (size_t *)((char *)machine + record->count_offset);
    void *item = append_item(machine, *items, count, record->item_bytes, &moved);
    *items = moved;
    return item;
}

size_t record_count(const struct machine *machine, const struct machine_record *record)
{
    return record->single ? 1 : *(const size_t *)((const char *)machine + record->count_offset);
}

void *record_item(const struct machine *machine, const struct machine_record *record, size_t i)
{
    char *base = (char *)machine + record->offset;
    char *items = record->single ? base : *(char **)base; /* NULL where there are none */
    return items ? items + i * record->item_bytes : NULL;
}

void number_set(struct machine_number *number, int64_t value)
{
    *number = (struct machine_number){.value = value, .known = true};
}

void number_unknown(struct machine *machine, struct machine_number *number, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    *number = (struct machine_number){.why = format_text(machine, format, arguments)};
    va_end(arguments);
}

void text_set(struct machine *machine, struct machine_text *text, const char *value)
{
    *text = (struct machine_text){.value = machine_printf(machine, "%s", value)};
}

void text_unknown(struct machine *machine, struct machine_text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    *text = (struct machine_text){.why = format_text(machine, format, arguments)};
    va_end(arguments);
}

const char *why_unknown(const char *why)
{
    return why ? why : "not recorded";
}

/* Where a PCI device of this address is, or would be, in the hash table. */
static size_t pci_place(const struct machine *machine, const uint32_t *places, size_t n,
                        const char *bdf)
{
    uint64_t hash = 14695981039346656037ull;
    for (const char *at = bdf; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 1099511628211ull;
    size_t place = (size_t)(hash % n);
    while (places[place] && !text_is(machine->pci[places[place] - 1].bdf, bdf))
        place = (place + 1) % n;
    return place;
}

struct machine_pci *machine_find_pci(const struct machine *machine, const char *bdf)
{
    if (!bdf || !*bdf)
        return NULL;
    if (machine->link_ranges) {
        uint32_t found =
            machine
                ->pci_places[pci_place(machine, machine->pci_places, machine->n_pci_places, bdf)];
        return found ? &machine->pci[found - 1] : NULL;
    }
    for (size_t i = 0; i < machine->n_pci; i++)
        if (text_is(machine->pci[i].bdf, bdf))
            return &machine->pci[i];
    return NULL;
}

struct machine_gpu *machine_find_gpu(const struct machine *machine, int64_t index)
{
    for (size_t i = 0; i < machine->n_gpus; i++)
        if (number_is(machine->gpus[i].index, index))
            return &machine->gpus[i];
    return NULL;
}

/* The index of a PCI device in the list; n_pci: it is not in it. */
static size_t pci_index(const struct machine *machine, const struct machine_pci *pci)
{
    bool listed = pci >= machine->pci && pci < machine->pci + machine->n_pci;
    return listed ? (size_t)(pci - machine->pci) : machine->n_pci;
}

/* A bridge is mostly listed shortly before the devices below it, so the search first goes backward
 * from the device, then over all. */
static const struct machine_pci *search_parent(const struct machine *machine,
                                               const struct machine_pci *pci)
{
    size_t from = pci_index(machine, pci);
    for (size_t i = from < machine->n_pci ? from : 0; i-- > 0;)
        if (text_is(machine->pci[i].bdf, pci->parent.value))
            return &machine->pci[i];
    return machine_find_pci(machine, pci->parent.value);
}

const struct machine_pci *machine_parent_of(const struct machine *machine,
                                            const struct machine_pci *pci)
{
    size_t at = pci_index(machine, pci);
    if (!*text_or(pci->parent, ""))
        return NULL;
    uint32_t parent = machine->link_ranges && at < machine->n_pci ? machine->pci_parents[at] : 0;
    if (parent && text_is(machine->pci[parent - 1].bdf, pci->parent.value))
        return &machine->pci[parent - 1];
    return search_parent(machine, pci);
}

static const struct machine_gpu *search_gpu(const struct machine *machine,
                                            const struct machine_pci *pci)
{
    for (size_t i = 0; i < machine->n_gpus; i++)
        if (pci->bdf.value && text_is(machine->gpus[i].bdf, pci->bdf.value))
            return &machine->gpus[i];
    return NULL;
}

const struct machine_gpu *machine_gpu_at(const struct machine *machine,
                                         const struct machine_pci *pci)
{
    size_t at = pci_index(machine, pci);
    if (!machine->link_ranges || at == machine->n_pci)
        return search_gpu(machine, pci);
    uint32_t gpu = machine->pci_gpus[at];
    return gpu ? &machine->gpus[gpu - 1] : NULL;
}

static void index_pci(struct machine *machine)
{
    size_t n = 2 * machine->n_pci + 1;
    uint32_t *places = machine_alloc(machine, n * sizeof *places);
    for (size_t i = 0; i < machine->n_pci; i++) {
        const char *bdf = text_or(machine->pci[i].bdf, "");
        size_t place = pci_place(machine, places, n, bdf);
        if (*bdf && !places[place])
            places[place] = (uint32_t)i + 1;
    }
    machine->pci_places = places;
    machine->n_pci_places = n;
}

static void index_pci_relatives(struct machine *machine)
{
    uint32_t *parents = machine_alloc(machine, (machine->n_pci + 1) * sizeof *parents);
    uint32_t *gpus = machine_alloc(machine, (machine->n_pci + 1) * sizeof *gpus);
    for (size_t i = 0; i < machine->n_pci; i++) {
        const struct machine_pci *pci = &machine->pci[i];
        const struct machine_pci *parent =
            *text_or(pci->parent, "") ? search_parent(machine, pci) : NULL;
        const struct machine_gpu *gpu = search_gpu(machine, pci);
        parents[i] = parent ? (uint32_t)(parent - machine->pci) + 1 : 0;
        gpus[i] = gpu ? (uint32_t)(gpu - machine->gpus) + 1 : 0;
    }
    machine->pci_parents = parents;
    machine->pci_gpus = gpus;
}

static void extend_range(struct machine_range *range, size_t i)
{
    if (!range->end)
        range->first = i;
    range->end = i + 1;
}

static void index_ports(struct machine *machine)
{
    struct machine_range *ranges = machine_alloc(machine, (machine->n_nics + 1) * sizeof *ranges);
    for (size_t n = 0; n < machine->n_nics; n++)
        for (size_t i = 0; i < machine->n_ports; i++)
            if (text_is(machine->ports[i].nic, text_or(machine->nics[n].name, "")))
                extend_range(&ranges[n], i);
    machine->port_ranges = ranges;
}

void machine_index(struct machine *machine)
{
    index_pci(machine);
    index_pci_relatives(machine);
    index_ports(machine);
    int64_t most = -1;
    for (size_t i = 0; i < machine->n_links; i++)
        if (number_or(machine->links[i].gpu, -1) > most)
            most = machine->links[i].gpu.value;
    size_t n = (size_t)most + 1;
    struct machine_range *ranges = machine_alloc(machine, (n + 1) * sizeof *ranges);
    for (size_t i = 0; i < machine->n_links; i++) {
        int64_t gpu = number_or(machine->links[i].gpu, -1);
        if (gpu >= 0)
            extend_range(&ranges[gpu], i);
    }
    machine->link_ranges = ranges;
    machine->n_link_ranges = n;
}

struct machine_range machine_ports_of(const struct machine *machine, const struct machine_nic *nic)
{
    bool listed = nic >= machine->nics && nic < machine->nics + machine->n_nics;
    if (!machine->link_ranges || !listed)
        return (struct machine_range){0, machine->n_ports};
    return machine->port_ranges[nic - machine->nics];
}

struct machine_range machine_links_of(const struct machine *machine, int64_t gpu)
{
    if (!machine->link_ranges)
        return (struct machine_range){0, machine->n_links};
    bool any = gpu >= 0 && (size_t)gpu < machine->n_link_ranges;
    return any ? machine->link_ranges[gpu] : (struct machine_range){0, 0};
}

struct machine_nic *machine_find_nic(const struct machine *machine, const char *name)
{
    for (size_t i = 0; name && i < machine->n_nics; i++)
        if (text_is(machine->nics[i].name, name))
            return &machine->nics[i];
    return NULL;
}

struct machine_disk *machine_find_disk(const struct machine *machine, const char *name)
{
    for (size_t i = 0; name && i < machine->n_disks; i++)
        if (text_is(machine->disks[i].name, name))
            return &machine->disks[i];
    return NULL;
}

struct machine_p2p *machine_find_p2p(const struct machine *machine, int64_t a, int64_t b)
{
    for (size_t i = 0; i < machine->n_p2p; i++)
        if (number_is(machine->p2p[i].a, a) && number_is(machine->p2p[i].b, b))
            return &machine->p2p[i];
    return NULL;
}

struct machine_distance *machine_find_distance(const struct machine *machine, const char *a,
                                               const char *b)
{
    for (size_t i = 0; i < machine->n_distances; i++) {
        struct machine_distance *d = &machine->distances[i];
        if ((text_is(d->a, a) && text_is(d->b, b)) || (text_is(d->a, b) && text_is(d->b, a)))
            return d;
    }
    return NULL;
}

struct machine_numa *machine_find_numa(const struct machine *machine, int64_t index)
{
    for (size_t i = 0; i < machine->n_numa; i++)
        if (number_is(machine->numa[i].index, index))
            return &machine->numa[i];
    return NULL;
}

const struct machine_gpu *machine_gpu_of_numa(const struct machine *machine, int64_t index)
{
    for (size_t i = 0; i < machine->n_gpus; i++)
        if (number_is(machine->gpus[i].memory_numa, index))
            return &machine->gpus[i];
    return NULL;
}

bool machine_is_host_numa(const struct machine *machine, const struct machine_numa *node)
{
    bool empty = number_is(node->memory_bytes, 0) && !*text_or(node->cpus, "");
    return !empty && !machine_gpu_of_numa(machine, number_or(node->index, -1));
}

size_t machine_count_host_numa(const struct machine *machine)
{
    size_t n = 0;
    for (size_t i = 0; i < machine->n_numa; i++)
        n += machine_is_host_numa(machine, &machine->numa[i]);
    return n;
}

struct machine_measured *machine_find_measured(const struct machine *machine, const char *a,
                                               const char *b)
{
    for (size_t i = 0; i < machine->n_measured; i++)
        if (text_is(machine->measured[i].a, a) && text_is(machine->measured[i].b, b))
            return &machine->measured[i];
    return NULL;
}

struct machine_rung *machine_find_rung(const struct machine *machine, int64_t gpu, const char *nic,
                                       const char *rung)
{
    for (size_t i = 0; i < machine->n_ladder; i++) {
        struct machine_rung *r = &machine->ladder[i];
        if (number_is(r->gpu, gpu) && text_is(r->nic, nic) && text_is(r->rung, rung))
            return r;
    }
    return NULL;
}

struct machine_port *machine_find_port(const struct machine *machine, const char *nic)
{
    struct machine_port *found = NULL;
    for (size_t i = 0; i < machine->n_ports; i++)
        if (text_is(machine->ports[i].nic, nic) &&
            (!found ||
             (!text_is(found->state, "active") && text_is(machine->ports[i].state, "active"))))
            found = &machine->ports[i];
    return found;
}

/* The mount whose path is the longest prefix of `path`, by whole folder names. */
struct machine_mount *machine_find_mount(const struct machine *machine, const char *path)
{
    struct machine_mount *best = NULL;
    size_t best_length = 0;
    for (size_t i = 0; i < machine->n_mounts; i++) {
        const char *at = machine->mounts[i].path.value;
        if (!at)
            continue;
        size_t length = strcmp(at, "/") == 0 ? 0 : strlen(at);
        if (strncmp(path, at, length) == 0 && (path[length] == '/' || path[length] == '\0') &&
            (!best || length >= best_length)) {
            best = &machine->mounts[i];
            best_length = length;
        }
    }
    return best;
}

bool machine_is_flat(const struct machine *machine)
{
    if (!machine->system.hypervisor.value || text_is(machine->system.hypervisor, "none"))
        return false;
    size_t seen = 0;
    for (size_t i = 0; i < machine->n_gpus; i++) {
        const struct machine_pci *pci = machine_find_pci(machine, machine->gpus[i].bdf.value);
        if (!pci)
            continue;
        seen++;
        const struct machine_pci *above = machine_find_pci(machine, pci->parent.value);
        if (above && !text_is(above->kind, "root-port"))
            return false;
    }
    return seen > 0;
}

static weft_status check_tree(const struct machine *machine)
{
    for (size_t i = 0; i < machine->n_pci; i++) {
        const struct machine_pci *at = &machine->pci[i];
        if (at->bdf.value && !at->bdf.value[0]) /* "" as parent means a root complex */
            return base_fail(WEFT_ERR_ARGUMENT,
                             "pci[%zu]: bdf is empty; leave it out when it is not known", i);
        for (size_t steps = 0; at && text_or(at->parent, "")[0]; steps++) {
            const struct machine_pci *above = machine_find_pci(machine, at->parent.value);
            if (!above)
                return base_fail(WEFT_ERR_ARGUMENT, "pci[%s]: there is no parent %s",
                                 text_or(at->bdf, "?"), at->parent.value);
            if (steps > machine->n_pci)
                return base_fail(WEFT_ERR_ARGUMENT, "pci[%s] is its own ancestor",
                                 text_or(machine->pci[i].bdf, "?"));
            at = above;
        }
    }
    return WEFT_OK;
}

static weft_status check_gpu_index(const struct machine *machine, struct machine_number gpu,
                                   const char *list, size_t i)
{
    if (gpu.known && !machine_find_gpu(machine, gpu.value))
        return base_fail(WEFT_ERR_ARGUMENT, "%s[%zu]: there is no gpu %lld", list, i,
                         (long long)gpu.value);
    return WEFT_OK;
}

/* Checks one end of distances[i]: "gpu3", or the name of a NIC or disk. */
static weft_status check_end(const struct machine *machine, const char *name, size_t i)
{
    char *rest = NULL;
    long gpu = name && strncmp(name, "gpu", 3) == 0 ? strtol(name + 3, &rest, 10) : -1;
    if (!name || machine_find_nic(machine, name) || machine_find_disk(machine, name) ||
        (rest && rest > name + 3 && !*rest && machine_find_gpu(machine, gpu)))
        return WEFT_OK;
    return base_fail(WEFT_ERR_ARGUMENT, "distances[%zu]: there is no %s", i, name);
}

weft_status machine_check(const struct machine *machine)
{
    weft_status status = check_tree(machine);
    for (size_t i = 0; !status && i < machine->n_gpus; i++)
        if (!machine->gpus[i].index.known)
            status = base_fail(WEFT_ERR_ARGUMENT, "gpus[%zu]: index is missing", i);
        else if (machine_find_gpu(machine, machine->gpus[i].index.value) != &machine->gpus[i])
            status = base_fail(WEFT_ERR_ARGUMENT, "gpus[%zu]: index %lld appears twice", i,
                               (long long)machine->gpus[i].index.value);
    for (size_t i = 0; !status && i < machine->n_links; i++) {
        status = check_gpu_index(machine, machine->links[i].gpu, "links", i);
        if (!status)
            status = check_gpu_index(machine, machine->links[i].peer_gpu, "links", i);
    }
    for (size_t i = 0; !status && i < machine->n_p2p; i++) {
        status = check_gpu_index(machine, machine->p2p[i].a, "p2p", i);
        if (!status)
            status = check_gpu_index(machine, machine->p2p[i].b, "p2p", i);
    }
    for (size_t i = 0; !status && i < machine->n_distances; i++) {
        status = check_end(machine, machine->distances[i].a.value, i);
        if (!status)
            status = check_end(machine, machine->distances[i].b.value, i);
    }
    for (size_t i = 0; !status && i < machine->n_ports; i++)
        if (machine->ports[i].nic.value && !machine_find_nic(machine, machine->ports[i].nic.value))
            status = base_fail(WEFT_ERR_ARGUMENT, "ports[%zu]: there is no nic %s", i,
                               machine->ports[i].nic.value);
    return status;
}
