/* SPDX-License-Identifier: Apache-2.0 */
/* Makes and connects the processes of a simulated job: the launcher and the agents with the tables
 * of the real ones, and the PEs. See scale.h. */
#include "bench/scale/simulated.h"

#include <stdlib.h>

enum { MADE_UP_FD = 1 << 30 };

static bool make_run(struct simulation *simulation, struct run *run, int npes, int first)
{
    *run = (struct run){.epoll = -1,
                        .first = first,
                        .all = simulation->job->pes,
                        .options = {.npes = npes, .fan_out = simulation->job->fan_out},
                        .ending = {.result = -1, .culprit = -1},
                        .input.pipe = -1};
    run->pes = calloc((size_t)npes, sizeof *run->pes);
    for (int pe = 0; run->pes && pe < npes; pe++)
        run->pes[pe].pidfd = run->pes[pe].program_pidfd = -1;
    return run->pes && run_open_hub(run);
}

/* The hosts from number `first` on, which are below a process. */
static bool list_hosts_below(struct simulation *simulation, struct run *run, int first, int count)
{
    static char label[] = "host";
    const struct scale_job *job = simulation->job;
    run->hosts.count = count;
    if (!count)
        return true;
    run->hosts.list = calloc((size_t)count, sizeof *run->hosts.list);
    if (!run->hosts.list)
        return false;
    for (int i = 0; i < count; i++) {
        const int pe = (first + i) * job->per_host, left = job->pes - pe;
        run->hosts.list[i] = (struct run_host){.number = first + i,
                                               .name = label,
                                               .label = label,
                                               .first = pe,
                                               .count = left < job->per_host ? left : job->per_host,
                                               .pid = 1,
                                               .pidfd = -1,
                                               .stdin_end = -1};
    }
    run->hosts.children = run_tree_plan(run->hosts.list, count, job->fan_out);
    run->hosts.levels = run_tree_levels(count, job->fan_out);
    run->hosts.wires = calloc((size_t)run->hosts.children + 1, sizeof *run->hosts.wires);
    for (int i = 0; run->hosts.wires && i <= run->hosts.children; i++)
        run->hosts.wires[i].fd = -1;
    return run->hosts.wires != NULL;
}

static void connect_pe(struct simulation *simulation, struct agent *agent, int i)
{
    struct simulated_pe *pe = &simulation->pes[agent->run.first + i];
    struct wire *wire = &agent->run.hub.wires[i];
    pe->to_agent = scale_make_link(simulation, &pe->process, &agent->process);
    pe->to_agent.deliver = scale_deliver_from_pe;
    pe->to_agent.wire = wire;
    pe->to_agent.number = i;
    pe->to_agent.agent = agent->state.index;
    pe->to_agent.up = true;
    pe->from_agent = scale_make_link(simulation, &agent->process, &pe->process);
    pe->from_agent.deliver = scale_deliver_to_pe;
    pe->from_agent.number = agent->run.first + i;
    wire->fd = MADE_UP_FD;
    wire->simulation = &pe->from_agent.base;
}

/* Connects a process with the agent of host `index` of its list. */
static void connect_child(struct simulation *simulation, struct simulated_process *parent,
                          struct run *run, int index)
{
    struct agent *child = &simulation->agents[run->hosts.list[index].number];
    struct wire *wire = run_host_wire(run, index);
    child->to_parent = scale_make_link(simulation, &child->process, parent);
    child->to_parent.deliver = scale_deliver_from_child;
    child->to_parent.wire = wire;
    child->to_parent.number = index;
    child->from_parent = scale_make_link(simulation, parent, &child->process);
    child->from_parent.deliver = scale_deliver_from_parent;
    child->from_parent.wire = &child->state.up;
    child->from_parent.agent = child->state.index;
    child->to_parent.up = true;
    child->to_parent.between_hosts = child->from_parent.between_hosts = true;
    child->state.up = (struct wire){.fd = MADE_UP_FD, .simulation = &child->to_parent.base};
    *wire = (struct wire){.fd = MADE_UP_FD, .simulation = &child->from_parent.base};
}

static bool make_agent(struct simulation *simulation, int host)
{
    struct agent *agent = &simulation->agents[host];
    const struct run_host *own = &simulation->launcher.hosts.list[host];
    agent->state.index = host;
    agent->state.up.fd = -1;
    if (!make_run(simulation, &agent->run, own->count, own->first))
        return false;
    agent->run.agent = &agent->state;
    int npes = own->count;
    for (int i = 1; i <= own->below; i++)
        npes += own[i].count;
    agent->state.gather.first = own->first;
    agent->state.gather.npes = npes;
    return list_hosts_below(simulation, &agent->run, host + 1, own->below);
}

bool scale_make_job(struct simulation *simulation)
{
    const struct scale_job *job = simulation->job;
    simulation->hosts = (job->pes + job->per_host - 1) / job->per_host;
    simulation->agents = calloc((size_t)simulation->hosts, sizeof *simulation->agents);
    simulation->pes = calloc((size_t)job->pes, sizeof *simulation->pes);
    simulation->cpus.count = job->costs.cpus;
    simulation->cpus.taken = calloc((size_t)job->costs.cpus + 1, sizeof(bool));
    bool good = simulation->agents && simulation->pes && simulation->cpus.taken &&
                make_run(simulation, &simulation->launcher, job->pes, 0) &&
                list_hosts_below(simulation, &simulation->launcher, 0, simulation->hosts);
    for (int host = 0; good && host < simulation->hosts; host++)
        good = make_agent(simulation, host);
    for (int host = 0; good && host < simulation->hosts; host++) {
        struct agent *agent = &simulation->agents[host];
        for (int i = 0; i < agent->run.options.npes; i++)
            connect_pe(simulation, agent, i);
        for (int i = 0; i < agent->run.hosts.count; i++)
            if (agent->run.hosts.list[i].member)
                connect_child(simulation, &agent->process, &agent->run, i);
    }
    for (int i = 0; good && i < simulation->hosts; i++)
        if (simulation->launcher.hosts.list[i].member)
            connect_child(simulation, &simulation->launcher_process, &simulation->launcher, i);
    return good;
}

static void free_run(struct run *run)
{
    run_close_hub(run);
    for (int i = 0; run->hosts.wires && i <= run->hosts.children; i++)
        wire_close(&run->hosts.wires[i]);
    free(run->hosts.wires);
    free(run->hosts.list);
    free(run->pes);
}

void scale_free_job(struct simulation *simulation)
{
    scale_drop_all(simulation);
    for (int host = 0; simulation->agents && host < simulation->hosts; host++) {
        struct agent *agent = &simulation->agents[host];
        wire_close(&agent->state.up);
        run_gather_drop(&agent->state.gather);
        free_run(&agent->run);
    }
    free_run(&simulation->launcher);
    free(simulation->cpus.taken);
    free(simulation->agents);
    free(simulation->pes);
}
