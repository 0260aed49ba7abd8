/* SPDX-License-Identifier: Apache-2.0 */
/* All answers are consistent: for every machine of the repository, for descriptions, and for each
 * of them with one fact changed. A finding that turns a route off has turned it off in the table of
 * routes; the gain of a remedy equals that of its what-if; no rate is negative or above its
 * links. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "machine/checks/doctor.h"
#include "machine/checks/explain.h"
#include "machine/facts.h"
#include "machine/routes/whatif.h"

static const char *const machines[] = {
    MACHINES "/container-2-of-8.json",
    MACHINES "/dgx-1v.json",
    MACHINES "/dgx-2.json",
    MACHINES "/dgx-a100.json",
    MACHINES "/geforce-2-acs.json",
    MACHINES "/h200-2-measured.json",
    MACHINES "/h200-2-vm.json",
    MACHINES "/h200-8-vm.json",
    MACHINES "/mi300x-8.json",
    MACHINES "/no-gpu.json",
    MACHINES "/p100-8.json",
    MACHINES "/vm-p2p-clique.json",
    "2 socket, 4 gpu each, nvlink hybrid-cube-mesh, 1 nic per 2 gpu",
    "2 geforce, 2 gpu per pcie-switch, acs on, iommu on",
    "8 h200, nvswitch, flat vm, nic per gpu, 2 disk",
    "4 h100, 2 gpu per pcie-switch, acs on, iommu on",
    "8 gb200, nvlink domain 4, 2 node, 2 socket, nic per 2 gpu",
    "8 h100, 2 gpu per pcie-switch, 2 pcie-switch per pcie-switch, acs on, nic beside gpu0 gpu3",
    "4 mi250x, xgmi pairs, 2 numa per socket, 2 gpu per root-complex, nic per 2 gpu, 1 disk",
    "4 a10g, no pcie-switch, 2 socket, iommu on, nic beside gpu1",
    "2 gb200, 2 socket",
    MACHINES "/gh200.json",
    MACHINES "/gh200-4.json",
    MACHINES "/gb200-tray.json",
    MACHINES "/h100-1-vm.json",
};
enum { MACHINES_COUNT = sizeof machines / sizeof machines[0] };

static struct machine *load(size_t i)
{
    struct machine *m;
    if (machine_load(machines[i], &m))
        fail_msg("%s: %s", machines[i], weft_last_error());
    return m;
}

/* The kinds of route that a finding mentions, derived from its printed words. */
static bool speaks_of(const struct finding *f, enum route_kind kind)
{
    bool peer = kind == ROUTE_PEER, link = kind == ROUTE_LINK;
    return (peer &&
            (strcmp(f->path, "PCIe peer-to-peer") == 0 || strncmp(f->path, "GPUDirect", 9) == 0)) ||
           (link && strstr(f->path, "NVLink")) ||
           ((peer || link) && strcmp(f->path, "peer access") == 0) ||
           (kind == ROUTE_HOST && strcmp(f->path, "PCIe") == 0);
}

static void check_off(const char *place, const struct verdict *v)
{
    for (int i = 0; i < v->findings.n; i++) {
        const struct finding *f = &v->findings.list[i];
        for (int k = 0; f->weight == WEIGHT_OFF && k < v->routes.n; k++)
            if (speaks_of(f, v->routes.list[k].kind) && v->routes.list[k].usable != ANSWER_NO)
                fail_msg("%s: %s %s: %s says that %s is off, and it is %s", place, v->a.name,
                         v->b.name, reason_table[f->reason].code, v->routes.list[k].text,
                         route_state(&v->routes.list[k]));
    }
    if ((v->chosen && v->chosen->usable == ANSWER_NO) ||
        (v->possible && v->possible->usable == ANSWER_NO))
        fail_msg("%s: %s %s takes a way that is off", place, v->a.name, v->b.name);
}

/* The line rate of a device's PCIe link, or of a GPU's links to its CPU, from the recorded facts;
 * 0: unknown. */
static int64_t pcie_line(const struct machine *m, const struct endpoint *end)
{
    const struct machine_gpu *gpu =
        end->kind == ENDPOINT_GPU ? machine_find_gpu(m, end->index) : NULL;
    int64_t gen = gpu ? number_or(gpu->pcie_gen_max, 0) : 0;
    int64_t width = gpu ? number_or(gpu->pcie_width, 0) : 0;
    const struct fact_link *fact = gen ? fact_find_link("pcie", gen) : NULL;
    int64_t cpu = gpu ? routes_cpu_links(m, end->index).line_mbps : 0;
    int64_t line = fact && width ? fact->line_mbps * width : 0;
    return cpu > line ? cpu : line;
}

