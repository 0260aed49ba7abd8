/* SPDX-License-Identifier: Apache-2.0 */
/* The requester of the software HCA, function by function: the effect of doorbells, the packets of
 * each request, the effect of answers on outstanding requests, and what is retransmitted and when.
 * The log is compared with golden/hca_requester.txt. */
#include "bench.h"

static void doorbells(void)
{
    struct qp *a = queue_make(QP_RC), *b = queue_make(QP_RC), *c = queue_make(QP_RC);
    b->uar = &uars[1];
    c->uar = NULL;
    uars[0].queues = uars[1].queues = 1;
    send_doorbell(&uars[0], doorbell_of(0x999123, 1));
    send_doorbell(&uars[0], doorbell_of((LOCAL_LID << 12) + 77, 1));
    send_doorbell(&uars[0], doorbell_of(b->qpn, 1));
    send_doorbell(&uars[1], doorbell_of(c->qpn, 2));
    uint8_t *ring = a->send.ring;
    a->send.ring = NULL;
    send_doorbell(&uars[0], doorbell_of(a->qpn, 1));
    a->send.ring = ring;
    look("doorbells that are for nobody");
    for (unsigned state = QP_RESET; state <= QP_ERROR; state++) {
        a->state = state;
        a->send.producer = 0;
        a->send.listed = false;
        device.pending.work_count = 0;
        queue_records[0][1] = big(1);
        send_doorbell(&uars[0], doorbell_of(a->qpn, 1));
        look("a doorbell in each state");
    }
    a->state = QP_RTS;
    a->send.listed = false;
    device.pending.work_count = 0;
    queue_records[0][1] = big(1);
    send_doorbell(&uars[0], doorbell_of(a->qpn, 1));
    look("a doorbell that says nothing new");
    queue_records[0][1] = big(6);
    send_doorbell(&uars[0], doorbell_of(a->qpn, 4));
    look("a record that is ahead");
    send_doorbell(&uars[0], doorbell_of(a->qpn, 5));
    look("a doorbell that is late");
    queue_records[0][1] = big(8);
    send_doorbell(&uars[0], doorbell_of(a->qpn, 8));
    look("all blocks");
    queue_records[0][1] = big(9);
    send_doorbell(&uars[0], doorbell_of(a->qpn, 9));
    look("one more than all");
    queue_records[0][1] = big(10);
    queue_records[0][0] = big(0x2222);
    a->send.released = 4;
    a->send.fault.vendor = 0x55;
    send_doorbell(&uars[0], doorbell_of(a->qpn, 11));
    look("a record that is behind, after another fault");
    b->send.fault = (struct fault){0};
    queue_records[1][1] = big(2);
    queue_records[1][0] = big(0x1234);
    send_doorbell(&uars[1], doorbell_of(b->qpn, 3));
    look("a record that is behind");
    b->send.fault = (struct fault){0};
    config.mode = MODE_LENIENT;
    send_doorbell(&uars[1], doorbell_of(b->qpn, 3));
    look("a record that is behind, where that is let pass");
    say("  doorbells %llu\n", (unsigned long long)device.record.doorbells);
}

static void shared_registers(void)
{
    struct qp *q[4];
    for (unsigned i = 0; i < 4; i++)
        q[i] = queue_make(QP_RC);
    q[3]->uar = &uars[1];
    q[0]->uar->queues = 3;
    for (unsigned i = 0; i < 4; i++)
        queue_records[i][1] = big(i + 1);
    send_doorbell(&uars[0], doorbell_of(q[1]->qpn, 1));
    look("the records of the others tell");
    q[1]->send.producer = 0;
    q[2]->state = QP_SQD;
    queue_records[0][1] = big(2);
    queue_records[2][1] = big(7);
    q[0]->state = QP_RTR;
    q[0]->uar->queues = 2;
    send_doorbell(&uars[0], doorbell_of(q[1]->qpn, 1));
    look("but not in other states");
    q[0]->state = QP_RTS;
    q[0]->uar->queues = 1;
    send_doorbell(&uars[0], doorbell_of(q[1]->qpn, 1));
    look("nor where one queue has the register");
    q[0]->uar->queues = 2;
    q[2]->state = QP_RTS;
    uint8_t *ring = q[2]->send.ring;
    q[2]->send.ring = NULL;
    queue_records[0][1] = big(1);
    send_doorbell(&uars[0], doorbell_of(0x123456, 1));
    look("nor a queue without a ring, or with a record that is old");
    q[2]->send.ring = ring;
}

static void far_rings(void)
{
    struct qp *qp = queue_make(QP_RC);
    /* The ring is in the second half of the memory, the doorbell record behind it. */
    far_is_held = true;
    uint8_t *far = memory + MEMORY_BYTES / 2;
    free(qp->send.outstanding);
    assert_true(qp_set_gpu_ring(qp, far, BLOCKS));
    qp->record = (uint32_t *)(far + 4096);
    qp->record[0] = big(0x77);
    post_inline(qp, 30, COMPLETES);
    post_inline(qp, 40, COMPLETES);
    memcpy(far, queue_rings[0], BLOCKS * 64);
    say_memory();
    qp->record[1] = big(queue_next[0]);
    send_doorbell(&uars[0], doorbell_of(qp->qpn, queue_next[0]));
    run(qp, "requests in memory of a GPU");
    acked(qp, qp->requester.psn - 1, "are complete");
    while (queue_next[0] < 10)
        post_inline(qp, queue_next[0] + 1u, COMPLETES);
    memcpy(far, queue_rings[0], BLOCKS * 64);
    memcpy(memory_before, memory, sizeof memory);
    qp->record[1] = big(queue_next[0]);
    send_doorbell(&uars[0], doorbell_of(qp->qpn, queue_next[0]));
    run(qp, "over the end of the ring");
    for (unsigned i = 1; i < 4; i++) {
        far_puts = far_gets = far_settles = 0;
        far_fail_at = i;
        qp->send.producer = (uint16_t)(queue_next[0] - 3);
        send_doorbell(&uars[0], doorbell_of(qp->qpn, queue_next[0]));
        look("that cannot be read");
    }
    far_fail_at = 0;
    far_puts = far_gets = far_settles = 0;
    queue_records[0][1] = big(1);
}

