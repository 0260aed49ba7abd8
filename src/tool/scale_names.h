/* SPDX-License-Identifier: Apache-2.0 */
/* For `weft bench scale` and `weft explain coll`: the files of ops/coll are compiled a second time,
 * with functions of scale_coll.c and scale_gpu.c in place of those that reach another PE or the
 * GPU. */
#ifndef WEFT_TOOL_SCALE_NAMES_H
#define WEFT_TOOL_SCALE_NAMES_H

#define coll_notify_slow     scale_notify
#define coll_await_slow      scale_await
#define coll_put_slow        scale_put
#define coll_put_notify_slow scale_put_notify
#define coll_packet_send     scale_packet_send
#define coll_packet_await    scale_packet_await
#define coll_nodes_sync      scale_nodes_sync
#define coll_nodes_exchange  scale_nodes_exchange
#define coll_nodes_compare   scale_nodes_compare
#define coll_nodes_broadcast scale_nodes_broadcast
#define coll_tree_broadcast  scale_tree_broadcast
#define coll_nodes_reduce    scale_nodes_reduce
#include "ops/coll/nodes.h"

/* Whether the flag has arrived by the PE's clock. */
#define has_notified scale_has_notified
bool scale_has_notified(struct weft_team *team, int member, uint64_t phase);

#define weft_get        scale_get
#define weft_get_nbi    scale_get_nbi
#define weft_put_nbi    scale_put_nbi
#define weft_quiet      scale_quiet
#define weft_fence      scale_fence
#define weft_put_signal scale_put_signal
weft_status weft_get(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe);
weft_status weft_get_nbi(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe);
weft_status weft_put_nbi(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe);
weft_status weft_quiet(weft_ctx *ctx);
weft_status weft_fence(weft_ctx *ctx);
weft_status weft_put_signal(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                            uint64_t *signal, uint64_t value, weft_signal_op op, int pe);

#endif
