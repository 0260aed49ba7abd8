/* SPDX-License-Identifier: Apache-2.0 */
/* See scale_coll.h. The files of ops/coll that are included here are compiled a second time, with
 * functions of this file in place of those that reach another PE. A PE is a thread; one runs at a
 * time, until it waits for a flag that has not been sent. Each PE has a clock of virtual time: a
 * flag that it waits for moves the clock to the arrival of that flag. No PE stores into the memory
 * of another one directly, so members of a node put and get as the slow functions of coll.h do. */
#include "tool/scale_names.h"

#include "ops/coll/nodes.c"
#include "ops/coll/nodes_reduce.c"

#include "base/status.h"
#include "boot/boot.h"
#include "tool/coll_rates.h"
#include "tool/scale_pe.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SCALE_STACK_BYTES = 131072, SCALE_RADIX = 8 };

/* ----------------------------------------------------------------------------- one PE at a time */

static struct scale_pe *pe_of_team(struct weft_team *team)
{
    return (struct scale_pe *)team;
}

static int rank_in_node(const struct scale_pe *pe, int other)
{
    return other - pe->team.nodes->first[pe->team.nodes->of[other]];
}

static const struct scale_flag *find_flag(const struct scale_pe *pe, int from, uint64_t phase)
{
    for (int i = 0; i < pe->flag_count; i++)
        if (pe->flags[i].from == from && pe->flags[i].phase >= phase &&
            (pe->flags[i].phase & SCALE_PACKET) == (phase & SCALE_PACKET))
            return &pe->flags[i];
    return NULL;
}

/* A flag, or with a payload a packet, of member `from` to member `to`. */
static void send_flag(struct scale_pe *pe, int from, int to, uint64_t phase, double arrives_ns,
                      const void *payload, size_t bytes)
{
    struct scale_pe *other = &pe->all->pes[to];
    if (other->flag_count == other->flag_size) {
        const int size = other->flag_size ? 2 * other->flag_size : 16;
        struct scale_flag *moved = realloc(other->flags, (size_t)size * sizeof *moved);
        if (!moved) {
            pe->all->no_memory = true;
            return;
        }
        other->flags = moved;
        other->flag_size = size;
    }
    struct scale_flag *flag = &other->flags[other->flag_count++];
    *flag = (struct scale_flag){.from = from, .phase = phase, .arrives_ns = arrives_ns};
    if (bytes)
        memcpy(flag->payload, payload, bytes);
    if (other->awaited == from && phase >= other->awaited_phase &&
        (phase & SCALE_PACKET) == (other->awaited_phase & SCALE_PACKET)) {
        other->awaited = -1;
        other->ready = true;
    }
}

double scale_send(struct scale_pe *pe, int to, size_t bytes)
{
    const struct tool_scale_job *job = pe->all->job;
    struct tool_scale_result *result = pe->all->result;
    if (is_in_node(pe, to)) {
        result->in_node++;
        pe->clock_ns += (double)bytes * job->copy_ns;
        return pe->clock_ns + job->flag_ns;
    }
    result->between++;
    result->off_rail += rank_in_node(pe, to) != pe->team.nodes->local_me;
    result->bytes_between += bytes;
    pe->clock_ns += job->post_ns;
    if (pe->link_ns < pe->clock_ns)
        pe->link_ns = pe->clock_ns;
    pe->link_ns += (double)bytes * job->byte_ns;
    return pe->link_ns + job->latency_ns;
}

static void copy_to(struct scale_pe *pe, int to, size_t offset, const void *src, size_t bytes)
{
    if (!pe->all->job->no_contents)
        memcpy((char *)pe->all->pes[to].memory + offset, src, bytes);
}

/* -------------------------------------------- in place of the functions that reach another PE */

weft_status coll_notify_slow(struct weft_team *team, int member, uint64_t phase)
{
    struct scale_pe *pe = pe_of_team(team);
    send_flag(pe, team->me, member, phase, scale_send(pe, member, 0), NULL, 0);
    return WEFT_OK;
}

weft_status coll_put_slow(struct weft_team *team, int member, struct symmetric_range to,
                          const void *src, size_t bytes)
{
    struct scale_pe *pe = pe_of_team(team);
    scale_send(pe, member, bytes);
    copy_to(pe, member, to.offset, src, bytes);
    return WEFT_OK;
}

