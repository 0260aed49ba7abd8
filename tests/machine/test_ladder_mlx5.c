/* SPDX-License-Identifier: Apache-2.0 */
/* The ladder's rungs for queues and doorbell, over the software HCA: both succeed, the GPU may not
 * map the doorbell, DevX fails for lack of registers, and there is no such device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "driver/mlx5.h"
#include "machine/live/ladder_mlx5.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { REGISTERS_MOST = 8192 };

static struct rung_result queues, doorbell;
static int asked;

/* The register can be written, and the mock gives the result that the test wants. */
static void answer(void *argument, void *reg, struct rung_result *r)
{
    const int *error = argument;
    *(volatile uint64_t *)reg = 0;
    asked++;
    *r = (struct rung_result){.tried = true, .ok = !*error, .error = *error};
    snprintf(r->detail, sizeof r->detail, "asked");
}

static void climb(const char *nic, int error)
{
    struct ladder_doorbell bell = {.try = answer, .argument = &error};
    asked = 0;
    ladder_mlx5(nic, &bell, &queues, &doorbell);
}

static void all_is_had(void **state)
{
    (void)state;
    climb("mlx5_soft0", 0);
    assert_true(queues.tried && queues.ok && doorbell.tried && doorbell.ok);
    assert_int_equal(queues.error, 0);
    assert_int_equal(asked, 1);
    assert_string_equal(queues.detail,
                        "capabilities, own memory and a doorbell register are available");
}

static void the_doorbell_is_refused(void **state)
{
    (void)state;
    climb("mlx5_soft0", EPERM);
    assert_true(queues.ok && doorbell.tried && !doorbell.ok);
    assert_int_equal(doorbell.error, EPERM);
}

static void there_is_no_register(void **state)
{
    static struct mlx5dv_devx_uar *taken[REGISTERS_MOST];
    struct mlx5 lib;
    int n = 0, count = 0;
    (void)state;
    assert_int_equal(mlx5_open(&lib, ""), WEFT_OK);
    struct ibv_device **list = lib.verbs.get_device_list(&n);
    assert_true(list && n > 0);
    struct ibv_context *context = lib.verbs.open_device(list[0]);
    while (count < REGISTERS_MOST && (taken[count] = lib.dv.alloc_uar(context, 0)))
        count++;
    climb("mlx5_soft0", 0);
    assert_true(queues.tried && !queues.ok && !doorbell.tried && !doorbell.ok);
    assert_int_equal(queues.error, ENOMEM);
    assert_int_equal(asked, 0);
    assert_string_equal(queues.detail, "mlx5dv_devx_alloc_uar: Cannot allocate memory");
    assert_string_equal(doorbell.detail, "an earlier step failed");
    while (count)
        lib.dv.free_uar(taken[--count]);
    lib.verbs.close_device(context);
    lib.verbs.free_device_list(list);
    mlx5_close(&lib);
}

static void there_is_no_such_device(void **state)
{
    (void)state;
    climb("mlx5_9", 0);
    assert_true(!queues.tried && !doorbell.tried);
    assert_int_equal(asked, 0);
    assert_string_equal(queues.detail, "libibverbs cannot open the device");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_had),
        cmocka_unit_test(the_doorbell_is_refused),
        cmocka_unit_test(there_is_no_register),
        cmocka_unit_test(there_is_no_such_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
