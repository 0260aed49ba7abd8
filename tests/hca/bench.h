/* SPDX-License-Identifier: Apache-2.0 */
/* A software HCA without threads, clock and peers. A test calls its functions one by one, acts as
 * the peer at the far ends of its links' rings, and logs what it sees. Mocks replace the modules
 * around the engine: links, the RoCE wire, GPU memory. */
#ifndef WEFT_TESTS_HCA_BENCH_H
#define WEFT_TESTS_HCA_BENCH_H

#include "gpu/memory.h"
#include "hca.h"
#include "link_mocks.h"
#include "send.h"
#include "trace.h"

#include <time.h>

enum {
    LOCAL_LID = 5,
    REMOTE_LID = 9,
    REMOTE_QPN = REMOTE_LID << 12 | 0x123,
    RING_DATA = 1 << 16,
    MEMORY_BYTES = 1 << 17,
    MEMORY = 0x100000,     /* its address in keys */
    FAR_MEMORY = 0x200000, /* the second half, as GPU memory */
    LKEY = 0x11 << 8 | 0x7,
    RKEY = 0x12 << 8 | 0x9,
    FAR_KEY = 0x13 << 8 | 0xb,
    OTHER_DOMAIN_KEY = 0x14 << 8 | 0xd,
    RELAXED_KEY = 0x15 << 8 | 0x1,
    DOMAIN = 3,
    CQ_LOG = 6,
    QUEUES = 4,
    BLOCKS = 8,
    HAS_RING = 1 << 16,
};

/* The two rings of a link and their far ends, as the peer sees them. */
struct bench_rings {
    uint64_t requests[(sizeof(struct ring_shared) + RING_DATA) / 8] __attribute__((aligned(64)));
    uint64_t responses[(sizeof(struct ring_shared) + RING_DATA) / 8] __attribute__((aligned(64)));
    struct ring far_requests, far_responses;
    uint32_t wakeup[4];
};

static struct config config;
static struct device device;
static struct mr_entry entries[MAX_MRS];
static uint8_t memory[MEMORY_BYTES] __attribute__((aligned(64)));
static uint8_t memory_before[MEMORY_BYTES];
static uint32_t wakeup[4];
static struct bench_rings out_rings[2], in_rings;
static struct link_out links_out[2];
static struct link_in link_in;
static struct cq cqs[2];
static uint8_t cq_buffers[2][64 << CQ_LOG] __attribute__((aligned(64)));
static uint32_t cq_records[2][2], cq_seen[2];
static struct uar uars[3];
static uint64_t uar_registers[3];
static uint8_t queue_rings[QUEUES][BLOCKS * 64] __attribute__((aligned(64)));
static uint32_t queue_records[QUEUES][2];
static uint16_t queue_next[QUEUES];
static unsigned queue_count;
static uint64_t lines_seen;
static unsigned changes, rings_of_bell;
static uint64_t bench_clock;

/* Mock results. */
static uint32_t wire_window;           /* roce_window() of links over the wire */
static uint32_t wire_address;          /* roce_address() */
static enum roce_peer_kind wire_other; /* roce_query_peer() */
static unsigned far_puts, far_gets, far_settles, far_fail_at; /* 0: none fails */
static bool far_is_held;

/* --- Replaces link.c, roce.c, device.c, verbs/device.c, gpu/memory.c and the clock --- */

void device_changes(struct device *d)
{
    assert_ptr_equal(d, &device);
    changes++;
}

void device_lock(struct device *d)
{
    pthread_mutex_lock(&d->threads.lock);
}

void device_unlock(struct device *d)
{
    pthread_mutex_unlock(&d->threads.lock);
}

void link_wake_engine(uint32_t *at)
{
    rings_of_bell += at == in_rings.wakeup || at == out_rings[0].wakeup ? 1 : 100;
}

void link_attach(struct device *d, struct qp *qp, struct link_out *link)
{
    (void)d;
    qp->requester.link = link;
    if (link)
        link->users++;
}

