/* SPDX-License-Identifier: Apache-2.0 */
/* The calls on teams: translation of PE numbers, splits by stride and in two dimensions with a slot
 * that is free at all members, and destruction of a team. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/held_locks.h"
#include "tests/unit/ops_job.h"

#include "job/device_state.h"
#include "ops/coll/coll.h"

#include <stdio.h>
#include <stdlib.h>

enum { MEMBERS = 7 };

static char calls[1024];  /* text of all calls of the fakes, in order */
static const char *fails; /* the call that fails; NULL = none */
static int blocks, mallocs_left, gets_left;
static int pes[MEMBERS + 1] = {12, 10, 14, 1, 16, 18, 20, 99};
static uint64_t free_slots[TEAM_SLOT_WORDS], slots_of[MEMBERS][TEAM_SLOT_WORDS];
static struct weft_team made, node;
static void (*patch)(int (*all)[3]);
static struct box_recorded {
    enum box_operation operation;
    uint64_t offset;
} recorded;
static struct weft_ctx contexts[3];

static __attribute__((format(printf, 2, 3))) weft_status called(const char *name,
                                                                const char *format, ...)
{
    size_t used = strlen(calls);
    va_list arguments;
    used += (size_t)snprintf(calls + used, sizeof calls - used, "%s", name);
    va_start(arguments, format);
    used += (size_t)vsnprintf(calls + used, sizeof calls - used, format, arguments);
    va_end(arguments);
    snprintf(calls + used, sizeof calls - used, "; ");
    return fails && !strcmp(fails, name) ? base_fail(WEFT_ERR_SYSTEM, "%s fails", name) : WEFT_OK;
}

weft_status __wrap_coll_sync(struct weft_team *team, enum box_operation operation);
weft_status __wrap_coll_sync(struct weft_team *team, enum box_operation operation)
{
    (void)team;
    return called(operation == BOX_OP_TEAM_SPLIT ? "sync" : "sync_destroy", "%s", "");
}

weft_status __wrap_coll_exchange(struct weft_team *team, enum box_operation operation,
                                 const void *mine, void *all, size_t bytes);
weft_status __wrap_coll_exchange(struct weft_team *team, enum box_operation operation,
                                 const void *mine, void *all, size_t bytes)
{
    assert_true(team == &ops.team && operation == BOX_OP_TEAM_SPLIT && bytes == 3 * sizeof(int));
    for (int i = 0; i < team->n; i++)
        memcpy((char *)all + (size_t)i * bytes, mine, bytes);
    if (patch)
        patch(all);
    return called("exchange", "%s", "");
}

weft_status __wrap_weft_get(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe);
weft_status __wrap_weft_get(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe)
{
    assert_ptr_equal(ctx, &ops.system_ctx);
    assert_ptr_equal(src, free_slots);
    assert_int_equal(bytes, sizeof free_slots);
    memset(dst, 0, bytes);
    for (int i = 0; i < MEMBERS; i++)
        if (pes[i] == pe)
            memcpy(dst, slots_of[i], bytes);
    return gets_left-- ? WEFT_OK : base_fail(WEFT_ERR_PATH, "no get");
}

uint64_t *__wrap_team_free_slots(struct weft_job *job);
uint64_t *__wrap_team_free_slots(struct weft_job *job)
{
    assert_ptr_equal(job, &ops.job);
    return free_slots;
}

weft_status __wrap_team_create(struct weft_job *job, const int *of, int n, int slot,
                               struct weft_team **team);
weft_status __wrap_team_create(struct weft_job *job, const int *of, int n, int slot,
                               struct weft_team **team)
{
    char list[128] = "";
    assert_ptr_equal(job, &ops.job);
    for (int i = 0; i < n; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), " %d", of[i]);
    weft_status status = called("take", " %d:%s", slot, list);
    if (!status)
        *team = &made;
    return status;
}

void __wrap_team_unlink(struct weft_team *team);
void __wrap_team_unlink(struct weft_team *team)
{
    assert_ptr_equal(team, &made);
    called("unlink", "%s", "");
}

