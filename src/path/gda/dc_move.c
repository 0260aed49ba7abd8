/* SPDX-License-Identifier: Apache-2.0 */
/* Failover of requests by DC. When an initiator's queue, a NIC of this PE or one of a peer fails,
 * the failover thread
 *
 *     closes the queue, so that nothing more is sent, and lets what is on its way arrive
 *     finds out what the PE of the first incomplete request ("its run") may have executed
 *     executes the others of its requests over path net
 *     opens a new queue for requests to other PEs, or executes them as well if the NIC has failed
 *
 * Later requests go through another NIC. Where none works, or where an atomic belongs to the failed
 * NIC, a thread hands each one over to this thread.
 *
 * Marks (dc.h) divide a run. What is before the last one that has arrived has been executed, and
 * what is behind the next one has not. The part between may have been executed. Flags of the
 * library divide it further: what is before one that the PE has was executed, and nothing was from
 * one on that it does not have. Writes of data and reads in the rest are repeated, and a value that
 * the PE has is left out. An atomic there, or a value that the PE does not have, makes this PE give
 * the other one up. Spin model gda_dc. */
#include "path/gda/dc.h"
#include "path/gda/failover.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "path/gda/error.h"

#include <endian.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define ARRIVAL_NS ((uint64_t)10 * 1000 * 1000)        /* for requests that are on their way */
#define TEST_NS    ((uint64_t)10 * 1000 * 1000 * 1000) /* for a test at first use */

/* -------------------------------------------------------------------------------------- failing */

static atomic_uchar *pair_of(const struct gda *gda, int pe, uint32_t adapter)
{
    return &gda->dc->pairs[(size_t)pe * gda->count + adapter];
}

uint32_t gda_dc_working_adapter(const struct gda *gda, int pe, uint32_t first)
{
    for (uint32_t i = 0; i < gda->count; i++)
        if (gda_dc_state_of(gda, pe, (first + i) % gda->count) == GDA_DC_WORKS)
            return (first + i) % gda->count;
    return gda->count;
}

void gda_dc_stop_pair(struct gda_failover *f, int pe, uint32_t adapter, const char *cause)
{
    struct gda *gda = f->gda;
    if (gda_dc_state_of(gda, pe, adapter) != GDA_DC_WORKS)
        return;
    atomic_store(pair_of(gda, pe, adapter), GDA_DC_ENDING);
    __atomic_store_n(&gda->some_failed, true, __ATOMIC_RELAXED);
    gda_report_failure(f, pe, adapter, gda_initiator_to(gda, adapter, pe)->q.number, cause);
}

void gda_dc_report_stopped(struct gda_failover *f, uint32_t adapter)
{
    const struct gda *gda = f->gda;
    f->stopped |= 1u << adapter;
    for (int pe = 0; pe < gda->world->npes; pe++) {
        if (!gda_is_dc_peer(gda, pe) || !gda_dc_is_used_by(gda, pe))
            continue;
        struct remote at = gda_mail_field(f, pe, offsetof(struct gda_mail, stopped));
        weft_status status = at.peer->ops->store(at, &f->stopped, sizeof f->stopped);
        if (!status)
            status = gda_ring_mail(f, pe);
        if (status) /* It has ended. */
            log_debug(LOG_GDA, "path gda: PE %d is not reached: %s", pe, base_last_error());
    }
}

void gda_dc_stop(struct gda_failover *f, uint32_t adapter, const char *cause)
{
    struct gda *gda = f->gda;
    if (!gda->dc || atomic_load(&gda->dc->own[adapter]) != GDA_DC_WORKS)
        return;
    atomic_store(&gda->dc->own[adapter], GDA_DC_ENDING);
    __atomic_store_n(&gda->some_failed, true, __ATOMIC_RELAXED);
    gda_close_target(gda, adapter);
    gda_dc_report_stopped(f, adapter);
    for (int pe = 0; pe < gda->world->npes; pe++)
        if (gda_link_of(gda, pe) == GDA_LINK_DC)
            gda_report_failure(f, pe, adapter, 0, cause);
}

/* ---------------------------------------------------------------------------------- one request */

/* A request without the address of its target, as for an RC queue. */
struct dc_request {
    struct gda_wqe wqe;
    bool is_mark, is_test; /* of the words by which the way is tested */
    bool is_flag;          /* gda_dc_is_flag() */
    bool is_payload;       /* of the library, in the form of a value: data, which a flag reports */
    uint32_t blocks;       /* in the initiator's ring */
    _Alignas(16) char plain[GDA_WQE_BLOCKS_MOST * WEFT_DEV_GDA_BLOCK];
};