void link_release(struct device *d, struct qp *qp)
{
    (void)d;
    if (qp->requester.link)
        qp->requester.link->users--;
    qp->requester.link = NULL;
}

uint32_t address_of_gid(const uint8_t *gid)
{
    return (uint32_t)gid[12] << 24 | (uint32_t)gid[13] << 16 | (uint32_t)gid[14] << 8 | gid[15];
}

uint32_t roce_window(const struct qp *qp)
{
    return qp->requester.link && qp->requester.link->roce ? wire_window : 0;
}

uint32_t roce_address(const struct device *d)
{
    (void)d;
    return wire_address;
}

enum roce_peer_kind roce_query_peer(struct qp *qp)
{
    return qp->requester.link->roce ? wire_other : ROCE_PEER_SOFT;
}

bool gpu_memory_holds(uint64_t address)
{
    return far_is_held && address - (uintptr_t)memory >= MEMORY_BYTES / 2 &&
           address - (uintptr_t)memory < MEMORY_BYTES;
}

static inline int far_result(void)
{
    return far_fail_at && far_puts + far_gets + far_settles == far_fail_at ? 719 : 0;
}

int gpu_memory_put(uint64_t to, const void *from, size_t bytes)
{
    assert_true(gpu_memory_holds(to));
    far_puts++;
    if (!far_result())
        memcpy((void *)(uintptr_t)to, from, bytes);
    return far_result();
}

int gpu_memory_get(void *to, uint64_t from, size_t bytes)
{
    assert_true(gpu_memory_holds(from));
    far_gets++;
    if (!far_result())
        memcpy(to, (const void *)(uintptr_t)from, bytes);
    return far_result();
}

int gpu_memory_flush(void)
{
    if (!far_is_held)
        return 0;
    far_settles++;
    return far_result();
}

int __wrap_clock_gettime(clockid_t which, struct timespec *t);
int __wrap_clock_gettime(clockid_t which, struct timespec *t)
{
    assert_int_equal(which, CLOCK_MONOTONIC);
    *t = (struct timespec){(time_t)(bench_clock / 1000000000), (long)(bench_clock % 1000000000)};
    return 0;
}

/* --- Set-up --- */

static inline void ring_make(struct ring *near, struct ring *far, void *at, uint64_t size)
{
    memset(at, 0, sizeof(struct ring_shared) + RING_DATA);
    *near = *far = (struct ring){.shared = at, .size = size};
}

static inline void key_make(uint32_t key, uint32_t pd, uint32_t access, uint64_t address,
                            uint32_t offset, uint32_t bytes)
{
    entries[key >> 8] = (struct mr_entry){
        address, bytes, (uintptr_t)memory + offset, pd, access, (uint8_t)key, true};
}

static inline void fill_memory(void)
{
    for (unsigned i = 0; i < MEMORY_BYTES; i++)
        memory[i] = memory_before[i] = (uint8_t)(i * 7 + i / 251 + 1);
}

