/* SPDX-License-Identifier: Apache-2.0 */
#include "say.h"
#include "../check.h"

#include <math.h>
#include <string.h>

/* Characters that are given; and the temperature: lower prefers likely characters. */
enum { GIVEN = 8 };
static const double temperature = 0.7;

/* Returns a number from 0 to 1. Source: splitmix64 (G. L. Steele et al., OOPSLA 2014). */
static double uniform(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}

static uint8_t choose_character(const float *logits, uint32_t n, uint64_t *random)
{
    double all = 0, most = -INFINITY;
    uint32_t c = 0;
    for (uint32_t i = 0; i < n; i++)
        most = fmax(most, (double)logits[i]);
    for (uint32_t i = 0; i < n; i++)
        all += exp(((double)logits[i] - most) / temperature);
    for (double left = uniform(random) * all; c + 1 < n; c++) {
        left -= exp(((double)logits[c] - most) / temperature);
        if (left < 0)
            break;
    }
    return (uint8_t)c;
}

static void print(const struct text *text, uint8_t id)
{
    unsigned char letter = text->letters[id];
    putchar(letter >= ' ' || letter == '\n' || letter == '\t' ? letter : '?');
}

/* `seen`: the characters so far, of which the model sees the last ones; then `logits`. Both in the
 * host heap. */
static void generate(weft_job *job, const model_shape *shape, const struct text *text,
                     struct model *model, weft_stream stream, const float *values, uint64_t n,
                     uint8_t *seen, float *logits)
{
    uint32_t count = GIVEN < shape->context ? GIVEN : shape->context;
    uint64_t random = shape->seed;
    CHECK(job, weft_get(weft_default_ctx(job), seen, text->ids, count, weft_my_pe(job)));
    for (uint32_t i = 0; i < count; i++)
        print(text, seen[i]);
    for (uint64_t i = 0; i < n; i++) {
        CHECK(job, model_next(model, values, seen, count, logits));
        CHECK(job, weft_stream_synchronize(stream));
        uint8_t next = choose_character(logits, shape->vocabulary, &random);
        print(text, next);
        if (count == shape->context)
            memmove(seen, seen + 1, --count);
        seen[count++] = next;
    }
    putchar('\n');
}

void say(weft_job *job, const model_shape *shape, const struct text *text, struct model *model,
         weft_stream stream, const float *values, uint64_t n)
{
    void *seen, *logits;
    CHECK(job, weft_alloc(job, WEFT_HOST, shape->context, 0, 0, &seen));
    CHECK(job, weft_alloc(job, WEFT_HOST, shape->vocabulary * sizeof(float), 0, 0, &logits));
    if (weft_my_pe(job) == 0)
        generate(job, shape, text, model, stream, values, n, seen, logits);
    CHECK(job, weft_barrier(weft_team_world(job)));
    CHECK(job, weft_free(job, logits));
    CHECK(job, weft_free(job, seen));
}
