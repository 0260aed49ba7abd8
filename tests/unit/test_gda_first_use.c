/* SPDX-License-Identifier: Apache-2.0 */
/* Path gda: links that begin at first use are held while queues in GPU memory are created for all
 * PEs (gda_hold_links()). No NIC runs: a link that begins fails at once, and is counted. */
#include "path/gda/failover.h"

#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PES = 3, ME = 0, ROW = PATH_MAIL_BYTES };

static int begun[PES], failures;
weft_status __wrap_gda_create_links(struct gda *gda, int first, int count);
weft_status __wrap_gda_create_links(struct gda *gda, int first, int count)
{
    assert_int_equal(count, 1);
    begun[first]++;
    return base_fail(WEFT_ERR_NO_MEMORY, "no memory");
}

static void fail_job(const struct path_world *world, weft_status status, const char *sentence)
{
    (void)world, (void)sentence;
    assert_int_equal(status, WEFT_ERR_NO_MEMORY);
    failures++;
}

/* What happens while the main thread agrees with the other PEs, and while it waits. */
static struct gda_failover failover;
static int agreements, steps, hold_at[4], ends_after;
weft_status __wrap_boot_agree(struct boot *boot, weft_status status);
weft_status __wrap_boot_agree(struct boot *boot, weft_status status)
{
    (void)boot;
    hold_at[agreements++ % 4] = atomic_load(&failover.hold);
    return status;
}

static weft_status step(struct path_wait *wait, uint64_t seen)
{
    (void)wait;
    assert_int_equal(seen, atomic_load(&failover.pending));
    if (++steps == ends_after)
        atomic_store(&failover.pending, 0);
    return steps == 100 ? base_fail(WEFT_ERR_TIMEOUT, "too long") : WEFT_OK;
}

static void end(struct path_wait *wait)
{
    (void)wait;
}

static _Alignas(64) char mail[PES * ROW];
static char *maps[PES][SEG_COUNT] = {[ME] = {[SEG_SYSTEM] = mail}};
static struct path_world world = {
    .pe = ME, .npes = PES, .map = maps, .wait_step = step, .wait_end = end, .fail = fail_job};
static atomic_uchar links[PES];
static uint8_t wanted[PES];
static uint32_t alarm_word;
static struct gda gda = {
    .world = &world, .links = links, .wanted = wanted, .alarm = &alarm_word, .failover = &failover};

static int setup(void **state)
{
    (void)state;
    memset(begun, 0, sizeof begun);
    memset(wanted, 0, sizeof wanted);
    memset(mail, 0, sizeof mail);
    failures = agreements = steps = 0;
    ends_after = 5;
    gda.eager = false;
    memset(&failover, 0, sizeof failover);
    failover.gda = &gda;
    failover.alarm = &alarm_word;
    pthread_mutex_init(&failover.lock, NULL);
    pthread_cond_init(&failover.woken, NULL);
    alarm_word = 0;
    return 0;
}

static void offer(int pe)
{
    gda_mail_of(&gda, pe)->step = GDA_STEP_OFFERED;
}

static void links_begin(void **state)
{
    (void)state;
    wanted[2] = 1;
    gda_begin_wanted_links(&failover);
    assert_int_equal(begun[2], 1);
    assert_int_equal(wanted[2], 0);
    offer(1);
    gda_begin_offered_link(&failover, 1);
    assert_int_equal(begun[1], 1);
    gda_begin_offered_link(&failover, 2); /* it has offered nothing */
    assert_int_equal(begun[2], 1);
    assert_int_equal(failures, 2);
    assert_int_equal(atomic_load(&failover.pending), 0);
}

/* At first other PEs may still offer links that they have begun. */
static void wanted_links_are_held(void **state)
{
    (void)state;
    atomic_store(&failover.hold, GDA_HOLD_WANTED);
    wanted[2] = 1;
    gda_begin_wanted_links(&failover);
    assert_int_equal(begun[2], 0);
    assert_int_equal(wanted[2], 1);
    offer(1);
    gda_begin_offered_link(&failover, 1);
    assert_int_equal(begun[1], 1);
}

static void all_links_are_held(void **state)
{
    (void)state;
    atomic_store(&failover.pending, 1);
    assert_int_equal(gda_hold_links(&gda), WEFT_OK);
    assert_int_equal(steps, 5);
    assert_int_equal(agreements, 4);
    assert_int_equal(hold_at[0], GDA_HOLD_NONE);
    assert_int_equal(hold_at[1], GDA_HOLD_WANTED);
    assert_int_equal(hold_at[2], GDA_HOLD_WANTED);
    assert_int_equal(hold_at[3], GDA_HOLD_ALL);
    wanted[2] = 1;
    offer(1);
    gda_begin_wanted_links(&failover);
    gda_begin_offered_link(&failover, 1);
    assert_int_equal(begun[1] | begun[2], 0);
    gda_release_links(&gda);
    assert_int_equal(alarm_word, WEFT_DEV_GDA_ALARM_WANTED);
    gda_begin_wanted_links(&failover); /* the mail was read before, and is read again */
    assert_int_equal(begun[1], 1);
    assert_int_equal(begun[2], 1);
}

static void a_link_that_never_ends(void **state)
{
    (void)state;
    ends_after = 0;
    atomic_store(&failover.pending, 2);
    assert_int_equal(gda_hold_links(&gda), WEFT_ERR_TIMEOUT);
    assert_int_equal(agreements, 4);
}

static void eager_jobs_hold_nothing(void **state)
{
    (void)state;
    gda.eager = true;
    atomic_store(&failover.pending, 1);
    assert_int_equal(gda_hold_links(&gda), WEFT_OK);
    gda_release_links(&gda);
    assert_int_equal(agreements | (int)alarm_word, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(links_begin, setup),
        cmocka_unit_test_setup(wanted_links_are_held, setup),
        cmocka_unit_test_setup(all_links_are_held, setup),
        cmocka_unit_test_setup(a_link_that_never_ends, setup),
        cmocka_unit_test_setup(eager_jobs_hold_nothing, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
