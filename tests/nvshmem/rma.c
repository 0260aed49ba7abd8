/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off */
/* NVSHMEM names: every put and get over all types and sizes, by thread, warp, block, host and on a
 * stream. Each form has its own region, whose writer is known. */
#include "values.h"

/* X(region): puts go to the next PE, gets read from it. Strided forms fill every second element. */
#define PUT_REGIONS(X)                                                                             \
    X(PUT)                                                                                         \
    X(PUT_WARP)                                                                                    \
    X(PUT_BLOCK)                                                                                   \
    X(PUT_NBI)                                                                                     \
    X(PUT_NBI_WARP)                                                                                \
    X(PUT_NBI_BLOCK) X(SIGNAL) X(SIGNAL_WARP) X(SIGNAL_BLOCK) X(SIGNAL_NBI) X(SIGNAL_NBI_WARP)     \
        X(SIGNAL_NBI_BLOCK) X(HOST_PUT) X(HOST_PUT_NBI) X(STREAM_PUT) X(STREAM_PUT_NBI)            \
            X(STREAM_SIGNAL) X(STREAM_SIGNAL_NBI) X(P) X(HOST_P) X(STREAM_P)
#define STRIDED_PUT_REGIONS(X) X(IPUT) X(IPUT_WARP) X(IPUT_BLOCK) X(HOST_IPUT) X(STREAM_IPUT)
#define GET_REGIONS(X)                                                                             \
    X(GET)                                                                                         \
    X(GET_WARP)                                                                                    \
    X(GET_BLOCK)                                                                                   \
    X(GET_NBI)                                                                                     \
    X(GET_NBI_WARP)                                                                                \
    X(GET_NBI_BLOCK) X(HOST_GET) X(HOST_GET_NBI) X(STREAM_GET) X(STREAM_GET_NBI) X(G) X(HOST_G)    \
        X(STREAM_G)
#define STRIDED_GET_REGIONS(X) X(IGET) X(IGET_WARP) X(IGET_BLOCK) X(HOST_IGET) X(STREAM_IGET)

enum region {
#define REGION(name) name,
    PUT_REGIONS(REGION) FIRST_STRIDED_PUT,
    BEFORE_IPUT = FIRST_STRIDED_PUT - 1,
    STRIDED_PUT_REGIONS(REGION) FIRST_GET,
    BEFORE_GET = FIRST_GET - 1,
    GET_REGIONS(REGION) FIRST_STRIDED_GET,
    BEFORE_IGET = FIRST_STRIDED_GET - 1,
    STRIDED_GET_REGIONS(REGION) REGIONS
};

enum { N = 37, ROOM = 2 * N, SIGNALS = 8, THREADS = 64 };

#define AT(region) (area + (size_t)(region)*ROOM * unit)

