/* SPDX-License-Identifier: Apache-2.0 */
/* Memory keys for the kernel. A key of this process names memory that the engine's GPU can access
 * or gets access to. For a key of a peer, a query returns the allocation behind it, which is mapped
 * here. A key is resolved when a WQE first needs it. All keys are discarded when one of them may
 * have changed (struct device: wakeup[2]). */
#include "gpu/driver.h"
#include "gpu/engine.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER_MS = 2000, UNIT_BYTES = 2 << 20 };

struct key_query {
    char word[sizeof GPU_KEYS_QUERY]; /* first, because it identifies the query */
    uint32_t key, number, asking;     /* key; QP that the key is for; QP that asks */
};

struct key_reply {
    uint64_t address, bytes;
    uint32_t access, valid;
};

struct gpu_mapping {
    struct gpu_mapping *next;
    uint32_t remote, key;
    uint64_t at, bytes;
};

/* --- The table --- */

static void drop_mappings(struct gpu_keys *keys, const struct gpu_driver *driver)
{
    for (struct gpu_mapping *m = keys->mappings, *next; m; m = next) {
        next = m->next;
        driver->unmap(m->at, m->bytes);
        driver->unreserve(m->at, m->bytes);
        free(m);
    }
    keys->mappings = NULL;
}

void gpu_keys_clear(struct gpu_keys *keys, const struct gpu_driver *driver)
{
    drop_mappings(keys, driver);
    memset(keys->table, 0, GPU_KEYS * sizeof *keys->table);
    keys->count = 0;
    keys->changed = true;
}

static bool enter_key(struct gpu_keys *keys, const struct gpu_key *key)
{
    uint32_t at = gpu_key_place(key->name);
    if (keys->count == GPU_KEYS_MOST)
        return false;
    while (keys->table[at].name && keys->table[at].name != key->name)
        at = (at + 1) & (GPU_KEYS - 1);
    keys->count += !keys->table[at].name;
    keys->table[at] = *key;
    keys->changed = true;
    return true;
}

/* --- Keys of this process --- */

/* Looks a key up; under the lock. `asking`: the peer's QP, or 0 for an lkey. */
static bool look_up_key(struct device *d, uint32_t key, uint32_t number, uint32_t asking,
                        struct mr_entry *out)
{
    const struct qp *qp = qp_find(d, number);
    uint64_t memory;
    uint32_t all = MR_REMOTE_WRITE | MR_REMOTE_READ | MR_REMOTE_ATOMIC;
    if (!qp || key >> 8 >= d->objects.keys.count)
        return false;
    *out = d->objects.keys.entries[key >> 8];
    if (mr_find(&d->objects.keys, key, qp->pd, 0, out->address, out->bytes, &memory))
        return false;
    if (!asking)
        return true;
    if (qp->type != QP_RC || (qp->state != QP_RTR && qp->state != QP_RTS) ||
        qp->requester.remote_qpn != asking)
        return false;
    out->access &= ~all | qp->access;
    return true;
}

static bool look_up_key_locking(struct device *d, uint32_t key, uint32_t number, uint32_t asking,
                                struct mr_entry *out)
{
    device_lock(d);
    bool found = look_up_key(d, key, number, asking, out);
    device_unlock(d);
    return found;
}

/* Gives the engine's GPU access to memory of another GPU: to mappings by set_access, to other
 * allocations by their context. */
bool gpu_keys_map(const struct gpu_driver *driver, int gpu, uint64_t memory, uint64_t bytes)
{
    const struct driver_access access = {DRIVER_LOCATION_DEVICE, gpu, DRIVER_READ_WRITE};
    int owner = gpu_driver_owner(driver, memory);
    void *context;
    if (owner < 0 || owner == gpu)
        return owner == gpu;
    if (!driver->set_access(memory, bytes, &access, 1))
        return true;
    if (driver->retain(&context, owner))
        return false;
    enum { ALREADY = 704 };
    int result = driver->enable_peer(context, 0);
    return !result || result == ALREADY;
}

static bool add_own_key(struct gpu_keys *keys, const struct gpu_driver *driver, int gpu,
                        uint64_t name, const struct mr_entry *e)
{
    const struct gpu_key key = {name, e->address, e->bytes, e->memory, e->access, 0};
    return gpu_keys_map(driver, gpu, e->memory, e->bytes) && enter_key(keys, &key);
}

/* --- Keys of a peer's --- */

/* Exports the allocation at that address as a file descriptor. -1: it is not exactly one
 * allocation. */
