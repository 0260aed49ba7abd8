/* SPDX-License-Identifier: Apache-2.0 */
/* A team of three PEs with GPUs, for tests of ops/coll/kernel.c. The fakes of the functions that it
 * calls record their arguments, and each call can be made to fail. Include cmocka.h first. The
 * program is linked with --wrap of all of them (CMakeLists.txt). */
#ifndef WEFT_TESTS_UNIT_COLL_KERNEL_H
#define WEFT_TESTS_UNIT_COLL_KERNEL_H

#include "tests/unit/callocs.h"
#include "tests/unit/held_locks.h"

#include "base/config.h"
#include "base/log.h"
#include "gpu/coll/coll.h"
#include "gpu/map/map.h"
#include "ops/coll/engines.h"
#include "ops/coll/kernel.h"
#include "ops/coll/prove.h"

#include <weft/device/arithmetic.h>

#include <stdio.h>
#include <string.h>

enum { MEMBERS = 3, ME = 1, OTHER_MEMBER = 2, NPES = 10, OTHER_NODE = 9 };
enum {
    GPU_HEAP = 0x10000000,
    GPU_HEAP_BYTES = 0x1000000,
    GPU_BACKED = 0x800000,
    HOST_HEAP = 0x20000000,
    HOST_HEAP_BYTES = 0x10000,
    OWN_GPU = 0x30000000,
    PINNED = 0x40000000,
    PLAIN = 0x50000000,
};

/* Exchange record of one member, with the layout that ops/coll/kernel.c uses. */
struct sent {
    int32_t status, most_blocks, forced, has;
    uint64_t number;
    uint32_t rates;
    int32_t rates_agree;
};

enum call {
    CALL_NONE,
    CALL_READY,
    CALL_NUMBER,
    CALL_WATCH,
    CALL_EXCHANGE,
    CALL_BEGIN_AT,
    CALL_PROVE,
    CALL_QUIET,
    CALL_ENTER,
    CALL_LAUNCH,
    CALL_ENGINES,
    CALL_COPY,
    CALL_WAIT,
    CALL_CHECK_FAILED,
};

struct launched {
    enum coll_kernel kernel;
    unsigned blocks, threads;
    CUstream stream;
    struct coll_call call;
};

static struct {
    enum call fails;
    int choices[CONFIG_COUNT];
    int64_t ints[CONFIG_COUNT];
    bool not_direct, proofs_off, torn;
    void (*patch)(void *all, size_t bytes); /* changes the records of the other members */
    uint64_t number, begun_at;
    int begins, exchanges, proofs, proof_blocks, quiets, entered, launches, copies, waits, engines;
    int launch_fails_in; /* number of launches that succeed before one fails */
    int mode, modes;     /* capture mode of the thread, and the number of its changes */
    int warnings, debugs;
    char line[512]; /* latest line of the log */
    struct sent sent;
    struct coll_call proof;
    struct coll_question question;
    struct coll_choice choice; /* result of coll_choose() */
    struct launched launched[8];
    const void *copy_dst, *copy_src;
    size_t copy_bytes;
    CUstream copy_stream;
    int phases;
    unsigned engine_threads;
    char own_rates[600], why_not[512];
    struct coll_machine machine;
    int sizes;
    CUdeviceptr allocation;
    size_t allocation_bytes;
    bool no_start, no_range;
} beneath;

static int pes[COLL_MEMBERS + 2];
static int slot_of[NPES] = {-1, -1, 1, -1, 2, -1, -1, 3, -1, -1};
static struct gpu_window windows[4];
static struct sent scratch[2 * COLL_MEMBERS];
static struct gpu_map map;
static struct map_backend *const some_way = (struct map_backend *)&map;
static struct boot boot = {.local_pe = 1};
static struct gpu_coll gpu_coll;
static struct gpu_api driver;
static struct gpu gpu;
static struct weft_ctx ctx;
static struct weft_job job;
static struct weft_team team;
static struct coll_rates file_rates;

static weft_status fails(enum call call)
{
    return beneath.fails == call ? base_fail(WEFT_ERR_SYSTEM, "call %d failed", (int)call)
                                 : WEFT_OK;
}

int __wrap_config_choice(enum config_id id);
int __wrap_config_choice(enum config_id id)
{
    return beneath.choices[id];
}

int64_t __wrap_config_int(enum config_id id);
int64_t __wrap_config_int(enum config_id id)
{
    return beneath.ints[id];
}

bool __wrap_job_gpu_team_direct(const struct weft_team *of);
bool __wrap_job_gpu_team_direct(const struct weft_team *of)
{
    assert_ptr_equal(of, &team);
    return !beneath.not_direct;
}

