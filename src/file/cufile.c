/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers between files and GPU memory by cuFile, which moves data directly between disk and GPU:
 * through the kernel module nvidia_fs, or through the kernel's P2PDMA. The library does not report
 * whether a transfer is direct. So this file opens it with its compatibility mode off: it then
 * refuses files that it cannot transfer directly. It is opened once per process, because that takes
 * long. Source: GDS cuFile API Reference. */
#include "file/threads.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "driver/cufile.h"
#include "gpu/gpu.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KNOWN_MOST = 64 };

/* Smallest transfer whose memory is registered: smaller ones are as fast through cuFile's own
 * buffers. */
static const size_t register_bytes = 1 << 20;

/* GPU memory that is registered with cuFile. */
struct known {
    const struct gpu *gpu;
    const void *base;
    bool refused; /* cuFile refused to register it */
};

static struct {
    pthread_mutex_t lock;
    struct cufile calls;
    bool tried, open;
    bool opened_here; /* this library has opened the driver, not the program */
    bool compat;
    int files;
    struct file_why_not why;
    char transport[16];
    struct known known[KNOWN_MOST];
    int known_count;
} library = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool set_reason(struct file_why_not *why, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool set_reason(struct file_why_not *why, const char *code, const char *format, ...)
{
    va_list list;
    snprintf(why->code, sizeof why->code, "%s", code);
    va_start(list, format);
    vsnprintf(why->words, sizeof why->words, format, list);
    va_end(list);
    return false;
}

const char *file_cufile_words(int error, char *text, size_t bytes)
{
    return cufile_error_text((struct cufile_error){error, 0}, text, bytes);
}

/* ------------------------------------------------------------------------- what the kernel has */

static bool is_readable(const char *root, const char *path)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    return access(whole, R_OK) == 0;
}

/* P2PDMA needs the driver option that maps all GPU memory for PCI devices; /proc shows it. */
static bool driver_maps_all(const char *root)
{
    char path[512], line[512];
    bool found = false;
    snprintf(path, sizeof path, "%s/proc/driver/nvidia/params", root);
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file))
        found = strstr(line, "RMForceStaticBar1=1") != NULL;
    if (file)
        fclose(file);
    return found;
}

static bool kernel_supports(const char *root, struct file_why_not *why)
{
    bool fs = is_readable(root, "/proc/driver/nvidia-fs/devcount"), p2p = driver_maps_all(root);
    snprintf(library.transport, sizeof library.transport, "%s", fs ? "nvidia_fs" : "P2PDMA");
    return fs || p2p ||
           set_reason(
               why, "FILE-NO-NVIDIA-FS",
               "through pinned memory: the module nvidia_fs is not loaded (modprobe nvidia_fs), "
               "and NVreg_RegistryDwords=RMForceStaticBar1=1, for P2PDMA, is not set");
}

/* ------------------------------------------------------------------------------- the library */

/* Sets parameters before the driver is opened. Older libraries lack the call; allows_compat()
 * checks their settings afterwards. */
static void set_parameters(const struct cufile *calls, bool compat)
{
    if (!calls->set_bool)
        return;
    calls->set_bool(CUFILE_ALLOW_COMPAT, compat);
    calls->set_bool(CUFILE_FORCE_COMPAT, compat);
    if (!compat && strcmp(library.transport, "P2PDMA") == 0)
        calls->set_bool(CUFILE_USE_P2PDMA, true);
}

static bool allows_compat(const struct cufile *calls)
{
    struct cufile_properties properties = {.nvfs.control = CUFILE_CONTROL_COMPAT};
    struct cufile_error error = calls->properties(&properties);
    return error.error || properties.nvfs.control & CUFILE_CONTROL_COMPAT;
}

static bool open_driver(struct cufile *calls, bool compat, struct file_why_not *why)
{
    char text[128];
    uint64_t begin = clock_now_ns();
    set_parameters(calls, compat);
    struct cufile_error error = calls->driver_open();
    library.opened_here = error.error == 0;
    if (error.error == CUFILE_ERROR_OPEN_ALREADY)
        error.error = 0; /* the program has opened it */
    if (error.error)
        return set_reason(why, "FILE-CUFILE", "through pinned memory: cuFileDriverOpen: %s",
                          cufile_error_text(error, text, sizeof text));
    log_debug(LOG_FILES, "cuFileDriverOpen took %llu ms",
              (unsigned long long)((clock_now_ns() - begin) / 1000000));
    if (compat || !allows_compat(calls))
        return true;
    if (library.opened_here)
        calls->driver_close();
    return set_reason(why, "FILE-CUFILE",
                      "through pinned memory: cuFile allows its compatibility mode, which hides "
                      "whether transfers are direct; set CUFILE_ALLOW_COMPAT_MODE=false");
}

/* The caller holds the lock. */
static bool open_library(enum file_gpu_backend way, const char *root, struct file_why_not *why)
{
    bool compat = way == FILE_GPU_COMPAT;
    if (library.tried) {
        *why = library.why;
        return library.open;
    }
    if (!kernel_supports(root, why) && way == FILE_GPU_AUTO)
        return false; /* not recorded: the check is cheap */
    /* Without this file cuFileDriverOpen of libcufile 1.15 never returns. */
    if (!is_readable(root, "/proc/modules"))
        return set_reason(why, "FILE-CUFILE",
                          "through pinned memory: this kernel has no /proc/modules, without which "
                          "cuFileDriverOpen never returns");
    library.tried = true;
    *why = (struct file_why_not){.code = ""};
    if (cufile_load(&library.calls)) {
        set_reason(why, "FILE-NO-CUFILE", "through pinned memory: %s", base_last_error());
    } else {
        library.open = open_driver(&library.calls, compat, why);
        library.compat = compat;
        if (!library.open)
            cufile_unload(&library.calls);
    }
    library.why = *why;
    return library.open;
}

