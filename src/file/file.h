/* SPDX-License-Identifier: Apache-2.0 */
/* Files: how bytes come from an open file into memory of this PE or of a peer, and back. A peer's
 * memory is reached by the operations of the path to it. Knows nothing of jobs, contexts and the
 * handles of weft_file.h.
 *
 *   plan.c    cuts a transfer into pieces: a pure function of offsets and alignments
 *   open.c    the open file: its descriptors, what kind of file system it is on, what it demands
 *   choose.c  how many requests of what size, and by which queue
 *   tune.c    the same by measurement
 *   uring.c, threads.c   queues: requests in, completions out
 *   cufile.c  the queue that moves GPU memory by cuFile; beside.c: the engine over it, beside the
 *             file's own
 *   place.c   the memory: what the CPU reaches, what the GPU copies, what a path carries
 *   engine.c  the engine of an open file; piece.c: transfers in pieces, to the kernel and back;
 *   run.c     who drives it, and what the CPU and the GPU have to do
 *
 * One transfer is cut into pieces of at most a chunk. Up to `depth` pieces are under way, of one
 * transfer or of many. A piece whose memory the kernel can use as it lies is read or written in
 * place; any other goes through a buffer of its slot, which is pinned for the GPU and known to
 * io_uring. Pieces end in any order and are counted in the order of the transfer: `done` is what
 * has ended without a gap.
 *
 * Whole pages of the file go past the page cache (O_DIRECT). A part of a page is written through
 * the page cache, by a second descriptor: the kernel then changes exactly these bytes, under its
 * own lock, so that writers of other bytes of that page, in whatever process, lose nothing. A page
 * that lies wholly in one writer's range is in nobody else's, so what goes past the cache meets no
 * one there. Reads of a part of a page read all of it past the cache, into a buffer; the kernel
 * writes out first what the cache has of it. */
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

/* What is begun with where nobody says otherwise, and what measuring tries at most. */
enum { FILE_DEPTH = 16, FILE_CHUNK = 1 << 20, FILE_TUNE_MOST_DEPTH = 64 };
#define FILE_CHUNK_MOST ((size_t)64 << 20)

/* ------------------------------------------------------------------------------ open files */

/* What is called of the operating system, so that a test can let the k-th call fail. */
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

/* The descriptors of an open file and what is known of it. */
struct opened_file {
    const struct file_calls *calls;
    char *path;
    int direct;               /* opened with O_DIRECT, -1 = refused */
    int buffered;             /* by the page cache */
    bool reads, writes, made; /* `made`: by this handle, so that its name is not yet safe */
    bool block_device;
    uint64_t device;                      /* number of the file system, or of the block device */
    uint32_t alignment, memory_alignment; /* of what goes past the page cache */
    char file_system[32], store[64];
    char reason_code[32], reason[256]; /* why not direct; "" = direct */
    void *cufile;                      /* its handle, NULL = not known to cuFile */
};

/* flags: WEFT_FILE_*. On failure nothing stays open. */
weft_status file_open(const struct file_calls *calls, const char *path, unsigned flags,
                      unsigned mode, struct opened_file *file);
void file_close(struct opened_file *file);

/* O_DIRECT has turned out to be refused by a transfer: from here on all goes by the page cache. */
void file_give_up_direct(struct opened_file *file, int error);

/* io_uring is not used, for this reason. */
void file_note_threads(struct opened_file *file, const char *why);

weft_status file_size(const struct opened_file *file, uint64_t *bytes);
weft_status file_resize(const struct opened_file *file, uint64_t bytes);
weft_status file_make_safe(struct opened_file *file);

/* What the file lies on, by what the kernel shows of mounts and devices; best effort. */
void file_recognise(const char *path, const struct stat *st, char *file_system,
                    size_t file_system_bytes, char *store, size_t store_bytes);

/* -------------------------------------------------------------------------------- requests */

/* One read or write of the kernel's. */
struct file_io {
    bool write;
    bool direct;     /* by the descriptor with O_DIRECT */
    int buffer;      /* number of the registered buffer that it lies in, -1 = other memory */
    struct gpu *gpu; /* whose memory it is, NULL = the host's */
    char *address;
    size_t bytes;
    uint64_t offset;
    int64_t result; /* bytes, or a negative errno */
    struct file_io *next;
};

struct file_queue;
struct gpu_event;

/* By what requests are carried out. `give` is called by one thread at a time and `take` by one
 * thread at a time, both perhaps at once. At most `depth` are under way. */
struct file_backend {
    const char *name;
    weft_status (*open)(const struct opened_file *file, unsigned depth, struct file_queue **queue);
    void (*close)(struct file_queue *queue);
    /* Tells of the buffers, `count` of `bytes` each; false: they are as any other memory. With a
     * count of 0 there are none any more. May be NULL. */
    bool (*buffers)(struct file_queue *queue, char *base, size_t bytes, unsigned count);
    void (*give)(struct file_queue *queue, struct file_io *io);
    /* What was given begins. */
    void (*push)(struct file_queue *queue);
    /* Those that have ended, NULL = none; waits about so long for one. *error: the queue itself has
     * failed. */
    struct file_io *(*take)(struct file_queue *queue, uint64_t wait_ns, int *error);
    /* Ends the wait of take(); called as give() is. */
    void (*wake)(struct file_queue *queue);
};
extern const struct file_backend file_uring, file_threads, file_cufile;

/* ---------------------------------------------------------------------------------- cuFile */

