/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of hardware generations. See facts.h. */
#include "machine/facts.h"

#include <inttypes.h>
#include <string.h>

const struct fact_link fact_links[] = {
    {"nvlink", 1, 20000, 910, 700,
     "line: P100 white paper (20 GB/s a direction and link); part "
     "reached: estimate"},
    {"nvlink", 2, 25781, 938, 700,
     "line: as NVML reports it on V100; 24.2 GB/s a link reached in "
     "vendor's p2pBandwidthLatencyTest runs on DGX-1V"},
    {"nvlink", 3, 25000, 915, 650,
     "line: A100 white paper; 275 of 300 GB/s reached by copy engines "
     "(NVIDIA/nccl-tests#100, #149)"},
    {"nvlink", 4, 26562, 828, 630,
     "line: as NVML reports it on H200; 395.6 GB/s over 18 links and "
     "1.26 us round trip of a flag, measured"},
    {"nvlink", 5, 50000, 860, 630, "line: Blackwell white paper; part reached: estimate"},
    {"xgmi", 3, 50000, 750, 900, "MI200: 50 GB/s a direction and link; part reached: estimate"},
    {"xgmi", 4, 64000, 750, 900,
     "MI300X data sheet: 64 GB/s a direction and link, 48 GB/s reached "
     "(AMD ROCm documentation)"},
    {"c2c", 1, 45000, 769, 700,
     "line: Grace Hopper white paper (900 GB/s both ways, 10 links); 346 of 450 GB/s "
     "(NVIDIA/nvbandwidth#23); latency: estimate"},
    {"pcie", 1, 250, 800, 1300, "PCI Express Base Specification; 8b/10b; part reached: estimate"},
    {"pcie", 2, 500, 800, 1200, "PCI Express Base Specification; 8b/10b; part reached: estimate"},
    {"pcie", 3, 985, 830, 1100, "PCI Express Base Specification; 128b/130b; 13 of 15.75 GB/s"},
    {"pcie", 4, 1969, 835, 1000,
     "PCI Express Base Specification; 26.3 of 31.5 GB/s "
     "(NVIDIA/nvbandwidth#50)"},
    {"pcie", 5, 3938, 879, 900,
     "PCI Express Base Specification; 55.4 of 63 GB/s, measured on H200"},
    {"pcie", 6, 7563, 879, 900,
     "PCI Express Base Specification, 242 of 256 bytes a flit; part "
     "reached: as generation 5"},
    {"pcie", 7, 15125, 879, 900, "PCI Express 7.0, twice generation 6; part reached: estimate"},
};
const int fact_n_links = sizeof fact_links / sizeof fact_links[0];

/* Measured peer-to-peer rates across the interconnect: QPI from studies of that time, UPI between a
 * GPU and a NIC at distance SYS, AMD between two GPUs. */
#define QPI_PEER                                                                                   \
    300, 0, "below 300 MB/s between the sockets of Sandy and Ivy Bridge (Potluri et al., ICPP 2013)"
#define UPI_PEER                                                                                   \
    11000, 23000, "11.0 of 23 GB/s, A30 and NIC at distance SYS (linux-rdma/perftest#241)"
#define ROME_PEER  21800, 26340, "21.8 of 26.3 GB/s, RTX A6000, PCIe 4 (NVIDIA/nvbandwidth#50)"
#define GENOA_PEER 39000, 54000, "39 of 54 GB/s, two EPYC 9374F, PCIe 5 (voipmonitor/rtx6kpro)"
#define TURIN_PEER 51000, 56000, "51 of 56 GB/s, two EPYC 9005, PCIe 5 (voipmonitor/rtx6kpro)"

