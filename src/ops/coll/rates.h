/* SPDX-License-Identifier: Apache-2.0 */
/* The rates by which coll_choose() predicts the time of collectives on GPU memory: the built-in
 * ones, and the file in which `weft bench coll --tune` stores those of this machine. This file
 * knows no job. */
#ifndef WEFT_OPS_COLL_RATES_H
#define WEFT_OPS_COLL_RATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft.h>

/* X(name, built-in value, smallest, largest valid value). Names ending in _us are microseconds from
 * the launch in a CUDA graph to the first byte; names ending in _gbps are rates of payload out of a
 * GPU in 10^9 bytes per second; block_*_gbps is the rate of one block of a kernel. The names are
 * those of the file, so they stay; by algorithm (choose.h):
 * one_trip_us, packets_gbps, block_packets_gbps: LL; two_trips_us: two-shot LL
 * lines_us, lines_gbps, block_lines_gbps: LL128; two_lines_us: two-shot LL128
 * push_us, combine_us, spread_us (broadcast along a chain), stores_gbps, block_stores_gbps: simple
 * scratch_gbps, block_scratch_gbps: staged
 * engines_meet_us (both barriers), engines_first_us (first copy), engines_more_us (each further
 * copy that is forked off), engines_gbps: copy engines
 * block_share_bytes: number of bytes for which simple and staged add one more block. The built-in
 * values were measured by `weft bench coll --tune` between 2 H100 over NVLink 4
 * (docs/measurements/2026-11-24-h100-2.md). spread_us needs more than 2 members and is an estimate:
 * the ratio to push_us that was measured between 4 H200. */
#define COLL_RATES(X)                                                                              \
    X(one_trip_us, 4.0, 0.05, 1e5)                                                                 \
    X(two_trips_us, 4.5, 0.05, 1e5)                                                                \
    X(push_us, 5.4, 0.05, 1e5)                                                                     \
    X(combine_us, 6.8, 0.05, 1e5)                                                                  \
    X(spread_us, 9.4, 0.05, 1e5)                                                                   \
    X(packets_gbps, 73.5, 1e-3, 1e5)                                                               \
    X(lines_us, 3.5, 0.05, 1e5)                                                                    \
    X(two_lines_us, 5.0, 0.05, 1e5)                                                                \
    X(lines_gbps, 172, 1e-3, 1e5)                                                                  \
    X(block_lines_gbps, 2.1, 1e-4, 1e5)                                                            \
    X(stores_gbps, 283, 1e-3, 1e5)                                                                 \
    X(block_packets_gbps, 1.7, 1e-4, 1e5)                                                          \
    X(block_stores_gbps, 23.4, 1e-4, 1e5)                                                          \
    X(block_share_bytes, 16384, 1024, 1 << 20)                                                     \
    X(scratch_gbps, 196, 1e-3, 1e5)                                                                \
    X(block_scratch_gbps, 12.3, 1e-4, 1e5)                                                         \
    X(engines_meet_us, 7.7, 0.05, 1e5)                                                             \
    X(engines_first_us, 9.3, 0.05, 1e5)                                                            \
    X(engines_more_us, 12.8, 0.05, 1e5)                                                            \
    X(engines_gbps, 311, 1e-3, 1e5)

struct coll_rates {
#define COLL_RATE_FIELD(name, built_in, least, most) double name;
    COLL_RATES(COLL_RATE_FIELD)
#undef COLL_RATE_FIELD
    /* bit COLL_RATE_x is set: rate x was not measured, but derived from others, or is built
     * in */
    uint64_t estimates;
};

enum coll_rate {
#define COLL_RATE_NAME(name, built_in, least, most) COLL_RATE_##name,
    COLL_RATES(COLL_RATE_NAME)
#undef COLL_RATE_NAME
        COLL_RATE_COUNT
};

extern const struct coll_rates coll_rates_built_in;

/* Replaces each rate that is not a number in its range by the built-in value and marks it as an
 * estimate. Such a rate results, for example, from two times that hardly differ. Returns the number
 * of replaced rates. */
int coll_rates_replace_invalid(struct coll_rates *rates);

static inline bool coll_rates_estimated(const struct coll_rates *rates, enum coll_rate rate)
{
    return rates->estimates >> rate & 1;
}

/* Writes the names of the estimates, separated by `between`, or "none". */
void coll_rates_estimates(const struct coll_rates *rates, const char *between, char *text,
                          size_t bytes);

/* The machine that a rates file is for, and how the rates were measured. */
struct coll_machine {
    char gpu[96]; /* model name from the driver */
    int gpus;     /* number of GPUs that the driver reports */
    int driver;   /* CUDA version of the driver, such as 13000 */
};

struct coll_measured {
    char date[16]; /* 2026-11-23 */
    int pes;
};

/* Path of this machine's rates file: WEFT_COLL_RATES, else a file in ~/.cache/weft (or
 * $XDG_CACHE_HOME/weft) whose name contains the machine. False: WEFT_COLL_RATES=off, or neither
 * XDG_CACHE_HOME nor HOME names a folder. */
bool coll_rates_file(const struct coll_machine *machine, char *path, size_t bytes);

/* Whether the cache folder contains a rates file of any machine. */
bool coll_rates_any(void);

/* Reads a rates file. WEFT_ERR_CONFIG: the file cannot be read, is truncated or modified, is of
 * another version or machine, or a rate is not a number in its range; *rates is then unchanged.
 * machine NULL: accept the file of any machine. *of (may be NULL): the machine of the file. */
weft_status coll_rates_read(const char *path, const struct coll_machine *machine,
                            struct coll_rates *rates, struct coll_measured *measured,
                            struct coll_machine *of);

/* Replaces the file atomically: a concurrent reader sees the old or the new file. */
weft_status coll_rates_write(const char *path, const struct coll_machine *machine,
                             const struct coll_rates *rates, const struct coll_measured *measured);

/* Finds the rates for this machine: those of its file, else the built-in ones. *path is empty for
 * the built-in ones. *why (may be NULL) is the error message where a file exists and was
 * refused. */
void coll_rates_find(const struct coll_machine *machine, struct coll_rates *rates,
                     struct coll_measured *measured, char *path, size_t path_bytes, char *why,
                     size_t why_bytes);

/* Hash of all rates, to compare them between members. */
uint32_t coll_rates_hash(const struct coll_rates *rates);

#endif
