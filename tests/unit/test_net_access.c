/* SPDX-License-Identifier: Apache-2.0 */
/* Shows how path net makes remote accesses of host memory: local memory is used in place or through
 * a registered copy; operations and copies are reused; the keys of the peer are queried; several
 * NICs share a transfer. Memory without a key is accessed by requests. */
#include "unit/net_end.h"

#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { CHUNK = NET_CHUNK_BYTES, COPY = 64 << 10 };

static const uint8_t key[SIPHASH_KEY_BYTES] = {4, 4, 2};
static struct net_end end;
static struct net_peer *peer;
static struct peer to_peer;
static char *const heap = (char *)0x700000000000, *const data = (char *)0x710000000000;
static unsigned char local[200000];

static struct {
    bool ready;
    int slabs, slabs_left;
    void *slab[8];
    bool unregistered;
    enum segment_id segment;
    size_t chunk;
    int chunks;
    bool known;
    weft_status chunk_status, wait_status, stripe_status;
    size_t asked_chunk;
    int waits, ends, drops;
    struct path_wait wait;
    size_t striped, stripe_calls, stripe_offset, stripe_local, put, got;
    bool stripes;
} d;

static struct fid_mr registered = {.mem_desc = &registered};

struct fid_mr *__wrap_net_get_own_chunk(struct path_common *net, enum segment_id segment,
                                        size_t number, struct net_key *found);
struct fid_mr *__wrap_net_get_own_chunk(struct path_common *net, enum segment_id segment,
                                        size_t number, struct net_key *found)
{
    assert_ptr_equal(net, &end.net);
    assert_null(found);
    d.segment = segment;
    d.chunk = number;
    d.chunks++;
    return d.unregistered ? NULL : &registered;
}

void *__real_net_alloc_slab(struct path_common *net, size_t bytes, void **descriptor);
void *__wrap_net_alloc_slab(struct path_common *net, size_t bytes, void **descriptor);
void *__wrap_net_alloc_slab(struct path_common *net, size_t bytes, void **descriptor)
{
    if (!d.ready)
        return __real_net_alloc_slab(net, bytes, descriptor);
    *descriptor = &d.slabs;
    if (!d.slabs_left--)
        return NULL;
    assert_true(d.slabs < 8);
    return d.slab[d.slabs++] = calloc(1, bytes);
}

weft_status __wrap_net_get_peer_key(struct net_state *state, struct net_peer *of,
                                    enum segment_id segment, size_t chunk, struct net_key *found);
weft_status __wrap_net_get_peer_key(struct net_state *state, struct net_peer *of,
                                    enum segment_id segment, size_t chunk, struct net_key *found)
{
    assert_ptr_equal(state, &end.state);
    assert_ptr_equal(of, peer);
    assert_int_equal(segment, SEG_DATA);
    d.asked_chunk = chunk;
    *found = (struct net_key){.key = 31, .base = 9000, .known = d.known};
    return d.chunk_status;
}

weft_status __wrap_net_wait(struct path_common *net, struct net_peer *of, struct path_wait *wait);
weft_status __wrap_net_wait(struct path_common *net, struct net_peer *of, struct path_wait *wait)
{
    assert_ptr_equal(net, &end.net);
    assert_ptr_equal(of, peer);
    d.wait = *wait;
    d.waits++;
    return d.wait_status;
}

static void count_end(struct path_wait *wait)
{
    (void)wait;
    d.ends++;
}

bool __wrap_net_is_striped(const struct path_common *net, const struct net_peer *of, size_t bytes);
bool __wrap_net_is_striped(const struct path_common *net, const struct net_peer *of, size_t bytes)
{
    (void)net, (void)of, (void)bytes;
    return d.stripes;
}

weft_status __wrap_net_stripe_host(struct net_state *state, struct remote at, void *with,
                                   size_t bytes, bool write, size_t *taken);
weft_status __wrap_net_stripe_host(struct net_state *state, struct remote at, void *with,
                                   size_t bytes, bool write, size_t *taken)
{
    assert_ptr_equal(state, &end.state);
    assert_true(write);
    d.stripe_calls++;
    d.stripe_offset = at.offset;
    d.stripe_local = (size_t)((unsigned char *)with - local);
    *taken = d.striped < bytes ? d.striped : bytes;
    return d.stripe_status;
}

