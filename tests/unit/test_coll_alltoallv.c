/* SPDX-License-Identifier: Apache-2.0 */
/* Alltoallv of host memory. Blocks of any size arrive at the offsets that their receivers choose. A
 * block that does not fit is rejected, and all other blocks still arrive. An invalid argument or a
 * failure is reported to the other members. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/members.h"

#include <stdio.h>

enum { FROM = 256, TO = 65536, ROOM = 20000, PES = 4, FILL = 0x5a };

static const struct layout layouts[] = {
    {.n = PES, .node = {0, 0, 0, 0}},
    {.n = PES, .node = {0, 1, 1, 0}, .nodes = true},
    {.n = PES, .node = {0, 1, 2, 3}, .apart = true},
};

static struct {
    int null;           /* the number of the argument of member 2 that is NULL; 0 = none */
    uint64_t less[PES]; /* number of bytes by which member 1 expects less than each member sends */
    uint64_t at[PES];   /* offset at which member 1 expects each block; 0 = the regular offset */
    char refused[256];  /* message of the member whose call is rejected */
    bool arrived[PES];
} test;

/* Sizes between 7 and 1207 bytes, and one empty block. */
static uint64_t bytes_of(int from, int to)
{
    return from == 3 && to == 0 ? 0 : (uint64_t)(7 + 100 * from + 300 * to);
}

static uint64_t sent_at(int from, int to)
{
    return (uint64_t)(5 + from + 1500 * (3 - to));
}

static uint64_t taken_at(int from, int to)
{
    return to == 1 && test.at[from] ? test.at[from] : (uint64_t)(11 + to + 2000 * from);
}

static uint64_t taken(int from, int to)
{
    return bytes_of(from, to) - (to == 1 ? test.less[from] : 0);
}

static char any_byte(int from, int to, uint64_t i)
{
    return (char)(i * 31 + (uint64_t)(from * 57 + to * 91) + (i >> 5));
}

/* Whether a block fits, and is therefore sent. */
static bool fits(int from, int to)
{
    uint64_t at = taken_at(from, to), most = taken(from, to);
    return at <= ROOM && most <= ROOM - at && bytes_of(from, to) <= most;
}

static bool has_arrived(int me)
{
    static char expected[ROOM];
    memset(expected, FILL, sizeof expected);
    for (int from = 0; from < PES; from++)
        for (uint64_t i = 0; i < bytes_of(from, me) && fits(from, me); i++)
            expected[taken_at(from, me) + i] = any_byte(from, me, i);
    return !memcmp(members[me].heap + TO, expected, ROOM) && members[me].heap[TO - 1] == FILL &&
           members[me].heap[TO + ROOM] == FILL;
}

static void body(int me)
{
    struct member *m = &members[me];
    uint64_t words[4][PES];
    const void *arguments[] = {NULL, m->heap + FROM, words[0], words[1], words[2], words[3]};
    for (int i = 0; i < PES; i++) {
        words[0][i] = taken(i, me);
        words[1][i] = taken_at(i, me);
        words[2][i] = bytes_of(me, i);
        words[3][i] = sent_at(me, i);
    }
    if (me == 2 && test.null)
        arguments[test.null] = NULL;
    m->status = weft_alltoallv(&m->team, m->heap + TO, ROOM, arguments[2], arguments[3],
                               arguments[1], arguments[4], arguments[5]);
    test.arrived[me] = crowd.failed < 0 && has_arrived(me);
    if (m->status == WEFT_ERR_RANGE || (me == 2 && test.null))
        snprintf(test.refused, sizeof test.refused, "%s", base_last_error());
    memset(m->heap + FROM, 1, TO / 2);
}

static void begin(int layout)
{
    crowd_begin(&layouts[layout]);
    for (int me = 0; me < PES; me++) {
        memset(members[me].heap + TO - 64, FILL, ROOM + 128);
        for (int to = 0; to < PES; to++)
            for (uint64_t i = 0; i < bytes_of(me, to); i++)
                members[me].heap[FROM + sent_at(me, to) + i] = any_byte(me, to, i);
    }
}

static void blocks_go_where_their_receivers_say(void **state)
{
    (void)state;
    memset(&test, 0, sizeof test);
    for (int layout = 0; layout < 3; layout++) {
        begin(layout);
        crowd_run(body);
        for (int i = 0; i < PES; i++) {
            assert_int_equal(members[i].status, WEFT_OK);
            assert_true(test.arrived[i]);
            assert_int_equal(members[i].reported, 0);
        }
        assert_int_equal(crowd.memory, 0);
    }
}

