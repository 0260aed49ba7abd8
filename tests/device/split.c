/* SPDX-License-Identifier: Apache-2.0 */
/* Puts and gets of device code over path gda with several NICs, at sizes around the one from which
 * they are split:
 *   split       every byte arrives, and no other byte changes, in every form, from registered
 *               memory and from other memory; a blocking put's source is overwritten at once
 *   split nics  the parts use one queue of each NIC, smaller transfers the block's own queue
 *   split registered BYTES  of the first, registered memory alone; and a few
 *               bytes over the end of a key range of so many bytes */
#include "device_test.h"

enum { PUT, PUT_NBI, PUT_NBI_FENCE, GET, GET_NBI, PUT_SIGNAL, PUT_SIGNAL_NBI, FORMS };
enum { BLOCKS = 3, LEAST = 64 << 10, MOST = 400 << 10, GUARD = 64, QUEUES_MOST = 16 };

WEFT_DEVICE unsigned char byte_of(uint32_t round, unsigned block, int pe, size_t i)
{
    return (unsigned char)(i * 31 + (i >> 8) * 7 + (i >> 16) * 3 + round * 13 + block * 5 +
                           (unsigned)pe * 101);
}

/* A size below the limit, at it, and sizes above it that do not divide evenly. */
WEFT_DEV_BOTH size_t size_of(int which, size_t nics)
{
    size_t limit = nics * LEAST;
    return which == 0   ? limit - 1
           : which == 1 ? limit
           : which == 2 ? limit + 1
           : which == 3 ? limit + 4096 + 13
                        : MOST - 7;
}
enum { SIZES = 5 };

WEFT_DEVICE void write_bytes(unsigned char *to, size_t bytes, uint32_t round, int pe)
{
    for (size_t i = weft_dev_thread_rank(); i < bytes; i += weft_dev_block_threads())
        to[i] = byte_of(round, weft_dev_block_rank(), pe, i);
    weft_dev_sync_block();
}

WEFT_DEVICE void overwrite(unsigned char *to, size_t bytes)
{
    for (size_t i = weft_dev_thread_rank(); i < bytes; i += weft_dev_block_threads())
        to[i] = 0x77;
    weft_dev_sync_block();
}

/* Wrong bytes of [0, bytes), and changed ones in front of them and behind. */
WEFT_DEVICE uint64_t wrong_bytes(const unsigned char *data, size_t bytes, uint32_t round, int pe)
{
    uint64_t wrong = 0;
    for (size_t i = weft_dev_thread_rank(); i < bytes; i += weft_dev_block_threads())
        wrong += data[i] != byte_of(round, weft_dev_block_rank(), pe, i);
    for (size_t i = weft_dev_thread_rank(); i < GUARD; i += weft_dev_block_threads())
        wrong += (data[(ptrdiff_t)i - GUARD] != 0xee) + (data[bytes + i] != 0xee);
    return wrong;
}

WEFT_DEVICE void send(int form, unsigned char *to, const unsigned char *from, size_t bytes,
                      uint64_t *signal, uint64_t value, int pe)
{
    if (form == PUT_SIGNAL) {
        weft_block_put_signal(to, from, bytes, signal, value, WEFT_SIGNAL_SET, pe);
        weft_dev_sync_block();
    } else if (form == PUT_SIGNAL_NBI) {
        weft_block_put_signal_nbi(to, from, bytes, signal, value, WEFT_SIGNAL_SET, pe);
    } else {
        if (form == PUT)
            weft_block_put(to, from, bytes, pe);
        else
            weft_block_put_nbi(to, from, bytes, pe);
    }
}

/* Each block sends to the same block of the next PE, and checks what the previous PE sent as soon
 * as its signal has come. */
WEFT_KERNEL(put, (int, form), (size_t, bytes), (uint32_t, round), (unsigned char *, data),
            (unsigned char *, mine), (size_t, stride), (uint64_t *, signals), (uint64_t *, wrong))
{
    unsigned block = weft_dev_block_rank();
    int me = weft_dev_my_pe(), n = weft_dev_n_pes(), to = (me + 1) % n, from = (me + n - 1) % n;
    data += GUARD + block * stride;
    mine += GUARD + block * stride;
    write_bytes(mine, bytes, round, me);
    send(form, data, mine, bytes, signals + block, round, to);
    if (form == PUT || form == PUT_SIGNAL)
        overwrite(mine, bytes);
    if (form == PUT_NBI_FENCE)
        weft_block_fence();
    else if (form == PUT || form == PUT_NBI)
        weft_block_quiet();
    if (form < GET && weft_dev_thread_rank() == 0)
        weft_thread_signal(signals + block, round, WEFT_SIGNAL_SET, to);
    weft_block_signal_wait(signals + block, WEFT_EQ, round);
    weft_dev_atomic_add_u64(wrong, wrong_bytes(data, bytes, round, from), WEFT_ORDER_RELAXED,
                            WEFT_SCOPE_SYS);
    weft_block_quiet();
}

