/* SPDX-License-Identifier: Apache-2.0 */
/* PE 0 of three PEs with path net over three NICs, whose endpoints record what the PE sends. For
 * tests that feed messages to it. */
#ifndef WEFT_TESTS_NET_END_H
#define WEFT_TESTS_NET_END_H

#include "path/net/hmem.h"
#include "path/net/stripe.h"

#include <stdlib.h>
#include <string.h>

enum {
    END_PES = 3,
    END_RAILS = 3,
    END_HEAP_BYTES = 20480, /* a get of the heap takes several messages */
    END_RECEIVES = 4,
    END_SENT = 512,
    END_REQUESTS = 5, /* requests that this end has sent to each peer */
    END_ANSWER_BYTES = 24
};

struct net_end {
    struct path_world world;
    char *map[END_PES][SEG_COUNT];
    struct path_common net;
    struct net_peer peers[END_PES + 1]; /* one more than the job has; no code may use it */
    struct net_state state;
    struct net_channel channels[END_PES];
    int touched[END_PES];
    _Alignas(8) unsigned char heap[END_HEAP_BYTES];
    unsigned char answer[END_ANSWER_BYTES]; /* answer to a query of this end to PE 1 */
    uint64_t token;                         /* token of that query */
    struct net_message *posted[END_RECEIVES + 1];
    int posted_count;
    struct net_message *sent[END_SENT]; /* messages without a completion of their send */
    int sent_count;
    /* Called with each sent message. */
    void (*look)(struct net_end *end, const unsigned char *bytes, size_t count);
    fi_addr_t sent_to; /* destination of the message that `look` gets: end_address() */
    ssize_t (*refuse)(struct net_end *end, fi_addr_t to); /* what fi_send returns; NULL: 0 */
    bool refuse_receives;
    struct end_access { /* posted remote accesses */
        struct net_post *post;
        int rail;
        bool write;
        const char *local;
        uint64_t address, key;
        size_t bytes;
        fi_addr_t to;
    } accesses[64];
    int access_count;
    /* NULL: every access is accepted. */
    ssize_t (*refuse_access)(struct net_end *end, int rail, bool write);
    struct fid_ep endpoints[END_RAILS + 1];
    int closed_count;  /* closed endpoints */
    uint64_t keys[64]; /* requested keys */
    int key_count;
    struct end_memory { /* registered memory */
        struct fid_mr *handle;
        int rail;
        uintptr_t base;
        size_t bytes;
        uint64_t access, key;
        bool closed;
    } memories[64];
    int memory_count, memory_closed;
    /* Error of a registration; NULL: none fails. */
    int (*refuse_memory)(struct net_end *end, int rail);
    struct fid_domain domains[END_RAILS + 1];
};

static struct net_end *end_here; /* operations of libfabric get no user pointer */

/* Address of a peer over a rail of this end. */
static fi_addr_t end_address(int pe, int rail)
{
    return (fi_addr_t)(10 * pe + rail);
}

static ssize_t end_receive(struct fid_ep *endpoint, void *buffer, size_t bytes, void *descriptor,
                           fi_addr_t from, void *context)
{
    (void)endpoint, (void)buffer, (void)bytes, (void)descriptor, (void)from;
    if (end_here->refuse_receives)
        return -FI_ENOMEM;
    if (end_here->posted_count > END_RECEIVES)
        abort();
    end_here->posted[end_here->posted_count++] = context;
    return 0;
}

static ssize_t end_send(struct fid_ep *endpoint, const void *bytes, size_t count, void *descriptor,
                        fi_addr_t to, void *context)
{
    (void)endpoint, (void)descriptor;
    if (count > NET_MESSAGE_BYTES)
        abort();
    ssize_t error = end_here->refuse ? end_here->refuse(end_here, to) : 0;
    if (error)
        return error;
    if (end_here->sent_count == END_SENT)
        return -FI_EAGAIN;
    end_here->sent_to = to;
    if (end_here->look)
        end_here->look(end_here, bytes, count);
    end_here->sent[end_here->sent_count++] = context;
    return 0;
}

static int end_close(struct fid *fid)
{
    for (int i = 0; i < end_here->memory_count; i++) {
        struct end_memory *memory = &end_here->memories[i];
        if (!memory->closed && &memory->handle->fid == fid)
            memory->closed = true;
    }
    end_here->memory_closed++;
    free(fid);
    return 0;
}

