/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the verdict as metrics in the Prometheus text format 0.0.4 for the textfile collector
 * of node_exporter: base units, one block per name, no two samples with the same labels. An
 * unknown value has no sample. The file is replaced atomically. */
#include "doctor/doctor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands.h"

static const double bytes_per_mbyte = 1e6, bytes_per_mbit = 1e6 / 8, seconds_per_ns = 1e-9;

struct metrics {
    FILE *to;
    const char *name, *type, *help; /* of the current block */
    bool begun;
};

/* --- the format ------------------------------------------------------------------------------- */

static void begin_metric(struct metrics *m, const char *name, const char *type, const char *help)
{
    m->name = name;
    m->type = type;
    m->help = help;
    m->begun = false;
}

/* Escapes backslash and quote; replaces bytes that are not printable ASCII, since they may not
 * be UTF-8. */
static void write_label(FILE *to, const char *name, const char *value, bool first)
{
    fprintf(to, "%s%s=\"", first ? "{" : ",", name);
    for (; *value; value++) {
        unsigned char c = (unsigned char)*value;
        if (c == '\\' || c == '"')
            fputc('\\', to);
        fputc(c >= ' ' && c < 127 ? c : '?', to);
    }
    fputc('"', to);
}

/* Labels are pairs of name and value up to NULL. */
static void write_sample(struct metrics *m, double value, ...)
{
    bool first = true;
    va_list labels;
    if (!m->begun)
        fprintf(m->to, "# HELP %s %s\n# TYPE %s %s\n", m->name, m->help, m->name, m->type);
    m->begun = true;
    fputs(m->name, m->to);
    va_start(labels, value);
    for (const char *name; (name = va_arg(labels, const char *)); first = false)
        write_label(m->to, name, va_arg(labels, const char *), first);
    va_end(labels);
    fprintf(m->to, "%s %.15g\n", first ? "" : "}", value);
}

static const char *number_text(int64_t number, char text[24])
{
    snprintf(text, 24, "%" PRId64, number);
    return text;
}

/* --- one machine ------------------------------------------------------------------------------ */

static void write_check_metrics(struct metrics *m, const struct diagnosis *d, int differs)
{
    begin_metric(m, "weft_doctor_faults", "gauge", "Faults that a check of weft doctor found.");
    for (int i = 0; i < DOCTOR_CHECKS; i++)
        write_sample(m, d->checks[i].faults, "check", d->checks[i].name, NULL);
    begin_metric(m, "weft_doctor_not_seen", "gauge", "Observations that a check could not make.");
    for (int i = 0; i < DOCTOR_CHECKS; i++)
        write_sample(m, d->checks[i].unknown, "check", d->checks[i].name, NULL);
    begin_metric(m, "weft_doctor_differences", "gauge",
                 "Facts that are not as expected (--against).");
    if (differs >= 0)
        write_sample(m, differs, NULL);
}

static bool same_labels(const struct finding *a, const struct finding *b)
{
    return a->reason == b->reason && a->weight == b->weight && strcmp(a->place, b->place) == 0;
}

static void write_finding_metrics(struct metrics *m, const struct findings *findings)
{
    begin_metric(m, "weft_doctor_findings", "gauge",
                 "Findings by reason code, weight (off, slow, unknown, note) and place.");
    for (int i = 0; i < findings->n; i++) {
        const struct finding *f = &findings->list[i];
        int same = 0, before = 0;
        for (int j = 0; j < findings->n; j++) {
            same += same_labels(f, &findings->list[j]);
            before += j < i && same_labels(f, &findings->list[j]);
        }
        if (!before)
            write_sample(m, same, "code", reason_table[f->reason].code, "weight",
                         weight_names[f->weight], "place", f->place, NULL);
    }
}

