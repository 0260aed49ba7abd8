/* SPDX-License-Identifier: Apache-2.0 */
/* Gather and scatter of large blocks of GPU memory between nodes, by the host's functions and, with
 * the first argument "stream", in stream order: every byte, and those around the destinations; in
 * place, and where members do not name the same memory. With the last argument "alltoall", that
 * alone, also from host memory. */
#include "coll_job.h"

#include <stdbool.h>

enum { FILL = 0xa5, OTHERWHERE = 16 };

static bool by_stream;
static const struct members *team;
static char *dst, *src, *host_src;
static size_t room; /* bytes of dst and src that are compared */

static unsigned char value(int member, size_t i, size_t bytes)
{
    return (unsigned char)((size_t)member * 89 + i * 7 + (i >> 9) * 5 + bytes * 31 + 3);
}

static void clear(char *at)
{
    memset(mine, FILL, room);
    to_gpu(at, mine, room);
}

/* What member `of` sends to member k. */
static void fill(char *at, int of, int k, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        mine[i] = value(of, (size_t)k * bytes + i, bytes);
    to_gpu(at, mine, bytes);
}

static void call(bool gathers, void *to, const void *from, size_t bytes, int root)
{
    OK(weft_barrier(team->team));
    if (by_stream)
        OK(gathers ? weft_gather_on_stream(team->team, to, from, bytes, root, stream)
                   : weft_scatter_on_stream(team->team, to, from, bytes, root, stream));
    else
        OK(gathers ? weft_gather(team->team, to, from, bytes, root)
                   : weft_scatter(team->team, to, from, bytes, root));
    synchronize();
    OK(weft_barrier(team->team));
}

static void compare(const char *what, const char *at, size_t bytes, int root)
{
    CHECK(!driver.MemcpyDtoH(seen, (uintptr_t)at, room));
    for (size_t i = 0; i < room; i++)
        if (seen[i] != wanted[i]) {
            fprintf(stderr, "member %d of %d: %s of %zu bytes, root %d: byte %zu is %#x, not %#x\n",
                    team->me, team->n, what, bytes, root, i, seen[i], wanted[i]);
            exit(1);
        }
}

/* In place, each member has its block where it lies at the root. */
static void gather(size_t bytes, int root, bool in_place, size_t moved)
{
    char *own = dst + GUARD + (size_t)team->me * bytes, *from = in_place ? own : src + moved;
    clear(dst);
    fill(from, team->me, 0, bytes);
    call(true, dst + GUARD, from, bytes, root);
    memset(wanted, FILL, room);
    for (int k = 0; k < team->n; k++)
        for (size_t i = 0; i < bytes && (team->me == root || (in_place && team->me == k)); i++)
            wanted[GUARD + (size_t)k * bytes + i] = value(k, i, bytes);
    compare(in_place ? "gather in place" : "gather", dst, bytes, root);
}

/* In place, dst and src are the same, and the root keeps its block where it is. */
static void scatter(size_t bytes, int root, bool in_place, size_t moved)
{
    char *all = in_place ? dst : src;
    clear(dst);
    clear(src);
    for (int k = 0; k < team->n && team->me == root; k++)
        fill(all + GUARD + (size_t)k * bytes, root, k, bytes);
    call(false, dst + GUARD, all + GUARD + (team->me == root ? 0 : moved), bytes, root);
    memset(wanted, FILL, room);
    for (size_t i = 0; in_place && team->me == root && i < (size_t)team->n * bytes; i++)
        wanted[GUARD + i] = value(root, i, bytes);
    for (size_t i = 0; i < bytes; i++)
        wanted[GUARD + i] = value(root, (size_t)team->me * bytes + i, bytes);
    compare(in_place ? "scatter in place" : "scatter", dst, bytes, root);
}

static void alltoall(const struct members *of, size_t bytes, char *from)
{
    team = of;
    room = (size_t)team->n * bytes + 2 * GUARD;
    clear(dst);
    for (size_t i = 0; i < (size_t)team->n * bytes; i++)
        mine[i] = value(team->me, i, bytes);
    if (from == host_src)
        memcpy(from, mine, (size_t)team->n * bytes);
    else
        to_gpu(from, mine, (size_t)team->n * bytes);
    OK(weft_barrier(team->team));
    if (by_stream)
        OK(weft_alltoall_on_stream(team->team, dst + GUARD, from, bytes, stream));
    else
        OK(weft_alltoall(team->team, dst + GUARD, from, bytes));
    synchronize();
    OK(weft_barrier(team->team));
    memset(wanted, FILL, room);
    for (int k = 0; k < team->n; k++)
        for (size_t i = 0; i < bytes; i++)
            wanted[GUARD + (size_t)k * bytes + i] = value(k, (size_t)team->me * bytes + i, bytes);
    compare("alltoall", dst, bytes, -1);
}

static void both(const struct members *of, size_t bytes, int root)
{
    team = of;
    room = (size_t)team->n * bytes + GUARD + OTHERWHERE + GUARD;
    /* The last member has another address. */
    const size_t moved = team->me == team->n - 1 ? OTHERWHERE : 0;
    gather(bytes, root, false, 0);
    gather(bytes, root, true, 0);
    gather(bytes, root, false, moved);
    scatter(bytes, root, false, 0);
    if (root == 0)
        scatter(bytes, root, true, 0);
    scatter(bytes, root, false, moved);
}

static void rooted(void)
{
    both(&teams[0], 700001, 0);
    both(&teams[0], 700001, n / 2);
    both(&teams[0], 1001, n - 1); /* each to its member */
    /* The slots of this team are smaller than a block, and its members are in reverse order. */
    both(&teams[1], 1100003, n - 1);
    both(&teams[1], 1 << 19, 1);
}

/* Up to sizes that take several steps, and one that does not fit a slot; three in a row. */
static void all_to_all(void)
{
    static const size_t sizes[] = {8, 3, 1001, 16384, 200001, 700001};
    void *host = NULL;
    OK(weft_alloc(job, WEFT_HOST, (size_t)n * 700001, 0, 0, &host));
    host_src = host;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (int t = 0; t < n_teams; t++) {
            alltoall(&teams[t], sizes[k], src);
            alltoall(&teams[t], sizes[k], src + OTHERWHERE);
            alltoall(&teams[t], sizes[k], by_stream ? src : host_src);
        }
}

int main(int argc, char **argv)
{
    by_stream = argc >= 2 && !strcmp(argv[1], "stream");
    begin();
    dst = heap_dst;
    src = heap_src;
    if (!strcmp(argv[argc - 1], "alltoall"))
        all_to_all();
    else
        rooted();
    OK(weft_finalize(job));
    return 0;
}
