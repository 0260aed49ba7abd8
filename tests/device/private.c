/* SPDX-License-Identifier: Apache-2.0 */
/* Local buffers that only a thread or its block can access: a stack and shared memory. Every
 * operation on a peer reads and writes them, at odd addresses and sizes that are no multiple of a
 * word, and writes no byte next to them. Over a path without direct addresses the transport must
 * not get their addresses. */
#include "device_test.h"

enum { ROOM = 512, SHARED = 128, GUARD = 0xd7 };
/* Offsets at the peer that each operation writes, and offsets of the results of gets. */
enum { PUT = 3, PUT_NBI = 72, SIGNALLED = 129, STRIDED = 200, PACKET = 256, BLOCK_PUT = 321 };
enum { GOT = 5, GOT_STRIDED = 48, WARP_GOT = 129, BLOCK_GOT = 257 };

WEFT_GLOBAL unsigned char plain[16];

WEFT_DEV_BOTH unsigned char pattern(int pe, size_t i)
{
    return (unsigned char)(pe * 53 + (int)i * 11 + 135);
}

/* Thread 0 checks which addresses the host can access: one bit for each wrong result. */
WEFT_DEVICE uint64_t wrong_places(const void *own, const void *shared, const void *dynamic,
                                  const void *symmetric)
{
    return (uint64_t)(weft_dev_is_global(own) != 0) |
           (uint64_t)(weft_dev_is_global(shared) != 0) << 1 |
           (uint64_t)(weft_dev_is_global(dynamic) != 0) << 2 |
           (uint64_t)(weft_dev_is_global(symmetric) != 1) << 3 |
           (uint64_t)(weft_dev_is_global(plain) != 1) << 4 |
           (uint64_t)(weft_dev_is_global(NULL) != 1) << 5; /* the same on both targets */
}

WEFT_KERNEL(from_stack, (char *, there), (uint64_t *, signal), (const char *, source),
            (unsigned char *, got), (uint64_t *, wrong), (int, pe))
{
    unsigned char own[64] __attribute__((aligned(8))), back[ROOM / 4];
    WEFT_SHARED(unsigned char, shared, [16]);
    WEFT_SHARED_DYNAMIC(unsigned char, dynamic);
    if (weft_dev_thread_rank() != 0)
        return;
    *wrong = wrong_places(own + 63, shared, dynamic + 15, there);
    for (int i = 0; i < 64; i++)
        own[i] = pattern(weft_dev_my_pe(), (size_t)i);
    for (int i = 0; i < ROOM / 4; i++)
        back[i] = GUARD;
    weft_thread_put(there + PUT, own + 1, 45, pe);
    weft_thread_put_nbi(there + PUT_NBI, own, 16, pe);
    weft_thread_put_signal(there + SIGNALLED, own + 2, 21, signal, 0x8100000000000007u,
                           WEFT_SIGNAL_ADD, pe);
    weft_thread_iput(there + STRIDED, own, 2, 3, 4, 5, pe);
    weft_thread_put_packet(there + PACKET, own + 1, 13, 9, pe);
    weft_thread_quiet();
    for (int i = 0; i < 64; i++)
        own[i] = GUARD;
    weft_thread_get(back + GOT, source + 1, 30, pe);
    weft_thread_iget(back + GOT_STRIDED, source, 2, 3, 4, 5, pe);
    weft_thread_quiet();
    for (int i = 0; i < ROOM / 4; i++)
        got[i] = back[i];
}

WEFT_KERNEL(from_shared, (char *, there), (const char *, source), (unsigned char *, got), (int, pe))
{
    WEFT_SHARED(unsigned char, shared, [SHARED]);
    WEFT_SHARED_DYNAMIC(unsigned char, dynamic);
    unsigned me = weft_dev_thread_rank(), n = weft_dev_block_threads();
    for (unsigned i = me; i < SHARED; i += n) {
        shared[i] = pattern(weft_dev_my_pe(), i);
        dynamic[i] = GUARD;
    }
    weft_dev_sync_block();
    weft_block_put(there + BLOCK_PUT, shared + 3, 77, pe);
    weft_dev_sync_block();
    for (unsigned i = me; i < SHARED; i += n)
        shared[i] = GUARD;
    weft_dev_sync_block();
    if (weft_dev_warp() == n / WEFT_WARP_LANES - 1)
        weft_warp_get(dynamic + 7, source + 2, 61, pe);
    weft_block_get(shared + 1, source + 5, 90, pe);
    weft_block_quiet();
    weft_dev_sync_block();
    for (unsigned i = me; i < SHARED; i += n) {
        got[WARP_GOT - 1 + i] = dynamic[i];
        got[BLOCK_GOT - 1 + i] = shared[i];
    }
}

