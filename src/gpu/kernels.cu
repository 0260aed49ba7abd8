/* SPDX-License-Identifier: Apache-2.0 */
/* The library's kernels: single accesses and atomics for the host, small copies with a signal,
 * strided copies, bounded waits, the barrier on a stream, the test of a GPU pair and its latency.
 * Written in the common subset of C and CUDA, so that the stand-in of the CUDA driver can run the
 * same text. Every wait is bounded by the global timer, and by a count of polls in case the timer
 * stands still. */
#include <weft/device/simt.h>

#include "gpu/kernel_record.h"
#include "gpu/kernels.h"
#include "gpu/message_kernel.h"

/* ------------------------------------------------------------------------------------ compare */

WEFT_DEVICE int compare_values(int64_t seen, int cmp, int64_t value)
{
    switch (cmp) { /* weft_cmp */
    case 0:
        return seen == value;
    case 1:
        return seen != value;
    case 2:
        return seen > value;
    case 3:
        return seen <= value;
    case 4:
        return seen < value;
    default:
        return seen >= value;
    }
}

/* --------------------------------------------------------------------------------- atomics */

WEFT_DEVICE uint64_t atomic_32(uint32_t *at, int op, uint32_t value, uint32_t expected)
{
    switch (op) { /* values of weft_amo; set and fetch need no kernel */
    case 6:
        return weft_dev_atomic_exch_u32(at, value, ORDERED, SYSTEM);
    case 1:
    case 8:
        return weft_dev_atomic_add_u32(at, value, ORDERED, SYSTEM);
    case 2:
    case 9:
        return weft_dev_atomic_and_u32(at, value, ORDERED, SYSTEM);
    case 3:
    case 10:
        return weft_dev_atomic_or_u32(at, value, ORDERED, SYSTEM);
    case 4:
    case 11:
        return weft_dev_atomic_xor_u32(at, value, ORDERED, SYSTEM);
    default:
        return weft_dev_atomic_cas_u32(at, expected, value, ORDERED, SYSTEM);
    }
}

WEFT_DEVICE uint64_t atomic_64(uint64_t *at, int op, uint64_t value, uint64_t expected)
{
    switch (op) {
    case 6:
        return weft_dev_atomic_exch_u64(at, value, ORDERED, SYSTEM);
    case 1:
    case 8:
        return weft_dev_atomic_add_u64(at, value, ORDERED, SYSTEM);
    case 2:
    case 9:
        return weft_dev_atomic_and_u64(at, value, ORDERED, SYSTEM);
    case 3:
    case 10:
        return weft_dev_atomic_or_u64(at, value, ORDERED, SYSTEM);
    case 4:
    case 11:
        return weft_dev_atomic_xor_u64(at, value, ORDERED, SYSTEM);
    default:
        return weft_dev_atomic_cas_u64(at, expected, value, ORDERED, SYSTEM);
    }
}

/* The host polls for the sequence number. Release: a reader that sees it sees the value, and all
 * earlier stores of this thread and those that this thread has observed. */
WEFT_DEVICE void write_answer(struct gpu_answer *answer, uint64_t value, uint64_t number)
{
    answer->value = value;
    weft_dev_store_u64(&answer->number, number, RELEASE, SYSTEM);
}

/* One thread. answer: NULL when the host does not wait. */
KERNEL weft_kernel_atomic(void *at, int op, unsigned width, uint64_t value, uint64_t expected,
                          struct gpu_answer *answer, uint64_t number)
{
    uint64_t before;
    if (width == 8)
        before = atomic_64((uint64_t *)at, op, value, expected);
    else
        before = atomic_32((uint32_t *)at, op, (uint32_t)value, (uint32_t)expected);
    if (answer)
        write_answer(answer, before, number);
}

/* ------------------------------------------------------------------------------------ copies */

