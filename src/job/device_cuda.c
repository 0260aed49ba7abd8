/* SPDX-License-Identifier: Apache-2.0 */
/* The view of device code on cuda: where the GPU heap, its team areas and the tables are. */
#include "job/device_state.h"

weft_status device_view_cuda(struct weft_job *job, struct device_view **view)
{
    (void)job;
    *view = NULL;
    return base_fail(WEFT_ERR_UNSUPPORTED, "this version of Weft has no GPU heap for device code; "
                     "WEFT_TARGET=simt runs it on CPU threads");
}
