/* SPDX-License-Identifier: Apache-2.0 */
/* Authenticated connections: HMAC-SHA256 with published vectors; complete, truncated, modified and
 * replayed frames; descriptors; errors of the network. */
#include "boot/hub/member.h"
#include "boot/hub/wire.h"
#include "boot/methods.h"
#include "boot/rendezvous/rendezvous.h"
#include "driver/crypto.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* RFC 4231, test cases 1, 2 and 6. */
static void hmac_is_that_of_the_rfc(void **state)
{
    static const uint8_t first[] = {0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53,
                                    0x5c, 0xa8, 0xaf, 0xce, 0xaf, 0x0b, 0xf1, 0x2b,
                                    0x88, 0x1d, 0xc2, 0x00, 0xc9, 0x83, 0x3d, 0xa7,
                                    0x26, 0xe9, 0x37, 0x6c, 0x2e, 0x32, 0xcf, 0xf7};
    static const uint8_t second[] = {0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e,
                                     0x6a, 0x04, 0x24, 0x26, 0x08, 0x95, 0x75, 0xc7,
                                     0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27, 0x39, 0x83,
                                     0x9d, 0xec, 0x58, 0xb9, 0x64, 0xec, 0x38, 0x43};
    static const uint8_t sixth[] = {0x60, 0xe4, 0x31, 0x59, 0x1e, 0xe0, 0xb6, 0x7f,
                                    0x0d, 0x8a, 0x26, 0xaa, 0xcb, 0xf5, 0xb7, 0x7f,
                                    0x8e, 0x0b, 0xc6, 0x21, 0x37, 0x28, 0xc5, 0x14,
                                    0x05, 0x46, 0x04, 0x0f, 0x0e, 0xe3, 0x7f, 0x54};
    const struct crypto_driver *crypto;
    uint8_t mac[CRYPTO_MAC_BYTES], key[131];
    assert_int_equal(crypto_load(&crypto), WEFT_OK);
    memset(key, 0x0b, sizeof key);
    assert_true(crypto->hmac_sha256(key, 20, "Hi There", 8, mac));
    assert_memory_equal(mac, first, sizeof mac);
    assert_true(crypto->hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, mac));
    assert_memory_equal(mac, second, sizeof mac);
    memset(key, 0xaa, sizeof key);
    const char *long_key = "Test Using Larger Than Block-Size Key - Hash Key First";
    assert_true(crypto->hmac_sha256(key, sizeof key, long_key, strlen(long_key), mac));
    assert_memory_equal(mac, sixth, sizeof mac);
    assert_true(crypto_equal(mac, sixth));
    mac[31] ^= 1;
    assert_false(crypto_equal(mac, sixth));
}

struct pair {
    struct wire a;
    struct wire b;
};

static const uint8_t keys[2][WIRE_KEY_BYTES] = {"the member says", "the hub says"};

static void open_pair(struct pair *pair, bool keyed)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    wire_init(&pair->a, ends[0], keyed ? keys : NULL, true);
    wire_init(&pair->b, ends[1], keyed ? keys : NULL, false);
}

static void close_pair(struct pair *pair)
{
    wire_close(&pair->a);
    wire_close(&pair->b);
}

static void frames_arrive(bool keyed)
{
    struct pair pair;
    char text[5000];
    open_pair(&pair, keyed);
    memset(text, 'w', sizeof text);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(wire_send(&pair.a, NULL, 7, i, text, (size_t)i * 500, -1), WEFT_OK);
        assert_int_equal(wire_send(&pair.b, NULL, 8, -i, text, 3, -1), WEFT_OK);
    }
    assert_int_equal(wire_read(&pair.b), WEFT_OK);
    assert_int_equal(wire_read(&pair.a), WEFT_OK);
    for (int i = 0; i < 10; i++) {
        struct wire_frame *frame = wire_take(&pair.b);
        assert_non_null(frame);
        assert_int_equal(frame->type, 7);
        assert_int_equal(frame->number, i);
        assert_int_equal(frame->bytes, i * 500);
        assert_memory_equal(frame->payload, text, frame->bytes);
        free(frame);
        frame = wire_take(&pair.a);
        assert_int_equal(frame->number, -i);
        free(frame);
    }
    assert_null(wire_take(&pair.b));
    close(pair.a.fd);
    pair.a.fd = -1;
    assert_int_equal(wire_read(&pair.b), WEFT_ERR_PEER_DEAD);
    close_pair(&pair);
}

