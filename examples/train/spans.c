/* SPDX-License-Identifier: Apache-2.0 */
#include "spans.h"

static weft_status add_oldest(struct spans *spans)
{
    struct span *span = &spans->ring[spans->added++ % SPANS_MOST];
    uint64_t ns;
    weft_status status = weft_event_synchronize(span->end);
    if (!status)
        status = weft_event_elapsed(span->begin, span->end, &ns);
    if (!status)
        spans->ns += ns;
    return status;
}

weft_status spans_begin(struct spans *spans, weft_stream stream)
{
    struct span *span = &spans->ring[spans->begun % SPANS_MOST];
    weft_status status = WEFT_OK;
    if (!span->begin)
        status = weft_event_create(&span->begin);
    if (!status && !span->end)
        status = weft_event_create(&span->end);
    if (!status && spans->begun - spans->added == SPANS_MOST)
        status = add_oldest(spans);
    return status ? status : weft_event_record(span->begin, stream);
}

weft_status spans_end(struct spans *spans, weft_stream stream)
{
    return weft_event_record(spans->ring[spans->begun++ % SPANS_MOST].end, stream);
}

weft_status spans_add_up(struct spans *spans)
{
    weft_status status = WEFT_OK;
    while (!status && spans->added < spans->begun)
        status = add_oldest(spans);
    return status;
}

weft_status spans_destroy(struct spans *spans)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < SPANS_MOST && !status && spans->ring[i].begin; i++) {
        status = weft_event_destroy(spans->ring[i].begin);
        if (!status && spans->ring[i].end)
            status = weft_event_destroy(spans->ring[i].end);
    }
    return status;
}
