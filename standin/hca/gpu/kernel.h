/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU engine's kernel. A thread block polls the doorbells of its queues, reads whole blocks of
 * WQEs, checks each as strict mode does, and executes writes, reads and atomics on memory that its
 * GPU can access. If a queue contains anything else, or a faulty WQE, the kernel returns the queue
 * to the host's engine (gpu/engine.c). The same text compiles for GPUs and CPUs: gpu/lanes.h
 * defines what a thread block is. Accesses to memory that others use while the kernel runs bypass
 * the L1 cache.
 *
 * Order: the stores of a batch of WQEs are visible before its completion and before later WQEs run.
 * Within a batch, only writes with relaxed ordering run in parallel, and so do reads, and atomics
 * on such memory. A WQE with a fence, or of another kind than the one before it, waits until all
 * earlier stores are visible. */
#ifndef WEFT_HCA_GPU_KERNEL_H
#define WEFT_HCA_GPU_KERNEL_H

#include "gpu/lanes.h"
#include "gpu/queue.h"
#include "mr.h"
#include "wqe.h"

enum {
    BATCH = 256,         /* blocks of a queue that are processed together */
    QUEUES_A_BLOCK = 32, /* queues of a thread block */
    SMALL = 32,          /* most bytes that one thread moves alone */
    PIECE = 1 << 20,     /* bytes of a long request that are moved between checks of the clock */
    WARP = 32,
    /* words from one block of the batch to the next, chosen to reduce bank conflicts */
    STRIDE = 20,
    UNITS_IN_LINE = STRIDE / 4, /* contiguous units of a WQE in the batch */
    IDLE_NS = 100,
    STOP_NS = 20000, /* ns between checks of the host's stop word */
};

enum kind { KIND_NONE, KIND_NOP, KIND_WRITE, KIND_INLINE, KIND_READ, KIND_ATOMIC };

/* A WQE to be executed. */
struct work {
    uint64_t to, from; /* for KIND_INLINE, `from` is a byte offset in the batch */
    uint32_t bytes;
    uint16_t part; /* part of the batch; parts run one after another */
    uint8_t kind, complete, waits, opcode, blocks, parked, pad[4];
};

/* The words of each block are followed by a copy of the next block's first unit. */
struct shared {
    uint32_t words[BATCH * STRIDE] __attribute__((aligned(16)));
    struct work work[BATCH];
    uint64_t bell[QUEUES_A_BLOCK];
    uint32_t bad, last, completes, parts, requests, run, end, attention;
    uint32_t longers; /* number of WQEs in `longer`, which a warp moves together */
    uint64_t bytes;
    uint16_t longer[BATCH], jump[2][BATCH];
    uint8_t begins[BATCH];
    uint16_t taken;
};

/* --- Reading the batch --- */

LANES_FN void keep_unit(struct shared *s, uint32_t i, struct lanes_16 v)
{
    uint32_t *to = &s->words[i / 4 * STRIDE + i % 4 * 4];
    lanes_put_16(to, v);
    if (i && i % 4 == 0)
        lanes_put_16(to - 4, v);
}

/* Each thread has four loads in flight. */
LANES_FN void load_batch(struct shared *s, const struct gpu_queue *q, uint32_t n)
{
    for (uint32_t first = lanes_rank(); first < n * 4; first += 4 * LANES) {
        struct lanes_16 v[4];
        for (uint32_t k = 0, i = first; k < 4; k++, i += LANES) {
            uint32_t slot = (s->taken + i / 4) & (q->blocks - 1);
            if (i < n * 4)
                v[k] = lanes_load_16(q->ring + (uint64_t)slot * WQE_BLOCK_BYTES + i % 4 * 16);
        }
        for (uint32_t k = 0, i = first; k < 4; k++, i += LANES)
            if (i < n * 4)
                keep_unit(s, i, v[k]);
    }
}

LANES_FN uint32_t blocks_at(const struct shared *s, uint32_t i)
{
    uint32_t blocks = wqe_blocks(wqe_u32(&s->words[i * STRIDE], 1) & 0x3f);
    return blocks ? blocks : 1;
}

/* Computes s->begins: 1 where a WQE begins. After round k, the targets of chains of 2^k WQEs are
 * known. */
