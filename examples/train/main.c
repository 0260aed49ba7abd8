/* SPDX-License-Identifier: Apache-2.0 */
/* Trains a small transformer that predicts the next character of a text, on all PEs of a job.
 *
 *     ./train LICENSE                         # one PE
 *     weft run -n 4 ./train LICENSE           # four PEs share the micro-batches of every step
 *     weft run -n 4 ./train --shard --check LICENSE   # each PE updates a part; PE 0 checks alone
 *     weft run -n 2 ./train --save state LICENSE
 *     weft run -n 4 ./train --resume state LICENSE    # resumes with another number of PEs
 *
 * Gradients are added up in buckets while the backward pass computes the next ones. The parameters
 * are, bit for bit, the same for every number of PEs, with and without --shard, for every --bucket,
 * and after --resume: see parallel.h. The bits of a GPU differ from those of a CPU, because their
 * exponential functions differ and GPUs fuse products with sums. */
#define EXAMPLE "train"
#include "../arguments.h"
#include "../check.h"
#include "alone.h"
#include "say.h"
#include "state.h"
#include "text.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include <weft_device.h>

struct options {
    model_shape shape;
    struct parallel_settings settings;
    uint64_t steps;
    uint64_t blocks;
    bool check;
    uint64_t say;
    const char *text, *save, *resume;
};

