/* SPDX-License-Identifier: Apache-2.0 */
/* Expert parallelism: dispatch of tokens to the PEs that own their experts, and combine of the
 * experts' results (mixture of experts). Kernels put each token once to each PE that needs it, and
 * once to another node; the numbers of tokens stay on the device, and no host waits for them.
 *
 *     weft_experts_attr attr = {.size = sizeof attr, .tokens = 4096, .hidden = 7168,
 *                               .experts = 256, .top = 8, .type = WEFT_BFLOAT16,
 *                               .result_type = WEFT_BFLOAT16};
 *     weft_experts *experts;
 *     weft_experts_create(team, &attr, &experts);
 *     ...
 *     weft_experts_dispatch_on_stream(experts, &rows, layout, &tokens, stream);
 *     ...                                         (the experts turn rows.x into results)
 *     weft_experts_combine_on_stream(experts, y, NULL, results, NULL, layout, stream);
 *
 * Owners. Member p of the team owns the experts from floor(p * experts / n) to before
 * floor((p + 1) * experts / n), n members: with a multiple of n, the same number each.
 *
 * Rows. A PE receives one row for each token of which it owns at least one expert: first the tokens
 * of member 0, then those of member 1, and so on, each in their order. So neither the position of a
 * row nor a sum depends on the order of arrival.
 *
 * Nodes. Where some members share a node and others are on further nodes, a token goes once to one
 * member of each other node, which relays it to the members there. Their results return to the
 * relay, which adds them and returns one sum. Members that all load and store each other's memory
 * have no relays, nor has an object with few experts of a token, for which they would take longer:
 * rows would cross to other nodes less than 1.25 times as often without relays, if experts were
 * chosen at random. Nodes and `top` decide, so all objects of a team with the same `top` do the
 * same, and weft_experts_query() reports it.
 *
 * Sums. combine adds the results for a token in binary32, in the order of the members, and rounds
 * once. With relays nodes are in the order of their first members, and the members of a node in the
 * order of the team. In that order the token's PE adds the results of members of its own node, and
 * for each other node one sum: of that node's results, added in binary32 and rounded to
 * result_type. Weights are added in the same order in binary32. So sums have the same bits in each
 * run on the same nodes.
 *
 * Layout. Dispatch computes for each token the rows at which PEs receive it, and writes this to
 * `layout`, device memory of the caller of weft_experts_sizes().layout bytes; what a relay needs of
 * other PEs' tokens, its dispatch_receive adds. Combine reads it. A program may keep the layouts of
 * several dispatches (of several layers of a model), and may use one for further dispatches of
 * other values with the same experts, also by another object whose attributes but `type`, `scales`
 * and `rows` are the same.
 *
 * Gradients. The backward pass of a dispatch is a combine of the rows' gradients; with `weights`
 * the gradients of the weights return too. The backward pass of a combine is a dispatch with the
 * layout of the forward pass.
 *
 * Streams. A dispatch, and a combine, is one call, or a send, which starts the transfer, and a
 * receive, which waits for it; work that the program enqueues between these two overlaps with it.
 * Few tokens (docs/experts.md, short form) take one kernel in one call, and two kernels in two. A
 * member may use one call where another uses two. Every member dispatches and combines in the same
 * order, and send and receive alternate. The calls of one object are on one stream, or ordered by
 * events. A CUDA graph may capture them; it is replayed by all members, in the order of capture.
 *
 * Memory that the arguments name is device memory (on simt any memory), aligned to 16 bytes and
 * dense, in row-major order. What a dispatch or combine stores does not overlap what it reads. The
 * program may change sources of a send after its receive.
 *
 * Errors common to all: WEFT_ERR_ARGUMENT (null; names the value), _UNSUPPORTED (more than 1024
 * members), _FINALIZED, and those of weft_barrier_on_stream(). What a kernel finds wrong,
 * weft_experts_check() reports. */
#ifndef WEFT_EXPERTS_H
#define WEFT_EXPERTS_H

#include <weft.h>
#include <weft/launch.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_experts weft_experts;

typedef struct weft_experts_attr {
    size_t size;      /* set by the caller: sizeof(weft_experts_attr) */
    uint32_t tokens;  /* tokens of a PE in one dispatch, at most; 1 to 2^24 */
    uint32_t hidden;  /* elements of a token; the bytes are a multiple of 16 */
    uint32_t experts; /* experts of all members, at most 1024 of each */
    uint32_t top;     /* experts of a token; 1 to 64 */
    uint32_t rows;    /* rows that a PE can receive; 0: tokens * members, enough for any choice */
    uint32_t scales;  /* scale factors of a token, a multiple of 4; 0: none */
    weft_type type;   /* of dispatched elements: WEFT_BFLOAT16, WEFT_HALF, WEFT_FLOAT,
                         WEFT_FP8_E4M3, WEFT_FP8_E5M2 */
    weft_type result_type; /* of combined elements: WEFT_BFLOAT16, WEFT_HALF, WEFT_FLOAT */
    uint32_t node_members; /* weft_experts_sizes() alone: members on each node; 0: all on one */
    uint32_t sms; /* SMs of the GPU that kernels which move rows, or add them, take at most, but at
                     least one each where two run at the same time; 0: all. Fewer leave room for
                     kernels of other streams, and take longer. The bits are the same */
} weft_experts_attr;

