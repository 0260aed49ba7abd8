/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU engine: a kernel (gpu/kernel.h) executes send queues that are in GPU memory. One thread
 * launches it in slices. If the kernel returns a queue, the CPU engine runs it, through the driver,
 * and hands it back when all of its requests are complete. */
#ifndef WEFT_HCA_GPU_ENGINE_H
#define WEFT_HCA_GPU_ENGINE_H

#include "gpu/queue.h"
#include "hca.h"

struct gpu_driver;

/* gpu_engine_start: starts the engine for queues in memory of that GPU; once. False: the error log
 * says why. */
bool gpu_engine_start(struct device *d, int gpu);
/* gpu_engine_map: gives the engine's GPU access to memory of a GPU. */
bool gpu_engine_map(struct device *d, uint64_t memory, uint64_t bytes);
void gpu_engine_stop(struct device *d); /* called before anything of the device is destroyed */

/* The caller does not hold the lock. gpu_engine_map_doorbell: gives the GPU access to the doorbell
 * register. gpu_engine_release_queue: returns when the kernel no longer accesses the QP.
 * gpu_engine_flush: returns when it no longer accesses memory of removed keys either. */
bool gpu_engine_map_doorbell(struct device *d, struct uar *uar);
/* a doorbell register in GPU memory, under the lock; 0: none */
uint64_t gpu_engine_register(struct device *d);
void gpu_engine_release_queue(struct device *d, struct qp *qp);
void gpu_engine_flush(struct device *d);

/* --- gpu/keys.c: memory keys for the engine's GPU, of this process and of peers --- */

struct gpu_mapping;

struct gpu_keys {
    struct gpu_key *table; /* in host memory, copied to the GPU after a change */
    uint32_t count;
    bool changed;
    struct gpu_mapping *mappings;
};

/* A key that a QP needs: an lkey of its own process, or an rkey of the peer. */
struct gpu_key_request {
    /* key; QP number and peer's QP number; address of the peer */
    uint32_t key, number, peer, remote;
    bool is_remote;
};

void gpu_keys_clear(struct gpu_keys *keys, const struct gpu_driver *driver);
/* gpu_keys_add: adds a key. The caller does not hold the lock; it may wait for the peer's process.
 * False: the kernel cannot use the key. */
bool gpu_keys_add(struct device *d, struct gpu_keys *keys, const struct gpu_driver *driver, int gpu,
                  const struct gpu_key_request *want);
/* gpu_keys_map: gives the engine's GPU access to memory of another GPU; the engine's context is
 * current. */
bool gpu_keys_map(const struct gpu_driver *driver, int gpu, uint64_t memory, uint64_t bytes);
/* gpu_keys_answer_query: answers a connected peer's query for a key of this process. */
#define GPU_KEYS_QUERY "key?"
void gpu_keys_answer_query(struct device *d, int socket);

#endif
