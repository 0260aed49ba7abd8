/* SPDX-License-Identifier: Apache-2.0 */
/* The commands by which path gda makes and connects an adapter's queues, bit by bit. Every field is
 * at its position in the command (mlx5_ifc of the Linux kernel), and all other bits are zero.
 * Errors of the adapter are reported in words. */
#include "path/gda/gda.h"

#include "base/status.h"

#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { COMMAND_BYTES = 272, ANSWER_BYTES = 16, PD = 0x345678, NUMBER = 0xabcdef };

/* Bits above the 24 bits of a number. They must not change the neighbouring field of the word. */
#define BEYOND 0xff000000u

/* The commands that were sent, and the replies. */
static struct {
    unsigned char bytes[COMMAND_BYTES];
} sent[4];
static int commands, fails_at; /* number of the command that fails; 0 = none */
static int error;              /* errno of the failure; 0 = unchanged */
static unsigned char capabilities[2][16 + 4096];
static unsigned char vport[16 + 512];

static void set(unsigned char *at, uint32_t value)
{
    value = htobe32(value);
    memcpy(at, &value, sizeof value);
}

/* Records a command that makes or changes an object. The reply is the object's number, or status
 * and syndrome. */
static bool take(const void *in, size_t count, void *out, size_t room)
{
    assert_int_equal(count, COMMAND_BYTES);
    assert_int_equal(room, ANSWER_BYTES);
    assert_in_range(commands, 0, 3);
    memcpy(sent[commands].bytes, in, count);
    memset(out, 0, room);
    if (++commands == fails_at) {
        errno = error ? error : errno;
        set(out, 0x03ffffff);
        set((unsigned char *)out + 4, 0x89abcdef);
        set((unsigned char *)out + 8, 0x111111);
        return false;
    }
    set((unsigned char *)out + 8, 0xff000000 | NUMBER);
    return true;
}

static struct mlx5dv_devx_obj *const object = (void *)(uintptr_t)0x1000;

static struct mlx5dv_devx_obj *create(struct ibv_context *context, const void *in, size_t count,
                                      void *out, size_t room)
{
    assert_ptr_equal(context, (void *)(uintptr_t)0x2000);
    return take(in, count, out, room) ? object : NULL;
}

static int modify(struct mlx5dv_devx_obj *of, const void *in, size_t count, void *out, size_t room)
{
    assert_ptr_equal(of, object);
    return take(in, count, out, room) ? 0 : EREMOTEIO;
}

/* Replies to queries: of a group of capabilities, or of the port. */
static int ask(struct ibv_context *context, const void *in, size_t count, void *out, size_t room)
{
    uint32_t words[4];
    assert_ptr_equal(context, (void *)(uintptr_t)0x2000);
    assert_int_equal(count, sizeof words);
    memcpy(words, in, sizeof words);
    if (++commands == fails_at) {
        errno = EREMOTEIO;
        return EREMOTEIO;
    }
    assert_int_equal(words[3], 0);
    if (be32toh(words[0]) == 0x762u << 16) {
        assert_int_equal(words[1], 0);
        assert_int_equal(be32toh(words[2]), 1 << 16);
        assert_int_equal(room, sizeof vport);
        memcpy(out, vport, room);
        return 0;
    }
    assert_int_equal(be32toh(words[0]), 0x100u << 16);
    assert_int_equal(words[2], 0);
    assert_true(be32toh(words[1]) == 1 || be32toh(words[1]) == 7);
    assert_int_equal(room, sizeof capabilities[0]);
    memcpy(out, capabilities[be32toh(words[1]) == 7], room);
    return 0;
}

static const struct mlx5 lib = {
    .dv = {.general_cmd = ask, .obj_create = create, .obj_modify = modify}};
static struct mlx5dv_devx_uar uar = {.page_id = BEYOND | 0x123456};
static struct gda_adapter adapter;
static struct gda_qp link_;

static int setup(void **state)
{
    (void)state;
    adapter = (struct gda_adapter){.lib = &lib,
                                   .context = (void *)(uintptr_t)0x2000,
                                   .pd_number = BEYOND | PD,
                                   .eq_number = 0xffffffa5,
                                   .name = "mlx5_3",
                                   .port = {.active_mtu = 4},
                                   .gid_index = 0x75a,
                                   .log_reads = 8 | 5};
    link_ = (struct gda_qp){.adapter = &adapter, .uar = &uar, .umem = 0x92345678};
    memset(sent, 0, sizeof sent);
    memset(capabilities, 0, sizeof capabilities);
    memset(vport, 0, sizeof vport);
    commands = fails_at = 0;
    error = EREMOTEIO;
    return 0;
}

