/* SPDX-License-Identifier: Apache-2.0 */
/* Reasons reported for a machine read live: an imitated tree of /sys, /proc and /dev, the NVML
 * stand-in and this process's own limits cause each, and without the fault it is not reported.
 * Reasons that need a measurement are in test_probe.c and in the tests of the ladder. */
#include "made_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "machine/checks/doctor.h"
#include "machine/checks/explain.h"
#include "machine/describe/growth.h"

static const char gpu0[] = "sys/devices/pci0000:00/0000:00:01.0/0000:10:00.0";
static const char gpu1[] = "sys/devices/pci0000:08/0000:08:01.0/0000:11:00.0";
static const char nic[] = "sys/devices/pci0000:00/0000:00:02.0/0000:20:00.0";
#define RDMA "sys/devices/pci0000:00/0000:00:02.0/0000:20:00.0/infiniband/mlx5_0/"

static void put_device(const char *bdf, const char *path, const char *class, const char *vendor,
                       int numa)
{
    char name[300], number[16];
    put_pci(bdf, path + strlen("sys/devices/"), class, 0, 0);
    snprintf(name, sizeof name, "%s/vendor", path);
    put_text(name, vendor);
    snprintf(number, sizeof number, "%d\n", numa);
    snprintf(name, sizeof name, "%s/numa_node", path);
    put_text(name, number);
}

static void put_nic(void)
{
    static const char *const files[][2] = {
        {"node_type", "1: CA\n"},
        {"ports/1/link_layer", "Ethernet\n"},
        {"ports/1/state", "4: ACTIVE\n"},
        {"ports/1/phys_state", "5: LinkUp\n"},
        {"ports/1/rate", "400 Gb/sec (4X NDR)\n"},
        {"ports/1/gids/0", "0000:0000:0000:0000:0000:ffff:0a00:0007\n"},
        {"ports/1/gid_attrs/types/0", "RoCE v2\n"},
        {"ports/1/gid_attrs/ndevs/0", "eth0\n"},
        {"ports/1/counters/symbol_error", "0\n"},
        {"ports/1/counters/link_downed", "0\n"},
    };
    char name[300];
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(name, sizeof name, RDMA "%s", files[i][0]);
        put_text(name, files[i][1]);
    }
    put_link("sys/class/infiniband/mlx5_0", "../../devices/pci0000:00/0000:00:02.0/0000:20:00.0/"
                                            "infiniband/mlx5_0");
    put_link(RDMA "device", "../../../0000:20:00.0");
    snprintf(name, sizeof name, "%s/driver", nic);
    put_link(name, "../../../../bus/pci/drivers/mlx5_core");
    put_text("sys/class/net/eth0/mtu", "9000\n");
    put_text("sys/class/net/eth0/type", "1\n");
    put_text("dev/infiniband/uverbs0", "");
}

/* Two GPUs below two CPUs, a NIC and a disk next to the first GPU, without faults. */
static void make_tree(void)
{
    snprintf(root, sizeof root, "/tmp/weft-test-reasons-XXXXXX");
    assert_non_null(mkdtemp(root));
    put_pci("0000:00:01.0", "pci0000:00/0000:00:01.0", "0x060400\n", 4, 0);
    put_pci("0000:00:02.0", "pci0000:00/0000:00:02.0", "0x060400\n", 4, 0);
    put_pci("0000:08:01.0", "pci0000:08/0000:08:01.0", "0x060400\n", 4, 0);
    put_device("0000:10:00.0", gpu0, "0x030200\n", "0x10de\n", 0);
    put_device("0000:11:00.0", gpu1, "0x030200\n", "0x10de\n", 1);
    put_device("0000:20:00.0", nic, "0x020000\n", "0x15b3\n", 0);
    put_nic();
    static const char *const libraries[] = {"libibverbs.so.1", "libmlx5.so.1", "libcufile.so.0"};
    char name[64];
    for (size_t i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "usr/lib/%s", libraries[i]);
        put_text(name, "");
    }
    put_text("dev/nvidiactl", "");
    put_text("dev/kmsg", "");
    put_text("proc/uptime", "200000.00 1.00\n");
    put_text("dev/nvidia-uvm", "");
    put_text("dev/nvidia0", "");
    put_text("dev/nvidia1", "");
    put_text("dev/nvidia-caps/x", "");
    put_text("dev/nvidia-caps-imex-channels/channel0", "");
    put_text("run/udev/data/x", "");
    static const char *const modules[] = {"nvidia_uvm", "nvidia_peermem", "nvidia_fs"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "sys/module/%s/refcnt", modules[i]);
        put_text(name, "0\n");
    }
    put_text("proc/driver/nvidia/version",
             "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.1  Release Build\n");
    put_text("proc/driver/nvidia/params", "RegistryDwords: \"PeerMappingOverride=1;\"\n");
    put_text("proc/self/status", "CapEff:\t0000000000000000\nSeccomp:\t0\n");
    put_text("proc/self/mounts", "/dev/nvme0n1 / xfs rw 0 0\n");
    put_text("proc/sys/kernel/io_uring_disabled", "0\n");
    put_text("sys/kernel/iommu_groups/0/type", "identity\n");
    put_text("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    put_text("proc/meminfo", "HugePages_Total: 0\n");
}

