/* SPDX-License-Identifier: Apache-2.0 */
/* Shows which thread drives the engine of a file: for nonblocking transfers, and for callers while
 * another thread drives it. Shows also how long a driver polls before it sleeps, and when it gives
 * up. */
#include "tests/unit/file_engine.h"

static weft_status begin(bool write, uint64_t offset, size_t bytes)
{
    struct file_transfer t = transfer(FILE_HOST, write, offset, bytes);
    t.result = NULL;
    return file_drive_begin(engine, &t);
}

/* ------------------------------------------------------------------------- nonblocking
 * transfers */

static void transfers_go_on_by_themselves(void **state)
{
    (void)state;
    assert_false(file_drive_busy(engine));
    assert_int_equal(file_drive_quiet(engine), WEFT_OK);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(begin(false, 0, CHUNK), WEFT_OK);
        assert_int_equal(begin(true, 4 * CHUNK, 3 * CHUNK), WEFT_OK);
        assert_int_equal(sched.started, 1); /* one thread for all transfers */
        assert_int_equal(queue.all, 4 * round);
        assert_true(file_drive_busy(engine));
        assert_int_equal(file_drive_quiet(engine), WEFT_OK);
        assert_false(file_drive_busy(engine));
        assert_int_equal(queue.all, 4 * round + 4);
        assert_memory_equal(disk + 4 * CHUNK, memory, 3 * CHUNK);
        assert_int_equal(queue.wakes, 0);
    }
}

static void the_first_failure_is_told_once(void **state)
{
    (void)state;
    queue.results[1] = -ENOSPC;
    queue.results[2] = -EIO;
    assert_int_equal(begin(true, 0, CHUNK), WEFT_OK);
    assert_int_equal(begin(true, CHUNK, CHUNK), WEFT_OK);
    assert_int_equal(file_drive_quiet(engine), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(base_last_error(), strerror(ENOSPC)));
    assert_int_equal(begin(true, CHUNK, CHUNK), WEFT_OK);
    assert_int_equal(file_drive_quiet(engine), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(base_last_error(), strerror(EIO)));
    file_engine_record_failure(engine, WEFT_ERR_RANGE, "noted");
    file_engine_record_failure(engine, WEFT_ERR_PE, "noted later");
    queue.results[3] = -EIO;
    assert_int_equal(begin(true, 0, CHUNK), WEFT_OK);
    assert_int_equal(file_drive_quiet(engine), WEFT_ERR_RANGE);
    assert_string_equal(base_last_error(), "noted");
    assert_int_equal(file_drive_quiet(engine), WEFT_OK);
}

static void of_two_the_first_one_that_failed(void **state)
{
    (void)state;
    queue.results[0] = -ENOSPC;
    assert_int_equal(begin(true, 0, CHUNK), WEFT_OK);
    assert_int_equal(file_drive_quiet(engine), WEFT_ERR_SYSTEM);
    queue.results[1] = -EDQUOT;
    queue.results[2] = -EIO;
    assert_true(file_engine_reshape(engine, 1, CHUNK)); /* one after the other */
    assert_int_equal(begin(true, 0, CHUNK), WEFT_OK);
    assert_int_equal(begin(true, 0, CHUNK), WEFT_OK);
    assert_int_equal(file_drive_quiet(engine), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(base_last_error(), strerror(EDQUOT)));
}

static void what_goes_on_ends_before_the_engine(void **state)
{
    (void)state;
    assert_int_equal(begin(true, 0, 9 * CHUNK), WEFT_OK);
    file_engine_close(engine);
    assert_memory_equal(disk, memory, 9 * CHUNK);
    assert_int_equal(sched.joined, 1);
    assert_int_equal(heap.given, heap.returned);
}

