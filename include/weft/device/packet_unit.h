/* SPDX-License-Identifier: Apache-2.0 */
/* Format of a packet, and its loads and stores: units of 16 bytes with 8 bytes of payload, each 4
 * bytes of it next to the sequence number of the packet. A store of 8 bytes is never torn, so a
 * half with the right sequence number has the right payload, whatever the order of arrival. Knows
 * nothing of PEs, teams and waiting: see packet.h, and the library's own collectives. */
#ifndef WEFT_DEVICE_PACKET_UNIT_H
#define WEFT_DEVICE_PACKET_UNIT_H

#include <weft/device/simt.h>

/* 8 bytes of payload at src, or the last `left` < 8 bytes. */
WEFT_DEVICE uint64_t weft_dev_packet_payload(const char *src, size_t left)
{
    uint64_t value = 0;
    if (left >= 8 && !((uintptr_t)src & 7))
        return *(const weft_dev_any_u64 *)src;
    for (unsigned i = 0; i < 8 && i < left; i++)
        value |= (uint64_t)(uint8_t)src[i] << 8 * i;
    return value;
}

WEFT_DEVICE void weft_dev_packet_deliver(char *dst, uint64_t value, size_t left)
{
    if (left >= 8 && !((uintptr_t)dst & 7)) {
        weft_dev_store_u64((uint64_t *)dst, value, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
        return;
    }
    for (unsigned i = 0; i < 8 && i < left; i++)
        dst[i] = (char)(value >> 8 * i);
}

WEFT_DEVICE void weft_dev_packet_store(char *at, uint64_t value, uint32_t number)
{
    struct weft_dev_vec16 v;
    v.lo = (value & 0xffffffffu) | (uint64_t)number << 32;
    v.hi = value >> 32 | (uint64_t)number << 32;
    weft_dev_store_vec16_relaxed(at, v);
}

WEFT_DEVICE int weft_dev_packet_ready(struct weft_dev_vec16 v, uint32_t number)
{
    return (uint32_t)(v.lo >> 32) == number && (uint32_t)(v.hi >> 32) == number;
}

WEFT_DEVICE uint64_t weft_dev_packet_value(struct weft_dev_vec16 v)
{
    return (v.lo & 0xffffffffu) | v.hi << 32;
}

/* 16-byte unit number `unit` of the `bytes` bytes at src, padded with zeros. */
WEFT_DEVICE struct weft_dev_vec16 weft_dev_unit_load(const char *src, uint64_t bytes, uint64_t unit)
{
    struct weft_dev_vec16 v = {0, 0};
    uint64_t at = 16 * unit;
    if (at + 16 <= bytes && !((uintptr_t)src & 15))
        return weft_dev_load_vec16(src + at);
    if (at < bytes)
        v.lo = weft_dev_packet_payload(src + at, (size_t)(bytes - at));
    if (at + 8 < bytes)
        v.hi = weft_dev_packet_payload(src + at + 8, (size_t)(bytes - at - 8));
    return v;
}

WEFT_DEVICE void weft_dev_unit_deliver(char *dst, uint64_t bytes, uint64_t unit,
                                       struct weft_dev_vec16 v)
{
    uint64_t at = 16 * unit;
    if (at + 16 <= bytes && !((uintptr_t)dst & 15)) {
        weft_dev_store_vec16(dst + at, v);
        return;
    }
    weft_dev_packet_deliver(dst + at, v.lo, (size_t)(bytes - at));
    if (at + 8 < bytes)
        weft_dev_packet_deliver(dst + at + 8, v.hi, (size_t)(bytes - at - 8));
}

#endif