static void check_speeds(const char *place, const struct machine *m, const struct verdict *v)
{
    for (int i = 0; i < v->routes.n; i++) {
        const struct route *r = &v->routes.list[i];
        int64_t most = INT64_MAX, x = pcie_line(m, &v->a), y = pcie_line(m, &v->b);
        if (r->kind == ROUTE_LINK)
            most = routes_links(m, v->a.index, v->b.index).line_mbps;
        else if (r->kind != ROUTE_RELAY && x)
            most = x;
        if (r->kind != ROUTE_LINK && r->kind != ROUTE_RELAY && y && y < most)
            most = y;
        if (r->mbps < 0 || r->latency_ns < 0 || r->mbps > most)
            fail_msg("%s: %s %s: %s gives %lld MB/s, %lld ns over links of %lld", place, v->a.name,
                     v->b.name, r->text, (long long)r->mbps, (long long)r->latency_ns,
                     (long long)most);
    }
}

static int64_t possible(const struct verdict *v)
{
    return v->possible ? v->possible->mbps : 0;
}

/* Measured losses are no what-if of facts. */
static void check_brings(const char *place, const struct machine *m, const struct verdict *v,
                         const char *a, const char *b)
{
    for (int i = 0; i < v->findings.n; i++) {
        const struct finding *f = &v->findings.list[i];
        struct verdict after;
        assert_true(f->gain_mbps >= 0);
        if (f->reason == REASON_P2P_SLOW || f->reason == REASON_P2P_ONE_WAY ||
            f->reason == REASON_HOST_SLOW)
            continue;
        if (!*f->repair || f->weight > WEIGHT_SLOW) {
            if (f->gain_mbps)
                fail_msg("%s: %s brings something by nothing", place, reason_table[f->reason].code);
            continue;
        }
        struct machine *copy = machine_copy(m);
        int64_t brings = 0;
        if (whatif_apply(copy, f->repair) == WEFT_OK) {
            if (explain_pair(copy, a, b, &after))
                fail_msg("%s: %s", place, weft_last_error());
            brings = possible(&after) > possible(v) ? possible(&after) - possible(v) : 0;
            verdict_free(&after);
        }
        if (brings != f->gain_mbps)
            fail_msg("%s: %s %s: %s brings %lld MB/s, the what-if \"%s\" gives %lld", place, a, b,
                     reason_table[f->reason].code, (long long)f->gain_mbps, f->repair,
                     (long long)brings);
        machine_free(copy);
    }
}

/* `weft topo` builds its tables from these routes. */
static void check_tables(const char *place, const struct machine *m, const struct verdict *v)
{
    static struct routes routes;
    if (strchr(v->a.name, '/') || strchr(v->b.name, '/'))
        return; /* the tables contain no files */
    explain_routes(m, &v->a, &v->b, &routes);
    assert_int_equal(routes.n, v->routes.n);
    const struct route *best = routes_best(&routes);
    if (!best != !v->possible || (v->chosen && strcmp(v->chosen->text, best->text) != 0))
        fail_msg("%s: %s %s: topo takes %s, explain %s", place, v->a.name, v->b.name,
                 best ? best->text : "none", v->chosen ? v->chosen->text : "none");
    for (int i = 0; i < routes.n; i++)
        if (routes.list[i].usable != v->routes.list[i].usable ||
            strcmp(routes.list[i].text, v->routes.list[i].text) != 0)
            fail_msg("%s: %s %s: the table has %s %s, the verdict %s %s", place, v->a.name,
                     v->b.name, routes.list[i].text, route_state(&routes.list[i]),
                     v->routes.list[i].text, route_state(&v->routes.list[i]));
}

/* What `weft doctor` finds on the machine; NULL: not compared. */
static const struct diagnosis *diagnosis;

static bool doctor_finds(const struct finding *f)
{
    for (int i = 0; i < diagnosis->findings.n; i++)
        if (diagnosis->findings.list[i].reason == f->reason &&
            strcmp(diagnosis->findings.list[i].evidence, f->evidence) == 0)
            return true;
    return false;
}

/* Doctor finds everything that turns a route of the pair off. It leaves out file systems that are
 * on no disk. */
