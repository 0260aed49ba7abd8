/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher's end of the PEs' sockets: exchanges, descriptors, and who has joined. A PE that
 * misbehaves ends the job; no PE can make the launcher wait. Knows nothing of processes' ends. */
#include "run.h"

#include "base/clock.h"
#include "base/status.h"
#include "boot/launch.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_QUEUED = 16384 };

static void end_job(struct run *run, int pe, weft_status status, int result, const char *format,
                    ...) __attribute__((format(printf, 5, 6)));

/* ------------------------------------------------------------------------------------ packets */

static struct run_packet *packet_make(enum launch_type type, int number, size_t payload_bytes)
{
    struct launch_header header = {LAUNCH_MAGIC, type, number, (uint32_t)payload_bytes};
    struct run_packet *packet = malloc(sizeof *packet + sizeof header + payload_bytes);
    if (!packet)
        return NULL;
    packet->references = 1;
    packet->fd = -1;
    packet->bytes = sizeof header + payload_bytes;
    memcpy(packet->data, &header, sizeof header);
    return packet;
}

static void packet_drop(struct run_packet *packet)
{
    if (!packet || --packet->references)
        return;
    if (packet->fd >= 0)
        close(packet->fd);
    free(packet);
}

static char *payload_of(struct run_packet *packet)
{
    return packet->data + sizeof(struct launch_header);
}

