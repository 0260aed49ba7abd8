/* SPDX-License-Identifier: Apache-2.0 */
/* See experts_way.h. A term is a fixed time and the longest of its transfers: over links, over the
 * NIC, in the GPU's memory. */
#include "tool/experts_way.h"

#include "base/config.h"
#include "gpu/coll/kernels.h"
#include "ops/coll/prove.h"
#include "ops/experts/experts.h"
#include "tool/coll_rates.h"

/* What the rates of collectives do not say, in microseconds, from the tables of two H200 with 16
 * tokens (docs/experts.md): a kernel of a graph that reads what the kernel before it wrote, and the
 * assignment of rows. */
static const double kernel_us = 2.7, assign_us = 2.0;

struct model {
    const struct tool_experts_question *q;
    struct experts_form form;
    struct coll_rates rates;
    int node; /* PEs of a node */
    double tokens, row_bytes, result_bytes, choice_bytes, count_bytes;
    /* PEs, for each token of the busiest PE, in its own node and in others: to which a token goes,
     * and for each own token, from which one comes */
    double out_near, out_far, in_near, in_far;
    double own, all, far_nodes; /* that PE itself, all PEs, and other nodes that a token goes to */
    double relayed;             /* that it sends on as a relay, for each of its own */
};

/* ---------------------------------------------------------------------- where tokens go */

/* Probability that a token has one of some experts: `top` different ones of all are drawn. */
static double share_of(const struct model *m, double experts)
{
    double none = 1;
    for (uint32_t k = 0; k < m->q->attr.top && none > 0; k++) {
        double left = m->q->attr.experts - experts - k;
        none = left > 0 ? none * left / (m->q->attr.experts - k) : 0;
    }
    return 1 - none;
}

static double first_expert(const struct model *m, int pe)
{
    return (double)((uint64_t)pe * m->q->attr.experts / (uint64_t)m->q->pes);
}

