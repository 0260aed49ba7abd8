/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the facts of a profile from the model, and compares them with expected ones. See
 * profile.h. profile_file.c reads and writes profiles. */
#include "machine/describe/profile.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct profile_info profile_infos[PROFILE_COUNT] = {
#define NUMBER(name, percent, about) {#name, false, percent, about},
#define TEXT(name, about)            {#name, true, 100, about},
    PROFILE_FACTS(NUMBER, TEXT)
#undef NUMBER
#undef TEXT
};

/* --- from the model --------------------------------------------------------------------------- */

static void set_number_fact(struct profile_fact *to, int64_t value)
{
    *to = (struct profile_fact){.known = true, .number = value};
}

static void set_unknown_fact(struct profile_fact *to, const char *why)
{
    *to = (struct profile_fact){.known = false};
    snprintf(to->text, sizeof to->text, "%s", why_unknown(why));
}

static void from_number(struct profile_fact *to, struct machine_number number)
{
    if (number.known)
        set_number_fact(to, number.value);
    else
        set_unknown_fact(to, number.why);
}

static void from_text(struct profile_fact *to, struct machine_text text)
{
    set_unknown_fact(to, text.why);
    if (!text.value)
        return;
    to->known = true;
    snprintf(to->text, sizeof to->text, "%s", text.value);
}

