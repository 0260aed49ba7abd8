/* SPDX-License-Identifier: Apache-2.0 */
/* Path relay: which pairs use it, by default or forced, over which relay GPU, and that it moves
 * memory that the relay GPU cannot access: the program's own memory from cuMemAlloc() and
 * cuMemCreate(). Other tests of this folder cover the code that it shares with p2p.
 *   relay chosen GPU | lost GPU | forced [GPU] | staged WORDS
 * GPU: relay GPU of PEs 0 and 1; none: the peer's GPU. lost: p2p was available and has failed its
 * path test. */
#include "gpu_test.h"
#include "own_memory.h"

#include <weft.h>
#include <weft/gpu.h>
#include <weft/stream.h>

enum { BYTES = 9 * 1024 * 1024 + 4099 }; /* more than two fragments through the relay GPU */

static weft_job *job;
static weft_ctx *ctx;
static int me, n, other;

static weft_path_info query(int pe, weft_kind kind)
{
    weft_path_info info = {.size = sizeof info, .kind = kind};
    OK(weft_path_query(job, pe, &info));
    return info;
}

static void expect_relay(const char *how, const char *gpu)
{
    const char *before = strcmp(how, "lost") == 0 ? "p2p: the test failed" : "DeviceCanAccessPeer(";
    bool forced = strcmp(how, "forced") == 0;
    char over[32];
    weft_path_info info = query(other, WEFT_GPU), host = query(other, WEFT_HOST);
    snprintf(over, sizeof over, "%sGPU %s", *gpu ? "over " : "over the peer's own ", gpu);
    if (strcmp(info.name, "relay") || info.proven != 1 || info.load_store ||
        !strstr(info.reason, over)) {
        fprintf(stderr, "PE %d: %s, proven %d: %s\n", me, info.name, info.proven, info.reason);
        exit(1);
    }
    CHECK(forced || strstr(info.reason, before));
    CHECK(strcmp(host.name, "p2p") == 0);
    CHECK(strcmp(query(me, WEFT_GPU).name, "self") == 0);
}

static void expect_staged(const char *words)
{
    weft_path_info info = query(other, WEFT_GPU);
    if (strcmp(info.name, "staged") || !strstr(info.reason, words)) {
        fprintf(stderr, "PE %d: %s: %s instead of %s\n", me, info.name, info.reason, words);
        exit(1);
    }
}

/* From and to the program's own memory: odd addresses and sizes, and more than one fragment. */
static void carry(unsigned char *heap, unsigned char *own, unsigned char *plain)
{
    static const size_t sizes[] = {1, 7, 8, 4097, BYTES - 3};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        size_t bytes = sizes[k];
        make_pattern(plain, me + (int)k, bytes);
        fill(job, heap, plain, bytes);
        OK(weft_get(ctx, own + 3, heap, bytes, me));
        OK(weft_barrier(weft_team_world(job)));
        OK(weft_put(ctx, heap + 1, own + 3, bytes, other));
        OK(weft_barrier(weft_team_world(job)));
        memset(plain, 0, bytes);
        look(job, plain, heap + 1, bytes);
        CHECK(pattern_end(plain, other + (int)k, 0, bytes) == bytes);
        OK(weft_get_nbi(ctx, own + 1, heap + 1, bytes, other));
        OK(weft_quiet(ctx));
        OK(weft_barrier(weft_team_world(job)));
        fill(job, heap + 1, own + 1, bytes);
        look(job, plain, heap + 1, bytes);
        CHECK(pattern_end(plain, me + (int)k, 0, bytes) == bytes);
        OK(weft_barrier(weft_team_world(job)));
    }
}

/* A signal is not visible before data that went through the relay GPU, and strided elements keep
 * their addresses. */
static void behind_it(uint64_t *heap, uint64_t *own, uint64_t *signal)
{
    uint64_t words[64], seen = 0;
    for (uint64_t round = 1; round <= 5; round++) {
        for (size_t i = 0; i < 64; i++)
            words[i] = round << 56 | (uint64_t)me << 32 | i;
        fill(job, heap, words, sizeof words);
        OK(weft_get(ctx, own, heap, sizeof words, me));
        OK(weft_barrier(weft_team_world(job)));
        OK(weft_put_signal(ctx, heap + 64, own, sizeof words, signal, round, WEFT_SIGNAL_SET,
                           other));
        OK(weft_signal_wait(ctx, signal, WEFT_GE, round, &seen));
        look(job, words, heap + 64, sizeof words);
        for (size_t i = 0; i < 64; i++)
            CHECK(words[i] == (round << 56 | (uint64_t)other << 32 | i));
        OK(weft_barrier(weft_team_world(job)));
    }
    OK(weft_iput(ctx, heap + 128, own, 3, 2, 8, 20, other));
    OK(weft_barrier(weft_team_world(job)));
    look(job, words, heap + 128, sizeof words);
    for (size_t i = 0; i < 20; i++)
        CHECK(words[3 * i] == (5ull << 56 | (uint64_t)other << 32 | 2 * i));
}

