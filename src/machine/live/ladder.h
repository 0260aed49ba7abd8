/* SPDX-License-Identifier: Apache-2.0 */
/* Tests GPUDirect RDMA between a GPU and a NIC of this machine with real calls, step by step:
 * export of GPU memory as dma-buf, its registration, registration through nvidia_peermem, a write
 * that is read back, the rate; for mlx5 NICs also queues and the doorbell. Each step (a "rung" of
 * the "ladder") becomes a fact of the model (machine.ladder) with its errno. */
#ifndef WEFT_MACHINE_LADDER_H
#define WEFT_MACHINE_LADDER_H

#include "machine/machine.h"

/* Runs the test and replaces the recorded steps of this pair. WEFT_ERR_UNSUPPORTED with the reason
 * when no step could run (no CUDA driver, no libibverbs, no such device); then no step is recorded.
 * Also sets the facts of the GPU that only CUDA reports (dmabuf, rdma, vmm, multicast). */
weft_status machine_test_gdr(struct machine *machine, int64_t gpu, const char *nic);

/* Sets those facts of every GPU. WEFT_ERR_UNSUPPORTED without a CUDA driver. */
weft_status machine_read_cuda(struct machine *machine);

#endif
