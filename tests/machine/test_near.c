/* SPDX-License-Identifier: Apache-2.0 */
/* The distances that the library finds from NICs to GPUs and CPUs, compared with the machine model
 * of the same machines; the NICs that the PEs of a node get; and the same from files of the
 * kernel. */
#include <dirent.h>
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

#include "machine/routes/routes.h"
#include "path/net/near.h"
#include "path/net/pick.h"

/* ---------------------------------------------------------------------------- recorded machines */

/* Loads a description, which contains blanks, or a file. */
static struct machine *load(const char *name)
{
    char path[512];
    struct machine *machine;
    snprintf(path, sizeof path, MACHINES "/%s.json", name);
    if (machine_load(strchr(name, ' ') ? name : path, &machine))
        fail_msg("%s", weft_last_error());
    return machine;
}

/* The path that the kernel uses: the root, every bridge, the device. */
static void add_chain(const struct machine *m, const struct machine_pci *pci, char *chain,
                      size_t bytes)
{
    size_t used;
    if (pci->parent.value && *pci->parent.value)
        add_chain(m, machine_find_pci(m, pci->parent.value), chain, bytes);
    else
        snprintf(chain, bytes, "pci%s", pci->root.value ? pci->root.value : "");
    used = strlen(chain);
    snprintf(chain + used, bytes - used, "/%s", pci->bdf.value);
}

static struct net_device_location place_of(const struct machine *m, const struct endpoint *end)
{
    struct net_device_location place = {.numa = -1};
    if (!end->pci)
        return place;
    add_chain(m, end->pci, place.chain, sizeof place.chain);
    place.numa = (int)routes_numa(m, end->pci);
    return place;
}

static struct net_pe_location spot_of_gpu(const struct machine *m, int gpu, struct endpoint *end)
{
    char name[16];
    snprintf(name, sizeof name, "gpu%d", gpu);
    assert_int_equal(endpoint_find(m, name, end), WEFT_OK);
    return (struct net_pe_location){.gpu = true, .device = place_of(m, end)};
}

static const char *const machines[] = {"dgx-1v",
                                       "dgx-2",
                                       "dgx-a100",
                                       "mi300x-8",
                                       "p100-8",
                                       "vm-p2p-clique",
                                       "container-2-of-8",
                                       "2 socket, 4 gpu each, 1 nic per 2 gpu",
                                       "2 socket, 2 gpu each, 1 nic per 1 gpu"};
enum { MACHINES_COUNT = sizeof machines / sizeof machines[0] };

static void as_the_model_says(void **state)
{
    static const enum net_distance same[] = {
        [LEVEL_PIX] = NET_DISTANCE_PIX, [LEVEL_PXB] = NET_DISTANCE_PXB,
        [LEVEL_PHB] = NET_DISTANCE_PHB, [LEVEL_NODE] = NET_DISTANCE_NODE,
        [LEVEL_SYS] = NET_DISTANCE_SYS, [LEVEL_UNKNOWN] = NET_DISTANCE_UNKNOWN};
    int pairs = 0;
    (void)state;
    for (size_t i = 0; i < MACHINES_COUNT; i++) {
        struct machine *m = load(machines[i]);
        for (size_t g = 0; g < m->n_gpus; g++)
            for (size_t n = 0; n < m->n_nics; n++, pairs++) {
                struct endpoint gpu, nic;
                struct net_pe_location spot = spot_of_gpu(m, (int)g, &gpu);
                assert_int_equal(endpoint_find(m, m->nics[n].name.value, &nic), WEFT_OK);
                struct net_device_location place = place_of(m, &nic);
                enum level level = routes_level(m, gpu.pci, nic.pci);
                enum net_distance near = net_find_distance(&spot, &place);
                /* /sys does not show that a tree is flat; then all distances are equal. */
                if (level == LEVEL_UNKNOWN && near == NET_DISTANCE_PHB && machine_is_flat(m))
                    continue;
                if (near != same[level] || strcmp(net_distance_name(near), level_name(level)) != 0)
                    fail_msg("%s, %s to %s: %s instead of %s (%s, %s)", machines[i], gpu.name,
                             nic.name, net_distance_name(near), level_name(level),
                             spot.device.chain, place.chain);
            }
        machine_free(m);
    }
    assert_true(pairs > 150);
}

