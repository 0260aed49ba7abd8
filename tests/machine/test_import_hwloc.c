/* SPDX-License-Identifier: Apache-2.0 */
/* hwloc's XML of three versions read as machines: devices, places in the PCI tree, and links from
 * the matrix of rates. The files in imports/ were written for this test in the published format. */
#include "imports.h"

static void test_hwloc(void **state)
{
    struct machine *m = load("hwloc-2.xml");
    assert_int_equal(m->n_packages, 2);
    assert_int_equal(m->packages[0].cores.value, 2);
    assert_int_equal(m->n_numa, 2);
    assert_int_equal(m->numa[1].package.value, 1);
    assert_string_equal(m->numa[1].cpus.value, "2-3");
    assert_int_equal(m->numa[0].memory_bytes.value, 270000000000);
    assert_string_equal(m->system.cpu_model.value, "Intel(R) Xeon(R) Platinum 8480C");
    assert_int_equal(m->n_gpus, 3); /* the board's display adapter is no GPU */
    assert_string_equal(m->gpus[1].bdf.value, "0000:1c:00.0");
    assert_string_equal(m->gpus[1].uuid.value, "GPU-00000000-0000-0000-0000-000000000001");
    assert_int_equal(m->gpus[0].memory_bytes.value, INT64_C(83006080) * 1024);
    is_apart(m, "gpu0", "mlx5_0", "PIX");
    is_apart(m, "gpu0", "gpu1", "PXB"); /* a switch below another */
    is_apart(m, "gpu1", "nvme0n1", "PIX");
    is_apart(m, "gpu0", "mlx5_1", "NODE");
    is_apart(m, "gpu2", "mlx5_0", "SYS");
    assert_string_equal(machine_find_pci(m, "0000:1b:00.0")->kind.value, "downstream");
    assert_string_equal(machine_find_pci(m, "0000:18:00.0")->root.value, "0000:15");
    /* the file has only lanes times rate */
    assert_false(machine_find_pci(m, "0000:18:00.0")->gen_max.known);
    assert_false(machine_find_pci(m, "0001:01:00.0")->numa.known); /* near both nodes */
    assert_string_equal(machine_find_port(m, "mlx5_0")->state.value, "active");
    assert_string_equal(machine_find_port(m, "mlx5_1")->state.value, "down");
    assert_int_equal(m->disks[0].bytes.value, INT64_C(3750738264) * 1024);
    struct link_bundle four = routes_links(m, 0, 1), none = routes_links(m, 0, 2);
    assert_int_equal(four.links, 4); /* 100000 MB/s of links of generation 4 */
    assert_int_equal(four.generation, 4);
    assert_false(four.through_switch);
    assert_int_equal(routes_links(m, 2, 1).links, 2);
    assert_int_equal(none.links, 0);
    assert_false(none.unknown);
    assert_int_equal(m->gpus[1].nvlinks.value, 6);
    assert_int_equal(m->n_links, 12);
    assert_non_null(strstr(m->note, "ignored: distances")); /* of NUMA nodes */
    assert_null(m->warnings);
    assert_null(m->system.hypervisor.value);
    machine_free(m);
}

/* Version 3: facts of the system in <topology>, kinds of devices as bits. */
static void test_hwloc_new(void **state)
{
    struct machine *m = load("hwloc-3.xml");
    assert_string_equal(m->system.hostname.value, "node3");
    assert_string_equal(m->system.arch.value, "x86_64");
    assert_int_equal(m->n_gpus, 3);
    assert_int_equal(m->n_nics, 1);
    assert_string_equal(m->nics[0].name.value, "mlx5_0");
    assert_int_equal(m->n_interfaces, 1);
    assert_string_equal(m->interfaces[0].name.value, "ibp25s0");
    assert_int_equal(m->n_disks, 1); /* dax0.0 is memory */
    is_apart(m, "gpu0", "mlx5_0", "PIX");
    struct link_bundle links = routes_links(m, 0, 1);
    assert_true(links.through_switch);
    assert_int_equal(links.links, 17); /* gpu0: 8 and 10 links to two switches; gpu1: 10 and 7 */
    assert_int_equal(m->n_links, 35);
    assert_string_equal(m->links[17].peer_bdf.value, "0000:41:00.0");
    assert_int_equal(m->gpus[2].nvlinks.value, 0);
    assert_false(routes_links(m, 0, 2).unknown);
    assert_null(m->warnings);
    machine_free(m);
}

