/* SPDX-License-Identifier: Apache-2.0 */
/* How one PE of a running job reaches another, as it has noted it in its black box: for each kind
 * of memory the path that is taken, whether it was proven, and why it is no other. Nothing read is
 * trusted: numbers are bounded, text is printable. */
#ifndef WEFT_TOOL_CHOICES_H
#define WEFT_TOOL_CHOICES_H

#include <stdbool.h>
#include <stddef.h>

enum { CHOICES_KINDS = 2, CHOICES_PATHS_MOST = 12, CHOICES_WHY_BYTES = 512 };

enum choice_proof { CHOICE_UNUSED, CHOICE_NOT_PROVEN, CHOICE_PROVEN, CHOICE_FAILED };

struct choice_path {
    char name[16];
    char why[CHOICES_WHY_BYTES]; /* it is, or is not, taken; "" = not told */
    bool failed;                 /* its proof */
};

struct choice {
    enum choice_proof proof; /* CHOICE_UNUSED: no memory of this kind is in use, all else is 0 */
    bool taken;              /* some path is: paths[0] */
    struct choice_path paths[CHOICES_PATHS_MOST];
    int n_paths;
};

struct choices {
    int from, to;
    int npes; /* of the job */
    int pid;  /* of PE `from` */
    char program[64];
    struct choice kinds[CHOICES_KINDS]; /* host memory, GPU memory */
};

/* How PE `from` of the job of process `pid` (a PE, or what has started PEs) reaches PE `to`. On
 * failure false, and the sentence is in `why`. */
bool choices_read(int pid, int from, int to, struct choices *choices, char *why, int why_bytes);

/* Gives `take` how each PE of this node reaches each PE of the job, in the order of both. A PE that
 * has not begun yet is left out. */
bool choices_read_all(int pid, void (*take)(void *argument, const struct choices *one),
                      void *argument, char *why, int why_bytes);

/* The same from the `bytes` of a slot of the system segment: false when they hold no such thing.
 * For tests, too. */
bool choices_decode(const void *slot, size_t bytes, int to, struct choices *choices);

#endif
