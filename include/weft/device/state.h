/* SPDX-License-Identifier: Apache-2.0 */
/* The job's state in device code: `struct weft_dev`. Every translation unit that includes
 * <weft_device.h> has a copy, which the library writes (src/job/device_state.c fills it for both
 * targets). Plain data, and addresses as the device uses them; no operations.
 *
 * gcc, clang and nvcc compile the same text, and the layout is the same on host and device. A
 * library writes at most the `bytes` that a unit was compiled with, and refuses another
 * `version`. */
#ifndef WEFT_DEVICE_STATE_H
#define WEFT_DEVICE_STATE_H

#include <weft/types.h>

#include <weft/device/target.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { WEFT_DEV_VERSION = 20 };

/* Segments, in the order in which operations search for an address. */
enum weft_dev_segment_id {
    WEFT_DEV_HEAP,  /* heap of the target's memory kind: GPU heap on cuda, host heap on simt */
    WEFT_DEV_OTHER, /* the other heap, where device code can reach it */
    WEFT_DEV_DATA,  /* the program's global data (simt only) */
    WEFT_DEV_SEGMENTS,
    WEFT_DEV_AREAS = WEFT_DEV_SEGMENTS, /* team areas, for internal use only */
    WEFT_DEV_PARTS
};

/* One segment. PEs whose copies of the segment are mapped at equal distances, as those of one node
 * usually are, are reached by arithmetic alone; weft_dev_peer.part has the addresses of the
 * others. */
struct weft_dev_segment {
    uint64_t base; /* start of this PE's segment, where its symmetric addresses begin */
    uint64_t size; /* bytes; 0 = there is no such segment */
    /* PE pe, first <= pe < first + count, has the counterpart of an own address at
     * address + shift + pe * stride (modulo 2^64). */
    uint64_t shift;
    uint64_t stride;
    int32_t first;
    uint32_t count; /* 0: use weft_dev_peer.part */
};

/* X(ID, name): transports of operations to a peer for which device code has no direct address. Each
 * transport has a file, <weft/device/NAME.h>, included by <weft_device.h>, that defines
 *     uint64_t weft_dev_NAME_request(struct weft_dev_request *request)
 *     void weft_dev_NAME_p(const void *symmetric, unsigned bytes, uint64_t value, int pe)
 *     void weft_dev_NAME_put_get(int operation, const void *symmetric, void *local, uint64_t bytes,
 *                             int pe, int form)
 *     void weft_dev_NAME_order(int quiet)
 * and a line here; a new transport needs a new WEFT_DEV_VERSION. See remote.h.
 *
 * Possible calls cost a kernel on a GPU registers and time, even if it never makes them. Transport
 * gda is therefore compiled only in files that include <weft/device/gda.h> first (or define
 * WEFT_DEVICE_GDA), and transport dc, for PEs that path gda reaches by DC, only in files that
 * include <weft/device/dc.h> first (or define WEFT_DEVICE_DC). In other files the proxy takes
 * requests for such a peer, and its host thread passes them to path gda; the same holds for files
 * with WEFT_STATE_BY_POINTER. Files that include <weft/device/p2p.h> have no transport. */
#ifndef WEFT_DEV_CARRIERS
#if defined WEFT_DEVICE_P2P
#define WEFT_DEV_CARRIERS(X)
#elif (WEFT_TARGET_GPU && !defined WEFT_DEVICE_GDA) || defined WEFT_STATE_BY_POINTER
#define WEFT_DEV_CARRIERS(X)     X(PROXY, proxy)
#define WEFT_DEV_PROXY_FOR_OTHER 1 /* the proxy takes requests for transports that are not here */
#elif WEFT_TARGET_GPU && !defined WEFT_DEVICE_DC
#define WEFT_DEV_CARRIERS(X)     X(PROXY, proxy) X(GDA, gda)
#define WEFT_DEV_PROXY_FOR_OTHER 1
#else
#define WEFT_DEV_CARRIERS(X) X(PROXY, proxy) X(GDA, gda) X(DC, dc)
#define WEFT_DEV_HAS_DC      1
#endif
#endif
#ifndef WEFT_DEV_PROXY_FOR_OTHER
#define WEFT_DEV_PROXY_FOR_OTHER 0
#endif
#ifndef WEFT_DEV_HAS_DC
#define WEFT_DEV_HAS_DC 0
#endif

