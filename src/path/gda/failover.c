/* SPDX-License-Identifier: Apache-2.0 */
/* Failover: notices failed queues and finds the requests that are left to execute. For each pair of
 * queues, the thread of a PE
 *
 *     notices that a queue has failed: a waiting thread has seen an error completion and set the
 *         alarm, the port has been down for a while, or the peer has stopped its end
 *     stops its end in the NIC, which then executes nothing more for the peer, and reports to
 *         the peer how many messages it has executed
 *     learns from the peer how many of its own messages were executed there, finds the first one
 *         that was not, and takes over the queue from there (takeover.c)
 *
 * A NIC counts the messages that it executes for a peer (MSN, InfiniBand specification 9.7.8). The
 * sender finds the same number among the blocks of its ring by the number of fillers
 * (weft_dev_gda_publish_filled()). */
#include "path/gda/failover.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "base/thread.h"
#include "gpu/gpu.h"
#include "path/gda/dc.h"
#include "path/gda/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MS ((uint64_t)1000 * 1000)

enum {
    MSN_MASK = 0xffffff,
    SPIN_PASSES = 2000,       /* passes without anything to do, before the thread sleeps */
    SLEEP_LEAST_NS = 20000,   /* it then sleeps this long, */
    SLEEP_MOST_NS = 1000000,  /* and longer each time, up to this; */
    SLEEP_IDLE_NS = 10000000, /* or this, while no queue has failed and no link is new */
    NS_PER_S = 1000000000,
    GPU_CHECKS = 16, /* queues in GPU memory that are checked at a time */
};
#define CHECK_EVERY  (50 * MS)
#define ENDING_NS    (10 * MS)    /* for responses that are on their way */
#define ANSWER_LIMIT (30000 * MS) /* path net itself changes its NIC within 10 s at each end */

static _Thread_local bool in_failover;

/* -------------------------------------------------------------------------------- queue numbers */

uint32_t gda_link_queues(const struct gda *gda)
{
    return gda_queues_to_pe(gda) + (gda->gpu_queues ? gda->queues_per_pe : 0);
}

uint32_t gda_all_queues(const struct gda *gda)
{
    return gda_queue_count(gda) + (gda->gpu_queues ? gda_device_queue_count(gda) : 0);
}

static int pe_of(const struct gda *gda, uint32_t number)
{
    uint32_t all = gda_queue_count(gda);
    return number < all ? (int)(number / gda_queues_to_pe(gda))
                        : (int)((number - all) / gda->queues_per_pe);
}

uint32_t gda_queue_name(const struct gda *gda, uint32_t number)
{
    uint32_t all = gda_queue_count(gda), first = gda_queues_to_pe(gda);
    return number < all ? number % first : first + (number - all) % gda->queues_per_pe;
}

/* The number of the queue to PE pe with that name. */
static uint32_t number_of(const struct gda *gda, int pe, uint32_t name)
{
    uint32_t first = gda_queues_to_pe(gda);
    return name < first ? gda_queue_index(gda, pe, name)
                        : gda_queue_count(gda) + (uint32_t)pe * gda->queues_per_pe + name - first;
}

static uint32_t name_count(const struct gda *gda)
{
    return gda_queues_to_pe(gda) + gda->queues_per_pe;
}

uint32_t gda_queue_adapter(const struct gda *gda, uint32_t number)
{
    uint32_t name = gda_queue_name(gda, number), first = gda_queues_to_pe(gda);
    return gda_adapter_of(gda, name < first ? name : name - first);
}

/* -------------------------------------------------------------------------------------- failing */

static void lose_queue(struct gda_failover *f, struct gda_failed_queue *queue, weft_status status)
{
    if (!f->lost) {
        snprintf(f->sentence, sizeof f->sentence, "path gda: requests to PE %d are lost: %.240s",
                 queue->pe, base_last_error());
        f->lost = status;
    }
    queue->state = GDA_QUEUE_LOST;
    /* Release: pairs with gda_takes_over(). */
    atomic_store_explicit(&f->states[queue->number], GDA_QUEUE_LOST, memory_order_release);
    f->gda->world->fail(f->gda->world, f->lost, f->sentence);
}

