/* SPDX-License-Identifier: Apache-2.0 */
/* What `weft run` and its PEs say to each other: packets over one AF_UNIX SOCK_SEQPACKET socket per
 * PE. The PE's end is launcher.c, the launcher's end cli/run_server.c. */
#ifndef WEFT_BOOT_LAUNCH_H
#define WEFT_BOOT_LAUNCH_H

#include <stdint.h>

enum launch_type {
    /* from a PE */
    LAUNCH_HELLO = 1, /* this PE joins; no answer */
    LAUNCH_GATHER, /* payload: this PE's part; answered by LAUNCH_ALL when all have sent theirs */
    LAUNCH_BYE,    /* number: 1 when the job was finalized, 0 when it was not */
    LAUNCH_ABORT,  /* number: exit status, payload: a sentence */
    LAUNCH_WHO,    /* asks who has not arrived; answered by LAUNCH_MISSING */
    /* from the launcher */
    LAUNCH_ALL,     /* payload: all parts in the order of PEs */
    LAUNCH_END,     /* number: a weft_status, payload: a sentence that says why the job ends */
    LAUNCH_MISSING, /* payload: a sentence */
    /* both ways; the launcher passes it on to every other PE */
    LAUNCH_FD, /* number: the PE that shares; with one descriptor */
};

/* "WFT" and the version of this protocol. */
#define LAUNCH_MAGIC 0x57465401u

struct launch_header {
    uint32_t magic;
    uint32_t type;
    int32_t number;
    uint32_t bytes; /* payload that follows in the same packet */
};

enum {
    LAUNCH_MOST_PAYLOAD =
        32768, /* a packet must fit a socket buffer of the smallest default size */
    LAUNCH_MOST_PES = 4096,
    LAUNCH_MOST_SENTENCE = 480,
};

/* An exchange is cut so that the answer, with a slice from each PE, fits one packet. */
static inline uint32_t launch_slice(int npes)
{
    return (uint32_t)(LAUNCH_MOST_PAYLOAD / npes);
}

#endif
