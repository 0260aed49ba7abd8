/* SPDX-License-Identifier: Apache-2.0 */
/* The rings from device code to the host: the device's end (weft/device/proxy.h, as plain
 * functions) and the host's end (src/proxy), without a job. Requests arrive completely, in order
 * and once. Fetched values return to the thread that requested them. A partly written request is
 * not read. A ring that no thread drains, or a thread that cannot be started, is reported. Also
 * tested: the CPUs of the threads. */
#include "job/device_proxy_place.h"
#include "proxy/proxy.h"

#include "base/cpus.h"

#include <weft_device.h>

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { NOTES = 8192, APART = 1 << 20, PES = 4 };

/* Requests that the owner received. The proxy's thread writes them; the test reads them after a
 * quiet. */
static struct {
    struct proxy_request request[NOTES];
    int requests, fences, quiets, at_quiet;
} noted;

static uint64_t carry(void *self, const struct proxy_request *request)
{
    assert_ptr_equal(self, &noted);
    if (noted.requests < NOTES)
        noted.request[noted.requests] = *request;
    noted.requests++;
    return ~request->value;
}

static void fence(void *self)
{
    (void)self;
    noted.fences++;
}

static void quiet(void *self)
{
    (void)self;
    noted.quiets++;
    noted.at_quiet = noted.requests;
}

static bool progress(void *self)
{
    (void)self;
    return false;
}

static const struct proxy_owner owner = {&noted, carry, fence, quiet, progress};
static struct proxy proxy;
static struct weft_dev_ring ring;
static struct weft_dev_box box;
static struct weft_dev_peer peers[PES];
static void *host, *own;

/* Set if the first argument is "near": counts and results are in memory of the device. */
static bool near_by;
static struct proxy_near near;

static const struct proxy_near *make_near(uint32_t rings, uint32_t slot_bits)
{
    free(near.mapped);
    near.mapped = calloc(1, proxy_near_bytes(rings, slot_bits));
    assert_non_null(near.mapped);
    near.device = (uintptr_t)near.mapped;
    return near_by ? &near : NULL;
}

static void lay_out(uint32_t slot_bits)
{
    memset(&noted, 0, sizeof noted);
    memset(&box, 0, sizeof box);
    memset(&proxy, 0, sizeof proxy);
    host = calloc(1, proxy_host_bytes(1, slot_bits));
    own = calloc(1, proxy_device_bytes(1, slot_bits));
    assert_non_null(host);
    assert_non_null(own);
    proxy_lay_out(&proxy, 1, slot_bits, host, (uintptr_t)host, (uintptr_t)own,
                  make_near(1, slot_bits), &ring);
    weft_dev_state.n_pes = PES;
    weft_dev_state.peers = peers;
    weft_dev_state.ring = ring;
    weft_dev_state.box = &box;
    weft_dev_state.tickets = &box.tickets;
    weft_dev_state.wait_limit_ns = 0;
}

static void start(uint32_t slot_bits)
{
    lay_out(slot_bits);
    assert_int_equal(proxy_start(&proxy, &owner, 1), WEFT_OK);
}

static void drop(void)
{
    proxy_stop(&proxy);
    proxy_stop(&proxy); /* a second call does nothing */
    free(host);
    free(own);
}

static struct weft_dev_request word(int operation, uint64_t value)
{
    struct weft_dev_request r = weft_dev_request_of(operation, (void *)0x1234, 8, 2);
    r.value = value;
    return r;
}

