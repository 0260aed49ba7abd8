/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the stand-in in front of libfabric. */
#ifndef WEFT_TESTS_FAKE_FABRIC_H
#define WEFT_TESTS_FAKE_FABRIC_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <stdbool.h>
#include <stdint.h>

/* A registration; entries are reused. */
struct region {
    const struct fid *domain;
    struct fid_mr *mr, *read,
        *mask; /* the real registrations: for writes, for reads, for the mask of written bytes */
    uintptr_t base; /* the address that the program passed */
    size_t bytes;
    bool device, open;
    void *real_descriptor;
    struct fi_ops *ops, *real_ops; /* of mr->fid */
    unsigned char *shadow,
        *written; /* for device memory: data that a NIC has written and that is not visible yet */
};

/* Ends the process with a message: the program has violated a rule. */
_Noreturn void broken(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* check.c: registrations */
struct region *region_new(void);
void region_check_free(const struct fid *domain); /* fails if one of this domain is open */
void region_flush(void);

/* The real descriptor of a local buffer. The registration that the program names must cover the
 * buffer and belong to the endpoint's domain. */
void *region_descriptor(const struct fid_ep *endpoint, const void *buffer, size_t bytes,
                        void *descriptor, const char *what);
void note_endpoint(const struct fid_ep *endpoint, const struct fid *domain);
const struct fid *domain_of(const struct fid_ep *endpoint);

/* reads.c: reads in flight. A read into GPU memory through the copy of `region` becomes visible
 * when it has completed. */
void note_read(const struct fid_ep *endpoint, void *context, void *to, size_t bytes,
               struct region *region);
void forget_read(const void *context, bool came);

/* Forgets the last read and returns its context, if another read has arrived in part
 * (FAKE_FABRIC_DEAF=1) or with `any`; else NULL. */
void *take_last_read(const struct fid *domain, bool any);

/* Receives the outstanding data of an endpoint that is to be closed; false: some is still
 * missing. */
bool end_reads(const struct fid_ep *endpoint, const struct fi_ops_cq *real, struct fid_cq *queue);

/* nics.c: several NICs on one interface, one of which may fail. */
void show_second_nics(struct fi_info *list, struct fi_info *(*duplicate)(const struct fi_info *));
void hide_second_nic(struct fi_info *info);
void note_nic(const struct fid *domain, const char *name);
void tell_of_nic(const struct fid *domain);

void nic_carries(const struct fid *domain); /* counts a remote access */

/* Whether this NIC has failed: the operation is lost, and its context completes with an error.
 * bytes: 0 = a message. */
bool nic_loses(const struct fid *domain, void *context, size_t bytes);
bool nic_is_deaf(const struct fid *domain); /* it has failed and delivers nothing more */
bool nic_takes_no_gpu_memory(const struct fid *domain);
bool nic_has_lost(const struct fid *domain);
void *nic_next_lost(const struct fid *domain); /* NULL: none */

/* Whether GPU memory is described correctly. */
void check_address(const void *base, size_t bytes, const struct fi_mr_attr *attr);
uintptr_t check_dmabuf(const void *dmabuf, const struct fi_mr_attr *attr, size_t *bytes);

/* The variable is "1" or a list that contains this word. */
bool asked_for(const char *variable, const char *word);

#endif
