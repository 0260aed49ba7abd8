/* SPDX-License-Identifier: Apache-2.0 */
/* CPU mappings of GPU memory: mappings of this PE's and other PEs' memory, copies by the CPU and by
 * the copy engine at all sizes and alignments, single values and signals, waits, fork, and invalid
 * calls. The first argument is the expected result: "works", "none" or "any"; the second is text of
 * the reason. */
#include "gpu_test.h"
#include "own_memory.h"

#include "gpu/map/map.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/gpu.h>
#include <weft/map.h>

enum { ROOM = 3 << 20, LARGE = 2 << 20, TAIL = 4096 };

_Static_assert((int)LARGE > (int)GPU_MAP_MOST, "copies of this size are the copy engine's");

static weft_job *job;
static weft_ctx *ctx;
static weft_team *world;
static int me, n, next;
static char *gpu;
static unsigned char *sent, *came;

static void make(size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++) {
        seed = seed * 1664525u + 1013904223u;
        sent[i] = (unsigned char)(seed >> 24);
    }
}

/* Uses the copy engine, whatever the CPU can access. */
static void engine_out(void *to, const void *from)
{
    OK(weft_get(ctx, to, from, LARGE, me));
}

static void engine_in(void *to, const void *from)
{
    OK(weft_put(ctx, to, from, LARGE, me));
    OK(weft_quiet(ctx));
}

static bool expect_way(const char *wanted, const char *holds)
{
    weft_map_info info = {.size = sizeof info};
    OK(weft_map_query(job, next, &info));
    if (me == 0)
        printf("mapped: %s, way '%s', %s; stores up to %zu (%zu), loads up to %zu (%zu); why: %s\n",
               info.works ? "yes" : "no", info.way, info.by, info.to_from_plain,
               info.to_from_pinned, info.from_to_plain, info.from_to_pinned, info.why);
    CHECK(strcmp(wanted, "any") == 0 || (strcmp(wanted, "works") == 0) == (info.works == 1));
    CHECK(!holds || strstr(info.why, holds) || strstr(info.way, holds));
    CHECK(info.works || info.why[0]);
    return info.works;
}

/* ----------------------------------------------------------------------------------- mappings */

static void through_a_mapping(int pe)
{
    char *mapped = NULL, *again = NULL;
    size_t lead = 4093, bytes = LARGE + 77;
    OK(weft_map(job, gpu + lead, bytes, pe, (void **)&mapped));
    OK(weft_map(job, gpu + lead, bytes, pe, (void **)&again));
    CHECK(mapped && mapped != gpu + lead);
    make(LARGE, 77u + (unsigned)pe);
    memcpy(mapped + 5, sent, LARGE);
    OK(weft_map_flush(job, mapped));
    OK(weft_get(ctx, came, gpu + lead + 5, LARGE, pe));
    CHECK(memcmp(came, sent, LARGE) == 0);
    make(LARGE, 99u + (unsigned)pe);
    OK(weft_put(ctx, gpu + lead + 5, sent, LARGE, pe));
    OK(weft_quiet(ctx));
    memset(came, 0, LARGE);
    wc_load(came, mapped + 5, LARGE);
    CHECK(memcmp(came, sent, LARGE) == 0);
    OK(weft_unmap(job, mapped));
    OK(weft_unmap(job, again));
    FAILS(weft_unmap(job, mapped), WEFT_ERR_ADDRESS, "was not returned by weft_map()");
}

static void mappings(void)
{
    for (int turn = 0; turn < n; turn++) {
        if (turn == me)
            for (int pe = 0; pe < n; pe++)
                through_a_mapping(pe);
        OK(weft_barrier(world));
    }
    char *mapped;
    for (int i = 0; i < 2000; i++) {
        size_t at = (size_t)i * 1571 % ROOM;
        OK(weft_map(job, gpu + at, ROOM - at, me, (void **)&mapped));
        mapped[0] = (char)i;
        OK(weft_map_flush(job, mapped));
        OK(weft_copy_from(job, came, gpu + at, 1));
        CHECK(came[0] == (unsigned char)i);
        OK(weft_unmap(job, mapped));
    }
    OK(weft_map(job, gpu, ROOM, me,
                (void **)&mapped)); /* finalize removes mappings that are left */
}

