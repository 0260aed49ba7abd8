/* SPDX-License-Identifier: Apache-2.0 */
/* Devices that capture video, from sysfs: what V4L2 offers, and where it hangs. */
#include "machine/live.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* PCI address of what a sysfs path leads to; "" for a camera on USB keeps its controller's. */
static void set_place(struct machine *machine, struct machine_text *to, const char *path)
{
    char *real = realpath(path, NULL), *save = NULL;
    const char *found = "";
    for (char *part = real ? strtok_r(real, "/", &save) : NULL; part;
         part = strtok_r(NULL, "/", &save)) {
        unsigned domain, bus, device, function;
        int end = 0;
        if (sscanf(part, "%x:%x:%x.%x%n", &domain, &bus, &device, &function, &end) == 4 &&
            part[end] == '\0')
            found = part;
    }
    text_set(machine, to, found);
    free(real);
}

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
        set_place(machine, &c->bdf, live_path(source, "%s/%s/device", base, *names).text);
        text_set(machine, &c->driver,
                 live_link(live_path(source, "%s/%s/device/driver", base, *names).text, driver,
                           sizeof driver)
                     ? driver
                     : "");
        number_set(&c->node, access(live_path(source, "dev/%s", *names).text, R_OK | W_OK) == 0);
    }
}
