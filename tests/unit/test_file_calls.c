/* SPDX-License-Identifier: Apache-2.0 */
/* Shows what the functions of weft_file.h check for one file of one PE, which memory a transfer
 * uses, and what is closed, in which order and how often. The engine is a double that records its
 * calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/file_calls.h"

/* Checks the calls made by `call`, and its status. */
#define assert_calls(expected_status, heard, call)                                                 \
    do {                                                                                           \
        calls[0] = 0;                                                                              \
        assert_int_equal(call, expected_status);                                                   \
        assert_string_equal(calls, heard);                                                         \
    } while (0)

static char *own(size_t offset)
{
    return ops_heaps[OPS_PE] + offset;
}

static void *gpu_at(size_t offset)
{
    return (void *)(uintptr_t)(OPS_GPU + (int)offset);
}

/* --------------------------------------------------------------------------------- open, close */

static void flags_that_contradict_each_other_are_refused(void **state)
{
    (void)state;
    static const struct {
        unsigned flags;
        const char *words;
    } rows[] = {{0, "neither WEFT_FILE_READ nor"},
                {WEFT_FILE_CREATE, "neither WEFT_FILE_READ nor"},
                {WEFT_FILE_READ | WEFT_FILE_CREATE, "need WEFT_FILE_WRITE"},
                {WEFT_FILE_READ | WEFT_FILE_TRUNCATE, "need WEFT_FILE_WRITE"},
                {WEFT_FILE_WRITE | WEFT_FILE_EXCLUSIVE, "needs WEFT_FILE_CREATE"},
                {WEFT_FILE_READ | 128, "weft_file_open: flags"}};
    weft_file *first = opened;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_calls(WEFT_ERR_ARGUMENT, "", open_file(rows[i].flags));
        assert_non_null(strstr(base_last_error(), rows[i].words));
        assert_null(opened);
    }
    static const unsigned good[] = {WEFT_FILE_READ, WEFT_FILE_WRITE | WEFT_FILE_TRUNCATE,
                                    WEFT_FILE_WRITE | WEFT_FILE_CREATE | WEFT_FILE_EXCLUSIVE, 127};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_calls(WEFT_OK, "settings; open; engine; ", open_file(good[i]));
        assert_int_equal(settings_flags, good[i]);
        assert_calls(WEFT_OK, "quiet; engine_close; close; ", weft_file_close(opened));
    }
    opened = first;
}

static void wrong_arguments_of_open_are_refused(void **state)
{
    (void)state;
    weft_file *other = opened;
    assert_calls(WEFT_ERR_ARGUMENT, "", weft_file_open(&ops.job, path_text, 1, NULL, NULL));
    assert_calls(WEFT_ERR_ARGUMENT, "", weft_file_open(NULL, path_text, 1, NULL, &other));
    assert_string_equal(base_last_error(), "weft_file_open: job is null");
    assert_null(other);
    assert_calls(WEFT_ERR_ARGUMENT, "", weft_file_open(&ops.job, NULL, 1, NULL, &other));
    assert_string_equal(base_last_error(), "weft_file_open: path is null");
    weft_file_attr attr = {.size = sizeof attr.size - 1};
    assert_calls(WEFT_ERR_ARGUMENT, "", weft_file_open(&ops.job, path_text, 1, &attr, &other));
    job_failed_ = true;
    assert_calls(WEFT_ERR_PEER_DEAD, "", weft_file_open(&ops.job, path_text, 1, NULL, &other));
    ops.job.state = JOB_FINALIZED;
    assert_calls(WEFT_ERR_FINALIZED, "", weft_file_open(&ops.job, path_text, 1, NULL, &other));
    ops.job.state = JOB_RUNNING;
}

