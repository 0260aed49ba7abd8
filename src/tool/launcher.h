/* SPDX-License-Identifier: Apache-2.0 */
/* What `weft run` takes from below: the hub that PEs find each other through, the variables by
 * which they find it, and how agents on other hosts come to it. */
#ifndef WEFT_TOOL_LAUNCHER_H
#define WEFT_TOOL_LAUNCHER_H

#include "boot/hub/hub.h"
#include "boot/methods.h"
#include "boot/rendezvous/handshake.h"
#include "boot/rendezvous/listen.h"
#include "boot/rendezvous/rendezvous.h"
#include "driver/crypto.h"
#include "tool/tool.h"

#endif
