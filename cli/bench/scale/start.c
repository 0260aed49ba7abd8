/* SPDX-License-Identifier: Apache-2.0 */
/* A job of `weft run --hosts` in one process and in virtual time. The launcher, the hub and the
 * agents are the real ones (cli/run/, boot/hub/hub.c), one struct run each; a PE is the sequence of
 * frames of boot/hub/member.c. Wires post their frames to the queue of events. Each process handles
 * one frame after the other; a frame takes the times of struct scale_costs. Remote shells, the
 * start of processes and what programs compute are not simulated. */
#include "bench/scale/simulated.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

enum { SAMPLES = 16, REPEATED = 20, REPEATED_BEFORE = 5 };

const char *const scale_step_names[SCALE_STEPS] = {"start", "barrier", "exchange", "death",
                                                   "finalize"};

/* ---------------------------------------------------------------------------------------- PEs */

static unsigned char made_byte(int pe, uint64_t exchange)
{
    return (unsigned char)(pe * 31 + (int)exchange * 7);
}

static size_t next_slice(const struct simulation *simulation, const struct simulated_pe *pe)
{
    const size_t most = hub_slice(simulation->job->pes);
    return pe->left < most ? pe->left : most;
}

static void send_slice(struct simulation *simulation, struct simulated_pe *pe)
{
    static char part[HUB_MOST_ANSWER + 1];
    const size_t bytes = next_slice(simulation, pe);
    memset(part, made_byte((int)(pe - simulation->pes), pe->exchanges), bytes);
    scale_post(&pe->to_agent, FRAME_PART, 0, part, bytes);
}

static void begin_exchange(struct simulation *simulation, struct simulated_pe *pe)
{
    pe->exchanging = true;
    pe->left = simulation->bytes;
    send_slice(simulation, pe);
}

static void join_job(struct simulation *simulation, struct simulated_pe *pe)
{
    scale_post(&pe->to_agent, FRAME_JOIN, 0, NULL, 0);
    begin_exchange(simulation, pe);
}

static void leave_job(struct simulation *simulation, struct simulated_pe *pe)
{
    scale_post(&pe->to_agent, FRAME_BYE, 1, NULL, 0);
}

/* Checks the size of an answer, and some of the parts. */
static bool is_right(const struct simulation *simulation, const struct simulated_pe *pe,
                     const struct wire_frame *frame)
{
    const size_t slice = next_slice(simulation, pe);
    const int n = simulation->job->pes, me = (int)(pe - simulation->pes);
    if (frame->bytes != slice * (size_t)n)
        return false;
    for (int i = 0; i < SAMPLES && slice; i++) {
        const int other = i == 0 ? me : i == 1 ? n - 1 : (int)((int64_t)n * (i - 2) / SAMPLES);
        const char *part = frame->payload + (size_t)other * slice;
        const char wanted = (char)made_byte(other, pe->exchanges);
        if (part[0] != wanted || part[slice - 1] != wanted)
            return false;
    }
    return true;
}

static void complete_step(struct simulation *simulation)
{
    simulation->working--;
}

static void end_exchange(struct simulation *simulation, struct simulated_pe *pe)
{
    pe->exchanging = false;
    pe->exchanges++;
    if (pe == simulation->pes && pe->again == REPEATED)
        simulation->repeated_from_ns = pe->process.busy_ns;
    if (pe == simulation->pes)
        simulation->repeated_until_ns = pe->process.busy_ns;
    if (pe->again-- > 0)
        begin_exchange(simulation, pe);
    else
        complete_step(simulation);
}

void scale_deliver_to_pe(struct simulated_link *link, struct wire_frame *frame)
{
    struct simulation *simulation = link->simulation;
    struct simulated_pe *pe = &simulation->pes[link->number];
    if (frame->type == FRAME_END && !pe->notified) {
        pe->notified = true;
        complete_step(simulation);
    } else if (frame->type == FRAME_ALL && pe->exchanging) {
        simulation->outcome->right &= is_right(simulation, pe, frame);
        pe->left -= next_slice(simulation, pe);
        if (pe->left) {
            send_slice(simulation, pe);
        } else {
            end_exchange(simulation, pe);
        }
    }
    wire_frame_free(frame);
}

/* ---------------------------------------------------------------------------- agents, launcher */

static int host_of_pe(const struct simulation *simulation, int pe)
{
    return pe / simulation->job->per_host;
}

void scale_deliver_from_pe(struct simulated_link *link, struct wire_frame *frame)
{
    wire_push(link->wire, frame);
    run_agent_serve(&link->simulation->agents[link->agent].run, link->number);
}

static void begin_pe(struct simulation *simulation, struct simulated_process *process, double ns)
{
    process->begins = true;
    process->busy_ns = ns;
    scale_wake(simulation, process, ns);
}

