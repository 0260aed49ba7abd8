/* SPDX-License-Identifier: Apache-2.0 */
/* Which NIC each GPU gets: the nearest, in turn if several are equal, and none that is down;
 * unknown facts are reported. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "machine/checks/assign.h"
#include "machine/checks/doctor.h"
#include "machine/checks/explain.h"
#include "machine/routes/whatif.h"

static struct machine *load(const char *what, const char *changes)
{
    struct machine *machine;
    char path[512];
    snprintf(path, sizeof path, "%s/%s", MACHINES, what);
    if (machine_load(strstr(what, ".json") ? path : what, &machine))
        fail_msg("%s", weft_last_error());
    if (changes && whatif_apply(machine, changes))
        fail_msg("%s", weft_last_error());
    return machine;
}

/* nics: the NICs of the GPUs in order, such as "mlx5_0 mlx5_1 -". */
static void expect(const char *what, const char *changes, const char *nics)
{
    struct machine *machine = load(what, changes);
    struct assignment a;
    char text[1024] = "";
    size_t used = 0;
    assign_nics(machine, &a);
    for (int i = 0; i < a.n; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? " " : "",
                                 a.list[i].nic ? a.list[i].nic->name.value : "-");
    assert_string_equal(text, nics);
    assignment_free(&a);
    machine_free(machine);
}

static void test_nearest(void **state)
{
    (void)state;
    expect("dgx-1v.json", NULL, "mlx5_0 mlx5_0 mlx5_1 mlx5_1 mlx5_2 mlx5_2 mlx5_3 mlx5_3");
    expect("mi300x-8.json", NULL,
           "bnxt_re0 bnxt_re1 bnxt_re2 bnxt_re3 bnxt_re4 bnxt_re5 bnxt_re6 bnxt_re7");
    expect("container-2-of-8.json", NULL, "mlx5_3 mlx5_4");
    expect("p100-8.json", NULL, "mlx5_0 mlx5_0 mlx5_0 mlx5_0 mlx5_0 mlx5_0 mlx5_0 mlx5_0");
}

static void test_in_turn(void **state)
{
    (void)state;
    expect("dgx-a100.json", NULL, "mlx5_0 mlx5_1 mlx5_2 mlx5_3 mlx5_6 mlx5_7 mlx5_8 mlx5_9");
    expect("8 h200, 1 nic per 2 gpu", NULL,
           "mlx5_0 mlx5_0 mlx5_1 mlx5_1 mlx5_2 mlx5_2 mlx5_3 mlx5_3");
    expect("4 h100, flat vm, 1 nic per 2 gpu", NULL, "mlx5_0 mlx5_1 mlx5_0 mlx5_1");
}

/* gpu0 gets another NIC when gpu1 can use no other than its first one. */
static void test_moved_for_another(void **state)
{
    struct machine *machine = machine_new("test");
    (void)state;
    static const char *const pci[][3] = {{"0000:01:00.0", "", "0000:00"},
                                         {"0000:02:00.0", "0000:01:00.0", "0000:00"},
                                         {"0000:03:00.0", "0000:02:00.0", "0000:00"},
                                         {"0000:04:00.0", "0000:02:00.0", "0000:00"},
                                         {"0000:05:00.0", "0000:02:00.0", "0000:00"}};
    for (int i = 0; i < 5; i++) {
        struct machine_pci *p = machine_add_pci(machine);
        text_set(machine, &p->bdf, pci[i][0]);
        text_set(machine, &p->parent, pci[i][1]);
        text_set(machine, &p->root, pci[i][2]);
        text_set(machine, &p->kind, i == 0 ? "root-port" : i == 1 ? "upstream" : "endpoint");
    }
    for (int i = 0; i < 2; i++) {
        struct machine_gpu *g = machine_add_gpu(machine);
        number_set(&g->index, i);
        text_set(machine, &g->bdf, i ? "0000:03:00.0" : "0000:02:00.0");
        struct machine_nic *n = machine_add_nic(machine);
        text_set(machine, &n->name, i ? "mlx5_1" : "mlx5_0");
        text_set(machine, &n->bdf, i ? "0000:05:00.0" : "0000:04:00.0");
    }
    struct assignment a;
    assign_nics(machine, &a);
    assert_int_equal(a.n, 2);
    assert_non_null(a.list[0].nic);
    assert_non_null(a.list[1].nic);
    assert_ptr_not_equal(a.list[0].nic, a.list[1].nic);
    assert_int_equal(a.rails, 2);
    assert_non_null(strstr(a.list[0].why, "its port state is unknown"));
    assignment_free(&a);
    machine_free(machine);
}

