/* SPDX-License-Identifier: Apache-2.0 */
/* Machine files: a written file reads back the same, and bad input is reported with its line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "machine/machine.h"

#include "base/text.h"

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
    assert_int_equal(again->n_links, 48); /* 8 GPUs with 6 links */
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
                "truncated");
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

/* The line of an error is found behind values of each kind, and behind texts that look like
 * brackets. */
static void test_lines(void **state)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"{\"note\": \"a \\\"gpus\\\": {[\\\\\",\n \"weft-machine\": 1,\n \"gpus\": [{\"index\": "
         "0},\n 7]}",
         "m.json:4: gpus[1]: expected an object { ... }"},
        {"{\"weft-machine\": 1, \"note\":\n 7}", "m.json:2: machine.note: expected a text"},
        {"{\"weft-machine\": 1, \"system\": {\"kernel\": \"}\", \"arch\": {\"unknown\":\n\"]\"},\n"
         "\"cpu_family\":\n4097}}",
         "m.json:4: system.cpu_family: 4097 is outside 0..4096"},
        {"{\"weft-machine\": 1, \"system\": {\"cpu_family\": -1}}",
         "m.json:1: system.cpu_family: -1 is outside 0..4096"},
        {"{\"weft-machine\": 1, \"system\": {\"cpu_family\": 1.5}}",
         "m.json:1: system.cpu_family: expected a whole number or {\"unknown\": \"why\"}"},
        {"{\"weft-machine\": 1, \"system\": {\"kernel\": 6}}",
         "m.json:1: system.kernel: expected a text or {\"unknown\": \"why\"}"},
        {"{\"weft-machine\": 1, \"system\": {\"as_root\":\n\n 1}}",
         "m.json:3: system.as_root: expected true, false or {\"unknown\": \"why\"}"},
        {"{\"weft-machine\": 1,\n\"p2p\": [{\"a\": 0, \"b\": 1,\n\"write\": [\"ok\"]}]}",
         "m.json:3: p2p[0].write: expected a text or {\"unknown\": \"why\"}"},
        {"{\"weft-machine\": 1,\n\"p2p\": [{\"a\": 0, \"b\": 1,\n\"kind\": {\"x\": [1, {}]}, "
         "\"d\": 1}]}",
         "m.json:3: p2p[0].kind: there is no such fact"},
        {"{\"weft-machine\": 0}",
         "m.json:1: the file has format version 0, but this weft reads version 1: this version "
         "never existed"},
        {"{\"weft-machine\": 1, \"weft-machine\": 1}", "m.json:1: duplicate object key"},
        {"{\"weft-machine\": 1,\n\n\"qqqqqqqq\": []}",
         "m.json:3: machine.qqqqqqqq: there is no such list"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct machine *m = NULL;
        assert_int_equal(machine_parse(rows[i].text, strlen(rows[i].text), "m.json", &m),
                         WEFT_ERR_ARGUMENT);
        if (strncmp(weft_last_error(), rows[i].message, strlen(rows[i].message)) != 0)
            fail_msg("\"%s\", expected \"%s\"", weft_last_error(), rows[i].message);
    }
}

/* The ends of a range, and a word that is the beginning of another. */
static void test_words_and_ranges(void **state)
{
    static const struct {
        const char *place, *value;
        bool good;
    } rows[] = {
        {"system.cpu_family", "4096", true},    {"system.cpu_family", "4097", false},
        {"system.cpu_family", "0", true},       {"system.cpu_family", "-1", false},
        {"system.cpu_family", "", false},       {"system.cpu_family", "0x10", true},
        {"system.cpu_family", "9x", false},     {"system.as_root", "true", true},
        {"system.as_root", "false", true},      {"system.as_root", "2", false},
        {"system.iommu_mode", "off", true},     {"system.iommu_mode", "of", false},
        {"system.iommu_mode", "", false},       {"system.iommu_mode", "offpassthrough", false},
        {"system.iommu_mode", "ff", false},     {"systems.iommu_mode", "off", false},
        {"system[0].iommu_mode", "off", false}, {"gpus[0]ecc", "yes", false},
        {"gpus[].ecc", "yes", false},           {"gpus[0x0].ecc", "yes", false},
        {"links[3].mbps", "5", true},           {"links[99].mbps", "5", false},
        {"links[-1].mbps", "5", false},
    };
    struct machine *m;
    assert_int_equal(machine_synthetic("2 a100, nvlink pairs", &m), WEFT_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weft_status status = machine_set(m, rows[i].place, rows[i].value, true);
        if ((status == WEFT_OK) != rows[i].good)
            fail_msg("%s %s: %s", rows[i].place, rows[i].value, weft_last_error());
    }
    assert_true(number_is(m->system.cpu_family, 16));
    assert_true(number_is(m->system.as_root, 0));
    assert_int_equal(machine_set(m, "system.cpu_family", "4097", false), WEFT_OK);
    assert_int_equal(machine_set(m, "system.iommu_mode", "of", false), WEFT_OK);
    assert_int_equal(machine_set(m, "system.arch", "unknown", true), WEFT_OK);
    assert_string_equal(m->system.arch.why, "set to unknown");
    machine_reject_invalid(m);
    assert_string_equal(m->system.cpu_family.why, "the value read, 4097, is outside 0..4096");
    assert_string_equal(m->system.iommu_mode.why, "the value read, \"of\", is not a known word");
    assert_false(m->system.cpu_family.known || m->system.iommu_mode.value);
    assert_int_equal(machine_set(m, "system.cpu_family", "4096", true), WEFT_OK);
    machine_reject_invalid(m);
    assert_true(number_is(m->system.cpu_family, 4096));
    machine_free(m);
}

static void test_nearest(void **state)
{
    const char *const names[] = {"index", NULL, "memory", "ecc", "mig"};
    assert_string_equal(base_nearest("memroy", names, 5), "memory");
    assert_string_equal(base_nearest("xecc", names, 5), "ecc");
    assert_string_equal(base_nearest("ec", names, 5), "ecc");
    assert_string_equal(base_nearest("mix", names, 5), "mig");
    assert_null(base_nearest("xyz", names, 5));
    assert_null(base_nearest("xy", names, 5));
    assert_null(base_nearest("xcx", names, 4)); /* one of three letters may differ */
}

/* A copy has its own memory for every text and reason. */
static void test_copy(void **state)
{
    struct machine *m;
    assert_int_equal(machine_synthetic("3 a100, nvlink mesh, nic per gpu, 1 disk", &m), WEFT_OK);
    m->note = "a note";
    number_unknown(m, &m->gpus[2].ecc, "why a number");
    text_unknown(m, &m->gpus[1].uuid, "why a text");
    struct machine *copy = machine_copy(m);
    char *one = machine_format(m, false);
    machine_free(m);
    char *two = machine_format(copy, false);
    assert_string_equal(one, two);
    assert_string_equal(copy->gpus[2].ecc.why, "why a number");
    assert_string_equal(copy->note, "a note");
    free(one);
    free(two);
    machine_free(copy);
}

/* Every prefix of a file is refused and never misread. */
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
        cmocka_unit_test(test_lines),      cmocka_unit_test(test_words_and_ranges),
        cmocka_unit_test(test_nearest),    cmocka_unit_test(test_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
