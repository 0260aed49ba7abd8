/* SPDX-License-Identifier: Apache-2.0 */
/* Operations in stream order: they begin when what was put on the stream before has ended, and what
 * is put on it afterwards waits for them. `stream` is a cudaStream_t or CUstream of the job's GPU
 * (NULL: the default stream), or a stream of the SIMT executor, by the target of the job.
 *
 * On cuda they may be captured into a CUDA graph and the graph be replayed: a replay does the same
 * puts and gets of the same addresses, and its barriers go on counting. The GPU side of the job
 * must be there before a capture begins: call weft_alloc(WEFT_GPU) first.
 *
 * Arguments are those of the functions without _on_stream, and are checked at the call; a wait that
 * runs out of time ends, leaves a record in the black box, and the job's next call on the host
 * returns WEFT_ERR_TIMEOUT with the words.
 * A program waits for its streams before weft_finalize(), which waits only for what the host does
 * in their order; and no graph that has such operations may be launched behind it.
 * Errors, besides: WEFT_ERR_NO_PATH, WEFT_ERR_UNSUPPORTED (says what). */
#ifndef WEFT_STREAM_H
#define WEFT_STREAM_H

#include <weft.h>
#include <weft/launch.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The source may be reused, and the data is at the peer, when the stream has passed the operation
 * (weft_quiet_on_stream() is part of it). A source or destination in plain host memory must stay
 * as it is until then. */
weft_status weft_put_on_stream(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe,
                               weft_stream stream);
weft_status weft_get_on_stream(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe,
                               weft_stream stream);

/* The signal is not visible before the data. */
weft_status weft_put_signal_on_stream(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                      uint64_t *signal, uint64_t value, weft_signal_op op, int pe,
                                      weft_stream stream);

/* Changes a signal when all that the stream did before is visible to its PE. */
weft_status weft_signal_on_stream(weft_ctx *ctx, uint64_t *signal, uint64_t value,
                                  weft_signal_op op, int pe, weft_stream stream);

/* Holds the stream until the own *signal compares true; bounded by WEFT_WAIT_LIMIT. */
weft_status weft_signal_wait_on_stream(weft_ctx *ctx, const uint64_t *signal, weft_cmp cmp,
                                       uint64_t value, weft_stream stream);

/* Behind it, everything that the context and this stream did before is complete and visible. */
weft_status weft_quiet_on_stream(weft_ctx *ctx, weft_stream stream);

/* Behind it, every member's stream has arrived, and what the members' streams did before is
 * complete. Barriers of one team come in the same order at every member. At most 64 members. */
weft_status weft_barrier_on_stream(weft_team *team, weft_stream stream);

/* The same without completing what the host's contexts did before. */
weft_status weft_sync_on_stream(weft_team *team, weft_stream stream);

/* The collectives of the team on GPU memory that streams and the host call from here on take at
 * most `sms` SMs: for a step of the program whose own kernels need the others. Collective over the
 * team; the least number that a member names serves. What was called or captured before keeps what
 * it had. Teams that have the same PEs have a limit each.
 *
 * sms: 0: copy engines, where these can serve (below); -1: as WEFT_COLL_SMS says, which is where a
 * team begins; more than 64 are 64, and others the next lower power of two. Without effect on teams
 * that no kernels serve.
 * Errors: WEFT_ERR_ARGUMENT (null; a member named less than -1: nothing is changed, all are
 * told). */
weft_status weft_team_limit_sms(weft_team *team, int sms);

