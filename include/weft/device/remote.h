/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on memory for which device code has no direct address. Every operation does
 *
 *     with a direct address  load, store, move
 *     otherwise              one thread of its scope calls weft_dev_remote()
 *
 * and this file gives the request to the transport for that peer (WEFT_DEV_CARRIERS in state.h: a
 * proxy's ring, queues of a NIC). Where there is no transport, it writes a fault record. It knows
 * transports only by that list, and not how requests travel.
 *
 * A transport gets requests whose address is in a segment and whose PE exists: p, and puts and gets
 * of contiguous bytes, as plain arguments, because a request in memory takes time; all others as a
 * request. The local buffer is memory of the device or the host; data that only a thread or a block
 * can access (shared memory, a stack) are passed word by word. The payload of a packet of 8 bytes
 * is in `compare`, without a local buffer. The transport may change the request. It returns when an
 * operation of that kind may return: with the source of a put reusable, and with the result of a
 * get or of a fetching atomic present, unless nbi. Every thread that fences or quiets calls the
 * transport's order(quiet). quiet = 0: the thread's earlier requests reach each PE before its later
 * ones. quiet = 1: its earlier requests are complete, and its operations without a transport are
 * ordered by a sequentially consistent fence of the system. */
#ifndef WEFT_DEVICE_REMOTE_H
#define WEFT_DEVICE_REMOTE_H

#include <weft/device/access.h>

/* One operation with its arguments; unused fields are 0. */
struct weft_dev_request {
    int32_t operation;     /* enum weft_dev_operation */
    int32_t pe;            /* the peer */
    const void *symmetric; /* variable, destination or source at PE pe, as an address of this PE */
    void *local;           /* local buffer of a put or get; a put only reads it */
    uint64_t bytes;        /* size of the operation; for iput and iget, of an element */
    uint64_t value;        /* of p, atomics (bits of real ones), signals; sequence number of a
                              packet */
    uint64_t compare;      /* cswap: the value is stored when the word equals this */
    uint64_t *signal;      /* put_signal: the signal, as an address of this PE */
    uint64_t n;            /* iput, iget: number of elements, at strides in elements */
    int64_t remote_stride, local_stride;
    int32_t what; /* ATOMIC: enum weft_dev_atomic; SIGNAL, PUT_SIGNAL: weft_signal_op */
    /* 1: may return before it is complete; the next quiet completes it. For an atomic: the result
     * is not used. */
    int32_t nbi;
    uint32_t queue;    /* for the transport: the queue that the request goes into */
    uint32_t of_block; /* 1: the first thread of a block makes it for the block */
};

/* Added to an atomic's code: the result is not used. */
#define WEFT_DEV_WITHOUT_RESULT 0x100

/* Added to `nbi`: the request is of a block, see of_block. */
enum { WEFT_DEV_OF_BLOCK = 2 };

WEFT_DEVICE struct weft_dev_request weft_dev_request_of(int operation, const void *symmetric,
                                                        uint64_t bytes, int pe)
{
    struct weft_dev_request r = {operation, pe, symmetric, NULL, bytes, 0, 0, NULL,
                                 0,         0,  0,         0,    0,     0, 0};
    return r;
}

/* A put or get of contiguous bytes as a request. `form`: nbi, and WEFT_DEV_OF_BLOCK. */
WEFT_DEVICE struct weft_dev_request weft_dev_move_request(int operation, const void *symmetric,
                                                          void *local, uint64_t bytes, int pe,
                                                          int form)
{
    struct weft_dev_request r = weft_dev_request_of(operation, symmetric, bytes, pe);
    r.local = local;
    r.nbi = form & 1;
    r.of_block = (uint32_t)form / WEFT_DEV_OF_BLOCK;
    return r;
}

#ifndef WEFT_STATE_BY_POINTER /* members of a structure are known before their definitions */
#define WEFT_DEV_CARRIER_DECLARE(ID, name)                                                         \
    WEFT_DEVICE_NOINLINE uint64_t weft_dev_##name##_request(struct weft_dev_request *request);     \
    WEFT_DEVICE_NOINLINE void weft_dev_##name##_p(const void *symmetric, unsigned bytes,           \
                                                  uint64_t value, int pe);                         \
    WEFT_DEVICE_NOINLINE void weft_dev_##name##_put_get(                                           \
        int operation, const void *symmetric, void *local, uint64_t bytes, int pe, int form);      \
    WEFT_DEVICE_NOINLINE void weft_dev_##name##_order(int quiet);
