/* SPDX-License-Identifier: Apache-2.0 */
/* Shows how path net executes each operation: what the operation waits for, and which functions of
 * the path it calls, in which order and with the lock held. After a failed call the operation makes
 * no further calls. */
#include "unit/net_calls.h"

/* Arguments of the tested operation. */
static enum segment_id segment;
static size_t offset, bytes;
static bool nbi;

static weft_status put(void)
{
    return path_net.put(at(segment, offset), local, bytes, nbi);
}

static weft_status get(void)
{
    return path_net.get(at(segment, offset), local, bytes, nbi);
}

static void set(enum segment_id in, size_t from, size_t count, bool without_wait)
{
    segment = in;
    offset = from;
    bytes = count;
    nbi = without_wait;
}

/* ---------------------------------------------------------------------------------- put and get */

static void small_puts_are_requests(void **context)
{
    (void)context;
    set(SEG_HEAP, 640, 3072, false);
    expect(put, "failure order_request request:3072 flush_unanswered ");
    assert_int_equal(path_net.put(at(SEG_DATA, 640), local, 70, true), WEFT_OK);
    assert_int_equal(record_count, 1);
    assert_int_equal(records[0]->kind, NET_PUT);
    assert_int_equal(records[0]->segment, SEG_DATA);
    assert_int_equal(records[0]->bytes, 70);
    assert_int_equal(records[0]->offset, 640);
    assert_memory_equal(net_payload(records[0]), local, 70);
    set(SEG_GPU, 640, 3072, true);
    expect(put, "failure order_request request:3072 ");
    set(SEG_HEAP, 640, 0, false);
    expect(put, "failure order_request flush_unanswered ");
}

static void large_puts_are_writes_or_staged(void **context)
{
    (void)context;
    set(SEG_HEAP, 640, 3073, false);
    expect(put, "failure order_write write:640:0:3073 await_writes ");
    set(SEG_HEAP, 640, 3073, true);
    expect(put, "failure order_write write:640:0:3073 ");
    set(SEG_GPU, 640, 3073, false);
    net_peer->gpu.access = NET_GPU_DIRECT;
    expect(put, "failure order_write stage_put:3:640:3073 await_staged_sources ");
    net_peer->gpu.access = NET_GPU_STAGED;
    expect(put, "failure order_request stage_put:3:640:3073 await_staged_sources ");
    nbi = true;
    expect(put, "failure order_request stage_put:3:640:3073 ");
}

static void gets_go_as_their_size_and_memory_tell(void **context)
{
    static const struct {
        size_t offset, bytes;
        enum segment_id segment;
        bool nbi, cpu_moves, trusted;
        const char *calls;
    } rows[] = {
        {640, 0, SEG_HEAP, false, false, false, "failure "},
        {640, 8, SEG_HEAP, false, false, false, "failure ask:0:1:640:8 "},
        {640, 1, SEG_GPU, true, false, true, "failure ask:3:1:640:1:nbi "},
        {642, 2, SEG_HEAP, false, false, false, "failure ask:0:1:642:2 "},
        {641, 2, SEG_HEAP, false, false, false, "failure read:641:0:2 await_reads "},
        {644, 8, SEG_HEAP, false, false, false, "failure read:644:0:8 await_reads "},
        {642, 6, SEG_HEAP, true, false, false, "failure read:642:0:6 "},
        {640, 16, SEG_HEAP, true, false, false, "failure read:640:0:16 "},
        {640, 1024, SEG_HEAP, false, true, false, "failure ask:0:0:640:1024 "},
        {640, 1024, SEG_HEAP, true, true, false, "failure ask:0:0:640:1024:nbi "},
        {640, 1025, SEG_HEAP, false, true, false, "failure read:640:0:1025 await_reads "},
        {640, 1024, SEG_HEAP, false, false, false, "failure read:640:0:1024 await_reads "},
        {640, 8192, SEG_GPU, true, false, false, "failure ask:3:0:640:8192 "},
        {640, 8193, SEG_GPU, false, false, false, "failure stage_get:3:640:8193 await_reads "},
        {640, 8192, SEG_GPU, false, false, true, "failure stage_get:3:640:8192 await_reads "},
        {640, 100, SEG_GPU, true, false, true, "failure stage_get:3:640:100 "},
        {640, 8192, SEG_HEAP, false, false, false, "failure read:640:0:8192 await_reads "},
    };
    (void)context;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        end.net.rails[0].traits.cpu_executes_rma = rows[i].cpu_moves;
        net_peer->gpu.access = rows[i].trusted ? NET_GPU_DIRECT : NET_GPU_STAGED;
        set(rows[i].segment, rows[i].offset, rows[i].bytes, rows[i].nbi);
        expect(get, rows[i].calls);
    }
}

