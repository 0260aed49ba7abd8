/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of host threads over DC initiators: see dc.h. The lock of an initiator covers everything
 * but the count of complete blocks. A thread that waits for a request takes the lock to read
 * completion entries, unless another thread has it, which then reads them. */
#include "path/gda/dc.h"

#include "base/status.h"
#include "path/gda/failover.h"

#include <endian.h>
#include <sched.h>
#include <string.h>

enum {
    SHORT_ADDRESS = 1, /* segments of an address: with a LID, */
    LONG_ADDRESS = 3,  /* and with a GID */
};

/* ------------------------------------------------------------------------------------- requests */

uint32_t gda_dc_segments(const void *request)
{
    uint32_t word;
    memcpy(&word, (const char *)request + 4, sizeof word);
    return be32toh(word) & 0x3f;
}

uint32_t gda_dc_blocks(uint32_t segments)
{
    return (segments * WEFT_DEV_GDA_SEGMENT + WEFT_DEV_GDA_BLOCK - 1) / WEFT_DEV_GDA_BLOCK;
}

static uint32_t opcode_of(const void *request)
{
    uint32_t word;
    memcpy(&word, request, sizeof word);
    return word >> 24;
}

static bool is_short_address(const struct gda *gda, uint32_t adapter, int pe)
{
    return gda->adapters->one[adapter].short_addresses &&
           !gda->addresses[(size_t)pe * gda->count + adapter].ethernet;
}

uint32_t gda_dc_address_segments(const struct gda *gda, uint32_t adapter, int pe)
{
    return is_short_address(gda, adapter, pe) ? SHORT_ADDRESS : LONG_ADDRESS;
}

void gda_dc_write_address(const struct gda *gda, uint32_t adapter, int pe, void *segments)
{
    enum { IS_LONG = 1u << 31, HAS_GRH = 1u << 30, SOURCE_SHIFT = 20 };
    const size_t at = (size_t)pe * gda->count + adapter;
    const struct gda_adapter *own = &gda->adapters->one[adapter];
    const struct gda_address *its = &gda->addresses[at];
    const uint32_t number = gda->dc->numbers[at];
    const bool is_short = is_short_address(gda, adapter, pe);
    struct mlx5_wqe_av av = {.key.dc_key = htobe64(gda->dc->keys[pe]),
                             .dqp_dct = htobe32(number | (is_short ? 0 : IS_LONG)),
                             .rlid = htobe16((uint16_t)its->lid)};
    _Static_assert(sizeof av == LONG_ADDRESS * WEFT_DEV_GDA_SEGMENT, "an address in segments");
    if (its->ethernet) {
        av.rlid = htobe16((uint16_t)gda_source_port(number, adapter)); /* UDP source port */
        av.grh_gid_fl = htobe32(HAS_GRH | (uint32_t)own->gid_index << SOURCE_SHIFT);
        av.hop_limit = GDA_HOP_LIMIT;
        memcpy(av.rmac, its->mac, sizeof av.rmac);
        memcpy(av.rgid, its->gid, sizeof av.rgid);
    }
    memcpy(segments, &av, sizeof av);
}

/* Stores the request at block `base` of the ring `from`, with the address of its target, in the
 * initiator's ring behind `head`. */
static void store_request(const struct gda *gda, struct gda_initiator *initiator, int pe,
                          const struct weft_dev_gda_ring *from, uint64_t base, uint32_t more_flags)
{
    const struct weft_dev_gda_ring *ring = &initiator->ring;
    const uint32_t adapter = gda_dc_adapter_of(gda, initiator);
    struct weft_dev_vec16 address[LONG_ADDRESS], segment;
    const char *head = weft_dev_gda_block(from, base);
    uint64_t index = initiator->head - initiator->start;
    uint32_t word, own = gda_dc_segments(head), more = 0;
    memcpy(&word, head, sizeof word);
    const uint32_t opcode = word >> 24, modifier = word & 0xff, flags = (unsigned char)head[11];
    if (opcode != WEFT_DEV_GDA_NOP) {
        more = gda_dc_address_segments(gda, adapter, pe);
        gda_dc_write_address(gda, adapter, pe, address);
    }
    weft_dev_gda_store(
        ring, index, 0,
        weft_dev_gda_control(ring, index, opcode, modifier, own + more, flags | more_flags));
    for (uint32_t i = 0; i < more; i++)
        weft_dev_gda_store(ring, index, 1 + i, address[i]);
    for (uint32_t i = 1; i < own; i++) {
        memcpy(&segment, weft_dev_gda_at(from, base, (uint64_t)i * WEFT_DEV_GDA_SEGMENT),
               sizeof segment);
        weft_dev_gda_store(ring, index, i + more, segment);
    }
    uint32_t blocks = gda_dc_blocks(own + more);
    for (uint32_t i = 0; i < blocks; i++)
        initiator->pes[(index + i) & ring->last] = pe;
    initiator->head += blocks;
}