WEFT_DEV_CARRIERS(WEFT_DEV_CARRIER_DECLARE)
#undef WEFT_DEV_CARRIER_DECLARE
#endif

/* Range that a request accesses at the peer, in bytes. */
WEFT_DEVICE uint64_t weft_dev_request_extent(const struct weft_dev_request *r)
{
    if (r->operation == WEFT_DEV_OP_IPUT || r->operation == WEFT_DEV_OP_IGET)
        return r->n ? ((r->n - 1) * (uint64_t)r->remote_stride + 1) * r->bytes : 0;
    return r->operation == WEFT_DEV_OP_PUT_PACKET ? (r->bytes + 7) / 8 * 16 : r->bytes;
}

/* Why device code cannot do the request itself: WEFT_ERR_NO_PATH when there is no direct address,
 * else the error, WEFT_ERR_PE, _ADDRESS or _RANGE. *at: the address with the error. */
WEFT_DEVICE_NOINLINE int weft_dev_request_fault(const struct weft_dev_request *r, const void **at)
{
    uint64_t bytes = weft_dev_request_extent(r), offset;
    int segment, status = WEFT_OK;
    *at = r->symmetric;
    if (r->operation == WEFT_DEV_OP_FLAG) /* a flag is in the library's own areas */
        return WEFT_ERR_NO_PATH;
    if ((uint32_t)r->pe >= (uint32_t)weft_dev_state.n_pes)
        return WEFT_ERR_PE;
    if (!weft_dev_direct_slow(*at, bytes, r->pe, 0))
        status = weft_dev_find(*at, bytes, &segment, &offset);
    if (!status && r->signal && !weft_dev_direct_slow(r->signal, 8, r->pe, 0)) {
        *at = r->signal;
        status = weft_dev_find(*at, 8, &segment, &offset);
    }
    return status ? status : WEFT_ERR_NO_PATH;
}

/* Refuses the operation: writes a record, and the job fails. Without a path, `expected` in the
 * record is the number of the peer's path, and `seen` says whether there is a direct address, so
 * that only atomics have no path. With other errors `expected` is the size in bytes. */
WEFT_DEVICE_NOINLINE uint64_t weft_dev_request_refuse(const struct weft_dev_request *r, int status,
                                                      const void *at)
{
    uint64_t expected = at == r->symmetric ? weft_dev_request_extent(r) : 8, seen = 0;
    if (status == WEFT_ERR_NO_PATH) {
        expected = weft_dev_state.peers[r->pe].path;
        seen = weft_dev_direct_slow(at, 1, r->pe, 0) != NULL;
    }
    weft_dev_record(WEFT_DEV_RECORD_REFUSED, r->operation, status, r->pe, -1, at, 0, expected, seen,
                    0);
    weft_dev_fail(status);
    return 0;
}

/* Whether `bytes` bytes at `symmetric` are in the heap, and PE pe exists and is not in the window.
 */
WEFT_DEVICE int weft_dev_is_in_far_heap(const void *symmetric, uint64_t bytes, int pe)
{
    const struct weft_dev_segment *heap = &weft_dev_state.segment[WEFT_DEV_HEAP];
    uint64_t offset = (uintptr_t)symmetric - heap->base;
    return offset < heap->size && bytes <= heap->size - offset &&
           (uint32_t)pe < (uint32_t)weft_dev_state.n_pes &&
           (uint32_t)(pe - heap->first) >= heap->count;
}

