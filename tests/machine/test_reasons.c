/* SPDX-License-Identifier: Apache-2.0 */
/* Every reason code occurs: for a machine file as it is, or with a fault put into it. The test
 * fails when a code has no case, and when the machine without the fault gives the same result. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "machine/checks/doctor.h"
#include "machine/checks/explain.h"
#include "machine/routes/whatif.h"

/* `a` NULL: doctor reports it; else explain of a and b. `fault` NULL: in the file as it is. */
static const struct {
    enum reason reason;
    const char *machine, *fault, *a, *b;
} cases[] = {
    {REASON_P2P_ACS, "geforce-2-acs", NULL, "gpu0", "gpu1"},
    {REASON_P2P_IOMMU, "geforce-2-acs", NULL, "gpu0", "gpu1"},
    {REASON_P2P_SOCKET, "p100-8", NULL, "gpu0", "gpu4"},
    {REASON_P2P_ROOTS, "dgx-1v", NULL, "gpu0", "mlx5_2"},
    {REASON_P2P_CHIPSET, "p100-8", "set p2p[0].write chipset-not-supported", "gpu0", "gpu1"},
    {REASON_P2P_GEFORCE, "geforce-2-acs", NULL, "gpu0", "gpu1"},
    {REASON_P2P_REGKEY, "p100-8", "set p2p[0].write disabled-by-regkey", "gpu0", "gpu1"},
    {REASON_P2P_GPU, "p100-8", "set p2p[0].write gpu-not-supported; set gpus[0].name P4", "gpu0",
     "gpu1"},
    {REASON_P2P_VM_FLAT, "vm-p2p-clique",
     "set pci[0000:01:00.0].p2p_clique unknown; set pci[0000:03:00.0].p2p_clique unknown", "gpu0",
     "gpu2"},
    {REASON_P2P_VM_CLIQUE, "vm-p2p-clique", NULL, "gpu0", "gpu2"},
    {REASON_P2P_MIG, "dgx-a100", "set gpus[1].mig yes", "gpu0", "gpu1"},
    {REASON_P2P_CC, "h200-8-vm", "set drivers.conf_compute yes", "gpu0", "gpu1"},
    {REASON_P2P_VGPU, "vm-p2p-clique", "set gpus[0].virtualization vgpu", "gpu0", "gpu1"},
    {REASON_P2P_COMPUTE_MODE, "dgx-a100", "set gpus[0].compute_mode exclusive", "gpu0", "gpu1"},
    {REASON_P2P_PROOF, "measured", "set measured[0].proof failed", "gpu0", "gpu1"},
    {REASON_P2P_REFUSED, "measured", "set measured[0].proof refused", "gpu0", "gpu1"},
    {REASON_P2P_UNPROVEN, "h200-8-vm", NULL, "gpu0", "gpu1"},
    {REASON_P2P_UNTOLD, "mi300x-8", NULL, "gpu0", "gpu1"},
    {REASON_P2P_ONE_WAY, "measured",
     "set measured[0].write_mbps 330000; set "
     "measured[1].write_mbps 430000",
     "gpu0", "gpu1"},
    {REASON_P2P_SLOW, "measured", "set measured[0].write_mbps 200000", "gpu0", "gpu1"},
    {REASON_P2P_NO_ATOMICS, "p100-8", NULL, "gpu0", "gpu1"},
    {REASON_NVLINK_NONE, "dgx-1v", NULL, "gpu0", "gpu7"},
    {REASON_NVLINK_DOWN, "dgx-2", "lose nvlink 3:switch", NULL, NULL},
    {REASON_NVLINK_BRIDGE, "h200-2-vm", "lose nvlink 0:switch all; lose nvlink 1:switch all", NULL,
     NULL},
    {REASON_NVLINK_ERRORS, "dgx-2", "set links[7].crc_errors 12", NULL, NULL},
    {REASON_NVLINK_ERRORS, "dgx-2", "set links[7].failed_recoveries 1", NULL, NULL},
    {REASON_NVLINK_GROWING, "measured", "set measured[0].errors_grown 5", "gpu0", "gpu1"},
    {REASON_NVLINK_GROWING, "dgx-2", "set links[7].errors_grown 5", NULL, NULL},
    {REASON_NVLINK_SPEED, "dgx-2", "set links[7].mbps 19300", NULL, NULL},
    {REASON_FABRIC_STATE, "h200-8-vm", "set gpus[2].fabric_state in-progress", NULL, NULL},
    {REASON_FABRIC_MANAGER, "dgx-a100", "set drivers.fabric_manager stopped", NULL, NULL},
    {REASON_FABRIC_DEGRADED, "h200-8-vm", "set gpus[2].fabric_degraded yes", NULL, NULL},
    {REASON_FABRIC_VERSION, "dgx-a100", "set drivers.fabric_manager_version 535.1", NULL, NULL},
    {REASON_FABRIC_SXID, "dgx-a100", "set drivers.sxids 2", NULL, NULL},
    {REASON_IMEX_STOPPED, "h200-8-vm", "set gpus[2].fabric_cluster 01; set drivers.imex stopped",
     NULL, NULL},
    {REASON_FABRIC_CLIQUE, "h200-8-vm", "set gpus[2].fabric_clique 7", "gpu1", "gpu2"},
    {REASON_PCIE_WIDTH, "p100-8", "width 0000:03:00.0 8", NULL, NULL},
    {REASON_PCIE_GEN, "dgx-a100", "set pci[0000:0c:00.0].gen 3", NULL, NULL},
    {REASON_PCIE_REPLAYS, "dgx-a100", "set gpus[5].pcie_replays 4711", NULL, NULL},
    {REASON_PCIE_READ, "p100-8", NULL, "gpu0", "gpu1"},
    {REASON_PCIE_PAYLOAD, "dgx-a100",
     "set pci[0000:00:01.0].payload_max_bytes 512; set pci[0000:01:00.0].payload_max_bytes 512; "
     "set pci[0000:02:08.0].payload_max_bytes 2048; set pci[0000:0a:00.0].payload_max_bytes 512; "
     "set pci[0000:0b:00.0].payload_max_bytes 512; set pci[0000:0c:00.0].payload_max_bytes 1024; "
     "set pci[0000:0c:00.0].payload_bytes 256",
     NULL, NULL},
    {REASON_PCIE_READ_REQUEST, "dgx-a100", "set pci[0000:0c:00.0].read_request_bytes 256", NULL,
     NULL},
    {REASON_PCIE_ORDERING, "dgx-a100", "set pci[0000:07:00.0].relaxed_ordering no", NULL, NULL},
    {REASON_PCIE_AER, "dgx-a100", "set pci[0000:03:00.0].aer_correctable 1", NULL, NULL},
    {REASON_PCIE_GROWING, "dgx-a100", "set pci[0000:03:00.0].aer_grown 1", NULL, NULL},
    {REASON_PCIE_GROWING, "dgx-a100", "set gpus[3].replays_grown 1", NULL, NULL},
    {REASON_NUMA_UNKNOWN, "dgx-a100",
     "set pci[0000:00:01.0].numa -1; set pci[0000:01:00.0].numa -1; "
     "set pci[0000:02:00.0].numa -1; set pci[0000:03:00.0].numa -1; set pci[0000:04:00.0].numa -1; "
     "set pci[0000:07:00.0].numa -1",
     NULL, NULL},
    {REASON_BAR1_SMALL, "geforce-2-acs", "set gpus[0].bar1_bytes 268435456", "host", "gpu0"},
    {REASON_HOST_SLOW, "measured", "set measured[2].write_mbps 20000", "gpu0", "host"},
    {REASON_GDR_UNTRIED, "mi300x-8", NULL, "gpu0", "bnxt_re0"},
    {REASON_GDR_NO_DMABUF, "dgx-1v", NULL, "gpu0", "mlx5_0"},
    {REASON_GDR_CLOSED, "p100-8", NULL, "gpu0", "mlx5_0"},
    {REASON_GDR_DMABUF_REG, "vm-p2p-clique", NULL, "gpu0", "mlx5_0"},
    {REASON_GDR_NO_PEERMEM, "vm-p2p-clique", NULL, "gpu0", "mlx5_0"},
    {REASON_GDR_PEERMEM_REG, "vm-p2p-clique", "set drivers.nvidia_peermem yes", "gpu0", "mlx5_0"},
    {REASON_GDR_DATA, "dgx-a100", "set ladder[3].result failed", "gpu0", "mlx5_0"},
    {REASON_GDR_SLOW, "dgx-a100", "set ladder[4].mbps 9000", "gpu0", "mlx5_0"},
    {REASON_GDR_FAR, "dgx-a100", NULL, "gpu2", "mlx5_0"},
    {REASON_HOST_COHERENT, "gh200", NULL, "host", "gpu0"},
    {REASON_NUMA_BALANCING, "gh200", "set system.numa_balancing 1", NULL, NULL},
    {REASON_KERNEL_PAGES, "gh200", "set system.page_bytes 4096", NULL, NULL},
    {REASON_INIT_ON_ALLOC, "gb200-tray", NULL, "numa1", "gpu2"},
    {REASON_GDR_COHERENT, "gb200-tray", NULL, "gpu0", "mlx5_5"},
    {REASON_GDR_GPU, "dgx-a100", "set gpus[0].rdma no", "gpu0", "mlx5_0"},
    {REASON_NIC_NONE, "no-gpu", "set pci[0000:00:03.0].vendor 0x15b3", NULL, NULL},
    {REASON_NIC_ABSENT, "no-gpu", NULL, NULL, NULL},
    {REASON_NIC_DOWN, "dgx-a100", "set ports[2].state down", NULL, NULL},
    {REASON_NIC_ERRORS, "dgx-a100", "set ports[2].symbol_errors 900", NULL, NULL},
    {REASON_NIC_GROWING, "dgx-a100", "set ports[2].errors_grown 3", NULL, NULL},
    {REASON_NIC_RATE, "dgx-a100", "set ports[2].mbit 100000", NULL, NULL},
    {REASON_NIC_LOSS, "dgx-a100", "set ports[2].retransmits 3", NULL, NULL},
    {REASON_BOND_MEMBER, "dgx-a100",
     "set interfaces[ib0].bond_mode 802.3ad; set interfaces[ib0].bond_members 2; "
     "set interfaces[ib0].bond_members_up 1",
     NULL, NULL},
    {REASON_BOND_BACKUP, "dgx-a100",
     "set interfaces[ib0].bond_mode active-backup; set interfaces[ib0].bond_members 2", NULL, NULL},
    {REASON_NIC_SHARED, "p100-8", NULL, NULL, NULL},
    {REASON_NIC_NO_VERBS, "dgx-a100", "set drivers.libibverbs -", NULL, NULL},
    {REASON_NIC_NO_NODE, "container-2-of-8", NULL, "gpu0", "mlx5_3"},
    {REASON_NIC_KEYS, "dgx-a100", NULL, NULL, NULL},
    {REASON_NIC_VF, "dgx-a100", "set pci[0000:4b:00.0].virtual_function yes", NULL, NULL},
    {REASON_NIC_RAILS, "dgx-a100",
     "set ports[1].gid 0000:0000:0000:0000:0000:ffff:0a00:0105; "
     "set ports[3].gid 0000:0000:0000:0000:0000:ffff:0a00:0205",
     NULL, NULL},
    {REASON_OTHER_HOST, "8 gb200, nvlink domain 4, 2 node, nic per 2 gpu", NULL, "gpu0", "nic3"},
    {REASON_P2P_PAIR, "h200-8-vm", "set p2p[0].write not-supported", NULL, NULL},
    {REASON_ROCE_GID, "mi300x-8", "set ports[1].roce v1", NULL, NULL},
    {REASON_ROCE_MTU, "mi300x-8", "set ports[1].mtu 1500", NULL, NULL},
    {REASON_ROCE_PFC, "mi300x-8", "set ports[1].pfc 0", NULL, NULL},
    {REASON_NIC_RATE, "mi300x-8", "set ports[1].mbit_max 800000", NULL, NULL},
    {REASON_IPOIB, "dgx-1v", NULL, NULL, NULL},
    {REASON_GDA_NIC, "mi300x-8", NULL, "gpu0", "bnxt_re0"},
    {REASON_GDA_LIB, "dgx-a100", "set drivers.libmlx5 -", "gpu0", "mlx5_0"},
    {REASON_GDA_DEVX, "dgx-a100", "set ladder[4].rung queues; set ladder[4].result failed", "gpu0",
     "mlx5_0"},
    {REASON_GDA_PEER_MAPPING, "dgx-a100", NULL, "gpu0", "mlx5_0"},
    {REASON_GDA_UAR, "dgx-a100", "set ladder[4].rung doorbell; set ladder[4].result failed", "gpu0",
     "mlx5_0"},
    {REASON_MAP_NODE, "dgx-a100", "set limits.nvidiactl_node no", NULL, NULL},
    {REASON_MAP_GDRDRV, "dgx-a100", "set limits.gdrdrv_node no", NULL, NULL},
    {REASON_MAP_OFF, "dgx-a100", "set limits.weft_map none", "host", "gpu0"},
    {REASON_MAP_WSL, "dgx-a100",
     "set limits.nvidiactl_node no; set system.kernel 5.15.167.4-microsoft-standard-WSL2", "host",
     "gpu0"},
    {REASON_MAP_CC, "h200-8-vm", "set drivers.conf_compute yes", "host", "gpu1"},
    {REASON_MAP_MIG, "dgx-a100", "set gpus[1].mig yes", NULL, NULL},
    {REASON_MAP_REFUSED, "measured", "set measured[2].proof refused", "gpu0", "host"},
    {REASON_MAP_PROOF, "measured", "set measured[2].proof failed", "host", "gpu0"},
    {REASON_FILE_NO_FS_MODULE, "dgx-a100", NULL, "gpu2", "/data/x"},
    {REASON_FILE_NVME_DRIVER, "dgx-a100",
     "set drivers.nvidia_fs yes; set drivers.nvidia_fs_modules lustre", "gpu2", "/raid/x"},
    {REASON_FILE_RAID, "dgx-a100",
     "set disks[md1].raid_members 4; set disks[md1].raid_members_nvme 3", "gpu2", "/raid/x"},
    {REASON_FILE_RAID_LEVEL, "dgx-a100", "set disks[md1].raid_level raid6", "gpu2", "/raid/x"},
    {REASON_RAID_DEGRADED, "dgx-a100", "set disks[md1].raid_missing 1", NULL, NULL},
    {REASON_FILE_COMPAT, "dgx-a100", "set drivers.cufile_compat forced", "gpu2", "/data/x"},
    {REASON_CAPTURE_FAR, "capture", NULL, NULL, NULL},
    {REASON_CAPTURE_NODE, "capture", "set captures[video0].node no", NULL, NULL},
    {REASON_FILE_NO_CUFILE, "geforce-2-acs", NULL, "gpu0", "/home/x"},
    {REASON_FILE_SYSTEM, "geforce-2-acs", NULL, "gpu0", "/home/x"},
    {REASON_FILE_OPTIONS, "container-2-of-8", NULL, "gpu0", "/models/x"},
    {REASON_FILE_DEVICE, "h200-8-vm", NULL, "gpu0", "/home/x"},
    {REASON_FILE_P2PDMA, "geforce-2-acs", NULL, "gpu0", "/home/x"},
    {REASON_FILE_FAR, "dgx-a100", NULL, "gpu7", "/data/x"},
    {REASON_FILE_BUFFERED, "geforce-2-acs", "set mounts[/].type tmpfs", "gpu0", "/home/x"},
    {REASON_FILE_NO_URING, "dgx-a100", "set limits.io_uring no", NULL, NULL},
    {REASON_FILE_CUFILE, "dgx-a100", "set limits.udev_data no", "gpu2", "/data/x"},
    {REASON_FILE_MOUNT, "mi300x-8", NULL, "gpu0", "/nowhere/x"},
    {REASON_LIMIT_MEMLOCK, "container-2-of-8", NULL, NULL, NULL},
    {REASON_LIMIT_SHM, "container-2-of-8", NULL, NULL, NULL},
    {REASON_LIMIT_FILES, "dgx-a100", "set limits.open_files 1024", NULL, NULL},
    {REASON_LIMIT_SECCOMP, "container-2-of-8", NULL, NULL, NULL},
    {REASON_LIMIT_MEMORY, "container-2-of-8", NULL, NULL, NULL},
    {REASON_LIMIT_HUGE_PAGES, "dgx-a100", "set limits.transparent_huge_pages never", NULL, NULL},
    {REASON_LIMIT_GPUS, "container-2-of-8", NULL, NULL, NULL},
    {REASON_LIMIT_UVM, "dgx-a100", "set limits.nvidia_uvm_node no", NULL, NULL},
    {REASON_LIMIT_IMEX, "h200-8-vm",
     "set gpus[2].fabric_cluster 6f2a00000000000000000000000000c1; set limits.imex_channel_node no",
     NULL, NULL},
    {REASON_LIMIT_PIDS, "dgx-a100", "set limits.own_pid_namespace yes", NULL, NULL},
    {REASON_LIMIT_CAPS, "container-2-of-8", NULL, NULL, NULL},
    {REASON_DRV_NONE, "no-gpu", "set limits.nvidia_pci_devices 2", NULL, NULL},
    {REASON_DRV_MISMATCH, "dgx-a100", "set drivers.nvidia_module 535.129.03", NULL, NULL},
    {REASON_DRV_OLD, "dgx-2", "set drivers.cuda 10020", NULL, NULL},
    {REASON_DRV_UVM, "dgx-a100", "set drivers.nvidia_uvm no", NULL, NULL},
    {REASON_GPU_ECC, "dgx-a100", "set gpus[3].ecc_uncorrected 2", NULL, NULL},
    {REASON_GPU_ROWS, "dgx-a100", "set gpus[3].rows_corrected 1", NULL, NULL},
    {REASON_GPU_ROWS_PENDING, "dgx-a100", "set gpus[3].rows_pending yes", NULL, NULL},
    {REASON_GPU_ROWS_FAILED, "dgx-a100", "set gpus[3].rows_failed yes", NULL, NULL},
    {REASON_GPU_XID, "dgx-a100", "set gpus[3].xids 1; set gpus[3].xid 79", NULL, NULL},
    {REASON_KERNEL_LOG, "dgx-a100", "set drivers.kernel_log unknown", NULL, NULL},
    {REASON_GPU_PROHIBITED, "dgx-a100", "set gpus[3].compute_mode prohibited", NULL, NULL},
    {REASON_GPU_CLOCKS, "dgx-a100", "set gpus[3].clock_reasons 0x40", NULL, NULL},
    {REASON_GPU_PERSISTENCE, "geforce-2-acs", NULL, NULL, NULL},
};

