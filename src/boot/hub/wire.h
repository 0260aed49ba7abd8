/* SPDX-License-Identifier: Apache-2.0 */
/* Frames over one connected stream socket (TCP or AF_UNIX), received and sent without waiting. With
 * a key every frame has an authentication tag over its position in the stream and its contents, so
 * that no process can insert, remove or change frames of an established connection. Knows nothing
 * of what frames mean. */
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
    int fd; /* descriptor that came with the frame, or -1 */
    uint32_t type;
    int32_t number;
    pid_t sender; /* over AF_UNIX with SO_PASSCRED: the process that sent it; else 0 */
    size_t bytes;
    char payload[]; /* followed by a zero byte */
};

/* A frame, or the rest of one, that the socket did not accept yet. */
struct wire_unsent {
    struct wire_unsent *next;
    int fd; /* a duplicate; -1: none, or it has been sent */
    size_t bytes;
    size_t done;
    char data[];
};

struct wire;

/* Takes the frames of a wire in place of a socket, and puts them at the end of another wire's
 * frames by wire_push(): for simulations of many PEs. */
struct wire_simulation {
    void (*post)(struct wire_simulation *simulation, uint32_t type, int number, const void *payload,
                 size_t bytes);
    bool closed; /* the peer has closed its end */
};

struct wire {
    int fd;
    struct wire_simulation *simulation; /* NULL: frames go through the socket `fd` */
    bool keyed;
    uint8_t send_key[WIRE_KEY_BYTES];
    uint8_t receive_key[WIRE_KEY_BYTES];
    uint64_t sent;
    uint64_t received;
    char *in; /* received bytes that are not a complete frame yet */
    size_t in_used;
    size_t in_size;
    int fds[16]; /* received descriptors whose frame is not complete yet */
    int nfds;
    pid_t sender; /* process that sent the last received data */
    struct wire_unsent *unsent;
    struct wire_unsent *unsent_last;
    int unsent_count;
    int error;                /* errno that broke the connection; 0: the peer closed it */
    bool starved;             /* the kernel had no memory for sending: no event reports when it
                                 has */
    struct wire_frame *first; /* complete frames */
    struct wire_frame *last;
    int frames;
};

/* Takes the connected socket over and makes it non-blocking. keys: NULL for none, else two keys,
 * the first for the direction from the connecting side. */
void wire_init(struct wire *wire, int fd, const uint8_t (*keys)[WIRE_KEY_BYTES], bool connecting);
void wire_close(struct wire *wire);

/* Sends one frame, with a descriptor or -1 (the caller keeps it). What the socket does not accept
 * is kept in wire->unsent until wire_flush() can send it. */
weft_status wire_post(struct wire *wire, uint32_t type, int number, const void *payload,
                      size_t bytes, int fd);
weft_status wire_flush(struct wire *wire);

/* The same, but waits until everything is sent, at most for the limit. */
weft_status wire_send(struct wire *wire, struct boot_limit *limit, uint32_t type, int number,
                      const void *payload, size_t bytes, int fd);

/* Reads what has arrived, without waiting. WEFT_ERR_PEER_DEAD: the peer has closed the connection
 * (earlier frames can still be taken). WEFT_ERR_BOOT: the data are not from a peer of this job. */
weft_status wire_read(struct wire *wire);

/* Handles bytes that were read by other means, as wire_read() does; for tests. */
weft_status wire_feed(struct wire *wire, const void *bytes, size_t count);

/* Returns the oldest complete frame, or NULL; the caller frees it and closes its descriptor. */
struct wire_frame *wire_take(struct wire *wire);

/* Make a frame without a wire, and put a frame at the end of a wire's complete frames. */
struct wire_frame *wire_frame_make(uint32_t type, int number, const void *payload, size_t bytes,
                                   int fd);
void wire_push(struct wire *wire, struct wire_frame *frame);
void wire_frame_free(struct wire_frame *frame); /* also closes its descriptor */

#endif
