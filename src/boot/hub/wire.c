/* SPDX-License-Identifier: Apache-2.0 */
/* Frames over one stream socket. See wire.h. */
#include "boot/hub/wire.h"

#include "base/status.h"
#include "boot/methods.h"
#include "driver/crypto.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define WIRE_MAGIC 0x57465702u

enum { READ_BYTES = 16384 };

void wire_init(struct wire *wire, int fd, const uint8_t (*keys)[WIRE_KEY_BYTES], bool connecting)
{
    *wire = (struct wire){.fd = fd, .keyed = keys != NULL};
    if (keys) {
        memcpy(wire->send_key, keys[connecting ? 0 : 1], WIRE_KEY_BYTES);
        memcpy(wire->receive_key, keys[connecting ? 1 : 0], WIRE_KEY_BYTES);
    }
    if (fd >= 0)
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/* ------------------------------------------------------------------------------------ tagging */

/* Tag of frame number `place` in its direction; `frame` has space for the number before the
 * contents. */
static bool make_tag(const uint8_t *key, uint64_t place, char *frame, size_t bytes, uint8_t *tag)
{
    const struct crypto_driver *crypto;
    if (crypto_load(&crypto))
        return false;
    memcpy(frame, &place, sizeof place);
    return crypto->hmac_sha256(key, WIRE_KEY_BYTES, frame, sizeof place + bytes, tag);
}

static bool check_tag(struct wire *wire, const char *frame, size_t bytes)
{
    uint8_t tag[CRYPTO_MAC_BYTES];
    char *copy = malloc(sizeof(uint64_t) + bytes);
    if (!copy)
        return false;
    memcpy(copy + sizeof(uint64_t), frame, bytes);
    bool good = make_tag(wire->receive_key, wire->received, copy, bytes, tag) &&
                crypto_equal(tag, (const uint8_t *)frame + bytes);
    free(copy);
    return good;
}

/* ------------------------------------------------------------------------------------ sending */

static ssize_t send_some(struct wire *wire, const char *data, size_t bytes, int fd)
{
    struct iovec part = {(void *)data, bytes};
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control = {0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(rights), &fd, sizeof fd);
    }
    return sendmsg(wire->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Sends until all bytes are sent or the socket accepts no more. */
static weft_status send_rest(struct wire *wire, const char *data, size_t bytes, size_t *done,
                             int fd)
{
    wire->starved = false;
    while (*done < bytes) {
        ssize_t n = send_some(wire, data + *done, bytes - *done, *done ? -1 : fd);
        if (n >= 0) {
            *done += (size_t)n;
        } else if (errno == EPIPE || errno == ECONNRESET) {
            return base_fail(WEFT_ERR_PEER_DEAD, "the peer has closed the connection");
        } else if (errno == ETIMEDOUT || errno == EHOSTUNREACH || errno == ENETUNREACH) {
            wire->error = errno;
            return base_fail(WEFT_ERR_PEER_DEAD, "the other side does not answer any more: %s",
                             strerror(errno));
        } else if (errno == EAGAIN) {
            return WEFT_OK;
        } else if (errno == ENOBUFS || errno == ENOMEM || errno == ETOOMANYREFS) {
            wire->starved = true;
            return WEFT_OK;
        } else if (errno != EINTR) {
            return base_fail(WEFT_ERR_SYSTEM, "sending on a boot connection: %s", strerror(errno));
        }
    }
    return WEFT_OK;
}

static weft_status queue_unsent(struct wire *wire, const char *data, size_t bytes, size_t done,
                                int fd)
{
    if (wire->unsent_count == WIRE_MOST_UNSENT)
        return base_fail(WEFT_ERR_BOOT, "the peer of a boot connection receives nothing");
    struct wire_unsent *unsent = malloc(sizeof *unsent + bytes);
    if (!unsent)
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for a frame of %zu bytes", bytes);
    *unsent = (struct wire_unsent){.fd = -1, .bytes = bytes, .done = done};
    memcpy(unsent->data, data, bytes);
    if (fd >= 0 && done == 0 && (unsent->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)) < 0) {
        free(unsent);
        return base_fail(WEFT_ERR_SYSTEM, "duplicating descriptor %d: %s", fd, strerror(errno));
    }
    if (wire->unsent_last)
        wire->unsent_last->next = unsent;
    else
        wire->unsent = unsent;
    wire->unsent_last = unsent;
    wire->unsent_count++;
    return WEFT_OK;
}

static void free_first_unsent(struct wire *wire)
{
    struct wire_unsent *unsent = wire->unsent;
    wire->unsent = unsent->next;
    if (!wire->unsent)
        wire->unsent_last = NULL;
    wire->unsent_count--;
    if (unsent->fd >= 0)
        close(unsent->fd);
    free(unsent);
}

weft_status wire_flush(struct wire *wire)
{
    while (wire->unsent && wire->fd >= 0) {
        struct wire_unsent *unsent = wire->unsent;
        weft_status status =
            send_rest(wire, unsent->data, unsent->bytes, &unsent->done, unsent->fd);
        if (status)
            return status;
        if (unsent->done < unsent->bytes)
            return WEFT_OK;
        free_first_unsent(wire);
    }
    return WEFT_OK;
}

weft_status wire_post(struct wire *wire, uint32_t type, int number, const void *payload,
                      size_t bytes, int fd)
{
    const size_t place = sizeof(uint64_t);
    struct wire_header header = {WIRE_MAGIC, type, number, (uint32_t)bytes};
    if (wire->fd < 0)
        return base_fail(WEFT_ERR_PEER_DEAD, "the peer has closed the connection");
    if (wire->simulation) {
        wire->sent++;
        wire->simulation->post(wire->simulation, type, number, payload, bytes);
        return WEFT_OK;
    }
    char *frame = malloc(place + sizeof header + bytes + CRYPTO_MAC_BYTES);
    if (!frame)
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for a frame of %zu bytes", bytes);
    memcpy(frame + place, &header, sizeof header);
    if (bytes)
        memcpy(frame + place + sizeof header, payload, bytes);
    size_t total = sizeof header + bytes, done = 0;
    weft_status status = WEFT_OK;
    if (wire->keyed) {
        if (!make_tag(wire->send_key, wire->sent, frame, total, (uint8_t *)frame + place + total))
            status = base_fail(WEFT_ERR_SYSTEM, "HMAC-SHA256 of a frame could not be computed");
        total += CRYPTO_MAC_BYTES;
    }
    if (!status && !wire->unsent) /* else it is queued after the unsent frames */
        status = send_rest(wire, frame + place, total, &done, fd);
    if (!status && done < total)
        status = queue_unsent(wire, frame + place, total, done, fd);
    wire->sent++;
    free(frame);
    return status;
}

weft_status wire_send(struct wire *wire, struct boot_limit *limit, uint32_t type, int number,
                      const void *payload, size_t bytes, int fd)
{
    weft_status status = wire_post(wire, type, number, payload, bytes, fd);
    while (!status && wire->unsent) {
        if (!limit ||
            !(wire->starved ? boot_limit_pause(limit) : boot_limit_poll(limit, wire->fd, POLLOUT)))
            return limit && limit->interrupted
                       ? WEFT_ERR_INTERRUPTED
                       : base_fail(WEFT_ERR_TIMEOUT, "the peer of a boot connection received "
                                                     "nothing within WEFT_WAIT_LIMIT");
        status = wire_flush(wire);
    }
    return status;
}

/* ---------------------------------------------------------------------------------- receiving */

static void read_control(struct wire *wire, struct msghdr *message)
{
    const int room = (int)(sizeof wire->fds / sizeof wire->fds[0]);
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_CREDENTIALS) {
            struct ucred credentials;
            memcpy(&credentials, CMSG_DATA(part), sizeof credentials);
            wire->sender = credentials.pid;
        }
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
            if (wire->nfds < room)
                wire->fds[wire->nfds++] = fd;
            else
                close(fd);
        }
    }
}

