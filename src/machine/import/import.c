/* SPDX-License-Identifier: Apache-2.0 */
/* Detects the format of a file, and has the functions that all importers use. See import.h. */
#include "machine/import/import.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "machine/facts.h"

#define KINDS                                                                                      \
    "a machine file (weft topo --record), NCCL's or RCCL's topology (NCCL_TOPO_DUMP_FILE), "       \
    "hwloc's XML (lstopo FILE.xml) or the text of nvidia-smi topo -m"

weft_status import_fail(const struct import *im, unsigned long line, const char *format, ...)
{
    char what[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return base_fail(WEFT_ERR_ARGUMENT, "%s:%lu: %s", im->name, line, what);
}

/* Appends a line. machine_printf() replaces characters that a terminal would obey, and ends of
 * lines, so it makes each line by itself. */
static void add_warning(struct machine *m, const char *line)
{
    const char *before = m->warnings ? m->warnings : "";
    size_t size = strlen(before) + strlen(line) + 2;
    char *all = machine_alloc(m, size);
    snprintf(all, size, "%s%s\n", before, line);
    m->warnings = all;
}

void import_warn(const struct import *im, unsigned long line, const char *format, ...)
{
    enum { WARNINGS_MOST = 2000 }; /* characters */
    struct machine *m = im->machine;
    char what[600];
    va_list arguments;
    if (m->warnings && strlen(m->warnings) > WARNINGS_MOST)
        return;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    add_warning(m, machine_printf(m, "%s:%lu: %s", im->name, line, what));
    if (strlen(m->warnings) > WARNINGS_MOST)
        add_warning(m, machine_printf(m, "%s: more such warnings are not printed", im->name));
}

/* --- used by all importers -------------------------------------------------------------------- */

bool import_address(const char *text, char address[IMPORT_ADDRESS])
{
    unsigned domain = 0, bus, device, function;
    int end = 0;
    if (!text || strlen(text) > 16 || strspn(text, "0123456789abcdefABCDEF:.") != strlen(text))
        return false;
    if (sscanf(text, "%x:%x:%x.%x%n", &domain, &bus, &device, &function, &end) != 4 || text[end]) {
        domain = 0;
        if (sscanf(text, "%x:%x.%x%n", &bus, &device, &function, &end) != 3 || text[end])
            return false;
    }
    if (bus > 0xff || device > 0x1f || function > 7)
        return false;
    snprintf(address, IMPORT_ADDRESS, "%04x:%02x:%02x.%x", domain, bus, device, function);
    return true;
}

bool import_number(const char *text, int64_t low, int64_t high, int64_t *value)
{
    char *end;
    if (!isdigit((unsigned char)text[*text == '-']))
        return false;
    errno = 0;
    *value = strtoll(text, &end, 0);
    return !*end && errno == 0 && *value >= low && *value <= high;
}

const char *import_cpu_list(struct machine *machine, const uint32_t *words, size_t n)
{
    size_t capacity = n * 32 * 6 + 16, used = 0, end = 32 * n;
    char *list = machine_alloc(machine, capacity);
    for (size_t cpu = 0; cpu < end; cpu++) {
        size_t last = cpu;
        if (!(words[cpu / 32] >> cpu % 32 & 1))
            continue;
        while (last + 1 < end && (words[(last + 1) / 32] >> (last + 1) % 32 & 1))
            last++;
        used += (size_t)snprintf(list + used, capacity - used, used ? ",%zu" : "%zu", cpu);
        if (last > cpu)
            used += (size_t)snprintf(list + used, capacity - used, "-%zu", last);
        cpu = last;
    }
    return list;
}

void import_name_gpu(struct machine *machine, struct machine_gpu *gpu, int64_t pci_vendor,
                     int64_t pci_device)
{
    const char *vendor = pci_vendor == 0x10de   ? "nvidia"
                         : pci_vendor == 0x1002 ? "amd"
                         : pci_vendor == 0x8086 ? "intel"
                                                : NULL;
    if (vendor)
        text_set(machine, &gpu->vendor, vendor);
    for (int i = 0; vendor && i < fact_n_gpus; i++)
        if (fact_gpus[i].pci_device == pci_device && strcmp(fact_gpus[i].vendor, vendor) == 0)
            text_set(machine, &gpu->name, fact_gpus[i].name);
}

static int by_index(const void *a, const void *b)
{
    const struct machine_gpu *x = a, *y = b;
    return (x->index.value > y->index.value) - (x->index.value < y->index.value);
}

/* The GPU with the lowest PCI address of those without an index. */
static struct machine_gpu *next_unnumbered_gpu(struct machine *machine)
{
    struct machine_gpu *least = NULL;
    for (size_t i = 0; i < machine->n_gpus; i++) {
        struct machine_gpu *gpu = &machine->gpus[i];
        if (!gpu->index.known &&
            (!least || strcmp(text_or(gpu->bdf, ""), text_or(least->bdf, "")) < 0))
            least = gpu;
    }
    return least;
}

void import_number_gpus(struct machine *machine)
{
    int64_t next = 0;
    for (struct machine_gpu *gpu; (gpu = next_unnumbered_gpu(machine));
         number_set(&gpu->index, next))
        while (machine_find_gpu(machine, next))
            next++;
    if (machine->n_gpus)
        qsort(machine->gpus, machine->n_gpus, sizeof *machine->gpus, by_index);
}

/* Whether `word` stands in `text` between characters that are no letters or digits, in any case of
 * letters: "v100" in "Tesla V100-SXM3-32GB". */
static bool name_has_word(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = text; (at = strcasestr(at, word)); at++)
        if ((at == text || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[n]))
            return true;
    return false;
}