/* A Grace: its name from MIDR and the id of the chip, and the node that is the GPU's memory. */
static void test_hwloc_grace(void **state)
{
    struct machine *m = load("hwloc-gh200.xml");
    assert_string_equal(m->system.cpu_model.value, "Grace, Neoverse-V2");
    assert_string_equal(m->system.arch.value, "aarch64");
    assert_int_equal(m->n_numa, 3);
    assert_int_equal(machine_count_host_numa(m), 1);
    assert_true(number_is(m->gpus[0].memory_numa, 1));
    assert_ptr_equal(machine_gpu_of_numa(m, 1), &m->gpus[0]);
    assert_null(machine_gpu_of_numa(m, 0));
    assert_true(machine_is_host_numa(m, &m->numa[0]));
    assert_false(machine_is_host_numa(m, &m->numa[1])); /* memory of the GPU */
    assert_false(machine_is_host_numa(m, &m->numa[2])); /* empty */
    is_apart(m, "gpu0", "mlx5_0", "NODE");
    assert_null(m->warnings);
    machine_free(m);
}

#define MATRIX(attributes, indexes, values)                                                        \
    "<topology version=\"2.0\">\n<object type=\"Machine\">\n"                                      \
    "<object type=\"PCIDev\" pci_busid=\"0002:01:00.0\" pci_type=\"0302 [10de:15f9]\">"            \
    "<object type=\"OSDev\" gp_index=\"7\" name=\"nvml0\" osdev_type=\"1\"/></object>\n"           \
    "<object type=\"PCIDev\" pci_busid=\"0003:01:00.0\" pci_type=\"0302 [10de:15f9]\">"            \
    "<object type=\"OSDev\" gp_index=\"9\" name=\"nvml1\" osdev_type=\"1\"/></object>\n"           \
    "<object type=\"Package\" gp_index=\"3\" os_index=\"0\"/>\n</object>\n"                        \
    "<" attributes " name=\"NVLinkBandwidth\"><indexes>" indexes "</indexes>"                      \
    "<u64values>" values "</u64values></distances2hetero>\n</topology>\n"
#define HETERO(indexes, values) MATRIX("distances2hetero", indexes, values)

/* POWER with NVLink 1: links of 20000 MB/s between GPUs and to the CPU. */
static void test_hwloc_matrix(void **state)
{
    struct machine *m;
    const char *text = HETERO("OSDev:7 OSDev:9 Package:3",
                              "\n1000000 40000 20000\n40000 1000000 0\n20000 0\t1000000\n");
    assert_int_equal(import_any(text, strlen(text), "x", &m), WEFT_OK);
    assert_int_equal(routes_links(m, 0, 1).links, 2);
    assert_int_equal(routes_links(m, 0, 1).generation, 1);
    assert_int_equal(routes_cpu_links(m, 0).links, 1);
    assert_int_equal(routes_cpu_links(m, 1).links, 0);
    machine_free(m);
    m = is_read_with(HETERO("OSDev:7 OSDev:9", "0 30000 40000 0"),
                     "7: NVLinkBandwidth: 30000 MB/s between OSDev:7 and OSDev:9 is not the rate "
                     "of up to 64 links; these links are unknown");
    assert_int_equal(routes_links(m, 0, 1).links, 2); /* as the other row has it */
    assert_false(routes_links_known(m, 0));
    machine_free(m);
    static const char odd[] = "7: NVLinkBandwidth is no matrix of numbers with a row for each "
                              "index; the links are unknown";
    m = is_read_with(HETERO("OSDev:7 OSDev:9", "0 40000 40000"), odd);
    assert_true(routes_links(m, 0, 1).unknown);
    machine_free(m);
    is_warned(HETERO("OSDev:7 OSDev:9", "0 40000 40000 0 0"), odd);
    is_warned(HETERO("OSDev:7 OSDev:9", "0 40000 many 0"), odd);
    is_warned(HETERO("7 9", "0 40000 40000 0"), odd);
    is_warned(HETERO("", ""), odd);
}

