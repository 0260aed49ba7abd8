/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of collectives (src/gpu/coll/kernels.cu) alone. The members of two teams are grids on
 * streams of one process, on one GPU or on the executor of CPU threads. Blocks have many threads,
 * so every exchange of data is between threads that a litmus test or ThreadSanitizer can observe.
 *   device_coll_rounds [SEED [ROUNDS]]
 * The program draws rounds of every kernel, size, flow and number of blocks, in both teams
 * concurrently, with one member delayed at times. It compares every byte of every destination, and
 * the bytes around it, with the expected value. The sources of a round are overwritten as soon as
 * the round permits, and the owner clears its destination just before a round, so an entry or an
 * end that is too early shows.
 *
 * Compiled with COLL_REMOVED, one part of the synchronization is missing. The program then passes
 * if it sees wrong data, and is skipped (77) if this machine shows none:
 *   fence    before the flags that say that stores have arrived
 *   acquire  of the loads of flags
 *   here     simple stores do not wait until destinations are ready
 *   slots    LL packets do not wait until the slots have been read
 *   meet     the threads of a block do not synchronize before one of them sets the flag
 *   half     of an LL packet only the flag of the first half is checked
 *   release  the barrier of streams (weft_kernel_barrier) sets its flags by relaxed stores
 *   line     lanes store the flag of an LL128 line before the other lanes have stored their
 *            payload */
#define WEFT_KERNEL_THREADS 256
#include "device_test.h"

#include <weft/device/arithmetic.h>
#include <weft/device/move.h>
#include <weft/device/packet_unit.h>

#include "gpu/kernel_record.h"

#define REMOVED_fence   1
#define REMOVED_acquire 2
#define REMOVED_here    3
#define REMOVED_slots   4
#define REMOVED_meet    5
#define REMOVED_half    6
#define REMOVED_release 7
#define REMOVED_line    8
#ifdef COLL_REMOVED
#define REMOVED WEFT_PP_CAT(REMOVED_, COLL_REMOVED)
#else
#define REMOVED 0
#endif

/* The kernels become device functions. */
#undef KERNEL
#undef KERNEL_OF_512
#define KERNEL        WEFT_DEVICE void
#define KERNEL_OF_512 WEFT_DEVICE void
/* Nothing runs before these kernels, and a program's PTX is for GPUs that lack the instruction. */
#undef GRID_WAIT
#define GRID_WAIT() ((void)0)

/* The macros below change only the text of the kernels. */
#if REMOVED == REMOVED_fence
#define weft_dev_fence(order, scope) ((void)0)
#elif REMOVED == REMOVED_acquire
#define weft_dev_load_u64(p, order, scope) (weft_dev_load_u64)(p, RELAXED, scope)
#elif REMOVED == REMOVED_half
#define weft_dev_packet_ready(v, number) ((uint32_t)((v).lo >> 32) == (number))
#elif REMOVED == REMOVED_line /* some of the other lanes are delayed */
#define weft_dev_sync_warp(mask)           ((void)0)
WEFT_DEVICE void store_late(void *p, struct weft_dev_vec16 v)
{
    if (weft_dev_lane() % 8 == 3)
        weft_dev_nanosleep(1000);
    weft_dev_store_vec16_relaxed(p, v);
}
#define weft_dev_store_vec16_relaxed(p, v) store_late(p, v)
#endif

#include "gpu/coll/round.h"

/* ThreadSanitizer does not know three orders that need no instruction on a GPU: what a stream did
 * before a kernel is complete when the kernel sets `here` or sends its offset; stores to an address
 * that was received follow the load of that address; and a value that a thread has used was loaded
 * before the thread sets `done`. */
#if WEFT_TARGET_SIMT && WEFT_SIMT_TSAN
#include <sanitizer/tsan_interface.h>
#define DONE_BEFORE(p)    __tsan_release((void *)(uintptr_t)(p))
#define ADDRESS_BEHIND(p) __tsan_acquire((void *)(uintptr_t)(p))
#else
#define DONE_BEFORE(p)    ((void)(p))
#define ADDRESS_BEHIND(p) ((void)(p))
#endif

