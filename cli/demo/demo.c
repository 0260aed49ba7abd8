/* SPDX-License-Identifier: Apache-2.0 */
/* `weft demo`: shows a new user on this machine what Weft does. It examines the GPUs, then
 * starts a job of itself in which the PEs test their paths, measure them, on GPUs if there are
 * any, and restore an image together. PE 0 prints the results. */
#include "demo/demo.h"
#include "own_path.h"
#include "parse.h"

#include "commands.h"

#include <argp.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weft/launch.h>

enum { KEY_IMAGE = 256, KEY_IN_JOB, KEY_GPUS, KEY_LINKS };
enum { PES_BY_ITSELF = 4, PES_ON_GPUS = 8, PES_PER_CPU = 4, MOST_PES = DEMO_PES_MAX };

struct demo_options {
    const char *image, *output;
    int pes;
    bool json;
    int gpus;           /* in a PE: number of GPUs that the launching process found */
    const char *links;  /* in a PE, with json: the result of demo_links() in the launching process,
                           as JSON */
    const char *called; /* in a PE of the job: argv[0] of the command that started it; else NULL */
};

static const struct argp_option demo_option_list[] = {
    {"image", KEY_IMAGE, "FILE", 0, "PNG image to restore (weave.png of the installation)", 0},
    {"pes", 'n', "N", 0,
     "PEs of the job (one per GPU, 2 to 8; without GPUs one per CPU, at most 4)", 0},
    {"output", 'o', "DIR", 0, "folder for the images, created if missing (weft-demo)", 0},
    {"json", 'j', NULL, 0, "print a JSON object instead of text", 0},
    {"in-job", KEY_IN_JOB, "NAME", OPTION_HIDDEN, "be a PE of the job that NAME demo started", 0},
    {"gpus", KEY_GPUS, "N", OPTION_HIDDEN, "GPUs that can be used", 0},
    {"links", KEY_LINKS, "JSON", OPTION_HIDDEN, "how they are joined", 0},
    {0},
};

static int usable_cpus(void)
{
    cpu_set_t allowed;
    return sched_getaffinity(0, sizeof allowed, &allowed) ? 1 : CPU_COUNT(&allowed);
}

