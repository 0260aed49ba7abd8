/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of more than 2^31 bytes and elements on GPU memory, whose last block begins after
 * 2^31 where they have blocks: every byte is compared, and the bytes after the end. Needs 4.1 GiB
 * of GPU heap for each PE: WEFT_GPU_HEAP_SIZE=5G. `coll_large host` uses the host's functions. */
#include "tests/job/job.h"

#include "driver/gpu_api.h"
#include "job/job.h"

#include <stdlib.h>
#include <string.h>
#include <weft/stream.h>

enum { CHUNK = 32 << 20, GUARD = 4096 };
static const size_t LARGE = ((size_t)1 << 31) + 4099; /* bytes of a buffer, and one-byte elements */

static weft_job *job;
static weft_team *world;
static struct gpu_api driver;
static CUstream stream;
static size_t me, n;
static bool by_host;
static char *dst, *src; /* parts of one allocation */
static unsigned char *seen, *wanted;

/* Bytes [first, first + bytes) that a PE sends. */
static void make(unsigned char *to, size_t pe, size_t first, size_t bytes)
{
    uint64_t word = 0;
    for (size_t i = 0; i < bytes; i++) {
        size_t at = first + i;
        if (i == 0 || at % 8 == 0) {
            word = (at / 8 + 1) * 0x9e3779b97f4a7c15u + (pe + 1) * 0xd1342543de82ef95u;
            word = (word ^ word >> 29) * 0xbf58476d1ce4e5b9u;
            word ^= word >> 32;
        }
        to[i] = (unsigned char)(word >> at % 8 * 8);
    }
}

static void put(char *to, size_t pe, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += CHUNK) {
        size_t part = bytes - at < CHUNK ? bytes - at : CHUNK;
        make(seen, pe, at, part);
        CHECK(!driver.MemcpyHtoD((uintptr_t)(to + at), seen, part));
        CHECK(!driver.StreamSynchronize(NULL));
    }
}

/* Makes bytes visible that the collective does not write. */
static void spoil(char *to, size_t bytes)
{
    CHECK(!driver.MemsetD8Async((uintptr_t)to, 0xa5, bytes, NULL));
    CHECK(!driver.StreamSynchronize(NULL));
}

static void same(const char *what, const char *at, size_t offset, size_t bytes)
{
    CHECK(!driver.MemcpyDtoH(seen, (uintptr_t)(at + offset), bytes));
    for (size_t i = 0; memcmp(seen, wanted, bytes) != 0 && i < bytes; i++)
        if (seen[i] != wanted[i]) {
            fprintf(stderr, "PE %zu: %s: byte %zu is %#x and not %#x\n", me, what, offset + i,
                    seen[i], wanted[i]);
            exit(1);
        }
}

static void guarded(const char *what, const char *end)
{
    memset(wanted, 0xa5, GUARD);
    same(what, end, 0, GUARD);
}

/* Compares dst + offset with bytes [first, first + bytes) of a PE. */
static void arrived(const char *what, size_t offset, size_t pe, size_t first, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += CHUNK) {
        size_t part = bytes - at < CHUNK ? bytes - at : CHUNK;
        make(wanted, pe, first + at, part);
        same(what, dst, offset + at, part);
    }
}

/* The same for the XOR of all PEs' bytes. */
static void combined(const char *what, size_t first, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += CHUNK) {
        size_t part = bytes - at < CHUNK ? bytes - at : CHUNK;
        make(wanted, 0, first + at, part);
        for (size_t pe = 1; pe < n; pe++) {
            make(seen, pe, first + at, part);
            for (size_t i = 0; i < part; i++)
                wanted[i] ^= seen[i];
        }
        same(what, dst, at, part);
    }
}

static void finish(weft_status status)
{
    OK(status);
    if (by_host)
        return;
    CHECK(!driver.StreamSynchronize(stream));
    OK(job_check_failed(job));
}

static void begin_one(size_t dst_bytes)
{
    OK(weft_barrier(world));
    spoil(dst, dst_bytes + GUARD);
}