struct training {
    weft_job *job;
    struct options *options;
    struct text text;
    struct model *model;
    struct parallel *parallel;
    weft_stream compute;
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool is_printing_pe(const struct training *t)
{
    return weft_my_pe(t->job) == 0;
}

/* ------------------------------------------------------------------------------- a run */

static void print_setup(const struct training *t, uint64_t first)
{
    const struct options *o = t->options;
    const model_shape *s = &o->shape;
    int pes = weft_n_pes(t->job);
    printf("%s: %" PRIu64 " characters, %u different ones\n", o->text, t->text.length,
           t->text.vocabulary);
    printf("%u layers of width %u with %u heads, context %u: %zu parameters; %u micro-batches of "
           "%u a step\n",
           s->layers, s->width, s->heads, s->context, model_floats(s), s->micro, s->batch);
    printf("kernels on %s; %d PE%s%s; gradients in %u bucket%s\n",
           weft_target_name(weft_target_get()), pes, pes > 1 ? "s" : "",
           o->settings.shard ? ", each with its share of the optimizer's state" : "",
           parallel_buckets(t->parallel), parallel_buckets(t->parallel) > 1 ? "s" : "");
    if (s->micro % (uint32_t)pes)
        printf("%u micro-batches for %d PEs: %u of them idle in the last round of a step\n",
               s->micro, pes, (uint32_t)pes - s->micro % (uint32_t)pes);
    if (first)
        printf("resumes after step %" PRIu64 " of %s\n", first, o->resume);
}

static void print_loss(struct training *t, uint64_t step)
{
    double loss;
    CHECK(t->job, parallel_finish(t->parallel));
    CHECK(t->job, parallel_loss(t->parallel, &loss));
    if (is_printing_pe(t))
        printf("step %" PRIu64 ": loss %.6f\n", step, loss);
}

static void train(struct training *t, uint64_t first)
{
    uint64_t steps = t->options->steps;
    for (uint64_t step = first + 1; step <= first + steps; step++) {
        CHECK(t->job, parallel_step(t->parallel, step));
        if (step == first + 1 || step == first + steps || (step - first) % (steps / 5 + 1) == 0)
            print_loss(t, step);
    }
}

static double tokens(const struct training *t, double steps)
{
    const model_shape *s = &t->options->shape;
    return steps * s->micro * s->batch * s->context;
}

static void report(const struct training *t, double seconds, uint64_t alone_ns)
{
    const struct options *o = t->options;
    double steps = (double)o->steps;
    printf("%" PRIu64 " steps in %.3f s: %.0f tokens/s\n", o->steps, seconds,
           tokens(t, steps) / seconds);
    if (weft_n_pes(t->job) == 1)
        return;
    uint64_t exchanged_ns, waited_ns;
    parallel_figures(t->parallel, &exchanged_ns, &waited_ns);
    double exchanged = (double)exchanged_ns, waited = (double)waited_ns;
    printf("exchanges took %.2f ms a step, %.2f with nothing else running; the model's kernels "
           "waited %.2f ms for them and for updates: %.0f %% overlapped\n",
           1e-6 * exchanged / steps, 1e-6 * (double)alone_ns, 1e-6 * waited / steps,
           waited < exchanged ? 100 * (1 - waited / exchanged) : 0.0);
}

/* PE 0 repeats the training alone from the first step. Collective. */
static bool compare(struct training *t, uint64_t last, double seconds)
{
    const struct options *o = t->options;
    double alone = 1;
    if (!alone_same(t->job, &o->shape, o->settings.rate, t->model, t->compute, t->parallel, last,
                    &alone))
        return false;
    double together = tokens(t, (double)o->steps) / seconds;
    if (is_printing_pe(t))
        printf("one PE alone: %.0f tokens/s; %d PE%s: %.2f times that\n",
               tokens(t, (double)last) / alone, weft_n_pes(t->job),
               weft_n_pes(t->job) > 1 ? "s" : "", together * alone / tokens(t, (double)last));
    return true;
}

/* Returns the checksum of this PE's parameters. */
static uint32_t checksum(struct training *t)
{
    size_t bytes = model_floats(&t->options->shape) * sizeof(float);
    struct parallel_state state = parallel_place(t->parallel);
    void *values = malloc(bytes);
    if (!values) {
        fprintf(stderr, "train: no memory for %zu bytes\n", bytes);
        weft_abort(t->job, 1);
    }
    CHECK(t->job,
          weft_get(weft_default_ctx(t->job), values, state.values, bytes, weft_my_pe(t->job)));
    uint32_t crc = text_crc32c(values, bytes);
    free(values);
    return crc;
}

/* Checks that all PEs have the same parameters; PE 0 prints the checksum. Collective. */
static bool print_checksum(struct training *t)
{
    bool same = true;
    int pes = weft_n_pes(t->job);
    void *memory;
    CHECK(t->job,
          weft_alloc(t->job, WEFT_HOST, ((size_t)pes + 1) * sizeof(uint32_t), 0, 0, &memory));
    uint32_t *all = memory, *mine = all + pes;
    *mine = checksum(t);
    CHECK(t->job, weft_allgather(weft_team_world(t->job), all, mine, sizeof *mine));
    for (int pe = 1; pe < pes && is_printing_pe(t); pe++)
        if (all[pe] != all[0]) {
            fprintf(stderr,
                    "train: PE %d has other parameters than PE 0: %08" PRIx32 ", not %08" PRIx32
                    "\n",
                    pe, all[pe], all[0]);
            same = false;
        }
    if (same && is_printing_pe(t))
        printf("parameters: CRC-32C %08" PRIx32 "%s\n", all[0], pes > 1 ? ", at every PE" : "");
    CHECK(t->job, weft_free(t->job, memory));
    return same;
}

static struct state_settings settings_of(const struct training *t)
{
    const struct options *o = t->options;
    uint32_t rate;
    memcpy(&rate, &o->settings.rate, sizeof rate);
    return (struct state_settings){.value = {[STATE_MICRO] = o->shape.micro,
                                             [STATE_BATCH] = o->shape.batch,
                                             [STATE_HEADS] = o->shape.heads,
                                             [STATE_SEED] = o->shape.seed,
                                             [STATE_RATE] = rate,
                                             [STATE_TEXT] = t->text.crc32c}};
}

/* Returns the exit status. */
static int run(struct training *t)
{
    const struct options *o = t->options;
    const struct state_settings settings = settings_of(t);
    uint64_t first = 0, alone_ns;
    CHECK(t->job, model_init(t->model, parallel_place(t->parallel).values));
    CHECK(t->job, parallel_load_state(t->parallel));
    if (o->resume && !state_resume(t->job, o->resume, &o->shape, &settings, t->parallel, &first))
        return 2;
    if (is_printing_pe(t))
        print_setup(t, first);
    CHECK(t->job, parallel_alone(t->parallel, &alone_ns));
    uint64_t start = now_ns();
    train(t, first);
    double seconds = 1e-9 * (double)(now_ns() - start);
    if (is_printing_pe(t))
        report(t, seconds, alone_ns);
    bool good = print_checksum(t);
    if (o->say)
        say(t->job, &o->shape, &t->text, t->model, t->compute, parallel_place(t->parallel).values,
            o->say);
    if (o->save)
        good = state_save(t->job, o->save, &o->shape, &settings, t->parallel, first + o->steps) &&
               good;
    if (o->check)
        good = compare(t, first + o->steps, seconds) && good;
    return good ? 0 : 1;
}

/* Continues with the text in memory; returns the exit status. */
static int prepare_and_run(struct training *t)
{
    struct options *o = t->options;
    o->shape.vocabulary = t->text.vocabulary;
    CHECK(t->job, weft_stream_create(&t->compute));
    CHECK(t->job, model_create(t->job, &o->shape, t->text.ids, t->text.length, (unsigned)o->blocks,
                               t->compute, &t->model));
    CHECK(t->job,
          parallel_create(t->job, &o->shape, &o->settings, t->model, t->compute, &t->parallel));
    int status = run(t);
    CHECK(t->job, parallel_destroy(t->parallel));
    CHECK(t->job, model_destroy(t->model));
    CHECK(t->job, weft_stream_destroy(t->compute));
    CHECK(t->job, text_free(t->job, &t->text));
    return status;
}

/* Computes the host heap size. On CPUs everything is in the host heap; the number of different
 * characters is not known yet. */
static size_t heap_bytes(const struct options *o)
{
    model_shape most = o->shape;
    most.vocabulary = 256;
    size_t bytes = 8 << 20;
    if (weft_target_get() == WEFT_SIMT)
        bytes += TEXT_MOST + model_work_bytes(&most) + parallel_bytes(&most, &o->settings) +
                 (o->check ? alone_bytes(&most) : 0);
    return bytes;
}

/* ------------------------------------------------------------------------------- options */

static int usage(FILE *to)
{
    fputs(
        "usage: train [option ...] TEXT\n"
        "  --steps N      train for N steps (default 100)\n"
        "  --micro N      micro-batches of a step, of all PEs (default 4)\n"
        "  --batch N      sequences of a micro-batch (default 1)\n"
        "  --context N    characters of a sequence (default 64)\n"
        "  --layers N     (default 2)\n"
        "  --width N      (default 64)\n"
        "  --heads N      (default 4)\n"
        "  --rate X       learning rate, after a warm-up of 10 steps (default 0.003)\n"
        "  --seed N       of parameters and samples (default 1)\n"
        "  --bucket SIZE  bytes of gradients that are added up together, as in 256K (default 64K)\n"
        "  --shard        each PE keeps the optimizer's state only for its share of the "
        "parameters\n"
        "  --save FILE    write parameters and the optimizer's state there after the last step\n"
        "  --resume FILE  resume from there, with any number of PEs\n"
        "  --check        PE 0 repeats everything alone and compares bit for bit\n"
        "  --say N        print N characters that the model predicts after the text's first "
        "ones\n"
        "  --blocks N     blocks of a kernel (default: depends on the target)\n",
        to);
    return to == stdout ? 0 : 2;
}

static bool parse_size(const char *text, size_t *bytes)
{
    static const char units[] = "KMG";
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    *bytes = (size_t)value << shift;
    return (text[0] >= '0' && text[0] <= '9' && !errno && !end[unit != NULL] && value >= 1 &&
            *bytes >> shift == value && *bytes <= (size_t)1 << 40) ||
           bad_value("bucket", text, "a size as 4096, 64K, 4M or 1G");
}

static bool parse_rate(const char *text, float *rate)
{
    char *end;
    *rate = strtof(text, &end);
    return (end != text && !*end && *rate > 0 && *rate <= 1) ||
           bad_value("rate", text, "a number above 0, at most 1");
}

static bool parse_one(int option, const char *text, struct options *o)
{
    model_shape *s = &o->shape;
    switch (option) {
    case 's':
        return parse_number("steps", text, 1u << 30, &o->steps);
    case 'm':
        return parse_small("micro", text, 65536, &s->micro);
    case 'b':
        return parse_small("batch", text, 65536, &s->batch);
    case 'c':
        return parse_small("context", text, 65536, &s->context);
    case 'l':
        return parse_small("layers", text, 1000, &s->layers);
    case 'w':
        return parse_small("width", text, 16384, &s->width);
    case 'H':
        return parse_small("heads", text, 16384, &s->heads);
    case 'r':
        return parse_rate(text, &o->settings.rate);
    case 'S':
        return parse_number("seed", text, UINT32_MAX, &s->seed);
    case 'B':
        return parse_size(text, &o->settings.bucket_bytes);
    case 'k':
        return parse_number("blocks", text, 65535, &o->blocks);
    case 'y':
        return parse_number("say", text, 1u << 30, &o->say);
    case 'd':
        return o->settings.shard = true;
    case 'o':
        return (o->save = text) != NULL;
    case 'i':
        return (o->resume = text) != NULL;
    case 'C':
        return o->check = true;
    }
    return false;
}

/* Checks that the options fit together. */
static bool check_options(const struct options *o)
{
    const model_shape *s = &o->shape;
    char value[16], wanted[80];
    snprintf(value, sizeof value, "%u", s->heads);
    snprintf(wanted, sizeof wanted, "a number that divides --width %u", s->width);
    if (s->width % s->heads)
        return bad_value("heads", value, wanted);
    if ((uint64_t)s->batch * s->context <= 1u << 24)
        return true;
    snprintf(value, sizeof value, "%u", s->batch);
    snprintf(wanted, sizeof wanted, "at most %u with --context %u", (1u << 24) / s->context,
             s->context);
    return bad_value("batch", value, wanted);
}

/* Returns -1 to continue, else the exit status. */
static int parse(int argc, char **argv, struct options *options)
{
    static const struct option known[] = {
        {"steps", required_argument, NULL, 's'},  {"micro", required_argument, NULL, 'm'},
        {"batch", required_argument, NULL, 'b'},  {"context", required_argument, NULL, 'c'},
        {"layers", required_argument, NULL, 'l'}, {"width", required_argument, NULL, 'w'},
        {"heads", required_argument, NULL, 'H'},  {"rate", required_argument, NULL, 'r'},
        {"seed", required_argument, NULL, 'S'},   {"bucket", required_argument, NULL, 'B'},
        {"shard", no_argument, NULL, 'd'},        {"save", required_argument, NULL, 'o'},
        {"resume", required_argument, NULL, 'i'}, {"say", required_argument, NULL, 'y'},
        {"check", no_argument, NULL, 'C'},        {"blocks", required_argument, NULL, 'k'},
        {"help", no_argument, NULL, 'h'},         {0}};
    int option;
    while ((option = getopt_long(argc, argv, "h", known, NULL)) != -1) {
        if (option == 'h')
            return usage(stdout);
        if (option == '?')
            return usage(stderr);
        if (!parse_one(option, optarg, options))
            return 2;
    }
    if (!fits_operands(argc, argv, optind, "a TEXT to learn from, such as LICENSE"))
        return 2;
    options->text = argv[optind];
    return check_options(options) ? -1 : 2;
}

int main(int argc, char **argv)
{
    struct options options = {.shape = {.layers = 2,
                                        .width = 64,
                                        .heads = 4,
                                        .context = 64,
                                        .batch = 1,
                                        .micro = 4,
                                        .seed = 1},
                              .settings = {.bucket_bytes = 64 << 10, .rate = 3e-3f},
                              .steps = 100};
    int status = parse(argc, argv, &options);
    if (status >= 0)
        return status;
    setlinebuf(stdout);
    struct training t = {.options = &options};
    weft_init_attr attr = {.size = sizeof attr, .heap_bytes = heap_bytes(&options)};
    CHECK(t.job, weft_init(&t.job, &attr));
    status = 2;
    if (text_read(t.job, options.text, (uint64_t)options.shape.context + 2, &t.text))
        status = prepare_and_run(&t);
    CHECK(t.job, weft_finalize(t.job));
    return status;
}
