/* SPDX-License-Identifier: Apache-2.0 */
/* Paths `self` and `p2p`: the peer's memory is mapped into this process. With host memory on both
 * sides each operation is a few loads and stores that are complete on return. src/ops inlines the
 * common operations; these functions serve the rest. Operations on GPU memory go to p2p_gpu.c. */
#include "path/local/p2p.h"
#include "path/local/by_gpu.h"
#include "path/local/mapped.h"

#include <stdatomic.h>
#include <string.h>

static char *address(struct remote remote)
{
    return remote.peer->world->map[remote.peer->pe][remote.segment] + remote.offset;
}

static bool on_gpu(struct remote at, const void *local)
{
    return at.segment == SEG_GPU || p2p_gpu_is_device(at.peer->state, local);
}

/* A value of 1, 2, 4 or 8 bytes is written by one store: weft_p and flags rely on that. */
static weft_status p2p_put(struct remote to, const void *src, size_t bytes, bool nbi)
{
    if (on_gpu(to, src))
        return p2p_gpu_put(to, src, bytes, nbi);
    char *at = address(to);
    if (bytes > 8 || bytes & (bytes - 1) || (uintptr_t)at & (bytes - 1)) {
        memcpy(at, src, bytes);
        return WEFT_OK;
    }
    uint64_t value = 0;
    memcpy(&value, src, bytes);
    switch (bytes) {
    case 1:
        __atomic_store_n((uint8_t *)at, (uint8_t)value, __ATOMIC_RELEASE);
        break;
    case 2:
        __atomic_store_n((uint16_t *)at, (uint16_t)value, __ATOMIC_RELEASE);
        break;
    case 4:
        __atomic_store_n((uint32_t *)at, (uint32_t)value, __ATOMIC_RELEASE);
        break;
    case 8:
        __atomic_store_n((uint64_t *)at, value, __ATOMIC_RELEASE);
        break;
    }
    return WEFT_OK;
}

static weft_status p2p_get(struct remote from, void *dst, size_t bytes, bool nbi)
{
    if (on_gpu(from, dst))
        return p2p_gpu_get(from, dst, bytes, nbi);
    const char *at = address(from);
    if (bytes > 8 || bytes & (bytes - 1) || (uintptr_t)at & (bytes - 1)) {
        memcpy(dst, at, bytes);
        atomic_thread_fence(memory_order_acquire); /* later loads of the caller are not older */
        return WEFT_OK;
    }
    /* A value of 1, 2, 4 or 8 bytes is read by one load, as p2p_put() writes it. */
    uint64_t value = 0;
    switch (bytes) {
    case 1:
        value = __atomic_load_n((const uint8_t *)at, __ATOMIC_ACQUIRE);
        break;
    case 2:
        value = __atomic_load_n((const uint16_t *)at, __ATOMIC_ACQUIRE);
        break;
    case 4:
        value = __atomic_load_n((const uint32_t *)at, __ATOMIC_ACQUIRE);
        break;
    case 8:
        value = __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE);
        break;
    }
    memcpy(dst, &value, bytes);
    return WEFT_OK;
}

/* Executes an atomic of one width and returns the old value. */
#define APPLY(type)                                                                                \
    static type apply_##type(type *at, weft_amo amo, type value, type expected)                    \
    {                                                                                              \
        switch (amo) {                                                                             \
        case WEFT_AMO_SET:                                                                         \
        case WEFT_AMO_SWAP:                                                                        \
            return __atomic_exchange_n(at, value, __ATOMIC_ACQ_REL);                               \
        case WEFT_AMO_ADD:                                                                         \
        case WEFT_AMO_FETCH_ADD:                                                                   \
            return __atomic_fetch_add(at, value, __ATOMIC_ACQ_REL);                                \
        case WEFT_AMO_AND:                                                                         \
        case WEFT_AMO_FETCH_AND:                                                                   \
            return __atomic_fetch_and(at, value, __ATOMIC_ACQ_REL);                                \
        case WEFT_AMO_OR:                                                                          \
        case WEFT_AMO_FETCH_OR:                                                                    \
            return __atomic_fetch_or(at, value, __ATOMIC_ACQ_REL);                                 \
        case WEFT_AMO_XOR:                                                                         \
        case WEFT_AMO_FETCH_XOR:                                                                   \
            return __atomic_fetch_xor(at, value, __ATOMIC_ACQ_REL);                                \
        case WEFT_AMO_CSWAP:                                                                       \
            __atomic_compare_exchange_n(at, &expected, value, 0, __ATOMIC_ACQ_REL,                 \
                                        __ATOMIC_ACQUIRE);                                         \
            return expected;                                                                       \
        default:                                                                                   \
            return __atomic_load_n(at, __ATOMIC_ACQUIRE);                                          \
        }                                                                                          \
    }
APPLY(uint32_t)
APPLY(uint64_t)