/* Requests of each kind, and their packets. */
static void kinds(void)
{
    static const unsigned sends[] = {WQE_SEND, WQE_SEND_IMM, WQE_SEND_INVALIDATE};
    struct qp *qp = queue_make(QP_RC);
    for (unsigned i = 0; i < 3; i++) {
        post_send(qp, sends[i], 700 + i, (i == 2 ? 3 << 2 : COMPLETES) | (i == 1 ? 2 : 0));
        go(qp, "a message of three packets");
        acked(qp, qp->requester.psn - 1, "is acknowledged");
        post_send(qp, sends[i], 256, COMPLETES | 2);
        go(qp, "a message of one packet");
        acked(qp, qp->requester.psn - 1, "is acknowledged");
    }
    post_send(qp, WQE_SEND, 512, QUIET);
    request_begin(qp, WQE_SEND, 0, QUIET);
    request_end(qp);
    go(qp, "two packets, and one without data");
    acked(qp, qp->requester.psn - 1, "complete in silence");
    post_write(qp, 1025, COMPLETES);
    go(qp, "a write of five packets");
    acked(qp, qp->requester.acked + 2, "of which three have come");
    acked(qp, qp->requester.acked + 1, "and the others");
    request_begin(qp, WQE_WRITE_IMM, 0, COMPLETES | 2);
    put_remote(0x8800000000, 0x7701);
    put_segment(MEMORY + 5, 3, LKEY);
    put_segment(MEMORY + 1000, 300, RKEY);
    put_inline(9);
    put_segment(MEMORY + 2000, 17, LKEY);
    request_end(qp);
    go(qp, "a write with immediate data of four segments");
    acked(qp, qp->requester.psn - 1, "is acknowledged");
    post_read(qp, 600, COMPLETES);
    go(qp, "a read");
    post_fetch_add(qp, 0x1234, COMPLETES);
    go(qp, "a fetch-add");
    post_masked(qp, COMPLETES);
    go(qp, "a compare-and-swap with masks waits: two reads are under way");
}

static void answers_of_reads(void)
{
    uint8_t data[512];
    uint64_t value = 0x1122334455667788;
    struct qp *qp = queue_make(QP_RC);
    for (unsigned i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 5 + 3);
    post_read(qp, 600, COMPLETES);
    post_fetch_add(qp, 0x1234, COMPLETES);
    post_masked(qp, COMPLETES);
    go(qp, "a read of three packets, a fetch-add");
    struct packet p = {.kind = PACKET_READ_DATA, .bytes = 256, .psn = 0xfffffd};
    put_answer(qp, p, data);
    take_answers("the first data");
    p.psn = 0xfffffe;
    put_answer(qp, p, data + 100);
    take_answers("the second");
    put_answer(qp, p, data + 200);
    take_answers("the second again");
    p.psn = 0xffffff;
    p.bytes = 88;
    put_answer(qp, p, data + 200);
    take_answers("the last");
    run(qp, "the next request may go");
    p = (struct packet){.kind = PACKET_ATOMIC_VALUE, .bytes = 8, .psn = 0};
    put_answer(qp, p, &value);
    take_answers("what the fetch-add found");
    p = (struct packet){.kind = PACKET_ATOMIC_VALUE, .bytes = 4, .psn = 1};
    put_answer(qp, p, &value);
    take_answers("what the other atomic found");
}

static void bad_answers_of_reads(void)
{
    static const struct {
        struct packet packet;
        const char *what;
    } cases[] = {
        {{.kind = PACKET_READ_DATA, .bytes = 255, .psn = 0xfffffd}, "too few bytes"},
        {{.kind = PACKET_READ_DATA, .bytes = 45, .psn = 0xfffffe}, "too many at the end"},
        {{.kind = PACKET_ATOMIC_VALUE, .bytes = 256, .psn = 0xfffffd}, "an atomic's"},
        {{.kind = PACKET_ATOMIC_VALUE, .bytes = 4, .psn = 0xffffff}, "4 bytes instead of 8"},
        {{.kind = PACKET_READ_DATA, .bytes = 8, .psn = 0xffffff}, "a read's"},
        {{.kind = PACKET_READ_DATA, .bytes = 8, .psn = 0}, "data of a write"},
        {{.kind = PACKET_READ_DATA, .bytes = 8, .psn = 1}, "data of what was never sent"},
        {{.kind = PACKET_WRITE, .bytes = 8, .psn = 0xfffffd}, "no answer at all"},
        {{.kind = PACKET_ACK, .psn = 0xfffffc}, "an old acknowledgement"},
        {{.kind = PACKET_ACK, .from_qpn = 99, .psn = 0xfffffd}, "of another queue"},
        {{.kind = PACKET_ACK, .to_qpn = 99, .psn = 0xfffffd}, "to another queue"},
    };
    uint8_t data[256] = {1, 2, 3};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        bench_end();
        bench_begin();
        struct qp *qp = queue_make(QP_RC);
        post_read(qp, 300, COMPLETES);
        post_fetch_add(qp, 9, COMPLETES);
        post_write(qp, 100, COMPLETES);
        ring_doorbell(qp);
        send_run(qp);
        if (!i)
            look("a read of two packets, a fetch-add, a write");
        if (cases[i].packet.psn - 0xfffffe < 2) /* the earlier packets were acknowledged */
            qp->send.outstanding[0].first_psn = qp->send.outstanding[0].last_psn =
                qp->requester.acked = 0xfffffe;
        if (cases[i].packet.psn == 0xffffff) {
            qp->send.outstanding_head++;
            qp->requester.acked = 0xffffff;
            qp->send.reads--;
        }
        say("%s:\n", cases[i].what);
        say_ring(&out_rings[0].far_requests);
        put_answer(qp, cases[i].packet, data);
        take_answers(cases[i].what);
    }
    struct qp *qp = device.objects.qps[1];
    for (unsigned state = QP_INIT; state <= QP_ERROR; state++)
        if (state != QP_RTS) {
            qp->state = state;
            acked(qp, 0xfffffd, "answers in other states");
        }
    qp->state = QP_RTS;
    qp->requester.link = &links_out[1];
    acked(qp, 0xfffffd, "an answer from another link");
    qp->requester.link = &links_out[0];
}

/* Where the data of a read is placed. */
static void scattered_reads(void)
{
    static const struct {
        uint64_t second;
        uint32_t key;
        const char *what;
    } cases[] = {
        {MEMORY + 5000, LKEY, "three segments"},
        {MEMORY + 5000, OTHER_DOMAIN_KEY, "the second with another domain's key"},
        {MEMORY + 0xfff0, LKEY, "the second outside of its memory"},
        {MEMORY + 5000, 0x9900, "the second without a key"},
        {FAR_MEMORY + 64, FAR_KEY, "the second in memory of a GPU"},
        {FAR_MEMORY + 64, FAR_KEY, "which the driver refuses"},
    };
    uint8_t data[256];
    for (unsigned i = 0; i < 256; i++)
        data[i] = (uint8_t)(255 - i);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        bench_end();
        bench_begin();
        far_is_held = i >= 4;
        struct qp *qp = queue_make(QP_RC);
        request_begin(qp, WQE_READ, 0, COMPLETES);
        put_remote(0x5500000000, 0x5503);
        put_segment(MEMORY + 100, 200, LKEY);
        put_segment(cases[i].second, 90, cases[i].key);
        put_segment(MEMORY + 3001, 110, LKEY);
        request_end(qp);
        ring_doorbell(qp);
        send_run(qp);
        far_puts = far_gets = far_settles = 0;
        far_fail_at = i == 5 ? 2 : 0;
        put_answer(qp, (struct packet){.kind = PACKET_READ_DATA, .bytes = 256, .psn = 0xfffffd},
                   data);
        put_answer(qp, (struct packet){.kind = PACKET_READ_DATA, .bytes = 144, .psn = 0xfffffe},
                   data + 7);
        take_answers(cases[i].what);
    }
}

