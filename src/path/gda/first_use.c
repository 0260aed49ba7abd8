/* SPDX-License-Identifier: Apache-2.0 */
/* Connects the queues to a peer ("link") when the PE or the peer first uses them, in jobs of more
 * than WEFT_TEST_GDA_EAGER PEs. The failover threads of both PEs take the same steps:
 *
 *     OFFERED     the queues exist, and their numbers are in the peer's mail
 *     CONNECTED   the peer's numbers have come, and the queues are connected to them
 *     TESTED      the peer has connected its queues too; requests of a test are under way
 *     UP          the test has passed; the threads that wait for the link go on
 *
 * A link whose test fails is up as well, and its queues have failed: failover.c executes their
 * requests over the other path. A PE whose NIC refuses another queue leaves counts of 0 messages in
 * place of the numbers, and both PEs go to UP at once, with queues that have failed. The same
 * happens to links of a PE one of whose NICs has failed towards itself. Their queues are stopped at
 * once, and what was executed is reported to the peer when it does not need the numbers in its mail
 * any more, in whose place the counts come. Spin model gda_link. */
#include "path/gda/dc.h"
#include "path/gda/failover.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "boot/agree.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEST_BLOCKS = 3 };
#define STEP_LIMIT ((uint64_t)10 * 1000 * 1000 * 1000)

static struct gda_mail *mail_from(const struct gda_failover *f, const struct gda_new_link *link)
{
    return gda_mail_of(f->gda, link->pe);
}

static void set_state(struct gda_failover *f, struct gda_new_link *link, enum gda_link state)
{
    atomic_store(&f->gda->links[link->pe], (unsigned char)state);
    link->begun_ns = clock_now_ns();
}

/* ------------------------------------------------------------------------------------ beginning */

/* The peer sees the numbers before the step. */
static weft_status offer_queues(struct gda_failover *f, int pe)
{
    const struct gda *gda = f->gda;
    uint32_t numbers[GDA_MAIL_QUEUES], first = gda_queues_to_pe(gda);
    const uint32_t count = gda_link_queues(gda);
    for (uint32_t k = 0; k < count; k++)
        numbers[k] =
            k < first
                ? gda->queues[gda_queue_index(gda, pe, k)].number
                : gda->gpu_queues->queues[(uint32_t)pe * gda->queues_per_pe + k - first].number;
    struct remote to = gda_mail_field(f, pe, offsetof(struct gda_mail, queues));
    weft_status status =
        to.peer->ops->put_signal(to, numbers, count * sizeof *numbers,
                                 gda_mail_field(f, pe, offsetof(struct gda_mail, step)),
                                 GDA_STEP_OFFERED, WEFT_SIGNAL_SET, false);
    return status ? status : gda_ring_mail(f, pe);
}

/* Reports that nothing was executed on this end. The peer reads no numbers of this link, so it has
 * nothing to connect to: the step is the last. */
static weft_status report_no_queues(struct gda_failover *f, int pe)
{
    uint32_t counts[GDA_MAIL_QUEUES], count = gda_link_queues(f->gda);
    for (uint32_t k = 0; k < count; k++)
        counts[k] = GDA_COUNTED;
    struct remote to = gda_mail_field(f, pe, offsetof(struct gda_mail, queues));
    weft_status status = to.peer->ops->put_signal(
        to, counts, count * sizeof *counts, gda_mail_field(f, pe, offsetof(struct gda_mail, step)),
        GDA_STEP_CONNECTED, WEFT_SIGNAL_SET, false);
    return status ? status : gda_ring_mail(f, pe);
}

static void finish_link(struct gda_failover *f, struct gda_new_link *link, const char *fault);

/* The NIC has refused a queue to the PE. */
static weft_status give_link_up(struct gda_failover *f, struct gda_new_link *link)
{
    char cause[GDA_REFUSAL_BYTES];
    gda_refusal_text("created", cause);
    gda_describe_dead_link(f->gda, link->pe);
    weft_status status = gda_describe_dead_gpu_link(f->gda, link->pe);
    if (!status)
        status = report_no_queues(f, link->pe);
    if (!status)
        finish_link(f, link, cause);
    return status;
}

