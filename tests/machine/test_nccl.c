/* SPDX-License-Identifier: Apache-2.0 */
/* The topology file for NCCL, read back: the distance between any two GPUs and NICs is that of the
 * model, unknown facts are absent, and no value is longer than NCCL accepts. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "machine/import/import.h"
#include "machine/routes/whatif.h"
#include "topo/topo.h"

enum { DEPTH_MOST = 32, DEVICES_MOST = 64 };

/* A GPU or NIC and the elements above it, from <cpu> down; above: serial numbers of elements. */
struct device {
    char busid[32];
    int above[DEPTH_MOST], depth;
};

struct reading {
    struct device devices[DEVICES_MOST];
    int n;
    int stack[DEPTH_MOST], depth, serial;
    char busids[DEPTH_MOST][32];
};

static char *export(const struct machine *m)
{
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    topo_nccl(m, to);
    fclose(to);
    return text;
}

static struct machine *load(const char *name)
{
    struct machine *m;
    char path[512];
    snprintf(path, sizeof path, MACHINES "/%s.json", name);
    if (machine_load(strchr(name, ' ') ? name : path, &m))
        fail_msg("%s: %s", name, weft_last_error());
    return m;
}

static void value_of(const char *element, const char *key, char *value, size_t size)
{
    char start[40];
    snprintf(start, sizeof start, " %s=\"", key);
    const char *at = strstr(element, start);
    value[0] = '\0';
    if (at)
        snprintf(value, size, "%.*s", (int)strcspn(at + strlen(start), "\""), at + strlen(start));
}

/* NCCL refuses a file without these: the architecture of a CPU, the vendor of an x86 CPU, family
 * and model for these vendors, the link of a switch. */
static void has_what_nccl_insists_on(const char *element)
{
    bool x86 = strstr(element, "arch=\"x86_64\""), cpu = strncmp(element, "cpu ", 4) == 0;
    bool maker =
        strstr(element, "vendor=\"GenuineIntel\"") || strstr(element, "vendor=\"AuthenticAMD\"");
    if ((cpu && !strstr(element, " arch=\"")) || (cpu && x86 && !strstr(element, " vendor=\"")) ||
        (cpu && maker && !(strstr(element, " familyid=\"") && strstr(element, " modelid=\""))) ||
        (strstr(element, "class=\"0x060400\"") &&
         !(strstr(element, " link_speed=\"") && strstr(element, " link_width=\""))))
        fail_msg("NCCL would refuse <%s>", element);
}

static void open_element(struct reading *r, const char *element)
{
    has_what_nccl_insists_on(element);
    bool here = strncmp(element, "gpu", 3) == 0 || strncmp(element, "nic", 3) == 0;
    if (here && r->n < DEVICES_MOST) {
        struct device *d = &r->devices[r->n++];
        d->depth = r->depth - 1; /* the device's own element is above <gpu> */
        memcpy(d->above, r->stack, sizeof d->above);
        memcpy(d->busid, r->busids[r->depth - 1], sizeof d->busid);
    }
    assert_true(r->depth < DEPTH_MOST);
    value_of(element, "busid", r->busids[r->depth], sizeof r->busids[0]);
    for (int i = 0; *r->busids[r->depth] && i < r->depth; i++)
        assert_string_not_equal(r->busids[r->depth], r->busids[i]);
    r->stack[r->depth++] = ++r->serial;
}

/* Every element is <name key="value" ...>, <... /> or </name>. */
static void read_back(const char *text, struct reading *r)
{
    *r = (struct reading){.n = 0};
    for (const char *at = strchr(text, '<'); at; at = strchr(at + 1, '<')) {
        char element[2048];
        const char *end = strncmp(at, "<!--", 4) == 0 ? strstr(at, "-->") : strchr(at, '>');
        assert_non_null(end);
        if (at[1] == '!') {
            at = end;
            continue;
        }
        snprintf(element, sizeof element, "%.*s", (int)(end - at - 1), at + 1);
        if (at[1] == '/')
            r->depth--;
        else if (end[-1] != '/')
            open_element(r, element);
    }
    assert_int_equal(r->depth, 0);
}

/* Compares the elements above both devices from the top: 1 in common: <system>, 2: <cpu>, more:
 * switches. */
