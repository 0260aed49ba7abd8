/* SPDX-License-Identifier: Apache-2.0 */
/* A libfabric.so.1 in front of the real library. It shows the real provider tcp;ofi_rxm under
 * another name, with FI_HMEM and FI_MR_LOCAL, so that the program registers GPU memory (of
 * tests/fakecuda) and every local buffer. It checks each registration and each use (check.c), and
 * forwards what the real provider supports. Writes of a NIC into GPU memory are held until the
 * program flushes them by the driver (FAKE_FABRIC_HELD), because a GPU may see them late: the
 * writer sends the bytes to a copy and, after them, a mask of the written bytes; data that is read
 * goes to the reader's copy.
 *
 * Environment:
 *   FAKE_FABRIC_NAME     verbs;ofi_rxm (default); real: the name of the real provider
 *   FAKE_FABRIC_HMEM=0   no FI_HMEM
 *   FAKE_FABRIC_DMABUF=0 libfabric 1.17, without dma-buf
 *   FAKE_FABRIC_REFUSE   dmabuf, address: such registrations fail
 *   FAKE_FABRIC_HELD     see above
 *   FAKE_FABRIC_KEYS     bytes of a key (7); own: the provider chooses the keys
 *   FAKE_FABRIC_GBIT     rate that every NIC reports
 *   FAKE_FABRIC_SLOW     a NIC reads the source of a write only when its completions are polled
 *   FAKE_FABRIC_NICS, FAKE_FABRIC_LOSE, FAKE_FABRIC_LOSE_DATA, FAKE_FABRIC_DEAF,
 *     FAKE_FABRIC_NO_GPU: see nics.c
 *   FAKE_FABRIC_LIE      writes are held and never flushed
 *   FAKE_FABRIC_FAIL     read, write: operations on GPU memory fail; domain: a domain with FI_HMEM
 *                        cannot be opened */
#include "fake.h"

#include "../fakecuda/fake.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define REAL_PROVIDER "tcp;ofi_rxm"
#define MR_DMABUF     (1ull << 40)

/* Bits of the keys of GPU memory, above the bits that the program chooses; also for its reads, and
 * for the masks of written bytes. */
enum { KEY_BYTES = 7, HMEM_BIT = 60, READ_BIT = 61, MASK_BIT = 62 };

enum { MASK_BYTES = 16 << 20, CONTEXTS = 4096 };

static struct {
    int (*getinfo)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *,
                   struct fi_info **);
    void (*freeinfo)(struct fi_info *);
    struct fi_info *(*dupinfo)(const struct fi_info *);
    int (*fabric)(struct fi_fabric_attr *, struct fid_fabric **, void *);
    const char *(*strerror)(int);
    uint32_t (*version)(void);
} real;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct fi_context2 contexts[CONTEXTS]; /* of writes followed by a mask */
static unsigned next_context;
static unsigned char *mask; /* MASK_BYTES of 0xff */

/* A mask that is not sent yet. */
static struct pending {
    struct fid_ep *endpoint;
    struct fi_msg_rma message;
    struct iovec here;
    struct fi_rma_iov there;
    uint64_t flags;
} pending[CONTEXTS];
static int pending_count;

/* Writes whose source is not read yet, in order. */
static struct slow {
    struct fid_ep *endpoint;
    struct fi_msg_rma message;
    struct iovec here;
    struct fi_rma_iov there;
    void *descriptor;
    uint64_t flags;
} slow[CONTEXTS];
static int slow_count;

/* The real operation tables, one for each kind of object: all objects of a kind share one. */
static struct fi_ops_fabric *fabric_ops;
static struct fi_ops_domain *domain_ops;
static struct fi_ops *domain_fid_ops, *endpoint_fid_ops;
static struct fi_ops_mr *mr_ops;
static struct fi_ops_msg *msg_ops;
static struct fi_ops_rma *rma_ops;
static struct fi_ops_cq *cq_ops;