static void broadcast(void)
{
    const int root = (int)n - 1;
    begin_one(LARGE);
    if (me == n - 1)
        put(dst, me, LARGE); /* in place at the root */
    OK(weft_barrier(world));
    finish(by_host ? weft_broadcast(world, dst, dst, LARGE, root)
                   : weft_broadcast_on_stream(world, dst, dst, LARGE, root, stream));
    arrived("broadcast", 0, n - 1, 0, LARGE);
    guarded("broadcast", dst + LARGE);
}

static void allreduce(void)
{
    begin_one(LARGE);
    put(dst, me, LARGE);
    OK(weft_barrier(world));
    finish(by_host
               ? weft_allreduce(world, dst, dst, LARGE, WEFT_UINT8, WEFT_XOR)
               : weft_allreduce_on_stream(world, dst, dst, LARGE, WEFT_UINT8, WEFT_XOR, stream));
    combined("allreduce", 0, LARGE);
    guarded("allreduce", dst + LARGE);
}

static void allgather(size_t block)
{
    begin_one(n * block);
    put(dst + me * block, me, block); /* in place */
    OK(weft_barrier(world));
    finish(by_host ? weft_allgather(world, dst, dst + me * block, block)
                   : weft_allgather_on_stream(world, dst, dst + me * block, block, stream));
    for (size_t pe = 0; pe < n; pe++)
        arrived("allgather", pe * block, pe, 0, block);
    guarded("allgather", dst + n * block);
}

static void reducescatter(size_t block)
{
    char *whole = dst;
    begin_one(n * block);
    put(whole, me, n * block);
    dst = whole + me * block; /* in place */
    OK(weft_barrier(world));
    finish(by_host ? weft_reducescatter(world, dst, whole, block, WEFT_UINT8, WEFT_XOR)
                   : weft_reducescatter_on_stream(world, dst, whole, block, WEFT_UINT8, WEFT_XOR,
                                                  stream));
    combined("reducescatter", me * block, block);
    dst = whole;
    guarded("reducescatter", dst + n * block);
}

static void alltoall(size_t block)
{
    src = dst + n * block + GUARD;
    begin_one(n * block);
    put(src, me, n * block);
    OK(weft_barrier(world));
    finish(by_host ? weft_alltoall(world, dst, src, block)
                   : weft_alltoall_on_stream(world, dst, src, block, stream));
    for (size_t pe = 0; pe < n; pe++)
        arrived("alltoall", pe * block, pe, me * block, block);
    guarded("alltoall", dst + n * block);
}

static char *gpu_memory(size_t bytes)
{
    void *address = NULL;
    weft_status status = weft_alloc(job, WEFT_GPU, bytes, 0, 0, &address);
    if (status == WEFT_ERR_UNSUPPORTED) {
        fprintf(stderr, "skipped: %s\n", weft_last_error());
        exit(77);
    }
    OK(status);
    return address;
}

int main(int argc, char **argv)
{
    CUcontext context;
    CUdevice device;
    int ordinal = 0;
    by_host = argc > 1 && strcmp(argv[1], "host") == 0;
    OK(weft_init(&job, NULL));
    world = weft_team_world(job);
    me = (size_t)weft_my_pe(job);
    n = (size_t)weft_n_pes(job);
    size_t block = LARGE / (n > 1 ? n - 1 : 1) + 1, pair = LARGE / n + 1;
    size_t in_place = n * block, apart = 2 * n * pair + GUARD;
    dst = gpu_memory((in_place > apart ? in_place : apart) + GUARD);
    seen = malloc(CHUNK);
    wanted = malloc(CHUNK);
    CHECK(seen && wanted);
    OK(gpu_api_open(&driver));
    CHECK(
        !driver.PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (uintptr_t)dst));
    CHECK(!driver.DeviceGet(&device, ordinal));
    CHECK(!driver.DevicePrimaryCtxRetain(&context, device));
    CHECK(!driver.CtxPushCurrent(context));
    CHECK(!driver.StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    broadcast();
    allreduce();
    allgather(block);
    reducescatter(block);
    alltoall(pair);
    OK(weft_barrier(world));
    CHECK(!driver.StreamDestroy(stream));
    free(seen);
    free(wanted);
    OK(weft_finalize(job));
    return 0;
}
