/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration spaces made by hand, byte by byte, and the values that must be read from them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "machine/pci_config.h"

static void put16(uint8_t *b, unsigned v)
{
    b[0] = (uint8_t)v;
    b[1] = (uint8_t)(v >> 8);
}

static void put32(uint8_t *b, uint32_t v)
{
    put16(b, v & 0xffff);
    put16(b + 2, v >> 16);
}

/* A downstream port: PCI Express capability at 0x40, generation 4 x16 possible, 3 x8 now. */
static void make_port(uint8_t *b)
{
    memset(b, 0, 4096);
    put16(b, 0x10b5);
    put16(b + 0x06, 0x10);
    b[0x0e] = 1;
    b[0x34] = 0x40;
    b[0x40] = 0x10;
    put16(b + 0x42, 2 | PCI_DOWNSTREAM << 4);
    put32(b + 0x4c, 4 | 16 << 4);
    put16(b + 0x52, 3 | 8 << 4);
}

static void test_link(void **state)
{
    uint8_t b[4096];
    struct pci_config c;
    make_port(b);
    pci_config_read(b, sizeof b, &c);
    assert_int_equal(c.port_type.value, PCI_DOWNSTREAM);
    assert_true(number_is(c.gen_max, 4) && number_is(c.width_max, 16));
    assert_true(number_is(c.gen, 3) && number_is(c.width, 8));
    assert_true(number_is(c.acs, 0));
    assert_false(c.p2p_clique.known);
}

static void test_acs(void **state)
{
    uint8_t b[4096];
    struct pci_config c;
    make_port(b);
    put32(b + 0x100, 0x0001 | 1 << 16 | 0x148 << 20); /* AER first */
    put32(b + 0x148, 0x000d | 1 << 16);
    put16(b + 0x148 + 6, ACS_SV | ACS_RR | ACS_CR | ACS_UF);
    pci_config_read(b, sizeof b, &c);
    assert_true(number_is(c.acs, 1));
    assert_true(number_is(c.acs_control, 0x1d));
    assert_int_equal(c.acs_offset, 0x148);
    pci_config_read(b, 256, &c); /* no extended space visible: unknown, not "no ACS" */
    assert_false(c.acs.known);
}

static void test_clique(void **state)
{
    uint8_t b[4096];
    struct pci_config c;
    make_port(b);
    b[0x41] = 0xc8;
    const uint8_t capability[8] = {0x09, 0, 8, 'P', '2', 'P', 5 << 3, 0};
    memcpy(b + 0xc8, capability, 8);
    pci_config_read(b, 256, &c);
    assert_true(number_is(c.p2p_clique, 5));
    b[0xc8 + 6] |= 1; /* a later version of the capability */
    pci_config_read(b, 256, &c);
    assert_false(c.p2p_clique.known);
}

static void test_not_readable(void **state)
{
    uint8_t b[4096];
    struct pci_config c;
    make_port(b);
    pci_config_read(b, 64, &c);
    assert_false(c.gen.known);
    assert_non_null(strstr(c.acs.why, "root"));
    pci_config_read(b, 0, &c);
    assert_false(c.port_type.known);
    memset(b, 0xff, sizeof b);
    pci_config_read(b, sizeof b, &c);
    assert_false(c.width.known);
    assert_non_null(strstr(c.width.why, "does not answer"));
}

/* Lists that loop or point outside the space must end. */
static void test_loops(void **state)
{
    uint8_t b[4096];
    struct pci_config c;
    make_port(b);
    b[0x41] = 0x40;
    put32(b + 0x100, 0x0003 | 1 << 16 | 0x100u << 20);
    pci_config_read(b, sizeof b, &c);
    assert_true(number_is(c.gen, 3));
    b[0x34] = 0xfc;
    b[0xfc] = 0x10;
    pci_config_read(b, sizeof b, &c);
    assert_false(c.gen.known);
}

/* Every value of a field: the largest valid one, the first invalid one, and no effect of its
 * neighbours. */
static void test_fields(void **state)
{
    uint8_t b[4096];
    struct pci_config c;
    for (unsigned v = 0; v < 16; v++) {
        make_port(b);
        put32(b + 0x4c, v | 33 << 4);
        put16(b + 0x52, (15 - v) | 32 << 4);
        pci_config_read(b, sizeof b, &c);
        assert_int_equal(c.gen_max.known, v >= 1 && v <= 7);
        assert_int_equal(c.gen.known, 15 - v >= 1 && 15 - v <= 7);
        assert_int_equal(c.gen_max.value, c.gen_max.known ? v : 0);
        assert_true(!c.width_max.known && number_is(c.width, 32));
    }
    for (unsigned v = 0; v < 8; v++) {
        make_port(b);
        put32(b + 0x44, v | 5u << 3);
        put16(b + 0x48, (7 - v) << 5 | (v ^ 3) << 12 | (v & 1) << 4);
        pci_config_read(b, sizeof b, &c);
        assert_int_equal(c.payload_max.value, v <= 5 ? 128 << v : 0);
        assert_int_equal(c.payload.value, 7 - v <= 5 ? 128 << (7 - v) : 0);
        assert_int_equal(c.read_request.value, (v ^ 3) <= 5 ? 128 << (v ^ 3) : 0);
        assert_int_equal(c.payload_max.known, v <= 5);
        assert_true(number_is(c.relaxed_ordering, v & 1));
    }
}

/* Bytes beyond the end are not read: the header, the classic space, a capability's link
 * registers. */
static void test_cut(void **state)
{
    uint8_t b[4096];
    struct pci_config c;
    make_port(b);
    for (size_t length = 0; length < 64; length += 21) {
        pci_config_read(b, length, &c);
        assert_string_equal(c.port_type.why, "the configuration space could not be read");
    }
    for (size_t length = 64; length < 256; length += 191) {
        pci_config_read(b, length, &c);
        assert_string_equal(c.width.why,
                            "reading beyond 64 bytes of PCI configuration space needs root");
    }
    pci_config_read(b, 256, &c);
    assert_true(number_is(c.width, 8) && number_is(c.gen, 3));
    for (unsigned at = 0xec; at < 0x100; at += 4) {
        memset(b + 0x40, 0, 0x100 - 0x40);
        b[0x34] = (uint8_t)at;
        b[at] = 0x10;
        put16(b + at + 2, 2 | PCI_DOWNSTREAM << 4);
        if (at == 0xec)
            put16(b + at + 0x12, 3 | 8 << 4);
        pci_config_read(b, 256, &c);
        assert_true(number_is(c.port_type, PCI_DOWNSTREAM));
        if (at == 0xec)
            assert_true(number_is(c.width, 8));
        else
            assert_string_equal(c.width.why,
                                "configuration space ends inside the PCI Express capability");
    }
    make_port(b);
    put16(b + 0x42, 2 | PCI_ROOT_INTEGRATED << 4);
    pci_config_read(b, sizeof b, &c);
    assert_string_equal(c.gen.why, "root-complex integrated: no link");
    put16(b + 0x06, 0); /* no list of capabilities */
    pci_config_read(b, sizeof b, &c);
    assert_true(number_is(c.port_type, -1));
    assert_string_equal(c.gen.why, "not PCI Express");
    assert_string_equal(c.relaxed_ordering.why, "not PCI Express");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_link),   cmocka_unit_test(test_acs),
        cmocka_unit_test(test_clique), cmocka_unit_test(test_not_readable),
        cmocka_unit_test(test_loops),  cmocka_unit_test(test_fields),
        cmocka_unit_test(test_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
