/* SPDX-License-Identifier: Apache-2.0 */
/* Include this in place of <weft_device.h> in a file whose kernels reach their peers by loads and
 * stores alone: over NVLink, PCIe peer access or memory that PEs share. It has all operations, and
 * none of the transports (remote.h), so kernels have fewer registers (on sm_90, by nvcc: p and
 * atomics 32 and 30 in place of 47 and 42, a barrier 44 in place of 58).
 *
 * An operation on a PE without a direct address is refused: it leaves a record, and the job fails
 * with WEFT_ERR_NO_PATH. A warning names such a PE when the kernels of a program get the state of
 * the job; modules (weft_module_init()) have none. */
#ifndef WEFT_DEVICE_P2P_H
#define WEFT_DEVICE_P2P_H

#if defined WEFT_DEVICE_H || defined WEFT_DEVICE_GDA
#error "<weft/device/p2p.h> stands in place of <weft_device.h> and <weft/device/gda.h>"
#endif
#define WEFT_DEVICE_P2P
#include <weft_device.h>

#endif
