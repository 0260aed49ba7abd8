/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the stand-in of the CUDA driver share: its table of objects, the translation of
 * device addresses, and the queue of a stream. */
#ifndef WEFT_TESTS_FAKE_H
#define WEFT_TESTS_FAKE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/cuda.h"

#define EXPORT __attribute__((visibility("default")))

enum { MOST = 4096, DEVICES = 16, GRANULARITY = 2 << 20 };

struct fake_stream;
struct fake_event;

struct object {
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
    } kind;
    uintptr_t base;
    size_t bytes;
    int fd, device;
    int uses;                  /* handle: mappings and itself */
    int imported;              /* handle: of another process */
    int handle_types;          /* handle: as it was created */
    unsigned long long number; /* never another object's */
    size_t lead;               /* device: from the begin of its block */
    unsigned access;           /* mapping: the devices that it is open to, as bits */
    char name[64];             /* module: of its one variable */
    uintptr_t global;          /* module: where that is */
    struct fake_stream *stream;
    struct fake_event *event;
};

extern struct object objects[MOST];
extern _Atomic int objects_end; /* behind the last that was ever used */

/* The number that the environment variable `name` gives, else `preset`. */
int setting(const char *name, int preset);

struct object *new_object(int kind);
struct object *new_object_of(int kind, CUdevice device);

/* The object of that kind that holds `address`, or NULL. */
struct object *find(int kind, uintptr_t address);

/* Device address <-> where the memory really is: mappings of a process lie at 0x7f..., device
 * addresses so look like 0x3f..., where nothing is. */
#define DEVICE_BIT (1ull << 46)

static inline bool is_device_address(uintptr_t address)
{
    return !(address & DEVICE_BIT) && address >> 40 >= 0x38;
}

static inline void *memory_at(uintptr_t address)
{
    return (void *)(is_device_address(address) ? address | DEVICE_BIT : address);
}

/* links.c: which GPUs, by their physical numbers, can access each other, and by NVLink. */
bool fake_peers(int a, int b);
bool fake_nvlink(int a, int b);

/* Of which GPU memory is, -1: it is the host's. */
int fake_gpu_of(CUdeviceptr address);

/* GB/s from the memory of one to that of the other. */
double fake_gbps(int a, int b);

/* Whether work of a device (-1: not known) may touch an address. */
bool fake_copy_may(int device, CUdeviceptr address);
bool fake_kernel_may(int device, CUdeviceptr address);
bool fake_arguments_may(int device, const uint64_t *words, size_t count);

/* A device's primary context, which somebody has retained; NULL: nobody has. */
CUcontext fake_context_of(int device);

int fake_physical(CUdevice device);            /* behind CUDA_VISIBLE_DEVICES */
bool fake_peer_open(CUdevice by, CUdevice of); /* by cuCtxEnablePeerAccess() */
int fake_current_device(void);                 /* -1: no context is current */
int fake_stream_device(CUstream stream);       /* -1: not known */

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

/* One piece of work of a stream, allocated with what it needs behind it. */
struct fake_op {
    struct fake_op *next;
    void (*run)(struct fake_op *op);
    uint64_t due_ns; /* not before */
    double ns;       /* what it takes on the clock of events */
    bool beside;     /* waits for another GPU: never on the caller's thread */
    bool
        keeps_stores; /* earlier copies need not be visible before it runs: it releases by itself */
    struct fake_stream *stream;
    CUdeviceptr to, from;
    size_t bytes;
    uint64_t value;
    struct fake_event *event;
    void (*function)(void *);
    void *argument;
    int kernel;
    unsigned blocks;
    bool timed;          /* it takes as long as it takes, in place of `ns` */
    size_t extra;        /* bytes of data */
    unsigned char *held; /* of a copy that is not yet visible: what it will write */
    uint64_t release_ns; /* ... and when it does at the latest */
    uint64_t data[];     /* snapshot of pageable memory, arguments of a kernel */
};

/* An operation of `stream` (NULL: the default one) with `extra` bytes of data. */
struct fake_op *op_new(CUstream stream, void (*run)(struct fake_op *op), size_t extra);

/* Carries it out at once, or puts it on its stream's queue, as the mode wants. Takes it over. */
void op_submit(struct fake_op *op);

/* graph.c: whether the stream is being captured; whether it is, and the graph has taken the
 * operation over. */
bool fake_capturing(const struct fake_stream *stream);
bool fake_capture(struct fake_op *op);

/* An event that a captured stream records, and streams that wait for it, belong to the capture. */
bool fake_capture_record(const struct fake_stream *stream, CUevent event);
bool fake_capture_wait(const struct fake_stream *stream, CUevent event, CUresult *result);

/* Returns when all that was given to the stream is done and visible. */
void stream_drain(CUstream stream);

/* Ends the threads of all streams. */
void streams_reset(void);

/* For kernels: what the running stream copied before becomes visible now (a release). */
void fake_release(void);

#endif
