/* SPDX-License-Identifier: Apache-2.0 */
/* Encrypted messages that arrive at a PE: any bytes, and messages of its peer that were changed on
 * the way. The PE accepts a message as its peer made it, once, and drops everything else; what it
 * drops does not change which messages it accepts afterwards.
 *
 * Input: for each message a byte of enum control, then a byte with the number of changes, and for
 * each change two bytes for the place and one that is XORed; or two bytes for the length, and the
 * bytes. */
#include "path/net/encrypt.c" /* for the keys */

#include <stdio.h>

enum control {
    GENUINE = 1, /* a message of the peer, changed; else any bytes */
    SHORTER = 2, /* the last byte is missing */
    LONGER = 4,  /* a byte more */
    LATER = 8,   /* The peer has sent many others before. */
    AGAIN = 16,  /* the same message as before */
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static struct end {
    struct path_world world;
    struct path_common net;
    struct net_peer peers[2];
    struct buffer {
        struct net_message message;
        unsigned char envelope[NET_WIRE_BYTES];
    } buffer;
} ends[2];

static void open_ends(void)
{
    if (cipher_load())
        exit(0);
    for (int pe = 0; pe < 2; pe++) {
        struct end *end = &ends[pe];
        *end = (struct end){.world = {.pe = pe, .npes = 2}};
        end->net = (struct path_common){.world = &end->world, .peers = end->peers};
        end->peers[1 - pe].pe = 1 - pe;
        end->buffer.message.envelope = (struct net_envelope *)(void *)end->buffer.envelope;
        end->buffer.message.post.peer = &end->peers[1 - pe];
        if (net_begin_encryption(&end->net))
            abort();
    }
    for (int pe = 0; pe < 2; pe++)
        memcpy(ends[1 - pe].net.encryption->public_keys[pe],
               ends[pe].net.encryption->public_keys[pe], CIPHER_POINT_BYTES);
}

/* PE 0 decrypts what has arrived in its buffer. */
static bool accepts(const void *envelope, size_t bytes)
{
    memcpy(ends[0].buffer.envelope, envelope, bytes);
    return net_decrypt_message(&ends[0].net, &ends[0].buffer.message, bytes) != 0;
}

static void make_message(struct net_message *message, bool later)
{
    struct net_pair *pair = get_pair(&ends[1].net, 0);
    *net_message_head(message) =
        (struct net_head){.from = 1, .bytes = sizeof(struct net_head) + 40};
    message->encrypted_bytes = 0;
    if (pair && later && !(pair->sent >> NET_KEY_MESSAGES_LOG2))
        pair->sent += NET_EARLY_MOST + 7;
    if (!pair || !net_encrypt_message(&ends[1].net, message))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static unsigned char arriving[NET_WIRE_BYTES];
    struct net_message *message = &ends[1].buffer.message;
    open_ends();
    make_message(message, false);
    bool received = false;
    while (size >= 2) {
        uint8_t control = bytes[0];
        size_t count = bytes[1];
        bytes += 2, size -= 2;
        if (control & GENUINE) {
            if (!(control & AGAIN)) {
                make_message(message, control & LATER);
                received = false;
            }
            size_t length = message->encrypted_bytes;
            memset(arriving, 0, sizeof arriving);
            memcpy(arriving, ends[1].buffer.envelope, length);
            for (; count && size >= 3; count--, bytes += 3, size -= 3)
                arriving[(bytes[0] << 8 | bytes[1]) % length] ^= bytes[2];
            length += (control & LONGER) / LONGER;
            length -= (control & SHORTER) / SHORTER;
            bool changed = length != message->encrypted_bytes ||
                           memcmp(arriving, ends[1].buffer.envelope, length) != 0;
            if (accepts(arriving, length) != (!changed && !received))
                abort();
            received |= !changed;
        } else {
            count = count << 5 < size ? count << 5 : size;
            memcpy(arriving, bytes, count);
            if (accepts(arriving, count))
                abort();
            bytes += count, size -= count;
        }
    }
    if (accepts(ends[1].buffer.envelope, message->encrypted_bytes) == received)
        abort();
    net_end_encryption(&ends[0].net);
    net_end_encryption(&ends[1].net);
    return 0;
}