enum { CASES = sizeof cases / sizeof cases[0] };

/* "measured": 8 H200 with good probe results for one pair. */
static struct machine *load(const char *name)
{
    char path[512];
    struct machine *m;
    bool measured = strcmp(name, "measured") == 0, capture = strcmp(name, "capture") == 0;
    snprintf(path, sizeof path, MACHINES "/%s.json",
             measured  ? "h200-8-vm"
             : capture ? "geforce-2-acs"
                       : name);
    if (machine_load(strchr(name, ' ') ? name : path, &m))
        fail_msg("%s", weft_last_error());
    for (int i = 0; measured && i < 2; i++) {
        struct machine_measured *r = machine_add_measured(m);
        text_set(m, &r->a, i ? "gpu1" : "gpu0");
        text_set(m, &r->b, i ? "gpu0" : "gpu1");
        text_set(m, &r->proof, "proven");
        text_set(m, &r->evidence, "1000 rounds of data, flags and atomics");
        number_set(&r->write_mbps, 395600);
        number_set(&r->read_mbps, 380000);
        number_set(&r->latency_ns, 630);
        number_set(&r->errors_grown, 0);
    }
    if (capture) { /* below another root complex than the GPUs */
        struct machine_capture *c = machine_add_capture(m);
        text_set(m, &c->name, "video0");
        text_set(m, &c->model, "Corvid 44");
        text_set(m, &c->bdf, "0000:01:00.0");
        number_set(&c->node, 1);
    }
    if (measured) {
        struct machine_measured *r = machine_add_measured(m);
        text_set(m, &r->a, "gpu0");
        text_set(m, &r->b, "host");
        text_set(m, &r->proof, "proven");
        text_set(m, &r->evidence, "mapped, 4096 bytes each way");
    }
    return m;
}