static void remove_tree(void)
{
    remove_below("");
}

/* `file` gets `text`, or is removed if `text` is NULL; `facts` and `links`: for the NVML stand-in;
 * `links` NULL: to a switch. `a` NULL: doctor reports it. */
static const struct {
    enum reason reason;
    const char *file, *text, *facts, *links, *a, *b;
} cases[] = {
    {REASON_P2P_IOMMU, "sys/kernel/iommu_groups/0/type", "DMA\n", "", "", "gpu0", "gpu1"},
    {REASON_P2P_SOCKET, NULL, NULL, "p2p=3", "", "gpu0", "gpu1"},
    {REASON_P2P_CHIPSET, NULL, NULL, "p2p=1", "", "gpu0", "gpu1"},
    {REASON_P2P_GEFORCE, NULL, NULL, "p2p=1,geforce=1", "", "gpu0", "gpu1"},
    {REASON_P2P_REGKEY, NULL, NULL, "p2p=4", "", "gpu0", "gpu1"},
    {REASON_P2P_ROOTS, NULL, NULL, "", "", "gpu0", "gpu1"},
    {REASON_P2P_GPU, NULL, NULL, "p2p=2", "", "gpu0", "gpu1"},
    {REASON_P2P_PAIR, NULL, NULL, "p2p=5", NULL, NULL, NULL},
    {REASON_P2P_VM_FLAT, "sys/class/dmi/id/sys_vendor", "QEMU\n", "p2p=1", "", "gpu0", "gpu1"},
    {REASON_P2P_MIG, NULL, NULL, "mig=1", NULL, "gpu0", "gpu1"},
    {REASON_P2P_CC, NULL, NULL, "conf_compute=1", NULL, "gpu0", "gpu1"},
    {REASON_P2P_VGPU, NULL, NULL, "virtualization=2", NULL, "gpu0", "gpu1"},
    {REASON_P2P_COMPUTE_MODE, NULL, NULL, "compute_mode=3", NULL, "gpu0", "gpu1"},
    {REASON_P2P_UNTOLD, NULL, NULL, "p2p=6", NULL, "gpu0", "gpu1"},
    {REASON_P2P_NO_ATOMICS, NULL, NULL, "p2p_atomics=5", NULL, "gpu0", "gpu1"},
    {REASON_NVLINK_DOWN, NULL, NULL, "link_down=3", NULL, NULL, NULL},
    {REASON_NVLINK_BRIDGE, NULL, NULL, "", "", NULL, NULL},
    {REASON_NVLINK_SPEED, NULL, NULL, "link_mbps=20000", NULL, NULL, NULL},
    {REASON_FABRIC_STATE, NULL, NULL, "fabric=1", NULL, NULL, NULL},
    {REASON_FABRIC_DEGRADED, NULL, NULL, "fabric=3,degraded=1", NULL, NULL, NULL},
    {REASON_FABRIC_CLIQUE, NULL, NULL, "fabric=3,cliques=1", NULL, "gpu0", "gpu1"},
    {REASON_FABRIC_MANAGER, "usr/bin/nv-fabricmanager", "", "", NULL, NULL, NULL},
    {REASON_PCIE_REPLAYS, NULL, NULL, "replays=4711", NULL, NULL, NULL},
    {REASON_PCIE_AER, "sys/devices/pci0000:00/0000:00:02.0/0000:20:00.0/aer_dev_correctable",
     "RxErr 7\nBadTLP 5\nTOTAL_ERR_COR 12\n", "", NULL, NULL, NULL},
    {REASON_PCIE_AER, "sys/devices/pci0000:00/0000:00:01.0/aer_dev_correctable",
     "TOTAL_ERR_COR 1\n", "", NULL, NULL, NULL},
    {REASON_NIC_LOSS, RDMA "ports/1/hw_counters/local_ack_timeout_err", "3\n", "", NULL, NULL,
     NULL},
    {REASON_BAR1_SMALL, NULL, NULL, "memory=80000000000,bar1=268435456", NULL, "host", "gpu0"},
    {REASON_GPU_ECC, NULL, NULL, "ecc_errors=2", NULL, NULL, NULL},
    {REASON_GPU_ROWS, NULL, NULL, "rows=3", NULL, NULL, NULL},
    {REASON_GPU_ROWS_PENDING, NULL, NULL, "rows=0,rows_pending=1", NULL, NULL, NULL},
    {REASON_GPU_ROWS_FAILED, NULL, NULL, "rows=0,rows_failed=1", NULL, NULL, NULL},
    {REASON_GPU_XID, "dev/kmsg", "4,9,199000000000,-;NVRM: Xid (PCI:0000:10:00): 79, pid=7\n", "",
     NULL, NULL, NULL},
    {REASON_KERNEL_LOG, "dev/kmsg", NULL, "", NULL, NULL, NULL},
    {REASON_FABRIC_SXID, "dev/kmsg",
     "3,9,1,-;nvidia-nvswitch0: SXid (PCI:0000:04:00.0): 12028, Non-fatal, Link 32 egress\n", "",
     NULL, NULL, NULL},
    {REASON_IMEX_STOPPED, "usr/bin/nvidia-imex", "", "fabric=3,cluster=7", NULL, NULL, NULL},
    {REASON_GPU_PROHIBITED, NULL, NULL, "compute_mode=2", NULL, NULL, NULL},
    {REASON_GPU_CLOCKS, NULL, NULL, "clock_reasons=0x40", NULL, NULL, NULL},
    {REASON_GPU_PERSISTENCE, NULL, NULL, "persistence=0", NULL, NULL, NULL},
    {REASON_DRV_MISMATCH, NULL, NULL, "driver=570", NULL, NULL, NULL},
    {REASON_DRV_OLD, NULL, NULL, "cuda=10020", NULL, NULL, NULL},
    {REASON_DRV_UVM, "sys/module/nvidia_uvm", NULL, "", NULL, NULL, NULL},
    {REASON_GDR_NO_PEERMEM, "sys/module/nvidia_peermem", NULL, "", NULL, "gpu0", "mlx5_0"},
    {REASON_NIC_NONE, "sys/class/infiniband", NULL, "", NULL, NULL, NULL},
    {REASON_NIC_ABSENT, "sys/devices/pci0000:00/0000:00:02.0/0000:20:00.0", NULL, "", NULL, NULL,
     NULL},
    {REASON_NIC_DOWN, RDMA "ports/1/state", "1: DOWN\n", "", NULL, NULL, NULL},
    {REASON_NIC_ERRORS, RDMA "ports/1/counters/symbol_error", "900\n", "", NULL, NULL, NULL},
    {REASON_NIC_NO_VERBS, "usr/lib/libibverbs.so.1", NULL, "", NULL, NULL, NULL},
    {REASON_NIC_NO_NODE, "dev/infiniband", NULL, "", NULL, NULL, NULL},
    {REASON_ROCE_GID, RDMA "ports/1/gid_attrs/types/0", "IB/RoCE v1\n", "", NULL, NULL, NULL},
    {REASON_ROCE_GID, RDMA "ports/1/gids/0", "fe80:0000:0000:0000:0ac0:ebff:feda:1cfb\n", "", NULL,
     NULL, NULL},
    {REASON_ROCE_MTU, "sys/class/net/eth0/mtu", "1500\n", "", NULL, NULL, NULL},
    {REASON_GDA_NIC, "sys/devices/pci0000:00/0000:00:02.0/0000:20:00.0/driver", NULL, "", NULL,
     "gpu0", "mlx5_0"},
    {REASON_GDA_LIB, "usr/lib/libmlx5.so.1", NULL, "", NULL, "gpu0", "mlx5_0"},
    {REASON_GDA_PEER_MAPPING, "proc/driver/nvidia/params", "RegistryDwords: \"\"\n", "", NULL,
     "gpu0", "mlx5_0"},
    {REASON_MAP_NODE, "dev/nvidiactl", NULL, "", NULL, "host", "gpu0"},
    {REASON_MAP_GDRDRV, "sys/module/gdrdrv/refcnt", "0\n", "", NULL, "host", "gpu0"},
    {REASON_MAP_CC, NULL, NULL, "conf_compute=1", NULL, "host", "gpu0"},
    {REASON_MAP_MIG, NULL, NULL, "mig=1", NULL, "host", "gpu0"},
    {REASON_FILE_NO_FS_MODULE, "sys/module/nvidia_fs", NULL, "", NULL, "gpu0", "/x"},
    {REASON_FILE_NO_CUFILE, "usr/lib/libcufile.so.0", NULL, "", NULL, "gpu0", "/x"},
    {REASON_FILE_CUFILE, "run/udev/data", NULL, "", NULL, "gpu0", "/x"},
    {REASON_FILE_SYSTEM, "proc/self/mounts", "/dev/nvme0n1 / btrfs rw 0 0\n", "", NULL, "gpu0",
     "/x"},
    {REASON_FILE_OPTIONS, "proc/self/mounts", "srv:/ / nfs4 rw,proto=tcp 0 0\n", "", NULL, "gpu0",
     "/x"},
    {REASON_FILE_BUFFERED, "proc/self/mounts", "tmpfs / tmpfs rw 0 0\n", "", NULL, "gpu0", "/x"},
    {REASON_FILE_MOUNT, "proc/self/mounts", NULL, "", NULL, "gpu0", "/x"},
    {REASON_FILE_NO_URING, "proc/sys/kernel/io_uring_disabled", "2\n", "", NULL, NULL, NULL},
    {REASON_HOST_COHERENT, NULL, NULL, "c2c=10,c2c_mbps=45000", NULL, "host", "gpu0"},
    {REASON_GDR_COHERENT, NULL, NULL, "c2c=10,c2c_mbps=45000", NULL, "gpu0", "mlx5_0"},
    {REASON_NUMA_BALANCING, "proc/sys/kernel/numa_balancing", "1\n", "c2c=10,c2c_mbps=45000", NULL,
     NULL, NULL},
    {REASON_INIT_ON_ALLOC, "proc/cmdline", "quiet init_on_alloc=1\n", "c2c=10,c2c_mbps=45000", NULL,
     NULL, NULL},
    {REASON_LIMIT_SECCOMP, "proc/self/status", "CapEff:\t0\nSeccomp:\t2\n", "", NULL, NULL, NULL},
    {REASON_LIMIT_HUGE_PAGES, "sys/kernel/mm/transparent_hugepage/enabled",
     "always madvise [never]\n", "", NULL, NULL, NULL},
    {REASON_LIMIT_GPUS, "dev/nvidia1", NULL, "", NULL, NULL, NULL},
    {REASON_LIMIT_UVM, "dev/nvidia-uvm", NULL, "", NULL, NULL, NULL},
    {REASON_LIMIT_CAPS, "dev/nvidia-caps", NULL, "", NULL, NULL, NULL},
    {REASON_LIMIT_IMEX, "dev/nvidia-caps-imex-channels/channel0", NULL, "fabric=3,cluster=7", NULL,
     NULL, NULL},
};
enum { CASES = sizeof cases / sizeof cases[0] };

