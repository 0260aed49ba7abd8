/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the benchmarks of device scopes: launches a kernel of bench/device/kernels.h in the
 * measured scope, and reads the time and the errors that it records. */
#ifndef WEFT_CLI_BENCH_DEVICE_H
#define WEFT_CLI_BENCH_DEVICE_H

#include "bench/bench.h"
#include "device/kernels.h"

struct bench_device {
    weft_stream stream;
    /* Symmetric, in the memory of weft_device_kind(), zeroed. */
    struct device_times *times;
    uint64_t *flag;
    uint64_t *wrong;
    uint64_t base; /* number of the last round; the same at every PE */
};

enum { DEVICE_WARM = 20, DEVICE_CHECK_ROUNDS = 50, TRACE_WARM = 128, TRACE_ROUNDS = 1024 };

/* Seeds of patterns; OWN * (PE + 1) is the seed of that PE. */
enum { STALE = 7, SENT = 77, OWN = 1000 };

/* Launches NAME_thread, NAME_warp or NAME_block. */
#define DEVICE_LAUNCH(name, scope, ...)                                                            \
    ((scope) == SCOPE_THREAD ? WEFT_LAUNCH(name##_thread, __VA_ARGS__)                             \
     : (scope) == SCOPE_WARP ? WEFT_LAUNCH(name##_warp, __VA_ARGS__)                               \
                             : WEFT_LAUNCH(name##_block, __VA_ARGS__))

/* Waits for the kernel of `blocks` blocks and adds the ns from the start of the first block to
 * the end of the last. *wrong (may be NULL) counts the errors that the kernel found. */
weft_status device_finish(struct bench *bench, unsigned blocks, double *ns, uint64_t *wrong);

/* Threads of a block that has a single unit of the scope. */
unsigned device_unit_threads(const struct bench *bench);

/* device_fill() fills own memory with a pattern. device_holds() tests whether n bytes of own
 * memory equal the pattern from byte `shift` on. Seeds differ by PE and purpose. */
weft_status device_fill(struct bench *bench, void *words, size_t bytes, uint64_t seed);
weft_status device_holds(struct bench *bench, void *bytes, size_t n, size_t shift, uint64_t seed,
                         bool *right);

/* The steps of one operation, which --trace prints. */
struct device_steps {
    const char *bench; /* value of the JSON key `bench` */
    const char *operation;
    const char *const *names;
    const double *ends; /* ns from the call to the end of each step, mean of the rounds */
    int count;
    int rounds;
};

/* steps.c: prints a table, or one JSON object with --json. */
void device_print_steps(const struct bench *bench, const struct device_steps *steps);

#endif
