/* SPDX-License-Identifier: Apache-2.0 */
/* Boot by a launcher with PMIx, with a fake PMIx: which data is exchanged under which keys, how the
 * PEs connect, and what is reported if a call fails or never completes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/fake_pmix.h"

/* Checks the status of a call and the text of the calls that it makes. */
#define assert_calls(expected_status, heard, call)                                                 \
    do {                                                                                           \
        calls[0] = 0;                                                                              \
        assert_int_equal(call, expected_status);                                                   \
        assert_string_equal(calls, heard);                                                         \
    } while (0)

static void assert_says(const char *words)
{
    if (!strstr(base_last_error(), words))
        fail_msg("it says: %s", base_last_error());
}

/* ------------------------------------------------------------------------- connection to PMIx */

/* Must be the first test, because a process has one connection to PMIx. */
static void pmix_that_cannot_be_reached_is_tried_again(void **state)
{
    (void)state;
    fails = "load";
    assert_calls(WEFT_ERR_SYSTEM, "load; ", boot_open_pmix(&boot));
    fails = NULL;
    thread_fails = true;
    assert_calls(WEFT_ERR_SYSTEM, "load; ", boot_open_pmix(&boot));
    assert_says("a thread for PMIx_Init: ");
    thread_fails = false;
    for (int i = 0; i < 2; i++) {
        callocs.left = i;
        assert_int_equal(boot_open_pmix(&boot), WEFT_ERR_NO_MEMORY);
        callocs.left = -1;
    }
    server.init = PMIX_ERR_NOT_FOUND;
    assert_calls(WEFT_ERR_BOOT, "load; detach; ", boot_open_pmix(&boot));
    assert_says("the PMIx of the launcher (PMIX_NAMESPACE is set): PMIx_Init: not found (-46)");
    assert_int_equal(callocs.memory, 0);
    setenv("PMIX_NAMESPACE", "some job", 1);
    assert_false(boot_pmix_known());
    setenv("PMIX_RANK", "1", 1);
    assert_true(boot_pmix_known());
    server.init = PMIX_SUCCESS;
    server.init_silent = true;
    assert_calls(WEFT_ERR_TIMEOUT, "load; detach; ", boot_open_pmix(&boot));
    assert_says("(PMIX_NAMESPACE is some job, PMIX_RANK 1)");
    assert_int_equal(until.tv_sec, 10);
    assert_int_equal(until.tv_nsec, 200000000);
    assert_int_equal(callocs.memory, 1); /* that of the abandoned thread */
    left_run(left_argument);
    assert_int_equal(callocs.memory, 0);
    unsetenv("PMIX_NAMESPACE");
    assert_false(boot_pmix_known());
    assert_null(at_exit);
}

static void one_connection_serves_all_jobs_of_a_process(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_calls(WEFT_OK, i ? "load; nodes; local; " : "load; detach; nodes; local; ",
                     boot_open_pmix(&boot));
        assert_int_equal(server.inits, 1);
        assert_int_equal(boot->pe, 1);
        assert_int_equal(boot->npes, PES);
        at_exit(); /* at exit before the job has ended */
        assert_int_equal(server.finalizes, i);
        assert_calls(WEFT_OK, "close; ", (boot->ops->close(boot, true), WEFT_OK));
        process = 101; /* a forked child */
        at_exit();
        assert_int_equal(server.finalizes, i);
        process = 100;
        at_exit();
        assert_int_equal(server.finalizes, i + 1);
    }
    assert_int_equal(boot_open_pmix(&boot), WEFT_OK);
    boot->ops->close(boot, false);
    boot = NULL;
    at_exit();
    assert_int_equal(server.finalizes, 2);
}

