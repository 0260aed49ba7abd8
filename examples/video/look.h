/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel reads a frame where the capture device has written it, and computes its checksum and the
 * histogram of its luma. */
#ifndef EXAMPLES_VIDEO_LOOK_H
#define EXAMPLES_VIDEO_LOOK_H

#include "frame.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { BRIGHTNESSES = 256 };

struct scan_result {
    uint64_t checksum; /* equals checksum_of() */
    uint32_t pixels[BRIGHTNESSES];
};

struct scan;

/* Allocates the kernel's memory; collective over the job. */
weft_status scan_create(weft_job *job, struct scan **scan);
weft_status scan_destroy(weft_job *job, struct scan *scan);

/* Runs the kernel on a frame and waits for its end. The result is valid until the next call. */
weft_status scan_frame(struct scan *scan, const struct picture *picture, const unsigned char *data,
                       const struct scan_result **result);

#ifdef __cplusplus
}
#endif

#endif
