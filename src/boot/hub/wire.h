/* SPDX-License-Identifier: Apache-2.0 */
/* Frames over one connected stream socket (TCP or AF_UNIX), received and sent without waiting. With
 * a key every frame carries a tag over its place in the stream and its contents, so that nothing
 * can be put into, taken out of or changed in a connection after its start. Knows nothing of what
 * frames mean. */
#ifndef WEFT_BOOT_WIRE_H
#define WEFT_BOOT_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <weft.h>

struct boot_limit;

enum {
    WIRE_KEY_BYTES = 32,
    WIRE_MOST_PAYLOAD = 1 << 20,
    WIRE_MOST_FRAMES = 4096,
    WIRE_MOST_UNSENT = 16384
};

struct wire_header {
    uint32_t magic;
    uint32_t type;
    int32_t number;
    uint32_t bytes;
};

struct wire_frame {
    struct wire_frame *next;
    int fd; /* came with it, or -1 */
    uint32_t type;
    int32_t number;
    pid_t sender; /* over AF_UNIX with SO_PASSCRED: the process that sent it; else 0 */
    size_t bytes;
    char payload[]; /* and a zero after it */
};

/* A frame, or the rest of one, for which there was no room. */
struct wire_unsent {
    struct wire_unsent *next;
    int fd; /* a duplicate, or -1 when there is none or it has gone */
    size_t bytes;
    size_t done;
    char data[];
};

struct wire {
    int fd;
    bool keyed;
    uint8_t send_key[WIRE_KEY_BYTES];
    uint8_t receive_key[WIRE_KEY_BYTES];
    uint64_t sent;
    uint64_t received;
    char *in; /* bytes that are no whole frame yet */
    size_t in_used;
    size_t in_size;
    int fds[16]; /* descriptors whose frame is not complete yet */
    int nfds;
    pid_t sender; /* of what has arrived last */
    struct wire_unsent *unsent;
    struct wire_unsent *unsent_last;
    int unsent_count;
    int error;                /* errno that broke the connection; 0: the other side closed it */
    bool starved;             /* there was no memory for sending: no event tells when there is */
    struct wire_frame *first; /* complete frames */
    struct wire_frame *last;
    int frames;
};

/* Takes the connected socket over; it becomes non-blocking. key: NULL for none, else two keys, the
 * first for what the connecting side sends. */
void wire_init(struct wire *wire, int fd, const uint8_t (*keys)[WIRE_KEY_BYTES], bool connecting);
void wire_close(struct wire *wire);

/* Sends one frame, with a descriptor or -1 (which stays the caller's). What does not go at once is
 * kept in wire->unsent until wire_flush() finds room. */
weft_status wire_post(struct wire *wire, uint32_t type, int number, const void *payload,
                      size_t bytes, int fd);
weft_status wire_flush(struct wire *wire);

/* The same, but waits until all has gone, as long as the limit allows. */
weft_status wire_send(struct wire *wire, struct boot_limit *limit, uint32_t type, int number,
                      const void *payload, size_t bytes, int fd);

/* Takes in what has arrived, without waiting. WEFT_ERR_PEER_DEAD: the other side has closed it
 * (what came before can still be taken); WEFT_ERR_BOOT: what arrived is not from our peer. */
weft_status wire_read(struct wire *wire);

/* Takes bytes that were read by other means, as wire_read() does; for tests. */
weft_status wire_feed(struct wire *wire, const void *bytes, size_t count);

/* The oldest complete frame, or NULL; the caller frees it, and closes its descriptor. */
struct wire_frame *wire_take(struct wire *wire);

/* A frame without a wire, and putting one (back) at the end of a wire's complete frames. */
struct wire_frame *wire_frame_make(uint32_t type, int number, const void *payload, size_t bytes,
                                   int fd);
void wire_push(struct wire *wire, struct wire_frame *frame);
void wire_frame_free(struct wire_frame *frame); /* and closes its descriptor */

#endif