static double share_of_pes(const struct model *m, int begin, int end)
{
    return share_of(m, first_expert(m, end) - first_expert(m, begin));
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Finds how many PEs and nodes a token goes to, at the PE with the most of each. */
static void spread(struct model *m)
{
    int n = m->q->pes, size = m->node;
    for (int pe = 0; pe < n; pe++)
        m->all += share_of_pes(m, pe, pe + 1);
    for (int begin = 0; begin < n; begin += size) {
        int end = begin + size < n ? begin + size : n;
        double near = 0, far_nodes = 0;
        for (int pe = begin; pe < end; pe++)
            near += share_of_pes(m, pe, pe + 1);
        for (int other = 0; other < n; other += size)
            if (other != begin)
                far_nodes += share_of_pes(m, other, other + size < n ? other + size : n);
        for (int pe = begin; pe < end; pe++) {
            double own = share_of_pes(m, pe, pe + 1), in_node = end - begin;
            m->own = larger(m->own, own);
            m->out_near = larger(m->out_near, near - own);
            m->in_near = larger(m->in_near, (in_node - 1) * own);
            m->in_far = larger(m->in_far, (n - in_node) * own);
            m->relayed = larger(m->relayed, (n - in_node) / in_node * (near - own));
        }
        m->out_far = larger(m->out_far, m->all - near);
        m->far_nodes = larger(m->far_nodes, far_nodes);
    }
}

/* ---------------------------------------------------------------------- terms */

/* Appends a term that takes `us` and the time of its longest transfer. */
static void add_term(const struct model *m, struct tool_experts_step *step, double gbps,
                     struct tool_experts_term term)
{
    double link = term.link_bytes / gbps, hbm = term.hbm_bytes / m->q->hbm_gbps;
    double nic = term.nic_bytes / m->q->nic_gbps;
    term.us += larger(link, larger(hbm, nic)) / 1e3;
    step->us += term.us;
    step->terms[step->n++] = term;
}

/* The PEs of a node exchange the counts of all PEs. */
static double allgather_us(const struct model *m, double bytes)
{
    int nodes = (m->q->pes + m->node - 1) / m->node;
    struct coll_question q = {.what = COLL_ALLGATHER,
                              .members = m->node < COLL_MEMBERS ? m->node : COLL_MEMBERS,
                              .bytes = (uint64_t)(bytes * nodes),
                              .set_bytes = COLL_WIDE_SET,
                              .direct = true,
                              .ll128 = coll_prove_wanted(),
                              .most_blocks = coll_blocks_of(config_int(CONFIG_COLL_SMS))};
    return coll_choose(&q, &m->rates).us;
}

/* What an exchange between nodes adds to one within a node. */
static double between_nodes_us(const struct model *m)
{
    return m->out_far > 0 ? m->q->nic_us : 0;
}

static double barrier_us(const struct model *m)
{
    return m->rates.one_trip_us + between_nodes_us(m);
}

static struct tool_experts_term assignment(const struct model *m, double us)
{
    /* each PE's choices are read by one block */
    double bytes = m->tokens * m->q->attr.top * sizeof(int64_t);
    return (struct tool_experts_term){.name = "assign rows",
                                      .hbm_bytes = bytes,
                                      .us = us + assign_us +
                                            bytes / m->rates.block_stores_gbps / 1e3};
}

/* Rows over links, or results back, and what the GPU's memory reads and writes for them. */
static double near_bytes(const struct model *m, double bytes)
{
    return m->tokens * bytes * larger(m->out_near, m->in_near);
}

static double far_bytes(const struct model *m, double bytes)
{
    double pes = larger(m->out_far, m->in_far);
    return m->tokens * bytes * (m->form.division.nodes ? m->far_nodes : pes);
}

/* Bytes of tokens that are read, and of rows that are written. */
static double rows_hbm(const struct model *m)
{
    return m->tokens * m->row_bytes * (1 + m->own + m->in_near + m->in_far);
}

/* Bytes of results that are read, and of sums that are written. */
static double sums_hbm(const struct model *m)
{
    double results = m->form.division.nodes ? m->own + m->out_near + m->far_nodes : m->all;
    return m->tokens * m->result_bytes * (results + 1);
}

static struct tool_experts_step long_dispatch(const struct model *m)
{
    struct tool_experts_step s = {.n = 0};
    bool alone = m->q->pes == 1, relays = m->form.division.nodes > 0;
    double gbps = m->rates.stores_gbps, received = m->tokens * (m->own + m->in_near + m->in_far);
    add_term(m, &s, gbps, assignment(m, kernel_us));
    if (!alone)
        add_term(m, &s, gbps,
                 (struct tool_experts_term){.name = "exchange of counts",
                                            .us = allgather_us(m, m->count_bytes) +
                                                  between_nodes_us(m)});
    add_term(m, &s, gbps,
             (struct tool_experts_term){.name = relays ? "rows, also to relays" : "rows",
                                        .link_bytes = near_bytes(m, m->row_bytes),
                                        .nic_bytes = far_bytes(m, m->row_bytes),
                                        .hbm_bytes = rows_hbm(m),
                                        .us = kernel_us});
    if (!alone)
        add_term(m, &s, gbps, (struct tool_experts_term){.name = "barrier", .us = barrier_us(m)});
    if (relays) {
        add_term(m, &s, gbps,
                 (struct tool_experts_term){.name = "rows by relays",
                                            .link_bytes = m->tokens * m->row_bytes * m->relayed,
                                            .hbm_bytes = 2 * m->tokens * m->row_bytes * m->in_far,
                                            .us = kernel_us});
        add_term(
            m, &s, gbps,
            (struct tool_experts_term){.name = "barrier of the node", .us = m->rates.one_trip_us});
    }
    add_term(m, &s, gbps,
             (struct tool_experts_term){.name = "choices of rows",
                                        .hbm_bytes = received * m->choice_bytes * 2.5,
                                        .us = kernel_us});
    return s;
}

static struct tool_experts_step long_combine(const struct model *m)
{
    struct tool_experts_step s = {.n = 0};
    bool relays = m->form.division.nodes > 0;
    double gbps = m->rates.stores_gbps, parts = m->form.sizes.parts;
    double far = far_bytes(m, m->result_bytes);
    if (m->q->pes > 1) {
        add_term(m, &s, gbps,
                 (struct tool_experts_term){
                     .name = relays ? "results, also to relays" : "results",
                     .link_bytes = near_bytes(m, m->result_bytes) +
                                   m->tokens * m->result_bytes * (relays ? m->relayed : 0),
                     .nic_bytes = relays ? 0 : far,
                     .hbm_bytes = m->tokens * m->result_bytes *
                                  (m->in_near + m->in_far + m->out_near + m->out_far),
                     .us = parts * kernel_us});
        if (relays) {
            double came = m->tokens * m->result_bytes * m->in_far;
            add_term(m, &s, gbps,
                     (struct tool_experts_term){.name = "barriers of the node",
                                                .us = parts * m->rates.one_trip_us});
            add_term(m, &s, gbps,
                     (struct tool_experts_term){.name = "sums by relays",
                                                .nic_bytes = far,
                                                .hbm_bytes = came,
                                                .us = parts * kernel_us});
        }
        add_term(m, &s, gbps,
                 (struct tool_experts_term){.name = parts > 1 ? "barriers" : "barrier",
                                            .us = parts * barrier_us(m)});
    }
    add_term(m, &s, gbps,
             (struct tool_experts_term){.name = parts > 1 ? "sum of the last part" : "sum",
                                        .hbm_bytes = sums_hbm(m) / parts,
                                        .us = kernel_us});
    return s;
}

/* In the short form a receiver reads what arrives in lines, and writes rows. */
static struct tool_experts_step short_dispatch(const struct model *m)
{
    struct tool_experts_step s = {.n = 0};
    double rows = m->own + m->in_near;
    double heads = (double)m->form.sizes.head_pieces * EXPERTS_PIECE * (m->q->pes - 1);
    add_term(m, &s, m->rates.lines_gbps,
             (struct tool_experts_term){.name = "kernel, first line", .us = m->rates.lines_us});
    add_term(m, &s, m->rates.lines_gbps, assignment(m, 0));
    add_term(m, &s, m->rates.lines_gbps,
             (struct tool_experts_term){.name = "rows in lines",
                                        .link_bytes = near_bytes(m, m->row_bytes) + heads,
                                        .hbm_bytes = m->tokens * m->row_bytes * (1 + 3 * rows)});
    return s;
}

static struct tool_experts_step short_combine(const struct model *m)
{
    struct tool_experts_step s = {.n = 0};
    add_term(m, &s, m->rates.lines_gbps,
             (struct tool_experts_term){.name = "kernel, first line", .us = m->rates.lines_us});
    add_term(m, &s, m->rates.lines_gbps,
             (struct tool_experts_term){.name = "results in lines, sum",
                                        .link_bytes = near_bytes(m, m->result_bytes),
                                        .hbm_bytes = sums_hbm(m) + m->tokens * m->result_bytes *
                                                                       (m->in_near + m->out_near)});
    return s;
}

weft_status tool_experts_way(const char *function, const struct tool_experts_question *q,
                             struct tool_experts_answer *a)
{
    int size = (int)q->attr.node_members;
    struct model m = {
        .q = q, .node = size > 0 && size < q->pes ? size : q->pes, .tokens = q->attr.tokens};
    weft_status status = experts_form_of(function, q->pes, &q->attr, &m.form);
    if (status)
        return status;
    const struct experts_call *sizes = &m.form.sizes;
    tool_coll_rates_here(&m.rates, a->rates, sizeof a->rates);
    m.choice_bytes = q->attr.top * (double)sizeof *sizes->choices;
    m.row_bytes = sizes->token_bytes + sizes->scale_bytes + m.choice_bytes;
    m.result_bytes = sizes->result_bytes;
    m.count_bytes = 4.0 * EXPERTS_COUNT_WORDS(q->pes, (double)q->attr.experts);
    spread(&m);
    a->is_short = m.form.is_short && m.out_far == 0;
    a->relays = m.form.division.nodes > 0;
    a->parts = sizes->parts;
    a->pes = m.all;
    a->others = m.out_near + m.out_far;
    a->nodes = m.far_nodes;
    a->share = m.own;
    struct tool_experts_step dispatch = long_dispatch(&m), combine = long_combine(&m);
    a->long_dispatch_us = dispatch.us;
    a->long_combine_us = combine.us;
    a->dispatch = a->is_short ? short_dispatch(&m) : dispatch;
    a->combine = a->is_short ? short_combine(&m) : combine;
    a->kernel_us = kernel_us;
    a->assign_us = assign_us;
    return WEFT_OK;
}