weft_status coll_put_notify_slow(struct weft_team *team, int member, struct symmetric_range to,
                                 const void *src, size_t bytes, uint64_t phase, bool nbi)
{
    struct scale_pe *pe = pe_of_team(team);
    const double arrives_ns = scale_send(pe, member, bytes);
    copy_to(pe, member, to.offset, src, bytes);
    send_flag(pe, team->me, member, phase, arrives_ns, NULL, 0);
    return WEFT_OK;
}

weft_status coll_await_slow(struct weft_team *team, int member, uint64_t phase,
                            enum box_operation operation)
{
    struct scale_pe *pe = pe_of_team(team);
    const struct scale_flag *flag;
    while (!(flag = find_flag(pe, member, phase))) {
        pe->awaited = member;
        pe->awaited_phase = phase;
        sem_post(&pe->all->scheduler);
        while (sem_wait(&pe->turn))
            ;
        if (pe->all->ending)
            return WEFT_ERR_TIMEOUT;
    }
    if (pe->clock_ns < flag->arrives_ns)
        pe->clock_ns = flag->arrives_ns;
    return WEFT_OK;
}

bool scale_has_notified(struct weft_team *team, int member, uint64_t phase)
{
    struct scale_pe *pe = pe_of_team(team);
    const struct scale_flag *flag = find_flag(pe, member, phase);
    return flag && flag->arrives_ns <= pe->clock_ns;
}

weft_status weft_get_nbi(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int from)
{
    struct scale_pe *pe = pe_of_ctx(ctx);
    const struct tool_scale_job *job = pe->all->job;
    const size_t offset = (size_t)((const char *)src - (char *)pe->memory);
    double there_ns = scale_send(pe, from, 0), back_ns;
    if (!is_in_node(pe, from))
        pe->all->result->bytes_between += bytes;
    if (pe->all->gpus) {
        back_ns = scale_get_ns(pe, from, bytes, there_ns);
    } else if (is_in_node(pe, from)) {
        pe->clock_ns += (double)bytes * job->copy_ns;
        back_ns = pe->clock_ns;
    } else {
        struct scale_pe *other = &pe->all->pes[from];
        other->link_ns =
            (other->link_ns < there_ns ? there_ns : other->link_ns) + (double)bytes * job->byte_ns;
        back_ns = other->link_ns + job->latency_ns;
    }
    if (!job->no_contents)
        memcpy(dst, (char *)pe->all->pes[from].memory + offset, bytes);
    pe->gets_ns = back_ns > pe->gets_ns ? back_ns : pe->gets_ns;
    return WEFT_OK;
}

weft_status weft_quiet(weft_ctx *ctx)
{
    struct scale_pe *pe = pe_of_ctx(ctx);
    pe->clock_ns = pe->gets_ns > pe->clock_ns ? pe->gets_ns : pe->clock_ns;
    return WEFT_OK;
}

weft_status weft_get(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int from)
{
    weft_get_nbi(ctx, dst, src, bytes, from);
    return weft_quiet(ctx);
}

weft_status weft_fence(weft_ctx *ctx)
{
    return WEFT_OK;
}

weft_status coll_packet_send(struct weft_team *team, int member, uint64_t sequence,
                             const void *payload, size_t bytes)
{
    struct scale_pe *pe = pe_of_team(team);
    send_flag(pe, team->me, member, SCALE_PACKET | sequence, scale_send(pe, member, bytes), payload,
              bytes);
    return WEFT_OK;
}

weft_status coll_packet_await(struct weft_team *team, int member, uint64_t sequence,
                              enum box_operation operation, void *payload, size_t bytes)
{
    struct scale_pe *pe = pe_of_team(team);
    weft_status status = coll_await_slow(team, member, SCALE_PACKET | sequence, operation);
    if (!status)
        memcpy(payload, find_flag(pe, member, SCALE_PACKET | sequence)->payload, bytes);
    return status;
}

/* Forwards a packet: the signal is its sequence number, in the mailbox of the member that sent it.
 */
