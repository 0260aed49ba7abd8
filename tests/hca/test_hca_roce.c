/* SPDX-License-Identifier: Apache-2.0 */
/* RoCE v2 packet by packet: one end is the software HCA, the other is this program, which loses,
 * repeats, reorders and damages packets and chooses its answers. */
#include "client.h"
#include "roce_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    SEND_ONLY = 0x04,
    WRITE_FIRST = 0x06,
    WRITE_MIDDLE,
    WRITE_LAST,
    WRITE_LAST_IMMEDIATE,
    WRITE_ONLY,
    READ = 0x0c,
    READ_FIRST,
    READ_MIDDLE,
    READ_LAST,
    READ_ONLY,
    ACK,
    ATOMIC_VALUE,
    COMPARE_SWAP,
    FETCH_ADD,
    ACKNOWLEDGED = 0x1f,
    OUT_OF_TURN = 0x60,
    INVALID,
    NO_ACCESS,
    NO_OPERATION,
    FIRST_PSN = 0xfffff0, /* first PSN of both ends (client.c) */
    QUIET_MS = 8,
    SOON_MS = 5000,
    SOURCE_PORT = 0xd1ce,
};

static struct client hca;
static int wire;
static uint32_t here, there; /* addresses of this program and of the HCA */
static uint32_t psn;         /* of the next request to the HCA */
static uint16_t source_port; /* UDP source port of the HCA */
/* The packets of the last reply, repeated when the HCA retransmits its request. */
static struct frame given[4];
static int given_count;

static uint32_t next_psn(void)
{
    uint32_t p = psn;
    psn = (psn + 1) & 0xffffff;
    return p;
}

static int open_both(void **state)
{
    static const struct client_options ring = {.ring = true};
    wire = roce_peer_open(&here);
    assert_true(wire >= 0);
    assert_int_equal(client_open(&hca, &ring), 0);
    uint32_t address;
    memcpy(&address, hca.gid.raw + 12, 4);
    there = be32toh(address);
    memset(&hca.remote_gid, 0, sizeof hca.remote_gid);
    hca.remote_gid.raw[10] = hca.remote_gid.raw[11] = 0xff;
    address = htobe32(here);
    memcpy(hca.remote_gid.raw + 12, &address, 4);
    hca.remote_qpn = ROCE_PEER_QPN;
    hca.remote_rkey = 0x11223344;
    hca.remote_memory = 0x7000000;
    hca.mtu = 3; /* code of 1024 bytes */
    hca.source_port = SOURCE_PORT;
    hca.timeout = 17; /* 0.5 s, because this program may have to wait for its CPU */
    assert_int_equal(client_connect(&hca), 0);
    psn = FIRST_PSN;
    source_port = SOURCE_PORT;
    given_count = 0;
    return 0;
}

static int close_both(void **state)
{
    client_close(&hca);
    close(wire);
    return 0;
}

/* --- Requests of this program to the HCA --- */

static struct frame write_frame(uint8_t opcode, uint32_t at, uint32_t length, uint32_t bytes,
                                uint8_t fill)
{
    struct frame f = {.opcode = opcode,
                      .ask = true,
                      .qpn = hca.qpn,
                      .psn = next_psn(),
                      .address = (uintptr_t)hca.memory + at,
                      .rkey = hca.mr->rkey,
                      .length = length,
                      .bytes = bytes};
    memset(f.data, fill, bytes);
    return f;
}

static void give(const struct frame *f)
{
    roce_peer_send(wire, here, there, f);
}

static void nothing_comes(void)
{
    struct frame f;
    assert_false(roce_peer_receive(wire, here, QUIET_MS, &f));
}

/* answer: the next packet is an ACK or NAK with this syndrome and this PSN. */
static void answer(uint8_t syndrome, uint32_t of)
{
    struct frame f;
    assert_true(roce_peer_receive(wire, here, SOON_MS, &f));
    assert_true(f.whole);
    assert_int_equal(f.opcode, ACK);
    assert_int_equal(f.from_port, source_port);
    assert_int_equal(f.qpn, ROCE_PEER_QPN);
    assert_int_equal(f.syndrome, syndrome);
    assert_int_equal(f.psn, of);
}

