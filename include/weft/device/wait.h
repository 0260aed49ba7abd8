/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting and testing in device code. The job's wait limit (WEFT_WAIT_LIMIT, counted from the last
 * change of the variable) bounds every wait. When it passes, the wait leaves a record in the black
 * box and returns WEFT_ERR_TIMEOUT. It returns the same at once, without a record, when the job has
 * failed meanwhile, on the host or in another kernel: the update may then never come. A wait that
 * has lasted 100 ms is visible in the black box, for the host and for `weft attach`.
 *
 * Types, values, status[] and the results of the forms over several variables are those of the host
 * API (weft.h, "wait and test"). Variables are in the caller's own symmetric memory. A successful
 * wait or test orders what follows it after what the peer did before its update. */
#ifndef WEFT_DEVICE_WAIT_H
#define WEFT_DEVICE_WAIT_H

#include <weft/device/rma.h>

/* ------------------------------------------------------------------------------ bounded waiting */

enum {
    WEFT_DEV_EAGER_POLLS = 256,   /* polls before the first reading of the clock */
    WEFT_DEV_POLLS_PER_LOOK = 16, /* polls between later readings; divides EAGER_POLLS, so that
                                     the first reading starts the wait's record */
    WEFT_DEV_SHOW_NS = 100 * 1000 * 1000,
};

/* What a wait is for; its records have the same fields. */
struct weft_dev_awaited {
    int32_t operation, peer, team;
    const void *address;
    uint32_t compare;
    uint64_t expected;
};

/* State of a wait that has reached its first reading of the clock. Not accessed before, because it
 * is in memory: an acquiring poll evicts it from the L1 cache, and reading it then goes to L2 (0.2
 * us of 1 us on an H200). */
struct weft_dev_patience {
    struct weft_dev_record what; /* without its index and the value seen */
    uint64_t since, changed, seen;
    uint64_t record; /* 1 + index of the record that shows the wait; 0: none yet */
};

