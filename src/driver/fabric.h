/* SPDX-License-Identifier: Apache-2.0 */
/* libfabric as a table of functions, loaded at run time. Its types come from its headers if these
 * are found at build time (WEFT_HAVE_FABRIC); in a build without them fabric_open() fails.
 * Functions that the headers define inline (posting, polling) call the provider directly and need
 * no entry. */
#ifndef WEFT_DRIVER_FABRIC_H
#define WEFT_DRIVER_FABRIC_H

#include <weft.h>

#ifdef WEFT_HAVE_FABRIC
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <stdint.h>

#define FABRIC_FUNCTIONS(X)                                                                        \
    X(version, fi_version, uint32_t, (void))                                                       \
    X(getinfo, fi_getinfo, int,                                                                    \
      (uint32_t version, const char *node, const char *service, uint64_t flags,                    \
       const struct fi_info *hints, struct fi_info **info))                                        \
    X(freeinfo, fi_freeinfo, void, (struct fi_info *))                                             \
    X(dupinfo, fi_dupinfo, struct fi_info *, (const struct fi_info *))                             \
    X(fabric, fi_fabric, int, (struct fi_fabric_attr *, struct fid_fabric **, void *context))      \
    X(strerror, fi_strerror, const char *, (int error))

struct fabric {
#define MEMBER(name, symbol, result, parameters) result(*name) parameters;
    FABRIC_FUNCTIONS(MEMBER)
#undef MEMBER
    void *handle;
};
#else
struct fabric {
    void *handle;
};
#endif

/* Loads libfabric at the first call; it stays loaded, because threads of its providers may still
 * run. WEFT_ERR_UNSUPPORTED: no library, a missing symbol, or a build without the headers; the
 * message says which. */
weft_status fabric_open(const struct fabric **fabric);

#endif
