/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of operations that a later call must complete (by a read-back, a flush or a wait), where
 * several threads start and complete operations. Two counters instead of a flag: a flag must be
 * cleared before the completing work, and between the two another thread sees no pending operation
 * and returns although nothing is complete yet.
 *
 *     a thread that starts an operation    performs it, then calls epoch_give()
 *     a quiet                              if (epoch_is_open(&epoch, &upto)) { complete;
 *                                          epoch_close(&epoch, upto); }
 *
 * A quiet that is ordered after an operation does not return before some thread has completed that
 * operation; two concurrent quiets both do the work. All zeros is an epoch without operations. */
#ifndef WEFT_BASE_EPOCH_H
#define WEFT_BASE_EPOCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct epoch {
    _Atomic uint64_t given; /* operations started */
    /* number of operations, from the first on, that are known to be complete */
    _Atomic uint64_t complete;
};

/* Counts one operation and returns the number of earlier ones. Release: a thread that sees the
 * counter sees what the caller did before. */
static inline uint64_t epoch_give(struct epoch *epoch)
{
    return atomic_fetch_add_explicit(&epoch->given, 1, memory_order_acq_rel);
}

/* Whether operations are pending. *upto: the value for epoch_close() when all operations started
 * until now have been completed; it is read before that work begins. Acquire: false means that
 * operations completed by another thread are complete for this thread too. */
static inline bool epoch_is_open(const struct epoch *epoch, uint64_t *upto)
{
    *upto = atomic_load_explicit(&epoch->given, memory_order_acquire);
    return atomic_load_explicit(&epoch->complete, memory_order_acquire) < *upto;
}

/* Records that the first `upto` operations are complete; the counter never decreases. */
static inline void epoch_close(struct epoch *epoch, uint64_t upto)
{
    uint64_t now = atomic_load_explicit(&epoch->complete, memory_order_relaxed);
    while (now < upto &&
           !atomic_compare_exchange_weak_explicit(&epoch->complete, &now, upto,
                                                  memory_order_release, memory_order_relaxed))
        ;
}

#endif
