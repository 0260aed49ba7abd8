/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that all readers of the live machine use (files below a root directory), and the
 * readers that machine_read_live() calls in order. */
#ifndef WEFT_MACHINE_LIVE_H
#define WEFT_MACHINE_LIVE_H

#include <dirent.h>

#include "machine/machine.h"

/* A path below the root: live_path(source, "sys/class/net/%s", name).text. "" when it is too long.
 */
struct live_path {
    char text[4096];
};
struct live_path live_path(const struct machine_source *source, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Reads the first line of a small file without its newline. False with errno on failure. */
bool live_line(const char *path, char *line, size_t size);
/* Reads at most `size` bytes of a file. Returns their number, or -1 with errno. */
long live_bytes(const char *path, void *bytes, size_t size);
/* Reads a whole number (decimal or 0x...) or a text; unknown with the reason "path: strerror". */
void live_number(struct machine *machine, struct machine_number *to, const char *path);
void live_text(struct machine *machine, struct machine_text *to, const char *path);
/* Last part of the target of a symbolic link. False with errno on failure. */
bool live_link(const char *path, char *name, size_t size);
/* Sorted names in a directory without those that begin with "."; NULL-terminated, in the machine's
 * memory. */
const char **live_names(struct machine *machine, const char *path);
bool live_exists(const char *path);
/* PCI address of the device of a sysfs path: the last PCI address in the resolved path, so a disk
 * or camera gets the address of its controller; "" when there is none. */
void live_pci_address(struct machine *machine, struct machine_text *to, const char *path);

void live_system(struct machine *machine, const struct machine_source *source);
void live_limits(struct machine *machine, const struct machine_source *source);
void live_drivers(struct machine *machine, const struct machine_source *source);
void live_services(struct machine *machine, const struct machine_source *source);
void live_cpu(struct machine *machine, const struct machine_source *source);
void live_pci(struct machine *machine, const struct machine_source *source);
void live_nic(struct machine *machine, const struct machine_source *source);
/* after live_nic() */
void live_ethernet(struct machine *machine, const struct machine_source *source);
void live_infiniband(struct machine *machine, const struct machine_source *source);
void live_disk(struct machine *machine, const struct machine_source *source);
/* after live_drivers() */
void live_gds(struct machine *machine, const struct machine_source *source);
void live_capture(struct machine *machine, const struct machine_source *source);
void live_gpu(struct machine *machine, const struct machine_source *source);
/* after live_gpu() */
void live_log(struct machine *machine, const struct machine_source *source);

#endif
