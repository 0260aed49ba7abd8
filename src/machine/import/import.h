/* SPDX-License-Identifier: Apache-2.0 */
/* Reads files of other programs as a machine. Each importer sets the facts that its file has; all
 * other facts stay unknown. The content of a file decides which importer reads it. */
#ifndef WEFT_MACHINE_IMPORT_H
#define WEFT_MACHINE_IMPORT_H

#include "machine/machine.h"

/* The machine that an importer fills, and the name of the file for messages. */
struct import {
    struct machine *machine;
    const char *name; /* of the file */
};

/* Reads any known format: a machine file, the topology of NCCL or RCCL (NCCL_TOPO_DUMP_FILE),
 * hwloc's XML (lstopo FILE.xml), or the text of `nvidia-smi topo -m`. `text` need not end in a zero
 * byte. WEFT_ERR_ARGUMENT with file and line; WEFT_ERR_UNSUPPORTED when this build lacks the
 * library that reads the format. */
weft_status import_any(const char *text, size_t length, const char *name, struct machine **machine);

/* One importer per format; `im->machine` has no facts yet. */
weft_status import_nccl(struct import *im, const char *text, size_t length);
weft_status import_hwloc(struct import *im, const char *text, size_t length);
weft_status import_smi(struct import *im, const char *text, size_t length);

struct xml_node;
/* Reads the links of the GPUs from the matrices NVLinkBandwidth and XGMIBandwidth of hwloc's XML.
 * Without a matrix the links stay unknown. */
void import_hwloc_links(struct import *im, const struct xml_node *root);
/* Reads which NUMA nodes are the memory of GPUs (subtype GPUMemory, on Grace). */
void import_hwloc_memory(struct import *im, const struct xml_node *root);

/* Fails with WEFT_ERR_ARGUMENT and the message "FILE:LINE: ...". */
weft_status import_fail(const struct import *im, unsigned long line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds "FILE:LINE: ..." to the warnings of the machine: the rest of the file is still read. Of many
 * warnings the first ones are kept. */
void import_warn(const struct import *im, unsigned long line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

enum { IMPORT_ADDRESS = 24, IMPORT_DEVICES_MOST = 4096, IMPORT_CPUS_MOST = 65536 };

/* Converts a PCI address to the model's form, "0000:3b:00.0". The domain may have up to eight
 * digits or be absent. False when `text` is not an address, or is NULL. */
bool import_address(const char *text, char address[IMPORT_ADDRESS]);

/* Parses a whole number, decimal or 0x..., with nothing after it. */
bool import_number(const char *text, int64_t low, int64_t high, int64_t *value);

/* Converts a bit mask, lowest word first, to the model's list of ranges: "0-19,40-59". */
const char *import_cpu_list(struct machine *machine, const uint32_t *words, size_t n);

/* Sets the vendor from the PCI vendor number, and the model name when facts.h has the PCI device
 * number. */
void import_name_gpu(struct machine *machine, struct machine_gpu *gpu, int64_t pci_vendor,
                     int64_t pci_device);

/* Gives an index to each GPU without one, in the order of PCI addresses, as NVML does. Then sorts
 * all GPUs by index. */
void import_number_gpus(struct machine *machine);

/* Sets the generation of a link from the GPU's compute capability, else from its model name, when
 * that determines it. */
void import_link_generation(const struct machine_gpu *gpu, struct machine_link *link);

/* --- XML -------------------------------------------------------------------------------------- */

struct xml_attribute {
    const char *key, *value;
};

/* An XML element. */
struct xml_node {
    const char *name;
    const char *text; /* the text of an element without elements in it; NULL when blank */
    unsigned long line;
    const struct xml_attribute *attributes;
    size_t n_attributes;
    struct xml_node *parent, *first, *last, *next;
};

/* Parses a document into memory of the machine. Refuses entities, more than 256 levels and more
 * than 65536 elements. WEFT_ERR_ARGUMENT with the line; WEFT_ERR_UNSUPPORTED without expat. */
weft_status import_xml(struct import *im, const char *text, size_t length, struct xml_node **root);

/* Value of an attribute; NULL when the element has no such attribute. */
const char *xml_value(const struct xml_node *node, const char *key);
bool xml_is(const struct xml_node *node, const char *name);

#endif
