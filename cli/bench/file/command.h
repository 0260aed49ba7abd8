/* SPDX-License-Identifier: Apache-2.0 */
/* `weft bench file`, which has its own options. */
#ifndef WEFT_CLI_BENCH_FILE_COMMAND_H
#define WEFT_CLI_BENCH_FILE_COMMAND_H

/* argv[0] is "weft bench file". Returns the exit status. */
int bench_file(int argc, char **argv);

#endif
