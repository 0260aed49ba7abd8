/* SPDX-License-Identifier: Apache-2.0 */
/* Operations in stream order: an operation begins when the work queued on the stream before it has
 * ended, and work queued after it waits for it. `stream` is a cudaStream_t or CUstream of the job's
 * GPU (NULL: the default stream) or, on simt, a stream of the SIMT executor.
 *
 * On cuda a CUDA graph can capture the operations. Each replay does the same puts and gets on the
 * same addresses, and its barriers count on. The job must have set up its GPUs before a capture
 * begins: call weft_alloc(WEFT_GPU) first.
 *
 * Arguments are those of the functions without _on_stream; the call checks them. A wait that times
 * out ends and leaves a record in the black box (see `weft attach`). The job's next call on the
 * host then returns WEFT_ERR_TIMEOUT with the sentence.
 * The program waits for its streams before weft_finalize(), which itself waits only for host
 * callbacks. After weft_finalize() it must not launch a graph that has such operations.
 * Errors, besides: WEFT_ERR_NO_PATH, WEFT_ERR_UNSUPPORTED (says what). */
#ifndef WEFT_STREAM_H
#define WEFT_STREAM_H

#include <weft.h>
#include <weft/launch.h>

#ifdef __cplusplus
extern "C" {
#endif

/* When the stream has passed the operation, the source may be reused and the data is at the peer (a
 * weft_quiet_on_stream() is included). Until then the program must not change a source, or use a
 * destination, in pageable host memory. */
weft_status weft_put_on_stream(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe,
                               weft_stream stream);
weft_status weft_get_on_stream(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe,
                               weft_stream stream);

/* As weft_put_signal(): the signal is not visible before the data. */
weft_status weft_put_signal_on_stream(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                      uint64_t *signal, uint64_t value, weft_signal_op op, int pe,
                                      weft_stream stream);

/* As weft_signal(), done when everything that the stream did before is visible to the PE that gets
 * the signal. */
weft_status weft_signal_on_stream(weft_ctx *ctx, uint64_t *signal, uint64_t value,
                                  weft_signal_op op, int pe, weft_stream stream);

/* Holds the stream until *signal in the caller's own memory compares true with `value`, at most for
 * WEFT_WAIT_LIMIT, and not when the job has failed (a PE has died). */
weft_status weft_signal_wait_on_stream(weft_ctx *ctx, const uint64_t *signal, weft_cmp cmp,
                                       uint64_t value, weft_stream stream);

/* When the stream has passed it, everything that the context and this stream did before is complete
 * and visible. */
weft_status weft_quiet_on_stream(weft_ctx *ctx, weft_stream stream);

/* When the stream has passed it, every member's stream has reached its barrier, and what the
 * members' streams did before is complete. Every member queues the barriers of one team in the same
 * order. At most 64 members. */
weft_status weft_barrier_on_stream(weft_team *team, weft_stream stream);

/* As weft_barrier_on_stream(), but does not complete operations on host contexts. */
weft_status weft_sync_on_stream(weft_team *team, weft_stream stream);

/* Limits the team's collectives on GPU memory, on streams and from the host, to `sms` SMs each, for
 * a part of the program whose own kernels need the other SMs. Applies to calls made after it;
 * earlier calls and captured graphs keep their limit. Collective over the team; the smallest `sms`
 * that a member passes applies. Teams with the same PEs have separate limits.
 *
 * sms: 0: copy engines, where they can do the operation (below); -1: the value of WEFT_COLL_SMS,
 * with which a team begins. Values above 64 count as 64; others are rounded down to a power of two.
 * No effect on teams whose collectives do not use kernels.
 * Errors: WEFT_ERR_ARGUMENT (null; a member passed less than -1: no limit changes and all members
 * get the error). */
weft_status weft_team_limit_sms(weft_team *team, int sms);

/* Limits the next calls of this member to `sms` SMs, within the limit of weft_team_limit_sms() and
 * without its exchange. All members set the same number before the same collective; otherwise they
 * wait for each other until WEFT_WAIT_LIMIT; with WEFT_CHECK=1 the job fails with a sentence. The
 * first call of a team is collective.
 * sms: 0: copy engines; -1: the team's limit; others as above. */
weft_status weft_team_use_sms(weft_team *team, int sms);

/* How a collective would run. */
typedef struct weft_coll_plan {
    size_t size;           /* set by the caller: sizeof(weft_coll_plan) */
    const char *operation; /* set by the caller: "allreduce", as `weft explain coll` names it */
    size_t bytes;   /* set by the caller: of the vector of a broadcast or reduction, else a block */
    weft_type type; /* set by the caller, with op: of a reduction */
    weft_op op;
    int sms;               /* set by the caller: as weft_team_use_sms() takes it */
    int symmetric;         /* set by the caller: whether the memory is symmetric GPU memory */
    const char *algorithm; /* as `weft explain coll` names it; the text remains */
    int blocks, threads;   /* of each kernel */
    double us;             /* the model's time when the GPUs reach it together, in microseconds */
    int agreed; /* 0: the members have not agreed on rates yet, as they do at the first collective
                 */
} weft_coll_plan;

/* Reports the algorithm that the team would choose now, and its time by the model of `weft explain
 * coll`: nothing runs, and other members need not call. Before the team's first collective on GPU
 * memory it uses this machine's rates and settings.
 * Errors: WEFT_ERR_ARGUMENT (null, size, no such operation, 0 bytes, sms), _TYPE and _OP (of a
 * reduction), _UNSUPPORTED (kernels do not serve the team, or it has one member), _FINALIZED. */
weft_status weft_coll_plan_query(weft_team *team, weft_coll_plan *plan);

/* Collectives, as those of weft.h without _on_stream, in stream order. Collective over the team, in
 * the same order at every member, with the same sizes, types, operations and roots. Where a team's
 * collectives are on several streams, or the host calls some of them, the program orders them. The
 * same holds for graphs: executable graphs with collectives of one team, also two instances of one
 * graph, must not run at the same time, unless the program orders these collectives within them.
 *
 * The kernel of a collective has up to 64 blocks (WEFT_COLL_SMS, weft_team_limit_sms()) and ends
 * when the kernels of all members have run. A GPU on which waiting blocks occupy all SMs starts no
 * other block. Collectives of several teams can therefore deadlock until WEFT_WAIT_LIMIT, when they
 * may run at the same time on several streams and members start them in different orders. Example:
 * PE 0's GPU is full of blocks of teams A and B, PE 1's of B and C, PE 2's of C and A; none of the
 * three can end. Either of the following avoids it. All members start the collectives of these
 * teams in one order, by events between the streams or on one stream. Or the blocks of all
 * collectives that may run at the same time, and of the program's own kernels that wait for them,
 * fit on the GPU together: give each team a limit, with a sum of at most the SMs that the program's
 * other kernels leave free.
 *
 * Memory: GPU memory of the heap, used in place; or other memory that the GPU can access
 * (cudaMalloc, cudaMallocHost, registered). All operations but reductions read such a source in
 * place. Large transfers to such a destination go through the team's staging buffers in the
 * library's areas (`weft env`, below WEFT_COLL), in overlapping steps of a few KiB per block.
 * Strided transfers, and those of checking mode, use LL packets. All members use the same one of
 * the two kinds for the source, and the same for the destination. Any alignment is allowed; large
 * reductions go through staging buffers where elements are not aligned to their size. The library
 * calls the host function in stream order for symmetric host memory, and for teams whose GPUs
 * cannot load and store each other's memory, that have over 64 members, or that are not among the
 * first 32 existing teams of the job.
 *
 * No member writes to a destination before the stream of the PE that owns it has reached the call:
 * what that stream did before has ended, and no sync is needed before a destination is used again.
 *
 * Reductions combine elements in the order of the team (those of 16 and 8 bits in binary32) and
 * round once. Every member gets the same bits, whatever the size, the number of blocks
 * (WEFT_COLL_SMS), the algorithm (WEFT_COLL), and whether the host, a stream or device code calls.
 *
 * WEFT_COLL_SMS=0: copy engines move the bytes of broadcast, allgather, alltoall, gather and
 * scatter into symmetric destinations. One block runs before and one after them, to synchronise the
 * members. Reductions use one block. With other limits, large operations use copy engines where
 * that is faster.
 *
 * Checking mode (WEFT_CHECK=1): at the call the members compare operation, sizes, types and root.
 * When the stream reaches the call, also at each replay, their GPUs compare these, the factor and
 * the kinds of memory. A difference gives WEFT_ERR_MISMATCH, from the call or from the job, with a
 * sentence that names two members and what differs. Nothing is stored, and later operations of the
 * team on streams store nothing either. Copy engines are not used.
 *
 * The first call of a team allocates its state (in a few milliseconds, with one exchange among the
 * members); it may be captured, as later calls may. When a member has died, the stream continues,
 * and the job's next call returns WEFT_ERR_PEER_DEAD or WEFT_ERR_TIMEOUT.
 * Errors: WEFT_ERR_ARGUMENT (null, overlap), _PE (root), _ADDRESS, _RANGE, _TYPE, _OP. */
weft_status weft_broadcast_on_stream(weft_team *team, void *dst, const void *src, size_t bytes,
                                     int root, weft_stream stream);
weft_status weft_allgather_on_stream(weft_team *team, void *dst, const void *src, size_t bytes,
                                     weft_stream stream);
weft_status weft_alltoall_on_stream(weft_team *team, void *dst, const void *src, size_t bytes,
                                    weft_stream stream);

/* As weft_alltoalls(): n elements of `element` bytes for each pair of PEs, dst_stride and
 * src_stride elements apart. Source and destination do not overlap; memory between the
 * destination's elements keeps its contents. Fastest for elements of 1, 2, 4 or 8 bytes that are
 * aligned to their size. */
weft_status weft_alltoalls_on_stream(weft_team *team, void *dst, const void *src,
                                     ptrdiff_t dst_stride, ptrdiff_t src_stride, size_t element,
                                     size_t n, weft_stream stream);

/* Joins the members' `bytes` bytes in the order of the team, in dst at every member; `bytes` may
 * differ at each member, and the GPUs exchange the sizes. dst is memory of the GPU heap at all
 * members, or other memory that the GPU can access at all members. Where the blocks run past the
 * end of the heap, no member stores anything; where they run past the end of other memory, the
 * member that owns it stores nothing. The job then fails with WEFT_ERR_RANGE. */
weft_status weft_collect_on_stream(weft_team *team, void *dst, const void *src, size_t bytes,
                                   weft_stream stream);

/* Sends send_bytes[i] bytes at src + send_at[i] to member i, and receives at most recv_bytes[i]
 * bytes of member i at dst + recv_at[i]. Each array has one element per member, in memory that the
 * GPU can access. The GPU reads the arrays when the stream reaches the call, so kernels may have
 * written them. dst has `room` bytes, of the GPU heap at all members or of other memory that the
 * GPU can access at all members. A block is not stored when it is larger than the receiver's
 * recv_bytes for it, or when its place runs past `room`; the sender's job fails with
 * WEFT_ERR_RANGE. All other blocks arrive. */
weft_status weft_alltoallv_on_stream(weft_team *team, void *dst, size_t room,
                                     const uint64_t *recv_bytes, const uint64_t *recv_at,
                                     const void *src, const uint64_t *send_bytes,
                                     const uint64_t *send_at, weft_stream stream);

/* gather: block i of the root's dst becomes the `bytes` bytes of src at member i; dst is symmetric
 * at all members, or other GPU memory at all members (null at others than the root). scatter: dst
 * at member i becomes block i of the root's src. reduce: as allreduce, but only the root gets the
 * result. */
weft_status weft_gather_on_stream(weft_team *team, void *dst, const void *src, size_t bytes,
                                  int root, weft_stream stream);
weft_status weft_scatter_on_stream(weft_team *team, void *dst, const void *src, size_t bytes,
                                   int root, weft_stream stream);
weft_status weft_reduce_on_stream(weft_team *team, void *dst, const void *src, size_t n,
                                  weft_type type, weft_op op, int root, weft_stream stream);

weft_status weft_allreduce_on_stream(weft_team *team, void *dst, const void *src, size_t n,
                                     weft_type type, weft_op op, weft_stream stream);
weft_status weft_reducescatter_on_stream(weft_team *team, void *dst, const void *src, size_t n,
                                         weft_type type, weft_op op, weft_stream stream);

/* As weft_allreduce_scaled() and the functions with it. The GPU reads a factor in GPU memory when
 * the stream reaches the call, also at each replay of a graph, so a kernel may have written it. The
 * call reads a factor in host memory. */
weft_status weft_allreduce_scaled_on_stream(weft_team *team, void *dst, const void *src, size_t n,
                                            weft_type type, const void *factor, weft_stream stream);
weft_status weft_reduce_scaled_on_stream(weft_team *team, void *dst, const void *src, size_t n,
                                         weft_type type, const void *factor, int root,
                                         weft_stream stream);
weft_status weft_reducescatter_scaled_on_stream(weft_team *team, void *dst, const void *src,
                                                size_t n, weft_type type, const void *factor,
                                                weft_stream stream);

/* As weft_allreduce_weighted() and the functions with it; the factor is read as above. On GPUs each
 * member sends its factor along with its elements. */
weft_status weft_allreduce_weighted_on_stream(weft_team *team, void *dst, const void *src, size_t n,
                                              weft_type type, const void *factor,
                                              weft_stream stream);
weft_status weft_reduce_weighted_on_stream(weft_team *team, void *dst, const void *src, size_t n,
                                           weft_type type, const void *factor, int root,
                                           weft_stream stream);
weft_status weft_reducescatter_weighted_on_stream(weft_team *team, void *dst, const void *src,
                                                  size_t n, weft_type type, const void *factor,
                                                  weft_stream stream);

/* Messages: sends and receives between the members of a team. */
typedef struct weft_messages weft_messages;

/* A part of the call of one member. */
typedef struct weft_message {
    void *address; /* sent from here, or received here */
    size_t bytes;
    int member;   /* of the team: who receives it, or who has sent it; the own number is possible */
    int receives; /* 0: it is sent */
} weft_message;

/* Makes an object for messages among the team's members. Collective over the job: all PEs call it,
 * with teams of the same number of members, and the same `room`: bytes of symmetric memory at each
 * PE for messages on their way, at least 4 KiB for each member. Its streams are CUDA streams where
 * the job has a GPU side (weft_alloc() of WEFT_GPU has been called, or WEFT_TARGET is cuda), else
 * those of the SIMT executor.
 * Errors: WEFT_ERR_ARGUMENT (null, little room), _MISMATCH (`room` differs), as weft_alloc(). */
weft_status weft_messages_create(weft_team *team, size_t room, weft_messages **messages);

/* Frees the object. Collective over the job. Its calls have ended on their streams, and graphs that
 * contain them are not replayed any more. NULL is allowed. */
weft_status weft_messages_destroy(weft_messages *messages);

/* Sends and receives list[0 ... n - 1] at the same time, n at most 65535: a message whose other end
 * is late holds up no other one. Those from one member to another match in their order,
 * over all calls, and have the same size at both ends; 0 bytes are no message. The memory of the
 * messages is memory that the GPU can access (on simt, any), not used by others until the stream
 * has passed the call.
 *
 * Calls with messages to, or from, one member are made in an order, by one stream or by events.
 * Where GPUs access each other's memory, one kernel of up to 64 blocks moves all messages, in 5 us
 * and more. Others go through the host. A call can be captured in a graph; then the other ends are
 * in graphs too, and the program replays these equally often.
 * Errors: WEFT_ERR_ARGUMENT (null, too many), _PE (no such member), _ADDRESS (memory that the GPU
 * cannot access; then nothing is done); on the stream, as a wait that times out: WEFT_ERR_TIMEOUT,
 * _MISMATCH (the ends differ in size, where that is noticed). */
weft_status weft_messages_on_stream(weft_messages *messages, const weft_message *list, size_t n,
                                    weft_stream stream);

#ifdef __cplusplus
}
#endif

#endif
