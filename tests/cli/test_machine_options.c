/* SPDX-License-Identifier: Apache-2.0 */
/* Where topo, explain and doctor get the machine from, and how it is measured (machine_options.c,
 * probe.c). GPUs, links and ladders are mocks. */
#include "machine_options.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "machine/checks/assign.h"
#include "machine/live/ladder.h"
#include "probe.h"
#include "tool/gpu_link.h"
#include "tool/gpu_probe.h"
#include "tool/link_counters.h"
#include "tool/tool.h"

static char call_log[8192];

__attribute__((format(printf, 1, 2))) static void log_call(const char *format, ...)
{
    size_t used = strlen(call_log);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(call_log + used, sizeof call_log - used - 2, format, arguments);
    va_end(arguments);
    strcat(call_log, "\n");
}

#define expect_log(text)                                                                           \
    do {                                                                                           \
        assert_string_equal(call_log, text);                                                       \
        *call_log = '\0';                                                                          \
    } while (0)

/* Compares the start of the log. */
#define expect_begin(text)                                                                         \
    do {                                                                                           \
        assert_memory_equal(call_log, text, strlen(text));                                         \
        *call_log = '\0';                                                                          \
    } while (0)

/* ---------------------------------------------------------------------------------------- mocks */

static struct {
    bool terminal, no_driver, no_cuda, no_links, fails, no_nic;
    weft_status pair;
    struct probe_pair found;
    int64_t grown[4]; /* error counts of successive readings */
    int looks;
    weft_status load, climb;
    bool climbed[4]; /* this NIC of the assignment was tried */
} answers;

static struct probe_gpus *const made_gpus = (void *)&answers.pair;
static struct link_counters *const made_links = (void *)&answers.grown;
static struct tool_gpu_links *const made_pcie = (void *)&answers.looks;

weft_status __wrap_probe_gpus_open(struct probe_gpus **gpus, const char *const *addresses, int n);
weft_status __wrap_probe_gpus_open(struct probe_gpus **gpus, const char *const *addresses, int n)
{
    log_call("open %d GPUs: %s %s", n, n > 0 ? addresses[0] : "-", n > 1 ? addresses[1] : "-");
    *gpus = made_gpus;
    return answers.no_driver ? base_fail(WEFT_ERR_UNSUPPORTED, "no driver") : WEFT_OK;
}

void __wrap_probe_gpus_close(struct probe_gpus *gpus);
void __wrap_probe_gpus_close(struct probe_gpus *gpus)
{
    assert_ptr_equal(gpus, made_gpus);
    log_call("close GPUs");
}

void __wrap_probe_gpus_warm(struct probe_gpus *gpus);
void __wrap_probe_gpus_warm(struct probe_gpus *gpus)
{
    assert_ptr_equal(gpus, made_gpus);
    log_call("warm GPUs");
}

weft_status __wrap_probe_gpus_pair(struct probe_gpus *gpus, int a, int b, bool brief,
                                   struct probe_pair *pair);
weft_status __wrap_probe_gpus_pair(struct probe_gpus *gpus, int a, int b, bool brief,
                                   struct probe_pair *pair)
{
    log_call("pair %d %d%s", a, b, brief ? ", brief" : "");
    *pair = answers.found;
    return answers.pair ? base_fail(answers.pair, "the pair is broken") : WEFT_OK;
}

weft_status __wrap_probe_gpus_load(struct probe_gpus *gpus, int a, int b, bool brief);
weft_status __wrap_probe_gpus_load(struct probe_gpus *gpus, int a, int b, bool brief)
{
    log_call("load %d %d%s", a, b, brief ? ", brief" : "");
    return answers.load;
}

weft_status __wrap_probe_gpus_host(struct probe_gpus *gpus, int gpu, bool brief,
                                   struct probe_host *host);
weft_status __wrap_probe_gpus_host(struct probe_gpus *gpus, int gpu, bool brief,
                                   struct probe_host *host)
{
    log_call("host %d%s", gpu, brief ? ", brief" : "");
    *host = (struct probe_host){51, 52, answers.found.proof, "mapped"};
    return answers.pair;
}