/* Collectives, as those of weft.h without _on_stream, in stream order. Collective over the team, in
 * the same order at every member, with the same sizes, types, operations and roots; where a team's
 * collectives are put on several streams, or the host calls some, the program orders these. So it
 * is with graphs: executables that have collectives of one team, also two of one graph, do not run
 * at the same time, unless the program orders these collectives within them.
 *
 * A collective's kernel has up to 64 blocks (WEFT_COLL_SMS, weft_team_limit_sms()), and ends when
 * the kernels of all members have run. A GPU that is full of blocks that wait begins no others. So
 * where collectives of several teams, on several streams, may run at the same time, and members
 * begin them in different orders, they can wait for each other until the limit of waits: PE 0's GPU
 * is full of blocks of teams A and B, PE 1's of B and C, PE 2's of C and A, and none of the three
 * can end. Each of the following avoids it: all members begin the collectives of these teams in one
 * order, by events between the streams or on one stream; or the blocks of all collectives that may
 * run at the same time, and of the program's own kernels that wait for them, fit on the GPU
 * together: give each team a limit, so that the limits together are at most the SMs of the GPU that
 * the program's other kernels leave free.
 *
 * Memory: GPU memory of the heap, in place; or other memory that the GPU accesses (cudaMalloc,
 * cudaMallocHost, registered): sources are read in place by all but reductions, and what is large
 * goes to other destinations through scratch, which is the team's part of the library's areas
 * (`weft env`, below WEFT_COLL), in steps of some KiB a block that overlap; strided ones, and those
 * of checking mode, by packets. Each side is of one of the two kinds at all members alike. Any
 * alignment; large reductions go through scratch where elements are not aligned to their size.
 * Symmetric host memory, and teams whose GPUs do not reach each other by load and store, have over
 * 64 members, or are not among the first 32 of the job that exist: the host's function is called in
 * stream order.
 *
 * A destination is not touched before its own member's stream has come to the call: what that
 * stream did before has ended, and nobody needs to sync before a destination is used again. (Not
 * where the host's function is called.)
 *
 * Elements of reductions are combined in the order of the team, those of 16 and 8 bits in binary32,
 * and rounded once: the same bits at every member, whatever the size, the number of blocks
 * (WEFT_COLL_SMS), the way (WEFT_COLL), and whether the host, a stream or device code asks.
 *
 * WEFT_COLL_SMS=0: copy engines move the bytes of broadcast, fcollect, alltoall, gather and scatter
 * into symmetric destinations; one block runs before them and one behind, while the members meet.
 * Reductions take one block. Large ones go that way by themselves where it is faster.
 *
 * Checking mode (WEFT_CHECK=1): at the call the members compare operation, sizes, types and root,
 * and when the stream comes there, at each replay too, their GPUs compare them, the factor and the
 * kinds of memory. A difference is WEFT_ERR_MISMATCH, of the call or of the job, in words that name
 * two members and what differs; nothing is stored, and what the team does on streams afterwards
 * stores nothing either. Copy engines are not used.
 *
 * The first call of a team makes it ready (some milliseconds, and the members exchange a word); it
 * may be captured, as others may. A member that has died: the stream goes on, and the job's next
 * call returns WEFT_ERR_PEER_DEAD or WEFT_ERR_TIMEOUT.
 * Errors: WEFT_ERR_ARGUMENT (null, overlap), _PE (root), _ADDRESS, _RANGE, _TYPE, _OP. */
weft_status weft_broadcast_on_stream(weft_team *team, void *dst, const void *src, size_t bytes,
                                     int root, weft_stream stream);
weft_status weft_fcollect_on_stream(weft_team *team, void *dst, const void *src, size_t bytes,
                                    weft_stream stream);
weft_status weft_alltoall_on_stream(weft_team *team, void *dst, const void *src, size_t bytes,
                                    weft_stream stream);

/* As weft_alltoalls(): n elements of `element` bytes a pair, dst_stride and src_stride elements
 * apart. Source and destination do not overlap; what lies between their elements stays as it is.
 * Quickest for elements of 1, 2, 4 or 8 bytes that are aligned to their size. */
weft_status weft_alltoalls_on_stream(weft_team *team, void *dst, const void *src,
                                     ptrdiff_t dst_stride, ptrdiff_t src_stride, size_t element,
                                     size_t n, weft_stream stream);