/* The record of a wait; NULL when a later record has overwritten it. */
WEFT_DEVICE struct weft_dev_record *weft_dev_patience_record(const struct weft_dev_patience *p)
{
    struct weft_dev_record *record =
        &weft_dev_state.box->records[(p->record - 1) % WEFT_DEV_RECORDS];
    uint64_t ticket = weft_dev_load_u64(&record->ticket, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    return ticket == p->record - 1 ? record : NULL;
}

/* Whether the job has failed. Reads the word only at some polls, because it is in host memory. */
WEFT_DEVICE int weft_dev_job_failed(uint32_t polls)
{
    const struct weft_dev_box *box = weft_dev_state.box;
    return !(polls % (WEFT_DEV_POLLS_PER_LOOK * 256)) && box &&
           weft_dev_load_u32((const uint32_t *)&box->failed, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
}

/* A wait in a collective that ends because the job has failed. This is no failure of its own and
 * takes no record, of which there are few. It stores the collective and the PE that it waited for,
 * and the host adds these to its sentence. Waits for blocks of the own kernel are not stored. */
WEFT_DEVICE void weft_dev_leave(const struct weft_dev_record *what)
{
    if (what->team >= 0 && what->operation != WEFT_DEV_OP_GRID)
        weft_dev_store_u64(&weft_dev_state.box->left,
                           WEFT_DEV_LEFT(what->operation, what->team, what->peer),
                           WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
}

/* Reads the clock: shows a long wait in the black box, and ends a wait that has reached its limit
 * or whose job has failed. Not inlined: a waiting thread has time, and the code around needs the
 * registers. */
WEFT_DEVICE_NOINLINE int weft_dev_patience_slow(struct weft_dev_patience *p, uint32_t polls,
                                                uint64_t seen)
{
    uint64_t now = weft_dev_clock_ns();
    if (weft_dev_job_failed(polls)) {
        weft_dev_leave(&p->what);
        return WEFT_ERR_TIMEOUT;
    }
    if (!p->since) {
        p->since = p->changed = now;
        p->seen = seen;
        return WEFT_OK;
    }
    if (seen != p->seen) {
        p->seen = seen;
        p->changed = now;
    }
    uint64_t limit = weft_dev_state.wait_limit_ns;
    int expired = limit && now - p->changed > limit;
    if (expired || (!p->record && now - p->since > WEFT_DEV_SHOW_NS)) {
        p->what.state = expired ? WEFT_DEV_RECORD_EXPIRED : WEFT_DEV_RECORD_WAITING;
        p->what.status = expired ? WEFT_ERR_TIMEOUT : 0;
        p->what.seen = seen;
        p->what.waited_ns = now - p->since;
        uint64_t record = weft_dev_record_write(&p->what);
        if (expired)
            return WEFT_ERR_TIMEOUT;
        p->record = record;
    } else if (p->record && polls % (1024 * WEFT_DEV_POLLS_PER_LOOK) == 0) {
        struct weft_dev_record *record = weft_dev_patience_record(p);
        if (record) {
            weft_dev_store_u64(&record->seen, seen, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
            weft_dev_store_u64(&record->waited_ns, now - p->since, WEFT_ORDER_RELAXED,
                               WEFT_SCOPE_SYS);
        }
    }
    return WEFT_OK;
}

WEFT_DEVICE struct weft_dev_awaited weft_dev_awaited_of(int operation, int peer, int team,
                                                        const void *address, unsigned cmp,
                                                        uint64_t expected)
{
    struct weft_dev_awaited what = {operation, peer, team, address, cmp, expected};
    return what;
}

WEFT_DEVICE void weft_dev_patience_begin(struct weft_dev_patience *p, struct weft_dev_awaited what)
{
    p->what.operation = (uint32_t)what.operation;
    p->what.peer = what.peer;
    p->what.team = what.team;
    p->what.address = (uintptr_t)what.address;
    p->what.compare = what.compare;
    p->what.expected = what.expected;
    p->since = 0;
    p->record = 0;
}

/* Called after an unsuccessful poll. Returns WEFT_OK to continue, WEFT_ERR_TIMEOUT when the wait
 * has timed out. *polls is the caller's count, in a register; *p belongs to the same wait. */
WEFT_DEVICE int weft_dev_patience_step(struct weft_dev_patience *p, struct weft_dev_awaited what,
                                       uint32_t *polls, uint64_t seen)
{
    if (++*polls == 1 && WEFT_TARGET_SIMT)
        weft_dev_wait_begins();
    if (WEFT_DEV_LIKELY(*polls < WEFT_DEV_EAGER_POLLS || *polls % WEFT_DEV_POLLS_PER_LOOK))
        return WEFT_OK;
    if (*polls == WEFT_DEV_EAGER_POLLS)
        weft_dev_patience_begin(p, what);
    if (*polls >> 31) /* never wraps to 0 */
        *polls = 1u << 30;
    return weft_dev_patience_slow(p, *polls, seen);
}

WEFT_DEVICE_NOINLINE void weft_dev_patience_close(const struct weft_dev_patience *p)
{
    struct weft_dev_record *record = p->record ? weft_dev_patience_record(p) : NULL;
    if (record)
        weft_dev_store_u32(&record->state, WEFT_DEV_RECORD_FREE, WEFT_ORDER_RELAXED,
                           WEFT_SCOPE_SYS);
}

/* The wait has ended: frees the record that shows it in the black box. */
WEFT_DEVICE void weft_dev_patience_end(const struct weft_dev_patience *p, uint32_t polls)
{
    if (!WEFT_DEV_LIKELY(polls < WEFT_DEV_EAGER_POLLS))
        weft_dev_patience_close(p);
    if (polls && WEFT_TARGET_SIMT)
        weft_dev_wait_ends();
}

/* -------------------------------------------------------------------------------- comparison */

WEFT_DEVICE int weft_dev_type_signed(weft_type type)
{
    return type <= WEFT_INT64;
}

WEFT_DEVICE unsigned weft_dev_type_width(weft_type type)
{
    return type == WEFT_INT64 || type == WEFT_UINT64   ? 8
           : type == WEFT_INT32 || type == WEFT_UINT32 ? 4
                                                       : 2;
}

WEFT_DEVICE int weft_dev_compare(int is_signed, weft_cmp cmp, uint64_t a, uint64_t b)
{
    int less = is_signed ? (int64_t)a < (int64_t)b : a < b;
    switch (cmp) {
    case WEFT_EQ:
        return a == b;
    case WEFT_NE:
        return a != b;
    case WEFT_GT:
        return !less && a != b;
    case WEFT_LE:
        return less || a == b;
    case WEFT_LT:
        return less;
    default:
        return !less;
    }
}

/* Element i, extended to 64 bits. Acquire: pairs with the release or fence of the PE that stored
 * it. */
WEFT_DEVICE uint64_t weft_dev_load_typed(weft_type type, const void *base, size_t i)
{
    if (weft_dev_type_width(type) == 8)
        return weft_dev_load_u64((const uint64_t *)base + i, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS);
    if (weft_dev_type_width(type) == 4) {
        uint32_t v =
            weft_dev_load_u32((const uint32_t *)base + i, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS);
        return type == WEFT_INT32 ? (uint64_t)(int64_t)(int32_t)v : v;
    }
    uint16_t v = weft_dev_load_u16((const uint16_t *)base + i, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS);
    return type == WEFT_INT16 ? (uint64_t)(int64_t)(int16_t)v : v;
}

/* Element i of an array of values, in plain memory of the caller. */
WEFT_DEVICE uint64_t weft_dev_value_typed(weft_type type, const void *values, size_t i)
{
    switch (type) {
    case WEFT_INT16:
        return (uint64_t)(int64_t)((const int16_t *)values)[i];
    case WEFT_UINT16:
        return ((const uint16_t *)values)[i];
    case WEFT_INT32:
        return (uint64_t)(int64_t)((const int32_t *)values)[i];
    case WEFT_UINT32:
        return ((const uint32_t *)values)[i];
    default:
        return ((const uint64_t *)values)[i];
    }
}

/* ------------------------------------------------------------------------------ one variable
 *
 * int weft_{thread,warp,block}_wait_until(weft_type type, const void *ivar, weft_cmp cmp,
 *                                         uint64_t value)
 * int weft_{thread,warp,block}_signal_wait(const uint64_t *signal, weft_cmp cmp, uint64_t value)
 *     Waits until the variable compares true with `value`. One thread of the scope polls. Returns
 *     WEFT_OK or WEFT_ERR_TIMEOUT, the same for all threads of the scope.
 * int weft_thread_test(weft_type type, const void *ivar, weft_cmp cmp, uint64_t value)
 *     Returns 1 when the variable compares true with `value`, else 0.
 */
WEFT_DEVICE int weft_dev_wait_one(int operation, weft_type type, const void *base, size_t i,
                                  weft_cmp cmp, uint64_t value)
{
    uint64_t seen = weft_dev_load_typed(type, base, i);
    if (weft_dev_compare(weft_dev_type_signed(type), cmp, seen, value))
        return WEFT_OK;
    uint32_t polls = 0;
    struct weft_dev_patience p;
    struct weft_dev_awaited what = weft_dev_awaited_of(
        operation, -1, -1, (const char *)base + i * weft_dev_type_width(type), cmp, value);
    int status;
    do {
        status = weft_dev_patience_step(&p, what, &polls, seen);
        seen = weft_dev_load_typed(type, base, i);
    } while (!status && !weft_dev_compare(weft_dev_type_signed(type), cmp, seen, value));
    weft_dev_patience_end(&p, polls);
    return status;
}

/* The sync orders the other threads after the acquire of the polling thread. */
WEFT_DEVICE int weft_dev_wait(int scope, int operation, weft_type type, const void *ivar,
                              weft_cmp cmp, uint64_t value)
{
    int status = WEFT_OK;
    if (weft_dev_scope_rank(scope) == 0)
        status = weft_dev_wait_one(operation, type, ivar, 0, cmp, value);
    return weft_dev_scope_any(scope, status != WEFT_OK) ? WEFT_ERR_TIMEOUT : WEFT_OK;
}

#define WEFT_DEV_WAIT_UNTIL(scope, constant)                                                       \
    WEFT_DEVICE int weft_##scope##_wait_until(weft_type type, const void *ivar, weft_cmp cmp,      \
                                              uint64_t value)                                      \
    {                                                                                              \
        return weft_dev_wait(constant, WEFT_DEV_OP_WAIT, type, ivar, cmp, value);                  \
    }                                                                                              \
    WEFT_DEVICE int weft_##scope##_signal_wait(const uint64_t *signal, weft_cmp cmp,               \
                                               uint64_t value)                                     \
    {                                                                                              \
        return weft_dev_wait(constant, WEFT_DEV_OP_SIGNAL_WAIT, WEFT_UINT64, signal, cmp, value);  \
    }
WEFT_DEV_SCOPE_LIST(WEFT_DEV_WAIT_UNTIL)
#undef WEFT_DEV_WAIT_UNTIL

WEFT_DEVICE int weft_thread_test(weft_type type, const void *ivar, weft_cmp cmp, uint64_t value)
{
    return weft_dev_compare(weft_dev_type_signed(type), cmp, weft_dev_load_typed(type, ivar, 0),
                            value);
}

/* ------------------------------------------------------------------------- several variables
 *
 * `value` is for all variables; the _vector forms take values[n] of the type instead.
 *   int weft_{thread,warp,block}_wait_until_all(type, ivars, n, status, cmp, value)
 *   int weft_{thread,warp,block}_wait_until_all_vector(type, ivars, n, status, cmp, values)
 *       In scope warp and block the threads divide the variables among them.
 *   int weft_thread_wait_until_any(type, ivars, n, status, cmp, value, size_t *index), _any_vector
 *   int weft_thread_wait_until_some(type, ivars, n, indices, status, cmp, value, size_t *count),
 *       _some_vector
 *       The waits return WEFT_OK or WEFT_ERR_TIMEOUT.
 *   int    weft_thread_test_all(type, ivars, n, status, cmp, value), _all_vector       1 or 0
 *   size_t weft_thread_test_any(type, ivars, n, status, cmp, value), _any_vector       or WEFT_NONE
 *   size_t weft_thread_test_some(type, ivars, n, indices, status, cmp, value), _some_vector
 */

/* The variables that a call compares, and with what. */
struct weft_dev_set {
    weft_type type;
    const void *ivars;
    size_t n;
    const int *status;
    weft_cmp cmp;
    uint64_t value;
    const void *values; /* NULL: value */
};

WEFT_DEVICE struct weft_dev_set weft_dev_set_of(weft_type type, const void *ivars, size_t n,
                                                const int *status, weft_cmp cmp, uint64_t value,
                                                const void *values)
{
    struct weft_dev_set set = {type, ivars, n, status, cmp, value, values};
    return set;
}

WEFT_DEVICE int weft_dev_takes_part(const struct weft_dev_set *set, size_t i)
{
    return !set->status || !set->status[i];
}

WEFT_DEVICE uint64_t weft_dev_wanted(const struct weft_dev_set *set, size_t i)
{
    return set->values ? weft_dev_value_typed(set->type, set->values, i) : set->value;
}

WEFT_DEVICE int weft_dev_met(const struct weft_dev_set *set, size_t i, uint64_t *seen)
{
    *seen = weft_dev_load_typed(set->type, set->ivars, i);
    return weft_dev_compare(weft_dev_type_signed(set->type), set->cmp, *seen,
                            weft_dev_wanted(set, i));
}

WEFT_DEVICE int weft_dev_wait_all(int scope, const struct weft_dev_set *set)
{
    int status = WEFT_OK;
    unsigned threads = weft_dev_scope_threads(scope);
    for (size_t i = weft_dev_scope_rank(scope); i < set->n && !status; i += threads)
        if (weft_dev_takes_part(set, i))
            status = weft_dev_wait_one(WEFT_DEV_OP_WAIT_ALL, set->type, set->ivars, i, set->cmp,
                                       weft_dev_wanted(set, i));
    return weft_dev_scope_any(scope, status != WEFT_OK) ? WEFT_ERR_TIMEOUT : WEFT_OK;
}

/* Returns the number of variables that compare true, at most `most`, with their indices. *any: 1
 * when any variable is not left out. *mix: a combination of the values seen, so that any change
 * counts as progress. */
WEFT_DEVICE size_t weft_dev_scan(const struct weft_dev_set *set, size_t *indices, size_t most,
                                 int *any, uint64_t *mix)
{
    size_t found = 0;
    *any = 0;
    *mix = 0;
    for (size_t i = 0; i < set->n && found < most; i++) {
        uint64_t seen;
        if (!weft_dev_takes_part(set, i))
            continue;
        *any = 1;
        if (weft_dev_met(set, i, &seen))
            indices[found++] = i;
        *mix = *mix * 31 + seen;
    }
    return found;
}

/* Waits until at least one variable compares true. *found = 0: all variables are left out. */
WEFT_DEVICE int weft_dev_wait_some(int operation, const struct weft_dev_set *set, size_t *indices,
                                   size_t most, size_t *found)
{
    int any, status = WEFT_OK;
    uint64_t mix;
    uint32_t polls = 0;
    struct weft_dev_patience p;
    struct weft_dev_awaited what =
        weft_dev_awaited_of(operation, -1, -1, set->ivars, set->cmp, set->value);
    while (!(*found = weft_dev_scan(set, indices, most, &any, &mix)) && any && !status)
        status = weft_dev_patience_step(&p, what, &polls, mix);
    weft_dev_patience_end(&p, polls);
    return *found ? WEFT_OK : status;
}

WEFT_DEVICE int weft_dev_wait_any(const struct weft_dev_set *set, size_t *index)
{
    size_t found, first = WEFT_NONE;
    int status = weft_dev_wait_some(WEFT_DEV_OP_WAIT_ANY, set, &first, 1, &found);
    *index = found ? first : WEFT_NONE;
    return status;
}

WEFT_DEVICE int weft_dev_test_all(const struct weft_dev_set *set)
{
    for (size_t i = 0; i < set->n; i++) {
        uint64_t seen;
        if (weft_dev_takes_part(set, i) && !weft_dev_met(set, i, &seen))
            return 0;
    }
    return 1;
}

WEFT_DEVICE size_t weft_dev_test_some(const struct weft_dev_set *set, size_t *indices)
{
    int any;
    uint64_t mix;
    return weft_dev_scan(set, indices, (size_t)-1, &any, &mix);
}

WEFT_DEVICE size_t weft_dev_test_any(const struct weft_dev_set *set)
{
    int any;
    uint64_t mix;
    size_t first = WEFT_NONE;
    weft_dev_scan(set, &first, 1, &any, &mix);
    return first;
}

/* Both forms: with one value, and with an array of values. */
#define WEFT_DEV_SET(value, values)                                                                \
    const struct weft_dev_set set = weft_dev_set_of(type, ivars, n, status, cmp, value, values)

#define WEFT_DEV_WAIT_ALL(scope, constant)                                                         \
    WEFT_DEVICE int weft_##scope##_wait_until_all(weft_type type, const void *ivars, size_t n,     \
                                                  const int *status, weft_cmp cmp, uint64_t value) \
    {                                                                                              \
        WEFT_DEV_SET(value, NULL);                                                                 \
        return weft_dev_wait_all(constant, &set);                                                  \
    }                                                                                              \
    WEFT_DEVICE int weft_##scope##_wait_until_all_vector(weft_type type, const void *ivars,        \
                                                         size_t n, const int *status,              \
                                                         weft_cmp cmp, const void *values)         \
    {                                                                                              \
        WEFT_DEV_SET(0, values);                                                                   \
        return weft_dev_wait_all(constant, &set);                                                  \
    }
