/* SPDX-License-Identifier: Apache-2.0 */
/* A communicator of NCCL is a job of Weft, whose PEs are the ranks. This is what the files of this
 * folder share. */
#ifndef WEFT_NCCL_COMM_H
#define WEFT_NCCL_COMM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft.h>
#include <weft/device/control.h>
#include <weft/gpu.h>
#include <weft/nccl/nccl_device.h>
#include <weft/stream.h>

#include "nccl/state.h"

/* All ranks of a communicator in one process: PEs that are threads while they start, end, or run a
 * group. */
struct process_ranks {
    weft_group *group;
    int n, left; /* left: not destroyed, under the lock of comm.c */
    struct ncclComm *comms[];
};

/* What a rank gives the others when a communicator is made. */
struct rank_card {
    ncclUniqueId spare; /* for ncclCommShrink() */
    int first_of_node;
    /* ranks around it whose GPU memory its kernels reach by load and store, at equal distances */
    int first_reached, last_reached;
};

/* Never freed, so that a call with a communicator that has been destroyed gets an error. */
struct ncclComm {
    uint64_t mark;         /* COMM_MARK */
    struct ncclComm *next; /* all communicators of the process */
    _Atomic int state;     /* enum comm_state */
    _Atomic int aborted;   /* waits of the host end */
    _Atomic int inside;    /* threads in a call */
    _Atomic int error;     /* ncclResult_t: why it failed */
    char sentence[512];    /* written before `error` */
    weft_job *job;
    weft_team *team;
    weft_ctx *ctx;
    weft_unique_id id;
    struct process_ranks *process; /* or NULL */
    uint64_t hash;                 /* of the id */
    char *name;                    /* of the configuration, or NULL */
    struct rank_card *cards;       /* of each rank */
    bool shrunk;                   /* the spare ids may have been used */
    int lsa_size;                  /* ranks of an LSA team */
    int rank, size, nodes, most_sms;
    int device;              /* of CUDA, -1: not known yet */
    void *context;           /* of the driver, current in the thread that made the communicator */
    bool blocking, threaded; /* threaded: `starter` has not been joined */
    pthread_t starter;
    weft_messages *messages;
    weft_event joined; /* of the streams of a group's messages; NULL: not needed yet */
    char *stage;       /* of staged.c; NULL: collectives use the program's memory */
    int n_signals;
    struct signal_stream *signal_streams; /* under `order` */
    uint64_t *signals;      /* [sender][n_signals] in symmetric GPU memory: not waited for yet */
    uint64_t *kept_signals; /* the same while the communicator is suspended */
    int windows;            /* symmetric ones */
    bool captured;          /* a graph may have calls of it */
    /* Collectives of one communicator run one after the other, on any stream. */
    pthread_mutex_t order;
    weft_stream last;      /* the stream of the last one */
    weft_event last_event; /* recorded after it; NULL: there has been none */
    uint64_t last_capture; /* the capture that it belongs to, or 0 */
    pthread_t checked;     /* thread whose waits notice an abort */
    bool has_checked;
    struct nccl_entry *seen; /* by `weft attach`, or &unseen */
    struct nccl_entry unseen;
    const struct profiler_table *profiler; /* NULL: there is no plugin */
    void *profiler_context;
    struct factor *factors; /* of ncclRedOpCreatePreMulSum(), by number */
    int n_factors;
};

/* A factor of ncclRedOpCreatePreMulSum(). */
struct factor {
    bool used;
    ncclDataType_t type;
    _Alignas(8) unsigned char number[8]; /* of the type, where it was in host memory */
    const void *address;                 /* in GPU memory, else NULL */
};

/* A stream that has signals, and waits for them, of a communicator. */
struct signal_stream {
    struct signal_stream *next;
    weft_stream stream;
    weft_event event; /* recorded after the last one */
};

/* ------------------------------------------------------------------------------------ error.c */

/* Keeps a sentence for ncclGetLastError() of this thread, and writes it to the log of NCCL_DEBUG.
 */