WEFT_DEVICE void copy_bytes(char *dst, const char *src, uint64_t bytes, uint64_t rank,
                            uint64_t threads)
{
    uint64_t bits = (uint64_t)(uintptr_t)dst | (uint64_t)(uintptr_t)src;
    uint64_t done = 0;
    if (bits % 16 == 0) {
        for (uint64_t i = rank; i < bytes / 16; i += threads)
            weft_dev_store_vec16(dst + 16 * i, weft_dev_load_vec16(src + 16 * i));
        done = bytes & ~(uint64_t)15;
    } else if (bits % 4 == 0) {
        for (uint64_t i = rank; i < bytes / 4; i += threads)
            ((uint32_t *)dst)[i] = ((const uint32_t *)src)[i];
        done = bytes & ~(uint64_t)3;
    }
    for (uint64_t i = done + rank; i < bytes; i += threads)
        dst[i] = src[i];
}

WEFT_DEVICE void write_signal(uint64_t *signal, uint64_t value, int op)
{
    /* Cumulative: the stores of the block, which its barrier ordered before this thread, and all
     * earlier operations of the stream are visible to an observer of the signal. */
    weft_dev_fence(ORDERED, SYSTEM);
    if (op == 0) /* WEFT_SIGNAL_SET */
        weft_dev_store_u64(signal, value, RELEASE, SYSTEM);
    else
        weft_dev_atomic_add_u64(signal, value, RELEASE, SYSTEM);
}

/* One block. op GPU_NO_SIGNAL: copy only. bytes 0: signal only. answer: NULL when the host does not
 * wait. */
KERNEL weft_kernel_copy(void *dst, const void *src, uint64_t bytes, uint64_t *signal,
                        uint64_t value, int op, struct gpu_answer *answer, uint64_t number)
{
    copy_bytes((char *)dst, (const char *)src, bytes, weft_dev_thread_x(), weft_dev_block_dim_x());
    weft_dev_sync_block();
    if (weft_dev_thread_x() != 0)
        return;
    if (op != GPU_NO_SIGNAL)
        write_signal(signal, value, op);
    if (answer)
        write_answer(answer, 0, number);
}

/* Any grid size. Steps in bytes. */
KERNEL weft_kernel_strided(char *dst, const char *src, int64_t dst_step, int64_t src_step,
                           uint64_t element, uint64_t n)
{
    uint64_t threads = weft_dev_grid_threads();
    for (uint64_t i = weft_dev_grid_rank(); i < n; i += threads) {
        char *to = dst + (int64_t)i * dst_step;
        const char *from = src + (int64_t)i * src_step;
        uint64_t bits = (uint64_t)(uintptr_t)to | (uint64_t)(uintptr_t)from | element;
        if (bits % 8 == 0)
            for (uint64_t b = 0; b < element; b += 8)
                *(uint64_t *)(to + b) = *(const uint64_t *)(from + b);
        else if (bits % 4 == 0)
            for (uint64_t b = 0; b < element; b += 4)
                *(uint32_t *)(to + b) = *(const uint32_t *)(from + b);
        else
            for (uint64_t b = 0; b < element; b++)
                to[b] = from[b];
    }
}

/* ------------------------------------------------------------------------------------- waits */

WEFT_DEVICE int64_t load_value(const void *at, int width, int is_signed)
{
    switch (width) {
    case 2: {
        uint16_t v = weft_dev_load_u16((const uint16_t *)at, ACQUIRE, SYSTEM);
        return is_signed ? (int64_t)(int16_t)v : (int64_t)v;
    }
    case 4: {
        uint32_t v = weft_dev_load_u32((const uint32_t *)at, ACQUIRE, SYSTEM);
        return is_signed ? (int64_t)(int32_t)v : (int64_t)v;
    }
    default:
        return (int64_t)weft_dev_load_u64((const uint64_t *)at, ACQUIRE, SYSTEM);
    }
}

/* Maps an unsigned 64-bit value to a signed one with the same order, by flipping the top bit. */
WEFT_DEVICE int64_t ordered_bits(int64_t value, int width, int is_signed)
{
    return width == 8 && !is_signed ? (int64_t)((uint64_t)value ^ 0x8000000000000000ull) : value;
}

/* One thread waits until the comparison with *at holds, or the job has failed. seen, met (1 or 0):
 * in pinned host memory, or NULL. Without a black box a timeout is not an error. */
