/* SPDX-License-Identifier: Apache-2.0 */
/* The variables SOFT_HCA_*: read once, when the first device is looked for. */
#ifndef WEFT_HCA_CONFIG_H
#define WEFT_HCA_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

enum {
    CONFIG_ADDRESSES = 64,
    CONFIG_LOOPBACK = 127 << 24, /* "lo": any of that network */
};

enum config_mode { MODE_STRICT, MODE_ADVERSARIAL, MODE_LENIENT };
enum config_link { LINK_IB, LINK_ROCE };
enum config_gpu { GPU_ANY, GPU_DMABUF, GPU_PEERMEM, GPU_NONE };
enum config_engine { ENGINE_CPU, ENGINE_GPU, ENGINE_OTHER };
enum config_log { LOG_NONE, LOG_ERRORS, LOG_ALL };

struct config {
    unsigned mode;    /* enum config_mode */
    unsigned link;    /* enum config_link */
    unsigned devices; /* 1..8 */
    unsigned log;     /* enum config_log */
    unsigned seed;    /* of the adversarial mode */
    unsigned idle_us; /* the longest sleep of an engine that finds nothing to do */
    unsigned weak_atomics;
    unsigned
        apart; /* memory that others may reach is a place of its own, as a GPU's: adversary.c */
    unsigned
        fail_at; /* the request of this number, counted from 1 over the process, fails; 0: none */
    unsigned ring_kib;   /* of each direction between two processes */
    unsigned check_icrc; /* of what comes by RoCE */
    const char *address; /* SOFT_HCA_ADDRESS, NULL: unset; and the IPv4 addresses in it */
    uint32_t addresses[CONFIG_ADDRESSES];
    unsigned address_count;
    const char *capture; /* NULL: unset */
    unsigned gpu;        /* enum config_gpu: how GPU memory can be registered */
    unsigned engine;     /* enum config_engine: of queues in GPU memory */
};

/* config_get: the variables' values. A value that cannot be used is an error: the sentence goes to
 * standard error, *good is false, and there are no devices. */
const struct config *config_get(bool *good);

#endif
