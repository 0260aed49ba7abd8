/* SPDX-License-Identifier: Apache-2.0 */
/* See reference.h. */
#include "reference.h"

#include "../check.h"

#include <inttypes.h>
#include <string.h>

/* A token with its experts and weights. */
struct token {
    float *x, *dy;
    uint32_t *expert, *owner;
    float *weight;
};

struct reference {
    weft_job *job;
    const shape *s;
    const float *factors; /* factors of all experts */
    bool by_nodes;        /* the results of another node are added and rounded first */
    int *node;            /* the lowest PE on the node of each PE */
    struct token t;
    bool good;
};

static void *memory(struct reference *r, size_t n, size_t bytes)
{
    void *block = calloc(n ? n : 1, bytes);
    if (block)
        return block;
    fprintf(stderr, "experts: PE %u: no memory for %zu bytes to compare\n", r->s->me, n * bytes);
    weft_abort(r->job, 1);
}

/* Copies this PE's device memory to the host. */
static void *copy_from_device(struct reference *r, const void *own, size_t n, size_t bytes)
{
    void *here = memory(r, n, bytes);
    if (n)
        CHECK(r->job, weft_get(weft_default_ctx(r->job), here, own, n * bytes, (int)r->s->me));
    return here;
}

static void make_token(struct reference *r, uint64_t token, bool numbers)
{
    const shape *s = r->s;
    float sum = 0.0f;
    for (uint32_t k = 0; k < s->top; k++) {
        r->t.expert[k] = next_expert(s, token, k, k ? r->t.expert[k - 1] : 0);
        r->t.owner[k] = owner_of(s, r->t.expert[k]);
        sum += raw_weight(s, token, k);
    }
    for (uint32_t k = 0; k < s->top; k++)
        r->t.weight[k] = raw_weight(s, token, k) / sum;
    for (uint32_t h = 0; h < s->hidden && numbers; h++) {
        r->t.x[h] = from_bf16(number(s, TOKEN, token, h));
        r->t.dy[h] = from_bf16(number(s, GRADIENT, token, h));
    }
}

/* Returns the contribution of a PE to element h of a token's result, rounded. */
static float contribution(const struct reference *r, uint32_t pe, const float *numbers, uint32_t h)
{
    const shape *s = r->s;
    float part = 0.0f;
    for (uint32_t k = 0; k < s->top; k++)
        if (r->t.owner[k] == pe) {
            float made = r->factors[(size_t)r->t.expert[k] * s->hidden + h] * numbers[h];
            part = fmaf(r->t.weight[k], made, part);
        }
    return from_bf16(to_bf16(part));
}

/* Returns element h of a token's result: the contributions of the PEs added in the order of
 * <weft_experts.h>, node by node. */
static uint16_t expected_result(const struct reference *r, const float *numbers, uint32_t h)
{
    const shape *s = r->s;
    float sum = 0.0f;
    for (uint32_t node = 0; node < s->pes; node++) { /* its first PE; other numbers have no PEs */
        bool apart = r->by_nodes && r->node[s->me] != (int)node;
        float of_node = 0.0f;
        for (uint32_t pe = node; pe < s->pes; pe++) {
            if (r->node[pe] != (int)node)
                continue;
            if (apart)
                of_node += contribution(r, pe, numbers, h);
            else
                sum += contribution(r, pe, numbers, h);
        }
        if (apart)
            sum += from_bf16(to_bf16(of_node));
    }
    return to_bf16(sum);
}

/* Without relays all PEs count as one node, in their order. */
static void find_nodes(struct reference *r, const struct layer *layer)
{
    weft_team *world = weft_team_world(r->job);
    int mine = weft_team_translate(weft_team_node(r->job), 0, world);
    void *all, *own;
    CHECK(r->job, layer_adds_by_nodes(layer, &r->by_nodes));
    r->node = memory(r, r->s->pes, sizeof *r->node);
    if (!r->by_nodes)
        return;
    CHECK(r->job, weft_alloc(r->job, WEFT_HOST, r->s->pes * sizeof mine, 0, 0, &all));
    CHECK(r->job, weft_alloc(r->job, WEFT_HOST, sizeof mine, 0, 0, &own));
    memcpy(own, &mine, sizeof mine);
    CHECK(r->job, weft_allgather(world, all, own, sizeof mine));
    memcpy(r->node, all, r->s->pes * sizeof mine);
    CHECK(r->job, weft_free(r->job, own));
    CHECK(r->job, weft_free(r->job, all));
}

static float weight_gradient(const struct reference *r, uint32_t k)
{
    const shape *s = r->s;
    const float *factors = r->factors + (size_t)r->t.expert[k] * s->hidden;
    float sum = 0.0f;
    for (uint32_t lane = 0; lane < LANES; lane++) {
        float part = 0.0f;
        for (uint32_t h = lane; h < s->hidden; h += LANES)
            part = fmaf(factors[h] * r->t.x[h], r->t.dy[h], part);
        sum += part;
    }
    return sum;
}

