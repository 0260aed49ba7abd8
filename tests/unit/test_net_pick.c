/* SPDX-License-Identifier: Apache-2.0 */
/* Shows which NICs the PEs of a job use. A row has the NICs that each PE of some nodes can use, and
 * the expected division. A NIC is written as its name (a letter), its distance (0 is the nearest),
 * its network (a digit, '-' if unknown), and a capital letter for its address if PEs share one:
 * "a01", "b3-", "b02X". '*' after it: several such NICs are faster than one; '+': 2000 Mb/s; '.':
 * 1000 Mb/s. */
#include "path/net/pick.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { PES = 16 };

struct job {
    struct net_candidates all[PES];
    int node_of[PES], npes;
};

/* Reads a job: '/' separates PEs, "//" separates nodes, a blank separates NICs. All PEs request
 * `rails` NICs. */
static void read_job(const char *text, int rails, struct job *job)
{
    int node = 0;
    memset(job, 0, sizeof *job);
    job->npes = 1;
    job->all[0].requested_rails = rails;
    while (*text) {
        struct net_candidates *candidates = &job->all[job->npes - 1];
        if (text[0] == '/') {
            node += text[1] == '/';
            text += 1 + (text[1] == '/');
            job->all[job->npes].requested_rails = rails;
            job->node_of[job->npes++] = node;
            continue;
        }
        struct net_candidate *nic = &candidates->list[candidates->count++];
        *nic = (struct net_candidate){.name = (uint64_t)text[0],
                                      .distance = (uint8_t)(text[1] - '0'),
                                      .network = text[2] == '-' ? 0 : (uint64_t)text[2]};
        for (text += 3; *text && *text != ' ' && *text != '/'; text++) {
            nic->spreads |= *text == '*';
            nic->mbps = *text == '+' ? 2000 : *text == '.' ? 1000 : nic->mbps;
            nic->address = isupper((unsigned char)*text) ? (uint64_t)*text : nic->address;
        }
        text += *text == ' ';
    }
}

/* Writes the picked NICs. "a": messages and large transfers over a; "a:b": messages over a, large
 * transfers over b; "a:ab": large transfers over both. */
static void write_picked(const struct net_candidates *candidates, const struct net_picked *picked,
                         char *text)
{
    char home = picked->first_rail < 0 ? '-' : (char)candidates->list[picked->first_rail].name;
    *text++ = home;
    if (picked->count != 1 || picked->rails[0] != picked->first_rail)
        *text++ = ':';
    for (int i = 0; i < picked->count && text[-1] == ':'; i++)
        for (int k = i; k < picked->count; k++, i = picked->count)
            *text++ = (char)candidates->list[picked->rails[k]].name;
    *text = '\0';
}

