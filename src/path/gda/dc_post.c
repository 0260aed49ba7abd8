/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of host threads over DC initiators: see dc.h. The lock of an initiator covers everything
 * but the count of complete blocks. A thread that waits for a request takes the lock to read
 * completion entries, unless another thread has it, which then reads them. */
#include "path/gda/dc.h"

#include "base/log.h"
#include "base/status.h"
#include "path/gda/error.h"
#include "path/gda/failover.h"

#include <endian.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SEGMENT_BYTES = WEFT_DEV_GDA_SEGMENT,
    BLOCK_BYTES = WEFT_DEV_GDA_BLOCK,
    SHORT_ADDRESS = 1, /* segments of an address: with a LID, */
    LONG_ADDRESS = 3,  /* and with a GID */
};

static uint32_t adapter_of(const struct gda *gda, const struct gda_initiator *initiator)
{
    return (uint32_t)(initiator - gda->dc->initiators) / GDA_INITIATORS;
}

static uint64_t done_of(const struct gda_initiator *initiator)
{
    return __atomic_load_n(&initiator->q.done, __ATOMIC_RELAXED);
}

/* ------------------------------------------------------------------------------------- requests */

static uint32_t segments_of(const void *request)
{
    uint32_t word;
    memcpy(&word, (const char *)request + 4, sizeof word);
    return be32toh(word) & 0x3f;
}

static uint32_t blocks_of(uint32_t segments)
{
    return (segments * SEGMENT_BYTES + BLOCK_BYTES - 1) / BLOCK_BYTES;
}

/* The address that a request names, in segments; returns their number. The short one is the first
 * part of the long one. */
static uint32_t write_address(const struct gda *gda, uint32_t adapter, int pe,
                              struct weft_dev_vec16 segments[LONG_ADDRESS])
{
    enum { IS_LONG = 1u << 31, HAS_GRH = 1u << 30, SOURCE_SHIFT = 20 };
    const size_t at = (size_t)pe * gda->count + adapter;
    const struct gda_adapter *own = &gda->adapters->one[adapter];
    const struct gda_address *its = &gda->addresses[at];
    const uint32_t number = gda->dc->numbers[at];
    const bool is_short = own->short_addresses && !its->ethernet;
    struct mlx5_wqe_av av = {.key.dc_key = htobe64(gda->dc->keys[pe]),
                             .dqp_dct = htobe32(number | (is_short ? 0 : IS_LONG)),
                             .rlid = htobe16((uint16_t)its->lid)};
    _Static_assert(sizeof av == LONG_ADDRESS * SEGMENT_BYTES, "an address in segments");
    if (its->ethernet) {
        av.rlid = htobe16((uint16_t)gda_source_port(number, adapter)); /* UDP source port */
        av.grh_gid_fl = htobe32(HAS_GRH | (uint32_t)own->gid_index << SOURCE_SHIFT);
        av.hop_limit = GDA_HOP_LIMIT;
        memcpy(av.rmac, its->mac, sizeof av.rmac);
        memcpy(av.rgid, its->gid, sizeof av.rgid);
    }
    memcpy(segments, &av, sizeof av);
    return is_short ? SHORT_ADDRESS : LONG_ADDRESS;
}

/* Stores the request that is composed in `scratch` at block `base`, with the address of its target,
 * in the ring at the NIC's index. Returns its blocks. */
static uint32_t store_request(const struct gda *gda, struct gda_initiator *initiator, int pe,
                              uint64_t base)
{
    const struct weft_dev_gda_ring *ring = &initiator->ring, *from = &initiator->scratch;
    struct weft_dev_vec16 address[LONG_ADDRESS], segment;
    const char *head = weft_dev_gda_block(from, base);
    uint64_t index = base - initiator->start;
    uint32_t word, own = segments_of(head), more = 0;
    memcpy(&word, head, sizeof word);
    const uint32_t opcode = word >> 24, modifier = word & 0xff, flags = (unsigned char)head[11];
    if (opcode != WEFT_DEV_GDA_NOP)
        more = write_address(gda, adapter_of(gda, initiator), pe, address);
    weft_dev_gda_store(ring, index, 0,
                       weft_dev_gda_control(ring, index, opcode, modifier, own + more,
                                            flags | WEFT_DEV_GDA_SIGNALED));
    for (uint32_t i = 0; i < more; i++)
        weft_dev_gda_store(ring, index, 1 + i, address[i]);
    for (uint32_t i = 1; i < own; i++) {
        memcpy(&segment, weft_dev_gda_at(from, base, (uint64_t)i * SEGMENT_BYTES), sizeof segment);
        weft_dev_gda_store(ring, index, i + more, segment);
    }
    uint32_t blocks = blocks_of(own + more);
    for (uint32_t i = 0; i < blocks; i++)
        initiator->pes[(index + i) & ring->last] = pe;
    return blocks;
}

