/* SPDX-License-Identifier: Apache-2.0 */
/* Shows which GPU memory NICs reach: with which provider, how it is registered, how much at once,
 * and what peers report of their memory. */
#include "unit/callocs.h"
#include "unit/net_gpu.h"

/* --------------------------------------------------------------------------------- the provider */

static struct fi_info plain, offered[3], *listed, *freed[4];
static int copies_left, copied, freed_count, getinfo_error;
static struct fi_info copy_of[4];
static uint32_t wanted_version;

static struct fi_info *copy(const struct fi_info *info)
{
    if (!copies_left--)
        return NULL;
    copy_of[copied] = *info;
    return &copy_of[copied++];
}

static int list(uint32_t with, const char *node, const char *service, uint64_t flags,
                const struct fi_info *hints, struct fi_info **found)
{
    assert_null(node);
    assert_null(service);
    assert_int_equal(flags, 0);
    wanted_version = with;
    assert_ptr_equal(hints, &copy_of[0]);
    assert_int_equal(hints->caps, FI_MSG | FI_HMEM);
    assert_int_equal(hints->domain_attr->mr_mode, FI_MR_LOCAL | FI_MR_HMEM);
    *found = listed;
    return getinfo_error;
}

static void forget(struct fi_info *info)
{
    freed[freed_count++] = info;
}

static bool was_freed(const struct fi_info *info)
{
    for (int i = 0; i < freed_count; i++)
        if (freed[i] == info)
            return true;
    return false;
}

static char verbs[] = "verbs;ofi_rxm", tcp[] = "tcp", mlx[] = "mlx5_0", other[] = "mlx5_1";
static struct fi_fabric_attr plain_fabric, offered_fabric[3];
static struct fi_domain_attr plain_domain, offered_domain[3];
static unsigned char address[4] = {10, 0, 0, 7}, another[4] = {10, 0, 0, 8};

static void add_fi_info(void)
{
    lib.dupinfo = copy;
    lib.getinfo = list;
    lib.freeinfo = forget;
    copies_left = 4;
    copied = freed_count = getinfo_error = 0;
    plain_fabric = (struct fi_fabric_attr){.prov_name = verbs};
    plain_domain = (struct fi_domain_attr){.name = mlx, .mr_mode = FI_MR_LOCAL};
    plain = (struct fi_info){.fabric_attr = &plain_fabric,
                             .domain_attr = &plain_domain,
                             .caps = FI_MSG,
                             .addr_format = FI_SOCKADDR_IN,
                             .src_addr = address,
                             .src_addrlen = sizeof address};
    for (int i = 0; i < 3; i++) {
        offered_fabric[i] = plain_fabric;
        offered_domain[i] = plain_domain;
        offered[i] = plain;
        offered[i].fabric_attr = &offered_fabric[i];
        offered[i].domain_attr = &offered_domain[i];
        offered[i].next = i < 2 ? &offered[i + 1] : NULL;
        offered[i].mode = 40 + (uint64_t)i;
    }
    listed = offered;
}

