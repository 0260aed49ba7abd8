/* SPDX-License-Identifier: Apache-2.0 */
/* Requests by DC: which of them a peer could see twice, and through which NIC later ones go when
 * others have failed. */
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
        cmocka_unit_test(adapters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
