/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of path choices: each is what was given, lasts, and is shared while it is one of the last.
 */
#include "job/job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { TEXTS = 100, RECENT = 20 };

static struct weft_job job;

static void write_text(char text[32], int i)
{
    snprintf(text, 32, "the reason %d", i);
}

static void texts_last(void **state)
{
    (void)state;
    const char *kept[TEXTS];
    char text[32];
    for (int i = 0; i < TEXTS; i++) {
        write_text(text, i);
        kept[i] = job_share_text(&job, text);
        assert_ptr_not_equal(kept[i], text);
        assert_ptr_equal(job_share_text(&job, text), kept[i]);
    }
    for (int i = 0; i < TEXTS; i++) {
        write_text(text, i);
        assert_string_equal(kept[i], text);
    }
    for (int i = TEXTS - RECENT; i < TEXTS; i++) {
        write_text(text, i);
        assert_ptr_equal(job_share_text(&job, text), kept[i]);
    }
    /* It may be another copy. */
    assert_string_equal(job_share_text(&job, "the reason 0"), "the reason 0");
    assert_string_equal(job_share_text(&job, ""), "");
    job_free_texts(&job);
    assert_string_equal(job_share_text(&job, "a new one"), "a new one");
    job_free_texts(&job);
    assert_null(job.choosing.texts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts_last)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
