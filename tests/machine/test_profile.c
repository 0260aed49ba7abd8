/* SPDX-License-Identifier: Apache-2.0 */
/* How nodes are compared: each fact that differs from the expectation is reported, and no other;
 * files of every kind that --against accepts or refuses; nodes judged together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "machine/checks/cluster.h"

static struct profile profile_a100(void)
{
    static struct profile profile;
    struct machine *machine;
    assert_int_equal(machine_read_file(MACHINES "/dgx-a100.json", &machine), WEFT_OK);
    profile_of(machine, &profile);
    machine_free(machine);
    return profile;
}

static void expect_match(const struct profile *expected, const struct profile *seen, int which,
                         enum profile_match match)
{
    for (int id = 0; id < PROFILE_COUNT; id++) {
        enum profile_match found = profile_compare(id, &expected->facts[id], &seen->facts[id]);
        if (found != (id == which ? match : PROFILE_AS_EXPECTED))
            fail_msg("%s is judged %d when %s is changed", profile_infos[id].name, found,
                     which < 0 ? "nothing" : profile_infos[which].name);
    }
}

/* Checked by hand against the machine file. */
static void test_facts(void **state)
{
    struct profile p = profile_a100();
    assert_int_equal(p.facts[PROFILE_gpus].number, 8);
    assert_int_equal(p.facts[PROFILE_links].number, 96); /* 8 GPUs with 12 links */
    assert_int_equal(p.facts[PROFILE_link_mbytes_per_s].number, 25000);
    assert_int_equal(p.facts[PROFILE_nics].number, 8);
    assert_int_equal(p.facts[PROFILE_port_mbit_per_s].number, 200000);
    assert_int_equal(p.facts[PROFILE_cuda].number, 12040);
    assert_string_equal(p.facts[PROFILE_gpu_models].text, "NVIDIA A100-SXM4-80GB");
    assert_string_equal(p.facts[PROFILE_driver].text, "550.54.15");
    assert_false(p.facts[PROFILE_pairs_proven].known);
    struct machine *machine;
    assert_int_equal(machine_read_file(MACHINES "/no-gpu.json", &machine), WEFT_OK);
    profile_of(machine, &p);
    assert_int_equal(p.facts[PROFILE_gpus].number, 0);
    assert_true(p.facts[PROFILE_gpus].known);
    assert_string_equal(p.facts[PROFILE_gpu_models].text, PROFILE_NONE);
    machine_free(machine);
    /* the NUMA node that is a GPU's memory is no memory of the host */
    assert_int_equal(machine_read_file(MACHINES "/gh200.json", &machine), WEFT_OK);
    profile_of(machine, &p);
    assert_int_equal(p.facts[PROFILE_host_memory_bytes].number, INT64_C(480) << 30);
    machine_free(machine);
}

/* The slowest GPU, NIC or link determines the value. */
static void test_least(void **state)
{
    struct profile p, whole = profile_a100();
    struct machine *m;
    assert_int_equal(machine_read_file(MACHINES "/dgx-a100.json", &m), WEFT_OK);
    assert_int_equal(machine_set(m, "gpus[5].pcie_width", "8", true), WEFT_OK);
    assert_int_equal(machine_set(m, "links[40].active", "no", true), WEFT_OK);
    assert_int_equal(machine_set(m, "ports[6].mbit", "100000", true), WEFT_OK);
    assert_int_equal(machine_set(m, "nics[mlx5_3].firmware", "20.35.1012", true), WEFT_OK);
    assert_int_equal(machine_set(m, "gpus[2].memory_bytes", "unknown", true), WEFT_OK);
    profile_of(m, &p);
    assert_int_equal(p.facts[PROFILE_gpu_pcie_width].number, 8);
    assert_int_equal(p.facts[PROFILE_links].number, 95);
    assert_int_equal(p.facts[PROFILE_port_mbit_per_s].number, 100000);
    assert_string_equal(p.facts[PROFILE_nic_firmware].text, "20.35.1012, 20.38.1002");
    assert_int_equal(profile_compare(PROFILE_gpu_memory_bytes,
                                     &whole.facts[PROFILE_gpu_memory_bytes],
                                     &p.facts[PROFILE_gpu_memory_bytes]),
                     PROFILE_NOT_SEEN);
    machine_free(m);
}

static void test_each_difference(void **state)
{
    struct profile expected = profile_a100();
    expect_match(&expected, &expected, -1, PROFILE_DIFFERS);
    for (int id = 0; id < PROFILE_COUNT; id++) {
        struct profile seen = expected;
        struct profile_fact *fact = &seen.facts[id];
        if (!fact->known)
            continue;
        if (profile_infos[id].is_text)
            strcat(fact->text, "x");
        else
            fact->number = fact->number ? fact->number / 2 : 1;
        expect_match(&expected, &seen, id, PROFILE_DIFFERS);
        *fact = (struct profile_fact){.text = "nobody says"};
        expect_match(&expected, &seen, id, PROFILE_NOT_SEEN);
        expect_match(&seen, &expected, -1, PROFILE_DIFFERS); /* no value is expected of it */
    }
}

