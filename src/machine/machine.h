/* SPDX-License-Identifier: Apache-2.0 */
/* The model of a machine: read live, read from a file, or made from a description. Code that uses
 * the model works the same for all three. A fact is known, or it is unknown with the reason why;
 * no value is assumed. The model has no PEs, jobs or paths. */
#ifndef WEFT_MACHINE_MACHINE_H
#define WEFT_MACHINE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <weft.h>

#include "machine/schema.def"

/* A fact that is a number. All-zero bytes are an unknown fact; `why` may be NULL ("not recorded").
 */
struct machine_number {
    int64_t value;
    bool known;
    const char *why;
};

/* A fact that is a text. `value` is NULL when unknown. */
struct machine_text {
    const char *value;
    const char *why;
};

#define NUMBER_MEMBER(name, low, high, about) struct machine_number name;
#define FLAG_MEMBER(name, about)              struct machine_number name;
#define WORD_MEMBER(name, words, about)       struct machine_text name;
#define TEXT_MEMBER(name, mask, about)        struct machine_text name;
#define STRUCT(member, singular, FIELDS, ...)                                                      \
    struct machine_##singular {                                                                    \
        FIELDS(NUMBER_MEMBER, FLAG_MEMBER, WORD_MEMBER, TEXT_MEMBER)                               \
    };
MACHINE_LISTS(STRUCT)
MACHINE_SINGLES(STRUCT)
#undef STRUCT
#undef NUMBER_MEMBER
#undef FLAG_MEMBER
#undef WORD_MEMBER
#undef TEXT_MEMBER

struct machine_block;

struct machine {
    const char *origin;   /* "live", "file NAME", "description \"...\"" */
    const char *note;     /* free text of a machine file, such as its source; NULL when none */
    const char *warnings; /* what was not understood of a file of another program, in lines of text;
                             NULL when nothing */
#define SINGLE(member, singular, ...) struct machine_##singular member;
    MACHINE_SINGLES(SINGLE)
#undef SINGLE
#define LIST(member, singular, ...)                                                                \
    struct machine_##singular *member;                                                             \
    size_t n_##member;
    MACHINE_LISTS(LIST)
#undef LIST
    struct machine_block *blocks; /* memory of every string and list */
    /* Made by machine_index(): where the links of each GPU are, NULL: not made; where the ports of
     * each NIC are; and a hash table of 1 + the index of each PCI device, 0: free. */
    const struct machine_range *link_ranges, *port_ranges;
    size_t n_link_ranges;
    const uint32_t *pci_places;
    size_t n_pci_places;
    /* For each PCI device 1 + the index of its parent and of the GPU that it is, 0: none. */
    const uint32_t *pci_parents, *pci_gpus;
};

/* Items first ... end - 1 of a list. */
struct machine_range {
    size_t first, end;
};

/* Makes the look-ups of large machines fast. A list that grows afterwards ends that. */
void machine_index(struct machine *machine);
/* The range that contains every link of a GPU, perhaps besides others. */
struct machine_range machine_links_of(const struct machine *machine, int64_t gpu);
/* The range that contains every port of a NIC of the machine. */
struct machine_range machine_ports_of(const struct machine *machine, const struct machine_nic *nic);

enum { MACHINE_FILE_VERSION = 1 };

struct machine *machine_new(const char *origin);
void machine_free(struct machine *machine);

/* Allocates zeroed memory that machine_free() releases. Never NULL: the process aborts when memory
 * runs out. */
