/* SPDX-License-Identifier: Apache-2.0 */
/* put, get, their nbi forms, iput and iget in every scope: every pair of alignments of the two
 * sides at sizes around the limits of the copy loops. Every byte is compared and no other byte
 * changes. p and g of every width. */
#include "device_test.h"

enum { PUT, PUT_NBI, GET, GET_NBI, CALLS };
enum { ROOM = 9000, GUARD = 0xee };

#define CALL_IN(scope)                                                                             \
    if (call == PUT)                                                                               \
        weft_##scope##_put(dst, src, bytes, pe);                                                   \
    else if (call == PUT_NBI)                                                                      \
        weft_##scope##_put_nbi(dst, src, bytes, pe);                                               \
    else if (call == GET)                                                                          \
        weft_##scope##_get(dst, src, bytes, pe);                                                   \
    else                                                                                           \
        weft_##scope##_get_nbi(dst, src, bytes, pe);                                               \
    weft_##scope##_quiet()

WEFT_KERNEL(transfer, (int, scope), (int, call), (char *, dst), (const char *, src),
            (size_t, bytes), (int, pe))
{
    if (scope == WEFT_DEV_BLOCK) {
        CALL_IN(block);
    } else if (scope == WEFT_DEV_WARP) {
        if (weft_dev_warp() == weft_dev_block_threads() / WEFT_WARP_LANES - 1) {
            CALL_IN(warp);
        }
    } else if (weft_dev_thread_rank() == 5) {
        CALL_IN(thread);
    }
}

#define STRIDED_IN(scope)                                                                          \
    if (put)                                                                                       \
        weft_##scope##_iput(dst, src, dst_stride, src_stride, element, n, pe);                     \
    else                                                                                           \
        weft_##scope##_iget(dst, src, dst_stride, src_stride, element, n, pe);                     \
    weft_##scope##_quiet()

WEFT_KERNEL(strided, (int, scope), (int, put), (char *, dst), (const char *, src),
            (ptrdiff_t, dst_stride), (ptrdiff_t, src_stride), (size_t, element), (size_t, n),
            (int, pe))
{
    if (scope == WEFT_DEV_BLOCK) {
        STRIDED_IN(block);
    } else if (scope == WEFT_DEV_WARP) {
        if (weft_dev_warp() == 0) {
            STRIDED_IN(warp);
        }
    } else if (weft_dev_thread_rank() == 0) {
        STRIDED_IN(thread);
    }
}

struct values {
    uint8_t v8;
    uint16_t v16;
    uint32_t v32;
    float f32;
    uint64_t v64;
    double f64;
};

WEFT_KERNEL(single, (struct values *, to), (struct values *, got), (struct values *, from),
            (int, pe))
{
    if (weft_dev_grid_rank() != 0)
        return;
    weft_thread_p8(&to->v8, (uint8_t)(200 + weft_dev_my_pe()), pe);
    weft_thread_p16(&to->v16, (uint16_t)(60000 + weft_dev_my_pe()), pe);
    weft_thread_p32(&to->v32, 0xfffffff0u + (uint32_t)weft_dev_my_pe(), pe);
    weft_thread_p64(&to->v64, 0xfffffffffffffff0ull + (uint64_t)weft_dev_my_pe(), pe);
    weft_thread_p_f32(&to->f32, 0.5f + (float)weft_dev_my_pe(), pe);
    weft_thread_p_f64(&to->f64, 0.25 + weft_dev_my_pe(), pe);
    got->v8 = weft_thread_g8(&from->v8, pe);
    got->v16 = weft_thread_g16(&from->v16, pe);
    got->v32 = weft_thread_g32(&from->v32, pe);
    got->v64 = weft_thread_g64(&from->v64, pe);
    got->f32 = weft_thread_g_f32(&from->f32, pe);
    got->f64 = weft_thread_g_f64(&from->f64, pe);
}

#if WEFT_HOST_CODE

static unsigned char pattern(int pe, size_t i)
{
    return (unsigned char)((size_t)pe * 37 + i * 7 + i / 256 + 1);
}

static unsigned char *source, *target; /* symmetric */

