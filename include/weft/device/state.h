/* SPDX-License-Identifier: Apache-2.0 */
/* What device code knows of its job: `struct weft_dev`, of which every translation unit that
 * includes <weft_device.h> holds a copy, written by the library (src/job/device_state.c fills it
 * for both targets). Plain data and addresses as the device sees them; no operations.
 *
 * The same text for gcc, clang and nvcc; layout is the same on both sides. A library fills no more
 * than the `bytes` that a unit was compiled with, and refuses another `version`. */
#ifndef WEFT_DEVICE_STATE_H
#define WEFT_DEVICE_STATE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { WEFT_DEV_VERSION = 13 };

/* Segments, in the order in which operations look for an address. */
enum weft_dev_segment_id {
    WEFT_DEV_HEAP,  /* the heap of the target's own kind: GPU heap on cuda, host heap on simt */
    WEFT_DEV_OTHER, /* the other heap, where device code can reach it */
    WEFT_DEV_DATA,  /* the program's global data (simt only) */
    WEFT_DEV_SEGMENTS,
    WEFT_DEV_AREAS = WEFT_DEV_SEGMENTS, /* of teams: the library's own, no operation's address */
    WEFT_DEV_PARTS
};

/* One segment. PEs whose parts are mapped at equal distances, as the parts of one node's PEs are,
 * are reached by arithmetic alone; weft_dev_peer.part is for the others. */
struct weft_dev_segment {
    uint64_t base;   /* own part: symmetric addresses of this segment start here */
    uint64_t size;   /* bytes; 0 = there is no such segment */
    uint64_t shift;  /* an address in the own part is loaded and stored at PE pe, first <= pe < */
    uint64_t stride; /* first + count, at address + shift + pe * stride (modulo 2^64) */
    int32_t first;
    uint32_t count; /* 0: look into weft_dev_peer.part */
};

/* X(ID, name): what carries operations to a peer that device code has no direct address of. Each is
 * a file of its own, <weft/device/NAME.h>, included by <weft_device.h>, that defines
 *     uint64_t weft_dev_NAME_request(struct weft_dev_request *request)
 *     void weft_dev_NAME_order(int quiet)
 * and a line here; a new WEFT_DEV_VERSION goes with it. See remote.h.
 *
 * Calls that may be made cost a kernel on a GPU registers and time, also where none is made. So
 * path gda's are compiled for one where the file defines WEFT_DEVICE_GDA; elsewhere the proxy takes
 * what is for such a peer, and its thread gives it to path gda. */
#ifndef WEFT_DEV_CARRIERS
#if defined __CUDACC__ && !defined WEFT_DEVICE_GDA
#define WEFT_DEV_CARRIERS(X)   X(PROXY, proxy)
#define WEFT_DEV_PROXY_FOR_GDA 1
#else
#define WEFT_DEV_CARRIERS(X) X(PROXY, proxy) X(GDA, gda)
#endif
/* On simt, where what a request costs in memory counts for more than registers, some also take a
 * single value as it is:
 *     void weft_dev_NAME_p_value(const void *symmetric, unsigned bytes, uint64_t value, int pe) */
#ifndef __CUDACC__
#define WEFT_DEV_VALUE_CARRIERS(X) X(GDA, gda)
#endif
#endif
#ifndef WEFT_DEV_PROXY_FOR_GDA
#define WEFT_DEV_PROXY_FOR_GDA 0
#endif

#ifndef WEFT_DEV_VALUE_CARRIERS
#define WEFT_DEV_VALUE_CARRIERS(X)
#endif

enum weft_dev_carrier {
    WEFT_DEV_CARRIER_NONE,
#define WEFT_DEV_CARRIER_ENUM(ID, name) WEFT_DEV_CARRIER_##ID,
    WEFT_DEV_CARRIERS(WEFT_DEV_CARRIER_ENUM)
#undef WEFT_DEV_CARRIER_ENUM
        WEFT_DEV_CARRIER_END
};

/* One PE as a peer, in device-accessible memory. Direct addresses and atomics over a link are
 * decided for each of them. */
struct weft_dev_peer {
    uint64_t part[WEFT_DEV_PARTS]; /* where its part of each segment is; 0 = no direct address */
    uint32_t atomics;              /* 1: atomics by the device's own instructions reach it */
    uint32_t carrier;              /* enum weft_dev_carrier: for all that is not direct */
    uint32_t path;                 /* for messages: number of the path as the host has it */
    uint32_t ring;                 /* of the proxy: what is given for this PE, whoever gives it */
    uint32_t reserved[4];
};

