/* SPDX-License-Identifier: Apache-2.0 */
/* Measures one-sided operations of two processes by Weft or, compiled with -DOVER_MPI, by MPI-3, on
 * the same buffers. The target waits in a barrier. Prints a line for each measurement: NAME and a
 * number; the unit is at the end of the name. one_sided.sh runs both alternately. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_BYTES = 1 << 20, WARM = 200 };

/* MOST_BYTES each; remote: the target's buffer, as operations name it */
static char *local, *remote;
static int me;

/* -------------------------------------------------------------------------------- two libraries */

#ifdef OVER_MPI
#include <mpi.h>

static MPI_Win window;

static void begin_access(int *argc, char ***argv)
{
    int processes;
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    if (processes != 2)
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Win_allocate(MOST_BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &remote, &window);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
}

static void end_access(void)
{
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    MPI_Finalize();
}

static void meet(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

static void put(int bytes)
{
    MPI_Put(local, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, window);
}

static void get(int bytes)
{
    MPI_Get(local, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, window);
}

static void complete(void)
{
    MPI_Win_flush(1, window);
}

static void add(void)
{
    static uint64_t one = 1, before;
    MPI_Fetch_and_op(&one, &before, MPI_UINT64_T, 1, 0, MPI_SUM, window);
    MPI_Win_flush(1, window);
}

/* Synchronises the window's memory with the process. */
static void sync_window(void)
{
    MPI_Win_sync(window);
}
#else
#include <weft.h>

static weft_job *job;

static void ok(weft_status status)
{
    if (!status)
        return;
    fprintf(stderr, "%s\n", weft_last_error());
    exit(1);
}

static void begin_access(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    ok(weft_init(&job, NULL));
    me = weft_my_pe(job);
    if (weft_n_pes(job) != 2)
        exit(2);
    ok(weft_alloc(job, WEFT_HOST, MOST_BYTES, 0, WEFT_ALLOC_ZERO, (void **)&remote));
}

static void end_access(void)
{
    ok(weft_finalize(job));
}

static void meet(void)
{
    ok(weft_barrier(weft_team_world(job)));
}

static void put(int bytes)
{
    ok(weft_put_nbi(weft_default_ctx(job), remote, local, (size_t)bytes, 1));
}

static void get(int bytes)
{
    ok(weft_get_nbi(weft_default_ctx(job), local, remote, (size_t)bytes, 1));
}

static void complete(void)
{
    ok(weft_quiet(weft_default_ctx(job)));
}

static void add(void)
{
    uint64_t before;
    ok(weft_atomic_fetch_add64(weft_default_ctx(job), (uint64_t *)(void *)remote, 1, &before, 1));
}

static void sync_window(void)
{
}
#endif

/* --------------------------------------------------------------------------------- measurements */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

/* Returns microseconds per operation for `count` operations, completed after every `window` of
 * them. */
static double run(void (*operation)(int bytes), int bytes, int count, int window)
{
    double start = now();
    for (int i = 1; i <= count; i++) {
        operation(bytes);
        if (i % window == 0)
            complete();
    }
    return (now() - start) / count;
}

static void measure(const char *name, void (*operation)(int bytes), int bytes, int count,
                    int window)
{
    meet();
    if (me == 0) {
        run(operation, bytes, count < WARM ? count : WARM, window);
        double us = run(operation, bytes, count, window);
        if (strstr(name, "M/s"))
            printf("%s %.4f\n", name, 1 / us);
        else if (strstr(name, "GB/s"))
            printf("%s %.4f\n", name, bytes / us * 1e-3);
        else
            printf("%s %.3f\n", name, us);
        fflush(stdout);
    }
    meet();
}

static void add_one(int bytes)
{
    (void)bytes;
    add();
}

/* Checks that the last put arrived and that a get returns it. */
static void check(void)
{
    for (int i = 0; i < MOST_BYTES; i++)
        local[i] = (char)(i * 7 + i / 251);
    meet();
    if (me == 0) {
        put(MOST_BYTES);
        complete();
        memset(local, 0, MOST_BYTES);
        get(MOST_BYTES);
        complete();
    }
    meet();
    sync_window();
    for (int i = 0; i < MOST_BYTES; i++)
        if ((me ? remote : local)[i] != (char)(i * 7 + i / 251)) {
            fprintf(stderr, "process %d: byte %d is wrong\n", me, i);
            exit(1);
        }
    meet();
}

int main(int argc, char **argv)
{
    begin_access(&argc, &argv);
    local = calloc(1, MOST_BYTES);
    if (!local)
        return 1;
    check();
    memset(remote, 0, MOST_BYTES);
    measure("put_complete.us", put, 8, 1000, 1);
    measure("get.us", get, 8, 1000, 1);
    measure("fetch_add.us", add_one, 8, 1000, 1);
    measure("put_rate.M/s", put, 8, 20000, 1000);
    measure("get_rate.M/s", get, 8, 20000, 1000);
    measure("put_64K.GB/s", put, 64 << 10, 1008, 16);
    measure("get_64K.GB/s", get, 64 << 10, 1008, 16);
    measure("put_1M.GB/s", put, 1 << 20, 96, 16);
    measure("get_1M.GB/s", get, 1 << 20, 96, 16);
    end_access();
    free(local);
    return 0;
}
