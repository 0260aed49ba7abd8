/* SPDX-License-Identifier: Apache-2.0 */
/* The virtual time of `weft bench scale`, for costs that are given: the sum along the chain of
 * frames where each process has a CPU, and all work where they share one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bench/scale/scale.h"

/* Times whose sums show which of them were counted, and how often. */
static const struct scale_kind_cost in_host = {
    .down = {1e3, 3e4}, .up = {5e5, 7e6}, .switch_ns = 11e6, .idle_ns = 13e7, .wake_ns = 17e8};
static const struct scale_kind_cost between = {
    .down = {2e3, 1e4}, .up = {3e5, 2e6}, .switch_ns = 19e6, .idle_ns = 23e7, .wake_ns = 29e8};

static void assert_ns(double got, double wanted)
{
    if (got < wanted - 1 || got > wanted + 1)
        fail_msg("%.0f ns instead of %.0f", got, wanted);
}

static struct scale_job make_job(int pes, int cpus)
{
    return (struct scale_job){
        .pes = pes,
        .per_host = 3,
        .fan_out = 2,
        .costs = {.in_host = in_host, .between_hosts = between, .cpus = cpus}};
}

static double barrier_ns(int pes, int cpus)
{
    const struct scale_job job = make_job(pes, cpus);
    struct scale_outcome outcome;
    assert_true(scale_simulate(&job, &outcome));
    assert_true(outcome.right);
    return outcome.steps[SCALE_BARRIER].us * 1000;
}

static double frame_ns(struct scale_frame_cost cost)
{
    return cost.send_ns + cost.receive_ns;
}

static double start_ns(const struct scale_kind_cost *own)
{
    return own->switch_ns + own->idle_ns;
}

/* PE, agent, launcher, agent, PE: each frame wakes a process that sleeps. */
static void test_own_cpus(void **state)
{
    const double frames = frame_ns(in_host.up) + frame_ns(between.up) + frame_ns(between.down) +
                          frame_ns(in_host.down) + 2 * in_host.wake_ns + 2 * between.wake_ns;
    const double starts = 3 * start_ns(&between) + start_ns(&in_host);
    assert_ns(barrier_ns(1, 0), frames + starts);
}

static double frames_of_three(void)
{
    return 3 * frame_ns(in_host.up) + frame_ns(between.up) + frame_ns(between.down) +
           3 * frame_ns(in_host.down);
}

/* Nothing happens at the same time, and no CPU is idle. Two PEs wait until they can begin. */
static void test_one_cpu(void **state)
{
    const double starts = 3 * between.switch_ns + 5 * in_host.switch_ns;
    assert_ns(barrier_ns(3, 1), frames_of_three() + starts);
}

/* A PE that ends a barrier begins the next one without a switch. */
static void test_repeated(void **state)
{
    const struct scale_job job = make_job(3, 1);
    const double starts = 3 * between.switch_ns + 3 * in_host.switch_ns;
    double us[SCALE_REPEATED];
    assert_true(scale_predict(&job, us));
    assert_ns(us[0] * 1000, frames_of_three() + starts);
}

/* Many PEs, whose work two CPUs share, and which no CPU more than the processes makes faster. */
static void test_more_cpus(void **state)
{
    struct scale_job job = make_job(41, 1);
    double one[SCALE_REPEATED], two[SCALE_REPEATED];
    job.costs.in_host.idle_ns = job.costs.between_hosts.idle_ns = 0;
    job.costs.in_host.wake_ns = job.costs.between_hosts.wake_ns = 0;
    assert_true(scale_predict(&job, one));
    job.costs.cpus = 2;
    assert_true(scale_predict(&job, two));
    assert_true(two[0] < 0.75 * one[0]);
    assert_true(two[0] > 0.49 * one[0]);
    assert_ns(barrier_ns(41, 4096), barrier_ns(41, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_cpus),
        cmocka_unit_test(test_one_cpu),
        cmocka_unit_test(test_repeated),
        cmocka_unit_test(test_more_cpus),
    };
    run_be_quiet(true); /* the launcher would print the death */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
