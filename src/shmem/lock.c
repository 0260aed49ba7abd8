/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSHMEM 1.5, section 9.12: locks. A queue lock (Mellor-Crummey and Scott, "Algorithms for
 * Scalable Synchronization on Shared-Memory Multiprocessors", ACM TOCS 9(1), 1991): PEs get the
 * lock in the order of their requests, each waits on a word of its own, and a release costs one
 * atomic.
 *
 * The 8-byte lock has two words of 4 bytes, both zero when the lock is free:
 *   tail  used at one PE, the lock's home: 1 + the PE that requested last, 0 when free
 *   node  used at every PE: WAITING while this PE waits; else 1 + the next PE in the queue */
#include "shmem/routine.h"

enum { TAIL, NODE };

#define WAITING 0x80000000u

struct lock_words {
    uint32_t *words;
    uint32_t id; /* 1 + this PE */
    int me;
    int home;
};

/* The lock's offset in its page gives the home. The offset is the same at every PE although
 * addresses may differ, and the locks of an array have different homes. */
static struct lock_words locate_words(const char *routine, long *lock)
{
    if (!shmem_own.job)
        weft_shmem_fail(routine, WEFT_ERR_FINALIZED);
    return (struct lock_words){.words = (uint32_t *)lock,
                               .id = (uint32_t)shmem_own.my_pe + 1,
                               .me = shmem_own.my_pe,
                               .home = (int)(((uintptr_t)lock & 4095) / sizeof(long)) %
                                       shmem_own.n_pes};
}

static int has_many_threads(void)
{
    return weft_query_thread(shmem_own.job) == WEFT_THREAD_MULTIPLE;
}

SHMEM_ROUTINE(void, shmem_set_lock, (long *lock))
{
    const char *routine = "shmem_set_lock";
    struct lock_words at = locate_words(routine, lock);
    weft_ctx *ctx = shmem_own.ctx;
    if (has_many_threads())
        shmem_guard_enter(lock);

    /* swap instead of set, because a fetching atomic is complete when it returns: WAITING is stored
     * before any PE can find this PE in `tail`. */
    uint32_t before, last;
    REQUIRE(routine, weft_atomic_swap32(ctx, at.words + NODE, WAITING, &before, at.me));
    REQUIRE(routine, weft_atomic_swap32(ctx, at.words + TAIL, at.id, &last, at.home));
    if (last == 0) {
        /* Other PEs add their number to the same word: only the WAITING bit is cleared. */
        REQUIRE(routine, weft_atomic_fetch_and32(ctx, at.words + NODE, ~WAITING, &before, at.me));
        return;
    }
    REQUIRE(routine, weft_atomic_or32(ctx, at.words + NODE, at.id, (int)last - 1));
    REQUIRE(routine, weft_fence(ctx));
    /* Pairs with the `and` of the predecessor's shmem_clear_lock(); WAITING is the sign bit. */
    REQUIRE(routine, weft_wait_until(ctx, WEFT_INT32, at.words + NODE, WEFT_GE, 0));
}

SHMEM_ROUTINE(int, shmem_test_lock, (long *lock))
{
    const char *routine = "shmem_test_lock";
    struct lock_words at = locate_words(routine, lock);
    if (has_many_threads() && !shmem_guard_try(lock))
        return 1;
    uint32_t last;
    REQUIRE(routine, weft_atomic_cswap32(shmem_own.ctx, at.words + TAIL, 0, at.id, &last, at.home));
    if (last != 0 && has_many_threads())
        shmem_guard_leave(lock);
    return last != 0;
}

/* Returns 1 + the next PE in the queue; 0 when there is none and the lock is now free. */
static uint32_t find_next_pe(const char *routine, const struct lock_words *at)
{
    weft_ctx *ctx = shmem_own.ctx;
    uint32_t next, last;
    REQUIRE(routine, weft_atomic_fetch32(ctx, at->words + NODE, &next, at->me));
    if (next)
        return next;
    REQUIRE(routine, weft_atomic_cswap32(ctx, at->words + TAIL, at->id, 0, &last, at->home));
    if (last == at->id)
        return 0;
    if (last == 0) {
        base_fail(WEFT_ERR_ARGUMENT, "the lock at %p is not set", (void *)at->words);
        weft_shmem_fail(routine, WEFT_ERR_ARGUMENT);
    }
    /* Another PE has requested the lock and is about to write its number here. */
    REQUIRE(routine, weft_wait_until(ctx, WEFT_UINT32, at->words + NODE, WEFT_NE, 0));
    REQUIRE(routine, weft_atomic_fetch32(ctx, at->words + NODE, &next, at->me));
    return next;
}

SHMEM_ROUTINE(void, shmem_clear_lock, (long *lock))
{
    const char *routine = "shmem_clear_lock";
    struct lock_words at = locate_words(routine, lock);
    weft_ctx *ctx = shmem_own.ctx;
    REQUIRE(routine, weft_quiet(ctx));
    uint32_t next = find_next_pe(routine, &at);
    if (next) {
        uint32_t own;
        REQUIRE(routine, weft_atomic_swap32(ctx, at.words + NODE, 0, &own, at.me));
        REQUIRE(routine, weft_atomic_and32(ctx, at.words + NODE, ~WAITING, (int)next - 1));
        REQUIRE(routine, weft_fence(ctx));
    }
    if (has_many_threads())
        shmem_guard_leave(lock);
}
