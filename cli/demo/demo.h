/* SPDX-License-Identifier: Apache-2.0 */
/* `weft demo`: demo.c (options, starting the job, the acts in their order), links.c (the
 * machine's GPUs, before the job), paths.c (proving and measuring host memory), gpu.c
 * (GPU memory, and kernels), picture.c and kernels.c (the picture that is mended),
 * tell.c (what is said). The acts fill `demo`. */
#ifndef WEFT_CLI_DEMO_H
#define WEFT_CLI_DEMO_H

#include "bench/bench.h"
#include "image.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* One pair of PEs, as PE 0 knows it after demo_measure(). */
struct demo_pair {
    int from, to;
    char path[16];
    double latency_us;            /* 8 bytes, one way: half of a round trip */
    double put_gbps, memcpy_gbps; /* of 1 MiB; memcpy: in the memory of `from` alone */
    bool right;                   /* what was sent arrived */
};

/* One mending of the picture by this many PEs. */
struct demo_run {
    int pes;
    double seconds; /* the steps of all colours */
    bool identical; /* to the serial result, byte for byte */
};

/* One pair of PEs, on GPU memory; 0: not measured. */
struct demo_gpu_pair {
    int from, to;
    double host_us, host_gbps; /* a put by the host until it is complete, of 8 bytes and 16 MiB */
    double kernel_us, kernel_gbps; /* 8 bytes one way between two kernels; puts by 16 blocks */
    bool right;
};

/* Steps of the solver taken by kernels. */
struct demo_kernel_run {
    bool ran, identical; /* to the serial result, byte for byte */
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
    char unproven[320]; /* of a path whose proof failed: which, and why */
    struct demo_pair pairs[DEMO_PAIRS_MAX];
    int n_pairs, possible_pairs;

    json_t *links;     /* of demo_links(); NULL unless `json` */
    int gpus;          /* that can be used, of this machine */
    bool cuda;         /* kernels run on GPUs, else on CPU threads */
    bool kernels;      /* kernels are shown */
    char gpu_why[320]; /* why GPUs are not used although they are there */
    int gpu_of[DEMO_PES_MAX];
    struct demo_gpu_pair gpu_pairs[DEMO_PAIRS_MAX];
    int n_gpu_pairs;
    struct demo_kernel_run picture_by_kernels, plate_by_kernels;
    size_t plate_edge;

    struct image before; /* at every PE */
    uint64_t missing;    /* pixels taken out */
    uint64_t steps, channel_steps[3];
    double serial_seconds;
    double error; /* mean difference of a mended sample from the original, of 255 */
    struct demo_run runs[DEMO_RUNS_MAX];
    int n_runs;
    char before_png[4096], after_png[4096];
};

/* paths.c. Collective; the results are at PE 0. */
weft_status demo_prove(struct demo *demo);
weft_status demo_measure(struct demo *demo);

/* gpu.c. Collective. Leaves demo->gpus 0, or a reason, where GPUs cannot be used. */
weft_status demo_gpu(struct demo *demo);

/* picture.c. Collective; the results and the files are PE 0's. */
weft_status demo_picture(struct demo *demo);

/* One colour of the picture as the solvers take it. */
struct demo_plane {
    float *values;        /* the missing ones begin as the mean of the others */
    unsigned char *fixed; /* 1 where the value is known */
};
weft_status demo_plane_make(const struct image *image, unsigned channel, struct demo_plane *plane);
void demo_plane_free(struct demo_plane *plane);

/* kernels.c. Collective; the comparison is PE 0's. */
weft_status demo_kernels_picture(struct demo *demo);
weft_status demo_kernels_plate(struct demo *demo);

/* links.c. Examines this machine's GPUs in a child process. Keys: cpu, gpus, pairs and, when
 * none can be used, unusable with the reason. Never NULL. */
json_t *demo_links(void);
int demo_links_gpus(const json_t *links);  /* that can be used */
bool demo_links_good(const json_t *links); /* no proof failed */
void demo_links_tell(const json_t *links);

/* tell.c. */
void demo_tell_machine(const json_t *links, int cpus);
void demo_tell_paths(const struct demo *demo);
void demo_tell_gpu(const struct demo *demo);
void demo_tell_picture(const struct demo *demo);
void demo_tell_summary(const struct demo *demo, int cpus, const char *weft);
void demo_json(const struct demo *demo, int cpus);
bool demo_good(const struct demo *demo);
/* Two PEs have the same GPU. Where it is known: after demo_gpu(). */
bool demo_shares_gpu(const struct demo *demo);

#endif