static void it_does_not_begin(void **state)
{
    (void)state;
    heap.left = 0;
    assert_int_equal(begin(true, 0, CHUNK), WEFT_ERR_NO_MEMORY);
    heap.left = -1;
    sched.refuse = 1;
    assert_int_equal(begin(true, 0, CHUNK), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(base_last_error(), "pthread_create for the transfers of a file: "));
    assert_non_null(strstr(base_last_error(), strerror(EAGAIN)));
    assert_false(file_drive_busy(engine));
    sched.refuse = 0;
    assert_int_equal(begin(true, 0, CHUNK), WEFT_OK);
    assert_int_equal(file_drive_quiet(engine), WEFT_OK);
    assert_int_equal(queue.all, 1);
    heap.left = 0;
    struct file_transfer two[2] = {transfer(FILE_HOST, true, 0, CHUNK),
                                   transfer(FILE_HOST, true, 0, CHUNK)};
    assert_int_equal(file_drive_run(engine, two, 2), WEFT_ERR_NO_MEMORY);
    assert_string_equal(base_last_error(), "no private memory for 2 transfers");
    heap.left = 0;
    assert_int_equal(file_drive_run(engine, two, 1), WEFT_OK); /* one transfer needs no memory */
}

/* -------------------------------------------------------------- calls while another thread
 * drives */

static weft_status others;

static void *comes_too(void *argument)
{
    const struct file_transfer t = transfer(FILE_REMOTE, true, 8 * CHUNK, 2 * CHUNK);
    (void)argument;
    others = file_drive_run(engine, &t, 1);
    return NULL;
}

/* Starts another caller while the driver sleeps. */
static void another_comes(void)
{
    int pushes = queue.pushes;
    new_thread(&threads[1], comes_too, NULL);
    assert_true(run_threads());
    assert_true(threads[1].lives);
    assert_int_equal(queue.pushes, pushes + 1);
    assert_int_equal(queue.wakes, 1); /* the driver copies the memory */
}

static void who_comes_sleeps_until_it_is_done(void **state)
{
    (void)state;
    others = -1;
    queue.meanwhile = another_comes;
    queue.holds = 10;
    assert_int_equal(run(FILE_HOST, false, 0, 3 * CHUNK), WEFT_OK);
    while (threads[1].lives) /* the caller drives the engine itself if the driver has left */
        assert_true(run_threads());
    assert_int_equal(others, WEFT_OK);
    assert_memory_equal(disk + 8 * CHUNK, memory, 2 * CHUNK);
    assert_false(engine->driven || engine->waiting);
}

static void begins_meanwhile(void)
{
    assert_true(engine->waiting && engine->driven);
    assert_int_equal(begin(true, 8 * CHUNK, 2 * CHUNK), WEFT_OK);
    assert_int_equal(queue.wakes, 1);
    assert_int_equal(sched.started, 1);
}

/* A transfer that begins while another thread drives is executed by that driver, or by the engine's
 * thread after the driver has left. */
static void what_begins_meanwhile_is_taken_up(void **state)
{
    (void)state;
    queue.meanwhile = begins_meanwhile;
    queue.holds = 8;
    assert_int_equal(run(FILE_HOST, false, 0, CHUNK), WEFT_OK);
    assert_false(engine->waiting);
    assert_int_equal(file_drive_quiet(engine), WEFT_OK);
    assert_memory_equal(disk + 8 * CHUNK, memory, 2 * CHUNK);
}

static void several_at_once(void **state)
{
    struct file_transfer list[5];
    weft_file_result results[5];
    (void)state;
    queue.results[1] = -EDQUOT;
    for (int i = 0; i < 5; i++) {
        list[i] = transfer(FILE_REMOTE, true, (uint64_t)(2 * i) * CHUNK, 2 * CHUNK);
        list[i].result = i == 3 ? NULL : &results[i];
        list[i].bytes = i == 4 ? 0 : 2 * CHUNK;
    }
    assert_int_equal(file_drive_run(engine, list, 5), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(base_last_error(), strerror(EDQUOT)));
    int failed = 0;
    for (int i = 0; i < 5; i++)
        if (i != 3 && results[i].status)
            failed++;
        else if (i < 4)
            assert_memory_equal(disk + 2 * i * CHUNK, memory, 2 * CHUNK);
    assert_int_equal(failed, 1);
    assert_int_equal(results[4].status, WEFT_OK);
    assert_int_equal(results[4].done, 0);
    assert_null(engine->todo);
}

/* ------------------------------------------------------------------------- how long a driver
 * polls */

/* The driver polls for few fast requests. With many requests, or after a long wait, it sleeps at
 * once. */
