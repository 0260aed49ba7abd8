/* SPDX-License-Identifier: Apache-2.0 */
/* Implements gpu/memory.h by asynchronous copies on a separate stream of each GPU's primary
 * context. They do not wait for kernels of the program, even for a kernel that waits for them. The
 * driver is the program's. Streams and buffers are created when memory is registered, because a
 * driver call that creates something may wait for kernels. */
#include "gpu/memory.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_GPUS = 64,
    STAGE_BYTES = 64 << 10,
    UNKNOWN_ADDRESS = 1, /* error number of the driver */
    /* Constants of the driver's interface. */
    POINTER_MEMORY_TYPE = 2,
    POINTER_DEVICE_ORDINAL = 9,
    MEMORY_TYPE_DEVICE = 2,
    STREAM_NON_BLOCKING = 1,
    HOST_ALLOC_PORTABLE = 1,
};

static struct {
    bool usable;
    int (*pointer_attribute)(void *, int, uint64_t);
    int (*retain)(void **, int);
    int (*push)(void *);
    int (*pop)(void **);
    int (*stream_create)(void **, unsigned);
    int (*copy)(uint64_t, uint64_t, size_t, void *);
    int (*synchronize)(void *);
    int (*host_alloc)(void **, size_t, unsigned);
} driver;

static const struct {
    void *function;
    const char *symbol;
} symbols[] = {
    {&driver.pointer_attribute, "cuPointerGetAttribute"},
    {&driver.retain, "cuDevicePrimaryCtxRetain"},
    {&driver.push, "cuCtxPushCurrent_v2"},
    {&driver.pop, "cuCtxPopCurrent_v2"},
    {&driver.stream_create, "cuStreamCreate"},
    {&driver.copy, "cuMemcpyAsync"},
    {&driver.synchronize, "cuStreamSynchronize"},
    {&driver.host_alloc, "cuMemHostAlloc"},
};

/* Stream and pinned staging buffer of a GPU: the driver serializes copies from other memory. `used`
 * bytes of the buffer are sources of copies in progress. They live as long as the process. */
static struct copy_stream {
    void *context, *stream;
    uint8_t *stage;
    size_t used;
} copy_streams[MAX_GPUS];
static struct copy_stream *busy; /* the only stream that may have copies in progress */

static struct range {
    uint64_t address, bytes;
    int gpu;
    unsigned users;
} * ranges;
static size_t range_count, range_room;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* --- The driver --- */

/* The program may load the driver late. */
static bool find_driver(void)
{
    void *library = driver.usable ? NULL : dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!library)
        return driver.usable;
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *found = dlsym(library, symbols[i].symbol);
        if (!found)
            return false;
        memcpy(symbols[i].function, &found, sizeof found);
    }
    return driver.usable = true;
}

/* Returns the GPU that owns the address, or -1. */
static int gpu_of(uint64_t address)
{
    unsigned type = 0;
    int gpu = -1;
    if (driver.pointer_attribute(&type, POINTER_MEMORY_TYPE, address) || type != MEMORY_TYPE_DEVICE)
        return -1;
    if (driver.pointer_attribute(&gpu, POINTER_DEVICE_ORDINAL, address) || gpu >= MAX_GPUS)
        return -1;
    return gpu;
}

static void pop_context(void)
{
    void *popped;
    driver.pop(&popped);
}

/* Creates what is missing of a GPU's stream. Returns 0 or the driver's error. */
static int open_copy_stream(struct copy_stream *s, int gpu)
{
    int result = s->context ? 0 : driver.retain(&s->context, gpu);
    if (!result)
        result = driver.push(s->context);
    if (result)
        return result;
    if (!s->stream)
        result = driver.stream_create(&s->stream, STREAM_NON_BLOCKING);
    if (!result && !s->stage)
        result = driver.host_alloc((void **)&s->stage, STAGE_BYTES, HOST_ALLOC_PORTABLE);
    pop_context();
    return result;
}

/* --- Ranges --- */

static struct range *find_exactly(uint64_t address, uint64_t bytes)
{
    for (size_t i = 0; i < range_count; i++)
        if (ranges[i].address == address && ranges[i].bytes == bytes)
            return &ranges[i];
    return NULL;
}

static const struct range *find_around(uint64_t address)
{
    for (size_t i = 0; i < range_count; i++)
        if (address - ranges[i].address < ranges[i].bytes)
            return &ranges[i];
    return NULL;
}

static bool add_range(uint64_t address, uint64_t bytes, int gpu)
{
    struct range *known = find_exactly(address, bytes);
    if (known) {
        known->users++;
        return true;
    }
    if (range_count == range_room) {
        size_t room = 2 * range_room + 16;
        struct range *more = realloc(ranges, room * sizeof *more);
        if (!more)
            return false;
        ranges = more;
        range_room = room;
    }
    ranges[range_count] = (struct range){address, bytes, gpu, 1};
    __atomic_store_n(&range_count, range_count + 1, __ATOMIC_RELEASE);
    return true;
}

