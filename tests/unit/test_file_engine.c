/* SPDX-License-Identifier: Apache-2.0 */
/* Shows how an engine of a file is opened, reshaped, described and closed. Shows also how it uses
 * the memory of a transfer: the CPU, a GPU or the path to a peer fills and empties buffers, and
 * each may fail. */
#include "tests/unit/file_engine.h"

/* ----------------------------------------------------------------------------------- the engine */

static void an_engine_is_opened(void **state)
{
    static const struct {
        unsigned depth, most, opened;
        size_t chunk, becomes;
        int direct;
    } rows[] = {{3, 5, 5, 5000, 8192, 0},
                {3, 0, 3, 8192, 8192, -1},
                {4, 3, 4, 8193, 12288, 7},
                {1, 1, 1, 1, 4096, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        prepare(state);
        settings.depth = rows[i].depth;
        settings.most_depth = rows[i].most;
        settings.chunk_bytes = rows[i].chunk;
        file.direct = rows[i].direct;
        assert_int_equal(file_engine_open(&file, &settings, &engine), WEFT_OK);
        assert_int_equal(queue.depth, rows[i].opened);
        assert_int_equal(engine->settings.most_depth, rows[i].opened);
        assert_int_equal(engine->settings.chunk_bytes, rows[i].becomes);
        assert_int_equal(engine->direct, rows[i].direct >= 0);
        assert_true(engine->quick);
        assert_int_equal(sched.mutexes, 2);
        assert_int_equal(sched.conds, 2);
        const struct file_piece *p = engine->free;
        for (unsigned k = 0; k < rows[i].depth; k++, p = p->next) {
            assert_ptr_equal(p, &engine->pieces[k]);
            assert_int_equal(p->number, k);
        }
        assert_null(p);
        close_engine(state);
    }
}

static void an_engine_does_not_open(void **state)
{
    for (int i = 0; i < 3; i++) {
        prepare(state);
        heap.left = i < 2 ? i : -1;
        queue.open_fails = 1;
        assert_int_equal(file_engine_open(&file, &settings, &engine),
                         i < 2 ? WEFT_ERR_NO_MEMORY : WEFT_ERR_UNSUPPORTED);
        assert_int_equal(queue.opens, i == 2);
        assert_int_equal(heap.given, heap.returned);
    }
}

static unsigned free_pieces(void)
{
    unsigned count = 0;
    for (const struct file_piece *p = engine->free; p; p = p->next)
        count++;
    return count;
}

/* An engine is reshaped only while nothing is in flight, and up to the depth for which the queue
 * was opened. */
static void another_shape(void **state)
{
    static struct file_op op;
    static struct file_piece piece;
    (void)state;
    assert_int_equal(run(FILE_REMOTE, false, 0, CHUNK), WEFT_OK);
    char *buffers = engine->buffers;
    assert_non_null(buffers);
    assert_true(file_engine_reshape(engine, DEPTH, CHUNK)); /* the shape stays the same */
    assert_ptr_equal(engine->buffers, buffers);
    assert_false(file_engine_reshape(engine, 0, CHUNK));
    assert_false(file_engine_reshape(engine, DEPTH + 3, CHUNK));
    for (int i = 0; i < 8; i++) {
        engine->driven = i == 0;
        engine->todo = i == 1 ? &op : NULL;
        engine->background = i == 2;
        engine->completing = i == 3 ? &op : NULL;
        engine->submitted = i == 4;
        engine->inbox = i == 5 ? &piece : NULL;
        engine->work = i == 6 ? &piece : NULL;
        engine->broken = i == 7 ? EIO : 0;
        assert_false(file_engine_reshape(engine, DEPTH, CHUNK));
        assert_false(file_engine_reshape(engine, 2, CHUNK));
        assert_int_equal(engine->settings.depth, DEPTH);
    }
    engine->broken = 0;
    assert_ptr_equal(engine->buffers, buffers);
    assert_true(file_engine_reshape(engine, 2, CHUNK));
    assert_null(engine->buffers);
    assert_int_equal(free_pieces(), 2);
    assert_true(file_engine_reshape(engine, 2, CHUNK + 1));
    assert_int_equal(engine->settings.chunk_bytes, CHUNK + BLOCK);
    assert_true(file_engine_reshape(engine, DEPTH + 2, CHUNK));
    assert_int_equal(free_pieces(), DEPTH + 2);
}

static struct {
    int closed, calls;
    bool with_gpu;
    const weft_file_info *info;
} beside;

void __wrap_file_cufile_engine_close(struct file_engine *e);
void __wrap_file_cufile_engine_close(struct file_engine *e)
{
    assert_ptr_equal(e, engine);
    beside.closed++;
}

void __wrap_file_cufile_engine_describe(struct file_engine *e, bool find, weft_file_info *info);
void __wrap_file_cufile_engine_describe(struct file_engine *e, bool find, weft_file_info *info)
{
    assert_ptr_equal(e, engine);
    assert_true(none_is_held());
    assert_string_equal(info->gpu_backend, "");
    beside.calls++;
    beside.with_gpu = find;
    beside.info = info;
}

static void an_engine_is_described(void **state)
{
    static const char *const names[] = {"threads buffered", "threads direct", "uring buffered",
                                        "uring direct"};
    (void)state;
    beside.calls = 0;
    strcpy(file.file_system, "somefs");
    strcpy(file.store, "some store");
    strcpy(file.reason_code, "SOME-CODE");
    strcpy(file.reason, "for a reason");
    file.memory_alignment = 77;
    for (int i = 0; i < 4; i++) {
        weft_file_info info;
        memset(&info, 0x55, sizeof info);
        engine->direct = i & 1;
        engine->settings.backend = i & 2 ? &file_uring : &backend;
        file_engine_describe(engine, i & 1, &info);
        assert_string_equal(info.backend, names[i]);
        assert_int_equal(info.alignment, BLOCK);
        assert_int_equal(info.memory_alignment, 77);
        assert_int_equal(info.depth, DEPTH);
        assert_int_equal(info.chunk_bytes, CHUNK);
        assert_string_equal(info.file_system, "somefs");
        assert_string_equal(info.store, "some store");
        assert_string_equal(info.reason_code, "SOME-CODE");
        assert_string_equal(info.reason, "for a reason");
        assert_int_equal(beside.calls, i + 1);
        assert_int_equal(beside.with_gpu, i & 1);
        assert_ptr_equal(beside.info, &info);
    }
    engine->settings.backend = &backend;
}

/* The kernel may still use the requests and buffers, so they are kept. Only the pinning for the GPU
 * is undone. */
static void an_engine_that_is_broken_is_kept(void **state)
{
    struct file_engine *kept[2];
    for (int i = 0; i < 2; i++) {
        open_engine(state);
        kept[i] = engine;
        beside.closed = 0;
        assert_int_equal(run(i ? FILE_DEVICE : FILE_REMOTE, false, 0, BLOCK), WEFT_OK);
        assert_int_equal(places.pinned, i);
        engine->broken = EIO;
        int returned = heap.returned;
        file_engine_close(engine);
        assert_int_equal(beside.closed, 1);
        assert_false(places.pinned);
        assert_int_equal(heap.returned, returned);
        assert_int_equal(queue.closes, 0);
        assert_true(none_is_held());
    }
    assert_ptr_equal(kept[1]->next_lost, kept[0]);
    assert_null(kept[0]->next_lost);
}

/* --------------------------------------------------------------------------- memory and buffers */

enum { OFFSET = 777, BYTES = 3 * CHUNK + 99 };

static void a_peers_memory_is_read_into(void **state)
{
    (void)state;
    engine->settings.checksums = true;
    assert_int_equal(run(FILE_REMOTE, false, OFFSET, BYTES), WEFT_OK);
    assert_int_equal(result.done, BYTES);
    assert_int_equal(result.error, 0);
    assert_int_equal(result.crc32c, crc32c(0, disk + OFFSET, BYTES));
    assert_memory_equal(memory, disk + OFFSET, BYTES);
    assert_int_equal(places.puts, 4);
    assert_int_equal(places.lanes, 0xf); /* by the numbers of the pieces */
    assert_int_equal(places.settles, 1);
    assert_int_equal(places.gets, 0);
    engine->settings.checksums = false;
    assert_int_equal(run(FILE_HOST, false, OFFSET, BYTES), WEFT_OK);
    assert_int_equal(result.crc32c, 0);
    assert_int_equal(places.puts, 8);
    assert_int_equal(places.settles, 1);
    engine->settings.checksums = true;
    assert_int_equal(run(FILE_HOST, false, 0, BYTES), WEFT_OK); /* most of it in place */
    assert_int_equal(places.puts, 9);
    assert_int_equal(result.crc32c, crc32c(0, disk, BYTES));
}

static void a_peers_memory_is_written_from(void **state)
{
    (void)state;
    engine->settings.checksums = true;
    assert_int_equal(run(FILE_REMOTE, true, OFFSET, BYTES), WEFT_OK);
    assert_memory_equal(disk + OFFSET, memory, BYTES);
    assert_int_equal(disk[OFFSET - 1], (unsigned char)((OFFSET - 1) * 7 + (OFFSET - 1) / 251));
    assert_int_equal(result.crc32c, crc32c(0, memory, BYTES));
    assert_int_equal(places.gets, queue.all);
    assert_int_equal(places.puts + places.settles, 0);
}

/* Bytes before the piece whose memory fails are transferred. If the peer is gone, no byte
 * counts. */
static void the_memory_fails(void **state)
{
    static const struct {
        bool write;
        int fails_at, settle_fails;
        size_t done;
        weft_status status;
        const char *words;
    } rows[] = {
        {false, 3, 0, 2 * CHUNK, WEFT_ERR_PATH, "the memory is gone"},
        {false, 1, 0, 0, WEFT_ERR_PATH, "the memory is gone"},
        {true, 3, 0, 2 * CHUNK, WEFT_ERR_PATH, "the memory is gone"},
        {false, 3, 1, 0, WEFT_ERR_PEER_DEAD, "the peer is gone"},
        {false, 0, 1, 0, WEFT_ERR_PEER_DEAD, "the peer is gone"},
        {true, 0, 1, 4 * CHUNK, WEFT_OK, NULL}, /* nothing was put into the peer's memory */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (i) {
            close_engine(state);
            open_engine(state);
        }
        /* With one piece at a time, pieces are copied in order. */
        assert_true(file_engine_reshape(engine, 1, CHUNK));
        places.fails_at = rows[i].fails_at;
        places.settle_fails = rows[i].settle_fails;
        assert_int_equal(run(FILE_REMOTE, rows[i].write, 0, 4 * CHUNK), rows[i].status);
        assert_int_equal(result.done, rows[i].done);
        assert_int_equal(result.error, 0);
        if (rows[i].words)
            assert_string_equal(base_last_error(), rows[i].words);
        if (!rows[i].write) /* nothing is completed if nothing was put */
            assert_int_equal(places.settles, rows[i].fails_at != 1);
        assert_int_equal(queue.all, rows[i].write && rows[i].fails_at ? 2
                                    : rows[i].fails_at                ? rows[i].fails_at
                                                                      : 4);
        places.fails_at = 0;
        assert_int_equal(run(FILE_REMOTE, rows[i].write, 0, 4 * CHUNK), WEFT_OK);
        assert_int_equal(free_pieces(), 1);
    }
}

static void a_file_ends_too_soon(void **state)
{
    (void)state;
    queue.results[1] = BLOCK;     /* the first of two blocks */
    queue.results[DEPTH - 1] = 0; /* the file ends there */
    queue.results[3] = 99;
    assert_int_equal(run(FILE_REMOTE, false, 0, 4 * CHUNK), WEFT_ERR_RANGE);
    assert_int_equal(result.done, 3 * CHUNK + 99);
    assert_int_equal(result.error, 0);
    assert_non_null(strstr(base_last_error(), "run past the end of a/file, which has 24675 bytes"));
    assert_int_equal(places.settles, 1);
}

/* The engine queries the event of a GPU copy until the copy is complete; meanwhile other threads
 * may run. */
static void the_gpu_copies(void **state)
{
    for (int write = 0; write < 2; write++)
        for (int after = 1; after < 4; after += 2) {
            if (write || after > 1) {
                close_engine(state);
                open_engine(state);
            }
            places.passes_after = after;
            assert_int_equal(run(FILE_DEVICE, write, 0, CHUNK), WEFT_OK);
            assert_int_equal(places.looks, after + 1);
            assert_memory_equal(memory, disk, CHUNK);
            /* The first query follows the copy at once. */
            assert_int_equal(sched.yields, after - 1);
            assert_int_equal(places.drops, 0);
            assert_true(places.pinned);
        }
}

static void the_gpu_fails(void **state)
{
    for (int write = 0; write < 2; write++) {
        if (write) {
            close_engine(state);
            open_engine(state);
        }
        places.passes_after = 3;
        places.mark_fails_at = 2;
        assert_int_equal(run(FILE_DEVICE, write, 0, CHUNK), WEFT_ERR_KERNEL);
        assert_string_equal(base_last_error(), "the GPU has failed");
        assert_int_equal(result.done, 0);
        assert_int_equal(places.drops, 1);
        assert_int_equal(queue.all, !write);
        assert_int_equal(free_pieces(), DEPTH);
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_engine, close_engine)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_engine_is_opened),
        cmocka_unit_test(an_engine_does_not_open),
        CASE(another_shape),
        CASE(an_engine_is_described),
        cmocka_unit_test(an_engine_that_is_broken_is_kept),
        CASE(a_peers_memory_is_read_into),
        CASE(a_peers_memory_is_written_from),
        CASE(the_memory_fails),
        CASE(a_file_ends_too_soon),
        CASE(the_gpu_copies),
        CASE(the_gpu_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
