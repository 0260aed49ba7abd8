/* SPDX-License-Identifier: Apache-2.0 */
/* Profiler plugins of NCCL: finds one, and reports to it the calls of the program and what each of
 * them enqueues. Nothing is reported that Weft does not know: there are no events of proxies,
 * channels of kernels, copy engines and network plugins. */
#include "nccl/comm.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Types of events, as bits of the plugin's mask. */
enum {
    EVENT_GROUP = 1 << 0,
    EVENT_COLL = 1 << 1,
    EVENT_P2P = 1 << 2,
    EVENT_GROUP_API = 1 << 8,
    EVENT_COLL_API = 1 << 9,
    EVENT_P2P_API = 1 << 10,
    EVENT_LAUNCH = 1 << 11,
    /* Not reported. A plugin that asks for them gets the events that would be their parents: of
     * proxies, channels of kernels, network plugins; of copy engines */
    EVENTS_BELOW = 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7,
    EVENTS_BELOW_COLL = EVENTS_BELOW | 7 << 12,
};

enum { WARP = 32 }; /* threads */

enum { STATE_GROUP_STARTED = 23, STATE_GROUP_ENDS = 24 };

/* As version 7 of the interface has it. The events of each older version are the beginnings of
 * these; the type of version 4 is one byte. */
struct profiler_event {
    uint64_t type;
    void *parent;
    int rank;
    union {
        struct {
            bool captured;
            int depth;
        } group_api;
        struct {
            const char *function;
            size_t count;
            const char *type;
            int root;
            void *stream;
            bool captured;
            uint64_t tag;
        } coll_api;
        struct {
            const char *function;
            size_t count;
            const char *type;
            void *stream;
            bool captured;
            uint64_t tag;
        } p2p_api;
        struct {
            void *stream;
        } launch;
        struct {
            uint64_t number;
            const char *function;
            const void *src;
            void *dst;
            size_t count;
            int root;
            const char *type;
            uint8_t channels, warps;
            const char *algorithm, *protocol;
            void *group;
            const char *variant;
            bool symmetric;
            uint64_t tag;
        } coll;
        struct {
            const char *function;
            void *buffer;
            const char *type;
            size_t count;
            int peer;
            uint8_t channels;
            void *group;
            uint64_t tag;
        } p2p;
    };
};

/* What a plugin exports. Version 4 has other arguments of init. */
struct profiler_table {
    const char *name;
    union {
        ncclResult_t (*init_4)(void **context, int *mask, const char *name, uint64_t hash,
                               int nodes, int ranks, int rank, nccl_plugin_log_function log);
        ncclResult_t (*init)(void **context, uint64_t hash, int *mask, const char *name, int nodes,
                             int ranks, int rank, nccl_plugin_log_function log);
    };
    ncclResult_t (*start)(void *context, void **handle, struct profiler_event *event);
    ncclResult_t (*stop)(void *handle);
    ncclResult_t (*record)(void *handle, int state, void *arguments);
    ncclResult_t (*finalize)(void *context);
};

static struct {
    const struct profiler_table *table; /* NULL: there is no plugin */
    int version;
    _Atomic int mask; /* the plugin may change it at any time */
} plugin;

/* ------------------------------------------------------------------------------ the library */

static bool is_file_name(const char *name)
{
    size_t length = strlen(name);
    return strchr(name, '/') ||
           (!strncmp(name, "lib", 3) && !strcmp(name + length - strlen(".so"), ".so"));
}

/* `name`: NCCL_PROFILER_PLUGIN, "" for the library that is looked for without it. */
static void *open_plugin(const char *name)
{
    char file[256];
    if (!*name)
        return dlopen("libnccl-profiler.so", RTLD_NOW | RTLD_LOCAL);
    if (!strcasecmp(name, "STATIC_PLUGIN"))
        return dlopen(NULL, RTLD_NOW | RTLD_LOCAL);
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library || is_file_name(name))
        return library;
    snprintf(file, sizeof file, "libnccl-profiler-%s.so", name);
    return dlopen(file, RTLD_NOW | RTLD_LOCAL);
}

