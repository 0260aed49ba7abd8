/* SPDX-License-Identifier: Apache-2.0 */
/* The facts of the code, compared with a second table that was written from the publications and
 * not from the code, so that a wrong digit in either fails. Each row names the source of the
 * figure. Line rates must be equal; reachable rates must be within 3 % of the published
 * measurement. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "machine/checks/doctor.h"
#include "machine/facts.h"
#include "machine/pci_config.h"
#include "machine/routes/routes.h"
#include "machine/routes/whatif.h"

/* --- links ------------------------------------------------------------------------------------ */

/* PCI Express Base Specification: transfers per second of each generation and its line code; from
 * generation 6 on, 242 bytes of a 256-byte flit carry packets. MB/s per lane. */
static const struct {
    int generation;
    double gigatransfers, payload, of;
} pcie[] = {
    {1, 2.5, 8, 10},   {2, 5, 8, 10},     {3, 8, 128, 130},   {4, 16, 128, 130},
    {5, 32, 128, 130}, {6, 64, 242, 256}, {7, 128, 242, 256},
};

/* The rate of a GPU's links in one direction, from its data sheet. `part` relates the rates of code
 * and publication; the driver reports NVLink 4 with 26.562 GB/s (sold as 25) and NVLink 2 with
 * 25.781. */
static const struct {
    const char *kind;
    int generation, links;
    int64_t published_mbps; /* all links, one direction */
    int64_t told_mbps;      /* one link as reported by the driver; 0: as published */
    int64_t reached_mbps;   /* measured with copies over that many links; 0: estimate */
    const char *source;
} links[] = {
    {"nvlink", 1, 4, 80000, 0, 0, "P100 white paper: 160 GB/s both ways over 4 links"},
    {"nvlink", 2, 6, 150000, 25781, 145000,
     "V100 white paper: 300 GB/s both ways; 24.2 GB/s a link in p2pBandwidthLatencyTest"},
    {"nvlink", 3, 12, 300000, 0, 275000,
     "A100 white paper: 600 GB/s both ways; NVIDIA/nccl-tests#149: 275"},
    {"nvlink", 4, 18, 450000, 26562, 395600,
     "H100 white paper: 900 GB/s both ways; 395.6 GB/s measured, 396.4 in ml-engineering"},
    {"nvlink", 5, 18, 900000, 0, 0, "Blackwell: 1.8 TB/s both ways over 18 links"},
    {"xgmi", 3, 1, 50000, 0, 0, "MI250X data sheet: 100 GB/s both ways a link"},
    {"xgmi", 4, 7, 448000, 0, 336000, "MI300X data sheet: 896 GB/s both ways; 48 GB/s a link"},
    {"c2c", 1, 10, 450000, 0, 346000,
     "Grace Hopper white paper: 900 GB/s both ways; NVIDIA/nvbandwidth#23: 346"},
};

static void test_pcie(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pcie / sizeof pcie[0]; i++) {
        const struct fact_link *f = fact_find_link("pcie", pcie[i].generation);
        assert_non_null(f);
        double mbps = pcie[i].gigatransfers * 1000 / 8 * pcie[i].payload / pcie[i].of;
        if ((double)f->line_mbps < mbps - 1 || (double)f->line_mbps > mbps + 1)
            fail_msg("PCIe %d: %lld MB/s a lane, published are %.1f", pcie[i].generation,
                     (long long)f->line_mbps, mbps);
    }
    assert_int_equal(fact_n_links, sizeof pcie / sizeof pcie[0] + sizeof links / sizeof links[0]);
    assert_null(fact_find_link("pcie", 8));
    assert_null(fact_find_link("pcie", 0));
}

