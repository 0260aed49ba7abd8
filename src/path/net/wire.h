/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of path net as they go over: a head, then records, each with what belongs to its
 * kind and its data. */
#ifndef WEFT_PATH_NET_WIRE_H
#define WEFT_PATH_NET_WIRE_H

#include <stdint.h>

enum net_flag {
    NET_ACK_REQUEST = 1, /* the receiver shall tell when it has carried this out */
    NET_FLUSH_GPU = 2,   /* the sender's NIC has written into GPU memory of the receiver */
    NET_ANSWERS = 4      /* numbered by themselves */
};

/* In front of each message. The receiver believes no other field before the word is that of the
 * sender. Numbers begin at a random one for each ordered pair of PEs, requests and answers apart
 * (struct net_line). */
struct net_head {
    uint64_t auth_word;
    uint64_t sequence; /* a probe has the number in front of the first */
    uint64_t handled;  /* the sender has carried out the receiver's requests up to this one, */
    uint64_t answers_received; /* and has its answers up to this one */
    int32_t from;
    uint16_t bytes; /* of the whole message: as many as came */
    uint16_t flags; /* enum net_flag */
};

enum net_kind {
    NET_PUT = 1,   /* data */
    NET_STORE,     /* one value, by one access */
    NET_ATOMIC,    /* struct net_atomic */
    NET_GET,       /* struct net_wanted */
    NET_KEY,       /* struct net_wanted; offset: number of the chunk; a struct net_key comes back as
                    * data */
    NET_RAIL_KEYS, /* likewise; the answer is data: struct net_key for each rail of the owner */
    NET_GPU_REGION,     /* struct net_wanted; a struct net_place comes back as data */
    NET_STAGING_BUFFER, /* struct net_wanted: a room of so many bytes for the sender; likewise */
    NET_SLOT_PUT,       /* struct net_lot: a put, whose data are in the sender's room */
    NET_SLOT_GET,       /* struct net_lot: a get, whose data go into it */
    NET_DATA,           /* answers: struct net_result, data */
    NET_SLOT_READY,     /* struct net_result */
    NET_CONTROL,        /* struct net_note */
};

/* In front of each record, at a multiple of 8 bytes. */
struct net_record {
    uint8_t kind, segment, amo, width;
    uint32_t bytes; /* of data behind what belongs to the kind */
    uint64_t offset;
};

struct net_atomic {
    uint64_t value, expected, token; /* token 0: no answer is wanted */
};

struct net_query {
    uint64_t token;
    uint32_t bytes, pad;
};

/* A part of a room. */
struct net_slot {
    uint64_t token; /* of a lift: comes back with the answer */
    uint64_t offset;
    uint32_t bytes;
    int32_t status; /* of a lift; the owner's own note */
};

struct net_result {
    uint64_t token;
    uint32_t offset; /* of these data in the whole answer */
    int32_t status;  /* weft_status of the owner */
};

/* Between PEs that give a rail up (stripe.h). `rail`: of the PE that closes it; of the one that
 * asks. */
struct net_control {
    uint8_t kind;
    uint8_t rail;
    uint8_t pad[6];
};
enum net_control_kind {
    NET_CLOSE_RAIL = 1,
    NET_CLOSED_RAIL,
    NET_PEER_QUERY,
    NET_PEER_LIVE,
    NET_PROBE,
    NET_PROBE_REPLY
};

/* Where a chunk is, as remote accesses need it. */
struct net_key {
    uint64_t key, base;
    uint32_t known;    /* 0: it could not be registered; requests reach it */
    uint32_t answered; /* at this end: the owner has answered */
};

#endif
