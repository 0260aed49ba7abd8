/* SPDX-License-Identifier: Apache-2.0 */
/* Runs striped copies by PEs that are threads over the stand-in of the CUDA driver, and makes each
 * driver call fail once. A copy is right, or it fails with a message and no part of it is still
 * running. No object is left. Shows also that a copy works while the heap grows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/config.h"
#include "base/status.h"
#include "boot/agree.h"
#include "fake_cuda.h"
#include "gpu/multipath/relay.h"
#include "gpu/multipath/stripe.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = (8 << 20) + 4096 + 24, COPIES = 3 };

static size_t bytes; /* bytes of a copy */
static bool grow;    /* the heap grows during the first copy */
static unsigned char noise[MOST_BYTES + 1024];

static int set_up(void **state)
{
    (void)state;
    uint64_t x = 88172645463325252u;
    for (size_t i = 0; i < sizeof noise; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        noise[i] = (unsigned char)(x >> 32);
    }
    setenv("WEFT_WAIT_LIMIT", "10s", 1);
    setenv("WEFT_LOG", "error", 1);
    setenv("WEFT_GPU_HEAP_SIZE", "256M", 1);
    setenv("WEFT_PROVE", "off", 1);
    setenv("FAKE_CUDA_DEVICES", "3", 1);
    setenv("FAKE_NVML_LINKS", "0-1:1,0-2:2,1-2:2", 1);
    return fake_cuda_find();
}

struct pe {
    weft_group *group;
    int pe;
    weft_status opened, copied[COPIES];
    char sentence[512], text[200];
    bool right[COPIES]; /* the data of the other PE are right */
};

/* Data that a PE puts with its copy. */
static const unsigned char *contents(int pe, int copy)
{
    return noise + pe * 91 + copy * 17;
}

/* Distance between the places of two copies. */
static size_t room(void)
{
    return (bytes & ~(size_t)4095) + 4096 + 24;
}

static void *at(CUdeviceptr address)
{
    return (void *)(uintptr_t)address;
}

/* Makes all copies, also after one has failed; each has its own place. */
static void put_all(struct gpu *gpu, struct pe *pe, unsigned char *plain)
{
    int other = 1 - gpu->boot->local_pe;
    size_t first = gpu->layout.system_bytes;
    CUdeviceptr from = gpu_heap_own(&gpu->heap)->base + first;
    CUdeviceptr to = gpu->heap.windows[other].base + first + room();
    bool mapped = gpu->heap.windows[other].mapped; /* otherwise no path leads there any more */
    for (int copy = 0; copy < COPIES; copy++) {
        pe->copied[copy] = WEFT_ERR_NO_PATH;
        if (!mapped)
            continue;
        memcpy(plain, contents(gpu->boot->pe, copy), bytes);
        weft_status status = gpu_copy(gpu, 1, at(from), plain, bytes, GPU_DONE);
        if (!status && grow && copy == 0)
            gpu_heap_begin_growing(&gpu->heap); /* as if another thread grew the heap */
        if (!status)
            status = gpu_copy_peer(gpu, gpu, other, 1, at(to + (size_t)copy * room()), at(from),
                                   bytes, copy == 1 ? GPU_IN_ORDER : GPU_DONE);
        if (grow && copy == 0)
            gpu_heap_end_growing(&gpu->heap);
        if (!status)
            status = gpu_quiet(gpu);
        pe->copied[copy] = status;
        if (status)
            snprintf(pe->sentence, sizeof pe->sentence, "%s", base_last_error());
    }
}

