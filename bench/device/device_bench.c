/* SPDX-License-Identifier: Apache-2.0 */
/* weft_device_bench: device operations between two PEs and of all PEs, timed inside kernels and
 * checked outside the timing. It prints a table with the baseline and the aim of each row.
 *
 *     weft run -n 2 weft_device_bench [--json] [--log FILE] [--only PREFIX]
 *
 * On cuda the buffers are GPU memory and the figures are those of the machine. On simt everything
 * is small and in host memory, and the figures are those of the stand-in. The rows are in
 * device_pairs.c and device_together.c, the kernels in kernels.c, the repetition counts in plan.h,
 * the output in report.c. */
#include "device_rows.h"

#include <getopt.h>

#include <weft/gpu.h>

enum { SIMT_THREADS = 64, SIMT_PROCESSORS = 2 };

struct device_bench bench = {.only = ""};

/* --------------------------------------------------------------------------------- set-up */

static void *symmetric(size_t bytes)
{
    void *address;
    CHECK(
        weft_alloc(bench.job, weft_device_kind(bench.job), bytes, 4096, WEFT_ALLOC_ZERO, &address));
    return address;
}

static void set_up(void)
{
    bench.ctx = weft_default_ctx(bench.job);
    bench.world = weft_team_world(bench.job);
    bench.me = weft_my_pe(bench.job);
    bench.n_pes = weft_n_pes(bench.job);
    bench.peer = bench.n_pes > 1 ? bench.me == 0 : 0;
    bench.on_gpu = weft_target_get() == WEFT_CUDA;
    weft_gpu_info gpu = {.size = sizeof gpu};
    bench.processors = SIMT_PROCESSORS;
    if (bench.on_gpu) {
        CHECK(weft_gpu_query(bench.job, &gpu));
        bench.processors = (unsigned)gpu.processors;
    }
    bench.processors = (unsigned)max_over_pes(bench.processors);
    bench.threads = bench.on_gpu ? PLAN_THREADS : SIMT_THREADS;
    size_t largest = bench.on_gpu ? plan_put_bytes[PLAN_COUNT(plan_put_bytes) - 1] : 65536;
    bench.room = bench.processors * largest + 4096;
    if (bench.on_gpu && bench.room < plan_stream_bytes[PLAN_COUNT(plan_stream_bytes) - 1])
        bench.room = plan_stream_bytes[PLAN_COUNT(plan_stream_bytes) - 1];
    bench.src = symmetric(bench.room);
    bench.dst = symmetric(bench.room);
    bench.flag = symmetric(4096);
    bench.chain = symmetric(PLAN_CHAIN_PLACES * PLAN_CHAIN_STEP);
    bench.wrong = symmetric(4096);
    bench.packets =
        symmetric(2 * weft_packet_bytes(plan_packet_bytes[PLAN_COUNT(plan_packet_bytes) - 1]));
    bench.times = symmetric(4096 * sizeof *bench.times);
    CHECK(weft_stream_create(&bench.stream));
    bench.report.target = weft_target_name(weft_target_get());
    bench.report.pes = bench.n_pes;
}

static void measure_all(void)
{
    size_t largest = bench.on_gpu ? (size_t)-1 : 32768;
    ping_rows();
    put_rows_of(0, largest);
    put_to_all_rows();
    misaligned_rows();
    value_and_atomic_rows();
    barrier_rows();
    collective_rows();
    stream_and_host_rows();
}

static void usage(int status)
{
    fprintf(status ? stderr : stdout,
            "usage: weft run -n N weft_device_bench [--json] [--log FILE] [--only PREFIX]\n"
            "  --json         print JSON lines instead of the table\n"
            "  --log FILE     also append JSON lines to FILE\n"
            "  --only PREFIX  only rows whose name starts with PREFIX\n");
    exit(status);
}

static void parse(int argc, char **argv)
{
    static const struct option options[] = {{"json", no_argument, NULL, 'j'},
                                            {"log", required_argument, NULL, 'l'},
                                            {"only", required_argument, NULL, 'o'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    bench.report.side = "weft";
    for (int c; (c = getopt_long(argc, argv, "jl:o:h", options, NULL)) != -1;) {
        if (c == 'j')
            bench.report.json = 1;
        else if (c == 'l')
            bench.report.log = optarg;
        else if (c == 'o')
            bench.only = optarg;
        else
            usage(c == 'h' ? 0 : 2);
    }
    if (optind < argc)
        usage(2);
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    double start = now_ns();
    CHECK(weft_init(&bench.job, NULL));
    CHECK(weft_device_start(bench.job));
    double init = (now_ns() - start) / 1e9;
    start = now_ns();
    set_up();
    double memory = (now_ns() - start) / 1e9;
    init = max_over_pes(init);
    memory = max_over_pes(memory);
    if (bench.me == 0) {
        report_begin(&bench.report, !bench.on_gpu ? "Figures of the stand-in, not of a GPU."
                                    : bench.n_pes == 1
                                        ? "One PE: figures of a GPU's own memory."
                                        : "GPU memory on both sides; PE 0 acts on PE 1.");
        report_row(&bench.report, "init", "s", &init, 1);
        report_row(&bench.report, "memory", "s", &memory, 1);
    }
    measure_all();
    CHECK(weft_stream_destroy(bench.stream));
    barrier();
    start = now_ns();
    weft_status status = weft_finalize(bench.job);
    bench.job = NULL;
    double finalize = (now_ns() - start) / 1e9;
    if (bench.me == 0)
        report_row(&bench.report, "finalize", "s", &finalize, 1);
    CHECK(status);
    return 0;
}