/* The NIC or the path that replaces NIC a for the peer. */
static void name_replacement(const struct gda_failover *f, int pe, uint32_t a, char *text,
                             size_t bytes)
{
    const struct gda *gda = f->gda;
    bool none = pe == gda->world->pe || f->ends_link;
    uint32_t other = none ? gda->count : gda_working_adapter(gda, pe, a + 1);
    if (other < gda->count)
        snprintf(text, bytes, "%s", gda->adapters->one[other].name);
    else
        snprintf(text, bytes, "path %s", f->spare_ops->name);
}

void gda_report_failure(struct gda_failover *f, int pe, uint32_t a, uint32_t number,
                        const char *cause)
{
    const struct path_world *world = f->gda->world;
    const char *name = f->gda->adapters->one[a].name;
    char found[PATH_FOUND_BYTES], by[GDA_NAME_BYTES + 8], pair[32] = "a queue of ";
    name_replacement(f, pe, a, by, sizeof by);
    if (number) /* 0: the adapter has refused to create it */
        snprintf(pair, sizeof pair, "queue pair %#x of ", number);
    snprintf(found, sizeof found, "%srequests of failed queues by %s: %s, port %d: %.200s",
             gda_is_dc_peer(f->gda, pe) ? "by DC; " : "", by, name, GDA_PORT, cause);
    for (int kind = 0; kind < MEMORY_KINDS && world->report_found; kind++)
        if (world->choices[kind] && world->choices[kind][pe].path == PATH_GDA)
            world->report_found(world, (weft_kind)kind, pe, found);
    if (f->warned[a]) {
        log_debug(LOG_GDA, "path gda to PE %d: %s%s: %s", pe, pair, name, cause);
        return;
    }
    f->warned[a] = true;
    log_warn(
        LOG_GDA,
        "path gda to PE %d: %s%s, port %d: %s; its requests, and those of other queues of this "
        "adapter that fail, go by %s",
        pe, pair, name, GDA_PORT, cause, by);
}

void gda_dc_describe_failed(const struct gda *gda, int pe, char *text, size_t bytes)
{
    char by[GDA_NAME_BYTES + 8];
    for (uint32_t a = 0; a < gda->count && gda->failover; a++) {
        size_t used = strlen(text);
        if (gda_dc_state_of(gda, pe, a) == GDA_DC_WORKS)
            continue;
        name_replacement(gda->failover, pe, a, by, sizeof by);
        snprintf(text + used, bytes - used, "; requests of failed queues by %s: %s, port %d", by,
                 gda->adapters->one[a].name, GDA_PORT);
    }
}

/* The constant part of the queue. */
static void describe_queue(const struct gda *gda, struct gda_failed_queue *queue)
{
    uint32_t all = gda_queue_count(gda), number = queue->number;
    queue->on_gpu = number >= all;
    queue->qp = queue->on_gpu ? &gda->gpu_queues->qps[number - all] : &gda->qps[number];
    const struct weft_dev_gda_queue *q =
        queue->on_gpu ? &gda->gpu_queues->queues[number - all] : &gda->queues[number];
    queue->q.ring = q->ring;
    queue->q.completion = q->completion;
    queue->q.results = q->results;
    queue->q.number = q->number;
}

/* The counts of the queue as they are now. A GPU has those of its queues in its own memory. */
static weft_status read_counts(struct gda *gda, struct gda_failed_queue *queue)
{
    uint32_t all = gda_queue_count(gda), number = queue->number;
    uint32_t name = gda_queue_name(gda, number);
    bool device = queue->on_gpu || (name < gda->queues_per_pe && !gda->gpu_queues);
    if (gda->cuda && device)
        return gda_read_cuda_queue(
            gda, queue->on_gpu ? number - all : (uint32_t)queue->pe * gda->queues_per_pe + name,
            &queue->q.done, &queue->q.counted);
    if (queue->on_gpu)
        return WEFT_OK;
    queue->q.done = __atomic_load_n(&gda->queues[number].done, __ATOMIC_ACQUIRE);
    queue->q.counted = __atomic_load_n(&gda->queues[number].counted, __ATOMIC_ACQUIRE);
    return WEFT_OK;
}