/* The rings by which device code gives operations to threads of the host, one each (proxy.h).
 * `words`, `results` and `bounce` are in host memory that the device reads and writes, as are the
 * counts that the host writes; the rest is the device's own.
 *
 * All rings share one sequence of tickets, which begins at 0 and never wraps: of `step` of them,
 * one after the other, ring r has number r. So ticket t has place t % slots, and place t % bounces
 * for values that it brings, which no other ring uses; and counts of a ring are multiples of
 * `step`: n says that its tickets below n are meant. With one ring step is 1, and they are what
 * they are called. */
struct weft_dev_ring {
    uint32_t slots; /* 1 << slot_bits, of all rings; 0: there is none */
    uint32_t slot_bits;
    uint64_t *words;   /* [slots][WEFT_DEV_RING_WORDS] */
    uint64_t *results; /* [slots][2] packets: 4 bytes of the value and 4 of the number, twice */
    /* [rings][WEFT_DEV_RING_APART], of each: tickets that were carried out, so that their places
     * and sources are free; at WEFT_DEV_RING_COMPLETED those whose effects every PE sees. */
    const uint64_t *released;
    /* [rings][WEFT_DEV_RING_APART], of each: the next ticket; and see enum weft_dev_ring_own. */
    uint64_t *head;
    uint64_t *reading; /* [slots] results begun and taken; odd while one is under way */
    char *bounce;      /* [bounces][WEFT_DEV_BOUNCE_BYTES] values of a run, see proxy.h */
    uint64_t bounces;  /* a power of two, at most slots */
    uint32_t rings;
    uint64_t step; /* a power of two, not less than rings */
};

enum { WEFT_DEV_RINGS_MOST = 8 };

/* Words from one ring's counts to the next one's, and from `released` of a ring to what is
 * complete: each in a line of its own. */
enum { WEFT_DEV_RING_APART = 32, WEFT_DEV_RING_COMPLETED = 16 };

/* The device's own words of a ring, from its `head` on. */
enum weft_dev_ring_own {
    WEFT_DEV_RING_KNOWN = 16, /* `released` as the device saw it last */
    WEFT_DEV_RING_LOOKS,      /* 1: a thread that waits looks at it now */
    WEFT_DEV_RING_FENCED,     /* where `head` stood behind the last fence */
    WEFT_DEV_RING_QUIETED,    /* where it stood behind the last quiet */
    WEFT_DEV_RING_DONE,       /* what is complete, as the device saw it last */
    WEFT_DEV_RING_DONE_LOOKS, /* as above */
};

/* A descriptor is 8 words of 8 bytes. The top byte of each is the phase of the ticket, so that the
 * host sees which have arrived, in whatever order they do; nothing is cleared between uses. */
enum { WEFT_DEV_RING_WORDS = 8, WEFT_DEV_RING_SHIFT = 56 };
#define WEFT_DEV_RING_MASK (((uint64_t)1 << WEFT_DEV_RING_SHIFT) - 1)

enum weft_dev_ring_flag {
    WEFT_DEV_RING_FETCHES = 1, /* a result is waited for */
    WEFT_DEV_RING_WAITED = 2,  /* somebody waits until the ticket is released */
    WEFT_DEV_RING_BOUNCED = 4, /* p: the values stand in the ticket's place of `bounce` */
};

/* A place of `bounce`: lines of 64 bytes for the 32 values of 8 bytes that a warp can give, which
 * begin as far behind the start of a line as they do at the peer, so that whoever copies them has
 * both sides aligned alike. */
enum { WEFT_DEV_BOUNCE_LINE = 64, WEFT_DEV_BOUNCE_BYTES = 5 * WEFT_DEV_BOUNCE_LINE };

/* What device code needs to give operations to queues of the network adapter (gda.h). In
 * device-accessible memory. What each part lies in is registered in chunks of 1 << chunk_bits
 * bytes, each with a key at every adapter, which are found by the queue; chunks are numbered
 * through all that is registered. A part begins `skip` bytes behind the start of the first of its
 * chunks. */
struct weft_dev_gda {
    struct weft_dev_gda_queue *queues; /* [n_pes][each] */
    uint32_t each;
    uint32_t fraction; /* of 2^32: see weft_dev_gda_fraction() */
    uint32_t adapters; /* queue k of a PE leads from adapter k % adapters here to that one there */
    uint32_t chunk_bits[WEFT_DEV_PARTS];
    uint32_t first[WEFT_DEV_PARTS]; /* number of a part's first chunk */
    uint64_t skip[WEFT_DEV_PARTS];
    uint64_t own[WEFT_DEV_PARTS]; /* where the first chunk of each is registered here */
    const uint64_t *bases;        /* [n_pes][WEFT_DEV_PARTS] and at the others */
    uint64_t *used;               /* bit per queue that has ever been used */
    /* How far behind a key of strict order the key of relaxed order stands; 0: there is none. */
    uint32_t data_keys;
    uint32_t dumps;   /* 1: what was read into own memory this GPU sees behind a DUMP alone */
    uint32_t ordered; /* flags of a request that is carried out behind all before it */
    uint32_t reserved;
};

