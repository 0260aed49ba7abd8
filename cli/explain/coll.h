/* SPDX-License-Identifier: Apache-2.0 */
/* `weft explain coll OPERATION BYTES [PES]`. */
#ifndef WEFT_CLI_EXPLAIN_COLL_H
#define WEFT_CLI_EXPLAIN_COLL_H

#include <stdbool.h>

/* Prints the algorithm of a collective on GPU memory, the estimated time of each algorithm, and
 * why. words: OPERATION BYTES [PES]. Returns the exit status: 2 for an unknown operation, size or
 * number of PEs. Reads WEFT_COLL and WEFT_COLL_SMS. */
int explain_coll(int n, const char *const *words, bool json);

#endif
