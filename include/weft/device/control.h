/* SPDX-License-Identifier: Apache-2.0 */
/* Host functions for device code: how translation units with device state get the state, and what
 * the host asks about kernels. <weft_device.h> includes it; host code may include it alone. */
#ifndef WEFT_DEVICE_CONTROL_H
#define WEFT_DEVICE_CONTROL_H

#include <weft.h>
#include <weft/device/state.h>

#ifndef __CUDACC_RTC__

#ifdef __cplusplus
extern "C" {
#endif

/* One translation unit's copy of the state. <weft_device.h> makes it; programs do not. */
struct weft_device_unit {
    size_t size;      /* sizeof(struct weft_device_unit): lets it grow */
    uint32_t version; /* WEFT_DEV_VERSION of the unit's compilation */
    uint32_t bytes;   /* sizeof(struct weft_dev) of the unit's compilation */
    int cuda;         /* 1: for cuda, 0: for simt */
    /* Writes the state into the unit's copy. On cuda it writes to the copy of device `ordinal`
     * among the visible ones, and leaves that device current in the calling thread. Returns 0, or
     * an error that error_text explains. */
    int (*upload)(const struct weft_dev *state, int ordinal);
    const char *(*error_text)(int error);
    struct weft_device_unit *next; /* list link, used by the library */
    int pending;                   /* used by the library: 1 until the unit has the present state */
    uint32_t carriers; /* one bit per enum weft_dev_carrier that was compiled into the unit */
    int own; /* 1: a unit of the library itself, for which alone a job does not set up device
                code */
};

/* Constructors call register; destructors of unloaded libraries call unregister. A unit that is
 * registered while a job runs gets the state at once on simt. On cuda it gets the state before the
 * next WEFT_LAUNCH() or at the next weft_device_start(), because its module is not yet loaded in
 * its constructor. */
void weft_device_register(struct weft_device_unit *unit);
void weft_device_unregister(struct weft_device_unit *unit);

/* Sets the job up for device code of the target in use (WEFT_TARGET) and gives every unit its
 * state. weft_init() does this when the program has device code. A program whose device code comes
 * later (a loaded library, a module of the driver API) calls it itself. Collective over the job. A
 * repeated call is cheap and gives the state to units registered since.
 * Errors: WEFT_ERR_UNSUPPORTED (PEs are threads, which would share one state; no usable GPU), and
 * errors of the GPU's set-up. */
weft_status weft_device_start(weft_job *job);

/* Gives the state to a module that was loaded through the driver API (a CUmodule whose source
 * includes <weft_device.h> in exactly one translation unit). Call it after weft_device_start() or
 * weft_init(), and again after a new weft_init().
 * Errors: WEFT_ERR_ARGUMENT (the module has no state, or one of another version; it is loaded on
 * another GPU than the PE's). */
weft_status weft_module_init(weft_job *job, void *cumodule);

/* Gives the address of the state in the GPU's memory, for kernels that get it as an argument:
 * WEFT_STATE_BY_POINTER and the functions weft_state_... of weft_device.bc. `version` is the
 * WEFT_DEV_VERSION with which these kernels were compiled. The address is the same at each call; it
 * is valid until weft_finalize(). Where neither weft_init() nor weft_device_start() has set the job
 * up for device code the call does, collectively, and gives units nothing. Several jobs of a
 * process may then have these kernels, and PEs that are threads.
 * Errors: WEFT_ERR_ARGUMENT (null; another version), _UNSUPPORTED (the target is not cuda),
 * _NO_MEMORY, and errors of the GPU's set-up. */
weft_status weft_device_state(weft_job *job, int version, const struct weft_dev **state);

/* Returns the kind of memory that is fastest for device code of the target in use: WEFT_GPU on
 * cuda, WEFT_HOST on simt. For weft_alloc() in programs of one source for both targets. */
weft_kind weft_device_kind(const weft_job *job);

/* Returns the number of a team in device code: 0 is the world, 1 the node. -1: device code cannot
 * use this team. Valid while the team exists; the same at every member. */
int weft_team_device(const weft_team *team);

/* How the blocks of a grid share the queues of an adapter to a PE (path gda, WEFT_GDA_QUEUES of
 * them to each PE). */
typedef enum weft_queue_mode {
    WEFT_QUEUES_SHARED,    /* block b uses queue b modulo their number; the default */
    WEFT_QUEUES_EXCLUSIVE, /* the first blocks have a queue each, for puts, gets and puts with a
                              signal of the block (weft_block_...; in blocks of one thread all
                              forms), which they post without atomics. All else shares the others.
                            */
    WEFT_QUEUES_SINGLE,    /* all blocks use one queue, so that a fence need not wait; with several
                              adapters one queue of each */
} weft_queue_mode;

/* Chooses the mode for the kernels that this PE launches from now on, and completes what earlier
 * kernels have posted; none may run. *blocks (may be NULL): number of blocks that have queues of
 * their own; 0 where device code posts to no queues (other paths, the proxy). Modules of the driver
 * API need another weft_module_init().
 *
 * In mode WEFT_QUEUES_EXCLUSIVE the program guarantees that one kernel at a time communicates. On
 * simt two kernels that meet in a queue are an error of device code (weft_device_check()); on a GPU
 * requests are lost.
 * Errors: WEFT_ERR_ARGUMENT (null; no such mode), _CONFIG (too few queues; the sentence says how
 * many), and errors of device code. */
weft_status weft_device_queue_mode(weft_job *job, weft_queue_mode mode, int *blocks);

/* Returns WEFT_OK, or the first error in device code since the job began: a wait that timed out, an
 * address in no segment, a PE that no path reaches. The sentence names operation, block, thread,
 * address and values. After an error the job stays failed, and every other host call returns the
 * error too. Does not wait for kernels: it also works while one hangs. */
weft_status weft_device_check(weft_job *job);

#ifdef __cplusplus
}
#endif

#endif

#endif