const struct fact_socket fact_sockets[] = {
    {"GenuineIntel", 6, 45, 45, "qpi", 32000, "2 QPI links of 8 GT/s", QPI_PEER},
    {"GenuineIntel", 6, 62, 63, "qpi", 38400, "2 QPI links of 9.6 GT/s", QPI_PEER},
    {"GenuineIntel", 6, 79, 79, "qpi", 38400, "2 QPI links of 9.6 GT/s", QPI_PEER},
    {"GenuineIntel", 6, 85, 85, "upi", 62400, "3 UPI links of 10.4 GT/s", UPI_PEER},
    {"GenuineIntel", 6, 106, 106, "upi", 67200, "3 UPI links of 11.2 GT/s", UPI_PEER},
    {"GenuineIntel", 6, 143, 143, "upi", 144000, "3 UPI links of 16 GT/s, 24 lanes", UPI_PEER},
    {"GenuineIntel", 6, 207, 207, "upi", 180000, "3 UPI links of 20 GT/s, 24 lanes", UPI_PEER},
    {"AuthenticAMD", 23, 1, 1, "xgmi", 75000, "4 links of 9.4 GT/s, 16 lanes", 0, 0, NULL},
    {"AuthenticAMD", 23, 49, 49, "xgmi", 108000, "3 links of 18 GT/s, 16 lanes", ROME_PEER},
    {"AuthenticAMD", 25, 0, 15, "xgmi", 108000, "3 links of 18 GT/s, 16 lanes", ROME_PEER},
    {"AuthenticAMD", 25, 16, 31, "xgmi", 192000, "3 links of 32 GT/s, 16 lanes", GENOA_PEER},
    {"AuthenticAMD", 26, 0, 31, "xgmi", 192000, "3 links of 32 GT/s, 16 lanes", TURIN_PEER},
};
const int fact_n_sockets = sizeof fact_sockets / sizeof fact_sockets[0];

#define GIB(n) ((int64_t)(n) << 30)

const struct fact_gpu fact_gpus[] = {
    {"p100", "Tesla P100-SXM2-16GB", "nvidia", 6, 0, GIB(16), GIB(16), "nvlink", 1, 4, 0, 3, 0x15f9,
     "P100 white paper"},
    {"v100", "Tesla V100-SXM2-32GB", "nvidia", 7, 0, GIB(32), GIB(32), "nvlink", 2, 6, 0, 3, 0x1db5,
     "V100 white paper"},
    {"a100", "NVIDIA A100-SXM4-80GB", "nvidia", 8, 0, GIB(80), GIB(128), "nvlink", 3, 12, 0, 4,
     0x20b2, "A100 white paper"},
    {"h100", "NVIDIA H100 80GB HBM3", "nvidia", 9, 0, GIB(80), GIB(128), "nvlink", 4, 18, 0, 5,
     0x2330, "H100 white paper"},
    {"h200", "NVIDIA H200", "nvidia", 9, 0, 150754820096, GIB(256), "nvlink", 4, 18, 0, 5, 0x2335,
     "H200 data sheet; memory as NVML reports it"},
    {"b200", "NVIDIA B200", "nvidia", 10, 0, GIB(180), GIB(256), "nvlink", 5, 18, 0, 5, 0x2901,
     "Blackwell data sheet"},
    {"gb200", "NVIDIA GB200", "nvidia", 10, 0, GIB(186), GIB(256), "nvlink", 5, 18, 5, 0, 0x2941,
     "GB200 NVL72 data sheet: 13.4 TB in 72 GPUs, 900 GB/s of C2C in both directions for two "
     "GPUs; five "
     "links each, as NCCL reads them (NVIDIA/nccl topology dumps of this generation); PCI ID "
     "database"},
    {"gh200", "NVIDIA GH200", "nvidia", 9, 0, GIB(96), GIB(128), "nvlink", 4, 18, 10, 0, 0x2342,
     "Grace Hopper white paper: 96 GB of HBM3, 900 GB/s of C2C in both directions; PCI ID "
     "database"},
    {"l40s", "NVIDIA L40S", "nvidia", 8, 9, GIB(48), GIB(64), NULL, 0, 0, 0, 4, 0x26b9,
     "L40S data sheet: no NVLink; PCI ID database"},
    {"a10g", "NVIDIA A10G", "nvidia", 8, 6, GIB(24), GIB(32), NULL, 0, 0, 0, 4, 0x2237,
     "Amazon EC2 G5 instances; A10 data sheet: PCIe 4 x16, no NVLink; PCI ID database"},
    {"geforce", "NVIDIA GeForce RTX 4090", "nvidia", 8, 9, GIB(24), GIB(32), NULL, 0, 0, 0, 4,
     0x2684, "GeForce data sheet"},
    {"mi300x", "AMD Instinct MI300X", "amd", 9, 4, GIB(192), GIB(256), "xgmi", 4, 7, 0, 5, 0x74a1,
     "MI300X data sheet"},
    {"mi250x", "AMD Instinct MI250X", "amd", 9, 0, GIB(64), GIB(64), "xgmi", 3, 4, 0, 4, 0x740c,
     "one of two dies of a module: 64 GB each, PCI 1002:740c (instinct.docs.amd.com, MI250 "
     "acceptance); "
     "four links of 50 GB/s between the two (CDNA 2 white paper: 400 GB/s in both directions)"},
};
const int fact_n_gpus = sizeof fact_gpus / sizeof fact_gpus[0];

