/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers of GPU memory between one end of path net and PE 1. Doubles stand for keys,
 * registrations, copies, requests and waits, and log the fragments that begin. For tests of
 * stage_begin.c. */
#ifndef WEFT_TESTS_NET_TRANSFER_H
#define WEFT_TESTS_NET_TRANSFER_H

#include "unit/net_end.h"

#include "base/config.h"
#include "base/status.h"
#include "gpu/gpu.h"
#include "path/net/stage.h"
#include "unit/callocs.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { KIB = 1024, SLOT_BYTES = 128 * KIB, SLOTS = 3, CHUNK = NET_CHUNK_BYTES };

static const uint8_t key[SIPHASH_KEY_BYTES] = {6, 2, 8};
static struct net_end end;
static struct net_peer *peer;
/* Their addresses stand for a GPU, memory and slots. */
static char gpu_here, local[64], slab_of[16];

/* -------------------------------------------------------------------------------------- doubles */

static struct {
    struct net_staged_fragment begun[16];
    int begun_count, taken_at_a_time;
    /* GPU memory of the peer: bit per rail that reaches it, and bytes up to its end. */
    unsigned place_known;
    size_t place_bytes, room_below; /* no NIC reaches memory below this offset */
    weft_status place_status;
    unsigned local_rails; /* bit per rail: GPU memory of this PE is registered */
    size_t local_bytes;
    unsigned own_rails; /* bit per rail: host memory of this PE is registered */
    int slabs;
    bool slab_fails;
    int asked;
    unsigned room_known; /* bit per rail of the peer: its staging buffer is registered */
    weft_status ask_status, chunk_status, rail_keys_status;
    int chunk_asked, rail_keys_asked;
    size_t asked_chunk, rail_keys_chunk;
    weft_status copy_status, request_status;
    void *host;
    size_t request_bytes[4];
    int copies, puts, gets, mallocs, frees_of_host;
    bool malloc_fails;
    int waits, wait_ends, advances;
    weft_status wait_status;
    struct path_wait wait;
    bool spreads, answer_came;
    weft_status answer_status, await_status;
    int forgotten, cancelled;
    size_t spread_bytes;
} d;

static void *slab_descriptors[NET_RAILS];

void __wrap_net_stage_begin(struct net_state *state, const struct net_staged_fragment *fragment,
                            void *from);
void __wrap_net_stage_begin(struct net_state *state, const struct net_staged_fragment *fragment,
                            void *from)
{
    assert_ptr_equal(state, &end.state);
    assert_true(d.begun_count < 16);
    d.begun[d.begun_count] = *fragment;
    d.begun[d.begun_count++].local = from;
    peer->stage->last_begun++;
    peer->stage->last_retired += !d.taken_at_a_time;
}

weft_status __wrap_net_get_gpu_keys(struct net_state *state, struct net_peer *of, size_t offset,
                                    size_t *bytes, struct net_key keys[NET_RAILS]);
weft_status __wrap_net_get_gpu_keys(struct net_state *state, struct net_peer *of, size_t offset,
                                    size_t *bytes, struct net_key keys[NET_RAILS])
{
    assert_ptr_equal(state, &end.state);
    assert_ptr_equal(of, peer);
    for (int i = 0; i < NET_RAILS; i++)
        keys[i] = (struct net_key){.key = 60 + (uint64_t)i,
                                   .base = 100000 + offset,
                                   .known = offset >= d.room_below && d.place_known >> i & 1};
    if (d.place_known && *bytes > d.place_bytes)
        *bytes = d.place_bytes;
    return d.place_status ? base_fail(d.place_status, "no place") : WEFT_OK;
}

bool __wrap_net_get_gpu_descriptors(struct path_common *net, const void *at, size_t *bytes,
                                    void *descriptors[NET_RAILS]);
