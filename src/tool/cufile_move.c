/* SPDX-License-Identifier: Apache-2.0 */
/* See cufile_move.h.
 *
 * cuFile looks the file's disk up in udev's database. A container has none, and
 * cuFileHandleRegister then fails with error 5027, also in compatibility mode. So this file makes a
 * missing entry for the duration of the transfer. libcufile 1.15 reads ID_FS_USAGE and ID_FS_TYPE
 * of it. */
#include "tool/cufile_move.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "driver/cufile.h"
#include "driver/gpu_api.h"

static const char *words(struct cufile_error error)
{
    static char text[192];
    return cufile_error_text(error, text, sizeof text);
}

/* ------------------------------------------------------------------------------ udev's entry */

struct cufile_entry {
    char path[64]; /* "" = this file has made none */
};

/* Removes the entry that was made here, and its folders when they are empty. */
static void remove_entry(struct cufile_entry *entry)
{
    if (!entry->path[0])
        return;
    unlink(entry->path);
    if (rmdir("/run/udev/data") == 0)
        rmdir("/run/udev");
    entry->path[0] = '\0';
}

static bool make_entry(struct cufile_entry *entry, const char *file_system)
{
    mkdir("/run/udev", 0755);
    mkdir("/run/udev/data", 0755);
    FILE *file = fopen(entry->path, "wxe");
    if (!file)
        return false;
    fprintf(file, "I:1\nE:ID_FS_USAGE=filesystem\nE:ID_FS_TYPE=%s\n", file_system);
    return fclose(file) == 0;
}

/* Makes an entry when there is none. False with the reason when that fails. */
static bool find_entry(const char *path, const char *file_system, struct cufile_entry *entry,
                       char *why, size_t why_bytes)
{
    struct stat st;
    entry->path[0] = '\0';
    if (stat(path, &st) || major(st.st_dev) == 0)
        return true; /* no disk: cuFile needs no entry, or reports its own error */
    snprintf(entry->path, sizeof entry->path, "/run/udev/data/b%u:%u", major(st.st_dev),
             minor(st.st_dev));
    bool there = access(entry->path, R_OK) == 0;
    if (!there && make_entry(entry, file_system))
        return true;
    if (!there)
        snprintf(why, why_bytes, "cuFile needs %s, which cannot be created: %s; run as root",
                 entry->path, strerror(errno));
    entry->path[0] = '\0';
    return there;
}

/* ----------------------------------------------------------------------------------- library */

/* Loads the library and opens its driver once: opening takes seconds. */
static const struct cufile *load_cufile(char *why, size_t why_bytes)
{
    static struct cufile c;
    if (c.handle)
        return &c;
    if (access("/proc/modules", R_OK)) {
        snprintf(why, why_bytes, "no /proc/modules: cuFileDriverOpen would never return");
        return NULL;
    }
    setenv("CUFILE_ALLOW_COMPAT_MODE", "true", 0);
    setenv("CUFILE_LOGFILE_PATH", "/dev/null", 0);
    /* The CUDA toolkit's folder may not be known to the loader; once loaded, the library is found
     * by its name. */
    dlopen("/usr/local/cuda/lib64/libcufile.so.0", RTLD_NOW | RTLD_LOCAL);
    if (cufile_load(&c)) {
        snprintf(why, why_bytes, "%s", base_last_error());
        return NULL;
    }
    struct cufile_error opened = c.driver_open();
    if (!opened.error || opened.error == CUFILE_ERROR_OPEN_ALREADY)
        return &c;
    snprintf(why, why_bytes, "cuFileDriverOpen: %s", words(opened));
    cufile_unload(&c);
    return NULL;
}

/* If the job has opened cuFile before for direct transfers, its compatibility mode is off. */
const char *tool_cufile_mode(void)
{
    char why[256];
    struct cufile_properties properties = {.nvfs.control = CUFILE_CONTROL_COMPAT};
    const struct cufile *c = load_cufile(why, sizeof why);
    if (!c || c->properties(&properties).error)
        return "";
    return properties.nvfs.control & CUFILE_CONTROL_COMPAT ? "compatibility mode allowed"
                                                           : "direct only";
}

/* ------------------------------------------------------------------------------------ memory */

/* Allocates GPU memory as programs that use cuFile do: cuMemAlloc in the current primary context.
 */