/* No part of the layout overlaps another, and device code gets addresses of its own. */
static void parts_do_not_overlap(void **state)
{
    static const uint32_t steps[] = {0, 1, 2, 4, 4, 8, 8, 8, 8};
    (void)state;
    for (uint32_t bits = 1; bits <= 11; bits++)
        for (uint32_t rings = 1; rings <= WEFT_DEV_RINGS_MOST; rings++) {
            struct proxy several[WEFT_DEV_RINGS_MOST];
            uint64_t *memory = calloc(1, proxy_host_bytes(rings, bits)), device = 0x100000;
            assert_non_null(memory);
            proxy_lay_out(several, rings, bits, memory, (uintptr_t)memory + APART, device, NULL,
                          &ring);
            uintptr_t base = (uintptr_t)memory + APART, slots = (size_t)steps[rings] << bits;
            assert_int_equal(ring.slots, slots);
            assert_int_equal(1u << ring.slot_bits, slots);
            assert_true(ring.rings == rings && ring.step == steps[rings]);
            assert_int_equal((uintptr_t)ring.words, base);
            assert_int_equal((uintptr_t)ring.bounce, base + slots * 64);
            assert_int_equal(ring.bounces, (bits < 10 ? 1u << bits : 1024) * steps[rings]);
            assert_int_equal((uintptr_t)ring.results, base + slots * 64 + ring.bounces * 320);
            assert_int_equal((uintptr_t)ring.released, (uintptr_t)ring.results + slots * 16);
            assert_int_equal((uintptr_t)ring.head, device);
            assert_int_equal((uintptr_t)ring.reading, device + (size_t)rings * 256);
            assert_int_equal((uintptr_t)(ring.reading + slots),
                             device + proxy_device_bytes(rings, bits));
            for (uint32_t r = 0; r < rings; r++) {
                uintptr_t released = (uintptr_t)(ring.released + (size_t)r * WEFT_DEV_RING_APART);
                uintptr_t completed = released + WEFT_DEV_RING_COMPLETED * sizeof(uint64_t);
                assert_int_equal((uintptr_t)several[r].released + APART, released);
                assert_int_equal((uintptr_t)several[r].completed + APART, completed);
                assert_true(completed >= released + 64);
                assert_true(completed + 64 <= base + proxy_host_bytes(rings, bits));
                assert_true(*several[r].released == r && *several[r].completed == r);
            }
            free(memory);
        }
}

static void every_field_arrives(void **state)
{
    (void)state;
    char source[8];
    uint64_t signal;
    start(4);
    struct weft_dev_request put = word(WEFT_DEV_OP_PUT_SIGNAL, 0xfedcba9876543210u);
    put.local = source;
    put.bytes = (1ull << 55) + 3;
    put.signal = &signal;
    put.what = WEFT_SIGNAL_ADD;
    put.pe = 3;
    struct weft_dev_request sent = put;
    weft_dev_proxy_request(&put);
    struct weft_dev_request swap = word(WEFT_DEV_OP_ATOMIC, 0x8000000000000001u);
    swap.compare = 0xff00000000000002u;
    swap.what = WEFT_DEV_ATOMIC_CSWAP;
    assert_true(weft_dev_proxy_request(&swap) == ~0x8000000000000001u);
    struct weft_dev_request get = word(WEFT_DEV_OP_IGET, 0);
    get.local = source;
    get.n = 1ull << 40;
    get.remote_stride = 1ll << 50;
    get.local_stride = 3;
    get.nbi = 1;
    weft_dev_proxy_request(&get);
    weft_dev_proxy_order(1);
    assert_int_equal(noted.requests, 3);
    const struct proxy_request *r = noted.request;
    assert_int_equal(r->operation, WEFT_DEV_OP_PUT_SIGNAL);
    assert_int_equal(r->pe, sent.pe);
    assert_int_equal(r->what, WEFT_SIGNAL_ADD);
    assert_int_equal(r->symmetric, 0x1234);
    assert_ptr_equal(r->local, source);
    assert_true(r->bytes == sent.bytes && r->value == sent.value && !r->nbi);
    assert_int_equal(r->signal, (uintptr_t)&signal);
    r++;
    assert_int_equal(r->operation, WEFT_DEV_OP_ATOMIC);
    assert_int_equal(r->what, WEFT_DEV_ATOMIC_CSWAP);
    assert_true(r->value == 0x8000000000000001u && r->compare == 0xff00000000000002u);
    assert_true(!r->local && r->bytes == 8 && r->pe == 2);
    r++;
    assert_int_equal(r->operation, WEFT_DEV_OP_IGET);
    assert_true(r->n == 1ull << 40 && r->remote_stride == 1ll << 50 && r->local_stride == 3);
    assert_true(r->nbi && r->bytes == 8);
    drop();
}

