/* SPDX-License-Identifier: Apache-2.0 */
/* Shows how one NIC of path net uses libfabric: it registers memory under keys that may be in use,
 * sets the flags of RMA operations, closes its objects or leaves them open, and writes the error
 * texts. The objects of libfabric are doubles. */
#include "path/net/net.h"

#include "base/status.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* ------------------------------------------------------------------------------------ libfabric */

static int registrations, bindings, enablings, closings;
static int register_errors[16], bind_error, enable_error;
static uint64_t keys[16], flags_seen;
static ssize_t access_error;
static bool wrote;
static void *context_seen;

static int close_object(struct fid *fid)
{
    (void)fid;
    closings++;
    return 0;
}

static int bind_object(struct fid *fid, struct fid *to, uint64_t flags)
{
    (void)fid, (void)to, (void)flags;
    bindings++;
    return bind_error;
}

static int control(struct fid *fid, int command, void *argument)
{
    (void)fid, (void)argument;
    assert_int_equal(command, FI_ENABLE);
    enablings++;
    return enable_error;
}

static struct fi_ops object_ops = {
    .size = sizeof object_ops, .close = close_object, .bind = bind_object, .control = control};
static struct fid_mr memory = {.fid.ops = &object_ops, .key = 4711};

static int reg(struct fid *fid, const void *base, size_t bytes, uint64_t access, uint64_t offset,
               uint64_t key, uint64_t flags, struct fid_mr **result, void *context)
{
    (void)fid, (void)base, (void)bytes, (void)access, (void)offset, (void)flags, (void)context;
    keys[registrations] = key;
    int error = register_errors[registrations++];
    if (!error)
        *result = &memory;
    return error;
}

static ssize_t write_memory(struct fid_ep *ep, const struct fi_msg_rma *message, uint64_t flags)
{
    (void)ep;
    wrote = true;
    flags_seen = flags;
    context_seen = message->context;
    return access_error;
}

static ssize_t read_memory(struct fid_ep *ep, const struct fi_msg_rma *message, uint64_t flags)
{
    (void)ep;
    wrote = false;
    flags_seen = flags;
    context_seen = message->context;
    return access_error;
}

static int look_up(struct fid_av *av, fi_addr_t address, void *to, size_t *bytes)
{
    (void)av;
    if (address == 9)
        return -FI_EINVAL;
    memcpy(to, "x", 2);
    *bytes = address == 8 ? 129 : 2;
    return 0;
}

static const char *words_of(struct fid_av *av, const void *address, char *text, size_t *bytes)
{
    (void)av, (void)address;
    snprintf(text, *bytes, "fi_sockaddr_in://10.1.0.2:4711");
    return text;
}

static const char *error_words(int error)
{
    return error == FI_ENOSYS ? "it is not there" : "another error";
}

static struct fi_ops_mr memory_ops = {.size = sizeof memory_ops, .reg = reg};
static struct fi_ops_rma access_ops = {
    .size = sizeof access_ops, .writemsg = write_memory, .readmsg = read_memory};
static struct fi_ops_av address_ops = {
    .size = sizeof address_ops, .lookup = look_up, .straddr = words_of};
static struct fid_domain domain = {.fid.ops = &object_ops, .mr = &memory_ops};
static struct fid_ep endpoint = {.fid.ops = &object_ops, .rma = &access_ops};
static struct fid_av addresses = {.fid.ops = &object_ops, .ops = &address_ops};
static struct fid_cq completions = {.fid.ops = &object_ops};
static struct fid_fabric fabric_object = {.fid.ops = &object_ops};
static char name[] = "eth5";
static struct fi_domain_attr domain_attr = {.name = name, .mr_key_size = 1};
static struct fi_info info = {.domain_attr = &domain_attr};
static const struct fabric lib = {.strerror = error_words};
static struct net_rail rail;

static int prepare(void **state)
{
    (void)state;
    rail = (struct net_rail){.info = &info,
                             .fabric = &fabric_object,
                             .domain = &domain,
                             .endpoint = &endpoint,
                             .av = &addresses,
                             .cq = &completions,
                             .wait_descriptor = 5};
    registrations = bindings = enablings = closings = bind_error = enable_error = 0;
    memset(register_errors, 0, sizeof register_errors);
    access_error = 0;
    return 0;
}

/* --------------------------------------------------------------------------------- registration */

static void keys_that_are_in_use(void **state)
{
    struct fid_mr *made;
    (void)state;
    for (int i = 0; i < 7; i++)
        register_errors[i] = -FI_ENOKEY;
    assert_int_equal(net_register_memory(&rail, name, 4, FI_READ, &made), 0);
    assert_int_equal(registrations, 8);
    assert_ptr_equal(made, &memory);
    assert_int_equal(bindings, 0);
    bool differ = false;
    for (int i = 0; i < 8; i++) {
        assert_int_equal(keys[i] >> 8, 0); /* keys have one byte */
        differ |= keys[i] != keys[0];
    }
    assert_true(differ);
    registrations = 0;
    register_errors[7] = -FI_ENOKEY;
    assert_int_equal(net_register_memory(&rail, name, 4, FI_READ, &made), -FI_ENOKEY);
    assert_int_equal(registrations, 8);
    assert_null(made);
    registrations = 0;
    register_errors[0] = -FI_ENOMEM; /* any other error is final */
    assert_int_equal(net_register_memory(&rail, name, 4, FI_READ, &made), -FI_ENOMEM);
    assert_int_equal(registrations, 1);
    rail.endpoint = NULL;
    assert_int_equal(net_register_memory(&rail, name, 4, FI_READ, &made), -FI_EOPBADSTATE);
    assert_int_equal(registrations, 1);
}

