/* SPDX-License-Identifier: Apache-2.0 */
/* How a job of `weft run` ends (cli/run/end.c): the sequence of calls, with a mock clock and mock
 * processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run_calls.h"

#include <signal.h>
#include <sys/wait.h>

#define MS UINT64_C(1000000)

static const char another_dies[] = "PE 0 says so";

/* ------------------------------------------------------------------------- mock system calls */

static siginfo_t endings[PES_MOST]; /* si_pid 0: alive */
static int kills_find;              /* kill(, 0) finds the group this often */
static int waits_interrupted, waits_errno = EINTR;

int __wrap_kill(pid_t pid, int number);
int __wrap_kill(pid_t pid, int number)
{
    log_call("kill %d %d", (int)pid, number);
    if (number != 0 || kills_find-- > 0)
        return 0;
    errno = ESRCH;
    return -1;
}

pid_t __wrap_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
    log_call("waitpid %d %d", (int)pid, options);
    errno = waits_errno;
    return waits_interrupted-- > 0 ? -1 : pid;
}

int __wrap_waitid(idtype_t type, id_t id, siginfo_t *info, int options);
int __wrap_waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
    assert_int_equal(type, P_PID);
    assert_int_equal(options, WEXITED | WNOHANG | WNOWAIT);
    for (int pe = 0; pe < PES_MOST; pe++)
        if (made_pes[pe].pid == (pid_t)id)
            *info = endings[pe];
    return info->si_code < 0 ? -1 : 0;
}

pid_t __wrap_getpgid(pid_t pid);
pid_t __wrap_getpgid(pid_t pid)
{
    return pid + 100;
}

int __wrap_usleep(useconds_t us);
int __wrap_usleep(useconds_t us)
{
    log_call("usleep %d", (int)us);
    answers.now_ns += us * UINT64_C(1000);
    return 0;
}

/* -------------------------------------------------------------------------------- helpers */

enum { KILLED = SIGKILL, DUMPED = SIGSEGV | 0x80, EXIT_0 = 0, EXIT_3 = 3 << 8 };

static void exit_with(struct run *run, int pe, int wait_status)
{
    run->pes[pe].exited = run->pes[pe].to_judge = true;
    run->pes[pe].wait_status = wait_status;
    run->alive--;
}

static void expect_end(const struct run *run, enum run_phase phase, int result, int culprit)
{
    assert_int_equal(run->ending.phase, phase);
    assert_int_equal(run->ending.result, result);
    assert_int_equal(run->ending.culprit, culprit);
}

/* ------------------------------------------------------------------------- start of the end */

static void the_end_begins(void **state)
{
    struct run run = made_run(4);
    run.started = 3;
    run.pes[1].joined = false;
    run_begin_end(&run, 1, WEFT_ERR_JOB, 5, another_dies);
    expect_log("tell PE 0 the end\ntell PE 2 the end\n");
    expect_end(&run, RUN_NOTIFIED, 5, -1);
    assert_int_equal(run.ending.phase_ends_ns, 7250 * MS);
    assert_int_equal(run.ending.status, WEFT_ERR_JOB);
    assert_string_equal(run.ending.sentence, another_dies);

    run = made_run(1);
    run_begin_end(&run, 0, WEFT_ERR_JOB, -1, "x");
    expect_end(&run, RUN_NOTIFIED, -1, 0);
    run = made_run(1);
    run.ending.result = 0;
    run_begin_end(&run, 0, WEFT_ERR_JOB, 9, "x");
    expect_end(&run, RUN_NOTIFIED, 0, -1);
    run = made_run(1);
    run.ending.result = 3;
    run_begin_end(&run, 0, WEFT_ERR_JOB, -1, "x");
    expect_end(&run, RUN_NOTIFIED, 3, -1);
}

static void a_reason_is_said_once(void **state)
{
    struct run run = made_run(2);
    run_end(&run, 1, WEFT_ERR_JOB, 5, "it aborted");
    expect_log("say \"it aborted; ending the job\"\ntell PE 0 the end\ntell PE 1 the end\n");
    expect_end(&run, RUN_NOTIFIED, 5, -1);
    run_end(&run, 0, WEFT_ERR_JOB, 6, "it, too");
    expect_log("");

    run = made_run(1);
    run.alive = 0;
    run_end(&run, 0, WEFT_ERR_JOB, 5, "it aborted");
    expect_log("say \"it aborted\"\ntell PE 0 the end\n");
    run = made_run(1);
    run.alive = 1;
    run.ending.postponed.until_ns = 1;
    run_end(&run, -1, WEFT_ERR_JOB, 0, "all is well");
    expect_log(""); /* the first reason counts */
    run.ending.postponed.until_ns = 0;
    run_end(&run, 0, WEFT_ERR_JOB, 0, "all is well");
    expect_log("tell PE 0 the end\n");
    expect_end(&run, RUN_NOTIFIED, 0, -1);
}

