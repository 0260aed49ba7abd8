/* SPDX-License-Identifier: Apache-2.0 */
/* Runs several PEs (threads) over the stand-in of the CUDA driver. Shows how they share the GPU
 * heap and test each pair of GPUs, what they do with pairs that are refused or lose data and with
 * bad input, and that all PEs agree when one of them fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/config.h"
#include "boot/agree.h"
#include "fake_cuda.h"
#include "gpu/gpu.h"
#include "gpu/test/cache.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_PES = 4 };

static int set_up(void **state)
{
    (void)state;
    static char cache[] = "/tmp/weft-test-XXXXXX";
    if (!mkdtemp(cache))
        return -1;
    setenv("XDG_RUNTIME_DIR", cache, 1);
    setenv("WEFT_WAIT_LIMIT", "4s", 1);
    setenv("WEFT_LOG", "error", 1);
    setenv("WEFT_GPU_HEAP_SIZE", "256M", 1);
    return fake_cuda_find();
}

static void forget_proofs(void)
{
    char path[600];
    if (proof_cache_file(path, sizeof path))
        unlink(path);
}

static int tear_down(void **state)
{
    (void)state;
    char path[600];
    forget_proofs();
    snprintf(path, sizeof path, "%s/weft", getenv("XDG_RUNTIME_DIR"));
    rmdir(path);
    return rmdir(getenv("XDG_RUNTIME_DIR"));
}

struct pe {
    weft_group *group;
    int pe;
    weft_status status;
    char sentence[1024];
    bool mapped[MOST_PES];
    char evidence[MOST_PES][256];
    uint64_t seen[MOST_PES];
};

/* Writes this PE's number into its word of each peer's heap, then reads the words of its own
 * heap. */
static weft_status exchange(struct gpu *gpu, struct pe *pe)
{
    struct boot *boot = gpu->boot;
    size_t offset = 0;
    weft_status status = heap_alloc(gpu->allocator, 4096, 64, &offset);
    if (!status)
        status = gpu_heap_grow(&gpu->heap, 100 << 20);
    for (int slot = 0; !status && slot < boot->local_npes; slot++) {
        CUdeviceptr at = gpu_address(gpu, slot, offset + 8 * (size_t)boot->pe);
        if (at)
            status = gpu_access(gpu, 0, at, WEFT_AMO_SET, 8, 100 + (uint64_t)boot->pe, 0, NULL);
    }
    if (!status)
        status = gpu_quiet(gpu);
    status = boot_agree(boot, status);
    for (int slot = 0; !status && slot < boot->local_npes; slot++)
        status = gpu_access(gpu, 0, gpu_address(gpu, boot->local_pe, offset + 8 * (size_t)slot),
                            GPU_ACCESS_LOAD, 8, 0, 0, &pe->seen[slot]);
    return status;
}

static void *run_pe(void *argument)
{
    struct pe *pe = argument;
    struct boot *boot;
    pe->status = boot_open(&boot, pe->group, pe->pe);
    if (pe->status)
        return NULL;
    struct gpu *gpu;
    pe->status = gpu_open(&gpu, boot, NULL, 32, GPU_RELAY_NEVER);
    if (!pe->status) {
        pe->status = boot_agree(boot, exchange(gpu, pe));
        for (int slot = 0; slot < boot->local_npes; slot++) {
            pe->mapped[slot] = gpu->heap.windows[slot].mapped;
            memcpy(pe->evidence[slot], gpu->heap.windows[slot].evidence, sizeof pe->evidence[0]);
        }
    }
    snprintf(pe->sentence, sizeof pe->sentence, "%s", weft_last_error());
    boot->ops->barrier(boot);
    gpu_close(gpu);
    boot->ops->close(boot, pe->status == WEFT_OK);
    return NULL;
}

static void run(int n, struct pe *pes)
{
    weft_group *group;
    pthread_t threads[MOST_PES];
    config_reset();
    assert_int_equal(weft_group_create(n, &group), WEFT_OK);
    for (int i = 0; i < n; i++) {
        pes[i] = (struct pe){.group = group, .pe = i};
        pthread_create(&threads[i], NULL, run_pe, &pes[i]);
    }
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    weft_group_destroy(group);
}