WEFT_DEVICE void streams_order(const struct coll_call *c)
{
    for (int i = 0; i < c->members; i++)
        if (i != c->me)
            DONE_BEFORE(&member_area(c, i)->here[c->me]);
}

WEFT_DEVICE void offers_order(const struct coll_call *c)
{
    for (int i = 0; i < c->members && c->sized.room; i++)
        if (i != c->me)
            ADDRESS_BEHIND(&member_area(c, c->me)->here[i]);
}

WEFT_DEVICE void loads_order(const struct round *r)
{
    const struct coll_call *c = r->c;
    for (int i = 0; i < c->members; i++)
        if (i != c->me)
            DONE_BEFORE(&member_area(c, i)->done[c->me][r->block]);
}

WEFT_DEVICE void end_of_round(struct round *r, int fenced)
{
    if (!fenced)
        loads_order(r);
#if REMOVED == REMOVED_meet
    if (weft_dev_thread_x() < (unsigned)r->c->members && fenced)
        weft_dev_fence(ORDERED, SYSTEM);
    if (weft_dev_thread_x() == 0)
        for (int i = 0; i < r->c->members; i++)
            if (i != r->c->me)
                weft_dev_store_u64(&member_area(r->c, i)->done[r->c->me][r->block], r->number,
                                   RELAXED, SYSTEM);
#endif
    round_end(r, fenced);
}
#define round_end end_of_round
#define weft_dev_move(to, from, bytes, rank, threads, how)                                         \
    (offers_order(c), (weft_dev_move)(to, from, bytes, rank, threads, how))
#if REMOVED == REMOVED_here
#define await_here(r, number) ((void)(number))
#elif REMOVED == REMOVED_slots
#define await_slots(r) ((void)(r))
#endif

#include "gpu/coll/kernels.cu"

#undef weft_dev_move
#if REMOVED == REMOVED_release
#define weft_dev_store_u64(p, value, order, scope) (weft_dev_store_u64)(p, value, RELAXED, scope)
#endif

#include "gpu/kernels.cu"

#undef weft_dev_store_u64
#undef weft_dev_fence
#undef weft_dev_sync_warp
#undef weft_dev_store_vec16_relaxed
#undef weft_dev_load_u64

enum {
    MEMBERS = 4,
    TEAMS = 2,
    SET = 32 << 10,
    ROOM = 96 << 10, /* bytes of a source, and of a destination */
    GUARD = 512,
    UNTOUCHED = 0xa5,
    STRIDE = ROOM / MEMBERS
};

enum what {
    BROADCAST,
    ALLGATHER,
    ALLTOALL,
    GATHER,
    SCATTER,
    ALLREDUCE,
    REDUCESCATTER,
    REDUCE,
    COLLECT,
    ALLTOALLV,
    SYNC, /* of streams: each member then reads what the next one has stored in its own memory */
    WHATS
};
enum way { PACKETS, TWO_TRIPS, LINES, TWO_LINES, DIRECT, SCRATCH, PROOF, WAYS };

/* The memory of one member. */
struct window {
    struct coll_area area;
    char sets[4][SET]; /* two for LL, two for LL128 */
    char src[ROOM];
    char before[GUARD], dst[ROOM + GUARD];
    uint64_t counts[MEMBERS], src_at[MEMBERS], room_of[MEMBERS], dst_at[MEMBERS];
    uint64_t wrong, first_wrong, unproven,
        worst_proof; /* results of the LL128 test, enum coll_proof */
    uint64_t meeting[sizeof(struct gpu_team_area) / 8 + MEMBERS];
};

/* The parameters of a round, the same for all its members. */
struct plan {
    int what, way, root, late, members;
    unsigned blocks, threads, chunks;
    uint64_t bytes, number;
};

WEFT_DEV_BOTH uint32_t said(uint64_t number, int from, uint64_t word)
{
    uint32_t x = (uint32_t)number * 2654435761u + (uint32_t)from * 0x9e3779b9u +
                 (uint32_t)word * 0x85ebca6bu + 1;
    x = (x ^ x >> 15) * 0x2c1b3c6du;
    return x ^ x >> 13;
}

