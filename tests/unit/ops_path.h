/* SPDX-License-Identifier: Apache-2.0 */
/* A path whose operations only record their arguments, for jobs of ops_job.h. Include cmocka.h
 * first. */
#ifndef WEFT_TESTS_UNIT_OPS_PATH_H
#define WEFT_TESTS_UNIT_OPS_PATH_H

#include "tests/unit/ops_job.h"

static struct {
    const char *call; /* the latest call; "" = none */
    int calls;
    struct remote at, signal;
    const void *local;
    size_t bytes;
    uint64_t value, expected;
    weft_amo amo;
    weft_signal_op op;
    bool nbi;
    struct path_strides strides;
    const char *fails; /* the call that fails; NULL = none */
} given = {.call = ""};

static weft_status given_call(const char *call, struct remote at, const void *local, size_t bytes,
                              bool nbi)
{
    given.call = call;
    given.calls++;
    given.at = at;
    given.local = local;
    given.bytes = bytes;
    given.nbi = nbi;
    return given.fails && !strcmp(given.fails, call) ? base_fail(WEFT_ERR_PATH, "%s fails", call)
                                                     : WEFT_OK;
}

static weft_status given_put(struct remote to, const void *src, size_t bytes, bool nbi)
{
    return given_call("put", to, src, bytes, nbi);
}

static weft_status given_get(struct remote from, void *dst, size_t bytes, bool nbi)
{
    return given_call("get", from, dst, bytes, nbi);
}

static weft_status given_iput(struct remote to, const void *src, const struct path_strides *strides)
{
    given.strides = *strides;
    return given_call("iput", to, src, 0, false);
}

static weft_status given_iget(struct remote from, void *dst, const struct path_strides *strides)
{
    given.strides = *strides;
    return given_call("iget", from, dst, 0, false);
}

static weft_status given_store(struct remote to, const void *value, size_t width)
{
    given.value = 0;
    memcpy(&given.value, value, width);
    return given_call("store", to, NULL, width, false);
}

static weft_status given_load(struct remote from, void *value, size_t width)
{
    memset(value, 0x33, width);
    return given_call("load", from, NULL, width, false);
}

static weft_status given_atomic(struct remote at, weft_amo amo, size_t width, uint64_t value,
                                uint64_t expected, void *fetched, bool nbi)
{
    given.amo = amo;
    given.value = value;
    given.expected = expected;
    return given_call("atomic", at, fetched, width, nbi);
}

static weft_status given_put_signal(struct remote to, const void *src, size_t bytes,
                                    struct remote signal, uint64_t value, weft_signal_op op,
                                    bool nbi)
{
    given.signal = signal;
    given.value = value;
    given.op = op;
    return given_call("put_signal", to, src, bytes, nbi);
}

static weft_status given_quiet(struct path_state *state)
{
    return given_call("quiet", (struct remote){.peer = (struct peer *)state}, NULL, 0, false);
}

static weft_status given_fence(struct path_state *state)
{
    return given_call("fence", (struct remote){.peer = (struct peer *)state}, NULL, 0, false);
}

/* Call after ops_begin(). Host memory of all PEs is loaded and stored; with `far`, every operation
 * goes to the path instead. `gpu` says whether the job has a GPU. */
static inline void ops_path_begin(bool gpu, bool far)
{
    memset(&given, 0, sizeof given);
    given.call = "";
    ops.path.put = given_put;
    ops.path.get = given_get;
    ops.path.iput = given_iput;
    ops.path.iget = given_iget;
    ops.path.store = given_store;
    ops.path.load = given_load;
    ops.path.atomic = given_atomic;
    ops.path.put_signal = given_put_signal;
    ops.path.quiet = given_quiet;
    ops.path.fence = given_fence;
    for (int pe = 0; pe < OPS_PES && !far; pe++)
        ops.peers[WEFT_HOST][pe].base[SEG_HEAP] = ops_heaps[pe];
    ops.ctx.quick_npes = ops.ctx.quick_atomics = gpu ? 0 : OPS_PES;
    ops.ctx.gpu = ops.job.gpu = gpu ? &ops.gpu : NULL;
}

#endif
