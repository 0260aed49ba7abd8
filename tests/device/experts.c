/* SPDX-License-Identifier: Apache-2.0 */
/* Dispatch and combine of <weft_experts.h>, compared bit by bit with plain loops of the host:
 *   experts [N]   N random sizes, types and choices, over all PEs and over two teams: different
 *                 numbers of tokens at each PE, tokens without experts, PEs without tokens or
 *                 experts, rows in place and copied, known layouts, several dispatches in a row
 *   experts large   results that return in parts
 *   experts late, twice   a member still reads what the others would overwrite
 *   experts rounds  the others are some dispatches, or combines, ahead of a late member
 *   experts dropped   more rows than the object has room for
 *   experts sizes     memory: of an object, and as computed before it is made
 *   experts crossed FACTOR  of tokens that go to all members, each byte crosses to other nodes
 *                 FACTOR times
 *   experts absent [1]  a member that does not dispatch: the wait of the others, of a receiving
 *                 kernel or (1) of one that also sends, ends with a record
 *   experts rows, expert, known_tokens   what weft_experts_check() reports
 *   experts attr, order, null            invalid calls: the messages are checked
 * Dispatches and combines are one call or a send and a receive, as each PE draws for itself.
 * With "mixed" before these, PEs with even and with odd numbers are on two nodes. */
#include "device_test.h"

#if WEFT_HOST_CODE

#include <weft/simt_executor.h>
#include <weft/stream.h>
#include <weft_experts.h>

#include <inttypes.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROUNDS = 3, GUARD = 64, UNTOUCHED = 0xa5, PES_MOST = 64 };

static int node_of[PES_MOST]; /* the lowest PE on the node of each PE */
static int number_given;      /* the number after the name of a case */
static bool in_one_call;      /* how send_little() dispatches */

#define CHECK_MSG(condition, ...)                                                                  \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: CHECK(%s) failed: ", __FILE__, __LINE__, #condition);          \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fputc('\n', stderr);                                                                   \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

struct instance {
    weft_experts_attr attr;
    uint64_t seed;
    int members, self;  /* of the team */
    int node[PES_MOST]; /* of each member, an index in the order of their first members */
    bool relays; /* known when there is an object: one member of each other node gets a token for
                    all of them */
    bool weighted, in_place, results_in_place;
    bool large; /* member 0 has many tokens, member m has m - 1 */
};

/* splitmix64 */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t draw(const struct instance *in, int what, uint64_t a, uint64_t b)
{
    return mix(mix(mix(in->seed * 16 + (uint64_t)what) ^ a) ^ b);
}

enum {
    DRAW_TOKENS,
    DRAW_X,
    DRAW_SCALE,
    DRAW_EXPERT,
    DRAW_WEIGHT,
    DRAW_RESULT,
    DRAW_OTHER_RESULT,
    DRAW_BACK,
    DRAW_SHAPE,
    DRAW_FORM
};

static size_t bytes_of(weft_type type)
{
    return type == WEFT_FLOAT ? 4 : type == WEFT_HALF || type == WEFT_BFLOAT16 ? 2 : 1;
}

static uint32_t tokens_of(const struct instance *in, int member)
{
    uint64_t bits = draw(in, DRAW_TOKENS, (uint64_t)member, 0);
    if (in->large)
        return member ? (uint32_t)member - 1 : in->attr.tokens - 1;
    return bits % 5 == 0 ? 0 : (uint32_t)(bits >> 8) % (in->attr.tokens + 1);
}

static uint64_t token_id(int member, uint32_t t)
{
    return (uint64_t)member << 32 | t;
}

/* Distinct experts, or -1. */
static int64_t expert_of(const struct instance *in, int member, uint32_t t, uint32_t k)
{
    uint64_t bits = draw(in, DRAW_EXPERT, token_id(member, t), 0);
    if (draw(in, DRAW_EXPERT, token_id(member, t), k + 1) % 4 == 0)
        return -1;
    return (int64_t)((bits % in->attr.experts + k) % in->attr.experts);
}

static float weight_of(const struct instance *in, int member, uint32_t t, uint32_t k)
{
    uint64_t bits = draw(in, DRAW_WEIGHT, token_id(member, t), k);
    return in->weighted ? (float)((double)(bits >> 40) / 3e6 - 2.0) : 1.0f;
}

static uint32_t first_of(const struct instance *in, int member)
{
    return (uint32_t)((uint64_t)member * in->attr.experts / (uint64_t)in->members);
}

static bool goes(const struct instance *in, int member, uint32_t t, int to)
{
    for (uint32_t k = 0; k < in->attr.top; k++) {
        int64_t expert = expert_of(in, member, t, k);
        if (expert >= first_of(in, to) && expert < first_of(in, to + 1))
            return true;
    }
    return false;
}

/* Whether the PE has room for the row of this token. */
static bool arrives(const struct instance *in, int member, uint32_t t, int to)
{
    uint32_t before = 0;
    if (!goes(in, member, t, to))
        return false;
    for (int from = 0; from <= member && in->attr.rows; from++)
        for (uint32_t i = 0; i < (from < member ? tokens_of(in, from) : t); i++)
            before += goes(in, from, i, to);
    return !in->attr.rows || before < in->attr.rows;
}

/* A number whose sums round, in the given type. */
static uint32_t number(const struct instance *in, int what, uint64_t a, uint64_t b, weft_type type)
{
    uint64_t bits = draw(in, what, a, b);
    float value = (float)((double)(int64_t)bits / 3e18) / (float)(1 << (bits & 7));
    if (type == WEFT_FLOAT)
        return weft_dev_bits_f32(value);
    return bytes_of(type) == 2 ? weft_dev_narrow_f32(type, value) : (uint32_t)(bits >> 56);
}

static float to_float(uint32_t bits, weft_type type)
{
    return type == WEFT_FLOAT ? weft_dev_f32_bits(bits) : weft_dev_f32_narrow(type, (uint16_t)bits);
}

/* Writes the numbers of a row, low byte first. */
static void fill(const struct instance *in, char *row, int what, uint64_t a, weft_type type)
{
    size_t bytes = bytes_of(type);
    for (uint32_t h = 0; h < in->attr.hidden; h++) {
        uint32_t bits = number(in, what, a, h, type);
        memcpy(row + h * bytes, &bits, bytes);
    }
}

/* ------------------------------------------------------------------------------- buffers */

struct buffers {
    char *x, *results, *y, *rows_x;
    float *scales, *topk_weights, *weights, *sums, *rows_scales, *rows_weights;
    int64_t *topk_idx, *rows_idx;
    uint32_t *n_rows, *n_tokens;
    void *layout;
    size_t layout_bytes;
};

/* Whether some members of the team are on one node and others not. */
static bool shares_nodes(const struct instance *in)
{
    int last = 0;
    for (int i = 0; i < in->members; i++)
        last = in->node[i] > last ? in->node[i] : last;
    return last > 0 && last < in->members - 1;
}

/* Symmetric memory with a guard behind it. */
static void *room(size_t bytes)
{
    char *guard = malloc(GUARD);
    size_t up = (bytes + 15) / 16 * 16;
    char *made = symmetric(up + GUARD);
    memset(guard, UNTOUCHED, GUARD);
    store(made + up, guard, GUARD);
    free(guard);
    return made;
}

static void check_guard(const void *made, size_t bytes, const char *what)
{
    unsigned char guard[GUARD];
    fetch(guard, (const char *)made + (bytes + 15) / 16 * 16, GUARD);
    for (int i = 0; i < GUARD; i++)
        CHECK_MSG(guard[i] == UNTOUCHED, "%s: byte %d behind it was written", what, i);
}

