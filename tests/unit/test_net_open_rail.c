/* SPDX-License-Identifier: Apache-2.0 */
/* Shows which objects of libfabric are opened on a NIC, in which order, and what is known of its
 * provider. Each step can fail. */
#include "path/net/net.h"

#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { PES = 9, DESCRIPTOR = 17 };

static char text[256]; /* the objects opened and closed */
static int steps, fails;
static bool no_sleep; /* the provider has no descriptor to sleep on */
static unsigned version;
static struct net_rail rail;
static const struct path_world world = {.npes = PES};

static void log_call(const char *what)
{
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "%s ", what);
}

static int step(const char *what)
{
    log_call(what);
    return ++steps == fails ? -FI_ENOSYS : 0;
}

static int close_object(struct fid *fid)
{
    log_call((const char *)fid->context);
    return 0;
}

static struct fid_av addresses;
static struct fid_cq completions;

static int bind_object(struct fid *fid, struct fid *to, uint64_t flags)
{
    if (to == &addresses.fid)
        assert_int_equal(flags, 0);
    else
        assert_int_equal(flags, FI_TRANSMIT | FI_RECV);
    return step(to == &addresses.fid ? "bind-av" : to == &completions.fid ? "bind-cq" : "bind-?");
}

static int control(struct fid *fid, int command, void *argument)
{
    if (command == FI_ENABLE)
        return step("enable");
    assert_int_equal(command, FI_GETWAIT);
    *(int *)argument = DESCRIPTOR;
    return step("wait");
}

static struct fi_ops ops = {
    .size = sizeof ops, .close = close_object, .bind = bind_object, .control = control};
static struct fid_av addresses = {.fid = {.ops = &ops, .context = "-av"}};
static struct fid_cq completions = {.fid = {.ops = &ops, .context = "-cq"}};
static struct fid_ep endpoint = {.fid = {.ops = &ops, .context = "-ep"}};

static int open_addresses(struct fid_domain *of, struct fi_av_attr *attr, struct fid_av **av,
                          void *context)
{
    assert_true(attr->type == FI_AV_TABLE && attr->count == PES);
    *av = &addresses;
    return step("av");
}

static int open_completions(struct fid_domain *of, struct fi_cq_attr *attr, struct fid_cq **cq,
                            void *context)
{
    bool sleeps = attr->wait_obj == FI_WAIT_FD;
    assert_true(attr->size == 4096 && attr->format == FI_CQ_FORMAT_MSG);
    assert_true(sleeps || attr->wait_obj == FI_WAIT_NONE);
    int error = step(sleeps ? "cq-sleeps" : "cq");
    if (!error)
        *cq = &completions;
    return sleeps && no_sleep ? -FI_ENOSYS : error;
}

static int open_endpoint(struct fid_domain *of, struct fi_info *info, struct fid_ep **ep,
                         void *context)
{
    assert_ptr_equal(info, rail.info);
    *ep = &endpoint;
    return step("ep");
}

static struct fi_ops_domain domain_ops = {.size = sizeof domain_ops,
                                          .av_open = open_addresses,
                                          .cq_open = open_completions,
                                          .endpoint = open_endpoint};
static struct fid_domain domain = {.fid = {.ops = &ops, .context = "-domain"}, .ops = &domain_ops};

static int open_domain(struct fid_fabric *of, struct fi_info *info, struct fid_domain **result,
                       void *context)
{
    assert_ptr_equal(info, rail.info);
    *result = &domain;
    return step("domain");
}

static struct fi_ops_fabric fabric_ops = {.size = sizeof fabric_ops, .domain = open_domain};
static struct fid_fabric fabric_object = {.fid = {.ops = &ops, .context = "-fabric"},
                                          .ops = &fabric_ops};

static char provider[32], interface[] = "eth5";
static struct fi_fabric_attr fabric_attr = {.prov_name = provider};
static struct fi_domain_attr domain_attr = {.name = interface};
static struct fi_tx_attr tx_attr;
static struct fi_ep_attr ep_attr = {.max_msg_size = 12345};
static struct fi_info info = {.fabric_attr = &fabric_attr,
                              .domain_attr = &domain_attr,
                              .tx_attr = &tx_attr,
                              .ep_attr = &ep_attr};

static int open_fabric(struct fi_fabric_attr *attr, struct fid_fabric **result, void *context)
{
    assert_ptr_equal(attr, &fabric_attr);
    *result = &fabric_object;
    return step("fabric");
}

static void free_info(struct fi_info *of)
{
    assert_ptr_equal(of, &info);
    log_call("-info");
}

static const char *error_words(int error)
{
    return error == FI_ENOSYS ? "it is not there" : "another error";
}

static uint32_t library_version(void)
{
    return version;
}

static const struct fabric lib = {.fabric = open_fabric,
                                  .freeinfo = free_info,
                                  .strerror = error_words,
                                  .version = library_version};
static struct path_common net = {.lib = &lib, .world = &world, .provider = "tcp"};

static int prepare(void **state)
{
    text[0] = '\0';
    steps = fails = 0;
    no_sleep = false;
    version = FI_VERSION(1, 20);
    rail = (struct net_rail){.info = &info, .wait_descriptor = 3};
    snprintf(provider, sizeof provider, "tcp");
    tx_attr.msg_order = FI_ORDER_SAW;
    domain_attr.mr_mode = 0;
    info.caps = 0;
    return 0;
}

