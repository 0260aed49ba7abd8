/* SPDX-License-Identifier: Apache-2.0 */
/* Profiler plugins. `events VERSION ROUNDS`: random groups, whose events and fields must be those
 * of the calls. Other arguments: how a plugin is found, or not. */
#include "nccl_test.h"

#include <stdarg.h>

enum {
    GROUP = 1,
    COLL = 2,
    P2P = 4,
    GROUP_API = 1 << 8,
    COLL_API = 1 << 9,
    P2P_API = 1 << 10,
    LAUNCH = 1 << 11,
    MOST_CALLS = 8,
    MOST_N = 500
};

static int version, rounds;
static const char *(*plugin_text)(void);
static void (*plugin_set_mask)(int);

static void find_plugin(const char *library)
{
    void *found = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    CHECK(found);
    load_function(found, &plugin_text, "plugin_text");
    load_function(found, &plugin_set_mask, "plugin_set_mask");
}

static int (*begin_capture)(cudaStream_t, int);
static int (*end_capture)(cudaStream_t, void **);
static int (*instantiate)(void **, void *, unsigned long long);
static int (*launch_graph)(void *, cudaStream_t);

/* ---------------------------------------------------------------------- what is expected */

static char expected[1 << 20];
static size_t used;
static int handles, mask;
static bool captures; /* the calls are for a graph */