static void check_diagnosis(const char *place, const struct verdict *v)
{
    if (v->mount && word_is_one_of(text_or(v->mount->type, "?"), "tmpfs|overlay"))
        return;
    for (int i = 0; diagnosis && i < v->findings.n; i++) {
        const struct finding *f = &v->findings.list[i];
        if (f->weight == WEIGHT_OFF && !doctor_finds(f))
            fail_msg("%s: %s %s: doctor misses %s: %s", place, v->a.name, v->b.name,
                     reason_table[f->reason].code, f->evidence);
    }
}

static void check_pair(const char *place, const struct machine *m, const char *a, const char *b)
{
    static struct verdict v;
    if (explain_pair(m, a, b, &v) == WEFT_OK) {
        check_off(place, &v);
        check_speeds(place, m, &v);
        check_brings(place, m, &v, a, b);
        check_tables(place, m, &v);
        check_diagnosis(place, &v);
    }
    verdict_free(&v);
}

static void check_machine(const char *place, const struct machine *m)
{
    char last[32];
    snprintf(last, sizeof last, "gpu%zu", m->n_gpus ? m->n_gpus - 1 : 0);
    check_pair(place, m, "gpu0", "gpu1");
    check_pair(place, m, last, "gpu0");
    check_pair(place, m, "host", "gpu0");
    if (m->n_nics && m->nics[0].name.value) {
        check_pair(place, m, "gpu0", m->nics[0].name.value);
        check_pair(place, m, m->nics[0].name.value, "host");
    }
    if (m->n_disks && m->disks[0].name.value)
        check_pair(place, m, "gpu0", m->disks[0].name.value);
    if (m->n_mounts && m->mounts[0].path.value)
        check_pair(place, m, m->mounts[0].path.value, "gpu0");
}

/* Checks the GPU with every other device, the host and every mount. */
static void check_pairs_of(const char *place, const struct machine *m, size_t gpu)
{
    char name[32], other[32];
    snprintf(name, sizeof name, "gpu%zu", gpu);
    for (size_t i = 0; i < m->n_gpus; i++) {
        snprintf(other, sizeof other, "gpu%zu", i);
        check_pair(place, m, name, other);
    }
    for (size_t i = 0; i < m->n_nics; i++)
        check_pair(place, m, name, text_or(m->nics[i].name, "?"));
    for (size_t i = 0; i < m->n_disks; i++)
        check_pair(place, m, name, text_or(m->disks[i].name, "?"));
    for (size_t i = 0; i < m->n_mounts; i++)
        check_pair(place, m, name, text_or(m->mounts[i].path, "?"));
    check_pair(place, m, name, "host");
}

static void test_as_they_are(void **state)
{
    static struct diagnosis d;
    for (size_t i = 0; i < MACHINES_COUNT; i++) {
        struct machine *m = load(i);
        doctor_examine(m, &d);
        diagnosis = &d;
        for (size_t gpu = 0; gpu < m->n_gpus; gpu++)
            check_pairs_of(machines[i], m, gpu);
        check_machine(machines[i], m);
        diagnosis = NULL;
        findings_free(&d.findings);
        machine_free(m);
    }
}

/* Writes the values to try: unknown, the words, yes and no, the ends of the range. */
static int values_of(const struct machine_field *field, char values[][48])
{
    int n = 0;
    snprintf(values[n++], 48, "unknown");
    if (field->type == FIELD_FLAG) {
        snprintf(values[n++], 48, "1");
        snprintf(values[n++], 48, "0");
    } else if (field->type == FIELD_NUMBER) {
        snprintf(values[n++], 48, "%lld", (long long)field->low);
        snprintf(values[n++], 48, "%lld", (long long)field->high);
    } else if (field->type == FIELD_WORD) {
        for (const char *at = field->words; at && n < 12; at = strchr(at, '|')) {
            at += *at == '|';
            snprintf(values[n++], 48, "%.*s", (int)strcspn(at, "|"), at);
        }
    }
    return n;
}

