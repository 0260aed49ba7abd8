/* SPDX-License-Identifier: Apache-2.0 */
/* Which transfers the CPU does through mapped GPU memory (src/path/local/mapped.c), by segment,
 * location of the local side, and size, and that the bytes are right. The mappings are plain
 * memory. */
#include "gpu/gpu.h"
#include "gpu/map/map.h"
#include "path/local/mapped.h"

#include <linux/membarrier.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

enum { SLOTS = 3, BYTES = 2 << 20, AT = 4096 };

static _Alignas(64) char memory[SLOTS][BYTES], host[BYTES], peers_host[BYTES];
static unsigned settled[SLOTS];
static bool pays, elsewhere; /* the local side is GPU memory outside the heap */
/* context that another thread quiets while its memory is mapped; NULL: the memory is not mapped */
static struct mapped *quiets_first;
static struct {
    int calls;
    const void *host;
    size_t bytes;
    bool in;
} asked;

char *__wrap_gpu_map_test_area(const struct gpu_map *map, int slot);
char *__wrap_gpu_map_test_area(const struct gpu_map *map, int slot)
{
    (void)map;
    settled[slot]++;
    return memory[slot];
}

bool __wrap_gpu_map_locate(const struct gpu *gpu, const void *address, int *slot, size_t *offset);
bool __wrap_gpu_map_locate(const struct gpu *gpu, const void *address, int *slot, size_t *offset)
{
    const char *at = address;
    (void)gpu;
    if (at < memory[0] || at >= memory[0] + sizeof memory)
        return false;
    *slot = (int)((size_t)(at - memory[0]) / BYTES);
    *offset = (size_t)(at - memory[0]) % BYTES;
    return true;
}

enum gpu_place __wrap_gpu_place_for_cpu(struct gpu *gpu, const void *address);
enum gpu_place __wrap_gpu_place_for_cpu(struct gpu *gpu, const void *address)
{
    int slot;
    size_t offset;
    return elsewhere || __wrap_gpu_map_locate(gpu, address, &slot, &offset) ? GPU_PLACE_DEVICE
                                                                            : GPU_PLACE_PLAIN;
}

bool __wrap_gpu_map_is_faster_by_size(struct gpu_map *map, const void *at, size_t bytes, bool in);
bool __wrap_gpu_map_is_faster_by_size(struct gpu_map *map, const void *at, size_t bytes, bool in)
{
    (void)map;
    asked.calls++;
    asked.host = at;
    asked.bytes = bytes;
    asked.in = in;
    return pays;
}

bool __wrap_gpu_map_copy_sliding(struct gpu_map *map, int slot, size_t offset, void *at,
                                 size_t bytes, bool in);
bool __wrap_gpu_map_copy_sliding(struct gpu_map *map, int slot, size_t offset, void *at,
                                 size_t bytes, bool in)
{
    (void)map, (void)slot, (void)offset, (void)at, (void)bytes, (void)in;
    return false;
}

bool __wrap_gpu_map_extend(struct gpu_map *map, int slot, size_t offset, size_t bytes);
bool __wrap_gpu_map_extend(struct gpu_map *map, int slot, size_t offset, size_t bytes)
{
    (void)map, (void)slot, (void)offset, (void)bytes;
    bool extends = quiets_first != NULL;
    if (extends)
        mapped_flush(quiets_first);
    quiets_first = NULL;
    return extends;
}

const char *__wrap_gpu_map_backend_text(const struct gpu_map *map);
const char *__wrap_gpu_map_backend_text(const struct gpu_map *map)
{
    (void)map;
    return "some way";
}

/* Fake of membarrier(2): counts of its commands, and their result. */
static struct {
    int registers, sends;
    long result;
} barriers;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    long a[6] = {0};
    va_list list;
    va_start(list, number);
    for (int i = 0; i < (number == SYS_membarrier ? 3 : 6); i++)
        a[i] = va_arg(list, long);
    va_end(list);
    if (number != SYS_membarrier)
        return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    assert_int_equal((int)a[1], 0);
    assert_int_equal((int)a[2], 0);
    barriers.registers += (int)a[0] == MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED;
    barriers.sends += (int)a[0] == MEMBARRIER_CMD_PRIVATE_EXPEDITED;
    return barriers.result;
}

/* PE 0 is this PE, in slot 1 of the node; PE 1 is in slot 2. */
static char way;
static struct gpu gpu;
static struct gpu_map map;
static struct gpu_map_window windows[SLOTS];
static _Atomic unsigned char ready[SLOTS][2];
static struct boot boot = {.local_npes = SLOTS};
static int slot_of[2] = {1, 2};
static struct path_world world = {.gpu = &gpu};
static struct peer peer = {.world = &world, .pe = 1};
static struct mapped context;

