/* SPDX-License-Identifier: Apache-2.0 */
/* How PEs reach each other according to the black box of a job: encoding and decoding, the limit on
 * the number of reasons, and slots that are torn or contain hostile data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "box/choices.h"
#include "tool/choices.h"

enum { NPES = 3, SLOT_BYTES = 128 * 1024 };

static char *slot;
static struct box *box;
static struct box_choices *table;

/* PE 1 of 3, which uses path "two" to PE 2's host memory. */
static int set_up(void **state)
{
    (void)state;
    slot = calloc(1, SLOT_BYTES);
    assert_non_null(slot);
    box = (struct box *)(void *)slot;
    *box =
        (struct box){.magic = BOX_MAGIC, .version = BOX_VERSION, .pe = 1, .npes = NPES, .pid = 77};
    box->choices_offset = BOX_BYTES;
    table = (struct box_choices *)(void *)(slot + BOX_BYTES);
    table->npes = NPES;
    snprintf(box->program, sizeof box->program, "program");
    snprintf(box->paths[0], sizeof box->paths[0], "one");
    snprintf(box->paths[1], sizeof box->paths[1], "two");
    snprintf(box->paths[2], sizeof box->paths[2], "none");
    struct box_choice *choice = &table->choices[2];
    choice->path = 1;
    choice->proof = BOX_PROOF_GOOD;
    choice->failed = 1;
    choice->why[0] = box_reason(table, "its path test failed");
    choice->why[1] = box_reason(table, "it is quick");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(slot);
    return 0;
}

static void what_was_written_is_read(void **state)
{
    struct choices choices;
    (void)state;
    assert_true(choices_decode(slot, SLOT_BYTES, 2, &choices));
    assert_int_equal(choices.from, 1);
    assert_int_equal(choices.to, 2);
    assert_int_equal(choices.npes, NPES);
    assert_int_equal(choices.pid, 77);
    assert_string_equal(choices.program, "program");
    const struct choice *host = &choices.kinds[0];
    assert_int_equal(host->proof, CHOICE_PROVEN);
    assert_true(host->taken);
    assert_int_equal(host->n_paths, 2);
    assert_string_equal(host->paths[0].name, "two");
    assert_string_equal(host->paths[0].why, "it is quick");
    assert_false(host->paths[0].failed);
    assert_string_equal(host->paths[1].name, "one");
    assert_string_equal(host->paths[1].why, "its path test failed");
    assert_true(host->paths[1].failed);
    assert_int_equal(choices.kinds[1].proof, CHOICE_UNUSED);
    assert_true(choices_decode(slot, SLOT_BYTES, 0, &choices));
    assert_int_equal(choices.kinds[0].proof, CHOICE_UNUSED);
}

static void no_path_is_left(void **state)
{
    struct choices choices;
    (void)state;
    table->choices[2].path = 2; /* path "none", which has no reason */
    table->choices[2].proof = BOX_PROOF_BAD;
    assert_true(choices_decode(slot, SLOT_BYTES, 2, &choices));
    assert_int_equal(choices.kinds[0].proof, CHOICE_FAILED);
    assert_false(choices.kinds[0].taken);
    assert_int_equal(choices.kinds[0].n_paths, 2);
}

static void a_reason_is_kept_once_and_room_is_bounded(void **state)
{
    char text[BOX_REASON_BYTES + 50];
    (void)state;
    assert_int_equal(box_reason(table, ""), 0);
    assert_int_equal(box_reason(table, "it is quick"), 2);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(box_reason(table, text), 3);
    assert_int_equal(box_reason(table, text), 3); /* cut to the maximum length, and found again */
    assert_int_equal(strlen(table->reasons[2]), BOX_REASON_BYTES - 1);
    for (int i = 0; i < 2 * BOX_REASONS; i++) {
        snprintf(text, sizeof text, "reason %d", i);
        int number = box_reason(table, text);
        assert_int_equal(number, 4 + i < BOX_REASONS ? 4 + i : BOX_REASONS);
    }
    assert_int_equal(table->count, BOX_REASONS);
    assert_string_equal(table->reasons[BOX_REASONS - 1], "(too many reasons to keep)");
    assert_int_equal(box_reason(table, "it is quick"), 2);
}

static void torn_and_hostile_slots(void **state)
{
    struct choices choices;
    (void)state;
    assert_false(choices_decode(slot, SLOT_BYTES, -1, &choices));
    assert_false(choices_decode(slot, SLOT_BYTES, NPES, &choices));
    assert_false(choices_decode(slot, 100, 2, &choices));
    assert_false(choices_decode(slot, BOX_BYTES + box_choices_bytes(NPES) - 1, 2, &choices));
    assert_true(choices_decode(slot, BOX_BYTES + box_choices_bytes(NPES), 2, &choices));
    static const uint64_t offsets[] = {SLOT_BYTES, SLOT_BYTES - 8, UINT64_MAX, UINT64_MAX - 7, 4};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        box->choices_offset = offsets[i];
        assert_false(choices_decode(slot, SLOT_BYTES, 2, &choices));
    }
    box->choices_offset = BOX_BYTES;
    box->npes = INT32_MAX;
    assert_false(choices_decode(slot, SLOT_BYTES, 2, &choices));
    box->npes = NPES;
    box->version++;
    assert_false(choices_decode(slot, SLOT_BYTES, 2, &choices));
    box->version--;

    table->count = UINT32_MAX;
    table->choices[2].why[0] = UINT16_MAX;
    table->choices[2].path = 200;
    memset(table->reasons[1], '\033', BOX_REASON_BYTES);
    memset(box->paths[1], 'p', sizeof box->paths[1]);
    assert_true(choices_decode(slot, SLOT_BYTES, 2, &choices));
    assert_false(choices.kinds[0].taken);
    assert_string_equal(choices.kinds[0].paths[0].why, "");
    assert_int_equal(strlen(choices.kinds[0].paths[1].name), sizeof box->paths[1] - 1);
    assert_int_equal(strspn(choices.kinds[0].paths[1].why, "?"), BOX_REASON_BYTES - 1);
    table->choices[2].proof = 99;
    assert_true(choices_decode(slot, SLOT_BYTES, 2, &choices));
    assert_int_equal(choices.kinds[0].proof, CHOICE_UNUSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_written_is_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_path_is_left, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_reason_is_kept_once_and_room_is_bounded, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(torn_and_hostile_slots, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
