/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine of an open file consists of, for engine.c, piece.c and run.c alone. A transfer is
 * cut into pieces, and each goes through its phases:
 *
 *   read   GIVEN (the kernel has it), ARRIVED, EMPTYING (the GPU copies on from the buffer), ENDED
 *   write  TO_FILL, FILLING (the GPU copies into the buffer), READY, GIVEN, ARRIVED, ENDED
 *
 * less those that a piece in place does not need. `lock` guards all but what only the driver looks
 * at (run.c): the list `work`, and pieces that are in it. Knows neither system calls nor kinds of
 * memory. */
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
    PIECE_GIVEN,
    PIECE_ARRIVED,
    PIECE_EMPTYING,
    PIECE_ENDED
};

struct file_piece {
    struct file_io io; /* first: what take() returns is a piece */
    enum file_phase phase;
    struct file_op *op;
    struct file_piece *next;      /* free ones, or those of its transfer, in order */
    struct file_piece *next_work; /* in the driver's list or the way there */
    struct file_cut cut;
    struct gpu_event *mark;
    size_t moved; /* bytes of the request that the kernel has moved */
    size_t got;   /* bytes of the piece that are safe */
    unsigned tries, number;
    uint32_t crc;
    int error;
    weft_status status; /* of the memory's side */
    char sentence[SENTENCE_BYTES];
};

struct file_op {
    struct file_transfer transfer;
    struct file_shape shape;
    size_t planned; /* bytes that have been cut into pieces */
    struct file_piece *first, **last;
    uint64_t done;
    uint32_t crc;
    weft_status status;
    int error;
    char sentence[SENTENCE_BYTES];
    size_t *left; /* of the transfers of its call: how many are not over */
    bool background, settles, dirty;
    bool queued;                /* among those with something to plan */
    struct file_op *next;       /* of those with something to plan, or of those to be settled */
    struct file_op *next_dirty; /* of those of which a piece has ended */
};

struct file_engine {
    struct opened_file *file;
    struct file_settings settings;
    struct file_queue *queue;
    pthread_mutex_t lock;
    pthread_cond_t moved; /* a transfer is over, or nobody drives */
    struct file_op *todo, **todo_last;
    struct file_op
        *settling; /* their pieces have ended; what was put by a path is to be completed */
    struct file_piece *pieces, *free, *inbox;
    struct file_piece *work; /* the driver's */
    unsigned given;          /* to the kernel, and not taken back */
    bool driven, waiting;    /* the driver sleeps in take() */
    bool quick;              /* the last wait was short */
    bool direct;
    int broken; /* errno with which the queue has failed */
    uint64_t last_ns;

    unsigned background; /* transfers that go on by themselves */
    weft_status background_status;
    char background_sentence[SENTENCE_BYTES];
    pthread_t worker;
    pthread_cond_t wake;
    bool has_worker, stop;

    char *buffers;                    /* [depth], a chunk each */
    bool buffers_known, buffers_told; /* to the queue, which may have refused */
    struct crc32c_shift shift;
    struct gpu *pinned_for;
    struct file_engine *next_lost;

    /* Of GPU memory (beside.c), guarded by `beside_lock`. */
    pthread_mutex_t beside_lock;
    struct file_engine *beside; /* NULL: there is none, */
    struct file_why_not why_not;
    bool beside_tried;
    /* Of the engine beside: whether cuFile still carries. Guarded by `lock`. */
    bool by_cufile;
};

/* ------------------------------------------------------------------------------- run.c */

/* What file.h says of the functions of the same names, of this engine alone. */
weft_status file_drive_run(struct file_engine *engine, const struct file_transfer *list, size_t n);
weft_status file_drive_begin(struct file_engine *engine, const struct file_transfer *transfer);
weft_status file_drive_quiet(struct file_engine *engine);
bool file_drive_busy(struct file_engine *engine);

/* ----------------------------------------------------------------------------- beside.c */

/* The engine that carries the transfer out, this one or that beside it, which it makes. NULL:
 * WEFT_FILE_GPU insists on what is not there. */
struct file_engine *file_engine_for(struct file_engine *engine,
                                    const struct file_transfer *transfer);
void file_beside_close(struct file_engine *engine);
void file_beside_describe(struct file_engine *engine, bool find, weft_file_info *info);

/* Under the lock of the engine beside: cuFile has refused a request with an error of its own. */
void file_beside_refused(struct file_engine *engine, int error);

/* ------------------------------------------------------------------------------- piece.c */

/* The first failure of a transfer counts; nothing more of it is planned. */
void file_op_fail(struct file_op *op, weft_status status, int error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The system has refused a piece with `error`, and the file ends too soon: `done` bytes are
 * safe. */
void file_op_fail_io(const struct file_engine *engine, struct file_op *op, int error,
                     uint64_t done);
void file_op_fail_short(const struct file_engine *engine, struct file_op *op, uint64_t done);

/* Whether all its pieces have ended, and no more will come. */
bool file_op_ended(const struct file_op *op);

size_t file_buffers_bytes(const struct file_engine *engine);
char *file_buffer_of(const struct file_engine *engine, const struct file_piece *piece);

/* Nothing is under way. */
void file_buffers_drop(struct file_engine *engine);

/* All under the lock. Gives a piece to the kernel; as many of what is to be planned as there is
 * room for; takes what has ended, of which some goes on (*nap: it was put off again and again). */
void file_give(struct file_engine *engine, struct file_piece *piece);
void file_issue(struct file_engine *engine);
void file_take_back(struct file_engine *engine, struct file_io *list, bool *nap);
void file_settle_later(struct file_engine *engine, struct file_op *op);

/* Bytes of the piece, from its start, that the kernel has moved. */
size_t file_safe_bytes(const struct file_piece *piece);

static inline void file_into_work(struct file_piece **list, struct file_piece *piece)
{
    piece->next_work = *list;
    *list = piece;
}

#endif
