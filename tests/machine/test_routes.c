/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of the published architecture of each machine, checked on the recorded and described ones:
 * link counts, bandwidth of each pair, the root-complex rule, relays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "machine/routes/routes.h"
#include "machine/routes/whatif.h"

static struct machine *load(const char *name)
{
    char path[512];
    struct machine *machine;
    snprintf(path, sizeof path, MACHINES "/%s.json", name);
    if (machine_load(path, &machine))
        fail_msg("%s", weft_last_error());
    return machine;
}

static struct machine *describe(const char *description)
{
    struct machine *m;
    assert_int_equal(machine_load(description, &m), WEFT_OK);
    return m;
}

static struct routes between(const struct machine *m, const char *a, const char *b)
{
    struct endpoint x, y;
    struct routes routes;
    assert_int_equal(endpoint_find(m, a, &x), WEFT_OK);
    assert_int_equal(endpoint_find(m, b, &y), WEFT_OK);
    routes_between(m, &x, &y, &routes);
    return routes;
}

static void assert_near(int64_t mbps, int64_t expected)
{
    if (mbps < expected * 95 / 100 || mbps > expected * 105 / 100)
        fail_msg("%lld MB/s is not near %lld", (long long)mbps, (long long)expected);
}

/* V100 white paper, hybrid cube mesh: each GPU has six links, at most two to one peer; it has no
 * link to three of the seven peers, the corners of the cube that are not adjacent. */
static void test_cube_mesh(void **state)
{
    struct machine *m = load("dgx-1v");
    for (int a = 0; a < 8; a++) {
        int links = 0, without = 0;
        for (int b = 0; b < 8; b++) {
            struct link_bundle bundle = routes_links(m, a, b);
            assert_in_range(bundle.links, 0, 2);
            assert_int_equal(bundle.links, routes_links(m, b, a).links);
            links += bundle.links;
            without += a != b && !bundle.links;
            assert_near(bundle.mbps, 24200 * bundle.links);
        }
        assert_int_equal(links, 6);
        assert_int_equal(without, 3);
    }
    struct routes far = between(m, "gpu0", "gpu7");
    const struct route *best = routes_best(&far);
    assert_int_equal(best->kind, ROUTE_RELAY);
    assert_int_equal(best->via, 4); /* two links on both legs */
    assert_near(best->mbps, 48400);
    struct routes near = between(m, "gpu0", "gpu1");
    assert_int_equal(routes_best(&near)->kind, ROUTE_LINK);
    machine_free(m);
}

static void test_switches(void **state)
{
    static const struct {
        const char *name;
        int gpus, links;
        int64_t mbps;
    } machines[] = {
        {"dgx-2", 16, 6, 145000}, {"dgx-a100", 8, 12, 275000}, {"h200-8-vm", 8, 18, 395600}};
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
        struct machine *m = load(machines[i].name);
        assert_int_equal(m->n_gpus, machines[i].gpus);
        for (int a = 0; a < machines[i].gpus; a++)
            for (int b = 0; b < machines[i].gpus; b++) {
                struct link_bundle bundle = routes_links(m, a, b);
                if (a == b)
                    continue;
                assert_true(bundle.through_switch);
                assert_int_equal(bundle.links, machines[i].links);
                assert_near(bundle.mbps, machines[i].mbps);
            }
        machine_free(m);
    }
}

static void test_root_complex_rule(void **state)
{
    struct machine *m = load("p100-8");
    for (int a = 0; a < 8; a++)
        for (int b = 0; b < 8; b++) {
            char x[16], y[16];
            snprintf(x, sizeof x, "gpu%d", a);
            snprintf(y, sizeof y, "gpu%d", b);
            struct routes routes = between(m, x, y);
            if (a != b)
                assert_int_equal(routes_best(&routes)->kind,
                                 a / 4 == b / 4 ? ROUTE_PEER : ROUTE_STAGED);
        }
    /* The rule also holds where the driver was not queried. */
    m->n_p2p = 0;
    struct routes across = between(m, "gpu0", "gpu4"), under = between(m, "gpu0", "gpu3");
    assert_int_equal(routes_best(&across)->kind, ROUTE_STAGED);
    assert_int_equal(routes_best(&under)->kind, ROUTE_PEER);
    machine_free(m);
}

