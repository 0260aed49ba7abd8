/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that the owner executes (src/path/serve.c), in host memory: every operation, the values
 * that it leaves, and the requests that are rejected; and with a GPU that is imitated, the order of
 * data in its memory and what follows in host memory. */
#include "path/serve.h"

#include "base/status.h"
#include "gpu/gpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BYTES = 4096 };

static _Alignas(64) unsigned char memory[BYTES];
static char *map[1][SEG_COUNT] = {{(char *)memory}};
static struct path_world world = {.npes = 1, .map = map, .sizes = {BYTES}};
static struct serve *serve;

static int set_up(void **state)
{
    (void)state;
    memset(memory, 0x5a, sizeof memory);
    return serve_open(&world, &serve) != WEFT_OK;
}

static int tear_down(void **state)
{
    (void)state;
    serve_close(serve);
    world.gpu = NULL;
    return 0;
}

static void expect_complete(uint64_t count)
{
    uint64_t complete = 0;
    assert_int_equal(serve_poll(serve, &complete), WEFT_OK);
    assert_int_equal(complete, count);
}

static void put_and_get(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 2, 3, 4, 7, 8, 9, 63, 1001};
    unsigned char data[1001], back[1002];
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (size_t k = 0; k < sizes[i]; k++)
            data[k] = (unsigned char)(k * 37 + i * 11 + 0x81);
        struct serve_request r = {.operation = SERVE_PUT, .offset = 129, .bytes = sizes[i]};
        memset(memory, 0x5a, sizeof memory);
        assert_int_equal(serve_begin(serve, &r, data, NULL), WEFT_OK);
        assert_int_equal(memory[128], 0x5a);
        assert_memory_equal(memory + 129, data, sizes[i]);
        assert_int_equal(memory[129 + sizes[i]], 0x5a);
        r.operation = SERVE_GET;
        memset(back, 0xc3, sizeof back);
        assert_int_equal(serve_begin(serve, &r, back, NULL), WEFT_OK);
        assert_memory_equal(back, data, sizes[i]);
        assert_int_equal(back[sizes[i]], 0xc3);
        expect_complete(2 * i + 2);
    }
}

static void store_and_load(void **state)
{
    (void)state;
    const uint64_t value = 0xfedcba9876543210u;
    for (size_t width = 1; width <= 8; width *= 2) {
        uint64_t back = 0;
        struct serve_request r = {.operation = SERVE_STORE, .offset = 64, .bytes = width};
        memset(memory, 0x5a, sizeof memory);
        assert_int_equal(serve_begin(serve, &r, (void *)&value, NULL), WEFT_OK);
        assert_memory_equal(memory + 64, &value, width);
        assert_int_equal(memory[64 + width], 0x5a);
        r.operation = SERVE_LOAD;
        assert_int_equal(serve_begin(serve, &r, &back, NULL), WEFT_OK);
        assert_memory_equal(&back, &value, width);
    }
}

static uint64_t expected_after(weft_amo amo, uint64_t before, uint64_t value, uint64_t expected)
{
    switch (amo) {
    case WEFT_AMO_SET:
    case WEFT_AMO_SWAP:
        return value;
    case WEFT_AMO_ADD:
    case WEFT_AMO_FETCH_ADD:
        return before + value;
    case WEFT_AMO_AND:
    case WEFT_AMO_FETCH_AND:
        return before & value;
    case WEFT_AMO_OR:
    case WEFT_AMO_FETCH_OR:
        return before | value;
    case WEFT_AMO_XOR:
    case WEFT_AMO_FETCH_XOR:
        return before ^ value;
    case WEFT_AMO_CSWAP:
        return before == expected ? value : before;
    default:
        return before;
    }
}

