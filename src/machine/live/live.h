/* SPDX-License-Identifier: Apache-2.0 */
/* What the readers of the live machine share: files below a root directory, and the parts that
 * machine_read_live() calls in order. */
#ifndef WEFT_MACHINE_LIVE_H
#define WEFT_MACHINE_LIVE_H

#include <dirent.h>

#include "machine/machine.h"

/* Path below the root: live_path(source, buffer, "sys/class/net/%s", name). False: too long. */
struct live_path {
    char text[4096];
};
struct live_path live_path(const struct machine_source *source, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* First line of a small file without its newline, false with errno set. */
bool live_line(const char *path, char *line, size_t size);
/* The file as bytes; -1 with errno set. */
long live_bytes(const char *path, void *bytes, size_t size);
/* A whole number (0x... too); unknown with the reason "path: strerror". */
void live_number(struct machine *machine, struct machine_number *to, const char *path);
void live_text(struct machine *machine, struct machine_text *to, const char *path);
/* Last part of the target of a link, false with errno set. */
bool live_link(const char *path, char *name, size_t size);
/* Sorted names of a directory without "." entries; NULL-terminated, in the machine's memory. */
const char **live_names(struct machine *machine, const char *path);
bool live_exists(const char *path);
/* PCI address of the device that a path of sysfs leads to: the last address on the way, so that a
 * disk or a camera has its controller's; "" where there is none. */
void live_place(struct machine *machine, struct machine_text *to, const char *path);

void live_system(struct machine *machine, const struct machine_source *source);
void live_limits(struct machine *machine, const struct machine_source *source);
void live_drivers(struct machine *machine, const struct machine_source *source);
void live_services(struct machine *machine, const struct machine_source *source);
void live_cpu(struct machine *machine, const struct machine_source *source);
void live_pci(struct machine *machine, const struct machine_source *source);
void live_nic(struct machine *machine, const struct machine_source *source);
void live_ethernet(struct machine *machine, const struct machine_source *source);   /* after NICs */
void live_infiniband(struct machine *machine, const struct machine_source *source); /* after NICs */
void live_disk(struct machine *machine, const struct machine_source *source);
void live_gds(struct machine *machine, const struct machine_source *source); /* after the drivers */
void live_capture(struct machine *machine, const struct machine_source *source);
void live_gpu(struct machine *machine, const struct machine_source *source);
void live_log(struct machine *machine, const struct machine_source *source); /* after the GPUs */

#endif