/* The part of a failed queue that executing a request needs. */
static struct gda_failed_queue dc_queue_of(const struct gda_initiator *initiator, int pe)
{
    struct gda_failed_queue queue = {.pe = pe};
    queue.q.ring = initiator->ring;
    queue.q.results = initiator->q.results;
    return queue;
}

static void read_request(const struct gda *gda, const struct gda_initiator *initiator, int pe,
                         const char *from, struct dc_request *request)
{
    const uint32_t adapter = gda_dc_adapter_of(gda, initiator), all = gda_dc_segments(from);
    const struct gda_failed_queue queue = dc_queue_of(initiator, pe);
    const uint64_t words = gda_test_word(gda, pe, adapter, 0).address;
    uint32_t left_out = 0, opcode, bytes;
    memcpy(&opcode, from, sizeof opcode);
    if (opcode >> 24 != WEFT_DEV_GDA_NOP)
        left_out = gda_dc_address_segments(gda, adapter, pe);
    memcpy(request->plain, from, WEFT_DEV_GDA_SEGMENT);
    request->plain[7] = (char)(all - left_out);
    memcpy(request->plain + WEFT_DEV_GDA_SEGMENT,
           from + (size_t)(1 + left_out) * WEFT_DEV_GDA_SEGMENT,
           (size_t)(all - left_out - 1) * WEFT_DEV_GDA_SEGMENT);
    request->blocks = gda_dc_blocks(all);
    request->wqe = gda_wqe_head(&queue, request->plain);
    request->is_mark = request->is_test = request->is_flag = request->is_payload = false;
    if (!request->wqe.message)
        return;
    gda_wqe_data(request->plain, &bytes);
    if (gda_wqe_remote(request->plain) - words < PATH_WORDS_BYTES) {
        request->is_mark = bytes == GDA_DC_MARK_BYTES;
        request->is_test = bytes == sizeof(uint64_t);
    } else {
        request->is_flag = gda_dc_is_flag(gda, pe, request->plain);
        request->is_payload = !request->is_flag && gda_dc_is_of_library(gda, pe, request->plain);
    }
}

static bool is_seen_twice(const struct dc_request *request)
{
    return !request->is_mark && !request->is_test && !request->is_payload &&
           gda_dc_is_seen_twice(request->plain);
}

static weft_status execute(struct gda_failover *f, const struct gda_initiator *initiator, int pe,
                           const char *plain)
{
    const struct gda_failed_queue queue = dc_queue_of(initiator, pe);
    weft_status status = gda_execute(f, &queue, plain);
    return status ? status : f->spare_ops->fence(f->spare);
}

/* ------------------------------------------------------------------ what may have been executed */

/* The NIC reports with these syndromes that neither it nor the peer has executed the request. */
static bool is_refused(const struct gda_initiator *initiator)
{
    enum { LOCAL_MOST = 4, INVALID = 0x12, REMOTE_OPERATION = 0x14 };
    unsigned syndrome = initiator->fault.syndrome;
    return initiator->failed &&
           (syndrome <= LOCAL_MOST || (syndrome >= INVALID && syndrome <= REMOTE_OPERATION));
}

/* The run of the first incomplete request: blocks of the pending requests. The PE executes a run in
 * its order. */
struct dc_run {
    int pe;
    uint32_t blocks; /* its length */
    bool is_seen;    /* it has requests whose repetition could be seen */
    bool has_mark;   /* `first_mark` is the number of its first mark */
    uint16_t first_mark;
    uint32_t executed; /* end of what has been executed: a mark or a result behind it has arrived */
    uint32_t unknown;  /* end of what may have been executed: the next mark has not arrived */
};

static uint16_t mark_of(const struct dc_request *request)
{
    uint16_t mark;
    memcpy(&mark, request->plain + WEFT_DEV_GDA_INLINE_AT, sizeof mark);
    return mark;
}

/* Reads the pending request at that block. */
static void read_pending(const struct gda *gda, const struct gda_initiator *initiator,
                         const struct gda_dc_pending *pending, uint32_t at,
                         struct dc_request *request)
{
    read_request(gda, initiator, pending->pes[at],
                 pending->blocks + (size_t)at * WEFT_DEV_GDA_BLOCK, request);
}

