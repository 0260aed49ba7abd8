/* SPDX-License-Identifier: Apache-2.0 */
/* Path relay: which calls of the relay GPU each operation makes, and for which it waits, by the
 * location of the local side. The GPU's functions are fakes that record their calls. */
#include "gpu/multipath/relay.h"
#include "gpu/multipath/stripe.h"
#include "path/local/relay.h"

#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

extern const struct path_ops path_relay;

static char calls[512];
static const char *fails; /* the call that fails */
static enum gpu_place place;
static bool reached;
static uint64_t found;

static weft_status call(const char *name, const char *more)
{
    size_t used = strlen(calls);
    snprintf(calls + used, sizeof calls - used, "%s%s%s", used ? " " : "", name, more);
    return fails && strcmp(fails, name) == 0 ? base_fail(WEFT_ERR_SYSTEM, "%s", name) : WEFT_OK;
}

static struct gpu *sides[3], side[3], own;
static char bytes[64];

/* Returns "" for a copy to the peer and ",get" for one from it. Checks that the relay GPU does
 * it. */
static const char *way(const struct gpu *gpu, const void *dst, const void *src, size_t n)
{
    uintptr_t to = (uintptr_t)dst - 0x100000, from = (uintptr_t)src - 0x100000;
    bool put = to < 4096;
    assert_ptr_equal(gpu, &side[1]);
    assert_int_equal((put ? to : from) % 16, 8);
    assert_true((const char *)(put ? src : dst) >= bytes &&
                (const char *)(put ? src : dst) < bytes + 64);
    assert_true(n == 64 || n == 4);
    return put ? "" : ",get";
}

enum gpu_place __wrap_gpu_place_of(struct gpu *gpu, const void *address);
enum gpu_place __wrap_gpu_place_of(struct gpu *gpu, const void *address)
{
    (void)address;
    assert_ptr_equal(gpu, &side[1]);
    return place;
}

bool __wrap_gpu_relay_reaches(struct gpu *gpu, const void *local);
bool __wrap_gpu_relay_reaches(struct gpu *gpu, const void *local)
{
    assert_ptr_equal(gpu, &side[1]);
    assert_true((const char *)local >= bytes && (const char *)local < bytes + 64);
    return reached;
}

weft_status __wrap_gpu_relay_copy_staged(struct gpu *gpu, unsigned lane, void *dst, const void *src,
                                         size_t n);
weft_status __wrap_gpu_relay_copy_staged(struct gpu *gpu, unsigned lane, void *dst, const void *src,
                                         size_t n)
{
    (void)lane;
    return call("around", way(gpu, dst, src, n));
}

weft_status __wrap_gpu_copy_plain(struct gpu *gpu, unsigned lane, void *dst, const void *src,
                                  size_t n);
weft_status __wrap_gpu_copy_plain(struct gpu *gpu, unsigned lane, void *dst, const void *src,
                                  size_t n)
{
    (void)lane;
    return call("plain", way(gpu, dst, src, n));
}

weft_status __wrap_gpu_copy_peer(struct gpu *gpu, struct gpu *by, int slot, unsigned lane,
                                 void *dst, const void *src, size_t n, enum gpu_copy_mode manner);
weft_status __wrap_gpu_copy_peer(struct gpu *gpu, struct gpu *by, int slot, unsigned lane,
                                 void *dst, const void *src, size_t n, enum gpu_copy_mode manner)
{
    char more[16];
    (void)lane;
    assert_ptr_equal(gpu, &own);
    assert_int_equal(slot, 1);
    snprintf(more, sizeof more, "%s%s", way(by, dst, src, n),
             manner == GPU_DONE       ? ",done"
             : manner == GPU_IN_ORDER ? ",order"
                                      : "");
    return call("copy", more);
}

weft_status __wrap_gpu_signal(struct gpu *gpu, unsigned lane, CUdeviceptr signal, uint64_t value,
                              weft_signal_op op);
weft_status __wrap_gpu_signal(struct gpu *gpu, unsigned lane, CUdeviceptr signal, uint64_t value,
                              weft_signal_op op)
{
    (void)gpu, (void)lane, (void)op;
    assert_int_equal(signal, 0x100000 + 64);
    assert_int_equal(value, 9);
    return call("signal", "");
}

weft_status __wrap_gpu_access(struct gpu *gpu, unsigned lane, CUdeviceptr at, int op, size_t width,
                              uint64_t value, uint64_t expected, uint64_t *fetched);
