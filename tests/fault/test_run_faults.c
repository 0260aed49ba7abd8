/* SPDX-License-Identifier: Apache-2.0 */
/* Ways in which a job under `weft run` ends: what it reports, which status the other PEs get, what
 * it returns, and that nothing is left behind. argv: the command weft, the program boot_victim, the
 * module sigchld_thread, optionally the one test to run. */
#include "fault/faults.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char *weft, *victim_program, *sigchld_thread;
static struct outcome outcome;

static void run_victim(char *pes, char *stage, char *victim)
{
    faults_run((char *[]){weft, "run", "-n", pes, victim_program, stage, victim, NULL}, &outcome);
}

static int before(void **state)
{
    faults_remember();
    return 0;
}

static int after(void **state)
{
    faults_expect_nothing_left();
    return 0;
}

/* Number of lines in which a survivor reports the death of PE 1. */
static int told(const char *beginning)
{
    int count = 0;
    for (const char *at = outcome.output; (at = strstr(at, "survivor ")); at++) {
        const char *colon = strchr(at, ':');
        count += colon && strncmp(colon + 2, beginning, strlen(beginning)) == 0;
    }
    return count;
}

static void clean_end(void **state)
{
    run_victim("4", "nobody", "0");
    faults_expect(&outcome, 0, "PE 3 of 4");
    assert_null(strstr(outcome.output, "weft run:"));
}

static void killed_at(char *stage)
{
    run_victim("4", stage, "1");
    faults_expect(&outcome, 137, "weft run: PE 1 (pid ");
    faults_expect(&outcome, 137, "was killed by signal 9 (Killed); ending the job");
    if (told("WEFT_ERR_PEER_DEAD: PE 1 (pid ") != 3)
        fail_msg("%s: not three survivors were told:\n%s", stage, outcome.output);
}

static void killed_after_joining(void **state)
{
    char *stages[] = {"open", "gather", "share", "finalize", "check"};
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        killed_at(stages[i]);
        faults_expect_nothing_left();
    }
}

/* The launcher ends PEs that have not joined yet without a status, so the number of survivors
 * varies. */
static void killed_before_joining(void **state)
{
    run_victim("4", "start", "1");
    faults_expect(&outcome, 137, "was killed by signal 9 (Killed); ending the job");
}

static void killed_after_the_end(void **state)
{
    run_victim("3", "after", "1");
    faults_expect(&outcome, 137, "was killed by signal 9");
    assert_null(strstr(outcome.output, "ending the job"));
    assert_int_equal(told(""), 0);
}

static void exit_without_finalize(void **state)
{
    run_victim("3", "exit0", "1");
    faults_expect(&outcome, 1, "exited with status 0 without weft_finalize while other PEs");
    assert_int_equal(told("WEFT_ERR_PEER_DEAD: PE 1 (pid "), 2);
    run_victim("3", "exit5", "1");
    faults_expect(&outcome, 5, "exited with status 5 before weft_finalize; ending the job");
    assert_int_equal(told("WEFT_ERR_PEER_DEAD: PE 1 (pid "), 2);
}

static void never_joins(void **state)
{
    run_victim("3", "early", "1");
    faults_expect(&outcome, 1, "before it joined the job that other PEs wait for");
    run_victim("3", "closed", "1");
    faults_expect(&outcome, 3, "is not a socket of weft run");
    /* PE 1 has ended when the others join. */
    faults_run((char *[]){weft, "run", "-n", "3", "/bin/sh", "-c",
                          "[ $WEFT_PE -eq 1 ] && exit 0; sleep 0.3; exec $0 nobody 0",
                          victim_program, NULL},
               &outcome);
    faults_expect(&outcome, 1, "before it joined the job that other PEs wait for");
}

static void leaves_without_finalize(void **state)
{
    run_victim("3", "unclean", "1");
    faults_expect(&outcome, 5, "left the job before weft_finalize; ending the job");
    assert_int_equal(told("WEFT_ERR_PEER_DEAD: PE 1 (pid "), 2);
}

static void aborts(void **state)
{
    run_victim("3", "abort", "1");
    faults_expect(&outcome, 7, "aborted the job with code 7: no more wool; ending the job");
    assert_int_equal(told("WEFT_ERR_JOB: PE 1 (pid "), 2);
}

static void different_calls(void **state)
{
    run_victim("3", "mismatch", "1");
    assert_int_not_equal(outcome.status, 0);
    assert_true(faults_contain(&outcome, "WEFT_ERR_MISMATCH"));
}

