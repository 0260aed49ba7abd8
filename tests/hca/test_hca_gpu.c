/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that the software HCA makes to the CUDA driver: memory of GPUs, keys for the kernel,
 * the engine's slices. The driver is a mock with two GPUs. The log is compared with
 * golden/hca_gpu.txt. */
#include "fails.h"
#include "gpu/driver.h"
#include "gpu/engine.h"
#include "gpu/memory.h"
#include "hca.h"
#include "trace.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

enum { GPU_BYTES = 1 << 20, HOSTS = 8, OWN_LID = 5, PEER_LID = 9 };

static uint8_t gpus[2][GPU_BYTES] __attribute__((aligned(4096)));
static uint32_t gpu_used[2];
static struct {
    uint8_t *at;
    size_t bytes;
} hosts[HOSTS];
static unsigned host_count;
static int current_gpu[8];
static unsigned depth;
static bool quiet; /* true: calls are not logged */

static void say_place(uint64_t address)
{
    for (unsigned i = 0; i < 2; i++)
        if (address - (uintptr_t)gpus[i] < GPU_BYTES) {
            say(" gpu%u+%x", i, (unsigned)(address - (uintptr_t)gpus[i]));
            return;
        }
    for (unsigned i = 0; i < host_count; i++)
        if (address - (uintptr_t)hosts[i].at < hosts[i].bytes) {
            say(" host%u+%x", i, (unsigned)(address - (uintptr_t)hosts[i].at));
            return;
        }
    say(address < 1 << 24 ? " %x" : " elsewhere", (unsigned)address);
}

static int done(const char *name)
{
    int result = due(name) ? 700 : 0;
    if (!quiet)
        say(result ? " refused\n" : "\n");
    return result;
}

/* --- The driver --- */

/* A register is cleared by push, copy and pop, a thousand times: the test only counts these. */
static unsigned cleared, pushed; /* pushed: the context, not logged yet */
static bool clears;

static void say_pushed(void)
{
    if (pushed)
        say("  push %x\n", pushed);
    pushed = 0;
}

#define CALL(...)                                                                                  \
    do {                                                                                           \
        if (!quiet) {                                                                              \
            say_pushed();                                                                          \
            say(__VA_ARGS__);                                                                      \
        }                                                                                          \
    } while (0)

static int device_count(int *n)
{
    CALL("  count");
    *n = 2;
    return done("device_count");
}

static int device_get(int *device, int n)
{
    *device = n;
    return 0;
}

static int retain(void **context, int gpu)
{
    CALL("  retain %d", gpu);
    *context = (void *)(uintptr_t)(0x100 + gpu);
    return done("retain");
}

static int push(void *context)
{
    if (due("push")) {
        CALL("  push %x refused\n", (unsigned)(uintptr_t)context);
        return 700;
    }
    CALL("%s", "");
    pushed = quiet ? 0 : (unsigned)(uintptr_t)context;
    current_gpu[++depth] = (int)(uintptr_t)context - 0x100;
    return 0;
}

static int pop(void **context)
{
    if (!clears)
        CALL("  pop\n");
    clears = false;
    assert_true(depth > 0);
    *context = (void *)(uintptr_t)(0x100 + current_gpu[depth--]);
    return 0;
}

static int enable_peer(void *context, unsigned flags)
{
    CALL("  enable peer %x %u", (unsigned)(uintptr_t)context, flags);
    if (due("peer_already")) {
        CALL(" already\n");
        return 704;
    }
    return done("enable_peer");
}

static int pointer_attribute(void *out, int what, uint64_t address)
{
    for (int i = 0; i < 2; i++) {
        if (address - (uintptr_t)gpus[i] >= GPU_BYTES)
            continue;
        unsigned type = due("type_host") ? 1 : 2;
        memcpy(out, what == 2 ? (void *)&type : (void *)&i, 4);
        assert_true(what == 2 || what == 9);
        return due(what == 2 ? "attribute_type" : "attribute_gpu") ? 1 : 0;
    }
    return 1;
}

static int module_load(void **module, const void *image)
{
    CALL("  module %.10s", (const char *)image);
    *module = (void *)0x200;
    return done("module_load");
}

static int module_function(void **function, void *module, const char *name)
{
    CALL("  function %x %s", (unsigned)(uintptr_t)module, name);
    *function = (void *)0x300;
    return done("module_function");
}

static void (*in_slice)(struct gpu_slice *slice);
static int launch(void *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by,
                  unsigned bz, unsigned shared, void *stream, void **arguments, void **extra)
{
    struct gpu_slice s;
    memcpy(&s, arguments[0], sizeof s);
    assert_null(extra);
    CALL("  launch %x %u %u %u %u %u %u %u on %x: %llu ns count %u stop",
         (unsigned)(uintptr_t)function, x, y, z, bx, by, bz, shared, (unsigned)(uintptr_t)stream,
         (unsigned long long)s.ns, s.count);
    const uint64_t places[] = {s.stop, s.attention, s.queues, s.keys};
    for (unsigned i = 0; i < 4 && !quiet; i++)
        say_place(places[i]);
    int result = done("launch");
    if (!result && in_slice)
        in_slice(&s);
    return result;
}

static unsigned streams;
static int stream_create(void **stream, unsigned flags)
{
    CALL("  stream %u", flags);
    *stream = (void *)(uintptr_t)(0x400 + streams++);
    return done("stream_create");
}

static int stream_create_priority(void **stream, unsigned flags, int priority)
{
    CALL("  stream %u of %d", flags, priority);
    *stream = (void *)(uintptr_t)(0x400 + streams++);
    return done("stream_create_priority");
}

static unsigned not_ready;
static int stream_query(void *stream)
{
    CALL("  query %x", (unsigned)(uintptr_t)stream);
    if (not_ready) {
        not_ready--;
        CALL(" not ready\n");
        return DRIVER_NOT_READY;
    }
    return done("stream_query");
}

static int synchronize(void *stream)
{
    if (cleared)
        CALL("  %u registers cleared\n", cleared);
    cleared = 0;
    CALL("  synchronize %x", (unsigned)(uintptr_t)stream);
    return done("synchronize");
}

