/* SPDX-License-Identifier: Apache-2.0 */
/* What a mixture of experts is here: its sizes, who has which expert, what tokens, gradients and
 * experts hold, and the layout of a row. One text for kernels and for the serial reference, which
 * agree in every bit: sums of products are made by fmaf() in a stated order, so that no compiler
 * chooses what to fuse. */
#ifndef EXAMPLES_EXPERTS_EXPERTS_H
#define EXAMPLES_EXPERTS_EXPERTS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/device/simt.h>

enum routing { ROUTING_UNIFORM, ROUTING_SKEWED, ROUTING_ONE };

typedef struct shape {
    uint32_t pes, me;
    uint32_t tokens, hidden; /* of each PE; hidden is a multiple of 8 */
    uint32_t experts, top;   /* of all PEs; experts that a token goes to */
    uint32_t capacity;       /* rows that a PE has room for from each other */
    uint32_t parts; /* in which results come back: while one comes, the one before is added up */
    uint32_t routing;
    uint64_t seed;
} shape;

/* PE p has the experts from first_expert(p) to before first_expert(p + 1): as many, or one more. */
WEFT_DEVICE uint32_t first_expert(const shape *s, uint32_t pe)
{
    return (uint32_t)((uint64_t)pe * s->experts / s->pes);
}

WEFT_DEVICE uint32_t owner_of(const shape *s, uint32_t expert)
{
    uint32_t pe = (uint32_t)((uint64_t)expert * s->pes / s->experts);
    while (first_expert(s, pe + 1) <= expert)
        pe++;
    return pe;
}

/* ------------------------------------------------------------------------------------- numbers */

/* Source: splitmix64 (G. L. Steele et al., OOPSLA 2014). */
WEFT_DEVICE uint64_t spread(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

WEFT_DEVICE float from_bf16(uint16_t bits)
{
    union {
        uint32_t bits;
        float value;
    } u;
    u.bits = (uint32_t)bits << 16;
    return u.value;
}

/* To the nearest, to even where two are as near; there is no NaN here. */
WEFT_DEVICE uint16_t to_bf16(float value)
{
    union {
        float value;
        uint32_t bits;
    } u;
    u.value = value;
    return (uint16_t)((u.bits + 0x7fffu + (u.bits >> 16 & 1)) >> 16);
}

enum what { TOKEN, GRADIENT, EXPERT }; /* of a token; of its result; an expert's factors */

/* From -1 to 1, of eight bits, large and small, so that sums of a few products round: another order
 * would be seen. */
WEFT_DEVICE uint16_t number(const shape *s, uint32_t what, uint64_t row, uint32_t column)
{
    uint64_t bits = spread(spread(s->seed * 8 + what) ^ (row << 20 | column));
    return to_bf16((float)((int)(bits & 0xff) - 128) / (float)(128 << (bits >> 8 & 7)));
}

/* ------------------------------------------------------------------------------------- routing */

/* The larger, the sooner: no two are alike. */
WEFT_DEVICE uint64_t score(const shape *s, uint64_t token, uint32_t expert)
{
    uint64_t bits = spread(spread(~s->seed) ^ (token << 20 | expert)) >> 24 << 20;
    if (s->routing == ROUTING_ONE)
        bits = 0; /* everyone likes the first ones best */
    else if (s->routing == ROUTING_SKEWED)
        bits >>= (uint64_t)expert * 8 / s->experts;
    return bits | (0xfffff - expert);
}

/* The k-th expert of a token, given the one before it (k > 0). */
WEFT_DEVICE uint32_t next_expert(const shape *s, uint64_t token, uint32_t k, uint32_t before)
{
    uint64_t limit = k ? score(s, token, before) : ~(uint64_t)0, best = 0;
    uint32_t found = 0;
    for (uint32_t e = 0; e < s->experts; e++) {
        uint64_t its = score(s, token, e);
        if (its < limit && its >= best) {
            best = its;
            found = e;
        }
    }
    return found;
}

/* Before they are divided by their sum. */
WEFT_DEVICE float raw_weight(const shape *s, uint64_t token, uint32_t k)
{
    return 1.0f + (float)(spread(spread(s->seed + 77) ^ (token << 8 | k)) & 0xff) / 256.0f;
}

/* ---------------------------------------------------------------------------------------- rows */

/* What a PE sends to another is rows: an entry for each of the token's experts and, from row_head()
 * on, the numbers. On the way back the entries hold the gradients of the weights. */
typedef struct entry {
    int32_t expert; /* of all PEs */
    float weight;
} entry;

WEFT_DEVICE size_t row_head(const shape *s)
{
    return (s->top * sizeof(entry) + 15) / 16 * 16;
}

WEFT_DEVICE size_t row_bytes(const shape *s)
{
    return row_head(s) + s->hidden * sizeof(uint16_t);
}

WEFT_DEVICE size_t block_bytes(const shape *s)
{
    return s->capacity * row_bytes(s);
}

/* Tokens are parted in their order: part p has those from first_token(p) to before first_token(p +
 * 1). */
enum { PARTS_MOST = 4 };

WEFT_DEVICE uint32_t first_token(const shape *s, uint32_t part)
{
    return (uint32_t)((uint64_t)part * s->tokens / s->parts);
}

/* Sums over a row are made by so many lanes, lane l from element l on, then in their order. */
enum { LANES = 32 };

#endif
