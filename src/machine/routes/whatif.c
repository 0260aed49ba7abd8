/* SPDX-License-Identifier: Apache-2.0 */
/* The changes of a what-if, one function each. See whatif.h. */
#include "machine/routes/whatif.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "machine/pci_config.h"
#include "machine/routes/routes.h"

enum { WORDS_MOST = 8, CLIQUES_MOST = 16, BRIDGES_MOST = 64 };

struct words {
    char *at[WORDS_MOST];
    int n;
};

static weft_status find_pci(struct machine *machine, const char *bdf, struct machine_pci **pci)
{
    *pci = machine_find_pci(machine, bdf);
    if (*pci)
        return WEFT_OK;
    const char *names[1024];
    size_t n = 0;
    for (size_t i = 0; i < machine->n_pci && n < 1024; i++)
        names[n++] = machine->pci[i].bdf.value;
    const char *near = base_nearest(bdf, names, n);
    return base_fail(WEFT_ERR_ARGUMENT, "there is no PCI device %s%s%s", bdf,
                     near ? "; nearest: " : "", near ? near : "");
}

static weft_status find_changed_end(struct machine *machine, const char *name,
                                    enum endpoint_kind kind, struct endpoint *end)
{
    weft_status status = endpoint_find(machine, name, end);
    if (!status && end->kind != kind)
        status = base_fail(WEFT_ERR_ARGUMENT, "%s is not a %s", name,
                           kind == ENDPOINT_GPU ? "GPU" : "NIC");
    return status;
}

/* The PCI function with this address, or of the device with this name ("gpu0"). */
static weft_status find_function(struct machine *machine, const char *name,
                                 struct machine_pci **pci)
{
    struct endpoint end;
    if (strchr(name, ':'))
        return find_pci(machine, name, pci);
    weft_status status = endpoint_find(machine, name, &end);
    *pci = !status && end.pci ? machine_find_pci(machine, end.pci->bdf.value) : NULL;
    if (!status && !*pci)
        status = base_fail(WEFT_ERR_ARGUMENT, "the PCI address of %s is not known", name);
    return status;
}

/* The PCI functions that a change of ACS names: one by its address, the bridges above a device by
 * the device's name, or all. */
struct named_bridges {
    struct machine_pci *list[BRIDGES_MOST];
    int n;
};

static weft_status find_bridges(struct machine *machine, const char *name,
                                struct named_bridges *named)
{
    struct machine_pci *at;
    named->n = 0;
    weft_status status = find_function(machine, name, &at);
    if (status)
        return status;
    if (strchr(name, ':')) {
        named->list[named->n++] = at;
        return WEFT_OK;
    }
    while (named->n < BRIDGES_MOST && (at = machine_find_pci(machine, at->parent.value)))
        named->list[named->n++] = at;
    return named->n ? WEFT_OK
                    : base_fail(WEFT_ERR_ARGUMENT, "no PCI bridge above %s is known", name);
}

/* drop acs BDF | drop acs DEVICE | drop acs all */
static weft_status drop_acs(struct machine *machine, const struct words *w)
{
    static const int64_t redirects = ACS_RR | ACS_CR | ACS_EC;
    int changed = 0;
    struct named_bridges named = {.n = 0};
    bool all = strcmp(w->at[2], "all") == 0;
    weft_status status = all ? WEFT_OK : find_bridges(machine, w->at[2], &named);
    if (status)
        return status;
    if (named.n == 1 && !named.list[0]->acs_control.known)
        return base_fail(WEFT_ERR_ARGUMENT, "the ACS control of %s is not known (%s)", w->at[2],
                         why_unknown(named.list[0]->acs_control.why));
    for (size_t i = 0; i < (all ? machine->n_pci : (size_t)named.n); i++) {
        struct machine_pci *pci = all ? &machine->pci[i] : named.list[i];
        if (!pci->acs_control.known)
            continue;
        changed += (pci->acs_control.value & redirects) != 0;
        pci->acs_control.value &= ~redirects;
    }
    return changed ? WEFT_OK
                   : base_fail(WEFT_ERR_ARGUMENT,
                               "ACS does not redirect there, so it cannot be dropped");
}