static void who_is_dying(void **state)
{
    struct run run = made_run(3);
    run.pes[2].program = 777;
    answers.dying[0] = 777;
    assert_true(run_another_is_dying(&run, 0));
    assert_false(run_another_is_dying(&run, 2));
    run.pes[2].joined = false; /* then only the started process counts */
    assert_false(run_another_is_dying(&run, 0));
    answers.dying[0] = 503;
    assert_true(run_another_is_dying(&run, 0));
    exit_with(&run, 2, KILLED);
    assert_true(run_another_is_dying(&run, 0));
    run.pes[2].to_judge = false;
    assert_false(run_another_is_dying(&run, 0));
    run.pes[2].to_judge = true;
    run.pes[2].wait_status = EXIT_3;
    assert_false(run_another_is_dying(&run, 0));
    exit_with(&run, 0, KILLED);
    assert_true(run_another_is_dying(&run, 1));
    assert_false(run_another_is_dying(&run, 0));
    run = made_run(1);
    answers.dying[0] = 502; /* not a process of the job */
    assert_false(run_another_is_dying(&run, 0));
}

static void a_failure_waits_for_who_is_dying(void **state)
{
    struct run run = made_run(3);
    answers.dying[0] = 502;
    run_end(&run, -1, WEFT_ERR_TIMEOUT, 124, "late"); /* not a failure of a PE: no delay */
    expect_log("say \"late; ending the job\"\ntell PE 0 the end\ntell PE 1 the end\n"
               "tell PE 2 the end\n");

    run = made_run(3);
    answers.dying[0] = 502;
    run_end(&run, 0, WEFT_ERR_JOB, -1, "first");
    expect_log("");
    expect_end(&run, RUN_WORKING, -1, -1);
    assert_int_equal(run.ending.postponed.until_ns, 12000 * MS);
    assert_int_equal(run.ending.postponed.pe, 0);
    assert_int_equal(run.ending.postponed.status, WEFT_ERR_JOB);
    assert_int_equal(run.ending.postponed.result, -1);
    assert_string_equal(run.ending.postponed.sentence, "first");
    answers.now_ns += 5;
    run_end(&run, 2, WEFT_ERR_SYSTEM, 2, "second");
    assert_int_equal(run.ending.postponed.until_ns, 12000 * MS);
    assert_string_equal(run.ending.postponed.sentence, "first");
    assert_int_equal(run_end_due_ns(&run, 1000), 5001000);

    /* The dying PE was killed by a signal: that is the reason. */
    exit_with(&run, 1, DUMPED);
    run_judge_exits(&run);
    expect_log("say \"PE 1 was killed by signal 11 (Segmentation fault), core dumped; ending the "
               "job\"\ntell PE 0 the end\ntell PE 1 the end\ntell PE 2 the end\n");
    assert_int_equal(run.ending.postponed.until_ns, 0);
    expect_end(&run, RUN_NOTIFIED, 139, -1);
    assert_false(run.pes[1].to_judge);

    /* The failure of a PE that exited by itself is delayed too. */
    run = made_run(2);
    answers.dying[0] = 502;
    exit_with(&run, 0, EXIT_3);
    run_end(&run, 0, WEFT_ERR_JOB, -1, "x");
    assert_int_equal(run.ending.postponed.until_ns, 12000 * MS);
    expect_log("");
}

static void who_was_killed_does_not_wait(void **state)
{
    struct run run = made_run(3);
    answers.dying[0] = 503;
    exit_with(&run, 0, KILLED);
    run_end(&run, 0, WEFT_ERR_PEER_DEAD, 137, "killed");
    expect_end(&run, RUN_NOTIFIED, 137, -1);
    run = made_run(3);
    answers.dying[0] = 503;
    run.pes[1].wait_status = KILLED; /* ignored before it has exited */
    run_end(&run, 1, WEFT_ERR_PEER_DEAD, 137, "killed");
    expect_end(&run, RUN_WORKING, -1, -1);
    *call_log = '\0';
}

