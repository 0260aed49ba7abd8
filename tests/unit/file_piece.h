/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of the pieces of a transfer: an engine over a queue that only records its requests. The
 * test controls buffers, GPU and file system. The program wraps what is defined here as __wrap_. */
#ifndef WEFT_TESTS_FILE_PIECE_H
#define WEFT_TESTS_FILE_PIECE_H

#include "file/engine.h"

#include "base/status.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { BLOCK = 4096, CHUNK = 64 << 10, DEPTH = 3, GPUS = 2 };

static struct {
    struct file_io *given[16];
    int count;
    int buffers_calls, refuses_buffers;
    char *base;
    size_t bytes;
    unsigned buffers;
    struct file_queue *queue;
} queue;

static struct {
    int pins, unpins, fails;
    const void *gpu, *address;
    size_t bytes;
} pinned;

static struct {
    int maps, fails, dont_fork, huge;
    void *made;
    size_t bytes;
} maps;

static struct {
    int calls, error;
    const struct file_engine *engine;
} refused;

static weft_status queue_open(const struct opened_file *file, unsigned depth,
                              struct file_queue **result)
{
    (void)file, (void)depth;
    *result = (struct file_queue *)(void *)&queue;
    return WEFT_OK;
}

static void queue_close(struct file_queue *q)
{
    (void)q;
}

static bool queue_buffers(struct file_queue *q, char *base, size_t bytes, unsigned count)
{
    queue.queue = q;
    queue.buffers_calls++;
    queue.base = base;
    queue.bytes = bytes;
    queue.buffers = count;
    return !queue.refuses_buffers;
}

static void queue_give(struct file_queue *q, struct file_io *io)
{
    assert_ptr_equal(q, &queue);
    queue.given[queue.count++] = io;
}

static const struct file_backend with_buffers = {.name = "notes",
                                                 .open = queue_open,
                                                 .close = queue_close,
                                                 .buffers = queue_buffers,
                                                 .submit = queue_give},
                                 without = {.name = "notes",
                                            .open = queue_open,
                                            .close = queue_close,
                                            .submit = queue_give};

weft_status __wrap_gpu_pin_range(struct gpu *gpu, void *address, size_t bytes);
weft_status __wrap_gpu_pin_range(struct gpu *gpu, void *address, size_t bytes)
{
    if (pinned.fails)
        return base_fail(WEFT_ERR_KERNEL, "the GPU takes no more");
    pinned.pins++;
    pinned.gpu = gpu;
    pinned.address = address;
    pinned.bytes = bytes;
    return WEFT_OK;
}

void __wrap_gpu_unpin_range(struct gpu *gpu, const void *address, size_t bytes);
void __wrap_gpu_unpin_range(struct gpu *gpu, const void *address, size_t bytes)
{
    pinned.unpins++;
    assert_ptr_equal(gpu, pinned.gpu);
    assert_ptr_equal(address, pinned.address);
    assert_int_equal(bytes, pinned.bytes);
    assert_ptr_equal(maps.made, address); /* the memory is still mapped */
}

void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if (!(flags & MAP_NORESERVE))
        return __real_mmap(at, bytes, protection, flags, fd, offset);
    assert_int_equal(fd, -1);
    assert_int_equal(offset, 0);
    if (maps.fails) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    maps.maps++;
    maps.bytes = bytes;
    return maps.made = __real_mmap(at, bytes, protection, flags, fd, offset);
}

int __real_munmap(void *at, size_t bytes);
int __wrap_munmap(void *at, size_t bytes);
int __wrap_munmap(void *at, size_t bytes)
{
    assert_ptr_equal(at, maps.made);
    assert_int_equal(bytes, maps.bytes);
    maps.made = NULL;
    return __real_munmap(at, bytes);
}

int __wrap_madvise(void *at, size_t bytes, int advice);
int __wrap_madvise(void *at, size_t bytes, int advice)
{
    assert_ptr_equal(at, maps.made);
    assert_int_equal(bytes, maps.bytes);
    maps.dont_fork += advice == MADV_DONTFORK;
    maps.huge += advice == MADV_HUGEPAGE;
    return 0;
}

void __wrap_file_cufile_engine_refused(struct file_engine *engine, int error);
void __wrap_file_cufile_engine_refused(struct file_engine *engine, int error)
{
    refused.calls++;
    refused.engine = engine;
    refused.error = error;
}

static int fstat_fails;
static int sized(int fd, struct stat *st)
{
    (void)fd;
    st->st_size = 777;
    errno = EIO;
    return -fstat_fails;
}

static struct opened_file file;
static struct file_engine *engine;
static struct file_op op;
static int gpus[GPUS]; /* their addresses stand for GPUs */
static char memory[4 * CHUNK] __attribute__((aligned(BLOCK)));

static struct gpu *gpu(int i)
{
    return (struct gpu *)(void *)&gpus[i];
}

static void open_with(const struct file_backend *backend, unsigned depth, size_t chunk)
{
    static struct file_calls calls;
    static char path[400] = "a/file";
    struct file_settings settings = {.backend = backend, .depth = depth, .chunk_bytes = chunk};
    memset(&queue, 0, sizeof queue);
    memset(&pinned, 0, sizeof pinned);
    memset(&maps, 0, sizeof maps);
    memset(&refused, 0, sizeof refused);
    calls = file_system_calls;
    calls.fstat = sized;
    fstat_fails = 0;
    file = (struct opened_file){.calls = &calls,
                                .path = path,
                                .direct = 5,
                                .buffered = -1,
                                .alignment = BLOCK,
                                .memory_alignment = 512};
    assert_int_equal(file_engine_open(&file, &settings, &engine), WEFT_OK);
}

static inline int open_engine(void **state)
{
    (void)state;
    open_with(&with_buffers, DEPTH, CHUNK);
    return 0;
}

static int close_engine(void **state)
{
    (void)state;
    engine->broken = 0;
    file_engine_close(engine);
    assert_null(maps.made);
    return 0;
}

static void plan(struct file_op *o, enum file_place_kind kind, bool write, uint64_t offset,
                 size_t bytes)
{
    *o = (struct file_op){.transfer = {.place = {.kind = kind,
                                                 .address = memory,
                                                 .gpu = kind == FILE_DEVICE ? gpu(0) : gpu(1)},
                                       .offset = offset,
                                       .bytes = bytes,
                                       .write = write},
                          .shape = {.write = write,
                                    .direct = true,
                                    .in_place = kind != FILE_REMOTE,
                                    .alignment = BLOCK,
                                    .memory_alignment = 512,
                                    .chunk = engine->settings.chunk_bytes,
                                    .offset = offset,
                                    .bytes = bytes,
                                    .address = (uintptr_t)memory},
                          .queued = true};
    o->last = &o->first;
    *engine->todo_last = o;
    engine->todo_last = &o->next;
}

static inline unsigned free_pieces(void)
{
    unsigned count = 0;
    for (const struct file_piece *p = engine->free; p; p = p->next)
        count++;
    return count;
}

static void issue(enum file_place_kind kind, bool write, uint64_t offset, size_t bytes)
{
    plan(&op, kind, write, offset, bytes);
    file_plan_pieces(engine);
}

#endif