const char *file_cufile_transport(void)
{
    return library.transport;
}

/* ---------------------------------------------------------------------------------- the file */

static void release_library(void)
{
    pthread_mutex_lock(&library.lock);
    library.files--;
    pthread_mutex_unlock(&library.lock);
}

bool file_cufile_attach(struct opened_file *file, enum file_gpu_backend way, const char *root,
                        struct file_why_not *why)
{
    char text[160];
    *why = (struct file_why_not){.code = ""};
    if (file->cufile)
        return true;
    if (file->direct < 0)
        return set_reason(why, file->reason_code, "through pinned memory, %.220s", file->reason);
    pthread_mutex_lock(&library.lock);
    bool open = open_library(way, root, why);
    library.files += open;
    pthread_mutex_unlock(&library.lock);
    if (!open)
        return false;
    struct cufile_description description = {.type = CUFILE_DESCRIPTOR, .handle.fd = file->direct};
    struct cufile_error error = library.calls.register_handle(&file->cufile, &description);
    if (!error.error)
        return true;
    file->cufile = NULL;
    release_library();
    return set_reason(why, "FILE-CUFILE", "through pinned memory: cuFileHandleRegister: %s",
                      cufile_error_text(error, text, sizeof text));
}

void file_cufile_detach(struct opened_file *file)
{
    if (!file->cufile)
        return;
    library.calls.deregister_handle(file->cufile);
    file->cufile = NULL;
    release_library();
}

/* --------------------------------------------------------------------------------- the memory */

static bool is_known(const void *base)
{
    for (int i = 0; i < library.known_count; i++)
        if (library.known[i].base == base)
            return true;
    return false;
}

static void register_memory(struct gpu *gpu, const void *base, size_t bytes)
{
    char text[160];
    struct cufile_error error = {CUFILE_FIRST_ERROR, 0};
    if (gpu_enter(&gpu->device) == WEFT_OK) {
        error = library.calls.register_buffer(base, bytes, 0);
        gpu_leave(&gpu->device);
    }
    if (error.error)
        log_debug(LOG_FILES,
                  "files: cuFileBufRegister of %zu bytes: %s; cuFile uses memory of its own", bytes,
                  cufile_error_text(error, text, sizeof text));
    library.known[library.known_count++] = (struct known){gpu, base, error.error != 0};
}

/* Registers only heap memory: the program may free its own memory at any time, without cuFile
 * learning of it. */
void file_cufile_register(struct gpu *gpu, const void *address, size_t bytes)
{
    uintptr_t own = gpu_heap_own(&gpu->heap)->base;
    size_t start, length;
    if (bytes < register_bytes || library.compat || (uintptr_t)address < own ||
        (uintptr_t)address - own >= gpu->heap.size ||
        !gpu_find_chunk(gpu, (uintptr_t)address - own, &start, &length))
        return;
    pthread_mutex_lock(&library.lock);
    const void *base = (const void *)(own + start);
    if (library.known_count < KNOWN_MOST && !is_known(base))
        register_memory(gpu, base, length);
    pthread_mutex_unlock(&library.lock);
}

void file_cufile_end(const struct gpu *gpu)
{
    int kept = 0;
    pthread_mutex_lock(&library.lock);
    for (int i = 0; i < library.known_count; i++) {
        struct known *known = &library.known[i];
        if (known->gpu != gpu) {
            library.known[kept++] = *known;
        } else if (!known->refused && gpu_enter(&gpu->device) == WEFT_OK) {
            library.calls.deregister_buffer(known->base);
            gpu_leave(&gpu->device);
        }
    }
    library.known_count = kept;
    if (library.open && !kept && !library.files) {
        if (library.opened_here)
            library.calls.driver_close();
        cufile_unload(&library.calls);
        library.open = library.tried = false;
    }
    pthread_mutex_unlock(&library.lock);
}

/* -------------------------------------------------------------------------------- the requests */

static int64_t transfer_by_cufile(const struct opened_file *file, const struct file_io *io)
{
    if (!io->gpu)
        return file_io_by_system(file, io);
    if (gpu_enter(&io->gpu->device))
        return -CUFILE_ERROR_CUDA;
    errno = EIO;
    ssize_t n =
        io->write ? library.calls.write(file->cufile, io->address, io->bytes, (off_t)io->offset, 0)
                  : library.calls.read(file->cufile, io->address, io->bytes, (off_t)io->offset, 0);
    int error = errno;
    gpu_leave(&io->gpu->device);
    return n == -1 ? -error : n;
}

static weft_status open_cufile_queue(const struct opened_file *file, unsigned depth,
                                     struct file_queue **result)
{
    return file_pool_open(file, depth, transfer_by_cufile, result);
}

const struct file_backend file_cufile = {.name = "cufile",
                                         .open = open_cufile_queue,
                                         .close = file_pool_close,
                                         .submit = file_pool_submit,
                                         .start = file_pool_start,
                                         .reap = file_pool_reap,
                                         .wake = file_pool_wake};
