/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration table: values and suffixes are parsed; unknown names and bad values are
 * rejected. */
#include "base/config.h"
#include "base/cpus.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* As glibc's: returns NULL in a privileged (setuid) program. */
static int privileged;
char *__wrap_secure_getenv(const char *name);

char *__wrap_secure_getenv(const char *name)
{
    return privileged ? NULL : getenv(name);
}

static int reset(void **state)
{
    privileged = 0;
    for (int i = 0; i < CONFIG_COUNT; i++)
        unsetenv(config_vars[i].name);
    config_reset();
    return 0;
}

static void sizes_take_suffixes(void **state)
{
    uint64_t bytes;
    assert_true(config_parse_size("64", &bytes));
    assert_int_equal(bytes, 64);
    assert_true(config_parse_size("4K", &bytes));
    assert_int_equal(bytes, 4096);
    assert_true(config_parse_size("1.5GiB", &bytes));
    assert_int_equal(bytes, 1610612736);
    assert_false(config_parse_size("", &bytes));
    assert_false(config_parse_size("-1", &bytes));
    assert_false(config_parse_size("4Q", &bytes));
    assert_false(config_parse_size("4Kx", &bytes));
    assert_false(config_parse_size("99999999999T", &bytes));
}

/* Finding A21: strtod() in a program whose locale has a decimal comma. */
double __wrap_strtod(const char *text, char **end);
double __wrap_strtod(const char *text, char **end)
{
    return (double)strtol(text, end, 10);
}

/* Finding A21: a kernel with 2048 CPUs, which rejects smaller sets. This thread may run on two
 * CPUs. */
int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
    if (bytes < 2048 / 8) {
        errno = EINVAL;
        return -1;
    }
    CPU_SET_S(3, bytes, set);
    CPU_SET_S(1024 + 70, bytes, set);
    return 0;
}

static void cpus_beyond_the_set_are_counted(void **state)
{
    uint64_t cpus[CPUS_FOLDED_WORDS];
    cpus_allowed(cpus);
    for (int word = 0; word < CPUS_FOLDED_WORDS; word++)
        assert_int_equal(cpus[word], word == 0 ? 1 << 3 : word == 1 ? 1 << 6 : 0);
}

static void durations_take_suffixes(void **state)
{
    uint64_t ns;
    assert_true(config_parse_duration("250ms", &ns));
    assert_int_equal(ns, 250000000);
    assert_true(config_parse_duration("2", &ns));
    assert_int_equal(ns, 2000000000);
    assert_true(config_parse_duration("5m", &ns));
    assert_int_equal(ns, 300000000000);
    assert_false(config_parse_duration("5 m", &ns));
}

static void lists_of_cpus(void **state)
{
    static const char *const bad[] = {"",   "-1", "3-1", "1,",   ",1",
                                      "1-", "x",  "1 ",  "1024", "0-9999999999999999999999"};
    cpu_set_t cpus;
    assert_true(cpus_parse("0-3,8,1023\n", &cpus));
    assert_int_equal(CPU_COUNT(&cpus), 6);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        assert_int_equal(CPU_ISSET((size_t)cpu, &cpus) != 0, cpu < 4 || cpu == 8 || cpu == 1023);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(cpus_parse(bad[i], &cpus));
}

