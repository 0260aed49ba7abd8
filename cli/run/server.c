/* SPDX-License-Identifier: Apache-2.0 */
/* `weft run` as the hub of the job (boot/hub/hub.h): handles joins, reports of PEs and their
 * consequences. A PE that misbehaves ends the job; no PE can make the launcher wait. The end of
 * processes is handled elsewhere. */
#include "run/run.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

static void end_job(struct run *run, int pe, weft_status status, int result, const char *format,
                    ...) __attribute__((format(printf, 5, 6)));

static void end_job(struct run *run, int pe, weft_status status, int result, const char *format,
                    ...)
{
    char sentence[HUB_MOST_SENTENCE + 1];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    run_end(run, pe, status, result, sentence);
}

void run_send_end(struct run *run, int pe)
{
    if (run->pes[pe].end_sent)
        return;
    run->pes[pe].end_sent = true;
    hub_send(&run->hub, pe, FRAME_END, run->ending.status, run->ending.sentence,
             strnlen(run->ending.sentence, HUB_MOST_SENTENCE), -1);
}

/* ------------------------------------------------------------------------------------ joining */

/* Watches the program that joined when it is not a child of the launcher: only a pidfd reports
 * its end. */
void run_watch_program(struct run *run, int number)
{
    struct run_pe *pe = &run->pes[number];
#ifdef SYS_pidfd_open
    if (pe->program > 0 && pe->program != pe->pid)
        pe->program_pidfd = (int)syscall(SYS_pidfd_open, pe->program, 0);
    if (pe->program_pidfd >= 0)
        run_watch(run, pe->program_pidfd, EPOLLIN, RUN_EVENT_PROGRAM, number);
    else /* it has ended and its parent has already reaped it */
        pe->program_gone = pe->program > 0 && pe->program != pe->pid && errno == ESRCH;
#endif
}

void run_unwatch_program(struct run *run, int number)
{
    struct run_pe *pe = &run->pes[number];
    if (pe->program_pidfd < 0)
        return;
    run_unwatch(run, pe->program_pidfd);
    close(pe->program_pidfd);
    pe->program_pidfd = -1;
}

void run_program_ended(struct run *run, int number)
{
    struct run_pe *pe = &run->pes[number];
    run_unwatch_program(run, number);
    if (run->agent) {
        run_agent_program_ended(run, number);
        return;
    }
    if (pe->joined)
        end_job(run, number, WEFT_ERR_PEER_DEAD, -1,
                "the program of %s, pid %d, ended without weft_finalize", run_pe_name(run, number),
                (int)pe->program);
}

static void on_joined(void *owner, int number, pid_t sender)
{
    struct run *run = owner;
    struct run_pe *pe = &run->pes[number];
    pe->joined = true;
    pe->jobs++;
    pe->program = sender;
    pe->program_gone = false;
    if (!run->hosts.list)
        run_watch_program(run, number);
    if (run->ending.phase != RUN_WORKING) {
        run_send_end(run, number);
        return;
    }
    for (int other = 0; run->alive < run->started && other < run->started; other++) {
        if (run->pes[other].exited && run->pes[other].jobs < pe->jobs) {
            end_job(run, other, WEFT_ERR_PEER_DEAD, 1,
                    "%s ended before it joined the job that other PEs wait for",
                    run_pe_name(run, other));
            return;
        }
    }
}

/* ------------------------------------------------------------------------------------- leaving */

/* A PE that leaves without weft_finalize stays `joined`, so that its exit is judged as that of a
 * PE in the job. */
static void on_left(void *owner, int number, bool clean)
{
    struct run *run = owner;
    run_unwatch_program(run, number);
    if (clean)
        run->pes[number].joined = false;
    else
        end_job(run, number, WEFT_ERR_PEER_DEAD, -1, "%s left the job before weft_finalize",
                run_pe_name(run, number));
}

static void on_aborted(void *owner, int number, int code, const char *sentence)
{
    struct run *run = owner;
    end_job(run, number, WEFT_ERR_JOB, base_exit_status(code),
            "%s aborted the job with code %d: %s", run_pe_name(run, number), code, sentence);
}

static void on_failed(void *owner, int number, weft_status status, const char *sentence)
{
    struct run *run = owner;
    /* A PE that has not joined or that broke the protocol may still exit with status 0, which
     * must not become the status of the job. */
    bool judges = run->pes[number].joined && status != WEFT_ERR_VERSION && status != WEFT_ERR_BOOT;
    end_job(run, number, status, judges ? -1 : 1, "%s cannot go on: %s", run_pe_name(run, number),
            sentence);
}

/* Every process of this PE has closed the connection. */
static void on_lost(void *owner, int number)
{
    struct run *run = owner;
    struct run_pe *pe = &run->pes[number];
    run_close_socket(run, number);
    pe->cut_off_ns = pe->joined ? clock_now_ns() : 0;
    run->ending.some_cut_off |= pe->joined;
}

static void on_unsent_changed(void *owner, int number)
{
    struct run *run = owner;
    const struct wire *wire = &run->hub.wires[number];
    if (wire->fd < 0)
        return;
    run->retry_soon |= wire->starved;
    run_rewatch(run, wire->fd, wire->unsent ? EPOLLIN | EPOLLOUT : EPOLLIN, RUN_EVENT_SOCKET,
                number);
}

/* ------------------------------------------------------------------------------------- sockets */

void run_close_socket(struct run *run, int number)
{
    struct wire *wire = &run->hub.wires[number];
    if (wire->fd < 0)
        return;
    run_unwatch(run, wire->fd);
    wire_close(wire);
}

void run_flush_socket(struct run *run, int number)
{
    hub_flush(&run->hub, number);
}

void run_retry_sending(struct run *run)
{
    run->retry_soon = false;
    for (int pe = 0; pe < run->started; pe++)
        if (run->hub.wires[pe].starved)
            hub_flush(&run->hub, pe);
}

void run_serve(struct run *run, int number)
{
    struct run_pe *pe = &run->pes[number];
    if (run->agent)
        run_agent_serve(run, number);
    else
        hub_read(&run->hub, number);
    if (pe->joined && pe->program_gone && !pe->exited)
        run_program_ended(run, number);
}

bool run_open_hub(struct run *run)
{
    static const struct hub_events events = {
        .joined = on_joined,
        .left = on_left,
        .aborted = on_aborted,
        .failed = on_failed,
        .lost = on_lost,
        .unsent_changed = on_unsent_changed,
        .send = run_hosts_relay,
    };
    const int npes = run->options.npes;
    struct wire *wires = calloc((size_t)npes, sizeof *wires);
    if (!wires || hub_init(&run->hub, npes, wires, false)) {
        free(wires);
        return false;
    }
    for (int pe = 0; pe < npes; pe++)
        wires[pe].fd = -1;
    run->hub.events = &events;
    run->hub.owner = run;
    return true;
}

void run_close_hub(struct run *run)
{
    struct wire *wires = run->hub.wires;
    for (int pe = 0; wires && pe < run->options.npes; pe++) {
        run_close_socket(run, pe);
        wire_close(&wires[pe]); /* frees data received over a connection that is already closed */
    }
    hub_free(&run->hub);
    free(wires);
}
