/* SPDX-License-Identifier: Apache-2.0 */
/* The complete result of the live readers for a whole tree, as a machine file, compared with
 * golden/live-whole.txt; WEFT_GOLDEN_UPDATE rewrites that file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "machine/machine.h"
#include "made_tree.h"
#include "tests/golden.h"

#define SWITCH "pci0000:40/0000:40:01.0/0000:41:00.0"
#define GPU    SWITCH "/0000:42:00.0/0000:43:00.0"
#define NIC    SWITCH "/0000:42:01.0/0000:44:00.0"
#define NIC2   "pci0001:80/0001:80:02.0/0001:81:00.0"
#define NVME   "pci0000:00/0000:00:02.0"

static const char *const files[][2] = {
    {"proc/sys/kernel/hostname", "node-7 \t\n"},
    {"proc/sys/kernel/osrelease", "6.8.0-51-generic\n"},
    {"boot/config-6.8.0-51-generic",
     "CONFIG_PCI_P2PDMA=y\n# CONFIG_DMABUF_MOVE_NOTIFY is not set\n"},
    {"proc/cmdline",
     "quiet ro iommu=pt pci=noacs pcie_aspm=off vfio-pci.ids=1 root=/dev/vda amd_iommu=on\n"},
    {"proc/cpuinfo", "processor\t: 0\nmodel name\t: A CPU\nflags\t\t: fpu vme hypervisor lahf\n"},
    {"sys/class/dmi/id/sys_vendor", "Microsoft Corporation\n"},
    {"sys/class/dmi/id/product_name", "Virtual Machine\n"},
    {"proc/1/cgroup", "0::/lxc/a\n"},
    {"sys/kernel/iommu_groups/17/type", "DMA-FQ\n"},
    {"sys/kernel/iommu_groups/4/type", "DMA-FQ\n"},
    {"proc/driver/nvidia/version",
     "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19\nGCC version: 12.2\n"},
    {"proc/driver/nvidia/params",
     "RmLogonRC: 1\nEnableStreamMemOPs: 2\nRegistryDwords: \"a=2;PeerMappingOverride=0\"\n"},
    {"proc/driver/nvidia-fs/modules", "nvme: 1\n\nlustre 2\nnvme_rdma\t3\n"},
    {"etc/cufile.json",
     "// \"force_compat_mode\": true\n{ \"a\\\"//\": 1,\n \"allow_compat_mode\" : false } //"},
    {"sys/module/nvidia_uvm/x", ""},
    {"sys/module/nv_peer_mem/x", ""},
    {"sys/module/nvidia_fs/x", ""},
    {"sys/module/amdgpu/version", "6.7.0\n"},
    {"etc/ld.so.conf.d/a.conf", "/opt/one\n/opt/two relative/dir\n"},
    {"opt/two/libcuda.so.1.2", ""},
    {"lib64/libcuda.so.1", ""},
    {"usr/lib/libibverbs.so.1", ""},
    {"usr/local/lib/libmlx5.so.1", ""},
    {"usr/local/cuda/lib64/libcufile.so.0", ""},
    {"usr/bin/nvidia-imex", ""},
    {"proc/31/comm", "nvidia-imex\n"},
    {"proc/32/comm", "nv-fabricmanag\n"},
    {"proc/self/status", "CapEff:\t0000000000280000\nNoNewPrivs:\t0\nSeccomp:\t1\n"},
    {"proc/meminfo",
     "MemTotal: 16 kB\nHugePages_Total:      12\nHugePages_Free:        5\nHugepagesize:       "
     "2048 kB\n"},
    {"sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"},
    {"proc/self/cgroup", "4:cpu:/a\n3:memory:/jobs/5\n"},
    {"sys/fs/cgroup/memory/jobs/5/memory.limit_in_bytes", "34359738368\n"},
    {"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"},
    {"proc/sys/kernel/yama/ptrace_scope", "3\n"},
    {"proc/sys/kernel/io_uring_disabled", "2\n"},
    {"run/udev/data/x", ""},
    {"dev/nvidia0", ""},
    {"dev/nvidia63", ""},
    {"dev/nvidia64", ""},
    {"dev/nvidiactl", ""},
    {"dev/gdrdrv", ""},
    {"dev/kfd", ""},
    {"dev/nvidia-caps/x", ""},
    {"dev/nvidia-caps-imex-channels/channel0", ""},
    {"dev/infiniband/uverbs0", ""},
    {"dev/infiniband/uverbs63", ""},
    {"dev/video0", ""},

    {"sys/devices/" GPU "/aer_dev_correctable", "RxErr 1\nBadTLP 2\nTOTAL_ERR_COR 3\n"},
    {"sys/devices/" GPU "/aer_dev_fatal", "DLP 4\nTOTAL_ERR_FATAL 5\n"},
    {"sys/devices/" GPU "/aer_dev_nonfatal", "DLP 6\nTOTAL_ERR_NONFATAL 7\n"},
    {"sys/devices/" NIC "/aer_dev_correctable", "RxErr 1\n"},
    {"sys/devices/" NIC "/aer_dev_fatal", "TOTAL_ERR_FATAL 8\n"},
    {"sys/devices/" NIC "/current_link_speed", "32.0 GT/s PCIe\n"},
    {"sys/devices/" NIC "/max_link_speed", "64 GT/s\n"},
    {"sys/devices/" NIC "/current_link_width", "8\n"},
    {"sys/devices/" NIC "/max_link_width", "32\n"},
    {"sys/devices/" NIC2 "/current_link_speed", "2.5 GT/s\n"},
    {"sys/devices/" NIC2 "/max_link_speed", "3.2 GT/s\n"},
    {"sys/devices/" NIC2 "/current_link_width", "33\n"},
    {"sys/devices/" NIC2 "/max_link_width", "0\n"},

    {"sys/devices/" NIC "/infiniband/mlx5_7/fw_ver", "28.39.1002\n"},
    {"sys/devices/" NIC "/infiniband/mlx5_7/node_guid", "0000:0000:0000:0007\n"},
    {"sys/devices/" NIC "/infiniband/mlx5_7/hca_type", "MT4129\n"},
    {"sys/devices/" NIC "/infiniband/mlx5_7/node_type", "1: CA\n"},
    {"sys/devices/" NIC "/infiniband/mlx5_7/ports/1/link_layer", "Ethernet\n"},
    {"sys/devices/" NIC "/infiniband/mlx5_7/ports/1/state", "4: ACTIVE\n"},
    {"sys/devices/" NIC "/infiniband/mlx5_7/ports/1/phys_state", "5: LinkUp\n"},
    {"sys/devices/" NIC "/infiniband/mlx5_7/ports/1/rate", "2.5 Gb/sec (1X SDR)\n"},
    {"sys/devices/" NIC "/infiniband/mlx5_7/ports/1/lid", "0x1a\n"},
    {"sys/devices/" NIC "/infiniband/mlx5_7/ports/1/gids/0",
     "fe80:0000:0000:0000:0000:0000:0000:0007\n"},
    {"sys/devices/" NIC "/infiniband/mlx5_7/ports/1/gids/1",
     "2001:0000:0000:0000:0000:ffff:0a00:0007\n"},
    {"sys/devices/" NIC "/infiniband/mlx5_7/ports/1/gids/2",
     "2001:0000:0000:0000:0000:ffff:0a00:0008\n"},
    {"sys/devices/" NIC "/infiniband/mlx5_7/ports/1/gids/3",
     "0000:0000:0000:0000:0000:0000:0000:0000\n"},
    {"sys/devices/" NIC "/infiniband/mlx5_7/ports/1/gids/4",
     "fe80:0000:0000:0000:0000:0000:0000:0000\n"},
    {"sys/devices/" NIC "/infiniband/mlx5_7/ports/1/gid_attrs/types/0", "IB/RoCE v1\n"},
    {"sys/devices/" NIC "/infiniband/mlx5_7/ports/1/gid_attrs/types/3", "RoCE v2\n"},
    {"sys/devices/" NIC "/infiniband/mlx5_7/ports/1/gid_attrs/ndevs/0", "eth7\n"},
    {"sys/devices/" NIC "/infiniband/mlx5_7/ports/1/counters/symbol_error", "3\n"},
    {"sys/devices/" NIC "/infiniband/mlx5_7/ports/1/counters/link_downed", "4\n"},
    {"sys/devices/" NIC "/infiniband/mlx5_7/ports/1/hw_counters/packet_seq_err", "10\n"},
    {"sys/devices/" NIC "/infiniband/mlx5_7/ports/1/hw_counters/out_of_sequence", "100\n"},
    {"sys/devices/" NIC "/infiniband/mlx5_7/ports/2/link_layer", "InfiniBand\n"},
    {"sys/devices/" NIC "/infiniband/mlx5_7/ports/2/state", "1: DOWN\n"},
    {"sys/devices/" NIC "/infiniband/mlx5_7/ports/2/phys_state", "Polling\n"},
    {"sys/devices/" NIC "/infiniband/mlx5_7/ports/2/rate", "0 Gb/sec\n"},
    {"sys/devices/" NIC "/infiniband/mlx5_7/ports/2/lid", "twelve\n"},
    {"sys/devices/" NIC "/infiniband/mlx5_7/ports/2/gids/0",
     "fe80:0000:0000:0000:0000:0000:0000:0009\n"},
    {"sys/devices/" NIC "/infiniband/mlx5_7/ports/2/gid_attrs/types/0", "IB/RoCE v1\n"},
    {"sys/devices/" NIC "/infiniband/mlx5_7/ports/3/link_layer", "Unspecified\n"},
    {"sys/devices/" NIC "/infiniband/mlx5_7/ports/3/state", "5: DEFER\n"},
    {"sys/devices/" NIC2 "/infiniband/irdma0/node_type", "4: RNIC\n"},
    {"sys/devices/" NIC2 "/infiniband/irdma0/ports/1/link_layer", "Ethernet\n"},
    {"sys/devices/" NIC2 "/infiniband/irdma0/ports/1/state", "3: ARMED\n"},

    {"sys/devices/" NIC "/net/eth7/type", "1\n"},
    {"sys/devices/" NIC "/net/eth7/speed", "25000\n"},
    {"sys/devices/" NIC "/net/eth7/operstate", "up\n"},
    {"sys/devices/" NIC "/net/eth7/mtu", "9000\n"},
    {"sys/devices/" NIC "/net/eth7/address", "02:00:00:00:00:07\n"},
    {"sys/devices/" NIC "/net/eth7/bonding_slave/mii_status", "up\n"},
    {"sys/devices/" NIC2 "/net/ib0/type", "32\n"},
    {"sys/devices/" NIC2 "/net/ib0/mode", "connected\n"},
    {"sys/devices/" NIC2 "/net/ib0/operstate", "dormant\n"},
    {"sys/devices/" NIC2 "/net/ib0/speed", "-1\n"},
    {"sys/devices/" NIC2 "/net/ib0/bonding_slave/mii_status", "down\n"},
    {"sys/class/net/lo/type", "772\n"},
    {"sys/class/net/bond0/type", "1\n"},
    {"sys/class/net/bond0/bonding/mode", "802.3ad 4\n"},
    {"sys/class/net/bond0/bonding/slaves", "eth7 ib0\n"},
    {"sys/class/net/bonding_masters", "bond0\n"},
    {"sys/class/net/tun0/type", "65534\n"},

    {"sys/devices/" NVME "/nvme/nvme12/model", "A disk  \n"},
    {"sys/devices/" NVME "/nvme/nvme12/serial", "S1\n"},
    {"sys/devices/" NVME "/nvme/nvme12/transport", "pcie\n"},
    {"sys/devices/" NVME "/nvme/nvme12/address", "0000:00:02.0\n"},
    {"sys/devices/" NVME "/nvme/nvme12/nvme12n1/size", "1000\n"},
    {"sys/devices/" NVME "/nvme/nvme12/nvme12n1/queue/logical_block_size", "4096\n"},
    {"sys/devices/" NVME "/p2pmem/size", "1\n"},
    {"sys/class/nvme/nvme13/transport", "rdma\n"},
    {"sys/class/nvme/nvme13/address", "traddr=10.0.0.1\n"},
    /* the first value whose number of bytes overflows */
    {"sys/block/nvme13n2/size", "18014398509481983\n"},
    {"sys/block/sda/size", "18014398509481982\n"},
    {"sys/block/vdb/size", "-1\n"},
    {"sys/block/dm-0/size", "0\n"},
    {"sys/block/loop0/size", "8\n"},
    {"sys/block/md5/size", "16\n"},
    {"sys/block/md5/slaves/nvme12n1p1/x", ""},
    {"sys/block/md5/slaves/nvme13n2/x", ""},
    {"sys/block/md5/slaves/sda/x", ""},
    {"sys/block/md5/md/level", "raid5\n"},
    {"sys/block/md5/md/degraded", "1\n"},
    {"proc/self/mounts",
     "/dev/nvme12n1p2 /data\\040d\\011t\\134x\\12 xfs rw,noatime 0 0\n"
     "/dev/md5 /md ext4 ro 0 0\nproc /proc proc rw 0 0\nfs:/a /nfs nfs4 rw,vers=4 0 0\n"
     "tmpfs /cut tmpfs\n/dev/gone /gone xfs rw\nsquash /snap squashfs ro 0 0\n"},

    {"sys/class/video4linux/video0/name", "Camera \n"},
    {"sys/class/video4linux/v4l-subdev0/name", "Part\n"},

    {"sys/devices/system/cpu/cpu0/topology/physical_package_id", "0\n"},
    {"sys/devices/system/cpu/cpu0/topology/core_id", "0\n"},
    {"sys/devices/system/cpu/cpu0/topology/thread_siblings", "3\n"},
    {"sys/devices/system/cpu/cpu0/topology/core_siblings", "3\n"},
    {"sys/devices/system/cpu/cpu1/topology/physical_package_id", "0\n"},
    {"sys/devices/system/cpu/cpu1/topology/core_id", "0\n"},
    {"sys/devices/system/cpu/cpu1/topology/thread_siblings", "3\n"},
    {"sys/devices/system/cpu/cpu1/topology/core_siblings", "3\n"},
    {"sys/devices/system/cpu/cpu2/topology/physical_package_id", "1\n"},
    {"sys/devices/system/cpu/cpu2/topology/core_id", "2\n"},
    {"sys/devices/system/cpu/cpu2/topology/thread_siblings", "4\n"},
    {"sys/devices/system/cpu/cpu2/topology/core_siblings", "c\n"},
    {"sys/devices/system/cpu/cpu3/topology/physical_package_id", "1\n"},
    {"sys/devices/system/cpu/cpu3/topology/core_id", "3\n"},
    {"sys/devices/system/cpu/cpu3/topology/thread_siblings", "8\n"},
    {"sys/devices/system/cpu/cpu3/topology/core_siblings", "c\n"},
    {"sys/devices/system/cpu/online", "0-3\n"},
    {"sys/devices/system/cpu/possible", "0-3\n"},
    {"sys/devices/system/cpu/present", "0-3\n"},
    {"sys/devices/system/node/online", "0-1\n"},
    {"sys/devices/system/node/possible", "0-1\n"},
    {"sys/devices/system/node/has_cpu", "0-1\n"},
    {"sys/devices/system/node/node0/cpumap", "3\n"},
    {"sys/devices/system/node/node0/distance", "10 21\n"},
    {"sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 1000 kB\n"},
    {"sys/devices/system/node/node1/cpumap", "c\n"},
    {"sys/devices/system/node/node1/distance", "21 10\n"},
    {"sys/devices/system/node/node1/meminfo", "Node 1 MemTotal: 3000 kB\n"},
};