weft_status __wrap_net_put_by_requests(struct net_state *state, struct remote to, const void *src,
                                       size_t bytes);
weft_status __wrap_net_put_by_requests(struct net_state *state, struct remote to, const void *src,
                                       size_t bytes)
{
    (void)state, (void)to, (void)src;
    d.put += bytes;
    return WEFT_OK;
}

weft_status __wrap_net_get_by_requests(struct net_state *state, struct remote from, void *dst,
                                       size_t bytes);
weft_status __wrap_net_get_by_requests(struct net_state *state, struct remote from, void *dst,
                                       size_t bytes)
{
    (void)state, (void)from, (void)dst;
    d.got += bytes;
    return WEFT_OK;
}

void __real_net_drop_state(struct net_state *state);
void __wrap_net_drop_state(struct net_state *state);
void __wrap_net_drop_state(struct net_state *state)
{
    d.drops++;
    __real_net_drop_state(state);
}

static int open_end(void **context)
{
    (void)context;
    memset(&d, 0, sizeof d);
    end_open_idle(&end, key);
    peer = &end.peers[1];
    to_peer = (struct peer){.pe = 1, .state = (void *)&end.state, .world = &end.world};
    end.world.wait_end = count_end;
    end.world.sizes[SEG_HEAP] = CHUNK + 5000;
    end.world.sizes[SEG_DATA] = 100;
    end.world.sizes[SEG_SYSTEM] = 4096;
    end.map[0][SEG_HEAP] = heap;
    end.map[0][SEG_DATA] = data;
    end.net.rail_count = 1;
    end.net.rails[0].traits.max_bytes = SIZE_MAX;
    end.state.in_flight = end.state.touched_count = 0;
    for (size_t i = 0; i < sizeof local; i++)
        local[i] = (unsigned char)(i * 11 + 1);
    d.slabs_left = 8;
    d.known = true;
    d.drops = 0;
    d.ready = true;
    return 0;
}

static int shut_end(void **context)
{
    (void)context;
    d.ready = false;
    for (int i = 0; i < d.slabs; i++)
        free(d.slab[i]);
    end.net.rail_count = END_RAILS;
    end_shut(&end);
    return 0;
}

static weft_status write_bytes(void *from, size_t offset, size_t bytes)
{
    return net_write(&end.state, (struct remote){&to_peer, SEG_DATA, offset}, from, bytes);
}

static void all_done(void)
{
    for (int i = 0; i < end.access_count; i++)
        net_direct_done(&end.net, (struct net_direct *)(void *)end.accesses[i].post, true);
    end.access_count = 0;
}

/* ---------------------------------------------------------------------------------------- tests */

static void own_memory_is_found_by_its_segment(void **context)
{
    static const struct {
        size_t at; /* offset in the heap; from 1 << 40 on: in the data segment */
        size_t bytes, left;
        int segment; /* -1: in no segment */
        size_t chunk;
    } rows[] = {
        {0, 9 << 20, 9 << 20, SEG_HEAP, 0},
        {100, CHUNK, CHUNK - 100, SEG_HEAP, 0},
        {CHUNK, CHUNK, CHUNK, SEG_HEAP, 1},
        {CHUNK + 4999, 60, 60, SEG_HEAP, 1},
        {CHUNK + 5000, 60, 60, -1, 0},
        {(size_t)1 << 40, 50, 50, SEG_DATA, 0},
        {((size_t)1 << 40) + 99, 50, 50, SEG_DATA, 0},
        {((size_t)1 << 40) + 100, 50, 50, -1, 0},
    };
    (void)context;
    end.net.rails[0].traits.registers_local = true;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t bytes = rows[i].bytes;
        d.chunks = 0;
        void *found =
            net_get_host_descriptor(&end.net, &end.net.rails[0], heap + rows[i].at, &bytes);
        assert_ptr_equal(found, rows[i].segment < 0 ? NULL : &registered);
        assert_int_equal(d.chunks, rows[i].segment >= 0);
        assert_int_equal(bytes, rows[i].left);
        if (rows[i].segment >= 0) {
            assert_int_equal(d.segment, rows[i].segment);
            assert_int_equal(d.chunk, rows[i].chunk);
        }
    }
    size_t bytes = 8;
    assert_null(net_get_host_descriptor(&end.net, &end.net.rails[0], (void *)64,
                                        &bytes)); /* a segment that is not mapped */
    d.unregistered = true;
    assert_null(net_get_host_descriptor(&end.net, &end.net.rails[0], heap, &bytes));
}

