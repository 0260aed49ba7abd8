/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory and files by cuFile, where the driver moves the bytes between disk and GPU itself: by
 * its kernel module nvidia_fs, or by the kernel's own P2PDMA. The library never tells whether a
 * file goes that way. It is opened with its compatibility mode off, so that it refuses a file that
 * does not, and what it takes is direct. Once per process, as opening it takes long. Source: GDS
 * cuFile API Reference. */
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

/* Less is moved through memory of cuFile's own as quickly. */
static const size_t worth_knowing = 1 << 20;

struct known {
    const struct gpu *gpu;
    const void *base;
    bool refused;
};

static struct {
    pthread_mutex_t lock;
    struct cufile calls;
    bool tried, open, opened_here; /* and not by the program before */
    bool compat;
    int files;
    struct file_why_not why;
    char carrier[16];
    struct known known[KNOWN_MOST];
    int known_count;
} library = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool refuse(struct file_why_not *why, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool refuse(struct file_why_not *why, const char *code, const char *format, ...)
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

static bool is_there(const char *root, const char *path)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    return access(whole, R_OK) == 0;
}

/* The driver maps all GPU memory for PCI devices only when told to; it shows what it was told. */
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

static bool kernel_can(const char *root, struct file_why_not *why)
{
    bool fs = is_there(root, "/proc/driver/nvidia-fs/devcount"), p2p = driver_maps_all(root);
    snprintf(library.carrier, sizeof library.carrier, "%s", fs ? "nvidia_fs" : "P2PDMA");
    return fs || p2p ||
           refuse(why, "FILE-NO-NVIDIA-FS",
                  "through pinned memory: neither is the module nvidia_fs loaded (modprobe "
                  "nvidia_fs), nor the driver's NVreg_RegistryDwords=RMForceStaticBar1=1 set, for "
                  "P2PDMA");
}

/* ------------------------------------------------------------------------------- the library */

/* Before it is opened. Older ones have no such call; what they were told otherwise is looked at
 * afterwards. */
static void set_up(const struct cufile *calls, bool compat)
{
    if (!calls->set_bool)
        return;
    calls->set_bool(CUFILE_ALLOW_COMPAT, compat);
    calls->set_bool(CUFILE_FORCE_COMPAT, compat);
    if (!compat && strcmp(library.carrier, "P2PDMA") == 0)
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
    set_up(calls, compat);
    struct cufile_error error = calls->driver_open();
    library.opened_here = error.error == 0;
    if (error.error == CUFILE_ERROR_OPEN_ALREADY)
        error.error = 0; /* the program uses it too */
    if (error.error)
        return refuse(why, "FILE-CUFILE", "through pinned memory: cuFileDriverOpen: %s",
                      cufile_error_text(error, text, sizeof text));
    log_debug("files: cuFileDriverOpen took %llu ms",
              (unsigned long long)((clock_now_ns() - begin) / 1000000));
    if (compat || !allows_compat(calls))
        return true;
    if (library.opened_here)
        calls->driver_close();
    return refuse(why, "FILE-CUFILE",
                  "through pinned memory: cuFile allows its compatibility mode, in which nobody "
                  "knows what it does; CUFILE_ALLOW_COMPAT_MODE=false");
}

/* Under the lock. */
static bool open_library(enum file_gpu_way way, const char *root, struct file_why_not *why)
{
    bool compat = way == FILE_GPU_COMPAT;
    if (library.tried) {
        *why = library.why;
        return library.open;
    }
    if (!kernel_can(root, why) && way == FILE_GPU_AUTO)
        return false; /* cheap to find out again */
    /* Without it libcufile 1.15 reads on for ever. */
    if (!is_there(root, "/proc/modules"))
        return refuse(why, "FILE-CUFILE",
                      "through pinned memory: this kernel has no /proc/modules, without which "
                      "cuFileDriverOpen never returns");
    library.tried = true;
    *why = (struct file_why_not){.code = ""};
    if (cufile_load(&library.calls)) {
        refuse(why, "FILE-NO-CUFILE", "through pinned memory: %s", base_last_error());
    } else {
        library.open = open_driver(&library.calls, compat, why);
        library.compat = compat;
        if (!library.open)
            cufile_unload(&library.calls);
    }
    library.why = *why;
    return library.open;
}