static void test_links(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        const struct fact_link *f = fact_find_link(links[i].kind, links[i].generation);
        assert_non_null(f);
        int64_t line =
            links[i].told_mbps ? links[i].told_mbps : links[i].published_mbps / links[i].links;
        if (f->line_mbps != line)
            fail_msg("%s %d: %lld MB/s a link, %lld by %s", links[i].kind, links[i].generation,
                     (long long)f->line_mbps, (long long)line, links[i].source);
        /* The driver's figure is at most 7 % above the published one. */
        int64_t all = f->line_mbps * links[i].links;
        assert_in_range(all, links[i].published_mbps, links[i].published_mbps * 107 / 100);
        int64_t reached = all * f->permille / 1000;
        if (links[i].reached_mbps && (reached < links[i].reached_mbps * 97 / 100 ||
                                      reached > links[i].reached_mbps * 103 / 100))
            fail_msg("%s %d: %lld MB/s expected, %lld measured by %s", links[i].kind,
                     links[i].generation, (long long)reached, (long long)links[i].reached_mbps,
                     links[i].source);
        assert_in_range(f->permille, 700, 960); /* also for estimates */
        assert_in_range(f->latency_ns, 400, 1500);
    }
}

/* Measured copies over PCIe x16: 13 GB/s (generation 3), 26.3 GB/s (4, NVIDIA/nvbandwidth#50), 55.4
 * GB/s (5, H200). */
static void test_pcie_reached(void **state)
{
    (void)state;
    static const struct {
        int generation;
        int64_t mbps;
    } rows[] = {{3, 13000}, {4, 26300}, {5, 55400}};
    for (int i = 0; i < 3; i++) {
        const struct fact_link *f = fact_find_link("pcie", rows[i].generation);
        int64_t mbps = f->line_mbps * 16 * f->permille / 1000;
        if (mbps < rows[i].mbps * 99 / 100 || mbps > rows[i].mbps * 101 / 100)
            fail_msg("PCIe %d x16: %lld MB/s, measured %lld", rows[i].generation, (long long)mbps,
                     (long long)rows[i].mbps);
    }
}

/* --- between CPU packages --------------------------------------------------------------------- */

/* Intel ARK and AMD's processor manuals: links between two packages and their rate. QPI: 20 lanes,
 * of which 16 carry data; UPI: 20, from Sapphire Rapids on 24; one bit per lane and transfer; xGMI:
 * 16 lanes. */
static const struct {
    const char *vendor;
    int family, model;
    const char *kind;
    int links;
    double gigatransfers;
    int lanes;
    int64_t peer_mbps, of_mbps; /* measured between devices; 0: unknown */
    const char *cpu;
} sockets[] = {
    {"GenuineIntel", 6, 45, "qpi", 2, 8.0, 16, 300, 0, "Sandy Bridge-EP"},
    {"GenuineIntel", 6, 62, "qpi", 2, 9.6, 16, 300, 0, "Ivy Bridge-EP"},
    {"GenuineIntel", 6, 63, "qpi", 2, 9.6, 16, 300, 0, "Haswell-EP"},
    {"GenuineIntel", 6, 79, "qpi", 2, 9.6, 16, 300, 0, "Broadwell-EP"},
    {"GenuineIntel", 6, 85, "upi", 3, 10.4, 16, 11000, 23000, "Skylake-SP, Cascade Lake"},
    {"GenuineIntel", 6, 106, "upi", 3, 11.2, 16, 11000, 23000, "Ice Lake-SP"},
    {"GenuineIntel", 6, 143, "upi", 3, 16.0, 24, 11000, 23000, "Sapphire Rapids"},
    {"GenuineIntel", 6, 207, "upi", 3, 20.0, 24, 11000, 23000, "Emerald Rapids"},
    {"AuthenticAMD", 23, 1, "xgmi", 4, 9.375, 16, 0, 0, "Naples"},
    {"AuthenticAMD", 23, 49, "xgmi", 3, 18.0, 16, 21800, 26340, "Rome"},
    {"AuthenticAMD", 25, 1, "xgmi", 3, 18.0, 16, 21800, 26340, "Milan"},
    {"AuthenticAMD", 25, 17, "xgmi", 3, 32.0, 16, 39000, 54000, "Genoa"},
    {"AuthenticAMD", 26, 2, "xgmi", 3, 32.0, 16, 51000, 56000, "Turin"},
};

