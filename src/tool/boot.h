/* SPDX-License-Identifier: Apache-2.0 */
/* For `weft doctor` as the program of a job: the bootstrap through which its processes exchange the
 * reports of their hosts. */
#ifndef WEFT_TOOL_BOOT_H
#define WEFT_TOOL_BOOT_H

#include "boot/boot.h"
#include "tool/tool.h"

#endif
