/* SPDX-License-Identifier: Apache-2.0 */
/* Decoder of LZ4 frames. See lz4.h. */
#include "base/lz4.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAGIC = 0x184D2204,
    VERSION = 0x40, /* the two highest bits of the first byte of the descriptor, and their value */
    VERSION_MASK = 0xc0,
    BLOCK_CHECKSUMS = 0x10,
    HAS_SIZE = 0x08,
    HAS_DICTIONARY = 0x01,
    SHORTEST_MATCH = 4,
    MOST_TIMES = 255, /* that the content is larger than its frame: a byte is a length of 255 */
    HEADER_BYTES = 4 + 2 + 8 + 1, /* magic, descriptor, size of the content, checksum */
};
static const uint32_t STORED = UINT32_C(1) << 31; /* in the size of a block: not compressed */

struct input {
    const uint8_t *at, *end;
};

struct output {
    uint8_t *begin, *at, *end;
};

static uint32_t read_32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Reads the rest of a length whose first 4 bits are all ones. */
static bool read_length(struct input *in, size_t *length)
{
    uint8_t byte;
    do {
        if (in->at == in->end)
            return false;
        byte = *in->at++;
        *length += byte;
    } while (byte == 255);
    return true;
}

static bool copy_literals(struct input *in, struct output *out, size_t length)
{
    if (length > (size_t)(in->end - in->at) || length > (size_t)(out->end - out->at))
        return false;
    memcpy(out->at, in->at, length);
    in->at += length;
    out->at += length;
    return true;
}

/* Byte by byte: a match may overlap what it makes. */
static bool copy_match(struct output *out, size_t distance, size_t length)
{
    if (!distance || distance > (size_t)(out->at - out->begin) ||
        length > (size_t)(out->end - out->at))
        return false;
    for (const uint8_t *from = out->at - distance; length; length--)
        *out->at++ = *from++;
    return true;
}

static bool decode_block(struct input in, struct output *out)
{
    while (in.at < in.end) {
        uint8_t token = *in.at++;
        size_t literals = token >> 4, match = token & 15;
        if (literals == 15 && !read_length(&in, &literals))
            return false;
        if (!copy_literals(&in, out, literals))
            return false;
        if (in.at == in.end)
            return true; /* the last sequence has no match */
        if (in.end - in.at < 2)
            return false;
        size_t distance = (size_t)in.at[0] | (size_t)in.at[1] << 8;
        in.at += 2;
        if (match == 15 && !read_length(&in, &match))
            return false;
        if (!copy_match(out, distance, match + SHORTEST_MATCH))
            return false;
    }
    return true;
}

static bool decode_blocks(struct input in, bool checksums, struct output *out)
{
    while (in.end - in.at >= 4) {
        uint32_t word = read_32(in.at);
        size_t size = word & ~STORED, trailer = checksums ? 4 : 0;
        in.at += 4;
        if (!word)
            return out->at == out->end;
        if (size > (size_t)(in.end - in.at) || trailer > (size_t)(in.end - in.at) - size)
            return false;
        struct input block = {in.at, in.at + size};
        if (word & STORED ? !copy_literals(&block, out, size) : !decode_block(block, out))
            return false;
        in.at += size + trailer;
    }
    return false;
}

bool lz4_is_frame(const void *frame, size_t bytes)
{
    return bytes >= 4 && read_32(frame) == MAGIC;
}

char *lz4_decode(const void *frame, size_t bytes, size_t *content_bytes)
{
    const uint8_t *at = frame;
    if (bytes < HEADER_BYTES || !lz4_is_frame(frame, bytes))
        return NULL;
    uint8_t flags = at[4];
    uint64_t size = read_32(at + 6) | (uint64_t)read_32(at + 10) << 32;
    if ((flags & VERSION_MASK) != VERSION || !(flags & HAS_SIZE) || flags & HAS_DICTIONARY ||
        size / MOST_TIMES > bytes)
        return NULL;
    uint8_t *content = malloc((size_t)size + 1);
    if (!content)
        return NULL;
    struct output out = {content, content, content + size};
    if (!decode_blocks((struct input){at + HEADER_BYTES, at + bytes}, flags & BLOCK_CHECKSUMS,
                       &out)) {
        free(content);
        return NULL;
    }
    *out.at = 0;
    *content_bytes = (size_t)size;
    return (char *)content;
}