static void shares_and_proves(void **state)
{
    (void)state;
    struct pe pes[MOST_PES];
    for (int n = 2; n <= MOST_PES; n++) {
        setenv("WEFT_PROVE", "always", 1);
        run(n, pes);
        for (int i = 0; i < n; i++) {
            assert_int_equal(pes[i].status, WEFT_OK);
            for (int j = 0; j < n; j++) {
                if (!pes[i].mapped[j])
                    fail_msg("%d PEs, %d to %d: %s", n, i, j, pes[i].evidence[j]);
                assert_int_equal(pes[i].seen[j], 100 + j);
                if (i != j)
                    assert_non_null(strstr(pes[i].evidence[j], "tested: patterns, flags"));
            }
        }
        fake_cuda_expect_nothing();
    }
    unsetenv("WEFT_PROVE");
}

static void trusts_an_earlier_proof(void **state)
{
    (void)state;
    struct pe pes[MOST_PES];
    forget_proofs();
    run(2, pes);
    assert_int_equal(pes[0].status, WEFT_OK);
    assert_non_null(strstr(pes[0].evidence[1], "tested: patterns"));
    run(2, pes);
    assert_non_null(strstr(pes[0].evidence[1], "tested before"));
    assert_non_null(strstr(pes[1].evidence[0], "tested before"));
    /* A file that other users can write is ignored. */
    char path[600];
    assert_true(proof_cache_file(path, sizeof path));
    char command[700];
    snprintf(command, sizeof command, "chmod 0666 %s", path);
    assert_int_equal(system(command), 0);
    run(2, pes);
    assert_non_null(strstr(pes[0].evidence[1], "tested: patterns"));
    forget_proofs();
}

static void keeps_what_was_measured(void **state)
{
    (void)state;
    const CUuuid one = {"the first of two"}, other = {"the second of it"};
    const size_t sizes[4] = {1048576, 131072, 8192, 0}, more[4] = {7, 77, 777, 7777};
    size_t found[4] = {0};
    char path[600], command[1400];
    assert_true(proof_cache_file(path, sizeof path));
    *strrchr(path, '/') = '\0';
    snprintf(command, sizeof command, "rm -f %s/gpu-copies", path);
    assert_int_equal(system(command), 0);
    assert_false(proof_cache_load_numbers("gpu-copies", &one, 13000, found, 4));
    proof_cache_store_numbers("gpu-copies", &one, 13000, sizes, 4);
    proof_cache_store_numbers("gpu-copies", &other, 13000, more, 4);
    assert_true(proof_cache_load_numbers("gpu-copies", &one, 13000, found, 4));
    assert_memory_equal(found, sizes, sizeof sizes);
    assert_true(proof_cache_load_numbers("gpu-copies", &other, 13000, found, 4));
    assert_memory_equal(found, more, sizeof more);
    assert_false(proof_cache_load_numbers("gpu-copies", &one, 1300, found, 4));
    /* Numbers of an earlier boot are ignored, and so is a file that other users can write. */
    snprintf(command, sizeof command, "sed -i '1s/^./x/' %s/gpu-copies", path);
    assert_int_equal(system(command), 0);
    assert_false(proof_cache_load_numbers("gpu-copies", &one, 13000, found, 4));
    proof_cache_store_numbers("gpu-copies", &one, 13000, more, 4);
    assert_true(proof_cache_load_numbers("gpu-copies", &one, 13000, found, 4));
    assert_false(proof_cache_load_numbers("gpu-copies", &other, 13000, found, 4));
    snprintf(command, sizeof command, "chmod 0666 %s/gpu-copies", path);
    assert_int_equal(system(command), 0);
    assert_false(proof_cache_load_numbers("gpu-copies", &one, 13000, found, 4));
    snprintf(command, sizeof command, "rm %s/gpu-copies", path);
    assert_int_equal(system(command), 0);
}

static void a_lying_pair_is_dropped(void **state)
{
    (void)state;
    struct pe pes[MOST_PES];
    setenv("FAKE_CUDA_LIE", "1", 1);
    setenv("WEFT_LOG", "error", 1);
    run(2, pes);
    unsetenv("FAKE_CUDA_LIE");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pes[i].status, WEFT_OK);
        assert_true(pes[i].mapped[i]);
        assert_false(pes[i].mapped[1 - i]);
        assert_non_null(strstr(pes[i].evidence[1 - i], "the test failed"));
        assert_non_null(strstr(pes[i].evidence[1 - i], "did not arrive"));
    }
    fake_cuda_expect_nothing();
}

