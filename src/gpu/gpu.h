/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU side of a PE: CUDA driver, device, GPU heap, kernels and internal streams, and the
 * operations that the host issues on its GPU: copies between any two memories, single accesses,
 * signals and bounded waits. This module works on addresses. The path layer maps a PE and an offset
 * to an address. */
#ifndef WEFT_GPU_GPU_H
#define WEFT_GPU_GPU_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/epoch.h"
#include "boot/boot.h"
#include "gpu/heap.h"
#include "gpu/module.h"
#include "memory/heap.h"

enum {
    GPU_STREAMS = 4,          /* internal streams */
    GPU_SIGNAL_THREADS = 256, /* threads of the block that does a small copy and its signal */
    /* bytes; up to this size one thread block is faster than a copy engine and a separate signal */
    GPU_BLOCK_COPY_LIMIT = 16 << 10,
    GPU_LINE_BYTES = 64,    /* bytes of a line for path tests */
    GPU_WIDE_BLOCK = 512,   /* bytes; up to this size that block has one warp */
    GPU_SIZES = 4,          /* size arrays of an alltoallv */
    GPU_SIZES_MEMBERS = 64, /* words in each size array, at most */
    GPU_MAP_TAG_WORDS = 8,  /* 8-byte words of a tag by which a PE finds a peer's memory */
    /* completion events that are words in pinned memory; when all are in use, CUDA events serve */
    GPU_EVENT_WORDS = 40,
};

/* An internal stream of the library. The operations of one context go through one internal stream,
 * in order. Large copies are split over several internal streams. */
struct gpu_stream {
    CUstream stream;
    struct gpu_answer *answer; /* in pinned host memory */
    CUdeviceptr answer_device; /* device address of the answer */
    uint64_t sequence;         /* sequence number of the last operation with an answer */
    pthread_mutex_t lock;      /* held for one operation with an answer at a time */
    /* operations that were begun and those known to be complete: the stream completes them in
     * order */
    struct epoch operations;
    _Atomic uint64_t queued; /* operations that are on the stream, see stream.h */
};

/* Memory of the program, registered with weft_register(). */
struct gpu_registration {
    uintptr_t base;
    size_t bytes;
    bool device;      /* memory of a GPU */
    bool pinned_here; /* the library pinned it and unpins it */
    struct gpu_registration *next;
};

/* The part of the local PEs' host heap that is pinned so that the GPU can access it. Each of the
 * ranges [0, ends[0]), [ends[0], ends[1]) ... of every slot is pinned by a call of its own. */
struct gpu_pins {
    char *slots;
    size_t stride, size;
    int slot_count;
    size_t ends[48];
    int count;
    bool refused; /* the driver refused to pin more */
    void **undo;  /* addresses that this PE pinned and must unpin */
    size_t undo_count;
};

/* Staging buffer in this PE's GPU memory, for copies by a relay GPU from or to memory that the
 * relay GPU cannot access. */
struct gpu_relay_buffer {
    CUdeviceptr at; /* 0: not allocated yet */
    size_t bytes;
    CUmemGenericAllocationHandle handle;
};

/* The areas of teams for collectives, in each window: a struct coll_area with its slots each. */
struct coll_areas {
    size_t offset; /* of the first one */
    int teams;     /* have an area: those with the lowest slots */
    int wide;      /* of these, from slot 0, have larger slot sets */
};

/* Offsets and sizes, in bytes, of the library's part of each window of the GPU heap, at its start.
 */
struct gpu_layout {
    size_t system_bytes;             /* the whole part */
    size_t areas_offset;             /* struct weft_dev_area of every team */
    size_t teams_offset, team_bytes; /* struct gpu_team_area of every team, and of one */
    size_t proof_offset;             /* struct prove_area of every peer */
    size_t lines_offset;             /* a line of GPU_LINE_BYTES for each peer, for path tests */
    /* two such lines for each peer: a NIC of the peer writes the first, the second is the source of
     * writes to the peer */
    size_t nic_lines_offset;
    size_t map_test_offset; /* GPU_MAP_TEST_BYTES for each peer, to test the CPU mapping */
    struct coll_areas coll;
};