static void over_hosts_a_failure_always_waits(void **state)
{
    struct run_host host = {.count = 2};
    for (int dying = 0; dying < 2; dying++) {
        struct run run = made_run(2);
        run.hosts.list = &host;
        run.ending.some_dying = dying;
        run_end(&run, 1, WEFT_ERR_JOB, 4, "x");
        assert_int_equal(run.ending.postponed.until_ns, dying ? 12000 * MS : 7300 * MS);
        answers.dying[0] = 0;
        answers.now_ns = run.ending.postponed.until_ns - 1;
        run_end_postponed(&run, false);
        expect_log("");
        answers.now_ns++;
        run_end_postponed(&run, false);
        expect_log("say \"x; ending the job\"\ntell PE 0 the end\ntell PE 1 the end\n");
        expect_end(&run, RUN_NOTIFIED, 4, -1);
    }
}

static void what_was_postponed_is_settled(void **state)
{
    struct run run = made_run(2);
    run_end_postponed(&run, true);
    expect_log("");
    answers.dying[0] = 501;
    run_end(&run, 1, WEFT_ERR_JOB, 4, "x");
    run_end_postponed(&run, false);
    expect_log("");
    answers.now_ns = 12000 * MS - 1;
    run_end_postponed(&run, false);
    expect_log("");
    answers.now_ns = 12000 * MS; /* the delay is over */
    run_end_postponed(&run, false);
    expect_log("say \"x; ending the job\"\ntell PE 0 the end\ntell PE 1 the end\n");
    assert_int_equal(run.ending.postponed.until_ns, 0);
    assert_int_equal(run.ending.status, WEFT_ERR_JOB);
    assert_string_equal(run.ending.sentence, "x");

    run = made_run(2);
    answers.dying[0] = 501;
    run_end(&run, 1, WEFT_ERR_JOB, 4, "x");
    answers.dying[0] = 0; /* it did not die */
    run.alive = 1;
    run_end_by_time(&run, 8);
    expect_log("say \"x; ending the job\"\ntell PE 0 the end\ntell PE 1 the end\n");
    expect_end(&run, RUN_NOTIFIED, 4, -1);

    run = made_run(2);
    answers.dying[0] = 501;
    run_end(&run, 1, WEFT_ERR_JOB, 0, "all is well");
    exit_with(&run, 1, EXIT_3);
    run_end_postponed(&run, true);
    expect_end(&run, RUN_NOTIFIED, 0, -1);
    *call_log = '\0';

    run = made_run(2);
    answers.dying[0] = 501;
    run_end(&run, 1, WEFT_ERR_JOB, -1, "x");
    exit_with(&run, 1, EXIT_3);
    run.alive = 0;
    *call_log = '\0';
    run_end_postponed(&run, true);
    expect_log("say \"x\"\ntell PE 0 the end\ntell PE 1 the end\n");
    expect_end(&run, RUN_NOTIFIED, 3, 1);

    run = made_run(2);
    answers.dying[0] = 501;
    run_end(&run, 1, WEFT_ERR_JOB, -1, "x");
    exit_with(&run, 1, EXIT_0);
    run_end_postponed(&run, true);
    expect_end(&run, RUN_NOTIFIED, 1, 1); /* never 0 */

    run = made_run(2);
    answers.dying[0] = 501;
    run_end(&run, 1, WEFT_ERR_JOB, -1, "x");
    run.pes[1].wait_status = EXIT_3;
    run_end_postponed(&run, true);
    expect_end(&run, RUN_NOTIFIED, -1, 1); /* the PE is alive */

    run = made_run(2);
    answers.dying[0] = 501;
    run_end(&run, 1, WEFT_ERR_JOB, 4, "x");
    run.ending.phase = RUN_TERMINATED;
    *call_log = '\0';
    run_end_postponed(&run, true);
    expect_log("");
    assert_int_equal(run.ending.postponed.until_ns, 12000 * MS);
}

/* -------------------------------------------------------------------------------- timeouts */

