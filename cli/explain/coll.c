/* SPDX-License-Identifier: Apache-2.0 */
/* See coll.h. */
#include "explain/coll.h"

#include "columns.h"
#include "commands.h"
#include "machine_options.h"
#include "tool/coll_nodes_way.h"
#include "tool/coll_way.h"
#include "tool/tool.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INDENT = 4 }; /* indentation of continuation lines */

static int refuse_value(const char *what, const char *value, const char *remedy)
{
    fprintf(stderr, "weft explain coll: %s \"%s\"; %s\n", what, value, remedy);
    return EXIT_USAGE;
}

static int refuse_operation(const char *name)
{
    char list[256] = "known are ";
    const char *now = tool_coll_renamed(name, strlen(name));
    if (now) {
        snprintf(list, sizeof list, "it is now called %s", now);
        return refuse_value("unknown operation", name, list);
    }
    for (int i = 0; tool_coll_operation(i); i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", tool_coll_operation(i));
    }
    return refuse_value("unknown operation", name, list);
}

static void print_ways(const struct tool_coll_answer *a)
{
    static const char *const what[TOOL_COLL_WAYS] = {
        "one-shot, no fence, twice the bytes",
        "slices to their members and results back, no fence, twice the bytes",
        "one-shot in lines of 128 bytes, where the LL128 test found them whole",
        "slices to their members and results back, in lines of 128 bytes",
        "stores into the destinations, with flags and a fence",
        "stores into a team buffer, where peers cannot store into the destination",
        "copies between two barriers of the members, which one block runs"};
    enum { TEXT = 39 }; /* column at which the description starts */
    for (int i = 0; i < TOOL_COLL_WAYS; i++) {
        char us[24] = "not possible";
        if (a->ways[i].us >= 0)
            snprintf(us, sizeof us, "%9.1f us", a->ways[i].us);
        columns_print(stdout, TEXT, "  %-22s %s  %s%s", a->ways[i].name, us,
                      a->ways[i].taken ? "taken: " : "", what[i]);
    }
    for (int i = 0; i < TOOL_COLL_WAYS; i++)
        if (a->ways[i].taken && strstr(a->ways[i].name, "LL128"))
            columns_print(stdout, INDENT,
                          "  A job uses LL instead where the LL128 test at a team's first "
                          "collective saw torn lines or PEs share a GPU, and for elements of "
                          "more than 8 bytes, averages, scaled sums and FP8.");
    if (a->wish)
        columns_print(stdout, INDENT, "  WEFT_COLL asks for %s%s", a->wish,
                      a->wish_taken ? "" : ", which is not possible here");
}

static void print_blocks(const struct tool_coll_answer *a, uint64_t bytes)
{
    char blocks[64], rounds[64] = "", chunks[64] = "";
    if (a->engines)
        snprintf(blocks, sizeof blocks, "one block of %u threads at each barrier", a->threads);
    else
        snprintf(blocks, sizeof blocks, "%u block%s of %u threads", a->blocks,
                 a->blocks == 1 ? "" : "s", a->threads);
    if (a->round_bytes < bytes)
        snprintf(rounds, sizeof rounds, ", in rounds of %llu bytes",
                 (unsigned long long)a->round_bytes);
    if (a->chunks)
        snprintf(chunks, sizeof chunks, ", forwarded in %u chunks by each block", a->chunks);
    columns_print(stdout, INDENT, "  %s%s%s%s", blocks,
                  a->handed_on ? "; the other PEs forward the root's slices" : "", rounds, chunks);
}

static void print_rates(const struct tool_coll_answer *a)
{
    bool of_file = strncmp(a->rates, "of ", 3) == 0;
    columns_print(stdout, INDENT, "  rates: %s%s", a->rates,
                  of_file ? "; a job uses them if all PEs have the same, else the built-in ones"
                          : "");
    columns_print(stdout, INDENT, "  estimated rates: %s", a->estimates);
    columns_print(
        stdout, INDENT,
        "  The times are estimates from these rates for a replayed graph. The lower bound for "
        "any algorithm is %.1f us.",
        a->floor_us);
    if (strcmp(a->rates, "built in") == 0)
        columns_print(stdout, INDENT,
                      "  The other built-in rates were measured between H100 over NVLink 4. "
                      "`weft bench coll --tune` measures this machine's.");
}