/* The forms of one family; dest and source are T *, `unit` is the size of an element in bytes. */
#define DEVICE_FAMILY(id, T, unit_, put, get, put_nbi, get_nbi, iput, iget)                        \
    WEFT_KERNEL(moves_##id, (char *, area), (const char *, own), (uint64_t *, signal), (int, pe))  \
    {                                                                                              \
        const size_t unit = unit_;                                                                 \
        const T *src = (const T *)own;                                                             \
        if (weft_dev_thread_rank() == 0) {                                                         \
            nvshmem_##put((T *)AT(PUT), src, N, pe);                                               \
            nvshmem_##put_nbi((T *)AT(PUT_NBI), src, N, pe);                                       \
            nvshmem_##get((T *)AT(GET), src, N, pe);                                               \
            nvshmem_##get_nbi((T *)AT(GET_NBI), src, N, pe);                                       \
            nvshmem_##put##_signal((T *)AT(SIGNAL), src, N, signal, 1, NVSHMEM_SIGNAL_ADD, pe);    \
            nvshmem_##put##_signal_nbi((T *)AT(SIGNAL_NBI), src, N, signal + 1, 7,                 \
                                       NVSHMEM_SIGNAL_SET, pe);                                    \
            iput((T *)AT(IPUT), src, 2, 1, N, pe);                                                 \
            iget((T *)AT(IGET), src, 2, 1, N, pe);                                                 \
        }                                                                                          \
        if (weft_dev_warp() == 1) {                                                                \
            nvshmemx_##put##_warp((T *)AT(PUT_WARP), src, N, pe);                                  \
            nvshmemx_##put_nbi##_warp((T *)AT(PUT_NBI_WARP), src, N, pe);                          \
            nvshmemx_##get##_warp((T *)AT(GET_WARP), src, N, pe);                                  \
            nvshmemx_##get_nbi##_warp((T *)AT(GET_NBI_WARP), src, N, pe);                          \
            nvshmemx_##put##_signal_warp((T *)AT(SIGNAL_WARP), src, N, signal + 2, 1,              \
                                         NVSHMEM_SIGNAL_ADD, pe);                                  \
            nvshmemx_##put##_signal_nbi_warp((T *)AT(SIGNAL_NBI_WARP), src, N, signal + 3, 7,      \
                                             NVSHMEM_SIGNAL_SET, pe);                              \
            iput##_warp((T *)AT(IPUT_WARP), src, 2, 1, N, pe);                                     \
            iget##_warp((T *)AT(IGET_WARP), src, 2, 1, N, pe);                                     \
        }                                                                                          \
        nvshmemx_##put##_block((T *)AT(PUT_BLOCK), src, N, pe);                                    \
        nvshmemx_##put_nbi##_block((T *)AT(PUT_NBI_BLOCK), src, N, pe);                            \
        nvshmemx_##get##_block((T *)AT(GET_BLOCK), src, N, pe);                                    \
        nvshmemx_##get_nbi##_block((T *)AT(GET_NBI_BLOCK), src, N, pe);                            \
        nvshmemx_##put##_signal_block((T *)AT(SIGNAL_BLOCK), src, N, signal + 4, 1,                \
                                      NVSHMEM_SIGNAL_ADD, pe);                                     \
        nvshmemx_##put##_signal_nbi_block((T *)AT(SIGNAL_NBI_BLOCK), src, N, signal + 5, 7,        \
                                          NVSHMEM_SIGNAL_SET, pe);                                 \
        iput##_block((T *)AT(IPUT_BLOCK), src, 2, 1, N, pe);                                       \
        iget##_block((T *)AT(IGET_BLOCK), src, 2, 1, N, pe);                                       \
        nvshmem_quiet();                                                                           \
        nvshmemx_barrier_all_block();                                                              \
    }                                                                                              \
    static void host_##id(char *area, const char *own, uint64_t *signal, weft_stream stream)       \
    {                                                                                              \
        const size_t unit = unit_;                                                                 \
        const T *src = (const T *)own;                                                             \
        nvshmem_##put((T *)AT(HOST_PUT), src, N, next);                                            \
        nvshmem_##put_nbi((T *)AT(HOST_PUT_NBI), src, N, next);                                    \
        nvshmem_##get((T *)AT(HOST_GET), src, N, next);                                            \
        nvshmem_##get_nbi((T *)AT(HOST_GET_NBI), src, N, next);                                    \
        nvshmem_quiet();                                                                           \
        nvshmemx_##put##_on_stream((T *)AT(STREAM_PUT), src, N, next, stream);                     \
        nvshmemx_##put_nbi##_on_stream((T *)AT(STREAM_PUT_NBI), src, N, next, stream);             \
        nvshmemx_##get##_on_stream((T *)AT(STREAM_GET), src, N, next, stream);                     \
        nvshmemx_##get_nbi##_on_stream((T *)AT(STREAM_GET_NBI), src, N, next, stream);             \
        nvshmemx_##put##_signal_on_stream((T *)AT(STREAM_SIGNAL), src, N, signal + 6, 1,           \
                                          NVSHMEM_SIGNAL_ADD, next, stream);                       \
        nvshmemx_##put##_signal_nbi_on_stream((T *)AT(STREAM_SIGNAL_NBI), src, N, signal + 7, 7,   \
                                              NVSHMEM_SIGNAL_SET, next, stream);                   \
        nvshmemx_signal_wait_until_on_stream(signal + 7, NVSHMEM_CMP_EQ, 7, stream);               \
        HOST_STRIDED(iput, iget, T)                                                                \
        nvshmemx_quiet_on_stream(stream);                                                          \
        CHECK(!weft_stream_synchronize(stream), "%s", weft_last_error());                          \
    }
#define HOST_STRIDED(iput, iget, T)                                                                \
    iput((T *)AT(HOST_IPUT), src, 2, 1, N, next);                                                  \
    iget((T *)AT(HOST_IGET), src, 2, 1, N, next);                                                  \
    if (!host_alone) {                                                                             \
        iput##_on_stream((T *)AT(STREAM_IPUT), src, 2, 1, N, next, stream);                        \
        iget##_on_stream((T *)AT(STREAM_IGET), src, 2, 1, N, next, stream);                        \
    }

/* nvshmem_iput and nvshmemx_iput_warp differ in prefix and suffix; mem has no strided form. */
#define STRIDED_NAMES(form)                                                                        \
    static inline void nothing_##form(void *d, const void *s, ptrdiff_t a, ptrdiff_t b, size_t n,  \
                                      int pe)                                                      \
    {                                                                                              \
        (void)d, (void)s, (void)a, (void)b, (void)n, (void)pe;                                     \
    }
STRIDED_NAMES(x)

