/* SPDX-License-Identifier: Apache-2.0 */
/* Data on a TCP connection of the boot module, in fragments, and bytes of an unauthenticated peer
 * in place of a handshake. Only complete frames are returned, and no peer without the secret is
 * admitted. */
#include "boot/hub/wire.h"
#include "boot/rendezvous/handshake.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void feed(const uint8_t *bytes, size_t size, const uint8_t (*keys)[WIRE_KEY_BYTES])
{
    struct wire wire;
    size_t piece = size ? bytes[0] + 1u : 1, fed = 0;
    wire_init(&wire, -1, keys, true);
    while (size) {
        size_t now = size < piece ? size : piece;
        fed += now;
        if (wire_feed(&wire, bytes, now))
            break;
        bytes += now, size -= now;
    }
    struct wire_frame *frame;
    while ((frame = wire_take(&wire))) {
        if (keys || frame->bytes > fed || frame->fd != -1 || frame->payload[frame->bytes])
            abort(); /* with a key no frame passes, because the tag cannot be guessed */
        free(frame);
    }
    wire_close(&wire);
}

static void judge(const uint8_t *bytes, size_t size)
{
    struct rendezvous rendezvous = {.what = "fuzz", .n = 8, .key = "secret", .key_bytes = 6};
    struct handshake_greeting greeting = {0};
    struct handshake_record hello = {0};
    struct handshake_proof proof = {0};
    size_t first = size < sizeof hello ? size : sizeof hello;
    memcpy(&hello, bytes, first);
    memcpy(&proof, bytes + first, size - first < sizeof proof ? size - first : sizeof proof);
    if (handshake_check_proof(&rendezvous, HANDSHAKE_MEMBER, &greeting, &hello, &proof) ||
        handshake_check_proof(&rendezvous, HANDSHAKE_HUB, &greeting, &hello, &proof))
        abort();
    if (!handshake_check_record(&rendezvous, &hello) && (hello.member < 1 || hello.member >= 8))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const uint8_t keys[2][WIRE_KEY_BYTES] = {{1}, {2}};
    feed(bytes, size, NULL);
    feed(bytes, size, keys);
    judge(bytes, size);
    return 0;
}
