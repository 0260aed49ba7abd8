/* SPDX-License-Identifier: Apache-2.0 */
/* Alltoall of strided elements, on streams and by the host on GPU memory, compared byte by byte
 * including the gaps: elements of every size, strides, addresses and teams, in heap memory and in
 * memory local to this GPU. `coll_strided host`: the host's function. Between PEs without direct
 * access a block takes a few puts and not one for each element. */
#include "coll_job.h"

static bool by_host;

struct form {
    size_t element, n;
    int dst_stride, src_stride;
};

static void one(const struct members *t, struct form f, bool own, size_t off)
{
    static uint64_t salt = 40;
    size_t members = (size_t)t->n, dst_apart = f.element * (size_t)f.dst_stride,
           src_apart = f.element * (size_t)f.src_stride;
    size_t to_bytes = members * f.n * dst_apart, from_bytes = members * f.n * src_apart;
    char *dst = (own ? own_dst : heap_dst) + 256 + off,
         *src = (own ? own_src : heap_src) + 256 + off;
    CHECK(to_bytes + 512 < ROOM && from_bytes + 512 < ROOM);
    salt++;
    ref_fill(mine, me, 0, from_bytes, salt);
    to_gpu(src, mine, from_bytes);
    memset(wanted, 0xa5, to_bytes + 2 * GUARD);
    to_gpu(dst - GUARD, wanted, to_bytes + 2 * GUARD);
    for (size_t k = 0; k < members; k++)
        for (size_t i = 0; i < f.n; i++)
            ref_fill(wanted + GUARD + (k * f.n + i) * dst_apart, t->pes[k],
                     ((size_t)t->me * f.n + i) * src_apart, f.element, salt);
    OK(weft_sync(t->team));
    if (by_host)
        OK(weft_alltoalls(t->team, dst, src, f.dst_stride, f.src_stride, f.element, f.n));
    else
        OK(weft_alltoalls_on_stream(t->team, dst, src, f.dst_stride, f.src_stride, f.element, f.n,
                                    stream));
    synchronize();
    CHECK(!driver.MemcpyDtoH(seen, (uintptr_t)(dst - GUARD), to_bytes + 2 * GUARD));
    for (size_t i = 0; i < to_bytes + 2 * GUARD; i++)
        if (seen[i] != wanted[i]) {
            fprintf(stderr,
                    "PE %d of %d members: %zu elements of %zu bytes, strides %d and %d, %s, off by "
                    "%zu: byte %zu is %#x and not %#x\n",
                    me, t->n, f.n, f.element, f.dst_stride, f.src_stride, own ? "own" : "heap", off,
                    i - GUARD, seen[i], wanted[i]);
            exit(1);
        }
    OK(weft_sync(t->team));
}

/* The driver copies staged data, at least once for each put: 100,000 elements take a few puts. */
static void puts_are_few(void)
{
    enum { ELEMENTS = 100000, MOST_COPIES = ELEMENTS / 100 };
    struct form f = {4, ELEMENTS, 2, 3};
    if (n == 1 || job_gpu_team_direct(teams[0].team))
        return;
    CHECK(gpu_api_fault_plan("MemcpyAsync", 0, 0));
    one(&teams[0], f, false, 4);
    unsigned copies = gpu_api_fault_uses();
    fprintf(stderr, "PE %d: %u copies for %d elements each\n", me, copies, ELEMENTS);
    CHECK(copies > 0 && copies < MOST_COPIES);
}

/* A team that is gone leaves no data in the slots: kernels of the next one would take them for
 * packets. */
static void slots_are_clear(void)
{
    struct members t = teams[0];
    struct form f = {4, 1000, 2, 3};
    const struct coll_areas *areas = &job->gpu->layout.coll;
    if (n == 1 || job_gpu_team_direct(teams[0].team))
        return;
    OK(weft_team_split_strided(weft_team_world(job), 0, 1, n, &t.team));
    const int slot = t.team->slot;
    const size_t bytes = 4 * (size_t)coll_set_bytes(areas, slot);
    const CUdeviceptr sets = (uintptr_t)gpu_coll_sets(job->gpu, slot);
    CHECK(slot < areas->teams);
    one(&t, f, false, 4);
    CHECK(!driver.MemcpyDtoH(seen, sets, bytes));
    size_t filled = 0;
    for (size_t i = 0; i < bytes; i++)
        filled += seen[i] != 0;
    CHECK(filled > 0);
    OK(weft_team_destroy(t.team));
    CHECK(!driver.MemcpyDtoH(seen, sets, bytes));
    for (size_t i = 0; i < bytes; i++)
        CHECK(seen[i] == 0);
}

static void every_form(const struct members *t)
{
    static const size_t elements[] = {1, 2, 3, 4, 8, 12, 16, 24, 100};
    static const size_t counts[] = {1, 5, 33, 700, 9000};
    const size_t most = 60000;
    int turn = 0;
    for (size_t e = 0; e < sizeof elements / sizeof *elements; e++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++, turn++) {
            struct form f = {elements[e], counts[c], 1 + turn % 3, 1 + turn / 2 % 4};
            if (f.element * f.n > 120000 || f.n > most)
                continue;
            one(t, f, false, 0);
            one(t, f, false, turn % 2 ? f.element : 1 + (size_t)turn % 7);
            if (!by_host)
                one(t, f, job_gpu_team_direct(t->team), (size_t)turn % 4);
        }
    struct form large = {8, most, 2, 1};
    one(t, large, false, 0);
}

static void misuse(void)
{
    weft_team *world = weft_team_world(job);
    FAILS(weft_alltoalls_on_stream(world, heap_dst, heap_src, 0, 1, 8, 4, stream),
          WEFT_ERR_ARGUMENT, "strides 0 and 1");
    FAILS(weft_alltoalls_on_stream(world, heap_dst, heap_src, 1, -1, 8, 4, stream),
          WEFT_ERR_ARGUMENT, "strides 1 and -1");
    FAILS(weft_alltoalls_on_stream(world, heap_dst, heap_src, 1, 1, 0, 4, stream),
          WEFT_ERR_ARGUMENT, "element of 0 bytes");
    FAILS(weft_alltoalls_on_stream(world, heap_dst, heap_src, 1, 1, 8, (size_t)1 << 62, stream),
          WEFT_ERR_RANGE, "too many");
    OK(weft_alltoalls_on_stream(world, NULL, NULL, 1, 1, 8, 0, stream));
    if (!job_gpu_team_direct(world)) /* otherwise the host's function reports it later */
        return;
    FAILS(weft_alltoalls_on_stream(world, heap_dst, heap_src, 1 << 20, 1, 8, 1 << 20, stream),
          WEFT_ERR_RANGE, "dst");
    FAILS(weft_alltoalls_on_stream(world, heap_dst, heap_dst + 8, 2, 2, 8, 4, stream),
          WEFT_ERR_ARGUMENT, "overlap");
}

int main(int argc, char **argv)
{
    by_host = argc > 1 && strcmp(argv[1], "host") == 0;
    CHECK(gpu_api_fault_plan("MemcpyAsync", 0, 0)); /* for tables opened later */
    begin();
    misuse();
    puts_are_few();
    slots_are_clear();
    for (int i = 0; i < n_teams; i++)
        every_form(&teams[i]);
    OK(weft_barrier(weft_team_world(job)));
    CHECK(!driver.StreamDestroy(stream));
    OK(weft_finalize(job));
    return 0;
}