static size_t most_rows(const struct instance *in)
{
    return (size_t)in->attr.tokens * (size_t)in->members;
}

static struct buffers make_buffers(struct instance *in, const weft_experts *experts)
{
    const char *form = getenv("WEFT_TEST_EXPERTS");
    const weft_experts_attr *a = &in->attr;
    size_t tokens = a->tokens, rows = most_rows(in), top = a->top;
    weft_experts_size size;
    OK(weft_experts_query(experts, &size));
    in->relays = size.relays != 0;
    if (form && strcmp(form, "relay") == 0)
        CHECK(in->relays == shares_nodes(in));
    struct buffers b = {.x = room(tokens * a->hidden * bytes_of(a->type)),
                        .results = room(rows * a->hidden * bytes_of(a->result_type)),
                        .y = room(tokens * a->hidden * bytes_of(a->result_type)),
                        .rows_x = room(rows * a->hidden * bytes_of(a->type)),
                        .scales = room((tokens * a->scales + 1) * 4),
                        .topk_weights = room(tokens * top * 4),
                        .weights = room(rows * top * 4),
                        .sums = room(tokens * top * 4),
                        .rows_scales = room((rows * a->scales + 1) * 4),
                        .rows_weights = room(rows * top * 4),
                        .topk_idx = room(tokens * top * 8),
                        .rows_idx = room(rows * top * 8),
                        .n_rows = room(4),
                        .n_tokens = room(((size_t)a->experts + 1) * 4),
                        .layout = room(size.layout),
                        .layout_bytes = size.layout};
    return b;
}

static void check_guards(const struct instance *in, const struct buffers *b)
{
    const weft_experts_attr *a = &in->attr;
    size_t tokens = a->tokens, rows = most_rows(in), top = a->top;
    check_guard(b->y, tokens * a->hidden * bytes_of(a->result_type), "results");
    check_guard(b->rows_x, rows * a->hidden * bytes_of(a->type), "rows");
    check_guard(b->sums, tokens * top * 4, "sums of weights");
    check_guard(b->rows_scales, (rows * a->scales + 1) * 4, "scales");
    check_guard(b->rows_weights, rows * top * 4, "weights");
    check_guard(b->rows_idx, rows * top * 8, "experts");
    check_guard(b->n_rows, 4, "n_rows");
    check_guard(b->n_tokens, ((size_t)a->experts + 1) * 4, "n_tokens");
    check_guard(b->layout, b->layout_bytes, "layout");
}

static void free_buffers(struct buffers *b)
{
    void *all[] = {b->x,           b->results,      b->y,        b->rows_x,
                   b->scales,      b->topk_weights, b->weights,  b->sums,
                   b->rows_scales, b->rows_weights, b->topk_idx, b->rows_idx,
                   b->n_rows,      b->n_tokens,     b->layout};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        OK(weft_free(job, all[i]));
}

/* ------------------------------------------------------------------------- dispatch and combine */

/* Values of one dispatch: `round` gives other ones with the same experts. */
static void write_tokens(const struct instance *in, const struct buffers *b, int round)
{
    const weft_experts_attr *a = &in->attr;
    size_t row = a->hidden * bytes_of(a->type);
    uint32_t tokens = tokens_of(in, in->self);
    char *x = malloc(tokens * row + 1);
    float *scales = malloc((size_t)tokens * a->scales * 4 + 4);
    float *weights = malloc((size_t)tokens * a->top * 4 + 4);
    int64_t *idx = malloc((size_t)tokens * a->top * 8 + 8);
    for (uint32_t t = 0; t < tokens; t++) {
        uint64_t id = token_id(in->self, t);
        fill(in, x + t * row, DRAW_X, id ^ (uint64_t)round << 60, a->type);
        for (uint32_t i = 0; i < a->scales; i++)
            scales[t * a->scales + i] =
                (float)(draw(in, DRAW_SCALE, id, i + (unsigned)round) >> 41);
        for (uint32_t k = 0; k < a->top; k++) {
            idx[t * a->top + k] = expert_of(in, in->self, t, k);
            weights[t * a->top + k] = weight_of(in, in->self, t, k);
        }
    }
    store(b->x, x, tokens * row);
    store(b->scales, scales, (size_t)tokens * a->scales * 4);
    store(b->topk_idx, idx, (size_t)tokens * a->top * 8);
    store(b->topk_weights, weights, (size_t)tokens * a->top * 4);
    free(x);
    free(scales);
    free(weights);
    free(idx);
}

static void check_bytes(const struct instance *in, const void *is, const void *should, size_t bytes,
                        const char *what, uint64_t row)
{
    const unsigned char *a = is, *b = should;
    for (size_t i = 0; i < bytes; i++)
        CHECK_MSG(a[i] == b[i], "PE %d, seed %" PRIu64 ": %s %" PRIu64 ": byte %zu is %u, not %u",
                  me, in->seed, what, row, i, a[i], b[i]);
}

/* Copies of what was received. */
struct received {
    char *x;
    float *scales, *weights;
    int64_t *idx;
    uint32_t n_rows, *n_tokens;
};

static void check_row(const struct instance *in, const struct received *r, uint32_t row, int from,
                      uint32_t t, int round)
{
    const weft_experts_attr *a = &in->attr;
    size_t bytes = a->hidden * bytes_of(a->type);
    uint64_t id = token_id(from, t);
    char *should = malloc(bytes);
    fill(in, should, DRAW_X, id ^ (uint64_t)round << 60, a->type);
    check_bytes(in, r->x + row * bytes, should, bytes, "row", row);
    free(should);
    for (uint32_t i = 0; i < a->scales; i++) {
        float scale = (float)(draw(in, DRAW_SCALE, id, i + (unsigned)round) >> 41);
        check_bytes(in, &r->scales[row * a->scales + i], &scale, 4, "scale of row", row);
    }
    for (uint32_t k = 0; k < a->top && round == 0; k++) {
        int64_t expert = expert_of(in, from, t, k) - first_of(in, in->self);
        bool own = expert >= 0 && expert < first_of(in, in->self + 1) - first_of(in, in->self);
        int64_t idx = own ? expert : -1;
        float weight = own ? weight_of(in, from, t, k) : 0.0f;
        check_bytes(in, &r->idx[row * a->top + k], &idx, 8, "experts of row", row);
        check_bytes(in, &r->weights[row * a->top + k], &weight, 4, "weights of row", row);
        if (own)
            r->n_tokens[expert]--;
    }
}

