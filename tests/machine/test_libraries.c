/* SPDX-License-Identifier: Apache-2.0 */
/* What NCCL and NVSHMEM will do, and the variables to set, for machines whose answer follows from
 * the documentation of the two. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "machine/checks/libraries.h"
#include "machine/routes/whatif.h"

static struct library_plan plan;

/* The plan of a recorded or described machine after changes. */
static void make_plan(const char *name, const char *changes)
{
    char path[512];
    struct machine *m;
    snprintf(path, sizeof path, MACHINES "/%s.json", name);
    if (machine_load(strchr(name, ' ') ? name : path, &m))
        fail_msg("%s", weft_last_error());
    if (changes && whatif_apply(m, changes))
        fail_msg("%s: %s", name, weft_last_error());
    libraries_free(&plan);
    libraries_plan(m, &plan);
    machine_free(m);
}

/* Number of pairs or GPUs for which a library does something whose words contain `does`; 0 for a
 * collective that has them, -1: none. */
static int count_of(const char *library, const char *scope, const char *does)
{
    for (int i = 0; i < plan.n_uses; i++)
        if (strcmp(plan.uses[i].library, library) == 0 && strstr(plan.uses[i].scope, scope) &&
            strstr(plan.uses[i].does, does))
            return plan.uses[i].n;
    return -1;
}

/* NULL: the variable is not advised; "?": it is, without a value. */
static const char *value_of(const char *name)
{
    for (int i = 0; i < plan.n_variables; i++)
        if (strcmp(plan.variables[i].name, name) == 0)
            return plan.variables[i].value ? plan.variables[i].value : "?";
    return NULL;
}

static const char *why_of(const char *name)
{
    for (int i = 0; i < plan.n_variables; i++)
        if (strcmp(plan.variables[i].name, name) == 0)
            return plan.variables[i].why;
    return NULL;
}

