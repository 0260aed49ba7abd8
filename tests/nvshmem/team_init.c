/* SPDX-License-Identifier: Apache-2.0 */
/* Teams of arbitrary PEs by an id: members in any order, several such teams at a time, a new id for
 * each team, and invalid calls. Symmetric memory passes the id to the other PEs. */
#include "values.h"

static uint64_t *posted; /* at every PE: posted[i] is an id that PE i made */

static nvshmemx_team_uniqueid_t id_of(int giver)
{
    nvshmemx_team_uniqueid_t id = 0;
    if (me == giver) {
        CHECK(!nvshmemx_team_get_uniqueid(&id) && id, "no id");
        for (int pe = 0; pe < n_pes; pe++)
            nvshmem_uint64_p(posted + giver, id, pe);
    }
    nvshmem_barrier_all();
    id = posted[giver];
    nvshmem_barrier_all();
    return id;
}

static nvshmem_team_t made(nvshmemx_team_uniqueid_t id, int n, int index)
{
    nvshmem_team_config_t config = NVSHMEM_TEAM_CONFIG_INITIALIZER;
    nvshmem_team_t team = NVSHMEM_TEAM_INVALID;
    config.uniqueid = id;
    CHECK(!nvshmemx_team_init(&team, &config, NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID, n, index),
          "member %d of %d", index, n);
    CHECK(nvshmem_team_my_pe(team) == index && nvshmem_team_n_pes(team) == n, "%d of %d",
          nvshmem_team_my_pe(team), nvshmem_team_n_pes(team));
    return team;
}

WEFT_KERNEL(reduce_in, (int64_t *, to), (int64_t *, from), (int, team), (int, got_at))
{
    if (weft_dev_thread_rank() == 0)
        to[got_at] = nvshmem_team_translate_pe(team, 0, NVSHMEM_TEAM_WORLD);
    nvshmemx_int64_sum_reduce_block(team, to, from, 1);
}

/* Collectives of the host and of device code over the team. members: their PEs, in order. */
static void use(nvshmem_team_t team, const int *members, int n)
{
    int64_t *buffer = nvshmem_team_n_pes(team) == n ? (int64_t *)(posted + n_pes) : NULL;
    int64_t *all = buffer + 2, sum = 0;
    buffer[0] = 0;
    buffer[1] = -1000000007ll * (me + 1);
    for (int i = 0; i < n; i++) {
        sum += -1000000007ll * (members[i] + 1);
        CHECK(nvshmem_team_translate_pe(team, i, NVSHMEM_TEAM_WORLD) == members[i], "member %d", i);
    }
    CHECK(!nvshmem_team_sync(team), "sync");
    CHECK(!nvshmem_int64_sum_reduce(team, buffer, buffer + 1, 1) && buffer[0] == sum, "%lld",
          (long long)buffer[0]);
    CHECK(!nvshmem_int64_fcollect(team, all, buffer + 1, 1), "fcollect");
    for (int i = 0; i < n; i++)
        CHECK(all[i] == -1000000007ll * (members[i] + 1), "member %d of fcollect", i);
    CHECK(!nvshmem_team_sync(team), "sync");
    buffer[0] = 0;
    LAUNCH(32, reduce_in, buffer, buffer + 1, team, 1 + 1 + n);
    CHECK(host_alone || (buffer[0] == sum && buffer[2 + n] == members[0]),
          "on the device: %lld, first %lld", (long long)buffer[0], (long long)buffer[2 + n]);
    CHECK(!nvshmem_barrier(team), "barrier");
}

/* All PEs, in reverse order. */
static void backwards(void)
{
    int members[64];
    for (int i = 0; i < n_pes; i++)
        members[i] = n_pes - 1 - i;
    nvshmem_team_t team = made(id_of(n_pes - 1), n_pes, n_pes - 1 - me);
    use(team, members, n_pes);
    nvshmem_team_destroy(team);
}

/* Two teams at a time, of the even and of the odd PEs, made three times. Each is destroyed after
 * the next is made, so that the team numbers differ. */
static void halves(void)
{
    int members[64], n = 0, index = 0;
    nvshmem_team_t before = NVSHMEM_TEAM_INVALID;
    for (int pe = me % 2; pe < n_pes; pe += 2) {
        if (pe == me)
            index = n;
        members[n++] = pe;
    }
    for (int round = 0; round < 3; round++) {
        nvshmemx_team_uniqueid_t even = id_of(0), odd = id_of(n_pes > 1);
        nvshmem_team_t team = made(me % 2 ? odd : even, n, index);
        CHECK(team != before, "round %d: the number %d is taken", round, team);
        use(team, members, n);
        if (before != NVSHMEM_TEAM_INVALID)
            nvshmem_team_destroy(before);
        before = team;
    }
    nvshmem_team_destroy(before);
}

