/* SPDX-License-Identifier: Apache-2.0 */
/* Of the command in the wheel: what Debian's static libraries call and glibc 2.28 does not have. */
#include <stdlib.h>
#include <sys/random.h>
#include <sys/types.h>

void arc4random_buf(void *buffer, size_t n);
void *udev_new(void);
void *udev_unref(void *udev);
void *udev_device_new_from_subsystem_sysname(void *udev, const char *subsystem, const char *name);
const char *udev_device_get_property_value(void *device, const char *key);
void *udev_device_unref(void *device);

/* libexpat, for the seed of its hash tables. */
void arc4random_buf(void *buffer, size_t n)
{
    if (getrandom(buffer, n, 0) != (ssize_t)n)
        abort();
}

/* libhwloc without libudev, which has no static library: it reads /run/udev/data itself. */
void *udev_new(void)
{
    return NULL;
}

void *udev_unref(void *udev)
{
    (void)udev;
    return NULL;
}

void *udev_device_new_from_subsystem_sysname(void *udev, const char *subsystem, const char *name)
{
    (void)udev, (void)subsystem, (void)name;
    return NULL;
}

const char *udev_device_get_property_value(void *device, const char *key)
{
    (void)device, (void)key;
    return NULL;
}

void *udev_device_unref(void *device)
{
    (void)device;
    return NULL;
}