/* acknowledged: packets up to this PSN are acknowledged, possibly in several steps. */
static void acknowledged(uint32_t of)
{
    struct frame f;
    do {
        assert_true(roce_peer_receive(wire, here, SOON_MS, &f));
        assert_int_equal(f.syndrome, ACKNOWLEDGED);
    } while (f.psn != of);
}

static bool is_filled(uint32_t at, uint32_t bytes, uint8_t with)
{
    for (uint32_t i = 0; i < bytes; i++)
        if (hca.memory[at + i] != with)
            return false;
    return true;
}

static void make_three(struct frame f[3], uint8_t fill)
{
    f[0] = write_frame(WRITE_FIRST, 100, 2048 + 5, 1024, fill);
    f[1] = write_frame(WRITE_MIDDLE, 0, 0, 1024, (uint8_t)(fill + 1));
    f[2] = write_frame(WRITE_LAST, 0, 0, 5, (uint8_t)(fill + 2));
}

static void three_are_there(uint8_t fill)
{
    assert_true(is_filled(100, 1024, fill));
    assert_true(is_filled(1124, 1024, (uint8_t)(fill + 1)));
    assert_true(is_filled(2148, 5, (uint8_t)(fill + 2)));
    assert_int_equal(hca.memory[99], 0);
    assert_int_equal(hca.memory[2153], 0);
}

static void a_packet_of_a_message_is_lost(void **state)
{
    struct frame f[3], flag;
    for (int lost = 0; lost < 3; lost++) {
        make_three(f, (uint8_t)(0x10 + lost * 16));
        flag = write_frame(WRITE_ONLY, 4000, 1, 1, (uint8_t)(1 + lost));
        for (int i = 0; i < 3; i++)
            if (i != lost)
                give(&f[i]);
        give(&flag);
        /* Packets before the gap may be acknowledged separately; the gap is reported once. */
        struct frame got;
        do
            assert_true(roce_peer_receive(wire, here, SOON_MS, &got));
        while (got.syndrome == ACKNOWLEDGED);
        assert_int_equal(got.syndrome, OUT_OF_TURN);
        assert_int_equal(got.psn, f[lost].psn);
        struct frame more;
        while (roce_peer_receive(wire, here, QUIET_MS, &more))
            assert_int_equal(more.syndrome, ACKNOWLEDGED);
        assert_int_equal(hca.memory[4000], lost);
        for (int i = lost; i < 3; i++)
            give(&f[i]);
        give(&flag);
        acknowledged(flag.psn);
        three_are_there((uint8_t)(0x10 + lost * 16));
        assert_int_equal(hca.memory[4000], lost + 1);
    }
}

static void packets_come_twice(void **state)
{
    struct frame old = write_frame(WRITE_ONLY, 0, 8, 8, 0xaa), new;
    give(&old);
    acknowledged(old.psn);
    new = write_frame(WRITE_ONLY, 0, 8, 8, 0xbb);
    give(&new);
    acknowledged(new.psn);
    /* A repeated write is acknowledged up to the last packet received, and not executed again. */
    give(&old);
    answer(ACKNOWLEDGED, new.psn);
    assert_true(is_filled(0, 8, 0xbb));
    /* A repeated atomic gets the same result; it is executed once. */
    struct frame add = write_frame(FETCH_ADD, 64, 0, 0, 0), got;
    uint64_t counter = 40;
    memcpy(hca.memory + 64, &counter, 8);
    add.swap_add = 2;
    for (int i = 0; i < 2; i++) {
        give(&add);
        assert_true(roce_peer_receive(wire, here, SOON_MS, &got));
        assert_int_equal(got.opcode, ATOMIC_VALUE);
        assert_int_equal(got.psn, add.psn);
        assert_int_equal(got.value, 40);
    }
    memcpy(&counter, hca.memory + 64, 8);
    assert_int_equal(counter, 42);
    struct frame swap = write_frame(COMPARE_SWAP, 64, 0, 0, 0);
    swap.swap_add = 0xfedcba9876543210;
    swap.compare = 42;
    give(&swap);
    assert_true(roce_peer_receive(wire, here, SOON_MS, &got));
    assert_int_equal(got.value, 42);
    memcpy(&counter, hca.memory + 64, 8);
    assert_true(counter == 0xfedcba9876543210);
    /* Also the older one. */
    give(&add);
    assert_true(roce_peer_receive(wire, here, SOON_MS, &got));
    assert_int_equal(got.value, 40);
    memcpy(&counter, hca.memory + 64, 8);
    assert_true(counter == 0xfedcba9876543210);
}

