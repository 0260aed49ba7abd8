/* SPDX-License-Identifier: Apache-2.0 */
/* Measurements over the stand-ins of the CUDA driver and of NVML: their figures are reported, each
 * fault becomes its finding, and every call of the driver may fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/gpu_api.h"
#include "gpu/test/cache.h"
#include "machine/checks/doctor.h"
#include "machine/checks/explain.h"
#include "probe.h"

static int (*live)(void);
static void (*list)(void), (*reset)(void);

static int set_up(void **state)
{
    (void)state;
    static char cache[] = "/tmp/weft-test-XXXXXX";
    void *fake = dlopen("libcuda.so.1", RTLD_NOW);
    if (!fake || !mkdtemp(cache))
        return -1;
    setenv("XDG_RUNTIME_DIR", cache, 1);
    setenv("FAKE_CUDA_MEMORY", "128", 1); /* keeps the buffers small */
    *(void **)&live = dlsym(fake, "fake_cuda_live");
    *(void **)&list = dlsym(fake, "fake_cuda_list");
    *(void **)&reset = dlsym(fake, "fake_cuda_reset");
    return live && list && reset ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char path[600];
    if (proof_cache_file(path, sizeof path))
        unlink(path);
    snprintf(path, sizeof path, "%s/weft", getenv("XDG_RUNTIME_DIR"));
    rmdir(path);
    return rmdir(getenv("XDG_RUNTIME_DIR"));
}

/* The recorded machine of two H200, with the addresses of the stand-in's GPUs. */
static struct machine *load(void)
{
    static const char *const addresses[] = {"0000:10:00.0", "0000:11:00.0"};
    struct machine *m;
    if (machine_load(MACHINES "/h200-2-vm.json", &m))
        fail_msg("%s", weft_last_error());
    m->n_measured = 0;
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < m->n_pci; k++)
            if (text_is(m->pci[k].bdf, m->gpus[i].bdf.value))
                text_set(m, &m->pci[k].bdf, addresses[i]);
        text_set(m, &m->gpus[i].bdf, addresses[i]);
    }
    return m;
}

static weft_status measure(struct machine *m, bool quick)
{
    struct probe *probe;
    weft_status status = probe_open(m, &probe);
    if (status)
        return status;
    probe_warm(probe);
    status = machine_measure(m, probe_interface(probe), quick, NULL);
    probe_close(probe);
    return status;
}

static void assert_nothing_left(void)
{
    if (live())
        list();
    assert_int_equal(live(), 0);
}

static struct machine *measured(bool quick)
{
    struct machine *m = load();
    if (measure(m, quick))
        fail_msg("%s", weft_last_error());
    assert_nothing_left();
    return m;
}

static const struct finding *find(const struct findings *findings, enum reason reason)
{
    for (int i = 0; i < findings->n; i++)
        if (findings->list[i].reason == reason)
            return &findings->list[i];
    return NULL;
}

static bool cached(const struct machine *m)
{
    CUuuid a = {"\xfa\x4e\x00\x01"}, b = a;
    b.bytes[15] = 1;
    (void)m;
    return proof_cache_contains(&a, &b, 13000);
}

static void figures(void **state)
{
    (void)state;
    for (int quick = 0; quick < 2; quick++) {
        struct machine *m = measured(quick);
        for (int i = 0; i < 2; i++) {
            const struct machine_measured *r =
                machine_find_measured(m, i ? "gpu1" : "gpu0", i ? "gpu0" : "gpu1");
            assert_non_null(r);
            assert_true(text_is(r->proof, "proven"));
            assert_non_null(strstr(r->evidence.value, "patterns, flags and atomics exchanged"));
            assert_in_range(r->write_mbps.value, 399900, 400100);
            assert_in_range(r->read_mbps.value, 399900, 400100);
            assert_in_range(r->both_mbps.value, 799800, 800200);
            assert_true(number_is(r->latency_ns, 630));
        }
        const struct machine_measured *host = machine_find_measured(m, "gpu1", "host");
        assert_in_range(host->write_mbps.value, 54900, 55100);
        assert_in_range(host->read_mbps.value, 54900, 55100);
        struct diagnosis d;
        doctor_examine(m, &d);
        assert_int_equal(d.faults, 0);
        assert_null(find(&d.findings, REASON_P2P_UNPROVEN));
        findings_free(&d.findings);
        assert_true(cached(m));
        machine_free(m);
    }
}

