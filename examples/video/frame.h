/* SPDX-License-Identifier: Apache-2.0 */
/* A frame in memory, its layout, and the sources of frames: a camera (camera.c) or a clip in a file
 * (clip.c). Knows nothing of kernels. */
#ifndef EXAMPLES_VIDEO_FRAME_H
#define EXAMPLES_VIDEO_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Position of the luma of each pixel: the byte of pixel (x, y) is luma + y * stride + x * step. */
struct picture {
    char format[16]; /* name for the user: "YUYV", "C420" */
    uint32_t width, height;
    uint32_t luma, stride, step;
    size_t bytes; /* bytes of a whole frame, chroma included */
};

struct frame {
    int buffer;                /* index of the buffer at the source */
    const unsigned char *data; /* in memory that kernels read, 16-byte aligned */
    uint64_t sequence;         /* counts all frames, including lost ones */
    uint64_t captured_ns;      /* CLOCK_MONOTONIC */
    bool has_checksum;         /* the source gives the expected checksum_of() */
    uint64_t checksum;
    const char *fault; /* NULL, or why the source considers the frame incomplete */
};

/* Options for a source. */
struct source_settings {
    weft_job *job;
    const char *memory; /* "auto", "userptr", "mmap", "copy" */
    const char *format; /* NULL: any known format */
    uint32_t width, height;
    uint32_t buffers;
    uint32_t rate; /* frames per second; 0: unchanged */
    bool gpu;      /* kernels run on a GPU, so frames must be in pinned memory */
};

enum source_next { SOURCE_FRAME, SOURCE_END, SOURCE_FAILED };

struct source;
struct source_ops {
    /* Returns the next frame, which the caller owns until it gives it back. At SOURCE_FAILED a
     * message was printed. */
    enum source_next (*next)(struct source *source, struct frame *frame);
    bool (*release_frame)(struct source *source, const struct frame *frame);
    void (*close)(struct source *source);
};

struct source {
    const struct source_ops *ops;
    struct picture picture;
    char name[256];   /* description of the source */
    char memory[512]; /* memory of its frames, and why */
    char moment[96];  /* event whose time is captured_ns */
};

/* Opens a camera or a clip. Returns NULL after printing a message if that fails. */
struct source *camera_open(const char *path, const struct source_settings *settings);
struct source *clip_open(const char *path, const struct source_settings *settings);

/* Writes a clip of `frames` frames, each with its number and checksum. Returns false after printing
 * a message. */
bool clip_make(const char *path, uint32_t width, uint32_t height, uint32_t frames);

/* Allocates `bytes` of the job's host heap, page-aligned, which kernels can read. Returns NULL
 * after printing a message. */
void *frame_memory(weft_job *job, size_t bytes);

/* Checksum of a frame, computed by the CPU. It covers each 8 bytes with their position, so it
 * detects swapped parts. */
uint64_t checksum_of(const unsigned char *data, size_t bytes);

uint64_t now_ns(void); /* CLOCK_MONOTONIC */

/* Prints "video: ..." to standard error; returns false. */
bool complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#ifdef __cplusplus
}
#endif

#endif
