/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of arrays that are spread over the PEs of a job, in one file, from which a job of any
 * other number of PEs goes on. Knows nothing of what the arrays mean.
 *
 * An array has `elements` elements over the whole job, of which PE p holds those from elements * p
 * / n to elements * (p + 1) / n in symmetric memory, host or GPU.
 *
 * The file: a header, the checksums of all pieces, then the arrays one after the other in the order
 * of their indices, as if one PE had held them. A piece is what one PE has written at once: some
 * PIECE bytes at most. So whoever reads knows from the number of writers alone where pieces begin.
 *
 * The file is whole at any time: a new one is written beside it (its name with .new), made safe
 * from a loss of power, and renamed. Whoever is killed meanwhile leaves the old one, and perhaps
 * the .new, which the next checkpoint writes anew. */
#ifndef EXAMPLES_CHECKPOINT_H
#define EXAMPLES_CHECKPOINT_H

#include <weft.h>

enum { CHECKPOINT_NAME = 32, CHECKPOINT_ARRAYS = 16 };

struct checkpoint_array {
    char name[CHECKPOINT_NAME];
    void *memory;           /* symmetric */
    uint64_t element_bytes; /* at least 1 */
    uint64_t elements;      /* of the whole job */
};

/* The elements that PE `pe` of `n` holds. */
void checkpoint_range(const struct checkpoint_array *array, int pe, int n, uint64_t *first,
                      uint64_t *count);

/* The most elements that any PE of `n` holds: what to allocate. */
uint64_t checkpoint_most(const struct checkpoint_array *array, int n);

/* Writes what the arrays hold after `step`, with what is in flight to them completed first; and
 * checkpoint_read() sets them, and *step, from a file. Collective over the job, with the same
 * arguments. Every PE gets the same status; checkpoint_error() is then the sentence of the lowest
 * PE that failed. What failed leaves the file as it was; the arrays, when reading, are then of no
 * use. Of checkpoint_read(): *found is 0, and all else untouched, where there is no such file. */
weft_status checkpoint_write(weft_job *job, const char *path, uint64_t step,
                             const struct checkpoint_array *arrays, int count);
weft_status checkpoint_read(weft_job *job, const char *path, uint64_t *step,
                            const struct checkpoint_array *arrays, int count, int *found);

/* "PE 3: ..." Valid until the next call. */
const char *checkpoint_error(void);

/* For tests: this PE, if it is PE 0, is killed when the next checkpoint has come so far. */
enum checkpoint_moment {
    CHECKPOINT_NEVER,
    CHECKPOINT_OPENED,  /* the new file is there, and empty */
    CHECKPOINT_BEGUN,   /* some pieces are on their way */
    CHECKPOINT_WRITTEN, /* all pieces are written */
    CHECKPOINT_HEADED,  /* header and checksums are, too */
    CHECKPOINT_SAFE,    /* all of it is safe */
    CHECKPOINT_RENAMED  /* it has its name */
};
void checkpoint_die_at(enum checkpoint_moment moment);

#endif
