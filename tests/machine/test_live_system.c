/* SPDX-License-Identifier: Apache-2.0 */
/* The hypervisor, container, driver and services that the live readers recognize: each file alone,
 * in a small tree that imitates /sys, /proc and /dev. */
#include <stdlib.h>

#include "machine/live/live.h"
#include "machine/machine.h"
#include "made_tree.h"

enum { FILES_MOST = 4 };

struct file {
    const char *name, *text;
};

static struct machine *read_tree(const struct file *files)
{
    snprintf(root, sizeof root, "/tmp/weft-test-system-XXXXXX");
    assert_non_null(mkdtemp(root));
    for (int i = 0; i < FILES_MOST && files[i].name; i++)
        put_text(files[i].name, files[i].text);
    struct machine *m = machine_read_live(&(struct machine_source){.root = root});
    return m;
}

static void free_tree(struct machine *m)
{
    machine_free(m);
    remove_below("");
}

static void test_containers(void **state)
{
    static const struct {
        struct file files[FILES_MOST];
        const char *name;
    } cases[] = {
        {{{"proc/1/cgroup", "0::/\n"}}, "none"},
        {{{"proc/1/cgroup", "0::/lxc/a\n"}}, "lxc"},
        {{{"proc/1/cgroup", "12:pids:/docker/0123\n"}}, "docker"},
        {{{".dockerenv", ""}}, "docker"},
        {{{".dockerenv", ""}, {"proc/1/cgroup", "0::/lxc/a\n"}}, "docker"},
        {{{"run/.containerenv", ""}}, "podman"},
        {{{"run/.containerenv", ""}, {".dockerenv", ""}}, "podman"},
        {{{"proc/1/cgroup", "0::/kubepods.slice/a\n"}}, "kubernetes"},
        {{{"var/run/secrets/kubernetes.io", ""}}, "kubernetes"},
        {{{"var/run/secrets/kubernetes.io", ""}, {"run/.containerenv", ""}}, "kubernetes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct machine *m = read_tree(cases[i].files);
        if (!text_is(m->system.container, cases[i].name))
            fail_msg("case %zu: %s, expected %s", i, m->system.container.value, cases[i].name);
        free_tree(m);
    }
}

#define VENDOR "sys/class/dmi/id/sys_vendor"
#define BRIDGE "sys/bus/pci/devices/0000:00:00.0/"

static void test_hypervisors(void **state)
{
    static const struct {
        struct file files[FILES_MOST];
        const char *name;
    } cases[] = {
        {{{VENDOR, "QEMU\n"}}, "kvm"},
        {{{"sys/class/dmi/id/product_name", "KVM Virtual Machine\n"}}, "kvm"},
        {{{VENDOR, "VMware, Inc.\n"}}, "vmware"},
        {{{VENDOR, "Xen\n"}}, "xen"},
        {{{VENDOR, "Microsoft Corporation\n"},
          {"sys/class/dmi/id/product_name", "Virtual Machine\n"}},
         "hyperv"},
        {{{VENDOR, "Microsoft Corporation\n"},
          {"sys/class/dmi/id/product_name", "Surface\n"},
          {"proc/cpuinfo", "flags\t: fpu lahf\n"}},
         "none"},
        {{{VENDOR, "Supermicro\n"}, {"proc/cpuinfo", "flags\t: fpu lahf\n"}}, "none"},
        {{{VENDOR, "Supermicro\n"}, {"proc/cpuinfo", "flags\t: fpu hypervisor\n"}}, "other"},
        {{{VENDOR, "Supermicro\n"}}, NULL},
        /* Clouds with Arm CPUs, whose /proc/cpuinfo has no flag for a guest. */
        {{{VENDOR, "Amazon EC2\n"},
          {"sys/class/dmi/id/product_name", "c7g.4xlarge\n"},
          {"proc/cpuinfo", "CPU implementer\t: 0x41\n"}},
         "kvm"},
        {{{VENDOR, "Amazon EC2\n"},
          {"sys/class/dmi/id/product_name", "c7g.metal\n"},
          {"proc/cpuinfo", "CPU implementer\t: 0x41\n"}},
         "none"},
        {{{VENDOR, "Google\n"}}, "kvm"},
        {{{"proc/device-tree/compatible", "linux,dummy-virt"}}, "qemu"},
        {{{"proc/device-tree/compatible", "nvidia,p3701"}}, NULL},
        {{{"proc/device-tree/hypervisor/compatible", "linux,kvm"},
          {"proc/device-tree/compatible", "linux,dummy-virt"}},
         "kvm"},
        {{{"proc/device-tree/hypervisor/compatible", "xen,xen-4.17"}}, "xen"},
        {{{"proc/cpuinfo", "flags\t: fpu lahf\n"}}, NULL},
        /* A guest of Firecracker, recognized by its host bridge or by the kernel's command line. */
        {{{VENDOR, "QEMU\n"}, {BRIDGE "vendor", "0x8086\n"}, {BRIDGE "device", "0x0d57\n"}},
         "firecracker"},
        {{{VENDOR, "QEMU\n"}, {BRIDGE "vendor", "0x8086\n"}, {BRIDGE "device", "0x0d58\n"}}, "kvm"},
        {{{VENDOR, "QEMU\n"}, {BRIDGE "vendor", "0x1af4\n"}, {BRIDGE "device", "0x0d57\n"}}, "kvm"},
        {{{VENDOR, "QEMU\n"}, {"proc/cmdline", "quiet firecracker=1\n"}}, "firecracker"},
        {{{VENDOR, "Supermicro\n"},
          {"proc/cpuinfo", "flags\t: fpu lahf\n"},
          {"proc/cmdline", "firecracker\n"}},
         "none"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct machine *m = read_tree(cases[i].files);
        const char *name = m->system.hypervisor.value;
        if (cases[i].name ? !name || strcmp(name, cases[i].name) != 0 : name != NULL)
            fail_msg("case %zu: %s, expected %s", i, name, cases[i].name);
        if (!name)
            assert_string_equal(m->system.hypervisor.why,
                                "neither CPUID, DMI nor a device tree shows it");
        free_tree(m);
    }
}

static void test_driver(void **state)
{
    static const char version[] = "proc/driver/nvidia/version";
    char why[200];
    struct machine *m = read_tree((const struct file[FILES_MOST]){
        {version, "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  x\n"}});
    assert_true(text_is(m->drivers.nvidia_flavor, "open"));
    assert_true(text_is(m->drivers.nvidia_module, "570.86.15"));
    free_tree(m);
    m = read_tree((const struct file[FILES_MOST]){{version, "NVRM version: NVIDIA  none\n"}});
    assert_true(text_is(m->drivers.nvidia_flavor, "closed"));
    assert_null(m->drivers.nvidia_module.value);
    free_tree(m);
    m = read_tree((const struct file[FILES_MOST]){{NULL, NULL}});
    snprintf(why, sizeof why, "%s/%s: No such file or directory", root, version);
    assert_null(m->drivers.nvidia_flavor.value);
    assert_string_equal(m->drivers.nvidia_flavor.why, why);
    assert_string_equal(m->drivers.nvidia_module.why, why);
    free_tree(m);
}

/* The version that nv-fabricmanager prints, or the reason why it is unknown. */
static void test_fabric_manager_version(void **state)
{
    static const char name[] = "usr/bin/nv-fabricmanager";
    static const struct {
        const char *script, *version, *why;
    } cases[] = {
        {"#!/bin/sh\necho Fabric Manager version is : 570.86.15\n", "570.86.15", NULL},
        {"#!/bin/sh\necho '7 1a.2 3.x'; sleep 0.05; echo '12.34'\n", "12.34", NULL},
        {"#!/bin/sh\necho no number\n", NULL, " --version prints no version"},
        {"#!/bin/sh\nexit 0\n", NULL, " --version: Connection timed out"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char why[200], path[200];
        snprintf(root, sizeof root, "/tmp/weft-test-system-XXXXXX");
        assert_non_null(mkdtemp(root));
        put_pci("0000:01:00.0", "pci0000:00/0000:01:00.0", "0x030200\n", 0, 0);
        put_text("sys/devices/pci0000:00/0000:01:00.0/vendor", "0x10de\n");
        put_text(name, cases[i].script);
        snprintf(path, sizeof path, "%s/%s", root, name);
        chmod(path, 0700);
        struct machine *m = machine_read_live(&(struct machine_source){.root = root});
        struct machine_text *version = &m->drivers.fabric_manager_version;
        assert_false(text_is(m->drivers.fabric_manager, "absent"));
        if (cases[i].version) {
            assert_true(text_is(*version, cases[i].version));
        } else {
            snprintf(why, sizeof why, "%s%s", path, cases[i].why);
            assert_null(version->value);
            assert_string_equal(version->why, why);
        }
        free_tree(m);
    }
}

/* A device node counts if it can be opened for reading and writing. */
static void test_device_nodes(void **state)
{
    struct machine *m = read_tree((const struct file[FILES_MOST]){{"dev/nvidiactl", ""}});
    assert_true(number_is(m->limits.nvidiactl_node, 1));
    assert_true(number_is(m->limits.gdrdrv_node, 0));
    free_tree(m);
    m = read_tree((const struct file[FILES_MOST]){{"dev/gdrdrv", ""}, {"dev/nvidiactl/x", ""}});
    assert_true(number_is(m->limits.nvidiactl_node, 0));
    assert_true(number_is(m->limits.gdrdrv_node, 1));
    free_tree(m);
}

/* A device belongs to the last root complex in its path; only the bridges below that are above the
 * device. */
static void test_root_complexes(void **state)
{
    snprintf(root, sizeof root, "/tmp/weft-test-system-XXXXXX");
    assert_non_null(mkdtemp(root));
    put_pci("10000:01:00.0", "pci0000:3a/0000:3a:05.5/pci10000:00/10000:00:02.0/10000:01:00.0",
            "0x010802\n", 0, 0);
    put_pci("0000:5a:00.0", "pci0000:57/pcix/0000:57:01.0/0000:5a:00.0", "0x020000\n", 0, 0);
    struct machine *m = machine_read_live(&(struct machine_source){.root = root});
    const struct machine_pci *disk = machine_find_pci(m, "10000:01:00.0"),
                             *nic = machine_find_pci(m, "0000:5a:00.0");
    assert_non_null(disk);
    assert_true(text_is(disk->root, "10000:00"));
    assert_true(text_is(disk->parent, "10000:00:02.0"));
    assert_non_null(nic);
    assert_true(text_is(nic->root, "0000:57"));
    assert_true(text_is(nic->parent, "0000:57:01.0"));
    free_tree(m);
}

/* What /proc has of a machine with Arm CPUs, without a CPUID: names come from MIDR and the chip. */
static void test_arm(void **state)
{
    static const char cpus[] = "proc/cpuinfo", chip[] = "sys/devices/soc0/soc_id";
    static const char v2[] = "processor\t: 0\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd\n"
                             "CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x0\n"
                             "CPU part\t: 0xd4f\nCPU revision\t: 0\n";
    struct machine *m = read_tree((const struct file[FILES_MOST]){{cpus, v2}});
    assert_true(text_is(m->system.cpu_model, "Neoverse-V2"));
    assert_true(text_is(m->system.cpu_vendor, "ARM"));
    assert_true(text_is(m->system.arch, "aarch64"));
    free_tree(m);
    m = read_tree((const struct file[FILES_MOST]){{cpus, v2}, {chip, "jep106:036b:0241\n"}});
    assert_true(text_is(m->system.cpu_model, "Grace, Neoverse-V2"));
    assert_true(text_is(m->system.cpu_vendor, "NVIDIA"));
    free_tree(m);
    /* Libraries of another architecture do not count. */
    m = read_tree(
        (const struct file[FILES_MOST]){{cpus, v2},
                                        {"usr/lib/x86_64-linux-gnu/libmlx5.so.1", ""},
                                        {"usr/lib/aarch64-linux-gnu/libibverbs.so.1", ""}});
    assert_true(text_is(m->drivers.libmlx5, ""));
    assert_true(text_is(m->drivers.libibverbs, "libibverbs.so.1"));
    free_tree(m);
}

static void put_node(int node, const char *cpus, const char *map, long kib)
{
    char name[100], text[100];
    const char *base = "sys/devices/system/node";
    snprintf(name, sizeof name, "%s/node%d/cpulist", base, node);
    put_text(name, cpus);
    snprintf(name, sizeof name, "%s/node%d/cpumap", base, node);
    put_text(name, map);
    snprintf(name, sizeof name, "%s/node%d/meminfo", base, node);
    snprintf(text, sizeof text, "Node %d MemTotal:       %ld kB\n", node, kib);
    put_text(name, text);
    snprintf(name, sizeof name, "%s/node%d/distance", base, node);
    put_text(name, "10 80 255\n");
}

/* A Grace with two CPUs: its own node, that of a GPU's memory, and an empty one. hwloc would leave
 * out the second. */
static void test_memory_of_gpu(void **state)
{
    static const char *const files[][2] = {
        {"sys/devices/system/cpu/online", "0-1\n"},
        {"sys/devices/system/cpu/possible", "0-1\n"},
        {"sys/devices/system/node/online", "0-2\n"},
        {"sys/devices/system/node/possible", "0-2\n"},
        {"proc/driver/nvidia/gpus/0009:01:00.0/numa_status", "Node: 1\nStatus: online\n"},
        {"sys/bus/pci/devices/0009:01:00.0/local_cpus", "3\n"},
    };
    snprintf(root, sizeof root, "/tmp/weft-test-system-XXXXXX");
    assert_non_null(mkdtemp(root));
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        put_text(files[i][0], files[i][1]);
    for (int cpu = 0; cpu < 2; cpu++) {
        static const char *const topology[][2] = {
            {"physical_package_id", "0\n"}, {"package_cpus", "3\n"}, {"core_siblings", "3\n"}};
        char name[100];
        for (int i = 0; i < 3; i++) {
            snprintf(name, sizeof name, "sys/devices/system/cpu/cpu%d/topology/%s", cpu,
                     topology[i][0]);
            put_text(name, topology[i][1]);
        }
        snprintf(name, sizeof name, "sys/devices/system/cpu/cpu%d/topology/core_id", cpu);
        put_text(name, cpu ? "1\n" : "0\n");
        snprintf(name, sizeof name, "sys/devices/system/cpu/cpu%d/topology/thread_siblings", cpu);
        put_text(name, cpu ? "2\n" : "1\n");
    }
    put_node(0, "0-1\n", "3\n", 503316480);
    put_node(1, "\n", "0\n", 100219904);
    put_node(2, "\n", "0\n", 0);
    struct machine *m = machine_read_live(&(struct machine_source){.root = root});
    assert_int_equal(m->n_packages, 1);
    assert_int_equal(m->n_numa, 3);
    assert_string_equal(machine_find_numa(m, 0)->cpus.value, "0-1");
    assert_string_equal(machine_find_numa(m, 1)->cpus.value, "");
    assert_true(number_is(machine_find_numa(m, 1)->memory_bytes, INT64_C(100219904) * 1024));
    assert_string_equal(machine_find_numa(m, 2)->cpus.value, "");
    assert_int_equal(machine_count_host_numa(m), 2); /* without a driver no GPU has node 1 */
    number_set(&machine_add_gpu(m)->memory_numa, 1);
    assert_int_equal(machine_count_host_numa(m), 1);
    free_tree(m);
}

/* The settings that slow a GPU which shares the CPU's page tables. */
static void test_memory_settings(void **state)
{
    static const struct {
        const char *command_line, *config;
        int init; /* -1: unknown */
    } cases[] = {
        {"quiet\n", NULL, -1},
        {"init_on_alloc=1\n", NULL, 1},
        {"init_on_alloc=on init_on_alloc=0\n", "CONFIG_INIT_ON_ALLOC_DEFAULT_ON=y\n", 0},
        {"xinit=1\n", "CONFIG_INIT_ON_ALLOC_DEFAULT_ON=y\n", 1},
        {"quiet\n", "# CONFIG_INIT_ON_ALLOC_DEFAULT_ON is not set\n", 0},
        {"init_on_alloc=on\n", "# CONFIG_INIT_ON_ALLOC_DEFAULT_ON is not set\n", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct machine *m = read_tree((const struct file[FILES_MOST]){
            {"proc/cmdline", cases[i].command_line},
            {"proc/sys/kernel/osrelease", "6.8.0-64k\n"},
            {"proc/sys/kernel/numa_balancing", "2\n"},
            {cases[i].config ? "boot/config-6.8.0-64k" : NULL, cases[i].config}});
        struct machine_number init = m->system.init_on_alloc;
        if (init.known != (cases[i].init >= 0) || (init.known && init.value != cases[i].init))
            fail_msg("case %zu: init_on_alloc %d", i, init.known ? (int)init.value : -1);
        assert_true(number_is(m->system.numa_balancing, 2));
        assert_false(m->system.page_bytes.known);
        free_tree(m);
    }
    /* this process */
    struct machine *m = machine_read_live(&(struct machine_source){.root = ""});
    assert_true(number_is(m->system.page_bytes, sysconf(_SC_PAGESIZE)));
    machine_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_containers),    cmocka_unit_test(test_hypervisors),
        cmocka_unit_test(test_driver),        cmocka_unit_test(test_fabric_manager_version),
        cmocka_unit_test(test_device_nodes),  cmocka_unit_test(test_root_complexes),
        cmocka_unit_test(test_arm),           cmocka_unit_test(test_memory_settings),
        cmocka_unit_test(test_memory_of_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
