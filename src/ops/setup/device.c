/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that connect a program's device code with its job. */
#include "job/device_state.h"

static weft_status check_device(const char *function, const struct weft_job *job)
{
    if (!job)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: job is null", function);
    return atomic_load(&job->state) == JOB_RUNNING ? WEFT_OK : job_finalized(function);
}

WEFT_EXPORT void weft_device_register(struct weft_device_unit *unit)
{
    device_register(unit);
}

WEFT_EXPORT void weft_device_unregister(struct weft_device_unit *unit)
{
    device_unregister(unit);
}

WEFT_EXPORT weft_status weft_device_start(weft_job *job)
{
    weft_status status = check_device("weft_device_start", job);
    return status ? status : device_start(job);
}

WEFT_EXPORT weft_status weft_device_check(weft_job *job)
{
    weft_status status = check_device("weft_device_check", job);
    return status ? status : job_check_failed(job);
}

WEFT_EXPORT weft_status weft_module_init(weft_job *job, void *module)
{
    weft_status status = check_device("weft_module_init", job);
    if (!status && !module)
        status = base_fail(WEFT_ERR_ARGUMENT, "weft_module_init: the module is null");
    return status ? status : device_module_init(job, module);
}

WEFT_EXPORT weft_status weft_device_state(weft_job *job, int version, const struct weft_dev **state)
{
    weft_status status = check_device("weft_device_state", job);
    if (!status && !state)
        status = base_fail(WEFT_ERR_ARGUMENT, "weft_device_state: state is null");
    if (!status && version != WEFT_DEV_VERSION)
        status = base_fail(WEFT_ERR_ARGUMENT,
                           "weft_device_state: the kernels have state version %d, this library %d; "
                           "compile them with the headers of this library",
                           version, WEFT_DEV_VERSION);
    return status ? status : device_state_address(job, state);
}

WEFT_EXPORT weft_kind weft_device_kind(const weft_job *job)
{
    (void)job;
    return device_target() == WEFT_CUDA ? WEFT_GPU : WEFT_HOST;
}

WEFT_EXPORT int weft_team_device(const weft_team *team)
{
    if (!team || weft_team_my_pe(team) < 0 || !team->job->device)
        return -1;
    return team->slot;
}

_Static_assert((int)WEFT_QUEUES_SHARED == (int)PATH_SHARED_BY_NUMBER &&
                   (int)WEFT_QUEUES_EXCLUSIVE == (int)PATH_SHARED_BY_NONE &&
                   (int)WEFT_QUEUES_SINGLE == (int)PATH_SHARED_BY_ALL,
               "one enumeration is the other");

WEFT_EXPORT weft_status weft_device_queue_mode(weft_job *job, weft_queue_mode mode, int *blocks)
{
    static const char name[] = "weft_device_queue_mode";
    weft_status status = check_device(name, job);
    int own = 0;
    if (!status && ((int)mode < WEFT_QUEUES_SHARED || (int)mode > WEFT_QUEUES_SINGLE))
        status =
            base_fail(WEFT_ERR_ARGUMENT, "%s: mode %d is not a weft_queue_mode", name, (int)mode);
    if (!status)
        status = device_share_queues(job, (enum path_sharing)mode, &own);
    if (!status && blocks)
        *blocks = own;
    return status ? base_fail_context(status, "%s", name) : WEFT_OK;
}