WEFT_DEV_BOTH unsigned char said_byte(uint64_t number, int from, uint64_t at)
{
    return (unsigned char)(said(number, from, at / 4) >> 8 * (at & 3));
}

/* For collect and alltoallv: sizes of all kinds, including 0. */
WEFT_DEV_BOTH uint64_t size_of(const struct plan *p, int from, int to)
{
    uint32_t x = said(p->number, 64 + from, 1000 + (uint64_t)to);
    return x % 5 == 0 ? 0 : (x >> 3) % (p->bytes + 1);
}

WEFT_DEV_BOTH int wanted_of(const struct plan *p, int me, uint64_t at)
{
    uint64_t block = at / p->bytes, in = at % p->bytes;
    int n = p->members, is_root = me == p->root;
    switch (p->what) {
    case BROADCAST:
        return at < p->bytes ? said_byte(p->number, p->root, at) : UNTOUCHED;
    case SYNC:
        return at < p->bytes ? said_byte(p->number, (me + 1) % n, at) : UNTOUCHED;
    case SCATTER:
        return at < p->bytes ? said_byte(p->number, p->root, (uint64_t)me * p->bytes + at)
                             : UNTOUCHED;
    case ALLGATHER:
    case GATHER:
        if (p->what == GATHER && !is_root)
            return UNTOUCHED;
        return block < (uint64_t)n ? said_byte(p->number, (int)block, in) : UNTOUCHED;
    case ALLTOALL:
        return block < (uint64_t)n ? said_byte(p->number, (int)block, (uint64_t)me * p->bytes + in)
                                   : UNTOUCHED;
    case ALLTOALLV: {
        int from = (int)(at / STRIDE);
        uint64_t inside = at % STRIDE;
        return from < n && inside < size_of(p, from, me)
                   ? said_byte(p->number, from, (uint64_t)me * STRIDE + inside)
                   : UNTOUCHED;
    }
    case COLLECT:
        for (int from = 0; from < n; from++) {
            uint64_t size = size_of(p, from, 0);
            if (at < size)
                return said_byte(p->number, from, at);
            at -= size;
        }
        return UNTOUCHED;
    default: {
        uint64_t word = at / 4 + (p->what == REDUCESCATTER ? (uint64_t)me * p->bytes / 4 : 0);
        uint32_t sum = 0;
        if (at >= p->bytes || (p->what == REDUCE && !is_root))
            return UNTOUCHED;
        for (int from = 0; from < n; from++)
            sum += said(p->number, from, word);
        return (unsigned char)(sum >> 8 * (at & 3));
    }
    }
}

/* Runs before a round and after the end of the previous one. */
WEFT_KERNEL(fill, (struct window *, w), (struct plan, p), (int, me))
{
    uint64_t rank = weft_dev_grid_rank(), threads = weft_dev_grid_threads();
    if (p.late == me)
        for (int i = 0; i < 20; i++)
            weft_dev_nanosleep(10000);
    for (uint64_t i = rank; i < ROOM / 4; i += threads)
        ((uint32_t *)(void *)w->src)[i] = said(p.number, me, i);
    for (uint64_t i = rank; i < (GUARD + ROOM + GUARD) / 4; i += threads)
        ((uint32_t *)(void *)w->before)[i] = UNTOUCHED * 0x01010101u;
    if (rank)
        return;
    for (int k = 0; k < p.members; k++) {
        w->counts[k] = size_of(&p, me, k);
        w->src_at[k] = w->dst_at[k] = (uint64_t)k * STRIDE;
        w->room_of[k] = size_of(&p, k, me) + (uint64_t)(p.number % 3);
    }
}

WEFT_KERNEL(meet, (struct gpu_barrier, barrier), (struct gpu_reporting, reporting))
{
    weft_kernel_barrier(barrier, reporting);
}

WEFT_KERNEL(pull, (struct window *, w), (const struct window *, next), (uint64_t, bytes))
{
    for (uint64_t i = weft_dev_grid_rank(); i < bytes; i += weft_dev_grid_threads())
        w->dst[i] = next->src[i];
}