static void write_info_metrics(struct metrics *m, const struct machine *machine)
{
    const struct machine_driver *d = &machine->drivers;
    char index[24];
    begin_metric(m, "weft_machine_info", "gauge", "Versions; the value is 1.");
    write_sample(m, 1.0, "kernel", text_or(machine->system.kernel, ""), "driver",
                 text_or(d->driver, ""), "module", text_or(d->nvidia_module, ""), "weft",
                 weft_version(), NULL);
    begin_metric(m, "weft_gpu_info", "gauge", "Model and place of a GPU; the value is 1.");
    for (size_t i = 0; i < machine->n_gpus; i++)
        write_sample(m, 1.0, "gpu",
                     number_text(number_or(machine->gpus[i].index, (int64_t)i), index), "model",
                     text_or(machine->gpus[i].name, ""), "uuid", text_or(machine->gpus[i].uuid, ""),
                     "pci", text_or(machine->gpus[i].bdf, ""), NULL);
}

/* One number of each GPU. */
static void write_gpu_number(struct metrics *m, const struct machine *machine, const char *name,
                             const char *type, const char *help, size_t offset)
{
    char index[24];
    begin_metric(m, name, type, help);
    for (size_t i = 0; i < machine->n_gpus; i++) {
        const char *gpu = (const char *)&machine->gpus[i];
        const struct machine_number *number = (const struct machine_number *)(gpu + offset);
        if (number->known)
            write_sample(m, (double)number->value, "gpu",
                         number_text(number_or(machine->gpus[i].index, (int64_t)i), index), NULL);
    }
}

static void write_gpu_metrics(struct metrics *m, const struct machine *machine)
{
    write_gpu_number(m, machine, "weft_gpu_memory_bytes", "gauge", "Memory of a GPU.",
                     offsetof(struct machine_gpu, memory_bytes));
    write_gpu_number(m, machine, "weft_gpu_pcie_generation", "gauge",
                     "PCIe generation of a GPU now.", offsetof(struct machine_gpu, pcie_gen));
    write_gpu_number(m, machine, "weft_gpu_pcie_lanes", "gauge", "PCIe lanes of a GPU now.",
                     offsetof(struct machine_gpu, pcie_width));
    write_gpu_number(m, machine, "weft_gpu_pcie_replays_total", "counter", "PCIe replays of a GPU.",
                     offsetof(struct machine_gpu, pcie_replays));
    write_gpu_number(m, machine, "weft_gpu_ecc_uncorrected_errors_total", "counter",
                     "Uncorrected memory errors since the driver was loaded.",
                     offsetof(struct machine_gpu, ecc_uncorrected));
    write_gpu_number(m, machine, "weft_gpu_remapped_rows", "gauge",
                     "Rows of memory remapped after uncorrected errors.",
                     offsetof(struct machine_gpu, rows_uncorrected));
    write_gpu_number(m, machine, "weft_gpu_row_remap_pending", "gauge",
                     "1: a remapped row waits for a reset.",
                     offsetof(struct machine_gpu, rows_pending));
    write_gpu_number(m, machine, "weft_gpu_row_remap_failed", "gauge",
                     "1: a row could not be remapped.", offsetof(struct machine_gpu, rows_failed));
    write_gpu_number(m, machine, "weft_gpu_xids", "gauge",
                     "Xid errors in the kernel's log since boot.",
                     offsetof(struct machine_gpu, xids));
}

/* Only for devices with the AER capability. */
static void write_pci_metrics(struct metrics *m, const struct machine *machine)
{
    for (int block = 0; block < 2; block++) {
        begin_metric(
            m, block ? "weft_pci_uncorrected_errors_total" : "weft_pci_corrected_errors_total",
            "counter", block ? "AER errors that were not corrected." : "AER errors corrected.");
        for (size_t i = 0; i < machine->n_pci; i++) {
            const struct machine_pci *pci = &machine->pci[i];
            struct machine_number count = block ? pci->aer_uncorrectable : pci->aer_correctable;
            if (count.known)
                write_sample(m, (double)count.value, "pci", text_or(pci->bdf, ""), NULL);
        }
    }
}

