/* SPDX-License-Identifier: Apache-2.0 */
/* The program's own memory registered as symmetric: every kind of operation reaches it at every PE,
 * both addresses are the same memory, blocks are registered and unregistered in any order, and
 * invalid calls get a message. */
#include "gpu_test.h"
#include "own_memory.h"

#include "job/job.h"

#include <dlfcn.h>
#include <weft/gpu.h>

enum { MIB = 1 << 20, PIECE = 4 * MIB };

static struct gpu_api driver;
static weft_job *job;
static weft_ctx *ctx;
static int me, n, next, previous, ordinal;

/* Number of live driver objects; only the stand-in counts them. */
static int live(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*count)(void);
    CHECK(driver);
    *(void **)&count = dlsym(driver, "fake_cuda_live");
    dlclose(driver);
    return count ? count() : 0;
}

static struct piece shareable(size_t bytes)
{
    return make_piece(&driver, bytes, ordinal, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

/* Whether the history of the black box has the call after its first `before` entries. */
static bool recorded(enum box_operation operation, uint64_t before)
{
    const struct box *box = job->box;
    bool found = false;
    for (uint64_t i = before; i < box->past_count; i++)
        found |= box->past[i % BOX_HISTORY].operation == (uint32_t)operation;
    return found;
}

static void unregister(void *symmetric)
{
    uint64_t before = job->box->past_count;
    OK(weft_unregister_symmetric(job, symmetric));
    CHECK(recorded(BOX_OP_UNREGISTER, before));
}

static void *symmetric_of(struct piece piece, size_t at, size_t bytes)
{
    void *symmetric = NULL;
    uint64_t before = job->box->past_count;
    OK(weft_register_symmetric(job, (void *)(uintptr_t)(piece.base + at), bytes, &symmetric));
    CHECK(recorded(BOX_OP_REGISTER, before));
    return symmetric;
}

/* Every kind of operation works on the memory at the next PE. */
static void operations(char *symmetric, struct piece piece, size_t bytes)
{
    unsigned char *sent = malloc(bytes), *seen = malloc(bytes);
    uint64_t *words = (uint64_t *)(void *)symmetric, word = 0;
    make_pattern(sent, me, bytes);
    OK(weft_put(ctx, symmetric, sent, bytes, next));
    OK(weft_barrier(weft_team_world(job)));
    look(job, seen, symmetric, bytes);
    make_pattern(sent, previous, bytes);
    CHECK(memcmp(seen, sent, bytes) == 0);
    /* The program's own address is the same memory. */
    memset(seen, 0, bytes);
    OK(weft_get(ctx, seen, symmetric, bytes, next));
    make_pattern(sent, me, bytes);
    CHECK(memcmp(seen, sent, bytes) == 0);
    char *own = gpu_alloc(job, bytes, 0);
    OK(weft_put(ctx, own, (void *)(uintptr_t)piece.base, bytes, me));
    OK(weft_quiet(ctx));
    look(job, seen, own, bytes);
    make_pattern(sent, previous, bytes);
    CHECK(memcmp(seen, sent, bytes) == 0);
    OK(weft_barrier(weft_team_world(job)));

    OK(weft_p64(ctx, words, 0, me));
    OK(weft_p64(ctx, words + 1, (uint64_t)me, me));
    OK(weft_barrier(weft_team_world(job)));
    for (int pe = 0; pe < n; pe++)
        OK(weft_atomic_fetch_add64(ctx, words, 3, &word, pe));
    OK(weft_barrier(weft_team_world(job)));
    OK(weft_g64(ctx, words, &word, next));
    CHECK(word == (uint64_t)n * 3);
    OK(weft_allreduce(weft_team_world(job), words + 2, words + 1, 1, WEFT_UINT64, WEFT_SUM));
    OK(weft_g64(ctx, words + 2, &word, me));
    CHECK(word == (uint64_t)(n * (n - 1) / 2));
    OK(weft_put_signal(ctx, words + 4, words + 1, 8, words + 5, 1, WEFT_SIGNAL_ADD, next));
    OK(weft_barrier(weft_team_world(job)));
    OK(weft_g64(ctx, words + 4, &word, me));
    CHECK(word == (uint64_t)previous);
    OK(weft_free(job, own));
    free(sent);
    free(seen);
}

static void refusals(void)
{
    void *symmetric = &symmetric;
    CUdeviceptr plain;
    static char host[64];
    CHECK(driver.MemAlloc(&plain, PIECE) == 0);
    FAILS(weft_register_symmetric(job, (void *)(uintptr_t)plain, PIECE, &symmetric),
          WEFT_ERR_ADDRESS, "MemRetainAllocationHandle: error");
    CHECK(symmetric == NULL);
    FAILS(weft_register_symmetric(job, host, sizeof host, &symmetric), WEFT_ERR_ADDRESS,
          "MemRetainAllocationHandle: error");
    FAILS(weft_register_symmetric(job, NULL, 8, &symmetric), WEFT_ERR_ARGUMENT, "8 bytes at");
    FAILS(weft_register_symmetric(job, host, 0, &symmetric), WEFT_ERR_ARGUMENT, "0 bytes at");
    FAILS(weft_register_symmetric(job, host, 8, NULL), WEFT_ERR_ARGUMENT, "address is null");
    FAILS(weft_register_symmetric(NULL, host, 8, &symmetric), WEFT_ERR_ARGUMENT, "job is null");
    char *heap = gpu_alloc(job, 4096, 0);
    FAILS(weft_register_symmetric(job, heap, 4096, &symmetric), WEFT_ERR_ADDRESS,
          "is symmetric already");
    OK(weft_free(job, heap));
    CHECK(driver.MemFree(plain) == 0);

    struct piece piece = shareable(PIECE);
    void *base = (void *)(uintptr_t)piece.base;
    FAILS(weft_register_symmetric(job, base, PIECE + 1, &symmetric), WEFT_ERR_ADDRESS,
          "4194304 of them from that address on");
    FAILS(weft_unregister_symmetric(job, base), WEFT_ERR_ADDRESS, "nothing is registered");
    drop_piece(&driver, piece);
    if (n > 1) {
        piece = make_piece(&driver, PIECE, ordinal, 0);
        FAILS(weft_register_symmetric(job, (void *)(uintptr_t)piece.base, 8, &symmetric),
              WEFT_ERR_UNSUPPORTED,
              weft_team_n_pes(weft_team_node(job)) > 1 ? "peers need a file descriptor"
                                                       : "PE 0 failed");
        drop_piece(&driver, piece);
    }
    int devices = 0;
    CHECK(driver.DeviceGetCount(&devices) == 0);
    if (devices > 1) {
        piece = make_piece(&driver, PIECE, !ordinal, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
        FAILS(weft_register_symmetric(job, (void *)(uintptr_t)piece.base, 8, &symmetric),
              WEFT_ERR_UNSUPPORTED, "this PE's heap is on GPU");
        drop_piece(&driver, piece);
    }
}

/* If one PE's call differs or fails, all PEs refuse it. */
static void mismatches(void)
{
    if (n == 1)
        return;
    void *symmetric;
    struct piece piece = shareable(PIECE);
    char *base = (char *)(uintptr_t)piece.base;
    FAILS(weft_register_symmetric(job, base, me ? 64 : 128, &symmetric), WEFT_ERR_MISMATCH,
          "it must be the same at every PE");
    FAILS(weft_register_symmetric(job, base + (me ? 0 : 64), 64, &symmetric), WEFT_ERR_MISMATCH,
          "it must be the same at every PE");
    struct piece larger = shareable(me ? PIECE : 2 * PIECE);
    FAILS(weft_register_symmetric(job, (void *)(uintptr_t)larger.base, 64, &symmetric),
          WEFT_ERR_MISMATCH, "it must be the same at every PE");
    drop_piece(&driver, larger);
    static char host[64];
    FAILS(weft_register_symmetric(job, me == n - 1 ? host : base, 64, &symmetric), WEFT_ERR_ADDRESS,
          me == n - 1 ? "MemRetainAllocationHandle: error" : " failed: ");
    drop_piece(&driver, piece);
}

/* Address ranges become free again in whatever order they are unregistered, and the heap grows
 * below them. */
static void places(void)
{
    struct piece pieces[3];
    char *at[3];
    uint64_t seen;
    for (int i = 0; i < 3; i++) {
        pieces[i] = shareable((size_t)(i + 2) * PIECE);
        at[i] = symmetric_of(pieces[i], 0, pieces[i].bytes);
        OK(weft_p64(ctx, (uint64_t *)(void *)at[i], 100u * (unsigned)me + (unsigned)i, next));
    }
    OK(weft_barrier(weft_team_world(job)));
    CHECK(at[2] < at[1] && at[1] < at[0]);
    unregister(at[1]);
    FAILS(weft_p64(ctx, (uint64_t *)(void *)at[1], 1, next), WEFT_ERR_ADDRESS, "not a symmetric");
    CHECK(!weft_accessible(job, at[1], next) && weft_accessible(job, at[0], next));
    FAILS(weft_p64(ctx, (uint64_t *)(void *)(at[0] + 2 * PIECE - 4), 1, next), WEFT_ERR_ADDRESS,
          "");
    FAILS(weft_free(job, at[0]), WEFT_ERR_FREE, "not the start");
    for (int i = 0; i < 3; i += 2) {
        OK(weft_g64(ctx, (uint64_t *)(void *)at[i], &seen, me));
        CHECK(seen == 100u * (unsigned)previous + (unsigned)i);
    }
    char *again = symmetric_of(pieces[1], 0, pieces[1].bytes);
    CHECK(again == at[1]); /* the first range that is large enough */
    OK(weft_g64(ctx, (uint64_t *)(void *)again, &seen, me));
    CHECK(seen == 100u * (unsigned)previous + 1);

    weft_gpu_info info = {.size = sizeof info};
    OK(weft_gpu_query(job, &info));
    size_t left =
        info.heap_window - 27 * (size_t)PIECE / 2; /* in addition to what the library uses */
    if (info.heap_window <= (size_t)2048 * MIB) {
        void *none;
        FAILS(weft_alloc(job, WEFT_GPU, left, 0, 0, &none), WEFT_ERR_NO_MEMORY,
              "registered memory");
        struct piece large = shareable(info.heap_window - info.heap_backed);
        FAILS(weft_register_symmetric(job, (void *)(uintptr_t)large.base, 64, &none),
              WEFT_ERR_NO_MEMORY, "do not fit into the GPU heap's windows");
        drop_piece(&driver, large);
    }
    for (int i = 0; i < 3; i++) {
        unregister(at[i]);
        drop_piece(&driver, pieces[i]);
    }
}

static void begin(void)
{
    CUcontext context;
    OK(weft_init(&job, NULL));
    ctx = weft_default_ctx(job);
    me = weft_my_pe(job);
    n = weft_n_pes(job);
    next = (me + 1) % n;
    previous = (me + n - 1) % n;
    char *gpu = gpu_alloc(job, 64, 0);
    OK(gpu_api_open(&driver));
    CHECK(driver.PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                     (uintptr_t)gpu) == 0);
    CHECK(driver.DevicePrimaryCtxRetain(&context, ordinal) == 0);
    CHECK(driver.CtxPushCurrent(context) == 0);
}

static void end(void)
{
    CUcontext context;
    OK(weft_finalize(job));
    CHECK(driver.CtxPopCurrent(&context) == 0);
    CHECK(driver.DevicePrimaryCtxRelease(ordinal) == 0);
    gpu_api_close(&driver);
}

/* One call of the driver fails at PE 0: all PEs get an error, no object is left, and the next
 * attempt succeeds. */
static void one_fails(const char *call)
{
    void *symmetric;
    uint64_t seen;
    CHECK(gpu_api_fault_plan(call, 0, 0)); /* tables opened from here on can inject this fault */
    begin();
    struct piece piece = shareable(PIECE);
    char *base = (char *)(uintptr_t)piece.base;
    uint64_t *word;
    OK(weft_alloc(job, WEFT_GPU, 8, 0, WEFT_ALLOC_ZERO, (void **)&word));
    OK(weft_p64(ctx, word, 1, next)); /* a path creates its events at first use */
    OK(weft_g64(ctx, word, &seen, next));
    OK(weft_free(job, word));
    int alive = live();
    CHECK(gpu_api_fault_plan(call, me == 0, CUDA_ERROR_UNKNOWN));
    weft_status status = weft_register_symmetric(job, base, PIECE, &symmetric);
    /* A thread of a path also queries attributes, so its query may be the one that fails. */
    if (status || strcmp(call, "PointerGetAttribute") != 0) {
        CHECK(status == WEFT_ERR_SYSTEM || status == WEFT_ERR_ADDRESS);
        CHECK(strstr(weft_last_error(), me ? "PE 0" : call));
    }
    CHECK(gpu_api_fault_plan(call, 0, 0));
    if (status) {
        CHECK(live() == alive);
        OK(weft_register_symmetric(job, base, PIECE, &symmetric));
    }
    OK(weft_p64(ctx, symmetric, 5 + (uint64_t)me, next));
    OK(weft_barrier(weft_team_world(job)));
    OK(weft_g64(ctx, symmetric, &seen, me));
    CHECK(seen == 5 + (uint64_t)previous);
    unregister(symmetric);
    CHECK(live() == alive);
    drop_piece(&driver, piece);
    end();
    CHECK(!gpu_api_fault_plan(NULL, 0, 0));
}

int main(void)
{
    begin();
    struct piece piece = shareable(PIECE);
    char *symmetric = symmetric_of(piece, 0, PIECE);
    CHECK(weft_ptr(job, symmetric, me) == NULL || weft_ptr(job, symmetric, me) == symmetric);
    operations(symmetric, piece, 300001);
    void *twice = symmetric_of(piece, 4096, 64); /* part of it again, with its own end */
    uint64_t seen = 0;
    OK(weft_p64(ctx, twice, 77 + (uint64_t)me, next));
    OK(weft_barrier(weft_team_world(job)));
    OK(weft_g64(ctx, (uint64_t *)(void *)(symmetric + 4096), &seen, me));
    CHECK(seen == 77 + (uint64_t)previous);
    OK(weft_g64(ctx, (uint64_t *)(void *)(symmetric + 4096), &seen, next));
    CHECK(seen == 77 + (uint64_t)me);
    unregister(twice);
    unregister(symmetric);
    refusals();
    mismatches();
    places();
    symmetric_of(piece, 0, PIECE); /* finalize unregisters it */
    end();
    static const char *const calls[] = {"MemRetainAllocationHandle",
                                        "MemGetAllocationPropertiesFromHandle",
                                        "PointerGetAttribute",
                                        "MemMap",
                                        "MemSetAccess",
                                        "MemExportToShareableHandle",
                                        "MemImportFromShareableHandle"};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (n > 1 || i < 5) /* a single PE exports no handle */
            one_fails(calls[i]);
    return 0;
}