WEFT_DEV_SCOPE_LIST(WEFT_DEV_WAIT_ALL)
#undef WEFT_DEV_WAIT_ALL

/* X(suffix of the name, C type of the last argument, value, values) */
#define WEFT_DEV_SET_FORMS(X)                                                                      \
    X(, uint64_t value, value, NULL)                                                               \
    X(_vector, const void *values, 0, values)

#define WEFT_DEV_SET_FUNCTIONS(suffix, last, value, values)                                        \
    WEFT_DEVICE int weft_thread_wait_until_any##suffix(weft_type type, const void *ivars,          \
                                                       size_t n, const int *status, weft_cmp cmp,  \
                                                       last, size_t *index)                        \
    {                                                                                              \
        WEFT_DEV_SET(value, values);                                                               \
        return weft_dev_wait_any(&set, index);                                                     \
    }                                                                                              \
    WEFT_DEVICE int weft_thread_wait_until_some##suffix(                                           \
        weft_type type, const void *ivars, size_t n, size_t *indices, const int *status,           \
        weft_cmp cmp, last, size_t *count)                                                         \
    {                                                                                              \
        WEFT_DEV_SET(value, values);                                                               \
        return weft_dev_wait_some(WEFT_DEV_OP_WAIT_SOME, &set, indices, (size_t)-1, count);        \
    }                                                                                              \
    WEFT_DEVICE int weft_thread_test_all##suffix(weft_type type, const void *ivars, size_t n,      \
                                                 const int *status, weft_cmp cmp, last)            \
    {                                                                                              \
        WEFT_DEV_SET(value, values);                                                               \
        return weft_dev_test_all(&set);                                                            \
    }                                                                                              \
    WEFT_DEVICE size_t weft_thread_test_any##suffix(weft_type type, const void *ivars, size_t n,   \
                                                    const int *status, weft_cmp cmp, last)         \
    {                                                                                              \
        WEFT_DEV_SET(value, values);                                                               \
        return weft_dev_test_any(&set);                                                            \
    }                                                                                              \
    WEFT_DEVICE size_t weft_thread_test_some##suffix(weft_type type, const void *ivars, size_t n,  \
                                                     size_t *indices, const int *status,           \
                                                     weft_cmp cmp, last)                           \
    {                                                                                              \
        WEFT_DEV_SET(value, values);                                                               \
        return weft_dev_test_some(&set, indices);                                                  \
    }
WEFT_DEV_SET_FORMS(WEFT_DEV_SET_FUNCTIONS)
#undef WEFT_DEV_SET_FUNCTIONS
#undef WEFT_DEV_SET_FORMS
#undef WEFT_DEV_SET

#endif