static void expect(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void expect(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    used += (size_t)vsnprintf(expected + used, sizeof expected - used, format, arguments);
    va_end(arguments);
    CHECK(used < sizeof expected);
}

/* The number of an event that starts, or 0 for one that is not reported. */
static int begins(int wanted, int parent)
{
    if (!(mask & wanted))
        return 0;
    expect("%d starts under %d, rank %d ", ++handles, parent, me);
    return handles;
}

static void ends(int handle)
{
    if (handle)
        expect("%d stops\n", handle);
}

enum what {
    ALL_REDUCE,
    REDUCE,
    REDUCE_SCATTER,
    BROADCAST,
    ALL_GATHER,
    ALL_TO_ALL,
    GATHER,
    SCATTER,
    SEND,
    RECV
};
static const char *const functions[] = {"AllReduce", "Reduce",   "ReduceScatter", "Broadcast",
                                        "AllGather", "AlltoAll", "Gather",        "Scatter",
                                        "Send",      "Recv"};

struct call {
    enum what what;
    char *src, *dst;
    size_t n;
    int root;
    ncclDataType_t type;
    cudaStream_t stream;
    uint64_t tag;
    int api, work; /* handles */
};

static const char *const type_names[] = {
    [ncclInt8] = "ncclInt8",         [ncclUint8] = "ncclUint8",     [ncclInt32] = "ncclInt32",
    [ncclUint32] = "ncclUint32",     [ncclInt64] = "ncclInt64",     [ncclUint64] = "ncclUint64",
    [ncclFloat16] = "ncclFloat16",   [ncclFloat32] = "ncclFloat32", [ncclFloat64] = "ncclFloat64",
    [ncclBfloat16] = "ncclBfloat16",
};

static const int below = 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7, engines = 7 << 12;
static unsigned long numbers[8]; /* calls of each collective before */

static bool is_message(const struct call *c)
{
    return c->what >= SEND;
}

static int group_api(int depth)
{
    int handle = version > 4 ? begins(~(1 << 5), 0) : 0; /* all but those of proxies */
    if (handle)
        expect("GroupApi depth %d, captured %d\n%d in state 23\n", depth, captures, handle);
    return handle;
}

static void expect_tag(const struct call *c)
{
    if (version > 6)
        expect(", tag %llu", (unsigned long long)c->tag);
    expect("\n");
}

static void api(struct call *c, int group)
{
    c->api = 0;
    if (version == 4)
        return;
    if (is_message(c))
        c->api = begins(P2P_API | P2P | below, group);
    else
        c->api = begins(COLL_API | COLL | below | engines, group);
    if (!c->api)
        return;
    if (is_message(c)) {
        expect("P2pApi %s %zu %s, stream %p, captured %d\n", functions[c->what], c->n,
               type_names[c->type], (void *)c->stream, captures);
        return;
    }
    expect("CollApi %s %zu %s root %d, stream %p, captured %d", functions[c->what], c->n,
           type_names[c->type], c->root, (void *)c->stream, captures);
    expect_tag(c);
}

/* The test has WEFT_COLL=packets, and calls have one CTA. How the first collective runs is not
 * known before it does. */
static void work(struct call *c, int batch)
{
    static bool agreed;
    int parent = version == 4 ? batch : c->api;
    unsigned long number = is_message(c) ? 0 : numbers[c->what]++;
    bool known = agreed;
    agreed |= !is_message(c);
    c->work = begins((is_message(c) ? P2P : COLL) | below, parent);
    if (!c->work)
        return;
    if (is_message(c))
        expect("P2p %s %p %zu %s peer %d", functions[c->what], (void *)(c->src ? c->src : c->dst),
               c->n, type_names[c->type], c->root);
    else
        expect("Coll %s number %lu %p %p %zu %s root %d, %s", functions[c->what], number,
               (void *)c->src, (void *)c->dst, c->n, type_names[c->type], c->root,
               known ? "LL on 1, with warps" : "unknown on 0, without warps");
    if (version > 4)
        expect(", group %d", batch);
    expect_tag(c);
}

static void launch(cudaStream_t stream, int group)
{
    int handle = version > 4 ? begins(LAUNCH, group) : 0;
    if (handle)
        expect("KernelLaunch stream %p\n", (void *)stream);
    ends(handle);
}

static void run_calls(struct call *calls, int n, int group)
{
    int last = -1, first = -1, batch = begins(GROUP | COLL | P2P | below, 0);
    if (batch)
        expect("Group\n");
    for (int i = 0; i < n; i++)
        if (!is_message(&calls[i])) {
            work(&calls[i], batch);
            launch(calls[i].stream, group);
            ends(calls[i].work);
        }
    for (int i = 0; i < n; i++)
        if (is_message(&calls[i])) {
            work(&calls[i], batch);
            first = first < 0 ? i : first;
            last = i;
        }
    if (first >= 0)
        launch(calls[first].stream, group);
    for (int i = 0; i <= last; i++)
        if (is_message(&calls[i]))
            ends(calls[i].work);
    ends(batch);
}

/* depth 0: one call outside of a group. */
static void expect_group(struct call *calls, int n, int depth)
{
    int group = group_api(depth + 1);
    for (int i = 0; i < n; i++) {
        api(&calls[i], group);
        if (depth)
            ends(calls[i].api);
    }
    if (group)
        expect("%d in state 24\n", group);
    run_calls(calls, n, group);
    if (!depth)
        ends(calls[0].api);
    ends(group);
}

static void compare(int round)
{
    const char *got = plugin_text();
    size_t same = 0, line = 0;
    for (; got[same] && got[same] == expected[same]; same++)
        line = got[same] == '\n' ? same + 1 : line;
    if (got[same] || expected[same]) {
        fprintf(stderr, "rank %d, round %d, mask %x:\ngot:      %.160s\nexpected: %.160s\n", me,
                round, (unsigned)mask, got + line, expected + line);
        _exit(1);
    }
    used = 0;
    expected[0] = 0;
    handles = 0;
}

/* ------------------------------------------------------------------------------- the calls */

static void make_call(const struct call *c, ncclComm_t comm)
{
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
    config.userProfilerTag = c->tag;
    config.maxCTAs = 1;
    switch (c->what) {
    case ALL_REDUCE:
        OK(ncclAllReduceConfig(c->src, c->dst, c->n, c->type, ncclSum, comm, c->stream, &config));
        break;
    case REDUCE:
        OK(ncclReduceConfig(c->src, c->dst, c->n, c->type, ncclSum, c->root, comm, c->stream,
                            &config));
        break;
    case REDUCE_SCATTER:
        OK(ncclReduceScatterConfig(c->src, c->dst, c->n, c->type, ncclSum, comm, c->stream,
                                   &config));
        break;
    case BROADCAST:
        OK(ncclBroadcastConfig(c->src, c->dst, c->n, c->type, c->root, comm, c->stream, &config));
        break;
    case ALL_GATHER:
        OK(ncclAllGatherConfig(c->src, c->dst, c->n, c->type, comm, c->stream, &config));
        break;
    case ALL_TO_ALL:
        OK(ncclAlltoAllConfig(c->src, c->dst, c->n, c->type, comm, c->stream, &config));
        break;
    case GATHER:
        OK(ncclGatherConfig(c->src, c->dst, c->n, c->type, c->root, comm, c->stream, &config));
        break;
    case SCATTER:
        OK(ncclScatterConfig(c->src, c->dst, c->n, c->type, c->root, comm, c->stream, &config));
        break;
    case SEND:
        OK(ncclSend(c->src, c->n, c->type, c->root, comm, c->stream));
        break;
    default:
        OK(ncclRecv(c->dst, c->n, c->type, c->root, comm, c->stream));
    }
}

/* Every call has memory of its own. All ranks draw alike. */
static int draw_calls(uint64_t *state, struct call *calls, char *memory,
                      const cudaStream_t *streams)
{
    enum { EACH = 2 * 4 * MOST_N * 8 };
    int n = 0, wanted = 1 + (int)draw(state, MOST_CALLS - 1);
    while (n < wanted) {
        bool message = draw(state, 3) == 0;
        struct call c = {.what = (enum what)draw(state, 8),
                         .n = 1 + draw(state, MOST_N),
                         .type = (ncclDataType_t)draw(state, 10),
                         .stream = streams[draw(state, 2)]};
        int root = (int)draw(state, (uint32_t)ranks);
        uint64_t tag = draw(state, 3) ? draw(state, 1000) : 0;
        bool rooted = c.what == REDUCE || c.what == BROADCAST || c.what >= GATHER;
        c.src = memory + (size_t)n * EACH;
        c.dst = c.src + EACH / 2;
        if (!message) {
            c.root = rooted ? root : 0;
            c.tag = tag;
            calls[n++] = c;
            continue;
        }
        /* to the next rank and from the one before */
        c.what = SEND;
        calls[n] = calls[n + 1] = c;
        calls[n].dst = NULL;
        calls[n++].root = (me + 1) % ranks;
        calls[n].what = RECV;
        calls[n].src = NULL;
        calls[n++].root = (me + ranks - 1) % ranks;
        wanted += n > wanted;
    }
    return n;
}

static void run_round(uint64_t *state, ncclComm_t comm, char *memory, const cudaStream_t *streams)
{
    struct call calls[MOST_CALLS + 2];
    void *graph, *runs;
    int n = draw_calls(state, calls, memory, streams), depth = 1 + (int)draw(state, 3);
    captures = draw(state, 8) == 0;
    if (n == 1)
        depth = 0;
    for (int i = 0; i < n && captures; i++)
        calls[i].stream = streams[1];
    CHECK(!captures || !begin_capture(streams[1], 2));
    for (int i = 0; i < depth; i++)
        OK(ncclGroupStart());
    for (int i = 0; i < n; i++)
        make_call(&calls[i], comm);
    for (int i = 0; i < depth; i++)
        OK(ncclGroupEnd());
    if (captures) {
        CHECK(!end_capture(streams[1], &graph) && !instantiate(&runs, graph, 0));
        finish(streams[0]); /* the program orders graphs */
        CHECK(!launch_graph(runs, streams[1]));
        finish(streams[1]);
    }
    expect_group(calls, n, depth);
}

static void events(ncclUniqueId id)
{
    ncclComm_t comm;
    cudaStream_t streams[2] = {NULL, NULL};
    uint64_t state = 7;
    ncclResult_t error;
    char *memory = gpu_memory((size_t)(MOST_CALLS + 2) * 8 * MOST_N * 8);
    char library[64], *name = strdup("of a test");
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    CHECK(!cuda.stream_create(&streams[1], 1));
    config.commName = name;
    OK(ncclCommInitRankConfig(&comm, ranks, id, me, &config));
    memset(name, 'x', strlen(name));
    snprintf(library, sizeof library, "libnccl-profiler-v%d.so", version);
    find_plugin(library);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    load_function(driver, &begin_capture, "cuStreamBeginCapture_v2");
    load_function(driver, &end_capture, "cuStreamEndCapture");
    load_function(driver, &instantiate, "cuGraphInstantiateWithFlags");
    load_function(driver, &launch_graph, "cuGraphLaunch");
    expect("init of a test 1 nodes, rank %d of %d\n", me, ranks);
    compare(0);
    for (int round = 1; round <= rounds; round++) {
        /* Some bits, or all. */
        int some = (int)draw(&state, 1 << 15);
        some &= (int)draw(&state, 1 << 15);
        mask = draw(&state, 4) ? some : ~0;
        plugin_set_mask(mask);
        run_round(&state, comm, memory, streams);
        compare(round);
    }
    finish(streams[0]);
    finish(streams[1]);
    OK(ncclCommGetAsyncError(comm, &error));
    OK(error);
    OK(ncclCommDestroy(comm));
    expect("end of rank %d\n", me);
    compare(rounds + 1);
}

/* ---------------------------------------------------------------------------- other cases */

/* An error, and an empty collective. */
static void failures(ncclUniqueId id)
{
    ncclComm_t comm;
    mask = ~0;
    CHECK(!putenv("PLUGIN_MASK=-1"));
    OK(ncclCommInitRank(&comm, 1, id, 0));
    find_plugin("libnccl-profiler-v6.so");
    plugin_text();
    FAILS(ncclAllReduce(NULL, NULL, 4, (ncclDataType_t)99, ncclSum, comm, NULL),
          ncclInvalidArgument, "99 is no type");
    compare(1);
    OK(ncclGroupStart());
    CHECK(ncclAllReduce(NULL, NULL, 4, ncclFloat, ncclSum, comm, NULL) == ncclSuccess);
    CHECK(ncclGroupEnd() != ncclSuccess);
    struct call call = {.n = 4, .type = ncclFloat};
    expect_group(&call, 1, 1);
    compare(2);
    OK(ncclAllReduce(NULL, NULL, 0, ncclFloat, ncclSum, comm, NULL));
    int group = group_api(1);
    call.n = 0;
    api(&call, group);
    expect("%d in state 24\n", group);
    ends(call.api);
    ends(group);
    compare(3);
    OK(ncclCommDestroy(comm));
}

/* Two ranks of one process in a group: as many ends as beginnings, and the group's event is parent
 * of the calls of both. */
static void threads(ncclUniqueId id)
{
    ncclComm_t comms[2];
    char *memory = gpu_memory(4096);
    cudaStream_t streams[2];
    int starts = 0, stops = 0, children = 0;
    (void)id;
    CHECK(!putenv("PLUGIN_MASK=-1"));
    OK(ncclCommInitAll(comms, 2, (int[]){0, 0}));
    find_plugin("libnccl-profiler-v6.so");
    plugin_text();
    for (int i = 0; i < 2; i++)
        CHECK(!cuda.stream_create(&streams[i], 1));
    OK(ncclGroupStart());
    for (int i = 0; i < 2; i++)
        OK(ncclAllReduce(memory, memory + 2048 + 1024 * (size_t)i, 256, ncclFloat, ncclSum,
                         comms[i], streams[i]));
    OK(ncclGroupEnd());
    for (const char *at = plugin_text(); at && *at; at = strchr(at, '\n') + 1) {
        char line[512];
        snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
        starts += strstr(line, " starts ") != NULL;
        stops += strstr(line, " stops") != NULL;
        children += strstr(line, "under 1,") && strstr(line, "CollApi");
        CHECK(!strstr(line, "context"));
    }
    /* GroupApi; for each CollApi, Group, Coll, KernelLaunch */
    CHECK(starts == 9 && stops == 9 && children == 2);
    finish(streams[0]);
    finish(streams[1]);
    OK(ncclCommDestroy(comms[0]));
    OK(ncclCommDestroy(comms[1]));
    CHECK(strstr(plugin_text(), "end of rank 0\n"));
}

/* ------------------------------------------------------------------------ finding a plugin */

static const char *sentence; /* that the log has; NULL: a plugin is used */

static void finds(ncclUniqueId id)
{
    static char log[8192];
    char path[64];
    ncclComm_t comm;
    char *memory = gpu_memory(64);
    OK(ncclCommInitRank(&comm, 1, id, 0));
    OK(ncclAllReduce(memory, memory, 4, ncclFloat, ncclSum, comm, NULL));
    finish(NULL);
    OK(ncclCommDestroy(comm));
    snprintf(path, sizeof path, "nccl_profiler.%d", (int)getpid());
    FILE *file = fopen(path, "r");
    CHECK(file);
    log[fread(log, 1, sizeof log - 1, file)] = 0;
    fclose(file);
    unlink(path);
    if (!strstr(log, sentence)) {
        fprintf(stderr, "\"%s\" is missing in\n%s", sentence, log);
        _exit(1);
    }
    bool used_one = strstr(sentence, "profiler plugin test") == sentence;
    CHECK(!strstr(log, "the plugin of the test says 42") == !used_one);
    CHECK(!strstr(log, "NCCL_PROFILER_PLUGIN has no effect"));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name, *variable, *sentence;
    } cases[] = {
        {"name", "NCCL_PROFILER_PLUGIN=v5", "profiler plugin test, of version 5"},
        {"path", NULL, "profiler plugin test, of version 4"},
        {"default", NULL, "profiler plugin test, of version 6"},
        {"static", "NCCL_PROFILER_PLUGIN=static_plugin", "profiler plugin test, of version 7"},
        {"none", "NCCL_PROFILER_PLUGIN=None", "Weft"},
        {"absent", "NCCL_PROFILER_PLUGIN=there_is_none",
         "WARN NCCL_PROFILER_PLUGIN=there_is_none: nothing is profiled, because it cannot be "
         "loaded: libnccl-profiler-there_is_none.so: cannot open"},
        {"no_table", "NCCL_PROFILER_PLUGIN=libcuda.so.1",
         "WARN NCCL_PROFILER_PLUGIN=libcuda.so.1: nothing is profiled, because the library has no "
         "ncclProfiler_v4 to ncclProfiler_v7"},
        {"refuses", "NCCL_PROFILER_PLUGIN=v6",
         "WARN the communicator is not profiled, because init of profiler plugin test gave 3"},
    };
    const char *which = argc > 1 ? argv[1] : "";
    if (!strcmp(which, "events") && argc > 3) {
        version = atoi(argv[2]);
        rounds = atoi(argv[3]);
        return run_ranks(2, events, NULL);
    }
    version = 6;
    if (!strcmp(which, "failures") || !strcmp(which, "threads"))
        return run_ranks(1, which[0] == 'f' ? failures : threads, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(cases[i].name, which) != 0)
            continue;
        CHECK(!putenv("NCCL_DEBUG=INFO") && !putenv("NCCL_DEBUG_FILE=nccl_profiler.%p"));
        CHECK(!putenv("PLUGIN_MASK=-1"));
        if (cases[i].variable)
            CHECK(!putenv((char *)(uintptr_t)cases[i].variable));
        if (!strcmp(which, "refuses"))
            CHECK(!putenv("PLUGIN_FAILS=1"));
        sentence = cases[i].sentence;
        return run_ranks(1, finds, NULL);
    }
    fprintf(stderr, "there is no case \"%s\"\n", which);
    return 2;
}
