/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that a description makes: the shape that its words say, with the published figures of
 * its models, and an error that names words that contradict each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ends.h"
#include "machine/checks/explain.h"
#include "machine/routes/routes.h"

static struct machine *make(const char *description)
{
    struct machine *m;
    if (machine_synthetic(description, &m))
        fail_msg("%s: %s", description, weft_last_error());
    return m;
}

static int routes_of(const struct machine *m, const char *a, const char *b)
{
    static struct routes routes;
    struct endpoint x = end_of(m, a), y = end_of(m, b);
    routes_between(m, &x, &y, &routes);
    return routes.n;
}

/* GB200 NVL72: 18 trays of 4 GPUs and 2 CPUs; 1.8 TB/s of NVLink and 450 GB/s of C2C per GPU, both
 * directions together. */
static void test_nvl72(void **state)
{
    struct machine *m = make("72 gb200, nvlink domain 72, nic per gpu");
    assert_int_equal(m->n_gpus, 72);
    assert_int_equal(m->n_packages, 36);
    assert_int_equal(m->n_nics, 72);
    for (int b = 1; b < 72; b++) {
        struct link_bundle links = routes_links(m, 0, b);
        assert_int_equal(links.links, 18);
        assert_true(links.through_switch);
        assert_int_equal(links.line_mbps, 900000);
    }
    assert_int_equal(routes_cpu_links(m, 71).line_mbps, 225000);
    is_apart(m, "gpu0", "gpu1", "NODE");
    is_apart(m, "gpu0", "gpu3", "SYS");
    is_apart(m, "gpu0", "gpu4", "NET");
    is_apart(m, "gpu0", "mlx5_0", "NODE");
    is_apart(m, "gpu0", "mlx5_4", "NET");
    /* only NVLink: the GPUs are on different hosts */
    assert_int_equal(routes_of(m, "gpu0", "gpu71"), 1);
    assert_int_equal(routes_of(m, "gpu0", "mlx5_71"), 0);
    assert_int_equal(routes_of(m, "gpu71", "numa0"), 0);
    assert_int_equal(routes_of(m, "gpu0", "numa1"), 1);
    assert_false(m->gpus[0].pcie_gen.known); /* not published */
    machine_free(m);
}

static void test_domains(void **state)
{
    struct machine *m = make("16 b200, nvlink domain 8, 2 node");
    static struct verdict v;
    assert_int_equal(routes_links(m, 0, 7).links, 18);
    assert_int_equal(routes_links(m, 8, 15).links, 18);
    assert_int_equal(routes_links(m, 7, 8).links, 0);
    assert_int_equal(explain_pair(m, "gpu0", "gpu15", &v), WEFT_OK);
    assert_int_equal(v.routes.n, 0);
    assert_int_equal(v.findings.n, 1);
    assert_int_equal(v.findings.list[0].reason, REASON_OTHER_HOST);
    verdict_free(&v);
    machine_free(m);
    m = make("2 node, 8 h100, nvswitch"); /* each node has its own switch */
    assert_int_equal(routes_links(m, 0, 3).links, 18);
    assert_int_equal(routes_links(m, 3, 4).links, 0);
    machine_free(m);
    m = make("2 node, 8 a100, nvlink pairs");
    assert_int_equal(routes_links(m, 4, 5).links, 12);
    assert_int_equal(routes_links(m, 0, 4).links, 0);
    machine_free(m);
    m = make("8 h200, nvlink domain 8"); /* one host, as without the word */
    is_apart(m, "gpu0", "gpu7", "NODE");
    assert_null(m->gpus[0].fabric_cluster.value);
    machine_free(m);
}

static void test_nested_switches(void **state)
{
    struct machine *m =
        make("8 h100, 2 gpu per pcie-switch, 2 pcie-switch per pcie-switch, nic per 2 gpu");
    is_apart(m, "gpu0", "gpu1", "PIX");
    is_apart(m, "gpu0", "gpu2", "PXB");
    is_apart(m, "gpu0", "gpu4", "NODE");
    is_apart(m, "gpu0", "mlx5_0", "PIX");
    is_apart(m, "gpu0", "mlx5_1", "PXB");
    machine_free(m);
}

static void test_numa(void **state)
{
    struct machine *m = make("2 socket, 4 numa per socket, 8 a100");
    assert_int_equal(m->n_packages, 2);
    assert_int_equal(m->n_numa, 8);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(m->numa[i].package.value, i / 4);
        char name[16];
        snprintf(name, sizeof name, "gpu%d", i);
        struct endpoint gpu = end_of(m, name);
        assert_int_equal(routes_numa_of(m, &gpu), i);
    }
    is_apart(m, "gpu0", "gpu1", "SYS");
    machine_free(m);
}

static void test_no_switch(void **state)
{
    struct machine *m = make("4 l40s, no pcie-switch, nic per gpu, 1 disk");
    is_apart(m, "gpu0", "gpu1", "NODE");
    is_apart(m, "gpu0", "mlx5_0", "NODE");
    is_apart(m, "gpu0", "nvme0n1", "NODE");
    for (size_t i = 0; i < m->n_pci; i++)
        assert_string_not_equal(m->pci[i].kind.value, "upstream");
    machine_free(m);
    m = make("4 l40s, 2 gpu per root-complex, nic per 2 gpu");
    is_apart(m, "gpu0", "gpu1", "PHB");
    is_apart(m, "gpu0", "mlx5_0", "PHB");
    is_apart(m, "gpu1", "gpu2", "NODE");
    machine_free(m);
}