static int next_descriptor(struct wire *wire)
{
    if (wire->nfds == 0)
        return -1;
    int fd = wire->fds[0];
    memmove(wire->fds, wire->fds + 1, (size_t)--wire->nfds * sizeof fd);
    return fd;
}

static bool carries_descriptor(uint32_t type)
{
    return type & 0x80000000u;
}

static weft_status queue_frame(struct wire *wire, const struct wire_header *header,
                               const char *payload)
{
    if (wire->frames >= WIRE_MOST_FRAMES)
        return base_fail(WEFT_ERR_BOOT, "the peer of a boot connection sends too many frames");
    struct wire_frame *frame =
        wire_frame_make(header->type, header->number, payload, header->bytes, -1);
    if (!frame)
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for a frame of %u bytes", header->bytes);
    if (carries_descriptor(header->type))
        frame->fd = next_descriptor(wire);
    frame->sender = wire->sender;
    wire_push(wire, frame);
    return WEFT_OK;
}

/* Splits the received bytes into complete frames. */
static weft_status split_frames(struct wire *wire)
{
    const size_t tag_bytes = wire->keyed ? CRYPTO_MAC_BYTES : 0;
    size_t at = 0;
    weft_status status = WEFT_OK;
    while (!status && wire->in_used - at >= sizeof(struct wire_header)) {
        struct wire_header header;
        memcpy(&header, wire->in + at, sizeof header);
        if (header.magic != WIRE_MAGIC || header.bytes > WIRE_MOST_PAYLOAD)
            return base_fail(WEFT_ERR_BOOT, "received data on a boot connection that is no "
                                            "frame of this version of Weft");
        size_t whole = sizeof header + header.bytes;
        if (wire->in_used - at < whole + tag_bytes)
            break;
        if (wire->keyed && !check_tag(wire, wire->in + at, whole))
            return base_fail(WEFT_ERR_BOOT,
                             "a frame on a boot connection has a wrong tag: a process "
                             "without the job's secret has changed it");
        status = queue_frame(wire, &header, wire->in + at + sizeof header);
        wire->received++;
        at += whole + tag_bytes;
    }
    wire->in_used -= at;
    memmove(wire->in, wire->in + at, wire->in_used);
    return status;
}

