/* SPDX-License-Identifier: Apache-2.0 */
/* What the library's own kernels (kernels.cu) and the code that launches them agree on. Plain C
 * that nvcc reads too. */
#ifndef WEFT_GPU_KERNELS_H
#define WEFT_GPU_KERNELS_H

#include <stdint.h>

#include <weft/device/state.h>

/* X(name): the kernels, by their names in the module. */
#define GPU_KERNELS(X)                                                                             \
    X(weft_kernel_atomic)                                                                          \
    X(weft_kernel_copy)                                                                            \
    X(weft_kernel_strided)                                                                         \
    X(weft_kernel_wait)                                                                            \
    X(weft_kernel_barrier)                                                                         \
    X(weft_kernel_prove)                                                                           \
    X(weft_kernel_echo)

/* Beyond the values of weft_amo: a single value of any width, written or read by one access. */
enum { GPU_ACCESS_STORE = 100, GPU_ACCESS_LOAD = 101 };

/* Of weft_kernel_copy: beyond WEFT_SIGNAL_SET and WEFT_SIGNAL_ADD. */
enum { GPU_NO_SIGNAL = -1 };

/* What a kernel tells the host that waits for it, in pinned memory: the value fetched, then the
 * number of the operation. */
struct gpu_answer {
    uint64_t value, number;
};

/* A team's place in each PE's GPU heap for barriers on a stream: `sequence` is its own count, and
 * arrived[i] is stored by member i. Sequence numbers live in GPU memory so that a captured graph
 * can be replayed. */
struct gpu_team_area {
    uint64_t sequence;
    uint64_t reserved[7];
    uint64_t arrived[]; /* [members] */
};

/* Where each member's area is mapped here; travels as a kernel argument. */
enum { GPU_BARRIER_MEMBERS = 64 };
struct gpu_barrier {
    struct gpu_team_area *areas[GPU_BARRIER_MEMBERS];
    uint16_t pe[GPU_BARRIER_MEMBERS]; /* for the record, and so are: */
    int32_t team, operation;
    int32_t members, me;
};

/* Where a kernel writes what went wrong: the device's part of the black box, its count of records,
 * and the limit of waits. */
struct gpu_reporting {
    struct weft_dev_box *box;
    uint64_t *tickets;
    uint64_t limit_ns; /* 0 = none */
};

/* ------------------------------------------------------------------------------------- proof */

enum {
    PROVE_WORDS = 4096, /* of a pattern: 32 KiB */
    PROVE_ADDS = 1024,  /* atomic additions by each side */
    PROVE_SWAPS = 32,   /* sections guarded by compare-and-swap, by each side */
    PROVE_THREADS = 256,
};

/* One per ordered pair, in the heap of its owner. `flag`, `ack` and `data` are written by the peer;
 * the atomics of the lower PE's area are used by both. */
struct prove_area {
    uint64_t flag, flag_line[7];
    uint64_t ack, ack_line[7];
    uint64_t counter, counter_line[7];
    uint64_t lock, lock_line[7];
    uint64_t guarded, guarded_line[7];
    uint64_t data[PROVE_WORDS];
};

struct prove_pair {
    struct prove_area *own, *peer; /* peer: the peer's area for this PE, mapped here */
    uint64_t me, other;            /* local PE numbers */
    uint64_t rounds;
};

enum prove_stage {
    PROVE_GOOD = 1,
    PROVE_NO_FLAG,   /* the peer's flag did not arrive */
    PROVE_STALE,     /* the flag arrived before its data, or the data is wrong */
    PROVE_READ_BACK, /* loads from the peer do not give what was stored there */
    PROVE_NO_ACK,
    PROVE_NO_LOCK, /* compare-and-swap was not granted in time */
    PROVE_COUNT,   /* atomic additions were lost */
    PROVE_GUARD,   /* compare-and-swap let two in at a time */
};

/* In pinned host memory, one per pair; read when the kernel has ended. */
struct prove_report {
    uint64_t stage;
    uint64_t round;
    uint64_t index; /* of the word, for STALE and READ_BACK */
    uint64_t expected, seen;
    uint64_t elapsed_ns;
};

/* ---------------------------------------------------------------------------------- latency */

/* Of two kernels that send a number to and fro; in pinned host memory, all zeros before. */
struct echo_report {
    uint64_t rounds;     /* that came back within the limit */
    uint64_t elapsed_ns; /* of the timed ones, on the side that begins */
};

#endif
