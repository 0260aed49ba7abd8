/* SPDX-License-Identifier: Apache-2.0 */
/* What WEFT_PATH says about path relay. The GPU side needs it before paths exist: it decides for
 * which peers relay GPUs are opened. */
#ifndef WEFT_PATH_LOCAL_RELAY_H
#define WEFT_PATH_LOCAL_RELAY_H

#include "gpu/heap.h"
#include "path/path.h"

enum gpu_relay_policy relay_policy_of_order(const struct path_order *order);

#endif