static void test_margins(void **state)
{
    struct profile_fact wanted = {.known = true, .number = 1000}, seen = wanted;
    const int speed = PROFILE_pair_write_mbytes_per_s;
    seen.number = 800;
    assert_int_equal(profile_compare(speed, &wanted, &seen), PROFILE_AS_EXPECTED);
    seen.number = 799;
    assert_int_equal(profile_compare(speed, &wanted, &seen), PROFILE_DIFFERS);
    seen.number = 5000;
    assert_int_equal(profile_compare(speed, &wanted, &seen), PROFILE_AS_EXPECTED);
    assert_int_equal(profile_compare(PROFILE_gpus, &wanted, &seen), PROFILE_DIFFERS);
    wanted.at_least = true;
    assert_int_equal(profile_compare(PROFILE_gpus, &wanted, &seen), PROFILE_AS_EXPECTED);
    static const struct {
        const char *wanted, *seen;
        enum profile_match match;
    } versions[] = {{"550.54", "550.144.03", PROFILE_AS_EXPECTED},
                    {"550.144", "550.54.15", PROFILE_DIFFERS},
                    {"570", "570", PROFILE_AS_EXPECTED},
                    {"570", "1000.1", PROFILE_AS_EXPECTED},
                    {"570.1", "570", PROFILE_DIFFERS}};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        struct profile_fact old = {.known = true, .at_least = true}, now = {.known = true};
        strcpy(old.text, versions[i].wanted);
        strcpy(now.text, versions[i].seen);
        if (profile_compare(PROFILE_driver, &old, &now) != versions[i].match)
            fail_msg("%s beside >= %s", now.text, old.text);
    }
}

/* --- files ------------------------------------------------------------------------------------ */

static char path[64];