static void attributes_are_taken_as_far_as_they_go(void **state)
{
    (void)state;
    weft_file *other;
    weft_file_attr attr = {sizeof attr, 0640, 8, 4096};
    ops.job.waits.limit_ns = 777;
    assert_calls(WEFT_OK, "settings; open; engine; ",
                 weft_file_open(&ops.job, path_text, WEFT_FILE_READ, &attr, &other));
    assert_memory_equal(&settings_attr, &attr, sizeof attr);
    assert_int_equal(engine_settings.wait_limit_ns, 777);
    assert_int_equal(engine_settings.depth, 7);
    assert_int_equal(weft_file_close(other), WEFT_OK);
    attr.size = offsetof(weft_file_attr, chunk_bytes);
    assert_int_equal(weft_file_open(&ops.job, path_text, WEFT_FILE_READ, &attr, &other), WEFT_OK);
    assert_int_equal(settings_attr.depth, 8);
    assert_int_equal(settings_attr.chunk_bytes, 0);
    assert_int_equal(weft_file_close(other), WEFT_OK);
}

static void a_file_that_cannot_be_opened_leaves_nothing(void **state)
{
    (void)state;
    weft_file *first = opened;
    for (int i = 0; i < 2; i++) {
        made = i;
        fails = "settings";
        assert_calls(WEFT_ERR_SYSTEM, "settings; ", open_file(READ_WRITE));
        fails = "open";
        assert_calls(WEFT_ERR_SYSTEM,
                     i ? "settings; open; unlink; close; " : "settings; open; close; ",
                     open_file(READ_WRITE));
        fails = "engine";
        assert_calls(WEFT_ERR_SYSTEM,
                     i ? "settings; open; engine; unlink; close; "
                       : "settings; open; engine; close; ",
                     open_file(READ_WRITE));
        assert_null(opened);
        assert_int_equal(callocs.memory, 1);
    }
    fails = NULL;
    callocs.left = 0;
    assert_calls(WEFT_ERR_NO_MEMORY, "settings; ", open_file(READ_WRITE));
    callocs.left = -1;
    assert_ptr_equal(ops.job.modules.files, first);
    opened = first;
}

static void a_closed_file_is_no_longer_listed(void **state)
{
    (void)state;
    weft_file *files[4] = {opened};
    for (int i = 1; i < 4; i++)
        assert_int_equal(weft_file_open(&ops.job, path_text, WEFT_FILE_READ, NULL, &files[i]),
                         WEFT_OK);
    /* The list is 3, 2, 1, 0: closes one in the middle, the first, the last. */
    static const int order[] = {2, 3, 0};
    for (int k = 0; k < 3; k++) {
        assert_calls(WEFT_OK, "quiet; engine_close; close; ", weft_file_close(files[order[k]]));
        int listed = 0;
        for (weft_file *file = ops.job.modules.files; file; file = file->next)
            listed += file != files[order[k]];
        assert_int_equal(listed, 3 - k);
    }
    assert_ptr_equal(ops.job.modules.files, files[1]);
    opened = files[1];
    assert_calls(WEFT_OK, "", weft_file_close(NULL));
    forked = true;
    assert_calls(WEFT_ERR_FINALIZED, "", weft_file_close(opened));
    assert_int_equal(callocs.memory, 1);
}

static void closing_tells_of_what_failed(void **state)
{
    (void)state;
    fails = "quiet";
    assert_calls(WEFT_ERR_SYSTEM, "quiet; engine_close; close; ", weft_file_close(opened));
    opened = NULL;
    for (int i = 0; i < 2; i++) {
        fails = NULL;
        assert_int_equal(open_file(READ_WRITE), WEFT_OK);
        assert_int_equal(weft_file_write(opened, own(AT), 8, 0, PEER, NULL), WEFT_OK);
        fails = i ? "quiet" : "ctx_destroy";
        assert_calls(WEFT_ERR_SYSTEM, "quiet; engine_close; ctx_destroy; close; ",
                     weft_file_close(opened));
        assert_string_equal(base_last_error(), i ? "quiet fails" : "ctx_destroy fails");
        opened = NULL;
    }
}

