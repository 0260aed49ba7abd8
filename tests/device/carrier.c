/* SPDX-License-Identifier: Apache-2.0 */
/* Peers without direct addresses: a transport of this test stands in the list of transports in
 * place of the proxy and the NIC queues. It gets every operation once, with the caller's arguments,
 * and executes it through the host's addresses. Without a transport every operation fails with a
 * message that names the peer's path, and changes nothing. The test edits the state of its
 * translation unit by hand, so it runs on simt only. */
#define WEFT_DEV_CARRIERS(X) X(NOTING, noting)
#include "device_test.h"

enum { NOTES = 64, BYTES = 4096 };

/* Requests that the transport received, and how often fence and quiet were called. */
struct noted {
    int requests, fences, quiets;
    struct weft_dev_request request[NOTES];
};
static struct noted noted;
static uint64_t away; /* distance from an address of this PE to the same one of the carried peer */

static void carry_word(struct weft_dev_request *r, uint64_t *at, uint64_t *old)
{
    memcpy(old, at, r->bytes);
    uint64_t value = r->operation == WEFT_DEV_OP_P        ? r->value
                     : r->operation == WEFT_DEV_OP_G      ? *old
                     : r->operation == WEFT_DEV_OP_SIGNAL ? r->what ? *old + r->value : r->value
                     : r->what == WEFT_DEV_ATOMIC_ADD     ? *old + r->value
                     : r->what == WEFT_DEV_ATOMIC_AND     ? *old & r->value
                     : r->what == WEFT_DEV_ATOMIC_OR      ? *old | r->value
                     : r->what == WEFT_DEV_ATOMIC_XOR     ? *old ^ r->value
                     : r->what == WEFT_DEV_ATOMIC_FETCH   ? *old
                     : r->what == WEFT_DEV_ATOMIC_CSWAP   ? *old == r->compare ? r->value : *old
                     : r->what == WEFT_DEV_ATOMIC_ADD_F32
                         ? weft_dev_bits_f32(weft_dev_f32_bits((uint32_t)*old) +
                                             weft_dev_f32_bits((uint32_t)r->value))
                     : r->what == WEFT_DEV_ATOMIC_ADD_F64
                         ? weft_dev_bits_f64(weft_dev_f64_bits(*old) + weft_dev_f64_bits(r->value))
                         : r->value;
    memcpy(at, &value, r->bytes);
}

WEFT_DEVICE_NOINLINE uint64_t weft_dev_noting_request(struct weft_dev_request *request)
{
    struct weft_dev_request r = *request;
    char *at = (char *)(uintptr_t)((uintptr_t)r.symmetric + away), *local = r.local;
    uint64_t old = 0;
    if (noted.requests < NOTES)
        noted.request[noted.requests] = r;
    noted.requests++;
    switch (r.operation) {
    case WEFT_DEV_OP_PUT_SIGNAL:
    case WEFT_DEV_OP_PUT:
        memcpy(at, local, r.bytes);
        if (r.signal)
            *(uint64_t *)((uintptr_t)r.signal + away) = r.value;
        break;
    case WEFT_DEV_OP_GET:
        memcpy(local, at, r.bytes);
        break;
    case WEFT_DEV_OP_IPUT:
        for (uint64_t i = 0; i < r.n; i++)
            memcpy(at + i * (uint64_t)r.remote_stride * r.bytes,
                   local + i * (uint64_t)r.local_stride * r.bytes, r.bytes);
        break;
    case WEFT_DEV_OP_IGET:
        for (uint64_t i = 0; i < r.n; i++)
            memcpy(local + i * (uint64_t)r.local_stride * r.bytes,
                   at + i * (uint64_t)r.remote_stride * r.bytes, r.bytes);
        break;
    case WEFT_DEV_OP_PUT_PACKET:
        weft_dev_packet_store(at, r.compare, (uint32_t)r.value);
        break;
    default:
        carry_word(&r, (uint64_t *)(void *)at, &old);
    }
    return old;
}

