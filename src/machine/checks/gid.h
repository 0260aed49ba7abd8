/* SPDX-License-Identifier: Apache-2.0 */
/* Which GIDs of the RoCE ports NCCL and NVSHMEM take by their documented rule, and which ones reach
 * other subnets. Pure functions of the recorded GID tables. */
#ifndef WEFT_MACHINE_GID_H
#define WEFT_MACHINE_GID_H

#include "machine/machine.h"

/* About all active RoCE ports together. A GID that is good is of RoCE v2 and not link-local. */
struct gid_advice {
    int ports;           /* number of active RoCE ports */
    int recorded;        /* number of these whose GID table is recorded */
    int64_t index;       /* of a good GID, the same at every port; -1: there is no such index */
    const char *nic;     /* the first port where the default is not good; NULL: there is none */
    char taken[48];      /* what the rule takes there: "GID 0 (RoCE v1, link-local)" */
    char best[48];       /* what is good there: "GID 5 (RoCE v2, IPv6)" */
    const char *old_nic; /* the first port where GID 0 is not good and another one is, or NULL */
    char old_taken[48];  /* "GID 0 (RoCE v1, link-local)" */
    char old_best[48];   /* "GID 3 (RoCE v2, IPv4)" */
};

/* NCCL since 2.21 and NVSHMEM since 3.0 take, with NCCL_IB_ADDR_FAMILY (AF_INET) and
 * NCCL_IB_ROCE_VERSION_NUM (2) at their defaults, the first GID of RoCE v2 with an IPv4 address,
 * else the first GID with an IPv4 address, else GID 0. NCCL before 2.21 takes GID 0. */
void gid_advise(const struct machine *machine, struct gid_advice *advice);

#endif
