/* SPDX-License-Identifier: Apache-2.0 */
/* Executes deferred operations by path p2p. See carrier.h. */
#include "path/local/carrier.h"

#include "base/status.h"
#include "path/local/p2p.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *deferred_obstacle(const struct path_facts *facts)
{
    struct path_facts other = *facts;
    /* p2p refuses the own PE, which belongs to path self, but its operations work there too */
    other.same_pe = false;
    return path_ops_of(PATH_P2P)->obstacle(&other);
}

void deferred_open(struct deferred_path *path, const struct path_world *world)
{
    *path = (struct deferred_path){.world = world};
}

void deferred_close(struct deferred_path *path)
{
    if (path->state)
        path_ops_of(PATH_P2P)->close(path->state);
    path->state = NULL;
}

/* Returns p2p's state. It is opened at first use, because the job may get its GPU side after this
 * path was opened. */
static struct path_state *open_p2p_state(struct deferred_path *path)
{
    if (!path->state && path->world->gpu)
        path_ops_of(PATH_P2P)->open(path->world, &path->state);
    return path->state;
}

weft_status deferred_quiet(struct deferred_path *path)
{
    return path->state ? path_ops_of(PATH_P2P)->quiet(path->state) : WEFT_OK;
}

/* Stores the source in the operation: a pointer if the operation is nonblocking, else a copy,
 * because the caller may reuse the source of a blocking put. */
static weft_status copy_source(struct deferred_op *deferred, const void *src, bool nbi)
{
    deferred->data = (void *)src;
    if (nbi)
        return WEFT_OK;
    deferred->data = malloc(deferred->bytes);
    if (!deferred->data)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a copy of %zu bytes",
                         deferred->bytes);
    deferred->own_copy = true;
    memcpy(deferred->data, src, deferred->bytes);
    return WEFT_OK;
}

/* struct deferred_path is the first member of the state of every path that uses it. */
static struct deferred_path *deferred_path_of(struct path_state *state)
{
    return (struct deferred_path *)(void *)state;
}

static weft_status dispatch_op(struct path_state *state, struct deferred_op deferred, bool later)
{
    const struct deferred_path *path = deferred_path_of(state);
    return later ? path->later(state, deferred) : path->now(state, deferred);
}

static weft_status put_source(struct path_state *state, struct deferred_op deferred,
                              const void *src, bool nbi)
{
    if (!nbi && p2p_gpu_is_device(open_p2p_state(deferred_path_of(state)), src)) {
        deferred.data = (void *)src;
        return dispatch_op(state, deferred, false);
    }
    weft_status status = copy_source(&deferred, src, nbi);
    return status ? status : dispatch_op(state, deferred, true);
}

weft_status deferred_put(struct remote to, const void *src, size_t bytes, bool nbi)
{
    struct deferred_op put = {.operation = DEFERRED_PUT, .at = to, .bytes = bytes};
    return put_source(to.peer->state, put, src, nbi);
}

weft_status deferred_put_signal(struct remote to, const void *src, size_t bytes,
                                struct remote signal, uint64_t value, weft_signal_op op, bool nbi)
{
    struct deferred_op put = {.operation = DEFERRED_PUT_SIGNAL,
                              .at = to,
                              .bytes = bytes,
                              .signal = signal,
                              .value = value,
                              .op = op};
    return put_source(to.peer->state, put, src, nbi);
}

weft_status deferred_get(struct remote from, void *dst, size_t bytes, bool nbi)
{
    struct deferred_op get = {.operation = DEFERRED_GET, .at = from, .bytes = bytes, .data = dst};
    return dispatch_op(from.peer->state, get, nbi);
}

weft_status deferred_atomic(struct remote at, weft_amo amo, size_t width, uint64_t value,
                            uint64_t expected, void *fetched, bool nbi)
{
    struct deferred_op atomic = {.operation = DEFERRED_ATOMIC,
                                 .at = at,
                                 .bytes = width,
                                 .amo = amo,
                                 .value = value,
                                 .expected = expected,
                                 .data = fetched};
    return dispatch_op(at.peer->state, atomic, amo < WEFT_AMO_FETCH || nbi);
}

/* Returns the same remote address with p2p as its path. *peer must live as long as the result. */
static struct remote p2p_remote(const struct path_ops *ops, struct path_state *state,
                                struct remote at, struct peer *peer)
{
    *peer = *at.peer;
    peer->ops = ops;
    peer->state = state;
    at.peer = peer;
    return at;
}

weft_status deferred_op_run(struct deferred_path *path, struct deferred_op *c)
{
    const struct path_ops *ops = path_ops_of(PATH_P2P);
    struct path_state *state = open_p2p_state(path);
    struct peer peer, signal_peer;
    struct remote at = p2p_remote(ops, state, c->at, &peer), signal;
    weft_status status = WEFT_OK;
    switch (c->operation) {
    case DEFERRED_PUT:
        status = ops->put(at, c->data, c->bytes, false);
        break;
    case DEFERRED_GET:
        status = ops->get(at, c->data, c->bytes, false);
        break;
    case DEFERRED_ATOMIC:
        status = ops->atomic(at, c->amo, c->bytes, c->value, c->expected, c->data, false);
        break;
    case DEFERRED_PUT_SIGNAL:
        signal = p2p_remote(ops, state, c->signal, &signal_peer);
        status = ops->put_signal(at, c->data, c->bytes, signal, c->value, c->op, false);
        break;
    }
    if (c->own_copy)
        free(c->data);
    return status;
}

void deferred_op_text(const struct deferred_op *deferred, char *text, size_t bytes)
{
    static const char *const names[] = {[DEFERRED_PUT] = "put",
                                        [DEFERRED_GET] = "get",
                                        [DEFERRED_ATOMIC] = "atomic",
                                        [DEFERRED_PUT_SIGNAL] = "put with signal"};
    snprintf(text, bytes, "%s of %zu bytes at PE %d", names[deferred->operation], deferred->bytes,
             deferred->at.peer->pe);
}
