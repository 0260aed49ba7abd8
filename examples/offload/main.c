/* SPDX-License-Identifier: Apache-2.0 */
/* Trains a model whose layers need more memory than allowed: parameters and optimizer state are in
 * a file and pass through a few slots of memory. While kernels compute with one layer, the next one
 * is read and the previous one written.
 *
 *     ./offload --memory 4M model.bin     # 12 layers of 0.8 MB each
 *     ./offload --memory 4M model.bin     # resumes where that stopped
 *     ./offload --in-memory other.bin     # the same, to compare: cmp model.bin other.bin
 *     weft run -n 2 ./offload --memory 4M model.bin   # each PE has half of the layers and samples
 *
 * The result is, bit for bit, that of a run with everything in memory by the same number of PEs.
 * The program prints samples and file bytes per second, and how much of the file's time overlaps
 * with computing.
 *
 * Source of the idea: S. Rajbhandari et al., "ZeRO-Infinity: Breaking the GPU Memory Wall for
 * Extreme Scale Deep Learning", SC 2021. */
#define EXAMPLE "offload"
#include "../arguments.h"
#include "../check.h"
#include "share.h"
#include "store.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include <weft/launch.h>
#include <weft_device.h>

struct options {
    struct model_shape shape; /* batch of all PEs until make_parts(), then of this PE */
    struct store_settings settings;
    uint64_t memory, steps;
};

struct training {
    weft_job *job;
    const struct options *options;
    struct store *store;
    struct model_work *work;
    weft_event start, end;
    uint64_t computed_ns; /* ns while kernels were running */
    double *losses;       /* losses of this PE, then of all PEs */
    uint64_t *moved;      /* bytes read and written by this PE, then by all PEs */
};