/* Each slot is reused many times, and so are the sequence numbers that tell its uses apart. */
static void laps(void **state)
{
    (void)state;
    enum { LAPS = 700 };
    for (uint32_t bits = 1; bits <= 3; bits++) {
        start(bits);
        for (int i = 0; i < LAPS; i++) {
            struct weft_dev_request r = word(WEFT_DEV_OP_P, (uint64_t)i << 53 | (uint64_t)i);
            weft_dev_proxy_request(&r);
        }
        weft_dev_proxy_order(1);
        assert_int_equal(noted.requests, LAPS);
        assert_int_equal(noted.at_quiet, LAPS);
        for (uint64_t i = 0; i < LAPS; i++)
            assert_true(noted.request[i].value == (i << 53 | i));
        /* A quiet is a descriptor too. */
        assert_int_equal(proxy_written_end(&proxy), LAPS + 1);
        assert_true(proxy_completed(&proxy, LAPS + 1) && !proxy_completed(&proxy, LAPS + 2));
        drop();
    }
}

static void values_come_back(void **state)
{
    (void)state;
    start(1);
    for (uint64_t i = 0; i < 2000; i += 7) {
        struct weft_dev_request r = word(WEFT_DEV_OP_G, i << 51 ^ i);
        assert_true(weft_dev_proxy_request(&r) == ~(i << 51 ^ i));
        r = word(WEFT_DEV_OP_ATOMIC, i);
        r.nbi = 1; /* the result is not requested */
        assert_true(weft_dev_proxy_request(&r) == 0);
    }
    drop();
}

/* A fence or quiet is executed once for the requests that it orders. */
static void order(void **state)
{
    (void)state;
    start(3);
    weft_dev_proxy_order(0); /* no requests to order */
    weft_dev_proxy_order(1);
    assert_int_equal(proxy_written_end(&proxy), 0);
    struct weft_dev_request r = word(WEFT_DEV_OP_P, 1);
    weft_dev_proxy_request(&r);
    weft_dev_proxy_order(0);
    weft_dev_proxy_order(0);
    weft_dev_proxy_order(1);
    weft_dev_proxy_order(1);
    assert_int_equal(noted.fences, 1);
    assert_int_equal(noted.at_quiet, 1);
    assert_int_equal(noted.quiets, 1);
    r = word(WEFT_DEV_OP_P, 2);
    weft_dev_proxy_request(&r);
    weft_dev_proxy_order(0);
    weft_dev_proxy_order(1);
    assert_int_equal(noted.fences, 2);
    assert_int_equal(noted.at_quiet, 2);
    assert_int_equal(noted.quiets, 2);
    assert_int_equal(proxy_written_end(&proxy), 6);
    drop();
}

