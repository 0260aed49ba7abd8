/* SPDX-License-Identifier: Apache-2.0 */
/* Every wait and test of every type and comparison, on pairs of values that reveal a wrong width or
 * sign: the smallest, the largest, the top bit, all bits. The expected results are computed here in
 * 128 bits. The neighbours of a variable hold other values, which reveals a read beyond it. */
#include "job.h"

#include <stdint.h>

enum { VALUES = 8, ROOM = 12 };

typedef __int128 wide;

static weft_job *job;
static weft_ctx *ctx;

static int holds(wide seen, weft_cmp cmp, wide value)
{
    switch (cmp) {
    case WEFT_EQ:
        return seen == value;
    case WEFT_NE:
        return seen != value;
    case WEFT_GT:
        return seen > value;
    case WEFT_LE:
        return seen <= value;
    case WEFT_LT:
        return seen < value;
    default:
        return seen >= value;
    }
}

static void wrong(const char *what, weft_type type, weft_cmp cmp, uint64_t seen, uint64_t value)
{
    fprintf(stderr, "%s of type %d: is %#llx in relation %d to %#llx?\n", what, (int)type,
            (unsigned long long)seen, (int)cmp, (unsigned long long)value);
    exit(1);
}

struct pair {
    weft_type type;
    size_t width;
    weft_cmp cmp;
    wide seen, value;
    void *variable;     /* one element of an array */
    const void *vector; /* ROOM copies of `value` */
};

/* The test, and the wait if its condition holds. */
static void one(const struct pair *p)
{
    uint64_t value = (uint64_t)p->value;
    int expected = holds(p->seen, p->cmp, p->value), result = -1;
    OK(weft_test(ctx, p->type, p->variable, p->cmp, value, &result));
    if (result != expected)
        wrong("test", p->type, p->cmp, (uint64_t)p->seen, value);
    if (expected)
        OK(weft_wait_until(ctx, p->type, p->variable, p->cmp, value));
}

/* The forms over several variables, of which the status array includes only one. */
static void several(const struct pair *p)
{
    uint64_t value = (uint64_t)p->value;
    int status[3] = {1, 0, 1}, result = -1, result_vector = -1;
    char *first = (char *)p->variable - p->width;
    int expected = holds(p->seen, p->cmp, p->value);
    size_t any, any_vector, some[3], count, count_vector;
    OK(weft_test_all(ctx, p->type, first, 3, status, p->cmp, value, &result));
    OK(weft_test_all_vector(ctx, p->type, first, 3, status, p->cmp, p->vector, &result_vector));
    OK(weft_test_any(ctx, p->type, first, 3, status, p->cmp, value, &any));
    OK(weft_test_any_vector(ctx, p->type, first, 3, status, p->cmp, p->vector, &any_vector));
    OK(weft_test_some(ctx, p->type, first, 3, some, status, p->cmp, value, &count));
    OK(weft_test_some_vector(ctx, p->type, first, 3, some, status, p->cmp, p->vector,
                             &count_vector));
    if (result != expected || result_vector != expected)
        wrong("test_all", p->type, p->cmp, (uint64_t)p->seen, value);
    if (any != (expected ? 1 : WEFT_NONE) || any_vector != any)
        wrong("test_any", p->type, p->cmp, (uint64_t)p->seen, value);
    if (count != (size_t)expected || count_vector != count || (expected && some[0] != 1))
        wrong("test_some", p->type, p->cmp, (uint64_t)p->seen, value);
    if (!expected)
        return;
    OK(weft_wait_until_all(ctx, p->type, first, 3, status, p->cmp, value));
    OK(weft_wait_until_all_vector(ctx, p->type, first, 3, status, p->cmp, p->vector));
    OK(weft_wait_until_any(ctx, p->type, first, 3, status, p->cmp, value, &any));
    OK(weft_wait_until_any_vector(ctx, p->type, first, 3, status, p->cmp, p->vector, &any_vector));
    CHECK(any == 1 && any_vector == 1);
    OK(weft_wait_until_some(ctx, p->type, first, 3, some, status, p->cmp, value, &count));
    CHECK(count == 1 && some[0] == 1);
    OK(weft_wait_until_some_vector(ctx, p->type, first, 3, some, status, p->cmp, p->vector,
                                   &count));
    CHECK(count == 1 && some[0] == 1);
}

