/* SPDX-License-Identifier: Apache-2.0 */
/* weft/map.h on a machine without a GPU: mappings of own and of other PEs' host memory, copies of
 * all sizes and alignments, threads, a child of fork(), and refused arguments. tests/gpu/map.c
 * covers machines with a GPU. */
#include "tests/job/job.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/map.h>

enum { ROOM = 4 << 20, MARGIN = 64 };

static weft_job *job;
static weft_team *world;
static int me, n, next;
static unsigned char *heap, *model;

static unsigned char byte_of(size_t at, unsigned seed)
{
    return (unsigned char)(at * 7 + (at >> 8) * 3 + seed * 41 + 1);
}

static void fill(unsigned char *to, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = byte_of(i, seed);
}

/* A store through a mapping of the next PE's memory arrives there, and changes no neighbouring
 * byte. */
static void mappings(void)
{
    for (unsigned round = 0; round < 20; round++) {
        size_t lead = round * 4093 % 9000, bytes = 1 + round * 7919;
        void *mapped = NULL, *again = NULL;
        memset(heap, 0, ROOM);
        OK(weft_barrier(world));
        OK(weft_map(job, heap + lead, bytes, next, &mapped));
        OK(weft_map(job, heap + lead, bytes, next, &again));
        CHECK(mapped == again);
        fill(mapped, bytes, round + (unsigned)me);
        OK(weft_map_flush(job, mapped));
        OK(weft_unmap(job, mapped));
        OK(weft_unmap(job, again));
        FAILS(weft_unmap(job, mapped), WEFT_ERR_ADDRESS, "was not returned by weft_map()");
        OK(weft_barrier(world));
        for (size_t i = 0; i < ROOM; i++)
            CHECK(heap[i] == (i < lead || i >= lead + bytes
                                  ? 0
                                  : byte_of(i - lead, round + (unsigned)((me + n - 1) % n))));
        OK(weft_barrier(world));
    }
}

/* Each of several mappings is unmapped by its own address, once. */
static void taken_back(void)
{
    void *mapped[3];
    for (size_t i = 0; i < 3; i++)
        OK(weft_map(job, heap + i * 5000, 100, me, &mapped[i]));
    for (size_t i = 0; i < 3; i++) {
        OK(weft_unmap(job, mapped[i]));
        FAILS(weft_unmap(job, mapped[i]), WEFT_ERR_ADDRESS, "was not returned by weft_map()");
    }
}

static void one_copy(unsigned char *other, size_t lead, size_t bytes, unsigned seed)
{
    unsigned char *dst = heap + MARGIN + lead;
    memset(dst - MARGIN, 0xa5, bytes + 2 * MARGIN);
    memset(other, 0x5a, bytes + 1);
    fill(model, bytes, seed);
    OK(weft_copy_to(job, dst, model, bytes));
    OK(weft_copy_flush(job, dst));
    CHECK(memcmp(dst, model, bytes) == 0);
    for (int i = 1; i <= MARGIN; i++)
        CHECK(dst[-i] == 0xa5 && dst[bytes + (size_t)i - 1] == 0xa5);
    OK(weft_copy_from(job, other, dst, bytes));
    CHECK(memcmp(other, model, bytes) == 0 && other[bytes] == 0x5a);
}

static void copies(void)
{
    unsigned char *other = malloc(ROOM);
    CHECK(other);
    for (size_t lead = 0; lead < 66; lead += 5)
        for (size_t bytes = 1; bytes < 300; bytes += bytes < 70 ? 1 : 23)
            one_copy(other, lead, bytes, (unsigned)(lead * 100 + bytes));
    for (size_t bytes = 301; bytes < ROOM - 1000; bytes = bytes * 3 + 1)
        one_copy(other, bytes % 61, bytes, (unsigned)bytes);
    OK(weft_copy_to(job, heap, heap + 3, 1000)); /* source and destination overlap */
    OK(weft_copy_to(job, heap, model, 0));
    OK(weft_copy_to(job, NULL, NULL, 0));
    free(other);
}

static void *one_thread(void *argument)
{
    size_t number = (size_t)(uintptr_t)argument, lead = number * 100000;
    for (unsigned round = 0; round < 500; round++) {
        size_t at = lead + round * 131 % 90000, bytes = 1 + round * 17 % 9000;
        unsigned char mine[9001], back[9001];
        void *mapped;
        fill(mine, bytes, round);
        OK(weft_map(job, heap + at, bytes, me, &mapped));
        OK(weft_copy_to(job, heap + at, mine, bytes));
        OK(weft_copy_from(job, back, mapped, bytes));
        CHECK(memcmp(back, mine, bytes) == 0);
        OK(weft_unmap(job, mapped));
    }
    return NULL;
}

