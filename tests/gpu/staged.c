/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory that is not mapped at the peer uses path staged, which passes the path test and
 * provides what the other paths do: data of any size from and to either kind of memory, atomics of
 * owner and peer, a flag in mapped host memory after data in GPU memory, signals of either kind. */
#include "gpu_test.h"

#include "driver/gpu_api.h"

#include <weft.h>
#include <weft/map.h>

enum { BYTES = 3 * 512 * 1024 + 4097, ROUNDS = 9, ADDS = 30 };

static weft_job *job;
static weft_ctx *ctx;
static int me, n, next, previous;
static unsigned char seen[BYTES];
static weft_ctx *readers[4]; /* each has its own stream */

static weft_path_info query(int pe, weft_kind kind)
{
    weft_path_info info = {.size = sizeof info, .kind = kind};
    OK(weft_path_query(job, pe, &info));
    return info;
}

/* WEFT_PATH is empty: staged is chosen by default, and only where no better path works. */
static void is_chosen(void)
{
    weft_path_info gpu = query(next, WEFT_GPU), host = query(next, WEFT_HOST);
    CHECK(strcmp(gpu.name, "staged") == 0 && gpu.proven == 1 && gpu.load_store == 0);
    CHECK(strstr(gpu.reason, "DeviceCanAccessPeer("));
    CHECK(strstr(gpu.reason, "staged: through host memory that both PEs map"));
    CHECK(strcmp(host.name, "p2p") == 0);
}

/* No GPU can access the memory, but the CPU can. */
static void is_mapped(void)
{
    weft_map_info info = {.size = sizeof info};
    OK(weft_map_query(job, next, &info));
    CHECK(info.works == 1);
    CHECK(strstr(query(next, WEFT_GPU).reason, "small transfers by the CPU"));
}

static int seed(int pe, int round)
{
    return pe * 1000 + round;
}

static void make(unsigned char *to, int pe, int round, size_t bytes)
{
    make_pattern(to, seed(pe, round), bytes);
}

static void compare(const unsigned char *found, int pe, int round, size_t bytes, const char *what)
{
    size_t i = pattern_end(found, seed(pe, round), 0, bytes);
    if (i < bytes) {
        fprintf(stderr, "PE %d, %s, round %d: byte %zu is %#x instead of %#x\n", me, what, round, i,
                found[i], pattern_byte(seed(pe, round), i));
        exit(1);
    }
}

static void transfers(unsigned char *to, unsigned char *from, unsigned char *plain)
{
    static const size_t sizes[] = {1, 3, 8, 24, 63, 64, 65, 1000, 65537, 524288, 524289, BYTES};
    for (int round = 0; round < (int)(sizeof sizes / sizeof sizes[0]); round++) {
        size_t bytes = sizes[round];
        make(plain, me, round, bytes);
        fill(job, from, plain, bytes);
        OK(weft_put(ctx, to, round % 2 ? from : plain, bytes, next));
        OK(weft_barrier(weft_team_world(job)));
        look(job, plain, to, bytes);
        compare(plain, previous, round, bytes, round % 2 ? "put" : "put from plain memory");
        memset(plain, 0, bytes);
        OK(weft_get_nbi(ctx, plain, to, bytes, next));
        OK(weft_quiet(ctx));
        compare(plain, me, round, bytes, "get into plain memory");
        memset(plain, 0, bytes);
        fill(job, from, plain, bytes);
        OK(weft_get(ctx, from, to, bytes, next));
        look(job, plain, from, bytes);
        compare(plain, me, round, bytes, "get");
        OK(weft_barrier(weft_team_world(job)));
    }
}

/* The source of a blocking put may be overwritten at once, also by another stream. */
static void source_is_free(unsigned char *to, unsigned char *from, unsigned char *plain)
{
    for (int round = 0; round < ROUNDS; round++) {
        weft_ctx *writer = readers[round % 4];
        make(plain, me, round, BYTES);
        fill(job, from, plain, BYTES);
        OK(weft_put(ctx, to, from, BYTES, next));
        memset(plain, 0xee, BYTES);
        OK(weft_put(writer, from, plain, BYTES, me));
        OK(weft_quiet(writer));
        OK(weft_barrier(weft_team_world(job)));
        look(job, plain, to, BYTES);
        compare(plain, previous, round, BYTES, "source written over");
        OK(weft_barrier(weft_team_world(job)));
    }
}

/* More in flight than the shared memory of the path holds at once: `count` transfers, each with its
 * own data. */