/* Compares what dispatch number `round` has received. Returns the number of rows. */
static uint32_t check_received(const struct instance *in, const struct buffers *b,
                               weft_experts *experts, int round)
{
    const weft_experts_attr *a = &in->attr;
    size_t bytes = a->hidden * bytes_of(a->type), rows = most_rows(in);
    uint32_t own = first_of(in, in->self + 1) - first_of(in, in->self), row = 0;
    struct received r = {.x = malloc(rows * bytes),
                         .scales = malloc(rows * a->scales * 4 + 4),
                         .weights = malloc(rows * a->top * 4),
                         .idx = malloc(rows * a->top * 8),
                         .n_tokens = malloc((size_t)own * 4 + 4)};
    void *x;
    float *scales;
    OK(weft_experts_received(experts, &x, &scales));
    fetch(&r.n_rows, b->n_rows, 4);
    CHECK_MSG(r.n_rows <= rows, "%u rows", r.n_rows);
    fetch(r.x, in->in_place ? x : b->rows_x, r.n_rows * bytes);
    if (a->scales)
        fetch(r.scales, in->in_place ? scales : b->rows_scales, r.n_rows * a->scales * 4);
    fetch(r.weights, b->rows_weights, (size_t)r.n_rows * a->top * 4);
    fetch(r.idx, b->rows_idx, (size_t)r.n_rows * a->top * 8);
    fetch(r.n_tokens, b->n_tokens, (size_t)own * 4);
    for (int from = 0; from < in->members; from++)
        for (uint32_t t = 0; t < tokens_of(in, from); t++)
            if (arrives(in, from, t, in->self)) {
                CHECK_MSG(row < r.n_rows, "%u rows are too few", r.n_rows);
                check_row(in, &r, row++, from, t, round);
            }
    CHECK_MSG(row == r.n_rows, "%u rows, not %u", r.n_rows, row);
    for (uint32_t e = 0; e < own && round == 0 && !a->rows; e++)
        CHECK_MSG(r.n_tokens[e] == 0, "tokens of own expert %u differ by %d", e, r.n_tokens[e]);
    free(r.x);
    free(r.scales);
    free(r.weights);
    free(r.idx);
    free(r.n_tokens);
    return row;
}

/* Writes results and weights to be returned, known from the token and the PE. */
static void write_results(const struct instance *in, const struct buffers *b, char *to,
                          uint32_t rows, int what)
{
    const weft_experts_attr *a = &in->attr;
    size_t bytes = a->hidden * bytes_of(a->result_type);
    char *results = malloc(rows * bytes + 1);
    float *weights = malloc((size_t)rows * a->top * 4 + 4);
    uint32_t row = 0;
    for (int from = 0; from < in->members; from++)
        for (uint32_t t = 0; t < tokens_of(in, from); t++) {
            if (!arrives(in, from, t, in->self))
                continue;
            uint64_t id = token_id(from, t) ^ (uint64_t)in->self << 52;
            fill(in, results + row * bytes, what, id, a->result_type);
            for (uint32_t k = 0; k < a->top; k++)
                weights[row * a->top + k] =
                    to_float(number(in, DRAW_BACK, id, k, WEFT_FLOAT), WEFT_FLOAT);
            row++;
        }
    store(to, results, rows * bytes);
    store(b->weights, weights, (size_t)rows * a->top * 4);
    free(results);
    free(weights);
}

static uint32_t expected_bits(float sum, weft_type type)
{
    return type == WEFT_FLOAT ? weft_dev_bits_f32(sum) : weft_dev_narrow_f32(type, sum);
}

/* Results of members, or weights, of which number i belongs to token t: their sum. The members of
 * another node add theirs first, where relays do so. sent: whether each member has a result. */
static float sum_of(const struct instance *in, const bool *sent, uint32_t t, int what, uint64_t i,
                    weft_type type)
{
    float sum = 0.0f;
    for (int node = 0; node < in->members; node++) {
        float of_node = 0.0f;
        bool relayed = in->relays && node != in->node[in->self];
        for (int pe = 0; pe < in->members; pe++) {
            if (in->node[pe] != node || !sent[pe])
                continue;
            uint64_t id = token_id(in->self, t) ^ (uint64_t)pe << 52;
            float value = to_float(number(in, what, id, i, type), type);
            if (relayed)
                of_node += value;
            else
                sum += value;
        }
        if (relayed)
            sum += to_float(expected_bits(of_node, type), type);
    }
    return sum;
}

static void check_combined(const struct instance *in, const struct buffers *b, const char *from,
                           bool weights, int what)
{
    const weft_experts_attr *a = &in->attr;
    size_t element = bytes_of(a->result_type), bytes = a->hidden * element;
    uint32_t tokens = tokens_of(in, in->self);
    char *y = malloc(tokens * bytes + 1);
    float *sums = malloc((size_t)tokens * a->top * 4 + 4);
    fetch(y, from, tokens * bytes);
    fetch(sums, b->sums, (size_t)tokens * a->top * 4);
    for (uint32_t t = 0; t < tokens; t++) {
        bool sent[PES_MOST];
        for (int pe = 0; pe < in->members; pe++)
            sent[pe] = arrives(in, in->self, t, pe);
        for (uint32_t h = 0; h < a->hidden; h++) {
            float sum = sum_of(in, sent, t, what, h, a->result_type);
            uint32_t should = expected_bits(sum, a->result_type);
            check_bytes(in, y + t * bytes + h * element, &should, element, "result of token", t);
        }
        for (uint32_t k = 0; k < a->top && weights; k++) {
            float sum = sum_of(in, sent, t, DRAW_BACK, k, WEFT_FLOAT);
            check_bytes(in, &sums[t * a->top + k], &sum, 4, "sum of weights of token", t);
        }
    }
    free(y);
    free(sums);
}

static weft_experts_tokens tokens_arg(const struct instance *in, const struct buffers *b,
                                      bool known)
{
    weft_experts_tokens tokens = {.size = sizeof tokens,
                                  .tokens = tokens_of(in, in->self),
                                  .known = known,
                                  .x = b->x,
                                  .scales = b->scales,
                                  .topk_idx = known ? NULL : b->topk_idx,
                                  .topk_weights = in->weighted && !known ? b->topk_weights : NULL};
    return tokens;
}

static weft_experts_rows rows_arg(const struct instance *in, const struct buffers *b, bool known)
{
    weft_experts_rows rows = {.size = sizeof rows,
                              .x = in->in_place ? NULL : b->rows_x,
                              .scales = in->in_place ? NULL : b->rows_scales,
                              .topk_idx = known ? NULL : b->rows_idx,
                              .topk_weights = known ? NULL : b->rows_weights,
                              .n_rows = b->n_rows,
                              .n_tokens = b->n_tokens};
    return rows;
}

/* one: in one call. */
static void dispatch(weft_experts *experts, const weft_experts_rows *rows, void *layout,
                     const weft_experts_tokens *tokens, bool one, weft_stream stream)
{
    if (one) {
        OK(weft_experts_dispatch_on_stream(experts, rows, layout, tokens, stream));
        return;
    }
    OK(weft_experts_dispatch_send_on_stream(experts, layout, tokens, stream));
    OK(weft_experts_dispatch_receive_on_stream(experts, rows, layout, stream));
}

/* Results, with weights unless `weights` is NULL, and where their sums go. */
struct returned {
    const void *results;
    const float *weights;
    void *y;
    float *sums;
};

static void combine(weft_experts *experts, struct returned r, const void *layout, bool one,
                    weft_stream stream)
{
    if (one) {
        OK(weft_experts_combine_on_stream(experts, r.y, r.sums, r.results, r.weights, layout,
                                          stream));
        return;
    }
    OK(weft_experts_combine_send_on_stream(experts, r.results, r.weights, layout, stream));
    OK(weft_experts_combine_receive_on_stream(experts, r.y, r.sums, layout, stream));
}

/* Whether this PE does call `i` of a round in one call. */
static bool draws_one(const struct instance *in, int round, uint64_t i)
{
    return draw(in, DRAW_FORM, (uint64_t)round << 8 | i, (uint64_t)in->self) & 1;
}