static bool is_printing_pe(const struct training *t)
{
    return t->options->shape.me == 0;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ------------------------------------------------------------------------------- a step */

static weft_status compute(struct training *t, uint32_t visit, float *block, uint64_t step)
{
    uint32_t layers = t->options->shape.layers, layer = store_layer(t->store, visit);
    weft_status status = WEFT_OK;
    if (visit == 0)
        status = model_begin(t->work, step);
    if (!status && visit < layers)
        status = model_forward(t->work, layer, block);
    if (!status && visit == layers)
        status = model_compare(t->work);
    if (!status && visit >= layers)
        status = model_backward(t->work, layer, block, step);
    return status;
}

/* Runs the kernels of a visit's layer, and transfers of other layers meanwhile. False: a transfer
 * failed. */
static bool make_visit(struct training *t, uint32_t visit, uint64_t step)
{
    uint64_t ns;
    float *block = store_get_layer(t->store, visit);
    if (!block)
        return false;
    CHECK(t->job, weft_event_record(t->start, NULL));
    CHECK(t->job, compute(t, visit, block, step));
    CHECK(t->job, weft_event_record(t->end, NULL));
    bool begun = store_prefetch(t->store, visit);
    CHECK(t->job, weft_stream_synchronize(NULL));
    CHECK(t->job, weft_event_elapsed(t->start, t->end, &ns));
    t->computed_ns += ns;
    return begun && store_release_layer(t->store, visit);
}

/* Measures the transfers of a step without computing: the second time, when memory and file have
 * been accessed. */
static bool measure_transfers(struct training *t, uint64_t *ns)
{
    for (int round = 0; round < 2; round++) {
        uint64_t start = now_ns();
        for (uint32_t visit = 0; visit < 2 * t->options->shape.layers; visit++)
            if (!store_get_layer(t->store, visit) || !store_prefetch(t->store, visit) ||
                !store_release_layer(t->store, visit))
                return false;
        *ns = now_ns() - start;
    }
    return true;
}

/* Returns the mean loss of all samples, the same bits in every run. Collective. */
static double mean_loss(struct training *t)
{
    uint32_t pes = t->options->shape.pes;
    double sum = 0;
    t->losses[0] = model_loss(t->work);
    CHECK(t->job,
          weft_allgather(weft_team_world(t->job), t->losses + 1, t->losses, sizeof(double)));
    for (uint32_t pe = 0; pe < pes; pe++)
        sum += t->losses[1 + pe];
    return sum / pes;
}

static void print_loss(struct training *t, uint64_t step)
{
    double loss = mean_loss(t);
    if (is_printing_pe(t))
        printf("step %" PRIu64 ": loss %.9g\n", step, loss);
}

static bool train(struct training *t, uint64_t first)
{
    uint64_t steps = t->options->steps;
    for (uint64_t step = first + 1; step <= first + steps; step++) {
        for (uint32_t visit = 0; visit < 2 * t->options->shape.layers; visit++)
            if (!make_visit(t, visit, step))
                return false;
        if (step == first + 1 || step == first + steps || (step - first) % (steps / 5 + 1) == 0)
            print_loss(t, step);
    }
    return true;
}

/* ------------------------------------------------------------------------------- a run */

static void print_setup(const struct training *t, uint64_t first)
{
    const struct model_shape *s = &t->options->shape;
    size_t layer = MODEL_PARTS * model_part_bytes(s), slot = MODEL_PARTS * model_shard_bytes(s);
    char together[80] = "";
    if (s->pes > 1)
        snprintf(together, sizeof together, "; %u PEs, each with its share of every layer", s->pes);
    printf(
        "%u layers of width %u: %.1f MB with the optimizer's state; %u samples a step; kernels on "
        "%s%s\n",
        s->layers, s->width, 1e-6 * (double)layer * s->layers, s->batch * s->pes,
        weft_target_name(weft_target_get()), together);
    printf("in memory%s: %u of the layers, %.1f MB, and %.1f MB of activations%s; file: %s\n",
           s->pes > 1 ? " of each" : "", store_slots(t->store),
           1e-6 * (double)slot * store_slots(t->store), 1e-6 * (double)model_work_bytes(s),
           s->pes > 1 ? " and of a gathered layer" : "", store_file(t->store));
    if (first)
        printf("resumes after step %" PRIu64 "\n", first);
}

/* Sums the figures of all PEs. Collective. */
static void sum_figures(struct training *t, const struct store_figures *from)
{
    struct store_figures to = store_figures(t->store);
    t->moved[0] = to.read_bytes - from->read_bytes;
    t->moved[1] = to.written_bytes - from->written_bytes;
    CHECK(t->job, weft_allreduce(weft_team_world(t->job), t->moved + 2, t->moved, 2, WEFT_UINT64,
                                 WEFT_SUM));
}

static void report(struct training *t, uint64_t took_ns, uint64_t alone_ns,
                   const struct store_figures *from)
{
    const struct options *o = t->options;
    double seconds = 1e-9 * (double)took_ns, steps = (double)o->steps;
    const char *ran = o->shape.pes > 1 ? "kernels and exchanges" : "kernels";
    sum_figures(t, from);
    if (!is_printing_pe(t))
        return;
    double read = (double)t->moved[2], written = (double)t->moved[3];
    printf("%" PRIu64 " steps in %.3f s: %.0f samples/s; %s ran for %.3f s\n", o->steps, seconds,
           steps * o->shape.batch * o->shape.pes / seconds, ran, 1e-9 * (double)t->computed_ns);
    if (read + written == 0)
        return;
    printf("file: %.3f GB read, %.3f GB written, %.2f GB/s\n", 1e-9 * read, 1e-9 * written,
           1e-9 * (read + written) / seconds);
    double idle = took_ns > t->computed_ns ? (double)(took_ns - t->computed_ns) / steps : 0;
    double hidden = 1 - idle / (double)alone_ns;
    printf("its transfers alone take %.2f ms a step; no kernel ran for %.2f ms: %.0f %% of the "
           "transfers overlapped with computing\n",
           1e-6 * (double)alone_ns, 1e-6 * idle, hidden > 0 ? 100 * hidden : 0.0);
}

static void barrier_of_job(const struct training *t)
{
    CHECK(t->job, weft_barrier(weft_team_world(t->job)));
}

/* Returns 0 or the exit status. */
static int run(struct training *t)
{
    uint64_t first, start, alone_ns = 1;
    const struct options *o = t->options;
    t->store = store_open(t->job, &o->shape, &o->settings, &first);
    if (!t->store)
        return 2;
    if (is_printing_pe(t))
        print_setup(t, first);
    barrier_of_job(t);
    bool good = o->settings.in_memory || measure_transfers(t, &alone_ns);
    struct store_figures before = store_figures(t->store);
    barrier_of_job(t);
    start = now_ns();
    good = good && train(t, first);
    if (!good && o->shape.pes > 1)
        weft_abort(t->job, 1); /* otherwise the other PEs would wait for this one */
    if (good) {
        barrier_of_job(t);
        report(t, now_ns() - start, alone_ns, &before);
    }
    good = good && store_finish(t->store, first + o->steps);
    return store_close(t->store) && good ? 0 : 1;
}

/* Computes the memory for layers; false if it is too small for two of them. */
static bool share_memory(struct options *o)
{
    uint64_t layer = MODEL_PARTS * model_shard_bytes(&o->shape), work = model_work_bytes(&o->shape);
    if (o->settings.in_memory || o->memory >= work + 2 * layer) {
        o->settings.memory = o->memory > work ? o->memory - work : 0;
        return true;
    }
    if (o->shape.me == 0)
        fprintf(stderr,
                "offload: --memory %" PRIu64 " is too small: two layers of %" PRIu64
                " bytes and %" PRIu64 " of activations%s need %" PRIu64 " (--memory %" PRIu64
                "K), or less by a smaller --width or --batch\n",
                o->memory, layer, work,
                o->shape.pes > 1 ? " and of a gathered layer, at each PE," : "", work + 2 * layer,
                (work + 2 * layer + 1023) / 1024);
    return false;
}

/* Divides the samples and the memory among the PEs. */
static bool make_parts(struct options *o, uint32_t pes, uint32_t me)
{
    o->shape.pes = pes;
    o->shape.me = me;
    if (o->shape.batch % pes) {
        if (me == 0)
            fprintf(stderr, "offload: --batch %u is no multiple of the %u PEs\n", o->shape.batch,
                    pes);
        return false;
    }
    o->shape.batch /= pes;
    return share_memory(o);
}

/* Computes the host heap size needed by the program for any number of PEs, so that the user need
 * not set it. */
static size_t heap_bytes(const struct options *o)
{
    uint64_t part = model_part_bytes(&o->shape), layers = MODEL_PARTS * part * o->shape.layers;
    uint64_t most = o->settings.in_memory || o->memory > layers ? layers : o->memory;
    return most + model_work_bytes(&o->shape) + 2 * part + o->shape.layers * (4 * 8192) + (6 << 20);
}

/* ------------------------------------------------------------------------------- options */

static int usage(FILE *to)
{
    fputs("usage: offload [option ...] FILE\n"
          "  --memory SIZE   memory for layers and activations at each PE, as in 4M (default 4M)\n"
          "  --in-memory     keep all layers in memory; FILE is read first and written last\n"
          "  --steps N       train for N steps (default 20), starting from FILE\n"
          "  --layers N      (default 12)\n"
          "  --width N       of a layer (default 256)\n"
          "  --batch N       samples a step, of all PEs (default 32)\n"
          "  --seed N        of parameters and samples (default 1)\n"
          "  --one-by-one    wait for each transfer immediately, for comparison\n"
          "  --new           replace FILE by a new model\n",
          to);
    return to == stdout ? 0 : 2;
}

static bool parse_size(const char *text, uint64_t *bytes)
{
    static const char units[] = "KMGT";
    char *end;
    errno = 0;
    *bytes = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    if (text[0] >= '0' && text[0] <= '9' && !errno && !end[unit != NULL] &&
        *bytes << shift >> shift == *bytes) {
        *bytes <<= shift;
        return true;
    }
    return bad_value("memory", text, "a size as 65536, 512K, 4M or 1G");
}

static bool parse_one(int option, const char *text, struct options *o)
{
    struct model_shape *s = &o->shape;
    switch (option) {
    case 'm':
        return parse_size(text, &o->memory);
    case 's':
        return parse_number("steps", text, 1u << 30, &o->steps);
    case 'l':
        return parse_small("layers", text, 100000, &s->layers);
    case 'w':
        return parse_small("width", text, 16384, &s->width);
    case 'b':
        return parse_small("batch", text, 65536, &s->batch);
    case 'S':
        return parse_number("seed", text, UINT32_MAX, &s->seed);
    case 'i':
        return o->settings.in_memory = true;
    case 'o':
        return o->settings.one_by_one = true;
    case 'n':
        return o->settings.create_new = true;
    }
    return false;
}

/* Returns -1 to continue, else the exit status. */
static int parse(int argc, char **argv, struct options *options)
{
    static const struct option known[] = {{"memory", required_argument, NULL, 'm'},
                                          {"steps", required_argument, NULL, 's'},
                                          {"layers", required_argument, NULL, 'l'},
                                          {"width", required_argument, NULL, 'w'},
                                          {"batch", required_argument, NULL, 'b'},
                                          {"seed", required_argument, NULL, 'S'},
                                          {"in-memory", no_argument, NULL, 'i'},
                                          {"one-by-one", no_argument, NULL, 'o'},
                                          {"new", no_argument, NULL, 'n'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
    int option;
    while ((option = getopt_long(argc, argv, "h", known, NULL)) != -1) {
        if (option == 'h')
            return usage(stdout);
        if (option == '?')
            return usage(stderr);
        if (!parse_one(option, optarg, options))
            return 2;
    }
    if (!fits_operands(argc, argv, optind, "a FILE that holds the model"))
        return 2;
    options->settings.path = argv[optind];
    return -1;
}

static void make_figures(struct training *t)
{
    void *losses, *moved;
    size_t pes = t->options->shape.pes;
    CHECK(t->job, weft_alloc(t->job, WEFT_HOST, (1 + pes) * sizeof(double), 0, 0, &losses));
    CHECK(t->job, weft_alloc(t->job, WEFT_HOST, 4 * sizeof(uint64_t), 0, 0, &moved));
    t->losses = losses;
    t->moved = moved;
}

int main(int argc, char **argv)
{
    struct options options = {.shape = {.layers = 12, .width = 256, .batch = 32, .seed = 1},
                              .memory = 4 << 20,
                              .steps = 20};
    int status = parse(argc, argv, &options);
    if (status >= 0)
        return status;
    setlinebuf(stdout);
    struct training t = {.options = &options};
    weft_init_attr attr = {.size = sizeof attr, .heap_bytes = heap_bytes(&options)};
    CHECK(t.job, weft_init(&t.job, &attr));
    if (!make_parts(&options, (uint32_t)weft_n_pes(t.job), (uint32_t)weft_my_pe(t.job))) {
        CHECK(t.job, weft_finalize(t.job));
        return 2;
    }
    make_figures(&t);
    CHECK(t.job, weft_event_create(&t.start));
    CHECK(t.job, weft_event_create(&t.end));
    CHECK(t.job, model_work_create(t.job, &options.shape, &t.work));
    status = run(&t);
    CHECK(t.job, model_work_destroy(t.work));
    CHECK(t.job, weft_event_destroy(t.end));
    CHECK(t.job, weft_event_destroy(t.start));
    CHECK(t.job, weft_free(t.job, t.moved));
    CHECK(t.job, weft_free(t.job, t.losses));
    CHECK(t.job, weft_finalize(t.job));
    return status;
}
