/* SPDX-License-Identifier: Apache-2.0 */
/* The executor of the SIMT stand-in: runs a CUDA-like grid on CPU threads. Host API.
 *
 * A grid has blocks, a block has warps of 32 lanes. Every lane is a cooperative context with its
 * own stack (of WEFT_SIMT_STACK bytes, with a guard page below). The lanes of a block share one
 * worker thread; a lane yields to the others where they synchronise (warp and block operations) and
 * where it polls. Worker threads (WEFT_SIMT_THREADS, 0 = one per CPU) start with the first launch.
 *
 * Residency: blocks start in order of their index. A block that waits for another needs that block
 * to be resident. Up to WEFT_TEST_SIMT_LANES lanes of all running grids are resident together, and
 * at least one block of each running grid; other blocks start when resident ones end.
 *
 * Wrong use of a primitive (see docs/simt.md) ends its grid. The executor logs the fault once, with
 * kernel, block and lane, and the stream's next synchronize returns WEFT_ERR_KERNEL with that
 * sentence. Until then kernels queued after the fault are skipped; events and host calls are not.
 *
 * Programs launch kernels on either target with <weft/launch.h>; this header is the layer below
 * it. */
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

#define WEFT_SIMT_COOPERATIVE 1u /* fail if the blocks of the grid cannot all be resident */

#define WEFT_SIMT_MAX_THREADS 1024u         /* threads of a block */
#define WEFT_SIMT_MAX_SHARED  (227u * 1024) /* bytes of a block: dynamic and declared memory */

typedef struct weft_simt_launch_attr {
    size_t size;                      /* sizeof(weft_simt_launch_attr): lets the structure grow */
    const char *name;                 /* name of the kernel, for messages; must outlive the
                                         launch */
    void (*kernel)(const void *args); /* every lane calls it */
    const void *args;                 /* copied by the launch */
    size_t args_bytes;
    unsigned grid[3], block[3];
    size_t shared_bytes; /* size of dynamic shared memory */
    unsigned flags;      /* sum of WEFT_SIMT_* */
} weft_simt_launch_attr;

/* Queues a grid on `stream` (NULL = the default stream) and returns. Operations of one stream run
 * in order, those of different streams concurrently. The default stream is one of them, without the
 * implicit synchronisation of CUDA's. Any thread may call it, but no kernel.
 * Errors: WEFT_ERR_ARGUMENT (dimensions, shared memory, a cooperative grid that is too large),
 * _NO_MEMORY, _SYSTEM (threads). */
weft_status weft_simt_launch(const weft_simt_launch_attr *attr, weft_simt_stream *stream);

/* Sets the value that kernels launched by the calling thread from now on find in
 * weft_simt_self()->state, as do device functions that the thread itself calls. It takes the place
 * of constant memory when several PEs are threads of one process. NULL at first. */
void weft_simt_set_state(void *state);

/* Makes and destroys a stream. Destroying a stream waits for its work. */
weft_status weft_simt_stream_create(weft_simt_stream **stream);
weft_status weft_simt_stream_destroy(weft_simt_stream *stream);

/* Waits until all queued work is done. Returns the first fault since the last call, once. */
weft_status weft_simt_stream_synchronize(weft_simt_stream *stream);

/* *idle becomes 1 when all queued work is done, else 0. Returns a fault without clearing it. */
weft_status weft_simt_stream_query(weft_simt_stream *stream, int *idle);

/* Waits for every stream. Returns the first fault found, once. */
weft_status weft_simt_synchronize(void);

/* Queues a call of `fn(arg)`. A thread of this stream, started with the first such call, makes the
 * call; it may block without delaying other streams or kernels. */
weft_status weft_simt_host_call(weft_simt_stream *stream, void (*fn)(void *arg), void *arg);

/* Events as in CUDA. record marks a place in a stream. wait holds the stream, and synchronize the
 * caller, until the event's most recent record has been reached; without a record they return at
 * once. elapsed gives the time in ns between the last two completed records. */
weft_status weft_simt_event_create(weft_simt_event **event);
weft_status weft_simt_event_destroy(weft_simt_event *event);
weft_status weft_simt_event_record(weft_simt_event *event, weft_simt_stream *stream);
weft_status weft_simt_event_wait(weft_simt_stream *stream, weft_simt_event *event);
weft_status weft_simt_event_query(weft_simt_event *event, int *done);
weft_status weft_simt_event_synchronize(weft_simt_event *event);
weft_status weft_simt_event_elapsed(weft_simt_event *start, weft_simt_event *end, uint64_t *ns);

/* Waits for every stream, then ends the worker threads and frees pooled stacks. The next launch
 * starts them again and reads the configuration anew. */
void weft_simt_shutdown(void);

/* Returns the number of running worker threads; 0 before the first launch. */
unsigned weft_simt_threads(void);

#ifdef __cplusplus
}
#endif

#endif