struct link_counters *__wrap_link_counters_open(int n);
struct link_counters *__wrap_link_counters_open(int n)
{
    log_call("count links of %d", n);
    return answers.no_links ? NULL : made_links;
}

void __wrap_link_counters_close(struct link_counters *links);
void __wrap_link_counters_close(struct link_counters *links)
{
    log_call("close %s", links ? "links" : "no links");
}

void __wrap_link_counters_mark(struct link_counters *links, int a, int b, bool brief);
void __wrap_link_counters_mark(struct link_counters *links, int a, int b, bool brief)
{
    log_call("mark %d %d%s", a, b, brief ? ", brief" : "");
}

int64_t __wrap_link_counters_grown(struct link_counters *links, char *where, size_t bytes);
int64_t __wrap_link_counters_grown(struct link_counters *links, char *where, size_t bytes)
{
    log_call("grown");
    snprintf(where, bytes, "look %d", answers.looks);
    return answers.grown[answers.looks++];
}

struct tool_gpu_links *__wrap_gpu_links_open(void);
struct tool_gpu_links *__wrap_gpu_links_open(void)
{
    return made_pcie;
}

void __wrap_gpu_links_close(struct tool_gpu_links *links);
void __wrap_gpu_links_close(struct tool_gpu_links *links)
{
    assert_ptr_equal(links, made_pcie);
    log_call("close PCIe");
}

int __wrap_gpu_links_generation(struct tool_gpu_links *links, const char *address);
int __wrap_gpu_links_generation(struct tool_gpu_links *links, const char *address)
{
    log_call("generation of %s", address);
    return 5;
}

weft_status __wrap_machine_measure(struct machine *machine, const struct machine_probe *probe,
                                   bool quick, void (*progress)(const char *pair));
weft_status __wrap_machine_measure(struct machine *machine, const struct machine_probe *probe,
                                   bool quick, void (*progress)(const char *pair))
{
    log_call("measure%s", quick ? " quickly" : "");
    progress("gpu0 gpu1");
    assert_non_null(probe->context);
    return answers.fails ? base_fail(WEFT_ERR_SYSTEM, "gpu0 is gone") : WEFT_OK;
}

weft_status __wrap_machine_test_gdr(struct machine *machine, int64_t gpu, const char *nic);
weft_status __wrap_machine_test_gdr(struct machine *machine, int64_t gpu, const char *nic)
{
    log_call("climb gpu%d %s", (int)gpu, nic);
    if (answers.climb)
        return base_fail(answers.climb, "no verbs");
    struct machine_rung *rung = machine_add_rung(machine);
    number_set(&rung->gpu, gpu);
    text_set(machine, &rung->nic, nic);
    text_set(machine, &rung->rung, "export");
    return WEFT_OK;
}

weft_status __wrap_machine_read_cuda(struct machine *machine);
weft_status __wrap_machine_read_cuda(struct machine *machine)
{
    log_call("ask CUDA");
    return answers.no_cuda ? base_fail(WEFT_ERR_UNSUPPORTED, "no CUDA") : WEFT_OK;
}

struct machine *__wrap_machine_read_live(const struct machine_source *source);
struct machine *__wrap_machine_read_live(const struct machine_source *source)
{
    log_call("live at \"%s\"%s", source->root, source->gpus ? " with GPUs" : "");
    return machine_new("live");
}

static int assigned; /* index of the assigned NIC */

void __wrap_assign_nics(const struct machine *machine, struct assignment *assignment);
void __wrap_assign_nics(const struct machine *machine, struct assignment *assignment)
{
    static struct assigned list[4];
    memset(list, 0, sizeof list);
    *assignment = (struct assignment){.list = list, .n = (int)machine->n_gpus};
    for (int i = 0; i < assignment->n; i++) {
        assignment->list[i].gpu = &machine->gpus[i];
        if (!(answers.no_nic && i == 0) && (size_t)assigned < machine->n_nics)
            assignment->list[i].nic = &machine->nics[assigned];
    }
    if (assigned + 1 < (int)machine->n_nics)
        assigned++; /* another NIC the next time */
}