static const char *const links[][2] = {
    {"sys/class/infiniband/mlx5_7", "../../devices/" NIC "/infiniband/mlx5_7"},
    {"sys/devices/" NIC "/infiniband/mlx5_7/device", "../../../0000:44:00.0"},
    {"sys/class/infiniband/irdma0", "../../devices/" NIC2 "/infiniband/irdma0"},
    {"sys/devices/" NIC2 "/infiniband/irdma0/device", "../../../0001:81:00.0"},
    {"sys/class/infiniband/gone0", "../../devices/nowhere"},
    {"sys/devices/" NIC "/driver", "../../../bus/pci/drivers/mlx5_core"},
    {"sys/devices/" NIC "/iommu_group", "../../../kernel/iommu_groups/17"},
    {"sys/devices/" NIC "/physfn", "../0000:44:00.1"},
    {"sys/class/net/eth7", "../../devices/" NIC "/net/eth7"},
    {"sys/devices/" NIC "/net/eth7/device", "../../../0000:44:00.0"},
    {"sys/devices/" NIC "/net/eth7/master", "../../../../../virtual/net/bond0"},
    {"sys/class/net/ib0", "../../devices/" NIC2 "/net/ib0"},
    {"sys/devices/" NIC2 "/net/ib0/device", "../../../0001:81:00.0"},
    {"sys/block/nvme12n1", "../devices/" NVME "/nvme/nvme12/nvme12n1"},
    {"sys/class/nvme/nvme12", "../../devices/" NVME "/nvme/nvme12"},
    {"sys/class/block/nvme12n1p2", "../../devices/" NVME "/block/nvme12n1/nvme12n1p2"},
    {"sys/class/block/md5", "../../devices/virtual/block/md5"},
    {"opt/two/libcuda.so.1", "libcuda.so.1.2"},
    {"sys/class/video4linux/video0/device", "../../../devices/" GPU},
};