static void slow_direction(void **state)
{
    (void)state;
    setenv("FAKE_CUDA_SLOW", "1-0", 1);
    struct machine *m = measured(false);
    unsetenv("FAKE_CUDA_SLOW");
    assert_in_range(machine_find_measured(m, "gpu0", "gpu1")->write_mbps.value, 399900, 400100);
    assert_in_range(machine_find_measured(m, "gpu1", "gpu0")->write_mbps.value, 199900, 200100);
    assert_in_range(machine_find_measured(m, "gpu0", "gpu1")->read_mbps.value, 199900, 200100);
    struct diagnosis d;
    doctor_examine(m, &d);
    const struct finding *weak = find(&d.findings, REASON_P2P_ONE_WAY);
    assert_non_null(weak);
    assert_string_equal(weak->evidence, "gpu1 to gpu0 200.0 GB/s, the other direction 400.0");
    const struct finding *slow = find(&d.findings, REASON_P2P_SLOW);
    assert_non_null(slow);
    assert_non_null(strstr(slow->evidence, "gpu1 gpu0: 200.0 of 395.9 GB/s"));
    assert_int_equal(d.faults, 2);
    findings_free(&d.findings);
    machine_free(m);
}

static void slow_pair(void **state)
{
    (void)state;
    setenv("FAKE_CUDA_GBPS", "300", 1);
    struct machine *m = measured(false);
    setenv("FAKE_CUDA_GBPS", "330", 1);
    struct machine *good = measured(false);
    unsetenv("FAKE_CUDA_GBPS");
    struct diagnosis d;
    doctor_examine(m, &d);
    assert_non_null(find(&d.findings, REASON_P2P_SLOW));
    assert_null(find(&d.findings, REASON_P2P_ONE_WAY));
    findings_free(&d.findings);
    doctor_examine(good, &d);
    assert_int_equal(d.faults, 0); /* 83 % of the expected rate */
    findings_free(&d.findings);
    machine_free(m);
    machine_free(good);
}

static void lying_pair(void **state)
{
    (void)state;
    setenv("FAKE_CUDA_LIE", "1", 1);
    struct machine *m = measured(true);
    unsetenv("FAKE_CUDA_LIE");
    const struct machine_measured *r = machine_find_measured(m, "gpu1", "gpu0");
    assert_true(text_is(r->proof, "failed"));
    assert_non_null(strstr(r->evidence.value, "did not arrive within"));
    assert_false(r->write_mbps.known);
    assert_false(cached(m)); /* although it passed its test before */
    struct diagnosis d;
    doctor_examine(m, &d);
    assert_non_null(find(&d.findings, REASON_P2P_PROOF));
    assert_true(d.faults > 0);
    findings_free(&d.findings);
    struct verdict v;
    assert_int_equal(explain_pair(m, "gpu0", "gpu1", &v), WEFT_OK);
    assert_int_equal(v.chosen->kind, ROUTE_STAGED);
    verdict_free(&v);
    machine_free(m);
}

static void refused_pair(void **state)
{
    (void)state;
    setenv("FAKE_CUDA_REFUSE", "1", 1);
    struct machine *m = measured(true);
    unsetenv("FAKE_CUDA_REFUSE");
    const struct machine_measured *r = machine_find_measured(m, "gpu0", "gpu1");
    assert_true(text_is(r->proof, "refused"));
    assert_non_null(strstr(r->evidence.value, "cuCtxEnablePeerAccess by gpu0 to gpu1: "
                                              "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"));
    struct diagnosis d;
    doctor_examine(m, &d);
    assert_non_null(find(&d.findings, REASON_P2P_REFUSED));
    assert_true(d.faults > 0);
    findings_free(&d.findings);
    machine_free(m);
}

/* NVML reports peer access; CUDA does not offer it. */
static void not_offered(void **state)
{
    (void)state;
    setenv("FAKE_CUDA_PEER", "0", 1);
    struct machine *m = measured(true);
    unsetenv("FAKE_CUDA_PEER");
    const struct machine_measured *r = machine_find_measured(m, "gpu0", "gpu1");
    assert_true(text_is(r->proof, "not-run"));
    assert_string_equal(r->evidence.value, "cuDeviceCanAccessPeer(gpu0, gpu1): no");
    struct diagnosis d;
    doctor_examine(m, &d);
    const struct finding *f = find(&d.findings, REASON_P2P_UNPROVEN);
    assert_non_null(f);
    assert_int_equal(f->weight, WEIGHT_OFF);
    assert_true(d.faults > 0);
    findings_free(&d.findings);
    machine_free(m);
}

