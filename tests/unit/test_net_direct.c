/* SPDX-License-Identifier: Apache-2.0 */
/* Shows that RMA operations of path net use messages if their NIC is closed while they wait for
 * space in the provider's queue (finding A11), and post nothing on the closed endpoint. Shows also
 * what they post if nothing fails. */
#include "path/net/stripe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BYTES = 100000, OFFSET = NET_CHUNK_BYTES - 30001 };

static struct fid_ep endpoint;
static int posts, waits, closes_at;
static struct posted {
    struct net_post *post;
    const void *local, *descriptor;
    uint64_t address, key;
    size_t bytes;
    bool write;
} posted[16];
static ssize_t (*access_now)(int number); /* what a post returns; NULL: -FI_EAGAIN */
static size_t put_bytes, got_bytes;
static void *slab, *slabs[4];
static int slab_count;

ssize_t __wrap_net_post_rma(struct net_rail *rail, struct net_post *post,
                            struct fi_msg_rma *message, bool write);
weft_status __wrap_net_wait(struct path_common *net, struct net_peer *peer, struct path_wait *wait);
weft_status __wrap_net_get_peer_key(struct net_state *state, struct net_peer *peer,
                                    enum segment_id segment, size_t chunk, struct net_key *key);
void *__wrap_net_alloc_slab(struct path_common *net, size_t bytes, void **descriptor);
weft_status __wrap_net_put_by_requests(struct net_state *state, struct remote to, const void *src,
                                       size_t bytes);
weft_status __wrap_net_get_by_requests(struct net_state *state, struct remote from, void *dst,
                                       size_t bytes);

ssize_t __wrap_net_post_rma(struct net_rail *rail, struct net_post *post,
                            struct fi_msg_rma *message, bool write)
{
    assert_non_null(rail->endpoint);
    if (posts < 16)
        posted[posts] = (struct posted){.post = post,
                                        .local = message->msg_iov->iov_base,
                                        .descriptor = message->desc[0],
                                        .address = message->rma_iov->addr,
                                        .key = message->rma_iov->key,
                                        .bytes = message->rma_iov->len,
                                        .write = write};
    posts++;
    return access_now ? access_now(posts) : -FI_EAGAIN;
}

weft_status __wrap_net_wait(struct path_common *net, struct net_peer *peer, struct path_wait *wait)
{
    (void)peer, (void)wait;
    if (++waits == closes_at)
        net->rails[0].endpoint = NULL;
    return WEFT_OK;
}

weft_status __wrap_net_get_peer_key(struct net_state *state, struct net_peer *peer,
                                    enum segment_id segment, size_t chunk, struct net_key *key)
{
    (void)state, (void)peer, (void)segment;
    *key = (struct net_key){.key = chunk + 77, .base = (uint64_t)(chunk + 1) << 40, .known = 1};
    return WEFT_OK;
}

void *__wrap_net_alloc_slab(struct path_common *net, size_t bytes, void **descriptor)
{
    (void)net;
    *descriptor = &slab;
    slabs[slab_count++] = slab = calloc(1, bytes);
    return slab;
}

weft_status __wrap_net_put_by_requests(struct net_state *state, struct remote to, const void *src,
                                       size_t bytes)
{
    (void)state;
    assert_int_equal(to.offset, OFFSET + put_bytes);
    assert_int_equal(((const unsigned char *)src)[0], (unsigned char)(put_bytes % 251));
    put_bytes += bytes;
    return WEFT_OK;
}

weft_status __wrap_net_get_by_requests(struct net_state *state, struct remote from, void *dst,
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
    struct net_state state = {.net = &net, .channels = channels, .touched = touched};
    struct peer peer = {.pe = 1, .state = (void *)&state, .world = &world};
    static unsigned char bytes[BYTES];
    (void)context;
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (unsigned char)(i % 251);
    net.rails[0].traits.max_bytes = 1 << 20;
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
        assert_int_equal(state.in_flight, 0);
        assert_int_equal(channels[1].writes + channels[1].reads, 0);
    }
    for (int i = 0; i < slab_count; i++)
        free(slabs[i]);
    slab_count = 0;
}

static ssize_t taken(int number)
{
    (void)number;
    return 0;
}

static ssize_t second_refused(int number)
{
    return number == 2 ? -FI_EINVAL : 0;
}

static ssize_t taken_after_a_wait(int number)
{
    return number % 2 ? -FI_EAGAIN : 0;
}

static const char *words(int error)
{
    return error == FI_EINVAL ? "it is wrong" : "?";
}

/* Accesses are cut at the ends of chunks and at the provider's maximum. Local memory that must be
 * registered and is not goes through registered copies. */
