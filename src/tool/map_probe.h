/* SPDX-License-Identifier: Apache-2.0 */
/* Tests whether the CPU can map GPU memory through the driver's resource interface, by comparing
 * data. */
#ifndef WEFT_TOOL_MAP_PROBE_H
#define WEFT_TOOL_MAP_PROBE_H

#include "driver/gpu_api.h"
#include "tool/gpu_probe.h"

/* The caller has made the device's context current. *found: FOUND_PROVEN (passed), FOUND_REFUSED
 * (the driver refused the mapping), FOUND_FAILED (data did not arrive), FOUND_NOT_OFFERED (no
 * memory to test with). The evidence has the reason. */
void map_probe(const struct gpu_api *driver, CUdevice device, const char *bus_id,
               enum probe_proof_found *found, char *evidence, size_t bytes);

#endif