bool __wrap_net_get_gpu_descriptors(struct path_common *net, const void *at, size_t *bytes,
                                    void *descriptors[NET_RAILS])
{
    assert_ptr_equal(net, &end.net);
    assert_true((const char *)at >= local);
    for (int i = 0; i < NET_RAILS; i++)
        descriptors[i] = d.local_rails >> i & 1 ? &local[i] : NULL;
    if (*bytes > d.local_bytes)
        *bytes = d.local_bytes;
    return d.local_rails;
}

void *__wrap_net_get_host_descriptor(struct path_common *net, struct net_rail *rail, const void *at,
                                     size_t *bytes);
void *__wrap_net_get_host_descriptor(struct path_common *net, struct net_rail *rail, const void *at,
                                     size_t *bytes)
{
    int number = (int)(rail - net->rails);
    assert_ptr_equal(net, &end.net);
    assert_true((const char *)at >= local);
    assert_true(number >= 0 && number < END_RAILS);
    if (!rail->endpoint || !rail->traits.registers_local)
        return NULL;
    if (*bytes > d.local_bytes)
        *bytes = d.local_bytes;
    return d.own_rails >> number & 1 ? &local[number] : NULL;
}

void *__wrap_net_alloc_pinned_slab(struct path_common *net, size_t bytes,
                                   void *const **descriptors);
void *__wrap_net_alloc_pinned_slab(struct path_common *net, size_t bytes, void *const **descriptors)
{
    assert_int_equal(bytes, net->staging.slot_count * net->staging.slot_bytes);
    d.slabs++;
    *descriptors = slab_descriptors;
    return d.slab_fails ? NULL : slab_of;
}

static struct net_key buffer_key(int rail)
{
    return (struct net_key){.key = 50 + (uint64_t)rail,
                            .base = 9000 + 100 * (uint64_t)rail,
                            .known = d.room_known >> rail & 1};
}

weft_status __wrap_net_send_query(struct net_state *state, struct net_peer *of,
                                  const struct net_record *question, uint32_t wanted, void *to,
                                  size_t bytes, bool nbi);
weft_status __wrap_net_send_query(struct net_state *state, struct net_peer *of,
                                  const struct net_record *question, uint32_t wanted, void *to,
                                  size_t bytes, bool nbi)
{
    struct net_key keys[NET_RAILS];
    assert_ptr_equal(state, &end.state);
    assert_ptr_equal(of, peer);
    assert_int_equal(question->kind, NET_STAGING_BUFFER);
    assert_int_equal(wanted, SLOTS * SLOT_BYTES);
    assert_int_equal(bytes, sizeof keys);
    assert_false(nbi);
    for (int i = 0; i < NET_RAILS; i++)
        keys[i] = buffer_key(i);
    memcpy(to, keys, sizeof keys);
    d.asked++;
    return d.ask_status ? base_fail(d.ask_status, "no answer") : WEFT_OK;
}

weft_status __wrap_net_get_peer_key(struct net_state *state, struct net_peer *of,
                                    enum segment_id segment, size_t chunk, struct net_key *found);
weft_status __wrap_net_get_peer_key(struct net_state *state, struct net_peer *of,
                                    enum segment_id segment, size_t chunk, struct net_key *found)
{
    assert_ptr_equal(state, &end.state);
    assert_ptr_equal(of, peer);
    assert_int_equal(segment, SEG_HEAP);
    d.asked_chunk = chunk;
    d.chunk_asked++;
    *found = (struct net_key){.key = 70, .base = 200000, .known = 1};
    return d.chunk_status ? base_fail(d.chunk_status, "no chunk") : WEFT_OK;
}

weft_status __wrap_net_get_peer_rail_keys(struct net_state *state, struct net_peer *of,
                                          enum segment_id segment, size_t chunk,
                                          const struct net_key **found);
