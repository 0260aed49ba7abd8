/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU side of a job: driver, device, heap, kernels, internal streams; and what is done with
 * them on behalf of the host: copies between any two memories, single accesses, signals, bounded
 * waits. Works on addresses; which PE and offset they mean is known above. */
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
    GPU_LANES = 4,
    GPU_SIGNAL_THREADS = 256, /* of the block that does a small copy and its signal */
    GPU_BLOCK_COPY_LIMIT =
        16 << 10, /* bytes up to which a block is sooner than copy engine and signal */
    GPU_LINE_BYTES = 64,
    GPU_WIDE_BLOCK = 512,   /* bytes up to which that block is a single warp */
    GPU_SIZES = 4,          /* arrays of an alltoallv, */
    GPU_SIZES_MEMBERS = 64, /* of so many words at most */
    GPU_MARK_WORDS = 40,    /* marks that are words; where they are all in use, events serve */
};

/* A stream of the library's own. Operations of one context go through one lane, in order; large
 * copies are dealt out over several. */
struct gpu_lane {
    CUstream stream;
    struct gpu_answer *answer; /* pinned */
    CUdeviceptr answer_device;
    uint64_t number;         /* of the last operation with an answer */
    pthread_mutex_t lock;    /* one operation with an answer at a time */
    struct epoch operations; /* begun, and known to be complete: the first ones of the stream */
    _Atomic uint64_t queued; /* operations that are on the stream; see lane.h */
};

/* The program's own memory, registered by weft_register(). */
struct gpu_registration {
    uintptr_t base;
    size_t bytes;
    bool device;
    bool pinned_here; /* by us, to be undone */
    struct gpu_registration *next;
};

/* The host heap of the local PEs as far as it is pinned, so that the GPU can access it: the parts
 * [0, ends[0]), [ends[0], ends[1]) ... of every slot, each registered by itself. */
struct gpu_pins {
    char *slots;
    size_t stride, size;
    int slot_count;
    size_t ends[48];
    int count;
    bool refused;
    void **undo; /* what this PE registered */
    size_t undo_count;
};

/* Memory of this PE's GPU through which a third GPU reaches what it cannot access. */
struct gpu_around {
    CUdeviceptr at; /* 0 = not made yet */
    size_t bytes;
    CUmemGenericAllocationHandle handle;
};

struct gpu {
    struct gpu *main; /* of a third GPU, this PE's own (gpu/relay.h); else NULL */
    struct cuda cuda;
    struct boot *boot;
    struct gpu_device device;
    struct gpu_heap heap;
    struct gpu_module module;
    struct gpu_coll *coll;  /* NULL: no collective has asked for it (gpu/coll.h) */
    struct heap *allocator; /* the allocator of the GPU heap */
    struct gpu_lane lanes[GPU_LANES];
    int lane_count;
    CUstream wait_stream; /* a waiting kernel must not hold up a lane */
    pthread_mutex_t wait_lock;
    CUstream aside_stream; /* for loads that must not wait for a kernel in front of them */
    pthread_mutex_t aside_lock;
    struct gpu_pinned *pinned; /* host memory that kernels write to, and read sizes from */
    CUdeviceptr pinned_device;
    size_t system_offset, system_bytes; /* in each window: not the program's */
    size_t areas_offset, areas_bytes;   /* in them: struct weft_dev_area of every team */
    size_t teams_offset;                /* struct gpu_team_area of every team */
    size_t proof_offset;                /* struct prove_area of every peer */
    size_t lines_offset;     /* of every peer, for proofs of paths; GPU_LINE_BYTES each */
    size_t nic_lines_offset; /* likewise, two for each: what it writes here, and what goes to it */
    size_t map_test_offset;  /* of every peer, GPU_MAP_TEST_BYTES each, for the test of the CPU's
                                mapping */
    size_t coll_offset;      /* struct coll_area of the first teams */
    size_t team_bytes;       /* of one team's struct gpu_team_area */
    int *slot_of;            /* [npes] place among the local PEs, -1 = on another node */
    pthread_mutex_t registrations_lock;
    struct gpu_registration *registrations;
    struct gpu_pins pins;
    pthread_mutex_t marks_lock;
    struct gpu_mark *marks; /* that are not in use: events, */
    struct gpu_mark *words; /* and words of `pinned` that the GPU writes */
    bool words_made;
    void **pinned_ranges; /* by gpu_pin_range(), under the lock of registrations */
    size_t pinned_range_count;
    struct gpu_bounce *bounce; /* copies by several threads, gpu/bounce.h; NULL: none so far */
    _Atomic bool bounce_refused;
    /* A stream of the program has kernels of ours to come that nobody waits for any more. */
    bool work_left;
    pthread_mutex_t bounce_lock;
    struct gpu_reporting reporting; /* for kernels; the box is set by the job */
    void *registered_box;
    uint64_t wait_limit_ns;
    size_t stripe_bytes; /* copies from this size are dealt out over the lanes; 0 = never */

