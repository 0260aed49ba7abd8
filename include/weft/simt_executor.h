/* SPDX-License-Identifier: Apache-2.0 */
/* The executor of the SIMT stand-in: runs a CUDA-like grid on CPU threads. Host API.
 *
 * A grid is blocks of warps of 32 lanes. Every lane is a cooperative context with a stack of its
 * own (WEFT_SIMT_STACK, guard page below); the lanes of a block share one worker thread, and give
 * way to each other where they meet (warp and block operations) and where they poll. Worker threads
 * (WEFT_SIMT_THREADS, 0 = one per CPU) start with the first launch.
 *
 * Residency: blocks are started in order of their index. A block that waits for another needs it
 * resident: up to WEFT_SIMT_LANES lanes of all running grids are resident together (and of each
 * running grid at least one block); blocks beyond that start when others end.
 *
 * Wrong use of a primitive (see docs/simt.md) ends its grid: the sentence, with kernel, block and
 * lane, is logged once, and the stream's next synchronize returns WEFT_ERR_KERNEL with it. Kernels
 * queued behind the fault are skipped until then; events and host calls are not.
 *
 * <weft/launch.h> is the way to launch kernels on either target; this header is below it.
 */
#ifndef WEFT_SIMT_EXECUTOR_H
#define WEFT_SIMT_EXECUTOR_H

#include <stddef.h>
#include <stdint.h>

#include <weft.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_simt_stream weft_simt_stream;
typedef struct weft_simt_event weft_simt_event;

#define WEFT_SIMT_COOPERATIVE 1u /* refuse a grid whose blocks cannot all be resident */

#define WEFT_SIMT_MAX_THREADS 1024u         /* of a block */
#define WEFT_SIMT_MAX_SHARED  (227u * 1024) /* bytes of a block: dynamic and declared together */

typedef struct weft_simt_launch_attr {
    size_t size;                      /* sizeof(weft_simt_launch_attr): lets the structure grow */
    const char *name;                 /* of the kernel, for messages; must outlive the launch */
    void (*kernel)(const void *args); /* run by every lane */
    const void *args;                 /* copied by the launch */
    size_t args_bytes;
    unsigned grid[3], block[3];
    size_t shared_bytes; /* dynamic shared memory */
    unsigned flags;      /* WEFT_SIMT_* */
} weft_simt_launch_attr;

/* Queues a grid on `stream` (NULL = the default stream) and returns. Operations of one stream run
 * in order, those of different streams side by side; the default stream is one of them, without the
 * implicit synchronisation of CUDA's. May be called from any thread, not from a kernel.
 * Errors: WEFT_ERR_ARGUMENT (dimensions, shared memory, a cooperative grid that is too large),
 * _NO_MEMORY, _SYSTEM (threads). */
weft_status weft_simt_launch(const weft_simt_launch_attr *attr, weft_simt_stream *stream);

/* A pointer that kernels launched by the calling thread from now on find in
 * weft_simt_self()->state, as do device functions that the thread itself calls: what stands for
 * constant memory when several PEs are threads of one process. NULL at first. */
void weft_simt_set_state(void *state);

/* Destroying a stream waits for it. */
weft_status weft_simt_stream_create(weft_simt_stream **stream);
weft_status weft_simt_stream_destroy(weft_simt_stream *stream);

/* Waits until everything queued is done. Returns, once, the first fault since the last call. */
weft_status weft_simt_stream_synchronize(weft_simt_stream *stream);

/* *idle = 1 when everything queued is done. Returns the fault without taking it away. */
weft_status weft_simt_stream_query(weft_simt_stream *stream, int *idle);

/* Waits for every stream; the first fault found, once. */
weft_status weft_simt_synchronize(void);

/* Queues a call of `fn(arg)`, made by a thread of this stream, started with the first such call; it
 * may block without holding up other streams or kernels. */
weft_status weft_simt_host_call(weft_simt_stream *stream, void (*fn)(void *arg), void *arg);

/* Events as in CUDA: record marks a place in a stream; a wait holds back the stream, and
 * synchronize the caller, until the most recent record before it has been reached (at once when
 * there is none). elapsed gives the time between the last two completed records. */
weft_status weft_simt_event_create(weft_simt_event **event);
weft_status weft_simt_event_destroy(weft_simt_event *event);
weft_status weft_simt_event_record(weft_simt_event *event, weft_simt_stream *stream);
weft_status weft_simt_event_wait(weft_simt_stream *stream, weft_simt_event *event);
weft_status weft_simt_event_query(weft_simt_event *event, int *done);
weft_status weft_simt_event_synchronize(weft_simt_event *event);
weft_status weft_simt_event_elapsed(weft_simt_event *start, weft_simt_event *end, uint64_t *ns);

/* Waits for every stream, then ends the worker threads and frees pooled stacks; the next launch
 * starts them again. The configuration is read anew then. */
void weft_simt_shutdown(void);

/* Worker threads now running; 0 before the first launch. */
unsigned weft_simt_threads(void);

#ifdef __cplusplus
}
#endif

#endif
