/* SPDX-License-Identifier: Apache-2.0 */
/* The NICs of path net: opens and closes the libfabric objects of each, and posts RMA operations.
 * It does not know what they transfer. */
#include "path/net/net.h"

#include "base/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { QUEUE_ENTRIES = 4096, FEW_FILES = 8 };

const char *net_interface_name(const struct net_rail *rail)
{
    const char *name = rail->info->domain_attr->name;
    return name ? name : "an interface without a name";
}

/* A lower bound of the number of open files. */
static rlim_t count_open_files(const struct rlimit *limit)
{
    int next = dup(STDERR_FILENO); /* the lowest free file descriptor */
    if (next < 0)
        return errno == EMFILE ? limit->rlim_cur : 0;
    close(next);
    return (rlim_t)next;
}

void net_limit_text(const struct net_rail *rail, int error, char *text, size_t bytes)
{
    struct rlimit limit;
    text[0] = '\0';
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
        (error == EMFILE || count_open_files(&limit) + FEW_FILES > limit.rlim_cur))
        snprintf(text, bytes, "; the limit of open files (ulimit -n) is %llu, and %llu are open",
                 (unsigned long long)limit.rlim_cur, (unsigned long long)count_open_files(&limit));
    if (error == FI_ENOMEM && rail->traits.registers_local &&
        getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        snprintf(text, bytes, "; the limit of locked memory (ulimit -l) is %llu KiB",
                 (unsigned long long)limit.rlim_cur / 1024);
}

bool net_out_of_descriptors(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && count_open_files(&limit) >= limit.rlim_cur;
}

const char *net_address_text(const struct net_rail *rail, int rail_index,
                             const struct net_peer *peer, char text[NET_ADDRESS_TEXT_BYTES])
{
    unsigned char address[128];
    char words[NET_ADDRESS_TEXT_BYTES];
    size_t bytes = sizeof address, length = sizeof words;
    text[0] = '\0';
    if (!rail->av || peer->rails.address[rail_index] == FI_ADDR_NOTAVAIL ||
        fi_av_lookup(rail->av, peer->rails.address[rail_index], address, &bytes) ||
        bytes > sizeof address || !fi_av_straddr(rail->av, address, words, &length))
        return text;
    const char *after = strstr(words, "://");
    snprintf(text, NET_ADDRESS_TEXT_BYTES, " at %.*s", NET_ADDRESS_TEXT_BYTES - 5,
             after ? after + 3 : words);
    return text;
}

weft_status net_call_failed(const struct path_common *net, const struct net_rail *rail,
                            const char *call, int error)
{
    char limit_text[96];
    error = error < 0 ? -error : error;
    net_limit_text(rail, error, limit_text, sizeof limit_text);
    return base_fail(WEFT_ERR_SYSTEM, "%s: %s (provider %s on %s)%s", call,
                     net->lib->strerror(error), net->provider, net_interface_name(rail),
                     limit_text);
}

/* ------------------------------------------------------------------------------ provider traits */

static bool is_provider_in(const struct fi_info *info, const char *const *names)
{
    while (*names && strcmp(*names, info->fabric_attr->prov_name) != 0)
        names++;
    return *names != NULL;
}

/* Providers that are known to execute a message only after the memory writes of earlier RMA
 * operations of the same sender: they use one byte stream, or one connection of a NIC that keeps
 * that order. libfabric's flag alone promises only the order in which operations start. */
static bool messages_follow_writes(const struct fi_info *info)
{
    static const char *const names[] = {"tcp",         "net",           "tcp;ofi_rxm",
                                        "net;ofi_rxm", "verbs;ofi_rxm", NULL};
    return info->tx_attr->msg_order & FI_ORDER_SAW && is_provider_in(info, names);
}

bool net_cpu_executes_rma(const struct fi_info *info)
{
    static const char *const names[] = {"tcp",     "net",         "tcp;ofi_rxm", "net;ofi_rxm",
                                        "sockets", "udp;ofi_rxd", NULL};
    return is_provider_in(info, names);
}

/* Provider tcp of libfabric 1.17.0, which Debian 12 and Ubuntu 24.04 have, and of earlier versions:
 * an RMA read that has received a part of its data is in two lists, so closing the endpoint reports
 * and frees it twice, the second time without a context, and ofi_rxm crashes. 1.17.1 and 1.18 are
 * correct. The version number that the library reports has no third part. */
static bool crashes_on_reads(const struct fabric *lib, const struct fi_info *info)
{
    return lib->version() < FI_VERSION(1, 18) &&
           strcmp(info->fabric_attr->prov_name, "tcp;ofi_rxm") == 0;
}

static void find_traits(const struct fabric *lib, struct net_rail *rail)
{
    const struct fi_info *info = rail->info;
    int mode = info->domain_attr->mr_mode;
    rail->traits = (struct net_traits){
        .delivery_complete = !messages_follow_writes(info),
        .virtual_addresses = mode & FI_MR_VIRT_ADDR,
        .registers_local = mode & FI_MR_LOCAL,
        .binds_memory = mode & FI_MR_ENDPOINT,
        .cpu_executes_rma = net_cpu_executes_rma(info),
        .crashes_on_reads = crashes_on_reads(lib, info),
        .reports_source = info->caps & FI_SOURCE,
        .rejects_unknown =
            info->caps & FI_SOURCE && strcmp(info->fabric_attr->prov_name, "shm") == 0,
        .max_bytes = info->ep_attr->max_msg_size,
    };
}

