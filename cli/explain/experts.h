/* SPDX-License-Identifier: Apache-2.0 */
/* `weft explain experts [OPTION...]`. */
#ifndef WEFT_CLI_EXPLAIN_EXPERTS_H
#define WEFT_CLI_EXPLAIN_EXPERTS_H

/* Prints the estimated time of dispatch and combine (<weft_experts.h>) on GPUs, term by term.
 * argv[0]: the name of the command, for messages. Returns the exit status: 2 for values that an
 * object cannot have. Reads WEFT_TEST_EXPERTS and WEFT_COLL_RATES. */
int explain_experts(int argc, char **argv);

#endif
