/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU-NIC ladder over the stand-ins of libibverbs and of the CUDA driver: a successful run, and
 * for each call that can fail, the failing rung and its message; no resource is left open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "driver/gpu_api.h"
#include "machine/checks/explain.h"
#include "machine/live/ladder.h"
#include "machine/live/ladder_verbs.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 16, CHECKED = 4096 };

static char memory[BYTES] __attribute__((aligned(4096)));
static struct rung_result results[RUNGS];
static int (*verbs_live)(void), (*cuda_live)(void);

static int set_up(void **state)
{
    (void)state;
    void *verbs = dlopen("libibverbs.so.1", RTLD_NOW), *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!verbs || !driver)
        return -1;
    *(void **)&verbs_live = dlsym(verbs, "fake_verbs_live");
    *(void **)&cuda_live = dlsym(driver, "fake_cuda_live");
    return verbs_live && cuda_live ? 0 : -1;
}

static int plain(void **state)
{
    (void)state;
    static const char *const names[] = {"FAKE_VERBS_FAIL", "FAKE_VERBS_LINK",    "FAKE_VERBS_GID",
                                        "FAKE_VERBS_LIE",  "FAKE_VERBS_DEVICES", "FAKE_CUDA_DMABUF",
                                        "FAKE_CUDA_RDMA"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
    gpu_api_fault_plan(NULL, 0, 0);
    return 0;
}

static weft_status climb(const char *nic, int dmabuf)
{
    memset(memory, 0, sizeof memory);
    weft_status status =
        ladder_verbs(nic, (uintptr_t)memory, sizeof memory, CHECKED, dmabuf, results);
    assert_int_equal(verbs_live(), 0);
    return status;
}

static void assert_rung(int rung, bool tried, int error, const char *detail)
{
    const struct rung_result *r = &results[rung];
    if (r->tried != tried || r->error != error || r->ok != (tried && !error) ||
        strcmp(r->detail, detail) != 0)
        fail_msg("rung %d: tried %d, ok %d, error %d: %s\n   expected: %s", rung, r->tried, r->ok,
                 r->error, r->detail, detail);
}

/* ------------------------------------------------------------------------------ the NIC's side */

static void assert_good_transfer(void)
{
    assert_rung(RUNG_TRANSFER, true, 0, "4096 bytes written and read back correctly");
    assert_rung(RUNG_SPEED, true, 0, "RDMA writes from host memory, looped back in the NIC");
    assert_true(results[RUNG_SPEED].mbps > 0);
    for (int i = 0; i < CHECKED; i++)
        assert_int_equal(memory[i], (char)(i * 131 + 7));
}

static void test_good(void **state)
{
    (void)state;
    assert_int_equal(climb("mlx5_0", -1), WEFT_OK);
    assert_rung(RUNG_DMABUF, false, 0, "there is no dma-buf to register");
    assert_rung(RUNG_PEERMEM, true, 0, "ibv_reg_mr of GPU memory");
    assert_good_transfer();
    assert_int_equal(climb("mlx5_0", 0), WEFT_OK);
    assert_rung(RUNG_DMABUF, true, 0, "ibv_reg_dmabuf_mr");
    assert_rung(RUNG_PEERMEM, true, 0, "ibv_reg_mr of GPU memory");
    assert_good_transfer();
}

/* Ethernet has no LIDs: the test uses the valid GID, wherever it is in the table. */
static void test_ethernet(void **state)
{
    (void)state;
    setenv("FAKE_VERBS_LINK", "ethernet", 1);
    for (int gid = 0; gid < 4; gid++) {
        char text[16];
        snprintf(text, sizeof text, "%d", gid);
        setenv("FAKE_VERBS_GID", text, 1);
        assert_int_equal(climb("mlx5_0", -1), WEFT_OK);
        assert_good_transfer();
    }
    setenv("FAKE_VERBS_GID", "-1", 1);
    assert_int_equal(climb("mlx5_0", -1), WEFT_OK);
    assert_rung(RUNG_TRANSFER, true, ENODEV,
                "ibv_query_gid finds no GID at port 1: No such device");
}

static void test_one_way_is_enough(void **state)
{
    (void)state;
    setenv("FAKE_VERBS_FAIL", "reg_gpu=14", 1);
    assert_int_equal(climb("mlx5_0", 0), WEFT_OK);
    assert_rung(RUNG_DMABUF, true, 0, "ibv_reg_dmabuf_mr");
    assert_rung(RUNG_PEERMEM, true, EFAULT, "ibv_reg_mr of GPU memory: Bad address");
    assert_good_transfer();
    setenv("FAKE_VERBS_FAIL", "reg_dmabuf_mr=95", 1);
    assert_int_equal(climb("mlx5_0", 0), WEFT_OK);
    assert_rung(RUNG_DMABUF, true, EOPNOTSUPP, "ibv_reg_dmabuf_mr: Operation not supported");
    assert_good_transfer();
    setenv("FAKE_VERBS_FAIL", "reg_gpu=14", 1);
    assert_int_equal(climb("mlx5_0", -1), WEFT_OK);
    assert_rung(RUNG_TRANSFER, false, 0, "an earlier step failed");
    assert_rung(RUNG_SPEED, false, 0, "an earlier step failed");
}

/* Each failure of a call on the data path is reported with the call and its errno, without a
 * rate. */
static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *fail;
        int error;
        const char *detail;
    } rows[] = {
        {"reg_host=12", ENOMEM, "ibv_reg_mr of host memory: Cannot allocate memory"},
        {"query_port=5", EIO, "ibv_query_port: Input/output error"},
        {"create_cq=12", ENOMEM, "ibv_create_cq: Cannot allocate memory"},
        {"create_qp=22", EINVAL, "ibv_create_qp: Invalid argument"},
        {"to_init=22", EINVAL, "ibv_modify_qp: Invalid argument"},
        {"to_receive=110", ETIMEDOUT, "ibv_modify_qp: Connection timed out"},
        {"to_send=1", EPERM, "ibv_modify_qp: Operation not permitted"},
        {"post_send=12", ENOMEM, "ibv_post_send: Cannot allocate memory"},
        {"completion=129", EIO,
         "completion: remote access error, vendor syndrome 0x81: Input/output error"},
        {"poll_cq=5", EIO, "wait for a completion: Input/output error"},
        {"silence=0", ETIMEDOUT, "wait for a completion: Connection timed out"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        setenv("FAKE_VERBS_FAIL", rows[i].fail, 1);
        assert_int_equal(climb("mlx5_0", -1), WEFT_OK);
        assert_rung(RUNG_PEERMEM, true, 0, "ibv_reg_mr of GPU memory");
        assert_rung(RUNG_TRANSFER, true, rows[i].error, rows[i].detail);
        assert_rung(RUNG_SPEED, false, 0, "an earlier step failed");
        assert_int_equal(results[RUNG_SPEED].mbps, 0);
    }
}