static void few_quick_requests_are_looked_for(void **state)
{
    static const struct {
        int pieces;
        bool slow; /* the wait before was long */
        int holds; /* number of takes that return nothing */
        uint64_t yield_ns;
        int looks;  /* polls before the driver sleeps; -1: it does not sleep */
        bool quick; /* afterwards */
    } rows[] = {{1, false, 0, 24000, -1, true},  {4, false, 4, 24000, -1, true},
                {4, false, 4, 25000, -1, false}, {4, false, 5, 25000, 5, false},
                {4, false, 6, 24000, 6, false},  {5, false, 0, 24000, 0, true},
                {4, true, 0, 24000, 0, true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (i) {
            close_engine(state);
            open_engine(state);
        }
        engine->quick = !rows[i].slow;
        yield_ns = rows[i].yield_ns;
        queue.holds = rows[i].holds;
        assert_int_equal(run(FILE_HOST, false, 0, (size_t)rows[i].pieces * CHUNK), WEFT_OK);
        int looks = 0;
        while (looks < queue.takes && queue.waits[looks] == 0)
            looks++;
        assert_int_equal(looks, rows[i].looks < 0 ? queue.takes : rows[i].looks);
        if (rows[i].looks >= 0)
            assert_int_equal(queue.waits[looks], 100000000);
        assert_int_equal(engine->quick, rows[i].quick);
    }
}

static void a_driver_naps_where_the_kernel_puts_off(void **state)
{
    (void)state;
    for (int i = 0; i < 11; i++)
        queue.results[i] = -EAGAIN;
    assert_int_equal(run(FILE_HOST, false, 0, CHUNK), WEFT_OK);
    assert_int_equal(queue.all, 12);
    assert_int_equal(sched.naps, 3);
}

/* The limit restarts at each completion, and while nothing is in flight. */
static void nothing_ends_within_the_limit(void **state)
{
    static const uint64_t limits[] = {0, 300000000, 299999999};
    for (size_t i = 0; i < 3; i++) {
        if (i) {
            engine->broken = 0; /* so that the close frees it */
            close_engine(state);
            open_engine(state);
        }
        engine->settings.wait_limit_ns = limits[i];
        engine->quick = false;
        queue.holds = 3;
        assert_int_equal(run(FILE_HOST, false, 0, CHUNK), i == 2 ? WEFT_ERR_TIMEOUT : WEFT_OK);
        assert_int_equal(result.error, i == 2 ? ETIMEDOUT : 0);
        assert_int_equal(engine->broken, i == 2 ? ETIMEDOUT : 0);
    }
    engine->broken = 0;
}

/* All transfers end, with the bytes that each has transferred, whether in flight or only
 * planned. */
static void a_queue_that_fails_ends_all(void **state)
{
    struct file_transfer list[3];
    weft_file_result results[3];
    (void)state;
    for (int i = 0; i < 3; i++) {
        list[i] = transfer(FILE_HOST, true, (uint64_t)(4 * i) * CHUNK, 4 * CHUNK);
        list[i].result = &results[i];
    }
    queue.error = EBADF;
    assert_int_equal(file_drive_run(engine, list, 3), WEFT_ERR_SYSTEM);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(results[i].status, WEFT_ERR_SYSTEM);
        assert_int_equal(results[i].error, EBADF);
        assert_int_equal(results[i].done, 0);
    }
    assert_int_equal(engine->broken, EBADF);
    assert_null(engine->todo);
    assert_ptr_equal(engine->todo_last, &engine->todo);
    assert_int_equal(begin(true, 0, CHUNK), WEFT_ERR_SYSTEM);
    assert_false(file_drive_busy(engine));
    assert_int_equal(file_drive_run(engine, list, 1), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(base_last_error(), "did not end ("));
    assert_non_null(strstr(base_last_error(), strerror(EBADF)));
    engine->broken = 0;
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_engine, close_engine)
    const struct CMUnitTest tests[] = {
        CASE(transfers_go_on_by_themselves),
        CASE(the_first_failure_is_told_once),
        CASE(of_two_the_first_one_that_failed),
        cmocka_unit_test_setup(what_goes_on_ends_before_the_engine, open_engine),
        CASE(it_does_not_begin),
        CASE(who_comes_sleeps_until_it_is_done),
        CASE(what_begins_meanwhile_is_taken_up),
        CASE(several_at_once),
        CASE(few_quick_requests_are_looked_for),
        CASE(a_driver_naps_where_the_kernel_puts_off),
        CASE(nothing_ends_within_the_limit),
        CASE(a_queue_that_fails_ends_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
