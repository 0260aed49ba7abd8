/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers a file once: with weft_file_read() or weft_file_write(), with plain read and copy,
 * or with fio as a child process with the same requests in flight. Only fio uses its own memory:
 * it does not copy to the GPU. */
#include "bench/file/file.h"

#include "tool/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The work of a thread: its part of the file, window by window, into the same memory. */
struct share {
    const struct file_point *point;
    pthread_barrier_t *start;
    pthread_t thread;
    weft_file *file;
    int fd;
    char *memory, *buffer;
    uint64_t from, bytes;
    char why[256]; /* "": no error */
};

typedef void method(struct share *share);

static void *run_share(void *argument)
{
    struct share *share = ((void **)argument)[0];
    method *move = *(method **)((void **)argument)[1];
    pthread_barrier_wait(share->start);
    move(share);
    return NULL;
}

/* GB/s of all threads, timed from when all are ready. */
static double run_all(struct share *shares, unsigned n, method *move, char *why, size_t why_bytes)
{
    void *arguments[256][2];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, n + 1);
    for (unsigned i = 0; i < n; i++) {
        shares[i].start = &start;
        arguments[i][0] = &shares[i];
        arguments[i][1] = (void *)&move;
        if (pthread_create(&shares[i].thread, NULL, run_share, arguments[i]))
            abort();
    }
    pthread_barrier_wait(&start);
    uint64_t begin = clock_now_ns();
    for (unsigned i = 0; i < n; i++)
        pthread_join(shares[i].thread, NULL);
    double ns = (double)(clock_now_ns() - begin);
    pthread_barrier_destroy(&start);
    for (unsigned i = 0; i < n; i++)
        if (shares[i].why[0]) {
            snprintf(why, why_bytes, "%s", shares[i].why);
            return -1;
        }
    return (double)shares[0].point->bytes / ns;
}

static void divide_file(const struct file_point *point, struct share *shares)
{
    uint64_t part = point->bytes / point->threads;
    for (unsigned i = 0; i < point->threads; i++)
        shares[i] = (struct share){.point = point,
                                   .fd = -1,
                                   .memory = point->memory + i * point->window,
                                   .from = i * part,
                                   .bytes = part};
}

/* ---------------------------------------------------------------------------------------- weft */

/* Transfers all windows in one call, so that no window waits for the end of the previous one. */
static void move_by_weft(struct share *share)
{
    const struct file_point *point = share->point;
    size_t n = share->bytes / point->window;
    weft_file_part *parts = calloc(n, sizeof *parts);
    if (!parts)
        abort();
    for (size_t i = 0; i < n; i++)
        parts[i] = (weft_file_part){.address = share->memory,
                                    .bytes = point->window,
                                    .offset = share->from + i * point->window,
                                    .pe = weft_my_pe(point->job)};
    weft_status status = point->write ? weft_file_write_vector(share->file, parts, n)
                                      : weft_file_read_vector(share->file, parts, n);
    if (status)
        snprintf(share->why, sizeof share->why, "%s", weft_last_error());
    free(parts);
}

double file_by_weft(const struct file_point *point, char *why, size_t why_bytes)
{
    struct share shares[256];
    weft_file_attr attr = {.size = sizeof attr, .depth = point->depth, .chunk_bytes = point->block};
    double gbps = 0;
    divide_file(point, shares);
    for (unsigned i = 0; i < point->threads && gbps >= 0; i++)
        if (weft_file_open(point->job, point->path, point->write ? WEFT_FILE_WRITE : WEFT_FILE_READ,
                           &attr, &shares[i].file)) {
            snprintf(why, why_bytes, "%s", weft_last_error());
            gbps = -1;
        }
    if (gbps >= 0)
        gbps = run_all(shares, point->threads, move_by_weft, why, why_bytes);
    for (unsigned i = 0; i < point->threads; i++)
        weft_file_close(shares[i].file);
    return gbps;
}

/* ------------------------------------------------------------------------------- read and copy */

/* The simplest way: read a block into a buffer through the page cache, then copy it. */
static bool plain_block(struct share *share, uint64_t at, char *memory)
{
    const struct file_point *point = share->point;
    weft_ctx *ctx = weft_default_ctx(point->job);
    int me = weft_my_pe(point->job);
    off_t offset = (off_t)(share->from + at);
    if (point->write)
        return !weft_get(ctx, share->buffer, memory, point->block, me) &&
               pwrite(share->fd, share->buffer, point->block, offset) == (ssize_t)point->block;
    return pread(share->fd, share->buffer, point->block, offset) == (ssize_t)point->block &&
           !weft_put(ctx, memory, share->buffer, point->block, me);
}