enum weft_dev_carrier {
    WEFT_DEV_CARRIER_NONE,
#define WEFT_DEV_CARRIER_ENUM(ID, name) WEFT_DEV_CARRIER_##ID,
    WEFT_DEV_CARRIERS(WEFT_DEV_CARRIER_ENUM)
#undef WEFT_DEV_CARRIER_ENUM
        WEFT_DEV_CARRIER_END
};

/* One PE as a peer, in device-accessible memory. Direct addresses and atomics over a link are
 * decided per peer. */
struct weft_dev_peer {
    uint64_t part[WEFT_DEV_PARTS]; /* address of its copy of each segment; 0 = no direct address */
    uint32_t atomics;              /* 1: atomics by the device's own instructions work there */
    uint32_t carrier;              /* enum weft_dev_carrier: for all operations without a direct
                                      address, and for atomics where those do not work */
    uint32_t path;                 /* for messages: the host's number of the path */
    uint32_t ring;                 /* index of the proxy ring that takes all requests for this PE */
    uint32_t reserved[4];
};

/* The rings in which device code gives operations to host threads, one thread per ring (proxy.h).
 * `words`, `results`, `bounce` and the counts that the host writes are in host memory that the
 * device reads and writes; the rest is in the device's own memory.
 *
 * All rings share one sequence of tickets, which begins at 0 and never wraps: ring r has every
 * `step`-th ticket, beginning with r. Ticket t uses slot t % slots, and slot t % bounces of the
 * bounce buffer, which no other ring uses. The counts of a ring are multiples of `step`: a count n
 * means its tickets below n. With one ring, step is 1. */
struct weft_dev_ring {
    uint32_t slots; /* slots of all rings together, 1 << slot_bits; 0: there is no ring */
    uint32_t slot_bits;
    uint64_t *words;   /* [slots][WEFT_DEV_RING_WORDS] */
    uint64_t *results; /* [slots][2] packets: 4 bytes of the value and 4 of the sequence number,
                          twice */
    /* [rings][WEFT_DEV_RING_APART], for each ring: count of executed tickets, whose slots and
     * sources may be reused; at WEFT_DEV_RING_COMPLETED the count of tickets whose effects every PE
     * sees. */
    const uint64_t *released;
    /* [rings][WEFT_DEV_RING_APART], for each ring: the next ticket; see also enum
     * weft_dev_ring_own. */
    uint64_t *head;
    uint64_t *reading; /* [slots] incremented when a result is begun and when it is read; odd in
                          between */
    char *bounce;      /* [bounces][WEFT_DEV_BOUNCE_BYTES] values of runs, see proxy.h */
    uint64_t bounces;  /* a power of two, at most slots */
    uint32_t rings;
    uint64_t step; /* a power of two, at least rings */
};

enum { WEFT_DEV_RINGS_MOST = 8 };

/* Distance in words from one ring's counts to the next ring's, and from a ring's `released` count
 * to its completed count: each is in its own cache line. */
enum { WEFT_DEV_RING_APART = 32, WEFT_DEV_RING_COMPLETED = 16 };

/* The device's own words of a ring, as offsets from its `head`. */
enum weft_dev_ring_own {
    WEFT_DEV_RING_KNOWN = 16, /* last value of `released` that a device thread has read */
    WEFT_DEV_RING_LOOKS,      /* 1: a waiting thread polls it now */
    WEFT_DEV_RING_FENCED,     /* value of `head` after the last fence */
    WEFT_DEV_RING_QUIETED,    /* value of `head` after the last quiet */
    WEFT_DEV_RING_DONE,       /* last value of the completed count that a device thread has read */
    WEFT_DEV_RING_DONE_LOOKS, /* 1: a waiting thread polls it now */
};

/* A descriptor is 8 words of 8 bytes. The top byte of each word is the phase of the ticket, so that
 * the host sees which words have arrived, in any order; nothing is cleared between uses. */
enum { WEFT_DEV_RING_WORDS = 8, WEFT_DEV_RING_SHIFT = 56 };
#define WEFT_DEV_RING_MASK (((uint64_t)1 << WEFT_DEV_RING_SHIFT) - 1)

