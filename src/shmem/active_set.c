/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSHMEM 1.5, section 9.9: collective routines over an active set. No set-up precedes such a
 * call, and it may name any set of PEs. All synchronisation is therefore in the caller's pSync
 * array, by puts, atomics and waits of the host API. The set of all PEs is the world team and uses
 * its faster collectives.
 *
 * Each word of pSync is a semaphore: a PE adds 1 to the word at another PE, which waits for the
 * count that it needs and subtracts it. The array is therefore all zero again after the call, and
 * signals of a PE that is already in the next call are not lost. Words:
 *   0          data that have arrived in this call
 *   1 ... 31   rounds of the barrier that ends a call
 *   33 ... 63  rounds of the barrier before a reduction; in collect, prefix sums of the sizes */
#include "shmem/routine.h"

#include "ops/coll/coll.h"
#include "ops/coll/reduce.h"

#include <stdlib.h>

enum {
    ARRIVED = 0,
    EXIT_ROUNDS = 1,
    ENTRY_ROUNDS = 33, /* 31 rounds reach 2^31 PEs */
    WORDS = 64,
    TILE_BYTES = 16 * 1024
};
_Static_assert(WORDS <= SHMEM_SYNC_SIZE, "pSync has room for all words");

struct active_set {
    const char *routine;
    int start, stride, size;
    int me; /* index of this PE in the set */
    uint64_t *sync;
};

static struct active_set find_set(const char *routine, int start, int log_stride, int size,
                                  long *sync)
{
    if (!shmem_own.job)
        weft_shmem_fail(routine, WEFT_ERR_FINALIZED);
    long stride = log_stride >= 0 && log_stride < 31 ? 1L << log_stride : 0;
    long from_start = (long)shmem_own.my_pe - start;
    if (!stride || size < 1 || start < 0 || start + (size - 1) * stride >= shmem_own.n_pes) {
        base_fail(WEFT_ERR_ARGUMENT,
                  "PE_start %d, logPE_stride %d, PE_size %d do not lie in a job of %d PEs", start,
                  log_stride, size, shmem_own.n_pes);
        weft_shmem_fail(routine, WEFT_ERR_ARGUMENT);
    }
    if (from_start < 0 || from_start % stride || from_start / stride >= size) {
        base_fail(WEFT_ERR_NOT_MEMBER,
                  "PE %d is not in the active set PE_start %d, logPE_stride %d, PE_size %d",
                  shmem_own.my_pe, start, log_stride, size);
        weft_shmem_fail(routine, WEFT_ERR_NOT_MEMBER);
    }
    return (struct active_set){.routine = routine,
                               .start = start,
                               .stride = (int)stride,
                               .size = size,
                               .me = (int)(from_start / stride),
                               .sync = (uint64_t *)sync};
}

/* The world team when the set has all PEs, else NULL. */
static weft_team *find_world_team(const struct active_set *set)
{
    return set->size == shmem_own.n_pes ? weft_team_world(shmem_own.job) : NULL;
}

static int find_pe(const struct active_set *set, int ordinal)
{
    return set->start + ordinal * set->stride;
}

/* ------------------------------------------------------------------------------- semaphores */

static void add_to_word(const struct active_set *set, int word, int ordinal)
{
    REQUIRE(set->routine, weft_signal(shmem_own.ctx, set->sync + word, 1, WEFT_SIGNAL_ADD,
                                      find_pe(set, ordinal)));
}

static void take_from_word(const struct active_set *set, int word, uint64_t count)
{
    REQUIRE(set->routine, weft_signal_wait(shmem_own.ctx, set->sync + word, WEFT_GE, count, NULL));
    /* A fetching atomic is complete when it returns. */
    uint64_t before;
    REQUIRE(set->routine, weft_atomic_fetch_add64(shmem_own.ctx, set->sync + word,
                                                  (uint64_t)0 - count, &before, shmem_own.my_pe));
}

/* Dissemination barrier (Hensgen, Finkel, Manber, "Two Algorithms for Barrier Synchronization",
 * IJPP 17(1), 1988). In round r one PE adds to each word and one takes from it. The fence orders
 * this PE's puts before its signals only at the PEs that it signals itself. A caller whose data
 * other PEs must see calls quiet before. */
