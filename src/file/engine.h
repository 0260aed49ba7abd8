/* SPDX-License-Identifier: Apache-2.0 */
/* Internal structures of the engine of an open file, only for engine.c, piece.c, run.c and
 * cufile_engine.c. A transfer is cut into pieces, and each piece goes through these phases:
 *
 *   read   SUBMITTED (the kernel has the request), ARRIVED, EMPTYING (the GPU copies out of the
 *          buffer), ENDED
 *   write  TO_FILL, FILLING (the GPU copies into the buffer), READY, SUBMITTED, ARRIVED, ENDED
 *
 * A piece in place skips the phases of the buffer. `lock` guards everything except what only the
 * driving thread uses (run.c): the list `work` and the pieces in it. */
#ifndef WEFT_FILE_ENGINE_H
#define WEFT_FILE_ENGINE_H

#include "file/file.h"

#include "base/crc32c.h"

#include <pthread.h>

enum { SENTENCE_BYTES = 384 };

enum file_phase {
    PIECE_FREE,
    PIECE_TO_FILL,
    PIECE_FILLING,
    PIECE_READY,
    PIECE_SUBMITTED,
    PIECE_ARRIVED,
    PIECE_EMPTYING,
    PIECE_ENDED
};

struct file_piece {
    struct file_io io; /* first member: reap() returns pieces */
    enum file_phase phase;
    struct file_op *op;           /* its transfer */
    struct file_piece *next;      /* in the free list, or in its transfer, in order */
    struct file_piece *next_work; /* in `work` or `inbox` of the engine */
    struct file_cut cut;
    struct gpu_event *mark; /* event of the running copy on the GPU; NULL: none */
    size_t moved;           /* bytes of the request that the kernel has transferred */
    size_t got;             /* bytes of the piece that are transferred */
    unsigned tries;         /* attempts that the kernel answered with EAGAIN and the like */
    unsigned number;        /* index of its slot and buffer */
    uint32_t crc;
    int error;          /* errno of the request */
    weft_status status; /* of the copy to or from the memory */
    char sentence[SENTENCE_BYTES];
};

/* A transfer that is in progress. */
struct file_op {
    struct file_transfer transfer;
    struct file_shape shape;
    size_t planned;                   /* bytes that have been cut into pieces */
    struct file_piece *first, **last; /* its pieces, in order */
    uint64_t done;                    /* bytes from its start that are transferred without a gap */
    uint32_t crc;
    weft_status status;
    int error;
    char sentence[SENTENCE_BYTES];
    size_t *left;               /* transfers of the same call that have not ended */
    bool background;            /* nonblocking: file_engine_quiet() waits for it */
    bool completes;             /* in the list `completing` */
    bool dirty;                 /* in a list of next_dirty */
    bool queued;                /* in the list `todo` */
    struct file_op *next;       /* in `todo` or `completing` */
    struct file_op *next_dirty; /* next transfer with an ended piece */
};

struct file_engine {
    struct opened_file *file;
    struct file_settings settings;
    struct file_queue *queue;
    pthread_mutex_t lock;
    pthread_cond_t moved;              /* a transfer has ended, or no thread drives the engine */
    struct file_op *todo, **todo_last; /* transfers with bytes that are not planned yet */
    struct file_op *completing; /* transfers whose pieces have ended; puts may be incomplete */
    struct file_piece *pieces;  /* [most_depth] */
    struct file_piece *free;    /* unused pieces */
    struct file_piece *inbox;   /* pieces to be filled, not yet in `work` */
    struct file_piece *work;    /* pieces that the driving thread works on */
    unsigned submitted;         /* requests that the kernel has */
    bool driven;                /* a thread drives the engine */
    bool waiting;               /* the driving thread sleeps in reap() */
    bool quick;                 /* the last wait was short */
    bool direct;                /* whole blocks bypass the page cache */
    int broken;                 /* errno with which the queue has failed */
    uint64_t last_ns;           /* time of the last completion */

