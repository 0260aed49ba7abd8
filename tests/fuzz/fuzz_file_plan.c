/* SPDX-License-Identifier: Apache-2.0 */
/* How a file transfer is split into fragments. The bytes are alignments, chunk size, offset, length
 * and address. For any values the fragments cover the transfer and meet the requirements of the
 * file. */
#include "tests/unit/file_cuts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

struct input {
    uint64_t offset, length, address;
    uint32_t chunks;
    uint8_t flags, alignment, memory_alignment;
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct input in;
    size_t count;
    if (size < sizeof in)
        return 0;
    memcpy(&in, bytes, sizeof in);
    uint32_t alignment = 1u << (12 + in.alignment % 5);
    struct file_shape shape = {.write = in.flags & 1,
                               .direct = in.flags & 2,
                               .in_place = in.flags & 4,
                               .alignment = alignment,
                               .memory_alignment = 1u << (in.memory_alignment % 13),
                               .chunk = (size_t)alignment * (1 + in.chunks % 64),
                               .offset = in.offset >> 1,
                               .address = (uintptr_t)in.address >> 1};
    uint64_t most = (uint64_t)INT64_MAX - shape.offset;
    shape.bytes = in.length % ((size_t)64 << 20);
    if (shape.bytes > most)
        shape.bytes = most;
    const char *wrong = wrong_cuts(&shape, &count);
    if (!wrong && shape.bytes && count > shape.bytes / shape.chunk + 4)
        wrong = "more pieces than chunks";
    if (wrong) {
        fprintf(stderr, "%s\n", wrong);
        abort();
    }
    return 0;
}