/* "-" stands for the empty text: not installed. */
static void put_fault(struct machine *m, const char *fault)
{
    if (whatif_apply(m, fault))
        fail_msg("%s: %s", fault, weft_last_error());
    if (text_is(m->drivers.libibverbs, "-"))
        text_set(m, &m->drivers.libibverbs, "");
    if (text_is(m->drivers.libmlx5, "-"))
        text_set(m, &m->drivers.libmlx5, "");
}

static bool reached(const struct machine *m, size_t i)
{
    static struct verdict v;
    static struct diagnosis d;
    const struct findings *findings = &d.findings;
    bool yes = false;
    if (cases[i].a) {
        if (explain_pair(m, cases[i].a, cases[i].b, &v))
            fail_msg("%s", weft_last_error());
        findings = &v.findings;
    } else {
        doctor_examine(m, &d);
    }
    for (int k = 0; k < findings->n; k++) {
        assert_true(*findings->list[k].evidence && *findings->list[k].remedy);
        assert_null(strstr(findings->list[k].remedy, "{dev}"));
        yes |= findings->list[k].reason == cases[i].reason;
    }
    if (cases[i].a)
        verdict_free(&v);
    else
        findings_free(&d.findings);
    return yes;
}

static void test_each_reached(void **state)
{
    for (size_t i = 0; i < CASES; i++) {
        struct machine *m = load(cases[i].machine);
        const char *code = reason_table[cases[i].reason].code;
        if (cases[i].fault) {
            if (reached(m, i))
                fail_msg("%s is told of %s without the fault", code, cases[i].machine);
            put_fault(m, cases[i].fault);
        }
        if (!reached(m, i))
            fail_msg("%s is not told of %s with \"%s\"", code, cases[i].machine,
                     cases[i].fault ? cases[i].fault : "");
        machine_free(m);
    }
}

