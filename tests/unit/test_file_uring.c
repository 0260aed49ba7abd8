/* SPDX-License-Identifier: Apache-2.0 */
/* Shows that many wake-ups of the io_uring queue of a file leave space for its requests, while the
 * kernel accepts requests and while it does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "driver/uring.h"
#include "file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEPTH = 3, WAKES = 50, BYTES = 1000 };

static bool busy; /* the kernel accepts no request, as when its completion queue overflows */
static int requests;

int __real_uring_enter(struct uring *ring, uint64_t wait_ns);
int __wrap_uring_enter(struct uring *ring, uint64_t wait_ns);
int __wrap_uring_enter(struct uring *ring, uint64_t wait_ns)
{
    return busy ? EBUSY : __real_uring_enter(ring, wait_ns);
}

struct io_uring_sqe *__real_uring_put(struct uring *ring);
struct io_uring_sqe *__wrap_uring_put(struct uring *ring);
struct io_uring_sqe *__wrap_uring_put(struct uring *ring)
{
    requests++;
    return __real_uring_put(ring);
}

static struct opened_file file;
static struct file_queue *queue;
static char contents[DEPTH][BYTES];

static int before(void **state)
{
    char path[] = "/tmp/weft-test-uring.XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0 || unlink(path))
        return -1;
    file = (struct opened_file){
        .path = "test", .direct = -1, .buffered = fd, .reads = true, .writes = true};
    busy = false;
    requests = 0;
    if (file_uring.open(&file, DEPTH, &queue) == WEFT_OK)
        return 0;
    queue = NULL; /* io_uring may be forbidden, for example in a container */
    return 0;
}

static int after(void **state)
{
    if (queue)
        file_uring.close(queue);
    close(file.buffered);
    return 0;
}

static void write_all(struct file_io *ios)
{
    for (int i = 0; i < DEPTH; i++) {
        memset(contents[i], 'a' + i, BYTES);
        ios[i] = (struct file_io){.write = true,
                                  .buffer = -1,
                                  .address = contents[i],
                                  .bytes = BYTES,
                                  .offset = (uint64_t)i * BYTES};
        file_uring.submit(queue, &ios[i]);
    }
    file_uring.start(queue);
}

static void expect_all_written(void)
{
    char got[BYTES];
    int error = 0, ended = 0;
    while (ended < DEPTH && !error)
        for (struct file_io *io = file_uring.reap(queue, 1000000000, &error); io; io = io->next) {
            assert_int_equal(io->result, BYTES);
            ended++;
        }
    assert_int_equal(error, 0);
    for (int i = 0; i < DEPTH; i++) {
        assert_int_equal(pread(file.buffered, got, BYTES, i * BYTES), BYTES);
        assert_memory_equal(got, contents[i], BYTES);
    }
}

/* Wake-ups while the driver sleeps share one NOP; each call used to submit its own (finding
 * A12). */
static void one_nop_serves_all_callers(void **state)
{
    int error;
    if (!queue)
        skip();
    for (int i = 0; i < WAKES; i++)
        file_uring.wake(queue);
    assert_int_equal(requests, 1);
    assert_null(file_uring.reap(queue, 0, &error)); /* completes the NOP */
    for (int i = 0; i < WAKES; i++)
        file_uring.wake(queue);
    assert_int_equal(requests, 2);
}

/* Wake-ups leave space for transfers; NOPs used to fill the ring (finding A12). */
static void wakes_leave_room_for_transfers(void **state)
{
    struct file_io ios[DEPTH];
    if (!queue)
        skip();
    busy = true;
    for (int i = 0; i < WAKES; i++)
        file_uring.wake(queue);
    write_all(ios);
    for (int i = 0; i < WAKES; i++)
        file_uring.wake(queue);
    busy = false;
    expect_all_written();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_nop_serves_all_callers, before, after),
        cmocka_unit_test_setup_teardown(wakes_leave_room_for_transfers, before, after),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