/* Invalid requests, and the requests before and after them. */
static void refusals(void)
{
    enum { CASES = 17 };
    for (unsigned i = 0; i < CASES; i++) {
        bench_end();
        bench_begin();
        struct qp *qp = queue_make(QP_RC);
        post_write(qp, 100, QUIET);
        if (i == 3)
            config.mode = MODE_LENIENT;
        if (i < 4) {
            request_begin(qp, WQE_WRITE, 0, QUIET);
            put_remote(0x7700000000, 0x5501);
            put_segment(MEMORY, 10, LKEY);
            request_words[i & 1] += big(i < 2 || i == 3 ? 1 << 8 : 0);
            uint16_t at = request_end(qp);
            if (i == 2)
                /* 5 units; the bits above the sixth are ignored */
                queue_rings[0][at * 64 + 7] = 0x85;
        }
        if (i == 4)
            request_begin(qp, 0x77, 0, QUIET);
        if (i == 5) {
            request_begin(qp, WQE_WRITE, 0, QUIET);
            put_remote(1, 2);
            put_segment(MEMORY, 1u << 31, LKEY);
            put_segment(MEMORY, 1, LKEY);
        }
        if (i == 6) {
            config.fail_at = 2;
            config.fail_devices = 255;
            request_begin(qp, WQE_NOP, 0, QUIET);
        }
        if (i == 7 || i == 8) {
            qp->requester.max_reads = 0;
            i == 7 ? post_read(qp, 300, QUIET) : post_fetch_add(qp, 1, QUIET);
        }
        if (i >= 9 && i <= 11) {
            request_begin(qp, i == 9 ? WQE_DUMP : i == 10 ? WQE_SEND : WQE_WRITE, 0, QUIET);
            if (i == 11)
                put_remote(0x7700000000, 0x5501);
            put_segment(MEMORY + 7, 300, LKEY);
            put_segment(MEMORY + 0x10000 - 300, 301, LKEY);
        }
        if (i >= 12 && i <= 13) {
            far_is_held = true;
            far_fail_at = i - 11u;
            request_begin(qp, WQE_SEND, 0, QUIET);
            put_segment(FAR_MEMORY + 7, 300, FAR_KEY);
        }
        if (i == 14) {
            config.fail_at = 1;
            config.fail_devices = 255;
        }
        if (i == 15) {
            links_out[0].roce = (void *)&wire_window;
            wire_window = 16;
            wire_other = ROCE_PEER_OTHER;
            post_masked(qp, QUIET);
            request_begin(qp, WQE_MASKED_FETCH_ADD, 9, QUIET);
            put_remote(0x4400000000, 0x5505);
            put_long(1);
            put_long(2);
            put_segment(MEMORY, 8, LKEY);
        }
        if (i == 16) {
            config.atomics = ATOMICS_NONE;
            post_fetch_add(qp, 1, QUIET);
        }
        if (i >= 4 && i != 7 && i != 8 && i != 16)
            request_end(qp);
        post_send(qp, WQE_SEND, 10, COMPLETES);
        char what[32];
        snprintf(what, sizeof what, "refusal %u", i);
        go(qp, what);
        run(qp, "waits for those before");
        acked(qp, 0xfffffd, "they are complete");
        run(qp, "and fails");
        run(qp, "flushes");
        run(qp, "nothing is left");
    }
}

static void incomplete(void)
{
    struct qp *qp = queue_make(QP_RC);
    post_inline(qp, 60, COMPLETES); /* two blocks */
    queue_next[0] = 1;
    go(qp, "a request of which the second block is not there");
    run(qp, "is flushed");
    bench_end();
    bench_begin();
    qp = queue_make(QP_RC);
    qp->send.producer = qp->send.taken = qp->send.released = qp->requester.counted_end =
        queue_next[0] = 6;
    post_nop(qp, COMPLETES);
    post_inline(qp, 150, COMPLETES);
    go(qp, "over the end of the ring");
    acked(qp, qp->requester.psn - 1, "complete");
    qp->send.producer = qp->send.taken = qp->send.released = queue_next[0] = 5;
    post_inline(qp, 150, COMPLETES);
    go(qp, "up to the end of the ring");
}

/* Which requests a fence delays. */
static void fences(void)
{
    for (unsigned fence = 0; fence < 8; fence++) {
        bench_end();
        bench_begin();
        struct qp *qp = queue_make(QP_RC);
        fence % 2 ? post_read(qp, 300, QUIET) : post_write(qp, 10, QUIET);
        post_send(qp, WQE_SEND, 20, COMPLETES | fence << 5);
        go(qp, "a fence");
        bench_end();
        bench_begin();
        qp = queue_make(QP_RC);
        fence % 2 ? post_write(qp, 10, QUIET) : post_fetch_add(qp, 10, QUIET);
        post_nop(qp, COMPLETES | fence << 5);
        go(qp, "the same");
    }
}

