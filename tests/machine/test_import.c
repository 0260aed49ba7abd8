/* SPDX-License-Identifier: Apache-2.0 */
/* Files of other programs read as machines: their facts are taken over, missing facts are unknown,
 * and an error is reported with its line. The files in imports/ were written for this test in the
 * published format of each program; the asserted values were read from them by hand. */
#include "imports.h"

#define KINDS                                                                                      \
    "a machine file (weft topo --record), NCCL's or RCCL's topology (NCCL_TOPO_DUMP_FILE), "       \
    "hwloc's XML (lstopo FILE.xml) or the text of nvidia-smi topo -m"

static void test_kinds(void **state)
{
    is_refused("", "x:1: the file is empty; weft reads " KINDS);
    is_refused(" \n", "x:1: the file is empty; weft reads " KINDS);
    is_refused("hello", "x:1: the file has no known format; weft reads " KINDS);
    is_refused("<nvidia_smi_log><gpu/></nvidia_smi_log>",
               "x:1: <nvidia_smi_log> is no known file format; weft reads " KINDS);
    is_refused("<graphs version=\"1\"/>",
               "x:1: this is a graph file of NCCL (NCCL_GRAPH_DUMP_FILE), which has no topology; "
               "NCCL_TOPO_DUMP_FILE writes one");
    is_refused("[1]", "x:1: not a machine file: expected an object { ... }");
}

static void test_addresses(void **state)
{
    static const char *const pairs[][2] = {{"0000:3B:00.0", "0000:3b:00.0"},
                                           {"00000000:3b:1f.7", "0000:3b:1f.7"},
                                           {"3b:00.1", "0000:3b:00.1"},
                                           {"10000:01:00.0", "10000:01:00.0"},
                                           {"0000:3b:00", NULL},
                                           {"0000:3b:20.0", NULL},
                                           {"0000:3b:00.8", NULL},
                                           {"0000:100:00.0", NULL},
                                           {"0000:3b:00.0 ", NULL},
                                           {"-1:3b:00.0", NULL},
                                           {"", NULL},
                                           {"fffffff:ffff:ff", NULL}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        char address[IMPORT_ADDRESS] = "";
        bool is_one = import_address(pairs[i][0], address);
        if (is_one != (pairs[i][1] != NULL) || (is_one && strcmp(address, pairs[i][1]) != 0))
            fail_msg("%s: %s", pairs[i][0], address);
    }
}

/* CPU lists of several words, numbers at the ends of their range, lines that are too long. */
static void test_parts(void **state)
{
    struct machine *m = machine_new("test");
    const uint32_t words[3] = {0xc0000005u, 0x00000001u, 0x80000000u};
    int64_t value;
    assert_string_equal(import_cpu_list(m, words, 3), "0,2,30-32,95");
    assert_string_equal(import_cpu_list(m, words, 1), "0,2,30-31");
    assert_string_equal(import_cpu_list(m, words, 0), "");
    assert_true(import_number("-3", -3, 7, &value) && value == -3);
    assert_true(import_number("7", -3, 7, &value) && value == 7);
    assert_true(import_number("0x10", 0, 16, &value) && value == 16);
    assert_false(import_number("8", -3, 7, &value));
    assert_false(import_number("-4", -3, 7, &value));
    assert_false(import_number("7x", -3, 7, &value));
    assert_false(import_number("", -3, 7, &value));
    assert_false(import_number("-", -3, 7, &value));
    assert_false(import_number(" 7", -3, 7, &value));
    assert_false(import_number("99999999999999999999", 0, INT64_MAX, &value));
    machine_free(m);
    static char text[20000];
    static const char smi[] = "        GPU0    CPU Affinity\nGPU0     X      0-3\n";
    struct machine *read;
    for (int length = 16383; length <= 16384;
         length++) { /* a line of the maximum length, then a longer one */
        memcpy(text, smi, sizeof smi);
        memset(text + sizeof smi - 1, ' ', (size_t)length);
        text[sizeof smi - 1 + (size_t)length] = '\0';
        if (length == 16384) {
            is_refused(text, "x:1: a line is longer than 16384 characters");
            continue;
        }
        assert_int_equal(import_any(text, strlen(text), "x", &read), WEFT_OK);
        assert_int_equal(read->n_gpus, 1);
        machine_free(read);
    }
}