LANES_FN void find_begins(struct shared *s, uint32_t n)
{
    for (uint32_t i = lanes_rank(); i < n; i += LANES) {
        s->begins[i] = !i;
        s->jump[0][i] = (uint16_t)(i + blocks_at(s, i));
    }
    lanes_meet();
    for (uint32_t reach = 1, round = 0; reach < n; reach *= 2, round = !round) {
        const uint16_t *jump = s->jump[round];
        for (uint32_t i = lanes_rank(); i < n; i += LANES) {
            uint32_t to = jump[i];
            if (to < n && s->begins[i])
                s->begins[to] = 1;
            s->jump[!round][i] = to < n ? jump[to] : (uint16_t)n;
        }
        lanes_meet();
    }
}

/* Marks where WQEs begin. s->end receives the number of blocks of complete WQEs. */
LANES_FN void find_requests(struct shared *s, uint32_t n)
{
    int single = 1;
    uint32_t end = 0;
    for (uint32_t i = lanes_rank(); i < n; i += LANES) {
        s->work[i].kind = KIND_NOP;
        single &= blocks_at(s, i) == 1;
    }
    single = lanes_all(single);
    if (!single)
        find_begins(s, n);
    for (uint32_t i = lanes_rank(); i < n && !single; i += LANES) {
        if (!s->begins[i])
            s->work[i].kind = KIND_NONE;
        else if (i + blocks_at(s, i) <= n)
            end = i + blocks_at(s, i);
    }
    lanes_most(&s->end, single ? n : end);
    lanes_meet();
}

/* --- Checking --- */

/* Returns 0 if the key is not in the table. */
LANES_FN const struct gpu_key *find_key(const struct gpu_key *keys, uint32_t number, uint32_t key)
{
    uint64_t name = (uint64_t)number << 32 | key;
    for (uint32_t at = gpu_key_place(name);; at = (at + 1) & (GPU_KEYS - 1)) {
        if (keys[at].name == name)
            return &keys[at];
        if (!keys[at].name)
            return 0;
    }
}

/* Why the kernel does not execute a WQE. */
struct refusal {
    uint32_t parked;
    uint64_t lacks;
};

LANES_FN int reach(const struct gpu_key *keys, uint32_t number, uint32_t key, uint32_t need,
                   uint64_t address, uint64_t bytes, uint64_t *memory, uint32_t *access,
                   struct refusal *why)
{
    const struct gpu_key *k = find_key(keys, number, key);
    if (!k) {
        why->parked = GPU_LACKS_KEY;
        why->lacks = (uint64_t)number << 32 | key;
        return 0;
    }
    if ((k->access & need) != need || address < k->address || bytes > k->bytes ||
        address - k->address > k->bytes - bytes)
        return 0;
    *memory = k->memory + (address - k->address);
    *access = k->access;
    return 1;
}

/* Checks a write or read of one segment. */
LANES_FN int check_move(const struct gpu_queue *q, const struct gpu_key *keys, const uint32_t *w,
                        uint32_t units, uint32_t at, struct work *r, uint32_t *access,
                        struct refusal *why)
{
    int reads = r->opcode == WQE_READ;
    uint32_t count = wqe_u32(w, 8), near;
    uint64_t remote = wqe_u64(w, 4);
    uint32_t rkey = wqe_u32(w, 6);
    r->bytes = count & 0x7fffffff;
    if (!r->bytes)
        return 0;
    if (!reach(keys, q->peer, rkey, reads ? MR_REMOTE_READ : MR_REMOTE_WRITE, remote, r->bytes,
               reads ? &r->from : &r->to, access, why))
        return 0;
    if (count >> 31) {
        r->kind = KIND_INLINE;
        r->from = at * 64 + 36;
        return !reads && r->bytes <= 0x3ff && units == 2 + (4 + r->bytes + 15) / 16;
    }
    r->kind = reads ? KIND_READ : KIND_WRITE;
    return units == 3 && reach(keys, q->number, wqe_u32(w, 9), reads ? MR_LOCAL_WRITE : 0,
                               wqe_u64(w, 10), r->bytes, reads ? &r->to : &r->from, &near, why);
}