static int setup(void **state)
{
    (void)state;
    map = (struct gpu_map){.gpu = &gpu, .shift = 21, .windows = windows};
    map.backend = (const struct map_backend *)(const void *)&way;
    gpu.boot = &boot;
    gpu.slot_of = slot_of;
    gpu.heap.map = &map;
    for (int i = 0; i < SLOTS; i++) {
        atomic_store(&ready[i][0], 1);
        windows[i].base = memory[i];
        windows[i].ready = ready[i];
        atomic_store(&windows[i].tested, true);
        for (size_t k = 0; k < 4 * AT; k++)
            memory[i][k] = (char)(k * 7 + k / 253 + (size_t)i * 31);
    }
    for (size_t k = 0; k < 4 * AT; k++) {
        host[k] = (char)(k * 5 + k / 251 + 77);
        peers_host[k] = (char)(k * 3 + k / 249 + 111);
    }
    peer.base[SEG_HEAP] = peers_host;
    pays = true;
    elsewhere = false;
    memset(&asked, 0, sizeof asked);
    memset(settled, 0, sizeof settled);
    memset(&context, 0, sizeof context);
    memset(&barriers, 0, sizeof barriers);
    mapped_open(&context, &world);
    return 0;
}

static struct remote at(enum segment_id segment, size_t offset)
{
    return (struct remote){.peer = &peer, .segment = segment, .offset = offset};
}

/* Checks which slot's mapping a quiet loads from; -1 = none. */
static void expect_settled(int slot)
{
    memset(settled, 0, sizeof settled);
    mapped_flush(&context);
    for (int i = 0; i < SLOTS; i++)
        assert_int_equal(settled[i], i == slot);
}

static const size_t sizes[] = {1, 7, 512, 513, 1023, 1024, 1025, 4096};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void between_host_and_the_peers_gpu(void **state)
{
    for (int i = 0; i < SIZES; i++) {
        size_t n = sizes[i];
        setup(state);
        assert_true(mapped_put(&context, at(SEG_GPU, AT), host + 3, n));
        assert_memory_equal(memory[2] + AT, host + 3, n);
        assert_int_equal(asked.calls, n > 512);
        if (n > 512)
            assert_true(asked.host == host + 3 && asked.bytes == n && asked.in);
        expect_settled(2);
        memset(&asked, 0, sizeof asked);
        assert_true(mapped_get(&context, at(SEG_GPU, 2 * AT), host + 5, n));
        assert_memory_equal(host + 5, memory[2] + 2 * AT, n);
        assert_int_equal(asked.calls, n > 512);
        if (n > 512)
            assert_true(asked.host == host + 5 && asked.bytes == n && !asked.in);
        expect_settled(-1);
        pays = false;
        assert_int_equal(mapped_put(&context, at(SEG_GPU, AT), host, n), n <= 512);
        assert_int_equal(mapped_get(&context, at(SEG_GPU, AT), host, n), n <= 512);
    }
    setup(state);
    assert_true(mapped_put(&context, at(SEG_GPU, 0), host, 1 << 20));
    assert_true(mapped_get(&context, at(SEG_GPU, 0), host, 1 << 20));
    assert_false(mapped_put(&context, at(SEG_GPU, 0), host, (1 << 20) + 1));
    assert_false(mapped_get(&context, at(SEG_GPU, 0), host, (1 << 20) + 1));
    elsewhere = true;
    assert_false(mapped_put(&context, at(SEG_GPU, 0), host, 8));
    assert_false(mapped_get(&context, at(SEG_GPU, 0), host, 8));
}

/* The CPU copies up to 1 KiB. */
static void between_gpus(void **state)
{
    for (int i = 0; i < SIZES; i++) {
        size_t n = sizes[i];
        setup(state);
        assert_int_equal(mapped_put(&context, at(SEG_GPU, AT), memory[1] + 8, n), n <= 1024);
        if (n <= 1024)
            assert_memory_equal(memory[2] + AT, memory[1] + 8, n);
        expect_settled(n <= 1024 ? 2 : -1);
        assert_int_equal(mapped_get(&context, at(SEG_GPU, 2 * AT), memory[1] + AT, n), n <= 1024);
        if (n <= 1024)
            assert_memory_equal(memory[1] + AT, memory[2] + 2 * AT, n);
        expect_settled(n <= 1024 ? 1 : -1);
    }
}

