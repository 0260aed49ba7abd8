/* SPDX-License-Identifier: Apache-2.0 */
/* Machine files: what is written reads back the same, and bad input is named with its line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "machine/machine.h"

static void parse_fails(const char *text, const char *line, const char *words)
{
    struct machine *machine = NULL;
    assert_int_equal(machine_parse(text, strlen(text), "m.json", &machine), WEFT_ERR_ARGUMENT);
    assert_null(machine);
    if (!strstr(weft_last_error(), line) || !strstr(weft_last_error(), words))
        fail_msg("\"%s\" lacks \"%s\" or \"%s\"", weft_last_error(), line, words);
}

static void test_round_trip(void **state)
{
    struct machine *machine, *again;
    assert_int_equal(machine_synthetic("2 socket, 4 gpu each, nvlink hybrid-cube-mesh, 1 nic per 2 "
                                       "gpu, 2 disk, acs on",
                                       &machine),
                     WEFT_OK);
    number_unknown(machine, &machine->gpus[3].ecc, "a \"reason\" of two \xc2\xb5s\n\x1b[31m");
    char *first = machine_format(machine, false);
    assert_int_equal(machine_parse(first, strlen(first), "m.json", &again), WEFT_OK);
    char *second = machine_format(again, false);
    assert_string_equal(first, second);
    assert_false(again->gpus[3].ecc.known);
    assert_string_equal(again->gpus[3].ecc.why, "a \"reason\" of two \xc2\xb5s??[31m");
    assert_int_equal(again->n_links, 48); /* 8 GPUs of 6 links */
    free(first);
    free(second);
    machine_free(machine);
    machine_free(again);
}

static void test_live_round_trip(void **state)
{
    struct machine *live = machine_read_live(&(struct machine_source){.root = ""}), *again;
    char *first = machine_format(live, false);
    assert_int_equal(machine_parse(first, strlen(first), "live", &again), WEFT_OK);
    char *second = machine_format(again, false);
    assert_string_equal(first, second);
    free(first);
    free(second);
    machine_free(live);
    machine_free(again);
}

static void test_anonymous(void **state)
{
    struct machine *m = machine_new("test");
    text_set(m, &m->system.hostname, "secret-host");
    for (int i = 0; i < 2; i++) {
        struct machine_gpu *g = machine_add_gpu(m);
        number_set(&g->index, i);
        text_set(m, &g->serial, "165000000001");
        text_set(m, &g->uuid, i ? "GPU-b" : "GPU-a");
        text_set(m, &g->name, "kept");
    }
    char *text = machine_format(m, true);
    assert_null(strstr(text, "secret-host"));
    assert_null(strstr(text, "165000000001"));
    assert_null(strstr(text, "GPU-a"));
    assert_non_null(strstr(text, "kept"));
    const char *one = strstr(text, "\"serial\": "), *two = strstr(one + 1, "\"serial\": ");
    assert_memory_equal(one, two, strlen("\"serial\": \"serial-2\""));
    free(text);
    machine_free(m);
}

static void test_bad_input(void **state)
{
    parse_fails("", "m.json:1", "");
    parse_fails("[]", "m.json:1", "expected an object");
    parse_fails("{}", "m.json:1", "weft-machine");
    parse_fails("{\n \"weft-machine\": 1,\n \"gpus\": [\n  {\"index\": 0}, {\"ind", "m.json:4",
                "cut off");
    parse_fails("{\n\n \"weft-machine\": 2}", "m.json:3", "newer");
    parse_fails("{\"weft-machine\": 1,\n \"gpu\": []}", "m.json:2", "nearest: gpus");
    parse_fails("{\"weft-machine\": 1,\n \"gpus\": {}}", "m.json:2", "expected a list");
    parse_fails(
        "{\"weft-machine\": 1,\n \"gpus\": [\n{\"index\": 0},\n{\"index\": 1, \"nmae\": 0}]}",
        "m.json:4", "nearest: name");
    parse_fails("{\"weft-machine\": 1,\n \"gpus\": [{\"index\": 0,\n \"pcie_gen\": 99}]}",
                "m.json:3", "outside 1..7");
    parse_fails("{\"weft-machine\": 1,\n \"gpus\": [{\"index\": 0,\n\n \"ecc\": 1}]}", "m.json:4",
                "true, false");
    parse_fails("{\"weft-machine\": 1,\n \"system\": {\n \"iommu_mode\": \"on\"}}", "m.json:3",
                "off|passthrough|translated");
    parse_fails("{\"weft-machine\": 1, \"gpus\": [{\"name\": \"x\"}]}", "m.json",
                "index is missing");
    parse_fails("{\"weft-machine\": 1, \"gpus\": [{\"index\": 1}, {\"index\": 1}]}", "m.json",
                "twice");
    parse_fails("{\"weft-machine\": 1, \"pci\": [{\"bdf\": \"a\", \"parent\": \"b\"}]}", "m.json",
                "no parent b");
    parse_fails("{\"weft-machine\": 1, \"pci\": [{\"bdf\": \"a\", \"parent\": \"b\"},"
                "{\"bdf\": \"b\", \"parent\": \"a\"}]}",
                "m.json", "its own ancestor");
    parse_fails("{\"weft-machine\": 1, \"links\": [{\"gpu\": 3}]}", "m.json", "no gpu 3");
}

/* Every prefix of a file is refused, never misread. */
static void test_cut_off(void **state)
{
    struct machine *machine, *cut;
    assert_int_equal(machine_synthetic("2 gpu, nvlink pairs", &machine), WEFT_OK);
    char *text = machine_format(machine, false);
    size_t length = strlen(text);
    for (size_t n = 0; n + 2 < length; n += 7)
        assert_int_equal(machine_parse(text, n, "cut", &cut), WEFT_ERR_ARGUMENT);
    free(text);
    machine_free(machine);
}

static void test_set(void **state)
{
    struct machine *m;
    assert_int_equal(machine_synthetic("2 gpu, nvlink pairs, acs on", &m), WEFT_OK);
    assert_int_equal(machine_set(m, "gpus[1].ecc", "yes", true), WEFT_OK);
    assert_true(number_is(m->gpus[1].ecc, 1));
    assert_int_equal(machine_set(m, "pci[0000:12:00.0].acs_control", "0", true), WEFT_OK);
    assert_int_equal(machine_set(m, "system.iommu_mode", "translated", true), WEFT_OK);
    assert_true(text_is(m->system.iommu_mode, "translated"));
    assert_int_equal(machine_set(m, "links[0].mbps", "unknown", true), WEFT_OK);
    assert_false(m->links[0].mbps.known);
    assert_int_equal(machine_set(m, "gpus[7].ecc", "yes", true), WEFT_ERR_ARGUMENT);
    assert_int_equal(machine_set(m, "gpus[0].eccc", "yes", true), WEFT_ERR_ARGUMENT);
    assert_non_null(strstr(weft_last_error(), "nearest: ecc"));
    assert_int_equal(machine_set(m, "gpus[0].pcie_gen", "8", true), WEFT_ERR_ARGUMENT);
    assert_int_equal(machine_set(m, "gpus[0].pcie_gen", "8", false), WEFT_OK);
    assert_int_equal(machine_set(m, "nonsense", "8", true), WEFT_ERR_ARGUMENT);
    machine_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_live_round_trip),
        cmocka_unit_test(test_anonymous),  cmocka_unit_test(test_bad_input),
        cmocka_unit_test(test_cut_off),    cmocka_unit_test(test_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
