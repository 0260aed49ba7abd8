/* SPDX-License-Identifier: Apache-2.0 */
/* Shows the path test of GPU memory: bytes are written to a peer's GPU and read back over each NIC.
 * Shows what the path reports about it, and what changes when a NIC fails. */
#include "unit/net_gpu.h"

#include "path/net/stage.h"

enum { LINE = GPU_LINE_BYTES };

/* Memory of path tests: this PE's is in `window` from byte 4096 on, the peer's is in `lines`. Each
 * PE has a line for each other PE. */
static unsigned char lines[2 * END_PES * LINE];

static struct {
    int lie;          /* number of NIC writes that corrupt one byte; -1: reads do */
    int byte;         /* index of that byte */
    unsigned failing; /* bit per rail: an access over it sets proof_failed */
    /* Number of calls of step(); the call that fails with WEFT_ERR_TIMEOUT, 0: none. */
    int steps, fail_step;
    int moves, completes, copies, puts, gets;
    uint8_t rails[16]; /* gpu_rails at each transfer */
    bool proving[16], writes[16];
    int opens, closes, failures;
    weft_status open_status, failure;
    int lose_rail; /* 1 + rail that fails during the test */
    char found[PATH_FOUND_BYTES];
    int told, told_pe;
    weft_kind told_kind;
} p;

static weft_status step(void)
{
    p.steps++;
    return p.steps == p.fail_step ? base_fail(WEFT_ERR_TIMEOUT, "step %d failed", p.steps)
                                  : WEFT_OK;
}

static unsigned char *line_there(struct remote at)
{
    assert_int_equal(at.segment, SEG_GPU);
    assert_int_equal(at.peer->pe, peer->pe);
    assert_int_equal(at.offset, NIC_LINES + 2 * LINE * end.world.pe);
    return lines + at.offset - NIC_LINES;
}

weft_status __wrap_net_stage_transfer(struct net_state *state, struct remote at, void *local,
                                      size_t bytes, bool device, bool write);
weft_status __wrap_net_stage_transfer(struct net_state *state, struct remote at, void *local,
                                      size_t bytes, bool device, bool write)
{
    unsigned char *there = line_there(at);
    assert_non_null(state);
    assert_ptr_equal(local, window + 4096 + (2 * peer->pe + 1) * LINE);
    assert_int_equal(bytes, LINE);
    assert_true(device);
    assert_int_equal(peer->gpu.access, NET_GPU_DIRECT);
    p.writes[p.moves] = write;
    p.rails[p.moves] = peer->gpu.rails;
    p.proving[p.moves++] = end.net.proving;
    int rail = __builtin_ctz(peer->gpu.rails);
    if (p.failing >> rail & 1)
        strcpy(end.net.proof_failed, "the NIC refuses");
    if (p.lose_rail)
        end.net.rails[p.lose_rail - 1].endpoint = NULL;
    memcpy(write ? there : local, write ? local : there, bytes);
    if (write ? p.lie > 0 : p.lie < 0)
        (write ? there : (unsigned char *)local)[p.byte] ^= 0x40;
    p.lie -= p.lie > 0;
    return step();
}

weft_status __wrap_net_complete_context(struct net_state *state);
weft_status __wrap_net_complete_context(struct net_state *state)
{
    assert_non_null(state);
    p.completes++;
    return step();
}

weft_status __wrap_net_get_by_requests(struct net_state *state, struct remote from, void *dst,
                                       size_t bytes);
weft_status __wrap_net_get_by_requests(struct net_state *state, struct remote from, void *dst,
                                       size_t bytes)
{
    assert_non_null(state);
    assert_true(p.completes > p.gets + p.puts); /* the write is complete */
    memcpy(dst, line_there(from), bytes);
    p.gets++;
    return step();
}

weft_status __wrap_net_put_by_requests(struct net_state *state, struct remote to, const void *src,
                                       size_t bytes);
