/* SPDX-License-Identifier: Apache-2.0 */
/* `weft`: calls the subcommand. */
#include "commands.h"
#include "own_path.h"

#include <argp.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json_errors.h"
#include "tool/tool.h"

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *text;
} commands[] = {
#ifndef WEFT_REDUCED
    {"attach", cmd_attach, "show what the PEs of a running or hanging job are doing"},
    {"bench", cmd_bench, "measure the operations between PEs, compared with the bare machine"},
    {"cc", cmd_cc, "compile and link a program with kernels, for host, simt and GPUs"},
    {"demo", cmd_demo, "show on this machine what Weft does"},
    {"env", cmd_env, "list the configuration variables with value and origin"},
    {"explain", cmd_explain,
     "explain the path between two devices or PEs, and why no better one is used"},
    {"doctor", cmd_doctor, "check the machine: drivers, limits, links, peer access, RDMA, storage"},
    {"hca", cmd_hca, "show the software adapters of running processes"},
    {"info", cmd_info, "print the version, how Weft was built, and which libraries it finds"},
    {"topo", cmd_topo, "show GPUs, NICs, disks and the speed of every pair; record a machine"},
#endif
    {"include", cmd_include, "print the folder of the headers, for compilers that a program calls"},
    {"nvshmem", cmd_nvshmem,
     "print the folder to use as NVSHMEM_HOME in makefiles written for NVSHMEM"},
    {"run", cmd_run, "start a job of several PEs on this machine, or on several"},
    {"version", cmd_version, "print the version"},
};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void print_usage(FILE *to)
{
    fprintf(to, "usage: weft COMMAND [option ...]\n\n");
    for (int i = 0; i < COMMANDS; i++)
        fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].text);
    fprintf(to, "\n"
                "`weft COMMAND --help` lists the options of a command.\n");
}

/* At exit: output that could not be written, on a full disk for instance, is a failure of the
 * command. */
static void finish_output(int status, void *unused)
{
    (void)unused;
    bool lost = ferror(stdout) != 0;
    if (fclose(stdout) == 0 && !lost) {
        json_errors_end(status);
        return;
    }
    if (lost)
        fprintf(stderr, "%s: standard output could not be written; it is incomplete\n",
                program_invocation_short_name);
    else
        fprintf(stderr, "%s: standard output could not be written: %s\n",
                program_invocation_short_name, strerror(errno));
    json_errors_end(EXIT_FAULT);
    _exit(EXIT_FAULT);
}

static int refuse_command(const char *word)
{
    const char *names[COMMANDS];
    for (int i = 0; i < COMMANDS; i++)
        names[i] = commands[i].name;
    const char *near = base_nearest(word, names, COMMANDS);
    fprintf(stderr, "weft: there is no command \"%.60s\"%s%s (all: weft help)\n", word,
            near ? "; nearest: weft " : "", near ? near : "");
    return EXIT_USAGE;
}

#ifdef WEFT_SMALL
/* Starts the whole command in place of this one; returns where it is not installed. */
static void start_whole(char **argv)
{
    char path[PATH_MAX];
    char *slash = cli_own_path(path) ? strrchr(path, '/') : NULL;
    const char *whole = "/../libexec/weft/weft";
    if (!slash || (size_t)(slash - path) + strlen(whole) >= sizeof path)
        return;
    memcpy(slash, whole, strlen(whole) + 1);
    execv(path, argv);
    if (errno != ENOENT)
        fprintf(stderr, "weft: %s: %s; reinstall the package weft-bench\n", path, strerror(errno));
}
#endif

int main(int argc, char **argv)
{
#ifdef WEFT_SMALL
    start_whole(argv);
#endif
    argp_err_exit_status = EXIT_USAGE;
    on_exit(finish_output, NULL);
    if (argc < 2) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "help") == 0 && argc > 2) { /* help COMMAND is COMMAND --help */
        static char help[] = "--help";
        argv[1] = argv[2];
        argv[2] = help;
        argc = 3;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_usage(stdout);
        return EXIT_GOOD;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
        argv[1] = "version";
    for (int i = 0; i < COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            static char name[64];
            snprintf(name, sizeof name, "weft %s", commands[i].name);
            argv[1] = program_invocation_short_name = name; /* which messages begin with */
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    return refuse_command(argv[1]);
}
