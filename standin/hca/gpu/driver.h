/* SPDX-License-Identifier: Apache-2.0 */
/* Table of the CUDA driver functions that the GPU engine uses. The process must have loaded the
 * driver; it is never loaded here. Functions return 0 or the driver's error number. */
#ifndef WEFT_HCA_GPU_DRIVER_H
#define WEFT_HCA_GPU_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DRIVER_ALREADY_REGISTERED = 712,
    DRIVER_NOT_READY = 600,
    DRIVER_HANDLE_FD = 1,
    DRIVER_LOCATION_DEVICE = 1,
    DRIVER_READ_WRITE = 3,
    DRIVER_HOST_PORTABLE_MAPPED = 3,
    DRIVER_STREAM_NON_BLOCKING = 1,
};

/* Layout of the driver's structure. */
struct driver_access {
    int location, device, flags;
};

struct gpu_driver {
    int (*device_count)(int *);
    int (*device_get)(int *, int);
    int (*retain)(void **, int);
    int (*push)(void *);
    int (*pop)(void **);
    int (*enable_peer)(void *, unsigned);
    int (*pointer_attribute)(void *, int, uint64_t);
    int (*module_load)(void **, const void *);
    int (*module_function)(void **, void *, const char *);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  void *, void **, void **);
    int (*stream_create)(void **, unsigned);
    int (*stream_create_priority)(void **, unsigned, int); /* NULL: the driver lacks it */
    int (*stream_query)(void *);
    int (*synchronize)(void *);
    int (*copy)(uint64_t, uint64_t, size_t, void *);
    int (*allocate)(uint64_t *, size_t);
    int (*host_alloc)(void **, size_t, unsigned);
    int (*host_register)(void *, size_t, unsigned);
    int (*host_unregister)(void *);
    int (*host_pointer)(uint64_t *, void *, unsigned);
    int (*handle_of)(uint64_t *, void *);
    int (*export_handle)(void *, uint64_t, int, uint64_t);
    int (*import_handle)(uint64_t *, void *, int);
    int (*release)(uint64_t);
    int (*reserve)(uint64_t *, size_t, size_t, uint64_t, uint64_t);
    int (*unreserve)(uint64_t, size_t);
    int (*map)(uint64_t, size_t, size_t, uint64_t, uint64_t);
    int (*unmap)(uint64_t, size_t);
    int (*set_access)(uint64_t, size_t, const struct driver_access *, size_t);
};

/* gpu_driver: NULL: the process has not loaded the driver, or a function is missing. */
const struct gpu_driver *gpu_driver(void);

/* gpu_driver_owner: returns the GPU that owns the memory, or -1. */
int gpu_driver_owner(const struct gpu_driver *driver, uint64_t address);

#endif