/* Memory of the program that was registered, and memory that is pinned. */
struct gpu_registry {
    pthread_mutex_t lock;
    struct gpu_registration *list;
    struct gpu_pins pins;
    void **ranges; /* pinned by gpu_pin_range() */
    size_t range_count;
};

/* Events that are not in use. */
struct gpu_events {
    pthread_mutex_t lock;
    struct gpu_event *idle;       /* CUDA events */
    struct gpu_event *idle_words; /* words of `pinned` that the GPU writes */
    bool words_made;              /* idle_words was filled */
};

/* Copies by several CPU threads (gpu/bounce.h). */
struct gpu_bouncing {
    struct gpu_bounce *threads; /* NULL: none so far */
    _Atomic bool refused;       /* they do not work or are not faster */
    pthread_mutex_t lock;
};

/* Routes over other GPUs. */
struct gpu_multipath {
    /* [device.visible], indexed as heap.relays[]; NULL: not used */
    struct gpu *_Atomic *relay_gpus;
    struct gpu_links *links; /* links between the visible GPUs; NULL: not read yet */
    /* [local PEs] routes of large copies; NULL: always one route (gpu/multipath/stripe.h) */
    struct gpu_stripes *stripes;
    /* called when the routes of large copies to a PE have been chosen */
    void (*changed)(void *to, int pe);
    void *changed_context;
    struct gpu_relay_buffer buffer; /* for a relay GPU */
    pthread_mutex_t buffer_lock;
};

struct gpu {
    struct gpu *owner; /* for a relay GPU: this PE's own GPU (gpu/multipath/relay.h); else NULL */
    struct gpu_api driver;
    struct boot *boot;
    struct gpu_device device;
    struct gpu_heap heap;
    struct gpu_module module;
    struct gpu_coll *coll;  /* NULL: no collective has run yet (gpu/coll/coll.h) */
    struct heap *allocator; /* allocator of the GPU heap */
    /* Streams are made when they are first used (gpu_stream_make()), but for the first. */
    struct gpu_stream streams[GPU_STREAMS];
    CUstream wait_stream; /* for wait kernels, which must not block an internal stream */
    pthread_mutex_t wait_lock;
    CUstream load_stream; /* for loads that must not wait behind a kernel */
    pthread_mutex_t load_lock;
    pthread_mutex_t making_lock; /* held while a stream is made */
    /* host memory that kernels write to, and from which they read the sizes of an alltoallv */
    struct gpu_pinned *pinned;
    CUdeviceptr pinned_device;
    struct gpu_layout layout;
    int *slot_of; /* [npes] index among the local PEs; -1: on another node */
    struct gpu_registry registered;
    struct gpu_events events;
    struct gpu_bouncing bouncing;
    /* A stream of the program still holds kernels of the library that no caller waits for. */
    bool work_left;
    struct gpu_reporting reporting; /* where kernels report errors; the job sets the box */
    void *registered_box;
    uint64_t wait_limit_ns; /* WEFT_WAIT_LIMIT; 0 = none */
    struct gpu_multipath multipath;
};

/* Pinned host memory that kernels read and write. */
struct gpu_pinned {
    struct {
        struct gpu_answer answer;
        uint64_t line[6];
    } streams[GPU_STREAMS];
    uint64_t wait_seen, wait_met; /* results of the wait kernel */
    uint64_t loaded;              /* value that the copy engine loaded */
    struct {
        uint64_t number, spare[7];
    } event_words[GPU_EVENT_WORDS];
    uint64_t sizes[GPU_SIZES][GPU_SIZES_MEMBERS]; /* of the alltoallv that the host called */
    uint64_t map_tag[GPU_MAP_TAG_WORDS];          /* that gpu_map_write_tags() copies */
};

