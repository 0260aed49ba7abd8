/* SPDX-License-Identifier: Apache-2.0 */
/* The path from one PE of a running job to another, read from the black box of the first: for each
 * kind of memory the path that is used, the result of its test, and why no other path is used. The
 * data is not trusted: numbers are bounded, text is made printable. */
#ifndef WEFT_TOOL_CHOICES_H
#define WEFT_TOOL_CHOICES_H

#include <stdbool.h>
#include <stddef.h>

#include <weft.h>

enum { CHOICES_KINDS = 2, CHOICES_PATHS_MOST = 12, CHOICES_WHY_BYTES = 512 };

enum choice_proof { CHOICE_UNUSED, CHOICE_NOT_PROVEN, CHOICE_PROVEN, CHOICE_FAILED };

struct choice_path {
    char name[16];
    char why[CHOICES_WHY_BYTES]; /* why it is used or not; "" = unknown */
    bool failed;                 /* its path test failed */
};

/* The choice for one kind of memory. */
struct choice {
    enum choice_proof proof; /* CHOICE_UNUSED: the job uses no such memory, all else is 0 */
    bool taken;              /* a path is used: paths[0] */
    struct choice_path paths[CHOICES_PATHS_MOST];
    int n_paths;
};

struct choices {
    int from, to;
    int npes; /* PEs of the job */
    int pid;  /* process of PE `from` */
    char program[64];
    struct choice kinds[CHOICES_KINDS]; /* host memory, GPU memory */
};

/* Reads the choices of PE `from` for PE `to`. `pid` is a PE of the job or has started PEs. False
 * with an error message in `why` on failure. */
bool choices_read(int pid, int from, int to, struct choices *choices, char *why, int why_bytes);

/* Calls `visit` for each PE of this node and each PE of the job, in the order of both. Leaves out
 * PEs that have not started yet. */
bool choices_read_all(int pid, void (*visit)(void *argument, const struct choices *one),
                      void *argument, char *why, int why_bytes);

/* WEFT_ERR_CONFIG: the text is no value of WEFT_PATH; the message has the wrong word and the paths.
 */
weft_status choices_check_order(const char *text);

/* Decodes the choices for PE `to` from the `bytes` of a slot of the system segment. False when the
 * slot has none. Also for tests. */
bool choices_decode(const void *slot, size_t bytes, int to, struct choices *choices);

#endif
