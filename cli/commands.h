/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands of `weft`. Each gets its own argv (argv[0] is "weft NAME") and returns the
 * exit status: 0 success, 1 a fault was found, 2 wrong usage. */
#ifndef WEFT_CLI_COMMANDS_H
#define WEFT_CLI_COMMANDS_H

enum { EXIT_GOOD = 0, EXIT_FAULT = 1, EXIT_USAGE = 2 };

int cmd_attach(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_cc(int argc, char **argv);
int cmd_demo(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_env(int argc, char **argv);
int cmd_hca(int argc, char **argv);
int cmd_include(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_nvshmem(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_topo(int argc, char **argv);
int cmd_version(int argc, char **argv);

#endif