static void the_end_of_a_job_closes_its_files(void **state)
{
    (void)state;
    weft_file *second;
    assert_int_equal(weft_file_open(&ops.job, path_text, WEFT_FILE_READ, NULL, &second), WEFT_OK);
    fails = "quiet";
    calls[0] = 0;
    ops.job.modules.end_files(&ops.job);
    assert_string_equal(calls, "quiet; engine_close; close; warning; quiet; engine_close; close; "
                               "warning; cufile_end; tunes_free; ");
    assert_null(ops.job.modules.files);
    assert_null(ops.job.modules.file_tunes);
    assert_calls(WEFT_ERR_FINALIZED, "", weft_file_quiet(second));
    /* The handle stays valid until it is closed. */
    assert_calls(WEFT_OK, "", weft_file_close(second));
    ops.job.modules.end_files = NULL;
}

static void measures_are_kept_once_for_all_files(void **state)
{
    (void)state;
    assert_ptr_equal(ops.job.modules.file_tunes, some_tunes()); /* made with the first file */
    weft_file *other;
    for (int i = 0; i < 3; i++) {
        measured = i > 0;
        ops.job.modules.file_tunes = i == 2 ? NULL : some_tunes();
        no_tunes = i == 2;
        assert_calls(WEFT_OK,
                     i == 2 ? "settings; open; engine; tunes; " : "settings; open; engine; ",
                     weft_file_open(&ops.job, path_text, WEFT_FILE_READ, NULL, &other));
        assert_calls(WEFT_OK, i == 1 ? "run_tuned; " : "run; ",
                     weft_file_read(other, own(AT), 8, 0, OPS_PE, NULL));
        assert_int_equal(weft_file_close(other), WEFT_OK);
    }
    ops.job.modules.file_tunes = some_tunes();
}

/* --------------------------------------------------------------------------------- the memory */

static weft_status move(int i, void *memory, size_t bytes, uint64_t offset, int pe,
                        weft_file_result *result)
{
    return i == 0   ? weft_file_read(opened, memory, bytes, offset, pe, result)
           : i == 1 ? weft_file_write(opened, memory, bytes, offset, pe, result)
           : i == 2 ? weft_file_read_nbi(opened, memory, bytes, offset, pe, result)
                    : weft_file_write_nbi(opened, memory, bytes, offset, pe, result);
}

static const char *const heard_of[] = {"run; ", "run; ", "begin; ", "begin; "};

static void own_memory_of_any_kind_is_moved(void **state)
{
    (void)state;
    weft_file_result result;
    const struct {
        void *memory;
        size_t bytes;
        enum file_place_kind kind;
        weft_status status;
    } rows[] = {{text, 64, FILE_HOST, WEFT_OK},
                {own(AT), 64, FILE_HOST, WEFT_OK},
                {own(OPS_HEAP - 64), 64, FILE_HOST, WEFT_OK},
                {own(OPS_HEAP - 64), 65, FILE_HOST, WEFT_ERR_RANGE},
                {gpu_at(OPS_GPU_SYSTEM), 64, FILE_DEVICE, WEFT_OK},
                {gpu_at(OPS_GPU_BYTES - 64), 65, FILE_DEVICE, WEFT_ERR_RANGE},
                {(void *)(uintptr_t)OPS_OWN_GPU, 64, FILE_DEVICE, WEFT_OK},
                {(void *)(uintptr_t)(OPS_PINNED - 64), 64, FILE_DEVICE, WEFT_OK},
                {(void *)(uintptr_t)(OPS_PINNED - 64), 65, FILE_DEVICE, WEFT_ERR_RANGE},
                {(void *)(uintptr_t)OPS_PINNED, 64, FILE_HOST, WEFT_OK}};
    for (int i = 0; i < 4; i++)
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            assert_calls(rows[k].status, rows[k].status ? "" : heard_of[i],
                         move(i, rows[k].memory, rows[k].bytes, 5, OPS_PE, &result));
            if (rows[k].status)
                continue;
            assert_int_equal(transfer.place.kind, rows[k].kind);
            assert_ptr_equal(transfer.place.address, rows[k].memory);
            assert_ptr_equal(transfer.place.gpu, rows[k].kind == FILE_DEVICE ? &ops.gpu : NULL);
            assert_int_equal(transfer.bytes, rows[k].bytes);
            assert_int_equal(transfer.offset, 5);
            assert_int_equal(transfer.write, i & 1);
            assert_ptr_equal(transfer.result, &result);
        }
    ops.job.gpu = NULL;
    assert_int_equal(move(0, (void *)(uintptr_t)OPS_OWN_GPU, 8, 0, OPS_PE, NULL), WEFT_OK);
    assert_int_equal(transfer.place.kind, FILE_HOST);
    ops.job.gpu = &ops.gpu;
}

