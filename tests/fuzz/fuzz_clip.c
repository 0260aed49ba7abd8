/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a clip of examples/video: it is refused, or its frames lie within their buffers,
 * whose last byte is the last byte of an allocation. */
#include "../../examples/video/clip.c"

#include <stdarg.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BUFFERS = 3, MOST = 1 << 20 };
static void *buffers[BUFFERS];
static int count;

void *frame_memory(weft_job *job, size_t bytes)
{
    return bytes > MOST || count == BUFFERS ? NULL : (buffers[count++] = malloc(bytes));
}

uint64_t checksum_of(const unsigned char *data, size_t bytes)
{
    return bytes;
}

uint64_t now_ns(void)
{
    return 0;
}

bool complain(const char *format, ...)
{
    char sentence[1000];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return false;
}

/* Reads every byte, as a kernel would; the sanitizers detect bytes that were not written. */
static void look(const struct source *source, const struct frame *frame)
{
    const struct picture *p = &source->picture;
    volatile unsigned char sum = 0;
    for (size_t i = 0; i < p->bytes; i++)
        sum = (unsigned char)(sum + frame->data[i]);
    if (p->luma + (size_t)(p->height - 1) * p->stride + (size_t)(p->width - 1) * p->step >=
        p->bytes)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct source_settings settings = {.buffers = BUFFERS};
    struct frame frame;
    struct clip *clip = calloc(1, sizeof *clip);
    clip->file = size ? fmemopen((void *)(uintptr_t)data, size, "rb") : NULL;
    clip->path = "clip";
    if (!clip->file) {
        free(clip);
        return 0;
    }
    if (prepare_buffers(clip, &settings))
        while (clip_next(&clip->source, &frame) == SOURCE_FRAME)
            look(&clip->source, &frame);
    clip_close(&clip->source);
    while (count)
        free(buffers[--count]);
    return 0;
}
