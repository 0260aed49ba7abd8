/* SPDX-License-Identifier: Apache-2.0 */
/* The argument of the kernels of kernels.h: sizes of an object for dispatch and combine
 * (<weft_experts.h>), its memory, and what the caller passed. Plain C that nvcc compiles too. */
#ifndef WEFT_OPS_EXPERTS_CALL_H
#define WEFT_OPS_EXPERTS_CALL_H

#include <stddef.h>
#include <stdint.h>

enum {
    EXPERTS_MEMBERS_MOST = 1024,
    EXPERTS_OWN_MOST = 1024, /* experts of one PE */
    EXPERTS_TOP_MOST = 64,
    /* Parts in which results return: while one arrives, the previous one is added up. */
    EXPERTS_PARTS_MOST = 4,
    EXPERTS_THREADS_MOST = 1024, /* threads of a block that assigns rows */
    EXPERTS_WARPS_MOST = 32,
    EXPERTS_ROW_THREADS = 256, /* threads of a block that moves them */
    EXPERTS_LAYOUT_HEAD = 4,   /* words of a layout before the counts; the first: own tokens */

    /* The short form (short.h): the most that its kernels keep in shared memory. */
    EXPERTS_SHORT_MEMBERS = 64,
    EXPERTS_SHORT_TOKENS = 1024,
    EXPERTS_SHORT_PLACES = 8192, /* tokens * members */
    EXPERTS_SHORT_EXPERTS = 1024,
    EXPERTS_SHORT_BLOCKS = 128, /* of a kernel that sends: as many warps as the LL128 test has */
    /* Tickets of a round; the blocks of a kernel that sends and receives draw equal shares. */
    EXPERTS_TICKETS = EXPERTS_SHORT_BLOCKS,
    EXPERTS_LANES = 32, /* lanes that send a piece */
    EXPERTS_PIECE = 480,
    EXPERTS_PIECE_WIRE = 512, /* bytes of its payload, and of its lines */
    EXPERTS_HEAD = 16,        /* bytes of a head before the counts */
};

/* The first error that kernels found. */
enum experts_fault {
    EXPERTS_FAULT_NONE,
    EXPERTS_FAULT_EXPERT,
    EXPERTS_FAULT_ROWS,
    EXPERTS_FAULT_TOKENS,
};
struct experts_error {
    uint64_t kind;  /* enum experts_fault */
    uint64_t place; /* EXPERT: token * top + k; TOKENS: tokens of the layout */
    int64_t value;  /* the expert; the number of rows, of tokens */
};

/* An expert of a token, counted among those of all members (-1: none), and its weight. */
struct experts_choice {
    int32_t expert;
    float weight;
};

/* What a relay knows of the tokens of a PE that it relays to its node. */
struct experts_head {
    uint32_t rows[EXPERTS_PARTS_MOST]; /* their number up to the end of each part */
    uint32_t first;                    /* the first of the PE's `returned` for their sums */
};

/* Arrays with one element, or `top` choices, for each row. */
struct experts_arrays {
    char *x, *scales;
    struct experts_choice *choices;
};

/* Nodes of the team whose members relay rows and results between nodes (nodes.h). */
struct experts_nodes {
    uint32_t n;                          /* number of nodes; 0: there are no relays */
    uint32_t mine, rank;                 /* own node, and own index among its members */
    uint32_t sources;                    /* number of PEs whose tokens this PE relays */
    const int32_t *of, *first, *members; /* as in struct team_nodes */

    /* Symmetric memory of a relay. That of a dispatch and that of a combine overlap. Each source
     * has tokens_most slots for rows, and for results experts_part_results(). */
    struct experts_head *heads; /* [sources] */
    int32_t *places;            /* [slots][members of the node] rows among those of the source */
    struct experts_arrays rows; /* [slots] */
    char *results;
    float *weights; /* [results][top] */
};

/* Numbers of the rounds of the short form. */
struct experts_rounds {
    uint64_t sent;    /* the latest round with a sending kernel */
    uint64_t tickets; /* EXPERTS_TICKETS for each round that has ended */
};

struct experts_call {
    /* sizes */
    uint32_t members, me; /* of the team */
    uint32_t position;    /* of this PE in the order of nodes (nodes.h) */
    uint32_t tokens;      /* own tokens in this dispatch */
    uint32_t tokens_most; /* of a PE in any dispatch */
    uint32_t experts, top, rows, parts;
    uint32_t token_bytes, scale_bytes, result_bytes; /* of a token */
    int32_t result_type;                             /* a weft_type */
    uint32_t part;
    uint32_t known; /* 1: the layout is known */

    /* symmetric memory */
    char *rows_in, *scales_in;         /* received rows */
    struct experts_choice *choices_in; /* [rows][top] */
    char *returned;                    /* results of other members for own tokens, and sums */
    float *weights_returned;           /* [the same][top] */
    uint32_t *counts;                  /* [members][count_words] */

    /* The short form. slots NULL: the long form is used. Otherwise two sets of set_bytes bytes,
     * each a head of every member, then slots for the rows of a dispatch or the results of a
     * combine. */
    char *slots;
    uint64_t set_bytes;
    uint32_t head_pieces, row_pieces, result_pieces; /* of a head and of a slot */
    int32_t team;
    struct experts_rounds *rounds;

    /* own memory of the object */
    const int32_t *pes;             /* [members] PE numbers in the job */
    uint32_t *own_counts;           /* [count_words] */
    struct experts_choice *choices; /* [tokens][top] */
    struct experts_error *error;

    struct experts_nodes nodes;

    uint32_t *layout;
    /* The counts of all members: those of the layout, or `counts` before they are copied there. */
    const uint32_t *known_counts;

    /* memory of the caller */
    const char *x, *scales;
    const int64_t *topk_idx;
    const float *topk_weights;
    char *to_x, *to_scales;
    int64_t *to_idx;
    float *to_weights;
    uint32_t *to_n_rows, *to_n_tokens;
    const char *results;
    const float *result_weights;
    char *to;
    float *to_sums; /* sums of the returned weights */
};

/* Words of a member's counts: for each member the rows sent to it up to the end of each part, then
 * for each expert its tokens. */
#define EXPERTS_COUNT_WORDS(members, experts) ((members)*EXPERTS_PARTS_MOST + (experts))

/* Words of a layout before the rows of the tokens. */
#define EXPERTS_PLACES_AT(members, experts)                                                        \
    (EXPERTS_LAYOUT_HEAD + (size_t)(members)*EXPERTS_COUNT_WORDS(members, experts))

/* X(kernel, threads of a block at most): the names in the module begin with weft_experts_. */
#define EXPERTS_KERNELS(X)                                                                         \
    X(place, EXPERTS_THREADS_MOST)                                                                 \
    X(send, EXPERTS_ROW_THREADS)                                                                   \
    X(receive, EXPERTS_ROW_THREADS)                                                                \
    X(return, EXPERTS_ROW_THREADS)                                                                 \
    X(sum, EXPERTS_ROW_THREADS)                                                                    \
    X(relay_rows, EXPERTS_ROW_THREADS)                                                             \
    X(relay_sums, EXPERTS_ROW_THREADS)                                                             \
    X(short_send, EXPERTS_ROW_THREADS)                                                             \
    X(short_receive, EXPERTS_ROW_THREADS)                                                          \
    X(short_return, EXPERTS_ROW_THREADS)                                                           \
    X(short_sum, EXPERTS_ROW_THREADS)                                                              \
    X(short_dispatch, EXPERTS_ROW_THREADS)                                                         \
    X(short_combine, EXPERTS_ROW_THREADS)

#endif