static void between_the_gpu_and_the_peers_host(void **state)
{
    for (int i = 0; i < SIZES; i++) {
        size_t n = sizes[i];
        setup(state);
        assert_true(mapped_put(&context, at(SEG_HEAP, 9), memory[1] + AT, n));
        assert_memory_equal(peers_host + 9, memory[1] + AT, n);
        assert_int_equal(asked.calls, n > 512);
        assert_false(asked.in);
        expect_settled(-1);
        assert_true(mapped_get(&context, at(SEG_HEAP, 5), memory[1] + 2 * AT, n));
        assert_memory_equal(memory[1] + 2 * AT, peers_host + 5, n);
        assert_int_equal(asked.in, n > 512);
        expect_settled(1);
        assert_false(mapped_put(&context, at(SEG_HEAP, 9), host, n)); /* left to the path itself */
        assert_false(mapped_get(&context, at(SEG_HEAP, 9), host, n));
        pays = false;
        assert_int_equal(mapped_put(&context, at(SEG_HEAP, 9), memory[1], n), n <= 512);
        assert_int_equal(mapped_get(&context, at(SEG_HEAP, 9), memory[1], n), n <= 512);
        peer.base[SEG_HEAP] = NULL;
        assert_false(mapped_put(&context, at(SEG_HEAP, 9), memory[1], n));
        assert_false(mapped_get(&context, at(SEG_HEAP, 9), memory[1], n));
    }
}