/* From heap to heap: a large transfer, whose parts may move concurrently, before its signal; and
 * strided elements of the peer. */
static void between_heaps(unsigned char *heap, unsigned char *plain, uint64_t *signal)
{
    enum { HALF = BYTES / 2 & ~7, WORDS = 48 };
    uint64_t words[WORDS], seen = 0;
    for (uint64_t round = 1; round <= 3; round++) {
        make_pattern(plain, me + (int)round, HALF);
        fill(job, heap, plain, HALF);
        OK(weft_barrier(weft_team_world(job)));
        OK(weft_put_signal_nbi(ctx, heap + HALF, heap, HALF, signal, round, WEFT_SIGNAL_SET,
                               other));
        OK(weft_signal_wait(ctx, signal, WEFT_GE, round, &seen));
        look(job, words, heap + 2 * HALF - 64, 64); /* the last bytes */
        for (size_t i = 0; i < 64; i++)
            CHECK(((unsigned char *)words)[i] == pattern_byte(other + (int)round, HALF - 64 + i));
        look(job, plain, heap + HALF, HALF);
        CHECK(pattern_end(plain, other + (int)round, 0, HALF) == HALF);
        OK(weft_quiet(ctx));
        OK(weft_barrier(weft_team_world(job)));
    }
    for (size_t i = 0; i < WORDS; i++)
        words[i] = ~((uint64_t)me << 32 | i);
    fill(job, heap, words, sizeof words);
    memset(words, 0, sizeof words);
    fill(job, heap + HALF, words, sizeof words);
    OK(weft_barrier(weft_team_world(job)));
    OK(weft_iget(ctx, heap + HALF, heap, 2, 3, 8, 15, other));
    look(job, words, heap + HALF, sizeof words);
    for (size_t i = 0; i < 30; i++)
        CHECK(words[i] == (i % 2 ? 0 : ~((uint64_t)other << 32 | (3 * i / 2))));
    OK(weft_barrier(weft_team_world(job)));
}

/* The same in stream order, without a wait of the host. */
static void in_stream_order(const struct gpu_api *driver, unsigned char *heap, unsigned char *own,
                            unsigned char *plain, uint64_t *signal)
{
    static const size_t sizes[] = {5, BYTES - 3, 4096};
    CUstream stream;
    CHECK(driver->StreamCreate(&stream, CU_STREAM_NON_BLOCKING) == 0);
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        size_t bytes = sizes[k];
        make_pattern(plain, me + (int)k, bytes);
        fill(job, heap, plain, bytes);
        OK(weft_get_on_stream(ctx, own, heap, bytes, me, stream));
        CHECK(driver->StreamSynchronize(stream) == 0);
        OK(weft_barrier(weft_team_world(job)));
        OK(weft_put_signal_on_stream(ctx, heap, own, bytes, signal, 1, WEFT_SIGNAL_ADD, other,
                                     stream));
        OK(weft_signal_wait_on_stream(ctx, signal, WEFT_GE, k + 1, stream));
        OK(weft_get_on_stream(ctx, own + 1, heap, bytes, me, stream));
        CHECK(driver->StreamSynchronize(stream) == 0);
        look(job, plain, heap, bytes);
        CHECK(pattern_end(plain, other + (int)k, 0, bytes) == bytes);
        OK(weft_barrier(weft_team_world(job)));
        OK(weft_get_on_stream(ctx, own + 3, heap, bytes, other, stream));
        CHECK(driver->StreamSynchronize(stream) == 0);
        OK(weft_barrier(weft_team_world(job)));
        fill(job, heap, own + 3, bytes);
        look(job, plain, heap, bytes);
        CHECK(pattern_end(plain, me + (int)k, 0, bytes) == bytes);
        OK(weft_barrier(weft_team_world(job)));
    }
    CHECK(driver->StreamDestroy(stream) == 0);
}

/* Several transfers at once on two streams, each with its own data. */
static void crowd(const struct gpu_api *driver, unsigned char *heap, unsigned char *own,
                  unsigned char *plain)
{
    enum { MANY = 30, EACH = 48 };
    CUstream streams[2];
    for (int i = 0; i < 2; i++)
        CHECK(driver->StreamCreate(&streams[i], CU_STREAM_NON_BLOCKING) == 0);
    make_pattern(plain, me, MANY * EACH);
    fill(job, heap, plain, MANY * EACH);
    OK(weft_barrier(weft_team_world(job)));
    for (size_t i = 0; i < MANY; i++)
        OK(weft_get_on_stream(ctx, own + i * EACH, heap + i * EACH, EACH, other, streams[i % 2]));
    for (int i = 0; i < 2; i++)
        CHECK(driver->StreamSynchronize(streams[i]) == 0);
    OK(weft_barrier(weft_team_world(job)));
    fill(job, heap, own, MANY * EACH);
    look(job, plain, heap, MANY * EACH);
    CHECK(pattern_end(plain, other, 0, MANY * EACH) == MANY * EACH);
    OK(weft_barrier(weft_team_world(job)));
    for (int i = 0; i < 2; i++)
        CHECK(driver->StreamDestroy(streams[i]) == 0);
}

