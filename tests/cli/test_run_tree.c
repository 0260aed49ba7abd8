/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of the agents of `weft run --hosts` (cli/run/tree.c), for many numbers of hosts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "run/hosts.h"

enum { HOSTS_MOST = 1300 };

/* The depth of the tree, as the agents plan it one after the other. */
static int plan_all(int count, int fan_out, int first)
{
    struct run_host *list = calloc((size_t)count + 1, sizeof *list);
    int deepest = 0, children = 0, pes = 0, next = first;
    assert_non_null(list);
    for (int i = 0; i < count; i++) {
        list[i].count = 1 + (first + i) % 3;
        list[i].via = -1;
        pes += list[i].count;
    }
    const int made = run_tree_plan(list, count, fan_out);
    for (int i = 0, below; i < count; i += 1 + below) {
        below = list[i].below;
        assert_int_equal(list[i].member, ++children);
        int its = 0;
        for (int j = i; j <= i + below; j++) {
            assert_int_equal(list[j].via, i);
            assert_true(j == i || !list[j].member);
            its += list[j].count;
            next++;
        }
        assert_int_equal(list[i].npes, its);
        pes -= its;
        const int depth = 1 + plan_all(below, fan_out, first + i + 1);
        deepest = depth > deepest ? depth : deepest;
    }
    assert_int_equal(children, made);
    assert_true(children <= fan_out);
    assert_int_equal(pes, 0);
    assert_int_equal(next, first + count);
    free(list);
    return deepest;
}

static void every_host_has_one_parent(void **state)
{
    static const int fan_outs[] = {1, 2, 3, 8, 32, 64, HOSTS_MOST};
    for (size_t f = 0; f < sizeof fan_outs / sizeof *fan_outs; f++)
        for (int count = 0; count < (fan_outs[f] == 1 ? 20 : HOSTS_MOST); count += 1 + count / 9)
            assert_int_equal(plan_all(count, fan_outs[f], 0), run_tree_levels(count, fan_outs[f]));
    assert_int_equal(run_tree_levels(32, 32), 1);
    assert_int_equal(run_tree_levels(33, 32), 2);
    assert_int_equal(run_tree_levels(1056, 32), 2);
    assert_int_equal(run_tree_levels(1057, 32), 3);
}

/* The launcher's list has what each agent plans for those below it. */
static void hosts_below_are_known_at_the_launcher(void **state)
{
    struct run_host list[100] = {{0}}, own[100] = {{0}};
    run_tree_plan(list, 100, 4);
    for (int i = 0; i < 100; i++) {
        run_tree_plan(own, list[i].below, 4);
        for (int j = 0; j < list[i].below; j++)
            assert_int_equal(own[j].below, list[i + 1 + j].below);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_host_has_one_parent),
        cmocka_unit_test(hosts_below_are_known_at_the_launcher),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