static void test_smi(void **state)
{
    struct machine *m = load("smi-nics.txt");
    assert_int_equal(m->n_gpus, 4);
    assert_int_equal(m->n_nics, 4);
    assert_string_equal(m->nics[1].name.value, "mlx5_3"); /* NIC1 according to the legend */
    is_apart(m, "gpu0", "mlx5_0", "PXB");
    is_apart(m, "gpu0", "mlx5_3", "NODE");
    is_apart(m, "mlx5_bond_0", "gpu1", "SYS");
    is_apart(m, "mlx5_4", "mlx5_bond_0", "NODE");
    is_apart(m, "gpu0", "gpu1", "?"); /* NV18 is in its place */
    struct link_bundle links = routes_links(m, 3, 0);
    assert_int_equal(links.links, 18);
    assert_true(links.count_only);
    assert_int_equal(links.generation, 0); /* Hopper and Blackwell have 18 links */
    assert_int_equal(links.mbps, 0);
    assert_int_equal(m->gpus[2].numa.value, 1);
    assert_string_equal(m->numa[1].cpus.value, "48-95,144-191");
    assert_null(m->gpus[0].name.value);
    assert_null(m->gpus[0].bdf.value);
    machine_free(m);
}

static void test_smi_forms(void **state)
{
    struct machine *m = load("smi-old.txt");
    assert_int_equal(m->n_gpus, 4);
    assert_string_equal(m->nics[0].name.value, "mlx5_0");
    is_apart(m, "gpu0", "gpu3", "SYS"); /* SOC */
    is_apart(m, "gpu0", "mlx5_0", "PIX");
    assert_int_equal(routes_links(m, 0, 1).links, 2);
    assert_int_equal(routes_links(m, 0, 3).links, 0);
    assert_false(m->gpus[0].numa.known);
    assert_int_equal(m->n_numa, 0);
    machine_free(m);
    m = load("smi-copied.txt");
    is_apart(m, "gpu0", "gpu1", "PHB");
    assert_false(m->gpus[0].numa.known);
    assert_string_equal(m->gpus[0].numa.why, "nvidia-smi prints 0-1");
    machine_free(m);
}

/* As people paste it: below a prompt with a bracket, and in a message that quotes it. */
/* GPUs whose memory is a NUMA node: that node, and of the affinity the node of the CPU. */
static void test_smi_coherent(void **state)
{
    static const int memory[] = {2, 10, 18, 26};
    struct machine *m = load("smi-gb200.txt");
    for (int i = 0; i < 4; i++) {
        assert_true(number_is(m->gpus[i].memory_numa, memory[i]));
        assert_true(number_is(m->gpus[i].numa, i / 2));
    }
    assert_int_equal(m->n_numa, 2);
    assert_string_equal(m->numa[1].cpus.value, "72-143");
    is_apart(m, "mlx5_2", "mlx5_3", "PIX");
    is_apart(m, "gpu3", "mlx5_7", "SYS");
    assert_true(routes_coherent(m, &m->gpus[3]));
    machine_free(m);
    m = load("smi-nics.txt");
    assert_false(m->gpus[0].memory_numa.known);
    assert_false(routes_coherent(m, &m->gpus[0]));
    machine_free(m);
    is_refused("\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\tX\t0-71\t0\t1-2\n",
               "x:2: GPU NUMA ID of GPU0: \"1-2\" is not a node");
}

