/* SPDX-License-Identifier: Apache-2.0 */
/* The layers of a model, more than there is memory for: some are in memory, all are in a file; of
 * PEs that train together each has its share of every layer, at the same place, and reads and
 * writes that. A step visits them from the first to the last (forward: their parameters) and back
 * (backward: all of them, which it changes), so it is known what will be needed next. While one
 * layer is computed with, the next ones are read, and the last ones written back. */
#ifndef EXAMPLES_OFFLOAD_STORE_H
#define EXAMPLES_OFFLOAD_STORE_H

#include <stdbool.h>

#include "model.h"

struct store_wish {
    const char *path;
    size_t memory;   /* bytes for layers; as many as fit are kept, at least 2 */
    bool in_memory;  /* keep all of them, whatever `memory` is, and touch the file at both ends
                      * alone */
    bool one_by_one; /* read when it is needed, wait for every transfer at once */
    bool anew;       /* make the file anew, also where it is */
};

struct store_figures { /* of this PE */
    uint64_t read_bytes, written_bytes;
};

struct store;

/* Opens the file, or makes it with layers as they are before the first step; *step is the steps
 * that they have been trained. NULL with a sentence on the standard error, at all PEs. As
 * store_finish() and store_close() collective; the others are called alike by all. The file has
 * nothing of how many PEs there were. */
struct store *store_open(weft_job *job, const struct model_shape *shape,
                         const struct store_wish *wish, uint64_t *step);

uint32_t store_slots(const struct store *store);   /* layers that are in memory at once */
const char *store_file(const struct store *store); /* how the file is read and written, in words */

/* Visit `visit` of a step is layer `visit`, forward, for the first `layers` visits, then back. */
uint32_t store_layer(const struct store *store, uint32_t visit);

/* The layer of a visit, when it is there. Valid until store_give() of the same visit. NULL: failed,
 * as all functions here say on the standard error. */
float *store_take(struct store *store, uint32_t visit);

/* Begins to read what the next visits need: to be called when the computation of `visit` is under
 * way. */
bool store_prefetch(struct store *store, uint32_t visit);

/* The computation of `visit` has ended: what it has changed goes to the file. */
bool store_give(struct store *store, uint32_t visit);

/* Everything is in the file, safe, with the number of steps; false at all PEs if at one. */
bool store_finish(struct store *store, uint64_t step);

struct store_figures store_figures(const struct store *store);
bool store_close(struct store *store);

#endif
