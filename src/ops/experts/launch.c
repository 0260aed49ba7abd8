/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of dispatch and combine, on the target of the job's device code: by the GPU driver, or
 * by the SIMT executor; their internal stream and events. */
#include "ops/experts/experts.h"

#include "job/device_state.h"
#include "job/late_image.h"
#include "ops/experts/relay.h"
#include "ops/experts/short.h"
#include "ops/stream/events.h"
#include "ops/stream/stream.h"

#include <weft/simt_executor.h>

#define NAME_TEXT(name) #name

#define EXPERTS_SIMT(name, threads)                                                                \
    static void run_##name(const void *call)                                                       \
    {                                                                                              \
        experts_##name(call);                                                                      \
    }
EXPERTS_KERNELS(EXPERTS_SIMT)
#undef EXPERTS_SIMT

/* Whether blocks of the kernel wait for each other. */
static bool is_one_kernel(enum experts_kernel kernel)
{
    return kernel == EXPERTS_short_dispatch || kernel == EXPERTS_short_combine;
}

static weft_status launch_simt(enum experts_kernel kernel, unsigned blocks, unsigned threads,
                               const struct experts_call *call, weft_stream stream)
{
    static const struct {
        const char *name;
        void (*run)(const void *call);
    } kernels[EXPERTS_KERNEL_COUNT] = {
#define EXPERTS_ENTRY(name, threads)                                                               \
    [EXPERTS_##name] = {NAME_TEXT(weft_experts_##name), run_##name},
        EXPERTS_KERNELS(EXPERTS_ENTRY)
#undef EXPERTS_ENTRY
    };
    const weft_simt_launch_attr attr = {
        .size = sizeof attr,
        .name = kernels[kernel].name,
        .kernel = kernels[kernel].run,
        .args = call,
        .args_bytes = sizeof *call,
        .grid = {blocks, 1, 1},
        .block = {threads, 1, 1},
        .flags = is_one_kernel(kernel) ? WEFT_SIMT_COOPERATIVE : 0,
    };
    weft_status status = device_before_launch();
    return status ? status : weft_simt_launch(&attr, stream);
}

static struct late_image image = {.image = &gpu_experts_image,
                                  .what = "dispatch and combine of experts",
                                  .kernels = EXPERTS_KERNEL_COUNT,
                                  .names = {
#define EXPERTS_NAME(name, threads) [EXPERTS_##name] = NAME_TEXT(weft_experts_##name),
                                      EXPERTS_KERNELS(EXPERTS_NAME)
#undef EXPERTS_NAME
                                  }};

weft_status experts_load_kernels(struct weft_experts *experts)
{
    return device_target() == WEFT_SIMT ? WEFT_OK : late_image_load(experts->team->job, &image);
}

weft_status experts_one_kernel_blocks(struct weft_experts *experts, unsigned most, unsigned *blocks)
{
    unsigned resident = most;
    weft_status status = WEFT_OK;
    for (int kernel = 0; kernel < EXPERTS_KERNEL_COUNT && device_target() != WEFT_SIMT; kernel++) {
        unsigned n = 0;
        if (!is_one_kernel((enum experts_kernel)kernel) || status)
            continue;
        status =
            late_image_resident_blocks(experts->team->job, &image, kernel, experts->threads, &n);
        resident = n < resident ? n : resident;
    }
    for (*blocks = 1; 2 * *blocks <= resident;)
        *blocks *= 2;
    return status;
}

weft_status experts_launch(struct weft_experts *experts, enum experts_kernel kernel,
                           unsigned blocks, unsigned threads, const struct experts_call *call,
                           weft_stream stream)
{
    if (device_target() == WEFT_SIMT)
        return launch_simt(kernel, blocks, threads, call, stream);
    return late_image_launch(experts->team->job, &image, kernel, blocks, threads, call, stream);
}

/* ------------------------------------------------------------------------- stream and events */

weft_status experts_events_create(struct weft_experts *experts)
{
    struct weft_job *job = experts->team->job;
    weft_status status = events_new_stream(job, &experts->sum_stream);
    for (uint32_t part = 0; part < experts->call.parts && !status; part++)
        status = events_new(job, &experts->came[part]);
    if (!status)
        status = events_new(job, &experts->summed);
    if (status)
        experts_events_destroy(experts);
    return status;
}

void experts_events_destroy(struct weft_experts *experts)
{
    struct weft_job *job = experts->team->job;
    for (uint32_t part = 0; part < EXPERTS_PARTS_MOST; part++) {
        events_delete(job, stream_on_cuda(job), experts->came[part]);
        experts->came[part] = NULL;
    }
    events_delete(job, stream_on_cuda(job), experts->summed);
    events_delete_stream(job, stream_on_cuda(job), experts->sum_stream);
    experts->summed = NULL;
    experts->sum_stream = NULL;
}