void __wrap_assignment_free(struct assignment *assignment);
void __wrap_assignment_free(struct assignment *assignment)
{
    log_call("free the assignment");
}

int __wrap_isatty(int fd);
int __wrap_isatty(int fd)
{
    assert_int_equal(fd, STDERR_FILENO);
    return answers.terminal;
}

static char said[2000];

/* Runs the statement and keeps its output to standard error. */
#define keep_said(statement)                                                                       \
    do {                                                                                           \
        FILE *usual_ = stderr;                                                                     \
        char *text_ = NULL;                                                                        \
        size_t bytes_;                                                                             \
        stderr = open_memstream(&text_, &bytes_);                                                  \
        statement;                                                                                 \
        fclose(stderr);                                                                            \
        stderr = usual_;                                                                           \
        snprintf(said, sizeof said, "%s", text_);                                                  \
        free(text_);                                                                               \
    } while (0)

static struct machine *two_gpus(void)
{
    struct machine *m = machine_new("made up");
    for (int i = 0; i < 2; i++) {
        struct machine_gpu *gpu = machine_add_gpu(m);
        number_set(&gpu->index, i ? 5 : 2);
        text_set(m, &gpu->bdf, i ? "0000:02:00.0" : "0000:01:00.0");
    }
    machine_add_link(m);
    memset(&answers, 0, sizeof answers);
    *call_log = '\0';
    assigned = 0;
    return m;
}

/* ---------------------------------------------------------------------------------- the options */

static int parse_one(int key, const char *argument, struct machine_options *options)
{
    char text[100];
    struct argp_state state = {.input = options, .flags = ARGP_NO_EXIT | ARGP_NO_ERRS};
    snprintf(text, sizeof text, "%s", argument ? argument : "");
    return machine_options_argp.parser(key, argument ? text : NULL, &state);
}

static int key_of(const char *name)
{
    for (const struct argp_option *o = machine_options_argp.options; o->name; o++)
        if (strcmp(o->name, name) == 0)
            return o->key;
    return 0;
}