weft_status __wrap_net_put_by_requests(struct net_state *state, struct remote to, const void *src,
                                       size_t bytes)
{
    assert_non_null(state);
    memcpy(line_there(to), src, bytes);
    p.puts++;
    return step();
}

weft_status __wrap_gpu_copy(struct gpu *of, unsigned lane, void *to, const void *from, size_t bytes,
                            enum gpu_copy_mode manner);
weft_status __wrap_gpu_copy(struct gpu *of, unsigned lane, void *to, const void *from, size_t bytes,
                            enum gpu_copy_mode manner)
{
    assert_ptr_equal(of, &gpu);
    assert_int_equal(lane, 0);
    assert_int_equal(bytes, LINE);
    assert_int_equal(manner, GPU_DONE);
    memcpy(to, from, bytes);
    p.copies++;
    return step();
}

weft_status __wrap_net_open_state(const struct path_world *world, struct path_state **state);
weft_status __wrap_net_open_state(const struct path_world *world, struct path_state **state)
{
    assert_ptr_equal(world, &end.world);
    p.opens++;
    if (p.open_status)
        return base_fail(p.open_status, "no context");
    *state = (struct path_state *)&end.state;
    return WEFT_OK;
}

void __wrap_net_close_state(struct path_state *state);
void __wrap_net_close_state(struct path_state *state)
{
    assert_ptr_equal(state, &end.state);
    /* net_close_state() takes the lock itself. */
    assert_int_equal(pthread_mutex_trylock(&end.net.lock), 0);
    pthread_mutex_unlock(&end.net.lock);
    p.closes++;
}

weft_status __wrap_net_check_failure(struct path_common *net, struct net_peer *of);
weft_status __wrap_net_check_failure(struct path_common *net, struct net_peer *of)
{
    if (!net->world->common[PATH_NET]) /* the end is not open yet */
        return WEFT_OK;
    assert_ptr_equal(net, &end.net);
    assert_ptr_equal(of, peer);
    p.failures++;
    return p.failure;
}

static void tell(const struct path_world *world, weft_kind kind, int pe, const char *found)
{
    assert_ptr_equal(world, &end.world);
    p.told++;
    p.told_pe = pe;
    p.told_kind = kind;
    strcpy(p.found, found);
}

static int open_proof(void **context)
{
    open_end(context);
    memset(&p, 0, sizeof p);
    memset(lines, 0, sizeof lines);
    memset(window, 0, sizeof window);
    end.world.report_found = tell;
    d.answer = (struct net_gpu_region){.start = START, .end = CHUNK, .dmabuf = 1};
    for (int i = 0; i < END_RAILS; i++)
        d.answer.keys[i].known = 1;
    return 0;
}

/* Returns the status of net_refine() and in `found` what the path reports on GPU memory of
 * `peer`. */
static weft_status refine(char *found)
{
    weft_status status = net_refine(&end.world, WEFT_GPU, peer->pe, found, PATH_FOUND_BYTES);
    assert_int_equal(pthread_mutex_trylock(&end.net.lock), 0);
    pthread_mutex_unlock(&end.net.lock);
    return status;
}

/* ------------------------------------------------------------------------------------- path
 * test */

