/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of arrays that are distributed over the PEs of a job, in one file. A job with any
 * number of PEs can resume from it. Knows nothing of what the arrays mean.
 *
 * An array has `elements` elements over the whole job. PE p holds those from elements * p / n to
 * elements * (p + 1) / n in symmetric memory, host or GPU.
 *
 * The file contains a header, the checksums of all pieces, then the arrays in the order of their
 * indices, as if one PE held them. A piece is what one PE writes by one transfer, at most PIECE
 * bytes. A reader therefore needs only the number of writers to know where pieces begin.
 *
 * The file is complete at any time: a new one is written next to it (its name with .new), synced to
 * storage, and renamed. If the job is killed meanwhile, the old file remains, and perhaps the .new,
 * which the next checkpoint overwrites. */
#ifndef EXAMPLES_CHECKPOINT_H
#define EXAMPLES_CHECKPOINT_H

#include <weft.h>

enum { CHECKPOINT_NAME = 32, CHECKPOINT_ARRAYS = 16 };

struct checkpoint_array {
    char name[CHECKPOINT_NAME];
    void *memory;           /* symmetric */
    uint64_t element_bytes; /* at least 1 */
    uint64_t elements;      /* elements of the whole job */
};

/* Returns the elements that PE `pe` of `n` holds. */
void checkpoint_range(const struct checkpoint_array *array, int pe, int n, uint64_t *first,
                      uint64_t *count);

/* Returns the most elements that any PE of `n` holds: the size to allocate. */
uint64_t checkpoint_most(const struct checkpoint_array *array, int n);

/* checkpoint_write() writes the arrays after `step`, and completes transfers to them first.
 * checkpoint_read() reads the arrays and *step from a file. Collective over the job, with the same
 * arguments. Every PE returns the same status; checkpoint_error() is then the message of the lowest
 * PE that failed. On failure the file is unchanged, and the contents of the arrays are undefined
 * after a read. checkpoint_read(): if there is no such file, *found is 0 and nothing else
 * changes. */
weft_status checkpoint_write(weft_job *job, const char *path, uint64_t step,
                             const struct checkpoint_array *arrays, int count);
weft_status checkpoint_read(weft_job *job, const char *path, uint64_t *step,
                            const struct checkpoint_array *arrays, int count, int *found);

/* "PE 3: ..." Valid until the next call. */
const char *checkpoint_error(void);

/* For tests: PE 0 is killed at this moment of the next checkpoint. */
enum checkpoint_moment {
    CHECKPOINT_NEVER,
    CHECKPOINT_OPENED,  /* the new file exists and is empty */
    CHECKPOINT_BEGUN,   /* some pieces are being written */
    CHECKPOINT_WRITTEN, /* all pieces are written */
    CHECKPOINT_HEADED,  /* header and checksums are written */
    CHECKPOINT_SAFE,    /* the file is synced to storage */
    CHECKPOINT_RENAMED  /* it is renamed */
};
void checkpoint_die_at(enum checkpoint_moment moment);

#endif
