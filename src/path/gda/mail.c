/* SPDX-License-Identifier: Apache-2.0 */
/* Mail between the failover threads of two PEs, in the system segment, over the path that takes
 * over; and atomics on behalf of peers.
 *
 * A NIC's atomics are atomic only with each other. Where other PEs still reach a word through a NIC
 * of its PE, an atomic of a failed queue must go through that NIC too. So its PE executes it, on a
 * queue from the NIC to itself, on behalf of the peer. If that queue has failed as well, all
 * queues of the NIC have been stopped, and this thread executes all atomics on the word. */
#include "path/gda/failover.h"

#include "base/status.h"
#include "gpu/gpu.h"

#include <stddef.h>
#include <stdio.h>

_Static_assert(sizeof(struct gda_mail) <= PATH_MAIL_BYTES, "it fits its row");

static size_t row_offset(const struct gda *gda, int sender)
{
    return gda->world->mail_offset + (size_t)sender * PATH_MAIL_BYTES;
}

struct gda_mail *gda_mail_of(const struct gda *gda, int sender)
{
    char *system = gda->world->map[gda->world->pe][SEG_SYSTEM];
    return (struct gda_mail *)(void *)(system + row_offset(gda, sender));
}

struct remote gda_mail_field(struct gda_failover *f, int pe, size_t field)
{
    return (struct remote){&gda_spare(f, pe)->peer, SEG_SYSTEM,
                           row_offset(f->gda, f->gda->world->pe) + field};
}

struct gda_spare *gda_spare(struct gda_failover *f, int pe)
{
    struct gda_spare *spare = &f->spares[pe];
    if (!spare->peer.ops)
        spare->peer = (struct peer){.ops = f->spare_ops,
                                    .state = f->spare,
                                    .pe = pe,
                                    .path = (uint16_t)path_ops_of(PATH_GDA)->spare,
                                    .world = f->gda->world};
    return spare;
}

weft_status gda_ring_mail(struct gda_failover *f, int pe)
{
    int me = f->gda->world->pe;
    struct remote bells = {&gda_spare(f, pe)->peer, SEG_SYSTEM,
                           row_offset(f->gda, me / 64) + offsetof(struct gda_mail, bells)};
    return bells.peer->ops->atomic(bells, WEFT_AMO_OR, sizeof(uint64_t), (uint64_t)1 << me % 64, 0,
                                   NULL, false);
}

weft_status gda_report_count(struct gda_failover *f, const struct gda_failed_queue *queue)
{
    uint32_t name = gda_queue_name(f->gda, queue->number), count = GDA_COUNTED | queue->executed;
    if (queue->pe == f->gda->world->pe) {
        __atomic_store_n(&gda_mail_of(f->gda, queue->pe)->queues[name], count, __ATOMIC_RELEASE);
        return WEFT_OK;
    }
    struct remote at =
        gda_mail_field(f, queue->pe, offsetof(struct gda_mail, queues) + name * sizeof count);
    weft_status status = at.peer->ops->store(at, &count, sizeof count);
    return status ? status : gda_ring_mail(f, queue->pe);
}

/* ------------------------------------------------------------------------------------- atomics */

/* The host queue from this PE's NIC to itself that atomics on a word at that address use. */
static uint32_t loop_number(const struct gda *gda, uint64_t address)
{
    return gda_queue_index(gda, gda->world->pe,
                           gda->queues_per_pe + gda_adapter_of_word(gda, address));
}

static bool goes_by_nic(const struct gda_failover *f, enum segment_id segment)
{
    return f->gda->world->atomics[segment_kind(segment)] == PATH_GDA;
}

/* An atomic on memory of this PE. */
static weft_status atomic_here(struct gda_failover *f, enum segment_id segment, size_t offset,
                               weft_amo amo, size_t width, uint64_t value, uint64_t expected,
                               uint64_t *before)
{
    struct remote at = {&f->self, segment, offset};
    uint32_t loop = loop_number(f->gda, gda_address_of(f->gda, at));
    if (goes_by_nic(f, segment) && atomic_load(&f->states[loop]) == GDA_QUEUE_WORKS)
        return f->self.ops->atomic(at, amo, width, value, expected, before, false);
    const struct serve_request request = {.operation = SERVE_ATOMIC,
                                          .segment = (uint8_t)segment,
                                          .amo = (uint8_t)amo,
                                          .offset = offset,
                                          .bytes = width,
                                          .value = value,
                                          .expected = expected};
    weft_status status = serve_begin(f->serve, &request, NULL, before);
    return status ? status : serve_quiet(f->serve);
}

