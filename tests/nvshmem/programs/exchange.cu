/* SPDX-License-Identifier: Apache-2.0 */
/* In the style of expert-parallel and transposing programs: all-to-all with reduced precision, a
 * pipeline of puts with signals, a transpose by strided puts, teams of arbitrary PEs, queues,
 * warpgroups. */
#include "nvshmem.h"

__global__ void dispatch(half *out, const half *tokens, uint64_t *flags, size_t n)
{
    const int mype = nvshmem_my_pe(), npes = nvshmem_n_pes();
    for (int peer = blockIdx.x; peer < npes; peer += gridDim.x)
        nvshmemx_putmem_signal_nbi_block(out + mype * n, tokens + peer * n, n * sizeof(half),
                                         flags + mype, 1, NVSHMEM_SIGNAL_ADD, peer);
    if (threadIdx.x < npes)
        nvshmem_signal_wait_until(flags + threadIdx.x, NVSHMEM_CMP_GE, 1);
    __syncthreads();
}

__global__ void combine(__nv_bfloat16 *out, const __nv_bfloat16 *in, size_t n, nvshmem_team_t team)
{
    nvshmemx_bfloat16_sum_reduce_block(team, out, in, n);
    nvshmemx_bfloat16_fcollect_warp(team, out, in, n);
    nvshmemx_barrier_warpgroup(team);
}

__global__ void transpose(double *out, const double *in, int rows, int columns)
{
    const int mype = nvshmem_my_pe(), npes = nvshmem_n_pes();
    for (int i = threadIdx.x; i < rows; i += blockDim.x)
        nvshmem_double_iput(out + mype * rows + i, in + i * columns, npes * rows, 1, columns / npes,
                            (mype + 1) % npes);
    nvshmem_fence();
    nvshmemx_barrier_all_block();
    if (!threadIdx.x)
        nvshmem_double_alltoalls(NVSHMEM_TEAM_WORLD, out, in, 1, 2, columns / npes / 2);
}

__global__ void through_queues(uint32_t *to, const uint32_t *from, size_t n, uint64_t *flag,
                               nvshmemx_qp_handle_t *queues, int peer)
{
    nvshmemx_qp_uint32_put_nbi_warp(to, from, n, peer, queues[0]);
    if (threadIdx.x == 0) {
        nvshmemx_qp_quiet(NVSHMEMX_PE_ALL, queues, 1);
        nvshmemx_qp_signal_op(flag, 1, NVSHMEM_SIGNAL_SET, peer, queues[0]);
    }
    nvshmemx_flush_warp();
}

/* Function names by token pasting, as in benchmarks. */
#define REDUCE(TYPENAME, TYPE, OP)                                                                 \
    __global__ void reduce_##TYPENAME##_##OP(TYPE *dest, const TYPE *source, size_t n)             \
    {                                                                                              \
        nvshmemx_##TYPENAME##_##OP##_reduce_block(NVSHMEM_TEAM_WORLD, dest, source, n);            \
        nvshmemx_##TYPENAME##_##OP##_reducescatter_warp(NVSHMEM_TEAM_WORLD, dest, source, n);      \
    }
REDUCE(half, half, max)
REDUCE(uint8, uint8_t, xor)

static nvshmem_team_t team_of_all_backwards()
{
    nvshmem_team_config_t config = NVSHMEM_TEAM_CONFIG_INITIALIZER;
    nvshmem_team_t team = NVSHMEM_TEAM_INVALID;
    nvshmemx_team_uniqueid_t *id =
        static_cast<nvshmemx_team_uniqueid_t *>(nvshmem_malloc(sizeof(*id)));
    const int mype = nvshmem_my_pe(), npes = nvshmem_n_pes();
    if (mype == 0) {
        nvshmemx_team_uniqueid_t made;
        nvshmemx_team_get_uniqueid(&made);
        cudaMemcpy(id, &made, sizeof(made), cudaMemcpyHostToDevice);
    }
    nvshmem_broadcastmem(NVSHMEM_TEAM_WORLD, id, id, sizeof(*id), 0);
    cudaMemcpy(&config.uniqueid, id, sizeof(config.uniqueid), cudaMemcpyDeviceToHost);
    int status = nvshmemx_team_init(&team, &config, NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID, npes,
                                    npes - 1 - mype);
    if (status) {
        fprintf(stderr, "nvshmemx_team_init: %d\n", status);
        nvshmem_global_exit(1);
    }
    return team;
}

int main(void)
{
    int provided;
    if (nvshmem_init_thread(NVSHMEM_THREAD_SERIALIZED, &provided) ||
        provided < NVSHMEM_THREAD_SERIALIZED)
        return 1;
    nvshmemx_init_status_t now = static_cast<nvshmemx_init_status_t>(nvshmemx_init_status());
    assert(now >= NVSHMEM_STATUS_IS_INITIALIZED);
    (void)now;
    const size_t n = 4096;
    const int npes = nvshmem_n_pes();
    half *tokens = (half *)nvshmem_malloc(n * npes * sizeof(half));
    half *received = (half *)nvshmem_malloc(n * npes * sizeof(half));
    uint64_t *flags = (uint64_t *)nvshmem_calloc(npes, sizeof(uint64_t));
    nvshmemx_qp_handle_t *queues = nullptr, *on_device;
    if (nvshmemx_qp_create(4, &queues) != NVSHMEMX_SUCCESS)
        return 1;
    cudaMalloc(&on_device, 4 * sizeof(*queues));
    cudaMemcpy(on_device, queues, 4 * sizeof(*queues), cudaMemcpyDefault);
    dispatch<<<npes, 256>>>(received, tokens, flags, n);
    combine<<<1, 128>>>((__nv_bfloat16 *)received, (__nv_bfloat16 *)tokens, n,
                        team_of_all_backwards());
    transpose<<<1, 128>>>((double *)received, (double *)tokens, 16, 16 * npes);
    through_queues<<<1, 32>>>((uint32_t *)received, (uint32_t *)tokens, 32, flags, on_device, 0);
    reduce_half_max<<<1, 256>>>(received, tokens, n / npes);
    reduce_uint8_xor<<<1, 32>>>((uint8_t *)received, (uint8_t *)tokens, n / npes);
    nvshmemx_half_alltoall_on_stream(NVSHMEM_TEAM_WORLD, received, tokens, n, 0);
    cudaDeviceSynchronize();
    nvshmem_finalize();
    return 0;
}