static void begin_link(struct gda_failover *f, int pe)
{
    struct gda_new_link *link = calloc(1, sizeof *link);
    weft_status status = link ? gda_create_links(f->gda, pe, 1)
                              : base_fail(WEFT_ERR_NO_MEMORY, "path gda: no private memory");
    bool refused = status == WEFT_ERR_SYSTEM;
    if (!status)
        status = gda_create_gpu_link(f->gda, pe, &refused);
    if (link)
        link->pe = pe;
    if (refused)
        status = give_link_up(f, link);
    else if (!status)
        status = offer_queues(f, pe);
    if (status || refused) {
        free(link);
        if (status)
            f->gda->world->fail(f->gda->world, status, base_last_error());
        return;
    }
    link->next = f->new_links;
    f->new_links = link;
    atomic_fetch_add(&f->pending, 1);
    set_state(f, link, GDA_LINK_OFFERED);
}

/* Begins a link, and returns true, unless `hold` has that value or a higher one. gda_hold_links()
 * changes `hold` and then reads `pending`: one of the two threads sees the other's value. */
static bool begin_link_unless_held(struct gda_failover *f, int pe, enum gda_hold least)
{
    atomic_fetch_add(&f->pending, 1);
    bool begins = atomic_load(&f->hold) < (int)least;
    if (begins)
        begin_link(f, pe);
    atomic_fetch_sub(&f->pending, 1);
    return begins;
}

void gda_begin_offered_link(struct gda_failover *f, int pe)
{
    if (gda_link_of(f->gda, pe) == GDA_LINK_NONE &&
        __atomic_load_n(&gda_mail_of(f->gda, pe)->step, __ATOMIC_ACQUIRE))
        begin_link_unless_held(f, pe, GDA_HOLD_ALL);
}

void gda_begin_wanted_links(struct gda_failover *f)
{
    const struct gda *gda = f->gda;
    bool offers = atomic_exchange(&f->reread, false);
    for (int pe = 0; pe < gda->world->npes && offers; pe++)
        gda_begin_offered_link(f, pe);
    for (int pe = 0; pe < gda->world->npes && !gda->eager; pe++) {
        if (!__atomic_load_n(&gda->wanted[pe], __ATOMIC_RELAXED))
            continue;
        __atomic_store_n(&gda->wanted[pe], 0, __ATOMIC_RELAXED);
        if (gda_link_of(gda, pe) == GDA_LINK_NONE &&
            !begin_link_unless_held(f, pe, GDA_HOLD_WANTED))
            __atomic_store_n(&gda->wanted[pe], 1, __ATOMIC_RELAXED);
    }
}

/* ------------------------------------------------------------------------------------ the steps */

static weft_status report_step(struct gda_failover *f, int pe, enum gda_step step)
{
    const uint64_t value = step;
    struct remote to = gda_mail_field(f, pe, offsetof(struct gda_mail, step));
    weft_status status = to.peer->ops->store(to, &value, sizeof value);
    return status ? status : gda_ring_mail(f, pe);
}

/* Whether the peer has left counts in place of numbers. */
static bool has_counts(const struct gda_failover *f, const struct gda_new_link *link)
{
    return __atomic_load_n(&mail_from(f, link)->queues[0], __ATOMIC_RELAXED) & GDA_COUNTED;
}

/* The NIC has refused to connect a queue. The peer may still wait for this end to connect. */
static void stop_refused_link(struct gda_failover *f, struct gda_new_link *link)
{
    char cause[GDA_REFUSAL_BYTES];
    gda_refusal_text("connected", cause);
    link->owes_counts = gda_needs_numbers(f, link->pe);
    finish_link(f, link, cause);
}

