/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes the black boxes of a running job. See boxes.h. */
#include "tool/boxes.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/printable.h"
#include "box/box.h"
#include "job/device_state.h"
#include "memory/segment.h"
#include "tool/system_segment.h"

_Static_assert((int)BOXES_BYTES == (int)BOX_BYTES, "a box has BOXES_BYTES bytes");
_Static_assert((int)BOXES_WAITS_MOST >= (int)BOX_WAITS, "every wait has a place");
_Static_assert((int)BOXES_HISTORY_MOST >= (int)BOX_HISTORY, "every past operation has a place");
_Static_assert((int)BOXES_PATHS_MOST >= (int)BOX_PATHS, "every path has a place");
_Static_assert((int)BOXES_KERNELS_MOST >= (int)WEFT_DEV_RECORDS,
               "every record of a kernel has a place");

/* --- decoding a box --------------------------------------------------------------------------- */

static void decode_waits(const struct box *box, struct boxes_pe *pe)
{
    static const char *const signs[] = {"==", "!=", ">", "<=", "<", ">="};
    for (int i = 0; i < BOX_WAITS; i++) {
        const struct box_wait *wait = &box->waits[i];
        if (wait->operation == BOX_OP_NONE)
            continue;
        struct boxes_wait *decoded = &pe->waits[pe->n_waits++];
        *decoded = (struct boxes_wait){
            .operation = box_operation_name(wait->operation),
            .peer = wait->peer,
            .compare = wait->compare < WEFT_CMP_COUNT         ? signs[wait->compare]
                       : wait->compare == BOX_COMPARE_REQUEST ? ">="
                                                              : "?",
            .expected = wait->expected,
            .seen = wait->seen,
            .offset = wait->offset,
            .segment = wait->segment == SEG_HEAP   ? "heap"
                       : wait->segment == SEG_DATA ? "global data"
                       : wait->segment == SEG_GPU  ? "GPU heap"
                                                   : "library's memory",
            .since_ns = wait->since_ns,
        };
        box_wait_text(wait, decoded->what, sizeof decoded->what);
    }
}

static void decode_past(const struct box *box, struct boxes_pe *pe)
{
    uint64_t count = box->past_count;
    pe->past_count = count;
    for (uint64_t i = count > BOX_HISTORY ? count - BOX_HISTORY : 0; i < count; i++) {
        const struct box_past *past = &box->past[i % BOX_HISTORY];
        pe->past[pe->n_past++] =
            (struct boxes_past){box_operation_name(past->operation), past->bytes};
    }
}

static void decode_paths(const struct box *box, struct boxes_pe *pe)
{
    for (int i = 0; i < BOX_PATHS; i++) {
        struct boxes_path path = {.operations = 0};
        for (int context = 0; context < BOX_CONTEXTS; context++) {
            path.operations += box->counters[context][i].operations;
            path.bytes += box->counters[context][i].bytes;
            if (!path.last[0])
                box_last_text(&box->counters[context][i], path.last, sizeof path.last);
        }
        if (!path.operations)
            continue;
        system_segment_text(path.name, box->paths[i], sizeof path.name);
        pe->paths[pe->n_paths++] = path;
    }
}

static void decode_kernels(const struct weft_dev_box *device, struct boxes_pe *pe)
{
    if (device->version != WEFT_DEV_VERSION)
        return;
    for (int i = 0; i < WEFT_DEV_RECORDS; i++) {
        const struct weft_dev_record *record = &device->records[i];
        if (record->state == WEFT_DEV_RECORD_FREE || record->state > WEFT_DEV_RECORD_REFUSED)
            continue;
        char *text = pe->kernels[pe->n_kernels++];
        device_record_text(record, pe->pe, text, sizeof pe->kernels[0]);
        printable(text);
    }
}

static void decode_ring(const struct box_proxy *box, struct boxes_proxy *ring)
{
    int32_t peer = box->peer;
    ring->carried = box->carried;
    ring->completed = box->completed;
    ring->since_ns = box->since_ns;
    if (!ring->since_ns)
        return;
    ring->behind = box->behind;
    const char *name = device_operation_name(box->operation);
    if (peer < 0)
        snprintf(ring->under_way, sizeof ring->under_way, "%s", name);
    else
        snprintf(ring->under_way, sizeof ring->under_way, "%s to PE %d", name, peer);
}