/* Keeps the previous contents, which is faster than building another tree. */
static void put_fault(size_t i)
{
    char path[512], kept[512];
    if (!cases[i].file)
        return;
    snprintf(path, sizeof path, "%s/%s", root, cases[i].file);
    snprintf(kept, sizeof kept, "%s/kept", root);
    if (rename(path, kept))
        assert_int_equal(errno, ENOENT);
    if (cases[i].text)
        put_text(cases[i].file, cases[i].text);
}

static void take_fault_back(size_t i)
{
    char path[512], kept[512];
    if (!cases[i].file)
        return;
    remove_below(cases[i].file);
    snprintf(path, sizeof path, "%s/%s", root, cases[i].file);
    snprintf(kept, sizeof kept, "%s/kept", root);
    if (rename(kept, path))
        assert_int_equal(errno, ENOENT);
}

static struct machine *read_tree(void)
{
    const struct machine_source source = {.root = root, .gpus = true, .here = true};
    struct machine *m = machine_read_live(&source);
    assert_int_equal(m->n_gpus, 2);
    return m;
}

static bool told_of(struct machine *m, enum reason reason, const char *a, const char *b)
{
    static struct verdict v;
    static struct diagnosis d;
    const struct findings *findings = &d.findings;
    bool yes = false;
    if (a && explain_pair(m, a, b, &v))
        fail_msg("%s", weft_last_error());
    if (a)
        findings = &v.findings;
    else
        doctor_examine(m, &d);
    for (int k = 0; k < findings->n; k++)
        yes |= findings->list[k].reason == reason;
    a ? verdict_free(&v) : findings_free(&d.findings);
    return yes;
}

