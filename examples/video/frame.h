/* SPDX-License-Identifier: Apache-2.0 */
/* A frame in memory, how its picture lies there, and where frames come from: a camera (camera.c) or
 * a clip in a file (clip.c). Knows nothing of kernels. */
#ifndef EXAMPLES_VIDEO_FRAME_H
#define EXAMPLES_VIDEO_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where the brightness of each pixel lies: the byte of pixel (x, y) is luma + y * stride + x *
 * step. */
struct picture {
    char format[16]; /* as the user knows it: "YUYV", "C420" */
    uint32_t width, height;
    uint32_t luma, stride, step;
    size_t bytes; /* of a whole frame, colours included */
};

struct frame {
    int buffer;                /* the source's number of it */
    const unsigned char *data; /* in memory that kernels read, 16-byte aligned */
    uint64_t sequence;         /* counts every frame that there was, lost ones too */
    uint64_t captured_ns;      /* CLOCK_MONOTONIC */
    bool has_checksum;         /* the source says what checksum_of() must be */
    uint64_t checksum;
    const char *fault; /* NULL, or what the source saw: the frame is not whole */
};

/* Where a source may put its frames, and what else it is told. */
struct source_wish {
    weft_job *job;
    const char *memory; /* "auto", "userptr", "mmap", "copy" */
    const char *format; /* NULL: any that is known */
    uint32_t width, height;
    uint32_t buffers;
    uint32_t rate; /* frames a second; 0: as it is */
    bool gpu;      /* kernels run on a GPU: what they read must be pinned */
};

enum source_next { SOURCE_FRAME, SOURCE_END, SOURCE_FAILED };

struct source;
struct source_ops {
    /* The next frame, which is the caller's until it is given back. At SOURCE_FAILED a sentence has
     * been printed. */
    enum source_next (*next)(struct source *source, struct frame *frame);
    bool (*give_back)(struct source *source, const struct frame *frame);
    void (*close)(struct source *source);
};

struct source {
    const struct source_ops *ops;
    struct picture picture;
    char name[256];   /* what it is, in words */
    char memory[512]; /* what memory its frames are in, and why */
    char moment[96];  /* what captured_ns is the time of */
};

/* Opens a camera or a clip. NULL, with a sentence printed, when it cannot be used. */
struct source *camera_open(const char *path, const struct source_wish *wish);
struct source *clip_open(const char *path, const struct source_wish *wish);

/* Writes a moving picture of `frames` frames, each with its number and checksum. False, with a
 * sentence. */
bool clip_make(const char *path, uint32_t width, uint32_t height, uint32_t frames);

/* `bytes` of the job's host heap, page by page, which kernels of the target read. NULL with a
 * sentence. */
void *frame_memory(weft_job *job, size_t bytes);

/* The checksum by which frames are compared: each 8 bytes with their place in it, so that it tells
 * when parts of two frames, or two parts of one, have changed places. Found by the CPU. */
uint64_t checksum_of(const unsigned char *data, size_t bytes);

uint64_t now_ns(void); /* CLOCK_MONOTONIC */

/* Prints "video: ..." to the standard error; gives false. */
bool complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#ifdef __cplusplus
}
#endif

#endif
