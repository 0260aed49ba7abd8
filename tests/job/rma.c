/* SPDX-License-Identifier: Apache-2.0 */
/* put and get in every form and many sizes, to every PE; also the last byte of the heap, and zero
 * bytes. */
#include "job.h"

static void contiguous(weft_job *job, weft_ctx *ctx, int me, int n)
{
    enum { MOST = 300000 };
    unsigned char *area = alloc(job, MOST), *local = malloc(MOST), *back = malloc(MOST);
    static const size_t sizes[] = {0,  1,  2,  3,  4,   5,   7,    8,    9,     15,    16,
                                   17, 31, 33, 63, 100, 255, 1000, 4097, 65536, 299999};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (int to = 0; to < n; to++) {
            for (size_t i = 0; i < sizes[s]; i++)
                local[i] = (unsigned char)(i * 13 + (size_t)me * 7 + s);
            if (to == (me + 1) % n)
                OK(weft_put(ctx, area, local, sizes[s], to));
        }
        OK(weft_barrier(weft_team_world(job)));
        int from = (me + n - 1) % n;
        for (size_t i = 0; i < sizes[s]; i++)
            CHECK(area[i] == (unsigned char)(i * 13 + (size_t)from * 7 + s));
        int other = (me + 2) % n, origin = (other + n - 1) % n;
        OK(weft_get(ctx, back, area, sizes[s], other));
        for (size_t i = 0; i < sizes[s]; i++)
            CHECK(back[i] == (unsigned char)(i * 13 + (size_t)origin * 7 + s));
        OK(weft_barrier(weft_team_world(job)));
    }
    OK(weft_put_nbi(ctx, area, local, 1000, me));
    OK(weft_get_nbi(ctx, back, area, 10, me));
    OK(weft_quiet(ctx));
    CHECK(memcmp(area, local, 1000) == 0);
    OK(weft_free(job, area));
    free(local);
    free(back);
}

static void single_values(weft_job *job, weft_ctx *ctx, int me, int n)
{
    uint64_t *area = alloc(job, 64);
    int to = (me + 1) % n, from = (me + n - 1) % n;
    OK(weft_p8(ctx, (char *)area, (uint8_t)(0x10 + me), to));
    OK(weft_p16(ctx, (char *)area + 2, (uint16_t)(0x1000 + me), to));
    OK(weft_p32(ctx, (char *)area + 4, 0x10000000u + (uint32_t)me, to));
    OK(weft_p64(ctx, area + 1, 0x1000000000000000u + (uint64_t)me, to));
    OK(weft_barrier(weft_team_world(job)));
    CHECK(*(uint8_t *)area == 0x10 + from);
    CHECK(*(uint16_t *)((char *)area + 2) == 0x1000 + from);
    CHECK(*(uint32_t *)((char *)area + 4) == 0x10000000u + (uint32_t)from);
    CHECK(area[1] == 0x1000000000000000u + (uint64_t)from);
    uint8_t v8;
    uint16_t v16;
    uint32_t v32;
    uint64_t v64;
    OK(weft_g8(ctx, area, &v8, to));
    OK(weft_g16(ctx, (char *)area + 2, &v16, to));
    OK(weft_g32(ctx, (char *)area + 4, &v32, to));
    OK(weft_g64(ctx, area + 1, &v64, to));
    CHECK(v8 == 0x10 + me && v16 == 0x1000 + me && v32 == 0x10000000u + (uint32_t)me &&
          v64 == 0x1000000000000000u + (uint64_t)me);
    OK(weft_barrier(weft_team_world(job)));
    OK(weft_free(job, area));
}