enum weft_dev_ring_flag {
    WEFT_DEV_RING_FETCHES = 1, /* the thread waits for a result */
    WEFT_DEV_RING_WAITED = 2,  /* the thread waits until the ticket is released */
    WEFT_DEV_RING_BOUNCED = 4, /* p: the values are in the ticket's bounce slot */
};

/* A bounce slot: cache lines of 64 bytes for the 32 values of 8 bytes that a warp can issue. The
 * values begin at the same offset in a line as at the peer, so that source and destination of the
 * copy have the same alignment. */
enum { WEFT_DEV_BOUNCE_LINE = 64, WEFT_DEV_BOUNCE_BYTES = 5 * WEFT_DEV_BOUNCE_LINE };

/* How blocks share the queues to a PE: queues 0 ... exclusive - 1 each belong to the block with
 * that number. All other blocks, and updates of words, use `shared` queues from `shared_from` on.
 */
struct weft_dev_gda_sharing {
    uint32_t exclusive, shared_from, shared;
    uint32_t fraction; /* factor for divisions by `shared`, see weft_dev_gda_fraction() */
};

/* What device code asks of the host: to execute the requests of a queue that has failed, or to
 * connect the queues in weft_dev_gda.wanted. */
enum weft_dev_gda_alarm { WEFT_DEV_GDA_ALARM_FAILED = 1, WEFT_DEV_GDA_ALARM_WANTED = 2 };

/* The address of a DC target in requests. The first 16 bytes are the short form, with a LID. */
struct weft_dev_gda_target {
    uint64_t words[6]; /* three segments of 16 bytes */
};

/* What device code needs to post requests to the NIC's queues (gda.h); the tables are in
 * device-accessible memory. The memory of each segment is registered in chunks of 1 << chunk_bits
 * bytes. Each chunk has a key at every NIC, in tables of the queue. Chunks of all segments are
 * numbered together. A segment begins `skip` bytes after the start of its first chunk. */
struct weft_dev_gda {
    /* On a GPU: [n_pes + dc_groups][each]. PEs that are reached by DC share dc_groups groups of
     * `each` DC initiators, which follow the queues of all PEs. RC queues are connected when they
     * are first used, at the latest. */
    struct weft_dev_gda_queue *queues;
    /* On simt: [n_pes + dc_groups] address of the `each` queues to a PE, or of a group of
     * initiators; 0: not connected yet. On a GPU: [n_pes] 1: the way by DC is tested. */
    const uint64_t *connected;
    struct weft_dev_gda_queue *failed; /* [each] stand for queues that cannot be connected */
    uint8_t *wanted;                   /* [n_pes] 1: the host is to connect the queues to the PE */
    uint32_t each;
    struct weft_dev_gda_sharing sharing;
    uint32_t adapters; /* number of NICs; queue k of a PE leads from NIC k % adapters here to the
                          same there */
    uint32_t chunk_bits[WEFT_DEV_PARTS];
    uint32_t first[WEFT_DEV_PARTS]; /* number of a segment's first chunk */
    uint32_t key_step;              /* distance in the key table between two chunks' keys */
    uint64_t skip[WEFT_DEV_PARTS];
    uint64_t own[WEFT_DEV_PARTS]; /* address of a segment's first chunk, as registered here */
    const uint64_t *bases;        /* [n_pes][WEFT_DEV_PARTS] the same at every PE */
    uint64_t *used;               /* one bit per queue that has ever been used, in the order of
                                     `connected` */
    uint32_t *alarm;              /* see enum weft_dev_gda_alarm; NULL: the host does neither, all
                                     queues are connected, and the job fails with a queue */
    /* Distance in the key table from a strict-order key to the relaxed-order key; 0: there is
     * none. */
    uint32_t data_keys;
    uint32_t dumps;      /* 1: this GPU sees data read into its memory only after a DUMP */
    uint32_t ordered;    /* flags of a request that executes after all earlier ones */
    uint32_t no_atomics; /* 1: the NICs have none; atomics are given to the proxy */
    uint32_t dc_groups;  /* PE pe uses group pe % dc_groups; 0: device code does not post by DC */
    uint32_t dc_keys;    /* distance in the key table between two PEs, for DC initiators */
    /* [n_pes][adapters] addresses of DC targets, in the form of requests */
    const struct weft_dev_gda_target *targets;
};

