/* SPDX-License-Identifier: Apache-2.0 */
/* How a job of `weft run` ends: which PE, user or time limit is the cause, the message and the
 * exit status, which PEs get the reason, and when the remaining processes get SIGTERM, then
 * SIGKILL, and are reaped. Does not wait: run.c calls it when a PE may have ended, and as time
 * passes. */
#include "run/run.h"

#include "commands.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define RECHECK_NS UINT64_C(5000000)

enum {
    EXIT_TIMEOUT = 124, /* as timeout(1) */
    EXIT_BY_SIGNAL = 128,
};

/* Time for PEs that know the job ends, to print the reason and exit; and the shorter time for
 * PEs that have not joined the job. */
static const uint64_t notified_ns = 2 * RUN_SECOND_NS, unjoined_ns = RUN_SECOND_NS / 4;

/* How long a failure waits for the end of a dying PE; and how long a PE whose connection is
 * closed has to end. */
static const uint64_t postponed_ns = 5 * RUN_SECOND_NS, cut_off_ns = RUN_SECOND_NS / 5;

/* The same over several hosts, where messages take time and processes cannot be inspected. An
 * agent reports when another PE of its host is dying; then the times above apply. */
static const uint64_t hosts_postponed_ns = RUN_SECOND_NS * 3 / 10, hosts_cut_off_ns = RUN_SECOND_NS;

static int exit_status_of(int wait_status)
{
    return WIFSIGNALED(wait_status) ? EXIT_BY_SIGNAL + WTERMSIG(wait_status)
                                    : WEXITSTATUS(wait_status);
}

/* Exit status of weft run when this PE is the cause: never 0. */
static int failure_status(const struct run_pe *pe)
{
    int status = exit_status_of(pe->wait_status);
    return status ? status : 1;
}

/* Signals the whole process group, which includes the PE's child processes. */
static void signal_pe(struct run *run, int pe, int number)
{
    if (run_is_remote(run))
        run_hosts_signal(run, pe, number);
    else if (run->pes[pe].pid > 0 && !run->pes[pe].exited)
        kill(-run->pes[pe].group, number);
}

void run_signal_all(struct run *run, int number)
{
    for (int pe = 0; pe < run->started; pe++)
        signal_pe(run, pe, number);
}

static void terminate_pe(struct run *run, int pe)
{
    signal_pe(run, pe, SIGTERM);
    signal_pe(run, pe, SIGCONT); /* a stopped process handles no other signal */
}

void run_begin_end(struct run *run, int pe, weft_status status, int result, const char *sentence)
{
    run->ending.phase = RUN_NOTIFIED;
    run->ending.phase_ends_ns = clock_now_ns() + unjoined_ns;
    run->ending.status = status;
    snprintf(run->ending.sentence, sizeof run->ending.sentence, "%s", sentence);
    if (run->ending.result < 0)
        run->ending.result = result;
    if (run->ending.result < 0)
        run->ending.culprit = pe;
    for (int other = 0; other < run->started; other++)
        if (run->pes[other].joined)
            run_send_end(run, other);
}

/* Whether a PE other than `pe` is dying, or was killed and is not judged yet: it may be the
 * cause of the failure of `pe`. */
bool run_another_is_dying(const struct run *run, int pe)
{
    for (int other = 0; other < run->started; other++) {
        const struct run_pe *one = &run->pes[other];
        if (other == pe)
            continue;
        if (one->exited ? one->to_judge && WIFSIGNALED(one->wait_status)
                        : run_is_dying(one->joined ? one->program : one->pid))
            return true;
    }
    return false;
}

static bool was_signalled(const struct run *run, int pe)
{
    return pe >= 0 && run->pes[pe].exited && WIFSIGNALED(run->pes[pe].wait_status);
}

/* Postpones the end of the job while another PE is dying. PEs see a death earlier than the
 * launcher: locks and connections are gone before the process is a zombie, and long before that
 * when it writes a core dump. A PE that fails because of it must not be reported as the cause. */
