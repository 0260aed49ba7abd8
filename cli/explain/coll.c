/* SPDX-License-Identifier: Apache-2.0 */
/* See coll.h. */
#include "explain/coll.h"

#include "columns.h"
#include "commands.h"
#include "machine_options.h"
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

int explain_coll(int n, const char *const *words, bool json)
{
    struct tool_coll_answer answer;
    uint64_t bytes;
    char *end = "";
    if (n < 2 || n > 3) {
        fprintf(stderr, "weft explain coll: name OPERATION BYTES [PES], e.g. weft explain coll "
                        "allreduce 1M 4\n");
        return EXIT_USAGE;
    }
    long members = n == 3 ? strtol(words[2], &end, 10) : 8;
    if (!config_parse_size(words[1], &bytes) || !bytes || bytes > (uint64_t)1 << 45)
        return refuse_value("invalid size", words[1], "expected bytes such as 8, 64K or 1.5G");
    if (*end || members < 1 || members > TOOL_COLL_MEMBERS)
        return refuse_value("invalid number of PEs", words[2], "expected 1 to 64");
    if (!tool_coll_way(words[0], bytes, (int)members, &answer))
        return refuse_operation(words[0]);
    if (json)
        json_print(answer_json(&answer, bytes, (int)members));
    else
        print_answer(&answer, bytes, (int)members);
    return EXIT_GOOD;
}