static void write_link_errors(struct metrics *m, const struct machine_link *link, const char *gpu,
                              const char *number)
{
    const struct {
        const char *kind;
        struct machine_number count;
    } errors[] = {{"crc", link->crc_errors},
                  {"replay", link->replays},
                  {"recovery", link->recoveries},
                  {"ecc", link->ecc_errors},
                  {"receive", link->receive_errors},
                  {"integrity", link->integrity_errors},
                  {"discard", link->discards},
                  {"failed_recovery", link->failed_recoveries},
                  {"effective", link->effective_errors}};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].count.known)
            write_sample(m, (double)errors[i].count.value, "gpu", gpu, "link", number, "kind",
                         errors[i].kind, NULL);
}

static void write_link_metrics(struct metrics *m, const struct machine *machine)
{
    char gpu[24], number[24];
    for (int block = 0; block < 3; block++) {
        static const char *const blocks[][3] = {
            {"weft_link_up", "gauge", "1: the link of a GPU is up."},
            {"weft_link_line_rate_bytes_per_second", "gauge",
             "Line rate of a link, one direction."},
            {"weft_link_errors_total", "counter", "Errors of a link by kind."}};
        begin_metric(m, blocks[block][0], blocks[block][1], blocks[block][2]);
        for (size_t i = 0; i < machine->n_links; i++) {
            const struct machine_link *link = &machine->links[i];
            number_text(number_or(link->gpu, -1), gpu);
            number_text(number_or(link->link, (int64_t)i), number);
            if (block == 0 && link->active.known)
                write_sample(m, (double)link->active.value, "gpu", gpu, "link", number, NULL);
            if (block == 1 && link->mbps.known)
                write_sample(m, (double)link->mbps.value * bytes_per_mbyte, "gpu", gpu, "link",
                             number, NULL);
            if (block == 2)
                write_link_errors(m, link, gpu, number);
        }
    }
}

static void write_port_metrics(struct metrics *m, const struct machine *machine)
{
    char number[24];
    for (int block = 0; block < 5; block++) {
        static const char *const blocks[][3] = {
            {"weft_nic_port_up", "gauge", "1: the port of a NIC is active."},
            {"weft_nic_port_rate_bytes_per_second", "gauge", "Rate of a port."},
            {"weft_nic_port_symbol_errors_total", "counter", "Symbol errors of a port."},
            {"weft_nic_port_link_downed_total", "counter", "How often the link went down."},
            {"weft_nic_port_retransmits_total", "counter",
             "RDMA sequence errors and acknowledgement timeouts."}};
        begin_metric(m, blocks[block][0], blocks[block][1], blocks[block][2]);
        for (size_t i = 0; i < machine->n_ports; i++) {
            const struct machine_port *port = &machine->ports[i];
            const char *nic = text_or(port->nic, "");
            const struct machine_number values[] = {
                {.known = port->state.value, .value = text_is(port->state, "active")},
                port->mbit,
                port->symbol_errors,
                port->link_downed,
                port->retransmits};
            number_text(number_or(port->port, 0), number);
            if (values[block].known)
                write_sample(m, (double)values[block].value * (block == 1 ? bytes_per_mbit : 1),
                             "nic", nic, "port", number, NULL);
        }
    }
}

static void write_pair_metrics(struct metrics *m, const struct machine *machine)
{
    begin_metric(m, "weft_pair_write_bytes_per_second", "gauge",
                 "Measured speed of writes from one device to the other.");
    for (size_t i = 0; i < machine->n_measured; i++) {
        const struct machine_measured *pair = &machine->measured[i];
        if (number_or(pair->write_mbps, 0))
            write_sample(m, (double)pair->write_mbps.value * bytes_per_mbyte, "from",
                         text_or(pair->a, ""), "to", text_or(pair->b, ""), NULL);
    }
    begin_metric(m, "weft_pair_latency_seconds", "gauge", "Measured latency of 8 bytes, one way.");
    for (size_t i = 0; i < machine->n_measured; i++) {
        const struct machine_measured *pair = &machine->measured[i];
        if (number_or(pair->latency_ns, 0))
            write_sample(m, (double)pair->latency_ns.value * seconds_per_ns, "from",
                         text_or(pair->a, ""), "to", text_or(pair->b, ""), NULL);
    }
}

