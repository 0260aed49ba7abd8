/* SPDX-License-Identifier: Apache-2.0 */
/* Shows that the limit of waits in the library's kernels counts from the last change of the awaited
 * value (finding A22). A block of one thread runs the kernels' source as member 0. The test sets
 * the clock: each read of it adds 2/5 of the limit, and each second read is followed by one step of
 * the other members. So each step takes less than the limit, and a few steps take more. */
#include <sched.h>
#include <stdint.h>
#include <time.h>

static int clock_look(struct timespec *now);
#define clock_gettime(id, now) clock_look(now)
#include "../fakecuda/primitives.h"

#include "gpu/coll/kernels.cu"
#include "gpu/kernels.cu"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

enum { LIMIT_NS = 1000, MEMBERS = 3, SET = 4096, STEPS = 5, NUMBER = 8, MOVES = 256 };

/* Nothing is held back in this test. */
void fake_release(void)
{
}

struct window {
    struct coll_area area;
    char sets[4][SET];
    char src[STEPS * SET], dst[MEMBERS * STEPS * SET];
};

static struct window windows[MEMBERS];
static struct weft_dev_box box;
static uint64_t tickets;
static uint64_t now_ns;
static unsigned looks;

/* Steps of the other members: one store at each second read of the clock. */
static struct move {
    uint64_t *at, value;
} moves[MOVES];
static unsigned given, made;

static int clock_look(struct timespec *now)
{
    now_ns += LIMIT_NS * 2 / 5;
    if (++looks % 2 == 0 && made < given) {
        __atomic_store_n(moves[made].at, moves[made].value, __ATOMIC_SEQ_CST);
        made++;
    }
    *now = (struct timespec){.tv_sec = (time_t)(now_ns / 1000000000),
                             .tv_nsec = (long)(now_ns % 1000000000)};
    return 0;
}

static void move(void *at, uint64_t value)
{
    assert_true(given < MOVES);
    moves[given++] = (struct move){at, value};
}

static struct gpu_reporting begin(void)
{
    memset(windows, 0, sizeof windows);
    memset(&box, 0, sizeof box);
    tickets = given = made = looks = 0;
    now_ns = 1000000000;
    for (int i = 0; i < MEMBERS; i++) { /* the latest round of all members was NUMBER - 1 */
        windows[i].area.tickets = (uint64_t)(NUMBER - 1) * COLL_BLOCKS;
        windows[i].area.begun = NUMBER - 1;
    }
    fake_block = 0;
    fake_blocks = 1;
    return (struct gpu_reporting){.box = &box, .tickets = &tickets, .limit_ns = LIMIT_NS};
}

static struct coll_call call_of(struct gpu_reporting reporting, uint64_t bytes)
{
    struct coll_call call = {
        .dst = windows[0].dst,
        .src = windows[0].src,
        .to = offsetof(struct window, dst),
        .from = offsetof(struct window, src),
        .bytes = bytes,
        .dst_step = bytes,
        .set_bytes = SET,
        .members = MEMBERS,
        .root = -1,
        .flow = COLL_ALL,
        .record.operation = WEFT_DEV_OP_ALLGATHER,
        .record.pe = {10, 11, 12},
        .record.reporting = reporting,
    };
    for (int i = 0; i < MEMBERS; i++)
        call.part[i] = (char *)&windows[i];
    return call;
}

/* All steps were made, they took longer than the limit, and no wait timed out. */
static void assert_waited(void)
{
    assert_int_equal(made, given);
    assert_true(now_ns - 1000000000 > 2 * LIMIT_NS);
    assert_int_equal(box.failed, 0);
    assert_int_equal(tickets, 0);
}

/* The wait for member `pe` timed out after the limit and at most one read of the clock. */
static void assert_expired(int pe)
{
    assert_int_equal(box.failed, WEFT_ERR_TIMEOUT);
    assert_int_equal(tickets, 1);
    assert_int_equal(box.records[0].peer, pe);
    assert_in_range(box.records[0].waited_ns, LIMIT_NS, 2 * LIMIT_NS);
}

/* In each step of a staged allgather all other members are slow. */
static void plan_steps(uint64_t stop_before)
{
    struct coll_area *own = &windows[0].area;
    for (int i = 1; i < MEMBERS; i++)
        move(&own->here[i], NUMBER);
    for (uint64_t step = 1; step <= STEPS && step < stop_before; step++)
        for (int i = 1; i < MEMBERS; i++)
            move(&own->filled[i][0], (uint64_t)NUMBER * COLL_STEPS + step);
    for (int i = 1; i < MEMBERS && stop_before > STEPS; i++)
        move(&own->done[i][0], NUMBER);
}

static void steps_of_scratch(void **state)
{
    struct coll_call call = call_of(begin(), STEPS * coll_staging_slot_bytes(SET, 1, 1, MEMBERS));
    plan_steps(STEPS + 1);
    weft_coll_push_scratch(call);
    assert_waited();
}