void gda_dc_ring(struct gda_initiator *initiator)
{
    uint32_t end = (uint32_t)(initiator->head - initiator->start);
    weft_dev_gda_record_end(&initiator->ring, end);
    weft_dev_gda_bell(&initiator->ring, end);
}

/* --------------------------------------------------------------------------------------- marks */

/* Whether the request to be posted begins a run: an initiator that has nothing to do, or that has
 * another target, begins it when all earlier requests are complete. */
static bool begins_run(const struct gda_initiator *initiator, int pe)
{
    uint64_t last = initiator->head - 1 - initiator->start;
    return initiator->head == gda_dc_done(initiator) ||
           initiator->pes[last & initiator->ring.last] != pe;
}

static void post_mark(const struct gda *gda, struct gda_initiator *initiator, int pe)
{
    const uint32_t adapter = gda_dc_adapter_of(gda, initiator);
    uint16_t *mark = &gda->dc->marks[(size_t)pe * gda->count + adapter];
    _Alignas(16) char block[WEFT_DEV_GDA_BLOCK];
    struct weft_dev_gda_ring ring = initiator->scratch;
    ring.blocks = block;
    ring.last = 0;
    weft_dev_gda_value(&ring, 0, gda_dc_mark_place(gda, pe, adapter), ++*mark, GDA_DC_MARK_BYTES,
                       0);
    store_request(gda, initiator, pe, &ring, 0, 0);
    initiator->marked = true;
}

static bool is_dc_atomic(const void *request)
{
    return gda_dc_is_seen_twice(request) && opcode_of(request) != WEFT_DEV_GDA_WRITE;
}

bool gda_dc_is_seen_twice(const void *request)
{
    const char *at = (const char *)request + 2 * WEFT_DEV_GDA_SEGMENT;
    const uint32_t opcode = opcode_of(request);
    uint32_t bytes;
    uint64_t operand, address;
    memcpy(&address, (const char *)request + WEFT_DEV_GDA_SEGMENT, sizeof address);
    memcpy(&bytes, at, sizeof bytes);
    memcpy(&operand, at, sizeof operand);
    bytes = be32toh(bytes) & 0x7fffffff;
    switch (opcode) {
    case WEFT_DEV_GDA_WRITE:
        return bytes <= sizeof(uint64_t) && !(bytes & (bytes - 1)) &&
               !(be64toh(address) & (bytes - 1));
    case WEFT_DEV_GDA_READ:
    case WEFT_DEV_GDA_NOP:
    case WEFT_DEV_GDA_DUMP:
        return false;
    default: /* an atomic; adding 0 changes nothing */
        return opcode != WEFT_DEV_GDA_FA || operand;
    }
}

/* Offset in the system segment of PE pe of what a request writes there. */
static uint64_t system_offset(const struct gda *gda, int pe, const void *request)
{
    uint64_t address;
    memcpy(&address, (const char *)request + WEFT_DEV_GDA_SEGMENT, sizeof address);
    return opcode_of(request) == WEFT_DEV_GDA_WRITE
               ? be64toh(address) - gda->bases[(size_t)pe * SEG_COUNT + SEG_SYSTEM]
               : UINT64_MAX;
}

bool gda_dc_is_of_library(const struct gda *gda, int pe, const void *request)
{
    return system_offset(gda, pe, request) < gda->world->buffers_end;
}

