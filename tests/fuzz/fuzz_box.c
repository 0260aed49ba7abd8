/* SPDX-License-Identifier: Apache-2.0 */
/* `weft attach` reads memory that a broken program may have overwritten: any bytes in the black
 * boxes must give a sentence, in bounded time. */
#include "attach.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PES = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct attach_pe pes[PES];
    struct attach_job job = {.count = PES, .now_ns = 1, .pes = pes};
    for (int i = 0; i < PES; i++) {
        char *bytes = (char *)&pes[i].box;
        for (size_t at = 0; at < sizeof pes[i].box; at++)
            bytes[at] = size ? (char)data[(at * 7 + (size_t)i * 131 + at / 64) % size] : 0;
        pes[i].present = size && data[i % (int)size] & 1;
        pes[i].alive = size && data[i % (int)size] & 2;
        /* small numbers, so that waits do point at each other */
        for (int w = 0; w < BOX_WAITS; w++)
            pes[i].box.waits[w].peer %= PES + 1;
        pes[i].box.pe = i;
    }
    char sentence[512];
    attach_diagnose(&job, sentence, sizeof sentence);
    if (!memchr(sentence, '\0', sizeof sentence) || !sentence[0])
        abort();
    return 0;
}
