/* SPDX-License-Identifier: Apache-2.0 */
/* Total time that a stream spends on an activity during a run: an event at the begin and at the end
 * of each span. */
#ifndef EXAMPLES_TRAIN_SPANS_H
#define EXAMPLES_TRAIN_SPANS_H

#include <weft/launch.h>

enum {
    SPANS_MOST = 512
}; /* spans whose times are not known yet; starting another one waits for the oldest */

struct spans {
    struct span {
        weft_event begin, end;
    } ring[SPANS_MOST];
    uint64_t begun, added, ns; /* spans begun and added; sum of the added ones in ns */
};

weft_status spans_begin(struct spans *spans, weft_stream stream);
weft_status spans_end(struct spans *spans, weft_stream stream); /* ends the span begun last */
weft_status spans_add_up(struct spans *spans);                  /* waits for all spans */
weft_status spans_destroy(struct spans *spans);

#endif
