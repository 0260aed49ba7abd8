/* SPDX-License-Identifier: Apache-2.0 */
/* What `weft run` takes from below: the hub that PEs find each other through, and the variables by which
 * they find it. */
#ifndef WEFT_TOOL_LAUNCHER_H
#define WEFT_TOOL_LAUNCHER_H

#include "boot/hub.h"
#include "boot/methods.h"
#include "tool/tool.h"

#endif
