/* SPDX-License-Identifier: Apache-2.0 */
/* When the processes of a simulated job run: a process with frames gets a CPU, handles them all one
 * after the other, and then sleeps. As Linux does, a process that becomes ready gets an idle CPU if
 * there is one; else it waits, and does not interrupt another one. See scale.h. */
#include "bench/scale/simulated.h"

static void schedule_turn(struct simulation *simulation, struct simulated_process *process,
                          double ns)
{
    process->what = TURN;
    simulation->failed |= !scale_queue_add(&simulation->queue, ns, process);
}

/* Returns the process's last CPU if it is idle, else another idle one, else -1. */
static int find_idle(const struct simulated_cpus *cpus, int last)
{
    if (!cpus->taken[last])
        return last;
    for (int cpu = 0; cpu < cpus->count; cpu++)
        if (!cpus->taken[cpu])
            return cpu;
    return -1;
}

bool scale_starts_on_idle(const struct simulation *simulation,
                          const struct simulated_process *process)
{
    const struct simulated_cpus *cpus = &simulation->cpus;
    return !process->runs && (!cpus->count || find_idle(cpus, process->cpu) >= 0);
}

static void wait_for_cpu(struct simulated_cpus *cpus, struct simulated_process *process)
{
    process->next = NULL;
    if (cpus->last)
        cpus->last->next = process;
    else
        cpus->first = process;
    cpus->last = process;
}

void scale_wake(struct simulation *simulation, struct simulated_process *process, double ns)
{
    struct simulated_cpus *cpus = &simulation->cpus;
    if (process->runs)
        return;
    process->runs = true;
    process->starts = process->busy_ns < ns;
    process->on_idle = true;
    const int cpu = cpus->count ? find_idle(cpus, process->cpu) : 0;
    if (cpu < 0) {
        wait_for_cpu(cpus, process);
        return;
    }
    if (cpus->count)
        cpus->taken[cpu] = true;
    process->cpu = cpu;
    schedule_turn(simulation, process, process->starts ? ns : process->busy_ns);
}

/* A process sleeps: its CPU is for the one that waits longest. */
static void sleep_now(struct simulation *simulation, struct simulated_process *process, double ns)
{
    struct simulated_cpus *cpus = &simulation->cpus;
    struct simulated_process *next = cpus->first;
    process->runs = false;
    if (!cpus->count)
        return;
    cpus->taken[process->cpu] = next != NULL;
    if (!next)
        return;
    cpus->first = next->next;
    if (!cpus->first)
        cpus->last = NULL;
    next->cpu = process->cpu;
    next->starts = true;
    next->on_idle = false;
    schedule_turn(simulation, next, ns > next->busy_ns ? ns : next->busy_ns);
}

static double start_ns(const struct simulated_process *process)
{
    const double ns = process->own->switch_ns + (process->on_idle ? process->own->idle_ns : 0);
    return process->starts && ns > 0 ? ns : 0;
}

static void take_turn(struct simulation *simulation, struct simulated_process *process, double ns)
{
    struct on_its_way *frame = process->first;
    process->busy_ns = ns + start_ns(process);
    process->starts = false;
    if (process->begins) {
        process->begins = false;
        simulation->begin(simulation, (struct simulated_pe *)process);
    } else if (frame) {
        process->first = frame->next;
        if (!process->first)
            process->last = NULL;
        scale_handle_frame(simulation, frame);
    } else {
        sleep_now(simulation, process, ns);
        return;
    }
    schedule_turn(simulation, process, process->busy_ns);
}

static void take_arrival(struct simulation *simulation, struct on_its_way *frame, double ns)
{
    struct simulated_process *to = frame->link->to;
    if (to->last)
        to->last->next = frame;
    else
        to->first = frame;
    to->last = frame;
    scale_wake(simulation, to, ns);
}

void scale_handle_all(struct simulation *simulation)
{
    struct scale_event event;
    while (!simulation->failed && scale_queue_take(&simulation->queue, &event)) {
        const enum occurrence *what = event.what;
        if (*what == ARRIVAL)
            take_arrival(simulation, event.what, event.ns);
        else
            take_turn(simulation, event.what, event.ns);
    }
}
