/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs whose PEs are threads, tested by a single thread: while one PE waits, the fake wait runs the
 * other PE's step. The test counts what is locked, created and freed, and checks what is reported
 * if a step fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/callocs.h"
#include "tests/unit/held_locks.h"

#include "base/config.h"
#include "base/status.h"
#include "boot/boot.h"
#include "boot/methods.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct {
    uint64_t limit_ns, now_ns;
    void (*step)(void); /* step of the other PE in the next wait; NULL = time passes */
    int waits, broadcasts, locks, conds, attributes; /* created and not yet destroyed */
    int lock_error, cond_error;
    int duplicates, closes, duplicate_fails_in, failed_fd;
    bool monotonic, time_is_over;
    struct timespec until;
} beneath;

static weft_group *group;
static struct boot *own, *other;

uint64_t __wrap_config_duration_ns(enum config_id id);
uint64_t __wrap_config_duration_ns(enum config_id id)
{
    assert_int_equal(id, CONFIG_WAIT_LIMIT);
    return beneath.limit_ns;
}

uint64_t __wrap_clock_now_ns(void);
uint64_t __wrap_clock_now_ns(void)
{
    return beneath.now_ns;
}

static int wait_for(pthread_mutex_t *lock)
{
    void (*step)(void) = beneath.step;
    assert_true(is_held(lock));
    beneath.waits++;
    beneath.step = NULL;
    __wrap_pthread_mutex_unlock(lock);
    if (step)
        step();
    __wrap_pthread_mutex_lock(lock);
    return step && !beneath.time_is_over ? 0 : ETIMEDOUT;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock)
{
    (void)cond;
    assert_int_equal(beneath.limit_ns, 0);
    assert_int_equal(wait_for(lock), 0);
    return 0;
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                                  const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                                  const struct timespec *until)
{
    (void)cond;
    beneath.until = *until;
    return wait_for(lock);
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
    (void)cond;
    assert_false(none_is_held());
    beneath.broadcasts++;
    return 0;
}

int __wrap_pthread_condattr_init(pthread_condattr_t *attributes);
int __wrap_pthread_condattr_init(pthread_condattr_t *attributes)
{
    (void)attributes;
    beneath.attributes++;
    return 0;
}

int __wrap_pthread_condattr_destroy(pthread_condattr_t *attributes);
int __wrap_pthread_condattr_destroy(pthread_condattr_t *attributes)
{
    (void)attributes;
    beneath.attributes--;
    return 0;
}

int __wrap_pthread_condattr_setclock(pthread_condattr_t *attributes, clockid_t clock);
int __wrap_pthread_condattr_setclock(pthread_condattr_t *attributes, clockid_t clock)
{
    (void)attributes;
    assert_int_equal(beneath.attributes, 1);
    beneath.monotonic = clock == CLOCK_MONOTONIC;
    return 0;
}

int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attributes);
int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attributes)
{
    (void)cond, (void)attributes;
    assert_true(beneath.monotonic);
    beneath.conds += !beneath.cond_error;
    return beneath.cond_error;
}

int __wrap_pthread_cond_destroy(pthread_cond_t *cond);
int __wrap_pthread_cond_destroy(pthread_cond_t *cond)
{
    (void)cond;
    beneath.conds--;
    return 0;
}

int __wrap_pthread_mutex_init(pthread_mutex_t *lock, const pthread_mutexattr_t *attributes);
int __wrap_pthread_mutex_init(pthread_mutex_t *lock, const pthread_mutexattr_t *attributes)
{
    (void)lock, (void)attributes;
    beneath.locks += !beneath.lock_error;
    return beneath.lock_error;
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *lock);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *lock)
{
    assert_false(is_held(lock));
    beneath.locks--;
    return 0;
}

