/* SPDX-License-Identifier: Apache-2.0 */
/* What the benchmarks of device scopes share: launching a kernel of bench/device/kernels.h in the
 * scope that is measured, and the time and the faults that it notes. */
#ifndef WEFT_CLI_BENCH_DEVICE_H
#define WEFT_CLI_BENCH_DEVICE_H

#include "bench/bench.h"
#include "device/kernels.h"

struct bench_device {
    weft_stream stream;
    /* Symmetric, of the kind that weft_device_kind() gives, zeroed. */
    struct device_times *times;
    uint64_t *flag;
    uint64_t *wrong;
    uint64_t base; /* number of the last round; alike at every PE */
};

enum { DEVICE_WARM = 20, DEVICE_CHECK_ROUNDS = 50 };

/* Launches NAME_thread, NAME_warp or NAME_block. */
#define DEVICE_LAUNCH(name, scope, ...)                                                            \
    ((scope) == SCOPE_THREAD ? WEFT_LAUNCH(name##_thread, __VA_ARGS__)                             \
     : (scope) == SCOPE_WARP ? WEFT_LAUNCH(name##_warp, __VA_ARGS__)                               \
                             : WEFT_LAUNCH(name##_block, __VA_ARGS__))

/* Waits for the kernel of `blocks` blocks and adds the ns from the first block's start to the last
 * one's end. *wrong (may be NULL) counts what the kernel found wrong. */
weft_status device_finish(struct bench *bench, unsigned blocks, double *ns, uint64_t *wrong);

/* Threads of a block in which one unit of the scope works alone. */
unsigned device_unit_threads(const struct bench *bench);

/* Fills own words with a pattern; finds out whether n bytes of own memory are those of the pattern
 * from byte `shift` of it on. Seeds differ by PE and purpose. */
weft_status device_fill(struct bench *bench, void *words, size_t bytes, uint64_t seed);
weft_status device_holds(struct bench *bench, void *bytes, size_t n, size_t shift, uint64_t seed,
                         bool *right);

#endif