static void the_same_interface_is_found_with_hmem(void **context)
{
    char why[NET_REASON_BYTES];
    (void)context;
    for (int row = 0; row < 8; row++) {
        add_fi_info();
        for (int i = 0; i < 2; i++)
            switch (row) {
            case 0:
                offered_fabric[i].prov_name = tcp;
                break;
            case 1:
                offered_domain[i].name = other;
                break;
            case 2:
                offered[i].addr_format = FI_SOCKADDR_IN6;
                break;
            case 3:
                offered[i].src_addrlen = 3;
                break;
            case 4:
                offered[i].src_addr = another;
                break;
            case 5: /* no entry has an address */
                plain.src_addrlen = offered[2].src_addrlen = 0;
                plain.src_addr = offered[2].src_addr = NULL;
                break;
            case 6:
                getinfo_error = -FI_ENODATA;
                break;
            default:
                copies_left = 0;
            }
        library_version = row ? VERSION_NEW : VERSION_OLD;
        struct fi_info *info = net_add_hmem(&lib, &plain, why, sizeof why);
        if (row < 6) {
            assert_string_equal(why, "");
            assert_ptr_equal(info, &copy_of[1]);
            assert_int_equal(info->mode, 42);
            assert_int_equal(freed_count, 3);
            assert_true(was_freed(&plain));
            assert_int_equal(wanted_version, row ? VERSION_NEW : FI_VERSION(1, 11));
        } else {
            assert_string_equal(why,
                                "provider verbs;ofi_rxm of libfabric 1.20 has no FI_HMEM here");
            assert_ptr_equal(info, &plain);
            assert_false(was_freed(&plain));
            assert_int_equal(freed_count, row == 6 ? 2 : 0);
        }
        assert_int_equal(was_freed(listed), row < 7);
        assert_int_equal(was_freed(&copy_of[0]), row < 7);
    }
    add_fi_info();
    listed = NULL;
    assert_ptr_equal(net_add_hmem(&lib, &plain, why, sizeof why), &plain);
    assert_int_equal(freed_count, 1);
}

static void the_user_says_whether_it_is_tried(void **context)
{
    static const struct {
        const char *wish;
        char *provider;
        const char *why;
    } rows[] = {
        {"auto", verbs, ""},
        {"auto", tcp, "provider tcp moves data with a CPU, not with a NIC"},
        {"direct", tcp, ""},
        {"direct", verbs, ""},
        {"staged", verbs, "WEFT_NET_GPU=staged"},
    };
    char why[NET_REASON_BYTES];
    (void)context;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        setenv("WEFT_NET_GPU", rows[i].wish, 1);
        config_reset();
        add_fi_info();
        plain_fabric.prov_name = rows[i].provider;
        for (int n = 0; n < 3; n++)
            offered_fabric[n].prov_name = rows[i].provider;
        strcpy(why, "before");
        struct fi_info *info = net_add_hmem(&lib, &plain, why, sizeof why);
        assert_string_equal(why, rows[i].why);
        assert_ptr_equal(info, rows[i].why[0] ? &plain : &copy_of[1]);
    }
    unsetenv("WEFT_NET_GPU");
    config_reset();
}

/* --------------------------------------------------------------------------------- registration */

static void own_memory_is_registered_by_dmabuf_with_each_nic(void **context)
{
    struct net_gpu_region place;
    (void)context;
    end.net.rails[1].traits.virtual_addresses = true;
    net_get_own_region(&end.net, CHUNK + 20, &place);
    assert_int_equal(place.start, CHUNK);
    assert_int_equal(place.end, 2 * CHUNK);
    assert_int_equal(place.dmabuf, 1);
    assert_int_equal(place.needs_flush, 1);
    assert_string_equal(place.reason, "");
    assert_int_equal(d.call_count, END_RAILS);
    for (int i = 0; i < END_RAILS; i++) {
        assert_int_equal(d.calls[i].rail, i);
        assert_int_equal(d.calls[i].flags, 1ull << 40);
        assert_int_equal(d.calls[i].at, windows[1].base + CHUNK);
        assert_int_equal(d.calls[i].bytes, CHUNK);
        assert_true(fcntl(d.calls[i].fd, F_GETFD) < 0); /* closed */
        assert_int_equal(place.keys[i].known, 1);
        assert_int_equal(place.keys[i].key, d.calls[i].key);
        assert_int_equal(place.keys[i].base, i == 1 ? windows[1].base + CHUNK : 0);
    }
    assert_int_equal(d.exported_at, windows[1].base + CHUNK);
    assert_int_equal(d.exported_bytes, CHUNK);
    assert_int_equal(place.keys[END_RAILS].known, 0);
    /* The memory is registered once. */
    net_get_own_region(&end.net, 2 * CHUNK - 1, &place);
    assert_int_equal(place.start, CHUNK);
    assert_int_equal(d.call_count, END_RAILS);
    assert_int_equal(d.writes_asked, 1);
}