static void memory_of_a_peer_is_found_by_a_context_of_the_file(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        char heard[32];
        snprintf(heard, sizeof heard, "%s%s", i ? "" : "ctx; ", heard_of[i]);
        assert_calls(WEFT_OK, heard, move(i, own(AT), 64, 5, PEER, NULL));
        assert_int_equal(transfer.place.kind, FILE_HOST);
        assert_ptr_equal(transfer.place.address, ops_heaps[PEER] + AT);
        assert_ptr_equal(transfer.place.gpu, &ops.gpu);
        assert_int_equal(move(i, gpu_at(OPS_GPU_SYSTEM), 64, 5, PEER, NULL), WEFT_OK);
        assert_int_equal(transfer.place.kind, FILE_DEVICE);
        assert_ptr_equal(transfer.place.address, ops_at(PEER, SEG_GPU, OPS_GPU_SYSTEM));
        ops_path(WEFT_GPU, PEER, PATH_STAGED);
        assert_int_equal(move(i, gpu_at(OPS_GPU_SYSTEM), 64, 5, PEER, NULL), WEFT_OK);
        assert_int_equal(transfer.place.kind, FILE_REMOTE);
        assert_int_equal(transfer.place.remote.offset, OPS_GPU_SYSTEM);
        assert_ptr_equal(transfer.place.remote.peer, &ops.peers[WEFT_GPU][PEER]);
        ops_path(WEFT_GPU, PEER, PATH_P2P);
        assert_int_equal(move(i, own(AT), 64, 5, 0, NULL), WEFT_OK);
        assert_ptr_equal(transfer.place.address, ops_heaps[0] + AT);
        assert_calls(WEFT_ERR_RANGE, "", move(i, own(OPS_HEAP - 8), 9, 5, PEER, NULL));
        ops.addresses_fail_in = 0;
        assert_calls(WEFT_ERR_NO_PATH, "", move(i, own(AT), 64, 5, PEER, NULL));
    }
}

static void one_context_is_made_for_a_file(void **state)
{
    (void)state;
    fails = "ctx";
    assert_calls(WEFT_ERR_SYSTEM, "ctx; ", move(1, own(AT), 8, 0, PEER, NULL));
    assert_null(opened->ctx);
    fails = NULL;
    other_thread = true;
    assert_calls(WEFT_OK, "ctx; ctx_destroy; run; ", move(1, own(AT), 8, 0, PEER, NULL));
    assert_ptr_equal(opened->ctx, &own_ctx);
    opened->ctx = NULL;
    fails = "ctx_destroy";
    assert_calls(WEFT_ERR_SYSTEM, "ctx; ctx_destroy; ", move(1, own(AT), 8, 0, PEER, NULL));
}

