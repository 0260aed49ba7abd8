/* SPDX-License-Identifier: Apache-2.0 */
/* See coll_rates.h. */
#include "tool/coll_rates.h"

#include "base/config.h"
#include "driver/gpu_api.h"
#include "gpu/coll/coll.h"
#include "ops/coll/kernel.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* -------------------------------------------------------------------------------- without a job */

/* The GPUs of this machine; false when the driver or its GPUs are unknown. */
static bool machine_here(struct coll_machine *machine)
{
    struct gpu_api driver;
    CUdevice device;
    *machine = (struct coll_machine){.gpus = 0};
    if (gpu_api_open(&driver))
        return false;
    machine->driver = driver.driver_version;
    bool known = !driver.DeviceGetCount(&machine->gpus) && machine->gpus > 0 &&
                 !driver.DeviceGet(&device, 0) &&
                 !driver.DeviceGetName(machine->gpu, (int)sizeof machine->gpu, device);
    gpu_api_close(&driver);
    return known;
}

/* Reads a file that WEFT_COLL_RATES names, on a machine without a GPU: shows what the machine of
 * the file would choose. */
static void read_named_file(struct coll_rates *rates, char *text, size_t bytes)
{
    const char *path = config_string(CONFIG_COLL_RATES);
    struct coll_measured measured;
    struct coll_machine of;
    if (coll_rates_read(path, NULL, rates, &measured, &of))
        snprintf(text, bytes, "built in: %s", weft_last_error());
    else
        snprintf(text, bytes, "of %s, measured %s by %d PEs on %d %s", path, measured.date,
                 measured.pes, of.gpus, of.gpu);
}

void tool_coll_rates_here(struct coll_rates *rates, char *text, size_t bytes)
{
    struct coll_machine machine;
    struct coll_measured measured;
    char path[600], why[512];
    const char *named = config_string(CONFIG_COLL_RATES);
    *rates = coll_rates_built_in;
    snprintf(text, bytes, "built in");
    if (strcmp(named, "off") == 0 || (!*named && !coll_rates_any()))
        return;
    if (!machine_here(&machine)) {
        if (*named)
            read_named_file(rates, text, bytes);
        return;
    }
    coll_rates_find(&machine, rates, &measured, path, sizeof path, why, sizeof why);
    if (*why)
        snprintf(text, bytes, "built in: %s", why);
    else if (*path)
        snprintf(text, bytes, "of %s, measured %s by %d PEs on %d %s", path, measured.date,
                 measured.pes, machine.gpus, machine.gpu);
}

/* ------------------------------------------------------------------------------------- in a job */

bool tool_coll_by_kernels(weft_team *team)
{
    return coll_kernel_serves(team);
}

int tool_coll_gpus(const weft_team *team)
{
    const struct gpu *gpu = team->job->gpu;
    int count = 0;
    for (int i = 0; i < team->n; i++) {
        const CUuuid *mine = &gpu->heap.windows[gpu->slot_of[team->pes[i]]].gpu.uuid;
        int k = 0;
        while (k < i && memcmp(&gpu->heap.windows[gpu->slot_of[team->pes[k]]].gpu.uuid, mine,
                               sizeof *mine) != 0)
            k++;
        count += k == i;
    }
    return count;
}

weft_status tool_coll_force(weft_team *team, enum coll_algorithm way, int sms)
{
    return coll_kernel_force(team, way, coll_blocks_of(sms));
}

const struct coll_rates *tool_coll_rates(weft_team *team)
{
    const struct coll_rates *rates = coll_kernel_rates(team);
    return rates ? rates : &coll_rates_built_in;
}

static struct coll_question question(const weft_team *team, enum coll_what what,
                                     enum coll_algorithm way, int sms, uint64_t bytes)
{
    return (struct coll_question){.what = what,
                                  .members = team->n,
                                  .bytes = bytes,
                                  .set_bytes =
                                      coll_set_bytes(&team->job->gpu->layout.coll, team->slot),
                                  .direct = true,
                                  .ll128 = coll_kernel_ll128(team),
                                  .most_blocks = coll_blocks_of(sms),
                                  .forced = way};
}

static struct tool_coll_model model(weft_team *team, struct coll_question q,
                                    enum coll_algorithm way)
{
    const struct coll_rates *rates = tool_coll_rates(team);
    struct tool_coll_model says = {
        .taken = way, .us = coll_cost(&q, rates, way), .floor_us = coll_floor(&q, rates)};
    if (way == COLL_ALGO_COPIES)
        return says;
    struct coll_choice choice = coll_choose(&q, rates);
    says.blocks = choice.blocks;
    if (way == COLL_ALGO_AUTO) {
        says.taken = choice.algorithm;
        says.us = coll_cost(&q, rates, choice.algorithm);
    }
    return says;
}

struct tool_coll_model tool_coll_model(weft_team *team, enum coll_what what,
                                       enum coll_algorithm way, int sms, uint64_t bytes)
{
    return model(team, question(team, what, way, sms, bytes), way);
}

struct tool_coll_model tool_coll_model_strided(weft_team *team, enum coll_algorithm way, int sms,
                                               uint64_t bytes)
{
    struct coll_question q = question(team, COLL_ALLTOALL, way, sms, bytes);
    q.strided = true;
    return model(team, q, way);
}

uint64_t tool_coll_round_bytes(weft_team *team, enum coll_what what, enum coll_algorithm way)
{
    struct coll_question q = question(team, what, way, 64, (uint64_t)1 << 40);
    return coll_choose(&q, &coll_rates_built_in).bytes;
}

weft_status tool_coll_keep(weft_job *job, const struct coll_rates *rates, int pes, char *path,
                           size_t bytes)
{
    struct coll_machine machine;
    struct coll_measured measured = {.pes = pes};
    struct tm day;
    time_t now = time(NULL);
    if (!job->gpu)
        return base_fail(WEFT_ERR_UNSUPPORTED, "rates describe GPUs, but this job has none");
    coll_kernel_machine(job, &machine);
    if (!coll_rates_file(&machine, path, bytes))
        return base_fail(WEFT_ERR_CONFIG, "rates cannot be stored: WEFT_COLL_RATES is off, or "
                                          "neither HOME nor XDG_CACHE_HOME names a folder");
    if (!gmtime_r(&now, &day) || !strftime(measured.date, sizeof measured.date, "%Y-%m-%d", &day))
        snprintf(measured.date, sizeof measured.date, "some day");
    weft_status status = coll_rates_write(path, &machine, rates, &measured);
    struct coll_rates kept = *rates;
    return status ? status : coll_rates_read(path, &machine, &kept, &measured, NULL);
}
