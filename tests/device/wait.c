/* SPDX-License-Identifier: Apache-2.0 */
/* wait_until and test in all forms, over every type and comparison: the previous PE changes the
 * variables late, while this PE waits. */
#include "device_test.h"

enum { N = 8 };

/* The writer: waits a while, then stores `value` into variable i of PE pe. */
WEFT_DEVICE void change(weft_type type, void *vars, size_t i, uint64_t value, int pe)
{
    for (int turn = 0; turn < 5; turn++)
        weft_dev_nanosleep(20000);
    if (weft_dev_type_width(type) == 8)
        weft_thread_p64((uint64_t *)vars + i, value, pe);
    else if (weft_dev_type_width(type) == 4)
        weft_thread_p32((uint32_t *)vars + i, (uint32_t)value, pe);
    else
        weft_thread_p16((uint16_t *)vars + i, (uint16_t)value, pe);
}

/* Block 1 writes, block 0 waits. */
WEFT_KERNEL(one, (int, scope), (weft_type, type), (weft_cmp, cmp), (void *, vars),
            (uint64_t, value), (uint64_t, then), (int, next), (int *, result))
{
    int status = 99, before = 99;
    if (weft_dev_block_rank() == 1) {
        if (weft_dev_thread_rank() == 0)
            change(type, vars, 3, then, next);
        return;
    }
    if (weft_dev_thread_rank() == 0)
        before = weft_thread_test(type, vars, cmp, value); /* variable 0 never changes */
    const char *var = (const char *)vars + 3 * weft_dev_type_width(type);
    if (scope == WEFT_DEV_BLOCK)
        status = weft_block_wait_until(type, var, cmp, value);
    else if (scope == WEFT_DEV_WARP && weft_dev_warp() == 0)
        status = weft_warp_wait_until(type, var, cmp, value);
    else if (scope == WEFT_DEV_THREAD && weft_dev_thread_rank() == 0)
        status = weft_thread_wait_until(type, var, cmp, value);
    if (weft_dev_thread_rank() == 0) {
        result[0] = status;
        result[1] = before;
        result[2] = weft_thread_test(type, var, cmp, value);
    }
}

enum form { ALL, ALL_VECTOR, ANY, ANY_VECTOR, SOME, SOME_VECTOR, WARP_ALL, BLOCK_ALL, FORMS };

struct several {
    int status[N];
    uint64_t values[N];
    size_t indices[N], count, index;
    int wait, test_before, test_after;
    size_t any_before, any_after, some_before, some_after;
};

/* Variables 2 and 5 change, 5 first. Where all variables must match, `status` excludes the
 * others. */
WEFT_KERNEL(set, (enum form, form), (uint64_t *, vars), (struct several *, s), (int, next))
{
    const weft_type type = WEFT_UINT64;
    size_t ignored[N];
    if (weft_dev_block_rank() == 1) {
        if (weft_dev_thread_rank() == 0) {
            change(type, vars, 5, 12, next);
            change(type, vars, 2, 12, next);
        }
        return;
    }
    int leader = weft_dev_thread_rank() == 0;
    if (form == BLOCK_ALL) {
        int status = weft_block_wait_until_all(type, vars, N, s->status, WEFT_EQ, 12);
        if (leader)
            s->wait = status;
        return;
    }
    if (form == WARP_ALL) {
        if (weft_dev_warp() == 0) {
            int status =
                weft_warp_wait_until_all_vector(type, vars, N, s->status, WEFT_EQ, s->values);
            if (leader)
                s->wait = status;
        }
        return;
    }
    if (!leader)
        return;
    if (form == ALL) {
        s->wait = weft_thread_wait_until_all(type, vars, N, s->status, WEFT_EQ, 12);
        s->test_after = weft_thread_test_all(type, vars, N, s->status, WEFT_EQ, 12);
        s->test_before = weft_thread_test_all(type, vars, N, NULL, WEFT_EQ, 12);
    } else if (form == ALL_VECTOR) {
        s->wait = weft_thread_wait_until_all_vector(type, vars, N, s->status, WEFT_EQ, s->values);
        s->test_after = weft_thread_test_all_vector(type, vars, N, s->status, WEFT_EQ, s->values);
        s->test_before = weft_thread_test_all_vector(type, vars, N, NULL, WEFT_EQ, s->values);
    } else if (form == ANY) {
        s->wait = weft_thread_wait_until_any(type, vars, N, s->status, WEFT_EQ, 12, &s->index);
        s->any_after = weft_thread_test_any(type, vars, N, s->status, WEFT_EQ, 12);
        s->any_before = weft_thread_test_any(type, vars, N, s->status, WEFT_EQ, 77);
    } else if (form == ANY_VECTOR) {
        s->wait = weft_thread_wait_until_any_vector(type, vars, N, s->status, WEFT_EQ, s->values,
                                                    &s->index);
        s->any_after = weft_thread_test_any_vector(type, vars, N, s->status, WEFT_EQ, s->values);
        s->any_before = weft_thread_test_any_vector(type, vars, N, s->status, WEFT_NE, s->values);
    } else if (form == SOME) {
        s->wait = weft_thread_wait_until_some(type, vars, N, s->indices, s->status, WEFT_EQ, 12,
                                              &s->count);
        s->some_after = weft_thread_test_some(type, vars, N, ignored, s->status, WEFT_EQ, 12);
        s->some_before = weft_thread_test_some(type, vars, N, ignored, s->status, WEFT_EQ, 77);
    } else {
        s->wait = weft_thread_wait_until_some_vector(type, vars, N, s->indices, s->status, WEFT_EQ,
                                                     s->values, &s->count);
        s->some_after =
            weft_thread_test_some_vector(type, vars, N, ignored, s->status, WEFT_EQ, s->values);
    }
}