static int copy(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    if (bytes == 128 && !due("copy")) {
        cleared++;
        clears = true;
        pushed = 0;
        memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
        return 0;
    }
    CALL("  copy");
    if (!quiet) {
        say_place(to);
        say_place(from);
    }
    CALL(" %zu on %x in %d", bytes, (unsigned)(uintptr_t)stream, depth ? current_gpu[depth] : -1);
    int result = done("copy");
    if (!result)
        memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return result;
}

static int allocate(uint64_t *at, size_t bytes)
{
    int gpu = current_gpu[depth];
    *at = (uintptr_t)gpus[gpu] + gpu_used[gpu];
    CALL("  allocate %zu of %d", bytes, gpu);
    gpu_used[gpu] += (uint32_t)((bytes + 255) & ~(size_t)255);
    assert_true(gpu_used[gpu] <= GPU_BYTES);
    return done("allocate");
}

static int host_alloc(void **at, size_t bytes, unsigned flags)
{
    CALL("  host %zu %u", bytes, flags);
    int result = done("host_alloc");
    if (result)
        return result;
    assert_true(host_count < HOSTS);
    hosts[host_count].at = malloc(bytes);
    hosts[host_count].bytes = bytes;
    memset(hosts[host_count].at, 0xee, bytes);
    *at = hosts[host_count++].at;
    return 0;
}

static int host_register(void *at, size_t bytes, unsigned flags)
{
    CALL("  register %zu %u", bytes, flags);
    if (due("already")) {
        CALL(" already\n");
        return DRIVER_ALREADY_REGISTERED;
    }
    return done("host_register");
}

static int host_unregister(void *at)
{
    CALL("  unregister");
    return done("host_unregister");
}

static int host_pointer(uint64_t *out, void *at, unsigned flags)
{
    CALL("  pointer %u", flags);
    *out = (uintptr_t)at;
    return done("host_pointer");
}

/* Allocations of GPU 0: one handle for each 64 KiB. */
static int handle_of(uint64_t *handle, void *at)
{
    CALL("  handle of");
    if (!quiet)
        say_place((uintptr_t)at);
    uint64_t offset = (uintptr_t)at - (uintptr_t)gpus[0];
    int result = done("handle_of");
    if (result || offset >= GPU_BYTES)
        return 1;
    *handle = 0x500 + (offset >> 16);
    return 0;
}

static int export_handle(void *fd, uint64_t handle, int type, uint64_t flags)
{
    CALL("  export %x %d %u", (unsigned)handle, type, (unsigned)flags);
    int result = done("export"), opened = result ? -1 : open("/dev/null", O_RDONLY);
    memcpy(fd, &opened, 4);
    return result;
}

static int import_handle(uint64_t *handle, void *fd, int type)
{
    CALL("  import %d of a file %d", type,
         fcntl((int)(intptr_t)fd, F_GETFD) >= 0 && (intptr_t)fd > 2);
    assert_int_equal(fcntl((int)(intptr_t)fd, F_GETFD), FD_CLOEXEC);
    *handle = 0x600;
    return done("import");
}

static int release(uint64_t handle)
{
    CALL("  release %x", (unsigned)handle);
    return done("release");
}

static int reserve(uint64_t *at, size_t bytes, size_t align, uint64_t where, uint64_t flags)
{
    CALL("  reserve %zx %zu %u %u", bytes, align, (unsigned)where, (unsigned)flags);
    *at = 0x700000;
    return done("reserve");
}

static int unreserve(uint64_t at, size_t bytes)
{
    CALL("  unreserve %x %zx", (unsigned)at, bytes);
    return done("unreserve");
}

static int map(uint64_t at, size_t bytes, size_t offset, uint64_t handle, uint64_t flags)
{
    CALL("  map %x %zx %zu %x %u", (unsigned)at, bytes, offset, (unsigned)handle, (unsigned)flags);
    return done("map");
}

static int unmap(uint64_t at, size_t bytes)
{
    CALL("  unmap %x %zx", (unsigned)at, bytes);
    return done("unmap");
}

static int set_access(uint64_t at, size_t bytes, const struct driver_access *a, size_t count)
{
    CALL("  access");
    if (!quiet)
        say_place(at);
    CALL(" %zx to %d %d %d %zu", bytes, a->location, a->device, a->flags, count);
    return done("set_access");
}

/* --- The library --- */

#define ENTRY(name, function)                                                                      \
    {                                                                                              \
        name, (void (*)(void))function                                                             \
    }
static const struct {
    const char *name;
    void (*function)(void);
} entries[] = {
    ENTRY("cuDeviceGetCount", device_count),
    ENTRY("cuDeviceGet", device_get),
    ENTRY("cuDevicePrimaryCtxRetain", retain),
    ENTRY("cuCtxPushCurrent_v2", push),
    ENTRY("cuCtxPopCurrent_v2", pop),
    ENTRY("cuCtxEnablePeerAccess", enable_peer),
    ENTRY("cuPointerGetAttribute", pointer_attribute),
    ENTRY("cuModuleLoadData", module_load),
    ENTRY("cuModuleGetFunction", module_function),
    ENTRY("cuLaunchKernel", launch),
    ENTRY("cuStreamCreate", stream_create),
    ENTRY("cuStreamCreateWithPriority", stream_create_priority),
    ENTRY("cuStreamQuery", stream_query),
    ENTRY("cuStreamSynchronize", synchronize),
    ENTRY("cuMemcpyAsync", copy),
    ENTRY("cuMemAlloc_v2", allocate),
    ENTRY("cuMemHostAlloc", host_alloc),
    ENTRY("cuMemHostRegister_v2", host_register),
    ENTRY("cuMemHostUnregister", host_unregister),
    ENTRY("cuMemHostGetDevicePointer_v2", host_pointer),
    ENTRY("cuMemRetainAllocationHandle", handle_of),
    ENTRY("cuMemExportToShareableHandle", export_handle),
    ENTRY("cuMemImportFromShareableHandle", import_handle),
    ENTRY("cuMemRelease", release),
    ENTRY("cuMemAddressReserve", reserve),
    ENTRY("cuMemAddressFree", unreserve),
    ENTRY("cuMemMap", map),
    ENTRY("cuMemUnmap", unmap),
    ENTRY("cuMemSetAccess", set_access),
};
enum { ENTRIES = sizeof entries / sizeof *entries };

static bool loaded;
static const char *lacks = "";
void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags)
{
    assert_string_equal(name, "libcuda.so.1");
    assert_int_equal(flags, 2 | 4); /* RTLD_NOW | RTLD_NOLOAD */
    return loaded ? (void *)entries : NULL;
}