static void each_nic_writes_and_reads(void **context)
{
    char found[PATH_FOUND_BYTES];
    (void)context;
    assert_int_equal(refine(found), WEFT_OK);
    assert_string_equal(found,
                        "the NIC reaches GPU memory there (dma-buf, tested, over 3 of 3 NICs)");
    assert_int_equal(peer->gpu.access, NET_GPU_DIRECT);
    assert_int_equal(peer->gpu.rails, 7);
    assert_true(peer->gpu.dmabuf);
    assert_int_equal(d.asked_offset, NIC_LINES);
    assert_int_equal(p.moves, 2 * END_RAILS);
    for (int i = 0; i < p.moves; i++) {
        assert_int_equal(p.rails[i], 1 << i / 2);
        assert_true(p.proving[i]);
        assert_int_equal(p.writes[i], i % 2 == 0);
    }
    assert_int_equal(p.completes, 3 * END_RAILS);
    assert_int_equal(p.copies, 2 * END_RAILS);
    assert_int_equal(p.gets, END_RAILS);
    assert_int_equal(p.puts, END_RAILS);
    assert_int_equal(p.opens, 1);
    assert_int_equal(p.closes, 1);
    assert_false(end.net.proving);
    assert_string_equal(peer->gpu.reason, "");
    /* The test is made once per peer; another PE has lines of its own. */
    assert_int_equal(refine(found), WEFT_OK);
    assert_int_equal(p.opens, 1);
    peer = &end.peers[2];
    end.world.pe = 0;
    assert_int_equal(refine(found), WEFT_OK);
    assert_int_equal(peer->gpu.rails, 7);
    assert_int_equal(p.opens, 2);
}

static void lines_differ_by_pe_and_turn(void **context)
{
    char found[PATH_FOUND_BYTES];
    unsigned char first[LINE];
    (void)context;
    end.net.rail_count = 1;
    end.world.pe = 2;
    assert_int_equal(refine(found), WEFT_OK);
    assert_string_equal(found, "the NIC reaches GPU memory there (dma-buf, tested)");
    /* The last line at the peer is that of the read: from PE 2 to PE 1, the second of the first
     * rail. */
    for (int i = 0; i < LINE; i++)
        assert_int_equal(lines[4 * LINE + i], (2 * 37 + 101 + 2 * 59 + i * 7 + 1) & 255);
    memcpy(first, lines + 4 * LINE, LINE);
    assert_memory_equal(window + 4096 + 3 * LINE, first, LINE);
}

static void a_byte_that_is_not_there_refuses_the_nic(void **context)
{
    static const struct {
        int lie, byte;
        const char *text;
    } rows[] = {
        {1, 0,
         "its path test failed: a NIC write to GPU memory did not arrive: byte 0 is 0xe1 "
         "instead of 0xa1"},
        {1, 63, "did not arrive: byte 63 is 0x1a instead of 0x5a"},
        {-1, 63, "the NIC read wrong data from GPU memory: byte 63 is 0xd5"},
    };
    char found[PATH_FOUND_BYTES];
    (void)context;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        shut_end(NULL);
        open_proof(NULL);
        end.net.rail_count = 1;
        p.lie = rows[i].lie;
        p.byte = rows[i].byte;
        assert_int_equal(refine(found), WEFT_OK);
        assert_int_equal(peer->gpu.access, NET_GPU_STAGED);
        assert_int_equal(peer->gpu.rails, 0);
        assert_non_null(
            strstr(found, "GPU memory goes through pinned memory: its path test failed: "));
        if (!strstr(found, rows[i].text))
            fail_msg("row %zu: %s", i, found);
    }
}

static void one_nic_may_do_where_others_do_not(void **context)
{
    char found[PATH_FOUND_BYTES];
    (void)context;
    p.failing = 1;
    d.answer.keys[2].known = 0;
    peer->rails.peers[1] = 0; /* rail 1 leads to the peer's first NIC, which reaches the memory */
    peer->rails.peers[0] = 1;
    d.answer.dmabuf = 0;
    assert_int_equal(refine(found), WEFT_OK);
    assert_int_equal(peer->gpu.rails, 2);
    assert_int_equal(peer->gpu.access, NET_GPU_DIRECT);
    assert_string_equal(peer->gpu.reason, "its path test failed: the NIC refuses");
    assert_string_equal(found,
                        "the NIC reaches GPU memory there (by address, tested, over 1 of 3 NICs)");
    assert_int_equal(p.moves, 3); /* no read over the NIC whose write failed */
    assert_int_equal(p.rails[1], 2);
    assert_true(p.writes[1] && !p.writes[2]);
}

