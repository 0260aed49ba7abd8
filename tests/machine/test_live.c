/* SPDX-License-Identifier: Apache-2.0 */
/* The live readers over a directory that imitates /sys and /proc: a socket with a PCIe switch with
 * ACS on, an NVMe disk, a RoCE port, and unreadable files. On the real machine the result is
 * compared with hwloc's own. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <hwloc.h>

#include "machine/machine.h"
#include "machine/routes/routes.h"
#include "made_tree.h"

static int make_tree(void **state)
{
    snprintf(root, sizeof root, "/tmp/weft-test-live-XXXXXX");
    if (!mkdtemp(root))
        return -1;
    const char *base = "pci0000:40/0000:40:01.0/0000:41:00.0";
    char path[200];
    put_pci("0000:40:01.0", "pci0000:40/0000:40:01.0", "0x060400\n", 4, 0);
    put_pci("0000:41:00.0", base, "0x060400\n", 5, 0);
    snprintf(path, sizeof path, "%s/0000:42:00.0", base);
    put_pci("0000:42:00.0", path, "0x060400\n", 6, 0x1d);
    snprintf(path, sizeof path, "%s/0000:42:00.0/0000:43:00.0", base);
    put_pci("0000:43:00.0", path, "0x030200\n", 0, 0);
    snprintf(path, sizeof path, "%s/0000:42:01.0", base);
    put_pci("0000:42:01.0", path, "0x060400\n", 6, 0);
    snprintf(path, sizeof path, "%s/0000:42:01.0/0000:44:00.0", base);
    put_pci("0000:44:00.0", path, "0x020000\n", 0, 0);
    put_pci("0000:00:1f.0", "pci0000:00/0000:00:1f.0", "0x060100\n", 9, 0); /* ignored */
    put_pci("0000:00:02.0", "pci0000:00/0000:00:02.0", "0x010802\n", -1, 0);

    snprintf(path, sizeof path, "../../devices/%s/0000:42:01.0/0000:44:00.0/infiniband/mlx5_7",
             base);
    put_link("sys/class/infiniband/mlx5_7", path);
    snprintf(path, sizeof path, "sys/devices/%s/0000:42:01.0/0000:44:00.0/infiniband/mlx5_7/",
             base);
    static const char *const files[][2] = {
        {"fw_ver", "28.39.1002\n"},
        {"node_guid", "0000:0000:0000:0007\n"},
        {"hca_type", "MT4129\n"},
        {"node_type", "1: CA\n"},
        {"ports/1/link_layer", "Ethernet\n"},
        {"ports/1/state", "4: ACTIVE\n"},
        {"ports/1/phys_state", "5: LinkUp\n"},
        {"ports/1/rate", "400 Gb/sec (4X NDR)\n"},
        {"ports/1/lid", "0x0\n"},
        {"ports/1/gids/0", "fe80:0000:0000:0000:0000:0000:0000:0007\n"},
        {"ports/1/gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0007\n"},
        {"ports/1/gids/2", "0000:0000:0000:0000:0000:0000:0000:0000\n"},
        {"ports/1/gids/10", "2001:0db8:0000:0000:0000:0000:0000:0007\n"},
        {"ports/1/gids/11", "0000:0000:0000:0000:0000:ffff:a9fe:0007\n"},
        {"ports/1/gid_attrs/types/0", "IB/RoCE v1\n"},
        {"ports/1/gid_attrs/types/10", "RoCE v3\n"},
        {"ports/1/gid_attrs/types/1", "RoCE v2\n"},
        {"ports/1/counters/symbol_error", "3\n"},
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char name[400];
        snprintf(name, sizeof name, "%s%s", path, files[i][0]);
        put_text(name, files[i][1]);
    }
    snprintf(path, sizeof path, "../../../0000:44:00.0");
    char device[400];
    snprintf(device, sizeof device,
             "sys/devices/%s/0000:42:01.0/0000:44:00.0/infiniband/mlx5_7/device", base);
    put_link(device, "../../../0000:44:00.0");
    put_text(
        "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n");
    put_text("proc/driver/nvidia/params",
             "EnableStreamMemOPs: 0\nRegistryDwords: \"PeerMappingOverride=1;\"\n");
    put_text("proc/self/status",
             "Name:\tx\nCapEff:\t0000000000004000\nNoNewPrivs:\t1\nSeccomp:\t2\n");
    put_text("proc/self/mounts",
             "/dev/nvme0n1p1 /data\\040disk xfs rw 0 0\nproc /proc proc rw 0 0\n");
    put_text("proc/cmdline", "quiet intel_iommu=on iommu=pt\n");
    put_text("sys/kernel/iommu_groups/0/type", "identity\n");
    return 0;
}

