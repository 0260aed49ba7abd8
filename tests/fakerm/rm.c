/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in of /dev/nvidiactl and /dev/nvidia0 ... for the requests of src/driver/rm.c and the
 * memory of tests/fakecuda; to be preloaded. It is strict: sizes, the order of requests, one
 * mapping for each open file. A mapping that outlives its memory ends the process with a message,
 * because a real machine would not show it. Environment:
 *   FAKE_RM_FAIL=REQUEST:K  the K-th request of that number (hexadecimal) fails with status 0x56
 *   FAKE_RM_SIZE=REQUEST    that request has another size than the caller's: EINVAL
 *   FAKE_RM_LIE=1           mappings show other memory: stores do not arrive
 *   FAKE_RM_BAR1=MEBIBYTES  limit of memory mapped at a time
 *   FAKE_RM_NODE=1          the GPUs' nodes cannot be opened
 *   FAKE_RM_UNUSED=1        an open of any of the nodes ends the process with a message */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { MOST_FILES = 4096, MOST_OBJECTS = 4096, GPUS = 16, CTL = 255, FIRST_BUS = 0x10 };
enum { REFUSED = 0x56, NO_ROOM = 0x1a, IN_USE = 0x63, BAD_OBJECT = 0x57 };

struct mapping;

struct file {
    int what;                /* 0: not a node of the driver; CTL + 1, or the GPU's index + 1 */
    struct mapping *mapping; /* its mapping */
    uint64_t offset, length;
};

enum kind { NOTHING, CLIENT, DEVICE, MEMORY };

struct object {
    enum kind kind;
    uint32_t handle, client;
    int gpu, fd; /* MEMORY: its own descriptor */
    int mappings;
};

/* Created by MAP_MEMORY; `at` is set by mmap(). */
struct mapping {
    uint64_t linear; /* 0: unused */
    uint32_t memory;
    size_t bytes;
    void *at;
};

static struct file files[MOST_FILES];
static struct mapping mappings[MOST_OBJECTS];
static struct object objects[MOST_OBJECTS];
static uint32_t next_client = 0xc1d00000, next_memory = 0xcaf00000;
static uint64_t next_linear = 0xe000000000;
static size_t mapped_bytes;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *real(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static __attribute__((noreturn)) void die(const char *what)
{
    fprintf(stderr, "fake rm: %s\n", what);
    abort();
}

static struct object *find(enum kind kind, uint32_t client, uint32_t handle)
{
    for (int i = 0; i < MOST_OBJECTS; i++)
        if (objects[i].kind == kind && objects[i].handle == handle && objects[i].client == client)
            return &objects[i];
    return NULL;
}

static struct object *make(enum kind kind, uint32_t client, uint32_t handle)
{
    for (int i = 0; i < MOST_OBJECTS; i++) {
        if (objects[i].kind)
            continue;
        objects[i] = (struct object){.kind = kind, .client = client, .handle = handle, .fd = -1};
        return &objects[i];
    }
    die("too many objects");
}

static int is_open(int what)
{
    for (int fd = 0; fd < MOST_FILES; fd++)
        if (files[fd].what == what)
            return 1;
    return 0;
}

/* ------------------------------------------------------------------------------------- requests */

static int alloc(void *data)
{
    struct {
        uint32_t root, parent, new, class;
        uint64_t parameters;
        uint32_t bytes, status;
    } *call = data;
    if (call->class == 0x41) {
        call->new = next_client++;
        make(CLIENT, 0, call->new);
        return 0;
    }
    const uint32_t *device = (const uint32_t *)(uintptr_t)call->parameters;
    if (call->class != 0x80 || !find(CLIENT, 0, call->root) || call->parent != call->root ||
        call->bytes != 56 || device[1] != call->root || device[0] >= GPUS)
        return BAD_OBJECT;
    if (!is_open((int)device[0] + 1)) /* here device instances equal minor numbers */
        return REFUSED;
    make(DEVICE, call->root, call->new)->gpu = (int)device[0];
    return 0;
}

/* The GPU that owns exported memory; -1: not GPU memory. */
static int gpu_of(int fd)
{
    char link[40], name[80] = "";
    int gpu = -1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, name, sizeof name - 1) > 0)
        sscanf(name, "/memfd:fake-gpu-memory-%d", &gpu);
    return gpu;
}

