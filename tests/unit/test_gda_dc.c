/* SPDX-License-Identifier: Apache-2.0 */
/* Requests by DC: which of them a peer could see twice, which are flags of the library, and through
 * which NIC later ones go when others have failed. */
#include "path/gda/dc.h"

#include <endian.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { NPES = 3, COUNT = 3 };

/* A request with an opcode, and an operand or the number of bytes in its third segment. */
static bool is_seen(uint32_t opcode, uint64_t third)
{
    char request[4 * WEFT_DEV_GDA_SEGMENT] = {0};
    third = htobe64(third);
    request[3] = (char)opcode;
    memcpy(request + 2 * (size_t)WEFT_DEV_GDA_SEGMENT, &third, sizeof third);
    return gda_dc_is_seen_twice(request);
}

static void requests(void **state)
{
    static const struct {
        uint64_t bytes;
        bool seen;
    } writes[] = {{1, true},  {2, true}, {3, false},  {4, true},
                  {7, false}, {8, true}, {16, false}, {4096, false}};
    (void)state;
    for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
        assert_int_equal(is_seen(WEFT_DEV_GDA_WRITE, writes[i].bytes << 32), writes[i].seen);
        /* inline, and followed by anything */
        assert_int_equal(is_seen(WEFT_DEV_GDA_WRITE, (writes[i].bytes | 1u << 31) << 32 | 77),
                         writes[i].seen);
        assert_false(is_seen(WEFT_DEV_GDA_READ, writes[i].bytes << 32));
    }
    assert_false(is_seen(WEFT_DEV_GDA_NOP, 5));
    assert_false(is_seen(WEFT_DEV_GDA_DUMP, 8));
    assert_false(is_seen(WEFT_DEV_GDA_FA, 0)); /* a fetch */
    assert_true(is_seen(WEFT_DEV_GDA_FA, 1));
    assert_true(is_seen(WEFT_DEV_GDA_FA, (uint64_t)1 << 63));
    assert_true(is_seen(WEFT_DEV_GDA_CS, 0));
    assert_true(is_seen(WEFT_DEV_GDA_MASKED_FA, 0));
    assert_true(is_seen(WEFT_DEV_GDA_MASKED_CS, 0));
}

/* An inline write of that many bytes. */
static void write_request(char *request, uint64_t address, uint32_t bytes)
{
    const uint32_t length = htobe32(bytes | 1u << 31);
    memset(request, 0, 4 * (size_t)WEFT_DEV_GDA_SEGMENT);
    address = htobe64(address);
    request[3] = WEFT_DEV_GDA_WRITE;
    memcpy(request + WEFT_DEV_GDA_SEGMENT, &address, sizeof address);
    memcpy(request + 2 * (size_t)WEFT_DEV_GDA_SEGMENT, &length, sizeof length);
}

static void values_are_aligned(void **state)
{
    char request[4 * WEFT_DEV_GDA_SEGMENT];
    (void)state;
    for (uint32_t bytes = 1; bytes <= 8; bytes *= 2)
        for (uint64_t at = 0x7f0000001000; at < 0x7f0000001009; at++) {
            write_request(request, at, bytes);
            assert_int_equal(gda_dc_is_seen_twice(request), at % bytes == 0);
        }
}

/* Mailboxes up to 0x3000, areas of device code from there to 0x5008, buffers up to 0x6040; PE 1 has
 * them elsewhere than PE 0. */
static void flags_are_known_by_their_place(void **state)
{
    enum { SYSTEM = 0x10000000 };
    static uint64_t bases[NPES * SEG_COUNT];
    static const struct path_world world = {
        .areas_offset = 0x3000, .areas_end = 0x5008, .buffers_end = 0x6040};
    const struct gda gda = {.world = &world, .bases = bases};
    static const struct {
        uint64_t at;
        uint32_t bytes;
        bool of_library, flag;
    } cases[] = {
        {0x0, 8, true, true},      {0x1240, 8, true, true},   {0x1248, 8, true, false},
        {0x1240, 4, true, false},  {0x1240, 16, true, false}, {0x2fc0, 8, true, true},
        {0x2ff8, 8, true, false},  {0x3000, 8, true, true},   {0x3008, 8, true, true},
        {0x300c, 8, true, false},  {0x3010, 16, true, false}, {0x5000, 8, true, true},
        {0x5008, 8, true, false},  {0x5040, 8, true, false},  {0x6038, 8, true, false},
        {0x6040, 8, false, false}, {0x6080, 8, false, false}, {(uint64_t)-64, 8, false, false},
    };
    char request[4 * WEFT_DEV_GDA_SEGMENT];
    (void)state;
    bases[SEG_SYSTEM] = 7 * SYSTEM;
    bases[SEG_COUNT + SEG_SYSTEM] = SYSTEM;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_request(request, SYSTEM + cases[i].at, cases[i].bytes);
        assert_int_equal(gda_dc_is_of_library(&gda, 1, request), cases[i].of_library);
        assert_int_equal(gda_dc_is_flag(&gda, 1, request), cases[i].flag);
        assert_false(gda_dc_is_of_library(&gda, 0, request));
    }
    /* Neither an atomic nor a write whose data lie elsewhere. */
    write_request(request, SYSTEM + 0x1240, 8);
    request[3] = WEFT_DEV_GDA_FA;
    assert_false(gda_dc_is_of_library(&gda, 1, request));
    assert_false(gda_dc_is_flag(&gda, 1, request));
    write_request(request, SYSTEM + 0x1240, 8);
    request[2 * WEFT_DEV_GDA_SEGMENT] = 0;
    assert_true(gda_dc_is_of_library(&gda, 1, request));
    assert_false(gda_dc_is_flag(&gda, 1, request));
}

static void adapters(void **state)
{
    static atomic_uchar pairs[NPES * COUNT];
    static struct gda_dc dc = {.pairs = pairs};
    struct gda gda = {.dc = &dc, .count = COUNT};
    (void)state;
    for (uint32_t first = 0; first < COUNT; first++)
        assert_int_equal(gda_dc_working_adapter(&gda, 1, first), first);
    pairs[COUNT + 1] = GDA_DC_ENDING;
    assert_int_equal(gda_dc_working_adapter(&gda, 1, 0), 0);
    assert_int_equal(gda_dc_working_adapter(&gda, 1, 1), 2);
    assert_int_equal(gda_dc_working_adapter(&gda, 2, 1), 1);
    dc.own[2] = GDA_DC_MOVED; /* for all PEs */
    assert_int_equal(gda_dc_state_of(&gda, 2, 2), GDA_DC_MOVED);
    assert_int_equal(gda_dc_working_adapter(&gda, 1, 1), 0);
    assert_int_equal(gda_dc_working_adapter(&gda, 2, 2), 0);
    pairs[COUNT] = GDA_DC_LOST;
    assert_int_equal(gda_dc_working_adapter(&gda, 1, 1), COUNT);
    pairs[COUNT + 2] = GDA_DC_LOST;
    assert_int_equal(gda_dc_state_of(&gda, 1, 2), GDA_DC_LOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests),
        cmocka_unit_test(values_are_aligned),
        cmocka_unit_test(flags_are_known_by_their_place),
        cmocka_unit_test(adapters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