KERNEL weft_kernel_wait(const void *at, int width, int is_signed, int cmp, int64_t value,
                        struct gpu_reporting reporting, uint64_t *seen, uint64_t *met)
{
    struct wait_progress p = {0, 0, 0};
    enum wait_state state = WAIT_ON;
    int64_t wanted = ordered_bits(value, width, is_signed), now;
    int good;
    for (;;) {
        now = load_value(at, width, is_signed);
        good = compare_values(ordered_bits(now, width, is_signed), cmp, wanted);
        if (good || state != WAIT_ON)
            break;
        state = check_wait_state(&p, &reporting, (uint64_t)now);
    }
    if (seen)
        *seen = (uint64_t)now;
    if (met)
        *met = (uint64_t)good;
    if (!good && state == WAIT_EXPIRED && reporting.box)
        write_record(reporting.box, reporting.tickets, WEFT_DEV_OP_SIGNAL_WAIT, -1, -1, at,
                     (uint64_t)value, (uint64_t)now, cmp, p.changed);
}

/* One thread: a host callback of a captured graph. Adds 1 to *go, which the host polls, and waits
 * until the host has counted as far in *done. Release and acquire: as for earlier and later work of
 * the stream. Both words are in pinned memory, where only this GPU adds. */
KERNEL weft_kernel_replayed(uint64_t *go, const uint64_t *done, struct gpu_reporting reporting)
{
    struct wait_progress p = {0, 0, 0};
    enum wait_state state = WAIT_ON;
    uint64_t wanted, seen;
    weft_dev_fence(ORDERED, SYSTEM);
    wanted = weft_dev_atomic_add_u64(go, 1, ORDERED, SYSTEM) + 1;
    while ((seen = weft_dev_load_u64(done, ACQUIRE, SYSTEM)) < wanted && state == WAIT_ON)
        state = check_wait_state(&p, &reporting, seen);
    if (state == WAIT_EXPIRED && reporting.box)
        write_record(reporting.box, reporting.tickets, WEFT_DEV_OP_SIGNAL_WAIT, -1, -1, done,
                     wanted, seen, 5, p.changed);
}

/* One block. All operations of a member's stream before its barrier are visible to every member's
 * stream after its barrier. */
KERNEL weft_kernel_barrier(struct gpu_barrier barrier, struct gpu_reporting reporting)
{
    int me = barrier.me, step = (int)weft_dev_block_dim_x();
    struct gpu_team_area *own = barrier.areas[me];
    uint64_t sequence = own->sequence + 1;
    weft_dev_sync_block();
    if (weft_dev_thread_x() == 0)
        own->sequence = sequence;
    /* Release is cumulative over the stream's operations before this kernel. */
    for (int i = (int)weft_dev_thread_x(); i < barrier.members; i += step)
        weft_dev_store_u64(&barrier.areas[i]->arrived[me], sequence, RELEASE, SYSTEM);
    for (int i = (int)weft_dev_thread_x(); i < barrier.members; i += step) {
        struct wait_progress p = {0, 0, 0};
        uint64_t seen;
        while ((seen = weft_dev_load_u64(&own->arrived[i], ACQUIRE, SYSTEM)) < sequence) {
            enum wait_state state = check_wait_state(&p, &reporting, seen);
            if (state == WAIT_FAILED) {
                write_left_word(&reporting, (uint32_t)barrier.operation, barrier.team,
                                barrier.pe[i]);
                break;
            }
            if (state == WAIT_EXPIRED) {
                write_record(reporting.box, reporting.tickets, (uint32_t)barrier.operation,
                             barrier.team, barrier.pe[i], &own->arrived[i], sequence, seen, 5,
                             p.changed);
                break;
            }
        }
    }
}

/* ---------------------------------------------------------------------- test of a GPU pair */

/* Different for every word, round and PE, and never zero. */
WEFT_DEVICE uint64_t pattern(uint64_t pe, uint64_t round, uint64_t index)
{
    uint64_t x = (pe + 1) * 0x9e3779b97f4a7c15ull ^ round << 40 ^ index;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9ull;
    return (x ^ x >> 32) | 1;
}