static void all_objects_are_opened_and_closed(void **state)
{
    assert_int_equal(net_open_rail(&net, &rail), WEFT_OK);
    assert_string_equal(text, "fabric domain av cq-sleeps wait ep bind-av bind-cq enable ");
    assert_int_equal(rail.wait_descriptor, DESCRIPTOR);
    text[0] = '\0';
    net_close_rail(&net, &rail);
    assert_string_equal(text, "-ep -cq -av -domain -fabric -info ");
    assert_null(rail.info);
    text[0] = '\0';
    net_close_rail(&net, &rail);
    assert_string_equal(text, "");
}

static void completions_need_no_descriptor(void **state)
{
    no_sleep = true; /* a queue with a descriptor cannot be opened */
    assert_int_equal(net_open_rail(&net, &rail), WEFT_OK);
    assert_string_equal(text, "fabric domain av cq-sleeps cq ep bind-av bind-cq enable ");
    assert_int_equal(rail.wait_descriptor, -1);
    prepare(state);
    fails = 5; /* or the queue reports no descriptor */
    assert_int_equal(net_open_rail(&net, &rail), WEFT_OK);
    assert_string_equal(text, "fabric domain av cq-sleeps wait -cq cq ep bind-av bind-cq enable ");
    assert_int_equal(rail.wait_descriptor, -1);
    assert_ptr_equal(rail.cq, &completions);
}

static void a_step_that_fails_is_named(void **state)
{
    static const char *const calls[] = {"fi_fabric",
                                        "fi_domain",
                                        "fi_av_open",
                                        "",
                                        "fi_cq_open",
                                        "fi_endpoint",
                                        "fi_ep_bind of the addresses",
                                        "fi_ep_bind of the completions",
                                        "fi_enable"};
    for (int i = 0; i < 9; i++) {
        char wanted[128];
        if (i == 3)
            continue; /* the first attempt to open a completion queue */
        prepare(state);
        no_sleep = true;
        fails = i + 1;
        assert_int_equal(net_open_rail(&net, &rail), WEFT_ERR_SYSTEM);
        snprintf(wanted, sizeof wanted, "%s: it is not there (provider tcp on eth5)", calls[i]);
        assert_string_equal(base_last_error(), wanted);
        assert_int_equal(steps, i + 1);
    }
}

static void what_providers_are_known_for(void **state)
{
    static const struct {
        const char *provider;
        uint64_t order;
        unsigned minor;
        bool confirmed, cpu, dies;
    } rows[] = {
        {"tcp", FI_ORDER_SAW, 17, false, true, false},
        {"tcp", FI_ORDER_SAS, 20, true, true, false},
        {"net", FI_ORDER_SAW, 20, false, true, false},
        {"tcp;ofi_rxm", FI_ORDER_SAW | FI_ORDER_SAS, 17, false, true, true},
        {"tcp;ofi_rxm", FI_ORDER_SAW, 18, false, true, false},
        {"net;ofi_rxm", FI_ORDER_SAW, 17, false, true, false},
        {"verbs;ofi_rxm", FI_ORDER_SAW, 17, false, false, false},
        {"verbs;ofi_rxm", 0, 17, true, false, false},
        {"sockets", FI_ORDER_SAW, 17, true, true, false},
        {"udp;ofi_rxd", FI_ORDER_SAW, 17, true, true, false},
        {"efa", FI_ORDER_SAW, 17, true, false, false},
    };
    static const struct {
        int mode;
        uint64_t caps;
        const char *provider;
        bool virtual, local, binds, tells, knows;
    } modes[] = {
        {FI_MR_VIRT_ADDR, 0, "tcp", true, false, false, false, false},
        {FI_MR_LOCAL, FI_SOURCE, "tcp", false, true, false, true, false},
        {FI_MR_ENDPOINT, FI_SOURCE | FI_RMA, "shm", false, false, true, true, true},
        {FI_MR_ALLOCATED, FI_RMA, "shm", false, false, false, false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        prepare(state);
        snprintf(provider, sizeof provider, "%s", rows[i].provider);
        tx_attr.msg_order = rows[i].order;
        version = FI_VERSION(1, rows[i].minor);
        assert_int_equal(net_open_rail(&net, &rail), WEFT_OK);
        assert_int_equal(rail.traits.delivery_complete, rows[i].confirmed);
        assert_int_equal(rail.traits.cpu_executes_rma, rows[i].cpu);
        assert_int_equal(rail.traits.crashes_on_reads, rows[i].dies);
        assert_int_equal(rail.traits.max_bytes, 12345);
    }
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        prepare(state);
        snprintf(provider, sizeof provider, "%s", modes[i].provider);
        domain_attr.mr_mode = modes[i].mode;
        info.caps = modes[i].caps;
        assert_int_equal(net_open_rail(&net, &rail), WEFT_OK);
        assert_int_equal(rail.traits.virtual_addresses, modes[i].virtual);
        assert_int_equal(rail.traits.registers_local, modes[i].local);
        assert_int_equal(rail.traits.binds_memory, modes[i].binds);
        assert_int_equal(rail.traits.reports_source, modes[i].tells);
        assert_int_equal(rail.traits.rejects_unknown, modes[i].knows);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(all_objects_are_opened_and_closed, prepare),
        cmocka_unit_test_setup(completions_need_no_descriptor, prepare),
        cmocka_unit_test_setup(a_step_that_fails_is_named, prepare),
        cmocka_unit_test_setup(what_providers_are_known_for, prepare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