static bool told(enum reason reason, const char *a, const char *b)
{
    struct machine *m = read_tree();
    bool yes = told_of(m, reason, a, b);
    machine_free(m);
    return yes;
}

static void test_each(void **state)
{
    make_tree();
    unsetenv("FAKE_NVML_LINKS");
    /* The facts and links of the NVML stand-in cause no reason, except where they are the fault. */
    setenv("FAKE_NVML_FACTS", "mig=0,persistence=1", 1);
    struct machine *sound = read_tree();
    for (size_t i = 0; i < CASES; i++) {
        const char *code = reason_table[cases[i].reason].code;
        unsetenv("FAKE_NVML_LINKS");
        if (told_of(sound, cases[i].reason, cases[i].a, cases[i].b))
            fail_msg("%s is told without the fault", code);
        put_fault(i);
        setenv("FAKE_NVML_FACTS", cases[i].facts, 1);
        if (cases[i].links)
            setenv("FAKE_NVML_LINKS", cases[i].links, 1);
        if (!told(cases[i].reason, cases[i].a, cases[i].b))
            fail_msg("%s is not told of %s (%s)", code, cases[i].file ? cases[i].file : "",
                     cases[i].facts);
        take_fault_back(i);
    }
    machine_free(sound);
    remove_tree();
    unsetenv("FAKE_NVML_FACTS");
    unsetenv("FAKE_NVML_LINKS");
}

/* The PCI Express capability of put_pci() is at 0x40. */
static void patch_config(const char *path, int offset, int value)
{
    char name[512];
    uint8_t bytes[4096];
    snprintf(name, sizeof name, "%s/%s/config", root, path);
    FILE *file = fopen(name, "r+");
    assert_non_null(file);
    assert_int_equal(fread(bytes, 1, sizeof bytes, file), sizeof bytes);
    bytes[offset] = (uint8_t)value;
    rewind(file);
    fwrite(bytes, 1, sizeof bytes, file);
    fclose(file);
}

/* Settings in the configuration space of the NIC and of the bridge above it. */
static void test_pcie_settings(void **state)
{
    static const char bridge[] = "sys/devices/pci0000:00/0000:00:02.0";
    make_tree();
    setenv("FAKE_NVML_FACTS", "mig=0,persistence=1", 1);
    patch_config(nic, 0x44, 2); /* the NIC supports 512 bytes, the bridge 128 */
    assert_false(told(REASON_PCIE_PAYLOAD, NULL, NULL));
    patch_config(bridge, 0x44, 1); /* 256 bytes */
    assert_true(told(REASON_PCIE_PAYLOAD, NULL, NULL));
    patch_config(nic, 0x48, 0x30); /* 256 bytes in use */
    assert_false(told(REASON_PCIE_PAYLOAD, NULL, NULL));
    assert_false(told(REASON_PCIE_ORDERING, NULL, NULL));
    patch_config(nic, 0x48, 0x20);
    assert_true(told(REASON_PCIE_ORDERING, NULL, NULL));
    patch_config(nic, 0x49, 0x20); /* 512 bytes */
    assert_false(told(REASON_PCIE_READ_REQUEST, NULL, NULL));
    patch_config(nic, 0x49, 0x10);
    assert_true(told(REASON_PCIE_READ_REQUEST, NULL, NULL));
    remove_tree();
}

