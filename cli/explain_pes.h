/* SPDX-License-Identifier: Apache-2.0 */
/* `weft explain --job PID PE PE`. */
#ifndef WEFT_CLI_EXPLAIN_PES_H
#define WEFT_CLI_EXPLAIN_PES_H

#include <stdbool.h>

/* "pe3" or "3". */
bool explain_pe_number(const char *text, int *pe);

/* Prints how two PEs of the job of process `pid` reach each other, as they know it themselves. The exit
 * status: 1 when a pair is without a path, or one of its paths failed its proof; 2 when there is no such
 * job or PE. */
int explain_pes(int pid, const int pes[2], bool json);

#endif
