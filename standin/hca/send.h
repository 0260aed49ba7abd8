/* SPDX-License-Identifier: Apache-2.0 */
/* What the two halves of the requester share: sending (send.c) and taking what comes back
 * (answer.c). */
#ifndef WEFT_HCA_SEND_H
#define WEFT_HCA_SEND_H

#include "hca.h"

/* send_load: a linear copy of the request at index, and its control segment. */
void send_load(const struct qp *qp, uint16_t index, uint32_t *words, struct wqe *wqe);

/* send_retire: completes all requests that are acknowledged, in order. */
void send_retire(struct qp *qp);

/* send_take_late_refusal: one that came before its packet was sent again, when that has
 * happened. */
void send_apply_late_nak(struct qp *qp);

/* DC: the address that a request names, 0: none; is the queue connected to this target?
 * send_target(): connects it, when nothing is in flight. */
uint32_t send_target_address(const struct qp *qp, const struct wqe_address *a);
bool send_same_target(const struct qp *qp, const struct wqe_address *a);
bool send_target(struct qp *qp, const struct wqe_address *a);

#endif