static void a_registration_ends_with_its_allocation(void **context)
{
    static const struct {
        size_t offset, start, end;
    } rows[] = {{START, START, CHUNK},
                {CHUNK - 1, START, CHUNK},
                {CHUNK, CHUNK, 2 * CHUNK},
                {2 * CHUNK, 2 * CHUNK, 2 * CHUNK + START},
                {START + BYTES - 1, 2 * CHUNK, 2 * CHUNK + START}};
    struct net_gpu_region place;
    (void)context;
    d.writes = GPU_NIC_WRITES_ORDERED;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        net_get_own_region(&end.net, rows[i].offset, &place);
        assert_int_equal(place.start, rows[i].start);
        assert_int_equal(place.end, rows[i].end);
        assert_int_equal(place.needs_flush, 0);
    }
    assert_int_equal(d.call_count, 3 * END_RAILS);
    /* Another allocation lies in the same 16 MiB. */
    d.chunk_start = MIB;
    d.chunk_bytes = MIB;
    net_get_own_region(&end.net, 2 * MIB - 1, &place);
    assert_int_equal(place.start, MIB);
    assert_int_equal(place.end, 2 * MIB);
    net_get_own_region(&end.net, START + 9, &place);
    assert_int_equal(place.start, START);
    assert_int_equal(d.call_count, 4 * END_RAILS);
    /* These offsets lie in no allocation. */
    static const size_t none[] = {0, MIB - 1, 2 * MIB, 5 * CHUNK, 5 * CHUNK - 1, SIZE_MAX};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        int before = d.chunks_asked;
        net_get_own_region(&end.net, none[i], &place);
        assert_int_equal(place.start, none[i]);
        assert_int_equal(place.end, none[i]);
        assert_string_equal(place.reason, "the application allocated this memory itself");
        assert_int_equal(place.keys[0].known, 0);
        assert_int_equal(d.chunks_asked - before, i != 3 && i != 5);
    }
}

static void what_cannot_be_registered_says_why(void **context)
{
    static const struct {
        unsigned dmabuf, address;
        bool old, export_fails, peermem;
        int calls;
        const char *why;
    } rows[] = {
        {0, 0, false, false, false, 1, ""},
        {1, 0, false, false, false, 2, ""},
        {1, 1, false, false, false, 2,
         "fi_mr_regattr by dma-buf: an error; fi_mr_regattr by address: an error (load "
         "nvidia-peermem)"},
        {0, 1, false, true, true, 1,
         "no dma-buf of it (needs NVIDIA's open modules); fi_mr_regattr by address: an error"},
        {0, 1, true, false, true, 1,
         "libfabric 1.19 registers no dma-buf (needs 1.20); fi_mr_regattr by address: an error"},
        {0, 0, true, false, true, 1, ""},
    };
    (void)context;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct net_gpu_region place;
        void *descriptors[NET_RAILS];
        size_t bytes = 8;
        shut_end(NULL);
        open_end(NULL);
        end.net.rails[0].hmem = false;
        end.net.rails[2].endpoint = NULL;
        d.refuses_dmabuf = rows[i].dmabuf ? 7 : 0;
        d.refuses_address = rows[i].address ? 7 : 0;
        d.export_fails = rows[i].export_fails;
        d.peermem = rows[i].peermem;
        if (rows[i].old)
            library_version = fabric_attrs[1].api_version = VERSION_OLD;
        net_get_own_region(&end.net, START, &place);
        assert_int_equal(d.call_count, rows[i].calls);
        assert_int_equal(d.exports, !rows[i].old);
        for (int c = 0; c < d.call_count; c++)
            assert_int_equal(d.calls[c].rail, 1);
        assert_string_equal(place.reason, rows[i].why);
        assert_int_equal(place.dmabuf, i == 0);
        assert_int_equal(place.end, CHUNK);
        assert_int_equal(place.keys[0].known, 0);
        assert_int_equal(place.keys[1].known, !rows[i].why[0]);
        assert_int_equal(place.keys[2].known, 0);
        if (!rows[i].why[0] && i)
            assert_int_equal(d.calls[d.call_count - 1].at, windows[1].base + START);
        if (!rows[i].why[0] && i)
            assert_int_equal(d.calls[d.call_count - 1].bytes, CHUNK - START);
        assert_int_equal(net_get_gpu_descriptors(&end.net, own_gpu(START + 5), &bytes, descriptors),
                         !rows[i].why[0]);
        /* A failed registration is not tried again. */
        assert_int_equal(d.call_count, rows[i].calls);
        assert_int_equal(d.registered, !rows[i].why[0]);
        if (d.exports && !d.export_fails)
            assert_true(fcntl(d.exported, F_GETFD) < 0);
    }
}

