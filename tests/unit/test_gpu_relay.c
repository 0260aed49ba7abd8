/* SPDX-License-Identifier: Apache-2.0 */
/* Runs PEs as threads over the stand-in of the CUDA driver. Shows which relay GPU serves each pair,
 * what is reported if there is none, and that relayed data arrive before and after a growth of the
 * heap, also from memory that only one GPU can access. Each driver call may fail: then the PE has
 * no relay GPU and reports why, or all PEs agree on the failure. Nothing is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/config.h"
#include "boot/agree.h"
#include "fake_cuda.h"
#include "gpu/multipath/relay.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PES = 8 };

static enum gpu_relay_policy wish;

static int set_up(void **state)
{
    (void)state;
    setenv("WEFT_WAIT_LIMIT", "10s", 1);
    setenv("WEFT_LOG", "error", 1);
    setenv("WEFT_GPU_HEAP_SIZE", "256M", 1);
    setenv("WEFT_PROVE", "off", 1);
    return fake_cuda_find();
}

struct pe {
    weft_group *group;
    int pe;
    weft_status status;
    char sentence[1024];
    int over[MOST_PES]; /* ordinal of the relay GPU; -1: none */
    bool mapped[MOST_PES];
    char text[MOST_PES][160];
    uint64_t seen[MOST_PES];
};

/* Puts this PE's number at `offset` of each relayed peer: first from this PE's heap, then from
 * memory that only its own GPU can access. */
static weft_status send(struct gpu *gpu, size_t offset, const uint64_t *own)
{
    const struct boot *boot = gpu->boot;
    CUdeviceptr heap = gpu_heap_own(&gpu->heap)->base + offset + 1024;
    weft_status status = WEFT_OK;
    for (int slot = 0; slot < boot->local_npes && !status; slot++) {
        struct gpu *side = gpu_relay_gpu(gpu, slot);
        CUdeviceptr at = gpu->heap.windows[slot].base + offset + 16 * (size_t)boot->pe;
        if (!side)
            continue;
        status = gpu_copy(gpu, 1, (void *)(uintptr_t)heap, own, 8, GPU_DONE);
        if (!status)
            status = gpu_copy(side, 1, (void *)(uintptr_t)at, (void *)(uintptr_t)heap, 8, GPU_DONE);
        if (!status)
            status = gpu_relay_copy_staged(side, 1, (void *)(uintptr_t)(at + 8), own, 8);
        if (!status)
            status = gpu_quiet(side);
    }
    return status;
}

static weft_status receive(struct gpu *gpu, size_t offset, uint64_t *seen)
{
    weft_status status = WEFT_OK;
    for (int slot = 0; slot < gpu->boot->local_npes && !status; slot++) {
        uint64_t words[2] = {0, 0};
        CUdeviceptr at = gpu_heap_own(&gpu->heap)->base + offset + 16 * (size_t)slot;
        status = gpu_copy(gpu, 0, words, (void *)(uintptr_t)at, sizeof words, GPU_DONE);
        seen[slot] += words[0] << 32 | words[1];
    }
    return status;
}

static weft_status exchange(struct gpu *gpu, struct pe *pe)
{
    enum { GROWN = 100 << 20 };
    struct boot *boot = gpu->boot;
    uint64_t mine = 100 + (uint64_t)boot->pe;
    size_t first = gpu->layout.system_bytes;
    CUdeviceptr own = 0;
    weft_status status = gpu_heap_grow(&gpu->heap, GROWN);
    if (status)
        return status;
    if (!gpu_enter(&gpu->device)) {
        if (gpu->driver.MemAlloc(&own, 64))
            own = 0;
        gpu_leave(&gpu->device);
    }
    status = own ? gpu_copy(gpu, 0, (void *)(uintptr_t)own, &mine, 8, GPU_DONE) : WEFT_ERR_SYSTEM;
    if (!status)
        status = send(gpu, first, (uint64_t *)(uintptr_t)own);
    if (!status)
        status = send(gpu, GROWN - 4096, (uint64_t *)(uintptr_t)own);
    status = boot_agree(boot, status);
    if (!status)
        status = receive(gpu, first, pe->seen);
    if (!status)
        status = receive(gpu, GROWN - 4096, pe->seen);
    if (own)
        gpu->driver.MemFree(own);
    return status;
}

