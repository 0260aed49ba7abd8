/* SPDX-License-Identifier: Apache-2.0 */
/* Path gda rejects exchange records with impossible values (finding A23). Both ends of a connection
 * compute matching values. */
#include "path/gda/gda.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct gda_shape shape = {.adapters = 2,
                                       .queues_per_pe = 3,
                                       .chunks = 5,
                                       .chunk_bits = 16,
                                       .relaxed = 1,
                                       .npes = 2,
                                       .sizes = {300000, 0, 8192}};

static struct {
    struct gda_record record;
    uint32_t words[2 * 5 * 2 + 2 * (3 + 2)];
} told;

static int setup(void **state)
{
    (void)state;
    memset(&told, 0, sizeof told);
    told.record = (struct gda_record){.queues_per_pe = 3,
                                      .chunks = 5,
                                      .chunk_bits = 16,
                                      .relaxed = 1,
                                      .bases = {0x7f0000000000, 0, 4096}};
    for (int a = 0; a < 2; a++)
        told.record.addresses[a] = (struct gda_address){.lid = 17, .mtu = 5};
    for (size_t i = 0; i < sizeof told.words / sizeof *told.words; i++)
        told.words[i] = 0x123456 + (uint32_t)i;
    for (size_t i = 0; i < 20; i++)
        told.words[i] = 0xffffff00 + (uint32_t)i; /* keys may have any value */
    return 0;
}

static const char *fault(void)
{
    return gda_record_fault(&shape, &told.record);
}

static void lengths(void **state)
{
    (void)state;
    assert_int_equal(gda_record_keys(&shape), 20);
    assert_int_equal(gda_record_bytes(&shape), sizeof told);
    assert_null(fault());
    uint32_t *const sizes[] = {&told.record.queues_per_pe, &told.record.chunks,
                               &told.record.chunk_bits, &told.record.relaxed};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        ++*sizes[i];
        assert_string_equal(fault(), "sizes differ from those it sent before");
        --*sizes[i];
    }
    assert_null(fault());
    struct gda_shape odd = shape;
    odd.chunks = 4;
    odd.relaxed = 0;
    odd.adapters = 1; /* 4 keys, 2 * 4 numbers */
    assert_int_equal(gda_record_bytes(&odd), sizeof(struct gda_record) + 12 * sizeof(uint32_t));
    odd.chunks = 5;
    assert_int_equal(gda_record_bytes(&odd), sizeof(struct gda_record) + 14 * sizeof(uint32_t));
    odd.chunks = 3;
    assert_int_equal(gda_record_bytes(&odd), sizeof(struct gda_record) + 12 * sizeof(uint32_t));
}

/* Numbers of DC targets count where there are any. */
static void targets(void **state)
{
    (void)state;
    struct gda_shape dc = shape;
    assert_null(gda_record_fault(&dc, &told.record));
    dc.dc = 1;
    assert_string_equal(gda_record_fault(&dc, &told.record), "invalid QP number");
    told.record.dc_targets[0] = 0xffffff;
    assert_string_equal(gda_record_fault(&dc, &told.record), "invalid QP number");
    told.record.dc_targets[1] = 1;
    assert_null(gda_record_fault(&dc, &told.record));
    told.record.dc_targets[1] = 0x1000000;
    assert_string_equal(gda_record_fault(&dc, &told.record), "invalid QP number");
}

static void addresses(void **state)
{
    (void)state;
    told.record.addresses[1].mtu = 6;
    assert_string_equal(fault(), "invalid path MTU");
    told.record.addresses[1].mtu = 0;
    assert_non_null(fault());
    told.record.addresses[1] = (struct gda_address){.lid = 0xc000, .mtu = 1};
    assert_string_equal(fault(), "invalid LID");
    told.record.addresses[1].lid = 0;
    assert_string_equal(fault(), "invalid LID");
    told.record.addresses[1].lid = 0xbfff;
    assert_null(fault());
    told.record.addresses[0].mtu = 0; /* of the first address, while the second is valid */
    assert_string_equal(fault(), "invalid path MTU");
    told.record.addresses[0].mtu = 5;
    told.record.addresses[1] = (struct gda_address){.ethernet = 1, .mtu = 1};
    assert_string_equal(fault(), "no GID");
    told.record.addresses[1].mac[5] = 2; /* follows the GID in the record */
    told.record.addresses[1].mac[0] = 2; /* a unicast address */
    assert_string_equal(fault(), "no GID");
    told.record.addresses[1].gid[15] = 1;
    assert_null(fault());
    told.record.addresses[1].gid[15] = 0;
    told.record.addresses[1].gid[0] = 1;
    assert_null(fault());
    told.record.addresses[1].mac[0] = 3;
    assert_string_equal(fault(), "multicast MAC");
    told.record.addresses[1].ethernet = 2;
    assert_string_equal(fault(), "invalid link layer");
    /* A third address does not exist and is not checked. */
    setup(state);
    told.record.addresses[2].mtu = 99;
    assert_null(fault());
}