weft_status __wrap_gpu_coll_load(struct gpu *g);
weft_status __wrap_gpu_coll_load(struct gpu *g)
{
    assert_ptr_equal(g, &gpu);
    return fails(CALL_READY);
}

weft_status __wrap_gpu_coll_read_number(struct gpu *g, int slot, uint64_t *number);
weft_status __wrap_gpu_coll_read_number(struct gpu *g, int slot, uint64_t *number)
{
    assert_true(g == &gpu && slot == team.slot);
    *number = beneath.number;
    return fails(CALL_NUMBER);
}

weft_status __wrap_gpu_coll_set_number(struct gpu *g, int slot, uint64_t number);
weft_status __wrap_gpu_coll_set_number(struct gpu *g, int slot, uint64_t number)
{
    assert_true(g == &gpu && slot == team.slot);
    beneath.begins++;
    beneath.begun_at = number;
    return fails(CALL_BEGIN_AT);
}

weft_status __wrap_device_watch_kernels(struct weft_job *of);
weft_status __wrap_device_watch_kernels(struct weft_job *of)
{
    assert_ptr_equal(of, &job);
    return fails(CALL_WATCH);
}

weft_status __wrap_coll_exchange(struct weft_team *of, enum box_operation operation,
                                 const void *mine, void *all, size_t bytes);
weft_status __wrap_coll_exchange(struct weft_team *of, enum box_operation operation,
                                 const void *mine, void *all, size_t bytes)
{
    assert_true(of == &team && operation == BOX_OP_SYNC);
    beneath.exchanges++;
    for (int i = 0; i < team.n; i++)
        memcpy((char *)all + (size_t)i * bytes, mine, bytes);
    if (bytes == sizeof beneath.sent)
        memcpy(&beneath.sent, mine, bytes);
    if (beneath.patch)
        beneath.patch(all, bytes);
    return fails(CALL_EXCHANGE);
}

bool __wrap_coll_prove_wanted(void);
bool __wrap_coll_prove_wanted(void)
{
    return !beneath.proofs_off;
}

weft_status __wrap_coll_prove_ll128(struct weft_team *of, struct coll_call *call, int blocks,
                                    bool *proven);
weft_status __wrap_coll_prove_ll128(struct weft_team *of, struct coll_call *call, int blocks,
                                    bool *proven)
{
    assert_ptr_equal(of, &team);
    beneath.proofs++;
    beneath.proof = *call;
    beneath.proof_blocks = blocks;
    *proven = !beneath.torn;
    return fails(CALL_PROVE);
}

void __wrap_coll_rates_find(const struct coll_machine *machine, struct coll_rates *rates,
                            struct coll_measured *measured, char *path, size_t path_bytes,
                            char *why, size_t why_bytes);
void __wrap_coll_rates_find(const struct coll_machine *machine, struct coll_rates *rates,
                            struct coll_measured *measured, char *path, size_t path_bytes,
                            char *why, size_t why_bytes)
{
    beneath.machine = *machine;
    *rates = file_rates;
    snprintf(measured->date, sizeof measured->date, "2026-11-23");
    snprintf(path, path_bytes, "%s", beneath.own_rates);
    snprintf(why, why_bytes, "%s", beneath.why_not);
}

struct coll_choice __wrap_coll_choose(const struct coll_question *q,
                                      const struct coll_rates *rates);
struct coll_choice __wrap_coll_choose(const struct coll_question *q, const struct coll_rates *rates)
{
    assert_ptr_equal(rates, coll_kernel_rates(&team));
    beneath.question = *q;
    struct coll_choice choice = beneath.choice;
    choice.bytes = q->bytes < choice.bytes ? q->bytes : choice.bytes;
    return choice;
}

