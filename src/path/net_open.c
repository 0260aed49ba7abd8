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
};

/* How a PE is reached. */
struct address {
    uint64_t bytes;
    unsigned char name[ADDRESS_BYTES];
};

static weft_status post_receives(struct path_common *net)
{
    int count = net->world->npes * RECEIVES_PER_PEER;
    count = count < RECEIVES_LEAST ? RECEIVES_LEAST : count > RECEIVES_MOST ? RECEIVES_MOST : count;
    if ((size_t)count > net->rails[0].info->rx_attr->size)
        count = (int)net->rails[0].info->rx_attr->size;
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
    weft_status status = net_open_rail(net, &net->rails[0]);
    if (!status)
        status = serve_open(net->world, &net->serve);
    if (!status)
        status = post_receives(net);
    if (status)
        return status;
    mine->bytes = sizeof mine->name;
    size_t bytes = sizeof mine->name;
    int error = fi_getname(&net->rails[0].endpoint->fid, mine->name, &bytes);
    mine->bytes = bytes;
    return error ? net_refused(net, &net->rails[0], "fi_getname", error) : WEFT_OK;
}

/* ------------------------------------------------------------------------------------ addresses */

static weft_status insert(struct path_common *net, const struct address *all)
{
    for (int pe = 0; pe < net->world->npes; pe++) {
        struct net_peer *peer = &net->peers[pe];
        peer->pe = pe;
        int inserted = fi_av_insert(net->rails[0].av, all[pe].name, 1, &peer->address[0], 0, NULL);
        if (inserted != 1) {
            base_fail(WEFT_ERR_SYSTEM, "fi_av_insert: the address of PE %d was refused", pe);
            return inserted < 0 ? net_refused(net, &net->rails[0], "fi_av_insert", inserted)
                                : WEFT_ERR_SYSTEM;
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
    net->rails[0].info = info;
    net->rail_count = 1;
    snprintf(net->provider, sizeof net->provider, "%s", info->fabric_attr->prov_name);
    net->wake = -1;
    net->waiting_end = &net->waiting;
    net->late_end = &net->late;
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
    if (!status)
        status = open_here(net, &mine);
    status = boot_agree(world->boot, status);
    if (!status)
        status = exchange(net, &mine);
    if (!status)
        status = net_start_thread(net);
    if (!status)
        log_debug(
            "path net: provider %s on %s, %s, %s", net->provider, net_interface(&net->rails[0]),
            net->rails[0].traits.confirmed ? "writes are confirmed" : "messages follow writes",
            net->rails[0].descriptor >= 0 ? "sleeps on a descriptor" : "polls");
    return status;
}

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
    net_stage_free(net);
    for (int i = 0; i < net->rail_count; i++)
        net_close_endpoint(&net->rails[i]);
    net_free_memory(net);
    for (int i = 0; i < net->rail_count; i++)
        net_close_rail(net, &net->rails[i]);
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