static void hidden_gpu(void **state)
{
    (void)state;
    setenv("CUDA_VISIBLE_DEVICES", "0", 1);
    struct machine *m = load();
    assert_int_equal(measure(m, true), WEFT_ERR_UNSUPPORTED);
    unsetenv("CUDA_VISIBLE_DEVICES");
    assert_nothing_left();
    const struct machine_measured *r = machine_find_measured(m, "gpu0", "gpu1");
    assert_null(r->proof.value);
    assert_string_equal(r->proof.why, "CUDA shows 1 GPU, none at 0000:11:00.0; "
                                      "CUDA_VISIBLE_DEVICES may hide it");
    /* The other GPU is measured. */
    assert_true(machine_find_measured(m, "gpu0", "host")->write_mbps.known);
    machine_free(m);
}

/* Errors that grow under load, again in a second run. */
static void growing_errors(void **state)
{
    (void)state;
    setenv("FAKE_NVML_GROW", "2", 1);
    struct machine *m = measured(false);
    unsetenv("FAKE_NVML_GROW");
    const struct machine_measured *r = machine_find_measured(m, "gpu0", "gpu1");
    assert_true(number_or(r->errors_grown, 0) > 0);
    assert_non_null(strstr(r->errors_where.value, "gpu1 link 3 crc data +"));
    struct diagnosis d;
    doctor_examine(m, &d);
    const struct finding *f = find(&d.findings, REASON_NVLINK_GROWING);
    assert_non_null(f);
    assert_int_equal(f->weight, WEIGHT_NOTE); /* the pair reaches the expected rate */
    assert_non_null(strstr(f->evidence, "gpu1 link 3 crc data +"));
    findings_free(&d.findings);
    machine_free(m);
}

static void one_error(void **state)
{
    (void)state;
    setenv("FAKE_NVML_GROW", "1", 1);
    struct machine *m = measured(false);
    unsetenv("FAKE_NVML_GROW");
    assert_true(number_is(machine_find_measured(m, "gpu0", "gpu1")->errors_grown, 0));
    struct diagnosis d;
    doctor_examine(m, &d);
    assert_int_equal(d.faults, 0);
    findings_free(&d.findings);
    machine_free(m);
}

/* Each call fails at its first uses: the message names it or a figure is missing, and no resource
 * is left open. */
static void failing_calls(void **state)
{
    (void)state;
    for (const char *const *name = gpu_api_function_names; *name; name++) {
        unsigned k = 1, uses = 1;
        for (; k <= uses && k <= 2; k++) {
            struct machine *m = load();
            assert_true(gpu_api_fault_plan(*name, k, CUDA_ERROR_UNKNOWN));
            weft_status status = measure(m, true);
            uses = gpu_api_fault_uses();
            gpu_api_fault_plan(NULL, 0, 0);
            if (status)
                assert_true(strlen(weft_last_error()) > 10);
            const struct machine_measured *r = machine_find_measured(m, "gpu0", "gpu1");
            if (uses >= k && r && !r->proof.value)
                assert_true(strlen(r->proof.why) > 10);
            reset();
            machine_free(m);
        }
    }
}

/* The link generation right after the copies: a GPU whose link stays slow under load is a fault,
 * and so is a rate below the threshold. */
static void low_link(void **state)
{
    (void)state;
    for (int low = 0; low < 2; low++) {
        setenv("FAKE_NVML_FACTS", low ? "pcie_gen=1" : "pcie_gen=5", 1);
        struct machine *m = measured(true);
        const struct machine_measured *host = machine_find_measured(m, "gpu1", "host");
        assert_true(number_is(host->pcie_gen, low ? 1 : 5));
        struct diagnosis d;
        doctor_examine(m, &d);
        const struct finding *f = find(&d.findings, REASON_PCIE_GEN);
        assert_int_equal(f != NULL, low);
        if (f)
            assert_non_null(strstr(f->evidence, "stays at PCIe generation 1 of 5 under load"));
        assert_null(find(&d.findings, REASON_HOST_SLOW));
        findings_free(&d.findings);
        number_set(&m->limits.fault_percent, 100); /* 55.0 of 55.4 */
        doctor_examine(m, &d);
        assert_non_null(find(&d.findings, REASON_HOST_SLOW));
        findings_free(&d.findings);
        machine_free(m);
    }
    unsetenv("FAKE_NVML_FACTS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures),        cmocka_unit_test(low_link),
        cmocka_unit_test(slow_direction), cmocka_unit_test(slow_pair),
        cmocka_unit_test(lying_pair),     cmocka_unit_test(refused_pair),
        cmocka_unit_test(not_offered),    cmocka_unit_test(hidden_gpu),
        cmocka_unit_test(growing_errors), cmocka_unit_test(one_error),
        cmocka_unit_test(failing_calls),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