/* A field of `bits` bits in the big-endian word at `at`, starting at bit `shift`. */
struct bits {
    int at, shift, bits;
    uint32_t value;
};

static void check(int number, const struct bits *fields, size_t count)
{
    unsigned char wanted[COMMAND_BYTES] = {0};
    for (size_t i = 0; i < count; i++) {
        uint32_t word;
        assert_true(fields[i].bits == 32 || fields[i].value < (uint32_t)1 << fields[i].bits);
        memcpy(&word, wanted + fields[i].at, sizeof word);
        set(wanted + fields[i].at, be32toh(word) | fields[i].value << fields[i].shift);
    }
    for (int i = 0; i < COMMAND_BYTES; i++)
        if (sent[number].bytes[i] != wanted[i])
            fail_msg("command %d has %#x at %#x, not %#x", number, sent[number].bytes[i], i,
                     wanted[i]);
}
#define CHECK(number, ...)                                                                         \
    check(number, (const struct bits[]){__VA_ARGS__},                                              \
          sizeof((const struct bits[]){__VA_ARGS__}) / sizeof(struct bits))

static void completion_queues(void **state)
{
    (void)state;
    assert_int_equal(gda_create_cq(&link_, 1 << 12, 0x1122334455667000, 0x123456740), WEFT_OK);
    assert_int_equal(commands, 1);
    CHECK(0, {0x0, 16, 16, 0x400}, {0x10, 25, 1, 1}, {0x10, 20, 1, 1}, {0x10, 17, 1, 1},
          {0x14, 0, 32, 0x92345678}, {0x1c, 24, 5, 12}, {0x1c, 0, 24, 0x123456}, {0x24, 0, 8, 0xa5},
          {0x48, 0, 32, 1}, {0x4c, 0, 32, 0x23456740}, {0x50, 0, 32, 0x11223344},
          {0x54, 0, 32, 0x55667000}, {0x58, 0, 32, 0x92345678}, {0x5c, 31, 1, 1});
    assert_ptr_equal(link_.cq, object);
    assert_int_equal(link_.cq_number, NUMBER);
}

static void queue_pairs(void **state)
{
    uint32_t number = 0;
    (void)state;
    link_.cq_number = BEYOND | 0x765432;
    assert_int_equal(gda_create_qp(&link_, 1 << 13, 0x1122334455667000, 0x123456740, &number),
                     WEFT_OK);
    assert_int_equal(commands, 1);
    CHECK(0, {0x0, 16, 16, 0x500}, {0x18, 11, 2, 3}, {0x1c, 0, 24, PD}, {0x20, 11, 4, 13},
          {0x24, 0, 24, 0x123456}, {0x94, 0, 24, 0x765432}, {0xb4, 0, 24, 0x765432},
          {0xb8, 0, 32, 1}, {0xbc, 0, 32, 0x23456740}, {0xc4, 24, 3, 3}, {0xe8, 28, 1, 1},
          {0xfc, 0, 32, 0x92345678}, {0x100, 0, 32, 0x11223344}, {0x104, 0, 32, 0x55667000},
          {0x108, 0, 32, 0x92345678}, {0x10c, 31, 1, 1});
    assert_ptr_equal(link_.qp, object);
    assert_int_equal(number, NUMBER);
}

static const struct gda_connection ends = {.qpn = BEYOND | 0x135791,
                                           .peer_qpn = BEYOND | 0x246802,
                                           .psn = BEYOND | 0x918273,
                                           .peer_psn = BEYOND | 0x645546,
                                           .sport = 0xfffbc123};