static void sync_rounds(const struct active_set *set, int first_word)
{
    REQUIRE(set->routine, weft_fence(shmem_own.ctx));
    for (int round = 0, distance = 1; distance < set->size; round++, distance *= 2) {
        add_to_word(set, first_word + round, (int)(((long)set->me + distance) % set->size));
        take_from_word(set, first_word + round, 1);
        if (distance > set->size / 2)
            break;
    }
    /* A path that aggregates operations sends the last signals now, because this PE may compute
     * next. */
    REQUIRE(set->routine, weft_fence(shmem_own.ctx));
}

/* Completes all puts of the members, and waits until all members have called it. */
static void complete_set(const struct active_set *set)
{
    REQUIRE(set->routine, weft_quiet(shmem_own.ctx));
    sync_rounds(set, EXIT_ROUNDS);
}

SHMEM_ROUTINE(void, shmem_sync, (WEFT_SHMEM_ACTIVE_SET, long *pSync))
{
    struct active_set own = find_set("shmem_sync", PE_start, logPE_stride, PE_size, pSync),
                      *set = &own;
    weft_team *world = find_world_team(set);
    if (world)
        REQUIRE(set->routine, weft_sync(world));
    else
        sync_rounds(set, EXIT_ROUNDS);
}

SHMEM_ROUTINE(void, shmem_barrier, (WEFT_SHMEM_ACTIVE_SET, long *pSync))
{
    struct active_set own = find_set("shmem_barrier", PE_start, logPE_stride, PE_size, pSync),
                      *set = &own;
    weft_team *world = find_world_team(set);
    if (world)
        REQUIRE(set->routine, weft_barrier(world));
    else
        complete_set(set);
}

/* -------------------------------------------------------------------------------- broadcast */

/* Binomial tree over indices counted from the root. The root's own destination is not written. */
static void broadcast(const struct active_set *set, void *dest, const void *source, size_t bytes,
                      int root)
{
    if (root < 0 || root >= set->size) {
        base_fail(WEFT_ERR_PE, "PE_root %d is not in 0 ... %d", root, set->size - 1);
        weft_shmem_fail(set->routine, WEFT_ERR_PE);
    }
    weft_team *world = find_world_team(set);
    if (world) {
        REQUIRE(set->routine, coll_broadcast(world, dest, source, bytes, root, false));
        return;
    }
    int rank = (set->me - root + set->size) % set->size;
    const void *from = rank == 0 ? source : dest;
    long reach = 1;
    if (rank != 0)
        take_from_word(set, ARRIVED, 1);
    while (reach <= rank)
        reach *= 2;
    for (; rank + reach < set->size; reach *= 2) {
        int to = (int)((rank + reach + root) % set->size);
        REQUIRE(set->routine, weft_put_signal(shmem_own.ctx, dest, from, bytes, set->sync + ARRIVED,
                                              1, WEFT_SIGNAL_ADD, find_pe(set, to)));
    }
    sync_rounds(set, EXIT_ROUNDS);
}

/* --------------------------------------------------------------------------- collect, alltoall */

static void put_block(const struct active_set *set, void *dest, const void *source, size_t bytes,
                      int ordinal)
{
    REQUIRE(set->routine, weft_put_signal(shmem_own.ctx, dest, source, bytes, set->sync + ARRIVED,
                                          1, WEFT_SIGNAL_ADD, find_pe(set, ordinal)));
}

static void put_to_all(const struct active_set *set, char *dest, const void *source, size_t bytes)
{
    for (int k = 0; k < set->size; k++)
        put_block(set, dest, source, bytes, (set->me + k) % set->size);
    take_from_word(set, ARRIVED, (uint64_t)set->size);
    sync_rounds(set, EXIT_ROUNDS);
}

static void fcollect(const struct active_set *set, void *dest, const void *source, size_t bytes)
{
    weft_team *world = find_world_team(set);
    if (world)
        REQUIRE(set->routine, weft_allgather(world, dest, source, bytes));
    else
        put_to_all(set, (char *)dest + (size_t)set->me * bytes, source, bytes);
}

/* Sum of the bytes of all earlier members. In round r a member receives from the member 2^r before
 * it the sum of that member and of the 2^r - 1 members before. The word carries the sum + 1; 0
 * means "not yet". */
