/* SPDX-License-Identifier: Apache-2.0 */
/* How `weft bench` prints its figures: units and digits at their limits, whole rows, and the
 * warning under a table. */
#include "bench/bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const char *const bench_memory_names[MEMORY_COUNT] = {"host", "gpu"};
const char *const bench_scope_names[SCOPE_COUNT] = {"host", "thread", "warp", "block", "stream"};
const char *const bench_target_names[TARGET_COUNT] = {"host", "cuda", "simt"};

static char *text;
static size_t length;
static FILE *to;

static void begin(void)
{
    to = open_memstream(&text, &length);
    assert_non_null(to);
}

static void expect(const char *wanted)
{
    assert_int_equal(fclose(to), 0);
    assert_string_equal(text, wanted);
    free(text);
}

static void sizes_have_the_largest_whole_unit(void **state)
{
    static const struct {
        size_t bytes;
        const char *text;
    } rows[] = {{0, "0 B"},
                {1023, "1023 B"},
                {1024, "1 KiB"},
                {1025, "1025 B"},
                {1536, "1536 B"},
                {1 << 20, "1 MiB"},
                {(size_t)3 << 30, "3 GiB"},
                {(size_t)5 << 40, "5 TiB"},
                {(size_t)2048 << 40, "2048 TiB"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(bench_bytes_text(rows[i].bytes).text, rows[i].text);
}

static void times_have_three_digits(void **state)
{
    static const struct {
        double us;
        const char *text;
    } rows[] = {{-1, "-"},
                {0, "0.0000 ns"},
                {0.00005, "0.0500 ns"},
                {0.0005, "0.500 ns"},
                {0.00999, "9.99 ns"},
                {0.009996, "10.0 ns"},
                {0.0999, "99.9 ns"},
                {0.99951, "1000 ns"},
                {1, "1.00 us"},
                {99.94, "99.9 us"},
                {99.96, "100 us"},
                {999, "999 us"},
                {1000, "1.00 ms"},
                {999000, "999 ms"},
                {1e6, "1.00 s"},
                {123.4e6, "123 s"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(bench_us_text(rows[i].us).text, rows[i].text);
}

static void numbers_have_three_digits(void **state)
{
    static const struct {
        double value;
        const char *text;
    } rows[] = {{-1, "-"},        {0, "-"},        {0.0994, "0.0994"}, {0.0996, "0.100"},
                {0.994, "0.994"}, {0.996, "1.00"}, {9.994, "9.99"},    {9.996, "10.0"},
                {99.94, "99.9"},  {99.96, "100"},  {12345.6, "12346"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(bench_number_text(rows[i].value).text, rows[i].text);
}

static void floors_have_names(void **state)
{
    static const char *const names[] = {
        "none", "memcpy", "store", "load", "atomic", "two lines", "two lines or memcpy"};
    for (int i = 0; i <= FLOOR_HEARD; i++)
        assert_string_equal(bench_floor_name((enum bench_floor)i), names[i]);
}

static const struct bench_entry put = {.name = "put", .sized = true, .gridded = true},
                                get = {.name = "get", .sized = true}, add = {.name = "add"},
                                swap = {.name = "swap"};

static void grids_are_named_where_there_are_several_blocks(void **state)
{
    struct bench_point point = {.entry = &put, .ctas = 2};
    assert_string_equal(bench_name_text(&point).text, "put x2");
    point.ctas = 1;
    assert_string_equal(bench_name_text(&point).text, "put");
    point = (struct bench_point){.entry = &get, .ctas = 8};
    assert_string_equal(bench_name_text(&point).text, "get");
}

static void a_row_has_all_figures(void **state)
{
    struct bench_point point = {.entry = &put,
                                .ctas = 4,
                                .bytes = 8192,
                                .us = 2.5,
                                .us_min = 2.25,
                                .us_max = 30,
                                .gbps = 3.2768,
                                .mops = 0.4,
                                .verified = 1,
                                .floor_us = 1.25,
                                .memcpy_us = 0.5};
    begin();
    bench_table_row(to, &point, NULL);
    point.bytes = 0;
    point.verified = 0;
    point.floor_us = point.memcpy_us = -1;
    bench_table_row(to, &point, NULL);
    point.verified = -1;
    point.floor_us = 0;
    bench_table_row(to, &point, NULL);
    expect("put x4                8 KiB   2.50 us   2.25 us   30.0 us     3.28    0.400     16.4"
           "   1.25 us    2.00  right\n"
           "put x4                    -   2.50 us   2.25 us   30.0 us     3.28    0.400        -"
           "         -       -  WRONG\n"
           "put x4                    -   2.50 us   2.25 us   30.0 us     3.28    0.400        -"
           " 0.0000 ns       -  no\n");
}

/* An empty line separates entries or grids of which one has several sizes. */
static void groups_are_apart(void **state)
{
    static const struct {
        const struct bench_entry *entry, *previous;
        int ctas, ctas_before;
        bool apart;
    } rows[] = {{&put, &put, 1, 1, false}, {&put, &put, 2, 1, true},  {&put, &get, 1, 1, true},
                {&add, &put, 1, 1, true},  {&put, &add, 1, 1, true},  {&add, &swap, 1, 1, false},
                {&put, NULL, 1, 1, false}, {&add, &swap, 2, 1, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bench_point point = {.entry = rows[i].entry, .ctas = rows[i].ctas};
        struct bench_point before = {.entry = rows[i].previous, .ctas = rows[i].ctas_before};
        begin();
        bench_table_row(to, &point, rows[i].previous ? &before : NULL);
        assert_int_equal(fclose(to), 0);
        assert_int_equal(text[0] == '\n', rows[i].apart);
        free(text);
    }
}

static void unsteady_times_are_warned_of(void **state)
{
    struct bench_point points[7];
    for (int unsteady = 0; unsteady <= 7; unsteady++)
        for (int count = 0; count <= 7; count++) {
            char words[40];
            for (int i = 0; i < 7; i++)
                points[i] =
                    (struct bench_point){.us_min = 1.5, .us_max = i < unsteady ? 3.01 : 3.0};
            begin();
            bench_table_foot(to, points, count);
            assert_int_equal(fclose(to), 0);
            int seen = unsteady < count ? unsteady : count;
            snprintf(words, sizeof words, "\nIn %d of %d rows", seen, count);
            if (count >= 3 && seen > count / 3)
                assert_memory_equal(text, words, strlen(words));
            else
                assert_string_equal(text, "");
            free(text);
        }
}

static void the_head_says_what_is_measured(void **state)
{
    struct bench_options options = {.memory = MEMORY_GPU,
                                    .scope = SCOPE_WARP,
                                    .target = TARGET_SIMT,
                                    .ctas = 1,
                                    .ctas_list = {1, 8},
                                    .n_ctas = 2,
                                    .threads = 96};
    struct bench bench = {.options = &options,
                          .n = 3,
                          .from = 2,
                          .to = 1,
                          .path = "relay",
                          .floors = {40, 50, -1, 1500, 2, 25}};
    const char *const parts[] = {
        "3 PEs, PE 2 to PE 1 over relay, gpu memory, scope warp, target simt, ",
        "figures of the stand-in, not of a GPU\n", "grids of 1, 8 blocks of 96 threads; ",
        "a cache line 40.0 ns, over two lines 50.0 ns, store -, load 1.50 us, ",
        ", atomic 2.00 ns, clock 25.0 ns\n\n"};
    begin();
    bench_table_head(to, &bench);
    assert_int_equal(fclose(to), 0);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(text, parts[i]))
            fail_msg("no \"%s\" in \"%s\"", parts[i], text);
    free(text);
    static const struct {
        int n, n_ctas, ctas;
        enum bench_scope scope;
        const char *pes, *grid; /* NULL: not printed */
    } rows[] = {{1, 1, 1, SCOPE_BLOCK, "1 PE, ", "grids of 1 block of"},
                {2, 1, 4, SCOPE_THREAD, "2 PEs, ", "grids of 1 blocks of"},
                {2, 1, 1, SCOPE_HOST, "2 PEs, ", NULL},
                {2, 1, 1, SCOPE_STREAM, "2 PEs, ", NULL}};
    options.target = TARGET_HOST;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bench.n = rows[i].n;
        options.n_ctas = rows[i].n_ctas;
        options.ctas = rows[i].ctas;
        options.scope = rows[i].scope;
        begin();
        bench_table_head(to, &bench);
        assert_int_equal(fclose(to), 0);
        assert_memory_equal(text, rows[i].pes, strlen(rows[i].pes));
        assert_null(strstr(text, "stand-in"));
        assert_int_equal(strstr(text, "grids of") != NULL, rows[i].grid != NULL);
        if (rows[i].grid)
            assert_non_null(strstr(text, rows[i].grid));
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_have_the_largest_whole_unit),
        cmocka_unit_test(times_have_three_digits),
        cmocka_unit_test(numbers_have_three_digits),
        cmocka_unit_test(floors_have_names),
        cmocka_unit_test(grids_are_named_where_there_are_several_blocks),
        cmocka_unit_test(a_row_has_all_figures),
        cmocka_unit_test(groups_are_apart),
        cmocka_unit_test(unsteady_times_are_warned_of),
        cmocka_unit_test(the_head_says_what_is_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
