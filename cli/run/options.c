/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `weft run`. */
#include "parse.h"
#include "run/hosts.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static error_t parse_count(struct argp_state *state, const char *text, int *count)
{
    char *end;
    long number = strtol(text, &end, 10);
    if (end == text || *end || number < 1 || number > BOOT_MOST_LAUNCHED)
        argp_error(state, "-n %s: the number of PEs is 1 to %d", text, BOOT_MOST_LAUNCHED);
    *count = (int)number;
    return 0;
}

static error_t parse_fan_out(struct argp_state *state, const char *text, int *count)
{
    char *end;
    long number = strtol(text, &end, 10);
    if (end == text || *end || number < 1 || number > BOOT_MOST_LAUNCHED)
        argp_error(state, "--fan-out %s: expected a number of hosts from 1 to %d", text,
                   BOOT_MOST_LAUNCHED);
    *count = (int)number;
    return 0;
}

static error_t parse_time(struct argp_state *state, const char *option, const char *text,
                          uint64_t *ns)
{
    if (!config_parse_duration(text, ns))
        argp_error(state, "%s %s: expected a time such as 30s, 500ms or 5m", option, text);
    return 0;
}

static error_t parse_bind(struct argp_state *state, const char *text, enum run_bind *bind)
{
    static const char *const words[] = {"share", "core", "none"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, words[i]) == 0) {
            *bind = (enum run_bind)i;
            return 0;
        }
    }
    argp_error(state, "--bind=%s: expected share, core or none", text);
    return EINVAL;
}

/* --hosts and --hostfile add to the same list. */
static error_t require_run_hosts(struct argp_state *state, bool good)
{
    if (!good)
        exit(argp_err_exit_status);
    return 0;
}

static error_t add_variable(struct argp_state *state, struct run_options *options, char *text)
{
    const char **env = realloc(options->env, (size_t)(options->env_count + 1) * sizeof *env);
    if (!env)
        return ENOMEM;
    options->env = env;
    env[options->env_count++] = text;
    return 0;
}

enum {
    KEY_PREFIX = 256,
    KEY_OUTPUT,
    KEY_TIMEOUT,
    KEY_GRACE,
    KEY_BIND,
    KEY_HOSTS,
    KEY_HOSTFILE,
    KEY_RSH,
    KEY_WEFT,
    KEY_ENV,
    KEY_FAN_OUT,
    KEY_COUNT_FRAMES,
    KEY_AGENT
};

static error_t check_run_options(struct argp_state *state, const struct run_options *options)
{
    if (options->agent)
        return 0;
    if (!options->command)
        argp_error(state, "no program given");
    return 0;
}

static error_t parse_run(int key, char *argument, struct argp_state *state)
{
    struct run_options *options = state->input;
    switch (key) {
    case 'n':
        return parse_count(state, argument, &options->npes);
    case KEY_PREFIX:
        options->prefix = true;
        return 0;
    case KEY_OUTPUT:
        options->output_dir = argument;
        return 0;
    case KEY_TIMEOUT:
        return parse_time(state, "--timeout", argument, &options->timeout_ns);
    case KEY_GRACE:
        return parse_time(state, "--grace", argument, &options->grace_ns);
    case KEY_BIND:
        return parse_bind(state, argument, &options->bind);
    case KEY_HOSTS:
        return require_run_hosts(state, run_parse_hosts(options, argument));
    case KEY_HOSTFILE:
        return require_run_hosts(state, run_parse_hostfile(options, argument));
    case KEY_RSH:
        options->rsh = argument;
        return 0;
    case KEY_WEFT:
        options->weft = argument;
        return 0;
    case KEY_ENV:
        return add_variable(state, options, argument);
    case KEY_FAN_OUT:
        return parse_fan_out(state, argument, &options->fan_out);
    case KEY_COUNT_FRAMES:
        options->count_frames = argument;
        return 0;
    case KEY_AGENT:
        options->agent = true;
        return 0;
    case ARGP_KEY_ARG:
        options->command = &state->argv[state->next - 1];
        state->next = state->argc; /* the remaining arguments belong to the program */
        return 0;
    case ARGP_KEY_END:
        return check_run_options(state, options);
    }
    return ARGP_ERR_UNKNOWN;
}

static const struct argp_option option_table[] = {
    {"pes", 'n', "N", 0,
     "number of PEs (processes) to start; also -np N. Without it: one for each GPU, else one for "
     "each CPU",
     0},
    {"prefix", KEY_PREFIX, NULL, 0, "put \"[pe] \" in front of every line of output", 0},
    {"output-dir", KEY_OUTPUT, "DIR", 0, "write each PE's output to DIR/pe.N.out and DIR/pe.N.err",
     0},
    {"timeout", KEY_TIMEOUT, "T", 0, "end the job after this time (30s, 5m), exit status 124", 0},
    {"grace", KEY_GRACE, "T", 0, "time between SIGTERM and SIGKILL when a job ends early (2s)", 0},
    {"bind", KEY_BIND, "HOW", 0,
     "CPUs of each PE: an equal share of those allowed (share, the default), one core (core), all "
     "(none). More PEs than CPUs are never bound",
     0},
    {"hosts", KEY_HOSTS, "A[:N],B[:N]...", 0,
     "start N PEs on each of these hosts over ssh; may be repeated", 0},
    {"host", 0, NULL, OPTION_ALIAS, NULL, 0},
    {"hostfile", KEY_HOSTFILE, "FILE", 0, "start PEs on the hosts in FILE, one host per line", 0},
    {"rsh", KEY_RSH, "COMMAND", 0,
     "command to use in place of ssh: it gets the host's name and a command. Also WEFT_RSH", 0},
    {"weft", KEY_WEFT, "PATH", 0, "path of weft on the other hosts (the same as here)", 0},
    {"env", KEY_ENV, "NAME[=VALUE]", 0,
     "also pass this variable to the PEs on other hosts; WEFT_, SHMEM_, NVSHMEM_, OMP_, CUDA_ "
     "and FI_ variables and LD_LIBRARY_PATH are always passed",
     0},
    {"fan-out", KEY_FAN_OUT, "N", 0,
     "hosts that weft run, and each host in turn, starts by itself (32); the others are started by "
     "those, which need to reach them by ssh too",
     0},
    {"count-frames", KEY_COUNT_FRAMES, "FILE", OPTION_HIDDEN, "used by weft bench scale only", 0},
    {"agent", KEY_AGENT, NULL, OPTION_HIDDEN, "one host of such a job; used by the launcher only",
     0},
    {0},
};

static const struct argp argp = {
    .options = option_table,
    .parser = parse_run,
    .args_doc = "PROGRAM [ARGUMENT...]",
    .doc = "Start a job of N PEs on this machine, or on several, and wait for its end.\v"
           "The exit status is that of the first PE that failed, 128 + the signal if it was killed "
           "by one, 124 after --timeout, 126 or 127 when the program cannot be started, 2 on wrong "
           "usage. Standard input goes to PE 0."};

bool run_parse_options(struct run_options *options, int argc, char **argv)
{
    static char n[] = "-n";
    for (int i = 1; i < argc && *argv[i] == '-' && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "-np") == 0) /* as mpirun has it */
            argv[i++] = n;
    return cli_parse(&argp, argc, argv, ARGP_IN_ORDER, options) == 0;
}