static void a_refused_pair_is_not_used(void **state)
{
    (void)state;
    struct pe pes[MOST_PES];
    setenv("FAKE_CUDA_PEER", "0", 1);
    run(2, pes);
    assert_int_equal(pes[0].status, WEFT_OK);
    assert_false(pes[0].mapped[1]);
    assert_non_null(strstr(pes[0].evidence[1],
                           fake_words("cuDeviceCanAccessPeer(0000:10:00.0, 0000:11:00.0): no")));
    assert_int_equal(pes[0].seen[0], 100);
    assert_int_equal(pes[0].seen[1], 0);
    setenv("FAKE_CUDA_DEVICES", "1", 1); /* a PE on the same GPU needs no peer access */
    run(2, pes);
    assert_true(pes[0].mapped[1]);
    assert_int_equal(pes[0].seen[1], 101);
    unsetenv("FAKE_CUDA_DEVICES");
    unsetenv("FAKE_CUDA_PEER");
    fake_cuda_expect_nothing();
}

static void expect(weft_status status, const char *words)
{
    struct pe pes[MOST_PES];
    run(2, pes);
    for (int i = 0; i < 2; i++) {
        if (pes[i].status != status || !strstr(pes[i].sentence, words))
            fail_msg("PE %d: %s, \"%s\" instead of %s with \"%s\"", i,
                     weft_status_name(pes[i].status), pes[i].sentence, weft_status_name(status),
                     words);
    }
    fake_cuda_expect_nothing();
}

static void bad_input(void **state)
{
    (void)state;
    static const struct {
        const char *variable, *value;
        weft_status status;
        const char *words, *amd; /* NULL: not of this vendor */
    } rows[] = {
        {"FAKE_CUDA_DEVICES", "0", WEFT_ERR_UNSUPPORTED, "the driver sees no GPU",
         "HIP sees no GPU"},
        {"FAKE_CUDA_VERSION", "10020", WEFT_ERR_UNSUPPORTED,
         "it supports CUDA 10.2, Weft needs 11.2", NULL},
        {"FAKE_HIP_VERSION", "70151831", WEFT_ERR_UNSUPPORTED, NULL,
         "HIP runtime is too old: it is 7.1, Weft needs 7.2 (ROCm 7.2)"},
        {"FAKE_CUDA_INIT", "803", WEFT_ERR_UNSUPPORTED, "have different versions", NULL},
        {"FAKE_CUDA_INIT", "999", WEFT_ERR_UNSUPPORTED, "cuInit: CUDA_ERROR_UNKNOWN",
         "hipInit: hipErrorUnknown"},
        {"FAKE_CUDA_MODE", "2", WEFT_ERR_UNSUPPORTED, "compute mode Prohibited",
         "compute mode Prohibited"},
        {"FAKE_CUDA_VMM", "0", WEFT_ERR_UNSUPPORTED, "no virtual memory management",
         "no virtual memory management"},
        {"FAKE_CUDA_MAJOR", "6", WEFT_ERR_UNSUPPORTED, "need 7.0 (Volta) or newer", NULL},
        {"FAKE_HIP_ARCH", "gfx1100", WEFT_ERR_UNSUPPORTED, NULL,
         "(Stand-in GPU) is a gfx1100, for which this libweft has no kernels"},
        {"FAKE_CUDA_MEMORY", "40", WEFT_ERR_NO_MEMORY, "has no 64 MiB more",
         "hipMemCreate: GPU 0 (Stand-in GPU, 0000:10:00.0) has no 64 MiB more"},
        {"FAKE_CUDA_MEMORY", "66", WEFT_ERR_NO_MEMORY, "this heap holds 64 MiB",
         "this heap holds 64 MiB; `amd-smi process` shows"},
        {"WEFT_GPU", "7", WEFT_ERR_CONFIG, "names GPU 7, but 2 are visible",
         "but 2 are visible (0 ... 1); HIP_VISIBLE_DEVICES renumbers them"},
        {"WEFT_GPU", "GPU-12", WEFT_ERR_CONFIG, "none of the 2 visible GPUs",
         "none of the 2 visible GPUs"},
        {"WEFT_GPU_HEAP_SIZE", "1T", WEFT_OK, "", ""},
    };
    setenv("WEFT_PROVE", "off", 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *words = fake_is_amd() ? rows[i].amd : rows[i].words;
        if (!words)
            continue;
        const char *before = getenv(rows[i].variable);
        char *copy = before ? strdup(before) : NULL;
        setenv(rows[i].variable, rows[i].value, 1);
        expect(rows[i].status, words);
        if (copy)
            setenv(rows[i].variable, copy, 1);
        else
            unsetenv(rows[i].variable);
        free(copy);
    }
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    setenv("WEFT_GPU", "0000:11:00.0,gpu-fa4e0001", 1);
    expect(WEFT_OK, "");
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("WEFT_GPU");
    unsetenv("WEFT_PROVE");
}

