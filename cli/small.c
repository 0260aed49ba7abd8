/* SPDX-License-Identifier: Apache-2.0 */
/* The command of the package weft has these in place of what needs the library: each says which
 * package has it. */
#include "explain/coll.h"
#include "explain/experts.h"
#include "explain/pes.h"
#include "probe.h"
#include "tool/coll_rates.h"
#include "tool/file_way.h"
#include "tool/tool.h"

#include <stdio.h>

#include "commands.h"

static weft_status refuse(const char *what)
{
    return base_fail(WEFT_ERR_UNSUPPORTED,
                     "%s needs the package weft-bench, which is not installed", what);
}

static int refuse_whole(char **argv)
{
    refuse("this command");
    fprintf(stderr, "%s: %s\n", argv[0], weft_last_error());
    return EXIT_FAULT;
}

int cmd_attach(int argc, char **argv)
{
    (void)argc;
    return refuse_whole(argv);
}

int cmd_bench(int argc, char **argv)
{
    (void)argc;
    return refuse_whole(argv);
}

int cmd_demo(int argc, char **argv)
{
    (void)argc;
    return refuse_whole(argv);
}

weft_status probe_open(const struct machine *machine, struct probe **probe)
{
    (void)machine;
    *probe = NULL;
    return refuse("measuring");
}

void probe_prepare(void)
{
}

void probe_wait(void)
{
}

void probe_close(struct probe *probe)
{
    (void)probe;
}

void probe_warm(struct probe *probe)
{
    (void)probe;
}

const struct machine_probe *probe_interface(const struct probe *probe)
{
    (void)probe;
    return NULL;
}

int explain_coll(const struct coll_words *options)
{
    (void)options;
    refuse("the algorithm of a collective");
    fprintf(stderr, "weft explain coll: %s\n", weft_last_error());
    return EXIT_FAULT;
}

int explain_experts(int argc, char **argv)
{
    (void)argc;
    return refuse_whole(argv);
}

bool explain_is_job(int pid)
{
    (void)pid;
    refuse("the table of all pairs of PEs");
    fprintf(stderr, "weft explain: %s\n", weft_last_error());
    return false;
}

int explain_job_pes(int pid, json_t *result)
{
    (void)pid, (void)result;
    return EXIT_FAULT;
}

weft_status tool_file_way(const char *path, bool with_gpu, weft_file_info *info)
{
    (void)path, (void)with_gpu, (void)info;
    return refuse("asking how a job reads a file");
}

void tool_coll_rates_here(struct coll_rates *rates, char *text, size_t bytes)
{
    (void)rates;
    refuse("reading the rates");
    snprintf(text, bytes, "unknown: %s", weft_last_error());
}