static int export_memory(const struct gpu_driver *driver, uint64_t memory, uint64_t bytes)
{
    uint64_t handle = 0, last = 0, before = 0;
    int fd = -1;
    bool first;
    if (driver->handle_of(&handle, (void *)(uintptr_t)memory))
        return -1;
    /* It must be one allocation that begins where the key does. */
    bool whole = !driver->handle_of(&last, (void *)(uintptr_t)(memory + bytes - 1));
    first = driver->handle_of(&before, (void *)(uintptr_t)(memory - 1)) || before != handle;
    if (!whole || last != handle || !first ||
        driver->export_handle(&fd, handle, DRIVER_HANDLE_FD, 0))
        fd = -1;
    if (before)
        driver->release(before);
    if (whole)
        driver->release(last);
    driver->release(handle);
    return fd;
}

void gpu_keys_answer_query(struct device *d, int socket)
{
    struct key_query q;
    struct key_reply a = {0};
    struct mr_entry e;
    const struct gpu_driver *driver = gpu_driver();
    int fd = -1;
    if (recv(socket, &q, sizeof q, 0) != sizeof q)
        return;
    if (driver && look_up_key_locking(d, q.key, q.number, q.asking, &e) && e.bytes &&
        gpu_driver_owner(driver, e.memory) >= 0)
        fd = export_memory(driver, e.memory, e.bytes);
    if (fd >= 0)
        a = (struct key_reply){
            .address = e.address, .bytes = e.bytes, .access = e.access, .valid = 1};
    message_send(socket, &a, sizeof a, &fd, fd >= 0); /* a peer that is gone needs no reply */
    if (fd >= 0)
        close(fd);
}

/* Queries a peer's key. Returns a file descriptor, or -1. */
static int request_key(const struct gpu_key_request *want, struct key_reply *a)
{
    const struct key_query q = {GPU_KEYS_QUERY, want->key, want->peer, want->number};
    int s = link_open_socket(want->remote), fd = -1;
    if (s < 0)
        return -1;
    if (send(s, &q, sizeof q, MSG_NOSIGNAL) != sizeof q ||
        !message_receive(s, a, sizeof *a, &fd, 1, ANSWER_MS))
        fd = -1;
    close(s);
    return fd;
}

static bool import_memory(const struct gpu_driver *driver, int gpu, int fd, struct gpu_mapping *m)
{
    const struct driver_access access = {DRIVER_LOCATION_DEVICE, gpu, DRIVER_READ_WRITE};
    uint64_t handle;
    if (driver->import_handle(&handle, (void *)(intptr_t)fd, DRIVER_HANDLE_FD))
        return false;
    bool reserved = !driver->reserve(&m->at, m->bytes, 0, 0, 0);
    bool mapped = reserved && !driver->map(m->at, m->bytes, 0, handle, 0);
    bool open = mapped && !driver->set_access(m->at, m->bytes, &access, 1);
    driver->release(handle); /* the mapping keeps the memory */
    if (mapped && !open)
        driver->unmap(m->at, m->bytes);
    if (reserved && !open)
        driver->unreserve(m->at, m->bytes);
    return open;
}

/* Maps a peer's allocation: queried for each QP, mapped once. */
static struct gpu_mapping *map_remote(struct gpu_keys *keys, const struct gpu_driver *driver,
                                      int gpu, const struct gpu_key_request *want,
                                      struct key_reply *what)
{
    struct gpu_mapping *m, *made = calloc(1, sizeof *made);
    int fd = made ? request_key(want, what) : -1;
    for (m = keys->mappings; m; m = m->next)
        if (fd >= 0 && m->remote == want->remote && m->key == want->key)
            break;
    if (fd >= 0 && !m) {
        /* Allocations have whole units. */
        uint64_t whole = (what->bytes + UNIT_BYTES - 1) & ~(uint64_t)(UNIT_BYTES - 1);
        *made = (struct gpu_mapping){.remote = want->remote, .key = want->key, .bytes = whole};
        if (what->valid && import_memory(driver, gpu, fd, made)) {
            m = made;
            made = NULL;
            m->next = keys->mappings;
            keys->mappings = m;
        }
    }
    if (fd >= 0)
        close(fd);
    free(made);
    return m;
}

bool gpu_keys_add(struct device *d, struct gpu_keys *keys, const struct gpu_driver *driver, int gpu,
                  const struct gpu_key_request *want)
{
    uint64_t name = (uint64_t)(want->is_remote ? want->peer : want->number) << 32 | want->key;
    struct mr_entry e;
    if (!want->is_remote || want->remote == d->lid)
        return look_up_key_locking(d, want->key, want->is_remote ? want->peer : want->number,
                                   want->is_remote ? want->number : 0, &e) &&
               add_own_key(keys, driver, gpu, name, &e);
    struct key_reply a = {0};
    const struct gpu_mapping *m = map_remote(keys, driver, gpu, want, &a);
    if (!m)
        return false;
    const struct gpu_key key = {name, a.address, a.bytes, m->at, a.access, 0};
    return enter_key(keys, &key);
}