WEFT_DEVICE int weft_dev_is_far(const void *symmetric, uint64_t bytes, int pe)
{
    return weft_dev_is_in_far_heap(symmetric, bytes, pe) &&
           !weft_dev_state.peers[pe].part[WEFT_DEV_HEAP];
}

/* The transport of this unit for a peer; 0: none. In a unit without gda or dc the proxy takes its
 * requests. */
WEFT_DEVICE uint32_t weft_dev_carrier_of(const struct weft_dev_peer *peer)
{
    uint32_t carrier = peer->carrier;
    if (WEFT_DEV_PROXY_FOR_OTHER && carrier >= WEFT_DEV_CARRIER_END)
        carrier = WEFT_DEV_CARRIER_NONE + 1; /* the proxy, in every such unit */
    return carrier < WEFT_DEV_CARRIER_END ? carrier : 0;
}

/* The transport for `bytes` bytes at `symmetric` if they are in the heap and PE pe has no direct
 * address, which is the common case here and needs no further check; else 0. Both loads are in
 * flight at once. */
WEFT_DEVICE uint32_t weft_dev_far_carrier(const void *symmetric, uint64_t bytes, int pe)
{
    if (!weft_dev_is_in_far_heap(symmetric, bytes, pe))
        return 0;
    const struct weft_dev_peer *peer = &weft_dev_state.peers[pe];
    uint64_t part = peer->part[WEFT_DEV_HEAP];
    uint32_t carrier = weft_dev_carrier_of(peer);
    return part ? 0 : carrier;
}

/* Called by one thread for its scope. Returns the fetched value, or 0 when the operation is
 * refused, with a record. Not for p, put and get. Inline: each function between a kernel and the
 * transport's functions costs every kernel registers. No switch here and below: a compiler may make
 * it a jump through a table. */