weft_status __wrap_weft_quiet(weft_ctx *of);
weft_status __wrap_weft_quiet(weft_ctx *of)
{
    assert_ptr_equal(of, &ctx);
    assert_int_equal(beneath.mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    beneath.quiets++;
    return fails(CALL_QUIET);
}

weft_status __wrap_gpu_enter(const struct gpu_device *device);
weft_status __wrap_gpu_enter(const struct gpu_device *device)
{
    assert_ptr_equal(device, &gpu.device);
    weft_status status = fails(CALL_ENTER);
    beneath.entered += !status;
    return status;
}

void __wrap_gpu_leave(const struct gpu_device *device);
void __wrap_gpu_leave(const struct gpu_device *device)
{
    assert_ptr_equal(device, &gpu.device);
    beneath.entered--;
}

weft_status __wrap_gpu_coll_launch(struct gpu *g, enum coll_kernel kernel, unsigned blocks,
                                   unsigned threads, CUstream stream, struct coll_call *call);
weft_status __wrap_gpu_coll_launch(struct gpu *g, enum coll_kernel kernel, unsigned blocks,
                                   unsigned threads, CUstream stream, struct coll_call *call)
{
    assert_ptr_equal(g, &gpu);
    assert_int_equal(beneath.entered, 1);
    assert_int_equal(beneath.mode, 0);
    assert_true(beneath.launches < 8);
    beneath.launched[beneath.launches++] =
        (struct launched){kernel, blocks, threads, stream, *call};
    return beneath.launch_fails_in-- ? WEFT_OK : base_fail(WEFT_ERR_SYSTEM, "no launch");
}

weft_status __wrap_coll_engines_enqueue(struct gpu *g, const struct coll_call *call, int phases,
                                        unsigned threads, CUstream stream);
weft_status __wrap_coll_engines_enqueue(struct gpu *g, const struct coll_call *call, int phases,
                                        unsigned threads, CUstream stream)
{
    assert_ptr_equal(g, &gpu);
    assert_int_equal(beneath.mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    beneath.engines++;
    beneath.launched[0] = (struct launched){.call = *call, .stream = stream};
    beneath.phases = phases;
    beneath.engine_threads = threads;
    return fails(CALL_ENGINES);
}

weft_status __wrap_gpu_copy_on(struct gpu *g, CUstream stream, void *dst, const void *src,
                               size_t bytes);
weft_status __wrap_gpu_copy_on(struct gpu *g, CUstream stream, void *dst, const void *src,
                               size_t bytes)
{
    assert_ptr_equal(g, &gpu);
    beneath.copies++;
    beneath.copy_dst = dst;
    beneath.copy_src = src;
    beneath.copy_bytes = bytes;
    beneath.copy_stream = stream;
    return fails(CALL_COPY);
}

weft_status __wrap_gpu_wait_stream(struct gpu *g, CUstream stream, const char *what);
weft_status __wrap_gpu_wait_stream(struct gpu *g, CUstream stream, const char *what)
{
    assert_true(g == &gpu && stream == gpu_coll.stream);
    assert_string_equal(what, "some_call");
    assert_int_equal(beneath.entered, 1);
    assert_true(is_held(&gpu_coll.lock));
    beneath.waits++;
    return fails(CALL_WAIT);
}

weft_status __wrap_job_check_failed(struct weft_job *of);
weft_status __wrap_job_check_failed(struct weft_job *of)
{
    assert_ptr_equal(of, &job);
    return fails(CALL_CHECK_FAILED);
}

const uint64_t *__wrap_gpu_coll_sizes(struct gpu *g, int which, const uint64_t *words, int n);
const uint64_t *__wrap_gpu_coll_sizes(struct gpu *g, int which, const uint64_t *words, int n)
{
    assert_true(g == &gpu && n == team.n);
    assert_true(is_held(&gpu_coll.lock));
    assert_ptr_equal(words, (const uint64_t *)(PLAIN + (uintptr_t)which * 8));
    beneath.sizes++;
    return (const uint64_t *)(PINNED + 0x100 * (uintptr_t)(which + 1));
}

enum gpu_place __wrap_gpu_place_of(struct gpu *g, const void *address);
enum gpu_place __wrap_gpu_place_of(struct gpu *g, const void *address)
{
    assert_ptr_equal(g, &gpu);
    switch ((uintptr_t)address >> 28) {
    case 1:
    case 3:
        return GPU_PLACE_DEVICE;
    case 4:
        return GPU_PLACE_PINNED;
    default:
        return GPU_PLACE_PLAIN;
    }
}

bool __wrap_access_find(const struct weft_ctx *of, const void *address, size_t bytes,
                        enum segment_id *segment, size_t *offset);
bool __wrap_access_find(const struct weft_ctx *of, const void *address, size_t bytes,
                        enum segment_id *segment, size_t *offset)
{
    assert_ptr_equal(of, &ctx);
    uintptr_t at = (uintptr_t)address;
    *segment = at >> 28 == 1 ? SEG_GPU : SEG_HEAP;
    uintptr_t base = *segment == SEG_GPU ? GPU_HEAP : HOST_HEAP,
              end = base + (*segment == SEG_GPU ? GPU_BACKED : HOST_HEAP_BYTES);
    *offset = at - base;
    return at >= base && at < end && bytes <= end - at;
}

weft_status __wrap_access_find_own(const char *function, const struct weft_ctx *of,
                                   const void *address, size_t bytes, enum segment_id *segment,
                                   size_t *offset);
weft_status __wrap_access_find_own(const char *function, const struct weft_ctx *of,
                                   const void *address, size_t bytes, enum segment_id *segment,
                                   size_t *offset)
{
    assert_string_equal(function, "some_call");
    assert_true(bytes > 0);
    return __wrap_access_find(of, address, bytes, segment, offset)
               ? WEFT_OK
               : base_fail(WEFT_ERR_RANGE, "too long");
}

int __wrap_log_enabled(enum log_level level, enum log_subsystem subsystem);
int __wrap_log_enabled(enum log_level level, enum log_subsystem subsystem)
{
    return level <= LOG_DEBUG;
}

void __wrap_log_line(enum log_level level, enum log_subsystem subsystem, const char *format, ...);
void __wrap_log_line(enum log_level level, enum log_subsystem subsystem, const char *format, ...)
{
    va_list arguments;
    beneath.warnings += level == LOG_WARN;
    beneath.debugs += level == LOG_DEBUG;
    va_start(arguments, format);
    vsnprintf(beneath.line, sizeof beneath.line, format, arguments);
    va_end(arguments);
}

static int exchange_mode(int *mode)
{
    int before = beneath.mode;
    beneath.mode = *mode;
    *mode = before;
    beneath.modes++;
    return 0;
}

static int pointer_attribute(void *data, int attribute, CUdeviceptr at)
{
    (void)at;
    if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR) {
        *(CUdeviceptr *)data = beneath.allocation;
        return beneath.no_start;
    }
    assert_int_equal(attribute, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
    *(size_t *)data = beneath.allocation_bytes;
    return beneath.no_range;
}

static int set_up(void **state)
{
    (void)state;
    memset(&beneath, 0, sizeof beneath);
    beneath.launch_fails_in = -1;
    beneath.number = 40;
    beneath.ints[CONFIG_COLL_SMS] = 16;
    beneath.choice = (struct coll_choice){
        .algorithm = COLL_ALGO_SIMPLE, .bytes = UINT64_MAX, .blocks = 4, .threads = 512};
    driver.ThreadExchangeStreamCaptureMode = exchange_mode;
    driver.PointerGetAttribute = pointer_attribute;
    driver.driver_version = 13010;
    map = (struct gpu_map){.backend = some_way};
    static const CUdeviceptr bases[4] = {0x60000000, GPU_HEAP, 0x80000000, 0x90000000};
    for (int i = 0; i < 4; i++)
        windows[i].base = bases[i];
    for (int i = 0; i < COLL_MEMBERS + 2; i++)
        pes[i] = 4;
    memcpy(pes, (int[]){4, 2, 7, OTHER_NODE}, 4 * sizeof *pes);
    gpu_coll = (struct gpu_coll){.stream = (CUstream)0x77};
    gpu = (struct gpu){
        .driver = driver,
        .device = {.driver = &driver, .visible = 3, .name = "some GPU"},
        .heap = {.size = GPU_HEAP_BYTES,
                 .backed = GPU_BACKED,
                 .windows = windows,
                 .boot = &boot,
                 .map = &map},
        .coll = &gpu_coll,
        .layout.coll = {.offset = 0x700000, .teams = COLL_TEAMS, .wide = COLL_WIDE_TEAMS},
        .slot_of = slot_of,
        .reporting = {.limit_ns = 12345}};
    job = (struct weft_job){.gpu = &gpu, .default_ctx = &ctx};
    team = (struct weft_team){
        .job = &job, .n = MEMBERS, .me = ME, .pes = pes, .slot = 5, .scratch = scratch};
    file_rates = coll_rates_built_in;
    file_rates.one_trip_us = 17.5;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(team.coll);
    team.coll = NULL;
    callocs.left = -1;
    assert_int_equal(callocs.memory, 0);
    assert_int_equal(beneath.entered, 0);
    assert_int_equal(beneath.mode, 0);
    assert_true(none_is_held());
    return 0;
}

static inline void make_ready(void)
{
    assert_int_equal(coll_kernel_force(&team, COLL_ALGO_AUTO, 16), WEFT_OK);
    assert_non_null(team.coll);
}

static inline struct combiner combiner_of(weft_type type, weft_op op)
{
    return (struct combiner){.element = weft_dev_type_bytes(type), .type = type, .op = op};
}

static inline struct coll_request ask_of(enum coll_what what, uintptr_t dst, uintptr_t src,
                                         uint64_t bytes)
{
    return (struct coll_request){.function = "some_call",
                                 .what = what,
                                 .dst = (void *)dst,
                                 .src = (const void *)src,
                                 .bytes = bytes,
                                 .root = ME,
                                 .reduction = combiner_of(WEFT_FLOAT, WEFT_SUM)};
}

#endif
