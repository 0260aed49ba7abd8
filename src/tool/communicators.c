/* SPDX-License-Identifier: Apache-2.0 */
/* See communicators.h. */
#include "tool/communicators.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nccl/state.h"
#include "tool/system_segment.h"

_Static_assert(COMMUNICATORS_FUNCTIONS == (int)OPERATION_COUNT, "one is the other");
_Static_assert(COMMUNICATORS_COLLECTIVES == (int)PUT_SIGNAL, "collectives are first");

const char *communicators_function(int function)
{
    static const char *const names[] = {
#define NAME_OF_FUNCTION(id, name) name,
        NCCL_OPERATIONS(NAME_OF_FUNCTION)
#undef NAME_OF_FUNCTION
    };
    return names[function];
}

static const char *name_of_state(uint32_t state)
{
    static const char *const names[] = {
#define NAME_OF_STATE(id, name) name,
        NCCL_STATES(NAME_OF_STATE)
#undef NAME_OF_STATE
    };
    return state < COMM_STATES ? names[state] : "unknown";
}

static void add_rank(struct communicators *all, const struct nccl_entry *entry, uint32_t state,
                     int pid)
{
    struct communicator *grown = realloc(all->ranks, (size_t)(all->count + 1) * sizeof *all->ranks);
    if (!grown)
        return;
    all->ranks = grown;
    struct communicator *one = &grown[all->count++];
    *one = (struct communicator){.pid = pid,
                                 .rank = entry->rank,
                                 .size = entry->size,
                                 .device = entry->device,
                                 .hash = entry->hash,
                                 .state = name_of_state(state)};
    for (int i = 0; i < OPERATION_COUNT; i++)
        one->calls[i] = atomic_load_explicit(&entry->begun[i], memory_order_relaxed);
    system_segment_text(one->name, entry->name, sizeof one->name);
    system_segment_text(one->failure, entry->failure, sizeof one->failure);
}

void communicators_decode(const void *bytes_at, uint64_t bytes, int pid, struct communicators *all)
{
    const struct nccl_table *table = bytes_at;
    if (bytes < sizeof *table || table->magic != NCCL_TABLE_MAGIC ||
        table->version != NCCL_TABLE_VERSION || table->pid != pid)
        return; /* a process may have inherited the table of its parent */
    for (int i = 0; i < NCCL_TABLE_ENTRIES; i++) {
        uint32_t state = atomic_load(&table->entry[i].state);
        if (state != COMM_NONE && state != COMM_FREED)
            add_rank(all, &table->entry[i], state, pid);
    }
}

static void read_table(const char *path, int pid, struct communicators *all)
{
    static const char name[] = "/memfd:weft-nccl ";
    char target[128];
    struct stat info;
    ssize_t n = readlink(path, target, sizeof target - 1);
    target[n > 0 ? n : 0] = '\0';
    if (strncmp(target, name, sizeof name - 1) != 0)
        return;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (!fstat(fd, &info) && info.st_size >= (off_t)sizeof(struct nccl_table)) {
        void *table = mmap(NULL, sizeof(struct nccl_table), PROT_READ, MAP_SHARED, fd, 0);
        if (table != MAP_FAILED) {
            communicators_decode(table, sizeof(struct nccl_table), pid, all);
            munmap(table, sizeof(struct nccl_table));
        }
    }
    close(fd);
}

static int by_hash(const void *a, const void *b)
{
    const struct communicator *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

void communicators_read(const int *pids, int n, struct communicators *all)
{
    char path[300];
    *all = (struct communicators){0};
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "/proc/%d/fd", pids[i]);
        DIR *directory = opendir(path);
        for (struct dirent *entry; directory && (entry = readdir(directory));) {
            snprintf(path, sizeof path, "/proc/%d/fd/%.20s", pids[i], entry->d_name);
            read_table(path, pids[i], all);
        }
        if (directory)
            closedir(directory);
    }
    if (all->count)
        qsort(all->ranks, (size_t)all->count, sizeof *all->ranks, by_hash);
}

void communicators_free(struct communicators *all)
{
    free(all->ranks);
    *all = (struct communicators){0};
}

uint64_t communicators_behind(const struct communicators *all, int i, int function)
{
    uint64_t most = 0;
    for (int other = 0; other < all->count; other++)
        if (all->ranks[other].hash == all->ranks[i].hash &&
            all->ranks[other].calls[function] > most)
            most = all->ranks[other].calls[function];
    return function < COMMUNICATORS_COLLECTIVES ? most - all->ranks[i].calls[function] : 0;
}
