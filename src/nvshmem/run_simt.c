/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of run_kernel.h for the target simt. */
#include "nvshmem/run.h"

#include "nvshmem/run_kernel.h"
#include <weft/simt_executor.h>

enum { THREADS = 64 };

static void run_call(const void *call)
{
    weft_nv_run(call);
}

weft_status run_simt(const struct weft_nv_call *call, weft_stream stream)
{
    const weft_simt_launch_attr attr = {
        .size = sizeof attr,
        .name = "an operation on a stream",
        .kernel = run_call,
        .args = call,
        .args_bytes = sizeof *call,
        .grid = {1, 1, 1},
        .block = {THREADS, 1, 1},
    };
    return weft_simt_launch(&attr, (weft_simt_stream *)stream);
}
