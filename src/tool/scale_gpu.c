/* SPDX-License-Identifier: Apache-2.0 */
/* See scale_coll.h. The collectives by node on GPU memory, for simulated PEs: a put to another node
 * takes the NIC next to the GPU, one within the node the links between GPUs, and a kernel combines
 * what the serial loop of scale_coll.c combines. The heap of a PE is its memory: slots of the
 * team's area, then source and destination. */
#define coll_gpu_nodes_broadcasts scale_gpu_nodes_broadcasts
#define coll_gpu_nodes_broadcast  scale_gpu_nodes_broadcast
#define coll_gpu_nodes_collect    scale_gpu_nodes_collect
#define coll_gpu_nodes_reduces    scale_gpu_nodes_reduces
#define coll_gpu_nodes_load       scale_gpu_nodes_load
#define coll_gpu_nodes_reduce     scale_gpu_nodes_reduce
#define coll_finish_puts          scale_finish_puts
#define coll_sync                 scale_sync
#define coll_compare_records      scale_compare_records
#define coll_exchange_factors     scale_exchange_factors
#define coll_pull_reduce          scale_pull_reduce
#define coll_kernel_runs          scale_kernel_runs
#define coll_kernel_most_blocks   scale_kernel_most_blocks
#define gpu_coll_load             scale_coll_load
#define gpu_coll_launch           scale_coll_launch
#define gpu_enter                 scale_enter
#define gpu_leave                 scale_leave
#define gpu_wait_stream           scale_wait_stream
#include "tool/scale_names.h"

#include "ops/coll/slots.h"
#define coll_slot_put scale_slot_put
static weft_status scale_slot_put(struct weft_team *team, const struct coll_slots *slots,
                                  int member, size_t to, size_t from, size_t bytes);

#include "ops/coll/nodes_fold.c"
#include "ops/coll/nodes_gpu.c"

#include "tool/scale_pe.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The GPU of a PE. */
struct scale_gpu {
    struct gpu gpu; /* must be first */
    struct scale_pe *pe;
    struct boot boot;
};

struct scale_gpus {
    struct scale_gpu *each;
    struct gpu_window *windows; /* by PE; those of a node are consecutive */
    int *slot_of;
    struct path_choice *choices; /* every pair of a node loads and stores */
    struct gpu_coll coll;
};

/* --------------------------------------------------------- in place of what reaches a PE or GPU */

/* What this PE has given since the last quiet is complete at puts_ns. */
static void give_put(struct scale_pe *pe, int to, size_t bytes)
{
    const struct tool_scale_job *job = pe->all->job;
    double done_ns;
    if (is_in_node(pe, to)) {
        pe->all->result->in_node++;
        if (pe->gpu_ns < pe->clock_ns + job->put_ns)
            pe->gpu_ns = pe->clock_ns + job->put_ns;
        pe->gpu_ns += (double)bytes * job->gpu_byte_ns;
        done_ns = pe->gpu_ns;
    } else {
        done_ns = scale_send(pe, to, bytes) + job->latency_ns; /* until the NIC knows */
    }
    pe->gets_ns = done_ns > pe->gets_ns ? done_ns : pe->gets_ns;
}

weft_status weft_put_nbi(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int to)
{
    struct scale_pe *pe = pe_of_ctx(ctx);
    const size_t offset = (size_t)((char *)dst - pe->heap);
    give_put(pe, to, bytes);
    memcpy(pe->all->pes[to].heap + offset, src, bytes);
    return WEFT_OK;
}

static weft_status scale_slot_put(struct weft_team *team, const struct coll_slots *slots,
                                  int member, size_t to, size_t from, size_t bytes)
{
    return weft_put_nbi(team->job->system_ctx, coll_slot_own(team, slots, to),
                        coll_slot_own(team, slots, from), bytes, member);
}

weft_status coll_sync(struct weft_team *team, enum box_operation operation)
{
    const uint64_t phase = team->sequence + 1;
    team->sequence += TEAM_PHASES;
    return coll_nodes_sync(team, operation, phase);
}

weft_status coll_finish_puts(struct weft_team *team, enum box_operation operation,
                             weft_status status)
{
    if (!status)
        status = weft_quiet(team->job->system_ctx);
    return status ? status : coll_sync(team, operation);
}

weft_status coll_compare_records(struct weft_team *team, enum box_operation operation,
                                 const void *mine, size_t bytes, bool *same)
{
    *same = true;
    return coll_sync(team, operation);
}

weft_status coll_exchange_factors(struct weft_team *team, enum box_operation operation,
                                  const struct combiner *c, long double **factors)
{
    *factors = NULL;
    return WEFT_OK;
}

weft_status coll_pull_reduce(struct weft_team *team, const struct coll_any_reduction *what)
{
    return base_fail(WEFT_ERR_UNSUPPORTED, "this reduction is not simulated");
}

bool coll_kernel_runs(const struct weft_team *team)
{
    return true;
}

int coll_kernel_most_blocks(const struct weft_team *team)
{
    return 1;
}