static int control(void *data)
{
    struct {
        uint32_t client, object, command, flags;
        uint64_t parameters;
        uint32_t bytes, status;
    } *call = data;
    uint32_t *p = (uint32_t *)(uintptr_t)call->parameters;
    if (!find(CLIENT, 0, call->client))
        return BAD_OBJECT;
    if (call->command == 0x205 && call->bytes == 32) {
        p[2] = p[0] - 0x100;
        return 0;
    }
    if (call->command != 0x3d06 || call->bytes != 20)
        return REFUSED;
    struct object *device = find(DEVICE, call->client, p[2]);
    if (p[1] != 1 || !device || p[3] != p[2] || gpu_of((int)p[0]) != device->gpu)
        return BAD_OBJECT;
    p[4] = next_memory++;
    struct object *memory = make(MEMORY, call->client, p[4]);
    memory->gpu = device->gpu;
    memory->fd = dup((int)p[0]);
    return 0;
}

/* For memory of cuMemAlloc(), by the object numbers of tests/fakecuda/plain.c. */
static int duplicate(void *data)
{
    enum { SOURCE = (int)0xc1d0f00d, FIRST_OBJECT = 0x5c000000 };
    struct {
        uint32_t client, parent, object, source_client, source_object, flags, status;
    } *call = data;
    struct object *device = find(DEVICE, call->client, call->parent);
    int fd = (int)(call->source_object - FIRST_OBJECT);
    if (!device || call->source_client != (uint32_t)SOURCE || !call->object ||
        find(MEMORY, call->client, call->object) || fd < 0 || fd >= MOST_FILES ||
        gpu_of(fd) != device->gpu)
        return BAD_OBJECT;
    struct object *memory = make(MEMORY, call->client, call->object);
    memory->gpu = device->gpu;
    memory->fd = dup(fd);
    return 0;
}

/* For tests: successful mapping requests, bytes mapped now, and memory objects in use. */
EXPORT void fake_rm_counts(unsigned *maps, size_t *bytes, int *memories);
static unsigned maps_made;

static int map(void *data)
{
    struct {
        uint32_t client, device, memory, pad;
        uint64_t offset, length, linear;
        uint32_t status, flags;
        int32_t fd;
    } *call = data;
    struct object *memory = find(MEMORY, call->client, call->memory);
    const char *most = getenv("FAKE_RM_BAR1");
    if (!memory || !find(DEVICE, call->client, call->device) || call->fd < 0 ||
        call->fd >= MOST_FILES || files[call->fd].what != memory->gpu + 1)
        return BAD_OBJECT;
    if (files[call->fd].mapping)
        return IN_USE;
    if (call->offset % 4096 || call->length % 4096 || !call->length ||
        call->offset + call->length > (uint64_t)lseek(memory->fd, 0, SEEK_END))
        return REFUSED;
    if (most && mapped_bytes + call->length > strtoull(most, NULL, 0) << 20)
        return NO_ROOM;
    struct mapping *mapping = mappings;
    while (mapping < mappings + MOST_OBJECTS && mapping->linear)
        mapping++;
    if (mapping == mappings + MOST_OBJECTS)
        die("too many mappings");
    *mapping = (struct mapping){
        .linear = next_linear += 0x1000, .memory = call->memory, .bytes = call->length};
    files[call->fd].mapping = mapping;
    files[call->fd].offset = call->offset;
    files[call->fd].length = call->length;
    call->linear = mapping->linear;
    call->flags = 2;
    memory->mappings++;
    maps_made++;
    mapped_bytes += call->length;
    return 0;
}

