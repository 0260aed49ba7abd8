/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes the endpoints of this PE, and exchanges their addresses with all PEs. */
#include "path/net/encrypt.h"
#include "path/net/hmem.h"
#include "path/net/stripe.h"

#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "boot/agree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ADDRESS_BYTES = 120 };

/* Exchange record of a PE: the address of each of its rails. The key of PE 0's record is the job's
 * key (words.c). */
struct address_record {
    uint8_t key[SIPHASH_KEY_BYTES];
    int32_t count;
    struct address {
        uint64_t network, bytes;
        unsigned char name[ADDRESS_BYTES];
    } rail[NET_RAILS];
};

/* ------------------------------------------------------------------------------------ endpoints */

static weft_status get_own_address(struct path_common *net, struct net_rail *rail,
                                   struct address *mine)
{
    size_t bytes = sizeof mine->name;
    int error = fi_getname(&rail->endpoint->fid, mine->name, &bytes);
    mine->bytes = bytes;
    mine->network = rail->network;
    return error ? net_call_failed(net, rail, "fi_getname", error) : WEFT_OK;
}

/* Opens a rail with FI_HMEM if the provider has it. If that fails, the rail is opened without, and
 * gpu_lacks keeps the reason of the first rail. */
static weft_status open_rail_with_gpu(struct path_common *net, struct net_rail *rail)
{
    char lacks[NET_REASON_BYTES];
    struct fi_info *plain = net->lib->dupinfo(rail->info);
    if (net->encryption)
        snprintf(lacks, sizeof lacks, "messages are encrypted, which a CPU does");
    else
        rail->info = net_add_hmem(net->lib, rail->info, lacks, sizeof lacks);
    rail->hmem = !lacks[0];
    weft_status status = net_open_rail(net, rail);
    if (status && rail->hmem && plain) {
        snprintf(lacks, sizeof lacks, "opened with FI_HMEM: %.120s", base_last_error());
        rail->hmem = false;
        net_close_objects(rail);
        net->lib->freeinfo(rail->info);
        rail->info = plain;
        plain = NULL;
        status = net_open_rail(net, rail);
    }
    if (rail == net->rails)
        memcpy(net->gpu.lacks, lacks, sizeof lacks);
    else if (rail->hmem)
        net->gpu.lacks[0] = '\0';
    if (plain)
        net->lib->freeinfo(plain);
    return status;
}

static weft_status open_own_endpoints(struct path_common *net, struct address_record *mine)
{
    weft_status status = WEFT_OK;
    if (net_is_encryption_wanted())
        status = net_begin_encryption(net);
    if (strcmp(net->provider, "shm") == 0)
        net_remove_leftovers(net->world);
    for (int i = 0; i < net->rail_count && !status; i++) {
        status = open_rail_with_gpu(net, &net->rails[i]);
        if (!status)
            status = get_own_address(net, &net->rails[i], &mine->rail[i]);
    }
    mine->count = net->rail_count;
    if (!status && !net_random_bytes(mine->key, sizeof mine->key))
        status = base_fail(WEFT_ERR_SYSTEM, "getrandom: %s", strerror(errno));
    if (!status)
        status = serve_open(net->world, &net->serve);
    for (int i = 0; i < net->rail_count && !status; i++)
        status = net_post_receives(net, i);
    return status;
}

/* ------------------------------------------------------------------------------------ addresses */

/* The peer's rail that a rail of this PE connects to; -1 if none. It is on the same network; the
 * rail with the same index is preferred, then the next ones in turn. */
static int find_peer_rail(const struct path_common *net, int rail,
                          const struct address_record *peer)
{
    uint64_t network = net->rails[rail].network;
    for (int i = 0; i < peer->count; i++) {
        int there = (rail + i) % peer->count;
        if (!network || !peer->rail[there].network || peer->rail[there].network == network)
            return there;
    }
    return -1;
}

static weft_status insert_address(struct path_common *net, int pe, int rail,
                                  const struct address_record *its)
{
    struct net_rail *mine = &net->rails[rail];
    size_t at = (size_t)pe * (size_t)net->rail_count + (size_t)rail;
    fi_addr_t *address = &net->start.addresses[at];
    int there = rail ? find_peer_rail(net, rail, its) : 0;
    *address = FI_ADDR_NOTAVAIL;
    if (there < 0)
        return WEFT_OK;
    net->start.rails[at] = (uint8_t)there;
    int inserted = fi_av_insert(mine->av, its->rail[there].name, 1, address, 0, NULL);
    if (inserted == 1)
        return WEFT_OK;
    base_fail(WEFT_ERR_SYSTEM, "fi_av_insert: the address of PE %d was refused", pe);
    return inserted < 0 ? net_call_failed(net, mine, "fi_av_insert", inserted) : WEFT_ERR_SYSTEM;
}

