/* SPDX-License-Identifier: Apache-2.0 */
/* Definitions of the mixture of experts: its sizes, the owner of each expert, and the values of
 * tokens, gradients and experts. Kernels and the serial reference share this text
 * and agree in every bit: sums of products use fmaf() in a fixed order, so that no compiler chooses
 * what to fuse. */
#ifndef EXAMPLES_EXPERTS_EXPERTS_H
#define EXAMPLES_EXPERTS_EXPERTS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/device/simt.h>

enum routing { ROUTING_UNIFORM, ROUTING_SKEWED, ROUTING_ONE };

typedef struct shape {
    uint32_t pes, me;
    uint32_t tokens, hidden; /* tokens of each PE; numbers of a token, a multiple of 8 */
    uint32_t experts, top;   /* experts of all PEs; experts per token */
    uint32_t rows;           /* rows that a PE can receive; 0: any number */
    uint32_t routing;
    uint64_t seed;
} shape;

/* As <weft_experts.h> has it: PE p has the experts from first_expert(p) to before
 * first_expert(p + 1); the counts of PEs differ by at most one. */
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

/* --------------------------------------------------------------------------------------- values */

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

/* Rounds to nearest, ties to even; NaN does not occur. */
WEFT_DEVICE uint16_t to_bf16(float value)
{
    union {
        float value;
        uint32_t bits;
    } u;
    u.value = value;
    return (uint16_t)((u.bits + 0x7fffu + (u.bits >> 16 & 1)) >> 16);
}

/* values of a token, of the gradient of its result, of an expert */
enum what { TOKEN, GRADIENT, EXPERT };

/* Returns a value from -1 to 1 with eight bits. Magnitudes vary, so that sums of a few products
 * round and another order would be noticed. */
WEFT_DEVICE uint16_t number(const shape *s, uint32_t what, uint64_t row, uint32_t column)
{
    uint64_t bits = spread(spread(s->seed * 8 + what) ^ (row << 20 | column));
    return to_bf16((float)((int)(bits & 0xff) - 128) / (float)(128 << (bits >> 8 & 7)));
}

/* ------------------------------------------------------------------------------------- routing */

/* Score of an expert for a token; the highest scores are chosen, and no two are equal. */
WEFT_DEVICE uint64_t score(const shape *s, uint64_t token, uint32_t expert)
{
    uint64_t bits = spread(spread(~s->seed) ^ (token << 20 | expert)) >> 24 << 20;
    if (s->routing == ROUTING_ONE)
        bits = 0; /* all tokens prefer the first experts */
    else if (s->routing == ROUTING_SKEWED)
        bits >>= (uint64_t)expert * 8 / s->experts;
    return bits | (0xfffff - expert);
}

/* Returns the k-th expert of a token, given the previous one (k > 0). */
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

/* Weight before normalisation. */
WEFT_DEVICE float raw_weight(const shape *s, uint64_t token, uint32_t k)
{
    return 1.0f + (float)(spread(spread(s->seed + 77) ^ (token << 8 | k)) & 0xff) / 256.0f;
}

/* Sums over a row are computed by LANES partial sums: lane l starts at element l; then the lanes
 * are added in order. */
enum { LANES = 32 };

#endif
