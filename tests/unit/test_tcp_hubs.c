/* SPDX-License-Identifier: Apache-2.0 */
/* A PE with one hub for its job and one for its node: which hub each operation uses, and that the
 * end of the job that one hub reports is passed to the other. */
#include "tests/unit/tcp.h"

static void one_hub_or_two(void **state)
{
    (void)state;
    for (int two = 0; two < 2; two++) {
        int taken, mine = 1, all;
        reset("1");
        os.several = two;
        struct boot *boot = opened();
        assert_int_equal(os.locals, two);
        if (!two)
            node = world;
        assert_int_equal(boot->ops->allgather(boot, &mine, &all, 7), WEFT_OK);
        assert_int_equal(boot->ops->barrier(boot), WEFT_OK);
        assert_int_equal(boot->ops->share_fd(boot, 2, 3, &taken), WEFT_OK);
        assert_int_equal(taken, 203);
        boot->ops->abort(boot, 5, "enough");
        boot->ops->forked(boot);
        (boot->ops->fail)(boot, WEFT_ERR_PATH, "broken");
        for (int i = 0; i < 4; i++)
            assert_int_equal(boot->ops->check(boot), WEFT_OK);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(os.aborted[i], i == 0 || two);
            assert_int_equal(os.forked[i], i == 0 || two);
            assert_int_equal(os.failed[i], i == 0 || two);
            assert_int_equal(os.checks[i], two ? 2 : i == 0 ? 4 : 0); /* alternating */
        }
        assert_int_equal(os.fail_status, WEFT_ERR_PATH);
        assert_string_equal(os.said, "broken");
        if (!two)
            node = NULL;
        closed(boot);
    }
}

static void an_end_is_passed_on(void **state)
{
    static const struct {
        bool at_node;      /* the end arrives at the node's hub */
        weft_status other; /* status that the other hub has already */
        bool inferred, inferred_other;
        bool passed_on;
    } rows[] = {{false, 0, false, false, true},
                {true, 0, false, false, true},
                {false, WEFT_ERR_PATH, true, true, false},
                {true, WEFT_ERR_PATH, true, true, false},
                {false, WEFT_ERR_PATH, false, false, false},
                {true, WEFT_ERR_PATH, true, false, false},
                {false, WEFT_ERR_PATH, false, true, true}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int call = 0; call < 3; call++) {
            int taken, here = rows[i].at_node;
            reset("1");
            os.several = 1;
            struct boot *boot = opened();
            os.status[here] = WEFT_ERR_TIMEOUT;
            os.status[!here] = rows[i].other;
            (here ? node : world)->inferred = rows[i].inferred;
            (here ? world : node)->inferred = rows[i].inferred_other;
            weft_status status;
            if (call == 0) {
                if (here)
                    boot->ops->check(boot); /* the first check looks at the job's hub */
                os.failed[0] = os.failed[1] = 0;
                status = boot->ops->check(boot);
            } else if (here) {
                status = boot->ops->share_fd(boot, 2, 3, &taken);
            } else {
                status = call == 1 ? boot->ops->barrier(boot)
                                   : boot->ops->allgather(boot, &taken, &taken, 1);
            }
            assert_int_equal(status, rows[i].passed_on ? WEFT_ERR_TIMEOUT : WEFT_ERR_PATH);
            assert_int_equal(os.failed[here], 0);
            assert_int_equal(os.failed[!here], rows[i].passed_on);
            if (rows[i].passed_on) {
                assert_int_equal(os.fail_status, WEFT_ERR_TIMEOUT);
                assert_memory_equal(os.said, here ? "node" : "job", 3);
                assert_string_equal(base_last_error(), os.said);
            }
            closed(boot);
        }
    reset(NULL);
    set("WORLD_SIZE", NULL);
    set("MASTER_ADDR", NULL);
    set("MASTER_PORT", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_hub_or_two),
        cmocka_unit_test(an_end_is_passed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
