/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives: contents at many sizes, with every root, back to back under random delays;
 * reductions of every type and operation, in place and not, with the same bits at all PEs. */
#include "job.h"

#include <math.h>
#include <unistd.h>

enum { MOST = 200000 };

static unsigned random_state;

static unsigned random_number(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

static void delay(void)
{
    if (random_number() % 16 == 0)
        usleep(random_number() % 200);
}

static unsigned char value(int pe, size_t i, int round)
{
    return (unsigned char)((size_t)pe * 37 + i * 3 + (size_t)round);
}

static void fill(unsigned char *to, size_t bytes, int pe, int round)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = value(pe, i, round);
}

static void check(const unsigned char *at, size_t bytes, int pe, int round)
{
    for (size_t i = 0; i < bytes; i++)
        CHECK(at[i] == value(pe, i, round));
}

static void moving(weft_job *job, weft_team *team, unsigned char *dst, unsigned char *src)
{
    static const size_t sizes[] = {0, 1, 8, 56, 57, 64, 1000, 4096, 40000, MOST};
    int n = weft_team_n_pes(team), me = weft_team_my_pe(team), round = 0;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        size_t bytes = sizes[s];
        for (int root = 0; root < n; root++, round++) {
            fill(src, bytes, me, round);
            delay();
            OK(weft_broadcast(team, dst, src, bytes, root));
            check(dst, bytes, root, round);
            OK(weft_sync(team));
        }
        fill(src, bytes, me, ++round);
        OK(weft_allgather(team, dst, src, bytes));
        for (int pe = 0; pe < n; pe++)
            check(dst + (size_t)pe * bytes, bytes, pe, round);
        OK(weft_sync(team));
        size_t own = bytes / 2 + (size_t)me * 3, at = 0;
        if (own + 3 * (size_t)n < MOST) {
            fill(src, own, me, ++round);
            delay();
            OK(weft_collect(team, dst, src, own));
            for (int pe = 0; pe < n; pe++) {
                size_t theirs = bytes / 2 + (size_t)pe * 3;
                check(dst + at, theirs, pe, round);
                at += theirs;
            }
        }
        OK(weft_sync(team));
        round++;
        if (bytes * (size_t)n <= MOST) {
            for (int pe = 0; pe < n; pe++)
                fill(src + (size_t)pe * bytes, bytes, me * 16 + pe, round);
            OK(weft_alltoall(team, dst, src, bytes));
            for (int pe = 0; pe < n; pe++)
                check(dst + (size_t)pe * bytes, bytes, pe * 16 + me, round);
        }
        OK(weft_sync(team));
    }
    (void)job;
}

static void strided_alltoall(weft_team *team, int32_t *dst, int32_t *src)
{
    enum { PER = 5, DST = 3, SRC = 2 };
    int n = weft_team_n_pes(team), me = weft_team_my_pe(team);
    memset(dst, 0xff, (size_t)n * PER * DST * sizeof *dst);
    for (int pe = 0; pe < n; pe++)
        for (int i = 0; i < PER; i++)
            src[pe * PER * SRC + i * SRC] = me * 10000 + pe * 100 + i;
    OK(weft_sync(team));
    OK(weft_alltoalls(team, dst, src, DST, SRC, sizeof *dst, PER));
    for (int pe = 0; pe < n; pe++) {
        for (int i = 0; i < PER; i++) {
            CHECK(dst[pe * PER * DST + i * DST] == pe * 10000 + me * 100 + i);
            if (i + 1 < PER)
                CHECK(dst[pe * PER * DST + i * DST + 1] == -1);
        }
    }
    OK(weft_sync(team));
}

#define INTEGERS(X)                                                                                \
    X(WEFT_INT8, int8_t)                                                                           \
    X(WEFT_INT16, int16_t)                                                                         \
    X(WEFT_INT32, int32_t)                                                                         \
    X(WEFT_INT64, int64_t)                                                                         \
    X(WEFT_UINT8, uint8_t)                                                                         \
    X(WEFT_UINT16, uint16_t)                                                                       \
    X(WEFT_UINT32, uint32_t)                                                                       \
    X(WEFT_UINT64, uint64_t)
#define REALS(X)                                                                                   \
    X(WEFT_FLOAT, float)                                                                           \
    X(WEFT_DOUBLE, double)                                                                         \
    X(WEFT_LONG_DOUBLE, long double)
#define COMPLEXES(X)                                                                               \
    X(WEFT_COMPLEX_FLOAT, float _Complex)                                                          \
    X(WEFT_COMPLEX_DOUBLE, double _Complex)

/* Computes the same reduction here, in the order of the team. */
#define EXPECT(ctype, initial, expression)                                                         \
    for (size_t i = 0; i < count; i++) {                                                           \
        ctype a = CONTRIBUTION(ctype, 0, i);                                                       \
        for (int pe = 1; pe < n; pe++) {                                                           \
            ctype b = CONTRIBUTION(ctype, pe, i);                                                  \
            a = (ctype)(expression);                                                               \
        }                                                                                          \
        CHECK(memcmp(&dst[i], &a, sizeof a < 10 ? sizeof a : 10) == 0);                            \
    }
#define CONTRIBUTION(ctype, pe, i) ((ctype)(((pe) + 2) * 3 + (long)((i) % 23)))

