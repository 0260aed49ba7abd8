/* SPDX-License-Identifier: Apache-2.0 */
/* How this PE reaches a peer's segments. A path is a small table of operations on (segment, offset)
 * at one peer; where a peer's memory is mapped here, the operations of src/ops do not even call it
 * but load and store through peer->base. Knows nothing of teams and collectives. */
#ifndef WEFT_PATH_PATH_H
#define WEFT_PATH_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "box/box.h"
#include "memory/segment.h"

#include <weft.h>

/* X(id, name, exists in this version) */
#define PATH_LIST(X)                                                                               \
    X(SELF, "self", true)                                                                          \
    X(P2P, "p2p", true)                                                                            \
    X(WEAK, "weak", true)                                                                          \
    X(STAGED, "staged", false)                                                                     \
    X(GDA, "gda", false)                                                                           \
    X(NET, "net", false)                                                                           \
    X(FILE, "file", false)

enum path_id {
#define PATH_ENUM(id, name, exists) PATH_##id,
    PATH_LIST(PATH_ENUM)
#undef PATH_ENUM
        PATH_COUNT
};

_Static_assert((int)PATH_COUNT <= (int)BOX_PATHS, "the black box has a column for every path");

struct path_ops;
struct path_state; /* what a path keeps per context; only the path looks inside */

/* One PE as seen from one context. 64 bytes: one cache line per operation. */
struct peer {
    char *base[SEG_COUNT];         /* load/store address of its segments; NULL: go through ops */
    struct box_counters *counters; /* of this context and path */
    const struct path_ops *ops;
    struct path_state *state;
    int32_t pe;       /* number in the job */
    uint32_t path;    /* enum path_id */
    char *const *map; /* [SEG_COUNT] where its segments are mapped here, for the path's own use */
};

struct remote {
    struct peer *peer;
    enum segment_id segment;
    size_t offset;
};

/* Sizes and bounds have been checked by the caller. */
struct path_ops {
    const char *name;

    /* Returns when src may be reused. nbi: may keep src until quiet. */
    weft_status (*put)(struct remote to, const void *src, size_t bytes, bool nbi);

    weft_status (*get)(struct remote from, void *dst, size_t bytes, bool nbi);

    /* One access of `width` 1, 2, 4 or 8 bytes. NULL: put and get of so few bytes are that. */
    weft_status (*store)(struct remote to, const void *value, size_t width);
    weft_status (*load)(struct remote from, void *value, size_t width);

    /* width 4 or 8; *fetched gets the value from before when it is not NULL. */
    weft_status (*amo)(struct remote at, weft_amo amo, size_t width, uint64_t value,
                       uint64_t expected, void *fetched, bool nbi);

    /* put, and then (never visible before the data) the signal. */
    weft_status (*put_signal)(struct remote to, const void *src, size_t bytes, struct remote signal,
                              uint64_t value, weft_signal_op op, bool nbi);

    /* Order, or complete, what this context has given to this path. */
    weft_status (*fence)(struct path_state *state);
    weft_status (*quiet)(struct path_state *state);

    /* Moves on what is outstanding; called by waiting PEs. NULL: nothing ever is. */
    void (*progress)(struct path_state *state);

    weft_status (*state_create)(struct path_state **state);
    void (*state_destroy)(struct path_state *state);
};

extern const struct path_ops path_mapped_ops; /* self and p2p: the peer's memory is mapped */
extern const struct path_ops path_weak_ops;
extern const struct path_ops path_gpu_ops; /* GPU memory on either side */

/* Where a place is mapped here: in GPU memory for this PE's GPU, in host memory for its CPU.
 * at.peer is one of the context's GPU peers. WEFT_ERR_NO_PATH with the evidence. */
weft_status gpu_locate(struct remote at, char **address);

/* ----------------------------------------------------------------- choice: a pure function */

/* Parsed WEFT_PATH. */
struct path_order {
    int count; /* 0: the library's own order */
    enum path_id order[PATH_COUNT];
    uint32_t excluded; /* bit per path */
    bool forced;       /* a list was given: only its paths may be used */
};

/* "p2p,staged" (only these, in this order), "^p2p" (all but this), "" (own order).
 * WEFT_ERR_CONFIG names an unknown or not yet existing path. */
weft_status path_order_parse(const char *text, struct path_order *order);

struct path_facts {
    bool same_pe;
    bool same_node;     /* the PEs share a kernel */
    bool shared_memory; /* the peer's segments are mapped here */
    int mapped_proof;   /* 1 proven, 0 not tried, -1 failed */
};

struct path_choice {
    enum path_id path;
    char reason[256]; /* why this, and why no better one */
};

/* WEFT_ERR_NO_PATH, with each path's reason in the sentence, when none is left. */
weft_status path_choose(const struct path_facts *facts, const struct path_order *order,
                        struct path_choice *choice);

const char *path_name(enum path_id path);

#endif