static weft_status put_by_requests(void)
{
    weft_status status;
    net_lock(&end.net);
    status = net_put_by_requests(&end.state, at(SEG_GPU, 100), local, 2 * 3072 + 5);
    pthread_mutex_unlock(&end.net.lock);
    return status;
}

static weft_status get_by_requests(void)
{
    static unsigned char large[(2 << 18) + 9];
    net_lock(&end.net);
    memset(large, 0, sizeof large);
    weft_status status = net_get_by_requests(&end.state, at(SEG_GPU, 100), large, sizeof large);
    pthread_mutex_unlock(&end.net.lock);
    if (!status)
        for (size_t i = 0; i < sizeof large; i++)
            assert_int_equal(large[i], 0x55);
    return status;
}

static void any_size_goes_by_requests(void **context)
{
    (void)context;
    expect(put_by_requests, "request:3072 request:3072 request:5 ");
    again(put_by_requests);
    assert_int_equal(records[2]->offset, 100 + 2 * 3072);
    assert_int_equal(records[1]->offset, 100 + 3072);
    assert_memory_equal(net_payload(records[2]), local + 2 * 3072, 5);
    assert_memory_equal(net_payload(records[1]), local + 3072, 3072);
    expect(get_by_requests, "ask:3:0:100:262144 ask:3:0:262244:262144 ask:3:0:524388:9 ");
}

/* ----------------------------------------------------------------- GPU memory on the local side */

static void a_few_bytes_of_a_gpu_go_through_the_host(void **context)
{
    (void)context;
    local_is_device = true;
    set(SEG_HEAP, 640, 3072, true);
    expect(put, "from_gpu:3072 failure order_request request:3072 flush_unanswered ");
    path_net.put(at(segment, offset), local, bytes, nbi);
    assert_memory_equal(net_payload(records[0]), local, 3072);
    end.net.rails[0].traits.cpu_executes_rma = true;
    set(SEG_HEAP, 641, 1000, true);
    expect(get, "failure ask:0:0:641:1000 to_gpu:1000 ");
    assert_int_equal(local[999], 0x55);
    assert_int_not_equal(local[1000], 0x55);
    end.world.gpu = NULL; /* then no memory is GPU memory */
    set(SEG_HEAP, 640, 20, true);
    expect(put, "failure order_request request:20 ");
}

static void more_of_a_gpu_is_staged(void **context)
{
    (void)context;
    local_is_device = true;
    set(SEG_HEAP, 640, 3073, false);
    net_peer->gpu.access = NET_GPU_STAGED;
    expect(put, "failure order_write stage_put:0:640:3073:device await_staged_sources ");
    expect(get, "failure stage_get:0:640:3073:device await_reads ");
    nbi = true;
    expect(put, "failure order_write stage_put:0:640:3073:device ");
    expect(get, "failure stage_get:0:640:3073:device ");
}

/* -------------------------------------------------------------------------------- single values */

static weft_status store(void)
{
    static const uint32_t value = 0x12345678;
    return path_net.store(at(SEG_DATA, 24), &value, 4);
}

static weft_status load(void)
{
    uint16_t value = 0;
    weft_status status = path_net.load(at(SEG_HEAP, 26), &value, 2);
    if (!status)
        assert_int_equal(value, 0x5555);
    return status;
}

static void stores_and_loads_are_one_access(void **context)
{
    (void)context;
    expect(store, "order_request request:4 flush_unanswered ");
    again(store);
    assert_int_equal(records[0]->kind, NET_STORE);
    assert_int_equal(records[0]->bytes, 4);
    assert_int_equal(records[0]->offset, 24);
    assert_memory_equal(net_payload(records[0]), &(uint32_t){0x12345678}, 4);
    expect(load, "ask:0:1:26:2 ");
}

static void *fetched;
static weft_status add(void)
{
    return path_net.atomic(at(SEG_DATA, 48), WEFT_AMO_ADD, 4, 70, 71, fetched, nbi);
}

