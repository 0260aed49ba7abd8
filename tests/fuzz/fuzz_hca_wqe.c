/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a work request: the decoder reads only inside it, its segments add up to its length,
 * and no message exceeds the maximum. */
#include "standin/hca/wqe.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const uint32_t *words, const struct wqe *w)
{
    struct wqe_segment s;
    unsigned at = w->data;
    uint64_t sum = 0;
    bool fits;
    while (wqe_segment_next(words, w->units, &at, &s, &fits)) {
        sum += s.bytes;
        if (s.is_inline && s.address + s.bytes > w->units * (uint64_t)WQE_UNIT_BYTES)
            abort();
    }
    if (!fits || sum != w->length || sum > WQE_MAX_MESSAGE)
        abort();
    if (wqe_is_atomic(w->opcode) && w->length != 4 && w->length != 8)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wqe w;
    memset(&w, 0, sizeof w);
    if (size < WQE_UNIT_BYTES || size > WQE_MAX_UNITS * WQE_UNIT_BYTES)
        return 0;
    /* Exactly as much memory as the request says it has, so that a sanitizer detects reads past its
     * end. */
    uint32_t control[4];
    memcpy(control, data, sizeof control);
    wqe_control(control, &w);
    size_t bytes = w.units * (size_t)WQE_UNIT_BYTES;
    if (!bytes || bytes > size)
        return 0;
    uint32_t *words = malloc(bytes);
    memcpy(words, data, bytes);
    for (int dc = 0; dc < 2; dc++) {
        wqe_control(words, &w);
        if (!wqe_decode(words, dc, &w))
            check(words, &w);
    }
    free(words);
    return 0;
}