/* A link without space, and queues at their limits. */
static void bounds(void)
{
    struct qp *qp = queue_make(QP_RC);
    config.mode = MODE_STRICT;
    qp->requester.mtu = 4096;
    post_write(qp, 0xf000, COMPLETES);
    post_write(qp, 0x4001, COMPLETES);
    ring_doorbell(qp);
    assert_true(send_run(qp));
    say("  sent %llu offset %u\n", (unsigned long long)links_out[0].requests.own,
        qp->current.offset);
    run(qp, "the ring is full");
    run(qp, "still");
    run(qp, "has room");
    acked(qp, qp->requester.psn - 1, "is complete");
    links_out[0].requests.size = links_out[0].requests.own = 0;
    bench_end();
    bench_begin();
    qp = queue_make(QP_RC);
    qp->send.blocks = BLOCKS;
    qp->requester.window = 3;
    links_out[0].roce = (void *)&wire_window;
    wire_window = 4;
    post_write(qp, 1024, COMPLETES);
    post_read(qp, 2048, COMPLETES);
    post_send(qp, WQE_SEND, 20, COMPLETES);
    go(qp, "a window of three packets");
    acked(qp, 0xfffffd, "moves on");
    run(qp, "by one, and grows");
    acked(qp, qp->requester.psn - 1, "and again");
    run(qp, "a read in parts");
    uint8_t data[256] = {0};
    for (unsigned i = 0; i < 8; i++) {
        put_answer(
            qp, (struct packet){.kind = PACKET_READ_DATA, .bytes = 256, .psn = qp->requester.acked},
            data);
        take_answers("a packet of it");
        run(qp, "perhaps the next part");
    }
    qp->requester.window = 0;
    post_read(qp, 1500, COMPLETES);
    post_send(qp, WQE_SEND, 1000, COMPLETES);
    go(qp, "the whole part where there is no window");
    bench_end();
    bench_begin();
    qp = queue_make(QP_RC);
    qp->requester.mtu = 256;
    qp->requester.max_reads = 16;
    for (unsigned i = 0; i < 4; i++) {
        request_begin(qp, WQE_READ, 0, QUIET);
        put_remote(0x5500000000, 0x5503);
        put_segment(MEMORY + 0x1000, 1u << 30, LKEY);
        request_end(qp);
    }
    go(qp, "reads of more numbers than can be told apart");
    static uint8_t ring[512 * 64];
    free(qp->send.outstanding);
    qp_set_ring(qp, ring, 512);
    qp->requester.psn = qp->requester.psn_limit = qp->requester.acked = 0;
    qp->current.loaded = qp->current.outstanding = false;
    qp->send.outstanding_head = qp->send.outstanding_tail = 0;
    qp->send.reads = 0;
    qp->send.taken = qp->send.released = 0;
    for (unsigned i = 0; i < 400; i++) {
        uint32_t words[4] = {big(i << 8), big(qp->qpn << 8 | 1), big(i % 50 ? 0 : COMPLETES), 0};
        memcpy(ring + (i * 64), words, 16);
    }
    qp->send.producer = 400;
    run(qp, "as many requests as a pass takes");
    run(qp, "and the others");
}