static void ring_doorbell(struct gda_initiator *initiator)
{
    uint32_t end = (uint32_t)(initiator->head - initiator->start);
    weft_dev_gda_record_end(&initiator->ring, end);
    weft_dev_gda_bell(&initiator->ring, end);
}

uint64_t gda_dc_publish(const struct gda *gda, uint32_t adapter, int pe)
{
    struct gda_initiator *initiator = gda_initiator_to(gda, adapter, pe);
    initiator->head += store_request(gda, initiator, pe, initiator->head);
    uint64_t end = initiator->head;
    ring_doorbell(initiator);
    pthread_mutex_unlock(&initiator->lock);
    return end;
}

/* ---------------------------------------------------------------------------------- completions */

/* An error completion. */
struct dc_fault {
    uint64_t at; /* block of the request */
    unsigned syndrome, vendor;
};

/* Reads new completion entries. Returns false at an error, which ends the queue. */
static bool read_completions(struct gda_initiator *initiator, struct dc_fault *fault)
{
    const uint32_t last = initiator->ring.last, log = (uint32_t)__builtin_ctz(last + 1);
    const uint32_t polled = initiator->polled;
    uint64_t done = done_of(initiator);
    bool works = true;
    for (;; initiator->polled++) {
        const uint64_t *entry =
            (const uint64_t *)(const void *)(initiator->completions +
                                             (size_t)(initiator->polled & last) * BLOCK_BYTES + 56);
        /* Acquire: the results of the request came before it. */
        uint64_t word = __atomic_load_n(entry, __ATOMIC_ACQUIRE);
        uint32_t opcode = weft_dev_gda_cqe_opcode(word), owner = word >> 56 & 1;
        if (opcode == WEFT_DEV_GDA_CQE_NONE || owner != (initiator->polled >> log & 1))
            break;
        uint16_t ahead = (uint16_t)(weft_dev_gda_cqe_index(word) - (done - initiator->start));
        uint64_t at = done + ahead, why = __atomic_load_n(entry - 1, __ATOMIC_RELAXED);
        if (opcode != WEFT_DEV_GDA_CQE_OK) {
            *fault = (struct dc_fault){at, (unsigned)(why >> 56), (unsigned)(why >> 48 & 0xff)};
            works = false;
            break;
        }
        const char *request = weft_dev_gda_block(&initiator->ring, at - initiator->start);
        done = at + blocks_of(segments_of(request));
    }
    if (initiator->polled == polled)
        return works;
    __atomic_store_n(initiator->cq_record, htobe32(initiator->polled & 0xffffff), __ATOMIC_RELEASE);
    __atomic_store_n(&initiator->q.done, done, __ATOMIC_RELEASE);
    return works;
}

/* -------------------------------------------------------------------------------------- failure */

/* Waits up to 0.5 s for the launcher to report that a PE has ended, because the request may have
 * failed for that reason. Fails with that, or else with what the NIC has reported. */
static weft_status explain_fault(const struct gda *gda, const struct gda_initiator *initiator,
                                 int pe, const struct dc_fault *fault)
{
    enum { POLLS = 25, PAUSE_NS = 20 * 1000 * 1000 };
    struct path_wait wait = {.world = gda->world, .operation = BOX_OP_QUIET, .pe = pe};
    weft_status status = WEFT_OK;
    for (int i = 0; i < POLLS && !status; i++) {
        status = path_wait_step(&wait, (uint64_t)i);
        nanosleep(&(struct timespec){.tv_nsec = status ? 0 : PAUSE_NS}, NULL);
    }
    path_wait_end(&wait);
    return status ? status
                  : base_fail(WEFT_ERR_PATH,
                              "path gda: a request by DC to PE %d (queue pair %#x of %s, port %d) "
                              "has failed: %s (syndrome %#04x, vendor %#04x)",
                              pe, initiator->q.number, initiator->qp.adapter->name, GDA_PORT,
                              gda_syndrome_text(fault->syndrome), fault->syndrome, fault->vendor);
}

