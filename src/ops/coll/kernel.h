/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives on GPU memory by the kernels of gpu/coll/kernels.cu: what the members of a team agree
 * on at the first one, the check of a call's memory, and its launch, on a stream of the program or,
 * where the host calls, on the library's own. */
#ifndef WEFT_OPS_COLL_KERNEL_H
#define WEFT_OPS_COLL_KERNEL_H

#include "ops/coll/choose.h"
#include "ops/coll/coll.h"

#include <weft/stream.h>

/* A collective as it is called. */
struct coll_ask {
    const char *function;
    enum coll_what what;
    void *dst;
    const void *src;
    uint64_t bytes; /* of the vector, or of a block */
    int root;
    /* Of alltoalls: bytes of an element, 0 of the others, which have no gaps; and elements from one
     * to the next. */
    uint64_t element, src_stride, dst_stride;
    weft_type type; /* of reductions */
    weft_op op;     /* WEFT_DEV_SCALED too */
    double factor;  /* of scaled sums */
    bool weighted;  /* it is of this member's elements alone */
    const void
        *factor_at; /* in memory of the GPU, where it is read when its turn comes; NULL: `factor` */
    _Alignas(16) char factor_bytes[16]; /* for the host's function, as the program has it */
    /* Of alltoallv: in memory of the GPU, or of the host where the host calls; and the bytes of
     * dst. */
    const uint64_t *send_bytes, *send_at, *recv_bytes, *recv_at;
    uint64_t room;
};

/* Whether the kernels can serve the team: they run on cuda, every member's GPU reaches every
 * other's memory, and there is an area for it. The same answer at every member. */
bool coll_kernel_serves(const struct weft_team *team);

/* Whether this memory is for the kernels: that of the GPU heap, and other memory that this GPU
 * accesses.
 * WEFT_ERR_ADDRESS: neither. *host: it is symmetric memory of the host, for which the host's
 * functions serve. */
weft_status coll_kernel_memory(const struct weft_team *team, const struct coll_ask *ask,
                               bool *host);

/* Whether a kernel is the quicker way for the host: where the CPUs map the GPU memory of all
 * members, their own loads and stores are, for few bytes. Makes the team ready. */
weft_status coll_kernel_pays(struct weft_team *team, uint64_t bytes, bool *pays);

/* Puts it on a stream. */
weft_status coll_kernel_put(struct weft_team *team, const struct coll_ask *ask, weft_stream stream);

/* Returns when it is done. Sizes of an alltoallv may be in any memory of the host. */
weft_status coll_kernel_call(struct weft_team *team, const struct coll_ask *ask);

/* What would be chosen; `symmetric`: both sides are in the GPU heap. Of a team that has agreed. */
struct coll_choice coll_kernel_choice(const struct weft_team *team, const struct coll_ask *ask,
                                      bool symmetric);

/* For `weft bench coll`: the way and the most blocks (a power of two, at most 64) of the team's
 * collectives from now on. Collective over the team, with the same arguments, while none of its
 * collectives is under way. Nothing where kernels do not serve. */
weft_status coll_kernel_force(struct weft_team *team, enum coll_way wish, int most_blocks);

/* weft_team_limit_sms() of a team of a running job. */
weft_status coll_kernel_limit(struct weft_team *team, int sms);

/* What the team has agreed on; NULL: it has not. */
const struct coll_rates *coll_kernel_rates(const struct weft_team *team);

/* Whether its members have seen lines (gpu/coll/ll128.h) come whole. */
bool coll_kernel_lines(const struct weft_team *team);

/* Of a job with a GPU side. */
void coll_kernel_machine(const struct weft_job *job, struct coll_machine *machine);

#endif
