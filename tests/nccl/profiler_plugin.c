/* SPDX-License-Identifier: Apache-2.0 */
/* A profiler plugin of NCCL for tests, of version VERSION (4 to 7) of the interface, whose layouts
 * it declares itself. It writes each call that it gets into a text, as tests/nccl/profiler.c
 * expects it. Handles count from 1. */
#include <nccl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct descriptor {
#if VERSION == 4
    uint8_t type;
#else
    uint64_t type;
#endif
    void *parent;
    int rank;
    union {
#if VERSION > 4
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
#if VERSION > 6
            uint64_t tag;
#endif
        } coll_api;
        struct {
            const char *function;
            size_t count;
            const char *type;
            void *stream;
            bool captured;
#if VERSION > 6
            uint64_t tag;
#endif
        } p2p_api;
        struct {
            void *stream;
        } launch;
#endif
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
#if VERSION > 4
            void *group;
#endif
#if VERSION > 6
            const char *variant;
            bool symmetric;
            uint64_t tag;
#endif
        } coll;
        struct {
            const char *function;
            void *buffer;
            const char *type;
            size_t count;
            int peer;
            uint8_t channels;
#if VERSION > 4
            void *group;
#endif
#if VERSION > 6
            uint64_t tag;
#endif
        } p2p;
    };
};

typedef void (*log_function)(int level, unsigned long flags, const char *file, int line,
                             const char *format, ...);

static char text[1 << 20];
static size_t used;
static uintptr_t handles;
static int *mask;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Gives the text since the last call. */
const char *plugin_text(void);
const char *plugin_text(void)
{
    static char taken[sizeof text];
    pthread_mutex_lock(&lock);
    snprintf(taken, sizeof taken, "%.*s", (int)used, text);
    used = 0;
    handles = 0;
    pthread_mutex_unlock(&lock);
    return taken;
}

void plugin_set_mask(int wanted);
void plugin_set_mask(int wanted)
{
    *mask = wanted;
}

static void write_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void write_line(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    used += (size_t)vsnprintf(text + used, sizeof text - used, format, arguments);
    va_end(arguments);
    if (used >= sizeof text)
        abort();
}

/* The context is the rank + 1. */
static ncclResult_t begin(void **context, int *mask_at, const char *name, uint64_t hash, int nodes,
                          int ranks, int rank, log_function log)
{
    const char *wanted = getenv("PLUGIN_MASK");
    if (getenv("PLUGIN_FAILS"))
        return ncclInternalError;
    mask = mask_at;
    *mask = wanted ? atoi(wanted) : 0;
    *context = (void *)(uintptr_t)(rank + 1);
    log(3, 0x4000, __FILE__, __LINE__, "the plugin of the %s says %d", "test", 42);
    write_line("init %s %d nodes, rank %d of %d%s\n", name ? name : "(none)", nodes, rank, ranks,
               hash ? "" : ", no hash");
    return ncclSuccess;
}

#if VERSION == 4
#define init begin
#else
static ncclResult_t init(void **context, uint64_t hash, int *mask_at, const char *name, int nodes,
                         int ranks, int rank, log_function log)
{
    return begin(context, mask_at, name, hash, nodes, ranks, rank, log);
}
#endif

static unsigned long number_of(const void *handle)
{
    return (unsigned long)(uintptr_t)handle;
}

static void write_work(const struct descriptor *d)
{
    if (d->type == 2)
        write_line(" Coll %s number %llu %p %p %zu %s root %d, %s%s on %d, %s", d->coll.function,
                   (unsigned long long)d->coll.number, d->coll.src, d->coll.dst, d->coll.count,
                   d->coll.type, d->coll.root, d->coll.algorithm, d->coll.protocol,
                   d->coll.channels, d->coll.warps ? "with warps" : "without warps");
    else
        write_line(" P2p %s %p %zu %s peer %d", d->p2p.function, d->p2p.buffer, d->p2p.count,
                   d->p2p.type, d->p2p.peer);
#if VERSION > 4
    write_line(", group %lu", number_of(d->type == 2 ? d->coll.group : d->p2p.group));
#endif
#if VERSION > 6
    write_line(", tag %llu", (unsigned long long)(d->type == 2 ? d->coll.tag : d->p2p.tag));
#endif
}

#if VERSION > 4
static void write_call(const struct descriptor *d)
{
    if (d->type == 1 << 8)
        write_line(" GroupApi depth %d, captured %d", d->group_api.depth, d->group_api.captured);
    else if (d->type == 1 << 9)
        write_line(" CollApi %s %zu %s root %d, stream %p, captured %d", d->coll_api.function,
                   d->coll_api.count, d->coll_api.type, d->coll_api.root, d->coll_api.stream,
                   d->coll_api.captured);
    else if (d->type == 1 << 10)
        write_line(" P2pApi %s %zu %s, stream %p, captured %d", d->p2p_api.function,
                   d->p2p_api.count, d->p2p_api.type, d->p2p_api.stream, d->p2p_api.captured);
    else
        write_line(" KernelLaunch stream %p", d->launch.stream);
#if VERSION > 6
    if (d->type == 1 << 9)
        write_line(", tag %llu", (unsigned long long)d->coll_api.tag);
#endif
}
#endif

static ncclResult_t start(void *context, void **handle, const struct descriptor *given)
{
    struct descriptor d = *given; /* all of it can be read */
    pthread_mutex_lock(&lock);
    *handle = (void *)++handles;
    write_line("%lu starts under %lu, rank %d", number_of(*handle), number_of(d.parent), d.rank);
    if ((uintptr_t)context != (uintptr_t)d.rank + 1)
        write_line(" in context %p", context);
    if (d.type == 1)
        write_line(" Group");
    else if (d.type == 2 || d.type == 4)
        write_work(&d);
#if VERSION > 4
    else if (d.type >= 1 << 8 && d.type <= 1 << 11)
        write_call(&d);
#endif
    else
        write_line(" of type %llx", (unsigned long long)d.type);
    write_line("\n");
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

static ncclResult_t stop(void *handle)
{
    pthread_mutex_lock(&lock);
    write_line("%lu stops\n", number_of(handle));
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

static ncclResult_t record(void *handle, int state, void *arguments)
{
    pthread_mutex_lock(&lock);
    write_line("%lu in state %d%s\n", number_of(handle), state, arguments ? " with arguments" : "");
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

static ncclResult_t finalize(void *context)
{
    write_line("end of rank %lu\n", number_of(context) - 1);
    return ncclSuccess;
}

struct table {
    const char *name;
#if VERSION == 4
    ncclResult_t (*init)(void **, int *, const char *, uint64_t, int, int, int, log_function);
#else
    ncclResult_t (*init)(void **, uint64_t, int *, const char *, int, int, int, log_function);
#endif
    ncclResult_t (*start)(void *, void **, const struct descriptor *);
    ncclResult_t (*stop)(void *);
    ncclResult_t (*record)(void *, int, void *);
    ncclResult_t (*finalize)(void *);
};

#define NAME_OF(version) ncclProfiler_v##version
#define TABLE(version)   NAME_OF(version)
extern const struct table TABLE(VERSION);
const struct table TABLE(VERSION) = {"test", init, start, stop, record, finalize};