/* No device thread asks for completion: the host requests it. */
static void host_asks(void **state)
{
    (void)state;
    start(3);
    for (uint64_t i = 0; i < 5; i++) {
        struct weft_dev_request r = word(WEFT_DEV_OP_G, i);
        weft_dev_proxy_request(&r);
    }
    assert_int_equal(proxy_written_end(&proxy), 5);
    assert_false(proxy_completed(&proxy, 1));
    proxy_request_completion(&proxy, 5);
    proxy_request_completion(&proxy, 3); /* less than already requested */
    for (int i = 0; i < 20000 && !proxy_completed(&proxy, 5); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_true(proxy_completed(&proxy, 5) && !proxy_completed(&proxy, 6));
    assert_int_equal(noted.at_quiet, 5);
    drop();
}

/* A descriptor is not read before its last word is written, whichever word is last and whatever the
 * previous lap has left in the slot. */
static void half_a_descriptor(void **state)
{
    (void)state;
    enum { BITS = 2 };
    struct proxy_request request;
    unsigned flags;
    struct weft_dev_request r = word(WEFT_DEV_OP_P, 0x1122334455667788u);
    lay_out(BITS);
    assert_false(proxy_read(proxy.words, 0, BITS, &request, &flags));
    r.pe = 0x7fffffff;
    weft_dev_ring_write(&r, WEFT_DEV_RING_WAITED, 1);
    assert_true(proxy_read(proxy.words, 1, BITS, &request, &flags));
    assert_true(flags == WEFT_DEV_RING_WAITED && request.value == r.value);
    assert_int_equal(request.pe, 0x7fffffff);
    assert_false(proxy_read(proxy.words, 5, BITS, &request, &flags));
    assert_false(proxy_read(proxy.words, 0, BITS, &request, &flags));
    uint64_t *place = proxy.words + WEFT_DEV_RING_WORDS;
    for (int late = 0; late < WEFT_DEV_RING_WORDS; late++) {
        uint64_t before = place[late];
        weft_dev_ring_write(&r, WEFT_DEV_RING_WAITED, 5);
        uint64_t word = place[late];
        place[late] = before;
        assert_false(proxy_read(proxy.words, 5, BITS, &request, &flags));
        place[late] = word;
        assert_true(proxy_read(proxy.words, 5, BITS, &request, &flags));
        weft_dev_ring_write(&r, WEFT_DEV_RING_WAITED, 1);
    }
    drop();
}

/* Device code polls its own GPU's memory, and the host's thread keeps separate counts. */
static void near_parts(void **state)
{
    (void)state;
    for (uint32_t bits = 1; bits <= 11; bits += 5)
        for (uint32_t rings = 1; rings <= WEFT_DEV_RINGS_MOST; rings++) {
            struct proxy several[WEFT_DEV_RINGS_MOST];
            uint64_t *memory = calloc(1, proxy_host_bytes(rings, bits));
            struct proxy_near there = {calloc(1, proxy_near_bytes(rings, bits)), 0x7000000};
            assert_true(memory && there.mapped);
            proxy_lay_out(several, rings, bits, memory, (uintptr_t)memory, 0x100000, &there, &ring);
            assert_int_equal((uintptr_t)ring.released, there.device);
            assert_int_equal((uintptr_t)ring.results,
                             there.device + rings * WEFT_DEV_RING_APART * sizeof(uint64_t));
            assert_int_equal((uintptr_t)(ring.results + 2 * ring.slots),
                             there.device + proxy_near_bytes(rings, bits));
            for (uint32_t r = 0; r < rings; r++) {
                const uint64_t *counts = (uint64_t *)there.mapped + (size_t)r * WEFT_DEV_RING_APART;
                assert_true(counts[0] == r && counts[WEFT_DEV_RING_COMPLETED] == r);
                assert_true(*several[r].released == r && *several[r].completed == r);
                assert_ptr_equal(several[r].near_counts, counts);
            }
            free(memory);
            free(there.mapped);
        }
}

/* The thread that reads the host's count of released slots stores it, so that the other threads of
 * the lap do not read it from host memory. */
static void room_is_noted(void **state)
{
    (void)state;
    lay_out(4);
    weft_dev_state.wait_limit_ns = 5 * 1000 * 1000;
    for (int i = 0; i < 32; i++) {
        struct weft_dev_request r = word(WEFT_DEV_OP_P, 1);
        *(uint64_t *)(uintptr_t)ring.released = i == 16 ? 13 : 0;
        weft_dev_proxy_request(&r);
        assert_int_equal(ring.head[WEFT_DEV_RING_KNOWN], i < 16 ? 0 : 13);
        assert_int_equal(box.failed, i < 29 ? WEFT_OK : WEFT_ERR_TIMEOUT);
        /* later requests end with the job; slow ones may reach their own limit */
        assert_true(i < 29 ? box.tickets == 0 : i == 29 ? box.tickets == 1 : box.tickets >= 1);
    }
    drop();
}

static void *read_late(void *at)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    __atomic_fetch_add((uint64_t *)at, 1, __ATOMIC_RELAXED);
    return NULL;
}