static void test_smi_pasted(void **state)
{
    static const char *const pasted[] = {
        "[user@host ~]$ nvidia-smi topo -m\n\tGPU0\tGPU1\nGPU0\tX\tNV4\nGPU1\tNV4\tX\n",
        "> nvidia-smi topo -m\n> \tGPU0\tGPU1\n> GPU0\t X \tNV4\n> GPU1\tNV4\t X \n>\n> Legend:\n",
        ">>  GPU0 GPU1\n> > GPU0 X NV4\n>> GPU1 NV4 X\n"};
    for (size_t i = 0; i < sizeof pasted / sizeof pasted[0]; i++) {
        struct machine *m;
        if (import_any(pasted[i], strlen(pasted[i]), "x", &m))
            fail_msg("%s:\n%s", weft_last_error(), pasted[i]);
        assert_int_equal(m->n_gpus, 2);
        assert_int_equal(routes_links(m, 0, 1).links, 4);
        machine_free(m);
    }
    is_refused("> GPU0 GPU1\n> GPU0 X PIX\n>\n",
               "x:3: there is no row of GPU1 (the text is truncated)");
}

/* Three GPUs linked in a row: the ends reach each other by relay only where a link is known not to
 * exist. */
static void test_smi_routes(void **state)
{
    static struct routes routes;
    struct machine *m;
    const char *text =
        "\tGPU0\tGPU1\tGPU2\nGPU0\tX\tNV4\tPHB\nGPU1\tNV4\tX\tNV4\nGPU2\tPHB\tNV4\tX\n";
    assert_int_equal(import_any(text, strlen(text), "x", &m), WEFT_OK);
    struct endpoint a = end_of(m, "gpu0"), b = end_of(m, "gpu2");
    int relays = 0;
    routes_between(m, &a, &b, &routes);
    for (int i = 0; i < routes.n; i++)
        relays += routes.list[i].kind == ROUTE_RELAY;
    assert_int_equal(relays, 1);
    machine_free(m);
    /* All are linked: the file does not tell whether through a switch, which a relay would cross
     * twice. */
    text = "\tGPU0\tGPU1\tGPU2\nGPU0\tX\tNV4\tNV4\nGPU1\tNV4\tX\tNV4\nGPU2\tNV4\tNV4\tX\n";
    assert_int_equal(import_any(text, strlen(text), "x", &m), WEFT_OK);
    a = end_of(m, "gpu0"), b = end_of(m, "gpu2");
    routes_between(m, &a, &b, &routes);
    assert_string_equal(routes.list[0].text, "4x NVLink");
    assert_string_equal(routes.list[0].limit, "");
    for (int i = 0; i < routes.n; i++)
        assert_int_not_equal(routes.list[i].kind, ROUTE_RELAY);
    machine_free(m);
}

/* A recorded file of it gives the same machine; one that names a missing device is refused. */
static void test_smi_recorded(void **state)
{
    struct machine *m = load("smi-nics.txt"), *again;
    char *text = machine_format(m, false);
    assert_int_equal(machine_parse(text, strlen(text), "x", &again), WEFT_OK);
    is_apart(again, "gpu0", "mlx5_3", "NODE");
    assert_int_equal(routes_links(again, 0, 1).links, 18);
    free(text);
    machine_free(again);
    machine_free(m);
    is_refused("{\"weft-machine\": 1, \"gpus\": [{\"index\": 0}], \"distances\": "
               "[{\"a\": \"gpu0\", \"b\": \"gpu1\", \"level\": \"pix\"}]}",
               "x: distances[0]: there is no gpu1");
}