static weft_status read_completion(const struct gda *gda, const struct gda_failed_queue *queue,
                                   uint64_t *word, uint64_t *why)
{
    uint64_t both[2];
    const uint64_t *last = queue->q.completion;
    if (queue->on_gpu) {
        weft_status status =
            gpu_copy(gda->world->gpu, GDA_COPY_STREAM, both, last - 1, sizeof both, GPU_DONE);
        *why = both[0];
        *word = both[1];
        return status;
    }
    *word = __atomic_load_n(last, __ATOMIC_ACQUIRE);
    *why = __atomic_load_n(last - 1, __ATOMIC_RELAXED);
    return WEFT_OK;
}

/* Stops this end of the queue, and tells the peer. */
static void stop_end(struct gda_failover *f, struct gda_failed_queue *queue)
{
    struct gda *gda = f->gda;
    uint64_t word = 0, why;
    weft_status status = read_counts(gda, queue);
    if (!status)
        status = read_completion(gda, queue, &word, &why);
    queue->done = queue->q.done;
    if (weft_dev_gda_cqe_opcode(word) == WEFT_DEV_GDA_CQE_OK)
        queue->done += (uint16_t)(weft_dev_gda_cqe_index(word) + 1u - (uint32_t)queue->done);
    if (!status)
        status = gda_stop_qp(queue->qp, queue->q.number, &queue->executed);
    queue->state = GDA_QUEUE_STOPPED;
    atomic_store(&f->states[queue->number], GDA_QUEUE_STOPPED);
    if (!status && !gda_needs_numbers(f, queue->pe))
        status = gda_report_count(f, queue);
    if (status)
        lose_queue(f, queue, status);
}

weft_status gda_report_counts(struct gda_failover *f, int pe)
{
    weft_status status = WEFT_OK;
    for (const struct gda_failed_queue *queue = f->failed_queues; queue; queue = queue->next)
        if (queue->pe == pe && queue->state >= GDA_QUEUE_STOPPED && !status)
            status = gda_report_count(f, queue);
    return status;
}

/* Notes that a queue has failed. cause: NULL: only if the completion entry has an error. */
static struct gda_failed_queue *note_failure(struct gda_failover *f, uint32_t number,
                                             const char *cause)
{
    struct gda *gda = f->gda;
    struct gda_failed_queue one = {.number = number, .pe = pe_of(gda, number)}, *queue;
    uint64_t word = 0, why = 0;
    if (atomic_load(&f->states[number]) != GDA_QUEUE_WORKS)
        return NULL;
    describe_queue(gda, &one);
    weft_status status = read_counts(gda, &one);
    if (!status)
        status = read_completion(gda, &one, &word, &why);
    bool failed = weft_dev_gda_cqe_opcode(word) == WEFT_DEV_GDA_CQE_ERROR;
    if (!status && ((!failed && !cause) || one.q.done == WEFT_DEV_GDA_FAILED))
        return NULL;
    queue = malloc(sizeof *queue);
    if (!queue)
        status = base_fail(WEFT_ERR_NO_MEMORY, "path gda: no private memory");
    if (status) {
        free(queue);
        gda->world->fail(gda->world, status, base_last_error());
        return NULL;
    }
    *queue = one;
    queue->next = f->failed_queues;
    queue->state = GDA_QUEUE_ENDING;
    queue->noticed_ns = clock_now_ns();
    f->failed_queues = queue;
    atomic_store(&f->states[number], GDA_QUEUE_ENDING);
    __atomic_store_n(&gda->some_failed, true, __ATOMIC_RELAXED);
    gda_report_failure(f, queue->pe, gda_queue_adapter(gda, number), queue->q.number,
                       cause ? cause : gda_syndrome_text((unsigned)(why >> 56)));
    return queue;
}

static void stop_queues_of(struct gda_failover *f, uint32_t adapter, const char *cause);

bool gda_lost_own_queue(const struct gda_failover *f)
{
    int me = f->gda->world->pe;
    for (uint32_t name = 0; name < name_count(f->gda); name++)
        if (number_of(f->gda, me, name) < gda_all_queues(f->gda) &&
            atomic_load(&f->states[number_of(f->gda, me, name)]) != GDA_QUEUE_WORKS)
            return true;
    return false;
}

/* Whether the queue exists, and is no longer under the link's own test. */
static bool is_up(const struct gda *gda, uint32_t number)
{
    return gda_link_of(gda, pe_of(gda, number)) == GDA_LINK_UP;
}