static void change_and_check(size_t i, struct machine *m, const struct machine_record *record,
                             const struct machine_field *field)
{
    static char values[16][48];
    char told[512], kept[64];
    char *fact = (char *)record_item(m, record, 0) + field->offset;
    bool number = field->type == FIELD_NUMBER || field->type == FIELD_FLAG;
    size_t bytes = number ? sizeof(struct machine_number) : sizeof(struct machine_text);
    int n = values_of(field, values);
    /* The question uses the name, so it stays. */
    if (strcmp(field->name, record->key) == 0)
        return;
    memcpy(kept, fact, bytes);
    for (int v = 0; v < n; v++) {
        memset(fact, 0, bytes); /* unknown */
        if (v && number)
            number_set((struct machine_number *)(void *)fact, atoll(values[v]));
        else if (v)
            text_set(m, (struct machine_text *)(void *)fact, values[v]);
        snprintf(told, sizeof told, "%s, first of %s: %s %.40s", machines[i], record->name,
                 field->name, values[v]);
        check_machine(told, m);
        memcpy(fact, kept, bytes);
    }
}

/* Lists whose items have names are changed by these statements. */
static const char *const changes[] = {
    "set gpus[0].mig yes",
    "set gpus[1].mig yes",
    "set gpus[0].fabric_state not-started",
    "set gpus[1].fabric_state in-progress",
    "set gpus[0].fabric_status 3",
    "set gpus[0].fabric_clique 77",
    "set gpus[0].fabric_state not-supported",
    "set gpus[0].compute_mode prohibited",
    "set gpus[0].compute_mode exclusive",
    "set gpus[0].virtualization vgpu",
    "set gpus[0].rdma no",
    "set gpus[0].dmabuf no",
    "set gpus[0].pcie_width 1",
    "set gpus[0].pcie_width unknown",
    "set gpus[0].pcie_gen_max unknown",
    "set gpus[0].name GeForce",
    "set gpus[0].vendor other",
    "set gpus[0].bdf unknown",
    "set gpus[0].fabric_degraded yes",
    "set ladder[1].result failed; set ladder[2].result failed",
    "set ladder[5].result failed; set ladder[6].result failed; set ladder[7].result failed",
    "set p2p[0].write not-supported",
    "set system.hypervisor kvm",
    "lose nvlink 0:1 all",
    "lose nvlink 0:switch all",
    "lose nvlink 1:switch",
    "set iommu translated",
    "set iommu off",
    "drop acs all",
};

static void test_one_change(void **state)
{
    static struct diagnosis d;
    int done = 0;
    for (size_t i = 0; i < MACHINES_COUNT; i++) {
        struct machine *unchanged = load(i);
        for (size_t c = 0; c < sizeof changes / sizeof changes[0]; c++) {
            struct machine *m = machine_copy(unchanged);
            char told[256];
            if (whatif_apply(m, changes[c]) == WEFT_OK) {
                snprintf(told, sizeof told, "%s, %s", machines[i], changes[c]);
                if ((i + c) % 2 == 0) { /* half of them, to be quick */
                    doctor_examine(m, &d);
                    diagnosis = &d;
                }
                check_machine(told, m);
                diagnosis = NULL;
                findings_free(&d.findings);
                done++;
            }
            machine_free(m);
        }
        machine_free(unchanged);
    }
    assert_true(done > 200);
}

/* Each fact of every third machine, or of all with the argument "all". */
static size_t stride;

static void test_one_fact(void **state)
{
    for (size_t i = 0; i < MACHINES_COUNT; i += stride) {
        struct machine *m = load(i);
        for (size_t r = 0; r < machine_n_records; r++) {
            size_t n;
            const struct machine_field *fields = machine_records[r].fields(&n);
            for (size_t f = 0; record_count(m, &machine_records[r]) && f < n; f++)
                change_and_check(i, m, &machine_records[r], &fields[f]);
        }
        machine_free(m);
    }
}

/* A fault that every answer names: with it the verdict has the route off and chooses the next one;
 * without it the route is the chosen one. */
