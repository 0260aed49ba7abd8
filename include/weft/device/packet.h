/* SPDX-License-Identifier: Apache-2.0 */
/* Packets: a put whose words carry their own flag, so that neither PE needs a fence (NCCL's LL
 * protocol). For messages of up to a few KiB, where the fence of put_signal would take most of the
 * time.
 *
 * In memory each 8 bytes are 4 bytes of payload and the 4-byte sequence number of the packet. A
 * store of 8 bytes is never torn, so an 8-byte half with the right sequence number has the right
 * payload, whatever the order of arrival; two halves travel in one 16-byte store. Nothing is
 * cleared between uses: a buffer that holds packet k takes packet k + 1 next. Litmus test packet.
 *
 * The buffer is symmetric, 16-byte aligned, weft_packet_bytes(n) bytes long, and zeroed before its
 * first use (WEFT_ALLOC_ZERO). Sequence numbers begin with 1 and must differ from the previous one
 * in the same buffer. A packet may be put when the receiver has taken the previous one from that
 * buffer: two buffers used in turn are enough for an exchange in which each PE answers. */
#ifndef WEFT_DEVICE_PACKET_H
#define WEFT_DEVICE_PACKET_H

#include <weft/device/packet_unit.h>
#include <weft/device/wait.h>

/* Bytes of a buffer for packets of up to `bytes` bytes of payload. Host and device. */
#if WEFT_TARGET_GPU
__host__ __device__
#endif
    static inline size_t
    weft_packet_bytes(size_t bytes)
{
    return (bytes + 7) / 8 * 16;
}

/* Waits for the unit at `at`. `v` is the result of an earlier load of it. */
WEFT_DEVICE int weft_dev_packet_await(const char *at, uint32_t number, int team,
                                      struct weft_dev_vec16 *v)
{
    if (WEFT_DEV_LIKELY(weft_dev_packet_ready(*v, number)))
        return WEFT_OK;
    uint32_t polls = 0;
    struct weft_dev_patience p;
    struct weft_dev_awaited what =
        weft_dev_awaited_of(WEFT_DEV_OP_TAKE_PACKET, -1, team, at, WEFT_EQ, number);
    int status;
    do {
        status = weft_dev_patience_step(&p, what, &polls, v->lo >> 32);
        *v = weft_dev_load_vec16_relaxed(at);
    } while (!status && !weft_dev_packet_ready(*v, number));
    weft_dev_patience_end(&p, polls);
    return status;
}

/* ------------------------------------------------------------------------------- operations
 *
 * void weft_{thread,warp,block}_put_packet(void *buffer, const void *src, size_t bytes,
 *                                          uint32_t number, int pe)
 *     Puts packet `number` into the buffer at PE pe. Does not synchronise the scope: the source may
 *     be reused after a sync of the scope.
 * int weft_{thread,warp,block}_take_packet(void *dst, const void *buffer, size_t bytes,
 *                                          uint32_t number)
 *     Waits for packet `number` in the caller's buffer and copies its payload to dst, visible to
 *     all threads of the scope. Returns WEFT_OK or WEFT_ERR_TIMEOUT, the same for all.
 * void weft_thread_put_packet64(void *buffer, uint64_t value, uint32_t number, int pe)
 * int  weft_thread_take_packet64(const void *buffer, uint32_t number, uint64_t *value)
 *     The same for one value in a register.
 * `bytes` must be the size that the sender put.
 */
WEFT_DEVICE void weft_dev_packet_put(int scope, void *buffer, const void *src, size_t bytes,
                                     uint32_t number, int pe)
{
    unsigned rank = weft_dev_scope_rank(scope), threads = weft_dev_scope_threads(scope);
    size_t units = (bytes + 7) / 8;
    if (rank >= units) /* most warps of a block have nothing to do here, and should not use issue
                          slots */
        return;
    char *to = weft_dev_direct(buffer, units * 16, pe);
    if (!to) {
        if (rank == 0)
            weft_dev_remote_packet(buffer, (const char *)src, bytes, number, pe);
        return;
    }
    for (size_t i = rank; i < units; i += threads)
        weft_dev_packet_store(
            to + 16 * i, weft_dev_packet_payload((const char *)src + 8 * i, bytes - 8 * i), number);
}

