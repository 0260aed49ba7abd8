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

struct look_result {
    uint64_t checksum; /* equals checksum_of() */
    uint32_t pixels[BRIGHTNESSES];
};

struct look;

/* Allocates the kernel's memory; collective over the job. */
weft_status look_create(weft_job *job, struct look **look);
weft_status look_destroy(weft_job *job, struct look *look);

/* Runs the kernel on a frame and waits for its end. The result is valid until the next call. */
weft_status look_at(struct look *look, const struct picture *picture, const unsigned char *data,
                    const struct look_result **result);

#ifdef __cplusplus
}
#endif

#endif
