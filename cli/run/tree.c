/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of the agents of `weft run --hosts`. The launcher divides the hosts, in their order,
 * into at most `fan_out` parts of nearly equal size. The agent of the first host of a part is a
 * child of the launcher, and divides the rest of its part in the same way. So the hosts and the PEs
 * below an agent have consecutive numbers. Up to `fan_out` hosts the tree is a star. */
#include "run/hosts.h"

/* Sets only how many hosts are below each host; another process starts them. */
static void plan_below(struct run_host *list, int count, int fan_out)
{
    const int children = count < fan_out ? count : fan_out;
    for (int child = 0; child < children; child++) {
        const int begin = (int)((int64_t)count * child / children);
        const int end = (int)((int64_t)count * (child + 1) / children);
        list[begin].below = end - begin - 1;
        plan_below(&list[begin + 1], end - begin - 1, fan_out);
    }
}

int run_tree_plan(struct run_host *list, int count, int fan_out)
{
    const int children = count < fan_out ? count : fan_out;
    for (int child = 0; child < children; child++) {
        const int begin = (int)((int64_t)count * child / children);
        const int end = (int)((int64_t)count * (child + 1) / children);
        list[begin].member = 1 + child;
        list[begin].below = end - begin - 1;
        list[begin].npes = 0;
        for (int i = begin; i < end; i++) {
            list[i].via = begin;
            list[begin].npes += list[i].count;
        }
        plan_below(&list[begin + 1], list[begin].below, fan_out);
    }
    return children;
}

int run_tree_levels(int count, int fan_out)
{
    int levels = 0;
    for (; count > 0; levels++) /* the largest part, without its first host */
        count = count > fan_out ? (count + fan_out - 1) / fan_out - 1 : 0;
    return levels;
}