/* --- the file --------------------------------------------------------------------------------- */

/* The name of the temporary file, which must not end in .prom because the collector reads those. */
static char *name_aside(const char *path)
{
    const char *slash = strrchr(path, '/');
    int directory = slash ? (int)(slash - path) + 1 : 0;
    char *aside;
    return asprintf(&aside, "%.*s.%s.%d", directory, path, path + directory, (int)getpid()) < 0
               ? NULL
               : aside;
}

static bool write_whole(FILE *to, const char *text)
{
    bool good = fputs(text, to) >= 0 && fflush(to) == 0 && fchmod(fileno(to), 0644) == 0 &&
                fsync(fileno(to)) == 0;
    int error = errno;
    good = fclose(to) == 0 && good;
    errno = good ? errno : error;
    return good;
}

static bool replace_file(const char *path, const char *text)
{
    char *aside = name_aside(path);
    FILE *to = aside ? fopen(aside, "we") : NULL;
    bool good = to && write_whole(to, text) && rename(aside, path) == 0;
    if (!good)
        fprintf(stderr, "weft doctor: --prometheus: %s: %s\n", path, strerror(errno));
    if (!good && to)
        unlink(aside);
    free(aside);
    return good;
}

/* Writes the text and frees it. */
static bool write_output(const char *path, char *text)
{
    bool good = text != NULL;
    if (!text)
        fprintf(stderr, "weft doctor: --prometheus: no memory\n");
    else if (strcmp(path, "-") == 0)
        good = fputs(text, stdout) >= 0 && fflush(stdout) == 0;
    else
        good = replace_file(path, text);
    free(text);
    return good;
}

int doctor_write_metrics(const char *path, const struct machine *machine,
                         const struct diagnosis *diagnosis, int differs)
{
    char *text = NULL;
    size_t bytes = 0;
    struct metrics m = {.to = open_memstream(&text, &bytes)};
    if (m.to) {
        write_info_metrics(&m, machine);
        write_check_metrics(&m, diagnosis, differs);
        write_finding_metrics(&m, &diagnosis->findings);
        write_gpu_metrics(&m, machine);
        write_pci_metrics(&m, machine);
        write_link_metrics(&m, machine);
        write_port_metrics(&m, machine);
        write_pair_metrics(&m, machine);
        fclose(m.to);
    }
    if (!write_output(path, text))
        return EXIT_USAGE;
    return diagnosis->faults || differs > 0 ? EXIT_FAULT : EXIT_GOOD;
}

int doctor_write_cluster_metrics(const char *path, const struct cluster *cluster)
{
    char *text = NULL;
    size_t bytes = 0;
    struct metrics m = {.to = open_memstream(&text, &bytes)};
    for (int block = 0; m.to && block < 3; block++) {
        static const char *const blocks[][2] = {
            {"weft_node_reached", "1: the node sent its report."},
            {"weft_node_differences", "Facts of a node that are not as expected."},
            {"weft_node_faults", "Faults that weft doctor found on a node."}};
        begin_metric(&m, blocks[block][0], "gauge", blocks[block][1]);
        for (size_t i = 0; i < cluster->n_nodes; i++) {
            const struct node *node = &cluster->nodes[i];
            const double values[] = {node->reached, node->differs, (double)node->n_faults};
            if (block == 0 || node->reached)
                write_sample(&m, values[block], "node", node->name, NULL);
        }
    }
    if (m.to)
        fclose(m.to);
    if (!write_output(path, text))
        return EXIT_USAGE;
    return cluster->deviating || cluster->not_reached ? EXIT_FAULT : EXIT_GOOD;
}
