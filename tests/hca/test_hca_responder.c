/* SPDX-License-Identifier: Apache-2.0 */
/* The responder of the software HCA, function by function: which packets it executes, its answers,
 * and what it refuses or drops; also the completion queues, keys and memory behind it. The log is
 * compared with golden/hca_responder.txt. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <unistd.h>

static uint8_t data[8192];
static uint8_t receive_ring[4 * 64];
static uint32_t next_psn;

static struct qp *responder(enum qp_type type)
{
    struct qp *qp = queue_make(type);
    for (unsigned i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 11 + i / 256 + 2);
    qp->state = QP_RTR;
    next_psn = 0xfffffe;
    memset(receive_ring, 0, sizeof receive_ring);
    qp->receive = (struct receive_queue){
        .ring = receive_ring, .log_count = 2, .log_stride = 6, .record = &queue_records[0][0]};
    return qp;
}

/* Writes a segment of an entry of the receive queue: address, bytes, key. */
static void entry(unsigned index, unsigned segment, uint64_t address, uint32_t bytes, uint32_t key)
{
    request_words_used = 0;
    put_segment(address, bytes, key);
    memcpy(receive_ring + index % 4 * 64 + (size_t)segment * 16, request_words, 16);
    queue_records[0][0] = big(index + 1);
}

/* A packet of the peer arrives, with the next sequence number. */
static void arrives(struct qp *qp, struct packet p, const void *payload)
{
    struct packet *to = ring_reserve(&in_rings.far_requests, p.bytes);
    assert_non_null(to);
    if (!p.to_qpn)
        p.to_qpn = qp->qpn;
    if (!p.from_qpn)
        p.from_qpn = qp->requester.remote_qpn;
    p.psn = (p.psn + next_psn) & 0xffffff;
    *to = p;
    if (payload)
        memcpy(to + 1, payload, p.bytes);
    ring_commit(&in_rings.far_requests, to);
    ring_publish(&in_rings.far_requests);
}

static void respond(const char *what)
{
    char line[160];
    bool worked = respond_run(&link_in, &device);
    snprintf(line, sizeof line, "%s%s", what, worked ? " (worked)" : "");
    look(line);
    say_memory();
    if (link_in.pending_count | link_in.read_offset | link_in.delayed.count)
        say("  pending %u offset %u held %u\n", link_in.pending_count, link_in.read_offset,
            link_in.delayed.count);
    assert_true(in_rings.far_requests.shared->head <= in_rings.far_requests.shared->tail);
    say("  read %llu\n", (unsigned long long)in_rings.far_requests.shared->head);
    if (device.objects.qps[1])
        next_psn = device.objects.qps[1]->responder.expected_psn;
}

static struct packet write_of(uint32_t bytes, unsigned flags, uint32_t length, uint64_t at)
{
    return (struct packet){.kind = PACKET_WRITE,
                           .flags = (uint8_t)flags,
                           .bytes = bytes,
                           .length = length,
                           .rkey = RKEY,
                           .immediate = 0x04030201,
                           .address = MEMORY + at};
}

enum { ONLY = PACKET_FIRST | PACKET_LAST };

static void writes(void)
{
    struct qp *qp = responder(QP_RC);
    arrives(qp, write_of(7, ONLY, 7, 100), data);
    respond("a write of one packet");
    arrives(qp, write_of(256, PACKET_FIRST, 600, 3), data);
    respond("the first of three");
    struct packet p = write_of(256, 0, 1, 2);
    p.rkey = 77;
    arrives(qp, p, data + 256);
    p = write_of(88, PACKET_LAST, 1, 2);
    p.psn = 1;
    arrives(qp, p, data + 512);
    respond("the two others, which say nothing of where");
    p = write_of(0, ONLY, 0, 1 << 30);
    p.rkey = 0;
    arrives(qp, p, NULL);
    respond("nothing, to nowhere");
    entry(0, 0, MEMORY, 10, LKEY);
    arrives(qp, write_of(4, ONLY | PACKET_IMMEDIATE | PACKET_SOLICITED, 4, 0x500), data);
    respond("a write with immediate data");
    arrives(qp, write_of(256, PACKET_FIRST, 300, 0x600), data);
    p = write_of(44, PACKET_LAST | PACKET_IMMEDIATE, 1, 1);
    p.psn = 1;
    arrives(qp, p, data);
    respond("one of two packets, for which there is no receive");
    next_psn = qp->responder.expected_psn;
    entry(1, 0, MEMORY, 10, LKEY);
    p.psn = 0;
    arrives(qp, p, data);
    respond("its end again");
    arrives(qp, write_of(5, ONLY, 5, 0x10000 - 4), data);
    respond("past the end of the memory");
    arrives(qp, write_of(5, ONLY, 5, 0x100), data);
    respond("the queue has failed");
}

static void refused_writes(void)
{
    enum { CASES = 12 };
    static const uint32_t keys[] = {RKEY + 1, 0x9900, OTHER_DOMAIN_KEY, LKEY};
    for (unsigned i = 0; i < CASES; i++) {
        bench_end();
        bench_begin();
        struct qp *qp = responder(QP_RC);
        struct packet p = write_of(256, PACKET_FIRST, 600, 0x10000 - 600);
        char what[32];
        snprintf(what, sizeof what, "refused write %u", i);
        if (i < 4)
            p.rkey = keys[i];
        if (i == 4)
            p.address++;
        if (i == 5)
            qp->access = MR_REMOTE_READ | MR_REMOTE_ATOMIC;
        if (i == 6)
            p.kind = PACKET_INVALID;
        if (i == 7)
            p.flags = ONLY; /* shorter than its length field */
        if (i == 8)
            p.flags = 0;
        if (i == 9)
            p.length = 256; /* not the last packet */
        if (i == 10) {
            p.flags = ONLY;
            p.length = 255;
        }
        if (i == 11)
            link_in.address = 0x0a000203, qp->requester.remote = 0x0a000203, p.rkey = 0;
        arrives(qp, p, data);
        p = write_of(3, ONLY, 3, 0);
        p.psn = 1;
        arrives(qp, p, data);
        respond(what);
    }
}

static void messages(void)
{
    struct qp *qp = responder(QP_RC);
    struct packet p = {.kind = PACKET_SEND, .flags = ONLY, .bytes = 30, .length = 30};
    arrives(qp, p, data);
    arrives(qp, p, data);
    respond("a message without a receive");
    entry(0, 0, MEMORY + 0x100, 20, LKEY);
    entry(0, 1, MEMORY + 0x200, 20, LKEY);
    arrives(qp, p, data);
    respond("with one of two segments");
    entry(1, 0, MEMORY + 0x300, 300, LKEY);
    entry(1, 1, MEMORY + 0x500, 100, RKEY);
    entry(1, 2, MEMORY + 0x600, 400, LKEY);
    p = (struct packet){.kind = PACKET_SEND, .flags = PACKET_FIRST, .bytes = 256, .length = 700};
    arrives(qp, p, data);
    respond("the first of three packets");
    p.flags = 0;
    arrives(qp, p, data + 256);
    p = (struct packet){.kind = PACKET_SEND,
                        .flags = PACKET_LAST | PACKET_IMMEDIATE | PACKET_SOLICITED,
                        .bytes = 188,
                        .psn = 1,
                        .immediate = 0x0a0b0c0d};
    arrives(qp, p, data + 512);
    respond("the others, with immediate data");
    entry(2, 0, MEMORY, 5, LKEY);
    entry(2, 1, MEMORY, 5, 0x100);
    p = (struct packet){.kind = PACKET_SEND, .flags = ONLY, .bytes = 6, .length = 6};
    arrives(qp, p, data);
    respond("one that does not fit");
}

