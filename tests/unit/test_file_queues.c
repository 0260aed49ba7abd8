/* SPDX-License-Identifier: Apache-2.0 */
/* Shows what each request tells the kernel, in which order requests complete, which waiter is
 * woken, and what is freed. The queues run over a double of io_uring, and over threads that run
 * when the test lets them. */
#include "driver/uring.h"
#include "file/threads.h"

#include "base/status.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* ----------------------------------------------------------------------------- memory and locks */

static struct {
    int left; /* allocations until one fails */
    void *last;
    bool freed;
} heap;

void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes)
{
    assert_int_equal(n, 1);
    heap.freed = false;
    return heap.last = heap.left-- ? __real_calloc(n, bytes) : NULL;
}

void __real_free(void *memory);
void __wrap_free(void *memory);
void __wrap_free(void *memory)
{
    if (memory && memory == heap.last)
        heap.freed = true;
    __real_free(memory);
}

static struct {
    int locked, mutexes, conds, attributes;
    clockid_t clock;
    pthread_cond_t *cond[2]; /* in the order of their creation: submitted, completed */
    int signals[2], broadcasts[2];
} locks;

int __wrap_pthread_mutex_init(pthread_mutex_t *lock, const pthread_mutexattr_t *attributes);
int __wrap_pthread_mutex_init(pthread_mutex_t *lock, const pthread_mutexattr_t *attributes)
{
    (void)lock, (void)attributes;
    locks.mutexes++;
    return 0;
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *lock);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *lock)
{
    (void)lock;
    locks.mutexes--;
    return 0;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    (void)lock;
    assert_int_equal(locks.locked, 0);
    locks.locked = 1;
    return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    (void)lock;
    assert_int_equal(locks.locked, 1);
    locks.locked = 0;
    return 0;
}

int __wrap_pthread_condattr_init(pthread_condattr_t *attributes);
int __wrap_pthread_condattr_init(pthread_condattr_t *attributes)
{
    (void)attributes;
    locks.attributes++;
    return 0;
}

int __wrap_pthread_condattr_destroy(pthread_condattr_t *attributes);
int __wrap_pthread_condattr_destroy(pthread_condattr_t *attributes)
{
    (void)attributes;
    locks.attributes--;
    return 0;
}

int __wrap_pthread_condattr_setclock(pthread_condattr_t *attributes, clockid_t clock);
int __wrap_pthread_condattr_setclock(pthread_condattr_t *attributes, clockid_t clock)
{
    (void)attributes;
    assert_int_equal(locks.attributes, 1);
    locks.clock = clock;
    return 0;
}

int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attributes);
int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attributes)
{
    assert_true(locks.conds < 2);
    assert_int_equal(attributes != NULL, locks.conds == 1);
    locks.cond[locks.conds++] = cond;
    return 0;
}

int __wrap_pthread_cond_destroy(pthread_cond_t *cond);
int __wrap_pthread_cond_destroy(pthread_cond_t *cond)
{
    (void)cond;
    locks.conds--;
    return 0;
}

int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
    locks.signals[cond == locks.cond[1]]++;
    return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
    locks.broadcasts[cond == locks.cond[1]]++;
    return 0;
}

/* ------------------------------------------------------------------------------------- io_uring */

static struct {
    unsigned entries;
    int opened, closed, unregistered, buffers_gone, published, enters;
    uint64_t wait_ns;
    int files[2], files_error, buffers_error, enter_error;
    struct iovec buffers[8];
    unsigned buffer_count;
    struct io_uring_sqe sqe;
    int puts;
    struct {
        void *io;
        int result;
    } ended[4];
    /* Completed requests: the first to take, the end, and how many uring_enter() adds. */
    int from, to, more;
} ring;

weft_status __wrap_uring_open(struct uring *r, unsigned entries);
weft_status __wrap_uring_open(struct uring *r, unsigned entries)
{
    (void)r;
    ring.entries = entries;
    ring.opened++;
    return entries > 100 ? base_fail(WEFT_ERR_UNSUPPORTED, "no ring") : WEFT_OK;
}

void __wrap_uring_close(struct uring *r);
void __wrap_uring_close(struct uring *r)
{
    (void)r;
    assert_int_equal(ring.unregistered, 1); /* the ring is closed after that */
    ring.closed++;
}

int __wrap_uring_register_files(struct uring *r, const int *files, unsigned n);
int __wrap_uring_register_files(struct uring *r, const int *files, unsigned n)
{
    (void)r;
    assert_int_equal(n, 2);
    memcpy(ring.files, files, sizeof ring.files);
    return ring.files_error;
}

