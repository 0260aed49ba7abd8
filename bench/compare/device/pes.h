/* SPDX-License-Identifier: Apache-2.0 */
/* Start-up of another library's benchmark without that library's launcher. PEER_RANK and PEER_PES
 * are this process's rank and the number of processes; rank 0 passes the library's unique id
 * through the new file PEER_FILE. Each process uses the GPU of its rank. */
#ifndef WEFT_COMPARE_DEVICE_PES_H
#define WEFT_COMPARE_DEVICE_PES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cuda_runtime.h>

static int me, n_pes;

#define CUDA(call)                                                                                 \
    do {                                                                                           \
        cudaError_t error_ = (call);                                                               \
        if (error_ != cudaSuccess) {                                                               \
            fprintf(stderr, "rank %d: %s: %s\n", me, #call, cudaGetErrorString(error_));           \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static const char *from_environment(const char *name)
{
    const char *text = getenv(name);
    if (!text) {
        fprintf(stderr, "%s is not set: start this by bench/compare/device/run.sh\n", name);
        exit(2);
    }
    return text;
}

/* Sets me and n_pes and makes the GPU of this rank current. */
static void read_rank(void)
{
    int devices = 0;
    me = atoi(from_environment("PEER_RANK"));
    n_pes = atoi(from_environment("PEER_PES"));
    CUDA(cudaGetDeviceCount(&devices));
    CUDA(cudaSetDevice(me % devices));
    CUDA(cudaFree(0));
}

static void put_file(const char *path, const void *id, size_t bytes)
{
    char partial[4096];
    snprintf(partial, sizeof partial, "%s.partial", path);
    FILE *file = fopen(partial, "wb");
    if (!file || fwrite(id, 1, bytes, file) != bytes || fclose(file) || rename(partial, path)) {
        perror(path);
        exit(1);
    }
}

/* Copies rank 0's id to every rank; waits for it for at most 20 s. */
static void share_id(void *id, size_t bytes)
{
    const char *path = from_environment("PEER_FILE");
    if (me == 0) {
        put_file(path, id, bytes);
        return;
    }
    for (int i = 0; i < 2000; i++) {
        FILE *file = fopen(path, "rb");
        size_t got = file ? fread(id, 1, bytes, file) : 0;
        if (file)
            fclose(file);
        if (got == bytes)
            return;
        usleep(10000);
    }
    fprintf(stderr, "rank %d: %s has not appeared within 20 s\n", me, path);
    exit(1);
}

#endif
