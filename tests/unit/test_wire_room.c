/* SPDX-License-Identifier: Apache-2.0 */
/* A connection of boot without buffer space or memory: which frames are kept with their descriptors
 * until they can be sent, how long the code waits, which process sent a frame, and that everything
 * is released. */
#include "base/status.h"
#include "boot/hub/wire.h"
#include "boot/methods.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static struct {
    int left, memory, moves; /* allocations until one fails; allocated blocks; calls of realloc() */
    int error;               /* of sendmsg(); -1: it sends `most` bytes, and then none */
    size_t most;
    int sends, with_descriptor;
    int polls, pauses, polled_fd;
    void (*step)(void); /* step in the first wait; NULL = the wait reaches its limit */
} os;

static struct wire here, there;
static int descriptors;

static void *counted(void *made)
{
    os.memory += made != NULL;
    return made;
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    return os.left-- ? counted(__real_malloc(bytes)) : NULL;
}

void *__real_realloc(void *made, size_t bytes);
void *__wrap_realloc(void *made, size_t bytes);
void *__wrap_realloc(void *made, size_t bytes)
{
    if (!os.left--)
        return NULL;
    os.moves++;
    os.memory += !made;
    return __real_realloc(made, bytes);
}

void __real_free(void *made);
void __wrap_free(void *made);
void __wrap_free(void *made)
{
    os.memory -= made != NULL;
    __real_free(made);
}

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    os.sends++;
    os.with_descriptor += message->msg_control != NULL;
    errno = os.error;
    if (os.error > 0)
        return -1;
    struct iovec part = *message->msg_iov;
    struct msghdr shorter = *message;
    shorter.msg_iov = &part;
    if (os.error < 0) {
        part.iov_len = part.iov_len < os.most ? part.iov_len : os.most;
        os.error = EAGAIN;
    }
    return __real_sendmsg(fd, &shorter, flags);
}

static bool step(void)
{
    if (!os.step)
        return false;
    os.step();
    os.step = NULL;
    return true;
}

bool __wrap_boot_limit_poll(struct boot_limit *limit, int fd, short events);
bool __wrap_boot_limit_poll(struct boot_limit *limit, int fd, short events)
{
    assert_int_equal(limit->left_ns, 77);
    assert_int_equal(fd, here.fd);
    assert_int_equal(events, POLLOUT);
    os.polls++;
    return step();
}

bool __wrap_boot_limit_pause(struct boot_limit *limit);
bool __wrap_boot_limit_pause(struct boot_limit *limit)
{
    assert_int_equal(limit->left_ns, 77);
    os.pauses++;
    return step();
}

static int open_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 100; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void fill_zero(void)
{
    if (fcntl(0, F_GETFD) < 0)
        assert_int_equal(open("/dev/null", O_RDONLY), 0);
}