static void plain_frames_arrive(void **state)
{
    frames_arrive(false);
}

static void keyed_frames_arrive(void **state)
{
    frames_arrive(true);
}

/* Every bit of a keyed frame is authenticated, and so is its sequence number. */
static void changed_frames_are_refused(void **state)
{
    uint8_t frame[16 + 5 + 32];
    struct pair pair;
    open_pair(&pair, true);
    assert_int_equal(wire_send(&pair.a, NULL, 1, 2, "hello", 5, -1), WEFT_OK);
    assert_int_equal(recv(pair.b.fd, frame, sizeof frame, 0), sizeof frame);
    for (size_t bit = 0; bit < 8 * sizeof frame; bit++) {
        struct wire other;
        wire_init(&other, -1, keys, false);
        frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
        /* a changed length makes the rest of the frame wait or is rejected; it never passes */
        wire_feed(&other, frame, sizeof frame);
        assert_null(wire_take(&other));
        frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
        wire_close(&other);
    }
    assert_int_equal(wire_feed(&pair.b, frame, sizeof frame), WEFT_OK);
    free(wire_take(&pair.b));
    assert_int_equal(wire_feed(&pair.b, frame, sizeof frame), WEFT_ERR_BOOT); /* replayed */
    assert_null(wire_take(&pair.b));
    struct wire reflected; /* sent back to its sender */
    wire_init(&reflected, -1, keys, true);
    assert_int_equal(wire_feed(&reflected, frame, sizeof frame), WEFT_ERR_BOOT);
    wire_close(&reflected);
    close_pair(&pair);
}

static void oversized_frames_are_refused(void **state)
{
    struct wire wire;
    struct wire_header header = {0x57465702u, 1, 0, WIRE_MOST_PAYLOAD + 1};
    wire_init(&wire, -1, NULL, false);
    assert_int_equal(wire_feed(&wire, &header, sizeof header), WEFT_ERR_BOOT);
    wire_close(&wire);
}

static void descriptors_belong_to_their_frames(void **state)
{
    struct pair pair;
    open_pair(&pair, false);
    for (int i = 0; i < 4; i++) {
        int fd = memfd_create("wire", MFD_CLOEXEC);
        assert_int_equal(pwrite(fd, &i, sizeof i, 0), sizeof i);
        assert_int_equal(wire_send(&pair.a, NULL, 1, 0, "between", 7, -1), WEFT_OK);
        assert_int_equal(wire_send(&pair.a, NULL, 1u << 31, i, NULL, 0, fd), WEFT_OK);
        close(fd);
    }
    for (int i = 0; i < 8; i++)
        assert_int_equal(wire_read(&pair.b), WEFT_OK);
    for (int i = 0; i < 4; i++) {
        int seen = -1;
        struct wire_frame *frame = wire_take(&pair.b);
        assert_int_equal(frame->fd, -1);
        free(frame);
        frame = wire_take(&pair.b);
        assert_true(frame->fd >= 0);
        assert_int_equal(pread(frame->fd, &seen, sizeof seen, 0), sizeof seen);
        assert_int_equal(seen, i);
        close(frame->fd);
        free(frame);
    }
    close_pair(&pair);
}