static void refused_messages(void)
{
    for (unsigned i = 0; i < 12; i++) {
        bench_end();
        bench_begin();
        struct qp *qp = responder(QP_RC);
        struct packet p = {.kind = PACKET_SEND, .flags = ONLY, .bytes = 200, .length = 200};
        char what[32];
        snprintf(what, sizeof what, "refused message %u", i);
        entry(0, 0, MEMORY + 0x100, 128, LKEY);
        entry(0, 1, MEMORY + 0x200, 128, i == 0 ? OTHER_DOMAIN_KEY : i == 1 ? 0x9900 : LKEY);
        entry(0, 2, 0, 0, 0x100);
        entry(1, 0, MEMORY + 0x300, 10, LKEY);
        entry(2, 0, MEMORY + 0x300, 10, LKEY);
        p.immediate = big(RKEY);
        if (i >= 2 && i <= 6)
            p.flags |= PACKET_INVALIDATE;
        if (i == 3)
            p.immediate = big(RKEY + 1);
        if (i == 4)
            p.immediate = big(OTHER_DOMAIN_KEY);
        if (i == 5)
            p.immediate = big(0xffffff00);
        if (i == 6)
            entries[RKEY >> 8].valid = false;
        if (i == 7) { /* an earlier write is incomplete */
            arrives(qp, write_of(256, PACKET_FIRST, 300, 0), data);
            p.psn = 1;
        }
        if (i == 8) { /* another message is incomplete */
            arrives(qp, (struct packet){.kind = PACKET_SEND, .flags = PACKET_FIRST, .bytes = 256},
                    data);
            p.psn = 1;
        }
        if (i == 9)
            p.flags = PACKET_LAST;
        if (i == 10) { /* a read in the middle of a message */
            arrives(qp, (struct packet){.kind = PACKET_SEND, .flags = PACKET_FIRST, .bytes = 20},
                    data);
            p = (struct packet){.kind = PACKET_READ, .psn = 1, .mtu = 256};
        }
        if (i == 11) {
            entry(0, 0, MEMORY + 0x10000 - 10, 20, LKEY);
            p.bytes = 10;
        }
        arrives(qp, p, data);
        respond(what);
        if (i == 2)
            say("  access %x\n", entries[RKEY >> 8].access);
    }
}

/* With an SRQ: entries begin with the number of the next one, and their keys belong to its
 * domain. */
static void shared_receives(void)
{
    struct qp *qp = responder(QP_RC);
    struct srq srq = {.device = &device, .number = 0x4455, .pd = DOMAIN + 1};
    srq.queue = qp->receive;
    srq.queue.linked = true;
    srq.queue.next = 2;
    qp->srq = &srq;
    srq.users = 1;
    qp->receive.ring = NULL;
    entry(0, 1, MEMORY + 0x100, 128, OTHER_DOMAIN_KEY);
    entry(2, 1, MEMORY + 0x200, 128, OTHER_DOMAIN_KEY);
    receive_ring[2 * 64 + 2] = 0;
    receive_ring[2 * 64 + 3] = 4;
    receive_ring[2] = 1;
    receive_ring[3] = 2;
    queue_records[0][0] = big(2);
    struct packet p = {.kind = PACKET_SEND, .flags = ONLY, .bytes = 100, .length = 100};
    arrives(qp, p, data);
    respond("the entry that is next");
    arrives(qp, p, data + 1);
    respond("and the one behind it, by the number in it");
    say("  next %x taken %x\n", srq.queue.next, srq.queue.taken);
    arrives(qp, p, data);
    respond("there is no third");
    queue_records[0][0] = big(3);
    entry(2, 1, MEMORY, 128, LKEY);
    srq.queue.next = 2;
    arrives(qp, p, data);
    respond("a key of another domain");
    srq.users++;
    qp_remove(qp);
    assert_int_equal(srq.users, 1);
}

static void reads(void)
{
    struct qp *qp = responder(QP_RC);
    struct packet p = {.kind = PACKET_READ,
                       .flags = ONLY,
                       .mtu = 256,
                       .length = 600,
                       .rkey = RKEY,
                       .address = MEMORY + 0x1000};
    arrives(qp, p, NULL);
    respond("a read of three packets");
    next_psn = 0xfffffe;
    p.psn = 1;
    p.address += 256;
    p.length -= 256;
    arrives(qp, p, NULL);
    respond("the rest of it again");
    p = (struct packet){.kind = PACKET_READ, .mtu = 4096};
    arrives(qp, p, NULL);
    respond("of nothing");
    arrives(qp, write_of(5, ONLY, 5, 0x40), data);
    p = (struct packet){
        .kind = PACKET_READ, .mtu = 256, .length = 5, .rkey = RKEY, .address = MEMORY + 0x40};
    p.psn = 1;
    arrives(qp, p, NULL);
    respond("behind a write, of which nothing else is said");
    arrives(qp, write_of(5, ONLY, 5, 0x50), data);
    next_psn = 0xfffffe;
    p.psn = 0;
    arrives(qp, p, NULL);
    respond("an old one behind a write");
    for (unsigned i = 0; i < 2; i++) {
        p.mtu = i ? 4097 : 255;
        next_psn = qp->responder.expected_psn;
        arrives(qp, p, NULL);
        respond("of another MTU");
        qp->state = QP_RTR;
        qp->responder.nak_sent = false;
    }
    static const uint32_t keys[] = {LKEY, RKEY + 1, RKEY};
    p.mtu = 256;
    for (unsigned i = 0; i < 3; i++) {
        p.rkey = keys[i];
        qp->access = i == 2 ? MR_REMOTE_WRITE : 7 | MR_REMOTE_ATOMIC;
        arrives(qp, p, NULL);
        respond("with a key that does not permit it, or a queue");
        qp->state = QP_RTR;
        qp->responder.nak_sent = false;
    }
}

/* A read whose data does not fit in the answer ring continues when the ring has space. */
static void long_reads(void)
{
    struct qp *qp = responder(QP_RC);
    link_in.responses.size = in_rings.far_responses.size = 4096 * 4;
    struct packet p = {.kind = PACKET_READ,
                       .mtu = 4096,
                       .length = 4096 * 7 + 5,
                       .rkey = RKEY,
                       .address = MEMORY + 0x1000};
    arrives(qp, p, NULL);
    arrives(qp, write_of(9, ONLY, 9, 0), data);
    for (unsigned i = 0; i < 4; i++)
        respond("part of a read");
    p = write_of(9, ONLY, 9, 8);
    p.psn = 0;
    arrives(qp, p, data);
    link_in.responses.other = link_in.responses.own - link_in.responses.size + 64;
    in_rings.far_responses.shared->head = link_in.responses.other;
    respond("no room for any answer");
    in_rings.far_responses.shared->head = link_in.responses.own;
    respond("there is now");
}

static void atomics(void)
{
    static const struct {
        uint32_t form;
        uint64_t operands[4];
        uint64_t at;
    } cases[] = {
        {8, {0x1234, 0, 0, 0}, 0x1000},
        {8 | 1 << 8, {0x55, ~0ull, 0x1111, ~0ull}, 0x1000},
        {8 | 1 << 8, {0x66, 0xff00ff, 0x77, 0}, 0x1008},
        {4, {0x10, 0x80, 0, 0}, 0x1014},
        {4 | 1 << 8, {0x10203040, 0xffff, 0, 0}, 0x1018},
        {8, {1, 0, 0, 0}, 0x1004},
        {4, {1, 0, 0, 0}, 0x1002},
        {2, {1, 0, 0, 0}, 0x1002},
        {8, {1, 0, 0, 0}, 0xfff8},
        {8, {1, 0, 0, 0}, 0x10000},
    };
    struct qp *qp = responder(QP_RC);
    struct packet p = {.kind = PACKET_ATOMIC, .flags = ONLY, .bytes = 32, .rkey = RKEY};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        p.immediate = cases[i].form;
        p.address = MEMORY + cases[i].at;
        config.atomics = i % 2 ? ATOMICS_WEAK : ATOMICS_HCA;
        arrives(qp, p, cases[i].operands);
        respond("an atomic");
        if (i % 2 == 0) {
            config.atomics = ATOMICS_WEAK;
            arrives(qp, write_of(1, ONLY, 1, 0), data);
            p.psn = 1;
            arrives(qp, p, cases[i].operands);
            p.psn = 0;
            respond("a write, the same");
        }
        qp->state = QP_RTR;
        qp->responder.nak_sent = false;
        next_psn = qp->responder.expected_psn;
    }
    next_psn = 0xfffffe;
    for (unsigned i = 0; i < 4; i++) {
        p.psn = i;
        arrives(qp, p, cases[0].operands);
        respond("one whose answer was lost");
    }
    p.psn = 0;
    p.bytes = 31;
    next_psn = qp->responder.expected_psn;
    arrives(qp, p, cases[0].operands);
    respond("without its operands");
    p.bytes = 32;
    p.immediate = 8;
    p.address = MEMORY;
    qp->access = MR_REMOTE_READ | MR_REMOTE_WRITE;
    arrives(qp, p, cases[0].operands);
    respond("where the queue permits none");
    qp->state = QP_RTR;
    qp->responder.nak_sent = false;
    qp->access = MR_REMOTE_READ | MR_REMOTE_WRITE | MR_REMOTE_ATOMIC;
    next_psn = qp->responder.expected_psn;
    config.atomics = ATOMICS_NONE;
    arrives(qp, p, cases[0].operands);
    respond("where the adapter has none");
}