/* A queue from a NIC to itself fails with the whole NIC: from then on this thread executes the
 * atomics on words that used to go through that NIC, so no other PE may reach them through it. */
static void stop_queue(struct gda_failover *f, uint32_t number, const char *cause)
{
    struct gda_failed_queue *queue = note_failure(f, number, cause);
    if (!queue)
        return;
    stop_end(f, queue);
    if (queue->pe != f->gda->world->pe)
        return;
    gda_dc_stop(f, gda_queue_adapter(f->gda, number), "a queue from the adapter to itself failed");
    gda_stop_new_links(f, "a queue from the adapter to itself failed");
    stop_queues_of(f, gda_queue_adapter(f->gda, number),
                   "a queue from the adapter to itself failed");
}

static void stop_queues_of(struct gda_failover *f, uint32_t adapter, const char *cause)
{
    for (uint32_t i = 0; i < gda_all_queues(f->gda); i++)
        if (gda_queue_adapter(f->gda, i) == adapter && is_up(f->gda, i))
            stop_queue(f, i, cause);
}

/* Stops the queue when what the peer has sent before it stopped its end has had time to arrive. */
static void end_queue(struct gda_failover *f, struct gda_failed_queue *queue)
{
    uint64_t word = 0, why;
    if (clock_now_ns() - queue->noticed_ns >= ENDING_NS ||
        read_completion(f->gda, queue, &word, &why) ||
        weft_dev_gda_cqe_opcode(word) == WEFT_DEV_GDA_CQE_ERROR)
        stop_end(f, queue);
}

/* ------------------------------------------------------------------------------------ noticing */

static void stop_failed_queues(struct gda_failover *f)
{
    for (uint32_t i = 0; i < gda_all_queues(f->gda); i++)
        if (is_up(f->gda, i))
            stop_queue(f, i, NULL);
}

void gda_stop_link(struct gda_failover *f, int pe, const char *cause)
{
    f->ends_link = true;
    for (uint32_t name = 0; name < name_count(f->gda); name++)
        if (number_of(f->gda, pe, name) < gda_all_queues(f->gda))
            stop_queue(f, number_of(f->gda, pe, name), cause);
    f->ends_link = false;
}

/* Finds failed queues for whose completion no thread waits. Queues in GPU memory, whose completions
 * take a copy each, are checked in turn. */
static void check_queues(struct gda_failover *f)
{
    const uint32_t all = gda_queue_count(f->gda), more = gda_all_queues(f->gda) - all;
    for (uint32_t i = 0; i < all; i++)
        if (is_up(f->gda, i) &&
            weft_dev_gda_cqe_opcode(__atomic_load_n(f->gda->queues[i].completion,
                                                    __ATOMIC_RELAXED)) == WEFT_DEV_GDA_CQE_ERROR)
            stop_queue(f, i, NULL);
    for (uint32_t i = 0, checks = 0; i < more && checks < GPU_CHECKS; i++) {
        uint32_t number = all + f->next_check++ % more;
        if (!is_up(f->gda, number))
            continue;
        stop_queue(f, number, NULL);
        checks++;
    }
}

static void stop_queues_of_peer(struct gda_failover *f, int pe)
{
    const struct gda_mail *mail = gda_mail_of(f->gda, pe);
    for (uint32_t name = 0; name < name_count(f->gda) && gda_link_of(f->gda, pe) == GDA_LINK_UP;
         name++) {
        uint32_t number = number_of(f->gda, pe, name);
        if (__atomic_load_n(&mail->queues[name], __ATOMIC_ACQUIRE) & GDA_COUNTED &&
            number < gda_all_queues(f->gda))
            note_failure(f, number, "the peer has stopped the queue");
    }
}

static void stop_ways_to_peer(struct gda_failover *f, int pe)
{
    /* Acquire: what the peer has executed is in its memory. */
    uint32_t stopped = __atomic_load_n(&gda_mail_of(f->gda, pe)->stopped, __ATOMIC_ACQUIRE);
    for (uint32_t a = 0; a < f->gda->count && gda_is_dc_peer(f->gda, pe); a++)
        if (stopped >> a & 1)
            gda_dc_stop_pair(f, pe, a, "the peer has stopped its adapter");
}

