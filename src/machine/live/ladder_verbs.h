/* SPDX-License-Identifier: Apache-2.0 */
/* The NIC's side of the GPU-NIC test: registers a range of GPU memory as dma-buf and through
 * nvidia_peermem, and transfers data between it and host memory through a queue pair that is
 * connected to itself. Needs no CUDA: the range is an address, and a dma-buf if there is one. */
#ifndef WEFT_MACHINE_LADDER_VERBS_H
#define WEFT_MACHINE_LADDER_VERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft.h>

enum { RUNG_DMABUF, RUNG_PEERMEM, RUNG_TRANSFER, RUNG_SPEED, RUNGS };

struct rung_result {
    bool tried, ok;
    int error;    /* errno */
    int64_t mbps; /* measured rate, of RUNG_SPEED */
    char detail[200];
};

/* Runs all steps on `bytes` of memory at `address`, of which `check_bytes` are read back. `dmabuf`
 * is -1 when there is none. `address` may be host memory, which tests without a GPU use.
 * WEFT_ERR_UNSUPPORTED when the NIC cannot be opened; the message has the reason. */
weft_status ladder_verbs(const char *nic, uint64_t address, size_t bytes, size_t check_bytes,
                         int dmabuf, struct rung_result results[RUNGS]);

#endif
