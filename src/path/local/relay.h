/* SPDX-License-Identifier: Apache-2.0 */
/* What the GPU side must know of WEFT_PATH before there is a path: for which peers third GPUs are
 * opened. */
#ifndef WEFT_PATH_LOCAL_RELAY_H
#define WEFT_PATH_LOCAL_RELAY_H

#include "gpu/heap.h"
#include "path/path.h"

enum gpu_relay_policy relay_wish(const struct path_order *order);

#endif