static enum level level_of(const struct device *a, const struct device *b)
{
    int common = 0;
    while (common < a->depth && common < b->depth && a->above[common] == b->above[common])
        common++;
    if (common < 2)
        return LEVEL_SYS;
    if (common == 2)
        return LEVEL_PHB;
    return a->depth + b->depth - 2 * common == 0 ? LEVEL_PIX : LEVEL_PXB;
}

static const struct device *find(const struct reading *r, const char *bdf)
{
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->devices[i].busid, bdf) == 0)
            return &r->devices[i];
    return NULL;
}

static int ends_of(const struct machine *m, struct endpoint *ends)
{
    int n = 0;
    char name[32];
    for (size_t i = 0; i < m->n_gpus; i++) {
        snprintf(name, sizeof name, "gpu%zu", i);
        assert_int_equal(endpoint_find(m, name, &ends[n++]), WEFT_OK);
    }
    for (size_t i = 0; i < m->n_nics; i++)
        assert_int_equal(endpoint_find(m, m->nics[i].name.value, &ends[n++]), WEFT_OK);
    assert_true(n <= DEVICES_MOST);
    return n;
}

/* NCCL does not distinguish root complexes of one NUMA node. Returns how many pairs were
 * compared. */
static int compare(const char *name, const struct machine *m)
{
    static struct endpoint ends[DEVICES_MOST];
    static struct reading r;
    char *text = export(m);
    int pairs = 0, n = ends_of(m, ends);
    read_back(text, &r);
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++) {
            const struct endpoint *x = &ends[a], *y = &ends[b];
            if (a == b || !x->pci || !y->pci)
                continue;
            const struct device *s = find(&r, x->pci->bdf.value), *t = find(&r, y->pci->bdf.value);
            enum level want = routes_level(m, x->pci, y->pci);
            if (!s || !t)
                fail_msg("%s: %s or %s is not in the file", name, x->name, y->name);
            if (want == LEVEL_NODE)
                want = LEVEL_PHB;
            if (want != LEVEL_UNKNOWN && level_of(s, t) != want)
                fail_msg("%s: %s %s: %s in the file, %s in the model", name, x->name, y->name,
                         level_name(level_of(s, t)), level_name(want));
            pairs += want != LEVEL_UNKNOWN;
        }
    free(text);
    return pairs;
}

#ifdef WITH_XML

static bool same_links(const struct link_bundle *a, const struct link_bundle *b)
{
    return a->links == b->links && a->through_switch == b->through_switch &&
           a->generation == b->generation && a->line_mbps == b->line_mbps &&
           (!a->links || strcmp(a->kind, b->kind) == 0);
}

/* The links of a GPU, in words. */
static void gpu_words(const struct machine *m, int64_t gpu, char *words, size_t size)
{
    struct link_bundle cpu = routes_cpu_links(m, gpu);
    int up = 0;
    for (size_t i = 0; i < m->n_links; i++)
        up += number_is(m->links[i].gpu, gpu) && number_is(m->links[i].active, 1);
    snprintf(words, size, "%d links, %d of %lld MB/s to the CPU, links %s", up, cpu.links,
             (long long)cpu.line_mbps, routes_links_known(m, gpu) ? "known" : "unknown");
}

/* A NIC's place and ports in words. */
static void nic_words(const struct machine *m, const struct machine_nic *nic, char *words,
                      size_t size)
{
    size_t used = (size_t)snprintf(words, size, "at %s", text_or(nic->bdf, "?"));
    for (size_t i = 0; i < m->n_ports; i++)
        if (text_is(m->ports[i].nic, nic->name.value))
            used += (size_t)snprintf(words + used, size - used, ", port %lld of %lld Mbit/s",
                                     (long long)number_or(m->ports[i].port, -1),
                                     (long long)number_or(m->ports[i].mbit, -1));
}