static void print_answer(const struct tool_coll_answer *a, uint64_t bytes, int members)
{
    columns_print(stdout, INDENT, "%s of %llu bytes%s on the GPUs of %d PEs", a->operation,
                  (unsigned long long)bytes, a->blocks_each ? " from or for each" : "", members);
    if (a->copies)
        columns_print(stdout, INDENT,
                      "  WEFT_COLL=copies: no kernel runs, the host puts block by block; without "
                      "it:");
    if (a->sized)
        columns_print(stdout, INDENT,
                      "  The PEs exchange sizes by LL packets, then each stores its blocks into "
                      "%s",
                      a->sized_scratch ? "a team buffer" : "the destinations");
    else
        print_ways(a);
    print_blocks(a, bytes);
    print_rates(a);
}

static json_t *answer_json(const struct tool_coll_answer *a, uint64_t bytes, int members)
{
    json_t *algorithms = json_array();
    for (int i = 0; i < TOOL_COLL_WAYS && !a->sized; i++) {
        const struct tool_coll_way *way = &a->ways[i];
        json_array_append_new(algorithms, json_pack("{s:s, s:o, s:b}", "algorithm", way->name, "us",
                                                    way->us < 0 ? json_null() : json_real(way->us),
                                                    "taken", way->taken));
    }
    return json_pack("{s:s, s:I, s:i, s:b, s:o, s:s?, s:b, s:b, s:i, s:i, s:I, s:f, s:s}",
                     "operation", a->operation, "bytes", (json_int_t)bytes, "pes", members,
                     "bytes_are_of_each_block", a->blocks_each, "algorithms", algorithms,
                     "weft_coll", a->wish, "weft_coll_taken", a->wish_taken, "host_puts", a->copies,
                     "blocks", (int)a->blocks, "threads", (int)a->threads, "round_bytes",
                     (json_int_t)a->round_bytes, "lower_bound_us", a->floor_us, "rates", a->rates);
}

/* --------------------------------------------------------------------------- several nodes */

static const char *const nodes_ways[] = {
    [TOOL_NODES_TREE] = "along a tree of nodes, whole",
    [TOOL_NODES_CHAIN] = "from node to node, a slice by each GPU's NIC, in chunks",
    [TOOL_NODES_BLOCKS] = "each block once to each other node",
    [TOOL_NODES_DIRECT] = "each block to its member",
    [TOOL_NODES_PACKED] = "the blocks of a node for one member together, from NIC to NIC of a rank",
    [TOOL_NODES_RELAYED] = "through the GPUs of the root's node, by the NIC of each",
    [TOOL_NODES_BUFFERED] = "in host memory, by the CPUs of the nodes",
    [TOOL_NODES_FOLDED] = "from node to node, by kernels, a slice by each GPU's NIC",
};

static void print_nodes(const struct tool_nodes_question *q, const struct tool_nodes_answer *a)
{
    const int pes = q->nodes * q->per_node;
    columns_print(stdout, INDENT, "%s of %llu bytes%s on the GPUs of %d PEs, %d nodes of %d",
                  a->operation, (unsigned long long)q->bytes,
                  a->blocks_each ? " from or for each" : "", pes, q->nodes, q->per_node);
    columns_print(stdout, INDENT, "  %11.1f us  taken: %s", a->us, nodes_ways[a->way]);
    if (a->other_us >= 0)
        columns_print(stdout, INDENT, "  %11.1f us  %s, as vectors of more than %llu bytes go",
                      a->other_us, nodes_ways[TOOL_NODES_FOLDED],
                      (unsigned long long)a->buffer_bytes);
    columns_print(stdout, INDENT,
                  "  %11.1f us  lower bound: one message, and the %llu bytes that the busiest NIC "
                  "must send or receive",
                  a->floor_us, (unsigned long long)a->nic_bytes);
    columns_print(stdout, INDENT, "  between nodes: %llu messages, flags among them, and %.1f MB",
                  (unsigned long long)a->messages, (double)a->bytes_between / 1e6);
    columns_print(stdout, INDENT, "  rates in a node: %s", a->rates);
    columns_print(
        stdout, INDENT,
        "  assumed: %.0f Gbit/s of the NIC of each GPU, %g us between nodes (--gbit, "
        "--latency); %.1f us and %.0f GB/s of a copy between GPU and host memory, %.0f GB/s "
        "in host memory; %.1f us to post a message, %.1f for a flag in a node",
        q->gbit, q->latency_us, a->host_us, a->host_gbps, a->copy_gbps, a->post_us, a->flag_us);
    columns_print(stdout, INDENT,
                  "  The library's own steps ran for simulated PEs in virtual time%s. No cluster "
                  "was compared with it.",
                  a->nodes < q->nodes ? ", of fewer nodes, whose times were continued in a "
                                        "straight line"
                                      : "");
}