static void see_all(struct gpu *gpu, struct pe *pe, unsigned char *plain)
{
    size_t first = gpu->layout.system_bytes + room();
    CUdeviceptr own = gpu_heap_own(&gpu->heap)->base + first;
    for (int copy = 0; copy < COPIES; copy++) {
        const void *place = at(own + (size_t)copy * room());
        /* The second attempt succeeds, since the planned fault has happened. */
        pe->right[copy] = !gpu_copy(gpu, 0, plain, place, bytes, GPU_DONE) ||
                          !gpu_copy(gpu, 0, plain, place, bytes, GPU_DONE);
        pe->right[copy] &= memcmp(plain, contents(1 - gpu->boot->pe, copy), bytes) == 0;
    }
}

static void *run_pe(void *argument)
{
    struct pe *pe = argument;
    struct boot *boot;
    struct gpu *gpu;
    unsigned char *plain = malloc(MOST_BYTES);
    pe->opened = boot_open(&boot, pe->group, pe->pe);
    if (pe->opened)
        return NULL;
    pe->opened = gpu_open(&gpu, boot, NULL, 32, GPU_RELAY_WHERE_NEEDED);
    /* The library's own area leaves too little of the first chunk. */
    if (!pe->opened)
        pe->opened = gpu_heap_grow(&gpu->heap, gpu->layout.system_bytes + (1 + COPIES) * room());
    if (!pe->opened) {
        put_all(gpu, pe, plain);
        boot->ops->barrier(boot);
        see_all(gpu, pe, plain);
        gpu_stripes_text(gpu, 1 - boot->local_pe, pe->text, sizeof pe->text);
    }
    boot->ops->barrier(boot);
    gpu_close(gpu);
    boot->ops->close(boot, pe->opened == WEFT_OK);
    free(plain);
    return NULL;
}

