/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces the GPU functions that path net uses, for a job without GPUs: none of them is called.
 * Also replaces two functions of its operation table, which are not called. */
#include <stdlib.h>

#define NONE(name)                                                                                 \
    void name(void);                                                                               \
    void name(void)                                                                                \
    {                                                                                              \
        abort();                                                                                   \
    }

NONE(gpu_access)
NONE(gpu_find_chunk)
NONE(gpu_copy)
NONE(gpu_copy_plain)
NONE(gpu_export_dmabuf)
NONE(gpu_flush_nic_writes)
NONE(gpu_stream_quiet)
NONE(gpu_event_release)
NONE(gpu_event_query)
NONE(gpu_event_record)
NONE(gpu_nic_writes)
NONE(gpu_peermem_is_loaded)
NONE(gpu_pin_range)
NONE(gpu_place_of)
NONE(gpu_quiet)
NONE(gpu_signal)
NONE(gpu_store_recorded)
NONE(gpu_unpin_range)
NONE(gpu_split_words)
NONE(net_put_by_requests)
NONE(net_get_by_requests)
