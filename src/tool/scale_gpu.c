/* SPDX-License-Identifier: Apache-2.0 */
/* See scale_coll.h. The collectives by node on GPU memory, for simulated PEs: a put to another node
 * takes the NIC next to the GPU, one within the node the links between GPUs, and a kernel combines
 * what the serial loop of scale_coll.c combines. The heap of a PE is its memory: slots of the
 * team's area, then source and destination. */
#define coll_gpu_spans_nodes     scale_gpu_spans_nodes
#define coll_gpu_nodes_broadcast scale_gpu_nodes_broadcast
#define coll_gpu_nodes_collect   scale_gpu_nodes_collect
#define coll_gpu_nodes_reduces   scale_gpu_nodes_reduces
#define coll_gpu_nodes_load      scale_gpu_nodes_load
#define coll_gpu_nodes_reduce    scale_gpu_nodes_reduce
#define coll_gpu_nodes_relays    scale_gpu_nodes_relays
#define coll_gpu_nodes_rooted    scale_gpu_nodes_rooted
#define coll_gpu_nodes_packs     scale_gpu_nodes_packs
#define coll_gpu_nodes_alltoall  scale_gpu_nodes_alltoall
#define coll_gpu_mapped          scale_gpu_mapped
#define coll_gpu_run_kernel      scale_gpu_run_kernel
#define coll_finish_puts         scale_finish_puts
#define coll_sync                scale_sync
#define coll_compare_records     scale_compare_records
#define coll_exchange_factors    scale_exchange_factors
#define coll_pull_reduce         scale_pull_reduce
#define coll_kernel_runs         scale_kernel_runs
#define coll_kernel_most_blocks  scale_kernel_most_blocks
#define gpu_coll_load            scale_coll_load
#define gpu_coll_launch          scale_coll_launch
#define gpu_enter                scale_enter
#define gpu_leave                scale_leave
#define gpu_wait_stream          scale_wait_stream
#define coll_gpu_each_alone      scale_gpu_each_alone
#include "tool/scale_names.h"

#include "ops/coll/slots.h"
#define coll_slot_put scale_slot_put
static weft_status scale_slot_put(struct weft_team *team, const struct coll_slots *slots,
                                  int member, size_t to, size_t from, size_t bytes);

#include "ops/coll/nodes_alltoall.c"
#include "ops/coll/nodes_fold.c"
#include "ops/coll/nodes_gpu.c"
#include "ops/coll/nodes_rooted.c"

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