static void test_sockets(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sockets / sizeof sockets[0]; i++) {
        struct machine *m = machine_new("made");
        text_set(m, &m->system.cpu_vendor, sockets[i].vendor);
        number_set(&m->system.cpu_family, sockets[i].family);
        number_set(&m->system.cpu_model_number, sockets[i].model);
        const struct fact_socket *f = fact_find_socket(m);
        if (!f || strcmp(f->kind, sockets[i].kind) != 0)
            fail_msg("%s is not in the table, or of another kind", sockets[i].cpu);
        double mbps = sockets[i].links * sockets[i].gigatransfers * sockets[i].lanes / 8 * 1000;
        if ((double)f->mbps < mbps * 0.999 || (double)f->mbps > mbps * 1.001)
            fail_msg("%s: %lld MB/s, published are %.0f", sockets[i].cpu, (long long)f->mbps, mbps);
        if (f->peer_mbps != sockets[i].peer_mbps || f->peer_of_mbps != sockets[i].of_mbps)
            fail_msg("%s: %lld of %lld MB/s between devices, measured are %lld of %lld",
                     sockets[i].cpu, (long long)f->peer_mbps, (long long)f->peer_of_mbps,
                     (long long)sockets[i].peer_mbps, (long long)sockets[i].of_mbps);
        machine_free(m);
    }
    int rows = 0;
    for (int i = 0; i < fact_n_sockets; i++)
        rows += fact_sockets[i].model_high - fact_sockets[i].model_low > 31;
    assert_int_equal(rows, 0); /* no row covers more models than a generation has */
}

/* --- GPUs ------------------------------------------------------------------------------------- */

#define GIB ((int64_t)1 << 30)

/* Sources: data sheets; the PCI ID repository for PCI numbers; memory as the product name implies.
 * GB200: 13.4 TB in the 72 GPUs of an NVL72, 900 GB/s of C2C in both directions for two GPUs, so
 * half of Grace Hopper's ten links each. GH200: 96 GB of HBM3, or 144 GB of HBM3e. MI250X: one of
 * two dies, 128 GB and 400 GB/s in both directions between the two. */
static const struct {
    const char *word;
    int major, minor;
    int64_t memory_gib; /* sold capacity, within 8 % */
    const char *link;
    int generation, links, cpu_links, pcie, pci_device;
} gpus[] = {
    {"p100", 6, 0, 16, "nvlink", 1, 4, 0, 3, 0x15f9},
    {"v100", 7, 0, 32, "nvlink", 2, 6, 0, 3, 0x1db5},
    {"a100", 8, 0, 80, "nvlink", 3, 12, 0, 4, 0x20b2},
    {"h100", 9, 0, 80, "nvlink", 4, 18, 0, 5, 0x2330},
    {"h200", 9, 0, 141, "nvlink", 4, 18, 0, 5, 0x2335},
    {"b200", 10, 0, 180, "nvlink", 5, 18, 0, 5, 0x2901},
    {"gb200", 10, 0, 186, "nvlink", 5, 18, 5, 0, 0x2941},
    {"gh200", 9, 0, 96, "nvlink", 4, 18, 10, 0, 0x2342},
    {"l40s", 8, 9, 48, NULL, 0, 0, 0, 4, 0x26b9},
    {"a10g", 8, 6, 24, NULL, 0, 0, 0, 4, 0x2237},
    {"geforce", 8, 9, 24, NULL, 0, 0, 0, 4, 0x2684},
    {"mi300x", 9, 4, 192, "xgmi", 4, 7, 0, 5, 0x74a1},
    {"mi250x", 9, 0, 64, "xgmi", 3, 4, 0, 4, 0x740c},
};

static const struct fact_gpu *find_gpu(const char *word)
{
    for (int i = 0; i < fact_n_gpus; i++)
        if (strcmp(fact_gpus[i].word, word) == 0)
            return &fact_gpus[i];
    return NULL;
}

