/* SPDX-License-Identifier: Apache-2.0 */
/* Which NIC each GPU of a machine should use. A pure function of the model. Knows nothing of the
 * libraries that are told of it. */
#ifndef WEFT_MACHINE_ASSIGN_H
#define WEFT_MACHINE_ASSIGN_H

#include "machine/routes/routes.h"

enum { ASSIGN_WHY = 240 };

/* One GPU. `nic` is NULL when there is none for it, and `why` says why. */
struct assigned {
    const struct machine_gpu *gpu;
    const struct machine_nic *nic;
    int64_t port;     /* the active port of it with the highest rate; 1 when ports are unknown */
    enum level level; /* distance of the two; LEVEL_UNKNOWN in a flat virtual machine */
    int64_t mbps;     /* expected of the best path of the two; 0 when it cannot be told */
    int rail;         /* place of the NIC among those that are used, in the machine's order; -1 */
    int sharers;      /* GPUs that use this NIC, this one included */
    bool in_turn;     /* several NICs were as good, and were given out in turn */
    char why[ASSIGN_WHY];
};

struct assignment {
    struct assigned *list; /* one for each GPU, in their order */
    int n;
    int rails;  /* NICs that are used */
    int unused; /* NICs with an active port that no GPU uses */
    int down;   /* NICs without one */
};

/* A GPU uses the NIC to which more than 10 % more is expected than to any other, else of these the
 * nearest. Where several are alike, as many GPUs as possible get one of their own before any is
 * shared, and shared ones are given out in turn. A NIC takes part when it has an active port, or
 * when no state of its ports is known. assignment_free() releases the result. */
void assign_nics(const struct machine *machine, struct assignment *assignment);
void assignment_free(struct assignment *assignment);

/* Whether a NIC takes part, and the port of it to use: active, and the fastest. NULL: none is known
 * to be active. */
bool assign_takes(const struct machine *machine, const struct machine_nic *nic);
const struct machine_port *assign_port(const struct machine *machine,
                                       const struct machine_nic *nic);

#endif