/* Leaves an atomic for its PE to execute, and waits for the answer. Meanwhile the thread answers
 * peers and executes their delegated atomics: two PEs may wait for each other. */
static weft_status atomic_there(struct gda_failover *f, struct remote at, weft_amo amo,
                                size_t width, uint64_t value, uint64_t expected, uint64_t *before)
{
    const int pe = at.peer->pe;
    struct gda_spare *spare = gda_spare(f, pe);
    struct gda_delegated delegated = {.offset = at.offset,
                                      .value = value,
                                      .expected = expected,
                                      .segment = (uint32_t)at.segment,
                                      .amo = (uint32_t)amo,
                                      .width = (uint32_t)width};
    enum { NUMBER_BYTES = sizeof delegated.number };
    const size_t to = offsetof(struct gda_mail, delegated);
    const struct gda_answer *answer = &gda_mail_of(f->gda, pe)->answer;
    struct path_wait wait = {.world = f->gda->world, .operation = BOX_OP_ATOMIC, .pe = pe};
    wait.expected = ++spare->sent;
    weft_status status =
        at.peer->ops->put_signal(gda_mail_field(f, pe, to + NUMBER_BYTES), &delegated.offset,
                                 sizeof delegated - NUMBER_BYTES, gda_mail_field(f, pe, to),
                                 spare->sent, WEFT_SIGNAL_SET, false);
    if (!status)
        status = gda_ring_mail(f, pe);
    while (!status && __atomic_load_n(&answer->number, __ATOMIC_ACQUIRE) != spare->sent) {
        gda_notice_failures(f);
        status = path_wait_step(&wait, 0);
    }
    path_wait_end(&wait);
    if (!status)
        *before = answer->value;
    return status;
}

weft_status gda_atomic_anywhere(struct gda_failover *f, struct remote at, weft_amo amo,
                                size_t width, uint64_t value, uint64_t expected, uint64_t *before)
{
    if (at.peer->pe == f->gda->world->pe)
        return atomic_here(f, at.segment, at.offset, amo, width, value, expected, before);
    if (goes_by_nic(f, at.segment))
        return atomic_there(f, at, amo, width, value, expected, before);
    return at.peer->ops->atomic(at, amo, width, value, expected, before, false);
}

static bool is_valid(const struct gda *gda, const struct gda_delegated *delegated)
{
    const struct path_world *world = gda->world;
    bool gpu = delegated->segment == SEG_GPU;
    size_t size = !gpu && delegated->segment < SEG_COUNT ? world->sizes[delegated->segment]
                  : gpu && gda->gpu                      ? world->gpu->heap.size
                                                         : 0;
    return delegated->amo < WEFT_AMO_COUNT && (delegated->width == 4 || delegated->width == 8) &&
           delegated->offset % delegated->width == 0 && size >= delegated->width &&
           delegated->offset <= size - delegated->width;
}

static weft_status execute_delegated(struct gda_failover *f, int pe,
                                     const struct gda_delegated *delegated)
{
    struct gda_answer answer = {.number = delegated->number};
    const size_t to = offsetof(struct gda_mail, answer);
    weft_status status =
        is_valid(f->gda, delegated)
            ? atomic_here(f, (enum segment_id)delegated->segment, delegated->offset,
                          (weft_amo)delegated->amo, delegated->width, delegated->value,
                          delegated->expected, &answer.value)
            : base_fail(WEFT_ERR_MISMATCH, "path gda: PE %d sent an invalid atomic", pe);
    if (!status)
        status = f->spare_ops->put_signal(
            gda_mail_field(f, pe, to + offsetof(struct gda_answer, value)), &answer.value,
            sizeof answer.value, gda_mail_field(f, pe, to), answer.number, WEFT_SIGNAL_SET, false);
    return status ? status : gda_ring_mail(f, pe);
}

bool gda_execute_delegated(struct gda_failover *f, int pe)
{
    const struct path_world *world = f->gda->world;
    const struct gda_delegated *delegated = &gda_mail_of(f->gda, pe)->delegated;
    /* Acquire: pairs with the signal that sets the number after the rest. */
    uint64_t number = __atomic_load_n(&delegated->number, __ATOMIC_ACQUIRE);
    struct gda_spare *spare = gda_spare(f, pe);
    if (pe == world->pe || number == spare->served)
        return false;
    spare->served = number;
    weft_status status = execute_delegated(f, pe, delegated);
    if (status)
        world->fail(world, status, base_last_error());
    return true;
}