static void pass(const struct instance *in, const struct buffers *b, weft_experts *experts,
                 int round, weft_stream stream)
{
    bool known = round > 0, weights = round != 1;
    const weft_experts_tokens tokens = tokens_arg(in, b, known);
    const weft_experts_rows rows = rows_arg(in, b, known);
    write_tokens(in, b, round);
    /* Several in a row: a fast member must not overwrite what a slow one still reads. */
    for (uint64_t i = 0; i <= draw(in, DRAW_SHAPE, 77, (unsigned)round) % 3; i++)
        dispatch(experts, &rows, b->layout, &tokens, draws_one(in, round, i), stream);
    OK(weft_stream_synchronize(stream));
    uint32_t n = check_received(in, b, experts, round);
    void *x;
    float *scales;
    OK(weft_experts_received(experts, &x, &scales));
    write_results(in, b, in->results_in_place ? x : b->results, n, DRAW_RESULT);
    const struct returned returned = {.results = in->results_in_place ? NULL : b->results,
                                      .weights = weights ? b->weights : NULL,
                                      .y = b->y,
                                      .sums = weights ? b->sums : NULL};
    for (uint64_t i = 0; i <= draw(in, DRAW_SHAPE, 78, (unsigned)round) % 2; i++)
        combine(experts, returned, b->layout, draws_one(in, round, 16 + i), stream);
    OK(weft_stream_synchronize(stream));
    check_combined(in, b, b->y, weights, DRAW_RESULT);
    weft_status status = weft_experts_check(experts);
    if (!in->attr.rows)
        OK(status);
}

static uint32_t between(const struct instance *in, uint64_t which, uint32_t least, uint32_t most)
{
    return least + (uint32_t)(draw(in, DRAW_SHAPE, which, 0) % (most - least + 1));
}

/* Finds the node of each PE. */
static void find_nodes(void)
{
    int *all = alloc(job, (size_t)n_pes * sizeof *all);
    CHECK(n_pes <= PES_MOST);
    node_of[me] = weft_team_translate(weft_team_node(job), 0, weft_team_world(job));
    for (int pe = 0; pe < n_pes; pe++)
        OK(weft_put(ctx, all + me, &node_of[me], sizeof *all, pe));
    barrier();
    memcpy(node_of, all, (size_t)n_pes * sizeof *all);
    OK(weft_free(job, all));
}

/* Sets what follows from the team. */
static void set_team(struct instance *in, weft_team *team)
{
    int pes[PES_MOST], nodes = 0;
    in->members = weft_team_n_pes(team);
    in->self = weft_team_my_pe(team);
    for (int i = 0; i < in->members; i++) {
        int before = 0;
        pes[i] = weft_team_translate(team, i, weft_team_world(job));
        while (node_of[pes[before]] != node_of[pes[i]])
            before++;
        in->node[i] = before == i ? nodes++ : in->node[before];
    }
}

/* All members draw the same. */
static struct instance draw_instance(uint64_t seed, weft_team *team)
{
    int members = weft_team_n_pes(team);
    static const weft_type types[] = {WEFT_BFLOAT16, WEFT_HALF, WEFT_FLOAT, WEFT_FP8_E4M3,
                                      WEFT_FP8_E5M2};
    struct instance in = {.seed = seed};
    set_team(&in, team);
    weft_type type = types[between(&in, 1, 0, 4)], result_type = types[between(&in, 2, 0, 2)];
    uint32_t experts = between(&in, 3, 1, 3 * (uint32_t)members + 2);
    uint32_t top = between(&in, 4, 1, experts < 11 ? experts : 11);
    in.attr = (weft_experts_attr){.size = sizeof in.attr,
                                  .tokens = between(&in, 5, 1, 70),
                                  .hidden = 16 * between(&in, 6, 1, 40),
                                  .experts = experts,
                                  .top = top,
                                  .scales = 4 * between(&in, 7, 0, 3),
                                  .type = type,
                                  .result_type = result_type,
                                  .sms = between(&in, 20, 0, 2)};
    in.weighted = between(&in, 8, 0, 2) > 0;
    in.in_place = between(&in, 9, 0, 1);
    in.results_in_place = bytes_of(type) == bytes_of(result_type) && between(&in, 10, 0, 1);
    return in;
}

/* Blocks that a kernel may have; 0: any number. On simt alone. */
static unsigned sms_most;

weft_status __real_weft_simt_launch(const weft_simt_launch_attr *attr, weft_simt_stream *stream);
weft_status __wrap_weft_simt_launch(const weft_simt_launch_attr *attr, weft_simt_stream *stream);
weft_status __wrap_weft_simt_launch(const weft_simt_launch_attr *attr, weft_simt_stream *stream)
{
    static const char ours[] = "weft_experts_";
    bool moves = strncmp(attr->name, ours, strlen(ours)) == 0 && !strstr(attr->name, "place");
    CHECK_MSG(!sms_most || !moves || attr->grid[0] <= sms_most, "%s has %u blocks, more than %u",
              attr->name, attr->grid[0], sms_most);
    return __real_weft_simt_launch(attr, stream);
}

static void run(struct instance in, weft_team *team, weft_stream stream)
{
    weft_experts *experts;
    sms_most = in.attr.sms;
    OK(weft_experts_create(team, &in.attr, &experts));
    struct buffers b = make_buffers(&in, experts);
    for (int round = 0; round < (in.large ? 2 : ROUNDS); round++)
        pass(&in, &b, experts, round, stream);
    check_guards(&in, &b);
    OK(weft_experts_destroy(experts));
    free_buffers(&b);
}

static void run_all(int n)
{
    weft_stream stream;
    weft_team *halves[2], *half = NULL;
    OK(weft_stream_create(&stream));
    for (int i = 0; i < 2 && n_pes % 2 == 0; i++) { /* even PEs, odd PEs */
        OK(weft_team_split_strided(weft_team_world(job), i, 2, n_pes / 2, &halves[i]));
        half = halves[i] ? halves[i] : half;
    }
    for (int i = 0; i < n; i++) {
        run(draw_instance((uint64_t)i, weft_team_world(job)), weft_team_world(job), stream);
        if (half)
            run(draw_instance((uint64_t)i + 1000, half), half, stream);
    }
    if (half)
        OK(weft_team_destroy(half));
    OK(weft_stream_destroy(stream));
}

/* Results of 16 MiB, which return in parts; some PEs have fewer tokens than parts, or none. */
static const struct instance large = {.seed = 3,
                                      .attr = {.size = sizeof(weft_experts_attr),
                                               .tokens = 1024,
                                               .hidden = 4096,
                                               .experts = 5,
                                               .top = 2,
                                               .type = WEFT_BFLOAT16,
                                               .result_type = WEFT_FLOAT},
                                      .large = true};

static void run_large(void)
{
    struct instance in = large;
    weft_stream stream;
    set_team(&in, weft_team_world(job));
    OK(weft_stream_create(&stream));
    run(in, weft_team_world(job), stream);
    OK(weft_stream_destroy(stream));
}

static void run_dropped(void)
{
    weft_stream stream;
    OK(weft_stream_create(&stream));
    for (uint64_t i = 0; i < rounds_or(6); i++) {
        struct instance in = draw_instance(i + 2000, weft_team_world(job));
        in.attr.rows = between(&in, 11, 1, in.attr.tokens);
        run(in, weft_team_world(job), stream);
    }
    OK(weft_stream_destroy(stream));
}

