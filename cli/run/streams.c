/* SPDX-License-Identifier: Apache-2.0 */
/* The standard streams of the PEs that `weft run` relays: their output with --prefix, and the
 * terminal's input for PE 0.
 * --prefix: whole lines with "[pe] " in front, never mixed. A line without an end is held until
 * its end, the end of its PE, or MOST_LINE bytes. When the launcher's output is not read, it
 * stops reading the PEs' output, and the PEs wait; the launcher itself never waits. */
#include "run/hosts.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    READ_BYTES = 65536,
    MOST_LINE = 1 << 20,
    PIECE = 4096, /* PIPE_BUF: a pipe that poll() reports as writable takes this much */
};

/* ------------------------------------------------------------------------------ standard output */

static bool reserve_bytes(char **data, size_t *size, size_t needed)
{
    if (needed <= *size)
        return true;
    size_t larger = *size ? *size : 4096;
    while (larger < needed)
        larger *= 2;
    char *moved = realloc(*data, larger);
    if (!moved)
        return false;
    *data = moved;
    *size = larger;
    return true;
}

static void append_to_sink(struct run_sink *sink, const char *data, size_t bytes)
{
    if (!bytes || sink->broken || !reserve_bytes(&sink->data, &sink->size, sink->used + bytes))
        return;
    memcpy(sink->data + sink->used, data, bytes);
    sink->used += bytes;
}

static void emit_line(struct run *run, int pe, int stream, const char *line, size_t bytes)
{
    char prefix[96] = "";
    if (pe >= run->options.npes)
        *prefix = '\0'; /* a line of another host: its agent has added the prefix */
    else if (run->agent)
        snprintf(prefix, sizeof prefix, "[%s %d] ", run->agent->host, run->first + pe);
    else
        snprintf(prefix, sizeof prefix, "[%d] ", pe);
    append_to_sink(&run->sinks[stream], prefix, strlen(prefix));
    append_to_sink(&run->sinks[stream], line, bytes);
    append_to_sink(&run->sinks[stream], "\n", 1);
}

/* Moves the complete lines from the source's buffer to the sink. */
static void emit_lines(struct run *run, int pe, int stream, size_t fresh)
{
    struct run_source *source = &run->pes[pe].streams[stream];
    size_t begin = 0, look = source->used - fresh;
    char *end;
    while ((end = memchr(source->line + look, '\n', source->used - look))) {
        size_t at = (size_t)(end - source->line);
        emit_line(run, pe, stream, source->line + begin, at - begin);
        begin = look = at + 1;
    }
    source->used -= begin;
    memmove(source->line, source->line + begin, source->used);
    if (source->used >= MOST_LINE) {
        emit_line(run, pe, stream, source->line, source->used);
        source->used = 0;
    }
}

static void end_source(struct run *run, int pe, int stream)
{
    struct run_source *source = &run->pes[pe].streams[stream];
    if (source->used)
        emit_line(run, pe, stream, source->line, source->used);
    source->used = 0;
    free(source->line);
    source->line = NULL;
    source->size = 0;
    if (source->fd >= 0) {
        run_unwatch(run, source->fd);
        close(source->fd);
        source->fd = -1;
    }
}

/* Stops or resumes reading the streams of all PEs that go to this sink. */
static void watch_sources(struct run *run, int stream, bool watch)
{
    for (int pe = 0; pe < run->sources; pe++) {
        int fd = run->pes[pe].streams[stream].fd;
        if (fd >= 0 && watch)
            run_watch(run, fd, EPOLLIN, RUN_EVENT_SOURCE, 2 * pe + stream);
        else if (fd >= 0)
            run_unwatch(run, fd);
    }
}

static void break_sink(struct run *run, int stream)
{
    struct run_sink *sink = &run->sinks[stream];
    sink->broken = true;
    sink->used = 0;
    for (int pe = 0; pe < run->sources; pe++)
        end_source(run, pe, stream); /* so that the PEs get SIGPIPE or EPIPE too */
}

/* The sink cannot be written (a full disk): the job ends for this reason. The launcher still
 * reads the PEs' output and drops it. */
static void fail_sink(struct run *run, int stream, int error)
{
    char sentence[200];
    run->sinks[stream].broken = true;
    run->sinks[stream].used = 0;
    snprintf(sentence, sizeof sentence, "writing the PEs' output to standard %s: %s",
             stream ? "error" : "output", strerror(error));
    if (run->alive > 0)
        run_end(run, -1, WEFT_ERR_SYSTEM, 1, sentence);
    else
        run_say("%s", sentence);
    if (run->ending.result <= 0)
        run->ending.result = 1;
}

static bool is_writable(const struct run_sink *sink)
{
    struct pollfd watched = {.fd = sink->fd, .events = POLLOUT};
    return poll(&watched, 1, 0) == 1; /* always true for a file */
}

static void wait_until_writable(struct run *run, int stream, bool wait)
{
    struct run_sink *sink = &run->sinks[stream];
    if (sink->waits == wait)
        return;
    if (wait && run_watch(run, sink->fd, EPOLLOUT, RUN_EVENT_SINK, stream) < 0)
        return; /* cannot be watched, since a file is always writable: the next read continues
                   writing */
    if (!wait)
        run_unwatch(run, sink->fd);
    sink->waits = wait;
    watch_sources(run, stream, !wait);
}

