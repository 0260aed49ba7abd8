/* SPDX-License-Identifier: Apache-2.0 */
/* A part of the black box: the path that this PE uses to every PE's memory, and the reasons against
 * the others. It is in the PE's slot of the system segment at box->choices_offset, and is written
 * when paths are chosen or dropped. `weft explain --job` reads it. Readers must treat its contents
 * as possibly torn or hostile. */
#ifndef WEFT_BOX_CHOICES_H
#define WEFT_BOX_CHOICES_H

#include "box/box.h"

enum {
    BOX_KINDS = 2, /* host memory, GPU memory */
    BOX_REASONS = 64,
    BOX_REASON_BYTES = 512,
};

enum box_proof {
    BOX_KIND_UNUSED, /* no memory of that kind is in use, so no path was chosen */
    BOX_PROOF_NONE,  /* a path is chosen, and was not tested */
    BOX_PROOF_GOOD,
    BOX_PROOF_BAD, /* every tested path failed */
};

struct box_choice {
    uint8_t path;            /* chosen path: column of box->paths */
    uint8_t proof;           /* enum box_proof */
    uint16_t failed;         /* one bit for each column: that path failed its test */
    uint16_t why[BOX_PATHS]; /* number of the reason for or against each path; 0: none known */
};

/* Most pairs have the same few reasons, so each reason is stored once. */
struct box_choices {
    _Atomic uint32_t count; /* number of reasons; counted reasons never change */
    uint32_t npes;
    char reasons[BOX_REASONS][BOX_REASON_BYTES]; /* reason number n is reasons[n - 1] */
    struct box_choice choices[];                 /* [BOX_KINDS][npes] */
};

static inline size_t box_choices_bytes(int npes)
{
    return sizeof(struct box_choices) + BOX_KINDS * (size_t)npes * sizeof(struct box_choice);
}

/* Returns the number of a reason, which is added if it is new. When the table is full the last
 * entry stands for all further reasons. Only one thread may call this at a time. */
uint16_t box_reason(struct box_choices *choices, const char *text);

#endif