static void atomics_wait_for_what_they_fetch(void **context)
{
    static const struct {
        bool fetches, device, nbi;
        const char *calls;
        bool data_elsewhere; /* the peer's data take another path: the atomic is complete on return
                              */
    } rows[] = {
        {false, false, false, "order_request request:24 flush_unanswered ", false},
        {false, false, true, "order_request request:24 ", false},
        {true, false, false, "order_request token:4 request:24 flush:1 answer ", false},
        {true, false, true, "order_request token:4 request:24 flush:1 detach ", false},
        {true, true, true, "order_request token:4 request:24 flush:1 answer to_gpu:4 ", false},
        {true, true, false, "order_request token:4 request:24 flush:1 answer to_gpu:4 ", false},
        {false, false, false, "order_request token:4 request:24 flush:1 answer ", true},
        {false, false, true, "order_request token:4 request:24 flush:1 answer ", true},
    };
    (void)context;
    for (int i = 0; i < 8; i++) {
        nbi = rows[i].nbi;
        to_peer.path = rows[i].data_elsewhere ? PATH_GDA : PATH_NET;
        local_is_device = rows[i].device;
        fetched = rows[i].fetches ? local : NULL;
        memset(local, 0, 8);
        expect(add, rows[i].calls);
        assert_int_equal(local[3], rows[i].fetches ? 0x66 : 0);
        assert_int_equal(local[4], 0);
        again(add);
        const struct net_atomic *atomic = net_payload(records[0]);
        assert_int_equal(records[0]->kind, NET_ATOMIC);
        assert_int_equal(records[0]->segment, SEG_DATA);
        assert_int_equal(records[0]->amo, WEFT_AMO_ADD);
        assert_int_equal(records[0]->width, 4);
        assert_int_equal(records[0]->offset, 48);
        assert_int_equal(atomic->value, 70);
        assert_int_equal(atomic->expected, 71);
        assert_int_equal(atomic->token, rows[i].fetches || rows[i].data_elsewhere ? TOKEN : 0);
    }
    /* If the request cannot be sent, the token is freed. */
    trace[0] = '\0';
    calls = 0;
    fails_at = 3;
    assert_int_equal(add(), WEFT_ERR_TIMEOUT);
    assert_string_equal(trace, "order_request token:4 request:24 cancel ");
}

static weft_signal_op signal_op;
static weft_status put_signal(void)
{
    return path_net.put_signal(at(segment, offset), local, bytes, at(SEG_SYSTEM, 80), 9, signal_op,
                               nbi);
}

static void a_signal_follows_its_data(void **context)
{
    (void)context;
    signal_op = WEFT_SIGNAL_ADD;
    set(SEG_HEAP, 640, 100, false);
    expect(put_signal, "failure order_request request:100 fence_channel order_request request:24 "
                       "flush_unanswered await_sources ");
    again(put_signal);
    const struct net_atomic *atomic = net_payload(records[1]);
    assert_int_equal(records[1]->kind, NET_ATOMIC);
    assert_int_equal(records[1]->segment, SEG_SYSTEM);
    assert_int_equal(records[1]->amo, WEFT_AMO_ADD);
    assert_int_equal(records[1]->width, 8);
    assert_int_equal(records[1]->offset, 80);
    assert_int_equal(atomic->value, 9);
    assert_int_equal(atomic->token, 0);
    signal_op = WEFT_SIGNAL_SET;
    set(SEG_HEAP, 640, 5000, true);
    expect(put_signal, "failure order_write write:640:0:5000 fence_channel order_request "
                       "request:24 flush_unanswered ");
    again(put_signal);
    assert_int_equal(records[0]->amo, WEFT_AMO_SET);
    local_is_device = true;
    nbi = false;
    expect(put_signal,
           "failure order_write stage_put:0:640:5000:device await_staged_sources failure "
           "order_request "
           "fence_channel order_request request:24 flush_unanswered await_sources ");
}

/* ------------------------------------------------------------------------------------- strided */

static struct path_strides strides;

static weft_status iput(void)
{
    return path_net.iput(at(segment, 640), local, &strides);
}

static weft_status iget(void)
{
    return path_net.iget(at(segment, 640), local, &strides);
}

static void strided_elements_go_one_by_one(void **context)
{
    (void)context;
    strides = (struct path_strides){.element = 6, .n = 3, .local_step = 10, .remote_step = 24};
    segment = SEG_HEAP;
    expect(iput, "failure order_request request:6 failure order_request request:6 failure "
                 "order_request request:6 flush:1 await_sources ");
    again(iput);
    assert_int_equal(records[2]->offset, 640 + 48);
    assert_memory_equal(net_payload(records[2]), local + 20, 6);
    assert_int_equal(records[1]->offset, 640 + 24);
    expect(iget, "failure read:640:0:6 read:664:10:6 read:688:20:6 await_reads ");
    segment = SEG_GPU;
    strides.n = 2;
    strides.element = 8;
    expect(iget, "failure ask:3:1:640:8 failure ask:3:1:664:8 ");
    assert_int_equal(local[10], 0x55);
    assert_int_equal(local[17], 0x55);
    assert_int_not_equal(local[18], 0x55);
}

