/* SPDX-License-Identifier: Apache-2.0 */
/* The whole ladder of a GPU and an mlx5 adapter, over the CUDA stand-in and the software HCA. A
 * driver that refuses to map the doorbell page is reported as GDA-UAR, an adapter that refuses
 * queues as GDA-DEVX; without these faults neither is reported. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "driver/mlx5.h"
#include "machine/checks/explain.h"
#include "machine/live/ladder.h"

enum { REGISTERS_MOST = 8192 };

static bool told(enum reason reason, const char *registers)
{
    static struct verdict v;
    bool yes = false;
    struct machine *m = machine_new("made");
    struct machine_gpu *gpu = machine_add_gpu(m);
    number_set(&gpu->index, 0);
    text_set(m, &gpu->vendor, "nvidia");
    text_set(m, &gpu->bdf, "0000:10:00.0");
    struct machine_nic *nic = machine_add_nic(m);
    text_set(m, &nic->name, "mlx5_soft0");
    text_set(m, &nic->driver, "mlx5_core");
    setenv("FAKE_CUDA_REGISTER", registers, 1);
    if (machine_test_gdr(m, 0, "mlx5_soft0"))
        fail_msg("%s", weft_last_error());
    assert_non_null(machine_find_rung(m, 0, "mlx5_soft0", "doorbell"));
    assert_non_null(machine_find_rung(m, 0, "mlx5_soft0", "queues"));
    assert_int_equal(explain_pair(m, "gpu0", "mlx5_soft0", &v), WEFT_OK);
    for (int i = 0; i < v.findings.n; i++)
        yes |= v.findings.list[i].reason == reason;
    verdict_free(&v);
    machine_free(m);
    return yes;
}

static void test_doorbell(void **state)
{
    (void)state;
    assert_false(told(REASON_GDA_UAR, "1"));
    assert_true(told(REASON_GDA_UAR, "0"));
}

/* Another user holds all doorbell registers: the adapter refuses queues to this process. */
static void test_queues(void **state)
{
    static struct mlx5dv_devx_uar *taken[REGISTERS_MOST];
    struct mlx5 lib;
    int n = 0, count = 0;
    (void)state;
    assert_false(told(REASON_GDA_DEVX, "1"));
    assert_int_equal(mlx5_open(&lib, ""), WEFT_OK);
    struct ibv_device **list = lib.verbs.get_device_list(&n);
    assert_true(list && n > 0);
    struct ibv_context *context = lib.verbs.open_device(list[0]);
    while (count < REGISTERS_MOST && (taken[count] = lib.dv.alloc_uar(context, 0)))
        count++;
    assert_true(told(REASON_GDA_DEVX, "1"));
    while (count)
        lib.dv.free_uar(taken[--count]);
    lib.verbs.close_device(context);
    lib.verbs.free_device_list(list);
    mlx5_close(&lib);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_doorbell),
                                       cmocka_unit_test(test_queues)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