static ssize_t send_now(int socket, const struct run_packet *packet)
{
    struct iovec part = {(void *)packet->data, packet->bytes};
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control = {0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (packet->fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(rights), &packet->fd, sizeof(int));
    }
    return sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void drop_queue(struct run_pe *pe)
{
    while (pe->first) {
        struct run_queued *queued = pe->first;
        pe->first = queued->next;
        packet_drop(queued->packet);
        free(queued);
    }
    pe->last = NULL;
    pe->queued = 0;
}

void run_close_socket(struct run *run, int number)
{
    struct run_pe *pe = &run->pes[number];
    drop_queue(pe);
    if (pe->socket >= 0) {
        run_unwatch(run, pe->socket);
        close(pe->socket);
        pe->socket = -1;
    }
}

static void want_room(struct run *run, int number, bool wants)
{
    struct run_pe *pe = &run->pes[number];
    if (pe->wants_out == wants || pe->socket < 0)
        return;
    pe->wants_out = wants;
    run_rewatch(run, pe->socket, wants ? EPOLLIN | EPOLLOUT : EPOLLIN, RUN_EVENT_SOCKET, number);
}

void run_flush_socket(struct run *run, int number)
{
    struct run_pe *pe = &run->pes[number];
    while (pe->first) {
        struct run_queued *queued = pe->first;
        if (send_now(pe->socket, queued->packet) < 0) {
            if (errno == EAGAIN || errno == EINTR) {
                want_room(run, number, true);
                return;
            }
            /* until PEs have taken some, or the system has memory again; no event tells of it */
            if (errno == ETOOMANYREFS || errno == ENOBUFS || errno == ENOMEM) {
                run->retry_soon = true;
                return;
            }
            int error = errno;
            drop_queue(pe);
            if (error != EPIPE &&
                error != ECONNRESET) /* else it is gone; its exit tells the rest */
                end_job(run, number, WEFT_ERR_SYSTEM, 1, "sending to %s: %s",
                        run_pe_name(run, number), strerror(error));
            break;
        }
        pe->first = queued->next;
        pe->queued--;
        packet_drop(queued->packet);
        free(queued);
    }
    pe->last = NULL;
    want_room(run, number, false);
}

static void send_to(struct run *run, int number, struct run_packet *packet)
{
    struct run_pe *pe = &run->pes[number];
    if (pe->socket < 0)
        return;
    struct run_queued *queued = malloc(sizeof *queued);
    if (!queued || pe->queued == MOST_QUEUED) {
        free(queued);
        run_end(run, number, WEFT_ERR_JOB, 1, "a PE does not take what the launcher has for it");
        return;
    }
    *queued = (struct run_queued){.packet = packet};
    packet->references++;
    if (pe->last)
        pe->last->next = queued;
    else
        pe->first = queued;
    pe->last = queued;
    pe->queued++;
    if (pe->first == queued)
        run_flush_socket(run, number);
}

static void send_sentence(struct run *run, int pe, enum launch_type type, int number,
                          const char *sentence)
{
    size_t length = strnlen(sentence, LAUNCH_MOST_SENTENCE);
    struct run_packet *packet = packet_make(type, number, length);
    if (!packet)
        return;
    memcpy(payload_of(packet), sentence, length);
    send_to(run, pe, packet);
    packet_drop(packet);
}

void run_tell_end(struct run *run, int pe)
{
    if (run->pes[pe].told_the_end)
        return;
    run->pes[pe].told_the_end = true;
    send_sentence(run, pe, LAUNCH_END, run->end_status, run->end_sentence);
}

static void end_job(struct run *run, int pe, weft_status status, int result, const char *format,
                    ...)
{
    char sentence[LAUNCH_MOST_SENTENCE + 1];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    run_end(run, pe, status, result, sentence);
}

/* ------------------------------------------------------------------------------------ joining */

/* The program that joined is not our child, so only a pidfd tells when it ends. */
static void watch_program(struct run *run, int number)
{
    struct run_pe *pe = &run->pes[number];
#ifdef SYS_pidfd_open
    if (pe->program > 0 && pe->program != pe->pid)
        pe->program_pidfd = (int)syscall(SYS_pidfd_open, pe->program, 0);
    if (pe->program_pidfd >= 0)
        run_watch(run, pe->program_pidfd, EPOLLIN, RUN_EVENT_PROGRAM, number);
    else /* it has ended so soon that its parent has already reaped it */
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
    if (pe->joined)
        end_job(run, number, WEFT_ERR_PEER_DEAD, -1,
                "the program of %s, pid %d, ended without weft_finalize", run_pe_name(run, number),
                (int)pe->program);
}

static void receive_hello(struct run *run, int number, pid_t sender)
{
    struct run_pe *pe = &run->pes[number];
    if (pe->joined) {
        end_job(run, number, WEFT_ERR_JOB, 1, "%s joined the job twice without weft_finalize",
                run_pe_name(run, number));
        return;
    }
    pe->joined = true;
    pe->jobs++;
    pe->program = sender;
    pe->program_gone = false;
    watch_program(run, number);
    if (run->phase != RUN_WORKING) {
        run_tell_end(run, number);
        return;
    }
    for (int other = 0; other < run->started; other++) {
        if (run->pes[other].exited && run->pes[other].jobs < pe->jobs) {
            end_job(run, other, WEFT_ERR_PEER_DEAD, 1,
                    "%s ended before it joined the job that others wait in",
                    run_pe_name(run, other));
            return;
        }
    }
}

static void receive_bye(struct run *run, int number, bool clean)
{
    run_unwatch_program(run, number);
    if (clean)
        run->pes[number].joined = false;
    else
        end_job(run, number, WEFT_ERR_PEER_DEAD, -1, "%s left the job before weft_finalize",
                run_pe_name(run, number));
}

/* ------------------------------------------------------------------------------ the exchanges */

void run_forget_exchange(struct run *run)
{
    packet_drop(run->answer);
    run->answer = NULL;
    run->parts = 0;
    for (int pe = 0; pe < run->options.npes; pe++)
        run->pes[pe].gathering = false;
}

static bool begin_exchange(struct run *run, int pe, size_t bytes)
{
    if (bytes > launch_slice(run->options.npes)) {
        end_job(run, pe, WEFT_ERR_JOB, 1,
                "%s sent %zu bytes at once, more than the protocol allows", run_pe_name(run, pe),
                bytes);
        return false;
    }
    run->answer = packet_make(LAUNCH_ALL, 0, bytes * (size_t)run->options.npes);
    if (!run->answer) {
        end_job(run, -1, WEFT_ERR_NO_MEMORY, 1, "weft run has no memory for an exchange");
        return false;
    }
    run->part_bytes = bytes;
    return true;
}

static void receive_part(struct run *run, int number, const char *part, size_t bytes)
{
    struct run_pe *pe = &run->pes[number];
    if (pe->gathering) {
        end_job(run, number, WEFT_ERR_JOB, 1, "%s began an exchange while it was in one",
                run_pe_name(run, number));
        return;
    }
    if (!run->answer && !begin_exchange(run, number, bytes))
        return;
    if (bytes != run->part_bytes) {
        end_job(run, number, WEFT_ERR_MISMATCH, 1,
                "PE %d exchanges %zu bytes where others exchange %zu: the PEs do not make the same "
                "calls, or run different programs",
                number, bytes, run->part_bytes);
        return;
    }
    memcpy(payload_of(run->answer) + (size_t)number * bytes, part, bytes);
    pe->gathering = true;
    if (++run->parts < run->options.npes)
        return;
    struct run_packet *answer = run->answer;
    answer->references++;
    run_forget_exchange(run);
    for (int to = 0; to < run->options.npes; to++)
        send_to(run, to, answer);
    packet_drop(answer);
}

static void receive_fd(struct run *run, int from, int fd)
{
    struct run_packet *packet = packet_make(LAUNCH_FD, from, 0);
    if (fd < 0 || !packet) {
        end_job(run, from, WEFT_ERR_SYSTEM, 1,
                "a descriptor of PE %d did not arrive at weft run: raise the limit of open files "
                "(ulimit -n)",
                from);
        packet_drop(packet);
        if (fd >= 0)
            close(fd);
        return;
    }
    packet->fd = fd;
    for (int to = 0; to < run->options.npes; to++)
        if (to != from)
            send_to(run, to, packet);
    packet_drop(packet);
}

/* "PEs 2, 5 did not reach the exchange" */
static void answer_who(struct run *run, int asking)
{
    char text[LAUNCH_MOST_SENTENCE];
    int n = 0, missing = 0;
    for (int pe = 0; pe < run->options.npes; pe++) {
        if (run->pes[pe].gathering || pe == asking)
            continue;
        missing++;
        if (n < 300)
            n += snprintf(text + n, sizeof text - (size_t)n, "%s%d%s", missing > 1 ? ", " : "PE ",
                          pe, run->pes[pe].jobs ? "" : " (not in the job)");
    }
    snprintf(text + n, sizeof text - (size_t)n, "%s did not reach the exchange",
             n >= 300 ? ", ..." : "");
    send_sentence(run, asking, LAUNCH_MISSING, 0, text);
}

/* ---------------------------------------------------------------------------------- receiving */

static void receive_abort(struct run *run, int pe, int code, const char *text, size_t bytes)
{
    char clean[LAUNCH_MOST_SENTENCE + 1];
    size_t n = bytes < sizeof clean - 1 ? bytes : sizeof clean - 1;
    for (size_t i = 0; i < n; i++)
        clean[i] = (unsigned char)text[i] < ' ' ? ' ' : text[i];
    clean[n] = '\0';
    end_job(run, pe, WEFT_ERR_JOB, base_exit_status(code), "%s aborted the job with code %d: %s",
            run_pe_name(run, pe), code, clean);
}

void run_receive(struct run *run, int pe, const void *packet, size_t bytes, int fd, pid_t sender)
{
    struct launch_header header = {0};
    if (bytes >= sizeof header)
        memcpy(&header, packet, sizeof header);
    if (header.magic != LAUNCH_MAGIC || header.bytes != bytes - sizeof header) {
        if (fd >= 0)
            close(fd);
        end_job(run, pe, WEFT_ERR_VERSION, 1,
                "%s speaks another protocol: are weft run and the library of the program of the "
                "same version?",
                run_pe_name(run, pe));
        return;
    }
    const char *payload = (const char *)packet + sizeof header;
    if (header.type != LAUNCH_FD && fd >= 0)
        close(fd);
    if (!run->pes[pe].joined && header.type != LAUNCH_HELLO) {
        if (header.type == LAUNCH_FD && fd >= 0)
            close(fd);
        end_job(run, pe, WEFT_ERR_JOB, 1, "%s spoke before it joined the job",
                run_pe_name(run, pe));
        return;
    }
    switch (header.type) {
    case LAUNCH_HELLO:
        receive_hello(run, pe, sender);
        break;
    case LAUNCH_GATHER:
        receive_part(run, pe, payload, header.bytes);
        break;
    case LAUNCH_FD:
        receive_fd(run, pe, fd);
        break;
    case LAUNCH_BYE:
        receive_bye(run, pe, header.number == 1);
        break;
    case LAUNCH_ABORT:
        receive_abort(run, pe, header.number, payload, header.bytes);
        break;
    case LAUNCH_WHO:
        answer_who(run, pe);
        break;
    default:
        end_job(run, pe, WEFT_ERR_VERSION, 1, "%s sent a packet of unknown type %u",
                run_pe_name(run, pe), header.type);
    }
}

/* Sender and descriptors of a packet; a PE may pass one descriptor, more are closed. */
static void read_control(struct msghdr *message, pid_t *sender, int *fd)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET)
            continue;
        if (part->cmsg_type == SCM_CREDENTIALS) {
            struct ucred credentials;
            memcpy(&credentials, CMSG_DATA(part), sizeof credentials);
            *sender = credentials.pid;
        } else if (part->cmsg_type == SCM_RIGHTS) {
            size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            for (size_t i = 0; i < count; i++) {
                int passed;
                memcpy(&passed, CMSG_DATA(part) + i * sizeof passed, sizeof passed);
                if (*fd >= 0)
                    close(passed);
                else
                    *fd = passed;
            }
        }
    }
}

static void read_packets(struct run *run, int number)
{
    static char packet[sizeof(struct launch_header) + LAUNCH_MOST_PAYLOAD];
    union {
        char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
        struct cmsghdr aligned;
    } control;
    struct run_pe *pe = &run->pes[number];
    while (pe->socket >= 0) {
        struct iovec part = {packet, sizeof packet};
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = &control,
                                 .msg_controllen = sizeof control.bytes};
        ssize_t n = recvmsg(pe->socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0 && (errno == EINTR || errno == ECONNRESET))
            continue; /* reset: it left something unread; what it said before is still there */
        if (n <= 0) { /* every process of this PE has closed it */
            run_close_socket(run, number);
            pe->cut_off_ns = pe->joined ? clock_now_ns() : 0;
            run->some_cut_off |= pe->joined;
            return;
        }
        int fd = -1;
        pid_t sender = 0;
        read_control(&message, &sender, &fd);
        run_receive(run, number, packet, (size_t)n > sizeof packet ? 0 : (size_t)n, fd, sender);
    }
}

void run_serve(struct run *run, int number)
{
    struct run_pe *pe = &run->pes[number];
    read_packets(run, number);
    if (pe->joined && pe->program_gone && !pe->exited)
        run_program_ended(run, number);
}