void run_flush_sink(struct run *run, int stream)
{
    struct run_sink *sink = &run->sinks[stream];
    size_t done = 0;
    bool failed = false;
    while (done < sink->used && is_writable(sink)) {
        size_t piece = sink->used - done;
        if (!sink->is_file && piece > PIECE)
            piece = PIECE;
        ssize_t n = write(sink->fd, sink->data + done, piece);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            break;
        if (n < 0) {
            failed = true;
            break;
        }
        done += (size_t)n;
    }
    if (failed) {
        int error = errno;
        wait_until_writable(run, stream, false);
        if (error == EPIPE)
            break_sink(run, stream);
        else
            fail_sink(run, stream, error);
        return;
    }
    sink->used -= done;
    if (sink->used)
        memmove(sink->data, sink->data + done, sink->used);
    wait_until_writable(run, stream, sink->used > 0);
}

void run_read_source(struct run *run, int pe, int stream)
{
    struct run_source *source = &run->pes[pe].streams[stream];
    if (source->fd < 0)
        return;
    if (!reserve_bytes(&source->line, &source->size, source->used + READ_BYTES)) {
        end_source(run, pe, stream);
        return;
    }
    ssize_t n = read(source->fd, source->line + source->used, READ_BYTES);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        end_source(run, pe, stream);
    } else {
        source->used += (size_t)n;
        emit_lines(run, pe, stream, (size_t)n);
    }
    run_flush_sink(run, stream);
}

void run_open_sinks(struct run *run)
{
    for (int stream = 0; stream < 2; stream++) {
        struct stat file;
        run->sinks[stream] = (struct run_sink){.fd = STDOUT_FILENO + stream};
        run->sinks[stream].is_file =
            fstat(STDOUT_FILENO + stream, &file) == 0 && S_ISREG(file.st_mode);
    }
}

/* Reads the rest of the output from the pipes after all PEs have ended. Does not wait for
 * left-behind processes that keep a pipe open. */
void run_drain_output(struct run *run)
{
    for (int stream = 0; stream < 2; stream++) {
        struct run_sink *sink = &run->sinks[stream];
        for (int pe = 0; pe < run->sources; pe++) {
            struct run_source *source = &run->pes[pe].streams[stream];
            struct pollfd watched = {.fd = source->fd, .events = POLLIN};
            while (source->fd >= 0 && poll(&watched, 1, 0) == 1) {
                run_read_source(run, pe, stream);
                struct pollfd room = {.fd = sink->fd, .events = POLLOUT};
                while (sink->used && !sink->broken && poll(&room, 1, -1) == 1)
                    run_flush_sink(run, stream);
            }
            end_source(run, pe, stream);
        }
        struct pollfd room = {.fd = sink->fd, .events = POLLOUT};
        while (sink->used && !sink->broken && poll(&room, 1, -1) == 1)
            run_flush_sink(run, stream);
        free(sink->data);
        sink->data = NULL;
    }
}

/* ------------------------------------------------------------------------------ standard input */

/* A PE is not in the terminal's foreground process group and would be stopped when it reads, so
 * the launcher reads the terminal for PE 0. PE 0 reads any other input itself, unless it is on
 * another host. */
static void watch_stdin(struct run *run, bool watch)
{
    if (run->input.watched == watch)
        return;
    run->input.watched = watch;
    if (watch && run_watch(run, STDIN_FILENO, EPOLLIN, RUN_EVENT_STDIN, 0) < 0) {
        run->input.watched = false; /* a file or /dev/null, which is always readable */
        run->input.again_ns = 1;
    }
    if (!watch)
        run_unwatch(run, STDIN_FILENO);
}

void run_end_stdin(struct run *run)
{
    watch_stdin(run, false);
    if (run->input.pipe >= 0)
        close(run->input.pipe);
    run->input.pipe = -1;
    run->input.again_ns = 0;
}

void run_relay_stdin(struct run *run)
{
    run->input.again_ns = 0;
    if (run->input.pipe < 0)
        return;
    if (!run->input.used) {
        if (run->input.terminal &&
            tcgetpgrp(STDIN_FILENO) != getpgrp()) { /* in the background: try again later */
            watch_stdin(run, false);
            run->input.again_ns = clock_now_ns() + RUN_SECOND_NS / 5;
            return;
        }
        ssize_t n = read(STDIN_FILENO, run->input.data, sizeof run->input.data);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            return;
        if (n <= 0) {
            run_end_stdin(run);
            return;
        }
        run->input.used = (size_t)n;
    }
    ssize_t n = write(run->input.pipe, run->input.data, run->input.used);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        run_end_stdin(run);
        return;
    }
    if (n > 0) {
        run->input.used -= (size_t)n;
        memmove(run->input.data, run->input.data + n, run->input.used);
    }
    watch_stdin(run, run->input.used == 0);
    if (run->input.used)
        run->input.again_ns = clock_now_ns() + RUN_SECOND_NS / 100;
}

void run_start_stdin(struct run *run)
{
    watch_stdin(run, run->input.pipe >= 0);
}