static void a_gpu_that_cannot_be_flushed_has_nothing_registered(void **context)
{
    struct net_gpu_region place;
    void *descriptors[NET_RAILS];
    size_t bytes = 8;
    (void)context;
    d.writes = GPU_NIC_WRITES_UNORDERED;
    for (int i = 0; i < 2; i++) {
        net_get_own_region(&end.net, START, &place);
        assert_string_equal(
            place.reason,
            "GPU 6 does not order the writes of NICs, and its driver cannot flush them");
        assert_int_equal(place.end, START);
    }
    assert_false(net_get_gpu_descriptors(&end.net, own_gpu(START), &bytes, descriptors));
    assert_int_equal(d.writes_asked, 1);
    assert_int_equal(d.call_count, 0);
    strcpy(end.net.gpu.lacks, "it lacks it");
    net_get_own_region(&end.net, START, &place);
    assert_string_equal(place.reason, "it lacks it");
    end.net.gpu.lacks[0] = '\0';
    end.world.gpu = NULL;
    net_get_own_region(&end.net, START, &place);
    assert_string_equal(place.reason, "the application allocated this memory itself");
    end.world.gpu = &gpu;
}

static void local_memory_ends_with_its_registration(void **context)
{
    void *descriptors[NET_RAILS];
    size_t bytes = 2 * CHUNK;
    struct fid_mr *made;
    (void)context;
    d.refuses_dmabuf = d.refuses_address = 2;
    memset(descriptors, 77, sizeof descriptors);
    assert_true(net_get_gpu_descriptors(&end.net, own_gpu(START + 100), &bytes, descriptors));
    assert_int_equal(bytes, CHUNK - START - 100);
    for (int i = 0; i < NET_RAILS; i++) {
        made = descriptors[i];
        if (i == 0 || i == 2)
            assert_int_equal(made->key, d.calls[i ? 3 : 0].key);
        else
            assert_null(made);
    }
    bytes = 60;
    assert_true(net_get_gpu_descriptors(&end.net, own_gpu(START), &bytes, descriptors));
    assert_int_equal(bytes, 60);
    bytes = CHUNK - START;
    assert_true(net_get_gpu_descriptors(&end.net, own_gpu(START), &bytes, descriptors));
    assert_int_equal(bytes, CHUNK - START);
    assert_false(net_get_gpu_descriptors(&end.net, own_gpu(SIZE_MAX), &bytes, descriptors));
    assert_false(net_get_gpu_descriptors(&end.net, own_gpu(WINDOW_BYTES), &bytes, descriptors));
    assert_false(net_get_gpu_descriptors(&end.net, own_gpu(START - 1), &bytes, descriptors));
    assert_int_equal(bytes, CHUNK - START);
}