void *__wrap_dlsym(void *library, const char *name);
void *__wrap_dlsym(void *library, const char *name)
{
    void *found;
    assert_ptr_equal(library, entries);
    for (unsigned i = 0; i < ENTRIES; i++)
        if (!strcmp(entries[i].name, name) && strcmp(lacks, name) != 0) {
            memcpy(&found, &entries[i].function, sizeof found);
            return found;
        }
    return NULL;
}

/* --- Other modules --- */

static struct config config;
static struct device device;
static bool locked;
void device_lock(struct device *d)
{
    assert_ptr_equal(d, &device);
    assert_false(locked);
    locked = true;
}

void device_unlock(struct device *d)
{
    assert_true(locked);
    locked = false;
}

static void *(*body)(void *);
int start_thread(pthread_t *t, void *(*of)(void *), struct device *d)
{
    assert_ptr_equal(d, &device);
    body = of;
    return due("start_thread") ? 11 : 0;
}

/* Checks that the mutex is locked. */
int __real_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
    assert_int_equal(pthread_mutex_trylock(m), EBUSY);
    return __real_pthread_mutex_unlock(m);
}

static unsigned joins;
int __wrap_pthread_join(pthread_t t, void **result);
int __wrap_pthread_join(pthread_t t, void **result)
{
    joins++;
    return 0;
}

struct qp *qp_find(struct device *d, uint32_t qpn)
{
    return qpn >> 12 == OWN_LID ? d->objects.qps[qpn & 0xfff] : NULL;
}

/* Peer of this LID: the other end of a socket pair. */
static int answers_to = -1;
int link_open_socket(uint32_t lid)
{
    assert_int_equal(lid, PEER_LID);
    int s = answers_to;
    answers_to = -1;
    return s;
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    assert_int_equal(timeout_ms, 2000);
    assert_int_equal(fds->events, POLLIN);
    return __real_poll(fds, count, 0);
}

/* Each sleep and each wait calls the test. */
static unsigned pauses, stop_at;
static void (*in_pause)(void);
int __wrap_nanosleep(const struct timespec *t, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *t, struct timespec *rest)
{
    assert_null(rest);
    assert_false(locked);
    CALL("  pause %lld.%ld\n", (long long)t->tv_sec, t->tv_nsec);
    pauses++;
    if (in_pause)
        in_pause();
    if (stop_at && pauses == stop_at)
        gpu_engine_stop(&device);
    return 0;
}

static unsigned waits;
static void (*in_wait)(void);
int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
    assert_ptr_equal(m, &device.threads.lock);
    assert_true(locked);
    assert_true(waits++ < 10);
    if (in_wait)
        in_wait();
    return 0;
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
    return due("calloc") ? NULL : __real_calloc(count, bytes);
}

static struct mr_entry keys_of_device[64];
static uint32_t wakeup[4], peer_bell[4];

static void begin(void)
{
    memset(&device, 0, sizeof device);
    memset(keys_of_device, 0, sizeof keys_of_device);
    config = (struct config){.engine = ENGINE_GPU};
    device.config = &config;
    device.lid = OWN_LID;
    device.threads.wakeup = wakeup;
    device.objects.keys = (struct mr_table){keys_of_device, 64};
    memset(wakeup, 0, sizeof wakeup);
    fails = "";
    depth = 0;
    quiet = false;
    in_slice = NULL;
    in_pause = in_wait = NULL;
    stop_at = pauses = waits = 0;
    not_ready = 0;
    locked = false;
}

static void say_log(void)
{
    for (uint64_t i = 0; i < device.record.line_count; i++)
        say("  log: %s\n", device.record.lines[i % LOG_LINES].text);
    device.record.line_count = 0;
}

/* --- Finding the driver --- */

static void the_driver_is_looked_for(void)
{
    begin();
    assert_null(gpu_driver());
    assert_int_equal(gpu_memory_add((uintptr_t)gpus[0], 16), GPU_MEMORY_NONE);
    loaded = true;
    for (unsigned i = 0; i < ENTRIES; i++) {
        lacks = entries[i].name;
        if (strcmp(lacks, "cuStreamCreateWithPriority") != 0)
            assert_null(gpu_driver());
    }
    static const char *const eight[] = {"cuPointerGetAttribute", "cuDevicePrimaryCtxRetain",
                                        "cuCtxPushCurrent_v2",   "cuCtxPopCurrent_v2",
                                        "cuStreamCreate",        "cuMemcpyAsync",
                                        "cuStreamSynchronize",   "cuMemHostAlloc"};
    for (unsigned i = 0; i < 8; i++) {
        lacks = eight[i];
        assert_int_equal(gpu_memory_add((uintptr_t)gpus[0], 16), GPU_MEMORY_NONE);
    }
    lacks = "";
    const struct gpu_driver *d = gpu_driver();
    assert_non_null(d);
    const void *const *table = (const void *const *)d;
    void *expected[ENTRIES];
    for (unsigned i = 0; i < ENTRIES; i++)
        memcpy(&expected[i], &entries[i].function, sizeof expected[i]);
    assert_int_equal(sizeof *d, sizeof expected);
    assert_memory_equal(table, expected, sizeof expected); /* each function in its place */
    loaded = false;
    assert_ptr_equal(gpu_driver(), d);
    loaded = true;
    assert_int_equal(gpu_driver_owner(d, (uintptr_t)gpus[1] + 5), 1);
    assert_int_equal(gpu_driver_owner(d, (uintptr_t)&config), -1);
    static const char *const calls[] = {"type_host", "attribute_type", "attribute_gpu"};
    for (unsigned i = 0; i < 3; i++) {
        fail_next(calls[i], 1, 0);
        assert_int_equal(gpu_driver_owner(d, (uintptr_t)gpus[1]), -1);
    }
}

/* --- Memory --- */