/* A team, indexed by the number from weft_team_device(), in device-accessible memory. */
struct weft_dev_team {
    int32_t n;             /* number of members; 0 = no such team */
    int32_t me;            /* PE number of this PE in the team */
    int32_t start, stride; /* if pes is NULL: member i is PE start + i * stride */
    const int32_t *pes;    /* [n] PE number of each member, or NULL */
    uint32_t direct;       /* 1: this PE reaches every member by load and store */
    uint32_t all_direct;   /* 1: every member reaches every other so; the same value at all */
    uint32_t reserved[2];
};

/* Synchronisation area of one team at one PE, zeroed when the team is made. Only member i writes
 * `arrived[i]` and `phase[i]` (atomics of simt.h; see collective.h for the protocol). The areas of
 * all teams are contiguous: team t's is at t * weft_dev_area_bytes(n_pes). The teams' packet
 * staging buffers follow. */
struct weft_dev_area {
    uint64_t syncs;   /* number of completed syncs and barriers of this PE */
    uint64_t phases;  /* number of completed data collectives of this PE */
    uint64_t packets; /* number of completed packet collectives of this PE */
    /* For several blocks that share a collective (grid.h), [0] all blocks of the grid, [1] the
     * first blocks. grid_arrived: number of blocks that have arrived at the present step.
     * grid_released: twice the number of completed steps, plus 1 when the last one failed. */
    uint64_t grid_arrived[2], grid_released[2];
    /* Packet rounds that only one member received (staging.h). rooted: the latest such round, 0 for
     * none. gate and gate_by: reuse gate of the next round and of the round after it, at [round &
     * 1]: the value to wait for, and the member whose phase flag must reach it. */
    uint64_t rooted, gate[2], gate_by[2];
    uint64_t reserved[4];
    /* arrived[n_pes], then phase[n_pes] */
#ifdef __CUDACC_RTC__
    uint64_t flags[1]; /* NVRTC refuses an array without a size */
#else
    uint64_t flags[];
#endif
};

/* Qualifiers of functions for host and device. */
#if WEFT_TARGET_GPU
#define WEFT_DEV_BOTH __host__ __device__ static inline
#else
#define WEFT_DEV_BOTH static inline
#endif

/* Phase of a ticket: never 0, the value in a new ring, and different for consecutive tickets of a
 * slot. */
WEFT_DEV_BOTH uint64_t weft_dev_ring_phase(uint64_t ticket, uint32_t slot_bits)
{
    return (ticket >> slot_bits & 127) + 1;
}

/* Sequence number in both halves of a ticket's result, which distinguishes it from results of
 * earlier tickets in the same slot. It is 0, the value in a new ring, only after 2^32 - 1
 * others. */
WEFT_DEV_BOTH uint32_t weft_dev_ring_number(uint64_t ticket, uint32_t slot_bits)
{
    return (uint32_t)(ticket >> slot_bits) + 1;
}

WEFT_DEV_BOTH size_t weft_dev_area_bytes(int n_pes)
{
    size_t bytes = 16 * sizeof(uint64_t) + 2 * (size_t)n_pes * sizeof(uint64_t);
    return (bytes + 127) & ~(size_t)127;
}

/* Packet staging buffer of a team at one PE: two sets, used in turn, with a slot for each PE. A
 * slot has weft_dev_slot_bytes() bytes, half of them payload. The world and the node (teams 0 and
 * 1) have larger slots: programs use them most, and every possible team has a staging buffer. */
enum { WEFT_DEV_WIDE_TEAMS = 2 };

WEFT_DEV_BOTH size_t weft_dev_slot_bytes(int n_pes, int team)
{
    size_t room = team < WEFT_DEV_WIDE_TEAMS ? 128 * 1024 : 4096;
    size_t slot = room / 2 / (size_t)n_pes / 32 * 32;
    return slot ? slot : 32;
}

WEFT_DEV_BOTH size_t weft_dev_staging_bytes(int n_pes, int team)
{
    return 2 * (size_t)n_pes * weft_dev_slot_bytes(n_pes, team);
}

/* Offset of a team's staging buffer from the start of the first area, in bytes; with team =
 * n_teams: size of the areas and staging buffers of all teams. */
