/* SPDX-License-Identifier: Apache-2.0 */
/* Shows what happens to a piece whose request returns all its bytes, fewer, an error, or must be
 * repeated. */
#include "tests/unit/file_piece.h"

/* --------------------------------------------------------------------------------- completions */

static bool nap;

/* Completes request i of those submitted, with that result. */
static struct file_piece *back(int i, int64_t result)
{
    struct file_io *io = queue.given[i];
    io->result = result;
    io->next = NULL;
    nap = false;
    engine->work = NULL;
    file_reap_pieces(engine, io, &nap);
    return (struct file_piece *)io;
}

static void what_is_put_off_goes_again(void **state)
{
    static const int errors[] = {EINTR, EAGAIN, ECANCELED, EBUSY};
    (void)state;
    issue(FILE_HOST, false, 0, BLOCK);
    for (unsigned tries = 1; tries < 12; tries++) {
        struct file_piece *piece = back((int)tries - 1, -errors[tries % 4]);
        assert_int_equal(queue.count, tries + 1);
        assert_int_equal(piece->tries, tries);
        assert_int_equal(nap, tries > 8);
        assert_int_equal(engine->submitted, 1);
    }
    struct file_piece *piece = &engine->pieces[0];
    piece->tries = 9998;
    back(11, -EAGAIN);
    assert_int_equal(piece->phase, PIECE_SUBMITTED);
    back(12, -EAGAIN); /* the limit of repetitions */
    assert_int_equal(piece->phase, PIECE_ARRIVED);
    assert_int_equal(piece->error, EAGAIN);
    assert_int_equal(engine->submitted, 0);
    assert_ptr_equal(engine->work, piece);
    assert_int_equal(queue.count, 13);
}

/* If direct I/O is refused, all further requests use the page cache. The first error is
 * reported. */
static void past_the_page_cache_is_refused(void **state)
{
    (void)state;
    issue(FILE_HOST, false, 0, 2 * CHUNK);
    back(0, -EOPNOTSUPP);
    assert_int_equal(queue.count, 3);
    assert_false(queue.given[2]->direct || engine->direct);
    assert_string_equal(file.reason_code, "FILE-BUFFERED");
    assert_non_null(strstr(file.reason, strerror(EOPNOTSUPP)));
    back(1, -EINVAL);
    assert_false(queue.given[3]->direct);
    assert_non_null(strstr(file.reason, strerror(EOPNOTSUPP)));
    /* Through the page cache the same error is a failure. */
    assert_int_equal(back(2, -EINVAL)->error, EINVAL);
    assert_int_equal(back(3, -EOPNOTSUPP)->error, EOPNOTSUPP);
    assert_int_equal(queue.count, 4);
}

static void einval_past_the_page_cache(void **state)
{
    (void)state;
    issue(FILE_HOST, false, 0, BLOCK);
    back(0, -EINVAL);
    assert_int_equal(queue.count, 2);
    assert_non_null(strstr(file.reason, strerror(EINVAL)));
    assert_int_equal(back(1, -EPERM)->error, EPERM);
}

static void a_short_request_goes_on_behind_what_it_moved(void **state)
{
    static const struct {
        bool write, direct;
        int64_t result;
        bool again;
        size_t moved, got; /* afterwards */
        int error;
    } rows[] = {
        {false, true, 4 * BLOCK, false, 4 * BLOCK, 4 * BLOCK, 0},
        {false, true, 2 * BLOCK + 904, true, 2 * BLOCK, 0, 0},
        {false, false, 2 * BLOCK + 904, true, 2 * BLOCK + 904, 0, 0},
        {false, true, 3 * BLOCK, true, 3 * BLOCK, 0, 0},
        {false, true, 904, false, 904, 904, 0}, /* the end of the file */
        {false, false, 904, true, 904, 0, 0},
        {false, false, 1, true, 1, 0, 0},
        {false, true, 0, false, 0, 0, 0},
        {false, false, 0, false, 0, 0, 0},
        {true, true, 4 * BLOCK, false, 4 * BLOCK, 4 * BLOCK, 0},
        {true, true, BLOCK, true, BLOCK, 0, 0},
        {true, true, 904, false, 904, 904, EIO},
        {true, false, 0, false, 0, 0, EIO},
        {false, true, -EIO, false, 0, 0, EIO},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (i) {
            close_engine(state);
            open_engine(state);
        }
        issue(FILE_HOST, rows[i].write, 0, 4 * BLOCK);
        queue.given[0]->direct = rows[i].direct;
        struct file_piece *piece = back(0, rows[i].result);
        assert_int_equal(queue.count, rows[i].again ? 2 : 1);
        assert_int_equal(engine->submitted, rows[i].again);
        assert_int_equal(piece->moved, rows[i].moved);
        assert_int_equal(piece->error, rows[i].error);
        if (rows[i].again) {
            assert_int_equal(piece->phase, PIECE_SUBMITTED);
            assert_ptr_equal(piece->io.address, memory + rows[i].moved);
            assert_int_equal(piece->io.offset, rows[i].moved);
            assert_int_equal(piece->io.bytes, 4 * BLOCK - rows[i].moved);
            assert_int_equal(back(1, (int64_t)piece->io.bytes)->got, 4 * BLOCK);
        } else {
            assert_int_equal(piece->got, rows[i].got);
        }
        assert_int_equal(piece->phase, PIECE_ARRIVED);
        assert_ptr_equal(engine->work, piece);
        assert_false(nap);
    }
}