bool gda_dc_is_flag(const struct gda *gda, int pe, const void *request)
{
    enum { LINE = 64 };
    const uint32_t inline_word = 1u << 31 | sizeof(uint64_t);
    const uint64_t at = system_offset(gda, pe, request);
    uint32_t bytes;
    memcpy(&bytes, (const char *)request + 2 * WEFT_DEV_GDA_SEGMENT, sizeof bytes);
    return at < gda->world->areas_end && be32toh(bytes) == inline_word &&
           at % (at < gda->world->areas_offset ? LINE : sizeof(uint64_t)) == 0;
}

/* -------------------------------------------------------------------------------------- posting */

/* Waits until the failover thread has executed the composed request. */
static weft_status hand_over(const struct gda *gda, struct gda_initiator *initiator, int pe)
{
    struct path_wait wait = {.world = gda->world, .operation = BOX_OP_PUT, .pe = pe};
    weft_status status = WEFT_OK;
    initiator->handed_pe = pe;
    atomic_store(&initiator->handed, GDA_DC_HANDED);
    gda_raise_alarm(gda->failover);
    while (!status && atomic_load(&initiator->handed) != GDA_DC_EXECUTED)
        status = path_wait_step(&wait, 0);
    path_wait_end(&wait);
    int handed = GDA_DC_HANDED;
    if (status && atomic_compare_exchange_strong(&initiator->handed, &handed, GDA_DC_NONE))
        return status;
    while (atomic_load(&initiator->handed) != GDA_DC_EXECUTED)
        sched_yield();
    atomic_store(&initiator->handed, GDA_DC_NONE);
    return initiator->handed_status ? base_fail(initiator->handed_status, "%s", initiator->sentence)
                                    : WEFT_OK;
}

/* Posts the composed request with its marks. Only a request behind the first mark can let a PE know
 * of the writes before it, so these can be repeated. */
static void post_request(const struct gda *gda, struct gda_initiator *initiator, int pe)
{
    const uint64_t base = initiator->head;
    const char *request = weft_dev_gda_block(&initiator->scratch, base);
    /* A test uses the words of marks: a mark behind it would change what a repeated read finds. */
    const bool marks = gda->failover && gda_link_of(gda, pe) == GDA_LINK_DC &&
                       gda_dc_is_seen_twice(request) && !gda_dc_is_of_library(gda, pe, request);
    if (begins_run(initiator, pe))
        initiator->marked = false;
    if (marks && !initiator->marked)
        post_mark(gda, initiator, pe);
    store_request(gda, initiator, pe, &initiator->scratch, base, WEFT_DEV_GDA_SIGNALED);
    if (marks && is_dc_atomic(request))
        post_mark(gda, initiator, pe);
    gda_dc_ring(initiator);
}

uint64_t gda_dc_publish(const struct gda *gda, uint32_t adapter, int pe)
{
    struct gda_initiator *initiator = gda_initiator_to(gda, adapter, pe);
    weft_status status = WEFT_OK;
    bool posts = gda_dc_state_of(gda, pe, adapter) <= GDA_DC_ENDING;
    if (likely(posts))
        post_request(gda, initiator, pe);
    else
        status = hand_over(gda, initiator, pe);
    if (status)
        gda_dc_note_loss((struct gda *)(uintptr_t)gda, initiator, pe, 0, status);
    uint64_t end = posts ? initiator->head : gda_dc_done(initiator);
    pthread_mutex_unlock(&initiator->lock);
    return end;
}

/* ---------------------------------------------------------------------------------- completions */