/* set acs BDF | set acs DEVICE */
static weft_status set_acs(struct machine *machine, const struct words *w)
{
    struct named_bridges named;
    weft_status status = find_bridges(machine, w->at[2], &named);
    for (int i = 0; !status && i < named.n; i++) {
        number_set(&named.list[i]->acs, 1);
        number_set(&named.list[i]->acs_control, ACS_SV | ACS_RR | ACS_CR | ACS_UF);
    }
    return status;
}

/* The number of a GPU, "2" or "gpu2". */
static long parse_gpu(const char *text, char **end)
{
    return strtol(strncmp(text, "gpu", 3) == 0 ? text + 3 : text, end, 10);
}

/* lose nvlink A:B (one link of that pair), lose nvlink A:B all, lose link A:switch */
static weft_status lose_link(struct machine *machine, const struct words *w)
{
    char *end;
    long a = parse_gpu(w->at[2], &end);
    bool all = w->n == 4 && strcmp(w->at[3], "all") == 0;
    bool to_switch = strcmp(end, ":switch") == 0;
    long b = *end == ':' && !to_switch ? parse_gpu(end + 1, &end) : -1;
    int lost = 0;
    if ((*end && !to_switch) || (b < 0 && !to_switch) || (w->n == 4 && !all))
        return base_fail(WEFT_ERR_ARGUMENT, "write \"lose nvlink 2:5\", \"lose nvlink 2:5 all\" or "
                                            "\"lose nvlink 2:switch\"");
    for (int side = 0; side < 2; side++) {
        bool done = false;
        for (size_t i = 0; i < machine->n_links && !done; i++) {
            struct machine_link *link = &machine->links[i];
            bool here =
                to_switch
                    ? !side && number_is(link->gpu, a) && text_is(link->peer, "switch")
                    : number_is(link->gpu, side ? b : a) && number_is(link->peer_gpu, side ? a : b);
            if (!here || !number_is(link->active, 1))
                continue;
            number_set(&link->active, 0);
            lost++;
            done = !all;
        }
    }
    return lost ? WEFT_OK
                : base_fail(WEFT_ERR_ARGUMENT, "there is no active link %s to lose", w->at[2]);
}

/* In a flat virtual machine the guest sees no switch; equal P2P cliques mean that two devices share
 * one. A GPU without a clique gets an unused one, and the NIC gets the clique of the GPU. */
static weft_status share_clique(struct machine *machine, struct machine_pci *nic,
                                struct machine_pci *gpu)
{
    unsigned used = 0;
    int64_t clique = 0;
    for (size_t i = 0; i < machine->n_pci; i++)
        if (machine->pci[i].p2p_clique.known)
            used |= 1u << machine->pci[i].p2p_clique.value;
    while (used & (1u << clique))
        clique++;
    if (!gpu->p2p_clique.known && clique >= CLIQUES_MOST)
        return base_fail(WEFT_ERR_ARGUMENT, "all %d P2P cliques are in use", CLIQUES_MOST);
    if (!gpu->p2p_clique.known)
        number_set(&gpu->p2p_clique, clique);
    nic->p2p_clique = gpu->p2p_clique;
    return WEFT_OK;
}

