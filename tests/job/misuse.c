/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong arguments to each public function: it returns the right status, its message contains the
 * value, and nothing is damaged. The handles of a finalized job are refused. */
#include "job.h"

static weft_job *job;
static weft_ctx *ctx;
static weft_team *world;
static uint64_t *area;
static int n;

static void set_up_calls(void)
{
    weft_job *other;
    weft_init_attr attr = {.size = 3};
    FAILS(weft_init(NULL, NULL), WEFT_ERR_ARGUMENT, "job is null");
    FAILS(weft_init(&other, &attr), WEFT_ERR_ARGUMENT, "attr.size is 3");
    attr = (weft_init_attr){.size = sizeof attr, .thread = (weft_thread)17};
    FAILS(weft_init(&other, &attr), WEFT_ERR_ARGUMENT, "17");
    attr = (weft_init_attr){.size = sizeof attr, .flags = 0x81};
    FAILS(weft_init(&other, &attr), WEFT_ERR_ARGUMENT, "attr.flags is 0x81: the bits 0x80 are");
    attr = (weft_init_attr){.size = sizeof attr, .teams = 1};
    FAILS(weft_init(&other, &attr), WEFT_ERR_ARGUMENT, "attr.teams is 1; give 2 to 1024, or 0");
    attr.teams = 1025;
    FAILS(weft_init(&other, &attr), WEFT_ERR_ARGUMENT, "attr.teams is 1025");
    /* The structure of a later version: unknown fields are accepted while they are 0. */
    struct {
        weft_init_attr known;
        int later[2];
    } grown = {.known = {.size = sizeof grown}, .later = {0, 5}};
    char place[32];
    snprintf(place, sizeof place, "byte %zu is not 0", sizeof attr + sizeof(int));
    FAILS(weft_init(&other, &grown.known), WEFT_ERR_ARGUMENT, place);
    grown.known.size = 5000;
    FAILS(weft_init(&other, &grown.known), WEFT_ERR_ARGUMENT, "attr.size is 5000");
    FAILS(weft_finalize(NULL), WEFT_ERR_ARGUMENT, "null");
    CHECK(weft_my_pe(NULL) == -1 && weft_n_pes(NULL) == -1);
    CHECK(weft_default_ctx(NULL) == NULL && weft_team_world(NULL) == NULL);
    CHECK(strcmp(weft_status_name((weft_status)-9999), "unknown status") == 0);
    CHECK(strcmp(weft_status_name(WEFT_ERR_PE), "WEFT_ERR_PE") == 0);
    CHECK(strlen(weft_status_text(WEFT_ERR_PE)) > 5 && strlen(weft_version()) > 3);
}

static void memory_calls(void)
{
    void *address;
    char local;
    FAILS(weft_alloc(NULL, WEFT_HOST, 8, 0, 0, &address), WEFT_ERR_ARGUMENT, "job is null");
    FAILS(weft_alloc(job, WEFT_HOST, 8, 0, 0, NULL), WEFT_ERR_ARGUMENT, "result is null");
    FAILS(weft_alloc(job, (weft_kind)9, 8, 0, 0, &address), WEFT_ERR_ARGUMENT, "9");
    FAILS(weft_alloc(job, WEFT_HOST, 8, 24, 0, &address), WEFT_ERR_ARGUMENT, "24");
    FAILS(weft_alloc(job, WEFT_HOST, 8, 0, 0x48 | WEFT_ALLOC_ZERO, &address), WEFT_ERR_ARGUMENT,
          "flags is 0x49: the bits 0x48 are");
    FAILS(weft_alloc(job, WEFT_HOST, (size_t)1 << 40, 0, 0, &address), WEFT_ERR_NO_MEMORY,
          "1099511627776");
    FAILS(weft_free(job, &local), WEFT_ERR_FREE, "not the start");
    FAILS(weft_free(job, area + 1), WEFT_ERR_FREE, "not the start");
    void *once;
    OK(weft_alloc(job, WEFT_HOST, 100, 0, 0, &once));
    OK(weft_free(job, once));
    FAILS(weft_free(job, once), WEFT_ERR_FREE, "twice");
    OK(weft_free(job, NULL));
    OK(weft_alloc(job, WEFT_HOST, 0, 0, 0, &address));
    CHECK(address == NULL);
    FAILS(weft_realloc(job, &local, 8, &address), WEFT_ERR_FREE, "not the start");
    CHECK(weft_ptr(job, area, n) == NULL && weft_ptr(job, area, -1) == NULL);
    CHECK(weft_ptr(job, &local, 0) == NULL && weft_ptr(job, area, weft_my_pe(job)) == area);
    CHECK(weft_accessible(job, area, 0) == 1 && weft_accessible(job, &local, 0) == 0);
}