/* The process must not have memory mapped that the driver removes. */
static void see_that_unmapped(const struct mapping *mapping)
{
    char line[512];
    unsigned long start, end;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx", &start, &end) == 2 && start <= (uintptr_t)mapping->at &&
            (uintptr_t)mapping->at < end && strstr(line, "fake-gpu-memory"))
            die("memory is taken away while it is mapped");
    if (maps)
        fclose(maps);
}

static int unmap(void *data)
{
    struct {
        uint32_t client, device, memory, pad;
        uint64_t linear;
        uint32_t status, flags;
    } *call = data;
    struct object *memory = find(MEMORY, call->client, call->memory);
    struct mapping *mapping = mappings;
    while (mapping < mappings + MOST_OBJECTS &&
           (mapping->linear != call->linear || mapping->memory != call->memory))
        mapping++;
    if (!memory || !call->linear || mapping == mappings + MOST_OBJECTS)
        return BAD_OBJECT;
    if (mapping->at)
        see_that_unmapped(mapping);
    memory->mappings--;
    mapped_bytes -= mapping->bytes;
    mapping->linear = 0;
    return 0;
}

static int release(void *data)
{
    struct {
        uint32_t client, parent, old, status;
    } *call = data;
    struct object *memory = find(MEMORY, call->client, call->old);
    if (!memory)
        return BAD_OBJECT;
    if (memory->mappings)
        die("memory is given up before its mappings");
    close(memory->fd);
    memory->kind = NOTHING;
    return 0;
}

EXPORT void fake_rm_counts(unsigned *maps, size_t *bytes, int *memories)
{
    pthread_mutex_lock(&lock);
    *maps = maps_made;
    *bytes = mapped_bytes;
    *memories = 0;
    for (int i = 0; i < MOST_OBJECTS; i++)
        *memories += objects[i].kind == MEMORY;
    pthread_mutex_unlock(&lock);
}

static void list_cards(void *data)
{
    struct {
        uint8_t valid;
        uint32_t domain;
        uint8_t bus, slot, function;
        uint16_t vendor, device;
        uint32_t gpu_id;
        uint16_t interrupt;
        uint64_t registers, registers_bytes, memory, memory_bytes;
        uint32_t minor;
        uint8_t name[10];
    } *cards = data;
    memset(cards, 0, 32 * sizeof *cards);
    for (int i = 0; i < GPUS; i++) { /* in another order than their index */
        int gpu = GPUS - 1 - i;
        cards[i].valid = 1;
        cards[i].bus = (uint8_t)(FIRST_BUS + gpu);
        cards[i].gpu_id = 0x100 + (uint32_t)gpu;
        cards[i].minor = (uint32_t)gpu;
    }
}

/* ------------------------------------------------------------------------------------ the calls */

struct handler {
    unsigned number;
    size_t bytes, status_at;
    int (*handle)(void *data);
};

static const struct handler handlers[] = {
    {0x29, 16, 12, release},   {0x2a, 32, 28, control}, {0x2b, 32, 28, alloc},
    {0x34, 28, 24, duplicate}, {0x4e, 56, 40, map},     {0x4f, 32, 24, unmap},
};

static int told_to_fail(unsigned number)
{
    static int seen;
    unsigned wanted;
    int at;
    const char *setting = getenv("FAKE_RM_FAIL");
    return setting && sscanf(setting, "%x:%d", &wanted, &at) == 2 && wanted == number &&
           ++seen == at;
}

static int answer(unsigned number, size_t bytes, void *data)
{
    const char *other = getenv("FAKE_RM_SIZE");
    if (number == 200 && bytes == 32 * 72) {
        list_cards(data);
        return 0;
    }
    for (size_t i = 0; i < sizeof handlers / sizeof handlers[0]; i++) {
        const struct handler *h = &handlers[i];
        if (h->number != number)
            continue;
        if (bytes != h->bytes || (other && strtoul(other, NULL, 16) == number))
            break;
        uint32_t status = told_to_fail(number) ? REFUSED : (uint32_t)h->handle(data);
        memcpy((char *)data + h->status_at, &status, sizeof status);
        return 0;
    }
    errno = EINVAL;
    return -1;
}

