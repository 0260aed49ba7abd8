/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing the endpoint of this PE, and telling its address to all the others. */
#include "path/net.h"

#include "base/log.h"
#include "base/status.h"
#include "boot/agree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    ADDRESS_BYTES = 120,
    RECEIVES_LEAST = 64, /* posted at least */
    RECEIVES_MOST = 256,
    RECEIVES_PER_PEER = 4,
    QUEUE_ENTRIES = 4096,
};

/* How a PE is reached. */
struct address {
    uint64_t bytes;
    unsigned char name[ADDRESS_BYTES];
};

weft_status net_refused(const struct path_common *net, const char *call, int error)
{
    return base_fail(WEFT_ERR_SYSTEM, "%s: %s (provider %s on %s)", call,
                     net->lib->strerror(error < 0 ? -error : error), net->provider,
                     net->info->domain_attr->name);
}

/* ------------------------------------------------------------------------------------- traits */

static bool is_one_of(const struct fi_info *info, const char *const *names)
{
    while (*names && strcmp(*names, info->fabric_attr->prov_name) != 0)
        names++;
    return *names != NULL;
}

/* Providers of which it is known that a message is never carried out before what earlier writes of the
 * same sender have left in memory: one stream of bytes, or one connection of a NIC that keeps that order.
 * The flag of libfabric alone promises the order in which operations begin. */
static bool keeps_order(const struct fi_info *info)
{
    static const char *const names[] = {"tcp",         "net",           "tcp;ofi_rxm",
                                        "net;ofi_rxm", "verbs;ofi_rxm", NULL};
    return info->tx_attr->msg_order & FI_ORDER_SAW && is_one_of(info, names);
}

static bool owner_moves_data(const struct fi_info *info)
{
    static const char *const names[] = {"tcp",     "net",         "tcp;ofi_rxm", "net;ofi_rxm",
                                        "sockets", "udp;ofi_rxd", NULL};
    return is_one_of(info, names);
}

static void find_traits(struct path_common *net)
{
    const struct fi_info *info = net->info;
    int mode = info->domain_attr->mr_mode;
    net->traits = (struct net_traits){
        .confirmed = !keeps_order(info),
        .virtual_addresses = mode & FI_MR_VIRT_ADDR,
        .registers_local = mode & FI_MR_LOCAL,
        .binds_memory = mode & FI_MR_ENDPOINT,
        .cpu_moves = owner_moves_data(info),
        .most = info->ep_attr->max_msg_size,
    };
    snprintf(net->provider, sizeof net->provider, "%s", info->fabric_attr->prov_name);
}

/* ------------------------------------------------------------------------------------ endpoint */

/* With a descriptor to sleep on, where the provider has one. */
static int open_queue(struct path_common *net)
{
    struct fi_cq_attr attr = {
        .size = QUEUE_ENTRIES, .format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_FD};
    int error = fi_cq_open(net->domain, &attr, &net->cq, NULL);
    net->descriptor = -1;
    if (!error && fi_control(&net->cq->fid, FI_GETWAIT, &net->descriptor) == 0)
        return 0;
    if (!error)
        fi_close(&net->cq->fid);
    net->cq = NULL;
    net->descriptor = -1;
    attr.wait_obj = FI_WAIT_NONE;
    return fi_cq_open(net->domain, &attr, &net->cq, NULL);
}

static weft_status open_objects(struct path_common *net)
{
    struct fi_av_attr table = {.type = FI_AV_TABLE, .count = (size_t)net->world->npes};
    int error = net->lib->fabric(net->info->fabric_attr, &net->fabric, NULL);
    if (error)
        return net_refused(net, "fi_fabric", error);
    if ((error = fi_domain(net->fabric, net->info, &net->domain, NULL)))
        return net_refused(net, "fi_domain", error);
    if ((error = fi_av_open(net->domain, &table, &net->av, NULL)))
        return net_refused(net, "fi_av_open", error);
    if ((error = open_queue(net)))
        return net_refused(net, "fi_cq_open", error);
    if ((error = fi_endpoint(net->domain, net->info, &net->endpoint, NULL)))
        return net_refused(net, "fi_endpoint", error);
    if ((error = fi_ep_bind(net->endpoint, &net->av->fid, 0)))
        return net_refused(net, "fi_ep_bind of the addresses", error);
    if ((error = fi_ep_bind(net->endpoint, &net->cq->fid, FI_TRANSMIT | FI_RECV)))
        return net_refused(net, "fi_ep_bind of the completions", error);
    if ((error = fi_enable(net->endpoint)))
        return net_refused(net, "fi_enable", error);
    return WEFT_OK;
}

