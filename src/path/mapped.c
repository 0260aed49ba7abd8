/* SPDX-License-Identifier: Apache-2.0 */
/* Paths `self` and `p2p`: the peer's memory is mapped here, so every operation is a few loads and
 * stores that are complete at once. src/ops does the common ones inline; these serve the rest. */
#include "path/path.h"

#include <string.h>

static char *address(struct remote remote)
{
    return remote.peer->map[remote.segment] + remote.offset;
}

/* A value that fits one access is written by one: p and flags rely on that. */
static weft_status mapped_put(struct remote to, const void *src, size_t bytes, bool nbi)
{
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

static weft_status mapped_get(struct remote from, void *dst, size_t bytes, bool nbi)
{
    const char *at = address(from);
    if (bytes == 8 && (uintptr_t)at % 8 == 0) {
        uint64_t value = __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE);
        memcpy(dst, &value, sizeof value);
    } else if (bytes == 4 && (uintptr_t)at % 4 == 0) {
        uint32_t value = __atomic_load_n((const uint32_t *)at, __ATOMIC_ACQUIRE);
        memcpy(dst, &value, sizeof value);
    } else {
        memcpy(dst, at, bytes);
    }
    return WEFT_OK;
}

/* Any atomic of one width: returns the value from before. */
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

static weft_status mapped_amo(struct remote at, weft_amo amo, size_t width, uint64_t value,
                              uint64_t expected, void *fetched, bool nbi)
{
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

static weft_status mapped_put_signal(struct remote to, const void *src, size_t bytes,
                                     struct remote signal, uint64_t value, weft_signal_op op,
                                     bool nbi)
{
    memcpy(address(to), src, bytes);
    uint64_t *word = (uint64_t *)address(signal);
    /* Release: pairs with the acquire load of a wait, which then sees the data. */
    if (op == WEFT_SIGNAL_SET)
        __atomic_store_n(word, value, __ATOMIC_RELEASE);
    else
        __atomic_fetch_add(word, value, __ATOMIC_RELEASE);
    return WEFT_OK;
}

const struct path_ops path_mapped_ops = {
    .name = "p2p",
    .put = mapped_put,
    .get = mapped_get,
    .amo = mapped_amo,
    .put_signal = mapped_put_signal,
};