weft_status __wrap_net_get_peer_rail_keys(struct net_state *state, struct net_peer *of,
                                          enum segment_id segment, size_t chunk,
                                          const struct net_key **found)
{
    static struct net_key keys[NET_RAILS];
    assert_ptr_equal(state, &end.state);
    assert_ptr_equal(of, peer);
    assert_int_equal(segment, SEG_HEAP);
    d.rail_keys_chunk = chunk;
    for (int i = 0; i < NET_RAILS; i++)
        keys[i] = (struct net_key){.key = 80 + (uint64_t)i, .base = 300000, .known = 1};
    *found = keys;
    d.rail_keys_asked++;
    return d.rail_keys_status ? base_fail(d.rail_keys_status, "no keys") : WEFT_OK;
}

weft_status __wrap_gpu_copy(struct gpu *gpu, unsigned lane, void *to, const void *from,
                            size_t bytes, enum gpu_copy_mode manner);
weft_status __wrap_gpu_copy(struct gpu *gpu, unsigned lane, void *to, const void *from,
                            size_t bytes, enum gpu_copy_mode manner)
{
    bool back = to == local;
    assert_ptr_equal(gpu, &gpu_here);
    assert_int_equal(lane, 2);
    assert_int_equal(manner, GPU_DONE);
    assert_int_equal(bytes, 3000);
    assert_ptr_equal(back ? from : to, d.host);
    assert_ptr_equal(back ? to : from, local);
    assert_int_equal(back, d.gets);
    d.copies++;
    return d.copy_status ? base_fail(d.copy_status, "no copy") : WEFT_OK;
}

static weft_status by_request(struct remote at, const void *with, size_t bytes)
{
    assert_int_equal(at.peer->pe, 1);
    assert_ptr_equal(with, d.host ? d.host : local);
    assert_int_equal(at.offset, 600);
    assert_int_equal(bytes, 3000);
    return d.request_status ? base_fail(d.request_status, "no request") : WEFT_OK;
}

weft_status __wrap_net_put_by_requests(struct net_state *state, struct remote to, const void *src,
                                       size_t bytes);
weft_status __wrap_net_put_by_requests(struct net_state *state, struct remote to, const void *src,
                                       size_t bytes)
{
    assert_ptr_equal(state, &end.state);
    d.puts++;
    return by_request(to, src, bytes);
}

weft_status __wrap_net_get_by_requests(struct net_state *state, struct remote from, void *dst,
                                       size_t bytes);
weft_status __wrap_net_get_by_requests(struct net_state *state, struct remote from, void *dst,
                                       size_t bytes)
{
    assert_ptr_equal(state, &end.state);
    d.gets++;
    return by_request(from, dst, bytes);
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    if (bytes != 3000)
        return __real_malloc(bytes);
    d.mallocs++;
    return d.host = d.malloc_fails ? NULL : __real_calloc(1, bytes);
}

weft_status __wrap_net_wait(struct path_common *net, struct net_peer *of, struct path_wait *wait);
weft_status __wrap_net_wait(struct path_common *net, struct net_peer *of, struct path_wait *wait)
{
    assert_ptr_equal(net, &end.net);
    assert_ptr_equal(of, peer);
    d.wait = *wait;
    d.waits++;
    if (d.waits == 2)
        peer->stage->last_retired++;
    return d.wait_status ? base_fail(d.wait_status, "no time") : WEFT_OK;
}

static void count_end(struct path_wait *wait)
{
    (void)wait;
    d.wait_ends++;
}

bool __wrap_net_is_striped(const struct path_common *net, const struct net_peer *of, size_t bytes);
bool __wrap_net_is_striped(const struct path_common *net, const struct net_peer *of, size_t bytes)
{
    assert_ptr_equal(net, &end.net);
    assert_ptr_equal(of, peer);
    d.spread_bytes = bytes;
    return d.spreads;
}

void __wrap_net_stripe_advance(struct path_common *net);
void __wrap_net_stripe_advance(struct path_common *net)
{
    assert_ptr_equal(net, &end.net);
    d.advances++;
}