/* Does what other PEs have left in the mail. Returns whether they have executed anything. */
static bool read_mail(struct gda_failover *f)
{
    bool any = false;
    for (int row = 0; row * 64 < f->gda->world->npes; row++) {
        uint64_t *bells = &gda_mail_of(f->gda, row)->bells;
        if (!__atomic_load_n(bells, __ATOMIC_RELAXED))
            continue;
        /* Acquire: pairs with gda_ring_mail(), which comes after what was left. */
        uint64_t left = __atomic_exchange_n(bells, 0, __ATOMIC_ACQUIRE);
        for (; left; left &= left - 1) {
            int pe = row * 64 + __builtin_ctzll(left);
            gda_begin_offered_link(f, pe);
            stop_queues_of_peer(f, pe);
            stop_ways_to_peer(f, pe);
            any |= gda_execute_delegated(f, pe);
        }
    }
    return any;
}

static void stop_adapter(struct gda_failover *f, uint32_t adapter)
{
    gda_dc_stop(f, adapter, "the port is down");
    stop_queues_of(f, adapter, "the port is down");
}

/* A NIC without its port would retransmit for half a minute before it reports an error. */
static void check_ports(struct gda_failover *f, uint64_t now)
{
    for (uint32_t a = 0; a < f->gda->count; a++) {
        const struct gda_adapter *adapter = &f->gda->adapters->one[a];
        struct ibv_port_attr port;
        bool down = adapter->lib->verbs.query_port(adapter->context, GDA_PORT, &port) ||
                    port.state != IBV_PORT_ACTIVE;
        f->down_ns[a] = down ? (f->down_ns[a] ? f->down_ns[a] : now) : 0;
        if (down && now - f->down_ns[a] >= GDA_DOWN_AFTER)
            stop_adapter(f, a);
    }
}

static void check_all(struct gda_failover *f, uint64_t now)
{
    if (now - f->checked_ns < CHECK_EVERY)
        return;
    f->checked_ns = now;
    check_ports(f, now);
    check_queues(f);
}

/* --------------------------------------------------------------- the first request to take over */

/* A walk over the requests in the send ring. */
struct walk {
    struct gda_failover *f;
    struct gda_failed_queue *queue;
    uint64_t at, limit;
    uint32_t messages;  /* messages that it has passed */
    struct gda_wqe wqe; /* the last request, and its blocks */
    _Alignas(16) char blocks[GDA_WQE_BLOCKS_MOST * WEFT_DEV_GDA_BLOCK];
};

/* Reads the request at walk->at, and passes it. */
static weft_status walk_one(struct walk *walk)
{
    uint64_t left = walk->limit - walk->at;
    uint32_t count = left < GDA_WQE_BLOCKS_MOST ? (uint32_t)left : (uint32_t)GDA_WQE_BLOCKS_MOST;
    weft_status status = gda_copy_blocks(walk->f->gda, walk->queue, walk->at, count, walk->blocks);
    walk->wqe = gda_wqe_head(walk->queue, walk->blocks);
    walk->at += walk->wqe.blocks;
    walk->messages += walk->wqe.message;
    return status;
}

/* The number of messages in the blocks before `from`, of which those up to the last counted ones
 * are still in the ring. */
static weft_status count_messages(struct gda_failover *f, struct gda_failed_queue *queue,
                                  uint64_t from, uint32_t *messages)
{
    const uint64_t counted = queue->q.counted;
    const uint64_t upto = counted ? weft_dev_gda_whole(from, (uint32_t)counted) : 0;
    struct walk walk = {.f = f, .queue = queue, .at = from, .limit = upto};
    uint32_t fillers = (uint32_t)(counted >> 32);
    weft_status status = WEFT_OK;
    while (!status && walk.at < upto)
        status = walk_one(&walk);
    fillers -= (uint32_t)(walk.at - from) - walk.messages;
    *messages = (uint32_t)from - fillers;
    return status;
}

/* Finds the end of the requests that the peer has executed, `executed` messages in all. Blocks
 * from `from` on are complete or not; *end receives the first that is not executed. */