WEFT_DEV_BOTH size_t weft_dev_staging_offset(int n_pes, int n_teams, int team)
{
    size_t wide = (size_t)(team < WEFT_DEV_WIDE_TEAMS ? team : WEFT_DEV_WIDE_TEAMS);
    size_t areas = (size_t)n_teams * weft_dev_area_bytes(n_pes);
    return areas + wide * weft_dev_staging_bytes(n_pes, 0) +
           ((size_t)team - wide) * weft_dev_staging_bytes(n_pes, WEFT_DEV_WIDE_TEAMS);
}

/* ------------------------------------------------------------------------- the black box */

/* X(id, name): device operations, with the names that records use. */
#define WEFT_DEV_OPERATIONS(X)                                                                     \
    X(NONE, "nothing")                                                                             \
    X(P, "p")                                                                                      \
    X(G, "g")                                                                                      \
    X(PUT, "put")                                                                                  \
    X(GET, "get")                                                                                  \
    X(IPUT, "iput")                                                                                \
    X(IGET, "iget")                                                                                \
    X(PUT_SIGNAL, "put_signal")                                                                    \
    X(SIGNAL, "signal")                                                                            \
    X(SIGNAL_WAIT, "signal_wait")                                                                  \
    X(ATOMIC, "atomic")                                                                            \
    X(WAIT, "wait_until")                                                                          \
    X(WAIT_ALL, "wait_until_all")                                                                  \
    X(WAIT_ANY, "wait_until_any")                                                                  \
    X(WAIT_SOME, "wait_until_some")                                                                \
    X(PUT_PACKET, "put_packet")                                                                    \
    X(TAKE_PACKET, "take_packet")                                                                  \
    X(SYNC, "sync")                                                                                \
    X(BARRIER, "barrier")                                                                          \
    X(BROADCAST, "broadcast")                                                                      \
    X(ALLGATHER, "allgather")                                                                      \
    X(ALLTOALL, "alltoall")                                                                        \
    X(ALLREDUCE, "allreduce")                                                                      \
    X(REDUCESCATTER, "reducescatter")                                                              \
    X(FENCE, "fence")                                                                              \
    X(QUIET, "quiet")                                                                              \
    X(FLAG, "flag")                                                                                \
    X(GATHER, "gather")                                                                            \
    X(SCATTER, "scatter")                                                                          \
    X(COLLECT, "collect")                                                                          \
    X(ALLTOALLV, "alltoallv")                                                                      \
    X(GRID, "grid")                                                                                \
    X(CONNECT, "connect")                                                                          \
    X(SEND, "send")                                                                                \
    X(RECEIVE, "receive")

enum weft_dev_operation {
#define WEFT_DEV_OPERATION_ENUM(id, name) WEFT_DEV_OP_##id,
    WEFT_DEV_OPERATIONS(WEFT_DEV_OPERATION_ENUM)
#undef WEFT_DEV_OPERATION_ENUM
        WEFT_DEV_OP_COUNT
};

/* X(ID): operations of atomics. */
#define WEFT_DEV_ATOMICS(X)                                                                        \
    X(ADD)                                                                                         \
    X(AND)                                                                                         \
    X(OR)                                                                                          \
    X(XOR)                                                                                         \
    X(SWAP)                                                                                        \
    X(CSWAP)                                                                                       \
    X(FETCH)                                                                                       \
    X(SET)                                                                                         \
    X(ADD_F32)                                                                                     \
    X(ADD_F64)                                                                                     \
    X(ADD_F16X2)                                                                                   \
    X(ADD_BF16X2)

enum weft_dev_atomic {
#define WEFT_DEV_ATOMIC_ENUM(ID) WEFT_DEV_ATOMIC_##ID,
    WEFT_DEV_ATOMICS(WEFT_DEV_ATOMIC_ENUM)
#undef WEFT_DEV_ATOMIC_ENUM
};

enum weft_dev_record_state {
    WEFT_DEV_RECORD_FREE,
    WEFT_DEV_RECORD_WAITING, /* a wait that is taking long and has not ended */
    WEFT_DEV_RECORD_EXPIRED, /* the wait limit passed */
    WEFT_DEV_RECORD_REFUSED, /* an operation that was refused: address, PE or path */
};

/* One operation that waits or has failed. One thread of the device writes it, with `state` last.
 * The host and other processes read it, and may see it torn. */
