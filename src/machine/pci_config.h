/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the configuration space of one PCI function. A pure function that accepts any bytes.
 * Source: PCI Express Base Specification 5.0, chapter 7; the P2P approval capability as hypervisors
 * write it for NVIDIA GPUs (vendor-specific capability with signature "P2P"). */
#ifndef WEFT_MACHINE_PCI_CONFIG_H
#define WEFT_MACHINE_PCI_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "machine/machine.h"

enum pci_port_type {
    PCI_ENDPOINT = 0,
    PCI_LEGACY_ENDPOINT = 1,
    PCI_ROOT_PORT = 4,
    PCI_UPSTREAM = 5,
    PCI_DOWNSTREAM = 6,
    PCI_TO_PCI_BRIDGE = 7,
    PCI_TO_PCIE_BRIDGE = 8,
    PCI_ROOT_INTEGRATED = 9,
};

enum { ACS_SV = 1, ACS_TB = 2, ACS_RR = 4, ACS_CR = 8, ACS_UF = 16, ACS_EC = 32, ACS_DT = 64 };

/* Facts of a function; `why` of an unknown fact points to a string literal. */
struct pci_config {
    struct machine_number port_type; /* enum pci_port_type; value -1: not PCI Express */
    struct machine_number gen, gen_max, width, width_max;
    struct machine_number acs, acs_control;
    struct machine_number p2p_clique;
    struct machine_number payload, payload_max, read_request, relaxed_ordering;
    int acs_offset; /* offset of the ACS capability in bytes, 0 when none */
};

void pci_config_read(const uint8_t *bytes, size_t length, struct pci_config *out);

#endif