#define TYPE_STRIDED(name, T, dir)                                                                 \
    static inline void t_##name##_##dir(T *d, const T *s, ptrdiff_t a, ptrdiff_t b, size_t n,      \
                                        int pe)                                                    \
    {                                                                                              \
        nvshmem_##name##_##dir(d, s, a, b, n, pe);                                                 \
    }                                                                                              \
    static inline void t_##name##_##dir##_warp(T *d, const T *s, ptrdiff_t a, ptrdiff_t b,         \
                                               size_t n, int pe)                                   \
    {                                                                                              \
        nvshmemx_##name##_##dir##_warp(d, s, a, b, n, pe);                                         \
    }                                                                                              \
    static inline void t_##name##_##dir##_block(T *d, const T *s, ptrdiff_t a, ptrdiff_t b,        \
                                                size_t n, int pe)                                  \
    {                                                                                              \
        nvshmemx_##name##_##dir##_block(d, s, a, b, n, pe);                                        \
    }                                                                                              \
    static inline void t_##name##_##dir##_on_stream(T *d, const T *s, ptrdiff_t a, ptrdiff_t b,    \
                                                    size_t n, int pe, weft_stream stream)          \
    {                                                                                              \
        nvshmemx_##name##_##dir##_on_stream(d, s, a, b, n, pe, stream);                            \
    }

#define TYPE_FAMILY(name, T)                                                                       \
    TYPE_STRIDED(name, T, iput)                                                                    \
    TYPE_STRIDED(name, T, iget)                                                                    \
    DEVICE_FAMILY(name, T, sizeof(T), name##_put, name##_get, name##_put_nbi, name##_get_nbi,      \
                  t_##name##_iput, t_##name##_iget)                                                \
    WEFT_KERNEL(single_##name, (char *, area), (const char *, own), (int, pe))                     \
    {                                                                                              \
        const size_t unit = sizeof(T);                                                             \
        const T *src = (const T *)own;                                                             \
        unsigned i = weft_dev_thread_rank();                                                       \
        if (i < N) {                                                                               \
            nvshmem_##name##_p((T *)AT(P) + i, src[i], pe);                                        \
            ((T *)AT(G))[i] = nvshmem_##name##_g(src + i, pe);                                     \
        }                                                                                          \
        nvshmemx_barrier_all_block();                                                              \
    }                                                                                              \
    static void singles_##name(char *area, const char *own, weft_stream stream)                    \
    {                                                                                              \
        const size_t unit = sizeof(T);                                                             \
        const T *src = (const T *)own;                                                             \
        LAUNCH(THREADS, single_##name, area, own, next);                                           \
        for (int i = 0; i < N; i++) {                                                              \
            nvshmem_##name##_p((T *)AT(HOST_P) + i, src[i], next);                                 \
            ((T *)AT(HOST_G))[i] = nvshmem_##name##_g(src + i, next);                              \
        }                                                                                          \
        for (int i = 0; i < N && !host_alone; i++)                                                 \
            nvshmemx_##name##_p_on_stream((T *)AT(STREAM_P) + i, src[i], next, stream);            \
        for (int i = 0; i < N; i++)                                                                \
            ((T *)AT(STREAM_G))[i] = nvshmemx_##name##_g_on_stream(src + i, next, stream);         \
        CHECK(!weft_stream_synchronize(stream), "%s", weft_last_error());                          \
    }
WEFT_NV_RMA_TYPES(TYPE_FAMILY)

#define SIZE_STRIDED(bits, dir)                                                                    \
    static inline void t_##dir##bits(void *d, const void *s, ptrdiff_t a, ptrdiff_t b, size_t n,   \
                                     int pe)                                                       \
    {                                                                                              \
        nvshmem_##dir##bits(d, s, a, b, n, pe);                                                    \
    }                                                                                              \
    static inline void t_##dir##bits##_warp(void *d, const void *s, ptrdiff_t a, ptrdiff_t b,      \
                                            size_t n, int pe)                                      \
    {                                                                                              \
        nvshmemx_##dir##bits##_warp(d, s, a, b, n, pe);                                            \
    }                                                                                              \
    static inline void t_##dir##bits##_block(void *d, const void *s, ptrdiff_t a, ptrdiff_t b,     \
                                             size_t n, int pe)                                     \
    {                                                                                              \
        nvshmemx_##dir##bits##_block(d, s, a, b, n, pe);                                           \
    }                                                                                              \
    static inline void t_##dir##bits##_on_stream(void *d, const void *s, ptrdiff_t a, ptrdiff_t b, \
                                                 size_t n, int pe, weft_stream stream)             \
    {                                                                                              \
        nvshmemx_##dir##bits##_on_stream(d, s, a, b, n, pe, stream);                               \
    }