void __wrap_team_free(struct weft_team *team);
void __wrap_team_free(struct weft_team *team)
{
    assert_ptr_equal(team, &made);
    called("free", "%s", "");
}

void __wrap_device_team_gone(struct weft_job *job, const struct weft_team *team);
void __wrap_device_team_gone(struct weft_job *job, const struct weft_team *team)
{
    assert_true(job == &ops.job && team == &made);
    called("device_gone", "%s", "");
}

void __wrap_job_gpu_team_gone(struct weft_job *job, const struct weft_team *team);
void __wrap_job_gpu_team_gone(struct weft_job *job, const struct weft_team *team)
{
    assert_true(job == &ops.job && team == &made);
    called("gpu_gone", "%s", "");
}

weft_status __wrap_weft_ctx_destroy(weft_ctx *ctx);
weft_status __wrap_weft_ctx_destroy(weft_ctx *ctx)
{
    assert_true(none_is_held());
    for (struct weft_ctx **at = &ops.job.contexts; *at; at = &(*at)->next)
        if (*at == ctx) {
            *at = ctx->next;
            break;
        }
    return called("ctx_destroy", " %td", ctx - contexts);
}

void __wrap_box_record(struct box *box, enum box_operation operation, int peer, uint64_t offset,
                       uint64_t bytes);
void __wrap_box_record(struct box *box, enum box_operation operation, int peer, uint64_t offset,
                       uint64_t bytes)
{
    (void)box;
    assert_true(peer == -1 && bytes == 0);
    recorded = (struct box_recorded){operation, offset};
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    void *block = mallocs_left-- ? __real_malloc(bytes) : NULL;
    blocks += block != NULL;
    return block;
}

void __real_free(void *block);
void __wrap_free(void *block);
void __wrap_free(void *block)
{
    blocks -= block != NULL;
    __real_free(block);
}

static int set_up(void **state)
{
    (void)state;
    ops_begin();
    calls[0] = 0;
    fails = NULL;
    patch = NULL;
    blocks = 0;
    mallocs_left = gets_left = -1;
    memset(free_slots, 0, sizeof free_slots);
    memset(slots_of, 0xff, sizeof slots_of);
    memset(&made, 0, sizeof made);
    ops.team.n = MEMBERS;
    ops.team.me = 3; /* PE 1 */
    ops.team.pes = pes;
    ops.team.slot = 4;
    ops.job.world = NULL;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(blocks, 0);
    assert_true(none_is_held());
    return 0;
}

/* Checks the status of a call and the text of the calls that it makes. */
#define assert_calls(expected_status, heard, call)                                                 \
    do {                                                                                           \
        calls[0] = 0;                                                                              \
        assert_int_equal(call, expected_status);                                                   \
        assert_string_equal(calls, heard);                                                         \
    } while (0)

static void a_team_tells_its_members(void **state)
{
    (void)state;
    ops.job.world = &ops.team;
    ops.job.node = &node;
    assert_ptr_equal(weft_team_world(&ops.job), &ops.team);
    assert_ptr_equal(weft_team_node(&ops.job), &node);
    assert_null(weft_team_world(NULL));
    assert_null(weft_team_node(NULL));
    assert_int_equal(weft_team_my_pe(&ops.team), 3);
    assert_int_equal(weft_team_n_pes(&ops.team), MEMBERS);
    assert_int_equal(weft_team_my_pe(NULL), -1);
    assert_int_equal(weft_team_n_pes(NULL), -1);
    ops.job.state = JOB_FINALIZED;
    assert_int_equal(weft_team_my_pe(&ops.team), -1);
    assert_int_equal(weft_team_n_pes(&ops.team), -1);
}

static void numbers_are_translated_between_teams(void **state)
{
    (void)state;
    int few[] = {20, 12, 1, 16};
    struct weft_team other = {.job = &ops.job, .n = 3, .pes = few};
    static const int expected[MEMBERS] = {1, -1, -1, 2, -1, -1, 0};
    for (int i = 0; i < MEMBERS; i++)
        assert_int_equal(weft_team_translate(&ops.team, i, &other), expected[i]);
    assert_int_equal(weft_team_translate(&other, 0, &ops.team), 6);
    assert_int_equal(weft_team_translate(&other, 3, &ops.team), -1);
    assert_int_equal(weft_team_translate(&other, -1, &ops.team), -1);
    assert_int_equal(weft_team_translate(NULL, 0, &ops.team), -1);
    assert_int_equal(weft_team_translate(&other, 0, NULL), -1);
    ops.job.world = &ops.team;
    assert_int_equal(weft_team_translate(&other, 0, &ops.team), 20); /* in the world team */
}

