/* SPDX-License-Identifier: Apache-2.0 */
/* Module boot without processes: a job of one PE, and PEs as threads. */
#include "base/config.h"
#include "boot/boot.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { PES = 5 };

struct member {
    weft_group *group;
    int pe;
    const char *fault; /* error of the thread; NULL = none */
    weft_status status;
    char sentence[256];
};

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition) && !member->fault)                                                        \
            member->fault = #condition;                                                            \
    } while (0)

static void run_group(void *(*body)(void *), struct member members[PES], int starts)
{
    weft_group *group;
    assert_int_equal(weft_group_create(PES, &group), WEFT_OK);
    pthread_t threads[PES];
    for (int pe = 0; pe < starts; pe++) {
        members[pe] = (struct member){.group = group, .pe = pe};
        assert_int_equal(pthread_create(&threads[pe], NULL, body, &members[pe]), 0);
    }
    for (int pe = 0; pe < starts; pe++)
        pthread_join(threads[pe], NULL);
    for (int pe = 0; pe < starts; pe++)
        if (members[pe].fault)
            fail_msg("PE %d: not true: %s", pe, members[pe].fault);
    weft_group_destroy(group);
}

static void exchange(struct member *member, struct boot *boot)
{
    int all[PES];
    for (int round = 0; round < 200; round++) {
        int mine = 1000 * round + boot->pe;
        EXPECT(boot->ops->allgather(boot, &mine, all, sizeof mine) == WEFT_OK);
        for (int pe = 0; pe < PES; pe++)
            EXPECT(all[pe] == 1000 * round + pe);
        if (round % 3 == 0)
            EXPECT(boot->ops->barrier(boot) == WEFT_OK);
    }
    EXPECT(boot->ops->allgather(boot, NULL, NULL, 0) == WEFT_OK);
}

static void share(struct member *member, struct boot *boot)
{
    for (int from = 0; from < PES; from++) {
        int own = -1, taken = -1, seen = -1;
        if (from == boot->pe) {
            own = memfd_create("test", MFD_CLOEXEC);
            EXPECT(pwrite(own, &from, sizeof from, 0) == sizeof from);
        }
        EXPECT(boot->ops->share_fd(boot, from, own, &taken) == WEFT_OK);
        if (own >= 0)
            close(own);
        EXPECT(taken >= 0 && taken != own);
        EXPECT(pread(taken, &seen, sizeof seen, 0) == sizeof seen && seen == from);
        close(taken);
    }
}

static void *exchanging(void *argument)
{
    struct member *member = argument;
    for (int again = 0; again < 3; again++) {
        struct boot *boot;
        EXPECT(boot_open(&boot, member->group, member->pe) == WEFT_OK);
        if (member->fault)
            return NULL;
        EXPECT(boot->pe == member->pe && boot->npes == PES && boot->nodes == 1);
        EXPECT(boot->local_pe == boot->pe && boot->local_npes == PES && boot->shared_slot);
        exchange(member, boot);
        share(member, boot);
        if (boot->local_pe == 0)
            *boot->shared_slot = member;
        EXPECT(boot->ops->barrier(boot) == WEFT_OK);
        EXPECT(((struct member *)*boot->shared_slot)->pe == 0);
        EXPECT(boot->ops->check(boot) == WEFT_OK);
        EXPECT(boot->ops->barrier(boot) == WEFT_OK);
        boot->ops->close(boot, true);
    }
    return NULL;
}

static void threads_exchange(void **state)
{
    struct member members[PES];
    run_group(exchanging, members, PES);
}

static void *aborting(void *argument)
{
    struct member *member = argument;
    struct boot *boot;
    EXPECT(boot_open(&boot, member->group, member->pe) == WEFT_OK);
    if (boot->pe == 2)
        boot->ops->abort(boot, 7, "enough");
    member->status = boot->ops->barrier(boot);
    snprintf(member->sentence, sizeof member->sentence, "%s", weft_last_error());
    EXPECT(boot->ops->check(boot) == WEFT_ERR_JOB);
    boot->ops->close(boot, false);
    return NULL;
}

static void abort_ends_every_wait(void **state)
{
    struct member members[PES];
    run_group(aborting, members, PES);
    for (int pe = 0; pe < PES; pe++) {
        assert_int_equal(members[pe].status, WEFT_ERR_JOB);
        assert_string_equal(members[pe].sentence, "PE 2 aborted the job with code 7: enough");
    }
}

static void *waiting(void *argument)
{
    struct member *member = argument;
    struct boot *boot;
    EXPECT(boot_open(&boot, member->group, member->pe) == WEFT_OK);
    member->status = boot->ops->barrier(boot);
    snprintf(member->sentence, sizeof member->sentence, "%s", weft_last_error());
    boot->ops->close(boot, false);
    return NULL;
}

static void missing_thread_ends_in_timeout(void **state)
{
    setenv("WEFT_WAIT_LIMIT", "100ms", 1);
    config_reset();
    struct member members[PES];
    run_group(waiting, members, PES - 1);
    for (int pe = 0; pe < PES - 1; pe++) {
        assert_true(members[pe].status == WEFT_ERR_TIMEOUT ||
                    members[pe].status == WEFT_ERR_PEER_DEAD);
    }
    unsetenv("WEFT_WAIT_LIMIT");
    config_reset();
}

static pthread_barrier_t all_closed;

/* A job that fails during a barrier, then a second job of the same group after all PEs have left
 * the first. */
