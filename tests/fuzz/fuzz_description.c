/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a description of a machine, followed by a newline and the changes of a what-if. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "machine/checks/doctor.h"
#include "machine/routes/whatif.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct diagnosis diagnosis;
    struct machine *machine;
    char text[600];
    if (size >= sizeof text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    char *changes = strchr(text, '\n');
    if (changes)
        *changes++ = '\0';
    if (machine_synthetic(text, &machine)) {
        machine_free(machine);
        return 0;
    }
    whatif_apply(machine, changes ? changes : "");
    if (machine->n_gpus <= 16) {
        doctor_examine(machine, &diagnosis);
        findings_free(&diagnosis.findings);
    }
    machine_free(machine);
    return 0;
}