static void a_step_that_fails_refuses_the_nic(void **context)
{
    char found[PATH_FOUND_BYTES];
    (void)context;
    for (int i = 1; i <= 9; i++) {
        shut_end(NULL);
        open_proof(NULL);
        end.net.rail_count = 1;
        p.fail_step = i;
        assert_int_equal(refine(found), WEFT_OK);
        char text[64];
        snprintf(text, sizeof text, "its path test failed: step %d failed", i);
        assert_int_equal(p.steps, i);
        assert_string_equal(peer->gpu.reason, text);
        assert_int_equal(peer->gpu.access, NET_GPU_STAGED);
        assert_false(end.net.proving);
    }
}

static void a_nic_that_is_lost_meanwhile_proves_nothing(void **context)
{
    char found[PATH_FOUND_BYTES];
    (void)context;
    end.net.rail_count = 1;
    p.lose_rail = 1;
    assert_int_equal(refine(found), WEFT_OK);
    assert_string_equal(peer->gpu.reason, "its path test failed: the NIC has failed");
    /* Rails that do not lead to the peer are not tested. */
    shut_end(NULL);
    open_proof(NULL);
    peer->rails.address[0] = peer->rails.address[2] = FI_ADDR_NOTAVAIL;
    assert_int_equal(refine(found), WEFT_OK);
    assert_int_equal(p.moves, 2);
    assert_int_equal(peer->gpu.rails, 2);
}

static void a_failure_of_the_peer_ends_the_proof(void **context)
{
    char found[PATH_FOUND_BYTES];
    (void)context;
    p.failure = WEFT_ERR_PEER_DEAD;
    assert_int_equal(refine(found), WEFT_ERR_PEER_DEAD);
    assert_int_equal(p.moves, 2);
    assert_int_equal(p.failures, 1);
    shut_end(NULL);
    open_proof(NULL);
    p.failure = WEFT_ERR_PEER_DEAD;
    p.fail_step = 1;
    assert_int_equal(refine(found), WEFT_ERR_PEER_DEAD);
    assert_int_equal(p.closes, 1);
    shut_end(NULL);
    open_proof(NULL);
    d.answer_status = WEFT_ERR_TIMEOUT;
    assert_int_equal(refine(found), WEFT_ERR_TIMEOUT);
    assert_int_equal(p.moves, 0);
    shut_end(NULL);
    open_proof(NULL);
    p.open_status = WEFT_ERR_NO_MEMORY;
    assert_int_equal(refine(found), WEFT_ERR_NO_MEMORY);
    assert_string_equal(found, "");
    assert_int_equal(peer->gpu.access, NET_GPU_UNTESTED);
    assert_int_equal(p.closes, 0);
}

static void what_the_owner_lacks_is_said(void **context)
{
    char found[PATH_FOUND_BYTES];
    (void)context;
    memset(d.answer.keys, 0, sizeof d.answer.keys);
    strcpy(d.answer.reason, "it has none");
    assert_int_equal(refine(found), WEFT_OK);
    assert_string_equal(found, "GPU memory goes through pinned memory: PE 1: it has none");
    assert_int_equal(p.moves, 0);
    assert_int_equal(peer->gpu.access, NET_GPU_STAGED);
    assert_int_equal(refine(found), WEFT_OK);
    assert_int_equal(d.asked, 1);
    /* This PE's NICs lack access to GPU memory. */
    peer->gpu.access = NET_GPU_UNTESTED;
    strcpy(end.net.gpu.lacks, "no NIC here");
    assert_int_equal(refine(found), WEFT_OK);
    assert_string_equal(found, "GPU memory goes through pinned memory: no NIC here");
    assert_int_equal(p.opens, 1);
    shut_end(NULL);
    open_proof(NULL);
    d.chunk_bytes = 0;
    peer->gpu.access = NET_GPU_DIRECT;
    end.net.rail_count = 1;
    assert_int_equal(refine(found), WEFT_OK);
    assert_string_equal(found,
                        "the NIC reaches GPU memory there (by address, tested), not here: the "
                        "application allocated this memory itself");
}