static void targets_of_dc(void)
{
    struct qp *qp = queue_make(QP_DCI);
    struct packet ack = {.kind = PACKET_ACK};
    static const struct {
        uint64_t key;
        uint32_t number;
        uint16_t lid;
        const char *what;
    } cases[] = {
        {0x1234567890, 0x9123, REMOTE_LID, "a target"},
        {0x1234567890, 0x9123, REMOTE_LID, "the same"},
        {0x1234567890, 0x9124, REMOTE_LID, "another number"},
        {0x1234567891, 0x9124, REMOTE_LID, "another key"},
        {0x1234567891, 0x9124, REMOTE_LID + 1, "another address"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        request_begin(qp, WQE_WRITE, 0, COMPLETES);
        put_address(cases[i].key, cases[i].number, cases[i].lid);
        put_remote(0x7700000000, 0x5501);
        put_segment(MEMORY, 600, LKEY);
        request_end(qp);
        go(qp, cases[i].what);
    }
    ack.psn = 2;
    put_answer(qp, ack, NULL);
    take_answers("what is before it is complete");
    for (unsigned i = 0; i < 3; i++) {
        run(qp, "so that the next may go");
        ack.psn = qp->requester.psn - 1;
        put_answer(qp, ack, NULL);
        take_answers("it is complete");
    }
    qp->requester.psn = qp->requester.acked = qp->requester.psn_limit = 77;
    qp->send.outstanding_head = qp->send.outstanding_tail;
    for (unsigned i = 0; i < 5; i++) {
        request_begin(qp, i ? WQE_FETCH_ADD : WQE_SEND, 0, COMPLETES);
        put_address(3, i < 3 ? 4 : 4 | 1u << 31, i == 1 ? 0 : 77);
        if (i >= 3) {
            put_long(0);
            put_long(0);
            put_word(0);
            put_word(0);
            put_word(0xffff);
            put_word(i == 3 ? 0x0a000001 : 9);
        }
        if (i) {
            put_remote(0x4400000000, 0x5504);
            put_long(8);
            put_long(0);
        }
        put_segment(MEMORY, 8, LKEY);
        qp->send.taken = qp->send.released = qp->send.producer = qp->requester.counted_end =
            request_end(qp);
        config.link = i >= 3 ? LINK_ROCE : LINK_IB;
        qp->current.loaded = qp->current.outstanding = false;
        qp->send.fault = (struct fault){0};
        qp->state = QP_RTS;
        qp->send.outstanding_head = qp->send.outstanding_tail;
        go(qp, "addresses: nobody's, none, IPv4, a GID's");
    }
}

/* Refusals by the peer. */
static void refused_by_the_peer(void)
{
    for (unsigned i = 0; i < 8; i++) {
        bench_end();
        bench_begin();
        struct qp *qp = queue_make(QP_RC);
        qp->requester.rnr_retry = qp->requester.rnr_tries = i == 3 ? 7 : 1;
        post_write(qp, 600, COMPLETES);
        post_nop(qp, COMPLETES);
        post_send(qp, WQE_SEND, 300, COMPLETES);
        post_read(qp, 100, COMPLETES);
        ring_doorbell(qp);
        send_run(qp);
        say("refused by the peer %u\n", i);
        say_ring(&out_rings[0].far_requests);
        switch (i) {
        case 0:
            refused(qp, 0xfffffe, SYNDROME_REMOTE_ACCESS, "access to the write, its second packet");
            run(qp, "the others are flushed");
            break;
        case 1:
            refused(qp, 1, SYNDROME_REMOTE_OPERATION, "the message, after the write");
            run(qp, "the others are flushed");
            break;
        case 2:
        case 3:
            for (unsigned k = 0; k < 3; k++) {
                refused(qp, 0, NAK_RNR, "no receive");
                run(qp, "waits");
                assert_int_equal(send_timers(qp), qp->state == QP_RTS);
                device.now = qp->requester.wait_until - 1;
                run(qp, "still");
                device.now = qp->requester.wait_until;
                run(qp, "until then");
                if (i == 3)
                    acked(qp, 0, "one of the two packets has come");
                if (i == 3)
                    break;
            }
            break;
        case 4:
            for (unsigned k = 0; k < 4; k++) {
                refused(qp, 0xfffffe + (k > 1), NAK_PSN_SEQUENCE, "another packet is expected");
                run(qp, "from there on");
            }
            break;
        case 5:
            refused(qp, 2, 0x77, "the read");
            break;
        case 6:
            refused(qp, 3, 0x77, "what was never sent");
            refused(qp, 0xfffffc, 0x77, "what is long complete");
            break;
        default:
            refused(qp, 2, NAK_PSN_SEQUENCE, "all but the read has come");
            run(qp, "which goes again");
            refused(qp, 2, NAK_PSN_SEQUENCE, "again");
            acked(qp, 2, "an acknowledgement of a read is none");
            break;
        }
    }
}

/* Lost answers, and answers that arrive during a retransmission. */
static void gaps(void)
{
    uint8_t data[256] = {7, 8, 9};
    struct qp *qp = queue_make(QP_RC);
    qp->requester.retries = qp->requester.retry_count = 3;
    post_write(qp, 300, COMPLETES);
    post_read(qp, 500, COMPLETES);
    post_write(qp, 300, COMPLETES);
    go(qp, "a write, a read, a write");
    acked(qp, 1, "the last was carried out, and nothing of the read came");
    acked(qp, 2, "again");
    run(qp, "the read goes again");
    acked(qp, 2, "late");
    put_answer(qp, (struct packet){.kind = PACKET_READ_DATA, .bytes = 256, .psn = 0xffffff}, data);
    take_answers("its first packet");
    acked(qp, 1, "half of it is missing");
    run(qp, "the second half goes again");
    put_answer(qp, (struct packet){.kind = PACKET_READ_DATA, .bytes = 244, .psn = 0}, data);
    take_answers("it comes");
    acked(qp, 2, "and the last");
    /* A refusal arrives before its packet was retransmitted. */
    for (unsigned i = 0; i < 4; i++) {
        bench_end();
        bench_begin();
        qp = queue_make(QP_RC);
        post_write(qp, 1000, COMPLETES);
        post_write(qp, 100, COMPLETES);
        ring_doorbell(qp);
        send_run(qp);
        refused(qp, 0xfffffe, NAK_PSN_SEQUENCE, "from the second packet on");
        static const uint32_t why[] = {SYNDROME_REMOTE_ACCESS, NAK_RNR, NAK_PSN_SEQUENCE, 0};
        if (i < 3)
            refused(qp, 0, why[i], "and the fourth is refused meanwhile");
        else
            acked(qp, 0, "and all has come meanwhile");
        run(qp, "as soon as it has gone again");
        run(qp, "then");
    }
}

/* Lost packets. */
static void timers(void)
{
    struct qp *qp = queue_make(QP_RC);
    qp->requester.timeout = 10; /* 4.2 ms */
    assert_false(send_timers(qp));
    post_write(qp, 600, COMPLETES);
    ring_doorbell(qp);
    send_run(qp);
    say_ring(&out_rings[0].far_requests);
    links_out[0].unpublished = false;
    assert_true(send_timers(qp));
    look("not read by the peer");
    ring_publish(&links_out[0].requests);
    say_ring(&out_rings[0].far_requests);
    assert_true(send_timers(qp));
    look("read by the peer: lost");
    device.now += 1000;
    out_rings[0].far_responses.own += 64;
    ring_publish(&out_rings[0].far_responses);
    assert_true(send_timers(qp));
    look("an answer is there that was not read");
    out_rings[0].far_responses.own -= 64;
    ring_publish(&out_rings[0].far_responses);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(send_timers(qp));
        look("lost");
        device.now += (4096 << 10) - 1;
        assert_true(send_timers(qp));
        look("a moment before its time");
        device.now++;
        bool waits = send_timers(qp);
        look(waits ? "its time" : "its time, for nothing");
        run(qp, "goes again");
    }
    bench_end();
    bench_begin();
    qp = queue_make(QP_RC);
    qp->requester.timeout = 0;
    post_write(qp, 600, COMPLETES);
    ring_doorbell(qp);
    send_run(qp);
    atomic_store(&links_out[0].dead, true);
    assert_true(send_timers(qp));
    look("no time, a dead link");
    device.now += UINT64_C(1) << 60;
    assert_true(send_timers(qp));
    look("for ever");
    qp->requester.timeout = 1;
    qp->requester.retries = 0;
    assert_true(send_timers(qp));
    look("then the peer is given up");
    assert_false(send_timers(qp));
    bench_end();
    bench_begin();
    qp = queue_make(QP_RC);
    links_out[0].roce = (void *)&wire_window;
    wire_window = 32;
    qp->requester.window = 12;
    qp->requester.timeout = 17;
    qp->requester.remote = 0x0a01020f;
    post_write(qp, 600, COMPLETES);
    ring_doorbell(qp);
    send_run(qp);
    for (unsigned i = 0; i < 9; i++) {
        device.now += i % 3 == 2 ? 10000000 : 2500000 << i / 2;
        assert_true(send_timers(qp));
        run(qp, "a wire that loses packets");
    }
    qp->requester.acked = qp->requester.psn;
    assert_true(send_timers(qp));
    look("nothing is lost");
    qp->send.outstanding_head = qp->send.outstanding_tail;
    qp->requester.retransmissions = 0;
    qp->requester.loss_noticed_at = 99;
    assert_false(send_timers(qp));
    look("nothing is under way");
    qp->requester.link->users--;
    qp->requester.link = NULL;
    qp->send.outstanding_tail++;
    qp->requester.acked--;
    qp->requester.timeout = 31;
    assert_true(send_timers(qp));
    look("without a link");
    qp->requester.retries = 0;
    device.now += UINT64_C(4096) << 31;
    send_timers(qp);
    look("given up");
}

static void collapsed(void)
{
    struct qp *qp = queue_make(QP_RC);
    cqs[0].collapsed = true;
    post_write(qp, 10, COMPLETES);
    post_write(qp, 11, QUIET);
    post_write(qp, 12, 3 << 2);
    post_write(qp, 13, 1 << 2);
    go(qp, "four writes");
    acked(qp, 0, "complete: nobody sees but the last");
    config.mode = MODE_ADVERSARIAL;
    post_write(qp, 14, COMPLETES);
    post_write(qp, 15, QUIET);
    post_inline(qp, 60, COMPLETES);
    ring_doorbell(qp);
    while (send_run(qp))
        ;
    look("three of the adversary");
    queue_rings[0][(qp->send.released + 1) % BLOCKS * 64 + 40] ^= 1;
    acked(qp, qp->requester.psn - 1, "one of whose slots was changed too early");
}