static void memory_is_bound_where_that_is_wanted(void **state)
{
    struct fid_mr *made;
    (void)state;
    rail.traits.binds_memory = true;
    assert_int_equal(net_register_memory(&rail, name, 4, FI_READ, &made), 0);
    assert_int_equal(bindings, 1);
    assert_int_equal(enablings, 1);
    assert_ptr_equal(made, &memory);
    bind_error = -FI_EBUSY;
    assert_int_equal(net_register_memory(&rail, name, 4, FI_READ, &made), -FI_EBUSY);
    assert_int_equal(enablings, 1);
    assert_int_equal(closings, 1);
    assert_null(made);
    bind_error = 0;
    enable_error = -FI_EBUSY;
    assert_int_equal(net_register_memory(&rail, name, 4, FI_READ, &made), -FI_EBUSY);
    assert_int_equal(closings, 2);
    assert_null(made);
}

/* ------------------------------------------------------------------------------------- accesses */

static void accesses_are_counted(void **state)
{
    struct net_post post = {.counted_read = true};
    struct fi_msg_rma message = {0};
    (void)state;
    assert_int_equal(net_post_rma(&rail, &post, &message, true), 0);
    assert_true(wrote);
    assert_int_equal(flags_seen, FI_COMPLETION);
    assert_ptr_equal(context_seen, &post.context);
    assert_false(post.counted_read);
    assert_int_equal(rail.reads_in_flight, 0);
    rail.traits.delivery_complete = true;
    net_post_rma(&rail, &post, &message, true);
    assert_int_equal(flags_seen, FI_COMPLETION | FI_DELIVERY_COMPLETE);
    assert_int_equal(net_post_rma(&rail, &post, &message, false), 0);
    assert_false(wrote);
    assert_int_equal(flags_seen, FI_COMPLETION);
    assert_true(post.counted_read);
    assert_int_equal(rail.reads_in_flight, 1);
    access_error = -FI_EAGAIN;
    assert_int_equal(net_post_rma(&rail, &post, &message, false), -FI_EAGAIN);
    assert_false(post.counted_read);
    assert_int_equal(rail.reads_in_flight, 1);
}

/* ----------------------------------------------------------------------------------------
 * closing */

/* A rail stays open if its provider would crash on a close with reads in flight. */
static void what_is_closed(void **state)
{
    static const struct {
        int reads;
        bool dies, kept;
    } rows[] = {{0, false, false}, {3, false, false}, {0, true, false}, {1, true, true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        prepare(state);
        rail.reads_in_flight = rows[i].reads;
        rail.traits.crashes_on_reads = rows[i].dies;
        net_close_endpoint(&rail);
        assert_null(rail.endpoint);
        assert_int_equal(rail.reads_in_flight, 0);
        assert_int_equal(rail.left_open, rows[i].kept);
        assert_int_equal(closings, !rows[i].kept);
        net_close_objects(&rail);
        assert_int_equal(rail.wait_descriptor, -1);
        assert_int_equal(closings, rows[i].kept ? 0 : 5);
        assert_int_equal(rail.cq == NULL && rail.av == NULL && rail.domain == NULL && !rail.fabric,
                         !rows[i].kept);
        net_close_objects(&rail);
        assert_int_equal(closings, rows[i].kept ? 0 : 5);
    }
}

/* ---------------------------------------------------------------------------------------- words */

static void refusals_in_words(void **state)
{
    const struct path_common net = {.lib = &lib, .provider = "tcp"};
    char limit[96];
    (void)state;
    for (int sign = -1; sign <= 1; sign += 2) {
        assert_int_equal(net_call_failed(&net, &rail, "fi_endpoint", sign * FI_ENOSYS),
                         WEFT_ERR_SYSTEM);
        assert_string_equal(base_last_error(),
                            "fi_endpoint: it is not there (provider tcp on eth5)");
    }
    net_limit_text(&rail, FI_EINVAL, limit, sizeof limit);
    assert_string_equal(limit, "");
    net_limit_text(&rail, EMFILE, limit, sizeof limit);
    assert_memory_equal(limit, "; the limit of open files (ulimit -n) is ", 41);
    assert_false(net_out_of_descriptors());
    domain_attr.name = NULL;
    assert_string_equal(net_interface_name(&rail), "an interface without a name");
    domain_attr.name = name;
}

static void where_a_peer_is(void **state)
{
    char text[NET_ADDRESS_TEXT_BYTES] = "before";
    struct net_peer peer = {.rails.address = {9, 7, FI_ADDR_NOTAVAIL, 8}};
    (void)state;
    assert_string_equal(net_address_text(&rail, 1, &peer, text), " at 10.1.0.2:4711");
    /* The provider does not report the address. */
    assert_string_equal(net_address_text(&rail, 0, &peer, text), "");
    assert_string_equal(net_address_text(&rail, 2, &peer, text), "");
    /* The address is longer than the buffer. */
    assert_string_equal(net_address_text(&rail, 3, &peer, text), "");
    rail.av = NULL;
    assert_string_equal(net_address_text(&rail, 1, &peer, text), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(keys_that_are_in_use, prepare),
        cmocka_unit_test_setup(memory_is_bound_where_that_is_wanted, prepare),
        cmocka_unit_test_setup(accesses_are_counted, prepare),
        cmocka_unit_test_setup(what_is_closed, prepare),
        cmocka_unit_test_setup(refusals_in_words, prepare),
        cmocka_unit_test_setup(where_a_peer_is, prepare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
