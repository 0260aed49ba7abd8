/* SPDX-License-Identifier: Apache-2.0 */
/* put and get between every pair of kinds of memory (host heap, GPU heap, own host memory) at many
 * sizes and alignments, to the next PE and from it; single values; strided transfers. */
#include "gpu_test.h"

enum { ROOM = 1 << 20 };

static weft_job *job;
static weft_ctx *ctx;
static int me, n, next, previous;

static const size_t sizes[] = {1, 2, 3, 4, 7, 8, 16, 31, 64, 257, 4096, 65537, 1000000};

/* Every PE puts its pattern to the next PE, from each kind of source. */
static void puts_from(const char *what, char *dst, char *src)
{
    unsigned char *mine = malloc(ROOM), *seen = malloc(ROOM);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (size_t shift = 0; shift < 5; shift += shift == 2 ? 2 : 1) {
            size_t bytes = sizes[s];
            memset(mine, 0, ROOM);
            fill(job, dst, mine, bytes + 32);
            OK(weft_barrier(weft_team_world(job)));
            make_pattern(mine, me, bytes);
            if (src)
                fill(job, src + shift, mine, bytes);
            const void *from = src ? src + shift : (char *)mine;
            if (shift == 2)
                OK(weft_put_nbi(ctx, dst + 2 * shift, from, bytes, next));
            else
                OK(weft_put(ctx, dst + 2 * shift, from, bytes, next));
            OK(weft_barrier(weft_team_world(job)));
            look(job, seen, dst, bytes + 32);
            make_pattern(mine, previous, bytes);
            if (memcmp(seen + 2 * shift, mine, bytes) != 0 || seen[2 * shift + bytes] != 0) {
                fprintf(stderr, "put %s, %zu bytes, shift %zu: wrong data at PE %d\n", what, bytes,
                        shift, me);
                exit(1);
            }
            OK(weft_barrier(weft_team_world(job)));
        }
    }
    free(mine);
    free(seen);
}

static void gets_into(const char *what, char *dst, char *src)
{
    unsigned char *mine = malloc(ROOM), *seen = malloc(ROOM);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        size_t bytes = sizes[s];
        make_pattern(mine, me, bytes);
        fill(job, src + 1, mine, bytes);
        OK(weft_barrier(weft_team_world(job)));
        memset(seen, 0, ROOM);
        if (dst) {
            OK(weft_get_nbi(ctx, dst + 3, src + 1, bytes, next));
            OK(weft_quiet(ctx));
            look(job, seen, dst + 3, bytes);
        } else {
            OK(weft_get(ctx, seen, src + 1, bytes, next));
        }
        make_pattern(mine, next, bytes);
        if (memcmp(seen, mine, bytes) != 0) {
            fprintf(stderr, "get %s, %zu bytes: wrong data at PE %d\n", what, bytes, me);
            exit(1);
        }
        OK(weft_barrier(weft_team_world(job)));
    }
    free(mine);
    free(seen);
}

static void single_values(char *place)
{
    uint64_t zero[4] = {0};
    fill(job, place, zero, sizeof zero);
    OK(weft_barrier(weft_team_world(job)));
    /* The narrowest one last: a store that is too wide shows in its neighbours. */
    OK(weft_p64(ctx, place + 8, 1ull << 40 | (uint64_t)me, next));
    OK(weft_fence(ctx));
    OK(weft_p32(ctx, place + 4, 100000u + (uint32_t)me, next));
    OK(weft_fence(ctx));
    OK(weft_p16(ctx, place + 2, (uint16_t)(1000 + me), next));
    OK(weft_fence(ctx));
    OK(weft_p8(ctx, place, (uint8_t)(me + 1), next));
    OK(weft_barrier(weft_team_world(job)));
    uint8_t b;
    uint16_t h;
    uint32_t w;
    uint64_t d;
    OK(weft_g8(ctx, place, &b, next)); /* values that this PE stored there */
    OK(weft_g16(ctx, place + 2, &h, next));
    OK(weft_g32(ctx, place + 4, &w, next));
    OK(weft_g64(ctx, place + 8, &d, next));
    CHECK(b == me + 1 && h == 1000 + me && w == 100000u + (uint32_t)me);
    CHECK(d == (1ull << 40 | (uint64_t)me));
    OK(weft_g64(ctx, place + 8, &d, me));
    CHECK(d == (1ull << 40 | (uint64_t)previous));
    FAILS(weft_p64(ctx, place + 4, 1, next), WEFT_ERR_ALIGNMENT, "not a multiple of 8");
    OK(weft_barrier(weft_team_world(job)));
}

