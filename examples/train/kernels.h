/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the model, which model.c launches. */
#ifndef EXAMPLES_TRAIN_KERNELS_H
#define EXAMPLES_TRAIN_KERNELS_H

#include "model.h"

/* The rows of a micro-batch are its tokens, sequence after sequence. */
typedef struct tokens {
    const uint8_t *text;
    uint64_t length;
    uint64_t step;
    uint32_t micro;
} tokens;

/* Sums over rows are computed in parts of this many rows. */
enum { PART_ROWS = 32 };
#define parts_of(rows) (((rows) + PART_ROWS - 1) / PART_ROWS)

typedef struct adamw {
    float rate, beta1, beta2, epsilon, decay;
    float correct1, correct2; /* 1 - beta^step */
} adamw;

#if WEFT_HOST_CODE
WEFT_KERNEL_DECLARE(init_kernel, (float *, values), (size_t, n), (uint64_t, seed), (size_t, first),
                    (float, scale));
WEFT_KERNEL_DECLARE(sample_kernel, (tokens, from), (uint32_t *, ids), (model_shape, s));
WEFT_KERNEL_DECLARE(given_kernel, (const uint8_t *, characters), (uint32_t, count),
                    (uint32_t *, ids), (model_shape, s));
WEFT_KERNEL_DECLARE(embed_kernel, (const uint32_t *, ids), (const float *, characters),
                    (const float *, positions), (float *, x), (model_shape, s));
WEFT_KERNEL_DECLARE(norm_kernel, (const float *, x), (const float *, gain), (float *, y),
                    (float *, scales), (uint32_t, rows), (uint32_t, width));
WEFT_KERNEL_DECLARE(product_kernel, (const float *, a), (const float *, b), (const float *, add),
                    (float *, out), (uint32_t, rows), (uint32_t, inner), (uint32_t, columns),
                    (int, relu));
WEFT_KERNEL_DECLARE(attend_kernel, (const float *, qkv), (float *, shares), (float *, out),
                    (model_shape, s));
WEFT_KERNEL_DECLARE(loss_kernel, (float *, logits), (const uint32_t *, ids), (float *, losses),
                    (model_shape, s));
WEFT_KERNEL_DECLARE(mean_parts_kernel, (const float *, losses), (double *, parts),
                    (uint32_t, rows));
WEFT_KERNEL_DECLARE(mean_kernel, (const double *, parts), (double *, mean), (uint32_t, rows));
WEFT_KERNEL_DECLARE(weights_kernel, (const float *, x), (const float *, dy), (float *, dw),
                    (uint32_t, rows), (uint32_t, inner), (uint32_t, columns));
WEFT_KERNEL_DECLARE(below_kernel, (const float *, dy), (const float *, w), (const float *, open),
                    (float *, dx), (uint32_t, rows), (uint32_t, inner), (uint32_t, columns));
WEFT_KERNEL_DECLARE(gain_parts_kernel, (const float *, x), (const float *, scales),
                    (const float *, dy), (float *, parts), (uint32_t, rows), (uint32_t, width));
WEFT_KERNEL_DECLARE(gain_kernel, (const float *, parts), (float *, dgain), (uint32_t, rows),
                    (uint32_t, width));
WEFT_KERNEL_DECLARE(norm_below_kernel, (const float *, x), (const float *, scales),
                    (const float *, gain), (const float *, dy), (float *, dx), (uint32_t, rows),
                    (uint32_t, width), (int, first));
WEFT_KERNEL_DECLARE(shares_below_kernel, (const float *, qkv), (const float *, shares),
                    (const float *, dout), (float *, dshares), (model_shape, s));
WEFT_KERNEL_DECLARE(attend_below_kernel, (const float *, qkv), (const float *, shares),
                    (const float *, dout), (const float *, dshares), (float *, dqkv),
                    (model_shape, s));
WEFT_KERNEL_DECLARE(positions_kernel, (const float *, dx), (float *, dpositions), (model_shape, s));
WEFT_KERNEL_DECLARE(characters_kernel, (const uint32_t *, ids), (const float *, dx),
                    (float *, dcharacters), (model_shape, s));
WEFT_KERNEL_DECLARE(add_kernel, (float *, to), (const float *, a), (const float *, b), (size_t, n));
WEFT_KERNEL_DECLARE(nothing_kernel, (float *, to), (size_t, n));
WEFT_KERNEL_DECLARE(update_kernel, (float *, values), (float *, first), (float *, second),
                    (const float *, gradients), (size_t, n), (adamw, a));
#endif

#endif