static void registered_memory_is_used_in_place(void **context)
{
    (void)context;
    end.net.rails[0].traits.registers_local = true;
    assert_int_equal(write_bytes(heap + CHUNK - 300, 0, 1000), WEFT_OK);
    assert_int_equal(end.access_count, 2);
    assert_int_equal(d.slabs, 1); /* slab of operations */
    assert_ptr_equal(end.accesses[0].local, heap + CHUNK - 300);
    assert_int_equal(end.accesses[0].bytes, 300);
    assert_int_equal(end.accesses[0].address, 9000);
    assert_int_equal(end.accesses[0].to, end_address(1, 0));
    assert_ptr_equal(end.accesses[1].local, heap + CHUNK);
    assert_int_equal(end.accesses[1].address, 9300);
    all_done();
    assert_int_equal(d.drops, 2);
}

static void operations_and_copies_are_used_again(void **context)
{
    (void)context;
    for (int i = 0; i < 64; i++)
        assert_int_equal(write_bytes(local, 0, 10), WEFT_OK);
    assert_int_equal(d.slabs, 1);
    for (int i = 0; i < 64; i++)
        for (int k = 0; k < i; k++)
            assert_ptr_not_equal(end.accesses[i].post, end.accesses[k].post);
    all_done();
    assert_null(end.net.free_bounces);
    /* One slab holds eight copies. */
    end.net.rails[0].traits.registers_local = true;
    for (int again = 0; again < 2; again++) {
        for (int i = 0; i < 9; i++) {
            assert_int_equal(write_bytes(local + i, 0, 10), WEFT_OK);
            assert_memory_equal(end.accesses[i].local, local + i, 10);
            for (int k = 0; k < i; k++)
                assert_ptr_not_equal(end.accesses[i].local, end.accesses[k].local);
        }
        assert_int_equal(d.slabs, 3);
        all_done();
    }
    /* A copy buffer is filled to its last byte. */
    assert_int_equal(write_bytes(local, 0, COPY + 1), WEFT_OK);
    assert_int_equal(end.access_count, 2);
    assert_int_equal(end.accesses[0].bytes, COPY);
    assert_int_equal(end.accesses[1].bytes, 1);
    all_done();
    /* An operation that used a copy before now goes without one. */
    end.net.rails[0].traits.registers_local = false;
    assert_int_equal(write_bytes(local, 0, 10), WEFT_OK);
    assert_ptr_equal(end.accesses[0].local, local);
    struct net_bounce *before = end.net.free_bounces;
    all_done();
    assert_ptr_equal(end.net.free_bounces, before);
}

static void missing_memory_is_reported(void **context)
{
    (void)context;
    d.slabs_left = 0;
    assert_int_equal(write_bytes(local, 0, 10), WEFT_ERR_NO_MEMORY);
    assert_non_null(strstr(base_last_error(), "no private memory for an operation"));
    d.slabs_left = 1;
    end.net.rails[0].traits.registers_local = true;
    assert_int_equal(write_bytes(local, 0, 10), WEFT_ERR_NO_MEMORY);
    assert_non_null(strstr(base_last_error(), "no registered memory for a copy"));
    assert_int_equal(end.access_count, 0);
    assert_int_equal(end.state.in_flight, 0);
    struct net_direct *first = end.net.free_directs; /* the operation is back in the free list */
    d.slabs_left = 1;
    assert_int_equal(write_bytes(local, 0, 10), WEFT_OK);
    assert_ptr_equal(end.accesses[0].post, first);
    all_done();
}

static ssize_t full(struct net_end *at, int rail, bool write)
{
    (void)at, (void)rail, (void)write;
    return -FI_EAGAIN;
}

