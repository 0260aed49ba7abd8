/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of the software HCA compared with a sequential one: a program of requests, doorbells
 * with right and wrong records, keys that are registered and deregistered, and state changes, for a
 * queue pair whose peer is in the same process. After each run of the engine the memory at both
 * ends equals the result of the requests in order, and the completion ring has an entry for each
 * completed request, in order, with the expected index, opcode and syndrome.
 *
 * The engine's thread does not run (the linker takes engine_main() from here): this file executes
 * its passes, so that the same input always gives the same result. In adversarial mode the passes
 * continue until nothing happens for long. */
#include "tests/hca/client.h"

#include "standin/hca/context.h"

#include <stdlib.h>
#include <string.h>

enum { LOG_SQ = 4, BLOCKS = 1 << LOG_SQ, LOG_CQ = 6, WINDOW = 192, LOCAL = 256, QUIET_PASSES = 60 };
enum {
    GARBAGE = 0x3f,
    RST2INIT = 0x502,
    INIT2RTR = 0x503,
    RTR2RTS = 0x504,
    TO_ERROR = 0x507,
    TO_RESET = 0x50a
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void *__wrap_engine_main(void *device);

void *__wrap_engine_main(void *device)
{
    return NULL;
}

static struct client a, b;
static struct device *device;

/* The sequential engine. */
struct entry {
    uint16_t index;
    uint8_t opcode, syndrome;
    bool any_opcode; /* of a queue error, which belongs to no request */
};
static struct model {
    uint8_t here[LOCAL], there[WINDOW];
    uint16_t taken, producer, released, next;
    bool failed;
    struct request {
        uint8_t opcode, blocks, bytes;
        uint8_t syndrome; /* result without execution */
        bool signaled, is_inline;
        uint32_t key; /* 0: a key that is always valid */
        uint32_t at;  /* offset in the peer's window */
        uint8_t from;
        uint64_t value, compare;
    } slots[BLOCKS]; /* indexed by the first block */
    struct entry due[256];
    unsigned due_count;
} m;
static struct ibv_mr *spare;       /* for the peer's memory; NULL: deregistered */
static uint32_t spare_key = 0x100; /* the last key; initially a number that was never returned */
static uint64_t last_bell;
static uint8_t *window; /* the last bytes of the peer's memory */

static const uint8_t *input;
static size_t left;

static uint8_t take(void)
{
    return left ? left--, *input++ : 0;
}

static void expect(uint16_t index, uint8_t opcode, uint8_t syndrome, bool any_opcode)
{
    if (m.due_count == sizeof m.due / sizeof m.due[0])
        abort();
    m.due[m.due_count++] = (struct entry){index, opcode, syndrome, any_opcode};
}

/* ------------------------------------------------------------------------ the sequential engine */

static struct request *slot(uint16_t index)
{
    return &m.slots[index % BLOCKS];
}

static void flush(void)
{
    while (m.taken != m.producer) {
        const struct request *r = slot(m.taken);
        uint16_t rest = (uint16_t)(m.producer - m.taken), blocks = r->blocks ? r->blocks : 1;
        expect(m.taken, r->opcode, SYNDROME_FLUSHED, false);
        m.released = m.taken = (uint16_t)(m.taken + (blocks < rest ? blocks : rest));
    }
}

static void fail(uint8_t syndrome, bool any_opcode)
{
    const struct request *r = slot(m.taken);
    uint16_t rest = (uint16_t)(m.producer - m.taken), blocks = r->blocks ? r->blocks : 1;
    expect(m.taken, r->opcode, syndrome, any_opcode);
    m.released = m.taken = (uint16_t)(m.taken + (blocks < rest ? blocks : rest));
    m.failed = true;
    flush();
}

/* Executes a request as the peer's adapter would; returns a syndrome. */
static uint8_t carry_out(const struct request *r)
{
    uint64_t old, new;
    bool atomic = r->opcode == WQE_FETCH_ADD || r->opcode == WQE_COMPARE_SWAP;
    if (atomic && r->at % 8)
        return SYNDROME_REMOTE_INVALID_REQUEST;
    if ((r->key && (!spare || r->key != spare_key)) || r->at + r->bytes > WINDOW)
        return SYNDROME_REMOTE_ACCESS;
    if (r->opcode == WQE_WRITE) {
        memcpy(m.there + r->at, r->is_inline ? (const uint8_t *)&r->value : m.here + r->from,
               r->bytes);
    } else if (r->opcode == WQE_READ) {
        memcpy(m.here + r->from, m.there + r->at, r->bytes);
    } else {
        memcpy(&old, m.there + r->at, 8);
        new = r->opcode == WQE_FETCH_ADD ? old + r->value : old == r->compare ? r->value : old;
        memcpy(m.there + r->at, &new, 8);
        memcpy(m.here + r->from, &old, 8);
    }
    return SYNDROME_NONE;
}

static void model_run(void)
{
    if (m.failed)
        flush();
    while (!m.failed && m.taken != m.producer) {
        const struct request *r = slot(m.taken);
        uint8_t syndrome = r->syndrome;
        if (!syndrome && r->blocks > (uint16_t)(m.producer - m.taken))
            syndrome = SYNDROME_LOCAL_QP_OPERATION;
        if (!syndrome && r->opcode != WQE_NOP)
            syndrome = carry_out(r);
        if (syndrome) {
            fail(syndrome, false);
            return;
        }
        if (r->signaled)
            expect(m.taken, r->opcode, SYNDROME_NONE, false);
        m.taken = (uint16_t)(m.taken + r->blocks);
        if (r->signaled)
            m.released = m.taken;
    }
}

/* The effect of a doorbell with this index if the record has that value. */
static void model_doorbell(uint16_t index, uint16_t record)
{
    bool fault = (int16_t)(record - index) < 0;
    if (!fault && (int16_t)(record - index) > 0)
        index = record;
    if (!fault && (int16_t)(index - m.producer) <= 0)
        return;
    fault |= (uint16_t)(index - m.released) > BLOCKS;
    if (!fault)
        m.producer = index;
    model_run();
    if (fault && !m.failed)
        fail(SYNDROME_LOCAL_QP_OPERATION, true);
}

/* ------------------------------------------------------------------------------ the real engine */

static void engine_run(void)
{
    bool timed;
    for (unsigned idle = 0; idle < QUIET_PASSES; idle++) {
        pthread_mutex_lock(&device->threads.lock);
        if (engine_pass(device, &timed))
            idle = 0;
        pthread_mutex_unlock(&device->threads.lock);
        if (device->config->mode == MODE_STRICT && idle > 3)
            return;
    }
}

static void compare(void)
{
    struct mlx5_cqe64 e;
    for (unsigned i = 0; i < m.due_count; i++) {
        const struct entry *due = &m.due[i];
        struct mlx5_cqe64 *at = &a.cqes[a.consumer & ((1u << LOG_CQ) - 1)];
        if ((at->op_own & 1) != (a.consumer >> LOG_CQ & 1) || at->op_own >> 4 == MLX5_CQE_INVALID)
            abort(); /* a completion is missing */
        e = *at;
        a.consumer++;
        uint8_t opcode = (uint8_t)(be32toh(e.sop_drop_qpn) >> 24);
        if (be16toh(e.wqe_counter) != due->index || (!due->any_opcode && opcode != due->opcode))
            abort();
        if (due->syndrome
                ? e.op_own >> 4 != MLX5_CQE_REQ_ERR || as_error(&e)->syndrome != due->syndrome
                : e.op_own >> 4 != MLX5_CQE_REQ)
            abort();
    }
    m.due_count = 0;
    struct mlx5_cqe64 *next = &a.cqes[a.consumer & ((1u << LOG_CQ) - 1)];
    if (next->op_own >> 4 != MLX5_CQE_INVALID && (next->op_own & 1) == (a.consumer >> LOG_CQ & 1))
        abort(); /* one completion too many */
    a.cq_record[0] = htobe32(a.consumer & 0xffffff);
    if (memcmp(window, m.there, WINDOW) || memcmp(a.memory, m.here, LOCAL))
        abort();
}

/* ------------------------------------------------------------------------------------ steps */

static void restart(void)
{
    uint32_t consumer = a.consumer;
    if (client_move(&a, TO_RESET) || client_move(&b, TO_RESET))
        abort();
    memset(a.qp_record, 0, 8);
    *(uint64_t *)a.uar->reg_addr = last_bell = 0;
    engine_run(); /* the device forgets the last doorbell value */
    a.next = 0;
    if (client_connect(&a) || client_connect(&b))
        abort();
    a.consumer = consumer;
    m.taken = m.producer = m.released = m.next = 0;
    m.failed = false;
}

static void post(uint8_t kind)
{
    static const uint8_t opcodes[] = {WQE_WRITE,     WQE_WRITE,        WQE_WRITE, WQE_READ,
                                      WQE_FETCH_ADD, WQE_COMPARE_SWAP, WQE_NOP,   GARBAGE};
    uint8_t flags = take(), at = take(), bytes = take();
    struct request r = {.opcode = opcodes[kind % 8],
                        .signaled = flags & 1,
                        .key = flags & 2 ? spare_key : 0,
                        .is_inline = kind % 8 == 0,
                        .at = at % (WINDOW + 8),
                        .from = bytes & 0x78,
                        .value = 0x0101010101010101u * take(),
                        .compare = 0};
    bool atomic = r.opcode == WQE_FETCH_ADD || r.opcode == WQE_COMPARE_SWAP;
    /* Fetched data may arrive after the data of a later write were read, so it goes elsewhere. */
    r.from += atomic || r.opcode == WQE_READ ? LOCAL / 2 : 0;
    r.bytes = (uint8_t)(atomic || r.is_inline ? 8 : 1 + bytes % 8);
    static const uint8_t fences[] = {0, 0, MLX5_WQE_CTRL_FENCE,
                                     MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE};
    unsigned fence = fences[flags >> 2 & 3];
    struct wqe_maker w;
    wqe_begin(&w, &a, r.opcode, 0, (r.signaled ? MLX5_WQE_CTRL_CQ_UPDATE : 0) | fence, 0);
    if (r.opcode != WQE_NOP && r.opcode != GARBAGE)
        wqe_remote(&w, (uintptr_t)window + r.at, r.key ? r.key : b.mr->rkey);
    if (atomic) {
        wqe_long(&w, r.value);
        wqe_long(&w, r.compare);
    }
    if (r.is_inline)
        wqe_inline(&w, &r.value, r.bytes);
    else if (r.opcode != WQE_NOP && r.opcode != GARBAGE)
        wqe_data(&w, (uintptr_t)a.memory + r.from, r.bytes, a.mr->lkey);
    r.blocks = (uint8_t)((w.units + 3) / 4);
    if ((uint16_t)(a.next + r.blocks - m.released) > BLOCKS)
        return; /* no room: slots are not reused before they are released */
    if (r.opcode == GARBAGE)
        r.syndrome = SYNDROME_LOCAL_QP_OPERATION;
    uint16_t index = wqe_end(&w);
    if ((flags & 0xf0) == 0xf0) { /* changes the index or the queue number */
        a.ring[(size_t)(index % BLOCKS) * 64 + (flags & 1 ? 2 : 6)] ^= 1;
        r.syndrome = SYNDROME_LOCAL_QP_OPERATION;
    }
    *slot(index) = r;
    m.next = a.next;
}

static void doorbell(uint8_t how)
{
    uint16_t index = a.next, record = a.next;
    if (how % 8 == 1)
        record--;
    if (how % 8 == 2)
        index = (uint16_t)(a.next - 1);
    if (how % 16 == 3)
        index = record = (uint16_t)(m.released + BLOCKS + 1);
    a.qp_record[1] = htobe32(record);
    uint32_t wakeup[2] = {htobe32((uint32_t)index << 8), htobe32(a.qpn << 8)};
    memcpy(a.uar->reg_addr, wakeup, 8);
    uint64_t value;
    memcpy(&value, wakeup, 8);
    /* A register with the same value as before is no doorbell. */
    if (value != last_bell)
        model_doorbell(index, record);
    last_bell = value;
    engine_run();
    compare();
}

static void key(void)
{
    if (spare) {
        if (ibv_dereg_mr(spare))
            abort();
        spare = NULL;
    } else {
        spare = ibv_reg_mr(b.pd, b.memory, CLIENT_MEMORY, 15);
        spare_key = spare->rkey;
    }
}

static void open_once(void)
{
    struct client_options o = {.log_sq = LOG_SQ, .log_cq = LOG_CQ, .ring = true};
    setenv("SOFT_HCA_LOG", "none", 1);
    if (client_open(&a, &o) || client_open(&b, &o))
        abort();
    device = context_of(a.context)->device;
    client_pair(&a, &b);
    if (client_connect(&a) || client_connect(&b))
        abort();
    window = b.memory + CLIENT_MEMORY - WINDOW;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input = data;
    left = size;
    if (!device)
        open_once();
    restart();
    if (spare)
        key();
    for (unsigned i = 0; i < LOCAL; i++)
        m.here[i] = (uint8_t)(i * 7 + 1);
    memset(m.there, 0x22, WINDOW);
    memcpy(a.memory, m.here, LOCAL);
    memcpy(window, m.there, WINDOW);
    while (left) {
        uint8_t what = take();
        if (what < 0xa0)
            post(what);
        else if (what < 0xe0)
            doorbell(what);
        else if (what < 0xec)
            key();
        else if (what < 0xf8)
            restart();
        else if (!client_move(&a, TO_ERROR)) {
            m.failed = true;
            model_run();
            engine_run();
            compare();
        }
    }
    return 0;
}
