/* SPDX-License-Identifier: Apache-2.0 */
/* Shows what path net registers with NICs after the first: chunks of the segments, and memory of
 * the program while a transfer lasts. Shows which keys it gets from peers, and that each
 * registration is closed once. */
#include "unit/callocs.h"
#include "unit/net_end.h"

#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { CHUNK = NET_CHUNK_BYTES, LAST = 5000, HEAP = 2 * CHUNK + LAST };
enum { SEGMENT = FI_REMOTE_READ | FI_REMOTE_WRITE | FI_READ | FI_WRITE };

static const uint8_t key[SIPHASH_KEY_BYTES] = {1, 4, 1, 4};
static struct net_end end;
static struct net_peer *peer;
static char *const heap = (char *)0x700000000000, *const data = (char *)0x710000000000;

static int blocks_before;
static int asked;
static weft_status answer_status;
static struct net_record question;

weft_status __wrap_net_send_query(struct net_state *state, struct net_peer *of,
                                  const struct net_record *wants, uint32_t wanted, void *to,
                                  size_t bytes, bool nbi);
weft_status __wrap_net_send_query(struct net_state *state, struct net_peer *of,
                                  const struct net_record *wants, uint32_t wanted, void *to,
                                  size_t bytes, bool nbi)
{
    struct net_key keys[NET_RAILS];
    assert_ptr_equal(state, &end.state);
    assert_ptr_equal(of, peer);
    assert_int_equal(wanted, sizeof keys);
    assert_int_equal(bytes, sizeof keys);
    assert_false(nbi);
    question = *wants;
    asked++;
    for (int i = 0; i < NET_RAILS; i++)
        keys[i] = (struct net_key){.key = 100 * (uint64_t)asked + (uint64_t)i, .known = i != 0};
    memcpy(to, keys, bytes);
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
    asked = 0;
    answer_status = WEFT_OK;
    refused = 0;
    end_open_idle(&end, key);
    peer = &end.peers[1];
    end.refuse_memory = refuse;
    end.world.sizes[SEG_HEAP] = HEAP;
    end.world.sizes[SEG_DATA] = CHUNK;
    end.map[0][SEG_HEAP] = heap;
    end.map[0][SEG_DATA] = data;
    for (int i = 0; i <= END_RAILS; i++)
        end.net.rails[i].traits.registers_local = true;
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
    for (int i = 0; i < END_RAILS; i++)
        assert_null(end.net.rails[i].memory);
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

static void chunks_have_a_key_on_each_nic_but_the_first(void **context)
{
    static const struct {
        enum segment_id segment;
        size_t number, bytes;
    } rows[] = {{SEG_HEAP, 2, LAST}, {SEG_DATA, 0, CHUNK}, {SEG_HEAP, 0, CHUNK}};
    (void)context;
    end.net.rails[2].traits.virtual_addresses = true;
    for (int i = 0; i < 3; i++)
        for (int again = 0; again < 2; again++) {
            struct net_key keys[NET_RAILS];
            char *base = (rows[i].segment == SEG_HEAP ? heap : data) + rows[i].number * CHUNK;
            memset(keys, 9, sizeof keys);
            net_get_own_rail_keys(&end.net, rows[i].segment, rows[i].number, keys);
            assert_int_equal(end.memory_count, 2 * (i + 1));
            assert_memory(2 * i, 1, base, rows[i].bytes, SEGMENT);
            assert_memory(2 * i + 1, 2, base, rows[i].bytes, SEGMENT);
            for (int r = 0; r < NET_RAILS; r++) {
                bool known = r == 1 || r == 2;
                assert_int_equal(keys[r].known, known);
                assert_int_equal(keys[r].key, known ? end.memories[2 * i + r - 1].key : 0);
                assert_int_equal(keys[r].base, r == 2 ? (uintptr_t)base : 0);
            }
        }
    /* Chunks after the end of the segment. */
    static const struct {
        enum segment_id segment;
        size_t number;
    } none[] = {{SEG_HEAP, 3}, {SEG_DATA, 1}, {SEG_SYSTEM, 0}, {SEG_HEAP, SIZE_MAX}};
    for (int i = 0; i < 4; i++) {
        struct net_key keys[NET_RAILS];
        net_get_own_rail_keys(&end.net, none[i].segment, none[i].number, keys);
        assert_int_equal(keys[1].known, 0);
        assert_int_equal(end.memory_count, 6);
    }
}

static void a_nic_that_refuses_or_has_failed_has_no_key(void **context)
{
    struct net_key keys[NET_RAILS];
    (void)context;
    refused = 2;
    net_get_own_rail_keys(&end.net, SEG_HEAP, 1, keys);
    refused = 0;
    /* A failed registration is not tried again. */
    net_get_own_rail_keys(&end.net, SEG_HEAP, 1, keys);
    assert_int_equal(keys[1].known, 0);
    assert_int_equal(keys[2].known, 1);
    assert_int_equal(end.memory_count, 1);
    end.net.rails[2].endpoint = NULL;
    net_get_own_rail_keys(&end.net, SEG_HEAP, 1, keys);
    assert_int_equal(keys[2].known, 0);
    for (int i = 0; i < 2; i++) {
        net_free_rail_memory(&end.net, &end.net.rails[1]);
        callocs.left = i;
        net_get_own_rail_keys(&end.net, SEG_HEAP, 1, keys);
        assert_int_equal(keys[1].known, 0);
    }
    callocs.left = -1;
    net_get_own_rail_keys(&end.net, SEG_HEAP, 1, keys);
    assert_int_equal(keys[1].known, 1);
}

/* ----------------------------------------------------------------------------------- local side */

static void local_memory_of_a_segment_is_cut_at_its_chunk(void **context)
{
    static const struct {
        char *at;
        size_t bytes, cut, chunk;
    } rows[] = {{(char *)0x700000000000 + 100, HEAP, CHUNK - 100, CHUNK},
                {(char *)0x700000000000 + CHUNK, CHUNK, CHUNK, CHUNK},
                {(char *)0x700000000000 + 2 * CHUNK + 7, 60, 60, LAST},
                {(char *)0x710000000000 + CHUNK - 1, 9, 1, CHUNK}};
    (void)context;
    for (int i = 0; i < 4; i++) {
        size_t bytes = rows[i].bytes;
        struct net_pin *pin = NULL;
        assert_true(net_prepare_local(&end.net, rows[i].at, &bytes, true, &pin));
        assert_int_equal(bytes, rows[i].cut);
        assert_null(pin);
        assert_int_equal(end.memory_count, END_RAILS * (i + 1));
        for (int r = 0; r < END_RAILS; r++) {
            const struct end_memory *memory = &end.memories[END_RAILS * i + r];
            assert_int_equal(memory->rail, r);
            assert_int_equal(memory->bytes, rows[i].chunk);
            assert_int_equal(memory->access, SEGMENT);
            assert_ptr_equal(
                net_get_host_descriptor(&end.net, &end.net.rails[r], rows[i].at, &bytes),
                memory->handle);
        }
    }
    size_t bytes = 60;
    assert_null(net_get_host_descriptor(&end.net, &end.net.rails[1], data + CHUNK, &bytes));
    end.net.rails[1].traits.registers_local = false;
    assert_null(net_get_host_descriptor(&end.net, &end.net.rails[1], heap, &bytes));
}

static void each_nic_that_works_must_take_local_memory(void **context)
{
    size_t bytes = 50;
    struct net_pin *pin = NULL;
    (void)context;
    refused = 4;
    assert_false(net_prepare_local(&end.net, heap, &bytes, true, &pin));
    end.net.rails[2].endpoint = NULL;
    assert_true(net_prepare_local(&end.net, heap, &bytes, true, &pin));
    refused = 1;
    assert_false(net_prepare_local(&end.net, heap + CHUNK, &bytes, true, &pin));
    /* Memory of the program is not registered without a pin. */
    assert_false(net_prepare_local(&end.net, &bytes, &bytes, true, NULL));
    end.net.rails[0].traits.registers_local = false;
    assert_true(net_prepare_local(&end.net, &bytes, &bytes, true, NULL));
    assert_int_equal(bytes, 50);
    assert_null(end.net.striping.pins);
}

static void memory_of_the_program_is_registered_for_its_transfers(void **context)
{
    struct net_pin *pins[3] = {NULL};
    char memory[100];
    size_t bytes = sizeof memory;
    (void)context;
    end.net.rails[1].endpoint = NULL;
    for (int i = 0; i < 3; i++) {
        assert_true(net_prepare_local(&end.net, memory, &bytes, i != 1, &pins[i]));
        assert_int_equal(bytes, sizeof memory);
        assert_ptr_equal(end.net.striping.pins, pins[i]);
        assert_int_equal(end.memory_count, 2 * (i + 1));
        assert_memory(2 * i, 0, memory, sizeof memory, i != 1 ? FI_WRITE : FI_READ);
        assert_memory(2 * i + 1, 2, memory, sizeof memory, i != 1 ? FI_WRITE : FI_READ);
        assert_ptr_equal(net_get_pin_descriptor(&end.net, &end.net.rails[2], pins[i]),
                         end.memories[2 * i + 1].handle);
    }
    assert_null(net_hold_pin(NULL));
    net_release_pin(&end.net, NULL);
    assert_ptr_equal(net_hold_pin(pins[1]), pins[1]);
    net_release_pin(&end.net, pins[1]);
    assert_int_equal(end.memory_closed, 0);
    net_release_pin(&end.net, pins[1]); /* it is in the middle of the list */
    assert_int_equal(end.memory_closed, 2);
    assert_true(end.memories[2].closed && end.memories[3].closed);
    assert_ptr_equal(end.net.striping.pins, pins[2]);
    /* A rail is closed: its registrations are closed, each once. */
    net_free_rail_memory(&end.net, &end.net.rails[2]);
    assert_int_equal(end.memory_closed, 4);
    assert_true(end.memories[1].closed && end.memories[5].closed);
    net_release_pin(&end.net, pins[0]);
    assert_ptr_equal(end.net.striping.pins, pins[2]);
    net_release_pin(&end.net, pins[2]);
    assert_null(end.net.striping.pins);
    assert_int_equal(end.memory_closed, 6);
}

static void memory_that_one_nic_refuses_is_not_used(void **context)
{
    struct net_pin *pin = NULL;
    char memory[100];
    size_t bytes = sizeof memory;
    (void)context;
    refused = 2;
    assert_false(net_prepare_local(&end.net, memory, &bytes, true, &pin));
    assert_null(pin);
    assert_null(end.net.striping.pins);
    assert_int_equal(end.memory_count, 1); /* no other NIC is tried */
    assert_int_equal(end.memory_closed, 1);
    callocs.left = 0;
    assert_false(net_prepare_local(&end.net, memory, &bytes, true, &pin));
    assert_null(pin);
}

static void each_nic_has_eight_bytes_to_read_to(void **context)
{
    void *descriptor = &descriptor;
    struct net_rail *rail = &end.net.rails[1];
    (void)context;
    callocs.left = 0;
    assert_null(net_get_rail_scratch(&end.net, rail, &descriptor));
    assert_null(descriptor);
    callocs.left = -1;
    refused = 2;
    assert_null(net_get_rail_scratch(&end.net, rail, &descriptor));
    refused = 0;
    void *scratch = net_get_rail_scratch(&end.net, rail, &descriptor);
    assert_non_null(scratch);
    assert_memory(0, 1, scratch, 8, FI_READ);
    assert_ptr_equal(descriptor, end.memories[0].handle);
    descriptor = NULL;
    assert_ptr_equal(net_get_rail_scratch(&end.net, rail, &descriptor), scratch);
    assert_ptr_equal(descriptor, end.memories[0].handle);
    assert_int_equal(end.memory_count, 1);
    rail = &end.net.rails[2];
    rail->traits.registers_local = false;
    assert_non_null(net_get_rail_scratch(&end.net, rail, &descriptor));
    assert_null(descriptor);
    assert_int_equal(end.memory_count, 1);
}

/* -------------------------------------------------------------------------------- peers' chunks */

static void keys_of_peers_are_queried_once(void **context)
{
    const struct net_key *keys = NULL;
    (void)context;
    answer_status = WEFT_ERR_TIMEOUT;
    assert_int_equal(net_get_peer_rail_keys(&end.state, peer, SEG_HEAP, 2, &keys),
                     WEFT_ERR_TIMEOUT);
    answer_status = WEFT_OK;
    static const struct {
        enum segment_id segment;
        size_t chunk;
        int asked;
    } rows[] = {{SEG_HEAP, 2, 2}, {SEG_HEAP, 2, 2}, {SEG_HEAP, 1, 3},
                {SEG_DATA, 0, 4}, {SEG_HEAP, 2, 2}, {SEG_HEAP, 1, 3}};
    for (int i = 0; i < 6; i++) {
        int before = asked;
        assert_int_equal(
            net_get_peer_rail_keys(&end.state, peer, rows[i].segment, rows[i].chunk, &keys),
            WEFT_OK);
        if (asked != before) {
            assert_int_equal(asked, rows[i].asked);
            assert_int_equal(question.kind, NET_RAIL_KEYS);
            assert_int_equal(question.segment, rows[i].segment);
            assert_int_equal(question.offset, rows[i].chunk);
        }
        for (int r = 0; r < NET_RAILS; r++) {
            assert_int_equal(keys[r].key, 100 * rows[i].asked + r);
            assert_int_equal(keys[r].known, r != 0);
        }
    }
    assert_int_equal(asked, 4);
    callocs.left = 0;
    assert_int_equal(net_get_peer_rail_keys(&end.state, peer, SEG_SYSTEM, 0, &keys),
                     WEFT_ERR_NO_MEMORY);
    assert_non_null(strstr(base_last_error(), "no private memory for the keys of PE 1"));
    callocs.left = -1;
    for (int s = 0; s < SEG_COUNT; s++)
        free(peer->rails.keys[s]);
}

#define test(name) cmocka_unit_test_setup_teardown(name, open_end, shut_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(chunks_have_a_key_on_each_nic_but_the_first),
        test(a_nic_that_refuses_or_has_failed_has_no_key),
        test(local_memory_of_a_segment_is_cut_at_its_chunk),
        test(each_nic_that_works_must_take_local_memory),
        test(memory_of_the_program_is_registered_for_its_transfers),
        test(memory_that_one_nic_refuses_is_not_used),
        test(each_nic_has_eight_bytes_to_read_to),
        test(keys_of_peers_are_queried_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