struct weft_dev_record {
    uint32_t state;     /* enum weft_dev_record_state */
    uint32_t operation; /* enum weft_dev_operation */
    uint64_t ticket;    /* index of the record, from 0 */
    int32_t status;     /* weft_status; 0 while waiting */
    int32_t peer;       /* PE of the job, -1 = any or unknown */
    int32_t team;       /* -1 = none */
    uint32_t compare;   /* weft_cmp */
    uint64_t address;   /* of the variable or the operand, as the device uses it */
    uint64_t expected, seen;
    uint64_t waited_ns;
    uint32_t block, thread; /* ranks */
};

enum { WEFT_DEV_RECORDS = 32 };

/* Words that members compare in checking mode (check.h). A record of a difference has the code in
 * `address`. The first are those of enum coll_header of src/gpu/coll/kernels.h; device code adds
 * others. */
enum weft_dev_arg {
    WEFT_DEV_ARG_KIND, /* bit fields from the lowest bit: operation 8, type 8, op 8, root + 1
                           16, members 16, enum weft_dev_wrong 2, zero 5, grid 1 */
    WEFT_DEV_ARG_BYTES,
    WEFT_DEV_ARG_DETAIL,
    WEFT_DEV_ARG_TO = 8, /* WEFT_DEV_PLACE() of dst */
    WEFT_DEV_ARG_FROM,   /* WEFT_DEV_PLACE() of src */
    WEFT_DEV_ARG_ELEMENT,
};

/* Errors that a member finds by itself and sends to the others. */
enum weft_dev_wrong { WEFT_DEV_WRONG_NOTHING, WEFT_DEV_WRONG_OVERLAP, WEFT_DEV_WRONG_RANGE };

/* A symmetric address in a form that is equal at every PE; 0 is none. */
#define WEFT_DEV_PLACE(segment, offset) (((uint64_t)(segment) + 1) << 60 | (offset))

/* Word with operation, team, and the PE that was waited for (this PE when the wait was for its own
 * blocks). */
#define WEFT_DEV_LEFT(operation, team, pe)                                                         \
    ((uint64_t)1 << 63 | (uint64_t)(operation) << 48 | (uint64_t)(uint16_t)(team) << 32 |          \
     (uint64_t)(uint32_t)(pe))

/* The device's part of the black box, in memory that the device, the host and `weft attach` can
 * access. */
struct weft_dev_box {
    uint32_t version;
    int32_t failed;   /* weft_status of the first operation that failed, 0 = none */
    uint64_t tickets; /* number of records begun; on cuda the count itself is in device memory */
    /* WEFT_DEV_LEFT(): the collective that a thread left because the job had failed; 0: none */
    uint64_t left;
    uint64_t reserved[5];
    struct weft_dev_record records[WEFT_DEV_RECORDS]; /* record t is at index t %
                                                         WEFT_DEV_RECORDS */
};

/* ------------------------------------------------------------------------------- the state */

struct weft_dev {
    uint32_t version; /* WEFT_DEV_VERSION; 0 = no job is running */
    uint32_t bytes;
    int32_t me, n_pes;
    struct weft_dev_segment segment[WEFT_DEV_PARTS];
    const struct weft_dev_peer *peers; /* [n_pes] */
    const struct weft_dev_team *teams; /* [n_teams] */
    uint32_t n_teams;
    uint32_t all_atomics;   /* 1: peers[].atomics is 1 for every PE that has direct addresses */
    uint32_t carried;       /* one bit per transport that a peer uses: fence and quiet call those */
    uint32_t slot_bytes[2]; /* weft_dev_slot_bytes() of teams 0 and 1, and of the others */
    uint32_t all_direct;    /* 1: every PE of the job reaches every other by load and store */
    uint64_t rooms;         /* weft_dev_staging_offset() of team 0 */
    uint64_t wait_limit_ns; /* 0 = none */
    struct weft_dev_box *box;
    uint64_t *tickets; /* count for box->records; on cuda in device memory, on simt box->tickets */
    struct weft_dev_ring ring; /* by value: a pointer would cost one more load each time */
    struct weft_dev_gda gda;   /* likewise; each == 0: no peer uses transport gda */
    uint64_t
        checking; /* 1: WEFT_CHECK=1, members compare the arguments of collectives (staging.h) */
    uint64_t reserved[5];
};

#ifdef __cplusplus
}
#endif

#endif
