// SPDX-License-Identifier: Apache-2.0
// In the style of a framework's host file, compiled by a host compiler: CUDA's types and functions,
// enumerations, a version check, host functions. Includes only <nvshmem.h>; without CUDA's headers
// in the include path the part that uses them is left out.
#include <nvshmem.h>

static_assert(NVSHMEM_VENDOR_MAJOR_VERSION >= 3, "a feature that came with version 3");
static_assert(std::numeric_limits<nvshmem_team_t>::is_signed, "a number");

#if WEFT_NV_CUDA_HEADERS
struct Buffer {
    half *data;
    __nv_bfloat16 *scales;
    cudaStream_t stream;
};

int exchange(Buffer &buffer, size_t n, int peer)
{
    nvshmemx_half_put_on_stream(buffer.data, buffer.data, n, peer, buffer.stream);
    nvshmemx_putmem_signal_on_stream(buffer.data, buffer.data, n, nullptr, 1, NVSHMEM_SIGNAL_ADD,
                                     peer, buffer.stream);
    nvshmem_bfloat16_put(buffer.scales, buffer.scales, n, peer);
    return nvshmemx_half_sum_reduce_on_stream(NVSHMEM_TEAM_WORLD, buffer.data, buffer.data, n,
                                              buffer.stream);
}

int use_device(int device, void **memory)
{
    if (cudaSetDevice(device) != cudaSuccess)
        return NVSHMEMX_ERROR_GPU_NOT_SELECTED;
    return cudaMalloc(memory, 64) == cudaSuccess ? NVSHMEMX_SUCCESS : NVSHMEMX_ERROR_OUT_OF_MEMORY;
}

int launch(const void *kernel, void **args, cudaStream_t stream)
{
    dim3 grid(2), block(64);
    return nvshmemx_collective_launch(kernel, grid, block, args, 0, stream);
}
#endif

static const char *name_of(nvshmemx_init_status_t status)
{
    switch (status) {
    case NVSHMEM_STATUS_NOT_INITIALIZED:
        return "not initialized";
    case NVSHMEM_STATUS_IS_INITIALIZED:
        return "initialized";
    default:
        return "something else";
    }
}

int main()
{
    nvshmem_init();
    std::string status = name_of(nvshmemx_init_status_t(nvshmemx_init_status()));
    const int mype = nvshmem_my_pe(), npes = nvshmem_n_pes();
    nvshmemx_cmp_type_t cmp = NVSHMEM_CMP_GE;
    nvshmemx_signal_op_t op = NVSHMEM_SIGNAL_ADD;
    nvshmem_team_id_t index = NVSHMEM_TEAM_WORLD_INDEX;
    auto *values = static_cast<int64_t *>(nvshmem_calloc(npes + 1, sizeof(int64_t)));
    auto *flag = static_cast<uint64_t *>(nvshmem_calloc(1, sizeof(uint64_t)));
    assert(values && flag && cmp != NVSHMEM_CMP_SENTINEL);
    for (int pe = 0; pe < npes; pe++) {
        nvshmem_int64_p(values + mype, -5 - mype, pe);
        nvshmemx_signal_op(flag, 1, op, pe);
    }
    nvshmem_barrier(index);
    bool right = nvshmem_signal_fetch(flag) == uint64_t(npes) && status == "initialized";
    for (int pe = 0; pe < npes; pe++)
        right = right && nvshmem_int64_g(values + pe, (mype + 1) % npes) == -5 - pe;
    nvshmem_barrier_all();
    nvshmem_finalize();
    std::printf("%s\n", right ? "all values are right" : "wrong values");
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