static json_t *nodes_json(const struct tool_nodes_question *q, const struct tool_nodes_answer *a)
{
    return json_pack("{s:s, s:I, s:i, s:i, s:b, s:s, s:f, s:o, s:f, s:I, s:I, s:I, s:i, s:f, s:f, "
                     "s:s}",
                     "operation", a->operation, "bytes", (json_int_t)q->bytes, "nodes", q->nodes,
                     "pes_per_node", q->per_node, "bytes_are_of_each_block", a->blocks_each,
                     "algorithm", nodes_ways[a->way], "us", a->us, "us_by_kernels",
                     a->other_us < 0 ? json_null() : json_real(a->other_us), "lower_bound_us",
                     a->floor_us, "nic_bytes", (json_int_t)a->nic_bytes, "messages_between_nodes",
                     (json_int_t)a->messages, "bytes_between_nodes", (json_int_t)a->bytes_between,
                     "simulated_nodes", a->nodes, "nic_gbit_per_s", q->gbit, "latency_us",
                     q->latency_us, "rates", a->rates);
}

static int explain_nodes(struct tool_nodes_question *q, bool json)
{
    struct tool_nodes_answer answer;
    if (tool_nodes_way(q, &answer)) {
        fprintf(stderr, "weft explain coll: %s\n", weft_last_error());
        return EXIT_USAGE;
    }
    if (json)
        json_print(nodes_json(q, &answer));
    else
        print_nodes(q, &answer);
    return EXIT_GOOD;
}

/* ---------------------------------------------------------------------------------- command */

/* "8", or "1250x8" for nodes of so many PEs. */
static bool parse_members(const char *text, long *nodes, long *members)
{
    char *end;
    *nodes = 1;
    *members = strtol(text, &end, 10);
    if (*end == 'x') {
        *nodes = *members;
        *members = strtol(end + 1, &end, 10);
    }
    return *text >= '0' && *text <= '9' && !*end;
}

int explain_coll(const struct coll_words *words)
{
    struct tool_coll_answer answer;
    struct tool_nodes_question q = {.gbit = words->gbit, .latency_us = words->latency_us};
    long nodes = 1, members = 8;
    if (words->n < 2) {
        fprintf(stderr, "weft explain coll: name OPERATION BYTES [PES|NODESxPES], e.g. allreduce "
                        "1M 4, or 1M 16x8\n");
        return EXIT_USAGE;
    }
    if (!config_parse_size(words->words[1], &q.bytes) || !q.bytes || q.bytes > (uint64_t)1 << 45)
        return refuse_value("invalid size", words->words[1],
                            "expected bytes such as 8, 64K or 1.5G");
    if (words->n == 3 && !parse_members(words->words[2], &nodes, &members))
        return refuse_value("invalid number of PEs", words->words[2],
                            "expected 1 to 64, or nodes and PEs of each such as 16x8");
    if (members < 1 || members > TOOL_COLL_MEMBERS)
        return refuse_value("invalid number of PEs", words->words[2],
                            nodes > 1 ? "expected 1 to 64 of each node" : "expected 1 to 64");
    if (!tool_coll_way(words->words[0], q.bytes, (int)members, &answer))
        return refuse_operation(words->words[0]);
    if (nodes != 1) {
        if (nodes < 1 || nodes > TOOL_NODES_PES / members)
            return refuse_value("invalid number of nodes", words->words[2],
                                "expected nodes of 1 to 64 PEs, 16384 in all");
        q.operation = answer.operation;
        q.nodes = (int)nodes;
        q.per_node = (int)members;
        return explain_nodes(&q, words->json);
    }
    if (words->network) {
        fprintf(stderr, "weft explain coll: --gbit and --latency are of the network between nodes; "
                        "name nodes, such as 16x8\n");
        return EXIT_USAGE;
    }
    if (words->json)
        json_print(answer_json(&answer, q.bytes, (int)members));
    else
        print_answer(&answer, q.bytes, (int)members);
    return EXIT_GOOD;
}
