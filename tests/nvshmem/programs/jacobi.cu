/* SPDX-License-Identifier: Apache-2.0 */
/* In the style of a multi-GPU solver: halo rows by single elements and by blocks, a reference run
 * of one PE through the same kernels with ordinary device memory, norms by reductions on a stream.
 */
#include <cmath>
#include <iostream>
#include <vector>

#include <nvshmem.h>
#include <nvshmemx.h>

#define CUDA_RT_CALL(call)                                                                         \
    do {                                                                                           \
        cudaError_t status = call;                                                                 \
        if (cudaSuccess != status) {                                                               \
            fprintf(stderr, "ERROR: \"%s\" in line %d failed with %s (%d).\n", #call, __LINE__,    \
                    cudaGetErrorString(status), status);                                           \
            exit(status);                                                                          \
        }                                                                                          \
    } while (0)

typedef float real;

template <int BLOCK_X, int BLOCK_Y>
__global__ void jacobi_by_element(real *__restrict__ const a_new, const real *__restrict__ const a,
                                  real *__restrict__ const l2_norm, int iy_start, int iy_end,
                                  int nx, int top_pe, int top_iy, int bottom_pe, int bottom_iy)
{
    int iy = blockIdx.y * blockDim.y + threadIdx.y + iy_start;
    int ix = blockIdx.x * blockDim.x + threadIdx.x + 1;
    real local = 0;
    if (iy < iy_end && ix < nx - 1) {
        const real value = 0.25f * (a[iy * nx + ix + 1] + a[iy * nx + ix - 1] +
                                    a[(iy + 1) * nx + ix] + a[(iy - 1) * nx + ix]);
        a_new[iy * nx + ix] = value;
        if (iy_start == iy)
            nvshmem_float_p(a_new + top_iy * nx + ix, value, top_pe);
        if (iy_end - 1 == iy)
            nvshmem_float_p(a_new + bottom_iy * nx + ix, value, bottom_pe);
        real residue = value - a[iy * nx + ix];
        local = residue * residue;
    }
    for (int lane = 16; lane; lane /= 2)
        local += __shfl_xor_sync(0xffffffff, local, lane);
    if ((threadIdx.y * BLOCK_X + threadIdx.x) % 32 == 0)
        atomicAdd(l2_norm, local);
}

__global__ void jacobi_by_block(real *a_new, const real *a, int iy_start, int iy_end, int nx,
                                int top_pe, int top_iy, int bottom_pe, int bottom_iy)
{
    int iy = blockIdx.y * blockDim.y + threadIdx.y + iy_start;
    int ix = blockIdx.x * blockDim.x + threadIdx.x;
    int first = blockIdx.x * blockDim.x, n = min((int)blockDim.x, nx - first);
    if (iy < iy_end && ix > 0 && ix < nx - 1)
        a_new[iy * nx + ix] = 0.25f * (a[iy * nx + ix + 1] + a[iy * nx + ix - 1] +
                                       a[(iy + 1) * nx + ix] + a[(iy - 1) * nx + ix]);
    if (blockIdx.y == 0 && n > 0)
        nvshmemx_float_put_nbi_block(a_new + top_iy * nx + first, a_new + iy_start * nx + first, n,
                                     top_pe);
    if (blockIdx.y == gridDim.y - 1 && n > 0)
        nvshmemx_float_put_nbi_block(a_new + bottom_iy * nx + first,
                                     a_new + (iy_end - 1) * nx + first, n, bottom_pe);
}

__global__ void neighbours_meet(uint64_t *flags, uint64_t value, int top, int bottom)
{
    nvshmem_quiet();
    nvshmemx_signal_op(flags, value, NVSHMEM_SIGNAL_SET, top);
    nvshmemx_signal_op(flags + 1, value, NVSHMEM_SIGNAL_SET, bottom);
    nvshmem_uint64_wait_until_all(flags, 2, NULL, NVSHMEM_CMP_GE, value);
}

/* One PE with ordinary memory: the same kernel puts to itself. */
static void single(real *a, real *a_new, real *norm, int nx, int ny, int mype, cudaStream_t stream)
{
    dim3 block(32, 4, 1), grid((nx + 31) / 32, (ny + 3) / 4, 1);
    jacobi_by_element<32, 4>
        <<<grid, block, 0, stream>>>(a_new, a, norm, 1, ny - 1, nx, mype, ny - 1, mype, 0);
}

int main(int argc, char *argv[])
{
    const int nx = argc > 1 ? atoi(argv[1]) : 1024, ny = 1024;
    int device_count = 0;
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
    if (nvshmemx_init_attr(0, &attr) != NVSHMEMX_SUCCESS)
        return 1;
    const int mype = nvshmem_my_pe(), npes = nvshmem_n_pes();
    CUDA_RT_CALL(cudaGetDeviceCount(&device_count));
    CUDA_RT_CALL(cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE) % device_count));
    CUDA_RT_CALL(cudaFree(0));
    const int chunk = (ny - 2) / npes, top = (mype + npes - 1) % npes, bottom = (mype + 1) % npes;
    real *a = (real *)nvshmem_calloc((size_t)nx * (chunk + 2), sizeof(real));
    real *a_new = (real *)nvshmem_calloc((size_t)nx * (chunk + 2), sizeof(real));
    real *norms = (real *)nvshmem_calloc(2, sizeof(real)), *ref, *ref_new, *ref_norm;
    uint64_t *flags = (uint64_t *)nvshmem_calloc(2, sizeof(uint64_t));
    CUDA_RT_CALL(cudaMalloc(&ref, (size_t)nx * ny * sizeof(real)));
    CUDA_RT_CALL(cudaMalloc((void **)&ref_new, (size_t)nx * ny * sizeof(real)));
    CUDA_RT_CALL(cudaMalloc(&ref_norm, sizeof(real)));
    cudaStream_t stream;
    CUDA_RT_CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    single(ref, ref_new, ref_norm, nx, ny, mype, stream);
    real l2 = std::numeric_limits<real>::max();
    for (uint64_t iter = 1; l2 > 1e-8f && iter < 100; iter++) {
        dim3 block(1024, 1, 1), grid((nx + 1023) / 1024, chunk, 1);
        CUDA_RT_CALL(cudaMemsetAsync(norms, 0, sizeof(real), stream));
        jacobi_by_element<1024, 1><<<grid, block, 0, stream>>>(a_new, a, norms, 1, chunk + 1, nx,
                                                               top, chunk + 1, bottom, 0);
        jacobi_by_block<<<grid, block, 0, stream>>>(a_new, a, 1, chunk + 1, nx, top, chunk + 1,
                                                    bottom, 0);
        neighbours_meet<<<1, 1, 0, stream>>>(flags, iter, top, bottom);
        nvshmemx_float_sum_reduce_on_stream(NVSHMEM_TEAM_WORLD, norms + 1, norms, 1, stream);
        nvshmemx_barrier_all_on_stream(stream);
        CUDA_RT_CALL(cudaMemcpyAsync(&l2, norms + 1, sizeof l2, cudaMemcpyDeviceToHost, stream));
        CUDA_RT_CALL(cudaStreamSynchronize(stream));
        l2 = std::sqrt(l2);
        std::swap(a, a_new);
    }
    std::vector<real> result(nx);
    nvshmem_float_get(result.data(), a, nx, bottom);
    std::cout << mype << ": " << l2 << std::endl;
    CUDA_RT_CALL(cudaFree(ref));
    nvshmem_free(a);
    nvshmem_free(a_new);
    nvshmem_finalize();
    return 0;
}