static void one_atomic(weft_amo amo, size_t width, uint64_t before, uint64_t value,
                       uint64_t expected)
{
    uint64_t mask = width == 4 ? 0xffffffffu : UINT64_MAX, found = 0, after;
    struct serve_request r = {.operation = SERVE_ATOMIC,
                              .amo = (uint8_t)amo,
                              .offset = 192,
                              .bytes = width,
                              .value = value,
                              .expected = expected};
    memset(memory, 0x5a, sizeof memory);
    memcpy(memory + 192, &before, width);
    assert_int_equal(serve_begin(serve, &r, NULL, &found), WEFT_OK);
    memcpy(&after, memory + 192, sizeof after);
    assert_int_equal(after & mask, expected_after(amo, before, value, expected) & mask);
    assert_int_equal(memory[192 + width], 0x5a);
    if (amo >= WEFT_AMO_FETCH)
        assert_int_equal(found & mask, before & mask);
}

static void atomics(void **state)
{
    (void)state;
    const uint64_t high = 0xf00000008000000fu, minus_one = UINT64_MAX;
    for (int amo = 0; amo < WEFT_AMO_COUNT; amo++)
        for (size_t width = 4; width <= 8; width += 4) {
            one_atomic((weft_amo)amo, width, high, minus_one, high);
            one_atomic((weft_amo)amo, width, minus_one, 3, high);
            one_atomic((weft_amo)amo, width, 1, high, 1);
        }
}

static void put_signal(void **state)
{
    (void)state;
    const unsigned char data[5] = {0xff, 0, 0x80, 7, 1};
    uint64_t word = 40;
    memcpy(memory + 512, &word, sizeof word);
    struct serve_request r = {.operation = SERVE_PUT_SIGNAL,
                              .offset = 77,
                              .bytes = sizeof data,
                              .signal_offset = 512,
                              .signal_op = WEFT_SIGNAL_ADD,
                              .value = UINT64_MAX};
    assert_int_equal(serve_begin(serve, &r, (void *)data, NULL), WEFT_OK);
    assert_memory_equal(memory + 77, data, sizeof data);
    memcpy(&word, memory + 512, sizeof word);
    assert_int_equal(word, 39);
    r.signal_op = WEFT_SIGNAL_SET;
    r.bytes = 0;
    assert_int_equal(serve_begin(serve, &r, (void *)data, NULL), WEFT_OK);
    memcpy(&word, memory + 512, sizeof word);
    assert_int_equal(word, UINT64_MAX);
    assert_int_equal(serve_quiet(serve), WEFT_OK);
    expect_complete(2);
}

/* ------------------------------------------------------------------------------- imitated GPU */

enum { SIGNAL_AT = 512 };
static unsigned char gpu_memory[BYTES];
static const void *copy_from; /* of the copy on the stream that has not run */
static void *copy_to;
static size_t copy_bytes;

weft_status __wrap_gpu_copy(struct gpu *gpu, unsigned stream_index, void *dst, const void *src,
                            size_t bytes, enum gpu_copy_mode mode);
weft_status __wrap_gpu_copy(struct gpu *gpu, unsigned stream_index, void *dst, const void *src,
                            size_t bytes, enum gpu_copy_mode mode)
{
    (void)gpu, (void)stream_index;
    assert_int_equal(mode, GPU_IN_ORDER);
    copy_to = dst, copy_from = src, copy_bytes = bytes;
    return WEFT_OK;
}

/* The copy runs now, before anything that follows the wait. */
weft_status __wrap_gpu_stream_quiet(struct gpu *gpu, unsigned stream_index);
weft_status __wrap_gpu_stream_quiet(struct gpu *gpu, unsigned stream_index)
{
    uint64_t signal;
    (void)gpu, (void)stream_index;
    memcpy(&signal, memory + SIGNAL_AT, sizeof signal);
    assert_int_equal(signal, 40);
    memcpy(copy_to, copy_from, copy_bytes);
    return WEFT_OK;
}

weft_status __wrap_gpu_event_record(struct gpu *gpu, unsigned stream_index,
                                    struct gpu_event **event);
weft_status __wrap_gpu_event_record(struct gpu *gpu, unsigned stream_index,
                                    struct gpu_event **event)
{
    (void)gpu, (void)stream_index, (void)event;
    return WEFT_OK;
}

