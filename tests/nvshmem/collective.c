/* SPDX-License-Identifier: Apache-2.0 */
/* NVSHMEM names: collectives over all types, and reductions and reducescatters of every operation,
 * by thread, warp, block, host and on a stream; maxloc. */
#include "values.h"

enum { N = 21, MOST_PES = 8, THREADS = 64, FORMS = 5 };
enum { THREAD, WARP, BLOCK, HOST, STREAM };

static char *dst, *src;
static weft_stream stream;

/* With "host" only the host forms run: broadcast, fcollect, alltoall and the reductions of C types
 * use the host API. All other forms are kernels. */
static int first_form(void)
{
    return host_alone ? HOST : 0;
}

static int end_form(void)
{
    return host_alone ? HOST + 1 : FORMS;
}

/* dst has a part for each form. */
#define PART(T, form, n) ((T *)(to + (size_t)(form) * (n) * sizeof(T)))

#define IN_SCOPES(call_thread, call_warp, call_block)                                              \
    if (weft_dev_thread_rank() == 0)                                                               \
        call_thread;                                                                               \
    weft_dev_sync_block();                                                                         \
    if (weft_dev_warp() == 0)                                                                      \
        call_warp;                                                                                 \
    weft_dev_sync_block();                                                                         \
    call_block;

#define MOVING(name, pre, post, T, unit_, step)                                                    \
    WEFT_KERNEL(moving_##name, (char *, to), (const char *, from), (int, n_pes), (int, root))      \
    {                                                                                              \
        size_t all = (size_t)N * (size_t)n_pes * unit_;                                            \
        IN_SCOPES(nvshmem_##pre##broadcast##post(0, (T *)(to), (const T *)from, N *step, root),    \
                  nvshmemx_##pre##broadcast##post##_warp(0, (T *)(to + all), (const T *)from,      \
                                                         N *step, root),                           \
                  nvshmemx_##pre##broadcast##post##_block(0, (T *)(to + 2 * all), (const T *)from, \
                                                          N *step, root))                          \
        to += FORMS * all;                                                                         \
        IN_SCOPES(                                                                                 \
            nvshmem_##pre##fcollect##post(0, (T *)(to), (const T *)from, N *step),                 \
            nvshmemx_##pre##fcollect##post##_warp(0, (T *)(to + all), (const T *)from, N *step),   \
            nvshmemx_##pre##fcollect##post##_block(0, (T *)(to + 2 * all), (const T *)from,        \
                                                   N *step))                                       \
        to += FORMS * all;                                                                         \
        IN_SCOPES(                                                                                 \
            nvshmem_##pre##alltoall##post(0, (T *)(to), (const T *)from, N *step),                 \
            nvshmemx_##pre##alltoall##post##_warp(0, (T *)(to + all), (const T *)from, N *step),   \
            nvshmemx_##pre##alltoall##post##_block(0, (T *)(to + 2 * all), (const T *)from,        \
                                                   N *step))                                       \
    }                                                                                              \
    static void move_##name(int root)                                                              \
    {                                                                                              \
        size_t all = (size_t)N * (size_t)n_pes * unit_;                                            \
        char *to = dst;                                                                            \
        const T *from = (const T *)src;                                                            \
        LAUNCH(THREADS, moving_##name, to, src, n_pes, root);                                      \
        CHECK(!nvshmem_##pre##broadcast##post(0, (T *)(to + 3 * all), from, N * step, root),       \
              "refused");                                                                          \
        CHECK(host_alone || !nvshmemx_##pre##broadcast##post##_on_stream(                          \
                                0, (T *)(to + 4 * all), from, N * step, root, stream),             \
              "refused");                                                                          \
        to += FORMS * all;                                                                         \
        CHECK(!nvshmem_##pre##fcollect##post(0, (T *)(to + 3 * all), from, N * step), "refused");  \
        CHECK(host_alone || !nvshmemx_##pre##fcollect##post##_on_stream(0, (T *)(to + 4 * all),    \
                                                                        from, N * step, stream),   \
              "refused");                                                                          \
        to += FORMS * all;                                                                         \
        CHECK(!nvshmem_##pre##alltoall##post(0, (T *)(to + 3 * all), from, N * step), "refused");  \
        CHECK(host_alone || !nvshmemx_##pre##alltoall##post##_on_stream(0, (T *)(to + 4 * all),    \
                                                                        from, N * step, stream),   \
              "refused");                                                                          \
        CHECK(!weft_stream_synchronize(stream), "%s", weft_last_error());                          \
    }