static bool postpone_end(struct run *run, int pe, weft_status status, int result,
                         const char *sentence)
{
    if (run->ending.postponed.until_ns)
        return true; /* the first reason counts */
    if (pe < 0 || (!run_is_remote(run) && !run_another_is_dying(run, pe)))
        return false;
    run->ending.postponed.until_ns =
        clock_now_ns() +
        (run_is_remote(run) && !run->ending.some_dying ? hosts_postponed_ns : postponed_ns);
    run->ending.postponed.pe = pe;
    run->ending.postponed.status = status;
    run->ending.postponed.result = result;
    snprintf(run->ending.postponed.sentence, sizeof run->ending.postponed.sentence, "%s", sentence);
    return true;
}

void run_end(struct run *run, int pe, weft_status status, int result, const char *sentence)
{
    if (run->ending.phase != RUN_WORKING)
        return;
    if (!was_signalled(run, pe) && postpone_end(run, pe, status, result, sentence))
        return;
    run->ending.postponed.until_ns = 0;
    if (result != 0) /* 0: a PE has ended the job on purpose and successfully */
        run_say("%s%s", sentence, run->alive > 0 ? "; ending the job" : "");
    run_begin_end(run, pe, status, result, sentence);
}

void run_end_postponed(struct run *run, bool now)
{
    if (!run->ending.postponed.until_ns || run->ending.phase != RUN_WORKING)
        return;
    if (!now && clock_now_ns() < run->ending.postponed.until_ns &&
        (run_is_remote(run) || run_another_is_dying(run, run->ending.postponed.pe)))
        return;
    run->ending.postponed.until_ns = 0;
    run_say("%s%s", run->ending.postponed.sentence, run->alive > 0 ? "; ending the job" : "");
    run_begin_end(run, run->ending.postponed.pe, run->ending.postponed.status,
                  run->ending.postponed.result, run->ending.postponed.sentence);
    if (run->ending.result < 0 && run->pes[run->ending.postponed.pe].exited)
        run->ending.result = failure_status(&run->pes[run->ending.postponed.pe]);
}

/* Finds PEs whose connection is closed while they run: they called exec or closed descriptors.
 * PEs that are about to exit get a short time. */
static void find_cut_off(struct run *run, uint64_t now)
{
    run->ending.some_cut_off = false;
    for (int number = 0; number < run->started && run->ending.phase == RUN_WORKING; number++) {
        struct run_pe *pe = &run->pes[number];
        if (!pe->cut_off_ns || pe->exited || !pe->joined)
            continue;
        run->ending.some_cut_off = true;
        if (now - pe->cut_off_ns < (run_is_remote(run) ? hosts_cut_off_ns : cut_off_ns) ||
            (!run_is_remote(run) && run_is_dying(pe->program)))
            continue;
        pe->joined = false;
        pe->cut_off_ns = 0;
        char text[256];
        snprintf(text, sizeof text,
                 "%s is running, but has closed its connection to weft run before weft_finalize "
                 "(by exec, or by closing every descriptor)",
                 run_pe_name(run, number));
        run_end(run, number, WEFT_ERR_PEER_DEAD, 1, text);
    }
}

static void next_phase(struct run *run)
{
    if (run->ending.phase == RUN_NOTIFIED) {
        for (int pe = 0; pe < run->started; pe++)
            if (!run->pes[pe].joined && !run->pes[pe].end_sent)
                terminate_pe(run, pe);
        run->ending.phase = RUN_UNJOINED_TERMINATED;
        run->ending.phase_ends_ns += notified_ns - unjoined_ns;
        return;
    }
    if (run->ending.phase == RUN_UNJOINED_TERMINATED) {
        for (int pe = 0; pe < run->started; pe++)
            terminate_pe(run, pe);
        run->ending.phase = RUN_TERMINATED;
        run->ending.phase_ends_ns = clock_now_ns() + run->options.grace_ns;
        return;
    }
    for (int pe = 0; pe < run->started; pe++)
        if (!run->pes[pe].exited)
            run_say("%s did not end after SIGTERM; killed", run_pe_name(run, pe));
    run_signal_all(run, SIGKILL);
    run->ending.phase = RUN_KILLED;
    run->ending.phase_ends_ns = UINT64_MAX;
}

/* ------------------------------------------------------------------------------ a PE has ended */