static const struct finding *find(const struct diagnosis *d, enum reason reason)
{
    for (int i = 0; i < d->findings.n; i++)
        if (d->findings.list[i].reason == reason)
            return &d->findings.list[i];
    return NULL;
}

/* Checks which Xid of the log is reported, how many there are, and with which weight. */
static void expect_xid(const char *log, int64_t xid, int64_t all, enum weight weight)
{
    static struct diagnosis d;
    const struct machine_source source = {.root = root, .gpus = true, .here = true};
    put_text("dev/kmsg", log);
    struct machine *m = machine_read_live(&source);
    assert_true(number_is(m->gpus[0].xids, all));
    assert_true(number_is(m->gpus[1].xids, 0));
    if (all)
        assert_true(number_is(m->gpus[0].xid, xid));
    doctor_examine(m, &d);
    const struct finding *f = find(&d, REASON_GPU_XID);
    assert_int_equal(f != NULL, all > 0);
    if (f)
        assert_int_equal(f->weight, weight);
    findings_free(&d.findings);
    machine_free(m);
}

static void test_xids(void **state)
{
    make_tree();
    setenv("FAKE_NVML_FACTS", "mig=0,persistence=1", 1);
    expect_xid("4,1,199999000000,-;NVRM: Xid (PCI:0000:10:00): 79, GPU has fallen off the bus\n",
               79, 1, WEIGHT_SLOW);
    /* Two days ago: the machine has been up for 55 hours. */
    expect_xid("4,1,1000000,-;NVRM: Xid (PCI:0000:10:00): 79, GPU has fallen off the bus\n", 79, 1,
               WEIGHT_NOTE);
    expect_xid("4,1,199999000000,-;NVRM: Xid (PCI:0000:10:00): 31, pid=9, name=a, MMU Fault\n", 31,
               1, WEIGHT_NOTE);
    /* A hardware error is reported before others, whichever came last. */
    expect_xid("4,1,199998000000,-;NVRM: Xid (PCI:0000:10:00): 48, DBE\n"
               " SUBSYSTEM=pci\n"
               "4,2,199999000000,-;NVRM: Xid (PCI:0000:10:00): 45, pid=9\n",
               48, 2, WEIGHT_SLOW);
    /* The time of a syslog line, of 1 h ago; a line without a time, and one from the future. */
    static const struct {
        const char *line, *when;
    } times[] = {
        {"<4>[196399.5] NVRM: Xid (PCI:0000:10:00): 79, x\n",
         "the last hardware error 1 h ago: Xid (PCI:0000:10:00): 79, x"},
        {"4,1,192800000000,-;NVRM: Xid (PCI:0000:10:00): 79, x\n",
         "the last hardware error 2 h ago: "},
        {"NVRM: Xid (PCI:0000:10:00): 79, x\n", "the last hardware error at an unknown time: "},
        {"4,1,900000000000,-;NVRM: Xid (PCI:0000:10:00): 79, x\n",
         "the last hardware error at an unknown time: "},
        {"NVRM: Xid (PCI:0000:10:00): 31, x\n",
         "the last at an unknown time: Xid (PCI:0000:10:00): 31, x"},
    };
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        static struct diagnosis d;
        put_text("dev/kmsg", times[i].line);
        struct machine *m =
            machine_read_live(&(struct machine_source){.root = root, .gpus = true, .here = true});
        doctor_examine(m, &d);
        const struct finding *f = find(&d, REASON_GPU_XID);
        assert_non_null(f);
        if (!strstr(f->evidence, times[i].when))
            fail_msg("\"%s\" lacks \"%s\"", f->evidence, times[i].when);
        findings_free(&d.findings);
        machine_free(m);
    }
    /* An Xid of no GPU of this machine, one of a switch, and a line that only mentions one. */
    expect_xid("4,1,1,-;NVRM: Xid (PCI:0000:99:00): 79, GPU has fallen off the bus\n"
               "3,9,1,-;nvidia-nvswitch0: SXid (PCI:0000:10:00.0): 12028, Non-fatal\n"
               "6,9,1,-;someone: Xid (PCI:0000:10:00): 79\n"
               "6,9,1,-;NVRM: Xid (PCI:0000:10:00): many\n",
               0, 0, WEIGHT_NOTE);
    remove_tree();
}

/* Errors of a switch are notes, except fatal ones. */
static void test_sxids(void **state)
{
    static struct diagnosis d;
    const struct machine_source source = {.root = root, .gpus = true, .here = true};
    make_tree();
    for (int fatal = 0; fatal < 2; fatal++) {
        put_text("dev/kmsg",
                 fatal ? "3,1,1,-;nvidia-nvswitch0: SXid (PCI:0000:04:00.0): 20034, Fatal, Link 3\n"
                         "3,2,2,-;nvidia-nvswitch1: SXid (PCI:0000:05:00.0): 12028, Non-fatal\n"
                       : "3,1,1,-;nvidia-nvswitch0: SXid (PCI:0000:04:00.0): 12028, Non-fatal\n");
        struct machine *m = machine_read_live(&source);
        assert_true(number_is(m->drivers.sxids, 1 + fatal));
        doctor_examine(m, &d);
        const struct finding *f = find(&d, REASON_FABRIC_SXID);
        assert_non_null(f);
        assert_int_equal(f->weight, fatal ? WEIGHT_SLOW : WEIGHT_NOTE);
        assert_int_equal(strstr(f->evidence, "20034") != NULL, fatal);
        findings_free(&d.findings);
        machine_free(m);
    }
    remove_tree();
}

