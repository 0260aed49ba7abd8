/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of examples/experts, which layer.c launches, and their buffers. */
#ifndef EXAMPLES_EXPERTS_KERNELS_H
#define EXAMPLES_EXPERTS_KERNELS_H

#include <weft/launch.h>

#include "experts.h"

/* Buffers in memory of the PE's kernels. A row is a token of some PE that goes to experts of this
 * one. */
typedef struct buffers {
    uint16_t *x, *dy;        /* [tokens][hidden] tokens, and gradients of their results */
    uint16_t *y, *dx;        /* [tokens][hidden] results, and gradients of the tokens */
    int64_t *expert;         /* [tokens][top] */
    float *weight, *dweight; /* [tokens][top] */
    uint16_t *factors;       /* [own experts][hidden] factors of the PE's own experts */
    float *dfactors;         /* [own experts][hidden] */

    /* received rows */
    uint32_t *n_rows;        /* [1] */
    int64_t *row_expert;     /* [rows][top] counted from the PE's first expert; -1: another PE's */
    float *row_weight;       /* [rows][top] */
    uint16_t *row_x;         /* [rows][hidden] tokens */
    uint16_t *row_dy;        /* [rows][hidden] gradients */
    uint16_t *row_out;       /* [rows][hidden] results, or gradients, to be returned */
    float *row_dweight;      /* [rows][top] */
    uint32_t *list, *listed; /* for each own expert its rows, and their number */
} buffers;

#if WEFT_HOST_CODE
WEFT_KERNEL_DECLARE(make_kernel, (buffers, b), (shape, s));
WEFT_KERNEL_DECLARE(route_kernel, (buffers, b), (shape, s));
WEFT_KERNEL_DECLARE(expert_kernel, (buffers, b), (shape, s));
WEFT_KERNEL_DECLARE(expert_back_kernel, (buffers, b), (shape, s));
WEFT_KERNEL_DECLARE(list_kernel, (buffers, b), (shape, s));
WEFT_KERNEL_DECLARE(factors_kernel, (buffers, b), (shape, s));
#endif

#endif