static weft_status find_loss(const struct gda_initiator *initiator, int pe, uint64_t target)
{
    for (const struct gda_dc_loss *loss = initiator->losses; loss; loss = loss->next)
        if (loss->pe == pe && loss->from < target)
            return base_fail(loss->status, "%s", loss->sentence);
    return WEFT_OK;
}

static weft_status note_loss(struct gda *gda, struct gda_initiator *initiator,
                             const struct dc_fault *fault)
{
    struct gda_dc_loss *loss = calloc(1, sizeof *loss);
    if (!loss)
        return base_fail(WEFT_ERR_NO_MEMORY, "path gda: no private memory");
    loss->pe = initiator->pes[(fault->at - initiator->start) & initiator->ring.last];
    loss->from = fault->at;
    loss->status = explain_fault(gda, initiator, loss->pe, fault);
    snprintf(loss->sentence, sizeof loss->sentence, "%s", base_last_error());
    log_debug(LOG_GDA, "path gda: requests by DC to PE %d are lost: %s", loss->pe, loss->sentence);
    loss->next = initiator->losses;
    initiator->losses = loss;
    /* Before the lost requests count as complete: see gda_await(). */
    atomic_store(&gda->dc_lost, true);
    return WEFT_OK;
}

/* Puts the request at `from` into the ring behind `head`, or NOPs in its place if it is lost: the
 * threads that wait know how many blocks it has. Returns its blocks. */
static uint32_t repost(struct gda_initiator *initiator, const char *from, int pe, bool is_lost)
{
    const struct weft_dev_gda_ring *ring = &initiator->ring;
    const uint32_t segments = segments_of(from), blocks = blocks_of(segments);
    uint64_t index = initiator->head - initiator->start;
    struct weft_dev_vec16 segment;
    uint32_t word;
    memcpy(&word, from, sizeof word);
    for (uint32_t i = 0; i < blocks; i++) {
        initiator->pes[(index + i) & ring->last] = pe;
        if (is_lost)
            weft_dev_gda_nop(ring, index + i, WEFT_DEV_GDA_SIGNALED);
    }
    initiator->head += blocks;
    if (is_lost)
        return blocks;
    weft_dev_gda_store(ring, index, 0,
                       weft_dev_gda_control(ring, index, word >> 24, word & 0xff, segments,
                                            (unsigned char)from[11]));
    for (uint32_t i = 1; i < segments; i++) {
        memcpy(&segment, from + (size_t)i * SEGMENT_BYTES, sizeof segment);
        weft_dev_gda_store(ring, index, i, segment);
    }
    return blocks;
}

/* The requests that are not complete, and the PEs of their blocks. */
struct dc_pending {
    uint32_t count; /* blocks */
    char *blocks;
    int32_t *pes;
};

static weft_status copy_pending(const struct gda_initiator *initiator, uint64_t from,
                                struct dc_pending *pending)
{
    const struct weft_dev_gda_ring *ring = &initiator->ring;
    uint64_t index = from - initiator->start;
    pending->count = (uint32_t)(initiator->head - from);
    pending->blocks = malloc((size_t)pending->count * BLOCK_BYTES);
    pending->pes = malloc((size_t)pending->count * sizeof *pending->pes);
    if (!pending->blocks || !pending->pes)
        return base_fail(WEFT_ERR_NO_MEMORY, "path gda: no private memory");
    for (uint32_t i = 0; i < pending->count; i++) {
        memcpy(pending->blocks + (size_t)i * BLOCK_BYTES, weft_dev_gda_block(ring, index + i),
               BLOCK_BYTES);
        pending->pes[i] = initiator->pes[(index + i) & ring->last];
    }
    return WEFT_OK;
}

/* Opens a new queue in the same memory, and posts what is pending to it from block `from` on, but
 * for requests to the PE of the first one. */
static weft_status reopen(const struct gda *gda, struct gda_initiator *initiator, uint64_t from,
                          const struct dc_pending *pending)
{
    struct gda_qp *qp = &initiator->qp;
    gda_destroy_qp(qp);
    *qp = (struct gda_qp){.adapter = qp->adapter, .umem = qp->umem, .dc = true};
    weft_status status = gda_open_initiator_queue(gda, initiator);
    initiator->start = initiator->head = from;
    for (uint32_t at = 0; at < pending->count && !status;)
        at += repost(initiator, pending->blocks + (size_t)at * BLOCK_BYTES, pending->pes[at],
                     pending->pes[at] == pending->pes[0]);
    if (!status)
        ring_doorbell(initiator);
    return status;
}

