/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a file of another program, one target for each importer (IMPORTER). An accepted
 * machine survives every query, and is the same machine after it is recorded and read again. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "machine/checks/doctor.h"
#include "machine/checks/explain.h"
#include "machine/checks/libraries.h"
#include "machine/import/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask(const struct machine *m)
{
    static struct diagnosis diagnosis;
    static struct library_plan plan;
    static struct verdict verdict;
    if (m->n_gpus > 16 || m->n_pci > 100)
        return; /* slow, but not wrong */
    doctor_examine(m, &diagnosis);
    libraries_plan(m, &plan);
    libraries_free(&plan);
    findings_free(&diagnosis.findings);
    const char *nic = m->n_nics ? m->nics[0].name.value : "host";
    const char *const ends[] = {"gpu0", "gpu1", "host", nic};
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++) {
            explain_pair(m, ends[a], ends[b], &verdict);
            verdict_free(&verdict);
        }
}

/* A recorded machine equals the one that was read. */
static void record_and_read(const struct machine *m)
{
    struct machine *again;
    char *text = machine_format(m, false);
    if (machine_parse(text, strlen(text), "again", &again))
        abort();
    char *second = machine_format(again, false);
    if (strcmp(text, second) != 0)
        abort();
    machine_free(again);
    free(text);
    free(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct import im = {.machine = machine_new("fuzz"), .name = "fuzz"};
    if (IMPORTER(&im, text, size) == WEFT_OK) {
        machine_reject_invalid(im.machine);
        if (machine_check(im.machine) == WEFT_OK) {
            record_and_read(im.machine);
            ask(im.machine);
        }
    }
    machine_free(im.machine);
    return 0;
}