static weft_experts_size sizes_of(uint32_t top, uint32_t node_members)
{
    const weft_experts_attr attr = {.size = sizeof attr,
                                    .tokens = 2000, /* no short form */
                                    .hidden = 64,
                                    .experts = 8,
                                    .top = top,
                                    .type = WEFT_BFLOAT16,
                                    .result_type = WEFT_BFLOAT16,
                                    .node_members = node_members};
    weft_experts_size size, made;
    weft_experts *experts;
    OK(weft_experts_sizes(n_pes, &attr, &size));
    OK(weft_experts_create(weft_team_world(job), &attr, &experts));
    OK(weft_experts_query(experts, &made));
    OK(weft_experts_destroy(experts));
    CHECK_MSG(made.layout <= size.layout, "%zu bytes of %zu", made.layout, size.layout);
    /* The node of this PE, and so all but the last one, is full. */
    if (me == 0 && node_members == (uint32_t)weft_team_n_pes(weft_team_node(job)))
        CHECK_MSG(made.symmetric == size.symmetric && made.relays == size.relays,
                  "%zu bytes and not %zu", made.symmetric, size.symmetric);
    return size;
}

/* Relays take memory, and are chosen where they save time. */
static void run_sizes(void)
{
    for (uint32_t top = 1; top < 8; top++) {
        size_t one_node = sizes_of(top, 0).symmetric;
        weft_experts_size two = sizes_of(top, 2);
        bool relays = n_pes > 2 && top >= 3;
        CHECK_MSG(two.relays == relays, "top %u: relays %d", top, two.relays);
        CHECK_MSG((two.symmetric > one_node) == relays, "top %u: %zu and %zu bytes", top, one_node,
                  two.symmetric);
    }
    FAILS(weft_experts_query(NULL, NULL), WEFT_ERR_ARGUMENT, "experts is null");
}

/* Bytes that this process has sent by TCP, which is used between nodes alone. */
static uint64_t bytes_crossed(void)
{
    uint64_t sent = 0;
    for (int fd = 0; fd < 1024; fd++) {
        struct tcp_info info = {0};
        socklen_t bytes = sizeof info;
        if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0)
            sent += info.tcpi_bytes_sent;
    }
    return sent;
}

/* Each token goes to all members: dispatch, and then combine, send each token's bytes to other
 * nodes `crossings` times, and little more. */
static void run_crossed(void)
{
    struct instance in = {.seed = 1};
    weft_stream stream;
    weft_experts *experts;
    uint32_t tokens = 64, hidden = 4096, n = (uint32_t)n_pes;
    in.attr = (weft_experts_attr){.size = sizeof in.attr,
                                  .tokens = tokens,
                                  .hidden = hidden,
                                  .experts = n,
                                  .top = n,
                                  .type = WEFT_FLOAT,
                                  .result_type = WEFT_FLOAT};
    set_team(&in, weft_team_world(job));
    OK(weft_experts_create(weft_team_world(job), &in.attr, &experts));
    struct buffers b = make_buffers(&in, experts);
    int64_t *idx = malloc((size_t)tokens * n * sizeof *idx);
    for (uint32_t i = 0; i < tokens * n; i++)
        idx[i] = i % n;
    store(b.topk_idx, idx, (size_t)tokens * n * sizeof *idx);
    OK(weft_stream_create(&stream));
    const weft_experts_tokens sent = {
        .size = sizeof sent, .tokens = tokens, .x = b.x, .topk_idx = b.topk_idx};
    const weft_experts_rows rows = {.size = sizeof rows};
    uint64_t begun = bytes_crossed();
    dispatch(experts, &rows, b.layout, &sent, true, stream);
    OK(weft_stream_synchronize(stream));
    uint64_t dispatched = bytes_crossed();
    combine(experts, (struct returned){.y = b.y}, b.layout, true, stream);
    OK(weft_stream_synchronize(stream));
    double all = (double)tokens * hidden * sizeof(float);
    double there = (double)(dispatched - begun) / all;
    double back = (double)(bytes_crossed() - dispatched) / all;
    CHECK_MSG(there >= number_given && there < number_given * 1.1, "bytes crossed %.3f times",
              there);
    CHECK_MSG(back >= number_given && back < number_given * 1.1, "results crossed %.3f times",
              back);
    OK(weft_experts_destroy(experts));
    OK(weft_stream_destroy(stream));
    free(idx);
    free_buffers(&b);
}

/* ------------------------------------------------------------------------------ late members */

static void sleep_a_while(void *arg)
{
    (void)arg;
    usleep(20000);
}

/* A member still reads its rows in place when the others dispatch again, with a known layout. */
static void run_late(void)
{
    struct instance in = draw_instance(5, weft_team_world(job));
    weft_experts *experts;
    weft_stream stream;
    void *x;
    float *scales;
    in.in_place = true;
    OK(weft_stream_create(&stream));
    OK(weft_experts_create(weft_team_world(job), &in.attr, &experts));
    struct buffers b = make_buffers(&in, experts);
    OK(weft_experts_received(experts, &x, &scales));
    weft_experts_tokens tokens = tokens_arg(&in, &b, false);
    weft_experts_rows rows = rows_arg(&in, &b, false);
    char *later = room(in.attr.tokens * in.attr.hidden * bytes_of(in.attr.type));
    write_tokens(&in, &b, 1);
    OK(weft_get(ctx, later, b.x, in.attr.tokens * in.attr.hidden * bytes_of(in.attr.type), me));
    write_tokens(&in, &b, 0);
    dispatch(experts, &rows, b.layout, &tokens, true, stream);
    if (me == 0)
        OK(weft_stream_host_call(stream, sleep_a_while, NULL));
    OK(weft_put_on_stream(ctx, b.rows_x, x,
                          most_rows(&in) * in.attr.hidden * bytes_of(in.attr.type), me, stream));
    if (in.attr.scales)
        OK(weft_put_on_stream(ctx, b.rows_scales, scales, most_rows(&in) * in.attr.scales * 4, me,
                              stream));
    tokens.known = 1;
    tokens.x = later;
    rows = rows_arg(&in, &b, true);
    dispatch(experts, &rows, b.layout, &tokens, me % 2 == 0, stream);
    OK(weft_stream_synchronize(stream));
    in.in_place = false;
    check_received(&in, &b, experts, 0);
    OK(weft_experts_destroy(experts));
    OK(weft_stream_destroy(stream));
}

/* Two combines in a row with other results, in one part. Member 0 adds up far more than the
 * others. */
static void run_twice(void)
{
    struct instance in = large;
    in.attr.tokens = 1000;
    weft_experts *experts;
    weft_stream stream;
    set_team(&in, weft_team_world(job));
    OK(weft_experts_create(weft_team_world(job), &in.attr, &experts));
    struct buffers b = make_buffers(&in, experts);
    char *other_results = room(most_rows(&in) * in.attr.hidden * 4);
    char *other_y = room(in.attr.tokens * in.attr.hidden * 4);
    OK(weft_stream_create(&stream));
    const weft_experts_tokens tokens = tokens_arg(&in, &b, false);
    const weft_experts_rows rows = rows_arg(&in, &b, false);
    write_tokens(&in, &b, 0);
    dispatch(experts, &rows, b.layout, &tokens, false, stream);
    OK(weft_stream_synchronize(stream));
    uint32_t n = check_received(&in, &b, experts, 0);
    write_results(&in, &b, other_results, n, DRAW_OTHER_RESULT);
    write_results(&in, &b, b.results, n, DRAW_RESULT);
    barrier();
    combine(experts, (struct returned){.results = b.results, .y = b.y}, b.layout, me == 0, stream);
    combine(experts, (struct returned){.results = other_results, .y = other_y}, b.layout, me > 0,
            stream);
    OK(weft_stream_synchronize(stream));
    check_combined(&in, &b, b.y, false, DRAW_RESULT);
    check_combined(&in, &b, other_y, false, DRAW_OTHER_RESULT);
    OK(weft_experts_destroy(experts));
    OK(weft_stream_destroy(stream));
}

