/* SPDX-License-Identifier: Apache-2.0 */
/* See wc.h. */
#include "gpu/map/wc.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { LINE = 64 }; /* bytes of a write-combining buffer */

/* ------------------------------------------------------------------------- a few bytes, any CPU */

/* One access each; the address is a multiple of the size. */
#define ACCESS(bits)                                                                               \
    static inline void store_##bits(void *to, const void *from)                                    \
    {                                                                                              \
        uint##bits##_t value;                                                                      \
        memcpy(&value, from, sizeof value);                                                        \
        __atomic_store_n((uint##bits##_t *)to, value, __ATOMIC_RELAXED);                           \
    }                                                                                              \
    static inline void load_##bits(void *to, const void *from)                                     \
    {                                                                                              \
        uint##bits##_t value = __atomic_load_n((const uint##bits##_t *)from, __ATOMIC_RELAXED);    \
        memcpy(to, &value, sizeof value);                                                          \
    }
ACCESS(8)
ACCESS(16)
ACCESS(32)
ACCESS(64)

/* Returns the largest access size, up to 8 bytes, that fits the alignment and the remaining
 * bytes. */
static inline size_t choose_step(uintptr_t address, size_t bytes)
{
    size_t aligned = address | 8, step = aligned & -aligned;
    while (step > bytes)
        step /= 2;
    return step;
}

static inline void store_bytes(char *to, const char *from, size_t bytes)
{
    while (bytes) {
        size_t step = choose_step((uintptr_t)to, bytes);
        if (step == 8)
            store_64(to, from);
        else if (step == 4)
            store_32(to, from);
        else if (step == 2)
            store_16(to, from);
        else
            store_8(to, from);
        to += step, from += step, bytes -= step;
    }
}

static inline void load_bytes(char *to, const char *from, size_t bytes)
{
    while (bytes) {
        size_t step = choose_step((uintptr_t)from, bytes);
        if (step == 8)
            load_64(to, from);
        else if (step == 4)
            load_32(to, from);
        else if (step == 2)
            load_16(to, from);
        else
            load_8(to, from);
        to += step, from += step, bytes -= step;
    }
}

static inline size_t bytes_to_line(const void *address, size_t bytes)
{
    size_t left = -(uintptr_t)address & (LINE - 1);
    return left < bytes ? left : bytes;
}

/* ------------------------------------------------------------------------------- whole lines */

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>

#define BODY(name, isa, vector, load_unaligned, store_unaligned, store_through, load_through)      \
    __attribute__((target(isa))) static void store_lines_##name(char *to, const char *from,        \
                                                                size_t lines)                      \
    {                                                                                              \
        enum { PARTS = LINE / sizeof(vector) };                                                    \
        for (; lines; lines--, to += LINE, from += LINE)                                           \
            for (int i = 0; i < PARTS; i++)                                                        \
                store_through((vector *)to + i, load_unaligned((const vector *)from + i));         \
    }                                                                                              \
    /* Loads of up to eight lines are under way before the first is needed. */                     \
    __attribute__((target(isa))) static void load_lines_##name(char *to, const char *from,         \
                                                               size_t lines)                       \
    {                                                                                              \
        enum { PARTS = LINE / sizeof(vector), AT_ONCE = 512 / sizeof(vector) };                    \
        while (lines) {                                                                            \
            vector held[AT_ONCE];                                                                  \
            size_t now = lines < AT_ONCE / PARTS ? lines : AT_ONCE / PARTS;                        \
            for (size_t i = 0; i < now * PARTS; i++)                                               \
                held[i] = load_through((vector *)from + i);                                        \
            for (size_t i = 0; i < now * PARTS; i++)                                               \
                store_unaligned((vector *)to + i, held[i]);                                        \
            lines -= now, to += now * LINE, from += now * LINE;                                    \
        }                                                                                          \
    }

BODY(avx512, "avx512f", __m512i, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_stream_si512,
     _mm512_stream_load_si512)
BODY(avx2, "avx2", __m256i, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_stream_si256,
     _mm256_stream_load_si256)
BODY(sse4, "sse4.1", __m128i, _mm_loadu_si128, _mm_storeu_si128, _mm_stream_si128,
     _mm_stream_load_si128)

enum isa { PLAIN, SSE4, AVX2, AVX512 };

static enum isa detect_isa(void)
{
    if (__builtin_cpu_supports("avx512f"))
        return AVX512;
    if (__builtin_cpu_supports("avx2"))
        return AVX2;
    return __builtin_cpu_supports("sse4.1") ? SSE4 : PLAIN;
}

static void store_lines(char *to, const char *from, size_t lines)
{
    switch (detect_isa()) {
    case AVX512:
        store_lines_avx512(to, from, lines);
        return;
    case AVX2:
        store_lines_avx2(to, from, lines);
        return;
    case SSE4:
        store_lines_sse4(to, from, lines);
        return;
    default:
        store_bytes(to, from, lines * LINE);
    }
}

