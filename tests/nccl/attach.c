/* SPDX-License-Identifier: Apache-2.0 */
/* `weft attach` shows the communicators of a process and of the other ranks, and which rank is
 * behind. Argument: the command. */
#include "nccl_test.h"

#include <time.h>

static const char *command;
static int go[2]; /* a pipe from rank 0 to rank 1 */

static void sum(ncclComm_t comm, float *at)
{
    OK(ncclAllReduce(at, at, 1, ncclFloat, ncclSum, comm, NULL));
}

static const char *attach(void)
{
    static char text[32768];
    char line[512];
    snprintf(line, sizeof line, "%s attach --color=never %d 2>&1", command, (int)getpid());
    FILE *output = popen(line, "r");
    CHECK(output);
    text[fread(text, 1, sizeof text - 1, output)] = 0;
    pclose(output);
    return text;
}

/* Waits until the output has all of three texts. */
static void expect(const char *first, const char *second, const char *third)
{
    const char *text = "";
    for (int i = 0; i < 100; i++) {
        text = attach();
        if (strstr(text, first) && strstr(text, second) && strstr(text, third))
            return;
        nanosleep(&(struct timespec){.tv_nsec = 50 * 1000 * 1000}, NULL);
    }
    fprintf(stderr, "\"%s\", \"%s\" or \"%s\" is missing in\n%s", first, second, third, text);
    _exit(1);
}

static void lags(ncclUniqueId id)
{
    ncclComm_t comm, other;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    float *at = gpu_memory(sizeof *at);
    char byte = 0;
    config.commName = "data parallel";
    alarm(60); /* ends a rank that waits for one that has failed */
    OK(ncclCommInitRankConfig(&comm, ranks, id, me, &config));
    OK(ncclCommSplit(comm, 0, me, &other, NULL));
    sum(comm, at);
    sum(comm, at);
    sum(other, at);
    finish(NULL);
    if (me) {
        CHECK(read(go[0], &byte, 1) == 1);
        sum(comm, at);
    } else {
        sum(comm, at);
        expect(", data parallel of 2 ranks, calls enqueued:\n    rank 0 ",
               "GPU 0  ready: AllReduce 3\n    rank 1 ", "GPU 1  ready: AllReduce 2 (1 behind)\n");
        CHECK(strstr(attach(), "ready: AllReduce 1\n"));
        CHECK(write(go[1], &byte, 1) == 1);
    }
    finish(NULL);
    OK(ncclCommSuspend(comm, NCCL_SUSPEND_MEM));
    OK(ncclCommDestroy(other));
    if (!me) /* no job is left */
        expect("NCCL communicator", "GPU 0  suspended: AllReduce 3\n", "");
    OK(ncclCommDestroy(comm));
    CHECK(!strstr(attach(), "NCCL communicator"));
}

int main(int argc, char **argv)
{
    command = argc > 1 ? argv[1] : "weft";
    if (pipe(go))
        return 2;
    return run_ranks(2, lags, NULL);
}