WEFT_DEVICE_NOINLINE void weft_dev_noting_p(const void *symmetric, unsigned bytes, uint64_t value,
                                            int pe)
{
    struct weft_dev_request r = weft_dev_request_of(WEFT_DEV_OP_P, symmetric, bytes, pe);
    r.value = value;
    weft_dev_noting_request(&r);
}

WEFT_DEVICE_NOINLINE void weft_dev_noting_put_get(int operation, const void *symmetric, void *local,
                                                  uint64_t bytes, int pe, int form)
{
    struct weft_dev_request r = weft_dev_move_request(operation, symmetric, local, bytes, pe, form);
    weft_dev_noting_request(&r);
}

WEFT_DEVICE_NOINLINE void weft_dev_noting_order(int quiet)
{
    if (quiet)
        noted.quiets++;
    else
        noted.fences++;
}

/* Every device operation to one peer, by a block of 64 threads. */
WEFT_KERNEL(everything, (char *, there), (char *, here), (uint64_t *, got), (int, pe))
{
    uint64_t *words = (uint64_t *)there;
    int first = weft_dev_thread_rank() == 0;
    if (first) {
        weft_thread_p8(there, 0xf1, pe);
        weft_thread_p16(there + 2, 0xf2f2, pe);
        weft_thread_p32(there + 4, 0xf4f4f4f4u, pe);
        weft_thread_p64(words + 1, 0x8000000000000001u, pe);
        got[0] = weft_thread_g64(words + 1, pe);
        got[1] = weft_thread_g16(there + 2, pe);
        got[2] = weft_thread_atomic_fetch_add64(words + 1, 0xffffffffffffffffu, pe);
        got[3] = weft_thread_atomic_cswap64(words + 1, 0x8000000000000000u, 7, pe);
        got[4] = weft_thread_atomic_swap32(words + 1, 0x80000000u, pe);
        got[5] = weft_thread_atomic_fetch_xor32(words + 1, 0xffffffffu, pe);
        weft_thread_atomic_set64(words + 2, 40, pe);
        weft_thread_atomic_and64(words + 2, 0x28, pe);
        weft_thread_atomic_or64(words + 2, 1, pe);
        got[6] = weft_thread_atomic_fetch64(words + 2, pe);
        weft_thread_p_f32(words + 3, -1.5f, pe);
        got[7] = weft_dev_bits_f32(weft_thread_atomic_fetch_add_f32(words + 3, 0.25f, pe));
        weft_thread_p_f64(words + 4, -2.5, pe);
        weft_thread_atomic_add_f64(words + 4, 0.125, pe);
        weft_thread_signal(words + 5, 3, WEFT_SIGNAL_ADD, pe);
        weft_thread_signal(words + 5, 4, WEFT_SIGNAL_ADD, pe);
        weft_thread_fence();
        weft_thread_put_packet64(there + 256, 0x8877665544332211u, 9, pe);
    }
    weft_block_put(there + 512, here, 100, pe);
    weft_block_put_nbi(there + 640, here, 96, pe);
    if (weft_dev_warp() == 1)
        weft_warp_put(there + 768, here + 1, 33, pe);
    weft_block_put_signal(there + 896, here, 64, words + 6, 11, WEFT_SIGNAL_SET, pe);
    weft_block_iput(there + 1024, here, 3, 2, 4, 5, pe);
    weft_block_put_packet(there + 1280, here, 20, 12, pe);
    weft_block_get(here + 2048, there + 512, 100, pe);
    weft_block_iget(here + 2304, there + 1024, 1, 3, 4, 5, pe);
    weft_block_quiet();
}

#if WEFT_HOST_CODE

#include "path/path.h"

#include <unistd.h>

static char *there, *here;
static uint64_t *got;
static struct weft_dev_peer *peers;
static int carried;