#define MOVING_TYPE(name, T) MOVING(name, name##_, , T, sizeof(T), 1)
WEFT_NV_RMA_TYPES(MOVING_TYPE)
MOVING(mem, , mem, void, 1, 1)

/* Compares with block `block` of PE pe's source. */
static void check_block(const char *what, const char *at, size_t unit, int form, int pe, int block)
{
    char wanted[16];
    for (size_t i = 0; i < N; i++) {
        fill(wanted, unit, pe, (size_t)block * N + i);
        CHECK(!memcmp(at + i * unit, wanted, unit), "%s, form %d, from PE %d, element %zu", what,
              form, pe, i);
    }
}

static void check_moved(const char *what, size_t unit, int root)
{
    size_t block = N * unit, all = block * (size_t)n_pes;
    nvshmem_barrier_all();
    for (int form = first_form(); form < end_form(); form++) {
        const char *at = dst + (size_t)form * all;
        check_block(what, at, unit, form, root, 0);
        for (int pe = 0; pe < n_pes; pe++)
            check_block(what, at + FORMS * all + (size_t)pe * block, unit, form, pe, 0);
        for (int pe = 0; pe < n_pes; pe++)
            check_block(what, at + 2 * FORMS * all + (size_t)pe * block, unit, form, pe, me);
    }
    nvshmem_barrier_all();
}

static void prepare(size_t unit)
{
    memset(dst, 0, 3 * FORMS * N * 8 * (size_t)n_pes);
    for (size_t i = 0; i < (size_t)N * (size_t)n_pes; i++)
        fill(src + i * unit, unit, me, i);
    nvshmem_barrier_all();
}

/* ------------------------------------------------------------------------------- reductions */

/* The element of PE pe: values over all bits of the type, with its limits, so that a type of
 * another sign or width gives another result. Sums and products of signed types do not overflow;
 * those of unsigned types do, and wrap. */
typedef __int128 wide;

static wide given(unsigned bits, int is_signed, weft_op op, int pe, size_t i)
{
    wide max = ((wide)1 << (bits - (unsigned)is_signed)) - 1, min = is_signed ? -max - 1 : 0;
    const wide values[] = {max, min, max - 2, min + 3, max / 2 + 1, is_signed ? -1 : max, 1, 0x35};
    unsigned which = (unsigned)(((size_t)pe * 3 + i * 5 + i / 8) % 8);
    wide v = values[which];
    if (!is_signed || (op != WEFT_SUM && op != WEFT_PROD))
        return v;
    if (op == WEFT_SUM)
        return v / MOST_PES;
    return pe != (int)(i % (size_t)n_pes) ? (which & 1 ? -1 : 1) : v == min ? min + 1 : v;
}

static wide combine(weft_op op, wide r, wide v)
{
    return op == WEFT_AND   ? r & v
           : op == WEFT_OR  ? r | v
           : op == WEFT_XOR ? r ^ v
           : op == WEFT_MIN ? (v < r ? v : r)
           : op == WEFT_MAX ? (v > r ? v : r)
           : op == WEFT_SUM ? r + v
                            : r * v;
}

/* Powers of two: sums and products of five of them are exact in 16 bits. */
static double given_real(int pe, size_t i)
{
    static const double values[] = {-2, 4, 0.5, -1, 1, -0.5, 2, -4};
    return values[((size_t)pe * 3 + i * 5 + i / 8) % 8];
}

static double combine_real(weft_op op, double r, double v)
{
    return op == WEFT_MIN   ? (v < r ? v : r)
           : op == WEFT_MAX ? (v > r ? v : r)
           : op == WEFT_SUM ? r + v
                            : r * v;
}