static void a_closed_connection_ends_the_job(void **state)
{
    static const char said[] =
        "say \"PE 1 is running, but has closed its connection to weft run before weft_finalize (by "
        "exec, or by closing every descriptor); ending the job\"\n";
    char all[400];
    struct run_host host = {.count = 3};
    for (int hosts = 0; hosts < 2; hosts++) {
        uint64_t limit = hosts ? 1000 * MS : 200 * MS;
        struct run run = made_run(3);
        run.hosts.list = hosts ? &host : NULL;
        run.pes[1].cut_off_ns = 50;
        run_end_by_time(&run, 50 + limit); /* some_cut_off is not set */
        expect_log("");
        run.ending.some_cut_off = true;
        run_end_by_time(&run, 49 + limit);
        expect_log("");
        assert_true(run.ending.some_cut_off);
        assert_int_equal(run_end_due_ns(&run, 100), 5000100);
        answers.dying[0] = run.pes[1].program = 888;
        if (!hosts) {
            run_end_by_time(&run, 50 + limit);
            expect_log("");
            assert_true(run.pes[1].joined);
            answers.dying[0] = 0;
        }
        run_end_by_time(&run, 50 + limit);
        assert_false(run.pes[1].joined);
        assert_int_equal(run.pes[1].cut_off_ns, 0);
        if (hosts) {
            expect_log("");
            assert_int_equal(run.ending.postponed.until_ns, 7300 * MS);
        } else {
            snprintf(all, sizeof all, "%stell PE 0 the end\ntell PE 2 the end\n", said);
            expect_log(all);
            expect_end(&run, RUN_NOTIFIED, 1, -1);
        }
    }
    for (int why = 0; why < 3; why++) {
        struct run run = made_run(2);
        run.ending.some_cut_off = true;
        run.pes[0].cut_off_ns = 50;
        run.pes[0].exited = why == 0;
        run.pes[0].joined = why != 1;
        run.ending.phase = why == 2 ? RUN_NOTIFIED : RUN_WORKING;
        run.ending.phase_ends_ns = UINT64_MAX;
        run.pes[2].cut_off_ns = 50;
        run_end_by_time(&run, 9000 * MS);
        expect_log("");
        assert_false(run.ending.some_cut_off);
    }
    struct run run = made_run(1);
    run.ending.some_cut_off = true;
    run.pes[0].cut_off_ns = 50;
    run_end_by_time(&run, 7000 * MS);
    expect_end(&run, RUN_NOTIFIED, 1, -1);
    *call_log = '\0';
}

static void phases_follow_each_other(void **state)
{
    struct run run = made_run(4);
    run.options.grace_ns = 300 * MS;
    run.pes[0].joined = run.pes[3].joined = false;
    run.pes[3].end_sent = true;
    run_begin_end(&run, -1, WEFT_ERR_JOB, 1, "x");
    *call_log = '\0';
    run_end_by_time(&run, 7250 * MS - 1);
    assert_int_equal(run.ending.phase, RUN_NOTIFIED);
    run_end_by_time(&run, 7250 * MS);
    expect_log("kill -601 15\nkill -601 18\n");
    assert_int_equal(run.ending.phase, RUN_UNJOINED_TERMINATED);
    assert_int_equal(run.ending.phase_ends_ns, 9000 * MS);
    assert_int_equal(run_end_due_ns(&run, 1), 9000 * MS);
    run.pes[1].exited = true;
    run.pes[2].pid = 0;
    answers.now_ns = 9100 * MS;
    run_end_by_time(&run, 9000 * MS);
    expect_log("kill -601 15\nkill -601 18\nkill -604 15\nkill -604 18\n");
    assert_int_equal(run.ending.phase, RUN_TERMINATED);
    assert_int_equal(run.ending.phase_ends_ns, 9400 * MS);
    run_end_by_time(&run, 9400 * MS);
    expect_log("say \"PE 0 did not end after SIGTERM; killed\"\n"
               "say \"PE 2 did not end after SIGTERM; killed\"\n"
               "say \"PE 3 did not end after SIGTERM; killed\"\nkill -601 9\nkill -604 9\n");
    assert_int_equal(run.ending.phase, RUN_KILLED);
    assert_int_equal(run.ending.phase_ends_ns, UINT64_MAX);

    struct run_host host = {.count = 2};
    run = made_run(2);
    run.pes[1].pid = 1;
    run.pes[2].joined = false;
    run_begin_end(&run, -1, WEFT_ERR_JOB, 1, "x");
    *call_log = '\0';
    run_end_by_time(&run, 7250 * MS);
    expect_log("");
    run_end_by_time(&run, 9000 * MS);
    expect_log("kill -601 15\nkill -601 18\nkill -602 15\nkill -602 18\n");
    run.hosts.list = &host;
    run_signal_all(&run, SIGUSR1);
    expect_log("signal 10 to PE 0 on its host\nsignal 10 to PE 1 on its host\n");
}