/* A team, found by the number that weft_team_device() gives. In device-accessible memory. */
struct weft_dev_team {
    int32_t n;             /* members; 0 = no such team */
    int32_t me;            /* own number in it */
    int32_t start, stride; /* member i is PE start + i * stride ... */
    const int32_t *pes;    /* ... unless this is not NULL: [n] */
    uint32_t direct;       /* 1: every member is reached by load and store, atomics included */
    uint32_t all_direct;   /* 1: by every member; the same at each of them */
    uint32_t reserved[2];
};

/* Synchronisation area of one team at one PE, zeroed when the team is made. `arrived[i]` and
 * `phase[i]` are written by member i alone (simt.h's atomics; see collective.h for the protocol).
 * Areas of all teams stand one after the other: area of team t at t * weft_dev_area_bytes(n_pes),
 * and behind them all the packet rooms of the teams. */
struct weft_dev_area {
    uint64_t syncs;   /* own count of syncs and barriers that were completed */
    uint64_t phases;  /* own count of data collectives that were completed */
    uint64_t packets; /* own count of collectives in packets that were completed */
    /* Of several blocks that share a collective (grid.h), all of the grid [0] or the first ones
     * [1]: those that have come to its present step, and twice the number of steps done, odd where
     * the last one failed. */
    uint64_t grid_arrived[2], grid_released[2];
    /* Of rounds of packets that one member alone has received (room.h): the latest, 0 for none; and
     * what to wait for before this PE sends in the one behind it, [number & 1], or behind that:
     * which phase flag, and what it has then. */
    uint64_t rooted, owed[2], owed_by[2];
    uint64_t reserved[4];
    uint64_t flags[]; /* arrived[n_pes], then phase[n_pes] */
};

/* Functions of host and device. */
#ifdef __CUDACC__
#define WEFT_DEV_BOTH __host__ __device__ static inline
#else
#define WEFT_DEV_BOTH static inline
#endif

/* Of a ticket: never 0, as in a new ring, and another one when the place is used next. */
WEFT_DEV_BOTH uint64_t weft_dev_ring_phase(uint64_t ticket, uint32_t slot_bits)
{
    return (ticket >> slot_bits & 127) + 1;
}

/* By which the halves of its result are told from those of earlier tickets of the same place; 0, as
 * in a new ring, comes after 2^32 - 1 others. */
WEFT_DEV_BOTH uint32_t weft_dev_ring_number(uint64_t ticket, uint32_t slot_bits)
{
    return (uint32_t)(ticket >> slot_bits) + 1;
}

WEFT_DEV_BOTH size_t weft_dev_area_bytes(int n_pes)
{
    size_t bytes = 16 * sizeof(uint64_t) + 2 * (size_t)n_pes * sizeof(uint64_t);
    return (bytes + 127) & ~(size_t)127;
}

/* Packet room of a team at one PE: two sets, used in turn, of a slot for each PE. A slot takes
 * weft_dev_slot_bytes() on the wire, half of it payload. The world and the node (teams 0 and 1)
 * have more: they are what programs use most, and a room for each team that there may be is
 * kept. */
enum { WEFT_DEV_WIDE_TEAMS = 2 };

WEFT_DEV_BOTH size_t weft_dev_slot_bytes(int n_pes, int team)
{
    size_t room = team < WEFT_DEV_WIDE_TEAMS ? 128 * 1024 : 4096;
    size_t slot = room / 2 / (size_t)n_pes / 32 * 32;
    return slot ? slot : 32;
}

WEFT_DEV_BOTH size_t weft_dev_room_bytes(int n_pes, int team)
{
    return 2 * (size_t)n_pes * weft_dev_slot_bytes(n_pes, team);
}

/* Where a team's room begins, from the start of the first area; with team = n_teams: the size of
 * areas and rooms of all teams. */
WEFT_DEV_BOTH size_t weft_dev_room_offset(int n_pes, int n_teams, int team)
{
    size_t wide = (size_t)(team < WEFT_DEV_WIDE_TEAMS ? team : WEFT_DEV_WIDE_TEAMS);
    size_t areas = (size_t)n_teams * weft_dev_area_bytes(n_pes);
    return areas + wide * weft_dev_room_bytes(n_pes, 0) +
           ((size_t)team - wide) * weft_dev_room_bytes(n_pes, WEFT_DEV_WIDE_TEAMS);
}

/* ------------------------------------------------------------------------- the black box */

