/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics of `weft doctor` (cli/doctor/metrics.c) and its report on a cluster
 * (cli/doctor/cluster.c): the whole text for mock machines and nodes. */
#include "doctor/doctor.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "commands.h"

/* ------------------------------------------------------------------------------ failing writes */

static char printed[16384]; /* standard output or standard error */

static FILE *usual, **diverted;
static char *memory;
static size_t memory_bytes;

static void divert(FILE **stream)
{
    diverted = stream;
    usual = *stream;
    *stream = open_memstream(&memory, &memory_bytes);
    assert_non_null(*stream);
}

static const char *restore(void)
{
    fclose(*diverted);
    *diverted = usual;
    snprintf(printed, sizeof printed, "%s", memory);
    free(memory);
    return printed;
}

static int syncs_fail, renames_fail, memory_fails;
static char renamed_from[200];

int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    errno = EIO;
    return syncs_fail ? -1 : 0;
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
    snprintf(renamed_from, sizeof renamed_from, "%s", from);
    errno = EACCES;
    return renames_fail ? -1 : __real_rename(from, to);
}

FILE *__real_open_memstream(char **text, size_t *bytes);
FILE *__wrap_open_memstream(char **text, size_t *bytes);
FILE *__wrap_open_memstream(char **text, size_t *bytes)
{
    return memory_fails ? NULL : __real_open_memstream(text, bytes);
}

/* ----------------------------------------------------------------------------- a mock machine */

static void set_all(struct machine_gpu *gpu, int64_t from)
{
    number_set(&gpu->memory_bytes, from);
    number_set(&gpu->pcie_gen, from + 1);
    number_set(&gpu->pcie_width, from + 2);
    number_set(&gpu->pcie_replays, from + 3);
    number_set(&gpu->ecc_uncorrected, from + 4);
    number_set(&gpu->rows_uncorrected, from + 5);
    number_set(&gpu->rows_pending, from + 6);
    number_set(&gpu->rows_failed, from + 7);
    number_set(&gpu->xids, from + 8);
}

static struct machine *made_machine(void)
{
    struct machine *m = machine_new("made up");
    text_set(m, &m->system.kernel, "6.1\\x\"y\n\x7f\x80z ~");
    text_set(m, &m->drivers.driver, "570");
    struct machine_gpu *gpu = machine_add_gpu(m);
    number_set(&gpu->index, 3);
    text_set(m, &gpu->name, "Model");
    text_set(m, &gpu->uuid, "GPU-1");
    text_set(m, &gpu->bdf, "0000:01:00.0");
    set_all(gpu, 100);
    machine_add_gpu(m); /* a GPU without known properties */
    struct machine_pci *pci = machine_add_pci(m);
    text_set(m, &pci->bdf, "0000:01:00.0");
    number_set(&pci->aer_correctable, 11);
    pci = machine_add_pci(m);
    text_set(m, &pci->bdf, "0000:02:00.0");
    number_set(&pci->aer_uncorrectable, 12);
    struct machine_link *link = machine_add_link(m);
    number_set(&link->gpu, 3);
    number_set(&link->link, 7);
    number_set(&link->active, 1);
    number_set(&link->mbps, 26562);
    number_set(&link->crc_errors, 21);
    number_set(&link->replays, 22);
    number_set(&link->recoveries, 23);
    number_set(&link->ecc_errors, 24);
    number_set(&link->receive_errors, 25);
    number_set(&link->integrity_errors, 26);
    number_set(&link->discards, 27);
    number_set(&link->failed_recoveries, 28);
    number_set(&link->effective_errors, 29);
    machine_add_link(m);
    link = machine_add_link(m);
    number_set(&link->active, 0);
    struct machine_port *port = machine_add_port(m);
    text_set(m, &port->nic, "mlx5_0");
    number_set(&port->port, 2);
    text_set(m, &port->state, "active");
    number_set(&port->mbit, 400000);
    number_set(&port->symbol_errors, 31);
    number_set(&port->link_downed, 32);
    number_set(&port->retransmits, 33);
    port = machine_add_port(m);
    text_set(m, &port->state, "down");
    machine_add_port(m);
    struct machine_measured *pair = machine_add_measured(m);
    text_set(m, &pair->a, "gpu3");
    text_set(m, &pair->b, "host");
    number_set(&pair->write_mbps, 41000);
    pair = machine_add_measured(m);
    text_set(m, &pair->a, "gpu3");
    number_set(&pair->latency_ns, 650);
    number_set(&pair->write_mbps, 0);
    return m;
}

