/* SPDX-License-Identifier: Apache-2.0 */
/* Which adapters the PEs of a job use over path gda. A row holds the adapters that each PE can use,
 * the nearest first, and the adapters that it must get. An adapter is written as its name (a
 * letter) and its distance (0 is the nearest): "a0 b2". */
#include "path/gda/pick.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { PES = 16 };

struct job {
    struct gda_candidates all[PES + 1];
    int node_of[PES + 1], npes;
};

/* '/' separates PEs, "//" separates nodes, and a space separates adapters. */
static void read_job(const char *text, int wanted, struct job *job)
{
    memset(job, 0, sizeof *job);
    job->npes = 1;
    job->all[0].requested = wanted;
    for (int node = 0; *text;) {
        struct gda_candidates *candidates = &job->all[job->npes - 1];
        if (text[0] == '/') {
            node += text[1] == '/';
            text += 1 + (text[1] == '/');
            job->all[job->npes].requested = wanted;
            job->node_of[job->npes++] = node;
            continue;
        }
        candidates->list[candidates->count++] =
            (struct gda_candidate){(uint64_t)text[0], (uint32_t)(text[1] - '0')};
        text += 2 + (text[2] == ' ');
    }
}

/* Writes entries beyond the end, which must be ignored: another PE of the last node with distance 0
 * to every adapter, and another, nearer adapter after the last one of each PE. */
static void add_what_does_not_count(struct job *job)
{
    struct gda_candidates *behind = &job->all[job->npes];
    job->node_of[job->npes] = job->node_of[job->npes - 1];
    for (int i = 0; i < 10; i++)
        behind->list[behind->count++] = (struct gda_candidate){(uint64_t) "abcdefghij"[i], 0};
    for (int pe = 0; pe < job->npes; pe++)
        job->all[pe].list[job->all[pe].count] = (struct gda_candidate){'a', 0};
}

static const struct row {
    const char *could;
    int wanted;
    const char *take;
} rows[] = {
    {"a0", 0, "a"},
    {"a0 b0", 0, "ab"},
    {"a0 b0 c1", 0, "ab"},
    {"a0/a0", 0, "a/a"},
    {"a0 b0/a0 b0", 0, "a/b"},
    {"a0 b0/a0 b0/a0 b0", 0, "a/b/a"}, /* too few adapters: shared in turn */
    {"a0 b0 c0 d0/a0 b0 c0 d0", 0, "ab/cd"},
    {"a0 b0 c0/a0 b0 c0", 0, "a/b"},
    {"a0 b0 c2 d2/c0 d0 a2 b2", 0, "ab/cd"}, /* each has adapters of its own */
    {"a1 b1 c1/b0 a1 c1", 0, "ac/b"},        /* b is nearer to the second PE */
    {"a1/a0", 0, "a/a"},
    {"a0 b0//a0 b0", 0, "ab/ab"},
    {"a0 b0///a0 b0", 0, "ab//ab"}, /* one PE has no adapter */
    {"a0 b0 c0 d0 e0 f0 g0 h0 i0 j0", 0, "abcdefgh"},
    {"a0 b0 c0", 1, "a"},
    {"a0 b0/a0 b0", 1, "a/b"},
    {"a0 b0/a0 b0", 2, "ab/ab"},
    {"a0 b0 c0/a0 b0 c0", 2, "ab/ac"},
    {"a0 b1 c1/a0 b1 c1", 2, "ab/ab"},
    {"a0 b0/a0", 0, "a/a"},       /* the second PE shares the first one's adapter */
    {"c0 a1 b1/a2 b2", 0, "c/b"}, /* all are nearer to the first PE: shared in turn */
    {"b1 a1/b0", 0, "a/b"},
    {"a1 b1//a0", 0, "ab/a"}, /* a is nearer to a PE of another node */
    {"a0 b0 c0 d0 e0 f0 g0 h0 i0 j0", 10, "abcdefgh"},
    {"a0 b0 c0 d0 e0 f0 g0 h0", 0, "abcdefgh"},
};

static void the_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct job job;
        char text[64] = "", *at = text;
        read_job(rows[i].could, rows[i].wanted, &job);
        add_what_does_not_count(&job);
        for (int pe = 0; pe < job.npes; pe++) {
            struct gda_picked picked;
            gda_pick_adapters(job.all, job.node_of, job.npes, pe, &picked);
            *at++ = '/';
            for (uint32_t k = 0; k < picked.count; k++)
                *at++ = (char)job.all[pe].list[picked.which[k]].name;
        }
        *at = '\0';
        if (strcmp(text + 1, rows[i].take) != 0)
            fail_msg("%s, %d wanted: %s, not %s", rows[i].could, rows[i].wanted, text + 1,
                     rows[i].take);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
