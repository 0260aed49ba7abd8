/* SPDX-License-Identifier: Apache-2.0 */
/* The device view on target simt. Device code runs in this process, so it uses the addresses of the
 * host. It accesses a peer directly where the host's path to that peer is load/store. */
#include "job/device_state.h"

#include <stdlib.h>
#include <string.h>

struct table {
    struct table *next;
    _Alignas(16) char bytes[];
};

struct simt_view {
    struct device_view view;
    struct weft_job *job;
    struct table *tables;
};

static const enum segment_id segments[WEFT_DEV_SEGMENTS] = {
    [WEFT_DEV_HEAP] = SEG_HEAP,
    [WEFT_DEV_OTHER] = SEG_COUNT, /* without a GPU there is no GPU heap */
    [WEFT_DEV_DATA] = SEG_DATA,
};

static struct simt_view *simt_view_of(struct device_view *view)
{
    return (struct simt_view *)view;
}

static bool reached(const struct weft_job *job, int pe)
{
    return job_direct(job, WEFT_HOST, pe);
}

static size_t simt_segment_bytes(struct device_view *view, enum weft_dev_segment_id segment)
{
    enum segment_id id = segments[segment];
    return id == SEG_COUNT ? 0 : simt_view_of(view)->job->segments[id].size;
}

/* The own part is at the symmetric address itself, whatever path a test chose. */
static uint64_t simt_part(struct device_view *view, enum weft_dev_segment_id segment, int pe)
{
    const struct weft_job *job = simt_view_of(view)->job;
    enum segment_id id = segments[segment];
    if (id == SEG_COUNT)
        return 0;
    if (pe == job->pe)
        return (uintptr_t)job->segments[id].base;
    return reached(job, pe) ? (uintptr_t)job->paths.map[pe][id] : 0;
}

static uint64_t simt_areas(struct device_view *view, int pe)
{
    const struct weft_job *job = simt_view_of(view)->job;
    if (pe != job->pe && !reached(job, pe))
        return 0;
    return (uintptr_t)job->paths.map[pe][SEG_SYSTEM] + device_areas_offset(job->npes);
}

static bool simt_atomics(struct device_view *view, int pe)
{
    const struct weft_job *job = simt_view_of(view)->job;
    return reached(job, pe) && job->paths.atomics[WEFT_HOST] == PATH_NONE;
}

static weft_status simt_table_make(struct device_view *view, size_t bytes, void **result)
{
    struct table *table = calloc(1, sizeof *table + bytes);
    if (!table)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a table of %zu bytes", bytes);
    table->next = simt_view_of(view)->tables;
    simt_view_of(view)->tables = table;
    *result = table->bytes;
    return WEFT_OK;
}

static weft_status simt_table_write(struct device_view *view, void *table, size_t offset,
                                    const void *from, size_t bytes)
{
    (void)view;
    memcpy((char *)table + offset, from, bytes);
    return WEFT_OK;
}

/* Aligned to cache lines of 64 bytes: one descriptor each. */
static weft_status simt_shared_make(struct device_view *view, size_t bytes, void **host,
                                    uint64_t *seen)
{
    void *table = NULL;
    weft_status status = simt_table_make(view, bytes + 64, &table);
    if (status)
        return status;
    *host = (void *)(((uintptr_t)table + 63) & ~(uintptr_t)63);
    *seen = (uintptr_t)*host;
    return WEFT_OK;
}

static void simt_close(struct device_view *view)
{
    struct simt_view *simt = simt_view_of(view);
    while (simt->tables) {
        struct table *table = simt->tables;
        simt->tables = table->next;
        free(table);
    }
    free(simt);
}

weft_status device_view_simt(struct weft_job *job, struct device_view **result)
{
    struct simt_view *simt = calloc(1, sizeof *simt);
    if (!simt)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for the device state");
    simt->job = job;
    simt->view = (struct device_view){
        .segment_bytes = simt_segment_bytes,
        .part = simt_part,
        .areas = simt_areas,
        .atomics = simt_atomics,
        .table_make = simt_table_make,
        .table_write = simt_table_write,
        .shared_make = simt_shared_make,
        .box = device_box(job->box),
        .close = simt_close,
    };
    *result = &simt->view;
    return WEFT_OK;
}
