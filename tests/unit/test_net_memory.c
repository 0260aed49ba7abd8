/* SPDX-License-Identifier: Apache-2.0 */
/* Shows what path net registers with the first NIC and what it allocates: chunks of segments,
 * memory for messages, pinned memory, staging buffers of peers. Shows also which keys it queries
 * from peers, and that all memory is freed once. */
#include "unit/callocs.h"
#include "unit/net_end.h"

#include "base/status.h"
#include "gpu/gpu.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { CHUNK = NET_CHUNK_BYTES, LAST = 5000, HEAP = 2 * CHUNK + LAST };
enum {
    OWN = FI_SEND | FI_RECV | FI_READ | FI_WRITE,
    SEGMENT = FI_REMOTE_READ | FI_REMOTE_WRITE | FI_READ | FI_WRITE,
};

static const uint8_t key[SIPHASH_KEY_BYTES] = {9, 9, 1};
static struct net_end end;
static struct net_peer *peer;
static char gpu_here; /* its address stands for a GPU */
static char *const heap = (char *)0x700000000000, *const data = (char *)0x710000000000;

/* -------------------------------------------------------------------------------------- doubles */

static int blocks_before;
static int maps, unmaps, pins, unpins, advices, maps_left;
static weft_status pin_status;
static struct {
    void *at;
    size_t bytes;
} mapped[16], pinned[16];

void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if (!maps_left)
        return MAP_FAILED;
    maps_left--;
    void *made = __real_mmap(at, bytes, protection, flags, fd, offset);
    mapped[maps].at = made;
    mapped[maps++].bytes = bytes;
    return made;
}

int __real_munmap(void *at, size_t bytes);
int __wrap_munmap(void *at, size_t bytes);
int __wrap_munmap(void *at, size_t bytes)
{
    for (int i = 0; i < maps; i++)
        if (mapped[i].at == at) {
            assert_int_equal(mapped[i].bytes, bytes);
            mapped[i].at = NULL;
            unmaps++;
        }
    return __real_munmap(at, bytes);
}

int __wrap_madvise(void *at, size_t bytes, int advice);
int __wrap_madvise(void *at, size_t bytes, int advice)
{
    assert_ptr_equal(at, mapped[maps - 1].at);
    assert_int_equal(bytes, mapped[maps - 1].bytes);
    assert_int_equal(advice, MADV_HUGEPAGE);
    assert_int_equal(pins, advices); /* huge pages are advised before the memory is pinned */
    advices++;
    return 0;
}

weft_status __wrap_gpu_pin_range(struct gpu *gpu, void *at, size_t bytes);
weft_status __wrap_gpu_pin_range(struct gpu *gpu, void *at, size_t bytes)
{
    assert_ptr_equal(gpu, &gpu_here);
    pinned[pins].at = at;
    pinned[pins++].bytes = bytes;
    return pin_status ? base_fail(pin_status, "no pin") : WEFT_OK;
}

void __wrap_gpu_unpin_range(struct gpu *gpu, void *at, size_t bytes);
void __wrap_gpu_unpin_range(struct gpu *gpu, void *at, size_t bytes)
{
    assert_ptr_equal(gpu, &gpu_here);
    int i = 0;
    while (i < pins && pinned[i].at != at)
        i++;
    assert_true(i < pins);
    assert_int_equal(bytes, pinned[i].bytes);
    pinned[i].at = NULL;
    assert_true(msync(at, 1, MS_ASYNC) == 0); /* it is still mapped */
    unpins++;
}

static int asked;
static weft_status answer_status;
static struct net_record question;
static struct net_key answer;

weft_status __wrap_net_send_query(struct net_state *state, struct net_peer *of,
                                  const struct net_record *wants, uint32_t wanted, void *to,
                                  size_t bytes, bool nbi);
weft_status __wrap_net_send_query(struct net_state *state, struct net_peer *of,
                                  const struct net_record *wants, uint32_t wanted, void *to,
                                  size_t bytes, bool nbi)
{
    assert_ptr_equal(state, &end.state);
    assert_ptr_equal(of, peer);
    assert_int_equal(wanted, 0);
    assert_int_equal(bytes, sizeof answer);
    assert_false(nbi);
    question = *wants;
    asked++;
    if (!answer_status)
        memcpy(to, &answer, bytes);
    return answer_status;
}

static unsigned refused; /* bit per rail */
static int refuse(struct net_end *at, int rail)
{
    (void)at;
    return refused >> rail & 1 ? -FI_ENOMEM : 0;
}