WEFT_KERNEL(check, (struct window *, w), (struct plan, p), (int, me))
{
    uint64_t rank = weft_dev_grid_rank(), threads = weft_dev_grid_threads();
    if (!rank && p.way == PROOF) {
        uint64_t found = w->area.proof >> COLL_PROOF_SHIFT;
        w->unproven += found != COLL_PROOF_GOOD;
        w->worst_proof = found > w->worst_proof ? found : w->worst_proof;
        w->area.proof = 0; /* for the next round */
    }
    const unsigned char *seen = (const unsigned char *)w + offsetof(struct window, before);
    for (uint64_t i = rank; i < GUARD + ROOM + GUARD; i += threads) {
        uint64_t at = i - GUARD;
        int wanted = i < GUARD || at >= ROOM || p.way == PROOF ? UNTOUCHED : wanted_of(&p, me, at);
        if (seen[i] != wanted &&
            weft_dev_atomic_add_u64(&w->wrong, 1, RELAXED, WEFT_SCOPE_GPU) == 0)
            weft_dev_store_u64(&w->first_wrong, p.number, RELAXED, WEFT_SCOPE_GPU);
    }
}

enum {
#define KIND(name) RUN_##name,
    COLL_KERNELS(KIND)
#undef KIND
};

WEFT_KERNEL(collective, (int, kernel), (struct coll_call, c))
{
    streams_order(&c);
    switch (kernel) {
#define CASE(name)                                                                                 \
    case RUN_##name:                                                                               \
        name(c);                                                                                   \
        return;
        COLL_KERNELS(CASE)
#undef CASE
    }
}

#if WEFT_HOST_CODE

static uint64_t seed;

static unsigned draw(unsigned most)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % most;
}

static int reduces(int what)
{
    return what == ALLREDUCE || what == REDUCESCATTER || what == REDUCE;
}

/* Whether the protocol supports that number of bytes. */
static int takes(const struct plan *p)
{
    int two = p->way == TWO_TRIPS || p->way == TWO_LINES;
    int lines = p->way == LINES || p->way == TWO_LINES;
    uint64_t n = (uint64_t)p->members, slots = two ? 2 * n : n;
    uint64_t unit = lines ? COLL_PIECE : COLL_UNIT, wire = lines ? COLL_PIECE_WIRE : COLL_UNIT_WIRE;
    uint64_t payload = SET / slots / wire * unit;
    if (p->way == PROOF)
        return p->what != SYNC;
    if (p->what == COLLECT || p->what == ALLTOALLV || p->what == SYNC)
        return p->way == DIRECT;
    if (p->way == DIRECT)
        return p->what != REDUCE;
    if (p->way == SCRATCH)
        return 1;
    if (two)
        return p->what == ALLREDUCE && n > 1 && p->bytes >= n * n * unit && p->bytes <= n * payload;
    return p->bytes <= payload;
}

/* Half of the rounds repeat the kind of the round before: a root that sends repeatedly must not
 * overrun a delayed member. */
/* Members that share a GPU may see parts of a line (an H200 shows it once in a thousand rounds or
 * so), and the library uses none there. */
static int draws_way(int way, int gpu)
{
    return !gpu || (way != LINES && way != TWO_LINES && way != PROOF);
}

static struct plan draw_plan(const struct plan *last, int members, uint64_t number, int gpu)
{
    struct plan p = {.members = members, .number = number};
    int again = draw(2) && last->members;
    do {
        unsigned most = 3 + draw(12); /* bits of the size */
        p.what = again ? last->what : (int)draw(WHATS);
        p.way = again ? last->way : (int)draw(WAYS);
        p.bytes = 1 + draw((1u << most) < STRIDE ? 1u << most : STRIDE);
        if (p.what == BROADCAST || p.what == ALLREDUCE)
            p.bytes *= (uint64_t)members;
        if (reduces(p.what))
            p.bytes = (p.bytes + 3) / 4 * 4;
    } while (!takes(&p) || !draws_way(p.way, gpu));
    p.root = again ? last->root : (int)draw((unsigned)members);
    p.late = draw(5) ? -1 : (int)draw((unsigned)members);
    p.blocks = 1u << draw(gpu ? 4 : 3);
    p.threads = 32 * (1 + draw(gpu ? 8 : 2));
    if (p.way == PROOF) /* as in the library, except for the size: one warp produces load */
        p.threads = 96;
    p.chunks = p.what == BROADCAST && p.way == DIRECT && members > 2 ? 1 + draw(5) : 0;
    return p;
}

