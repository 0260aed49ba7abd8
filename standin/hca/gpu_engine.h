/* SPDX-License-Identifier: Apache-2.0 */
/* The engine on a GPU: send queues that lie in GPU memory are carried out there (gpu_kernel.h), in
 * slices of a kernel that one thread launches. What the kernel leaves goes, with its queue, to the
 * engine on the CPU, which reaches the queue through the driver, and comes back when that has done
 * all of it. */
#ifndef WEFT_HCA_GPU_ENGINE_H
#define WEFT_HCA_GPU_ENGINE_H

#include "gpu_queue.h"
#include "hca.h"

struct gpu_driver;

/* gpu_engine_start: for queues in memory of that GPU; once. False: why not is in the error log. */
bool gpu_engine_start(struct device *d, int gpu);
/* gpu_engine_open: the engine's GPU may use this memory of a GPU. */
bool gpu_engine_map(struct device *d, uint64_t memory, uint64_t bytes);
void gpu_engine_stop(struct device *d); /* before anything of the device goes */

/* Called without the lock. gpu_engine_pin: the GPU may read the doorbell. gpu_engine_leave: the
 * kernel does not touch the queue any more. gpu_engine_settle: nor memory of keys that are gone. */
bool gpu_engine_map_doorbell(struct device *d, struct uar *uar);
uint64_t gpu_engine_register(struct device *d); /* for a doorbell, under the lock; 0: none */
void gpu_engine_release_queue(struct device *d, struct qp *qp);
void gpu_engine_flush(struct device *d);

/* --- gpu_keys.c: what a key names for the engine's GPU, also a key of a peer's --- */

struct gpu_mapping;

struct gpu_keys {
    struct gpu_key *table; /* of the host, copied to the GPU when it has changed */
    uint32_t count;
    bool changed;
    struct gpu_mapping *mappings;
};

/* Who wants which key: of its own process for its own memory, of the peer's for that. */
struct gpu_key_request {
    uint32_t key, number, peer, remote; /* queues; address of the peer */
    bool is_remote;
};

void gpu_keys_clear(struct gpu_keys *keys, const struct gpu_driver *driver);
/* gpu_keys_add: called without the lock; may wait for the peer's process. False: the kernel cannot
 * use it. */
bool gpu_keys_add(struct device *d, struct gpu_keys *keys, const struct gpu_driver *driver, int gpu,
                  const struct gpu_key_request *want);
/* gpu_keys_open: memory of another GPU, with the engine's context current. */
bool gpu_keys_map(const struct gpu_driver *driver, int gpu, uint64_t memory, uint64_t bytes);
/* gpu_keys_answer: somebody who has connected asks for a key of this process. */
#define GPU_KEYS_QUERY "key?"
void gpu_keys_answer_query(struct device *d, int socket);

#endif