/* Keeps the minimum of several numbers. It is unknown when one of them is unknown. */
static void keep_minimum(struct profile_fact *to, struct machine_number number, bool first)
{
    if (first)
        from_number(to, number);
    else if (!number.known)
        set_unknown_fact(to, number.why);
    else if (to->known && number.value < to->number)
        to->number = number.value;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Lists each text once, in alphabetical order: "NVIDIA H100, NVIDIA H200". */
static void list_texts(struct profile_fact *to, const char **texts, size_t n)
{
    *to = (struct profile_fact){.known = true};
    qsort(texts, n, sizeof *texts, by_text);
    for (size_t i = 0; i < n; i++) {
        size_t used = strlen(to->text);
        if (i && strcmp(texts[i - 1], texts[i]) == 0)
            continue;
        snprintf(to->text + used, sizeof to->text - used, "%s%s", used ? ", " : "",
                 *texts[i] ? texts[i] : "none");
    }
}

/* Lists the text facts at `offset` of all items; unknown when one of them is unknown. */
static void list_items(struct profile_fact *to, const void *items, size_t n, size_t item_bytes,
                       size_t offset)
{
    if (n == 0)
        return;
    const char **texts = calloc(n, sizeof *texts);
    for (size_t i = 0; texts && i < n; i++) {
        const char *item = (const char *)items + i * item_bytes;
        const struct machine_text *text = (const struct machine_text *)(item + offset);
        if (!text->value) {
            set_unknown_fact(to, text->why);
            free(texts);
            return;
        }
        texts[i] = text->value;
    }
    if (texts)
        list_texts(to, texts, n);
    free(texts);
}

static void fill_host(const struct machine *m, struct profile_fact *f)
{
    struct machine_number threads = {.known = true}, bytes = {.known = true};
    for (size_t i = 0; i < m->n_packages; i++) {
        threads.known &= m->packages[i].threads.known;
        threads.value += number_or(m->packages[i].threads, 0);
    }
    for (size_t i = 0; i < m->n_numa; i++) {
        if (!machine_is_host_numa(m, &m->numa[i]))
            continue;
        bytes.known &= m->numa[i].memory_bytes.known;
        bytes.value += number_or(m->numa[i].memory_bytes, 0);
    }
    set_number_fact(&f[PROFILE_packages], (int64_t)m->n_packages);
    if (m->n_packages)
        from_number(&f[PROFILE_cpu_threads], threads);
    if (m->n_numa)
        from_number(&f[PROFILE_host_memory_bytes], bytes);
    from_text(&f[PROFILE_cpu_model], m->system.cpu_model);
    from_text(&f[PROFILE_kernel], m->system.kernel);
    from_text(&f[PROFILE_hypervisor], m->system.hypervisor);
    from_text(&f[PROFILE_iommu_mode], m->system.iommu_mode);
}

static void fill_drivers(const struct machine *m, struct profile_fact *f)
{
    const struct machine_driver *d = &m->drivers;
    from_text(&f[PROFILE_driver], d->driver);
    from_text(&f[PROFILE_nvidia_module], d->nvidia_module);
    from_text(&f[PROFILE_nvidia_flavor], d->nvidia_flavor);
    from_number(&f[PROFILE_cuda], d->cuda);
    from_text(&f[PROFILE_fabric_manager], d->fabric_manager);
    from_text(&f[PROFILE_fabric_manager_version], d->fabric_manager_version);
    from_text(&f[PROFILE_imex], d->imex);
    from_text(&f[PROFILE_amdgpu_module], d->amdgpu_module);
    from_number(&f[PROFILE_nvidia_peermem], d->nvidia_peermem);
    from_number(&f[PROFILE_gdrdrv], d->gdrdrv);
    from_number(&f[PROFILE_nvidia_fs], d->nvidia_fs);
    from_text(&f[PROFILE_libfabric], d->libfabric);
}

static void fill_gpus(const struct machine *m, struct profile_fact *f)
{
    int64_t ecc = 0, mig = 0;
    bool ecc_known = true, mig_known = true;
    set_number_fact(&f[PROFILE_gpus], (int64_t)m->n_gpus);
    list_items(&f[PROFILE_gpu_models], m->gpus, m->n_gpus, sizeof *m->gpus,
               offsetof(struct machine_gpu, name));
    for (size_t i = 0; i < m->n_gpus; i++) {
        const struct machine_gpu *g = &m->gpus[i];
        keep_minimum(&f[PROFILE_gpu_memory_bytes], g->memory_bytes, i == 0);
        keep_minimum(&f[PROFILE_gpu_bar1_bytes], g->bar1_bytes, i == 0);
        keep_minimum(&f[PROFILE_gpu_pcie_gen], g->pcie_gen_max, i == 0);
        keep_minimum(&f[PROFILE_gpu_pcie_width], g->pcie_width, i == 0);
        ecc += number_is(g->ecc, 1);
        mig += number_is(g->mig, 1);
        ecc_known &= g->ecc.known;
        mig_known &= g->mig.known;
    }
    if (m->n_gpus == 0)
        return;
    from_number(&f[PROFILE_gpus_ecc], (struct machine_number){.known = ecc_known, .value = ecc});
    from_number(&f[PROFILE_gpus_mig], (struct machine_number){.known = mig_known, .value = mig});
}

/* A described or imported machine may have links of unknown state. */
static void fill_links(const struct machine *m, struct profile_fact *f)
{
    int64_t up = 0;
    bool known = true;
    for (size_t i = 0; i < m->n_links; i++) {
        const struct machine_link *link = &m->links[i];
        known &= link->active.known;
        if (!number_is(link->active, 1))
            continue;
        keep_minimum(&f[PROFILE_link_mbytes_per_s], link->mbps, up == 0);
        up++;
    }
    from_number(&f[PROFILE_links], (struct machine_number){.known = known, .value = up});
}

static void fill_nics(const struct machine *m, struct profile_fact *f)
{
    int64_t active = 0, with_mtu = 0;
    set_number_fact(&f[PROFILE_nics], (int64_t)m->n_nics);
    list_items(&f[PROFILE_nic_models], m->nics, m->n_nics, sizeof *m->nics,
               offsetof(struct machine_nic, model));
    list_items(&f[PROFILE_nic_drivers], m->nics, m->n_nics, sizeof *m->nics,
               offsetof(struct machine_nic, driver));
    list_items(&f[PROFILE_nic_firmware], m->nics, m->n_nics, sizeof *m->nics,
               offsetof(struct machine_nic, firmware));
    int64_t on_pci = 0;
    for (size_t i = 0; i < m->n_nics; i++) {
        const struct machine_pci *pci = machine_find_pci(m, m->nics[i].bdf.value);
        if (!pci)
            continue;
        keep_minimum(&f[PROFILE_nic_pcie_gen], pci->gen, on_pci == 0);
        keep_minimum(&f[PROFILE_nic_pcie_width], pci->width, on_pci == 0);
        on_pci++;
    }
    for (size_t i = 0; i < m->n_ports; i++) {
        const struct machine_port *port = &m->ports[i];
        if (!text_is(port->state, "active"))
            continue;
        keep_minimum(&f[PROFILE_port_mbit_per_s], port->mbit, active == 0);
        active++;
        if (!*text_or(port->netdev, ""))
            continue;
        keep_minimum(&f[PROFILE_port_mtu_bytes], port->mtu, with_mtu == 0);
        with_mtu++;
    }
    set_number_fact(&f[PROFILE_ports_active], active);
}

static void fill_rest(const struct machine *m, struct profile_fact *f)
{
    int64_t nvme = 0, proven = 0, speeds = 0;
    for (size_t i = 0; i < m->n_disks; i++)
        nvme += m->disks[i].kind.value && word_is_one_of(m->disks[i].kind.value, "nvme");
    set_number_fact(&f[PROFILE_nvme_disks], nvme);
    for (size_t i = 0; i < m->n_measured; i++) {
        const struct machine_measured *pair = &m->measured[i];
        if (strncmp(text_or(pair->a, ""), "gpu", 3) != 0 ||
            strncmp(text_or(pair->b, ""), "gpu", 3) != 0)
            continue;
        proven += text_is(pair->proof, "proven");
        if (!pair->write_mbps.known || !pair->write_mbps.value)
            continue;
        keep_minimum(&f[PROFILE_pair_write_mbytes_per_s], pair->write_mbps, speeds == 0);
        speeds++;
    }
    if (m->n_gpus < 2)
        return;
    if (m->n_measured)
        set_number_fact(&f[PROFILE_pairs_proven], proven);
    else
        set_unknown_fact(&f[PROFILE_pairs_proven], "nothing was measured");
    if (!speeds)
        set_unknown_fact(&f[PROFILE_pair_write_mbytes_per_s], "nothing was measured");
}

void profile_of(const struct machine *machine, struct profile *profile)
{
    for (int id = 0; id < PROFILE_COUNT; id++)
        set_unknown_fact(&profile->facts[id], PROFILE_NONE);
    fill_host(machine, profile->facts);
    fill_drivers(machine, profile->facts);
    fill_gpus(machine, profile->facts);
    fill_links(machine, profile->facts);
    fill_nics(machine, profile->facts);
    fill_rest(machine, profile->facts);
}

/* --- comparing -------------------------------------------------------------------------------- */

/* Compares versions number by number: "550.54" < "550.144" < "570". */
static int compare_versions(const char *a, const char *b)
{
    while (*a || *b) {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            char *after_a, *after_b;
            unsigned long long x = strtoull(a, &after_a, 10), y = strtoull(b, &after_b, 10);
            if (x != y)
                return x < y ? -1 : 1;
            a = after_a;
            b = after_b;
        } else if (*a != *b) {
            return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
        } else {
            a++;
            b++;
        }
    }
    return 0;
}

