/* SPDX-License-Identifier: Apache-2.0 */
/* Checking mode (WEFT_CHECK=1): members that call a collective on a stream with different arguments
 * get an error that names the PE and the difference, and nothing is stored. `coll_differ CASE`:
 *   agree                              equal arguments: values are right, also after many rounds
 *   bytes type op weights root call    the hosts find it at the call, and the job continues
 *   memory moves factor                the GPUs find it when the streams reach the call; the job
 *                                      fails */
#include "coll_job.h"

#include <stdatomic.h>

enum { COUNT = 1000 };

static void expect(weft_status status, const char *words)
{
    CHECK(!driver.StreamSynchronize(stream));
    status = status ? status : job_check_failed(job);
    printf("PE %d is told: %s: %s\n", me, weft_status_name(status), weft_last_error());
    fflush(stdout);
    CHECK(status == WEFT_ERR_MISMATCH || status == WEFT_ERR_JOB);
    CHECK(strstr(weft_last_error(), words) && strstr(weft_last_error(), "PE 0"));
}

/* Neither the destination nor the bytes around it have changed. */
static void untouched(const char *at)
{
    CHECK(!driver.MemcpyDtoH(seen, (uintptr_t)at, COUNT * 8 + 2 * GUARD));
    for (size_t i = 0; i < COUNT * 8 + 2 * GUARD; i++)
        CHECK(seen[i] == 0xa5);
}

static void by_hosts(const char *name, char *dst)
{
    weft_team *world = weft_team_world(job);
    bool odd = me == 0;
    if (strcmp(name, "bytes") == 0)
        expect(weft_alltoall_on_stream(world, dst, heap_src, odd ? 8 : 16, stream), "16");
    else if (strcmp(name, "type") == 0)
        expect(weft_allreduce_on_stream(world, dst, heap_src, COUNT, odd ? WEFT_FLOAT : WEFT_INT32,
                                        WEFT_SUM, stream),
               "WEFT_FLOAT by WEFT_SUM");
    else if (strcmp(name, "op") == 0)
        expect(weft_allreduce_on_stream(world, dst, heap_src, COUNT, WEFT_DOUBLE,
                                        odd ? WEFT_AVG : WEFT_MAX, stream),
               "WEFT_DOUBLE by WEFT_AVG");
    else if (strcmp(name, "weights") == 0)
        expect(odd ? weft_allreduce_weighted_on_stream(world, dst, heap_src, COUNT, WEFT_FLOAT,
                                                       factor_room, stream)
                   : weft_allreduce_scaled_on_stream(world, dst, heap_src, COUNT, WEFT_FLOAT,
                                                     factor_room, stream),
               "WEFT_FLOAT by a weighted sum");
    else if (strcmp(name, "root") == 0)
        expect(weft_broadcast_on_stream(world, dst, heap_src, 64, odd ? 1 : 0, stream), "root");
    else
        expect(odd ? weft_allgather_on_stream(world, dst, heap_src, 64, stream)
                   : weft_alltoall_on_stream(world, dst, heap_src, 64, stream),
               "allgather");
    untouched(dst - GUARD);
    OK(weft_barrier(world));
}

static _Atomic int *told; /* at PE 0: the number of PEs that got the error */

static void count_told(void)
{
    void *own = NULL;
    OK(weft_alloc(job, WEFT_HOST, sizeof *told, 0, WEFT_ALLOC_ZERO, &own));
    told = weft_ptr(job, own, 0);
    CHECK(told);
}

/* A PE that exits early would make the others report its death instead of the difference, so every
 * PE stays until all have their error. */
static void end_together(void)
{
    atomic_fetch_add(told, 1);
    for (int i = 0; i < 600 && atomic_load(told) < n; i++)
        usleep(100000);
    _exit(0);
}

/* Holds the stream, so that the next operation is queued before the stream continues. */
static void nap(void *unused)
{
    (void)unused;
    usleep(200000);
}

/* Ends the program, because the job has failed. */
static void by_gpus(const char *name, char *dst)
{
    weft_team *world = weft_team_world(job);
    float factor = me == 0 ? 0.25f : 0.5f;
    if (strcmp(name, "memory") == 0) {
        char *to = me == 0 ? own_dst + 256 : dst;
        CHECK(!driver.MemsetD8Async((uintptr_t)own_dst, 0xa5, ROOM, stream));
        expect(weft_allreduce_on_stream(world, to, heap_src, COUNT, WEFT_DOUBLE, WEFT_SUM, stream),
               "symmetric memory at one of");
        untouched(own_dst + 256 - GUARD);
    } else if (strcmp(name, "moves") ==
               0) { /* the factors differ, and the operation queued after it is skipped too */
        to_gpu(factor_room, &factor, sizeof factor);
        CHECK(!driver.LaunchHostFunc(stream, nap, NULL));
        OK(weft_allreduce_scaled_on_stream(world, dst, heap_src, COUNT, WEFT_BFLOAT16, factor_room,
                                           stream));
        expect(weft_allgather_on_stream(world, dst, heap_src, 512, stream), "factor 0.");
    } else {
        to_gpu(factor_room, &factor, sizeof factor);
        expect(weft_allreduce_scaled_on_stream(world, dst, heap_src, COUNT, WEFT_BFLOAT16,
                                               factor_room, stream),
               "factor 0.");
    }
    untouched(dst - GUARD);
    printf("PE %d stored nothing\n", me);
    fflush(stdout);
    end_together();
}

static void agree(void)
{
    float *sources = (float *)(void *)mine, *results = (float *)(void *)seen;
    for (int round = 0; round < 40; round++) {
        size_t count = round % 3 ? 7 + (size_t)round : 30000;
        for (size_t i = 0; i < count; i++)
            sources[i] = (float)(me + round) + (float)i;
        to_gpu(heap_src, mine, count * sizeof *sources);
        OK(weft_sync(weft_team_world(job)));
        OK(weft_allreduce_on_stream(weft_team_world(job), heap_dst, heap_src, count, WEFT_FLOAT,
                                    WEFT_SUM, stream));
        synchronize();
        CHECK(!driver.MemcpyDtoH(seen, (uintptr_t)heap_dst, count * sizeof *results));
        for (size_t i = 0; i < count; i++)
            CHECK(results[i] == (float)(n * (n - 1) / 2 + n * round) + (float)n * (float)i);
    }
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "agree";
    begin();
    CHECK(n > 1);
    char *dst = heap_dst + 256;
    memset(seen, 0xa5, ROOM);
    to_gpu(heap_dst, seen, ROOM / 2);
    OK(weft_allreduce_on_stream(weft_team_world(job), heap_src, heap_src, 4, WEFT_FLOAT, WEFT_SUM,
                                stream)); /* sets up the team */
    synchronize();
    count_told();
    OK(weft_barrier(weft_team_world(job)));
    if (strcmp(name, "agree") == 0)
        agree();
    else if (strcmp(name, "memory") == 0 || strcmp(name, "factor") == 0 ||
             strcmp(name, "moves") == 0)
        by_gpus(name, dst);
    else
        by_hosts(name, dst);
    OK(weft_barrier(weft_team_world(job)));
    CHECK(!driver.StreamDestroy(stream));
    OK(weft_finalize(job));
    free(mine);
    free(wanted);
    free(seen);
    return 0;
}
