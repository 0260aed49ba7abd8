/* SPDX-License-Identifier: Apache-2.0 */
/* Files: transfers between an open file and memory of this PE or of a peer. The operations of the
 * path to a peer transfer its memory. Uses no jobs, contexts or handles of weft_file.h.
 *
 *   plan.c    cuts a transfer into pieces: a pure function of offsets and alignments
 *   open.c    the open file: its descriptors, its file system and the required alignments
 *   choose.c  number and size of requests, and the backend, from attributes and the environment
 *   tune.c    number and size of requests by measurement
 *   uring.c, threads.c   backends: queues that take requests and return completions
 *   cufile.c  the backend that transfers GPU memory by cuFile
 *   cufile_engine.c  the second engine of a file, which uses it
 *   place.c   the memory of a transfer: copies by the CPU, by the GPU or over a path
 *   engine.c  the engine of an open file; piece.c: pieces, their requests and completions
 *   run.c     the thread that drives an engine, and the copies by CPU and GPU
 *
 * One transfer is cut into pieces of at most a chunk. Up to `depth` pieces are in flight, of one
 * transfer or of many. The kernel reads or writes a piece in place when it can use its memory; any
 * other piece goes through the staging buffer of its slot, which is pinned for the GPU and
 * registered with io_uring. Pieces end in any order; `done` counts the bytes from the start of the
 * transfer that have ended without a gap.
 *
 * Whole pages of the file bypass the page cache (O_DIRECT). A part of a page is written through the
 * page cache, by a second descriptor: the kernel then changes exactly these bytes under its own
 * lock, so that writers of other bytes of that page, in any process, lose nothing. A whole page
 * belongs to one writer, so direct writes never conflict. A read of a part of a page reads the
 * whole page directly into a buffer; the kernel first writes out what the page cache has of it. */
#ifndef WEFT_FILE_FILE_H
#define WEFT_FILE_FILE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "file/plan.h"
#include "path/path.h"

#include <weft_file.h>

enum { FILE_DEPTH_MOST = 256, FILE_PAGE = 4096 };

/* Default number and size of requests, and the largest number that tuning tries. */
enum { FILE_DEPTH = 16, FILE_CHUNK = 1 << 20, FILE_TUNE_MOST_DEPTH = 64 };
#define FILE_CHUNK_MOST ((size_t)64 << 20)

/* ------------------------------------------------------------------------------ open files */

/* System calls of this module, as a table, so that a test can make the k-th call fail. */
struct file_calls {
    int (*open)(const char *path, int flags, mode_t mode);
    ssize_t (*pread)(int fd, void *to, size_t bytes, off_t at);
    ssize_t (*pwrite)(int fd, const void *from, size_t bytes, off_t at);
    int (*fdatasync)(int fd);
    int (*fsync)(int fd);
    int (*fstat)(int fd, struct stat *st);
    int (*ftruncate)(int fd, off_t bytes);
    int (*close)(int fd);
};
extern const struct file_calls file_system_calls;

/* The descriptors and properties of an open file. */
struct opened_file {
    const struct file_calls *calls;
    char *path;
    int direct;         /* descriptor with O_DIRECT, -1 = refused */
    int buffered;       /* descriptor that uses the page cache */
    bool reads, writes; /* access of the handle */
    bool made;          /* this handle has created the file, so its name must be synced too */
    bool block_device;
    uint64_t device;                      /* device number of the file system or block device */
    uint32_t alignment, memory_alignment; /* bytes, for direct requests */
    char file_system[32], store[64];      /* type of the file system, kind of the device */
    char reason_code[32], reason[256];    /* why transfers are not direct; "" = direct */
    void *cufile;                         /* cuFile's handle, NULL = not registered */
};

/* flags: WEFT_FILE_*. On failure nothing stays open. */
weft_status file_open(const struct file_calls *calls, const char *path, unsigned flags,
                      unsigned mode, struct opened_file *file);
void file_close(struct opened_file *file);

/* Records that a direct transfer was refused with `error`: all later ones use the page cache. */
void file_disable_direct(struct opened_file *file, int error);

