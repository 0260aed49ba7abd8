/* SPDX-License-Identifier: Apache-2.0 */
/* Wire format of path net: a message is a head and records. A record is followed by the struct of
 * its kind, and then by its data. */
#ifndef WEFT_PATH_NET_WIRE_H
#define WEFT_PATH_NET_WIRE_H

#include <stdint.h>

enum net_flag {
    NET_ACK_REQUEST = 1, /* The receiver must report when it has executed this message. */
    NET_FLUSH_GPU = 2,   /* The sender's NIC has written into GPU memory of the receiver. */
    NET_ANSWERS = 4      /* The message has answers, which have their own sequence numbers. */
};

/* At the start of each message. The receiver trusts no other field before auth_word is that of the
 * sender. Sequence numbers start at a random value for each ordered pair of PEs, separately for
 * requests and answers (struct net_session). */
struct net_head {
    uint64_t auth_word;
    uint64_t sequence;         /* sequence number; a probe has the one in front of the first */
    uint64_t handled;          /* The sender has executed the receiver's requests up to this one. */
    uint64_t answers_received; /* The sender has the receiver's answers up to this one. */
    int32_t from;              /* PE of the sender */
    uint16_t bytes;            /* bytes of the whole message */
    uint16_t flags;            /* enum net_flag */
};

/* In front of an encrypted message, which its tag follows (encrypt.h). Both are authenticated. */
struct net_envelope {
    uint64_t counter; /* of the sender's messages to this receiver, from 1 */
    int32_t from;     /* PE of the sender */
    uint32_t zero;
};

/* Kinds of records, with the struct that follows each. */
enum net_kind {
    NET_PUT = 1,        /* data only */
    NET_STORE,          /* data only: one value, stored by one access */
    NET_ATOMIC,         /* struct net_atomic */
    NET_GET,            /* struct net_query */
    NET_KEY,            /* struct net_query; offset: index of the chunk; answer: struct net_key */
    NET_RAIL_KEYS,      /* the same; answer: a struct net_key for each rail of the receiver */
    NET_GPU_REGION,     /* struct net_query; answer: struct net_gpu_region */
    NET_STAGING_BUFFER, /* struct net_query: bytes of the buffer; answer: as for NET_RAIL_KEYS */
    NET_SLOT_PUT,       /* struct net_slot: the data of a put are in the receiver's slot */
    NET_SLOT_GET,       /* struct net_slot: the receiver copies the data of a get into the slot */
    NET_DATA,           /* answer: struct net_result, then data */
    NET_SLOT_READY,     /* answer to NET_SLOT_GET: struct net_result */
    NET_CONTROL,        /* struct net_control */
};

/* At the start of each record, at a multiple of 8 bytes. */
struct net_record {
    uint8_t kind, segment, amo, width;
    uint32_t bytes; /* bytes of data behind the struct of the kind */
    uint64_t offset;
};

struct net_atomic {
    uint64_t value, expected, token; /* token 0: the sender wants no answer */
};

struct net_query {
    uint64_t token;
    uint32_t bytes, pad;
};

/* A slot of a staging buffer. */
struct net_slot {
    uint64_t token;  /* of NET_SLOT_GET: returned in the answer */
    uint64_t offset; /* bytes from the start of the staging buffer */
    uint32_t bytes;
    int32_t status; /* of NET_SLOT_GET: scratch space of the receiver for its weft_status */
};

struct net_result {
    uint64_t token;
    uint32_t offset; /* bytes from the start of the whole answer */
    int32_t status;  /* weft_status of the PE that answers */
};

/* Control record about a rail (stripe.h). */
struct net_control {
    uint8_t kind;
    uint8_t rail; /* rail of the PE that closes it, or of the PE that queries its peer */
    uint8_t pad[6];
};
enum net_control_kind {
    NET_CLOSE_RAIL = 1, /* Close this rail of yours. */
    NET_CLOSED_RAIL,    /* I have closed this rail of mine. */
    NET_PEER_QUERY,     /* Are you live? Sent over the rail that carries messages. */
    NET_PEER_LIVE,      /* answer to NET_PEER_QUERY */
    NET_PROBE, /* the same question over the rail that is in doubt, without a sequence number */
    NET_PROBE_REPLY /* answer to NET_PROBE over the same rail */
};

/* Address and key of a chunk for RMA operations. */
struct net_key {
    uint64_t key, base;
    uint32_t known;    /* 0: the NIC does not reach the chunk; requests do */
    uint32_t answered; /* at the PE that asked: the owner has answered */
};

#endif
