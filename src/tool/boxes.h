/* SPDX-License-Identifier: Apache-2.0 */
/* What each PE of a job on this node is doing, decoded from the black boxes in the shared memory of
 * the running job, without help of its processes. The result does not depend on the layout of a
 * box. The data is not trusted: numbers are bounded, text is made printable. */
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

/* A wait that takes long. */
struct boxes_wait {
    const char *operation;   /* "barrier" */
    int peer;                /* PE of the job, -1: any or unknown */
    const char *compare;     /* "==" */
    uint64_t expected, seen; /* expected and last read value of the variable */
    uint64_t offset;         /* of the variable in its segment, bytes */
    const char *segment;     /* "heap", "global data", "GPU heap", "library's memory" */
    uint64_t since_ns;       /* start of the wait */
    char what[160]; /* "expected >= -3, seen 0 at offset 64 of the heap", "step 9 of team 0 ..." */
};

/* An operation of the recent past. */
struct boxes_past {
    const char *operation;
    uint64_t bytes; /* 0: it transfers no data */
};

/* The operations of all contexts over one path. */
struct boxes_path {
    char name[16];
    uint64_t operations, bytes;
    char
        last[64]; /* last operation of the first context that used it: "put to PE 3 at offset 64" */
};

enum boxes_state { BOXES_STARTING, BOXES_RUNNING, BOXES_FINALIZED, BOXES_ABORTED, BOXES_UNKNOWN };

/* The state of a proxy thread; all zeros when it has run no operation. */
struct boxes_proxy {
    int ring;           /* index of its ring */
    uint64_t carried;   /* operations of device code that the thread has run */
    uint64_t completed; /* of these, complete at every PE */
    uint64_t behind;    /* operations in the ring that the thread has not started, at least */
    uint64_t since_ns;  /* start of the current operation; 0: none */
    char under_way[64]; /* the current operation: "put to PE 3"; "" when none */
};

struct boxes_pe {
    bool present; /* the PE has started; if not, all other fields are 0 */
    bool alive;   /* its process exists */
    int pe, pid;
    int npes; /* PEs of the job; the node may have fewer */
    int node; /* index of its node in the job */
    enum boxes_state state;
    char program[64];
    char failure[256]; /* the first fault that ended its work, "" when none */
    uint64_t start_ns;
    uint64_t collectives; /* number of calls on the world team */
    struct boxes_wait waits[BOXES_WAITS_MOST];
    int n_waits;
    struct boxes_past past[BOXES_HISTORY_MOST]; /* the last operations, oldest first */
    int n_past;
    uint64_t past_count;                       /* number of all recorded operations */
    struct boxes_path paths[BOXES_PATHS_MOST]; /* paths that were used */
    int n_paths;
    char kernels[BOXES_KERNELS_MOST][384]; /* waits and failures of its kernels, as text */
    int n_kernels;
    struct boxes_proxy proxy; /* sum of all threads, with the longest current operation */
    struct boxes_proxy rings[BOXES_RINGS_MOST]; /* threads that have run operations */
    int n_rings;
};

struct boxes_job {
    int count;       /* PEs of the node */
    uint64_t now_ns; /* current time of the clock of since_ns and start_ns */
    struct boxes_pe *pes;
};

/* Finds and reads the boxes of the job of process `pid`, which is a PE or has started PEs. False
 * with an error message in `why` on failure. */
bool boxes_read(int pid, struct boxes_job *job, char *why, int why_bytes);
void boxes_free(struct boxes_job *job);

/* Decodes one PE from its box of BOXES_BYTES bytes; does not change pe->alive. Also for tests. */
enum { BOXES_BYTES = 64 * 1024 };
void boxes_decode(const void *bytes, struct boxes_pe *pe);

#endif
