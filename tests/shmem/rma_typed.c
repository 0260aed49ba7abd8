/* SPDX-License-Identifier: Apache-2.0 */
/* Every typed, sized and memory form of put and get, on the default context and on a new one, from
 * each PE to the next. */
#include "check.h"

#define N 6

static int me, n, next, before;
static shmem_ctx_t ctx;

/* Memory at the peer: every form has its own row, so no form waits for another. */
enum { PUT, CTX_PUT, NBI, CTX_NBI, P, CTX_P, IPUT, CTX_IPUT, ROWS };

#define TYPED(arg, NAME, TYPE, bits)                                                               \
    static void test_##NAME(void)                                                                  \
    {                                                                                              \
        TYPE *rows = symmetric(sizeof(TYPE) * ROWS * 2 * N), mine[2 * N], got[2 * N];              \
        for (int i = 0; i < 2 * N; i++)                                                            \
            mine[i] = (TYPE)value_of(me, i);                                                       \
        shmem_##NAME##_put(rows + PUT * 2 * N, mine, N, next);                                     \
        shmem_ctx_##NAME##_put(ctx, rows + CTX_PUT * 2 * N, mine, N, next);                        \
        shmem_##NAME##_put_nbi(rows + NBI * 2 * N, mine, N, next);                                 \
        shmem_ctx_##NAME##_put_nbi(ctx, rows + CTX_NBI * 2 * N, mine, N, next);                    \
        for (int i = 0; i < N; i++) {                                                              \
            shmem_##NAME##_p(rows + P * 2 * N + i, mine[i], next);                                 \
            shmem_ctx_##NAME##_p(ctx, rows + CTX_P * 2 * N + i, mine[i], next);                    \
        }                                                                                          \
        shmem_##NAME##_iput(rows + IPUT * 2 * N, mine, 2, 1, N, next);                             \
        shmem_ctx_##NAME##_iput(ctx, rows + CTX_IPUT * 2 * N, mine, 1, 2, N, next);                \
        shmem_ctx_quiet(ctx);                                                                      \
        shmem_barrier_all();                                                                       \
        for (int i = 0; i < N; i++) {                                                              \
            TYPE wanted = (TYPE)value_of(before, i);                                               \
            for (int row = PUT; row <= CTX_P; row++)                                               \
                CHECK(rows[row * 2 * N + i] == wanted && rows[row * 2 * N + N + i] == 0);          \
            CHECK(rows[IPUT * 2 * N + 2 * i] == wanted && rows[IPUT * 2 * N + 2 * i + 1] == 0);    \
            CHECK(rows[CTX_IPUT * 2 * N + i] == (TYPE)value_of(before, 2 * i));                    \
            CHECK(shmem_##NAME##_g(rows + PUT * 2 * N + i, next) == mine[i]);                      \
            CHECK(shmem_ctx_##NAME##_g(ctx, rows + PUT * 2 * N + i, next) == mine[i]);             \
        }                                                                                          \
        for (int form = 0; form < 6; form++) {                                                     \
            memset(got, 0, sizeof got);                                                            \
            if (form == 0)                                                                         \
                shmem_##NAME##_get(got, rows, N, next);                                            \
            else if (form == 1)                                                                    \
                shmem_ctx_##NAME##_get(ctx, got, rows, N, next);                                   \
            else if (form == 2)                                                                    \
                shmem_##NAME##_get_nbi(got, rows, N, next), shmem_quiet();                         \
            else if (form == 3)                                                                    \
                shmem_ctx_##NAME##_get_nbi(ctx, got, rows, N, next), shmem_ctx_quiet(ctx);         \
            else if (form == 4)                                                                    \
                shmem_##NAME##_iget(got, rows + IPUT * 2 * N, 1, 2, N, next);                      \
            else                                                                                   \
                shmem_ctx_##NAME##_iget(ctx, got, rows + IPUT * 2 * N, 1, 2, N, next);             \
            for (int i = 0; i < N; i++)                                                            \
                CHECK(got[i] == mine[i] && got[N + i] == 0);                                       \
        }                                                                                          \
        shmem_free(rows);                                                                          \
    }
WEFT_SHMEM_RMA_TYPES(TYPED, )

/* The sized forms: the same with elements of that many bytes. */
#define FORMS(suffix, bytes)                                                                       \
    {                                                                                              \
        unsigned char *rows = symmetric((bytes)*N * 4), mine[(bytes)*N], got[(bytes)*N];           \
        size_t row = (bytes)*N;                                                                    \
        for (size_t i = 0; i < row; i++)                                                           \
            mine[i] = (unsigned char)value_of(me, (int)i);                                         \
        shmem_put##suffix(rows, mine, N, next);                                                    \
        shmem_ctx_put##suffix(ctx, rows + row, mine, N, next);                                     \
        shmem_put##suffix##_nbi(rows + 2 * row, mine, N, next);                                    \
        shmem_ctx_put##suffix##_nbi(ctx, rows + 3 * row, mine, N, next);                           \
        shmem_ctx_quiet(ctx);                                                                      \
        shmem_barrier_all();                                                                       \
        for (size_t i = 0; i < 4 * row; i++)                                                       \
            CHECK(rows[i] == (unsigned char)value_of(before, (int)(i % row)));                     \
        for (int form = 0; form < 4; form++) {                                                     \
            memset(got, 0, row);                                                                   \
            if (form == 0)                                                                         \
                shmem_get##suffix(got, rows, N, next);                                             \
            else if (form == 1)                                                                    \
                shmem_ctx_get##suffix(ctx, got, rows, N, next);                                    \
            else if (form == 2)                                                                    \
                shmem_get##suffix##_nbi(got, rows, N, next);                                       \
            else                                                                                   \
                shmem_ctx_get##suffix##_nbi(ctx, got, rows, N, next);                              \
            shmem_quiet();                                                                         \
            shmem_ctx_quiet(ctx);                                                                  \
            CHECK(memcmp(got, mine, row) == 0);                                                    \
        }                                                                                          \
        shmem_free(rows);                                                                          \
    }

#define STRIDED_FORMS(suffix, bytes)                                                               \
    {                                                                                              \
        unsigned char *rows = symmetric((bytes)*N * 4), mine[(bytes)*N], got[(bytes)*N];           \
        for (size_t i = 0; i < sizeof mine; i++)                                                   \
            mine[i] = (unsigned char)value_of(me, (int)i);                                         \
        shmem_iput##suffix(rows, mine, 2, 1, N, next);                                             \
        shmem_ctx_iput##suffix(ctx, rows + 2 * sizeof mine, mine, 2, 1, N, next);                  \
        shmem_ctx_quiet(ctx);                                                                      \
        shmem_barrier_all();                                                                       \
        for (int i = 0; i < N * (bytes); i++) {                                                    \
            int at = i / (bytes)*2 * (bytes) + i % (bytes);                                        \
            CHECK(rows[at] == (unsigned char)value_of(before, i) && rows[at + (bytes)] == 0);      \
            CHECK(rows[at + 2 * (int)sizeof mine] == (unsigned char)value_of(before, i));          \
        }                                                                                          \
        memset(got, 0, sizeof got);                                                                \
        shmem_iget##suffix(got, rows, 1, 2, N, next);                                              \
        CHECK(memcmp(got, mine, sizeof got) == 0);                                                 \
        memset(got, 0, sizeof got);                                                                \
        shmem_ctx_iget##suffix(ctx, got, rows, 1, 2, N, next);                                     \
        CHECK(memcmp(got, mine, sizeof got) == 0);                                                 \
        shmem_free(rows);                                                                          \
    }

#define SIZED(arg, bits)                                                                           \
    FORMS(bits, bits / 8)                                                                          \
    STRIDED_FORMS(bits, bits / 8)

int main(void)
{
    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
    next = (me + 1) % n;
    before = (me + n - 1) % n;
    CHECK(shmem_ctx_create(0, &ctx) == 0);
#define CALL(arg, NAME, TYPE, bits) test_##NAME();
    WEFT_SHMEM_RMA_TYPES(CALL, )
    WEFT_SHMEM_SIZES(SIZED, )
    FORMS(mem, 1)
    shmem_ctx_destroy(ctx);
    shmem_finalize();
    return 0;
}
