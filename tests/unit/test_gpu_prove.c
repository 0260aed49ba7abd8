/* SPDX-License-Identifier: Apache-2.0 */
/* Shows which pairs of GPUs are tested, what arguments the kernel gets, which PE's result counts,
 * and what is left when a step fails. This PE is PE 3 of 6, the second of its node; its local peers
 * are PE 1 and PE 4. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/config.h"
#include "base/status.h"
#include "boot/boot.h"
#include "counted.h"
#include "gpu/gpu.h"
#include "gpu/kernels.h"
#include "gpu/multipath/relay.h"
#include "gpu/stream.h"
#include "gpu/test/cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PES = 6, SLOTS = 3, ME = 3, OWN = 1, MOVED = 1 << 20, PROOF_AT = 1000, STREAM = 0x77 };

static struct gpu gpu;
static struct gpu_window windows[SLOTS];
static int local_pes[SLOTS] = {1, 3, 4};
static struct boot boot;
static char text[1024]; /* log of the calls */
/* The call of the driver with number `fails` fails. */
static int entered, pinned, calls, fails;
static bool knows[SLOTS];     /* by slot: the cache has the pair with that slot */
static bool known_there[PES]; /* by PE: that PE's cache has the pair with this PE */
static int32_t counts_there[PES];
static struct {
    int32_t stage;
    char evidence[180];
} there[PES];
static struct prove_report reports[SLOTS]; /* in the order of the pairs */
static struct prove_pair pairs[SLOTS];
static unsigned blocks;
static uint64_t limit;
static void *host;
static int gathers, gather_fails;
static weft_status barrier_answer, launch_answer, wait_answer;

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, sizeof text - used, format, args);
    va_end(args);
}

static void expect(const char *wanted)
{
    assert_string_equal(text, wanted);
    text[0] = '\0';
    assert_int_equal(entered, 0);
    assert_int_equal(pinned, 0);
}

static weft_status allgather(struct boot *of, const void *mine, void *all, size_t bytes)
{
    memset(all, 0, PES * bytes);
    if (++gathers == gather_fails)
        return base_fail(WEFT_ERR_PEER_DEAD, "PE 1 is gone");
    memcpy((char *)all + ME * bytes, mine, bytes);
    for (int pe = 0; pe < PES; pe++) {
        if (pe == ME)
            continue;
        if (bytes == PES)
            ((char *)all)[pe * PES + ME] = known_there[pe];
        else if (bytes == 4 && gathers > 1)
            ((int32_t *)all)[pe] = counts_there[pe];
        else if (bytes == PES * sizeof there[0])
            memcpy((char *)all + ((size_t)pe * PES + ME) * sizeof there[0], &there[pe],
                   sizeof there[0]);
        else
            assert_int_equal(bytes, 4);
    }
    return WEFT_OK;
}

static weft_status barrier(struct boot *of)
{
    note("barrier ");
    return barrier_answer ? base_fail(barrier_answer, "no barrier") : WEFT_OK;
}

static const struct boot_ops ops = {.allgather = allgather, .barrier = barrier};