static void load_lines(char *to, const char *from, size_t lines)
{
    switch (detect_isa()) {
    case AVX512:
        load_lines_avx512(to, from, lines);
        return;
    case AVX2:
        load_lines_avx2(to, from, lines);
        return;
    case SSE4:
        load_lines_sse4(to, from, lines);
        return;
    default:
        load_bytes(to, from, lines * LINE);
    }
}

const char *wc_isa_name(void)
{
    static const char *const names[] = {"plain", "SSE4.1", "AVX2", "AVX-512"};
    return names[detect_isa()];
}

/* No later load passes this fence, and a non-temporal load does not return an older line from the
 * CPU's buffers. */
static inline void fence_loads(void)
{
    __asm__ volatile("mfence" ::: "memory");
}

#else

static void store_lines(char *to, const char *from, size_t lines)
{
    store_bytes(to, from, lines * LINE);
}

static void load_lines(char *to, const char *from, size_t lines)
{
    load_bytes(to, from, lines * LINE);
}

const char *wc_isa_name(void)
{
    return "plain";
}

static inline void fence_loads(void)
{
#if defined(__aarch64__)
    /* Not DMB ISH: devices are outside the inner shareable domain. DSB also waits until stores have
     * left the CPU, so that the load of wc_flush() follows them. */
    __asm__ volatile("dsb sy" ::: "memory");
#else
    __sync_synchronize();
#endif
}

#endif

void wc_store(void *mapped, const void *from, size_t bytes)
{
    char *to = mapped;
    const char *source = from;
    if (bytes == 8 && (uintptr_t)to % 8 == 0) {
        store_64(to, source);
        return;
    }
    size_t head = bytes_to_line(to, bytes);
    store_bytes(to, source, head);
    to += head, source += head, bytes -= head;
    if (bytes >= LINE)
        store_lines(to, source, bytes / LINE);
    size_t done = bytes / LINE * LINE;
    store_bytes(to + done, source + done, bytes - done);
}

/* Loads a part of a line by loading the whole line, which lies in one page: faster than several
 * loads. */
static void load_line_part(char *to, const char *from, size_t bytes)
{
    char line[LINE];
    size_t lead = (uintptr_t)from % LINE;
    if (choose_step((uintptr_t)from, bytes) == bytes) {
        load_bytes(to, from, bytes);
        return;
    }
    load_lines(line, from - lead, 1);
    memcpy(to, line + lead, bytes);
}

void wc_load(void *to, const void *mapped, size_t bytes)
{
    const char *from = mapped;
    char *target = to;
    fence_loads();
    size_t head = bytes_to_line(from, bytes);
    if (head)
        load_line_part(target, from, head);
    from += head, target += head, bytes -= head;
    if (bytes >= LINE)
        load_lines(target, from, bytes / LINE);
    size_t done = bytes / LINE * LINE;
    if (bytes > done)
        load_line_part(target + done, from + done, bytes - done);
    fence_loads();
}

#if defined(__x86_64__)

/* Source: Intel SDM volume 2, MOVDIRI: "eligible for immediate eviction from the write-combining
 * buffer". */
static bool has_movdiri(void)
{
    static _Atomic int known; /* 1: no, 2: yes */
    int is = atomic_load_explicit(&known, memory_order_relaxed);
    if (!is) {
        enum { LEAF = 7, MOVDIRI = 1 << 27 };
        unsigned a = 0, b = 0, c = 0, d = 0;
        is = __get_cpuid_count(LEAF, 0, &a, &b, &c, &d) && c & MOVDIRI ? 2 : 1;
        atomic_store_explicit(&known, is, memory_order_relaxed);
    }
    return is == 2;
}

static inline void movdiri_store(char *to, uint64_t value)
{
    __asm__ volatile("movdiri %1, %0" : "=m"(*(uint64_t *)to) : "r"(value));
}

/* Returns false when nothing was stored. */
static inline bool store_movdiri(char *to, const char *from, size_t bytes)
{
    enum { MOST = 32 }; /* bytes; beyond this size a whole line is faster than single words */
    if (((uintptr_t)to | bytes) % 8 || bytes > MOST || !has_movdiri())
        return false;
    for (; bytes; bytes -= 8, to += 8, from += 8) {
        uint64_t value;
        memcpy(&value, from, sizeof value);
        movdiri_store(to, value);
    }
    return true;
}

#else

static inline bool store_movdiri(char *to, const char *from, size_t bytes)
{
    (void)to, (void)from, (void)bytes;
    return false;
}

#endif

void wc_post(void *mapped, const void *from, size_t bytes)
{
    if (store_movdiri(mapped, from, bytes))
        return;
    wc_store(mapped, from, bytes);
    wc_fence();
}

void wc_send(void *mapped, const void *from, size_t bytes)
{
    if (!store_movdiri(mapped, from, bytes))
        wc_store(mapped, from, bytes);
    wc_fence();
}

void wc_flush(const void *mapped)
{
    fence_loads();
    (void)*(const volatile char *)mapped;
    fence_loads();
}