static void test_smi_refused(void **state)
{
    is_refused(" GPU0x GPU1\n",
               "x:1: there is no heading with GPU0 as nvidia-smi topo -m prints it");
    is_refused("GPU0 X NV1\nGPU1 NV1 X\n", "x:1: the heading that names the columns is missing");
    is_refused(" GPU0 GPU1\nGPU0 X PIX\n", "x:2: there is no row of GPU1 (the text is truncated)");
    is_refused(" GPU0 GPU1\nGPU0 X PIX\nGPU1 PIX\n",
               "x:3: the row of GPU1 has 1 cells, but the heading has 2 devices");
    is_refused(" GPU0 GPU1\nGPU0 X PIX PIX\nGPU1 PIX X\n",
               "x:2: the row of GPU0 is longer than the heading");
    is_refused(" GPU0 GPU0\nGPU0 X PIX\n", "x:1: GPU0 appears twice in the heading");
    is_refused(" GPU1 GPU01\nGPU1 X PIX\n", "x:1: GPU01 appears twice in the heading");
    is_refused(" GPU0 GPU1\nGPU0 X PIX\nGPU0 PIX X\n",
               "x:3: expected the row of GPU1, found \"GPU0\"");
    is_refused(" GPU0 GPU1\nGPU0 X PIX\nGPU1 SYS X\n",
               "x:3: GPU1 GPU0 is SYS, but GPU0 GPU1 in line 2 is PIX");
    is_refused(" GPU0 GPU1\nGPU0 X FAR\nGPU1 FAR X\n",
               "x:2: GPU0 GPU1: \"FAR\" is not one of X, PIX, PXB, PHB, NODE, SYS, SOC, NV#");
    is_refused(" GPU0 NIC0\nGPU0 X NV4\nNIC0 NV4 X\n",
               "x:2: GPU0 NIC0: \"NV4\" is not one of X, PIX, PXB, PHB, NODE, SYS, SOC, NV#");
    is_refused(" GPU0 GPU1\nGPU0 X NV65\nGPU1 NV65 X\n",
               "x:2: GPU0 GPU1: \"NV65\" is not one of X, PIX, PXB, PHB, NODE, SYS, SOC, NV#");
    is_refused(" GPU0 GPU1\nGPU0 PIX X\nGPU1 X PIX\n", "x:2: GPU0 GPU0: \"PIX\", expected X");
    is_refused(
        " GPU0 GPU1\nGPU0 X OK\nGPU1 OK X\n",
        "x:2: this is a matrix of nvidia-smi topo -p2p, which has no distances; topo -m writes "
        "them");
    is_refused(
        " GPU0 CPU Colour\nGPU0 X 3\n",
        "x:1: the heading \"CPU Colour\" is not known; known are devices, CPU Affinity, NUMA "
        "Affinity and GPU NUMA ID");
    is_refused(" GPU0 CPU Affinity\nGPU0 X all\n",
               "x:2: CPU Affinity of GPU0: \"all\" is not a list of CPUs");
    is_refused(" GPU0 NIC0\nGPU0 X PIX\nNIC0 PIX X\n\nNIC1: mlx5_0\n",
               "x:5: the legend names NIC1, but no column has this name");
    is_refused(
        " GPU0 NIC0 NIC1\nGPU0 X PIX PIX\nNIC0 PIX X PIX\nNIC1 PIX PIX X\n\nNIC0: a\nNIC1: a\n",
        "x:7: NIC1: a is named twice");
}

#ifdef WITH_XML

static void is_cut_at(const char *text, size_t length, unsigned line)
{
    struct machine *m;
    char place[40];
    snprintf(place, sizeof place, "x:%u: ", line);
    assert_int_not_equal(import_any(text, length, "x", &m), WEFT_OK);
    if (!strstr(weft_last_error(), place) || !strstr(weft_last_error(), "the file is truncated"))
        fail_msg("%s, expected line %u", weft_last_error(), line);
}