static weft_status exchange_addresses(struct path_common *net, const struct address_record *mine)
{
    const struct path_world *world = net->world;
    struct address_record *all = calloc((size_t)world->npes, sizeof *all);
    weft_status status =
        all ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %d PEs", world->npes);
    status = boot_agree(world->boot, status);
    if (!status)
        status = world->boot->ops->allgather(world->boot, mine, all, sizeof *all);
    for (int pe = 0; pe < world->npes && !status; pe++)
        for (int rail = 0; rail < net->rail_count && !status; rail++)
            status = insert_address(net, pe, rail, &all[pe]);
    if (!status)
        memcpy(net->start.key, all[0].key, sizeof net->start.key);
    free(all);
    return net->encryption ? net_exchange_keys(net, status) : status;
}

/* ---------------------------------------------------------------------------------- open, close */

static void store_selection(struct path_common *net, struct net_selection *selection)
{
    uint64_t stripe = config_size(CONFIG_TEST_FABRIC_STRIPE);
    net->rail_count = selection->count;
    net->first_rail_carries = selection->first_rail_carries;
    net->striping.least_bytes = !selection->first_rail_carries ? 0 : stripe ? stripe : SIZE_MAX;
    for (int i = 0; i < selection->count; i++) {
        net->rails[i].info = selection->info[i];
        net->rails[i].network = selection->network[i];
        net->rails[i].mbps = selection->mbps[i];
        selection->info[i] = NULL;
    }
    snprintf(net->provider, sizeof net->provider, "%s", net->rails[0].info->fabric_attr->prov_name);
}

static weft_status alloc_common(const struct path_world *world, struct net_selection *selection,
                                struct path_common **result)
{
    struct path_common *net = calloc(1, sizeof *net);
    if (!net || !net_reserve_peers(net, world->npes, selection->count)) {
        free(net);
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for path net");
    }
    net->world = world;
    store_selection(net, selection);
    net->progress.wake_descriptor = -1;
    net->sends.blocked_end = &net->sends.blocked;
    net->incomplete_end = &net->incomplete;
    pthread_mutex_init(&net->lock, NULL);
    *result = net;
    return fabric_open(&net->lib);
}

weft_status net_open(const struct path_world *world, struct net_selection *selection,
                     struct path_common **result)
{
    struct address_record mine = {0};
    weft_status status = alloc_common(world, selection, result);
    struct path_common *net = *result;
    if (!status)
        status = open_own_endpoints(net, &mine);
    status = boot_agree(world->boot, status);
    if (!status)
        status = exchange_addresses(net, &mine);
    if (!status)
        status = net_start_thread(net);
    if (!status)
        log_debug(LOG_NET, "path net: provider %s on %s, %s, %s", net->provider,
                  net_interface_name(&net->rails[0]),
                  net->rails[0].traits.delivery_complete ? "writes are confirmed"
                                                         : "messages follow writes",
                  net->rails[0].wait_descriptor >= 0 ? "sleeps on a descriptor" : "polls");
    return status;
}

void net_close(struct path_common *net)
{
    net_stop_thread(net);
    net_drain(net);
    for (int i = 0; i < net->rail_count; i++)
        net_close_endpoint(&net->rails[i]);
    net_stripe_close(net);
    net_stage_free(net);
    for (int i = 0; i < net->rail_count; i++)
        net_free_rail_memory(net, &net->rails[i]);
    net_free_regions(net);
    net_free_memory(net);
    for (int i = 0; i < net->rail_count; i++)
        net_close_rail(net, &net->rails[i]);
    serve_close(net->serve);
    while (net->closed_states) {
        struct net_state *state = net->closed_states;
        net->closed_states = state->next;
        net_free_state(state);
    }
    net_free_peers(net, net->world->npes);
    net_end_encryption(net);
    free(net->pending.answers);
    pthread_mutex_destroy(&net->lock);
    free(net);
}