static void *run_pe(void *argument)
{
    struct pe *pe = argument;
    struct boot *boot;
    struct gpu *gpu;
    pe->status = boot_open(&boot, pe->group, pe->pe);
    if (pe->status)
        return NULL;
    pe->status = gpu_open(&gpu, boot, NULL, 32, wish);
    if (!pe->status) {
        pe->status = boot_agree(boot, exchange(gpu, pe));
        for (int slot = 0; slot < boot->local_npes; slot++) {
            const struct gpu_window *window = &gpu->heap.windows[slot];
            pe->over[slot] = window->relay < 0 ? -1 : gpu->heap.relays[window->relay].ordinal;
            pe->mapped[slot] = window->mapped;
            memcpy(pe->text[slot], window->relay_text, sizeof pe->text[slot]);
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

static uint64_t sent_by(int pe)
{
    return 2 * ((100 + (uint64_t)pe) << 32 | (100 + (uint64_t)pe));
}

static void set(const char *variable, const char *value)
{
    if (value)
        setenv(variable, value, 1);
    else
        unsetenv(variable);
}

/* Two PEs use GPUs 0 and 1. */
static void which_third(void **state)
{
    static const struct {
        const char *devices, *no_peer, *pcie, *visible;
        enum gpu_relay_policy wish;
        int over; /* relay GPU of both PEs */
        const char *text;
    } rows[] = {
        {"3", "0-1", NULL, NULL, GPU_RELAY_WHERE_NEEDED, 2,
         "over GPU 2 (0000:12:00.0), which reaches both by NVLink"},
        {"2", "0-1", NULL, NULL, GPU_RELAY_WHERE_NEEDED, -1, "no relay GPU is visible"},
        {"4", "0-1,1-2,0-3", NULL, NULL, GPU_RELAY_WHERE_NEEDED, -1, "no GPU can access both"},
        {"4", "0-1,1-2", NULL, NULL, GPU_RELAY_WHERE_NEEDED, 3, "over GPU 3"},
        {"4", "0-1", "0-2,1-3", NULL, GPU_RELAY_WHERE_NEEDED, -1,
         "no relay GPU has NVLink to both"},
        {"4", "0-1", "1-2", NULL, GPU_RELAY_WHERE_NEEDED, 3, "which reaches both by NVLink"},
        {"4", "0-1", NULL, "0,1", GPU_RELAY_WHERE_NEEDED, -1, "no relay GPU is visible"},
        {"3", NULL, NULL, NULL, GPU_RELAY_WHERE_NEEDED, -1, "not needed: this GPU can access"},
        {"3", "0-1", NULL, NULL, GPU_RELAY_NEVER, -1, "not needed: WEFT_PATH excludes path relay"},
        {"3", NULL, NULL, NULL, GPU_RELAY_ALWAYS, 2, "over GPU 2"},
        {"3", NULL, "0-2", NULL, GPU_RELAY_ALWAYS, 2, "which reaches both by PCIe"},
        {"3", "0-1", "0-2,1-2", NULL, GPU_RELAY_ALWAYS, 2, "which reaches both by PCIe"},
        {"2", "0-1", NULL, NULL, GPU_RELAY_ALWAYS, -1, "no relay GPU is visible"},
        {"3", "0-1,0-2", NULL, NULL, GPU_RELAY_ALWAYS, -1, "no GPU can access both"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pe pes[MOST_PES];
        set("FAKE_CUDA_DEVICES", rows[i].devices);
        set("FAKE_CUDA_NO_PEER", rows[i].no_peer);
        set("FAKE_CUDA_PCIE", rows[i].pcie);
        set("CUDA_VISIBLE_DEVICES", rows[i].visible);
        wish = rows[i].wish;
        run(2, pes);
        for (int pe = 0; pe < 2; pe++) {
            int other = 1 - pe;
            if (pes[pe].status || pes[pe].over[other] != rows[i].over ||
                !strstr(pes[pe].text[other], fake_words(rows[i].text)))
                fail_msg("row %zu, PE %d: %s, over %d, \"%s\" %s", i, pe,
                         weft_status_name(pes[pe].status), pes[pe].over[other], pes[pe].text[other],
                         pes[pe].sentence);
            assert_int_equal(pes[pe].over[pe], -1);
            assert_int_equal(pes[pe].mapped[other], rows[i].no_peer == NULL);
            assert_int_equal(pes[pe].seen[other], rows[i].over < 0 ? 0 : sent_by(other));
        }
        fake_cuda_expect_nothing();
    }
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("FAKE_CUDA_PCIE");
    unsetenv("FAKE_CUDA_NO_PEER");
}

/* With only two GPUs the peer's own GPU is the relay. */
static void the_peers_own(void **state)
{
    struct pe pes[MOST_PES];
    (void)state;
    setenv("FAKE_CUDA_DEVICES", "2", 1);
    wish = GPU_RELAY_ALWAYS;
    run(2, pes);
    for (int pe = 0; pe < 2; pe++) {
        assert_int_equal(pes[pe].status, WEFT_OK);
        assert_int_equal(pes[pe].over[1 - pe], 1 - pe);
        assert_non_null(strstr(pes[pe].text[1 - pe], "over the peer's own GPU"));
        assert_int_equal(pes[pe].seen[1 - pe], sent_by(1 - pe));
    }
    fake_cuda_expect_nothing();
}

/* On eight GPUs in a cube mesh each PE has three peers without a link, and uses a different relay
 * GPU for each. */
static void cube_mesh(void **state)
{
    struct pe pes[MOST_PES];
    (void)state;
    setenv("FAKE_CUDA_DEVICES", "8", 1);
    setenv("FAKE_CUDA_TOPOLOGY", "cube", 1);
    wish = GPU_RELAY_WHERE_NEEDED;
    run(8, pes);
    for (int a = 0; a < 8; a++) {
        unsigned taken = 0;
        assert_int_equal(pes[a].status, WEFT_OK);
        for (int b = 0; b < 8; b++) {
            int over = pes[a].over[b];
            bool linked = a / 4 == b / 4 || a % 4 == b % 4;
            assert_int_equal(pes[a].mapped[b], linked);
            assert_int_equal(over < 0, linked);
            assert_int_equal(pes[a].seen[b], linked ? 0 : sent_by(b));
            if (linked)
                continue;
            assert_true(over / 4 == a / 4 || over % 4 == a % 4);
            assert_true(over / 4 == b / 4 || over % 4 == b % 4);
            assert_false(taken & 1u << over);
            taken |= 1u << over;
        }
    }
    fake_cuda_expect_nothing();
    unsetenv("FAKE_CUDA_TOPOLOGY");
}

/* The driver reports peer access and then refuses it: there is no relay GPU, and the job goes
 * on. */
static void refused(void **state)
{
    struct pe pes[MOST_PES];
    (void)state;
    setenv("FAKE_CUDA_DEVICES", "3", 1);
    setenv("FAKE_CUDA_NO_PEER", "0-1", 1);
    setenv("FAKE_CUDA_REFUSE", "1", 1);
    wish = GPU_RELAY_WHERE_NEEDED;
    run(2, pes);
    for (int pe = 0; pe < 2; pe++) {
        assert_int_equal(pes[pe].status, WEFT_OK);
        assert_int_equal(pes[pe].over[1 - pe], -1);
        assert_non_null(
            strstr(pes[pe].text[1 - pe], fake_words("cuMemSetAccess of 64 MiB for GPU 2")));
    }
    fake_cuda_expect_nothing();
    unsetenv("FAKE_CUDA_REFUSE");
    unsetenv("FAKE_CUDA_NO_PEER");
}

/* A failure at one PE costs it the relay GPU, with a reason, or all PEs return the error. */
static void one_of_them_fails(void **state)
{
    struct pe pes[MOST_PES];
    unsigned lost = 0;
    (void)state;
    setenv("FAKE_CUDA_DEVICES", "3", 1);
    setenv("FAKE_CUDA_NO_PEER", "0-1", 1);
    wish = GPU_RELAY_WHERE_NEEDED;
    for (const char *const *name = gpu_api_function_names; *name; name++) {
        bool release = strstr(*name, "Release") || strstr(*name, "Unmap") ||
                       strstr(*name, "Free") || strstr(*name, "Destroy") ||
                       strstr(*name, "Unload") || strstr(*name, "Ctx");
        if (strcmp(*name, "DevicePrimaryCtxRetain") == 0)
            release = false;
        for (unsigned k = 1; !release && k < 100; k++) {
            assert_true(gpu_api_fault_plan(*name, k, CUDA_ERROR_UNKNOWN));
            run(2, pes);
            unsigned uses = gpu_api_fault_uses();
            gpu_api_fault_plan(NULL, 0, 0);
            assert_int_equal(pes[0].status, pes[1].status);
            for (int pe = 0; pe < 2 && !pes[0].status; pe++) {
                bool kept = pes[pe].over[1 - pe] == 2;
                lost += !kept;
                if (!kept && !strstr(pes[pe].text[1 - pe], fake_is_amd() ? "hip" : "cu") &&
                    !strstr(pes[pe].text[1 - pe], "GPU"))
                    fail_msg("%s, use %u: PE %d says \"%s\"", *name, k, pe, pes[pe].text[1 - pe]);
                assert_false(pes[pe].mapped[1 - pe]);
                if (kept && pes[1 - pe].over[pe] == 2)
                    assert_int_equal(pes[pe].seen[1 - pe], sent_by(1 - pe));
            }
            fake_cuda_expect_nothing();
            fake.reset();
            if (uses < k)
                break;
        }
    }
    assert_true(lost > 20);
    unsetenv("FAKE_CUDA_NO_PEER");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(which_third),       cmocka_unit_test(the_peers_own),
        cmocka_unit_test(cube_mesh),         cmocka_unit_test(refused),
        cmocka_unit_test(one_of_them_fails),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