static void load(void)
{
    /* Its library for InfiniPath installs signal handlers when it is loaded: a PE that dies by a
     * signal would run exit handlers and might never end. The driver module prevents this for the
     * libraries that it loads itself. */
    setenv("IPATH_NO_BACKTRACE", "1", 1);
    void *library = dlopen(REAL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        broken("%s", dlerror());
    *(void **)&real.getinfo = dlsym(library, "fi_getinfo");
    *(void **)&real.freeinfo = dlsym(library, "fi_freeinfo");
    *(void **)&real.dupinfo = dlsym(library, "fi_dupinfo");
    *(void **)&real.fabric = dlsym(library, "fi_fabric");
    *(void **)&real.strerror = dlsym(library, "fi_strerror");
    *(void **)&real.version = dlsym(library, "fi_version");
    mask = mmap(NULL, MASK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mask == MAP_FAILED)
        broken("no memory");
    memset(mask, 0xff, MASK_BYTES);
}

static const char *shown_name(void)
{
    const char *name = getenv("FAKE_FABRIC_NAME");
    if (name && strcmp(name, "real") == 0)
        return REAL_PROVIDER;
    return name ? name : "verbs;ofi_rxm";
}

static bool holds(void)
{
    return asked_for("FAKE_FABRIC_HELD", NULL) || asked_for("FAKE_FABRIC_LIE", NULL);
}

/* ------------------------------------------------------------------------------ what is offered */

static void rename_provider(struct fi_info *info, const char *name)
{
    free(info->fabric_attr->prov_name);
    info->fabric_attr->prov_name = strdup(name);
}

static uint32_t real_version(uint32_t version)
{
    return version < real.version() ? version : real.version();
}

/* A copy for the real provider. */
static struct fi_info *for_real(const struct fi_info *info)
{
    struct fi_info *copy = real.dupinfo(info);
    if (!copy)
        broken("no memory");
    copy->caps &= ~FI_HMEM;
    if (copy->tx_attr)
        copy->tx_attr->caps &= ~FI_HMEM;
    if (copy->rx_attr)
        copy->rx_attr->caps &= ~FI_HMEM;
    if (copy->domain_attr) {
        copy->domain_attr->caps &= ~FI_HMEM;
        copy->domain_attr->mr_mode &= ~(FI_MR_HMEM | FI_MR_LOCAL | FI_MR_PROV_KEY);
        hide_second_nic(copy);
    }
    if (copy->fabric_attr) {
        rename_provider(copy, REAL_PROVIDER);
        copy->fabric_attr->api_version = real_version(copy->fabric_attr->api_version);
    }
    return copy;
}

/* A NIC with nothing but a link. */
struct bare_nic {
    struct fid_nic nic; /* must be first */
    struct fi_device_attr device;
    struct fi_bus_attr bus;
    struct fi_link_attr link;
};

static int forget_nic(struct fid *fid)
{
    free(fid);
    return 0;
}

static int copy_nic(struct fid *fid, int command, void *copy);

static struct fi_ops nic_operations = {
    .size = sizeof nic_operations, .close = forget_nic, .control = copy_nic};

static struct fid_nic *make_nic(size_t speed)
{
    struct bare_nic *bare = calloc(1, sizeof *bare);
    bare->nic = (struct fid_nic){.fid.ops = &nic_operations,
                                 .device_attr = &bare->device,
                                 .bus_attr = &bare->bus,
                                 .link_attr = &bare->link};
    bare->link.state = FI_LINK_UP;
    bare->link.speed = speed;
    return &bare->nic;
}

/* fi_dupinfo() */
static int copy_nic(struct fid *fid, int command, void *copy)
{
    if (command != FI_DUP)
        return -FI_ENOSYS;
    *(struct fid_nic **)copy = make_nic(((struct bare_nic *)(void *)fid)->link.speed);
    return 0;
}

/* FAKE_FABRIC_GBIT: the rate that every NIC reports. */
static void show_rate(struct fi_info *info)
{
    const char *gbit = getenv("FAKE_FABRIC_GBIT");
    if (gbit && !info->nic)
        info->nic = make_nic(strtoul(gbit, NULL, 10) * 1000000000);
}

static void show(struct fi_info *info, uint32_t version, bool hmem)
{
    rename_provider(info, shown_name());
    show_rate(info);
    info->fabric_attr->api_version = version;
    info->domain_attr->mr_mode |= FI_MR_LOCAL;
    const char *keys = getenv("FAKE_FABRIC_KEYS");
    info->domain_attr->mr_key_size = KEY_BYTES;
    if (keys && strcmp(keys, "own") == 0)
        info->domain_attr->mr_mode |= FI_MR_PROV_KEY;
    else if (keys)
        info->domain_attr->mr_key_size = (size_t)atoi(keys);
    if (!hmem)
        return;
    info->caps |= FI_HMEM;
    info->domain_attr->mr_mode |= FI_MR_HMEM;
}

EXPORT uint32_t fi_version(void)
{
    pthread_once(&once, load);
    const char *text = getenv("FAKE_FABRIC_DMABUF");
    return text && !atoi(text) ? FI_VERSION(1, 17) : FI_VERSION(1, 20);
}

EXPORT int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                      const struct fi_info *hints, struct fi_info **info)
{
    pthread_once(&once, load);
    if (version > fi_version())
        broken("fi_getinfo for a version that is not there");
    bool hmem = hints && hints->caps & FI_HMEM;
    const char *has = getenv("FAKE_FABRIC_HMEM");
    if (hmem && has && !atoi(has))
        return -FI_ENODATA;
    if (hmem && hints->domain_attr && !(hints->domain_attr->mr_mode & FI_MR_HMEM))
        broken("FI_HMEM is asked for without FI_MR_HMEM");
    struct fi_info *wanted = hints ? for_real(hints) : NULL;
    int error = real.getinfo(real_version(version), node, service, flags, wanted, info);
    if (wanted)
        real.freeinfo(wanted);
    struct fi_info **at = info;
    while (!error && *at) {
        struct fi_info *one = *at;
        if (strcmp(one->fabric_attr->prov_name, REAL_PROVIDER) == 0) {
            show(one, version, hmem);
            at = &one->next;
            continue;
        }
        *at = one->next;
        one->next = NULL;
        real.freeinfo(one);
    }
    if (!error)
        show_second_nics(*info, real.dupinfo);
    return error ? error : *info ? 0 : -FI_ENODATA;
}

