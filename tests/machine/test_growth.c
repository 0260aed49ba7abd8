/* SPDX-License-Identifier: Apache-2.0 */
/* Growth of each error counter of a PCI device, a port and a link between two readings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "machine/describe/growth.h"
#include "machine/machine.h"

static struct machine *load(void)
{
    struct machine *m;
    if (machine_load(MACHINES "/dgx-2.json", &m))
        fail_msg("%s", weft_last_error());
    assert_true(m->n_links > 3 && m->n_ports > 1 && m->n_pci > 5);
    return m;
}

struct counter {
    size_t offset;
    const char *where; /* NULL: not named */
};

static struct machine_number *number_at(void *of, size_t offset)
{
    return (struct machine_number *)((char *)of + offset);
}

/* One counter of the device `of` grows by 3, stays, and decreases; `same` is that device in the
 * later reading. */
static void try_counter(struct machine *m, struct machine *later, void *of, void *same,
                        const struct counter *counter, struct machine_number *grown,
                        const struct machine_text *where)
{
    static const int64_t after[] = {14, 11, 5}, sum[] = {3, 0, 0};
    for (int i = 0; i < 3; i++) {
        *number_at(of, counter->offset) = (struct machine_number){.known = true, .value = 11};
        *number_at(same, counter->offset) =
            (struct machine_number){.known = true, .value = after[i]};
        *grown = (struct machine_number){.known = false};
        growth_record(m, later);
        if (!number_is(*grown, sum[i]))
            fail_msg("%s: grown by %d, expected %d", counter->where, (int)grown->value,
                     (int)sum[i]);
        if (where)
            assert_string_equal(where->value, i == 0 ? counter->where : "");
    }
    /* A counter that is unknown in one of the readings has not grown. */
    for (int i = 0; i < 2; i++) {
        number_at(i ? of : same, counter->offset)->known = false;
        number_at(i ? same : of, counter->offset)->known = true;
        *grown = (struct machine_number){.known = false};
        growth_record(m, later);
        assert_false(grown->known);
    }
    number_at(of, counter->offset)->known = number_at(same, counter->offset)->known = false;
}

static void forget(void *device, const struct counter *counters, size_t n)
{
    for (size_t i = 0; i < n; i++)
        number_at(device, counters[i].offset)->known = false;
}

static void test_links(void **state)
{
    static const struct counter counters[] = {
        {offsetof(struct machine_link, crc_errors), "CRC +3"},
        {offsetof(struct machine_link, replays), "replays +3"},
        {offsetof(struct machine_link, recoveries), "recoveries +3"},
        {offsetof(struct machine_link, ecc_errors), "ECC +3"},
        {offsetof(struct machine_link, receive_errors), "receive +3"},
        {offsetof(struct machine_link, integrity_errors), "integrity +3"},
        {offsetof(struct machine_link, discards), "discards +3"},
        {offsetof(struct machine_link, failed_recoveries), "failed recoveries +3"},
        {offsetof(struct machine_link, effective_errors), "effective +3"},
    };
    size_t n = sizeof counters / sizeof counters[0];
    struct machine *m = load(), *later = load();
    forget(&m->links[3], counters, n);
    forget(&later->links[3], counters, n);
    for (size_t i = 0; i < n; i++)
        try_counter(m, later, &m->links[3], &later->links[3], &counters[i],
                    &m->links[3].errors_grown, &m->links[3].errors_where);
    for (size_t i = 0; i < 2; i++) {
        number_set(number_at(&m->links[3], counters[i].offset), 2);
        number_set(number_at(&later->links[3], counters[i].offset), 4 + (int64_t)i);
    }
    growth_record(m, later);
    assert_true(number_is(m->links[3].errors_grown, 5));
    assert_string_equal(m->links[3].errors_where.value, "CRC +2, replays +3");
    machine_free(later);
    machine_free(m);
}

static void test_ports(void **state)
{
    static const struct counter counters[] = {
        {offsetof(struct machine_port, symbol_errors), "symbol errors +3"},
        {offsetof(struct machine_port, link_downed), "link down +3"},
        {offsetof(struct machine_port, retransmits), "retransmits +3"},
    };
    struct machine *m = load(), *later = load();
    forget(&m->ports[1], counters, 3);
    forget(&later->ports[1], counters, 3);
    for (size_t i = 0; i < 3; i++)
        try_counter(m, later, &m->ports[1], &later->ports[1], &counters[i],
                    &m->ports[1].errors_grown, &m->ports[1].errors_where);
    machine_free(later);
    machine_free(m);
}

static void test_pci(void **state)
{
    static const struct counter counters[] = {
        {offsetof(struct machine_pci, aer_correctable), "corrected"},
        {offsetof(struct machine_pci, aer_uncorrectable), "not corrected"},
    };
    struct machine *m = load(), *later = load();
    forget(&m->pci[5], counters, 2);
    forget(&later->pci[5], counters, 2);
    for (size_t i = 0; i < 2; i++)
        try_counter(m, later, &m->pci[5], &later->pci[5], &counters[i], &m->pci[5].aer_grown, NULL);
    machine_free(later);
    machine_free(m);
}

/* A device that no longer exists, and one with another number, are not compared. */
static void test_gone(void **state)
{
    struct machine *m = load(), *later = load();
    number_set(&m->links[3].replays, 1);
    number_set(&later->links[3].replays, 9);
    number_set(&later->links[3].link, 77);
    number_set(&m->ports[1].link_downed, 1);
    number_set(&later->ports[1].link_downed, 9);
    number_set(&later->ports[1].port, 77);
    m->links[3].errors_grown.known = m->ports[1].errors_grown.known = false;
    growth_record(m, later);
    assert_false(m->links[3].errors_grown.known);
    assert_false(m->ports[1].errors_grown.known);
    machine_free(later);
    machine_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_ports),
        cmocka_unit_test(test_pci),
        cmocka_unit_test(test_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
