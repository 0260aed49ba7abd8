/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of examples/experts, which layer.c launches, and what they work on. */
#ifndef EXAMPLES_EXPERTS_KERNELS_H
#define EXAMPLES_EXPERTS_KERNELS_H

#include <weft/launch.h>

#include "experts.h"

/* Memory of the PE, where its kernels run. Blocks: one for each PE, block_bytes() apart. */
typedef struct buffers {
    uint16_t *x, *dy; /* tokens, and the gradients of their results */
    uint16_t *y, *dx; /* results, and the gradients of the tokens */
    char *entries;    /* of each token its experts and their weights, row_head() apart */
    int32_t *owner;   /* of each of them, the PE that has it */
    float *dweight;
    int32_t *place; /* of each token at each PE: its row, -1: it does not go there */
    uint32_t *sent; /* to each PE, PARTS_MOST words: rows of the parts up to this one, whether there
                       is room or not */
    uint32_t *come; /* the same, from each PE */
    uint16_t *factors; /* of the own experts */
    float *dfactors;
    uint32_t *list, *listed; /* of each own expert the rows that have it (block * capacity + row),
                                and how many */
    char *out;               /* blocks of results, which go back */
    char *in, *in_dy, *back; /* that come: tokens, gradients, results */
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
