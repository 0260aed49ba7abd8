/* SPDX-License-Identifier: Apache-2.0 */
/* A cache in files of the user: pairs of GPUs that passed their test, and sizes that were measured,
 * since the machine booted. The library trusts only a file that belongs to the user and that no
 * other user can write. */
#ifndef WEFT_GPU_PROOF_CACHE_H
#define WEFT_GPU_PROOF_CACHE_H

#include <stdbool.h>

#include "driver/gpu_api.h"

/* Returns whether the pair passed its test. The order of the two does not matter. */
bool proof_cache_contains(const CUuuid *a, const CUuuid *b, int driver_version);

/* Adds a pair that passed. Best effort: when the cache cannot be written, the next job tests
 * again. */
void proof_cache_add(const CUuuid *a, const CUuuid *b, int driver_version);

/* Removes a pair that failed. Best effort. */
void proof_cache_remove(const CUuuid *a, const CUuuid *b, int driver_version);

/* Reads, or stores, `count` numbers that were measured of a GPU since the machine booted, in the
 * file `what` of the same folder. proof_cache_load_numbers() returns false when nothing is stored.
 */
bool proof_cache_load_numbers(const char *what, const CUuuid *gpu, int driver_version,
                              size_t *numbers, int count);
void proof_cache_store_numbers(const char *what, const CUuuid *gpu, int driver_version,
                               const size_t *numbers, int count);

/* Writes the file's path: $XDG_RUNTIME_DIR/weft/gpu-proofs, else ~/.cache/weft/gpu-proofs. Returns
 * false when neither folder can be used. */
bool proof_cache_file(char *path, unsigned long bytes);

#endif
