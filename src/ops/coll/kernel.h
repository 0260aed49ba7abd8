/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives on GPU memory by the kernels of gpu/coll/kernels.cu: the exchange of settings between
 * the members at the team's first such collective, and the launch. The launch goes to a stream of
 * the program, or to the library's own stream where the host calls. */
#ifndef WEFT_OPS_COLL_KERNEL_H
#define WEFT_OPS_COLL_KERNEL_H

#include "ops/coll/choose.h"
#include "ops/coll/coll.h"
#include "ops/coll/reduce.h"

#include <weft/stream.h>

/* The arguments of a collective call. */
struct coll_request {
    const char *function;
    enum coll_what what;
    void *dst;
    const void *src;
    uint64_t bytes; /* size of the vector of a broadcast or reduction, else of one block */
    int root;
    size_t n; /* elements of a reduction or alltoalls on a stream, for the host function */
    /* For alltoalls: size of an element in bytes, and strides in elements. element is 0 for all
     * other collectives, which have no gaps. */
    uint64_t element, src_stride, dst_stride;
    /* For reductions. reduction.factor_at: GPU memory from which the kernel reads the factor when
     * it runs; NULL: reduction.factor is used. */
    struct combiner reduction;
    /* the factor in the program's type, for the host function */
    _Alignas(16) char factor_bytes[16];
    /* For alltoallv: arrays in GPU memory, or in host memory where the host calls. */
    const uint64_t *send_bytes, *send_at, *recv_bytes, *recv_at;
    uint64_t dst_bytes; /* for alltoallv: size of dst */
};

/* Whether kernels of collectives run on this GPU for the team. The same answer at every member. */
bool coll_kernel_runs(const struct weft_team *team);

/* Whether the kernels can serve the team: they run on target cuda, every member's GPU can access
 * every other member's memory, and the team has an area in GPU memory. The same answer at every
 * member. */
bool coll_kernel_serves(const struct weft_team *team);

/* Whether a kernel is faster than the CPU for a host-initiated collective of `bytes` bytes. For few
 * bytes the CPU's own loads and stores are faster, where the CPUs map the GPU memory of all
 * members. Prepares the team at its first use, so it is collective then. */
weft_status coll_kernel_is_faster(struct weft_team *team, uint64_t bytes, bool *pays);

/* Enqueues the collective on a stream. */
weft_status coll_kernel_enqueue(struct weft_team *team, const struct coll_request *request,
                                weft_stream stream);

/* Performs the collective and returns when it is complete. The arrays of an alltoallv may be in any
 * host memory. */
weft_status coll_kernel_run(struct weft_team *team, const struct coll_request *request);

/* The algorithm that would be chosen. symmetric: both sides are in the GPU heap. The team must have
 * exchanged its settings already. */
struct coll_choice coll_kernel_choice(const struct weft_team *team,
                                      const struct coll_request *request, bool symmetric);

/* The algorithm that would be chosen with at most `sms` SMs; -1: the team's limit. Before the
 * team's first collective it is chosen by this PE's settings, as if LL128 will pass its test. */
struct coll_choice coll_kernel_plan(const struct weft_team *team,
                                    const struct coll_request *request, int sms, bool symmetric);

/* For `weft bench coll`: sets the algorithm and the largest number of blocks (a power of two, at
 * most 64) of the team's collectives from now on. Collective over the team, with the same
 * arguments, while no collective of the team is in progress. Does nothing where kernels cannot
 * serve the team. */
weft_status coll_kernel_force(struct weft_team *team, enum coll_algorithm forced, int most_blocks);

/* Implements weft_team_limit_sms(); the caller has checked that the job runs. */
weft_status coll_kernel_limit(struct weft_team *team, int sms);

/* For weft_team_use_sms(). */
weft_status coll_kernel_use(struct weft_team *team, int sms);

/* The blocks that a kernel of the team may have at most; 0: copies by copy engines. Before the
 * team's first collective on GPU memory it is what this PE asks for. */
int coll_kernel_most_blocks(const struct weft_team *team);

/* The rates that all members use. NULL: the team has had no collective on GPU memory yet. */
const struct coll_rates *coll_kernel_rates(const struct weft_team *team);

/* Whether LL128 (gpu/coll/ll128.h) passed its test between all members, with as many blocks as the
 * team may use now. */
bool coll_kernel_ll128(const struct weft_team *team);

/* *tested: as coll_kernel_ll128(); false where the kernels cannot serve the team. Prepares the team
 * at its first use, so it is collective then. */
weft_status coll_kernel_test_ll128(struct weft_team *team, bool *tested);

/* Describes the GPUs of this machine. The job must have a GPU side. */
void coll_kernel_machine(const struct weft_job *job, struct coll_machine *machine);

#endif
