/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives on GPU memory: which teams kernels serve, what the members exchange at the first
 * collective, and limits of SMs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/coll_kernel.h"

/* --------------------------------------------------------------------------------- which teams */

static void kernels_serve_teams_of_gpus_that_reach_each_other(void **state)
{
    (void)state;
    assert_true(coll_kernel_serves(&team));
    team.slot = COLL_TEAMS - 1;
    assert_true(coll_kernel_serves(&team));
    team.slot = COLL_TEAMS;
    assert_false(coll_kernel_serves(&team));
    team.slot = 2;
    gpu.layout.coll.teams = 2;
    assert_false(coll_kernel_serves(&team));
    gpu.layout.coll.teams = 3;
    assert_true(coll_kernel_serves(&team));
    team.slot = 0;
    job.gpu = NULL;
    assert_false(coll_kernel_serves(&team));
    job.gpu = &gpu;
    for (int choice = 0; choice < 3; choice++) {
        beneath.choices[CONFIG_TARGET] = choice;
        assert_int_equal(coll_kernel_serves(&team), choice != 2);
    }
    beneath.choices[CONFIG_TARGET] = 1;
    beneath.choices[CONFIG_COLL] = COLL_ALGO_COPIES;
    assert_false(coll_kernel_serves(&team));
    beneath.choices[CONFIG_COLL] = COLL_ALGO_ENGINES;
    assert_true(coll_kernel_serves(&team));
    beneath.not_direct = true;
    assert_false(coll_kernel_serves(&team));
}

static void every_member_must_be_on_this_node(void **state)
{
    (void)state;
    for (int i = 0; i < MEMBERS; i++) {
        int pe = pes[i];
        pes[i] = OTHER_NODE;
        assert_false(coll_kernel_serves(&team));
        pes[i] = pe;
    }
    pes[MEMBERS] = 4;
    team.n = COLL_MEMBERS;
    assert_true(coll_kernel_serves(&team));
    team.n = COLL_MEMBERS + 1;
    assert_false(coll_kernel_serves(&team));
}

static void a_team_forced_to_copies_is_not_served(void **state)
{
    (void)state;
    assert_int_equal(coll_kernel_force(&team, COLL_ALGO_COPIES, 8), WEFT_OK);
    assert_non_null(team.coll);
    assert_false(coll_kernel_serves(&team));
    assert_int_equal(coll_kernel_force(&team, COLL_ALGO_SIMPLE, 8), WEFT_OK);
    assert_true(coll_kernel_serves(&team));
    assert_int_equal(beneath.exchanges, 1);
}

static void a_team_that_is_not_served_agrees_on_nothing(void **state)
{
    (void)state;
    beneath.not_direct = true;
    assert_int_equal(coll_kernel_force(&team, COLL_ALGO_SIMPLE, 8), WEFT_OK);
    assert_null(team.coll);
    assert_null(coll_kernel_rates(&team));
    assert_false(coll_kernel_ll128(&team));
    assert_int_equal(beneath.exchanges, 0);
}

/* ------------------------------------------------------------------------------------ agreement */

static void members_exchange_what_they_have(void **state)
{
    (void)state;
    beneath.choices[CONFIG_COLL] = COLL_ALGO_LL128;
    bool pays;
    assert_int_equal(coll_kernel_is_faster(&team, 1, &pays), WEFT_OK);
    assert_int_equal(beneath.sent.status, WEFT_OK);
    assert_int_equal(beneath.sent.most_blocks, 16);
    assert_int_equal(beneath.sent.forced, COLL_ALGO_LL128);
    assert_int_equal(beneath.sent.has, 3);
    assert_int_equal(beneath.sent.number, 40);
    assert_int_equal(beneath.sent.rates, coll_rates_hash(&file_rates));
    assert_int_equal(beneath.sent.rates_agree, 1);
    assert_int_equal(beneath.begun_at, 42);
    assert_int_equal(beneath.proofs, 1);
    assert_int_equal(beneath.proof_blocks, 16);
    assert_int_equal(beneath.proof.record.operation, WEFT_DEV_OP_ALLTOALL);
    assert_int_equal(beneath.proof.members, MEMBERS);
    assert_true(coll_kernel_ll128(&team));
    assert_memory_equal(coll_kernel_rates(&team), &file_rates, sizeof file_rates);
    assert_int_equal(beneath.warnings + beneath.debugs, 0);
    assert_string_equal(beneath.machine.gpu, "some GPU");
    assert_int_equal(beneath.machine.gpus, 3);
    assert_int_equal(beneath.machine.driver, 13010);
    coll_kernel_choice(&team, &(struct coll_request){.what = COLL_ALLGATHER}, true);
    assert_int_equal(beneath.question.forced, COLL_ALGO_LL128);
    assert_int_equal(beneath.question.most_blocks, 16);
}