/* By what GPU memory is reached; in the order of WEFT_FILE_GPU. */
enum file_gpu_way { FILE_GPU_AUTO, FILE_GPU_PINNED, FILE_GPU_CUFILE, FILE_GPU_COMPAT };

/* Why GPU memory of a file does not go by cuFile. */
struct file_why_not {
    char code[32], words[256]; /* "" = it does */
};

/* Makes the file known to cuFile, which is loaded and opened by the first one. False: it does not
 * take this file its direct way, or, with FILE_GPU_COMPAT, at all. `root`: "" or where another
 * machine's /proc and /sys lie. */
bool file_cufile_attach(struct opened_file *file, enum file_gpu_way way, const char *root,
                        struct file_why_not *why);
void file_cufile_detach(struct opened_file *file);

/* "nvidia_fs" or "P2PDMA": what in the kernel carries it. */
const char *file_cufile_carrier(void);

/* Lets cuFile know memory that stays until file_cufile_end(): the allocation of the heap that it
 * lies in. */
void file_cufile_know(struct gpu *gpu, const void *address, size_t bytes);

/* All files of the job are closed: what cuFile knows of its GPU it forgets. */
void file_cufile_end(const struct gpu *gpu);

/* Errors of cuFile's own are from here on; else a request's is an errno. */
enum { FILE_CUFILE_ERRORS = 5000 };
const char *file_cufile_words(int error, char *text, size_t bytes);

/* ----------------------------------------------------------------------------- measurement */

/* How many requests of what size are quickest, by file system, direction and kind of memory:
 * measured by the first transfer that is large enough, on its own bytes, and kept for the job. */
struct file_tunes;
struct file_tunes *file_tunes_new(size_t trial_bytes);
void file_tunes_free(struct file_tunes *tunes);

/* ---------------------------------------------------------------------------------- memory */

enum file_place_kind {
    FILE_HOST,   /* the CPU and the kernel reach it at `address` */
    FILE_DEVICE, /* this PE's GPU reaches it at `address` */
    FILE_REMOTE, /* only the path to its PE does */
};

struct file_place {
    enum file_place_kind kind;
    char *address;
    struct gpu *gpu; /* FILE_DEVICE */
    struct remote remote;
};

/* Between a buffer and [at, at + bytes) of the place. *mark afterwards: the GPU is still at it.
 * Both sides may be reused when they return without a mark. */
weft_status file_place_put(const struct file_place *place, size_t at, const void *buffer,
                           size_t bytes, unsigned lane, struct gpu_event **mark);
weft_status file_place_get(const struct file_place *place, size_t at, void *buffer, size_t bytes,
                           unsigned lane, struct gpu_event **mark);

/* All that was put is visible at the place. */
weft_status file_place_settle(const struct file_place *place);

/* ---------------------------------------------------------------------------------- engine */

struct file_settings {
    const struct file_backend *backend;
    unsigned depth, most_depth; /* most_depth: that file_engine_reshape() may ask for */
    size_t chunk_bytes;
    bool measured;          /* depth and chunk may be replaced by what is measured */
    uint64_t wait_limit_ns; /* in which something must be completed; 0 = none */
    bool checksums;
    bool chosen; /* by file_engine_choose(): cuFile may serve GPU memory, as gpu_way says */
    enum file_gpu_way gpu_way;
};

struct file_transfer {
    struct file_place place;
    uint64_t offset;
    size_t bytes;
    bool write;
    weft_file_result *result; /* NULL: nobody wants to know */
};

struct file_engine;

/* The file stays the caller's and outlives the engine. */
weft_status file_engine_open(struct opened_file *file, const struct file_settings *settings,
                             struct file_engine **engine);

/* What the program asks for (0: what the environment says, else as many as suit most), all but the
 * limit; and by io_uring, else by threads: the reason stands with what else keeps the file from
 * better. */
weft_status file_choose_settings(const weft_file_attr *attr, unsigned flags,
                                 struct file_settings *settings);
weft_status file_engine_choose(struct opened_file *file, struct file_settings *settings,
                               struct file_engine **engine);

/* Other requests from here on. False: something is under way, and nothing has changed. */
bool file_engine_reshape(struct file_engine *engine, unsigned depth, size_t chunk);

/* Waits for what is under way. */
void file_engine_close(struct file_engine *engine);

/* Carries the transfers out, at once, and returns when all have ended: the first one's failure that
 * has one. */
weft_status file_engine_run(struct file_engine *engine, const struct file_transfer *list, size_t n);

/* The same for one transfer, with the requests that were measured to be the quickest; measures
 * them. `where`: the file system. */
weft_status file_engine_run_tuned(struct file_engine *engine, struct file_tunes *tunes,
                                  uint64_t where, const struct file_transfer *transfer);

/* Begins one that goes on by itself, and waits for all of those. */
weft_status file_engine_begin(struct file_engine *engine, const struct file_transfer *transfer);
weft_status file_engine_quiet(struct file_engine *engine);

/* Whether the latter would wait. */
bool file_engine_busy(struct file_engine *engine);

/* A failure that the next quiet tells, where none is waiting to be told. */
void file_engine_note(struct file_engine *engine, weft_status status, const char *sentence);

/* Fills all but the size. with_gpu: finds out by what GPU memory goes, which loads cuFile where the
 * kernel can carry it; else that is told only where it is known. */
void file_engine_describe(struct file_engine *engine, bool with_gpu, weft_file_info *info);

#endif