static void test_nccl_dump(void **state)
{
    struct machine *m = load("nccl-dump.xml");
    assert_int_equal(m->n_gpus, 3);
    assert_int_equal(m->n_nics, 2);
    assert_int_equal(m->n_ports, 3);
    assert_int_equal(m->n_interfaces, 1); /* port 0 is a socket */
    assert_string_equal(m->interfaces[0].name.value, "eth0");
    assert_int_equal(m->interfaces[0].mbit.value, 10000);
    is_apart(m, "gpu0", "mlx5_0", "PIX");
    is_apart(m, "gpu2", "mlx5_1", "PXB"); /* two switches */
    is_apart(m, "gpu0", "gpu2", "SYS");
    is_apart(m, "gpu0", "gpu1", "?"); /* one NUMA node; the file has no root complexes */
    is_apart(m, "gpu1", "mlx5_0", "?");
    struct link_bundle full = routes_links(m, 0, 1), less = routes_links(m, 0, 2);
    assert_true(full.through_switch);
    assert_int_equal(full.links, 18);
    assert_int_equal(less.links, 17);
    assert_int_equal(full.generation, 4); /* as compute capability 9.0 implies */
    assert_string_equal(m->numa[0].cpus.value, "0-47,96-143");
    assert_string_equal(m->numa[1].cpus.value, "48-95,144-159");
    assert_string_equal(m->system.cpu_vendor.value, "GenuineIntel");
    assert_int_equal(m->system.cpu_model_number.value, 143);
    assert_int_equal(m->gpus[0].cc_major.value, 9);
    assert_string_equal(m->gpus[0].name.value, "NVIDIA H100 80GB HBM3");
    assert_false(m->gpus[0].rdma.known);
    assert_false(m->gpus[0].pcie_width.known); /* the file has the maximum that both ends support */
    assert_int_equal(m->gpus[0].pcie_width_max.value, 16);
    assert_false(machine_find_pci(m, "0000:9d:00.0")->width_max.known); /* 255 means unknown */
    assert_int_equal(m->n_packages, 0);
    assert_null(m->system.hypervisor.value);
    assert_non_null(strstr(m->note, "ignored: <pcilink>"));
    struct link_bundle cpu = routes_cpu_links(m, 2);
    assert_int_equal(cpu.links, 10);
    assert_int_equal(cpu.line_mbps, 447120);
    machine_free(m);
}

static void test_nccl_by_hand(void **state)
{
    struct machine *m = load("nccl-by-hand.xml");
    assert_int_equal(m->n_gpus, 3);
    assert_string_equal(machine_find_gpu(m, 0)->bdf.value, "0001:00:00.0"); /* NVML's order */
    assert_string_equal(machine_find_gpu(m, 2)->bdf.value, "0003:00:00.0");
    assert_null(m->gpus[0].vendor.value);
    is_apart(m, "gpu0", "gpu1", "PIX");
    is_apart(m, "gpu0", "gpu2", "NODE"); /* one NUMA node, two PCI domains */
    is_apart(m, "gpu1", "0101:00:00.0", "PIX");
    assert_int_equal(machine_find_pci(m, "0001:00:00.0")->gen_max.value, 4);
    assert_false(machine_find_pci(m, "fffe:ff:01.0")->gen_max.known);
    machine_free(m);
}

static void test_rccl(void **state)
{
    struct machine *m = load("rccl-dump.xml");
    struct link_bundle links = routes_links(m, 0, 1);
    assert_int_equal(links.links, 1);
    assert_string_equal(links.kind, "xgmi");
    assert_int_equal(links.generation, 4);
    assert_string_equal(m->gpus[0].vendor.value, "amd");
    assert_string_equal(m->gpus[0].bdf.value, "0000:05:00.0");
    assert_string_equal(m->system.arch.value, "aarch64");
    assert_int_equal(m->n_links, 3);
    assert_false(m->links[1].peer_gpu.known); /* to a GPU that this file does not contain */
    assert_string_equal(m->links[1].peer_bdf.value, "0000:46:00.0");
    machine_free(m);
}

#define SYSTEM(inside) "<system version=\"1\">\n<cpu numaid=\"0\">\n" inside "</cpu>\n</system>\n"
#define GPU(busid, dev, inside)                                                                    \
    "<pci busid=\"" busid "\" class=\"0x030200\"><gpu dev=\"" dev "\">" inside "</gpu></pci>\n"

/* A device without an address, in an element that is ignored: its links belong to no GPU. */
static void test_nccl_no_place(void **state)
{
    static const char text[] =
        SYSTEM("<pci busid=\"0000:05:00.0\" class=\"0x030200\"><gpu dev=\"0\">"
               "<pci><gpu dev=\"1\"><nvlink target=\"0000:06:00.0\" count=\"1\"/></gpu></pci>"
               "</gpu></pci>");
    struct machine *m;
    assert_int_equal(import_any(text, strlen(text), "x", &m), WEFT_OK);
    assert_int_equal(m->n_gpus, 1);
    assert_int_equal(m->n_links, 0);
    machine_free(m);
}