/* Opens the GPU side of every PE. Collective over the job. `current`: see gpu_device_open().
 * teams: most teams at a time. policy: for which peers the
 * library looks for a relay GPU. On failure every PE gets the same status and nothing stays
 * open. */
weft_status gpu_open(struct gpu **gpu, struct boot *boot, CUcontext current, int teams,
                     enum gpu_relay_policy policy);

/* Not collective. The caller makes sure that no peer uses this PE's memory any more. */
void gpu_close(struct gpu *gpu);

/* Returns the error that a kernel of the program left in the context (for example an illegal
 * address, after which nothing runs in the context), or WEFT_OK. Does not wait. */
weft_status gpu_check(struct gpu *gpu);

/* Pins at least the first `end` bytes of every slot of the host heap. Best effort: without it
 * copies are slower and kernels cannot access the host heap. */
void gpu_pin_heap(struct gpu *gpu, char *slots, size_t stride, size_t size, int slot_count,
                  size_t end);
void gpu_unpin_heap(struct gpu *gpu);

/* Whether kernels may access [offset, offset + bytes) of a slot of the host heap. */
static inline bool gpu_heap_pinned(const struct gpu *gpu, size_t offset, size_t bytes)
{
    size_t end =
        gpu->registered.pins.count ? gpu->registered.pins.ends[gpu->registered.pins.count - 1] : 0;
    return offset < end && bytes <= end - offset;
}

/* Returns how many of `bytes` from `address` on belong to one pinned range. A copy must not cross
 * the end of a pinned range. */
size_t gpu_pinned_run_bytes(const struct gpu *gpu, const void *address, size_t bytes);

/* gpu_pin_range() pins memory of a path. gpu_unpin_range() unpins all such memory that begins in
 * the range. Any thread may call them. */
weft_status gpu_pin_range(struct gpu *gpu, void *address, size_t bytes);
void gpu_unpin_range(struct gpu *gpu, const void *address, size_t bytes);

/* Sets *pointer to the address at which kernels access pinned memory. */
weft_status gpu_device_pointer(struct gpu *gpu, void *address, CUdeviceptr *pointer);

/* Makes a device register (such as a NIC doorbell), or a word of plain memory that stands for one,
 * writable by kernels at address *seen. gpu_unpin_range() undoes it. WEFT_ERR_UNSUPPORTED: the
 * driver refuses. */
enum gpu_register_kind { GPU_REGISTER_DEVICE, GPU_REGISTER_MEMORY };
weft_status gpu_map_register(struct gpu *gpu, void *address, size_t bytes, CUdeviceptr *pointer,
                             enum gpu_register_kind *kind);

/* Allocates device memory outside the heap and zeroes it. */
weft_status gpu_alloc(struct gpu *gpu, size_t bytes, CUdeviceptr *address);
/* The same without zeroing it, which would wait for running kernels. */
weft_status gpu_alloc_unset(struct gpu *gpu, size_t bytes, CUdeviceptr *address);
void gpu_free(struct gpu *gpu, CUdeviceptr address);

/* Pins the PE's black box `box` of `bytes`, so that kernels can write error records into it. */
weft_status gpu_attach_box(struct gpu *gpu, void *box, size_t bytes,
                           struct weft_dev_box *device_box);

/* ----------------------------------------------------------------------------------- addresses */

enum gpu_place {
    GPU_PLACE_PLAIN,  /* host memory that is unknown to CUDA */
    GPU_PLACE_PINNED, /* host memory that the GPU can access */
    GPU_PLACE_DEVICE, /* memory of a GPU */
};

/* Returns the kind of memory at `address`. Fast for the windows of the heap and for registered
 * memory; otherwise the driver is queried. */
enum gpu_place gpu_place_of(struct gpu *gpu, const void *address);

/* As gpu_place_of(), for callers that only need to tell GPU memory from host memory. Avoids the
 * driver query where it can, since the query takes longer than a small copy by the CPU. May report
 * pinned memory as plain. */
enum gpu_place gpu_place_for_cpu(struct gpu *gpu, const void *address);