    struct gpu *_Atomic *sides; /* [device.visible] of heap.relays[], NULL = not used */
    struct gpu_links *links;    /* what joins the visible GPUs; NULL: nobody has needed to know */
    struct gpu_stripes
        *stripes; /* [local PEs] ways of large copies; NULL: always one (gpu/stripe.h) */
    void (*stripes_told)(void *to, int pe); /* something new is known of the ways to that PE */
    void *stripes_told_to;
    /* Of a third GPU. */
    struct gpu_around around;
    pthread_mutex_t around_lock;
};

/* Host memory that kernels read and write. */
struct gpu_pinned {
    struct {
        struct gpu_answer answer;
        uint64_t line[6];
    } lanes[GPU_LANES];
    uint64_t wait_seen, wait_met;
    uint64_t aside; /* what a load by the copy engine found */
    struct {
        uint64_t number, spare[7];
    } marks[GPU_MARK_WORDS];
    uint64_t sizes[GPU_SIZES][GPU_SIZES_MEMBERS]; /* of the alltoallv that the host has called */
};

/* Opens the GPU side of every PE. Collective over the job. `current`: see gpu_device_open().
 * team_slots: how many teams need a place for barriers on streams. wish: for which peers a third
 * GPU is looked for. Fails at every PE with the same status, and then leaves nothing. */
weft_status gpu_open(struct gpu **gpu, struct boot *boot, CUcontext current, int team_slots,
                     enum gpu_relay_wish wish);

/* Not collective: the caller sees to it that no peer uses this PE's memory any more. */
void gpu_close(struct gpu *gpu);

/* WEFT_OK, or the error that a kernel of the program has left in the context (an illegal address,
 * say): nothing runs there any more. Does not wait. */
weft_status gpu_check(struct gpu *gpu);

/* Pins the first `end` bytes of every slot of the host heap, and somewhat more. Best effort:
 * without it copies are slower, and kernels cannot access the host heap. */
void gpu_pin_heap(struct gpu *gpu, char *slots, size_t stride, size_t size, int slot_count,
                  size_t end);
void gpu_unpin_heap(struct gpu *gpu);

/* Whether kernels may access [offset, offset + bytes) of a slot of the host heap. */
static inline bool gpu_heap_pinned(const struct gpu *gpu, size_t offset, size_t bytes)
{
    size_t end = gpu->pins.count ? gpu->pins.ends[gpu->pins.count - 1] : 0;
    return offset < end && bytes <= end - offset;
}

/* How many of `bytes` from `address` on belong to one registration: a copy must not cross. */
size_t gpu_pin_run(const struct gpu *gpu, const void *address, size_t bytes);

/* Pins memory of a path's own, and undoes that for all that lies in a range. From any thread. */
weft_status gpu_pin_range(struct gpu *gpu, void *address, size_t bytes);
void gpu_unpin_range(struct gpu *gpu, const void *address, size_t bytes);

/* Where kernels find pinned memory. */
weft_status gpu_seen(struct gpu *gpu, void *address, CUdeviceptr *seen);

/* Makes a register of a device, or a word of plain memory in its place, writable by kernels, which
 * find it at *seen. WEFT_ERR_UNSUPPORTED: the driver refuses. gpu_unpin_range() undoes it. */
enum gpu_register_kind { GPU_REGISTER_DEVICE, GPU_REGISTER_MEMORY };
weft_status gpu_map_register(struct gpu *gpu, void *address, size_t bytes, CUdeviceptr *seen,
                             enum gpu_register_kind *kind);