static void test_each_has_a_case(void **state)
{
    for (int r = 0; r < REASON_COUNT; r++) {
        int n = 0;
        for (size_t i = 0; i < CASES; i++)
            n += (int)cases[i].reason == r;
        if (n == 0 && strncmp(reason_table[r].code, "NCCL-", 5) != 0) /* test_nccl_log.c */
            fail_msg("%s is reached by no case", reason_table[r].code);
    }
    assert_true(REASON_COUNT >= 40);
}

static void test_codes_unique(void **state)
{
    for (int r = 0; r < REASON_COUNT; r++)
        assert_ptr_equal(reason_find(reason_table[r].code), &reason_table[r]);
}

/* A good measurement of a tested pair leaves no finding. */
static void test_good_pair(void **state)
{
    static struct verdict v;
    struct machine *m = load("measured");
    assert_int_equal(explain_pair(m, "gpu0", "gpu1", &v), WEFT_OK);
    assert_int_equal(v.findings.n, 0);
    assert_false(verdict_has_fault(&v));
    assert_int_equal(v.chosen->kind, ROUTE_LINK);
    verdict_free(&v);
    machine_free(m);
}

/* A test result takes precedence over what is usual on such machines. */
static void test_proven_mapping(void **state)
{
    static struct verdict v;
    for (int proven = 0; proven < 2; proven++) {
        struct machine *m = load("measured");
        put_fault(m, "set gpus[0].mig yes");
        if (!proven)
            put_fault(m, "set measured[2].proof not-run");
        assert_int_equal(explain_pair(m, "host", "gpu0", &v), WEFT_OK);
        bool told = false;
        for (int i = 0; i < v.findings.n; i++)
            told |= v.findings.list[i].reason == REASON_MAP_MIG;
        assert_int_equal(told, !proven);
        verdict_free(&v);
        machine_free(m);
    }
}

