/* SPDX-License-Identifier: Apache-2.0 */
/* `weft attach` reads memory that a broken program may have overwritten: for any bytes in the black
 * boxes it prints printable text and a message, in bounded time. */
#include "attach/attach.h"

#include "box/box.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PES = 4 };

static void scatter(char *bytes, const uint8_t *data, size_t size, int pe)
{
    for (size_t at = 0; at < BOXES_BYTES; at++)
        bytes[at] = size ? (char)data[(at * 7 + (size_t)pe * 131 + at / 64) % size] : 0;
    struct box *box = (struct box *)(void *)bytes;
    if (size && data[pe % (int)size] & 4) {
        box->magic = BOX_MAGIC;
        box->version = BOX_VERSION;
    }
    /* small numbers, so that waits refer to each other */
    for (int w = 0; w < BOX_WAITS; w++)
        box->waits[w].peer %= PES + 1;
    box->pe = pe;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct boxes_pe pes[PES];
    static _Alignas(struct box) char bytes[BOXES_BYTES];
    struct boxes_job job = {.count = PES, .now_ns = 1, .pes = pes};
    for (int i = 0; i < PES; i++) {
        scatter(bytes, data, size, i);
        boxes_decode(bytes, &pes[i]);
        pes[i].alive = size && data[i % (int)size] & 2;
    }
    char *text = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&text, &length);
    attach_text(to, &job, BOXES_HISTORY_MOST);
    fclose(to);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < 0x20 && text[i] != '\n')
            abort();
    free(text);
    char sentence[512];
    attach_diagnose(&job, sentence, sizeof sentence);
    if (!memchr(sentence, '\0', sizeof sentence) || !sentence[0])
        abort();
    return 0;
}