#if WEFT_HOST_CODE

/* bytes[at, at + n) is the pattern of PE `pe` from `first` on. */
static void expect(unsigned char *bytes, size_t at, size_t n, int pe, size_t first)
{
    for (size_t i = 0; i < n; i++)
        bytes[at + i] = pattern(pe, first + i);
}

static void compare(const char *what, const unsigned char *seen, const unsigned char *wanted)
{
    for (int i = 0; i < ROOM; i++)
        if (seen[i] != wanted[i]) {
            fprintf(stderr, "%s: byte %d is %#x, not %#x\n", what, i, seen[i], wanted[i]);
            exit(1);
        }
}

static void check_there(const unsigned char *seen, int from)
{
    unsigned char wanted[ROOM];
    memset(wanted, GUARD, sizeof wanted);
    expect(wanted, PUT, 45, from, 1);
    expect(wanted, PUT_NBI, 16, from, 0);
    expect(wanted, SIGNALLED, 21, from, 2);
    for (size_t i = 0; i < 5; i++)
        expect(wanted, STRIDED + 8 * i, 4, from, 12 * i);
    /* A packet: 4 bytes of payload and 4 of the sequence number. The rest of the payload is
     * zero. */
    memset(wanted + PACKET, 0, 32);
    for (size_t i = 0; i < 13; i++)
        wanted[PACKET + i / 4 * 8 + i % 4] = pattern(from, 1 + i);
    for (size_t i = 0; i < 4; i++)
        wanted[PACKET + 8 * i + 4] = 9;
    expect(wanted, BLOCK_PUT, 77, from, 3);
    compare("at the peer", seen, wanted);
}

static void check_got(const unsigned char *seen, int from)
{
    unsigned char wanted[ROOM];
    memset(wanted, GUARD, sizeof wanted);
    expect(wanted, GOT, 30, from, 1);
    for (size_t i = 0; i < 5; i++)
        expect(wanted, GOT_STRIDED + 8 * i, 4, from, 12 * i);
    expect(wanted, WARP_GOT - 1 + 7, 61, from, 2);
    expect(wanted, BLOCK_GOT - 1 + 1, 90, from, 5);
    compare("got", seen, wanted);
}

int main(void)
{
    unsigned char bytes[ROOM];
    uint64_t number = 3;
    device_begin();
    int next = (me + 1) % n_pes, last = (me + n_pes - 1) % n_pes;
    char *there = symmetric(ROOM), *source = symmetric(ROOM);
    unsigned char *got = symmetric(ROOM);
    uint64_t *signal = symmetric(sizeof *signal), *wrong = symmetric(sizeof *wrong);
    expect(bytes, 0, ROOM, me, 0);
    store(source, bytes, ROOM);
    memset(bytes, GUARD, ROOM);
    store(there, bytes, ROOM);
    store(got, bytes, ROOM);
    store(signal, &number, sizeof number);
    barrier();
    LAUNCH(from_stack, 1, 32, 16, NULL, there, signal, source, got, wrong, next);
    LAUNCH(from_shared, 1, 64, SHARED, NULL, there, source, got, next);
    fetch(&number, wrong, sizeof number);
    CHECK(number == 0);
    barrier();
    fetch(bytes, there, ROOM);
    check_there(bytes, last);
    fetch(bytes, got, ROOM);
    check_got(bytes, next);
    fetch(&number, signal, sizeof number);
    CHECK(number == 0x810000000000000au);
    barrier();
    device_end();
    return 0;
}
#endif