#define SIZE_FAMILY(bits, bytes)                                                                   \
    SIZE_STRIDED(bits, iput)                                                                       \
    SIZE_STRIDED(bits, iget)                                                                       \
    DEVICE_FAMILY(bits, void, bytes, put##bits, get##bits, put##bits##_nbi, get##bits##_nbi,       \
                  t_iput##bits, t_iget##bits)
WEFT_NV_RMA_SIZES(SIZE_FAMILY)

/* mem has no strided form, so these macros do nothing. */
#define nothing_x_warp(...)                            nothing_x(__VA_ARGS__)
#define nothing_x_block(...)                           nothing_x(__VA_ARGS__)
#define nothing_x_on_stream(d, s, a, b, n, pe, stream) nothing_x(d, s, a, b, n, pe)
DEVICE_FAMILY(mem, void, 1, putmem, getmem, putmem_nbi, getmem_nbi, nothing_x, nothing_x)

static int strided(int region)
{
    return (region >= FIRST_STRIDED_PUT && region < FIRST_GET) || region >= FIRST_STRIDED_GET;
}

/* Regions that the host's calls fill; kernels fill the others. */
static int by_host(int region)
{
    return region == HOST_PUT || region == HOST_PUT_NBI || region == STREAM_PUT ||
           region == STREAM_PUT_NBI || region == STREAM_SIGNAL || region == STREAM_SIGNAL_NBI ||
           region == HOST_P || region == HOST_IPUT || region == HOST_GET ||
           region == HOST_GET_NBI || region == STREAM_GET || region == STREAM_GET_NBI ||
           region == HOST_G || region == STREAM_G || region == HOST_IGET;
}

/* Compares a region of `unit`-byte elements with what its writer must have written. */
static void check_region(const char *id, const char *area, size_t unit, int region)
{
    int from = region < FIRST_GET ? prev : next;
    char wanted[16];
    for (size_t i = 0; i < N; i++) {
        size_t at = strided(region) ? 2 * i : i;
        fill(wanted, unit, from, i);
        CHECK(!memcmp(AT(region) + at * unit, wanted, unit), "%s, region %d, element %zu", id,
              region, i);
    }
}

static void check_signals(const char *id, const uint64_t *signal)
{
    for (int i = host_alone ? 6 : 0; i < SIGNALS; i++)
        CHECK(signal[i] == (i % 2 ? 7u : 1u), "%s, signal %d is %llu", id, i,
              (unsigned long long)signal[i]);
}

static int single(int region)
{
    return region == P || region == HOST_P || region == STREAM_P || region == G ||
           region == HOST_G || region == STREAM_G;
}

static void check(const char *id, const char *area, size_t unit, const uint64_t *signal,
                  int has_single, int has_strided)
{
    nvshmem_barrier_all();
    for (int region = 0; region < REGIONS; region++)
        if ((has_single || !single(region)) && (has_strided || !strided(region)) &&
            (!host_alone || by_host(region)))
            check_region(id, area, unit, region);
    check_signals(id, signal);
    nvshmem_barrier_all();
}

static char *area, *own;
static uint64_t *signals;

static void prepare(size_t unit)
{
    memset(area, 0, (size_t)REGIONS * ROOM * 16);
    memset(signals, 0, SIGNALS * sizeof *signals);
    for (size_t i = 0; i < N; i++)
        fill(own + i * unit, unit, me, i);
    nvshmem_barrier_all();
}

int main(int argc, char **argv)
{
    weft_stream stream;
    host_alone = argc > 1 && !strcmp(argv[1], "host");
    begin();
    CHECK(!weft_stream_create(&stream), "%s", weft_last_error());
    area = nvshmem_malloc((size_t)REGIONS * ROOM * 16);
    own = nvshmem_malloc(N * 16);
    signals = nvshmem_malloc(SIGNALS * sizeof *signals);
#define RUN(id, unit)                                                                              \
    prepare(unit);                                                                                 \
    LAUNCH(THREADS, moves_##id, area, own, signals, next);                                         \
    host_##id(area, own, signals, stream);
#define RUN_TYPE(name, T)                                                                          \
    RUN(name, sizeof(T))                                                                           \
    singles_##name(area, own, stream);                                                             \
    check(#name, area, sizeof(T), signals, 1, 1);
#define RUN_SIZE(bits, bytes)                                                                      \
    RUN(bits, bytes)                                                                               \
    check(#bits, area, bytes, signals, 0, 1);
    WEFT_NV_RMA_TYPES(RUN_TYPE)
    WEFT_NV_RMA_SIZES(RUN_SIZE)
    RUN(mem, 1)
    check("mem", area, 1, signals, 0, 0);
    weft_stream_destroy(stream);
    return end();
}
