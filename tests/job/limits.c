/* SPDX-License-Identifier: Apache-2.0 */
/* Waits distinguish a slow PE from a dead one. `limits CASE`, with WEFT_WAIT_LIMIT=1s and
 * WEFT_WAIT_WARN=200ms. A wait continues while the other PE computes, makes progress, is stopped,
 * or is in a debugger; it fails when the other PE does nothing or the PEs wait for each other. PE 0
 * is the slow one. */
#include "job.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LIMIT_MS = 1000, LONG_MS = 2500 };

static weft_job *job;
static weft_ctx *ctx;
static weft_team *world;
static int me, n;
static int64_t *words; /* symmetric */
static int64_t *pids;  /* symmetric, [n] */

static void sleep_ms(long ms)
{
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) && errno == EINTR)
        ;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* ------------------------------------------------------------------- output during the waits */

static int said_fd = -1, real_stderr = -1;
static char said[8192];

static void listen(void)
{
    said_fd = memfd_create("said", MFD_CLOEXEC);
    CHECK(said_fd >= 0);
    real_stderr = dup(2);
    CHECK(dup2(said_fd, 2) == 2);
}

static void stop_listening(void)
{
    CHECK(dup2(real_stderr, 2) == 2);
    ssize_t bytes = pread(said_fd, said, sizeof said - 1, 0);
    CHECK(bytes >= 0);
    said[bytes] = '\0';
}

static int times_said(const char *text)
{
    int count = 0;
    for (const char *at = said; (at = strstr(at, text)); at++)
        count++;
    return count;
}

/* The barrier succeeds. One warning was printed; it names PE 0 and contains this text. */
static void barrier_warns(const char *of_pe_0)
{
    listen();
    weft_status status = weft_barrier(world);
    stop_listening();
    if (status || times_said("has waited") != 1 || !strstr(said, "barrier") ||
        !strstr(said, "for PE 0") || !strstr(said, of_pe_0)) {
        fprintf(stderr, "PE %d: %s; wanted one warning with \"%s\", said: %s\n", me,
                weft_status_name(status), of_pe_0, said);
        exit(1);
    }
}

/* ---------------------------------------------------------------------------------- the cases */

/* PE 0 computes for longer than WEFT_WAIT_WARN and less than WEFT_WAIT_LIMIT. */
static void computes(void)
{
    if (me == 0) {
        sleep_ms(600);
        OK(weft_barrier(world));
    } else {
        barrier_warns("PE 0 (pid ");
        CHECK(strstr(said, "is not waiting in Weft"));
    }
}

static void keep_testing(int ms)
{
    int result;
    for (double end = now_ms() + ms; now_ms() < end; sleep_ms(5)) {
        OK(weft_test(ctx, WEFT_INT64, words, WEFT_EQ, 77, &result));
        CHECK(result == 0);
    }
}

static void keep_putting(int ms)
{
    for (double end = now_ms() + ms; now_ms() < end; sleep_ms(5))
        OK(weft_p64(ctx, words + 1, 1, n - 1));
}

static void tests_for_long(void)
{
    if (me == 0)
        keep_testing(LONG_MS);
    OK(weft_barrier(world));
}

static double cpu_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

/* The waiting PEs leave the CPUs to others, although PE 0 makes progress. */
static void puts_for_long(void)
{
    if (me == 0)
        keep_putting(LONG_MS);
    double before = cpu_ms();
    OK(weft_barrier(world));
    CHECK(cpu_ms() - before < LONG_MS / 4.0);
}

/* Starts a child that stops processes for LONG_MS and then resumes them. */
static pid_t stop_for_long(int first, int count, bool traced)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child)
        return child;
    sleep_ms(50);
    for (int i = first; i < first + count; i++)
        if (traced ? ptrace(PTRACE_ATTACH, (pid_t)pids[i], 0, 0) : kill((pid_t)pids[i], SIGSTOP))
            _exit(77);
    sleep_ms(LONG_MS);
    for (int i = first; i < first + count; i++) {
        if (traced) {
            waitpid((pid_t)pids[i], NULL, 0);
            ptrace(PTRACE_DETACH, (pid_t)pids[i], 0, 0);
        } else {
            kill((pid_t)pids[i], SIGCONT);
        }
    }
    /* PE 0 waits for this child; it must not continue before the others have checked again. */
    sleep_ms(count > 1 ? 200 : 0);
    _exit(0);
}

static void go_on_after(pid_t child)
{
    int how;
    while (waitpid(child, &how, 0) < 0)
        CHECK(errno == EINTR);
    CHECK(WIFEXITED(how));
    if (WEXITSTATUS(how) == 77)
        exit(77); /* not permitted here */
    CHECK(WEXITSTATUS(how) == 0);
}

static void one_is_stopped(void)
{
    if (me == 0) {
        go_on_after(stop_for_long(0, 1, false));
        OK(weft_barrier(world));
    } else {
        barrier_warns("is stopped, by a signal or in a debugger");
    }
}

static void one_is_traced(void)
{
    if (me == 0) {
        go_on_after(stop_for_long(0, 1, true));
        OK(weft_barrier(world));
    } else {
        barrier_warns("is stopped, by a signal or in a debugger");
    }
}

/* All PEs but PE 0 are stopped in a barrier; PE 0, which would be the only one to check, is stopped
 * as well. */
static void all_are_stopped(void)
{
    if (me == 0)
        go_on_after(stop_for_long(0, n, false));
    OK(weft_barrier(world));
}