static weft_status connect_link(struct gda_failover *f, struct gda_new_link *link)
{
    const struct gda_mail *mail = mail_from(f, link);
    const char *fault = gda_numbers_fault(mail->queues, gda_link_queues(f->gda));
    if (fault)
        return gda_fail_record(link->pe, fault);
    weft_status status = gda_connect_link(f->gda, link->pe, mail->queues);
    if (!status)
        status = gda_connect_gpu_link(f->gda, link->pe, mail->queues + gda_queues_to_pe(f->gda));
    bool refused = status == WEFT_ERR_SYSTEM;
    if (status && !refused)
        return status;
    set_state(f, link, GDA_LINK_CONNECTED);
    if (refused)
        stop_refused_link(f, link);
    else if (gda_lost_own_queue(f))
        gda_stop_new_links(f, "a queue from the adapter to itself failed");
    return report_step(f, link->pe, GDA_STEP_CONNECTED);
}

static struct weft_dev_gda_queue *tested_queue(const struct gda *gda,
                                               const struct gda_new_link *link)
{
    return &gda->queues[gda_queue_index(gda, link->pe, gda->queues_per_pe + link->adapter)];
}

struct weft_dev_gda_place gda_test_word(const struct gda *gda, int pe, uint32_t adapter, int i)
{
    struct peer peer = {.world = gda->world, .pe = pe};
    size_t row = gda->world->words_offset + (size_t)gda->world->pe * PATH_WORDS_BYTES;
    size_t at = row + (size_t)i * sizeof(uint64_t), bytes = 8;
    return gda_resolve_remote(gda, adapter, (struct remote){&peer, SEG_SYSTEM, at}, &bytes);
}

static uint64_t test_value(const struct gda_new_link *link)
{
    return GDA_TEST_VALUE + link->adapter;
}

/* The last block of a test is an atomic, if the NICs have them. */
static uint32_t test_blocks(const struct gda *gda)
{
    return gda->adapters->no_atomics ? TEST_BLOCKS - 1 : TEST_BLOCKS;
}

/* The first requests of a host queue: write a word, read it back, and add to another. */
static void post_test(struct gda_failover *f, struct gda_new_link *link)
{
    struct weft_dev_gda_queue *q = tested_queue(f->gda, link);
    const uint32_t blocks = test_blocks(f->gda);
    const struct weft_dev_gda_place word = gda_test_word(f->gda, link->pe, link->adapter, 0),
                                    sum = gda_test_word(f->gda, link->pe, link->adapter, 1);
    uint64_t turns = weft_dev_gda_reserve(q, blocks);
    weft_dev_gda_value(&q->ring, 0, word, test_value(link), sizeof(uint64_t), 0);
    weft_dev_gda_move(&q->ring, 1, WEFT_DEV_GDA_READ, word, weft_dev_gda_result(q, 1),
                      sizeof(uint64_t), blocks == TEST_BLOCKS ? 0 : WEFT_DEV_GDA_SIGNALED);
    if (blocks == TEST_BLOCKS)
        weft_dev_gda_atomic8(&q->ring, 2, WEFT_DEV_GDA_ADD, sum, weft_dev_gda_result(q, 2),
                             test_value(link), 0, WEFT_DEV_GDA_SIGNALED);
    weft_dev_gda_publish(q, &q->ring, 0, blocks, weft_dev_gda_ahead(turns));
    set_state(f, link, GDA_LINK_TESTED);
}

/* What the NICs before this one have added to the word. */
static uint64_t expected_sum(const struct gda_new_link *link)
{
    uint64_t sum = 0;
    for (struct gda_new_link one = {.adapter = 0}; one.adapter < link->adapter; one.adapter++)
        sum += test_value(&one);
    return sum;
}

