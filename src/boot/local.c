/* SPDX-License-Identifier: Apache-2.0 */
/* Connects the PEs of one node over abstract AF_UNIX sockets, which pass their descriptors when the
 * launcher cannot. The first PE of the node listens. The kernel reports the user of a peer, and a
 * random number from the job's own exchange keeps other jobs out. */
#include "boot/boot.h"

#include "base/status.h"
#include "boot/hub/member.h"
#include "boot/methods.h"
#include "boot/rendezvous/rendezvous.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/un.h>
#include <unistd.h>

/* Exchange record of each node's first PE. */
struct socket_record {
    uint8_t name_bytes;
    char name[15]; /* name of the abstract socket, selected by the kernel */
    uint8_t nonce[31];
};

static weft_status listen_locally(struct socket_record *record, int *listening)
{
    struct sockaddr_un own = {.sun_family = AF_UNIX};
    socklen_t bytes = sizeof own.sun_family; /* no name: the kernel selects a free one */
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool good = fd >= 0 && bind(fd, (struct sockaddr *)&own, bytes) == 0 && listen(fd, 4096) == 0;
    bytes = sizeof own;
    good = good && getsockname(fd, (struct sockaddr *)&own, &bytes) == 0;
    size_t name_bytes = good ? bytes - offsetof(struct sockaddr_un, sun_path) : 0;
    if (!good || name_bytes > sizeof record->name ||
        getrandom(record->nonce, sizeof record->nonce, 0) != sizeof record->nonce) {
        weft_status status = base_fail(
            WEFT_ERR_SYSTEM, "a local socket for passing descriptors: %s%s", strerror(errno),
            errno == EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
        if (fd >= 0)
            close(fd);
        return status;
    }
    record->name_bytes = (uint8_t)name_bytes;
    memcpy(record->name, own.sun_path, name_bytes);
    *listening = fd;
    return WEFT_OK;
}

static weft_status job_still_runs(void *argument)
{
    struct boot *boot = argument;
    return boot->ops->check(boot);
}

static struct rendezvous local_rendezvous(struct boot *boot, const struct socket_record *record)
{
    struct rendezvous rendezvous = {.what = "local start",
                                    .n = boot->local_npes,
                                    .me = boot->local_pe,
                                    .still_wanted = job_still_runs,
                                    .argument = boot};
    for (size_t i = 0; i < sizeof record->nonce; i++)
        snprintf(rendezvous.job + 2 * i, 3, "%02x", record->nonce[i]);
    return rendezvous;
}

static weft_status connect_locally(struct boot *boot, const struct socket_record *record,
                                   struct wire *wire)
{
    struct rendezvous rendezvous = local_rendezvous(boot, record);
    struct rendezvous_address at = {0};
    struct sockaddr_un *name = (struct sockaddr_un *)&at.address;
    if (record->name_bytes > sizeof record->name)
        return base_fail(WEFT_ERR_BOOT, "the first PE of this node has a bad socket name");
    name->sun_family = AF_UNIX;
    memcpy(name->sun_path, record->name, record->name_bytes);
    at.bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + record->name_bytes);
    return rendezvous_connect(&rendezvous, &at, 1, wire);
}

/* Exchanges the records; only the first PE of each node has filled its record. */
static weft_status exchange_socket_records(struct boot *boot, const struct socket_record *mine,
                                           struct socket_record *leaders)
{
    struct socket_record *all = calloc((size_t)boot->npes, sizeof *all);
    if (!all)
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for %d PEs", boot->npes);
    weft_status status = boot->ops->allgather(boot, mine, all, sizeof *mine);
    *leaders = all[boot->local_pes[0]];
    free(all);
    return status;
}

weft_status boot_local_connect(struct boot *boot, struct member *node)
{
    bool leader = boot->local_pe == 0;
    int listening = -1;
    struct socket_record mine = {0}, record;
    weft_status status = WEFT_OK;
    if (leader && boot->local_npes > 1)
        status = listen_locally(&mine, &listening);
    if (!status)
        status = exchange_socket_records(boot, &mine, &record);
    struct wire *wires = calloc(leader ? (size_t)boot->local_npes : 1, sizeof *wires);
    if (!status && !wires)
        status = base_fail(WEFT_ERR_NO_MEMORY, "no memory for %d PEs", boot->local_npes);
    if (!status && leader) {
        struct rendezvous rendezvous = local_rendezvous(boot, &record);
        status = rendezvous_accept(&rendezvous, listening, wires);
        if (status) {
            member_refuse(wires, boot->local_npes, status);
            wires = NULL;
        }
    } else if (!status) {
        status = connect_locally(boot, &record, &wires[0]);
    }
    if (listening >= 0)
        close(listening);
    if (status) {
        free(wires);
        return status;
    }
    status = member_init(node, boot->local_npes, boot->local_pe, boot->local_pes, wires);
    node->boot = status ? NULL : boot;
    return status;
}

weft_status boot_local_share(struct boot *boot, struct member *node, int from, int fd, int *taken)
{
    for (int i = 0; i < boot->local_npes; i++)
        if (boot->local_pes[i] == from)
            return member_share_fd(node, i, fd, NULL, 0, taken);
    *taken = -1;
    return base_fail(WEFT_ERR_PE, "PE %d is not on the node of PE %d and cannot share a descriptor",
                     from, boot->pe);
}
