/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the stand-in in front of libfabric share. */
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

/* A registration, from its first to its last day. */
struct region {
    const struct fid *domain;
    struct fid_mr *mr, *read,
        *mask;      /* the real ones: of writes, of reads, of which bytes were written */
    uintptr_t base; /* as the program gave it */
    size_t bytes;
    bool device, open;
    void *real_descriptor;
    struct fi_ops *ops, *real_ops;   /* of mr->fid */
    unsigned char *shadow, *written; /* of device memory: what a NIC has written, not yet visible */
};

/* Ends the process with a sentence: the program has broken a rule. */
_Noreturn void broken(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* check.c: registrations */
struct region *region_new(void);
void region_check_free(const struct fid *domain); /* none of this domain is open */
void region_flush(void);

/* The real descriptor of a local buffer, which must be covered by the registration that the program
 * names, and that must be one with the endpoint's domain. */
void *region_descriptor(const struct fid_ep *endpoint, const void *buffer, size_t bytes,
                        void *descriptor, const char *what);
void note_endpoint(const struct fid_ep *endpoint, const struct fid *domain);
const struct fid *domain_of(const struct fid_ep *endpoint);

/* reads.c: those under way. One that goes into GPU memory by way of the copy of `region` shows when
 * it has come. */
void note_read(const struct fid_ep *endpoint, void *context, void *to, size_t bytes,
               struct region *region);
void forget_read(const void *context, bool came);

/* The context of the last one, forgotten, when of another a part has come (with
 * FAKE_FABRIC_DEAF=1), or with `any` whatever has come; else NULL. */
void *take_last_read(const struct fid *domain, bool any);

/* Takes what still comes for an endpoint that is to be closed; false: not all does. */
bool end_reads(const struct fid_ep *endpoint, const struct fi_ops_cq *real, struct fid_cq *queue);

/* nics.c: several NICs of one interface, of which one may fail. */
void show_second_nics(struct fi_info *list, struct fi_info *(*duplicate)(const struct fi_info *));
void hide_second_nic(struct fi_info *info);
void note_nic(const struct fid *domain, const char *name);
void tell_of_nic(const struct fid *domain);

void nic_carries(const struct fid *domain); /* one remote access more */

/* Whether this NIC has failed: what is posted is lost, with an error for its context. bytes: 0 = a
 * message. */
bool nic_loses(const struct fid *domain, void *context, size_t bytes);
bool nic_is_deaf(const struct fid *domain); /* it has, and brings nothing more */
bool nic_takes_no_gpu_memory(const struct fid *domain);
bool nic_has_lost(const struct fid *domain);
void *nic_next_lost(const struct fid *domain); /* NULL: none */

/* Whether GPU memory is named as it must be. */
void check_address(const void *base, size_t bytes, const struct fi_mr_attr *attr);
uintptr_t check_dmabuf(const void *dmabuf, const struct fi_mr_attr *attr, size_t *bytes);

/* "1" or a list of words with this one in it. */
bool asked_for(const char *variable, const char *word);

#endif