static void what_a_member_lacks_it_does_not_offer(void **state)
{
    (void)state;
    map.backend = NULL;
    bool pays;
    assert_int_equal(coll_kernel_is_faster(&team, 1, &pays), WEFT_OK);
    assert_int_equal(beneath.sent.has, 2);
    free(team.coll);
    team.coll = NULL;
    map.backend = some_way;
    beneath.proofs_off = true;
    assert_int_equal(coll_kernel_is_faster(&team, 1, &pays), WEFT_OK);
    assert_int_equal(beneath.sent.has, 1);
    assert_int_equal(beneath.proofs, 1);
    assert_false(coll_kernel_ll128(&team));
    assert_int_equal(beneath.debugs, 0); /* only member 0 reports */
}

static void first_has_fewer_blocks(void *all, size_t bytes)
{
    (void)bytes;
    struct sent *of = all;
    of[0].most_blocks = 4;
    of[0].number = 90;
    of[1].number = 30;
    of[2].number = 70;
}

static void last_has_fewest_blocks(void *all, size_t bytes)
{
    first_has_fewer_blocks(all, bytes);
    struct sent *of = all;
    of[2].most_blocks = 2;
    of[2].number = 91;
    of[3].most_blocks = 1; /* beyond the last member */
    of[3].number = 1000;
}

static void fewest_blocks_and_highest_number_count(void **state)
{
    (void)state;
    static const struct {
        void (*patch)(void *, size_t);
        int blocks;
        uint64_t number;
    } rows[] = {{first_has_fewer_blocks, 4, 90}, {last_has_fewest_blocks, 2, 91}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool pays;
        beneath.patch = rows[i].patch;
        assert_int_equal(coll_kernel_is_faster(&team, 1, &pays), WEFT_OK);
        assert_int_equal(beneath.begun_at, rows[i].number + 2);
        assert_int_equal(beneath.proof_blocks, rows[i].blocks);
        coll_kernel_choice(&team, &(struct coll_request){.what = COLL_ALLGATHER}, true);
        assert_int_equal(beneath.question.most_blocks, rows[i].blocks);
        free(team.coll);
        team.coll = NULL;
    }
}

static void last_wants_another_way(void *all, size_t bytes)
{
    (void)bytes;
    ((struct sent *)all)[2].forced = COLL_ALGO_LL;
}

static void second_wants_another_way(void *all, size_t bytes)
{
    (void)bytes;
    ((struct sent *)all)[1].forced = COLL_ALGO_LL;
}

static void beyond_the_last_wants_another_way(void *all, size_t bytes)
{
    (void)bytes;
    ((struct sent *)all)[3].forced = COLL_ALGO_LL;
}

static void different_wishes_are_none(void **state)
{
    (void)state;
    void (*const patches[])(void *, size_t) = {second_wants_another_way, last_wants_another_way,
                                               beyond_the_last_wants_another_way};
    for (int i = 0; i < 3; i++) {
        bool pays;
        beneath.choices[CONFIG_COLL] = COLL_ALGO_SIMPLE;
        beneath.patch = patches[i];
        assert_int_equal(coll_kernel_is_faster(&team, 1, &pays), WEFT_OK);
        coll_kernel_choice(&team, &(struct coll_request){.what = COLL_ALLGATHER}, true);
        assert_int_equal(beneath.question.forced, i == 2 ? COLL_ALGO_SIMPLE : COLL_ALGO_AUTO);
        free(team.coll);
        team.coll = NULL;
    }
}