LANES_FN int check_atomic(const struct gpu_queue *q, const struct gpu_key *keys, const uint32_t *w,
                          struct wqe *wqe, struct work *r, uint32_t *access, struct refusal *why)
{
    struct wqe_segment segment;
    unsigned at;
    bool fits;
    uint32_t near;
    if (wqe->units > UNITS_IN_LINE || wqe_decode(w, false, wqe))
        return 0;
    at = wqe->data;
    r->kind = KIND_ATOMIC;
    r->bytes = wqe->atomic.bytes;
    if (!wqe_segment_next(w, wqe->units, &at, &segment, &fits) || segment.is_inline ||
        segment.bytes != r->bytes)
        return 0;
    return reach(keys, q->peer, wqe->rkey, MR_REMOTE_ATOMIC, wqe->remote, r->bytes, &r->to, access,
                 why) &&
           reach(keys, q->number, segment.lkey, MR_LOCAL_WRITE, segment.address, r->bytes, &r->from,
                 &near, why) &&
           !((wqe->remote | r->to | r->from) & (r->bytes - 1));
}

/* Returns 0 if the kernel does not execute the WQE. */
LANES_FN int check(const struct shared *s, const struct gpu_queue *q, const struct gpu_key *keys,
                   uint32_t at, struct work *r, struct refusal *why)
{
    const uint32_t *w = &s->words[at * STRIDE];
    uint32_t access = MR_RELAXED_ORDERING;
    int good = 1;
    struct wqe wqe;
    wqe_control(w, &wqe);
    why->parked = GPU_UNUSUAL;
    r->opcode = wqe.opcode;
    r->complete = wqe.complete;
    r->blocks = wqe.blocks;
    r->bytes = 0;
    if (!wqe.units ||
        (q->strict && (wqe.index != (uint16_t)(s->taken + at) || wqe.qpn != q->number)))
        return 0;
    if (wqe.opcode == WQE_WRITE || wqe.opcode == WQE_READ)
        good = wqe.units >= 3 && check_move(q, keys, w, wqe.units, at, r, &access, why);
    else if (wqe_is_atomic(wqe.opcode))
        good = check_atomic(q, keys, w, &wqe, r, &access, why);
    else if (wqe.opcode != WQE_NOP)
        return 0;
    r->waits = wqe.fence || (r->kind != KIND_READ && !(access & MR_RELAXED_ORDERING));
    return good;
}

/* s->bad receives the first WQE that the kernel does not execute, and its slot the reason. A long
 * WQE ends the batch, or is alone in it. */
LANES_FN void check_all(struct shared *s, const struct gpu_queue *q, const struct gpu_key *keys)
{
    for (uint32_t i = lanes_rank(); i < s->end; i += LANES) {
        struct work *r = &s->work[i];
        struct refusal why = {GPU_RUNS, 0};
        if (r->kind == KIND_NONE)
            continue;
        int good = check(s, q, keys, i, r, &why);
        if (good && (r->bytes <= PIECE || !i)) {
            if (r->bytes > SMALL)
                s->longer[lanes_next(&s->longers)] = (uint16_t)i;
            continue;
        }
        r->parked = (uint8_t)(good ? (uint32_t)GPU_RUNS : why.parked);
        r->from = why.lacks;
        lanes_min(&s->bad, i);
    }
    lanes_meet();
}

/* --- Which WQEs run in parallel --- */

LANES_FN void part_serially(struct shared *s, uint32_t n)
{
    uint32_t part = 0, kind = KIND_NONE;
    for (uint32_t i = 0; i < n; i++) {
        struct work *r = &s->work[i];
        uint32_t of = r->kind == KIND_INLINE ? (uint32_t)KIND_WRITE : r->kind;
        if (r->kind == KIND_NONE || r->kind == KIND_NOP) {
            part += r->kind == KIND_NOP && r->waits;
            r->part = (uint16_t)part;
            continue;
        }
        if (kind != KIND_NONE && (r->waits || of != kind))
            part++;
        kind = of;
        r->part = (uint16_t)part;
    }
    s->parts = part + 1;
}

