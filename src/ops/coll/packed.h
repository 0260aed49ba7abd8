/* SPDX-License-Identifier: Apache-2.0 */
/* Alltoall of elements that lie apart, over GPU memory that members do not all reach: see
 * packed.c. */
#ifndef WEFT_OPS_COLL_PACKED_H
#define WEFT_OPS_COLL_PACKED_H

#include "ops/coll/coll.h"

/* As weft_alltoalls() has them; n is more than one. */
struct coll_packed {
    void *dst;
    const void *src;
    size_t dst_stride, src_stride, element, n;
};

/* Whether the elements of a block go together; the same at every member. */
bool coll_packed_serves(const struct weft_team *team, size_t element, size_t n);

weft_status coll_packed_alltoall(struct weft_team *team, const struct coll_packed *what);

#endif
