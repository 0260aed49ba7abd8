/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a machine file. An accepted machine survives every query, and is the same after it
 * is written and read again. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/checks/doctor.h"
#include "machine/checks/explain.h"
#include "machine/checks/libraries.h"
#include "machine/machine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PAIRS_MOST = 12 };

static void ask(const struct machine *m)
{
    static struct diagnosis diagnosis;
    static struct library_plan plan;
    static struct verdict verdict;
    const char *ends[PAIRS_MOST];
    char names[PAIRS_MOST][32];
    int n = 0;
    if (m->n_gpus > 24 || m->n_pci > 200)
        return; /* slow, but not wrong */
    doctor_examine(m, &diagnosis);
    libraries_plan(m, &plan);
    libraries_free(&plan);
    findings_free(&diagnosis.findings);
    ends[n++] = "host";
    for (size_t i = 0; i < m->n_gpus && n < 6; i++, n++) {
        snprintf(names[n], sizeof names[n], "gpu%lld", (long long)m->gpus[i].index.value);
        ends[n] = names[n];
    }
    for (size_t i = 0; i < m->n_nics && n < 9; i++)
        if (m->nics[i].name.value)
            ends[n++] = m->nics[i].name.value;
    if (m->n_disks && m->disks[0].name.value)
        ends[n++] = m->disks[0].name.value;
    ends[n++] = "/a/file";
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++) {
            explain_pair(m, ends[a], ends[b], &verdict);
            verdict_free(&verdict);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct machine *machine, *again;
    if (machine_parse((const char *)data, size, "fuzz", &machine))
        return 0;
    char *text = machine_format(machine, false);
    if (machine_parse(text, strlen(text), "again", &again))
        abort();
    char *second = machine_format(again, false);
    if (strcmp(text, second) != 0)
        abort();
    ask(machine);
    free(text);
    free(second);
    machine_free(machine);
    machine_free(again);
    return 0;
}