static void compare_devices(const char *name, const struct machine *m, const struct machine *again)
{
    char before[400], after[400];
    assert_int_equal(again->n_gpus, m->n_gpus);
    if (again->n_nics != m->n_nics || again->n_ports != m->n_ports)
        fail_msg("%s: %zu NICs and %zu ports were read, %zu and %zu written", name, again->n_nics,
                 again->n_ports, m->n_nics, m->n_ports);
    for (size_t i = 0; i < m->n_gpus; i++) {
        gpu_words(m, m->gpus[i].index.value, before, sizeof before);
        gpu_words(again, m->gpus[i].index.value, after, sizeof after);
        if (strcmp(before, after) != 0)
            fail_msg("%s: gpu%zu: \"%s\" was read, \"%s\" written", name, i, after, before);
    }
    for (size_t i = 0; i < m->n_nics; i++) {
        const struct machine_nic *nic = machine_find_nic(again, m->nics[i].name.value);
        nic_words(m, &m->nics[i], before, sizeof before);
        if (nic)
            nic_words(again, nic, after, sizeof after);
        if (!nic || strcmp(before, after) != 0)
            fail_msg("%s: %s: \"%s\" was read, \"%s\" written", name, m->nics[i].name.value,
                     nic ? after : "nothing", before);
    }
}

/* Reads the file as --machine does. Returns how many pairs were compared. */
static int compare_import(const char *name, const struct machine *m)
{
    static struct endpoint ends[DEVICES_MOST];
    struct machine *again;
    char *text = export(m);
    int pairs = 0, n = ends_of(m, ends);
    if (import_any(text, strlen(text), name, &again))
        fail_msg("%s", weft_last_error());
    if (again->warnings)
        fail_msg("%s", again->warnings);
    compare_devices(name, m, again);
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++, pairs++) {
            struct endpoint x, y;
            if (endpoint_find(again, ends[a].name, &x) || endpoint_find(again, ends[b].name, &y))
                fail_msg("%s: %s", name, weft_last_error());
            enum level want = routes_level(m, ends[a].pci, ends[b].pci);
            enum level level = routes_level(again, x.pci, y.pci);
            if (level != want)
                fail_msg("%s: %s %s: %s was read, %s written", name, x.name, y.name,
                         level_name(level), level_name(want));
            if (x.kind != ENDPOINT_GPU || y.kind != ENDPOINT_GPU || a == b)
                continue;
            struct link_bundle links = routes_links(again, x.index, y.index);
            struct link_bundle before = routes_links(m, x.index, y.index);
            if (!same_links(&links, &before))
                fail_msg("%s: %s %s: %d links (%s %lld, %lld MB/s) were read, %d (%s %lld, %lld) "
                         "written",
                         name, x.name, y.name, links.links, links.kind ? links.kind : "none",
                         (long long)links.generation, (long long)links.line_mbps, before.links,
                         before.kind ? before.kind : "none", (long long)before.generation,
                         (long long)before.line_mbps);
        }
    machine_free(again);
    free(text);
    return pairs;
}

#endif

static const char *const machines[] = {
    "container-2-of-8",
    "dgx-1v",
    "dgx-2",
    "dgx-a100",
    "geforce-2-acs",
    "h200-2-measured",
    "h100-1-vm",
    "h200-2-vm",
    "h200-8-vm",
    "mi300x-8",
    "no-gpu",
    "p100-8",
    "vm-p2p-clique",
    "2 socket, 4 gpu each, nvlink hybrid-cube-mesh, 1 nic per 2 gpu",
    "8 h200, nvswitch, flat vm, nic per gpu, 2 disk",
    "8 mi300x, xgmi mesh, nic per gpu",
    "4 gb200, nic per gpu"};

static void test_distances(void **state)
{
    int pairs = 0;
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
        struct machine *m = load(machines[i]);
        pairs += compare(machines[i], m);
        machine_free(m);
    }
    assert_true(pairs > 900);
}

#ifdef WITH_XML
static const char *const imports[] = {"hwloc-1.xml",      "hwloc-2.xml",   "hwloc-3.xml",
                                      "nccl-by-hand.xml", "nccl-dump.xml", "rccl-dump.xml"};

static int is_machine(const struct dirent *entry)
{
    const char *end = strstr(entry->d_name, ".json");
    return end && !end[5];
}