typedef struct weft_experts_size {
    size_t symmetric; /* bytes that weft_experts_create() allocates at each PE */
    size_t layout;    /* bytes of the layout of one dispatch */
    int relays;       /* 1: PEs relay tokens and add results for their nodes; 0: no PE does */
} weft_experts_size;

/* The tokens of this PE. */
typedef struct weft_experts_tokens {
    size_t size;             /* set by the caller: sizeof(weft_experts_tokens) */
    uint32_t tokens;         /* at most the attribute `tokens`; may differ at each PE; may be 0 */
    int known;               /* 1: the layout is that of an earlier dispatch, whose tokens have the
                                same experts; 0: it is computed. The same at every PE */
    const void *x;           /* [tokens][hidden] */
    const float *scales;     /* [tokens][scales]; ignored without scales */
    const int64_t *topk_idx; /* [tokens][top] experts; -1: none. Ignored with a known layout */
    const float *topk_weights; /* [tokens][top]; NULL: each is 1. Likewise */
} weft_experts_tokens;

/* Where received rows go, and what is known of them. Any pointer may be NULL: not wanted. */
typedef struct weft_experts_rows {
    size_t size;         /* set by the caller: sizeof(weft_experts_rows) */
    void *x;             /* [rows][hidden]; NULL: they stay where weft_experts_received() says */
    float *scales;       /* [rows][scales]; NULL: likewise */
    int64_t *topk_idx;   /* [rows][top] experts, counted from the first own one; -1: not own */
    float *topk_weights; /* [rows][top]; 0: not own */
    uint32_t *n_rows;    /* [1] */
    uint32_t *n_tokens;  /* [own experts] rows that name the expert */
} weft_experts_rows;

/* Computes what weft_experts_create() needs for `members` members: size->symmetric with
 * attr->node_members on each node, the rest on the last one; size->layout is enough on any nodes.
 * Errors: WEFT_ERR_ARGUMENT (attr; names the value and the limits). */
weft_status weft_experts_sizes(int members, const weft_experts_attr *attr, weft_experts_size *size);

/* Makes an object for dispatch and combine among the team's members. Collective over the job:
 * every PE calls it at the same time with equal attributes, each with its own team. Sets the job up
 * for device code (weft_device_start()).
 * Errors: those of weft_alloc() and weft_device_start(). */
weft_status weft_experts_create(weft_team *team, const weft_experts_attr *attr,
                                weft_experts **experts);

/* Collective over the job. Its streams are idle. NULL is allowed. */
weft_status weft_experts_destroy(weft_experts *experts);

/* *size becomes what the object takes on the nodes of its team, and what its layouts need. */
weft_status weft_experts_query(const weft_experts *experts, weft_experts_size *size);

/* *first becomes the first expert of member `pe`, *n their number. */
weft_status weft_experts_range(const weft_experts *experts, int pe, uint32_t *first, uint32_t *n);

/* *x and *scales become the addresses of received rows in the object's memory. Rows are valid from
 * dispatch_receive to the next dispatch_send, and the program may write its results over them. */
weft_status weft_experts_received(const weft_experts *experts, void **x, float **scales);

/* Sends each token to the owners of its experts. Computes `layout` first, or uses it where it is
 * known; then only values and scales are sent. */
weft_status weft_experts_dispatch_send_on_stream(weft_experts *experts, void *layout,
                                                 const weft_experts_tokens *tokens,
                                                 weft_stream stream);

/* Waits for the rows, relays those of other PEs, and stores what `rows` asks for. With a known
 * layout topk_idx and topk_weights are not available. Rows beyond the attribute `rows` are dropped,
 * and weft_experts_check() reports them. */
weft_status weft_experts_dispatch_receive_on_stream(weft_experts *experts,
                                                    const weft_experts_rows *rows, void *layout,
                                                    weft_stream stream);

/* Sends and receives in one call. Parameters as in the two calls above. An error of an argument
 * starts nothing. */
weft_status weft_experts_dispatch_on_stream(weft_experts *experts, const weft_experts_rows *rows,
                                            void *layout, const weft_experts_tokens *tokens,
                                            weft_stream stream);

/* Returns a result for each row to the PE of its token. results: [rows][hidden] of result_type;
 * NULL: they are where the rows were received (type and result_type have the same size). weights:
 * [rows][top], returned with them; may be NULL. */
weft_status weft_experts_combine_send_on_stream(weft_experts *experts, const void *results,
                                                const float *weights, const void *layout,
                                                weft_stream stream);

/* dst[t], of result_type, becomes the sum of the results for token t (see Sums); 0 without results.
 * weights_dst: [tokens][top], the sums of the returned weights; NULL: not wanted, as it must be if
 * none were sent. */
weft_status weft_experts_combine_receive_on_stream(weft_experts *experts, void *dst,
                                                   float *weights_dst, const void *layout,
                                                   weft_stream stream);

/* Sends and receives in one call. Parameters as in the two calls above. An error of an argument
 * starts nothing. */
weft_status weft_experts_combine_on_stream(weft_experts *experts, void *dst, float *weights_dst,
                                           const void *results, const float *weights,
                                           const void *layout, weft_stream stream);

/* After the stream is synchronised: one of the errors that kernels found since the last call, else
 * WEFT_OK. Not collective.
 * Errors: WEFT_ERR_RANGE (an expert that does not exist, with its token and value, which was left
 * out; more rows than the attribute, which were dropped; with a known layout another number of
 * tokens than it has). */
weft_status weft_experts_check(weft_experts *experts);

#ifdef __cplusplus
}
#endif

#endif
