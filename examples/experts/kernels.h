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
    int32_t *choice;  /* of each token, its experts */
    int32_t *owner;   /* of each choice, the PE that has the expert */
    float *weight, *dweight;
    int32_t *place;    /* of each token at each PE: its row, -1: it does not go there */
    uint16_t *factors; /* of the own experts */
    float *dfactors;
    uint32_t *list,
        *listed; /* of each own expert the rows that have it (block * capacity + row), and how many */
    char *out;   /* blocks that leave */
    char *in, *in_dy, *back;                         /* that come: tokens, gradients, results */
    uint64_t *send_bytes, *return_bytes, *at, *room; /* a word for each PE */
} buffers;

#if WEFT_HOST_CODE
WEFT_KERNEL_DECLARE(make_kernel, (buffers, b), (shape, s));
WEFT_KERNEL_DECLARE(route_kernel, (buffers, b), (shape, s));
WEFT_KERNEL_DECLARE(place_kernel, (buffers, b), (shape, s));
WEFT_KERNEL_DECLARE(pack_kernel, (buffers, b), (const uint16_t *, from), (shape, s));
WEFT_KERNEL_DECLARE(expert_kernel, (buffers, b), (shape, s));
WEFT_KERNEL_DECLARE(sum_kernel, (buffers, b), (uint16_t *, to), (shape, s));
WEFT_KERNEL_DECLARE(expert_back_kernel, (buffers, b), (shape, s));
WEFT_KERNEL_DECLARE(weights_kernel, (buffers, b), (shape, s));
WEFT_KERNEL_DECLARE(list_kernel, (buffers, b), (shape, s));
WEFT_KERNEL_DECLARE(factors_kernel, (buffers, b), (shape, s));
#endif

#endif