static inline void bench_begin(void)
{
    const uint32_t remote = MR_LOCAL_WRITE | MR_REMOTE_READ | MR_REMOTE_WRITE | MR_REMOTE_ATOMIC;
    config = (struct config){.mode = MODE_STRICT, .log = LOG_NONE, .ring_kib = 64, .seed = 1};
    /* Short writes are not combined unless a test wants it. */
    config.fail_at = 1u << 30;
    memset(&device, 0, sizeof device);
    pthread_mutex_init(&device.threads.lock, NULL);
    device.config = &config;
    device.lid = LOCAL_LID;
    device.random = 1;
    device.threads.wakeup = wakeup;
    device.objects.uar_top = 1;
    device.objects.keys = (struct mr_table){entries, MAX_MRS};
    bench_clock = device.now = 5000000000;
    memset(entries, 0, sizeof entries);
    key_make(LKEY, DOMAIN, MR_LOCAL_WRITE, MEMORY, 0, MEMORY_BYTES / 2);
    key_make(RKEY, DOMAIN, remote, MEMORY, 0, MEMORY_BYTES / 2);
    key_make(FAR_KEY, DOMAIN, remote, FAR_MEMORY, MEMORY_BYTES / 2, MEMORY_BYTES / 2);
    key_make(OTHER_DOMAIN_KEY, DOMAIN + 1, remote, MEMORY, 0, MEMORY_BYTES / 2);
    key_make(RELAXED_KEY, DOMAIN, remote | MR_RELAXED_ORDERING, MEMORY, 0, MEMORY_BYTES / 2);
    fill_memory();
    memset(queue_records, 0, sizeof queue_records);
    memset(queue_next, 0, sizeof queue_next);
    memset(queue_rings, 0, sizeof queue_rings);
    memset(cq_records, 0, sizeof cq_records);
    memset(cq_seen, 0, sizeof cq_seen);
    memset(cq_buffers, 0xff, sizeof cq_buffers);
    memset(uars, 0, sizeof uars);
    memset(uar_registers, 0, sizeof uar_registers);
    memset(links_out, 0, sizeof links_out);
    memset(&link_in, 0, sizeof link_in);
    for (unsigned i = 0; i < 2; i++) {
        struct bench_rings *r = &out_rings[i];
        ring_make(&links_out[i].requests, &r->far_requests, r->requests, RING_DATA);
        ring_make(&links_out[i].responses, &r->far_responses, r->responses, RING_DATA);
        links_out[i].address = REMOTE_LID + i;
        links_out[i].wakeup = r->wakeup;
        links_out[i].fd = -1;
        device.links.out[device.links.out_count++] = &links_out[i];
        cqs[i] = (struct cq){.device = &device,
                             .cqn = 0x21 + i,
                             .buffer = cq_buffers[i],
                             .log_size = CQ_LOG,
                             .record = cq_records[i]};
    }
    ring_make(&link_in.requests, &in_rings.far_requests, in_rings.requests, RING_DATA);
    ring_make(&link_in.responses, &in_rings.far_responses, in_rings.responses, RING_DATA);
    link_in.address = REMOTE_LID;
    link_in.wakeup = in_rings.wakeup;
    link_in.fd = -1;
    device.links.in[device.links.in_count++] = &link_in;
    for (unsigned i = 0; i < 3; i++) {
        uars[i] = (struct uar){.device = &device, .page_id = i + 1, .reg = &uar_registers[i]};
        device.objects.uars[i + 1] = &uars[i];
    }
    device.objects.uar_top = 4;
    queue_count = 0;
    lines_seen = 0;
    changes = requested_link = rings_of_bell = 0;
    wire_window = 0;
    wire_other = ROCE_PEER_UNKNOWN;
    far_puts = far_gets = far_settles = far_fail_at = 0;
    far_is_held = false;
}

static inline void bench_end(void)
{
    for (unsigned i = 0; i < MAX_QPS; i++)
        if (device.objects.qps[i])
            qp_remove(device.objects.qps[i]);
    free(link_in.delayed.writes);
    free(device.pending.apart.writes);
    pthread_mutex_destroy(&device.threads.lock);
}