static void strided(char *dst, char *src)
{
    uint32_t values[64], seen[64];
    for (uint32_t i = 0; i < 64; i++)
        values[i] = (uint32_t)me * 1000 + i;
    memset(seen, 0, sizeof seen);
    fill(job, dst, seen, sizeof seen);
    if (src)
        fill(job, src, values, sizeof values);
    OK(weft_barrier(weft_team_world(job)));
    OK(weft_iput(ctx, dst, src ? (void *)src : values, 3, 2, 4, 20, next));
    OK(weft_barrier(weft_team_world(job)));
    look(job, seen, dst, sizeof seen);
    for (uint32_t i = 0; i < 60; i++)
        CHECK(seen[i] == (i % 3 ? 0 : (uint32_t)previous * 1000 + 2 * (i / 3)));
    memset(seen, 0, sizeof seen);
    OK(weft_iget(ctx, seen, dst, 2, 3, 4, 20, next));
    for (uint32_t i = 0; i < 40; i++)
        CHECK(seen[i] == (i % 2 ? 0 : (uint32_t)me * 1000 + i));
    OK(weft_barrier(weft_team_world(job)));
}

/* The end of the GPU heap, exact to the byte: every operation refuses a range that begins in the
 * heap and ends after it. */
static void up_to_the_end(char *gpu)
{
    enum { STEP = 64 << 10 };
    char *end = (char *)(((uintptr_t)gpu / STEP + 1) * STEP);
    uint64_t value = 0;
    while (weft_get(ctx, &value, end, 1, me) == WEFT_OK)
        end += STEP;
    OK(weft_put(ctx, end - 8, &value, 8, next));
    OK(weft_p64(ctx, end - 8, 0, next));
    OK(weft_g64(ctx, end - 8, &value, next));
    FAILS(weft_put(ctx, end - 8, &value, 9, next), WEFT_ERR_RANGE, "GPU heap");
    FAILS(weft_put_nbi(ctx, end - 1, &value, 2, next), WEFT_ERR_RANGE, "GPU heap");
    FAILS(weft_get(ctx, &value, end - 4, 8, next), WEFT_ERR_RANGE, "GPU heap");
    FAILS(weft_p64(ctx, end - 4, 0, next), WEFT_ERR_RANGE, "GPU heap");
    FAILS(weft_p64(ctx, end - 12, 0, next), WEFT_ERR_ALIGNMENT, "multiple of 8");
    FAILS(weft_g32(ctx, end - 2, (uint32_t *)&value, next), WEFT_ERR_RANGE, "GPU heap");
    FAILS(weft_iput(ctx, end - 8, &value, 1, 1, 4, 3, next), WEFT_ERR_RANGE, "GPU heap");
    FAILS(weft_p64(ctx, end - 8, 0, n), WEFT_ERR_PE, "does not exist");
    FAILS(weft_g64(ctx, end - 8, &value, -1), WEFT_ERR_PE, "does not exist");
    OK(weft_quiet(ctx));
    OK(weft_barrier(weft_team_world(job)));
}

int main(void)
{
    OK(weft_init(&job, NULL));
    ctx = weft_default_ctx(job);
    me = weft_my_pe(job);
    n = weft_n_pes(job);
    next = (me + 1) % n;
    previous = (me + n - 1) % n;
    char *gpu_a = gpu_alloc(job, ROOM, 0), *gpu_b = gpu_alloc(job, ROOM, 0);
    char *host_a = alloc(job, ROOM), *host_b = alloc(job, ROOM);

    puts_from("host memory to GPU heap", gpu_a, NULL);
    puts_from("GPU heap to GPU heap", gpu_a, gpu_b);
    puts_from("host heap to GPU heap", gpu_a, host_b);
    puts_from("GPU heap to host heap", host_a, gpu_b);
    puts_from("host memory to host heap", host_a, NULL);
    gets_into("GPU heap from GPU heap", gpu_b, gpu_a);
    gets_into("host memory from GPU heap", NULL, gpu_a);
    gets_into("host heap from GPU heap", host_b, gpu_a);
    gets_into("GPU heap from host heap", gpu_b, host_a);
    single_values(gpu_a);
    single_values(host_a);
    strided(gpu_a, NULL);
    strided(gpu_a, gpu_b);
    strided(host_a, gpu_b);
    strided(host_a, NULL);

    FAILS(weft_put(ctx, gpu_a - (64 << 20), host_a, 8, next), WEFT_ERR_ADDRESS, "not a symmetric");
    FAILS(weft_put(ctx, gpu_a, host_a, (size_t)1 << 40, next), WEFT_ERR_RANGE, "GPU heap");
    up_to_the_end(gpu_a);
    CHECK(weft_ptr(job, gpu_a, me) == gpu_a);
    OK(weft_free(job, gpu_b));
    OK(weft_free(job, gpu_a));
    OK(weft_finalize(job));
    return 0;
}