/* "PE 3 (pid 1234) was killed by signal 9 (Killed)" */
static void describe_exit(const struct run *run, int pe, char *text, size_t size)
{
    int status = run->pes[pe].wait_status;
    const char *when = run->pes[pe].joined ? " before weft_finalize" : "";
    if (WIFSIGNALED(status))
        snprintf(text, size, "%s was killed by signal %d (%s)%s", run_pe_name(run, pe),
                 WTERMSIG(status), strsignal(WTERMSIG(status)),
                 WCOREDUMP(status) ? ", core dumped" : "");
    else
        snprintf(text, size, "%s exited with status %d%s", run_pe_name(run, pe),
                 WEXITSTATUS(status), when);
}

static bool others_joined_next_job(const struct run *run, int number)
{
    for (int pe = 0; pe < run->started; pe++)
        if (run->pes[pe].jobs > run->pes[number].jobs)
            return true;
    return false;
}

static void judge_failure(struct run *run, int number)
{
    struct run_pe *pe = &run->pes[number];
    int result = exit_status_of(pe->wait_status);
    char text[256];
    describe_exit(run, number, text, sizeof text);
    if (WIFSIGNALED(pe->wait_status) && WTERMSIG(pe->wait_status) == run->ending.requested_by) {
        run_begin_end(run, number, WEFT_ERR_PEER_DEAD, result, text); /* the user asked for it */
    } else if (pe->jobs && !pe->joined && !others_joined_next_job(run, number)) {
        /* after weft_finalize() no PE waits for it, unless others have joined a next job */
        run_say("%s", text);
        if (run->ending.result < 0)
            run->ending.result = result;
    } else {
        run_end(run, number, WEFT_ERR_PEER_DEAD, result, text);
    }
}

static void judge_exit(struct run *run, int number)
{
    struct run_pe *pe = &run->pes[number];
    char text[256];
    if (run->ending.phase != RUN_WORKING) {
        if (run->ending.culprit == number && run->ending.result < 0 &&
            run->ending.phase < RUN_TERMINATED)
            run->ending.result = failure_status(pe);
        return;
    }
    if (exit_status_of(pe->wait_status) != 0) {
        judge_failure(run, number);
    } else if (pe->joined && run->alive > 0) {
        snprintf(text, sizeof text,
                 "%s exited with status 0 without weft_finalize while other PEs still run",
                 run_pe_name(run, number));
        run_end(run, number, WEFT_ERR_PEER_DEAD, 1, text);
    } else if (others_joined_next_job(run, number)) {
        snprintf(text, sizeof text,
                 "%s exited with status 0 before it joined the job that other PEs wait for",
                 run_pe_name(run, number));
        run_end(run, number, WEFT_ERR_PEER_DEAD, 1, text);
    }
}

static void unwatch_process(struct run *run, int number)
{
    struct run_pe *pe = &run->pes[number];
    if (pe->pidfd < 0)
        return;
    run_unwatch(run, pe->pidfd);
    close(pe->pidfd);
    pe->pidfd = -1;
}

/* A PE that exits with status 0 but continues as a child in its own session (setsid, daemon) has
 * not ended. If it had joined the job itself, its children are helpers. */
static bool follow_detached(struct run *run, int number)
{
    struct run_pe *pe = &run->pes[number];
    if (run->ending.phase != RUN_WORKING || (pe->jobs && pe->program == pe->pid))
        return false;
    pid_t next = run_find_detached(run, number);
    int pidfd = next > 0 ? (int)syscall(SYS_pidfd_open, next, 0) : -1;
    if (pidfd < 0)
        return false;
    unwatch_process(run, number);
    waitpid(pe->pid, NULL, 0);
    pe->pid = next;
    pe->group = getpgid(next);
    run->guard.groups[number] = pe->group;
    pe->pidfd = pidfd;
    return run_watch(run, pidfd, EPOLLIN, RUN_EVENT_EXIT, number) == 0;
}

/* Checks without reaping: while the zombie exists, its pid and process group number are not
 * reused. */