/* A piece may begin within its request: only the bytes between its start and its end count. */
static void bytes_of_the_piece_are_counted(void **state)
{
    static const struct {
        size_t moved, safe;
    } rows[] = {{0, 0}, {9, 0}, {10, 0}, {11, 1}, {29, 19}, {30, 20}, {31, 20}, {BLOCK, 20}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct file_piece p = {.moved = rows[i].moved, .cut = {.skip = 10, .bytes = 20}};
        assert_int_equal(file_safe_bytes(&p), rows[i].safe);
    }
}

static void several_come_back_at_once(void **state)
{
    (void)state;
    issue(FILE_HOST, false, 0, 3 * CHUNK);
    for (int i = 0; i < 3; i++)
        queue.given[i]->next = i < 2 ? queue.given[i + 1] : NULL;
    queue.given[0]->result = -EIO;
    queue.given[1]->result = -EAGAIN;
    queue.given[2]->result = CHUNK;
    file_reap_pieces(engine, queue.given[0], &nap);
    assert_int_equal(engine->submitted, 1);
    assert_int_equal(queue.count, 4);
    assert_ptr_equal(queue.given[3], &engine->pieces[1].io);
    assert_ptr_equal(engine->work, &engine->pieces[2]);
    assert_ptr_equal(engine->work->next_work, &engine->pieces[0]);
    assert_null(engine->work->next_work->next_work);
}

/* A transfer that cuFile refuses is restarted through a buffer. */
static void what_cufile_refuses_goes_by_a_buffer(void **state)
{
    static const struct {
        int error;
        bool write, refused;
    } rows[] = {{FILE_CUFILE_ERRORS, false, true},
                {FILE_CUFILE_ERRORS + 1, true, true},
                {FILE_CUFILE_ERRORS - 1, false, false},
                {EINVAL, false, true},
                {EOPNOTSUPP, true, true},
                {EIO, false, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (i) {
            close_engine(state);
            open_engine(state);
        }
        engine->by_cufile = true;
        issue(FILE_DEVICE, rows[i].write, 3 * BLOCK, CHUNK - 3 * BLOCK);
        issue(FILE_DEVICE, rows[i].write, CHUNK, CHUNK);
        queue.given[1]->bytes = 1, queue.given[1]->offset = 2, engine->pieces[1].moved = 3;
        struct file_piece *piece = back(1, -rows[i].error);
        assert_int_equal(refused.calls, rows[i].refused);
        if (!rows[i].refused) {
            assert_int_equal(piece->error, rows[i].error);
            assert_int_equal(piece->phase, PIECE_ARRIVED);
            continue;
        }
        assert_ptr_equal(refused.engine, engine);
        assert_int_equal(refused.error, rows[i].error);
        assert_null(piece->io.gpu);
        assert_true(piece->cut.buffer);
        assert_int_equal(piece->moved, 0);
        assert_ptr_equal(piece->io.address, (char *)maps.made + CHUNK);
        assert_int_equal(piece->io.bytes, CHUNK);
        assert_int_equal(piece->io.offset, CHUNK);
        assert_int_equal(piece->io.buffer, 1);
        assert_int_equal(pinned.pins, 1);
        assert_int_equal(queue.count, rows[i].write ? 2 : 3);
        assert_int_equal(engine->submitted, rows[i].write ? 1 : 2);
        assert_int_equal(piece->phase, rows[i].write ? PIECE_TO_FILL : PIECE_SUBMITTED);
        assert_ptr_equal(engine->work, rows[i].write ? piece : NULL);
        /* A refusal by cuFile says nothing about direct I/O of the file. */
        assert_true(engine->direct);
    }
}

static void cufile_refuses_where_it_must_not(void **state)
{
    static const struct {
        enum file_gpu_backend way;
        int error;
        const char *words;
    } rows[] = {{FILE_GPU_CUFILE, FILE_CUFILE_ERRORS, NULL},
                {FILE_GPU_COMPAT, EINVAL, "Invalid argument"},
                {FILE_GPU_AUTO, EINVAL, "3 buffers of 65536 bytes for a file: "}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char words[400], text[160];
        if (i) {
            close_engine(state);
            open_engine(state);
        }
        engine->by_cufile = true;
        engine->settings.gpu_backend = rows[i].way;
        maps.fails = 1;
        issue(FILE_DEVICE, true, BLOCK, 2 * BLOCK);
        engine->pieces[0].got = 7;
        struct file_piece *piece = back(0, -rows[i].error);
        assert_int_equal(piece->status, i < 2 ? WEFT_ERR_SYSTEM : WEFT_ERR_NO_MEMORY);
        snprintf(words, sizeof words, "weft_file_write: 8192 bytes at 4096 of a file: cuFile: %s",
                 rows[i].words ? rows[i].words
                               : file_cufile_words(FILE_CUFILE_ERRORS, text, sizeof text));
        assert_memory_equal(piece->sentence, i < 2 ? words : rows[i].words,
                            strlen(i < 2 ? words : rows[i].words));
        assert_int_equal(piece->got, 0);
        assert_int_equal(piece->phase, PIECE_ENDED);
        assert_ptr_equal(engine->work, piece);
        assert_null(piece->io.gpu);
        assert_int_equal(queue.count, 1);
        assert_int_equal(engine->submitted, 0);
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_engine, close_engine)
    const struct CMUnitTest tests[] = {
        CASE(what_is_put_off_goes_again),
        CASE(past_the_page_cache_is_refused),
        CASE(einval_past_the_page_cache),
        CASE(a_short_request_goes_on_behind_what_it_moved),
        CASE(bytes_of_the_piece_are_counted),
        CASE(several_come_back_at_once),
        CASE(what_cufile_refuses_goes_by_a_buffer),
        CASE(cufile_refuses_where_it_must_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
