/* SPDX-License-Identifier: Apache-2.0 */
/* Every fact of every machine file is removed in turn, and in turn set to an absurd value. Nothing
 * crashes, and no fact is invented: without a fact, no finding may claim an observed fault, unless
 * the unchanged machine has it too or the fact excuses it. A file with an absurd value is refused
 * with the name of the fact. */
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
#include "machine/checks/libraries.h"

/* Small machines that together contain every kind of device. */
static const char *const machines[] = {"no-gpu", "geforce-2-acs", "vm-p2p-clique",
                                       "container-2-of-8"};

static struct machine *load(const char *name)
{
    char path[512];
    struct machine *m;
    snprintf(path, sizeof path, MACHINES "/%s.json", name);
    if (machine_load(path, &m))
        fail_msg("%s", weft_last_error());
    return m;
}

/* Asks all questions; returns, for each reason, whether doctor observed it as off or slow. */
static void ask(const struct machine *m, bool *observed)
{
    static struct diagnosis d;
    static struct verdict v;
    static struct library_plan plan;
    static int asked;
    doctor_examine(m, &d);
    for (int i = 0; observed && i < d.findings.n; i++)
        if (d.findings.list[i].weight <= WEIGHT_SLOW)
            observed[d.findings.list[i].reason] = true;
    findings_free(&d.findings);
    if (asked++ % 4 == 0) { /* as much work as the diagnosis */
        libraries_plan(m, &plan);
        libraries_free(&plan);
    }
    explain_pair(m, "gpu0", "gpu1", &v);
    verdict_free(&v);
    explain_pair(m, "host", "gpu0", &v);
    verdict_free(&v);
    explain_pair(m, "gpu0", "/home/x", &v);
    verdict_free(&v);
    if (m->n_nics && m->nics[0].name.value) {
        explain_pair(m, "gpu0", m->nics[0].name.value, &v);
        verdict_free(&v);
    }
}

/* Facts that excuse: IPC_LOCK excuses a small memlock limit; the absence of a module or library is
 * reported itself; and the position of a device decides which other is near. Without such a fact
 * the rest may look worse, with evidence that exists. */
static bool may_add(const char *record, const char *field)
{
    static const char *const excuses[] = {
        "limits.cap_ipc_lock",
        "drivers.nvme_p2pdma",
        "drivers.driver",
        "gpus.vendor",
        "gpus.name",
        "gpus.fabric_state",
        "p2p.a",
        "p2p.b",
        "p2p.write",
        "p2p.pci",
        "p2p.read",
        "pci.p2p_clique",
        "pci.bdf",
        "pci.kind",
        "pci.root",
        "gpus.bdf",
        "nics.bdf",
        "ports.nic",
        "ports.state",
        "ladder.gpu",
        "ladder.nic",
        "ladder.rung",
        "ladder.result",
        "system.socket_link",
        "drivers.nvidia_peermem",
        "pci.numa",
        "links.gpu",
        "links.active",
        "links.peer",
        "pci.parent",
    };
    char name[128];
    snprintf(name, sizeof name, "%s.%s", record, field);
    for (size_t i = 0; i < sizeof excuses / sizeof excuses[0]; i++)
        if (strcmp(name, excuses[i]) == 0)
            return true;
    return false;
}

static void test_missing(void **state)
{
    for (size_t k = 0; k < sizeof machines / sizeof machines[0]; k++) {
        struct machine *m = load(machines[k]);
        bool before[REASON_COUNT] = {false};
        ask(m, before);
        for (size_t r = 0; r < machine_n_records; r++) {
            const struct machine_record *record = &machine_records[r];
            size_t n_fields, items = record_count(m, record);
            const struct machine_field *fields = record->fields(&n_fields);
            for (size_t i = 0; i < items; i++)
                for (size_t f = 0; f < n_fields; f++) {
                    /* In a long list the first items are enough. */
                    if (i >= 2 && i + 1 < items)
                        break;
                    bool after[REASON_COUNT] = {false};
                    bool number = fields[f].type == FIELD_NUMBER || fields[f].type == FIELD_FLAG;
                    size_t bytes =
                        number ? sizeof(struct machine_number) : sizeof(struct machine_text);
                    char *fact = (char *)record_item(m, record, i) + fields[f].offset, kept[32];
                    memcpy(kept, fact, bytes);
                    memset(fact, 0, bytes);
                    if (memcmp(fact, kept, bytes) == 0)
                        continue; /* it was not there */
                    ask(m, after);
                    memcpy(fact, kept, bytes);
                    for (int reason = 0; reason < REASON_COUNT; reason++)
                        if (after[reason] && !before[reason] &&
                            !may_add(record->name, fields[f].name))
                            fail_msg("%s: without %s[%zu].%s doctor claims %s", machines[k],
                                     record->name, i, fields[f].name, reason_table[reason].code);
                }
        }
        machine_free(m);
    }
}