/* Waits for two units at a time, with both loads in flight together; both addresses may be
 * equal. */
WEFT_DEVICE int weft_dev_packet_await_two(const char *first, const char *second, uint32_t number,
                                          struct weft_dev_vec16 *a, struct weft_dev_vec16 *b)
{
    struct weft_dev_patience p;
    struct weft_dev_awaited what =
        weft_dev_awaited_of(WEFT_DEV_OP_TAKE_PACKET, -1, -1, first, WEFT_EQ, number);
    uint32_t polls = 0;
    int status = WEFT_OK;
    while (!status) {
        *a = weft_dev_load_vec16_relaxed(first);
        *b = second == first ? *a : weft_dev_load_vec16_relaxed(second);
        if (weft_dev_packet_ready(*a, number) && weft_dev_packet_ready(*b, number))
            break;
        status = weft_dev_patience_step(&p, what, &polls, (a->lo >> 32) + (b->lo >> 32));
    }
    weft_dev_patience_end(&p, polls);
    return status;
}

WEFT_DEVICE int weft_dev_packet_take(int scope, void *dst, const void *buffer, size_t bytes,
                                     uint32_t number)
{
    unsigned rank = weft_dev_scope_rank(scope), threads = weft_dev_scope_threads(scope);
    size_t units = (bytes + 7) / 8;
    const char *from = (const char *)buffer;
    int status = WEFT_OK;
    for (size_t i = rank; i < units && !status; i += 2 * (size_t)threads) {
        size_t j = i + threads < units ? i + threads : i;
        struct weft_dev_vec16 a, b;
        status = weft_dev_packet_await_two(from + 16 * i, from + 16 * j, number, &a, &b);
        if (status)
            break;
        weft_dev_packet_deliver((char *)dst + 8 * i, weft_dev_packet_value(a), bytes - 8 * i);
        if (j != i)
            weft_dev_packet_deliver((char *)dst + 8 * j, weft_dev_packet_value(b), bytes - 8 * j);
    }
    return weft_dev_scope_any(scope, status != WEFT_OK) ? WEFT_ERR_TIMEOUT : WEFT_OK;
}

#define WEFT_DEV_PACKETS(scope, constant)                                                          \
    WEFT_DEVICE void weft_##scope##_put_packet(void *buffer, const void *src, size_t bytes,        \
                                               uint32_t number, int pe)                            \
    {                                                                                              \
        weft_dev_packet_put(constant, buffer, src, bytes, number, pe);                             \
    }                                                                                              \
    WEFT_DEVICE int weft_##scope##_take_packet(void *dst, const void *buffer, size_t bytes,        \
                                               uint32_t number)                                    \
    {                                                                                              \
        return weft_dev_packet_take(constant, dst, buffer, bytes, number);                         \
    }
WEFT_DEV_SCOPE_LIST(WEFT_DEV_PACKETS)
#undef WEFT_DEV_PACKETS

WEFT_DEVICE void weft_thread_put_packet64(void *buffer, uint64_t value, uint32_t number, int pe)
{
    char *to = weft_dev_direct(buffer, 16, pe);
    if (to)
        weft_dev_packet_store(to, value, number);
    else
        WEFT_DEV_CALL_RARELY(weft_dev_remote_word, WEFT_DEV_OP_PUT_PACKET, 0, buffer, 8, number,
                             value, pe);
}

WEFT_DEVICE int weft_thread_take_packet64(const void *buffer, uint32_t number, uint64_t *value)
{
    struct weft_dev_vec16 v = weft_dev_load_vec16_relaxed(buffer);
    int status = weft_dev_packet_await((const char *)buffer, number, -1, &v);
    *value = weft_dev_packet_value(v);
    return status;
}

#endif