static void ranges(void)
{
    begin();
    uint64_t at = (uintptr_t)gpus[0] + 0x1000, other = (uintptr_t)gpus[1] + 0x2000;
    uint8_t data[64] = "to and from a GPU", back[64] = "";
    assert_false(gpu_memory_holds(at));
    assert_int_equal(gpu_memory_flush(), 0);
    assert_int_equal(gpu_memory_add(at, 0), GPU_MEMORY_NONE);
    assert_int_equal(gpu_memory_add((uintptr_t)data, 8), GPU_MEMORY_NONE);
    static const char *const none[] = {"type_host", "attribute_type", "attribute_gpu"};
    for (unsigned i = 0; i < 3; i++) {
        fail_next(none[i], 1, 0);
        assert_int_equal(gpu_memory_add(at, 8), GPU_MEMORY_NONE);
    }
    assert_int_equal(gpu_memory_add(at, (uint64_t)-8), GPU_MEMORY_REFUSED);
    assert_int_equal(gpu_memory_add(at, GPU_BYTES), GPU_MEMORY_REFUSED);
    fail_next("attribute_type", 2, 0);
    assert_int_equal(gpu_memory_add(at, 8), GPU_MEMORY_REFUSED);
    static const char *const calls[] = {"retain", "push", "stream_create", "host_alloc"};
    for (unsigned i = 0; i < 4; i++) {
        say("without %s\n", calls[i]);
        fail_next(calls[i], 1, 0);
        assert_int_equal(gpu_memory_add(at, 8), GPU_MEMORY_REFUSED);
        assert_int_equal(depth, 0);
    }
    say("added\n");
    assert_int_equal(gpu_memory_add(at, 16), GPU_MEMORY_THERE);
    assert_int_equal(gpu_memory_add(at, 16), GPU_MEMORY_THERE);
    assert_int_equal(gpu_memory_add(at + 8, 100), GPU_MEMORY_THERE);
    assert_int_equal(gpu_memory_add(other, 1), GPU_MEMORY_THERE);
    assert_true(gpu_memory_holds(at) && gpu_memory_holds(at + 107) && gpu_memory_holds(other));
    assert_false(gpu_memory_holds(at - 1) || gpu_memory_holds(at + 108));
    assert_false(gpu_memory_holds(other + 1) || gpu_memory_holds(other - 1));
    gpu_memory_remove(at, 17);
    gpu_memory_remove(at + 1, 16);
    gpu_memory_remove(at, 16);
    assert_true(gpu_memory_holds(at));
    gpu_memory_remove(at, 16);
    assert_false(gpu_memory_holds(at));
    assert_true(gpu_memory_holds(at + 8) && gpu_memory_holds(other));
    say("put and got\n");
    assert_int_equal(gpu_memory_put(at, data, 4), 1);
    assert_int_equal(gpu_memory_get(back, at, 4), 1);
    assert_int_equal(gpu_memory_put(at + 8, data, 17), 0);
    assert_int_equal(gpu_memory_put(at + 40, data, 16), 0);
    assert_int_equal(gpu_memory_put(at + 60, data + 3, 3), 0);
    assert_memory_equal(gpus[0] + 0x1000 + 8, data, 17);
    assert_int_equal(gpu_memory_get(back, at + 8, 20), 0);
    assert_memory_equal(back, gpus[0] + 0x1000 + 8, 20);
    say("settled\n");
    assert_int_equal(gpu_memory_flush(), 0);
    assert_int_equal(gpu_memory_put(at + 8, data, 1), 0);
    assert_int_equal(gpu_memory_flush(), 0);
    assert_int_equal(gpu_memory_flush(), 0);
    say("the other GPU\n");
    assert_int_equal(gpu_memory_put(at + 8, data, 1), 0);
    assert_int_equal(gpu_memory_put(other, data, 1), 0);
    assert_int_equal(gpu_memory_put(other, data, 1), 0);
    say("refused\n");
    static const struct {
        const char *call;
        unsigned at;
    } cases[] = {{"push", 1}, {"copy", 1}, {"synchronize", 1}, {"synchronize", 2}};
    for (unsigned i = 0; i < 4; i++) {
        fail_next(cases[i].call, cases[i].at, 0);
        memset(back, 0, sizeof back);
        say(" %d\n", gpu_memory_get(back, at + 8, 5));
        say(" %d\n", gpu_memory_put(other, data, 1));
        say(" %d\n", gpu_memory_flush());
        assert_int_equal(depth, 0);
    }
    fails = "";
    gpu_memory_remove(at + 8, 100);
    gpu_memory_remove(other, 1);
    assert_int_equal(gpu_memory_flush(), 0);
    assert_false(gpu_memory_holds(other));
}

static void long_copies(void)
{
    begin();
    static uint8_t data[200000], back[200000];
    uint64_t at = (uintptr_t)gpus[0] + 0x8000;
    for (unsigned i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 7 + i / 253);
    assert_int_equal(gpu_memory_add(at, sizeof data), GPU_MEMORY_THERE);
    assert_int_equal(gpu_memory_put(at, data, 65530), 0);
    assert_int_equal(gpu_memory_put(at + 65530, data + 65530, 4), 0);
    assert_int_equal(gpu_memory_put(at + 65534, data + 65534, sizeof data - 65534), 0);
    assert_memory_equal(gpus[0] + 0x8000, data, sizeof data);
    assert_int_equal(gpu_memory_get(back, at, sizeof back), 0);
    assert_memory_equal(back, data, sizeof data);
    for (unsigned i = 1; i < 4; i++) {
        fail_next("copy", i, 0);
        assert_int_equal(gpu_memory_put(at, data, sizeof data), 700);
        assert_int_equal(gpu_memory_flush(), 0);
        fail_next("synchronize", i, 0);
        int result = gpu_memory_put(at, data, sizeof data);
        say("%d\n", result);
    }
    fails = "";
    gpu_memory_flush();
    /* Uses up all ranges. */
    quiet = true;
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(gpu_memory_add(at + 2 * i, 1), GPU_MEMORY_THERE);
    gpu_memory_remove(at, sizeof data);
    for (unsigned i = 0; i < 200; i++)
        assert_int_equal(gpu_memory_holds(at + i), i % 2 == 0);
    for (unsigned i = 0; i < 100; i += 3)
        gpu_memory_remove(at + 2 * i, 1);
    for (unsigned i = 0; i < 200; i++)
        assert_int_equal(gpu_memory_holds(at + i), i % 2 == 0 && i / 2 % 3 != 0);
    for (unsigned i = 0; i < 100; i++)
        gpu_memory_remove(at + 2 * i, 1);
    assert_int_equal(gpu_memory_flush(), 0);
}

/* --- Keys --- */

static struct qp queue;
static struct gpu_key key_table[GPU_KEYS];