weft_status __wrap_gpu_access(struct gpu *gpu, unsigned lane, CUdeviceptr at, int op, size_t width,
                              uint64_t value, uint64_t expected, uint64_t *fetched)
{
    char more[64];
    (void)gpu, (void)lane, (void)op;
    assert_int_equal(at, 0x100000 + 8);
    snprintf(more, sizeof more, ",%zu,%llx,%llx", width, (unsigned long long)value,
             (unsigned long long)expected);
    if (fetched)
        *fetched = found;
    return call("access", more);
}

weft_status __wrap_gpu_quiet(struct gpu *gpu);
weft_status __wrap_gpu_quiet(struct gpu *gpu)
{
    char more[8];
    snprintf(more, sizeof more, ",%d", (int)(gpu - side));
    return call("quiet", more);
}

weft_status __wrap_gpu_stream_quiet(struct gpu *gpu, unsigned lane);
weft_status __wrap_gpu_stream_quiet(struct gpu *gpu, unsigned lane)
{
    (void)gpu, (void)lane;
    return call("lane", "");
}

weft_status __wrap_gpu_copy_strided(struct gpu *gpu, unsigned lane, void *dst, const void *src,
                                    ptrdiff_t dst_step, ptrdiff_t src_step, size_t element,
                                    size_t n);
weft_status __wrap_gpu_copy_strided(struct gpu *gpu, unsigned lane, void *dst, const void *src,
                                    ptrdiff_t dst_step, ptrdiff_t src_step, size_t element,
                                    size_t n)
{
    char more[40];
    (void)lane;
    snprintf(more, sizeof more, "%s,%d,%d,%zu", way(gpu, dst, src, 64), (int)dst_step,
             (int)src_step, n);
    assert_int_equal(element, 4);
    return call("strided", more);
}

/* ---------------------------------------------------------------------------------------------- */

static struct gpu_window windows[2];
static int slot_of[] = {0, 1, -1};
static struct path_world world = {.npes = 3, .gpu = &own};
static struct peer peer;

static int prepare(void **state)
{
    (void)state;
    memset(&own, 0, sizeof own);
    windows[1].base = 0x100000;
    windows[1].relay = 1;
    own.slot_of = slot_of;
    own.heap.windows = windows;
    own.heap.relay_count = 2;
    for (int i = 0; i < 3; i++)
        sides[i] = &side[i];
    own.multipath.relay_gpus = (struct gpu * _Atomic *)sides;
    peer = (struct peer){.pe = 1, .ops = &path_relay, .world = &world};
    calls[0] = '\0';
    fails = NULL;
    place = GPU_PLACE_DEVICE;
    reached = true;
    return path_relay.open(&world, &peer.state) != WEFT_OK || !peer.state;
}

static int finish(void **state)
{
    (void)state;
    path_relay.close(peer.state);
    return 0;
}

static void expect(weft_status status, weft_status expected, const char *what)
{
    assert_int_equal(status, expected);
    assert_string_equal(calls, what);
    calls[0] = '\0';
}

static struct remote at(size_t offset)
{
    return (struct remote){&peer, SEG_GPU, offset};
}

static void puts_and_gets(void **state)
{
    (void)state;
    expect(path_relay.put(at(8), bytes, 64, true), WEFT_OK, "copy,order");
    expect(path_relay.put(at(8), bytes, 64, false), WEFT_OK, "copy,done");
    expect(path_relay.get(at(8), bytes, 64, true), WEFT_OK, "copy,get,order");
    expect(path_relay.get(at(8), bytes, 64, false), WEFT_OK, "copy,get,done");
    place = GPU_PLACE_PLAIN;
    expect(path_relay.put(at(8), bytes, 64, false), WEFT_OK, "plain");
    expect(path_relay.put(at(8), bytes, 64, true), WEFT_OK, "copy,order");
    reached = false;
    expect(path_relay.put(at(8), bytes, 64, false), WEFT_OK, "around");
    expect(path_relay.get(at(8), bytes, 64, false), WEFT_OK, "around,get");
}

