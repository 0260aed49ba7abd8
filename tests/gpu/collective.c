/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives called by the host with GPU memory on one or both sides. */
#include "gpu_test.h"

enum { BLOCK = 1000, MOST = 16 };

static weft_job *job;
static weft_team *world;
static int me, n;

static void run(int32_t *dst, int32_t *src, const char *what)
{
    static int32_t values[MOST * BLOCK], seen[MOST * BLOCK];
    (void)what;
    for (int i = 0; i < n * BLOCK; i++)
        values[i] = me * 100000 + i;
    fill(job, src, values, (size_t)n * BLOCK * 4);
    OK(weft_barrier(world));

    OK(weft_broadcast(world, dst, src, BLOCK * 4, n - 1));
    look(job, seen, dst, BLOCK * 4);
    for (int i = 0; i < BLOCK; i++)
        CHECK(seen[i] == (n - 1) * 100000 + i);
    OK(weft_barrier(world));

    OK(weft_alltoall(world, dst, src, BLOCK * 4));
    look(job, seen, dst, (size_t)n * BLOCK * 4);
    for (int i = 0; i < n * BLOCK; i++)
        CHECK(seen[i] == i / BLOCK * 100000 + me * BLOCK + i % BLOCK);
    OK(weft_barrier(world));

    OK(weft_allgather(world, dst, src, BLOCK * 4));
    look(job, seen, dst, (size_t)n * BLOCK * 4);
    for (int i = 0; i < n * BLOCK; i++)
        CHECK(seen[i] == i / BLOCK * 100000 + i % BLOCK);
    OK(weft_barrier(world));

    OK(weft_collect(world, dst, src, 4u * (unsigned)(me + 1)));
    look(job, seen, dst, (size_t)n * BLOCK * 4);
    for (int pe = 0, at = 0; pe < n; pe++)
        for (int i = 0; i <= pe; i++)
            CHECK(seen[at++] == pe * 100000 + i);
    OK(weft_barrier(world));

    OK(weft_alltoalls(world, dst, src, 2, 3, 4, 10));
    look(job, seen, dst, (size_t)n * 20 * 4);
    for (int i = 0; i < n * 10; i++)
        CHECK(seen[2 * i] == i / 10 * 100000 + me * 30 + i % 10 * 3);
    OK(weft_barrier(world));

    OK(weft_allreduce(world, dst, src, (size_t)n * BLOCK, WEFT_INT32, WEFT_SUM));
    look(job, seen, dst, (size_t)n * BLOCK * 4);
    for (int i = 0; i < n * BLOCK; i++)
        CHECK(seen[i] == n * (n - 1) / 2 * 100000 + n * i);
    OK(weft_barrier(world));
}

int main(void)
{
    OK(weft_init(&job, NULL));
    world = weft_team_world(job);
    me = weft_my_pe(job);
    n = weft_n_pes(job);
    CHECK(n <= MOST);
    size_t bytes = MOST * BLOCK * 4;
    int32_t *gpu_a = gpu_alloc(job, bytes, 0), *gpu_b = gpu_alloc(job, bytes, 0);
    int32_t *host = alloc(job, bytes);
    run(gpu_a, gpu_b, "GPU to GPU");
    run(gpu_a, host, "host to GPU");
    run(host, gpu_b, "GPU to host");
    OK(weft_finalize(job));
    return 0;
}