static void move_by_plain(struct share *share)
{
    const struct file_point *point = share->point;
    for (uint64_t at = 0; at < share->bytes; at += point->block)
        if (!plain_block(share, at, share->memory + at % point->window)) {
            snprintf(share->why, sizeof share->why, "pread, pwrite or copy: %s", strerror(errno));
            return;
        }
    weft_quiet(weft_default_ctx(point->job));
    if (point->write && fdatasync(share->fd))
        snprintf(share->why, sizeof share->why, "fdatasync: %s", strerror(errno));
}

double file_by_plain(const struct file_point *point, char *why, size_t why_bytes)
{
    struct share shares[256];
    double gbps = 0;
    divide_file(point, shares);
    for (unsigned i = 0; i < point->threads; i++) {
        shares[i].fd = open(point->path, (point->write ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
        shares[i].buffer = malloc(point->block);
        if (shares[i].fd < 0 || !shares[i].buffer) {
            snprintf(why, why_bytes, "open of %.100s: %s", point->path, strerror(errno));
            gbps = -1;
        } else {
            memset(shares[i].buffer, 1, point->block);
            /* drops pages that an earlier method left in the page cache */
            posix_fadvise(shares[i].fd, 0, 0, POSIX_FADV_DONTNEED);
        }
    }
    if (gbps >= 0)
        gbps = run_all(shares, point->threads, move_by_plain, why, why_bytes);
    for (unsigned i = 0; i < point->threads; i++) {
        if (shares[i].fd >= 0)
            close(shares[i].fd);
        free(shares[i].buffer);
    }
    return gbps;
}

/* ----------------------------------------------------------------------------------------- fio */

/* Runs fio and reads its JSON output into `text`. */
static int run_fio(char *const *args, char *text, size_t bytes)
{
    int ends[2], state = 0;
    size_t used = 0;
    if (pipe2(ends, O_CLOEXEC))
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        int nothing = open("/dev/null", O_WRONLY);
        if (dup2(ends[1], STDOUT_FILENO) < 0 || dup2(nothing, STDERR_FILENO) < 0)
            _exit(126);
        execvp("fio", args);
        _exit(127);
    }
    close(ends[1]);
    for (ssize_t n; pid > 0 && (n = read(ends[0], text + used, bytes - 1 - used)) > 0;)
        used += (size_t)n;
    text[used] = '\0';
    close(ends[0]);
    while (pid > 0 && waitpid(pid, &state, 0) < 0 && errno == EINTR)
        continue;
    return pid > 0 && WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

static double gdsio_rate(const char *text, bool write)
{
    double rate = -1;
    const char *begin = strchr(text, '{'); /* other messages may precede it */
    json_t *all = begin ? json_loads(begin, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    json_t *job = json_array_get(json_object_get(all, "jobs"), 0);
    json_t *bytes = json_object_get(json_object_get(job, write ? "write" : "read"), "bw_bytes");
    if (json_is_number(bytes))
        rate = json_number_value(bytes) / 1e9;
    json_decref(all);
    return rate;
}

double file_by_fio(const struct file_point *point, char *why, size_t why_bytes)
{
    static char text[1 << 20];
    char file[4200], block[48], depth[32], jobs[32], part[48], step[48];
    uint64_t share = point->bytes / point->threads;
    snprintf(file, sizeof file, "--filename=%s", point->path);
    snprintf(block, sizeof block, "--bs=%zu", point->block);
    snprintf(depth, sizeof depth, "--iodepth=%u", point->depth);
    snprintf(jobs, sizeof jobs, "--numjobs=%u", point->threads);
    snprintf(part, sizeof part, "--size=%llu", (unsigned long long)share);
    snprintf(step, sizeof step, "--offset_increment=%llu", (unsigned long long)share);
    char *args[] = {"fio",
                    "--name=weft",
                    file,
                    block,
                    depth,
                    jobs,
                    part,
                    step,
                    point->write ? "--rw=write" : "--rw=read",
                    "--ioengine=io_uring",
                    "--direct=1",
                    "--thread",
                    "--group_reporting",
                    "--overwrite=1",
                    "--allow_file_create=0", /* does not create or extend the file */
                    "--output-format=json",
                    NULL};
    int code = run_fio(args, text, sizeof text);
    if (code == 127) {
        snprintf(why, why_bytes, "fio is not installed");
        return -1;
    }
    double rate = code == 0 ? gdsio_rate(text, point->write) : -1;
    if (rate < 0)
        snprintf(why, why_bytes, "fio ended with status %d", code);
    return rate;
}