static void places_and_numbers(void **state)
{
    (void)state;
    told.record.bases[0] = UINT64_MAX - 300000;
    assert_null(fault());
    told.record.bases[0]++;
    assert_string_equal(fault(), "invalid memory addresses");
    assert_null(gda_window_fault(4096, 0));
    assert_non_null(gda_window_fault(0, 0));
    setup(state);
    told.record.bases[2] = 0;
    assert_string_equal(fault(), "invalid memory addresses");
    setup(state);
    told.words[20] = 0xffffff;
    assert_null(fault());
    told.words[20] = 0x1000000;
    assert_string_equal(fault(), "invalid QP number");
    setup(state);
    told.words[29] = 0;
    assert_string_equal(fault(), "invalid QP number");
}

static void candidates(void **state)
{
    struct gda_candidates c = {.count = 2, .requested = 2, .list = {{1, 0}, {2, 3}}};
    (void)state;
    assert_null(gda_candidates_fault(&c));
    c.list[0].near = 4;
    assert_string_equal(gda_candidates_fault(&c), "adapters not sorted by distance");
    c.list[0].near = 3; /* the same distance as the second */
    assert_null(gda_candidates_fault(&c));
    c.list[1].near = 16;
    assert_null(gda_candidates_fault(&c));
    c.list[1].near = 17;
    assert_string_equal(gda_candidates_fault(&c), "adapters not sorted by distance");
    c.list[1].near = 3;
    c.list[0].near = 17;
    assert_string_equal(gda_candidates_fault(&c), "adapters not sorted by distance");
    c.list[0].near = 3;
    c.requested = 3;
    assert_string_equal(gda_candidates_fault(&c), "fewer adapters than it requests");
    c.requested = -1;
    assert_string_equal(gda_candidates_fault(&c), "invalid number of adapters");
    c = (struct gda_candidates){.count = 1, .requested = 1, .list = {{1, 17}}};
    assert_string_equal(gda_candidates_fault(&c), "adapters not sorted by distance");
    c = (struct gda_candidates){.count = GDA_CANDIDATES, .requested = GDA_ADAPTERS_MOST};
    assert_null(gda_candidates_fault(&c));
    c.requested++;
    assert_string_equal(gda_candidates_fault(&c), "invalid number of adapters");
    c = (struct gda_candidates){.count = GDA_CANDIDATES + 1};
    assert_string_equal(gda_candidates_fault(&c), "invalid number of adapters");
    c = (struct gda_candidates){.count = -1};
    assert_string_equal(gda_candidates_fault(&c), "invalid number of adapters");
    c = (struct gda_candidates){.count = 1}; /* as many as its share */
    assert_null(gda_candidates_fault(&c));
    c = (struct gda_candidates){.requested = 2}; /* no adapters */
    assert_null(gda_candidates_fault(&c));
    assert_null(gda_offer_fault(&(struct gda_offer){GDA_ADAPTERS_MOST, 1, 0, 0}));
    assert_non_null(gda_offer_fault(&(struct gda_offer){GDA_ADAPTERS_MOST + 1, 1, 0, 0}));
    assert_non_null(gda_offer_fault(&(struct gda_offer){1, 2, 0, 0}));
    assert_null(gda_offer_fault(&(struct gda_offer){1, 0, 1, 1}));
    assert_non_null(gda_offer_fault(&(struct gda_offer){1, 0, 2, 0}));
    assert_non_null(gda_offer_fault(&(struct gda_offer){1, 0, 0, 2}));
}

/* The first PSN that one end sends is the one that the other end expects. Both depend on the
 * seeds. */
static void first_packets(void **state)
{
    uint64_t seeds[2] = {0x0123456789abcdef, 0xfedcba9876543210};
    struct path_world worlds[2] = {{.pe = 0, .npes = 2}, {.pe = 1, .npes = 2}};
    struct gda ends[2] = {{.world = &worlds[0], .seeds = seeds},
                          {.world = &worlds[1], .seeds = seeds}};
    (void)state;
    struct gda_connection here = gda_connection_of(&ends[0], 70, 1, 90),
                          there = gda_connection_of(&ends[1], 90, 0, 70);
    assert_int_equal(here.psn, there.peer_psn);
    assert_int_equal(here.peer_psn, there.psn);
    assert_int_not_equal(here.psn, 0);
    assert_int_not_equal(here.psn, here.peer_psn);
    assert_true(here.psn <= 0xffffff);
    /* Both PSNs follow from the seed by SplitMix64, and the port from both numbers, equally at
     * every PE. */
    assert_int_equal(here.psn, 0xfdee78);
    assert_int_equal(here.peer_psn, 0xa07943);
    assert_int_equal(here.sport, 0xd090);
    assert_int_equal(there.sport, 0xe7a6);
    assert_int_equal(gda_connection_of(&ends[0], 0x123456, 1, 0xabcdef).sport, 0xf39c);
    assert_int_not_equal(gda_connection_of(&ends[0], 71, 1, 90).psn, here.psn);
    seeds[0]++;
    assert_int_not_equal(gda_connection_of(&ends[0], 70, 1, 90).psn, here.psn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(lengths, setup),
        cmocka_unit_test_setup(targets, setup),
        cmocka_unit_test_setup(addresses, setup),
        cmocka_unit_test_setup(places_and_numbers, setup),
        cmocka_unit_test(candidates),
        cmocka_unit_test(first_packets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
