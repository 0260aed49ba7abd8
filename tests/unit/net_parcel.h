/* SPDX-License-Identifier: Apache-2.0 */
/* A peer of one end of path net with slots for three staged fragments. Doubles log the copies of
 * the GPU and make none. For tests of stage.c. */
#ifndef WEFT_TESTS_NET_PARCEL_H
#define WEFT_TESTS_NET_PARCEL_H

#include "unit/net_end.h"

#include "base/status.h"
#include "gpu/gpu.h"
#include "path/net/stage.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { SLOTS = 3, SLOT_BYTES = 96, ADDRESS = 70000, KEY = 31 };

static const uint8_t key[SIPHASH_KEY_BYTES] = {8, 1, 3, 2, 7};
static struct net_end end;
static struct net_peer *peer;
static struct net_channel *channel;
static struct net_stage *stage;
static _Alignas(8) unsigned char lots[(SLOTS + 1) * SLOT_BYTES], local[1000];
static char gpu_here; /* its address stands for this PE's GPU */
static void *descriptors[NET_RAILS];

/* -------------------------------------------------------------------------------------- doubles */

static struct copy {
    unsigned lane;
    const void *to, *from;
    size_t bytes;
} copies[16];
static int copy_count, marks_put, marks_dropped, quiets, flushes, drops;
static weft_status copy_status, mark_status, passed_status, flush_status;
static bool passed;

weft_status __wrap_gpu_copy(struct gpu *gpu, unsigned lane, void *to, const void *from,
                            size_t bytes, enum gpu_copy_mode manner);
weft_status __wrap_gpu_copy(struct gpu *gpu, unsigned lane, void *to, const void *from,
                            size_t bytes, enum gpu_copy_mode manner)
{
    assert_ptr_equal(gpu, &gpu_here);
    assert_int_equal(manner, GPU_IN_ORDER);
    assert_true(copy_count < 16);
    copies[copy_count++] = (struct copy){lane, to, from, bytes};
    return copy_status ? base_fail(copy_status, "no copy") : WEFT_OK;
}

weft_status __wrap_gpu_event_record(struct gpu *gpu, unsigned lane, struct gpu_event **mark);
weft_status __wrap_gpu_event_record(struct gpu *gpu, unsigned lane, struct gpu_event **mark)
{
    assert_ptr_equal(gpu, &gpu_here);
    assert_int_equal(lane, copies[copy_count - 1].lane);
    assert_null(*mark);
    if (mark_status)
        return base_fail(mark_status, "no mark");
    marks_put++;
    *mark = (struct gpu_event *)&gpu_here;
    return WEFT_OK;
}

weft_status __wrap_gpu_event_query(struct gpu *gpu, struct gpu_event **mark);
weft_status __wrap_gpu_event_query(struct gpu *gpu, struct gpu_event **mark)
{
    assert_ptr_equal(gpu, &gpu_here);
    assert_non_null(*mark);
    if (passed)
        *mark = NULL;
    return passed_status ? base_fail(passed_status, "the copy has failed") : WEFT_OK;
}

void __wrap_gpu_event_release(struct gpu *gpu, struct gpu_event **mark);
void __wrap_gpu_event_release(struct gpu *gpu, struct gpu_event **mark)
{
    (void)gpu;
    marks_dropped += *mark != NULL;
    *mark = NULL;
}

weft_status __wrap_gpu_quiet(struct gpu *gpu);
weft_status __wrap_gpu_quiet(struct gpu *gpu)
{
    assert_ptr_equal(gpu, &gpu_here);
    quiets++;
    return WEFT_OK;
}

weft_status __wrap_net_flush_gpu(struct path_common *net);
weft_status __wrap_net_flush_gpu(struct path_common *net)
{
    assert_ptr_equal(net, &end.net);
    flushes++;
    return flush_status ? base_fail(flush_status, "no flush") : WEFT_OK;
}

void __wrap_net_drop_state(struct net_state *state);
void __wrap_net_drop_state(struct net_state *state)
{
    assert_ptr_equal(state, &end.state);
    drops++;
}

static struct net_transfer transfer;
static struct net_state *transfer_of;
static int transfers;
static weft_status transfer_status;

weft_status __wrap_net_stripe_staged(struct net_state *state, const struct net_transfer *wanted,
                                     uint32_t *fragments);
weft_status __wrap_net_stripe_staged(struct net_state *state, const struct net_transfer *wanted,
                                     uint32_t *fragments)
{
    transfer = *wanted;
    transfer_of = state;
    transfers++;
    *fragments = transfer_status ? 0 : 2;
    return transfer_status ? base_fail(transfer_status, "no transfer") : WEFT_OK;
}

static bool lots_ready;
static weft_status lots_status;
static int lots_asked;

weft_status __wrap_net_stage_use_slots(struct path_common *net,
                                       struct net_staged_fragment *fragment, bool *ready);
weft_status __wrap_net_stage_use_slots(struct path_common *net,
                                       struct net_staged_fragment *fragment, bool *ready)
{
    assert_ptr_equal(net, &end.net);
    lots_asked++;
    *ready = lots_ready;
    if (lots_ready)
        fragment->uses_local_slot = fragment->uses_peer_slot = true;
    return lots_status ? base_fail(lots_status, "no lots") : WEFT_OK;
}

static int forgotten;