static int kernel_of(const struct plan *p)
{
    if (p->way == PROOF)
        return RUN_weft_coll_prove_lines;
    if (p->what == COLLECT || p->what == ALLTOALLV)
        return RUN_weft_coll_push_sized;
    if (p->way == SCRATCH)
        return reduces(p->what) ? RUN_weft_coll_reduce_scratch : RUN_weft_coll_push_scratch;
    if (p->way == TWO_LINES)
        return RUN_weft_coll_reduce_two_lines;
    if (p->way == LINES)
        return reduces(p->what) ? RUN_weft_coll_reduce_one_lines : RUN_weft_coll_send_lines;
    if (p->way == TWO_TRIPS)
        return RUN_weft_coll_reduce_two;
    if (p->way == PACKETS)
        return reduces(p->what) ? RUN_weft_coll_reduce_one : RUN_weft_coll_send;
    if (reduces(p->what))
        return RUN_weft_coll_combine;
    return p->chunks ? RUN_weft_coll_spread : RUN_weft_coll_push;
}

static struct gpu_reporting reporting;

static struct coll_call call_of(const struct plan *p, struct window *const *w, int me)
{
    int from_blocks = p->what == ALLTOALL || p->what == SCATTER || p->what == REDUCESCATTER;
    int to_blocks = p->what == ALLGATHER || p->what == ALLTOALL || p->what == GATHER;
    int from_root = p->what == BROADCAST || p->what == SCATTER;
    int to_root = p->what == GATHER || p->what == REDUCE;
    struct coll_call c = {
        .dst = w[me]->dst,
        .src = w[me]->src,
        .to = offsetof(struct window, dst),
        .from = offsetof(struct window, src),
        .bytes = p->what == COLLECT ? size_of(p, me, 0) : p->bytes,
        .src_step = from_blocks ? p->bytes : 0,
        .dst_step = to_blocks ? p->bytes : 0,
        .set_bytes = SET,
        .members = p->members,
        .me = me,
        .root = from_root || to_root ? p->root : -1,
        .flow = from_root ? COLL_FROM
                : to_root ? COLL_TO
                          : COLL_ALL,
        .reduction.type = WEFT_UINT32,
        .reduction.op = WEFT_SUM,
        .reduction.everywhere = p->what == ALLREDUCE,
        .chunks = p->chunks,
        .sized.room = p->what == COLLECT || p->what == ALLTOALLV ? ROOM : 0,
        .record.reporting = reporting,
    };
    for (int i = 0; i < p->members; i++)
        c.part[i] = (char *)w[i];
    if (p->what == ALLTOALLV) {
        c.sized.counts = w[me]->counts;
        c.sized.src_at = w[me]->src_at;
        c.sized.room_of = w[me]->room_of;
        c.sized.dst_at = w[me]->dst_at;
    }
    return c;
}

/* Synchronizes before the other members read what a member stored, and again before its next
 * round. */
static void launch_sync(const struct plan *p, struct window *const *w, const weft_stream *streams,
                        int me)
{
    struct gpu_barrier barrier = {
        .operation = WEFT_DEV_OP_SYNC, .members = p->members, .me = me, .team = 0};
    for (int i = 0; i < p->members; i++)
        barrier.areas[i] = (struct gpu_team_area *)(void *)w[i]->meeting;
    OK(WEFT_LAUNCH(meet, 1, 32, 0, streams[me], barrier, reporting));
    OK(WEFT_LAUNCH(pull, 2, 64, 0, streams[me], w[me], w[(me + 1) % p->members], p->bytes));
    OK(WEFT_LAUNCH(meet, 1, 32, 0, streams[me], barrier, reporting));
}