/* One PE does not take part and need not know. */
static void all_but_one(void)
{
    int members[64], n = 0;
    nvshmemx_team_uniqueid_t id = id_of(0);
    for (int pe = 0; pe < n_pes; pe++)
        if (pe != 1)
            members[n++] = pe;
    if (me != 1) {
        nvshmem_team_t team = made(id, n, me ? me - 1 : 0);
        use(team, members, n);
        nvshmem_team_destroy(team);
    }
    nvshmem_barrier_all();
}

static int refused(nvshmem_team_config_t *config, long mask, int n, int index)
{
    nvshmem_team_t team = 99;
    return nvshmemx_team_init(&team, config, mask, n, index) == NVSHMEMX_ERROR_INVALID_VALUE &&
           team == NVSHMEM_TEAM_INVALID;
}

/* Members with different team sizes: one member detects it and reports it, and the other gets the
 * error too. */
static void disagree(void)
{
    nvshmem_team_config_t config = NVSHMEM_TEAM_CONFIG_INITIALIZER;
    if (n_pes != 3)
        return;
    config.uniqueid = id_of(0);
    if (me < 2) {
        CHECK(refused(&config, NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID, 2 + me, me), "a team");
        CHECK(strstr(weft_last_error(), "says that the team has") ||
                  strstr(weft_last_error(), "has given up making the team"),
              "%s", weft_last_error());
    }
    nvshmem_barrier_all();
}

/* Teams of one PE until no slot is left; one destroyed team is enough for another one. */
static void full(void)
{
    enum { MOST = 1024 };
    static nvshmem_team_t teams[MOST];
    nvshmem_team_config_t config = NVSHMEM_TEAM_CONFIG_INITIALIZER;
    int n = 0;
    if (n_pes != 1)
        return;
    CHECK(!nvshmemx_team_get_uniqueid(&config.uniqueid), "no id");
    while (n < MOST &&
           !nvshmemx_team_init(&teams[n], &config, NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID, 1, 0))
        n++;
    CHECK(n > 1000 && n < MOST, "%d teams", n);
    CHECK(strstr(weft_last_error(), "all 1024 team slots are in use"), "%s", weft_last_error());
    nvshmem_team_destroy(teams[n / 2]);
    nvshmem_team_t again = made(config.uniqueid, 1, 0);
    CHECK(again == teams[n / 2], "the place %d, not %d", again, teams[n / 2]);
    for (int i = 0; i < n; i++)
        nvshmem_team_destroy(teams[i]);
}

static void refusals(void)
{
    nvshmem_team_config_t config = NVSHMEM_TEAM_CONFIG_INITIALIZER;
    CHECK(refused(&config, NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID, 1, 0), "without an id");
    CHECK(refused(NULL, 0, 1, 0), "without a config");
    nvshmemx_team_get_uniqueid(&config.uniqueid);
    CHECK(refused(&config, 0, 1, 0), "an id that does not count");
    CHECK(refused(&config, NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID, n_pes + 1, 0), "too many");
    CHECK(refused(&config, NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID, 0, 0), "too few");
    CHECK(refused(&config, NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID, 1, 1), "number beyond");
    CHECK(refused(&config, NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID, 1, -1), "number below");
    CHECK(refused(&config, NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID | 0x20, 1, 0), "unknown bits");
    CHECK(strstr(weft_last_error(), "the bits 0x20"), "%s", weft_last_error());
    CHECK(nvshmemx_team_get_uniqueid(NULL) == NVSHMEMX_ERROR_INTERNAL, "no place for the id");
    if (n_pes == 2) { /* either member may detect it first; the other does not wait */
        for (int round = 0; round < 20; round++) {
            config.uniqueid = id_of(round % 2);
            CHECK(refused(&config, NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID, 2, 0), "a number twice");
        }
    }
    nvshmem_barrier_all();
}

int main(int argc, char **argv)
{
    host_alone = argc > 1 && !strcmp(argv[1], "host");
    begin();
    posted = nvshmem_calloc((size_t)n_pes * 2 + 8, sizeof *posted);
    backwards();
    halves();
    if (n_pes > 1)
        all_but_one();
    refusals();
    disagree();
    full();
    backwards(); /* the failed calls had no side effects */
    return end();
}