static void expect_data(uint8_t opcode, uint32_t of, const uint8_t *data, uint32_t bytes)
{
    struct frame f;
    assert_true(roce_peer_receive(wire, here, SOON_MS, &f));
    assert_true(f.whole);
    assert_int_equal(f.opcode, opcode);
    assert_int_equal(f.psn, of);
    assert_int_equal(f.bytes, bytes);
    assert_memory_equal(f.data, data, bytes);
}

static void reads_and_a_part_again(void **state)
{
    for (uint32_t i = 0; i < 4000; i++)
        hca.memory[i] = (uint8_t)(i * 11 + i / 256);
    struct frame f = write_frame(READ, 7, 2500, 0, 0);
    psn = (psn + 2) & 0xffffff;
    give(&f);
    expect_data(READ_FIRST, f.psn, hca.memory + 7, 1024);
    expect_data(READ_MIDDLE, f.psn + 1, hca.memory + 1031, 1024);
    expect_data(READ_LAST, f.psn + 2, hca.memory + 2055, 452);
    /* From the second packet on, with the current contents of the memory. */
    memset(hca.memory + 1031, 0x77, 10);
    f.psn += 1;
    f.address += 1024;
    f.length -= 1024;
    give(&f);
    expect_data(READ_FIRST, f.psn, hca.memory + 1031, 1024);
    expect_data(READ_LAST, f.psn + 1, hca.memory + 2055, 452);
    f = write_frame(READ, 0, 0, 0, 0);
    give(&f);
    expect_data(READ_ONLY, f.psn, hca.memory, 0);
}

/* Soft RoCE takes an acknowledgement with the PSN of a read or atomic for its completion, even when
 * the data was lost; only data may acknowledge them. */
static void data_alone_acknowledge_a_read(void **state)
{
    for (int i = 0; i < 20; i++) {
        struct frame write = write_frame(WRITE_ONLY, 0, 8, 8, (uint8_t)(i + 1)), got;
        struct frame ask = write_frame(i % 2 ? FETCH_ADD : READ, 64, i % 2 ? 0 : 8, 0, 0);
        give(&write);
        give(&ask);
        do
            assert_true(roce_peer_receive(wire, here, SOON_MS, &got));
        while (got.opcode == ACK && got.psn == write.psn);
        assert_int_equal(got.opcode, i % 2 ? ATOMIC_VALUE : READ_ONLY);
        assert_int_equal(got.psn, ask.psn);
        /* The acknowledgement of the write was lost too. */
        give(&write);
        answer(ACKNOWLEDGED, write.psn);
        nothing_comes();
    }
}

static void numbers_wrap_and_bytes_are_padded(void **state)
{
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t bytes = i % 9;
        struct frame f = write_frame(WRITE_ONLY, 500, bytes, bytes, (uint8_t)(i + 1));
        memset(hca.memory + 499, 0, 12);
        if (!bytes)
            f.address = f.rkey = 0; /* a write of 0 bytes needs no valid address */
        give(&f);
        answer(ACKNOWLEDGED, f.psn);
        assert_true(is_filled(500, bytes, (uint8_t)(i + 1)));
        assert_int_equal(hca.memory[499] | hca.memory[500 + bytes], 0);
    }
    assert_int_equal(psn, (FIRST_PSN + 40) & 0xffffff);
    assert_true(psn < 100);
}