/* Every machine file of the repository, and descriptions. */
static void test_read_again(void **state)
{
    struct dirent **files;
    int pairs = 0, n = scandir(MACHINES, &files, is_machine, alphasort);
    assert_true(n >= 12);
    for (int i = 0; i < n; i++) {
        *strstr(files[i]->d_name, ".json") = '\0';
        struct machine *m = load(files[i]->d_name);
        pairs += compare_import(files[i]->d_name, m);
        machine_free(m);
        free(files[i]);
    }
    free(files);
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
        struct machine *m = strchr(machines[i], ' ') ? load(machines[i]) : NULL;
        pairs += m ? compare_import(machines[i], m) : 0;
        machine_free(m);
    }
    for (size_t i = 0; i < sizeof imports / sizeof imports[0]; i++) {
        struct machine *m;
        char path[512];
        snprintf(path, sizeof path, MACHINES "/../imports/%s", imports[i]);
        assert_int_equal(machine_load(path, &m), WEFT_OK);
        pairs += compare_import(imports[i], m);
        machine_free(m);
    }
    assert_true(pairs > 900);
}

/* Two RDMA devices of one PCI function, one without a port, one without a place in the PCI tree,
 * and links to the CPU and to a GPU of another container. */
static void test_odd_devices(void **state)
{
    struct machine *m = load("container-2-of-8");
    const char *bdf = m->nics[0].bdf.value;
    struct machine_nic *second = machine_add_nic(m);
    text_set(m, &second->name, "mlx5_bond_0");
    text_set(m, &second->bdf, bdf);
    struct machine_port *port = machine_add_port(m);
    text_set(m, &port->nic, "mlx5_bond_0");
    number_set(&port->port, 2);
    number_set(&port->mbit, 25000);
    struct machine_nic *bare = machine_add_nic(m);
    text_set(m, &bare->name, "hns_0");
    text_set(m, &bare->bdf, bdf);
    struct machine_nic *soft = machine_add_nic(m);
    text_set(m, &soft->name, "siw0");
    for (int i = 0; i < 3; i++) {
        struct machine_link *link = machine_add_link(m);
        text_set(m, &link->kind, "nvlink");
        number_set(&link->gpu, 1);
        number_set(&link->link, 20 + i);
        number_set(&link->gen, 4);
        number_set(&link->active, 1);
        text_set(m, &link->peer, i ? "gpu" : "cpu");
        if (i)
            text_set(m, &link->peer_bdf, "0000:f0:00.0");
    }
    assert_true(compare_import("odd devices", m) > 10);
    machine_free(m);
}
#endif

