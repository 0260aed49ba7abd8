/* SPDX-License-Identifier: Apache-2.0 */
/* NVSHMEM names: initialization and its structures, memory, teams, buffers, cooperative launch. */
#include "values.h"

_Static_assert(sizeof(nvshmemx_uniqueid_t) == 128 && sizeof(nvshmemx_uniqueid_args_t) == 24 &&
                   sizeof(nvshmemx_init_args_t) == 128 && sizeof(nvshmemx_init_attr_t) == 144,
               "the sizes are part of the interface");

WEFT_KERNEL(gathered, (int *, got), (char, add), (double, factor), (int, pe))
{
    if (weft_dev_thread_rank() == 0)
        nvshmem_int_atomic_add(got, (int)(factor * add) + nvshmem_my_pe() - nvshmem_my_pe(), pe);
}

WEFT_KERNEL(team_of, (int *, got), (int, team))
{
    got[0] = nvshmem_team_my_pe(team);
    got[1] = nvshmem_team_n_pes(team);
    got[2] = nvshmem_team_translate_pe(team, 0, NVSHMEM_TEAM_WORLD);
}

static void check_launch(int *got)
{
    char add = 3;
    double factor = 2;
    void *args[] = {&got, &add, &factor, &next};
    int most = 0;
    CHECK(!nvshmemx_collective_launch_query_gridsize(NVSHMEMX_KERNEL(gathered), weft_dim(32, 1, 1),
                                                     args, 0, &most) &&
              most >= 4,
          "%d", most);
    CHECK(!nvshmemx_collective_launch(NVSHMEMX_KERNEL(gathered), weft_dim(4, 1, 1),
                                      weft_dim(32, 1, 1), args, 0, NULL),
          "refused");
    CHECK(!weft_stream_synchronize(NULL), "%s", weft_last_error());
    nvshmem_barrier_all();
    CHECK(*got == 4 * 6, "%d", *got);
}

static void check_team(nvshmem_team_t team, int number, int members, int first, int *got)
{
    CHECK(nvshmem_team_my_pe(team) == number && nvshmem_team_n_pes(team) == members,
          "team %d: %d of %d", team, nvshmem_team_my_pe(team), nvshmem_team_n_pes(team));
    LAUNCH(1, team_of, got, team);
    CHECK(got[0] == number && got[1] == members && got[2] == first,
          "team %d on the device: %d, %d, %d", team, got[0], got[1], got[2]);
}

static void check_teams(int *got)
{
    nvshmem_team_config_t config = NVSHMEM_TEAM_CONFIG_INITIALIZER;
    nvshmem_team_t odd = NVSHMEM_TEAM_INVALID, x = NVSHMEM_TEAM_INVALID, y = NVSHMEM_TEAM_INVALID;
    check_team(NVSHMEM_TEAM_WORLD, me, n_pes, 0, got);
    check_team(NVSHMEM_TEAM_SHARED, me, n_pes, 0, got);
    check_team(NVSHMEMX_TEAM_NODE, me, n_pes, 0, got);
    check_team(NVSHMEMX_TEAM_SAME_MYPE_NODE, 0, 1, me, got);
    int members = (n_pes + 1) / 2;
    CHECK(!nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, 0, 2, members, &config, 0, &odd),
          "refused");
    CHECK((odd == NVSHMEM_TEAM_INVALID) == (me % 2), "team %d", odd);
    if (odd != NVSHMEM_TEAM_INVALID) {
        check_team(odd, me / 2, members, 0, got);
        CHECK(!nvshmem_team_sync(odd) && !nvshmem_barrier(odd), "refused");
        nvshmem_team_destroy(odd);
    }
    CHECK(nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, 0, 1, 1, &config, 0x40, &odd) &&
              odd == NVSHMEM_TEAM_INVALID && strstr(weft_last_error(), "the bits 0x40"),
          "%s", weft_last_error());
    CHECK(nvshmem_team_split_2d(NVSHMEM_TEAM_WORLD, 1, &config, 1, &x, &config, 0x80, &y) &&
              x == NVSHMEM_TEAM_INVALID && strstr(weft_last_error(), "the bits 0x80"),
          "%s", weft_last_error());
    CHECK(!nvshmem_team_split_2d(NVSHMEM_TEAM_WORLD, 2, &config, 0, &x, &config, 0, &y), "refused");
    CHECK(nvshmem_team_my_pe(x) == me % 2 && nvshmem_team_my_pe(y) == me / 2, "%d, %d", x, y);
    nvshmem_team_destroy(x);
    nvshmem_team_destroy(y);
    CHECK(nvshmem_team_my_pe(NVSHMEM_TEAM_INVALID) == -1, "of no team");
}

