/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration table: values and suffixes are parsed; unknown names and bad values are
 * rejected. */
#include "base/config.h"
#include "base/cpus.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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

static void encryption_is_a_part_of_the_provider(void **state)
{
    static const struct {
        const char *text;
        bool good, encrypted;
    } rows[] = {{"", true, false},
                {"verbs;ofi_rxm", true, false},
                {"tcp+encrypted", true, true},
                {"+encrypted", true, true},
                {"tcp+", false, false},
                {"tcp+encrypt", false, false},
                {"tcp+encrypted+", false, false},
                {"tcp+encrypted,shm", false, false}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        setenv("WEFT_FABRIC_PROVIDER", rows[i].text, 1);
        config_reset();
        assert_int_equal(config_check(), rows[i].good ? WEFT_OK : WEFT_ERR_CONFIG);
        assert_int_equal(config_bool(CONFIG_FABRIC_PROVIDER), rows[i].encrypted);
        assert_string_equal(config_string(CONFIG_FABRIC_PROVIDER),
                            rows[i].good ? rows[i].text : "");
        if (!rows[i].good)
            assert_non_null(strstr(weft_last_error(), "alone or with +encrypted"));
    }
    unsetenv("WEFT_FABRIC_PROVIDER");
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

static void no_file_is_written_for_a_privileged_program(void **state)
{
    (void)state;
    setenv("WEFT_LOG_FILE", "/tmp/somewhere", 1);
    assert_string_equal(config_string(CONFIG_LOG_FILE), "/tmp/somewhere");
    config_reset();
    privileged = 1;
    assert_string_equal(config_string(CONFIG_LOG_FILE), "");
}

/* The levels of boot, coll, file, gda, gpu, job, net, shmem, simt, staged, by their first letters.
 */
static void log_levels_of_subsystems(void **state)
{
    (void)state;
    static const char letters[] = "ewid";
    static const struct {
        const char *text, *levels;
    } rows[] = {
        {"warn", "wwwwwwwwww"},
        {"DEBUG", "dddddddddd"},
        {"info,net:debug", "iiiiiidiii"},
        {"boot:error,staged:info", "ewwwwwwwwi"},
        {"gda:info,gpu:info,error,Gda:Debug", "eeedeeeeee"},
        {"", NULL},
        {"warn,", NULL},
        {",warn", NULL},
        {"net", NULL},
        {"net:", NULL},
        {":info", NULL},
        {"ne:info", NULL},
        {"nets:info", NULL},
        {"info net:debug", NULL},
        {"infos", NULL},
        {"net:info:debug", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        setenv("WEFT_LOG", rows[i].text, 1);
        config_reset();
        assert_int_equal(config_check(), rows[i].levels ? WEFT_OK : WEFT_ERR_CONFIG);
        for (int k = 0; rows[i].levels && k < LOG_SUBSYSTEM_COUNT; k++)
            for (int level = LOG_ERROR; level <= LOG_DEBUG; level++)
                assert_int_equal(log_enabled((enum log_level)level, (enum log_subsystem)k),
                                 level <= strchr(letters, rows[i].levels[k]) - letters);
    }
}

static void log_file_names(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        weft_status status;
    } rows[] = {
        {"", WEFT_OK},           {"a%h.%p%%", WEFT_OK},        {"%d", WEFT_ERR_CONFIG},
        {"a%", WEFT_ERR_CONFIG}, {"%%%hx%P", WEFT_ERR_CONFIG}, {"/tmp/x y", WEFT_OK},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        setenv("WEFT_LOG_FILE", rows[i].text, 1);
        config_reset();
        assert_int_equal(config_check(), rows[i].status);
        if (rows[i].status)
            assert_non_null(strstr(weft_last_error(), "which is not a file name with no % but"));
    }
}

/* Logs three lines in a process of its own, with its stderr in `folder`/stderr. */
static int log_three_lines(const char *folder)
{
    char name[200];
    int status;
    pid_t child = fork();
    if (!child) {
        snprintf(name, sizeof name, "%s/stderr", folder);
        dup2(open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
        log_warn(LOG_NET, "lost on the %s", "way");
        log_set_pe(7);
        log_error(LOG_GDA, "broken\033[2J");
        log_info(LOG_GPU, "not wanted");
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    return (int)child;
}

/* Matches the content of a file with an extended regular expression, and removes the file. */
static void expect_content(const char *folder, const char *name, const char *expression)
{
    char path[300], text[2000] = "";
    regex_t compiled;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    assert_in_range(read(fd, text, sizeof text - 1), 0, sizeof text - 2);
    close(fd);
    unlink(path);
    assert_int_equal(regcomp(&compiled, expression, REG_EXTENDED | REG_NOSUB), 0);
    if (regexec(&compiled, text, 0, NULL, 0))
        fail_msg("%s: \"%s\" does not match %s", path, text, expression);
    regfree(&compiled);
}

static void log_lines_of_a_file(void **state)
{
    (void)state;
    char folder[] = "/tmp/weft-test-log-XXXXXX", pattern[100], name[300], host[65] = "";
    assert_non_null(mkdtemp(folder));
    snprintf(pattern, sizeof pattern, "%s/%%p.%%%%.%%h", folder);
    setenv("WEFT_LOG_FILE", pattern, 1);
    config_reset();
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    snprintf(name, sizeof name, "%d.%%.%s", log_three_lines(folder), host);
#define DATE "20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]\\.[0-9]{6}Z [^ ]+ "
    expect_content(folder, name,
                   "^" DATE "weft [0-9]+\\.[0-9]{6} warn net: lost on the way\n" DATE
                   "weft\\[7\\] [0-9]+\\.[0-9]{6} error gda: broken\\?\\[2J\n$");
#undef DATE
    expect_content(folder, "stderr", "^weft\\[7\\] [0-9.]+ error gda: broken\\?\\[2J\n$");
    rmdir(folder);
}

static void log_files_that_cannot_be_opened(void **state)
{
    (void)state;
    char folder[] = "/tmp/weft-test-log-XXXXXX", fifo[100], missing[100], expected[400];
    assert_non_null(mkdtemp(folder));
    snprintf(fifo, sizeof fifo, "%s/fifo", folder); /* without a reader */
    snprintf(missing, sizeof missing, "%s/none/log", folder);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    const char *files[] = {fifo, missing};
    const char *reasons[] = {"No such device or address", "No such file or directory"};
    for (int i = 0; i < 2; i++) {
        setenv("WEFT_LOG_FILE", files[i], 1);
        config_reset();
        log_three_lines(folder);
        snprintf(expected, sizeof expected,
                 "^weft: WEFT_LOG_FILE: %s cannot be opened: %s; log lines go to stderr\n"
                 "weft [0-9.]+ warn net: lost on the way\nweft\\[7\\] [0-9.]+ error gda: ",
                 files[i], reasons[i]);
        expect_content(folder, "stderr", expected);
    }
    unlink(fifo);
    assert_int_equal(rmdir(folder), 0);
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
    assert_string_equal(
        weft_last_error(),
        "WEFT_LOG is \"loud\", which is not error, warn, info, debug, or a list such "
        "as warn,net:debug; subsystems: boot coll file gda gpu job net shmem simt staged");
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
        {"WEFT_FABRIC_RAILS", "WEFT_FABRIC_RAILS has been replaced by WEFT_RAILS"},
        {"WEFT_GDA_ADAPTERS", "WEFT_GDA_ADAPTERS has been replaced by WEFT_RAILS"},
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
        cmocka_unit_test_setup(encryption_is_a_part_of_the_provider, reset),
        cmocka_unit_test_setup(no_library_is_named_to_a_privileged_program, reset),
        cmocka_unit_test_setup(no_file_is_written_for_a_privileged_program, reset),
        cmocka_unit_test_setup(log_levels_of_subsystems, reset),
        cmocka_unit_test_setup(log_file_names, reset),
        cmocka_unit_test_setup(log_lines_of_a_file, reset),
        cmocka_unit_test_setup(log_files_that_cannot_be_opened, reset),
        cmocka_unit_test_setup(unknown_name_is_refused_with_nearest, reset),
        cmocka_unit_test_setup(bad_value_is_refused_with_value, reset),
        cmocka_unit_test_setup(renamed, reset),
        cmocka_unit_test_setup(groups, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