static void a_limit_of_time(void **state)
{
    struct run run = made_run(1);
    run.started_ns = 100;
    assert_int_equal(run_end_due_ns(&run, 5), UINT64_MAX);
    run_end_by_time(&run, UINT64_MAX - 1);
    expect_log("");
    run.options.timeout_ns = 50;
    assert_int_equal(run_end_due_ns(&run, 5), 150);
    run.ending.some_cut_off = true;
    assert_int_equal(run_end_due_ns(&run, 5), 150);
    run.options.timeout_ns = 5000000;
    assert_int_equal(run_end_due_ns(&run, 99), 5000099);
    assert_int_equal(run_end_due_ns(&run, 100), 5000100);
    assert_int_equal(run_end_due_ns(&run, 101), 5000100);
    run.ending.some_cut_off = false;
    assert_int_equal(run_end_due_ns(&run, 5), 5000100);
    run.options.timeout_ns = 50;
    run_end_by_time(&run, 149);
    expect_log("");
    answers.dying[0] = 502; /* does not delay a timeout */
    run.started = 2;
    run.pes[1].joined = false;
    run_end_by_time(&run, 150);
    expect_log("say \"the job exceeded its --timeout; ending the job\"\n"
               "tell PE 0 the end\n");
    expect_end(&run, RUN_NOTIFIED, 124, -1);
    assert_int_equal(run.ending.status, WEFT_ERR_TIMEOUT);
}

/* --------------------------------------------------------------------------- exits are judged */

static void judge_one(int wait_status, bool joined, int jobs, int others_jobs, int alive,
                      const char *said, enum run_phase phase, int result)
{
    struct run run = made_run(2);
    run.pes[1].joined = joined;
    run.pes[1].jobs = jobs;
    run.pes[0].jobs = others_jobs;
    run.pes[0].joined = false;
    run.pes[2].jobs = 9; /* not a PE of the job */
    run.pes[2].to_judge = true;
    exit_with(&run, 1, wait_status);
    run.alive = alive;
    run.pes[1].to_judge = true;
    run_judge_exits(&run);
    if (phase == RUN_NOTIFIED && joined) {
        char with[400];
        snprintf(with, sizeof with, "%stell PE 1 the end\n", said);
        expect_log(with);
    } else {
        expect_log(said);
    }
    expect_end(&run, phase, result, -1);
    assert_false(run.pes[1].to_judge);
    assert_true(run.pes[2].to_judge);
    if (phase == RUN_NOTIFIED)
        assert_int_equal(run.ending.status, WEFT_ERR_PEER_DEAD);
}

static void exits_are_judged(void **state)
{
    judge_one(EXIT_3, true, 1, 1, 1,
              "say \"PE 1 exited with status 3 before weft_finalize; ending the job\"\n",
              RUN_NOTIFIED, 3);
    judge_one(EXIT_3, false, 0, 0, 1, "say \"PE 1 exited with status 3; ending the job\"\n",
              RUN_NOTIFIED, 3);
    judge_one(EXIT_3, false, 2, 2, 1, "say \"PE 1 exited with status 3\"\n", RUN_WORKING, 3);
    judge_one(EXIT_3, false, 2, 3, 1, "say \"PE 1 exited with status 3; ending the job\"\n",
              RUN_NOTIFIED, 3);
    judge_one(KILLED, true, 1, 1, 0, "say \"PE 1 was killed by signal 9 (Killed)\"\n", RUN_NOTIFIED,
              137);
    judge_one(KILLED, false, 1, 1, 1, "say \"PE 1 was killed by signal 9 (Killed)\"\n", RUN_WORKING,
              137);
    judge_one(EXIT_0, true, 1, 1, 1,
              "say \"PE 1 exited with status 0 without weft_finalize while other PEs still run; "
              "ending the job\"\n",
              RUN_NOTIFIED, 1);
    judge_one(EXIT_0, true, 1, 1, 0, "", RUN_WORKING, -1);
    judge_one(EXIT_0, false, 1, 1, 1, "", RUN_WORKING, -1);
    judge_one(EXIT_0, false, 1, 2, 1,
              "say \"PE 1 exited with status 0 before it joined the job that other PEs wait for; "
              "ending "
              "the job\"\n",
              RUN_NOTIFIED, 1);
}

