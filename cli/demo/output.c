/* SPDX-License-Identifier: Apache-2.0 */
/* The output of the demo: text, or a JSON object. */
#include "demo/demo.h"

#include <unistd.h>

static const char *plural_s(int n)
{
    return n == 1 ? "" : "s";
}

void demo_print_machine(const json_t *links, int cpus)
{
    double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    const json_t *gpus = json_object_get(links, "gpus"), *first = json_array_get(gpus, 0);
    printf("Weft %s on this machine: %s, %d CPU%s, %.0f GiB of memory", weft_version(),
           json_string_value(json_object_get(links, "cpu")), cpus, plural_s(cpus),
           memory / (1 << 30));
    if (demo_links_gpus(links))
        printf(", %d GPU%s (%s).\n", demo_links_gpus(links), plural_s(demo_links_gpus(links)),
               json_string_value(json_object_get(first, "name")));
    else
        printf(", no GPU that can be used (%s).\n",
               json_string_value(json_object_get(links, "unusable")));
}

void demo_print_paths(const struct demo *demo)
{
    const struct bench_floors *floors = &demo->bench.floors;
    printf("\n"
           "%d PEs, each a process whose memory the other PEs read and write.\n",
           demo->bench.n);
    if (demo->all_proven)
        printf("Tested: over all %d paths, data, flags and atomics arrived unchanged and in "
               "order.\n",
               demo->bench.n * demo->bench.n);
    else
        printf("Test FAILED: %s\n", *demo->unproven ? demo->unproven : "see the PEs' messages");
    printf("\n    from  to  path   8 B, one way      1 MiB, put    same by memcpy\n");
    for (int i = 0; i < demo->n_pairs; i++) {
        const struct demo_pair *pair = &demo->pairs[i];
        printf("    %4d %3d  %-6s %12s %10.1f GB/s %12.1f GB/s%s\n", pair->from, pair->to,
               pair->path, bench_us_text(pair->latency_us).text, pair->put_gbps, pair->memcpy_gbps,
               pair->right ? "" : "  WRONG DATA");
    }
    if (demo->n_pairs < demo->possible_pairs)
        printf("    (those of PE 0; there are %d)\n", demo->possible_pairs);
    printf("    Without a library, a cache line that two CPUs write in turn needs %s one way.\n",
           bench_us_text(floors->two_lines_ns / 1e3).text);
}

/* "7.00 us", "389 GB/s"; "-" when it was not measured. */
static struct bench_text rate_text(double gbps)
{
    struct bench_text text = {"-"};
    if (gbps > 0)
        snprintf(text.text, sizeof text.text, "%.16s GB/s", bench_number_text(gbps).text);
    return text;
}

static struct bench_text time_text(double us)
{
    return bench_us_text(us > 0 ? us : -1);
}

bool demo_shares_gpu(const struct demo *demo)
{
    for (int i = 0; i < demo->bench.n; i++)
        for (int k = i + 1; k < demo->bench.n; k++)
            if (demo->gpu_of[i] == demo->gpu_of[k])
                return true;
    return false;
}

static void print_gpu_pairs(const struct demo *demo)
{
    printf("\n"
           "The same between GPU memories: puts called by the host, and puts called by kernels.\n\n"
           "    from  to  GPUs    host, 8 B   16 MiB, put   kernel, 8 B   16 blocks\n");
    for (int i = 0; i < demo->n_gpu_pairs; i++) {
        const struct demo_gpu_pair *pair = &demo->gpu_pairs[i];
        printf("    %4d %3d  %d, %-3d %10s %13s %13s %11s%s\n", pair->from, pair->to,
               demo->gpu_of[pair->from], demo->gpu_of[pair->to], time_text(pair->host_us).text,
               rate_text(pair->host_gbps).text, time_text(pair->kernel_us).text,
               rate_text(pair->kernel_gbps).text, pair->right ? "" : "  WRONG DATA");
    }
    if (!demo->kernels)
        printf(
            "    (no kernels: this command was built without CUDA code, or WEFT_TARGET is simt)\n");
    if (demo_shares_gpu(demo))
        printf("    (PEs share a GPU, on which the kernels of two processes take turns)\n");
}