static struct finding found[4] = {
    {.reason = 1, .weight = WEIGHT_SLOW, .place = "gpu0"},
    {.reason = 1, .weight = WEIGHT_OFF, .place = "gpu0"},
    {.reason = 1, .weight = WEIGHT_SLOW, .place = "gpu0"},
    {.reason = 2, .weight = WEIGHT_SLOW, .place = "gpu1"},
};

static struct diagnosis made_diagnosis(void)
{
    static char names[DOCTOR_CHECKS][24];
    struct diagnosis d = {.findings = {.list = found, .n = 4}};
    for (int i = 0; i < DOCTOR_CHECKS; i++) {
        snprintf(names[i], sizeof names[i], "check%d", i);
        d.checks[i].name = names[i];
        d.checks[i].faults = 10 + i;
        d.checks[i].unknown = 50 + i;
    }
    return d;
}

/* Returns the metrics whose lines begin with `prefix`, without HELP and TYPE lines. */
static const char *samples(const char *prefix)
{
    static char text[4000];
    *text = '\0';
    for (const char *at = printed; *at; at = strchr(at, '\n') + 1)
        if (strncmp(at, prefix, strlen(prefix)) == 0)
            strncat(text, at, (size_t)(strchr(at, '\n') - at) + 1);
    return text;
}

static int write_metrics(const struct machine *m, const struct diagnosis *d, int differs)
{
    divert(&stdout);
    int status = doctor_write_metrics("-", m, d, differs);
    restore();
    return status;
}

