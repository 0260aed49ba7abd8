/* SPDX-License-Identifier: Apache-2.0 */
/* Host side of device code: how translation units that hold device state get it, and what the host
 * asks about kernels. Included by <weft_device.h>; usable alone by host code. */
#ifndef WEFT_DEVICE_CONTROL_H
#define WEFT_DEVICE_CONTROL_H

#include <weft.h>
#include <weft/device/state.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One translation unit's copy of the state. Made by <weft_device.h>; a program does not. */
struct weft_device_unit {
    size_t size;      /* sizeof(struct weft_device_unit): lets it grow */
    uint32_t version; /* WEFT_DEV_VERSION and ... */
    uint32_t bytes;   /* ... sizeof(struct weft_dev) that it was compiled with */
    int cuda;         /* 1: for cuda, 0: for simt */
    /* Writes the state into the unit's copy; on cuda, of device `ordinal` among the visible ones,
     * which it leaves current in the calling thread. 0, or an error that error_text explains. */
    int (*upload)(const struct weft_dev *state, int ordinal);
    const char *(*error_text)(int error);
    struct weft_device_unit *next; /* the library's */
    int pending;                   /* the library's: has not got the present state yet */
    uint32_t carriers; /* bit per enum weft_dev_carrier that was compiled into the unit */
    int own; /* 1: the library's own, for whose sake alone no job prepares for device code */
};

/* Called by constructors, and by destructors of libraries that are unloaded. A unit that comes
 * while a job runs gets the state at once on simt; on cuda before the next WEFT_LAUNCH() or at the
 * next weft_device_start(), because its module is not yet loaded in its constructor. */
void weft_device_register(struct weft_device_unit *unit);
void weft_device_unregister(struct weft_device_unit *unit);

/* Prepares the job for device code of the target in use (WEFT_TARGET) and gives every unit its
 * state. weft_init() does it when the program has device code; a program whose device code comes
 * later (a loaded library, a module of the driver API) calls it itself. Collective over the job;
 * calling it again is cheap and gives the state to units that have come since.
 * Errors: WEFT_ERR_UNSUPPORTED (PEs as threads: they would share one state; no usable GPU), and
 * those of the GPU's set-up. */
weft_status weft_device_start(weft_job *job);

/* Gives the state to a module that was loaded through the driver API (a CUmodule whose source
 * includes <weft_device.h> in exactly one translation unit). After weft_device_start() or
 * weft_init(); again after a new weft_init().
 * Errors: WEFT_ERR_ARGUMENT (the module holds no state, or one of another version). */
weft_status weft_module_init(weft_job *job, void *cumodule);

/* The kind of memory in which device code of the target in use works best: WEFT_GPU on cuda,
 * WEFT_HOST on simt. For weft_alloc() in programs of one source for both targets. */
weft_kind weft_device_kind(const weft_job *job);

/* The number by which device code knows a team: 0 is the world, 1 the node; -1 when `team` is of no
 * use to device code. Valid while the team exists; the same at every member. */
int weft_team_device(const weft_team *team);

/* WEFT_OK, or what went wrong in device code since the job began: a wait that ran out, an address
 * in no segment, a PE that no path reaches. The sentence names operation, block, thread, address
 * and values. Once it has failed the job stays failed. Does not wait for kernels: it also works
 * while one hangs. Every other call of the host returns it as well. */
weft_status weft_device_check(weft_job *job);

#ifdef __cplusplus
}
#endif

#endif