static void test_nccl_refused(void **state)
{
    is_refused("<system/>", "x:1: <system> has no version");
    is_refused("<system version=\"new\"/>",
               "x:1: <system> version=\"new\": expected the version of the format");
    is_refused(
        "<system version=\"3\"/>",
        "x:1: the file has format version 3, but this weft reads 1 (NCCL) and 2 (RCCL): use a "
        "newer weft");
    is_refused(
        "<system version=\"1\">\n<cpu host_hash=\"0x1\" numaid=\"0\"/>\n"
        "<cpu host_hash=\"0x2\" numaid=\"0\"/></system>",
        "x:3: <cpu host_hash=\"0x2\"> is another host than the first <cpu> (0x1): weft reads one "
        "machine; use the file that NCCL writes in a job on one host");
}

/* NCCL and RCCL load files with values that they do not use: an odd one is left out with a warning.
 */
static void test_nccl_odd(void **state)
{
    struct machine *m;
    is_warned(SYSTEM("<pci class=\"0x030200\"/>"),
              "3: <pci> has no busid: what is below is left out");
    m = is_read_with(SYSTEM("<pci busid=\"3b\"/>" GPU("0000:01:00.0", "5", "")),
                     "3: <pci> busid=\"3b\": expected a PCI address such as 0000:3b:00.0; what is "
                     "below is left out");
    assert_int_equal(m->gpus[0].index.value, 5); /* the rest is read */
    machine_free(m);
    m = is_read_with(SYSTEM(GPU("0000:01:00.0", "4", "") GPU("0000:01:00.0", "1", "")),
                     "4: <pci busid=\"0000:01:00.0\"> appears twice: the second is left out");
    assert_int_equal(m->n_gpus, 1);
    machine_free(m);
    m = is_read_with(SYSTEM(GPU("0000:01:00.0", "0", "") GPU("0000:02:00.0", "0", "")),
                     "4: gpu dev=\"0\" appears twice, 0000:01:00.0 and 0000:02:00.0: the second "
                     "gets a free number");
    assert_string_equal(machine_find_gpu(m, 1)->bdf.value, "0000:02:00.0");
    machine_free(m);
    m = is_read_with(SYSTEM(GPU("0000:01:00.0", "many", "")),
                     "3: <gpu> dev=\"many\": expected a whole number from 0 to 1023; it is "
                     "unknown");
    assert_int_equal(m->n_gpus, 1);
    machine_free(m);
    m = is_read_with(
        SYSTEM(GPU("0000:01:00.0", "0",
                   "<nvlink target=\"0000:02:00.0\" count=\"65\"/>"
                   "<nvlink target=\"0000:03:00.0\" count=\"2\"/>")),
        "3: <nvlink> count=\"65\": expected a whole number from 1 to 64; these links are unknown");
    assert_int_equal(m->n_links, 2);
    assert_false(routes_links_known(m, 0));
    machine_free(m);
    is_warned(SYSTEM(GPU("0000:01:00.0", "0", "<nvlink target=\"0000:02:00.0\"/>")),
              "3: <nvlink> has no count: these links are unknown");
    m = is_read_with(
        SYSTEM(GPU("0000:01:00.0", "0",
                   "<nvlink target=\"0000:02:00.0\" count=\"60\" tclass=\"0x030200\"/>"
                   "<nvlink target=\"0000:03:00.0\" count=\"60\" tclass=\"0x030200\"/>")),
        "3: gpu 0 has more than 64 links: the rest is left out");
    assert_int_equal(m->n_links, 60);
    machine_free(m);
    is_warned(SYSTEM(GPU("0000:01:00.0", "0", "<nvlink target=\"x\" count=\"1\"/>")),
              "3: <nvlink> target=\"x\": expected a PCI address such as 0000:3b:00.0; these links "
              "are unknown");
    is_warned("<system version=\"1\">\n<cpu numaid=\"0\"/>\n<cpu numaid=\"0\"/></system>",
              "3: <cpu numaid=\"0\"> appears twice: its devices are of one NUMA node");
    m = is_read_with(SYSTEM("<pci busid=\"0000:01:00.0\" root=\"y\"/>"),
                     "3: <pci> root=\"y\": expected a root complex such as 0000:00; it is unknown");
    assert_null(m->pci[0].root.value);
    machine_free(m);
    m = is_read_with(
        SYSTEM("<nic><net name=\"a\" port=\"1\" speed=\"7\"/><net name=\"a\" port=\"1\"/></nic>"),
        "3: port 1 of a appears twice: the second is left out");
    assert_int_equal(m->n_ports, 1);
    machine_free(m);
    is_warned(SYSTEM("<nic><net name=\"\" port=\"1\"/></nic>"),
              "3: <net> name=\"\": expected the name of a NIC; this NIC is left out");
    is_warned(
        SYSTEM("<pci busid=\"0000:01:00.0\" class=\"0x020000\"><nic><net name=\"a\"/></nic></pci>"
               "<pci busid=\"0000:02:00.0\" class=\"0x020000\"><nic><net name=\"a\"/></nic></pci>"),
        "3: nic a appears twice, 0000:01:00.0 and 0000:02:00.0: the second is left out");
    is_warned(SYSTEM("<nic><net name=\"e\" port=\"0\"/><net name=\"e\" port=\"0\"/></nic>"),
              "3: interface e appears twice: the second is left out");
}