static weft_status find_first_left(struct gda_failover *f, struct gda_failed_queue *queue,
                                   uint64_t from, uint32_t executed, uint64_t *end)
{
    struct walk walk = {.f = f, .queue = queue, .at = from};
    uint32_t before = 0;
    weft_status status = gda_posted_end(f->gda, queue, &walk.limit);
    if (!status)
        status = count_messages(f, queue, from, &before);
    uint32_t more = (executed - before) & MSN_MASK;
    *end = from;
    /* Fillers behind the last executed message may be complete, too, and their blocks reused. */
    while (!status && walk.at < walk.limit && walk.messages <= more) {
        *end = walk.at;
        status = walk_one(&walk);
        if (walk.messages <= more)
            *end = walk.at;
    }
    if (!status && walk.messages < more)
        status = base_fail(WEFT_ERR_PATH,
                           "it has executed %u requests behind those that are complete, but only "
                           "%u were posted",
                           more, walk.messages);
    return status;
}

/* Repeats the reads that the peer has executed, because their data may not have arrived. What an
 * atomic has returned cannot be asked for again; its slot tells whether it has arrived. */
static weft_status repeat_reads(struct gda_failover *f, struct gda_failed_queue *queue,
                                uint64_t end)
{
    struct walk walk = {.f = f, .queue = queue, .at = queue->done, .limit = end};
    weft_status status = WEFT_OK;
    while (!status && walk.at < end) {
        status = walk_one(&walk);
        if (!status)
            status = read_counts(f->gda, queue);
        /* A thread has seen its completion meanwhile, and the blocks may be new ones. */
        if (status || queue->q.done >= walk.at || !walk.wqe.fetches)
            continue;
        status = walk.wqe.opcode == WEFT_DEV_GDA_READ ? gda_execute(f, queue, walk.blocks)
                                                      : gda_check_result(f, queue, walk.blocks);
    }
    return status;
}

/* Reads the counts, and waits until the requests of the last counted span are in the ring: their
 * thread stores the count of fillers before the doorbell record, and does not wait in between. */
static weft_status read_posted_counts(struct gda_failover *f, struct gda_failed_queue *queue)
{
    uint64_t begun = clock_now_ns(), posted = 0, counted = 0;
    weft_status status = read_counts(f->gda, queue);
    queue->done = queue->q.done > queue->done ? queue->q.done : queue->done;
    if (queue->q.counted)
        counted = weft_dev_gda_whole(queue->done, (uint32_t)queue->q.counted);
    while (!status && counted > posted) {
        sched_yield();
        status = gda_posted_end(f->gda, queue, &posted);
        if (!status && counted > posted && clock_now_ns() - begun >= ANSWER_LIMIT)
            status = base_fail(WEFT_ERR_TIMEOUT, "a thread has stopped while it posted requests");
    }
    return status;
}

/* Passes the requests that the peer has executed. A thread that saw an earlier completion may raise
 * the queue's count at any time, and then reuse blocks: what was read before is void. */
static weft_status pass_executed(struct gda_failover *f, struct gda_failed_queue *queue,
                                 uint32_t executed)
{
    uint64_t end = 0;
    weft_status status = WEFT_OK;
    do {
        status = read_posted_counts(f, queue);
        if (!status)
            status = find_first_left(f, queue, queue->done, executed, &end);
        if (!status)
            status = read_counts(f->gda, queue);
    } while (!status && queue->q.done > queue->done);
    if (!status)
        status = repeat_reads(f, queue, end);
    queue->done = end;
    return status;
}

static void take_over(struct gda_failover *f, struct gda_failed_queue *queue, uint32_t executed)
{
    weft_status status = pass_executed(f, queue, executed);
    if (!status)
        status = gda_complete_blocks(f->gda, queue, queue->done);
    if (status) {
        lose_queue(f, queue, status);
        return;
    }
    queue->state = GDA_QUEUE_TAKEN_OVER;
    atomic_store(&f->states[queue->number], GDA_QUEUE_TAKEN_OVER);
}

/* Executes what is left of a queue, once both ends have stopped. Returns whether anything was
 * done. */