/* A request for a value waits until the previous user of the slot has read its own value. */
static void late_reader(void **state)
{
    (void)state;
    pthread_t reader;
    start(1);
    for (uint64_t i = 0; i < 4; i++) {
        struct weft_dev_request r = word(WEFT_DEV_OP_G, i);
        assert_true(weft_dev_proxy_request(&r) == ~i);
    }
    assert_true(ring.reading[0] == 4 && ring.reading[1] == 4);
    ring.reading[0]++;
    assert_int_equal(pthread_create(&reader, NULL, read_late, &ring.reading[0]), 0);
    struct weft_dev_request r = word(WEFT_DEV_OP_G, 7);
    assert_true(weft_dev_proxy_request(&r) == ~(uint64_t)7);
    pthread_join(reader, NULL);
    assert_true(ring.reading[0] == 8);
    weft_dev_state.wait_limit_ns = 5 * 1000 * 1000;
    ring.reading[1]++;
    r = word(WEFT_DEV_OP_ATOMIC, 8);
    assert_true(weft_dev_proxy_request(&r) == 0);
    assert_int_equal(box.failed, WEFT_ERR_TIMEOUT);
    assert_true(box.records[0].expected == 7 && box.records[0].seen == 6);
    assert_int_equal(proxy_written_end(&proxy), 5);
    drop();
}

/* In a ring of two slots the third request waits for space until its time limit. */
static void nobody_drains(void **state)
{
    (void)state;
    lay_out(1);
    weft_dev_state.wait_limit_ns = 5 * 1000 * 1000;
    for (int i = 0; i < 2; i++) {
        struct weft_dev_request r = word(WEFT_DEV_OP_P, 1);
        weft_dev_proxy_request(&r);
    }
    assert_int_equal(box.tickets, 0);
    assert_int_equal(proxy_written_end(&proxy), 2);
    struct weft_dev_request r = word(WEFT_DEV_OP_G, 1);
    assert_true(weft_dev_proxy_request(&r) == 0);
    assert_int_equal(box.failed, WEFT_ERR_TIMEOUT);
    assert_int_equal(box.tickets, 1);
    const struct weft_dev_record *record = &box.records[0];
    assert_int_equal(record->state, WEFT_DEV_RECORD_EXPIRED);
    assert_int_equal(record->operation, WEFT_DEV_OP_G);
    assert_int_equal(record->peer, 2);
    assert_true(record->expected == 1 && record->seen == 0);
    assert_int_equal(proxy_written_end(&proxy), 2);
    drop();
}

/* Three rings: all requests to one PE go to one ring, in order, and its fences do too. */
enum { THREE = 3 };
static struct {
    struct proxy_request request[256];
    int requests, fences, quiets, at_quiet;
} apart[THREE];

static uint64_t carry_apart(void *self, const struct proxy_request *request)
{
    int ring_number = (int)(uintptr_t)self;
    apart[ring_number].request[apart[ring_number].requests++] = *request;
    return ~request->value;
}

static void fence_apart(void *self)
{
    apart[(uintptr_t)self].fences++;
}

static void quiet_apart(void *self)
{
    apart[(uintptr_t)self].quiets++;
    apart[(uintptr_t)self].at_quiet = apart[(uintptr_t)self].requests;
}