static void write_file(const char *text)
{
    strcpy(path, "/tmp/weft-test-expect-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void refuse(const char *text, const char *words)
{
    struct profile expected;
    write_file(text);
    assert_int_equal(profile_load(path, &expected), WEFT_ERR_ARGUMENT);
    if (!strstr(weft_last_error(), words))
        fail_msg("\"%s\" does not say \"%s\"", weft_last_error(), words);
    unlink(path);
}

static void test_bad_files(void **state)
{
    struct profile expected;
    refuse("{\"weft-expect\": 1, \"gpu\": 8}", "nearest: gpus");
    refuse("{\"weft-expect\": 2}", "newer weft");
    refuse("{\"weft-expect\": \"one\"}", "not a version");
    refuse("{\"weft-expect\": 1, \"gpus\": \"many\"}", "\"many\"; expected a whole number");
    refuse("{\"weft-expect\": 1, \"gpus\": 7.5}", "gpus is not a whole number");
    refuse("{\"weft-expect\": 1, \"driver\": 550}", "driver is not a text");
    refuse("{\"weft-expect\": 1, \"gpus\": 8, \"gpus\": 8}", "duplicate");
    refuse("{\"weft-expect\": 1, \"gpus\": 8", ":1:");
    refuse("{\"hosts\": 1}", "has no known format");
    refuse("[]", "has no known format");
    refuse("{\"weft-machine\": 99}", "newer");
    assert_int_not_equal(profile_load("/nowhere/to.json", &expected), WEFT_OK);
}

static void test_good_files(void **state)
{
    struct profile expected, seen = profile_a100();
    write_file("{\"weft-expect\": 1, \"note\": \"mine\", \"gpus\": \">= 8\", \"nvidia_fs\": false,"
               " \"driver\": \">=550.54\", \"nics\": 9}");
    assert_int_equal(profile_load(path, &expected), WEFT_OK);
    unlink(path);
    expect_match(&expected, &seen, PROFILE_nics, PROFILE_DIFFERS);
    char text[64];
    assert_string_equal(
        profile_show(PROFILE_driver, &expected.facts[PROFILE_driver], text, sizeof text),
        ">= 550.54");

    char *own = profile_expectation(&seen);
    write_file(own);
    free(own);
    assert_int_equal(profile_load(path, &expected), WEFT_OK);
    unlink(path);
    for (int id = 0; id < PROFILE_COUNT; id++)
        assert_int_equal(expected.facts[id].known, seen.facts[id].known);
    expect_match(&expected, &seen, -1, PROFILE_DIFFERS);

    assert_int_equal(profile_load(MACHINES "/dgx-a100.json", &expected), WEFT_OK);
    expect_match(&expected, &seen, -1, PROFILE_DIFFERS);
    assert_int_equal(profile_load("8 a100, nvswitch", &expected), WEFT_OK);
    assert_false(expected.facts[PROFILE_nics].known);
    assert_int_equal(expected.facts[PROFILE_gpus].number, 8);
}

/* The report of a node is read back, also if another version knows more facts. */
static void test_report(void **state)
{
    struct profile seen = profile_a100(), back;
    json_t *object = profile_json(&seen);
    json_object_set_new(object, "of_a_later_version", json_integer(1));
    assert_int_equal(profile_parse(object, "node", true, &back), WEFT_OK);
    assert_int_equal(profile_parse(object, "node", false, &back), WEFT_ERR_ARGUMENT);
    json_object_del(object, "of_a_later_version");
    assert_int_equal(profile_parse(object, "node", false, &back), WEFT_OK);
    json_decref(object);
    for (int id = 0; id < PROFILE_COUNT; id++) {
        assert_int_equal(back.facts[id].known, seen.facts[id].known);
        assert_int_equal(back.facts[id].number, seen.facts[id].number);
        assert_string_equal(back.facts[id].text, seen.facts[id].text);
    }
}

/* --- a cluster -------------------------------------------------------------------------------- */

static struct cluster make_cluster(size_t n)
{
    struct cluster cluster = {.nodes = calloc(n, sizeof *cluster.nodes), .n_nodes = n};
    struct profile profile = profile_a100();
    for (size_t i = 0; i < n; i++) {
        snprintf(cluster.nodes[i].name, sizeof cluster.nodes[i].name, "n%02zu", i);
        cluster.nodes[i].reached = true;
        cluster.nodes[i].profile = profile;
    }
    return cluster;
}

static void add_fault(struct node *node, const char *code, const char *place)
{
    node->faults = realloc(node->faults, (node->n_faults + 1) * sizeof *node->faults);
    struct node_fault *fault = &node->faults[node->n_faults++];
    snprintf(fault->code, sizeof fault->code, "%s", code);
    snprintf(fault->place, sizeof fault->place, "%s", place);
    fault->evidence[0] = '\0';
}

static void test_cluster(void **state)
{
    struct cluster c = make_cluster(7);
    c.nodes[0].profile.facts[PROFILE_gpus].number = 7; /* the first node is not the reference */
    strcpy(c.nodes[2].profile.facts[PROFILE_driver].text, "535.1");
    strcpy(c.nodes[5].profile.facts[PROFILE_driver].text, "535.1");
    add_fault(&c.nodes[3], "NVLINK-DOWN", "gpu1");
    add_fault(&c.nodes[3], "PCIE-WIDTH", "gpu2");
    add_fault(&c.nodes[3], "NVLINK-DOWN", "gpu4");
    c.nodes[6].reached = false;
    strcpy(c.nodes[6].why, "no route to host");
    c.nodes[1].profile.facts[PROFILE_kernel].known = false;
    cluster_judge(&c, NULL);
    assert_true(c.by_majority);
    assert_string_equal(c.nodes[0].deviation, "gpus 7, 8 expected");
    assert_string_equal(c.nodes[2].deviation, "driver 535.1, 550.54.15 expected");
    assert_int_equal(c.nodes[5].group, 2);
    assert_string_equal(c.nodes[3].deviation, "NVLINK-DOWN at gpu1, gpu4; PCIE-WIDTH at gpu2");
    assert_string_equal(c.nodes[4].deviation, "");
    assert_string_equal(c.nodes[6].deviation, "not reached: no route to host");
    assert_non_null(strstr(c.nodes[1].deviation, "kernel not known"));
    assert_int_equal(c.as_expected, 2);
    assert_int_equal(c.deviating, 4);
    assert_int_equal(c.not_reached, 1);
    cluster_free(&c);

    c = make_cluster(3);
    struct profile expected = {.facts = {{.known = false}}};
    expected.facts[PROFILE_gpus] = (struct profile_fact){.known = true, .number = 4};
    cluster_judge(&c, &expected);
    assert_int_equal(c.deviating, 3);
    assert_int_equal(c.nodes[2].group, 0);
    cluster_free(&c);
}

static void test_fold(void **state)
{
    static const struct {
        const char *names[8], *folded;
    } cases[] = {{{"n01", "n02", "n03", "n07"}, "n[01-03,07]"},
                 {{"a"}, "a"},
                 {{"a", "b"}, "a,b"},
                 {{"r1n8", "r1n9", "r1n10"}, "r1n[8,9],r1n10"},
                 {{"gpu-1.site", "gpu-2.site", "login"}, "gpu-[1,2].site,login"},
                 {{"n3", "n1"}, "n[3,1]"},
                 {{"n1", "n1x", "n2"}, "n1,n1x,n2"},
                 {{"nn1", "n11", "n12"}, "nn1,n[11,12]"},
                 {{"a1", "b2", "b3"}, "a1,b[2,3]"},
                 {{"1", "2", "4"}, "[1,2,4]"},
                 {{"a", "b1", "b2"}, "a,b[1,2]"},
                 {{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, "10.0.0.[1-3]"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t n = 0;
        while (n < 8 && cases[i].names[n])
            n++;
        char *text = cluster_fold_names(cases[i].names, n);
        assert_string_equal(text, cases[i].folded);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts),     cmocka_unit_test(test_least),
        cmocka_unit_test(test_margins),   cmocka_unit_test(test_each_difference),
        cmocka_unit_test(test_bad_files), cmocka_unit_test(test_good_files),
        cmocka_unit_test(test_report),    cmocka_unit_test(test_cluster),
        cmocka_unit_test(test_fold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
