/* SPDX-License-Identifier: Apache-2.0 */
/* Files of other programs read as a machine. Each importer takes over what its file says and leaves
 * unknown what the file does not tell; the kind of a file is told by its content. Knows the model,
 * and nothing of what follows from it. */
#ifndef WEFT_MACHINE_IMPORT_H
#define WEFT_MACHINE_IMPORT_H

#include "machine/machine.h"

/* What is being read, for messages and memory. */
struct import {
    struct machine *machine;
    const char *name; /* of the file */
};

/* Whatever `text` holds: a machine file, NCCL's or RCCL's topology (NCCL_TOPO_DUMP_FILE), hwloc's
 * XML (lstopo FILE.xml), or the text of `nvidia-smi topo -m`. `text` need not end in a zero byte.
 * WEFT_ERR_ARGUMENT with file and line, WEFT_ERR_UNSUPPORTED when this build lacks the library that
 * reads it. */
weft_status import_any(const char *text, size_t length, const char *name, struct machine **machine);

/* One kind each; `im->machine` is empty when called. */
weft_status import_nccl(struct import *im, const char *text, size_t length);
weft_status import_hwloc(struct import *im, const char *text, size_t length);
weft_status import_smi(struct import *im, const char *text, size_t length);

/* WEFT_ERR_ARGUMENT, "FILE:LINE: ...". */
weft_status import_fail(const struct import *im, unsigned long line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

enum { IMPORT_ADDRESS = 24, IMPORT_DEVICES_MOST = 4096, IMPORT_CPUS_MOST = 65536 };

/* A PCI address as the model writes it, "0000:3b:00.0"; takes domains of up to eight digits, and
 * none at all. False when `text` is no address, or NULL. */
bool import_address(const char *text, char address[IMPORT_ADDRESS]);

/* A whole number, decimal or 0x..., and nothing behind it. */
bool import_number(const char *text, int64_t low, int64_t high, int64_t *value);

/* Bits, the lowest first, as the list of ranges that the model has: "0-19,40-59". */
const char *import_cpu_list(struct machine *machine, const uint32_t *words, size_t n);

/* Vendor's word by PCI vendor number, and the model's name where the device number is in the table
 * of facts; what is not known there stays unknown. */
void import_name_gpu(struct machine *machine, struct machine_gpu *gpu, int64_t pci_vendor,
                     int64_t pci_device);

/* Numbers the GPUs that have no index yet in the order of their PCI addresses, as NVML does, and
 * puts all of them into the order of their numbers. */
void import_number_gpus(struct machine *machine);

/* Fills a link's generation from what the GPU's compute capability tells, where it tells it. */
void import_link_generation(const struct machine_gpu *gpu, struct machine_link *link);

/* --- XML -------------------------------------------------------------------------------------- */

struct xml_attribute {
    const char *key, *value;
};

/* Elements alone: text between them is not kept. */
struct xml_node {
    const char *name;
    unsigned long line;
    const struct xml_attribute *attributes;
    size_t n_attributes;
    struct xml_node *parent, *first, *last, *next;
};

/* Reads all of a document into memory of the machine. Entities are refused, so are more than 256
 * levels and 65536 elements. WEFT_ERR_ARGUMENT with the line; WEFT_ERR_UNSUPPORTED without
 * expat. */
weft_status import_xml(struct import *im, const char *text, size_t length, struct xml_node **root);

/* NULL when the element has no such attribute. */
const char *xml_value(const struct xml_node *node, const char *key);
bool xml_is(const struct xml_node *node, const char *name);

#endif
