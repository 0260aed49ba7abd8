/* SPDX-License-Identifier: Apache-2.0 */
/* Doubles of what ops/rma/map.c calls. They record each call and can fail. Include cmocka.h first.
 * The program is linked with --wrap of all of them (CMakeLists.txt). */
#ifndef WEFT_TESTS_UNIT_MAP_CALLS_H
#define WEFT_TESTS_UNIT_MAP_CALLS_H

#include "tests/unit/callocs.h"
#include "tests/unit/held_locks.h"
#include "tests/unit/ops_job.h"

#include "gpu/bounce.h"
#include "gpu/map/map.h"
#include "gpu/register.h"

#include <weft/map.h>

#include <stdio.h>

enum { SHIFT = 12, GRANULES = OPS_GPU_BYTES >> SHIFT, TEST_AREA = 0x2000 };

static struct {
    bool no_more, no_own, settles_fail, adopted, no_rove, pays, no_copy;
    int mores, owns, own_ends, sends, loads, copies, roves, settled, asked;
    size_t more_offset, more_bytes, adopt_offset, adopt_bytes, rove_offset, bytes;
    const void *ended, *settled_at, *to, *from;
    bool in;
} beneath;

static struct gpu_map map;
static struct gpu_map_window windows[OPS_PES];
static _Atomic unsigned char ready[OPS_PES][GRANULES];
static char cpu[OPS_PES][OPS_GPU_BYTES]; /* CPU addresses of the windows */
static struct gpu_map_limits limits = {11, 22, 33, 44};
static char some_memory[64];

bool __wrap_gpu_map_extend(struct gpu_map *of, int slot, size_t offset, size_t bytes);
bool __wrap_gpu_map_extend(struct gpu_map *of, int slot, size_t offset, size_t bytes)
{
    assert_true(of == &map && slot >= 0 && slot < OPS_PES);
    beneath.mores++;
    beneath.more_offset = offset;
    beneath.more_bytes = bytes;
    return !beneath.no_more;
}

weft_status __wrap_gpu_map_own(struct gpu_map *of, const void *address, size_t bytes,
                               struct gpu_map_user *user);
weft_status __wrap_gpu_map_own(struct gpu_map *of, const void *address, size_t bytes,
                               struct gpu_map_user *user)
{
    assert_ptr_equal(of, &map);
    beneath.owns++;
    if (beneath.no_own)
        return base_fail(WEFT_ERR_UNSUPPORTED, "BAR1 is full");
    *user = (struct gpu_map_user){some_memory + 8, (uintptr_t)address, bytes,
                                  (struct map_memory *)&map, NULL};
    return WEFT_OK;
}

void __wrap_gpu_map_own_end(struct gpu_map *of, struct gpu_map_user *user);
void __wrap_gpu_map_own_end(struct gpu_map *of, struct gpu_map_user *user)
{
    assert_ptr_equal(of, ops.job.gpu ? &map : NULL);
    beneath.own_ends++;
    beneath.ended = user->at;
}

bool __wrap_gpu_map_locate(const struct gpu *gpu, const void *address, int *slot, size_t *offset);
bool __wrap_gpu_map_locate(const struct gpu *gpu, const void *address, int *slot, size_t *offset)
{
    assert_ptr_equal(gpu, &ops.gpu);
    for (int pe = 0; pe < OPS_PES; pe++)
        if ((uintptr_t)address - (uintptr_t)ops_at(pe, SEG_GPU, 0) < OPS_GPU_BYTES) {
            *slot = pe;
            *offset = (uintptr_t)address - (uintptr_t)ops_at(pe, SEG_GPU, 0);
            return true;
        }
    return false;
}

bool __wrap_gpu_registered_holds(struct gpu_heap *heap, size_t offset, size_t bytes);
bool __wrap_gpu_registered_holds(struct gpu_heap *heap, size_t offset, size_t bytes)
{
    assert_ptr_equal(heap, &ops.gpu.heap);
    beneath.adopt_offset = offset;
    beneath.adopt_bytes = bytes;
    return beneath.adopted;
}

enum gpu_place __wrap_gpu_place_for_cpu(struct gpu *gpu, const void *address);
enum gpu_place __wrap_gpu_place_for_cpu(struct gpu *gpu, const void *address)
{
    assert_ptr_equal(gpu, &ops.gpu);
    return ops_place_of(address);
}