/* The stream continues only when the source has been read and the destination written. */
static void goes_on_behind(const struct gpu_api *driver, uint64_t *heap)
{
    enum { WORDS = 4096 };
    static uint64_t words[WORDS];
    uint64_t *source = heap, *target = heap + WORDS, *fresh = heap + 2 * WORDS;
    CUstream stream;
    CHECK(driver->StreamCreate(&stream, CU_STREAM_NON_BLOCKING) == 0);
    for (uint64_t round = 1; round <= 10; round++) {
        for (size_t i = 0; i < WORDS; i++)
            words[i] = round << 56 | (uint64_t)me << 32 | i;
        fill(job, source, words, sizeof words);
        memset(words, 0xee, sizeof words);
        fill(job, fresh, words, sizeof words);
        OK(weft_put_on_stream(ctx, target, source, sizeof words, other, stream));
        OK(weft_put_on_stream(ctx, source, fresh, sizeof words, me, stream));
        CHECK(driver->StreamSynchronize(stream) == 0);
        OK(weft_barrier(weft_team_world(job)));
        look(job, words, target, sizeof words);
        for (size_t i = 0; i < WORDS; i++)
            CHECK(words[i] == (round << 56 | (uint64_t)other << 32 | i));
        OK(weft_barrier(weft_team_world(job)));
    }
    CHECK(driver->StreamDestroy(stream) == 0);
}

static void foreign_memory(bool relayed)
{
    struct gpu_api driver;
    CUcontext context;
    CUdeviceptr own = 0;
    unsigned char *heap = gpu_alloc(job, BYTES + 16, 0), *plain = malloc(BYTES);
    uint64_t *words = gpu_alloc(job, 2048, WEFT_ALLOC_ZERO);
    weft_gpu_info info = {.size = sizeof info};
    OK(weft_gpu_query(job, &info));
    CHECK(gpu_api_open(&driver) == WEFT_OK);
    CHECK(driver.DevicePrimaryCtxRetain(&context, info.ordinal) == 0);
    CHECK(driver.CtxPushCurrent(context) == 0);
    CHECK(driver.MemAlloc(&own, BYTES + 16) == 0);
    carry(heap, (unsigned char *)(uintptr_t)own, plain);
    behind_it(words, (uint64_t *)(uintptr_t)own, words + 250);
    between_heaps(heap, plain, words + 249);
    if (relayed) {
        in_stream_order(&driver, heap, (unsigned char *)(uintptr_t)own, plain, words + 251);
        crowd(&driver, heap, (unsigned char *)(uintptr_t)own, plain);
        goes_on_behind(&driver, (uint64_t *)(void *)heap);
    }
    CHECK(driver.MemFree(own) == 0);
    struct piece piece = make_piece(&driver, 12 << 20, info.ordinal, 0);
    carry(heap, (unsigned char *)(uintptr_t)piece.base, plain);
    drop_piece(&driver, piece);
    CHECK(driver.CtxPopCurrent(&context) == 0);
    CHECK(driver.DevicePrimaryCtxRelease(info.ordinal) == 0);
    gpu_api_close(&driver);
    free(plain);
}

/* More than the first chunk of the heap: the relay also moves new memory. */
static void grown(void)
{
    uint64_t *large = gpu_alloc(job, 80u << 20, 0), seen = 0;
    size_t last = (80u << 20) / 8 - 1;
    OK(weft_p64(ctx, large + last, 0x8000000000000001u + (uint64_t)me, other));
    OK(weft_barrier(weft_team_world(job)));
    look(job, &seen, large + last, 8);
    CHECK(seen == 0x8000000000000001u + (uint64_t)other);
    OK(weft_barrier(weft_team_world(job)));
}

int main(int argc, char **argv)
{
    OK(weft_init(&job, NULL));
    ctx = weft_default_ctx(job);
    me = weft_my_pe(job);
    n = weft_n_pes(job);
    other = me ^ 1;
    CHECK(n % 2 == 0 && argc > 1);
    gpu_alloc(job, 64, 0);
    const char *word = argc > 2 ? argv[2] : "";
    if (strcmp(argv[1], "staged") == 0)
        expect_staged(word);
    else if (me < 2)
        expect_relay(argv[1], word);
    foreign_memory(strcmp(argv[1], "staged") != 0);
    grown();
    OK(weft_finalize(job));
    return 0;
}