int __wrap_uring_register_buffers(struct uring *r, const struct iovec *buffers, unsigned n);
int __wrap_uring_register_buffers(struct uring *r, const struct iovec *buffers, unsigned n)
{
    (void)r;
    memcpy(ring.buffers, buffers, n * sizeof *buffers);
    ring.buffer_count = n;
    return ring.buffers_error;
}

void __wrap_uring_unregister_buffers(struct uring *r);
void __wrap_uring_unregister_buffers(struct uring *r)
{
    (void)r;
    ring.buffers_gone++;
}

void __wrap_uring_unregister(struct uring *r);
void __wrap_uring_unregister(struct uring *r)
{
    (void)r;
    ring.unregistered++;
}

struct io_uring_sqe *__wrap_uring_put(struct uring *r);
struct io_uring_sqe *__wrap_uring_put(struct uring *r)
{
    (void)r;
    ring.puts++;
    memset(&ring.sqe, 0, sizeof ring.sqe);
    ring.sqe.opcode = 0xff; /* the code under test sets the opcode */
    return &ring.sqe;
}

void __wrap_uring_publish(struct uring *r);
void __wrap_uring_publish(struct uring *r)
{
    (void)r;
    ring.published++;
}

int __wrap_uring_enter(struct uring *r, uint64_t wait_ns);
int __wrap_uring_enter(struct uring *r, uint64_t wait_ns)
{
    (void)r;
    ring.enters++;
    ring.wait_ns = wait_ns;
    ring.to += ring.more;
    ring.more = 0;
    return ring.enter_error;
}

bool __wrap_uring_take(struct uring *r, uint64_t *data, int32_t *result);
bool __wrap_uring_take(struct uring *r, uint64_t *data, int32_t *result)
{
    (void)r;
    if (ring.from == ring.to)
        return false;
    *data = (uintptr_t)ring.ended[ring.from].io;
    *result = ring.ended[ring.from++].result;
    return true;
}

static const struct opened_file file = {.direct = 7, .buffered = 9};
static struct file_queue *queue;

static int reset(void **state)
{
    (void)state;
    memset(&ring, 0, sizeof ring);
    memset(&locks, 0, sizeof locks);
    heap.left = -1;
    return 0;
}

static void ring_opens_and_closes(void **state)
{
    (void)state;
    assert_int_equal(file_uring.open(&file, 7, &queue), WEFT_OK);
    assert_int_equal(ring.entries, 8); /* one more entry for the wake-up */
    assert_int_equal(ring.files[0], 9);
    assert_int_equal(ring.files[1], 7);
    assert_ptr_equal(queue, heap.last);
    file_uring.close(queue);
    assert_true(heap.freed);
    assert_int_equal(ring.closed, 1);
    assert_int_equal(file_uring.open(&file, 100, &queue), WEFT_ERR_UNSUPPORTED);
    assert_true(heap.freed);
    assert_int_equal(ring.closed, 1);
    heap.left = 0;
    assert_int_equal(file_uring.open(&file, 7, &queue), WEFT_ERR_NO_MEMORY);
    assert_int_equal(ring.opened, 2);
}

static void requests_of_a_ring(void **state)
{
    static const struct {
        bool write, direct, unknown_files;
        int buffer, opcode, fd;
    } rows[] = {
        {false, false, false, -1, IORING_OP_READ, 0},
        {true, false, false, -1, IORING_OP_WRITE, 0},
        {false, true, false, 0, IORING_OP_READ_FIXED, 1},
        {true, true, false, 3, IORING_OP_WRITE_FIXED, 1},
        {false, false, true, 2, IORING_OP_READ_FIXED, 9},
        {true, true, true, -1, IORING_OP_WRITE, 7},
    };
    char memory[8];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        reset(state);
        ring.files_error = rows[i].unknown_files ? ENOMEM : 0;
        assert_int_equal(file_uring.open(&file, 7, &queue), WEFT_OK);
        struct file_io io = {.write = rows[i].write,
                             .direct = rows[i].direct,
                             .buffer = rows[i].buffer,
                             .address = memory,
                             .bytes = 5,
                             .offset = 0x123456789,
                             .result = 99};
        file_uring.submit(queue, &io);
        assert_int_equal(ring.sqe.opcode, rows[i].opcode);
        assert_int_equal(ring.sqe.fd, rows[i].fd);
        assert_int_equal(ring.sqe.flags, rows[i].unknown_files ? 0 : IOSQE_FIXED_FILE);
        assert_int_equal(ring.sqe.addr, (uintptr_t)memory);
        assert_int_equal(ring.sqe.len, 5);
        assert_int_equal(ring.sqe.off, 0x123456789);
        assert_int_equal(ring.sqe.buf_index, rows[i].buffer > 0 ? rows[i].buffer : 0);
        assert_int_equal(ring.sqe.user_data, (uintptr_t)&io);
        assert_int_equal(io.result, 0);
        assert_int_equal(ring.published, 1);
        assert_int_equal(ring.enters, 0);
        ring.wait_ns = 1;
        file_uring.start(queue);
        assert_int_equal(ring.enters, 1);
        assert_int_equal(ring.wait_ns, 0);
        file_uring.close(queue);
    }
}

