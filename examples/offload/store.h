/* SPDX-License-Identifier: Apache-2.0 */
/* Layers of a model that exceed the memory: some are in memory, all are in a file. Each PE has its
 * share of every layer, at the same offset, and reads and writes only that. A step visits the
 * layers from first to last (forward: their parameters) and back (backward: all of them, changed),
 * so the next accesses are known. While one layer is used for computing, the next ones are read and
 * the last ones written. */
#ifndef EXAMPLES_OFFLOAD_STORE_H
#define EXAMPLES_OFFLOAD_STORE_H

#include <stdbool.h>

#include "model.h"

struct store_settings {
    const char *path;
    size_t memory; /* bytes for layers; as many layers as fit are kept, at least 2 */
    /* keep all layers whatever `memory` is; access the file only at the begin and the end */
    bool in_memory;
    bool one_by_one; /* read a layer when it is needed, and wait for every transfer at once */
    bool create_new; /* create a new file even if one exists */
};

struct store_figures { /* figures of this PE */
    uint64_t read_bytes, written_bytes;
};

struct store;

/* Opens the file, or creates it with initial layers; *step receives the steps that they were
 * trained. Returns NULL with a message on standard error, at all PEs. Collective, like
 * store_finish() and store_close(); all PEs call the other functions in the same order. The file
 * does not depend on the number of PEs. */
struct store *store_open(weft_job *job, const struct model_shape *shape,
                         const struct store_settings *settings, uint64_t *step);

uint32_t store_slots(const struct store *store);   /* layers that fit in memory */
const char *store_file(const struct store *store); /* describes how the file is read and written */

/* Returns the layer of a visit: layer `visit`, forward, for the first `layers` visits, then
 * back. */
uint32_t store_layer(const struct store *store, uint32_t visit);

/* Waits for the layer of a visit and returns it. Valid until store_release_layer() of the same
 * visit. Returns NULL on failure. All functions here print errors on standard error. */
float *store_get_layer(struct store *store, uint32_t visit);

/* Starts reading the layers of the next visits. Called while `visit` is computed. */
bool store_prefetch(struct store *store, uint32_t visit);

/* Called when `visit` was computed: writes the changed layer to the file. */
bool store_release_layer(struct store *store, uint32_t visit);

/* Writes everything to the file with the number of steps and syncs it. False at all PEs if one PE
 * failed. */
bool store_finish(struct store *store, uint64_t step);

struct store_figures store_figures(const struct store *store);
bool store_close(struct store *store);

#endif