#define XGMI_GPU(bus, number)                                                                      \
    "<object type=\"PCIDev\" pci_busid=\"0000:" bus ":00.0\" pci_type=\"1200 [1002:" XGMI_ID       \
    "]\">"                                                                                         \
    "<object type=\"OSDev\" gp_index=\"" number "\" name=\"rsmi" number                            \
    "\" osdev_type=\"1\"/></object>\n"
#define XGMI_MATRIX(name, values)                                                                  \
    "<distances2 type=\"OSDev\" nbobjs=\"3\" name=\"" name                                         \
    "\"><indexes>0 1 2</indexes><u64values>" values "</u64values></distances2>\n"
#define XGMI_ID "740c"
#define XGMI(matrices)                                                                             \
    "<topology version=\"2.0\">\n<object type=\"Machine\">\n" XGMI_GPU("21", "0")                  \
        XGMI_GPU("22", "1") XGMI_GPU("23", "2") "</object>\n" matrices "</topology>\n"

#define FEWER_HOPS                                                                                 \
    "<distances2 type=\"OSDev\" name=\"XGMIHops\"><indexes>0 1</indexes>"                          \
    "<u64values>0 9 9 0</u64values></distances2>"

/* Three dies: four links within a module, one to the third die from one of the two alone. */
static void test_hwloc_xgmi(void **state)
{
    static const char rates[] = XGMI(XGMI_MATRIX(
        "XGMIBandwidth", "1000000 200000 50000 200000 1000000 50000 50000 50000 1000000")
                                         XGMI_MATRIX("XGMIHops", "0 1 1 1 0 2 1 2 0"));
    struct machine *m;
    assert_int_equal(import_any(rates, strlen(rates), "x", &m), WEFT_OK);
    assert_null(m->warnings);
    assert_null(strstr(m->note, "ignored"));
    struct link_bundle module = routes_links(m, 0, 1);
    assert_int_equal(module.links, 4);
    assert_string_equal(module.kind, "xgmi");
    assert_int_equal(module.generation, 3);
    assert_int_equal(routes_links(m, 2, 0).links, 1);
    assert_int_equal(routes_links(m, 1, 2).links, 0); /* by another die */
    assert_false(routes_links(m, 1, 2).unknown);
    assert_int_equal(m->gpus[0].nvlinks.value, 5);
    assert_int_equal(m->gpus[2].nvlinks.value, 1);
    machine_free(m);

    /* hops of other ends count for nothing; links of 64 GB/s */
    static const char newer[] = XGMI(
        XGMI_MATRIX("XGMIBandwidth", "0 64000 128000 64000 0 64000 128000 64000 0") FEWER_HOPS);
    assert_int_equal(import_any(newer, strlen(newer), "x", &m), WEFT_OK);
    assert_int_equal(routes_links(m, 0, 1).links, 1);
    assert_int_equal(routes_links(m, 0, 2).links, 2);
    machine_free(m);

    m = is_read_with(
        XGMI(XGMI_MATRIX("XGMIBandwidth",
                         "1000000 100000 100000 100000 1000000 100000 100000 100000 1000000")),
        "7: XGMIBandwidth: every pair has 100000 MB/s, which older hwloc writes for any number of "
        "links; the links are unknown");
    assert_true(routes_links(m, 0, 1).unknown);
    assert_string_equal(m->gpus[0].nvlinks.why,
                        "no matrix XGMIBandwidth of the file has all its links");
    machine_free(m);
    m = is_read_with(
        XGMI(XGMI_MATRIX("XGMIBandwidth", "0 50000 70000 50000 0 50000 50000 50000 0")),
        "7: XGMIBandwidth: 70000 MB/s between OSDev:0 and OSDev:2 is not the rate of up "
        "to 64 links; these links are unknown");
    assert_int_equal(routes_links(m, 0, 1).links, 1);
    machine_free(m);
}

