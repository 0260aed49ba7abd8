/* SPDX-License-Identifier: Apache-2.0 */
/* A part of the black box: by which path this PE reaches every PE's memory, and why by no other. It
 * lies in the PE's slot of the system segment, where the box says (choices_offset), and is written
 * when paths are chosen or dropped. `weft explain --job` reads it; readers must treat everything in
 * it as possibly torn or hostile. */
#ifndef WEFT_BOX_CHOICES_H
#define WEFT_BOX_CHOICES_H

#include "box/box.h"

enum {
    BOX_KINDS = 2, /* host memory, GPU memory */
    BOX_REASONS = 64,
    BOX_REASON_BYTES = 512,
};

enum box_proof {
    BOX_KIND_UNUSED, /* no memory of that kind is in use: nothing was chosen */
    BOX_PROOF_NONE,  /* a path is chosen and was not proven */
    BOX_PROOF_GOOD,
    BOX_PROOF_BAD, /* every path that was proven failed */
};

struct box_choice {
    uint8_t path;            /* column of box->paths: the one that is taken */
    uint8_t proof;           /* enum box_proof */
    uint16_t failed;         /* bit per column: that path failed its proof */
    uint16_t why[BOX_PATHS]; /* of each path: number of the reason why it is, or is not, taken; 0 =
                                none is known */
};

/* Most pairs have the same few reasons, so each is kept once. */
struct box_choices {
    _Atomic uint32_t
        count; /* reasons that are there; they stay as they are once they are counted */
    uint32_t npes;
    char reasons[BOX_REASONS][BOX_REASON_BYTES]; /* number n is reasons[n - 1] */
    struct box_choice choices[];                 /* [BOX_KINDS][npes] */
};

static inline size_t box_choices_bytes(int npes)
{
    return sizeof(struct box_choices) + BOX_KINDS * (size_t)npes * sizeof(struct box_choice);
}

/* The number of a reason, which is added when it is new. The last one there is room for stands for
 * all that come later. One thread at a time. */
uint16_t box_reason(struct box_choices *choices, const char *text);

#endif