/* A queue in RTS, connected to REMOTE_QPN over the first link. */
static inline struct qp *queue_make(enum qp_type type)
{
    unsigned n = queue_count++;
    struct qp *qp = qp_add(&device);
    assert_true(n < QUEUES);
    assert_non_null(qp);
    assert_true(qp_set_ring(qp, queue_rings[n], BLOCKS));
    qp->type = type;
    qp->pd = DOMAIN;
    qp->user_index = 0xabc000 + n;
    qp->send_cq = &cqs[0];
    qp->receive_cq = &cqs[1];
    cqs[0].users++;
    cqs[1].users++;
    qp->uar = &uars[0];
    uars[0].queues++;
    qp->record = queue_records[n];
    qp->state = QP_RTS;
    qp->requester.mtu = 256;
    qp->requester.psn = qp->requester.acked = qp->requester.psn_limit = 0xfffffd;
    qp->requester.max_reads = 2;
    qp->requester.retries = qp->requester.retry_count = 2;
    qp->requester.rnr_tries = qp->requester.rnr_retry = 1;
    qp->requester.timeout = 10;
    qp->access = MR_REMOTE_READ | MR_REMOTE_WRITE | MR_REMOTE_ATOMIC;
    qp->rnr_timer = 13;
    if (type == QP_RC) {
        qp->requester.remote_qpn = REMOTE_QPN + n;
        qp->requester.remote = REMOTE_LID;
        link_attach(&device, qp, &links_out[0]);
        qp->responder.qpn = qp->requester.remote_qpn;
        qp->responder.from = REMOTE_LID;
        qp->responder.expected_psn = 0xfffffe;
        qp->responder.ack_psn = 0xfffffd;
    }
    return qp;
}

/* --- Requests --- */

static inline uint32_t big(uint32_t v)
{
    return __builtin_bswap32(v);
}

static inline unsigned place_of(const struct qp *qp)
{
    return (qp->qpn & 0xfff) - 1;
}

static uint32_t request_words[64 * 4 + 16];
static unsigned request_words_used;

static inline void put_word(uint32_t v)
{
    request_words[request_words_used++] = big(v);
}

static inline void put_long(uint64_t v)
{
    put_word((uint32_t)(v >> 32));
    put_word((uint32_t)v);
}

static inline void request_begin(const struct qp *qp, unsigned opcode, unsigned modifier,
                                 unsigned flags)
{
    memset(request_words, 0, sizeof request_words);
    request_words_used = 0;
    put_word(modifier << 24 | (uint32_t)queue_next[place_of(qp)] << 8 | opcode);
    put_word(qp->qpn << 8);
    put_word(flags);
    request_words[request_words_used++] = 0x04030201;
}

static inline void put_remote(uint64_t address, uint32_t key)
{
    put_long(address);
    put_word(key);
    put_word(0);
}

static inline void put_segment(uint64_t address, uint32_t bytes, uint32_t key)
{
    put_word(bytes);
    put_word(key);
    put_long(address);
}

static inline void put_inline(uint32_t bytes)
{
    put_word(bytes | 1u << 31);
    uint8_t *at = (uint8_t *)(request_words + request_words_used);
    for (unsigned i = 0; i < bytes; i++)
        at[i] = (uint8_t)(i * 3 + bytes);
    request_words_used = (request_words_used + (bytes + 3) / 4 + 3) / 4 * 4;
}

/* Writes the address of a DC initiator's request. */
static inline void put_address(uint64_t key, uint32_t number, uint16_t lid)
{
    put_long(key);
    put_word(number);
    put_word(lid);
}

static inline uint16_t request_end(const struct qp *qp)
{
    unsigned n = place_of(qp), units = request_words_used / 4, blocks = (units + 3) / 4;
    uint16_t index = queue_next[n];
    request_words[1] |= big(units);
    for (unsigned i = 0; i < blocks; i++)
        memcpy(queue_rings[n] + (index + i) % BLOCKS * 64, request_words + 16 * i, 64);
    queue_next[n] = (uint16_t)(index + blocks);
    return index;
}

enum { COMPLETES = 2 << 2, QUIET = 0 };

static inline void post_nop(const struct qp *qp, unsigned flags)
{
    request_begin(qp, WQE_NOP, 0, flags);
    request_end(qp);
}

static inline void post_write(const struct qp *qp, uint32_t bytes, unsigned flags)
{
    request_begin(qp, WQE_WRITE, 0, flags);
    put_remote(0x7700000000 + bytes, 0x5501);
    put_segment(MEMORY + bytes, bytes, LKEY);
    request_end(qp);
}