/* Device memory outside the heap, zeroed. */
weft_status gpu_alloc(struct gpu *gpu, size_t bytes, CUdeviceptr *address);
void gpu_free(struct gpu *gpu, CUdeviceptr address);

/* Lets kernels report into the black box: `box` (the PE's, of `bytes`) is pinned. */
weft_status gpu_attach_box(struct gpu *gpu, void *box, size_t bytes,
                           struct weft_dev_box *device_box);

/* ----------------------------------------------------------------------------------- addresses */

enum gpu_place {
    GPU_PLACE_PLAIN,  /* host memory that CUDA does not know */
    GPU_PLACE_PINNED, /* host memory that the GPU can access */
    GPU_PLACE_DEVICE, /* memory of a GPU */
};

/* What kind of memory `address` is. Quick for the windows of the heap and for registered memory;
 * else the driver is asked. */
enum gpu_place gpu_place_of(struct gpu *gpu, const void *address);

/* The same where only GPU memory must be told from the rest, which takes the driver longer than a
 * small transfer takes the CPU: pinned memory may be called plain. */
enum gpu_place gpu_place_for_cpu(struct gpu *gpu, const void *address);

/* Where local PE `slot`'s offset is mapped here, 0 when it cannot be accessed. */
static inline CUdeviceptr gpu_address(const struct gpu *gpu, int slot, size_t offset)
{
    const struct gpu_window *window = &gpu->heap.windows[slot];
    return window->mapped ? window->base + offset : 0;
}

/* Where kernels find a team's area of local PE `slot`. */
static inline CUdeviceptr gpu_team_address(const struct gpu *gpu, int slot, int team_slot)
{
    return gpu_address(gpu, slot, gpu->teams_offset + (size_t)team_slot * gpu->team_bytes);
}

/* ------------------------------------------------------------------------ for NICs (gpu/nic.c) */

/* The allocation of the heap that holds an offset of the windows; false: the heap has none
 * there. */
bool gpu_chunk_at(struct gpu *gpu, size_t offset, size_t *start, size_t *bytes);

/* All allocations of the own part, in an order that is the same at every PE: those of the heap,
 * then the program's own that it has adopted. Returns how many there are; no more than `most` are
 * written. */
struct gpu_extent {
    size_t offset, bytes; /* in the windows */
};
size_t gpu_list_extents(struct gpu *gpu, struct gpu_extent *list, size_t most);

/* Whether the kernel can turn addresses of GPU memory into pages for NICs. */
bool gpu_peermem_is_here(void);

/* A dma-buf of own memory, whole pages of the host; the caller closes it. */
weft_status gpu_export_dmabuf(struct gpu *gpu, CUdeviceptr at, size_t bytes, int *fd);

/* When what a NIC has written into GPU memory is visible to kernels and copies, of this GPU and of
 * those that reach it: a completion, or a flag in host memory, may come before. */
enum gpu_nic_writes {
    GPU_NIC_WRITES_ORDERED,   /* with the completion */
    GPU_NIC_WRITES_FLUSHED,   /* after gpu_flush_nic_writes() */
    GPU_NIC_WRITES_UNORDERED, /* the driver has no means */
};
enum gpu_nic_writes gpu_nic_writes(struct gpu *gpu);
weft_status gpu_flush_nic_writes(struct gpu *gpu);
/* Whether kernels of the GPU see what a NIC has written into its memory when they see the
 * completion, without a flush. */
bool gpu_sees_nic_writes(struct gpu *gpu);

/* ----------------------------------------------------------------- operations by the host
 * Every function makes the device's context current itself. `lane`: any number; equal numbers keep
 * their order. */

enum gpu_manner {
    GPU_IN_ORDER, /* behind what the lane did before and in front of what it will do */
    GPU_ANY_ORDER,
    GPU_DONE, /* returns when the copy is complete: both sides may be used */
};

/* Copies between any two memories. A plain host `src` may be reused when it returns. */
weft_status gpu_copy(struct gpu *gpu, unsigned lane, void *dst, const void *src, size_t bytes,
                     enum gpu_manner manner);

/* From plain host memory, which may be reused on return; behind what the lane did before. */
weft_status gpu_copy_plain(struct gpu *gpu, unsigned lane, void *dst, const void *src,
                           size_t bytes);