static void rma_calls(void)
{
    uint64_t local = 0;
    uint8_t v8;
    uint32_t v32;
    FAILS(weft_put(NULL, area, &local, 8, 0), WEFT_ERR_ARGUMENT, "ctx is null");
    FAILS(weft_put(ctx, area, &local, 8, n), WEFT_ERR_PE, "does not exist");
    FAILS(weft_put(ctx, area, &local, 8, -1), WEFT_ERR_PE, "PE -1");
    FAILS(weft_put(ctx, NULL, &local, 8, 0), WEFT_ERR_ARGUMENT, "null");
    FAILS(weft_put(ctx, area, NULL, 8, 0), WEFT_ERR_ARGUMENT, "src is null");
    FAILS(weft_put(ctx, &local, area, 8, 0), WEFT_ERR_ADDRESS, "not a symmetric address");
    FAILS(weft_put(ctx, area, &local, (size_t)1 << 40, 0), WEFT_ERR_RANGE, "1099511627776");
    FAILS(weft_put(ctx, area, &local, SIZE_MAX, 0), WEFT_ERR_RANGE, "run past");
    FAILS(weft_get(ctx, NULL, area, 8, 0), WEFT_ERR_ARGUMENT, "dst is null");
    FAILS(weft_get(ctx, &local, &local, 8, 0), WEFT_ERR_ADDRESS, "not a symmetric");
    FAILS(weft_get_nbi(ctx, &local, area, 8, 1000), WEFT_ERR_PE, "1000");
    FAILS(weft_put_nbi(ctx, area, NULL, 8, 0), WEFT_ERR_ARGUMENT, "src");
    FAILS(weft_p64(ctx, (char *)area + 4, 1, 0), WEFT_ERR_ALIGNMENT, "multiple of 8");
    FAILS(weft_p32(ctx, &local, 1, 0), WEFT_ERR_ADDRESS, "not a symmetric");
    FAILS(weft_g32(ctx, (char *)area + 2, &v32, 0), WEFT_ERR_ALIGNMENT, "multiple of 4");
    FAILS(weft_g8(ctx, area, NULL, 0), WEFT_ERR_ARGUMENT, "value is null");
    FAILS(weft_g8(ctx, area, &v8, n + 5), WEFT_ERR_PE, "does not exist");
    FAILS(weft_iput(ctx, area, &local, 0, 1, 8, 1, 0), WEFT_ERR_ARGUMENT, "at least 1");
    FAILS(weft_iput(ctx, area, &local, 1, 1, 0, 1, 0), WEFT_ERR_ARGUMENT, "0 bytes");
    FAILS(weft_iput(ctx, area, &local, PTRDIFF_MAX, 1, 8, 3, 0), WEFT_ERR_RANGE, "run past");
    FAILS(weft_iget(ctx, &local, area, 1, -4, 8, 1, 0), WEFT_ERR_ARGUMENT, "-4");
    FAILS(weft_iget(ctx, NULL, area, 1, 1, 8, 1, 0), WEFT_ERR_ARGUMENT, "dst");
}