/* Returns the address at which this PE maps `offset` of local PE `slot`; 0: not accessible. */
static inline CUdeviceptr gpu_address(const struct gpu *gpu, int slot, size_t offset)
{
    const struct gpu_window *window = &gpu->heap.windows[slot];
    return window->mapped ? window->base + offset : 0;
}

/* Returns the address of a team's area in the window of local PE `slot`. */
static inline CUdeviceptr gpu_team_address(const struct gpu *gpu, int slot, int team_slot)
{
    return gpu_address(gpu, slot,
                       gpu->layout.teams_offset + (size_t)team_slot * gpu->layout.team_bytes);
}

/* ------------------------------------------------------------------------ for NICs (gpu/nic.c) */

/* Finds the allocation of the heap that holds `offset` of the windows. Returns false when there is
 * none. */
bool gpu_find_chunk(struct gpu *gpu, size_t offset, size_t *start, size_t *bytes);

/* Lists the allocations of this PE's part, in the same order at every PE: first those of the heap,
 * then registered memory of the program. Writes at most `most` entries and returns the number of
 * allocations. */
struct gpu_extent {
    size_t offset, bytes; /* offset in the windows */
};
size_t gpu_list_extents(struct gpu *gpu, struct gpu_extent *list, size_t most);

/* Returns whether the Linux kernel has a peer-memory module, which gives NICs the pages of GPU
 * memory. */
bool gpu_peermem_is_loaded(void);

/* Exports own memory as a dma-buf; `at` and `bytes` are whole host pages. The caller closes *fd. */
weft_status gpu_export_dmabuf(struct gpu *gpu, CUdeviceptr at, size_t bytes, int *fd);

/* When data that a NIC wrote into GPU memory becomes visible to kernels and copies of this GPU and
 * of GPUs that access it. A completion or a flag in host memory may become visible earlier. */
enum gpu_nic_writes {
    GPU_NIC_WRITES_ORDERED,   /* visible with the completion */
    GPU_NIC_WRITES_FLUSHED,   /* visible after gpu_flush_nic_writes() */
    GPU_NIC_WRITES_UNORDERED, /* the driver offers no flush */
};
enum gpu_nic_writes gpu_nic_writes(struct gpu *gpu);
weft_status gpu_flush_nic_writes(struct gpu *gpu);
/* Returns whether a kernel of this GPU that sees the completion also sees the data that the NIC
 * wrote, without a flush. */
bool gpu_sees_nic_writes(struct gpu *gpu);

/* ----------------------------------------------------------------- operations by the host
 * Every function makes the device's context current itself. stream_index: any number; it selects
 * the internal stream. Operations with equal numbers keep their order. */

enum gpu_copy_mode {
    GPU_IN_ORDER, /* ordered after earlier and before later operations of the internal stream */
    GPU_DONE,     /* returns when the copy is complete and both buffers may be reused */
};

/* Copies between any two memories. On return the caller may reuse `src` if it is plain host
 * memory. */
weft_status gpu_copy(struct gpu *gpu, unsigned stream_index, void *dst, const void *src,
                     size_t bytes, enum gpu_copy_mode mode);

/* Copies from plain host memory, ordered after earlier operations of the internal stream. On return
 * the caller may reuse `src`. */
weft_status gpu_copy_plain(struct gpu *gpu, unsigned stream_index, void *dst, const void *src,
                           size_t bytes);

/* Copies on a stream of the program. The device's context is current. */
weft_status gpu_copy_on(struct gpu *gpu, CUstream stream, void *dst, const void *src, size_t bytes);

/* Fills own device memory. Complete on return. */
weft_status gpu_fill(struct gpu *gpu, void *address, unsigned char value, size_t bytes);

/* Copies n elements; steps are in bytes. Both sides are device memory that this GPU can access, or
 * pinned memory. */
weft_status gpu_copy_strided(struct gpu *gpu, unsigned stream_index, void *dst, const void *src,
                             ptrdiff_t dst_step, ptrdiff_t src_step, size_t element, size_t n);

