/* SPDX-License-Identifier: Apache-2.0 */
/* Tests and measures the GPUs of this machine from one process, through the CUDA driver: peer
 * access and its test by resident kernels, copies, the latency of a flag. Identifies GPUs by PCI
 * address; does not use the machine model or expected values. Every kernel ends by itself. */
#ifndef WEFT_TOOL_GPU_PROBE_H
#define WEFT_TOOL_GPU_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include <weft.h>

struct probe_gpus;

enum { PROBE_GPUS_MOST = 64, PROBE_EVIDENCE = 256 };

/* Starts the CUDA driver in a thread, which takes 0.1 s: the caller reads the machine meanwhile.
 * probe_gpus_open() waits for it; a caller that opens nothing calls probe_gpus_wait(). */
void probe_gpus_prepare(void);
void probe_gpus_wait(void);

/* Loads the driver; opens no GPU yet. `addresses` ("0000:0d:00.0", NULL: unknown) must outlive the
 * result. WEFT_ERR_UNSUPPORTED: no CUDA driver. */
weft_status probe_gpus_open(struct probe_gpus **gpus, const char *const *addresses, int n);
void probe_gpus_close(struct probe_gpus *gpus);

/* Creates the contexts of all GPUs in parallel, which takes the longest. The first use of a GPU
 * returns an error of its context. */
void probe_gpus_warm(struct probe_gpus *gpus);

enum probe_proof_found { FOUND_PROVEN, FOUND_FAILED, FOUND_REFUSED, FOUND_NOT_OFFERED };

/* Results of an unordered pair; index [0] is a to b, [1] is b to a. */
struct probe_pair {
    enum probe_proof_found proof;  /* result of the peer access test */
    char evidence[PROBE_EVIDENCE]; /* what the test observed, or how the driver refused */
    int64_t write_mbps[2];         /* copies by the source GPU, MB/s; 0 = not measured */
    int64_t read_mbps[2];          /* copies by the destination GPU, MB/s; [0]: a reads from b */
    int64_t both_mbps;             /* sum of both directions at the same time, MB/s */
    int64_t latency_ns;            /* half of a round trip */
};

/* Tests the pair, and measures it when the test passes. `brief`: smaller copies. A status other
 * than WEFT_OK: a driver call failed; the message names it. Disables peer access at the end. */
weft_status probe_gpus_pair(struct probe_gpus *gpus, int a, int b, bool brief,
                            struct probe_pair *pair);

/* Runs only the copies of a tested pair, to put load on its links while errors are counted. */
weft_status probe_gpus_load(struct probe_gpus *gpus, int a, int b, bool brief);

/* Results of a GPU and the host. */
struct probe_host {
    int64_t to_host_mbps, to_gpu_mbps; /* copies to and from pinned host memory, MB/s */
    enum probe_proof_found mapping;    /* result of the CPU mapping test */
    char evidence[PROBE_EVIDENCE];     /* what the mapping test observed */
};
weft_status probe_gpus_host(struct probe_gpus *gpus, int gpu, bool brief, struct probe_host *host);

#endif
