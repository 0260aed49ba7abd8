/* SPDX-License-Identifier: Apache-2.0 */
/* Records the results of a probe as facts of the model. See probe.h. */
#include "machine/live/probe.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/status.h"

static void set_measured(struct machine *machine, struct machine_number *to, int64_t value)
{
    if (value > 0)
        number_set(to, value);
    else
        number_unknown(machine, to, "not measured");
}

static const char *proof_word(enum probe_proof proof)
{
    switch (proof) {
    case PROBE_PROVEN:
        return "proven";
    case PROBE_FAILED:
        return "failed";
    case PROBE_REFUSED:
        return "refused";
    default:
        return "not-run";
    }
}

weft_status machine_measure_pair(struct machine *machine, const struct machine_probe *probe,
                                 const char *a, const char *b, bool quick)
{
    struct probe_result r = {.proven = PROBE_NOT_RUN, .errors_grown = -1};
    weft_status status = probe->pair(probe->context, a, b, quick, &r);
    struct machine_measured *m = machine_find_measured(machine, a, b);
    if (!m)
        m = machine_add_measured(machine);
    text_set(machine, &m->a, a);
    text_set(machine, &m->b, b);
    if (status) {
        text_unknown(machine, &m->proof, "%s", weft_last_error());
        return status;
    }
    text_set(machine, &m->proof, proof_word(r.proven));
    text_set(machine, &m->evidence, r.evidence);
    set_measured(machine, &m->write_mbps, r.write_mbps);
    set_measured(machine, &m->read_mbps, r.read_mbps);
    set_measured(machine, &m->both_mbps, r.both_mbps);
    set_measured(machine, &m->latency_ns, r.latency_ns);
    if (r.pcie_gen)
        number_set(&m->pcie_gen, r.pcie_gen);
    else
        number_unknown(machine, &m->pcie_gen, "not read");
    text_set(machine, &m->errors_where, r.errors_where);
    if (r.errors_grown >= 0)
        number_set(&m->errors_grown, r.errors_grown);
    else
        number_unknown(machine, &m->errors_grown, "not counted");
    return WEFT_OK;
}

weft_status machine_measure(struct machine *machine, const struct machine_probe *probe, bool quick,
                            void (*progress)(const char *pair))
{
    weft_status first = WEFT_OK;
    for (size_t i = 0; i < machine->n_gpus; i++) {
        for (size_t j = 0; j <= machine->n_gpus; j++) {
            char a[32], b[32] = "host", pair[80];
            if (i == j)
                continue;
            snprintf(a, sizeof a, "gpu%" PRId64, number_or(machine->gpus[i].index, 0));
            if (j < machine->n_gpus)
                snprintf(b, sizeof b, "gpu%" PRId64, number_or(machine->gpus[j].index, 0));
            snprintf(pair, sizeof pair, "%s %s", a, b);
            if (progress)
                progress(pair);
            weft_status status = machine_measure_pair(machine, probe, a, b, quick);
            if (status && !first)
                first = status;
        }
    }
    return first;
}