static int open_end(void **context)
{
    (void)context;
    callocs.left = -1;
    blocks_before = callocs.memory;
    maps_left = 16;
    maps = unmaps = pins = unpins = advices = asked = 0;
    pin_status = answer_status = WEFT_OK;
    refused = 0;
    end_open_idle(&end, key);
    peer = &end.peers[1];
    end.refuse_memory = refuse;
    end.world.gpu = (struct gpu *)(void *)&gpu_here;
    end.world.sizes[SEG_HEAP] = HEAP;
    end.world.sizes[SEG_DATA] = CHUNK;
    end.map[0][SEG_HEAP] = heap;
    end.map[0][SEG_DATA] = data;
    for (int i = 0; i <= END_RAILS; i++)
        end.net.rails[i].traits.registers_local = true;
    /* The tests do not count the memory of messages. */
    maps = unmaps = 0;
    end.memory_count = end.memory_closed = 0;
    return 0;
}

static int shut_end(void **context)
{
    (void)context;
    callocs.left = -1;
    end_shut(&end);
    assert_int_equal(callocs.memory, blocks_before);
    assert_int_equal(end.memory_closed, end.memory_count);
    for (int i = 0; i < end.memory_count; i++)
        assert_true(end.memories[i].closed);
    assert_int_equal(unmaps, maps);
    assert_null(end.net.memory);
    return 0;
}

static void assert_memory(int number, int rail, const void *base, size_t bytes, uint64_t access)
{
    const struct end_memory *memory = &end.memories[number];
    assert_true(number < end.memory_count);
    assert_int_equal(memory->rail, rail);
    assert_int_equal(memory->base, (uintptr_t)base);
    assert_int_equal(memory->bytes, bytes);
    assert_int_equal(memory->access, access);
}

/* -------------------------------------------------------------------------------- own segments */

static void chunks_are_registered_at_first_use(void **context)
{
    static const struct {
        enum segment_id segment;
        size_t number, bytes;
    } rows[] = {
        {SEG_HEAP, 2, LAST}, {SEG_HEAP, 0, CHUNK}, {SEG_DATA, 0, CHUNK}, {SEG_HEAP, 1, CHUNK}};
    (void)context;
    for (int i = 0; i < 4; i++) {
        struct net_key found = {.key = 7, .base = 7, .answered = 7};
        char *base = (rows[i].segment == SEG_HEAP ? heap : data) + rows[i].number * CHUNK;
        end.net.rails[0].traits.virtual_addresses = i % 2;
        for (int again = 0; again < 2; again++) {
            struct fid_mr *made =
                net_get_own_chunk(&end.net, rows[i].segment, rows[i].number, again ? NULL : &found);
            assert_int_equal(end.memory_count, i + 1);
            assert_ptr_equal(made, end.memories[i].handle);
        }
        assert_memory(i, 0, base, rows[i].bytes, SEGMENT);
        assert_int_equal(found.key, end.memories[i].key);
        assert_int_equal(found.base, i % 2 ? (uintptr_t)base : 0);
        assert_int_equal(found.known, 1);
        assert_int_equal(found.answered, 0);
    }
    assert_null(net_get_own_chunk(&end.net, SEG_HEAP, 3, NULL));
    assert_null(net_get_own_chunk(&end.net, SEG_DATA, 1, NULL));
    assert_null(net_get_own_chunk(&end.net, SEG_SYSTEM, 0, NULL));
    assert_int_equal(end.memory_count, 4);
}

static void a_chunk_that_is_refused_is_not_tried_again(void **context)
{
    struct net_key found = {.key = 5, .known = 0};
    (void)context;
    refused = 1;
    assert_null(net_get_own_chunk(&end.net, SEG_HEAP, 1, &found));
    refused = 0;
    assert_null(net_get_own_chunk(&end.net, SEG_HEAP, 1, &found));
    assert_int_equal(found.key, 5);
    assert_int_equal(found.known, 0);
    assert_non_null(net_get_own_chunk(&end.net, SEG_HEAP, 0, &found));
    end.net.rails[0].endpoint = NULL;
    assert_null(net_get_own_chunk(&end.net, SEG_HEAP, 2, &found));
    assert_int_equal(end.memory_count, 1);
}

static void without_memory_nothing_is_registered(void **context)
{
    (void)context;
    net_free_memory(&end.net);
    end.memory_closed = end.memory_count = 0;
    for (int i = 0; i < 2; i++) {
        callocs.left = i;
        assert_null(net_get_own_chunk(&end.net, SEG_HEAP, 1, NULL));
        assert_int_equal(end.net.memory != NULL, i);
    }
    callocs.left = -1;
    assert_non_null(net_get_own_chunk(&end.net, SEG_HEAP, 1, NULL));
    net_free_memory(&end.net);
    for (int i = 0; i < 2; i++) {
        void *const *descriptors;
        callocs.left = i;
        assert_null(net_alloc_message_slab(&end.net, 4096, &descriptors));
        assert_int_equal(maps - unmaps, 0);
    }
    callocs.left = -1;
}

/* -------------------------------------------------------------------------------- peers' chunks */

