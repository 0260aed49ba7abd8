/* SPDX-License-Identifier: Apache-2.0 */
/* How long a stream was at something, added up over a run: an event at the beginning of each time,
 * and one at its end. */
#ifndef EXAMPLES_TRAIN_SPANS_H
#define EXAMPLES_TRAIN_SPANS_H

#include <weft/launch.h>

enum {
    SPANS_MOST = 512
}; /* whose times are not known yet: whoever begins another waits for the oldest */

struct spans {
    struct span {
        weft_event begin, end;
    } ring[SPANS_MOST];
    uint64_t begun, added, ns; /* numbers of spans; the sum of those added up */
};

weft_status spans_begin(struct spans *spans, weft_stream stream);
weft_status spans_end(struct spans *spans, weft_stream stream); /* of the one begun last */
weft_status spans_add_up(struct spans *spans);                  /* waits for all of them */
weft_status spans_destroy(struct spans *spans);

#endif