static void connected_over_infiniband(void **state)
{
    struct gda_address peer = {.lid = 0xfffdbeef, .mtu = 5};
    (void)state;
    link_.qp = object;
    assert_int_equal(gda_connect_qp(&link_, &ends, &peer), WEFT_OK);
    assert_int_equal(commands, 3);
    CHECK(0, {0x0, 16, 16, 0x502}, {0x8, 0, 24, 0x135791}, {0x18, 11, 2, 3}, {0xa8, 13, 3, 7},
          {0xa8, 16, 4, 3}, {0x54, 16, 8, 1});
    CHECK(1, {0x0, 16, 16, 0x503}, {0x8, 0, 24, 0x135791}, {0x20, 29, 3, 4}, {0x20, 24, 5, 30},
          {0x2c, 0, 24, 0x246802}, {0xac, 0, 24, 0x645546}, {0xac, 24, 5, 12}, {0xa8, 21, 3, 5},
          {0xa8, 13, 3, 7}, {0xa8, 16, 4, 3}, {0x54, 16, 8, 1}, {0x34, 0, 16, 0xbeef});
    CHECK(2, {0x0, 16, 16, 0x504}, {0x8, 0, 24, 0x135791}, {0x88, 21, 3, 5}, {0x88, 16, 3, 7},
          {0x88, 13, 3, 7}, {0x38, 27, 5, 20}, {0x54, 16, 8, 1}, {0x90, 0, 24, 0x918273});
    commands = 0;
    peer.mtu = 3; /* the smaller MTU of the two ends */
    assert_int_equal(gda_connect_qp(&link_, &ends, &peer), WEFT_OK);
    assert_int_equal(sent[1].bytes[0x20], 3 << 5 | 30);
}

static void connected_over_ethernet(void **state)
{
    const struct gda_address peer = {
        .lid = 0xbeef, /* unused over Ethernet */
        .mtu = 4,
        .ethernet = 1,
        .gid = {0xfe, 0x80, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14},
        .mac = {0x02, 0x21, 0x32, 0x43, 0x54, 0x65}};
    (void)state;
    link_.qp = object;
    assert_int_equal(gda_connect_qp(&link_, &ends, &peer), WEFT_OK);
    assert_int_equal(commands, 3);
    CHECK(1, {0x0, 16, 16, 0x503}, {0x8, 0, 24, 0x135791}, {0x20, 29, 3, 4}, {0x20, 24, 5, 30},
          {0x2c, 0, 24, 0x246802}, {0xac, 0, 24, 0x645546}, {0xac, 24, 5, 12}, {0xa8, 21, 3, 5},
          {0xa8, 13, 3, 7}, {0xa8, 16, 4, 3}, {0x54, 16, 8, 1}, {0x34, 23, 1, 1},
          {0x38, 16, 8, 0x5a}, {0x38, 0, 8, 64}, {0x40, 0, 32, 0xfe800102},
          {0x44, 0, 32, 0x03040506}, {0x48, 0, 32, 0x0708090a}, {0x4c, 0, 32, 0x0b0c0d0e},
          {0x50, 0, 16, 0xc123}, {0x54, 0, 16, 0x0221}, {0x58, 0, 32, 0x32435465});
}

/* A failed command ends the connection, and the message names the command. */
static void refusals(void **state)
{
    static const char *const names[] = {"RST2INIT_QP", "INIT2RTR_QP", "RTR2RTS_QP"};
    const struct gda_address peer = {.lid = 1, .mtu = 1};
    char wanted[200];
    uint32_t number = 77;
    (void)state;
    link_.qp = object;
    for (int i = 0; i < 3; i++) {
        commands = 0;
        fails_at = i + 1;
        assert_int_equal(gda_connect_qp(&link_, &ends, &peer), WEFT_ERR_SYSTEM);
        assert_int_equal(commands, i + 1);
        snprintf(wanted, sizeof wanted,
                 "path gda: mlx5_3 rejected %s: Remote I/O error, status 0x3, syndrome 0x89abcdef",
                 names[i]);
        assert_string_equal(base_last_error(), wanted);
    }
    setup(state);
    link_.qp = object;
    fails_at = 1;
    assert_int_equal(gda_create_cq(&link_, 128, 0, 64), WEFT_ERR_SYSTEM);
    assert_string_equal(base_last_error(), "path gda: mlx5_3 rejected CREATE_CQ: Remote I/O error, "
                                           "status 0x3, syndrome 0x89abcdef");
    assert_int_equal(link_.cq_number, 0);
    commands = 0;
    assert_int_equal(gda_create_qp(&link_, 128, 0, 64, &number), WEFT_ERR_SYSTEM);
    link_.qp = object;
    assert_string_equal(base_last_error(), "path gda: mlx5_3 rejected CREATE_QP: Remote I/O error, "
                                           "status 0x3, syndrome 0x89abcdef");
    assert_int_equal(number, 77);
    error = 0; /* an earlier errno is not reported */
    for (int i = 0; i < 3; i++) {
        commands = 0;
        errno = EPERM;
        assert_int_equal(i == 0   ? gda_create_cq(&link_, 128, 0, 64)
                         : i == 1 ? gda_create_qp(&link_, 128, 0, 64, &number)
                                  : gda_connect_qp(&link_, &ends, &peer),
                         WEFT_ERR_SYSTEM);
        link_.qp = object;
        assert_non_null(strstr(base_last_error(), ": Success, status 0x3"));
    }
}

