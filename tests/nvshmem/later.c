/* SPDX-License-Identifier: Apache-2.0 */
/* Finding D: features of NVSHMEM 3.6 to 3.8 that need no multicast (counted signals, regions and
 * shared memory as hints), nvshmem_sync(), types with a version suffix, the type of streams. */
#include "values.h"

enum { BYTES = 3000, THREADS = 96 };

/* ------------------------------------------------------------------------- counted signals */

/* Two puts of different sizes; the receiver waits for the number of their bytes. */
WEFT_KERNEL(count, (char *, dest), (const char *, source), (uint64_t *, signal), (int *, wrong),
            (uint64_t, before), (int, pe))
{
    int status = nvshmemx_putmem_signal_counted_nbi_block(dest, source, 1001, signal, pe);
    status |= nvshmemx_putmem_signal_counted_nbi_block(dest + 1001, source + 1001, BYTES - 1001,
                                                       signal, pe);
    nvshmemx_signal_counted_wait_until(signal, before + BYTES);
    if (status || nvshmemx_signal_counted_load(signal) != before + BYTES)
        weft_dev_atomic_add_u32((uint32_t *)wrong, 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    weft_dev_sync_block();
    nvshmemx_sync_block(NVSHMEM_TEAM_WORLD); /* the next PE has waited too */
    if (weft_dev_thread_rank() == 0)
        nvshmemx_signal_counted_reset(signal);
}

static void check_counted(void)
{
    char *dest = nvshmem_malloc(BYTES), *source = nvshmem_malloc(BYTES), wanted[BYTES];
    uint64_t *signal = nvshmem_calloc(1, sizeof *signal);
    int *wrong = nvshmem_calloc(1, sizeof *wrong);
    for (size_t i = 0; i < BYTES; i++) {
        source[i] = (char)(i * 7 + (size_t)me * 31 + 1);
        wanted[i] = (char)(i * 7 + (size_t)prev * 31 + 1);
    }
    /* From 0, and with an overflow past 2^64. */
    for (uint64_t before = 0, round = 0; round < 2; round++, before -= 2000) {
        memset(dest, 0, BYTES);
        *signal = before;
        nvshmem_barrier_all();
        LAUNCH(THREADS, count, dest, source, signal, wrong, before, next);
        CHECK(*wrong == 0, "%d in round %d", *wrong, (int)round);
        CHECK(!memcmp(dest, wanted, BYTES), "round %d", (int)round);
        CHECK(*signal == 0, "%llu", (unsigned long long)*signal);
        nvshmem_barrier_all();
    }
    *signal = 9;
    nvshmemx_signal_counted_reset(signal);
    nvshmem_quiet();
    CHECK(*signal == 0, "%llu", (unsigned long long)*signal);
}

/* ------------------------------------------------------------------------------- hints */

static int active(uint32_t hints)
{
    int is = -1;
    CHECK(nvshmemx_region_is_active(hints, &is) == NVSHMEMX_SUCCESS, "refused");
    return is;
}

static void check_regions(void)
{
    nvshmemx_region_attrs_t batch = NVSHMEMX_REGION_ATTRS_INITIALIZER, unknown = batch;
    nvshmemx_region_handle_t outer = 0, inner = 0;
    batch.hints = NVSHMEMX_REGION_HINT_BATCH_RMA;
    unknown.hints = 6;
    CHECK(sizeof batch == 64 && !active(0), "before");
    CHECK(nvshmemx_region_start(NULL, &batch) == NVSHMEMX_ERROR_INVALID_VALUE, "no handle");
    CHECK(nvshmemx_region_start(&outer, &unknown) == NVSHMEMX_ERROR_INVALID_VALUE, "hint 4");
    CHECK(nvshmemx_region_is_active(0, NULL) == NVSHMEMX_ERROR_INVALID_VALUE, "no place");
    CHECK(nvshmemx_region_is_active(6, (int *)&unknown.hints) == NVSHMEMX_ERROR_INVALID_VALUE, "6");
    CHECK(nvshmemx_region_stop(1) == NVSHMEMX_ERROR_INVALID_VALUE, "not started");
    CHECK(!nvshmemx_region_start(&outer, NULL), "refused");
    CHECK(active(0) && !active(NVSHMEMX_REGION_HINT_BATCH_RMA), "no hint");
    CHECK(!nvshmemx_region_start(&inner, &batch) && inner != outer, "refused");
    CHECK(active(0) && active(NVSHMEMX_REGION_HINT_BATCH_RMA), "the hint");
    CHECK(nvshmemx_region_stop(outer) == NVSHMEMX_ERROR_INVALID_VALUE, "not the last");
    CHECK(!nvshmemx_region_stop(inner) && !active(NVSHMEMX_REGION_HINT_BATCH_RMA), "stopped");
    CHECK(!nvshmemx_region_stop(outer) && !active(0), "stopped");
    CHECK(nvshmemx_region_stop(outer) == NVSHMEMX_ERROR_INVALID_VALUE, "stopped twice");
    CHECK(!nvshmemx_region_start(&inner, &batch), "refused"); /* finalize ends it */
}

WEFT_KERNEL(hint, (int *, dest), (const int *, source), (int *, wrong), (int, pe))
{
    nvshmemx_region_attrs_t attrs = NVSHMEMX_REGION_ATTRS_INITIALIZER, unknown = attrs;
    nvshmemx_region_handle_t region = 0;
    attrs.hints = NVSHMEMX_REGION_HINT_BATCH_RMA;
    unknown.hints = 2;
    int given[4] = {0}, active = -1;
    int bad = nvshmemx_region_start_block(&region, &unknown) != NVSHMEMX_ERROR_INVALID_VALUE;
    bad += nvshmemx_region_start_block(&region, &attrs) != NVSHMEMX_SUCCESS;
    bad += nvshmemx_region_is_active(0, &active) != NVSHMEMX_SUCCESS || active != 0;
    nvshmemx_give_smem(given, (size_t)nvshmemx_ask_smem(NVSHMEMX_SMEM_MINIMUM));
    nvshmemx_int_put_nbi_block(dest, source, THREADS, pe);
    bad += nvshmemx_region_stop_block(region) != NVSHMEMX_SUCCESS;
    bad += nvshmemx_region_stop_block(region + 1) != NVSHMEMX_ERROR_INVALID_VALUE;
    nvshmemx_release_smem();
    if (bad)
        weft_dev_atomic_add_u32((uint32_t *)wrong, 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    nvshmemx_barrier_all_block();
}

static void check_hints(void)
{
    int *dest = nvshmem_calloc(THREADS, sizeof *dest), *source = nvshmem_malloc(THREADS * 4);
    int *wrong = nvshmem_calloc(1, sizeof *wrong);
    for (int i = 0; i < THREADS; i++)
        source[i] = 1000 * me + 3 * i + 1;
    CHECK(nvshmemx_ask_smem(NVSHMEMX_SMEM_RECOMMENDED) == 0, "shared memory");
    nvshmem_barrier_all();
    LAUNCH(THREADS, hint, dest, source, wrong, next);
    CHECK(*wrong == 0, "%d", *wrong);
    for (int i = 0; i < THREADS; i++)
        CHECK(dest[i] == 1000 * prev + 3 * i + 1, "%d: %d", i, dest[i]);
}

/* ------------------------------------------------------------------------------- names */

/* A stream has its own type; with void * both cases would be the same. */
static const char *kind_of(int is_stream)
{
    return is_stream ? "stream" : "pointer";
}
#define KIND_OF_STREAM(function)                                                                   \
    kind_of(_Generic(&(function), int (*)(nvshmem_team_t, cudaStream_t) : 1, default : 0))

static void check_names(void)
{
    nvshmemx_init_attr_v1 attr = NVSHMEMX_INIT_ATTR_INITIALIZER, *attr_is = &attr;
    nvshmemx_uniqueid_v1 id = NVSHMEMX_UNIQUEID_INITIALIZER;
    nvshmem_team_config_v1 config = NVSHMEM_TEAM_CONFIG_INITIALIZER;
    nvshmemx_init_attr_t *same = attr_is;
    attr.args.uid_args.id = &id;
    CHECK(same->args.uid_args.id == &id && sizeof attr == 144 && sizeof config == 64, "sizes");
    CHECK(!strcmp(KIND_OF_STREAM(nvshmemx_sync_on_stream), "stream"), "sync");
    CHECK(!strcmp(KIND_OF_STREAM(nvshmemx_team_sync_on_stream), "stream"), "team_sync");
}

/* nvshmem_sync(): a value stored before it is visible after it. */
WEFT_KERNEL(meet, (uint64_t *, slot), (uint64_t *, seen), (int, pe))
{
    if (weft_dev_thread_rank() == 1)
        nvshmem_uint64_p(slot, 4077, pe);
    nvshmem_quiet();
    weft_dev_sync_block();
    if (weft_dev_thread_rank() == 0) {
        nvshmem_sync(NVSHMEM_TEAM_WORLD);
        *seen = *slot;
    }
}

static void check_sync(void)
{
    uint64_t *slot = nvshmem_calloc(2, sizeof *slot);
    nvshmem_barrier_all();
    LAUNCH(32, meet, slot, slot + 1, next);
    nvshmem_barrier_all();
    CHECK(slot[1] == 4077, "%llu", (unsigned long long)slot[1]);
    nvshmem_uint64_p(slot, 5077, next);
    nvshmem_quiet();
    CHECK(!nvshmem_sync(NVSHMEM_TEAM_WORLD) && *slot == 5077, "%llu", (unsigned long long)*slot);
    CHECK(!nvshmemx_sync_on_stream(NVSHMEM_TEAM_WORLD, NULL), "%s", weft_last_error());
    CHECK(!weft_stream_synchronize(NULL), "%s", weft_last_error());
}

int main(void)
{
    begin();
    check_counted();
    check_regions();
    check_hints();
    check_names();
    check_sync();
    int status = end();
    nvshmem_init();
    CHECK(!active(0), "a region outlived the job");
    nvshmem_finalize();
    return status || faults;
}
