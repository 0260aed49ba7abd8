/* SPDX-License-Identifier: Apache-2.0 */
/* Shows that path net opens its NICs, exchanges their addresses with peers, and closes all of it in
 * an order in which no NIC accesses freed memory. The test is PE 1 of three with two NICs; doubles
 * open the NICs. */
#include "path/net/hmem.h"
#include "path/net/stripe.h"

#include "base/config.h"
#include "base/status.h"
#include "unit/callocs.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { PES = 3, NICS = 2 };

static char trace[1024];

__attribute__((format(printf, 1, 2))) static void log_call(const char *format, ...)
{
    size_t used = strlen(trace);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(trace + used, sizeof trace - used, format, arguments);
    va_end(arguments);
}

static struct path_common *net;
static struct {
    const char *lacks[NICS]; /* by NIC: why it does not reach GPU memory */
    weft_status opens[4];    /* by call of net_open_rail */
    int open_count, rails_opened[4];
    bool hmem[4];
    bool no_copy;
    int copied, freed;
    struct fi_info *freed_infos[4];
    int name_errors[NICS];
    bool no_random;
    weft_status serve, post, agree[8], gather, start;
    int agreed, posts, posts_by_rail[NICS], messages_left;
    int inserted[PES * NICS], inserts; /* what fi_av_insert returns */
    struct {
        int rail;
        char name[8];
    } insertions[PES * NICS];
} o;

/* -------------------------------------------------------------------------------------- doubles */

static struct fi_info infos[NICS], copies[NICS], with_gpu[NICS];
static struct fi_fabric_attr fabric_attrs[NICS];
static struct fi_domain_attr domain_attrs[NICS];
static struct fi_rx_attr receive_attrs[NICS];
static struct fid_ep endpoints[NICS];
static struct fid_av avs[NICS];

static int rail_index(const struct net_rail *rail)
{
    assert_true(rail >= net->rails && rail < net->rails + NICS);
    return (int)(rail - net->rails);
}

static struct fi_info *copy(const struct fi_info *info)
{
    int i = info == &infos[1];
    assert_ptr_equal(info, &infos[i]);
    if (o.no_copy)
        return NULL;
    o.copied++;
    copies[i] = *info;
    return &copies[i];
}

static void forget(struct fi_info *info)
{
    assert_true(o.freed < 4);
    o.freed_infos[o.freed++] = info;
}

static const char *text_of(int error)
{
    (void)error;
    return "an error";
}

static struct fabric lib = {.dupinfo = copy, .freeinfo = forget, .strerror = text_of};

weft_status __wrap_fabric_open(const struct fabric **found);
weft_status __wrap_fabric_open(const struct fabric **found)
{
    *found = &lib;
    return WEFT_OK;
}

struct fi_info *__wrap_net_add_hmem(const struct fabric *with, struct fi_info *info, char *why,
                                    size_t bytes);
struct fi_info *__wrap_net_add_hmem(const struct fabric *with, struct fi_info *info, char *why,
                                    size_t bytes)
{
    int i = info == &infos[1];
    assert_ptr_equal(with, &lib);
    snprintf(why, bytes, "%s", o.lacks[i]);
    if (why[0])
        return info;
    with_gpu[i] = *info;
    return &with_gpu[i];
}

static int get_name(struct fid *fid, void *name, size_t *bytes)
{
    int i = fid == &endpoints[1].fid;
    assert_true(*bytes >= 100);
    *bytes = (size_t)sprintf(name, "nic1%d", i) + 1;
    return o.name_errors[i];
}

static int insert(struct fid_av *av, const void *name, size_t count, fi_addr_t *address,
                  uint64_t flags, void *context)
{
    int rail = av == &avs[1];
    assert_int_equal(count, 1);
    assert_int_equal(flags, 0);
    assert_null(context);
    o.insertions[o.inserts].rail = rail;
    snprintf(o.insertions[o.inserts].name, 8, "%s", (const char *)name);
    *address = 500 + (fi_addr_t)o.inserts;
    return o.inserted[o.inserts++];
}