static void begin_keys(struct gpu_keys *keys)
{
    begin();
    memset(key_table, 0xee, sizeof key_table);
    *keys = (struct gpu_keys){.table = key_table, .count = 7};
    gpu_keys_clear(keys, gpu_driver());
    assert_int_equal(keys->count, 0);
    assert_true(keys->changed);
    keys->changed = false;
    queue = (struct qp){.device = &device,
                        .qpn = OWN_LID << 12 | 3,
                        .pd = 4,
                        .type = QP_RC,
                        .state = QP_RTS,
                        .requester.remote_qpn = 0x777,
                        .access = MR_REMOTE_READ | MR_REMOTE_WRITE};
    device.objects.qps[3] = &queue;
    keys_of_device[6] =
        (struct mr_entry){.address = 0x9000,
                          .bytes = 0x3000,
                          .memory = (uintptr_t)gpus[0] + 0x10000,
                          .pd = 4,
                          .access = MR_LOCAL_WRITE | MR_REMOTE_READ | MR_REMOTE_ATOMIC,
                          .tag = 2,
                          .valid = true};
}

static void say_keys(const struct gpu_keys *keys)
{
    say("  keys %u%s\n", keys->count, keys->changed ? " changed" : "");
    for (unsigned i = 0; i < GPU_KEYS; i++) {
        const struct gpu_key *k = &keys->table[i];
        if (!k->name)
            continue;
        say("  at %u: %llx %llx %llx access %x pad %u in", i, (unsigned long long)k->name,
            (unsigned long long)k->address, (unsigned long long)k->bytes, k->access, k->pad);
        say_place(k->memory);
        say("\n");
    }
}

static void own_keys(void)
{
    struct gpu_keys keys;
    for (unsigned i = 0; i < 16; i++) {
        begin_keys(&keys);
        struct gpu_key_request want = {6 << 8 | 2, queue.qpn, 0x777, PEER_LID, false};
        int gpu = 0;
        if (i == 1)
            want.key++;
        if (i == 2)
            want.key = 99 << 8;
        if (i == 3)
            want.number++;
        if (i == 4)
            queue.pd = 5;
        if (i == 5)
            keys_of_device[6].memory = (uintptr_t)&config;
        if (i >= 6 && i <= 10)
            gpu = 1; /* of another GPU */
        if (i >= 7 && i <= 10)
            fail_next("set_access", 1, 0);
        if (i >= 11) { /* from a queue of this device to another of this device */
            want = (struct gpu_key_request){6 << 8 | 2, 0x777, queue.qpn, OWN_LID, true};
            queue.state = i == 12 ? QP_INIT : i == 13 ? QP_RTR : QP_RTS;
            queue.type = i == 14 ? QP_DCI : QP_RC;
            queue.requester.remote_qpn += i == 15;
        }
        say("own key %u\n", i);
        bool added = gpu_keys_add(&device, &keys, gpu_driver(), gpu, &want);
        fails = "";
        say("  added %d\n", added);
        say_keys(&keys);
        if (i == 0) {
            keys.changed = false;
            keys_of_device[6].bytes = 5;
            assert_true(gpu_keys_add(&device, &keys, gpu_driver(), gpu, &want));
            say_keys(&keys); /* in the same slot */
        }
    }
}

/* The access is refused, then retried with the owner's context. */
static int refuse_access(uint64_t at, size_t bytes, const struct driver_access *a, size_t count)
{
    return 801;
}

static void opened_otherwise(void)
{
    static const char *const calls[] = {"", "retain", "enable_peer", "peer_already"};
    for (unsigned i = 0; i < 4; i++) {
        begin();
        struct gpu_driver table = *gpu_driver();
        table.set_access = refuse_access;
        fail_next(calls[i], 1, 0);
        say("by its context %u\n", i);
        say("  %d\n", gpu_keys_map(&table, 1, (uintptr_t)gpus[0], 64));
    }
}

static void full_table(void)
{
    struct gpu_keys keys;
    begin_keys(&keys);
    quiet = true;
    struct gpu_key_request want = {6 << 8 | 2, queue.qpn, 0, PEER_LID, false};
    unsigned last = 0;
    for (unsigned i = 0; i < GPU_KEYS_MOST; i++) {
        queue.qpn = OWN_LID << 12 | (i + 1);
        want.number = queue.qpn;
        memset(device.objects.qps, 0, sizeof device.objects.qps);
        device.objects.qps[i + 1] = &queue;
        assert_true(gpu_keys_add(&device, &keys, gpu_driver(), 0, &want));
        assert_int_equal(keys.count, i + 1);
        last = i;
    }
    assert_int_equal(last, GPU_KEYS_MOST - 1);
    assert_false(gpu_keys_add(&device, &keys, gpu_driver(), 0, &want));
    uint32_t sum = 0;
    for (unsigned i = 0; i < GPU_KEYS; i++)
        sum = sum * 31 + (uint32_t)(key_table[i].name >> 32);
    say("  sum %x\n", sum);
}

struct question {
    char word[5];
    uint32_t key, number, asking;
};

struct answer {
    uint64_t address, bytes;
    uint32_t access, valid;
};

/* The received descriptor, or -1. */
static int take_answer(int s, struct answer *a)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov = {a, sizeof *a};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof control};
    int fd = -1;
    ssize_t n = recvmsg(s, &m, MSG_DONTWAIT);
    if (n != sizeof *a)
        return -2;
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (c)
        memcpy(&fd, CMSG_DATA(c), sizeof fd);
    return fd;
}

