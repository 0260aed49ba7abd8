/* SPDX-License-Identifier: Apache-2.0 */
/* Large copies between pageable host memory and GPU memory by several threads: every byte at odd
 * sizes and addresses, by the copies of weft/map.h and by put and get; their order after earlier
 * operations; several threads of the program at once; a driver that refuses one fragment. The
 * argument: "threads" (copy threads are used), "none" (they are not), "fails", "fails_late", or
 * none. */
#include "gpu_test.h"

#include "driver/gpu_api.h"

#include <pthread.h>
#include <unistd.h>
#include <weft/gpu.h>
#include <weft/map.h>

enum { MIB = 1 << 20, ROOM = 20 * MIB, CALLERS = 3 };

static weft_job *job;
static weft_ctx *ctx;
static int me, next;
static char *gpu;

static void make_bytes(unsigned char *data, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (unsigned char)(seed >> 24);
    }
}

/* Also checks that the bytes next to the range do not change. */
static void one_size(size_t lead, size_t host_lead, size_t bytes, bool by_put)
{
    unsigned char *sent = malloc(bytes + 64), *came = calloc(1, bytes + 128);
    unsigned char edge[64], seen[64];
    char *at = gpu + 64 + lead;
    CHECK(sent && came);
    make_bytes(sent, bytes + 64, (unsigned)(bytes + lead));
    memset(edge, 0x5c, sizeof edge);
    OK(weft_copy_to(job, at - 64, edge, 64));
    OK(weft_copy_to(job, at + bytes, edge, 64));
    if (by_put) {
        OK(weft_put(ctx, at, sent + host_lead, bytes, me));
        OK(weft_quiet(ctx));
        OK(weft_get(ctx, came + 64, at, bytes, me));
    } else {
        OK(weft_copy_to(job, at, sent + host_lead, bytes));
        OK(weft_copy_from(job, came + 64, at, bytes));
    }
    CHECK(memcmp(sent + host_lead, came + 64, bytes) == 0);
    for (int i = 0; i < 64; i++)
        CHECK(came[i] == 0 && came[bytes + 64 + i] == 0);
    OK(weft_copy_from(job, seen, at - 64, 64));
    CHECK(memcmp(seen, edge, 64) == 0);
    OK(weft_copy_from(job, seen, at + bytes, 64));
    CHECK(memcmp(seen, edge, 64) == 0);
    free(sent);
    free(came);
}

static void sizes(void)
{
    static const size_t list[] = {MIB - 1,     MIB,         MIB + 1,        2 * MIB + 131071,
                                  5 * MIB - 3, 8 * MIB + 7, 16 * MIB + 4097};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        one_size(i * 13 % 64, i * 7 % 61, list[i], false);
        one_size(i * 29 % 64, i * 5 % 61, list[i], true);
    }
}

/* A blocking copy comes after earlier puts of its context and before its next get. */
static void in_order(void)
{
    unsigned char *first = malloc(6 * MIB), *second = malloc(6 * MIB), *came = malloc(6 * MIB);
    CHECK(first && second && came);
    for (unsigned round = 0; round < 5; round++) {
        make_bytes(first, 6 * MIB, round);
        make_bytes(second, 6 * MIB, round + 100);
        OK(weft_put_nbi(ctx, gpu, first, 6 * MIB, next));
        OK(weft_fence(ctx));
        OK(weft_put(ctx, gpu + MIB, second, 4 * MIB, next));
        OK(weft_quiet(ctx));
        OK(weft_get(ctx, came, gpu, 6 * MIB, next));
        CHECK(memcmp(came, first, MIB) == 0 && memcmp(came + MIB, second, 4 * MIB) == 0 &&
              memcmp(came + 5 * MIB, first + 5 * MIB, MIB) == 0);
        OK(weft_barrier(weft_team_world(job)));
    }
    free(first);
    free(second);
    free(came);
}

static void *one_caller(void *argument)
{
    size_t number = (size_t)(uintptr_t)argument;
    unsigned char *sent = malloc(3 * MIB), *came = malloc(3 * MIB);
    CHECK(sent && came);
    for (unsigned round = 0; round < 6; round++) {
        make_bytes(sent, 3 * MIB, round * 77 + (unsigned)number);
        OK(weft_copy_to(job, gpu + number * 5 * MIB + 1, sent, 3 * MIB));
        memset(came, 0, 3 * MIB);
        OK(weft_copy_from(job, came, gpu + number * 5 * MIB + 1, 3 * MIB));
        CHECK(memcmp(sent, came, 3 * MIB) == 0);
    }
    free(sent);
    free(came);
    return NULL;
}

static void several_callers(void)
{
    pthread_t running[CALLERS];
    for (size_t i = 0; i < CALLERS; i++)
        CHECK(pthread_create(&running[i], NULL, one_caller, (void *)(uintptr_t)i) == 0);
    for (size_t i = 0; i < CALLERS; i++)
        CHECK(pthread_join(running[i], NULL) == 0);
}