enum { TOKEN = 4711 };

weft_status __wrap_net_new_answer_token(struct net_state *state, struct net_peer *of, void *to,
                                        size_t bytes, uint64_t *token);
weft_status __real_net_new_answer_token(struct net_state *state, struct net_peer *of, void *to,
                                        size_t bytes, uint64_t *token);
weft_status __wrap_net_new_answer_token(struct net_state *state, struct net_peer *of, void *to,
                                        size_t bytes, uint64_t *token)
{
    if (!of->stage)
        return __real_net_new_answer_token(state, of, to, bytes, token);
    assert_ptr_equal(to, of->stage->peer_buffer_answer);
    assert_int_equal(bytes, sizeof of->stage->peer_buffer_answer);
    *token = d.await_status ? 0 : TOKEN;
    return d.await_status ? base_fail(d.await_status, "no token") : WEFT_OK;
}

bool __wrap_net_poll_answer(struct path_common *net, uint64_t token, weft_status *status);
bool __wrap_net_poll_answer(struct path_common *net, uint64_t token, weft_status *status)
{
    assert_ptr_equal(net, &end.net);
    assert_int_equal(token, TOKEN);
    if (d.answer_came)
        *status = d.answer_status;
    return d.answer_came;
}

void __wrap_net_detach_answer(struct path_common *net, uint64_t token);
void __wrap_net_detach_answer(struct path_common *net, uint64_t token)
{
    assert_ptr_equal(net, &end.net);
    assert_int_equal(token, TOKEN);
    d.forgotten++;
}

void __wrap_net_cancel_answer(struct path_common *net, uint64_t token);
void __real_net_cancel_answer(struct path_common *net, uint64_t token);
void __wrap_net_cancel_answer(struct path_common *net, uint64_t token)
{
    if (token != TOKEN) {
        __real_net_cancel_answer(net, token);
        return;
    }
    d.cancelled++;
}

/* --------------------------------------------------------------------------------------- set-up */

static int open_end(void **context)
{
    (void)context;
    setenv("WEFT_TEST_NET_SLOT_SIZE", "128K", 1);
    setenv("WEFT_TEST_NET_SLOTS", "3", 1);
    config_reset();
    memset(&d, 0, sizeof d);
    end_open_idle(&end, key);
    end.world.gpu = (struct gpu *)(void *)&gpu_here;
    end.world.wait_end = count_end;
    peer = &end.peers[1];
    peer->gpu.access = NET_GPU_DIRECT;
    peer->gpu.rails = 7;
    d.place_bytes = d.local_bytes = SIZE_MAX;
    d.place_known = d.local_rails = d.own_rails = d.room_known = 7;
    for (int i = 0; i < NET_RAILS; i++)
        slab_descriptors[i] = &slab_of[i];
    for (int i = 0; i <= END_RAILS; i++) {
        end.net.rails[i].traits.max_bytes = SIZE_MAX;
        end.net.rails[i].traits.registers_local = true;
    }
    return 0;
}

static int shut_end(void **context)
{
    (void)context;
    end.world.gpu = NULL;
    end_shut(&end);
    unsetenv("WEFT_TEST_NET_SLOT_SIZE");
    unsetenv("WEFT_TEST_NET_SLOTS");
    config_reset();
    return 0;
}

enum { WRITE = 1, DEVICE = 2 };

/* Transfers `bytes` bytes at `offset` of a segment of PE 1. */
static weft_status move(int what, enum segment_id segment, size_t offset, size_t bytes)
{
    struct peer at = {.pe = 1};
    d.begun_count = 0;
    return net_stage_transfer(&end.state, (struct remote){&at, segment, offset}, local, bytes,
                              what & DEVICE, what & WRITE);
}

#define test(name) cmocka_unit_test_setup_teardown(name, open_end, shut_end)

#endif
