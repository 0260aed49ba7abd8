/* SPDX-License-Identifier: Apache-2.0 */
/* A backend of threads that run blocking calls: pread and pwrite where io_uring is refused, or
 * cuFile's calls (cufile.c). It has one thread per request in flight, at most THREADS; they live as
 * long as the queue. */
#include "file/threads.h"

#include "base/status.h"
#include "base/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS = 8 };

struct list {
    struct file_io *first, **last;
};

struct thread_queue {
    const struct opened_file *file;
    file_io_function *transfer;
    pthread_mutex_t lock;
    pthread_cond_t given, ended;
    struct list todo, done;
    bool stop, woken;
    unsigned count;
    pthread_t threads[THREADS];
};

static struct thread_queue *thread_queue_of(struct file_queue *opaque)
{
    return (struct thread_queue *)(void *)opaque;
}

static void append_io(struct list *list, struct file_io *io)
{
    io->next = NULL;
    *list->last = io;
    list->last = &io->next;
}

static struct file_io *take_first(struct list *list)
{
    struct file_io *first = list->first;
    if (first) {
        list->first = first->next;
        if (!list->first)
            list->last = &list->first;
    }
    return first;
}

int64_t file_io_by_system(const struct opened_file *file, const struct file_io *io)
{
    int fd = io->direct ? file->direct : file->buffered;
    ssize_t n = io->write ? file->calls->pwrite(fd, io->address, io->bytes, (off_t)io->offset)
                          : file->calls->pread(fd, io->address, io->bytes, (off_t)io->offset);
    return n < 0 ? -errno : n;
}

static void *run_requests(void *argument)
{
    struct thread_queue *queue = argument;
    pthread_mutex_lock(&queue->lock);
    for (;;) {
        struct file_io *io = take_first(&queue->todo);
        if (!io && queue->stop)
            break;
        if (!io) {
            pthread_cond_wait(&queue->given, &queue->lock);
            continue;
        }
        pthread_mutex_unlock(&queue->lock);
        io->result = queue->transfer(queue->file, io);
        pthread_mutex_lock(&queue->lock);
        append_io(&queue->done, io);
        pthread_cond_signal(&queue->ended);
    }
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

void file_pool_close(struct file_queue *opaque)
{
    struct thread_queue *queue = thread_queue_of(opaque);
    pthread_mutex_lock(&queue->lock);
    queue->stop = true;
    pthread_cond_broadcast(&queue->given);
    pthread_mutex_unlock(&queue->lock);
    for (unsigned i = 0; i < queue->count; i++)
        pthread_join(queue->threads[i], NULL);
    pthread_cond_destroy(&queue->ended);
    pthread_cond_destroy(&queue->given);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

weft_status file_pool_open(const struct opened_file *file, unsigned depth,
                           file_io_function *transfer, struct file_queue **result)
{
    struct thread_queue *queue = calloc(1, sizeof *queue);
    pthread_condattr_t monotonic;
    if (!queue)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a file's queue");
    queue->file = file;
    queue->transfer = transfer;
    queue->todo.last = &queue->todo.first;
    queue->done.last = &queue->done.first;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->given, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&queue->ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int error = 0;
    while (queue->count < (depth < THREADS ? depth : THREADS) && !error) {
        error = thread_start(&queue->threads[queue->count], run_requests, queue);
        if (!error)
            queue->count++;
    }
    if (!queue->count) { /* fewer threads than requested are enough */
        file_pool_close((struct file_queue *)queue);
        return base_fail(WEFT_ERR_SYSTEM, "pthread_create for the requests of a file: error %d",
                         error);
    }
    *result = (struct file_queue *)queue;
    return WEFT_OK;
}

void file_pool_submit(struct file_queue *opaque, struct file_io *io)
{
    struct thread_queue *queue = thread_queue_of(opaque);
    pthread_mutex_lock(&queue->lock);
    append_io(&queue->todo, io);
    pthread_cond_signal(&queue->given);
    pthread_mutex_unlock(&queue->lock);
}

void file_pool_start(struct file_queue *queue)
{
}

static struct timespec time_after(uint64_t ns)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += (time_t)(ns / 1000000000u);
    at.tv_nsec += (long)(ns % 1000000000u);
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

struct file_io *file_pool_reap(struct file_queue *opaque, uint64_t wait_ns, int *error)
{
    struct thread_queue *queue = thread_queue_of(opaque);
    struct timespec until = time_after(wait_ns);
    *error = 0;
    pthread_mutex_lock(&queue->lock);
    while (wait_ns && !queue->done.first && !queue->woken &&
           pthread_cond_timedwait(&queue->ended, &queue->lock, &until) == 0)
        continue;
    struct file_io *first = queue->done.first;
    queue->woken = false;
    queue->done.first = NULL;
    queue->done.last = &queue->done.first;
    pthread_mutex_unlock(&queue->lock);
    return first;
}

void file_pool_wake(struct file_queue *opaque)
{
    struct thread_queue *queue = thread_queue_of(opaque);
    pthread_mutex_lock(&queue->lock);
    queue->woken = true;
    pthread_cond_signal(&queue->ended);
    pthread_mutex_unlock(&queue->lock);
}

static weft_status open_thread_queue(const struct opened_file *file, unsigned depth,
                                     struct file_queue **result)
{
    return file_pool_open(file, depth, file_io_by_system, result);
}

const struct file_backend file_threads = {.name = "threads",
                                          .open = open_thread_queue,
                                          .close = file_pool_close,
                                          .submit = file_pool_submit,
                                          .start = file_pool_start,
                                          .reap = file_pool_reap,
                                          .wake = file_pool_wake};