static bool is_generation_of(const struct machine_gpu *gpu, const struct fact_gpu *fact)
{
    if (gpu->cc_major.known && gpu->cc_minor.known)
        return number_is(gpu->cc_major, fact->cc_major) && number_is(gpu->cc_minor, fact->cc_minor);
    return name_has_word(text_or(gpu->name, ""), fact->word);
}

void import_link_generation(const struct machine_gpu *gpu, struct machine_link *link)
{
    int64_t generation = 0;
    for (int i = 0; i < fact_n_gpus; i++) {
        const struct fact_gpu *fact = &fact_gpus[i];
        if (!fact->link_kind || !text_is(link->kind, fact->link_kind) ||
            !is_generation_of(gpu, fact))
            continue;
        if (generation && generation != fact->link_generation)
            return;
        generation = fact->link_generation;
    }
    if (generation)
        number_set(&link->gen, generation);
}

/* --- formats ---------------------------------------------------------------------------------- */

/* Name of the root element; "" when the text has none. */
static void first_element(const char *text, size_t length, char *name, size_t size)
{
    const char *at = text, *end = text + length;
    name[0] = '\0';
    while (at < end && (at = memchr(at, '<', (size_t)(end - at)))) {
        size_t left = (size_t)(end - at);
        if (left > 4 && memcmp(at, "<!--", 4) == 0) {
            const char *close = memmem(at, left, "-->", 3);
            at = close ? close : end;
            continue;
        }
        at++;
        if (at < end && (isalpha((unsigned char)*at) || *at == '_')) {
            size_t n = 0;
            while (at + n < end && n + 1 < size && (isalnum((unsigned char)at[n]) || at[n] == '_'))
                n++;
            snprintf(name, size, "%.*s", (int)n, at);
            return;
        }
    }
}

static weft_status import_markup(struct import *im, const char *text, size_t length)
{
    char element[40];
    first_element(text, length, element, sizeof element);
    if (strcmp(element, "system") == 0)
        return import_nccl(im, text, length);
    if (strcmp(element, "topology") == 0)
        return import_hwloc(im, text, length);
    if (strcmp(element, "graphs") == 0)
        return import_fail(im, 1,
                           "this is a graph file of NCCL (NCCL_GRAPH_DUMP_FILE), which has no "
                           "topology; NCCL_TOPO_DUMP_FILE writes one");
    return import_fail(im, 1, "<%s> is no known file format; weft reads " KINDS, element);
}

/* True when a line begins with "GPU" and a number, as the heading and the rows of nvidia-smi do. A
 * message that quotes the text has '>' before it. */
static bool has_gpu_line(const char *text, size_t length)
{
    for (const char *at = text, *end = text + length; at && at < end;) {
        const char *gpu = memmem(at, (size_t)(end - at), "GPU", 3);
        if (!gpu)
            return false;
        const char *before = gpu;
        while (before > text && before[-1] != '\n' &&
               (isspace((unsigned char)before[-1]) || before[-1] == '>'))
            before--;
        /* the escape sequence that underlines the heading ends in 'm' */
        bool first = before == text || before[-1] == '\n' || before[-1] == 'm';
        if (first && gpu + 3 < end && isdigit((unsigned char)gpu[3]))
            return true;
        at = gpu + 3;
    }
    return false;
}

weft_status import_any(const char *text, size_t length, const char *name, struct machine **machine)
{
    size_t at = 0;
    *machine = NULL;
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        at = 3;
    while (at < length && isspace((unsigned char)text[at]))
        at++;
    bool matrix = at < length && text[at] != '{' && text[at] != '<' && has_gpu_line(text, length);
    /* a matrix may stand below a prompt such as "[user@host ~]$" */
    if (at < length && (text[at] == '{' || (text[at] == '[' && !matrix)))
        return machine_parse(text, length, name, machine);
    char origin[300];
    snprintf(origin, sizeof origin, "file %.280s", name);
    struct import im = {.machine = machine_new(origin), .name = name};
    weft_status status;
    if (at == length)
        status = import_fail(&im, 1, "the file is empty; weft reads " KINDS);
    else if (text[at] == '<')
        status = import_markup(&im, text, length);
    else if (matrix)
        status = import_smi(&im, text, length);
    else
        status = import_fail(&im, 1, "the file has no known format; weft reads " KINDS);
    if (!status) {
        machine_reject_invalid(im.machine);
        status = machine_check(im.machine);
        if (status)
            status = base_fail_context(status, "%s", name);
    }
    if (status)
        machine_free(im.machine);
    else
        *machine = im.machine;
    return status;
}