static void memory_for_registrations_may_be_missing(void **context)
{
    struct net_gpu_region place;
    (void)context;
    for (int i = 0; i < 3; i++) {
        int before = callocs.memory;
        callocs.left = i;
        net_get_own_region(&end.net, START, &place);
        callocs.left = -1;
        assert_int_equal(place.end, START);
        assert_int_equal(d.call_count, 0);
        assert_int_equal(callocs.memory - before, i < 2 ? 0 : 2);
        assert_int_equal(end.net.gpu.regions != NULL, i == 2);
    }
    net_get_own_region(&end.net, START, &place);
    assert_int_equal(place.end, CHUNK);
    int made = callocs.memory;
    net_free_regions(&end.net);
    assert_int_equal(made - callocs.memory, 3 + END_RAILS);
    assert_int_equal(d.closed, END_RAILS);
    assert_null(end.net.gpu.regions);
}

static void writes_are_flushed_where_the_gpu_needs_it(void **context)
{
    (void)context;
    end.net.gpu.write_order = GPU_NIC_WRITES_ORDERED;
    assert_int_equal(net_flush_gpu(&end.net), WEFT_OK);
    assert_int_equal(d.flushes, 0);
    end.net.gpu.write_order = GPU_NIC_WRITES_FLUSHED;
    assert_int_equal(net_flush_gpu(&end.net), WEFT_ERR_SYSTEM);
    assert_int_equal(d.flushes, 1);
}

/* ------------------------------------------------------------------------------- peers' memory */

static void peers_tell_where_their_memory_is(void **context)
{
    struct net_key keys[NET_RAILS];
    size_t bytes = CHUNK;
    (void)context;
    memset(keys, 77, sizeof keys);
    peer->gpu.access = NET_GPU_STAGED;
    assert_int_equal(net_get_gpu_keys(&end.state, peer, START, &bytes, keys), WEFT_OK);
    for (int i = 0; i < NET_RAILS; i++)
        assert_int_equal(keys[i].known, 0);
    peer->gpu.access = NET_GPU_DIRECT;
    assert_int_equal(net_get_gpu_keys(&end.state, peer, gpu.heap.backed, &bytes, keys), WEFT_OK);
    assert_int_equal(d.asked, 0);
    d.answer = (struct net_gpu_region){.start = START, .end = START + 5000};
    d.answer.keys[2] = (struct net_key){.key = 12, .base = 90000, .known = 1};
    assert_int_equal(net_get_gpu_keys(&end.state, peer, START + 100, &bytes, keys), WEFT_OK);
    assert_int_equal(d.asked, 1);
    assert_int_equal(d.asked_offset, START + 100);
    assert_int_equal(bytes, 4900);
    assert_int_equal(keys[2].known, 1);
    assert_int_equal(keys[2].key, 12);
    assert_int_equal(keys[2].base, 90100);
    assert_int_equal(keys[7].base, 100);
    assert_int_equal(keys[1].known, 0);
    assert_false(peer->gpu.needs_flush);
    /* A known region is not queried again. The bytes after its end belong to another region. */
    bytes = 10;
    assert_int_equal(net_get_gpu_keys(&end.state, peer, START + 4999, &bytes, keys), WEFT_OK);
    assert_int_equal(bytes, 1);
    assert_int_equal(d.asked, 1);
    d.answer =
        (struct net_gpu_region){.start = START + 5000, .end = START + 6000, .needs_flush = 1};
    bytes = 10;
    assert_int_equal(net_get_gpu_keys(&end.state, peer, START + 5000, &bytes, keys), WEFT_OK);
    assert_int_equal(d.asked, 2);
    assert_int_equal(bytes, 10); /* no NIC reaches it */
    assert_int_equal(keys[0].base, 0);
    assert_true(peer->gpu.needs_flush);
    assert_int_equal(net_get_gpu_keys(&end.state, peer, START + 5999, &bytes, keys), WEFT_OK);
    assert_int_equal(d.asked, 2);
    assert_int_equal(net_get_gpu_keys(&end.state, peer, START, &bytes, keys), WEFT_OK);
    assert_int_equal(keys[2].base, 90000);
    assert_true(peer->gpu.needs_flush);
    /* An offset without memory is queried again, since memory may be allocated there later. */
    d.answer = (struct net_gpu_region){.start = CHUNK, .end = CHUNK};
    for (int i = 0; i < 2; i++)
        assert_int_equal(net_get_gpu_keys(&end.state, peer, CHUNK, &bytes, keys), WEFT_OK);
    assert_int_equal(d.asked, 4);
    d.answer_status = WEFT_ERR_PEER_DEAD;
    assert_int_equal(net_get_gpu_keys(&end.state, peer, CHUNK, &bytes, keys), WEFT_ERR_PEER_DEAD);
    /* The last byte of the backed memory. */
    d.answer_status = WEFT_OK;
    d.answer = (struct net_gpu_region){.start = 3 * CHUNK, .end = WINDOW_BYTES};
    assert_int_equal(net_get_gpu_keys(&end.state, peer, gpu.heap.backed - 1, &bytes, keys),
                     WEFT_OK);
    assert_int_equal(d.asked, 6);
}

