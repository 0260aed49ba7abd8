/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the peers. From the start a PE keeps of each peer only the address by which each
 * rail reaches it. The rest of struct net_peer is made before the first message to or from the
 * peer; until then it is memory that nothing has touched, so it takes addresses and no pages. So
 * does the memory of the receives that each peer adds. */
#include "path/net/encrypt.h"
#include "path/net/net.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    RECEIVES_LEAST = 64, /* receives that are posted on a rail at least */
    RECEIVES_MOST = 256,
    RECEIVES_PER_PEER = 4,
};

bool net_reserve_peers(struct path_common *net, int npes, int rail_count)
{
    size_t count = (size_t)npes * (size_t)rail_count;
    void *memory = mmap(NULL, (size_t)npes * sizeof *net->peers, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    net->peers = memory == MAP_FAILED ? NULL : memory;
    net->start.addresses = calloc(count, sizeof *net->start.addresses);
    net->start.rails = calloc(count, sizeof *net->start.rails);
    if (net->peers && net->start.addresses && net->start.rails)
        return true;
    net_free_peers(net, npes);
    return false;
}

size_t net_peer_bytes(int nics, int contexts)
{
    const struct net_start *start = NULL;
    const struct net_state *state = NULL;
    size_t each = sizeof *start->addresses + sizeof *start->rails;
    size_t keys = net_is_encryption_wanted() ? CIPHER_POINT_BYTES + sizeof(void *) : 0;
    return (size_t)nics * each + keys +
           (size_t)contexts * (sizeof *state->channels + sizeof *state->touched);
}

void net_free_peers(struct path_common *net, int npes)
{
    for (int pe = 0; net->peers && pe < npes; pe++)
        for (int s = 0; s < SEG_COUNT && net->peers[pe].begun; s++) {
            free(net->peers[pe].keys[s]);
            free(net->peers[pe].rails.keys[s]);
        }
    if (net->peers)
        munmap(net->peers, (size_t)npes * sizeof *net->peers);
    free(net->start.addresses);
    free(net->start.rails);
}

/* ------------------------------------------------------------------------------------- receives */

static int count_receives(const struct path_common *net, int rail)
{
    size_t count = net->begun_count * RECEIVES_PER_PEER;
    count = count < RECEIVES_LEAST ? RECEIVES_LEAST : count > RECEIVES_MOST ? RECEIVES_MOST : count;
    size_t most = net->rails[rail].info->rx_attr->size;
    return (int)(count < most ? count : most);
}

weft_status net_post_receives(struct path_common *net, int rail_index)
{
    struct net_rail *rail = &net->rails[rail_index];
    int count = count_receives(net, rail_index);
    for (; rail->receive_count < count; rail->receive_count++) {
        struct net_message *message = net_alloc_message(net);
        if (!message)
            return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %d messages", count);
        weft_status status = net_post_receive(net, rail_index, message);
        if (status)
            return status;
    }
    return WEFT_OK;
}

/* ---------------------------------------------------------------------------------------- begin */

void net_begin_peer(struct path_common *net, int pe)
{
    struct net_peer *peer = &net->peers[pe];
    if (net_is_begun(net, pe))
        return;
    peer->begun = true;
    peer->pe = pe;
    net_derive_session(net, peer);
    for (int rail = 0; rail < net->rail_count && rail < NET_RAILS; rail++) {
        size_t at = (size_t)pe * (size_t)net->rail_count + (size_t)rail;
        peer->rails.address[rail] = net->start.addresses[at];
        peer->rails.peers[rail] = net->start.rails[at];
    }
    net->begun_count++;
    for (int rail = 0; rail < net->rail_count; rail++)
        if (net->rails[rail].endpoint && net_post_receives(net, rail))
            return; /* The receives that are posted are enough, if not for the best rate. */
}