static inline void post_inline(const struct qp *qp, uint32_t bytes, unsigned flags)
{
    request_begin(qp, WQE_WRITE, 0, flags);
    put_remote(0x6600000000 + bytes, 0x5502);
    put_inline(bytes);
    request_end(qp);
}

static inline void post_send(const struct qp *qp, unsigned opcode, uint32_t bytes, unsigned flags)
{
    request_begin(qp, opcode, 0, flags);
    put_segment(MEMORY + 3 * bytes, bytes, LKEY);
    request_end(qp);
}

static inline void post_read(const struct qp *qp, uint32_t bytes, unsigned flags)
{
    request_begin(qp, WQE_READ, 0, flags);
    put_remote(0x5500000000 + bytes, 0x5503);
    put_segment(MEMORY + 0x1000, bytes, LKEY);
    request_end(qp);
}

static inline void post_fetch_add(const struct qp *qp, uint64_t operand, unsigned flags)
{
    request_begin(qp, WQE_FETCH_ADD, 0, flags);
    put_remote(0x4400000000, 0x5504);
    put_long(operand);
    put_long(0);
    put_segment(MEMORY + 0x2000, 8, LKEY);
    request_end(qp);
}

/* Posts a masked atomic of 4 bytes. */
static inline void post_masked(const struct qp *qp, unsigned flags)
{
    request_begin(qp, WQE_MASKED_COMPARE_SWAP, 8, flags);
    put_remote(0x4400000004, 0x5505);
    put_word(0x11);
    put_word(0x22);
    put_word(0x33);
    put_word(0x44);
    put_segment(MEMORY + 0x2100, 4, LKEY);
    request_end(qp);
}

static inline uint64_t doorbell_of(uint32_t qpn, uint16_t index)
{
    uint32_t words[2] = {big((uint32_t)index << 8), big(qpn << 8)};
    uint64_t value;
    memcpy(&value, words, 8);
    return value;
}

/* Updates the record and the doorbell for all posted requests. */
static inline void ring_doorbell(struct qp *qp)
{
    unsigned n = place_of(qp);
    queue_records[n][1] = big(queue_next[n]);
    send_doorbell(qp->uar, doorbell_of(qp->qpn, queue_next[n]));
}

/* --- Logging --- */

static inline void say_packet(const struct packet *p)
{
    say("  packet %u flags %02x mtu %u to %x from %x psn %06x length %u rkey %x word %x "
        "messages %x at %llx: ",
        p->kind, p->flags, p->mtu, p->to_qpn, p->from_qpn, p->psn, p->length, p->rkey, p->immediate,
        p->msn, (unsigned long long)p->address);
    say_bytes(p + 1, p->bytes);
    say("\n");
}

/* Logs the packets in a ring that this side reads. */
static inline void say_ring(struct ring *far)
{
    const struct packet *p;
    bool broken = false;
    while ((p = ring_peek(far, &broken))) {
        say_packet(p);
        ring_consume(far, p);
    }
    assert_false(broken);
    ring_release(far);
}

static inline void say_completions(void)
{
    for (unsigned i = 0; i < 2; i++) {
        for (; cq_seen[i] != cqs[i].producer; cq_seen[i]++) {
            unsigned at = cqs[i].collapsed ? 0 : cq_seen[i] % (1 << CQ_LOG);
            const uint8_t *e = cq_buffers[i] + at * 64;
            uint32_t w[16];
            memcpy(w, e, 64);
            say("  cq %u entry %u: number %x word %x bytes %u stamp %x.%x "
                "vendor %x syndrome %x request %x index %x %x own %x\n",
                i, cq_seen[i], big(w[8]), w[9], big(w[11]), big(w[12]), big(w[13]), e[54], e[55],
                big(w[14]), e[60] << 8 | e[61], e[62], e[63]);
            for (unsigned k = 0; k < 8; k++)
                assert_int_equal(w[k], 0);
            if (cqs[i].collapsed)
                cq_seen[i] = cqs[i].producer - 1;
        }
        cq_records[i][0] = big(cq_seen[i] & 0xffffff);
    }
}

