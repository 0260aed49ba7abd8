/* SPDX-License-Identifier: Apache-2.0 */
/* Measures this machine for topo, explain and doctor: joins the figures of gpu_probe.h with the
 * error counters of the links, in the words of the machine's model. */
#ifndef WEFT_CLI_PROBE_H
#define WEFT_CLI_PROBE_H

#include "machine/live/probe.h"
#include "machine/machine.h"

struct probe;

/* For the GPUs of `machine`, which is this one and outlives the probe. WEFT_ERR_UNSUPPORTED when
 * there is no CUDA driver. */
weft_status probe_open(const struct machine *machine, struct probe **probe);
void probe_close(struct probe *probe);

/* To be called before a run over all pairs: makes all contexts at once. */
void probe_warm(struct probe *probe);

/* What machine_measure() takes; valid until probe_close(). */
const struct machine_probe *probe_interface(const struct probe *probe);

#endif