weft_status weft_put_signal(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                            uint64_t *signal, uint64_t value, weft_signal_op op, int to)
{
    struct scale_pe *pe = pe_of_ctx(ctx);
    const size_t from =
        (size_t)((char *)signal - (char *)pe->team.mailboxes) / sizeof(struct mailbox);
    send_flag(pe, (int)from, to, SCALE_PACKET | value, scale_send(pe, to, bytes), src, bytes);
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------ PEs */

/* The messages of weft_alloc(): the members compare their arguments, and later the offsets. */
static weft_status perform_alloc(struct scale_pe *pe)
{
    const uint64_t record[] = {BOX_OP_ALLOC, 4096, 64, 0, 0};
    weft_status status = WEFT_OK;
    for (int i = 0; i < 2 && !status; i++) {
        bool differs = true;
        status = coll_nodes_compare(&pe->team, BOX_OP_ALLOC, record, sizeof record, &differs);
        pe->wrong |= differs;
    }
    return status;
}

/* The packets of all members, combined one after the other. */
static weft_status reduce_packets(struct scale_pe *pe, const struct coll_range_reduction *what,
                                  size_t n)
{
    _Alignas(16) char all[COLL_PACKETS_MOST];
    const size_t bytes = n * what->c->element;
    char *memory = (char *)pe->memory, *to = memory + what->to.offset;
    weft_status status =
        coll_nodes_exchange(&pe->team, BOX_OP_ALLREDUCE, memory + what->from.offset, all, bytes);
    if (status)
        return status;
    memcpy(to, all, bytes);
    for (int i = 1; i < pe->team.n; i++)
        what->c->combine(to, all + (size_t)i * bytes, n);
    reduce_end(what->c, to, n, pe->team.n);
    return WEFT_OK;
}

weft_status scale_reduce(struct scale_pe *pe, const struct coll_range_reduction *what, size_t n)
{
    return coll_reduces_by_packets(&pe->team, n * what->c->element)
               ? reduce_packets(pe, what, n)
               : coll_nodes_reduce(&pe->team, what, n, SCALE_PHASE);
}

static weft_status perform_collective(struct scale_pe *pe)
{
    const size_t n = pe->all->job->elements, bytes = n * sizeof(uint32_t);
    const struct symmetric_range from = {SEG_HEAP, 0}, to = {SEG_HEAP, bytes};
    const struct coll_range_reduction reduction = {BOX_OP_ALLREDUCE, &pe->all->combiner, from, to};
    const enum tool_scale_collective which = pe->all->collective;
    if (pe->all->gpus && which >= TOOL_SCALE_BROADCAST)
        return scale_perform_on_gpu(pe);
    switch (which) {
    case TOOL_SCALE_SYNC:
        return coll_nodes_sync(&pe->team, BOX_OP_BARRIER, SCALE_PHASE);
    case TOOL_SCALE_ALLOC:
        return perform_alloc(pe);
    case TOOL_SCALE_BROADCAST:
        return coll_nodes_broadcast(&pe->team, to, pe->memory, bytes, 0, SCALE_PHASE);
    case TOOL_SCALE_ALLREDUCE:
    case TOOL_SCALE_ALLREDUCE_AVG:
    case TOOL_SCALE_ALLREDUCE_MIN:
        return scale_reduce(pe, &reduction, n);
    default:
        return base_fail(WEFT_ERR_UNSUPPORTED, "simulated on GPU memory only");
    }
}

static void *run_scale_pe(void *argument)
{
    struct scale_pe *pe = argument;
    while (sem_wait(&pe->turn))
        ;
    pe->status = pe->all->ending ? WEFT_ERR_TIMEOUT : perform_collective(pe);
    pe->done = true;
    sem_post(&pe->all->scheduler);
    return NULL;
}

/* An address of memory that is neither loaded nor stored. */
static char *const nowhere = (char *)(uintptr_t)(1 << 30);

/* Pages that nothing touches cost nothing. */
static bool make_scale_memory(struct scale_pe *pe)
{
    const size_t slots = pe->all->gpus ? scale_slot_bytes() : 0;
    const struct scale_shape shape = scale_shape_of(pe->all);
    pe->heap_bytes = slots + (shape.src + shape.dst + 1) * sizeof *pe->memory;
    if (pe->all->gpus && pe->all->job->no_contents &&
        !tool_scale_is_buffered(pe->all->job, pe->all->collective)) {
        pe->heap = nowhere;
        pe->memory = (uint32_t *)(void *)(nowhere + slots);
        return true;
    }
    pe->heap = mmap(NULL, pe->heap_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pe->heap == MAP_FAILED) {
        pe->heap = NULL;
        return false;
    }
    pe->memory = (uint32_t *)(void *)(pe->heap + slots);
    return true;
}

static bool make_scale_pe(struct scale_team *all, int me)
{
    struct scale_pe *pe = &all->pes[me];
    const size_t n = all->job->no_contents ? 0 : scale_shape_of(all).src;
    pe->all = all;
    pe->nodes = all->nodes;
    pe->nodes.mine = all->nodes.of[me];
    pe->nodes.local_me = me - all->nodes.first[pe->nodes.mine];
    pe->job = calloc(1, sizeof *pe->job);
    if (!pe->job || !make_scale_memory(pe))
        return false;
    for (size_t i = 0; i < n; i++)
        pe->memory[i] = scale_element(all->collective, me, i);
    pe->job->segments[SEG_HEAP].base = (char *)pe->memory;
    pe->job->system_ctx = (struct weft_ctx *)(void *)pe;
    pe->team = (struct weft_team){.job = pe->job,
                                  .n = all->job->pes,
                                  .me = me,
                                  .pes = all->nodes.members, /* member i is PE i */
                                  .nodes = &pe->nodes,
                                  .radix = SCALE_RADIX,
                                  .leader = -1,
                                  .sequence = SCALE_PHASE - 1 + TEAM_PHASES,
                                  .mailboxes = all->no_mailboxes,
                                  .mailbox_at = all->no_mailbox_at};
    if (all->gpus)
        scale_use_gpu(pe);
    pe->awaited = -1;
    pe->ready = true;
    return true;
}

static bool make_scale_nodes(struct scale_team *all)
{
    const int n = all->job->pes, each = all->job->per_node;
    struct team_nodes *nodes = &all->nodes;
    nodes->n = (n + each - 1) / each;
    nodes->in_order = true;
    nodes->least = n % each ? n % each : each;
    nodes->of = calloc((size_t)n, sizeof *nodes->of);
    nodes->members = calloc((size_t)n, sizeof *nodes->members);
    nodes->first = calloc((size_t)nodes->n + 1, sizeof *nodes->first);
    if (!nodes->of || !nodes->members || !nodes->first)
        return false;
    for (int i = 0; i < n; i++) {
        nodes->of[i] = i / each;
        nodes->members[i] = i;
    }
    for (int node = 0; node <= nodes->n; node++)
        nodes->first[node] = node * each < n ? node * each : n;
    return true;
}

/* Starts the threads; returns how many could be started. */
static int start_scale_pes(struct scale_team *all)
{
    pthread_attr_t attr;
    int started = 0;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, SCALE_STACK_BYTES);
    for (; started < all->job->pes; started++) {
        struct scale_pe *pe = &all->pes[started];
        sem_init(&pe->turn, 0, 0);
        if (pthread_create(&pe->thread, &attr, run_scale_pe, pe)) {
            sem_destroy(&pe->turn);
            break;
        }
    }
    pthread_attr_destroy(&attr);
    return started;
}

