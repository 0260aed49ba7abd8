/* SPDX-License-Identifier: Apache-2.0 */
/* The frames of a simulated job: wires post them, they travel, and a process handles them. A frame
 * takes the times of struct scale_costs. See scale.h. */
#include "bench/scale/simulated.h"

#include <stdlib.h>
#include <string.h>

static struct payload *share_payload(struct simulation *simulation, const void *data, size_t bytes)
{
    struct payload *last = simulation->last;
    if (last && last->bytes == bytes && (!bytes || memcmp(last->data, data, bytes) == 0)) {
        last->users++;
        return last;
    }
    struct payload *payload = malloc(sizeof *payload + bytes);
    if (!payload)
        return NULL;
    *payload = (struct payload){.users = 2, .bytes = bytes}; /* the frame, and `last` */
    if (bytes)
        memcpy(payload->data, data, bytes);
    if (last && --last->users == 0)
        free(last);
    simulation->last = payload;
    return payload;
}

static void drop_payload(struct payload *payload)
{
    if (--payload->users == 0)
        free(payload);
}

static void count_frame(struct simulation *simulation, const struct simulated_link *link,
                        size_t bytes)
{
    struct scale_result *result = &simulation->outcome->steps[simulation->step];
    result->frames++;
    if (link->to == &simulation->launcher_process) {
        result->frames_to_launcher++;
        simulation->outcome->frames_to_launcher++;
    } else if (link->from == &simulation->launcher_process) {
        result->frames_of_launcher++;
        result->bytes_of_launcher += bytes;
        simulation->outcome->frames_of_launcher++;
    }
}

static const struct scale_kind_cost *cost_kind_of(const struct simulated_link *link)
{
    const struct scale_costs *costs = &link->simulation->job->costs;
    return link->between_hosts ? &costs->between_hosts : &costs->in_host;
}

/* The sender works on the frame; then it travels. */
static void post_frame(struct wire_simulation *base, uint32_t type, int number, const void *data,
                       size_t bytes)
{
    struct simulated_link *link = (struct simulated_link *)base;
    struct simulation *simulation = link->simulation;
    const struct scale_costs *costs = &simulation->job->costs;
    const struct scale_kind_cost *kind = cost_kind_of(link);
    struct on_its_way *frame = malloc(sizeof *frame);
    struct payload *payload = frame ? share_payload(simulation, data, bytes) : NULL;
    count_frame(simulation, link, bytes);
    link->from->busy_ns += (link->up ? kind->up : kind->down).send_ns +
                           (double)bytes * kind->byte_ns +
                           (scale_starts_on_idle(simulation, link->to) ? kind->wake_ns : 0);
    double arrives = link->from->busy_ns;
    if (link->between_hosts)
        arrives += costs->latency_ns + (double)bytes * costs->byte_ns;
    if (arrives < link->arrived_ns)
        arrives = link->arrived_ns;
    link->arrived_ns = arrives;
    if (!payload) {
        simulation->failed = true;
        free(frame);
        return;
    }
    *frame = (struct on_its_way){.link = link,
                                 .type = type,
                                 .number = number,
                                 .chain = link->from->chain + 1,
                                 .payload = payload};
    simulation->failed |= !scale_queue_add(&simulation->queue, arrives, frame);
}

void scale_handle_frame(struct simulation *simulation, struct on_its_way *frame)
{
    struct simulated_process *to = frame->link->to;
    const struct scale_kind_cost *kind = cost_kind_of(frame->link);
    struct wire_frame *made = wire_frame_make(frame->type, frame->number, frame->payload->data,
                                              frame->payload->bytes, -1);
    to->busy_ns += (frame->link->up ? kind->up : kind->down).receive_ns +
                   (double)frame->payload->bytes * kind->byte_ns;
    to->chain = frame->chain > to->chain ? frame->chain : to->chain;
    simulation->failed |= !made;
    if (made)
        frame->link->deliver(frame->link, made);
    simulation->ended_ns = to->busy_ns > simulation->ended_ns ? to->busy_ns : simulation->ended_ns;
    const int chain = to->chain - simulation->began_chain;
    struct scale_result *result = &simulation->outcome->steps[simulation->step];
    result->rounds = chain > result->rounds ? chain : result->rounds;
    drop_payload(frame->payload);
    free(frame);
}

static void drop_frames(struct on_its_way *frame)
{
    for (struct on_its_way *next; frame; frame = next) {
        next = frame->next;
        drop_payload(frame->payload);
        free(frame);
    }
}

void scale_drop_all(struct simulation *simulation)
{
    struct scale_event event;
    while (scale_queue_take(&simulation->queue, &event)) {
        const enum occurrence *what = event.what;
        if (*what == ARRIVAL)
            drop_frames(event.what);
    }
    for (int pe = 0; simulation->pes && pe < simulation->job->pes; pe++)
        drop_frames(simulation->pes[pe].process.first);
    for (int host = 0; simulation->agents && host < simulation->hosts; host++)
        drop_frames(simulation->agents[host].process.first);
    drop_frames(simulation->launcher_process.first);
    if (simulation->last)
        drop_payload(simulation->last);
    free(simulation->queue.events);
}

struct simulated_link scale_make_link(struct simulation *simulation, struct simulated_process *from,
                                      struct simulated_process *to)
{
    return (struct simulated_link){
        .base.post = post_frame, .simulation = simulation, .from = from, .to = to};
}

void scale_post(struct simulated_link *link, uint32_t type, int number, const void *data,
                size_t bytes)
{
    post_frame(&link->base, type, number, data, bytes);
}