/* A signal in host memory waits for the data on the stream of the GPU. */
static void signal_after_gpu_data(void **state)
{
    (void)state;
    static struct gpu gpu;
    static int slot_of[1];
    static struct gpu_window window = {.base = 0, .mapped = true};
    uint64_t signal = 40;
    unsigned char data[40];
    window.base = (uintptr_t)gpu_memory;
    gpu.heap.windows = &window;
    gpu.heap.size = BYTES;
    gpu.slot_of = slot_of;
    memset(data, 0xa7, sizeof data);
    memset(gpu_memory, 0x5a, sizeof gpu_memory);
    memcpy(memory + SIGNAL_AT, &signal, sizeof signal);
    world.gpu = &gpu;
    struct serve_request r = {.operation = SERVE_PUT_SIGNAL,
                              .segment = SEG_GPU,
                              .offset = 8,
                              .bytes = sizeof data,
                              .signal_offset = SIGNAL_AT,
                              .signal_op = WEFT_SIGNAL_ADD,
                              .value = 2};
    assert_int_equal(serve_begin(serve, &r, data, NULL), WEFT_OK);
    assert_memory_equal(gpu_memory + 8, data, sizeof data);
    memcpy(&signal, memory + SIGNAL_AT, sizeof signal);
    assert_int_equal(signal, 42);
    expect_complete(1);
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        struct serve_request request;
        weft_status status;
    } rows[] = {
        {{.operation = SERVE_PUT, .offset = BYTES - 3, .bytes = 4}, WEFT_ERR_ADDRESS},
        {{.operation = SERVE_PUT, .offset = BYTES + 1, .bytes = 0}, WEFT_ERR_ADDRESS},
        {{.operation = SERVE_GET, .offset = 8, .bytes = UINT64_MAX}, WEFT_ERR_ADDRESS},
        {{.operation = SERVE_GET, .offset = UINT64_MAX, .bytes = 1}, WEFT_ERR_ADDRESS},
        {{.operation = SERVE_PUT, .segment = SEG_DATA, .bytes = 1}, WEFT_ERR_ADDRESS},
        {{.operation = SERVE_PUT, .segment = SEG_GPU, .bytes = 1}, WEFT_ERR_ADDRESS},
        {{.operation = SERVE_PUT, .segment = 200, .bytes = 1}, WEFT_ERR_ADDRESS},
        {{.operation = SERVE_PUT, .segment = SEG_GPU, .bytes = 0}, WEFT_ERR_ADDRESS},
        {{.operation = SERVE_PUT, .segment = SEG_GPU + 1, .bytes = 0}, WEFT_ERR_ADDRESS},
        {{.operation = SERVE_OPERATIONS, .bytes = 1}, WEFT_ERR_ARGUMENT},
        {{.operation = SERVE_ATOMIC, .amo = WEFT_AMO_COUNT, .bytes = 8}, WEFT_ERR_ARGUMENT},
        {{.operation = SERVE_ATOMIC, .bytes = 2}, WEFT_ERR_ARGUMENT},
        {{.operation = SERVE_ATOMIC, .offset = 4, .bytes = 8}, WEFT_ERR_ARGUMENT},
        {{.operation = SERVE_STORE, .bytes = 3}, WEFT_ERR_ARGUMENT},
        {{.operation = SERVE_STORE, .bytes = 16}, WEFT_ERR_ARGUMENT},
        {{.operation = SERVE_LOAD, .bytes = 16}, WEFT_ERR_ARGUMENT},
        {{.operation = SERVE_LOAD, .offset = 2, .bytes = 4}, WEFT_ERR_ARGUMENT},
        {{.operation = SERVE_PUT_SIGNAL, .signal_offset = BYTES - 4}, WEFT_ERR_ARGUMENT},
        {{.operation = SERVE_PUT_SIGNAL, .signal_offset = BYTES}, WEFT_ERR_ADDRESS},
    };
    unsigned char data[8] = {0};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(serve_begin(serve, &rows[i].request, data, NULL), rows[i].status);
        expect_complete(i + 1);
    }
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(memory[i], 0x5a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(put_and_get, set_up, tear_down),
        cmocka_unit_test_setup_teardown(store_and_load, set_up, tear_down),
        cmocka_unit_test_setup_teardown(atomics, set_up, tear_down),
        cmocka_unit_test_setup_teardown(put_signal, set_up, tear_down),
        cmocka_unit_test_setup_teardown(signal_after_gpu_data, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