/* Removes the direct address of PE `carried`. */
static void take_away(uint32_t carrier)
{
    peers = malloc((size_t)n_pes * sizeof *peers);
    CHECK(peers);
    memcpy(peers, weft_dev_state.peers, (size_t)n_pes * sizeof *peers);
    away = peers[carried].part[WEFT_DEV_HEAP] - peers[me].part[WEFT_DEV_HEAP];
    CHECK(peers[carried].part[WEFT_DEV_HEAP] && away);
    memset(peers[carried].part, 0, sizeof peers[carried].part);
    peers[carried].atomics = 0;
    peers[carried].carrier = carrier;
    peers[carried].path = PATH_SLOW;
    weft_dev_state.peers = peers;
    weft_dev_state.all_atomics = 0;
    weft_dev_state.carried = carrier ? 1u << carrier : 0;
    for (int s = 0; s < WEFT_DEV_PARTS; s++) {
        weft_dev_state.segment[s].first = me;
        weft_dev_state.segment[s].count = 1;
        weft_dev_state.segment[s].stride = weft_dev_state.segment[s].shift = 0;
    }
}

/* The first wait for the kernel reports a refused operation, and so does every later call. */
#define RUN(...)                                                                                   \
    do {                                                                                           \
        OK(WEFT_LAUNCH(__VA_ARGS__));                                                              \
        (void)weft_stream_synchronize(NULL);                                                       \
    } while (0)

static void launch(void)
{
    for (int i = 0; i < BYTES; i++)
        here[i] = (char)(i * 37 + me * 11 + 129);
    memset(&noted, 0, sizeof noted);
    RUN(everything, 1, 64, 0, NULL, there, here, got, carried);
}

/* Contents of the peer's memory after PE `from` has written it. */
static void check_there(int from)
{
    char sent[BYTES];
    uint64_t *words = (uint64_t *)there;
    float f;
    double d;
    for (int i = 0; i < BYTES; i++)
        sent[i] = (char)(i * 37 + from * 11 + 129);
    CHECK(words[0] == 0xf4f4f4f4f2f200f1u && words[1] == 0x7fffffffu);
    CHECK(words[2] == 0x29 && words[5] == 7 && words[6] == 11);
    memcpy(&f, words + 3, sizeof f);
    memcpy(&d, words + 4, sizeof d);
    CHECK(f == -1.25f && d == -2.375);
    CHECK(memcmp(there + 512, sent, 100) == 0 && there[612] == 0);
    CHECK(memcmp(there + 640, sent, 96) == 0 && there[736] == 0);
    CHECK(memcmp(there + 768, sent + 1, 33) == 0 && there[801] == 0);
    CHECK(memcmp(there + 896, sent, 64) == 0 && there[960] == 0);
    for (int i = 0; i < 5; i++)
        CHECK(memcmp(there + 1024 + 12 * i, sent + 8 * i, 4) == 0);
    uint64_t value;
    memcpy(&value, sent + 8, 8);
    struct weft_dev_vec16 *packet = (struct weft_dev_vec16 *)(void *)(there + 256);
    CHECK(packet->lo == 0x944332211u && packet->hi == 0x988776655u);
    packet = (struct weft_dev_vec16 *)(void *)(there + 1280);
    CHECK(packet[1].lo == ((value & 0xffffffffu) | 12ull << 32) && packet[2].hi == 12ull << 32);
}

