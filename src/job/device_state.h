/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a job that device code sees, for both targets. It is filled from the job's maps and
 * from a `struct device_view` that describes how code of the target sees them. Knows no driver. */
#ifndef WEFT_JOB_DEVICE_STATE_H
#define WEFT_JOB_DEVICE_STATE_H

#include "job/job.h"

#include <weft/device/control.h>
#include <weft/launch.h>

/* The device box is part of the PE's black box, so that `weft attach` finds it. */
enum { BOX_DEVICE_OFFSET = 48 * 1024 };
_Static_assert(sizeof(struct box) <= BOX_DEVICE_OFFSET, "the box ends before the device's part");
_Static_assert(BOX_DEVICE_OFFSET + sizeof(struct weft_dev_box) <= BOX_BYTES,
               "the device's part ends before the box does");

static inline struct weft_dev_box *device_box(struct box *box)
{
    return (struct weft_dev_box *)((char *)box + BOX_DEVICE_OFFSET);
}

/* How device code of one target sees memory. Every function gets `view`; a target embeds it in its
 * own struct. Addresses are device addresses. Created when device code starts, kept until
 * finalize. */
struct device_view {
    bool cuda;
    int ordinal; /* number of the device among the visible ones (cuda) */

    /* Size of a segment in bytes, the same at every PE. 0: device code cannot access it. */
    size_t (*segment_bytes)(struct device_view *view, enum weft_dev_segment_id segment);

    /* Address of PE pe's part of a segment. 0: device code cannot load and store there. */
    uint64_t (*part)(struct device_view *view, enum weft_dev_segment_id segment, int pe);

    /* Address of PE pe's team areas (team_areas_bytes() bytes, zeroed). 0: device code cannot load
     * and store there. */
    uint64_t (*areas)(struct device_view *view, int pe);

    /* Whether the device's atomics work at PE pe. */
    bool (*atomics)(struct device_view *view, int pe);

    /* Tables that device code reads and the host writes. */
    weft_status (*table_make)(struct device_view *view, size_t bytes, void **table);
    weft_status (*table_write)(struct device_view *view, void *table, size_t offset,
                               const void *from, size_t bytes);

    /* Allocates zeroed host memory that device code also reads and writes. *seen: its device
     * address. */
    weft_status (*shared_make)(struct device_view *view, size_t bytes, void **host, uint64_t *seen);

    /* Allocates zeroed device memory that the host maps. *device: its device address. False: not
     * possible. NULL: host and device share one memory. */
    bool (*near_make)(struct device_view *view, size_t bytes, void **mapped, uint64_t *device);

    /* Device addresses of the device box and of its ticket counter. tickets NULL: the counter in
     * the box. */
    struct weft_dev_box *box;
    uint64_t *tickets;

    /* Finds the symbol `name` of *bytes bytes in a loaded module (cuda; may be NULL). */
    weft_status (*module_symbol)(struct device_view *view, void *module, const char *name,
                                 uint64_t *address, size_t *bytes);
    weft_status (*symbol_write)(struct device_view *view, uint64_t address, const void *from,
                                size_t bytes);

    void *state; /* copy of struct weft_dev, a table; NULL: device_state_address() not yet called */

    /* Frees everything including the view. No kernel of the job may run any more. */
    void (*close)(struct device_view *view);
};

/* Bytes of the areas and packet buffers of a number of teams at one PE. */
static inline size_t team_areas_bytes(int npes, int teams)
{
    return weft_dev_staging_offset(npes, teams, teams);
}

/* Creates the view of a target. Collective over the job. */
weft_status device_view_simt(struct weft_job *job, struct device_view **view);
weft_status device_view_cuda(struct weft_job *job, struct device_view **view);

/* Called at the end of weft_init(): starts device code if any PE's program has some. wanted: the
 * bitwise OR of device_wanted() of all PEs. */
weft_status device_init(struct weft_job *job, int wanted);

/* 0: this program has no device code; 1: it has some for simt; 2: for cuda. */
int device_wanted(void);

/* Called before the job's memory is freed: empties the state of the units and closes the view. */
void device_stop(struct weft_job *job);

/* Called when a team was created, or is about to be destroyed. WEFT_OK without device state. */
weft_status device_team_made(struct weft_job *job, const struct weft_team *team);
void device_team_gone(struct weft_job *job, const struct weft_team *team);

/* See weft_device_queue_mode(). */
weft_status device_share_queues(struct weft_job *job, enum path_sharing sharing, int *blocks);

/* Completes the operations that device code passed to the host, at every PE. WEFT_OK without device
 * state. */
weft_status device_quiet(struct weft_job *job);

struct proxy_times;

/* See proxy_trace() of src/tool. */
weft_status device_trace_proxy(struct weft_job *job, struct proxy_times *times, uint64_t n);

/* Text to append to a failure message: the collective that a kernel of the library left because of
 * it, or "". */
void device_left_text(const struct weft_job *job, char *text, size_t bytes);

/* Returns WEFT_OK, or fails the job with what device code has reported. */
weft_status device_check(struct weft_job *job);

/* "put_signal"; "an unknown operation" for a number that is none. */
const char *device_operation_name(uint32_t operation);

/* Text of one record, for messages and `weft attach`. `record` may be torn or contain any
 * values. */
void device_record_text(const struct weft_dev_record *record, int pe, char *text, size_t bytes);

/* Returns the failure of the job that runs this process's device code; WEFT_OK: there is none. */
weft_status device_check_running(void);

/* As device_check_running(), before a kernel launch: also wakes the proxy. */
weft_status device_before_launch(void);

/* Units of the program's device code: weft_device_register() and weft_device_unregister(). */
void device_register(struct weft_device_unit *unit);
void device_unregister(struct weft_device_unit *unit);

/* The state of the job's device code and the view it is for; NULL: the job runs no device code. */
const struct weft_dev *device_state_of(const struct weft_job *job, struct device_view **view);

/* Implement weft_device_start(), weft_module_init() and weft_device_state() for a running job. */
weft_status device_start(struct weft_job *job);
weft_status device_open(struct weft_job *job); /* its first part: not the units */
weft_status device_module_init(struct weft_job *job, void *module);
weft_status device_state_address(struct weft_job *job, const struct weft_dev **state);

/* The current target (target.c). device_runtime() returns the program's CUDA runtime (NULL: none)
 * and the number of GPUs that it finds. */
weft_target device_target(void);

/* Whether WEFT_TARGET is auto. */
bool device_target_is_auto(void);
const struct weft_cuda_runtime *device_runtime(int *devices);
void device_runtime_register(const struct weft_cuda_runtime *runtime);

/* Whether units have registered since the last launch; weft_launch() then uploads the state to
 * them. */
extern _Atomic int device_units_pending;
weft_status device_units_upload(void);

#endif