static void late_pe_is_named(void **state)
{
    setenv("WEFT_WAIT_LIMIT", "400ms", 1);
    run_victim("3", "late", "1");
    unsetenv("WEFT_WAIT_LIMIT");
    faults_expect(&outcome, 3,
                  "WEFT_ERR_TIMEOUT: PE 1 did not share a descriptor within WEFT_WAIT_LIMIT");
}

static void descriptors_used_up_in_pe(void **state)
{
    run_victim("3", "descriptors", "1");
    faults_expect(&outcome, 3, "raise the limit of open files (ulimit -n)");
}

static void descriptors_used_up_in_launcher(void **state)
{
    struct rlimit old, few;
    getrlimit(RLIMIT_NOFILE, &old);
    few = (struct rlimit){24, 24};
    pid_t pid = fork(); /* the hard limit cannot be raised again */
    if (pid == 0) {
        setrlimit(RLIMIT_NOFILE, &few);
        faults_run((char *[]){weft, "run", "-n", "64", "/bin/sleep", "30", NULL}, &outcome);
        _exit(outcome.status == 1 && faults_contain(&outcome, "raise the limit of open files") ? 0
                                                                                               : 1);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

/* -------------------------------------------------------------------------- ended from outside */

static pid_t start_hanging(void)
{
    /* Each PE has a child process. */
    pid_t pid = faults_start((char *[]){weft, "run", "-n", "3", "--grace", "300ms", "/bin/sh", "-c",
                                        "sleep 100 & echo up $WEFT_PE; sleep 100; true", NULL});
    faults_await(pid, "up 0");
    faults_await(pid, "up 1");
    faults_await(pid, "up 2");
    return pid;
}

static void launcher_killed(void **state)
{
    pid_t pid = start_hanging();
    kill(pid, SIGKILL);
    faults_wait(pid, &outcome);
    assert_int_equal(outcome.status, 137);
}

static void launcher_killed_with_weft_pes(void **state)
{
    pid_t pid = faults_start((char *[]){weft, "run", "-n", "3", "/bin/sh", "-c",
                                        "echo up $WEFT_PE; $0 hang 0; true", victim_program, NULL});
    faults_await(pid, "up 2");
    kill(pid, SIGKILL);
    faults_wait(pid, &outcome);
    assert_int_equal(outcome.status, 137);
}

static void signals_end_the_job(void **state)
{
    const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        pid_t pid = start_hanging();
        kill(pid, signals[i]);
        if (signals[i] == SIGINT || signals[i] == SIGQUIT) { /* sh's child ignores them */
            usleep(100000);
            kill(pid, SIGTERM);
        }
        faults_wait(pid, &outcome);
        assert_true(outcome.status == 128 + signals[i] || outcome.status == 128 + SIGTERM);
        faults_expect_nothing_left();
    }
}

static void other_signals_are_passed_on(void **state)
{
    pid_t pid = faults_start((char *[]){
        weft, "run", "-n", "2", "/bin/sh", "-c",
        "trap 'echo got $WEFT_PE; exit 0' USR1; echo up $WEFT_PE; while :; do sleep 0.05; done",
        NULL});
    faults_await(pid, "up 0");
    faults_await(pid, "up 1");
    kill(pid, SIGUSR1);
    faults_wait(pid, &outcome);
    assert_true(faults_contain(&outcome, "got 0") || faults_contain(&outcome, "got 1"));
}

/* Both PEs ignore SIGTERM before the time limit, which is long enough for a busy machine. */
static void time_limit(void **state)
{
    char *limits[] = {"200ms", "1s", "5s", "25s"};
    for (int i = 0; i < 4; i++) {
        faults_run((char *[]){weft, "run", "-n", "2", "--timeout", limits[i], "--grace", "200ms",
                              "/bin/sh", "-c",
                              "trap '' TERM; echo deaf $WEFT_PE; sleep 100; sleep 100", NULL},
                   &outcome);
        faults_expect(&outcome, 124, "the job exceeded its --timeout; ending the job");
        if (faults_contain(&outcome, "deaf 0") && faults_contain(&outcome, "deaf 1"))
            break;
    }
    faults_expect(&outcome, 124, "deaf 0");
    faults_expect(&outcome, 124, "did not end after SIGTERM; killed");
}

static void grandchildren_end_with_the_job(void **state)
{
    faults_run((char *[]){weft, "run", "-n", "2", "/bin/sh", "-c", "sleep 100 & exit 0", NULL},
               &outcome);
    assert_int_equal(outcome.status, 0);
    faults_expect_nothing_left();
    faults_run((char *[]){weft, "run", "-n", "2", "--grace", "200ms", "/bin/sh", "-c",
                          "(trap '' TERM; sleep 100; sleep 100) & exit 0", NULL},
               &outcome);
    assert_int_equal(outcome.status, 0);
}

static void program_below_a_shell_is_killed(void **state)
{
    faults_run((char *[]){weft, "run", "-n", "3", "/bin/sh", "-c",
                          "$0 check 1; s=$?; sleep 1; exit $s", victim_program, NULL},
               &outcome);
    faults_expect(&outcome, 137, "the program of PE 1 (pid ");
    assert_int_equal(told("WEFT_ERR_PEER_DEAD: the program of PE 1"), 2);
}

/* --------------------------------------------------------------------------- unusual processes */

/* Another thread takes SIGCHLD; the launcher must still notice the end of a PE. */
static void sigchld_is_taken(void **state)
{
    setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
    setenv("LD_PRELOAD", sigchld_thread, 1);
    for (int i = 0; i < 20; i++) {
        faults_run((char *[]){weft, "run", "-n", "2", "/bin/sh", "-c", "exit $WEFT_PE", NULL},
                   &outcome);
        faults_expect(&outcome, 1, "exited with status 1");
        faults_run((char *[]){weft, "run", "-n", "3", "true", NULL}, &outcome);
        faults_expect(&outcome, 0, NULL);
    }
    unsetenv("LD_PRELOAD");
    unsetenv("ASAN_OPTIONS");
}

/* The launcher must not open a driver, whose threads and open files it would keep. */
static void launcher_opens_no_gpu_driver(void **state)
{
    setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
    setenv("LD_PRELOAD", sigchld_thread, 1);
    faults_run((char *[]){weft, "bench", "barrier", "--scope", "thread", "--iters", "2",
                          "--repetitions", "1", NULL},
               &outcome);
    unsetenv("LD_PRELOAD");
    unsetenv("ASAN_OPTIONS");
    faults_expect(&outcome, 0, "barrier");
    assert_null(strstr(outcome.output, "the launcher loads"));
}

static void sigchld_is_ignored(void **state)
{
    signal(SIGCHLD, SIG_IGN); /* the child inherits it */
    pid_t pid = faults_start((char *[]){weft, "run", "-n", "2", "/bin/sh", "-c", "exit 4", NULL});
    signal(SIGCHLD, SIG_DFL);
    faults_wait(pid, &outcome);
    faults_expect(&outcome, 4, "exited with status 4");
}

/* Every combination of closed standard descriptors: the output of PEs is discarded, and the job
 * ends. */
static void standard_descriptors_are_closed(void **state)
{
    char *closed[] = {"<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-"};
    for (size_t i = 0; i < sizeof closed / sizeof closed[0]; i++) {
        char line[160];
        for (int prefix = 0; prefix < 2; prefix++) {
            snprintf(line, sizeof line,
                     "\"$0\" run -n 2 %s sh -c 'echo to 1; echo to 2 >&2; exit 5' %s; "
                     "echo status $? >&9",
                     prefix ? "--prefix" : "", closed[i]);
            char script[200];
            snprintf(script, sizeof script, "exec 9>&1; %s", line);
            faults_run((char *[]){"/bin/sh", "-c", script, weft, NULL}, &outcome);
            faults_expect(&outcome, 0, "status 5\n");
        }
    }
}

static void output_is_full(void **state)
{
    faults_run(
        (char *[]){"/bin/sh", "-c",
                   "\"$0\" run -n 2 --prefix sh -c 'while :; do echo yarn; sleep 0.01; done' "
                   ">/dev/full",
                   weft, NULL},
        &outcome);
    faults_expect(&outcome, 1,
                  "weft run: writing the PEs' output to standard output: No space left on device; "
                  "ending the job");
    assert_null(strstr(outcome.output, "SIGPIPE"));
    assert_null(strstr(outcome.output, "Broken pipe"));
    faults_run(
        (char *[]){"/bin/sh", "-c", "\"$0\" run -n 1 --prefix echo yarn >/dev/full", weft, NULL},
        &outcome);
    faults_expect(&outcome, 1, "standard output: No space left on device");
}

static void code_of_abort_is_kept(void **state)
{
    run_victim("2", "abort256", "1");
    faults_expect(&outcome, 1, "aborted the job with code 256: no more wool");
    run_victim("2", "abort0", "1");
    faults_expect(&outcome, 0, "aborted the job with code 0: no more wool");
}

/* A PE in the job executes another program, or closes descriptors of the library, and lives on. */
static void living_pe_is_cut_off(void **state)
{
    char *stages[] = {"exec", "closeall"};
    for (size_t i = 0; i < 2; i++) {
        run_victim("3", stages[i], "1");
        faults_expect(&outcome, 1, "weft run: PE 1 (pid ");
        faults_expect(&outcome, 1, "is running, but has closed its connection to weft run before");
        if (told("WEFT_ERR_PEER_DEAD: PE 1 (pid ") != 2)
            fail_msg("%s: not two survivors were told:\n%s", stages[i], outcome.output);
        faults_expect_nothing_left();
    }
}

/* PE 1 writes a core dump, which takes time. The others end because of it, and leave the job before
 * the kernel reports its death. The launcher must report the cause, PE 1. */
static void cause_is_told_from_effects(void **state)
{
    for (int i = 0; i < 10; i++) {
        run_victim("4", "wake", "2");
        faults_expect(&outcome, 134, "weft run: PE 2 (pid ");
        faults_expect(&outcome, 134, "was killed by signal 6 (Aborted)");
    }
}

/* --------------------------------------------------------------------------- detached processes */

static void detached_helpers_end_with_the_job(void **state)
{
    faults_run((char *[]){weft, "run", "-n", "2", victim_program, "helper", "1", NULL}, &outcome);
    faults_expect(&outcome, 0, NULL);
    faults_expect_nothing_left();
    faults_run(
        (char *[]){weft, "run", "-n", "2", "--grace", "200ms", "/bin/sh", "-c",
                   "setsid sh -c \"trap '' TERM; setsid sleep 100 & sleep 100\" & sleep 0.3; "
                   "exit 3",
                   NULL},
        &outcome);
    faults_expect(&outcome, 3, "exited with status 3");
}

static void detached_program_is_the_pe(void **state)
{
    faults_run((char *[]){weft, "run", "-n", "2", "setsid", "sh", "-c", "sleep 0.3; exit 7", NULL},
               &outcome);
    faults_expect(&outcome, 7, "exited with status 7");
    faults_run((char *[]){weft, "run", "-n", "3", "setsid", victim_program, "nobody", "0", NULL},
               &outcome);
    faults_expect(&outcome, 0, "PE 2 of 3");
    /* A short delay: once a process is dead, the launcher cannot find out whose child it was. */
    faults_run((char *[]){weft, "run", "-n", "3", "setsid", "sh", "-c",
                          "sleep 0.3; exec \"$0\" gather 1", victim_program, NULL},
               &outcome);
    faults_expect(&outcome, 137, "was killed by signal 9 (Killed)");
    assert_int_equal(told("WEFT_ERR_PEER_DEAD: "), 2);
}

static void detached_program_dies_with_the_launcher(void **state)
{
    pid_t pid =
        faults_start((char *[]){weft, "run", "-n", "2", "/bin/sh", "-c",
                                "setsid sh -c 'echo up $WEFT_PE; sleep 100' & sleep 100", NULL});
    faults_await(pid, "up 0");
    faults_await(pid, "up 1");
    kill(pid, SIGKILL);
    faults_wait(pid, &outcome);
    assert_int_equal(outcome.status, 137);
}

/* --------------------------------------------------------------------------------------- usage */

static void wrong_usage(void **state)
{
    faults_run((char *[]){weft, "run", "true", NULL}, &outcome);
    faults_expect(&outcome, 0, "-n N starts another number");
    faults_run((char *[]){weft, "run", "-n", "2", NULL}, &outcome);
    faults_expect(&outcome, 2, "no program given");
    char *numbers[] = {"0", "-1", "20000", "2x", ""};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        faults_run((char *[]){weft, "run", "-n", numbers[i], "true", NULL}, &outcome);
        faults_expect(&outcome, 2, "the number of PEs is 1 to 16384");
    }
    faults_run((char *[]){weft, "run", "-n", "1", "--bind=socket", "true", NULL}, &outcome);
    faults_expect(&outcome, 2, "expected share, core or none");
    faults_run((char *[]){weft, "run", "-n", "1", "--timeout", "soon", "true", NULL}, &outcome);
    faults_expect(&outcome, 2, "expected a time such as");
    faults_run((char *[]){weft, "run", "-n", "1", "no-such-program", NULL}, &outcome);
    faults_expect(&outcome, 127, "no-such-program: there is no such program on PATH");
    faults_run((char *[]){weft, "run", "-n", "1", "/etc/passwd", NULL}, &outcome);
    faults_expect(&outcome, 126, "/etc/passwd: not an executable file");
    setenv("WEFT_WAITLIMIT", "1", 1);
    faults_run((char *[]){weft, "run", "-n", "1", "true", NULL}, &outcome);
    unsetenv("WEFT_WAITLIMIT");
    faults_expect(&outcome, 2, "the nearest is WEFT_WAIT_LIMIT");
}