static inline void say_memory(void)
{
    for (unsigned i = 0, end; i < MEMORY_BYTES; i = end + 1) {
        for (end = i; end < MEMORY_BYTES && memory[end] != memory_before[end]; end++)
            ;
        if (end == i)
            continue;
        say("  memory %x: ", i);
        say_bytes(memory + i, end - i);
        say("\n");
    }
    memcpy(memory_before, memory, sizeof memory);
}

/* Replaces process addresses of GPU memory. */
static inline void say_log(void)
{
    for (; lines_seen < device.record.line_count; lines_seen++) {
        const struct log_line *l = &device.record.lines[lines_seen % LOG_LINES];
        const char *at = strstr(l->text, "GPU memory at 0x");
        unsigned long long address = at ? strtoull(at + 14, NULL, 16) : 0;
        say("  log %llu: ", (unsigned long long)l->number);
        if (address)
            say("%.*s%llx%s\n", (int)(at + 14 - l->text), l->text, address - (uintptr_t)memory,
                at + 14 + strcspn(at + 14, " "));
        else
            say("%s\n", l->text);
    }
}

static inline void say_stream(const struct responder *s)
{
    say("  stream %x from %u: expected %06x said %06x messages %u", s->qpn, s->from,
        s->expected_psn, s->ack_psn, s->msn);
    if (s->nak_sent | s->ack_pending | s->receiving)
        say("%s%s%s", s->nak_sent ? " refused" : "", s->ack_pending ? " acknowledge" : "",
            s->receiving ? " receiving" : "");
    if (s->message)
        say(" message %u rkey %x rest %u at %llx", s->message, s->rkey, s->rest,
            (unsigned long long)s->address);
    if (s->receiving)
        say(" received %u of entry %x", s->received, s->receive_index);
    say("\n");
}

static inline void say_queue(const struct qp *qp)
{
    say("  qp %x state %u blocks %x/%x/%x%s psn %06x/%06x/%06x reads %u", qp->qpn, qp->state,
        qp->send.released, qp->send.taken, qp->send.producer, qp->send.listed ? " listed" : "",
        qp->requester.acked, qp->requester.psn, qp->requester.psn_limit, qp->send.reads);
    for (uint32_t i = qp->send.outstanding_head; i != qp->send.outstanding_tail; i++) {
        const struct outstanding *f = &qp->send.outstanding[i & qp->send.outstanding_mask];
        say(" [%x %02x %06x-%06x %u/%u blocks %u complete %u%s]", f->index, f->opcode, f->first_psn,
            f->last_psn, f->received, f->length, f->blocks, f->complete,
            f->solicited ? " solicited" : "");
    }
    if (qp->current.loaded)
        say(" busy%s at %u", qp->current.outstanding ? " begun" : "", qp->current.offset);
    if (qp->current.resume_packets)
        say(" resume %u", qp->current.resume_packets);
    if (qp->send.fault.syndrome)
        say(" fault %x %x", qp->send.fault.syndrome, qp->send.fault.vendor);
    if (qp->requester.late_nak)
        say(" late %x %06x", qp->requester.late_nak, qp->requester.late_nak_psn);
    if (qp->requester.response_lost | qp->requester.opens_dc)
        say("%s%s", qp->requester.response_lost ? " gap" : "",
            qp->requester.opens_dc ? " opens" : "");
    if (qp->requester.window)
        say(" window %u", qp->requester.window);
    if (qp->requester.wait_until)
        say(" waits %lld", (long long)(qp->requester.wait_until - device.now));
    if (qp->requester.loss_noticed_at)
        say(" lost %lld", (long long)(qp->requester.loss_noticed_at - device.now));
    if (qp->requester.retransmissions)
        say(" resends %u at %lld", qp->requester.retransmissions,
            (long long)(qp->requester.retransmit_at - device.now));
    say(" tries %u %u counts %llu %llu %llu %llu %llu %llu\n", qp->requester.retries,
        qp->requester.rnr_tries, (unsigned long long)qp->counts.requests,
        (unsigned long long)qp->counts.bytes, (unsigned long long)qp->counts.completions,
        (unsigned long long)qp->counts.received, (unsigned long long)qp->counts.errors,
        (unsigned long long)qp->counts.retries);
    if (qp->state == QP_RTR || qp->responder.expected_psn != 0xfffffe || qp->responder.nak_sent ||
        qp->responder.receiving)
        say_stream(&qp->responder);
    for (const struct responder *s = qp->responder.next; s; s = s->next)
        say_stream(s);
}