weft_status __wrap_net_open_rail(struct path_common *of, struct net_rail *rail);
weft_status __wrap_net_open_rail(struct path_common *of, struct net_rail *rail)
{
    static struct fi_ops_cm cm = {.size = sizeof cm, .getname = get_name};
    static struct fi_ops_av av = {.size = sizeof av, .insert = insert};
    net = of;
    int i = rail_index(rail);
    endpoints[i].cm = &cm;
    avs[i].ops = &av;
    o.rails_opened[o.open_count] = i;
    o.hmem[o.open_count] = rail->hmem;
    assert_int_equal(rail->hmem, rail->info == &with_gpu[i]);
    weft_status status = o.opens[o.open_count++];
    if (status)
        return base_fail(status, "it cannot be opened");
    rail->endpoint = &endpoints[i];
    rail->av = &avs[i];
    return WEFT_OK;
}

void __wrap_net_close_objects(struct net_rail *rail);
void __wrap_net_close_objects(struct net_rail *rail)
{
    log_call("objects:%d ", rail_index(rail));
}

void __wrap_net_remove_leftovers(const struct path_world *world);
void __wrap_net_remove_leftovers(const struct path_world *world)
{
    (void)world;
    log_call("leftovers ");
}

bool __wrap_net_random_bytes(void *bytes, size_t count);
bool __wrap_net_random_bytes(void *bytes, size_t count)
{
    memset(bytes, 0x11, count);
    errno = ENOSYS;
    return !o.no_random;
}

weft_status __wrap_serve_open(const struct path_world *world, struct serve **serve);
weft_status __wrap_serve_open(const struct path_world *world, struct serve **serve)
{
    (void)world;
    *serve = (struct serve *)&o;
    return o.serve;
}

struct net_message *__wrap_net_alloc_message(struct path_common *of);
struct net_message *__wrap_net_alloc_message(struct path_common *of)
{
    assert_ptr_equal(of, net);
    return o.messages_left-- ? (struct net_message *)&o : NULL;
}

weft_status __wrap_net_post_receive(struct path_common *of, int rail, struct net_message *message);
weft_status __wrap_net_post_receive(struct path_common *of, int rail, struct net_message *message)
{
    assert_ptr_equal(of, net);
    assert_ptr_equal(message, &o);
    o.posts_by_rail[rail]++;
    return ++o.posts == 5 ? o.post : WEFT_OK;
}

weft_status __wrap_boot_agree(struct boot *boot, weft_status status);
weft_status __wrap_boot_agree(struct boot *boot, weft_status status)
{
    (void)boot;
    weft_status all = o.agree[o.agreed++];
    return status ? status : all;
}

/* The exchange record: how a PE is reached. PEs 0 and 2 set theirs in prepare(). */
static struct {
    uint8_t key[SIPHASH_KEY_BYTES];
    int32_t count;
    struct {
        uint64_t network, bytes;
        unsigned char name[120];
    } rail[NET_RAILS];
} own_record, all[PES];

static weft_status gather(struct boot *boot, const void *mine, void *to, size_t bytes)
{
    (void)boot;
    assert_int_equal(bytes, sizeof own_record);
    memcpy(&own_record, mine, bytes);
    all[1] = own_record;
    memcpy(to, all, sizeof all);
    return o.gather;
}

weft_status __wrap_net_start_thread(struct path_common *of);
weft_status __wrap_net_start_thread(struct path_common *of)
{
    assert_ptr_equal(of, net);
    log_call("thread ");
    return o.start;
}

