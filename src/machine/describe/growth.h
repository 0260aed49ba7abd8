/* SPDX-License-Identifier: Apache-2.0 */
/* Growth of error counters between two readings of one machine. */
#ifndef WEFT_MACHINE_GROWTH_H
#define WEFT_MACHINE_GROWTH_H

#include "machine/machine.h"

/* Sets the facts *_grown of `machine`: the increase of the error counters of its PCI devices,
 * ports, links and GPUs in `later`. A counter that decreased was reset and counts as 0. A counter
 * that is unknown in one of the readings is ignored. */
void growth_record(struct machine *machine, const struct machine *later);

#endif