bool __wrap_gpu_map_is_faster_by_size(struct gpu_map *of, const void *host, size_t bytes, bool in);
bool __wrap_gpu_map_is_faster_by_size(struct gpu_map *of, const void *host, size_t bytes, bool in)
{
    assert_ptr_equal(of, &map);
    assert_ptr_equal(host, some_memory);
    assert_int_equal(bytes, 600);
    beneath.asked++;
    beneath.in = in;
    return beneath.pays;
}

bool __wrap_gpu_map_copy_sliding(struct gpu_map *of, int slot, size_t offset, void *host,
                                 size_t bytes, bool in);
bool __wrap_gpu_map_copy_sliding(struct gpu_map *of, int slot, size_t offset, void *host,
                                 size_t bytes, bool in)
{
    assert_true(of == &map && slot == 2);
    beneath.roves++;
    beneath.rove_offset = offset;
    beneath.to = host;
    beneath.bytes = bytes;
    beneath.in = in;
    return !beneath.no_rove;
}

char *__wrap_gpu_map_test_area(const struct gpu_map *of, int slot);
char *__wrap_gpu_map_test_area(const struct gpu_map *of, int slot)
{
    assert_ptr_equal(of, &map);
    return cpu[slot];
}

const char *__wrap_gpu_map_backend_text(const struct gpu_map *of);
const char *__wrap_gpu_map_backend_text(const struct gpu_map *of)
{
    assert_ptr_equal(of, &map);
    return "some way";
}

const struct gpu_map_limits *__wrap_gpu_map_limits(struct gpu_map *of);
const struct gpu_map_limits *__wrap_gpu_map_limits(struct gpu_map *of)
{
    assert_ptr_equal(of, &map);
    return &limits;
}

struct gpu_bounce_limits __wrap_gpu_bounce_limits(struct gpu *gpu);
struct gpu_bounce_limits __wrap_gpu_bounce_limits(struct gpu *gpu)
{
    assert_ptr_equal(gpu, &ops.gpu);
    return (struct gpu_bounce_limits){3, 55, 66};
}

const char *__wrap_wc_isa_name(void);
const char *__wrap_wc_isa_name(void)
{
    return "AVX2";
}

void __wrap_wc_send(void *mapped, const void *from, size_t bytes);
void __wrap_wc_send(void *mapped, const void *from, size_t bytes)
{
    beneath.sends++;
    beneath.to = mapped;
    beneath.from = from;
    beneath.bytes = bytes;
}

void __wrap_wc_load(void *to, const void *mapped, size_t bytes);
void __wrap_wc_load(void *to, const void *mapped, size_t bytes)
{
    beneath.loads++;
    beneath.to = to;
    beneath.from = mapped;
    beneath.bytes = bytes;
}

void __wrap_wc_flush(const void *mapped);
void __wrap_wc_flush(const void *mapped)
{
    beneath.settled++;
    beneath.settled_at = mapped;
}

weft_status __wrap_gpu_copy(struct gpu *gpu, unsigned lane, void *dst, const void *src,
                            size_t bytes, enum gpu_copy_mode manner);
weft_status __wrap_gpu_copy(struct gpu *gpu, unsigned lane, void *dst, const void *src,
                            size_t bytes, enum gpu_copy_mode manner)
{
    assert_ptr_equal(gpu, &ops.gpu);
    assert_true(lane == 0 && manner == GPU_DONE);
    beneath.copies++;
    beneath.to = dst;
    beneath.from = src;
    beneath.bytes = bytes;
    return beneath.no_copy ? base_fail(WEFT_ERR_SYSTEM, "no copy") : WEFT_OK;
}

static int set_up(void **state)
{
    (void)state;
    memset(&beneath, 0, sizeof beneath);
    ops_begin();
    map = (struct gpu_map){.backend = (const struct map_backend *)&map,
                           .windows = windows,
                           .shift = SHIFT,
                           .why = "is new"};
    ops.gpu.heap.map = &map;
    ops.gpu.layout.map_test_offset = TEST_AREA;
    for (int pe = 0; pe < OPS_PES; pe++) {
        memset((void *)ready[pe], 1, sizeof ready[pe]);
        windows[pe] = (struct gpu_map_window){
            .base = cpu[pe], .ready = ready[pe], .tested = true, .why = "PE refused it"};
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (ops.job.modules.end_mappings)
        ops.job.modules.end_mappings(&ops.job);
    assert_null(ops.job.modules.mappings);
    callocs.left = -1;
    assert_int_equal(callocs.memory, 0);
    assert_true(none_is_held());
    return 0;
}

#endif