/* The plugin remains loaded: threads of its own may run. */
static void load_plugin(void)
{
    const char *name = getenv("NCCL_PROFILER_PLUGIN");
    name = name ? name : "";
    if (!strcasecmp(name, "none"))
        return;
    void *library = open_plugin(name);
    if (!library) {
        if (*name)
            nccl_warn("NCCL_PROFILER_PLUGIN=%s: nothing is profiled, because it cannot be loaded: "
                      "%s",
                      name, dlerror());
        return;
    }
    for (int version = 7; version >= 4 && !plugin.table; version--) {
        char symbol[32];
        snprintf(symbol, sizeof symbol, "ncclProfiler_v%d", version);
        plugin.table = dlsym(library, symbol);
        plugin.version = version;
    }
    if (plugin.table) {
        nccl_info(NULL, "INIT", "profiler plugin %s, of version %d of the interface",
                  plugin.table->name, plugin.version);
        return;
    }
    nccl_warn("NCCL_PROFILER_PLUGIN=%s: nothing is profiled, because %s has no ncclProfiler_v4 to "
              "ncclProfiler_v7",
              name, *name ? "the library" : "libnccl-profiler.so");
    dlclose(library);
}

/* ---------------------------------------------------------------------------- communicators */

void profiler_open(ncclComm_t comm)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_plugin);
    const struct profiler_table *table = plugin.table;
    if (!table || comm->profiler)
        return;
    int *mask = (int *)&plugin.mask;
    ncclResult_t result = plugin.version == 4
                              ? table->init_4(&comm->profiler_context, mask, comm->name, comm->hash,
                                              comm->nodes, comm->size, comm->rank, nccl_plugin_log)
                              : table->init(&comm->profiler_context, comm->hash, mask, comm->name,
                                            comm->nodes, comm->size, comm->rank, nccl_plugin_log);
    if (result)
        nccl_warn("the communicator is not profiled, because init of profiler plugin %s gave %d",
                  table->name, (int)result);
    else
        comm->profiler = table;
}

void profiler_close(ncclComm_t comm)
{
    if (comm->profiler)
        comm->profiler->finalize(comm->profiler_context);
    comm->profiler = NULL;
}

/* ----------------------------------------------------------------------------------- events */

static bool is_wanted(int types)
{
    return atomic_load_explicit(&plugin.mask, memory_order_relaxed) & types;
}

/* Gives the handle, which may be NULL. Version 4 has no events of calls and launches. */
static void *start_event(ncclComm_t comm, struct profiler_event *event)
{
    void *handle = NULL;
    event->rank = comm->rank;
    if (plugin.version > 4 || event->type < EVENT_GROUP_API)
        comm->profiler->start(comm->profiler_context, &handle, event);
    return handle;
}

static void stop_event(ncclComm_t comm, void *handle)
{
    if (handle && comm->profiler)
        comm->profiler->stop(handle);
}

static bool is_message_call(const struct nccl_call *call)
{
    return call->what == SEND || call->what == RECV;
}

/* Puts and signals have no events in the interface. */
static bool has_events(const struct nccl_call *call)
{
    return call->what != PUT_SIGNAL && call->what != WAIT_SIGNAL;
}

static const char *function_name(const struct nccl_call *call)
{
    return operation_name(call->what) + strlen("nccl");
}

/* The event of this thread's group, or call outside of a group. It belongs to the communicator of
 * the group's first call. */
static _Thread_local struct {
    ncclComm_t comm; /* NULL: there has been no call */
    void *handle;
} group_event;

static void start_group_api(const struct nccl_call *call, int depth, bool captured)
{
    if (group_event.comm)
        return;
    group_event.comm = call->comm;
    struct profiler_event event = {.type = EVENT_GROUP_API, .group_api = {captured, depth + 1}};
    if (is_wanted(EVENT_GROUP_API | EVENT_COLL_API | EVENT_P2P_API | EVENT_LAUNCH | EVENT_GROUP |
                  EVENT_COLL | EVENT_P2P | EVENTS_BELOW_COLL))
        group_event.handle = start_event(call->comm, &event);
    if (group_event.handle)
        call->comm->profiler->record(group_event.handle, STATE_GROUP_STARTED, NULL);
}

