/* SPDX-License-Identifier: Apache-2.0 */
/* The method by which a process finds the other PEs of its job, and the time limits of waits for
 * them. */
#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "boot/methods.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* -------------------------------------------------------------------------------------- methods */

static struct {
    const char *by;
    int pe;
    bool launcher, tcp;
    int npes, log_pe;
    weft_status status;
    char warning[300];
} did;
static struct boot made;

static weft_status opened(const char *by, struct boot **boot)
{
    assert_null(*boot);
    did.by = by;
    if (did.status)
        return base_fail(did.status, "not opened");
    made = (struct boot){.pe = 5, .npes = did.npes};
    *boot = &made;
    return WEFT_OK;
}

weft_status __wrap_boot_open_group(struct boot **boot, weft_group *group, int pe);
weft_status __wrap_boot_open_group(struct boot **boot, weft_group *group, int pe)
{
    assert_ptr_equal(group, &made);
    did.pe = pe;
    return opened("group", boot);
}

weft_status __wrap_boot_open_launcher(struct boot **boot);
weft_status __wrap_boot_open_launcher(struct boot **boot)
{
    return opened("weft", boot);
}

weft_status __wrap_boot_open_tcp(struct boot **boot);
weft_status __wrap_boot_open_tcp(struct boot **boot)
{
    return opened("tcp", boot);
}

weft_status __wrap_boot_open_single(struct boot **boot);
weft_status __wrap_boot_open_single(struct boot **boot)
{
    return opened("single", boot);
}

bool __wrap_boot_launcher_known(void);
bool __wrap_boot_launcher_known(void)
{
    return did.launcher;
}

bool __wrap_boot_tcp_known(void);
bool __wrap_boot_tcp_known(void)
{
    return did.tcp;
}

void __wrap_log_set_pe(int pe);
void __wrap_log_set_pe(int pe)
{
    did.log_pe = pe;
}

void __wrap_log_line(enum log_level level, enum log_subsystem subsystem, const char *format, ...);
void __wrap_log_line(enum log_level level, enum log_subsystem subsystem, const char *format, ...)
{
    va_list list;
    assert_int_equal(level, LOG_WARN);
    va_start(list, format);
    vsnprintf(did.warning, sizeof did.warning, format, list);
    va_end(list);
}

