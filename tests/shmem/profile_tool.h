/* SPDX-License-Identifier: Apache-2.0 */
/* The counts of profile_tool.c. */
#ifndef WEFT_TESTS_SHMEM_PROFILE_TOOL_H
#define WEFT_TESTS_SHMEM_PROFILE_TOOL_H

struct tool_counts {
    int inits, my_pe, puts, ctx_puts, gets, atomics, waits, ctx_quiets, barriers, reductions;
};

struct tool_counts tool_seen(void);

#endif