/* What start_pes() of an agent does, without processes. */
static void start_pes_of(struct simulation *simulation, struct agent *agent)
{
    struct run *run = &agent->run;
    agent->state.go = true;
    for (int i = 0; i < run->hosts.count; i++)
        if (run->hosts.list[i].member)
            run_hosts_send(run, i, HOST_GO, 0, NULL, 0);
    run->started = run->alive = run->options.npes;
    int32_t *pids = calloc((size_t)run->started, sizeof *pids);
    simulation->failed |= !pids;
    run_agent_report(run, HOST_STARTED, agent->state.index, pids,
                     (size_t)run->started * sizeof *pids);
    free(pids);
    for (int i = 0; i < run->started; i++) {
        struct simulated_process *process = &simulation->pes[run->first + i].process;
        process->chain = agent->process.chain;
        begin_pe(simulation, process, agent->process.busy_ns);
    }
}

/* What an agent does after its loop has ended: it reports when those below it have ended too. */
static void end_agent(struct agent *agent)
{
    struct run *run = &agent->run;
    if (!agent->state.finish || run->alive || agent->sent_done)
        return;
    run_hosts_wait(run);
    for (int i = 0; i < run->hosts.count; i++)
        if (run->hosts.list[i].member && !run->hosts.list[i].done)
            return;
    agent->sent_done = true;
    run_agent_report(run, HOST_DONE, 0, NULL, 0);
}

void scale_deliver_from_parent(struct simulated_link *link, struct wire_frame *frame)
{
    struct simulation *simulation = link->simulation;
    struct agent *agent = &simulation->agents[link->agent];
    const bool go = frame->type == HOST_GO;
    if (go) {
        wire_frame_free(frame);
        start_pes_of(simulation, agent);
        return;
    }
    wire_push(link->wire, frame);
    run_agent_receive(&agent->run, EPOLLIN);
    end_agent(agent);
}

/* The launcher's hosts end the job when all PEs have ended. */
static void continue_launcher(struct simulation *simulation)
{
    struct run *launcher = &simulation->launcher;
    if (launcher->started && !launcher->alive)
        run_hosts_wait(launcher);
}

/* What run_hosts_connect() of a parent does with the reports of its children. */
static void take_ready(struct simulation *simulation, struct agent *parent)
{
    if (!parent && --simulation->unready == 0)
        run_hosts_start(&simulation->launcher);
    else if (parent && --parent->unready == 0)
        run_agent_report(&parent->run, HOST_READY, 0, NULL, 0);
}

void scale_deliver_from_child(struct simulated_link *link, struct wire_frame *frame)
{
    struct simulation *simulation = link->simulation;
    const bool to_launcher = link->to == &simulation->launcher_process;
    struct agent *parent = (struct agent *)link->to;
    if (frame->type == HOST_READY) {
        wire_frame_free(frame);
        take_ready(simulation, to_launcher ? NULL : parent);
        return;
    }
    wire_push(link->wire, frame);
    run_hosts_serve(to_launcher ? &simulation->launcher : &parent->run, link->number, EPOLLIN);
    if (to_launcher)
        continue_launcher(simulation);
    else
        end_agent(parent);
}

/* -------------------------------------------------------------------------------------- steps */

static void begin_step(struct simulation *simulation, enum scale_step step)
{
    const double latest = simulation->ended_ns;
    const struct scale_costs *costs = &simulation->job->costs;
    simulation->began_chain += simulation->outcome->steps[simulation->step].rounds;
    struct simulated_process idle = {
        .own = &costs->in_host, .busy_ns = latest, .chain = simulation->began_chain};
    for (int pe = 0; pe < simulation->job->pes; pe++)
        simulation->pes[pe].process = idle;
    idle.own = &costs->between_hosts;
    for (int host = 0; host < simulation->hosts; host++)
        simulation->agents[host].process = idle;
    simulation->launcher_process = idle;
    simulation->step = step;
    simulation->began_ns = latest;
    simulation->working = simulation->job->pes;
}

static void run_events(struct simulation *simulation)
{
    scale_handle_all(simulation);
    simulation->outcome->steps[simulation->step].us =
        (simulation->ended_ns - simulation->began_ns) / 1000;
    simulation->failed |= simulation->working != 0;
}

static void begin_all_pes(struct simulation *simulation)
{
    for (int pe = 0; pe < simulation->job->pes; pe++)
        begin_pe(simulation, &simulation->pes[pe].process, simulation->began_ns);
}

static void run_exchange(struct simulation *simulation, enum scale_step step, size_t bytes)
{
    begin_step(simulation, step);
    simulation->begin = begin_exchange;
    simulation->bytes = bytes;
    begin_all_pes(simulation);
    run_events(simulation);
}

/* Returns the mean time of many exchanges, one directly after the other, at PE 0. */
static double repeat_exchange(struct simulation *simulation, enum scale_step step, size_t bytes)
{
    for (int pe = 0; pe < simulation->job->pes; pe++)
        simulation->pes[pe].again = REPEATED + REPEATED_BEFORE;
    run_exchange(simulation, step, bytes);
    return (simulation->repeated_until_ns - simulation->repeated_from_ns) / REPEATED / 1000;
}

/* Children that have hosts below them. */
static int count_parents_below(const struct run *run)
{
    int count = 0;
    for (int i = 0; i < run->hosts.count; i++)
        count += run->hosts.list[i].member && run->hosts.list[i].below;
    return count;
}