static CUresult call(void)
{
    return ++calls == fails ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult push(CUcontext context)
{
    CUresult result = call();
    entered += !result;
    return result;
}

static CUresult pop(CUcontext *context)
{
    entered--;
    return CUDA_SUCCESS;
}

static CUresult memset_async(CUdeviceptr at, unsigned char value, size_t bytes, CUstream stream)
{
    assert_int_equal(at, 0x200000 + PROOF_AT);
    assert_int_equal(bytes, SLOTS * sizeof(struct prove_area));
    assert_true(value == 0 && stream == (CUstream)STREAM);
    note("clear ");
    return call();
}

static CUresult host_alloc(void **address, size_t bytes, unsigned flags)
{
    CUresult result = call();
    assert_int_equal(flags, CU_MEMHOSTALLOC_DEVICEMAP);
    assert_true(bytes > 0);
    assert_int_equal(bytes % (sizeof pairs[0] + sizeof reports[0]), 0);
    if (result)
        return result;
    *address = host = __real_malloc(bytes);
    memset(host, 0xff, bytes);
    pinned++;
    return CUDA_SUCCESS;
}

static CUresult free_host(void *address)
{
    assert_ptr_equal(address, host);
    __real_free(address);
    pinned--;
    return CUDA_SUCCESS;
}

static CUresult device_pointer(CUdeviceptr *seen, void *address, unsigned flags)
{
    *seen = (uintptr_t)address + MOVED;
    return call();
}

static CUresult error_text(CUresult result, const char **words)
{
    *words = "FAILED";
    return CUDA_SUCCESS;
}

weft_status __wrap_gpu_launch(const struct gpu_module *module, enum gpu_kernel kernel, unsigned n,
                              unsigned threads, CUstream stream, void **arguments);
weft_status __wrap_gpu_launch(const struct gpu_module *module, enum gpu_kernel kernel, unsigned n,
                              unsigned threads, CUstream stream, void **arguments)
{
    assert_ptr_equal(module, &gpu.module);
    assert_true(kernel == GPU_weft_kernel_prove && threads == PROVE_THREADS &&
                stream == (CUstream)STREAM);
    note("launch ");
    if (launch_answer)
        return base_fail(launch_answer, "no launch");
    blocks = n;
    assert_int_equal(*(CUdeviceptr *)arguments[0], (uintptr_t)host + MOVED);
    limit = *(uint64_t *)arguments[1];
    assert_int_equal(*(CUdeviceptr *)arguments[2], (uintptr_t)host + MOVED + n * sizeof pairs[0]);
    memcpy(pairs, host, n * sizeof pairs[0]);
    struct prove_report *to = (struct prove_report *)((char *)host + n * sizeof pairs[0]);
    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(to[i].stage, 0);
        to[i] = reports[i];
    }
    return WEFT_OK;
}

weft_status __wrap_gpu_wait_stream(struct gpu *by, CUstream stream, const char *what);
weft_status __wrap_gpu_wait_stream(struct gpu *by, CUstream stream, const char *what)
{
    assert_ptr_equal(stream, (CUstream)STREAM);
    note("wait ");
    return wait_answer && strstr(what, "links") ? base_fail(wait_answer, "it hangs") : WEFT_OK;
}

void __wrap_gpu_relay_add_fallback(struct gpu *by, int slot);
void __wrap_gpu_relay_add_fallback(struct gpu *by, int slot)
{
    note("relay%d ", slot);
}

void __wrap_gpu_heap_drop(struct gpu_heap *heap, int slot, const char *evidence);
void __wrap_gpu_heap_drop(struct gpu_heap *heap, int slot, const char *evidence)
{
    note("drop%d: %s ", slot, evidence);
    heap->windows[slot].mapped = false;
}

static int slot_of(const CUuuid *uuid)
{
    return uuid->bytes[3] - 'a';
}

bool __wrap_proof_cache_contains(const CUuuid *a, const CUuuid *b, int driver_version);
bool __wrap_proof_cache_contains(const CUuuid *a, const CUuuid *b, int driver_version)
{
    assert_true(a == &gpu.device.uuid && driver_version == 12345);
    return knows[slot_of(b)];
}

void __wrap_proof_cache_add(const CUuuid *a, const CUuuid *b, int driver_version);
void __wrap_proof_cache_add(const CUuuid *a, const CUuuid *b, int driver_version)
{
    assert_true(a == &gpu.device.uuid && driver_version == 12345);
    note("keep%d ", slot_of(b));
}