static void damaged_packets(void **state)
{
    struct frame f = write_frame(WRITE_ONLY, 0, 8, 8, 0x5a);
    f.damaged = true;
    give(&f);
    f.damaged = false;
    uint32_t other; /* address that the queue is not connected to */
    int stranger = roce_peer_open(&other);
    roce_peer_send(stranger, other, there, &f);
    nothing_comes();
    assert_true(is_filled(0, 8, 0));
    close(stranger);
    give(&f);
    answer(ACKNOWLEDGED, f.psn);
    assert_true(is_filled(0, 8, 0x5a));
}

/* Each uses its own queue, because the queue does not survive. */
static void refused(struct frame f, uint8_t syndrome)
{
    give(&f);
    answer(syndrome, f.psn);
    f = write_frame(WRITE_ONLY, 0, 1, 1, 1);
    give(&f);
    nothing_comes();
    close_both(NULL);
    open_both(NULL);
}

static void what_is_refused(void **state)
{
    struct frame f = write_frame(WRITE_ONLY, 0, 8, 8, 1);
    f.rkey ^= 0x100;
    refused(f, NO_ACCESS);
    refused(write_frame(WRITE_ONLY, CLIENT_MEMORY - 7, 8, 8, 1), NO_ACCESS);
    refused(write_frame(WRITE_MIDDLE, 0, 0, 1024, 1), INVALID);
    refused(write_frame(WRITE_LAST, 0, 0, 4, 1), INVALID);
    refused(write_frame(WRITE_FIRST, 0, 3000, 1000, 1), INVALID); /* shorter than the MTU */
    refused(write_frame(WRITE_ONLY, 0, 9, 8, 1), INVALID);        /* length field 9, data 8 bytes */
    refused(write_frame(0x15, 0, 0, 0, 1), INVALID);
    refused(write_frame(FETCH_ADD, 4, 0, 0, 1), INVALID);
    assert_true(is_filled(0, 4000, 0));
}

static void no_receive_is_posted(void **state)
{
    struct frame f = write_frame(SEND_ONLY, 0, 0, 8, 1), got, flag;
    flag = write_frame(WRITE_ONLY, 0, 1, 1, 9);
    give(&f);
    assert_true(roce_peer_receive(wire, here, SOON_MS, &got));
    assert_int_equal(got.syndrome >> 5, 1);
    assert_int_equal(got.psn, f.psn);
    /* The next packet is not executed before it. */
    give(&flag);
    nothing_comes();
    assert_int_equal(hca.memory[0], 0);
}

/* --- Requests of the HCA to this program --- */

static void give_again(void)
{
    for (int i = 0; i < given_count; i++)
        give(&given[i]);
}

static bool is_data(const struct frame *f)
{
    return f->opcode >= READ_FIRST && f->opcode <= READ_ONLY;
}

/* expect: waits for that packet. Earlier packets are retransmissions, because this program did not
 * answer within 5 ms; they get their data again, because the HCA may have ignored data that arrived
 * while it retransmitted. */
static struct frame expect(uint8_t opcode, uint32_t of, uint32_t bytes)
{
    struct frame f;
    for (;;) {
        assert_true(roce_peer_receive(wire, here, SOON_MS, &f));
        assert_true(f.whole);
        assert_int_equal(f.from_port, source_port);
        assert_int_equal(f.qpn, ROCE_PEER_QPN);
        if (f.opcode == opcode && f.psn == (of & 0xffffff))
            break;
        if (given_count && is_data(&given[0]))
            give_again();
    }
    given_count = 0;
    assert_int_equal(f.bytes, bytes);
    assert_int_equal(f.pad, -bytes & 3);
    return f;
}

/* pass_over: skips what the HCA has retransmitted meanwhile. */
static void pass_over(void)
{
    struct frame f;
    while (roce_peer_receive(wire, here, 0, &f))
        ;
}

static void reply(uint8_t opcode, uint32_t of, uint8_t syndrome)
{
    given_count = 1;
    given[0] = (struct frame){
        .opcode = opcode, .qpn = hca.qpn, .psn = of & 0xffffff, .syndrome = syndrome};
    give(&given[0]);
}