static void questions(void)
{
    for (unsigned i = 0; i < 18; i++) {
        struct gpu_keys keys;
        begin_keys(&keys);
        int s[2];
        unsigned files = open_files();
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s), 0);
        struct question q = {"key?", 6 << 8 | 2, queue.qpn, 0x777};
        struct answer a = {0};
        keys_of_device[6].bytes = 0x10000;
        if (i == 1)
            queue.requester.remote_qpn++;
        if (i == 2)
            queue.state = QP_SQD;
        if (i == 3)
            q.key++;
        if (i == 4)
            keys_of_device[6].bytes = 0;
        if (i == 5)
            keys_of_device[6].memory = (uintptr_t)&config;
        if (i == 6)
            keys_of_device[6].bytes = 0x10001; /* extends into the next allocation */
        if (i == 7)
            keys_of_device[6].memory += 16; /* begins inside the allocation */
        if (i == 8)
            fail_next("export", 1, 0);
        if (i == 9 || i == 10)
            fail_next("handle_of", i - 8, 0);
        if (i == 11)
            keys_of_device[6].memory = (uintptr_t)gpus[0], keys_of_device[6].bytes = 0x10000;
        if (i == 12)
            queue.access = 0;
        if (i == 13)
            queue.state = QP_RTR;
        if (i == 14)
            queue.type = QP_DCT;
        if (i == 15)
            keys_of_device[6].bytes = 0xfff0;
        if (i == 16)
            q.asking = 0; /* a request of its own */
        if (i == 17)
            fail_next("handle_of", 3, 0);
        say("question %u\n", i);
        assert_int_equal(send(s[0], &q, sizeof q, 0), sizeof q);
        gpu_keys_answer_query(&device, s[1]);
        int fd = take_answer(s[0], &a);
        say("  answer %llx %llx access %x valid %u file %d\n", (unsigned long long)a.address,
            (unsigned long long)a.bytes, a.access, a.valid, fd >= 0);
        if (fd >= 0)
            close(fd);
        assert_int_equal(send(s[0], &q, sizeof q - 1, 0), sizeof q - 1);
        gpu_keys_answer_query(&device, s[1]);
        assert_int_equal(take_answer(s[0], &a), -2); /* not a valid request */
        close(s[0]);
        close(s[1]);
        assert_int_equal(open_files(), files);
    }
}

static void give_answer(int s, const struct answer *a, size_t bytes, bool with_file)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec iov = {(void *)(uintptr_t)a, bytes};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    int fd = open("/dev/null", O_RDONLY);
    if (with_file) {
        m.msg_control = control.bytes;
        m.msg_controllen = sizeof control.bytes;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    assert_int_equal(sendmsg(s, &m, 0), bytes);
    close(fd);
}

static void keys_of_peers(void)
{
    struct gpu_keys keys;
    begin_keys(&keys);
    struct gpu_key_request want = {0x1234, queue.qpn, 0x777, PEER_LID, true};
    unsigned files = open_files();
    for (unsigned i = 0; i < 14; i++) {
        int s[2];
        struct answer a = {0x5000, 0x200001, MR_REMOTE_READ, 1};
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s), 0);
        answers_to = s[1];
        if (i < 6)
            want.key = 0x1000 + i;
        if (i == 0) {
            close(s[1]);
            answers_to = -1;
        }
        if (i == 1)
            a.valid = 0;
        if (i > 1 && i < 6) {
            static const char *const calls[] = {"import", "reserve", "map", "set_access"};
            fail_next(calls[i - 2], 1, 0);
        }
        if (i == 6)
            want.key = 0x2001;
        if (i == 7)
            want.number++, want.peer++, a.bytes = 0x200000,
                                        a.access = 7; /* the same memory, mapped once */
        if (i == 8)
            want.key++, a.bytes = 0x200000;
        if (i == 12)
            fail_next("calloc", 1, 0);
        if (i == 13) {
            close(s[0]); /* the peer is gone */
            s[0] = -1;
        }
        say("a peer's key %u\n", i);
        if (i && i != 9 && s[0] >= 0)
            give_answer(s[0], &a, i == 10 ? sizeof a - 1 : sizeof a, i != 11);
        bool added = gpu_keys_add(&device, &keys, gpu_driver(), 1, &want);
        fails = "";
        struct question q = {"", 0, 0, 0};
        if (s[0] >= 0 && recv(s[0], &q, sizeof q, MSG_DONTWAIT) == sizeof q)
            say("  asked %.5s %x %x %x\n", q.word, q.key, q.number, q.asking);
        say("  added %d\n", added);
        if (added)
            say_keys(&keys);
        if (s[0] >= 0)
            close(s[0]);
        if (answers_to >= 0)
            close(answers_to);
        answers_to = -1;
        assert_int_equal(open_files(), files);
    }
    say("cleared\n");
    gpu_keys_clear(&keys, gpu_driver());
    assert_null(keys.mappings);
    say_keys(&keys);
}

/* --- The engine --- */

static struct link_out peer_link;
static struct uar uars[3];
static struct cq cqs[3];
static struct qp queues[3];

static void queues_make(void)
{
    memset(queues, 0, sizeof queues);
    memset(peer_bell, 0, sizeof peer_bell);
    memset(&peer_link, 0, sizeof peer_link);
    peer_link.address = PEER_LID;
    peer_link.wakeup = peer_bell;
    for (unsigned i = 0; i < 3; i++) {
        uars[i] = (struct uar){.device = &device,
                               .page_id = i + 1,
                               .queues = 1,
                               .gpu_address = 0x10000 + i,
                               .seen = 0x1111 * (i + 1)};
        cqs[i] = (struct cq){.device = &device,
                             .on_gpu = true,
                             .users = 1,
                             .buffer = (uint8_t *)(uintptr_t)(0x20000 + i),
                             .log_size = 3 + i,
                             .producer = 100 + i};
        queues[i] = (struct qp){.device = &device,
                                .qpn = OWN_LID << 12 | (i + 1),
                                .user_index = 0xabc + i,
                                .type = QP_RC,
                                .state = QP_RTS,
                                .send_cq = &cqs[i],
                                .uar = &uars[i],
                                .record = (uint32_t *)(uintptr_t)(0x30000 + i),
                                .send.gpu_ring = 0x40000 + i,
                                .send.blocks = 64u << i,
                                .requester.remote_qpn = 0x900 + i,
                                .requester.remote = PEER_LID,
                                .requester.link = &peer_link,
                                .send.producer = (uint16_t)(10 + i),
                                .send.taken = (uint16_t)(10 + i),
                                .send.released = (uint16_t)(5 + i)};
        device.objects.qps[i + 1] = &queues[i];
    }
}

static void say_queues(void)
{
    for (unsigned i = 0; i < 3; i++) {
        const struct qp *q = &queues[i];
        say("  qp %u: gpu %d cpu %d owed %d returns %u blocks %u/%u/%u seen %llx "
            "counts %llu %llu %llu completions %u\n",
            i, q->send.by_gpu, uars[i].by_cpu, uars[i].cpu_poll_pending, q->send.gpu_returns,
            q->send.released, q->send.taken, q->send.producer, (unsigned long long)uars[i].seen,
            (unsigned long long)q->counts.requests, (unsigned long long)q->counts.bytes,
            (unsigned long long)q->counts.completions, cqs[i].producer);
    }
    say("  device %llu %llu %llu\n", (unsigned long long)device.record.requests,
        (unsigned long long)device.record.by_gpu, (unsigned long long)device.record.doorbells);
}