const char *file_cufile_carrier(void)
{
    return library.carrier;
}

/* ---------------------------------------------------------------------------------- the file */

static void one_file_less(void)
{
    pthread_mutex_lock(&library.lock);
    library.files--;
    pthread_mutex_unlock(&library.lock);
}

bool file_cufile_attach(struct opened_file *file, enum file_gpu_way way, const char *root,
                        struct file_why_not *why)
{
    char text[160];
    *why = (struct file_why_not){.code = ""};
    if (file->cufile)
        return true;
    if (file->direct < 0)
        return refuse(why, file->reason_code, "through pinned memory, %.220s", file->reason);
    pthread_mutex_lock(&library.lock);
    bool open = open_library(way, root, why);
    library.files += open;
    pthread_mutex_unlock(&library.lock);
    if (!open)
        return false;
    struct cufile_description description = {.type = CUFILE_DESCRIPTOR, .handle.fd = file->direct};
    struct cufile_error error = library.calls.enlist(&file->cufile, &description);
    if (!error.error)
        return true;
    file->cufile = NULL;
    one_file_less();
    return refuse(why, "FILE-CUFILE", "through pinned memory: cuFileHandleRegister: %s",
                  cufile_error_text(error, text, sizeof text));
}

void file_cufile_detach(struct opened_file *file)
{
    if (!file->cufile)
        return;
    library.calls.drop(file->cufile);
    file->cufile = NULL;
    one_file_less();
}

/* --------------------------------------------------------------------------------- the memory */

static bool is_known(const void *base)
{
    for (int i = 0; i < library.known_count; i++)
        if (library.known[i].base == base)
            return true;
    return false;
}

static void know(struct gpu *gpu, const void *base, size_t bytes)
{
    char text[160];
    struct cufile_error error = {CUFILE_FIRST_ERROR, 0};
    if (gpu_enter(&gpu->device) == WEFT_OK) {
        error = library.calls.know(base, bytes, 0);
        gpu_leave(&gpu->device);
    }
    if (error.error)
        log_debug("files: cuFileBufRegister of %zu bytes: %s; cuFile uses memory of its own", bytes,
                  cufile_error_text(error, text, sizeof text));
    library.known[library.known_count++] = (struct known){gpu, base, error.error != 0};
}

/* The program's own memory may go at any time, and cuFile would not be told. */
void file_cufile_know(struct gpu *gpu, const void *address, size_t bytes)
{
    uintptr_t own = gpu_heap_own(&gpu->heap)->base;
    size_t start, length;
    if (bytes < worth_knowing || library.compat || (uintptr_t)address < own ||
        (uintptr_t)address - own >= gpu->heap.size ||
        !gpu_find_chunk(gpu, (uintptr_t)address - own, &start, &length))
        return;
    pthread_mutex_lock(&library.lock);
    const void *base = (const void *)(own + start);
    if (library.known_count < KNOWN_MOST && !is_known(base))
        know(gpu, base, length);
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
            library.calls.forget(known->base);
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

static int64_t carry(const struct opened_file *file, const struct file_io *io)
{
    if (!io->gpu)
        return file_carry_by_system(file, io);
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
    return file_pool_open(file, depth, carry, result);
}

const struct file_backend file_cufile = {.name = "cufile",
                                         .open = open_cufile_queue,
                                         .close = file_pool_close,
                                         .give = file_pool_give,
                                         .push = file_pool_push,
                                         .take = file_pool_take,
                                         .wake = file_pool_wake};