static void *allocate(const struct gpu_api **result, size_t bytes, char *why, size_t why_bytes)
{
    static struct gpu_api driver;
    static bool ready;
    CUdevice device;
    CUcontext context;
    CUdeviceptr memory = 0;
    if (!ready)
        ready = gpu_api_open(&driver) == WEFT_OK && driver.Init(0) == 0 &&
                driver.DeviceGet(&device, 0) == 0 &&
                driver.DevicePrimaryCtxRetain(&context, device) == 0 &&
                driver.CtxPushCurrent(context) == 0;
    *result = &driver;
    if (ready && driver.MemAlloc(&memory, bytes) == 0)
        return (void *)(uintptr_t)memory;
    snprintf(why, why_bytes, "%zu bytes of GPU memory for cuFile cannot be allocated", bytes);
    return NULL;
}

/* ---------------------------------------------------------------------------------- transfers */

/* Transfers the file with one call per window, from one thread; cuFile splits and overlaps them. */
static bool move_all(const struct cufile *c, void *handle, const struct tool_cufile_move *point,
                     void *memory)
{
    for (uint64_t at = 0; at < point->bytes; at += point->window) {
        ssize_t n = point->write ? c->write(handle, memory, point->window, (off_t)at, 0)
                                 : c->read(handle, memory, point->window, (off_t)at, 0);
        if (n != (ssize_t)point->window)
            return false;
    }
    return true;
}

/* Opens the file. cuFile opens it again by the name of the descriptor, so an unnamed file of this
 * command gets a name until then. */
static int open_named(const struct tool_cufile_move *point, char *name, size_t name_bytes)
{
    const char *path = point->path;
    if (strncmp(path, "/proc/", 6) == 0) {
        snprintf(name, name_bytes, "./weft_bench_file.%d", (int)getpid());
        if (linkat(AT_FDCWD, path, AT_FDCWD, name, AT_SYMLINK_FOLLOW))
            name[0] = '\0';
        else
            path = name;
    }
    int how = (point->write ? O_RDWR : O_RDONLY) | O_CLOEXEC;
    int fd = open(path, how | O_DIRECT);
    return fd < 0 ? open(path, how) : fd;
}

/* The registered file, kept between transfers: an unnamed file can get a name only once. */
static struct {
    char path[512], name[64];
    bool write;
    int fd;
    void *handle;
} known = {.fd = -1};

static bool is_known(const struct tool_cufile_move *point)
{
    return known.handle && known.write == point->write && strcmp(known.path, point->path) == 0;
}

static void forget(const struct cufile *c)
{
    if (known.handle)
        c->deregister_handle(known.handle);
    if (known.fd >= 0)
        close(known.fd);
    known.handle = NULL;
    known.fd = -1;
}

/* Registers the file with cuFile; the caller has made a CUDA context current. */
static bool register_file(const struct cufile *c, const struct tool_cufile_move *point, char *why,
                          size_t why_bytes)
{
    if (is_known(point))
        return true;
    forget(c);
    snprintf(known.path, sizeof known.path, "%s", point->path);
    known.write = point->write;
    known.name[0] = '\0';
    known.fd = open_named(point, known.name, sizeof known.name);
    if (known.fd < 0) {
        snprintf(why, why_bytes, "open of %.100s: %s", point->path, strerror(errno));
        return false;
    }
    struct cufile_description description = {.type = CUFILE_DESCRIPTOR, .handle.fd = known.fd};
    struct cufile_error enlisted = c->register_handle(&known.handle, &description);
    if (known.name[0])
        unlink(known.name);
    if (!enlisted.error)
        return true;
    snprintf(why, why_bytes, "cuFileHandleRegister: %s", words(enlisted));
    known.handle = NULL;
    forget(c);
    return false;
}

static double move_file(const struct cufile *c, const struct tool_cufile_move *point, char *why,
                        size_t why_bytes)
{
    const struct gpu_api *driver;
    double gbps = -1;
    void *memory = allocate(&driver, point->window, why, why_bytes);
    if (!memory)
        return -1;
    if (register_file(c, point, why, why_bytes)) {
        uint64_t begin = clock_now_ns();
        if (move_all(c, known.handle, point, memory))
            gbps = (double)point->bytes / (double)(clock_now_ns() - begin);
        else
            snprintf(why, why_bytes, "cuFileRead or cuFileWrite failed: %s", strerror(errno));
    }
    driver->MemFree((CUdeviceptr)(uintptr_t)memory);
    return gbps;
}

double tool_cufile_move(const struct tool_cufile_move *point, char *why, size_t why_bytes)
{
    struct cufile_entry entry;
    double gbps = -1;
    const struct cufile *c = load_cufile(why, why_bytes);
    if (!c)
        return -1;
    if (find_entry(point->path, point->file_system, &entry, why, why_bytes)) {
        gbps = move_file(c, point, why, why_bytes);
        remove_entry(&entry);
    }
    return gbps;
}
