/* SPDX-License-Identifier: Apache-2.0 */
/* `weft bench coll`, which has its own options. */
#ifndef WEFT_CLI_BENCH_COLL_COMMAND_H
#define WEFT_CLI_BENCH_COLL_COMMAND_H

/* argv[0] is "weft bench coll". Starts a job of itself unless it is already in one. Returns the
 * exit status. */
int bench_coll(int argc, char **argv);

#endif