static void carried_by_the_list(void)
{
    static const uint64_t fetched[] = {
        0x8000000000000001u, 0xf2f2, 0x8000000000000001u, 0x8000000000000000u, 7,
        0x80000000u,         0x29};
    take_away(WEFT_DEV_CARRIER_NOTING);
    launch();
    OK(weft_device_check(job));
    for (int i = 0; i < 7; i++)
        CHECK(got[i] == fetched[i]);
    CHECK((uint32_t)got[7] == weft_dev_bits_f32(-1.5f));
    CHECK(memcmp(here + 2048, here, 100) == 0);
    for (int i = 0; i < 5; i++)
        CHECK(memcmp(here + 2304 + 4 * i, here + 8 * i, 4) == 0);
    /* One request for each call in every scope, except for packets: one for each 8 bytes. Every
     * thread that calls quiet is counted. */
    CHECK(noted.requests == 31 && noted.fences == 1 && noted.quiets == 64);
    int puts = 0, later = 0;
    for (int i = 0; i < noted.requests; i++) {
        const struct weft_dev_request *r = &noted.request[i];
        CHECK(r->pe == carried);
        puts += r->operation == WEFT_DEV_OP_PUT;
        later += r->nbi && r->operation == WEFT_DEV_OP_PUT && r->bytes == 96;
    }
    CHECK(puts == 3 && later == 1);
    barrier();
    check_there((me + n_pes - 1) % n_pes);
}

/* The first operation is refused with its name and path, and no operation is executed. */
static void carried_by_nothing(void)
{
    char text[80];
    take_away(WEFT_DEV_CARRIER_NONE);
    launch();
    snprintf(text, sizeof text, "p: device code has no direct address of PE %d: its path is slow",
             carried);
    FAILS(weft_device_check(job), WEFT_ERR_NO_PATH, text);
    CHECK(noted.requests == 0 && got[0] == 0 && here[2048] == (char)(2048 * 37 + me * 11 + 129));
    for (uint64_t i = 0; i < BYTES; i++)
        CHECK(((char *)(uintptr_t)((uintptr_t)there + away))[i] == 0);
}

WEFT_KERNEL(add_to, (uint64_t *, word), (int, pe))
{
    weft_thread_p64(word + 1, 5, pe);
    weft_thread_atomic_add64(word, 1, pe);
}

/* Stores work, atomics do not. */
static void atomics_alone(void)
{
    char text[80];
    take_away(WEFT_DEV_CARRIER_NONE);
    peers[carried].part[WEFT_DEV_HEAP] = peers[me].part[WEFT_DEV_HEAP] + away;
    RUN(add_to, 1, 1, 0, NULL, (uint64_t *)there, carried);
    snprintf(text, sizeof text, "atomic: device code has no atomics at PE %d: its path is slow",
             carried);
    FAILS(weft_device_check(job), WEFT_ERR_NO_PATH, text);
    CHECK(((uint64_t *)(uintptr_t)((uintptr_t)there + away))[0] == 0);
    CHECK(((uint64_t *)(uintptr_t)((uintptr_t)there + away))[1] == 5);
}

WEFT_KERNEL(meet_all, (int *, status))
{
    *status = weft_thread_barrier(WEFT_DEV_WORLD);
}

static void no_collective(void)
{
    char text[96];
    take_away(WEFT_DEV_CARRIER_NONE);
    RUN(meet_all, 1, 1, 0, NULL, (int *)got);
    snprintf(text, sizeof text,
             "barrier of team 0: device code has no direct address of PE %d: its path is slow",
             carried);
    FAILS(weft_device_check(job), WEFT_ERR_NO_PATH, text);
    CHECK(*(int *)got == WEFT_ERR_NO_PATH);
}

int main(int argc, char **argv)
{
    device_begin();
    if (weft_target_get() != WEFT_SIMT || n_pes < 2)
        exit(77);
    carried = (me + 1) % n_pes;
    there = symmetric(BYTES);
    here = symmetric(BYTES);
    got = symmetric(64);
    barrier();
    if (argc < 2) {
        carried_by_the_list();
        device_end();
        return 0;
    }
    if (strcmp(argv[1], "nothing") == 0)
        carried_by_nothing();
    else if (strcmp(argv[1], "atomics") == 0)
        atomics_alone();
    else
        no_collective();
    fprintf(stderr, "seen: %s\n", weft_last_error());
    fflush(NULL);
    _exit(0); /* a failed job skips finalize */
}
#endif