void profiler_call_begins(struct nccl_call *call, int depth)
{
    bool captured = driver_capture(call->stream) != 0;
    const char *function = function_name(call), *type = type_name(call->type);
    if (!has_events(call))
        return;
    start_group_api(call, depth, captured);
    call->events.group_api = group_event.handle;
    struct profiler_event event = {.parent = group_event.handle};
    if (is_message_call(call) && is_wanted(EVENT_P2P_API | EVENT_P2P | EVENTS_BELOW)) {
        event.type = EVENT_P2P_API;
        event.p2p_api.function = function;
        event.p2p_api.count = call->n;
        event.p2p_api.type = type;
        event.p2p_api.stream = call->stream;
        event.p2p_api.captured = captured;
        call->events.api = start_event(call->comm, &event);
    } else if (!is_message_call(call) &&
               is_wanted(EVENT_COLL_API | EVENT_COLL | EVENTS_BELOW_COLL)) {
        event.type = EVENT_COLL_API;
        event.coll_api.function = function;
        event.coll_api.count = call->n;
        event.coll_api.type = type;
        event.coll_api.root = call->root;
        event.coll_api.stream = call->stream;
        event.coll_api.captured = captured;
        event.coll_api.tag = call->events.tag;
        call->events.api = start_event(call->comm, &event);
    }
}

void profiler_call_ends(const struct nccl_call *call)
{
    stop_event(call->comm, call->events.api);
}

void profiler_group_runs(void)
{
    if (group_event.handle && group_event.comm->profiler)
        group_event.comm->profiler->record(group_event.handle, STATE_GROUP_ENDS, NULL);
}

void profiler_group_ends(void)
{
    if (group_event.handle)
        stop_event(group_event.comm, group_event.handle);
    group_event.comm = NULL;
    group_event.handle = NULL;
}

void profiler_batch_begins(struct nccl_call *calls, int n)
{
    struct profiler_event event = {.type = EVENT_GROUP};
    int events = 0;
    for (int i = 0; i < n; i++)
        events += is_message_call(&calls[i]) || (has_events(&calls[i]) && calls[i].n);
    if (!events || !is_wanted(EVENT_GROUP | EVENT_COLL | EVENT_P2P | EVENTS_BELOW))
        return;
    void *handle = start_event(calls[0].comm, &event);
    for (int i = 0; i < n; i++)
        calls[i].events.group = handle;
}

void profiler_batch_ends(const struct nccl_call *calls)
{
    stop_event(calls[0].comm, calls[0].events.group);
}

static void *start_coll(const struct nccl_call *call)
{
    struct profiler_event event = {.type = EVENT_COLL};
    event.parent = plugin.version == 4 ? call->events.group : call->events.api;
    event.coll.number = state_count(call->comm, call->what);
    event.coll.function = function_name(call);
    event.coll.src = call->src;
    event.coll.dst = call->dst;
    event.coll.count = call->n;
    event.coll.root = call->root;
    event.coll.type = type_name(call->type);
    event.coll.algorithm = "unknown";
    event.coll.protocol = "";
    weft_coll_plan plan;
    if (!collective_plan(call, &plan) && plan.agreed) {
        event.coll.algorithm = plan.algorithm;
        event.coll.symmetric = plan.symmetric;
        event.coll.channels = (uint8_t)plan.blocks;
        event.coll.warps = (uint8_t)(plan.threads / WARP);
    }
    event.coll.group = call->events.group;
    event.coll.tag = call->events.tag;
    return start_event(call->comm, &event);
}

static void *start_p2p(const struct nccl_call *call)
{
    struct profiler_event event = {.type = EVENT_P2P};
    event.parent = plugin.version == 4 ? call->events.group : call->events.api;
    event.p2p.function = function_name(call);
    event.p2p.buffer = call->what == SEND ? (void *)(uintptr_t)call->src : call->dst;
    event.p2p.type = type_name(call->type);
    event.p2p.count = call->n;
    event.p2p.peer = call->root;
    event.p2p.group = call->events.group;
    return start_event(call->comm, &event);
}

void profiler_enqueue_begins(struct nccl_call *calls, int n)
{
    struct profiler_event launch = {.type = EVENT_LAUNCH};
    for (int i = 0; i < n; i++)
        if (is_message_call(&calls[i])) {
            if (is_wanted(EVENT_P2P | EVENTS_BELOW))
                calls[i].events.work = start_p2p(&calls[i]);
        } else if (is_wanted(EVENT_COLL | EVENTS_BELOW)) {
            calls[i].events.work = start_coll(&calls[i]);
        }
    launch.parent = calls[0].events.group_api;
    launch.launch.stream = calls[0].stream;
    if (is_wanted(EVENT_LAUNCH))
        calls[0].events.launch = start_event(calls[0].comm, &launch);
}

void profiler_enqueue_ends(const struct nccl_call *calls, int n)
{
    stop_event(calls[0].comm, calls[0].events.launch);
    for (int i = 0; i < n; i++)
        stop_event(calls[i].comm, calls[i].events.work);
}
