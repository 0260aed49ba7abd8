/* SPDX-License-Identifier: Apache-2.0 */
/* Creation and destruction of path gda's state of a job. */
#include "path/gda/dc.h"

#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "boot/agree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static weft_status create_bounce(struct gda *gda)
{
    size_t bytes = (size_t)GDA_BOUNCES * GDA_BOUNCE_BYTES;
    void *bounce = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bounce == MAP_FAILED)
        return base_fail(WEFT_ERR_NO_MEMORY, "path gda: no private memory of %zu bytes", bytes);
    gda->bounce = bounce;
    for (uint32_t a = 0; a < gda->count; a++) {
        const struct gda_adapter *adapter = &gda->adapters->one[a];
        gda->bounce_regions[a] =
            adapter->lib->verbs.reg_mr(adapter->pd, bounce, bytes, IBV_ACCESS_LOCAL_WRITE);
        if (!gda->bounce_regions[a])
            return base_fail(WEFT_ERR_SYSTEM, "path gda: %s: ibv_reg_mr of %zu bytes: %s",
                             adapter->name, bytes, strerror(errno));
    }
    return WEFT_OK;
}

/* A PE may lack an adapter if no PE uses the path to it; join is then not called. */
static weft_status create_job_state(struct gda *gda)
{
    if (!gda->adapters)
        return base_fail(WEFT_ERR_NO_PATH,
                         "path gda: PE %d has no adapter, but other PEs chose this path",
                         gda->world->pe);
    weft_status status = gda_register_segments(gda);
    if (!status)
        status = create_bounce(gda);
    if (!status)
        status = gda_create_queue_tables(gda);
    return status || !gda->dc ? status : gda_create_targets(gda);
}

/* Collective. Where an adapter refuses a queue, queues are connected at their first use instead, if
 * another path can execute the requests of those that are refused then. */
static weft_status create_all_links(struct gda *gda)
{
    const struct path_world *world = gda->world;
    weft_status status = gda->eager ? gda_create_links(gda, 0, world->npes) : WEFT_OK;
    status = boot_agree(world->boot, status);
    if (status != WEFT_ERR_SYSTEM || !gda_may_fail_over(gda))
        return status;
    log_info(LOG_GDA, "path gda: queues are connected at their first use: %s", base_last_error());
    gda_drop_links(gda);
    gda->eager = false;
    return WEFT_OK;
}

weft_status gda_create(const struct path_world *world, struct gda_adapters *adapters,
                       struct gda **result)
{
    struct gda *gda = calloc(1, sizeof *gda);
    if (!gda) {
        gda_drop_adapters(adapters);
        return boot_agree(world->boot, base_fail(WEFT_ERR_NO_MEMORY, "no memory for path gda"));
    }
    *result = gda;
    gda->world = world;
    gda->adapters = adapters;
    gda->count = adapters ? adapters->count : 1;
    gda->queues_per_pe = gda_queues_each(gda->count, gda->world->npes);
    gda->depth = (uint32_t)config_int(CONFIG_TEST_GDA_DEPTH);
    bool dc = adapters && adapters->dc && gda_rc_peers(world, gda->count) < world->npes - 1;
    if (dc)
        gda->dc = gda_create_dc(world->npes, gda->count, gda_rc_peers(world, gda->count));
    /* With DC, the RC queues to some PEs are connected at first use. */
    gda->eager = world->npes <= config_int(CONFIG_TEST_GDA_EAGER) && !dc;
    gda->chunk_bits = (uint32_t)__builtin_ctzll(config_size(CONFIG_TEST_GDA_CHUNK));
    pthread_mutex_init(&gda->lock, NULL);
    pthread_mutex_init(&gda->cuda_lock, NULL);
    weft_status status = dc && !gda->dc
                             ? base_fail(WEFT_ERR_NO_MEMORY, "path gda: no private memory for DC")
                             : create_job_state(gda);
    status = boot_agree(world->boot, status);
    if (!status)
        status = create_all_links(gda);
    return status ? status : gda_connect(gda);
}

void gda_destroy(struct gda *gda)
{
    gda_end_failover(gda);
    gda_close_cuda(gda);
    if (gda->adapters)
        gda_close_gpu_queues(gda);
    gda_free_simt(gda->simt);
    if (gda->adapters) {
        gda_destroy_dc(gda);
        gda_destroy_queues(gda);
        gda_free_gpu(gda);
        gda_free_memory(gda);
        for (uint32_t a = 0; a < gda->count; a++)
            if (gda->bounce_regions[a])
                gda->adapters->lib.verbs.dereg_mr(gda->bounce_regions[a]);
        if (gda->bounce)
            munmap(gda->bounce, (size_t)GDA_BOUNCES * GDA_BOUNCE_BYTES);
        gda_drop_adapters(gda->adapters);
    }
    pthread_mutex_destroy(&gda->cuda_lock);
    pthread_mutex_destroy(&gda->lock);
    free(gda);
}