/* move nic NAME under gpuN: moves the NIC below the switch of the GPU, next to the GPU's port */
static weft_status move_nic(struct machine *machine, const struct words *w)
{
    struct endpoint nic, gpu;
    weft_status status = find_changed_end(machine, w->at[2], ENDPOINT_NIC, &nic);
    if (!status)
        status = find_changed_end(machine, w->at[4], ENDPOINT_GPU, &gpu);
    if (status)
        return status;
    if (!nic.pci || !gpu.pci)
        return base_fail(WEFT_ERR_ARGUMENT, "the PCI address of %s is not known",
                         nic.pci ? w->at[4] : w->at[2]);
    struct machine_pci *from = machine_find_pci(machine, nic.pci->bdf.value);
    struct machine_pci *to = machine_find_pci(machine, gpu.pci->bdf.value);
    struct machine_pci *above = machine_find_pci(machine, to->parent.value);
    struct machine_pci *port = machine_find_pci(machine, from->parent.value);
    if (machine_is_flat(machine)) {
        from->root = to->root;
        from->numa = to->numa;
        return share_clique(machine, from, to);
    }
    const char *target =
        above && text_is(above->kind, "downstream") ? above->parent.value : to->parent.value;
    if (port && (text_is(port->kind, "downstream")) && above &&
        text_is(above->kind, "downstream")) {
        port->parent = (struct machine_text){.value = target};
        port->root = to->root;
        port->numa = to->numa;
    } else {
        from->parent = (struct machine_text){.value = target ? target : ""};
    }
    from->root = to->root;
    from->numa = to->numa;
    return machine_check(machine);
}

/* set PLACE VALUE, with the names of a machine file */
static weft_status set_fact(struct machine *machine, const struct words *w)
{
    return machine_set(machine, w->at[1], w->at[2], true);
}

static weft_status set_iommu(struct machine *machine, const struct words *w)
{
    return machine_set(machine, "system.iommu_mode", w->at[2], true);
}

/* width BDF|DEVICE N: the link runs with N lanes */
static weft_status set_width(struct machine *machine, const struct words *w)
{
    struct machine_pci *pci;
    char place[128];
    weft_status status = find_function(machine, w->at[1], &pci);
    if (status)
        return status;
    snprintf(place, sizeof place, "pci[%s].width", pci->bdf.value);
    status = machine_set(machine, place, w->at[2], true);
    for (size_t i = 0; !status && i < machine->n_gpus; i++)
        if (text_is(machine->gpus[i].bdf, pci->bdf.value))
            machine->gpus[i].pcie_width = pci->width;
    return status;
}

/* Marks failed peermem registrations as not tried: they failed because the module was not loaded.
 */
static void reset_peermem_rungs(struct machine *machine)
{
    for (size_t i = 0; i < machine->n_ladder; i++) {
        struct machine_rung *r = &machine->ladder[i];
        if (!text_is(r->rung, "peermem") || !text_is(r->result, "failed"))
            continue;
        text_set(machine, &r->result, "not-tried");
        text_set(machine, &r->detail, "the module was not loaded during the test");
        number_set(&r->err, 0);
    }
}

static weft_status load_module(struct machine *machine, const struct words *w)
{
    static const char *const modules[] = {"nvidia_peermem", "gdrdrv", "nvidia_fs", "nvidia_uvm"};
    char place[64];
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++)
        if (strcmp(w->at[2], modules[i]) == 0) {
            snprintf(place, sizeof place, "drivers.%s", modules[i]);
            if (strcmp(modules[i], "nvidia_peermem") == 0 &&
                !number_is(machine->drivers.nvidia_peermem, 1))
                reset_peermem_rungs(machine);
            return machine_set(machine, place, "yes", true);
        }
    const char *near = base_nearest(w->at[2], modules, 4);
    return base_fail(WEFT_ERR_ARGUMENT,
                     "\"%s\" is not one of nvidia_peermem, gdrdrv, nvidia_fs, "
                     "nvidia_uvm%s%s",
                     w->at[2], near ? "; nearest: " : "", near ? near : "");
}

static const struct change {
    const char *first, *second, *fourth; /* fixed words; NULL: any */
    int words, words_most;
    weft_status (*apply)(struct machine *machine, const struct words *words);
} changes_table[] = {
    {"drop", "acs", NULL, 3, 3, drop_acs},       {"set", "acs", NULL, 3, 3, set_acs},
    {"lose", "nvlink", NULL, 3, 4, lose_link},   {"lose", "link", NULL, 3, 4, lose_link},
    {"move", "nic", "under", 5, 5, move_nic},    {"set", "iommu", NULL, 3, 3, set_iommu},
    {"load", "module", NULL, 3, 3, load_module}, {"width", NULL, NULL, 3, 3, set_width},
    {"set", NULL, NULL, 3, 3, set_fact},
};

