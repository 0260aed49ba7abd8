/* SPDX-License-Identifier: Apache-2.0 */
/* The whole ladder of a GPU and an mlx5 adapter, over the stand-in of CUDA and the software HCA: a driver
 * that does not take the doorbell's page is told as GDA-UAR, and one that does is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "machine/explain.h"
#include "machine/ladder.h"

static bool told(const char *registers)
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
    if (machine_climb(m, 0, "mlx5_soft0"))
        fail_msg("%s", weft_last_error());
    assert_non_null(machine_find_rung(m, 0, "mlx5_soft0", "doorbell"));
    assert_int_equal(explain_pair(m, "gpu0", "mlx5_soft0", &v), WEFT_OK);
    for (int i = 0; i < v.findings.n; i++)
        yes |= v.findings.list[i].reason == REASON_GDA_UAR;
    verdict_free(&v);
    machine_free(m);
    return yes;
}

static void test_doorbell(void **state)
{
    (void)state;
    assert_false(told("1"));
    assert_true(told("0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_doorbell)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