static void the_size_of_the_job_must_hold_the_rank(void **state)
{
    (void)state;
    static const struct {
        uint32_t size;
        int type;
        weft_status status;
    } rows[] = {{2, PMIX_UINT32, WEFT_OK},
                {1, PMIX_UINT32, WEFT_ERR_BOOT},
                {0, PMIX_UINT32, WEFT_ERR_BOOT},
                {INT32_MAX, PMIX_UINT32, WEFT_ERR_BOOT},
                {3, PMIX_UINT64, WEFT_ERR_BOOT}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        server.job_size = rows[i].size;
        server.size_type = rows[i].type;
        assert_int_equal(boot_open_pmix(&boot), rows[i].status);
        if (!rows[i].status) {
            assert_int_equal(boot->npes, 2);
            boot->ops->close(boot, true);
            boot = NULL;
        } else {
            assert_says("PMIx gave a job size that does not include rank 1");
        }
    }
    server.size = PMIX_ERR_NOT_FOUND;
    assert_calls(WEFT_ERR_BOOT, "load; ", boot_open_pmix(&boot));
    assert_says("PMIx_Get of the job's size: not found (-46)");
    server.size = PMIX_SUCCESS;
    server.size_type = PMIX_UINT32;
    server.job_size = 3;
    fails = "nodes";
    assert_calls(WEFT_ERR_SYSTEM, "load; nodes; ", boot_open_pmix(&boot));
    fails = "local";
    assert_calls(WEFT_ERR_SYSTEM, "load; nodes; local; ", boot_open_pmix(&boot));
    callocs.left = 0;
    assert_int_equal(boot_open_pmix(&boot), WEFT_ERR_NO_MEMORY);
}

/* -------------------------------------------------------------------------------- one node */

static void pes_of_one_node_talk_to_each_other(void **state)
{
    (void)state;
    int32_t mine = 7, all[PES];
    int taken;
    assert_int_equal(boot_open_pmix(&boot), WEFT_OK);
    assert_calls(WEFT_OK, "allgather; ", boot->ops->allgather(boot, &mine, all, 4));
    assert_calls(WEFT_OK, "allgather; ", boot->ops->barrier(boot));
    assert_calls(WEFT_OK, "local_share; ", boot->ops->share_fd(boot, 2, 9, &taken));
    assert_calls(WEFT_OK, "check; ", boot->ops->check(boot));
    assert_calls(WEFT_OK, "fail; ", ((boot->ops->fail)(boot, WEFT_ERR_PATH, "enough"), WEFT_OK));
    assert_calls(WEFT_OK, "forked; ", (boot->ops->forked(boot), WEFT_OK));
    assert_calls(WEFT_OK, "abort; ", (boot->ops->abort(boot, 5, "enough"), WEFT_OK));
    assert_int_equal(server.aborts, 1);
    assert_int_equal(server.abort_code, 5);
    assert_string_equal(server.abort_text, "PE 1 aborted the job with code 5: enough");
    fails = "check";
    assert_calls(WEFT_ERR_SYSTEM, "check; ", boot->ops->check(boot));
    fails = "allgather";
    assert_calls(WEFT_ERR_SYSTEM, "allgather; ", boot->ops->barrier(boot));
}

/* ----------------------------------------------------------------------------- several nodes */

#define BEGIN "load; nodes; fence; get 0; world; put; commit; fence; get 0; get 2; "

static void pes_of_several_nodes_connect_over_tcp(void **state)
{
    (void)state;
    int32_t mine = 7, all[PES];
    int taken;
    nodes = 2;
    assert_calls(WEFT_OK, BEGIN, boot_open_pmix(&boot));
    assert_int_equal(warnings, 0);
    assert_calls(WEFT_OK, "world_allgather; ", boot->ops->allgather(boot, &mine, all, 4));
    assert_calls(WEFT_OK, "world_share; ", boot->ops->share_fd(boot, 2, 9, &taken));
    assert_calls(WEFT_OK, "world_check; ", boot->ops->check(boot));
    assert_calls(WEFT_OK, "world_fail; ",
                 ((boot->ops->fail)(boot, WEFT_ERR_PATH, "enough"), WEFT_OK));
    assert_calls(WEFT_OK, "world_forked; ", (boot->ops->forked(boot), WEFT_OK));
    assert_calls(WEFT_OK, "world_abort; ", (boot->ops->abort(boot, 5, "enough"), WEFT_OK));
    assert_int_equal(server.aborts, 1);
    assert_calls(WEFT_OK, "world_close; ", (boot->ops->close(boot, true), WEFT_OK));
    boot = NULL;
}