static void only_gpu_memory_is_refined(void **context)
{
    char found[PATH_FOUND_BYTES] = "before";
    (void)context;
    assert_int_equal(net_refine(&end.world, WEFT_HOST, 1, found, sizeof found), WEFT_OK);
    assert_string_equal(found, "");
    end.world.gpu = NULL;
    assert_int_equal(refine(found), WEFT_OK);
    assert_string_equal(found, "");
    end.world.gpu = &gpu;
    end.world.common[PATH_NET] = NULL;
    assert_int_equal(refine(found), WEFT_OK);
    assert_string_equal(found, "");
    assert_int_equal(p.opens, 0);
}

/* ----------------------------------------------------------------------------- a NIC that fails */

static void the_last_nic_that_fails_ends_the_trust(void **context)
{
    static const struct {
        int trust, rail;
        bool proving;
        uint8_t rails, closed;
        bool lost;
    } rows[] = {
        {NET_GPU_DIRECT, 1, false, 2, 0, true},  {NET_GPU_STAGED, 1, false, 2, 0, false},
        {NET_GPU_DIRECT, 1, true, 2, 0, false},  {NET_GPU_DIRECT, 0, false, 2, 0, false},
        {NET_GPU_DIRECT, 1, false, 6, 0, false}, {NET_GPU_DIRECT, 1, false, 6, 4, true},
        {NET_GPU_DIRECT, 1, false, 3, 0, false}, {NET_GPU_DIRECT, 1, false, 3, 1, true},
    };
    (void)context;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        shut_end(NULL);
        open_proof(NULL);
        struct net_rail *rail = &end.net.rails[rows[i].rail];
        rail->endpoint = NULL;
        peer->rails.closed = rows[i].closed;
        peer->gpu.rails = rows[i].rails;
        peer->gpu.access = rows[i].trust;
        end.net.proving = rows[i].proving;
        if (i % 2 == 0)
            strcpy(rail->cause, "it burns");
        net_gpu_rail_lost(&end.net, peer, rows[i].rail);
        assert_int_equal(peer->gpu.access, rows[i].lost ? NET_GPU_STAGED : rows[i].trust);
        assert_int_equal(p.told, rows[i].lost);
        if (!rows[i].lost)
            continue;
        assert_int_equal(p.told_pe, 1);
        assert_int_equal(p.told_kind, WEFT_GPU);
        assert_string_equal(peer->gpu.reason,
                            i % 2 == 0
                                ? "nic1, the last NIC that reached it, has failed: it burns"
                                : "nic1, the last NIC that reached it, has failed: the peer has "
                                  "given it up");
        assert_non_null(strstr(p.found, "GPU memory goes through pinned memory: nic1, the last"));
    }
    peer->gpu.access = NET_GPU_DIRECT;
    end.world.report_found = NULL;
    net_gpu_rail_lost(&end.net, peer, 1);
    assert_int_equal(peer->gpu.access, NET_GPU_STAGED);
}

#define proof_test(name) cmocka_unit_test_setup_teardown(name, open_proof, shut_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        proof_test(each_nic_writes_and_reads),
        proof_test(lines_differ_by_pe_and_turn),
        proof_test(a_byte_that_is_not_there_refuses_the_nic),
        proof_test(one_nic_may_do_where_others_do_not),
        proof_test(a_step_that_fails_refuses_the_nic),
        proof_test(a_nic_that_is_lost_meanwhile_proves_nothing),
        proof_test(a_failure_of_the_peer_ends_the_proof),
        proof_test(what_the_owner_lacks_is_said),
        proof_test(only_gpu_memory_is_refined),
        proof_test(the_last_nic_that_fails_ends_the_trust),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
