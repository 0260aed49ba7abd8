/* SPDX-License-Identifier: Apache-2.0 */
/* The host memory that path gda takes for each peer before the first operation on it, in a job that
 * connects queues at their first use. What the first operation needs (queues, mail, the other path
 * to the peer) is memory that nothing touches before. */
#include "job.h"
#include "resident.h"

#include "path/gda/failover.h"

enum { MOST_BYTES = 256, CHOICE_BYTES = 40 };

static struct gda *gda;
static size_t system_bytes; /* the part of the system segment that adapters have registered */

weft_status __real_gda_create(const struct path_world *world, struct gda_adapters *adapters,
                              struct gda **result);
weft_status __wrap_gda_create(const struct path_world *world, struct gda_adapters *adapters,
                              struct gda **result);
weft_status __wrap_gda_create(const struct path_world *world, struct gda_adapters *adapters,
                              struct gda **result)
{
    weft_status status = __real_gda_create(world, adapters, result);
    gda = *result;
    const struct ibv_mr *region = gda->regions[gda->first[SEG_SYSTEM]];
    system_bytes = region ? region->length : 0;
    return status;
}

/* Choices with the same text share it. */
static void check_texts(int n)
{
    const struct path_choice *choices = gda->world->choices[WEFT_HOST];
    CHECK(sizeof *choices <= CHOICE_BYTES);
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            CHECK((strcmp(choices[a].reason, choices[b].reason) == 0) ==
                  (choices[a].reason == choices[b].reason));
    int one = (gda->world->pe + 1) % n, other = (gda->world->pe + 2) % n;
    CHECK(choices[one].reason == choices[other].reason && choices[one].reason[0]);
}

int main(void)
{
    weft_job *job;
    OK(weft_init(&job, NULL));
    int me = weft_my_pe(job), n = weft_n_pes(job);
    weft_ctx *ctx = weft_default_ctx(job);
    CHECK(gda && gda->failover && !gda->eager);
    size_t bytes = path_ops_of(PATH_GDA)->peer_bytes((int)gda->count, 2),
           net = path_ops_of(PATH_NET)->peer_bytes(1, 2);
    printf(
        "PE %d: %zu bytes for each peer from the start, of which adapters pin %d; path net %zu\n",
        me, bytes, PATH_WORDS_BYTES, net);
    CHECK(bytes + net <= MOST_BYTES);
    CHECK(gda->world->mail_offset % RESIDENT_PAGE == 0 && system_bytes == gda->world->mail_offset);
    CHECK(gda->world->words_offset + (size_t)n * PATH_WORDS_BYTES <= system_bytes);
    check_texts(n);
    bool any = false;
    for (int pe = 0; pe < n; pe++)
        any |= gda_link_of(gda, pe) != GDA_LINK_NONE;
    CHECK(any ||
          count_resident(gda->failover->spares, (size_t)n * sizeof *gda->failover->spares) == 0);
    CHECK(any || count_resident(gda->area, gda->area_bytes) == 0);
    uint64_t *words = alloc(job, (size_t)n * sizeof *words);
    for (int pe = 0; pe < n; pe++)
        OK(weft_p64(ctx, &words[me], 9, pe));
    OK(weft_quiet(ctx));
    OK(weft_barrier(weft_team_world(job)));
    for (int pe = 0; pe < n; pe++)
        CHECK(words[pe] == 9 && gda_link_of(gda, pe) == GDA_LINK_UP);
    CHECK(count_resident(gda->failover->spares, (size_t)n * sizeof *gda->failover->spares) > 0);
    OK(weft_finalize(job));
    return 0;
}