static int set_up(void **state)
{
    memset(&gpu, 0, sizeof gpu);
    memset(windows, 0, sizeof windows);
    memset(knows, 0, sizeof knows);
    memset(known_there, 0, sizeof known_there);
    memset(counts_there, 0, sizeof counts_there);
    memset(there, 0, sizeof there);
    text[0] = '\0';
    entered = pinned = calls = fails = gathers = gather_fails = 0;
    barrier_answer = launch_answer = wait_answer = WEFT_OK;
    boot = (struct boot){.ops = &ops,
                         .pe = ME,
                         .npes = PES,
                         .local_pe = OWN,
                         .local_npes = SLOTS,
                         .local_pes = local_pes};
    gpu.driver = (struct gpu_api){.CtxPushCurrent = push,
                                  .CtxPopCurrent = pop,
                                  .MemsetD8Async = memset_async,
                                  .MemHostAlloc = host_alloc,
                                  .MemFreeHost = free_host,
                                  .MemHostGetDevicePointer = device_pointer,
                                  .GetErrorName = error_text,
                                  .GetErrorString = error_text,
                                  .driver_version = 12345};
    gpu.device.driver = &gpu.driver;
    gpu.boot = &boot;
    gpu.heap.boot = &boot;
    gpu.heap.windows = windows;
    gpu.layout.proof_offset = PROOF_AT;
    gpu.streams[0].stream = (CUstream)STREAM;
    for (int slot = 0; slot < SLOTS; slot++) {
        windows[slot].base = 0x100000 * (CUdeviceptr)(slot + 1);
        windows[slot].mapped = true;
        windows[slot].gpu.uuid.bytes[3] = (char)('a' + slot);
        reports[slot] = (struct prove_report){.stage = PROVE_GOOD, .elapsed_ns = 2500000};
    }
    gpu.device.uuid = windows[2].gpu.uuid; /* PE 4 uses the same GPU */
    for (int pe = 0; pe < PES; pe++)
        there[pe].stage = PROVE_GOOD;
    setenv("WEFT_PROVE", "cached", 1);
    counted_begin();
    return 0;
}

#define ALL_WELL "clear wait barrier launch wait "

static CUdeviceptr area(int at, int from)
{
    return windows[at].base + PROOF_AT + (size_t)from * sizeof(struct prove_area);
}

static void all_pairs_are_tested(void **state)
{
    static const uint64_t rounds[] = {8, 2};
    static const int slots[] = {0, 2};
    assert_int_equal(gpu_prove(&gpu), WEFT_OK);
    expect(ALL_WELL "keep2 "); /* the other PE caches the other pair */
    assert_int_equal(blocks, 2);
    assert_int_equal(limit, 4000000000u);
    for (int i = 0; i < 2; i++) {
        assert_int_equal((uintptr_t)pairs[i].own, area(OWN, slots[i]));
        assert_int_equal((uintptr_t)pairs[i].peer, area(slots[i], OWN));
        assert_true(pairs[i].me == OWN && pairs[i].other == (uint64_t)slots[i]);
        assert_int_equal(pairs[i].rounds, rounds[i]);
    }
    assert_string_equal(windows[0].evidence,
                        "tested: patterns, flags and atomics exchanged with PE 1 in 2.50 ms");
    assert_string_equal(windows[2].evidence,
                        "tested: patterns, flags and atomics exchanged with PE 4 in 2.50 ms");
    assert_string_equal(windows[OWN].evidence, "");
}

static void an_earlier_test_counts_where_both_know_of_it(void **state)
{
    for (int i = 0; i < 4; i++) {
        set_up(state);
        knows[0] = i & 1;
        known_there[1] = i & 2;
        known_there[3] = known_there[0] = true;
        assert_int_equal(gpu_prove(&gpu), WEFT_OK);
        expect(ALL_WELL "keep2 ");
        assert_int_equal(blocks, i == 3 ? 1 : 2);
        assert_int_equal(!strncmp(windows[0].evidence, "tested before since", 19), i == 3);
    }
    setenv("WEFT_PROVE", "always", 1);
    config_reset();
    assert_int_equal(gpu_prove(&gpu), WEFT_OK);
    expect(ALL_WELL "keep2 ");
    assert_int_equal(blocks, 2);
    windows[2].mapped = false; /* a window that is not mapped is not tested */
    assert_int_equal(gpu_prove(&gpu), WEFT_OK);
    expect(ALL_WELL);
    assert_int_equal(blocks, 1);
    assert_int_equal(pairs[0].other, 0);
}

