/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of the software HCA on the stand-in: the same source as on GPUs, run by one thread. */
#include "fake.h"

#define LANES_AT(address) memory_at(address)
#include "gpu/kernel.h"

void fake_hca_slice(const struct gpu_slice *slice)
{
    static _Thread_local struct shared shared;
    run_slice(&shared, slice);
}