bool gda_dc_read_completions(struct gda_initiator *initiator, struct gda_dc_fault *fault)
{
    const uint32_t last = initiator->ring.last, log = (uint32_t)__builtin_ctz(last + 1);
    const uint32_t polled = initiator->polled;
    uint64_t done = gda_dc_done(initiator);
    bool works = true;
    for (;; initiator->polled++) {
        const uint64_t *entry =
            (const uint64_t *)(const void *)(initiator->completions +
                                             (size_t)(initiator->polled & last) *
                                                 WEFT_DEV_GDA_BLOCK +
                                             56);
        /* Acquire: the results of the request came before it. */
        uint64_t word = __atomic_load_n(entry, __ATOMIC_ACQUIRE);
        uint32_t opcode = weft_dev_gda_cqe_opcode(word), owner = word >> 56 & 1;
        if (opcode == WEFT_DEV_GDA_CQE_NONE || owner != (initiator->polled >> log & 1))
            break;
        uint16_t ahead = (uint16_t)(weft_dev_gda_cqe_index(word) - (done - initiator->start));
        uint64_t at = done + ahead, why = __atomic_load_n(entry - 1, __ATOMIC_RELAXED);
        if (opcode != WEFT_DEV_GDA_CQE_OK) {
            *fault = (struct gda_dc_fault){at, (unsigned)(why >> 56), (unsigned)(why >> 48 & 0xff)};
            works = false;
            break;
        }
        const char *request = weft_dev_gda_block(&initiator->ring, at - initiator->start);
        done = at + gda_dc_blocks(gda_dc_segments(request));
    }
    if (initiator->polled == polled)
        return works;
    __atomic_store_n(initiator->cq_record, htobe32(initiator->polled & 0xffffff), __ATOMIC_RELEASE);
    __atomic_store_n(&initiator->q.done, done, __ATOMIC_RELEASE);
    return works;
}

/* -------------------------------------------------------------------------------------- waiting */

/* Reads completions. An error has the initiator replaced, by the failover thread if there is one.
 * The caller has the lock. */
static weft_status read_or_replace(const struct gda *gda, struct gda_initiator *initiator)
{
    if (initiator->broken)
        return base_fail(initiator->broken, "%s", initiator->sentence);
    if (initiator->failed || initiator->closed ||
        gda_dc_read_completions(initiator, &initiator->fault))
        return WEFT_OK;
    if (!gda->failover)
        return gda_dc_replace((struct gda *)(uintptr_t)gda, initiator, &initiator->fault);
    initiator->failed = true;
    gda_raise_alarm(gda->failover);
    return WEFT_OK;
}

/* Every request finds space for the longest one, whose blocks have no owner then, and marks. */
static bool has_room(const struct gda_initiator *initiator)
{
    return initiator->head + GDA_DC_SCRATCH + 2 * GDA_DC_MARK_BLOCKS - gda_dc_done(initiator) <=
           initiator->ring.last + 1u;
}

/* Whether a request to PE pe can be posted, or handed over. */
static bool is_ready(const struct gda *gda, const struct gda_initiator *initiator, int pe)
{
    enum gda_dc_state state = gda_dc_state_of(gda, pe, gda_dc_adapter_of(gda, initiator));
    return state >= GDA_DC_MOVED ||
           (state == GDA_DC_WORKS && has_room(initiator) && !initiator->failed &&
            !initiator->closed && !initiator->broken);
}

/* Releases the lock while it waits: the failover thread needs it. */
static weft_status await_ready(const struct gda *gda, struct gda_initiator *initiator, int pe)
{
    struct path_wait wait = {.world = gda->world, .operation = BOX_OP_PUT, .pe = pe};
    weft_status status = read_or_replace(gda, initiator);
    while (!status && !is_ready(gda, initiator, pe)) {
        pthread_mutex_unlock(&initiator->lock);
        status = path_wait_step(&wait, gda_dc_done(initiator));
        pthread_mutex_lock(&initiator->lock);
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
    if (unlikely(!is_ready(gda, initiator, pe)))
        status = await_ready(gda, initiator, pe);
    if (unlikely(atomic_load_explicit(&gda->dc_lost, memory_order_relaxed)) && !status)
        status = gda_dc_find_loss(gda, initiator, pe, UINT64_MAX);
    if (unlikely(!status && gda_dc_state_of(gda, pe, adapter) == GDA_DC_LOST))
        status =
            base_fail(WEFT_ERR_PATH,
                      "path gda: requests by DC to PE %d through another adapter are lost", pe);
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
            status = path_wait_step(&wait, gda_dc_done(initiator));
    }
    path_wait_end(&wait);
    if (status || !atomic_load(&gda->dc_lost))
        return status;
    /* Without the initiator's lock: its holder may wait for this thread to free a result slot. */
    return gda_dc_find_loss(gda, initiator, pe, target);
}
