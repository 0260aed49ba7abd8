/* SPDX-License-Identifier: Apache-2.0 */
/* Shows which request each piece of a transfer becomes, which buffer it uses, and what is reported
 * if that fails. */
#include "tests/unit/file_piece.h"

/* ------------------------------------------------------------------------------------- failures */

static void a_failure_says_what_may_be_done(void **state)
{
    static const struct {
        int error;
        const char *hint;
    } rows[] = {
        {ENOSPC, "; the disk is full"},
        {EDQUOT, "; the user's quota is used up"},
        {EFBIG, "; the file would exceed what this file system or ulimit -f allows"},
        {EFAULT, "; the memory is not mapped, or cannot be written"},
        {EIO, ""},
        {ETIMEDOUT, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char words[300];
        struct file_op o = {.transfer = {.bytes = 77, .offset = 33, .write = i & 1}};
        file_op_fail_io(engine, &o, rows[i].error, 11);
        snprintf(words, sizeof words,
                 "weft_file_%s: 77 bytes at 33 of a/file: %s%s; the first 11 bytes are transferred",
                 i & 1 ? "write" : "read", strerror(rows[i].error), rows[i].hint);
        assert_string_equal(o.sentence, words);
        assert_int_equal(o.error, rows[i].error);
        assert_int_equal(o.status, rows[i].error == ETIMEDOUT ? WEFT_ERR_TIMEOUT : WEFT_ERR_SYSTEM);
        file_op_fail(&o, WEFT_ERR_KERNEL, 1, "another"); /* the first failure counts */
        assert_string_equal(o.sentence, words);
        assert_int_equal(o.error, rows[i].error);
    }
}

static void of_a_long_path_the_end_is_told(void **state)
{
    (void)state;
    for (size_t length = 119; length < 123; length++) {
        struct file_op o = {0};
        memset(file.path, 'p', length);
        file.path[0] = '/';
        file.path[length] = '\0';
        file_op_fail_io(engine, &o, EIO, 0);
        const char *told = strstr(o.sentence, " of ") + 4;
        assert_int_equal(strcspn(told, ":"), length < 120 ? length : 120);
        assert_int_equal(*told == '/', length <= 120);
    }
    strcpy(file.path, "a/file");
}

static void a_short_file_is_told_with_its_size(void **state)
{
    static const struct {
        uint64_t done;
        int fails;
        const char *words;
    } rows[] = {{9, 0, "which has 42 bytes now; the first 9 are read"},
                {9, 1, "which has 42 bytes now; the first 9 are read"},
                {0, 0, "which has 777 bytes now; the first 0 are read"},
                {0, 1, "which has 33 bytes now; the first 0 are read"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct file_op o = {.transfer = {.bytes = 77, .offset = 33}};
        fstat_fails = rows[i].fails;
        file_op_fail_short(engine, &o, rows[i].done);
        assert_int_equal(o.status, WEFT_ERR_RANGE);
        assert_int_equal(o.error, 0);
        assert_non_null(strstr(o.sentence, rows[i].words));
        assert_non_null(strstr(o.sentence, "77 bytes at 33 run past the end of a/file, "));
    }
}

/* -------------------------------------------------------------------------------------- buffers */

/* Buffers are made with the first piece that needs one. They are registered with the queue once, if
 * pieces are large. */
static void the_queue_hears_of_buffers(void **state)
{
    static const struct {
        const struct file_backend *backend;
        unsigned depth;
        size_t chunk;
        int refuses, calls;
    } rows[] = {{&with_buffers, 3, CHUNK, 0, 1},
                {&with_buffers, 3, CHUNK, 1, 1},
                {&with_buffers, 3, CHUNK - BLOCK, 0, 0},
                {&with_buffers, 4, (size_t)64 << 20, 0, 1},
                {&with_buffers, 5, (size_t)64 << 20, 0, 0},
                {&without, 3, CHUNK, 0, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        close_engine(state);
        open_with(rows[i].backend, rows[i].depth, rows[i].chunk);
        queue.refuses_buffers = rows[i].refuses;
        issue(FILE_REMOTE, false, 0, 2 * rows[i].chunk);
        assert_int_equal(queue.count, 2);
        assert_int_equal(queue.buffers_calls, rows[i].calls);
        assert_int_equal(maps.maps, 1);
        assert_int_equal(maps.bytes, rows[i].chunk * rows[i].depth);
        assert_int_equal(maps.dont_fork, 1);
        assert_int_equal(maps.huge, 1);
        bool known = rows[i].calls && !rows[i].refuses;
        if (known) {
            assert_ptr_equal(queue.base, maps.made);
            assert_int_equal(queue.bytes, rows[i].chunk);
            assert_int_equal(queue.buffers, rows[i].depth);
        }
        for (int k = 0; k < 2; k++) {
            assert_int_equal(queue.given[k]->buffer, known ? k : -1);
            assert_ptr_equal(queue.given[k]->address,
                             (char *)maps.made + (size_t)k * rows[i].chunk);
            assert_int_equal(queue.given[k]->offset, (size_t)k * rows[i].chunk);
            assert_null(queue.given[k]->gpu);
        }
        queue.refuses_buffers = 0;
        file_buffers_drop(engine);
        assert_int_equal(queue.buffers_calls, rows[i].calls + known);
        if (known) { /* the buffers are unregistered */
            assert_null(queue.base);
            assert_int_equal(queue.bytes, 0);
            assert_int_equal(queue.buffers, 0);
            assert_ptr_equal(queue.queue, &queue);
        }
        assert_null(maps.made);
        file_buffers_drop(engine);
        assert_int_equal(queue.buffers_calls, rows[i].calls + known);
        assert_false(engine->buffers || engine->buffers_known || engine->buffers_offered);
    }
}

static void buffers_of_gpu_memory_are_pinned_once(void **state)
{
    (void)state;
    issue(FILE_REMOTE, false, 0, BLOCK);
    assert_int_equal(pinned.pins, 0);
    issue(FILE_DEVICE, false, 0, 2 * CHUNK);
    assert_int_equal(queue.count, 3);
    assert_int_equal(maps.maps, 1);
    assert_int_equal(pinned.pins, 1);
    assert_ptr_equal(pinned.gpu, gpu(0));
    assert_ptr_equal(pinned.address, maps.made);
    assert_int_equal(pinned.bytes, DEPTH * CHUNK);
    assert_null(queue.given[1]->gpu);
    file_buffers_drop(engine);
    assert_int_equal(pinned.unpins, 1);
    assert_null(engine->pinned_for);
    file_buffers_drop(engine);
    assert_int_equal(pinned.unpins, 1);
}

/* The transfer fails, and its piece is free again. */
static void buffers_fail(void **state)
{
    (void)state;
    maps.fails = 1;
    issue(FILE_REMOTE, false, 0, BLOCK);
    assert_int_equal(op.status, WEFT_ERR_NO_MEMORY);
    assert_int_equal(op.error, 0);
    assert_non_null(strstr(op.sentence, "3 buffers of 65536 bytes for a file: "));
    assert_int_equal(free_pieces(), DEPTH);
    assert_ptr_equal(engine->completing, &op);
    maps.fails = 0;
    pinned.fails = 1;
    engine->completing = NULL;
    issue(FILE_DEVICE, false, 0, BLOCK);
    assert_int_equal(op.status, WEFT_ERR_KERNEL);
    assert_string_equal(op.sentence, "the GPU takes no more");
    assert_null(engine->pinned_for);
    assert_int_equal(free_pieces(), DEPTH);
    assert_int_equal(queue.count, 0);
}

/* --------------------------------------------------------------------------------------
 * requests */

static void nothing_is_left_of_the_transfer_before(void **state)
{
    (void)state;
    for (unsigned i = 0; i < DEPTH; i++) {
        struct file_piece *p = &engine->pieces[i];
        p->tries = 5, p->error = EIO, p->status = WEFT_ERR_KERNEL, p->crc = 9;
        p->moved = 11, p->got = 12;
    }
    issue(FILE_HOST, false, 0, CHUNK + BLOCK);
    for (unsigned i = 0; i < 2; i++) {
        const struct file_piece *p = &engine->pieces[i];
        assert_int_equal(p->phase, PIECE_SUBMITTED);
        assert_ptr_equal(queue.given[i], &p->io);
        assert_int_equal(p->tries, 0);
        assert_int_equal(p->error, 0);
        assert_int_equal(p->status, WEFT_OK);
        assert_int_equal(p->crc, 0);
        assert_int_equal(p->moved + p->got, 0);
        assert_int_equal(p->io.buffer, -1);
        assert_true(p->io.direct && !p->io.write);
        assert_ptr_equal(p->io.address, memory + i * CHUNK);
        assert_int_equal(p->io.bytes, i ? BLOCK : CHUNK);
    }
    assert_ptr_equal(op.first, &engine->pieces[0]);
    assert_ptr_equal(op.first->next, &engine->pieces[1]);
    assert_null(op.first->next->next);
    assert_ptr_equal(op.last, &engine->pieces[1].next);
    assert_int_equal(engine->submitted, 2);
    assert_int_equal(maps.maps, 0);
    assert_false(op.queued || op.completes);
    assert_null(engine->todo);
    assert_ptr_equal(engine->todo_last, &engine->todo);
}

static void which_memory_a_request_names(void **state)
{
    (void)state;
    engine->by_cufile = true;
    issue(FILE_DEVICE, true, 0, BLOCK); /* in place, with cuFile */
    assert_ptr_equal(queue.given[0]->gpu, gpu(0));
    assert_ptr_equal(queue.given[0]->address, memory);
    assert_true(queue.given[0]->write);
    issue(FILE_REMOTE, true, BLOCK, BLOCK); /* through a buffer that must be filled first */
    assert_int_equal(queue.count, 1);
    assert_ptr_equal(engine->inbox, &engine->pieces[1]);
    assert_int_equal(engine->pieces[1].phase, PIECE_TO_FILL);
    issue(FILE_HOST, true, 10, 20); /* a part of a page: through the page cache */
    assert_int_equal(queue.count, 2);
    assert_null(queue.given[1]->gpu);
    assert_false(queue.given[1]->direct);
    assert_int_equal(queue.given[1]->offset, 10);
    assert_int_equal(queue.given[1]->bytes, 20);
    assert_int_equal(engine->submitted, 2);
}

/* Transfers get pieces in order while there are free ones. A failed transfer gets no further
 * piece. */
static void pieces_run_out(void **state)
{
    static struct file_op second, third, empty;
    (void)state;
    plan(&op, FILE_HOST, false, 0, 2 * CHUNK);
    plan(&empty, FILE_HOST, false, 0, 0);
    plan(&second, FILE_HOST, false, 0, 2 * CHUNK);
    plan(&third, FILE_HOST, false, 0, CHUNK);
    file_plan_pieces(engine);
    assert_int_equal(queue.count, 3);
    assert_ptr_equal(engine->todo, &second);
    assert_int_equal(second.planned, CHUNK);
    assert_true(second.queued && !op.queued && !empty.queued);
    assert_ptr_equal(engine->completing, &empty);
    assert_null(empty.next);
    assert_null(op.next);
    second.status = third.status = WEFT_ERR_SYSTEM;
    file_plan_pieces(engine);
    assert_null(engine->todo);
    assert_false(second.completes); /* one of its pieces is in flight */
    assert_ptr_equal(engine->completing, &third);
    assert_ptr_equal(third.next, &empty);
    file_complete_later(engine, &empty); /* the second call has no effect */
    assert_ptr_equal(engine->completing, &third);
    assert_false(file_op_ended(&second));
    second.first = NULL;
    assert_true(file_op_ended(&second));
    second.status = WEFT_OK;
    assert_false(file_op_ended(&second));
    engine->completing = NULL;
}

static void a_broken_queue_is_given_nothing(void **state)
{
    (void)state;
    struct file_piece *piece = engine->free;
    engine->broken = EBADF;
    issue(FILE_HOST, false, 0, BLOCK);
    assert_int_equal(queue.count, 0);
    assert_ptr_equal(engine->todo, &op);
    assert_int_equal(free_pieces(), DEPTH);
    piece->phase = PIECE_READY;
    file_submit_piece(engine, piece);
    assert_int_equal(queue.count, 0);
    assert_int_equal(engine->submitted, 0);
    assert_int_equal(piece->error, EBADF);
    assert_int_equal(piece->phase, PIECE_ENDED);
    assert_ptr_equal(engine->work, piece);
    engine->todo = NULL;
    engine->todo_last = &engine->todo;
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_engine, close_engine)
    const struct CMUnitTest tests[] = {
        CASE(a_failure_says_what_may_be_done),
        CASE(of_a_long_path_the_end_is_told),
        CASE(a_short_file_is_told_with_its_size),
        CASE(the_queue_hears_of_buffers),
        CASE(buffers_of_gpu_memory_are_pinned_once),
        CASE(buffers_fail),
        CASE(nothing_is_left_of_the_transfer_before),
        CASE(which_memory_a_request_names),
        CASE(pieces_run_out),
        CASE(a_broken_queue_is_given_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