/* Dispatches and combines in a row with a member that is late at its first receive, and for which
 * the others need not wait to get their own data: only it has tokens, or only it gets rows. */
enum {
    AHEAD = 4,
    AHEAD_TOKENS = 6,
    AHEAD_HIDDEN = 64,
    AHEAD_BYTES = AHEAD_TOKENS * AHEAD_HIDDEN * 2
};

static uint16_t ahead_number(int round, int from, int i)
{
    return (uint16_t)(0x3f80 + 1000 * round + 100 * from + i / AHEAD_HIDDEN);
}

static void fill_ahead(char *to, int round, int from)
{
    uint16_t x[AHEAD_TOKENS * AHEAD_HIDDEN];
    for (int i = 0; i < AHEAD_TOKENS * AHEAD_HIDDEN; i++)
        x[i] = ahead_number(round, from, i);
    store(to, x, sizeof x);
}

static void check_ahead(const char *at, int round, int from)
{
    uint16_t x[AHEAD_TOKENS * AHEAD_HIDDEN];
    fetch(x, at, sizeof x);
    for (int i = 0; i < AHEAD_TOKENS * AHEAD_HIDDEN; i++)
        CHECK_MSG(x[i] == ahead_number(round, from, i), "round %d, from %d, row %d: %x, not %x",
                  round, from, i / AHEAD_HIDDEN, x[i], ahead_number(round, from, i));
}

static void ahead_dispatch(weft_experts *experts, void *layout, const weft_experts_tokens *tokens,
                           char *to, bool late, weft_stream stream)
{
    const weft_experts_rows rows = {.size = sizeof rows, .x = to};
    if (!late) {
        dispatch(experts, &rows, layout, tokens, in_one_call, stream);
        return;
    }
    OK(weft_experts_dispatch_send_on_stream(experts, layout, tokens, stream));
    OK(weft_stream_host_call(stream, sleep_a_while, NULL));
    OK(weft_experts_dispatch_receive_on_stream(experts, &rows, layout, stream));
}

static void ahead_combine(weft_experts *experts, const void *layout, const char *results, char *to,
                          bool late, weft_stream stream)
{
    if (!late) {
        combine(experts, (struct returned){.results = results, .y = to}, layout, in_one_call,
                stream);
        return;
    }
    OK(weft_experts_combine_send_on_stream(experts, results, NULL, layout, stream));
    OK(weft_stream_host_call(stream, sleep_a_while, NULL));
    OK(weft_experts_combine_receive_on_stream(experts, to, NULL, layout, stream));
}

static void run_rounds(void)
{
    const weft_experts_attr attr = {.size = sizeof attr,
                                    .tokens = AHEAD_TOKENS,
                                    .hidden = AHEAD_HIDDEN,
                                    .experts = (uint32_t)n_pes,
                                    .top = 1,
                                    .type = WEFT_BFLOAT16,
                                    .result_type = WEFT_BFLOAT16};
    size_t all = (size_t)n_pes * AHEAD_BYTES;
    weft_experts *experts;
    weft_experts_size size;
    weft_stream stream;
    char *from[AHEAD], *to[AHEAD];
    OK(weft_stream_create(&stream));
    OK(weft_experts_sizes(n_pes, &attr, &size));
    OK(weft_experts_create(weft_team_world(job), &attr, &experts));
    void *layout = symmetric(size.layout);
    int64_t *idx = symmetric(AHEAD_TOKENS * 8), chosen[AHEAD_TOKENS];
    for (int i = 0; i < AHEAD; i++) {
        from[i] = symmetric(all);
        to[i] = symmetric(all);
        fill_ahead(from[i], i, me);
    }
    weft_experts_tokens tokens = {.size = sizeof tokens, .x = from[0], .topk_idx = idx};
    for (int only_rows = 1; only_rows >= 0; only_rows--) {
        for (int i = 0; i < AHEAD_TOKENS; i++)
            chosen[i] = only_rows ? 0 : n_pes - 1;
        store(idx, chosen, sizeof chosen);
        tokens.tokens = (me == 0) != only_rows ? AHEAD_TOKENS : 0;
        tokens.known = 0;
        ahead_dispatch(experts, layout, &tokens, to[0], false, stream);
        OK(weft_stream_synchronize(stream));
        barrier();
        tokens.known = 1;
        for (int i = 0; i < AHEAD && only_rows; i++) {
            tokens.x = from[i];
            ahead_dispatch(experts, layout, &tokens, to[i], me == 0 && i == 0, stream);
        }
        for (int i = 0; i < AHEAD && !only_rows; i++)
            ahead_combine(experts, layout, from[i], to[i], me == 0 && i == 0, stream);
        OK(weft_stream_synchronize(stream));
        for (int i = 0; i < AHEAD && me == 0; i++)
            for (int pe = 1; pe < n_pes && (only_rows || pe == 1); pe++)
                check_ahead(to[i] + (pe - 1) * AHEAD_BYTES, i, only_rows ? pe : n_pes - 1);
        barrier();
    }
    OK(weft_experts_destroy(experts));
    OK(weft_stream_destroy(stream));
}

/* ------------------------------------------------------------------------------- wrong use */

static const weft_experts_attr small = {.size = sizeof small,
                                        .tokens = 6,
                                        .hidden = 64,
                                        .experts = 5,
                                        .top = 2,
                                        .type = WEFT_BFLOAT16,
                                        .result_type = WEFT_BFLOAT16};

struct little {
    weft_experts *experts;
    void *layout, *x, *y;
    int64_t *idx, *rows_idx;
    char *rows_x; /* of attr.rows rows with a guard; NULL: rows stay in the object's memory */
};

static struct little make_little(weft_experts_attr attr)
{
    struct little l;
    weft_experts_size size;
    OK(weft_experts_sizes(n_pes, &attr, &size));
    OK(weft_experts_create(weft_team_world(job), &attr, &l.experts));
    l.layout = symmetric(size.layout);
    l.x = symmetric(6 * 64 * 2);
    l.y = symmetric(6 * 64 * 2);
    l.idx = symmetric(6 * 2 * 8);
    l.rows_idx = symmetric((size_t)(6 * n_pes) * 2 * 8);
    l.rows_x = NULL;
    return l;
}

/* Token t has the numbers t + 1. */
static void send_little(struct little *l, uint32_t tokens, int known, int64_t expert)
{
    const weft_experts_tokens t = {
        .size = sizeof t, .tokens = tokens, .known = known, .x = l->x, .topk_idx = l->idx};
    const weft_experts_rows rows = {
        .size = sizeof rows, .x = l->rows_x, .topk_idx = known ? NULL : l->rows_idx};
    int64_t idx[12];
    uint16_t x[6 * 64];
    for (int i = 0; i < 12; i++)
        idx[i] = i == 7 ? expert : i % 2;
    for (int i = 0; i < 6 * 64; i++)
        x[i] = (uint16_t)(i / 64 + 1);
    store(l->idx, idx, sizeof idx);
    store(l->x, x, sizeof x);
    dispatch(l->experts, &rows, l->layout, &t, in_one_call, NULL);
    OK(weft_stream_synchronize(NULL));
    barrier();
}

