/* SPDX-License-Identifier: Apache-2.0 */
/* The last steps of the GPU-NIC test, for mlx5 NICs: whether a program may create queues in memory
 * of its own (DevX), and whether a GPU can map the doorbell register. The caller passes the
 * function that tests the register, so this file does not need CUDA. */
#ifndef WEFT_MACHINE_LADDER_MLX5_H
#define WEFT_MACHINE_LADDER_MLX5_H

#include "machine/live/ladder_verbs.h"

/* Function that tests a doorbell register and sets the result. The register is valid until the
 * function returns. */
struct ladder_doorbell {
    void (*try)(void *argument, void *reg, struct rung_result *result);
    void *argument;
};

/* `queues`: result of querying the NIC's capabilities, registering own memory and allocating a
 * doorbell register through DevX; its detail lists every call that failed. `doorbell`: result of
 * `bell`. Both are "not tried", with the reason, when the NIC cannot be opened as an mlx5 device.
 */
void ladder_mlx5(const char *nic, const struct ladder_doorbell *bell, struct rung_result *queues,
                 struct rung_result *doorbell);

#endif