static void put_program(const char *name, const char *text)
{
    char path[512];
    put_text(name, text);
    snprintf(path, sizeof path, "%s/%s", root, name);
    assert_int_equal(chmod(path, 0700), 0);
}

/* The fabric manager has the driver's version, another one, or prints none. */
static void test_fabric_manager(void **state)
{
    static const char name[] = "usr/bin/nv-fabricmanager";
    make_tree();
    setenv("FAKE_NVML_FACTS", "mig=0,persistence=1,driver=580", 1);
    put_program(name, "#!/bin/sh\necho 'Fabric Manager version is : 580.1'\n");
    assert_false(told(REASON_FABRIC_VERSION, NULL, NULL));
    put_program(
        name,
        "#!/bin/sh\n[ \"$1\" = --version ] && echo 'Fabric Manager version is : 570.86.15'\n");
    assert_true(told(REASON_FABRIC_VERSION, NULL, NULL));
    put_program(name, "#!/bin/sh\necho no version\n");
    assert_false(told(REASON_FABRIC_VERSION, NULL, NULL));
    put_program(name, "#!/bin/sh\nexit 1\n");
    assert_false(told(REASON_FABRIC_VERSION, NULL, NULL));
    unsetenv("FAKE_NVML_FACTS");
    remove_tree();
}

/* NVLink 5 counts errors in NVML fields, earlier generations do not. */
static void test_nvlink5(void **state)
{
    const struct machine_source source = {.root = root, .gpus = true, .here = true};
    static const char fields[] = "field_206=1,field_207=2,field_208=4,field_209=8,field_210=16,"
                                 "field_211=100,field_212=200,field_214=300,field_219=400";
    char facts[300];
    make_tree();
    snprintf(facts, sizeof facts, "link_version=7,%s", fields);
    setenv("FAKE_NVML_FACTS", facts, 1);
    struct machine *m = machine_read_live(&source);
    const struct machine_link *link = &m->links[0];
    assert_true(number_is(link->gen, 5) && number_is(link->receive_errors, 31));
    assert_true(number_is(link->integrity_errors, 100) && number_is(link->discards, 200));
    assert_true(number_is(link->failed_recoveries, 300) && number_is(link->effective_errors, 400));
    setenv("FAKE_NVML_FACTS", "link_version=7,field_212=9,field_208=1", 1);
    struct machine *later = machine_read_live(&source);
    assert_true(number_is(later->links[0].receive_errors, 1));
    assert_false(later->links[0].integrity_errors.known);
    growth_record(later, m);
    assert_true(number_is(later->links[0].errors_grown, 30 + 191));
    assert_string_equal(later->links[0].errors_where.value, "receive +30, discards +191");
    machine_free(later);
    machine_free(m);
    setenv("FAKE_NVML_FACTS", fields, 1); /* NVLink 4 */
    m = machine_read_live(&source);
    assert_false(m->links[0].receive_errors.known);
    machine_free(m);
    unsetenv("FAKE_NVML_FACTS");
    remove_tree();
}

static void put_disk(const char *name, const char *member)
{
    char path[200], target[200];
    snprintf(path, sizeof path, "sys/block/%s/size", name);
    put_text(path, "1000\n");
    snprintf(path, sizeof path, "sys/class/block/%s", name);
    snprintf(target, sizeof target, "../../devices/virtual/block/%s", name);
    put_link(path, target);
    if (!member)
        return;
    snprintf(path, sizeof path, "sys/block/%s/slaves/%s/size", name, member);
    put_text(path, "1000\n");
}

/* Judged as gdscheck does: which drivers have registered with nvidia_fs, and what cuFile does
 * without them. */
static void test_gds(void **state)
{
    static const char modules[] = "proc/driver/nvidia-fs/modules", settings[] = "etc/cufile.json";
    make_tree();
    setenv("FAKE_NVML_FACTS", "mig=0,persistence=1", 1);
    assert_false(told(REASON_FILE_NVME_DRIVER, "gpu0", "/x"));
    put_disk("nvme0n1", NULL);
    put_text(modules, "lustre: 1\nnvme: 1\n");
    assert_false(told(REASON_FILE_NVME_DRIVER, "gpu0", "/x"));
    assert_false(told(REASON_FILE_COMPAT, "gpu0", "/x"));
    put_text(modules, "lustre: 1\nnvme_rdma: 1\n");
    assert_true(told(REASON_FILE_NVME_DRIVER, "gpu0", "/x"));
    assert_true(told(REASON_FILE_COMPAT, "gpu0", "/x")); /* allowed, and the only method */
    put_text(settings, "{ // \"allow_compat_mode\": true\n \"properties\": {\n"
                       "  \"allow_compat_mode\": false } }\n");
    assert_false(told(REASON_FILE_COMPAT, "gpu0", "/x"));
    put_text(modules, "nvme: 1\n");
    assert_false(told(REASON_FILE_COMPAT, "gpu0", "/x"));
    put_text(settings, "{\"properties\": {\"force_compat_mode\" : true}}\n");
    assert_true(told(REASON_FILE_COMPAT, "gpu0", "/x"));
    remove_tree();
}