static void test_down(void **state)
{
    (void)state;
    expect("dgx-a100.json", "set ports[0].state down",
           "mlx5_1 mlx5_1 mlx5_2 mlx5_3 mlx5_6 mlx5_7 mlx5_8 mlx5_9");
    expect("p100-8.json", "set ports[0].state down", "- - - - - - - -");
    struct machine *machine = load("p100-8.json", "set ports[0].state down");
    struct assignment a;
    assign_nics(machine, &a);
    assert_string_equal(a.list[0].why, "no NIC has an active port: 1 of 1 are down");
    assert_int_equal(a.down, 1);
    assignment_free(&a);
    machine_free(machine);
}

static void test_none(void **state)
{
    (void)state;
    expect("h200-2-vm.json", NULL, "- -");
    expect("no-gpu.json", NULL, "");
}

/* A fast NIC farther away is preferred to a slow one nearby; apart from that, speed alone decides
 * nothing. */
static void test_slow_neighbour(void **state)
{
    (void)state;
    expect("mi300x-8.json", "set ports[0].mbit 25000",
           "bnxt_re3 bnxt_re1 bnxt_re2 bnxt_re3 bnxt_re4 bnxt_re5 bnxt_re6 bnxt_re7");
}

static void test_rails_and_sharers(void **state)
{
    (void)state;
    struct machine *machine = load("dgx-1v.json", NULL);
    struct assignment a;
    assign_nics(machine, &a);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(a.list[i].rail, i / 2);
        assert_int_equal(a.list[i].sharers, 2);
        assert_int_equal(a.list[i].level, LEVEL_PIX);
        assert_non_null(strstr(a.list[i].why, "shared by 2 GPUs"));
    }
    assert_int_equal(a.rails, 4);
    assert_int_equal(a.unused, 0);
    assignment_free(&a);
    machine_free(machine);
    machine = load("vm-p2p-clique.json", NULL);
    assign_nics(machine, &a);
    assert_non_null(strstr(a.list[0].why, "distance unknown: the PCI tree is flat"));
    assert_int_equal(a.list[3].rail, 1);
    assignment_free(&a);
    machine_free(machine);
}

/* Doctor's findings concern the assigned NICs: it tests those, does not call them too far away, and
 * names the shared ones. */
static void expect_one_story(const char *what, const char *changes)
{
    static struct diagnosis d;
    struct machine *m = load(what, changes);
    struct assignment a;
    int untried = 0, shared = 0, sharers = 0;
    assign_nics(m, &a);
    doctor_examine(m, &d);
    for (int i = 0; i < d.findings.n; i++) {
        const struct finding *f = &d.findings.list[i];
        int gpu;
        char nic[64];
        if (f->reason == REASON_GDR_FAR)
            fail_msg("%s: GDR-FAR: %s", what, f->evidence);
        shared += f->reason == REASON_NIC_SHARED;
        if (f->reason != REASON_GDR_UNTRIED || strstr(f->evidence, "with nvidia_peermem"))
            continue;
        assert_int_equal(sscanf(f->evidence, "gpu%d %63[^:]", &gpu, nic), 2);
        for (int g = 0; g < a.n; g++)
            if (number_is(a.list[g].gpu->index, gpu))
                assert_string_equal(nic, a.list[g].nic->name.value);
        untried++;
    }
    for (size_t n = 0; n < m->n_nics; n++) {
        int of_this = 0;
        for (int g = 0; g < a.n; g++)
            of_this += a.list[g].nic == &m->nics[n] && a.list[g].level != LEVEL_UNKNOWN;
        sharers += of_this > 1;
    }
    assert_int_equal(shared, sharers);
    if (m->n_nics && m->n_gpus && !m->n_ladder)
        assert_int_equal(untried, a.n);
    findings_free(&d.findings);
    assignment_free(&a);
    machine_free(m);
}