EXPORT void fi_freeinfo(struct fi_info *info)
{
    real.freeinfo(info);
}

EXPORT struct fi_info *fi_dupinfo(const struct fi_info *info)
{
    pthread_once(&once, load);
    return real.dupinfo(info);
}

EXPORT const char *fi_strerror(int error)
{
    pthread_once(&once, load);
    return real.strerror(error);
}

/* -------------------------------------------------------------------------------- registrations */

static void *at_cpu(uintptr_t address)
{
    return memory_at(address);
}

static int close_region(struct fid *fid)
{
    struct fid_mr *mr = (struct fid_mr *)(void *)fid;
    struct region *region = mr->mem_desc;
    if (!region->open)
        broken("a registration is closed twice");
    region->open = false;
    if (region->read)
        fi_close(&region->read->fid);
    if (region->mask)
        fi_close(&region->mask->fid);
    struct fi_ops *ops = region->ops;
    mr->mem_desc = region->real_descriptor;
    fid->ops = region->real_ops;
    free(ops);
    return fid->ops->close(fid);
}

static void note(struct region *region, const struct fid *domain, struct fid_mr *mr, uintptr_t base,
                 size_t bytes)
{
    region->domain = domain;
    region->mr = mr;
    region->base = base;
    region->bytes = bytes;
    region->device = is_device_address(base);
    region->real_descriptor = mr->mem_desc;
    region->real_ops = mr->fid.ops;
    region->ops = malloc(sizeof *region->ops);
    if (!region->ops)
        broken("no memory");
    *region->ops = *mr->fid.ops;
    region->ops->close = close_region;
    mr->fid.ops = region->ops;
    mr->mem_desc = region;
}

static void *anonymous(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        broken("no memory");
    return memory;
}