static void give_turn(struct scale_pe *pe)
{
    pe->ready = false;
    sem_post(&pe->turn);
    while (sem_wait(&pe->all->scheduler))
        ;
}

/* Runs the PEs that can go on, again and again. False: some wait for what no PE sends. */
static bool run_scale_pes(struct scale_team *all)
{
    for (bool any = true; any;) {
        any = false;
        for (int i = 0; i < all->job->pes; i++) {
            if (!all->pes[i].ready)
                continue;
            any = true;
            give_turn(&all->pes[i]);
        }
    }
    bool done = true;
    for (int i = 0; i < all->job->pes; i++)
        done &= all->pes[i].done && !all->pes[i].status;
    return done;
}

static void free_scale_team(struct scale_team *all)
{
    for (int i = 0; all->pes && i < all->job->pes; i++) {
        free(all->pes[i].job);
        if (all->pes[i].heap && all->pes[i].heap != nowhere)
            munmap(all->pes[i].heap, all->pes[i].heap_bytes);
        free(all->pes[i].flags);
    }
    scale_free_gpus(all);
    free(all->pes);
    free(all->nodes.of);
    free(all->nodes.members);
    free(all->nodes.first);
    free(all->no_mailboxes);
    free(all->no_mailbox_at);
}

static weft_status run_scale_team(struct scale_team *all)
{
    const int started = start_scale_pes(all);
    weft_status status = WEFT_OK;
    if (started < all->job->pes)
        status = base_fail(WEFT_ERR_SYSTEM, "only %d of %d threads could be started", started,
                           all->job->pes);
    else if (!run_scale_pes(all))
        status = base_fail(WEFT_ERR_TIMEOUT, "simulated PEs wait for each other");
    all->ending = true;
    for (int i = 0; i < started; i++) {
        while (!all->pes[i].done)
            give_turn(&all->pes[i]);
        pthread_join(all->pes[i].thread, NULL);
        sem_destroy(&all->pes[i].turn);
        const double us = all->pes[i].clock_ns / 1000;
        all->result->us = us > all->result->us ? us : all->result->us;
    }
    return status;
}