static void a_full_provider_is_waited_for(void **context)
{
    (void)context;
    end.refuse_access = full;
    d.wait_status = WEFT_ERR_TIMEOUT;
    assert_int_equal(write_bytes(local, 0, 10), WEFT_ERR_TIMEOUT);
    assert_int_equal(d.waits, 1);
    assert_int_equal(d.ends, 1);
    assert_int_equal(d.wait.operation, BOX_OP_PUT);
    assert_int_equal(d.wait.pe, 1);
    assert_int_equal(d.wait.expected, 0);
    assert_int_equal(d.put, 0);
    assert_int_equal(end.state.in_flight, 0);
    struct net_direct *first = end.net.free_directs;
    end.refuse_access = NULL;
    assert_int_equal(write_bytes(local, 0, 10), WEFT_OK);
    assert_ptr_equal(end.accesses[0].post, first);
    assert_int_equal(end.state.touched_count, 1);
    assert_int_equal(end.channels[1].writes, 1);
    assert_int_equal(d.ends, 2);
    all_done();
}

static void what_has_no_key_goes_by_requests(void **context)
{
    unsigned char back[20];
    (void)context;
    d.known = false;
    assert_int_equal(write_bytes(local, 2 * CHUNK - 4, 10), WEFT_OK);
    assert_int_equal(d.put, 10);
    assert_int_equal(d.asked_chunk, 2);
    assert_int_equal(
        net_read(&end.state, (struct remote){&to_peer, SEG_DATA, 0}, back, sizeof back), WEFT_OK);
    assert_int_equal(d.got, sizeof back);
    d.known = true;
    end.net.rails[0].endpoint = NULL;
    assert_int_equal(write_bytes(local, 0, 10), WEFT_OK);
    assert_int_equal(d.put, 20);
    end.net.rails[0].endpoint = &end.endpoints[0];
    d.chunk_status = WEFT_ERR_PEER_DEAD;
    assert_int_equal(write_bytes(local, CHUNK - 4, 10), WEFT_ERR_PEER_DEAD);
    assert_int_equal(d.asked_chunk, 0); /* the next chunk is not queried */
    assert_int_equal(d.put, 20);
    assert_int_equal(end.access_count, 0);
    assert_int_equal(d.stripe_calls, 0);
}

static void several_nics_take_what_they_can(void **context)
{
    (void)context;
    end.net.rail_count = END_RAILS;
    d.striped = 400;
    assert_int_equal(write_bytes(local, 50, 1000), WEFT_OK);
    assert_int_equal(d.stripe_calls, 3);
    assert_int_equal(d.stripe_offset, 850);
    assert_int_equal(d.stripe_local, 800);
    assert_int_equal(end.access_count, 0);
    d.striped = 0; /* a side is not registered with the NICs */
    assert_int_equal(write_bytes(local, 50, 1000), WEFT_OK);
    assert_int_equal(d.stripe_calls, 4);
    assert_int_equal(end.access_count, 1);
    all_done();
    d.stripe_status = WEFT_ERR_TIMEOUT;
    assert_int_equal(write_bytes(local, 50, 1000), WEFT_ERR_TIMEOUT);
    assert_int_equal(d.stripe_calls, 5);
    assert_int_equal(end.access_count, 0);
    /* If only the first rail reaches the peer, only transfers of the striping size are checked. */
    d.stripe_status = WEFT_OK;
    end.net.rail_count = 1;
    assert_int_equal(write_bytes(local, 50, 1000), WEFT_OK);
    assert_int_equal(d.stripe_calls, 5);
    d.stripes = true;
    assert_int_equal(write_bytes(local, 50, 1000), WEFT_OK);
    assert_int_equal(d.stripe_calls, 6);
    d.stripes = false;
    peer->link.rail = 1;
    assert_int_equal(write_bytes(local, 50, 1000), WEFT_OK);
    assert_int_equal(d.stripe_calls, 7);
    peer->link.rail = 0;
    all_done();
}

#define test(name) cmocka_unit_test_setup_teardown(name, open_end, shut_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(own_memory_is_found_by_its_segment),   test(registered_memory_is_used_in_place),
        test(operations_and_copies_are_used_again), test(missing_memory_is_reported),
        test(a_full_provider_is_waited_for),        test(what_has_no_key_goes_by_requests),
        test(several_nics_take_what_they_can),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
