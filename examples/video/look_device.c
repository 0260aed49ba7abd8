/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel of look.h, one source for GPUs and for CPU threads. Each byte of a frame is read once,
 * since on a GPU every read crosses PCIe. The result goes to pinned memory and needs no copy. */
#include <weft_device.h>

#include "look.h"

/* Sums of a frame while blocks process it, in device memory. The last block resets them to 0. */
typedef struct scan_sums {
    uint64_t checksum;
    uint32_t blocks_done;
    uint32_t pixels[BRIGHTNESSES];
} scan_sums;

/* Mixes the bits of a word. Source: the finalizer of splitmix64 (G. L. Steele et al., "Fast
 * Splittable Pseudorandom Number Generators", OOPSLA 2014). */
WEFT_DEVICE uint64_t spread(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Returns the contribution of the 8 bytes with index `index` to the checksum. */
WEFT_DEVICE uint64_t share(uint64_t word, uint64_t index)
{
    return spread(word + 0x9e3779b97f4a7c15u * (index + 1));
}

/* Adjacent pixels are often equal: they are counted together by one atomic. */
typedef struct run {
    uint32_t *pixels;
    uint32_t brightness, length;
} run;

WEFT_DEVICE void run_end(run *r)
{
    if (r->length)
        weft_dev_atomic_add_u32(&r->pixels[r->brightness], r->length, WEFT_ORDER_RELAXED,
                                WEFT_SCOPE_CTA);
    r->length = 0;
}

WEFT_DEVICE void run_add(run *r, uint32_t brightness)
{
    if (brightness != r->brightness)
        run_end(r);
    r->brightness = brightness;
    r->length++;
}

/* Counts the pixels among the `bytes` bytes at offset `at` of the frame; data are those bytes in
 * two words. */
WEFT_DEVICE void count_pixels(const struct picture *p, uint64_t at, uint64_t lo, uint64_t hi,
                              unsigned bytes, run *r)
{
    if (at + bytes <= p->luma || at >= p->luma + (uint64_t)p->stride * p->height)
        return;
    unsigned i = at < p->luma ? (unsigned)(p->luma - at) : 0;
    uint32_t place = (uint32_t)(at + i - p->luma), y = place / p->stride, x = place % p->stride;
    for (; i < bytes && y < p->height; i++) {
        if (x % p->step == 0 && x / p->step < p->width)
            run_add(r, (uint32_t)((i < 8 ? lo >> 8 * i : hi >> 8 * (i - 8)) & 0xff));
        if (++x == p->stride) {
            x = 0;
            y++;
        }
    }
}

/* Loads the last bytes of a frame whose size is not a multiple of 16, padded with zeros. */
WEFT_DEVICE struct weft_dev_vec16 load_rest(const unsigned char *data, unsigned bytes)
{
    struct weft_dev_vec16 value = {0, 0};
    for (unsigned i = 0; i < bytes; i++) {
        if (i < 8)
            value.lo |= (uint64_t)data[i] << 8 * i;
        else
            value.hi |= (uint64_t)data[i] << 8 * (i - 8);
    }
    return value;
}

/* Processes this thread's part of the frame: returns its part of the checksum, and counts its
 * pixels. */
WEFT_DEVICE uint64_t scan_part(const struct picture *p, const unsigned char *data, uint32_t *pixels)
{
    uint64_t sum = 0;
    run r = {pixels, 0, 0};
    for (size_t k = weft_dev_grid_rank(); k * 16 < p->bytes; k += weft_dev_grid_threads()) {
        size_t left = p->bytes - k * 16;
        struct weft_dev_vec16 v = left >= 16 ? weft_dev_load_vec16_once(data + k * 16)
                                             : load_rest(data + k * 16, (unsigned)left);
        sum += share(v.lo, 2 * k);
        if (left > 8)
            sum += share(v.hi, 2 * k + 1);
        count_pixels(p, k * 16, v.lo, v.hi, left < 16 ? (unsigned)left : 16, &r);
    }
    run_end(&r);
    return sum;
}

/* Called by the last block: writes the sums of all blocks to the host. */
WEFT_DEVICE void hand_over(scan_sums *sums, struct scan_result *result)
{
    for (unsigned i = weft_dev_thread_rank(); i < BRIGHTNESSES; i += weft_dev_block_threads())
        result->pixels[i] =
            weft_dev_atomic_exch_u32(&sums->pixels[i], 0, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    if (weft_dev_thread_rank() == 0) {
        result->checksum =
            weft_dev_atomic_exch_u64(&sums->checksum, 0, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
        sums->blocks_done = 0;
    }
}

WEFT_KERNEL(scan_kernel, (struct picture, picture), (const unsigned char *, data),
            (scan_sums *, sums), (struct scan_result *, result))
{
    WEFT_SHARED(uint32_t, pixels, [BRIGHTNESSES]);
    WEFT_SHARED(uint64_t, checksum, [1]);
    WEFT_SHARED(uint32_t, is_last, [1]);
    unsigned me = weft_dev_thread_rank();
    for (unsigned i = me; i < BRIGHTNESSES; i += weft_dev_block_threads())
        pixels[i] = 0;
    if (me == 0)
        checksum[0] = 0;
    weft_dev_sync_block();

    uint64_t mine = scan_part(&picture, data, pixels);
    weft_dev_atomic_add_u64(checksum, mine, WEFT_ORDER_RELAXED, WEFT_SCOPE_CTA);
    weft_dev_sync_block();

    for (unsigned i = me; i < BRIGHTNESSES; i += weft_dev_block_threads())
        if (pixels[i])
            weft_dev_atomic_add_u32(&sums->pixels[i], pixels[i], WEFT_ORDER_RELAXED,
                                    WEFT_SCOPE_GPU);
    weft_dev_sync_block();
    if (me == 0) {
        weft_dev_atomic_add_u64(&sums->checksum, checksum[0], WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
        /* Pairs with the same add of the other blocks: releases this block's sums (the sync has
         * ordered the other threads' sums before it), and acquires those of earlier blocks. */
        is_last[0] = weft_dev_atomic_add_u32(&sums->blocks_done, 1, WEFT_ORDER_ACQ_REL,
                                             WEFT_SCOPE_GPU) == weft_dev_grid_blocks() - 1;
    }
    weft_dev_sync_block();
    if (is_last[0])
        hand_over(sums, result);
}

#if WEFT_HOST_CODE

#include <stdlib.h>
#include <string.h>

struct scan {
    scan_sums *sums;
    struct scan_result *result;
};

uint64_t checksum_of(const unsigned char *data, size_t bytes)
{
    uint64_t sum = 0, word, index = 0;
    for (size_t i = 0; i < bytes; i += sizeof word, index++) {
        word = 0;
        memcpy(&word, data + i, bytes - i < sizeof word ? bytes - i : sizeof word);
        sum += share(word, index);
    }
    return sum;
}

weft_status scan_create(weft_job *job, struct scan **scan)
{
    struct scan *made = calloc(1, sizeof *made);
    void *sums = NULL, *result = NULL;
    *scan = NULL;
    if (!made)
        return WEFT_ERR_NO_MEMORY;
    weft_status status =
        weft_alloc(job, weft_device_kind(job), sizeof(scan_sums), 0, WEFT_ALLOC_ZERO, &sums);
    if (!status)
        status = weft_alloc(job, WEFT_HOST, sizeof(struct scan_result), 0, 0, &result);
    if (status) {
        free(made);
        return status;
    }
    made->sums = sums;
    made->result = result;
    *scan = made;
    return WEFT_OK;
}

weft_status scan_destroy(weft_job *job, struct scan *scan)
{
    weft_status status = weft_free(job, scan->result);
    if (!status)
        status = weft_free(job, scan->sums);
    free(scan);
    return status;
}

weft_status scan_frame(struct scan *scan, const struct picture *picture, const unsigned char *data,
                       const struct scan_result **result)
{
    int gpu = weft_target_get() == WEFT_CUDA;
    *result = scan->result;
    weft_status status = WEFT_LAUNCH(scan_kernel, gpu ? 64 : 4, gpu ? 256 : 32, 0, NULL, *picture,
                                     data, scan->sums, scan->result);
    return status ? status : weft_stream_synchronize(NULL);
}
#endif
