/* SPDX-License-Identifier: Apache-2.0 */
/* Counters that grow: two readings of one machine, some time apart. */
#ifndef WEFT_MACHINE_GROWTH_H
#define WEFT_MACHINE_GROWTH_H

#include "machine/machine.h"

/* Sets in `machine` by how much the counters of errors of its PCI devices, ports and links are
 * higher in `later`. A counter that went down was reset, and one that either reading does not know
 * tells nothing. */
void growth_note(struct machine *machine, const struct machine *later);

#endif