static void three_rings(void **state)
{
    static const uint32_t ring_of[PES] = {2, 0, 1, 0};
    struct proxy three[THREE];
    uint64_t begin[WEFT_DEV_RINGS_MOST * WEFT_DEV_RING_APART];
    (void)state;
    for (uint32_t bits = 0; bits <= 3; bits += 3) {
        lay_out(1);
        memset(apart, 0, sizeof apart);
        void *memory = calloc(1, proxy_host_bytes(THREE, bits));
        char *device = calloc(1, proxy_device_bytes(THREE, bits));
        memcpy(device, begin, proxy_device_begin(THREE, begin));
        proxy_lay_out(three, THREE, bits, memory, (uintptr_t)memory, (uintptr_t)device,
                      make_near(THREE, bits), &ring);
        weft_dev_state.ring = ring;
        for (uintptr_t i = 0; i < THREE; i++) {
            const struct proxy_owner one = {(void *)i, carry_apart, fence_apart, quiet_apart,
                                            progress};
            assert_int_equal(proxy_start(&three[i], &one, 1), WEFT_OK);
        }
        for (int pe = 0; pe < PES; pe++)
            peers[pe].ring = ring_of[pe];
        weft_dev_proxy_order(0);
        weft_dev_proxy_order(1); /* nothing was requested */
        for (uint64_t i = 0; i < 120; i++) {
            struct weft_dev_request r = word(i % 2 ? WEFT_DEV_OP_G : WEFT_DEV_OP_P, i << 53 | i);
            r.pe = i % 5 < 3 ? 1 : 2; /* no request goes to ring 2 */
            uint64_t value = r.value, seen = weft_dev_proxy_request(&r);
            assert_true(i % 2 == 0 || seen == ~value);
            if (i == 60)
                weft_dev_proxy_order(0);
        }
        weft_dev_proxy_order(1);
        assert_true(apart[0].at_quiet == 72 && apart[1].at_quiet == 48);
        assert_true(apart[0].quiets == 1 && apart[1].quiets == 1);
        assert_true(apart[0].fences == 1 && apart[1].fences == 1);
        assert_true(apart[2].requests + apart[2].fences + apart[2].quiets == 0);
        for (uint64_t i = 0, next[2] = {0}; i < 120; i++) {
            int number = i % 5 < 3 ? 0 : 1;
            const struct proxy_request *r = &apart[number].request[next[number]++];
            assert_true(r->value == (i << 53 | i) && r->pe == (number ? 2 : 1));
        }
        uint64_t given = proxy_written_end(&three[1]);
        assert_int_equal(proxy_between(&three[1], 1, given), 50);
        assert_true(proxy_completed(&three[1], given) && !proxy_completed(&three[1], given + 1));
        assert_int_equal(proxy_written_end(&three[2]), 2);
        struct weft_dev_request late = word(WEFT_DEV_OP_G, 9);
        late.pe = 0;
        assert_true(weft_dev_proxy_request(&late) == ~(uint64_t)9);
        proxy_request_completion(&three[2], proxy_written_end(&three[2]));
        for (int i = 0; i < 20000 && !proxy_completed(&three[2], 6); i++)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        assert_true(proxy_completed(&three[2], 6) && apart[2].at_quiet == 1);
        assert_true(apart[0].quiets == 1 && apart[1].quiets == 1);
        for (int i = 0; i < THREE; i++)
            proxy_stop(&three[i]);
        free(memory);
        free(device);
        memset(peers, 0, sizeof peers);
        drop();
    }
}

/* Producers wait without yielding their CPU, as a GPU's threads do. */
#ifdef __SANITIZE_THREAD__
enum { PRODUCERS = 2, EACH = 8 };
#else
enum { PRODUCERS = 3, EACH = 8 };
#endif

/* In turn: a value without a wait, a fetched value, a put_signal with a wait, and a fence. */
static void *produce(void *number)
{
    uint64_t me = (uintptr_t)number;
    char source[8];
    for (uint64_t i = 0; i < EACH; i++) {
        struct weft_dev_request r = word(WEFT_DEV_OP_P, me << 60 | i);
        if (i % 4 == 1)
            r.operation = WEFT_DEV_OP_G;
        if (i % 4 == 2) {
            r.operation = WEFT_DEV_OP_PUT_SIGNAL;
            r.local = source;
        }
        uint64_t value = r.value, seen = weft_dev_proxy_request(&r);
        assert_true(i % 4 != 1 || seen == ~value);
        if (i % 4 == 3)
            weft_dev_proxy_order(i % 8 == 7);
    }
    return NULL;
}

/* All requests of each producer arrive, in the producer's order. */
static void several_producers(void **state)
{
    (void)state;
    pthread_t threads[PRODUCERS];
    for (uint32_t bits = 1; bits <= 5; bits += 2) {
        uint64_t next[PRODUCERS] = {0};
        start(bits);
        for (uintptr_t i = 0; i < PRODUCERS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, produce, (void *)i), 0);
        for (int i = 0; i < PRODUCERS; i++)
            pthread_join(threads[i], NULL);
        weft_dev_proxy_order(1);
        assert_int_equal(noted.at_quiet, PRODUCERS * EACH);
        proxy_stop(&proxy);
        for (int i = 0; i < PRODUCERS * EACH; i++) {
            uint64_t value = noted.request[i].value;
            assert_true(value >> 60 < PRODUCERS);
            assert_true((value << 4 >> 4) == next[value >> 60]++);
        }
        drop();
    }
}