static double latest(double a_ns, double b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

/* When what arrives is there: blocks of a gather that the members put, all at the same time, follow
 * one another over the link of the root. */
static double receive(struct scale_pe *pe, int to, size_t bytes, double arrives_ns)
{
    struct scale_pe *other = &pe->all->pes[to];
    if (pe->all->collective != TOOL_SCALE_GATHER)
        return arrives_ns;
    other->in_ns = latest(other->in_ns + (double)bytes * pe->all->job->byte_ns,
                          arrives_ns - pe->all->job->latency_ns);
    return other->in_ns + pe->all->job->latency_ns;
}

/* What this PE has given since the last quiet is complete at gets_ns. */
static void give_put(struct scale_pe *pe, int to, size_t bytes)
{
    const struct tool_scale_job *job = pe->all->job;
    double done_ns;
    if (is_in_node(pe, to)) {
        pe->all->result->in_node++;
        pe->gpu_ns =
            latest(pe->gpu_ns, pe->clock_ns + job->put_ns) + (double)bytes * job->gpu_byte_ns;
        done_ns = pe->gpu_ns;
    } else {
        done_ns = receive(pe, to, bytes, scale_send(pe, to, bytes));
        done_ns += job->latency_ns; /* until the NIC knows */
    }
    pe->gets_ns = latest(done_ns, pe->gets_ns);
}

double scale_get_ns(struct scale_pe *pe, int from, size_t bytes, double there_ns)
{
    const struct tool_scale_job *job = pe->all->job;
    struct scale_pe *other = &pe->all->pes[from];
    if (is_in_node(pe, from)) {
        pe->gpu_ns =
            latest(pe->gpu_ns, pe->clock_ns + job->put_ns) + (double)bytes * job->gpu_byte_ns;
        return pe->gpu_ns;
    }
    other->link_ns = latest(other->link_ns, there_ns) + (double)bytes * job->byte_ns;
    pe->in_ns = latest(pe->in_ns, there_ns) + (double)bytes * job->byte_ns;
    return latest(other->link_ns, pe->in_ns) + job->latency_ns;
}

weft_status weft_put_nbi(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int to)
{
    struct scale_pe *pe = pe_of_ctx(ctx);
    const size_t offset = (size_t)((char *)dst - pe->heap);
    give_put(pe, to, bytes);
    if (!pe->all->job->no_contents)
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
    struct scale_pe *pe = ((struct scale_gpu *)gpu)->pe;
    pe->clock_ns = latest(pe->kernel_ns, pe->clock_ns);
    return WEFT_OK;
}

/* Blocks that go to others of the node pass over the links. */
static void pack(struct scale_pe *pe, const struct coll_call *call)
{
    const uint64_t blocks = (uint64_t)call->pack.count * (uint64_t)call->members;
    pe->kernel_ns +=
        (double)((blocks - call->pack.count) * call->bytes) * pe->all->job->gpu_byte_ns;
    for (uint64_t i = 0; i < blocks && !pe->all->job->no_contents; i++) {
        const uint64_t k = i / (uint64_t)call->members, rank = i % (uint64_t)call->members,
                       node = (call->pack.first + k) % call->pack.nodes;
        memcpy(call->part[rank] + (i - rank + (uint64_t)call->me) * call->bytes,
               call->src + (node * (uint64_t)call->members + rank) * call->bytes, call->bytes);
    }
}

/* The kernel of reductions loads over the links what other members have. */
weft_status gpu_coll_launch(struct gpu *gpu, enum coll_kernel kernel, unsigned blocks,
                            unsigned threads, CUstream stream, struct coll_call *call)
{
    struct scale_pe *pe = ((struct scale_gpu *)gpu)->pe;
    const struct combiner *c = &pe->all->combiner;
    const size_t n = (size_t)call->bytes / c->element;
    pe->clock_ns += pe->all->job->post_ns;
    pe->kernel_ns = pe->clock_ns + pe->all->job->kernel_ns;
    if (kernel == COLL_weft_coll_pack)
        pack(pe, call);
    else
        pe->kernel_ns += (double)call->bytes * (call->members - 1) * pe->all->job->gpu_byte_ns;
    if (pe->all->job->no_contents || kernel == COLL_weft_coll_pack)
        return WEFT_OK;
    memcpy(call->dst, call->src ? call->src : call->part[0], call->bytes);
    for (int i = call->src ? 0 : 1; i < call->members; i++)
        c->combine(call->dst, call->part[i], n);
    if (call->fold.ends)
        reduce_end(c, call->dst, n, call->fold.members);
    return WEFT_OK;
}

/* ----------------------------------------------------------------------------------------- GPUs */

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

/* -------------------------------------------------------------------------------- collectives */

bool tool_scale_is_buffered(const struct tool_scale_job *job, enum tool_scale_collective collective)
{
    const size_t all = collective == TOOL_SCALE_REDUCESCATTER ? (size_t)job->pes : 1;
    const bool reduces =
        (collective >= TOOL_SCALE_ALLREDUCE && collective <= TOOL_SCALE_ALLREDUCE_MIN) ||
        collective == TOOL_SCALE_REDUCESCATTER || collective == TOOL_SCALE_REDUCE;
    return reduces && all * job->elements * sizeof(uint32_t) <= job->buffer_bytes;
}

/* As coll_buffered_reduce(). */
static weft_status reduce_buffered(struct scale_pe *pe, const struct scale_shape *shape)
{
    const struct tool_scale_job *job = pe->all->job;
    const struct symmetric_range from = {SEG_HEAP, 0},
                                 to = {SEG_HEAP, shape->src * sizeof(uint32_t)};
    const struct coll_range_reduction what = {BOX_OP_ALLREDUCE, &pe->all->combiner, from, to};
    const bool gets = pe->all->collective != TOOL_SCALE_REDUCE || pe->team.me == 0;
    pe->clock_ns += job->host_ns + (double)(shape->src * sizeof(uint32_t)) * job->host_byte_ns;
    weft_status status = scale_reduce(pe, &what, shape->src);
    if (gets)
        pe->clock_ns +=
            job->host_ns + (double)(job->elements * sizeof(uint32_t)) * job->host_byte_ns;
    return status;
}

static weft_status reduce_on_gpus(struct scale_pe *pe, const struct scale_shape *shape)
{
    const enum tool_scale_collective which = pe->all->collective;
    const struct coll_any_reduction what = {
        .operation = which == TOOL_SCALE_REDUCESCATTER ? BOX_OP_REDUCESCATTER
                     : which == TOOL_SCALE_REDUCE      ? BOX_OP_REDUCE
                                                       : BOX_OP_ALLREDUCE,
        .dst = pe->memory + shape->src,
        .src = pe->memory,
        .n = pe->all->job->elements,
        .c = &pe->all->combiner,
        .root = which == TOOL_SCALE_REDUCESCATTER ? COLL_EACH
                : which == TOOL_SCALE_REDUCE      ? 0
                                                  : COLL_EVERYWHERE};
    return coll_gpu_nodes_reduce(&pe->team, &what);
}

static weft_status gather_everywhere(struct scale_pe *pe, char *dst, size_t bytes)
{
    const size_t n = (size_t)pe->team.n;
    size_t *at = malloc(2 * n * sizeof *at);
    if (!at)
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for the sizes of %zu blocks", n);
    for (size_t i = 0; i < n; i++) {
        at[i] = i * bytes;
        at[n + i] = bytes;
    }
    weft_status status = coll_gpu_nodes_collect(&pe->team, BOX_OP_ALLGATHER, dst, pe->memory, at,
                                                at + n, SCALE_PHASE);
    free(at);
    return status;
}

/* As weft_alltoall(), weft_gather() and weft_scatter(), and weft_allgather() where each member has
 * a node of its own: small blocks of an alltoall packed, large ones from or to one root through
 * relays, others each to its member. */
static weft_status move_blocks(struct scale_pe *pe, char *dst, size_t bytes)
{
    const enum tool_scale_collective which = pe->all->collective;
    const int n = pe->team.n, me = pe->team.me;
    const struct coll_rooted what = {which == TOOL_SCALE_GATHER ? BOX_OP_GATHER : BOX_OP_SCATTER,
                                     which == TOOL_SCALE_GATHER,
                                     dst,
                                     pe->memory,
                                     bytes,
                                     0};
    bool done;
    weft_status status = WEFT_OK;
    if (which == TOOL_SCALE_ALLTOALL && coll_gpu_nodes_packs(&pe->team, dst, bytes))
        return coll_gpu_nodes_alltoall(&pe->team, dst, pe->memory, bytes);
    if ((which == TOOL_SCALE_GATHER || which == TOOL_SCALE_SCATTER) &&
        coll_gpu_nodes_relays(&pe->team, &what))
        return coll_gpu_nodes_rooted(&pe->team, &what, &done);
    for (int k = 0; k < n && !status; k++) {
        const int to = (me + k) % n;
        if (which == TOOL_SCALE_GATHER && to != 0)
            continue;
        if (which == TOOL_SCALE_SCATTER && me != 0)
            break;
        const bool same = which == TOOL_SCALE_GATHER || which == TOOL_SCALE_ALLGATHER;
        const size_t from = same ? 0 : (size_t)to * bytes,
                     at = which == TOOL_SCALE_SCATTER ? 0 : (size_t)me * bytes;
        status = weft_put_nbi(pe->job->system_ctx, dst + at, (char *)pe->memory + from, bytes, to);
    }
    return coll_finish_puts(&pe->team, BOX_OP_ALLTOALL, status);
}

weft_status scale_perform_on_gpu(struct scale_pe *pe)
{
    const struct scale_shape shape = scale_shape_of(pe->all);
    const size_t bytes = pe->all->job->elements * sizeof(uint32_t);
    char *dst = (char *)(pe->memory + shape.src);
    switch (pe->all->collective) {
    case TOOL_SCALE_BROADCAST:
        return coll_gpu_nodes_broadcast(&pe->team, dst, pe->memory, bytes, 0, SCALE_PHASE);
    case TOOL_SCALE_ALLGATHER:
        return pe->all->job->per_node > 1 ? gather_everywhere(pe, dst, bytes)
                                          : move_blocks(pe, dst, bytes);
    case TOOL_SCALE_ALLTOALL:
    case TOOL_SCALE_GATHER:
    case TOOL_SCALE_SCATTER:
        return move_blocks(pe, dst, bytes);
    default:
        return tool_scale_is_buffered(pe->all->job, pe->all->collective)
                   ? reduce_buffered(pe, &shape)
                   : reduce_on_gpus(pe, &shape);
    }
}
