/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of ranks whose GPUs cannot load and store each other's memory, as those of several
 * nodes, or of more than 64 ranks. Weft does these on symmetric memory alone: each fragment is
 * copied there, and its result from there, in stream order. */
#include "nccl/comm.h"

enum { STAGE = 4 << 20, MOST_DIRECT = 64 };

/* Parts of the whole that a fragment has a piece of, at this rank: 0, 1 or the number of ranks. */
struct stage_sides {
    size_t in, out;
};

static bool is_direct(ncclComm_t comm)
{
    bool direct = comm->size <= MOST_DIRECT;
    for (int peer = 0; peer < comm->size && direct; peer++)
        direct = weft_ptr(comm->job, comm->signals, peer) != NULL;
    return direct;
}

ncclResult_t staged_open(ncclComm_t comm)
{
    int32_t *word = NULL;
    void *stage = NULL;
    weft_status status = weft_alloc(comm->job, WEFT_HOST, 2 * sizeof *word, 0, 0, (void **)&word);
    if (!status) {
        word[0] = is_direct(comm);
        status = weft_allreduce(comm->team, word + 1, word, 1, WEFT_INT32, WEFT_MIN);
    }
    bool direct = !status && word[1];
    if (!status)
        status = weft_free(comm->job, word);
    if (!status && !direct)
        status = weft_alloc(comm->job, WEFT_GPU, 2 * (size_t)STAGE, 256, 0, &stage);
    comm->stage = stage;
    return nccl_result(status);
}

static struct stage_sides sides_of(const struct nccl_call *c)
{
    size_t all = (size_t)c->comm->size, one = 1, none = 0;
    bool root = c->root == c->comm->rank;
    switch (c->what) {
    case ALL_REDUCE:
        return (struct stage_sides){one, one};
    case REDUCE:
        return (struct stage_sides){one, root ? one : none};
    case REDUCE_SCATTER:
        return (struct stage_sides){all, one};
    case BROADCAST:
        return (struct stage_sides){root ? one : none, one};
    case ALL_GATHER:
        return (struct stage_sides){one, all};
    case ALL_TO_ALL:
        return (struct stage_sides){all, all};
    case GATHER:
        return (struct stage_sides){one, root ? all : none};
    default: /* SCATTER */
        return (struct stage_sides){root ? all : none, one};
    }
}

/* Most parts that a side has at any rank. */
static size_t widest(const struct nccl_call *c)
{
    return c->what == ALL_REDUCE || c->what == REDUCE || c->what == BROADCAST
               ? 1
               : (size_t)c->comm->size;
}

/* Elements at ... at + n - 1 of each part. */
static weft_status run_fragment(const struct nccl_call *c, size_t at, size_t n)
{
    ncclComm_t comm = c->comm;
    struct stage_sides sides = sides_of(c);
    size_t each = type_bytes(c->type), whole = c->n * each, piece = n * each;
    char *in = comm->stage, *out = in + STAGE;
    weft_status status = WEFT_OK;
    for (size_t part = 0; part < sides.in && !status; part++)
        status = weft_put_on_stream(comm->ctx, in + part * piece,
                                    (const char *)c->src + part * whole + at * each, piece,
                                    comm->rank, c->stream);
    if (!status) {
        struct nccl_call fragment = *c;
        fragment.src = in;
        fragment.dst = out;
        fragment.n = n;
        status = collective_call(&fragment);
    }
    for (size_t part = 0; part < sides.out && !status; part++)
        status = weft_get_on_stream(comm->ctx, (char *)c->dst + part * whole + at * each,
                                    out + part * piece, piece, comm->rank, c->stream);
    return status;
}

weft_status staged_run(const struct nccl_call *c)
{
    size_t most = STAGE / widest(c) / type_bytes(c->type);
    weft_status status = most ? WEFT_OK : WEFT_ERR_UNSUPPORTED;
    for (size_t at = 0; at < c->n && !status; at += most)
        status = run_fragment(c, at, c->n - at < most ? c->n - at : most);
    return status;
}