/* Sends bytes with descriptors in ways that no sender of frames uses. */
static void send_raw(int to, const void *bytes, size_t count, const int *fds, size_t nfds)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(64 * sizeof(int))];
    } control;
    struct iovec part = {(void *)(uintptr_t)bytes, count};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = CMSG_SPACE(nfds * sizeof *fds)};
    memset(&control, 0, sizeof control);
    control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(nfds * sizeof *fds),
                                      .cmsg_level = SOL_SOCKET,
                                      .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.header), fds, nfds * sizeof *fds);
    assert_int_equal(sendmsg(to, &message, 0), count);
}

/* Both descriptors arrive before the first of their frames is complete. */
static void descriptors_come_in_order(void **state)
{
    struct pair pair;
    struct wire_header frames[2] = {{0x57465702u, 1u << 31, 0, 0}, {0x57465702u, 1u << 31, 1, 0}};
    open_pair(&pair, false);
    for (int i = 0; i < 2; i++) {
        int fd = memfd_create("wire", MFD_CLOEXEC);
        assert_int_equal(pwrite(fd, &i, sizeof i, 0), sizeof i);
        send_raw(pair.a.fd, (char *)frames + (i ? 4 : 0), i ? sizeof frames - 4 : 4, &fd, 1);
        close(fd);
        assert_int_equal(wire_read(&pair.b), WEFT_OK);
    }
    wire_read(&pair.b);
    for (int i = 0; i < 2; i++) {
        int seen = -1;
        struct wire_frame *frame = wire_take(&pair.b);
        assert_non_null(frame);
        assert_int_equal(frame->number, i);
        assert_int_equal(pread(frame->fd, &seen, sizeof seen, 0), sizeof seen);
        assert_int_equal(seen, i);
        close(frame->fd);
        free(frame);
    }
    close_pair(&pair);
}

static int open_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* More descriptors than fit, without a frame that takes them. */
static void descriptors_too_many_are_closed(void **state)
{
    struct pair pair;
    int fds[60], before = open_descriptors();
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        fds[i] = 0;
    open_pair(&pair, false);
    for (int i = 0; i < 3; i++) {
        send_raw(pair.a.fd, "\2", 1, fds, sizeof fds / sizeof fds[0]);
        wire_read(&pair.b);
    }
    close_pair(&pair);
    assert_int_equal(open_descriptors(), before);
}

static void frames_without_end_are_refused(void **state)
{
    struct wire wire;
    struct wire_header header = {0x57465702u, 1, 0, 0};
    wire_init(&wire, -1, NULL, false);
    for (int i = 0; i < WIRE_MOST_FRAMES; i++)
        assert_int_equal(wire_feed(&wire, &header, sizeof header), WEFT_OK);
    assert_int_equal(wire_feed(&wire, &header, sizeof header), WEFT_ERR_BOOT);
    wire_close(&wire);
}

/* --- errors of the network ------------------------------------------------------------------- */

/* Results of the next calls: an error, or 0, which calls the system's function with at most that
 * many bytes. */
static struct answer {
    int error;
    size_t most;
} answers[16];
static int answered, descriptors_sent;
static bool scripted;

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    if (!scripted)
        return __real_sendmsg(fd, message, flags);
    struct answer answer = answers[answered++];
    if (answer.error) {
        errno = answer.error;
        return -1;
    }
    struct msghdr less = *message;
    struct iovec part = *message->msg_iov;
    if (answer.most && part.iov_len > answer.most)
        part.iov_len = answer.most;
    less.msg_iov = &part;
    descriptors_sent += message->msg_controllen > 0;
    return __real_sendmsg(fd, &less, flags);
}

ssize_t __real_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
    if (!scripted || !answers[answered].error)
        return __real_recvmsg(fd, message, flags);
    errno = answers[answered++].error;
    return -1;
}

static void answer_with(const struct answer *list, size_t n)
{
    memset(answers, 0, sizeof answers);
    memcpy(answers, list, n * sizeof *list);
    answered = descriptors_sent = 0;
    scripted = true;
}