static void add_ring(struct boxes_proxy *all, const struct boxes_proxy *ring)
{
    all->carried += ring->carried;
    all->completed += ring->completed;
    all->behind += ring->behind;
    if (!ring->since_ns || (all->since_ns && all->since_ns <= ring->since_ns))
        return;
    all->since_ns = ring->since_ns;
    memcpy(all->under_way, ring->under_way, sizeof all->under_way);
}

static void decode_proxy(const struct box *box, struct boxes_pe *pe)
{
    _Static_assert((int)BOXES_RINGS_MOST == (int)BOX_PROXIES, "a place for each");
    for (int i = 0; i < BOX_PROXIES; i++) {
        struct boxes_proxy *ring = &pe->rings[pe->n_rings];
        ring->ring = i;
        decode_ring(&box->proxies[i], ring);
        if (!ring->carried && !ring->since_ns)
            continue;
        add_ring(&pe->proxy, ring);
        pe->n_rings++;
    }
}

static enum boxes_state state_of(const struct box *box)
{
    switch ((uint32_t)box->state) {
    case BOX_EMPTY:
        return BOXES_STARTING;
    case BOX_RUNNING:
        return BOXES_RUNNING;
    case BOX_FINALIZED:
        return BOXES_FINALIZED;
    case BOX_ABORTED:
        return BOXES_ABORTED;
    default:
        return BOXES_UNKNOWN;
    }
}

void boxes_decode(const void *bytes, struct boxes_pe *pe)
{
    /* The PE keeps writing, so all checks and texts use one copy. */
    static struct box box;
    static struct weft_dev_box device;
    memcpy(&box, bytes, sizeof box);
    memcpy(&device, (const char *)bytes + BOX_DEVICE_OFFSET, sizeof device);
    *pe = (struct boxes_pe){.present = box.magic == BOX_MAGIC && box.version == BOX_VERSION,
                            .alive = pe->alive};
    if (!pe->present)
        return;
    pe->pe = box.pe;
    pe->pid = box.pid;
    pe->npes = box.npes;
    pe->node = box.node;
    pe->state = state_of(&box);
    pe->start_ns = box.start_ns;
    pe->collectives = box.collectives;
    system_segment_text(pe->program, box.program, sizeof pe->program);
    system_segment_text(pe->failure, box.failure, sizeof pe->failure);
    decode_waits(&box, pe);
    decode_past(&box, pe);
    decode_paths(&box, pe);
    decode_kernels(&device, pe);
    decode_proxy(&box, pe);
}

/* --- the boxes of a job ----------------------------------------------------------------------- */

static void copy_box(struct boxes_pe *pe, const void *box)
{
    boxes_decode(box, pe);
    pe->alive = pe->present && pe->pid > 0 && (kill(pe->pid, 0) == 0 || errno == EPERM);
}

bool boxes_read(int pid, struct boxes_job *job, char *why, int why_bytes)
{
    struct system_segment segment;
    *job = (struct boxes_job){.now_ns = clock_now_ns()};
    int pe = system_segment_find_pe(pid);
    if (!system_segment_open(pe ? pe : pid, &segment, why, why_bytes))
        return false;
    job->pes = calloc((size_t)segment.slots, sizeof *job->pes);
    job->count = job->pes ? segment.slots : 0;
    for (int i = 0; i < job->count; i++) {
        const void *box = system_segment_map(&segment, i, BOX_BYTES);
        if (!box)
            continue;
        copy_box(&job->pes[i], box);
        munmap((void *)box, BOX_BYTES);
    }
    system_segment_close(&segment);
    if (!job->pes)
        snprintf(why, (size_t)why_bytes, "no memory for %d black boxes", segment.slots);
    return job->pes != NULL;
}

void boxes_free(struct boxes_job *job)
{
    free(job->pes);
    job->pes = NULL;
}