static void places_that_cannot_be_are_an_error(void **context)
{
    static const struct {
        uint64_t start, end;
        bool reached;
    } rows[] = {{START + 1, CHUNK, true},
                {START, START, true},
                {MIB, START - 1, false},
                {START, WINDOW_BYTES + 1, true}};
    struct net_key keys[NET_RAILS];
    size_t bytes = 8;
    (void)context;
    peer->gpu.access = NET_GPU_DIRECT;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        d.answer = (struct net_gpu_region){.start = rows[i].start, .end = rows[i].end};
        d.answer.keys[0].known = rows[i].reached;
        assert_int_equal(net_get_gpu_keys(&end.state, peer, START, &bytes, keys), WEFT_ERR_PATH);
        assert_non_null(strstr(base_last_error(), "PE 1 answers for offset 0x300000 of its GPU"));
    }
    d.answer = (struct net_gpu_region){.start = START, .end = START + 1};
    d.answer.keys[0].known = 1;
    assert_int_equal(net_get_gpu_keys(&end.state, peer, START, &bytes, keys), WEFT_OK);
    assert_int_equal(bytes, 1);
}

static void places_of_all_peers_are_freed(void **context)
{
    struct net_key keys[NET_RAILS];
    size_t bytes = 8;
    (void)context;
    int before = callocs.memory;
    for (int pe = 0; pe < END_PES; pe++) {
        peer = &end.peers[pe];
        peer->gpu.access = NET_GPU_DIRECT;
        d.answer = (struct net_gpu_region){.start = START, .end = CHUNK};
        for (int i = 0; i < 2; i++)
            net_get_gpu_keys(&end.state, peer, START, &bytes, keys);
        assert_int_equal(callocs.memory - before, 3);
        net_free_regions(&end.net);
        assert_int_equal(callocs.memory, before);
        assert_null(peer->gpu.regions);
    }
    peer = &end.peers[END_PES];
    peer->gpu.access = NET_GPU_DIRECT;
    net_get_gpu_keys(&end.state, peer, START, &bytes, keys);
    struct net_extents *regions = peer->gpu.regions;
    net_free_regions(&end.net);
    assert_ptr_equal(peer->gpu.regions, regions);
    end.peers[0].gpu.regions = regions;
    peer->gpu.regions = NULL;
    assert_int_equal(d.asked, END_PES + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(the_same_interface_is_found_with_hmem),
        test(the_user_says_whether_it_is_tried),
        test(own_memory_is_registered_by_dmabuf_with_each_nic),
        test(a_registration_ends_with_its_allocation),
        test(what_cannot_be_registered_says_why),
        test(a_gpu_that_cannot_be_flushed_has_nothing_registered),
        test(local_memory_ends_with_its_registration),
        test(memory_for_registrations_may_be_missing),
        test(writes_are_flushed_where_the_gpu_needs_it),
        test(peers_tell_where_their_memory_is),
        test(places_that_cannot_be_are_an_error),
        test(places_of_all_peers_are_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