static void strided(void **state)
{
    static const struct {
        size_t n, element;
        bool put, get;
    } rows[] = {{1, 8, true, true},    {4, 64, true, true},    {5, 8, true, false},
                {256, 8, true, false}, {257, 8, false, false}, {2, 65, false, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int put = 0; put < 2; put++) {
            static char before[BYTES], source[BYTES];
            const struct path_strides s = {
                .remote_step = 72, .local_step = 80, .element = rows[i].element, .n = rows[i].n};
            setup(state);
            bool done = put ? rows[i].put : rows[i].get;
            memcpy(before, put ? memory[2] : host, sizeof before);
            memcpy(source, put ? host : memory[2], sizeof source);
            assert_int_equal(mapped_strided(&context, at(SEG_GPU, AT), host + 8, put, &s), done);
            for (size_t k = 0; done && k < s.n; k++)
                assert_memory_equal(put ? memory[2] + AT + k * 72 : host + 8 + k * 80,
                                    source + (put ? 8 + k * 80 : AT + k * 72), s.element);
            const char *to = put ? memory[2] + AT : host + 8;
            size_t step = put ? 72 : 80, from = put ? AT : 8;
            assert_memory_equal(to + (s.n - 1) * step + s.element,
                                before + from + (s.n - 1) * step + s.element, 64);
            assert_memory_equal(to - 8, before + from - 8, 8);
            expect_settled(done && put ? 2 : -1);
        }
    const struct path_strides s = {.remote_step = 72, .local_step = 80, .element = 8, .n = 2};
    assert_false(mapped_strided(&context, at(SEG_HEAP, AT), host, true, &s));
    elsewhere = true;
    assert_false(mapped_strided(&context, at(SEG_GPU, AT), host, true, &s));
    elsewhere = false;
    atomic_store(&ready[2][0], 0);
    assert_false(mapped_strided(&context, at(SEG_GPU, AT), host, true, &s));
}

static void with_a_signal(void **state)
{
    uint64_t seen;
    (void)state;
    assert_true(mapped_put_signal(&context, at(SEG_GPU, AT), host, 9, at(SEG_GPU, 64), 0x1234567));
    assert_memory_equal(memory[2] + AT, host, 9);
    memcpy(&seen, memory[2] + 64, sizeof seen);
    assert_int_equal(seen, 0x1234567);
    expect_settled(2);
    assert_true(mapped_put_signal(&context, at(SEG_GPU, 0), host, 1 << 20, at(SEG_GPU, 64), 1));
    assert_false(
        mapped_put_signal(&context, at(SEG_GPU, 0), host, (1 << 20) + 1, at(SEG_GPU, 64), 9));
    assert_false(mapped_put_signal(&context, at(SEG_HEAP, 0), memory[1], 8, at(SEG_GPU, 64), 9));
    elsewhere = true;
    assert_false(mapped_put_signal(&context, at(SEG_GPU, 0), host, 8, at(SEG_GPU, 64), 9));
    memcpy(&seen, memory[2] + 64, sizeof seen);
    assert_int_not_equal(seen, 9);
}

/* A quiet between the data and the signal completes only the data. */
static void a_quiet_before_the_signal(void **state)
{
    (void)state;
    map.shift = 12;
    atomic_store(&ready[2][0], 0);
    atomic_store(&ready[2][1], 1);
    quiets_first = &context;
    assert_true(mapped_put_signal(&context, at(SEG_GPU, AT), host, 9, at(SEG_GPU, 64), 3));
    assert_null(quiets_first);
    assert_int_equal(settled[2], 1);
    expect_settled(2);
    expect_settled(-1);
}

static void single_values(void **state)
{
    uint64_t value = 0x1122334455667788, seen = 0;
    (void)state;
    assert_true(mapped_store(&context, at(SEG_GPU, 128), &value, 4));
    assert_true(mapped_load(at(SEG_GPU, 128), &seen, 4));
    assert_int_equal(seen, 0x55667788);
    expect_settled(2);
    atomic_store(&ready[2][0], 0);
    assert_false(mapped_store(&context, at(SEG_GPU, 128), &value, 4));
    assert_false(mapped_load(at(SEG_GPU, 128), &seen, 4));
    expect_settled(-1);
    assert_false(mapped_put(&context, at(SEG_GPU, 128), host, 8));
    assert_false(mapped_get(&context, at(SEG_GPU, 128), host, 8));
    assert_false(mapped_put(&context, at(SEG_GPU, 128), memory[1], 8));
    assert_false(mapped_get(&context, at(SEG_GPU, 128), memory[1], 8));
    expect_settled(-1);
}

/* If another thread has stored too, quiet fences that thread's CPU with membarrier(). */
static void stores_of_other_threads(void **state)
{
    uint64_t value = 5;
    (void)state;
#if !defined(__x86_64__) /* an interrupt would not flush stores */
    assert_true(context.fences_each);
    skip();
#endif
    assert_int_equal(barriers.registers, 1);
    assert_false(context.fences_each);
    assert_true(mapped_store(&context, at(SEG_GPU, 128), &value, 8));
    expect_settled(2);
    assert_int_equal(barriers.sends, 0);
    atomic_store(&context.storer, &way); /* another thread */
    assert_true(mapped_store(&context, at(SEG_GPU, 128), &value, 8));
    expect_settled(2);
    assert_int_equal(barriers.sends, 1);
    expect_settled(-1);
    assert_int_equal(barriers.sends, 1);
    atomic_store(&windows[2].tested, false);
    epoch_give(&context.stores[2]);
    expect_settled(-1); /* the mapping is gone */
    barriers.result = -1;
    mapped_open(&context, &world);
    assert_true(context.fences_each);
    barriers.result = 0;
}

static void nothing_is_mapped(void **state)
{
    const struct path_strides s = {.remote_step = 72, .local_step = 80, .element = 8, .n = 2};
    (void)state;
    for (int i = 0; i < 2; i++) {
        if (i)
            gpu.heap.map = NULL;
        map.backend = NULL;
        assert_false(mapped_put(&context, at(SEG_GPU, 0), host, 8));
        assert_false(mapped_get(&context, at(SEG_GPU, 0), host, 8));
        assert_false(mapped_get(&context, at(SEG_HEAP, 0), memory[1], 8));
        assert_false(mapped_strided(&context, at(SEG_GPU, 0), host, true, &s));
        assert_false(mapped_put_signal(&context, at(SEG_GPU, 0), host, 8, at(SEG_GPU, 64), 9));
    }
}

static void what_is_told_of_it(void **state)
{
    static const struct {
        bool no_gpu, no_map, no_way, refused;
        weft_kind kind;
        int pe;
        const char *text;
    } rows[] = {
        {0, 0, 0, 0, WEFT_GPU, 1, "small ones by the CPU, through some way"},
        {0, 0, 0, 0, WEFT_HOST, 1, "#"},
        {true, 0, 0, 0, WEFT_GPU, 1, "#"},
        {0, true, 0, 0, WEFT_GPU, 0, "small ones not by the CPU: WEFT_MAP=none"},
        {0, 0, true, 0, WEFT_GPU, 0, "small ones not by the CPU: no way"},
        {0, 0, 0, true, WEFT_GPU, 0, "small ones not by the CPU: refused"},
        {0, 0, true, 0, WEFT_GPU, 1, "small ones not by the CPU (PE 0 to itself says why)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[80] = "#";
        setup(state);
        world.gpu = rows[i].no_gpu ? NULL : &gpu;
        gpu.heap.map = rows[i].no_map ? NULL : &map;
        map.backend = rows[i].no_way ? NULL : map.backend;
        strcpy(map.why, "no way");
        strcpy(windows[1].why, "refused");
        atomic_store(&ready[1][0], !rows[i].refused);
        assert_int_equal(mapped_refine(&world, rows[i].kind, rows[i].pe, text, sizeof text),
                         WEFT_OK);
        assert_string_equal(text, rows[i].text);
        world.gpu = &gpu;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(between_host_and_the_peers_gpu),
        cmocka_unit_test(between_gpus),
        cmocka_unit_test(between_the_gpu_and_the_peers_host),
        cmocka_unit_test(strided),
        cmocka_unit_test_setup(with_a_signal, setup),
        cmocka_unit_test_setup(a_quiet_before_the_signal, setup),
        cmocka_unit_test_setup(single_values, setup),
        cmocka_unit_test_setup(stores_of_other_threads, setup),
        cmocka_unit_test_setup(nothing_is_mapped, setup),
        cmocka_unit_test(what_is_told_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
