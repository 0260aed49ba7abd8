/* SPDX-License-Identifier: Apache-2.0 */
/* Where measured results of pairs of GPUs, and of a GPU and the host, come from. This room does not
 * measure them: a probe that can (cli/probe.c) is passed in, and its results become facts of the
 * model (machine.measured), as recorded ones are. Without a probe they stay "not measured". */
#ifndef WEFT_MACHINE_PROBE_H
#define WEFT_MACHINE_PROBE_H

#include "machine/machine.h"

enum probe_proof {
    PROBE_NOT_RUN = -1, /* the driver does not offer peer access */
    PROBE_FAILED = 0,   /* what came back was wrong, or nothing came within the limit */
    PROBE_PROVEN = 1,  /* resident kernels on both ends exchanged data, flags and atomics; between a
                        * GPU and the  host, the CPU through a mapping and the GPU exchanged data */
    PROBE_REFUSED = 2, /* the driver refused the peer access that it offers, or the mapping */
};

struct probe_result {
    enum probe_proof proven;
    char evidence[256];     /* what was seen, in words */
    int64_t write_mbps;     /* a writes into b's memory; 0 = not measured */
    int64_t read_mbps;      /* a reads from b's memory; 0 = not measured */
    int64_t both_mbps;      /* both directions at once, together; 0 = not measured */
    int64_t latency_ns;     /* one way, 8 bytes; 0 = not measured */
    int pcie_gen;           /* of the GPU's link, right behind the copies; 0 = not read */
    int64_t errors_grown;   /* link errors counted meanwhile; -1 = not counted */
    char errors_where[160]; /* on which links */
};

struct machine_probe {
    /* Names are those of endpoints ("gpu0", "mlx5_0", "host"). With `quick`, prove and move
     * little. A status other than WEFT_OK means the pair could not be measured at all. */
    weft_status (*pair)(void *context, const char *a, const char *b, bool quick,
                        struct probe_result *result);
    void *context;
};

/* Runs the probe over every ordered pair of GPUs, and of each GPU with the host, into
 * machine->measured. `progress` (may be NULL) is called with "gpu0 gpu1" before each. */
weft_status machine_measure(struct machine *machine, const struct machine_probe *probe, bool quick,
                            void (*progress)(const char *pair));

/* The same for one pair. */
weft_status machine_measure_pair(struct machine *machine, const struct machine_probe *probe,
                                 const char *a, const char *b, bool quick);

#endif
