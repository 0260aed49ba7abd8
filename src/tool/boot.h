/* SPDX-License-Identifier: Apache-2.0 */
/* What `weft doctor` takes from below when it is the program of a job: the bootstrap by which its
 * processes tell each other what each host is like. */
#ifndef WEFT_TOOL_BOOT_H
#define WEFT_TOOL_BOOT_H

#include "boot/boot.h"
#include "tool/tool.h"

#endif