/* Member 1 lacks space for a block: its size is too small by at least one byte, or the block lies
 * partly or wholly outside its memory. */
static void a_block_that_does_not_fit_keeps_no_other_from_its_place(void **state)
{
    (void)state;
    static const struct {
        int from;
        uint64_t less, at, room;
        bool refused;
    } rows[] = {
        {0, 1, 0, 306, true},        {2, 7, 0, 500, true},
        {3, 1, 0, 606, true},        {3, 0, ROOM - 607, 607, false},
        {3, 0, ROOM - 606, 0, true}, {0, 0, ROOM, 0, true},
        {0, 0, ROOM + 1, 0, true},   {2, 0, UINT64_MAX - 3, 0, true},
        {1, 1, 0, 406, true},        {1, 0, ROOM - 407, 407, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char sentence[128];
        int from = rows[i].from;
        memset(&test, 0, sizeof test);
        test.less[from] = rows[i].less;
        test.at[from] = rows[i].at;
        begin((int)i % 3);
        crowd_run(body);
        for (int m = 0; m < PES; m++) {
            bool refused = m == from && rows[i].refused;
            assert_int_equal(members[m].status, refused ? WEFT_ERR_RANGE : WEFT_OK);
            assert_int_equal(members[m].reported, refused);
            assert_true(test.arrived[m]);
        }
        snprintf(sentence, sizeof sentence,
                 "weft_alltoallv: PE %d has room for %d bytes of PE %d, which sends %d",
                 crowd.pes[1], (int)rows[i].room, crowd.pes[from], (int)bytes_of(from, 1));
        if (rows[i].refused)
            assert_string_equal(test.refused, sentence);
        assert_int_equal(crowd.memory, 0);
    }
}

static void an_argument_that_is_null_is_named(void **state)
{
    (void)state;
    static const char *const names[] = {"src", "recv_bytes", "recv_at", "send_bytes", "send_at"};
    for (int i = 0; i < 5; i++) {
        char sentence[64];
        memset(&test, 0, sizeof test);
        test.null = i + 1;
        begin(0);
        crowd_run(body);
        snprintf(sentence, sizeof sentence, "weft_alltoallv: %s is null", names[i]);
        assert_int_equal(members[2].status, WEFT_ERR_ARGUMENT);
        assert_string_equal(test.refused, sentence);
    }
    assert_int_equal(weft_alltoallv(NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL),
                     WEFT_ERR_ARGUMENT);
}

static void body_outside(int me)
{
    struct member *m = &members[me];
    uint64_t words[PES] = {0};
    m->status = weft_alltoallv(&m->team, m->heap + MEMBER_HEAP - ROOM + 1, ROOM, words, words,
                               m->heap, words, words);
    m->arrived = m->status == WEFT_ERR_RANGE && strstr(base_last_error(), "argument dst");
}

static void a_destination_outside_symmetric_memory_is_refused(void **state)
{
    (void)state;
    begin(2);
    crowd_run(body_outside);
    for (int i = 0; i < PES; i++)
        assert_true(members[i].arrived);
    assert_int_equal(crowd.calls, 0);
}

static void a_failure_ends_the_call_and_is_reported(void **state)
{
    (void)state;
    memset(&test, 0, sizeof test);
    for (int layout = 0; layout < 3; layout++) {
        for (int k = 1, failing = 1; failing; k++) {
            begin(layout);
            crowd.fails_at = k < 60 ? k : 0;
            crowd.fails_wait = k < 60 ? 0 : k - 59;
            crowd_run(body);
            failing = crowd.failed >= 0 || k < 60;
            assert_int_equal(crowd.memory, 0);
            if (crowd.failed < 0)
                continue;
            assert_int_equal(members[crowd.failed].status, WEFT_ERR_SYSTEM);
            assert_int_equal(members[crowd.failed].calls_after, 0);
        }
        for (int allows = 0; allows < 2; allows++) {
            begin(layout);
            crowd.layout.refuses = 3;
            crowd.layout.allows = allows;
            crowd_run(body);
            assert_int_equal(members[2].status, WEFT_ERR_NO_MEMORY);
            assert_int_equal(members[2].reported, 1);
            assert_int_equal(crowd.memory, 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_go_where_their_receivers_say),
        cmocka_unit_test(a_block_that_does_not_fit_keeps_no_other_from_its_place),
        cmocka_unit_test(an_argument_that_is_null_is_named),
        cmocka_unit_test(a_destination_outside_symmetric_memory_is_refused),
        cmocka_unit_test(a_failure_ends_the_call_and_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
