/* SPDX-License-Identifier: Apache-2.0 */
/* Remote accesses of path net whose NIC is closed while they wait for room in the provider's queue
 * (finding A11): they go by messages, and nothing is posted on the closed endpoint. */
#include "path/net_stripe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BYTES = 100000, OFFSET = NET_CHUNK_BYTES - 30001 };

static struct fid_ep endpoint;
static int posts, waits, closes_at;
static size_t put_bytes, got_bytes;
static void *slab;

ssize_t __wrap_net_access(struct net_rail *rail, struct net_post *post, struct fi_msg_rma *message,
                          bool write);
weft_status __wrap_net_wait(struct path_common *net, struct net_peer *peer, struct path_wait *wait);
weft_status __wrap_net_peer_chunk(struct path_state *state, struct net_peer *peer,
                                  enum segment_id segment, size_t chunk, struct net_key *key);
void *__wrap_net_slab(struct path_common *net, size_t bytes, void **descriptor);
weft_status __wrap_net_put_by_requests(struct path_state *state, struct remote to, const void *src,
                                       size_t bytes);
weft_status __wrap_net_get_by_requests(struct path_state *state, struct remote from, void *dst,
                                       size_t bytes);

ssize_t __wrap_net_access(struct net_rail *rail, struct net_post *post, struct fi_msg_rma *message,
                          bool write)
{
    (void)post, (void)message, (void)write;
    assert_non_null(rail->endpoint);
    posts++;
    return -FI_EAGAIN;
}

weft_status __wrap_net_wait(struct path_common *net, struct net_peer *peer, struct path_wait *wait)
{
    (void)peer, (void)wait;
    if (++waits == closes_at)
        net->rails[0].endpoint = NULL;
    return WEFT_OK;
}

weft_status __wrap_net_peer_chunk(struct path_state *state, struct net_peer *peer,
                                  enum segment_id segment, size_t chunk, struct net_key *key)
{
    (void)state, (void)peer, (void)segment;
    *key = (struct net_key){.key = chunk + 77, .known = 1};
    return WEFT_OK;
}

void *__wrap_net_slab(struct path_common *net, size_t bytes, void **descriptor)
{
    (void)net;
    *descriptor = NULL;
    return slab = calloc(1, bytes);
}

weft_status __wrap_net_put_by_requests(struct path_state *state, struct remote to, const void *src,
                                       size_t bytes)
{
    (void)state;
    assert_int_equal(to.offset, OFFSET + put_bytes);
    assert_int_equal(((const unsigned char *)src)[0], (unsigned char)(put_bytes % 251));
    put_bytes += bytes;
    return WEFT_OK;
}

weft_status __wrap_net_get_by_requests(struct path_state *state, struct remote from, void *dst,
                                       size_t bytes)
{
    (void)state, (void)dst;
    assert_int_equal(from.offset, OFFSET + got_bytes);
    got_bytes += bytes;
    return WEFT_OK;
}

static void end_wait(struct path_wait *wait)
{
    (void)wait;
}

static void closes_amid_a_wait(void **context)
{
    struct path_world world = {.pe = 0, .npes = 2, .wait_end = end_wait};
    struct net_peer peers[2] = {{.pe = 0}, {.pe = 1}};
    struct path_common net = {.world = &world, .peers = peers, .rail_count = 1};
    struct net_channel channels[2] = {{0}};
    int touched[2];
    struct path_state state = {.net = &net, .channels = channels, .touched = touched};
    struct peer peer = {.pe = 1, .state = &state, .world = &world};
    static unsigned char bytes[BYTES];
    (void)context;
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (unsigned char)(i % 251);
    net.rails[0].traits.most = 1 << 20;
    for (closes_at = 1; closes_at <= 3; closes_at++) {
        net.rails[0].endpoint = &endpoint;
        posts = waits = 0;
        put_bytes = got_bytes = 0;
        assert_int_equal(net_write(&state, (struct remote){&peer, SEG_HEAP, OFFSET}, bytes, BYTES),
                         WEFT_OK);
        assert_int_equal(posts, closes_at);
        assert_int_equal(put_bytes, BYTES);
        net.rails[0].endpoint = &endpoint;
        posts = waits = 0;
        assert_int_equal(net_read(&state, (struct remote){&peer, SEG_HEAP, OFFSET}, bytes, BYTES),
                         WEFT_OK);
        assert_int_equal(posts, closes_at);
        assert_int_equal(got_bytes, BYTES);
        assert_int_equal(state.under_way, 0);
        assert_int_equal(channels[1].writes + channels[1].reads, 0);
    }
    free(slab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(closes_amid_a_wait)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