void nccl_keep(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same; gives the result. */
#define nccl_fail(result, ...) (nccl_keep(__VA_ARGS__), (result))

/* The result for a status of Weft, whose sentence it keeps. */
ncclResult_t nccl_result(weft_status status);

/* NCCL_DEBUG=INFO: one line of a subsystem of NCCL_DEBUG_SUBSYS. */
void nccl_info(const struct ncclComm *comm, const char *subsystem, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* NCCL_DEBUG=WARN: one line about what is no failure of a call. */
void nccl_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* As NCCL declares it for plugins. */
typedef void (*nccl_plugin_log_function)(int level, unsigned long flags, const char *file, int line,
                                         const char *format, ...);
void nccl_plugin_log(int level, unsigned long flags, const char *file, int line, const char *format,
                     ...) __attribute__((format(printf, 5, 6)));

/* Whether a list of subsystems has one. */
bool debug_list_has(const char *list, const char *name);

/* The sentence that this thread kept last, "" for none. */
const char *nccl_sentence(void);

/* ------------------------------------------------------------------------------ environment.c */

/* What NCCL's variables say of communicators. */
extern struct environment {
    int most_sms;        /* -1: nothing */
    int blocking;        /* 0, 1; -1: nothing */
    bool sockets;        /* path net uses no RDMA */
    size_t message_room; /* bytes for the messages of a communicator */
} environment;

/* Reads NCCL's variables, at the first call, and reports what each one did. Before any call of
 * Weft. */
void environment_apply(void);

/* The name of a variable that has an effect, from 0; NULL after the last. */
const char *environment_name(int index);

/* ----------------------------------------------------------------------------------- driver.c */

/* Loads the driver. False: nccl_fail() has the sentence. */
bool driver_load(void);
void *driver_context(void); /* the current one, or NULL */
void driver_set_context(void *context);
int driver_device(void);            /* of the current context, -1: none */
bool driver_use_device(int device); /* makes the primary context of a device current */
/* Memory that peers can map, where the GPU has such. */
ncclResult_t driver_alloc(void **address, size_t bytes);
ncclResult_t driver_free(void *address);
/* GPU memory that kernels read, with a copy of `bytes` bytes. */
ncclResult_t driver_copy_make(const void *from, size_t bytes, void **address);
void driver_copy_free(void *address);
uint64_t driver_capture(weft_stream stream); /* id of the stream's capture, 0: none */
/* weft/launch.h's streams and events, which return a status here. */
ncclResult_t driver_event_create(weft_event *event);
ncclResult_t driver_event_record(weft_event event, weft_stream stream);
ncclResult_t driver_event_wait(weft_stream stream, weft_event event);
ncclResult_t driver_stream_create(weft_stream *stream);
void driver_stream_destroy(weft_stream stream);
void driver_event_destroy(weft_event event); /* waits for it, unless a graph recorded it */

/* ------------------------------------------------------------------------------------- comm.c */

/* Whether `comm` is a communicator that has not been destroyed. */
ncclResult_t comm_check(ncclComm_t comm, const char *function);

/* Makes a communicator of the current device. *made is null when it fails at once. */
ncclResult_t comm_make(const char *function, ncclComm_t *made, int size, const ncclUniqueId *id,
                       int rank, const ncclConfig_t *config);

/* Begins a call on a communicator. On success comm_leave() ends it. */
ncclResult_t comm_enter(ncclComm_t comm, const char *function);
void comm_leave(ncclComm_t comm);

/* Makes a stream wait for the communicator's last operation, and notes one that is on the stream.
 * The caller holds comm->order. */
ncclResult_t comm_follow(ncclComm_t comm, weft_stream stream);
ncclResult_t comm_note(ncclComm_t comm, weft_stream stream);

/* The result of an operation; a failure of the job becomes that of the communicator. */
ncclResult_t comm_result(ncclComm_t comm, weft_status status);

/* Makes a communicator in the calling thread, or with config->blocking == 0 in one of its own. */
ncclResult_t comm_start(ncclComm_t comm);

/* Waits for the thread in which it is made. */
void comm_join_starter(ncclComm_t comm);

/* Ends the job, and frees its memory. Collective. */
void comm_close_job(ncclComm_t comm);

/* Notes why a communicator could not be started. */
void comm_not_started(ncclComm_t comm, ncclResult_t result);

/* Before the communicators of a group start: makes those that have all their ranks here
 * process_ranks. */
ncclResult_t comm_join_ranks(ncclComm_t *comms, int n);

/* ----------------------------------------------------------------------------------- derive.c */

/* Collective, when a communicator is made: exchanges comm->cards. */
ncclResult_t derive_open(ncclComm_t comm);

/* ------------------------------------------------------------------------------------ group.c */

/* Handles of a profiler plugin, or NULL. */
struct call_events {
    void *group_api, *api; /* of the program's calls */
    void *group, *work;    /* of what is enqueued */
    void *launch;
    uint64_t tag; /* of ncclCollConfig_t */
};

struct nccl_call {
    enum operation what;
    ncclComm_t comm;
    const void *src;
    void *dst;
    size_t n;
    ncclDataType_t type;
    ncclRedOp_t op;
    int root; /* or peer */
    weft_stream stream;
    /* PUT_SIGNAL, which with n == 0 signals alone, and WAIT_SIGNAL, of n signals */
    const struct window *window;
    size_t offset;
    int signal;
    struct factor factor; /* a copy: the operator may be destroyed before the group ends */
    bool limited;         /* to most_sms, by ncclCollConfig_t; 0: copy engines */
    int most_sms;
    bool symmetric;       /* on memory of windows, by its symmetric address */
    cudaEvent_t launched; /* recorded before the collective; or NULL */
    struct call_events events;
};

/* What the host knows of a window. */
struct window {
    struct window *next;
    ncclWindow_t handle; /* the address of struct ncclWindow_vidmem in GPU memory */
    ncclComm_t comm;
    void *address;
    size_t bytes;
    char *symmetric;  /* the address for Weft, or NULL: peers cannot reach this memory */
    bool same_places; /* NCCL_WIN_COLL_SYMMETRIC: calls have the same offsets at every rank */
    bool resources;   /* of an ncclDevComm */
};

/* Makes a call, or keeps it for the end of the group. */
ncclResult_t group_add(struct nccl_call *call);

/* Starts a communicator, or keeps it for the end of the group. */
ncclResult_t group_start_comm(ncclComm_t comm);

/* Runs function(argument of each) at the same time, in the contexts of the communicators. */
ncclResult_t group_run_all(int n, ncclComm_t *comms, ncclResult_t (*function)(ncclComm_t, void *),
                           void **arguments);

/* ---------------------------------------------------------------------------------- memory.c */

/* Makes a window of memory whose symmetric address is known, or NULL. */
ncclResult_t window_make(ncclComm_t comm, const struct window *from, struct ncclWindow_vidmem *seen,
                         ncclWindow_t *handle);

/* The window of a handle, or NULL. */
const struct window *window_find(ncclWindow_t handle);

/* The symmetric address of memory in a window of NCCL_WIN_COLL_SYMMETRIC, or NULL. */
void *window_symmetric(ncclComm_t comm, const void *address, size_t bytes);

/* Ends the window, and gives what it was. */
struct window window_end(ncclWindow_t handle);

/* Ends all windows of a communicator. */
void windows_close(ncclComm_t comm);

/* ------------------------------------------------------------------------------- collective.c */

ncclResult_t collective_run(struct nccl_call *call);
const char *operation_name(enum operation what);
size_t type_bytes(ncclDataType_t type); /* 0: no type */
const char *type_name(ncclDataType_t type);

/* How Weft would run a collective. */
weft_status collective_plan(const struct nccl_call *call, weft_coll_plan *plan);

/* The call of Weft for a collective. */
weft_status collective_call(const struct nccl_call *call);

/* ----------------------------------------------------------------------------------- staged.c */

/* Collective, when a communicator is made: allocates comm->stage where it is needed. */
ncclResult_t staged_open(ncclComm_t comm);

/* A collective through comm->stage. */
weft_status staged_run(const struct nccl_call *call);

/* ---------------------------------------------------------------------------------- message.c */

/* Collective, when a communicator is made. */
ncclResult_t messages_open(ncclComm_t comm);
void messages_close(ncclComm_t comm);

/* Runs the sends and receives of a group. */
ncclResult_t messages_run(ncclComm_t comm, struct nccl_call *calls, int n);

/* ------------------------------------------------------------------------------- one_sided.c */

/* Collective, when a communicator is made: allocates comm->signals. */
ncclResult_t signals_open(ncclComm_t comm);

/* A put with a signal, a signal, or a wait for signals. */
ncclResult_t signal_run(const struct nccl_call *call);
void signals_close(ncclComm_t comm);

/* Keeps the signals that have not been waited for, and gives them back to a job that has none.
 * Collective. */
ncclResult_t signals_keep(ncclComm_t comm);
ncclResult_t signals_restore(ncclComm_t comm);

/* ----------------------------------------------------------------------------------- state.c */

/* Gives a new communicator its entry, and the entry what is known later. */
void state_open(ncclComm_t comm);
void state_describe(ncclComm_t comm);

void state_set(ncclComm_t comm, enum comm_state state);
void state_failed(ncclComm_t comm); /* comm->sentence */

/* Counts a call that is enqueued, and gives the calls before it. */
void state_begin(ncclComm_t comm, enum operation what);
uint64_t state_count(ncclComm_t comm, enum operation what);

/* -------------------------------------------------------------------------------- profiler.c */

/* When a communicator has been made: sets comm->profiler where there is a plugin. The other
 * functions are for communicators that have one. */
void profiler_open(ncclComm_t comm);
void profiler_close(ncclComm_t comm);

/* A call of the program, in `depth` groups. */
void profiler_call_begins(struct nccl_call *call, int depth);
void profiler_call_ends(const struct nccl_call *call);

/* The end of this thread's group, or of a call outside of one: before its calls run, and after.
 * Also without a plugin. */
void profiler_group_runs(void);
void profiler_group_ends(void);

/* Calls of a group that are of one communicator. */
void profiler_batch_begins(struct nccl_call *calls, int n);
void profiler_batch_ends(const struct nccl_call *calls);

/* A collective, or messages that are enqueued together. The caller holds comm->order. */
void profiler_enqueue_begins(struct nccl_call *calls, int n);
void profiler_enqueue_ends(const struct nccl_call *calls, int n);

#endif