/* Where the better route is off, the gain is its rate minus that of the chosen route. */
static void test_gain(void **state)
{
    static struct verdict v;
    struct machine *m = load("vm-p2p-clique");
    assert_int_equal(explain_pair(m, "gpu0", "mlx5_0", &v), WEFT_OK);
    assert_ptr_equal(v.chosen, v.possible);
    assert_int_equal(v.possible->kind, ROUTE_STAGED);
    assert_int_equal(v.findings.list[0].gain_mbps, 23750 - 7600);
    verdict_free(&v);
    machine_free(m);
}

/* A finding reported twice counts once, unless the second has more weight; the merged list is empty
 * afterwards. */
static void test_merge(void **state)
{
    struct findings to = {.place = "a", .path = "p", .routes_off = 6}, from = {.place = "b"};
    for (int i = 0; i < 40; i++) /* more than the initial capacity */
        assert_non_null(finding_add(&to, REASON_GPU_ECC, WEIGHT_SLOW, "7", "%d errors", i));
    assert_null(finding_add(&to, REASON_GPU_ECC, WEIGHT_SLOW, "7", "39 errors"));
    assert_null(finding_add(&to, REASON_GPU_ECC, WEIGHT_NOTE, "7", "39 errors"));
    assert_false(findings_turn_off(&to, 6));
    assert_non_null(finding_add(&from, REASON_GPU_ECC, WEIGHT_SLOW, NULL, "39 errors"));
    assert_non_null(finding_add(&from, REASON_GPU_ECC, WEIGHT_SLOW, NULL, "40 errors"));
    assert_non_null(finding_add(&from, REASON_GPU_XID, WEIGHT_SLOW, NULL, "39 errors"));
    findings_merge(&to, &from);
    assert_int_equal(from.n, 0);
    assert_null(from.list);
    assert_int_equal(to.n, 42);
    assert_string_equal(to.list[40].evidence, "40 errors");
    assert_string_equal(to.list[40].place, "b");
    assert_string_equal(to.list[39].place, "a");
    assert_true(findings_have(&to, REASON_GPU_XID));
    assert_false(findings_have(&to, REASON_GPU_ROWS));
    assert_non_null(strstr(to.list[3].remedy, "-i 7"));
    struct finding *off = finding_add(&to, REASON_GPU_ECC, WEIGHT_OFF, "7", "39 errors");
    assert_non_null(off); /* more weight */
    assert_true(findings_turn_off(&to, 2));
    assert_false(findings_turn_off(&to, 1));
    finding_repair(off, "set %d", 1);
    finding_repair(off, "set %d", 2);
    assert_string_equal(off->repair, "set 1; set 2");
    finding_repair(off, "%400s|", "x"); /* is cut, and later text is left out */
    size_t full = strlen(off->repair);
    finding_repair(off, "set 3");
    assert_int_equal(strlen(off->repair), full < sizeof off->repair - 1 ? full + 7 : full);
    finding_remedy(off, "reset {dev} and {dev}!", "gpu7");
    assert_string_equal(off->remedy, "reset gpu7 and gpu7!");
    finding_repair(NULL, "nothing");
    finding_remedy(NULL, "nothing", "");
    findings_free(&to);
    assert_null(to.list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_reached), cmocka_unit_test(test_each_has_a_case),
        cmocka_unit_test(test_codes_unique), cmocka_unit_test(test_good_pair),
        cmocka_unit_test(test_gain),         cmocka_unit_test(test_proven_mapping),
        cmocka_unit_test(test_merge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