static struct dc_run read_run(const struct gda *gda, const struct gda_initiator *initiator,
                              const struct gda_dc_pending *pending)
{
    struct dc_run run = {.pe = pending->pes[0]};
    struct dc_request request;
    while (run.blocks < pending->count && pending->pes[run.blocks] == run.pe) {
        read_pending(gda, initiator, pending, run.blocks, &request);
        run.blocks += request.blocks;
        run.is_seen |= is_seen_twice(&request);
        if (!request.is_mark || run.has_mark)
            continue;
        run.has_mark = true;
        run.first_mark = mark_of(&request);
    }
    return run;
}

/* The number of the last mark that is in memory of the PE. The PE reads it through its own NIC,
 * behind what has arrived there, if atomics go through NICs. */
static weft_status read_mark(struct gda_failover *f, uint32_t adapter, int pe, uint16_t *mark)
{
    const struct path_world *world = f->gda->world;
    const size_t offset = (size_t)adapter * GDA_DC_MARK_BYTES, word = offset & ~(size_t)7;
    struct remote at = {&gda_spare(f, pe)->peer, SEG_SYSTEM,
                        world->words_offset + (size_t)world->pe * PATH_WORDS_BYTES + word};
    uint64_t found = 0;
    weft_status status = gda_atomic_anywhere(f, at, WEFT_AMO_FETCH, sizeof found, 0, 0, &found);
    memcpy(mark, (const char *)&found + (offset - word), sizeof *mark);
    return status;
}

/* Finds the executed part of the run, and the part that may have been executed. arrived: the last
 * mark. */
static void find_unknown(struct gda_failover *f, const struct gda_initiator *initiator,
                         const struct gda_dc_pending *pending, uint16_t arrived, struct dc_run *run)
{
    const struct gda_failed_queue queue = dc_queue_of(initiator, run->pe);
    struct dc_request request;
    run->unknown = run->blocks;
    for (uint32_t at = 0; at < run->blocks; at += request.blocks) {
        read_pending(f->gda, initiator, pending, at, &request);
        if (request.is_mark && (int16_t)(mark_of(&request) - arrived) > 0) {
            run->unknown = at;
            return;
        }
        if (request.is_mark ||
            (request.wqe.message && request.wqe.fetches && is_seen_twice(&request) &&
             !gda_check_result(f, &queue, request.plain)))
            run->executed = at + request.blocks;
    }
}

/* Whether the unknown part has a later value for the same address. */
static bool is_overwritten(const struct gda *gda, const struct gda_initiator *initiator,
                           const struct gda_dc_pending *pending, const struct dc_run *run,
                           uint32_t from, uint64_t address)
{
    struct dc_request request;
    for (uint32_t at = from; at < run->unknown; at += request.blocks) {
        read_pending(gda, initiator, pending, at, &request);
        if (is_seen_twice(&request) && gda_wqe_remote(request.plain) == address)
            return true;
    }
    return false;
}

/* Whether the PE has the value that the request writes, or a greater flag: then it need not be
 * written again. */
static weft_status has_value(struct gda_failover *f, int pe, struct dc_request *request, bool *has)
{
    uint64_t value = 0, own = 0;
    uint32_t bytes;
    struct remote at;
    char *data = gda_wqe_data(request->plain, &bytes);
    *has = false;
    if (data || !gda_find_remote(f, pe, gda_wqe_remote(request->plain), &at))
        return WEFT_OK;
    weft_status status = at.peer->ops->load(at, &value, bytes);
    memcpy(&own, request->plain + WEFT_DEV_GDA_INLINE_AT, bytes);
    *has = value == own || (request->is_flag && value > own);
    return status;
}

static weft_status give_up(const struct gda_initiator *initiator, int pe)
{
    return base_fail(WEFT_ERR_PATH,
                     "path gda: PE %d is given up: it may have executed atomics or values by DC "
                     "that %s, port %d, has not acknowledged",
                     pe, initiator->qp.adapter->name, GDA_PORT);
}

/* Begins the unknown part behind the last flag that the PE has, and ends it at the first one that
 * it does not have. */
static weft_status narrow_unknown(struct gda_failover *f, const struct gda_initiator *initiator,
                                  const struct gda_dc_pending *pending, struct dc_run *run)
{
    struct dc_request request;
    bool has;
    for (uint32_t at = run->executed; at < run->unknown; at += request.blocks) {
        read_pending(f->gda, initiator, pending, at, &request);
        if (!request.is_flag)
            continue;
        weft_status status = has_value(f, run->pe, &request, &has);
        if (status)
            return status;
        if (has)
            run->executed = at + request.blocks;
        else
            run->unknown = at;
    }
    return WEFT_OK;
}