static void test_raid(void **state)
{
    make_tree();
    put_text("proc/self/mounts", "/dev/md0 / xfs rw 0 0\n");
    put_disk("md0", "nvme0n1p2");
    put_text("sys/block/md0/md/level", "raid1\n");
    put_text("sys/block/md0/md/degraded", "0\n");
    assert_false(told(REASON_FILE_RAID, "gpu0", "/x"));
    assert_false(told(REASON_RAID_DEGRADED, NULL, NULL));
    assert_false(told(REASON_FILE_RAID_LEVEL, "gpu0", "/x"));
    put_text("sys/block/md0/md/level", "raid5\n");
    assert_true(told(REASON_FILE_RAID_LEVEL, "gpu0", "/x"));
    put_text("sys/block/md0/slaves/sda1/size", "1\n");
    assert_true(told(REASON_FILE_RAID, "gpu0", "/x"));
    put_text("sys/block/md0/md/degraded", "1\n");
    assert_true(told(REASON_RAID_DEGRADED, NULL, NULL));
    remove_tree();
}

/* A capture card next to a GPU, and one that is far from every GPU. */
static void test_capture(void **state)
{
    static const char far[] = "sys/devices/pci0000:0c/0000:0c:01.0/0000:30:00.0";
    static const char device[] = "sys/class/video4linux/video0/device";
    char path[128];
    make_tree();
    put_pci("0000:0c:01.0", "pci0000:0c/0000:0c:01.0", "0x060400\n", 4, 0);
    put_device("0000:30:00.0", far, "0x040000\n", "0xf1d0\n", 0);
    put_text("sys/class/video4linux/video0/name", "Corvid 44\n");
    put_text("sys/class/video4linux/v4l-subdev0/name", "no device that captures\n");
    put_link(device, "../../../devices/pci0000:0c/0000:0c:01.0/0000:30:00.0");
    put_text("dev/video0", "");
    assert_true(told(REASON_CAPTURE_FAR, NULL, NULL));
    assert_false(told(REASON_CAPTURE_NODE, NULL, NULL));
    snprintf(path, sizeof path, "%s/%s", root, device);
    assert_int_equal(unlink(path), 0);
    put_link(device, "../../../devices/pci0000:08/0000:08:01.0/0000:11:00.0");
    assert_false(told(REASON_CAPTURE_FAR, NULL, NULL));
    snprintf(path, sizeof path, "%s/dev/video0", root);
    assert_int_equal(unlink(path), 0);
    assert_true(told(REASON_CAPTURE_NODE, NULL, NULL));
    struct machine *m = machine_read_live(&(struct machine_source){.root = root});
    assert_int_equal(m->n_captures, 1);
    assert_string_equal(m->captures[0].model.value, "Corvid 44");
    assert_string_equal(m->captures[0].bdf.value, "0000:11:00.0");
    machine_free(m);
    remove_tree();
}

static void put_bond(const char *mode, const char *second)
{
    put_text("sys/class/net/bond0/type", "1\n");
    put_text("sys/class/net/bond0/bonding/mode", mode);
    put_text("sys/class/net/bond0/bonding/slaves", "eth0 eth1\n");
    put_text("sys/class/net/eth0/bonding_slave/mii_status", "up\n");
    put_text("sys/class/net/eth1/bonding_slave/mii_status", second);
}

static void test_bonds(void **state)
{
    make_tree();
    put_bond("802.3ad 4\n", "up\n");
    assert_false(told(REASON_BOND_MEMBER, NULL, NULL));
    assert_false(told(REASON_BOND_BACKUP, NULL, NULL));
    put_bond("802.3ad 4\n", "down\n");
    assert_true(told(REASON_BOND_MEMBER, NULL, NULL));
    put_bond("active-backup 1\n", "up\n");
    assert_true(told(REASON_BOND_BACKUP, NULL, NULL));
    assert_false(told(REASON_BOND_MEMBER, NULL, NULL));
    remove_tree();
}

/* A second port of the same model is slower, then as fast; a port of another model is not
 * compared. */
static void test_rate(void **state)
{
    static const char other[] = "sys/class/infiniband/mlx5_1/";
    static const char *const files[][2] = {{"hca_type", "MT4129\n"},
                                           {"node_type", "1: CA\n"},
                                           {"ports/1/link_layer", "Ethernet\n"},
                                           {"ports/1/state", "4: ACTIVE\n"},
                                           {"ports/1/rate", "200 Gb/sec (2X NDR)\n"}};
    char name[300];
    make_tree();
    put_text(RDMA "hca_type", "MT4129\n");
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "%s%s", other, files[i][0]);
        put_text(name, files[i][1]);
    }
    assert_true(told(REASON_NIC_RATE, NULL, NULL));
    put_text("sys/class/infiniband/mlx5_1/hca_type", "MT4127\n");
    assert_false(told(REASON_NIC_RATE, NULL, NULL));
    put_text("sys/class/infiniband/mlx5_1/hca_type", "MT4129\n");
    put_text("sys/class/infiniband/mlx5_1/ports/1/rate", "400 Gb/sec (4X NDR)\n");
    assert_false(told(REASON_NIC_RATE, NULL, NULL));
    remove_tree();
}