static int reg(struct fid *domain, const void *base, size_t bytes, uint64_t access, uint64_t offset,
               uint64_t key, uint64_t flags, struct fid_mr **mr, void *context)
{
    check_address(base, bytes, NULL);
    int error = mr_ops->reg(domain, base, bytes, access, offset, key, flags, mr, context);
    if (!error)
        note(region_new(), domain, *mr, (uintptr_t)base, bytes);
    return error;
}

static void listen_for_flushes(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void (*on_flush)(void (*)(void)) = NULL;
    if (driver)
        *(void **)&on_flush = dlsym(driver, "fake_cuda_on_flush");
    if (!on_flush)
        broken("the driver is not the one of tests/fakecuda");
    on_flush(region_flush);
}

static int reg_device(struct fid *domain, uintptr_t base, size_t bytes,
                      const struct fi_mr_attr *attr, struct fid_mr **mr)
{
    struct region *region = region_new();
    uint64_t key = attr->requested_key | 1ull << HMEM_BIT, access = attr->access;
    void *memory = at_cpu(base);
    listen_for_flushes();
    if (holds()) {
        region->shadow = anonymous(bytes);
        region->written = anonymous(bytes);
    }
    int error = mr_ops->reg(domain, region->shadow ? region->shadow : memory, bytes, access, 0, key,
                            0, mr, NULL);
    if (!error)
        error = mr_ops->reg(domain, memory, bytes, access, 0, key | 1ull << READ_BIT, 0,
                            &region->read, NULL);
    if (!error && region->written)
        error = mr_ops->reg(domain, region->written, bytes, access, 0, key | 1ull << MASK_BIT, 0,
                            &region->mask, NULL);
    if (error)
        broken("the real library does not register: %s", real.strerror(-error));
    note(region, domain, *mr, base, bytes);
    return 0;
}

static int regattr(struct fid *domain, const struct fi_mr_attr *attr, uint64_t flags,
                   struct fid_mr **mr)
{
    if (attr->iov_count != 1)
        broken("%zu pieces in one registration", attr->iov_count);
    if (flags & MR_DMABUF) {
        size_t bytes;
        if (nic_takes_no_gpu_memory(domain))
            return -FI_EOPNOTSUPP;
        if (fi_version() < FI_VERSION(1, 20))
            broken("a dma-buf for a libfabric that knows none");
        if (asked_for("FAKE_FABRIC_REFUSE", "dmabuf"))
            return -FI_EOPNOTSUPP;
        uintptr_t base = check_dmabuf(attr->mr_iov, attr, &bytes);
        return reg_device(domain, base, bytes, attr, mr);
    }
    const struct iovec *whole = attr->mr_iov;
    if (is_device_address((uintptr_t)whole->iov_base) &&
        (asked_for("FAKE_FABRIC_REFUSE", "address") || nic_takes_no_gpu_memory(domain)))
        return -FI_EFAULT;
    check_address(whole->iov_base, whole->iov_len, attr);
    if (is_device_address((uintptr_t)whole->iov_base))
        return reg_device(domain, (uintptr_t)whole->iov_base, whole->iov_len, attr, mr);
    return reg(domain, whole->iov_base, whole->iov_len, attr->access, 0, attr->requested_key, flags,
               mr, NULL);
}

static struct fi_ops_mr own_mr_ops = {.size = sizeof own_mr_ops, .reg = reg, .regattr = regattr};

/* ----------------------------------------------------------------------------------- operations */

/* Whether all masks are sent. */
static bool send_masks(void)
{
    while (pending_count) {
        struct pending *p = &pending[pending_count - 1];
        p->message.msg_iov = &p->here;
        p->message.rma_iov = &p->there;
        ssize_t error = rma_ops->writemsg(p->endpoint, &p->message, p->flags);
        if (error == -FI_EAGAIN)
            return false;
        pending_count--; /* the data shows an error too */
    }
    return true;
}

