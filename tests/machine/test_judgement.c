/* SPDX-License-Identifier: Apache-2.0 */
/* What counts as a fault: measured rates against an adjustable threshold, a link that stays slow
 * under load, old counters, one port of several, NICs at equal distance; and remedies that fit the
 * part they are for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "machine/checks/checks.h"
#include "machine/checks/doctor.h"
#include "machine/checks/explain.h"
#include "machine/routes/whatif.h"

static struct machine *load(const char *name, const char *changes)
{
    char path[512];
    struct machine *m;
    bool text = strncmp(name, "smi-", 4) == 0; /* of nvidia-smi topo -m */
    snprintf(path, sizeof path, text ? MACHINES "/../imports/%s.txt" : MACHINES "/%s.json", name);
    if (machine_load(strchr(name, ' ') ? name : path, &m))
        fail_msg("%s", weft_last_error());
    if (changes && whatif_apply(m, changes))
        fail_msg("%s: %s", name, weft_last_error());
    return m;
}

/* Weight of a reason in the diagnosis of the whole machine; -1: not reported. */
static int weight_of(const struct machine *m, enum reason reason, char *remedy)
{
    static struct diagnosis d;
    int weight = -1;
    doctor_examine(m, &d);
    for (int i = 0; i < d.findings.n; i++)
        if (d.findings.list[i].reason == reason &&
            (weight < 0 || (int)d.findings.list[i].weight < weight)) {
            weight = (int)d.findings.list[i].weight;
            if (remedy)
                snprintf(remedy, 400, "%s", d.findings.list[i].remedy);
        }
    findings_free(&d.findings);
    return weight;
}