static void test_lie(void **state)
{
    (void)state;
    setenv("FAKE_VERBS_LIE", "1", 1);
    assert_int_equal(climb("mlx5_0", -1), WEFT_OK);
    assert_rung(RUNG_TRANSFER, true, EIO, "compare written and read data: Input/output error");
    assert_rung(RUNG_SPEED, false, 0, "an earlier step failed");
}

/* No test is possible: one message, and no rung. */
static void test_no_device(void **state)
{
    (void)state;
    static const struct {
        const char *fail, *devices, *nic, *sentence;
    } rows[] = {
        {"get_device_list=38", "mlx5_0", "mlx5_0",
         "cannot find mlx5_0: ibv_get_device_list: Function not implemented"},
        {"", "", "mlx5_0", "mlx5_0 among 0 RDMA devices: libibverbs does not list it"},
        {"", "mlx5_0,mlx5_1", "mlx5_7", "mlx5_7 among 2 RDMA devices: libibverbs does not list it"},
        {"open_device=13", "mlx5_0,mlx5_1", "mlx5_1",
         "mlx5_1 among 2 RDMA devices: Permission denied"},
        {"alloc_pd=12", "mlx5_0", "mlx5_0", "ibv_alloc_pd on mlx5_0: Cannot allocate memory"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        setenv("FAKE_VERBS_FAIL", rows[i].fail, 1);
        setenv("FAKE_VERBS_DEVICES", rows[i].devices, 1);
        assert_int_equal(climb(rows[i].nic, -1), WEFT_ERR_UNSUPPORTED);
        assert_string_equal(weft_last_error(), rows[i].sentence);
        for (int rung = 0; rung < RUNGS; rung++)
            assert_rung(rung, false, 0, "");
    }
}

/* -------------------------------------------------------------------------- with the GPU's side */

static struct machine *one_gpu(void)
{
    struct machine *m;
    assert_int_equal(machine_synthetic("1 h100, nic", &m), WEFT_OK);
    text_set(m, &m->gpus[0].bdf, "0000:10:00.0"); /* the stand-in's first GPU */
    return m;
}

static void assert_recorded(struct machine *m, const char *rung, const char *result, int error,
                            const char *detail)
{
    const struct machine_rung *r = machine_find_rung(m, 0, "mlx5_0", rung);
    assert_non_null(r);
    if (!text_is(r->result, result) || !number_is(r->err, error) || !text_is(r->detail, detail))
        fail_msg("%s: %s, %lld: %s\n   expected: %s, %d: %s", rung, r->result.value,
                 (long long)r->err.value, r->detail.value, result, error, detail);
}

static void assert_nothing_left(void)
{
    assert_int_equal(verbs_live(), 0);
    assert_int_equal(cuda_live(), 0);
}

static void test_climb(void **state)
{
    (void)state;
    struct machine *m = one_gpu();
    if (machine_test_gdr(m, 0, "mlx5_0"))
        fail_msg("%s", weft_last_error());
    assert_int_equal(m->n_ladder, 5);
    assert_recorded(m, "export", "ok", 0,
                    "cuMemGetHandleForAddressRange of 4194304 bytes: CUDA_SUCCESS (0, from the "
                    "stand-in)");
    assert_recorded(m, "dmabuf", "ok", 0, "ibv_reg_dmabuf_mr");
    assert_recorded(m, "peermem", "ok", 0, "ibv_reg_mr of GPU memory");
    assert_recorded(m, "transfer", "ok", 0, "4096 bytes written and read back correctly");
    assert_true(machine_find_rung(m, 0, "mlx5_0", "speed")->mbps.value > 0);
    assert_true(number_is(m->gpus[0].dmabuf, 1) && number_is(m->gpus[0].rdma, 1) &&
                number_is(m->gpus[0].vmm, 1));
    /* A second run replaces the rungs. */
    setenv("FAKE_CUDA_DMABUF", "0", 1);
    setenv("FAKE_VERBS_FAIL", "to_receive=110", 1);
    assert_int_equal(machine_test_gdr(m, 0, "mlx5_0"), WEFT_OK);
    assert_int_equal(m->n_ladder, 5);
    assert_recorded(m, "export", "failed", EOPNOTSUPP,
                    "cuMemGetHandleForAddressRange of 4194304 bytes: CUDA_ERROR_NOT_SUPPORTED "
                    "(801, from the stand-in)");
    assert_recorded(m, "dmabuf", "not-tried", 0, "there is no dma-buf to register");
    assert_recorded(m, "peermem", "ok", 0, "ibv_reg_mr of GPU memory");
    assert_recorded(m, "transfer", "failed", ETIMEDOUT, "ibv_modify_qp: Connection timed out");
    assert_recorded(m, "speed", "not-tried", 0, "an earlier step failed");
    assert_nothing_left();
    machine_free(m);
}

/* No rung is recorded where no test is possible. */
static void assert_refused(struct machine *m, weft_status status, const char *sentence)
{
    assert_int_equal(machine_test_gdr(m, 0, "mlx5_0"), status);
    if (!strstr(weft_last_error(), sentence))
        fail_msg("%s\n   expected: %s", weft_last_error(), sentence);
    assert_int_equal(m->n_ladder, 0);
    assert_nothing_left();
    gpu_api_fault_plan(NULL, 0, 0);
}

static void test_no_climb(void **state)
{
    (void)state;
    struct machine *m = one_gpu();
    setenv("FAKE_VERBS_DEVICES", "", 1);
    assert_refused(m, WEFT_ERR_UNSUPPORTED, "mlx5_0 among 0 RDMA devices");
    unsetenv("FAKE_VERBS_DEVICES");
    gpu_api_fault_plan("MemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
    assert_refused(m, WEFT_ERR_NO_MEMORY, "cuMemAlloc of 4194304 bytes: CUDA_ERROR_OUT_OF_MEMORY");
    gpu_api_fault_plan("DevicePrimaryCtxRetain", 1, CUDA_ERROR_UNKNOWN);
    assert_refused(m, WEFT_ERR_SYSTEM, "cuDevicePrimaryCtxRetain of gpu0: CUDA_ERROR_UNKNOWN");
    gpu_api_fault_plan("DeviceGetCount", 2, CUDA_ERROR_UNKNOWN); /* after the call at load time */
    assert_refused(m, WEFT_ERR_UNSUPPORTED, "CUDA lists no GPU at 0000:10:00.0");
    text_set(m, &m->gpus[0].bdf, "0000:77:00.0");
    assert_refused(m, WEFT_ERR_UNSUPPORTED,
                   "CUDA lists no GPU at 0000:77:00.0; "
                   "CUDA_VISIBLE_DEVICES may hide it");
    text_set(m, &m->gpus[0].vendor, "amd");
    assert_refused(m, WEFT_ERR_UNSUPPORTED, "gpu0 is no NVIDIA GPU with a known place");
    machine_free(m);
}

static void test_ask_cuda(void **state)
{
    (void)state;
    struct machine *m = one_gpu();
    assert_int_equal(machine_read_cuda(m), WEFT_OK);
    assert_true(number_is(m->gpus[0].dmabuf, 1));
    assert_true(number_is(m->gpus[0].multicast, 1));
    setenv("FAKE_CUDA_MULTICAST", "0", 1);
    assert_int_equal(machine_read_cuda(m), WEFT_OK);
    unsetenv("FAKE_CUDA_MULTICAST");
    assert_true(number_is(m->gpus[0].multicast, 0));
    gpu_api_fault_plan("DeviceGetAttribute", 1, CUDA_ERROR_INVALID_VALUE);
    m->gpus[0].dmabuf = m->gpus[0].rdma = (struct machine_number){0};
    assert_int_equal(machine_read_cuda(m), WEFT_OK);
    assert_false(number_is(m->gpus[0].dmabuf, 1));
    assert_true(number_is(m->gpus[0].rdma, 1));
    assert_nothing_left();
    machine_free(m);
}

/* ----------------------------------------------------------------------------- reported reasons */

static bool told(enum reason reason, const char *flavor, bool peermem, int64_t percent)
{
    static struct verdict v;
    struct machine *m = one_gpu();
    text_set(m, &m->drivers.nvidia_flavor, flavor);
    number_set(&m->drivers.nvidia_peermem, peermem);
    number_set(&m->limits.fault_percent, percent);
    if (machine_test_gdr(m, 0, "mlx5_0") || explain_pair(m, "gpu0", "mlx5_0", &v))
        fail_msg("%s", weft_last_error());
    bool yes = findings_have(&v.findings, reason);
    verdict_free(&v);
    assert_nothing_left();
    machine_free(m);
    return yes;
}

/* Each way in which RDMA to a GPU fails is reported with its reason, and not reported without the
 * failure. */
static void test_reasons(void **state)
{
    (void)state;
    static const struct {
        enum reason reason;
        const char *variable, *value, *flavor;
        bool peermem;
    } rows[] = {
        {REASON_GDR_NO_DMABUF, "FAKE_CUDA_DMABUF", "0", "open", true},
        {REASON_GDR_DMABUF_REG, "FAKE_VERBS_FAIL", "reg_dmabuf_mr=95", "open", true},
        {REASON_GDR_PEERMEM_REG, "FAKE_VERBS_FAIL", "reg_gpu=14", "open", true},
        {REASON_GDR_NO_PEERMEM, "FAKE_VERBS_FAIL", "reg_gpu=14", "open", false},
        {REASON_GDR_DATA, "FAKE_VERBS_LIE", "1", "open", true},
        {REASON_GDR_GPU, "FAKE_CUDA_RDMA", "0", "open", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *code = reason_table[rows[i].reason].code;
        plain(NULL);
        if (told(rows[i].reason, rows[i].flavor, rows[i].peermem, 1))
            fail_msg("%s is told without the failure", code);
        setenv(rows[i].variable, rows[i].value, 1);
        if (!told(rows[i].reason, rows[i].flavor, rows[i].peermem, 1))
            fail_msg("%s is not told", code);
    }
    /* The closed kernel module exports no dma-buf, and the other methods fail too. */
    plain(NULL);
    assert_false(told(REASON_GDR_CLOSED, "closed", false, 1));
    setenv("FAKE_CUDA_DMABUF", "0", 1);
    setenv("FAKE_VERBS_FAIL", "reg_gpu=14", 1);
    assert_true(told(REASON_GDR_CLOSED, "closed", false, 1));
    /* The stand-in copies with one CPU, slower than 47.5 GB/s. The rate depends on the load, so the
     * other threshold is 0. */
    plain(NULL);
    assert_false(told(REASON_GDR_SLOW, "open", true, 0));
    assert_true(told(REASON_GDR_SLOW, "open", true, 100));
}

/* ----------------------------------------------------------------- a libibverbs that is too old */

static void test_old(void **state)
{
    (void)state;
    memset(memory, 0, sizeof memory);
    assert_int_equal(ladder_verbs("mlx5_0", (uintptr_t)memory, sizeof memory, CHECKED, 0, results),
                     WEFT_OK);
    assert_rung(RUNG_DMABUF, true, ENOSYS,
                "this libibverbs has no ibv_reg_dmabuf_mr: Function not implemented");
    assert_rung(RUNG_PEERMEM, true, 0, "ibv_reg_mr of GPU memory");
    assert_good_transfer();
}

static void test_older(void **state)
{
    (void)state;
    assert_int_equal(ladder_verbs("mlx5_0", (uintptr_t)memory, sizeof memory, CHECKED, 0, results),
                     WEFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(weft_last_error(), "has no function ibv_query_gid: it is too old"));
    assert_non_null(strstr(weft_last_error(), "fakeverbs/older/libibverbs.so.1"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_good, plain),
        cmocka_unit_test_setup(test_ethernet, plain),
        cmocka_unit_test_setup(test_one_way_is_enough, plain),
        cmocka_unit_test_setup(test_refusals, plain),
        cmocka_unit_test_setup(test_lie, plain),
        cmocka_unit_test_setup(test_no_device, plain),
        cmocka_unit_test_setup(test_climb, plain),
        cmocka_unit_test_setup(test_no_climb, plain),
        cmocka_unit_test_setup(test_ask_cuda, plain),
        cmocka_unit_test_setup(test_reasons, plain),
    };
    const struct CMUnitTest old[] = {cmocka_unit_test(test_old)};
    const struct CMUnitTest older[] = {cmocka_unit_test(test_older)};
    if (argc > 1 && strcmp(argv[1], "old") == 0)
        return cmocka_run_group_tests(old, NULL, NULL);
    if (argc > 1)
        return cmocka_run_group_tests(older, NULL, NULL);
    return cmocka_run_group_tests(tests, set_up, NULL);
}