static void many_under_way(unsigned char *to, size_t piece, int count, const char *what)
{
    unsigned char *plain = malloc(piece * (size_t)count);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < count; i++)
            make(plain + piece * (size_t)i, me, round + i, piece);
        for (int i = 0; i < count; i++)
            OK(weft_put_nbi(ctx, to + piece * (size_t)i, plain + piece * (size_t)i, piece, next));
        OK(weft_quiet(ctx));
        OK(weft_barrier(weft_team_world(job)));
        look(job, plain, to, piece * (size_t)count);
        for (int i = 0; i < count; i++)
            compare(plain + piece * (size_t)i, previous, round + i, piece, what);
        memset(plain, 0, piece * (size_t)count);
        for (int i = 0; i < count; i++)
            OK(weft_get_nbi(ctx, plain + piece * (size_t)i, to + piece * (size_t)i, piece, next));
        OK(weft_quiet(ctx));
        for (int i = 0; i < count; i++)
            compare(plain + piece * (size_t)i, me, round + i, piece, what);
        OK(weft_barrier(weft_team_world(job)));
    }
    free(plain);
}

/* The owner writes the data in GPU memory on request, and the CPU stores the flag: only the fence
 * keeps them in order. */
static void flag_behind_data(unsigned char *to, unsigned char *plain, uint64_t *flag)
{
    for (int round = 1; round <= ROUNDS; round++) {
        make(plain, me, round, BYTES);
        OK(weft_put_nbi(ctx, to, plain, BYTES, next));
        OK(weft_fence(ctx));
        OK(weft_p64(ctx, flag, (uint64_t)round, next));
        OK(weft_wait_until(ctx, WEFT_UINT64, flag, WEFT_GE, (uint64_t)round));
        /* Reads before any quiet, which would also complete operations that this PE serves. */
        OK(weft_get(readers[round % 4], seen, to, BYTES, me));
        compare(seen, previous, round, BYTES, "flag in host memory");
        OK(weft_barrier(weft_team_world(job)));
    }
}

static void signals(unsigned char *to, unsigned char *plain, uint64_t *signal, const char *what)
{
    uint64_t value = 0;
    for (int round = 1; round <= ROUNDS; round++) {
        size_t bytes = round % 3 ? BYTES : 40;
        make(plain, me, round, bytes);
        if (round % 2)
            OK(weft_put_signal(ctx, to, plain, bytes, signal, 1, WEFT_SIGNAL_ADD, next));
        else
            OK(weft_put_signal_nbi(ctx, to, plain, bytes, signal, (uint64_t)round, WEFT_SIGNAL_SET,
                                   next));
        OK(weft_signal_wait(ctx, signal, WEFT_GE, (uint64_t)round, &value));
        OK(weft_get(readers[round % 4], seen, to, bytes, me)); /* before any quiet, as above */
        compare(seen, previous, round, bytes, what);
        OK(weft_barrier(weft_team_world(job)));
    }
}

/* A word in GPU memory after an incomplete copy: a PE that sees the word also sees the data. */
static void word_behind_copy(unsigned char *to, unsigned char *from, unsigned char *plain,
                             uint64_t *word)
{
    enum { SOME = 60000 };
    uint64_t zero = 0;
    fill(job, word, &zero, sizeof zero);
    OK(weft_barrier(weft_team_world(job)));
    for (int round = 1; round <= 3 * ROUNDS; round++) {
        make(plain, me, round, SOME);
        fill(job, from, plain, SOME);
        OK(weft_put_nbi(ctx, to, from, SOME, next));
        OK(weft_fence(ctx));
        if (round % 2)
            OK(weft_put_signal_nbi(ctx, to + SOME + 8, plain, 8, word, (uint64_t)round,
                                   WEFT_SIGNAL_SET, next));
        else
            OK(weft_p64(ctx, word, (uint64_t)round, next));
        OK(weft_signal_wait(ctx, word, WEFT_GE, (uint64_t)round, NULL));
        OK(weft_get(readers[round % 4], seen, to, SOME, me));
        compare(seen, previous, round, SOME, "word behind a copy");
        OK(weft_barrier(weft_team_world(job)));
    }
}

/* Sizes so small that they are stored or loaded directly: every size and offset, from and to either
 * kind of memory; the neighbouring bytes do not change. */
