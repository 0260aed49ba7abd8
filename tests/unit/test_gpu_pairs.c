/* SPDX-License-Identifier: Apache-2.0 */
/* Which PEs load and store each other's GPU memory (job/gpu_pairs.c): the answer is the same at all
 * members of a team, and the memory for it follows the PEs of a node, not those of the job. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "boot/boot.h"
#include "gpu/gpu.h"
#include "job/job.h"

#include <stdlib.h>
#include <string.h>

/* Nodes of 11, 3 and 11 PEs, in an order that mixes them. */
enum { PES = 25, NODES = 3 };
static const int node_of[PES] = {2, 0, 0, 1, 2, 2, 0, 0, 2, 1, 0, 2, 2,
                                 0, 2, 0, 2, 0, 2, 1, 0, 2, 0, 2, 0};

static char sent[PES][PES]; /* what each PE contributed */
static size_t allocated, allocations_left;

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
    if (!allocations_left)
        return NULL;
    allocations_left--;
    allocated += count * bytes;
    return __real_calloc(count, bytes);
}

weft_status __wrap_boot_agree(struct boot *boot, weft_status status);
weft_status __wrap_boot_agree(struct boot *boot, weft_status status)
{
    (void)boot;
    return status;
}

/* Records the contribution of this PE, and returns those that were recorded before. */
static weft_status gather(struct boot *boot, const void *mine, void *all, size_t bytes)
{
    assert_true(bytes <= sizeof sent[0]);
    memcpy(sent[boot->pe], mine, bytes);
    for (int pe = 0; pe < boot->npes && pe < PES; pe++)
        memcpy((char *)all + (size_t)pe * bytes, sent[pe], bytes);
    return WEFT_OK;
}

static const struct boot_ops operations = {.allgather = gather};

struct one_pe {
    struct weft_job job;
    struct boot boot;
    struct gpu gpu;
    struct path_choice choices[PES];
    int local_pes[PES], slot_of[PES];
};
static struct one_pe all_pes[PES];

static bool is_direct(int from, int to)
{
    return node_of[from] == node_of[to] && (from == to || (from * 7 + to * 3) % 5 != 1);
}

static void make_pe(int me)
{
    struct one_pe *pe = &all_pes[me];
    *pe = (struct one_pe){.boot = {.ops = &operations,
                                   .pe = me,
                                   .npes = PES,
                                   .local_pes = pe->local_pes,
                                   .node_of = (int *)node_of,
                                   .nodes = NODES}};
    for (int other = 0; other < PES; other++) {
        const bool local = node_of[other] == node_of[me];
        pe->slot_of[other] = local ? pe->boot.local_npes : -1;
        if (local)
            pe->local_pes[pe->boot.local_npes++] = other;
        pe->choices[other].path = is_direct(me, other) ? PATH_P2P : PATH_NET;
    }
    pe->gpu.slot_of = pe->slot_of;
    pe->job.boot = &pe->boot;
    pe->job.pe = me;
    pe->job.npes = PES;
    pe->job.gpu = &pe->gpu;
    pe->job.paths.choices[WEFT_GPU] = pe->choices;
}

static int make_all(void **state)
{
    (void)state;
    allocations_left = 1000;
    for (int pe = 0; pe < PES; pe++)
        make_pe(pe);
    for (int round = 0; round < 2; round++) /* in the second one all have contributed */
        for (int pe = 0; pe < PES; pe++)
            assert_int_equal(job_gpu_pairs(&all_pes[pe].job), WEFT_OK);
    return 0;
}

static int free_all(void **state)
{
    (void)state;
    for (int pe = 0; pe < PES; pe++)
        free(all_pes[pe].job.gpu_pairs);
    return 0;
}

static bool ask(int pe, int n, int *pes)
{
    const struct weft_team team = {.job = &all_pes[pe].job, .n = n, .me = 0, .pes = pes};
    return job_gpu_team_direct(&team);
}

static void test_same_answer_at_all_members(void **state)
{
    int direct = 0;
    (void)state;
    for (int a = 0; a < PES; a++)
        for (int b = 0; b < PES; b++)
            for (int c = 0; c < PES; c++) {
                int pes[] = {a, b, c};
                bool wanted = true;
                for (int i = 0; i < 9; i++)
                    wanted &= is_direct(pes[i / 3], pes[i % 3]);
                for (int i = 0; i < 3; i++)
                    assert_int_equal(ask(pes[i], 3, pes), wanted);
                direct += wanted;
            }
    assert_true(direct > PES && direct < PES * PES * PES / 3);
}

static void test_changed_paths(void **state)
{
    int pes[] = {0, 4};
    (void)state;
    assert_true(is_direct(0, 4) && is_direct(4, 0) && ask(4, 2, pes));
    all_pes[4].choices[0].path = PATH_STAGED;
    assert_int_equal(job_gpu_pairs(&all_pes[4].job), WEFT_OK);
    assert_int_equal(job_gpu_pairs(&all_pes[0].job), WEFT_OK);
    assert_false(ask(4, 2, pes));
    assert_false(ask(0, 2, pes));
}

/* Of 10,000 PEs, 8 on each node, a PE keeps 8 bytes, and needs a byte of each PE for a while. */
static void test_bytes(void **state)
{
    enum { MANY = 10000, EACH = 8 };
    struct one_pe *pe = &all_pes[0];
    struct path_choice *choices = __real_calloc(MANY, sizeof *choices);
    int *nodes = __real_calloc(MANY, sizeof *nodes), local[EACH];
    (void)state;
    assert_true(choices && nodes);
    for (int other = 0; other < MANY; other++)
        nodes[other] = other / EACH;
    for (int slot = 0; slot < EACH; slot++)
        local[slot] = slot;
    free(pe->job.gpu_pairs);
    pe->job.gpu_pairs = NULL;
    pe->boot = (struct boot){.ops = &operations,
                             .npes = MANY,
                             .local_npes = EACH,
                             .local_pes = local,
                             .node_of = nodes,
                             .nodes = MANY / EACH};
    pe->job.npes = MANY;
    pe->job.paths.choices[WEFT_GPU] = choices;
    allocated = 0;
    assert_int_equal(job_gpu_pairs_bytes(EACH), 8);
    assert_int_equal(job_gpu_pairs_bytes(9), 18);
    assert_int_equal(job_gpu_pairs(&pe->job), WEFT_OK);
    assert_int_equal(allocated, sizeof(int) * MANY / EACH + 2 + MANY + 8);
    free(pe->job.gpu_pairs);
    pe->job.gpu_pairs = NULL;
    for (size_t left = 0; left < 4; left++) {
        allocations_left = left;
        assert_int_equal(job_gpu_pairs(&pe->job), WEFT_ERR_NO_MEMORY);
    }
    free(choices);
    free(nodes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_same_answer_at_all_members, make_all, free_all),
        cmocka_unit_test_setup_teardown(test_changed_paths, make_all, free_all),
        cmocka_unit_test_setup_teardown(test_bytes, make_all, free_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