static enum gpu_memory_kind add_locked(uint64_t address, uint64_t bytes)
{
    int gpu = find_driver() && bytes ? gpu_of(address) : -1;
    if (gpu < 0)
        return GPU_MEMORY_NONE;
    if (address + bytes < address || gpu_of(address + bytes - 1) != gpu)
        return GPU_MEMORY_REFUSED;
    bool ready = !open_copy_stream(&copy_streams[gpu], gpu) && add_range(address, bytes, gpu);
    return ready ? GPU_MEMORY_THERE : GPU_MEMORY_REFUSED;
}

enum gpu_memory_kind gpu_memory_add(uint64_t address, uint64_t bytes)
{
    pthread_mutex_lock(&lock);
    enum gpu_memory_kind kind = add_locked(address, bytes);
    pthread_mutex_unlock(&lock);
    return kind;
}

void gpu_memory_remove(uint64_t address, uint64_t bytes)
{
    pthread_mutex_lock(&lock);
    struct range *r = find_exactly(address, bytes);
    if (r && !--r->users) {
        *r = ranges[range_count - 1];
        __atomic_store_n(&range_count, range_count - 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
}

bool gpu_memory_holds(uint64_t address)
{
    if (!__atomic_load_n(&range_count, __ATOMIC_ACQUIRE))
        return false;
    pthread_mutex_lock(&lock);
    bool found = find_around(address) != NULL;
    pthread_mutex_unlock(&lock);
    return found;
}

/* --- Copies --- */

static int flush_locked(void)
{
    struct copy_stream *s = busy;
    if (!s)
        return 0;
    busy = NULL;
    s->used = 0;
    return driver.synchronize(s->stream);
}

/* Selects the stream of the GPU that owns the memory and makes its context current. Returns 0 or an
 * error. */
static int select_copy_stream(uint64_t address, struct copy_stream **s)
{
    const struct range *r = find_around(address);
    if (!r)
        return UNKNOWN_ADDRESS;
    *s = &copy_streams[r->gpu];
    int result = busy && busy != *s ? flush_locked() : 0;
    if (result)
        return result;
    busy = *s;
    return driver.push((*s)->context);
}

static int put_pieces(struct copy_stream *s, uint64_t to, const uint8_t *from, size_t bytes)
{
    int result = 0;
    for (size_t n; !result && bytes; to += n, from += n, bytes -= n) {
        if (s->used == STAGE_BYTES) {
            result = flush_locked();
            busy = s;
        }
        n = bytes < STAGE_BYTES - s->used ? bytes : STAGE_BYTES - s->used;
        uint8_t *piece = s->stage + s->used;
        memcpy(piece, from, n);
        if (!result)
            result = driver.copy(to, (uintptr_t)piece, n, s->stream);
        /* Copies use aligned words, so that one store of the program's view stays one store. */
        s->used += (n + 15) & ~(size_t)15;
    }
    return result;
}

static int get_pieces(struct copy_stream *s, uint8_t *to, uint64_t from, size_t bytes)
{
    int result = flush_locked(); /* the staging buffer is used for the data read */
    for (size_t n; !result && bytes; to += n, from += n, bytes -= n) {
        n = bytes < STAGE_BYTES ? bytes : STAGE_BYTES;
        result = driver.copy((uintptr_t)s->stage, from, n, s->stream);
        if (!result)
            result = driver.synchronize(s->stream);
        if (!result)
            memcpy(to, s->stage, n);
    }
    return result;
}

int gpu_memory_put(uint64_t to, const void *from, size_t bytes)
{
    struct copy_stream *s;
    pthread_mutex_lock(&lock);
    int result = select_copy_stream(to, &s);
    if (!result) {
        result = put_pieces(s, to, from, bytes);
        pop_context();
    }
    pthread_mutex_unlock(&lock);
    return result;
}

int gpu_memory_get(void *to, uint64_t from, size_t bytes)
{
    struct copy_stream *s;
    pthread_mutex_lock(&lock);
    int result = select_copy_stream(from, &s);
    if (!result) {
        result = get_pieces(s, to, from, bytes);
        pop_context();
    }
    pthread_mutex_unlock(&lock);
    return result;
}

int gpu_memory_flush(void)
{
    if (!__atomic_load_n(&range_count, __ATOMIC_ACQUIRE))
        return 0;
    pthread_mutex_lock(&lock);
    int result = flush_locked();
    pthread_mutex_unlock(&lock);
    return result;
}