/* ------------------------------------------------------------------------------------ endpoint */

/* Opens the completion queue with a file descriptor for poll(), if the provider has one. */
static int open_completion_queue(struct net_rail *rail)
{
    struct fi_cq_attr attr = {
        .size = QUEUE_ENTRIES, .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_FD};
    int error = fi_cq_open(rail->domain, &attr, &rail->cq, NULL);
    if (!error && fi_control(&rail->cq->fid, FI_GETWAIT, &rail->wait_descriptor) == 0)
        return 0;
    if (!error)
        fi_close(&rail->cq->fid);
    rail->cq = NULL;
    rail->wait_descriptor = -1;
    attr.wait_obj = FI_WAIT_NONE;
    return fi_cq_open(rail->domain, &attr, &rail->cq, NULL);
}

weft_status net_open_rail(struct path_common *net, struct net_rail *rail)
{
    struct fi_av_attr table = {.type = FI_AV_TABLE, .count = (size_t)net->world->npes};
    find_traits(net->lib, rail);
    rail->traits.messages_only = net->encryption != NULL;
    rail->wait_descriptor = -1;
    int error = net->lib->fabric(rail->info->fabric_attr, &rail->fabric, NULL);
    if (error)
        return net_call_failed(net, rail, "fi_fabric", error);
    if ((error = fi_domain(rail->fabric, rail->info, &rail->domain, NULL)))
        return net_call_failed(net, rail, "fi_domain", error);
    if ((error = fi_av_open(rail->domain, &table, &rail->av, NULL)))
        return net_call_failed(net, rail, "fi_av_open", error);
    if ((error = open_completion_queue(rail)))
        return net_call_failed(net, rail, "fi_cq_open", error);
    if ((error = fi_endpoint(rail->domain, rail->info, &rail->endpoint, NULL)))
        return net_call_failed(net, rail, "fi_endpoint", error);
    if ((error = fi_ep_bind(rail->endpoint, &rail->av->fid, 0)))
        return net_call_failed(net, rail, "fi_ep_bind of the addresses", error);
    if ((error = fi_ep_bind(rail->endpoint, &rail->cq->fid, FI_TRANSMIT | FI_RECV)))
        return net_call_failed(net, rail, "fi_ep_bind of the completions", error);
    if ((error = fi_enable(rail->endpoint)))
        return net_call_failed(net, rail, "fi_enable", error);
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------- RMA operations */

ssize_t net_post_rma(struct net_rail *rail, struct net_post *post, struct fi_msg_rma *message,
                     bool write)
{
    uint64_t flag = rail->traits.delivery_complete ? FI_DELIVERY_COMPLETE : 0;
    message->context = &post->context;
    post->counted_read = false;
    if (write)
        return fi_writemsg(rail->endpoint, message, FI_COMPLETION | flag);
    ssize_t error = fi_readmsg(rail->endpoint, message, FI_COMPLETION);
    post->counted_read = !error;
    rail->reads_in_flight += !error;
    return error;
}

/* -------------------------------------------------------------------------------- registration */

int net_bind_memory(struct net_rail *rail, struct fid_mr **memory)
{
    int error = 0;
    if (rail->traits.binds_memory)
        error = fi_mr_bind(*memory, &rail->endpoint->fid, 0);
    if (rail->traits.binds_memory && !error)
        error = fi_mr_enable(*memory);
    if (error)
        fi_close(&(*memory)->fid);
    if (error)
        *memory = NULL;
    return error;
}

int net_register_memory(struct net_rail *rail, const void *base, size_t bytes, uint64_t access,
                        struct fid_mr **memory)
{
    enum { TRIES = 8 }; /* a short random key may be in use already */
    int error = -FI_ENOKEY;
    uint64_t key;
    *memory = NULL;
    if (!rail->endpoint)
        return -FI_EOPBADSTATE;
    if (rail->traits.messages_only && access & (FI_REMOTE_READ | FI_REMOTE_WRITE))
        return -FI_EOPNOTSUPP; /* RMA is not encrypted. */
    for (int i = 0; i < TRIES && error == -FI_ENOKEY; i++) {
        error = net_random_key(rail, &key);
        if (!error)
            error = fi_mr_reg(rail->domain, base, bytes, access, 0, key, 0, memory, NULL);
    }
    return error ? error : net_bind_memory(rail, memory);
}

/* ---------------------------------------------------------------------------------------- close */

#define CLOSE(object)                                                                              \
    do {                                                                                           \
        if (object)                                                                                \
            fi_close(&(object)->fid);                                                              \
        (object) = NULL;                                                                           \
    } while (0)

/* An endpoint that would crash is left open: such a provider accesses memory only while its
 * completion queue is read, and no thread reads it any more. */
void net_close_endpoint(struct net_rail *rail)
{
    rail->left_open |= rail->endpoint && rail->reads_in_flight && rail->traits.crashes_on_reads;
    if (rail->left_open)
        rail->endpoint = NULL;
    CLOSE(rail->endpoint);
    rail->reads_in_flight = 0;
}

void net_close_objects(struct net_rail *rail)
{
    net_close_endpoint(rail);
    rail->wait_descriptor = -1;
    if (rail->left_open)
        return;
    CLOSE(rail->cq);
    CLOSE(rail->av);
    CLOSE(rail->domain);
    CLOSE(rail->fabric);
}

void net_close_rail(struct path_common *net, struct net_rail *rail)
{
    net_close_objects(rail);
    if (rail->info)
        net->lib->freeinfo(rail->info);
    rail->info = NULL;
}