static bool find_exit(struct run *run, int number)
{
    struct run_pe *pe = &run->pes[number];
    siginfo_t info = {0};
    if (pe->exited || waitid(P_PID, (id_t)pe->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
        info.si_pid == 0)
        return false;
    if (info.si_code == CLD_EXITED && info.si_status == 0 && follow_detached(run, number))
        return false;
    pe->exited = true;
    pe->wait_status = info.si_code == CLD_EXITED
                          ? (info.si_status & 0xff) << 8
                          : info.si_status | (info.si_code == CLD_DUMPED ? 0x80 : 0);
    run->alive--;
    unwatch_process(run, number);
    run_serve(run, number); /* its last frames may still be in the socket */
    return true;
}

void run_find_exits(struct run *run)
{
    for (int pe = 0; pe < run->started; pe++) {
        if (!find_exit(run, pe))
            continue;
        if (run->agent)
            run_agent_exited(run, pe); /* the launcher judges it */
        else
            run->pes[pe].to_judge = true;
    }
    if (!run->agent)
        run_judge_exits(run);
}

/* One death often causes others: all PEs that have ended by now are judged together, PEs killed
 * by a signal before PEs that exited because of it. */
void run_judge_exits(struct run *run)
{
    for (int signalled = 1; signalled >= 0; signalled--) {
        for (int pe = 0; pe < run->started; pe++) {
            if (!run->pes[pe].to_judge || WIFSIGNALED(run->pes[pe].wait_status) != signalled)
                continue;
            run->pes[pe].to_judge = false;
            judge_exit(run, pe);
        }
    }
}

/* ------------------------------------------------------------------------ requests of the user */

void run_request_end(struct run *run, int number)
{
    if (run->ending.requested_by && run->ending.phase == RUN_WORKING) {
        char text[64];
        snprintf(text, sizeof text, "received a second request to end (%s)", strsignal(number));
        run_end(run, -1, WEFT_ERR_JOB, EXIT_BY_SIGNAL + number, text);
        run->ending.phase_ends_ns = 0; /* at once */
    } else if (run->ending.requested_by) {
        run->ending.phase_ends_ns = 0;
    }
    run->ending.requested_by = number;
    run_signal_all(run, number);
}

/* --------------------------------------------------------------------------------------- time */

static uint64_t timeout_at(const struct run *run)
{
    return run->options.timeout_ns ? run->started_ns + run->options.timeout_ns : UINT64_MAX;
}

uint64_t run_end_due_ns(const struct run *run, uint64_t now)
{
    uint64_t due = run->ending.phase == RUN_WORKING ? timeout_at(run) : run->ending.phase_ends_ns;
    if ((run->ending.postponed.until_ns || run->ending.some_cut_off) && now + RECHECK_NS < due)
        due = now + RECHECK_NS;
    return due;
}

void run_end_by_time(struct run *run, uint64_t now)
{
    if (run->ending.some_cut_off)
        find_cut_off(run, now);
    run_end_postponed(run, false);
    if (run->ending.phase == RUN_WORKING && now >= timeout_at(run))
        run_end(run, -1, WEFT_ERR_TIMEOUT, EXIT_TIMEOUT, "the job exceeded its --timeout");
    else if (run->ending.phase != RUN_WORKING && now >= run->ending.phase_ends_ns)
        next_phase(run);
}

/* --------------------------------------------------------------------------------- clean-up */

void run_clean_up(struct run *run)
{
    uint64_t until = clock_now_ns() + run->options.grace_ns;
    const int ours = run_is_remote(run) ? 0 : run->started; /* agents do it on their hosts */
    for (int pe = 0; pe < ours; pe++) {
        kill(-run->pes[pe].group, SIGTERM);
        kill(-run->pes[pe].group, SIGCONT);
        while (waitpid(run->pes[pe].pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    for (int pe = 0; pe < ours; pe++) {
        pid_t group = run->pes[pe].group;
        while (kill(-group, 0) == 0 && clock_now_ns() < until) {
            run_reap_orphans(run);
            if (kill(-group, 0) == 0)
                usleep(2000);
        }
        kill(-group, SIGKILL);
        run->guard.groups[pe] = 0;
        run->pes[pe].pid = 0;
    }
    run_end_orphans(run);
    for (int pe = 0; pe < run->options.npes; pe++)
        run_unwatch_program(run, pe);
    run_close_hub(run);
}