const struct fact_link *fact_find_link(const char *kind, int64_t generation)
{
    for (int i = 0; i < fact_n_links; i++)
        if (fact_links[i].generation == generation && strcmp(fact_links[i].kind, kind) == 0)
            return &fact_links[i];
    return NULL;
}

const struct fact_socket *fact_find_socket(const struct machine *machine)
{
    const struct machine_system *s = &machine->system;
    for (int i = 0; i < fact_n_sockets; i++) {
        const struct fact_socket *f = &fact_sockets[i];
        if (text_is(s->cpu_vendor, f->vendor) && number_is(s->cpu_family, f->family) &&
            number_or(s->cpu_model_number, -1) >= f->model_low &&
            number_or(s->cpu_model_number, -1) <= f->model_high)
            return f;
    }
    return NULL;
}

void fact_fill_socket_link(struct machine *machine)
{
    struct machine_system *s = &machine->system;
    const struct fact_socket *f = fact_find_socket(machine);
    if (s->socket_link.value)
        return;
    if (machine->n_packages == 1) {
        text_set(machine, &s->socket_link, "none");
    } else if (f) {
        text_set(machine, &s->socket_link, f->kind);
        number_set(&s->socket_link_mbps, f->mbps);
    } else {
        const char *why = "this CPU model is not in the table of facts";
        text_unknown(machine, &s->socket_link, "%s", why);
        number_unknown(machine, &s->socket_link_mbps, "%s", why);
    }
}

/* Numbers: arch/arm64/include/asm/cputype.h of Linux; names: lscpu of util-linux. */
static const struct {
    int implementer, part;
    const char *vendor, *model;
} fact_arm_cpus[] = {
    {0x41, 0xd0c, "ARM", "Neoverse-N1"},  {0x41, 0xd40, "ARM", "Neoverse-V1"},
    {0x41, 0xd49, "ARM", "Neoverse-N2"},  {0x41, 0xd4f, "ARM", "Neoverse-V2"},
    {0x41, 0xd84, "ARM", "Neoverse-V3"},  {0x41, 0xd8e, "ARM", "Neoverse-N3"},
    {0x46, 0x001, "FUJITSU", "A64FX"},    {0x48, 0xd01, "HiSilicon", "TaiShan-v110"},
    {0x4e, 0x010, "NVIDIA", "Olympus"},   {0xc0, 0xac3, "Ampere", "Ampere-1"},
    {0xc0, 0xac4, "Ampere", "Ampere-1a"},
};

/* JEP-106 code of NVIDIA, and T241 (Linux: SOC_ID_SMCCC_T241). CPUs of several vendors have cores
 * of type Neoverse V2, so only the chip shows a Grace. */
#define GRACE_CHIP "jep106:036b:0241"

void fact_name_arm(struct machine *machine, int64_t implementer, int64_t part, const char *chip)
{
    struct machine_system *s = &machine->system;
    if (!s->arch.value)
        text_set(machine, &s->arch, "aarch64");
    for (size_t i = 0; i < sizeof fact_arm_cpus / sizeof fact_arm_cpus[0]; i++)
        if (fact_arm_cpus[i].implementer == implementer && fact_arm_cpus[i].part == part) {
            text_set(machine, &s->cpu_vendor, fact_arm_cpus[i].vendor);
            text_set(machine, &s->cpu_model, fact_arm_cpus[i].model);
        }
    if (chip && strcmp(chip, GRACE_CHIP) == 0) {
        text_set(machine, &s->cpu_vendor, "NVIDIA");
        text_set(machine, &s->cpu_model, "Grace, Neoverse-V2");
    }
    if (!s->cpu_model.value)
        text_unknown(machine, &s->cpu_model,
                     "the table of facts has no name for part 0x%" PRIx64
                     " of implementer 0x%" PRIx64,
                     part, implementer);
}