static void a_signal_of_the_user_is_not_explained(void **state)
{
    struct run run = made_run(2);
    run.ending.requested_by = SIGINT;
    exit_with(&run, 0, SIGINT);
    run_judge_exits(&run);
    expect_log("tell PE 0 the end\ntell PE 1 the end\n");
    expect_end(&run, RUN_NOTIFIED, 130, -1);
    assert_string_equal(run.ending.sentence, "PE 0 was killed by signal 2 (Interrupt)");
    assert_int_equal(run.ending.status, WEFT_ERR_PEER_DEAD);

    run = made_run(2);
    run.ending.requested_by = SIGINT;
    exit_with(&run, 0, SIGTERM);
    run_judge_exits(&run);
    expect_log("say \"PE 0 was killed by signal 15 (Terminated); ending the job\"\n"
               "tell PE 0 the end\ntell PE 1 the end\n");
}

static void the_killed_are_judged_first(void **state)
{
    struct run run = made_run(3);
    exit_with(&run, 0, EXIT_3);
    exit_with(&run, 2, KILLED);
    run_judge_exits(&run);
    expect_log("say \"PE 2 was killed by signal 9 (Killed); ending the job\"\n"
               "tell PE 0 the end\ntell PE 1 the end\ntell PE 2 the end\n");
    expect_end(&run, RUN_NOTIFIED, 137, -1);
    assert_false(run.pes[0].to_judge);

    run = made_run(3);
    run.pes[0].joined = false; /* its exit alone would be reported at once */
    exit_with(&run, 0, EXIT_3);
    exit_with(&run, 2, KILLED);
    run_judge_exits(&run);
    expect_log("say \"PE 2 was killed by signal 9 (Killed); ending the job\"\n"
               "tell PE 1 the end\ntell PE 2 the end\n");
    expect_end(&run, RUN_NOTIFIED, 137, -1);
}

static void the_culprits_status_counts(void **state)
{
    struct run run = made_run(3);
    run_end(&run, 1, WEFT_ERR_JOB, -1, "x");
    *call_log = '\0';
    exit_with(&run, 0, EXIT_3);
    run_judge_exits(&run);
    expect_end(&run, RUN_NOTIFIED, -1, 1);
    exit_with(&run, 1, 6 << 8);
    run_judge_exits(&run);
    expect_end(&run, RUN_NOTIFIED, 6, 1);
    run.pes[1].to_judge = true;
    run.pes[1].wait_status = EXIT_3;
    run_judge_exits(&run);
    expect_end(&run, RUN_NOTIFIED, 6, 1); /* only the first status counts */
    expect_log("");

    run = made_run(1);
    run_end(&run, 0, WEFT_ERR_JOB, -1, "x");
    run.ending.phase = RUN_UNJOINED_TERMINATED;
    exit_with(&run, 0, EXIT_0);
    run_judge_exits(&run);
    expect_end(&run, RUN_UNJOINED_TERMINATED, 1, 0);
    run = made_run(1);
    run_end(&run, 0, WEFT_ERR_JOB, -1, "x");
    run.ending.phase = RUN_TERMINATED; /* the launcher killed it */
    exit_with(&run, 0, KILLED);
    run_judge_exits(&run);
    expect_end(&run, RUN_TERMINATED, -1, 0);
    *call_log = '\0';
    run.ending.requested_by = SIGKILL; /* the end has already begun */
    run.pes[0].to_judge = true;
    run_judge_exits(&run);
    expect_log("");

    run = made_run(1); /* an existing result stays */
    run.ending.result = 0;
    run.ending.culprit = 0;
    run.ending.phase = RUN_NOTIFIED;
    exit_with(&run, 0, EXIT_3);
    run_judge_exits(&run);
    expect_end(&run, RUN_NOTIFIED, 0, 0);
    run = made_run(1);
    run.ending.result = 0;
    run.pes[0].joined = false;
    exit_with(&run, 0, EXIT_3);
    run_judge_exits(&run);
    expect_end(&run, RUN_WORKING, 0, -1);
    *call_log = '\0';
}

/* ------------------------------------------------------------------------- exits are noticed */