static bool advance(struct gda_failover *f, struct gda_failed_queue *queue)
{
    uint32_t name = gda_queue_name(f->gda, queue->number);
    bool any = false;
    if (queue->busy)
        return false;
    if (queue->state == GDA_QUEUE_TAKEN_OVER) {
        queue->busy = true;
        weft_status status = gda_execute_posted(f, queue, &any);
        queue->busy = false;
        if (status)
            lose_queue(f, queue, status);
        return any;
    }
    if (queue->state != GDA_QUEUE_STOPPED)
        return false;
    /* Acquire: what the peer has executed is in its memory. */
    uint32_t count =
        __atomic_load_n(&gda_mail_of(f->gda, queue->pe)->queues[name], __ATOMIC_ACQUIRE);
    if (count & GDA_COUNTED)
        take_over(f, queue, count & MSN_MASK);
    else if (clock_now_ns() - queue->noticed_ns > ANSWER_LIMIT)
        lose_queue(f, queue,
                   base_fail(WEFT_ERR_PATH, "it has not said within %llu s what it has executed",
                             (unsigned long long)(ANSWER_LIMIT / MS / 1000)));
    return count & GDA_COUNTED;
}

/* ----------------------------------------------------------------------------------- the thread */

bool gda_notice_failures(struct gda_failover *f)
{
    uint32_t alarm = __atomic_load_n(f->alarm, __ATOMIC_RELAXED);
    if (alarm)
        alarm = __atomic_exchange_n(f->alarm, 0, __ATOMIC_ACQUIRE);
    /* A thread that waits for a queue raises the alarm for it again and again, so it may overwrite
     * another's, and be overwritten. */
    if (alarm == WEFT_DEV_GDA_ALARM_FAILED)
        stop_failed_queues(f);
    if (alarm)
        gda_begin_wanted_links(f);
    bool any = read_mail(f);
    check_all(f, clock_now_ns());
    for (struct gda_failed_queue *queue = f->failed_queues; queue; queue = queue->next)
        if (queue->state == GDA_QUEUE_ENDING)
            end_queue(f, queue);
    return any;
}

/* own: executes only the requests of queues that lead to this PE itself. Returns whether anything
 * was done. */
static bool run_pass(struct gda_failover *f, bool own)
{
    bool any = gda_notice_failures(f);
    if (!own)
        any |= gda_advance_links(f);
    if (!own)
        any |= gda_dc_advance(f);
    for (struct gda_failed_queue *queue = f->failed_queues; queue; queue = queue->next)
        if (!own || queue->pe == f->gda->world->pe)
            any |= advance(f, queue);
    return any;
}

static void init_sleep(struct gda_failover *f)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&f->woken, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&f->lock, NULL);
}

static void sleep_unless_woken(struct gda_failover *f, uint64_t ns)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += (long)ns;
    end.tv_sec += end.tv_nsec / NS_PER_S;
    end.tv_nsec %= NS_PER_S;
    pthread_mutex_lock(&f->lock);
    if (!__atomic_load_n(f->alarm, __ATOMIC_RELAXED) && !atomic_load(&f->stop))
        pthread_cond_timedwait(&f->woken, &f->lock, &end);
    pthread_mutex_unlock(&f->lock);
}

static void wake_thread(struct gda_failover *f)
{
    pthread_mutex_lock(&f->lock);
    pthread_cond_signal(&f->woken);
    pthread_mutex_unlock(&f->lock);
}

void gda_raise_alarm(struct gda_failover *f)
{
    __atomic_store_n(f->alarm, WEFT_DEV_GDA_ALARM_WANTED, __ATOMIC_RELEASE);
    wake_thread(f);
}

static void *run_failover(void *argument)
{
    struct gda_failover *f = argument;
    uint64_t sleep_ns = SLEEP_LEAST_NS;
    unsigned passes = 0;
    in_failover = true;
    while (!atomic_load(&f->stop)) {
        if (run_pass(f, false)) {
            passes = 0;
            sleep_ns = SLEEP_LEAST_NS;
            continue;
        }
        bool busy = f->failed_queues || f->new_links;
        if (busy && ++passes < SPIN_PASSES) {
            sched_yield();
            continue;
        }
        uint64_t most = busy ? SLEEP_MOST_NS : SLEEP_IDLE_NS;
        sleep_ns = 2 * sleep_ns < most ? 2 * sleep_ns : most;
        sleep_unless_woken(f, sleep_ns);
    }
    return NULL;
}

bool gda_takes_over(const struct gda *gda, uint32_t number)
{
    const struct gda_failover *f = gda->failover;
    if (!f || atomic_load_explicit(&f->states[number], memory_order_acquire) == GDA_QUEUE_LOST)
        return false;
    __atomic_store_n(f->alarm, WEFT_DEV_GDA_ALARM_FAILED, __ATOMIC_RELEASE);
    return true;
}