static uint64_t bytes_before(const struct active_set *set, uint64_t bytes)
{
    uint64_t before = 0;
    for (int round = 0, distance = 1; distance < set->size; round++, distance *= 2) {
        uint64_t *word = set->sync + ENTRY_ROUNDS + round, received;
        if (set->me + distance < set->size)
            REQUIRE(set->routine, weft_signal(shmem_own.ctx, word, before + bytes + 1,
                                              WEFT_SIGNAL_SET, find_pe(set, set->me + distance)));
        if (set->me >= distance) {
            REQUIRE(set->routine, weft_signal_wait(shmem_own.ctx, word, WEFT_NE, 0, NULL));
            REQUIRE(set->routine,
                    weft_atomic_swap64(shmem_own.ctx, word, 0, &received, shmem_own.my_pe));
            before += received - 1;
        }
        if (distance > set->size / 2)
            break;
    }
    return before;
}

static void collect(const struct active_set *set, void *dest, const void *source, size_t bytes)
{
    weft_team *world = find_world_team(set);
    if (world)
        REQUIRE(set->routine, weft_collect(world, dest, source, bytes));
    else
        put_to_all(set, (char *)dest + bytes_before(set, bytes), source, bytes);
}

static void alltoall(const struct active_set *set, void *dest, const void *source, size_t bytes)
{
    weft_team *world = find_world_team(set);
    if (world) {
        REQUIRE(set->routine, weft_alltoall(world, dest, source, bytes));
        return;
    }
    for (int k = 0; k < set->size; k++) {
        int to = (set->me + k) % set->size;
        put_block(set, (char *)dest + (size_t)set->me * bytes,
                  (const char *)source + (size_t)to * bytes, bytes, to);
    }
    take_from_word(set, ARRIVED, (uint64_t)set->size);
    sync_rounds(set, EXIT_ROUNDS);
}

static void alltoalls(const struct active_set *set, void *dest, const void *source, ptrdiff_t dst,
                      ptrdiff_t sst, size_t element, size_t nelems)
{
    weft_team *world = find_world_team(set);
    if (world) {
        REQUIRE(set->routine, weft_alltoalls(world, dest, source, dst, sst, element, nelems));
        return;
    }
    size_t dest_block = (size_t)dst * element * nelems,
           source_block = (size_t)sst * element * nelems;
    for (int k = 0; k < set->size; k++) {
        int to = (set->me + k) % set->size;
        REQUIRE(set->routine, weft_iput(shmem_own.ctx, (char *)dest + (size_t)set->me * dest_block,
                                        (const char *)source + (size_t)to * source_block, dst, sst,
                                        element, nelems, find_pe(set, to)));
    }
    complete_set(set);
}

