/* SPDX-License-Identifier: Apache-2.0 */
/* Registrations with rails other than the first: chunks of the segments, when a peer first asks for
 * their keys, and other local memory for the duration of a transfer. Also the keys of the peers'
 * chunks. See stripe.h. */
#include "path/net/stripe.h"

#include "base/log.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

struct net_rail_memory {
    struct rail_chunk {
        struct fid_mr *registered;
        bool attempted;
    } * chunks[SEG_COUNT];
    size_t counts[SEG_COUNT];
    uint64_t scratch;
    struct fid_mr *scratch_registered;
};

/* -------------------------------------------------------------------------------- own memory */

static struct net_rail_memory *get_rail_memory(struct net_rail *rail)
{
    if (!rail->memory)
        rail->memory = calloc(1, sizeof *rail->memory);
    return rail->memory;
}

static struct fid_mr *register_or_log(struct net_rail *rail, void *base, size_t bytes,
                                      uint64_t access)
{
    struct fid_mr *memory;
    int error = net_register_memory(rail, base, bytes, access, &memory);
    if (error)
        log_info(LOG_NET, "path net: %s cannot register %zu bytes at %p: %s",
                 net_interface_name(rail), bytes, base, strerror(error < 0 ? -error : error));
    return memory;
}

struct fid_mr *net_register_on_rail(struct net_rail *rail, void *base, size_t bytes,
                                    uint64_t access)
{
    return rail->endpoint ? register_or_log(rail, base, bytes, access) : NULL;
}

static struct fid_mr *register_chunk_on_rail(struct path_common *net, struct net_rail *rail,
                                             enum segment_id segment, size_t index, char **base)
{
    size_t whole = net->world->sizes[segment], start = index * NET_CHUNK_BYTES;
    struct net_rail_memory *memory = get_rail_memory(rail);
    if (!memory || index > whole / NET_CHUNK_BYTES || start >= whole)
        return NULL;
    if (!memory->chunks[segment]) {
        memory->counts[segment] = (whole + NET_CHUNK_BYTES - 1) / NET_CHUNK_BYTES;
        memory->chunks[segment] = calloc(memory->counts[segment], sizeof *memory->chunks[segment]);
    }
    if (!memory->chunks[segment])
        return NULL;
    struct rail_chunk *chunk = &memory->chunks[segment][index];
    *base = net->world->map[net->world->pe][segment] + start;
    size_t left = whole - start;
    if (!chunk->attempted)
        chunk->registered =
            register_or_log(rail, *base, left < NET_CHUNK_BYTES ? left : NET_CHUNK_BYTES,
                            FI_REMOTE_READ | FI_REMOTE_WRITE | FI_READ | FI_WRITE);
    chunk->attempted = true;
    return chunk->registered;
}

void net_get_own_rail_keys(struct path_common *net, enum segment_id segment, size_t chunk,
                           struct net_key keys[NET_RAILS])
{
    memset(keys, 0, NET_RAILS * sizeof *keys);
    for (int i = 1; i < net->rail_count; i++) {
        struct net_rail *rail = &net->rails[i];
        char *base;
        struct fid_mr *memory =
            rail->endpoint ? register_chunk_on_rail(net, rail, segment, chunk, &base) : NULL;
        if (memory)
            keys[i] = (struct net_key){
                .key = fi_mr_key(memory),
                .base = rail->traits.virtual_addresses ? (uint64_t)(uintptr_t)base : 0,
                .known = 1};
    }
}

/* ----------------------------------------------------------------------------------- local side */

static bool find_own_segment(const struct path_common *net, const void *local,
                             enum segment_id *segment, size_t *offset)
{
    for (int s = 0; s < SEG_COUNT; s++) {
        uintptr_t base = (uintptr_t)net->world->map[net->world->pe][s];
        *segment = (enum segment_id)s;
        *offset = (uintptr_t)local - base;
        if (base && *offset < net->world->sizes[s])
            return true;
    }
    return false;
}

/* Memory outside the segments may be freed after the transfer, so its registration is not kept. */
struct net_pin {
    struct fid_mr *registered[NET_RAILS];
    int uses;
    struct net_pin *next;
};

static void unregister_pin(struct net_pin *pin, int rail)
{
    if (pin->registered[rail])
        fi_close(&pin->registered[rail]->fid);
    pin->registered[rail] = NULL;
}

static struct net_pin *make_pin(struct path_common *net, void *local, size_t bytes, bool write)
{
    struct net_pin *pin = calloc(1, sizeof *pin);
    bool all = pin != NULL;
    if (!pin)
        return NULL;
    *pin = (struct net_pin){.uses = 1, .next = net->striping.pins};
    net->striping.pins = pin;
    for (int i = 0; i < net->rail_count && all; i++) {
        struct net_rail *rail = &net->rails[i];
        pin->registered[i] = net_register_on_rail(rail, local, bytes, write ? FI_WRITE : FI_READ);
        all = !rail->endpoint || pin->registered[i];
    }
    if (!all)
        net_release_pin(net, pin);
    return all ? pin : NULL;
}

