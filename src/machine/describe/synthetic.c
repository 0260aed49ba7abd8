/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a machine from a short description: "2 socket, 4 gpu each, nvlink hybrid-cube-mesh, 1 nic
 * per 2 gpu". All other facts stay unknown. docs/machine.md lists the words. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "machine/describe/synthetic.h"

enum { NUMBER_MOST = 9999 };

/* One phrase between commas, split into words. */
struct phrase {
    char words[8][32];
    int n;
    char text[96];
};

static bool parse_number(const char *word, int *value)
{
    char *end;
    long number = strtol(word, &end, 10);
    if (!isdigit((unsigned char)*word) || *end || number < 0 || number > NUMBER_MOST)
        return false;
    *value = (int)number;
    return true;
}

/* "gpus" counts as "gpu". */
static bool is_word(const char *word, const char *want)
{
    size_t length = strlen(want);
    return strncmp(word, want, length) == 0 &&
           (word[length] == '\0' || (word[length] == 's' && word[length + 1] == '\0'));
}

static bool phrase_is(const struct phrase *p, int from, const char *a, const char *b)
{
    return p->n > from && is_word(p->words[from], a) &&
           (b ? p->n == from + 2 && is_word(p->words[from + 1], b) : p->n == from + 1);
}

static const struct fact_gpu *find_model(const char *word)
{
    for (int i = 0; i < fact_n_gpus; i++)
        if (is_word(word, fact_gpus[i].word))
            return &fact_gpus[i];
    return NULL;
}

static weft_status not_understood(const struct phrase *p)
{
    return base_fail(
        WEFT_ERR_ARGUMENT,
        "\"%s\" is not understood; write e.g. \"2 socket\", \"4 gpu each\", \"8 h200\", "
        "\"nvlink switch|mesh|pairs|hybrid-cube-mesh|none\", \"1 nic per 2 gpu\", "
        "\"nvlink domain 72\", \"18 node\", \"4 numa per socket\", \"nic beside gpu0\", "
        "\"2 gpu per pcie-switch\", \"2 pcie-switch per pcie-switch\", \"no pcie-switch\", "
        "\"2 gpu per root-complex\", \"4 disk\", \"acs on\", \"iommu on\", \"flat vm\"",
        p->text);
}

static weft_status set_fabric(struct plan *plan, const struct phrase *p)
{
    static const char *const words[] = {"none", "hybrid-cube-mesh", "mesh", "pair", "switch"};
    if (p->n == 3 && is_word(p->words[1], "domain") && parse_number(p->words[2], &plan->domain) &&
        plan->domain > 0) {
        plan->fabric = FABRIC_SWITCH;
        return WEFT_OK;
    }
    for (int i = 0; p->n == 2 && i < 5; i++)
        if (is_word(p->words[1], words[i])) {
            plan->fabric = (enum fabric)i;
            return WEFT_OK;
        }
    return not_understood(p);
}

/* Reads "1 nic per 2 gpu" or "nic per gpu"; `at` is the index of "nic". */
static bool set_nics(struct plan *plan, const struct phrase *p, int count, int at)
{
    plan->nics = count;
    plan->nic_gpus = 1;
    if (at >= p->n || !is_word(p->words[at], "nic"))
        return false;
    if (at + 1 == p->n)
        return true;
    int of = 1;
    bool counted = at + 2 < p->n && parse_number(p->words[at + 2], &of);
    int unit = at + 2 + counted;
    if (!is_word(p->words[at + 1], "per") || unit + 1 != p->n || !is_word(p->words[unit], "gpu") ||
        of < 1)
        return false;
    plan->nic_gpus = of;
    return true;
}

/* Reads "nic beside gpu0" or "2 nic beside gpu0 gpu4"; `at` is the index of the word after
 * "beside". */
static bool set_beside(struct plan *plan, const struct phrase *p, int count, int at)
{
    int gpu;
    for (int i = at; i < p->n; i++) {
        if (strncmp(p->words[i], "gpu", 3) != 0 || !parse_number(p->words[i] + 3, &gpu) ||
            gpu >= PLAN_GPUS_MOST)
            return false;
        plan->beside[gpu] += count;
    }
    return at < p->n;
}

/* Reads "2 gpu per pcie-switch", "2 pcie-switch per pcie-switch", "2 gpu per root-complex" or
 * "4 numa per socket". */