static void more_atomics_than_are_remembered(void)
{
    struct qp *qp = responder(QP_RC);
    uint64_t operands[4] = {1};
    struct packet p = {.kind = PACKET_ATOMIC,
                       .flags = ONLY,
                       .bytes = 32,
                       .rkey = RKEY,
                       .immediate = 8,
                       .address = MEMORY + 0x800};
    for (unsigned i = 0; i < MAX_READS + 2; i++) {
        arrives(qp, p, operands);
        respond_run(&link_in, &device);
        next_psn = qp->responder.expected_psn;
    }
    look("eighteen atomics");
    next_psn = 0xfffffe;
    for (unsigned i = 0; i < 4; i++) {
        p.psn = i;
        arrives(qp, p, operands);
        respond("the first ones again: two of these are forgotten");
        next_psn = 0xfffffe;
    }
}

static void order(void)
{
    struct qp *qp = responder(QP_RC);
    struct packet p = write_of(3, ONLY, 3, 0);
    p.psn = 2;
    arrives(qp, p, data);
    p.psn = 3;
    arrives(qp, p, data);
    respond("two packets are missing");
    p.psn = 0;
    arrives(qp, p, data);
    respond("the first comes");
    p.psn = 1;
    arrives(qp, p, data);
    respond("the second is missing again");
    next_psn -= 1;
    p.psn = 0;
    arrives(qp, p, data + 9);
    p.psn = 1;
    arrives(qp, p, data);
    respond("the first again, the second");
    p = (struct packet){.kind = PACKET_ACK};
    arrives(qp, p, NULL);
    respond("what is no request");
    p = write_of(3, ONLY, 3, 0);
    p.from_qpn = 0x9999;
    arrives(qp, p, data);
    p.from_qpn = 0;
    p.to_qpn = 0x9999;
    arrives(qp, p, data);
    p.to_qpn = 0;
    p.flags |= PACKET_DC;
    arrives(qp, p, data);
    p.flags = ONLY;
    link_in.address++;
    arrives(qp, p, data);
    respond("of another queue, or to another, or of another kind, or from elsewhere");
    link_in.address--;
    arrives(qp, p, data);
    respond("at last");
    for (unsigned state = QP_RESET; state <= QP_ERROR; state++) {
        qp->state = state;
        arrives(qp, p, data);
        respond("in each state");
    }
    qp->state = QP_RTR;
    qp->type = QP_DCI;
    arrives(qp, p, data);
    respond("to a DC initiator");
}

static void many_at_once(void)
{
    struct qp *qp = responder(QP_RC);
    for (unsigned i = 0; i < 300; i++) {
        struct packet p = write_of(1, ONLY, 1, i);
        p.psn = i;
        arrives(qp, p, data);
    }
    respond("three hundred writes");
    respond("those that are left");
    for (unsigned i = 0; i < 70; i++) {
        struct packet p = {.kind = PACKET_WRITES, .flags = ONLY, .length = i % 9, .bytes = 0};
        p.psn = i;
        arrives(qp, p, data);
    }
    respond("packets of writes count as many, also where there are none");
    respond("those that are left");
    /* So many connections that their acknowledgements do not fit. */
    bench_end();
    bench_begin();
    static struct responder streams[64];
    memset(streams, 0, sizeof streams);
    qp = responder(QP_RC);
    for (unsigned i = 0; i < 64; i++) {
        streams[i].qpn = 0x100 + i;
        streams[i].ack_psn = i;
        streams[i].ack_pending = true;
        link_in.pending[i] = qp;
        link_in.pending_responders[i] = &streams[i];
    }
    link_in.pending_count = 64;
    arrives(qp, write_of(1, ONLY, 1, 7), data);
    respond("sixty-four to be acknowledged before there is room for one more");
    assert_false(streams[0].ack_pending);
    link_in.pending_count = 64;
    link_in.responses.own = link_in.responses.other + RING_DATA - 3 * 56;
    arrives(qp, write_of(1, ONLY, 1, 9), data);
    assert_true(respond_run(&link_in, &device));
    say("  pending %u\n", link_in.pending_count);
    link_in.pending_count = 0;
}

static void bursts(void)
{
    struct {
        uint64_t address;
        uint32_t key, bytes;
        uint8_t data[8];
    } burst[4] = {{MEMORY + 1, RKEY, 3, "abc"},
                  {MEMORY + 0x11, RKEY, 8, "defghij"},
                  {MEMORY + 0x21, RKEY, 1, "k"},
                  {MEMORY + 0x31, RKEY, 5, "lmnop"}};
    struct qp *qp = responder(QP_RC);
    struct packet p = {.kind = PACKET_WRITES, .flags = ONLY, .bytes = sizeof burst, .length = 4};
    arrives(qp, p, burst);
    respond("four in one packet");
    next_psn -= 2;
    p.bytes -= 24;
    p.length = 3;
    memcpy(burst[2].data, "q", 1);
    memcpy(burst[0].data, "never", 5);
    arrives(qp, p, burst);
    respond("three, of which two have come before");
    burst[1].key = 0x9900;
    arrives(qp, p, burst);
    respond("the second is refused");
    qp->state = QP_RTR;
    qp->responder.nak_sent = false;
    burst[1].key = RKEY;
    far_is_held = true;
    far_fail_at = 1;
    burst[1].address = FAR_MEMORY;
    burst[1].key = FAR_KEY;
    arrives(qp, p, burst);
    respond("the driver refuses the second");
    far_is_held = false;
    qp->state = QP_RTR;
    qp->responder.nak_sent = false;
    p.length = 2;
    arrives(qp, p, burst);
    respond("two of three");
}

/* GPU memory: the driver refuses an access. */
static void far_memory(void)
{
    for (unsigned kind = 0; kind < 5; kind++)
        for (unsigned fail = 0; fail < 5; fail++) {
            bench_end();
            bench_begin();
            struct qp *qp = responder(QP_RC);
            uint64_t operands[4] = {5};
            struct packet p = write_of(20, ONLY, 20, 0);
            char what[64];
            snprintf(what, sizeof what, "memory of a GPU %u, the driver refuses %u", kind, fail);
            p.address = FAR_MEMORY + 64;
            p.rkey = FAR_KEY;
            arrives(qp, p, data);
            if (kind == 1)
                p = (struct packet){.kind = PACKET_READ, .length = 300, .mtu = 256};
            if (kind == 2)
                p = (struct packet){.kind = PACKET_ATOMIC, .bytes = 32, .immediate = 8};
            if (kind == 3)
                p = (struct packet){.kind = PACKET_SEND, .flags = ONLY, .bytes = 9, .length = 9};
            if (kind == 4)
                p = write_of(8, ONLY, 8, 0x80);
            if (kind != 4) {
                p.address = FAR_MEMORY + 128;
                p.rkey = FAR_KEY;
            }
            p.psn = 1;
            entry(0, 0, FAR_MEMORY + 32, 20, FAR_KEY);
            far_is_held = true;
            far_fail_at = fail;
            arrives(qp, p, kind == 2 ? (const void *)operands : data);
            respond(what);
            far_puts = far_gets = far_settles = 0;
            far_fail_at = 0;
            respond("then");
        }
}