static void without_a_pair_nothing_runs(void **state)
{
    windows[0].mapped = windows[2].mapped = false;
    assert_int_equal(gpu_prove(&gpu), WEFT_OK);
    expect("");
    counts_there[5] = 1; /* this PE takes part, since another PE has pairs to test */
    gathers = 0;
    assert_int_equal(gpu_prove(&gpu), WEFT_OK);
    expect("clear wait barrier ");
    set_up(state);
    boot.npes = 1;
    assert_int_equal(gpu_prove(&gpu), WEFT_OK);
    boot.npes = PES;
    setenv("WEFT_PROVE", "off", 1);
    config_reset();
    assert_int_equal(gpu_prove(&gpu), WEFT_OK);
    expect("");
    assert_int_equal(gathers, 0);
}

static void the_kernel_ends_before_the_others_wait_limit(void **state)
{
    static const uint64_t rows[][2] = {{20000000000u, 4000000000u},
                                       {16000000000u, 4000000000u},
                                       {15999999996u, 3999999999u},
                                       {8, 2},
                                       {0, 4000000000u}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gpu.wait_limit_ns = rows[i][0];
        assert_int_equal(gpu_prove(&gpu), WEFT_OK);
        assert_int_equal(limit, rows[i][1]);
    }
    text[0] = '\0';
}