static void few_bytes(unsigned char *to, unsigned char *from, unsigned char *plain)
{
    enum { AROUND = 64 };
    unsigned char found[AROUND];
    static const size_t sizes[] = {0, 1, 3, 4, 7, 8, 12, 16, 24, 33}, places[] = {0, 4, 8, 13};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++)
        for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
            size_t bytes = sizes[k], at = places[p];
            int round = (int)(4 * k + p + p / 2);
            make(plain, me, round, AROUND);
            fill(job, from, plain, AROUND);
            memset(found, 0xee, AROUND);
            fill(job, to, found, AROUND);
            OK(weft_barrier(weft_team_world(job)));
            OK(weft_put(ctx, to + at, (round & 1 ? from : plain) + at, bytes, next));
            OK(weft_barrier(weft_team_world(job)));
            look(job, found, to, AROUND);
            for (size_t i = 0; i < AROUND; i++)
                CHECK(found[i] ==
                      (i < at || i >= at + bytes ? 0xee : pattern_byte(seed(previous, round), i)));
            memset(found, 0xdd, AROUND);
            fill(job, to, found, AROUND);
            OK(weft_get(ctx, round & 2 ? to + at : found + at, from + at, bytes, next));
            if (round & 2)
                look(job, found, to, AROUND);
            for (size_t i = 0; i < AROUND; i++)
                CHECK(found[i] ==
                      (i < at || i >= at + bytes ? 0xdd : pattern_byte(seed(next, round), i)));
            OK(weft_barrier(weft_team_world(job)));
        }
}

/* All PEs, including the owner, add to the same words: no addition is lost, and each value is
 * returned once. */
static void atomics(uint64_t *words)
{
    uint64_t before, sum = 0, zero[2] = {0, 0xffffffff00000000u};
    fill(job, words, zero, sizeof zero);
    OK(weft_barrier(weft_team_world(job)));
    for (int i = 0; i < ADDS; i++) {
        OK(weft_atomic_fetch_add64(ctx, words, 1, &before, 0));
        CHECK(before < (uint64_t)n * ADDS);
        OK(weft_atomic_add64(ctx, words + 1, (uint64_t)-3, 0));
    }
    OK(weft_barrier(weft_team_world(job)));
    OK(weft_g64(ctx, words, &sum, 0));
    CHECK(sum == (uint64_t)n * ADDS);
    OK(weft_g64(ctx, words + 1, &sum, 0));
    CHECK(sum == 0xffffffff00000000u - 3 * (uint64_t)n * ADDS);
    OK(weft_barrier(weft_team_world(job)));
}

/* One call of the driver fails at PE `where`, the initiator (0) or the target (1): PE 0 gets the
 * error, or the data is right. For a job of two PEs. */
static void one_fails(const char *call, int where, unsigned char *to, unsigned char *from,
                      unsigned char *plain)
{
    weft_status status = WEFT_OK;
    make(plain, 0, 3, BYTES);
    fill(job, from, plain, BYTES);
    memset(plain, 0, BYTES);
    OK(weft_barrier(weft_team_world(job)));
    CHECK(gpu_api_fault_plan(call, me == where ? 2 : 0, CUDA_ERROR_UNKNOWN));
    OK(weft_barrier(weft_team_world(job)));
    if (me != 0) {
        weft_barrier(weft_team_world(job)); /* until PE 0 ends the job or is finished */
        return;
    }
    status = weft_put(ctx, to, from, BYTES, 1);
    if (!status)
        status = weft_quiet(ctx);
    if (!status)
        status = weft_get(ctx, plain, to, BYTES, 1);
    if (status)
        fprintf(stderr, "seen: %s: %s\n", weft_status_name(status), weft_last_error());
    else
        compare(plain, 0, 3, BYTES, "nothing failed");
    if (status)
        weft_abort(job, 0);
    fprintf(stderr, "seen: all is right\n");
    weft_barrier(weft_team_world(job));
}

/* Transfers of up to a word use no driver event at either end, because a copy with an event takes
 * longer than everything else together. */
static void without_events(uint64_t *to, uint64_t *from)
{
    uint64_t value = 0, mine = 0x8000000000000001u + (uint64_t)me;
    fill(job, from, &mine, sizeof mine);
    OK(weft_barrier(weft_team_world(job)));
    unsigned before = gpu_api_fault_uses();
    for (uint64_t i = 0; i < 10; i++) {
        OK(weft_put(ctx, to, from, sizeof *to, next));
        OK(weft_quiet(ctx));
        OK(weft_put_signal(ctx, to + 1, from, sizeof *to, to + 2, i, WEFT_SIGNAL_SET, next));
        OK(weft_quiet(ctx));
        OK(weft_p64(ctx, to + 3, i, next));
        OK(weft_quiet(ctx));
        OK(weft_g64(ctx, to + 3, &value, next));
        CHECK(value == i);
        OK(weft_atomic_fetch_add64(ctx, to + 4, 3, &value, next));
        CHECK(value == 3 * i);
        OK(weft_get(ctx, &value, from, sizeof value, next));
        CHECK(value == 0x8000000000000001u + (uint64_t)next);
        OK(weft_get(ctx, to + 8, from, sizeof value, next));
    }
    OK(weft_barrier(weft_team_world(job)));
    CHECK(gpu_api_fault_uses() == before);
    uint64_t found[9];
    look(job, found, to, sizeof found);
    CHECK(found[0] == 0x8000000000000001u + (uint64_t)previous && found[1] == found[0]);
    CHECK(found[2] == 9 && found[3] == 9 && found[4] == 30);
    CHECK(found[8] == 0x8000000000000001u + (uint64_t)next);
}