/* Over RoCE each packet names its connection, and any of them may come first, twice or late. */
static void connections_of_dc(void)
{
    static const struct {
        uint32_t connection, first, psn;
        const char *what;
    } cases[] = {{900, 40, 40, "a connection"},
                 {900, 40, 41, "it goes on"},
                 {900, 40, 40, "a packet of it comes twice"},
                 {901, 50, 51, "the second packet of the next one comes first"},
                 {901, 50, 50, "its first packet"},
                 {900, 40, 42, "a late packet of the one before"},
                 {901, 50, 51, "it goes on"},
                 {901u - (1u << 17), 9, 9, "another process"},
                 {902, 60, 60, "the next one again"}};
    struct qp *qp = responder(QP_DCT);
    uint8_t keyed[100] = {8, 7, 6, 5, 4, 3, 2, 1, 'a', 'b', 'c', 'd'};
    qp->dc_key = 0x0102030405060708;
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct packet p = write_of(12, ONLY | PACKET_DC, 4, 5);
        p.from_qpn = 0x7001;
        p.psn = cases[i].psn;
        p.msn = cases[i].first;
        p.connection = cases[i].connection;
        next_psn = 0;
        arrives(qp, p, keyed);
        respond(cases[i].what);
    }
}

static void targets_of_dc(void)
{
    struct qp *qp = responder(QP_DCT);
    uint8_t keyed[100] = {8, 7, 6, 5, 4, 3, 2, 1, 'a', 'b', 'c', 'd'};
    qp->dc_key = 0x0102030405060708;
    qp->responder.expected_psn = 0xfffffe;
    struct packet p = write_of(12, ONLY | PACKET_DC | PACKET_OPENS, 4, 5);
    p.from_qpn = 0x7001;
    p.psn = 10;
    next_psn = 0;
    arrives(qp, p, keyed);
    respond("one who opens");
    p.from_qpn = 0x7002;
    next_psn = 0;
    p.psn = 77;
    arrives(qp, p, keyed);
    respond("another");
    p.from_qpn = 0x7001;
    p.flags = ONLY | PACKET_DC;
    next_psn = 0;
    p.psn = 11;
    arrives(qp, p, keyed);
    p.psn = 13;
    arrives(qp, p, keyed);
    respond("the first goes on, with one missing");
    link_in.address++;
    p.psn = 0;
    next_psn = 0;
    arrives(qp, p, keyed);
    respond("the same number from elsewhere");
    link_in.address--;
    qp->responder.next->next->message = PACKET_SEND;
    p.flags = ONLY | PACKET_DC | PACKET_OPENS;
    p.psn = 500;
    arrives(qp, p, keyed);
    respond("one who opens anew");
    keyed[0]++;
    next_psn = 0;
    arrives(qp, p, keyed);
    p.bytes = 7;
    arrives(qp, p, keyed);
    p.bytes = 8;
    p.length = 0;
    keyed[0]--;
    p.psn = 501;
    p.flags = ONLY | PACKET_DC;
    p.from_qpn = 0x7001;
    arrives(qp, p, keyed);
    respond("the wrong key, no key, no data");
    p.bytes = 12;
    p.length = 4;
    p.rkey = 0;
    p.psn = 502;
    next_psn = 0;
    arrives(qp, p, keyed);
    respond("a refusal leaves the target alone");
    next_psn = 0;
    for (unsigned i = 0; i < 4094; i++) {
        p = write_of(8, ONLY | PACKET_DC | PACKET_OPENS, 0, 0);
        p.from_qpn = 0x10000 + i;
        arrives(qp, p, keyed);
        respond_run(&link_in, &device);
        struct packet const *taken;
        bool broken = false;
        while ((taken = ring_peek(&in_rings.far_responses, &broken)))
            ring_consume(&in_rings.far_responses, taken);
        ring_release(&in_rings.far_responses);
    }
    unsigned count = 0;
    for (const struct responder *s = qp->responder.next; s; s = s->next)
        count++;
    say("  %u streams\n", count);
    qp_reset(qp);
    assert_null(qp->responder.next);
}

static void acknowledgements_are_forgotten(void)
{
    struct qp *a = responder(QP_RC), *b = queue_make(QP_RC);
    static struct responder streams[5];
    memset(streams, 0, sizeof streams);
    for (unsigned i = 0; i < 5; i++) {
        streams[i] = (struct responder){.qpn = i, .ack_pending = true};
        link_in.pending[i] = i % 3 == 2 ? b : a;
        link_in.pending_responders[i] = &streams[i];
    }
    link_in.pending_count = 5;
    respond_drop_acks(&device, a);
    assert_int_equal(link_in.pending_count, 1);
    assert_ptr_equal(link_in.pending[0], b);
    assert_ptr_equal(link_in.pending_responders[0], &streams[2]);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(streams[i].ack_pending, i == 2);
    link_in.pending_count = 0;
}

static void broken_rings(void)
{
    struct qp *qp = responder(QP_RC);
    arrives(qp, write_of(1, ONLY, 1, 7), data);
    struct packet *p = ring_reserve(&in_rings.far_requests, 100);
    *p = (struct packet){.kind = PACKET_WRITE, .bytes = 5000};
    ring_commit(&in_rings.far_requests, p);
    ring_publish(&in_rings.far_requests);
    respond("a packet that cannot be one");
    assert_true(atomic_load(&link_in.dead));
    respond("that is said once");
    qp->state = QP_RTS;
    p = ring_reserve(&out_rings[0].far_responses, 100);
    *p = (struct packet){.kind = PACKET_ACK, .bytes = 5000};
    ring_commit(&out_rings[0].far_responses, p);
    ring_publish(&out_rings[0].far_responses);
    take_answers("an answer that cannot be one");
    assert_true(atomic_load(&links_out[0].dead));
    take_answers("that is said once");
}

/* The adversary: which writes it delays, and what places them. */
static void adversarial(void)
{
    struct qp *qp = responder(QP_RC);
    config.mode = MODE_ADVERSARIAL;
    config.apart = 1;
    for (unsigned i = 0; i < 40; i++) {
        struct packet p = write_of(1 + i, ONLY, 1 + i, 64 * i);
        p.rkey = i % 7 == 6 ? RKEY : RELAXED_KEY;
        arrives(qp, p, data);
        next_psn = (next_psn + 1) & 0xffffff;
    }
    for (unsigned i = 0; i < 30; i++) {
        respond("of an adversary");
        device.now += 200000;
    }
    next_psn = qp->responder.expected_psn;
    entry(0, 0, MEMORY + 0x8000, 60, LKEY);
    struct packet p = write_of(9, ONLY | PACKET_IMMEDIATE, 9, 0x3000);
    p.rkey = RELAXED_KEY;
    arrives(qp, p, data);
    for (unsigned i = 0; i < 3; i++)
        respond("one with immediate data is placed");
    for (unsigned i = 0; i < 200; i++) {
        uint8_t byte = (uint8_t)(i + 100);
        adversary_delay_apart(&device, MR_REMOTE_WRITE, memory + 0x4000 + i, &byte, 1);
    }
    look("more than can be held");
    say("  held %u\n", device.pending.apart.count);
    assert_false(adversary_delay_apart(&device, MR_LOCAL_WRITE | MR_REMOTE_READ, memory, data, 1));
    assert_false(adversary_delay_apart(&device, MR_REMOTE_WRITE, memory, data, 0));
    assert_false(adversary_delay_apart(&device, MR_REMOTE_WRITE, memory, data, DELAYED_BYTES + 1));
    assert_true(adversary_delay_apart(&device, MR_REMOTE_WRITE, memory, data, DELAYED_BYTES));
    say("  expires %d", adversary_flush_expired(&device, &device.pending.apart));
    device.now += 2000000;
    say(" %d", adversary_flush_expired(&device, &device.pending.apart));
    look(" after 2 ms");
    device.now += 2000000;
    assert_false(adversary_flush_expired(&device, &device.pending.apart));
    look("after 4 ms");
    struct delayed_writes h = {0};
    uint64_t until[8];
    for (unsigned i = 0; i < 8; i++) {
        while (!adversary_delay(&device, &h, (const void *)(uintptr_t)(i % 3 + 1),
                                memory + 0x5000 + 2 * i, data + 50 * i, i + 1))
            ;
        until[i] = h.writes[i].until - device.now;
        say("  until %llu\n", (unsigned long long)until[i]);
    }
    adversary_flush(&device, &h, (const void *)(uintptr_t)2);
    look("those of one connection");
    say("  held %u\n", h.count);
    respond_flush(&device);
    config.mode = MODE_STRICT;
    assert_false(adversary_delay(&device, &h, NULL, memory, data, 1));
    adversary_flush(&device, &h, NULL);
    look("all");
    free(h.writes);
    config.mode = MODE_ADVERSARIAL;
    for (unsigned i = 0; i < 12; i++) {
        const unsigned limit = adversary_limit(&device, 100);
        say("%d %u ", adversary_skips_step(&device), limit);
    }
    config.mode = MODE_LENIENT;
    say("%d %u\n", adversary_skips_step(&device), adversary_limit(&device, 100));
    config.apart = 0;
    assert_false(adversary_delay_apart(&device, MR_REMOTE_WRITE, memory, data, 1));
}

