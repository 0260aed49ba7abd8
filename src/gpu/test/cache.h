/* SPDX-License-Identifier: Apache-2.0 */
/* Proofs of pairs of GPUs that succeeded, and sizes that were measured, since the machine was
 * started, in files of the user. Only
 * a file that is the user's own, and that nobody else may write, is believed. */
#ifndef WEFT_GPU_PROOF_CACHE_H
#define WEFT_GPU_PROOF_CACHE_H

#include <stdbool.h>

#include "driver/cuda.h"

/* The order of the two does not matter. */
bool proof_cache_knows(const CUuuid *a, const CUuuid *b, int driver_version);

/* Best effort: a cache that cannot be written costs the next job a proof. */
void proof_cache_add(const CUuuid *a, const CUuuid *b, int driver_version);

/* Of a pair that has failed since. Best effort, too. */
void proof_cache_remove(const CUuuid *a, const CUuuid *b, int driver_version);

/* What was measured of a GPU since the machine was started: `count` numbers, in the file named
 * `what` beside.
 * False: nothing is known. */
bool proof_cache_numbers(const char *what, const CUuuid *gpu, int driver_version, size_t *numbers,
                         int count);
void proof_cache_keep_numbers(const char *what, const CUuuid *gpu, int driver_version,
                              const size_t *numbers, int count);

/* The file: $XDG_RUNTIME_DIR/weft/gpu-proofs, else ~/.cache/weft/gpu-proofs. False: neither. */
bool proof_cache_file(char *path, unsigned long bytes);

#endif