/* *fault receives what the test has found: NULL: nothing. Returns false while it is under way. */
static bool end_test(struct gda_failover *f, const struct gda_new_link *link, const char **fault)
{
    struct weft_dev_gda_queue *q = tested_queue(f->gda, link);
    uint64_t done = weft_dev_gda_look(q), blocks = test_blocks(f->gda);
    *fault = NULL;
    if (has_counts(f, link))
        *fault = "the peer has stopped the queue";
    else if (f->down_ns[link->adapter] &&
             clock_now_ns() - f->down_ns[link->adapter] >= GDA_DOWN_AFTER)
        *fault = "the port is down";
    else if (done == WEFT_DEV_GDA_FAILED)
        *fault = "the test of the new queues failed";
    else if (done < blocks && clock_now_ns() - link->begun_ns >= STEP_LIMIT)
        *fault = "the test of the new queues took more than 10 s";
    else if (done < blocks)
        return false;
    else if (weft_dev_gda_result_value(q, 1, sizeof(uint64_t), 0) != test_value(link))
        *fault = "a word came back changed";
    else if (blocks == TEST_BLOCKS &&
             weft_dev_gda_result_value(q, 2, sizeof(uint64_t), 1) != expected_sum(link))
        *fault = "an atomic returned a wrong value";
    return true;
}

/* The threads that wait for the link go on, of the host and of device code. */
static void publish_link(struct gda_failover *f, int pe)
{
    struct gda *gda = f->gda;
    pthread_mutex_lock(&gda->cuda_lock);
    weft_status status = gda_open_cuda_link(gda, pe);
    gda_publish_link(gda, pe);
    pthread_mutex_unlock(&gda->cuda_lock);
    if (status)
        gda->world->fail(gda->world, status, base_last_error());
}

static void finish_link(struct gda_failover *f, struct gda_new_link *link, const char *fault)
{
    const struct path_world *world = f->gda->world;
    for (int kind = 0; kind < MEMORY_KINDS && world->report_tested && !fault; kind++)
        if (world->choices[kind] && world->choices[kind][link->pe].path == PATH_GDA) {
            world->report_tested(world, (weft_kind)kind, link->pe);
            if (f->gda->dc && world->report_found)
                world->report_found(world, (weft_kind)kind, link->pe, "by RC");
        }
    publish_link(f, link->pe);
    log_debug(LOG_GDA, "path gda to PE %d: queues connected at first use%s%s", link->pe,
              fault ? ", but " : " and tested", fault ? fault : "");
    if (fault)
        gda_stop_link(f, link->pe, fault);
}

bool gda_needs_numbers(const struct gda_failover *f, int pe)
{
    return pe != f->gda->world->pe && !f->gda->eager &&
           __atomic_load_n(&gda_mail_of(f->gda, pe)->step, __ATOMIC_ACQUIRE) < GDA_STEP_CONNECTED;
}

void gda_stop_new_links(struct gda_failover *f, const char *cause)
{
    for (struct gda_new_link *link = f->new_links; link; link = link->next) {
        enum gda_link state = gda_link_of(f->gda, link->pe);
        if (state != GDA_LINK_CONNECTED && state != GDA_LINK_TESTED)
            continue;
        link->owes_counts = gda_needs_numbers(f, link->pe);
        finish_link(f, link, cause);
    }
}

/* Returns whether the link has reached another step. A fault of this PE or of the peer that no
 * other path mends ends the job. */
static bool advance_link(struct gda_failover *f, struct gda_new_link *link)
{
    const enum gda_link state = gda_link_of(f->gda, link->pe);
    /* Acquire: the numbers came before the step. */
    uint64_t step = __atomic_load_n(&mail_from(f, link)->step, __ATOMIC_ACQUIRE);
    weft_status status = WEFT_OK;
    const char *fault;
    if (state == GDA_LINK_OFFERED && step >= GDA_STEP_OFFERED) {
        if (has_counts(f, link))
            finish_link(f, link, "the peer's adapter refuses queues");
        else
            status = connect_link(f, link);
    } else if (state == GDA_LINK_CONNECTED && step >= GDA_STEP_CONNECTED) {
        post_test(f, link);
    } else if (state == GDA_LINK_TESTED && end_test(f, link, &fault)) {
        if (!fault && ++link->adapter < f->gda->count)
            post_test(f, link);
        else
            finish_link(f, link, fault);
    } else if (link->owes_counts && step >= GDA_STEP_CONNECTED) {
        link->owes_counts = false;
        status = gda_report_counts(f, link->pe);
    } else if (state != GDA_LINK_TESTED && clock_now_ns() - link->begun_ns >= STEP_LIMIT) {
        status = base_fail(WEFT_ERR_TIMEOUT,
                           "path gda: PE %d has not connected its queues to PE %d within 10 s",
                           link->pe, f->gda->world->pe);
    } else {
        return false;
    }
    link->failed = status != WEFT_OK;
    if (status)
        f->gda->world->fail(f->gda->world, status, base_last_error());
    return true;
}

