/* SPDX-License-Identifier: Apache-2.0 */
/* A step of a reduction over several nodes (ops/coll/nodes_fold.c): combines the elements of
 * members of this GPU's node, in the order of the team, with what the members before them have.
 * Types of 16 and 8 bits pass from node to node in binary32, so the result is rounded once, as on
 * one node.
 *
 * Not a round of the team: the members of a node have met, and the host orders the steps. */
#ifndef WEFT_GPU_COLL_FOLD_H
#define WEFT_GPU_COLL_FOLD_H

#include <weft/device/move.h>

#include "gpu/coll/factors.h"

/* Address of what belongs to byte `at` of the elements, where they are in binary32 if they are
 * combined so. */
WEFT_DEVICE char *fold_wide_at(char *wide, struct weft_dev_how h, uint64_t at)
{
    return wide + (h.widened ? at * sizeof(float) / weft_dev_type_bytes(h.type) : at);
}

WEFT_DEVICE void fold_load(struct weft_dev_how h, struct weft_dev_wide *w, const char *from,
                           unsigned element)
{
    struct weft_dev_vec16 v;
    if (!h.widened) {
        w->v = element == 16 ? weft_dev_load_vec16(from) : weft_dev_element_load(from, element);
    } else if (h.widened == 1) {
        v = weft_dev_element_load(from, sizeof(float));
        w->f[0] = weft_dev_f32_bits((uint32_t)v.lo);
    } else {
        WEFT_UNROLL
        for (int i = 0; i < (h.widened == 16 ? 16 : 8); i += 4) {
            v = weft_dev_load_vec16(from + i * sizeof(float));
            w->f[i] = weft_dev_f32_bits((uint32_t)v.lo);
            w->f[i + 1] = weft_dev_f32_bits((uint32_t)(v.lo >> 32));
            w->f[i + 2] = weft_dev_f32_bits((uint32_t)v.hi);
            w->f[i + 3] = weft_dev_f32_bits((uint32_t)(v.hi >> 32));
        }
    }
}

WEFT_DEVICE void fold_store(struct weft_dev_how h, const struct weft_dev_wide *w, char *to,
                            unsigned element)
{
    struct weft_dev_vec16 v = w->v;
    if (!h.widened) {
        if (element == 16)
            weft_dev_store_vec16(to, v);
        else
            weft_dev_element_store(to, v, element);
    } else if (h.widened == 1) {
        v.lo = weft_dev_bits_f32(w->f[0]);
        weft_dev_element_store(to, v, sizeof(float));
    } else {
        WEFT_UNROLL
        for (int i = 0; i < (h.widened == 16 ? 16 : 8); i += 4) {
            v.lo = weft_dev_bits_f32(w->f[i]) | (uint64_t)weft_dev_bits_f32(w->f[i + 1]) << 32;
            v.hi = weft_dev_bits_f32(w->f[i + 2]) | (uint64_t)weft_dev_bits_f32(w->f[i + 3]) << 32;
            weft_dev_store_vec16(to + i * sizeof(float), v);
        }
    }
}

/* Combines bytes begin ... end. element: size of what a thread combines at a time, one element or
 * 16 bytes of them. */
WEFT_DEVICE void fold_range(const struct coll_call *c, struct weft_dev_how h, uint64_t begin,
                            uint64_t end, unsigned element)
{
    const uint64_t threads = (uint64_t)weft_dev_grid_dim_x() * weft_dev_block_dim_x();
    const uint64_t rank =
        (uint64_t)weft_dev_block_x() * weft_dev_block_dim_x() + weft_dev_thread_x();
    WEFT_NO_UNROLL
    for (uint64_t at = begin + rank * element; at < end; at += threads * element) {
        struct weft_dev_wide w;
        if (c->src)
            fold_load(h, &w, fold_wide_at((char *)(uintptr_t)c->src, h, at), element);
        WEFT_NO_UNROLL
        for (int i = 0; i < c->members; i++) {
            const char *from = c->part[i] + at;
            struct weft_dev_vec16 v = element == 16 ? weft_dev_load_vec16_relaxed(from)
                                                    : weft_dev_element_load(from, element);
            if (i || c->src)
                weft_dev_wide_add(h, &w, v);
            else
                weft_dev_wide_begin(h, &w, v);
        }
        if (!c->fold.ends)
            fold_store(h, &w, fold_wide_at(c->dst, h, at), element);
        else if (element == 16)
            weft_dev_store_vec16(c->dst + at, weft_dev_wide_end(h, &w));
        else
            weft_dev_element_store(c->dst + at, weft_dev_wide_end(h, &w), element);
    }
}

/* part: addresses of the members' elements. src: what earlier members have; NULL: nothing.
 * fold.ends: dst gets the result, else what these and the earlier members have. */
KERNEL_OF_512 weft_coll_fold(struct coll_call call)
{
    const struct coll_call *c = &call;
    GRID_WAIT();
    struct weft_dev_how h = make_reduction(c, 1);
    h.members = c->fold.members;
    uintptr_t unaligned = (uintptr_t)c->dst;
    for (int i = 0; i < c->members; i++)
        unaligned |= (uintptr_t)c->part[i];
    const uint64_t vectors = unaligned & 15 ? 0 : c->bytes & ~(uint64_t)15;
    const unsigned element = (unsigned)weft_dev_type_bytes(h.type);
    const int widened = h.widened;
    if (widened == 16) {
        h.widened = 16;
        fold_range(c, h, 0, vectors, 16);
        h.widened = 1;
        fold_range(c, h, vectors, c->bytes, 1);
    } else if (widened) {
        h.widened = 8;
        fold_range(c, h, 0, vectors, 16);
        h.widened = 1;
        fold_range(c, h, vectors, c->bytes, 2);
    } else {
        h.widened = 0;
        if (h.type == WEFT_FLOAT && h.op == WEFT_SUM) {
            struct weft_dev_how sum = {WEFT_FLOAT, WEFT_SUM, 0, 0, 0, 0};
            fold_range(c, sum, 0, vectors, 16);
        } else {
            fold_range(c, h, 0, vectors, 16);
        }
        fold_range(c, h, vectors, c->bytes, element);
    }
}

#endif