/* One access to device memory. op: a weft_amo, GPU_ACCESS_STORE or GPU_ACCESS_LOAD. With `fetched`
 * it waits and returns the previous value. */
weft_status gpu_access(struct gpu *gpu, unsigned stream_index, CUdeviceptr at, int op, size_t width,
                       uint64_t value, uint64_t expected, uint64_t *fetched);

/* Enqueues an aligned store of 4 or 8 bytes to device memory as a stream memory operation. Returns
 * false when the driver has none for this address. */
bool gpu_store_word(struct gpu *gpu, struct gpu_stream *internal, CUdeviceptr at, uint64_t value,
                    size_t width);

/* Sets or adds to a signal in device memory, ordered after earlier operations of the internal
 * stream. */
weft_status gpu_signal(struct gpu *gpu, unsigned stream_index, CUdeviceptr signal, uint64_t value,
                       weft_signal_op op);

/* Reads an aligned value of 2, 4 or 8 bytes from this PE's heap with the CPU, in about 1 us,
 * without waiting for any stream. Returns false when the value is not mapped for the CPU
 * (gpu/map/map.h). */
bool gpu_peek(struct gpu *gpu, CUdeviceptr at, size_t width, uint64_t *value);

/* Waits about slice_ns for a comparison with device memory to hold. *met: it held. *seen: the last
 * value, sign-extended when is_signed. width: 2, 4 or 8 bytes. */
weft_status gpu_wait_slice(struct gpu *gpu, CUdeviceptr at, size_t width, bool is_signed,
                           weft_cmp cmp, int64_t value, uint64_t slice_ns, uint64_t *seen,
                           bool *met);

/* Returns when all operations on the internal streams are complete and visible to all PEs. */
weft_status gpu_quiet(struct gpu *gpu);

/* As gpu_quiet(), for one internal stream. */
weft_status gpu_stream_quiet(struct gpu *gpu, unsigned stream_index);

/* Records an event after the operations that are on an internal stream. gpu_event_query() tests it
 * without waiting. */
struct gpu_event;
weft_status gpu_event_record(struct gpu *gpu, unsigned stream_index, struct gpu_event **event);

/* Sets *event to NULL and releases it when the operations before it are complete. */
weft_status gpu_event_query(struct gpu *gpu, struct gpu_event **event);

/* Aligned stores of 4 or 8 bytes to device memory and an event after them, given to the driver in
 * one call. They complete, and are seen to be complete, sooner than a copy and an event. They
 * become visible in order, after earlier operations of the internal stream. *event NULL: the driver
 * has no batched stream memory operations, and nothing was enqueued. */
struct gpu_word {
    CUdeviceptr at;
    uint64_t value;
    unsigned width;
};
enum { GPU_MOST_WORDS = 4 }; /* stores in one batch, at most */

/* Splits `bytes` of host memory into such stores, at most GPU_MOST_WORDS - 1. Returns the number of
 * stores; 0: too many or not aligned. */
int gpu_split_words(CUdeviceptr at, const void *data, size_t bytes, struct gpu_word *words);
weft_status gpu_store_recorded(struct gpu *gpu, unsigned stream_index, const struct gpu_word *words,
                               int n, struct gpu_event **event);

/* Releases an event that the caller will not query. *event may be NULL. */
void gpu_event_release(struct gpu *gpu, struct gpu_event **event);
void gpu_events_free(struct gpu *gpu);

/* ---------------------------------------------------------------------- tests of GPU pairs */

/* Tests all pairs of GPUs of this node that WEFT_PROVE selects, in parallel. Both sides stop using
 * a pair that fails and keep the evidence. Collective over the job. */
weft_status gpu_prove(struct gpu *gpu);

/* Describes the result of a test in words; `peer` names the other side ("PE 3", "gpu1"). */
void prove_describe(const struct prove_report *report, const char *peer, char *text, size_t bytes);

#endif