static void pmix_goes_on_where_tcp_does_not(void **state)
{
    (void)state;
    int32_t mine = 7, all[PES + 1] = {0, 0, 0, 99};
    nodes = 2;
    fails = "world"; /* at this PE */
    assert_calls(WEFT_OK, BEGIN "local; ", boot_open_pmix(&boot));
    assert_int_equal(warnings, 2); /* the reason and the consequence */
    assert_non_null(strstr(line, "not all PEs reach PE 0 over TCP"));
    int32_t told;
    memcpy(&told, server.put_bytes, 4);
    assert_int_equal(told, WEFT_ERR_SYSTEM);
    fails = NULL;
    /* Exchanges go through PMIx, each with its own key. */
    char before[32];
    snprintf(before, sizeof before, "%s", server.key);
    server.part_of[0] = 40;
    server.part_of[2] = 42;
    assert_calls(WEFT_OK, "put; commit; fence; get 0; get 2; ",
                 boot->ops->allgather(boot, &mine, all, 4));
    assert_true(all[0] == 40 && all[1] == 7 && all[2] == 42 && all[3] == 99);
    assert_string_not_equal(before, server.key);
    assert_string_equal(server.asked_key, server.key);
    assert_int_equal(server.put_size, 4);
    assert_false(limited_by_boot);
    assert_calls(WEFT_OK, "fence; ", boot->ops->barrier(boot));
    assert_calls(WEFT_OK, "check; ", boot->ops->check(boot));
    assert_calls(WEFT_OK, "close; ", (boot->ops->close(boot, true), WEFT_OK));
    boot = NULL;
    /* At another PE. */
    for (int pe = 0; pe < PES; pe += 2) {
        set_up(state);
        nodes = 2;
        server.part_of[pe] = WEFT_ERR_TIMEOUT;
        fails = pe ? "world" : NULL;
        assert_calls(WEFT_OK, pe ? BEGIN "local; " : BEGIN "world_close_unclean; local; ",
                     boot_open_pmix(&boot));
        /* The first PE that could not connect warns. */
        assert_int_equal(warnings, pe ? 2 : 0);
        if (pe)
            assert_non_null(strstr(line, "not all PEs reach PE 0 over TCP"));
        boot->ops->close(boot, true);
        boot = NULL;
    }
    set_up(state);
    nodes = 2;
    fails = "local";
    server.part_of[0] = WEFT_ERR_TIMEOUT;
    assert_calls(WEFT_ERR_SYSTEM, BEGIN "world_close_unclean; local; ", boot_open_pmix(&boot));
}

static void beyond_pmix(struct boot **opened)
{
    nodes = 2;
    server.part_of[0] = WEFT_ERR_TIMEOUT;
    assert_int_equal(boot_open_pmix(opened), WEFT_OK);
}

static void who_is_missing_is_named(void **state)
{
    (void)state;
    int32_t mine = 7, all[PES];
    beyond_pmix(&boot);
    server.fence_silent = true;
    server.missing = 2;
    assert_calls(WEFT_ERR_TIMEOUT, "put; commit; fence; look 0; look 2; ",
                 boot->ops->allgather(boot, &mine, all, 4));
    assert_says("not every PE reached an exchange over PMIx within WEFT_WAIT_LIMIT: PE 2");
    assert_null(strstr(base_last_error(), "PE 0"));
    int before = callocs.memory;
    server.come(PMIX_SUCCESS, server.come_argument); /* the late callback frees the rest */
    assert_int_equal(callocs.memory, before - 1);
    server.get_nb = PMIX_OPERATION_SUCCEEDED; /* all PEs have put their data */
    assert_calls(WEFT_ERR_TIMEOUT, "put; commit; fence; look 0; look 2; ",
                 boot->ops->allgather(boot, &mine, all, 4));
    assert_null(strstr(base_last_error(), "PE "
                                          "2"));
    server.come(PMIX_SUCCESS, server.come_argument);
    server.get_nb = PMIX_ERR_NOT_FOUND;
    assert_int_equal(boot->ops->allgather(boot, &mine, all, 4), WEFT_ERR_TIMEOUT);
    assert_says("WEFT_WAIT_LIMIT: PE 0, PE 2");
    server.come(PMIX_SUCCESS, server.come_argument);
    server.get_nb = PMIX_SUCCESS;
    server.missing_silent = true;
    assert_int_equal(boot->ops->allgather(boot, &mine, all, 4), WEFT_ERR_TIMEOUT);
    assert_says("WEFT_WAIT_LIMIT: PE 2");
    server.value_come(PMIX_SUCCESS, NULL, server.value_argument);
    server.come(PMIX_SUCCESS, server.come_argument);
    /* A barrier exchanges no data, so the message names no PE. */
    assert_calls(WEFT_ERR_TIMEOUT, "fence; ", boot->ops->barrier(boot));
    assert_null(strstr(base_last_error(), ": PE"));
    server.come(PMIX_SUCCESS, server.come_argument);
    boot->ops->close(boot, true);
    boot = NULL;
    set_up(state);
    nodes = 2;
    server.fence_silent = true;
    assert_calls(WEFT_ERR_TIMEOUT, "load; nodes; fence; ", boot_open_pmix(&boot));
    assert_says("over PMIx within " BOOT_LIMIT_NAMES);
    assert_true(limited_by_boot);
    server.come(PMIX_SUCCESS, server.come_argument);
}