/* The same on a stream of the program; the device's context is current. */
weft_status gpu_copy_on(struct gpu *gpu, CUstream stream, void *dst, const void *src, size_t bytes);

/* Fills own device memory; complete on return. */
weft_status gpu_fill(struct gpu *gpu, void *address, unsigned char value, size_t bytes);

/* n elements; steps in bytes, device memory on both sides as seen from this GPU, or pinned. */
weft_status gpu_copy_strided(struct gpu *gpu, unsigned lane, void *dst, const void *src,
                             ptrdiff_t dst_step, ptrdiff_t src_step, size_t element, size_t n);

/* One access to device memory: op is a weft_amo, GPU_ACCESS_STORE or GPU_ACCESS_LOAD. With
 * `fetched` it waits and gives the value from before. */
weft_status gpu_access(struct gpu *gpu, unsigned lane, CUdeviceptr at, int op, size_t width,
                       uint64_t value, uint64_t expected, uint64_t *fetched);

/* Puts a store of 4 or 8 bytes, aligned, to device memory on the lane, by the stream itself. False:
 * the driver has none for this place. */
bool gpu_store_word(struct gpu *gpu, struct gpu_lane *lane, CUdeviceptr at, uint64_t value,
                    size_t width);

/* Behind what the lane did before: sets or adds to a signal in device memory. */
weft_status gpu_signal(struct gpu *gpu, unsigned lane, CUdeviceptr signal, uint64_t value,
                       weft_signal_op op);

/* Reads an aligned value of 2, 4 or 8 bytes of the heap's own part without asking the GPU, in about
 * a microsecond, behind no work of any stream. False: it is not mapped for the CPU (gpu/map.h). */
bool gpu_peek(struct gpu *gpu, CUdeviceptr at, size_t width, uint64_t *value);

/* Waits about slice_ns for device memory to compare true; *met says whether that was seen, *seen
 * what was, sign-extended when is_signed. width 2, 4 or 8. */
weft_status gpu_wait_slice(struct gpu *gpu, CUdeviceptr at, size_t width, bool is_signed,
                           weft_cmp cmp, int64_t value, uint64_t slice_ns, uint64_t *seen,
                           bool *met);

/* Returns when what was put on the lanes is complete and visible to all PEs. */
weft_status gpu_quiet(struct gpu *gpu);

/* The same for one lane. */
weft_status gpu_lane_quiet(struct gpu *gpu, unsigned lane);

/* A mark behind what has been put on a lane, to be asked for without waiting. */
struct gpu_mark;
weft_status gpu_mark_put(struct gpu *gpu, unsigned lane, struct gpu_mark **mark);

/* *mark NULL afterwards: what was in front of it is complete. */
weft_status gpu_mark_passed(struct gpu *gpu, struct gpu_mark **mark);

/* Stores of 4 or 8 bytes, aligned, to device memory, and a mark behind them, given to the GPU at
 * once: sooner complete, and sooner seen to be, than a copy with a mark. They become visible in
 * their order, behind what the lane did before.
 * *mark NULL: the driver has no such thing, and nothing was given. */
struct gpu_word {
    CUdeviceptr at;
    uint64_t value;
    unsigned width;
};
enum { GPU_MOST_WORDS = 4 };

/* `bytes` from host memory as such stores, at most GPU_MOST_WORDS - 1; returns how many, 0: they
 * are not so few, or not aligned. */
int gpu_words_of(CUdeviceptr at, const void *data, size_t bytes, struct gpu_word *words);
weft_status gpu_store_marked(struct gpu *gpu, unsigned lane, const struct gpu_word *words, int n,
                             struct gpu_mark **mark);

/* For one that nobody will ask for; NULL is none. */
void gpu_mark_drop(struct gpu *gpu, struct gpu_mark **mark);
void gpu_marks_free(struct gpu *gpu);

/* ---------------------------------------------------------------------------- proof of pairs */

/* Proves, at once, every pair of this node that WEFT_PROVE wants proven; a pair that fails is
 * dropped at both sides with its evidence. Collective over the job. */
weft_status gpu_prove(struct gpu *gpu);

/* What a proof saw, in words; `peer` names the other side ("PE 3", "gpu1"). */
void prove_describe(const struct prove_report *report, const char *peer, char *text, size_t bytes);

#endif
