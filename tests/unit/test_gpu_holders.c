/* SPDX-License-Identifier: Apache-2.0 */
/* Shows how the processes that use the memory of a GPU are described, over the stand-in of NVML. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu/users.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void holds(const char *processes, const char *bus_id, const char *words)
{
    static const struct gpu_api driver;
    static struct gpu_device gpu = {.driver = &driver};
    char text[200];
    snprintf(gpu.bus_id, sizeof gpu.bus_id, "%s", bus_id);
    if (processes)
        setenv("FAKE_NVML_PIDS", processes, 1);
    else
        unsetenv("FAKE_NVML_PIDS");
    gpu_memory_users(&gpu, text, sizeof text);
    assert_string_equal(text, words);
}

static void in_words(void **state)
{
    (void)state;
    const char *const second = "0000:11:00.0";
    char own[64], words[200], name[32] = "";
    FILE *file = fopen("/proc/self/comm", "r");
    assert_non_null(file);
    assert_non_null(fgets(name, sizeof name, file));
    fclose(file);
    name[strcspn(name, "\n")] = 0;
    holds(NULL, second,
          "NVML lists no process that uses it (one in another PID namespace is not listed)");
    snprintf(own, sizeof own, "1:%d:300", (int)getpid());
    snprintf(words, sizeof words, "it is used by pid %d (%s) 300 MiB", (int)getpid(), name);
    holds(own, second, words);
    /* The largest comes first. A process may have ended. An unreported amount counts as the
     * largest. */
    holds(
        "1:99999991:5,1:99999992:70000,0:7:9,1:99999993:20", second,
        "it is used by pid 99999992 (name unknown) 70000 MiB, pid 99999993 (name unknown) 20 MiB, "
        "pid 99999991 (name unknown) 5 MiB");
    holds("1:99999991:5,1:99999992:-1", second,
          "it is used by pid 99999992 (name unknown) amount unknown, pid 99999991 (name unknown) "
          "5 MiB");
    holds("1:1:5", "0000:10:00.0",
          "NVML lists no process that uses it (one in another PID namespace is not listed)");
    /* There is no such GPU; then the library returns an error. */
    holds("1:1:5", "0000:77:00.0",
          "which processes use it is unknown (this driver's library does not have that function)");
    holds("1:-4", second, "which processes use it is unknown (unknown NVML error)");
}

/* A text that is too long is cut, and nothing is written after the buffer. */
static void many_are_cut(void **state)
{
    (void)state;
    static const struct gpu_api driver;
    static struct gpu_device gpu = {.driver = &driver, .bus_id = "0000:11:00.0"};
    char processes[2000] = "", text[100];
    for (int i = 0; i < 60; i++)
        snprintf(processes + strlen(processes), sizeof processes - strlen(processes), "%s1:%d:%d",
                 i ? "," : "", 99999000 + i, 1000 + i);
    setenv("FAKE_NVML_PIDS", processes, 1);
    memset(text, 'x', sizeof text);
    gpu_memory_users(&gpu, text, 60);
    assert_int_equal(strlen(text), 59);
    assert_memory_equal(text, "it is used by pid 99999059", 26);
    for (size_t i = 60; i < sizeof text; i++)
        assert_int_equal(text[i], 'x');
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_words), cmocka_unit_test(many_are_cut)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
