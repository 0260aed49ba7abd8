/* SPDX-License-Identifier: Apache-2.0 */
/* What collectives on GPU memory cost on a machine: the rates that coll_choose() reckons with,
 * those that are built in, and the file in which `weft bench coll --tune` keeps those of this
 * machine. Knows no job. */
#ifndef WEFT_OPS_COLL_RATES_H
#define WEFT_OPS_COLL_RATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft.h>

/* X(name, built in, least, most). Times are microseconds in a graph before the first byte. Rates
 * are 10^9 bytes of payload a second out of a GPU, and by one block of a kernel. block_share: the
 * bytes that are worth one more block where it stores directly. Copy engines: the two meetings, the
 * first copy, each further copy that is forked off, and their rate.
 * Built in is what `weft bench coll --tune` measured between 2 H100 over NVLink 4
 * (docs/measurements/2026-11-24-h100-2.md). spread_us needs more than 2 members and is an estimate:
 * as many times push_us as it was between 4 H200. */
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
    uint64_t
        estimates; /* bit COLL_RATE_x: it was not measured, but made from others, or is built in */
};

enum coll_rate {
#define COLL_RATE_NAME(name, built_in, least, most) COLL_RATE_##name,
    COLL_RATES(COLL_RATE_NAME)
#undef COLL_RATE_NAME
        COLL_RATE_COUNT
};

extern const struct coll_rates coll_rates_built_in;

/* Puts the built-in value in place of each that is no number in its range, such as one that was got
 * from two times which hardly differ, as an estimate. Returns how many. */
int coll_rates_mend(struct coll_rates *rates);

static inline bool coll_rates_estimated(const struct coll_rates *rates, enum coll_rate rate)
{
    return rates->estimates >> rate & 1;
}

/* The names of the estimates with `between` between them, or "none". */
void coll_rates_estimates(const struct coll_rates *rates, const char *between, char *text,
                          size_t bytes);

/* The machine that rates are of, and how they were taken. */
struct coll_machine {
    char gpu[96]; /* the model, as the driver names it */
    int gpus;     /* that the driver shows */
    int driver;   /* its version of CUDA, such as 13000 */
};

struct coll_measured {
    char date[16]; /* 2026-11-23 */
    int pes;
};

/* The file of this machine: that of WEFT_COLL_RATES, else one of ~/.cache/weft (or $XDG_CACHE_HOME)
 * whose name tells the machine. False: WEFT_COLL_RATES=off, or there is no such folder. */
bool coll_rates_file(const struct coll_machine *machine, char *path, size_t bytes);

/* Whether any machine's file is in that folder. */
bool coll_rates_any(void);

/* WEFT_ERR_CONFIG: the file cannot be read, is cut off or changed, of another version or machine,
 * or a rate is no number in its range; *rates is then as it was. machine NULL: whichever. *of (may
 * be NULL): that of the file. */
weft_status coll_rates_read(const char *path, const struct coll_machine *machine,
                            struct coll_rates *rates, struct coll_measured *measured,
                            struct coll_machine *of);

/* Whole or not at all, whoever reads meanwhile. */
weft_status coll_rates_write(const char *path, const struct coll_machine *machine,
                             const struct coll_rates *rates, const struct coll_measured *measured);

/* What serves on this machine: the file's, else those built in. *path is empty for these, and *why
 * (may be NULL) the sentence where a file is there and was refused. */
void coll_rates_find(const struct coll_machine *machine, struct coll_rates *rates,
                     struct coll_measured *measured, char *path, size_t path_bytes, char *why,
                     size_t why_bytes);

/* Equal where the rates are. */
uint32_t coll_rates_hash(const struct coll_rates *rates);

#endif
