/* SPDX-License-Identifier: Apache-2.0 */
/* Climbs the ladder of a GPU and a NIC on this machine with real calls: export of GPU memory as
 * dma-buf, its registration, registration through peermem, a write that is read back, the speed.
 * Each rung becomes a fact of the model (machine.ladder) with the errno that was seen. */
#ifndef WEFT_MACHINE_LADDER_H
#define WEFT_MACHINE_LADDER_H

#include "machine/machine.h"

/* Replaces the rungs of this pair. WEFT_ERR_UNSUPPORTED with the reason when nothing could be tried
 * at all (no CUDA driver, no libibverbs, no such device); then no rung is recorded. Also fills the
 * facts of the GPU that only CUDA knows (dmabuf, rdma, vmm). */
weft_status machine_climb(struct machine *machine, int64_t gpu, const char *nic);

/* Those facts of every GPU; WEFT_ERR_UNSUPPORTED without a CUDA driver. */
weft_status machine_ask_cuda(struct machine *machine);

#endif