int __wrap_fcntl(int fd, int command, int least);
int __wrap_fcntl(int fd, int command, int least)
{
    assert_true(command == F_DUPFD_CLOEXEC && least == 0);
    if (!beneath.duplicate_fails_in--) {
        beneath.failed_fd = fd;
        errno = EMFILE;
        return -1;
    }
    return fd - 70 + beneath.duplicates++; /* 0 is a valid descriptor */
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
    if (fd > 50)
        return __real_close(fd);
    beneath.closes++;
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    memset(&beneath, 0, sizeof beneath);
    beneath.limit_ns = 2500000000;
    beneath.now_ns = 7700000000;
    beneath.duplicate_fails_in = -1;
    assert_int_equal(boot_group_create(2, &group), WEFT_OK);
    assert_int_equal(boot_open_group(&own, group, 0), WEFT_OK);
    assert_int_equal(boot_open_group(&other, group, 1), WEFT_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (own)
        own->ops->close(own, true);
    if (other)
        other->ops->close(other, true);
    own = other = NULL;
    boot_group_destroy(group);
    group = NULL;
    assert_int_equal(callocs.memory, 0);
    assert_int_equal(beneath.attributes, 0);
    assert_int_equal(beneath.conds, 0);
    assert_int_equal(beneath.locks, 0);
    assert_true(none_is_held());
    return 0;
}

static weft_status of_other;
static char gathered[64];

static void other_arrives(void)
{
    of_other = other->ops->barrier(other);
}

static void a_barrier_ends_when_the_other_comes(void **state)
{
    (void)state;
    beneath.step = other_arrives;
    assert_int_equal(own->ops->barrier(own), WEFT_OK);
    assert_int_equal(of_other, WEFT_OK);
    assert_int_equal(beneath.waits, 1);
    assert_int_equal(beneath.broadcasts, 1);
    assert_int_equal(beneath.until.tv_sec, 10);
    assert_int_equal(beneath.until.tv_nsec, 200000000);
    beneath.limit_ns = 0; /* no time limit */
    beneath.step = other_arrives;
    assert_int_equal(own->ops->barrier(own), WEFT_OK);
    assert_int_equal(beneath.waits, 2);
}

static void nobody_comes(void **state)
{
    (void)state;
    assert_int_equal(own->ops->barrier(own), WEFT_ERR_TIMEOUT);
    assert_string_equal(base_last_error(),
                        "only 1 of 2 PEs (threads) reached a barrier within WEFT_WAIT_LIMIT");
    assert_int_equal(beneath.broadcasts, 1);
    assert_int_equal(other->ops->barrier(other), WEFT_ERR_TIMEOUT);
    assert_int_equal(beneath.waits, 1);
    memset(gathered, 7, sizeof gathered);
    assert_int_equal(own->ops->allgather(own, "abcd", gathered, 4), WEFT_ERR_TIMEOUT);
    assert_int_equal(gathered[0], 7);
    int taken = 5;
    assert_int_equal(own->ops->share_fd(own, 0, 70, &taken), WEFT_ERR_TIMEOUT);
    assert_int_equal(taken, -1);
    assert_int_equal(beneath.duplicates + beneath.closes, 0);
    assert_int_equal(own->ops->check(own), WEFT_ERR_TIMEOUT);
}

/* The time limit has passed, but the round is complete. */
static void a_round_that_was_completed_counts(void **state)
{
    (void)state;
    beneath.step = other_arrives;
    beneath.time_is_over = true;
    assert_int_equal(own->ops->barrier(own), WEFT_OK);
    assert_int_equal(own->ops->check(own), WEFT_OK);
}

static void other_fails(void)
{
    (other->ops->fail)(other, WEFT_ERR_SYSTEM, "as meant");
}

static void other_comes_and_fails(void)
{
    of_other = other->ops->barrier(other);
    other_fails();
}

static void a_failure_ends_waits_and_stays_the_first(void **state)
{
    (void)state;
    beneath.step = other_fails;
    assert_int_equal(own->ops->barrier(own), WEFT_ERR_SYSTEM);
    assert_string_equal(base_last_error(), "as meant");
    own->ops->abort(own, 3, "enough");
    assert_int_equal(own->ops->check(own), WEFT_ERR_SYSTEM);
    assert_int_equal(beneath.broadcasts, 2);
}

static void a_failure_behind_a_round_is_for_the_next(void **state)
{
    (void)state;
    beneath.step = other_comes_and_fails;
    assert_int_equal(own->ops->barrier(own), WEFT_OK);
    assert_int_equal(own->ops->barrier(own), WEFT_ERR_SYSTEM);
}

static void other_aborts(void)
{
    other->ops->abort(other, 3, "enough");
}

static void an_abort_names_pe_and_code(void **state)
{
    (void)state;
    beneath.step = other_aborts;
    assert_int_equal(own->ops->barrier(own), WEFT_ERR_JOB);
    assert_string_equal(base_last_error(), "PE 1 aborted the job with code 3: enough");
}

/* ------------------------------------------------------------------------------- descriptors */

static void other_leaves(void)
{
    other->ops->close(other, false);
    other = NULL;
}

static void who_leaves_unclean_is_named(void **state)
{
    (void)state;
    beneath.step = other_leaves;
    assert_int_equal(own->ops->barrier(own), WEFT_ERR_PEER_DEAD);
    assert_string_equal(base_last_error(), "PE 1 (a thread) left the job before weft_finalize");
}

static void a_group_of_one_shares_with_itself(void **state)
{
    (void)state;
    weft_group *one;
    struct boot *boot;
    int taken = 5;
    assert_int_equal(boot_group_create(1, &one), WEFT_OK);
    assert_int_equal(boot_open_group(&boot, one, 0), WEFT_OK);
    assert_int_equal(boot->ops->share_fd(boot, 0, 70, &taken), WEFT_OK);
    assert_int_equal(taken, 0);
    assert_int_equal(boot->ops->share_fd(boot, 0, 70, &taken), WEFT_OK);
    assert_int_equal(taken, 1);
    beneath.duplicate_fails_in = 0;
    assert_int_equal(boot->ops->share_fd(boot, 0, 70, &taken), WEFT_ERR_SYSTEM);
    assert_string_equal(base_last_error(),
                        "duplicating descriptor 70 of PE 0: Too many open files");
    assert_int_equal(taken, -1);
    /* A descriptor that another PE names is not shared, because no PE has shared one. */
    beneath.duplicate_fails_in = 0;
    struct boot *next;
    boot->ops->close(boot, true);
    boot_group_destroy(one);
    assert_int_equal(boot_group_create(1, &one), WEFT_OK);
    assert_int_equal(boot_open_group(&next, one, 0), WEFT_OK);
    assert_int_equal(next->ops->share_fd(next, 3, 70, &taken), WEFT_ERR_SYSTEM);
    assert_int_equal(beneath.failed_fd, -1);
    char all[4];
    assert_int_equal(next->ops->allgather(next, "abcd", all, 4), WEFT_OK);
    assert_memory_equal(all, "abcd", 4);
    assert_int_equal(next->ops->allgather(next, NULL, NULL, 0), WEFT_OK);
    assert_int_equal(beneath.closes, 0);
    next->ops->close(next, true);
    boot_group_destroy(one);
}

static void other_shares_and_fails(void)
{
    int taken;
    beneath.step = other_fails;
    of_other = other->ops->share_fd(other, 0, -1, &taken);
}

/* The first barrier succeeds and the second fails: the received descriptor is closed, even if its
 * number is 0. */
static void a_descriptor_is_closed_when_the_share_fails(void **state)
{
    (void)state;
    int taken = 5;
    beneath.step = other_shares_and_fails;
    assert_int_equal(own->ops->share_fd(own, 0, 70, &taken), WEFT_ERR_SYSTEM);
    assert_int_equal(taken, -1);
    assert_int_equal(beneath.duplicates, 2);
    assert_int_equal(beneath.closes, 2);
    assert_int_equal(of_other, WEFT_ERR_SYSTEM);
}

/* ----------------------------------------------------------------------------------- memory */

static void a_group_that_cannot_be_made_leaves_nothing(void **state)
{
    (void)state;
    weft_group *made = group;
    int before = callocs.memory, locks = beneath.locks;
    for (int i = 0; i < 4; i++) {
        callocs.left = i;
        assert_int_equal(boot_group_create(3, &made), WEFT_ERR_NO_MEMORY);
        callocs.left = -1;
        assert_null(made);
        assert_int_equal(callocs.memory, before);
        assert_int_equal(beneath.locks, locks);
    }
    struct boot *boot = NULL;
    for (int i = 0; i < 2; i++) {
        callocs.left = i;
        assert_int_equal(boot_open_group(&boot, group, 0), WEFT_ERR_NO_MEMORY);
        callocs.left = -1;
        assert_int_equal(callocs.memory, before);
    }
    assert_int_equal(boot_open_group(&boot, group, 0), WEFT_ERR_ARGUMENT); /* already joined */
    assert_int_equal(callocs.memory, before);
    assert_int_equal(boot_open_group(&boot, group, 2), WEFT_ERR_PE);
    assert_int_equal(boot_open_group(&boot, group, -1), WEFT_ERR_PE);
}

static void locks_that_cannot_be_made_are_told(void **state)
{
    (void)state;
    weft_group *made = NULL;
    assert_int_equal(boot_group_create(0, &made), WEFT_ERR_ARGUMENT);
    assert_int_equal(boot_group_create(4097, &made), WEFT_ERR_ARGUMENT);
    for (int i = 0; i < 2; i++) {
        *(i ? &beneath.lock_error : &beneath.cond_error) = EAGAIN;
        assert_int_equal(boot_group_create(3, &made), WEFT_ERR_SYSTEM);
        assert_non_null(strstr(base_last_error(), "making a lock: "));
        assert_null(made);
        beneath.lock_error = beneath.cond_error = 0;
        beneath.conds = beneath.locks = 1; /* those of the test's own group */
    }
}

static void the_next_job_of_a_group_begins_afresh(void **state)
{
    (void)state;
    beneath.limit_ns = 1;
    assert_int_equal(own->ops->barrier(own), WEFT_ERR_TIMEOUT);
    own->ops->close(own, true);
    assert_int_equal(other->ops->check(other), WEFT_ERR_TIMEOUT);
    other->ops->close(other, true);
    assert_int_equal(boot_open_group(&own, group, 0), WEFT_OK);
    assert_int_equal(boot_open_group(&other, group, 1), WEFT_OK);
    assert_int_equal(own->ops->check(own), WEFT_OK);
    beneath.step = other_arrives;
    assert_int_equal(own->ops->barrier(own), WEFT_OK);
    assert_int_equal(beneath.waits, 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_barrier_ends_when_the_other_comes),
        TEST(nobody_comes),
        TEST(a_round_that_was_completed_counts),
        TEST(a_failure_ends_waits_and_stays_the_first),
        TEST(a_failure_behind_a_round_is_for_the_next),
        TEST(an_abort_names_pe_and_code),
        TEST(who_leaves_unclean_is_named),
        TEST(a_group_of_one_shares_with_itself),
        TEST(a_descriptor_is_closed_when_the_share_fails),
        TEST(a_group_that_cannot_be_made_leaves_nothing),
        TEST(locks_that_cannot_be_made_are_told),
        TEST(the_next_job_of_a_group_begins_afresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