static bool is_complete(void)
{
    const struct mlx5_cqe64 *e = &hca.cqes[hca.consumer & ((1u << hca.log_cq) - 1)];
    uint8_t own = __atomic_load_n(&e->op_own, __ATOMIC_ACQUIRE);
    return own >> 4 != MLX5_CQE_INVALID && (own & 1) == (hca.consumer >> hca.log_cq & 1);
}

/* done: the next request completes with this syndrome. Retransmissions get the last reply again, as
 * from any responder. */
static void done(int syndrome)
{
    struct mlx5_cqe64 e;
    struct frame f;
    for (int ms = 0; !is_complete() && ms < SOON_MS; ms++)
        if (roce_peer_receive(wire, here, 1, &f))
            give_again();
    int kind = client_poll(&hca, &e);
    assert_int_equal(kind, syndrome ? MLX5_CQE_REQ_ERR : MLX5_CQE_REQ);
    if (syndrome)
        assert_int_equal(as_error(&e)->syndrome, syndrome);
}

static void write_2500(void)
{
    for (uint32_t i = 0; i < 2500; i++)
        hca.memory[i] = (uint8_t)(i * 3 + i / 256);
    client_write(&hca, hca.remote_memory + 3, (uintptr_t)hca.memory, 2500);
}

static void expect_2500(int from)
{
    struct frame f;
    for (int i = from; i < 3; i++) {
        f = expect((uint8_t)(WRITE_FIRST + i), FIRST_PSN + (uint32_t)i, i < 2 ? 1024 : 452);
        assert_memory_equal(f.data, hca.memory + i * 1024, f.bytes);
        if (i == 0) {
            assert_true(f.address == hca.remote_memory + 3);
            assert_int_equal(f.rkey, hca.remote_rkey);
            assert_int_equal(f.length, 2500);
        }
    }
    assert_true(f.ask);
}

/* Packets then leave from the common port. */
static void the_source_port_is_taken(void **state)
{
    int other = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(SOURCE_PORT), .sin_addr.s_addr = htonl(there)};
    assert_int_equal(bind(other, (struct sockaddr *)&a, sizeof a), 0);
    source_port = 4791;
    write_2500();
    expect_2500(0);
    reply(ACK, FIRST_PSN + 2, ACKNOWLEDGED);
    done(0);
    close(other);
}

static void an_acknowledgement_is_lost(void **state)
{
    write_2500();
    expect_2500(0);
    expect_2500(0); /* retransmitted */
    reply(ACK, FIRST_PSN + 2, ACKNOWLEDGED);
    done(0);
}

static void sent_again_from_the_gap(void **state)
{
    write_2500();
    expect_2500(0);
    reply(ACK, FIRST_PSN + 1, OUT_OF_TURN);
    expect_2500(1);
    reply(ACK, FIRST_PSN + 2, ACKNOWLEDGED);
    done(0);
}

static void one_acknowledgement_for_many(void **state)
{
    for (uint32_t i = 0; i < 20; i++)
        client_write_inline(&hca, hca.remote_memory + i, "abcdefgh", 1 + i % 8);
    for (uint32_t i = 0; i < 20; i++)
        expect(WRITE_ONLY, FIRST_PSN + i, 1 + i % 8);
    reply(ACK, FIRST_PSN + 11, ACKNOWLEDGED);
    for (uint32_t i = 0; i < 12; i++)
        done(0);
    assert_int_equal(hca.cqes[12].op_own, 0xff);
    reply(ACK, FIRST_PSN + 19, ACKNOWLEDGED);
    for (uint32_t i = 12; i < 20; i++)
        done(0);
}

static void refusals_have_their_syndromes(void **state)
{
    static const int syndromes[] = {0x12, 0x13, 0x14};
    for (int i = 0; i < 3; i++) {
        client_write_inline(&hca, hca.remote_memory, "abc", 3);
        client_write_inline(&hca, hca.remote_memory, "def", 3);
        expect(WRITE_ONLY, FIRST_PSN, 3);
        reply(ACK, FIRST_PSN + 1, (uint8_t)(INVALID + i));
        done(0);
        done(syndromes[i]);
        close_both(NULL);
        open_both(NULL);
    }
}