static void secret_is_not_shown(void **state)
{
    setenv("WEFT_SECRET", "felt and fulling mill", 1);
    faults_run((char *[]){weft, "env", NULL}, &outcome);
    faults_expect(&outcome, 0, "WEFT_SECRET        = (set, not shown)");
    assert_null(strstr(outcome.output, "felt"));
    faults_run((char *[]){weft, "env", "--json", NULL}, &outcome);
    assert_null(strstr(outcome.output, "felt"));
    unsetenv("WEFT_SECRET");
}

/* A launcher whose socket has the type of version 0.1.0, and a PE that sends an invalid frame. */
static void versions_are_mixed(void **state)
{
    int ends[2];
    char number[16];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    snprintf(number, sizeof number, "%d", ends[1]);
    setenv("WEFT_BOOT_SOCKET", number, 1);
    setenv("WEFT_PE", "0", 1);
    setenv("WEFT_PES", "2", 1);
    faults_run((char *[]){victim_program, "nobody", "0", NULL}, &outcome);
    faults_expect(&outcome, 3, "WEFT_ERR_VERSION: weft run uses the protocol of another version");
    unsetenv("WEFT_BOOT_SOCKET");
    unsetenv("WEFT_PE");
    unsetenv("WEFT_PES");
    close(ends[0]);
    close(ends[1]);
    faults_run((char *[]){weft, "run", "-n", "2", "/bin/bash", "-c",
                          "[ $WEFT_PE = 1 ] && echo 0123456789abcdef0123 >&$WEFT_BOOT_SOCKET; "
                          "exec sleep 30",
                          NULL},
               &outcome);
    faults_expect(&outcome, 1, "the connection to PE 1 failed: received data");
    faults_expect(&outcome, 1, "no frame of this version of Weft; ending the job");
}