struct net_pin *net_hold_pin(struct net_pin *pin)
{
    if (pin)
        pin->uses++;
    return pin;
}

void net_release_pin(struct path_common *net, struct net_pin *pin)
{
    struct net_pin **at = &net->striping.pins;
    if (!pin || --pin->uses)
        return;
    while (*at != pin)
        at = &(*at)->next;
    *at = pin->next;
    for (int i = 0; i < NET_RAILS; i++)
        unregister_pin(pin, i);
    free(pin);
}

bool net_prepare_local(struct path_common *net, void *local, size_t *bytes, bool write,
                       struct net_pin **pin)
{
    enum segment_id segment;
    size_t offset;
    if (!net->rails[0].traits.registers_local)
        return true;
    if (!find_own_segment(net, local, &segment, &offset))
        return pin && (*pin = make_pin(net, local, *bytes, write)) != NULL;
    for (int i = 0; i < net->rail_count; i++)
        if (net->rails[i].endpoint && !net_get_host_descriptor(net, &net->rails[i], local, bytes))
            return false;
    return true;
}

void *net_get_pin_descriptor(const struct path_common *net, const struct net_rail *rail,
                             const struct net_pin *pin)
{
    return fi_mr_desc(pin->registered[rail - net->rails]);
}

void *net_get_host_descriptor(struct path_common *net, struct net_rail *rail, const void *local,
                              size_t *bytes)
{
    enum segment_id segment;
    size_t offset;
    char *base;
    if (!rail->endpoint || !rail->traits.registers_local ||
        !find_own_segment(net, local, &segment, &offset))
        return NULL;
    size_t left = NET_CHUNK_BYTES - offset % NET_CHUNK_BYTES;
    if (*bytes > left)
        *bytes = left;
    struct fid_mr *memory =
        rail == &net->rails[0]
            ? net_get_own_chunk(net, segment, offset / NET_CHUNK_BYTES, NULL)
            : register_chunk_on_rail(net, rail, segment, offset / NET_CHUNK_BYTES, &base);
    return memory ? fi_mr_desc(memory) : NULL;
}

void *net_get_rail_scratch(struct path_common *net, struct net_rail *rail, void **descriptor)
{
    struct net_rail_memory *memory = get_rail_memory(rail);
    (void)net;
    *descriptor = NULL;
    if (!memory)
        return NULL;
    if (rail->traits.registers_local && !memory->scratch_registered)
        memory->scratch_registered =
            net_register_on_rail(rail, &memory->scratch, sizeof memory->scratch, FI_READ);
    if (rail->traits.registers_local && !memory->scratch_registered)
        return NULL;
    if (memory->scratch_registered)
        *descriptor = fi_mr_desc(memory->scratch_registered);
    return &memory->scratch;
}

void net_free_rail_memory(struct path_common *net, struct net_rail *rail)
{
    struct net_rail_memory *memory = rail->memory;
    for (struct net_pin *pin = net->striping.pins; pin; pin = pin->next)
        unregister_pin(pin, (int)(rail - net->rails));
    if (!memory)
        return;
    for (int s = 0; s < SEG_COUNT; s++) {
        for (size_t i = 0; memory->chunks[s] && i < memory->counts[s]; i++)
            if (memory->chunks[s][i].registered)
                fi_close(&memory->chunks[s][i].registered->fid);
        free(memory->chunks[s]);
    }
    if (memory->scratch_registered)
        fi_close(&memory->scratch_registered->fid);
    free(memory);
    rail->memory = NULL;
}

/* -------------------------------------------------------------------------------- peers' chunks */

weft_status net_get_peer_rail_keys(struct net_state *state, struct net_peer *peer,
                                   enum segment_id segment, size_t chunk,
                                   const struct net_key **result)
{
    size_t whole = state->net->world->sizes[segment];
    size_t count = (whole + NET_CHUNK_BYTES - 1) / NET_CHUNK_BYTES;
    if (!peer->rails.keys[segment])
        peer->rails.keys[segment] = calloc(count, NET_RAILS * sizeof(struct net_key));
    if (!peer->rails.keys[segment])
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for the keys of PE %d", peer->pe);
    struct net_key *keys = peer->rails.keys[segment] + chunk * NET_RAILS, answer[NET_RAILS];
    weft_status status = WEFT_OK;
    if (!keys[0].answered) { /* keys[0] is unused as a key: net_get_peer_key() has that of the first
                                rail. */
        const struct net_record query = {
            .kind = NET_RAIL_KEYS, .segment = (uint8_t)segment, .offset = chunk};
        status = net_send_query(state, peer, &query, sizeof answer, answer, sizeof answer, false);
        if (!status)
            memcpy(keys, answer, sizeof answer);
        if (!status)
            keys[0].answered = 1;
    }
    *result = keys;
    return status;
}
