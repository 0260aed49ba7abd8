/* SPDX-License-Identifier: Apache-2.0 */
/* `weft bench coll`, which has options of its own. */
#ifndef WEFT_CLI_BENCH_COLL_COMMAND_H
#define WEFT_CLI_BENCH_COLL_COMMAND_H

/* argv[0] is "weft bench coll". Starts a job of itself where it is not part of one. Returns the
 * exit status. */
int bench_coll(int argc, char **argv);

#endif