/* Fails if it matters whether the unknown part has been executed: an atomic is in it; a value is in
 * it that the PE does not have; or a value that it has may let it know of data before it. */
static weft_status check_unknown(struct gda_failover *f, const struct gda_initiator *initiator,
                                 const struct gda_dc_pending *pending, const struct dc_run *run)
{
    struct dc_request request;
    bool has, data = false;
    for (uint32_t at = run->executed; at < run->unknown; at += request.blocks) {
        read_pending(f->gda, initiator, pending, at, &request);
        bool write = request.wqe.opcode == WEFT_DEV_GDA_WRITE;
        if (!is_seen_twice(&request)) {
            data |= write;
            continue;
        }
        if (!write || data)
            return give_up(initiator, run->pe);
        if (is_overwritten(f->gda, initiator, pending, run, at + request.blocks,
                           gda_wqe_remote(request.plain)))
            continue;
        weft_status status = has_value(f, run->pe, &request, &has);
        if (status || !has)
            return status ? status : give_up(initiator, run->pe);
    }
    return WEFT_OK;
}

static const uint16_t *mark_to(const struct gda *gda, const struct gda_initiator *initiator, int pe)
{
    return &gda->dc->marks[(size_t)pe * gda->count + gda_dc_adapter_of(gda, initiator)];
}

static weft_status find_executed(struct gda_failover *f, const struct gda_initiator *initiator,
                                 const struct gda_dc_pending *pending, struct dc_run *run)
{
    uint16_t arrived = 0;
    weft_status status = WEFT_OK;
    if (!run->is_seen || is_refused(initiator))
        return WEFT_OK;
    if (run->has_mark)
        status = read_mark(f, gda_dc_adapter_of(f->gda, initiator), run->pe, &arrived);
    if (status)
        return status;
    /* No number of this run, nor the one before: something else has written there. */
    uint16_t last = *mark_to(f->gda, initiator, run->pe);
    if (run->has_mark && (uint16_t)(last - arrived) > (uint16_t)(last - run->first_mark + 1))
        return give_up(initiator, run->pe);
    find_unknown(f, initiator, pending, arrived, run);
    status = narrow_unknown(f, initiator, pending, run);
    return status ? status : check_unknown(f, initiator, pending, run);
}

/* ------------------------------------------------------------------------------------ take-over */

/* Executes a pending request, unless it is executed. Reads are repeated. */
static weft_status execute_pending(struct gda_failover *f, const struct gda_initiator *initiator,
                                   const struct dc_request *request, int pe, bool executed)
{
    bool again = !executed || request->wqe.opcode == WEFT_DEV_GDA_READ;
    return again && !request->is_mark && !request->is_test
               ? execute(f, initiator, pe, request->plain)
               : WEFT_OK;
}

/* Whether the request at that block has been executed, or the PE has its value. */
static bool is_executed(const struct dc_run *run, const struct dc_request *request, uint32_t at)
{
    return at < run->executed || (at < run->unknown && is_seen_twice(request));
}

/* Requests to a PE are lost. The job ends, because that PE may wait for one of them, and no caller
 * here does. A PE that has ended waits for nothing: over any path its requests fail, and the
 * program may go on without it. */
static void lose_pending(struct gda_failover *f, struct gda_initiator *initiator, int pe,
                         uint64_t from, weft_status why)
{
    weft_status noted = gda_dc_note_loss(f->gda, initiator, pe, from, why);
    log_warn(LOG_GDA, "%s", base_last_error());
    if (noted || why != WEFT_ERR_PEER_DEAD)
        f->gda->world->fail(f->gda->world, noted ? noted : why, base_last_error());
}