static void strided_elements_of_a_gpu_go_through_the_host(void **context)
{
    (void)context;
    strides = (struct path_strides){.element = 4000, .n = 2, .local_step = 0, .remote_step = 24};
    segment = SEG_HEAP;
    local_is_device = true;
    expect(iput, "flush:1 await_sources failure order_write stage_put:0:640:4000:device "
                 "await_staged_sources failure order_write stage_put:0:664:4000:device "
                 "await_staged_sources ");
    expect(iget, "failure stage_get:0:640:4000:device await_reads failure "
                 "stage_get:0:664:4000:device await_reads ");
}

/* ----------------------------------------------------------------------------------- completion */

static weft_status quiet(void)
{
    return path_net.quiet((void *)&end.state);
}

static weft_status fence(void)
{
    return path_net.fence((void *)&end.state);
}

static void fence_and_quiet_hold_the_lock(void **context)
{
    (void)context;
    expect(quiet, "complete ");
    expect(fence, "order ");
}

static void one_context_looks_for_all(void **context)
{
    struct net_state other = {.net = &end.net};
    (void)context;
    end.state.touched_count = 2;
    end.touched[0] = 2;
    end.touched[1] = 1;
    polled = true;
    assert_true(path_net.progress((void *)&end.state));
    assert_string_equal(trace, "flush:2 flush:1 poll ");
    assert_ptr_equal(end.net.progress.poller, &end.state);
    assert_int_equal(end.net.progress.caller_polls, 1);
    trace[0] = '\0';
    assert_false(path_net.progress((void *)&other));
    assert_string_equal(trace, "");
    assert_ptr_equal(end.net.progress.poller, &end.state);
    polled = false;
    assert_false(path_net.progress((void *)&end.state));
    assert_string_equal(trace, "flush:2 flush:1 poll ");
    /* Another thread holds the lock. */
    trace[0] = '\0';
    pthread_mutex_lock(&end.net.lock);
    polled = true;
    assert_false(path_net.progress((void *)&end.state));
    assert_string_equal(trace, "");
    pthread_mutex_unlock(&end.net.lock);
    assert_int_equal(end.net.progress.caller_polls, 4);
    assert_false(is_locked());
}

/* -------------------------------------------------------------------------- joining and leaving */

static struct net_selection taken = {.count = 3, .mbps = {1000, 25000, 10000}};
static int opened, closed;

DOUBLE(weft_status, net_find_nics,
       (const struct path_world *world, struct net_selection **found, char *lacks, char *has))
{
    assert_ptr_equal(world, &end.world);
    strcpy(lacks, "lacks");
    strcpy(has, "has");
    *found = &taken;
    return WEFT_ERR_CONFIG;
}

DOUBLE(weft_status, net_open,
       (const struct path_world *world, struct net_selection *found, struct path_common **net))
{
    assert_ptr_equal(world, &end.world);
    assert_ptr_equal(found, &taken);
    *net = &end.net;
    opened++;
    return WEFT_ERR_PATH;
}

DOUBLE(void, net_close, (struct path_common * net))
{
    assert_ptr_equal(net, &end.net);
    closed++;
}

static void what_is_found_is_opened(void **context)
{
    struct path_found found = {0};
    struct path_common *common = NULL;
    (void)context;
    assert_int_equal(path_net.probe(&end.world, &found), WEFT_ERR_CONFIG);
    assert_ptr_equal(found.probe_result, &taken);
    assert_ptr_equal(found.drop, net_free_selection);
    assert_int_equal(found.mbps, 25000); /* of the fastest NIC */
    assert_string_equal(found.lacks, "lacks");
    assert_string_equal(found.has, "has");
    end.world.found[PATH_NET] = &found;
    assert_int_equal(path_net.join(&end.world, &common), WEFT_ERR_PATH);
    assert_ptr_equal(common, &end.net);
    assert_int_equal(opened, 1);
    path_net.leave(common);
    assert_int_equal(closed, 1);
    assert_string_equal(path_net.obstacle(&(struct path_facts){.same_pe = true}), "the same PE");
    assert_null(path_net.obstacle(&(struct path_facts){.same_pe = false}));
}

#define test(name) cmocka_unit_test_setup_teardown(name, open_end, shut_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(small_puts_are_requests),
        test(large_puts_are_writes_or_staged),
        test(gets_go_as_their_size_and_memory_tell),
        test(any_size_goes_by_requests),
        test(a_few_bytes_of_a_gpu_go_through_the_host),
        test(more_of_a_gpu_is_staged),
        test(stores_and_loads_are_one_access),
        test(atomics_wait_for_what_they_fetch),
        test(a_signal_follows_its_data),
        test(strided_elements_go_one_by_one),
        test(strided_elements_of_a_gpu_go_through_the_host),
        test(fence_and_quiet_hold_the_lock),
        test(one_context_looks_for_all),
        test(what_is_found_is_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