static unsigned slices_seen;

/* Resets the state as if no engine had run: what the driver creates for one lives as long as the
 * process. The first two allocations are the buffers for copies. */
static void forget_engine(void)
{
    while (host_count > 2)
        free(hosts[--host_count].at);
    gpu_used[0] = gpu_used[1] = 0;
}

/* The mock kernel: what it sees and does. */
static void kernel(struct gpu_slice *slice)
{
    struct gpu_queue *k = (void *)(uintptr_t)slice->queues;
    const struct gpu_key *keys = (const void *)(uintptr_t)slice->keys;
    unsigned entered = 0;
    for (unsigned i = 0; i < GPU_KEYS; i++)
        entered += keys[i].name != 0;
    assert_int_equal(*(uint32_t *)(uintptr_t)slice->attention, 0);
    say("  slice %u: %u keys\n", slices_seen, entered);
    for (unsigned i = 0; i < slice->count; i++) {
        say("    queue %x ring %llx record %llx doorbell %llx completion %llx "
            "blocks %u peer %x user %x strict %u log %u rung %llx completions %u "
            "%u/%u/%u parked %u counts %llu %llu %llu\n",
            k[i].number & 0xfff, (unsigned long long)k[i].ring, (unsigned long long)k[i].record,
            (unsigned long long)k[i].doorbell, (unsigned long long)k[i].completion, k[i].blocks,
            k[i].peer, k[i].user_index, k[i].strict, k[i].log_completions,
            (unsigned long long)k[i].rung, k[i].completions, k[i].released, k[i].taken,
            k[i].producer, k[i].parked, (unsigned long long)k[i].requests,
            (unsigned long long)k[i].bytes, (unsigned long long)k[i].doorbells);
        k[i].requests = 3 + i;
        k[i].bytes = 1000 + i;
        k[i].doorbells = 2 + i;
        k[i].completions += 5 + i;
        k[i].taken = (uint16_t)(k[i].taken + 3);
        k[i].producer = (uint16_t)(k[i].producer + 4);
        k[i].released = (uint16_t)(k[i].released + 2);
    }
    if (slices_seen == 1) { /* one queue lacks a key that exists, another one that does not */
        k[0].parked = GPU_LACKS_KEY;
        k[0].lacks = (uint64_t)k[0].number << 32 | (6 << 8 | 2);
        if (slice->count > 1) {
            k[1].parked = GPU_LACKS_KEY;
            k[1].lacks = (uint64_t)k[1].number << 32 | 77;
        }
    }
    if (slices_seen == 2) {
        k[0].parked = GPU_LACKS_KEY;
        k[0].lacks = (uint64_t)k[0].number << 32 | (6 << 8 | 2);
    }
    if (slices_seen == 3)
        peer_bell[2]++;
    if (slices_seen == 4) { /* a remote key of a peer that does not exist */
        k[0].parked = GPU_LACKS_KEY;
        k[0].lacks = (uint64_t)k[0].peer << 32 | 78;
    }
    if (slices_seen == 5)
        wakeup[2]++;
    if (slices_seen == 6)
        queues[0].state = QP_ERROR;
    if (slices_seen == 7)
        atomic_store(&peer_link.dead, true);
    const uint32_t *stop = (const uint32_t *)(uintptr_t)slice->stop;
    assert_int_equal(*stop, 0);
    if (slices_seen++ == 10) {
        gpu_engine_stop(&device);
        assert_int_equal(*stop, 1);
    }
}

static void start_quietly(void)
{
    quiet = true;
    assert_true(gpu_engine_start(&device, 0));
    quiet = false;
}

static void starts(void)
{
    static const struct {
        const char *call;
        unsigned at;
    } cases[] = {
        {"retain", 1},
        {"push", 1},
        {"module_load", 1},
        {"module_function", 1},
        {"stream_create_priority", 1},
        {"host_alloc", 1},
        {"host_alloc", 2},
        {"host_alloc", 3},
        {"host_pointer", 1},
        {"allocate", 1},
        {"allocate", 2},
        {"allocate", 3},
        {"allocate", 4},
        {"attribute_type", 1},
        {"start_thread", 1},
    };
    begin();
    config.engine = ENGINE_CPU;
    assert_false(gpu_engine_start(&device, 0));
    assert_null(device.gpu);
    assert_int_equal(gpu_engine_register(&device), 0);
    assert_false(gpu_engine_map_doorbell(&device, &uars[0]));
    gpu_engine_stop(&device);
    gpu_engine_flush(&device);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin();
        quiet = true;
        forget_engine();
        fail_next(cases[i].call, cases[i].at, 0);
        assert_false(gpu_engine_start(&device, 0));
        assert_null(device.gpu);
        assert_int_equal(depth, 0);
        say("without %s %u\n", cases[i].call, cases[i].at);
        say_log();
    }
    begin();
    forget_engine();
    say("started\n");
    memset(gpus[0], 0xee, 1 << 19);
    assert_true(gpu_engine_start(&device, 0));
    struct gpu_engine *g = device.gpu;
    assert_non_null(g);
    assert_true(gpu_engine_start(&device, 1)); /* it exists already */
    assert_ptr_equal(device.gpu, g);
    say("registers\n");
    for (unsigned i = 0; i < 3; i++) {
        uint64_t at = gpu_engine_register(&device);
        say_place(at);
        for (unsigned k = 0; k < 128; k++)
            assert_int_equal(((uint8_t *)(uintptr_t)at)[k], 0);
    }
    for (unsigned i = 3; i < GPU_QUEUES; i++)
        assert_int_not_equal(gpu_engine_register(&device), 0);
    assert_int_equal(gpu_engine_register(&device), 0);
    say("\npinned\n");
    static const char *const calls[] = {"", "push", "host_register", "already", "host_pointer"};
    for (unsigned i = 0; i < 5; i++) {
        uint8_t page[8];
        struct uar u = {.page = page, .reg = (uint64_t *)(uintptr_t)0x8800};
        fail_next(calls[i], 1, 0);
        bool pinned = gpu_engine_map_doorbell(&device, &u);
        say("  %d pinned %llx registered %d\n", pinned, (unsigned long long)u.gpu_address,
            u.registered);
        assert_int_equal(depth, 0);
    }
    fail_next("push", 1, 0);
    assert_false(gpu_engine_map(&device, (uintptr_t)gpus[0], 8));
    assert_true(gpu_engine_map(&device, (uintptr_t)gpus[0], 8));
    assert_true(gpu_engine_map(&device, (uintptr_t)gpus[1], 8));
    assert_false(gpu_engine_map(&device, (uintptr_t)&config, 8));
    assert_int_equal(depth, 0);
    joins = 0;
    config.log = LOG_ALL;
    device.number = 6;
    device.record.by_gpu = 11;
    device.record.requests = 22;
    take_stderr();
    gpu_engine_stop(&device);
    say_stderr();
    assert_int_equal(joins, 1);
    assert_null(device.gpu);
    free(g);
}