static bool set_per(struct plan *plan, const struct phrase *p, int count)
{
    const char *what = p->words[1], *of = p->words[3];
    if (p->n != 4 || !is_word(p->words[2], "per") || count < 1)
        return false;
    if (is_word(what, "gpu") && is_word(of, "pcie-switch")) {
        plan->gpus_per_switch = count;
    } else if (is_word(what, "pcie-switch") && is_word(of, "pcie-switch")) {
        plan->switches_per_switch = count;
    } else if (is_word(what, "gpu") && is_word(of, "root-complex")) {
        plan->no_switch = true;
        plan->gpus_per_root = count;
    } else if (is_word(what, "numa") && (is_word(of, "socket") || is_word(of, "package"))) {
        plan->numa = count;
    } else {
        return false;
    }
    return true;
}

static bool set_counted(struct plan *plan, const struct phrase *p, int count)
{
    bool each = p->n == 3 && is_word(p->words[2], "each");
    const struct fact_gpu *model = p->n > 1 ? find_model(p->words[1]) : NULL;
    if (model || (p->n > 1 && is_word(p->words[1], "gpu") && (each || p->n == 2))) {
        plan->model = model ? model : plan->model;
        *(each ? &plan->gpus_each : &plan->gpus) = count;
        return each || p->n == 2;
    }
    if (phrase_is(p, 1, "socket", NULL) || phrase_is(p, 1, "package", NULL)) {
        plan->sockets = count;
        return count >= 1;
    }
    if (phrase_is(p, 1, "disk", NULL)) {
        plan->disks = count;
        return true;
    }
    if (phrase_is(p, 1, "node", NULL) || phrase_is(p, 1, "host", NULL)) {
        plan->hosts = count;
        return count >= 1;
    }
    if (set_per(plan, p, count))
        return true;
    if (p->n > 3 && is_word(p->words[1], "nic") && is_word(p->words[2], "beside"))
        return set_beside(plan, p, count, 3);
    return set_nics(plan, p, count, 1);
}

static weft_status apply_phrase(struct plan *plan, const struct phrase *p)
{
    int count;
    if (parse_number(p->words[0], &count))
        return set_counted(plan, p, count) ? WEFT_OK : not_understood(p);
    if (is_word(p->words[0], "nvlink") || is_word(p->words[0], "xgmi"))
        return set_fabric(plan, p);
    if (phrase_is(p, 0, "nvswitch", NULL))
        plan->fabric = FABRIC_SWITCH;
    else if (phrase_is(p, 0, "acs", "on"))
        plan->acs = true;
    else if (phrase_is(p, 0, "iommu", "on") || phrase_is(p, 0, "iommu", "off")) {
        plan->iommu_on = is_word(p->words[1], "on");
        plan->iommu_said = true;
    } else if (phrase_is(p, 0, "flat", "vm"))
        plan->flat = true;
    else if (phrase_is(p, 0, "no", "pcie-switch"))
        plan->no_switch = true;
    else if (p->n > 2 && is_word(p->words[0], "nic") && is_word(p->words[1], "beside"))
        return set_beside(plan, p, 1, 2) ? WEFT_OK : not_understood(p);
    else if (p->n == 1 && find_model(p->words[0]))
        plan->model = find_model(p->words[0]);
    else if (!set_nics(plan, p, 1, 0))
        return not_understood(p);
    return WEFT_OK;
}

static weft_status read_plan(const char *description, struct plan *plan)
{
    const char *at = description;
    while (*at) {
        struct phrase p = {.n = 0};
        size_t length = strcspn(at, ",;");
        while (length && isspace((unsigned char)*at)) {
            at++;
            length--;
        }
        snprintf(p.text, sizeof p.text, "%.*s", (int)(length < 90 ? length : 90), at);
        char copy[96], *save = NULL;
        snprintf(copy, sizeof copy, "%s", p.text);
        for (char *word = strtok_r(copy, " \t\n", &save); word && p.n < 8;
             word = strtok_r(NULL, " \t\n", &save))
            snprintf(p.words[p.n++], sizeof p.words[0], "%.31s", word);
        weft_status status = p.n ? apply_phrase(plan, &p) : not_understood(&p);
        if (status)
            return status;
        at += length;
        at += *at != '\0';
    }
    return *description ? WEFT_OK
                        : base_fail(WEFT_ERR_ARGUMENT, "the description of the machine is empty");
}

/* --- checks of the plan ----------------------------------------------------------------------- */

static weft_status check_count(const char *what, int count, int most)
{
    return count > most
               ? base_fail(WEFT_ERR_ARGUMENT, "the description has %d %s; at most %d are possible",
                           count, what, most)
               : WEFT_OK;
}