static void last_maps_nothing(void *all, size_t bytes)
{
    (void)bytes;
    ((struct sent *)all)[2].has = 2;
}

static void first_makes_no_proofs(void *all, size_t bytes)
{
    (void)bytes;
    ((struct sent *)all)[0].has = 1;
}

static void all_members_must_have_it(void **state)
{
    (void)state;
    bool pays = true;
    beneath.patch = first_makes_no_proofs;
    assert_int_equal(coll_kernel_is_faster(&team, 1, &pays), WEFT_OK);
    assert_false(pays); /* the CPU's loads are faster */
    assert_int_equal(beneath.proofs, 0);
    assert_false(coll_kernel_ll128(&team));
    free(team.coll);
    team.coll = NULL;
    beneath.patch = last_maps_nothing;
    assert_int_equal(coll_kernel_is_faster(&team, 1, &pays), WEFT_OK);
    assert_true(pays);
    assert_int_equal(beneath.proofs, 1);
}

static void kernels_pay_for_many_bytes_or_members(void **state)
{
    (void)state;
    static const struct {
        int members;
        uint64_t bytes;
        bool pays;
    } rows[] = {{3, 1, false}, {3, 1024, false}, {3, 1025, true}, {8, 9, false}, {9, 9, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool pays = !rows[i].pays;
        team.n = rows[i].members;
        pes[MEMBERS] = 4;
        assert_int_equal(coll_kernel_is_faster(&team, rows[i].bytes, &pays), WEFT_OK);
        assert_int_equal(pays, rows[i].pays);
    }
    assert_int_equal(beneath.exchanges, 1);
}

static void first_has_other_rates(void *all, size_t bytes)
{
    (void)bytes;
    ((struct sent *)all)[0].rates++;
}

static void last_has_other_rates(void *all, size_t bytes)
{
    (void)bytes;
    ((struct sent *)all)[2].rates++;
}

static void one_saw_different_rates(void *all, size_t bytes)
{
    (void)bytes;
    ((struct sent *)all)[2].rates_agree = 1; /* this member saw no other rates than its own */
    ((struct sent *)all)[3].rates = 5;
}

static void different_rates_give_way_to_those_built_in(void **state)
{
    (void)state;
    void (*const patches[])(void *, size_t) = {first_has_other_rates, last_has_other_rates,
                                               one_saw_different_rates};
    for (int i = 0; i < 6; i++) {
        bool pays;
        memset(scratch, 0, sizeof scratch);
        beneath.warnings = 0;
        beneath.patch = patches[i % 3];
        team.me = i / 3 ? 0 : ME;
        assert_int_equal(coll_kernel_is_faster(&team, 1, &pays), WEFT_OK);
        assert_memory_equal(coll_kernel_rates(&team),
                            i % 3 == 2 ? &file_rates : &coll_rates_built_in, sizeof file_rates);
        assert_int_equal(beneath.warnings, team.me == 0 && i % 3 != 2);
        free(team.coll);
        team.coll = NULL;
    }
}

static void member_0_reports_which_rates_serve(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        bool pays;
        team.me = i % 2;
        beneath.warnings = beneath.debugs = 0;
        snprintf(beneath.why_not, sizeof beneath.why_not, "%s", i / 2 == 1 ? "it is torn" : "");
        snprintf(beneath.own_rates, sizeof beneath.own_rates, "%s", i / 2 == 2 ? "/a/file" : "");
        assert_int_equal(coll_kernel_is_faster(&team, 1, &pays), WEFT_OK);
        assert_int_equal(beneath.warnings, i == 2);
        assert_int_equal(beneath.debugs, i / 2 == 2);
        if (i == 2)
            assert_non_null(strstr(beneath.line, "it is torn"));
        if (i / 2 == 2)
            assert_non_null(strstr(beneath.line, "/a/file, measured 2026-11-23"));
        free(team.coll);
        team.coll = NULL;
    }
}