WEFT_KERNEL(prepare, (size_t, bytes), (uint32_t, round), (unsigned char *, data), (size_t, stride))
{
    write_bytes(data + GUARD + weft_dev_block_rank() * stride, bytes, round, weft_dev_my_pe());
}

WEFT_KERNEL(get, (int, form), (size_t, bytes), (uint32_t, round), (unsigned char *, data),
            (unsigned char *, mine), (size_t, stride), (uint64_t *, wrong))
{
    int from = (weft_dev_my_pe() + 1) % weft_dev_n_pes();
    data += GUARD + weft_dev_block_rank() * stride;
    mine += GUARD + weft_dev_block_rank() * stride;
    if (form == GET) {
        weft_block_get(mine, data, bytes, from);
    } else {
        weft_block_get_nbi(mine, data, bytes, from);
        weft_block_quiet();
    }
    weft_dev_atomic_add_u64(wrong, wrong_bytes(mine, bytes, round, from), WEFT_ORDER_RELAXED,
                            WEFT_SCOPE_SYS);
}

/* Each PE sends a few bytes over the end of a key range of the next PE by a put with signal, from
 * memory that it overwrites at once. */
WEFT_KERNEL(cross, (unsigned char *, data), (size_t, range), (int, nbi), (size_t, bytes),
            (uint32_t, round), (uint64_t *, signal), (uint64_t *, wrong))
{
    int me = weft_dev_my_pe(), n = weft_dev_n_pes(), to = (me + 1) % n, from = (me + n - 1) % n;
    size_t offset = (uintptr_t)data + GUARD - weft_dev_state.segment[WEFT_DEV_HEAP].base;
    unsigned char *at = data + GUARD + (range - offset % range) - 3, few[8];
    if (weft_dev_thread_rank())
        return;
    for (size_t i = 0; i < bytes; i++)
        few[i] = byte_of(round, 0, me, i);
    if (nbi)
        weft_thread_put_signal_nbi(at, few, bytes, signal, round, WEFT_SIGNAL_SET, to);
    else
        weft_thread_put_signal(at, few, bytes, signal, round, WEFT_SIGNAL_SET, to);
    for (size_t i = 0; i < bytes; i++)
        few[i] = 0x77;
    weft_thread_signal_wait(signal, WEFT_EQ, round);
    for (size_t i = 0; i < bytes; i++)
        *wrong += at[i] != byte_of(round, 0, from, i);
    *wrong += (at[-1] != 0xee) + (at[bytes] != 0xee);
    weft_thread_quiet();
}

/* One block puts and gets. nics: number of NICs; each: queues to a PE; used[size][block]: one bit
 * for each queue that one transfer of that size has used. */
WEFT_KERNEL(watch, (int, acting), (int, gets), (size_t, bytes), (unsigned char *, data),
            (unsigned char *, mine), (uint32_t *, shape), (uint64_t *, used))
{
    const struct weft_dev_gda *gda = &weft_dev_state.gda;
    uint64_t before[QUEUES_MOST];
    int pe = (weft_dev_my_pe() + 1) % weft_dev_n_pes();
    if (weft_dev_thread_rank() || weft_dev_block_rank() != (unsigned)acting)
        return;
    struct weft_dev_gda_queue *queues = weft_dev_gda_queues_to(gda, pe);
    shape[0] = gda->adapters;
    shape[1] = gda->each;
    for (uint32_t k = 0; k < gda->each && k < QUEUES_MOST; k++)
        before[k] = weft_dev_gda_head(queues + k);
    if (bytes && gets)
        weft_thread_get(mine, data, bytes, pe);
    else if (bytes)
        weft_thread_put(data, mine, bytes, pe);
    for (uint32_t k = 0; k < gda->each && k < QUEUES_MOST; k++)
        *used |= (uint64_t)(weft_dev_gda_head(queues + k) != before[k]) << k;
}