static void launcher_variables_are_checked(void **state)
{
    setenv("WEFT_BOOT_SOCKET", "0", 1);
    setenv("WEFT_PE", "0", 1);
    setenv("WEFT_PES", "2", 1);
    faults_run((char *[]){victim_program, "nobody", "0", NULL}, &outcome);
    faults_expect(&outcome, 3, "WEFT_BOOT_SOCKET is 0, which is not a socket of weft run");
    unsetenv("WEFT_BOOT_SOCKET");
    unsetenv("WEFT_PE");
    unsetenv("WEFT_PES");
    setenv("WEFT_BOOT", "weft", 1);
    faults_run((char *[]){victim_program, "nobody", "0", NULL}, &outcome);
    faults_expect(&outcome, 3, "this process was not started by weft run");
    unsetenv("WEFT_BOOT");
}

int main(int argc, char **argv)
{
    if (argc < 4 || argc > 5)
        return 2;
    weft = argv[1];
    victim_program = argv[2];
    sigchld_thread = argv[3];
#define TEST(name) cmocka_unit_test_setup_teardown(name, before, after)
    const struct CMUnitTest tests[] = {
        TEST(clean_end),
        TEST(killed_after_joining),
        TEST(killed_before_joining),
        TEST(killed_after_the_end),
        TEST(exit_without_finalize),
        TEST(never_joins),
        TEST(leaves_without_finalize),
        TEST(aborts),
        TEST(different_calls),
        TEST(late_pe_is_named),
        TEST(descriptors_used_up_in_pe),
        TEST(descriptors_used_up_in_launcher),
        TEST(launcher_killed),
        TEST(launcher_killed_with_weft_pes),
        TEST(signals_end_the_job),
        TEST(other_signals_are_passed_on),
        TEST(time_limit),
        TEST(grandchildren_end_with_the_job),
        TEST(program_below_a_shell_is_killed),
        TEST(sigchld_is_taken),
        TEST(launcher_opens_no_gpu_driver),
        TEST(sigchld_is_ignored),
        TEST(standard_descriptors_are_closed),
        TEST(output_is_full),
        TEST(code_of_abort_is_kept),
        TEST(living_pe_is_cut_off),
        TEST(cause_is_told_from_effects),
        TEST(detached_helpers_end_with_the_job),
        TEST(detached_program_is_the_pe),
        TEST(detached_program_dies_with_the_launcher),
        TEST(wrong_usage),
        TEST(secret_is_not_shown),
        TEST(versions_are_mixed),
        TEST(launcher_variables_are_checked),
    };
    if (argc == 5)
        cmocka_set_test_filter(argv[4]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