static void strided(weft_job *job, weft_ctx *ctx, int me, int n)
{
    int32_t *area = alloc(job, 400 * sizeof *area), local[100], back[100];
    int to = (me + 1) % n, from = (me + n - 1) % n;
    for (int i = 0; i < 100; i++)
        local[i] = me * 1000 + i;
    OK(weft_iput(ctx, area, local, 4, 2, sizeof *area, 50, to));
    OK(weft_barrier(weft_team_world(job)));
    for (int i = 0; i < 50; i++) {
        CHECK(area[i * 4] == from * 1000 + i * 2);
        CHECK(area[i * 4 + 1] == 0);
    }
    OK(weft_iget(ctx, back, area, 1, 4, sizeof *area, 50, to));
    for (int i = 0; i < 50; i++)
        CHECK(back[i] == me * 1000 + i * 2);
    struct {
        char bytes[3];
    } odd[4] = {{"ab"}, {"cd"}, {"ef"}, {"gh"}};
    OK(weft_barrier(weft_team_world(job)));
    OK(weft_iput(ctx, area, odd, 2, 1, 3, 4, to));
    OK(weft_barrier(weft_team_world(job)));
    CHECK(memcmp((char *)area + 6, "cd", 3) == 0 && memcmp((char *)area + 18, "gh", 3) == 0);
    OK(weft_free(job, area));
}

static void whole_heap(weft_job *job, weft_ctx *ctx, int me, int n)
{
    size_t size = 4u << 20; /* WEFT_HEAP_SIZE of this test */
    char *area = NULL;
    OK(weft_alloc(job, WEFT_HOST, size, 0, 0, (void **)&area));
    OK(weft_p8(ctx, area + size - 1, (uint8_t)me, (me + 1) % n));
    OK(weft_barrier(weft_team_world(job)));
    CHECK(area[size - 1] == (char)((me + n - 1) % n));
    FAILS(weft_p16(ctx, area + size - 1, 0, me), WEFT_ERR_RANGE, "1 of them");
    OK(weft_free(job, area));
}

/* Each PE puts rows into all others, backwards through the source; a PE that does not exist ends
 * the call after the rows before it. */
static void vector(weft_job *job, weft_ctx *ctx, int me, int n)
{
    enum { ROWS = 70, ROW = 13 };
    unsigned char *area = alloc(job, 64 * ROWS * (size_t)n), local[ROWS * ROW];
    int pes[ROWS];
    size_t done;
    for (int i = 0; i < ROWS; i++) {
        pes[i] = (i + me) % n;
        for (int k = 0; k < ROW; k++)
            local[(ROWS - 1 - i) * ROW + k] = (unsigned char)(i * 7 + k + me * 31);
    }
    unsigned char *mine = area + 64 * ROWS * (size_t)me;
    OK(weft_put_vector(ctx, mine, local + (ROWS - 1) * ROW, 64, -ROW, ROW, ROWS, pes, &done));
    CHECK(done == ROWS);
    OK(weft_barrier(weft_team_world(job)));
    for (int from = 0; from < n; from++)
        for (int i = 0; i < ROWS; i++) {
            const unsigned char *row = area + 64 * (ROWS * (size_t)from + (size_t)i);
            int came = (i + from) % n == me;
            for (int k = 0; k < 64; k++)
                CHECK(row[k] == (came && k < ROW ? (unsigned char)(i * 7 + k + from * 31) : 0));
        }
    OK(weft_barrier(weft_team_world(job)));
    pes[0] = me, pes[1] = n;
    CHECK(weft_put_vector(ctx, mine, local, 64, 0, ROW, ROWS, pes, &done) == WEFT_ERR_PE);
    CHECK(done == 1 && memcmp(mine, local, ROW) == 0);
    CHECK(weft_put_vector(ctx, mine, local, 64, 0, ROW, 1, NULL, &done) == WEFT_ERR_ARGUMENT);
    CHECK(done == 0);
    OK(weft_put_vector(ctx, NULL, NULL, 0, 0, ROW, 0, NULL, NULL));
    OK(weft_barrier(weft_team_world(job)));
    OK(weft_free(job, area));
}

int main(void)
{
    weft_job *job;
    OK(weft_init(&job, NULL));
    weft_ctx *ctx = weft_default_ctx(job);
    int me = weft_my_pe(job), n = weft_n_pes(job);
    contiguous(job, ctx, me, n);
    single_values(job, ctx, me, n);
    strided(job, ctx, me, n);
    vector(job, ctx, me, n);
    whole_heap(job, ctx, me, n);
    OK(weft_finalize(job));
    CHECK(weft_put(ctx, NULL, NULL, 8, 0) == WEFT_ERR_FINALIZED);
    CHECK(weft_my_pe(job) == -1);
    return 0;
}
