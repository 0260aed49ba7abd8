/* SPDX-License-Identifier: Apache-2.0 */
/* What device code is told of the job, for either target: filled from the job's own maps and from a
 * `struct device_view` that says how that target's code sees them. Knows no driver. */
#ifndef WEFT_JOB_DEVICE_STATE_H
#define WEFT_JOB_DEVICE_STATE_H

#include "job/job.h"

#include <weft/device/control.h>
#include <weft/launch.h>

/* The device box lies in the black box of the PE, so that `weft attach` finds it. */
enum { BOX_DEVICE_OFFSET = 48 * 1024 };
_Static_assert(sizeof(struct box) <= BOX_DEVICE_OFFSET, "the box ends before the device's part");
_Static_assert(BOX_DEVICE_OFFSET + sizeof(struct weft_dev_box) <= BOX_BYTES,
               "the device's part ends before the box does");

static inline struct weft_dev_box *device_box(struct box *box)
{
    return (struct weft_dev_box *)((char *)box + BOX_DEVICE_OFFSET);
}

/* How device code of one target sees memory. Every function gets `view` itself; a target embeds it
 * in what it needs. Addresses are the device's. Made when device code starts, kept until
 * finalize. */
struct device_view {
    bool cuda;
    int ordinal; /* of the device, among the visible ones (cuda) */

    /* Size of a segment, the same at every PE; 0 = device code cannot reach it at all. */
    size_t (*segment_bytes)(struct device_view *view, enum weft_dev_segment_id segment);

    /* Where PE pe's part of a segment is, 0 = not by load and store. */
    uint64_t (*part)(struct device_view *view, enum weft_dev_segment_id segment, int pe);

    /* Where PE pe's team areas begin (team_areas_bytes() of them, zeroed), 0 = not by
     * load/store. */
    uint64_t (*areas)(struct device_view *view, int pe);

    /* Whether the device's atomics work at PE pe. */
    bool (*atomics)(struct device_view *view, int pe);

    /* Tables that device code reads and the host writes. */
    weft_status (*table_make)(struct device_view *view, size_t bytes, void **table);
    weft_status (*table_write)(struct device_view *view, void *table, size_t offset,
                               const void *from, size_t bytes);

    /* Zeroed memory of the host that device code reads and writes too, and its address there. */
    weft_status (*shared_make)(struct device_view *view, size_t bytes, void **host, uint64_t *seen);

    /* Zeroed memory of the device that the host has mapped, and its address there; false: there is
     * none. NULL: the two have one memory. */
    bool (*near_make)(struct device_view *view, size_t bytes, void **mapped, uint64_t *device);

    /* The device box as device code sees it, and its ticket counter (NULL: the one in the box). */
    struct weft_dev_box *box;
    uint64_t *tickets;

    /* Address of the symbol named `name` in a loaded module, of *bytes bytes (cuda; may be
     * NULL). */
    weft_status (*module_symbol)(struct device_view *view, void *module, const char *name,
                                 uint64_t *address, size_t *bytes);
    weft_status (*symbol_write)(struct device_view *view, uint64_t address, const void *from,
                                size_t bytes);

    /* Frees everything, the view too. No kernel of the job runs any more. */
    void (*close)(struct device_view *view);
};

/* Bytes of the areas and packet rooms of all teams at one PE. */
static inline size_t team_areas_bytes(int npes)
{
    return weft_dev_room_offset(npes, TEAM_SLOTS, TEAM_SLOTS);
}

/* Makes the view of a target. Collective over the job. device_view_cuda() is the GPU side's. */
weft_status device_view_simt(struct weft_job *job, struct device_view **view);
weft_status device_view_cuda(struct weft_job *job, struct device_view **view);

/* At the end of weft_init(): weft_device_start() if any PE's program has device code. `wanted`: the
 * union of what the PEs said, see device_wanted(). */
weft_status device_init(struct weft_job *job, int wanted);

/* 0: this program has no device code; 1: it has, and runs it on simt; 2: on cuda. */
int device_wanted(void);

/* Before the job's memory goes: units forget the job, and the view is closed. */
void device_stop(struct weft_job *job);

/* A team was made, or is about to go. WEFT_OK when there is no device state. */
weft_status device_team_made(struct weft_job *job, const struct weft_team *team);
void device_team_gone(struct weft_job *job, const struct weft_team *team);

/* What device code gave to the host to carry is complete at every PE. WEFT_OK when there is no
 * device state. */
weft_status device_quiet(struct weft_job *job);

struct proxy_times;

/* See proxy_trace() of src/tool. */
weft_status device_trace_proxy(struct weft_job *job, struct proxy_times *times, uint64_t n);

/* What to add to the words of a failure: the collective that a kernel of the library left because
 * of it, or "". */
void device_left_text(const struct weft_job *job, char *text, size_t bytes);

/* WEFT_OK, or what device code has reported, in words. */
weft_status device_check(struct weft_job *job);

/* "put_signal"; "an unknown operation" for a number that is none. */
const char *device_operation_name(uint32_t operation);

/* One record in words, for messages and for `weft attach`. `record` may be torn or hostile. */
void device_record_text(const struct weft_dev_record *record, int pe, char *text, size_t bytes);

/* The failure of the job whose device code this process runs, if there is such a job and it has
 * failed. */
weft_status device_check_running(void);

/* The same, for who launches kernels that may have something for the proxy. */
weft_status device_before_launch(void);

/* Units of the program's device code: weft_device_register() and weft_device_unregister(). */
void device_register(struct weft_device_unit *unit);
void device_unregister(struct weft_device_unit *unit);

/* weft_device_start() and weft_module_init() of a running job. */
weft_status device_start(struct weft_job *job);
weft_status device_module_init(struct weft_job *job, void *module);

/* The target in use, and the program's CUDA runtime (NULL: it has none) with the number of GPUs
 * that it finds. target.c. */
weft_target device_target(void);

/* WEFT_TARGET leaves the choice to the library. */
bool device_target_is_auto(void);
const struct weft_cuda_runtime *device_runtime(int *devices);
void device_runtime_register(const struct weft_cuda_runtime *runtime);

/* Units that registered since the last launch get the state (weft_launch() asks). */
extern _Atomic int device_units_pending;
weft_status device_units_upload(void);

#endif
