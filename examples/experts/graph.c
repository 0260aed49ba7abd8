/* SPDX-License-Identifier: Apache-2.0 */
/* See graph.h. Names and values are those of the CUDA driver API. */
#include "graph.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { CAPTURE_MODE_THREAD_LOCAL = 1 };

struct graph {
    void *driver, *made;
    int (*begin)(weft_stream stream, int mode);
    int (*end)(weft_stream stream, void **captured);
    int (*instantiate)(void **made, void *captured, unsigned long long flags);
    int (*launch)(void *made, weft_stream stream);
    int (*destroy)(void *captured);
    int (*destroy_made)(void *made);
};

static bool find_symbol(struct graph *g, const char *name, void *function)
{
    void *address = dlsym(g->driver, name);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

struct graph *graph_open(void)
{
    struct graph *g = weft_target_get() == WEFT_CUDA ? calloc(1, sizeof *g) : NULL;
    if (!g)
        return NULL;
    g->driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (g->driver && find_symbol(g, "cuStreamBeginCapture_v2", &g->begin) &&
        find_symbol(g, "cuStreamEndCapture", &g->end) &&
        find_symbol(g, "cuGraphInstantiateWithFlags", &g->instantiate) &&
        find_symbol(g, "cuGraphLaunch", &g->launch) &&
        find_symbol(g, "cuGraphDestroy", &g->destroy) &&
        find_symbol(g, "cuGraphExecDestroy", &g->destroy_made))
        return g;
    graph_close(g);
    return NULL;
}

void graph_close(struct graph *g)
{
    if (g->made)
        g->destroy_made(g->made);
    if (g->driver)
        dlclose(g->driver);
    free(g);
}

bool graph_capture(struct graph *g, weft_stream stream)
{
    return g->begin(stream, CAPTURE_MODE_THREAD_LOCAL) == 0;
}

bool graph_captured(struct graph *g, weft_stream stream)
{
    void *captured = NULL;
    if (g->end(stream, &captured) || !captured)
        return false;
    bool made = g->instantiate(&g->made, captured, 0) == 0;
    g->destroy(captured);
    return made;
}

bool graph_replay(struct graph *g, weft_stream stream)
{
    return g->launch(g->made, stream) == 0;
}
