/* SPDX-License-Identifier: Apache-2.0 */
/* See coll_way.h. */
#include "tool/coll_way.h"

#include "base/config.h"
#include "gpu/coll/kernels.h"
#include "ops/coll/prove.h"
#include "tool/coll_rates.h"

#include <string.h>

/* STRIDED: alltoalls, which the library runs as a strided alltoall. */
enum { STRIDED = COLL_WHATS, OPERATIONS };

const char *tool_coll_operation(int i)
{
    return i < COLL_WHATS ? coll_names[i] : i == STRIDED ? "alltoalls" : NULL;
}

const char *tool_coll_renamed(const char *name, size_t length)
{
    static const char *const renamed[][2] = {{"fcollect", "allgather"}, {"reduce_to", "reduce"}};
    for (int i = 0; i < 2; i++)
        if (strlen(renamed[i][0]) == length && strncmp(renamed[i][0], name, length) == 0)
            return renamed[i][1];
    return NULL;
}

/* Index of an operation; -1 when there is none of that name. */
static int find_operation(const char *name)
{
    for (int i = 0; i < OPERATIONS; i++)
        if (strcmp(tool_coll_operation(i), name) == 0)
            return i;
    return -1;
}

bool tool_coll_way(const char *operation, uint64_t bytes, int members,
                   struct tool_coll_answer *answer)
{
    int operation_index = find_operation(operation);
    struct coll_question q = {.what = operation_index == STRIDED ? COLL_ALLTOALL
                                                                 : (enum coll_what)operation_index,
                              .strided = operation_index == STRIDED,
                              .members = members,
                              .bytes = bytes,
                              .set_bytes = COLL_WIDE_SET,
                              .direct = true,
                              .ll128 = members > 1 && coll_prove_wanted(),
                              .most_blocks = coll_blocks_of(config_int(CONFIG_COLL_SMS)),
                              .forced = (enum coll_algorithm)config_choice(CONFIG_COLL)};
    bool copies = q.forced == COLL_ALGO_COPIES;
    if (operation_index < 0)
        return false;
    struct coll_rates rates;
    char text[sizeof answer->rates];
    tool_coll_rates_here(&rates, text, sizeof text);
    if (copies)
        q.forced = COLL_ALGO_AUTO;
    struct coll_choice choice = coll_choose(&q, &rates);
    *answer = (struct tool_coll_answer){
        .operation = tool_coll_operation(operation_index),
        .blocks_each =
            q.what != COLL_ALLREDUCE && q.what != COLL_BROADCAST && q.what != COLL_REDUCE,
        .sized = q.what == COLL_COLLECT || q.what == COLL_ALLTOALLV,
        .sized_scratch = choice.algorithm == COLL_ALGO_STAGED,
        .wish = q.forced == COLL_ALGO_AUTO ? NULL : coll_algorithm_name(q.forced),
        .wish_taken = q.forced == choice.algorithm,
        .copies = copies,
        .blocks = choice.blocks,
        .threads = choice.threads,
        .chunks = choice.chunks,
        .engines = choice.algorithm == COLL_ALGO_ENGINES,
        .handed_on = choice.phases > 1,
        .round_bytes = choice.bytes};
    for (int i = 0; i < TOOL_COLL_WAYS; i++) {
        enum coll_algorithm way = (enum coll_algorithm)(COLL_ALGO_LL + i);
        answer->ways[i] = (struct tool_coll_way){
            coll_algorithm_name(way), coll_cost(&q, &rates, way), way == choice.algorithm};
    }
    memcpy(answer->rates, text, sizeof text);
    coll_rates_estimates(&rates, ", ", answer->estimates, sizeof answer->estimates);
    answer->floor_us = coll_floor(&q, &rates);
    return true;
}