static int open_wires(void **state)
{
    int ends[2];
    (void)state;
    fill_zero();
    memset(&os, 0, sizeof os);
    os.left = -1;
    descriptors = open_descriptors();
    close(0); /* so that a wire gets descriptor 0 */
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(ends[0], 0);
    wire_init(&here, ends[0], NULL, false);
    wire_init(&there, ends[1], NULL, true);
    assert_true(fcntl(here.fd, F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(there.fd, F_GETFL) & O_NONBLOCK);
    return 0;
}

static int close_wires(void **state)
{
    (void)state;
    wire_close(&here);
    wire_close(&there);
    assert_true(here.fd == -1 && !here.in && !here.in_used && !here.in_size);
    assert_true(!here.unsent && !here.unsent_last && !here.unsent_count);
    fill_zero();
    assert_int_equal(open_descriptors(), descriptors);
    assert_int_equal(os.memory, 0);
    return 0;
}

static void expect_text(const char *text, bool with_descriptor)
{
    struct wire_frame *frame = NULL;
    for (int i = 0; i < 3 && !frame; i++) { /* a frame with a descriptor is read separately */
        assert_int_equal(wire_read(&there), WEFT_OK);
        frame = wire_take(&there);
    }
    assert_non_null(frame);
    assert_string_equal(frame->payload, text);
    assert_int_equal(frame->fd >= 0, with_descriptor);
    assert_int_equal(frame->sender, 0);
    wire_frame_free(frame);
}

enum { WITH_FD = 1 << 31 };

/* -------------------------------------------------------------------------------------- sending */

static void a_frame_finds_no_memory(void **state)
{
    (void)state;
    os.left = 0;
    assert_int_equal(wire_post(&here, 1, 0, "abc", 3, -1), WEFT_ERR_NO_MEMORY);
    assert_string_equal(base_last_error(), "no memory for a frame of 3 bytes");
    os.left = 1;
    os.error = EAGAIN;
    assert_int_equal(wire_post(&here, 1, 0, "abc", 3, -1), WEFT_ERR_NO_MEMORY);
    assert_null(here.unsent);
    assert_int_equal(os.memory, 0);
    assert_int_equal(wire_post(&here, WITH_FD, 0, "abc", 3, 999), WEFT_ERR_SYSTEM);
    assert_string_equal(base_last_error(), "duplicating descriptor 999: Bad file descriptor");
    assert_int_equal(os.memory, 0);
}

/* A descriptor is sent with the first byte of its frame, and the caller keeps its own. */
static void what_is_unsent_keeps_its_descriptor(void **state)
{
    (void)state;
    os.error = EAGAIN;
    assert_int_equal(wire_post(&here, WITH_FD, 0, "one", 3, 0), WEFT_OK);
    assert_int_equal(wire_post(&here, 1, 0, "two", 3, -1), WEFT_OK);
    assert_int_equal(here.unsent_count, 2);
    assert_int_equal(os.sends, 1); /* the second frame is queued after the first */
    assert_true(here.unsent->fd > 0);
    assert_int_equal(here.unsent_last->fd, -1);
    os.error = -1;
    os.most = 5;
    assert_int_equal(wire_flush(&here), WEFT_OK);
    assert_int_equal(here.unsent->done, 5);
    os.error = 0;
    assert_int_equal(wire_flush(&here), WEFT_OK);
    assert_null(here.unsent);
    assert_null(here.unsent_last);
    assert_int_equal(os.with_descriptor, 2); /* in the failed call, and with the first five bytes */
    expect_text("one", true);
    expect_text("two", false);
    os.error = -1;
    assert_int_equal(wire_post(&here, WITH_FD, 0, "three", 5, 1), WEFT_OK);
    assert_int_equal(here.unsent->fd, -1); /* it was sent */
    os.error = 0;
    assert_int_equal(wire_flush(&here), WEFT_OK);
    expect_text("three", true);
    os.error = EAGAIN;
    assert_int_equal(wire_post(&here, WITH_FD, 0, "four", 4, 1), WEFT_OK);
    os.error = EPIPE;
    assert_int_equal(wire_flush(&here), WEFT_ERR_PEER_DEAD);
    assert_int_equal(here.unsent_count, 1); /* freed with the wire */
}

static void nothing_goes_where_no_connection_is(void **state)
{
    int fd = here.fd;
    (void)state;
    os.error = EAGAIN;
    assert_int_equal(wire_post(&here, 1, 0, "one", 3, -1), WEFT_OK);
    here.fd = -1;
    assert_int_equal(wire_flush(&here), WEFT_OK);
    assert_int_equal(here.unsent_count, 1);
    assert_int_equal(wire_post(&here, 1, 0, "two", 3, -1), WEFT_ERR_PEER_DEAD);
    assert_int_equal(wire_read(&here), WEFT_ERR_PEER_DEAD);
    assert_string_equal(base_last_error(), "the peer has closed the connection");
    assert_int_equal(os.sends, 1);
    here.fd = fd;
}

static void there_is_room(void)
{
    os.error = 0;
}

static void it_breaks(void)
{
    os.error = ECONNRESET;
}

static void it_is_waited_for_room_or_memory(void **state)
{
    static const struct {
        int error;
        void (*step)(void);
        bool endless; /* no limit is passed, so the call does not wait */
        weft_status status;
        int polls, pauses;
    } rows[] = {{0, NULL, false, WEFT_OK, 0, 0},
                {EAGAIN, there_is_room, false, WEFT_OK, 1, 0},
                {EAGAIN, NULL, false, WEFT_ERR_TIMEOUT, 1, 0},
                {EAGAIN, it_breaks, false, WEFT_ERR_PEER_DEAD, 1, 0},
                {ENOBUFS, there_is_room, false, WEFT_OK, 0, 1},
                {ENOMEM, NULL, false, WEFT_ERR_TIMEOUT, 0, 1},
                {EAGAIN, there_is_room, true, WEFT_ERR_TIMEOUT, 0, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct boot_limit limit = {.left_ns = 77};
        if (i) {
            close_wires(state);
            open_wires(state);
        }
        os.error = rows[i].error;
        os.step = rows[i].step;
        assert_int_equal(wire_send(&here, rows[i].endless ? NULL : &limit, 1, 0, "abc", 3, -1),
                         rows[i].status);
        assert_int_equal(os.polls, rows[i].polls);
        assert_int_equal(os.pauses, rows[i].pauses);
        if (!rows[i].status)
            expect_text("abc", false);
        if (rows[i].status == WEFT_ERR_TIMEOUT)
            assert_non_null(strstr(base_last_error(), "received nothing within WEFT_WAIT_LIMIT"));
    }
}

/* ------------------------------------------------------------------------------------ receiving */

static void who_has_sent_it_is_told(void **state)
{
    int on = 1;
    (void)state;
    assert_int_equal(setsockopt(there.fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
    assert_int_equal(wire_post(&here, WITH_FD, 0, "abc", 3, 1), WEFT_OK);
    assert_int_equal(wire_read(&there), WEFT_OK);
    struct wire_frame *frame = wire_take(&there);
    assert_int_equal(frame->sender, getpid());
    assert_true(frame->fd >= 0);
    wire_frame_free(frame);
}

/* One call takes all data that has arrived, in any number of reads. */
static void all_that_has_come_is_taken_in(void **state)
{
    static char large[7000];
    (void)state;
    for (int i = 0; i < 5; i++)
        assert_int_equal(wire_post(&here, 1, i, large, sizeof large, -1), WEFT_OK);
    assert_int_equal(wire_read(&there), WEFT_OK);
    assert_int_equal(there.frames, 5);
    assert_int_equal(wire_read(&there), WEFT_OK);
    assert_int_equal(there.frames, 5);
}

static void what_arrives_finds_no_memory(void **state)
{
    static const uint8_t keys[2][WIRE_KEY_BYTES] = {{1}, {2}};
    char bytes[100];
    (void)state;
    assert_int_equal(wire_post(&here, 1, 0, "abc", 3, -1), WEFT_OK);
    os.left = 0;
    assert_int_equal(wire_read(&there), WEFT_ERR_NO_MEMORY);
    assert_string_equal(base_last_error(), "no memory for received data");
    os.left = 1;
    assert_int_equal(wire_read(&there), WEFT_ERR_NO_MEMORY);
    assert_string_equal(base_last_error(), "no memory for a frame of 3 bytes");
    os.left = 0;
    assert_int_equal(wire_feed(&here, bytes, sizeof bytes), WEFT_ERR_NO_MEMORY);
    assert_string_equal(base_last_error(), "no memory for data received on a boot connection");
    os.left = -1;
    close_wires(state);
    open_wires(state);
    memcpy(here.send_key, keys[0], WIRE_KEY_BYTES);
    memcpy(there.receive_key, keys[0], WIRE_KEY_BYTES);
    here.keyed = there.keyed = true;
    assert_int_equal(wire_post(&here, 1, 0, "abc", 3, -1), WEFT_OK);
    assert_int_equal(wire_read(&there), WEFT_OK);
    assert_int_equal(there.frames, 1);
    assert_int_equal(wire_post(&here, 1, 0, "abc", 3, -1), WEFT_OK);
    os.left = 0;
    assert_int_equal(wire_read(&there), WEFT_ERR_BOOT); /* the frame's tag cannot be checked */
    os.left = -1;
    assert_int_equal(there.frames, 1);
}

/* The receive buffer is doubled when it is full, up to the size of the largest frame. */
static void place_is_made_for_a_large_frame(void **state)
{
    static char zeros[1 << 15];
    const struct wire_header header = {0x57465702, 1, 0, WIRE_MOST_PAYLOAD};
    (void)state;
    assert_int_equal(wire_feed(&there, &header, sizeof header), WEFT_OK);
    assert_int_equal(there.in_size, 16384);
    assert_int_equal(wire_feed(&there, zeros, 16384 - sizeof header), WEFT_OK);
    assert_int_equal(os.moves, 1);
    assert_int_equal(wire_feed(&there, zeros, 1), WEFT_OK);
    assert_int_equal(there.in_size, 32768);
    assert_int_equal(os.moves, 2);
    for (size_t left = sizeof header + WIRE_MOST_PAYLOAD - 16385; left;) {
        size_t n = left < sizeof zeros ? left : sizeof zeros;
        assert_int_equal(wire_feed(&there, zeros, n), WEFT_OK);
        left -= n;
    }
    assert_int_equal(there.frames, 1);
    assert_int_equal(there.first->bytes, WIRE_MOST_PAYLOAD);
    assert_int_equal(there.in_used, 0);
}

static void a_frame_gives_its_descriptor_back(void **state)
{
    (void)state;
    int fd = dup(1), zero = here.fd;
    struct wire_frame *frame = wire_frame_make(1, 2, "abc", 3, fd);
    wire_frame_free(frame);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    wire_frame_free(NULL);
    frame = wire_frame_make(1, 2, NULL, 0, zero);
    wire_frame_free(frame);
    assert_int_equal(fcntl(zero, F_GETFD), -1);
    here.fd = -1;
    os.left = 0;
    assert_null(wire_frame_make(1, 2, "abc", 3, -1));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_wires, close_wires)
    const struct CMUnitTest tests[] = {
        CASE(a_frame_finds_no_memory),
        CASE(what_is_unsent_keeps_its_descriptor),
        CASE(nothing_goes_where_no_connection_is),
        CASE(it_is_waited_for_room_or_memory),
        CASE(who_has_sent_it_is_told),
        CASE(all_that_has_come_is_taken_in),
        CASE(what_arrives_finds_no_memory),
        CASE(place_is_made_for_a_large_frame),
        CASE(a_frame_gives_its_descriptor_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