static void one(int scope, int call, size_t dst_off, size_t src_off, size_t bytes)
{
    static unsigned char result[ROOM];
    int peer = (me + 1) % n_pes, other = (me + n_pes - 1) % n_pes;
    int put = call == PUT || call == PUT_NBI;
    memset(result, GUARD, sizeof result);
    store(target, result, sizeof result);
    barrier();
    LAUNCH(transfer, 1, 64, 0, NULL, scope, call, (char *)target + dst_off,
           (const char *)source + src_off, bytes, peer);
    barrier();
    fetch(result, target, sizeof result);
    int from = put ? other : peer;
    for (size_t i = 0; i < ROOM; i++) {
        unsigned char wanted =
            i < dst_off || i >= dst_off + bytes ? GUARD : pattern(from, i - dst_off + src_off);
        if (result[i] != wanted) {
            fprintf(stderr,
                    "scope %d call %d dst+%zu src+%zu %zu bytes: byte %zu is %#x, not %#x\n", scope,
                    call, dst_off, src_off, bytes, i, result[i], wanted);
            exit(1);
        }
    }
}

static void transfers(void)
{
    static const size_t sizes[] = {0, 1, 8, 15, 16, 17, 47, 48, 64, 100, 1024, 4096, 8191};
    unsigned char mine[ROOM];
    for (size_t i = 0; i < ROOM; i++)
        mine[i] = pattern(me, i);
    store(source, mine, sizeof mine);
    int turn = 0;
    for (int scope = 0; scope < 3; scope++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int call = 0; call < CALLS; call++) {
                one(scope, call, 0, 0, sizes[s]);
                /* All 256 pairs of alignments occur in turn. */
                for (int more = 0; more < 2; more++, turn += 37)
                    one(scope, call, (size_t)turn % 16, (size_t)turn / 16 % 16, sizes[s]);
            }
    for (size_t pair = 0; pair < 256; pair++)
        one((int)(pair % 3), (int)(pair / 3 % CALLS), pair % 16, pair / 16, 333);
}

static void strides(void)
{
    enum { N = 37 };
    static unsigned char result[ROOM];
    static const struct {
        size_t element;
        ptrdiff_t dst, src;
    } cases[] = {{1, 3, 1}, {2, 1, 5}, {4, 2, 3}, {8, 3, 2}, {16, 2, 1}, {8, 1, 1}};
    int peer = (me + 1) % n_pes, other = (me + n_pes - 1) % n_pes;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int which = 0; which < 6; which++) {
            size_t element = cases[c].element;
            memset(result, GUARD, sizeof result);
            store(target, result, sizeof result);
            barrier();
            LAUNCH(strided, 1, 64, 0, NULL, which / 2, which % 2, (char *)target,
                   (const char *)source, cases[c].dst, cases[c].src, element, N, peer);
            barrier();
            fetch(result, target, sizeof result);
            int from = which % 2 ? other : peer;
            for (size_t i = 0; i < (size_t)(N * cases[c].dst) * element; i++) {
                size_t slot = i / element;
                int hit = slot % (size_t)cases[c].dst == 0;
                size_t at =
                    slot / (size_t)cases[c].dst * (size_t)cases[c].src * element + i % element;
                CHECK(result[i] == (hit ? pattern(from, at) : GUARD));
            }
        }
}

static void singles(void)
{
    struct values *to = symmetric(sizeof *to), *got = symmetric(sizeof *got),
                  *from = symmetric(sizeof *from), v;
    int peer = (me + 1) % n_pes, other = (me + n_pes - 1) % n_pes;
    v = (struct values){(uint8_t)(me + 1),  (uint16_t)(me + 2), (uint32_t)me + 3,
                        (float)me + 0.125f, (uint64_t)me + 4,   me + 0.0625};
    store(from, &v, sizeof v);
    barrier();
    LAUNCH(single, 1, 32, 0, NULL, to, got, from, peer);
    barrier();
    fetch(&v, to, sizeof v);
    CHECK(v.v8 == (uint8_t)(200 + other) && v.v16 == (uint16_t)(60000 + other));
    CHECK(v.v32 == 0xfffffff0u + (uint32_t)other);
    CHECK(v.v64 == 0xfffffffffffffff0ull + (uint64_t)other);
    CHECK(v.f32 == 0.5f + (float)other && v.f64 == 0.25 + other);
    fetch(&v, got, sizeof v);
    CHECK(v.v8 == peer + 1 && v.v16 == peer + 2 && v.v32 == (uint32_t)peer + 3);
    CHECK(v.v64 == (uint64_t)peer + 4 && v.f32 == (float)peer + 0.125f && v.f64 == peer + 0.0625);
}

int main(void)
{
    device_begin();
    source = symmetric(ROOM);
    target = symmetric(ROOM);
    transfers();
    strides();
    singles();
    device_end();
    return 0;
}
#endif