#if WEFT_HOST_CODE
static uint64_t *wrong;
static uint32_t *shape;

static void expect_none_wrong(const char *what, int form, size_t bytes)
{
    uint64_t seen;
    fetch(&seen, wrong, sizeof seen);
    if (seen)
        fprintf(stderr, "PE %d: %s, form %d, %zu bytes: %llu wrong bytes\n", me, what, form, bytes,
                (unsigned long long)seen);
    CHECK(!seen);
}

static void test_bytes(unsigned char *mine, const char *what)
{
    size_t stride = MOST + 2 * GUARD, all = BLOCKS * stride;
    unsigned char *data = symmetric(all), *blank = malloc(all);
    uint64_t *signals = symmetric(BLOCKS * sizeof *signals);
    uint32_t round = 1, seen[2];
    memset(blank, 0xee, all);
    fetch(seen, shape, sizeof seen);
    for (int form = 0; form < FORMS; form++)
        for (int i = 0; i < SIZES; i++, round++) {
            size_t bytes = size_of(i, seen[0]);
            int gets = form == GET || form == GET_NBI;
            store(data, blank, all);
            memset(mine, 0xee, all);
            barrier();
            if (gets)
                LAUNCH(prepare, BLOCKS, 32, 0, NULL, bytes, round, data, stride);
            barrier();
            if (gets)
                LAUNCH(get, BLOCKS, 32, 0, NULL, form, bytes, round, data, mine, stride, wrong);
            else
                LAUNCH(put, BLOCKS, 32, 0, NULL, form, bytes, round, data, mine, stride, signals,
                       wrong);
            expect_none_wrong(what, form, bytes);
            barrier();
        }
    free(blank);
}

static void test_key_ranges(size_t range)
{
    size_t all = 2 * range + 2 * GUARD;
    unsigned char *data = symmetric(all), *blank = malloc(all);
    uint64_t *signal = symmetric(sizeof *signal);
    memset(blank, 0xee, all);
    for (uint32_t round = 1; round <= 8; round++) {
        size_t bytes = round % 4 ? 4 + round % 4 : 8;
        store(data, blank, all);
        barrier();
        LAUNCH(cross, 1, 32, 0, NULL, data, range, (int)(round % 2), bytes, round, signal, wrong);
        expect_none_wrong("over the end of a key range", (int)(round % 2), bytes);
        barrier();
    }
    free(blank);
}

static void test_nics(void)
{
    unsigned char *data = symmetric(MOST), *mine = symmetric(MOST);
    uint64_t *used = symmetric(sizeof *used), zero = 0, seen;
    uint32_t nics, each, sizes[2];
    fetch(sizes, shape, sizeof sizes);
    nics = sizes[0];
    each = sizes[1];
    CHECK(nics > 1 && each <= QUEUES_MOST);
    for (int acting = 0; acting < (int)each; acting++)
        for (int i = 0; i < 2 * SIZES; i++) {
            uint32_t met = 0;
            store(used, &zero, sizeof zero);
            barrier();
            LAUNCH(watch, each, 32, 0, NULL, acting, i % 2, size_of(i / 2, nics), data, mine, shape,
                   used);
            fetch(&seen, used, sizeof seen);
            for (uint32_t k = 0; k < each; k++)
                met |= (uint32_t)(seen >> k & 1) << k % nics;
            CHECK(seen >> acting & 1);
            CHECK(__builtin_popcountll(seen) == (i / 2 ? (int)nics : 1));
            CHECK(!(i / 2) || met == (1u << nics) - 1);
        }
}

int main(int argc, char **argv)
{
    size_t all = BLOCKS * (size_t)(MOST + 2 * GUARD);
    device_begin();
    wrong = symmetric(sizeof *wrong);
    shape = symmetric(2 * sizeof *shape);
    uint64_t *used = symmetric(sizeof *used);
    LAUNCH(watch, 1, 32, 0, NULL, 0, 0, 0, NULL, NULL, shape, used);
    if (argc > 1 && strcmp(argv[1], "nics") == 0)
        test_nics();
    else
        test_bytes(symmetric(all), "registered memory");
    if (argc > 2)
        test_key_ranges(strtoul(argv[2], NULL, 10));
    if (argc == 1) {
        unsigned char *other = malloc(all);
        test_bytes(other, "other memory");
        free(other);
    }
    device_end();
    return 0;
}
#endif