static void own_memory(void)
{
    struct gpu_api driver;
    CUcontext context;
    int ordinal = 0;
    char *mapped;
    OK(gpu_api_open(&driver));
    CHECK(
        !driver.PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (uintptr_t)gpu));
    CHECK(!driver.DevicePrimaryCtxRetain(&context, ordinal) && !driver.CtxPushCurrent(context));
    struct piece piece =
        make_piece(&driver, 4 << 20, ordinal, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    char *own = (char *)(uintptr_t)piece.base;
    FAILS(weft_map(job, own, 100, me, (void **)&mapped), WEFT_ERR_ADDRESS, "nor registered");
    OK(weft_register(job, own + 100, LARGE));
    FAILS(weft_map(job, own + 200, LARGE, me, (void **)&mapped), WEFT_ERR_ADDRESS,
          "nor registered");
    if (n > 1)
        FAILS(weft_map(job, own + 200, 100, next, (void **)&mapped), WEFT_ERR_ADDRESS,
              "not symmetric");
    for (int i = 0; i < 50; i++) {
        size_t at = 100 + (size_t)i * 7919, bytes = 1 + (size_t)i * 311;
        OK(weft_map(job, own + at, bytes, me, (void **)&mapped));
        make(bytes, (unsigned)i);
        OK(weft_copy_to(job, own + at, sent, bytes));
        OK(weft_map_flush(job, mapped));
        wc_load(came, mapped, bytes);
        CHECK(memcmp(came, sent, bytes) == 0);
        OK(weft_unmap(job, mapped));
    }
    OK(weft_unregister(job, own + 100));
    drop_piece(&driver, piece);
    CHECK(!driver.CtxPopCurrent(&context));
}

/* -------------------------------------------------------------------------------------- copies */

static void one_copy(size_t lead, size_t bytes, unsigned seed)
{
    static unsigned char whole[LARGE];
    make(bytes, seed);
    memset(whole, 0xa5, sizeof whole);
    engine_in(gpu, whole);
    OK(weft_copy_to(job, gpu + lead, sent, bytes));
    OK(weft_copy_flush(job, gpu + lead));
    engine_out(whole, gpu);
    CHECK(memcmp(whole + lead, sent, bytes) == 0);
    for (size_t i = 1; i <= 64; i++) /* the bytes next to it do not change */
        CHECK((lead < i || whole[lead - i] == 0xa5) && whole[lead + bytes + i - 1] == 0xa5);
    memset(came, 0x5a, bytes + 64);
    OK(weft_copy_from(job, came, gpu + lead, bytes));
    CHECK(memcmp(came, sent, bytes) == 0 && came[bytes] == 0x5a);
}

static void copies(void)
{
    for (size_t lead = 0; lead < 70; lead += lead < 9 ? 1 : 13)
        for (size_t bytes = 1; bytes < 150; bytes += bytes < 20 ? 1 : 11)
            one_copy(lead, bytes, (unsigned)(lead * 1000 + bytes));
    for (size_t bytes = 151; bytes < LARGE - TAIL; bytes = bytes * 5 + 3)
        for (size_t lead = 0; lead < 128; lead += 37)
            one_copy(lead, bytes, (unsigned)(lead + bytes));
    OK(weft_copy_to(job, gpu, sent, 0));
    FAILS(weft_copy_to(job, NULL, sent, 8), WEFT_ERR_ARGUMENT, "dst is null");
    FAILS(weft_copy_from(job, came, NULL, 8), WEFT_ERR_ARGUMENT, "src is null");
    FAILS(weft_copy_to(job, gpu, sent, (size_t)1 << 40), WEFT_ERR_RANGE, "past the end");
    unsigned char here[9] = "12345678", there[9] = "";
    OK(weft_copy_to(job, there, here, 9)); /* host memory on both sides */
    CHECK(memcmp(here, there, 9) == 0);
}

/* ------------------------------------------------------------------- operations between the PEs */

/* Data that a PE puts, sets and signals by the CPU is visible when the operation says so, ordered
 * after the copy engine's data. */
