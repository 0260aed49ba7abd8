/* SPDX-License-Identifier: Apache-2.0 */
/* Reading what joins the visible GPUs: the driver says who may access whom and by what, NVML whose
 * links lead where. Knows nothing of what is made of it (routes.h). */
#ifndef WEFT_GPU_LINKS_H
#define WEFT_GPU_LINKS_H

#include "gpu/device.h"
#include "gpu/multipath/routes.h"

void gpu_links_read(const struct gpu_device *own, struct gpu_links *links);

#endif