static error_t parse_demo(int key, char *argument, struct argp_state *state)
{
    struct demo_options *options = state->input;
    char *end;
    switch (key) {
    case KEY_IMAGE:
        options->image = argument;
        return 0;
    case 'n':
        options->pes = (int)strtol(argument, &end, 10);
        if (!*argument || *end || options->pes < 2 || options->pes > MOST_PES)
            argp_error(state, "--pes %s: expected a whole number from 2 to %d", argument, MOST_PES);
        else if (options->pes > PES_PER_CPU * usable_cpus())
            argp_error(
                state,
                "--pes %s: at most %d here, %d for each CPU; more would keep this machine busy "
                "for minutes",
                argument, PES_PER_CPU * usable_cpus(), PES_PER_CPU);
        return 0;
    case 'o':
        options->output = argument;
        return 0;
    case 'j':
        options->json = true;
        return 0;
    case KEY_GPUS:
        options->gpus = atoi(argument);
        return 0;
    case KEY_LINKS:
        options->links = argument;
        return 0;
    case KEY_IN_JOB:
        options->called = argument;
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

/* ------------------------------------------------------------------------------ a PE of the job */

/* Ends the job, since the other PEs would wait for the PE that failed. */
static int demo_give_up(const struct demo *demo)
{
    fprintf(stderr, "weft demo: PE %d: %s\n", demo->bench.job ? demo->bench.me : -1,
            weft_last_error());
    if (demo->bench.job)
        weft_abort(demo->bench.job, EXIT_FAULT);
    return EXIT_FAULT;
}

static int run_pe(const struct demo_options *options)
{
    static struct demo demo;
    int cpus = usable_cpus(); /* before bench_prepare() binds this PE to one CPU */
    demo.image_file = options->image;
    demo.output = options->output;
    demo.gpus = options->gpus;
    demo.cuda = options->gpus > 0 && weft_target_get() == WEFT_CUDA;
    demo.links = options->links ? json_loads(options->links, 0, NULL) : NULL;
    demo.bench_options =
        (struct bench_options){.from = 0, .to = 1, .repetitions = 5, .verify = true, .bind = true};
    /* The job needs the target of the kernels; the steps on host memory use the host. */
    demo.bench_options.target = demo.cuda ? TARGET_CUDA : TARGET_HOST;
    weft_status status = bench_open(&demo.bench, &demo.bench_options);
    demo.bench_options.target = TARGET_HOST;
    if (status || bench_prepare(&demo.bench))
        return demo_give_up(&demo);
    bool prints = demo.bench.me == 0 && !options->json;

    if (demo_prove(&demo) || demo_measure(&demo))
        return demo_give_up(&demo);
    if (prints)
        demo_print_paths(&demo);
    if (demo_gpu(&demo))
        return demo_give_up(&demo);
    if (prints)
        demo_print_gpu(&demo);
    if (demo_picture(&demo))
        return demo_give_up(&demo);
    if (prints) {
        demo_print_picture(&demo);
        demo_print_summary(&demo, cpus, options->called);
    } else if (demo.bench.me == 0) {
        demo_json(&demo, cpus);
    }
    double good = demo.bench.me == 0 ? demo_good(&demo) : 1;
    if (bench_combine(&demo.bench, WEFT_MIN, &good) || bench_close(&demo.bench))
        return demo_give_up(&demo);
    return good != 0 ? EXIT_GOOD : EXIT_FAULT;
}

/* ---------------------------------------------------------------------------- starting the job */

/* Finds weave.png next to the installed command, or in the source tree of a build. */
static const char *find_default_image(const char *self)
{
    static const char *const places[] = {"../share/weft/weave.png",
                                         "../../examples/data/weave.png"};
    static char path[8192];
    int folder = (int)(strrchr(self, '/') - self);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(path, sizeof path, "%.*s/%s", folder, self, places[i]);
        char *shorter = realpath(path, NULL);
        if (!shorter)
            continue;
        snprintf(path, sizeof path, "%s", shorter);
        free(shorter);
        return path;
    }
    return NULL;
}

/* Checks the options before a job is started. */
static bool can_begin(struct demo_options *options, const char *self)
{
    struct image image;
    if (!options->image)
        options->image = find_default_image(self);
    if (!options->image) {
        fprintf(stderr,
                "weft demo: no weave.png in ../share/weft or ../../examples/data relative to %s; "
                "name an image with --image\n",
                self);
        return false;
    }
    if (image_read(options->image, &image)) {
        fprintf(stderr, "weft demo: %s\n", weft_last_error());
        return false;
    }
    image_free(&image);
    if (mkdir(options->output, 0777) && errno != EEXIST) {
        fprintf(stderr, "weft demo: creating the folder %s: %s; choose another with --output\n",
                options->output, strerror(errno));
        return false;
    }
    if (access(options->output, W_OK | X_OK)) {
        fprintf(stderr, "weft demo: writing to %s: %s; choose another folder with --output\n",
                options->output, strerror(errno));
        return false;
    }
    return true;
}

/* One PE per GPU; without GPUs one PE per CPU, up to a limit. */
static int pes_for(int gpus)
{
    int cpus = usable_cpus();
    int most = gpus ? PES_ON_GPUS : PES_BY_ITSELF, wanted = gpus ? gpus : cpus;
    return wanted < 2 ? 2 : wanted > most ? most : wanted;
}

/* Runs `weft run -n N weft demo --in-job ...`. */
static int run_demo_job(const struct demo_options *options, const char *self, const char *links)
{
    char pes[16], gpus[16];
    char *args[24] = {"weft run",   "-n",
                      pes,          "--bind=none",
                      (char *)self, "demo",
                      "--in-job",   program_invocation_name,
                      "--gpus",     gpus,
                      "--image",    (char *)options->image,
                      "--output",   (char *)options->output};
    int n = 14;
    snprintf(pes, sizeof pes, "%d", options->pes);
    snprintf(gpus, sizeof gpus, "%d", options->gpus);
    if (options->json) {
        args[n++] = "--json";
        args[n++] = "--links";
        args[n++] = (char *)links;
    }
    return cmd_run(n, args);
}

static int start_demo_job(struct demo_options *options)
{
    static char self[PATH_MAX];
    if (!cli_own_path(self) || !can_begin(options, self))
        return EXIT_FAULT;
    json_t *links = demo_links();
    options->gpus = demo_links_gpus(links);
    if (!options->pes)
        options->pes = pes_for(options->gpus);
    if (!options->json) {
        demo_print_machine(links, usable_cpus());
        demo_links_print(links);
        fflush(stdout);
    }
    char *text = json_dumps(links, JSON_COMPACT | JSON_REAL_PRECISION(9));
    bool good = demo_links_good(links);
    json_decref(links);
    if (!text) {
        fprintf(stderr, "weft demo: no memory for the results about the GPUs\n");
        return EXIT_FAULT;
    }
    int status = run_demo_job(options, self, text);
    free(text);
    return status == EXIT_GOOD && !good ? EXIT_FAULT : status;
}

int cmd_demo(int argc, char **argv)
{
    static const struct argp argp = {
        .options = demo_option_list,
        .parser = parse_demo,
        .doc = "Show on this machine what Weft does: start a job, test that its PEs reach each "
               "other's memory, compare its speed with memcpy, and restore an image together, on "
               "GPUs if there are any. Exit status 1 when any result was wrong."};
    struct demo_options options = {.output = "weft-demo"};
    cli_parse(&argp, argc, argv, 0, &options);
    return options.called ? run_pe(&options) : start_demo_job(&options);
}