static void print_difference(struct reference *r, const char *what, size_t row, size_t column,
                             double is, double should)
{
    if (r->good)
        fprintf(stderr, "experts: PE %u: %s %zu, element %zu is %.9g instead of %.9g\n", r->s->me,
                what, row, column, is, should);
    r->good = false;
}

static void compare_bf16(struct reference *r, const char *what, size_t row, const uint16_t *is,
                         const float *numbers)
{
    for (uint32_t h = 0; h < r->s->hidden; h++) {
        uint16_t should = expected_result(r, numbers, h);
        if (is[h] != should)
            print_difference(r, what, row, h, (double)from_bf16(is[h]), (double)from_bf16(should));
    }
}

static void compare_float(struct reference *r, const char *what, size_t row, size_t column,
                          float is, float should)
{
    uint32_t bits, wanted;
    memcpy(&bits, &is, sizeof bits);
    memcpy(&wanted, &should, sizeof wanted);
    if (bits != wanted)
        print_difference(r, what, row, column, (double)is, (double)should);
}

static void compare_tokens(struct reference *r, const buffers *b, bool backward)
{
    const shape *s = r->s;
    size_t numbers = (size_t)s->tokens * s->hidden, choices = (size_t)s->tokens * s->top;
    uint16_t *y = copy_from_device(r, b->y, numbers, sizeof *y);
    uint16_t *dx = copy_from_device(r, b->dx, numbers, sizeof *dx);
    float *dweight = copy_from_device(r, b->dweight, choices, sizeof *dweight);
    for (size_t t = 0; t < s->tokens; t++) {
        make_token(r, (uint64_t)s->me * s->tokens + t, true);
        compare_bf16(r, "result", t, y + t * s->hidden, r->t.x);
        for (uint32_t k = 0; backward && k < s->top; k++)
            compare_float(r, "gradient of the weights of token", t, k, dweight[t * s->top + k],
                          weight_gradient(r, k));
        if (backward)
            compare_bf16(r, "gradient of token", t, dx + t * s->hidden, r->t.dy);
    }
    free(y);
    free(dx);
    free(dweight);
}

/* Compares the experts' gradients, over all PEs' tokens in order. */
static void compare_experts(struct reference *r, const buffers *b)
{
    const shape *s = r->s;
    uint32_t first = first_expert(s, s->me), own = first_expert(s, s->me + 1) - first;
    float *is = copy_from_device(r, b->dfactors, (size_t)own * s->hidden, sizeof *is);
    float *should = memory(r, (size_t)own * s->hidden, sizeof *should);
    for (uint64_t token = 0; token < (uint64_t)s->pes * s->tokens; token++) {
        bool made = false;
        make_token(r, token, false);
        for (uint32_t k = 0; k < s->top; k++) {
            uint32_t e = r->t.expert[k] - first;
            if (r->t.expert[k] < first || e >= own)
                continue;
            if (!made)
                make_token(r, token, true);
            made = true;
            for (uint32_t h = 0; h < s->hidden; h++) {
                float *sum = &should[(size_t)e * s->hidden + h];
                *sum = fmaf(r->t.weight[k] * r->t.dy[h], r->t.x[h], *sum);
            }
        }
    }
    for (size_t i = 0; i < (size_t)own * s->hidden; i++)
        compare_float(r, "gradient of expert", first + i / s->hidden, i % s->hidden, is[i],
                      should[i]);
    free(is);
    free(should);
}

static void make_factors(float *factors, const shape *s)
{
    for (size_t i = 0; i < (size_t)s->experts * s->hidden; i++)
        factors[i] = from_bf16(number(s, EXPERT, i / s->hidden, (uint32_t)(i % s->hidden)));
}

bool reference_agrees(weft_job *job, const shape *s, const struct layer *layer, bool backward)
{
    struct reference r = {.job = job, .s = s, .good = true};
    float *factors = memory(&r, (size_t)s->experts * s->hidden, sizeof *factors);
    float *numbers = memory(&r, 2 * (size_t)s->hidden, sizeof *numbers);
    uint32_t *experts = memory(&r, 2 * (size_t)s->top, sizeof *experts);
    float *weights = memory(&r, s->top, sizeof *weights);
    find_nodes(&r, layer);
    make_factors(factors, s);
    r.factors = factors;
    r.t = (struct token){numbers, numbers + s->hidden, experts, experts + s->top, weights};
    compare_tokens(&r, layer_buffers(layer), backward);
    if (backward)
        compare_experts(&r, layer_buffers(layer));
    free(r.node);
    free(weights);
    free(experts);
    free(numbers);
    free(factors);
    return r.good;
}