static void wrong_transfers_are_refused_and_told(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        static const struct {
            bool null;
            size_t bytes;
            uint64_t offset;
            int pe;
            weft_status status;
        } rows[] = {{false, 8, 0, -1, WEFT_ERR_PE},
                    {false, 8, 0, OPS_PES, WEFT_ERR_PE},
                    {false, 0, 0, OPS_PES, WEFT_ERR_PE},
                    {true, 8, 0, OPS_PE, WEFT_ERR_ARGUMENT},
                    {false, 8, (uint64_t)INT64_MAX - 7, OPS_PE, WEFT_ERR_RANGE},
                    {false, 8, (uint64_t)INT64_MAX + 1, OPS_PE, WEFT_ERR_RANGE},
                    {false, 8, UINT64_MAX, OPS_PE, WEFT_ERR_RANGE},
                    {false, 8, (uint64_t)INT64_MAX - 8, OPS_PE, WEFT_OK},
                    {false, 0, UINT64_MAX, OPS_PE, WEFT_OK},
                    {true, 0, 0, OPS_PE, WEFT_OK}};
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            weft_file_result result = {.status = 55, .done = 66};
            bool nothing = rows[k].status || !rows[k].bytes;
            assert_calls(rows[k].status, nothing ? "" : heard_of[i],
                         move(i, rows[k].null ? NULL : text, rows[k].bytes, rows[k].offset,
                              rows[k].pe, &result));
            bool told = nothing && (i < 2 || !rows[k].status);
            assert_int_equal(result.status, told ? rows[k].status : 55);
            assert_int_equal(result.done, told ? 0 : 66);
            assert_int_equal(move(i, rows[k].null ? NULL : text, rows[k].bytes, rows[k].offset,
                                  rows[k].pe, NULL),
                             rows[k].status);
        }
        fails = i < 2 ? "run" : "begin";
        assert_int_equal(move(i, text, 8, 0, OPS_PE, NULL), WEFT_ERR_SYSTEM);
        fails = NULL;
        opened->flags = i & 1 ? WEFT_FILE_READ : WEFT_FILE_WRITE;
        assert_calls(WEFT_ERR_ARGUMENT, "", move(i, text, 8, 0, OPS_PE, NULL));
        assert_non_null(strstr(base_last_error(),
                               i & 1 ? "without WEFT_FILE_WRITE" : "without WEFT_FILE_READ"));
        opened->flags = READ_WRITE;
        weft_file_result result = {.status = 55};
        job_failed_ = true;
        assert_calls(WEFT_ERR_PEER_DEAD, "", move(i, text, 8, 0, OPS_PE, &result));
        assert_int_equal(result.status, i < 2 ? WEFT_ERR_PEER_DEAD : 55);
        job_failed_ = false;
    }
    assert_calls(WEFT_ERR_ARGUMENT, "", weft_file_read(NULL, text, 8, 0, OPS_PE, NULL));
}

/* ----------------------------------------------------------------------------------- the file */