static int remove_tree(void **state)
{
    remove_below("");
    return 0;
}

static void test_tree(void **state)
{
    struct machine *m = machine_read_live(&(struct machine_source){.root = root});
    assert_int_equal(m->n_pci, 7);
    const struct machine_pci *gpu = machine_find_pci(m, "0000:43:00.0");
    const struct machine_pci *nic = machine_find_pci(m, "0000:44:00.0");
    const struct machine_pci *port = machine_find_pci(m, "0000:42:00.0");
    assert_string_equal(gpu->parent.value, "0000:42:00.0");
    assert_string_equal(gpu->root.value, "0000:40");
    assert_string_equal(port->kind.value, "downstream");
    assert_true(number_is(port->acs_control, 0x1d));
    assert_true(number_is(gpu->gen, 4) && number_is(gpu->width, 16));
    assert_true(number_is(gpu->bar_bytes, INT64_C(0x80000000000)));
    assert_int_equal(routes_level(m, gpu, nic), LEVEL_PIX);
    const struct machine_pci *disk = machine_find_pci(m, "0000:00:02.0");
    assert_false(disk->gen.known);
    assert_non_null(strstr(disk->acs.why, "root"));
    machine_free(m);
}

static void test_nic(void **state)
{
    struct machine *m = machine_read_live(&(struct machine_source){.root = root});
    assert_int_equal(m->n_nics, 1);
    assert_string_equal(m->nics[0].bdf.value, "0000:44:00.0");
    assert_int_equal(m->n_ports, 1);
    assert_string_equal(m->ports[0].layer.value, "roce");
    assert_string_equal(m->ports[0].state.value, "active");
    assert_string_equal(m->ports[0].roce.value, "v2");
    assert_true(number_is(m->ports[0].mbit, 400000));
    assert_true(number_is(m->ports[0].gids, 4));
    assert_string_equal(m->ports[0].gid.value, "0000:0000:0000:0000:0000:ffff:0a00:0007");
    assert_true(number_is(m->ports[0].symbol_errors, 3));
    assert_false(m->ports[0].link_downed.known);
    machine_free(m);
}

/* The table of GIDs by index, without its zero entries. */
static void test_gids(void **state)
{
    static const struct {
        int index;
        const char *type, *family;
        int routable;
    } rows[] = {{0, "roce-v1", "ipv6", 0},
                {1, "roce-v2", "ipv4", 1},
                {10, NULL, "ipv6", 1},
                {11, NULL, "ipv4", 0}};
    struct machine *m = machine_read_live(&(struct machine_source){.root = root});
    assert_int_equal(m->n_gids, 4);
    for (size_t i = 0; i < 4; i++) {
        const struct machine_gid *gid = &m->gids[i];
        assert_string_equal(gid->nic.value, m->nics[0].name.value);
        assert_true(number_is(gid->port, 1));
        int row = number_is(gid->index, 0)    ? 0
                  : number_is(gid->index, 1)  ? 1
                  : number_is(gid->index, 10) ? 2
                                              : 3;
        assert_true(number_is(gid->index, rows[row].index));
        assert_true(rows[row].type ? text_is(gid->type, rows[row].type) : !gid->type.value);
        assert_string_equal(gid->family.value, rows[row].family);
        assert_true(number_is(gid->routable, rows[row].routable));
        if (row == 2)
            assert_non_null(strstr(gid->type.why, "holds \"RoCE v3\""));
    }
    machine_free(m);
}