static void lines_serve_as_many_blocks_as_were_proven(void **state)
{
    (void)state;
    make_ready();
    assert_true(coll_kernel_ll128(&team));
    assert_int_equal(coll_kernel_force(&team, COLL_ALGO_AUTO, 8), WEFT_OK);
    assert_true(coll_kernel_ll128(&team));
    assert_int_equal(coll_kernel_force(&team, COLL_ALGO_AUTO, 32), WEFT_OK);
    assert_false(coll_kernel_ll128(&team));
    free(team.coll);
    team.coll = NULL;
    beneath.torn = true;
    assert_int_equal(coll_kernel_force(&team, COLL_ALGO_AUTO, 0), WEFT_OK);
    assert_false(coll_kernel_ll128(&team));
}

static void without_sms_one_block_proves_lines(void **state)
{
    (void)state;
    beneath.ints[CONFIG_COLL_SMS] = 0;
    bool pays;
    assert_int_equal(coll_kernel_is_faster(&team, 1, &pays), WEFT_OK);
    assert_int_equal(beneath.proof_blocks, 1);
    assert_true(coll_kernel_ll128(&team));
    coll_kernel_choice(&team, &(struct coll_request){.what = COLL_ALLGATHER}, true);
    assert_int_equal(beneath.question.most_blocks, 0);
}

static void one_member_has_nobody_to_prove_lines_with(void **state)
{
    (void)state;
    static const struct {
        int n, me, debugs;
        bool off;
    } rows[] = {{1, 0, 0, false}, {1, 0, 0, true}, {2, 0, 1, true}, {2, 1, 0, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        beneath.debugs = beneath.proofs = 0;
        beneath.proofs_off = rows[i].off;
        team.n = rows[i].n;
        team.me = rows[i].me;
        make_ready();
        assert_int_equal(beneath.proofs, 0);
        assert_false(coll_kernel_ll128(&team));
        assert_int_equal(beneath.debugs, rows[i].debugs);
        free(team.coll);
        team.coll = NULL;
    }
    beneath.proofs_off = false;
    team.n = 2;
    make_ready();
    assert_int_equal(beneath.proofs, 1);
}

/* ------------------------------------------------------------------------------------- failures */

static void a_step_that_fails_is_what_all_members_hear(void **state)
{
    (void)state;
    static const enum call steps[] = {CALL_READY, CALL_NUMBER, CALL_WATCH};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        char words[32];
        beneath.fails = steps[i];
        snprintf(words, sizeof words, "call %d failed", (int)steps[i]);
        assert_int_equal(coll_kernel_force(&team, COLL_ALGO_AUTO, 8), WEFT_ERR_SYSTEM);
        assert_string_equal(base_last_error(), words);
        assert_int_equal(beneath.exchanges, i + 1);
        assert_int_equal(beneath.sent.status, WEFT_ERR_SYSTEM);
        assert_int_equal(beneath.begins, 0);
        assert_null(team.coll);
    }
    beneath.fails = CALL_NONE;
    callocs.left = 0;
    assert_int_equal(coll_kernel_force(&team, COLL_ALGO_AUTO, 8), WEFT_ERR_NO_MEMORY);
    callocs.left = -1;
    assert_int_equal(beneath.sent.status, WEFT_ERR_NO_MEMORY);
    beneath.ints[CONFIG_COLL_SMS] = -1;
    assert_int_equal(coll_kernel_force(&team, COLL_ALGO_AUTO, 8), WEFT_ERR_CONFIG);
    assert_non_null(strstr(base_last_error(), "WEFT_COLL_SMS is -1"));
    assert_int_equal(beneath.sent.status, WEFT_ERR_CONFIG);
    assert_int_equal(beneath.begins, 0);
    assert_int_equal(beneath.proofs, 0);
    assert_int_equal(beneath.debugs, 0);
}