static void by_what_is_known_or_chosen(void **state)
{
    static const struct {
        const char *choice;
        bool launcher, tcp;
        int npes;
        weft_status status;
        const char *by;
    } rows[] = {
        {"auto", true, true, 3, WEFT_OK, "weft"},
        {"auto", false, true, 3, WEFT_OK, "tcp"},
        {"auto", false, false, 1, WEFT_OK, "single"},
        {"single", true, true, 1, WEFT_OK, "single"},
        {"tcp", true, false, 2, WEFT_OK, "tcp"},
        {"weft", false, true, 2, WEFT_OK, "weft"},
        {"auto", true, false, 3, WEFT_ERR_BOOT, "weft"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct boot *boot = &made;
        memset(&did, 0, sizeof did);
        did.launcher = rows[i].launcher;
        did.tcp = rows[i].tcp;
        did.npes = rows[i].npes;
        did.status = rows[i].status;
        did.log_pe = -1;
        setenv("WEFT_BOOT", rows[i].choice, 1);
        config_reset();
        assert_int_equal(boot_open(&boot, NULL, 9), rows[i].status);
        assert_string_equal(did.by, rows[i].by);
        assert_ptr_equal(boot, rows[i].status ? NULL : &made);
        assert_int_equal(did.log_pe, rows[i].npes > 1 && !rows[i].status ? 5 : -1);
        assert_string_equal(did.warning, "");
        assert_int_equal(boot_was_launched(), rows[i].launcher);
    }
    struct boot *boot = &made;
    assert_int_equal(boot_open(&boot, (weft_group *)(void *)&made, 9), WEFT_ERR_BOOT);
    assert_string_equal(did.by, "group");
    assert_int_equal(did.pe, 9);
    unsetenv("WEFT_BOOT");
    config_reset();
}

/* The library warns once about a launcher whose protocol it does not support, unless the user has
 * chosen a job of one PE. */
static void a_launcher_that_is_not_used(void **state)
{
    static const struct {
        const char *name, *value, *choice, *words;
    } rows[] = {
        {"SLURM_NTASKS", "2", "auto",
         "SLURM_NTASKS is 2, but this process found no launcher to connect to and is a job of one "
         "PE: start with srun --mpi=pmix"},
        {"SLURM_NTASKS", "1", "auto", ""},
        {"SLURM_NTASKS", "2", "single", ""},
        {"OMPI_COMM_WORLD_SIZE", "4", "auto", "this mpirun has no PMIx"},
        {"PMI_SIZE", "4", "auto", "PMI-1"},
        {"WORLD_SIZE", "4", "auto", "must all be set"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct boot *boot;
        memset(&did, 0, sizeof did);
        did.npes = 1;
        setenv("WEFT_BOOT", rows[i].choice, 1);
        setenv(rows[i].name, rows[i].value, 1);
        setenv("WORLD_SIZE", "4", 1); /* the warning names only the first variable */
        if (!*rows[i].words)
            unsetenv("WORLD_SIZE");
        config_reset();
        assert_int_equal(boot_open(&boot, NULL, 0), WEFT_OK);
        assert_non_null(strstr(did.warning, rows[i].words));
        if (!*rows[i].words)
            assert_string_equal(did.warning, "");
        unsetenv(rows[i].name);
        unsetenv("WORLD_SIZE");
    }
    unsetenv("WEFT_BOOT");
    config_reset();
}

/* --------------------------------------------------------------------------------------- limits */

static struct {
    uint64_t now, passes_ns; /* time that each poll() takes */
    int polls, ready_at, fd, wait_ms, naps;
    short events;
} waits;

uint64_t __wrap_clock_now_ns(void);
uint64_t __wrap_clock_now_ns(void)
{
    return waits.now;
}

int __wrap_poll(struct pollfd *list, nfds_t n, int wait_ms);
int __wrap_poll(struct pollfd *list, nfds_t n, int wait_ms)
{
    assert_int_equal(n, 1);
    waits.fd = list->fd;
    waits.events = list->events;
    waits.wait_ms = wait_ms;
    waits.now += waits.passes_ns;
    assert_true(waits.polls < 50);
    return ++waits.polls == waits.ready_at;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *time, struct timespec *rest)
{
    assert_null(rest);
    assert_int_equal(time->tv_sec, 0);
    assert_int_equal(time->tv_nsec, 1000000);
    waits.naps++;
    return 0;
}

static void the_lesser_limit_counts(void **state)
{
    static const struct {
        const char *wait, *join;
        uint64_t left_ns, joins_ns;
        bool endless, joins_endless;
    } rows[] = {{"3", "2", 3000000000, 2000000000, false, false},
                {"2", "3", 2000000000, 2000000000, false, false},
                {"0", "3", 0, 3000000000, true, false},
                {"2", "0", 2000000000, 2000000000, false, false},
                {"0", "0", 0, 0, true, true}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        setenv("WEFT_WAIT_LIMIT", rows[i].wait, 1);
        setenv("WEFT_BOOT_LIMIT", rows[i].join, 1);
        config_reset();
        struct boot_limit limit = boot_limit_start(), join = boot_limit_join();
        assert_int_equal(limit.left_ns, rows[i].left_ns);
        assert_int_equal(limit.endless, rows[i].endless);
        assert_int_equal(join.left_ns, rows[i].joins_ns);
        assert_int_equal(join.endless, rows[i].joins_endless);
    }
    unsetenv("WEFT_WAIT_LIMIT");
    unsetenv("WEFT_BOOT_LIMIT");
    config_reset();
}

static void pauses_count(void **state)
{
    struct boot_limit limit = {.left_ns = 2500000}, endless = {.endless = true};
    (void)state;
    memset(&waits, 0, sizeof waits);
    assert_true(boot_limit_pause(&limit));
    assert_int_equal(limit.left_ns, 1500000);
    assert_true(boot_limit_pause(&limit));
    assert_false(boot_limit_pause(&limit));
    assert_int_equal(limit.left_ns, 0);
    limit.left_ns = 1000000;
    assert_false(boot_limit_pause(&limit));
    assert_true(boot_limit_pause(&endless));
    assert_int_equal(endless.left_ns, 0);
    assert_int_equal(waits.naps, 5);
}

/* A wait ends at its limit or earlier. A wait never uses up more of the limit than its own length,
 * even if the process was stopped during it. */
static void a_wait_ends_with_the_limit_or_before(void **state)
{
    static const struct {
        uint64_t left_ns, passes_ns;
        bool endless;
        int ready_at;
        bool ready;
        int polls, last_ms;
        uint64_t rests_ns;
    } rows[] = {
        {2500000001, 1000000000, false, 0, false, 3, 501, 0},
        {2500000000, 9000000000, false, 0, false, 3, 500, 0}, /* the process was stopped */
        {2500000000, 400000000, false, 3, true, 3, 1000, 1700000000},
        {700000000, 400000000, false, 0, false, 2, 300, 0},
        {1, 7, false, 0, false, 1, 1, 0},
        {1000000000, 1000000000, false, 0, false, 1, 1000, 0},
        {0, 1000000000, true, 9, true, 9, 1000, 0},
        {5, 3, false, 1, true, 1, 1, 5},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct boot_limit limit = {.left_ns = rows[i].left_ns, .endless = rows[i].endless};
        memset(&waits, 0, sizeof waits);
        waits.now = 77;
        waits.passes_ns = rows[i].passes_ns;
        waits.ready_at = rows[i].ready_at;
        assert_int_equal(boot_limit_poll(&limit, 33, POLLOUT), rows[i].ready);
        assert_int_equal(waits.polls, rows[i].polls);
        assert_int_equal(waits.wait_ms, rows[i].last_ms);
        assert_int_equal(limit.left_ns, rows[i].rests_ns);
        assert_int_equal(waits.fd, 33);
        assert_int_equal(waits.events, POLLOUT);
    }
}

int main(void)
{
    /* Variables that another launcher may have set for this test. */
    static const char *const others[] = {"SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                         "WORLD_SIZE", "PMIX_NAMESPACE"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        unsetenv(others[i]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_what_is_known_or_chosen),
        cmocka_unit_test(a_launcher_that_is_not_used),
        cmocka_unit_test(the_lesser_limit_counts),
        cmocka_unit_test(pauses_count),
        cmocka_unit_test(a_wait_ends_with_the_limit_or_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