static void options_are_parsed(void **state)
{
    struct machine_options options = {.json = 0};
    static char file[] = "FILE", change[] = "CHANGE";
    struct argp_state at = {.input = &options};
    assert_int_equal(machine_options_argp.parser(key_of("machine"), file, &at), 0);
    assert_int_equal(machine_options_argp.parser(key_of("what-if"), change, &at), 0);
    assert_ptr_equal(options.file, file);
    assert_ptr_equal(options.what_if, change);
    assert_int_equal(parse_one(key_of("json"), NULL, &options), 0);
    assert_int_equal(options.json, 1);
    assert_int_equal(parse_one(key_of("measure"), NULL, &options), 0);
    assert_int_equal(options.measure, 1);
    assert_int_equal(parse_one(key_of("full"), NULL, &options), 0);
    assert_true(columns_are_full());
    columns_set_full(false);
    assert_int_equal(parse_one('z', NULL, &options), ARGP_ERR_UNKNOWN);
    static const struct {
        const char *text;
        int percent;
    } rows[] = {{"1", 1},  {"100", 100}, {"80", 80}, {"0", 0}, {"101", 0},
                {"-5", 0}, {"", 0},      {"8x", 0},  {"x", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        options.fault_percent = 7;
        assert_int_equal(parse_one(key_of("fault-below"), rows[i].text, &options), 0);
        assert_int_equal(options.fault_percent, rows[i].percent);
    }
}

static void the_machine_is_read(void **state)
{
    struct machine_options options = {.file = "1 socket, 2 gpu"};
    struct machine *m;
    memset(&answers, 0, sizeof answers);
    unsetenv("WEFT_FAULT_PERCENT");
    keep_said(m = machine_options_read(&options));
    assert_string_equal(said, "");
    assert_int_equal(m->n_gpus, 2);
    assert_false(m->limits.fault_percent.known);
    machine_free(m);
    setenv("WEFT_FAULT_PERCENT", "70", 1);
    m = machine_options_read(&options);
    assert_int_equal(m->limits.fault_percent.value, 70);
    machine_free(m);
    options.fault_percent = 60;
    m = machine_options_read(&options);
    assert_int_equal(m->limits.fault_percent.value, 60);
    machine_free(m);
    setenv("WEFT_FAULT_PERCENT", "170", 1); /* ignored because the option is given */
    m = machine_options_read(&options);
    assert_int_equal(m->limits.fault_percent.value, 60);
    machine_free(m);
    options.fault_percent = 0;
    keep_said(m = machine_options_read(&options));
    assert_null(m);
    assert_string_equal(said,
                        "weft topo: WEFT_FAULT_PERCENT=170 is not a percentage from 1 to 100\n");
    unsetenv("WEFT_FAULT_PERCENT");
    options.file = "/nonexistent/machine";
    keep_said(m = machine_options_read(&options));
    assert_null(m);
    assert_memory_equal(said, "weft topo: ", 11);
    options.file = NULL;
    *call_log = '\0';
    keep_said(m = machine_options_read(&options));
    expect_log("live at \"\" with GPUs\n");
    machine_free(m);
    options.file = "1 socket, 2 gpu";
    options.what_if = "no such change";
    keep_said(m = machine_options_read(&options));
    assert_null(m);
    assert_memory_equal(said, "weft topo: --what-if: ", 22);
}

/* ------------------------------------------------------------------------------------ measuring */

static void all_is_measured(void **state)
{
    struct machine_options options = {.json = 0};
    struct machine *m = two_gpus();
    keep_said(machine_options_measure(&options, m, 0));
    expect_log("ask CUDA\nfree the assignment\nopen 2 GPUs: 0000:01:00.0 0000:02:00.0\n"
               "count links of 2\nwarm GPUs\nmeasure\nclose links\nclose PCIe\nclose GPUs\n");
    assert_string_equal(said, "");
    answers.terminal = true;
    keep_said(machine_options_try(m));
    expect_log("open 2 GPUs: 0000:01:00.0 0000:02:00.0\ncount links of 2\nask CUDA\nwarm GPUs\n"
               "measure quickly\nclose links\nclose PCIe\nclose GPUs\n");
    assert_string_equal(said, "\rmeasuring gpu0 gpu1      \r                                \r");
    answers.terminal = false;
    answers.no_driver = answers.no_cuda = true;
    keep_said(machine_options_try(m));
    assert_string_equal(said, "weft topo: not measured: no driver\n");
    keep_said(machine_options_measure(&options, m, 1));
    assert_string_equal(said, "weft topo: --measure: no CUDA\nweft topo: --measure: no driver\n");
    answers.no_driver = answers.no_cuda = false;
    answers.fails = true;
    *call_log = '\0';
    keep_said(machine_options_measure(&options, m, 1));
    assert_string_equal(said, "weft topo: some measurements failed: gpu0 is gone\n");
    assert_non_null(strstr(call_log, "measure quickly\n"));
    *call_log = '\0';
    options.file = "FILE";
    keep_said(machine_options_measure(&options, m, 0));
    assert_string_equal(said,
                        "weft topo: --measure: FILE is not this machine; the recorded figures are "
                        "shown\n");
    options.file = NULL;
    expect_log("");
    machine_free(m);
    m = machine_new("made up");
    keep_said(machine_options_measure(&options, m, 0));
    assert_string_equal(said, "weft topo: --measure: there is no GPU to measure\n");
    expect_log("free the assignment\n");
    machine_free(m);
}

static void ladders_are_climbed(void **state)
{
    struct machine_options options = {.json = 0};
    struct machine *m = two_gpus();
    static const char *const nics[] = {"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4"};
    for (int i = 0; i < 5; i++)
        text_set(m, &machine_add_nic(m)->name, nics[i]);
    answers.no_nic = true;
    keep_said(machine_options_measure(&options, m, 0)); /* at most three rounds */
    expect_begin("ask CUDA\nclimb gpu5 mlx5_0\nfree the assignment\nclimb gpu5 mlx5_1\nfree the "
                 "assignment\nclimb gpu5 mlx5_2\nfree the assignment\nopen 2 GPUs");
    *call_log = '\0';
    assigned = 0; /* their results are known */
    answers.no_nic = false;
    keep_said(machine_options_measure(&options, m, 0));
    expect_begin("ask CUDA\nclimb gpu2 mlx5_0\nfree the assignment\nclimb gpu2 mlx5_1\nfree the "
                 "assignment\nclimb gpu2 mlx5_2\nfree the assignment\nopen 2 GPUs");
    *call_log = '\0';
    assigned = 4;
    answers.climb = WEFT_ERR_UNSUPPORTED;
    keep_said(machine_options_measure(&options, m, 0));
    assert_string_equal(said, "weft topo: --measure: gpu2 mlx5_4: no verbs\n"
                              "weft topo: --measure: gpu5 mlx5_4: no verbs\n");
    expect_begin("ask CUDA\nclimb gpu2 mlx5_4\nclimb gpu5 mlx5_4\nfree the assignment\nopen");
    machine_free(m);
}

/* ------------------------------------------------------------------------------------ one pair */

static struct probe *probe;
static struct probe_result result;

static weft_status pair(const char *a, const char *b, bool quick)
{
    const struct machine_probe *interface = probe_interface(probe);
    memset(&result, 0, sizeof result);
    *call_log = '\0';
    answers.looks = 0;
    return interface->pair(interface->context, a, b, quick, &result);
}

static void a_pair_is_measured_once(void **state)
{
    struct machine *m = two_gpus();
    answers.found = (struct probe_pair){.proof = FOUND_PROVEN,
                                        .evidence = "proven",
                                        .write_mbps = {11, 12},
                                        .read_mbps = {13, 14},
                                        .both_mbps = 15,
                                        .latency_ns = 16};
    assert_int_equal(probe_open(m, &probe), WEFT_OK);
    assert_int_equal(pair("gpu2", "gpu5", true), WEFT_OK);
    expect_log("mark 0 1, brief\npair 0 1, brief\ngrown\n");
    assert_int_equal(result.proven, PROBE_PROVEN);
    assert_string_equal(result.evidence, "proven");
    assert_int_equal(result.write_mbps, 11);
    assert_int_equal(result.read_mbps, 13);
    assert_int_equal(result.both_mbps, 15);
    assert_int_equal(result.latency_ns, 16);
    assert_int_equal(result.errors_grown, 0);
    assert_string_equal(result.errors_where, "");
    assert_int_equal(pair("gpu5", "gpu2", true), WEFT_OK); /* known from the other direction */
    expect_log("");
    assert_int_equal(result.write_mbps, 12);
    assert_int_equal(result.read_mbps, 14);
    pair("gpu5", "gpu2", false); /* a lower rate */
    expect_log("mark 0 1\npair 0 1\ngrown\n");
    pair("gpu5", "gpu2", false);
    pair("gpu5", "gpu2", true);
    expect_log("");
    probe_close(probe);
    probe_close(NULL);
    *call_log = '\0';

    static const enum probe_proof proofs[][2] = {
        {(enum probe_proof)FOUND_FAILED, PROBE_FAILED},
        {(enum probe_proof)FOUND_REFUSED, PROBE_REFUSED},
        {(enum probe_proof)FOUND_NOT_OFFERED, PROBE_NOT_RUN}};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(probe_open(m, &probe), WEFT_OK);
        answers.found.proof = (enum probe_proof_found)proofs[i][0];
        assert_int_equal(pair("gpu2", "gpu5", false), WEFT_OK);
        expect_log("mark 0 1\npair 0 1\n");
        assert_int_equal(result.proven, proofs[i][1]);
        assert_int_equal(result.errors_grown, -1);
        probe_close(probe);
    }
    assert_int_equal(probe_open(m, &probe), WEFT_OK);
    answers.pair = WEFT_ERR_SYSTEM;
    assert_int_equal(pair("gpu2", "gpu5", false), WEFT_ERR_SYSTEM);
    assert_string_equal(weft_last_error(), "the pair is broken");
    base_fail(WEFT_ERR_RANGE, "something else");
    /* returns the same failure again */
    assert_int_equal(pair("gpu5", "gpu2", false), WEFT_ERR_SYSTEM);
    assert_string_equal(weft_last_error(), "the pair is broken");
    expect_log("");
    static const char *const none[][2] = {
        {"gpu2", "gpu2"}, {"gpu2", "mlx5_0"}, {"host", "host"}, {"gpu9", "host"}, {"host", "gpu3"}};
    for (int i = 0; i < 5; i++) {
        char sentence[200];
        assert_int_equal(pair(none[i][0], none[i][1], false), WEFT_ERR_UNSUPPORTED);
        snprintf(sentence, sizeof sentence,
                 "%s %s: only pairs of GPUs, and GPU and host, are measured", none[i][0],
                 none[i][1]);
        assert_string_equal(weft_last_error(), sentence);
    }
    probe_close(probe);
    machine_free(m);
}