/* --- Completion queues --- */

static void completion_queues(void)
{
    struct qp *qp = responder(QP_RC);
    struct channel events, completions;
    struct ibv_async_event event;
    void *owner;
    assert_int_equal(channel_open(&events) | channel_open(&completions), 0);
    assert_int_equal(fcntl(events.write_fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    assert_int_equal(fcntl(events.read_fd, F_GETFL) & O_NONBLOCK, 0);
    fcntl(events.read_fd, F_SETFL, O_NONBLOCK);
    fcntl(completions.read_fd, F_SETFL, O_NONBLOCK);
    struct cq *cq = &cqs[1];
    struct outstanding f = {.index = 0xabcd, .opcode = WQE_READ, .received = 77, .solicited = true};
    cq->log_size = 2;
    cq->events = &events;
    cq->owner = &cqs[1];
    cq_write_request(cq, qp, &f);
    cq_write_error(cq, qp, true, 5, 6, 7, 8);
    cq_write_receive(cq, qp, 3, 0x1234, 99, 0x01020304, false);
    cq_write_receive(cq, qp, 2, 0x1235, 98, 0x01020305, true);
    say("  solicited %u\n", cq->solicited);
    uint8_t before[64 << 2];
    memcpy(before, cq_buffers[1], sizeof before);
    cq_write_receive(cq, qp, 1, 1, 1, 1, false);
    assert_memory_equal(before, cq_buffers[1], sizeof before);
    assert_true(cq->dead);
    cq_records[1][0] = big(4);
    cq_write_receive(cq, qp, 1, 1, 1, 1, false);
    assert_memory_equal(before, cq_buffers[1], sizeof before);
    assert_int_equal(read(events.read_fd, &event, sizeof event), sizeof event);
    assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
    assert_ptr_equal(event.element.cq, &cqs[1]);
    assert_int_equal(read(events.read_fd, &event, sizeof event), -1);
    say_bytes(before, 256);
    say("\n");
    for (unsigned i = 0; i < 4; i++) {
        say("  ");
        for (unsigned k = 32; k < 64; k++)
            say("%02x", before[64 * i + k]);
        say("\n");
    }
    say_log();
    cq->dead = false;
    cq->ignore_overrun = true;
    cq_write_receive(cq, qp, 1, 1, 1, 1, false);
    cq->ignore_overrun = false;
    cq->producer = 0x1000002;
    cq->solicited = 0;
    cq_records[1][0] = big(0xffffff);
    cq_write_receive(cq, qp, 1, 1, 1, 1, false);
    assert_int_equal(cq->producer, 0x1000003);
    cq_write_receive(cq, qp, 1, 1, 1, 1, false);
    assert_int_equal(cq->producer, 0x1000003);
    assert_true(cq->dead);
    say_log();
    cq->owner = NULL;
    cq_async_event(cq, IBV_EVENT_CQ_ERR);
    cq->owner = &cqs[1];
    cq->events = NULL;
    cq_async_event(cq, IBV_EVENT_CQ_ERR);
    while (read(events.read_fd, &event, sizeof event) > 0)
        say("  event %d\n", event.event_type);
    /* Completion events. */
    cq->channel = &completions;
    cq->dead = false;
    cq->ignore_overrun = true;
    cq->producer = 10;
    cq->solicited = 9;
    static const struct {
        uint32_t word;
        bool sent;
    } words[] = {
        {1u << 28 | 9, true},
        {1u << 28 | 9, false},
        {2u << 28 | 10, false},
        {2u << 28 | 11, false},
        {2u << 28 | 1 << 24 | 9, false},
        {2u << 28 | 1 << 24 | 8, true},
        {3u << 28 | 0xffffff, true},
        {3u << 28 | 10, false},
    };
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
        cq_records[1][1] = big(words[i].word);
        assert_int_equal(cq_notify(cq), words[i].sent);
        if (words[i].sent)
            assert_int_equal(cq->last_armed, words[i].word);
        owner = NULL;
        assert_int_equal(read(completions.read_fd, &owner, sizeof owner),
                         words[i].sent ? (int)sizeof owner : -1);
        assert_ptr_equal(owner, words[i].sent ? &cqs[1] : NULL);
    }
    cq_write_receive(cq, qp, 1, 1, 1, 1, false);
    assert_int_equal(read(completions.read_fd, &owner, sizeof owner), sizeof owner);
    cq->channel = NULL;
    cq_records[1][1] = big(4u << 28);
    cq_write_receive(cq, qp, 1, 1, 1, 1, false);
    assert_int_equal(read(completions.read_fd, &owner, sizeof owner), -1);
    cq->solicited = 0;
    cq->producer = 20;
    cq_write_error(cq, qp, false, 5, 6, 7, 8);
    assert_int_equal(cq->solicited, 21); /* an error counts as solicited */
    /* An error of a shared receive queue contains its number; an entry in GPU memory is written in
     * two parts. */
    struct srq srq = {.number = 0x778899};
    qp->srq = &srq;
    far_is_held = true;
    cq->on_gpu = true;
    cq->buffer = memory + MEMORY_BYTES / 2;
    cq->producer = 0;
    cq_write_error(cq, qp, true, 5, 6, 7, 8);
    cq_write_error(cq, qp, false, 5, 6, 7, 8);
    assert_int_equal(far_puts, 4);
    assert_int_equal(far_settles, 4);
    say_memory();
    for (unsigned fail = 1; fail < 5; fail++) {
        far_puts = far_gets = far_settles = 0;
        far_fail_at = fail;
        cq_write_receive(cq, qp, 1, 0xfff0 + fail, 1, 1, false);
        say("  puts %u settles %u\n", far_puts, far_settles);
        say_memory();
        say_log();
    }
    far_fail_at = 0;
    far_puts = far_gets = far_settles = 0;
    qp->srq = NULL;
    channel_close(&events);
    channel_close(&completions);
    assert_int_equal(write(events.write_fd, "", 1), -1);
    assert_int_equal(read(completions.read_fd, &owner, 1), -1);
}

/* --- Keys --- */

static uint64_t random_bytes; /* result of getrandom(), lowest bytes first */
static bool random_fails;
ssize_t __wrap_getrandom(void *to, size_t bytes, unsigned flags);
ssize_t __wrap_getrandom(void *to, size_t bytes, unsigned flags)
{
    assert_int_equal(flags, 1);
    memcpy(to, &random_bytes, bytes);
    return random_fails ? -1 : (ssize_t)bytes;
}

static void keys(void)
{
    random_bytes = 0x12345678;
    assert_int_equal(mr_first(), 0x12345678 % (MAX_MRS - 1));
    random_fails = true;
    assert_int_equal(mr_first(), 0);
    memset(entries, 0, sizeof entries);
    device.objects.key_next = MAX_MRS - 3;
    random_fails = false;
    random_bytes = 5;
    uint32_t a = mr_add(&device, 3, 100, 200, 300, 7);
    assert_int_equal(a, (MAX_MRS - 2) << 8 | 5);
    const struct mr_entry *e = &entries[MAX_MRS - 2];
    assert_true(e->address == 100 && e->memory == 200 && e->bytes == 300 && e->valid);
    assert_int_equal(e->pd, 3);
    assert_int_equal(e->access, 7);
    random_bytes = 0;
    uint32_t b = mr_add(&device, 3, 1, 1, 1, 7);
    assert_int_equal(b, (MAX_MRS - 1) << 8 | 1);
    random_bytes = 7;
    random_fails = true;
    assert_int_equal(mr_add(&device, 3, 1, 1, 1, 7), 1 << 8 | 1);
    entries[2].valid = true;
    random_fails = false;
    entries[3].tag = 250;
    assert_int_equal(mr_add(&device, 3, 1, 1, 1, 7), 3 << 8 | 1);
    changes = 0;
    assert_int_equal(mr_remove(&device, a + 1), EINVAL);
    assert_int_equal(mr_remove(&device, 5 << 8), EINVAL);
    assert_int_equal(mr_remove(&device, 0xffffffff), EINVAL);
    assert_int_equal(mr_remove(&device, MAX_MRS << 8), EINVAL);
    assert_int_equal(changes, 0);
    link_in.delayed.count = 0;
    config.apart = 1;
    assert_true(adversary_delay_apart(&device, MR_REMOTE_WRITE, memory + 5, "z", 1));
    assert_int_equal(mr_remove(&device, a), 0);
    assert_int_equal(memory[5], 'z'); /* delayed writes are placed before the key is removed */
    assert_int_equal(changes, 1);
    assert_false(e->valid);
    assert_int_equal(e->tag, 5);
    assert_int_equal(mr_remove(&device, a), EINVAL);
    entries[2].access = 0xff;
    entries[2].pd = 9;
    entries[2].tag = 4;
    assert_false(mr_invalidate(&device, 2 << 8 | 4, 8));
    assert_false(mr_invalidate(&device, 2 << 8 | 5, 9));
    assert_false(mr_invalidate(&device, 0xffffff00, 9));
    assert_int_equal(entries[2].access, 0xff);
    assert_int_equal(changes, 1);
    assert_true(mr_invalidate(&device, 2 << 8 | 4, 9));
    assert_int_equal(entries[2].access, MR_LOCAL_WRITE);
    assert_int_equal(changes, 2);
    /* First only the last index is free, then none. */
    for (uint32_t i = 1; i < MAX_MRS; i++)
        entries[i].valid = i != 1;
    device.objects.key_next = 1;
    assert_int_equal(mr_add(&device, 3, 1, 1, 1, 7) >> 8, 1);
    assert_int_equal(mr_add(&device, 3, 1, 1, 1, 7), 0);
    for (int r = MR_FINE; r <= MR_OUT_OF_BOUNDS; r++)
        say("  %s\n", mr_refusal_text((enum mr_refusal)r));
    say_log();
    memset(entries, 0, sizeof entries);
}

/* --- Queues --- */

static void queue_numbers(void)
{
    device.objects.qp_next = MAX_QPS - 2;
    struct qp *a = qp_add(&device), *b = qp_add(&device), *c = qp_add(&device);
    assert_int_equal(a->qpn, LOCAL_LID << 12 | 4095);
    assert_int_equal(a->user_index, a->qpn);
    assert_int_equal(a->requester.mtu, 1024);
    assert_int_equal(b->qpn, LOCAL_LID << 12 | 1);
    assert_int_equal(c->qpn, LOCAL_LID << 12 | 2);
    assert_ptr_equal(qp_find(&device, a->qpn), a);
    assert_null(qp_find(&device, a->qpn + (1 << 12)));
    assert_null(qp_find(&device, LOCAL_LID << 12 | 3));
    qp_remove(b);
    assert_null(qp_find(&device, LOCAL_LID << 12 | 1));
    assert_int_equal(qp_add(&device)->qpn, LOCAL_LID << 12 | 3);
    for (unsigned i = 4; i < MAX_QPS - 1; i++)
        device.objects.qps[i] = a;
    device.objects.qp_next = 7;
    assert_int_equal(qp_add(&device)->qpn, LOCAL_LID << 12 | 1);
    assert_null(qp_add(&device));
    memset(device.objects.qps + 4, 0, sizeof device.objects.qps[0] * (MAX_QPS - 5));
    struct umem umems[2] = {{.users = 1}, {.users = 2}};
    a->memories[0] = &umems[0];
    a->memories[1] = &umems[1];
    a->send_cq = &cqs[0];
    a->receive_cq = &cqs[1];
    cqs[0].users = 3;
    cqs[1].users = 5;
    a->uar = &uars[0];
    uars[0].queues = 7;
    uars[0].sole_qp = a;
    c->uar = &uars[1];
    uars[1].queues = 1;
    uars[1].sole_qp = a;
    qp_list(a);
    qp_list(c);
    qp_list(a);
    assert_int_equal(device.pending.work_count, 2);
    qp_remove(a);
    assert_int_equal(umems[0].users, 0);
    assert_int_equal(umems[1].users, 1);
    assert_int_equal(cqs[0].users, 2);
    assert_int_equal(cqs[1].users, 4);
    assert_int_equal(uars[0].queues, 6);
    assert_null(uars[0].sole_qp);
    assert_int_equal(device.pending.work_count, 1);
    assert_ptr_equal(device.pending.work[0], c);
    qp_remove(c);
    assert_ptr_equal(uars[1].sole_qp, a);
    assert_int_equal(uars[1].queues, 0);
    assert_int_equal(device.pending.work_count, 0);
}

static void resets(void)
{
    struct qp *qp = responder(QP_RC);
    free(qp->send.outstanding);
    assert_true(qp_set_ring(qp, NULL, 0));
    assert_int_equal(qp->send.outstanding_mask, 0);
    free(qp->send.outstanding);
    assert_true(qp_set_ring(qp, queue_rings[0], BLOCKS));
    assert_int_equal(qp->send.outstanding_mask, BLOCKS - 1);
    for (unsigned round = 0; round < 2; round++) {
        qp->send.producer = 5;
        qp->send.taken = 4;
        qp->send.released = 2;
        qp->send.outstanding_head = 3;
        qp->send.outstanding_tail = round ? 3 : 4;
        qp->send.outstanding[3].index = 2;
        qp->send.reads = 2;
        qp->current.loaded = qp->current.outstanding = true;
        qp->current.resume_packets = 2;
        qp->current.offset = 3;
        qp->send.fault = (struct fault){1, 2};
        qp->requester.late_nak = 3;
        qp->requester.wait_until = qp->requester.loss_noticed_at = device.now;
        qp->requester.counted_end = 4;
        qp->requester.response_lost = true;
        qp->requester.retransmissions = 2;
        qp->receive.taken = 1;
        entry(2, 0, MEMORY, 1, LKEY);
        qp->state = QP_RTS;
        changes = 0;
        qp_to_error(qp);
        look("to error: what was posted to receive comes back");
        qp_to_error(qp);
        look("once");
        qp_reset(qp);
        say("  offset %u counted %u taken %u link %d\n", qp->current.offset,
            qp->requester.counted_end, qp->receive.taken, qp->requester.link != NULL);
        look("reset");
        qp_to_error(qp);
        look("not from there");
        qp->send.listed = false;
        device.pending.work_count = 0;
    }
    /* A failure ends the request with this index, whatever its length. */
    for (unsigned i = 0; i < 3; i++) {
        qp->state = QP_RTS;
        qp->send.producer = 7;
        queue_rings[0][3 * 64 + 7] = i == 0 ? 0 : i == 1 ? 9 : 40;
        qp_fail(qp, 3, 0x0a, 0x15, 0x88);
        look("a request fails");
    }
}

static void words_of_memory(void)
{
    static uint8_t at[64] __attribute__((aligned(64)));
    for (unsigned bytes = 0; bytes < 20; bytes++)
        for (unsigned offset = 0; offset < 9; offset++) {
            memset(at, 0x5a, sizeof at);
            assert_true(memory_put(&device, at + offset, data + 3, bytes));
            assert_memory_equal(at + offset, data + 3, bytes);
            assert_int_equal(at[offset + bytes], 0x5a);
            if (offset)
                assert_int_equal(at[offset - 1], 0x5a);
            uint8_t back[32];
            memset(back, 0x77, sizeof back);
            assert_true(memory_get(&device, back, at + offset, bytes));
            assert_memory_equal(back, data + 3, bytes);
            assert_int_equal(back[bytes], 0x77);
        }
    say("  ");
    for (unsigned i = 0; i < 4; i++)
        say("%08x ", random_next(&device));
    bench_clock = 7123456789;
    say("%llu\n", (unsigned long long)clock_ns());
    char text_of[ADDRESS_TEXT];
    say("  %s", address_text(4095, text_of));
    say(" %s", address_text(ADDRESS_IPV4_LEAST, text_of));
    say(" %s\n", address_text(0xc0a8fe01, text_of));
}

static void logged(void)
{
    device.number = 3;
    for (unsigned log = LOG_NONE; log <= LOG_ALL; log++) {
        config.log = log;
        take_stderr();
        log_error(&device, "%s %u", "sentence", log);
        say_stderr();
    }
    config.log = LOG_NONE;
    for (unsigned i = 3; i < LOG_LINES + 1; i++)
        log_error(&device, "line %u", i);
    say("  %s, %s, %llu of %llu\n", device.record.lines[0].text, device.record.lines[1].text,
        (unsigned long long)device.record.lines[0].number,
        (unsigned long long)device.record.line_count);
    assert_int_equal(device.record.errors, LOG_LINES + 1);
}

/* Each operation places delayed writes first; otherwise it would see old data. */
static void held_writes_are_placed(void)
{
    uint64_t operands[4] = {1};
    struct qp *qp = responder(QP_RC);
    config.mode = MODE_ADVERSARIAL;
    config.apart = 1;
    for (unsigned i = 0; i < 8; i++) {
        uint8_t byte = (uint8_t)(0xf0 + i);
        struct responder other = {.qpn = 1};
        const struct responder *owner = i % 2 ? &qp->responder : &other;
        config.mode = MODE_ADVERSARIAL;
        while (!adversary_delay(&device, &link_in.delayed, owner, memory + 0x100 + i, &byte, 1))
            ;
        assert_true(adversary_delay_apart(&device, MR_REMOTE_WRITE, memory + 0x200 + i, &byte, 1));
        config.mode = MODE_STRICT;
        struct packet p = {.kind = PACKET_READ, .mtu = 256, .rkey = RKEY, .address = MEMORY};
        p.address += 0x100 + i;
        p.length = 1;
        if (i / 2 == 1)
            p = write_of(1, ONLY, 1, 0x300);
        if (i / 2 == 2) {
            p = (struct packet){.kind = PACKET_ATOMIC, .bytes = 32, .immediate = 8, .rkey = RKEY};
            p.address = MEMORY + 0x400;
        }
        if (i / 2 < 3) {
            arrives(qp, p, i / 2 == 2 ? (const void *)operands : data);
            respond("a read, a write, an atomic");
        } else if (i == 6) {
            respond_flush(&device);
            look("all are placed");
        } else {
            respond_drop_acks(&device, qp);
            look("the queue goes");
        }
        say("  held %u %u\n", link_in.delayed.count, device.pending.apart.count);
        config.mode = MODE_STRICT;
        adversary_flush(&device, &link_in.delayed, NULL);
        say_memory();
    }
}

/* What the opening of a DC connection resets, shown by a packet that has no other effect. */
static void reopened_connections(void)
{
    struct qp *qp = responder(QP_DCT);
    uint8_t key[8] = {8, 7, 6, 5, 4, 3, 2, 1};
    qp->dc_key = 0x0102030405060708;
    struct packet p = {.kind = PACKET_ACK, .bytes = 8, .from_qpn = 0x7001, .psn = 40};
    p.flags = PACKET_DC | PACKET_OPENS;
    next_psn = 0;
    arrives(qp, p, key);
    respond("opened");
    struct responder *s = qp->responder.next;
    assert_non_null(s);
    s->nak_sent = s->receiving = true;
    s->message = PACKET_WRITE;
    s->replays[0] = (struct replay){50, 8, 9};
    s->replays[MAX_READS - 1] = (struct replay){51, 8, 9};
    p.psn = 50;
    next_psn = 0;
    arrives(qp, p, key);
    respond("opened anew");
    for (unsigned i = 0; i < MAX_READS; i++)
        assert_int_equal(s->replays[i].bytes, 0);
    assert_int_equal(s->ack_psn, 49);
    assert_int_equal(s->expected_psn, 50);
    assert_false(s->nak_sent || s->receiving || s->message);
}

/* A repeated read in the middle of a message; acknowledgements without a packet; an atomic that
 * compares with the memory. */
static void odds(void)
{
    struct qp *qp = responder(QP_RC);
    struct packet p = {
        .kind = PACKET_READ, .mtu = 256, .length = 3, .rkey = RKEY, .address = MEMORY + 9};
    arrives(qp, p, NULL);
    respond("a read");
    arrives(qp, write_of(256, PACKET_FIRST, 600, 0), data);
    respond("the first of a message");
    next_psn = 0xfffffe;
    arrives(qp, p, NULL);
    respond("the read again");
    link_in.pending[0] = qp;
    link_in.pending_responders[0] = &qp->responder;
    link_in.pending_count = 1;
    qp->responder.ack_pending = true;
    respond("what is still to be acknowledged");
    respond("nothing");
    link_in.self = true;
    next_psn = qp->responder.expected_psn;
    arrives(qp, write_of(256, 0, 600, 0), data);
    respond("of this process itself");
    qp->responder.message = PACKET_PAD;
    uint64_t operands[4] = {0x55, ~0ull, 0, ~0ull};
    memcpy(&operands[2], memory + 0x1000, 8);
    p = (struct packet){.kind = PACKET_ATOMIC,
                        .bytes = 32,
                        .immediate = 8 | 1 << 8,
                        .rkey = RKEY,
                        .address = MEMORY + 0x1000};
    arrives(qp, p, operands);
    respond("an atomic that fits");
    /* Data longer than an entry that uses all its segments: the next entry is not touched. */
    for (unsigned k = 0; k < 8; k++)
        entry(k / 4, k % 4, MEMORY + 0x2000 + 16 * k, 5, LKEY);
    assert_int_equal(receive_scatter(qp, 0, 0, data, 20), SYNDROME_NONE);
    assert_int_equal(receive_scatter(qp, 0, 0, data, 21), SYNDROME_LOCAL_LENGTH);
    assert_int_equal(receive_scatter(qp, 0, 19, data, 1), SYNDROME_NONE);
    assert_int_equal(receive_scatter(qp, 0, 20, data, 1), SYNDROME_LOCAL_LENGTH);
    assert_int_equal(receive_scatter(qp, 0, 20, data, 0), SYNDROME_NONE);
    say_memory();
    /* Nothing is flushed without a ring, for a shared queue, or without a completion queue. */
    uint16_t index;
    entry(3, 0, MEMORY, 1, LKEY);
    struct srq srq = {.queue = qp->receive};
    qp->receive.ring = NULL;
    assert_false(receive_consume(qp, &index));
    qp->srq = &srq;
    receive_flush(qp);
    assert_int_equal(srq.queue.taken, 0);
    qp->srq = NULL;
    qp->receive = srq.queue;
    qp->receive_cq = NULL;
    receive_flush(qp);
    assert_int_equal(qp->receive.taken, 0);
    qp->receive_cq = &cqs[1];
    qp->state = QP_RTS;
    qp->send.producer = 5;
    qp->send.taken = 4;
    qp->send.released = 2;
    qp->send.outstanding_head = 3;
    qp->send.outstanding_tail = 5;
    qp->send.reads = 2;
    qp->current.loaded = qp->current.outstanding = true;
    qp->current.resume_packets = 2;
    qp->send.fault = (struct fault){1, 2};
    qp->requester.late_nak = 3;
    qp->requester.psn = qp->requester.acked = qp->requester.psn_limit = 77;
    qp_reset(qp);
    look("reset from where all is under way");
}

static unsigned yields;
int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
    yields++;
    return 0;
}