static void a_machine_as_metrics(void **state)
{
    struct machine *m = made_machine();
    struct diagnosis d = made_diagnosis();
    assert_int_equal(write_metrics(m, &d, -1), EXIT_GOOD);
    char expected[400];
    snprintf(
        expected, sizeof expected,
        "weft_machine_info{kernel=\"6.1\\\\x\\\"y???z ~\",driver=\"570\",module=\"\",weft=\"%s\"} "
        "1\n",
        weft_version());
    assert_string_equal(samples("weft_machine"), expected);
    assert_string_equal(
        samples("weft_gpu_info"),
        "weft_gpu_info{gpu=\"3\",model=\"Model\",uuid=\"GPU-1\",pci=\"0000:01:00.0\"} 1\n"
        "weft_gpu_info{gpu=\"1\",model=\"\",uuid=\"\",pci=\"\"} 1\n");
    assert_string_equal(samples("weft_doctor_faults{check=\"check0\"}"),
                        "weft_doctor_faults{check=\"check0\"} 10\n");
    snprintf(expected, sizeof expected, "weft_doctor_not_seen{check=\"check%d\"} %d\n",
             DOCTOR_CHECKS - 1, 50 + DOCTOR_CHECKS - 1);
    assert_non_null(strstr(printed, expected));
    assert_string_equal(samples("weft_doctor_differences"), "");
    snprintf(expected, sizeof expected,
             "weft_doctor_findings{code=\"%s\",weight=\"%s\",place=\"gpu0\"} 2\n"
             "weft_doctor_findings{code=\"%s\",weight=\"%s\",place=\"gpu0\"} 1\n"
             "weft_doctor_findings{code=\"%s\",weight=\"%s\",place=\"gpu1\"} 1\n",
             reason_table[1].code, weight_names[WEIGHT_SLOW], reason_table[1].code,
             weight_names[WEIGHT_OFF], reason_table[2].code, weight_names[WEIGHT_SLOW]);
    assert_string_equal(samples("weft_doctor_findings"), expected);
    assert_string_equal(
        strstr(printed, "# HELP weft_gpu_memory_bytes"),
        "# HELP weft_gpu_memory_bytes Memory of a GPU.\n"
        "# TYPE weft_gpu_memory_bytes gauge\n"
        "weft_gpu_memory_bytes{gpu=\"3\"} 100\n"
        "# HELP weft_gpu_pcie_generation PCIe generation of a GPU now.\n"
        "# TYPE weft_gpu_pcie_generation gauge\n"
        "weft_gpu_pcie_generation{gpu=\"3\"} 101\n"
        "# HELP weft_gpu_pcie_lanes PCIe lanes of a GPU now.\n"
        "# TYPE weft_gpu_pcie_lanes gauge\n"
        "weft_gpu_pcie_lanes{gpu=\"3\"} 102\n"
        "# HELP weft_gpu_pcie_replays_total PCIe replays of a GPU.\n"
        "# TYPE weft_gpu_pcie_replays_total counter\n"
        "weft_gpu_pcie_replays_total{gpu=\"3\"} 103\n"
        "# HELP weft_gpu_ecc_uncorrected_errors_total Uncorrected memory errors since "
        "the driver was loaded.\n"
        "# TYPE weft_gpu_ecc_uncorrected_errors_total counter\n"
        "weft_gpu_ecc_uncorrected_errors_total{gpu=\"3\"} 104\n"
        "# HELP weft_gpu_remapped_rows Rows of memory remapped after uncorrected "
        "errors.\n"
        "# TYPE weft_gpu_remapped_rows gauge\n"
        "weft_gpu_remapped_rows{gpu=\"3\"} 105\n"
        "# HELP weft_gpu_row_remap_pending 1: a remapped row waits for a reset.\n"
        "# TYPE weft_gpu_row_remap_pending gauge\n"
        "weft_gpu_row_remap_pending{gpu=\"3\"} 106\n"
        "# HELP weft_gpu_row_remap_failed 1: a row could not be remapped.\n"
        "# TYPE weft_gpu_row_remap_failed gauge\n"
        "weft_gpu_row_remap_failed{gpu=\"3\"} 107\n"
        "# HELP weft_gpu_xids Xid errors in the kernel's log since boot.\n"
        "# TYPE weft_gpu_xids gauge\n"
        "weft_gpu_xids{gpu=\"3\"} 108\n"
        "# HELP weft_pci_corrected_errors_total AER errors corrected.\n"
        "# TYPE weft_pci_corrected_errors_total counter\n"
        "weft_pci_corrected_errors_total{pci=\"0000:01:00.0\"} 11\n"
        "# HELP weft_pci_uncorrected_errors_total AER errors that were not corrected.\n"
        "# TYPE weft_pci_uncorrected_errors_total counter\n"
        "weft_pci_uncorrected_errors_total{pci=\"0000:02:00.0\"} 12\n"
        "# HELP weft_link_up 1: the link of a GPU is up.\n"
        "# TYPE weft_link_up gauge\n"
        "weft_link_up{gpu=\"3\",link=\"7\"} 1\n"
        "weft_link_up{gpu=\"-1\",link=\"2\"} 0\n"
        "# HELP weft_link_line_rate_bytes_per_second Line rate of a link, one "
        "direction.\n"
        "# TYPE weft_link_line_rate_bytes_per_second gauge\n"
        "weft_link_line_rate_bytes_per_second{gpu=\"3\",link=\"7\"} 26562000000\n"
        "# HELP weft_link_errors_total Errors of a link by kind.\n"
        "# TYPE weft_link_errors_total counter\n"
        "weft_link_errors_total{gpu=\"3\",link=\"7\",kind=\"crc\"} 21\n"
        "weft_link_errors_total{gpu=\"3\",link=\"7\",kind=\"replay\"} 22\n"
        "weft_link_errors_total{gpu=\"3\",link=\"7\",kind=\"recovery\"} 23\n"
        "weft_link_errors_total{gpu=\"3\",link=\"7\",kind=\"ecc\"} 24\n"
        "weft_link_errors_total{gpu=\"3\",link=\"7\",kind=\"receive\"} 25\n"
        "weft_link_errors_total{gpu=\"3\",link=\"7\",kind=\"integrity\"} 26\n"
        "weft_link_errors_total{gpu=\"3\",link=\"7\",kind=\"discard\"} 27\n"
        "weft_link_errors_total{gpu=\"3\",link=\"7\",kind=\"failed_recovery\"} 28\n"
        "weft_link_errors_total{gpu=\"3\",link=\"7\",kind=\"effective\"} 29\n"
        "# HELP weft_nic_port_up 1: the port of a NIC is active.\n"
        "# TYPE weft_nic_port_up gauge\n"
        "weft_nic_port_up{nic=\"mlx5_0\",port=\"2\"} 1\n"
        "weft_nic_port_up{nic=\"\",port=\"0\"} 0\n"
        "# HELP weft_nic_port_rate_bytes_per_second Rate of a port.\n"
        "# TYPE weft_nic_port_rate_bytes_per_second gauge\n"
        "weft_nic_port_rate_bytes_per_second{nic=\"mlx5_0\",port=\"2\"} 50000000000\n"
        "# HELP weft_nic_port_symbol_errors_total Symbol errors of a port.\n"
        "# TYPE weft_nic_port_symbol_errors_total counter\n"
        "weft_nic_port_symbol_errors_total{nic=\"mlx5_0\",port=\"2\"} 31\n"
        "# HELP weft_nic_port_link_downed_total How often the link went down.\n"
        "# TYPE weft_nic_port_link_downed_total counter\n"
        "weft_nic_port_link_downed_total{nic=\"mlx5_0\",port=\"2\"} 32\n"
        "# HELP weft_nic_port_retransmits_total RDMA sequence errors and acknowledgement "
        "timeouts.\n"
        "# TYPE weft_nic_port_retransmits_total counter\n"
        "weft_nic_port_retransmits_total{nic=\"mlx5_0\",port=\"2\"} 33\n"
        "# HELP weft_pair_write_bytes_per_second Measured speed of writes from one "
        "device to the other.\n"
        "# TYPE weft_pair_write_bytes_per_second gauge\n"
        "weft_pair_write_bytes_per_second{from=\"gpu3\",to=\"host\"} 41000000000\n"
        "# HELP weft_pair_latency_seconds Measured latency of 8 bytes, one way.\n"
        "# TYPE weft_pair_latency_seconds gauge\n"
        "weft_pair_latency_seconds{from=\"gpu3\",to=\"\"} 6.5e-07\n");
    machine_free(m);
}