static void short_writes(void)
{
    struct qp *qp = queue_make(QP_RC);
    config.fail_at = 0;
    for (unsigned i = 0; i < 6; i++) {
        static const uint32_t bytes[6] = {1, 8, 9, 12, 13, 28};
        post_inline(qp, bytes[i], i % 3 ? QUIET : i % 2 ? 3 << 2 : COMPLETES);
    }
    post_nop(qp, COMPLETES);
    go(qp, "six short ones, and one of nothing");
    acked(qp, qp->requester.psn - 1, "complete");
    post_inline(qp, 29, COMPLETES); /* two blocks */
    post_write(qp, 256, COMPLETES);
    post_inline(qp, 200, 3 << 2);
    go(qp, "others, over the end of the ring");
    acked(qp, qp->requester.psn - 1, "complete");
    post_write(qp, 257, COMPLETES);
    post_inline(qp, 3, COMPLETES);
    post_write(qp, 5, COMPLETES | 1 << 5);
    post_inline(qp, 4, COMPLETES | 1 << 5);
    post_send(qp, WQE_SEND, 5, COMPLETES);
    post_inline(qp, 7, COMPLETES);
    go(qp, "not all of these are short writes");
    acked(qp, qp->requester.psn - 1, "complete");
    request_begin(qp, WQE_WRITE, 0, COMPLETES);
    put_remote(1, 2);
    put_segment(MEMORY + 1, 3, LKEY);
    put_segment(MEMORY + 9, 4, LKEY);
    request_end(qp);
    request_begin(qp, WQE_WRITE, 0, COMPLETES);
    put_remote(1, 2);
    put_inline(5);
    put_inline(5);
    request_end(qp);
    request_begin(qp, WQE_WRITE, 0, COMPLETES);
    put_remote(1, 2);
    request_end(qp);
    go(qp, "nor these");
    acked(qp, qp->requester.psn - 1, "complete");
    far_is_held = true;
    request_begin(qp, WQE_WRITE, 0, COMPLETES);
    put_remote(1, 2);
    put_segment(FAR_MEMORY + 1, 3, FAR_KEY);
    request_end(qp);
    go(qp, "nor this, from memory of a GPU");
    post_inline(qp, 3, COMPLETES);
    post_inline(qp, 4, COMPLETES);
    queue_rings[0][(queue_next[0] - 1) % BLOCKS * 64 + 2] ^= 1;
    go(qp, "the second says that it lies elsewhere");
    run(qp, "then");
    acked(qp, qp->requester.psn - 1, "complete");
    run(qp, "fails");
}

/* Each of these conditions prevents writes from being combined. */
static void short_writes_apart(void)
{
    for (unsigned i = 0; i < 12; i++) {
        bench_end();
        bench_begin();
        config.fail_at = 0;
        struct qp *qp = queue_make(QP_RC);
        post_inline(qp, 3, COMPLETES);
        post_inline(qp, 4, COMPLETES);
        ring_doorbell(qp);
        config.fail_at = i == 0 ? 1u << 30 : 0;
        config.mode = i == 1 ? MODE_ADVERSARIAL : i == 2 ? MODE_LENIENT : MODE_STRICT;
        qp->type = i == 3 ? QP_DCI : QP_RC;
        qp->requester.link = i == 4 ? NULL : &links_out[0];
        links_out[0].roce = i == 5 ? (void *)&wire_window : NULL;
        qp->current.loaded = i == 6;
        qp->current.resume_packets = i == 7;
        qp->send.fault.syndrome = i == 8;
        qp->send.producer -= i == 9 ? 2 : 0;
        links_out[0].requests.own += i == 10 ? RING_DATA - 4096 : 0;
        say("%u: %u\n", i, burst_send(qp));
        qp->requester.link = &links_out[0];
    }
}

static void long_bursts(void)
{
    static uint8_t ring[512 * 64];
    struct qp *qp = queue_make(QP_RC);
    config.fail_at = 0;
    free(qp->send.outstanding);
    qp_set_ring(qp, ring, 512);
    for (unsigned k = 0; k < 3; k++) {
        for (unsigned i = 0; i < 130; i++) {
            uint16_t index = (uint16_t)(k * 130 + i);
            queue_next[0] = index;
            if (k < 2)
                request_begin(qp, WQE_WRITE, 0, i == 129 ? COMPLETES : QUIET);
            if (k < 2)
                put_remote(0x6600000000 + i, 0x5502);
            if (k == 0)
                put_inline(i % 28 + 1);
            if (k == 1)
                put_segment(MEMORY + i, i % 6 * 50 + 6, LKEY);
            if (k == 2)
                request_begin(qp, WQE_NOP, 0, i % 40 ? QUIET : COMPLETES);
            request_end(qp);
            memcpy(ring + index * 64, queue_rings[0] + index % BLOCKS * 64, 64);
        }
        qp->send.producer = (uint16_t)(k * 130 + 130);
        qp_list(qp);
        run(qp, "more than a packet has room for");
        run(qp, "and more");
        acked(qp, qp->requester.psn - 1, "complete");
    }
}

static void bursts_read(void)
{
    uint8_t data[600];
    struct burst_write w;
    struct {
        uint64_t address;
        uint32_t key, bytes;
    } heads[] = {{0x1122334455667788, 7, 5}, {9, 8, 256}, {1, 1, 8}}, bad;
    memset(data, 0x5a, sizeof data);
    memcpy(data, &heads[0], 16);
    memcpy(data + 24, &heads[1], 16);
    memcpy(data + 24 + 272, &heads[2], 16);
    uint32_t at = 0;
    while (burst_next(data, 24 + 272 + 24, &at, &w))
        say("at %u: %llx %x %u %zu\n", at, (unsigned long long)w.address, w.rkey, w.bytes,
            (size_t)(w.data - data));
    for (uint32_t bytes = 0; bytes < 26; bytes++) {
        at = 0;
        assert_int_equal(burst_next(data, bytes, &at, &w), bytes >= 24);
        assert_int_equal(at, bytes >= 24 ? 24 : 0);
    }
    at = 30;
    assert_false(burst_next(data, 29, &at, &w));
    bad = heads[0];
    for (uint32_t bytes = 0; bytes < 300; bytes += bytes < 2 ? 1 : 51) {
        bad.bytes = bytes;
        memcpy(data, &bad, 16);
        at = 0;
        assert_int_equal(burst_next(data, sizeof data, &at, &w), bytes > 0 && bytes <= 256);
    }
    bad.bytes = 257;
    memcpy(data, &bad, 16);
    at = 0;
    assert_false(burst_next(data, sizeof data, &at, &w));
}