static void set_vendor(const char *path, const char *vendor)
{
    char name[300];
    snprintf(name, sizeof name, "sys/devices/%s/vendor", path);
    put_text(name, vendor);
}

static int make_tree(void **state)
{
    snprintf(root, sizeof root, "/tmp/weft-test-whole-XXXXXX");
    if (!mkdtemp(root))
        return -1;
    put_pci("0000:40:01.0", "pci0000:40/0000:40:01.0", "0x060400\n", 4, 0);
    put_pci("0000:41:00.0", SWITCH, "0x060400\n", 5, 0);
    put_pci("0000:42:00.0", SWITCH "/0000:42:00.0", "0x060400\n", 6, 0x1d);
    put_pci("0000:43:00.0", GPU, "0x030200\n", 0, 0);
    set_vendor(GPU, "0x10de\n");
    put_pci("0000:42:01.0", SWITCH "/0000:42:01.0", "0x060400\n", 6, 0);
    put_pci("0000:44:00.0", NIC, "0x020000\n", 0, 0);
    put_pci("0001:80:02.0", "pci0001:80/0001:80:02.0", "0x060400\n", -1, 0);
    put_pci("0001:81:00.0", NIC2, "0x020700\n", 9, 0);
    put_pci("0000:00:02.0", NVME, "0x010802\n", -1, 0);
    put_pci("0000:00:04.0", "pci0000:00/0000:00:04.0", "0x068000\n", 0, 0); /* a bridge by Intel */
    put_pci("0000:00:05.0", "pci0000:00/0000:00:05.0", "0x068000\n", 1, 0); /* an NVSwitch */
    set_vendor("pci0000:00/0000:00:05.0", "0x10de\n");
    put_pci("0000:00:06.0", "pci0000:00/0000:00:06.0", "0x040000\n", 7, 0); /* video capture */
    put_pci("0000:00:07.0", "pci0000:00/0000:00:07.0", "0x040300\n", 0, 0); /* sound */
    put_pci("0000:00:08.0", "pci0000:00/0000:00:08.0", "0x120000\n", 8, 0); /* an accelerator */
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        put_text(files[i][0], files[i][1]);
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++)
        put_link(links[i][0], links[i][1]);
    return 0;
}