struct pair_test {
    struct prove_area *own, *peer;
    uint64_t me, other, round;
    struct limit limit;
    struct prove_report *report;
    uint32_t *finders; /* shared by the block: number of threads that had something to report */
};

/* All threads call it with the same arguments except `found`; one finding is kept. Returns nonzero
 * in all threads when one thread found an error. */
WEFT_DEVICE int report_fault(struct pair_test *test, int found, uint64_t stage, uint64_t index,
                             uint64_t expected, uint64_t seen)
{
    if (!weft_dev_sync_block_or(found))
        return 0;
    if (found) { /* the finding of any thread is kept, but all its fields come from one thread */
        if (weft_dev_atomic_add_u32(test->finders, 1, RELAXED, WEFT_SCOPE_CTA) == 0) {
            test->report->stage = stage;
            test->report->round = test->round;
            test->report->index = index;
            test->report->expected = expected;
            test->report->seen = seen;
        }
    }
    weft_dev_sync_block();
    return 1;
}

/* Thread 0 waits until *word >= value; all threads get the result. */
WEFT_DEVICE int await_word(struct pair_test *test, const uint64_t *word, uint64_t value,
                           uint64_t stage)
{
    uint64_t seen = value;
    int late = 0;
    if (weft_dev_thread_x() == 0)
        while ((seen = weft_dev_load_u64(word, ACQUIRE, SYSTEM)) < value && !late)
            late = limit_passed(&test->limit);
    return !report_fault(test, late, stage, 0, value, seen);
}

WEFT_DEVICE void store_flag(uint64_t *word, uint64_t value)
{
    weft_dev_sync_block();
    if (weft_dev_thread_x() == 0) {
        weft_dev_fence(ORDERED, SYSTEM);
        weft_dev_store_u64(word, value, RELEASE, SYSTEM);
    }
}

WEFT_DEVICE int check_pattern(struct pair_test *test, const uint64_t *data, uint64_t pe,
                              uint64_t words, uint64_t stage)
{
    int found = 0;
    uint64_t index = 0, expected = 0, seen = 0;
    for (uint64_t i = weft_dev_thread_x(); i < words; i += weft_dev_block_dim_x()) {
        uint64_t word = weft_dev_load_u64(&data[i], RELAXED, SYSTEM);
        uint64_t wanted = pattern(pe, test->round, i);
        if (word != wanted && !found) {
            found = 1;
            index = i;
            expected = wanted;
            seen = word;
        }
    }
    return !report_fault(test, found, stage, index, expected, seen);
}

/* Stores a pattern at the peer, sets its flag, checks the pattern from the peer, and loads the own
 * pattern back from the peer. */
WEFT_DEVICE int prove_round(struct pair_test *test)
{
    for (uint64_t i = weft_dev_thread_x(); i < PROVE_WORDS; i += weft_dev_block_dim_x())
        test->peer->data[i] = pattern(test->me, test->round, i);
    store_flag(&test->peer->flag, test->round);
    if (!await_word(test, &test->own->flag, test->round, PROVE_NO_FLAG) ||
        !check_pattern(test, test->own->data, test->other, PROVE_WORDS, PROVE_STALE) ||
        !check_pattern(test, test->peer->data, test->me, PROVE_WORDS / 4, PROVE_READ_BACK))
        return 0;
    store_flag(&test->peer->ack, test->round);
    return await_word(test, &test->own->ack, test->round, PROVE_NO_ACK);
}

WEFT_DEVICE int take_lock(struct pair_test *test, uint64_t *lock)
{
    while (weft_dev_atomic_cas_u64(lock, 0, test->me + 1, ACQUIRE, SYSTEM) != 0)
        if (limit_passed(&test->limit))
            return 0;
    return 1;
}

