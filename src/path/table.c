/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of all paths. Entries that a path leaves out are filled in: made of other entries if
 * possible, else they fail and name the missing operation. PATH_NONE's table is here too. */
#include "path/path.h"

#include "base/status.h"

#include <pthread.h>

#define DECLARE(id, table) extern const struct path_ops path_##table;
PATH_LIST(DECLARE)
#undef DECLARE

static const struct path_ops *const written[PATH_COUNT] = {
#define ROW(id, table) [PATH_##id] = &path_##table,
    PATH_LIST(ROW)
#undef ROW
};

static const char *memory_name(const struct peer *peer)
{
    return peer->kind == WEFT_GPU ? "GPU" : "host";
}

/* ----------------------------------------------------------- defaults made of other operations */

static weft_status made_store(struct remote to, const void *value, size_t width)
{
    return to.peer->ops->put(to, value, width, false);
}

static weft_status made_load(struct remote from, void *value, size_t width)
{
    return from.peer->ops->get(from, value, width, false);
}

static weft_status made_put_signal(struct remote to, const void *src, size_t bytes,
                                   struct remote signal, uint64_t value, weft_signal_op op,
                                   bool nbi)
{
    const struct path_ops *ops = to.peer->ops;
    weft_status status = ops->put(to, src, bytes, nbi);
    /* quiet and not fence: the default fence is a quiet anyway, and a path with a cheaper fence has
     * its own put_signal. */
    if (!status)
        status = ops->quiet(to.peer->state);
    if (status)
        return status;
    weft_amo amo = op == WEFT_SIGNAL_SET ? WEFT_AMO_SET : WEFT_AMO_ADD;
    return ops->atomic(signal, amo, sizeof value, value, 0, NULL, nbi);
}

static weft_status made_iput(struct remote to, const void *src, const struct path_strides *strides)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < strides->n && !status; i++, to.offset += strides->remote_step)
        status = to.peer->ops->put(to, (const char *)src + i * strides->local_step,
                                   strides->element, false);
    return status;
}

static weft_status made_iget(struct remote from, void *dst, const struct path_strides *strides)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < strides->n && !status; i++, from.offset += strides->remote_step)
        status = from.peer->ops->get(from, (char *)dst + i * strides->local_step, strides->element,
                                     false);
    return status;
}

static weft_status made_quiet(struct path_state *state)
{
    (void)state;
    return WEFT_OK;
}

/* ----------------------------------------------------------------- operations that a path lacks */

static weft_status fail_missing(const struct peer *peer, const char *operation)
{
    return base_fail(WEFT_ERR_NO_PATH, "path %s, which reaches the %s memory of PE %d, has no %s",
                     peer->ops->name, memory_name(peer), peer->pe, operation);
}

static weft_status missing_address(struct remote at, char **address)
{
    *address = NULL;
    return base_fail(WEFT_ERR_NO_PATH,
                     "the %s memory of PE %d is reached over path %s, not by load and store",
                     memory_name(at.peer), at.peer->pe, at.peer->ops->name);
}

static weft_status missing_put(struct remote to, const void *src, size_t bytes, bool nbi)
{
    (void)src, (void)bytes, (void)nbi;
    return fail_missing(to.peer, "put");
}

static weft_status missing_get(struct remote from, void *dst, size_t bytes, bool nbi)
{
    (void)dst, (void)bytes, (void)nbi;
    return fail_missing(from.peer, "get");
}

static weft_status missing_atomic(struct remote at, weft_amo amo, size_t width, uint64_t value,
                                  uint64_t expected, void *fetched, bool nbi)
{
    (void)amo, (void)width, (void)value, (void)expected, (void)fetched, (void)nbi;
    return fail_missing(at.peer, "atomics");
}

/* ------------------------------------------------------------------------------------ PATH_NONE */

static weft_status fail_no_path(const struct peer *peer)
{
    const struct path_choice *choices = peer->world->choices[peer->kind];
    return base_fail(WEFT_ERR_NO_PATH, "no path from PE %d to the %s memory of PE %d (%s)",
                     peer->world->pe, memory_name(peer), peer->pe,
                     choices ? choices[peer->pe].reason : "that memory is not in use");
}

static weft_status none_address(struct remote at, char **address)
{
    *address = NULL;
    return fail_no_path(at.peer);
}

static weft_status none_put(struct remote to, const void *src, size_t bytes, bool nbi)
{
    (void)src, (void)bytes, (void)nbi;
    return fail_no_path(to.peer);
}

static weft_status none_get(struct remote from, void *dst, size_t bytes, bool nbi)
{
    (void)dst, (void)bytes, (void)nbi;
    return fail_no_path(from.peer);
}

static weft_status none_atomic(struct remote at, weft_amo amo, size_t width, uint64_t value,
                               uint64_t expected, void *fetched, bool nbi)
{
    (void)amo, (void)width, (void)value, (void)expected, (void)fetched, (void)nbi;
    return fail_no_path(at.peer);
}

static const struct path_ops none = {
    .name = "none",
    .address = none_address,
    .put = none_put,
    .get = none_get,
    .atomic = none_atomic,
};

/* ----------------------------------------------------------------------------------- the tables */

static struct path_ops tables[PATH_COUNT + 1];
static pthread_once_t once = PTHREAD_ONCE_INIT;

#define FILL(entry, with)                                                                          \
    if (!ops->entry)                                                                               \
        ops->entry = (with);

static void fill_defaults(struct path_ops *ops)
{
    FILL(address, missing_address)
    FILL(put, missing_put)
    FILL(get, missing_get)
    FILL(atomic, missing_atomic)
    FILL(store, made_store)
    FILL(load, made_load)
    FILL(put_signal, made_put_signal)
    FILL(iput, made_iput)
    FILL(iget, made_iget)
    FILL(quiet, made_quiet)
    FILL(fence, ops->quiet)
}

static void make_tables(void)
{
    for (int i = 0; i <= PATH_COUNT; i++) {
        tables[i] = i < PATH_COUNT ? *written[i] : none;
        fill_defaults(&tables[i]);
    }
}

const struct path_ops *path_ops_of(enum path_id path)
{
    pthread_once(&once, make_tables);
    return &tables[(unsigned)path < PATH_COUNT ? path : PATH_NONE];
}