/* Checks the first rows of PE 0, which get the tokens of PE 0. */
static void check_little(struct little *l, uint32_t rows)
{
    void *x;
    float *scales;
    uint16_t first[6 * 64];
    int64_t idx[6 * 2];
    OK(weft_experts_received(l->experts, &x, &scales));
    fetch(first, x, rows * 64 * sizeof *first);
    fetch(idx, l->rows_idx, rows * 2 * sizeof *idx);
    for (uint32_t i = 0; i < rows * 64 && me == 0; i++)
        CHECK_MSG(first[i] == i / 64 + 1, "row %u has %u", i / 64, first[i]);
    for (uint32_t i = 0; i < rows * 2 && me == 0; i++)
        CHECK_MSG(idx[i] == i % 2, "row %u has expert %" PRId64, i / 2, idx[i]);
}

static void wrong_rows(void)
{
    weft_experts_attr attr = small;
    char text[80];
    attr.rows = 4;
    struct little l = make_little(attr);
    l.rows_x = room(4 * 64 * 2);
    send_little(&l, 6, 0, 1); /* experts 0 and 1, which PE 0 owns */
    check_guard(l.rows_x, 4 * 64 * 2, "rows");
    snprintf(text, sizeof text, "%d rows were sent to PE 0, and rows is 4", 6 * n_pes);
    if (me == 0)
        FAILS(weft_experts_check(l.experts), WEFT_ERR_RANGE, text);
    OK(weft_experts_check(l.experts));
    check_little(&l, 4);
    send_little(&l, 1, 0, 1);
    OK(weft_experts_check(l.experts));
    check_little(&l, 1);
}

static void absent(void)
{
    struct little l = make_little(small);
    const weft_experts_tokens t = {.size = sizeof t, .tokens = 4, .x = l.x, .topk_idx = l.idx};
    const weft_experts_rows rows = {.size = sizeof rows};
    barrier();
    if (me > 0) {
        sleep(2); /* alive, but does not call */
        _exit(0);
    }
    dispatch(l.experts, &rows, l.layout, &t, number_given == 1, NULL);
    FAILS(weft_stream_synchronize(NULL), WEFT_ERR_TIMEOUT, "for PE 1");
    fprintf(stderr, "%s\n", weft_last_error());
    _exit(0);
}

static void wrong_expert(void)
{
    struct little l = make_little(small);
    send_little(&l, 6, 0, me == n_pes - 1 ? 5 : 1);
    if (me == n_pes - 1)
        FAILS(weft_experts_check(l.experts), WEFT_ERR_RANGE,
              "topk_idx of token 3 names expert 5, and the experts are 0 to 4");
    OK(weft_experts_check(l.experts));
    send_little(&l, 6, 0, -2);
    FAILS(weft_experts_check(l.experts), WEFT_ERR_RANGE, "token 3 names expert -2");
}

static void wrong_tokens(void)
{
    struct little l = make_little(small);
    send_little(&l, 5, 0, 1);
    send_little(&l, 5, 1, 1);
    OK(weft_experts_check(l.experts));
    send_little(&l, 6, 1, 1);
    FAILS(weft_experts_check(l.experts), WEFT_ERR_RANGE,
          "a dispatch of 6 tokens had a known layout, which has 5 tokens");
    check_little(&l, 5);
}

static void wrong_attr(void)
{
    weft_experts *experts;
    weft_experts_size size;
    weft_experts_attr a;
#define WRONG(change, text)                                                                        \
    do {                                                                                           \
        a = small;                                                                                 \
        change;                                                                                    \
        FAILS(weft_experts_create(weft_team_world(job), &a, &experts), WEFT_ERR_ARGUMENT, text);   \
        FAILS(weft_experts_sizes(n_pes, &a, &size), WEFT_ERR_ARGUMENT, text);                      \
    } while (0)
    WRONG(a.size = 3, "attr->size is 3, this library's is ");
    WRONG(a.tokens = 0, "tokens is 0; from 1 to 16777216 are allowed");
    WRONG(a.tokens = 16777217, "tokens is 16777217; from 1 to 16777216");
    WRONG(a.hidden = 0, "hidden is 0; from 1");
    WRONG(a.hidden = 12, "hidden is 12; tokens of 24 and results of 24 bytes are not multiples");
    WRONG(a.experts = 0, "experts is 0; from 1 to ");
    WRONG(a.experts = 1024 * 3 + 1, "experts is 3073; from 1 to ");
    WRONG(a.top = 0, "top is 0; from 1 to 5 are allowed");
    WRONG(a.top = 6, "top is 6; from 1 to 5 are allowed");
    WRONG(a.scales = 6, "scales is 6; a multiple of 4 is needed");
    WRONG(a.type = WEFT_INT32,
          "type 2; use WEFT_BFLOAT16, WEFT_HALF, WEFT_FLOAT, WEFT_FP8_E4M3 or");
    WRONG(a.result_type = WEFT_FP8_E4M3, "result_type 102; use WEFT_BFLOAT16, WEFT_HALF or ");
    FAILS(weft_experts_sizes(0, &small, &size), WEFT_ERR_ARGUMENT, "members is 0; from 1 to 1024");
    FAILS(weft_experts_sizes(1025, &small, &size), WEFT_ERR_UNSUPPORTED,
          "1025 members; at most 1024");
}

static void wrong_order(void)
{
    struct little l = make_little(small);
    const weft_experts_tokens t = {.size = sizeof t, .tokens = 4, .x = l.x, .topk_idx = l.idx};
    const weft_experts_rows rows = {.size = sizeof rows};
    void *other = (char *)l.layout + 16;
    uint32_t first, n;
    FAILS(weft_experts_dispatch_receive_on_stream(l.experts, &rows, l.layout, NULL),
          WEFT_ERR_ARGUMENT, "send and receive alternate; no transfer is in flight");
    OK(weft_experts_dispatch_send_on_stream(l.experts, l.layout, &t, NULL));
    FAILS(weft_experts_dispatch_send_on_stream(l.experts, l.layout, &t, NULL), WEFT_ERR_ARGUMENT,
          "a dispatch is in flight");
    FAILS(weft_experts_dispatch_on_stream(l.experts, &rows, l.layout, &t, NULL), WEFT_ERR_ARGUMENT,
          "a dispatch is in flight");
    FAILS(weft_experts_combine_send_on_stream(l.experts, NULL, NULL, l.layout, NULL),
          WEFT_ERR_ARGUMENT, "a dispatch is in flight");
    OK(weft_experts_dispatch_receive_on_stream(l.experts, &rows, l.layout, NULL));
    FAILS(weft_experts_combine_receive_on_stream(l.experts, l.y, NULL, l.layout, NULL),
          WEFT_ERR_ARGUMENT, "no transfer is in flight");
    OK(weft_experts_combine_send_on_stream(l.experts, NULL, NULL, l.layout, NULL));
    FAILS(weft_experts_combine_receive_on_stream(l.experts, l.y, NULL, other, NULL),
          WEFT_ERR_ARGUMENT, ", and that of the send was ");
    FAILS(weft_experts_combine_receive_on_stream(l.experts, l.y, l.x, l.layout, NULL),
          WEFT_ERR_ARGUMENT, "weights_dst is given, and no weights are returned");
    FAILS(weft_experts_combine_on_stream(l.experts, l.y, NULL, NULL, NULL, l.layout, NULL),
          WEFT_ERR_ARGUMENT, "a combine is in flight");
    OK(weft_experts_combine_receive_on_stream(l.experts, l.y, NULL, l.layout, NULL));
    OK(weft_experts_dispatch_on_stream(l.experts, &rows, l.layout, &t, NULL));
    FAILS(weft_experts_dispatch_receive_on_stream(l.experts, &rows, l.layout, NULL),
          WEFT_ERR_ARGUMENT, "no transfer is in flight");
    OK(weft_experts_combine_on_stream(l.experts, l.y, NULL, NULL, NULL, l.layout, NULL));
    FAILS(weft_experts_combine_receive_on_stream(l.experts, l.y, NULL, l.layout, NULL),
          WEFT_ERR_ARGUMENT, "no transfer is in flight");
    OK(weft_stream_synchronize(NULL));
    FAILS(weft_experts_range(l.experts, n_pes, &first, &n), WEFT_ERR_PE, "the team has");
    barrier();
}

