/* SPDX-License-Identifier: Apache-2.0 */
/* Staged collectives (gpu/coll/staged.h), bit for bit against a serial reference: every operation
 * with the source, the destination or both in memory local to this GPU, in place and at addresses
 * between elements, in one step and in many.
 *   coll_scratch          all of that
 *   coll_scratch numbers  the data looks like LL packets of the next rounds, whose senders are late
 *   coll_scratch lines    the same for LL128 lines; the team must have passed the LL128 test */
#include "coll_factor.h"
#include "ops/coll/kernel.h"

enum what {
    BROADCAST,
    ALLGATHER,
    ALLTOALL,
    GATHER,
    SCATTER,
    ALLREDUCE,
    REDUCESCATTER,
    REDUCE,
    WHATS
};
static const char *const names[WHATS] = {"broadcast", "allgather", "alltoall",      "gather",
                                         "scatter",   "allreduce", "reducescatter", "reduce"};

struct call {
    enum what what;
    const struct members *t;
    char *dst;
    const char *src;
    size_t count; /* bytes, or elements */
    int root;
    weft_type type;
    weft_op op; /* also REF_SCALED and REF_WEIGHTED */
    uint64_t salt;
};

static bool reduces(enum what what)
{
    return what >= ALLREDUCE;
}

static weft_status ask(const struct call *c)
{
    weft_team *team = c->t->team;
    struct factor_call factored = {c->what == ALLREDUCE       ? FOR_ALL
                                   : c->what == REDUCESCATTER ? FOR_EACH
                                                              : FOR_ONE,
                                   team,
                                   c->dst,
                                   c->src,
                                   c->count,
                                   c->type,
                                   c->root,
                                   NULL};
    if (reduces(c->what) && c->op >= REF_SCALED)
        return with_factor(factored, c->op, c->salt, false);
    switch (c->what) {
    case BROADCAST:
        return weft_broadcast_on_stream(team, c->dst, c->src, c->count, c->root, stream);
    case ALLGATHER:
        return weft_allgather_on_stream(team, c->dst, c->src, c->count, stream);
    case ALLTOALL:
        return weft_alltoall_on_stream(team, c->dst, c->src, c->count, stream);
    case GATHER:
        return weft_gather_on_stream(team, c->dst, c->src, c->count, c->root, stream);
    case SCATTER:
        return weft_scatter_on_stream(team, c->dst, c->src, c->count, c->root, stream);
    case ALLREDUCE:
        return weft_allreduce_on_stream(team, c->dst, c->src, c->count, c->type, c->op, stream);
    case REDUCESCATTER:
        return weft_reducescatter_on_stream(team, c->dst, c->src, c->count, c->type, c->op, stream);
    default:
        return weft_reduce_on_stream(team, c->dst, c->src, c->count, c->type, c->op, c->root,
                                     stream);
    }
}

static size_t block_bytes(const struct call *c)
{
    return c->count * (reduces(c->what) ? ref_bytes(c->type) : 1);
}

static size_t src_bytes(const struct call *c)
{
    bool all = c->what == ALLTOALL || c->what == REDUCESCATTER || c->what == SCATTER;
    return block_bytes(c) * (size_t)(all ? c->t->n : 1);
}

/* Number of blocks that this member receives. */
static int blocks_here(const struct call *c)
{
    if ((c->what == GATHER || c->what == REDUCE) && c->t->me != c->root)
        return 0;
    return c->what == ALLGATHER || c->what == ALLTOALL || c->what == GATHER ? c->t->n : 1;
}

static void make_source(const struct call *c)
{
    size_t bytes = src_bytes(c), element = ref_bytes(c->type);
    if (!reduces(c->what))
        ref_fill(mine, me, 0, bytes, c->salt);
    else
        for (size_t i = 0; i * element < bytes; i++)
            ref_element(mine + i * element, c->type, me, i, c->salt);
}