/* Each member's own `bytes`, joined in the order of the team at every member; the members tell each
 * other the sizes on their GPUs. dst is memory of the GPU heap, or other memory that the GPU
 * accesses, at all members alike. Where the blocks run past the end of the heap nobody stores, past
 * that of other memory its own member does not; the job fails with WEFT_ERR_RANGE. */
weft_status weft_collect_on_stream(weft_team *team, void *dst, const void *src, size_t bytes,
                                   weft_stream stream);

/* send_bytes[i] bytes at src + send_at[i] go to member i, which has room for recv_bytes[i] of this
 * member at dst + recv_at[i] of its own: arrays of as many words as the team has members, in memory
 * that the GPU accesses, read when the stream comes to the call, so that kernels may have made
 * them. dst is `room` bytes of the GPU heap, or of other memory that the GPU accesses, at all
 * members alike. A block that is larger than its receiver's room for it, or whose room runs past
 * `room`, is not stored, and its sender's job fails with WEFT_ERR_RANGE; what fits arrives all the
 * same. */
weft_status weft_alltoallv_on_stream(weft_team *team, void *dst, size_t room,
                                     const uint64_t *recv_bytes, const uint64_t *recv_at,
                                     const void *src, const uint64_t *send_bytes,
                                     const uint64_t *send_at, weft_stream stream);

/* To and from one member. gather: block i of the root's dst becomes the `bytes` of member i; dst is
 * symmetric, or memory of the GPU alone, at all members. scatter: member i gets block i of the
 * root's src. reduce_to: as reduce, at the root alone. */
weft_status weft_gather_on_stream(weft_team *team, void *dst, const void *src, size_t bytes,
                                  int root, weft_stream stream);
weft_status weft_scatter_on_stream(weft_team *team, void *dst, const void *src, size_t bytes,
                                   int root, weft_stream stream);
weft_status weft_reduce_to_on_stream(weft_team *team, void *dst, const void *src, size_t n,
                                     weft_type type, weft_op op, int root, weft_stream stream);

weft_status weft_reduce_on_stream(weft_team *team, void *dst, const void *src, size_t n,
                                  weft_type type, weft_op op, weft_stream stream);
weft_status weft_reducescatter_on_stream(weft_team *team, void *dst, const void *src, size_t n,
                                         weft_type type, weft_op op, weft_stream stream);

/* As weft_reduce_scaled() and its kin. A factor in memory of the GPU is read when the stream comes
 * to the call, so that a kernel may have made it, and by each replay of a graph; one in host
 * memory, at the call. */
weft_status weft_reduce_scaled_on_stream(weft_team *team, void *dst, const void *src, size_t n,
                                         weft_type type, const void *factor, weft_stream stream);
weft_status weft_reduce_to_scaled_on_stream(weft_team *team, void *dst, const void *src, size_t n,
                                            weft_type type, const void *factor, int root,
                                            weft_stream stream);
weft_status weft_reducescatter_scaled_on_stream(weft_team *team, void *dst, const void *src,
                                                size_t n, weft_type type, const void *factor,
                                                weft_stream stream);

/* As weft_reduce_weighted() and its kin; the factor as above. On GPUs it travels beside the
 * elements. */
weft_status weft_reduce_weighted_on_stream(weft_team *team, void *dst, const void *src, size_t n,
                                           weft_type type, const void *factor, weft_stream stream);
weft_status weft_reduce_to_weighted_on_stream(weft_team *team, void *dst, const void *src, size_t n,
                                              weft_type type, const void *factor, int root,
                                              weft_stream stream);
weft_status weft_reducescatter_weighted_on_stream(weft_team *team, void *dst, const void *src,
                                                  size_t n, weft_type type, const void *factor,
                                                  weft_stream stream);

#ifdef __cplusplus
}
#endif

#endif