/* Both sides add to one counter, and enter critical sections by compare-and-swap. */
WEFT_DEVICE int prove_atomics(struct pair_test *test)
{
    struct prove_area *home = test->me < test->other ? test->own : test->peer;
    for (uint64_t i = weft_dev_thread_x(); i < PROVE_ADDS; i += weft_dev_block_dim_x())
        weft_dev_atomic_add_u64(&home->counter, i + 1, RELAXED, SYSTEM);
    int denied = 0;
    for (int i = 0; weft_dev_thread_x() == 0 && i < PROVE_SWAPS && !denied; i++) {
        denied = !take_lock(test, &home->lock);
        if (denied)
            break;
        uint64_t now = weft_dev_load_u64(&home->guarded, RELAXED, SYSTEM);
        weft_dev_store_u64(&home->guarded, now + 1, RELAXED, SYSTEM);
        weft_dev_store_u64(&home->lock, 0, RELEASE, SYSTEM);
    }
    if (report_fault(test, denied, PROVE_NO_LOCK, 0, 0, test->other + 1))
        return 0;
    test->round++;
    store_flag(&test->peer->flag, test->round);
    if (!await_word(test, &test->own->flag, test->round, PROVE_NO_FLAG))
        return 0;
    uint64_t sum = 2 * ((uint64_t)PROVE_ADDS * (PROVE_ADDS + 1) / 2);
    uint64_t counter = weft_dev_load_u64(&home->counter, ACQUIRE, SYSTEM);
    uint64_t guarded = weft_dev_load_u64(&home->guarded, ACQUIRE, SYSTEM);
    int first = weft_dev_thread_x() == 0;
    if (report_fault(test, first && counter != sum, PROVE_COUNT, 0, sum, counter) ||
        report_fault(test, first && guarded != 2 * PROVE_SWAPS, PROVE_GUARD, 0, 2 * PROVE_SWAPS,
                     guarded))
        return 0;
    store_flag(&test->peer->ack, test->round);
    return await_word(test, &test->own->ack, test->round, PROVE_NO_ACK);
}

/* Block b tests pairs[b]; the peer's kernel runs at the same time. */
KERNEL weft_kernel_prove(const struct prove_pair *pairs, uint64_t limit_ns,
                         struct prove_report *reports)
{
    const struct prove_pair *pair = &pairs[weft_dev_block_x()];
    WEFT_SHARED(uint32_t, finders, [1]);
    struct pair_test test;
    if (weft_dev_thread_x() == 0)
        finders[0] = 0;
    weft_dev_sync_block();
    test.finders = finders;
    test.own = pair->own;
    test.peer = pair->peer;
    test.me = pair->me;
    test.other = pair->other;
    test.limit = limit_start(limit_ns);
    test.report = &reports[weft_dev_block_x()];
    int good = 1;
    for (test.round = 1; good && test.round <= pair->rounds; test.round++)
        good = prove_round(&test);
    if (good) {
        test.round = pair->rounds;
        good = prove_atomics(&test);
    }
    if (weft_dev_thread_x() != 0)
        return;
    test.report->elapsed_ns = weft_dev_clock_ns() - test.limit.start;
    if (good)
        weft_dev_store_u64(&test.report->stage, PROVE_GOOD, RELEASE, SYSTEM);
}

/* ---------------------------------------------------------------------------------- latency */

/* Ping-pong: one thread on each of two GPUs, at the same time. Each stores a number into the
 * other's memory and waits for the answer in its own. The first `untimed` rounds include the wait
 * for the other kernel to start. Relaxed: the number is the only data. */
KERNEL weft_kernel_echo(uint64_t *own, uint64_t *peer, uint64_t begins, uint64_t untimed,
                        uint64_t rounds, uint64_t limit_ns, struct echo_report *report)
{
    struct limit limit = limit_start(limit_ns);
    uint64_t start = limit.start, round = 0;
    int late = 0;
    while (round < untimed + rounds && !late) {
        round++;
        if (round == untimed + 1)
            start = weft_dev_clock_ns();
        if (begins)
            weft_dev_store_u64(peer, round, RELAXED, SYSTEM);
        while (weft_dev_load_u64(own, RELAXED, SYSTEM) < round && !late)
            late = limit_passed(&limit);
        if (!begins)
            weft_dev_store_u64(peer, round, RELAXED, SYSTEM);
    }
    report->elapsed_ns = weft_dev_clock_ns() - start;
    weft_dev_store_u64(&report->rounds, late ? round - 1 : round, RELEASE, SYSTEM);
}