/* Records why threads are used instead of io_uring. */
void file_record_threads(struct opened_file *file, const char *why);

weft_status file_size(const struct opened_file *file, uint64_t *bytes);
weft_status file_resize(const struct opened_file *file, uint64_t bytes);
weft_status file_sync(struct opened_file *file);

/* Describes the file system and the device of a file, from /proc and /sys; "unknown" when these do
 * not show it. */
void file_identify(const char *path, const struct stat *st, char *file_system,
                   size_t file_system_bytes, char *store, size_t store_bytes);

/* -------------------------------------------------------------------------------- requests */

/* One read or write request of a backend. */
struct file_io {
    bool write;
    bool direct;     /* uses the descriptor with O_DIRECT */
    int buffer;      /* index of the registered buffer that has its memory, -1 = other memory */
    struct gpu *gpu; /* GPU that has the memory, NULL = host memory */
    char *address;
    size_t bytes;
    uint64_t offset;
    int64_t result; /* bytes, or a negative errno */
    struct file_io *next;
};

struct file_queue;
struct gpu_event;

/* A backend: io_uring, threads or cuFile. One thread at a time calls `submit`, and one thread at a
 * time calls `reap`; both may run at the same time. At most `depth` requests are in flight. */
struct file_backend {
    const char *name;
    weft_status (*open)(const struct opened_file *file, unsigned depth, struct file_queue **queue);
    void (*close)(struct file_queue *queue);
    /* Registers `count` buffers of `bytes` each; false: the backend uses them like other memory.
     * count 0: unregisters all. May be NULL. */
    bool (*buffers)(struct file_queue *queue, char *base, size_t bytes, unsigned count);
    /* Adds a request; it may start at once or with start(). */
    void (*submit)(struct file_queue *queue, struct file_io *io);
    /* Starts the requests that were submitted. */
    void (*start)(struct file_queue *queue);
    /* Returns the requests that have ended, as a list, NULL = none; waits about wait_ns for one.
     * *error: errno with which the queue itself has failed, else 0. */
    struct file_io *(*reap)(struct file_queue *queue, uint64_t wait_ns, int *error);
    /* Ends the wait of reap(). Called by the thread that calls submit(). */
    void (*wake)(struct file_queue *queue);
};
extern const struct file_backend file_uring, file_threads, file_cufile;

/* ---------------------------------------------------------------------------------- cuFile */

/* How GPU memory is transferred; in the order of the values of WEFT_FILE_GPU. */
enum file_gpu_backend { FILE_GPU_AUTO, FILE_GPU_PINNED, FILE_GPU_CUFILE, FILE_GPU_COMPAT };

/* Why cuFile does not transfer GPU memory of a file. */
struct file_why_not {
    char code[32], words[256]; /* reason code and text; "" = cuFile does */
};

/* Registers the file with cuFile; the first call loads the library and opens its driver. False with
 * the reason: cuFile cannot transfer this file directly, or, with FILE_GPU_COMPAT, not at all.
 * `root`: "", or a directory with the /proc and /sys of another machine. */
bool file_cufile_attach(struct opened_file *file, enum file_gpu_backend way, const char *root,
                        struct file_why_not *why);
void file_cufile_detach(struct opened_file *file);

/* The kernel side of cuFile: "nvidia_fs" or "P2PDMA". */
const char *file_cufile_transport(void);

/* Registers the heap allocation of this memory with cuFile, until file_cufile_end(). */
void file_cufile_register(struct gpu *gpu, const void *address, size_t bytes);

/* Deregisters all memory of the GPU; the caller has closed all files of the job. */
void file_cufile_end(const struct gpu *gpu);

/* Errors of a request from this number on are cuFile's own; smaller ones are an errno. */
enum { FILE_CUFILE_ERRORS = 5000 };
const char *file_cufile_words(int error, char *text, size_t bytes);

/* ----------------------------------------------------------------------------- measurement */

/* The fastest number and size of requests for each file system, direction and kind of memory. The
 * first transfer that is large enough measures them on its own bytes; the job keeps the result. */