LANES_FN void part(struct shared *s, uint32_t n)
{
    int writes = 1, reads = 1, atomics = 1;
    for (uint32_t i = lanes_rank(); i < n; i += LANES) {
        const struct work *r = &s->work[i];
        if (r->kind == KIND_NONE || (r->kind == KIND_NOP && !r->waits))
            continue;
        writes &= (r->kind == KIND_WRITE || r->kind == KIND_INLINE) && !r->waits;
        reads &= r->kind == KIND_READ && !r->waits;
        atomics &= r->kind == KIND_ATOMIC && !r->waits;
    }
    writes = lanes_all(writes);
    reads = lanes_all(reads);
    atomics = lanes_all(atomics);
    if (writes || reads || atomics) {
        for (uint32_t i = lanes_rank(); i < n; i += LANES)
            s->work[i].part = 0;
        if (lanes_rank() == 0)
            s->parts = 1;
    } else if (lanes_rank() == 0) {
        part_serially(s, n);
    }
    lanes_meet();
}

/* --- Execution --- */

LANES_FN void store_some(uint64_t to, uint64_t value, uint32_t bytes)
{
    if (bytes == 8)
        lanes_store_8(to, value);
    else if (bytes == 4)
        lanes_store_4(to, (uint32_t)value);
    else if (bytes == 2)
        lanes_store_2(to, (uint16_t)value);
    else
        lanes_store_1(to, (uint8_t)value);
}

LANES_FN uint64_t load_some(uint64_t from, uint32_t bytes)
{
    return bytes == 8   ? lanes_load_8(from)
           : bytes == 4 ? lanes_load_4(from)
           : bytes == 2 ? lanes_load_2(from)
                        : lanes_load_1(from);
}

/* Returns the widest store that the remaining bytes and the alignment of `at` allow. */
LANES_FN uint32_t widest(uint64_t at, uint32_t rest)
{
    return !(at & 7) && rest >= 8 ? 8 : !(at & 3) && rest >= 4 ? 4 : !(at & 1) && rest >= 2 ? 2 : 1;
}

/* Returns the index of the word that contains byte `at` of the batch. */
LANES_FN uint32_t word_at(const struct shared *s, uint32_t at)
{
    return s->words[at / 64 * STRIDE + at / 4 % 16];
}

/* Returns bytes of the batch from byte `at` on. */
LANES_FN uint64_t inline_bytes(const struct shared *s, uint32_t at, uint32_t bytes)
{
    uint64_t value = 0;
    if (!(at & 3) && bytes >= 4)
        return word_at(s, at) | (bytes == 8 ? (uint64_t)word_at(s, at + 4) << 32 : 0);
    for (uint32_t k = 0; k < bytes; k++)
        value |= (uint64_t)(word_at(s, at + k) >> (at + k) % 4 * 8 & 0xff) << 8 * k;
    return value;
}

LANES_FN void move_inline(const struct shared *s, const struct work *r, uint32_t lane,
                          uint32_t lanes)
{
    if (!((r->to | r->bytes) & 7)) {
        for (uint32_t i = lane * 8; i < r->bytes; i += lanes * 8)
            lanes_store_8(r->to + i, inline_bytes(s, (uint32_t)r->from + i, 8));
        return;
    }
    if (!((r->to | r->bytes) & 3)) {
        for (uint32_t i = lane * 4; i < r->bytes; i += lanes * 4)
            lanes_store_4(r->to + i, inline_bytes(s, (uint32_t)r->from + i, 4));
        return;
    }
    if (lane)
        return;
    for (uint32_t i = 0, n; i < r->bytes; i += n) {
        n = widest(r->to + i, r->bytes - i);
        store_some(r->to + i, inline_bytes(s, (uint32_t)r->from + i, n), n);
    }
}

LANES_FN void move_16(uint64_t to, uint64_t from, uint64_t bytes, uint32_t lane, uint32_t lanes)
{
    uint64_t i = lane * 16u, step = lanes * 16u;
    for (; i + 3 * step < bytes; i += 4 * step) {
        struct lanes_16 a = lanes_load_16(from + i), b = lanes_load_16(from + i + step),
                        c = lanes_load_16(from + i + 2 * step),
                        d = lanes_load_16(from + i + 3 * step);
        lanes_store_16(to + i, a);
        lanes_store_16(to + i + step, b);
        lanes_store_16(to + i + 2 * step, c);
        lanes_store_16(to + i + 3 * step, d);
    }
    for (; i < bytes; i += step)
        lanes_store_16(to + i, lanes_load_16(from + i));
}

