/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the CPU can map memory of a GPU by the driver's resource interface, seen by what
 * arrives. */
#ifndef WEFT_TOOL_MAP_PROBE_H
#define WEFT_TOOL_MAP_PROBE_H

#include "driver/cuda.h"
#include "tool/gpu_probe.h"

/* The device's context is current. FOUND_REFUSED, FOUND_FAILED (it lies), FOUND_NOT_OFFERED (there
 * was nothing to try it with): the evidence says why. */
void map_probe(const struct cuda *cuda, CUdevice device, const char *bus_id,
               enum probe_proof_found *found, char *evidence, size_t bytes);

#endif