/* A sleeping thread is woken by a request for completion, and by a request that does not wait. */
static void sleeper(void **state)
{
    (void)state;
    start(2);
    for (int i = 0; i < 4; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 8000000}, NULL);
        struct weft_dev_request r = word(WEFT_DEV_OP_G, 5);
        assert_true(weft_dev_proxy_request(&r) == ~(uint64_t)5);
        nanosleep(&(struct timespec){.tv_nsec = 8000000}, NULL);
        proxy_request_completion(&proxy, (uint64_t)i + 1);
        while (!proxy_completed(&proxy, (uint64_t)i + 1))
            sched_yield();
        proxy_wake(&proxy);
    }
    assert_int_equal(noted.requests, 4);
    drop();
}

static cpu_set_t cpus_of(const char *list)
{
    cpu_set_t cpus;
    assert_true(cpus_parse(list, &cpus));
    return cpus;
}

/* The CPUs of a thread, from the CPUs that this PE may use, those near the NIC and those near the
 * GPU. */
static void places_of_threads(void **state)
{
    static const char *const rows[][4] = {
        {"0-15", "8-15", "0-7", "8-15"}, {"0-15", NULL, "0-7", "0-7"},
        {"0-15", NULL, NULL, "0-15"},    {"0-15", "0-3", NULL, "0-3"},
        {"0-7", "8-15", "4-11", "4-7"}, /* bound by the launcher to CPUs away from the NIC */
        {"2,3", "8-15", "4-7", "2-3"},  /* ... and from the GPU */
        {"7-9", "8-15", "0-7", "8,9"},  /* ... or partly away */
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cpu_set_t allowed = cpus_of(rows[i][0]), expected = cpus_of(rows[i][3]), got, nic, gpu;
        if (rows[i][1])
            nic = cpus_of(rows[i][1]);
        if (rows[i][2])
            gpu = cpus_of(rows[i][2]);
        device_proxy_choose_cpus(&allowed, rows[i][1] ? &nic : NULL, rows[i][2] ? &gpu : NULL,
                                 &got);
        assert_true(CPU_EQUAL(&got, &expected));
    }
}

static int refuse_threads;
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *argument);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *argument)
{
    return refuse_threads ? EAGAIN : __real_pthread_create(thread, attr, run, argument);
}

static void no_thread(void **state)
{
    (void)state;
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    lay_out(2);
    refuse_threads = 1;
    assert_int_equal(proxy_start(&proxy, &owner, 1), WEFT_ERR_SYSTEM);
    refuse_threads = 0;
    assert_non_null(strstr(weft_last_error(), "no thread for the proxy of device code"));
    assert_non_null(strstr(weft_last_error(), strerror(EAGAIN)));
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int signal = 1; signal < NSIG; signal++)
        assert_int_equal(sigismember(&before, signal), sigismember(&after, signal));
    drop();
}

int main(int argc, char **argv)
{
    near_by = argc > 1 && strcmp(argv[1], "near") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_do_not_overlap),
        cmocka_unit_test(near_parts),
        cmocka_unit_test(every_field_arrives),
        cmocka_unit_test(laps),
        cmocka_unit_test(values_come_back),
        cmocka_unit_test(order),
        cmocka_unit_test(host_asks),
        cmocka_unit_test(half_a_descriptor),
        cmocka_unit_test(room_is_noted),
        cmocka_unit_test(late_reader),
        cmocka_unit_test(nobody_drains),
        cmocka_unit_test(three_rings),
        cmocka_unit_test(several_producers),
        cmocka_unit_test(sleeper),
        cmocka_unit_test(places_of_threads),
        cmocka_unit_test(no_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