static void exits_are_seen_without_reaping(void **state)
{
    static const struct {
        int code, status, wait_status;
    } rows[] = {
        {CLD_EXITED, 3, 3 << 8},
        {CLD_EXITED, 0x1ff, 0xff << 8},
        {CLD_KILLED, SIGUSR2, SIGUSR2},
        {CLD_DUMPED, SIGSEGV, SIGSEGV | 0x80},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct run run = made_run(2);
        memset(endings, 0, sizeof endings);
        endings[1].si_pid = 502;
        endings[1].si_code = rows[i].code;
        endings[1].si_status = rows[i].status;
        run.ending.phase = RUN_TERMINATED;
        run_find_exits(&run);
        expect_log("unwatch 1102\nclose 1102\nserve PE 1\n");
        assert_int_equal(run.pes[1].wait_status, rows[i].wait_status);
        assert_true(run.pes[1].exited);
        assert_false(run.pes[0].exited);
        assert_false(run.pes[1].to_judge);
        assert_int_equal(run.pes[1].pidfd, -1);
        assert_int_equal(run.alive, 1);
        run_find_exits(&run);
        expect_log("");
        assert_int_equal(run.alive, 1);
    }
    struct run run = made_run(1);
    run.pes[0].pidfd = -1;
    endings[0].si_pid = 501;
    endings[0].si_code = -1; /* waitid fails */
    run_find_exits(&run);
    expect_log("");
    endings[0].si_code = CLD_KILLED;
    endings[0].si_status = SIGKILL;
    run_find_exits(&run);
    expect_log("serve PE 0\nsay \"PE 0 was killed by signal 9 (Killed)\"\ntell PE 0 the end\n");
    memset(endings, 0, sizeof endings);

    struct run_agent agent = {.go = true};
    run = made_run(2);
    run.agent = &agent;
    endings[0].si_pid = 501;
    endings[0].si_code = CLD_EXITED;
    endings[0].si_status = 3;
    run_find_exits(&run);
    expect_log("unwatch 1101\nclose 1101\nserve PE 0\nagent tells the exit of PE 0\n");
    assert_int_equal(run.ending.phase, RUN_WORKING);
    assert_false(run.pes[0].to_judge);
    memset(endings, 0, sizeof endings);
}

static void a_daemon_is_followed(void **state)
{
    struct run run;
    for (int kind = 0; kind < 2; kind++) { /* has not joined; joined in another process */
        run = made_run(2);
        memset(endings, 0, sizeof endings);
        endings[1].si_pid = 502;
        endings[1].si_code = CLD_EXITED;
        run.pes[1].jobs = kind;
        run.pes[1].program = kind ? 700 : 502;
        answers.detached = 700;
        run_find_exits(&run);
        expect_log("find what PE 1 left\npidfd of 700\nunwatch 1102\nclose 1102\nwaitpid 502 0\n"
                   "watch 1201 in: exit 1\n");
        assert_false(run.pes[1].exited);
        assert_int_equal(run.pes[1].pid, 700);
        assert_int_equal(run.pes[1].group, 800);
        assert_int_equal(run.pes[1].pidfd, 1201);
        assert_int_equal(made_groups[1], 800);
        assert_int_equal(run.alive, 2);
    }
    answers.detached = 1;
    run.pes[1].pid = 502;
    run_find_exits(&run);
    assert_int_equal(run.pes[1].pid, 1);
    *call_log = '\0';
    for (int why = 0; why < 6; why++) {
        run = made_run(2);
        memset(endings, 0, sizeof endings);
        endings[0].si_pid = 501;
        endings[0].si_code = why == 2 ? CLD_KILLED : CLD_EXITED;
        endings[0].si_status = why == 1 ? 1 : 0;
        run.pes[0].jobs = why == 3;
        run.ending.phase = why == 0 ? RUN_NOTIFIED : RUN_WORKING;
        run.ending.phase_ends_ns = UINT64_MAX;
        answers.detached = why == 4 ? 0 : 700;
        answers.pidfd = why == 5 ? -1 : 1201;
        run_find_exits(&run);
        assert_true(run.pes[0].exited);
        assert_int_equal(strstr(call_log, "find") != NULL, why >= 4);
        assert_int_equal(strstr(call_log, "pidfd of 700") != NULL, why == 5);
        assert_null(strstr(call_log, "waitpid"));
        *call_log = '\0';
    }
    run = made_run(1);
    run.pes[0].jobs = 0;
    endings[0].si_code = CLD_EXITED;
    answers.detached = 700;
    answers.watch_fails_in = 0; /* it cannot be watched: it counts as exited */
    run_find_exits(&run);
    assert_true(run.pes[0].exited);
    memset(endings, 0, sizeof endings);
}

/* ------------------------------------------------------------------------------- the user */

