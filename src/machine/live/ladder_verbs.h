/* SPDX-License-Identifier: Apache-2.0 */
/* The NIC's side of the ladder: registers a range of GPU memory both ways, and moves data between
 * it and host memory through a queue pair that is connected to itself. Knows no CUDA: the range is
 * an address, and a dma-buf where there is one. */
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
    int64_t mbps; /* last rung */
    char detail[200];
};

/* Tries all rungs. `address` may be host memory too, which is how a test without a GPU uses it.
 * WEFT_ERR_UNSUPPORTED when the device cannot be opened at all; the sentence says why. */
weft_status ladder_verbs(const char *nic, uint64_t address, size_t bytes, size_t check_bytes,
                         int dmabuf, struct rung_result results[RUNGS]);

#endif