static const struct row {
    const char *what, *job;
    int rails;
    const char *picked; /* by PE in order; '!' in front: all PEs of the PE's node use one NIC */
} rows[] = {
    {"one", "a0-", 0, "a"},
    {"the nearest", "a3- b1- c2-", 0, "b"},
    {"as told among equals", "b1- a1-", 0, "b"},
    {"two PEs near different ones", "a0- b4-/a4- b0-", 0, "a b"},
    {"ties are shared out", "a0- b0-/a0- b0-", 0, "a b"},
    {"8 PEs, 8 NICs, one distance",
     "a1- b1- c1- d1- e1- f1- g1- h1-/a1- b1- c1- d1- e1- f1- g1- h1-/a1- b1- c1- d1- e1- f1- g1- "
     "h1-/"
     "a1- b1- c1- d1- e1- f1- g1- h1-/a1- b1- c1- d1- e1- f1- g1- h1-/a1- b1- c1- d1- e1- f1- g1- "
     "h1-/"
     "a1- b1- c1- d1- e1- f1- g1- h1-/a1- b1- c1- d1- e1- f1- g1- h1-",
     0, "a b c d e f g h"},
    {"more PEs than NICs", "a0- b0- c0-/a0- b0- c0-/a0- b0- c0-/a0- b0- c0-/a0- b0- c0-", 0,
     "a b c a b"},
    {"fewer PEs than NICs", "a0- b0- c0-/a0- b0- c0-", 0, "a b"},
    {"nearer before less taken", "a0- b1-/a0- b1-/a0- b1-", 0, "!a !a !a"},
    {"two near each socket", "a0- b0- c4- d4-/a0- b0- c4- d4-/a4- b4- c0- d0-/a4- b4- c0- d0-", 0,
     "a b c d"},
    {"a GPU without a near one takes what is less taken", "a0- b4-/a4- b4-", 0, "a b"},
    {"nodes do not share", "a0- b0-//a0- b0-", 0, "a a"},
    {"nodes differ", "a0- b0-/a0- b0-//c0-/c0-", 0, "a b !c !c"},
    {"all on one, alone on it", "a0-", 0, "a"},
    {"two on one", "a0-/a0-", 0, "!a !a"},
    {"not all on one", "a0- b0-/a0-/b0-", 0, "a a b"},
    /* rails */
    {"wished for", "a0- b0- c1-", 2, "a:ab"},
    {"more than there are", "a0- b0-", 5, "a:ab"},
    {"two each of four", "a0- b0- c0- d0-/a0- b0- c0- d0-", 2, "a:ab c:cd"},
    {"two each of three", "a0- b0- c0-/a0- b0- c0-", 2, "a:ab c:ca"},
    {"unasked: none where more give no more", "a0- b0-", 0, "a"},
    {"unasked: the share of one PE", "a0-* b0-* c4-*", 0, "a:ab"},
    {"unasked: of two PEs of four", "a0-* b0-* c0-* d0-*/a0-* b0-* c0-* d0-*", 0, "a:ab c:cd"},
    {"unasked: of two PEs of three", "a0-* b0-* c0-*/a0-* b0-* c0-*", 0, "a b"},
    {"unasked: at most four", "a0-* b0-* c0-* d0-* e0-* f0-*", 0, "a:abcd"},
    /* networks */
    {"one home for all", "a01 b02//b02 a01", 0, "a a:b"},
    {"the faster is home", "a01. b02+//a01. b02+", 0, "b:a b:a"},
    {"what not all have is left out", "a01 b02//b02", 0, "b b"},
    {"nothing in common: any", "a01//b02", 0, "a b"},
    {"large ones over the near one", "a41 b02//a41 b02/a01 b42", 0, "a:b a:b a"},
    {"messages over one, large ones over another", "a41 b02/a41 b02", 0, "a:b a:b"},
    {"shared out over networks", "a01 b02/a01 b02//a01 b02/a01 b02", 0, "a a:b a a:b"},
    {"rails over networks", "a01 b02//a01 b02", 2, "a:ab a:ab"},
    /* addresses of several nodes */
    {"a bridge to containers", "a01 b02X//a01 b02X", 2, "a a"},
    {"first in the list", "b02X a01//b02X a01", 0, "a a"},
    {"nothing else is there", "b02X//b02X", 0, "b b"},
    {"PEs of one node have one address", "a01A/a01A//a01B", 0, "!a !a a"},
    {"so that it leads to others", "a01A b02/a01A b02//a01B b02", 0, "a a:b a"},
    {"addresses that differ", "a01A b02//a01C b02", 2, "a:ab a:ab"},
    {"a fast one on no network that is told", "a0-+ b01.//a0-+ b01.", 0, "b:a b:a"},
    {"the first PE is not on it", "b02//a01 b02", 0, "b b"},
};

static void every_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char got[256] = "";
        struct job job;
        read_job(rows[i].job, rows[i].rails, &job);
        for (int pe = 0; pe < job.npes; pe++) {
            struct net_picked picked;
            char one[32];
            net_pick(job.all, job.node_of, job.npes, pe, &picked);
            write_picked(&job.all[pe], &picked, one);
            size_t used = strlen(got);
            snprintf(got + used, sizeof got - used, "%s%s%s", pe ? " " : "",
                     picked.all_on_one_nic ? "!" : "", one);
        }
        if (strcmp(got, rows[i].picked) != 0)
            fail_msg("%s (%s, rails %d): \"%s\" instead of \"%s\"", rows[i].what, rows[i].job,
                     rows[i].rails, got, rows[i].picked);
    }
}

/* Checks the number of equally near NICs. */
static void equals(void **state)
{
    (void)state;
    struct job job;
    struct net_picked picked;
    read_job("a1- b1- c1- d4-/a0- b1-", 0, &job);
    net_pick(job.all, job.node_of, job.npes, 0, &picked);
    assert_int_equal(picked.equally_near, 3);
    net_pick(job.all, job.node_of, job.npes, 1, &picked);
    assert_int_equal(picked.equally_near, 1);
}

/* PEs request different numbers of NICs, one of them more than any PE may have; a third PE has no
 * NIC. */
static void wishes_differ(void **state)
{
    (void)state;
    struct job job;
    struct net_picked picked;
    read_job("a0- b0- c0- d0- e0- f0- g0- h0- i0- j0-/a0- b0-/", 1, &job);
    job.all[0].requested_rails = 100;
    net_pick(job.all, job.node_of, job.npes, 0, &picked);
    assert_int_equal(picked.count, NET_RAILS);
    net_pick(job.all, job.node_of, job.npes, 1, &picked);
    assert_int_equal(picked.count, 1);
    net_pick(job.all, job.node_of, job.npes, 2, &picked);
    assert_int_equal(picked.first_rail, -1);
    assert_int_equal(picked.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row),
        cmocka_unit_test(equals),
        cmocka_unit_test(wishes_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
