/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as RoCE v2 datagrams from the connected peer of a queue pair, between requests of its
 * own: no packet corrupts the queue's sequence numbers or counters, writes outside the registered
 * memory, or completes a request that was not posted. The engine's thread does not run (the linker
 * takes engine_main() and clock_ns() from here): this file executes its passes. */
#include "tests/hca/client.h"

#include "standin/hca/context.h"
#include "standin/hca/roce_format.h"

#include <stdlib.h>
#include <string.h>

enum { LOG_SQ = 5, PEER = 0x7ffefdfc, PEER_QPN = 0x123456, GUARD = 256, TO_RESET = 0x50a };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void *__wrap_engine_main(void *device);

void *__wrap_engine_main(void *device)
{
    return NULL;
}

/* The clock advances with the passes, so that the same input always gives the same result. */
uint64_t __wrap_clock_ns(void);

uint64_t __wrap_clock_ns(void)
{
    static uint64_t now = 1000000000;
    return now += 1000000;
}

static struct client c;
static struct ibv_mr *window; /* of c.memory, without its ends */
static struct device *device;
static struct qp *queue;
static unsigned posted;

static void open_once(void)
{
    static const struct client_options ring = {.ring = true, .log_sq = LOG_SQ, .log_cq = 7};
    setenv("SOFT_HCA_LOG", "none", 1);
    setenv("SOFT_HCA_LINK", "roce", 1);
    setenv("SOFT_HCA_ADDRESS", "lo", 1);
    if (client_open(&c, &ring))
        abort();
    window = ibv_reg_mr(c.pd, c.memory + GUARD, CLIENT_MEMORY - 2 * GUARD,
                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                            IBV_ACCESS_REMOTE_ATOMIC);
    ibv_dereg_mr(c.mr);
    c.mr = window;
    uint32_t address = htobe32(PEER);
    c.remote_gid.raw[10] = c.remote_gid.raw[11] = 0xff;
    memcpy(c.remote_gid.raw + 12, &address, 4);
    c.remote_qpn = PEER_QPN;
    c.mtu = 1; /* 256 bytes: messages of several packets are short */
    device = context_of(c.context)->device;
    queue = device->objects.qps[c.qpn & (MAX_QPS - 1)];
}

static void begin(void)
{
    if (client_move(&c, TO_RESET) || client_connect(&c))
        abort();
    c.next = 0;
    c.qp_record[1] = 0;
    posted = 0;
    memset(c.memory, 0x55, GUARD);
    memset(c.memory + CLIENT_MEMORY - GUARD, 0x55, GUARD);
}

static void pass(void)
{
    bool timed;
    device_lock(device);
    engine_pass(device, &timed);
    device_unlock(device);
}

/* One datagram: the bytes after the transport header are fuzz input; sequence numbers are near the
 * expected ones. */
static void arrive(uint8_t opcode, uint8_t flags, int8_t offset, const uint8_t *rest, size_t n)
{
    uint8_t bytes[ROCE_BYTES_MOST];
    bool answer = opcode >= 0x0d && opcode <= 0x12;
    uint32_t base =
        answer || opcode == 0xc3 ? queue->requester.acked : queue->responder.expected_psn;
    uint32_t numbers[3] = {0, htobe32(c.qpn), htobe32((base + (uint32_t)offset) & 0xffffff)};
    memcpy(bytes, numbers, 12);
    bytes[0] = opcode;
    bytes[1] = flags & 0xf0;
    bytes[2] = bytes[3] = 0xff;
    if (n > sizeof bytes - 16)
        n = sizeof bytes - 16;
    memcpy(bytes + 12, rest, n);
    /* An address at the end of the registered memory or anywhere, a key that may be right, and a
     * right length. */
    if (n >= 12 && flags & 1) {
        uint64_t at =
            flags & 2 ? CLIENT_MEMORY - GUARD - rest[0] : (uint64_t)rest[0] << 8 | rest[1];
        uint64_t address = htobe64((uintptr_t)c.memory + at);
        uint32_t key = htobe32(window->rkey);
        memcpy(bytes + 12, &address, 8);
        memcpy(bytes + 20, &key, 4);
    }
    if (n >= 16 + 3 && flags & 4) {
        uint32_t length = htobe32((uint32_t)n - 16 - (flags >> 4 & 3));
        memcpy(bytes + 24, &length, 4);
    }
    memset(bytes + 12 + n, 0, 4);
    device_lock(device);
    roce_handle_datagram(device, bytes, (uint32_t)(12 + n + 4), PEER, ROCE_PORT);
    device_unlock(device);
}

static void post(uint8_t what, uint8_t size)
{
    uint64_t there = 0x1000, here = (uintptr_t)c.memory + GUARD + 8;
    if ((uint16_t)(c.next - queue->send.released) > (1 << LOG_SQ) - 4 || queue->state != QP_RTS)
        return;
    posted++;
    if (what & 1) {
        client_read(&c, there, here, size * 8u + 1);
    } else if (what & 2) {
        struct wqe_maker w;
        wqe_begin(&w, &c, MLX5_OPCODE_ATOMIC_FA, 0, MLX5_WQE_CTRL_CQ_UPDATE, 0);
        wqe_remote(&w, there, 1);
        wqe_long(&w, size);
        wqe_long(&w, 0);
        wqe_data(&w, here, 8, window->lkey);
        wqe_end(&w);
        client_doorbell(&c);
    } else {
        client_write(&c, there, here, size * 8u + 1);
    }
}

static void check(void)
{
    uint32_t flights = queue->send.outstanding_tail - queue->send.outstanding_head;
    if (flights > queue->send.blocks || queue->send.reads > flights)
        abort();
    /* A partial retransmission begins before what is acknowledged and continues after it. */
    uint32_t next = psn_add(queue->requester.psn, queue->current.resume_packets);
    if (queue->state == QP_RTS &&
        (psn_before(next, queue->requester.acked) || psn_before(queue->requester.psn_limit, next)))
        abort();
    if ((int16_t)(queue->send.producer - queue->send.taken) < 0 ||
        queue->requester.retries > queue->requester.retry_count)
        abort();
    for (unsigned i = 0; i < GUARD; i++)
        if (c.memory[i] != 0x55 || c.memory[CLIENT_MEMORY - 1 - i] != 0x55)
            abort();
}

/* The number of completions since `before` is at most the number of posted requests. */
static void count(uint32_t before)
{
    if (queue->send_cq->producer - before > posted)
        abort();
    c.consumer = queue->send_cq->producer;
    __atomic_store_n(&c.cq_record[0], htobe32(c.consumer & 0xffffff), __ATOMIC_RELEASE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!device)
        open_once();
    begin();
    uint32_t before = queue->send_cq->producer;
    while (size >= 4) {
        uint8_t what = data[0];
        if (what & 0x80) {
            post(what, data[1]);
            data += 2;
            size -= 2;
        } else {
            /* Opcode, flags, sequence number and payload; the length counts in units of 8, so that
             * a packet may be as long as the MTU. */
            size_t n = (size_t)(what & 0x3f) * 8 + (data[2] & 3), room = size - 4;
            n = n < room ? n : room;
            arrive(data[1], data[2], (int8_t)data[3], data + 4, n);
            data += 4 + n;
            size -= 4 + n;
        }
        if (!(what & 0x40))
            pass();
        check();
    }
    pass();
    check();
    count(before);
    return 0;
}