static int remove_tree(void **state)
{
    remove_below("");
    return 0;
}

/* Replaces the name of the tree, which differs in each run, by ROOT. */
static char *without_root(const char *text)
{
    size_t length = strlen(root);
    char *out = malloc(strlen(text) + 1), *to = out;
    for (const char *at = text; *at;) {
        if (strncmp(at, root, length) == 0) {
            to = stpcpy(to, "ROOT");
            at += length;
        } else {
            *to++ = *at++;
        }
    }
    *to = '\0';
    return out;
}

static void test_all_is_as_written(void **state)
{
    struct machine *m = machine_read_live(&(struct machine_source){.root = root});
    char *text = machine_format(m, false), *shown = without_root(text);
    golden_is(GOLDEN, shown);
    free(text);
    free(shown);
    machine_free(m);
}

/* Settings without a driver are not read, here without an NVIDIA GPU; unreadable settings stay
 * unknown. */
static void test_settings_of_storage(void **state)
{
    char path[200], first[sizeof root];
    memcpy(first, root, sizeof root);
    for (int i = 0; i < 2; i++) {
        snprintf(root, sizeof root, "/tmp/weft-test-whole-XXXXXX");
        assert_non_null(mkdtemp(root));
        put_pci("0000:43:00.0", "pci0000:40/0000:43:00.0", "0x030200\n", 0, 0);
        if (i)
            set_vendor("pci0000:40/0000:43:00.0", "0x10de\n");
        put_text("lib64/libcufile.so.0", "");
        put_text("sys/module/nvidia_fs/x", "");
        put_text("etc/cufile.json/x", ""); /* a folder in place of the file */
        struct machine *m = machine_read_live(&(struct machine_source){.root = root});
        snprintf(path, sizeof path, "%s/etc/cufile.json: Is a directory", root);
        assert_null(m->drivers.cufile_compat.value);
        assert_null(m->drivers.nvidia_fs_modules.value);
        if (i) {
            assert_string_equal(m->drivers.cufile_compat.why, path);
            snprintf(path, sizeof path,
                     "%s/proc/driver/nvidia-fs/modules: No such file or directory", root);
            assert_string_equal(m->drivers.nvidia_fs_modules.why, path);
        } else {
            assert_null(m->drivers.cufile_compat.why);
            assert_null(m->drivers.nvidia_fs_modules.why);
        }
        machine_free(m);
        assert_int_equal(remove_tree(NULL), 0);
    }
    memcpy(root, first, sizeof root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_is_as_written),
                                       cmocka_unit_test(test_settings_of_storage)};
    return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