static void a_ring_knows_buffers(void **state)
{
    char base[30];
    (void)state;
    assert_int_equal(file_uring.open(&file, 7, &queue), WEFT_OK);
    assert_true(file_uring.buffers(queue, base, 10, 3));
    assert_int_equal(ring.buffer_count, 3);
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(ring.buffers[i].iov_base, base + 10 * i);
        assert_int_equal(ring.buffers[i].iov_len, 10);
    }
    assert_int_equal(ring.buffers_gone, 0);
    ring.buffers_error = ENOMEM;
    assert_false(file_uring.buffers(queue, base, 10, 2));
    assert_true(file_uring.buffers(queue, NULL, 0, 0));
    assert_int_equal(ring.buffers_gone, 1);
    assert_int_equal(ring.buffer_count, 2);
    file_uring.close(queue);
}

static void ends(void *io, int result)
{
    ring.ended[ring.to].io = io;
    ring.ended[ring.to++].result = result;
}

static void what_a_ring_has_ended(void **state)
{
    static const int harmless[] = {EINTR, ETIME, EAGAIN, EBUSY};
    struct file_io one = {.next = &one}, two = {.next = &two};
    int error = 77;
    (void)state;
    assert_int_equal(file_uring.open(&file, 7, &queue), WEFT_OK);
    ends(&one, 5);
    ends(NULL, 0);
    ends(&two, -EIO);
    ring.enter_error = EBADF;
    assert_ptr_equal(file_uring.reap(queue, 1000, &error), &one);
    assert_ptr_equal(one.next, &two);
    assert_null(two.next);
    assert_int_equal(one.result, 5);
    assert_int_equal(two.result, -EIO);
    assert_int_equal(error, 0);
    assert_int_equal(ring.enters, 0);
    ring.from = ring.to = 0;
    ends(NULL, 0); /* the wake-up completes */
    assert_null(file_uring.reap(queue, 1000, &error));
    assert_int_equal(ring.enters, 0);
    assert_null(file_uring.reap(queue, 1000, &error)); /* a wake-up counts once */
    assert_int_equal(ring.enters, 1);
    assert_int_equal(ring.wait_ns, 1000);
    assert_int_equal(error, EBADF);
    for (int i = 0; i < 4; i++) {
        ring.enter_error = harmless[i];
        error = 77;
        assert_null(file_uring.reap(queue, 1000, &error));
        assert_int_equal(error, 0);
    }
    ring.enter_error = 0;
    ring.from = ring.to = 0;
    ends(&two, 3);
    ring.to = 0;
    ring.more = 1;
    assert_ptr_equal(file_uring.reap(queue, 7, &error), &two);
    assert_int_equal(error, 0);
    file_uring.close(queue);
}

static void a_ring_is_woken_once(void **state)
{
    int error;
    (void)state;
    assert_int_equal(file_uring.open(&file, 7, &queue), WEFT_OK);
    for (int round = 1; round < 3; round++) {
        ring.wait_ns = 5;
        file_uring.wake(queue);
        file_uring.wake(queue);
        assert_int_equal(ring.puts, round);
        assert_int_equal(ring.published, round);
        assert_int_equal(ring.enters, round);
        assert_int_equal(ring.wait_ns, 0);
        assert_int_equal(ring.sqe.opcode, IORING_OP_NOP);
        assert_int_equal(ring.sqe.user_data, 0);
        ends(NULL, 0);
        assert_null(file_uring.reap(queue, 0, &error));
    }
    file_uring.close(queue);
}

/* -------------------------------------------------------------------------------------- threads */