static weft_status post_receives(struct path_common *net)
{
    int count = net->world->npes * RECEIVES_PER_PEER;
    count = count < RECEIVES_LEAST ? RECEIVES_LEAST : count > RECEIVES_MOST ? RECEIVES_MOST : count;
    if ((size_t)count > net->info->rx_attr->size)
        count = (int)net->info->rx_attr->size;
    weft_status status = WEFT_OK;
    for (int i = 0; i < count && !status; i++) {
        struct net_message *message = net_take_message(net);
        status = message
                     ? net_post_receive(net, message)
                     : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %d messages", count);
    }
    return status;
}

static weft_status open_here(struct path_common *net, struct address *mine)
{
    weft_status status = open_objects(net);
    if (!status)
        status = serve_open(net->world, &net->serve);
    if (!status)
        status = post_receives(net);
    if (status)
        return status;
    mine->bytes = sizeof mine->name;
    size_t bytes = sizeof mine->name;
    int error = fi_getname(&net->endpoint->fid, mine->name, &bytes);
    mine->bytes = bytes;
    return error ? net_refused(net, "fi_getname", error) : WEFT_OK;
}

/* ------------------------------------------------------------------------------------ addresses */

static weft_status insert(struct path_common *net, const struct address *all)
{
    for (int pe = 0; pe < net->world->npes; pe++) {
        struct net_peer *peer = &net->peers[pe];
        peer->pe = pe;
        int inserted = fi_av_insert(net->av, all[pe].name, 1, &peer->address, 0, NULL);
        if (inserted != 1) {
            base_fail(WEFT_ERR_SYSTEM, "fi_av_insert: the address of PE %d was refused", pe);
            return inserted < 0 ? net_refused(net, "fi_av_insert", inserted) : WEFT_ERR_SYSTEM;
        }
    }
    return WEFT_OK;
}

static weft_status exchange(struct path_common *net, const struct address *mine)
{
    const struct path_world *world = net->world;
    struct address *all = calloc((size_t)world->npes, sizeof *all);
    weft_status status =
        all ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %d PEs", world->npes);
    status = boot_agree(world->boot, status);
    if (!status)
        status = world->boot->ops->allgather(world->boot, mine, all, sizeof *all);
    if (!status)
        status = insert(net, all);
    free(all);
    return status;
}

/* ---------------------------------------------------------------------------------- open, close */

static weft_status make(const struct path_world *world, struct fi_info *info,
                        struct path_common **result)
{
    struct path_common *net = calloc(1, sizeof *net);
    if (net)
        net->peers = calloc((size_t)world->npes, sizeof *net->peers);
    if (!net || !net->peers) {
        free(net);
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for path net");
    }
    net->world = world;
    net->info = info;
    net->wake = net->descriptor = -1;
    net->waiting_end = &net->waiting;
    pthread_mutex_init(&net->lock, NULL);
    *result = net;
    return fabric_open(&net->lib);
}

weft_status net_open(const struct path_world *world, struct fi_info *info,
                     struct path_common **result)
{
    struct address mine = {0};
    weft_status status = make(world, info, result);
    struct path_common *net = *result;
    if (!status) {
        find_traits(net);
        status = open_here(net, &mine);
    }
    status = boot_agree(world->boot, status);
    if (!status)
        status = exchange(net, &mine);
    if (!status)
        status = net_start_thread(net);
    if (!status)
        log_debug("path net: provider %s on %s, %s, %s", net->provider,
                  net->info->domain_attr->name,
                  net->traits.confirmed ? "writes are confirmed" : "messages follow writes",
                  net->descriptor >= 0 ? "sleeps on a descriptor" : "polls");
    return status;
}

#define CLOSE(object)                                                                              \
    do {                                                                                           \
        if (object)                                                                                \
            fi_close(&(object)->fid);                                                              \
        (object) = NULL;                                                                           \
    } while (0)

static void free_peers(struct path_common *net)
{
    for (int pe = 0; pe < net->world->npes; pe++)
        for (int s = 0; s < SEG_COUNT; s++)
            free(net->peers[pe].keys[s]);
    free(net->peers);
}

void net_close(struct path_common *net)
{
    net_stop_thread(net);
    CLOSE(net->endpoint);
    net_free_memory(net);
    CLOSE(net->cq);
    CLOSE(net->av);
    CLOSE(net->domain);
    CLOSE(net->fabric);
    if (net->info)
        net->lib->freeinfo(net->info);
    serve_close(net->serve);
    while (net->closed) {
        struct path_state *state = net->closed;
        net->closed = state->next;
        net_free_state(state);
    }
    free_peers(net);
    free(net->awaited);
    pthread_mutex_destroy(&net->lock);
    free(net);
}