void *machine_alloc(struct machine *machine, size_t bytes);
const char *machine_printf(struct machine *machine, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* machine_add_gpu(m), machine_add_pci(m) ...: appends an item with all facts unknown to a list and
 * returns it. Earlier pointers into the list become invalid. */
#define DECLARE_ADD(member, singular, ...)                                                         \
    struct machine_##singular *machine_add_##singular(struct machine *machine);
MACHINE_LISTS(DECLARE_ADD)
#undef DECLARE_ADD

void number_set(struct machine_number *number, int64_t value);
void number_unknown(struct machine *machine, struct machine_number *number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void text_set(struct machine *machine, struct machine_text *text, const char *value);
void text_unknown(struct machine *machine, struct machine_text *text, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns the value, or `otherwise` when it is unknown. */
static inline int64_t number_or(struct machine_number number, int64_t otherwise)
{
    return number.known ? number.value : otherwise;
}
static inline const char *text_or(struct machine_text text, const char *otherwise)
{
    return text.value ? text.value : otherwise;
}
/* Known and equal. */
static inline bool number_is(struct machine_number number, int64_t value)
{
    return number.known && number.value == value;
}
static inline bool text_is(struct machine_text text, const char *value)
{
    return text.value && strcmp(text.value, value) == 0;
}
const char *why_unknown(const char *why); /* "not recorded" for NULL */

/* Look an item up; NULL when there is none. */
struct machine_pci *machine_find_pci(const struct machine *machine, const char *bdf);
/* The bridge above a PCI device; the GPU that a PCI device is. */
const struct machine_pci *machine_parent_of(const struct machine *machine,
                                            const struct machine_pci *pci);
const struct machine_gpu *machine_gpu_at(const struct machine *machine,
                                         const struct machine_pci *pci);
struct machine_gpu *machine_find_gpu(const struct machine *machine, int64_t index);
struct machine_nic *machine_find_nic(const struct machine *machine, const char *name);
struct machine_disk *machine_find_disk(const struct machine *machine, const char *name);
struct machine_p2p *machine_find_p2p(const struct machine *machine, int64_t a, int64_t b);
/* The distance between two endpoints, in either order. */
struct machine_distance *machine_find_distance(const struct machine *machine, const char *a,
                                               const char *b);
struct machine_numa *machine_find_numa(const struct machine *machine, int64_t index);
const struct machine_gpu *machine_gpu_of_numa(const struct machine *machine, int64_t index);
/* False for the memory of a GPU, and for an empty node, which is for a MIG instance. */
bool machine_is_host_numa(const struct machine *machine, const struct machine_numa *node);
size_t machine_count_host_numa(const struct machine *machine);
struct machine_measured *machine_find_measured(const struct machine *machine, const char *a,
                                               const char *b);
struct machine_rung *machine_find_rung(const struct machine *machine, int64_t gpu, const char *nic,
                                       const char *rung);
struct machine_port *machine_find_port(const struct machine *machine, const char *nic);
struct machine_mount *machine_find_mount(const struct machine *machine, const char *path);

/* True when the GPUs are directly on a root complex of a virtual machine, so that the PCI tree does
 * not show the switches of the host. */
bool machine_is_flat(const struct machine *machine);

/* Checks that every reference (parent, GPU index, NIC name) names an existing item, and that the
 * PCI tree is a tree. WEFT_ERR_ARGUMENT: the message names the item. */
weft_status machine_check(const struct machine *machine);

/* --- reading and writing --------------------------------------------------------------------- */

struct machine_source {
    const char *root; /* directory with the folders sys, proc, dev, etc; "" is this machine */
    bool gpus;        /* query the GPU driver (NVML) */
    bool here;        /* with another root: still read the limits of this process and its driver */
};

/* Reads the live machine. Never fails: a file that is absent or not readable is an unknown fact. */
struct machine *machine_read_live(const struct machine_source *source);

/* Largest machine file in bytes. */
enum { MACHINE_FILE_MOST = 64 << 20 };

/* Reads a machine file or a file of another program (import.h); the content decides which.
 * WEFT_ERR_ARGUMENT with the line: unknown kind, truncated, newer version, unknown field, value out
 * of range. WEFT_ERR_SYSTEM: the file cannot be opened. WEFT_ERR_UNSUPPORTED: XML in a build
 * without expat. */
weft_status machine_read_file(const char *path, struct machine **machine);
/* Parses the text of a machine file; `name` is for messages. */
weft_status machine_parse(const char *text, size_t length, const char *name,
                          struct machine **machine);

/* JSON text of the machine; the caller frees it. With `anonymous`, serial numbers, names and
 * addresses are replaced by placeholders; equal values get equal placeholders. */
char *machine_format(const struct machine *machine, bool anonymous);

/* Makes a machine from a description such as "2 socket, 4 gpu each, nvlink hybrid-cube-mesh, 1 nic
 * per 2 gpu". docs/machine.md lists the words. WEFT_ERR_ARGUMENT: the message has the phrase that
 * is not understood. */
weft_status machine_synthetic(const char *description, struct machine **machine);

/* The argument of --machine: the name of a file that exists, else a description. */
weft_status machine_load(const char *file_or_description, struct machine **machine);

/* --- the schema as data ---------------------------------------------------------------------- */

/* Text that --anonymous masks. */

enum machine_mask { MASK_NONE, MASK_SERIAL, MASK_ADDRESS };
enum machine_field_type { FIELD_NUMBER, FIELD_FLAG, FIELD_WORD, FIELD_TEXT };

struct machine_field {
    const char *name;
    enum machine_field_type type;
    size_t offset;
    int64_t low, high;
    const char *words; /* of a FIELD_WORD: "a|b|c" */
    enum machine_mask mask;
    const char *about;
};

struct machine_record {
    const char *name; /* key in the machine file */
    const char *key;  /* field that names an item, "" when none */
    bool single;      /* one struct, not a list */
    size_t item_bytes;
    size_t offset;       /* in struct machine: of the struct, or of the pointer to the items */
    size_t count_offset; /* in struct machine: of the number of items */
    const struct machine_field *(*fields)(size_t *n);
};

extern const struct machine_record machine_records[];
extern const size_t machine_n_records;

/* Number of items of a record, one item, a new item. */
size_t record_count(const struct machine *machine, const struct machine_record *record);
void *record_item(const struct machine *machine, const struct machine_record *record, size_t i);
void *record_append(struct machine *machine, const struct machine_record *record);
const char *record_nearest_field(const struct machine_record *record, const char *word);
bool word_is_one_of(const char *word, const char *words);

/* Turns facts outside the ranges and words of the schema into unknown facts; the reason has the
 * rejected value. Needed for facts that come from the kernel or a library, which the file reader
 * has not checked. */
void machine_reject_invalid(struct machine *machine);

/* Sets one fact by its name, e.g. "gpus[3].ecc" or "pci[0000:40:01.1].acs_control", from text. The
 * text "unknown" makes it unknown. With `check` a value out of range is an error.
 * WEFT_ERR_ARGUMENT: no such fact, or a wrong value. */
weft_status machine_set(struct machine *machine, const char *place, const char *value, bool check);

/* A deep copy. */
struct machine *machine_copy(const struct machine *machine);

#endif