static void check_memory(void)
{
    static char plain[4096];
    char *zero = nvshmem_calloc(10, 30), *aligned = nvshmem_align(4096, 100);
    for (int i = 0; i < 300; i++)
        CHECK(!zero[i], "byte %d", i);
    CHECK((uintptr_t)aligned % 4096 == 0, "%p", (void *)aligned);
    CHECK(nvshmem_ptr(aligned, me) == aligned && !nvshmem_ptr(plain, n_pes), "nvshmem_ptr");
    CHECK(!nvshmemx_buffer_register(plain, sizeof plain), "refused");
    CHECK(nvshmemx_buffer_register(plain, sizeof plain), "registered twice");
    CHECK(!nvshmemx_buffer_unregister(plain), "refused");
    CHECK(nvshmemx_buffer_unregister(plain), "taken back twice");
    CHECK(!nvshmemx_buffer_register(plain, sizeof plain), "refused");
    nvshmemx_buffer_unregister_all();
    nvshmem_free(zero);
    nvshmem_free(aligned);
}

/* Every PE gets the id of PE 0 through the first job, which then ends. */
static void check_unique_id(void)
{
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
    nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER, *shared;
    begin();
    shared = nvshmem_malloc(sizeof *shared);
    if (me == 0)
        CHECK(!nvshmemx_get_uniqueid(shared), "refused");
    nvshmem_barrier_all();
    nvshmem_getmem(&id, shared, sizeof id, 0);
    nvshmem_barrier_all();
    nvshmem_finalize();
    CHECK(nvshmemx_init_status() == NVSHMEM_STATUS_NOT_INITIALIZED, "still there");
    CHECK(!nvshmemx_set_attr_uniqueid_args(n_pes - 1 - me, n_pes, &id, &attr), "refused");
    CHECK(nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID | 0x200, &attr) ==
                  NVSHMEMX_ERROR_INVALID_VALUE &&
              strstr(weft_last_error(), "flags is 0x208: the bits 0x200"),
          "%s", weft_last_error());
    CHECK(!nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attr), "refused");
    CHECK(nvshmem_my_pe() == n_pes - 1 - me && nvshmem_n_pes() == n_pes, "PE %d", nvshmem_my_pe());
    me = nvshmem_my_pe();
    next = (me + 1) % n_pes;
    int *got = nvshmem_calloc(1, sizeof *got), seen = 0;
    nvshmem_int_p(got, me + 100, next);
    nvshmem_barrier_all();
    nvshmem_int_get(&seen, got, 1, next);
    CHECK(seen == me + 100, "%d", seen);
    nvshmem_barrier_all();
    nvshmem_finalize();
}

/* Attributes that a program has cleared or filled only partly select no device. */
static void check_device(void)
{
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
    CHECK(weft_nv_device_of(&attr) == -1, "%d", weft_nv_device_of(&attr));
    attr.args.cuda_device_id = 3;
    CHECK(weft_nv_device_of(&attr) == 3, "%d", weft_nv_device_of(&attr));
    memset(&attr, 0, sizeof attr);
    CHECK(weft_nv_device_of(&attr) == -1, "%d", weft_nv_device_of(&attr));
    memset(&attr, 0x41, sizeof attr);
    CHECK(weft_nv_device_of(&attr) == -1, "%d", weft_nv_device_of(&attr));
    CHECK(weft_nv_device_of(NULL) == -1, "%d", weft_nv_device_of(NULL));
}

int main(int argc, char **argv)
{
    int provided = -1, major = 0, minor = 0;
    char name[NVSHMEM_MAX_NAME_LEN];
    (void)argv;
    if (argc > 1) {
        check_unique_id();
        return faults != 0;
    }
    check_device();
    CHECK(nvshmemx_init_status() == NVSHMEM_STATUS_NOT_INITIALIZED, "before init");
    CHECK(!nvshmem_init_thread(NVSHMEM_THREAD_MULTIPLE, &provided) &&
              provided == NVSHMEM_THREAD_SERIALIZED,
          "%d", provided);
    begin(); /* initialized twice, so finalized twice */
    nvshmem_finalize();
    CHECK(nvshmemx_init_status() == NVSHMEM_STATUS_IS_INITIALIZED, "after init");
    nvshmem_info_get_version(&major, &minor);
    nvshmem_info_get_name(name);
    CHECK(major == NVSHMEM_MAJOR_VERSION && !strcmp(name, NVSHMEM_VENDOR_STRING), "%s", name);
    CHECK(!strcmp(nvshmemx_status_string(NVSHMEMX_SUCCESS), "NVSHMEMX_SUCCESS") &&
              !strcmp(nvshmemx_status_string(NVSHMEMX_ERROR_SYMMETRY), "NVSHMEMX_ERROR_SYMMETRY") &&
              !strcmp(nvshmemx_status_string(NVSHMEMX_ERROR_INTERNAL), "NVSHMEMX_ERROR_INTERNAL") &&
              !strcmp(nvshmemx_status_string(-3), "unknown status"),
          "names of statuses");
    int *got = nvshmem_calloc(4, sizeof *got);
    check_launch(got);
    check_teams(got);
    check_memory();
    return end();
}