static void test_drivers_and_limits(void **state)
{
    struct machine *m = machine_read_live(&(struct machine_source){.root = root, .gpus = true});
    assert_string_equal(m->drivers.nvidia_module.value, "580.159.04");
    assert_string_equal(m->drivers.nvidia_flavor.value, "open");
    assert_true(number_is(m->drivers.peer_mapping_override, 1));
    assert_true(number_is(m->drivers.stream_memops, 0));
    assert_true(number_is(m->limits.seccomp, 2));
    assert_true(number_is(m->limits.no_new_privileges, 1));
    assert_true(number_is(m->limits.cap_ipc_lock, 1));
    assert_true(number_is(m->limits.cap_sys_admin, 0));
    assert_string_equal(m->system.iommu_mode.value, "passthrough");
    assert_string_equal(m->system.iommu_options.value, "intel_iommu=on iommu=pt");
    assert_int_equal(m->n_mounts, 1);
    assert_string_equal(m->mounts[0].path.value, "/data disk");
    machine_free(m);
}

/* An empty directory: no facts are invented. */
static void test_nothing(void **state)
{
    char empty[] = "/tmp/weft-test-empty-XXXXXX";
    assert_non_null(mkdtemp(empty));
    struct machine *m = machine_read_live(&(struct machine_source){.root = empty, .gpus = true});
    assert_int_equal(m->n_pci + m->n_gpus + m->n_nics + m->n_disks, 0);
    assert_false(m->drivers.nvidia_module.value != NULL);
    assert_null(m->system.iommu_mode.value);
    assert_false(m->limits.shm_bytes.known);
    machine_free(m);
    rmdir(empty);
}

/* hwloc's PCI plugin leaks memory of libpciaccess when it is unloaded; that is not Weft's. */
void __lsan_disable(void) __attribute__((weak));
void __lsan_enable(void) __attribute__((weak));

static void test_against_hwloc(void **state)
{
    hwloc_topology_t topology;
    struct machine *m = machine_read_live(&(struct machine_source){.root = ""});
    assert_int_equal(hwloc_topology_init(&topology), 0);
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (__lsan_disable)
        __lsan_disable();
    assert_int_equal(hwloc_topology_load(topology), 0);
    if (__lsan_enable)
        __lsan_enable();
    assert_int_equal(m->n_packages, hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE));
    assert_int_equal(m->n_numa, hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE));
    /* hwloc has every PCI device that the reader keeps, with the same class and numbers. */
    for (size_t i = 0; i < m->n_pci; i++) {
        unsigned domain, bus, device, function;
        sscanf(m->pci[i].bdf.value, "%x:%x:%x.%x", &domain, &bus, &device, &function);
        hwloc_obj_t o = hwloc_get_pcidev_by_busid(topology, domain, bus, device, function);
        if (!o)
            continue; /* hwloc has another object type for bridges */
        assert_int_equal(o->attr->pcidev.vendor_id, m->pci[i].vendor.value);
        assert_int_equal(o->attr->pcidev.device_id, m->pci[i].device.value);
        assert_int_equal(o->attr->pcidev.class_id, m->pci[i].class.value >> 8);
    }
    hwloc_topology_destroy(topology);
    machine_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree),    cmocka_unit_test(test_nic),
        cmocka_unit_test(test_gids),    cmocka_unit_test(test_drivers_and_limits),
        cmocka_unit_test(test_nothing), cmocka_unit_test(test_against_hwloc),
    };
    return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