static void threads(void)
{
    pthread_t running[4];
    for (size_t i = 0; i < 4; i++)
        CHECK(pthread_create(&running[i], NULL, one_thread, (void *)(uintptr_t)i) == 0);
    for (size_t i = 0; i < 4; i++)
        CHECK(pthread_join(running[i], NULL) == 0);
}

static void refused(void)
{
    static unsigned char own[64];
    unsigned char *mine = malloc(64);
    void *mapped = own;
    size_t beyond = (size_t)1 << 40;
    weft_map_info info = {.size = sizeof info};
    CHECK(mine);
    FAILS(weft_map(NULL, heap, 8, me, &mapped), WEFT_ERR_ARGUMENT, "job is null");
    FAILS(weft_map(job, NULL, 8, me, &mapped), WEFT_ERR_ARGUMENT, "address is null");
    FAILS(weft_map(job, heap, 8, me, NULL), WEFT_ERR_ARGUMENT, "mapped is null");
    FAILS(weft_map(job, heap, 0, me, &mapped), WEFT_ERR_ARGUMENT, "0 bytes");
    FAILS(weft_map(job, heap, 8, n, &mapped), WEFT_ERR_PE, "does not exist");
    FAILS(weft_map(job, heap, 8, -1, &mapped), WEFT_ERR_PE, "PE -1");
    FAILS(weft_map(job, mine, 8, me, &mapped), WEFT_ERR_ADDRESS, "neither symmetric memory");
    CHECK(mapped == NULL); /* the pointer was reset */
    FAILS(weft_map(job, heap + 1, beyond, me, &mapped), WEFT_ERR_RANGE, "past the end");
    FAILS(weft_map(job, heap + 1, SIZE_MAX, next, &mapped), WEFT_ERR_RANGE, "past the end");
    FAILS(weft_unmap(job, heap), WEFT_ERR_ADDRESS, "was not returned by weft_map()");
    FAILS(weft_unmap(job, NULL), WEFT_ERR_ARGUMENT, "mapped is null");
    FAILS(weft_map_flush(job, NULL), WEFT_ERR_ARGUMENT, "mapped is null");
    FAILS(weft_copy_to(NULL, heap, model, 8), WEFT_ERR_ARGUMENT, "job is null");
    FAILS(weft_copy_to(job, NULL, model, 8), WEFT_ERR_ARGUMENT, "dst is null");
    FAILS(weft_copy_to(job, heap, NULL, 8), WEFT_ERR_ARGUMENT, "src is null");
    FAILS(weft_copy_to(job, heap + 8, model, beyond), WEFT_ERR_RANGE, "past the end of the heap");
    FAILS(weft_copy_from(job, model, heap + 8, beyond), WEFT_ERR_RANGE, "past the end of the heap");
    FAILS(weft_copy_from(job, model, NULL, 8), WEFT_ERR_ARGUMENT, "src is null");
    FAILS(weft_copy_flush(job, NULL), WEFT_ERR_ARGUMENT, "dst is null");
    FAILS(weft_map_query(job, me, &info), WEFT_ERR_UNSUPPORTED, "no GPU side");
    FAILS(weft_map_query(job, me, NULL), WEFT_ERR_ARGUMENT, "info is null");
    free(mine);
}

static void a_fork(void)
{
    void *mapped;
    OK(weft_map(job, heap, 100, me, &mapped));
    pid_t child = fork();
    if (child == 0) {
        bool is = weft_map(job, heap, 100, me, &mapped) == WEFT_ERR_FINALIZED &&
                  weft_copy_to(job, heap, model, 8) == WEFT_ERR_FINALIZED;
        _exit(is ? 0 : 1);
    }
    int state = 0;
    CHECK(waitpid(child, &state, 0) == child && WIFEXITED(state) && WEXITSTATUS(state) == 0);
    OK(weft_copy_to(job, mapped, model, 100));
    OK(weft_unmap(job, mapped));
}

int main(void)
{
    weft_init_attr attr = {.size = sizeof attr, .thread = WEFT_THREAD_MULTIPLE};
    void *mapped;
    OK(weft_init(&job, &attr));
    world = weft_team_world(job);
    me = weft_my_pe(job);
    n = weft_n_pes(job);
    next = (me + 1) % n;
    heap = alloc(job, ROOM);
    model = malloc(ROOM);
    CHECK(model);
    mappings();
    taken_back();
    copies();
    threads();
    refused();
    a_fork();
    OK(weft_map(job, heap, 100, me, &mapped)); /* finalize unmaps the rest */
    OK(weft_barrier(world));
    OK(weft_finalize(job));
    FAILS(weft_map(job, heap, 8, 0, &mapped), WEFT_ERR_FINALIZED, "finalized");
    FAILS(weft_copy_to(job, heap, model, 8), WEFT_ERR_FINALIZED, "finalized");
    free(model);
    return 0;
}