static void errors_are_counted_again(void **state)
{
    static const struct {
        int64_t first, again;
        weft_status load;
        int64_t grown;
        const char *where;
    } rows[] = {{0, 9, WEFT_OK, 0, ""},
                {3, 4, WEFT_OK, 7, "look 1"},
                {3, 0, WEFT_OK, 0, ""},
                {3, 4, WEFT_ERR_SYSTEM, 0, ""},
                {1, 1, WEFT_OK, 2, "look 1"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct machine *m = two_gpus();
        answers.found.proof = FOUND_PROVEN;
        answers.grown[0] = rows[i].first;
        answers.grown[1] = rows[i].again;
        answers.load = rows[i].load;
        assert_int_equal(probe_open(m, &probe), WEFT_OK);
        assert_int_equal(pair("gpu2", "gpu5", true), WEFT_OK);
        expect_log(i == 0 ? "mark 0 1, brief\npair 0 1, brief\ngrown\n"
                          : "mark 0 1, brief\npair 0 1, brief\ngrown\nmark 0 1, brief\n"
                            "load 0 1, brief\ngrown\n");
        assert_int_equal(result.errors_grown, rows[i].grown);
        assert_string_equal(result.errors_where, rows[i].where);
        probe_close(probe);
        machine_free(m);
    }
    struct machine *m = two_gpus();
    answers.no_links = true;
    answers.found.proof = FOUND_PROVEN;
    assert_int_equal(probe_open(m, &probe), WEFT_OK);
    assert_int_equal(pair("gpu2", "gpu5", true), WEFT_OK);
    expect_log("pair 0 1, brief\n");
    assert_int_equal(result.errors_grown, -1);
    probe_close(probe);
    m->n_links = 0; /* no link counters */
    *call_log = '\0';
    assert_int_equal(probe_open(m, &probe), WEFT_OK);
    expect_log("open 2 GPUs: 0000:01:00.0 0000:02:00.0\n");
    probe_close(probe);
    m->n_links = m->n_gpus = 1;
    *call_log = '\0';
    assert_int_equal(probe_open(m, &probe), WEFT_OK);
    expect_log("open 1 GPUs: 0000:01:00.0 -\n");
    probe_close(probe);
    machine_free(m);
}

static void a_gpu_and_the_host(void **state)
{
    struct machine *m = two_gpus();
    answers.found.proof = FOUND_REFUSED;
    assert_int_equal(probe_open(m, &probe), WEFT_OK);
    assert_int_equal(pair("gpu5", "host", false), WEFT_OK);
    expect_log("host 1\ngeneration of 0000:02:00.0\n");
    assert_int_equal(result.write_mbps, 51);
    assert_int_equal(result.read_mbps, 52);
    assert_int_equal(result.pcie_gen, 5);
    assert_int_equal(result.proven, PROBE_REFUSED);
    assert_string_equal(result.evidence, "mapped");
    assert_int_equal(pair("host", "gpu2", true), WEFT_OK);
    expect_log("host 0, brief\ngeneration of 0000:01:00.0\n");
    assert_int_equal(result.write_mbps, 52);
    assert_int_equal(result.read_mbps, 51);
    answers.pair = WEFT_ERR_SYSTEM;
    assert_int_equal(pair("host", "gpu2", true), WEFT_ERR_SYSTEM);
    expect_log("host 0, brief\n");
    assert_int_equal(result.pcie_gen, 0);
    probe_close(probe);
    answers.no_driver = true;
    probe = (struct probe *)m;
    assert_int_equal(probe_open(m, &probe), WEFT_ERR_UNSUPPORTED);
    assert_null(probe);
    machine_free(m);
}

/* ---------------------------------------------------------------------------------------- JSON */

static void expect_json(json_t *value, const char *expected)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
    assert_string_equal(text, expected);
    free(text);
    json_decref(value);
}