/* Weak atomics are delayed when the adversary wants it; GPU memory returns as many bytes as
 * requested. */
static void weak_atomics(void)
{
    for (unsigned i = 0; i < 16; i++) {
        struct wqe_atomic a = {.bytes = i & 1 ? 4 : 8, .operand = 3, .compare_mask = ~0ull};
        uint64_t old = ~0ull;
        config.mode = i & 2 ? MODE_ADVERSARIAL : MODE_STRICT;
        config.atomics = i >> 2 & 1 ? ATOMICS_WEAK : ATOMICS_GLOBAL;
        far_is_held = i >> 3;
        bool fine = memory_atomic(&device, memory + MEMORY_BYTES / 2 + 64 + 8 * i, &a, &old);
        say("  %d %llx random %llx yields %u\n", fine, (unsigned long long)old,
            (unsigned long long)device.random, yields);
        say_memory();
    }
    far_puts = far_gets = far_settles = 0;
}

/* Rings that are full to the last byte, and invalid packets. */
static void edges_of_rings(void)
{
    enum { SIZE = 4096 };
    struct ring near, far;
    bool broken = false;
    const uint32_t head = sizeof(struct packet);
    ring_make(&near, &far, in_rings.requests, SIZE);
    struct packet *p = ring_reserve(&near, SIZE - 2 * head - 8);
    assert_non_null(p);
    *p = (struct packet){.kind = PACKET_SEND, .bytes = SIZE - 2 * head - 8};
    ring_commit(&near, p);
    assert_null(ring_reserve(&near, 16));
    assert_null(ring_reserve(&near, 9)); /* rounded up to 16 */
    p = ring_reserve(&near, 8);          /* all the space left, without a pad */
    assert_ptr_equal(p, near.shared->data + SIZE - head - 8);
    *p = (struct packet){.kind = PACKET_SEND, .bytes = 8};
    ring_commit(&near, p);
    assert_int_equal(near.own, SIZE);
    assert_null(ring_reserve(&near, 0));
    assert_null(ring_peek(&far, &broken));
    ring_publish(&near);
    const struct packet *q = ring_peek(&far, &broken);
    assert_int_equal(q->bytes, SIZE - 2 * head - 8);
    ring_consume(&far, q);
    q = ring_peek(&far, &broken);
    assert_int_equal(q->bytes, 8);
    assert_false(broken);
    ring_consume(&far, q);
    assert_null(ring_peek(&far, &broken));
    assert_null(ring_reserve(&near, 0)); /* not released yet */
    ring_release(&far);
    assert_non_null(ring_reserve(&near, 0));
    /* A pad fills the rest where a packet does not fit. */
    p = ring_reserve(&near, 100);
    *p = (struct packet){.kind = PACKET_SEND, .bytes = 100};
    ring_commit(&near, p);
    ring_publish(&near);
    ring_consume(&far, ring_peek(&far, &broken));
    ring_release(&far);
    near.own = far.own = near.other = far.other = SIZE - 16;
    near.shared->tail = near.shared->head = SIZE - 16;
    p = ring_reserve(&near, 24);
    assert_ptr_equal(p, near.shared->data);
    assert_int_equal(near.own, SIZE);
    struct packet *pad = (struct packet *)(near.shared->data + SIZE - 16);
    assert_int_equal(pad->kind, PACKET_PAD);
    assert_int_equal(pad->bytes, 16);
    *p = (struct packet){.kind = PACKET_SEND, .bytes = 24};
    ring_commit(&near, p);
    ring_publish(&near);
    assert_ptr_equal(ring_peek(&far, &broken), p);
    assert_false(broken);
    /* Packets at the limits: near the end, too long, beyond the end, longer than the data. */
    static const struct {
        uint64_t own;
        uint32_t bytes;
        uint64_t behind;
        bool broken;
    } cases[] = {
        {SIZE - 40, 0, 40, true},  {SIZE - 48, 0, 48, false}, {SIZE - 48, 1, 56, true},
        {SIZE - 56, 8, 56, false}, {SIZE - 56, 9, 64, true},  {0, 4000, SIZE, false},
        {0, 4104, SIZE, true},     {0, 24, SIZE, false},      {0, 24, SIZE + 8, true},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        ring_make(&near, &far, in_rings.requests, SIZE);
        p = (struct packet *)(near.shared->data + cases[i].own);
        p->kind = PACKET_SEND;
        p->bytes = cases[i].bytes;
        far.own = far.other = cases[i].own;
        far.shared->tail = cases[i].own + cases[i].behind;
        broken = false;
        q = ring_peek(&far, &broken);
        if (broken != cases[i].broken || !q != cases[i].broken)
            fail_msg("case %u", i);
    }
    /* The largest payload is accepted where the ring has space for it, a larger one is not. */
    for (uint32_t bytes = PACKET_MAX_PAYLOAD; bytes < PACKET_MAX_PAYLOAD + 2; bytes++) {
        ring_make(&near, &far, in_rings.requests, RING_DATA);
        p = (struct packet *)near.shared->data;
        p->kind = PACKET_SEND;
        p->bytes = bytes;
        far.shared->tail = 8192;
        broken = false;
        ring_peek(&far, &broken);
        assert_int_equal(broken, bytes > PACKET_MAX_PAYLOAD);
    }
}