static void keys_of_peers_are_queried_once(void **context)
{
    struct net_key found = {.base = 8};
    (void)context;
    answer = (struct net_key){.key = 55, .base = 4096, .known = 1};
    answer_status = WEFT_ERR_TIMEOUT;
    assert_int_equal(net_get_peer_key(&end.state, peer, SEG_HEAP, 2, &found), WEFT_ERR_TIMEOUT);
    assert_int_equal(found.known, 0);
    answer_status = WEFT_OK;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(net_get_peer_key(&end.state, peer, SEG_HEAP, 2, &found), WEFT_OK);
        assert_int_equal(asked, 2);
        assert_int_equal(question.kind, NET_KEY);
        assert_int_equal(question.segment, SEG_HEAP);
        assert_int_equal(question.offset, 2);
        assert_int_equal(found.key, 55);
        assert_int_equal(found.base, 4096);
        assert_int_equal(found.known, 1);
        assert_int_equal(found.answered, 1);
    }
    /* The answer that a chunk is not registered is kept too. */
    answer = (struct net_key){0};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(net_get_peer_key(&end.state, peer, SEG_DATA, 0, &found), WEFT_OK);
        assert_int_equal(found.known, 0);
    }
    assert_int_equal(asked, 3);
    assert_int_equal(question.segment, SEG_DATA);
    assert_int_equal(net_get_peer_key(&end.state, peer, SEG_HEAP, 0, &found), WEFT_OK);
    assert_int_equal(asked, 4);
    assert_int_equal(net_get_peer_key(&end.state, peer, SEG_HEAP, 3, &found), WEFT_ERR_NO_MEMORY);
    assert_int_equal(net_get_peer_key(&end.state, peer, SEG_DATA, 1, &found), WEFT_ERR_NO_MEMORY);
    callocs.left = 0;
    assert_int_equal(net_get_peer_key(&end.state, peer, SEG_SYSTEM, 0, &found), WEFT_ERR_NO_MEMORY);
    assert_non_null(strstr(base_last_error(), "no private memory for the keys of PE 1"));
    callocs.left = -1;
    assert_int_equal(asked, 4);
    free(peer->keys[SEG_HEAP]);
    free(peer->keys[SEG_DATA]);
    free(peer->keys[SEG_SYSTEM]);
}

/* ----------------------------------------------------------------------------------- own memory */

static void memory_for_messages_is_registered_where_that_is_wanted(void **context)
{
    void *descriptor, *const *descriptors;
    (void)context;
    void *made = net_alloc_slab(&end.net, 12345, &descriptor);
    assert_ptr_equal(made, mapped[0].at);
    assert_int_equal(mapped[0].bytes, 12345);
    memset(made, 3, 12345);
    assert_ptr_equal(descriptor, end.memories[0].handle);
    assert_memory(0, 0, made, 12345, OWN);
    assert_int_equal(end.memory_count, 1);
    refused = 2; /* one NIC does not register it */
    made = net_alloc_message_slab(&end.net, 777, &descriptors);
    assert_int_equal(end.memory_count, 3);
    assert_memory(1, 0, made, 777, OWN);
    assert_memory(2, 2, made, 777, FI_SEND | FI_RECV);
    assert_ptr_equal(descriptors[0], end.memories[1].handle);
    assert_null(descriptors[1]);
    assert_ptr_equal(descriptors[2], end.memories[2].handle);
    assert_null(descriptors[3]);
    /* The first NIC must register it. */
    refused = 1;
    assert_null(net_alloc_slab(&end.net, 12345, &descriptor));
    assert_null(descriptor);
    assert_null(net_alloc_message_slab(&end.net, 12345, &descriptors));
    assert_int_equal(unmaps, 2);
    assert_null(net_alloc_pinned_slab(&end.net, 12345, &descriptors));
    assert_int_equal(unmaps, 3);
    /* The first NIC has failed; then the first NIC needs no registration. */
    refused = 0;
    end.net.rails[0].endpoint = NULL;
    made = net_alloc_message_slab(&end.net, 99, &descriptors);
    assert_non_null(made);
    assert_null(descriptors[0]);
    assert_int_equal(end.memory_count, 5);
    assert_memory(3, 1, made, 99, FI_SEND | FI_RECV);
    end.net.rails[0].traits.registers_local = false;
    end.net.rails[0].endpoint = &end.endpoints[0];
    made = net_alloc_message_slab(&end.net, 98, &descriptors);
    assert_null(descriptors[0]);
    assert_null(descriptors[1]);
    assert_non_null(net_alloc_slab(&end.net, 12345, &descriptor));
    assert_null(descriptor);
    assert_int_equal(end.memory_count, 5);
    maps_left = 0;
    assert_null(net_alloc_slab(&end.net, 12345, &descriptor));
    assert_int_equal(pins, 0);
}