static void test_hwloc_old(void **state)
{
    struct machine *m = load("hwloc-1.xml");
    assert_int_equal(m->n_packages, 2); /* the second has the type Socket */
    assert_int_equal(m->numa[1].package.value, 1);
    assert_int_equal(m->n_gpus, 2);
    assert_string_equal(m->gpus[0].bdf.value, "0000:02:00.0"); /* rsmi0 */
    assert_string_equal(m->gpus[1].name.value, "AMD Instinct MI210");
    is_apart(m, "gpu0", "gpu1", "PHB");
    assert_true(routes_links(m, 0, 1).unknown); /* a file without a matrix reports no links */
    machine_free(m);
}

#define TOPOLOGY(inside)                                                                           \
    "<topology version=\"2.0\">\n<object type=\"Machine\">\n" inside "</object>\n</topology>\n"
#define DEVICE(busid, type, inside)                                                                \
    "<object type=\"PCIDev\" pci_busid=\"" busid "\" pci_type=\"" type "\">" inside "</object>\n"

static void test_hwloc_refused(void **state)
{
    is_refused("<topology version=\"4.0\"/>",
               "x:1: the file has format version 4.0, but this weft reads 1 to 3: write it "
               "with lstopo --export-xml-flags v2, or use a newer weft");
    is_refused("<topology version=\"new\"/>",
               "x:1: <topology> version=\"new\" is not a version of hwloc's XML");
    is_refused("<topology version=\"2.0\"/>", "x:1: <topology> has no object of type Machine");
    is_refused(TOPOLOGY("<object/>"), "x:3: <object> has no type");
    is_refused(TOPOLOGY("<object type=\"NUMANode\"/>"), "x:3: NUMANode has no os_index");
    is_refused(TOPOLOGY("<object type=\"NUMANode\" os_index=\"0\"/>\n"
                        "<object type=\"NUMANode\" os_index=\"0\"/>"),
               "x:4: NUMANode 0 appears twice");
    is_refused(TOPOLOGY("<object type=\"NUMANode\" os_index=\"0\" cpuset=\"0xf...f\"/>"),
               "x:3: NUMANode cpuset=\"0xf...f\" is not a set such as 0x000000ff,0x0");
    is_refused(TOPOLOGY(DEVICE("0000:01:00.0", "", "") DEVICE("0000:01:00.0", "", "")),
               "x:4: pci_busid=\"0000:01:00.0\" appears twice");
    is_refused(TOPOLOGY(DEVICE("1", "", "")),
               "x:3: PCIDev pci_busid=\"1\": expected a PCI address such as 0000:3b:00.0");
    is_refused(TOPOLOGY("<object type=\"Bridge\" bridge_type=\"0-1\" bridge_pci=\"0000:00\"/>"),
               "x:3: Bridge bridge_pci=\"0000:00\": expected buses such as 0000:[00-3f]");
    is_refused(TOPOLOGY(DEVICE("0000:01:00.0", "0302 [10de:2330]",
                               "<object type=\"OSDev\" name=\"nvml0\" osdev_type=\"1\"/>")
                            DEVICE("0000:02:00.0", "0302 [10de:2330]",
                                   "<object type=\"OSDev\" name=\"nvml0\" osdev_type=\"1\"/>")),
               "x:4: nvml0 appears twice");
    is_refused(TOPOLOGY("<object type=\"OSDev\" osdev_type=\"1\"/>"), "x:3: OSDev has no name");
}

/* A board directly at the root complex occurs only in guests. */
static void test_hwloc_guest(void **state)
{
    struct machine *m;
    const char *text =
        TOPOLOGY("<object type=\"Bridge\" bridge_type=\"0-1\" bridge_pci=\"0000:[00-00]\">" DEVICE(
            "0000:00:05.0", "0302 [10de:2335]", "")
                     DEVICE("0000:00:06.0", "0302 [10de:2335]", "") "</object>");
    assert_int_equal(import_any(text, strlen(text), "x", &m), WEFT_OK);
    assert_true(machine_is_flat(m));
    is_apart(m, "gpu0", "gpu1", "?");
    machine_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hwloc),        cmocka_unit_test(test_hwloc_old),
        cmocka_unit_test(test_hwloc_new),    cmocka_unit_test(test_hwloc_grace),
        cmocka_unit_test(test_hwloc_matrix), cmocka_unit_test(test_hwloc_refused),
        cmocka_unit_test(test_hwloc_xgmi),   cmocka_unit_test(test_hwloc_guest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