/* If both PEs report a failure, a wrong value counts before a timeout. */
static void the_finding_that_says_more_counts(void **state)
{
    static const struct {
        uint64_t here;
        int32_t there;
        bool own; /* the text names what this PE saw */
    } rows[] = {
        {PROVE_NO_FLAG, PROVE_GOOD, true},
        {PROVE_GOOD, PROVE_NO_FLAG, false},
        {PROVE_NO_FLAG, PROVE_NO_FLAG, true},
        {PROVE_NO_FLAG, PROVE_STALE, false},
        {PROVE_STALE, PROVE_NO_FLAG, true},
        {PROVE_STALE, PROVE_STALE, true},
        {PROVE_GUARD, PROVE_GOOD, true},
        {PROVE_GOOD, PROVE_GUARD, false},
        {0, PROVE_GOOD, true},
        {PROVE_NO_FLAG, -1, true},
        {PROVE_GOOD, -1, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char saw[256], wanted[512];
        set_up(state);
        reports[1].stage = rows[i].here;
        there[4].stage = rows[i].there;
        snprintf(there[4].evidence, sizeof there[4].evidence, "another thing");
        prove_describe(&reports[1], "PE 4", saw, sizeof saw);
        snprintf(wanted, sizeof wanted, ALL_WELL "relay2 drop2: the test failed, PE %d saw: %s ",
                 rows[i].own ? 3 : 4, rows[i].own ? saw : "another thing");
        assert_int_equal(gpu_prove(&gpu), WEFT_OK);
        expect(wanted);
        assert_memory_equal(windows[0].evidence, "tested: ", 8);
    }
}

static void a_pe_that_cannot_take_part_says_so(void **state)
{
    static const struct {
        int fails;
        weft_status launch, wait;
        const char *calls, *why;
    } rows[] = {
        {1, 0, 0, "barrier ", "FAILED"},
        {2, 0, 0, "clear barrier ", "clearing the test areas"},
        {3, 0, 0, "clear wait barrier ", "cuMemHostAlloc"},
        {4, 0, 0, "clear wait barrier ", "cuMemHostGetDevicePointer"},
        {0, WEFT_ERR_SYSTEM, 0, "clear wait barrier launch ", "no launch"},
        {0, 0, WEFT_ERR_TIMEOUT, "clear wait barrier launch wait ", "it hangs"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        set_up(state);
        fails = rows[i].fails;
        launch_answer = rows[i].launch;
        wait_answer = rows[i].wait;
        assert_int_equal(gpu_prove(&gpu), WEFT_OK);
        assert_memory_equal(text, rows[i].calls, strlen(rows[i].calls));
        assert_memory_equal(text + strlen(rows[i].calls), "relay0 drop0: ", 14);
        assert_non_null(strstr(text, "relay2 drop2: the test failed, PE 3 saw: "));
        assert_non_null(strstr(text, rows[i].why));
        assert_null(strstr(text, "keep"));
        text[0] = '\0';
        expect("");
    }
}

static void a_step_of_all_that_fails_ends_the_test(void **state)
{
    static const char *const called[] = {"", "", "", ALL_WELL};
    for (int i = 0; i < 4; i++) {
        set_up(state);
        gather_fails = i + 1;
        assert_int_equal(gpu_prove(&gpu), WEFT_ERR_PEER_DEAD);
        expect(called[i]);
        assert_int_equal(gathers, i + 1);
    }
    set_up(state);
    barrier_answer = WEFT_ERR_PEER_DEAD;
    assert_int_equal(gpu_prove(&gpu), WEFT_ERR_PEER_DEAD);
    expect("clear wait barrier ");
    assert_int_equal(gathers, 3);
    for (int i = 2; i < 5; i++) { /* allocations after those of the collective steps */
        set_up(state);
        gpu_prove(&gpu); /* reads the variables */
        text[0] = '\0';
        gathers = 0;
        counted.fail_in = i;
        weft_status status = gpu_prove(&gpu);
        assert_int_equal(status, i == 3 ? WEFT_OK : WEFT_ERR_NO_MEMORY);
        text[0] = '\0';
        expect("");
    }
}

static void findings_in_words(void **state)
{
    static const struct {
        struct prove_report report;
        const char *words;
    } rows[] = {
        {{PROVE_GOOD, 3, 4, 5, 6, 7250000},
         "patterns, flags and atomics exchanged with gpu1 in 7.25 ms"},
        {{PROVE_NO_FLAG, 3, 4, 5, 6, 7000000},
         "round 3: the flag of gpu1 did not arrive within 7 ms (at 6 instead of 5)"},
        {{PROVE_NO_ACK, 3, 4, 5, 6, 7000000},
         "round 3: the answer of gpu1 did not arrive within 7 ms (at 6 instead of 5)"},
        {{PROVE_STALE, 3, 4, 0x15, 0x16, 7},
         "round 3: word 4 stored by gpu1 is 0x16 where 0x15 was stored before its flag"},
        {{PROVE_READ_BACK, 3, 4, 0x15, 0x16, 7},
         "round 3: word 4 loaded from gpu1 is 0x16, stored was 0x15"},
        {{PROVE_NO_LOCK, 3, 4, 5, 6, 7000000},
         "compare-and-swap with gpu1 did not get the lock within 7 ms"},
        {{PROVE_COUNT, 3, 4, 5, 6, 7}, "atomic additions with gpu1 gave 6 instead of 5"},
        {{PROVE_GUARD, 3, 4, 5, 6, 7},
         "sections guarded by compare-and-swap with gpu1 counted 6 instead of 5"},
        {{0, 3, 4, 5, 6, 7}, "the test kernel left no report on gpu1"},
    };
    char words[200];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        prove_describe(&rows[i].report, "gpu1", words, sizeof words);
        assert_string_equal(words, rows[i].words);
    }
    prove_describe(&rows[0].report, "gpu1", words, 9);
    assert_string_equal(words, "patterns");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, counted_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_pairs_are_tested),
        TEST(an_earlier_test_counts_where_both_know_of_it),
        TEST(without_a_pair_nothing_runs),
        TEST(the_kernel_ends_before_the_others_wait_limit),
        TEST(the_finding_that_says_more_counts),
        TEST(a_pe_that_cannot_take_part_says_so),
        TEST(a_step_of_all_that_fails_ends_the_test),
        TEST(findings_in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
