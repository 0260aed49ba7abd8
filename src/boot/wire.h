/* SPDX-License-Identifier: Apache-2.0 */
/* Frames over one connected stream socket (TCP or AF_UNIX). With a key every frame carries a tag
 * over its place in the stream and its contents, so that nothing can be put into, taken out of or
 * changed in a connection after its start. Knows nothing of what frames mean. */
#ifndef WEFT_BOOT_WIRE_H
#define WEFT_BOOT_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft.h>

struct boot_limit;

enum { WIRE_KEY_BYTES = 32, WIRE_MOST_PAYLOAD = 1 << 20, WIRE_MOST_FRAMES = 4096 };

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
    size_t bytes;
    char payload[]; /* and a zero after it */
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
    struct wire_frame *first; /* complete frames */
    struct wire_frame *last;
    int frames;
};

/* Takes the connected socket over; it becomes non-blocking. key: NULL for none, else two keys, the
 * first for what the connecting side sends. */
void wire_init(struct wire *wire, int fd, const uint8_t (*keys)[WIRE_KEY_BYTES], bool connecting);
void wire_close(struct wire *wire);

/* Sends one frame, with a descriptor or -1. Waits for room at most as long as the limit, which may
 * be NULL: then it does not wait, and the frame may be cut. */
weft_status wire_send(struct wire *wire, struct boot_limit *limit, uint32_t type, int number,
                      const void *payload, size_t bytes, int fd);

/* Takes in what has arrived, without waiting. WEFT_ERR_PEER_DEAD: the other side has closed it
 * (what came before can still be taken); WEFT_ERR_BOOT: what arrived is not from our peer. */
weft_status wire_read(struct wire *wire);

/* Takes bytes that were read by other means, as wire_read() does; for tests. */
weft_status wire_feed(struct wire *wire, const void *bytes, size_t count);

/* The oldest complete frame, or NULL; the caller frees it, and closes its descriptor. */
struct wire_frame *wire_take(struct wire *wire);

#endif