/* Its completion is the completion of the write: the data has arrived when the mask has. */
static void mark_written(struct fid_ep *endpoint, const struct fi_msg_rma *data, void *context,
                         uint64_t flags)
{
    struct pending *p = &pending[pending_count++];
    if (pending_count == CONTEXTS || data->rma_iov->len > MASK_BYTES)
        broken("too much to be marked");
    *p = (struct pending){.endpoint = endpoint,
                          .message = *data,
                          .here = {mask, data->rma_iov->len},
                          .there = *data->rma_iov,
                          .flags = flags};
    p->there.key |= 1ull << MASK_BIT;
    p->message.desc = NULL;
    p->message.context = context;
    send_masks();
}

/* Whether all slow writes are sent. */
static bool write_slow(void)
{
    int done = 0;
    ssize_t error = 0;
    for (; done < slow_count; done++) {
        struct slow *s = &slow[done];
        s->message.msg_iov = &s->here;
        s->message.rma_iov = &s->there;
        s->message.desc = &s->descriptor;
        error = rma_ops->writemsg(s->endpoint, &s->message, s->flags);
        if (error == -FI_EAGAIN)
            break;
        if (error)
            broken("a write that was taken has failed: %s", real.strerror((int)-error));
    }
    memmove(slow, slow + done, (size_t)(slow_count - done) * sizeof slow[0]);
    slow_count -= done;
    return slow_count == 0;
}

static ssize_t write_later(struct fid_ep *endpoint, const struct fi_msg_rma *message,
                           uint64_t flags)
{
    if (slow_count == CONTEXTS)
        return -FI_EAGAIN;
    slow[slow_count++] = (struct slow){.endpoint = endpoint,
                                       .message = *message,
                                       .here = *message->msg_iov,
                                       .there = *message->rma_iov,
                                       .descriptor = message->desc[0],
                                       .flags = flags};
    return 0;
}

static ssize_t post(struct fid_ep *endpoint, const struct fi_msg_rma *message, uint64_t flags,
                    bool write)
{
    struct fi_msg_rma real_message = *message;
    struct iovec here = *message->msg_iov;
    struct fi_rma_iov there = *message->rma_iov;
    bool device = there.key & 1ull << HMEM_BIT;
    if (message->iov_count != 1 || message->rma_iov_count != 1 || here.iov_len != there.len)
        broken("a remote access of several pieces, or of two sizes");
    void *descriptor = region_descriptor(endpoint, here.iov_base, here.iov_len,
                                         message->desc ? message->desc[0] : NULL,
                                         write ? "fi_writemsg" : "fi_readmsg");
    if ((device || is_device_address((uintptr_t)here.iov_base)) &&
        asked_for("FAKE_FABRIC_FAIL", write ? "write" : "read"))
        return -FI_EINVAL;
    struct region *region = message->desc[0];
    bool held = !write && region->shadow, marked = device && write && holds();
    here.iov_base = at_cpu((uintptr_t)here.iov_base);
    if (is_device_address(there.addr))
        there.addr = (uint64_t)(uintptr_t)at_cpu(there.addr);
    if (device && !write)
        there.key |= 1ull << READ_BIT;
    real_message.msg_iov = &here;
    real_message.rma_iov = &there;
    real_message.desc = &descriptor;
    if (!send_masks())
        return -FI_EAGAIN;
    if (nic_loses(domain_of(endpoint), message->context, here.iov_len))
        return 0;
    if (asked_for("FAKE_FABRIC_SLOW", NULL) && write)
        return write_later(endpoint, &real_message, flags);
    if (!write_slow())
        return -FI_EAGAIN;
    if (held)
        here.iov_base = region->shadow + ((uintptr_t)message->msg_iov->iov_base - region->base);
    if (!write)
        note_read(endpoint, message->context, here.iov_base, here.iov_len, held ? region : NULL);
    if (marked)
        real_message.context = &contexts[next_context++ % CONTEXTS];
    ssize_t error = write ? rma_ops->writemsg(endpoint, &real_message, flags)
                          : rma_ops->readmsg(endpoint, &real_message, flags);
    if (error && !write)
        forget_read(message->context, false);
    if (!error)
        nic_carries(domain_of(endpoint));
    if (!error && marked)
        mark_written(endpoint, &real_message, message->context, flags);
    return error;
}