/* Replaces an initiator that has failed. A failure of that ends the job. */
static weft_status replace(struct gda *gda, struct gda_initiator *initiator,
                           const struct dc_fault *fault)
{
    struct dc_pending pending = {0};
    weft_status status = copy_pending(initiator, fault->at, &pending);
    if (!status)
        status = note_loss(gda, initiator, fault);
    if (!status)
        status = reopen(gda, initiator, fault->at, &pending);
    free(pending.blocks);
    free(pending.pes);
    initiator->broken = status;
    if (status) {
        snprintf(initiator->sentence, sizeof initiator->sentence, "%s", base_last_error());
        gda->world->fail(gda->world, status, initiator->sentence);
    }
    return status;
}

static void stop_initiator(struct gda *gda, struct gda_initiator *initiator, const char *cause)
{
    bool lost = !initiator->broken && initiator->head != done_of(initiator);
    if (!initiator->broken)
        snprintf(initiator->sentence, sizeof initiator->sentence,
                 "path gda: %s, port %d, executes no requests by DC any more: %s",
                 initiator->qp.adapter->name, GDA_PORT, cause);
    initiator->broken = WEFT_ERR_PATH;
    if (lost)
        gda->world->fail(gda->world, WEFT_ERR_PATH, initiator->sentence);
}

/* The failover thread calls it again and again: it need not wait for a lock. */
void gda_dc_stop(struct gda *gda, uint32_t adapter, const char *cause)
{
    for (int i = 0; i < GDA_INITIATORS && gda->dc; i++) {
        struct gda_initiator *initiator = gda_initiator_to(gda, adapter, i);
        if (pthread_mutex_trylock(&initiator->lock))
            continue;
        stop_initiator(gda, initiator, cause);
        pthread_mutex_unlock(&initiator->lock);
    }
}

/* Reads completions, and replaces the initiator if one is an error. The caller has the lock. */
static weft_status read_or_replace(const struct gda *gda, struct gda_initiator *initiator)
{
    struct dc_fault fault;
    if (initiator->broken)
        return base_fail(initiator->broken, "%s", initiator->sentence);
    return read_completions(initiator, &fault)
               ? WEFT_OK
               : replace((struct gda *)(uintptr_t)gda, initiator, &fault);
}

/* -------------------------------------------------------------------------------------- waiting */

/* Every request finds space for the longest one, whose blocks have no owner then. */
static bool has_room(const struct gda_initiator *initiator)
{
    return initiator->head + GDA_DC_SCRATCH - done_of(initiator) <= initiator->ring.last + 1u;
}

static weft_status await_room(const struct gda *gda, struct gda_initiator *initiator, int pe)
{
    struct path_wait wait = {.world = gda->world, .operation = BOX_OP_PUT, .pe = pe};
    weft_status status = read_or_replace(gda, initiator);
    while (!status && !has_room(initiator)) {
        status = path_wait_step(&wait, done_of(initiator));
        if (!status)
            status = read_or_replace(gda, initiator);
    }
    path_wait_end(&wait);
    return status;
}

weft_status gda_dc_reserve(const struct gda *gda, uint32_t adapter, int pe, uint64_t *base)
{
    struct gda_initiator *initiator = gda_initiator_to(gda, adapter, pe);
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&initiator->lock);
    if (unlikely(!has_room(initiator) || initiator->broken))
        status = await_room(gda, initiator, pe);
    if (unlikely(initiator->losses) && !status)
        status = find_loss(initiator, pe, UINT64_MAX);
    *base = initiator->head;
    if (status)
        pthread_mutex_unlock(&initiator->lock);
    return status;
}

weft_status gda_dc_await(const struct gda *gda, struct gda_initiator *initiator, int pe,
                         uint64_t target, enum box_operation operation)
{
    struct path_wait wait = {
        .world = gda->world, .operation = operation, .pe = pe, .expected = target};
    weft_status status = WEFT_OK;
    while (!status && !weft_dev_gda_reached(&initiator->q, target)) {
        if (!pthread_mutex_trylock(&initiator->lock)) {
            status = read_or_replace(gda, initiator);
            pthread_mutex_unlock(&initiator->lock);
        }
        if (!status && !weft_dev_gda_reached(&initiator->q, target))
            status = path_wait_step(&wait, done_of(initiator));
    }
    path_wait_end(&wait);
    if (status || !atomic_load(&gda->dc_lost))
        return status;
    pthread_mutex_lock(&initiator->lock);
    status = find_loss(initiator, pe, target);
    pthread_mutex_unlock(&initiator->lock);
    return status;
}