/* All variables are excluded: every form returns at once. */
WEFT_KERNEL(nobody, (uint64_t *, vars), (struct several *, s))
{
    s->wait = weft_thread_wait_until_all(WEFT_UINT64, vars, N, s->status, WEFT_EQ, 99);
    s->wait |= weft_thread_wait_until_any(WEFT_UINT64, vars, N, s->status, WEFT_EQ, 99, &s->index);
    s->wait |= weft_thread_wait_until_some(WEFT_UINT64, vars, N, s->indices, s->status, WEFT_EQ, 99,
                                           &s->count);
    s->test_after = weft_thread_test_all(WEFT_UINT64, vars, 0, NULL, WEFT_EQ, 99);
}

#if WEFT_HOST_CODE

static void every_type(void *vars, int *result)
{
    static const weft_type types[] = {WEFT_INT16,  WEFT_UINT16, WEFT_INT32,
                                      WEFT_UINT32, WEFT_INT64,  WEFT_UINT64};
    /* Compared with 10: the value that satisfies each comparison. Zero, the initial value,
     * satisfies NE, LE and LT. */
    static const uint64_t then[WEFT_CMP_COUNT] = {10, 11, 11, 9, 9, 10};
    static const int zero_meets[WEFT_CMP_COUNT] = {0, 1, 0, 1, 1, 0};
    int next = (me + 1) % n_pes;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int cmp = 0; cmp < WEFT_CMP_COUNT; cmp++)
            for (int scope = 0; scope < 3; scope++) {
                uint64_t zero[N] = {0};
                int seen[3];
                store(vars, zero, sizeof zero);
                barrier();
                LAUNCH(one, 2, 64, 0, NULL, scope, types[t], (weft_cmp)cmp, vars, 10, then[cmp],
                       next, result);
                barrier();
                fetch(seen, result, sizeof seen);
                CHECK(seen[0] == WEFT_OK && seen[1] == zero_meets[cmp] && seen[2] == 1);
            }
    /* Signs matter: -6 < -5 holds only for signed numbers. */
    uint64_t zero[N] = {0};
    int seen[3];
    store(vars, zero, sizeof zero);
    barrier();
    LAUNCH(one, 2, 32, 0, NULL, WEFT_DEV_THREAD, WEFT_INT32, WEFT_LT, vars, (uint64_t)-5,
           (uint64_t)-6, next, result);
    barrier();
    fetch(seen, result, sizeof seen);
    CHECK(seen[0] == WEFT_OK && seen[1] == 0 && seen[2] == 1);
}

static void every_form(uint64_t *vars, struct several *shared)
{
    int next = (me + 1) % n_pes;
    for (int form = 0; form < FORMS; form++) {
        int all = form == ALL || form == ALL_VECTOR || form == WARP_ALL || form == BLOCK_ALL;
        uint64_t zero[N] = {0};
        struct several s = {.wait = 99};
        for (int i = 0; i < N; i++) {
            s.values[i] = 12;
            s.status[i] = all ? i != 2 && i != 5 : i == 0;
        }
        store(vars, zero, sizeof zero);
        store(shared, &s, sizeof s);
        barrier();
        LAUNCH(set, 2, 64, 0, NULL, (enum form)form, vars, shared, next);
        barrier();
        fetch(&s, shared, sizeof s);
        CHECK(s.wait == WEFT_OK);
        if (form == ALL || form == ALL_VECTOR)
            CHECK(s.test_after == 1 && s.test_before == 0);
        if (form == ANY || form == ANY_VECTOR) {
            CHECK(s.index == 5 || s.index == 2);
            CHECK(s.any_after == 5 || s.any_after == 2);
            CHECK(form == ANY ? s.any_before == WEFT_NONE : s.any_before == 1);
        }
        if (form == SOME || form == SOME_VECTOR) {
            CHECK(s.count == 1 || s.count == 2);
            /* The order in which the two values arrive is undefined. */
            CHECK(s.indices[0] == 2 || (s.indices[0] == 5 && s.count == 1));
            CHECK(s.count == 1 || s.indices[1] == 5);
            CHECK(s.some_after >= s.count && s.some_before == 0);
        }
    }
    struct several s = {.wait = 99};
    for (int i = 0; i < N; i++)
        s.status[i] = 1;
    store(shared, &s, sizeof s);
    LAUNCH(nobody, 1, 1, 0, NULL, vars, shared);
    fetch(&s, shared, sizeof s);
    CHECK(s.wait == WEFT_OK && s.index == WEFT_NONE && s.count == 0 && s.test_after == 1);
}

int main(void)
{
    device_begin();
    void *vars = symmetric(N * sizeof(uint64_t));
    every_type(vars, symmetric(3 * sizeof(int)));
    every_form(vars, symmetric(sizeof(struct several)));
    device_end();
    return 0;
}
#endif