static void test_uses(void **state)
{
    static const struct {
        const char *machine, *change, *library, *scope, *does;
        int n;
    } cases[] = {
        /* pairs */
        {"h200-8-vm", NULL, "NCCL", "pairs", "P2P over NVLink", 28},
        {"h200-8-vm", "set p2p[0].write not-supported", "NCCL", "pairs", "stops with an error", 1},
        {"h200-8-vm", "set p2p[0].write not-supported", "NVSHMEM", "pairs", "fails", 1},
        {"dgx-1v", NULL, "NCCL", "pairs", "through another GPU", 12},
        {"dgx-1v", NULL, "NVSHMEM", "pairs", "IBRC", 12},
        {"geforce-2-acs", NULL, "NCCL", "pairs", "SHM (through host memory): the driver", 1},
        {"4 h100, 2 gpu per pcie-switch, 2 socket", NULL, "NCCL", "pairs", "P2P over PCIe", 2},
        {"4 h100, 2 gpu per pcie-switch, 2 socket", NULL, "NCCL", "pairs", "distance SYS", 4},
        {"2 h100, 2 socket", "set system.cpu_vendor AuthenticAMD", "NCCL", "pairs", "P2P over PCIe",
         1},
        {"2 h100, 2 socket", "set system.cpu_vendor GenuineIntel", "NCCL", "pairs", "SHM", 1},
        {"vm-p2p-clique", NULL, "NCCL", "pairs", "distance PHB", 2},
        /* collectives */
        {"h200-8-vm", NULL, "NCCL", "collectives", "NVLS, if", 0},
        {"h200-8-vm", "set gpus[0].fabric_state in-progress", "NCCL", "collectives",
         "no NVLS: fabric", 0},
        {"h200-2-vm", "set gpus[0].multicast yes; set gpus[1].multicast yes", "NCCL", "collectives",
         "NVLS: the driver offers", 0},
        {"h200-2-vm", "set gpus[1].multicast yes", "NCCL", "collectives", "NVLS, if", 0},
        {"h200-2-vm", "set gpus[1].multicast no", "NCCL", "collectives",
         "no NVLS: the driver offers no multicast for gpu1", 0},
        {"dgx-a100", NULL, "NCCL", "collectives", "no NVLS: it needs Hopper", 0},
        {"dgx-1v", NULL, "NCCL", "collectives", "no NVLS: no NVSwitch", 0},
        /* other hosts */
        {"dgx-a100", NULL, "NCCL", "hosts", "NET/IB with GPUDirect RDMA", 8},
        {"dgx-a100", NULL, "NVSHMEM", "hosts", "IBRC", 8},
        {"dgx-a100", "set nics[mlx5_0].driver efa", "NCCL", "hosts", "aws-ofi-nccl", 1},
        {"dgx-a100", "set nics[mlx5_0].driver bnxt_en", "NVSHMEM", "hosts",
         "fails: IBRC needs a mlx5 NIC, not bnxt_en", 1},
        {"dgx-a100", "set limits.uverbs_nodes 0", "NCCL", "hosts", "cannot open the NIC", 8},
        {"vm-p2p-clique", NULL, "NCCL", "hosts", "cannot register", 4},
        {"h200-8-vm", NULL, "NCCL", "hosts", "NET/Socket (TCP): there is no RDMA NIC", 8},
        {"4 h100, 2 socket, no pcie-switch, nic per 2 gpu", NULL, "NCCL", "hosts",
         "without GPUDirect RDMA: distance NODE", 4},
        /* ACS slows the near NICs, and the libraries take them all the same */
        {"8 h100, 2 socket, 4 gpu per pcie-switch, nic per 2 gpu, acs on", NULL, "NCCL", "hosts",
         "NET/IB with GPUDirect RDMA", 8},
        {"mi300x-8", NULL, "NCCL", "pairs", "", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        make_plan(cases[i].machine, cases[i].change);
        int n = count_of(cases[i].library, cases[i].scope, cases[i].does);
        if (n != cases[i].n)
            fail_msg("%s, %s: %s, %s \"%s\": %d, not %d", cases[i].machine, cases[i].change,
                     cases[i].library, cases[i].scope, cases[i].does, n, cases[i].n);
    }
    libraries_free(&plan);
}

static void test_variables(void **state)
{
    static const struct {
        const char *machine, *change, *name, *value; /* value NULL: not advised */
    } cases[] = {
        {"dgx-a100", NULL, "NVSHMEM_IB_ENABLE_IBGDA", "1"},
        {"dgx-a100", NULL, "NCCL_P2P_DISABLE", NULL},
        {"dgx-a100", NULL, "NCCL_NET_GDR_LEVEL", NULL},
        {"dgx-a100", NULL, "NCCL_IB_GID_INDEX", NULL},
        {"dgx-a100", "set ports[0].layer roce", "NCCL_IB_GID_INDEX", "?"},
        {"dgx-a100", "set nics[mlx5_0].driver efa", "NVSHMEM_REMOTE_TRANSPORT", "libfabric"},
        {"dgx-a100", "set nics[mlx5_0].driver efa", "NVSHMEM_LIBFABRIC_PROVIDER", "efa"},
        {"vm-p2p-clique", NULL, "NCCL_IB_GID_INDEX", "?"},
        {"vm-p2p-clique", "set gids[3].type roce-v1", "NCCL_IB_GID_INDEX", "?"},
        {"vm-p2p-clique", NULL, "NCCL_TOPO_FILE", "?"},
        {"h200-8-vm", NULL, "NCCL_TOPO_FILE", NULL},
        {"h200-2-measured", "set measured[0].proof failed", "NCCL_P2P_DISABLE", "1"},
        {"h200-2-measured", NULL, "NCCL_P2P_DISABLE", NULL},
        {"2 h100, 2 nic per gpu", "set ports[2].mbit 25000", "NCCL_IB_HCA",
         "=mlx5_0:1,mlx5_1:1,mlx5_3:1"},
        {"2 h100, 2 nic per gpu", "set ports[2].mbit 25000", "NVSHMEM_HCA_LIST",
         "mlx5_0:1,mlx5_1:1,mlx5_3:1"},
        {"2 h100, 2 nic per gpu", "set ports[2].mbit 25000; set ports[2].state down", "NCCL_IB_HCA",
         NULL},
        {"2 h100, 2 nic per gpu", NULL, "NCCL_IB_HCA", NULL},
        /* the slow NIC is the nearest of two GPUs */
        {"4 h100, 2 gpu per pcie-switch, nic per 2 gpu", "set ports[1].mbit 25000", "NCCL_IB_HCA",
         NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        make_plan(cases[i].machine, cases[i].change);
        const char *value = value_of(cases[i].name);
        if (!value != !cases[i].value || (value && strcmp(value, cases[i].value) != 0))
            fail_msg("%s, %s: %s is %s, not %s", cases[i].machine, cases[i].change, cases[i].name,
                     value ? value : "not advised",
                     cases[i].value ? cases[i].value : "not advised");
    }
    libraries_free(&plan);
}

/* Names that udev gives: NVSHMEM looks for mlx5*. */
static void test_prefix(void **state)
{
    struct machine *m;
    assert_int_equal(machine_load("2 h100, nic per 2 gpu", &m), WEFT_OK);
    text_set(m, &m->nics[0].driver, "mlx5_core");
    libraries_plan(m, &plan);
    assert_null(value_of("NVSHMEM_HCA_PREFIX"));
    libraries_free(&plan);
    text_set(m, &m->nics[0].name, "rocep80s0");
    text_set(m, &m->ports[0].nic, "rocep80s0");
    libraries_plan(m, &plan);
    assert_string_equal(value_of("NVSHMEM_HCA_PREFIX"), "rocep");
    libraries_free(&plan);
    machine_free(m);
}

/* Beyond NCCL's limits only what has been tested is advised, and only where it is faster. */
static void test_levels(void **state)
{
    struct machine *m;
    assert_int_equal(machine_load("2 h100, 2 socket, no pcie-switch, nic per 2 gpu", &m), WEFT_OK);
    for (int i = 0; i < 2; i++) {
        struct machine_measured *measured = machine_add_measured(m);
        text_set(m, &measured->a, i ? "gpu1" : "gpu0");
        text_set(m, &measured->b, i ? "gpu0" : "gpu1");
        text_set(m, &measured->proof, "proven");
        struct machine_rung *rung = machine_add_rung(m);
        number_set(&rung->gpu, i);
        text_set(m, &rung->nic, "mlx5_0");
        text_set(m, &rung->rung, "dmabuf");
        text_set(m, &rung->result, "ok");
    }
    text_set(m, &m->system.cpu_vendor, "GenuineIntel");
    libraries_plan(m, &plan);
    assert_int_equal(count_of("NCCL", "pairs", "SHM"), 1);
    assert_string_equal(value_of("NCCL_P2P_LEVEL"), "SYS");
    assert_string_equal(value_of("NCCL_NET_GDR_LEVEL"), "SYS");
    libraries_free(&plan);
    text_set(m, &m->measured[1].proof, "failed");
    libraries_plan(m, &plan);
    assert_null(value_of("NCCL_P2P_LEVEL"));
    libraries_free(&plan);
    machine_free(m);
}

/* Each letter is a GID of a port, by index: l link-local and g routable IPv6, m link-local and i
 * routable IPv4, small of RoCE v1, capital of RoCE v2; '-' an empty entry. */
static void add_gids(struct machine *m, size_t port, const char *table)
{
    for (int i = 0; table[i]; i++) {
        if (table[i] == '-')
            continue;
        struct machine_gid *gid = machine_add_gid(m);
        gid->nic = m->ports[port].nic;
        gid->port = m->ports[port].port;
        number_set(&gid->index, i);
        text_set(m, &gid->type, strchr("LGMI", table[i]) ? "roce-v2" : "roce-v1");
        text_set(m, &gid->family, strchr("miMI", table[i]) ? "ipv4" : "ipv6");
        number_set(&gid->routable, strchr("giGI", table[i]) != NULL);
    }
}

/* Which index of the GID tables of two ports is advised: the rule of NCCL 2.21 takes the first 'I'
 * or 'M', else the first 'i' or 'm', else index 0. */
static void test_gids(void **state)
{
    static const struct {
        const char *first, *second;
        const char *value; /* "?": without a value; NULL: nothing is advised */
        const char *words; /* in the reason */
    } cases[] = {
        {"I", "I", NULL, NULL},
        {"lLiI", "lLiI", "?",
         "before 2.21, which takes GID 0 (RoCE v1, link-local) of mlx5_0: GID 3"},
        {"lLiIgG", "lLgGiI", "?", "no good index in common"},
        {"IlL", "lLI", "?", "before 2.21, which takes GID 0 (RoCE v1, link-local) of mlx5_1"},
        {"lLgG", "lLgG", "3",
         "GID 0 (RoCE v1, link-local) of mlx5_0 is taken, GID 3 (RoCE v2, IPv6)"},
        {"lLgG", "lLiI", "3", "of mlx5_0 is taken"},
        {"lLiI", "lLgG", "3", "of mlx5_1 is taken"},
        {"lLiG", "lLiG", "3", "GID 2 (RoCE v1, IPv4) of mlx5_0 is taken, GID 3 (RoCE v2, IPv6)"},
        {"lMI", "lMI", "2",
         "GID 1 (RoCE v2, link-local) of mlx5_0 is taken, GID 2 (RoCE v2, IPv4)"},
        {"-GI", "-GI", "?", "takes GID 0 (empty) of mlx5_0: GID 2"},
        {"-G", "-G", "1", "GID 0 (empty) of mlx5_0 is taken, GID 1 (RoCE v2, IPv6)"},
        {"-G", "--G", "?", "no good index in common"},
        {"G", "G", NULL, NULL},
        {"lL", "lL", NULL, NULL}, /* ROCE-GID */
        {"", "", "?", "takes GID 0: the index"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct machine *m;
        assert_int_equal(machine_load("2 h100, nic per gpu", &m), WEFT_OK);
        for (size_t k = 0; k < 2; k++)
            text_set(m, &m->ports[k].layer, "roce");
        add_gids(m, 0, cases[i].first);
        add_gids(m, 1, cases[i].second);
        libraries_plan(m, &plan);
        const char *value = value_of("NCCL_IB_GID_INDEX"), *why = why_of("NCCL_IB_GID_INDEX");
        if (!value != !cases[i].value || (value && strcmp(value, cases[i].value) != 0) ||
            (value && !strstr(why, cases[i].words)))
            fail_msg("%s, %s: %s: %s", cases[i].first, cases[i].second,
                     value ? value : "not advised", value ? why : "");
        /* NVSHMEM follows the rule of NCCL 2.21 */
        bool old = !value || strstr(why, "before 2.21");
        assert_true(old == !value_of("NVSHMEM_IB_GID_INDEX"));
        libraries_free(&plan);
        machine_free(m);
    }
}

/* The fastest interface, where NCCL would take the first. */
static void test_interface(void **state)
{
    static const struct {
        int64_t mbit[2];
        const char *value;
    } cases[] = {{{1000, 100000}, "=eth1"}, {{100000, 1000}, NULL}, {{1000, 1000}, NULL}};
    for (int i = 0; i < 3; i++) {
        struct machine *m;
        assert_int_equal(machine_load("2 h100", &m), WEFT_OK);
        for (int k = 0; k < 2; k++) {
            struct machine_netif *one = machine_add_netif(m);
            text_set(m, &one->name, k ? "eth1" : "eth0");
            text_set(m, &one->kind, "ethernet");
            text_set(m, &one->state, "up");
            number_set(&one->mbit, cases[i].mbit[k]);
        }
        libraries_plan(m, &plan);
        const char *value = value_of("NCCL_SOCKET_IFNAME");
        assert_true(!value == !cases[i].value);
        if (value)
            assert_string_equal(value, cases[i].value);
        libraries_free(&plan);
        machine_free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uses),      cmocka_unit_test(test_variables),
        cmocka_unit_test(test_prefix),    cmocka_unit_test(test_levels),
        cmocka_unit_test(test_interface), cmocka_unit_test(test_gids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