static void operations(void)
{
    enum { ROUNDS = 60, WORDS = 40 };
    uint64_t *flag = gpu_alloc(job, 64, WEFT_ALLOC_ZERO),
             *data = gpu_alloc(job, 8 * WORDS, WEFT_ALLOC_ZERO);
    char *large = gpu_alloc(job, LARGE, 0);
    int previous = (me + n - 1) % n;
    uint64_t words[WORDS], value;
    OK(weft_barrier(world));
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        for (uint64_t i = 0; i < WORDS; i++)
            words[i] = round * 1000 + i + (uint64_t)me;
        OK(weft_put_signal(ctx, data, words, 8 * (1 + round % WORDS), flag, round, WEFT_SIGNAL_SET,
                           next));
        OK(weft_wait_until(ctx, WEFT_UINT64, flag, WEFT_GE, round));
        OK(weft_get(ctx, words, data, 8 * (1 + round % WORDS), me));
        for (uint64_t i = 0; i <= round % WORDS; i++)
            CHECK(words[i] == round * 1000 + i + (uint64_t)previous);
        OK(weft_barrier(world));
        /* In order: a copy by the engine, single values, a copy by the engine. */
        make(LARGE, (unsigned)round);
        OK(weft_put_nbi(ctx, large, sent, LARGE, next));
        OK(weft_fence(ctx));
        OK(weft_p64(ctx, large + 8, ~round, next));
        OK(weft_p32(ctx, large + 20, (uint32_t)round * 3, next));
        OK(weft_p16(ctx, large + 26, (uint16_t)round, next));
        OK(weft_p8(ctx, large + 29, (uint8_t)round, next));
        OK(weft_iput(ctx, large + 64, sent, 3, 1, 4, 5, next));
        OK(weft_barrier(world));
        engine_out(came, large);
        CHECK(memcmp(came + 8, &(uint64_t){~round}, 8) == 0);
        CHECK(memcmp(came + 20, &(uint32_t){(uint32_t)round * 3}, 4) == 0);
        CHECK(memcmp(came + 26, &(uint16_t){(uint16_t)round}, 2) == 0 &&
              came[29] == (uint8_t)round);
        for (size_t i = 0; i < 5; i++)
            CHECK(memcmp(came + 64 + i * 12, sent + i * 4, 4) == 0);
        CHECK(memcmp(came + 200, sent + 200, LARGE - 200) == 0);
        OK(weft_g64(ctx, large + 8, &value, next));
        CHECK(value == ~round);
        OK(weft_barrier(world));
    }
    OK(weft_atomic_set64(ctx, flag, 12345, next));
    OK(weft_p32(ctx, data + 1, (uint32_t)-7, next));
    OK(weft_wait_until(ctx, WEFT_INT32, data + 1, WEFT_LT, 0));
    OK(weft_barrier(world));
    OK(weft_signal_fetch(ctx, flag, &value));
    CHECK(value == 12345);
    OK(weft_barrier(world));
    OK(weft_free(job, large));
    OK(weft_free(job, data));
    OK(weft_free(job, flag));
}

/* -------------------------------------------------------------------------------------- threads */

enum { THREADS = 4, THREAD_ROUNDS = 300, THREAD_BYTES = 300000 };

static char *shared;

/* Each thread uses its own part of the next PE's memory, through the same context and windows. */
static void *one_thread(void *argument)
{
    size_t number = (size_t)(uintptr_t)argument, lead = number * THREAD_BYTES;
    unsigned char mine[1500], back[1500];
    unsigned seed = (unsigned)number + 77;
    for (int round = 0; round < THREAD_ROUNDS; round++) {
        seed = seed * 1664525u + 1013904223u;
        size_t at = lead + (seed >> 8) % (THREAD_BYTES - sizeof mine),
               bytes = 9 + (seed >> 4) % 1400;
        uint64_t word = seed * 0x9e3779b97f4a7c15u, seen = 0;
        for (size_t i = 0; i < bytes; i++)
            mine[i] = (unsigned char)(seed + i * 13);
        OK(weft_put(ctx, shared + at, mine, bytes, next));
        OK(weft_p64(ctx, shared + lead + THREAD_BYTES - 8, word, next));
        OK(weft_quiet(ctx));
        OK(weft_get(ctx, back, shared + at, bytes, next));
        CHECK(memcmp(back, mine, bytes) == 0);
        OK(weft_g64(ctx, shared + lead + THREAD_BYTES - 8, &seen, next));
        CHECK(seen == word);
        void *mapped = NULL;
        if (weft_map(job, gpu + at, bytes, me, &mapped) == WEFT_OK)
            OK(weft_unmap(job, mapped));
    }
    return NULL;
}

