/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of examples/experts, which layer.c launches, and their buffers. */
#ifndef EXAMPLES_EXPERTS_KERNELS_H
#define EXAMPLES_EXPERTS_KERNELS_H

#include <weft/launch.h>

#include "experts.h"

/* Buffers in memory of the PE's kernels. A block holds the rows of one PE; blocks are block_bytes()
 * apart. */
typedef struct buffers {
    uint16_t *x, *dy; /* tokens, and gradients of their results */
    uint16_t *y, *dx; /* results, and gradients of the tokens */
    char *entries;    /* experts and weights of each token, row_head() apart */
    int32_t *owner;   /* PE that owns each of these experts */
    float *dweight;
    int32_t *place; /* row of each token at each PE; -1: the token is not sent there */
    /* PARTS_MOST words for each PE: rows sent up to this part, even if they exceed the capacity. */
    uint32_t *sent;
    uint32_t *come;    /* the same, received from each PE */
    uint16_t *factors; /* factors of the PE's own experts */
    float *dfactors;
    /* For each own expert: its rows (block * capacity + row), and their number. */
    uint32_t *list, *listed;
    char *out;               /* blocks of results to be returned */
    char *in, *in_dy, *back; /* received blocks: tokens, gradients, returned results */
} buffers;

#if WEFT_HOST_CODE
WEFT_KERNEL_DECLARE(make_kernel, (buffers, b), (shape, s));
WEFT_KERNEL_DECLARE(route_kernel, (buffers, b), (shape, s));
WEFT_KERNEL_DECLARE(place_kernel, (buffers, b), (shape, s));
WEFT_KERNEL_DECLARE(send_kernel, (buffers, b), (const uint16_t *, from), (char *, to), (shape, s));
WEFT_KERNEL_DECLARE(expert_kernel, (buffers, b), (shape, s));
WEFT_KERNEL_DECLARE(return_kernel, (buffers, b), (uint32_t, part), (shape, s));
WEFT_KERNEL_DECLARE(sum_kernel, (buffers, b), (uint16_t *, to), (uint32_t, part), (shape, s));
WEFT_KERNEL_DECLARE(expert_back_kernel, (buffers, b), (shape, s));
WEFT_KERNEL_DECLARE(weights_kernel, (buffers, b), (shape, s));
WEFT_KERNEL_DECLARE(list_kernel, (buffers, b), (shape, s));
WEFT_KERNEL_DECLARE(factors_kernel, (buffers, b), (shape, s));
#endif

#endif