static void pinned_memory_is_the_gpus_too(void **context)
{
    void *const *descriptors;
    (void)context;
    void *made = net_alloc_pinned_slab(&end.net, 8192, &descriptors);
    assert_int_equal(end.memory_count, END_RAILS);
    assert_memory(0, 0, made, 8192, OWN);
    assert_memory(1, 1, made, 8192, FI_READ | FI_WRITE);
    assert_ptr_equal(descriptors[2], end.memories[2].handle);
    assert_int_equal(pins, 1);
    assert_int_equal(advices, 1);
    assert_ptr_equal(pinned[0].at, made);
    assert_int_equal(pinned[0].bytes, 8192);
    net_free_memory(&end.net);
    assert_int_equal(unpins, 1);
    assert_int_equal(unmaps, 1 + maps - 1);
    /* No NIC needs a registration; a slab that cannot be pinned is returned all the same. */
    pin_status = WEFT_ERR_SYSTEM;
    made = net_alloc_gpu_slab(&end.net, 4096);
    assert_non_null(made);
    assert_int_equal(end.memory_count, END_RAILS);
    assert_int_equal(pins, 2);
    pin_status = WEFT_OK;
    end.net.rails[0].traits.registers_local = false;
    made = net_alloc_pinned_slab(&end.net, 4096, &descriptors);
    assert_null(descriptors[1]);
    assert_int_equal(end.memory_count, END_RAILS);
    assert_int_equal(pins, 3);
    pinned[1].at = NULL; /* this slab was not pinned */
    net_free_memory(&end.net);
    assert_int_equal(unpins, 2);
    end.world.gpu = NULL;
    assert_non_null(net_alloc_gpu_slab(&end.net, 4096));
    assert_int_equal(pins, 3);
    assert_int_equal(advices, 3);
    maps_left = 0;
    assert_null(net_alloc_gpu_slab(&end.net, 4096));
}

static void a_peer_has_one_staging_buffer(void **context)
{
    struct net_key keys[NET_RAILS];
    (void)context;
    end.net.rails[1].traits.virtual_addresses = true;
    refused = 4;
    memset(keys, 9, sizeof keys);
    maps_left = 0;
    net_get_staging_buffer(&end.net, peer, 40000, keys);
    assert_int_equal(keys[0].known, 0);
    assert_null(peer->served.staging_buffer);
    maps_left = 9;
    for (int i = 0; i < 2; i++) {
        memset(keys, 9, sizeof keys);
        net_get_staging_buffer(&end.net, peer, 40000, keys);
        assert_int_equal(maps, 1);
        assert_int_equal(pins, 1);
        assert_int_equal(end.memory_count, 2);
        assert_ptr_equal(peer->served.staging_buffer, mapped[0].at);
        assert_int_equal(peer->served.staging_bytes, 40000);
        for (int r = 0; r < 2; r++) {
            assert_memory(r, r, peer->served.staging_buffer, 40000,
                          FI_REMOTE_READ | FI_REMOTE_WRITE);
            assert_int_equal(keys[r].key, end.memories[r].key);
            assert_int_equal(keys[r].base, r ? (uintptr_t)peer->served.staging_buffer : 0);
            assert_int_equal(keys[r].known, 1);
        }
        for (int r = 2; r < NET_RAILS; r++)
            assert_int_equal(keys[r].known, 0);
    }
    /* A NIC fails while its key is in use; then another peer queries its buffer. */
    end.net.rails[0].endpoint = NULL;
    net_get_staging_buffer(&end.net, peer, 40000, keys);
    assert_int_equal(keys[0].known, 0);
    assert_int_equal(keys[1].known, 1);
    struct net_peer *first = peer;
    peer = &end.peers[2];
    net_get_staging_buffer(&end.net, peer, 4096, keys);
    assert_int_equal(end.memory_count, 3);
    assert_ptr_not_equal(peer->served.staging_buffer, first->served.staging_buffer);
    assert_int_equal(keys[0].known, 0);
    assert_int_equal(keys[1].known, 1);
    peer = &end.peers[0];
    end.net.rails[0].endpoint = &end.endpoints[0];
    refused = 1;
    net_get_staging_buffer(&end.net, peer, 4096, keys);
    assert_null(peer->served.staging_buffer);
    assert_int_equal(keys[1].known, 0);
}

#define test(name) cmocka_unit_test_setup_teardown(name, open_end, shut_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(chunks_are_registered_at_first_use),
        test(a_chunk_that_is_refused_is_not_tried_again),
        test(without_memory_nothing_is_registered),
        test(keys_of_peers_are_queried_once),
        test(memory_for_messages_is_registered_where_that_is_wanted),
        test(pinned_memory_is_the_gpus_too),
        test(a_peer_has_one_staging_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