/* Capabilities that an adapter lacks are appended to the text. */
static void what_an_adapter_lacks(void **state)
{
    static const struct {
        uint32_t version, masked, widths;
        int fails_at;
        const char *before, *lacks;
        bool no_atomics;
    } rows[] = {
        {1, 0xf, 0xc, 0, "", "", false},
        {0xfffffff1, 0xffff, 0xffff, 0, "", "", false}, /* the bits next to the fields are set */
        {0x10, 0xf, 0xc, 0, "", "completions of version 1", false},
        {3, 0xf, 0xc, 0, "", "completions of version 1", false},
        {1, 0xe, 0xc, 0, "", "", true},
        {1, 0x7, 0xc, 0, "", "", true},
        {1, 0xf, 0x8, 0, "", "", true},
        {1, 0xf, 0x4, 0, "", "", true},
        {1, 0xf, 0x3, 0, "", "", true},
        {0, 0, 0, 0, "a port", "a port, completions of version 1", true},
        {1, 0, 0xc, 1, "", "QUERY_HCA_CAP: Remote I/O error", true},
        {0, 0, 0, 2, "", "completions of version 1, QUERY_HCA_CAP: Remote I/O error", false},
        {1, 0xf, 0xc, 2, "a port", "a port, QUERY_HCA_CAP: Remote I/O error", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char lacks[160];
        setup(state);
        snprintf(lacks, sizeof lacks, "%s", rows[i].before);
        set(capabilities[0] + 0x10 + 0x3c, rows[i].version);
        set(capabilities[1] + 0x10 + 0x10, 0xffff0000 | rows[i].masked);
        set(capabilities[1] + 0x10 + 0x14, 0xffff0000 | rows[i].widths);
        fails_at = rows[i].fails_at;
        gda_query_caps(&adapter, lacks, sizeof lacks);
        assert_string_equal(lacks, rows[i].lacks);
        assert_int_equal(adapter.no_atomics, rows[i].no_atomics);
        assert_int_equal(commands, 2);
    }
}

/* A mask of service levels in the low half of a word; only level 0 counts. */
static void networks_that_reorder(void **state)
{
    static const struct {
        uint32_t word;
        bool reorders;
    } rows[] = {{0, false},      {1, true},      {2, false},
                {0xfffe, false}, {0xffff, true}, {0xffff0000, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        setup(state);
        set(vport + 0x10 + 0x50, rows[i].word);
        assert_int_equal(gda_may_reorder(&adapter), rows[i].reorders);
        assert_int_equal(commands, 1);
        adapter.ethernet = true;
        assert_false(gda_may_reorder(&adapter));
        assert_int_equal(commands, 1);
    }
    setup(state);
    fails_at = 1; /* if the query fails, the network is assumed to reorder */
    assert_true(gda_may_reorder(&adapter));
}

/* Nothing was executed by a queue that the adapter never had; no command is sent. */
static void a_queue_that_was_not_created(void **state)
{
    const struct gda_qp none = {.adapter = &adapter};
    uint32_t executed = 7;
    (void)state;
    commands = 0;
    assert_int_equal(gda_stop_qp(&none, 0, &executed), WEFT_OK);
    assert_int_equal(executed, 0);
    assert_int_equal(commands, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(completion_queues, setup),
        cmocka_unit_test_setup(queue_pairs, setup),
        cmocka_unit_test_setup(connected_over_infiniband, setup),
        cmocka_unit_test_setup(connected_over_ethernet, setup),
        cmocka_unit_test_setup(refusals, setup),
        cmocka_unit_test(what_an_adapter_lacks),
        cmocka_unit_test(networks_that_reorder),
        cmocka_unit_test(a_queue_that_was_not_created),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