/* Moves bytes by `lanes` threads; the calling thread is number `lane`. */
LANES_FN void move(uint64_t to, uint64_t from, uint64_t bytes, uint32_t lane, uint32_t lanes)
{
    uint64_t differ = to ^ from;
    uint32_t unit = !(differ & 15) ? 16 : !(differ & 7) ? 8 : !(differ & 3) ? 4 : 1;
    uint64_t head = (0 - to) & (unit - 1);
    head = head < bytes ? head : bytes;
    for (uint64_t i = lane; i < head; i += lanes)
        lanes_store_1(to + i, lanes_load_1(from + i));
    to += head;
    from += head;
    bytes -= head;
    uint64_t whole = bytes & ~(uint64_t)(unit - 1);
    if (unit == 16)
        move_16(to, from, whole, lane, lanes);
    else
        for (uint64_t i = (uint64_t)lane * unit; i < whole; i += (uint64_t)lanes * unit)
            store_some(to + i, load_some(from + i, unit), unit);
    for (uint64_t i = whole + lane; i < bytes; i += lanes)
        lanes_store_1(to + i, lanes_load_1(from + i));
}

/* Moves a short request by one thread. Values of up to 8 bytes, such as flags, are one store
 * each. */
LANES_FN void move_small(const struct work *r)
{
    for (uint32_t i = 0, n, other; i < r->bytes; i += n) {
        n = widest(r->to + i, r->bytes - i);
        other = widest(r->from + i, r->bytes - i);
        uint64_t value = 0;
        if (other >= n)
            value = load_some(r->from + i, n);
        else
            for (uint32_t k = 0; k < n; k++)
                value |= (uint64_t)lanes_load_1(r->from + i + k) << 8 * k;
        store_some(r->to + i, value, n);
    }
}

/* Executes an atomic. The old value is returned in host byte order, 4-byte values big-endian. */
LANES_FN void change(const struct shared *s, const struct work *r, uint32_t at)
{
    const uint32_t *w = &s->words[at * STRIDE];
    struct wqe wqe;
    wqe_control(w, &wqe);
    (void)wqe_decode(w, false, &wqe);
    const struct wqe_atomic *a = &wqe.atomic;
    uint64_t old = load_some(r->to, r->bytes), seen;
    if (r->bytes == 8 && !a->compare_swap && !a->operand_mask) {
        old = lanes_add_8(r->to, a->operand);
    } else if (r->bytes == 8) {
        while ((seen = lanes_swap_8(r->to, old, wqe_atomic_apply(a, old))) != old)
            old = seen;
    } else {
        while ((seen = lanes_swap_4(r->to, (uint32_t)old, (uint32_t)wqe_atomic_apply(a, old))) !=
               old)
            old = seen;
    }
    if (r->bytes == 4) {
        uint32_t low = (uint32_t)old;
        old = wqe_u32(&low, 0);
    }
    store_some(r->from, old, r->bytes);
}

/* Moves each short request by one thread, each longer one by a warp. */
LANES_FN void run_part(const struct shared *s, uint32_t n, uint32_t number)
{
    uint32_t warps = LANES > WARP ? LANES / WARP : 1, lanes = LANES < WARP ? LANES : WARP;
    uint32_t warp = lanes_rank() / lanes, lane = lanes_rank() % lanes;
    for (uint32_t i = lanes_rank(); i < n; i += LANES) {
        const struct work *r = &s->work[i];
        if (r->part != number || r->kind <= KIND_NOP)
            continue;
        if (r->kind == KIND_ATOMIC)
            change(s, r, i);
        else if (r->kind == KIND_INLINE && r->bytes <= SMALL)
            move_inline(s, r, 0, 1);
        else if (r->kind != KIND_INLINE && r->bytes <= SMALL)
            move_small(r);
    }
    for (uint32_t k = warp; k < s->longers; k += warps) {
        const struct work *r = &s->work[s->longer[k]];
        if (s->longer[k] >= n || r->part != number)
            continue;
        if (r->kind == KIND_INLINE)
            move_inline(s, r, lane, lanes);
        else
            move(r->to, r->from, r->bytes, lane, lanes);
    }
}