/* say_queue_once: logs the queue if it has changed since the last time. */
static inline void say_queue_once(const struct qp *qp)
{
    static char before[QUEUES][4096];
    size_t from = used;
    char *last = before[place_of(qp)];
    say_queue(qp);
    if (!strcmp(text + from, last))
        text[used = from] = '\0';
    else
        snprintf(last, sizeof before[0], "%s", text + from);
}

/* Logs all that happened since the last time. */
static inline void look(const char *what)
{
    say("%s\n", what);
    for (unsigned i = 0; i < 2; i++) {
        if (links_out[i].unpublished)
            ring_publish(&links_out[i].requests);
        links_out[i].unpublished = false;
        say_ring(&out_rings[i].far_requests);
    }
    say_ring(&in_rings.far_responses);
    say_completions();
    say_memory();
    say_log();
    for (unsigned i = 0; i < queue_count; i++)
        if (device.objects.qps[i + 1])
            say_queue_once(device.objects.qps[i + 1]);
    if (changes | requested_link | rings_of_bell)
        say("  changes %u wanted %u rings %u\n", changes, requested_link, rings_of_bell);
    if (far_puts | far_gets)
        say("  far puts %u gets %u\n", far_puts, far_gets);
    changes = requested_link = rings_of_bell = 0;
}

static inline void run(struct qp *qp, const char *what)
{
    bool worked = send_run(qp);
    char line[160];
    snprintf(line, sizeof line, "%s%s", what, worked ? " (worked)" : "");
    look(line);
}

/* Rings the doorbell and runs the queue. */
static inline void go(struct qp *qp, const char *what)
{
    ring_doorbell(qp);
    run(qp, what);
}

/* Puts an answer of the peer to that queue into the ring. */
static inline void put_answer(struct qp *qp, struct packet p, const void *payload)
{
    struct bench_rings *r = &out_rings[0];
    struct packet *to = ring_reserve(&r->far_responses, p.bytes);
    assert_non_null(to);
    if (!p.to_qpn)
        p.to_qpn = qp->qpn;
    if (!p.from_qpn)
        p.from_qpn = qp->requester.remote_qpn;
    *to = p;
    if (payload)
        memcpy(to + 1, payload, p.bytes);
    ring_commit(&r->far_responses, to);
    ring_publish(&r->far_responses);
}

static inline void take_answers(const char *what)
{
    char line[160];
    bool worked = send_handle_responses(&links_out[0], &device);
    assert_int_equal(links_out[0].responses.shared->head, links_out[0].responses.own);
    snprintf(line, sizeof line, "%s%s", what, worked ? " (answers)" : "");
    look(line);
}

static inline void acked(struct qp *qp, uint32_t psn, const char *what)
{
    put_answer(qp, (struct packet){.kind = PACKET_ACK, .psn = psn & 0xffffff}, NULL);
    take_answers(what);
}

static inline void refused(struct qp *qp, uint32_t psn, uint32_t why, const char *what)
{
    put_answer(
        qp,
        (struct packet){.kind = PACKET_NAK, .psn = psn & 0xffffff, .immediate = why, .length = 37},
        NULL);
    take_answers(what);
}

#endif