enum profile_match profile_compare(enum profile_id id, const struct profile_fact *expected,
                                   const struct profile_fact *seen)
{
    const struct profile_info *info = &profile_infos[id];
    if (!expected->known)
        return PROFILE_AS_EXPECTED;
    if (!seen->known) /* a machine without GPUs or NICs differs in their number only */
        return strcmp(seen->text, PROFILE_NONE) == 0 ? PROFILE_AS_EXPECTED : PROFILE_NOT_SEEN;
    bool good;
    if (info->is_text)
        good = expected->at_least ? compare_versions(seen->text, expected->text) >= 0
                                  : strcmp(seen->text, expected->text) == 0;
    else if (expected->at_least)
        good = seen->number >= expected->number;
    else if (info->percent < 100)
        good = seen->number >= expected->number / 100 * info->percent;
    else
        good = seen->number == expected->number;
    return good ? PROFILE_AS_EXPECTED : PROFILE_DIFFERS;
}

const char *profile_show(enum profile_id id, const struct profile_fact *fact, char *text,
                         size_t size)
{
    if (!fact->known)
        snprintf(text, size, "not known");
    else if (profile_infos[id].is_text)
        snprintf(text, size, "%s%s", fact->at_least ? ">= " : "",
                 *fact->text ? fact->text : "none");
    else
        snprintf(text, size, "%s%" PRId64, fact->at_least ? ">= " : "", fact->number);
    return text;
}