/* Executes pending requests: those of the first run's PE, or those of all other PEs. */
static void execute_part(struct gda_failover *f, struct gda_initiator *initiator,
                         const struct gda_dc_pending *pending, const struct dc_run *run,
                         bool others)
{
    const uint32_t adapter = gda_dc_adapter_of(f->gda, initiator);
    struct dc_request request;
    for (uint32_t at = 0; at < pending->count; at += request.blocks) {
        const int pe = pending->pes[at];
        read_pending(f->gda, initiator, pending, at, &request);
        if ((pe != run->pe) != others || gda_dc_state_of(f->gda, pe, adapter) == GDA_DC_LOST)
            continue;
        weft_status status =
            execute_pending(f, initiator, &request, pe, is_executed(run, &request, at));
        if (!status && request.wqe.fetches)
            status = f->spare_ops->quiet(f->spare);
        if (status)
            lose_pending(f, initiator, pe, gda_dc_done(initiator) + at, status);
    }
    weft_status status = f->spare_ops->quiet(f->spare);
    if (status)
        f->gda->world->fail(f->gda->world, status, base_last_error());
}

/* Executes what is left of the first run's PE. */
static void take_run_over(struct gda_failover *f, struct gda_initiator *initiator,
                          const struct gda_dc_pending *pending, struct dc_run *run)
{
    const uint32_t adapter = gda_dc_adapter_of(f->gda, initiator);
    atomic_uchar *pair = pair_of(f->gda, run->pe, adapter);
    gda_dc_stop_pair(f, run->pe, adapter, gda_syndrome_text(initiator->fault.syndrome));
    weft_status status = find_executed(f, initiator, pending, run);
    if (status)
        lose_pending(f, initiator, run->pe, gda_dc_done(initiator), status);
    execute_part(f, initiator, pending, run, false);
    if (atomic_load(pair) == GDA_DC_ENDING)
        atomic_store(pair, GDA_DC_MOVED);
}

/* Opens a new queue for what other PEs are to execute. False: the NIC has failed, or it refuses the
 * queue and counts as failed. */
static bool open_again(struct gda_failover *f, struct gda_initiator *initiator,
                       const struct gda_dc_pending *pending, int without)
{
    const uint32_t adapter = gda_dc_adapter_of(f->gda, initiator);
    if (atomic_load(&f->gda->dc->own[adapter]) != GDA_DC_WORKS)
        return false;
    initiator->closed = gda_dc_reopen(f->gda, initiator, gda_dc_done(initiator), pending, without);
    if (initiator->closed)
        gda_dc_stop(f, adapter, base_last_error());
    return !initiator->closed;
}

/* The caller has the initiator's lock. */
static void take_initiator_over(struct gda_failover *f, struct gda_initiator *initiator)
{
    struct gda_dc_pending pending = {0};
    struct dc_run run = {.pe = -1};
    weft_status status = gda_dc_copy_pending(initiator, gda_dc_done(initiator), &pending);
    if (!status && pending.count) {
        run = read_run(f->gda, initiator, &pending);
        take_run_over(f, initiator, &pending, &run);
    }
    if (!status && !open_again(f, initiator, &pending, run.pe)) {
        execute_part(f, initiator, &pending, &run, true);
        /* Release: results are in their slots. */
        __atomic_store_n(&initiator->q.done, initiator->head, __ATOMIC_RELEASE);
    }
    if (status)
        f->gda->world->fail(f->gda->world, status, base_last_error());
    gda_dc_free_pending(&pending);
}

/* ---------------------------------------------------------------------------- the thread's pass */

static bool has_pending(const struct gda_initiator *initiator, int pe)
{
    for (uint64_t at = gda_dc_done(initiator); at < initiator->head; at++)
        if (initiator->pes[(at - initiator->start) & initiator->ring.last] == pe)
            return true;
    return false;
}

/* Whether the queue is to be closed: an error has ended it, or the way of its first run has failed.
 * If another one has failed, its requests stay until they are the first. */
static bool is_ended(const struct gda *gda, struct gda_initiator *initiator)
{
    const uint32_t adapter = gda_dc_adapter_of(gda, initiator);
    initiator->failed = initiator->failed || !gda_dc_read_completions(initiator, &initiator->fault);
    uint64_t done = gda_dc_done(initiator);
    int pe = initiator->pes[(done - initiator->start) & initiator->ring.last];
    return initiator->failed || atomic_load(&gda->dc->own[adapter]) != GDA_DC_WORKS ||
           (done != initiator->head && gda_dc_state_of(gda, pe, adapter) == GDA_DC_ENDING);
}

/* What has completed meanwhile is complete. */
static void close_queue(struct gda_initiator *initiator)
{
    gda_destroy_qp(&initiator->qp);
    initiator->qp = (struct gda_qp){
        .adapter = initiator->qp.adapter, .umem = initiator->qp.umem, .dc = true, .entries = true};
    if (!initiator->failed)
        initiator->failed = !gda_dc_read_completions(initiator, &initiator->fault);
    initiator->closed = true;
    initiator->closed_ns = clock_now_ns();
}