static void the_exit_status_of_metrics(void **state)
{
    static const int rows[][3] = {{0, -1, EXIT_GOOD},
                                  {0, 0, EXIT_GOOD},
                                  {0, 1, EXIT_FAULT},
                                  {1, -1, EXIT_FAULT},
                                  {1, 0, EXIT_FAULT}};
    struct machine *m = machine_new("made up");
    struct diagnosis d = made_diagnosis();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char expected[60] = "";
        d.faults = rows[i][0];
        assert_int_equal(write_metrics(m, &d, rows[i][1]), rows[i][2]);
        if (rows[i][1] >= 0)
            snprintf(expected, sizeof expected, "weft_doctor_differences %d\n", rows[i][1]);
        assert_string_equal(samples("weft_doctor_differences"), expected);
    }
    machine_free(m);
}

static void metrics_in_a_file(void **state)
{
    char folder[] = "/tmp/weft-test-metrics-XXXXXX", path[100], aside[200];
    struct cluster cluster = {.n_nodes = 0};
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/weft.prom", folder);
    assert_int_equal(doctor_write_cluster_metrics(path, &cluster), EXIT_GOOD);
    struct stat file;
    assert_int_equal(stat(path, &file), 0);
    assert_int_equal(file.st_mode & 0777, 0644);
    snprintf(aside, sizeof aside, "%s/.weft.prom.%d", folder, (int)getpid());
    assert_string_equal(renamed_from, aside);
    remove(path);
    for (int why = 0; why < 4; why++) {
        char expected[300];
        if (why == 3)
            snprintf(path, sizeof path, "%s/absent/weft.prom", folder);
        syncs_fail = why == 0;
        renames_fail = why == 1;
        memory_fails = why == 2;
        snprintf(expected, sizeof expected, "weft doctor: --prometheus: %s%s%s\n",
                 why == 2 ? "" : path, why == 2 ? "" : ": ",
                 why == 0   ? "Input/output error"
                 : why == 1 ? "Permission denied"
                 : why == 2 ? "no memory"
                            : "No such file or directory");
        FILE *before = stderr;
        char *said = NULL;
        size_t bytes;
        stderr = __real_open_memstream(&said, &bytes);
        assert_int_equal(doctor_write_cluster_metrics(path, &cluster), EXIT_USAGE);
        fclose(stderr);
        stderr = before;
        assert_string_equal(said, expected);
        free(said);
        assert_int_equal(access(path, F_OK), -1);
        assert_int_equal(access(aside, F_OK), -1);
        syncs_fail = renames_fail = memory_fails = 0;
    }
    assert_int_equal(chdir(folder), 0); /* a file name without a folder */
    assert_int_equal(doctor_write_cluster_metrics("weft.prom", &cluster), EXIT_GOOD);
    snprintf(aside, sizeof aside, ".weft.prom.%d", (int)getpid());
    assert_string_equal(renamed_from, aside);
    remove("weft.prom");
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* ----------------------------------------------------------------------------- a mock cluster */

static struct node nodes[7];

static struct cluster made_cluster(void)
{
    static struct node_fault fault[2] = {{"IOMMU_ON", "gpu0", "it is on"}, {"B", "", "x"}};
    static const char *const names[] = {"n1", "n2", "n3", "n4", "n5", "n6", "n7"};
    static char deviation[] = "driver 1, not 2";
    memset(nodes, 0, sizeof nodes);
    for (int i = 0; i < 7; i++) {
        strcpy(nodes[i].name, names[i]);
        nodes[i].reached = i != 3;
        nodes[i].group = (size_t)i;
    }
    nodes[1].differs = 2;
    nodes[1].n_faults = 2;
    nodes[1].faults = fault;
    nodes[1].deviation = deviation;
    nodes[4].group = 1;
    nodes[2].n_faults = 2;
    nodes[2].faults = fault;
    strcpy(nodes[3].why, "no answer in 5 s");
    nodes[3].deviation = deviation;
    nodes[5].not_seen = 3;
    nodes[6].group = 0;
    return (struct cluster){.nodes = nodes,
                            .n_nodes = 7,
                            .by_majority = true,
                            .as_expected = 3,
                            .deviating = 3,
                            .not_reached = 1};
}

static void a_cluster_as_text(void **state)
{
    struct cluster cluster = made_cluster();
    divert(&stdout);
    doctor_print_cluster(&cluster, NULL);
    assert_string_equal(restore(), "7 nodes, compared with the majority of them\n"
                                   "alike         2 nodes n[1,7]\n"
                                   "not verified  n6\n"
                                   "DIFFERS       2 nodes n[2,5]: driver 1, not 2\n"
                                   "FAULT         n3\n"
                                   "NOT REACHED   n4: no answer in 5 s\n"
                                   "3 alike, 3 deviate, 1 not reached\n");
    cluster.n_nodes = cluster.deviating = 1;
    cluster.by_majority = false;
    divert(&stdout);
    doctor_print_cluster(&cluster, "FILE");
    assert_string_equal(restore(), "1 node, compared with FILE\nas expected   n1\n"
                                   "3 alike, 1 deviates, 1 not reached\n");
}

static void a_cluster_as_metrics(void **state)
{
    struct cluster cluster = made_cluster();
    cluster.n_nodes = 4;
    divert(&stdout);
    assert_int_equal(doctor_write_cluster_metrics("-", &cluster), EXIT_FAULT);
    assert_string_equal(restore(),
                        "# HELP weft_node_reached 1: the node sent its report.\n"
                        "# TYPE weft_node_reached gauge\n"
                        "weft_node_reached{node=\"n1\"} 1\n"
                        "weft_node_reached{node=\"n2\"} 1\n"
                        "weft_node_reached{node=\"n3\"} 1\n"
                        "weft_node_reached{node=\"n4\"} 0\n"
                        "# HELP weft_node_differences Facts of a node that are not as "
                        "expected.\n"
                        "# TYPE weft_node_differences gauge\n"
                        "weft_node_differences{node=\"n1\"} 0\n"
                        "weft_node_differences{node=\"n2\"} 2\n"
                        "weft_node_differences{node=\"n3\"} 0\n"
                        "# HELP weft_node_faults Faults that weft doctor found on a node.\n"
                        "# TYPE weft_node_faults gauge\n"
                        "weft_node_faults{node=\"n1\"} 0\n"
                        "weft_node_faults{node=\"n2\"} 2\n"
                        "weft_node_faults{node=\"n3\"} 2\n");
    static const int rows[][3] = {{0, 0, EXIT_GOOD}, {1, 0, EXIT_FAULT}, {0, 1, EXIT_FAULT}};
    for (int i = 0; i < 3; i++) {
        cluster.deviating = (size_t)rows[i][0];
        cluster.not_reached = (size_t)rows[i][1];
        divert(&stdout);
        assert_int_equal(doctor_write_cluster_metrics("-", &cluster), rows[i][2]);
        restore();
    }
}

static void a_cluster_as_json(void **state)
{
    struct cluster cluster = made_cluster();
    for (int against = 0; against < 2; against++) {
        divert(&stdout);
        doctor_json_cluster(&cluster, against ? "FILE" : NULL);
        json_t *root = json_loads(restore(), 0, NULL);
        assert_non_null(root);
        assert_string_equal(json_string_value(json_object_get(root, "expected_by")),
                            against ? "FILE" : "majority");
        assert_int_equal(json_integer_value(json_object_get(root, "alike")), 3);
        assert_int_equal(json_integer_value(json_object_get(root, "deviating")), 3);
        assert_int_equal(json_integer_value(json_object_get(root, "not_reached")), 1);
        json_t *list = json_object_get(root, "nodes");
        assert_int_equal(json_array_size(list), 7);
        char *lost = json_dumps(json_array_get(list, 3), JSON_COMPACT);
        assert_string_equal(lost,
                            "{\"host\":\"n4\",\"reached\":false,\"why\":\"no answer in 5 s\"}");
        free(lost);
        static const bool deviates[] = {false, true, true, false, false, false, false};
        for (size_t i = 0; i < 7; i++) {
            json_t *node = json_array_get(list, i);
            assert_int_equal(json_is_true(json_object_get(node, "deviates")), deviates[i]);
            assert_int_equal(json_is_true(json_object_get(node, "reached")), i != 3);
            assert_int_equal(json_array_size(json_object_get(node, "faults")), deviates[i] ? 2 : 0);
        }
        char *faults = json_dumps(json_object_get(json_array_get(list, 2), "faults"), JSON_COMPACT);
        assert_string_equal(faults,
                            "[{\"code\":\"IOMMU_ON\",\"place\":\"gpu0\",\"evidence\":\"it is on\"},"
                            "{\"code\":\"B\",\"place\":\"\",\"evidence\":\"x\"}]");
        free(faults);
        json_decref(root);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_machine_as_metrics), cmocka_unit_test(the_exit_status_of_metrics),
        cmocka_unit_test(metrics_in_a_file),    cmocka_unit_test(a_cluster_as_text),
        cmocka_unit_test(a_cluster_as_metrics), cmocka_unit_test(a_cluster_as_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