#define NOTED(name)                                                                                \
    void __wrap_##name(struct path_common *of);                                                    \
    void __wrap_##name(struct path_common *of)                                                     \
    {                                                                                              \
        assert_ptr_equal(of, net);                                                                 \
        log_call(#name " ");                                                                       \
    }
NOTED(net_stop_thread)
NOTED(net_drain)
NOTED(net_stripe_close)
NOTED(net_stage_free)
NOTED(net_free_regions)
NOTED(net_free_memory)

void __wrap_net_close_endpoint(struct net_rail *rail);
void __wrap_net_close_endpoint(struct net_rail *rail)
{
    log_call("endpoint:%d ", rail_index(rail));
}

void __wrap_net_free_rail_memory(struct path_common *of, struct net_rail *rail);
void __wrap_net_free_rail_memory(struct path_common *of, struct net_rail *rail)
{
    (void)of;
    log_call("memory:%d ", rail_index(rail));
}

void __wrap_net_close_rail(struct path_common *of, struct net_rail *rail);
void __wrap_net_close_rail(struct path_common *of, struct net_rail *rail)
{
    (void)of;
    log_call("rail:%d ", rail_index(rail));
}

void __wrap_serve_close(struct serve *serve);
void __wrap_serve_close(struct serve *serve)
{
    log_call(serve ? "serve " : "no_serve ");
}

/* --------------------------------------------------------------------------------------- set-up */

static const struct boot_ops boot_ops = {.name = "three", .allgather = gather};
static struct boot boot = {.ops = &boot_ops, .npes = PES};
static struct path_world world = {.pe = 1, .npes = PES, .boot = &boot};
static struct net_selection selection;
static int blocks_before;
static char tcp[] = "tcp", shm[] = "shm", eth0[] = "eth0", eth1[] = "eth1";

static int prepare(void **context)
{
    (void)context;
    unsetenv("WEFT_TEST_FABRIC_STRIPE");
    config_reset();
    memset(&o, 0, sizeof o);
    trace[0] = '\0';
    net = NULL;
    world.npes = PES;
    selection = (struct net_selection){.count = NICS, .first_rail_carries = true};
    for (int i = 0; i < NICS; i++) {
        fabric_attrs[i] = (struct fi_fabric_attr){.prov_name = tcp};
        domain_attrs[i] = (struct fi_domain_attr){.name = i ? eth1 : eth0};
        receive_attrs[i] = (struct fi_rx_attr){.size = i ? 10 : 1000};
        infos[i] = (struct fi_info){.fabric_attr = &fabric_attrs[i],
                                    .domain_attr = &domain_attrs[i],
                                    .rx_attr = &receive_attrs[i]};
        selection.info[i] = &infos[i];
        selection.network[i] = 70 + (uint64_t)i;
        selection.mbps[i] = 1000 + (uint32_t)i;
        o.lacks[i] = "";
    }
    for (int i = 0; i < PES * NICS; i++)
        o.inserted[i] = 1;
    o.messages_left = 10000;
    for (int pe = 0; pe < PES; pe++) {
        memset(&all[pe], 0, sizeof all[pe]);
        memset(all[pe].key, 0x30 + pe, sizeof all[pe].key);
        all[pe].count = NICS;
        for (int i = 0; i < NICS; i++) {
            all[pe].rail[i].network = 70 + (uint64_t)i;
            sprintf((char *)all[pe].rail[i].name, "nic%d%d", pe, i);
        }
    }
    callocs.left = -1;
    blocks_before = callocs.memory;
    return 0;
}

static int finish(void **context)
{
    (void)context;
    if (net)
        net_close(net);
    assert_int_equal(callocs.memory, blocks_before);
    return 0;
}

static weft_status open_net(void)
{
    struct path_common *made = NULL;
    weft_status status = net_open(&world, &selection, &made);
    assert_true(!net || net == made);
    net = made;
    return status;
}

/* ---------------------------------------------------------------------------------------- tests */

static void the_selection_is_opened(void **context)
{
    (void)context;
    assert_int_equal(open_net(), WEFT_OK);
    assert_string_equal(trace, "thread ");
    assert_int_equal(net->rail_count, NICS);
    assert_string_equal(net->provider, "tcp");
    assert_true(net->first_rail_carries);
    assert_int_equal(net->striping.least_bytes, 1 << 20);
    assert_int_equal(net->progress.wake_descriptor, -1);
    assert_ptr_equal(net->sends.blocked_end, &net->sends.blocked);
    assert_ptr_equal(net->incomplete_end, &net->incomplete);
    assert_ptr_equal(net->world, &world);
    assert_ptr_equal(net->lib, &lib);
    for (int i = 0; i < NICS; i++) {
        assert_ptr_equal(net->rails[i].info, &with_gpu[i]);
        assert_null(selection.info[i]);
        assert_int_equal(net->rails[i].network, 70 + i);
        assert_int_equal(net->rails[i].mbps, 1000 + i);
        assert_true(net->rails[i].hmem);
        assert_ptr_equal(o.freed_infos[i], &copies[i]);
    }
    assert_int_equal(o.open_count, NICS);
    assert_int_equal(o.freed, NICS);
    assert_string_equal(net->gpu.lacks, "");
    /* The exchange record that this PE sends. */
    assert_int_equal(own_record.count, NICS);
    assert_int_equal(own_record.key[0], 0x11);
    assert_int_equal(own_record.key[SIPHASH_KEY_BYTES - 1], 0x11);
    for (int i = 0; i < NICS; i++) {
        assert_int_equal(own_record.rail[i].network, 70 + i);
        assert_int_equal(own_record.rail[i].bytes, 6);
        assert_string_equal(own_record.rail[i].name, i ? "nic11" : "nic10");
    }
    /* The key of PE 0 is the key of the job. */
    assert_int_equal(net->start.key[0], 0x30);
    for (int i = 0; i < PES * NICS; i++) {
        char name[8];
        snprintf(name, sizeof name, "nic%d%d", i / 2, i % 2);
        assert_int_equal(o.insertions[i].rail, i % 2);
        assert_string_equal(o.insertions[i].name, name);
        assert_int_equal(net_get_peer(net, i / 2)->pe, i / 2);
        assert_int_equal(net_get_peer(net, i / 2)->rails.address[i % 2], 500 + i);
        assert_int_equal(net_get_peer(net, i / 2)->rails.peers[i % 2], i % 2);
    }
    /* Receives are limited to the size of the NIC's queue. */
    assert_int_equal(o.posts_by_rail[0], 64);
    assert_int_equal(o.posts_by_rail[1], 10);
}

static void transfers_are_spread_as_the_user_says(void **context)
{
    static const struct {
        const char *bytes;
        bool home_carries;
        size_t stripe;
    } rows[] = {{"3M", true, 3 << 20}, {"3M", false, 0}, {"0", true, SIZE_MAX}, {"0", false, 0}};
    (void)context;
    for (int i = 0; i < 4; i++) {
        prepare(NULL);
        setenv("WEFT_TEST_FABRIC_STRIPE", rows[i].bytes, 1);
        config_reset();
        selection.first_rail_carries = rows[i].home_carries;
        assert_int_equal(open_net(), WEFT_OK);
        assert_int_equal(net->striping.least_bytes, rows[i].stripe);
        finish(NULL);
    }
    prepare(NULL);
}

/* A peer's state is made at its first use; until then nothing has touched its memory. */
static void a_peer_is_begun_at_its_first_use(void **context)
{
    enum { MANY = 100 };
    static const struct {
        int begun, posts;
    } rows[] = {{0, 64}, {16, 64}, {17, 68}, {64, 256}, {65, 256}, {MANY, 256}};
    (void)context;
    o.agree[0] = WEFT_ERR_PEER_DEAD; /* before the exchange */
    selection.count = 1;
    o.lacks[0] = "none";
    world.npes = MANY;
    assert_int_equal(open_net(), WEFT_ERR_PEER_DEAD);
    for (int pe = 0; pe < MANY; pe++) {
        net->start.addresses[pe] = 900 + (fi_addr_t)pe;
        net->start.rails[pe] = (uint8_t)pe;
    }
    for (int i = 0, pe = 0; i < 6; i++) {
        for (; pe < rows[i].begun; pe++) {
            struct net_peer *peer = net_get_peer(net, pe);
            assert_ptr_equal(net_get_peer(net, pe), peer);
            assert_int_equal(peer->pe, pe);
            assert_int_equal(peer->rails.address[0], 900 + pe);
            assert_int_equal(peer->rails.peers[0], pe);
            assert_int_equal(peer->incoming.auth_word, net_derive_incoming_word(net, pe));
            assert_int_not_equal(peer->incoming.auth_word, peer->outgoing.auth_word + (pe == 1));
        }
        assert_int_equal(net->begun_count, pe);
        assert_int_equal(o.posts_by_rail[0], rows[i].posts);
        for (int later = pe; later < MANY; later++)
            assert_false(net_is_begun(net, later));
    }
}

static void a_nic_that_does_not_open_with_gpu_memory_opens_without(void **context)
{
    (void)context;
    o.opens[0] = WEFT_ERR_PATH;
    assert_int_equal(open_net(), WEFT_OK);
    assert_string_equal(trace, "objects:0 thread ");
    assert_int_equal(o.open_count, 3);
    assert_true(o.hmem[0] && !o.hmem[1] && o.hmem[2]);
    assert_ptr_equal(net->rails[0].info, &copies[0]);
    assert_false(net->rails[0].hmem);
    assert_int_equal(o.freed, 2);
    assert_ptr_equal(o.freed_infos[0], &with_gpu[0]);
    assert_ptr_equal(o.freed_infos[1], &copies[1]);
    assert_string_equal(net->gpu.lacks, ""); /* the second NIC reaches GPU memory */
    finish(NULL);
    prepare(NULL);
    o.opens[0] = WEFT_ERR_PATH;
    o.lacks[1] = "not here";
    assert_int_equal(open_net(), WEFT_OK);
    assert_string_equal(net->gpu.lacks, "opened with FI_HMEM: it cannot be opened");
    finish(NULL);
    prepare(NULL);
    o.lacks[1] = "not here";
    assert_int_equal(open_net(), WEFT_OK);
    assert_string_equal(net->gpu.lacks, "");
    finish(NULL);
    prepare(NULL);
    o.lacks[0] = "not here";
    o.opens[0] = WEFT_ERR_PATH;
    assert_int_equal(open_net(), WEFT_ERR_PATH);
    assert_int_equal(o.open_count, 1);
    assert_string_equal(net->gpu.lacks, "not here");
    assert_int_equal(o.freed, 1);
    finish(NULL);
    prepare(NULL);
    o.no_copy = true;
    o.opens[0] = WEFT_ERR_PATH;
    assert_int_equal(open_net(), WEFT_ERR_PATH);
    assert_int_equal(o.open_count, 1);
    assert_int_equal(o.freed, 0);
}

static void what_fails_here_ends_the_opening(void **context)
{
    (void)context;
    for (int i = 0; i < 10; i++) {
        prepare(NULL);
        weft_status expected = WEFT_ERR_SYSTEM;
        const char *text = NULL;
        switch (i) {
        case 0:
            o.opens[0] = o.opens[1] = expected = WEFT_ERR_PATH;
            break;
        case 1:
            o.name_errors[1] = -FI_EINVAL;
            text = "fi_getname: an error (provider tcp on eth1)";
            break;
        case 2:
            o.no_random = true;
            text = "getrandom: Function not implemented";
            break;
        case 3:
            o.serve = WEFT_ERR_SYSTEM;
            break;
        case 4:
            o.post = WEFT_ERR_SYSTEM;
            break;
        case 5:
            o.messages_left = 70;
            expected = WEFT_ERR_NO_MEMORY;
            text = "no private memory for 10 messages";
            break;
        case 6:
            o.agree[0] = WEFT_ERR_SYSTEM;
            break;
        case 7:
            o.agree[1] = WEFT_ERR_SYSTEM;
            break;
        case 8:
            o.gather = WEFT_ERR_SYSTEM;
            break;
        default:
            o.start = WEFT_ERR_SYSTEM;
        }
        assert_int_equal(open_net(), expected);
        if (text)
            assert_non_null(strstr(base_last_error(), text));
        assert_string_equal(trace, i == 0 ? "objects:0 " : i == 9 ? "thread " : "");
        assert_int_equal(o.agreed, i < 7 ? 1 : 2);
        assert_int_equal(o.posts, i < 4 ? 0 : i == 4 ? 5 : i == 5 ? 70 : 74);
        finish(NULL);
    }
    prepare(NULL);
    for (int i = 0; i < 3; i++) {
        callocs.left = i;
        assert_int_equal(open_net(), WEFT_ERR_NO_MEMORY);
        assert_non_null(strstr(base_last_error(), "no private memory for path net"));
        assert_int_equal(callocs.memory, blocks_before);
        assert_ptr_equal(selection.info[0], &infos[0]);
        net = NULL;
    }
    callocs.left = 3;
    assert_int_equal(open_net(), WEFT_ERR_NO_MEMORY);
    assert_non_null(strstr(base_last_error(), "no private memory for 3 PEs"));
}

static void a_nic_leads_to_one_of_its_network(void **context)
{
    (void)context;
    /* PE 0 has the networks in the other order. PE 2 has one NIC of another network: only the first
     * rail leads there. */
    all[0].rail[0].network = 71;
    all[0].rail[1].network = 70;
    all[2].count = 1;
    all[2].rail[0].network = 90;
    assert_int_equal(open_net(), WEFT_OK);
    assert_int_equal(net_get_peer(net, 0)->rails.peers[0], 0);
    assert_int_equal(net_get_peer(net, 0)->rails.peers[1], 0);
    assert_string_equal(o.insertions[0].name, "nic00");
    assert_string_equal(o.insertions[1].name, "nic00");
    assert_int_equal(net_get_peer(net, 2)->rails.peers[0], 0);
    assert_int_equal(net_get_peer(net, 2)->rails.address[1], FI_ADDR_NOTAVAIL);
    assert_int_equal(o.inserts, 5);
    finish(NULL);
    /* An unnamed network reaches all networks. */
    prepare(NULL);
    selection.network[1] = 0;
    all[0].rail[0].network = all[0].rail[1].network = 99;
    all[2].count = 1;
    assert_int_equal(open_net(), WEFT_OK);
    assert_int_equal(net_get_peer(net, 0)->rails.peers[1], 1);
    assert_int_equal(net_get_peer(net, 2)->rails.peers[1], 0);
    finish(NULL);
    prepare(NULL);
    all[0].rail[1].network = 0;
    assert_int_equal(open_net(), WEFT_OK);
    assert_int_equal(net_get_peer(net, 0)->rails.peers[1], 1);
}

static void an_address_that_is_refused_is_an_error(void **context)
{
    (void)context;
    o.inserted[2] = 0;
    assert_int_equal(open_net(), WEFT_ERR_SYSTEM);
    assert_string_equal(base_last_error(), "fi_av_insert: the address of PE 1 was refused");
    assert_int_equal(o.inserts, 3);
    assert_string_equal(trace, "");
    finish(NULL);
    prepare(NULL);
    o.inserted[5] = -FI_EINVAL;
    assert_int_equal(open_net(), WEFT_ERR_SYSTEM);
    assert_string_equal(base_last_error(), "fi_av_insert: an error (provider tcp on eth1)");
    assert_int_equal(o.inserts, 6);
}

static void files_that_were_left_are_removed_for_shm(void **context)
{
    (void)context;
    fabric_attrs[0].prov_name = shm;
    assert_int_equal(open_net(), WEFT_OK);
    assert_string_equal(net->provider, "shm");
    assert_string_equal(trace, "leftovers thread ");
}

static void all_is_closed_behind_what_uses_it(void **context)
{
    (void)context;
    assert_int_equal(open_net(), WEFT_OK);
    for (int i = 0; i < 2; i++) {
        struct net_state *state = calloc(1, sizeof *state);
        state->next = net->closed_states;
        net->closed_states = state;
    }
    net->pending.answers = calloc(2, sizeof *net->pending.answers);
    for (int pe = 0; pe < PES; pe++)
        for (int s = 0; s < SEG_COUNT; s++) {
            net_get_peer(net, pe)->keys[s] = calloc(1, 8);
            net_get_peer(net, pe)->rails.keys[s] = calloc(1, 8);
        }
    trace[0] = '\0';
    net_close(net);
    assert_string_equal(trace,
                        "net_stop_thread net_drain endpoint:0 endpoint:1 net_stripe_close "
                        "net_stage_free memory:0 memory:1 net_free_regions net_free_memory rail:0 "
                        "rail:1 serve ");
    assert_int_equal(callocs.memory, blocks_before);
    net = NULL;
}

#define test(name) cmocka_unit_test_setup_teardown(name, prepare, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(the_selection_is_opened),
        test(transfers_are_spread_as_the_user_says),
        test(a_peer_is_begun_at_its_first_use),
        test(a_nic_that_does_not_open_with_gpu_memory_opens_without),
        test(what_fails_here_ends_the_opening),
        test(a_nic_leads_to_one_of_its_network),
        test(an_address_that_is_refused_is_an_error),
        test(files_that_were_left_are_removed_for_shm),
        test(all_is_closed_behind_what_uses_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