struct file_tunes;
struct file_tunes *file_tunes_new(size_t trial_bytes);
void file_tunes_free(struct file_tunes *tunes);

/* ---------------------------------------------------------------------------------- memory */

enum file_place_kind {
    FILE_HOST,   /* host memory at `address` */
    FILE_DEVICE, /* memory of this PE's GPU at `address` */
    FILE_REMOTE, /* memory of a peer that only the path to it can access */
};

struct file_place {
    enum file_place_kind kind;
    char *address;
    struct gpu *gpu; /* FILE_DEVICE */
    struct remote remote;
};

/* Copies between a buffer and [at, at + bytes) of the memory. When *mark is set, the copy on the
 * GPU is still running; without a mark both sides may be reused on return. */
weft_status file_place_put(const struct file_place *place, size_t at, const void *buffer,
                           size_t bytes, unsigned lane, struct gpu_event **mark);
weft_status file_place_get(const struct file_place *place, size_t at, void *buffer, size_t bytes,
                           unsigned lane, struct gpu_event **mark);

/* Waits until everything that was put is visible at the destination. */
weft_status file_place_complete(const struct file_place *place);

/* ---------------------------------------------------------------------------------- engine */

struct file_settings {
    const struct file_backend *backend;
    unsigned depth;         /* requests in flight */
    unsigned most_depth;    /* largest depth of file_engine_reshape() */
    size_t chunk_bytes;     /* largest request */
    bool measured;          /* tuning may change depth and chunk_bytes */
    uint64_t wait_limit_ns; /* a request must complete within this time; 0 = no limit */
    bool checksums;         /* compute a CRC-32C of what is read or written */
    bool chosen; /* by file_engine_choose(): cuFile may transfer GPU memory, see gpu_backend */
    enum file_gpu_backend gpu_backend;
};

struct file_transfer {
    struct file_place place;
    uint64_t offset;
    size_t bytes;
    bool write;
    weft_file_result *result; /* NULL: the caller does not need it */
};

struct file_engine;

/* Opens an engine on a file. The caller keeps the file, which must outlive the engine. */
weft_status file_engine_open(struct opened_file *file, const struct file_settings *settings,
                             struct file_engine **engine);

/* Sets all settings but wait_limit_ns: from the attributes (0: from the environment, else the
 * defaults). */
weft_status file_choose_settings(const weft_file_attr *attr, unsigned flags,
                                 struct file_settings *settings);
/* Opens an engine on io_uring, or on threads when io_uring is refused; file->reason has the reason.
 */
weft_status file_engine_choose(struct opened_file *file, struct file_settings *settings,
                               struct file_engine **engine);

/* Changes number and size of requests. False when transfers are in flight; then nothing changes. */
bool file_engine_reshape(struct file_engine *engine, unsigned depth, size_t chunk);

/* Waits for all transfers and closes the engine. */
void file_engine_close(struct file_engine *engine);

/* Runs the transfers concurrently and returns when all have ended: WEFT_OK, or the status of the
 * first one in the list that failed. */
weft_status file_engine_run(struct file_engine *engine, const struct file_transfer *list, size_t n);

/* Runs one transfer with the fastest requests that were measured for the file system `where`;
 * measures them if they are not known yet. */
weft_status file_engine_run_tuned(struct file_engine *engine, struct file_tunes *tunes,
                                  uint64_t where, const struct file_transfer *transfer);

/* Starts a nonblocking transfer; file_engine_quiet() waits for all of them. */
weft_status file_engine_begin(struct file_engine *engine, const struct file_transfer *transfer);
weft_status file_engine_quiet(struct file_engine *engine);

/* True when file_engine_quiet() would wait. */
bool file_engine_busy(struct file_engine *engine);

/* Records a failure that the next file_engine_quiet() returns, unless one is recorded already. */
void file_engine_record_failure(struct file_engine *engine, weft_status status,
                                const char *sentence);

/* Fills all of *info but the size. with_gpu: also determines how GPU memory is transferred, which
 * loads cuFile when the kernel supports it; without it, only if it is known already. */
void file_engine_describe(struct file_engine *engine, bool with_gpu, weft_file_info *info);

#endif