static void test_nccl_odd_cpus(void **state)
{
    is_warned(
        "<system version=\"1\">\n<cpu affinity=\"fff,\" numaid=\"0\"/></system>",
        "2: <cpu> affinity=\"fff,\": expected hexadecimal words such as 0000ffff; the CPUs are "
        "unknown");
    char commas[2200], wide[2300];
    memset(commas, ',', sizeof commas);
    for (int more = 0; more < 2; more++) { /* 2048 words of 32 CPUs are read, one more is refused */
        struct machine *m;
        snprintf(wide, sizeof wide,
                 "<system version=\"1\">\n<cpu affinity=\"%.*s\" numaid=\"0\"/></system>",
                 2047 + more, commas);
        assert_int_equal(import_any(wide, strlen(wide), "x", &m), WEFT_OK);
        assert_non_null(strstr(m->warnings, more ? "expected at most 65536 CPUs"
                                                 : "expected hexadecimal words"));
        machine_free(m);
    }
    /* Of many warnings the first ones are kept. */
    static char many[20000];
    strcpy(many, "<system version=\"1\">\n<cpu numaid=\"0\">");
    for (int i = 0; i < 100; i++)
        strcat(many, "<pci busid=\"odd\"/>");
    strcat(many, "</cpu></system>");
    struct machine *m;
    assert_int_equal(import_any(many, strlen(many), "x", &m), WEFT_OK);
    assert_non_null(strstr(m->warnings, "x: more such warnings are not printed\n"));
    assert_true(strlen(m->warnings) < 2400);
    machine_free(m);
}

/* Which links a file reports: all of a GPU that NCCL looked at, none of one by its PCI class. */
static void test_nccl_unknown_links(void **state)
{
    struct machine *m;
    static const char text[] =
        SYSTEM("<pci busid=\"0000:01:00.0\" class=\"0x030200\"><gpu dev=\"0\" sm=\"90\"/></pci>"
               "<pci busid=\"0000:02:00.0\" class=\"0x030200\"/>"
               "<pci busid=\"0000:03:00.0\" class=\"0x030200\"/>"
               "<pci busid=\"0000:04:00.0\" class=\"0x030200\">"
               "<gpu dev=\"3\" sm=\"90\" links=\"unknown\"/></pci>");
    assert_int_equal(import_any(text, strlen(text), "x", &m), WEFT_OK);
    assert_true(routes_links_known(m, 0));
    assert_false(routes_links(m, 1, 0).unknown); /* gpu0 has no link to gpu1 */
    assert_true(routes_links(m, 1, 2).unknown);
    assert_true(routes_links(m, 3, 2).unknown);
    machine_free(m);
}