/* Values as a library or the kernel might return them: impossible ones become unknown, and no value
 * causes a crash or an overflow. */
static void test_absurd_in_memory(void **state)
{
    static const int64_t numbers[] = {INT64_MIN, -1, 0, 1, 255, INT64_MAX};
    for (size_t k = 0; k < sizeof machines / sizeof machines[0]; k++) {
        struct machine *m = load(machines[k]);
        for (size_t r = 0; r < machine_n_records; r++) {
            const struct machine_record *record = &machine_records[r];
            size_t n_fields;
            const struct machine_field *fields = record->fields(&n_fields);
            for (size_t f = 0; record_count(m, record) && f < n_fields; f++) {
                char *fact = (char *)record_item(m, record, 0) + fields[f].offset, kept[32];
                bool number = fields[f].type == FIELD_NUMBER || fields[f].type == FIELD_FLAG;
                memcpy(kept, fact,
                       number ? sizeof(struct machine_number) : sizeof(struct machine_text));
                bool rejected = false;
                for (size_t v = 0; v < (number ? sizeof numbers / sizeof numbers[0] : 2); v++) {
                    if (number)
                        number_set((struct machine_number *)(void *)fact, numbers[v]);
                    else
                        text_set(m, (struct machine_text *)(void *)fact, v % 2 ? "" : "%s%n\n\xff");
                    machine_reject_invalid(m);
                    bool known = number ? ((struct machine_number *)(void *)fact)->known
                                        : ((struct machine_text *)(void *)fact)->value != NULL;
                    if (known || !rejected) /* all rejected values become the same: unknown */
                        ask(m, NULL);
                    rejected |= !known;
                }
                memcpy(fact, kept,
                       number ? sizeof(struct machine_number) : sizeof(struct machine_text));
            }
        }
        machine_free(m);
    }
}

/* In a file: refused with the name of the fact. */
static void test_absurd_in_file(void **state)
{
    for (size_t r = 0; r < machine_n_records; r++) {
        const struct machine_record *record = &machine_records[r];
        size_t n_fields;
        const struct machine_field *fields = record->fields(&n_fields);
        for (size_t f = 0; f < n_fields; f++) {
            char text[300], number[48] = "[]";
            struct machine *m = NULL;
            const char *const absurd[] = {
                fields[f].type == FIELD_FLAG || fields[f].type == FIELD_NUMBER ? "\"x\"" : "7",
                "null", "[]", "1.5", number};
            if (fields[f].type == FIELD_NUMBER)
                snprintf(number, sizeof number, "%lld", (long long)fields[f].high + 1);
            if (fields[f].type == FIELD_WORD)
                snprintf(number, sizeof number, "\"nonsense\"");
            for (size_t v = 0; v < sizeof absurd / sizeof absurd[0]; v++) {
                snprintf(text, sizeof text, "{\"weft-machine\": 1,\n\"%s\": %s{\n\"%s\": %s}%s}",
                         record->name, record->single ? "" : "[", fields[f].name, absurd[v],
                         record->single ? "" : "]");
                assert_int_equal(machine_parse(text, strlen(text), "m", &m), WEFT_ERR_ARGUMENT);
                if (!strstr(weft_last_error(), fields[f].name) ||
                    !strstr(weft_last_error(), "m:3:"))
                    fail_msg("%s: \"%s\"", text, weft_last_error());
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_absurd_in_memory),
        cmocka_unit_test(test_absurd_in_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