static void errors_of_sending_are_told_apart(void **state)
{
    static const struct {
        int error;
        weft_status status;
        /* kept: the frame waits; starved: for memory; noted: the error is stored in the wire */
        bool kept, starved, noted;
        const char *words;
    } rows[] = {
        {EPIPE, WEFT_ERR_PEER_DEAD, false, false, false, "has closed the connection"},
        {ECONNRESET, WEFT_ERR_PEER_DEAD, false, false, false, "has closed the connection"},
        {ETIMEDOUT, WEFT_ERR_PEER_DEAD, false, false, true, "any more: Connection timed out"},
        {EHOSTUNREACH, WEFT_ERR_PEER_DEAD, false, false, true, "any more: No route to host"},
        {ENETUNREACH, WEFT_ERR_PEER_DEAD, false, false, true, "any more: Network is unreachable"},
        {EAGAIN, WEFT_OK, true, false, false, NULL},
        {ENOBUFS, WEFT_OK, true, true, false, NULL},
        {ENOMEM, WEFT_OK, true, true, false, NULL},
        {ETOOMANYREFS, WEFT_OK, true, true, false, NULL},
        {EINTR, WEFT_OK, false, false, false, NULL}, /* tried again */
        {EIO, WEFT_ERR_SYSTEM, false, false, false, "Input/output error"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pair pair;
        open_pair(&pair, false);
        answer_with(&(struct answer){rows[i].error, 0}, 1);
        assert_int_equal(wire_post(&pair.a, 3, 4, "abc", 3, -1), rows[i].status);
        assert_int_equal(pair.a.unsent != NULL, rows[i].kept);
        assert_int_equal(pair.a.starved, rows[i].starved);
        assert_int_equal(pair.a.error, rows[i].noted ? rows[i].error : 0);
        if (rows[i].words)
            assert_non_null(strstr(weft_last_error(), rows[i].words));
        assert_int_equal(answered, rows[i].error == EINTR ? 2 : 1);
        if (!rows[i].status) { /* the next flush sends it */
            assert_int_equal(wire_flush(&pair.a), WEFT_OK);
            assert_null(pair.a.unsent);
            assert_false(pair.a.starved);
            assert_int_equal(wire_read(&pair.b), WEFT_OK);
            struct wire_frame *frame = wire_take(&pair.b);
            assert_true(frame && frame->type == 3 && frame->number == 4 && frame->bytes == 3);
            wire_frame_free(frame);
        }
        scripted = false;
        close_pair(&pair);
    }
}

/* Frames that cannot be sent at once are sent later, completely and in order. A descriptor is sent
 * once, with its frame. */
static void what_waits_goes_in_its_order(void **state)
{
    static const struct answer slow[] = {{0, 1}, {0, 2}, {EAGAIN, 0}, {0, 7}, {EAGAIN, 0}};
    const uint32_t with_descriptor = FRAME_FD;
    int before = open_descriptors(), fd = memfd_create("wire", MFD_CLOEXEC), seen = 0;
    struct pair pair;
    open_pair(&pair, true);
    assert_int_equal(pwrite(fd, &(int){815}, sizeof(int), 0), sizeof(int));
    answer_with(slow, sizeof slow / sizeof *slow);
    assert_int_equal(wire_post(&pair.a, with_descriptor, 1, "first", 5, fd), WEFT_OK);
    /* Queued without a call of sendmsg(). */
    assert_int_equal(wire_post(&pair.a, 2, 2, "second", 6, -1), WEFT_OK);
    assert_int_equal(wire_post(&pair.a, with_descriptor, 3, NULL, 0, fd), WEFT_OK);
    assert_int_equal(answered, 3);
    assert_int_equal(pair.a.unsent_count, 3);
    close(fd); /* the queued frame has a duplicate */
    assert_int_equal(wire_flush(&pair.a), WEFT_OK);
    assert_int_equal(pair.a.unsent_count, 3);
    assert_int_equal(wire_read(&pair.b), WEFT_OK);
    assert_null(wire_take(&pair.b)); /* ten bytes are not a complete frame */
    assert_int_equal(wire_flush(&pair.a), WEFT_OK);
    assert_int_equal(pair.a.unsent_count, 0);
    assert_true(!pair.a.unsent && !pair.a.unsent_last);
    assert_int_equal(descriptors_sent, 2);
    scripted = false;
    assert_int_equal(wire_read(&pair.b), WEFT_OK);
    for (int i = 1; i <= 3; i++) {
        struct wire_frame *frame = wire_take(&pair.b);
        assert_non_null(frame);
        assert_int_equal(frame->number, i);
        assert_int_equal(frame->fd >= 0, i != 2);
        if (frame->fd >= 0)
            assert_int_equal(pread(frame->fd, &seen, sizeof seen, 0), sizeof seen);
        assert_int_equal(seen, 815);
        wire_frame_free(frame);
    }
    assert_null(wire_take(&pair.b));
    close_pair(&pair);
    assert_int_equal(open_descriptors(), before);
}

static void so_many_frames_wait_and_no_more(void **state)
{
    int before = open_descriptors();
    struct pair pair;
    open_pair(&pair, false);
    answer_with(&(struct answer){EAGAIN, 0}, 1);
    for (int i = 0; i < WIRE_MOST_UNSENT; i++)
        assert_int_equal(wire_post(&pair.a, 1, i, NULL, 0, i < 5 ? STDERR_FILENO : -1), WEFT_OK);
    assert_int_equal(pair.a.unsent_count, WIRE_MOST_UNSENT);
    assert_int_equal(wire_post(&pair.a, 1, 0, NULL, 0, -1), WEFT_ERR_BOOT);
    assert_non_null(strstr(weft_last_error(), "receives nothing"));
    assert_int_equal(answered, 1);
    scripted = false;
    close_pair(&pair);
    assert_null(pair.a.unsent);
    assert_int_equal(open_descriptors(), before);
    assert_int_equal(wire_post(&pair.a, 1, 0, NULL, 0, -1), WEFT_ERR_PEER_DEAD);
}

static void errors_of_receiving_are_told_apart(void **state)
{
    static const struct {
        struct answer list[2];
        weft_status status;
        int noted;
        bool comes;
    } rows[] = {
        {{{EAGAIN, 0}}, WEFT_OK, 0, false},
        {{{EINTR, 0}}, WEFT_OK, 0, false},
        {{{ECONNRESET, 0}}, WEFT_OK, 0, true}, /* data received before it can still be read */
        {{{ECONNRESET, 0}, {ECONNRESET, 0}}, WEFT_ERR_PEER_DEAD, 0, false},
        {{{ETIMEDOUT, 0}}, WEFT_ERR_PEER_DEAD, ETIMEDOUT, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pair pair;
        open_pair(&pair, false);
        assert_int_equal(wire_post(&pair.a, 1, 2, "x", 1, -1), WEFT_OK);
        answer_with(rows[i].list, 2);
        assert_int_equal(wire_read(&pair.b), rows[i].status);
        assert_int_equal(pair.b.error, rows[i].noted);
        scripted = false;
        struct wire_frame *frame = wire_take(&pair.b);
        assert_int_equal(frame != NULL, rows[i].comes);
        wire_frame_free(frame);
        close_pair(&pair);
    }
}

/* One thread checks the job all the time while another one exchanges. For ThreadSanitizer. */
struct tested {
    struct member member;
    _Atomic bool over;
    weft_status status;
};

static void *ask_for_news(void *argument)
{
    struct tested *one = argument;
    while (!atomic_load(&one->over))
        one->status = member_check(&one->member);
    return NULL;
}

static void *exchange(void *argument)
{
    struct tested *one = argument;
    for (int i = 0; i < 300; i++) {
        int all[2], mine = 10 * i + one->member.me;
        if (member_allgather(&one->member, &mine, all, sizeof mine) || all[0] != 10 * i ||
            all[1] != 10 * i + 1)
            return argument;
    }
    return NULL;
}

static void news_beside_an_exchange(void **state)
{
    static struct tested members[2];
    struct pair pair;
    open_pair(&pair, true);
    for (int me = 0; me < 2; me++) {
        struct wire *wires = calloc(me == 0 ? 2 : 1, sizeof *wires);
        wires[0].fd = -1;
        wires[me == 0 ? 1 : 0] = me == 0 ? pair.b : pair.a;
        assert_int_equal(member_init(&members[me].member, 2, me, NULL, wires), WEFT_OK);
    }
    pthread_t asking[2], exchanging[2];
    for (int me = 0; me < 2; me++) {
        pthread_create(&asking[me], NULL, ask_for_news, &members[me]);
        pthread_create(&exchanging[me], NULL, exchange, &members[me]);
    }
    for (int me = 0; me < 2; me++) {
        void *failed;
        pthread_join(exchanging[me], &failed);
        assert_null(failed);
    }
    for (int me = 0; me < 2; me++) {
        atomic_store(&members[me].over, true);
        pthread_join(asking[me], NULL);
        assert_int_equal(members[me].status, WEFT_OK);
    }
    member_fail(&members[1].member, WEFT_ERR_JOB, "PE 1 has had enough");
    assert_int_equal(member_check(&members[0].member), WEFT_ERR_JOB);
    assert_string_equal(weft_last_error(), "PE 1 has had enough");
    for (int me = 0; me < 2; me++)
        member_close(&members[me].member, false);
}

/* The last reply and the end of the job arrive together, as happens when another PE leaves right
 * after the exchange. The exchange succeeds, and the next call reports the end. */
static void an_answer_goes_before_the_end(void **state)
{
    struct pair pair;
    struct member member;
    const int answers[2] = {-70000, 90001};
    const char *why = "PE 0 left the job before weft_finalize";
    int all[2] = {0, 0}, mine = 90001;
    open_pair(&pair, true);
    struct wire *wires = calloc(1, sizeof *wires);
    wires[0] = pair.a;
    assert_int_equal(member_init(&member, 2, 1, NULL, wires), WEFT_OK);
    assert_int_equal(wire_post(&pair.b, FRAME_ALL, 0, answers, sizeof answers, -1), WEFT_OK);
    assert_int_equal(wire_post(&pair.b, FRAME_END, WEFT_ERR_PEER_DEAD, why, strlen(why), -1),
                     WEFT_OK);
    assert_int_equal(member_allgather(&member, &mine, all, sizeof mine), WEFT_OK);
    assert_memory_equal(all, answers, sizeof all);
    assert_int_equal(member_allgather(&member, &mine, all, sizeof mine), WEFT_ERR_PEER_DEAD);
    assert_string_equal(weft_last_error(), why);
    member_close(&member, false);
    wire_close(&pair.b);
}

int main(void)
{
    const struct crypto_driver *crypto;
    if (crypto_load(&crypto)) {
        print_message("skipped: %s\n", weft_last_error());
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hmac_is_that_of_the_rfc),
        cmocka_unit_test(plain_frames_arrive),
        cmocka_unit_test(keyed_frames_arrive),
        cmocka_unit_test(changed_frames_are_refused),
        cmocka_unit_test(oversized_frames_are_refused),
        cmocka_unit_test(descriptors_belong_to_their_frames),
        cmocka_unit_test(descriptors_come_in_order),
        cmocka_unit_test(descriptors_too_many_are_closed),
        cmocka_unit_test(frames_without_end_are_refused),
        cmocka_unit_test(errors_of_sending_are_told_apart),
        cmocka_unit_test(what_waits_goes_in_its_order),
        cmocka_unit_test(so_many_frames_wait_and_no_more),
        cmocka_unit_test(errors_of_receiving_are_told_apart),
        cmocka_unit_test(news_beside_an_exchange),
        cmocka_unit_test(an_answer_goes_before_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