/* Uses plain stores, which do not count as progress of this PE. */
static void tell_that_it_failed(void)
{
    for (int pe = 0; pe < n; pe++)
        __atomic_fetch_add((int64_t *)weft_ptr(job, words + 2, pe), 1, __ATOMIC_RELEASE);
}

/* No PE continues before `count` PEs have failed. */
static void await_failures(int count)
{
    while (__atomic_load_n(words + 2, __ATOMIC_ACQUIRE) < count)
        sleep_ms(5);
}

/* PE 0 does nothing until the waits of the others have failed; then it enters the barrier too. */
static void does_nothing(void)
{
    if (me == 0) {
        await_failures(n - 1);
        OK(weft_barrier(world));
    } else {
        listen();
        weft_status status = weft_barrier(world);
        stop_listening();
        CHECK(status == WEFT_ERR_TIMEOUT);
        CHECK(strstr(weft_last_error(), "barrier waited"));
        CHECK(strstr(weft_last_error(), "for PE 0"));
        CHECK(strstr(weft_last_error(), "is not waiting in Weft"));
        CHECK(strstr(weft_last_error(), "WEFT_WAIT_LIMIT"));
        tell_that_it_failed();
        await_failures(n - 1);
    }
}

/* PE 0 waits for a value that no PE stores; the others wait for PE 0 in a barrier. All of them
 * check, none makes progress. The message prints the values of the signed variable with their
 * sign. */
static void deadlock(void)
{
    listen();
    weft_status status = me == 0 ? weft_wait_until(ctx, WEFT_INT64, words, WEFT_LT, (uint64_t)-5)
                                 : weft_barrier(world);
    stop_listening();
    CHECK(status == WEFT_ERR_TIMEOUT);
    CHECK(strstr(weft_last_error(), me ? "PE 0 (pid " : "expected < -5, seen 0 at offset "));
    tell_that_it_failed();
    await_failures(n);
    if (me == 0)
        OK(weft_barrier(world));
}

/* PE 2 waits for PE 1, which waits for PE 0. */
static void chain(bool moves)
{
    weft_team *low, *high;
    OK(weft_team_split_strided(world, 0, 1, 2, &low));
    OK(weft_team_split_strided(world, 1, 1, 2, &high));
    listen();
    weft_status status = WEFT_OK;
    if (me == 0 && moves)
        keep_testing(LONG_MS);
    else if (me == 0)
        await_failures(2);
    if (me < 2)
        status = weft_barrier(low);
    else
        status = weft_barrier(high);
    stop_listening();
    CHECK(status == (moves || me == 0 ? WEFT_OK : WEFT_ERR_TIMEOUT));
    if (me > 0 && !moves) {
        tell_that_it_failed();
        await_failures(2);
    }
    if (me == 1)
        OK(weft_barrier(high));
}

static void chain_moves(void)
{
    chain(true);
}

static void chain_stands(void)
{
    chain(false);
}

/* PE 0 stores directly into one of three variables of PE 1, so that its progress count does not
 * change. The wait excludes the first variable. */
static void any(int which, weft_status wanted)
{
    int64_t *vars = alloc(job, 3 * sizeof *vars), *there;
    int status[3] = {1, 0, 0};
    size_t index;
    if (me == 0) {
        there = weft_ptr(job, vars, 1);
        CHECK(there);
        for (int64_t i = 1;
             wanted ? !__atomic_load_n(words + 2, __ATOMIC_ACQUIRE) : i <= LONG_MS / 20;
             i++, sleep_ms(20))
            __atomic_store_n(&there[which], -i, __ATOMIC_RELEASE);
        __atomic_store_n(&there[2], 7, __ATOMIC_RELEASE);
    } else {
        listen();
        weft_status got = weft_wait_until_any(ctx, WEFT_INT64, vars, 3, status, WEFT_GT, 0, &index);
        stop_listening();
        CHECK(got == wanted);
        if (wanted)
            CHECK(strstr(weft_last_error(), "expected > 0, seen 0 at offset"));
        else
            CHECK(index == 2 && vars[2] == 7);
        tell_that_it_failed();
    }
    OK(weft_free(job, vars));
}

static void any_first_moves(void)
{
    any(1, WEFT_OK);
}

static void any_last_moves(void)
{
    any(2, WEFT_OK);
}

static void any_excluded_moves(void)
{
    any(0, WEFT_ERR_TIMEOUT);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"computes", computes},
    {"tests_for_long", tests_for_long},
    {"puts_for_long", puts_for_long},
    {"one_is_stopped", one_is_stopped},
    {"one_is_traced", one_is_traced},
    {"all_are_stopped", all_are_stopped},
    {"does_nothing", does_nothing},
    {"deadlock", deadlock},
    {"chain_moves", chain_moves},
    {"chain_stands", chain_stands},
    {"any_first_moves", any_first_moves},
    {"any_last_moves", any_last_moves},
    {"any_excluded_moves", any_excluded_moves},
};

int main(int argc, char **argv)
{
    OK(weft_init(&job, NULL));
    ctx = weft_default_ctx(job);
    world = weft_team_world(job);
    me = weft_my_pe(job);
    n = weft_n_pes(job);
    words = alloc(job, 4 * sizeof *words);
    pids = alloc(job, (size_t)n * sizeof *pids);
    for (int pe = 0; pe < n; pe++)
        OK(weft_p64(ctx, pids + me, (uint64_t)getpid(), pe));
    OK(weft_barrier(world));
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(argv[1], cases[i].name) != 0)
            continue;
        cases[i].run();
        OK(weft_finalize(job));
        return 0;
    }
    fprintf(stderr, "limits: no case \"%s\"\n", argc > 1 ? argv[1] : "");
    return 2;
}
