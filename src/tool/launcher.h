/* SPDX-License-Identifier: Apache-2.0 */
/* For `weft run`: the hub through which PEs find each other, the environment variables by which
 * they find the hub, and how agents on other hosts connect to it. */
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