/* Makes all stores of all threads visible to everyone. */
LANES_FN void publish_stores(void)
{
    lanes_meet();
    if (lanes_rank() == 0)
        lanes_fence();
    lanes_meet();
}

/* Moves one piece of a long request. Returns 1 if it was the last. */
LANES_FN int run_long(struct shared *s, struct gpu_queue *q)
{
    struct work *r = &s->work[0];
    uint32_t offset = q->offset, rest = r->bytes - offset;
    uint32_t piece = rest < PIECE ? rest : PIECE;
    move(r->to + offset, r->from + offset, piece, lanes_rank(), LANES);
    lanes_meet();
    if (lanes_rank() == 0)
        q->offset = piece == rest ? 0 : offset + piece;
    return piece == rest;
}

/* --- Completing --- */

LANES_FN uint32_t swapped(uint32_t v)
{
    return wqe_u32(&v, 0);
}

/* Writes the CQE of the last WQE that requests a completion. Called by one thread. */
LANES_FN void complete(struct shared *s, struct gpu_queue *q)
{
    const struct work *r = &s->work[s->last];
    uint64_t now = lanes_clock();
    uint32_t number = s->completes + q->completions - 1;
    uint16_t index = (uint16_t)(s->taken + s->last);
    uint64_t low = swapped((uint32_t)r->opcode << 24 | q->number);
    uint64_t high = (uint32_t)index >> 8 | (uint32_t)(index & 0xff) << 8 |
                    (uint32_t)(number >> q->log_completions & 1) << 24;
    lanes_store_8(q->completion + 32, swapped(q->user_index));
    lanes_store_8(q->completion + 40,
                  (uint64_t)swapped(r->kind == KIND_READ || r->kind == KIND_ATOMIC ? r->bytes : 0)
                      << 32);
    lanes_store_8(q->completion + 48,
                  swapped((uint32_t)(now >> 32)) | (uint64_t)swapped((uint32_t)now) << 32);
    /* Pairs with the poller's acquiring load of the last word. */
    lanes_fence();
    lanes_store_8(q->completion + 56, low | high << 32);
    q->completions = number + 1;
    q->released = (uint16_t)(index + r->blocks);
}

/* Records that `n` blocks are done. */
LANES_FN void finish(struct shared *s, struct gpu_queue *q, uint32_t n)
{
    uint64_t bytes = 0;
    uint32_t requests = 0, completes = 0, last = 0;
    for (uint32_t i = lanes_rank(); i < n; i += LANES) {
        const struct work *r = &s->work[i];
        if (r->kind == KIND_NONE)
            continue;
        requests++;
        bytes += r->bytes;
        completes += r->complete >= 2;
        last = r->complete >= 2 ? i : last;
    }
    lanes_sum(&s->requests, requests);
    lanes_sum(&s->completes, completes);
    lanes_most(&s->last, last);
    lanes_sum_long(&s->bytes, bytes);
    lanes_meet();
    if (lanes_rank())
        return;
    if (s->completes)
        complete(s, q);
    else
        lanes_fence();
    q->taken = (uint16_t)(q->taken + n);
    q->requests += s->requests;
    q->bytes += s->bytes;
}

/* --- One queue --- */

/* Handles a doorbell. The doorbell's value counts; the doorbell record is checked against it. */
LANES_FN void take_bell(struct gpu_queue *q, uint64_t bell)
{
    uint32_t words[2] = {(uint32_t)bell, (uint32_t)(bell >> 32)};
    uint16_t index = (uint16_t)(wqe_u32(words, 0) >> 8);
    uint32_t record = lanes_load_4(q->record + 4);
    uint16_t recorded = (uint16_t)wqe_u32(&record, 0);
    q->rung = bell;
    q->doorbells++;
    if (wqe_u32(words, 1) >> 8 != q->number || (q->strict && (int16_t)(recorded - index) < 0))
        q->parked = GPU_UNUSUAL;
    if ((int16_t)(recorded - index) > 0)
        index = recorded;
    if (q->parked || (int16_t)(index - q->producer) <= 0)
        return;
    if ((uint16_t)(index - q->released) > q->blocks)
        q->parked = GPU_UNUSUAL;
    else
        q->producer = index;
}