static void facts_as_json(void **state)
{
    expect_json(json_gbps(0), "null");
    expect_json(json_gbps(-5), "null");
    expect_json(json_gbps(1), "0.0");
    expect_json(json_gbps(12349), "12.3");
    expect_json(json_gbps(12350), "12.4");
    expect_json(json_us(654), "0.65");
    expect_json(json_us(655), "0.66");
    struct machine_number number = {.value = 3, .known = true};
    expect_json(json_fact_number(number), "3");
    expect_json(json_fact_flag(number), "true");
    number.value = 0;
    expect_json(json_fact_flag(number), "false");
    number.known = false;
    number.why = "hidden";
    expect_json(json_fact_number(number), "{\"unknown\":\"hidden\"}");
    expect_json(json_fact_flag(number), "{\"unknown\":\"hidden\"}");
    expect_json(json_fact_text((struct machine_text){.value = "x"}), "\"x\"");
    expect_json(json_fact_text((struct machine_text){.why = "hidden"}), "{\"unknown\":\"hidden\"}");
    struct finding f = {.reason = 3,
                        .weight = WEIGHT_SLOW,
                        .place = "gpu0",
                        .path = "p2p",
                        .evidence = "seen",
                        .remedy = "do",
                        .who = "somebody",
                        .lasts = "a day",
                        .repair = "drop",
                        .gain_mbps = 2000};
    char expected[1500];
    const struct reason_text *r = &reason_table[3];
    json_t *all =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:f}", "code", r->code,
                  "weight", weight_names[WEIGHT_SLOW], "place", "gpu0", "path", "p2p", "cause",
                  r->cause, "evidence", "seen", "remedy", "do", "who", "somebody", "lasts", "a day",
                  "what_if", "drop", "gain_gbytes_per_s", 2.0);
    char *text = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(9));
    snprintf(expected, sizeof expected, "%s", text);
    free(text);
    json_decref(all);
    expect_json(json_finding(&f), expected);
    FILE *usual = stdout;
    size_t bytes;
    stdout = open_memstream(&text, &bytes);
    json_print(json_pack("{s:f}", "x", 0.1));
    fclose(stdout);
    stdout = usual;
    assert_string_equal(text, "{\n  \"x\": 0.1\n}\n");
    free(text);
}

int main(void)
{
    static char name[] = "weft topo";
    program_invocation_short_name = name; /* as cli/main.c has it */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_parsed),      cmocka_unit_test(the_machine_is_read),
        cmocka_unit_test(all_is_measured),         cmocka_unit_test(ladders_are_climbed),
        cmocka_unit_test(a_pair_is_measured_once), cmocka_unit_test(errors_are_counted_again),
        cmocka_unit_test(a_gpu_and_the_host),      cmocka_unit_test(facts_as_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