static void a_step_behind_the_exchange_that_fails_ends_it(void **state)
{
    (void)state;
    static const struct {
        enum call step;
        int begins, proofs;
    } rows[] = {{CALL_EXCHANGE, 0, 0}, {CALL_BEGIN_AT, 1, 0}, {CALL_PROVE, 1, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        beneath.begins = beneath.proofs = 0;
        beneath.fails = rows[i].step;
        assert_int_equal(coll_kernel_force(&team, COLL_ALGO_AUTO, 8), WEFT_ERR_SYSTEM);
        assert_int_equal(beneath.begins, rows[i].begins);
        assert_int_equal(beneath.proofs, rows[i].proofs);
        assert_null(team.coll);
    }
}

static void two_fail(void *all, size_t bytes)
{
    (void)bytes;
    ((struct sent *)all)[0].status = WEFT_ERR_NO_PATH;
    ((struct sent *)all)[2].status = WEFT_ERR_NO_MEMORY;
}

static void last_fails(void *all, size_t bytes)
{
    (void)bytes;
    ((struct sent *)all)[2].status = WEFT_ERR_NO_MEMORY;
    ((struct sent *)all)[3].status = WEFT_ERR_SYSTEM;
}

static void the_first_member_that_fails_is_named(void **state)
{
    (void)state;
    beneath.patch = two_fail;
    assert_int_equal(coll_kernel_force(&team, COLL_ALGO_AUTO, 8), WEFT_ERR_NO_PATH);
    assert_non_null(strstr(base_last_error(), "PE 4 "));
    beneath.patch = last_fails;
    assert_int_equal(coll_kernel_force(&team, COLL_ALGO_AUTO, 8), WEFT_ERR_NO_MEMORY);
    assert_non_null(strstr(base_last_error(), "PE 7 "));
    beneath.fails = CALL_EXCHANGE;
    assert_int_equal(coll_kernel_force(&team, COLL_ALGO_AUTO, 8), WEFT_ERR_SYSTEM);
    beneath.fails = CALL_WATCH; /* the member's own failure has precedence */
    assert_int_equal(coll_kernel_force(&team, COLL_ALGO_AUTO, 8), WEFT_ERR_SYSTEM);
    assert_string_equal(base_last_error(), "call 3 failed");
    assert_null(team.coll);
    bool pays = false;
    assert_int_equal(coll_kernel_is_faster(&team, 1, &pays), WEFT_ERR_SYSTEM);
    assert_true(pays);
}

/* --------------------------------------------------------------------------------------- limits */

static int32_t limits[MEMBERS + 1];

static void others_limit(void *all, size_t bytes)
{
    if (bytes != sizeof *limits)
        return;
    for (int i = 0; i <= MEMBERS; i++)
        if (limits[i] != 99)
            ((int32_t *)all)[i] = limits[i];
}

static int limit_now(void)
{
    coll_kernel_choice(&team, &(struct coll_request){.what = COLL_ALLGATHER}, true);
    return beneath.question.most_blocks;
}

static void the_lowest_limit_of_sms_counts(void **state)
{
    (void)state;
    static const struct {
        int sms, of[MEMBERS + 1], blocks;
    } rows[] = {{5, {99, 99, 99, 99}, 4},  {-1, {99, 99, 99, 99}, 16}, {0, {99, 99, 99, 99}, 0},
                {64, {8, 99, 99, 99}, 8},  {64, {99, 99, 2, 99}, 2},   {8, {16, 99, 32, 1}, 8},
                {32, {99, 99, 99, -1}, 32}};
    beneath.patch = others_limit;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        memcpy(limits, rows[i].of, sizeof limits);
        assert_int_equal(coll_kernel_limit(&team, rows[i].sms), WEFT_OK);
        assert_int_equal(limit_now(), rows[i].blocks);
    }
}