const char *const whatif_help[] = {
    "drop acs BDF|DEVICE|all        turn ACS redirection off, at all bridges above a device",
    "set acs BDF|DEVICE             turn ACS redirection on",
    "lose nvlink A:B [all]          one link (or all) between two GPUs goes down",
    "lose nvlink A:switch [all]     a link of a GPU into the NVSwitches goes down",
    "move nic NAME under gpuN       move a NIC next to a GPU",
    "set iommu off|passthrough|translated",
    "load module NAME               nvidia_peermem, gdrdrv, nvidia_fs, nvidia_uvm",
    "width BDF|DEVICE LANES         a PCIe link runs with that many lanes",
    "set LIST[KEY].FACT VALUE       any fact of a machine file, e.g. set gpus[0].ecc no",
};
const int whatif_n_help = sizeof whatif_help / sizeof whatif_help[0];

/* Fails with the form of this change from the help; "lose link" has the form of "lose nvlink". */
static weft_status wrong_form(const struct change *change)
{
    const char *second = change->second && strcmp(change->second, "link") == 0 ? "nvlink"
                         : change->second                                      ? change->second
                                                                               : "";
    char start[64];
    snprintf(start, sizeof start, "%s%s%s ", change->first, *second ? " " : "", second);
    for (int i = 0; i < whatif_n_help; i++)
        if (strncmp(whatif_help[i], start, strlen(start)) == 0 &&
            (*second || isupper((unsigned char)whatif_help[i][strlen(start)]))) {
            const char *end = strstr(whatif_help[i], "  ");
            int length = (int)(end ? (size_t)(end - whatif_help[i]) : strlen(whatif_help[i]));
            return base_fail(WEFT_ERR_ARGUMENT, "write it as \"%.*s\"", length, whatif_help[i]);
        }
    return base_fail(WEFT_ERR_ARGUMENT, "it has too few or too many words");
}

static weft_status apply_one(struct machine *machine, char *text)
{
    struct words w = {.n = 0};
    char *save = NULL;
    for (char *word = strtok_r(text, " \t\n", &save); word && w.n < WORDS_MOST;
         word = strtok_r(NULL, " \t\n", &save))
        w.at[w.n++] = word;
    for (size_t i = 0; w.n && i < sizeof changes_table / sizeof changes_table[0]; i++) {
        const struct change *c = &changes_table[i];
        if (strcmp(c->first, w.at[0]) != 0 ||
            (c->second && (w.n < 2 || strcmp(c->second, w.at[1]) != 0)))
            continue;
        /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): there are w.n words */
        if (w.n < c->words || w.n > c->words_most || (c->fourth && strcmp(c->fourth, w.at[3]) != 0))
            return wrong_form(c);
        return c->apply(machine, &w);
    }
    return base_fail(WEFT_ERR_ARGUMENT, "no such change; write drop acs, set acs, lose nvlink, "
                                        "move nic, set iommu, load module, width or set");
}

weft_status whatif_apply(struct machine *machine, const char *changes)
{
    char *copy = strdup(changes), *save = NULL;
    weft_status status = WEFT_OK;
    int number = 1;
    machine->link_ranges = NULL;
    for (char *one = copy ? strtok_r(copy, ";", &save) : NULL; one && !status;
         one = strtok_r(NULL, ";", &save), number++) {
        while (isspace((unsigned char)*one))
            one++;
        char shown[128];
        snprintf(shown, sizeof shown, "%.120s", one);
        status = *one ? apply_one(machine, one) : WEFT_OK;
        if (status)
            base_fail_context(status, "change %d, \"%s\"", number, shown);
    }
    free(copy);
    machine_index(machine);
    return status;
}