static struct {
    int started, fails_at, joined, waits;
    void *(*body)(void *);
    void *argument;
    jmp_buf asleep;
    bool may_sleep;
    struct timespec until;
    int timed_waits;
    struct file_io *order[8];
    int carried;
} pool;

int __wrap_thread_start(pthread_t *thread, void *(*body)(void *), void *argument);
int __wrap_thread_start(pthread_t *thread, void *(*body)(void *), void *argument)
{
    (void)thread;
    if (++pool.started == pool.fails_at)
        return EAGAIN;
    pool.body = body;
    pool.argument = argument;
    return 0;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock)
{
    (void)lock;
    assert_ptr_equal(cond, locks.cond[0]);
    assert_int_equal(locks.locked, 1);
    assert_true(pool.may_sleep);
    locks.locked = 0;
    longjmp(pool.asleep, 1);
}

/* Runs the thread until it sleeps or ends. */
static void run_thread(bool may_sleep)
{
    pool.may_sleep = may_sleep;
    if (setjmp(pool.asleep) == 0)
        assert_null(pool.body(pool.argument));
    assert_int_equal(locks.locked, 0);
}

int __wrap_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result)
{
    (void)thread, (void)result;
    run_thread(false);
    pool.joined++;
    return 0;
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                                  const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                                  const struct timespec *until)
{
    (void)lock;
    assert_ptr_equal(cond, locks.cond[1]);
    assert_int_equal(locks.locked, 1);
    pool.until = *until;
    return ++pool.timed_waits % 2 ? 0 : ETIMEDOUT; /* the first wake-up is spurious */
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    assert_int_equal(clock, CLOCK_MONOTONIC);
    *now = (struct timespec){100, 700000000};
    return 0;
}

static int64_t carry(const struct opened_file *opened, const struct file_io *io)
{
    assert_ptr_equal(opened, &file);
    assert_int_equal(locks.locked, 0);
    pool.order[pool.carried++] = (struct file_io *)(uintptr_t)io;
    return (int64_t)io->bytes;
}

static void open_pool(unsigned depth)
{
    memset(&pool, 0, sizeof pool);
    assert_int_equal(file_pool_open(&file, depth, carry, &queue), WEFT_OK);
    assert_int_equal(locks.mutexes, 1);
    assert_int_equal(locks.conds, 2);
    assert_int_equal(locks.attributes, 0);
    assert_int_equal(locks.clock, CLOCK_MONOTONIC);
}

static void close_pool(int threads)
{
    file_pool_close(queue);
    assert_int_equal(pool.joined, threads);
    assert_int_equal(locks.broadcasts[0], 1);
    assert_int_equal(locks.mutexes, 0);
    assert_int_equal(locks.conds, 0);
    assert_true(heap.freed);
}

static void as_many_threads_as_requests_up_to_eight(void **state)
{
    for (unsigned depth = 1; depth < 12; depth++) {
        reset(state);
        open_pool(depth);
        assert_int_equal(pool.started, depth < 8 ? depth : 8);
        close_pool(depth < 8 ? (int)depth : 8);
    }
}

static void fewer_threads_will_do(void **state)
{
    memset(&pool, 0, sizeof pool);
    pool.fails_at = 3;
    assert_int_equal(file_pool_open(&file, 5, carry, &queue), WEFT_OK);
    assert_int_equal(pool.started, 3);
    close_pool(2);
    reset(state);
    memset(&pool, 0, sizeof pool);
    pool.fails_at = 1;
    assert_int_equal(file_pool_open(&file, 5, carry, &queue), WEFT_ERR_SYSTEM);
    assert_string_equal(base_last_error(), "pthread_create for the requests of a file: error 11");
    assert_true(heap.freed);
    assert_int_equal(locks.mutexes + locks.conds, 0);
    heap.left = 0;
    assert_int_equal(file_pool_open(&file, 5, carry, &queue), WEFT_ERR_NO_MEMORY);
}