static weft_status p2p_atomic(struct remote at, weft_amo amo, size_t width, uint64_t value,
                              uint64_t expected, void *fetched, bool nbi)
{
    if (at.segment == SEG_GPU)
        return p2p_gpu_atomic(at, amo, width, value, expected, fetched, nbi);
    if (width == 4) {
        uint32_t before =
            apply_uint32_t((uint32_t *)address(at), amo, (uint32_t)value, (uint32_t)expected);
        if (fetched)
            memcpy(fetched, &before, sizeof before);
    } else {
        uint64_t before = apply_uint64_t((uint64_t *)address(at), amo, value, expected);
        if (fetched)
            memcpy(fetched, &before, sizeof before);
    }
    return WEFT_OK;
}

static weft_status p2p_put_signal(struct remote to, const void *src, size_t bytes,
                                  struct remote signal, uint64_t value, weft_signal_op op, bool nbi)
{
    if (signal.segment == SEG_GPU || on_gpu(to, src))
        return p2p_gpu_put_signal(to, src, bytes, signal, value, op, nbi);
    memcpy(address(to), src, bytes);
    uint64_t *word = (uint64_t *)address(signal);
    /* Release: pairs with the acquire load of a wait, which then sees the data. */
    if (op == WEFT_SIGNAL_SET)
        __atomic_store_n(word, value, __ATOMIC_RELEASE);
    else
        __atomic_fetch_add(word, value, __ATOMIC_RELEASE);
    return WEFT_OK;
}

static weft_status p2p_address(struct remote at, char **where)
{
    if (at.segment == SEG_GPU)
        return by_gpu_address(at, where);
    *where = address(at);
    return WEFT_OK;
}

/* p2p_put() writes a value of 1, 2, 4 or 8 bytes by one store. */
static weft_status p2p_store(struct remote to, const void *value, size_t width)
{
    return to.segment == SEG_GPU ? p2p_gpu_store(to, value, width)
                                 : p2p_put(to, value, width, false);
}

static weft_status p2p_load(struct remote from, void *value, size_t width)
{
    return from.segment == SEG_GPU ? p2p_gpu_load(from, value, width)
                                   : p2p_get(from, value, width, false);
}

/* ------------------------------------------------------------------------------------ strided */

static void copy_strided(char *to, const char *from, size_t to_step, size_t from_step,
                         size_t element, size_t n)
{
    switch (element) {
#define STRIDED(bytes)                                                                             \
    case bytes:                                                                                    \
        for (size_t i = 0; i < n; i++, to += to_step, from += from_step)                           \
            memcpy(to, from, bytes);                                                               \
        return;
        STRIDED(1)
        STRIDED(2)
        STRIDED(4)
        STRIDED(8)
        STRIDED(16)
#undef STRIDED
    default:
        for (size_t i = 0; i < n; i++, to += to_step, from += from_step)
            memcpy(to, from, element);
    }
}

static weft_status p2p_iput(struct remote to, const void *src, const struct path_strides *s)
{
    if (on_gpu(to, src))
        return p2p_gpu_strided(to, (void *)src, true, s);
    copy_strided(address(to), src, s->remote_step, s->local_step, s->element, s->n);
    return WEFT_OK;
}

static weft_status p2p_iget(struct remote from, void *dst, const struct path_strides *s)
{
    if (on_gpu(from, dst))
        return p2p_gpu_strided(from, dst, false, s);
    copy_strided(dst, address(from), s->local_step, s->remote_step, s->element, s->n);
    atomic_thread_fence(memory_order_acquire); /* as in p2p_get() */
    return WEFT_OK;
}

/* ----------------------------------------------------------------------------------- the tables */

static const char *self_obstacle(const struct path_facts *facts)
{
    return facts->same_pe ? NULL : "another PE";
}

static const char *p2p_obstacle(const struct path_facts *facts)
{
    if (facts->same_pe)
        return "the same PE";
    if (!facts->same_node)
        return "the PEs run on different kernels";
    if (!facts->mapped)
        return facts->evidence ? facts->evidence : "the peer's memory is not mapped here";
    return NULL;
}

#define MAPPED_OPERATIONS                                                                          \
    .why = "the peer's memory is mapped", .automatic = true, .direct = true, .open = p2p_gpu_open, \
    .close = p2p_gpu_close, .refine = mapped_refine, .address = p2p_address, .put = p2p_put,       \
    .get = p2p_get, .iput = p2p_iput, .iget = p2p_iget, .store = p2p_store, .load = p2p_load,      \
    .atomic = p2p_atomic, .put_signal = p2p_put_signal, .fence = p2p_gpu_quiet,                    \
    .quiet = p2p_gpu_quiet

const struct path_ops path_self = {.name = "self", .obstacle = self_obstacle, MAPPED_OPERATIONS};
const struct path_ops path_p2p = {.name = "p2p", .obstacle = p2p_obstacle, MAPPED_OPERATIONS};
