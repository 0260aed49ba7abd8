/* SPDX-License-Identifier: Apache-2.0 */
/* Shows which backend a file uses, and how many requests of which size, by the environment
 * variables. */
#include "file/file.h"

#include "base/config.h"
#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct opened_file file;

static struct {
    const struct file_backend *backends[4];
    weft_status uring;
    int opens;
} chosen;

weft_status __wrap_file_engine_open(struct opened_file *opened,
                                    const struct file_settings *settings,
                                    struct file_engine **engine);
weft_status __wrap_file_engine_open(struct opened_file *opened,
                                    const struct file_settings *settings,
                                    struct file_engine **engine)
{
    assert_ptr_equal(opened, &file);
    assert_true(settings->chosen);
    assert_int_equal(settings->gpu_backend, FILE_GPU_COMPAT);
    chosen.backends[chosen.opens++] = settings->backend;
    *engine = (struct file_engine *)(void *)&chosen;
    return settings->backend != &file_uring ? WEFT_OK
           : chosen.uring                   ? base_fail(chosen.uring, "no ring here")
                                            : WEFT_OK;
}

static void by_which_queue(void **state)
{
    static const struct {
        const char *backend;
        weft_status uring, status;
        int opens;
        const char *reason;
    } rows[] = {{"auto", WEFT_OK, WEFT_OK, 1, ""},
                {"auto", WEFT_ERR_UNSUPPORTED, WEFT_OK, 2, "through threads: no ring here"},
                {"auto", WEFT_ERR_NO_MEMORY, WEFT_ERR_NO_MEMORY, 1, ""},
                {"uring", WEFT_ERR_UNSUPPORTED, WEFT_ERR_UNSUPPORTED, 1, ""},
                {"threads", WEFT_OK, WEFT_OK, 1, "through threads: WEFT_FILE_BACKEND=threads"}};
    (void)state;
    setenv("WEFT_FILE_GPU", "compat", 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct file_settings settings = {.depth = 3};
        struct file_engine *engine = NULL;
        memset(&chosen, 0, sizeof chosen);
        chosen.uring = rows[i].uring;
        file = (struct opened_file){.direct = -1};
        setenv("WEFT_FILE_BACKEND", rows[i].backend, 1);
        config_reset();
        assert_int_equal(file_engine_choose(&file, &settings, &engine), rows[i].status);
        assert_int_equal(chosen.opens, rows[i].opens);
        assert_ptr_equal(chosen.backends[0], i == 4 ? &file_threads : &file_uring);
        if (rows[i].opens == 2)
            assert_ptr_equal(chosen.backends[1], &file_threads);
        assert_string_equal(file.reason, rows[i].reason);
        assert_ptr_equal(engine, &chosen);
    }
    unsetenv("WEFT_FILE_GPU");
    unsetenv("WEFT_FILE_BACKEND");
    config_reset();
}

static void what_the_environment_asks_for(void **state)
{
    static const struct {
        unsigned given;
        const char *depth, *chunk, *words;
        unsigned becomes, most;
        size_t bytes;
        bool measured;
    } rows[] = {
        {0, "0", "0", NULL, FILE_DEPTH, FILE_TUNE_MOST_DEPTH, FILE_CHUNK, true},
        {0, "256", "0", NULL, 256, 0, FILE_CHUNK, false},
        {0, "0", "8K", NULL, FILE_DEPTH, 0, 8192, false},
        {7, "3", "8K", NULL, 7, 0, 8192, false},
        {0, "1", "64M", NULL, 1, 0, FILE_CHUNK_MOST, false},
        {0, "257", "0", "WEFT_TEST_FILE_DEPTH is 257; 1 to 256 requests at once", 0, 0, 0, false},
        {0, "-1", "0", "WEFT_TEST_FILE_DEPTH is -1; 1 to 256 requests at once", 0, 0, 0, false},
        {0, "0", "4097", "WEFT_TEST_FILE_CHUNK is 4097; expected a multiple of 4096 up to 67108864",
         0, 0, 0, false},
        {0, "0", "65M", "WEFT_TEST_FILE_CHUNK is 68157440; expected a multiple of 4096", 0, 0, 0,
         false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const weft_file_attr attr = {.depth = rows[i].given};
        struct file_settings settings;
        setenv("WEFT_TEST_FILE_DEPTH", rows[i].depth, 1);
        setenv("WEFT_TEST_FILE_CHUNK", rows[i].chunk, 1);
        config_reset();
        weft_status status = file_choose_settings(&attr, 0, &settings);
        assert_int_equal(status, rows[i].words ? WEFT_ERR_CONFIG : WEFT_OK);
        if (rows[i].words) {
            assert_non_null(strstr(base_last_error(), rows[i].words));
            continue;
        }
        assert_int_equal(settings.depth, rows[i].becomes);
        assert_int_equal(settings.most_depth, rows[i].most);
        assert_int_equal(settings.chunk_bytes, rows[i].bytes);
        assert_int_equal(settings.measured, rows[i].measured);
        assert_false(settings.checksums);
    }
    unsetenv("WEFT_TEST_FILE_DEPTH");
    unsetenv("WEFT_TEST_FILE_CHUNK");
    config_reset();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_which_queue),
        cmocka_unit_test(what_the_environment_asks_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
