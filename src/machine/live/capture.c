/* SPDX-License-Identifier: Apache-2.0 */
/* Video capture devices (V4L2) and their PCI addresses, from sysfs. */
#include "machine/live/live.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void live_capture(struct machine *machine, const struct machine_source *source)
{
    const char *base = "sys/class/video4linux";
    const char **names = live_names(machine, live_path(source, "%s", base).text);
    for (; *names; names++) {
        char driver[256];
        if (strncmp(*names, "video", 5) != 0)
            continue;
        struct machine_capture *c = machine_add_capture(machine);
        text_set(machine, &c->name, *names);
        live_text(machine, &c->model, live_path(source, "%s/%s/name", base, *names).text);
        live_pci_address(machine, &c->bdf, live_path(source, "%s/%s/device", base, *names).text);
        text_set(machine, &c->driver,
                 live_link(live_path(source, "%s/%s/device/driver", base, *names).text, driver,
                           sizeof driver)
                     ? driver
                     : "");
        number_set(&c->node, access(live_path(source, "dev/%s", *names).text, R_OK | W_OK) == 0);
    }
}