static void exchanges_that_fail_are_told(void **state)
{
    (void)state;
    int32_t mine = 7, all[PES];
    beyond_pmix(&boot);
    server.fence = PMIX_OPERATION_SUCCEEDED; /* completes at once */
    assert_calls(WEFT_OK, "fence; ", boot->ops->barrier(boot));
    server.fence = PMIX_ERR_NOT_FOUND;
    assert_calls(WEFT_ERR_BOOT, "put; commit; fence; ", boot->ops->allgather(boot, &mine, all, 4));
    assert_says("PMIx_Fence_nb: not found (-46)");
    server.fence = PMIX_SUCCESS;
    server.fence_result = PMIX_ERR_NOT_FOUND;
    assert_calls(WEFT_ERR_BOOT, "fence; ", boot->ops->barrier(boot));
    assert_says("PMIx_Fence: not found (-46)");
    server.fence_result = PMIX_SUCCESS;
    server.put = PMIX_ERR_NOT_FOUND;
    assert_calls(WEFT_ERR_BOOT, "put; ", boot->ops->allgather(boot, &mine, all, 4));
    assert_says("PMIx_Put: not found");
    server.put = PMIX_SUCCESS;
    server.commit = PMIX_ERR_NOT_FOUND;
    assert_calls(WEFT_ERR_BOOT, "put; commit; ", boot->ops->allgather(boot, &mine, all, 4));
    assert_says("PMIx_Commit: not found");
    server.commit = PMIX_SUCCESS;
    server.get = PMIX_ERR_NOT_FOUND;
    assert_calls(WEFT_ERR_BOOT, "put; commit; fence; get 0; ",
                 boot->ops->allgather(boot, &mine, all, 4));
    assert_says("the value of PE 0: PMIx_Get: not found");
    server.get = PMIX_SUCCESS;
    server.part_bytes = 5;
    assert_calls(WEFT_ERR_MISMATCH, "put; commit; fence; get 0; ",
                 boot->ops->allgather(boot, &mine, all, 4));
    assert_says("PE 1 exchanges 4 bytes, PE 0 5 bytes");
    server.part_type = PMIX_UINT32;
    assert_int_equal(boot->ops->allgather(boot, &mine, all, 4), WEFT_ERR_MISMATCH);
    assert_says("PE 0 0 bytes");
    callocs.left = 0;
    assert_int_equal(boot->ops->barrier(boot), WEFT_ERR_NO_MEMORY);
    callocs.left = -1;
    boot->ops->close(boot, true);
    boot = NULL;
    set_up(state);
    nodes = 2;
    server.put = PMIX_ERR_NOT_FOUND;
    assert_calls(WEFT_ERR_BOOT, "load; nodes; fence; get 0; world; put; world_close_unclean; ",
                 boot_open_pmix(&boot));
    server.get = PMIX_ERR_NOT_FOUND;
    assert_calls(WEFT_ERR_BOOT, "load; nodes; fence; get 0; ", boot_open_pmix(&boot));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(pmix_that_cannot_be_reached_is_tried_again),
        TEST(one_connection_serves_all_jobs_of_a_process),
        TEST(the_size_of_the_job_must_hold_the_rank),
        TEST(pes_of_one_node_talk_to_each_other),
        TEST(pes_of_several_nodes_connect_over_tcp),
        TEST(pmix_goes_on_where_tcp_does_not),
        TEST(who_is_missing_is_named),
        TEST(exchanges_that_fail_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