/* Text that XML itself forbids, and files that are no machine. */
static void test_xml_refused(void **state)
{
    enum { TAG_BYTES = 1 << 20 };
    static char deep[20000];
    is_refused("<system version=\"1\">\n</cpu></system>", "x:2: mismatched tag");
    is_refused("<system version=\"1\" version=\"1\"/>", "x:1: duplicate attribute");
    is_refused(
        "<?xml version=\"1.0\"?>\n<!DOCTYPE system [\n<!ENTITY a \"ha\">\n"
        "<!ENTITY b \"&a;&a;&a;&a;&a;&a;\">]>\n<system version=\"&b;\"/>",
        "x:3: the file declares XML entities, which weft does not read: replace them by text");
    is_refused(
        "<?xml version=\"1.0\"?>\n<!DOCTYPE system [\n<!ENTITY a SYSTEM \"/etc/passwd\">]>\n"
        "<system version=\"&a;\"/>",
        "x:3: the file declares XML entities, which weft does not read: replace them by text");
    /* Finding A23: two million attributes took 14 s. */
    strcpy(deep, "<system version=\"1\">\n<cpu");
    for (int i = 0; i < 257; i++)
        sprintf(deep + strlen(deep), " a%d=\"\"", i);
    strcat(deep, "/></system>");
    is_refused(deep, "x:2: an element has more than 256 attributes");
    char *tag = calloc(1, TAG_BYTES + 3);
    memset(tag, ' ', TAG_BYTES);
    memcpy(tag, "<system ", 8);
    strcpy(tag + TAG_BYTES, "/>");
    is_refused(tag, "x:1: a tag is longer than 1 MiB");
    free(tag);
    strcpy(deep, "<system version=\"1\">\n");
    for (int i = 0; i < 1000; i++)
        strcat(deep, "<cpu>");
    is_refused(deep, "x:2: elements are nested more than 256 levels deep");
}

/* A truncated file is never taken for a smaller machine. */
static void test_cut(void **state)
{
    char path[512];
    static char text[20000];
    snprintf(path, sizeof path, IMPORTS "/nccl-dump.xml");
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t length = fread(text, 1, sizeof text, file);
    fclose(file);
    struct machine *m;
    for (size_t i = 0; i + 2 < length; i += 7) {
        assert_int_not_equal(import_any(text, i, "x", &m), WEFT_OK);
        assert_null(m);
    }
    const char *end = strstr(text, "</system>");
    assert_non_null(end);
    is_cut_at(text, (size_t)(end - text), 45);
}

#else

static void test_without_expat(void **state)
{
    is_refused("<system version=\"1\"/>",
               "x is XML, but this weft was built without expat: install "
               "libexpat1-dev and build again");
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smi),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_smi_forms),
        cmocka_unit_test(test_smi_coherent),
        cmocka_unit_test(test_smi_pasted),
        cmocka_unit_test(test_smi_routes),
        cmocka_unit_test(test_smi_recorded),
        cmocka_unit_test(test_smi_refused),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_addresses),
#ifdef WITH_XML
        cmocka_unit_test(test_nccl_dump),
        cmocka_unit_test(test_nccl_by_hand),
        cmocka_unit_test(test_rccl),
        cmocka_unit_test(test_nccl_no_place),
        cmocka_unit_test(test_nccl_odd),
        cmocka_unit_test(test_nccl_odd_cpus),
        cmocka_unit_test(test_nccl_unknown_links),
        cmocka_unit_test(test_nccl_refused),
        cmocka_unit_test(test_xml_refused),
        cmocka_unit_test(test_cut),
#else
        cmocka_unit_test(test_without_expat),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
