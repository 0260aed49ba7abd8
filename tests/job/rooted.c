/* SPDX-License-Identifier: Apache-2.0 */
/* Gather, scatter, a reduction to one PE, and alltoallv on host memory: every byte is correct,
 * bytes outside the destination are unchanged, and wrong arguments are refused. */
#include "job.h"

#include <stdlib.h>

enum { MOST = 40000, MOST_PES = 16, ROOM = MOST * MOST_PES };

static int me, n;
static weft_team *world;
static unsigned char *src, *dst, *wanted;

static unsigned char value(int pe, size_t i, int salt)
{
    return (unsigned char)((size_t)pe * 89 + i * 7 + (i >> 7) * 3 + (size_t)salt * 31 + 1);
}

static void prepare(size_t bytes, int salt)
{
    for (size_t i = 0; i < bytes; i++)
        src[i] = value(me, i, salt);
    memset(dst, 0xa5, ROOM);
    memset(wanted, 0xa5, ROOM);
    OK(weft_barrier(world));
}

static void compare(const char *what, size_t bytes)
{
    OK(weft_barrier(world));
    for (size_t i = 0; i < ROOM; i++)
        if (dst[i] != wanted[i]) {
            fprintf(stderr, "PE %d: %s of %zu: byte %zu is %#x and not %#x\n", me, what, bytes, i,
                    dst[i], wanted[i]);
            exit(1);
        }
}

static void to_and_from_one(size_t bytes, int root)
{
    prepare(bytes * (size_t)n, 1);
    for (size_t i = 0; me == root && i < bytes * (size_t)n; i++)
        wanted[i] = value((int)(i / bytes), i % bytes, 1);
    OK(weft_gather(world, dst, src, bytes, root));
    compare("gather", bytes);
    prepare(bytes * (size_t)n, 2);
    for (size_t i = 0; i < bytes; i++)
        wanted[i] = value(root, (size_t)me * bytes + i, 2);
    OK(weft_scatter(world, dst, src, bytes, root));
    compare("scatter", bytes);
    prepare(bytes, 3);
    for (size_t i = 0; me == root && i < bytes; i++) {
        wanted[i] = 0;
        for (int pe = 0; pe < n; pe++)
            wanted[i] = (unsigned char)(wanted[i] + value(pe, i, 3));
    }
    OK(weft_reduce(world, dst, src, bytes, WEFT_UINT8, WEFT_SUM, root));
    compare("reduce", bytes);
}

static size_t size_of(int from, int to, size_t most)
{
    size_t x = (size_t)from * 37 + (size_t)to * 11 + most;
    return x % 4 == 0 ? 0 : x * 7919 % most;
}

static void sized(size_t most)
{
    uint64_t send[MOST_PES], send_at[MOST_PES], recv[MOST_PES], recv_at[MOST_PES];
    size_t sent = 0, room = 0;
    for (int k = 0; k < n; k++) {
        send[k] = size_of(me, k, most);
        send_at[k] = sent;
        sent += send[k] + 3;
        recv[k] = size_of(k, me, most) + 2; /* more space than data */
        recv_at[k] = room;
        room += recv[k];
    }
    prepare(sent, 4);
    for (int k = 0; k < n; k++) {
        size_t begins = 0;
        for (int j = 0; j < me; j++)
            begins += size_of(k, j, most) + 3;
        for (size_t i = 0; i < size_of(k, me, most); i++)
            wanted[recv_at[k] + i] = value(k, begins + i, 4);
    }
    OK(weft_alltoallv(world, dst, room, recv, recv_at, src, send, send_at));
    compare("alltoallv", most);
}

static void misuse(void)
{
    const uint64_t words[MOST_PES] = {0};
    FAILS(weft_gather(NULL, dst, src, 8, 0), WEFT_ERR_ARGUMENT, "weft_gather: team is null");
    FAILS(weft_gather(world, dst, src, 8, n), WEFT_ERR_PE, "root");
    FAILS(weft_gather(world, wanted, src, 8, 0), WEFT_ERR_ADDRESS, "dst");
    FAILS(weft_scatter(world, dst, NULL, 8, 0), WEFT_ERR_ARGUMENT, "src is null");
    FAILS(weft_reduce(world, dst, dst + 1, 8, WEFT_UINT8, WEFT_SUM, 0), WEFT_ERR_ARGUMENT,
          "overlap");
    FAILS(weft_reduce(world, dst, src, 8, WEFT_FLOAT, WEFT_XOR, 0), WEFT_ERR_TYPE, "not defined");
    FAILS(weft_alltoallv(world, wanted, 8, words, words, src, words, words), WEFT_ERR_ADDRESS,
          "dst");
    FAILS(weft_alltoallv(world, dst, 8, words, words, src, NULL, words), WEFT_ERR_ARGUMENT,
          "send_bytes is null");
    OK(weft_gather(world, dst, src, 0, 0));
}

int main(void)
{
    weft_job *job;
    void *address;
    OK(weft_init(&job, NULL));
    me = weft_my_pe(job);
    n = weft_n_pes(job);
    world = weft_team_world(job);
    CHECK(n <= MOST_PES);
    OK(weft_alloc(job, WEFT_HOST, ROOM, 0, 0, &address));
    src = address;
    OK(weft_alloc(job, WEFT_HOST, ROOM, 0, 0, &address));
    dst = address;
    wanted = malloc(ROOM);
    CHECK(wanted);
    static const size_t sizes[] = {1, 8, 77, 4096, MOST - 1};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        to_and_from_one(sizes[s], (int)s % n);
    for (size_t s = 1; s < sizeof sizes / sizeof *sizes; s++)
        sized(sizes[s] / 2);
    misuse();
    free(wanted);
    OK(weft_finalize(job));
    return 0;
}