static bool is_finished(const struct gda_failover *f, const struct gda_new_link *link)
{
    return link->failed || (gda_link_of(f->gda, link->pe) == GDA_LINK_UP && !link->owes_counts);
}

bool gda_advance_links(struct gda_failover *f)
{
    bool any = false;
    for (struct gda_new_link **at = &f->new_links, *link; (link = *at);) {
        any |= !is_finished(f, link) && advance_link(f, link);
        if (!is_finished(f, link)) {
            at = &link->next;
            continue;
        }
        *at = link->next;
        free(link);
        atomic_fetch_sub(&f->pending, 1);
    }
    return any;
}

void gda_free_new_links(struct gda_failover *f)
{
    for (struct gda_new_link *link = f->new_links, *next; link; link = next) {
        next = link->next;
        free(link);
    }
}

/* -------------------------------------------------------------------------------------- waiting */

static void want_link(const struct gda *gda, int pe)
{
    __atomic_store_n(&gda->wanted[pe], 1, __ATOMIC_RELAXED);
}

weft_status gda_await_link(const struct gda *gda, int pe)
{
    struct path_wait wait = {
        .world = gda->world, .operation = BOX_OP_PUT, .pe = pe, .expected = GDA_LINK_UP};
    weft_status status = WEFT_OK;
    if (!gda->failover)
        return base_fail(WEFT_ERR_PATH, "path gda: the queues to PE %d are not connected yet", pe);
    want_link(gda, pe);
    gda_raise_alarm(gda->failover);
    while (!status && gda_link_of(gda, pe) != GDA_LINK_UP)
        status = path_wait_step(&wait, gda_link_of(gda, pe));
    path_wait_end(&wait);
    return status;
}

static weft_status await_pending_links(const struct gda_failover *f)
{
    struct path_wait wait = {.world = f->gda->world, .operation = BOX_OP_PUT, .pe = -1};
    weft_status status = WEFT_OK;
    while (!status && atomic_load(&f->pending))
        status = path_wait_step(&wait, (uint64_t)atomic_load(&f->pending));
    path_wait_end(&wait);
    return status;
}

/* Until all PEs have come, links begin: a PE may come only after it has heard from another. After
 * the second agreement no PE begins a link that its peer has not offered. A link that is up at one
 * PE has begun at the other, so after the third all links have begun at both. */
weft_status gda_hold_links(const struct gda *gda)
{
    struct gda_failover *f = gda->failover;
    struct boot *boot = gda->world->boot;
    if (gda->eager || !f)
        return WEFT_OK;
    weft_status status = boot_agree(boot, WEFT_OK);
    atomic_store(&f->hold, GDA_HOLD_WANTED);
    status = boot_agree(boot, status);
    if (!status)
        status = await_pending_links(f);
    status = boot_agree(boot, status);
    if (!status)
        status = await_pending_links(f);
    atomic_store(&f->hold, GDA_HOLD_ALL);
    return boot_agree(boot, status);
}

void gda_release_links(const struct gda *gda)
{
    struct gda_failover *f = gda->failover;
    if (gda->eager || !f)
        return;
    atomic_store(&f->hold, GDA_HOLD_NONE);
    atomic_store(&f->reread, true);
    gda_raise_alarm(f);
}

const char *gda_untested(const struct path_common *common, int pe)
{
    const struct gda *gda = (const struct gda *)(const void *)common;
    if (!gda || gda_link_of(gda, pe) >= GDA_LINK_UP)
        return NULL;
    if (!gda->dc)
        return "to be connected and tested at first use";
    return gda_is_dc_peer(gda, pe) ? "by DC, to be tested at first use"
                                   : "by RC, to be connected and tested at first use";
}
