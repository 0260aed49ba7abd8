/* SPDX-License-Identifier: Apache-2.0 */
/* The table of this process's communicators, which `weft attach` reads. A communicator for which
 * there is no room has an entry that is not seen. */
#include "nccl/comm.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct nccl_table *table;
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

/* The descriptor stays open: by it the table is found. */
static struct nccl_table *new_table(void)
{
    int fd = memfd_create("weft-nccl", MFD_CLOEXEC);
    struct nccl_table *made = MAP_FAILED;
    if (fd >= 0 && !ftruncate(fd, sizeof *made))
        made = mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (made == MAP_FAILED) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    *made = (struct nccl_table){.magic = NCCL_TABLE_MAGIC,
                                .version = NCCL_TABLE_VERSION,
                                .pid = getpid(),
                                .entries = NCCL_TABLE_ENTRIES};
    return made;
}

void state_open(ncclComm_t comm)
{
    comm->seen = &comm->unseen;
    pthread_mutex_lock(&table_lock);
    if (!table || table->pid != getpid()) /* a child has a table of its own */
        table = new_table();
    for (int i = 0; table && i < NCCL_TABLE_ENTRIES && comm->seen == &comm->unseen; i++) {
        uint32_t state = atomic_load(&table->entry[i].state);
        if (state == COMM_NONE || state == COMM_FREED)
            comm->seen = &table->entry[i];
    }
    memset(comm->seen, 0, sizeof *comm->seen);
    comm->seen->rank = comm->rank;
    comm->seen->size = comm->size;
    comm->seen->device = -1;
    atomic_store(&comm->seen->state, COMM_STARTING);
    pthread_mutex_unlock(&table_lock);
}

void state_set(ncclComm_t comm, enum comm_state state)
{
    atomic_store(&comm->state, (int)state);
    atomic_store(&comm->seen->state, (uint32_t)state);
    if (state == COMM_FREED) /* another communicator may get the entry */
        comm->seen = &comm->unseen;
}

void state_describe(ncclComm_t comm)
{
    struct nccl_entry *seen = comm->seen;
    seen->device = comm->device;
    seen->hash = comm->hash;
    strncpy(seen->name, comm->name ? comm->name : "", sizeof seen->name - 1);
}

void state_failed(ncclComm_t comm)
{
    size_t most = sizeof comm->seen->failure - 1, length = strlen(comm->sentence);
    memcpy(comm->seen->failure, comm->sentence, length < most ? length : most);
}

uint64_t state_count(ncclComm_t comm, enum operation what)
{
    return atomic_load_explicit(&comm->seen->begun[what], memory_order_relaxed);
}

/* Adds of several threads to one counter are under comm->order, but for those of signals. */
void state_begin(ncclComm_t comm, enum operation what)
{
    atomic_fetch_add_explicit(&comm->seen->begun[what], 1, memory_order_relaxed);
}