static void make_wanted(const struct call *c)
{
    const struct members *t = c->t;
    size_t bytes = block_bytes(c), element = reduces(c->what) ? ref_bytes(c->type) : 1;
    size_t first = c->what == REDUCESCATTER ? (size_t)t->me * c->count : 0;
    bool own = c->what == ALLTOALL || c->what == SCATTER;
    bool rooted = c->what == BROADCAST || c->what == SCATTER;
    if (reduces(c->what)) {
        for (size_t i = 0; i < c->count; i++)
            ref_reduced(wanted + i * element, c->type, c->op, t->pes, t->n, first + i, c->salt);
        return;
    }
    for (int k = 0; k < blocks_here(c); k++)
        ref_fill(wanted + (size_t)k * bytes, t->pes[rooted ? c->root : k],
                 own ? (size_t)t->me * bytes : 0, bytes, c->salt);
}

static void compare(const struct call *c, const char *text)
{
    size_t bytes = block_bytes(c) * (size_t)blocks_here(c), all = bytes + 2 * GUARD;
    CHECK(!driver.MemcpyDtoH(seen, (uintptr_t)(c->dst - GUARD), all));
    for (size_t i = 0; i < all; i++) {
        unsigned char is = i < GUARD || i >= GUARD + bytes ? 0xa5 : wanted[i - GUARD];
        if (seen[i] != is) {
            fprintf(stderr,
                    "PE %d of %d members: %s, %s, %zu of type %d by %d, root %d: byte %zd is %#x "
                    "and not %#x\n",
                    me, c->t->n, names[c->what], text, c->count, (int)c->type, (int)c->op, c->root,
                    (ssize_t)i - GUARD, seen[i], is);
            exit(1);
        }
    }
}

/* Which sides are local to this GPU. */
enum memory { SOURCE_OWN, DESTINATION_OWN, BOTH_OWN, IN_PLACE, MEMORIES };
static const char *const memory_names[MEMORIES] = {"own source", "own destination", "both own",
                                                   "own, in place"};

static bool can_be_in_place(enum what what)
{
    return what == BROADCAST || what == ALLGATHER || what == ALLREDUCE;
}

static void one(struct call c, enum memory memory, size_t off)
{
    c.salt = ++teams[c.t - teams].calls;
    c.dst = (memory == SOURCE_OWN ? heap_dst : own_dst) + 256 + off;
    c.src = (memory == DESTINATION_OWN ? heap_src : own_src) + 256 + off;
    if (memory == IN_PLACE && can_be_in_place(c.what))
        c.src = c.dst + (c.what == ALLGATHER ? (size_t)c.t->me * block_bytes(&c) : 0);
    size_t room = block_bytes(&c) * (size_t)c.t->n + 2 * GUARD;
    memset(seen, 0xa5, room);
    to_gpu(c.dst - GUARD, seen, room);
    make_source(&c);
    make_wanted(&c);
    /* In a broadcast in place only the root has source data. */
    if (c.src != c.dst || c.what != BROADCAST || c.t->me == c.root)
        to_gpu((char *)c.src, mine, src_bytes(&c));
    OK(weft_sync(c.t->team));
    OK(ask(&c));
    synchronize();
    if (c.src >= c.dst && c.src < c.dst + room && blocks_here(&c) == 0)
        return;
    compare(&c, memory_names[memory]);
}

/* With the smaller staging buffer a block of 500,000 bytes takes several steps. */
static void every_operation(const struct members *t)
{
    static const size_t sizes[] = {1, 1000, 40001, 500009};
    static const size_t counts[] = {1, 100, 9001, 130001};
    static const weft_type types[] = {WEFT_FLOAT, WEFT_BFLOAT16, WEFT_DOUBLE, WEFT_INT16,
                                      WEFT_COMPLEX_DOUBLE};
    static const weft_op ops[] = {WEFT_SUM, WEFT_AVG, REF_WEIGHTED, REF_SCALED};
    for (int what = 0; what < WHATS; what++)
        for (int memory = 0; memory < MEMORIES; memory++)
            for (size_t s = 0; s < 4; s++) {
                size_t k = s + (size_t)memory + (size_t)what;
                struct call c = {.what = (enum what)what, .t = t, .root = (int)k % t->n};
                c.type = types[k % 5];
                c.op = ref_defined(c.type, ops[k % 4]) ? ops[k % 4] : WEFT_SUM;
                c.count = reduces(c.what) ? counts[s] : sizes[s];
                if (memory == IN_PLACE && !can_be_in_place(c.what))
                    continue;
                if (s == 3 && t == &teams[0]) /* the other teams cover this size */
                    continue;
                size_t element = reduces(c.what) ? ref_bytes(c.type) : 1;
                one(c, (enum memory)memory, k % 2 ? 0 : k % 3 * element);
                if (s == 2)
                    one(c, (enum memory)memory, 1 + k % 7); /* between elements */
            }
}

