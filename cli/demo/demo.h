/* SPDX-License-Identifier: Apache-2.0 */
/* `weft demo`: demo.c (options, starting the job, the order of the steps), links.c (the
 * GPUs of the machine, before the job), paths.c (path test and measurement of host memory),
 * gpu.c (GPU memory and kernels), picture.c and kernels.c (restoring the image),
 * output.c (output). The steps fill `struct demo`. */
#ifndef WEFT_CLI_DEMO_H
#define WEFT_CLI_DEMO_H

#include "bench/bench.h"
#include "image.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* A pair of PEs, at PE 0 after demo_measure(). */
struct demo_pair {
    int from, to;
    char path[16];
    double latency_us;            /* 8 bytes one way: half a round trip */
    double put_gbps, memcpy_gbps; /* for 1 MiB; memcpy within the memory of `from` */
    bool right;                   /* the data arrived unchanged */
};

/* Restoring the image with this many PEs. */
struct demo_run {
    int pes;
    double seconds; /* time of the steps of all colours */
    bool identical; /* equal to the serial result, byte for byte */
};

/* A pair of PEs on GPU memory; 0: not measured. */
struct demo_gpu_pair {
    int from, to;
    double host_us, host_gbps;     /* put by the host until complete, of 8 bytes and of 16 MiB */
    double kernel_us, kernel_gbps; /* 8 bytes one way between two kernels; puts by 16 blocks */
    bool right;
};

/* Solver steps run by kernels. */
struct demo_kernel_run {
    bool ran, identical; /* equal to the serial result, byte for byte */
    uint64_t steps;
    double seconds, serial_seconds;
};

enum { DEMO_PAIRS_MAX = 64, DEMO_RUNS_MAX = 16, DEMO_PES_MAX = 1024 };

struct demo {
    const char *image_file;
    const char *output; /* folder */
    bool json;

    struct bench_options bench_options;
    struct bench bench; /* holds the job */

    bool all_proven;
    char unproven[320]; /* the path that failed its test, and why */
    struct demo_pair pairs[DEMO_PAIRS_MAX];
    int n_pairs, possible_pairs;

    json_t *links;     /* result of demo_links(); NULL unless `json` */
    int gpus;          /* usable GPUs of this machine */
    bool cuda;         /* kernels run on GPUs, else on CPU threads */
    bool kernels;      /* kernels are shown */
    char gpu_why[320]; /* why existing GPUs are not used */
    int gpu_of[DEMO_PES_MAX];
    struct demo_gpu_pair gpu_pairs[DEMO_PAIRS_MAX];
    int n_gpu_pairs;
    struct demo_kernel_run picture_by_kernels, plate_by_kernels;
    size_t plate_edge;

    struct image before; /* the original, at every PE */
    uint64_t missing;    /* pixels removed */
    uint64_t steps, channel_steps[3];
    double serial_seconds;
    double error; /* mean difference of a restored sample from the original, 0 to 255 */
    struct demo_run runs[DEMO_RUNS_MAX];
    int n_runs;
    char before_png[4096], after_png[4096];
};

/* paths.c. Collective; the results are at PE 0. */
weft_status demo_prove(struct demo *demo);
weft_status demo_measure(struct demo *demo);

/* gpu.c. Collective. When GPUs cannot be used, demo->gpus stays 0 or demo->gpu_why has the
 * reason. */
weft_status demo_gpu(struct demo *demo);

/* picture.c. Collective. PE 0 gets the results and writes the files. */
weft_status demo_picture(struct demo *demo);

/* One colour of the image as input of the solvers. */
struct demo_plane {
    float *values;        /* removed values start as the mean of the others */
    unsigned char *fixed; /* 1 where the value is known */
};
weft_status demo_plane_make(const struct image *image, unsigned channel, struct demo_plane *plane);
void demo_plane_free(struct demo_plane *plane);

/* kernels.c. Collective. PE 0 compares the results. */
weft_status demo_kernels_picture(struct demo *demo);
weft_status demo_kernels_plate(struct demo *demo);

/* links.c. Examines the GPUs of this machine in a child process. Keys of the result: cpu,
 * gpus, pairs and, when no GPU can be used, unusable with the reason. Never NULL. */
json_t *demo_links(void);
int demo_links_gpus(const json_t *links);  /* number of usable GPUs */
bool demo_links_good(const json_t *links); /* no path test failed */
void demo_links_print(const json_t *links);

/* output.c. */
void demo_print_machine(const json_t *links, int cpus);
void demo_print_paths(const struct demo *demo);
void demo_print_gpu(const struct demo *demo);
void demo_print_picture(const struct demo *demo);
void demo_print_summary(const struct demo *demo, int cpus, const char *weft);
void demo_json(const struct demo *demo, int cpus);
bool demo_good(const struct demo *demo);
/* Whether two PEs use the same GPU. Valid after demo_gpu(). */
bool demo_shares_gpu(const struct demo *demo);

#endif