static void atomic_and_signal_calls(void)
{
    uint64_t v64, local = 0;
    FAILS(weft_atomic_add64(ctx, (char *)area + 4, 1, 0), WEFT_ERR_ALIGNMENT, "multiple of 8");
    FAILS(weft_atomic_fetch_add64(ctx, area, 1, NULL, 0), WEFT_ERR_ARGUMENT, "fetched");
    FAILS(weft_atomic_cswap32(ctx, &local, 1, 1, (uint32_t *)&v64, 0), WEFT_ERR_ADDRESS, "");
    FAILS(weft_atomic_swap64(ctx, area, 1, &v64, n), WEFT_ERR_PE, "does not exist");
    FAILS(weft_atomic_nbi(ctx, (weft_amo)77, 8, area, 0, 1, &v64, 0), WEFT_ERR_OP, "77");
    FAILS(weft_atomic_nbi(ctx, WEFT_AMO_ADD, 3, area, 0, 1, &v64, 0), WEFT_ERR_TYPE, "3");
    FAILS(weft_put_signal(ctx, area, &local, 8, area + 1, 1, (weft_signal_op)5, 0), WEFT_ERR_OP,
          "5");
    FAILS(weft_put_signal(ctx, area, &local, 8, &local, 1, WEFT_SIGNAL_SET, 0), WEFT_ERR_ADDRESS,
          "");
    FAILS(weft_put_signal_nbi(ctx, area, NULL, 8, area + 1, 1, WEFT_SIGNAL_SET, 0),
          WEFT_ERR_ARGUMENT, "src");
    FAILS(weft_signal(ctx, area, 1, (weft_signal_op)-1, 0), WEFT_ERR_OP, "-1");
    FAILS(weft_signal_fetch(ctx, area, NULL), WEFT_ERR_ARGUMENT, "value");
    FAILS(weft_signal_fetch(ctx, &local, &v64), WEFT_ERR_ADDRESS, "");
    FAILS(weft_signal_wait(ctx, area, (weft_cmp)6, 0, NULL), WEFT_ERR_OP, "6");
}

static void wait_calls(void)
{
    size_t index;
    int result;
    uint64_t local = 0;
    FAILS(weft_wait_until(ctx, WEFT_FLOAT, area, WEFT_EQ, 0), WEFT_ERR_TYPE, "16, 32 or 64");
    FAILS(weft_wait_until(ctx, WEFT_INT64, area, (weft_cmp)9, 0), WEFT_ERR_OP, "9");
    FAILS(weft_wait_until(ctx, WEFT_INT64, &local, WEFT_EQ, 0), WEFT_ERR_ADDRESS, "");
    FAILS(weft_wait_until(ctx, WEFT_INT64, (char *)area + 1, WEFT_EQ, 0), WEFT_ERR_ALIGNMENT, "");
    FAILS(weft_wait_until(NULL, WEFT_INT64, area, WEFT_EQ, 0), WEFT_ERR_ARGUMENT, "ctx");
    FAILS(weft_wait_until_any(ctx, WEFT_INT64, area, 1, NULL, WEFT_EQ, 0, NULL), WEFT_ERR_ARGUMENT,
          "index");
    FAILS(weft_wait_until_all_vector(ctx, WEFT_INT64, area, 1, NULL, WEFT_EQ, NULL),
          WEFT_ERR_ARGUMENT, "values");
    FAILS(weft_test_some(ctx, WEFT_INT64, area, 1, NULL, NULL, WEFT_EQ, 0, &index),
          WEFT_ERR_ARGUMENT, "indices");
    FAILS(weft_test(ctx, WEFT_INT64, area, WEFT_EQ, 0, NULL), WEFT_ERR_ARGUMENT, "result");
    FAILS(weft_test_all(ctx, WEFT_INT64, area, SIZE_MAX / 4, NULL, WEFT_EQ, 0, &result),
          WEFT_ERR_RANGE, "");
}