static ssize_t end_access(struct fid_ep *endpoint, const struct fi_msg_rma *message, bool write)
{
    int rail = (int)(endpoint - end_here->endpoints);
    ssize_t error = end_here->refuse_access ? end_here->refuse_access(end_here, rail, write) : 0;
    if (error)
        return error;
    if (end_here->access_count == (int)(sizeof end_here->accesses / sizeof end_here->accesses[0]))
        abort();
    end_here->accesses[end_here->access_count++] = (struct end_access){
        .post = message->context,
        .rail = rail,
        .write = write,
        .local = message->msg_iov->iov_base,
        .address = message->rma_iov->addr,
        .key = message->rma_iov->key,
        .bytes = message->msg_iov->iov_len == message->rma_iov->len ? message->rma_iov->len : 0,
        .to = message->addr};
    return 0;
}

static ssize_t end_write(struct fid_ep *endpoint, const struct fi_msg_rma *message, uint64_t flags)
{
    (void)flags;
    return end_access(endpoint, message, true);
}

static ssize_t end_read(struct fid_ep *endpoint, const struct fi_msg_rma *message, uint64_t flags)
{
    (void)flags;
    return end_access(endpoint, message, false);
}

static int end_close_endpoint(struct fid *fid)
{
    (void)fid;
    end_here->closed_count++;
    return 0;
}

static struct fi_ops end_endpoint_ops = {.size = sizeof(struct fi_ops),
                                         .close = end_close_endpoint};
static struct fi_ops end_close_ops = {.size = sizeof(struct fi_ops), .close = end_close};

static int end_register(struct fid *domain, const void *base, size_t bytes, uint64_t access,
                        uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **memory,
                        void *context)
{
    int rail = 0;
    (void)offset, (void)flags, (void)context;
    while (rail < END_RAILS && &end_here->domains[rail].fid != domain)
        rail++;
    int error = end_here->refuse_memory ? end_here->refuse_memory(end_here, rail) : 0;
    if (error)
        return error;
    struct fid_mr *made = calloc(1, sizeof *made);
    made->fid.ops = &end_close_ops;
    made->key = key;
    made->mem_desc = made;
    if (end_here->memory_count < (int)(sizeof end_here->memories / sizeof end_here->memories[0]))
        end_here->memories[end_here->memory_count++] =
            (struct end_memory){made, rail, (uintptr_t)base, bytes, access, key, false};
    if (end_here->key_count < (int)(sizeof end_here->keys / sizeof end_here->keys[0]))
        end_here->keys[end_here->key_count++] = key;
    *memory = made;
    return 0;
}

static const char *end_strerror(int error)
{
    (void)error;
    return "an error";
}

static void end_wait(struct path_wait *wait)
{
    (void)wait;
}

static void end_sends_complete(struct net_end *end)
{
    for (int i = 0; i < end->sent_count; i++)
        net_message_sent(&end->net, end->sent[i]);
    end->sent_count = 0;
}