void __wrap_net_stage_cancel_query(struct path_common *net, struct net_peer *of);
void __wrap_net_stage_cancel_query(struct path_common *net, struct net_peer *of)
{
    assert_ptr_equal(net, &end.net);
    assert_ptr_equal(of, peer);
    forgotten++;
}

/* Control record that notifies the owner of a fragment. */
static struct word {
    struct net_head head;
    struct net_record record;
    struct net_slot lot;
} words[16];
static int word_count;

static void look(struct net_end *at, const unsigned char *bytes, size_t count)
{
    (void)at;
    assert_true(word_count < 16);
    assert_int_equal(count, sizeof words[0]);
    memcpy(&words[word_count++], bytes, count);
}

/* --------------------------------------------------------------------------------------- set-up */

static int open_end(void **context)
{
    (void)context;
    end_open_idle(&end, key);
    end.look = look;
    end.world.gpu = (struct gpu *)(void *)&gpu_here;
    end.net.staging.slot_count = SLOTS;
    end.net.staging.slot_bytes = SLOT_BYTES;
    end.state.in_flight = end.state.touched_count = 0;
    peer = &end.peers[1];
    channel = &end.channels[1];
    peer->stage = stage = calloc(1, sizeof *stage);
    assert_non_null(stage);
    /* One fragment more, which must stay unused. */
    stage->fragments = calloc(SLOTS + 1, sizeof *stage->fragments);
    assert_non_null(stage->fragments);
    stage->fragments[SLOTS].in_flight = true;
    stage->peer = peer;
    stage->slots = lots;
    stage->slot_descriptors = descriptors;
    for (size_t i = 0; i < sizeof local; i++)
        local[i] = (unsigned char)(i * 3 + 5);
    memset(lots, 0, sizeof lots);
    copy_count = marks_put = marks_dropped = quiets = flushes = drops = 0;
    transfers = lots_asked = forgotten = word_count = 0;
    copy_status = mark_status = passed_status = flush_status = WEFT_OK;
    transfer_status = lots_status = WEFT_OK;
    passed = lots_ready = false;
    return 0;
}

static int shut_end(void **context)
{
    (void)context;
    end.world.gpu = NULL;
    end_shut(&end);
    return 0;
}

enum { WRITE = 1, HERE = 2, THERE = 4, DEVICE = 8, SURE = 16, PROOF = 32, SPREAD = 64 };

/* Begins a fragment of `bytes` bytes at offset 240 of the peer's segment, and takes its first
 * steps. */
static struct net_staged_fragment *begin(int what, enum segment_id segment, size_t bytes)
{
    struct net_staged_fragment fragment = {.post = {.kind = NET_POST_STAGED, .peer = peer},
                                           .write = what & WRITE,
                                           .uses_local_slot = what & HERE,
                                           .uses_peer_slot = what & THERE,
                                           .local_is_gpu = what & DEVICE,
                                           .retransmittable = what & SURE,
                                           .proof = what & PROOF,
                                           .spread = what & SPREAD,
                                           .remote = {.segment = segment, .offset = 240},
                                           .bytes = bytes};
    for (int i = 0; i < NET_RAILS; i++)
        fragment.ends.keys[i] = (struct net_key){
            .key = KEY + (uint64_t)i, .base = ADDRESS + 1000 * (uint64_t)i, .known = 1};
    fragment.ends.descriptors[1] = local;
    int before = end.access_count + copy_count + word_count;
    net_stage_begin(&end.state, &fragment, (char *)local + 16);
    assert_int_equal(end.access_count + copy_count + word_count, before);
    net_stage_advance(&end.net);
    assert_ptr_equal(stage->fragments[(stage->last_begun - 1) % SLOTS].ends.descriptors[1], local);
    return &stage->fragments[(stage->last_begun - 1) % SLOTS];
}

/* Completes the access that was posted last. */
static void access_done(void)
{
    net_stage_completed(&end.net, end.accesses[end.access_count - 1].post, true);
}

static void assert_counts(uint32_t staging, uint32_t filling, uint32_t writes, uint32_t reads)
{
    assert_int_equal(channel->unnotified, staging);
    assert_int_equal(channel->sources_in_use, filling);
    assert_int_equal(channel->writes, writes);
    assert_int_equal(channel->reads, reads);
}

static void assert_notification(int number, enum net_kind kind, uint64_t token, size_t offset,
                                size_t bytes)
{
    const struct word *word = &words[number];
    assert_int_equal(word->record.kind, kind);
    assert_int_equal(word->record.segment, SEG_GPU);
    assert_int_equal(word->record.offset, offset);
    assert_int_equal(word->lot.token, token);
    assert_int_equal(word->lot.offset, (token - 1) % SLOTS * SLOT_BYTES);
    assert_int_equal(word->lot.bytes, bytes);
    assert_int_equal(word->head.flags & NET_ACK_REQUEST,
                     kind == NET_SLOT_PUT ? NET_ACK_REQUEST : 0);
}

static void assert_idle(int ended)
{
    assert_counts(0, 0, 0, 0);
    assert_int_equal(end.state.in_flight, 0);
    assert_int_equal(drops, ended);
    assert_int_equal(stage->last_retired, stage->last_begun);
    assert_false(stage->active);
    assert_null(end.net.staging.active);
    assert_false(net_stage_advance(&end.net));
}

#define test(name) cmocka_unit_test_setup_teardown(name, open_end, shut_end)

#endif