/* Between two readings counters grow, stay, or are reset. */
static void test_growth(void **state)
{
    static struct diagnosis d;
    const struct machine_source source = {.root = root, .gpus = true, .here = true};
    static const char aer[] = "sys/devices/pci0000:00/0000:00:02.0/aer_dev_correctable";
    make_tree();
    put_text(aer, "TOTAL_ERR_COR 5\n");
    put_text(RDMA "ports/1/hw_counters/out_of_sequence", "10\n");
    setenv("FAKE_NVML_FACTS", "mig=0,persistence=1,replays=7", 1);
    struct machine *m = machine_read_live(&source), *later = machine_read_live(&source);
    growth_record(m, later);
    assert_true(number_is(m->ports[0].errors_grown, 0));
    assert_true(number_is(m->gpus[1].replays_grown, 0));
    machine_free(later);
    put_text(aer, "TOTAL_ERR_COR 9\n");
    put_text(RDMA "ports/1/hw_counters/out_of_sequence", "4\n"); /* reset */
    put_text(RDMA "ports/1/counters/link_downed", "2\n");
    setenv("FAKE_NVML_FACTS", "mig=0,persistence=1,replays=8", 1);
    later = machine_read_live(&source);
    growth_record(m, later);
    assert_true(number_is(machine_find_pci(m, "0000:00:02.0")->aer_grown, 4));
    assert_true(number_is(m->ports[0].errors_grown, 2));
    assert_string_equal(m->ports[0].errors_where.value, "link down +2");
    assert_true(number_is(m->gpus[1].replays_grown, 1));
    doctor_examine(m, &d);
    int pcie = 0, nics = 0;
    for (int i = 0; i < d.findings.n; i++) {
        pcie += d.findings.list[i].reason == REASON_PCIE_GROWING;
        nics += d.findings.list[i].reason == REASON_NIC_GROWING;
    }
    assert_int_equal(pcie, 3); /* the bridge, and two GPUs */
    assert_int_equal(nics, 1);
    findings_free(&d.findings);
    machine_free(later);
    machine_free(m);
    unsetenv("FAKE_NVML_FACTS");
    remove_tree();
}

static void test_limits(void **state)
{
    struct rlimit files, locked;
    make_tree();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &locked), 0);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){.rlim_cur = 200, .rlim_max = files.rlim_max});
    setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){.rlim_cur = 65536, .rlim_max = locked.rlim_max});
    assert_true(told(REASON_LIMIT_FILES, NULL, NULL));
    assert_true(told(REASON_LIMIT_MEMLOCK, NULL, NULL));
    setrlimit(RLIMIT_NOFILE, &files);
    setrlimit(RLIMIT_MEMLOCK, &locked);
    assert_false(told(REASON_MAP_OFF, "host", "gpu0"));
    setenv("WEFT_MAP", "none", 1);
    assert_true(told(REASON_MAP_OFF, "host", "gpu0"));
    unsetenv("WEFT_MAP");
    remove_tree();
}

/* Links between GPU and CPU, as NVML reports them on Grace. */
static void test_cpu_links(void **state)
{
    make_tree();
    put_text("proc/driver/nvidia/gpus/0000:10:00.0/numa_status", "Node: 5\nStatus: online\n");
    put_text("proc/driver/nvidia/gpus/0000:11:00.0/numa_status", "Node: -1\nStatus: offline\n");
    setenv("FAKE_NVML_FACTS", "c2c=10,c2c_mbps=44712", 1);
    const struct machine_source source = {.root = root, .gpus = true, .here = true};
    struct machine *m = machine_read_live(&source);
    struct link_bundle bundle = routes_cpu_links(m, 1);
    assert_int_equal(bundle.links, 10);
    assert_int_equal(bundle.line_mbps, 447120);
    assert_string_equal(bundle.kind, "c2c");
    assert_true(number_is(m->gpus[0].memory_numa, 5));
    assert_false(m->gpus[1].memory_numa.known);
    assert_non_null(strstr(m->gpus[1].memory_numa.why, "has no node"));
    /* A GPU's links have different numbers, of whatever kind they are. */
    assert_true(m->gpus[1].nvlinks.value > 0);
    for (size_t i = 0; i < m->n_links; i++)
        for (size_t k = 0; k < i; k++)
            assert_false(number_is(m->links[i].gpu, m->links[k].gpu.value) &&
                         number_is(m->links[i].link, m->links[k].link.value));
    machine_free(m);
    unsetenv("FAKE_NVML_FACTS");
    remove_tree();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_bonds),
        cmocka_unit_test(test_pcie_settings),
        cmocka_unit_test(test_rate),
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_xids),
        cmocka_unit_test(test_sxids),
        cmocka_unit_test(test_fabric_manager),
        cmocka_unit_test(test_nvlink5),
        cmocka_unit_test(test_gds),
        cmocka_unit_test(test_raid),
        cmocka_unit_test(test_capture),
        cmocka_unit_test(test_cpu_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