static void team_and_path_calls(void)
{
    weft_team *team;
    weft_ctx *other = ctx;
    weft_path_info info = {.size = 1};
    FAILS(weft_ctx_create(world, 0x30 | WEFT_CTX_PRIVATE, &other), WEFT_ERR_ARGUMENT,
          "options is 0x32: the bits 0x30 are");
    CHECK(other == NULL);
    FAILS(weft_team_split_strided(NULL, 0, 1, 1, &team), WEFT_ERR_ARGUMENT, "parent");
    FAILS(weft_team_split_strided(world, 0, 1, 0, &team), WEFT_ERR_ARGUMENT, "0 PEs");
    FAILS(weft_team_split_strided(world, n, 1, 1, &team), WEFT_ERR_ARGUMENT, "do not lie");
    FAILS(weft_team_split_2d(world, 0, &team, &team), WEFT_ERR_ARGUMENT, "xrange is 0");
    CHECK(weft_team_translate(world, n, world) == -1 && weft_team_my_pe(NULL) == -1);
    FAILS(weft_barrier(NULL), WEFT_ERR_ARGUMENT, "team is null");
    FAILS(weft_alltoalls(world, area, area, 0, 1, 8, 1), WEFT_ERR_ARGUMENT, "at least 1");
    FAILS(weft_path_query(job, n, &info), WEFT_ERR_PE, "PEs are 0");
    FAILS(weft_path_query(job, 0, &info), WEFT_ERR_ARGUMENT, "sizeof");
    info.size = sizeof info + 8;
    FAILS(weft_path_query(job, 0, &info), WEFT_ERR_ARGUMENT, "info.size is");
    info.size = sizeof info;
    OK(weft_path_query(job, 0, &info));
    CHECK(strlen(info.name) > 0 && strlen(info.reason) > 0);
    FAILS(weft_fence(NULL), WEFT_ERR_ARGUMENT, "ctx");
    FAILS(weft_quiet(NULL), WEFT_ERR_ARGUMENT, "ctx");
}

static void after_finalize(void)
{
    uint64_t v;
    void *address;
    weft_ctx *other;
    OK(weft_finalize(job));
    FAILS(weft_finalize(job), WEFT_ERR_FINALIZED, "weft_finalize");
    FAILS(weft_put(ctx, area, &v, 8, 0), WEFT_ERR_FINALIZED, "weft_put");
    FAILS(weft_g64(ctx, area, &v, 0), WEFT_ERR_FINALIZED, "weft_g64");
    FAILS(weft_atomic_add64(ctx, area, 1, 0), WEFT_ERR_FINALIZED, "weft_atomic_add64");
    FAILS(weft_quiet(ctx), WEFT_ERR_FINALIZED, "weft_quiet");
    FAILS(weft_wait_until(ctx, WEFT_INT64, area, WEFT_EQ, 0), WEFT_ERR_FINALIZED, "weft_wait");
    FAILS(weft_barrier(world), WEFT_ERR_FINALIZED, "weft_barrier");
    FAILS(weft_allreduce(world, area, area, 1, WEFT_INT64, WEFT_SUM), WEFT_ERR_FINALIZED,
          "allreduce");
    FAILS(weft_alloc(job, WEFT_HOST, 8, 0, 0, &address), WEFT_ERR_FINALIZED, "weft_alloc");
    FAILS(weft_free(job, area), WEFT_ERR_FINALIZED, "weft_free");
    FAILS(weft_ctx_create(world, 0, &other), WEFT_ERR_FINALIZED, "weft_ctx_create");
    FAILS(weft_team_destroy(world), WEFT_ERR_FINALIZED, "weft_team_destroy");
    CHECK(weft_ptr(job, area, 0) == NULL && weft_team_n_pes(world) == -1);
}

int main(void)
{
    OK(weft_init(&job, NULL));
    ctx = weft_default_ctx(job);
    world = weft_team_world(job);
    n = weft_n_pes(job);
    area = alloc(job, 4096);
    set_up_calls();
    memory_calls();
    rma_calls();
    atomic_and_signal_calls();
    wait_calls();
    team_and_path_calls();
    OK(weft_barrier(world)); /* the job still works */
    OK(weft_prove(job));
    after_finalize();
    /* Starts a new job in the same process, with the larger structure of a later version. */
    struct {
        weft_init_attr known;
        int later[2];
    } grown = {.known = {.size = sizeof grown}};
    OK(weft_init(&job, &grown.known));
    CHECK(weft_n_pes(job) == n);
    OK(weft_barrier(weft_team_world(job)));
    FAILS(weft_quiet(ctx), WEFT_ERR_FINALIZED, "weft_quiet"); /* the old handle is still refused */
    OK(weft_finalize(job));
    return 0;
}