static void test_levels(void **state)
{
    static const struct {
        const char *machine, *a, *b, *level;
    } cases[] = {
        {"dgx-1v", "gpu0", "mlx5_0", "PIX"},      {"dgx-1v", "gpu0", "mlx5_1", "PHB"},
        {"dgx-1v", "gpu0", "mlx5_2", "SYS"},      {"dgx-2", "gpu0", "mlx5_0", "PIX"},
        {"dgx-2", "gpu0", "mlx5_1", "PXB"},       {"dgx-2", "gpu0", "mlx5_2", "NODE"},
        {"dgx-a100", "gpu0", "mlx5_0", "PXB"},    {"dgx-a100", "gpu0", "mlx5_2", "SYS"},
        {"geforce-2-acs", "gpu0", "gpu1", "PIX"}, {"geforce-2-acs", "gpu0", "nvme0n1", "NODE"},
        {"vm-p2p-clique", "gpu0", "gpu3", "?"},   {"mi300x-8", "gpu3", "bnxt_re3", "PIX"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct machine *m = load(cases[i].machine);
        struct endpoint a, b;
        assert_int_equal(endpoint_find(m, cases[i].a, &a), WEFT_OK);
        assert_int_equal(endpoint_find(m, cases[i].b, &b), WEFT_OK);
        assert_string_equal(level_name(routes_level(m, a.pci, b.pci)), cases[i].level);
        machine_free(m);
    }
}

static void test_infinity_fabric(void **state)
{
    struct machine *m = load("mi300x-8");
    struct link_bundle bundle = routes_links(m, 0, 7);
    assert_int_equal(bundle.links, 1);
    assert_string_equal(bundle.kind, "xgmi");
    assert_near(bundle.mbps, 48000);
    /* Six relays besides the direct link; Weft uses none of them, because it drives no AMD GPU. */
    struct routes routes = between(m, "gpu0", "gpu7");
    int indices[ROUTES_MOST], relays = 0;
    int64_t total;
    for (int i = 0; i < routes.n; i++)
        relays += routes.list[i].kind == ROUTE_RELAY && routes.list[i].usable == ANSWER_YES;
    assert_int_equal(relays, 6);
    assert_int_equal(routes_disjoint(&routes, indices, &total), 0);
    assert_int_equal(routes_best(&routes)->kind, ROUTE_LINK);
    assert_false(routes_best(&routes)->offered);
    machine_free(m);
}

/* Between two GPUs peer access comes first, though copies through the memory of these CPUs are
 * expected to be faster. */
static void test_access_before_speed(void **state)
{
    struct machine *m;
    assert_int_equal(machine_load("2 gb200, 2 socket", &m), WEFT_OK);
    struct routes routes = between(m, "gpu0", "gpu1");
    assert_int_equal(routes.list[0].kind, ROUTE_PEER);
    assert_int_equal(routes.list[1].kind, ROUTE_STAGED);
    assert_true(routes.list[1].mbps > routes.list[0].mbps);
    machine_free(m);
}

static void test_near_names(void **state)
{
    struct machine *m = load("dgx-a100");
    struct endpoint end;
    assert_int_equal(endpoint_find(m, "mlx5_4", &end), WEFT_ERR_ARGUMENT);
    assert_non_null(strstr(weft_last_error(), "nearest: mlx5_"));
    assert_int_equal(endpoint_find(m, "gpu8", &end), WEFT_ERR_ARGUMENT);
    assert_int_equal(endpoint_find(m, "0000:47:00.0", &end), WEFT_OK);
    assert_string_equal(end.name, "gpu2");
    assert_int_equal(endpoint_find(m, "MLX5_1", &end), WEFT_OK);
    assert_string_equal(end.name, "mlx5_1");
    assert_int_equal(endpoint_find(m, "nic2", &end), WEFT_OK);
    assert_string_equal(end.name, "mlx5_2");
    assert_int_equal(endpoint_find(m, "7", &end), WEFT_OK);
    assert_string_equal(end.name, "gpu7");
    assert_int_equal(endpoint_find(m, "8", &end), WEFT_ERR_ARGUMENT);
    assert_int_equal(endpoint_find(m, "", &end), WEFT_ERR_ARGUMENT);
    machine_free(m);
}

static void test_lose_links(void **state)
{
    struct machine *m = load("h200-8-vm");
    assert_int_equal(whatif_apply(m, "lose nvlink 2:switch; lose nvlink 2:switch"), WEFT_OK);
    assert_int_equal(routes_links(m, 2, 5).links, 16);
    assert_int_equal(routes_links(m, 5, 2).links, 16);
    assert_int_equal(routes_links(m, 5, 6).links, 18);
    assert_int_equal(whatif_apply(m, "lose nvlink 2:switch all"), WEFT_OK);
    struct routes routes = between(m, "gpu2", "gpu5");
    assert_int_equal(routes_best(&routes)->kind, ROUTE_PEER);
    assert_int_equal(whatif_apply(m, "lose nvlink 2:switch"), WEFT_ERR_ARGUMENT);
    assert_non_null(strstr(weft_last_error(), "change 1"));
    machine_free(m);
}

static int64_t rate_of(const struct machine *m, const char *a, const char *b, enum route_kind kind)
{
    struct routes routes = between(m, a, b);
    for (int i = 0; i < routes.n; i++)
        if (routes.list[i].kind == kind)
            return routes.list[i].mbps;
    return 0;
}

static int64_t latency_of(const struct machine *m, const char *a, const char *b)
{
    struct routes routes = between(m, a, b);
    for (int i = 0; i < routes.n; i++)
        if (routes.list[i].kind == ROUTE_PEER)
            return routes.list[i].latency_ns;
    return 0;
}

/* The expectation does not exceed measured values: QPI below 300 MB/s (Potluri et al., ICPP 2013),
 * UPI 11 GB/s (linux-rdma/perftest#241), Rome 21.8 GB/s (NVIDIA/nvbandwidth#50), Genoa 39 GB/s
 * (rtx6kpro). */
static void test_across_packages(void **state)
{
    static const struct {
        const char *machine, *a, *b;
        int64_t most;
    } cases[] = {
        {"dgx-1v", "gpu0", "mlx5_2", 300},
        {"dgx-1v", "gpu0", "gpu7", 300},
        {"p100-8", "gpu0", "gpu4", 300},
        {"dgx-2", "gpu0", "mlx5_7", 6300},
        {"container-2-of-8", "gpu0", "gpu1", 11000},
        {"dgx-a100", "gpu0", "mlx5_8", 21800},
        {"mi300x-8", "gpu0", "bnxt_re7", 39000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct machine *m = load(cases[i].machine);
        int64_t mbps = rate_of(m, cases[i].a, cases[i].b, ROUTE_PEER);
        if (mbps > cases[i].most || mbps < cases[i].most * 9 / 10)
            fail_msg("%s: %s %s %lld MB/s, measured are %lld", cases[i].machine, cases[i].a,
                     cases[i].b, (long long)mbps, (long long)cases[i].most);
        machine_free(m);
    }
}

/* ACS and the IOMMU change the expected rates; turning them off restores them. */
static void test_redirected(void **state)
{
    struct machine *m = describe("4 h100, nic per gpu, 2 gpu per pcie-switch, acs on, iommu on");
    struct machine *free_way = describe("4 h100, nic per gpu, 2 gpu per pcie-switch");
    int64_t direct = rate_of(free_way, "gpu0", "gpu1", ROUTE_PEER);
    int64_t fast = latency_of(free_way, "gpu0", "gpu1");
    assert_near(direct, 55400);
    /* With both on, the lower rate counts; with one off, that of the other. */
    assert_near(rate_of(m, "gpu0", "gpu1", ROUTE_PEER), direct * 790 / 1000);
    assert_int_equal(latency_of(m, "gpu0", "gpu1"), fast + 450 + 400);
    assert_near(rate_of(m, "gpu0", "mlx5_0", ROUTE_PEER), 31000); /* 27 of 48 GB/s of the link */
    assert_int_equal(whatif_apply(m, "set iommu passthrough"), WEFT_OK);
    assert_near(rate_of(m, "gpu0", "gpu1", ROUTE_PEER), direct * 830 / 1000);
    assert_int_equal(latency_of(m, "gpu0", "gpu1"), fast + 450);
    assert_int_equal(whatif_apply(m, "drop acs all"), WEFT_OK);
    assert_int_equal(rate_of(m, "gpu0", "gpu1", ROUTE_PEER), direct);
    assert_int_equal(latency_of(m, "gpu0", "gpu1"), fast);
    assert_near(rate_of(m, "gpu0", "mlx5_0", ROUTE_PEER), 47500);
    /* A translating IOMMU redirects without ACS; traffic between two switches is not redirected. */
    assert_int_equal(whatif_apply(m, "set iommu translated"), WEFT_OK);
    assert_near(rate_of(m, "gpu0", "mlx5_0", ROUTE_PEER), 31000);
    assert_int_equal(latency_of(m, "gpu0", "gpu2") - latency_of(free_way, "gpu0", "gpu2"), 400);
    /* The switch's upstream link limits the traffic that crosses it. */
    assert_int_equal(whatif_apply(m, "set iommu off; width 0000:11:00.0 4"), WEFT_OK);
    assert_int_equal(rate_of(m, "gpu0", "gpu1", ROUTE_PEER), direct);
    assert_int_equal(whatif_apply(m, "set acs 0000:12:00.0"), WEFT_OK);
    assert_near(rate_of(m, "gpu0", "gpu1", ROUTE_PEER), direct / 4 * 830 / 1000);
    machine_free(m);
    machine_free(free_way);
}

/* Grace Hopper white paper: 900 GB/s both ways; 346 GB/s host to GPU (NVIDIA/nvbandwidth#23). */
static void test_cpu_links(void **state)
{
    struct machine *m = load("gh200");
    struct link_bundle bundle = routes_cpu_links(m, 0);
    assert_int_equal(bundle.links, 10);
    assert_int_equal(bundle.line_mbps, 450000);
    assert_near(rate_of(m, "host", "gpu0", ROUTE_HOST), 346000);
    assert_near(rate_of(m, "gpu0", "mlx5_0", ROUTE_PEER), 47500);
    /* Without these links the GPU uses its PCIe link. */
    assert_int_equal(whatif_apply(m, "set links[0].active no"), WEFT_OK);
    assert_int_equal(routes_cpu_links(m, 0).links, 9);
    m->n_links = 0;
    machine_index(m);
    /* Memory that is a NUMA node shows a coherent link, of whose rate nothing is known. */
    assert_int_equal(rate_of(m, "host", "gpu0", ROUTE_HOST), 0);
    m->gpus[0].memory_numa.known = false;
    assert_near(rate_of(m, "host", "gpu0", ROUTE_HOST), 55400);
    machine_free(m);
    /* Four superchips: NVLinks to each peer; the CPU interconnect is of unknown rate. */
    m = load("gh200-4");
    assert_int_equal(routes_links(m, 1, 3).links, 6);
    assert_int_equal(routes_links(m, 1, 3).line_mbps, 6 * 26562);
    assert_near(rate_of(m, "numa2", "gpu2", ROUTE_HOST), 346000);
    assert_int_equal(rate_of(m, "numa1", "gpu2", ROUTE_HOST), 0);
    assert_int_equal(whatif_apply(m, "set system.socket_link_mbps 100000"), WEFT_OK);
    assert_near(rate_of(m, "numa1", "gpu2", ROUTE_HOST), 100000);
    machine_free(m);
    /* A tray: half of the links for each GPU; a NIC of the other CPU passes its port's rate. */
    m = load("gb200-tray");
    assert_int_equal(routes_cpu_links(m, 2).line_mbps, 5 * 44712);
    assert_near(rate_of(m, "gpu2", "mlx5_4", ROUTE_PEER), 47500);
    assert_near(rate_of(m, "gpu2", "mlx5_6", ROUTE_PEER), 23750);
    assert_near(rate_of(m, "gpu2", "mlx5_0", ROUTE_PEER), 47500);
    assert_int_equal(whatif_apply(m, "set system.socket_link_mbps 20000"), WEFT_OK);
    assert_near(rate_of(m, "gpu2", "mlx5_0", ROUTE_PEER), 20000);
    struct routes routes = between(m, "gpu2", "mlx5_4");
    assert_string_equal(routes_best(&routes)->text, "GPUDirect RDMA over NVLink-C2C");
    machine_free(m);
    /* A NIC behind the PCIe switch of the GPU does not go through the CPU. */
    m = describe("2 gb200, 2 gpu per pcie-switch, nic per gpu");
    routes = between(m, "gpu0", "mlx5_0");
    assert_string_equal(routes_best(&routes)->text, "GPUDirect RDMA (PIX)");
    machine_free(m);
}

/* A registration that failed because a module was missing was not tested with the module. */
static void test_load_module(void **state)
{
    struct machine *m = load("vm-p2p-clique");
    struct routes routes = between(m, "gpu0", "mlx5_0");
    assert_int_equal(routes.list[routes.n - 1].usable, ANSWER_NO);
    assert_int_equal(whatif_apply(m, "load module nvidia_peermem"), WEFT_OK);
    routes = between(m, "gpu0", "mlx5_0");
    assert_int_equal(routes_best(&routes)->kind, ROUTE_PEER);
    assert_int_equal(routes_best(&routes)->usable, ANSWER_UNKNOWN);
    machine_free(m);
}

/* Through host memory a NIC reaches 15 of 47 GB/s, and proportionally less where its PCIe link is
 * slower than its port. */
static void test_staged_nic(void **state)
{
    struct machine *m = load("dgx-a100");
    assert_near(rate_of(m, "gpu0", "mlx5_0", ROUTE_STAGED), 25000 * 95 / 100 * 15 / 47);
    assert_int_equal(whatif_apply(m, "set ports[0].mbit 400000"), WEFT_OK);
    assert_near(rate_of(m, "gpu0", "mlx5_0", ROUTE_STAGED), 26300 * 15 / 47);
    machine_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cube_mesh),         cmocka_unit_test(test_switches),
        cmocka_unit_test(test_root_complex_rule), cmocka_unit_test(test_levels),
        cmocka_unit_test(test_infinity_fabric),   cmocka_unit_test(test_access_before_speed),
        cmocka_unit_test(test_near_names),        cmocka_unit_test(test_lose_links),
        cmocka_unit_test(test_across_packages),   cmocka_unit_test(test_redirected),
        cmocka_unit_test(test_cpu_links),         cmocka_unit_test(test_load_module),
        cmocka_unit_test(test_staged_nic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