static void threads_carry_in_order(void **state)
{
    struct file_io ios[3] = {{.bytes = 5}, {.bytes = 6}, {.bytes = 7}};
    int error = 77;
    (void)state;
    open_pool(2);
    assert_null(file_pool_reap(queue, 0, &error));
    assert_int_equal(error, 0);
    assert_int_equal(pool.timed_waits, 0);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 3; i++)
            file_pool_submit(queue, &ios[i]);
        assert_int_equal(locks.signals[0], 3 * round + 3);
        file_pool_start(queue);
        run_thread(true);
        assert_int_equal(pool.carried, 3 * round + 3);
        assert_int_equal(locks.signals[1], 3 * round + 3);
        assert_ptr_equal(file_pool_reap(queue, 1, &error), &ios[0]);
        for (int i = 0; i < 3; i++) {
            assert_ptr_equal(pool.order[3 * round + i], &ios[i]);
            assert_ptr_equal(ios[i].next, i < 2 ? &ios[i + 1] : NULL);
            assert_int_equal(ios[i].result, 5 + i);
        }
        assert_null(file_pool_reap(queue, 0, &error));
    }
    assert_int_equal(pool.timed_waits, 0);
    file_pool_submit(queue, &ios[1]); /* it is executed before the close */
    close_pool(2);
    assert_int_equal(pool.carried, 7);
}

static void a_wait_for_threads_ends(void **state)
{
    static const struct {
        uint64_t wait_ns;
        long s, ns;
    } rows[] = {{1, 100, 700000001}, {299999999, 100, 999999999},  {300000000, 101, 0},
                {300000007, 101, 7}, {2299999999, 102, 999999999}, {3600000000, 104, 300000000}};
    int error;
    (void)state;
    open_pool(2);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pool.timed_waits = 0;
        assert_null(file_pool_reap(queue, rows[i].wait_ns, &error));
        assert_int_equal(pool.timed_waits, 2);
        assert_int_equal(pool.until.tv_sec, rows[i].s);
        assert_int_equal(pool.until.tv_nsec, rows[i].ns);
    }
    file_pool_wake(queue);
    assert_int_equal(locks.signals[1], 1);
    assert_null(file_pool_reap(queue, 1, &error));
    assert_int_equal(pool.timed_waits, 2);
    assert_null(file_pool_reap(queue, 1, &error)); /* the next call waits */
    assert_int_equal(pool.timed_waits, 4);
    close_pool(2);
}

/* --------------------------------------------------------------------------------- system calls */

static int fd_of_call;

static ssize_t pread_of_five(int fd, void *to, size_t bytes, off_t at)
{
    fd_of_call = fd;
    memset(to, (int)at, bytes);
    errno = EDOM;
    return bytes == 5 ? 5 : bytes == 1 ? 0 : -1;
}

static ssize_t pwrite_of_four(int fd, const void *from, size_t bytes, off_t at)
{
    fd_of_call = -fd;
    assert_int_equal(*(const char *)from + (long)bytes, at);
    errno = EFBIG;
    return bytes == 4 ? 4 : -1;
}

static void a_request_by_the_system(void **state)
{
    const struct file_calls calls = {.pread = pread_of_five, .pwrite = pwrite_of_four};
    const struct opened_file opened = {.calls = &calls, .direct = 7, .buffered = 9};
    char memory[8] = "";
    struct file_io io = {.address = memory, .bytes = 5, .offset = 3};
    (void)state;
    assert_int_equal(file_io_by_system(&opened, &io), 5);
    assert_int_equal(fd_of_call, 9);
    assert_memory_equal(memory, "\3\3\3\3\3\0", 6);
    io.direct = true;
    io.bytes = 6;
    assert_int_equal(file_io_by_system(&opened, &io), -EDOM);
    assert_int_equal(fd_of_call, 7);
    io.bytes = 1;
    assert_int_equal(file_io_by_system(&opened, &io), 0);
    io.write = true;
    io.bytes = 4;
    io.offset = 7;
    assert_int_equal(file_io_by_system(&opened, &io), 4);
    assert_int_equal(fd_of_call, -7);
    io.direct = false;
    io.bytes = 3;
    io.offset = 6;
    assert_int_equal(file_io_by_system(&opened, &io), -EFBIG);
    assert_int_equal(fd_of_call, -9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(ring_opens_and_closes, reset),
        cmocka_unit_test_setup(requests_of_a_ring, reset),
        cmocka_unit_test_setup(a_ring_knows_buffers, reset),
        cmocka_unit_test_setup(what_a_ring_has_ended, reset),
        cmocka_unit_test_setup(a_ring_is_woken_once, reset),
        cmocka_unit_test_setup(as_many_threads_as_requests_up_to_eight, reset),
        cmocka_unit_test_setup(fewer_threads_will_do, reset),
        cmocka_unit_test_setup(threads_carry_in_order, reset),
        cmocka_unit_test_setup(a_wait_for_threads_ends, reset),
        cmocka_unit_test_setup(a_request_by_the_system, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
