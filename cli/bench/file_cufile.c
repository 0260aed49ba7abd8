/* SPDX-License-Identifier: Apache-2.0 */
/* One file moved by cuFile as it is when nothing special is set up: in compatibility mode, where its driver
 * module is not loaded. For comparison only. Source: cuFile API reference guide. */
#include "bench/file.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/tool.h"

/* Types of cufile.h, version 1.x of libcufile.so.0; its binary interface is stable. */
struct cufile_error {
    int error, cuda;
};
struct cufile_description {
    int type; /* 1: a descriptor of the system */
    union {
        int fd;
        void *handle;
    } handle;
    const void *operations;
};

struct cufile {
    void *library;
    struct cufile_error (*open)(void);
    struct cufile_error (*enlist)(void **handle, struct cufile_description *description);
    void (*drop)(void *handle);
    ssize_t (*read)(void *handle, void *base, size_t bytes, off_t at, off_t in_memory);
    ssize_t (*write)(void *handle, const void *base, size_t bytes, off_t at, off_t in_memory);
};

static bool find(struct cufile *c, const char *name, void *function)
{
    void *address = dlsym(c->library, name);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

/* Opened once: closing and opening its driver costs seconds. */
static const struct cufile *load(char *why, size_t why_bytes)
{
    static struct cufile c;
    if (c.library)
        return &c;
    setenv("CUFILE_ALLOW_COMPAT_MODE", "true", 0);
    c.library = dlopen("libcufile.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!c.library) {
        snprintf(why, why_bytes, "libcufile.so.0 is not installed");
        return NULL;
    }
    if (!find(&c, "cuFileDriverOpen", &c.open) || !find(&c, "cuFileHandleRegister", &c.enlist) ||
        !find(&c, "cuFileHandleDeregister", &c.drop) || !find(&c, "cuFileRead", &c.read) ||
        !find(&c, "cuFileWrite", &c.write)) {
        snprintf(why, why_bytes, "libcufile.so.0 lacks a function of its own interface");
    } else {
        struct cufile_error opened = c.open();
        if (!opened.error)
            return &c;
        snprintf(why, why_bytes, "cuFileDriverOpen gave error %d (CUDA %d)", opened.error,
                 opened.cuda);
    }
    dlclose(c.library);
    c.library = NULL;
    return NULL;
}

/* Calls of a block each, by one thread: cuFile cuts and overlaps them as it likes. */
static bool move_all(const struct cufile *c, void *handle, const struct file_point *point)
{
    for (uint64_t at = 0; at < point->bytes; at += point->window) {
        ssize_t n = point->write ? c->write(handle, point->memory, point->window, (off_t)at, 0)
                                 : c->read(handle, point->memory, point->window, (off_t)at, 0);
        if (n != (ssize_t)point->window)
            return false;
    }
    return true;
}

double file_by_cufile(const struct file_point *point, char *why, size_t why_bytes)
{
    if (!point->gpu || point->threads > 1) {
        return -1; /* measured where it is made for: one thread, GPU memory */
    }
    const struct cufile *c = load(why, why_bytes);
    if (!c)
        return -1;
    struct cufile_description description = {.type = 1};
    void *handle = NULL;
    int fd = open(point->path, (point->write ? O_RDWR : O_RDONLY) | O_DIRECT | O_CLOEXEC);
    if (fd < 0)
        fd = open(point->path, (point->write ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    description.handle.fd = fd;
    struct cufile_error enlisted =
        fd < 0 ? (struct cufile_error){errno, 0} : c->enlist(&handle, &description);
    double gbps = -1;
    if (enlisted.error) {
        snprintf(why, why_bytes, "cuFileHandleRegister gave error %d", enlisted.error);
    } else {
        uint64_t begin = clock_now_ns();
        bool well = move_all(c, handle, point);
        gbps = well ? (double)point->bytes / (double)(clock_now_ns() - begin) : -1;
        if (!well)
            snprintf(why, why_bytes, "cuFileRead or cuFileWrite failed: %s", strerror(errno));
        c->drop(handle);
    }
    if (fd >= 0)
        close(fd);
    return gbps;
}
