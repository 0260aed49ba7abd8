/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the links between the visible GPUs: the driver reports which GPU can access which and over
 * what, NVML where each NVLink leads. routes.h uses the result. */
#ifndef WEFT_GPU_LINKS_H
#define WEFT_GPU_LINKS_H

#include "gpu/device.h"
#include "gpu/multipath/routes.h"

void gpu_links_read(const struct gpu_device *own, struct gpu_links *links);

#endif