static void accesses_are_cut_and_counted(void **context)
{
    static char *map[2][SEG_COUNT];
    static unsigned char bytes[BYTES], back[BYTES];
    static char name[] = "lo";
    static struct fi_domain_attr domain = {.name = name};
    static struct fi_info info = {.domain_attr = &domain};
    static const struct fabric lib = {.strerror = words};
    struct path_world world = {.pe = 0, .npes = 2, .map = map, .wait_end = end_wait};
    struct net_peer peers[2] = {{.pe = 0}, {.pe = 1, .requests.last_sent = 4}};
    struct path_common net = {
        .world = &world, .lib = &lib, .provider = "tcp", .peers = peers, .rail_count = 1};
    struct net_channel channels[2] = {{0}};
    int touched[2];
    struct net_state state = {.net = &net, .channels = channels, .touched = touched};
    struct peer peer = {.pe = 1, .state = (void *)&state, .world = &world};
    struct remote at = {&peer, SEG_HEAP, OFFSET};
    (void)context;
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (unsigned char)(i % 251);
    net.rails[0].endpoint = &endpoint;
    net.rails[0].info = &info;
    net.rails[0].traits = (struct net_traits){.max_bytes = 40000, .delivery_complete = true};
    access_now = taken;
    closes_at = -1;
    posts = waits = 0;
    assert_int_equal(net_write(&state, at, bytes, BYTES), WEFT_OK);
    const size_t cuts[] = {30001, 40000, 29999};
    size_t offset = OFFSET, done = 0;
    assert_int_equal(posts, 3);
    for (int i = 0; i < 3; i++, offset += cuts[i - 1], done += cuts[i - 1]) {
        assert_int_equal(posted[i].bytes, cuts[i]);
        assert_ptr_equal(posted[i].local, bytes + done);
        assert_null(posted[i].descriptor);
        assert_int_equal(posted[i].key, 77 + offset / NET_CHUNK_BYTES);
        assert_int_equal(posted[i].address, ((uint64_t)(offset / NET_CHUNK_BYTES + 1) << 40) +
                                                offset % NET_CHUNK_BYTES);
        assert_true(posted[i].write);
        assert_int_equal(posted[i].post->kind, NET_POST_DIRECT);
    }
    assert_int_equal(channels[1].writes, 3);
    assert_int_equal(state.in_flight, 3);
    assert_int_equal(peers[1].link.directs, 3);
    assert_false(channels[1].unconfirmed);
    assert_int_equal(peers[1].link.unconfirmed_write, 0);
    for (int i = 0; i < 3; i++)
        net_direct_done(&net, (struct net_direct *)(void *)posted[i].post, true);
    assert_int_equal(channels[1].writes + state.in_flight + peers[1].link.directs, 0);
    /* Without delivery completion the next message confirms the write. A read needs no
     * confirmation. */
    net.rails[0].traits.delivery_complete = false;
    access_now = taken_after_a_wait;
    posts = waits = 0;
    net_read(&state, at, back, 100);
    assert_int_equal(posts, 2);
    assert_int_equal(waits, 1);
    assert_false(channels[1].unconfirmed);
    assert_int_equal(channels[1].reads, 1);
    assert_false(posted[1].write);
    net_direct_done(&net, (struct net_direct *)(void *)posted[1].post, true);
    posts = 0;
    net_write(&state, at, bytes, 100);
    assert_true(channels[1].unconfirmed);
    assert_int_equal(peers[1].link.unconfirmed_write, 5);
    net_direct_done(&net, (struct net_direct *)(void *)posted[1].post, true);
    /* Copies of 64 KiB. */
    net.rails[0].traits = (struct net_traits){.max_bytes = 1 << 20, .registers_local = true};
    access_now = taken;
    at.offset = 7;
    posts = 0;
    net_write(&state, at, bytes, BYTES);
    assert_int_equal(posts, 2);
    assert_int_equal(posted[0].bytes, 64 << 10);
    assert_int_equal(posted[1].bytes, BYTES - (64 << 10));
    assert_memory_equal(posted[0].local, bytes, 64 << 10);
    assert_memory_equal(posted[1].local, bytes + (64 << 10), BYTES - (64 << 10));
    assert_ptr_equal(posted[1].descriptor, &slab);
    const void *copies[] = {posted[0].local, posted[1].local};
    assert_ptr_not_equal(copies[0], copies[1]);
    for (int i = 0; i < 2; i++)
        net_direct_done(&net, (struct net_direct *)(void *)posted[i].post, true);
    posts = 0;
    net_read(&state, at, back, BYTES);
    assert_ptr_equal(posted[0].local, copies[1]); /* the copy that was freed last */
    memset((void *)(uintptr_t)posted[0].local, 0x11, 64 << 10);
    memset((void *)(uintptr_t)posted[1].local, 0x22, BYTES - (64 << 10));
    assert_int_equal(back[0], 0);
    net_direct_done(&net, (struct net_direct *)(void *)posted[0].post, true);
    net_direct_done(&net, (struct net_direct *)(void *)posted[1].post, false); /* it has failed */
    assert_int_equal(back[0], 0x11);
    assert_int_equal(back[(64 << 10) - 1], 0x11);
    assert_int_equal(back[64 << 10], 0);
    /* An error of the provider makes the peer fail, and the rest of the write is not posted. */
    net.rails[0].traits.registers_local = false;
    net.rails[0].traits.max_bytes = 1000;
    access_now = second_refused;
    posts = 0;
    peers[1].launcher_queried = true;
    assert_int_equal(net_write(&state, at, bytes, 5000), WEFT_ERR_PATH);
    assert_int_equal(posts, 2);
    assert_string_equal(peers[1].sentence, "fi_writemsg: it is wrong (provider tcp on lo)");
    assert_int_equal(channels[1].writes, 1);
    net_direct_done(&net, (struct net_direct *)(void *)posted[0].post, true);
    access_now = NULL;
    for (int i = 0; i < slab_count; i++)
        free(slabs[i]);
    slab_count = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(closes_amid_a_wait),
                                       cmocka_unit_test(accesses_are_cut_and_counted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