/* Where GPU memory is mapped for the CPU, small transfers make no GPU call at either end. */
static void by_the_cpu(uint64_t *to, uint64_t *from)
{
    uint64_t value = 0, mine = 0x8000000000000001u + (uint64_t)me;
    fill(job, from, &mine, sizeof mine);
    OK(weft_barrier(weft_team_world(job)));
    unsigned before = gpu_api_fault_uses();
    for (uint64_t i = 0; i < 10; i++) {
        OK(weft_put(ctx, to, from, sizeof *to, next));
        OK(weft_put(ctx, to + 5, &mine, sizeof mine, next));
        OK(weft_put_signal(ctx, to + 1, &mine, sizeof *to, to + 2, i, WEFT_SIGNAL_SET, next));
        OK(weft_p64(ctx, to + 3, i, next));
        OK(weft_fence(ctx));
        OK(weft_atomic_set64(ctx, to + 4, ~i, next));
        OK(weft_quiet(ctx));
        OK(weft_g64(ctx, to + 3, &value, next));
        CHECK(value == i);
        OK(weft_atomic_fetch64(ctx, to + 4, &value, next));
        CHECK(value == ~i);
        OK(weft_get(ctx, &value, from, sizeof value, next));
        CHECK(value == 0x8000000000000001u + (uint64_t)next);
    }
    OK(weft_barrier(weft_team_world(job)));
    CHECK(gpu_api_fault_uses() == before);
    uint64_t found[6];
    look(job, found, to, sizeof found);
    CHECK(found[0] == 0x8000000000000001u + (uint64_t)previous && found[1] == found[0]);
    CHECK(found[2] == 9 && found[3] == 9 && found[4] == ~9ull && found[5] == found[0]);
}

int main(int argc, char **argv)
{
    bool cpu = argc > 2 && strcmp(argv[1], "cpu") == 0;
    bool fails = argc > 3 && strcmp(argv[1], "fails") == 0;
    bool counts = argc > 1 && strcmp(argv[1], "counts") == 0;
    if (fails || counts || cpu)
        CHECK(gpu_api_fault_plan(counts ? "EventRecord" : argv[2], 0,
                                 0)); /* of tables opened later */
    bool apart = argc > 1 && strcmp(argv[1], "apart") == 0;
    if (apart) /* the driver reports no access to the peer's GPU */
        CHECK(gpu_api_fault_plan("DeviceCanAccessPeer", 1, CUDA_ERROR_UNKNOWN));
    OK(weft_init(&job, NULL));
    ctx = weft_default_ctx(job);
    me = weft_my_pe(job);
    n = weft_n_pes(job);
    next = (me + 1) % n;
    previous = (me + n - 1) % n;
    unsigned char *to, *from, *plain = malloc(BYTES);
    uint64_t *signal, *flag = alloc(job, 64);
    to = gpu_alloc(job, BYTES, WEFT_ALLOC_ZERO);
    from = gpu_alloc(job, BYTES, WEFT_ALLOC_ZERO);
    signal = gpu_alloc(job, 64, WEFT_ALLOC_ZERO);
    if (fails) {
        one_fails(argv[2], atoi(argv[3]), to, from, plain);
        return weft_finalize(job) ? 1 : 0;
    }
    if (counts || cpu) {
        (cpu ? by_the_cpu : without_events)((uint64_t *)(void *)to, (uint64_t *)(void *)from);
        free(plain);
        return weft_finalize(job) ? 1 : 0;
    }
    if (apart || (argc > 1 && strcmp(argv[1], "chosen") == 0))
        is_chosen();
    if (apart)
        is_mapped();
    for (int i = 0; i < 4; i++)
        OK(weft_ctx_create(weft_team_world(job), 0, &readers[i]));
    transfers(to, from, plain);
    source_is_free(to, from, plain);
    many_under_way(gpu_alloc(job, 20 * 700001, 0), 700001, 20, "many into GPU memory");
    many_under_way(alloc(job, 100 * 20011), 20011, 100, "many into host memory");
    many_under_way(alloc(job, 500 * 24), 24, 500, "many words");
    flag_behind_data(to, plain, flag);
    signals(to, plain, signal, "signal in GPU memory");
    signals(to, plain, flag + 4, "signal in host memory");
    atomics(signal + 2);
    word_behind_copy(to, from, plain, signal + 4);
    few_bytes(to, from, plain);
    free(plain);
    OK(weft_finalize(job));
    return 0;
}