static void test_turned_off(void **state)
{
    static const struct {
        size_t machine;
        const char *change;
        enum reason reason;
        enum route_kind before, after;
    } cases[] = {
        {7, "set gpus[0].fabric_state not-started", REASON_FABRIC_STATE, ROUTE_LINK, ROUTE_PEER},
        {7, "set gpus[0].mig yes", REASON_P2P_MIG, ROUTE_LINK, ROUTE_STAGED},
        {1, "set gpus[1].mig yes", REASON_P2P_MIG, ROUTE_LINK, ROUTE_STAGED},
        {15, "set gpus[1].mig yes", REASON_P2P_MIG, ROUTE_PEER, ROUTE_STAGED},
        {11,
         "set pci[0000:01:00.0].p2p_clique unknown; set pci[0000:02:00.0].p2p_clique unknown; "
         "set p2p[0].write chipset-not-supported; set p2p[0].pci unknown",
         REASON_P2P_VM_FLAT, ROUTE_PEER, ROUTE_STAGED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static struct verdict v;
        struct machine *m = load(cases[i].machine);
        assert_int_equal(explain_pair(m, "gpu0", "gpu1", &v), WEFT_OK);
        assert_int_equal(v.chosen->kind, cases[i].before);
        int64_t better = v.chosen->mbps;
        verdict_free(&v);
        if (whatif_apply(m, cases[i].change))
            fail_msg("%s", weft_last_error());
        assert_int_equal(explain_pair(m, "gpu0", "gpu1", &v), WEFT_OK);
        assert_int_equal(v.chosen->kind, cases[i].after);
        /* The deciding cause is first; the driver's own report of it is a note. */
        assert_int_equal(v.findings.list[0].reason, cases[i].reason);
        assert_int_equal(v.findings.list[0].weight, WEIGHT_OFF);
        assert_int_equal(v.findings.list[0].gain_mbps, better - v.chosen->mbps);
        for (int k = 1; k < v.findings.n; k++)
            assert_int_not_equal(v.findings.list[k].weight, WEIGHT_OFF);
        verdict_free(&v);
        machine_free(m);
    }
}

/* Doctor reports a cause once per check, and calls no assigned NIC too far away. */
static void test_doctor_once(void **state)
{
    static struct diagnosis d;
    for (size_t m = 0; m < MACHINES_COUNT; m++) {
        struct machine *machine = load(m);
        doctor_examine(machine, &d);
        for (int c = 0; c < DOCTOR_CHECKS; c++)
            for (int i = d.checks[c].first; i < d.checks[c].first + d.checks[c].n; i++) {
                const struct finding *f = &d.findings.list[i];
                if (f->reason == REASON_GDR_FAR)
                    fail_msg("%s: GDR-FAR: %s", machines[m], f->evidence);
                for (int k = d.checks[c].first; k < i; k++)
                    if (d.findings.list[k].reason == f->reason &&
                        strcmp(d.findings.list[k].evidence, f->evidence) == 0)
                        fail_msg("%s: twice: %s: %s", machines[m], reason_table[f->reason].code,
                                 f->evidence);
            }
        findings_free(&d.findings);
        machine_free(machine);
    }
}

/* No answer offers peer access on boards for which the vendor's driver disables it. */
static void test_geforce(void **state)
{
    static struct verdict v;
    for (size_t i = 0; i < MACHINES_COUNT; i++) {
        if (!strstr(machines[i], "geforce"))
            continue;
        struct machine *m = load(i);
        assert_int_equal(explain_pair(m, "gpu0", "gpu1", &v), WEFT_OK);
        assert_int_equal(v.chosen->kind, ROUTE_STAGED);
        assert_int_equal(v.findings.list[0].reason, REASON_P2P_GEFORCE);
        assert_int_equal(v.findings.list[0].weight, WEIGHT_OFF);
        verdict_free(&v);
        machine_free(m);
    }
}

/* A relay runs on the GPU in between and accesses both ends from there. */
static void test_relay_off(void **state)
{
    static const char *const faults[] = {"set gpus[3].mig yes",
                                         "set gpus[3].compute_mode prohibited"};
    static struct verdict v;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct machine *m = load(1);
        assert_int_equal(whatif_apply(m, faults[i]), WEFT_OK);
        assert_int_equal(explain_pair(m, "gpu0", "gpu7", &v), WEFT_OK);
        int seen = 0;
        for (int k = 0; k < v.routes.n; k++)
            if (v.routes.list[k].via == 3) {
                assert_int_equal(v.routes.list[k].usable, ANSWER_NO);
                seen++;
            }
        assert_int_equal(seen, 1);
        assert_int_not_equal(v.chosen->via, 3);
        verdict_free(&v);
        machine_free(m);
    }
}

int main(int argc, char **argv)
{
    stride = argc > 1 && strcmp(argv[1], "all") == 0 ? 1 : 3;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_they_are), cmocka_unit_test(test_one_change),
        cmocka_unit_test(test_one_fact),    cmocka_unit_test(test_turned_off),
        cmocka_unit_test(test_doctor_once), cmocka_unit_test(test_geforce),
        cmocka_unit_test(test_relay_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