EXPORT int ioctl(int fd, unsigned long request, ...)
{
    va_list list;
    va_start(list, request);
    void *data = va_arg(list, void *);
    va_end(list);
    if (fd < 0 || fd >= MOST_FILES || files[fd].what != CTL + 1) {
        int (*next)(int, unsigned long, void *) =
            (int (*)(int, unsigned long, void *))real("ioctl");
        return next(fd, request, data);
    }
    pthread_mutex_lock(&lock);
    int result =
        _IOC_TYPE(request) == 'F' ? answer(_IOC_NR(request), _IOC_SIZE(request), data) : -1;
    pthread_mutex_unlock(&lock);
    return result;
}

static int open_ours(const char *path)
{
    int gpu = -1, end = 0;
    int what = strcmp(path, "/dev/nvidiactl") == 0 ? CTL + 1 : 0;
    if (!what && sscanf(path, "/dev/nvidia%d%n", &gpu, &end) == 1 && !path[end] && gpu < GPUS)
        what = gpu + 1;
    if (!what)
        return -2;
    if (getenv("FAKE_RM_UNUSED"))
        die("a node is opened to no use");
    if (gpu >= 0 && getenv("FAKE_RM_NODE")) {
        errno = EPERM;
        return -1;
    }
    int fd = memfd_create("fake-nvidia-node", MFD_CLOEXEC);
    if (fd >= MOST_FILES)
        die("too many open files");
    if (fd >= 0)
        files[fd] = (struct file){.what = what};
    return fd;
}

#define OPEN(name)                                                                                 \
    EXPORT int name(const char *path, int flags, ...)                                              \
    {                                                                                              \
        va_list list;                                                                              \
        va_start(list, flags);                                                                     \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;                    \
        va_end(list);                                                                              \
        int fd = open_ours(path);                                                                  \
        int (*next)(const char *, int, ...) = (int (*)(const char *, int, ...))real(#name);        \
        return fd == -2 ? next(path, flags, mode) : fd;                                            \
    }
OPEN(open)
OPEN(open64)

EXPORT int close(int fd)
{
    int (*next)(int) = (int (*)(int))real("close");
    if (fd >= 0 && fd < MOST_FILES)
        files[fd] = (struct file){0};
    return next(fd);
}

static void *map_ours(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    struct file *file = &files[fd];
    struct object *memory = NULL;
    for (int i = 0; i < MOST_OBJECTS && file->mapping && !memory; i++)
        if (objects[i].kind == MEMORY && objects[i].handle == file->mapping->memory)
            memory = &objects[i];
    if (!memory || bytes != file->length || offset) {
        errno = memory && !offset ? ENXIO : EINVAL;
        return MAP_FAILED;
    }
    void *(*next)(void *, size_t, int, int, int, off_t) =
        (void *(*)(void *, size_t, int, int, int, off_t))real("mmap");
    flags = (flags & ~MAP_SHARED) | (getenv("FAKE_RM_LIE") ? MAP_PRIVATE : MAP_SHARED);
    file->mapping->at = next(at, bytes, protection, flags, memory->fd, (off_t)file->offset);
    return file->mapping->at;
}

#define MMAP(name)                                                                                 \
    EXPORT void *name(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)     \
    {                                                                                              \
        if (fd >= 0 && fd < MOST_FILES && files[fd].what)                                          \
            return map_ours(at, bytes, protection, flags, fd, offset);                             \
        void *(*next)(void *, size_t, int, int, int, off_t) =                                      \
            (void *(*)(void *, size_t, int, int, int, off_t))real(#name);                          \
        return next(at, bytes, protection, flags, fd, offset);                                     \
    }
MMAP(mmap)
MMAP(mmap64)
