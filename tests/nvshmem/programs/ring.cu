/* SPDX-License-Identifier: Apache-2.0 */
/* In the style of an introductory program: one thread puts its PE number to the next PE. Includes
 * only <nvshmem.h> and relies on the headers that it includes. */
#include <nvshmem.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t error = (call);                                                                \
        if (error != cudaSuccess) {                                                                \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));         \
            exit(EXIT_FAILURE);                                                                    \
        }                                                                                          \
    } while (0)

__global__ void simple_shift(int *destination)
{
    int mype = nvshmem_my_pe();
    int npes = nvshmem_n_pes();
    nvshmem_int_p(destination, mype, (mype + 1) % npes);
}

/* A ring reduction in chunks, as in guides to collectives. */
__global__ void ring_reduce(int *dst, const int *src, size_t nreduce, uint64_t *signal,
                            size_t chunk)
{
    int mype = nvshmem_my_pe(), npes = nvshmem_n_pes(), peer = (mype + 1) % npes;
    int tid = threadIdx.x, bid = blockIdx.x, nthreads = blockDim.x, nblocks = gridDim.x;
    size_t per_block = nreduce / nblocks;
    src += bid * per_block;
    dst += bid * per_block;
    signal += bid;
    size_t chunks = per_block / chunk;
    for (size_t c = 0; c < chunks; c++) {
        if (mype != 0) {
            if (tid == 0)
                nvshmem_signal_wait_until(signal, NVSHMEM_CMP_GE, c + 1);
            __syncthreads();
            for (size_t i = tid; i < chunk; i += nthreads)
                dst[i] = dst[i] + src[i];
            __syncthreads();
        }
        if (tid == 0)
            nvshmem_int_put_signal_nbi(dst, mype == 0 ? src : dst, chunk, signal, 1,
                                       NVSHMEM_SIGNAL_ADD, peer);
        src += chunk;
        dst += chunk;
    }
}

int main(int argc, char *argv[])
{
    int msg = -1;
    cudaStream_t stream;
    (void)argc;
    (void)argv;
    nvshmem_init();
    int mype_node = nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE);
    CHECK(cudaSetDevice(mype_node));
    CHECK(cudaStreamCreate(&stream));
    int *destination = (int *)nvshmem_malloc(sizeof(int));
    int *src = (int *)nvshmem_calloc(1 << 16, sizeof(int));
    uint64_t *signals = (uint64_t *)nvshmem_calloc(16, sizeof(uint64_t));
    assert(destination && src && signals);

    simple_shift<<<1, 1, 0, stream>>>(destination);
    nvshmemx_barrier_all_on_stream(stream);
    CHECK(cudaMemcpyAsync(&msg, destination, sizeof(int), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    printf("%d: received message %d\n", nvshmem_my_pe(), msg);

    size_t n = 1 << 16, chunk = 4096;
    void *args[] = {&src, &src, &n, &signals, &chunk};
    dim3 grid(8), block(256);
    int status =
        nvshmemx_collective_launch((const void *)ring_reduce, grid, block, args, 0, stream);
    if (status != NVSHMEMX_SUCCESS) {
        NVSHMEMI_ERROR_PRINT("shmemx_collective_launch failed %d\n", status);
        exit(-1);
    }
    CHECK(cudaStreamSynchronize(stream));
    nvshmem_free(src);
    nvshmem_free(signals);
    nvshmem_free(destination);
    nvshmem_finalize();
    return 0;
}
