/* SPDX-License-Identifier: Apache-2.0 */
/* Interface to a probe that measures pairs of GPUs, and pairs of a GPU and the host. This module
 * does not measure: the caller passes a probe (cli/probe.c), and its results become facts of the
 * model (machine.measured). Without a probe these facts stay "not measured". */
#ifndef WEFT_MACHINE_PROBE_H
#define WEFT_MACHINE_PROBE_H

#include "machine/machine.h"

enum probe_proof {
    PROBE_NOT_RUN = -1, /* no test: the driver does not offer peer access */
    PROBE_FAILED = 0,   /* data arrived corrupted, or did not arrive within the time limit */
    /* Passed. Two GPUs: resident kernels on both exchanged data, flags and atomics. A GPU and the
     * host: the CPU, through a mapping, and the GPU exchanged data. */
    PROBE_PROVEN = 1,
    PROBE_REFUSED = 2, /* the driver refused the mapping, or peer access that its table offers */
};

struct probe_result {
    enum probe_proof proven; /* result of the test */
    char evidence[256];      /* what the test observed, as a sentence */
    int64_t write_mbps;      /* a writes into b's memory, MB/s; 0 = not measured */
    int64_t read_mbps;       /* a reads from b's memory, MB/s; 0 = not measured */
    int64_t both_mbps;       /* sum of both directions at the same time, MB/s; 0 = not measured */
    int64_t latency_ns;      /* one-way latency of 8 bytes; 0 = not measured */
    int pcie_gen;           /* PCIe generation of the GPU's link right after copies; 0 = not read */
    int64_t errors_grown;   /* link errors during the transfers; -1 = not counted */
    char errors_where[160]; /* the links with errors, as text */
};

struct machine_probe {
    /* Tests and measures one pair. `a` and `b` are endpoint names ("gpu0", "mlx5_0", "host"). With
     * `quick`: a shorter test and smaller transfers. A status other than WEFT_OK: the pair could
     * not be measured at all. */
    weft_status (*pair)(void *context, const char *a, const char *b, bool quick,
                        struct probe_result *result);
    void *context;
};

/* Probes every ordered pair of GPUs and each GPU with the host, and records the results in
 * machine->measured. Calls `progress` (may be NULL) with "gpu0 gpu1" before each pair. Returns the
 * first error, after all pairs. */
weft_status machine_measure(struct machine *machine, const struct machine_probe *probe, bool quick,
                            void (*progress)(const char *pair));

/* Probes one pair. */
weft_status machine_measure_pair(struct machine *machine, const struct machine_probe *probe,
                                 const char *a, const char *b, bool quick);

#endif