static void the_lowest_slot_that_is_free_everywhere_is_taken(void **state)
{
    (void)state;
    struct weft_team *team = NULL;
    memset(slots_of, 0, sizeof slots_of);
    for (int i = 0; i < MEMBERS; i++) {
        slots_of[i][0] = (uint64_t)1 << i;
        slots_of[i][1] = (uint64_t)5 << 40 | (uint64_t)i << 10;
        slots_of[i][TEAM_SLOT_WORDS - 1] = 3;
    }
    assert_calls(WEFT_OK, "sync; sync; take 104: 10 1; sync; ",
                 weft_team_split_strided(&ops.team, 1, 2, 2, &team));
    assert_ptr_equal(team, &made);
    assert_int_equal(recorded.operation, BOX_OP_TEAM_SPLIT);
    assert_int_equal(recorded.offset, 4);
    slots_of[6][1] = 0;
    assert_calls(WEFT_OK, "sync; sync; take 960: 10 1; sync; ",
                 weft_team_split_strided(&ops.team, 1, 2, 2, &team));
    slots_of[0][TEAM_SLOT_WORDS - 1] = 0;
    assert_calls(WEFT_ERR_NO_MEMORY, "sync; sync; ",
                 weft_team_split_strided(&ops.team, 1, 2, 2, &team));
    assert_non_null(strstr(base_last_error(), "all 1024 team slots"));
    assert_null(team);
}

static void a_split_that_fails_says_so(void **state)
{
    (void)state;
    struct weft_team *team = NULL;
    fails = "sync";
    assert_calls(WEFT_ERR_SYSTEM, "sync; ", weft_team_split_strided(&ops.team, 1, 2, 2, &team));
    fails = "take";
    assert_calls(WEFT_ERR_SYSTEM, "sync; sync; take 0: 10 1; sync; ",
                 weft_team_split_strided(&ops.team, 1, 2, 2, &team));
    fails = NULL;
    for (int i = 0; i < MEMBERS; i += 3) {
        gets_left = i;
        assert_calls(WEFT_ERR_PATH, "sync; ", weft_team_split_strided(&ops.team, 1, 2, 2, &team));
        assert_int_equal(gets_left, -1);
    }
    gets_left = -1;
    mallocs_left = 0;
    assert_calls(WEFT_ERR_NO_MEMORY, "", weft_team_split_strided(&ops.team, 1, 2, 2, &team));
    mallocs_left = 0;
    struct weft_team *other = NULL;
    assert_calls(WEFT_ERR_NO_MEMORY, "", weft_team_split_2d(&ops.team, 2, &team, &other));
}