/* X(id, name): device operations, as records name them. */
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
    X(FCOLLECT, "fcollect")                                                                        \
    X(ALLTOALL, "alltoall")                                                                        \
    X(REDUCE, "reduce")                                                                            \
    X(REDUCESCATTER, "reducescatter")                                                              \
    X(FENCE, "fence")                                                                              \
    X(QUIET, "quiet")                                                                              \
    X(FLAG, "flag")                                                                                \
    X(GATHER, "gather")                                                                            \
    X(SCATTER, "scatter")                                                                          \
    X(COLLECT, "collect")                                                                          \
    X(ALLTOALLV, "alltoallv")                                                                      \
    X(GRID, "grid")

enum weft_dev_operation {
#define WEFT_DEV_OPERATION_ENUM(id, name) WEFT_DEV_OP_##id,
    WEFT_DEV_OPERATIONS(WEFT_DEV_OPERATION_ENUM)
#undef WEFT_DEV_OPERATION_ENUM
        WEFT_DEV_OP_COUNT
};

/* X(ID): what an atomic does. */
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
    WEFT_DEV_RECORD_WAITING, /* has waited for a while and still does */
    WEFT_DEV_RECORD_EXPIRED, /* the wait limit passed */
    WEFT_DEV_RECORD_REFUSED, /* the operation could not be done: address, PE or path */
};

/* One operation that waits, or that went wrong. Written by one thread of the device, everything
 * before `state`; read by the host and by other processes, as possibly torn. */
struct weft_dev_record {
    uint32_t state;     /* enum weft_dev_record_state */
    uint32_t operation; /* enum weft_dev_operation */
    uint64_t ticket;    /* number of the record, from 0 */
    int32_t status;     /* weft_status; 0 while waiting */
    int32_t peer;       /* PE of the job, -1 = any or unknown */
    int32_t team;       /* -1 = none */
    uint32_t compare;   /* weft_cmp */
    uint64_t address;   /* of the variable or the operand, as the device sees it */
    uint64_t expected, seen;
    uint64_t waited_ns;
    uint32_t block, thread; /* ranks */
};

enum { WEFT_DEV_RECORDS = 32 };

/* What members compare in checking mode (check.h), as a record of a difference has it in `address`:
 * words of enum coll_header of src/gpu/coll/kernels.h, and those that device code has besides. */
enum weft_dev_told {
    WEFT_DEV_TOLD_KIND, /* operation, type, op, root + 1, members, enum weft_dev_wrong, 0, grid: 8,
                           8, 8, 16, 16, 2, 5, 1 bits */
    WEFT_DEV_TOLD_BYTES,
    WEFT_DEV_TOLD_DETAIL,
    WEFT_DEV_TOLD_TO = 8, /* WEFT_DEV_PLACE() of dst */
    WEFT_DEV_TOLD_FROM,   /* and of src */
    WEFT_DEV_TOLD_ELEMENT,
};

/* What a member sees by itself, and tells the others. */
enum weft_dev_wrong { WEFT_DEV_WRONG_NOTHING, WEFT_DEV_WRONG_OVERLAP, WEFT_DEV_WRONG_RANGE };

/* A symmetric place, the same number at every PE; 0 is none. */
#define WEFT_DEV_PLACE(segment, offset) (((uint64_t)(segment) + 1) << 60 | (offset))

/* Operation, team and the PE that was waited for, or this one where its own blocks were, in one
 * word. */
#define WEFT_DEV_LEFT(operation, team, pe)                                                         \
    ((uint64_t)1 << 63 | (uint64_t)(operation) << 48 | (uint64_t)(uint16_t)(team) << 32 |          \
     (uint64_t)(uint32_t)(pe))

/* In memory that both the device and the host (and `weft attach`) can read and write. */
struct weft_dev_box {
    uint32_t version;
    int32_t failed;   /* weft_status of the first operation that went wrong, 0 = none */
    uint64_t tickets; /* records begun; on cuda the count itself is in device memory */
    uint64_t
        left; /* WEFT_DEV_LEFT(): the collective that was left since the job has failed; 0: none */
    uint64_t reserved[5];
    struct weft_dev_record records[WEFT_DEV_RECORDS]; /* record t at t % WEFT_DEV_RECORDS */
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
    uint32_t carried;       /* bit per carrier that some peer has: fence and quiet ask those */
    uint32_t slot_bytes[2]; /* weft_dev_slot_bytes() of the first teams, and of the others */
    uint32_t all_direct;    /* 1: every PE of the job reaches every other by load and store */
    uint64_t rooms;         /* weft_dev_room_offset() of team 0 */
    uint64_t wait_limit_ns; /* 0 = none */
    struct weft_dev_box *box;
    uint64_t *tickets; /* for box->records; on cuda in device memory, on simt box->tickets */
    struct weft_dev_ring ring; /* here, not behind an address: its own would be loaded each time */
    const struct weft_dev_gda *gda; /* NULL: no peer has that carrier */
    uint64_t checking; /* 1: WEFT_CHECK=1, members compare what they are about to do (room.h) */
    uint64_t reserved[5];
};

#ifdef __cplusplus
}
#endif

#endif
