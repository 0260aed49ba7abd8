/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the stand-in of the CUDA driver and by that of HIP, which is a second face
 * of it (tests/fakehip): the table of objects, the translation of device addresses, and the queue
 * of a stream. */
#ifndef WEFT_TESTS_FAKE_H
#define WEFT_TESTS_FAKE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/gpu_api.h"

#define EXPORT __attribute__((visibility("default")))

enum { MOST = 4096, DEVICES = 16, GRANULARITY = 2 << 20 };

struct fake_stream;
struct fake_event;

enum {
    FREE,
    HANDLE,
    RESERVATION,
    MAPPING,
    HOST,
    REGISTERED,
    DEVICE,
    STREAM,
    EVENT,
    MODULE,
    CONTEXT
};

struct object {
    /* Threads look for an object while others make and free theirs. `kind` is written last. */
    _Atomic int kind;
    _Atomic uintptr_t base;
    _Atomic size_t bytes;
    int fd, device;
    int uses;                  /* handle: its mappings, and 1 for itself */
    int imported;              /* handle: from another process */
    int handle_types;          /* handle: as requested when created */
    int type;                  /* handle: as requested when created */
    bool coarse;               /* AMD: others see what is stored there between kernels only */
    unsigned long long number; /* never reused for another object */
    size_t lead;               /* device: offset from the start of its block */
    unsigned access;           /* mapping: devices with access, as one bit each */
    char name[64];             /* module: name of its only variable */
    uintptr_t global;          /* module: address of that variable */
    struct fake_stream *stream;
    struct fake_event *event;
};

EXPORT extern struct object objects[MOST];
EXPORT extern _Atomic int objects_end; /* index after the last object ever used */

/* The number in the environment variable `name`, or `preset`. */
EXPORT int setting(const char *name, int preset);

struct object *new_object(int kind);
struct object *new_object_of(int kind, CUdevice device);

/* The object of that kind that contains `address`, or NULL. */
EXPORT struct object *find(int kind, uintptr_t address);

/* Converts a device address to the address of the memory. Mappings of a process lie at 0x7f..., so
 * device addresses look like 0x3f..., where nothing is mapped. */
#define DEVICE_BIT (1ull << 46)

static inline bool is_device_address(uintptr_t address)
{
    return !(address & DEVICE_BIT) && address >> 40 >= 0x38;
}

static inline void *memory_at(uintptr_t address)
{
    return (void *)(is_device_address(address) ? address | DEVICE_BIT : address);
}

/* links.c: which GPUs, by their physical index, can access each other, and which by NVLink. */
bool fake_peers(int a, int b);
EXPORT bool fake_nvlink(int a, int b);

/* The GPU that owns the memory; -1: host memory. */
int fake_gpu_of(CUdeviceptr address);

/* GB/s from the memory of GPU a to that of GPU b. */
double fake_gbps(int a, int b);

/* Whether work of a device (-1: unknown) may access an address. */
bool fake_copy_may(int device, CUdeviceptr address);
bool fake_kernel_may(int device, CUdeviceptr address);
bool fake_arguments_may(int device, const uint64_t *words, size_t count);

/* A retained primary context of the device, or NULL if none is retained. */
CUcontext fake_context_of(int device);

EXPORT int fake_physical(CUdevice device);      /* index without CUDA_VISIBLE_DEVICES */
bool fake_peer_open(CUdevice by, CUdevice of);  /* enabled by cuCtxEnablePeerAccess() */
EXPORT int fake_current_device(void);           /* -1: no context is current */
EXPORT int fake_stream_device(CUstream stream); /* -1: unknown */

/* FAKE_GPU=amd: the GPUs are AMD's, which only HIP shows, and are as strict as those. */
EXPORT bool fake_is_amd(void);
EXPORT void fake_set_device(int device); /* makes its primary context current in this thread */

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr address);

static inline CUresult make(int kind, void **result)
{
    *result = new_object(kind);
    return CUDA_SUCCESS;
}

static inline CUresult unmake(int kind, void *it)
{
    struct object *o = it;
    if (!o || (int)o->kind != kind)
        return CUDA_ERROR_INVALID_VALUE;
    o->kind = FREE;
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------------------------- streams */

/* One operation of a stream, allocated together with its data. */
struct fake_op {
    struct fake_op *next;
    void (*run)(struct fake_op *op);
    uint64_t due_ns;   /* earliest start */
    double ns;         /* its duration on the clock of events */
    bool on_thread;    /* waits for another GPU, so it never runs on the caller's thread */
    bool keeps_stores; /* earlier copies need not be visible before it runs, because it does its own
                          release */
    struct fake_stream *stream;
    CUdeviceptr to, from;
    size_t bytes;
    uint64_t value;
    struct fake_event *event;
    void (*function)(void *);
    void *argument;
    int kernel;
    unsigned blocks;
    bool early;          /* the kernel waits itself for the earlier work of the stream */
    bool timed;          /* its duration is the measured time and not `ns` */
    size_t extra;        /* bytes of data */
    unsigned char *held; /* a copy that is not yet visible: the bytes that it will write */
    uint64_t release_ns; /* the latest time at which the copy becomes visible */
    uint64_t data[];     /* snapshot of pageable memory, or arguments of a kernel */
};

/* Creates an operation of `stream` (NULL: the default stream) with `extra` bytes of data. */
struct fake_op *op_new(CUstream stream, void (*run)(struct fake_op *op), size_t extra);

/* Executes the operation at once or queues it on its stream, depending on the mode. Takes
 * ownership. */
void op_submit(struct fake_op *op);

/* graph.c: whether the stream is being captured; fake_capture() then moves the operation into the
 * graph. */
bool fake_capturing(const struct fake_stream *stream);
bool fake_capture(struct fake_op *op);

/* An event that a captured stream records, and a stream that waits for it, become part of the
 * capture. */
bool fake_capture_record(const struct fake_stream *stream, CUevent event);
bool fake_capture_wait(const struct fake_stream *stream, CUevent event, CUresult *result);

/* Returns when all work of the stream is done and visible. */
void stream_drain(CUstream stream);

/* Ends the threads of all streams. */
void streams_reset(void);

/* For kernels: makes earlier copies of the running stream visible (a release). */
void fake_release(void);

#endif