static ssize_t writemsg(struct fid_ep *endpoint, const struct fi_msg_rma *message, uint64_t flags)
{
    return post(endpoint, message, flags, true);
}

static ssize_t readmsg(struct fid_ep *endpoint, const struct fi_msg_rma *message, uint64_t flags)
{
    return post(endpoint, message, flags, false);
}

static ssize_t send_(struct fid_ep *endpoint, const void *buffer, size_t bytes, void *descriptor,
                     fi_addr_t to, void *context)
{
    void *mine = region_descriptor(endpoint, buffer, bytes, descriptor, "fi_send");
    if (!send_masks() || !write_slow())
        return -FI_EAGAIN;
    if (nic_loses(domain_of(endpoint), context, 0))
        return 0;
    return msg_ops->send(endpoint, buffer, bytes, mine, to, context);
}

static ssize_t recv_(struct fid_ep *endpoint, void *buffer, size_t bytes, void *descriptor,
                     fi_addr_t from, void *context)
{
    return msg_ops->recv(endpoint, buffer, bytes,
                         region_descriptor(endpoint, buffer, bytes, descriptor, "fi_recv"), from,
                         context);
}

/* ---------------------------------------------------------------------------------- completions */

static struct {
    struct fid_cq *queue;
    const struct fid *domain;
} queues[64];
static int queue_count;

static const struct fid *domain_of_queue(const struct fid_cq *queue)
{
    int i = queue_count - 1;
    while (i > 0 && queues[i].queue != queue)
        i--;
    return queues[i].domain;
}

static bool is_mask(const void *context)
{
    return (const struct fi_context2 *)context >= contexts &&
           (const struct fi_context2 *)context < contexts + CONTEXTS;
}

static ssize_t cq_read(struct fid_cq *queue, void *buffer, size_t count)
{
    struct fi_cq_msg_entry *entries = buffer;
    send_masks();
    write_slow();
    if (nic_has_lost(domain_of_queue(queue)))
        return -FI_EAVAIL;
    if (nic_is_deaf(domain_of_queue(queue)))
        return -FI_EAGAIN;
    ssize_t n = cq_ops->read(queue, buffer, count), kept = 0;
    for (ssize_t i = 0; i < n; i++)
        if (!is_mask(entries[i].op_context)) {
            forget_read(entries[i].op_context, true);
            entries[kept++] = entries[i];
        }
    return n <= 0 ? n : kept ? kept : -FI_EAGAIN;
}

static ssize_t cq_readerr(struct fid_cq *queue, struct fi_cq_err_entry *entry, uint64_t flags)
{
    void *lost = nic_next_lost(domain_of_queue(queue));
    if (lost) {
        *entry = (struct fi_cq_err_entry){.op_context = lost, .err = FI_EIO, .prov_errno = FI_EIO};
        return 1;
    }
    ssize_t n = cq_ops->readerr(queue, entry, flags);
    if (n == 1)
        forget_read(entry->op_context, false);
    return n == 1 && is_mask(entry->op_context) ? -FI_EAGAIN : n;
}

/* -------------------------------------------------------------------------------------- objects */

/* Kept until the process ends, because objects of the real library use their tables until they are
 * closed. */
static void *new_table(size_t bytes)
{
    static struct table {
        struct table *before;
        max_align_t content[];
    } * newest;
    struct table *table = malloc(sizeof *table + bytes);
    if (!table)
        abort();
    table->before = newest;
    newest = table;
    return table->content;
}

/* Saves the real table and installs a copy of it that can be changed. */
#define TAKE_OVER(object, kept)                                                                    \
    do {                                                                                           \
        if (!(kept))                                                                               \
            (kept) = (object);                                                                     \
        (object) = memcpy(new_table(sizeof *(object)), (kept), sizeof *(object));                  \
    } while (0)

static struct fid_cq *queue_of(const struct fid *domain)
{
    int i = queue_count - 1;
    while (i > 0 && queues[i].domain != domain)
        i--;
    return queues[i].queue;
}