static bool advance_queue(struct gda_failover *f, struct gda_initiator *initiator)
{
    const struct gda *gda = f->gda;
    const uint32_t adapter = gda_dc_adapter_of(gda, initiator);
    if (atomic_load(&gda->dc->own[adapter]) == GDA_DC_MOVED)
        return false;
    if (!initiator->closed && !is_ended(gda, initiator))
        return false;
    if (!initiator->closed)
        close_queue(initiator);
    else if (clock_now_ns() - initiator->closed_ns >= ARRIVAL_NS)
        take_initiator_over(f, initiator);
    return true;
}

static void execute_handed(struct gda_failover *f, struct gda_initiator *initiator)
{
    _Alignas(16) char plain[GDA_DC_SCRATCH * WEFT_DEV_GDA_BLOCK];
    const uint64_t base = initiator->head;
    for (uint64_t i = 0; i < GDA_DC_SCRATCH; i++)
        memcpy(plain + i * WEFT_DEV_GDA_BLOCK, weft_dev_gda_block(&initiator->scratch, base + i),
               WEFT_DEV_GDA_BLOCK);
    weft_status status = execute(f, initiator, initiator->handed_pe, plain);
    if (!status)
        status = f->spare_ops->quiet(f->spare);
    if (status)
        snprintf(initiator->sentence, sizeof initiator->sentence, "%s", base_last_error());
    initiator->handed_status = status;
    atomic_store(&initiator->handed, GDA_DC_EXECUTED);
}

/* A thread that hands over a request has the lock, and another one need not be waited for. */
static bool advance_initiator(struct gda_failover *f, struct gda_initiator *initiator)
{
    int handed = GDA_DC_HANDED;
    if (atomic_compare_exchange_strong(&initiator->handed, &handed, GDA_DC_TAKEN)) {
        execute_handed(f, initiator);
        return true;
    }
    if (pthread_mutex_trylock(&initiator->lock))
        return false;
    bool any = advance_queue(f, initiator);
    pthread_mutex_unlock(&initiator->lock);
    return any;
}

/* A way is MOVED when all that was posted to it is executed. */
static void end_pair(const struct gda *gda, int pe, uint32_t adapter)
{
    struct gda_initiator *initiator = gda_initiator_to(gda, adapter, pe);
    if (atomic_load(pair_of(gda, pe, adapter)) != GDA_DC_ENDING ||
        pthread_mutex_trylock(&initiator->lock))
        return;
    if (!has_pending(initiator, pe))
        atomic_store(pair_of(gda, pe, adapter), GDA_DC_MOVED);
    pthread_mutex_unlock(&initiator->lock);
}

static void end_adapter(const struct gda *gda, uint32_t adapter)
{
    bool ends = atomic_load(&gda->dc->own[adapter]) == GDA_DC_ENDING;
    for (int i = 0; i < GDA_INITIATORS && ends; i++) {
        struct gda_initiator *initiator = gda_initiator_to(gda, adapter, i);
        ends = !pthread_mutex_trylock(&initiator->lock);
        if (!ends)
            break;
        ends = initiator->closed && initiator->head == gda_dc_done(initiator);
        pthread_mutex_unlock(&initiator->lock);
    }
    if (ends)
        atomic_store(&gda->dc->own[adapter], GDA_DC_MOVED);
}

static void check_test(struct gda_failover *f)
{
    const struct gda_dc *dc = f->gda->dc;
    uint64_t begun = atomic_load(&dc->test_ns);
    if (begun && clock_now_ns() - begun >= TEST_NS)
        gda_dc_stop_pair(f, dc->test_pe, dc->test_adapter, "the test took more than 10 s");
}

bool gda_dc_advance(struct gda_failover *f)
{
    const struct gda *gda = f->gda;
    bool any = false;
    if (!gda->dc)
        return false;
    check_test(f);
    for (uint32_t i = 0; i < gda->count * GDA_INITIATORS; i++)
        any |= advance_initiator(f, &gda->dc->initiators[i]);
    for (uint32_t a = 0; a < gda->count && gda->some_failed; a++) {
        for (int pe = 0; pe < gda->world->npes; pe++)
            end_pair(gda, pe, a);
        end_adapter(gda, a);
    }
    return any;
}