static void *failing_once(void *argument)
{
    struct member *member = argument;
    struct boot *boot;
    EXPECT(boot_open(&boot, member->group, member->pe) == WEFT_OK);
    EXPECT(boot->ops->barrier(boot) == WEFT_OK);
    if (boot->pe == 4)
        (boot->ops->fail)(boot, WEFT_ERR_SYSTEM, "as meant");
    else
        EXPECT(boot->ops->barrier(boot) == WEFT_ERR_SYSTEM);
    EXPECT(strcmp(weft_last_error(), "as meant") == 0 || boot->pe == 4);
    (boot->ops->fail)(boot, WEFT_ERR_BOOT, "another reason"); /* the first reason is kept */
    EXPECT(boot->ops->check(boot) == WEFT_ERR_SYSTEM);
    int taken = 5;
    EXPECT(boot->ops->share_fd(boot, 0, STDERR_FILENO, &taken) == WEFT_ERR_SYSTEM && taken == -1);
    boot->ops->close(boot, false);
    pthread_barrier_wait(&all_closed);
    EXPECT(boot_open(&boot, member->group, member->pe) == WEFT_OK);
    EXPECT(boot->ops->check(boot) == WEFT_OK);
    exchange(member, boot);
    share(member, boot);
    EXPECT(boot->ops->barrier(boot) == WEFT_OK);
    boot->ops->close(boot, true);
    return NULL;
}

static void a_failed_job_leaves_nothing_to_the_next(void **state)
{
    struct member members[PES];
    pthread_barrier_init(&all_closed, NULL, PES);
    run_group(failing_once, members, PES);
    pthread_barrier_destroy(&all_closed);
}

/* A PE that joins a failed job late gets the failure. The next job begins when all PEs have joined
 * and left. */
static void late_ones_are_told(void **state)
{
    weft_group *group;
    struct boot *boot;
    assert_int_equal(weft_group_create(2, &group), WEFT_OK);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(boot_open(&boot, group, 0), WEFT_OK);
        assert_int_equal(boot->ops->check(boot), WEFT_OK);
        boot->ops->close(boot, false);
        assert_int_equal(boot_open(&boot, group, 1), WEFT_OK);
        assert_int_equal(boot->ops->check(boot), WEFT_ERR_PEER_DEAD);
        assert_string_equal(weft_last_error(), "PE 0 (a thread) left the job before weft_finalize");
        boot->ops->close(boot, true);
    }
    weft_group_destroy(group);
}

static void *mismatching(void *argument)
{
    struct member *member = argument;
    struct boot *boot;
    char all[PES * 16], mine[16] = {0};
    EXPECT(boot_open(&boot, member->group, member->pe) == WEFT_OK);
    member->status = boot->ops->allgather(boot, mine, all, boot->pe == 3 ? 16 : 8);
    snprintf(member->sentence, sizeof member->sentence, "%s", weft_last_error());
    boot->ops->close(boot, true);
    return NULL;
}

static void sizes_must_agree(void **state)
{
    struct member members[PES];
    run_group(mismatching, members, PES);
    for (int pe = 0; pe < PES; pe++) {
        assert_int_equal(members[pe].status, WEFT_ERR_MISMATCH);
        assert_string_equal(members[pe].sentence, "PE 0 gathers 8 bytes, PE 3 16 bytes");
    }
}

static void wrong_arguments_are_refused(void **state)
{
    weft_group *group;
    assert_int_equal(weft_group_create(0, &group), WEFT_ERR_ARGUMENT);
    assert_null(group);
    assert_int_equal(weft_group_create(1, NULL), WEFT_ERR_ARGUMENT);
    assert_int_equal(weft_group_create(4097, &group), WEFT_ERR_ARGUMENT);
    assert_null(group);
    assert_int_equal(weft_group_create(4096, &group), WEFT_OK);
    weft_group_destroy(group);
    assert_int_equal(weft_group_create(2, &group), WEFT_OK);
    struct boot *boot, *second;
    assert_int_equal(boot_open(&boot, group, 2), WEFT_ERR_PE);
    assert_int_equal(boot_open(&boot, group, -1), WEFT_ERR_PE);
    assert_null(boot);
    assert_int_equal(boot_open(&boot, group, 1), WEFT_OK);
    assert_int_equal(boot_open(&second, group, 1), WEFT_ERR_ARGUMENT);
    boot->ops->close(boot, true);
    weft_group_destroy(group);
    weft_group_destroy(NULL);
}

static void alone_is_a_job_of_one(void **state)
{
    setenv("WEFT_BOOT", "single", 1);
    config_reset();
    struct boot *boot;
    int mine = 5, all = 0, taken = -1;
    assert_int_equal(boot_open(&boot, NULL, 0), WEFT_OK);
    assert_int_equal(boot->npes, 1);
    assert_int_equal(boot->local_npes, 1);
    assert_null(boot->shared_slot);
    assert_int_equal(boot->ops->allgather(boot, &mine, &all, sizeof mine), WEFT_OK);
    assert_int_equal(all, 5);
    assert_int_equal(boot->ops->share_fd(boot, 0, STDERR_FILENO, &taken), WEFT_OK);
    assert_true(taken > STDERR_FILENO);
    close(taken);
    assert_int_equal(boot->ops->share_fd(boot, 0, 987654, &taken), WEFT_ERR_SYSTEM);
    assert_int_equal(boot_find_nodes(boot), WEFT_OK);
    assert_int_equal(boot->nodes, 1);
    assert_int_equal(boot->local_npes, 1);
    assert_int_equal(boot->local_pe, 0);
    boot->ops->close(boot, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_exchange),
        cmocka_unit_test(abort_ends_every_wait),
        cmocka_unit_test(missing_thread_ends_in_timeout),
        cmocka_unit_test(sizes_must_agree),
        cmocka_unit_test(late_ones_are_told),
        cmocka_unit_test(a_failed_job_leaves_nothing_to_the_next),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(alone_is_a_job_of_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