static void less_than_no_sms_are_refused_at_all_members(void **state)
{
    (void)state;
    static const struct {
        int sms, of[MEMBERS + 1];
        const char *words;
    } rows[] = {{-2, {99, 99, 99, 99}, "weft_team_limit_sms: -2 SMs"},
                {-2, {99, 99, -1, 99}, "weft_team_limit_sms: -2 SMs"},
                {4, {-1, 99, -1, 99}, "PE 4 passed"},
                {4, {99, 99, -1, -1}, "PE 7 passed"}};
    beneath.patch = others_limit;
    make_ready();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        memcpy(limits, rows[i].of, sizeof limits);
        assert_int_equal(coll_kernel_limit(&team, rows[i].sms), WEFT_ERR_ARGUMENT);
        assert_non_null(strstr(base_last_error(), rows[i].words));
        assert_int_equal(limit_now(), 16);
    }
    memcpy(limits, (int32_t[]){99, 99, 99, 99}, sizeof limits);
    beneath.fails = CALL_EXCHANGE;
    assert_int_equal(coll_kernel_limit(&team, 4), WEFT_ERR_SYSTEM);
    assert_int_equal(limit_now(), 16);
}

static void a_limit_makes_ready_the_teams_that_kernels_serve(void **state)
{
    (void)state;
    beneath.not_direct = true;
    assert_int_equal(coll_kernel_limit(&team, 4), WEFT_OK);
    /* The exchange of the limit. All members fail in it, or none does. */
    assert_int_equal(beneath.exchanges, 1);
    assert_null(team.coll);
    beneath.not_direct = false;
    beneath.fails = CALL_READY;
    assert_int_equal(coll_kernel_limit(&team, 4), WEFT_ERR_SYSTEM);
    assert_int_equal(beneath.exchanges, 2);
    beneath.fails = CALL_NONE;
    assert_int_equal(coll_kernel_limit(&team, 4), WEFT_OK);
    assert_int_equal(beneath.exchanges, 4);
    assert_int_equal(coll_kernel_limit(&team, 4), WEFT_OK);
    assert_int_equal(beneath.exchanges, 5);
}

static void a_member_limits_its_next_calls_within_the_limit(void **state)
{
    (void)state;
    static const int rows[][2] = {{4, 4}, {5, 4}, {64, 16}, {0, 0}, {1, 1}, {-1, 16}};
    make_ready();
    int exchanges = beneath.exchanges;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(coll_kernel_use(&team, rows[i][0]), WEFT_OK);
        assert_int_equal(limit_now(), rows[i][1]);
    }
    assert_int_equal(coll_kernel_use(&team, -2), WEFT_ERR_ARGUMENT);
    assert_non_null(strstr(base_last_error(), "weft_team_use_sms: -2 SMs"));
    assert_int_equal(limit_now(), 16);
    assert_int_equal(beneath.exchanges, exchanges);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kernels_serve_teams_of_gpus_that_reach_each_other, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(every_member_must_be_on_this_node, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_team_forced_to_copies_is_not_served, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_team_that_is_not_served_agrees_on_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(members_exchange_what_they_have, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_a_member_lacks_it_does_not_offer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fewest_blocks_and_highest_number_count, set_up, tear_down),
        cmocka_unit_test_setup_teardown(different_wishes_are_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_members_must_have_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(kernels_pay_for_many_bytes_or_members, set_up, tear_down),
        cmocka_unit_test_setup_teardown(different_rates_give_way_to_those_built_in, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(member_0_reports_which_rates_serve, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lines_serve_as_many_blocks_as_were_proven, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(without_sms_one_block_proves_lines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_member_has_nobody_to_prove_lines_with, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_step_that_fails_is_what_all_members_hear, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_step_behind_the_exchange_that_fails_ends_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_first_member_that_fails_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_lowest_limit_of_sms_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(less_than_no_sms_are_refused_at_all_members, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_member_limits_its_next_calls_within_the_limit, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_limit_makes_ready_the_teams_that_kernels_serve, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