#define RUN(T, ctype, OP, expression)                                                              \
    for (int in_place = 0; in_place < 2; in_place++) {                                             \
        ctype *dst = in_place ? src : result;                                                      \
        for (size_t i = 0; i < count; i++)                                                         \
            src[i] = CONTRIBUTION(ctype, me, i);                                                   \
        delay();                                                                                   \
        OK(weft_allreduce(team, dst, src, count, T, OP));                                          \
        EXPECT(ctype, 0, expression)                                                               \
        OK(weft_sync(team));                                                                       \
    }

#define REDUCE_FUNCTION(T, ctype, body)                                                            \
    static void reduce_##T(weft_team *team, void *result_, void *src_)                             \
    {                                                                                              \
        static const size_t counts[] = {1, 3, 7, 8, 100, 3001};                                    \
        int n = weft_team_n_pes(team), me = weft_team_my_pe(team);                                 \
        ctype *result = result_, *src = src_;                                                      \
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {                            \
            size_t count = counts[c];                                                              \
            body                                                                                   \
        }                                                                                          \
    }
#define INTEGER_OPS(T, ctype)                                                                      \
    REDUCE_FUNCTION(T, ctype,                                                                      \
                    RUN(T, ctype, WEFT_AND, a &b) RUN(T, ctype, WEFT_OR, a | b)                    \
                        RUN(T, ctype, WEFT_XOR, a ^ b) RUN(T, ctype, WEFT_MIN, b < a ? b : a)      \
                            RUN(T, ctype, WEFT_MAX, b > a ? b : a)                                 \
                                RUN(T, ctype, WEFT_SUM, (uint64_t)a + (uint64_t)b)                 \
                                    RUN(T, ctype, WEFT_PROD, (uint64_t)a *(uint64_t)b))
#define REAL_OPS(T, ctype)                                                                         \
    REDUCE_FUNCTION(T, ctype,                                                                      \
                    RUN(T, ctype, WEFT_MIN, b < a ? b : a) RUN(T, ctype, WEFT_MAX, b > a ? b : a)  \
                        RUN(T, ctype, WEFT_SUM, a + b) RUN(T, ctype, WEFT_PROD, a *b))
#define COMPLEX_OPS(T, ctype)                                                                      \
    REDUCE_FUNCTION(T, ctype, RUN(T, ctype, WEFT_SUM, a + b) RUN(T, ctype, WEFT_PROD, a *b))
INTEGERS(INTEGER_OPS)
REALS(REAL_OPS)
COMPLEXES(COMPLEX_OPS)

/* Large terms that cancel: another order gives a sum with other bits. */
static float term(int pe, size_t i)
{
    size_t kind = ((size_t)pe * 7 + i) % 5;
    return kind == 0 ? 1e8f : kind == 1 ? -1e8f : 0.37f * (float)(pe + 1) + (float)(i % 17);
}

static void order_of_terms(weft_team *team, float *dst, float *src)
{
    static const size_t counts[] = {1, 13, 100, 3001};
    int n = weft_team_n_pes(team), me = weft_team_my_pe(team);
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        for (size_t i = 0; i < counts[c]; i++)
            src[i] = term(me, i);
        OK(weft_allreduce(team, dst, src, counts[c], WEFT_FLOAT, WEFT_SUM));
        for (size_t i = 0; i < counts[c]; i++) {
            float sum = term(0, i);
            for (int pe = 1; pe < n; pe++)
                sum += term(pe, i);
            CHECK(memcmp(&dst[i], &sum, sizeof sum) == 0);
        }
        OK(weft_sync(team));
    }
}

static void refusals(weft_team *team, void *dst, void *src)
{
    char local[64];
    FAILS(weft_allreduce(team, dst, src, 1, WEFT_FLOAT, WEFT_AND), WEFT_ERR_TYPE, "not defined");
    FAILS(weft_allreduce(team, dst, src, 1, (weft_type)99, WEFT_SUM), WEFT_ERR_TYPE, "99");
    FAILS(weft_allreduce(team, dst, src, 1, WEFT_FLOAT, (weft_op)99), WEFT_ERR_OP, "99");
    FAILS(weft_broadcast(NULL, dst, src, 1, 0), WEFT_ERR_ARGUMENT, "team is null");
    FAILS(weft_allgather(team, local, src, 1), WEFT_ERR_ADDRESS, "dst");
    FAILS(weft_broadcast(team, dst, src, 1, weft_team_n_pes(team)), WEFT_ERR_PE, "root");
}

int main(void)
{
    weft_job *job;
    OK(weft_init(&job, NULL));
    int n = weft_n_pes(job);
    random_state = (unsigned)weft_my_pe(job) * 977u + 1;
    void *dst = alloc(job, (size_t)n * MOST), *src = alloc(job, MOST);
    weft_team *world = weft_team_world(job), *odd;
    moving(job, world, dst, src);
    strided_alltoall(world, dst, src);
#define CALL(T, ctype) reduce_##T(world, dst, src);
    INTEGERS(CALL)
    REALS(CALL)
    COMPLEXES(CALL)
    order_of_terms(world, dst, src);
    OK(weft_team_split_strided(world, n > 1, 2, n > 1 ? n / 2 : 1, &odd));
    if (odd) {
        moving(job, odd, dst, src);
        reduce_WEFT_INT64(odd, dst, src);
        OK(weft_team_destroy(odd));
    }
    OK(weft_barrier(world));
    refusals(world, dst, src);
    OK(weft_free(job, src));
    OK(weft_free(job, dst));
    OK(weft_finalize(job));
    return 0;
}