void gda_help_failover(const struct gda *gda)
{
    if (in_failover)
        run_pass(gda->failover, true);
}

weft_status gda_lost(const struct gda *gda)
{
    const struct gda_failover *f = gda->failover;
    return f && f->lost ? base_fail(f->lost, "%s", f->sentence) : WEFT_OK;
}

uint32_t *gda_alarm(const struct gda *gda)
{
    return gda->failover ? gda->failover->alarm : NULL;
}

/* ---------------------------------------------------------------------------- begin and end */

static weft_status open_contexts(struct gda_failover *f)
{
    const struct path_world *world = f->gda->world;
    f->spare_ops = path_ops_of(path_ops_of(PATH_GDA)->spare);
    weft_status status = f->spare_ops->open(world, &f->spare);
    if (!status)
        status = path_ops_of(PATH_GDA)->open(world, &f->own);
    if (!status)
        status = serve_open(world, &f->serve);
    f->self = (struct peer){.ops = path_ops_of(PATH_GDA),
                            .state = f->own,
                            .pe = world->pe,
                            .path = PATH_GDA,
                            .world = world};
    return status;
}

bool gda_may_fail_over(const struct gda *gda)
{
    const struct path_world *world = gda->world;
    const enum path_id spare = path_ops_of(PATH_GDA)->spare;
    return (world->common[spare] || world->joins >> spare & 1) &&
           name_count(gda) <= GDA_MAIL_QUEUES;
}

weft_status gda_begin(struct path_common *common)
{
    struct gda *gda = (struct gda *)(void *)common;
    const struct path_world *world = gda->world;
    size_t npes = (size_t)world->npes, queues = gda_queue_count(gda) + gda_device_queue_count(gda);
    if (!world->common[path_ops_of(PATH_GDA)->spare])
        return gda->eager ? WEFT_OK : gda_connect_all(gda);
    if (name_count(gda) > GDA_MAIL_QUEUES) {
        log_warn(LOG_GDA,
                 "path gda: with %u queues to each PE, a failed queue ends the job: "
                 "WEFT_GDA_QUEUES=%u or less lets path %s take over",
                 gda->queues_per_pe, (GDA_MAIL_QUEUES - gda->count) / 2,
                 path_name(path_ops_of(PATH_GDA)->spare));
        return gda->eager ? WEFT_OK : gda_connect_all(gda);
    }
    struct gda_failover *f = calloc(1, sizeof *f);
    if (!f)
        return base_fail(WEFT_ERR_NO_MEMORY, "path gda: no private memory");
    gda->failover = f;
    f->gda = gda;
    f->alarm = gda->alarm;
    init_sleep(f);
    f->states = calloc(queues, sizeof *f->states);
    f->spares = gda_map_zeros(npes * sizeof *f->spares);
    weft_status status = f->states && f->spares
                             ? open_contexts(f)
                             : base_fail(WEFT_ERR_NO_MEMORY, "path gda: no private memory");
    if (!status && gda->no_loop[0]) {
        gda_publish_link(gda, world->pe);
        gda_stop_link(f, world->pe, gda->no_loop);
    }
    int error = status ? 0 : thread_start(&f->thread, run_failover, f);
    if (error)
        status = base_fail(WEFT_ERR_SYSTEM, "path gda: pthread_create of the failover thread: %s",
                           strerror(error));
    f->started = !status;
    f->process = getpid();
    return status;
}

void gda_end_failover(struct gda *gda)
{
    struct gda_failover *f = gda->failover;
    if (!f)
        return;
    atomic_store(&f->stop, true);
    if (f->started && f->process == getpid()) {
        wake_thread(f);
        pthread_join(f->thread, NULL);
    }
    gda->failover = NULL;
    if (f->spare)
        f->spare_ops->close(f->spare);
    if (f->own)
        path_ops_of(PATH_GDA)->close(f->own);
    serve_close(f->serve);
    for (struct gda_failed_queue *queue = f->failed_queues, *next; queue; queue = next) {
        next = queue->next;
        free(queue);
    }
    gda_free_new_links(f);
    pthread_cond_destroy(&f->woken);
    pthread_mutex_destroy(&f->lock);
    free(f->states);
    gda_unmap_zeros(f->spares, (size_t)gda->world->npes * sizeof *f->spares);
    free(f);
}
