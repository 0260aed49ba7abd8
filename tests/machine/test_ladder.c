/* SPDX-License-Identifier: Apache-2.0 */
/* The NIC's side of the GPU-NIC ladder, with host memory in place of GPU memory, over the first
 * RDMA device of the machine (soft RoCE is enough); and the message where there is no device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "machine/live/ladder.h"
#include "machine/live/ladder_verbs.h"

static void test_no_device(void **state)
{
    struct rung_result results[RUNGS];
    static char memory[8192];
    assert_int_equal(
        ladder_verbs("no_such_nic", (uintptr_t)memory, sizeof memory, 4096, -1, results),
        WEFT_ERR_UNSUPPORTED);
    assert_true(*weft_last_error());
    for (int i = 0; i < RUNGS; i++)
        assert_false(results[i].tried);
}

/* Without a GPU no rung is recorded. */
static void test_no_gpu(void **state)
{
    struct machine *m;
    assert_int_equal(machine_synthetic("1 h100, nic", &m), WEFT_OK);
    text_set(m, &m->gpus[0].bdf, "ffff:1f:1f.7");
    assert_int_equal(machine_test_gdr(m, 0, "mlx5_0"), WEFT_ERR_UNSUPPORTED);
    assert_int_equal(machine_test_gdr(m, 5, "mlx5_0"), WEFT_ERR_UNSUPPORTED);
    assert_int_equal(m->n_ladder, 0);
    machine_free(m);
}

static void test_loopback(void **state)
{
    struct machine *m = machine_read_live(&(struct machine_source){.root = ""});
    struct rung_result results[RUNGS];
    size_t bytes = 1 << 20;
    const struct machine_port *port =
        m->n_nics ? machine_find_port(m, m->nics[0].name.value) : NULL;
    if (!port || !text_is(port->state, "active")) {
        machine_free(m);
        skip();
    }
    char *memory = aligned_alloc(4096, bytes);
    memset(memory, 0, bytes);
    assert_int_equal(
        ladder_verbs(m->nics[0].name.value, (uintptr_t)memory, bytes, 4096, -1, results), WEFT_OK);
    assert_false(results[RUNG_DMABUF].tried);
    if (!results[RUNG_TRANSFER].ok || !results[RUNG_PEERMEM].ok)
        fail_msg("%s; %s", results[RUNG_PEERMEM].detail, results[RUNG_TRANSFER].detail);
    assert_int_equal(memory[1], (char)(131 + 7));
    assert_true(results[RUNG_SPEED].mbps > 0);
    free(memory);
    machine_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_device),
        cmocka_unit_test(test_no_gpu),
        cmocka_unit_test(test_loopback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