static void wrong_arguments(void)
{
    struct little l = make_little(small);
    weft_experts_tokens t = {.size = sizeof t, .tokens = 7, .x = l.x, .topk_idx = l.idx};
    weft_experts_rows rows = {.size = sizeof rows, .x = (char *)l.x + 8};
    FAILS(weft_experts_dispatch_send_on_stream(NULL, l.layout, &t, NULL), WEFT_ERR_ARGUMENT,
          "experts is null");
    FAILS(weft_experts_dispatch_send_on_stream(l.experts, NULL, &t, NULL), WEFT_ERR_ARGUMENT,
          "layout is null");
    FAILS(weft_experts_dispatch_send_on_stream(l.experts, l.layout, NULL, NULL), WEFT_ERR_ARGUMENT,
          "tokens is null");
    FAILS(weft_experts_dispatch_send_on_stream(l.experts, l.layout, &t, NULL), WEFT_ERR_ARGUMENT,
          "7 tokens, and the object was created for 6");
    t.tokens = 4;
    t.topk_idx = NULL;
    FAILS(weft_experts_dispatch_send_on_stream(l.experts, l.layout, &t, NULL), WEFT_ERR_ARGUMENT,
          "tokens->topk_idx is null");
    t.topk_idx = l.idx;
    t.x = (char *)l.x + 4;
    FAILS(weft_experts_dispatch_send_on_stream(l.experts, l.layout, &t, NULL), WEFT_ERR_ARGUMENT,
          "; a multiple of 16 bytes is needed");
    t.x = l.x;
    OK(weft_experts_dispatch_send_on_stream(l.experts, l.layout, &t, NULL));
    FAILS(weft_experts_dispatch_receive_on_stream(l.experts, &rows, l.layout, NULL),
          WEFT_ERR_ARGUMENT, "; a multiple of 16 bytes is needed");
    rows.x = NULL;
    OK(weft_experts_dispatch_receive_on_stream(l.experts, &rows, l.layout, NULL));
    t.known = 1;
    OK(weft_experts_dispatch_send_on_stream(l.experts, l.layout, &t, NULL));
    rows.topk_idx = l.idx;
    FAILS(weft_experts_dispatch_receive_on_stream(l.experts, &rows, l.layout, NULL),
          WEFT_ERR_ARGUMENT, "topk_idx is not sent with a known layout");
    rows.topk_idx = NULL;
    OK(weft_experts_dispatch_receive_on_stream(l.experts, &rows, l.layout, NULL));
    OK(weft_stream_synchronize(NULL));
    barrier();
}

/* The calls that send and receive check the arguments of both before they start anything. */
static void wrong_arguments_of_one_call(void)
{
    struct little l = make_little(small);
    weft_experts_attr attr = small;
    weft_experts_tokens t = {.size = sizeof t, .tokens = 7, .x = l.x, .topk_idx = l.idx};
    weft_experts_rows rows = {.size = sizeof rows};
    void *odd = (char *)l.y + 8;
    attr.result_type = WEFT_FLOAT;
    struct little wide = make_little(attr);
#define DISPATCH_FAILS(text)                                                                       \
    FAILS(weft_experts_dispatch_on_stream(l.experts, &rows, l.layout, &t, NULL),                   \
          WEFT_ERR_ARGUMENT, text)
#define COMBINE_FAILS(y, sums, results, text)                                                      \
    FAILS(weft_experts_combine_on_stream(l.experts, y, sums, results, NULL, l.layout, NULL),       \
          WEFT_ERR_ARGUMENT, text)
    DISPATCH_FAILS("weft_experts_dispatch_on_stream: 7 tokens, and the object was created for 6");
    t.tokens = 4;
    rows.size = 1;
    DISPATCH_FAILS("rows->size is not this library's sizeof");
    rows = (weft_experts_rows){.size = sizeof rows, .scales = odd};
    DISPATCH_FAILS("scales is 0x");
    t.known = 1;
    rows = (weft_experts_rows){.size = sizeof rows, .topk_idx = l.idx};
    DISPATCH_FAILS("topk_idx is not sent with a known layout");
    t.known = 0;
    rows.topk_idx = NULL;
    dispatch(l.experts, &rows, l.layout, &t, true, NULL);
    COMBINE_FAILS(NULL, NULL, NULL, "weft_experts_combine_on_stream: dst is null");
    COMBINE_FAILS(l.y, l.x, NULL, "weights_dst is given, and no weights are returned");
    COMBINE_FAILS(odd, NULL, NULL, "dst is 0x");
    COMBINE_FAILS(l.y, NULL, odd, "results is 0x");
    FAILS(weft_experts_combine_on_stream(wide.experts, l.y, NULL, NULL, NULL, l.layout, NULL),
          WEFT_ERR_ARGUMENT, "results is null, and a result has 256 bytes where a row has 128");
    combine(l.experts, (struct returned){.y = l.y}, l.layout, true, NULL);
    OK(weft_stream_synchronize(NULL));
    barrier();
}

static void wrong_arguments_of_all(void)
{
    wrong_arguments();
    wrong_arguments_of_one_call();
}

/* Puts this PE on the node of the even PEs or on that of the odd ones, before the job begins: the
 * node is the PE's number divided by the variable. */
static void mix_nodes(void)
{
    char text[16];
    const char *number = getenv("WEFT_PE");
    int pe = number ? atoi(number) : 0;
    snprintf(text, sizeof text, "%d", pe % 2 ? pe : pe + 1);
    setenv("WEFT_TEST_NODE_PES", text, 1);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
        bool again; /* it runs again in the other form */
    } cases[] = {{"large", run_large, false},          {"late", run_late, false},
                 {"twice", run_twice, false},          {"rounds", run_rounds, true},
                 {"dropped", run_dropped, false},      {"sizes", run_sizes, false},
                 {"crossed", run_crossed, false},      {"absent", absent, false},
                 {"rows", wrong_rows, true},           {"expert", wrong_expert, true},
                 {"known_tokens", wrong_tokens, true}, {"attr", wrong_attr, false},
                 {"order", wrong_order, false},        {"null", wrong_arguments_of_all, false}};
    if (argc > 1 && strcmp(argv[1], "mixed") == 0) {
        mix_nodes();
        argc--;
        argv++;
    }
    device_begin();
    find_nodes();
    number_given = argc > 2 ? atoi(argv[2]) : 0;
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++)
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            in_one_call = true;
            if (cases[i].again)
                cases[i].run();
            device_end();
            return 0;
        }
    run_all(argc > 1 ? atoi(argv[1]) : (int)rounds_or(12));
    device_end();
    return 0;
}

#endif
