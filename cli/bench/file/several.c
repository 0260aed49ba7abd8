/* SPDX-License-Identifier: Apache-2.0 */
/* `weft bench file --folders`: one PE for each folder (disk, GPU), each with its own file. Each
 * point is measured by each PE alone, one after another, and by all PEs at once, which shows how
 * disks, GPUs and CPUs affect each other. PE 0 prints. */
#include "bench/file/file.h"

#include "tool/tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The record of a PE. */
struct part {
    char folder[96], store[96], way[128];
    struct file_row alone, together;
};

struct file_several {
    weft_job *job;
    weft_team *world;
    int me, n;
    struct part *parts; /* symmetric; PE 0 has the records of all PEs */
};

static void folder_of(const struct file_options *options, int pe, char *folder, size_t bytes)
{
    const char *at = options->folders;
    for (; pe > 0; pe--)
        at = strchr(at, ',') + 1;
    snprintf(folder, bytes, "%.*s", (int)strcspn(at, ","), at);
}

int file_several_enter(const struct file_options *options, int pe)
{
    char folder[4096];
    folder_of(options, pe, folder, sizeof folder);
    if (chdir(folder) == 0)
        return 0;
    fprintf(stderr, "weft bench: --folders: %s: %s\n", folder, strerror(errno));
    return -1;
}

/* --------------------------------------------------------------------------- records of the PEs */

static weft_status send_record(struct file_several *several)
{
    struct part *own = &several->parts[several->me];
    weft_ctx *ctx = weft_default_ctx(several->job);
    weft_status status = several->me ? weft_put(ctx, own, own, sizeof *own, 0) : WEFT_OK;
    return status ? status : weft_barrier(several->world);
}

static void print_several_head(const struct file_several *several,
                               const struct file_options *options)
{
    printf("%s; GB/s; memory: %s; %d PEs at once\n", options->write ? "write" : "read",
           options->gpu ? "gpu" : "host", several->n);
    for (int pe = 0; pe < several->n; pe++)
        printf("PE %d, %s: %s; weft by %s\n", pe, several->parts[pe].folder,
               several->parts[pe].store, several->parts[pe].way);
    printf("%9s %6s %8s %4s", "block", "depth", "threads", "PE");
    for (int m = 0; m < FILE_METHODS; m++)
        printf(" %9s %9s", file_method_name(m), "at once");
    putchar('\n');
}

weft_status file_several_open(const struct file_options *options, weft_job *job,
                              const weft_file_info *info, struct file_several **result)
{
    struct file_several *several = calloc(1, sizeof *several);
    void *parts;
    *result = several;
    if (!several)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory");
    *several = (struct file_several){
        .job = job, .world = weft_team_world(job), .me = weft_my_pe(job), .n = weft_n_pes(job)};
    weft_status status = weft_alloc(job, WEFT_HOST, (size_t)several->n * sizeof(struct part), 0,
                                    WEFT_ALLOC_ZERO, &parts);
    if (status)
        return status;
    several->parts = parts;
    struct part *own = &several->parts[several->me];
    folder_of(options, several->me, own->folder, sizeof own->folder);
    snprintf(own->store, sizeof own->store, "%.31s on %.60s", info->file_system, info->store);
    snprintf(own->way, sizeof own->way, "%.40s%s%.60s", info->backend, options->gpu ? ", " : "",
             options->gpu ? info->gpu_backend : "");
    status = send_record(several);
    if (!status && several->me == 0 && !options->json)
        print_several_head(several, options);
    return status;
}

void file_several_close(struct file_several *several)
{
    if (!several)
        return;
    if (several->parts)
        weft_free(several->job, several->parts);
    free(several);
}

/* -------------------------------------------------------------------------------------- a point */

/* The total rate of all PEs: the sum when each ran alone; at once, n times the slowest, since
 * all PEs move as many bytes. */
static struct file_row sum_of_pes(const struct file_several *several, bool together)
{
    struct file_row sum;
    for (int m = 0; m < FILE_METHODS; m++) {
        double all = 0, least = 0;
        for (int pe = 0; pe < several->n && all >= 0; pe++) {
            const struct part *part = &several->parts[pe];
            double gbps = together ? part->together.gbps[m] : part->alone.gbps[m];
            least = pe == 0 || gbps < least ? gbps : least;
            all = gbps < 0 ? -1 : all + gbps;
        }
        sum.gbps[m] = all < 0 ? -1 : together ? least * several->n : all;
    }
    return sum;
}

static void print_part(const struct file_point *point, const char *who,
                       const struct file_row *alone, const struct file_row *together)
{
    printf("%8zuK %6u %8u %4s", point->block >> 10, point->depth, point->threads, who);
    for (int m = 0; m < FILE_METHODS; m++) {
        alone->gbps[m] < 0 ? printf(" %9s", "-") : printf(" %9.2f", alone->gbps[m]);
        together->gbps[m] < 0 ? printf(" %9s", "-") : printf(" %9.2f", together->gbps[m]);
    }
    putchar('\n');
    fflush(stdout);
}

/* pe -1: all PEs. */
static void print_several_json(const struct file_several *several, const struct file_point *point,
                               int pe, const struct file_row *row, bool together)
{
    json_t *object = file_row_json(point, row);
    json_object_set_new(object, "pes", json_integer(several->n));
    json_object_set_new(object, "pe", pe < 0 ? json_null() : json_integer(pe));
    json_object_set_new(object, "folder",
                        pe < 0 ? json_null() : json_string(several->parts[pe].folder));
    json_object_set_new(object, "at_once", json_boolean(together));
    file_json_print(object);
}

static void print_point(const struct file_several *several, const struct file_options *options,
                        const struct file_point *point)
{
    for (int pe = 0; pe <= several->n; pe++) {
        char who[16] = "all";
        bool all = pe == several->n;
        struct file_row alone = all ? sum_of_pes(several, false) : several->parts[pe].alone,
                        together = all ? sum_of_pes(several, true) : several->parts[pe].together;
        if (!all)
            snprintf(who, sizeof who, "%d", pe);
        if (!options->json) {
            print_part(point, who, &alone, &together);
            continue;
        }
        print_several_json(several, point, all ? -1 : pe, &alone, false);
        print_several_json(several, point, all ? -1 : pe, &together, true);
    }
}

weft_status file_several_point(struct file_several *several, const struct file_options *options,
                               const struct file_point *point, char (*why)[256])
{
    struct part *own = &several->parts[several->me];
    weft_status status = WEFT_OK;
    for (int turn = 0; turn < several->n && !status; turn++) {
        if (turn == several->me)
            file_measure(options, point, NULL, &own->alone, why);
        status = weft_barrier(several->world);
    }
    if (status)
        return status;
    file_measure(options, point, several->world, &own->together, why);
    status = send_record(several);
    if (!status && several->me == 0)
        print_point(several, options, point);
    return status ? status : weft_barrier(several->world);
}