#define SIZED(bits)                                                                                \
    SHMEM_ROUTINE(void, shmem_broadcast##bits,                                                     \
                  (void *dest, const void *source, size_t nelems, int PE_root,                     \
                   WEFT_SHMEM_ACTIVE_SET, long *pSync))                                            \
    {                                                                                              \
        struct active_set set =                                                                    \
            find_set("shmem_broadcast" #bits, PE_start, logPE_stride, PE_size, pSync);             \
        broadcast(&set, dest, source, nelems *(bits / 8), PE_root);                                \
    }                                                                                              \
    SHMEM_ROUTINE(                                                                                 \
        void, shmem_collect##bits,                                                                 \
        (void *dest, const void *source, size_t nelems, WEFT_SHMEM_ACTIVE_SET, long *pSync))       \
    {                                                                                              \
        struct active_set set =                                                                    \
            find_set("shmem_collect" #bits, PE_start, logPE_stride, PE_size, pSync);               \
        collect(&set, dest, source, nelems *(bits / 8));                                           \
    }                                                                                              \
    SHMEM_ROUTINE(                                                                                 \
        void, shmem_fcollect##bits,                                                                \
        (void *dest, const void *source, size_t nelems, WEFT_SHMEM_ACTIVE_SET, long *pSync))       \
    {                                                                                              \
        struct active_set set =                                                                    \
            find_set("shmem_fcollect" #bits, PE_start, logPE_stride, PE_size, pSync);              \
        fcollect(&set, dest, source, nelems *(bits / 8));                                          \
    }                                                                                              \
    SHMEM_ROUTINE(                                                                                 \
        void, shmem_alltoall##bits,                                                                \
        (void *dest, const void *source, size_t nelems, WEFT_SHMEM_ACTIVE_SET, long *pSync))       \
    {                                                                                              \
        struct active_set set =                                                                    \
            find_set("shmem_alltoall" #bits, PE_start, logPE_stride, PE_size, pSync);              \
        alltoall(&set, dest, source, nelems *(bits / 8));                                          \
    }                                                                                              \
    SHMEM_ROUTINE(void, shmem_alltoalls##bits,                                                     \
                  (void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems,    \
                   WEFT_SHMEM_ACTIVE_SET, long *pSync))                                            \
    {                                                                                              \
        struct active_set set =                                                                    \
            find_set("shmem_alltoalls" #bits, PE_start, logPE_stride, PE_size, pSync);             \
        alltoalls(&set, dest, source, dst, sst, bits / 8, nelems);                                 \
    }
SIZED(32)
SIZED(64)

/* ------------------------------------------------------------------------------- reductions */

struct set_reduction {
    char *dest;
    const char *source;
    size_t element;
    reduce_function *combine;
};

/* Combines bytes [at, at + bytes) of all sources, in the order of the set, and puts the result at
 * all. */
static void reduce_tile(const struct active_set *set, const struct set_reduction *reduction,
                        size_t at, size_t bytes)
{
    _Alignas(64) char acc[TILE_BYTES], next[TILE_BYTES];
    REQUIRE(set->routine,
            weft_get(shmem_own.ctx, acc, reduction->source + at, bytes, find_pe(set, 0)));
    for (int i = 1; i < set->size; i++) {
        REQUIRE(set->routine,
                weft_get(shmem_own.ctx, next, reduction->source + at, bytes, find_pe(set, i)));
        reduction->combine(acc, next, bytes / reduction->element);
    }
    for (int k = 0; k < set->size; k++)
        REQUIRE(set->routine, weft_put(shmem_own.ctx, reduction->dest + at, acc, bytes,
                                       find_pe(set, (set->me + k) % set->size)));
}

/* Each member owns a part of the vector. It alone reads that part of all sources and then writes it
 * to all destinations. Source and destination may therefore be the same array, all members get the
 * same bits, and pWrk is not needed. */
static void reduce(const struct active_set *set, void *dest, const void *source, int count,
                   weft_type type, weft_op op)
{
    weft_team *world = find_world_team(set);
    size_t n = count > 0 ? (size_t)count : 0;
    if (world) {
        REQUIRE(set->routine, weft_allreduce(world, dest, source, n, type, op));
        return;
    }
    struct set_reduction reduction = {.dest = dest, .source = source};
    reduction.combine = reduce_function_of(type, op, &reduction.element);
    size_t share = (n + (size_t)set->size - 1) / (size_t)set->size;
    size_t first = share * (size_t)set->me < n ? share * (size_t)set->me : n;
    size_t last = n - first < share ? n : first + share;
    sync_rounds(set, ENTRY_ROUNDS);
    for (size_t at = first * reduction.element; at < last * reduction.element; at += TILE_BYTES) {
        size_t left = last * reduction.element - at;
        reduce_tile(set, &reduction, at, left < TILE_BYTES ? left : TILE_BYTES);
    }
    complete_set(set);
}

#define REDUCE_and  WEFT_AND
#define REDUCE_or   WEFT_OR
#define REDUCE_xor  WEFT_XOR
#define REDUCE_max  WEFT_MAX
#define REDUCE_min  WEFT_MIN
#define REDUCE_sum  WEFT_SUM
#define REDUCE_prod WEFT_PROD

#define TO_ALL(op, NAME, TYPE, code)                                                               \
    SHMEM_ROUTINE(void, shmem_##NAME##_##op##_to_all,                                              \
                  (TYPE * dest, const TYPE *source, int nreduce, WEFT_SHMEM_ACTIVE_SET,            \
                   TYPE *pWrk, long *pSync))                                                       \
    {                                                                                              \
        struct active_set set =                                                                    \
            find_set("shmem_" #NAME "_" #op "_to_all", PE_start, logPE_stride, PE_size, pSync);    \
        reduce(&set, dest, source, nreduce, code, REDUCE_##op);                                    \
    }
WEFT_SHMEM_TO_ALL_BITWISE_TYPES(TO_ALL, and)
WEFT_SHMEM_TO_ALL_BITWISE_TYPES(TO_ALL, or)
WEFT_SHMEM_TO_ALL_BITWISE_TYPES(TO_ALL, xor)
WEFT_SHMEM_TO_ALL_ORDERED_TYPES(TO_ALL, max)
WEFT_SHMEM_TO_ALL_ORDERED_TYPES(TO_ALL, min)
WEFT_SHMEM_TO_ALL_ARITHMETIC_TYPES(TO_ALL, sum)
WEFT_SHMEM_TO_ALL_ARITHMETIC_TYPES(TO_ALL, prod)