#define TYPE_TEST(TYPE, ctype, is_signed)                                                          \
    static void pairs_##TYPE(ctype *room)                                                          \
    {                                                                                              \
        wide top = (wide)1 << (8 * sizeof(ctype) - 1);                                             \
        wide low = is_signed ? -top : 0, high = is_signed ? top - 1 : 2 * top - 1;                 \
        const wide values[VALUES] = {0,    1,       is_signed ? -1 : high - 1,  low,               \
                                     high, low + 1, is_signed ? high - 1 : top, 77};               \
        for (int k = 0; k < VALUES * VALUES * WEFT_CMP_COUNT; k++) {                               \
            ctype vector[ROOM];                                                                    \
            struct pair p = {.type = WEFT_##TYPE, .width = sizeof(ctype), .vector = vector};       \
            p.seen = values[k % VALUES];                                                           \
            p.value = values[k / VALUES % VALUES];                                                 \
            p.cmp = (weft_cmp)(k / VALUES / VALUES);                                               \
            for (int i = 0; i < ROOM; i++) {                                                       \
                room[i] = (ctype)(k % 2 ? ~0ull : 0x5aull);                                        \
                vector[i] = (ctype)p.value;                                                        \
            }                                                                                      \
            p.variable = &room[ROOM / 2];                                                          \
            room[ROOM / 2] = (ctype)p.seen;                                                        \
            one(&p);                                                                               \
            several(&p);                                                                           \
        }                                                                                          \
    }
TYPE_TEST(INT16, int16_t, 1)
TYPE_TEST(INT32, int32_t, 1)
TYPE_TEST(INT64, int64_t, 1)
TYPE_TEST(UINT16, uint16_t, 0)
TYPE_TEST(UINT32, uint32_t, 0)
TYPE_TEST(UINT64, uint64_t, 0)

/* Signals are unsigned. */
static void signals(uint64_t *signal)
{
    static const uint64_t values[] = {0, 1, 1ull << 63, (1ull << 63) - 1, UINT64_MAX};
    uint64_t seen;
    for (int i = 0; i < 5; i++) {
        for (int k = 0; k < 5; k++) {
            for (int cmp = 0; cmp < WEFT_CMP_COUNT; cmp++) {
                *signal = values[i];
                if (!holds(values[i], (weft_cmp)cmp, values[k]))
                    continue;
                OK(weft_signal_wait(ctx, signal, (weft_cmp)cmp, values[k], &seen));
                CHECK(seen == values[i]);
            }
        }
    }
    int me = weft_my_pe(job);
    OK(weft_signal(ctx, signal, UINT64_MAX, WEFT_SIGNAL_SET, me));
    OK(weft_quiet(ctx));
    OK(weft_signal(ctx, signal, 3, WEFT_SIGNAL_ADD, me));
    OK(weft_quiet(ctx));
    OK(weft_signal_fetch(ctx, signal, &seen));
    CHECK(seen == 2);
}

/* The condition of the wait does not hold: the wait reaches its limit, and its message prints the
 * values with the sign of the type. */
static void expiries(int32_t *room)
{
    room[0] = -7;
    FAILS(weft_wait_until(ctx, WEFT_INT32, room, WEFT_GT, (uint64_t)-7), WEFT_ERR_TIMEOUT, "-7");
}

int main(int argc, char **argv)
{
    OK(weft_init(&job, NULL));
    ctx = weft_default_ctx(job);
    void *room = alloc(job, ROOM * 8);
    if (argc > 1 && strcmp(argv[1], "expire") == 0) {
        expiries(room);
        return 0;
    }
    pairs_INT16(room);
    pairs_INT32(room);
    pairs_INT64(room);
    pairs_UINT16(room);
    pairs_UINT32(room);
    pairs_UINT64(room);
    signals(room);
    for (int type = 0; type < WEFT_TYPE_COUNT; type++) {
        int result, waitable = type != WEFT_INT8 && type != WEFT_UINT8 && type <= WEFT_UINT64;
        if (!waitable)
            FAILS(weft_test(ctx, (weft_type)type, room, WEFT_EQ, 0, &result), WEFT_ERR_TYPE,
                  "16, 32 or 64");
    }
    OK(weft_finalize(job));
    return 0;
}