static void run(struct pe *pes)
{
    weft_group *group;
    pthread_t threads[2];
    config_reset();
    assert_int_equal(weft_group_create(2, &group), WEFT_OK);
    for (int i = 0; i < 2; i++) {
        pes[i] = (struct pe){.group = group, .pe = i};
        pthread_create(&threads[i], NULL, run_pe, &pes[i]);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    weft_group_destroy(group);
}

/* Fails if a copy reports success and its data are wrong, or if a failed copy has no message. */
static void assert_honest(const struct pe *pes, const char *name, unsigned k)
{
    for (int pe = 0; pe < 2; pe++)
        for (int copy = 0; copy < COPIES; copy++) {
            if (!pes[pe].copied[copy] && !pes[1 - pe].right[copy])
                fail_msg("%s, use %u: copy %d of PE %d is wrong (%s)", name, k, copy, pe,
                         pes[pe].text);
            if (pes[pe].copied[copy] && pes[pe].copied[copy] != WEFT_ERR_NO_PATH &&
                !strstr(pes[pe].sentence, fake_is_amd() ? "hipErrorUnknown" : "CUDA_ERROR_UNKNOWN"))
                fail_msg("%s, use %u: PE %d says \"%s\"", name, k, pe, pes[pe].sentence);
        }
}

static void all_right(const char *words)
{
    struct pe pes[2];
    run(pes);
    for (int pe = 0; pe < 2; pe++) {
        assert_int_equal(pes[pe].opened, WEFT_OK);
        for (int copy = 0; copy < COPIES; copy++) {
            assert_int_equal(pes[pe].copied[copy], WEFT_OK);
            assert_true(pes[pe].right[copy]);
        }
        if (!strstr(pes[pe].text, words))
            fail_msg("PE %d: \"%s\" instead of \"%s\"", pe, pes[pe].text, words);
    }
    fake_cuda_expect_nothing();
}

static void nothing_fails(void **state)
{
    (void)state;
    bytes = 300 * 1024 + 24;
    setenv("WEFT_TEST_STRIPES", "2", 1);
    all_right("striped over 2 routes by WEFT_TEST_STRIPES (direct, over GPU 2)");
    grow = true;
    all_right("striped over 2 routes by WEFT_TEST_STRIPES (direct, over GPU 2)");
    grow = false;
    setenv("WEFT_TEST_STRIPES", "1", 1);
    all_right("");
    bytes = MOST_BYTES;
    setenv("WEFT_TEST_STRIPES", "0", 1);
    setenv("FAKE_CUDA_RATES", "0-1:25,0-2:50,1-2:50", 1);
    all_right("striped from 1024 KiB: direct 25.0 + GPU 2 50.0");
    unsetenv("FAKE_CUDA_RATES");
}

/* Without a relay GPU, the peer's own GPU serves the second route. */
static void no_third(void **state)
{
    (void)state;
    bytes = 300 * 1024;
    setenv("WEFT_TEST_STRIPES", "2", 1);
    setenv("FAKE_CUDA_NO_PEER", "1-2", 1);
    all_right("over 2 routes by WEFT_TEST_STRIPES (direct, over GPU ");
    unsetenv("FAKE_CUDA_NO_PEER");
}

static void one_call_fails(const char *name, unsigned most, unsigned *failed, unsigned *one_way)
{
    for (unsigned k = 1; k <= most; k++) {
        struct pe pes[2];
        assert_true(gpu_api_fault_plan(name, k, CUDA_ERROR_UNKNOWN));
        run(pes);
        unsigned uses = gpu_api_fault_uses();
        gpu_api_fault_plan(NULL, 0, 0);
        assert_int_equal(pes[0].opened, pes[1].opened);
        if (!pes[0].opened) {
            assert_honest(pes, name, k);
            for (int pe = 0; pe < 2; pe++) {
                *one_way += strncmp(pes[pe].text, "one route", 9) == 0;
                for (int copy = 0; copy < COPIES; copy++)
                    *failed +=
                        pes[pe].copied[copy] != WEFT_OK && pes[pe].copied[copy] != WEFT_ERR_NO_PATH;
            }
        }
        fake_cuda_expect_nothing();
        fake.reset();
        if (uses < k)
            return;
    }
}

static void each_call_fails(void **state)
{
    static const char *const names[] = {
        "MemcpyAsync",  "StreamWaitEvent",        "EventRecord",        "EventCreate",
        "MemSetAccess", "DevicePrimaryCtxRetain", "StreamCreate",       "ModuleLoadDataEx",
        "MemHostAlloc", "DeviceGetP2PAttribute",  "DeviceCanAccessPeer"};
    unsigned failed = 0, one_way = 0;
    (void)state;
    bytes = 130 * 1024;
    setenv("WEFT_TEST_STRIPES", "2", 1);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        one_call_fails(names[i], 60, &failed, &one_way);
    assert_true(failed > 10);
    assert_true(one_way > 5);
}

static void host_way_fails(void **state)
{
    static const char *const names[] = {"MemHostAlloc", "StreamCreate",    "EventCreate",
                                        "MemcpyAsync",  "StreamWaitEvent", "EventRecord"};
    unsigned failed = 0, one_way = 0;
    (void)state;
    bytes = 1300 * 1024; /* three fragments */
    setenv("WEFT_TEST_STRIPES", "2", 1);
    setenv("WEFT_STRIPE_HOST", "8M", 1);
    all_right("striped over 2 routes by WEFT_TEST_STRIPES (direct, over host memory)");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        one_call_fails(names[i], 60, &failed, &one_way);
    assert_true(failed > 10);
    assert_true(one_way > 5);
    unsetenv("WEFT_STRIPE_HOST");
}

static void measuring_fails(void **state)
{
    static const char *const names[] = {"EventElapsedTime", "EventCreate", "EventRecord"};
    unsigned failed = 0, one_way = 0;
    (void)state;
    bytes = MOST_BYTES;
    setenv("WEFT_TEST_STRIPES", "0", 1);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        one_call_fails(names[i], 9, &failed, &one_way);
    assert_true(failed > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_fails),   cmocka_unit_test(no_third),
        cmocka_unit_test(each_call_fails), cmocka_unit_test(host_way_fails),
        cmocka_unit_test(measuring_fails),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
