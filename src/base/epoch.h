/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that a later call has to complete (a load-back behind stores, a flush, a wait), where
 * several threads give operations and complete them. Two counts in place of a flag: a flag has to
 * be cleared before the completing work, and between the two another thread finds nothing to do and
 * returns although nothing is complete yet (finding A7).
 *
 *     the thread that gives one        does the operation, then epoch_give()
 *     a quiet                          if (epoch_is_open(&epoch, &upto)) { complete;
 *                                      epoch_close(&epoch, upto); }
 *
 * A quiet that is ordered behind an operation does not return before some thread has completed that
 * operation; two quiets at once both do the work. Zeros are an epoch without operations. */
#ifndef WEFT_BASE_EPOCH_H
#define WEFT_BASE_EPOCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct epoch {
    _Atomic uint64_t given;    /* operations given */
    _Atomic uint64_t complete; /* the first so many of them are known to be complete */
};

/* Counts one operation and returns how many were given before. Release: who sees the count sees
 * what the caller did. */
static inline uint64_t epoch_give(struct epoch *epoch)
{
    return atomic_fetch_add_explicit(&epoch->given, 1, memory_order_acq_rel);
}

/* Whether operations are open. *upto is what epoch_close() takes when all that were given until now
 * have been completed: it is read before that work begins. Acquire: false means that what another
 * thread completed is complete here too. */
static inline bool epoch_is_open(const struct epoch *epoch, uint64_t *upto)
{
    *upto = atomic_load_explicit(&epoch->given, memory_order_acquire);
    return atomic_load_explicit(&epoch->complete, memory_order_acquire) < *upto;
}

/* Notes that the first `upto` operations are complete; the count never goes back. */
static inline void epoch_close(struct epoch *epoch, uint64_t upto)
{
    uint64_t now = atomic_load_explicit(&epoch->complete, memory_order_relaxed);
    while (now < upto &&
           !atomic_compare_exchange_weak_explicit(&epoch->complete, &now, upto,
                                                  memory_order_release, memory_order_relaxed))
        ;
}

#endif