#define GIVE_INTEGER(name, T)                                                                      \
    static inline T give_##name(weft_op op, int pe, size_t i)                                      \
    {                                                                                              \
        return (T)given(8 * sizeof(T), IS_SIGNED(T), op, pe, i);                                   \
    }                                                                                              \
    static inline T want_##name(weft_op op, size_t i)                                              \
    {                                                                                              \
        T r = give_##name(op, 0, i);                                                               \
        for (int pe = 1; pe < n_pes; pe++)                                                         \
            r = (T)combine(op, r, give_##name(op, pe, i));                                         \
        return r;                                                                                  \
    }
#define GIVE_REAL(name, T)                                                                         \
    static inline T give_##name(weft_op op, int pe, size_t i)                                      \
    {                                                                                              \
        (void)op;                                                                                  \
        return as_##name(given_real(pe, i));                                                       \
    }                                                                                              \
    static inline T want_##name(weft_op op, size_t i)                                              \
    {                                                                                              \
        double r = given_real(0, i);                                                               \
        for (int pe = 1; pe < n_pes; pe++)                                                         \
            r = combine_real(op, r, given_real(pe, i));                                            \
        return as_##name(r);                                                                       \
    }
#define GIVE_BITWISE(name, T, type) GIVE_INTEGER(name, T)
WEFT_NV_REDUCE_BITWISE_TYPES(GIVE_BITWISE)
GIVE_INTEGER(char, char)
GIVE_INTEGER(schar, signed char)
GIVE_INTEGER(short, short)
GIVE_INTEGER(int, int)
GIVE_INTEGER(long, long)
GIVE_INTEGER(longlong, long long)
GIVE_REAL(bfloat16, weft_nv_bfloat16)
GIVE_REAL(half, weft_nv_half)
GIVE_REAL(float, float)
GIVE_REAL(double, double)

static int is_short_real(const char *name)
{
    return !strcmp(name, "half") || !strcmp(name, "bfloat16");
}

#define REDUCING(name, T, op, OP)                                                                  \
    WEFT_KERNEL(reducing_##name##_##op, (char *, to), (const char *, own), (int, n_pes))           \
    {                                                                                              \
        const T *from = (const T *)own;                                                            \
        size_t n = (size_t)N * (size_t)n_pes;                                                      \
        IN_SCOPES(nvshmem_##name##_##op##_reduce(0, PART(T, THREAD, n), from, n),                  \
                  nvshmemx_##name##_##op##_reduce_warp(0, PART(T, WARP, n), from, n),              \
                  nvshmemx_##name##_##op##_reduce_block(0, PART(T, BLOCK, n), from, n))            \
        to += FORMS * n * sizeof(T);                                                               \
        IN_SCOPES(nvshmem_##name##_##op##_reducescatter(0, PART(T, THREAD, n), from, N),           \
                  nvshmemx_##name##_##op##_reducescatter_warp(0, PART(T, WARP, n), from, N),       \
                  nvshmemx_##name##_##op##_reducescatter_block(0, PART(T, BLOCK, n), from, N))     \
    }                                                                                              \
    static void reduce_##name##_##op(void)                                                         \
    {                                                                                              \
        const T *from = (const T *)src;                                                            \
        size_t n = (size_t)N * (size_t)n_pes;                                                      \
        char *to = dst;                                                                            \
        if (host_alone && is_short_real(#name))                                                    \
            return;                                                                                \
        for (size_t i = 0; i < n; i++)                                                             \
            ((T *)src)[i] = give_##name(OP, me, i);                                                \
        nvshmem_barrier_all();                                                                     \
        LAUNCH(THREADS, reducing_##name##_##op, to, src, n_pes);                                   \
        CHECK(!nvshmem_##name##_##op##_reduce(0, PART(T, HOST, n), from, n), "refused");           \
        CHECK(host_alone || !nvshmemx_##name##_##op##_reduce_on_stream(0, PART(T, STREAM, n),      \
                                                                       from, n, stream),           \
              "refused");                                                                          \
        CHECK(!weft_stream_synchronize(stream), "%s", weft_last_error());                          \
        to += FORMS * n * sizeof(T);                                                               \
        CHECK(host_alone || !nvshmem_##name##_##op##_reducescatter(0, PART(T, HOST, n), from, N),  \
              "refused");                                                                          \
        CHECK(host_alone || !nvshmemx_##name##_##op##_reducescatter_on_stream(                     \
                                0, PART(T, STREAM, n), from, N, stream),                           \
              "refused");                                                                          \
        CHECK(!weft_stream_synchronize(stream), "%s", weft_last_error());                          \
        for (int form = first_form(); form < end_form(); form++) {                                 \
            for (size_t i = 0; i < n; i++) {                                                       \
                T wanted = want_##name(OP, i);                                                     \
                to = dst;                                                                          \
                CHECK(!memcmp(PART(T, form, n) + i, &wanted, sizeof(T)),                           \
                      #name " " #op " reduce, form %d, element %zu", form, i);                     \
            }                                                                                      \
            for (size_t i = 0; i < N && !host_alone; i++) {                                        \
                T wanted = want_##name(OP, (size_t)me * N + i);                                    \
                to = dst + FORMS * n * sizeof(T);                                                  \
                CHECK(!memcmp(PART(T, form, n) + i, &wanted, sizeof(T)),                           \
                      #name " " #op " reducescatter, form %d, element %zu", form, i);              \
            }                                                                                      \
        }                                                                                          \
        nvshmem_barrier_all();                                                                     \
    }
#define BITWISE(name, T, type)                                                                     \
    REDUCING(name, T, and, WEFT_AND) REDUCING(name, T, or, WEFT_OR) REDUCING(name, T, xor, WEFT_XOR)
#define ARITHMETIC(name, T, type)                                                                  \
    REDUCING(name, T, min, WEFT_MIN)                                                               \
    REDUCING(name, T, max, WEFT_MAX)                                                               \
    REDUCING(name, T, sum, WEFT_SUM) REDUCING(name, T, prod, WEFT_PROD)
WEFT_NV_REDUCE_BITWISE_TYPES(BITWISE)
WEFT_NV_REDUCE_TYPES(ARITHMETIC)

/* --------------------------------------------------------------------------------- maxloc */

WEFT_KERNEL(maxloc, (char *, to), (const char *, from), (int, n))
{
    nvshmemx_double2_maxloc_reduce_block(0, (weft_nv_double2 *)to, (const weft_nv_double2 *)from,
                                         (size_t)n);
}

/* Odd elements are equal at all PEs except for the index: the lowest one must win. Also in
 * place. */
static void check_maxloc(char *to)
{
    enum { PAIRS = 70 };
    weft_nv_double2 *pairs = (weft_nv_double2 *)src, *got = (weft_nv_double2 *)to;
    for (int i = 0; i < PAIRS; i++) {
        pairs[i].x = i % 2 ? 5 : (me * 7 + i) % n_pes - 2.5;
        pairs[i].y = me;
    }
    nvshmem_barrier_all();
    LAUNCH(THREADS, maxloc, to, src, PAIRS);
    for (int i = 0; i < PAIRS; i++) {
        int best = 0;
        for (int pe = 1; pe < n_pes; pe++)
            if (!(i % 2) && (pe * 7 + i) % n_pes > (best * 7 + i) % n_pes)
                best = pe;
        CHECK(got[i].y == best, "maxloc, element %d: PE %g, not %d", i, got[i].y, best);
        CHECK(got[i].x == (i % 2 ? 5 : (best * 7 + i) % n_pes - 2.5), "maxloc, element %d", i);
    }
    nvshmem_barrier_all();
}

int main(int argc, char **argv)
{
    host_alone = argc > 1 && !strcmp(argv[1], "host");
    begin();
    CHECK(!weft_stream_create(&stream), "%s", weft_last_error());
    dst = nvshmem_malloc(3 * FORMS * N * 8 * MOST_PES);
    src = nvshmem_malloc(N * 16 * MOST_PES);
#define RUN_MOVING(name, T)                                                                        \
    for (int root = 0; root<n_pes; root += n_pes> 2 ? 2 : 1) {                                     \
        prepare(sizeof(T));                                                                        \
        move_##name(root);                                                                         \
        check_moved(#name, sizeof(T), root);                                                       \
    }
    WEFT_NV_RMA_TYPES(RUN_MOVING)
    RUN_MOVING(mem, char)
#define RUN_BITWISE(name, T, type)                                                                 \
    reduce_##name##_and(), reduce_##name##_or(), reduce_##name##_xor();
#define RUN_ARITHMETIC(name, T, type)                                                              \
    reduce_##name##_min(), reduce_##name##_max(), reduce_##name##_sum(), reduce_##name##_prod();
    WEFT_NV_REDUCE_BITWISE_TYPES(RUN_BITWISE)
    WEFT_NV_REDUCE_TYPES(RUN_ARITHMETIC)
    if (!host_alone) {
        check_maxloc(dst);
        check_maxloc(src);
    }
    weft_stream_destroy(stream);
    return end();
}