void demo_print_gpu(const struct demo *demo)
{
    bool right = demo->n_gpu_pairs > 0;
    for (int i = 0; i < demo->n_gpu_pairs; i++)
        right &= demo->gpu_pairs[i].right;
    if (*demo->gpu_why)
        printf("\nNOT shown on GPUs: %s\n", demo->gpu_why);
    if (demo->gpus && demo->n_gpu_pairs)
        print_gpu_pairs(demo);
    else if (demo->n_gpu_pairs)
        printf("\n"
               "The GPU code ran here on CPU threads: kernels put and signalled between all PEs, "
               "and their\n"
               "data %s. The speed here says nothing about a GPU.\n",
               right ? "arrived unchanged" : "was WRONG");
    fflush(stdout);
}

static void print_kernel_runs(const struct demo *demo)
{
    const struct demo_kernel_run *picture = &demo->picture_by_kernels;
    const struct demo_kernel_run *plate = &demo->plate_by_kernels;
    const char *result = picture->identical ? "the same, byte for byte" : "DIFFERENT";
    if (picture->ran && !demo->cuda)
        printf("    kernels, on CPU threads, the first %llu steps:  %s\n",
               (unsigned long long)picture->steps, result);
    else if (picture->ran)
        printf("    kernels, on the GPUs, %llu steps in %s (no job, no GPU: %s):  %s\n",
               (unsigned long long)picture->steps, bench_us_text(picture->seconds * 1e6).text,
               bench_us_text(picture->serial_seconds * 1e6).text, result);
    if (plate->ran)
        printf("    ... and %llu steps of a plate of %zu x %zu in %s (%s):  %s\n",
               (unsigned long long)plate->steps, demo->plate_edge, demo->plate_edge,
               bench_us_text(plate->seconds * 1e6).text,
               bench_us_text(plate->serial_seconds * 1e6).text,
               plate->identical ? "the same, byte for byte" : "DIFFERENT");
}

void demo_print_picture(const struct demo *demo)
{
    const struct image *image = &demo->before;
    printf("\n"
           "All PEs restore an image of %u x %u pixels: %.1f %% of its pixels are removed and "
           "refilled\n"
           "by %llu averaging steps.\n"
           "(%s)\n",
           image->width, image->height,
           100.0 * (double)demo->missing / image->width / image->height,
           (unsigned long long)demo->steps, demo->image_file);
    printf("\n    PEs         time   speed-up   result\n");
    printf("    no job %9s                the reference\n",
           bench_us_text(demo->serial_seconds * 1e6).text);
    for (int i = 0; i < demo->n_runs; i++)
        printf("    %-6d %9s %10.2f   %s\n", demo->runs[i].pes,
               bench_us_text(demo->runs[i].seconds * 1e6).text,
               demo->runs[0].seconds / demo->runs[i].seconds,
               demo->runs[i].identical ? "the same, byte for byte" : "DIFFERENT");
    print_kernel_runs(demo);
    printf("    The restored pixels differ from the original by %.1f of 255 on average.\n",
           demo->error);
}

bool demo_good(const struct demo *demo)
{
    bool good = demo->all_proven;
    for (int i = 0; i < demo->n_pairs; i++)
        good &= demo->pairs[i].right;
    for (int i = 0; i < demo->n_runs; i++)
        good &= demo->runs[i].identical;
    for (int i = 0; i < demo->n_gpu_pairs; i++)
        good &= demo->gpu_pairs[i].right;
    good &= !demo->picture_by_kernels.ran || demo->picture_by_kernels.identical;
    good &= !demo->plate_by_kernels.ran || demo->plate_by_kernels.identical;
    good &= !demo->links || demo_links_good(demo->links);
    return good;
}

void demo_print_summary(const struct demo *demo, int cpus, const char *weft)
{
    const struct demo_run *last = &demo->runs[demo->n_runs - 1];
    double put = 0, copy = 0;
    for (int i = 0; i < demo->n_pairs; i++) {
        put += demo->pairs[i].put_gbps;
        copy += demo->pairs[i].memcpy_gbps;
    }
    printf("\nIn short\n");
    printf("  %s\n", demo_good(demo) ? "Every path passed its test and every result was right."
                                     : "SOMETHING WAS WRONG; see the lines above.");
    printf("  Writing to another PE's memory runs at %.0f %% of memcpy's rate here.\n",
           copy > 0 ? 100 * put / copy : 0);
    printf("  %d PEs did the work of one %.2f times as fast", last->pes,
           demo->runs[0].seconds / last->seconds);
    printf(cpus < last->pes ? ", sharing %d CPU%s.\n" : ".\n", cpus, plural_s(cpus));
    printf("  See %s and %s\n", demo->before_png, demo->after_png);
    printf("\n"
           "Next\n"
           "  %s demo --image FILE.png --pes N    your own image\n"
           "  %s bench                            every operation, every size\n"
           "  %s run -n 4 PROGRAM                 a program of your own; README.md has one\n",
           weft, weft, weft);
}

