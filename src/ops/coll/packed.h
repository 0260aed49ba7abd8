/* SPDX-License-Identifier: Apache-2.0 */
/* Alltoall of strided elements in GPU memory that not all members can access: see packed.c. */
#ifndef WEFT_OPS_COLL_PACKED_H
#define WEFT_OPS_COLL_PACKED_H

#include "ops/coll/coll.h"

/* The arguments of weft_alltoalls(); n is larger than 1. */
struct coll_packed {
    void *dst;
    const void *src;
    size_t dst_stride, src_stride, element, n;
};

/* Whether coll_packed_alltoall() can serve these elements. The same answer at every member. */
bool coll_packed_serves(const struct weft_team *team, size_t element, size_t n);

weft_status coll_packed_alltoall(struct weft_team *team, const struct coll_packed *what);

#endif
