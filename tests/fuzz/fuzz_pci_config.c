/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a PCI configuration space: every value is within the limits of the schema, or
 * unknown with a reason. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "machine/pci_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void within(struct machine_number n, int64_t low, int64_t high)
{
    if (n.known ? n.value < low || n.value > high : !n.why)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pci_config c;
    pci_config_read(data, size, &c);
    within(c.port_type, -1, 15);
    within(c.gen, 1, 7);
    within(c.gen_max, 1, 7);
    within(c.width, 1, 32);
    within(c.width_max, 1, 32);
    within(c.acs, 0, 1);
    within(c.acs_control, 0, 0x7f);
    within(c.p2p_clique, 0, 15);
    return 0;
}