static void test_moved_nic(void **state)
{
    static const struct {
        const char *machine, *nic;
    } cases[] = {{"dgx-1v", "mlx5_3"},
                 {"dgx-a100", "mlx5_2"},
                 {"p100-8", "mlx5_0"},
                 {"vm-p2p-clique", "mlx5_1"},
                 {"8 h200, nvswitch, flat vm, nic per gpu, 2 disk", "mlx5_5"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct machine *m = load(cases[i].machine);
        struct endpoint gpu, nic;
        char change[64];
        snprintf(change, sizeof change, "move nic %s under gpu1", cases[i].nic);
        if (whatif_apply(m, change))
            fail_msg("%s: %s", cases[i].machine, weft_last_error());
        assert_int_equal(endpoint_find(m, "gpu1", &gpu), WEFT_OK);
        assert_int_equal(endpoint_find(m, cases[i].nic, &nic), WEFT_OK);
        assert_int_equal(routes_level(m, gpu.pci, nic.pci), LEVEL_PIX);
        assert_true(compare(change, m) > 0);
        machine_free(m);
    }
}

/* Without a switch: the GPU and the NIC are below one root port. */
static void test_shared_port(void **state)
{
    struct machine *m = load("p100-8");
    struct endpoint gpu, nic;
    assert_int_equal(endpoint_find(m, "gpu1", &gpu), WEFT_OK);
    assert_int_equal(endpoint_find(m, "mlx5_0", &nic), WEFT_OK);
    struct machine_pci *moved = machine_find_pci(m, gpu.pci->bdf.value);
    moved->parent = nic.pci->parent;
    moved->root = nic.pci->root;
    moved->numa = nic.pci->numa;
    assert_int_equal(routes_level(m, gpu.pci, nic.pci), LEVEL_PIX);
    assert_true(compare("one root port", m) > 0);
    machine_free(m);
}

static void has(const struct machine *m, const char *words, bool yes)
{
    char *text = export(m);
    if ((strstr(text, words) != NULL) != yes)
        fail_msg("%s is%s in\n%s", words, yes ? " not" : "", text);
    free(text);
}

static void test_unknown_is_left_out(void **state)
{
    struct machine *m = load("h200-8-vm");
    has(m, "gdr=", false); /* not tested */
    has(m, "link_speed=\"\"", false);
    machine_free(m);
    m = load("2 h100, nic per gpu");
    has(m, "affinity", false);
    /* NCCL refuses a CPU without an architecture */
    has(m, "<cpu numaid=\"0\" arch=\"unknown\">", true);
    has(m, "vendor=\"\"", false);
    machine_free(m);
    m = load("vm-p2p-clique");
    has(m, "gdr=\"0\"", true); /* every registration was refused */
    has(m, "gdr=\"1\"", false);
    has(m, "link_speed=\"\"", false);
    has(m,
        "busid=\"ffff:ff:01.0\" class=\"0x060400\" vendor=\"0xffff\" device=\"0xffff\" "
        "link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"",
        true);
    machine_free(m);
    m = load("dgx-a100");
    has(m, "gdr=\"1\"", true); /* the ladder's test succeeded */
    machine_free(m);
}

/* NCCL requires the vendor of an x86 CPU, family and model for these vendors, and the link of a
 * switch. */
static void test_what_nccl_insists_on(void **state)
{
    struct machine *m = load("dgx-a100");
    has(m, "arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"", true);
    m->system.cpu_model_number.known = false;
    has(m, "arch=\"x86_64\" vendor=\"unknown\">", true);
    text_unknown(m, &m->system.cpu_vendor, "not seen");
    has(m, "arch=\"x86_64\" vendor=\"unknown\">", true);
    machine_free(m);
    m = load("8 h200, nvswitch, nic per gpu");
    for (size_t i = 0; i < m->n_pci; i++)
        m->pci[i].gen.known = m->pci[i].gen_max.known = m->pci[i].width.known =
            m->pci[i].width_max.known = false;
    has(m, "root=\"0000:10\" link_speed=\"\" link_width=\"0\">", true);
    machine_free(m);
}

static void test_arm(void **state)
{
    struct machine *m = load("dgx-a100");
    text_set(m, &m->system.arch, "aarch64");
    has(m, "arch=\"arm64\"", true);
    has(m, "aarch64", false);
    machine_free(m);
}

static void test_amd_links(void **state)
{
    struct machine *m = load("mi300x-8");
    has(m, "<xgmi target=\"0000:26:00.0\" count=\"1\" tclass=\"0x120000\"/>", true);
    has(m, "<nvlink", false);
    has(m, "<system version=\"2\">", true); /* as RCCL requires */
    machine_free(m);
}

/* NCCL accepts values of up to 253 characters: 28 words of 32 CPUs. */
static void test_masks(void **state)
{
    struct machine *m = load("dgx-a100");
    for (size_t i = 0; i < m->n_numa; i++)
        text_set(m, &m->numa[i].cpus, "0,895");
    has(m, "affinity=\"80000000,00000000,", true);
    has(m, ",00000000,00000001\"", true);
    for (size_t i = 0; i < m->n_numa; i++)
        text_set(m, &m->numa[i].cpus, "0-7,896");
    has(m, "affinity", false);
    for (size_t i = 0; i < m->n_numa; i++)
        text_set(m, &m->numa[i].cpus, "0-7,70000-4000000000");
    has(m, "affinity=\"000000ff\"", true);
    machine_free(m);
}

/* The same clique in two NUMA nodes becomes two switches with two addresses. */
static void test_made_addresses(void **state)
{
    struct machine *m = load("vm-p2p-clique");
    struct machine_numa *node = machine_add_numa(m);
    number_set(&node->index, 1);
    for (size_t i = 0; i < m->n_pci; i++)
        number_set(&m->pci[i].numa, (int64_t)i % 4 >= 2);
    char *text = export(m), *first = strstr(text, "busid=\"ffff:ff:01.0\"");
    assert_non_null(first);
    assert_null(strstr(first + 1, "busid=\"ffff:ff:01.0\""));
    free(text);
    machine_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distances),
        cmocka_unit_test(test_moved_nic),
        cmocka_unit_test(test_shared_port),
        cmocka_unit_test(test_unknown_is_left_out),
        cmocka_unit_test(test_what_nccl_insists_on),
        cmocka_unit_test(test_arm),
        cmocka_unit_test(test_amd_links),
        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_made_addresses),
#ifdef WITH_XML
        cmocka_unit_test(test_read_again),
        cmocka_unit_test(test_odd_devices),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