/* ------------------------------------------------------------------------------------ first use */

/* What a test reads and fetches goes to this PE's own row of its own mail, which nothing else
 * uses. */
static weft_status post_dc_test(const struct gda *gda, uint32_t adapter, int pe, uint32_t opcode,
                                uint64_t *into, uint64_t value, uint64_t *end)
{
    struct weft_dev_gda_place own = {0}, its;
    size_t bytes = sizeof *into;
    uint64_t base;
    weft_status status = gda_dc_reserve(gda, adapter, pe, &base);
    if (status)
        return status;
    const struct weft_dev_gda_ring *ring = &gda_initiator_to(gda, adapter, pe)->scratch;
    gda_resolve_local(gda, adapter, into, &bytes, &own);
    its = gda_test_word(gda, pe, adapter, opcode == WEFT_DEV_GDA_FA);
    if (opcode == WEFT_DEV_GDA_WRITE)
        weft_dev_gda_value(ring, base, its, value, sizeof value, 0);
    else if (opcode == WEFT_DEV_GDA_READ)
        weft_dev_gda_move(ring, base, opcode, its, own, sizeof value, 0);
    else
        weft_dev_gda_atomic8(ring, base, WEFT_DEV_GDA_ADD, its, own, value, 0, 0);
    *end = gda_dc_publish(gda, adapter, pe);
    return WEFT_OK;
}

/* Writes a word, reads it back, and adds to another. *sum: what the NICs before this one have added
 * there. */
static weft_status test_adapter(const struct gda *gda, uint32_t adapter, int pe, uint64_t *sum)
{
    const struct path_world *world = gda->world;
    char *row = world->map[world->pe][SEG_SYSTEM] + world->words_offset +
                (size_t)world->pe * PATH_WORDS_BYTES;
    uint64_t *test = (uint64_t *)(void *)row, end = 0;
    const uint64_t value = GDA_TEST_VALUE + adapter;
    const bool adds = !gda->adapters->no_atomics;
    weft_status status = post_dc_test(gda, adapter, pe, WEFT_DEV_GDA_WRITE, test, value, &end);
    if (!status)
        status = post_dc_test(gda, adapter, pe, WEFT_DEV_GDA_READ, test, 0, &end);
    if (!status && adds)
        status = post_dc_test(gda, adapter, pe, WEFT_DEV_GDA_FA, test + 1, value, &end);
    if (!status)
        status = gda_dc_await(gda, gda_initiator_to(gda, adapter, pe), pe, end, BOX_OP_PUT);
    if (status)
        return status;
    bool same = __atomic_load_n(test, __ATOMIC_RELAXED) == value;
    if (!same || (adds && __atomic_load_n(test + 1, __ATOMIC_RELAXED) != *sum))
        return base_fail(WEFT_ERR_PATH, "path gda: the test of DC to PE %d through %s failed: %s",
                         pe, gda->adapters->one[adapter].name,
                         same ? "an atomic returned a wrong value" : "a word came back changed");
    *sum += value;
    return WEFT_OK;
}

static void report_tested(const struct gda *gda, int pe)
{
    const struct path_world *world = gda->world;
    for (int kind = 0; kind < MEMORY_KINDS && world->report_tested && world->report_found; kind++) {
        char found[PATH_FOUND_BYTES] = "by DC";
        if (!world->choices[kind] || world->choices[kind][pe].path != PATH_GDA)
            continue;
        world->report_tested(world, (weft_kind)kind, pe);
        if (!gda_refine(world, (weft_kind)kind, pe, found, sizeof found)) /* of GPU memory */
            world->report_found(world, (weft_kind)kind, pe, found);
    }
    log_debug(LOG_GDA, "path gda to PE %d: DC tested at first use", pe);
}

weft_status gda_await_dc_peer(const struct gda *gda, int pe)
{
    weft_status status = WEFT_OK;
    uint64_t sum = 0;
    if (gda_link_of(gda, pe) == GDA_LINK_DC)
        return WEFT_OK;
    pthread_mutex_lock(&gda->dc->test_lock);
    if (gda_link_of(gda, pe) != GDA_LINK_DC) {
        for (uint32_t a = 0; a < gda->count && !status; a++)
            status = test_adapter(gda, a, pe, &sum);
        if (!status) {
            atomic_store(&gda->links[pe], GDA_LINK_DC);
            report_tested(gda, pe);
        }
    }
    pthread_mutex_unlock(&gda->dc->test_lock);
    return status;
}