/* With copy threads the driver is called for each fragment, otherwise once. */
static void is_used(bool wanted)
{
    enum { BYTES = 8 * MIB };
    unsigned char *sent = malloc(BYTES);
    CHECK(sent);
    make_bytes(sent, BYTES, 1);
    OK(weft_copy_to(job, gpu, sent, BYTES)); /* the first copy also sets up the threads */
    unsigned before = gpu_api_fault_uses();
    OK(weft_copy_to(job, gpu, sent, BYTES));
    unsigned in = gpu_api_fault_uses() - before;
    OK(weft_copy_from(job, sent, gpu, BYTES));
    unsigned out = gpu_api_fault_uses() - before - in;
    CHECK(wanted ? in >= 8 && out >= 8 : in < 8 && out < 8);
    weft_map_info info = {.size = sizeof info};
    OK(weft_map_query(job, me, &info));
    CHECK(wanted ? info.threads > 1 && info.to_by_threads == MIB && info.from_by_threads == MIB
                 : info.threads == 0 && info.to_by_threads == 0);
    free(sent);
}

/* Finding A21: when a failed copy returns, no part of it is still in flight. Reads the last byte of
 * the first fragments at once and again later. Calls 4 to 6 fail, so that those fragments are in
 * flight. */
static void failed_copies_end(void)
{
    enum { ROUNDS = 30, PIECE = 512 << 10, FIRST = 3 };
    unsigned char *sent = malloc(4 * MIB), soon[FIRST], late[FIRST];
    CHECK(sent);
    for (unsigned k = 0; k < 3 * ROUNDS; k++) {
        memset(sent, (int)k + 1, 4 * MIB);
        CHECK(gpu_api_fault_plan("MemcpyAsync", 4 + k % 3, CUDA_ERROR_UNKNOWN));
        FAILS(weft_copy_to(job, gpu, sent, 4 * MIB), WEFT_ERR_SYSTEM, "MemcpyAsync of ");
        CHECK(gpu_api_fault_plan("MemcpyAsync", 0, 0));
        for (int i = 0; i < FIRST; i++)
            OK(weft_copy_from(job, &soon[i], gpu + (i + 1) * PIECE - 1, 1));
        usleep(5000);
        for (int i = 0; i < FIRST; i++)
            OK(weft_copy_from(job, &late[i], gpu + (i + 1) * PIECE - 1, 1));
        CHECK(memcmp(soon, late, FIRST) == 0);
    }
    free(sent);
}

/* Whichever fragment fails, the copy reports the error, and the next copy is right. */
static void one_piece_fails(void)
{
    unsigned char *sent = malloc(4 * MIB), *came = malloc(4 * MIB);
    CHECK(sent && came);
    for (unsigned k = 1; k <= 6; k++)
        for (int out = 0; out < 2; out++) {
            make_bytes(sent, 4 * MIB, k);
            CHECK(gpu_api_fault_plan("MemcpyAsync", k, CUDA_ERROR_UNKNOWN));
            if (out)
                FAILS(weft_copy_from(job, came, gpu, 4 * MIB), WEFT_ERR_SYSTEM, "MemcpyAsync of ");
            else
                FAILS(weft_copy_to(job, gpu, sent, 4 * MIB), WEFT_ERR_SYSTEM, "MemcpyAsync of ");
            CHECK(gpu_api_fault_plan("MemcpyAsync", 0, 0));
            OK(weft_copy_to(job, gpu, sent, 4 * MIB));
            OK(weft_copy_from(job, came, gpu, 4 * MIB));
            CHECK(memcmp(sent, came, 4 * MIB) == 0);
        }
    free(sent);
    free(came);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    weft_init_attr attr = {.size = sizeof attr, .thread = WEFT_THREAD_MULTIPLE};
    CHECK(gpu_api_fault_plan("MemcpyAsync", 0, 0)); /* for tables opened later */
    OK(weft_init(&job, &attr));
    ctx = weft_default_ctx(job);
    me = weft_my_pe(job);
    next = (me + 1) % weft_n_pes(job);
    gpu = gpu_alloc(job, ROOM, 0);
    if (strcmp(how, "fails_late") == 0) {
        failed_copies_end();
        OK(weft_finalize(job));
        return 0;
    }
    if (strcmp(how, "fails") == 0) {
        one_piece_fails();
    } else {
        if (*how)
            is_used(strcmp(how, "threads") == 0);
        sizes();
        OK(weft_barrier(weft_team_world(job)));
        in_order();
        several_callers();
    }
    OK(weft_barrier(weft_team_world(job)));
    OK(weft_finalize(job));
    printf("PE %d: good\n", me);
    return 0;
}
