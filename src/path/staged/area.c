/* SPDX-License-Identifier: Apache-2.0 */
/* Path `staged`: the memory that the PEs of a node share for it, created when the first pair of the
 * job needs the path. Addresses for every ordered pair are reserved at once; the kernel allocates
 * memory only for channels that are used. */
#include "path/staged/staged.h"

#include "base/log.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static size_t mailbox_bytes(int local_npes)
{
    return sizeof(struct staged_mailbox) +
           (size_t)local_npes * sizeof(struct staged_channel_memory);
}

static void set_up_channel(struct staged_common *common, int slot)
{
    struct staged_channel *channel = &common->channels[slot];
    channel->common = common;
    channel->slot = slot;
    channel->pe = common->world->boot->local_pes[slot];
    channel->mailbox = staged_mailbox(common, slot);
    struct staged_channel_memory *memory = &channel->mailbox->channels[common->local_pe];
    channel->ring = &memory->ring;
    channel->buffers[STAGED_HOST_BUFFER] =
        (struct staged_buffer){.memory = memory->host_buffer, .bytes = STAGED_HOST_BYTES};
    channel->buffers[STAGED_GPU_BUFFER] =
        (struct staged_buffer){.memory = memory->gpu_buffer, .bytes = STAGED_GPU_BYTES};
    pthread_mutex_init(&channel->lock, NULL);
}

static weft_status make_area(struct staged_common *common, struct boot *boot)
{
    if (boot->local_npes > STAGED_MOST_PES)
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "path staged: %d PEs on a node; it serves at most %d", boot->local_npes,
                         STAGED_MOST_PES);
    weft_status status =
        segment_create(&common->area, boot, "weft-staged", mailbox_bytes(boot->local_npes));
    if (status)
        return status;
    /* A huge page would take 2 MiB for a channel that is hardly used. If the kernel refuses, that
     * costs memory only. */
    madvise(common->area.slots, common->area.stride * (size_t)common->area.slot_count,
            MADV_NOHUGEPAGE);
    for (int slot = 0; slot < common->local_npes; slot++)
        set_up_channel(common, slot);
    atomic_fetch_add(&staged_mailbox(common, 0)->users, 1);
    return WEFT_OK;
}

weft_status staged_join(const struct path_world *world, struct path_common **result)
{
    struct boot *boot = world->boot;
    struct staged_common *common = calloc(1, sizeof *common);
    if (!common)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for path staged");
    *common = (struct staged_common){
        .world = world, .area.fd = -1, .local_pe = boot->local_pe, .local_npes = boot->local_npes};
    *result =
        (struct path_common *)(void *)common; /* staged_leave() frees it, also after an error. */
    common->channels = calloc((size_t)common->local_npes, sizeof *common->channels);
    if (!common->channels)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for path staged to %d PEs",
                         common->local_npes);
    weft_status status = make_area(common, boot);
    return status ? status : staged_owner_start(common);
}

/* PEs that are threads share one mapping; the last of them unmaps it. */
static void drop_area(struct staged_common *common)
{
    struct segment *area = &common->area;
    if (!area->slots)
        return;
    bool last = atomic_fetch_sub(&staged_mailbox(common, 0)->users, 1) == 1;
    if (common->world->boot->shared_slot) {
        if (last)
            munmap(area->slots, area->stride * (size_t)area->slot_count);
        area->slots = NULL;
    }
    segment_destroy(area);
}

static void drop_channel(struct staged_common *common, struct staged_channel *channel)
{
    struct gpu *gpu = common->world->gpu;
    for (int i = 0; i < STAGED_SLOTS; i++)
        gpu_event_release(gpu, &channel->pending[i].copy_event);
    pthread_mutex_destroy(&channel->lock);
}

void staged_leave(struct path_common *path_common)
{
    struct staged_common *common = (struct staged_common *)(void *)path_common;
    staged_owner_stop(common->owner);
    for (int slot = 0; common->area.slots && slot < common->local_npes; slot++)
        drop_channel(common, &common->channels[slot]);
    if (common->world->gpu)
        gpu_unpin_range(common->world->gpu, common->area.slots,
                        common->area.stride * (size_t)common->area.slot_count);
    drop_area(common);
    free(common->channels);
    free(common);
}

/* Pins the slots and the buffer for GPU memory, with huge pages for the buffer if the kernel has
 * them. */
bool staged_pin_channel(const struct staged_common *common, struct staged_channel_memory *memory)
{
    struct gpu *gpu = common->world->gpu;
    madvise(memory->gpu_buffer, sizeof memory->gpu_buffer, MADV_HUGEPAGE);
    weft_status status =
        gpu_pin_range(gpu, memory, offsetof(struct staged_channel_memory, host_buffer));
    if (!status)
        status = gpu_pin_range(gpu, memory->gpu_buffer, sizeof memory->gpu_buffer);
    if (status)
        log_info(LOG_STAGED,
                 "path staged: staging memory is not pinned, so the driver copies twice: %s",
                 base_last_error());
    return true;
}
