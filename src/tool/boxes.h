/* SPDX-License-Identifier: Apache-2.0 */
/* What every PE of a job on this node is doing: read from the black boxes in the job's live memory,
 * without its help, and put into words that do not depend on how a box is laid out. Nothing read is
 * trusted: numbers are bounded, text is printable. */
#ifndef WEFT_TOOL_BOXES_H
#define WEFT_TOOL_BOXES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    BOXES_WAITS_MOST = 16,
    BOXES_HISTORY_MOST = 64,
    BOXES_PATHS_MOST = 12,
    BOXES_KERNELS_MOST = 32,
    BOXES_RINGS_MOST = 8,
};

/* A wait that has become slow. */
struct boxes_wait {
    const char *operation; /* "barrier" */
    int peer;              /* PE of the job, -1: any or unknown */
    const char *compare;   /* "==" */
    uint64_t expected, seen;
    uint64_t offset;     /* of the variable in ... */
    const char *segment; /* ... "heap", "global data", "GPU heap", "library's memory" */
    uint64_t since_ns;
    char what[160]; /* "expected >= -3, seen 0 at offset 64 of the heap", "step 9 of team 0 ..." */
};

struct boxes_past {
    const char *operation;
    uint64_t bytes; /* 0: it moves none */
};

/* All contexts' operations over one path. */
struct boxes_path {
    char name[16];
    uint64_t operations, bytes;
    char last[64]; /* "put to PE 3 at offset 64": of the first context that used it */
};

enum boxes_state { BOXES_STARTING, BOXES_RUNNING, BOXES_FINALIZED, BOXES_ABORTED, BOXES_UNKNOWN };

/* What a thread of the proxy does; all zeros when it has done nothing. */
struct boxes_proxy {
    int ring;           /* its number */
    uint64_t carried;   /* operations that device code gave and that were carried out */
    uint64_t completed; /* of them, complete at every PE */
    uint64_t behind;    /* given and not begun, at least */
    uint64_t since_ns;  /* of the one under way; 0: none is */
    char under_way[64]; /* "put to PE 3", "" */
};

struct boxes_pe {
    bool present; /* has begun; else all else is 0 */
    bool alive;   /* its process exists */
    int pe, pid;
    int npes; /* of the job; the node may have fewer */
    int node; /* number of its node in the job */
    enum boxes_state state;
    char program[64];
    char failure[256]; /* the first fault that ended its work, "" without one */
    uint64_t start_ns;
    uint64_t collectives; /* calls on the world team */
    struct boxes_wait waits[BOXES_WAITS_MOST];
    int n_waits;
    struct boxes_past past[BOXES_HISTORY_MOST]; /* the last ones, oldest first */
    int n_past;
    uint64_t past_count;                       /* of all that were recorded */
    struct boxes_path paths[BOXES_PATHS_MOST]; /* those that were used */
    int n_paths;
    char kernels[BOXES_KERNELS_MOST][384]; /* what its kernels wait for, or what failed in them */
    int n_kernels;
    struct boxes_proxy proxy; /* of all threads, with what has been under way longest */
    struct boxes_proxy rings[BOXES_RINGS_MOST]; /* of those that had something to do */
    int n_rings;
};

struct boxes_job {
    int count;       /* PEs of the node */
    uint64_t now_ns; /* of the clock that since_ns and start_ns are of */
    struct boxes_pe *pes;
};

/* Finds and reads the boxes of the job that process `pid` is a PE of, or has started. On failure
 * false, and the sentence is in `why`. */
bool boxes_read(int pid, struct boxes_job *job, char *why, int why_bytes);
void boxes_free(struct boxes_job *job);

/* One PE from the bytes of its box, BOXES_BYTES of them; `alive` is left alone. For tests, too. */
enum { BOXES_BYTES = 64 * 1024 };
void boxes_decode(const void *bytes, struct boxes_pe *pe);

#endif
