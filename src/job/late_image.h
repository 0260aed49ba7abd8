/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the library that use the device API, for operations that few programs call. Their
 * module is loaded at its first use in a job, because loading takes time. */
#ifndef WEFT_JOB_LATE_IMAGE_H
#define WEFT_JOB_LATE_IMAGE_H

#include "gpu/gpu.h"
#include "gpu/image.h"
#include "job/job.h"

enum { LATE_IMAGE_KERNELS = 13 };

/* A static variable: only one job of a process has device code on a GPU. */
struct late_image {
    const struct gpu_image *image;
    const char *what; /* for messages: "operations on streams" */
    int kernels;
    const char *names[LATE_IMAGE_KERNELS];
    CUmodule module; /* NULL: not loaded */
    CUfunction functions[LATE_IMAGE_KERNELS];
    struct late_image *next; /* list of the job */
};

/* Loads the image now. A load waits for running kernels to end, as in gpu_load_kernels(): kernels
 * of which one waits for another PE are loaded before. */
weft_status late_image_load(struct weft_job *job, struct late_image *image);

/* Launches a kernel of the image on a stream of the job's GPU; a stream may be captured. argument:
 * the kernel's only parameter. */
weft_status late_image_launch(struct weft_job *job, struct late_image *image, int kernel,
                              unsigned blocks, unsigned threads, const void *argument,
                              weft_stream stream);

/* *blocks becomes the number of blocks of the kernel that run on the GPU at the same time, each
 * with `threads` threads. */
weft_status late_image_resident_blocks(struct weft_job *job, struct late_image *image, int kernel,
                                       unsigned threads, unsigned *blocks);

/* Unloads all. The kernels have ended, unless the job has failed. */
void late_image_unload(struct weft_job *job);

#endif