/* CUDA comes first, but WEFT_GPU names GPUs that only HIP calls so. */
static void named_of_the_other_vendor(void **state)
{
    struct gpu_api driver;
    (void)state;
    char *before = getenv("FAKE_GPU") ? strdup(getenv("FAKE_GPU")) : NULL;
    setenv("FAKE_GPU", "both", 1);
    setenv("WEFT_GPU", "GPU-fa4e000100000000,GPU-fa4e000100000001", 1);
    gpu_api_prefer(GPU_VENDOR_NVIDIA);
    expect(WEFT_OK, "");
    assert_int_equal(gpu_api_open(&driver), WEFT_OK);
    assert_int_equal(driver.vendor, GPU_VENDOR_AMD);
    gpu_api_close(&driver);
    setenv("WEFT_GPU", "GPU-fa4e00010000000f", 1);
    gpu_api_prefer(GPU_VENDOR_NVIDIA);
    expect(WEFT_ERR_CONFIG, "none of the 2 visible GPUs");
    assert_int_equal(gpu_api_open(&driver), WEFT_OK);
    assert_int_equal(driver.vendor, GPU_VENDOR_NVIDIA);
    gpu_api_close(&driver);
    unsetenv("WEFT_GPU");
    if (before)
        setenv("FAKE_GPU", before, 1);
    else
        unsetenv("FAKE_GPU");
    free(before);
    gpu_api_prefer(fake_is_amd() ? GPU_VENDOR_AMD : GPU_VENDOR_NVIDIA);
}

/* Makes each driver call fail at one of the PEs: no PE hangs, all return the same status of the
 * opening, and nothing is left. */
static void one_of_them_fails(void **state)
{
    (void)state;
    struct pe pes[MOST_PES];
    setenv("WEFT_PROVE", "off", 1);
    for (const char *const *name = gpu_api_function_names; *name; name++) {
        bool release = strstr(*name, "Release") || strstr(*name, "Unmap") ||
                       strstr(*name, "Free") || strstr(*name, "Destroy") ||
                       strstr(*name, "Unload") || strstr(*name, "Ctx");
        for (unsigned k = 1; !release && k < 100; k++) {
            assert_true(gpu_api_fault_plan(*name, k, CUDA_ERROR_UNKNOWN));
            run(2, pes);
            unsigned uses = gpu_api_fault_uses();
            gpu_api_fault_plan(NULL, 0, 0);
            assert_int_equal(pes[0].status, pes[1].status);
            if (pes[0].status)
                assert_true(strstr(pes[0].sentence, fake_is_amd() ? "hip" : "cu") ||
                            strstr(pes[0].sentence, "GPU"));
            fake_cuda_expect_nothing();
            fake.reset();
            if (uses < k)
                break;
        }
    }
    unsetenv("WEFT_PROVE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_and_proves),          cmocka_unit_test(trusts_an_earlier_proof),
        cmocka_unit_test(keeps_what_was_measured),    cmocka_unit_test(a_lying_pair_is_dropped),
        cmocka_unit_test(a_refused_pair_is_not_used), cmocka_unit_test(bad_input),
        cmocka_unit_test(named_of_the_other_vendor),  cmocka_unit_test(one_of_them_fails),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