/* null when it was not measured, or is a figure of a stand-in. */
static json_t *json_of_figure(double value)
{
    return value > 0 ? json_real(value) : json_null();
}

static json_t *pairs_as_json(const struct demo *demo)
{
    json_t *list = json_array();
    for (int i = 0; i < demo->n_pairs; i++) {
        const struct demo_pair *pair = &demo->pairs[i];
        json_array_append_new(list, json_pack("{s:i, s:i, s:s, s:f, s:f, s:f, s:b}", "from",
                                              pair->from, "to", pair->to, "path", pair->path,
                                              "latency_us", pair->latency_us, "put_gbytes_per_s",
                                              pair->put_gbps, "memcpy_gbytes_per_s",
                                              pair->memcpy_gbps, "right", pair->right));
    }
    return list;
}

static json_t *runs_as_json(const struct demo *demo)
{
    json_t *list = json_array();
    for (int i = 0; i < demo->n_runs; i++)
        json_array_append_new(list, json_pack("{s:i, s:f, s:b}", "pes", demo->runs[i].pes,
                                              "seconds", demo->runs[i].seconds, "identical",
                                              demo->runs[i].identical));
    return list;
}

static json_t *gpu_pairs_as_json(const struct demo *demo)
{
    json_t *list = json_array();
    for (int i = 0; i < demo->n_gpu_pairs; i++) {
        const struct demo_gpu_pair *pair = &demo->gpu_pairs[i];
        json_array_append_new(
            list,
            json_pack("{s:i, s:i, s:o, s:o, s:o, s:o, s:b}", "from", pair->from, "to", pair->to,
                      "host_us", json_of_figure(pair->host_us), "host_gbytes_per_s",
                      json_of_figure(pair->host_gbps), "kernel_us",
                      json_of_figure(demo->cuda ? pair->kernel_us : 0), "kernel_gbytes_per_s",
                      json_of_figure(demo->cuda ? pair->kernel_gbps : 0), "right", pair->right));
    }
    return list;
}

static json_t *kernel_run_as_json(const struct demo *demo, const struct demo_kernel_run *run)
{
    if (!run->ran)
        return json_null();
    return json_pack("{s:I, s:o, s:f, s:b}", "steps", (json_int_t)run->steps, "seconds",
                     json_of_figure(demo->cuda ? run->seconds : 0), "serial_seconds",
                     run->serial_seconds, "identical", run->identical);
}

/* The results about GPUs, from before the job and from the job. */
static json_t *gpus_as_json(const struct demo *demo)
{
    return json_pack("{s:i, s:O?, s:s, s:o, s:s, s:o, s:o}", "used", demo->gpus, "machine",
                     demo->links, "why_not", demo->gpu_why, "paths", gpu_pairs_as_json(demo),
                     "kernels_on",
                     !demo->kernels ? "nothing"
                     : demo->cuda   ? "cuda"
                                    : "simt",
                     "picture", kernel_run_as_json(demo, &demo->picture_by_kernels), "plate",
                     kernel_run_as_json(demo, &demo->plate_by_kernels));
}

void demo_json(const struct demo *demo, int cpus)
{
    const struct image *image = &demo->before;
    json_t *picture =
        json_pack("{s:s, s:i, s:i, s:i, s:I, s:I, s:f, s:f, s:s, s:s}", "file", demo->image_file,
                  "width", (int)image->width, "height", (int)image->height, "channels",
                  (int)image->channels, "missing", (json_int_t)demo->missing, "steps",
                  (json_int_t)demo->steps, "serial_seconds", demo->serial_seconds, "mean_error",
                  demo->error, "before", demo->before_png, "after", demo->after_png);
    json_t *all =
        json_pack("{s:s, s:i, s:i, s:b, s:o, s:o, s:o, s:o, s:b}", "version", weft_version(),
                  "cpus", cpus, "pes", demo->bench.n, "proven", demo->all_proven, "paths",
                  pairs_as_json(demo), "gpus", gpus_as_json(demo), "picture", picture, "runs",
                  runs_as_json(demo), "good", demo_good(demo));
    json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(all);
}
