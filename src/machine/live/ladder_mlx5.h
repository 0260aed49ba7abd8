/* SPDX-License-Identifier: Apache-2.0 */
/* The last rungs of the ladder, of an mlx5 adapter: whether a program may make queues of it in
 * memory of its own, and whether whoever is asked may write its doorbell. Knows no CUDA. */
#ifndef WEFT_MACHINE_LADDER_MLX5_H
#define WEFT_MACHINE_LADDER_MLX5_H

#include "machine/live/ladder_verbs.h"

/* Tries a register of the adapter, which is there until it returns, and fills the result. */
struct ladder_bell {
    void (*try)(void *argument, void *reg, struct rung_result *result);
    void *argument;
};

/* `queues`: a doorbell register, queues in own memory and the adapter's capabilities are asked for
 * by DevX; all that is refused is named. Both results are not tried, with the reason, when the
 * adapter cannot be opened as one of mlx5. */
void ladder_mlx5(const char *nic, const struct ladder_bell *bell, struct rung_result *queues,
                 struct rung_result *doorbell);

#endif
