/* SPDX-License-Identifier: Apache-2.0 */
/* Values of the environment variables SOFT_HCA_*. They are read once, when the program first lists
 * devices. */
#ifndef WEFT_HCA_CONFIG_H
#define WEFT_HCA_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

enum {
    CONFIG_ADDRESSES = 64,
    CONFIG_LOOPBACK = 127 << 24, /* "lo": any address of that network */
};

enum config_mode { MODE_STRICT, MODE_ADVERSARIAL, MODE_LENIENT };
enum config_link { LINK_IB, LINK_ROCE };
enum config_gpu { GPU_ANY, GPU_DMABUF, GPU_PEERMEM, GPU_NONE };
enum config_engine { ENGINE_CPU, ENGINE_GPU, ENGINE_OTHER };
enum config_atomics { ATOMICS_HCA, ATOMICS_WEAK, ATOMICS_GLOBAL, ATOMICS_NONE };
enum config_log { LOG_NONE, LOG_ERRORS, LOG_ALL };
enum config_fail { FAIL_REQUEST, FAIL_PORT, FAIL_PATH, FAIL_ADAPTER, FAIL_CREATE, FAIL_CONNECT };

struct config {
    unsigned mode;    /* enum config_mode */
    unsigned link;    /* enum config_link */
    unsigned devices; /* 1..8 */
    unsigned log;     /* enum config_log */
    unsigned seed;    /* seed of the adversarial mode */
    unsigned idle_us; /* longest sleep of an idle engine, in us */
    unsigned
        atomics;    /* enum config_atomics: with what they are atomic, and what is reported of it */
    unsigned apart; /* treat memory that peers may access like GPU memory: see adversary.c */
    unsigned fail_at;    /* number of the request, or for FAIL_CREATE of the command that creates a
                            queue, from 1, at which `fail` happens; 0: never */
    unsigned fail_value; /* 0: none; else the 8 bytes of the request from which on requests are
                            counted, and answers are lost */
    unsigned dc;         /* 0: the device reports no DC */
    unsigned fail_devices; /* the devices that fail, bit N: mlx5_softN */
    unsigned slow;         /* the devices whose port reports 10 Gbit/s in place of 100 */
    unsigned fail;         /* enum config_fail */
    unsigned ring_kib;     /* kiB of each ring between two processes */
    unsigned check_icrc;   /* check the ICRC of received RoCE packets */
    const char *address;   /* SOFT_HCA_ADDRESS, NULL: unset. Its IP addresses (address.h) follow. */
    uint32_t addresses[CONFIG_ADDRESSES];
    unsigned address_count;
    const char *capture; /* NULL: unset */
    unsigned gpu;        /* enum config_gpu: how GPU memory can be registered */
    unsigned engine;     /* enum config_engine: which engine runs send queues in GPU memory */
};

/* config_get: returns the values. If a value is invalid, a message goes to standard error, *good is
 * false, and there are no devices. */
const struct config *config_get(bool *good);

#endif
