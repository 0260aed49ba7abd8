/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the two halves of the requester: sending (send.c) and handling responses (answer.c). */
#ifndef WEFT_HCA_SEND_H
#define WEFT_HCA_SEND_H

#include "hca.h"

/* send_load: copies the WQE at index to contiguous memory and decodes its control segment. */
void send_load(const struct qp *qp, uint16_t index, uint32_t *words, struct wqe *wqe);

/* send_raise_fault: the QP fails when all earlier requests are complete. */
void send_raise_fault(struct qp *qp, uint8_t syndrome, uint8_t vendor);

/* send_sum_slots: a checksum of the ring's slots of a request. */
uint32_t send_sum_slots(const struct qp *qp, const struct outstanding *f);

/* send_retire: completes all acknowledged requests, in order. */
void send_retire(struct qp *qp);

/* send_apply_late_nak: applies a NAK that arrived before its packet was retransmitted, once the
 * packet was retransmitted. */
void send_apply_late_nak(struct qp *qp);

/* DC: send_target_address() returns the address that a WQE names, 0: none. send_same_target()
 * returns true if the QP is connected to that target. send_target() connects it when no request is
 * outstanding. */
uint32_t send_target_address(const struct qp *qp, const struct wqe_address *a);
bool send_same_target(const struct qp *qp, const struct wqe_address *a);
bool send_target(struct qp *qp, const struct wqe_address *a);

#endif
