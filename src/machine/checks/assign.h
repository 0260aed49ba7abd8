/* SPDX-License-Identifier: Apache-2.0 */
/* Assigns NICs to the GPUs of a machine. A pure function of the model. */
#ifndef WEFT_MACHINE_ASSIGN_H
#define WEFT_MACHINE_ASSIGN_H

#include "machine/routes/routes.h"

enum { ASSIGN_WHY = 240 };

/* The NIC of one GPU. `nic` is NULL when no NIC can be assigned; `why` has the reason. */
struct assigned {
    const struct machine_gpu *gpu;
    const struct machine_nic *nic;
    int64_t port;     /* its active port with the highest rate; 1 when ports are unknown */
    enum level level; /* distance of GPU and NIC; LEVEL_UNKNOWN in a flat virtual machine */
    int64_t mbps;     /* expected rate of their best route, MB/s; 0 when unknown */
    int rail;     /* index of the NIC among the assigned ones, in the machine's order; -1: none */
    int sharers;  /* number of GPUs that use this NIC, including this one */
    bool in_turn; /* several NICs were equally good and are assigned round-robin */
    char why[ASSIGN_WHY]; /* the reason for this choice, as text */
};

struct assignment {
    struct assigned *list; /* one for each GPU, in their order */
    int n;
    int rails;  /* number of NICs that GPUs use */
    int unused; /* number of NICs with an active port that no GPU uses */
    int down;   /* number of NICs without an active port */
};

/* Candidates of a GPU are the NICs whose expected rate is within 10 % of the best, and of these the
 * nearest. As many GPUs as possible get a NIC of their own before NICs are shared; shared NICs are
 * assigned round-robin. NICs without an active port are left out, unless the state of all their
 * ports is unknown. assignment_free() releases the result. */
void assign_nics(const struct machine *machine, struct assignment *assignment);
void assignment_free(struct assignment *assignment);

/* True when the NIC can be assigned: a port is active, or the state of all its ports is unknown. */
bool assign_can_use(const struct machine *machine, const struct machine_nic *nic);
/* The fastest active port of the NIC; NULL when no port is known to be active. */
const struct machine_port *assign_port(const struct machine *machine,
                                       const struct machine_nic *nic);

#endif
