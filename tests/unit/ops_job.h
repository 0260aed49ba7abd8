/* SPDX-License-Identifier: Apache-2.0 */
/* A job of three PEs with GPUs, for tests of operations (src/ops). This PE is PE 1. The host heaps
 * of all PEs are real memory; GPU memory exists only as addresses. A path that counts its calls
 * reaches all of it. Include cmocka.h first. */
#ifndef WEFT_TESTS_UNIT_OPS_JOB_H
#define WEFT_TESTS_UNIT_OPS_JOB_H

#include "gpu/gpu.h"
#include "ops/access.h"
#include "path/path.h"

#include <string.h>

enum {
    OPS_PES = 3,
    OPS_PE = 1,
    OPS_HEAP = 8192,
    OPS_GPU = 0x10000000, /* address of this PE's GPU heap */
    OPS_GPU_BYTES = 0x10000,
    OPS_GPU_SYSTEM = 0x400,      /* used by the library itself, at the start of the heap */
    OPS_GPU_OF_PEER = 0x1000000, /* distance between the windows of two successive PEs */
    OPS_OWN_GPU = 0x30000000,    /* GPU memory outside the heap */
    OPS_PINNED = 0x40000000,
};

static _Alignas(4096) char ops_heaps[OPS_PES][OPS_HEAP];

static struct {
    struct weft_job job;
    struct weft_ctx ctx, system_ctx;
    struct weft_team team;
    int pes[OPS_PES];
    struct boot boot;
    struct gpu gpu;
    struct gpu_api driver;
    struct gpu_window windows[OPS_PES];
    int slot_of[OPS_PES], local_pes[OPS_PES];
    struct peer peers[MEMORY_KINDS][OPS_PES];
    struct box_counters counters[MEMORY_KINDS][OPS_PES];
    struct path_choice choices[MEMORY_KINDS][OPS_PES];
    struct path_ops path;
    char *map[OPS_PES][SEG_COUNT];
    int32_t fault;
    int addresses, addresses_fail_in; /* calls of path.address, and of those that succeed first */
} ops;

/* Address of an offset in a PE's segment. */
static inline char *ops_at(int pe, enum segment_id segment, size_t offset)
{
    if (segment == SEG_GPU)
        return (char *)(uintptr_t)(OPS_GPU + (pe - OPS_PE) * OPS_GPU_OF_PEER + (int)offset);
    return ops_heaps[pe] + offset;
}

static weft_status ops_address(struct remote at, char **address)
{
    ops.addresses++;
    if (!ops.addresses_fail_in--)
        return base_fail(WEFT_ERR_NO_PATH, "no address");
    *address = ops_at(at.peer->pe, at.segment, at.offset);
    return WEFT_OK;
}

/* Kind of memory at an address. */
static inline enum gpu_place ops_place_of(const void *address)
{
    uintptr_t at = (uintptr_t)address;
    return at >> 28 == 1 || at >> 28 == 3 ? GPU_PLACE_DEVICE
           : at >> 28 == 4                ? GPU_PLACE_PINNED
                                          : GPU_PLACE_PLAIN;
}

/* Sets the path to PE `pe`'s memory of one kind. */
static inline void ops_path(weft_kind kind, int pe, enum path_id path)
{
    ops.choices[kind][pe].path = path;
    ops.peers[kind][pe].path = (uint16_t)path;
}

static inline void ops_begin(void)
{
    memset(&ops, 0, sizeof ops);
    memset(ops_heaps, 0, sizeof ops_heaps);
    ops.addresses_fail_in = -1;
    ops.path = (struct path_ops){.name = "some", .direct = true, .address = ops_address};
    ops.boot = (struct boot){.pe = OPS_PE,
                             .npes = OPS_PES,
                             .local_pe = OPS_PE,
                             .local_npes = OPS_PES,
                             .local_pes = ops.local_pes};
    ops.gpu = (struct gpu){.boot = &ops.boot,
                           .device = {.driver = &ops.driver, .ordinal = 2, .name = "some GPU"},
                           .heap = {.boot = &ops.boot,
                                    .size = OPS_GPU_BYTES,
                                    .backed = OPS_GPU_BYTES / 2,
                                    .reservation = OPS_GPU - OPS_GPU_OF_PEER,
                                    .reserved_bytes = (size_t)OPS_PES * OPS_GPU_OF_PEER,
                                    .windows = ops.windows},
                           .layout.system_bytes = OPS_GPU_SYSTEM,
                           .slot_of = ops.slot_of};
    ops.job = (struct weft_job){.most_teams = TEAM_SLOTS,
                                .boot = &ops.boot,
                                .pe = OPS_PE,
                                .npes = OPS_PES,
                                .gpu = &ops.gpu,
                                .world = &ops.team,
                                .default_ctx = &ops.ctx,
                                .system_ctx = &ops.system_ctx,
                                .failure.word = &ops.fault};
    ops.job.segments[SEG_HEAP].base = ops_heaps[OPS_PE];
    ops.job.segments[SEG_HEAP].size = OPS_HEAP;
    ops.job.paths = (struct path_world){
        .pe = OPS_PE, .npes = OPS_PES, .map = ops.map, .atomics = {PATH_NONE, PATH_NONE}};
    ops.ctx = (struct weft_ctx){
        .job = &ops.job,
        .npes = OPS_PES,
        .gpu = &ops.gpu,
        .fault = &ops.fault,
        .seg[SEG_HEAP] = {(uintptr_t)ops_heaps[OPS_PE], OPS_HEAP},
        .seg[SEG_GPU] = {OPS_GPU + OPS_GPU_SYSTEM, OPS_GPU_BYTES - OPS_GPU_SYSTEM},
        .skipped[SEG_GPU] = OPS_GPU_SYSTEM};
    ops.team = (struct weft_team){.job = &ops.job, .n = OPS_PES, .me = OPS_PE, .pes = ops.pes};
    for (int pe = 0; pe < OPS_PES; pe++) {
        ops.pes[pe] = ops.local_pes[pe] = ops.slot_of[pe] = pe;
        ops.windows[pe] = (struct gpu_window){
            .base = (CUdeviceptr)(uintptr_t)ops_at(pe, SEG_GPU, 0), .mapped = true, .relay = -1};
        ops.map[pe][SEG_HEAP] = ops_heaps[pe];
        for (int kind = 0; kind < MEMORY_KINDS; kind++) {
            ops.peers[kind][pe] = (struct peer){.counters = &ops.counters[kind][pe],
                                                .ops = &ops.path,
                                                .pe = pe,
                                                .kind = (uint16_t)kind,
                                                .world = &ops.job.paths};
            ops_path((weft_kind)kind, pe, PATH_P2P);
        }
    }
    for (int kind = 0; kind < MEMORY_KINDS; kind++) {
        ops.ctx.peers[kind] = ops.peers[kind];
        ops.job.paths.choices[kind] = ops.choices[kind];
    }
    ops.system_ctx = ops.ctx;
}

#endif
