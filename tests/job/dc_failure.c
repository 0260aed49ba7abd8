/* SPDX-License-Identifier: Apache-2.0 */
/* An adapter fails between two certain packets by DC (SOFT_HCA_FAIL_VALUE), none of which it has
 * seen acknowledged, with path net as the other path.
 *
 *     done      Each of PEs 1 to 8 posts one sequence to PE 0. Its first packets are executed, and
 *               then its adapter fails. Path net executes the rest, and nothing twice.
 *     given_up NAME
 *               PE 1 posts that sequence, and SOFT_HCA_FAIL_AT is where it cannot know what PE 0
 *               has executed: it gives PE 0 up. */
#include "job.h"

#include <stdbool.h>
#include <string.h>

enum {
    WORDS = 32,
    DATA_BYTES = 100,
    SPARE = WORDS - 1, /* the word of the warm-up */
};

static weft_job *job;
static weft_ctx *ctx;
static weft_team *team;  /* of PE 0 and one that synchronizes with it */
static uint64_t *places; /* [npes][WORDS] */
static uint64_t first;   /* SOFT_HCA_FAIL_VALUE */
static int me;

static uint64_t *own(void)
{
    return places + (size_t)me * WORDS;
}

/* The packets of each: a mark, the one with `first`, which counts as 1, and those that are counted
 * here. */

static void post_add(void)
{
    OK(weft_atomic_add64(ctx, own(), first, 0)); /* 1, its mark 2 */
}

static void post_values(void)
{
    OK(weft_p64(ctx, own(), first, 0));
    OK(weft_p64(ctx, own() + 1, 77, 0)); /* 2 */
}

static void post_adds(void)
{
    OK(weft_atomic_add64(ctx, own(), first, 0)); /* 1, its mark 2 */
    OK(weft_atomic_add64(ctx, own(), 20, 0));    /* 3, 4 */
    OK(weft_atomic_add64(ctx, own(), 300, 0));   /* 5, 6 */
}

static unsigned char data_byte(int pe, size_t i)
{
    return (unsigned char)((size_t)pe * 31 + i * 7 + 1);
}

static void post_data(void)
{
    static unsigned char data[DATA_BYTES];
    for (size_t i = 0; i < DATA_BYTES; i++)
        data[i] = data_byte(me, i);
    OK(weft_p64(ctx, own(), first, 0));
    OK(weft_put_nbi(ctx, own() + 1, data, DATA_BYTES, 0)); /* 2 */
}

/* Data that are not a value have no mark before them. */
static void post_data_first(void)
{
    OK(weft_put_nbi(ctx, (char *)own() + 4, &first, sizeof first, 0));
    OK(weft_p64(ctx, own() + 2, 77, 0)); /* its mark 2, 3 */
}

static void post_sync(void)
{
    OK(weft_p64(ctx, own(), first, 0));
    OK(weft_sync(team)); /* its flag is 2 */
}

static const struct sequence {
    const char *name;
    void (*post)(void);
    uint64_t sum; /* what is added to `first` at the first word */
} sequences[] = {
    {"add", post_add, 0},   {"values", post_values, 0},         {"adds", post_adds, 320},
    {"data", post_data, 0}, {"data_first", post_data_first, 0}, {"sync", post_sync, 0}};

static const struct sequence *sequence_of(const char *name)
{
    for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++)
        if (!strcmp(sequences[i].name, name))
            return &sequences[i];
    CHECK(!"the sequence is known");
    return NULL;
}

/* `at`: SOFT_HCA_FAIL_AT, the number of the first packet that is not sent. */
static const struct {
    const char *name, *at;
} cases[] = {{NULL, NULL},  {"add", "3"},  {"values", "3"}, {"adds", "7"},      {"data", "2"},
             {"data", "3"}, {"sync", "2"}, {"sync", "3"},   {"data_first", "2"}};

enum { CASES = sizeof cases / sizeof *cases };

/* At PE 0. */
static void check_places(void)
{
    for (int pe = 1; pe < CASES; pe++) {
        const uint64_t *at = places + (size_t)pe * WORDS;
        const struct sequence *sequence = sequence_of(cases[pe].name);
        const bool is_moved = sequence->post == post_data_first;
        uint64_t found;
        memcpy(&found, (const char *)at + (is_moved ? 4 : 0), sizeof found);
        if (found != first + sequence->sum)
            fprintf(stderr, "PE %d, \"%s\": %llu is not %llu\n", pe, cases[pe].name,
                    (unsigned long long)found, (unsigned long long)(first + sequence->sum));
        CHECK(found == first + sequence->sum && at[SPARE] == (uint64_t)pe);
        CHECK(sequence->post != post_values || at[1] == 77);
        CHECK(!is_moved || at[2] == 77);
        for (size_t i = 0; sequence->post == post_data && i < DATA_BYTES; i++)
            CHECK(((const unsigned char *)(at + 1))[i] == data_byte(pe, i));
    }
}

/* PE 0 takes part in what the others call "sync". */
static void run_done(void)
{
    weft_team *world = weft_team_world(job);
    weft_path_info info = {.size = sizeof info};
    weft_team *teams[CASES] = {NULL};
    for (int pe = 1; pe < CASES; pe++)
        if (!strcmp(cases[pe].name, "sync"))
            OK(weft_team_split_strided(world, 0, pe, 2, &teams[pe]));
    team = teams[me];
    OK(weft_barrier(world));
    if (me)
        sequence_of(cases[me].name)->post();
    for (int pe = 1; pe < CASES && !me; pe++)
        if (teams[pe])
            OK(weft_sync(teams[pe]));
    OK(weft_quiet(ctx));
    OK(weft_barrier(world));
    if (!me)
        check_places();
    OK(weft_path_query(job, 0, &info));
    CHECK(!me || strstr(info.reason, "by DC; requests of failed queues by path net"));
    for (int pe = 1; pe < CASES; pe++)
        if (teams[pe])
            OK(weft_team_destroy(teams[pe]));
    OK(weft_finalize(job));
}

static void run_given_up(const struct sequence *sequence)
{
    OK(weft_barrier(weft_team_world(job)));
    if (me) {
        sequence->post();
        OK(weft_quiet(ctx));
        CHECK(!"PE 0 is given up");
    }
    OK(weft_wait_until(ctx, WEFT_UINT64, own() + SPARE, WEFT_NE, 0)); /* until the job ends */
}

int main(int argc, char **argv)
{
    const weft_init_attr attr = {.size = sizeof attr};
    const char *number = getenv("WEFT_PE"), *value = getenv("SOFT_HCA_FAIL_VALUE");
    bool done = argc == 2 && !strcmp(argv[1], "done");
    CHECK(number && value && (done || (argc == 3 && !strcmp(argv[1], "given_up"))));
    me = atoi(number);
    first = strtoull(value, NULL, 10);
    if (!me)
        unsetenv("SOFT_HCA_FAIL_AT");
    else if (done)
        setenv("SOFT_HCA_FAIL_AT", cases[me].at, 1);
    OK(weft_init(&job, &attr));
    CHECK(me == weft_my_pe(job) && weft_n_pes(job) == (done ? CASES : 2));
    ctx = weft_default_ctx(job);
    places = alloc(job, (size_t)CASES * WORDS * sizeof *places);
    if (me) /* Tests the way to PE 0. */
        OK(weft_p64(ctx, own() + SPARE, (uint64_t)me, 0));
    OK(weft_quiet(ctx));
    if (done)
        run_done();
    else
        run_given_up(sequence_of(argv[2]));
    return 0;
}
