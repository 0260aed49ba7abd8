/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the GPUs of this machine from one process, through the CUDA driver: peer access, the
 * proof by resident kernels, copies, the latency of a flag. Knows GPUs by their PCI address, and
 * nothing of the machine's model, of links and of what to expect. Every kernel ends by itself. */
#ifndef WEFT_TOOL_GPU_PROBE_H
#define WEFT_TOOL_GPU_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include <weft.h>

struct probe_gpus;

enum { PROBE_GPUS_MOST = 64, PROBE_EVIDENCE = 256 };

/* Loads the driver; opens no GPU yet. `addresses` ("0000:0d:00.0", NULL: not known) must outlive
 * it. WEFT_ERR_UNSUPPORTED: no CUDA driver. */
weft_status probe_gpus_open(struct probe_gpus **gpus, const char *const *addresses, int n);
void probe_gpus_close(struct probe_gpus *gpus);

/* Makes the contexts of all of them at once, which takes the longest. What fails is told by the
 * first use of that GPU. */
void probe_gpus_warm(struct probe_gpus *gpus);

enum probe_proof_found { FOUND_PROVEN, FOUND_FAILED, FOUND_REFUSED, FOUND_NOT_OFFERED };

/* Of an unordered pair; [0] is a to b, [1] b to a. */
struct probe_pair {
    enum probe_proof_found proof;
    char evidence[PROBE_EVIDENCE]; /* of the proof, or how the driver refused */
    int64_t write_mbps[2];         /* copies that the source's GPU makes; 0 = not measured */
    int64_t read_mbps[2];          /* [0]: a's copies from b */
    int64_t both_mbps;             /* both directions at once, together */
    int64_t latency_ns;            /* half of the way there and back */
};

/* Proves, and without a fault measures, the pair. `brief` moves less. A status other than WEFT_OK:
 * a call of the driver failed, by name. Peer access is undone. */
weft_status probe_gpus_pair(struct probe_gpus *gpus, int a, int b, bool brief,
                            struct probe_pair *pair);

/* Only the copies of a pair that was proven before, for those who count errors meanwhile. */
weft_status probe_gpus_load(struct probe_gpus *gpus, int a, int b, bool brief);

/* Copies between a GPU and pinned host memory, and whether the CPU can map the GPU's memory. */
struct probe_host {
    int64_t to_host_mbps, to_gpu_mbps;
    enum probe_proof_found mapping;
    char evidence[PROBE_EVIDENCE]; /* of the mapping */
};
weft_status probe_gpus_host(struct probe_gpus *gpus, int gpu, bool brief, struct probe_host *host);

#endif