static weft_status check_counts(const struct plan *plan)
{
    weft_status status = check_count("GPUs", plan->gpus, PLAN_GPUS_MOST);
    if (!status)
        status = check_count("nodes", plan->hosts, PLAN_HOSTS_MOST);
    if (!status)
        status = check_count("sockets in a node", plan->sockets, PLAN_SOCKETS_MOST);
    if (!status)
        status = check_count("NUMA nodes in a socket", plan->numa, PLAN_NUMA_MOST);
    if (!status && plan->hosts > 1 && plan->gpus % plan->hosts)
        status = base_fail(WEFT_ERR_ARGUMENT, "%d GPUs do not spread evenly over %d nodes",
                           plan->gpus, plan->hosts);
    for (int i = plan->gpus; !status && i < PLAN_GPUS_MOST; i++)
        if (plan->beside[i])
            status = base_fail(WEFT_ERR_ARGUMENT, "a NIC is beside gpu%d, but there are %d GPUs", i,
                               plan->gpus);
    return status;
}

/* Checks that the devices of a PCIe switch or root complex fit into its slots. */
static weft_status check_slots(const struct plan *plan)
{
    int64_t nics = 0;
    for (int i = 0; i < PLAN_GPUS_MOST; i++)
        nics = plan->beside[i] > nics ? plan->beside[i] : nics;
    int here =
        plan->no_switch ? (plan->gpus_per_root ? plan->gpus_per_root : 1) : plan->gpus_per_switch;
    nics = here * nics + ((int64_t)here * plan->nics + plan->nic_gpus - 1) / plan->nic_gpus;
    if (plan->no_switch && plan->switches_per_switch)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "the description has both no PCIe switches and switches above switches");
    if (here + nics > PLAN_SLOTS - 1 || plan->disks > PLAN_SLOTS || plan->switches_per_switch > 8)
        return base_fail(
            WEFT_ERR_ARGUMENT,
            "too many devices: a PCIe switch or root complex has %d ports for GPUs and NICs, at "
            "most 8 switches below it, and %d disks",
            PLAN_SLOTS - 1, PLAN_SLOTS);
    return WEFT_OK;
}

static weft_status check_fabric(const struct plan *plan)
{
    int gpus = plan->gpus / plan->hosts; /* links without switches stay in a node */
    if (plan->fabric == FABRIC_CUBE && gpus != 8)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "a hybrid cube mesh has 8 GPUs, but the description has %d", gpus);
    if (plan->fabric != FABRIC_NONE && !plan->model->link_kind)
        return base_fail(WEFT_ERR_ARGUMENT, "%s has no NVLink", plan->model->name);
    if (plan->fabric == FABRIC_MESH && gpus - 1 > plan->model->links)
        return base_fail(WEFT_ERR_ARGUMENT, "%s has %d links, too few for a mesh of %d",
                         plan->model->name, plan->model->links, gpus);
    return WEFT_OK;
}

/* The product, at most NUMBER_MOST, which is above every limit. */
static int product(int a, int b, int c)
{
    int64_t all = (int64_t)a * b * c;
    return all > NUMBER_MOST ? NUMBER_MOST : (int)all;
}

/* Fills in what the description implies. A compute tray of NVL72 has 4 GPUs and 2 packages, and 18
 * trays make a domain ("Understanding Your Grace-Blackwell Systems",
 * docs.nvidia.com/multi-node-nvlink-systems). GPUs with links to their CPU have no PCIe switch. */
static void fill_plan(struct plan *plan)
{
    bool rack = plan->domain > 16 && !plan->hosts && plan->gpus % 4 == 0 && plan->gpus;
    if (!plan->sockets)
        plan->sockets = rack ? 2 : 1;
    if (plan->gpus_each)
        plan->gpus = product(plan->gpus_each, plan->sockets, plan->hosts ? plan->hosts : 1);
    if (!plan->hosts)
        plan->hosts = rack ? plan->gpus / 4 : 1;
    if (!plan->model)
        plan->model = find_model(plan->fabric == FABRIC_CUBE ? "v100" : "h100");
    if (!plan->domain)
        plan->domain = plan->gpus / plan->hosts;
    if (plan->model->cpu_links && !plan->gpus_per_switch && !plan->switches_per_switch)
        plan->no_switch = true;
    if (!plan->gpus_per_switch)
        plan->gpus_per_switch = 2;
}

weft_status machine_synthetic(const char *description, struct machine **machine)
{
    struct plan plan = {.numa = 1, .nic_gpus = 1, .nic_gbit = 400};
    *machine = NULL;
    weft_status status = read_plan(description, &plan);
    if (!status && plan.gpus && plan.gpus_each)
        status = base_fail(WEFT_ERR_ARGUMENT, "the description has the number of GPUs twice");
    if (status)
        return status;
    fill_plan(&plan);
    status = check_counts(&plan);
    if (!status)
        status = check_fabric(&plan);
    if (!status)
        status = check_slots(&plan);
    if (status)
        return status;
    char origin[300];
    snprintf(origin, sizeof origin, "description \"%.270s\"", description);
    *machine = machine_new(origin);
    plan_make(&plan, *machine);
    return machine_check(*machine);
}