/* Returns the number of wrong bytes so far, and the first round that had some. */
static uint64_t wrong_bytes(struct window *const *w, int members, uint64_t *first,
                            uint64_t *unproven, uint64_t *worst)
{
    uint64_t all = 0;
    for (int i = 0; i < members; i++) {
        uint64_t seen[4];
        fetch(seen, &w[i]->wrong, sizeof seen);
        if (seen[0] && (!all || seen[1] < *first))
            *first = seen[1];
        all += seen[0];
        *unproven += seen[2];
        *worst = seen[3] > *worst ? seen[3] : *worst;
    }
    return all;
}

static const char *const proof_words[] = {"none was made", "good", "too few changes seen",
                                          "lines in parts", "a wait ran out"};

int main(int argc, char **argv)
{
    setenv("CUDA_MODULE_LOADING", "EAGER",
           1); /* lazy loading would wait for kernels that are waiting themselves */
    seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    device_begin();
    int gpu = weft_target_get() == WEFT_CUDA;
    uint64_t rounds = argc > 2         ? strtoull(argv[2], NULL, 10)
                      : gpu            ? 20000
                      : WEFT_SIMT_TSAN ? 40
                      : REMOVED        ? 12000
                                       : 200;
    uint64_t wrong = 0, first = 0, done = 0, unproven = 0, worst = 0;
    struct plan last[TEAMS] = {0};
    struct window *w[TEAMS][MEMBERS];
    weft_stream streams[TEAMS][MEMBERS];
    struct weft_dev_box *box = symmetric(sizeof *box), seen;
    reporting = (struct gpu_reporting){box, symmetric(sizeof(uint64_t)),
                                       (REMOVED ? 1 : 30) * (uint64_t)1000000000};
    int members[TEAMS] = {MEMBERS, 3};
    for (int t = 0; t < TEAMS; t++)
        for (int i = 0; i < members[t]; i++) {
            w[t][i] = symmetric(sizeof(struct window));
            OK(weft_stream_create(&streams[t][i]));
        }
    memset(&seen, 0, sizeof seen);
    for (uint64_t round = 1; round <= rounds; round++) {
        for (int t = 0; t < TEAMS; t++) {
            struct plan p = last[t] = draw_plan(&last[t], members[t], round, gpu);
            for (int i = 0; i < members[t]; i++) {
                OK(WEFT_LAUNCH(fill, 2, 64, 0, streams[t][i], w[t][i], p, i));
                if (p.what == SYNC) {
                    launch_sync(&p, w[t], streams[t], i);
                } else {
                    struct coll_call c = call_of(&p, w[t], i);
                    OK(WEFT_LAUNCH(collective, p.blocks, p.threads, 0, streams[t][i], kernel_of(&p),
                                   c));
                }
                OK(WEFT_LAUNCH(check, 2, 64, 0, streams[t][i], w[t][i], p, i));
            }
        }
        if (round % 32 && round < rounds)
            continue;
        for (int t = 0; t < TEAMS; t++)
            for (int i = 0; i < members[t]; i++)
                OK(weft_stream_synchronize(streams[t][i]));
        done = round;
        wrong = unproven = 0;
        for (int t = 0; t < TEAMS; t++)
            wrong += wrong_bytes(w[t], members[t], &first, &unproven, &worst);
        fetch(&seen, box, sizeof seen);
        if (wrong || unproven || seen.failed)
            break;
    }
    fprintf(stderr, "%llu rounds of %d teams on %s: %llu bytes wrong", (unsigned long long)done,
            TEAMS, weft_target_name(weft_target_get()), (unsigned long long)wrong);
    if (wrong)
        fprintf(stderr, ", first in round %llu", (unsigned long long)first);
    fprintf(stderr, ", %llu proofs of lines failed (worst: %s), %llu waits ran out\n",
            (unsigned long long)unproven, proof_words[worst],
            (unsigned long long)(seen.failed != 0));
    for (int t = 0; t < TEAMS; t++)
        for (int i = 0; i < members[t]; i++)
            OK(weft_stream_destroy(streams[t][i]));
    device_end();
    int broken = wrong || unproven || seen.failed;
    return REMOVED ? (broken ? 0 : 77) : broken;
}
#endif
