/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that path net takes for each peer before the first message to or from it, and after
 * it. The PEs have no path test (WEFT_PROVE=off), which would be the first message.
 *
 *   net_peers [print]    print: also the memory of this process, with the part of libfabric */
#include "job.h"
#include "resident.h"

#include "path/net/encrypt.h"

#include <stdbool.h>
#include <unistd.h>

enum { MOST_BYTES = 256 };

static struct path_common *net;

weft_status __real_net_open(const struct path_world *world, struct net_selection *selection,
                            struct path_common **result);
weft_status __wrap_net_open(const struct path_world *world, struct net_selection *selection,
                            struct path_common **result);
weft_status __wrap_net_open(const struct path_world *world, struct net_selection *selection,
                            struct path_common **result)
{
    weft_status status = __real_net_open(world, selection, result);
    net = *result;
    return status;
}

static size_t count_resident_peers(void)
{
    return count_resident(net->peers, (size_t)net->world->npes * sizeof *net->peers);
}

/* Bytes of this process that it shares with no other. */
static size_t private_bytes(void)
{
    char line[128];
    size_t kib, sum = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    CHECK(file);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "Private_Clean: %zu", &kib) == 1 ||
            sscanf(line, "Private_Dirty: %zu", &kib) == 1)
            sum += kib * 1024;
    fclose(file);
    return sum;
}

/* What is allocated of each peer from the start: its addresses, the keys of encryption, and its
 * part of the contexts that are open. */
static size_t bytes_of_a_peer(int contexts)
{
    return path_ops_of(PATH_NET)->peer_bytes(net->rail_count, contexts);
}

static size_t count_begun(void)
{
    pthread_mutex_lock(&net->lock);
    size_t begun = net->begun_count;
    pthread_mutex_unlock(&net->lock);
    return begun;
}

int main(int argc, char **argv)
{
    bool print = argc > 1 && strcmp(argv[1], "print") == 0;
    size_t before = private_bytes();
    weft_job *job;
    OK(weft_init(&job, NULL));
    int me = weft_my_pe(job), n = weft_n_pes(job);
    weft_ctx *ctx = weft_default_ctx(job);
    size_t idle = private_bytes(), array = count_resident_peers(), begun = count_begun();
    uint64_t *words = alloc(job, (size_t)n * sizeof *words);
    if (print && me == 0)
        printf(
            "%d PEs: %zu KiB before weft_init, %zu KiB after it, %zu peers begun, array %zu KiB\n",
            n, before >> 10, idle >> 10, begun, array >> 10);
    CHECK(begun || array == 0); /* Nothing has touched the memory of the peers. */
    CHECK(bytes_of_a_peer(2) <= MOST_BYTES);
    /* the next PE alone, which the one before does too */
    OK(weft_p64(ctx, &words[me], 7, (me + 1) % n));
    OK(weft_quiet(ctx));
    OK(weft_signal_wait(ctx, &words[(me + n - 1) % n], WEFT_NE, 0, NULL));
    printf("PE %d: %zu bytes for each peer from the start; %zu peers begun after weft_init, %zu "
           "after one put\n",
           me, bytes_of_a_peer(2), begun, count_begun());
    for (int pe = 0; pe < n; pe++)
        OK(weft_p64(ctx, &words[me], 9, pe));
    OK(weft_quiet(ctx));
    OK(weft_barrier(weft_team_world(job)));
    for (int pe = 0; pe < n; pe++)
        CHECK(words[pe] == 9);
    if (print && me == 0)
        printf("%d PEs: %zu KiB after messages to all, array %zu KiB\n", n, private_bytes() >> 10,
               count_resident_peers() >> 10);
    CHECK(count_begun() >= (size_t)n - 1 && count_begun() <= (size_t)n);
    OK(weft_finalize(job));
    return 0;
}
