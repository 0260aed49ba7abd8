/* SPDX-License-Identifier: Apache-2.0 */
/* Links of the NICs of net_end.h, which lose their carrier when a test says so. */
#ifndef WEFT_TESTS_NET_CARRIER_H
#define WEFT_TESTS_NET_CARRIER_H

#include "unit/net_end.h"

static bool link_down[END_RAILS];

bool __wrap_net_is_down(const char *root, const char *name);
bool __wrap_net_is_down(const char *root, const char *name)
{
    assert_string_equal(root, "");
    return strncmp(name, "link", 4) == 0 && link_down[name[4] - '0'];
}

/* The NICs get names of their own, and all links a carrier. */
static void name_links(struct net_end *end)
{
    static char *const names[END_RAILS] = {"link0", "link1", "link2"};
    static struct fi_domain_attr domains[END_RAILS];
    static struct fi_info infos[END_RAILS];
    for (int i = 0; i < END_RAILS; i++) {
        infos[i] = *end->net.rails[i].info;
        domains[i] = *infos[i].domain_attr;
        domains[i].name = names[i];
        infos[i].domain_attr = &domains[i];
        end->net.rails[i].info = &infos[i];
        link_down[i] = false;
    }
}

#endif
