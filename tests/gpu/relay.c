/* SPDX-License-Identifier: Apache-2.0 */
/* Path relay: which pairs take it, by themselves or forced, over which GPU, and that it carries data from
 * and to memory that the third GPU cannot access: what the program took from cuMemAlloc() and
 * cuMemCreate(). What it shares with p2p is tested by the other programs of this folder.
 *   relay chosen GPU | forced [GPU] | staged WORDS     GPU: of the pair of PEs 0 and 1; none: the peer's */
#include "gpu_test.h"
#include "own_memory.h"

#include <weft.h>
#include <weft/gpu.h>

enum { BYTES = 9 * 1024 * 1024 + 4099 }; /* more than two pieces of what goes around */

static weft_job *job;
static weft_ctx *ctx;
static int me, n, other;

static weft_path_info query(int pe, weft_kind kind)
{
    weft_path_info info = {.size = sizeof info, .kind = kind};
    OK(weft_path_query(job, pe, &info));
    return info;
}

static void expect_relay(bool forced, const char *gpu)
{
    char over[32];
    weft_path_info info = query(other, WEFT_GPU), host = query(other, WEFT_HOST);
    snprintf(over, sizeof over, "%sGPU %s", *gpu ? "over " : "over the peer's own ", gpu);
    if (strcmp(info.name, "relay") || info.proven != 1 || info.load_store ||
        !strstr(info.reason, over)) {
        fprintf(stderr, "PE %d: %s, proven %d: %s\n", me, info.name, info.proven, info.reason);
        exit(1);
    }
    CHECK(forced || strstr(info.reason, "p2p: cuDeviceCanAccessPeer("));
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

/* From and to memory of the program's own: odd places and sizes, and more than goes around at once. */
static void carry(unsigned char *heap, unsigned char *own, unsigned char *plain)
{
    static const size_t sizes[] = {1, 7, 8, 4097, BYTES - 3};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        size_t bytes = sizes[k];
        make_pattern(plain, me + (int)k, bytes);
        OK(weft_put(ctx, heap, plain, bytes, me));
        OK(weft_get(ctx, own + 3, heap, bytes, me));
        OK(weft_barrier(weft_team_world(job)));
        OK(weft_put(ctx, heap + 1, own + 3, bytes, other));
        OK(weft_barrier(weft_team_world(job)));
        memset(plain, 0, bytes);
        look(job, plain, heap + 1, bytes);
        for (size_t i = 0; i < bytes; i++)
            CHECK(plain[i] == pattern_byte(other + (int)k, i));
        OK(weft_get_nbi(ctx, own + 1, heap + 1, bytes, other));
        OK(weft_quiet(ctx));
        OK(weft_barrier(weft_team_world(job)));
        OK(weft_put(ctx, heap + 1, own + 1, bytes, me));
        look(job, plain, heap + 1, bytes);
        for (size_t i = 0; i < bytes; i++)
            CHECK(plain[i] == pattern_byte(me + (int)k, i));
        OK(weft_barrier(weft_team_world(job)));
    }
}

/* A signal is not seen before data that went around, and elements of it keep their places. */
static void behind_it(uint64_t *heap, uint64_t *own, uint64_t *signal)
{
    uint64_t words[64], seen = 0;
    for (uint64_t round = 1; round <= 5; round++) {
        for (size_t i = 0; i < 64; i++)
            words[i] = round << 56 | (uint64_t)me << 32 | i;
        OK(weft_put(ctx, heap, words, sizeof words, me));
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

static void foreign_memory(void)
{
    struct cuda cuda;
    CUcontext context;
    CUdeviceptr own = 0;
    unsigned char *heap = gpu_alloc(job, BYTES + 16, 0), *plain = malloc(BYTES);
    uint64_t *words = gpu_alloc(job, 2048, WEFT_ALLOC_ZERO);
    weft_gpu_info info = {.size = sizeof info};
    OK(weft_gpu_query(job, &info));
    CHECK(cuda_open(&cuda) == WEFT_OK);
    CHECK(cuda.DevicePrimaryCtxRetain(&context, info.ordinal) == 0);
    CHECK(cuda.CtxPushCurrent(context) == 0);
    CHECK(cuda.MemAlloc(&own, BYTES + 16) == 0);
    carry(heap, (unsigned char *)(uintptr_t)own, plain);
    behind_it(words, (uint64_t *)(uintptr_t)own, words + 250);
    CHECK(cuda.MemFree(own) == 0);
    struct piece piece = make_piece(&cuda, 12 << 20, info.ordinal, 0);
    carry(heap, (unsigned char *)(uintptr_t)piece.base, plain);
    drop_piece(&cuda, piece);
    CHECK(cuda.CtxPopCurrent(&context) == 0);
    CHECK(cuda.DevicePrimaryCtxRelease(info.ordinal) == 0);
    cuda_close(&cuda);
    free(plain);
}

/* More than the first chunk of the heap: what is new is carried too. */
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
        expect_relay(strcmp(argv[1], "forced") == 0, word);
    foreign_memory();
    grown();
    OK(weft_finalize(job));
    return 0;
}