weft_status gpu_coll_load(struct gpu *gpu)
{
    return WEFT_OK;
}

weft_status gpu_enter(const struct gpu_device *device)
{
    return WEFT_OK;
}

void gpu_leave(const struct gpu_device *device)
{
}

weft_status gpu_wait_stream(struct gpu *gpu, CUstream stream, const char *what)
{
    return WEFT_OK;
}

/* The kernel of reductions. It loads over the links what other members have. */
weft_status gpu_coll_launch(struct gpu *gpu, enum coll_kernel kernel, unsigned blocks,
                            unsigned threads, CUstream stream, struct coll_call *call)
{
    struct scale_pe *pe = ((struct scale_gpu *)gpu)->pe;
    const struct combiner *c = &pe->all->combiner;
    const size_t n = (size_t)call->bytes / c->element;
    pe->clock_ns += pe->all->job->kernel_ns +
                    (double)call->bytes * (call->members - 1) * pe->all->job->gpu_byte_ns;
    memcpy(call->dst, call->src ? call->src : call->part[0], call->bytes);
    for (int i = call->src ? 0 : 1; i < call->members; i++)
        c->combine(call->dst, call->part[i], n);
    if (call->fold.ends)
        reduce_end(c, call->dst, n, call->fold.members);
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------ GPUs
 */

bool scale_make_gpus(struct scale_team *all)
{
    const size_t n = (size_t)all->job->pes;
    struct scale_gpus *gpus = all->gpus = calloc(1, sizeof *gpus);
    if (!gpus)
        return false;
    pthread_mutex_init(&gpus->coll.lock, NULL);
    gpus->each = calloc(n, sizeof *gpus->each);
    gpus->windows = calloc(n, sizeof *gpus->windows);
    gpus->slot_of = calloc(n, sizeof *gpus->slot_of);
    gpus->choices = calloc(n, sizeof *gpus->choices);
    if (!gpus->each || !gpus->windows || !gpus->slot_of || !gpus->choices)
        return false;
    for (int pe = 0; pe < all->job->pes; pe++) {
        gpus->slot_of[pe] = pe - all->nodes.first[all->nodes.of[pe]];
        gpus->choices[pe].path = PATH_P2P;
    }
    return true;
}

void scale_free_gpus(struct scale_team *all)
{
    struct scale_gpus *gpus = all->gpus;
    if (!gpus)
        return;
    pthread_mutex_destroy(&gpus->coll.lock);
    free(gpus->each);
    free(gpus->windows);
    free(gpus->slot_of);
    free(gpus->choices);
    free(gpus);
}

void scale_use_gpu(struct scale_pe *pe)
{
    struct scale_gpus *gpus = pe->all->gpus;
    struct scale_gpu *own = &gpus->each[pe->team.me];
    struct gpu *gpu = &own->gpu;
    own->pe = pe;
    own->boot.local_pe = pe->nodes.local_me;
    gpus->windows[pe->team.me].base = (CUdeviceptr)(uintptr_t)pe->heap;
    gpu->boot = &own->boot;
    gpu->coll = &gpus->coll;
    gpu->slot_of = gpus->slot_of;
    gpu->heap = (struct gpu_heap){.boot = &own->boot,
                                  .windows = &gpus->windows[pe->nodes.first[pe->nodes.mine]],
                                  .size = pe->heap_bytes};
    /* The slots of the only team begin with the heap. */
    gpu->layout.coll =
        (struct coll_areas){.offset = (size_t)0 - sizeof(struct coll_area), .teams = 1, .wide = 1};
    pe->job->gpu = gpu;
    pe->job->paths.choices[WEFT_GPU] = gpus->choices;
}

size_t scale_slot_bytes(void)
{
    return 4 * (size_t)COLL_WIDE_SET;
}

weft_status scale_gpu_broadcast(struct scale_pe *pe, size_t bytes)
{
    char *src = (char *)pe->memory;
    return coll_gpu_nodes_broadcast(&pe->team, src + bytes, src, bytes, 0, SCALE_PHASE);
}

/* As coll_reduce_any(): a small vector passes through a buffer in host memory, which costs a copy
 * before and after. */
weft_status scale_gpu_allreduce(struct scale_pe *pe, const struct coll_nodes_reduction *what,
                                size_t n)
{
    const struct tool_scale_job *job = pe->all->job;
    const size_t bytes = n * what->c->element;
    const double copy_ns = job->host_ns + (double)bytes * job->host_byte_ns;
    if (bytes > job->buffer_bytes) {
        char *src = (char *)pe->memory;
        const struct coll_any_reduction reduction = {BOX_OP_ALLREDUCE, src + bytes, src, n, what->c,
                                                     COLL_EVERYWHERE,  SCALE_PHASE};
        return coll_gpu_nodes_reduce(&pe->team, &reduction);
    }
    pe->clock_ns += copy_ns;
    weft_status status = coll_nodes_reduce(&pe->team, what, n, SCALE_PHASE);
    pe->clock_ns += copy_ns;
    return status;
}