weft_status tool_scale_collective(const struct tool_scale_job *job,
                                  enum tool_scale_collective collective,
                                  struct tool_scale_result *result)
{
    struct scale_team all = {.job = job, .collective = collective, .result = result};
    const size_t n = (size_t)job->pes;
    *result = (struct tool_scale_result){0};
    weft_status status = reduce_combiner(
        "weft bench scale", collective == TOOL_SCALE_ALLREDUCE_MIN ? WEFT_INT32 : WEFT_FLOAT,
        collective == TOOL_SCALE_ALLREDUCE_MIN   ? WEFT_MIN
        : collective == TOOL_SCALE_ALLREDUCE_AVG ? WEFT_AVG
                                                 : WEFT_SUM,
        &all.combiner);
    if (status)
        return status;
    all.pes = calloc(n, sizeof *all.pes);
    if (posix_memalign((void **)&all.no_mailboxes, 64, n * sizeof *all.no_mailboxes))
        all.no_mailboxes = NULL;
    if (all.no_mailboxes)
        memset(all.no_mailboxes, 0, n * sizeof *all.no_mailboxes);
    all.no_mailbox_at = calloc(n, sizeof(struct mailbox *));
    bool good = all.pes && all.no_mailboxes && all.no_mailbox_at && make_scale_nodes(&all) &&
                (!job->gpus || scale_make_gpus(&all));
    for (int pe = 0; good && pe < job->pes; pe++)
        good = make_scale_pe(&all, pe);
    sem_init(&all.scheduler, 0, 0);
    if (good)
        status = run_scale_team(&all);
    sem_destroy(&all.scheduler);
    result->right =
        good && !status && !all.no_memory && (job->no_contents || scale_has_right_bits(&all));
    free_scale_team(&all);
    return good && !all.no_memory
               ? status
               : base_fail(WEFT_ERR_NO_MEMORY, "no memory for %d simulated PEs", job->pes);
}

/* ------------------------------------------------------------------------------ costs of GPUs */

/* Copies of 8 bytes and rates between host and GPU memory: 2 H200
 * (docs/measurements/2026-11-22-h200-2.md). */
static const double HOST_COPY_US = 5.6, HOST_GBPS = 50;

void tool_scale_gpu_costs(struct tool_scale_job *job, char *text, size_t bytes)
{
    struct coll_rates rates;
    tool_coll_rates_here(&rates, text, bytes);
    job->gpus = true;
    job->buffer_bytes = coll_buffer_bytes();
    job->put_ns = rates.push_us * 1000;
    job->kernel_ns = rates.combine_us * 1000;
    job->gpu_byte_ns = 1 / rates.stores_gbps;
    job->host_ns = HOST_COPY_US * 1000;
    job->host_byte_ns = 1 / HOST_GBPS;
}

/* --------------------------------------------------------------------------------------- memory */

/* Each context has entries of all PEs for host memory. */
enum { SCALE_CONTEXTS = 2 };

static uint64_t bytes_of_nics(void)
{
    uint64_t bytes = 0;
    for (int path = 0; path < PATH_COUNT; path++)
        if (path_ops_of((enum path_id)path)->peer_bytes)
            bytes += path_ops_of((enum path_id)path)->peer_bytes(1, SCALE_CONTEXTS);
    return bytes;
}

struct tool_scale_memory tool_scale_memory(int pes, int per_node, int nodes)
{
    const struct gpu *gpu = NULL;
    const struct boot *boot = NULL;
    const struct weft_team *team = NULL;
    const struct path_world *world = NULL;
    const uint64_t n = (uint64_t)pes;
    return (struct tool_scale_memory){
        .boot = n * (sizeof *boot->node_of + sizeof *boot->local_pes) +
                (uint64_t)nodes * sizeof *boot->hosts,
        .team = sizeof *team +
                n * (sizeof *team->pes + sizeof *team->mailbox_at + PACKET_BYTES +
                     sizeof *team->nodes->of + sizeof *team->nodes->members) +
                ((uint64_t)nodes + 1) * sizeof *team->nodes->first,
        .flags = n * sizeof *team->mailboxes,
        .device = n * sizeof(struct weft_dev_peer),
        .paths = n * (sizeof(struct path_choice) + sizeof *world->map +
                      SCALE_CONTEXTS * sizeof(struct peer)),
        .gpu = n * (sizeof(struct path_choice) + sizeof *gpu->slot_of +
                    SCALE_CONTEXTS * sizeof(struct peer)) +
               job_gpu_pairs_bytes(per_node < pes ? per_node : pes),
        .nics = n * bytes_of_nics(),
    };
}