WEFT_DEVICE uint64_t weft_dev_remote(struct weft_dev_request *request)
{
    const void *at = request->symmetric;
    int status = request->operation == WEFT_DEV_OP_G &&
                         weft_dev_is_far(request->symmetric, request->bytes, request->pe)
                     ? WEFT_ERR_NO_PATH
                     : weft_dev_request_fault(request, &at);
    uint32_t carrier =
        status == WEFT_ERR_NO_PATH ? weft_dev_carrier_of(&weft_dev_state.peers[request->pe]) : 0;
#define WEFT_DEV_CARRIER_CASE(ID, name)                                                            \
    if (carrier == WEFT_DEV_CARRIER_##ID)                                                          \
        return weft_dev_##name##_request(request);
    WEFT_DEV_CARRIERS(WEFT_DEV_CARRIER_CASE)
#undef WEFT_DEV_CARRIER_CASE
    (void)carrier;
    return weft_dev_request_refuse(request, status, at);
}

/* p, and a put or get of contiguous bytes, by that transport. */
WEFT_DEVICE void weft_dev_carried_p(uint32_t carrier, const void *symmetric, unsigned bytes,
                                    uint64_t value, int pe)
{
#define WEFT_DEV_CARRIER_CASE(ID, name)                                                            \
    if (carrier == WEFT_DEV_CARRIER_##ID)                                                          \
        weft_dev_##name##_p(symmetric, bytes, value, pe);
    WEFT_DEV_CARRIERS(WEFT_DEV_CARRIER_CASE)
#undef WEFT_DEV_CARRIER_CASE
    (void)carrier, (void)symmetric, (void)bytes, (void)value, (void)pe;
}

WEFT_DEVICE void weft_dev_carried_put_get(uint32_t carrier, int operation, const void *symmetric,
                                          void *local, uint64_t bytes, int pe, int form)
{
#define WEFT_DEV_CARRIER_CASE(ID, name)                                                            \
    if (carrier == WEFT_DEV_CARRIER_##ID)                                                          \
        weft_dev_##name##_put_get(operation, symmetric, local, bytes, pe, form);
    WEFT_DEV_CARRIERS(WEFT_DEV_CARRIER_CASE)
#undef WEFT_DEV_CARRIER_CASE
    (void)carrier, (void)operation, (void)symmetric, (void)local, (void)bytes, (void)pe, (void)form;
}

/* The transport that takes the operation; 0: it is refused, with a record. */
WEFT_DEVICE_NOINLINE uint32_t weft_dev_remote_check(int operation, const void *symmetric,
                                                    uint64_t bytes, int pe)
{
    struct weft_dev_request r = weft_dev_request_of(operation, symmetric, bytes, pe);
    const void *at;
    int status = weft_dev_request_fault(&r, &at);
    uint32_t carrier =
        status == WEFT_ERR_NO_PATH ? weft_dev_carrier_of(&weft_dev_state.peers[pe]) : 0;
    if (!carrier)
        weft_dev_request_refuse(&r, status, at);
    return carrier;
}

WEFT_DEVICE_NOINLINE void weft_dev_remote_p_late(const void *symmetric, unsigned bytes,
                                                 uint64_t value, int pe)
{
    weft_dev_carried_p(weft_dev_remote_check(WEFT_DEV_OP_P, symmetric, bytes, pe), symmetric, bytes,
                       value, pe);
}

/* p of a word without a direct address. The common case has a branch without another call: what a
 * function needs after one goes to the stack. */
WEFT_DEVICE_NOINLINE void weft_dev_remote_p(const void *symmetric, unsigned bytes, uint64_t value,
                                            int pe)
{
    uint32_t carrier = weft_dev_far_carrier(symmetric, bytes, pe);
    if (WEFT_DEV_LIKELY(carrier))
        weft_dev_carried_p(carrier, symmetric, bytes, value, pe);
    else
        weft_dev_remote_p_late(symmetric, bytes, value, pe);
}

/* Another operation on a word of `bytes` bytes: g, signal, atomic, 8 bytes of a packet, a flag. */
WEFT_DEVICE_NOINLINE uint64_t weft_dev_remote_word(int operation, int what, const void *symmetric,
                                                   unsigned bytes, uint64_t value, uint64_t compare,
                                                   int pe)
{
    struct weft_dev_request r = weft_dev_request_of(operation, symmetric, bytes, pe);
    r.what = what & 0xff;
    r.nbi = what >> 8;
    r.value = value;
    r.compare = compare;
    return weft_dev_remote(&r);
}

WEFT_DEVICE void weft_dev_carried_order(int quiet)
{
#define WEFT_DEV_CARRIER_ORDER(ID, name)                                                           \
    if (weft_dev_state.carried >> WEFT_DEV_CARRIER_##ID & 1)                                       \
        weft_dev_##name##_order(quiet);
    WEFT_DEV_CARRIERS(WEFT_DEV_CARRIER_ORDER)
#undef WEFT_DEV_CARRIER_ORDER
    (void)quiet;
}

/* ------------------------------------------------------- local buffers that only threads access
 *
 * These operations go in words of up to 8 bytes, each aligned to its size at the peer. */

/* Loads up to 8 bytes at any alignment; one load when they are 8 aligned bytes. */
WEFT_DEVICE uint64_t weft_dev_word_of(const char *src, unsigned bytes)
{
    uint64_t value = 0;
    if (bytes == 8 && !((uintptr_t)src & 7))
        /* NOLINTNEXTLINE(clang-analyzer-core*): the bytes are there */
        return *(const weft_dev_any_u64 *)(const void *)src;
    WEFT_NO_UNROLL
    for (unsigned i = 0; i < bytes; i++)
        /* NOLINTNEXTLINE(clang-analyzer-core*): the bytes are there */
        value |= (uint64_t)(uint8_t)src[i] << 8 * i;
    return value;
}

WEFT_DEVICE_NOINLINE void weft_dev_remote_put_words(char *dst, const char *src, uint64_t bytes,
                                                    int pe)
{
    unsigned width;
    WEFT_NO_UNROLL
    for (; bytes; dst += width, src += width, bytes -= width) {
        for (width = 8; (uintptr_t)dst & (width - 1) || width > bytes;)
            width /= 2;
        weft_dev_remote_p(dst, width, weft_dev_word_of(src, width), pe);
    }
}

WEFT_DEVICE_NOINLINE void weft_dev_remote_get_words(char *dst, const char *src, uint64_t bytes,
                                                    int pe)
{
    unsigned width;
    WEFT_NO_UNROLL
    for (; bytes; dst += width, src += width, bytes -= width) {
        for (width = 8; (uintptr_t)src & (width - 1) || width > bytes;)
            width /= 2;
        uint64_t value = weft_dev_remote_word(WEFT_DEV_OP_G, 0, src, width, 0, 0, pe);
        WEFT_NO_UNROLL
        for (unsigned i = 0; i < width; i++)
            dst[i] = (char)(value >> 8 * i);
    }
}

/* Whether a transport takes operations for that address. Returns 0 also when PE or address are
 * wrong: weft_dev_remote() reports that. */
WEFT_DEVICE int weft_dev_is_carried(const void *symmetric, uint64_t bytes, int pe)
{
    int segment;
    uint64_t offset;
    return (uint32_t)pe < (uint32_t)weft_dev_state.n_pes && weft_dev_state.peers[pe].carrier &&
           weft_dev_find(symmetric, bytes, &segment, &offset) == WEFT_OK;
}

/* The same, and the local buffer is memory that only threads access, which a transport does not
 * reach. */
WEFT_DEVICE int weft_dev_remote_by_words(const void *symmetric, uint64_t bytes, const void *local,
                                         int pe)
{
    return !weft_dev_is_global(local) && weft_dev_is_carried(symmetric, bytes, pe);
}

/* ------------------------------------------------------------------------- puts and gets */

/* A put or get that is not the common case. A put of at most 8 bytes goes as a value: its source
 * may be reused at once, and adjacent values in the warp may go with it. */
WEFT_DEVICE_NOINLINE void weft_dev_remote_move_late(int operation, const void *symmetric,
                                                    void *local, uint64_t bytes, int pe, int form)
{
    int word = operation == WEFT_DEV_OP_PUT && bytes <= 8 && !(bytes & (bytes - 1)) &&
               !((uintptr_t)symmetric & (bytes - 1));
    if (!word && weft_dev_remote_by_words(symmetric, bytes, local, pe)) {
        if (operation == WEFT_DEV_OP_PUT)
            weft_dev_remote_put_words((char *)(uintptr_t)symmetric, (const char *)local, bytes, pe);
        else
            weft_dev_remote_get_words((char *)local, (const char *)symmetric, bytes, pe);
        return;
    }
    uint32_t carrier = weft_dev_remote_check(operation, symmetric, bytes, pe);
    if (!carrier || !bytes)
        return;
    if (word)
        weft_dev_carried_p(carrier, symmetric, (unsigned)bytes,
                           weft_dev_word_of((const char *)local, (unsigned)bytes), pe);
    else
        weft_dev_carried_put_get(carrier, operation, symmetric, local, bytes, pe, form);
}

/* A put or get of contiguous bytes. `form`: nbi, and WEFT_DEV_OF_BLOCK. */
WEFT_DEVICE_NOINLINE void weft_dev_remote_move(int operation, const void *symmetric, void *local,
                                               uint64_t bytes, int pe, int form)
{
    uint32_t carrier = weft_dev_far_carrier(symmetric, bytes, pe);
    if (WEFT_DEV_LIKELY(carrier && bytes > 8 && weft_dev_is_global(local)))
        weft_dev_carried_put_get(carrier, operation, symmetric, local, bytes, pe, form);
    else
        weft_dev_remote_move_late(operation, symmetric, local, bytes, pe, form);
}

/* The payload of a packet, up to 8 bytes at a time. */
WEFT_DEVICE_NOINLINE void weft_dev_remote_packet(void *buffer, const char *src, uint64_t bytes,
                                                 uint32_t number, int pe)
{
    WEFT_NO_UNROLL
    for (uint64_t at = 0; at < bytes; at += 8) {
        unsigned width = bytes - at < 8 ? (unsigned)(bytes - at) : 8;
        weft_dev_remote_word(WEFT_DEV_OP_PUT_PACKET, 0, (char *)buffer + 2 * at, width, number,
                             weft_dev_word_of(src + at, width), pe);
    }
}

/* Data with a direct address have been moved by the threads of the scope: only the signal is left,
 * an atomic that the device does not do itself. Up to 8 bytes go in the request: the source may be
 * reused at once, and the host need not read it. */
WEFT_DEVICE_NOINLINE void weft_dev_remote_put_signal(void *dst, const void *src, uint64_t bytes,
                                                     uint64_t *signal, uint64_t value, int what,
                                                     int pe, int nbi)
{
    if (bytes && weft_dev_direct_slow(dst, bytes, pe, 0)) {
        weft_dev_fence(WEFT_ORDER_ACQ_REL, WEFT_SCOPE_SYS);
        weft_dev_remote_word(WEFT_DEV_OP_SIGNAL, what, signal, 8, value, 0, pe);
        return;
    }
    struct weft_dev_request r = weft_dev_request_of(WEFT_DEV_OP_PUT_SIGNAL, dst, bytes, pe);
    if (bytes <= 8) {
        r.compare = weft_dev_word_of((const char *)src, (unsigned)bytes);
    } else if (weft_dev_remote_by_words(dst, bytes, src, pe) &&
               weft_dev_remote_by_words(signal, 8, src, pe)) {
        weft_dev_remote_put_words((char *)dst, (const char *)src, bytes, pe);
        weft_dev_carried_order(0);
        weft_dev_remote_word(WEFT_DEV_OP_SIGNAL, what, signal, 8, value, 0, pe);
        return;
    } else {
        r.local = (void *)(uintptr_t)src;
    }
    r.signal = signal;
    r.value = value;
    r.what = what;
    r.nbi = nbi & 1;
    r.of_block = (uint32_t)nbi / WEFT_DEV_OF_BLOCK;
    weft_dev_remote(&r);
}

WEFT_DEVICE_NOINLINE void weft_dev_remote_strided(int operation, const void *symmetric, void *local,
                                                  ptrdiff_t remote_stride, ptrdiff_t local_stride,
                                                  size_t element, size_t n, int pe)
{
    struct weft_dev_request r = weft_dev_request_of(operation, symmetric, element, pe);
    r.local = local;
    r.n = n;
    r.remote_stride = remote_stride;
    r.local_stride = local_stride;
    if (!weft_dev_remote_by_words(symmetric, weft_dev_request_extent(&r), local, pe)) {
        weft_dev_remote(&r);
        return;
    }
    WEFT_NO_UNROLL
    for (size_t i = 0; i < n; i++) {
        char *there = (char *)(uintptr_t)symmetric + i * (size_t)remote_stride * element;
        char *here = (char *)local + i * (size_t)local_stride * element;
        if (operation == WEFT_DEV_OP_IPUT)
            weft_dev_remote_put_words(there, here, element, pe);
        else
            weft_dev_remote_get_words(here, there, element, pe);
    }
}

/* Fence and quiet of the transports; every fence and quiet calls it first. It costs nothing where
 * no transport is compiled in, and one test where no peer has one. Returns 1 when a transport has
 * quieted and fenced. */
WEFT_DEVICE int weft_dev_remote_order(int quiet)
{
    if (WEFT_DEV_CARRIER_END <= WEFT_DEV_CARRIER_NONE + 1 ||
        WEFT_DEV_LIKELY(!weft_dev_state.carried))
        return 0;
    weft_dev_carried_order(quiet);
    return quiet;
}

#endif