static void the_receiver_is_not_ready(void **state)
{
    enum { CODE = 26, MS = 81, TIMES = 3 };
    client_write_inline(&hca, hca.remote_memory, "abc", 3);
    expect(WRITE_ONLY, FIRST_PSN, 3);
    /* The HCA must keep the requested pause; that is a guarantee and no timing. Packets before its
     * end may have been retransmitted before the HCA received the request. */
    bool kept = false;
    for (int i = 0; i < TIMES && !kept; i++) {
        struct timespec from, to;
        clock_gettime(CLOCK_MONOTONIC, &from);
        reply(ACK, FIRST_PSN, 0x20 | CODE);
        usleep(3000);
        pass_over();
        expect(WRITE_ONLY, FIRST_PSN, 3);
        clock_gettime(CLOCK_MONOTONIC, &to);
        kept = (to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000 >= MS;
    }
    assert_true(kept);
    reply(ACK, FIRST_PSN, ACKNOWLEDGED);
    done(0);
}

static void data_of_a_read(uint8_t opcode, uint32_t at, uint32_t of, uint32_t bytes)
{
    struct frame f = {.opcode = opcode,
                      .qpn = hca.qpn,
                      .psn = of & 0xffffff,
                      .syndrome = ACKNOWLEDGED,
                      .bytes = bytes};
    for (uint32_t i = 0; i < bytes; i++)
        f.data[i] = (uint8_t)((at + i) * 5 + 1);
    if (given_count && !is_data(&given[0]))
        given_count = 0;
    given[given_count++] = f;
    give(&f);
}

static void data_of_a_read_are_lost(void **state)
{
    client_read(&hca, hca.remote_memory, (uintptr_t)hca.memory + 1, 3000);
    struct frame f = expect(READ, FIRST_PSN, 0);
    assert_int_equal(f.length, 3000);
    data_of_a_read(READ_FIRST, 0, FIRST_PSN, 1024);
    /* The second packet is missing: the HCA requests the data again from there. */
    data_of_a_read(READ_LAST, 2048, FIRST_PSN + 2, 952);
    f = expect(READ, FIRST_PSN + 1, 0);
    assert_int_equal(f.length, 3000 - 1024);
    assert_true(f.address == hca.remote_memory + 1024);
    data_of_a_read(READ_FIRST, 1024, FIRST_PSN + 1, 1024);
    data_of_a_read(READ_LAST, 2048, FIRST_PSN + 2, 952);
    done(0);
    for (uint32_t i = 0; i < 3000; i++)
        assert_int_equal(hca.memory[1 + i], (uint8_t)(i * 5 + 1));
    assert_int_equal(hca.memory[0] | hca.memory[3001], 0);
    /* An acknowledgement of a later packet does not acknowledge a read whose data has not
     * arrived. */
    client_read(&hca, hca.remote_memory, (uintptr_t)hca.memory, 8);
    client_write_inline(&hca, hca.remote_memory, "x", 1);
    expect(READ, FIRST_PSN + 3, 0);
    expect(WRITE_ONLY, FIRST_PSN + 4, 1);
    reply(ACK, FIRST_PSN + 4, ACKNOWLEDGED);
    expect(READ, FIRST_PSN + 3, 0);
    data_of_a_read(READ_ONLY, 9, FIRST_PSN + 3, 8);
    expect(WRITE_ONLY, FIRST_PSN + 4, 1);
    reply(ACK, FIRST_PSN + 4, ACKNOWLEDGED);
    done(0);
    done(0);
}

static void data_of_a_wrong_length(void **state)
{
    client_read(&hca, hca.remote_memory, (uintptr_t)hca.memory, 100);
    expect(READ, FIRST_PSN, 0);
    data_of_a_read(READ_ONLY, 0, FIRST_PSN, 101);
    done(0x10);
    assert_true(is_filled(0, 200, 0));
}

/* An atomic that RoCE cannot express is sent only to a software HCA of this kind. */
static void atomic_without_a_form(void **state)
{
    struct wqe_maker w;
    struct mlx5_cqe64 e;
    struct frame f;
    wqe_begin(&w, &hca, MLX5_OPCODE_ATOMIC_MASKED_FA, 8, MLX5_WQE_CTRL_CQ_UPDATE, 0);
    wqe_remote(&w, hca.remote_memory, hca.remote_rkey);
    wqe_long(&w, 1ull << 32);
    wqe_long(&w, 0);
    wqe_data(&w, (uintptr_t)hca.memory, 4, hca.mr->lkey);
    wqe_end(&w);
    client_doorbell(&hca);
    assert_int_equal(client_poll(&hca, &e), MLX5_CQE_REQ_ERR);
    assert_int_equal(as_error(&e)->syndrome, 0x12);
    assert_int_equal(as_error(&e)->vendor_err_synd, 0x8c);
    while (roce_peer_receive(wire, here, 0, &f))
        assert_int_equal(f.opcode, 0xc0); /* only the query for the kind of peer */
}

static void the_peer_goes_and_another_comes(void **state)
{
    assert_int_equal(client_move(&hca, 0x50a), 0);
    hca.timeout = 12;
    assert_int_equal(client_connect(&hca), 0);
    client_write_inline(&hca, hca.remote_memory, "a", 1);
    expect(WRITE_ONLY, FIRST_PSN, 1);
    reply(ACK, FIRST_PSN, ACKNOWLEDGED);
    done(0);
    given_count = 0; /* it does not answer */
    client_write_inline(&hca, hca.remote_memory, "b", 1);
    done(0x15);
    pass_over();
    /* The same address and queue number; sequence numbers start again. */
    assert_int_equal(client_move(&hca, 0x50a), 0);
    hca.next = 0;
    hca.qp_record[1] = 0;
    assert_int_equal(client_connect(&hca), 0);
    client_write_inline(&hca, hca.remote_memory, "c", 1);
    struct frame f = expect(WRITE_ONLY, FIRST_PSN, 1);
    assert_int_equal(f.data[0], 'c');
    /* An answer to the old queue. */
    reply(ACK, FIRST_PSN + 1, ACKNOWLEDGED);
    reply(ACK, FIRST_PSN, ACKNOWLEDGED);
    done(0);
}

static void gid_indices(void **state)
{
    union ibv_gid gid;
    assert_int_equal(client_move(&hca, 0x50a), 0);
    assert_int_equal(client_move(&hca, 0x502), 0);
    hca.gid_index = 7;
    assert_int_equal(client_move(&hca, 0x503), EREMOTEIO);
    hca.gid_index = 0; /* GID of the other wire */
    assert_int_equal(client_move(&hca, 0x503), EREMOTEIO);
    hca.gid_index = 1;
    assert_int_equal(client_move(&hca, 0x503), 0);
    assert_int_equal(ibv_query_gid(hca.context, 1, 2, &gid), -1);
    struct ibv_gid_entry all[2];
    assert_int_equal(ibv_query_gid_table(hca.context, all, 2, 0), 2);
    assert_memory_equal(all[1].gid.raw, hca.gid.raw, 16);
    assert_int_equal(all[0].gid.raw[0], 0xfe);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_both, close_both)
    const struct CMUnitTest tests[] = {
        CASE(a_packet_of_a_message_is_lost),
        CASE(packets_come_twice),
        CASE(reads_and_a_part_again),
        CASE(data_alone_acknowledge_a_read),
        CASE(numbers_wrap_and_bytes_are_padded),
        CASE(damaged_packets),
        CASE(what_is_refused),
        CASE(no_receive_is_posted),
        CASE(the_source_port_is_taken),
        CASE(an_acknowledgement_is_lost),
        CASE(sent_again_from_the_gap),
        CASE(one_acknowledgement_for_many),
        CASE(refusals_have_their_syndromes),
        CASE(the_receiver_is_not_ready),
        CASE(data_of_a_read_are_lost),
        CASE(data_of_a_wrong_length),
        CASE(atomic_without_a_form),
        CASE(the_peer_goes_and_another_comes),
        CASE(gid_indices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
