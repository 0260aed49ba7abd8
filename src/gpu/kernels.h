/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the library's kernels (kernels.cu) and the code that launches them. Plain C that nvcc
 * compiles too. */
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
    X(weft_kernel_replayed)                                                                        \
    X(weft_kernel_barrier)                                                                         \
    X(weft_kernel_messages)                                                                        \
    X(weft_kernel_prove)                                                                           \
    X(weft_kernel_echo)

/* In addition to the values of weft_amo: one store or one load of a value of any width. */
enum { GPU_ACCESS_STORE = 100, GPU_ACCESS_LOAD = 101 };

/* For weft_kernel_copy, in addition to WEFT_SIGNAL_SET and WEFT_SIGNAL_ADD. */
enum { GPU_NO_SIGNAL = -1 };

/* A kernel's answer to the host that polls for it, in pinned memory: the fetched value, then the
 * sequence number of the operation. */
struct gpu_answer {
    uint64_t value, number;
};

/* A team's area in each PE's GPU heap for barriers on a stream: `sequence` is this PE's own count,
 * and member i stores arrived[i]. Sequence numbers are in GPU memory so that a captured graph can
 * be replayed. */
struct gpu_team_area {
    uint64_t sequence;
    uint64_t reserved[7];
    uint64_t arrived[]; /* [members] */
};

/* Addresses of the members' areas as mapped by this PE; passed as a kernel argument. */
enum { GPU_BARRIER_MEMBERS = 64 };
struct gpu_barrier {
    struct gpu_team_area *areas[GPU_BARRIER_MEMBERS];
    uint16_t pe[GPU_BARRIER_MEMBERS]; /* PE numbers, team and operation are for error records */
    int32_t team, operation;
    int32_t members, me;
};

/* Where a kernel reports errors: the device part of the black box, its count of records, and the
 * limit of waits. */
struct gpu_reporting {
    struct weft_dev_box *box;
    uint64_t *tickets;
    uint64_t limit_ns; /* 0: no limit */
};

/* ---------------------------------------------------------------------- test of a GPU pair */

enum {
    PROVE_WORDS = 4096, /* 8-byte words of a pattern: 32 KiB */
    PROVE_ADDS = 1024,  /* atomic additions by each side */
    PROVE_SWAPS = 32,   /* critical sections guarded by compare-and-swap, by each side */
    PROVE_THREADS = 256,
};

/* One for each ordered pair, in the heap of its owner. The peer writes `flag`, `ack` and `data`.
 * Both sides use the atomics of the area of the lower PE. */
struct prove_area {
    uint64_t flag, flag_line[7];
    uint64_t ack, ack_line[7];
    uint64_t counter, counter_line[7];
    uint64_t lock, lock_line[7];
    uint64_t guarded, guarded_line[7];
    uint64_t data[PROVE_WORDS];
};

struct prove_pair {
    struct prove_area *own, *peer; /* peer: the peer's area for this PE, as mapped here */
    uint64_t me, other;            /* local PE numbers */
    uint64_t rounds;
};

enum prove_stage {
    PROVE_GOOD = 1,
    PROVE_NO_FLAG,   /* the peer's flag did not arrive */
    PROVE_STALE,     /* the flag arrived before its data, or the data is wrong */
    PROVE_READ_BACK, /* loads from the peer return other data than was stored there */
    PROVE_NO_ACK,
    PROVE_NO_LOCK, /* compare-and-swap did not get the lock in time */
    PROVE_COUNT,   /* atomic additions were lost */
    PROVE_GUARD,   /* compare-and-swap let both sides in at the same time */
};

/* One for each pair, in pinned host memory; the host reads it when the kernel has ended. */
struct prove_report {
    uint64_t stage;
    uint64_t round;
    uint64_t index; /* index of the word, for PROVE_STALE and PROVE_READ_BACK */
    uint64_t expected, seen;
    uint64_t elapsed_ns;
};

/* ---------------------------------------------------------------------------------- latency */

/* Result of a ping-pong of two kernels, in pinned host memory; all zeros before. */
struct echo_report {
    uint64_t rounds;     /* round trips within the limit */
    uint64_t elapsed_ns; /* time of the timed rounds, on the side that begins */
};

#endif