static bool reserve_input(struct wire *wire, size_t more)
{
    size_t size = wire->in_size ? wire->in_size : READ_BYTES;
    while (size < wire->in_used + more)
        size *= 2;
    if (size == wire->in_size)
        return true;
    char *moved = realloc(wire->in, size);
    if (!moved)
        return false;
    wire->in = moved;
    wire->in_size = size;
    return true;
}

weft_status wire_feed(struct wire *wire, const void *bytes, size_t count)
{
    if (!reserve_input(wire, count))
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for data received on a boot connection");
    memcpy(wire->in + wire->in_used, bytes, count);
    wire->in_used += count;
    return split_frames(wire);
}

weft_status wire_read(struct wire *wire)
{
    if (wire->simulation && wire->fd >= 0)
        return wire->simulation->closed
                   ? base_fail(WEFT_ERR_PEER_DEAD, "the peer has closed the connection")
                   : WEFT_OK;
    union {
        char bytes[CMSG_SPACE(sizeof wire->fds) + CMSG_SPACE(sizeof(struct ucred))];
        struct cmsghdr aligned;
    } control;
    for (;;) {
        if (wire->fd < 0)
            return base_fail(WEFT_ERR_PEER_DEAD, "the peer has closed the connection");
        if (!reserve_input(wire, READ_BYTES / 2))
            return base_fail(WEFT_ERR_NO_MEMORY, "no memory for received data");
        size_t room = wire->in_size - wire->in_used;
        struct iovec part = {wire->in + wire->in_used, room};
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = &control,
                                 .msg_controllen = sizeof control.bytes};
        ssize_t n = recvmsg(wire->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        /* The kernel reports a reset once; data from before it can still be read afterwards. */
        if (n < 0 && errno == ECONNRESET)
            n = recvmsg(wire->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return WEFT_OK;
        if (n < 0 && errno != ECONNRESET)
            wire->error = errno;
        if (n <= 0)
            return base_fail(WEFT_ERR_PEER_DEAD, "the peer has closed the connection%s%s",
                             n < 0 ? ": " : "", n < 0 ? strerror(errno) : "");
        read_control(wire, &message);
        wire->in_used += (size_t)n;
        weft_status status = split_frames(wire);
        if (status || (size_t)n < room)
            return status;
    }
}

/* -------------------------------------------------------------------------------------- frames */

void wire_close(struct wire *wire)
{
    struct wire_frame *frame;
    while ((frame = wire_take(wire)))
        wire_frame_free(frame);
    while (wire->unsent)
        free_first_unsent(wire);
    while (wire->nfds > 0)
        close(wire->fds[--wire->nfds]);
    free(wire->in);
    wire->in = NULL;
    wire->in_used = wire->in_size = 0;
    if (wire->fd >= 0 && !wire->simulation)
        close(wire->fd);
    wire->fd = -1;
}

struct wire_frame *wire_take(struct wire *wire)
{
    struct wire_frame *frame = wire->first;
    if (!frame)
        return NULL;
    wire->first = frame->next;
    if (!wire->first)
        wire->last = NULL;
    wire->frames--;
    return frame;
}

void wire_push(struct wire *wire, struct wire_frame *frame)
{
    frame->next = NULL;
    if (wire->last)
        wire->last->next = frame;
    else
        wire->first = frame;
    wire->last = frame;
    wire->frames++;
}

struct wire_frame *wire_frame_make(uint32_t type, int number, const void *payload, size_t bytes,
                                   int fd)
{
    struct wire_frame *frame = malloc(sizeof *frame + bytes + 1);
    if (!frame)
        return NULL;
    *frame = (struct wire_frame){.fd = fd, .type = type, .number = number, .bytes = bytes};
    if (bytes)
        memcpy(frame->payload, payload, bytes);
    frame->payload[bytes] = '\0';
    return frame;
}

void wire_frame_free(struct wire_frame *frame)
{
    if (frame && frame->fd >= 0)
        close(frame->fd);
    free(frame);
}