/* The call waits for the stream only if a copy was made on it and the call is blocking. */
static void puts_with_a_signal(void **state)
{
    static const struct {
        enum gpu_place place;
        bool reached, nbi;
        const char *fails, *calls;
    } rows[] = {{GPU_PLACE_DEVICE, true, false, NULL, "copy,order signal lane"},
                {GPU_PLACE_DEVICE, true, true, NULL, "copy,order signal"},
                {GPU_PLACE_PLAIN, true, false, NULL, "plain signal"},
                {GPU_PLACE_PLAIN, true, true, NULL, "copy,order signal"},
                {GPU_PLACE_PLAIN, false, false, NULL, "around signal"},
                {GPU_PLACE_DEVICE, true, false, "copy", "copy,order"},
                {GPU_PLACE_DEVICE, true, false, "signal", "copy,order signal"},
                {GPU_PLACE_DEVICE, true, false, "lane", "copy,order signal lane"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        place = rows[i].place;
        reached = rows[i].reached;
        fails = rows[i].fails;
        expect(path_relay.put_signal(at(8), bytes, 64, at(64), 9, WEFT_SIGNAL_SET, rows[i].nbi),
               fails ? WEFT_ERR_SYSTEM : WEFT_OK, rows[i].calls);
    }
}

static void single_accesses(void **state)
{
    uint64_t value = 0x1122334455667788, back = 0;
    (void)state;
    expect(path_relay.store(at(8), &value, 4), WEFT_OK, "access,4,55667788,0");
    found = 0xaabbccddeeff0011;
    expect(path_relay.load(at(8), &back, 4), WEFT_OK, "access,4,0,0");
    assert_int_equal(back, 0xeeff0011);
    back = 0;
    expect(path_relay.atomic(at(8), WEFT_AMO_CSWAP, 8, 5, 6, &back, false), WEFT_OK,
           "access,8,5,6");
    assert_int_equal(back, found);
    expect(path_relay.atomic(at(8), WEFT_AMO_ADD, 8, 5, 0, NULL, false), WEFT_OK, "access,8,5,0");
    back = 3;
    fails = "access";
    expect(path_relay.atomic(at(8), WEFT_AMO_SWAP, 8, 5, 0, &back, false), WEFT_ERR_SYSTEM,
           "access,8,5,0");
    assert_int_equal(back, 3);
}

static void strided_by_copies(void **state)
{
    const struct path_strides strides = {.remote_step = 16, .local_step = 8, .element = 4, .n = 3};
    (void)state;
    reached = false;
    expect(path_relay.iput(at(8), bytes, &strides), WEFT_OK, "around around around quiet,1");
    expect(path_relay.iget(at(8), bytes, &strides), WEFT_OK,
           "around,get around,get around,get quiet,1");
    fails = "around";
    expect(path_relay.iget(at(8), bytes, &strides), WEFT_ERR_SYSTEM, "around,get");
}

static void strided_by_a_kernel(void **state)
{
    const struct path_strides strides = {.remote_step = 16, .local_step = 8, .element = 4, .n = 3};
    (void)state;
    expect(path_relay.iput(at(8), bytes, &strides), WEFT_OK, "strided,16,8,3");
    expect(path_relay.iget(at(8), bytes, &strides), WEFT_OK, "strided,get,8,16,3");
    fails = "strided";
    expect(path_relay.iput(at(8), bytes, &strides), WEFT_ERR_SYSTEM, "strided,16,8,3");
    expect(path_relay.iget(at(8), bytes, &strides), WEFT_ERR_SYSTEM, "strided,get,8,16,3");
    place = GPU_PLACE_PLAIN;
    fails = NULL;
    expect(path_relay.iput(at(8), bytes, &strides), WEFT_OK,
           "copy,order copy,order copy,order quiet,1");
}

/* Quiet covers all relay GPUs, and ends at the first failure. */
static void a_quiet(void **state)
{
    (void)state;
    expect(path_relay.quiet(peer.state), WEFT_OK, "quiet,0 quiet,1");
    sides[0] = NULL;
    expect(path_relay.quiet(peer.state), WEFT_OK, "quiet,1");
    sides[0] = &side[0];
    fails = "quiet";
    expect(path_relay.quiet(peer.state), WEFT_ERR_SYSTEM, "quiet,0");
    own.multipath.relay_gpus = NULL;
    expect(path_relay.quiet(peer.state), WEFT_OK, "");
}

/* After the path was chosen, mapping new heap memory may have failed: operations then report the
 * reason. */
static void it_is_not_relayed_any_more(void **state)
{
    uint64_t value = 1;
    const struct path_strides strides = {.element = 4, .n = 1};
    (void)state;
    snprintf(windows[1].relay_text, sizeof windows[1].relay_text, "no memory");
    for (int i = 0; i < 2; i++) {
        windows[1].relay = i ? 1 : -1;
        peer.pe = i ? 2 : 1;
        expect(path_relay.put(at(8), bytes, 64, false), WEFT_ERR_NO_PATH, "");
        assert_non_null(strstr(base_last_error(), i ? "(another kernel)" : "(no memory)"));
        expect(path_relay.get(at(8), bytes, 64, false), WEFT_ERR_NO_PATH, "");
        expect(path_relay.iput(at(8), bytes, &strides), WEFT_ERR_NO_PATH, "");
        expect(path_relay.store(at(8), &value, 8), WEFT_ERR_NO_PATH, "");
        expect(path_relay.load(at(8), &value, 8), WEFT_ERR_NO_PATH, "");
        expect(path_relay.atomic(at(8), WEFT_AMO_ADD, 8, 1, 0, NULL, false), WEFT_ERR_NO_PATH, "");
        expect(path_relay.put_signal(at(8), bytes, 64, at(64), 9, WEFT_SIGNAL_SET, false),
               WEFT_ERR_NO_PATH, "");
    }
}

static void without_a_gpu(void **state)
{
    struct path_world none = {.npes = 1};
    struct path_state *nothing = peer.state;
    (void)state;
    assert_int_equal(path_relay.open(&none, &nothing), WEFT_OK);
    assert_null(nothing);
}

/* PE 0 of the node has a relay GPU too. */
static void the_first_of_the_node(void **state)
{
    uint64_t value = 1;
    (void)state;
    windows[0] = windows[1];
    peer.pe = 0;
    expect(path_relay.store(at(8), &value, 8), WEFT_OK, "access,8,1,0");
    windows[0].relay = -1;
    expect(path_relay.store(at(8), &value, 8), WEFT_ERR_NO_PATH, "");
    assert_null(strstr(base_last_error(), "another kernel"));
}

static void whether_it_is_wished(void **state)
{
    static const struct {
        struct path_order order;
        enum gpu_relay_policy wish;
    } rows[] = {
        {{0}, GPU_RELAY_WHERE_NEEDED},
        {{.count = 2, .order = {PATH_P2P, PATH_RELAY}, .forced = true}, GPU_RELAY_ALWAYS},
        {{.count = 1, .order = {PATH_P2P, PATH_RELAY}, .forced = true}, GPU_RELAY_NEVER},
        {{.count = 2, .order = {PATH_RELAY, PATH_P2P}}, GPU_RELAY_ALWAYS},
        {{.count = 1, .order = {PATH_P2P}}, GPU_RELAY_WHERE_NEEDED},
        {{.excluded = 1u << PATH_RELAY}, GPU_RELAY_NEVER},
        {{.excluded = 1u << PATH_P2P}, GPU_RELAY_WHERE_NEEDED},
        {{.count = 1, .order = {PATH_RELAY}, .excluded = 1u << PATH_RELAY}, GPU_RELAY_NEVER},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(relay_policy_of_order(&rows[i].order), rows[i].wish);
}

static void what_keeps_from_it(void **state)
{
    static const struct {
        struct path_facts facts;
        const char *obstacle; /* NULL = none */
    } rows[] = {
        {{.kind = WEFT_GPU, .same_node = true, .relay_gpu = "GPU 2"}, NULL},
        {{.kind = WEFT_GPU, .same_node = true, .same_pe = true, .relay_gpu = "GPU 2"},
         "the same PE"},
        {{.kind = WEFT_HOST, .same_node = true, .relay_gpu = "GPU 2"}, "for GPU memory only"},
        {{.kind = WEFT_GPU, .relay_gpu = "GPU 2"}, "the PEs run on different kernels"},
        {{.kind = WEFT_GPU, .same_node = true}, "no third GPU reaches both"},
        {{.kind = WEFT_GPU, .same_node = true, .no_relay_gpu = "a reason"}, "a reason"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *obstacle = path_relay.obstacle(&rows[i].facts);
        assert_int_equal(obstacle == NULL, rows[i].obstacle == NULL);
        if (obstacle)
            assert_string_equal(obstacle, rows[i].obstacle);
        assert_ptr_equal(path_relay.route(&rows[i].facts), rows[i].facts.relay_gpu);
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, prepare, finish)
    const struct CMUnitTest tests[] = {
        CASE(puts_and_gets),
        CASE(puts_with_a_signal),
        CASE(single_accesses),
        CASE(strided_by_copies),
        CASE(a_quiet),
        CASE(it_is_not_relayed_any_more),
        CASE(without_a_gpu),
        CASE(the_first_of_the_node),
        CASE(strided_by_a_kernel),
        cmocka_unit_test(whether_it_is_wished),
        cmocka_unit_test(what_keeps_from_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