static void starts_elsewhere(void)
{
    for (unsigned i = 0; i < 4; i++) {
        begin();
        forget_engine();
        config.engine = ENGINE_OTHER;
        static const char *const calls[] = {"", "device_count", "", "enable_peer"};
        fail_next(calls[i], 1, 0);
        say("on another GPU than %u\n", i == 2);
        quiet = false;
        assert_true(gpu_engine_start(&device, i == 2));
        struct gpu_engine *g = device.gpu;
        gpu_engine_stop(&device);
        free(g);
    }
}

/* After two pauses all queues may run again. */
static void stop_the_engine(void)
{
    if (pauses > 2) {
        uars[0].cpu_poll_pending = uars[1].cpu_poll_pending = false;
        queues[0].state = QP_RTS;
        atomic_store(&peer_link.dead, false);
    }
}

static void slices(void)
{
    begin();
    forget_engine();
    start_quietly();
    struct gpu_engine *g = device.gpu;
    queues_make();
    keys_of_device[6] = (struct mr_entry){.address = 0x9000,
                                          .bytes = 0x100,
                                          .memory = (uintptr_t)gpus[0] + 0x90000,
                                          .access = 1,
                                          .tag = 2,
                                          .valid = true};
    queues[2].send.gpu_ring = 0; /* not in GPU memory */
    in_slice = kernel;
    in_pause = stop_the_engine;
    slices_seen = 0;
    not_ready = 2;
    stop_at = 30;
    assert_null(body(&device));
    assert_int_equal(*(uint32_t *)(void *)hosts[2].at, 0); /* the waiters are notified */
    assert_false(locked);
    say_log();
    say_queues();
    free(g);
}

/* Which queues the kernel takes. */
static void given(void)
{
    for (unsigned i = 0; i < 24; i++) {
        begin();
        forget_engine();
        start_quietly();
        struct gpu_engine *g = device.gpu;
        queues_make();
        struct qp *q = &queues[1];
        queues[0].send.gpu_ring = 0;
        queues[2].state = QP_RESET;
        q->send.gpu_ring = i == 1 ? 0 : q->send.gpu_ring;
        q->send.leaving_gpu = i == 2;
        q->send.gpu_returns = i == 3 ? 64 : 63;
        q->type = i == 4 ? QP_DCI : QP_RC;
        q->state = i == 5 ? QP_SQD : QP_RTS;
        cqs[1].on_gpu = i != 6;
        cqs[1].users = i == 7 ? 3 : 2;
        q->uar = i == 8 ? NULL : &uars[1];
        uars[1].queues = i == 9 ? 2 : 1;
        uars[1].gpu_address = i == 10 ? 0 : 9;
        uars[1].cpu_poll_pending = i == 11;
        q->requester.link = i == 12 ? NULL : &peer_link;
        peer_link.roce = i == 13 ? (void *)&config : NULL;
        atomic_store(&peer_link.dead, i == 14);
        q->send.fault.syndrome = i == 15;
        q->current.loaded = i == 16;
        q->send.taken -= i == 17;
        q->send.outstanding_tail += i == 18;
        config.mode = i == 19 ? MODE_LENIENT : MODE_STRICT;
        q->send.by_gpu = i == 20;
        peer_link.wakeup = i == 21 ? NULL : peer_bell;
        queues[2].send.by_gpu = i == 22;
        in_slice = kernel;
        slices_seen = 20;
        static const char *const calls[] = {"launch", "copy", "copy", "stream_query"};
        fail_next(i == 23 ? "push" : calls[i % 4], i % 4 == 1 ? 2 : 1, 0);
        quiet = true;
        stop_at = 1;
        say("given %u\n", i);
        body(&device);
        say_log();
        say_queues();
        if (device.gpu)
            gpu_engine_stop(&device);
        free(g);
    }
}

static void leaving(void)
{
    begin();
    forget_engine();
    start_quietly();
    struct gpu_engine *g = device.gpu;
    queues_make();
    gpu_engine_release_queue(&device, &queues[0]);
    assert_true(queues[0].send.leaving_gpu);
    assert_int_equal(waits, 0);
    gpu_engine_flush(&device);
    assert_int_equal(waits, 0);
    assert_false(locked);
    free(g);
    device.gpu = NULL;
}

#define TEST(name)                                                                                 \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        say("# " #name "\n");                                                                      \
        name();                                                                                    \
    }
TEST(the_driver_is_looked_for)
TEST(ranges)
TEST(long_copies)
TEST(own_keys)
TEST(opened_otherwise)
TEST(full_table)
TEST(questions)
TEST(keys_of_peers)
TEST(starts)
TEST(starts_elsewhere)
TEST(slices)
TEST(given)
TEST(leaving)

static void all_is_as_written(void **state)
{
    (void)state;
    golden_is(GOLDEN, text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_driver_is_looked_for),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_long_copies),
        cmocka_unit_test(test_own_keys),
        cmocka_unit_test(test_opened_otherwise),
        cmocka_unit_test(test_full_table),
        cmocka_unit_test(test_questions),
        cmocka_unit_test(test_keys_of_peers),
        cmocka_unit_test(test_starts),
        cmocka_unit_test(test_starts_elsewhere),
        cmocka_unit_test(test_slices),
        cmocka_unit_test(test_given),
        cmocka_unit_test(test_leaving),
        cmocka_unit_test(all_is_as_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