static void test_gpus(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof gpus / sizeof gpus[0]; i++) {
        const struct fact_gpu *f = find_gpu(gpus[i].word);
        assert_non_null(f);
        if (f->cc_major != gpus[i].major || f->cc_minor != gpus[i].minor ||
            f->link_generation != gpus[i].generation || f->links != gpus[i].links ||
            f->cpu_links != gpus[i].cpu_links || f->pcie_generation != gpus[i].pcie ||
            f->pci_device != gpus[i].pci_device ||
            (f->link_kind ? !gpus[i].link || strcmp(f->link_kind, gpus[i].link) != 0
                          : gpus[i].link != NULL))
            fail_msg("%s: %d.%d, %d links of %s %d, PCIe %d, 0x%04x", f->word, f->cc_major,
                     f->cc_minor, f->links, f->link_kind ? f->link_kind : "none",
                     f->link_generation, f->pcie_generation, (unsigned)f->pci_device);
        assert_in_range(f->memory_bytes, gpus[i].memory_gib * GIB * 92 / 100,
                        gpus[i].memory_gib * GIB * 108 / 100);
        /* BAR1 is the memory size, rounded up to a power of two. */
        assert_int_equal(f->bar1_bytes & (f->bar1_bytes - 1), 0);
        assert_in_range(f->bar1_bytes, f->memory_bytes, 2 * f->memory_bytes);
    }
    assert_int_equal(fact_n_gpus, sizeof gpus / sizeof gpus[0]); /* a new GPU needs a row here */
}

/* --- Arm CPUs --------------------------------------------------------------------------------- */

/* Sources: the MIDR_EL1 tables of the Technical Reference Manuals (Neoverse N1: 0x410fd0c0 and so
 * on), AmpereOne's and A64FX's manuals; the id of the chip as Linux 6.x prints it on Grace. */