    unsigned background; /* nonblocking transfers in progress */
    weft_status background_status;
    char background_sentence[SENTENCE_BYTES];
    pthread_t worker; /* drives the engine for nonblocking transfers */
    pthread_cond_t wake;
    bool has_worker, stop;

    char *buffers;        /* [depth], a chunk each */
    bool buffers_offered; /* register with the backend was tried */
    bool buffers_known;   /* the backend has registered them */
    struct crc32c_shift shift;
    struct gpu *pinned_for;        /* GPU for which the buffers are pinned */
    struct file_engine *next_lost; /* in the list of engines with a broken queue (engine.c) */

    /* The second engine, which transfers GPU memory by cuFile (cufile_engine.c). Guarded by
     * `cufile_lock`. */
    pthread_mutex_t cufile_lock;
    struct file_engine *cufile_engine; /* NULL: none */
    struct file_why_not why_not;       /* why there is none */
    bool cufile_tried;                 /* opening it was tried */
    /* In the second engine itself: cuFile still transfers. Guarded by `lock`. */
    bool by_cufile;
};

/* ------------------------------------------------------------------------------- run.c */

/* file_engine_run(), _begin(), _quiet() and _busy() of file.h for this engine only, without the
 * second one. */
weft_status file_drive_run(struct file_engine *engine, const struct file_transfer *list, size_t n);
weft_status file_drive_begin(struct file_engine *engine, const struct file_transfer *transfer);
weft_status file_drive_quiet(struct file_engine *engine);
bool file_drive_busy(struct file_engine *engine);

/* ---------------------------------------------------------------------- cufile_engine.c */

/* The engine that runs the transfer: this one, or its cuFile engine, which the first transfer of
 * GPU memory opens. NULL with an error: WEFT_FILE_GPU requires cuFile, which does not work here. */
struct file_engine *file_engine_for(struct file_engine *engine,
                                    const struct file_transfer *transfer);
void file_cufile_engine_close(struct file_engine *engine);
void file_cufile_engine_describe(struct file_engine *engine, bool find, weft_file_info *info);

/* Records that cuFile refused a request with an error of its own. `engine` is the cuFile engine;
 * the caller holds its lock. */
void file_cufile_engine_refused(struct file_engine *engine, int error);

/* ------------------------------------------------------------------------------- piece.c */

/* Fails a transfer; only its first failure counts. No more pieces of it are planned. */
void file_op_fail(struct file_op *op, weft_status status, int error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Fail a transfer because the system refused a piece with `error`, or because the file ended early.
 * `done` bytes from the start of the transfer are transferred. */
void file_op_fail_io(const struct file_engine *engine, struct file_op *op, int error,
                     uint64_t done);
void file_op_fail_short(const struct file_engine *engine, struct file_op *op, uint64_t done);

/* True when all pieces of the transfer have ended and no more will be planned. */
bool file_op_ended(const struct file_op *op);

size_t file_buffers_bytes(const struct file_engine *engine);
char *file_buffer_of(const struct file_engine *engine, const struct file_piece *piece);

/* Frees the buffers; no transfer may be in flight. */
void file_buffers_drop(struct file_engine *engine);

/* The caller holds the lock of the engine for these. */
/* Submits the request of a piece. */
void file_submit_piece(struct file_engine *engine, struct file_piece *piece);
/* Plans as many pieces of the waiting transfers as there are free slots. */
void file_plan_pieces(struct file_engine *engine);
/* Handles completed requests: submits the rest of partial ones again, and passes the others on.
 * *backoff: the kernel has refused one several times for the moment. */
void file_reap_pieces(struct file_engine *engine, struct file_io *list, bool *backoff);
/* Adds a transfer whose pieces have ended to `completing`. */
void file_complete_later(struct file_engine *engine, struct file_op *op);

/* Bytes from the start of the piece that the kernel has transferred. */
size_t file_safe_bytes(const struct file_piece *piece);

static inline void file_add_work(struct file_piece **list, struct file_piece *piece)
{
    piece->next_work = *list;
    *list = piece;
}

#endif