/* Drops operations that are not sent yet. */
static int close_endpoint(struct fid *fid)
{
    int kept = 0;
    for (int i = 0; i < slow_count; i++)
        if (&slow[i].endpoint->fid != fid)
            slow[kept++] = slow[i];
    slow_count = kept;
    for (int i = kept = 0; i < pending_count; i++)
        if (&pending[i].endpoint->fid != fid)
            pending[kept++] = pending[i];
    pending_count = kept;
    const struct fid_ep *endpoint = (const struct fid_ep *)(const void *)fid;
    if (strcmp(shown_name(), REAL_PROVIDER) != 0 &&
        !end_reads(endpoint, cq_ops, queue_of(domain_of(endpoint))))
        return 0;
    return endpoint_fid_ops->close(fid);
}

static int open_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **endpoint,
                         void *context)
{
    struct fi_info *wanted = for_real(info);
    int error = domain_ops->endpoint(domain, wanted, endpoint, context);
    real.freeinfo(wanted);
    if (error)
        return error;
    note_endpoint(*endpoint, &domain->fid);
    TAKE_OVER((*endpoint)->fid.ops, endpoint_fid_ops);
    (*endpoint)->fid.ops->close = close_endpoint;
    TAKE_OVER((*endpoint)->msg, msg_ops);
    (*endpoint)->msg->send = send_;
    (*endpoint)->msg->recv = recv_;
    TAKE_OVER((*endpoint)->rma, rma_ops);
    (*endpoint)->rma->writemsg = writemsg;
    (*endpoint)->rma->readmsg = readmsg;
    return 0;
}

static int open_queue(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **queue,
                      void *context)
{
    if (attr->format != FI_CQ_FORMAT_MSG)
        broken("completions of format %d", (int)attr->format);
    int error = domain_ops->cq_open(domain, attr, queue, context);
    if (error)
        return error;
    if (queue_count == (int)(sizeof queues / sizeof queues[0]))
        broken("more than %d completion queues", queue_count);
    queues[queue_count].queue = *queue;
    queues[queue_count++].domain = &domain->fid;
    TAKE_OVER((*queue)->ops, cq_ops);
    (*queue)->ops->read = cq_read;
    (*queue)->ops->readerr = cq_readerr;
    return 0;
}

static int close_domain(struct fid *fid)
{
    region_check_free(fid);
    tell_of_nic(fid);
    return domain_fid_ops->close(fid);
}

static int open_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                       void *context)
{
    if (info->caps & FI_HMEM && asked_for("FAKE_FABRIC_FAIL", "domain"))
        return -FI_ENOSYS;
    struct fi_info *wanted = for_real(info);
    int error = fabric_ops->domain(fabric, wanted, domain, context);
    real.freeinfo(wanted);
    if (error)
        return error;
    note_nic(&(*domain)->fid, info->domain_attr->name);
    mr_ops = (*domain)->mr;
    (*domain)->mr = &own_mr_ops;
    TAKE_OVER((*domain)->ops, domain_ops);
    (*domain)->ops->endpoint = open_endpoint;
    (*domain)->ops->cq_open = open_queue;
    TAKE_OVER((*domain)->fid.ops, domain_fid_ops);
    (*domain)->fid.ops->close = close_domain;
    return 0;
}

/* The real provider may consume completions here. */
static int trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    const struct fid_cq *queue = (const struct fid_cq *)(const void *)fids[0];
    return count == 1 && nic_is_deaf(domain_of_queue(queue))
               ? 0
               : fabric_ops->trywait(fabric, fids, count);
}

EXPORT int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
    struct fi_fabric_attr wanted = *attr;
    char name[] = REAL_PROVIDER;
    wanted.prov_name = name;
    wanted.api_version = real_version(attr->api_version);
    int error = real.fabric(&wanted, fabric, context);
    if (error)
        return error;
    TAKE_OVER((*fabric)->ops, fabric_ops);
    (*fabric)->ops->domain = open_domain;
    (*fabric)->ops->trywait = trywait;
    return 0;
}