static void threads(void)
{
    pthread_t running[THREADS];
    shared = gpu_alloc(job, THREADS * THREAD_BYTES, 0);
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&running[i], NULL, one_thread, (void *)(uintptr_t)i) == 0);
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_join(running[i], NULL) == 0);
    OK(weft_barrier(world));
    OK(weft_free(job, shared));
}

/* ---------------------------------------------------------------------------------- host memory */

static void host_memory(void)
{
    char *host = alloc(job, 1000), *mapped = NULL;
    OK(weft_map(job, host + 3, 900, me, (void **)&mapped));
    CHECK(mapped == host + 3);
    OK(weft_map_flush(job, mapped));
    OK(weft_unmap(job, mapped));
    FAILS(weft_map(job, host, (size_t)1 << 40, me, (void **)&mapped), WEFT_ERR_RANGE,
          "past the end");
    FAILS(weft_map(job, host, 0, me, (void **)&mapped), WEFT_ERR_ARGUMENT, "0 bytes");
    FAILS(weft_map(job, host, 8, n, (void **)&mapped), WEFT_ERR_PE, "does not exist");
    FAILS(weft_map(job, &job, 8, me, (void **)&mapped), WEFT_ERR_ADDRESS, "nor registered");
    FAILS(weft_map(job, host, 8, me, NULL), WEFT_ERR_ARGUMENT, "mapped is null");
    FAILS(weft_map(NULL, host, 8, me, (void **)&mapped), WEFT_ERR_ARGUMENT, "job is null");
    FAILS(weft_unmap(job, host), WEFT_ERR_ADDRESS, "was not returned by weft_map()");
    OK(weft_free(job, host));
}

/* A child process has no mapping, and the parent's mappings stay. */
static void a_fork(void)
{
    char *mapped;
    OK(weft_map(job, gpu, 100, me, (void **)&mapped));
    mapped[7] = 42;
    OK(weft_map_flush(job, mapped));
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        if (weft_map(job, gpu, 100, me, (void **)&mapped) == WEFT_OK)
            _exit(1);
        mapped[7] = 1;
        _exit(2); /* the store succeeded, which is an error */
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
          WTERMSIG(status) == SIGSEGV);
    OK(weft_copy_from(job, came, gpu + 7, 1));
    CHECK(came[0] == 42);
    OK(weft_unmap(job, mapped));
}

int main(int argc, char **argv)
{
    weft_init_attr attr = {.size = sizeof attr, .thread = WEFT_THREAD_MULTIPLE};
    OK(weft_init(&job, &attr));
    ctx = weft_default_ctx(job);
    world = weft_team_world(job);
    me = weft_my_pe(job);
    n = weft_n_pes(job);
    next = (me + 1) % n;
    sent = malloc(LARGE);
    came = malloc(LARGE + 64);
    CHECK(sent && came);
    weft_map_info info = {.size = sizeof info};
    FAILS(weft_map_query(job, 0, &info), WEFT_ERR_UNSUPPORTED, "no GPU side");
    host_memory();
    gpu = gpu_alloc(job, ROOM, 0);
    bool works = expect_way(argc > 1 ? argv[1] : "any", argc > 2 ? argv[2] : NULL);
    void *mapped;
    if (works && argc > 3 && !strcmp(argv[3], "scarce")) { /* room for only a few windows */
        FAILS(weft_map(job, gpu, ROOM, me, &mapped), WEFT_ERR_NO_MEMORY, "0x1a");
    } else if (works) {
        mappings();
        own_memory();
    } else {
        FAILS(weft_map(job, gpu, 8, next, &mapped), WEFT_ERR_UNSUPPORTED, "");
    }
    copies();
    OK(weft_barrier(world));
    operations();
    threads();
    if (works && argc <= 3)
        a_fork();
    OK(weft_finalize(job));
    printf("PE %d: good\n", me);
    return 0;
}