static void test_arm(void **state)
{
    (void)state;
    static const struct {
        unsigned midr; /* implementer << 24 | part << 4 */
        const char *chip, *vendor, *model;
    } rows[] = {
        {0x41 << 24 | 0xd0c << 4, "", "ARM", "Neoverse-N1"},
        {0x41 << 24 | 0xd40 << 4, NULL, "ARM", "Neoverse-V1"},
        {0x41 << 24 | 0xd49 << 4, "", "ARM", "Neoverse-N2"},
        {0x41 << 24 | 0xd4f << 4, "jep106:0a1b:0241", "ARM", "Neoverse-V2"},
        {0x41 << 24 | 0xd4f << 4, "jep106:036b:0241", "NVIDIA", "Grace, Neoverse-V2"},
        {0x41 << 24 | 0xd84 << 4, "", "ARM", "Neoverse-V3"},
        {0x41 << 24 | 0xd8e << 4, "", "ARM", "Neoverse-N3"},
        {0x46 << 24 | 0x001 << 4, "", "FUJITSU", "A64FX"},
        {0x48 << 24 | 0xd01 << 4, "", "HiSilicon", "TaiShan-v110"},
        {0x4e << 24 | 0x010 << 4, "", "NVIDIA", "Olympus"},
        {0xc0u << 24 | 0xac3 << 4, "", "Ampere", "Ampere-1"},
        {0xc0u << 24 | 0xac4 << 4, "", "Ampere", "Ampere-1a"},
        {0x41 << 24 | 0xac3 << 4, "", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct machine *m = machine_new("made");
        fact_name_arm(m, rows[i].midr >> 24, rows[i].midr >> 4 & 0xfff, rows[i].chip);
        if (rows[i].model ? !text_is(m->system.cpu_model, rows[i].model) ||
                                !text_is(m->system.cpu_vendor, rows[i].vendor)
                          : m->system.cpu_model.value != NULL)
            fail_msg("row %zu: %s, %s", i, m->system.cpu_vendor.value, m->system.cpu_model.value);
        if (!rows[i].model)
            assert_string_equal(m->system.cpu_model.why, "the table of facts has no name for part "
                                                         "0xac3 of implementer 0x41");
        assert_true(text_is(m->system.arch, "aarch64"));
        machine_free(m);
    }
}

/* --- transfer routes -------------------------------------------------------------------------- */

/* The published measurements from which these fractions come. */
static void test_parts(void **state)
{
    (void)state;
    static const struct {
        int permille;
        double some, of;
        const char *source;
    } rows[] = {
        {FACT_STAGED_PERMILLE, 37, 55.2, "NVIDIA/nccl#1264, P2P disabled"},
        {FACT_SOCKET_PERMILLE, 39, 54, "voipmonitor/rtx6kpro, two EPYC 9374F"},
        {FACT_REDIRECT_PERMILLE, 5, 6, "NVIDIA/nccl, INTEL_P2P_OVERHEAD"},
        {FACT_REDIRECT_NIC_PERMILLE, 27, 48, "NVIDIA/nccl#949"},
        {FACT_IOMMU_PERMILLE, 76, 96, "NVIDIA/nccl-tests#156"},
        {FACT_NIC_PERMILLE, 47.5, 50, "deepseek-ai/DeepEP#155: 47 to 48.5"},
        {FACT_NIC_STAGED_PERMILLE, 15, 47, "kvcache-ai/Mooncake#1459"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double part = rows[i].some / rows[i].of * 1000;
        if (rows[i].permille < part - 5 || rows[i].permille > part + 5)
            fail_msg("%d permille, %.0f by %s", rows[i].permille, part, rows[i].source);
    }
    /* Measured on H200: flag from CPU to GPU and back 2.3 to 2.6 us, copy of 8 bytes 5.5 us. */
    assert_in_range(FACT_HOST_LATENCY_NS, 1150, 1300);
    assert_in_range(FACT_STAGED_LATENCY_NS, 2 * 4500, 2 * 5500);
    /* Vendors of PCIe switches: 100 to 170 ns. */
    assert_in_range(FACT_SWITCH_LATENCY_NS, 100, 170);
    /* GPUs of a virtual machine: 1.4 us (cloud-hypervisor#6235), of which PCIe and switches take
     * 1.0 us. */
    assert_in_range(FACT_IOMMU_LATENCY_NS, 300, 500);
    assert_in_range(FACT_REDIRECT_LATENCY_NS, 2 * FACT_SWITCH_LATENCY_NS, 600);
    assert_in_range(FACT_SOCKET_LATENCY_NS, 300, 900);
    assert_in_range(FACT_NIC_LATENCY_NS, 1000, 2000);
    assert_in_range(FACT_RELAY_LATENCY_NS, 500, 2000);
    assert_in_range(FACT_DISK_PERMILLE, 850, 950);
}

/* --- bits ------------------------------------------------------------------------------------- */

/* PCI Express Base Specification, 7.7.11.3, ACS control register. */
static void test_acs_bits(void **state)
{
    (void)state;
    assert_int_equal(ACS_SV, 1 << 0); /* source validation */
    assert_int_equal(ACS_RR, 1 << 2); /* request redirect */
    assert_int_equal(ACS_CR, 1 << 3); /* completion redirect */
    assert_int_equal(ACS_UF, 1 << 4); /* upstream forwarding */
    assert_int_equal(ACS_EC, 1 << 5); /* egress control */
}

/* A port laid out by hand from the specification: PCI Express capability (7.5.3) of a downstream
 * port, link at 16 GT/s x8 of 32 GT/s x16, ACS (7.7.11) with redirection, and the P2P approval
 * capability of clique 3. */
static void test_config_bits(void **state)
{
    (void)state;
    uint8_t b[4096] = {0xde, 0x10};
    struct pci_config c;
    b[0x06] = 1 << 4; /* status: capabilities list */
    b[0x34] = 0x60;
    b[0x60] = 0x10; /* PCI Express, next at 0x40 */
    b[0x61] = 0x40;
    b[0x62] = 6 << 4 | 2; /* downstream port of a switch, version 2 */
    b[0x6c] = 0x05;       /* link capabilities: speed 5, width 16 = 0x100 */
    b[0x6d] = 0x01;
    b[0x72] = 0x84; /* link status: speed 4, width 8 */
    b[0x40] = 0x09; /* vendor-specific, of 8 bytes */
    b[0x42] = 8;
    memcpy(&b[0x43], "P2P", 3);
    b[0x46] = 3 << 3; /* clique 3, version 0 */
    b[0x100] = 0x0d;  /* ACS */
    b[0x102] = 0x01;
    b[0x106] = 0x0c; /* request and completion redirect */
    pci_config_read(b, sizeof b, &c);
    assert_true(number_is(c.port_type, 6));
    assert_true(number_is(c.gen_max, 5));
    assert_true(number_is(c.width_max, 16));
    assert_true(number_is(c.gen, 4));
    assert_true(number_is(c.width, 8));
    assert_true(number_is(c.acs, 1));
    assert_true(number_is(c.acs_control, ACS_RR | ACS_CR));
    assert_true(number_is(c.p2p_clique, 3));
}

/* --- thresholds ------------------------------------------------------------------------------- */

/* Values on both sides of each threshold. NVML clock event reasons: 0x8 hardware slowdown, 0x20
 * software thermal, 0x40 hardware thermal and 0x80 power brake are faults; 0x1 idle, 0x2 set
 * clocks, 0x4 power cap, 0x10 sync boost and 0x100 display are none. RoCE needs an MTU of 4200 for
 * packets of 4096 bytes. The driver's table needs the shareable memory of CUDA 11.2. */
static void test_thresholds(void **state)
{
    (void)state;
    static const struct {
        const char *change;
        enum reason reason;
        bool told;
    } rows[] = {
        {"set gpus[0].clock_reasons 1", REASON_GPU_CLOCKS, false},
        {"set gpus[0].clock_reasons 2", REASON_GPU_CLOCKS, false},
        {"set gpus[0].clock_reasons 4", REASON_GPU_CLOCKS, false},
        {"set gpus[0].clock_reasons 8", REASON_GPU_CLOCKS, true},
        {"set gpus[0].clock_reasons 16", REASON_GPU_CLOCKS, false},
        {"set gpus[0].clock_reasons 32", REASON_GPU_CLOCKS, true},
        {"set gpus[0].clock_reasons 64", REASON_GPU_CLOCKS, true},
        {"set gpus[0].clock_reasons 128", REASON_GPU_CLOCKS, true},
        {"set gpus[0].clock_reasons 256", REASON_GPU_CLOCKS, false},
        {"set ports[0].layer roce; set ports[0].roce v2; set ports[0].mtu 4199", REASON_ROCE_MTU,
         true},
        {"set ports[0].layer roce; set ports[0].roce v2; set ports[0].mtu 4200", REASON_ROCE_MTU,
         false},
        {"set limits.cap_ipc_lock no; set limits.memlock_bytes 67108863", REASON_LIMIT_MEMLOCK,
         true},
        {"set limits.cap_ipc_lock no; set limits.memlock_bytes 67108864", REASON_LIMIT_MEMLOCK,
         false},
        {"set limits.open_files 4095", REASON_LIMIT_FILES, true},
        {"set limits.open_files 4096", REASON_LIMIT_FILES, false},
        {"set limits.shm_bytes 1073741823", REASON_LIMIT_SHM, true},
        {"set limits.shm_bytes 1073741824", REASON_LIMIT_SHM, false},
        {"set drivers.cuda 11010", REASON_DRV_OLD, true},
        {"set drivers.cuda 11020", REASON_DRV_OLD, false},
        {"set gpus[0].pcie_replays 101", REASON_PCIE_REPLAYS, true},
        {"set gpus[0].pcie_replays 100", REASON_PCIE_REPLAYS, false},
        {"set links[0].mbps 23749", REASON_NVLINK_SPEED, true}, /* 95 % of 25 GB/s */
        {"set links[0].mbps 23750", REASON_NVLINK_SPEED, false},
    };
    struct machine *unchanged;
    assert_int_equal(machine_load(MACHINES "/dgx-a100.json", &unchanged), WEFT_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        static struct diagnosis d;
        struct machine *m = machine_copy(unchanged);
        if (whatif_apply(m, rows[i].change))
            fail_msg("%s: %s", rows[i].change, weft_last_error());
        doctor_examine(m, &d);
        if (findings_have(&d.findings, rows[i].reason) != rows[i].told)
            fail_msg("%s: %s", rows[i].change, rows[i].told ? "not told" : "told");
        findings_free(&d.findings);
        machine_free(m);
    }
    machine_free(unchanged);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pcie),         cmocka_unit_test(test_links),
        cmocka_unit_test(test_pcie_reached), cmocka_unit_test(test_sockets),
        cmocka_unit_test(test_gpus),         cmocka_unit_test(test_arm),
        cmocka_unit_test(test_parts),        cmocka_unit_test(test_acs_bits),
        cmocka_unit_test(test_config_bits),  cmocka_unit_test(test_thresholds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