static void strides_lie_within_the_parent(void **state)
{
    (void)state;
    static const struct {
        int start, stride, n;
        weft_status status;
        const char *heard;
    } rows[] = {
        {0, 1, 7, WEFT_OK, "sync; sync; take 0: 12 10 14 1 16 18 20; sync; "},
        {3, 0, 1, WEFT_OK, "sync; sync; take 0: 1; sync; "},
        {6, -3, 3, WEFT_OK, "sync; sync; take 0: 20 1 12; sync; "},
        {0, 2, 2, WEFT_OK, "sync; sync; sync; "}, /* this PE is not a member */
        {6, 1, 1, WEFT_OK, "sync; sync; sync; "},
        {0, 1, 8, WEFT_ERR_ARGUMENT, ""},
        {0, 1, 0, WEFT_ERR_ARGUMENT, ""},
        {-1, 1, 2, WEFT_ERR_ARGUMENT, ""},
        {7, -1, 2, WEFT_ERR_ARGUMENT, ""},
        {7, 1, 1, WEFT_ERR_ARGUMENT, ""},
        {2, -1, 4, WEFT_ERR_ARGUMENT, ""},
        {1, 0, 2, WEFT_ERR_ARGUMENT, ""},
        {1, INT32_MAX, 3, WEFT_ERR_ARGUMENT, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct weft_team *team = &node;
        assert_calls(
            rows[i].status, rows[i].heard,
            weft_team_split_strided(&ops.team, rows[i].start, rows[i].stride, rows[i].n, &team));
        assert_ptr_equal(team, strstr(rows[i].heard, "take") ? &made : NULL);
    }
}

static void rows_and_columns_are_teams(void **state)
{
    (void)state;
    /* 7 members: three rows of 3, 3 and 1. */
    static const struct {
        int me, xrange;
        const char *heard;
    } rows[] = {
        {3, 3, "sync; sync; take 0: 1 16 18; sync; sync; sync; take 0: 12 1 20; sync; "},
        {6, 3, "sync; sync; take 0: 20; sync; sync; sync; take 0: 12 1 20; sync; "},
        {2, 3, "sync; sync; take 0: 12 10 14; sync; sync; sync; take 0: 14 18; sync; "},
        {4, 1, "sync; sync; take 0: 16; sync; sync; sync; take 0: 12 10 14 1 16 18 20; sync; "},
        {4, 99, "sync; sync; take 0: 12 10 14 1 16 18 20; sync; sync; sync; take 0: 16; sync; "},
        {4, 8, "sync; sync; take 0: 12 10 14 1 16 18 20; sync; sync; sync; take 0: 16; sync; "},
        {5, 7, "sync; sync; take 0: 12 10 14 1 16 18 20; sync; sync; sync; take 0: 18; sync; "},
        {6, 6, "sync; sync; take 0: 20; sync; sync; sync; take 0: 12 20; sync; "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct weft_team *x = &node, *y = &node;
        ops.team.me = rows[i].me;
        assert_calls(WEFT_OK, rows[i].heard, weft_team_split_2d(&ops.team, rows[i].xrange, &x, &y));
        assert_true(x == &made && y == &made);
    }
    struct weft_team *x = &node, *y = &node;
    assert_calls(WEFT_ERR_ARGUMENT, "", weft_team_split_2d(&ops.team, 0, &x, &y));
    assert_true(!x && !y);
    fails = "take";
    assert_calls(WEFT_ERR_SYSTEM, "sync; sync; take 0: 20; sync; ",
                 weft_team_split_2d(&ops.team, 6, &x, &y));
}

static void wrong_splits_are_refused(void **state)
{
    (void)state;
    struct weft_team *team = &node, *other = &node;
    assert_calls(WEFT_ERR_ARGUMENT, "", weft_team_split_strided(NULL, 0, 1, 1, &team));
    assert_string_equal(base_last_error(), "weft_team_split_strided: parent is null");
    assert_calls(WEFT_ERR_ARGUMENT, "", weft_team_split_strided(&ops.team, 0, 1, 1, NULL));
    assert_string_equal(base_last_error(), "weft_team_split_strided: the result is null");
    assert_calls(WEFT_ERR_ARGUMENT, "", weft_team_split_2d(&ops.team, 1, NULL, &team));
    assert_calls(WEFT_ERR_ARGUMENT, "", weft_team_split_2d(&ops.team, 1, &team, NULL));
    assert_calls(WEFT_ERR_ARGUMENT, "", weft_team_split_2d(NULL, 1, &team, &other));
    ops.job.state = JOB_FINALIZED;
    assert_calls(WEFT_ERR_FINALIZED, "", weft_team_split_2d(&ops.team, 1, &team, &other));
    assert_calls(WEFT_ERR_FINALIZED, "", weft_team_split_strided(&ops.team, 0, 1, 1, &team));
    assert_ptr_equal(team, &node);
}

static void last_asks_differently(int (*all)[3])
{
    all[MEMBERS - 1][2] = 5;
}

static void checking_mode_compares_splits(void **state)
{
    (void)state;
    struct weft_team *team = NULL, *other = NULL;
    ops.job.checking = true;
    assert_calls(WEFT_OK, "exchange; sync; sync; take 0: 10 1; sync; ",
                 weft_team_split_strided(&ops.team, 1, 2, 2, &team));
    assert_int_equal(weft_team_split_2d(&ops.team, 2, &team, &other), WEFT_OK);
    patch = last_asks_differently;
    assert_calls(WEFT_ERR_MISMATCH, "exchange; ",
                 weft_team_split_strided(&ops.team, 1, 2, 2, &team));
    assert_string_equal(base_last_error(),
                        "weft_team_split_strided: start 1, stride 2, 2 PEs (or xrange) at PE 1; "
                        "start 1, stride 2, 5 at PE 20");
    assert_calls(WEFT_ERR_MISMATCH, "exchange; ", weft_team_split_2d(&ops.team, 2, &team, &other));
    assert_string_equal(base_last_error(),
                        "weft_team_split_2d: start 0, stride 0, 2 PEs (or xrange) at PE 1; start "
                        "0, stride 0, 5 at PE 20");
    /* The members are compared before the arguments are checked. */
    assert_calls(WEFT_ERR_MISMATCH, "exchange; ",
                 weft_team_split_strided(&ops.team, 1, 2, 0, &team));
    fails = "exchange";
    assert_calls(WEFT_ERR_SYSTEM, "exchange; ", weft_team_split_strided(&ops.team, 1, 2, 2, &team));
    mallocs_left = 0;
    assert_calls(WEFT_ERR_NO_MEMORY, "", weft_team_split_strided(&ops.team, 1, 2, 2, &team));
}

static void a_destroyed_team_leaves_its_slot_clean(void **state)
{
    (void)state;
    struct mailbox mailboxes[3];
    memset(mailboxes, 0x77, sizeof mailboxes);
    made = (struct weft_team){
        .job = &ops.job, .n = 2, .slot = 131, .split_off = true, .mailboxes = mailboxes};
    for (int i = 0; i < 3; i++) {
        contexts[i] = ops.ctx;
        contexts[i].team = i == 1 ? &ops.team : &made;
        contexts[i].next = i < 2 ? &contexts[i + 1] : NULL;
    }
    ops.job.contexts = &contexts[0];
    free_slots[2] = 1;
    static const char *const steps[] = {"ctx_destroy", "sync_destroy"};
    static const char *const until[] = {"ctx_destroy 0; ", "ctx_destroy 2; sync_destroy; "};
    for (int i = 0; i < 2; i++) {
        fails = steps[i];
        assert_calls(WEFT_ERR_SYSTEM, until[i], weft_team_destroy(&made));
    }
    contexts[0].next = &contexts[1];
    contexts[1].next = &contexts[2];
    ops.job.contexts = &contexts[0];
    fails = NULL;
    assert_calls(
        WEFT_OK,
        "ctx_destroy 0; ctx_destroy 2; sync_destroy; device_gone; gpu_gone; unlink; free; ",
        weft_team_destroy(&made));
    assert_ptr_equal(ops.job.contexts, &contexts[1]);
    assert_int_equal(free_slots[2], 9);
    assert_int_equal(recorded.operation, BOX_OP_TEAM_DESTROY);
    assert_int_equal(recorded.offset, 131);
    for (size_t i = 0; i < sizeof mailboxes; i++)
        assert_int_equal(((char *)mailboxes)[i], i < 2 * sizeof *mailboxes ? 0 : 0x77);
    assert_calls(WEFT_OK, "", weft_team_destroy(NULL));
    made.split_off = false;
    assert_calls(WEFT_ERR_ARGUMENT, "", weft_team_destroy(&made));
    ops.job.state = JOB_FINALIZED;
    assert_calls(WEFT_ERR_FINALIZED, "", weft_team_destroy(&made));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_team_tells_its_members),
        TEST(numbers_are_translated_between_teams),
        TEST(the_lowest_slot_that_is_free_everywhere_is_taken),
        TEST(a_split_that_fails_says_so),
        TEST(strides_lie_within_the_parent),
        TEST(rows_and_columns_are_teams),
        TEST(wrong_splits_are_refused),
        TEST(checking_mode_compares_splits),
        TEST(a_destroyed_team_leaves_its_slot_clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