static void local_requests(void)
{
    struct qp *qp = queue_make(QP_RC);
    config.apart = 1;
    uint8_t data[16] = "0123456789abcde";
    request_begin(qp, WQE_READ, 0, QUIET);
    put_remote(0x5500000000, 0x5503);
    put_segment(MEMORY + 0x300, 16, RKEY);
    request_end(qp);
    request_begin(qp, WQE_DUMP, 0, COMPLETES | 4 << 5);
    put_segment(MEMORY + 7, 30, LKEY);
    put_segment(MEMORY + 9, 50, RKEY);
    request_end(qp);
    post_nop(qp, QUIET);
    post_nop(qp, COMPLETES);
    go(qp, "a read, a dump that waits for it");
    put_answer(qp, (struct packet){.kind = PACKET_READ_DATA, .bytes = 16, .psn = 0xfffffd}, data);
    take_answers("the data are held back");
    say("  held %u until %lld\n", device.pending.apart.count,
        (long long)(device.pending.apart.writes[0].until - device.now));
    run(qp, "until they are asked for");
    post_read(qp, 8, COMPLETES);
    go(qp, "a read");
    put_answer(qp, (struct packet){.kind = PACKET_READ_DATA, .bytes = 8, .psn = 0xfffffe}, data);
    take_answers("into memory that nobody else may write");
}

static void asked_kinds(void)
{
    struct qp *qp = queue_make(QP_RC);
    links_out[0].roce = (void *)&wire_window;
    wire_window = 8;
    post_fetch_add(qp, 5, COMPLETES);
    post_masked(qp, COMPLETES);
    go(qp, "an atomic that all know, one whose form is not known to be understood");
    wire_other = ROCE_PEER_SOFT;
    run(qp, "now it is");
}

static void paused(void)
{
    for (unsigned state = QP_RESET; state <= QP_ERROR; state++) {
        bench_end();
        bench_begin();
        struct qp *qp = queue_make(QP_RC);
        post_write(qp, 3, QUIET);
        post_inline(qp, 60, QUIET); /* two blocks */
        ring_doorbell(qp);
        qp->state = state;
        run(qp, "in each state");
    }
    struct qp *qp = queue_make(QP_RC);
    post_nop(qp, COMPLETES);
    queue_rings[1][7] = 0;      /* 0 units */
    queue_rings[1][64 + 7] = 9; /* more units than posted */
    queue_rings[1][64 + 3] = WQE_SEND;
    queue_next[1] = 3;
    ring_doorbell(qp);
    qp->state = QP_ERROR;
    run(qp, "flushed by block");
    qp->send.ring = NULL;
    qp->send.producer++;
    run(qp, "without a ring");
}

static void unlist(struct qp *qp)
{
    qp->send.listed = false;
    device.pending.work_count = 0;
}

/* What an acknowledgement and a retransmission reset, and which queues are visited again. */
static void progress(void)
{
    struct qp *qp = queue_make(QP_RC);
    post_write(qp, 600, COMPLETES);
    go(qp, "three packets");
    unlist(qp);
    qp->requester.loss_noticed_at = device.now - 5;
    qp->requester.retransmit_at = device.now + 7;
    qp->requester.retransmissions = 3;
    qp->requester.retries = qp->requester.rnr_tries = 0;
    acked(qp, 0xfffffd, "the first has come");
    post_send(qp, WQE_SEND, 10, COMPLETES);
    ring_doorbell(qp);
    unlist(qp);
    acked(qp, 0xfffffe, "there is more to send");
    qp->send.producer = qp->send.taken;
    queue_next[0]--;
    unlist(qp);
    acked(qp, 0xffffff, "there is not");
    post_write(qp, 10, COMPLETES);
    go(qp, "one packet");
    unlist(qp);
    qp->send.fault.syndrome = 9;
    acked(qp, 0, "there is a fault");
    for (unsigned window = 0; window < 6; window++) {
        bench_end();
        bench_begin();
        qp = queue_make(QP_RC);
        post_write(qp, 600, COMPLETES);
        request_begin(qp, 0x77, 0, COMPLETES);
        request_end(qp);
        ring_doorbell(qp);
        send_run(qp);
        qp->requester.retransmissions = 4;
        qp->requester.retransmit_at = device.now;
        qp->requester.loss_noticed_at = device.now - 9;
        qp->requester.response_lost = window % 2;
        qp->requester.window = window;
        unlist(qp);
        refused(qp, 0xfffffe, NAK_PSN_SEQUENCE, "back, which forgets the fault behind it");
    }
    run(qp, "and finds it again");
    bench_end();
    bench_begin();
    qp = queue_make(QP_RC);
    post_write(qp, 600, COMPLETES);
    ring_doorbell(qp);
    send_run(qp);
    unlist(qp);
    refused(qp, 0xfffffd, NAK_PSN_SEQUENCE, "all of it again");
}

/* An answer to a later request, while data of a read is missing, makes the requester ask for the
 * data again. */
static void ahead_of_data(void)
{
    uint64_t value = 77;
    for (unsigned i = 0; i < 4; i++) {
        bench_end();
        bench_begin();
        struct qp *qp = queue_make(QP_RC);
        post_write(qp, 10, COMPLETES);
        post_read(qp, 500, COMPLETES);
        i ? post_fetch_add(qp, 3, COMPLETES) : post_write(qp, 20, COMPLETES);
        ring_doorbell(qp);
        send_run(qp);
        say_ring(&out_rings[0].far_requests);
        if (i < 2)
            refused(qp, 0, SYNDROME_REMOTE_ACCESS, "a refusal");
        if (i == 2)
            put_answer(qp, (struct packet){.kind = PACKET_ATOMIC_VALUE, .bytes = 8, .psn = 0},
                       &value);
        if (i == 2)
            take_answers("a value");
        if (i == 3)
            refused(qp, 0xfffffe, NAK_RNR, "of the read itself");
        run(qp, "then");
    }
}

/* The program changes its request, which is forbidden, before the data has arrived. */
static void changed_requests(void)
{
    uint8_t data[8] = {1, 2, 3};
    for (unsigned i = 0; i < 2; i++) {
        bench_end();
        bench_begin();
        struct qp *qp = queue_make(QP_RC);
        request_begin(qp, WQE_READ, 0, COMPLETES);
        put_remote(0x5500000000, 0x5503);
        if (i)
            put_inline(8);
        else
            put_segment(MEMORY + 0x1000, 8, LKEY);
        request_end(qp);
        ring_doorbell(qp);
        send_run(qp);
        say_ring(&out_rings[0].far_requests);
        if (!i)
            queue_rings[0][3] = 0x77;
        put_answer(qp, (struct packet){.kind = PACKET_READ_DATA, .bytes = 8, .psn = 0xfffffd},
                   data);
        take_answers(i ? "data for inline bytes" : "data for what is no request any more");
    }
    /* Only a queue in RTS retransmits. */
    bench_end();
    bench_begin();
    struct qp *qp = queue_make(QP_RC);
    post_write(qp, 600, COMPLETES);
    ring_doorbell(qp);
    send_run(qp);
    look("under way");
    atomic_store(&links_out[0].dead, true);
    for (unsigned state = QP_RESET; state <= QP_ERROR; state++) {
        qp->state = state;
        say("  timers %u %d\n", state, send_timers(qp));
    }
    look("then");
}