static void run_start(struct simulation *simulation)
{
    begin_step(simulation, SCALE_START);
    simulation->begin = join_job;
    simulation->bytes = boot_node_record_bytes();
    simulation->unready = count_parents_below(&simulation->launcher);
    for (int host = 0; host < simulation->hosts; host++)
        simulation->agents[host].unready = count_parents_below(&simulation->agents[host].run);
    for (int host = 0; host < simulation->hosts; host++) {
        struct agent *agent = &simulation->agents[host];
        if (agent->run.hosts.count && !agent->unready)
            run_agent_report(&agent->run, HOST_READY, 0, NULL, 0);
    }
    if (!simulation->unready)
        run_hosts_start(&simulation->launcher);
    run_events(simulation);
}

/* The exit of a PE, as its agent sees it. */
static void end_pe(struct simulation *simulation, int pe, int wait_status)
{
    struct agent *agent = &simulation->agents[host_of_pe(simulation, pe)];
    const int i = pe - agent->run.first;
    simulation->pes[pe].from_agent.base.closed = true;
    run_agent_serve(&agent->run, i);
    agent->run.pes[i].exited = true;
    agent->run.pes[i].wait_status = wait_status;
    agent->run.alive--;
    run_agent_exited(&agent->run, i);
}

static void run_finalize(struct simulation *simulation)
{
    begin_step(simulation, SCALE_FINALIZE);
    simulation->begin = leave_job;
    begin_all_pes(simulation);
    simulation->working = 0;
    run_events(simulation); /* every agent has forwarded them */
    for (int pe = 0; pe < simulation->job->pes; pe++)
        end_pe(simulation, pe, 0);
    run_events(simulation);
    for (int host = 0; host < simulation->hosts; host++)
        simulation->failed |= !simulation->agents[host].sent_done;
}

static void run_death(struct simulation *simulation)
{
    begin_step(simulation, SCALE_DEATH);
    const int victim = simulation->job->pes - 1;
    simulation->pes[victim].notified = true;
    simulation->working = victim;
    end_pe(simulation, victim, SIGKILL);
    run_events(simulation);
}

static uint64_t count_launcher_bytes(const struct run *launcher)
{
    const struct hub *hub = &launcher->hub;
    return sizeof *launcher + (uint64_t)launcher->options.npes * sizeof *launcher->pes +
           (uint64_t)launcher->hosts.count * sizeof *launcher->hosts.list +
           (uint64_t)(launcher->hosts.children + 1) * sizeof *launcher->hosts.wires +
           (uint64_t)hub->n * (sizeof *hub->wires + sizeof *hub->in_job + sizeof *hub->gathering) +
           hub_slice(hub->n) * (uint64_t)hub->n;
}

static void run_all_steps(struct simulation *simulation)
{
    struct scale_outcome *outcome = simulation->outcome;
    outcome->hosts = simulation->hosts;
    outcome->levels = simulation->launcher.hosts.levels;
    outcome->launcher_bytes = count_launcher_bytes(&simulation->launcher);
    run_start(simulation);
    run_exchange(simulation, SCALE_BARRIER, 0);
    run_exchange(simulation, SCALE_EXCHANGE, simulation->job->bytes);
    run_finalize(simulation);
}

static void run_start_and_death(struct simulation *simulation)
{
    run_start(simulation);
    run_death(simulation);
}

static void run_repeated(struct simulation *simulation)
{
    struct scale_outcome *outcome = simulation->outcome;
    run_start(simulation);
    outcome->repeated_us[0] = repeat_exchange(simulation, SCALE_BARRIER, 0);
    outcome->repeated_us[1] = repeat_exchange(simulation, SCALE_EXCHANGE, simulation->job->bytes);
}

static bool simulate_once(const struct scale_job *job, struct scale_outcome *outcome,
                          void (*steps)(struct simulation *simulation))
{
    struct simulation simulation = {.job = job, .outcome = outcome};
    bool good = scale_make_job(&simulation);
    if (good)
        steps(&simulation);
    good = good && !simulation.failed;
    scale_free_job(&simulation);
    return good;
}

bool scale_simulate(const struct scale_job *job, struct scale_outcome *outcome)
{
    struct scale_outcome other = {.right = true};
    *outcome = (struct scale_outcome){.right = true};
    bool good = simulate_once(job, outcome, run_all_steps);
    if (good && job->pes > 1) {
        good = simulate_once(job, &other, run_start_and_death);
        outcome->steps[SCALE_DEATH] = other.steps[SCALE_DEATH];
    }
    outcome->right &= good;
    return good;
}

bool scale_predict(const struct scale_job *job, double us[SCALE_REPEATED])
{
    struct scale_outcome outcome = {.right = true};
    bool good = simulate_once(job, &outcome, run_repeated) && outcome.right;
    memcpy(us, outcome.repeated_us, sizeof outcome.repeated_us);
    return good || (fprintf(stderr, "weft bench scale: no memory for %d PEs\n", job->pes), false);
}