static void test_beside(void **state)
{
    struct machine *m = make("8 h100, nic beside gpu0 gpu4, 2 nic beside gpu7");
    assert_int_equal(m->n_nics, 4);
    is_apart(m, "gpu0", "mlx5_0", "PIX");
    is_apart(m, "gpu4", "mlx5_1", "PIX");
    is_apart(m, "gpu7", "mlx5_2", "PIX");
    is_apart(m, "gpu7", "mlx5_3", "PIX");
    is_apart(m, "gpu2", "mlx5_0", "NODE");
    machine_free(m);
}

/* Published figures of each model. */
static void test_models(void **state)
{
    static const struct {
        const char *word, *name;
        int major, minor, gib, generation;
    } models[] = {{"l40s", "NVIDIA L40S", 8, 9, 48, 4},
                  {"a10g", "NVIDIA A10G", 8, 6, 24, 4},
                  {"gb200", "NVIDIA GB200", 10, 0, 186, 0},
                  {"gh200", "NVIDIA GH200", 9, 0, 96, 0},
                  {"mi250x", "AMD Instinct MI250X", 9, 0, 64, 4}};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        char text[32];
        snprintf(text, sizeof text, "2 %s", models[i].word);
        struct machine *m = make(text);
        assert_string_equal(m->gpus[1].name.value, models[i].name);
        assert_int_equal(m->gpus[1].cc_major.value, models[i].major);
        assert_int_equal(m->gpus[1].cc_minor.value, models[i].minor);
        assert_int_equal(m->gpus[1].memory_bytes.value, (int64_t)models[i].gib << 30);
        assert_int_equal(number_or(m->gpus[1].pcie_gen_max, 0), models[i].generation);
        machine_free(m);
    }
    /* two dies of a module: 200 GB/s in one direction */
    struct machine *m = make("8 mi250x, xgmi pairs");
    assert_int_equal(routes_links(m, 2, 3).line_mbps, 200000);
    assert_int_equal(routes_links(m, 3, 4).links, 0);
    machine_free(m);
}

static void test_refused(void **state)
{
    static const char *const cases[][2] = {
        {"200 h100", "the description has 200 GPUs; at most 144 are possible"},
        {"9999 node, 9999 socket, 9999 gpu each",
         "the description has 9999 GPUs; at most 144 are possible"},
        {"4 h100, 100 node", "the description has 100 nodes; at most 72 are possible"},
        {"8 h100, 9 numa per socket",
         "the description has 9 NUMA nodes in a socket; at most 8 are possible"},
        {"8 h100, 3 node", "8 GPUs do not spread evenly over 3 nodes"},
        {"4 h100, nic beside gpu9", "a NIC is beside gpu9, but there are 4 GPUs"},
        {"8 l40s, nvlink mesh", "NVIDIA L40S has no NVLink"},
        {"8 mi250x, xgmi mesh", "AMD Instinct MI250X has 4 links, too few for a mesh of 8"},
        {"2 h100, no pcie-switch, 2 pcie-switch per pcie-switch",
         "the description has both no PCIe switches and switches above switches"},
        {"8 v100, nvlink hybrid-cube-mesh, 2 node",
         "a hybrid cube mesh has 8 GPUs, but the description has 4"},
        {"8 h100, 4 gpu each", "the description has the number of GPUs twice"},
        {"16 h100, 8 gpu per pcie-switch, 4 nic beside gpu3",
         "too many devices: a PCIe switch or root complex has 11 ports for GPUs and NICs, at most "
         "8 switches below it, and 12 disks"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct machine *m;
        assert_int_equal(machine_synthetic(cases[i][0], &m), WEFT_ERR_ARGUMENT);
        assert_null(m);
        if (strcmp(weft_last_error(), cases[i][1]) != 0)
            fail_msg("%s: \"%s\", expected \"%s\"", cases[i][0], weft_last_error(), cases[i][1]);
    }
}

/* No two devices have the same address, whatever the shape. */
static void test_addresses(void **state)
{
    static const char *const shapes[] = {
        "72 gb200, nvlink domain 72, 2 nic per gpu",
        "144 l40s, no pcie-switch, 10 nic per gpu, 12 disk",
        "64 h100, 4 gpu per pcie-switch, 4 pcie-switch per pcie-switch, 4 node, nic per gpu",
        "64 h100, 2 node, 2 socket, 4 numa per socket, nic per gpu, 12 disk",
        "64 h100, 2 node, flat vm, nic per gpu",
        "120 a100, nic per gpu",
    };
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        struct machine *m = make(shapes[s]);
        for (size_t i = 0; i < m->n_pci; i++)
            if (machine_find_pci(m, m->pci[i].bdf.value) != &m->pci[i])
                fail_msg("%s: %s twice", shapes[s], m->pci[i].bdf.value);
        machine_free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvl72),           cmocka_unit_test(test_domains),
        cmocka_unit_test(test_nested_switches), cmocka_unit_test(test_numa),
        cmocka_unit_test(test_no_switch),       cmocka_unit_test(test_beside),
        cmocka_unit_test(test_models),          cmocka_unit_test(test_refused),
        cmocka_unit_test(test_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