static void scratch_stops(void **state)
{
    struct coll_call call = call_of(begin(), STEPS * coll_staging_slot_bytes(SET, 1, 1, MEMBERS));
    plan_steps(3);
    weft_coll_push_scratch(call);
    assert_int_equal(made, given);
    assert_expired(11);
}

/* The last word of each LL unit arrives late, and one unit later than the other. */
static void units_of_packets(void **state)
{
    enum { UNITS = 3 };
    struct coll_call call = call_of(begin(), UNITS * COLL_UNIT);
    uint64_t number = (uint64_t)(NUMBER | COLL_NUMBER_BIT) << 32;
    uint64_t slot = SET / MEMBERS / COLL_UNIT_WIRE * COLL_UNIT_WIRE;
    for (uint64_t unit = 0; unit < UNITS; unit++)
        for (uint64_t i = 1; i < MEMBERS; i++) {
            uint64_t *words = (uint64_t *)(void *)(windows[0].sets[NUMBER & 1] + i * slot +
                                                   unit * COLL_UNIT_WIRE);
            for (uint64_t word = 0; word < 3; word++)
                words[word] = number | (unit + 10 * i);
            move(&words[3], number | (unit + 10 * i));
        }
    weft_coll_send(call);
    assert_waited();
    assert_int_equal(*(uint32_t *)(void *)(windows[0].dst + 2 * UNITS * COLL_UNIT + 2 * COLL_UNIT),
                     22);
}

static void lines(void **state)
{
    struct coll_call call = call_of(begin(), 2 * COLL_PIECE);
    uint64_t slot = SET / MEMBERS / COLL_PIECE_WIRE * COLL_PIECE_WIRE;
    for (uint64_t piece = 0; piece < 2; piece++)
        for (uint64_t line = 0; line < 4; line++)
            for (uint64_t i = 1; i < MEMBERS; i++)
                move(windows[0].sets[2 + (NUMBER & 1)] + i * slot + piece * COLL_PIECE_WIRE +
                         128 * line + 120,
                     NUMBER);
    weft_coll_send_lines(call);
    assert_waited();
}

/* A stream waits for a signal that is counted up. */
static void signal_counts(void **state)
{
    struct gpu_reporting reporting = begin();
    static uint64_t signal;
    uint64_t seen = 0, met = 0;
    signal = 0;
    for (uint64_t i = 1; i <= 4; i++)
        move(&signal, i);
    weft_kernel_wait(&signal, 8, 0, WEFT_GE, 4, reporting, &seen, &met);
    assert_waited();
    assert_int_equal(seen, 4);
    assert_int_equal(met, 1);

    reporting = begin();
    signal = 0;
    for (uint64_t i = 1; i <= 3; i++)
        move(&signal, i);
    weft_kernel_wait(&signal, 8, 0, WEFT_GE, 4, reporting, &seen, &met);
    assert_expired(-1);
    assert_int_equal(seen, 3);
    assert_int_equal(met, 0);
}

/* In a barrier on streams the members arrive one after the other. */
static void members_come(void **state)
{
    enum { ALL = 5 };
    static uint64_t areas[ALL][sizeof(struct gpu_team_area) / 8 + ALL];
    struct gpu_reporting reporting = begin();
    struct gpu_barrier barrier = {.operation = WEFT_DEV_OP_SYNC, .members = ALL};
    for (int i = 0; i < ALL; i++) {
        barrier.areas[i] = (struct gpu_team_area *)(void *)areas[i];
        barrier.pe[i] = (uint16_t)(10 + i);
    }
    for (int i = 1; i < ALL; i++)
        move(&barrier.areas[0]->arrived[i], 1);
    weft_kernel_barrier(barrier, reporting);
    assert_waited();

    reporting = begin();
    for (int i = 1; i < ALL - 1; i++)
        move(&barrier.areas[0]->arrived[i], 2);
    weft_kernel_barrier(barrier, reporting);
    assert_expired(14);
}

/* The value changes so often during one wait that all its polls, at their shortest, take longer
 * than the limit. */
static void member_is_far_behind(void **state)
{
    enum { BEHIND = 150 };
    static uint64_t areas[2][sizeof(struct gpu_team_area) / 8 + 2];
    struct gpu_reporting reporting = begin();
    struct gpu_barrier barrier = {.operation = WEFT_DEV_OP_SYNC, .members = 2};
    for (int i = 0; i < 2; i++)
        barrier.areas[i] = (struct gpu_team_area *)(void *)areas[i];
    barrier.areas[0]->sequence = BEHIND - 1;
    for (uint64_t i = 1; i <= BEHIND; i++)
        move(&barrier.areas[0]->arrived[1], i);
    weft_kernel_barrier(barrier, reporting);
    assert_waited();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_of_scratch),     cmocka_unit_test(scratch_stops),
        cmocka_unit_test(units_of_packets),     cmocka_unit_test(lines),
        cmocka_unit_test(signal_counts),        cmocka_unit_test(members_come),
        cmocka_unit_test(member_is_far_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