static void test_one_story(void **state)
{
    static const char *const cases[][2] = {
        {"dgx-1v.json", NULL},
        {"dgx-2.json", NULL},
        {"dgx-a100.json", NULL},
        {"dgx-a100.json", "set ports[0].state down"},
        {"container-2-of-8.json", NULL},
        {"gh200.json", NULL},
        {"p100-8.json", NULL},
        {"mi300x-8.json", NULL},
        {"mi300x-8.json", "set ports[0].mbit 25000"},
        {"vm-p2p-clique.json", NULL},
        {"8 h200, 1 nic per 2 gpu", NULL},
        {"8 h200, nic per gpu, 4 gpu per pcie-switch", "set ports[2].state down"},
        {"4 h100, flat vm, 1 nic per 2 gpu", NULL},
        {"2 socket, 4 l40s each, nic per 2 gpu, acs on, iommu on", NULL},
        {"8 h200, nic per gpu, acs on", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_one_story(cases[i][0], cases[i][1]);
}

/* Doctor reports a test that failed with a NIC that is not assigned: its failure moved the GPU to
 * another NIC, or the assigned NIC is not tested. The failure is a note where peermem works. */
static void expect_told(const char *nic, const char *peermem, enum weight weight)
{
    static struct diagnosis d;
    struct machine *m = load("8 h200, nic per gpu", NULL);
    const char *const rungs[][2] = {{"export", "ok"}, {"dmabuf", "failed"}, {"peermem", peermem}};
    for (int i = 0; i < 3; i++) {
        struct machine_rung *r = machine_add_rung(m);
        number_set(&r->gpu, 0);
        text_set(m, &r->nic, nic);
        text_set(m, &r->rung, rungs[i][0]);
        text_set(m, &r->result, rungs[i][1]);
    }
    int found = -1;
    doctor_examine(m, &d);
    for (int i = 0; i < d.findings.n; i++)
        if (d.findings.list[i].reason == REASON_GDR_DMABUF_REG)
            found = (int)d.findings.list[i].weight;
    assert_int_equal(found, weight);
    findings_free(&d.findings);
    machine_free(m);
}

static void test_failed_try_is_told(void **state)
{
    expect_told("mlx5_0", "failed", WEIGHT_OFF);
    expect_told("mlx5_5", "ok", WEIGHT_NOTE);
}

/* The better NIC that GDR-FAR names is the nearest of those that are not slower. */
static void test_far_names_a_fast_nic(void **state)
{
    static const struct {
        const char *changes, *better; /* NULL: none is better */
    } cases[] = {
        {NULL, "mlx5_0"},
        {"set ports[0].mbit 25000", "mlx5_1"},
        {"set ports[0].mbit 25000; set ports[1].mbit 25000", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static struct verdict v;
        struct machine *m = load("2 socket, 2 h200 each, nic per gpu", cases[i].changes);
        const char *better = NULL;
        assert_int_equal(explain_pair(m, "gpu0", "mlx5_3", &v), WEFT_OK);
        for (int f = 0; f < v.findings.n; f++)
            if (v.findings.list[f].reason == REASON_GDR_FAR)
                better = strstr(v.findings.list[f].evidence, "mlx5_3 is at distance")
                             ? strstr(v.findings.list[f].evidence, ", mlx5_") + 2
                             : "?";
        if (!better != !cases[i].better ||
            (better && strncmp(better, cases[i].better, strlen(cases[i].better)) != 0))
            fail_msg("%s: better is %s", cases[i].changes, better ? better : "none");
        verdict_free(&v);
        machine_free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_in_turn),
        cmocka_unit_test(test_moved_for_another),
        cmocka_unit_test(test_down),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_slow_neighbour),
        cmocka_unit_test(test_far_names_a_fast_nic),
        cmocka_unit_test(test_rails_and_sharers),
        cmocka_unit_test(test_one_story),
        cmocka_unit_test(test_failed_try_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