/* One PE on each GPU. */
static void tell_all(const struct machine *m, struct net_candidates *all)
{
    for (size_t g = 0; g < m->n_gpus; g++) {
        struct endpoint gpu, nic;
        struct net_pe_location spot = spot_of_gpu(m, (int)g, &gpu);
        for (size_t n = 0; n < m->n_nics; n++) {
            assert_int_equal(endpoint_find(m, m->nics[n].name.value, &nic), WEFT_OK);
            struct net_device_location place = place_of(m, &nic);
            all[g].list[all[g].count++] = (struct net_candidate){
                .name = n + 1, .distance = (uint8_t)net_find_distance(&spot, &place)};
        }
    }
}

static void taken_on_them(void **state)
{
    static const struct {
        const char *machine, *taken; /* index of the NIC of each GPU */
        bool crowded;
    } rows[] = {
        {"dgx-1v", "00112233", false},
        {"dgx-a100", "01234567", false},
        {"mi300x-8", "01234567", false},
        {"p100-8", "00000000", true},
        {"2 socket, 4 gpu each, 1 nic per 2 gpu", "00112233", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct machine *m = load(rows[i].machine);
        static struct net_candidates all[16];
        const int node_of[16] = {0};
        char got[17] = "";
        memset(all, 0, sizeof all);
        tell_all(m, all);
        for (int pe = 0; pe < (int)m->n_gpus; pe++) {
            struct net_picked picked;
            net_pick(all, node_of, (int)m->n_gpus, pe, &picked);
            got[pe] = (char)('0' + picked.first_rail);
            assert_int_equal(picked.all_on_one_nic, rows[i].crowded);
            for (int n = 0; n < all[pe].count; n++)
                assert_true(all[pe].list[n].distance >= all[pe].list[picked.first_rail].distance);
        }
        if (strcmp(got, rows[i].taken) != 0)
            fail_msg("%s: %s instead of %s", rows[i].machine, got, rows[i].taken);
        machine_free(m);
    }
}

/* ------------------------------------------------------------------------------------ distances */

static void apart(void **state)
{
    static const struct {
        const char *a, *b;
        int numa_a, numa_b;
        enum net_distance near;
    } rows[] = {
        {"pci0000:00/0000:00:01.0/0000:01:00.0", "pci0000:00/0000:00:02.0/0000:02:00.0", 0, 0,
         NET_DISTANCE_PHB},
        {"pci0000:00/0000:00:01.0/0000:01:00.0", "pci0000:00/0000:00:01.0/0000:01:00.1", 0, 0,
         NET_DISTANCE_PIX},
        {"pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0",
         "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0", 0, 0, NET_DISTANCE_PIX},
        {"pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0/0000:04:00.0/0000:05:00.0",
         "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:06:00.0", 0, 0, NET_DISTANCE_PXB},
        {"pci0000:00/0000:00:05.0", "pci0000:00/0000:00:06.0", -1, -1, NET_DISTANCE_PHB},
        {"pci0000:00/0000:00:05.0", "pci0000:0f/0000:0f:05.0", 1, 1, NET_DISTANCE_NODE},
        {"pci0000:00/0000:00:05.0", "pci0000:01/0000:01:05.0", 0, 1, NET_DISTANCE_SYS},
        {"pci0000:00/0000:00:05.0", "pci0000:01/0000:01:05.0", -1, 1, NET_DISTANCE_UNKNOWN},
        {"pci0000:00/0000:00:05.0", "pci0000:01/0000:01:05.0", 1, -1, NET_DISTANCE_UNKNOWN},
        {"qci0000:00/0000:00:05.0", "pci0000:00/0000:00:05.0", 0, 0, NET_DISTANCE_NODE},
        {"pci0000:00/0000:00:05.0", "", 0, -1, NET_DISTANCE_UNKNOWN},
        {"", "", -1, -1, NET_DISTANCE_UNKNOWN},
        /* One device at the maximum depth, the other less deep. */
        {"pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:06:00.0",
         "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0/0000:04:00.0/0000:05:00.0",
         0, 0, NET_DISTANCE_PXB},
        /* One chain is a prefix of the other, or looks like one. */
        {"pci0000:00/0000:00:01.0", "pci0000:00/0000:00:01.0", 0, 0, NET_DISTANCE_PIX},
        {"pci0000:00/0000:00:01.0", "pci0000:00/0000:00:01.0/0000:01:00.0", 0, 0, NET_DISTANCE_PIX},
        {"pci0000:00/0000:00:01.0/0000:01:00.0", "pci0000:00/0000:00:01.0", 0, 0, NET_DISTANCE_PIX},
        {"pci0000:00/0000:00:01.0", "pci0000:00/0000:00:01.02/0000:01:00.0", 0, 0,
         NET_DISTANCE_PHB},
        {"pci0000:00/0000:00:01.02/0000:01:00.0", "pci0000:00/0000:00:01.0", 0, 0,
         NET_DISTANCE_PHB},
        {"", "pci0000:00/0000:00:05.0", 0, 0, NET_DISTANCE_NODE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct net_pe_location spot = {.gpu = true, .device.numa = rows[i].numa_a};
        struct net_device_location nic = {.numa = rows[i].numa_b};
        strcpy(spot.device.chain, rows[i].a);
        strcpy(nic.chain, rows[i].b);
        if (net_find_distance(&spot, &nic) != rows[i].near)
            fail_msg("row %zu: %s instead of %s", i,
                     net_distance_name(net_find_distance(&spot, &nic)),
                     net_distance_name(rows[i].near));
    }
    struct net_pe_location cpus = {.numas = 1 << 1 | 1 << 2};
    assert_int_equal(
        net_find_distance(&cpus, &(struct net_device_location){"pci0000:00/0000:00:05.0", 1}),
        NET_DISTANCE_NODE);
    assert_int_equal(
        net_find_distance(&cpus, &(struct net_device_location){"pci0000:00/0000:00:05.0", 0}),
        NET_DISTANCE_SYS);
    assert_int_equal(net_find_distance(&cpus, &(struct net_device_location){"", -1}),
                     NET_DISTANCE_UNKNOWN);
    assert_int_equal(
        net_find_distance(&cpus, &(struct net_device_location){"pci0000:00/0000:00:05.0", -1}),
        NET_DISTANCE_UNKNOWN);
    assert_int_equal(net_find_distance(&cpus, &(struct net_device_location){"", 2}),
                     NET_DISTANCE_NODE);
    cpus.numas |= (uint64_t)1 << 63 | 1;
    assert_int_equal(net_find_distance(&cpus, &(struct net_device_location){"", 63}),
                     NET_DISTANCE_NODE);
    assert_int_equal(net_find_distance(&cpus, &(struct net_device_location){"", 64}),
                     NET_DISTANCE_UNKNOWN);
    cpus.numas = 0; /* unknown */
    assert_int_equal(net_find_distance(&cpus, &(struct net_device_location){"", 0}),
                     NET_DISTANCE_UNKNOWN);
}

/* -------------------------------------------------------------------------- files of the kernel */

static char root[] = "/tmp/weft-test-near-XXXXXX";

static void shell(const char *command)
{
    char line[1024];
    snprintf(line, sizeof line, "cd %s && %s", root, command);
    assert_int_equal(system(line), 0);
}

/* Two sockets; on each a GPU with a NIC (InfiniBand, virtio), below one switch or next to it. */
static int make_files(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(root));
    shell(
        "A=sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0; B=sys/devices/pci0000:80/0000:80:01.0;"
        "mkdir -p $A/0000:02:00.0/0000:03:00.0 $A/0000:02:01.0/0000:04:00.0/infiniband/mlx5_0"
        " $B/0000:81:00.0 $B/../0000:80:03.0/virtio3/net/eth1 sys/devices/virtual/net/veth0"
        " sys/bus/pci/devices sys/class/net sys/class/infiniband dev"
        " sys/devices/system/node/node0 sys/devices/system/node/node1;"
        "for d in $A/0000:02:00.0/0000:03:00.0 $A/0000:02:01.0/0000:04:00.0; do echo 0 "
        ">$d/numa_node; "
        "ln -s ../../../../$d sys/bus/pci/devices/; done;"
        "for d in $B/0000:81:00.0 sys/devices/pci0000:80/0000:80:03.0; do echo 1 >$d/numa_node; "
        "ln -s ../../../../$d sys/bus/pci/devices/; done");
    shell("D=../../../sys/devices; ln -s $D/virtual/net/veth0 sys/class/net/veth0;"
          "ln -s $D/pci0000:80/0000:80:03.0/virtio3/net/eth1 sys/class/net/eth1;"
          "ln -s ../.. sys/devices/pci0000:80/0000:80:03.0/virtio3/net/eth1/device;"
          "N=pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0/infiniband/mlx5_0;"
          "ln -s $D/$N sys/class/infiniband/mlx5_0; ln -s ../.. sys/devices/$N/device;"
          "echo 25000 >sys/class/net/eth1/speed; echo up >sys/class/net/eth1/operstate;"
          "echo -1 >sys/class/net/veth0/speed; echo lowerlayerdown >sys/class/net/veth0/operstate;"
          "echo 0-3 >sys/devices/system/node/node0/cpulist; echo 4-7 "
          ">sys/devices/system/node/node1/cpulist");
    /* Devices of a device are not part of the chain; a root alone is no chain. No GPU has these
     * names. */
    shell("D=sys/devices/pci0000:80/0000:80:04.0/virtio4/0000:99:00.0/net/eth2; mkdir -p $D;"
          "ln -s ../../../$D sys/class/net/eth2; ln -s ../.. $D/device;"
          "D=sys/devices/pci0000:90/virtio9/net/eth3; mkdir -p $D;"
          "ln -s ../../../$D sys/class/net/eth3; ln -s ../.. $D/device;"
          "echo down >sys/class/net/eth2/operstate; echo 0 >sys/class/net/eth3/speed;"
          "for g in x000:81:00.1 0000:81:00.0.123; do mkdir -p proc/driver/nvidia/gpus/$g;"
          "echo 'Device Minor: 1' >proc/driver/nvidia/gpus/$g/information; done");
    shell("for g in 81:00.0=1 03:00.0=0; do d=proc/driver/nvidia/gpus/0000:${g%=*}; mkdir -p $d;"
          "printf 'Model: \\t H200\\nDevice Minor: \\t %s\\nGPU Excluded: No\\n' ${g#*=} "
          ">$d/information;"
          "touch dev/nvidia${g#*=}; done");
    return 0;
}

static int remove_files(void **state)
{
    char line[64];
    (void)state;
    snprintf(line, sizeof line, "rm -rf %s", root);
    return system(line);
}

static int open_files(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static void places(void **state)
{
    struct net_device_location place;
    (void)state;
    assert_true(net_locate_interface(root, "mlx5_0", &place));
    assert_string_equal(place.chain,
                        "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0");
    assert_int_equal(place.numa, 0);
    assert_true(net_locate_interface(root, "eth1", &place));
    assert_string_equal(place.chain, "pci0000:80/0000:80:03.0");
    assert_int_equal(place.numa, 1);
    assert_true(net_locate_pci(root, "0000:81:00.0", &place));
    assert_string_equal(place.chain, "pci0000:80/0000:80:01.0/0000:81:00.0");
    assert_false(net_locate_pci(root, "0000:99:00.0", &place));
    assert_false(net_locate_interface(root, "veth0", &place));
    assert_int_equal(place.numa, -1);
    assert_false(net_locate_interface(root, "moon0", &place));
    assert_false(net_locate_interface(root, "../../x", &place));
    assert_int_equal(net_get_speed(root, "eth1"), 25000);
    assert_int_equal(net_get_speed(root, "veth0"), 0);
    assert_int_equal(net_get_speed(root, "moon0"), 0);
    assert_true(net_locate_interface(root, "eth2", &place));
    assert_string_equal(place.chain, "pci0000:80/0000:80:04.0");
    assert_false(net_locate_interface(root, "eth3", &place));
    assert_int_equal(net_get_speed(root, "eth3"), 0);
    assert_true(net_is_down(root, "eth2"));
    assert_false(net_is_down(root, "eth1"));
    assert_true(net_is_down(root, "veth0"));
    assert_false(net_is_down(root, "moon0"));
}

static void cpus_of_devices(void **state)
{
    struct net_device_location place;
    cpu_set_t cpus;
    (void)state;
    assert_true(net_locate_interface(root, "eth1", &place));
    assert_true(net_cpus_at(root, &place, &cpus));
    assert_true(CPU_COUNT(&cpus) == 4 && CPU_ISSET(4, &cpus) && CPU_ISSET(7, &cpus));
    assert_true(net_locate_pci(root, "0000:03:00.0", &place));
    assert_true(net_cpus_at(root, &place, &cpus));
    assert_true(CPU_COUNT(&cpus) == 4 && CPU_ISSET(0, &cpus) && CPU_ISSET(3, &cpus));
    place.numa = -1;
    assert_false(net_cpus_at(root, &place, &cpus));
    place.numa = 9;
    assert_false(net_cpus_at(root, &place, &cpus));
}

static void spots(void **state)
{
    static const struct {
        int local_pe;
        const char *wanted, *visible, *text;
    } rows[] = {
        {0, "", NULL, "GPU 0000:03:00.0"},
        {1, "", NULL, "GPU 0000:81:00.0"},
        {2, "", NULL, "GPU 0000:03:00.0"},
        {0, "1", NULL, "GPU 0000:81:00.0"},
        {1, "1,0", NULL, "GPU 0000:03:00.0"},
        {0, "81:00.0", NULL, "GPU 0000:81:00.0"},
        {0, "", "1", "GPU 0000:81:00.0"},
        {1, "", "1", "GPU 0000:81:00.0"},
        {1, "", "1,0", "GPU 0000:03:00.0"},
        {0, "1", "1,0", "GPU 0000:03:00.0"},
        {1, "", "1,7,0", "GPU 0000:81:00.0"},
        {0, "", "", "the CPUs of NUMA node 1"},
        {0, "", "-1", "the CPUs of NUMA node 1"},
        {0, "7", NULL, "the CPUs of NUMA node 1"},
        {0, "", "GPU-8932f937", "the CPUs of NUMA node 1"},
        {0, "GPU-8932f937", NULL, "the CPUs of NUMA node 1"},
        {0, "", "0", "GPU 0000:03:00.0"},
        {0, "", "2", "the CPUs of NUMA node 1"},
        {0, "", "1x", "the CPUs of NUMA node 1"},
        {0, "2", NULL, "the CPUs of NUMA node 1"},
        {2, "1,0", NULL, "GPU 0000:81:00.0"},
        {3, "1,0", NULL, "GPU 0000:03:00.0"},
        {1, "1,,0", NULL, "the CPUs of NUMA node 1"},
        {0, "001", NULL, "GPU 0000:81:00.0"},
        {0, "0001", NULL, "the CPUs of NUMA node 1"},
        {0, "abc", NULL, "the CPUs of NUMA node 1"},
        {0, "1:00.0", NULL, "the CPUs of NUMA node 1"},
        {0, "0000:81:00.0", NULL, "GPU 0000:81:00.0"},
        {0, "10000:81:00.0", NULL, "the CPUs of NUMA node 1"},
    };
    cpu_set_t cpus;
    struct net_pe_location spot;
    (void)state;
    int before = open_files();
    CPU_ZERO(&cpus);
    CPU_SET(5, &cpus);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        net_locate_pe(root, rows[i].local_pe, rows[i].wanted, rows[i].visible, &cpus, &spot);
        if (strcmp(spot.text, rows[i].text) != 0 || spot.gpu != (rows[i].text[0] == 'G'))
            fail_msg("row %zu: %s instead of %s", i, spot.text, rows[i].text);
    }
    assert_int_equal(spot.numas, 1 << 1);
    assert_int_equal(open_files(), before);
    CPU_SET(0, &cpus);
    net_locate_pe(root, 0, "", "", &cpus, &spot);
    assert_string_equal(spot.text, "the CPUs of 2 NUMA nodes");
    assert_int_equal(spot.numas, 3);
    /* A GPU that sysfs does not contain. */
    shell(
        "d=proc/driver/nvidia/gpus/0000:99:00.0; mkdir $d; echo 'Device Minor: 1' >$d/information");
    net_locate_pe(root, 2, "", NULL, &cpus, &spot);
    assert_false(spot.gpu);
    assert_string_equal(spot.text, "the CPUs of 2 NUMA nodes");
    shell("rm -r proc/driver/nvidia/gpus/0000:99:00.0");
    /* A container without the device file of the first GPU. */
    shell("rm dev/nvidia0");
    net_locate_pe(root, 0, "", NULL, &cpus, &spot);
    assert_string_equal(spot.text, "GPU 0000:81:00.0");
    net_locate_pe("/nonexistent", 0, "", NULL, &cpus, &spot);
    assert_int_equal(spot.numas, 0);
    assert_false(spot.gpu);
}

/* The nodes of AMD's kernel driver: the CPUs first, then GPUs, in HIP's order. */
static void spots_of_amd(void **state)
{
    static const struct {
        int local_pe;
        const char *rocr, *hip, *visible, *wanted, *text;
    } rows[] = {
        {0, NULL, NULL, NULL, "", "GPU 0000:81:00.0"},
        {1, NULL, NULL, NULL, "", "GPU 0000:03:00.0"},
        {0, NULL, NULL, NULL, "03:00.0", "GPU 0000:03:00.0"},
        {0, NULL, "1", NULL, "", "GPU 0000:03:00.0"},
        {0, NULL, NULL, "1", "", "GPU 0000:03:00.0"},
        {0, NULL, "0", "1", "", "GPU 0000:81:00.0"},
        {0, NULL, "0", "", "", "the CPUs of NUMA node 1"}, /* simt */
        {0, "1", "0", NULL, "", "GPU 0000:03:00.0"},
        {0, "1", "1", NULL, "", "the CPUs of NUMA node 1"},
    };
    cpu_set_t cpus;
    struct net_pe_location spot;
    (void)state;
    CPU_ZERO(&cpus);
    CPU_SET(5, &cpus);
    shell("mv proc/driver/nvidia proc/driver/hidden; mkdir -p dev/dri;"
          "N=sys/class/kfd/kfd/topology/nodes; for i in 0 1 2 3; do mkdir -p $N/$i; done;"
          "printf 'cpu_cores_count 8\\nsimd_count 0\\nlocation_id 0\\n' >$N/0/properties;"
          "printf 'simd_count 440\\nlocation_id 33024\\ndomain 0\\ndrm_render_minor 128\\n' "
          ">$N/1/properties;" /* 0x8100 */
          "printf 'simd_count 440\\nlocation_id 39168\\ndomain 0\\ndrm_render_minor 130\\n' "
          ">$N/2/properties;" /* 0x9900, whose device file is not in this container */
          "printf 'simd_count 440\\nlocation_id 768\\ndomain 0\\ndrm_render_minor 129\\n' "
          ">$N/3/properties; touch dev/dri/renderD128 dev/dri/renderD129"); /* 0x0300 */
    int before = open_files();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        unsetenv("ROCR_VISIBLE_DEVICES");
        unsetenv("HIP_VISIBLE_DEVICES");
        if (rows[i].rocr)
            setenv("ROCR_VISIBLE_DEVICES", rows[i].rocr, 1);
        if (rows[i].hip)
            setenv("HIP_VISIBLE_DEVICES", rows[i].hip, 1);
        net_locate_pe(root, rows[i].local_pe, rows[i].wanted, rows[i].visible, &cpus, &spot);
        if (strcmp(spot.text, rows[i].text) != 0)
            fail_msg("row %zu: %s instead of %s", i, spot.text, rows[i].text);
    }
    assert_int_equal(open_files(), before);
    unsetenv("ROCR_VISIBLE_DEVICES");
    unsetenv("HIP_VISIBLE_DEVICES");
    shell("mv proc/driver/hidden proc/driver/nvidia; rm -r sys/class/kfd dev/dri");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_the_model_says),
        cmocka_unit_test(taken_on_them),
        cmocka_unit_test(apart),
        cmocka_unit_test(places),
        cmocka_unit_test(cpus_of_devices),
        cmocka_unit_test(spots),
        cmocka_unit_test(spots_of_amd),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
