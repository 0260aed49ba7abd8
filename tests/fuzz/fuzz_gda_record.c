/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the exchange record of a peer over path gda (finding A23): accepted records are used
 * as connect.c, far.c and open.c of path gda use them, in memory of exactly the received size. */
#include "path/gda/record.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A copy of that many bytes, padded with zeros. */
static void *copy_of(const uint8_t *data, size_t size, size_t bytes)
{
    void *copy = calloc(1, bytes);
    if (!copy)
        abort();
    memcpy(copy, data, size < bytes ? size : bytes);
    return copy;
}

static void connect_record(const struct gda_shape *shape, const struct gda_record *record)
{
    const uint32_t *words = gda_record_words(record);
    uint64_t end = 0;
    if (gda_record_fault(shape, record))
        return;
    for (uint32_t a = 0; a < shape->adapters; a++)
        if (record->addresses[a].mtu - 1 > 4 || record->addresses[a].ethernet > 1 ||
            (shape->dc && (record->dc_targets[a] - 1) >> 24))
            abort();
    for (int s = 0; s < SEG_COUNT; s++) {
        if (shape->sizes[s] && record->bases[s] + shape->sizes[s] < record->bases[s])
            abort();
        end += record->bases[s];
    }
    for (size_t i = 0; i < (gda_record_bytes(shape) - sizeof *record) / sizeof *words; i++)
        end += words[i];
    for (size_t i = 0; i < (size_t)shape->npes * (shape->queues_per_pe + shape->adapters); i++)
        if (words[gda_record_keys(shape) + i] >> 24)
            abort();
    (void)end;
}

/* Two PEs of one node. */
static void pick(const uint8_t *data, size_t size)
{
    static const int node_of[2] = {0, 0};
    struct gda_candidates *all = copy_of(data, size, 2 * sizeof *all);
    struct gda_picked picked;
    if (!gda_candidates_fault(&all[0]) && !gda_candidates_fault(&all[1]))
        for (int pe = 0; pe < 2; pe++) {
            gda_pick_adapters(all, node_of, 2, pe, &picked);
            for (uint32_t i = 0; i < picked.count; i++)
                if (picked.count > GDA_ADAPTERS_MOST || (int32_t)picked.which[i] >= all[pe].count)
                    abort();
        }
    free(all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4)
        return 0;
    struct gda_shape shape = {.adapters = 1 + data[1] % GDA_ADAPTERS_MOST,
                              .queues_per_pe = 1 + data[2] % 5,
                              .chunks = 1 + data[3] % 7,
                              .chunk_bits = 16,
                              .relaxed = data[0] >> 1 & 1,
                              .dc = data[0] >> 3 & 1,
                              .npes = 1 + data[1] / 16u,
                              .sizes = {65536, 0, 4096}};
    if (data[0] & 1) {
        pick(data + 4, size - 4);
        return 0;
    }
    struct gda_record *record = copy_of(data + 4, size - 4, gda_record_bytes(&shape));
    if (data[0] & 4) { /* the sizes that the record must contain */
        record->queues_per_pe = shape.queues_per_pe;
        record->chunks = shape.chunks;
        record->chunk_bits = shape.chunk_bits;
        record->relaxed = shape.relaxed;
    }
    connect_record(&shape, record);
    free(record);
    return 0;
}