static void other_calls_reach_the_engine_and_the_file(void **state)
{
    (void)state;
    uint64_t bytes = 0;
    int ended = 5;
    assert_calls(WEFT_OK, "quiet; ", weft_file_quiet(opened));
    assert_calls(WEFT_OK, "quiet; safe; ", weft_file_sync(opened));
    assert_calls(WEFT_OK, "size; ", weft_file_size(opened, &bytes));
    assert_int_equal(bytes, 4711);
    assert_calls(WEFT_OK, "resize; ", weft_file_resize(opened, 4711));
    assert_calls(WEFT_OK, "", weft_file_test(opened, &ended));
    assert_int_equal(ended, 1);
    busy = true;
    assert_int_equal(weft_file_test(opened, &ended), WEFT_OK);
    assert_int_equal(ended, 0);
    assert_calls(WEFT_ERR_ARGUMENT, "", weft_file_test(opened, NULL));
    assert_calls(WEFT_ERR_ARGUMENT, "", weft_file_size(opened, NULL));
    assert_calls(WEFT_ERR_ARGUMENT, "", weft_file_query(opened, NULL));
    opened->flags = WEFT_FILE_READ;
    assert_calls(WEFT_ERR_ARGUMENT, "", weft_file_resize(opened, 4711));
    opened->flags = READ_WRITE;
    fails = "quiet";
    assert_calls(WEFT_ERR_SYSTEM, "quiet; ", weft_file_sync(opened));
    assert_calls(WEFT_ERR_SYSTEM, "quiet; ", weft_file_quiet(opened));
    fails = "safe";
    assert_calls(WEFT_ERR_SYSTEM, "quiet; safe; ", weft_file_sync(opened));
    fails = "size";
    assert_calls(WEFT_ERR_SYSTEM, "size; ", weft_file_size(opened, &bytes));
    fails = "resize";
    assert_calls(WEFT_ERR_SYSTEM, "resize; ", weft_file_resize(opened, 4711));
    fails = NULL;
    weft_file_info info = {.size = sizeof info};
    job_failed_ = true;
    assert_calls(WEFT_ERR_PEER_DEAD, "", weft_file_quiet(opened));
    assert_calls(WEFT_ERR_PEER_DEAD, "", weft_file_sync(opened));
    assert_calls(WEFT_ERR_PEER_DEAD, "", weft_file_size(opened, &bytes));
    assert_calls(WEFT_ERR_PEER_DEAD, "", weft_file_resize(opened, 4711));
    assert_calls(WEFT_ERR_PEER_DEAD, "", weft_file_test(opened, &ended));
    assert_calls(WEFT_ERR_PEER_DEAD, "", weft_file_query(opened, &info));
    assert_calls(WEFT_ERR_PEER_DEAD, "", weft_file_test(opened, NULL));
    ops.job.state = JOB_FINALIZED;
    assert_calls(WEFT_ERR_FINALIZED, "", weft_file_quiet(opened));
    ops.job.state = JOB_RUNNING;
}

static void a_query_fills_what_the_program_knows(void **state)
{
    (void)state;
    weft_file_info info;
    memset(&info, 0x77, sizeof info);
    info.size = sizeof info - 1;
    assert_int_equal(weft_file_query(opened, &info), WEFT_OK);
    assert_int_equal(((char *)&info)[sizeof info - 2], 0x44);
    assert_int_equal(((char *)&info)[sizeof info - 1], 0x77);
    assert_int_equal(info.size, sizeof info - 1);
    info.size = sizeof info;
    ops.job.gpu = NULL;
    assert_int_equal(weft_file_query(opened, &info), WEFT_OK);
    assert_int_equal(((char *)&info)[sizeof info - 1], 0x33);
    ops.job.gpu = &ops.gpu;
    info.size = sizeof info.size - 1;
    assert_int_equal(weft_file_query(opened, &info), WEFT_ERR_ARGUMENT);
}

static void joined_checksums_are_those_of_the_whole(void **state)
{
    (void)state;
    /* CRC-32C of "1234" and "56789", and of "123456789" (RFC 3720). */
    assert_int_equal(weft_file_join_checksums(0xf63af4ee, 0, 0), 0xf63af4ee);
    assert_int_equal(weft_file_join_checksums(0, 0xe3069283, 9), 0xe3069283);
    assert_int_not_equal(weft_file_join_checksums(1, 0xe3069283, 9),
                         weft_file_join_checksums(1, 0xe3069283, 8));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(flags_that_contradict_each_other_are_refused),
        TEST(wrong_arguments_of_open_are_refused),
        TEST(attributes_are_taken_as_far_as_they_go),
        TEST(a_file_that_cannot_be_opened_leaves_nothing),
        TEST(a_closed_file_is_no_longer_listed),
        TEST(closing_tells_of_what_failed),
        TEST(the_end_of_a_job_closes_its_files),
        TEST(measures_are_kept_once_for_all_files),
        TEST(own_memory_of_any_kind_is_moved),
        TEST(memory_of_a_peer_is_found_by_a_context_of_the_file),
        TEST(one_context_is_made_for_a_file),
        TEST(wrong_transfers_are_refused_and_told),
        TEST(other_calls_reach_the_engine_and_the_file),
        TEST(a_query_fills_what_the_program_knows),
        TEST(joined_checksums_are_those_of_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