static void end_open(struct net_end *end, const uint8_t key[SIPHASH_KEY_BYTES], size_t key_bytes)
{
    static struct fi_ops_msg messages = {
        .size = sizeof messages, .recv = end_receive, .send = end_send};
    static struct fi_ops_rma accesses = {
        .size = sizeof accesses, .writemsg = end_write, .readmsg = end_read};
    static struct fi_ops_mr memory = {.size = sizeof memory, .reg = end_register};
    static char name[] = "lo", provider[] = "tcp";
    static struct fi_domain_attr domain_attr = {.name = name};
    static struct fi_fabric_attr fabric_attr = {.prov_name = provider};
    static struct fi_rx_attr receives = {.size = 0}; /* A peer that is begun adds no receive. */
    static struct fi_info info = {
        .domain_attr = &domain_attr, .fabric_attr = &fabric_attr, .rx_attr = &receives};
    static const struct fabric lib = {.strerror = end_strerror};
    memset(end, 0, sizeof *end);
    end_here = end;
    domain_attr.mr_key_size = key_bytes;
    for (int i = 0; i < END_HEAP_BYTES; i++)
        end->heap[i] = (unsigned char)(i * 7 + 1);
    end->map[0][SEG_HEAP] = (char *)end->heap;
    end->world = (struct path_world){.npes = END_PES, .map = end->map, .wait_end = end_wait};
    end->world.sizes[SEG_HEAP] = END_HEAP_BYTES;
    end->net = (struct path_common){.world = &end->world,
                                    .lib = &lib,
                                    .provider = "tcp",
                                    .rail_count = END_RAILS,
                                    .peers = end->peers,
                                    .progress.wake_descriptor = -1};
    end->net.sends.blocked_end = &end->net.sends.blocked;
    end->net.incomplete_end = &end->net.incomplete;
    /* One NIC and one peer more than the counts say: a test fails if code counts too far. */
    for (int i = 0; i <= END_RAILS; i++) {
        end->domains[i].mr = &memory;
        end->endpoints[i] =
            (struct fid_ep){.fid.ops = &end_endpoint_ops, .msg = &messages, .rma = &accesses};
        end->net.rails[i] = (struct net_rail){.info = &info,
                                              .domain = &end->domains[i],
                                              .endpoint = &end->endpoints[i],
                                              .wait_descriptor = -1};
    }
    for (int pe = 0; pe <= END_PES; pe++) {
        end->peers[pe].pe = pe;
        for (int i = 0; i <= END_RAILS; i++) {
            end->peers[pe].rails.peers[i] = (uint8_t)i;
            end->peers[pe].rails.address[i] = end_address(pe, i);
        }
    }
    memcpy(end->net.start.key, key, SIPHASH_KEY_BYTES);
    for (int pe = 0; pe < END_PES; pe++)
        net_derive_session(&end->net, &end->peers[pe]);
    serve_open(&end->world, &end->net.serve);
    end->state =
        (struct net_state){.net = &end->net, .channels = end->channels, .touched = end->touched};
    for (int i = 0; i < END_RECEIVES; i++)
        net_post_receive(&end->net, 0, net_alloc_message(&end->net));
    for (int pe = 1; pe < END_PES; pe++)
        for (int i = 0; i < END_REQUESTS; i++) {
            struct net_record *record;
            net_add_request(&end->state, &end->peers[pe], 8, &record);
            *record = (struct net_record){.kind = NET_STORE, .segment = SEG_HEAP, .bytes = 8};
            memset(net_payload(record), 0, 8);
            net_flush_requests(&end->net, &end->peers[pe], false);
        }
    net_new_answer_token(&end->state, &end->peers[1], end->answer, END_ANSWER_BYTES, &end->token);
    end_sends_complete(end);
}

/* Receives a message of `count` bytes over the first NIC, then sends answers and retries sends
 * until none is left. */
static inline void end_feed(struct net_end *end, const void *bytes, size_t count)
{
    struct net_message *message = end->posted[--end->posted_count];
    memcpy(message->bytes, bytes, count);
    net_message_received(&end->net, message, count, FI_ADDR_NOTAVAIL);
    for (int i = 0; i < 1000 && (end->net.sends.to_answer || end->net.sends.blocked); i++) {
        end_sends_complete(end);
        net_send_answers(&end->net);
        net_retry_sends(&end->net);
    }
    end_sends_complete(end);
    if (end->posted_count != END_RECEIVES && !end->net.failed)
        abort();
}

/* Opens an end with nothing in flight: the answers that end_open() requested are cancelled, and
 * peers have executed all requests. */
static inline void end_open_idle(struct net_end *end, const uint8_t key[SIPHASH_KEY_BYTES])
{
    end_open(end, key, 8);
    net_cancel_answer(&end->net, end->token);
    for (int pe = 1; pe < END_PES; pe++) {
        net_drop_unacknowledged(&end->net, &end->peers[pe]);
        end->peers[pe].requests.acknowledged = end->peers[pe].requests.ack_requested = END_REQUESTS;
        end->channels[pe] = (struct net_channel){0};
    }
}

static void end_shut(struct net_end *end)
{
    for (int pe = 0; pe < END_PES; pe++)
        net_drop_unacknowledged(&end->net, &end->peers[pe]);
    net_stripe_close(&end->net);
    net_stage_free(&end->net);
    for (int i = 0; i < END_RAILS; i++)
        net_free_rail_memory(&end->net, &end->net.rails[i]);
    net_free_regions(&end->net);
    net_free_memory(&end->net);
    serve_close(end->net.serve);
    free(end->net.pending.answers);
}

#endif
