/* SPDX-License-Identifier: Apache-2.0 */
/* Measures this machine for topo, explain and doctor: combines the figures of gpu_probe.h with
 * the error counters of the links, as the machine model needs them. */
#ifndef WEFT_CLI_PROBE_H
#define WEFT_CLI_PROBE_H

#include "machine/live/probe.h"
#include "machine/machine.h"

struct probe;

/* Starts the CUDA driver while the caller reads the machine; probe_open() waits for it, and so does
 * probe_wait() where nothing is opened. */
void probe_prepare(void);
void probe_wait(void);

/* Opens a probe for the GPUs of `machine`, which must be this machine and outlive the probe.
 * WEFT_ERR_UNSUPPORTED: there is no CUDA driver. */
weft_status probe_open(const struct machine *machine, struct probe **probe);
void probe_close(struct probe *probe);

/* Creates the contexts of all GPUs at once. Call it before measuring all pairs. */
void probe_warm(struct probe *probe);

/* Returns the interface for machine_measure(), valid until probe_close(). */
const struct machine_probe *probe_interface(const struct probe *probe);

#endif