/* A large broadcast uses slices that the receivers forward: many steps, some of them empty or
 * short. */
static void slices(const struct members *t)
{
    static const size_t sizes[] = {3000017, 3000016, 700001, 65536};
    OK(coll_kernel_force(t->team, COLL_ALGO_STAGED, 4));
    for (int i = 0; i < 8; i++) {
        struct call c = {.what = BROADCAST, .t = t, .count = sizes[i % 4], .root = i % t->n};
        if (i % 3 == 1 && t->me == (c.root + 1 + i) % t->n)
            usleep(2000);
        one(c, i % 2 ? IN_PLACE : BOTH_OWN, (size_t)(i % 4 * 5));
    }
}

/* Words of 32 bits next to the payload of LL packets, or words of 64 bits that end an LL128 line:
 * the flag of a round. */
static void fill_numbers(uint64_t number, bool lines, size_t bytes)
{
    uint32_t packet = (uint32_t)number | COLL_NUMBER_BIT;
    for (size_t i = 0; i < bytes; i += 8) {
        memcpy(mine + i, lines ? (void *)&number : (void *)&packet, 4);
        memcpy(mine + i + 4, lines ? (char *)&number + 4 : (char *)&packet, 4);
    }
}

/* Every word of the data looks like a packet, or a line, of one of the next two rounds. One member
 * is late and has not sent when the others poll. */
static void numbers(bool lines)
{
    enum { BYTES = 4000000, SMALL = 64, BLOCKS = 64 };
    weft_team *world = weft_team_world(job);
    struct call small = {.what = ALLGATHER, .t = &teams[0], .count = SMALL};
    memset(seen, me + 1, SMALL);
    to_gpu(factor_room, seen, SMALL);
    one(small, SOURCE_OWN, 0); /* sets up the team */
    CHECK(!lines || coll_kernel_ll128(world));
    for (int turn = 0; turn < 8; turn++) {
        uint64_t number;
        OK(weft_barrier(world));
        OK(gpu_coll_read_number(job->gpu, 0, &number));
        fill_numbers(number + 2 + (uint64_t)(turn / 2 % 2), lines, BYTES);
        to_gpu(own_src, mine, BYTES);
        OK(coll_kernel_force(world, COLL_ALGO_STAGED, BLOCKS));
        if (turn % 2) /* only the GPUs know its sizes */
            OK(weft_collect_on_stream(world, own_dst, own_src, BYTES, stream));
        else
            OK(weft_allgather_on_stream(world, own_dst, own_src, BYTES, stream));
        synchronize();
        OK(coll_kernel_force(world, lines ? COLL_ALGO_LL128 : COLL_ALGO_LL, BLOCKS));
        for (int k = 0; k < 2; k++) {
            if (me == turn % n)
                usleep(3000);
            OK(weft_allgather_on_stream(world, heap_dst, factor_room, SMALL, stream));
            synchronize();
            CHECK(!driver.MemcpyDtoH(seen, (uintptr_t)heap_dst, (size_t)n * SMALL));
            for (int i = 0; i < n * SMALL; i++)
                CHECK(seen[i] == (unsigned char)(i / SMALL + 1));
        }
    }
}

int main(int argc, char **argv)
{
    ref_narrow_factors = 1;
    begin();
    if (argc > 1)
        numbers(strcmp(argv[1], "lines") == 0);
    for (int i = 0; i < n_teams && argc == 1; i++)
        every_operation(&teams[i]);
    for (int i = 0; i < n_teams && argc == 1; i++)
        slices(&teams[i]);
    OK(weft_barrier(weft_team_world(job)));
    CHECK(!driver.StreamDestroy(stream));
    OK(weft_finalize(job));
    return 0;
}
