/* SPDX-License-Identifier: Apache-2.0 */
/* Reasons that concern the placement of devices, on a machine read live: two packages, a switch
 * with GPU, NIC and disk below each, in an imitated tree of /sys, /proc and /dev, with the NVML
 * stand-in. Each reason is reported with its fault and not without. test_live_reasons.c covers
 * settings and drivers; the tests of the probe and of the ladder cover measurements. The last test
 * lists the reasons without such a case, so that a new reason needs one. */
#include "made_tree.h"

#include <stdlib.h>
#include <sys/auxv.h>

#include "machine/checks/doctor.h"
#include "machine/checks/explain.h"

#define ROOT0 "pci0000:00/0000:00:01.0"
#define ROOT1 "pci0000:80/0000:80:01.0"

/* Changes one byte of the configuration space of put_pci(). */
static void poke(const char *path, long at, int byte)
{
    char name[400];
    snprintf(name, sizeof name, "%s/sys/devices/%s/config", root, path);
    FILE *file = fopen(name, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    fputc(byte, file);
    fclose(file);
}

static void put_at(const char *path, const char *name, const char *text)
{
    char whole[400];
    snprintf(whole, sizeof whole, "sys/devices/%s/%s", path, name);
    put_text(whole, text);
}

/* Two CPUs on two NUMA nodes, as hwloc reads them. */
static void put_cpus(void)
{
    for (int cpu = 0; cpu < 2; cpu++) {
        char base[80], name[160], text[32];
        snprintf(base, sizeof base, "sys/devices/system/cpu/cpu%d/topology", cpu);
        const char *const files[] = {"physical_package_id", "core_id",      "thread_siblings",
                                     "core_siblings",       "package_cpus", "core_cpus"};
        for (int i = 0; i < 6; i++) {
            snprintf(name, sizeof name, "%s/%s", base, files[i]);
            snprintf(text, sizeof text,
                     i == 0   ? "%d\n"
                     : i == 1 ? "0\n"
                              : "%x\n",
                     i == 0 ? cpu : 1 << cpu);
            put_text(name, text);
        }
        snprintf(name, sizeof name, "sys/devices/system/node/node%d/cpumap", cpu);
        snprintf(text, sizeof text, "%x\n", 1 << cpu);
        put_text(name, text);
        snprintf(name, sizeof name, "sys/devices/system/node/node%d/meminfo", cpu);
        snprintf(text, sizeof text, "Node %d MemTotal: 1048576 kB\n", cpu);
        put_text(name, text);
        snprintf(name, sizeof name, "sys/devices/system/node/node%d/distance", cpu);
        put_text(name, cpu ? "21 10\n" : "10 21\n");
    }
    put_text("sys/devices/system/cpu/online", "0-1\n");
    put_text("sys/devices/system/cpu/possible", "0-1\n");
    put_text("sys/devices/system/cpu/present", "0-1\n");
    put_text("sys/devices/system/node/online", "0-1\n");
    put_text("sys/devices/system/node/possible", "0-1\n");
    put_text("proc/cpuinfo",
             "processor : 0\nvendor_id : GenuineIntel\ncpu family : 6\nmodel : 143\n"
             "physical id : 0\n\nprocessor : 1\nvendor_id : GenuineIntel\n"
             "cpu family : 6\nmodel : 143\nphysical id : 1\n");
}

static void put_gpu(const char *bdf, const char *path, const char *numa)
{
    put_pci(bdf, path, "0x030200\n", 0, 0);
    put_at(path, "vendor", "0x10de\n");
    put_at(path, "numa_node", numa);
}

static void put_nic(int number, const char *bdf, const char *path, const char *numa)
{
    char base[200], name[300], target[200];
    put_pci(bdf, path, "0x020700\n", 0, 0);
    put_at(path, "vendor", "0x15b3\n");
    put_at(path, "numa_node", numa);
    snprintf(base, sizeof base, "sys/devices/%s/infiniband/mlx5_%d", path, number);
    static const char *const files[][2] = {{"node_type", "1: CA\n"},
                                           {"ports/1/link_layer", "InfiniBand\n"},
                                           {"ports/1/state", "4: ACTIVE\n"},
                                           {"ports/1/phys_state", "5: LinkUp\n"},
                                           {"ports/1/rate", "400 Gb/sec (4X NDR)\n"}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(name, sizeof name, "%s/%s", base, files[i][0]);
        put_text(name, files[i][1]);
    }
    snprintf(name, sizeof name, "sys/class/infiniband/mlx5_%d", number);
    snprintf(target, sizeof target, "../../devices/%s/infiniband/mlx5_%d", path, number);
    put_link(name, target);
    snprintf(name, sizeof name, "%s/device", base);
    snprintf(target, sizeof target, "../../../%s", bdf);
    put_link(name, target);
    snprintf(name, sizeof name, "sys/devices/%s/driver", path);
    put_link(name, "../../../../bus/pci/drivers/mlx5_core");
}

static void put_disk(const char *bdf, const char *path)
{
    char name[300], target[300];
    put_pci(bdf, path, "0x010802\n", 0, 0);
    put_at(path, "numa_node", "0\n");
    snprintf(name, sizeof name, "sys/devices/%s/nvme/nvme0/nvme0n1/size", path);
    put_text(name, "1000000\n");
    snprintf(target, sizeof target, "../devices/%s/nvme/nvme0/nvme0n1", path);
    put_link("sys/block/nvme0n1", target);
    put_text("sys/class/nvme/nvme0/transport", "pcie\n");
    put_link("sys/class/block/nvme0n1", "../../devices/x/block/nvme0n1");
}

static void make_tree(void)
{
    snprintf(root, sizeof root, "/tmp/weft-test-places-XXXXXX");
    assert_non_null(mkdtemp(root));
    put_cpus();
    static const char *const roots[] = {ROOT0, ROOT1};
    for (int i = 0; i < 2; i++) {
        char path[200], bdf[16];
        int bus = i ? 0x81 : 0x01;
        snprintf(bdf, sizeof bdf, "%s", strrchr(roots[i], '/') + 1);
        put_pci(bdf, roots[i], "0x060400\n", 4, 0);
        put_at(roots[i], "numa_node", i ? "1\n" : "0\n");
        snprintf(bdf, sizeof bdf, "0000:%02x:00.0", bus);
        snprintf(path, sizeof path, "%s/%s", roots[i], bdf);
        put_pci(bdf, path, "0x060400\n", 5, 0);
        put_at(path, "numa_node", i ? "1\n" : "0\n");
        for (int slot = 0; slot < 3; slot++) {
            snprintf(bdf, sizeof bdf, "0000:%02x:%02x.0", bus + 1, slot);
            snprintf(path, sizeof path, "%s/0000:%02x:00.0/%s", roots[i], bus, bdf);
            put_pci(bdf, path, "0x060400\n", 6, 0);
            put_at(path, "numa_node", i ? "1\n" : "0\n");
        }
    }
    put_gpu("0000:10:00.0", ROOT0 "/0000:01:00.0/0000:02:00.0/0000:10:00.0", "0\n");
    put_gpu("0000:11:00.0", ROOT1 "/0000:81:00.0/0000:82:00.0/0000:11:00.0", "1\n");
    put_nic(0, "0000:20:00.0", ROOT0 "/0000:01:00.0/0000:02:01.0/0000:20:00.0", "0\n");
    put_nic(1, "0000:21:00.0", ROOT1 "/0000:81:00.0/0000:82:01.0/0000:21:00.0", "1\n");
    put_disk("0000:30:00.0", ROOT0 "/0000:01:00.0/0000:02:02.0/0000:30:00.0");
    put_text("dev/nvidiactl", "");
    put_text("dev/infiniband/uverbs0", "");
    put_text("sys/module/nvidia_fs/refcnt", "0\n");
    put_text("sys/module/nvidia_uvm/refcnt", "0\n");
    put_text("proc/driver/nvidia/version",
             "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.1  Release Build\n");
    put_text("proc/sys/kernel/osrelease", "6.8.0-45-generic\n");
    put_text("boot/config-6.8.0-45-generic", "CONFIG_PCI_P2PDMA=y\n");
    put_text("proc/self/mounts", "/dev/nvme0n1 / xfs rw 0 0\n");
    put_text("proc/self/cgroup", "0::/\n");
    put_link("proc/self/ns/pid", "pid:[4026531836]");
    put_text("sys/fs/cgroup/memory.max", "max\n");
    put_text("sys/kernel/iommu_groups/0/type", "identity\n");
}

/* --- faults ----------------------------------------------------------------------------------- */

static void acs_on(void)
{
    poke(ROOT0 "/0000:01:00.0/0000:02:00.0", 0x106, 0x0c); /* request and completion redirect */
}

static void half_the_lanes(void)
{
    poke(ROOT0 "/0000:01:00.0/0000:02:01.0/0000:20:00.0", 0x52, 0x84); /* x8, generation 4 */
    poke(ROOT0 "/0000:01:00.0/0000:02:01.0/0000:20:00.0", 0x53, 0);
}

static void low_generation(void)
{
    poke(ROOT0 "/0000:01:00.0/0000:02:01.0/0000:20:00.0", 0x52, 0x01);
}

/* Cuts the configuration space to what users other than root can read. */
static void short_config(void)
{
    char command[256];
    snprintf(command, sizeof command,
             "find '%s/sys/devices' -name config -exec truncate -s 64 {} +", root);
    assert_int_equal(system(command), 0);
    put_at(ROOT0 "/0000:01:00.0", "current_link_speed", "16.0 GT/s PCIe\n");
    put_at(ROOT0 "/0000:01:00.0/0000:02:00.0", "current_link_speed", "16.0 GT/s PCIe\n");
}

static void no_node(void)
{
    static const char *const paths[] = {ROOT0, ROOT0 "/0000:01:00.0",
                                        ROOT0 "/0000:01:00.0/0000:02:00.0",
                                        ROOT0 "/0000:01:00.0/0000:02:00.0/0000:10:00.0"};
    for (int i = 0; i < 4; i++)
        put_at(paths[i], "numa_node", "-1\n");
}

static void one_nic_down(void)
{
    put_at(ROOT1 "/0000:81:00.0/0000:82:01.0/0000:21:00.0", "infiniband/mlx5_1/ports/1/state",
           "1: DOWN\n");
}

static void ip_over_infiniband(void)
{
    put_text("sys/class/net/ib0/type", "32\n");
    put_text("sys/class/net/ib0/mtu", "2044\n");
    put_text("sys/class/net/ib0/operstate", "up\n");
    put_link("sys/class/net/ib0/device",
             "../../../devices/" ROOT0 "/0000:01:00.0/0000:02:01.0/0000:20:00.0");
}

/* Two subnets of InfiniBand. */
static void two_rails(void)
{
    put_text("sys/devices/" ROOT0 "/0000:01:00.0/0000:02:01.0/0000:20:00.0/infiniband/mlx5_0/"
             "ports/1/gids/0",
             "fec0:0000:0000:0001:0ac0:ebff:feda:1cfb\n");
    put_text("sys/devices/" ROOT1 "/0000:81:00.0/0000:82:01.0/0000:21:00.0/infiniband/mlx5_1/"
             "ports/1/gids/0",
             "fec0:0000:0000:0002:0ac0:ebff:feda:1cfc\n");
}

static void virtual_function(void)
{
    put_link("sys/devices/" ROOT0 "/0000:01:00.0/0000:02:01.0/0000:20:00.0/physfn",
             "../0000:20:00.0");
}

static void pid_namespace(void)
{
    remove_below("proc/self/ns/pid");
    put_link("proc/self/ns/pid", "pid:[4026532999]");
}

static void small_cgroup(void)
{
    put_text("sys/fs/cgroup/memory.max", "1073741824\n");
}

static void under_wsl(void)
{
    put_text("proc/sys/kernel/osrelease", "5.15.167.4-microsoft-standard-WSL2\n");
    remove_below("dev/nvidiactl");
}

static void on_virtio(void)
{
    put_text("proc/self/mounts", "/dev/vda / xfs rw 0 0\n");
    put_text("sys/devices/virtio/block/vda/size", "1000\n");
    put_link("sys/block/vda", "../devices/virtio/block/vda");
    put_link("sys/class/block/vda", "../../devices/virtio/block/vda");
}

static void no_p2pdma(void)
{
    put_text("boot/config-6.8.0-45-generic", "# CONFIG_PCI_P2PDMA is not set\n");
    remove_below("sys/module/nvidia_fs");
}

/* Both GPUs at the root complex of a guest, in cliques 1 and 2 according to the hypervisor. */
static void two_cliques(void)
{
    static const char *const bdfs[] = {"0000:10:00.0", "0000:11:00.0"};
    put_text("sys/class/dmi/id/sys_vendor", "QEMU\n");
    remove_below("sys/devices/" ROOT0 "/0000:01:00.0/0000:02:00.0/0000:10:00.0");
    remove_below("sys/devices/" ROOT1 "/0000:81:00.0/0000:82:00.0/0000:11:00.0");
    for (int i = 0; i < 2; i++) {
        char path[100], name[100];
        snprintf(name, sizeof name, "sys/bus/pci/devices/%s", bdfs[i]);
        remove_below(name);
        snprintf(path, sizeof path, "pci0000:00/%s", bdfs[i]);
        put_gpu(bdfs[i], path, "0\n");
        poke(path, 0x41, 0x80); /* after PCI Express: vendor-specific, 8 bytes, "P2P" */
        poke(path, 0x80, 0x09);
        poke(path, 0x82, 8);
        for (int k = 0; k < 3; k++)
            poke(path, 0x83 + k, "P2P"[k]);
        poke(path, 0x86, (i + 1) << 3);
    }
}

static void with_verbs(void)
{
    put_text("usr/lib/libibverbs.so.1", "");
}

/* A 64-bit Arm kernel whose processes have pages of 4 KiB. */
static void small_pages(void)
{
    static const uint64_t vector[] = {33, 0x7000, AT_PAGESZ, 4096, AT_NULL, 0};
    put("proc/self/auxv", vector, sizeof vector);
    put_text("proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n");
}

/* --- cases ------------------------------------------------------------------------------------ */

/* `facts` and `links`: for the NVML stand-in; `a` NULL: doctor reports it. `always`: the reason is
 * reported until something is tested or measured, which this file does not do, so also without a
 * fault. */
static const struct {
    enum reason reason;
    void (*fault)(void);
    const char *facts, *links, *a, *b;
    bool always;
} cases[] = {
    {REASON_P2P_ACS, acs_on, "", "", "gpu0", "mlx5_0", false},
    {REASON_PCIE_WIDTH, half_the_lanes, "", NULL, NULL, NULL, false},
    {REASON_PCIE_GEN, low_generation, "", NULL, NULL, NULL, false},
    {REASON_PCIE_READ, short_config, "", "", "gpu0", "mlx5_0", false},
    {REASON_NUMA_UNKNOWN, no_node, "", NULL, NULL, NULL, false},
    {REASON_P2P_VM_CLIQUE, two_cliques, "p2p=1", "", "gpu0", "gpu1", false},
    {REASON_NVLINK_NONE, NULL, "", "0-2:1,1-2:1", "gpu0", "gpu1", false},
    {REASON_NVLINK_ERRORS, NULL, "", NULL, NULL, NULL, false},
    {REASON_NIC_SHARED, one_nic_down, "", NULL, NULL, NULL, false},
    {REASON_NIC_KEYS, with_verbs, "", NULL, NULL, NULL, false},
    {REASON_IPOIB, ip_over_infiniband, "", NULL, NULL, NULL, false},
    {REASON_GDR_FAR, NULL, "", NULL, "gpu0", "mlx5_1", false},
    {REASON_GDR_UNTRIED, NULL, "", NULL, "gpu0", "mlx5_0", true},
    {REASON_P2P_UNPROVEN, NULL, "", NULL, "gpu0", "gpu1", true},
    {REASON_MAP_WSL, under_wsl, "", NULL, "host", "gpu0", false},
    {REASON_FILE_DEVICE, on_virtio, "", NULL, "gpu0", "/x", false},
    {REASON_FILE_FAR, NULL, "", NULL, "gpu1", "/x", false},
    {REASON_FILE_P2PDMA, no_p2pdma, "", NULL, "gpu0", "/x", false},
    {REASON_NIC_RAILS, two_rails, "", NULL, NULL, NULL, false},
    {REASON_NIC_VF, virtual_function, "", NULL, NULL, NULL, false},
    {REASON_KERNEL_PAGES, small_pages, "c2c=5,c2c_mbps=44712", NULL, NULL, NULL, false},
    {REASON_LIMIT_PIDS, pid_namespace, "", NULL, NULL, NULL, false},
    {REASON_LIMIT_MEMORY, small_cgroup, "memory=80000000000", NULL, NULL, NULL, false},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static bool told_of(const struct machine *m, enum reason reason, const char *a, const char *b)
{
    static struct verdict v;
    static struct diagnosis d;
    struct findings *findings = a ? &v.findings : &d.findings;
    if (a && explain_pair(m, a, b, &v))
        fail_msg("%s", weft_last_error());
    if (!a)
        doctor_examine(m, &d);
    bool yes = findings_have(findings, reason);
    a ? verdict_free(&v) : findings_free(&d.findings);
    return yes;
}

static bool told(enum reason reason, const char *a, const char *b)
{
    const struct machine_source source = {.root = root, .gpus = true, .here = true};
    struct machine *m = machine_read_live(&source);
    assert_int_equal(m->n_gpus, 2);
    bool yes = told_of(m, reason, a, b);
    machine_free(m);
    return yes;
}

/* The pair or the settings for the case without fault, where they are the fault itself. */
static const char *without(size_t i, bool second)
{
    const char *b = cases[i].b;
    if (cases[i].reason == REASON_GDR_FAR && second)
        return "mlx5_0";
    if (cases[i].reason == REASON_FILE_FAR && !second)
        return "gpu0";
    return second ? b : cases[i].a;
}

static void set_links(const char *links)
{
    if (links)
        setenv("FAKE_NVML_LINKS", links, 1);
    else
        unsetenv("FAKE_NVML_LINKS");
}

static void test_each(void **state)
{
    for (size_t i = 0; i < CASES; i++) {
        const char *code = reason_table[cases[i].reason].code;
        if (i == 0 || cases[i - 1].fault)
            make_tree();
        setenv("FAKE_NVML_FACTS", "mig=0", 1);
        /* Links with errors, which the stand-in always has, and links without a peer are the fault
         * itself. */
        set_links(cases[i].fault && cases[i].links          ? cases[i].links
                  : cases[i].reason == REASON_NVLINK_ERRORS ? ""
                                                            : NULL);
        if (told(cases[i].reason, without(i, false), without(i, true)) != cases[i].always)
            fail_msg("%s is %s without the fault", code, cases[i].always ? "not told" : "told");
        if (cases[i].fault)
            cases[i].fault();
        setenv("FAKE_NVML_FACTS", cases[i].facts, 1);
        set_links(cases[i].links);
        if (!told(cases[i].reason, cases[i].a, cases[i].b))
            fail_msg("%s is not told", code);
        if (cases[i].fault || i == CASES - 1)
            remove_below("");
    }
    unsetenv("FAKE_NVML_FACTS");
    unsetenv("FAKE_NVML_LINKS");
}

/* GPUs on the bus, and a driver that does not respond. */
static void test_no_driver(void **state)
{
    const struct machine_source source = {.root = root, .gpus = true, .here = true};
    make_tree();
    setenv("FAKE_NVML_FACTS", "absent=9", 1);
    struct machine *m = machine_read_live(&source);
    assert_int_equal(m->n_gpus, 0);
    assert_true(number_is(m->limits.nvidia_pci_devices, 2));
    assert_true(told_of(m, REASON_DRV_NONE, NULL, NULL));
    machine_free(m);
    setenv("FAKE_NVML_FACTS", "absent=18", 1); /* of another version than the kernel module */
    m = machine_read_live(&source);
    assert_true(told_of(m, REASON_DRV_MISMATCH, NULL, NULL));
    assert_false(told_of(m, REASON_DRV_NONE, NULL, NULL));
    machine_free(m);
    unsetenv("FAKE_NVML_FACTS");
    assert_false(told(REASON_DRV_NONE, NULL, NULL));
    remove_below("");
}

/* Facts of this process: the file system of /dev/shm is not part of an imitated tree. */
static void test_shm(void **state)
{
    const struct machine_source here = {.root = "", .gpus = false};
    struct machine *m = machine_read_live(&here);
    if (m->limits.shm_bytes.known)
        assert_int_equal(told_of(m, REASON_LIMIT_SHM, NULL, NULL),
                         m->limits.shm_bytes.value < 1 << 30);
    machine_free(m);
}

/* --- the list --------------------------------------------------------------------------------- */

static const char *const ids[REASON_COUNT] = {
#define NAME(id, ...) "REASON_" #id,
    REASONS(NAME)
#undef NAME
};

/* True: the text contains the name as a whole word. */
static bool names(const char *text, const char *id)
{
    size_t length = strlen(id);
    for (const char *at = strstr(text, id); at; at = strstr(at + length, id))
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", at[length]))
            return true;
    return false;
}

/* The name in quotes, as scripts search for it in the output. */
static const char *quoted(int reason)
{
    static char text[40];
    snprintf(text, sizeof text, "'%s'", reason_table[reason].code);
    return text;
}

static char *whole_file(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, TESTS "/%s", name);
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s is not there", path);
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    fread(text, 1, (1 << 20) - 1, file);
    fclose(file);
    return text;
}

/* Every reason has a case in which it follows from what is read or measured, not from a fact set by
 * hand: in imitated trees, or over the stand-ins of NVML, the CUDA driver, the verbs, the software
 * HCA and the kernel. */
static void test_none_without(void **state)
{
    static const char *const files[] = {
        "test_live_places.c",     "test_live_reasons.c", "test_probe.c", "test_ladder_verbs.c",
        "test_ladder_doorbell.c", "test_ethernet.c",     "measure.sh"};
    enum { FILES = sizeof files / sizeof files[0] };
    char *texts[FILES], missing[2000] = "";
    for (int f = 0; f < FILES; f++)
        texts[f] = whole_file(files[f]);
    for (int r = 0; r < REASON_COUNT; r++) {
        /* only a description has several hosts; NCCL's codes are of its log (test_nccl_log.c) */
        bool found = r == REASON_OTHER_HOST || strncmp(reason_table[r].code, "NCCL-", 5) == 0;
        for (int f = 0; f < FILES; f++)
            found |= names(texts[f], ids[r]) || names(texts[f], quoted(r));
        size_t used = strlen(missing);
        if (!found)
            snprintf(missing + used, sizeof missing - used, " %s", reason_table[r].code);
    }
    for (int f = 0; f < FILES; f++)
        free(texts[f]);
    if (*missing)
        fail_msg("no live case brings about:%s", missing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each),
        cmocka_unit_test(test_no_driver),
        cmocka_unit_test(test_shm),
        cmocka_unit_test(test_none_without),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
