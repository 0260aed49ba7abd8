/* SPDX-License-Identifier: Apache-2.0 */
/* Random programs of groups of sends and receives against a model: any pairs, up to 160 messages of
 * sizes from 0 bytes to several slots, several messages of a pair, ranks that make their calls in
 * different orders, two streams in a group, each of which has just written what is sent on it.
 * Arguments: ranks, programs, seed. */
#include "nccl_test.h"

enum { FEW = 24, MOST = 160, BYTES = 3 << 20 };

static int programs, seed;

struct message {
    int from, to, seed;
    size_t bytes, at; /* at: offset in the receiver's and in the sender's memory */
};

static unsigned char byte_of(int seed, size_t i)
{
    return (unsigned char)((i * 2654435761u + (unsigned)seed * 40503u) >> 13);
}

/* The order in which this rank makes calls: those of one pair and direction keep theirs. */
static void shuffle(int *order, int n, const struct message *m, uint64_t *own)
{
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int tries = 0; tries < 4 * n; tries++) {
        int i = (int)draw(own, (uint32_t)n);
        if (i + 1 >= n)
            continue;
        const struct message *a = &m[order[i]], *b = &m[order[i + 1]];
        if (a->from == b->from && a->to == b->to)
            continue;
        int swapped = order[i];
        order[i] = order[i + 1];
        order[i + 1] = swapped;
    }
}

static void make_call(const struct message *m, unsigned char *out, unsigned char *in,
                      ncclComm_t comm, cudaStream_t stream)
{
    /* A message to oneself is two calls, also on one stream. */
    if (m->from == me)
        OK(ncclSend(out + m->at, m->bytes, ncclUint8, m->to, comm, stream));
    if (m->to == me)
        OK(ncclRecv(in + m->at, m->bytes, ncclUint8, m->from, comm, stream));
}

/* The memory of a rank. written: what the streams copy to `out`. */
struct places {
    unsigned char *written, *out, *in, *host;
};

static void run_program(uint64_t *state, uint64_t *own, ncclComm_t comm, struct places p,
                        cudaStream_t *streams)
{
    unsigned char *out = p.out, *in = p.in, *host = p.host;
    cudaStream_t last = NULL;
    struct message m[MOST];
    int n = 1 + (int)draw(state, draw(state, 6) ? FEW : MOST), order[MOST];
    size_t at = 0;
    memset(host, 0, BYTES);
    for (int i = 0; i < n; i++) {
        uint32_t most = draw(state, 8) ? 3000 : (BYTES / FEW) * 2;
        m[i].from = (int)draw(state, (uint32_t)ranks);
        m[i].to = (int)draw(state, (uint32_t)ranks);
        m[i].seed = (int)draw(state, 1000);
        m[i].bytes = draw(state, most);
        m[i].at = at;
        if (at + m[i].bytes > BYTES)
            m[i].bytes = 0;
        at += m[i].bytes;
        for (size_t b = 0; b < m[i].bytes && m[i].from == me; b++)
            host[m[i].at + b] = byte_of(m[i].seed, b);
    }
    to_gpu(p.written, host, BYTES);
    memset(host, 0xee, BYTES);
    to_gpu(in, host, BYTES);
    to_gpu(out, host, BYTES);
    shuffle(order, n, m, own);
    for (int i = 0; i < n; i++)
        if (m[i].from == me && m[i].bytes)
            CHECK(!cuda.copy_on((uintptr_t)out + m[i].at, (uintptr_t)p.written + m[i].at,
                                m[i].bytes, streams[i % 2]));
    OK(ncclGroupStart());
    for (int i = 0; i < n; i++) {
        bool nested = draw(own, 4) == 0;
        if (nested)
            OK(ncclGroupStart());
        make_call(&m[order[i]], out, in, comm, streams[order[i] % 2]);
        if (m[order[i]].from == me || m[order[i]].to == me)
            last = streams[order[i] % 2];
        if (nested)
            OK(ncclGroupEnd());
    }
    OK(ncclGroupEnd());
    /* all streams of a group wait for the whole */
    if (last)
        finish(last);
    from_gpu(host, in, BYTES);
    for (int i = 0; i < n; i++)
        for (size_t b = 0; b < m[i].bytes; b++)
            if (host[m[i].at + b] != (m[i].to == me ? byte_of(m[i].seed, b) : 0xee)) {
                fprintf(stderr, "rank %d: message %d of %d, from %d to %d, %zu bytes: byte %zu\n",
                        me, i, n, m[i].from, m[i].to, m[i].bytes, b);
                _exit(1);
            }
}

static void body(ncclUniqueId id)
{
    ncclComm_t comm;
    cudaStream_t streams[2];
    uint64_t state = 11 + (uint64_t)seed * 1000003, own = (uint64_t)me * 77 + 3 + state;
    struct places p = {.host = malloc(BYTES)};
    OK(ncclCommInitRank(&comm, ranks, id, me));
    for (int i = 0; i < 2; i++)
        CHECK(!cuda.stream_create(&streams[i], 1));
    p.written = gpu_memory(BYTES);
    p.out = gpu_memory(BYTES);
    p.in = gpu_memory(BYTES);
    for (int i = 0; i < programs; i++)
        run_program(&state, &own, comm, p, streams);
    OK(ncclCommDestroy(comm));
    free(p.host);
}

int main(int argc, char **argv)
{
    programs = argc > 2 ? atoi(argv[2]) : 100;
    seed = argc > 3 ? atoi(argv[3]) : 0;
    return run_ranks(argc > 1 ? atoi(argv[1]) : 2, body, NULL);
}
