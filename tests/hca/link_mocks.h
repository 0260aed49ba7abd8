/* SPDX-License-Identifier: Apache-2.0 */
/* Mocks of finding and requesting links. */
#ifndef WEFT_TESTS_HCA_LINK_MOCKS_H
#define WEFT_TESTS_HCA_LINK_MOCKS_H

#include "hca.h"

static uint32_t requested_link; /* address of the last link_request() */

struct link_out *link_find(struct device *d, uint32_t address)
{
    for (unsigned i = 0; i < d->links.out_count; i++)
        if (d->links.out[i]->address == address)
            return d->links.out[i];
    return NULL;
}

void link_request(struct device *d, uint32_t address)
{
    (void)d;
    requested_link = address;
}

#endif