/* Refusals of packets that are about to be retransmitted, with their own sequence number. */
static void late_refusals(void)
{
    for (unsigned i = 0; i < 4; i++) {
        bench_end();
        bench_begin();
        struct qp *qp = queue_make(QP_RC);
        post_write(qp, 1000, COMPLETES);
        i % 2 ? post_read(qp, 100, COMPLETES) : post_write(qp, 100, COMPLETES);
        post_write(qp, 30, COMPLETES);
        ring_doorbell(qp);
        send_run(qp);
        say_ring(&out_rings[0].far_requests);
        refused(qp, 0xfffffe, NAK_PSN_SEQUENCE, "from the second on");
        refused(qp, 1 + i / 2, SYNDROME_REMOTE_OPERATION, "refused meanwhile");
        links_out[0].requests.size = RING_DATA;
        qp->requester.window = 2;
        links_out[0].roce = (void *)&wire_window;
        wire_window = 2;
        for (unsigned k = 0; k < 3; k++) {
            run(qp, "two more");
            acked(qp, qp->requester.psn - 1, "come");
        }
        links_out[0].roce = NULL;
        run(qp, "then");
    }
}

/* Over RoCE each request names its connection, which may be opened by any of its packets. */
static void dc_over_roce(void)
{
    static char wire;
    struct qp *qp = queue_make(QP_DCI);
    config.link = LINK_ROCE;
    wire_window = 5;
    links_out[0].roce = (struct roce_peer *)(void *)&wire;
    links_out[0].address = 0x0a000007;
    device.connections = 0;
    device.now = (uint64_t)1234 << 20;
    for (unsigned i = 0; i < 4; i++) {
        wire_address = i == 3 ? 0 : 0x0a000001; /* the last request finds no address here */
        request_begin(qp, WQE_WRITE, 0, COMPLETES);
        put_address(0x1234567890, (0x9123 + (i == 2)) | 1u << 31, (uint16_t)(0xc077 + i));
        put_long(0);
        put_long(0);
        put_long(0);
        put_word(0xffff);
        put_word(0x0a000007);
        put_remote(0x7700000000, 0x5501);
        put_segment(MEMORY, 600 + i, LKEY);
        request_end(qp);
        go(qp, i == 3 ? "not reached" : "over RoCE");
        if (i == 3)
            break;
        acked(qp, qp->requester.psn - 1, "come");
        say("  connection %u from %06x port %x window %u\n", qp->requester.connection,
            qp->requester.connection_psn, qp->requester.source_port, qp->requester.window);
    }
    links_out[0].roce = NULL;
    links_out[0].address = REMOTE_LID;
    wire_address = 0;
}

static void dc_links(void)
{
    struct qp *qp = queue_make(QP_DCI);
    struct wqe_address a = {
        .present = true, .full = true, .dctn = 0x9123, .key = 5, .lid = REMOTE_LID};
    a.gid[15] = REMOTE_LID + 1;
    config.link = LINK_IB;
    assert_int_equal(send_target_address(qp, &a), REMOTE_LID);
    config.link = LINK_ROCE;
    assert_int_equal(send_target_address(qp, &a), REMOTE_LID + 1);
    a.full = false;
    assert_int_equal(send_target_address(qp, &a), REMOTE_LID);
    assert_true(send_target(qp, &a));
    assert_ptr_equal(qp->requester.link, &links_out[0]);
    assert_int_equal(links_out[0].users, 1);
    qp->requester.opens_dc = false;
    assert_true(send_target(qp, &a));
    assert_false(qp->requester.opens_dc);
    assert_int_equal(links_out[0].users, 1);
    qp->requester.link = NULL; /* the link was closed meanwhile */
    assert_true(send_target(qp, &a));
    assert_true(qp->requester.opens_dc);
    assert_ptr_equal(qp->requester.link, &links_out[0]);
    links_out[0].users = 1;
    a.lid++;
    assert_false(send_same_target(qp, &a));
    assert_true(send_target(qp, &a));
    assert_true(send_same_target(qp, &a));
    assert_int_equal(links_out[0].users, 0);
    assert_int_equal(links_out[1].users, 1);
    assert_int_equal(qp->requester.remote, REMOTE_LID + 1);
    a.lid = 99;
    assert_false(send_target(qp, &a));
    assert_int_equal(requested_link, 99);
    assert_null(qp->requester.link);
    a.lid = REMOTE_LID;
    assert_true(send_target(qp, &a));
    a.key++;
    assert_false(send_same_target(qp, &a));
    a.key--;
    a.dctn++;
    assert_false(send_same_target(qp, &a));
    look("connected");
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
TEST(doorbells)
TEST(shared_registers)
TEST(far_rings)
TEST(kinds)
TEST(answers_of_reads)
TEST(bad_answers_of_reads)
TEST(scattered_reads)
TEST(refusals)
TEST(incomplete)
TEST(fences)
TEST(bounds)
TEST(targets_of_dc)
TEST(refused_by_the_peer)
TEST(gaps)
TEST(timers)
TEST(collapsed)
TEST(short_writes)
TEST(short_writes_apart)
TEST(long_bursts)
TEST(bursts_read)
TEST(local_requests)
TEST(asked_kinds)
TEST(paused)
TEST(progress)
TEST(ahead_of_data)
TEST(changed_requests)
TEST(late_refusals)
TEST(dc_links)
TEST(dc_over_roce)

static void all_is_as_written(void **state)
{
    (void)state;
    golden_is(GOLDEN, text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_doorbells),
        cmocka_unit_test(test_shared_registers),
        cmocka_unit_test(test_far_rings),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_answers_of_reads),
        cmocka_unit_test(test_bad_answers_of_reads),
        cmocka_unit_test(test_scattered_reads),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_incomplete),
        cmocka_unit_test(test_fences),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_targets_of_dc),
        cmocka_unit_test(test_refused_by_the_peer),
        cmocka_unit_test(test_gaps),
        cmocka_unit_test(test_timers),
        cmocka_unit_test(test_collapsed),
        cmocka_unit_test(test_short_writes),
        cmocka_unit_test(test_short_writes_apart),
        cmocka_unit_test(test_long_bursts),
        cmocka_unit_test(test_bursts_read),
        cmocka_unit_test(test_local_requests),
        cmocka_unit_test(test_asked_kinds),
        cmocka_unit_test(test_paused),
        cmocka_unit_test(test_progress),
        cmocka_unit_test(test_ahead_of_data),
        cmocka_unit_test(test_changed_requests),
        cmocka_unit_test(test_late_refusals),
        cmocka_unit_test(test_dc_links),
        cmocka_unit_test(test_dc_over_roce),
        cmocka_unit_test(all_is_as_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