static void the_user_asks_twice(void **state)
{
    struct run run = made_run(2);
    run_request_end(&run, SIGINT);
    expect_log("kill -601 2\nkill -602 2\n");
    assert_int_equal(run.ending.requested_by, SIGINT);
    expect_end(&run, RUN_WORKING, -1, -1);
    answers.dying[0] = 501; /* does not delay a request of the user */
    run_request_end(&run, SIGTERM);
    expect_log("say \"received a second request to end (Terminated); ending the job\"\n"
               "tell PE 0 the end\ntell PE 1 the end\nkill -601 15\nkill -602 15\n");
    expect_end(&run, RUN_NOTIFIED, 143, -1);
    assert_int_equal(run.ending.status, WEFT_ERR_JOB);
    assert_int_equal(run.ending.phase_ends_ns, 0);
    assert_int_equal(run.ending.requested_by, SIGTERM);
    run.ending.phase_ends_ns = 77;
    run_request_end(&run, SIGINT);
    expect_log("kill -601 2\nkill -602 2\n");
    assert_int_equal(run.ending.phase_ends_ns, 0);

    run = made_run(1);
    run.ending.phase = RUN_NOTIFIED;
    run.ending.phase_ends_ns = 77;
    run_request_end(&run, SIGINT);
    assert_int_equal(run.ending.phase_ends_ns, 77);
}

/* ----------------------------------------------------------------------------- cleaning up */

static void what_is_left_is_ended(void **state)
{
    struct run run = made_run(3);
    run.started = 2;
    run.options.grace_ns = 3 * MS;
    waits_interrupted = 1;
    kills_find = 3;
    run_clean_up(&run);
    expect_log("kill -601 15\nkill -601 18\nwaitpid 501 0\nwaitpid 501 0\n"
               "kill -602 15\nkill -602 18\nwaitpid 502 0\n"
               "kill -601 0\nreap orphans\nkill -601 0\nusleep 2000\n"
               "kill -601 0\nreap orphans\nkill -601 0\nkill -601 0\nkill -601 9\n"
               "kill -602 0\nkill -602 9\nend orphans\n"
               "unwatch the program of PE 0\nunwatch the program of PE 1\n"
               "unwatch the program of PE 2\nclose the hub\n");
    assert_int_equal(made_groups[0], 0);
    assert_int_equal(made_groups[1], 0);
    assert_int_equal(made_groups[2], 603);
    assert_int_equal(run.pes[0].pid, 0);
    assert_int_equal(run.pes[1].pid, 0);

    run = made_run(1); /* at most the grace period */
    run.options.grace_ns = 4 * MS;
    waits_interrupted = 1;
    waits_errno = ECHILD;
    kills_find = 100;
    run_clean_up(&run);
    expect_log(
        "kill -601 15\nkill -601 18\nwaitpid 501 0\n"
        "kill -601 0\nreap orphans\nkill -601 0\nusleep 2000\n"
        "kill -601 0\nreap orphans\nkill -601 0\nusleep 2000\n"
        "kill -601 0\nkill -601 9\nend orphans\nunwatch the program of PE 0\nclose the hub\n");
    waits_errno = EINTR;
    waits_interrupted = kills_find = 0;
    struct run_host host = {.count = 1};
    run = made_run(1);
    run.hosts.list = &host;
    run_clean_up(&run);
    expect_log("end orphans\nunwatch the program of PE 0\nclose the hub\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_begins),
        cmocka_unit_test(a_reason_is_said_once),
        cmocka_unit_test(who_is_dying),
        cmocka_unit_test(a_failure_waits_for_who_is_dying),
        cmocka_unit_test(who_was_killed_does_not_wait),
        cmocka_unit_test(over_hosts_a_failure_always_waits),
        cmocka_unit_test(what_was_postponed_is_settled),
        cmocka_unit_test(a_closed_connection_ends_the_job),
        cmocka_unit_test(phases_follow_each_other),
        cmocka_unit_test(a_limit_of_time),
        cmocka_unit_test(exits_are_judged),
        cmocka_unit_test(a_signal_of_the_user_is_not_explained),
        cmocka_unit_test(the_killed_are_judged_first),
        cmocka_unit_test(the_culprits_status_counts),
        cmocka_unit_test(exits_are_seen_without_reaping),
        cmocka_unit_test(a_daemon_is_followed),
        cmocka_unit_test(the_user_asks_twice),
        cmocka_unit_test(what_is_left_is_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