static void bad_values_of_the_proxy(void **state)
{
    static const char *const bad[][2] = {
        {"WEFT_TEST_PROXY_SLOTS", "3"},       {"WEFT_TEST_PROXY_SLOTS", "1"},
        {"WEFT_TEST_PROXY_SLOTS", "2097152"}, {"WEFT_TEST_PROXY_SLOTS", "-4"},
        {"WEFT_PROXY_CPUS", "far"},           {"WEFT_PROXY_CPUS", "3-1"},
        {"WEFT_TEST_PROXY", "never"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        setenv(bad[i][0], bad[i][1], 1);
        config_reset();
        assert_int_equal(config_check(), WEFT_ERR_CONFIG);
        assert_non_null(strstr(weft_last_error(), bad[i][0]));
        unsetenv(bad[i][0]);
    }
    setenv("WEFT_TEST_PROXY_SLOTS", "1048576", 1);
    setenv("WEFT_PROXY_CPUS", "0-1,7", 1);
    config_reset();
    assert_int_equal(config_check(), WEFT_OK);
    assert_int_equal(config_int(CONFIG_TEST_PROXY_SLOTS), 1 << 20);
}

static void environment_wins_over_default(void **state)
{
    assert_int_equal(config_size(CONFIG_HEAP_SIZE), 4ull << 30);
    assert_string_equal(config_origin(CONFIG_HEAP_SIZE), "default");
    setenv("WEFT_HEAP_SIZE", "8M", 1);
    config_reset();
    assert_int_equal(config_size(CONFIG_HEAP_SIZE), 8 << 20);
    assert_string_equal(config_origin(CONFIG_HEAP_SIZE), "environment");
    assert_int_equal(config_check(), WEFT_OK);
}

/* Finding A23: variables that name a library are ignored in a privileged program. */
static void no_library_is_named_to_a_privileged_program(void **state)
{
    setenv("WEFT_TEST_HCA_LIB", "/tmp/somewhere", 1);
    setenv("WEFT_HCA", "soft", 1);
    assert_string_equal(config_string(CONFIG_TEST_HCA_LIB), "/tmp/somewhere");
    config_reset();
    privileged = 1;
    assert_string_equal(config_string(CONFIG_TEST_HCA_LIB), "");
    assert_string_equal(config_string(CONFIG_HCA), "soft");
}

static void unknown_name_is_refused_with_nearest(void **state)
{
    setenv("WEFT_HEAPSIZE", "8M", 1);
    assert_int_equal(config_check(), WEFT_ERR_CONFIG);
    assert_non_null(strstr(weft_last_error(), "WEFT_HEAPSIZE"));
    assert_non_null(strstr(weft_last_error(), "WEFT_HEAP_SIZE"));
    unsetenv("WEFT_HEAPSIZE");
}

static void bad_value_is_refused_with_value(void **state)
{
    setenv("WEFT_WAIT_LIMIT", "soon", 1);
    assert_int_equal(config_check(), WEFT_ERR_CONFIG);
    assert_non_null(strstr(weft_last_error(), "soon"));
    setenv("WEFT_WAIT_LIMIT", "1s", 1);
    setenv("WEFT_LOG", "loud", 1);
    assert_int_equal(config_check(), WEFT_ERR_CONFIG);
    assert_non_null(strstr(weft_last_error(), "error|warn|info|debug"));
}

/* A variable that was renamed since version 0.1 gives an error with its new name. */
static void renamed(void **context)
{
    (void)context;
    static const char *const names[][2] = {
        {"WEFT_SLOW", "WEFT_SLOW has been replaced by WEFT_TEST_SLOW"},
        {"WEFT_GDA_DEPTH", "WEFT_GDA_DEPTH has been replaced by WEFT_TEST_GDA_DEPTH"},
        {"WEFT_NET_LOT", "WEFT_NET_LOT has been replaced by WEFT_TEST_NET_SLOT_SIZE"},
        {"WEFT_NET_LOTS", "WEFT_NET_LOTS has been replaced by WEFT_TEST_NET_SLOTS"},
        {"WEFT_TEXT_PE", "WEFT_TEXT_PE has been replaced by the option --prefix of `weft run`"},
        {"WEFT_GPU_STRIPE",
         "WEFT_GPU_STRIPE has been replaced by nothing: copies that are not split"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        setenv(names[i][0], "1", 1);
        assert_int_equal(config_check(), WEFT_ERR_CONFIG);
        assert_non_null(strstr(weft_last_error(), names[i][1]));
        unsetenv(names[i][0]);
    }
    setenv("WEFT_SLO", "1", 1);
    assert_int_equal(config_check(), WEFT_ERR_CONFIG);
    assert_null(strstr(weft_last_error(), "replaced"));
    unsetenv("WEFT_SLO");
}

/* The variables for users come first and are at most 35. */
static void groups(void **context)
{
    (void)context;
    assert_in_range(CONFIG_USER_COUNT, 10, 35);
    for (int i = 0; i < CONFIG_COUNT; i++) {
        bool test = strncmp(config_vars[i].name, "WEFT_TEST_", 10) == 0;
        bool launcher = strncmp(config_vars[i].text, "Set by `weft run", 16) == 0;
        assert_int_equal(i < CONFIG_USER_COUNT, !test && !launcher);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cpus_beyond_the_set_are_counted),
        cmocka_unit_test_setup(sizes_take_suffixes, reset),
        cmocka_unit_test_setup(durations_take_suffixes, reset),
        cmocka_unit_test_setup(environment_wins_over_default, reset),
        cmocka_unit_test_setup(lists_of_cpus, reset),
        cmocka_unit_test_setup(bad_values_of_the_proxy, reset),
        cmocka_unit_test_setup(no_library_is_named_to_a_privileged_program, reset),
        cmocka_unit_test_setup(unknown_name_is_refused_with_nearest, reset),
        cmocka_unit_test_setup(bad_value_is_refused_with_value, reset),
        cmocka_unit_test_setup(renamed, reset),
        cmocka_unit_test_setup(groups, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