LANES_FN void begin_batch(struct shared *s, struct gpu_queue *q, uint64_t bell)
{
    if (q->rung != bell)
        take_bell(q, bell);
    s->taken = q->taken;
    s->run = q->parked ? 0 : (uint16_t)(q->producer - q->taken);
    s->run = s->run < BATCH ? s->run : (uint32_t)BATCH;
    s->bad = ~0u;
    s->last = s->completes = s->requests = s->end = s->longers = 0;
    s->bytes = 0;
}

/* Executes the batch as far as the kernel supports it. Returns 0 if nothing was done. */
LANES_FN int run_batch(struct shared *s, struct gpu_queue *q, const struct gpu_key *keys)
{
    load_batch(s, q, s->run);
    lanes_meet();
    find_requests(s, s->run);
    check_all(s, q, keys);
    uint32_t n = s->bad < s->end ? s->bad : s->end;
    if (n && s->work[0].bytes > PIECE) {
        if (run_long(s, q))
            finish(s, q, s->work[0].blocks);
        return 1;
    }
    part(s, n);
    for (uint32_t i = 0; i < s->parts && n; i++) {
        run_part(s, n, i);
        if (i + 1 < s->parts)
            publish_stores();
    }
    if (n)
        finish(s, q, n);
    if (!n && lanes_rank() == 0) {
        q->lacks = s->end ? s->work[0].from : 0;
        q->parked = s->end ? (uint32_t)s->work[0].parked : (uint32_t)GPU_UNUSUAL;
    }
    return n > 0;
}

LANES_FN int run_queue(struct shared *s, struct gpu_queue *q, uint64_t bell,
                       const struct gpu_key *keys)
{
    lanes_meet();
    if (lanes_rank() == 0)
        begin_batch(s, q, bell);
    lanes_meet();
    return s->run ? run_batch(s, q, keys) : 0;
}

/* --- A slice --- */

/* Polls the queues of this thread block: those with the same index modulo the number of blocks. */
LANES_FN int look_round(struct shared *s, const struct gpu_slice *slice, struct gpu_queue *queues)
{
    int worked = 0;
    uint32_t mine = lanes_block(), blocks = lanes_blocks(), k = 0;
    for (uint32_t i = mine + lanes_rank() * blocks, at = lanes_rank();
         i < slice->count && at < QUEUES_A_BLOCK; i += LANES * blocks, at += LANES)
        /* Pairs with the store of the thread that rings: it wrote WQEs and record before. */
        s->bell[at] = lanes_acquire_8(queues[i].doorbell);
    if (lanes_rank() == LANES - 1)
        s->attention = lanes_load_4(slice->attention);
    lanes_meet();
    for (uint32_t i = mine; i < slice->count && k < QUEUES_A_BLOCK; i += blocks, k++) {
        struct gpu_queue *q = &queues[i];
        if (q->parked || (q->rung == s->bell[k] && q->producer == q->taken))
            continue;
        worked |= run_queue(s, q, s->bell[k], (const struct gpu_key *)lanes_at(slice->keys));
        lanes_meet();
        if (q->parked && lanes_rank() == 0)
            lanes_store_4(slice->attention, 1);
    }
    return worked;
}

/* A load from host memory is slow: only one thread block checks the host's word, at intervals, and
 * notifies the others. */
LANES_FN int slice_ends(const struct shared *s, const struct gpu_slice *slice, uint64_t begun,
                        uint64_t *looked)
{
    uint64_t now = lanes_clock();
    if (lanes_block() == 0 && now - *looked >= STOP_NS) {
        *looked = now;
        if (lanes_load_4(slice->stop))
            lanes_store_4(slice->attention, 1);
    }
    return now - begun >= slice->ns || s->attention;
}

LANES_FN void run_slice(struct shared *s, const struct gpu_slice *slice)
{
    struct gpu_queue *queues = (struct gpu_queue *)lanes_at(slice->queues);
    uint64_t begun = lanes_clock(), looked = begun;
    for (;;) {
        int worked = look_round(s, slice, queues);
        int ends = 0;
        if (lanes_rank() == 0)
            ends = slice_ends(s, slice, begun, &looked);
        if (lanes_any(ends))
            return;
        if (!worked)
            lanes_sleep(IDLE_NS);
    }
}

#endif
