/* SPDX-License-Identifier: Apache-2.0 */
/* Carrying kept operations out by path p2p. See carrier.h. */
#include "path/local/carrier.h"

#include "base/status.h"
#include "path/local/p2p.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *carrier_obstacle(const struct path_facts *facts)
{
    struct path_facts other = *facts;
    other.same_pe = false; /* p2p leaves the own PE to path self, but its operations reach it too */
    return path_ops_of(PATH_P2P)->obstacle(&other);
}

void carrier_open(struct carrier *carrier, const struct path_world *world)
{
    *carrier = (struct carrier){.world = world};
}

void carrier_close(struct carrier *carrier)
{
    if (carrier->state)
        path_ops_of(PATH_P2P)->close(carrier->state);
    carrier->state = NULL;
}

/* The job may get its GPU side after this path was opened, so p2p's state is opened when it is
 * first needed. */
static struct path_state *state_of(struct carrier *carrier)
{
    if (!carrier->state && carrier->world->gpu)
        path_ops_of(PATH_P2P)->open(carrier->world, &carrier->state);
    return carrier->state;
}

weft_status carrier_quiet(struct carrier *carrier)
{
    return carrier->state ? path_ops_of(PATH_P2P)->quiet(carrier->state) : WEFT_OK;
}

/* Takes a copy of the source where the operation must not look at it later. */
static weft_status keep_source(struct carried *carried, const void *src, bool nbi)
{
    carried->data = (void *)src;
    if (nbi)
        return WEFT_OK;
    carried->data = malloc(carried->bytes);
    if (!carried->data)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory to hold %zu bytes back",
                         carried->bytes);
    carried->own_copy = true;
    memcpy(carried->data, src, carried->bytes);
    return WEFT_OK;
}

/* The carrier is the first member of the state of every path that has one. */
static struct carrier *carrier_of(struct path_state *state)
{
    return (struct carrier *)(void *)state;
}

static weft_status pass_on(struct path_state *state, struct carried carried, bool later)
{
    const struct carrier *carrier = carrier_of(state);
    return later ? carrier->later(state, carried) : carrier->now(state, carried);
}

static weft_status put_source(struct path_state *state, struct carried carried, const void *src,
                              bool nbi)
{
    if (!nbi && p2p_gpu_is_device(state_of(carrier_of(state)), src)) {
        carried.data = (void *)src;
        return pass_on(state, carried, false);
    }
    weft_status status = keep_source(&carried, src, nbi);
    return status ? status : pass_on(state, carried, true);
}

weft_status carrier_put(struct remote to, const void *src, size_t bytes, bool nbi)
{
    struct carried put = {.operation = CARRY_PUT, .at = to, .bytes = bytes};
    return put_source(to.peer->state, put, src, nbi);
}

weft_status carrier_put_signal(struct remote to, const void *src, size_t bytes,
                               struct remote signal, uint64_t value, weft_signal_op op, bool nbi)
{
    struct carried put = {.operation = CARRY_PUT_SIGNAL,
                          .at = to,
                          .bytes = bytes,
                          .signal = signal,
                          .value = value,
                          .op = op};
    return put_source(to.peer->state, put, src, nbi);
}

weft_status carrier_get(struct remote from, void *dst, size_t bytes, bool nbi)
{
    struct carried get = {.operation = CARRY_GET, .at = from, .bytes = bytes, .data = dst};
    return pass_on(from.peer->state, get, nbi);
}

weft_status carrier_atomic(struct remote at, weft_amo amo, size_t width, uint64_t value,
                           uint64_t expected, void *fetched, bool nbi)
{
    struct carried atomic = {.operation = CARRY_ATOMIC,
                             .at = at,
                             .bytes = width,
                             .amo = amo,
                             .value = value,
                             .expected = expected,
                             .data = fetched};
    return pass_on(at.peer->state, atomic, amo < WEFT_AMO_FETCH || nbi);
}

/* The same place, its peer as p2p wants it. */
static struct remote through(const struct path_ops *ops, struct path_state *state, struct remote at,
                             struct peer *peer)
{
    *peer = *at.peer;
    peer->ops = ops;
    peer->state = state;
    at.peer = peer;
    return at;
}

weft_status carried_do(struct carrier *carrier, struct carried *c)
{
    const struct path_ops *ops = path_ops_of(PATH_P2P);
    struct path_state *state = state_of(carrier);
    struct peer peer, signal_peer;
    struct remote at = through(ops, state, c->at, &peer), signal;
    weft_status status = WEFT_OK;
    switch (c->operation) {
    case CARRY_PUT:
        status = ops->put(at, c->data, c->bytes, false);
        break;
    case CARRY_GET:
        status = ops->get(at, c->data, c->bytes, false);
        break;
    case CARRY_ATOMIC:
        status = ops->atomic(at, c->amo, c->bytes, c->value, c->expected, c->data, false);
        break;
    case CARRY_PUT_SIGNAL:
        signal = through(ops, state, c->signal, &signal_peer);
        status = ops->put_signal(at, c->data, c->bytes, signal, c->value, c->op, false);
        break;
    }
    if (c->own_copy)
        free(c->data);
    return status;
}

void carried_text(const struct carried *carried, char *text, size_t bytes)
{
    static const char *const names[] = {[CARRY_PUT] = "put",
                                        [CARRY_GET] = "get",
                                        [CARRY_ATOMIC] = "atomic",
                                        [CARRY_PUT_SIGNAL] = "put with signal"};
    snprintf(text, bytes, "%s of %zu bytes at PE %d", names[carried->operation], carried->bytes,
             carried->at.peer->pe);
}