#define TEST(name)                                                                                 \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        bench_begin();                                                                             \
        say("# " #name "\n");                                                                      \
        name();                                                                                    \
        bench_end();                                                                               \
    }
TEST(writes)
TEST(refused_writes)
TEST(messages)
TEST(refused_messages)
TEST(shared_receives)
TEST(reads)
TEST(long_reads)
TEST(atomics)
TEST(more_atomics_than_are_remembered)
TEST(order)
TEST(many_at_once)
TEST(bursts)
TEST(far_memory)
TEST(targets_of_dc)
TEST(connections_of_dc)
TEST(acknowledgements_are_forgotten)
TEST(broken_rings)
TEST(adversarial)
TEST(completion_queues)
TEST(keys)
TEST(queue_numbers)
TEST(resets)
TEST(words_of_memory)
TEST(logged)
TEST(held_writes_are_placed)
TEST(reopened_connections)
TEST(odds)
TEST(weak_atomics)
TEST(edges_of_rings)

static void all_is_as_written(void **state)
{
    (void)state;
    golden_is(GOLDEN, text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writes),
        cmocka_unit_test(test_refused_writes),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_refused_messages),
        cmocka_unit_test(test_shared_receives),
        cmocka_unit_test(test_reads),
        cmocka_unit_test(test_long_reads),
        cmocka_unit_test(test_atomics),
        cmocka_unit_test(test_more_atomics_than_are_remembered),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_bursts),
        cmocka_unit_test(test_far_memory),
        cmocka_unit_test(test_targets_of_dc),
        cmocka_unit_test(test_connections_of_dc),
        cmocka_unit_test(test_acknowledgements_are_forgotten),
        cmocka_unit_test(test_broken_rings),
        cmocka_unit_test(test_adversarial),
        cmocka_unit_test(test_completion_queues),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_queue_numbers),
        cmocka_unit_test(test_resets),
        cmocka_unit_test(test_words_of_memory),
        cmocka_unit_test(test_logged),
        cmocka_unit_test(test_held_writes_are_placed),
        cmocka_unit_test(test_reopened_connections),
        cmocka_unit_test(test_odds),
        cmocka_unit_test(test_weak_atomics),
        cmocka_unit_test(test_edges_of_rings),
        cmocka_unit_test(all_is_as_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