static void test_weights(void **state)
{
    static const struct {
        const char *machine, *change;
        enum reason reason;
        int weight; /* -1: not reported */
    } cases[] = {
        /* GPU and host: expected 55.4 GB/s, threshold 44.3 GB/s. */
        {"h200-2-measured", NULL, REASON_HOST_SLOW, -1},
        {"h200-2-measured", "set measured[1].write_mbps 44400", REASON_HOST_SLOW, -1},
        {"h200-2-measured", "set measured[1].write_mbps 44200", REASON_HOST_SLOW, WEIGHT_SLOW},
        {"h200-2-measured", "set measured[1].read_mbps 44200", REASON_HOST_SLOW, WEIGHT_SLOW},
        {"h200-2-measured", "set measured[1].write_mbps 44200; set limits.fault_percent 75",
         REASON_HOST_SLOW, -1},
        {"h200-2-measured", "set limits.fault_percent 100", REASON_HOST_SLOW, WEIGHT_SLOW},
        /* Pairs of GPUs: expected 395.9 GB/s. */
        {"h200-2-measured", "set measured[0].write_mbps 320000", REASON_P2P_SLOW, -1},
        {"h200-2-measured", "set measured[0].write_mbps 310000", REASON_P2P_SLOW, WEIGHT_SLOW},
        {"h200-2-measured", "set measured[0].write_mbps 310000; set limits.fault_percent 70",
         REASON_P2P_SLOW, -1},
        {"h200-2-measured", "set measured[0].write_mbps 380000; set limits.fault_percent 98",
         REASON_P2P_SLOW, WEIGHT_SLOW},
        /* GPU and NIC: expected 23.75 GB/s. */
        {"dgx-a100", "set ladder[4].mbps 19100", REASON_GDR_SLOW, -1},
        {"dgx-a100", "set ladder[4].mbps 18900", REASON_GDR_SLOW, WEIGHT_SLOW},
        {"dgx-a100", "set ladder[4].mbps 18900; set limits.fault_percent 60", REASON_GDR_SLOW, -1},
        /* A slow link of an idle GPU is no fault; under load it is. */
        {"h200-2-measured", "set gpus[0].pcie_gen 1", REASON_PCIE_GEN, -1},
        {"dgx-a100", "set pci[0000:07:00.0].gen 1", REASON_PCIE_GEN, -1},
        {"h200-2-measured", "set measured[1].pcie_gen 5", REASON_PCIE_GEN, -1},
        {"h200-2-measured", "set measured[1].pcie_gen 1", REASON_PCIE_GEN, WEIGHT_SLOW},
        /* Totals over a long time. */
        {"dgx-a100", "set ports[2].symbol_errors 900", REASON_NIC_ERRORS, WEIGHT_NOTE},
        {"dgx-a100", "set gpus[0].pcie_replays 900", REASON_PCIE_REPLAYS, WEIGHT_NOTE},
        {"dgx-a100", "set links[0].crc_errors 900", REASON_NVLINK_ERRORS, WEIGHT_NOTE},
        /* The only port of a NIC, and one of two. */
        {"dgx-a100", "set ports[2].state down", REASON_NIC_DOWN, WEIGHT_OFF},
        {"dgx-a100", "set ports[2].state down; set ports[3].nic mlx5_2", REASON_NIC_DOWN,
         WEIGHT_NOTE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct machine *m = load(cases[i].machine, cases[i].change);
        int weight = weight_of(m, cases[i].reason, NULL);
        if (weight != cases[i].weight)
            fail_msg("%s, %s: %s has weight %d, not %d", cases[i].machine, cases[i].change,
                     reason_table[cases[i].reason].code, weight, cases[i].weight);
        machine_free(m);
    }
}

/* The same figures in the other direction, recorded as host to GPU. */
static void test_host_first(void **state)
{
    struct machine *m = load("h200-2-measured",
                             "set measured[1].a host; set measured[1].b gpu0; "
                             "set measured[1].write_mbps 55000; set measured[1].read_mbps 20000");
    static struct verdict v;
    assert_int_equal(explain_pair(m, "host", "gpu0", &v), WEFT_OK);
    assert_true(findings_have(&v.findings, REASON_HOST_SLOW));
    for (int i = 0; i < v.findings.n; i++)
        if (v.findings.list[i].reason == REASON_HOST_SLOW)
            assert_non_null(strstr(v.findings.list[i].evidence,
                                   "gpu0: 20.0 GB/s to the host, 55.0 from it; 55."));
    verdict_free(&v);
    machine_free(m);
}

/* The index of the NIC of each GPU; -1: none. */
static void share(const struct machine *m, int *nic_of)
{
    struct assignment a;
    assign_nics(m, &a);
    for (int i = 0; i < a.n; i++)
        nic_of[i] = a.list[i].nic ? (int)(a.list[i].nic - m->nics) : -1;
    assignment_free(&a);
}

/* Two GPUs and two NICs below one switch get one each; with one active NIC they share it. */
static void test_ties(void **state)
{
    struct machine *m = load("4 h100, nic per gpu, 2 gpu per pcie-switch", NULL);
    int nic_of[4];
    share(m, nic_of);
    for (int i = 0; i < 4; i++)
        assert_int_equal(nic_of[i], i);
    assert_int_equal(weight_of(m, REASON_NIC_SHARED, NULL), -1);
    assert_int_equal(whatif_apply(m, "set ports[1].state down"), WEFT_OK);
    share(m, nic_of);
    assert_int_equal(nic_of[0], 0);
    assert_int_equal(nic_of[1], 0);
    assert_int_equal(nic_of[2], 2);
    assert_int_equal(nic_of[3], 3);
    assert_int_equal(weight_of(m, REASON_NIC_SHARED, NULL), WEIGHT_NOTE);
    for (size_t i = 0; i < m->n_ports; i++)
        text_set(m, &m->ports[i].state, "down");
    share(m, nic_of);
    assert_int_equal(nic_of[3], -1);
    machine_free(m);
    /* DGX A100: two GPUs and two NICs on each tree of switches. */
    m = load("dgx-a100", NULL);
    int nics[8], taken[16] = {0};
    share(m, nics);
    for (int i = 0; i < 8; i++)
        assert_int_equal(taken[nics[i]]++, 0);
    machine_free(m);
}

/* No part is called ok that is missing or does not support the function. */
static void test_never_good(void **state)
{
    static const struct {
        const char *machine, *change, *check, *state;
    } cases[] = {
        {"no-gpu", NULL, "drivers", "absent"},
        {"no-gpu", NULL, "gpus", "absent"},
        {"no-gpu", NULL, "links", "absent"},
        {"no-gpu", NULL, "pairs", "absent"},
        {"no-gpu", NULL, "rdma", "absent"},
        {"no-gpu", NULL, "gda", "absent"},
        {"no-gpu", NULL, "storage", "absent"},
        {"mi300x-8", NULL, "drivers", "absent"},
        {"mi300x-8", NULL, "gda", "absent"},
        {"mi300x-8", "set gpus[0].vendor nvidia", "gda", "not-offered"},
        {"geforce-2-acs", NULL, "storage", "not-offered"},
        {"dgx-a100", NULL, "drivers", "good"},
        {"dgx-a100", NULL, "gda", "good"},
        {"dgx-a100", "set limits.uverbs_nodes 0", "gda", "not-offered"},
        {"dgx-a100", "set limits.uverbs_nodes 0", "rdma", "fault"},
        {"container-2-of-8", NULL, "gda", "not-offered"},
        {"smi-nics", NULL, "links", "not-known"},
        {"smi-nics", NULL, "gda", "not-known"},
        {"smi-nics", NULL, "storage", "not-known"},
        {"2 h100", NULL, "storage", "absent"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static struct diagnosis d;
        struct machine *m = load(cases[i].machine, cases[i].change);
        bool seen = false;
        doctor_examine(m, &d);
        for (int c = 0; c < DOCTOR_CHECKS; c++) {
            if (strcmp(d.checks[c].name, cases[i].check) != 0)
                continue;
            seen = true;
            if (strcmp(doctor_state(&d.checks[c]), cases[i].state) != 0)
                fail_msg("%s: %s is %s, not %s", cases[i].machine, cases[i].check,
                         doctor_state(&d.checks[c]), cases[i].state);
        }
        assert_true(seen);
        findings_free(&d.findings);
        machine_free(m);
    }
}

/* A RAID of NVMe drives: RAID levels with parity are not read directly, levels that NVIDIA does not
 * mention are unknown, and P2PDMA supports none. The distance of its drives is unknown, so whatever
 * is not off is unknown. */
static void test_raid_levels(void **state)
{
    static const struct {
        const char *change;
        bool off, told;
    } cases[] = {
        {"set disks[md1].raid_level raid0; load module nvidia_fs", false, false},
        {"set disks[md1].raid_level raid1; load module nvidia_fs", false, false},
        {"set disks[md1].raid_level raid4; load module nvidia_fs", true, true},
        {"set disks[md1].raid_level raid5; load module nvidia_fs", true, true},
        {"set disks[md1].raid_level raid6; load module nvidia_fs", true, true},
        {"set disks[md1].raid_level raid10; load module nvidia_fs", false, true},
        {"set disks[md1].raid_level raid0; set drivers.nvme_p2pdma yes; "
         "set drivers.driver 570.86.15",
         true, false},
        {"set disks[md1].kind nvme; set drivers.nvme_p2pdma yes; set drivers.driver 570.86.15",
         false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static struct verdict v;
        bool off = false, told = false;
        struct machine *m = load("dgx-a100", cases[i].change);
        assert_int_equal(explain_pair(m, "gpu2", "/raid/x", &v), WEFT_OK);
        for (int r = 0; r < v.routes.n; r++)
            off |= v.routes.list[r].kind == ROUTE_PEER && v.routes.list[r].usable == ANSWER_NO;
        for (int f = 0; f < v.findings.n; f++)
            told |= v.findings.list[f].reason == REASON_FILE_RAID_LEVEL;
        if (off != cases[i].off || told != cases[i].told)
            fail_msg("%s: off %d, told %d", cases[i].change, off, told);
        verdict_free(&v);
        machine_free(m);
    }
}

/* --- remedies --------------------------------------------------------------------------------- */

static void assert_no_remedy(const struct findings *findings, const char *word, const char *place)
{
    for (int i = 0; i < findings->n; i++)
        if (strstr(findings->list[i].remedy, word))
            fail_msg("%s: %s: %s", place, reason_table[findings->list[i].reason].code,
                     findings->list[i].remedy);
}

static void check_all(const struct machine *m, const char *word, const char *place)
{
    static struct diagnosis d;
    static struct verdict v;
    static const char *const ends[][2] = {{"gpu0", "gpu1"}, {"gpu0", "host"}, {"gpu0", "nic0"}};
    doctor_examine(m, &d);
    assert_no_remedy(&d.findings, word, place);
    findings_free(&d.findings);
    for (int i = 0; i < 3; i++) {
        if (explain_pair(m, ends[i][0], ends[i][1], &v) == WEFT_OK)
            assert_no_remedy(&v.findings, word, place);
        verdict_free(&v);
    }
}

/* NVIDIA's tools have no effect on AMD's GPUs, so no remedy mentions them. */
static void test_amd(void **state)
{
    static const char *const faults[] = {
        "set links[0].active no",
        "set links[0].mbps 1000",
        "set gpus[0].ecc_uncorrected 3",
        "set gpus[0].clock_reasons 64",
        "set gpus[0].mig yes",
        "set gpus[0].compute_mode prohibited",
        "set gpus[0].compute_mode exclusive",
        "set gpus[0].persistence no",
        "set gpus[0].fabric_state not-started",
        "set gpus[0].fabric_degraded yes",
        "set gpus[0].bar1_bytes 1",
        "set gpus[0].dmabuf no",
        "set drivers.nvidia_peermem no",
    };
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct machine *m = load("mi300x-8", faults[i]);
        check_all(m, "nvidia", faults[i]);
        machine_free(m);
    }
    char remedy[400];
    struct machine *m = load("mi300x-8", "set links[0].active no");
    assert_int_equal(weight_of(m, REASON_NVLINK_DOWN, remedy), WEIGHT_SLOW);
    assert_string_equal(remedy, "amd-smi reset --gpureset --gpu 0 (no job may run); if it stays: "
                                "replace the board");
    machine_free(m);
}

/* The open kernel module supports no GPU before Turing. */
static void test_before_turing(void **state)
{
    static const char *const machines[] = {"dgx-1v", "p100-8", "dgx-2"};
    for (int i = 0; i < 3; i++) {
        struct machine *m = load(machines[i], "set drivers.nvidia_flavor closed");
        check_all(m, "nvidia-open", machines[i]);
        check_all(m, "install the open kernel module", machines[i]);
        for (size_t k = 0; k < m->n_ladder; k++)
            text_set(m, &m->ladder[k].result, "failed");
        number_set(&m->drivers.nvidia_peermem, 0);
        check_all(m, "nvidia-open", machines[i]);
        check_all(m, "install the open kernel module", machines[i]);
        m->n_ladder = 0;
        check_all(m, "install the open kernel module", machines[i]);
        number_set(&m->gpus[0].dmabuf, 0);
        check_all(m, "nvidia-open", machines[i]);
        machine_free(m);
    }
    char remedy[400];
    struct machine *m =
        load("vm-p2p-clique", "set ladder[0].result failed; set drivers.nvidia_flavor open");
    if (weight_of(m, REASON_GDR_NO_DMABUF, remedy) >= 0) /* Ada: it is the remedy */
        assert_non_null(strstr(remedy, "nvidia-open"));
    machine_free(m);
}

/* A link is retrained at its upstream end, the port; the bit is reserved at the other end. */
static void test_retrain(void **state)
{
    char remedy[400];
    struct machine *m = load("dgx-a100", "set pci[0000:4b:00.0].gen 1");
    struct endpoint nic;
    const struct machine_pci *port = NULL;
    for (size_t i = 0; i < m->n_nics && !port; i++)
        if (endpoint_find(m, m->nics[i].name.value, &nic) == WEFT_OK &&
            text_is(m->nics[i].bdf, "0000:4b:00.0"))
            port = machine_find_pci(m, nic.pci->parent.value);
    assert_non_null(port);
    assert_int_equal(weight_of(m, REASON_PCIE_GEN, remedy), WEIGHT_SLOW);
    char want[64];
    snprintf(want, sizeof want, "setpci -s %s CAP_EXP+10.w=20:20", port->bdf.value);
    assert_non_null(strstr(remedy, want));
    machine_free(m);
}

static void test_peermem_failures(void **state)
{
    const char *remedy = reason_table[REASON_GDR_NO_PEERMEM].remedy;
    static const char *const known[] = {"modprobe nvidia_peermem",
                                        "Invalid argument",
                                        "ib_register_peer_memory_client",
                                        "not found",
                                        "Key was rejected",
                                        "mlx5_ib"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        assert_non_null(strstr(remedy, known[i]));
    assert_true(strlen(remedy) < sizeof((struct finding *)0)->remedy);
}

/* Each fault with the reason, weight and words that lead to its cause, and no others. */
static void test_leads(void **state)
{
    static const struct {
        const char *machine, *change;
        enum reason reason;
        int weight;
        const char *remedy; /* a part of it */
    } cases[] = {
        /* GIDs: only link-local ones. */
        {"dgx-a100",
         "set ports[0].layer roce; set ports[0].roce v2; set ports[0].gid fe80:0000:0000:0000:1",
         REASON_ROCE_GID, WEIGHT_SLOW, "ip addr add"},
        {"dgx-a100",
         "set ports[0].layer roce; set ports[0].roce v2; set ports[0].gid 2001:0000:0000:0000:1",
         REASON_ROCE_GID, -1, NULL},
        /* One of eight GPUs has lost its links: neither a bridge nor the hypervisor. */
        {"h200-8-vm", "lose nvlink 2:switch all", REASON_NVLINK_DOWN, WEIGHT_OFF,
         "nvidia-smi --gpu-reset -i 2"},
        {"h200-8-vm", "lose nvlink 2:switch all", REASON_NVLINK_BRIDGE, -1, NULL},
        {"h200-8-vm",
         "lose nvlink 2:switch all; set p2p[1].write not-supported; set p2p[1].pci unknown",
         REASON_P2P_VM_FLAT, WEIGHT_NOTE, NULL},
        /* DevX: the privilege, or the firmware. */
        {"dgx-a100", "set ladder[4].rung queues; set ladder[4].result failed; set ladder[4].err 1",
         REASON_GDA_DEVX, WEIGHT_NOTE, "--privileged"},
        {"dgx-a100", "set ladder[4].rung queues; set ladder[4].result failed; set ladder[4].err 95",
         REASON_GDA_DEVX, WEIGHT_NOTE, "mlxconfig"},
        /* The driver refuses a pair of one model. */
        {"h200-8-vm", "set p2p[0].write not-supported", REASON_P2P_PAIR, WEIGHT_OFF, "dmesg"},
        {"h200-8-vm", "set p2p[0].write not-supported", REASON_P2P_GPU, -1, NULL},
        {"h200-8-vm", "set p2p[0].write not-supported; set gpus[0].name A2", REASON_P2P_GPU,
         WEIGHT_NOTE, "same model"},
        /* Xid by number. */
        {"dgx-a100", "set gpus[1].xid 79; set gpus[1].xids 3; set gpus[1].xid_hardware yes",
         REASON_GPU_XID, WEIGHT_SLOW, "power-cycle"},
        {"dgx-a100", "set gpus[1].xid 31; set gpus[1].xids 1", REASON_GPU_XID, WEIGHT_NOTE,
         "compute-sanitizer"},
        {"dgx-a100", "set gpus[1].xid 74; set gpus[1].xids 1", REASON_GPU_XID, WEIGHT_NOTE,
         "nvidia-smi nvlink -e -i 1"},
        {"dgx-a100", "set gpus[1].xid 119; set gpus[1].xids 1", REASON_GPU_XID, WEIGHT_NOTE,
         "nvidia-smi --gpu-reset -i 1"},
        {"dgx-a100", "set gpus[1].xid 301; set gpus[1].xids 1", REASON_GPU_XID, WEIGHT_NOTE,
         "nvidia-bug-report.sh"},
        /* Confidential computing: the driver's peer status decides (Protected PCIe). */
        {"h200-8-vm", "set drivers.conf_compute yes", REASON_P2P_CC, WEIGHT_NOTE, "-mgm"},
        {"geforce-2-acs", "set drivers.conf_compute yes", REASON_P2P_CC, WEIGHT_OFF, "-mgm"},
        /* NICs: EFA posts from GPUs in NCCL; one subnet or several. */
        {"dgx-a100", "set nics[mlx5_0].driver efa", REASON_GDA_NIC, WEIGHT_NOTE,
         "PeerMappingOverride=1"},
        {"dgx-a100", "set nics[mlx5_0].driver irdma", REASON_GDA_NIC, WEIGHT_NOTE,
         "none for this NIC"},
        {"dgx-a100",
         "set ports[1].gid 0000:0000:0000:0000:0000:ffff:0a00:0105; "
         "set ports[3].gid 0000:0000:0000:0000:0000:ffff:0a00:0106",
         REASON_NIC_RAILS, -1, NULL},
        {"dgx-a100",
         "set ports[1].gid fec0:0000:0000:0001:0000:0000:0a00:0105; "
         "set ports[3].gid fec0:0000:0000:0001:0000:0000:0a00:0205",
         REASON_NIC_RAILS, -1, NULL},
        /* No dma-buf on a GPU that the open module does not support: nvidia_peermem does it. */
        {"dgx-1v", NULL, REASON_GDR_NO_DMABUF, WEIGHT_NOTE, "none needed: nvidia_peermem"},
        {"dgx-1v", "set ladder[2].result failed; set drivers.nvidia_peermem no", REASON_GDR_CLOSED,
         WEIGHT_OFF, "modprobe nvidia_peermem (dma-buf is not"},
        {"dgx-1v", "set ladder[2].result failed; set drivers.nvidia_peermem yes", REASON_GDR_CLOSED,
         WEIGHT_OFF, "fix GDR-PEERMEM-REG"}, /* it is loaded */
        /* Partitions of the fabric. */
        {"h200-2-vm", "set gpus[0].fabric_clique 3; set gpus[1].fabric_clique 5",
         REASON_FABRIC_CLIQUE, WEIGHT_OFF, "one partition"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char remedy[400] = "";
        struct machine *m = load(cases[i].machine, cases[i].change);
        int weight = weight_of(m, cases[i].reason, remedy);
        if (weight != cases[i].weight || (cases[i].remedy && !strstr(remedy, cases[i].remedy)))
            fail_msg("%s, %s: %s has weight %d and remedy \"%s\"", cases[i].machine,
                     cases[i].change, reason_table[cases[i].reason].code, weight, remedy);
        machine_free(m);
    }
}

/* Two GPUs with different Xids have two remedies, of different people. */
static void test_two_xids(void **state)
{
    static struct diagnosis d;
    const struct finding *found[2] = {NULL, NULL};
    struct machine *m = load("dgx-a100", "set gpus[1].xid 79; set gpus[1].xids 3; "
                                         "set gpus[2].xid 13; set gpus[2].xids 1");
    doctor_examine(m, &d);
    for (int i = 0; i < d.findings.n; i++)
        if (d.findings.list[i].reason == REASON_GPU_XID)
            found[found[0] != NULL] = &d.findings.list[i];
    assert_non_null(found[1]);
    assert_ptr_not_equal(found[0]->advice, found[1]->advice);
    assert_string_equal(found[0]->who, "root");
    assert_string_equal(found[1]->who, "user");
    findings_free(&d.findings);
    machine_free(m);
}

/* NVML refuses to start when its version is not that of the kernel module. */
static void test_driver_mismatch(void **state)
{
    struct machine *m = load("no-gpu", "set limits.nvidia_pci_devices 8");
    text_unknown(m, &m->drivers.driver,
                 "nvmlInitWithFlags of libnvidia-ml returned 18: "
                 "Driver/library version mismatch");
    text_set(m, &m->drivers.nvidia_module, "580.95.05");
    assert_int_equal(weight_of(m, REASON_DRV_MISMATCH, NULL), WEIGHT_OFF);
    assert_int_equal(weight_of(m, REASON_DRV_NONE, NULL), -1);
    text_unknown(m, &m->drivers.driver, "libnvidia-ml.so.1: cannot open shared object file");
    assert_int_equal(weight_of(m, REASON_DRV_MISMATCH, NULL), -1);
    assert_int_equal(weight_of(m, REASON_DRV_NONE, NULL), WEIGHT_OFF);
    machine_free(m);
}

/* The kernel's P2PDMA needs driver 570. */
static void test_p2pdma_driver(void **state)
{
    static const char *const drivers[] = {"535.129.03", "570.86.15"};
    static const enum answer usable[] = {ANSWER_NO, ANSWER_UNKNOWN};
    for (int i = 0; i < 2; i++) {
        static struct verdict v;
        struct machine *m =
            load("dgx-a100", "set drivers.nvme_p2pdma yes; set disks[md1].kind nvme");
        text_set(m, &m->drivers.driver, drivers[i]);
        assert_int_equal(explain_pair(m, "gpu2", "/raid/x", &v), WEFT_OK);
        for (int r = 0; r < v.routes.n; r++)
            if (v.routes.list[r].kind == ROUTE_PEER)
                assert_int_equal(v.routes.list[r].usable, usable[i]);
        verdict_free(&v);
        machine_free(m);
    }
}

/* A failed test of peer access: the remedy names ACS and IOMMU only where they may be the cause. */
static void test_failed_test(void **state)
{
    static const char *const cases[][2] = {
        {"set iommu off; drop acs all", "update driver"},
        {"set iommu translated; drop acs all", "fix P2P-ACS and P2P-IOMMU"},
        {"set system.iommu_mode unknown; drop acs all", "sudo weft explain gpu0 gpu1"},
    };
    for (int i = 0; i < 3; i++) {
        char remedy[400] = "";
        struct machine *m = load("2 h100, 2 gpu per pcie-switch, acs on", cases[i][0]);
        struct machine_measured *measured = machine_add_measured(m);
        text_set(m, &measured->a, "gpu0");
        text_set(m, &measured->b, "gpu1");
        text_set(m, &measured->proof, "failed");
        assert_int_equal(weight_of(m, REASON_P2P_PROOF, remedy), WEIGHT_OFF);
        if (!strstr(remedy, cases[i][1]))
            fail_msg("%s: %s", cases[i][0], remedy);
        machine_free(m);
    }
}

/* How much a degraded fabric takes away is not known, so no rate is expected of its links. */
static void test_degraded_fabric(void **state)
{
    static struct verdict v;
    struct machine *m = load("h200-8-vm", "set gpus[3].fabric_degraded yes");
    assert_int_equal(explain_pair(m, "gpu1", "gpu3", &v), WEFT_OK);
    assert_int_equal(v.chosen->kind, ROUTE_LINK);
    assert_int_equal(v.chosen->mbps, 0);
    assert_non_null(strstr(v.chosen->limit, "below 395 GB/s"));
    verdict_free(&v);
    assert_int_equal(explain_pair(m, "gpu1", "gpu2", &v), WEFT_OK);
    assert_in_range(v.chosen->mbps, 390000, 400000);
    verdict_free(&v);
    machine_free(m);
}

/* A NIC of another host: no path, and the reason. */
static void test_other_host(void **state)
{
    static struct verdict v;
    struct machine *m = load("8 gb200, nvlink domain 4, 2 node, nic per 2 gpu", NULL);
    assert_int_equal(explain_pair(m, "gpu0", "nic3", &v), WEFT_OK);
    assert_null(v.possible);
    assert_true(findings_have(&v.findings, REASON_OTHER_HOST));
    verdict_free(&v);
    assert_int_equal(explain_pair(m, "gpu0", "nic0", &v), WEFT_OK);
    assert_false(findings_have(&v.findings, REASON_OTHER_HOST));
    verdict_free(&v);
    assert_int_equal(weight_of(m, REASON_OTHER_HOST, NULL), -1);
    machine_free(m);
}

/* Grace: settings count only beside a GPU with a coherent link, nodes of GPU memory are no places
 * of devices, and the kernel's options are those of Arm. */
static void test_grace(void **state)
{
    static struct verdict v;
    struct machine *m =
        load("gh200", "set pci[0002:01:00.0].numa -1; set pci[0002:00:00.0].numa -1");
    assert_int_equal(weight_of(m, REASON_NUMA_UNKNOWN, NULL), -1);
    assert_int_equal(routes_numa(m, machine_find_pci(m, "0002:01:00.0")), 0);
    machine_free(m);
    m = load("gb200-tray", "set pci[0018:01:00.0].numa -1; set pci[0018:00:00.0].numa -1");
    assert_int_equal(explain_pair(m, "host", "gpu2", &v), WEFT_OK);
    assert_true(findings_have(&v.findings, REASON_NUMA_UNKNOWN));
    for (int i = 0; i < v.findings.n; i++)
        if (v.findings.list[i].reason == REASON_NUMA_UNKNOWN)
            assert_non_null(strstr(v.findings.list[i].evidence, "on 2 nodes"));
    verdict_free(&v);
    assert_int_equal(weight_of(m, REASON_NUMA_BALANCING, NULL), WEIGHT_SLOW);
    assert_int_equal(weight_of(m, REASON_KERNEL_PAGES, NULL), WEIGHT_NOTE);
    m->n_links = 0;
    machine_index(m);
    assert_int_equal(weight_of(m, REASON_KERNEL_PAGES, NULL), WEIGHT_NOTE);
    for (size_t i = 0; i < m->n_gpus; i++)
        m->gpus[i].memory_numa.known = false;
    assert_int_equal(weight_of(m, REASON_NUMA_BALANCING, NULL), -1);
    assert_int_equal(weight_of(m, REASON_KERNEL_PAGES, NULL), -1);
    assert_int_equal(weight_of(m, REASON_INIT_ON_ALLOC, NULL), -1);
    machine_free(m);
    for (int arm = 0; arm < 2; arm++) {
        m = load("2 l40s, iommu on", arm ? "set system.arch aarch64" : "set system.arch x86_64");
        assert_int_equal(explain_pair(m, "gpu0", "gpu1", &v), WEFT_OK);
        const char *remedy = NULL;
        for (int i = 0; i < v.findings.n; i++)
            if (v.findings.list[i].reason == REASON_P2P_IOMMU)
                remedy = v.findings.list[i].remedy;
        assert_non_null(remedy);
        assert_int_equal(strstr(remedy, "iommu.passthrough=1") != NULL, arm);
        verdict_free(&v);
        machine_free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_host_first),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_never_good),
        cmocka_unit_test(test_raid_levels),
        cmocka_unit_test(test_amd),
        cmocka_unit_test(test_before_turing),
        cmocka_unit_test(test_retrain),
        cmocka_unit_test(test_peermem_failures),
        cmocka_unit_test(test_leads),
        cmocka_unit_test(test_two_xids),
        cmocka_unit_test(test_driver_mismatch),
        cmocka_unit_test(test_p2pdma_driver),
        cmocka_unit_test(test_failed_test),
        cmocka_unit_test(test_degraded_fabric),
        cmocka_unit_test(test_other_host),
        cmocka_unit_test(test_grace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
