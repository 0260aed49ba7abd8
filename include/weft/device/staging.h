/* SPDX-License-Identifier: Apache-2.0 */
/* The packet staging buffer of a team (state.h): its slots, the sequence numbers of its rounds, and
 * waiting for a packet. Also the round in which members exchange two words each, which checking
 * mode uses to compare calls. Knows nothing else of the contents of packets; reduce.h sends its
 * elements in them.
 *
 * A packet carries its sequence number, so there is neither fence nor sync: it takes the latency of
 * the link once. The staging buffer has two sets of slots, used in turn. A member that sends in
 * round r must know that no PE still reads the contents of this set, which are of round r - 2 or
 * earlier. In most rounds all members send to all; in some (reduce) all send to one, the root,
 * and no other member waits.
 *
 *   Round r - 1 was to all: this member has a packet of it from every other member, sent when all
 *     threads of that member had ended round r - 2. The same holds where round r - 1 was to this
 *     member.
 *   Rounds r - 1 and r - 2 were each to one root: only the root of r - 2 has read anything of r -
 *     2. It sets a flag at the others when all its threads have ended that round, and this member
 *     waits for the flag. By then the root had packets from all members, sent when their senders
 *     had ended round r - 3: so no PE reads an older packet of this set.
 *   Round r - 1 was to one root, r - 2 to all: the flag of the root of r - 1 says that it has
 *     packets of r - 1 from all, so that all have ended r - 2. This member waits for that flag.
 *
 * A root is therefore at most two rounds late, and a member that repeatedly sends to one root waits
 * for a flag that was set a round ago. At the end of a round to one root, weft_dev_rooted_end()
 * stores which flag gates the reuse of the slots; other rounds pay one comparison for this. The
 * flags are those of data collectives, whose sequence numbers only grow. Litmus tests allreduce and
 * rooted; tests/model/room.pml.
 *
 * No member sends to a PE's own slot in its own staging buffer: a team over other paths combines
 * its fragments there. */
#ifndef WEFT_DEVICE_STAGING_H
#define WEFT_DEVICE_STAGING_H

#include <weft/device/collective.h>
#include <weft/device/packet.h>

enum {
    WEFT_DEV_NUMBER_BIT = 0x40000000, /* set in all sequence numbers, so that none is 0, the
                                         value in a new buffer */
    WEFT_DEV_RENEW_MASK = 0x1fffffff, /* bits of the round number, see weft_dev_renews() */
};

/* Location of the packets of a round. */
struct weft_dev_staging {
    uint64_t offset; /* offset of this round's set from the start of the areas, in bytes */
    uint32_t slot;   /* size of a slot in bytes */
    uint32_t number;
};

/* Largest payload of a slot of the team, in bytes. */
WEFT_DEVICE size_t weft_dev_staging_payload(int team)
{
    return weft_dev_state.slot_bytes[team >= WEFT_DEV_WIDE_TEAMS] / 2;
}

WEFT_DEVICE struct weft_dev_staging weft_dev_staging_of(int team, uint64_t round)
{
    struct weft_dev_staging staging;
    int narrow = team >= WEFT_DEV_WIDE_TEAMS;
    uint64_t slots = 2 * (uint64_t)(uint32_t)weft_dev_state.n_pes;
    staging.slot = weft_dev_state.slot_bytes[narrow];
    staging.offset = weft_dev_state.rooms + (uint64_t)(uint32_t)team * slots * staging.slot;
    if (narrow)
        staging.offset +=
            WEFT_DEV_WIDE_TEAMS * slots * (weft_dev_state.slot_bytes[0] - staging.slot);
    if (round & 1)
        staging.offset += slots / 2 * staging.slot;
    staging.number = ((uint32_t)round & (WEFT_DEV_NUMBER_BIT - 1)) | WEFT_DEV_NUMBER_BIT;
    return staging;
}

/* Address of member `member`'s slot in this PE's staging buffer. */
WEFT_DEVICE char *weft_dev_staging_slot(const struct weft_dev_staging *staging, int member)
{
    return (char *)(uintptr_t)(weft_dev_state.segment[WEFT_DEV_AREAS].base + staging->offset +
                               (uint64_t)(uint32_t)member * staging->slot);
}

/* Whether this round sends whole slots. Sequence numbers repeat after 2^30 rounds, and a packet
 * that has not been written since would look new. Two rounds of every 2^29, one for each set,
 * therefore write all packets. */
WEFT_DEVICE int weft_dev_renews(uint64_t round)
{
    return (round & WEFT_DEV_RENEW_MASK) < 2;
}

/* Polls until the packet at `at` has the sequence number. Not inlined, because a waiting thread has
 * time and the code around it needs the registers. Arguments are passed by value, because a
 * structure whose address is taken would be kept in memory. */
WEFT_DEVICE_NOINLINE int weft_dev_slot_wait(int operation, int team, int member, const char *at,
                                            uint32_t number)
{
    struct weft_dev_members m = weft_dev_members_of(team);
    struct weft_dev_vec16 v;
    uint32_t polls = 0;
    struct weft_dev_patience p;
    struct weft_dev_awaited what =
        weft_dev_awaited_of(operation, weft_dev_member_pe(&m, member), team, at, WEFT_EQ, number);
    int status = WEFT_OK;
    while (!status) {
        v = weft_dev_load_vec16_relaxed(at);
        if (weft_dev_packet_ready(v, number))
            break;
        status = weft_dev_patience_step(&p, what, &polls, v.lo >> 32);
    }
    weft_dev_patience_end(&p, polls);
    return status;
}

/* Waits at the reuse gate before this member sends in round `number`, which follows a round to one
 * root. Not inlined, as weft_dev_slot_wait(). */
WEFT_DEVICE_NOINLINE int weft_dev_gate_wait(int operation, int team, uint64_t number)
{
    struct weft_dev_group g;
    g.m = weft_dev_members_of(team);
    g.operation = operation;
    const struct weft_dev_area *own = weft_dev_own_area(&g);
    int by = (int)weft_dev_load_u64(&own->gate_by[number & 1], WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    g.number = weft_dev_load_u64(&own->gate[number & 1], WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    return weft_dev_flag_await(&g, &own->flags[weft_dev_state.n_pes + by], by);
}

/* Called by each thread that sends in round g->number; `rooted` is the field of this PE's area. */
WEFT_DEVICE int weft_dev_set_await(const struct weft_dev_group *g, uint64_t rooted)
{
    if (WEFT_DEV_LIKELY(rooted + 1 != g->number))
        return WEFT_OK;
    return weft_dev_gate_wait(g->operation, g->m.number, g->number);
}

WEFT_DEVICE void weft_dev_owe(struct weft_dev_area *own, uint64_t round, uint64_t flag, int by)
{
    weft_dev_store_u64(&own->gate[round & 1], flag, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    weft_dev_store_u64(&own->gate_by[round & 1], (uint64_t)by, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
}

/* Ends round g->number, which was to `root`; the root sets its flag to `flag` at its end. One
 * thread calls it, after the other threads of the round have read the area. It stores the reuse
 * gate of the round after the next. The next round gets the same gate when the previous round was
 * to all; otherwise it keeps the stored gate. A root has packets from all members, and waits for
 * nothing. */
WEFT_DEVICE void weft_dev_rooted_end(const struct weft_dev_group *g, struct weft_dev_area *own,
                                     int root, uint64_t flag)
{
    uint64_t before = weft_dev_load_u64(&own->rooted, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    int is_root = g->m.me == root;
    weft_dev_owe(own, g->number, is_root ? 0 : flag, root);
    if (is_root || before + 1 != g->number)
        weft_dev_owe(own, g->number + 1, is_root ? 0 : flag, root);
    weft_dev_store_u64(&own->rooted, g->number, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    weft_dev_store_u64(&own->phases, flag, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
}

/* Whether all members can load and store each other's memory; the same answer at every member. */
WEFT_DEVICE int weft_dev_team_all_direct(int team)
{
    return WEFT_DEV_LIKELY(weft_dev_state.all_direct) || weft_dev_state.teams[team].all_direct;
}

/* ---------------------------------------------------------------------------------- exchange
 *
 * Each member sends two words to every other member: sizes that the others do not know, addresses
 * for their blocks, factors. The words can be read until this PE begins another round of the
 * team. */
struct weft_dev_words {
    uint64_t word[2];           /* the same words for all members, when `at` is NULL */
    const uint64_t *at, *bytes; /* per member: words at[i] and bytes[i]; bytes[i] is replaced by
                                   0 when the block exceeds `end` */
    uint64_t end;               /* end of the receive buffer */
};

WEFT_DEVICE struct weft_dev_words weft_dev_words_of(uint64_t first, uint64_t second)
{
    struct weft_dev_words words = {{first, second}, NULL, NULL, 0};
    return words;
}

WEFT_DEVICE uint64_t weft_dev_word_for(const struct weft_dev_words *words, int member, int k)
{
    if (!words->at)
        return words->word[k];
    uint64_t at = words->at[member], bytes = words->bytes[member];
    return k == 0 ? at : at <= words->end && bytes <= words->end - at ? bytes : 0;
}

/* Called by one thread: sends packet k to this member's slot at `member`. Without a direct address
 * it sends two words, each with the sequence number. */
WEFT_DEVICE void weft_dev_send_packet(const struct weft_dev_group *g,
                                      const struct weft_dev_staging *staging, int member, int k,
                                      uint64_t value)
{
    int pe = weft_dev_member_pe(&g->m, member);
    uint64_t part = weft_dev_part(WEFT_DEV_AREAS, pe);
    uint64_t place =
        staging->offset + (uint64_t)(uint32_t)g->m.me * staging->slot + 16 * (uint64_t)k;
    if (WEFT_DEV_LIKELY(part != 0)) {
        weft_dev_packet_store((char *)(uintptr_t)(part + place), value, staging->number);
        return;
    }
    char *own = (char *)(uintptr_t)(weft_dev_state.segment[WEFT_DEV_AREAS].base + place);
    uint64_t number = (uint64_t)staging->number << 32;
    WEFT_DEV_CALL_RARELY(weft_dev_remote_word, WEFT_DEV_OP_FLAG, 0, own, 8,
                         (value & 0xffffffffu) | number, 0, pe);
    WEFT_DEV_CALL_RARELY(weft_dev_remote_word, WEFT_DEV_OP_FLAG, 0, own + 8, 8,
                         value >> 32 | number, 0, pe);
}

/* Sends two packets to each other member, and the rest of its slot where the round renews it. */
WEFT_DEVICE void weft_dev_send_packets(const struct weft_dev_group *g,
                                       const struct weft_dev_staging *staging,
                                       const struct weft_dev_words *words)
{
    int renewed = weft_dev_renews(g->number) && weft_dev_team_all_direct(g->m.number)
                      ? (int)(staging->slot / 16)
                      : 2;
    for (int i = (int)g->rank; i < g->m.n - 1; i += (int)g->threads) {
        int member = weft_dev_next_member(g, i);
        for (int k = 0; k < renewed; k++)
            weft_dev_send_packet(g, staging, member, k,
                                 k < 2 ? weft_dev_word_for(words, member, k) : 0);
    }
}

/* Exchange of words. The same scope of every member calls it with checked arguments; it returns
 * when the words of all other members have arrived. */
WEFT_DEVICE_NOINLINE int weft_dev_exchange_words(int scope, int team, int operation,
                                                 struct weft_dev_words words)
{
    struct weft_dev_group g;
    int status = weft_dev_group_begin(&g, scope, team, operation);
    if (status)
        return status;
    struct weft_dev_area *own = weft_dev_own_area(&g);
    g.number = weft_dev_load_u64(&own->packets, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU) + 1;
    uint64_t rooted = weft_dev_load_u64(&own->rooted, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    struct weft_dev_staging staging = weft_dev_staging_of(team, g.number);
    weft_dev_scope_sync(scope); /* all threads have read the count and the words of the previous
                                   exchange */
    status = weft_dev_set_await(&g, rooted);
    if (!status)
        weft_dev_send_packets(&g, &staging, &words);
    for (int i = (int)g.rank; i < g.m.n && !status; i += (int)g.threads)
        for (int k = 0; k < 2 && !status && i != g.m.me; k++)
            status = weft_dev_slot_wait(
                operation, team, i, weft_dev_staging_slot(&staging, i) + 16 * k, staging.number);
    return weft_dev_group_end(&g, &own->packets, status);
}

/* The staging buffer of the last exchange. */
WEFT_DEVICE struct weft_dev_staging weft_dev_word_staging(const struct weft_dev_group *g)
{
    return weft_dev_staging_of(g->m.number, weft_dev_load_u64(&weft_dev_own_area(g)->packets,
                                                              WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU));
}

/* Word k of another member. */
WEFT_DEVICE uint64_t weft_dev_member_word(const struct weft_dev_staging *staging, int member, int k)
{
    return weft_dev_packet_value(
        weft_dev_load_vec16_relaxed(weft_dev_staging_slot(staging, member) + 16 * k));
}

/* --------------------------------------------------------------------------- checking mode
 *
 * The words are those of enum weft_dev_arg (state.h). The first of them are the same as in stream
 * kernels, so that the host reports both in the same way. A round carries two of them. */
WEFT_DEVICE uint64_t weft_dev_kind_of(const struct weft_dev_args *args, int members)
{
    return (uint64_t)(uint8_t)args->operation | (uint64_t)(uint8_t)args->type << 8 |
           (uint64_t)(uint8_t)args->op << 16 | (uint64_t)(uint16_t)(args->root + 1) << 24 |
           (uint64_t)(uint16_t)members << 40 | (uint64_t)args->wrong << 56 |
           (uint64_t)(args->grid != 0) << 63;
}

/* Refuses a call with an error that this member finds by itself. */
WEFT_DEVICE_NOINLINE int weft_dev_refuse_args(int team, const struct weft_dev_args *args,
                                              int record)
{
    int overlap = args->wrong == WEFT_DEV_WRONG_OVERLAP;
    int status = overlap ? WEFT_ERR_ARGUMENT : WEFT_ERR_RANGE;
    if (record) {
        weft_dev_record(WEFT_DEV_RECORD_REFUSED, args->operation, status, -1, team,
                        (const void *)(uintptr_t)args->dst, WEFT_EQ,
                        overlap ? args->src : args->dst_bytes, args->dst_bytes, args->src_bytes);
        weft_dev_fail(status);
    }
    return status;
}

/* Exchanges two words, `first` and `second` of enum weft_dev_arg, and compares all members' words.
 * Each thread compares, so that all have the same result. A member sends the code of its own error
 * to the others before it records the error. */
WEFT_DEVICE int weft_dev_compare_words(const struct weft_dev_group *g,
                                       const struct weft_dev_args *args, struct weft_dev_words own,
                                       int first, int second)
{
    int status = weft_dev_exchange_words(g->scope, g->m.number, g->operation, own);
    if (!WEFT_DEV_LIKELY(g->m.direct)) { /* transports stop when the job fails */
        weft_dev_remote_order(1);
        weft_dev_scope_sync(g->scope);
    }
    if (status || args->wrong)
        return status ? status : weft_dev_refuse_args(g->m.number, args, g->rank == 0);
    struct weft_dev_staging staging = weft_dev_word_staging(g);
    for (int i = 0; i < 2 * g->m.n; i++) {
        int member = i >> 1, k = i & 1;
        uint64_t theirs =
            member == g->m.me ? own.word[k] : weft_dev_member_word(&staging, member, k);
        if (theirs == own.word[k])
            continue;
        if (g->rank == 0) {
            weft_dev_record(WEFT_DEV_RECORD_REFUSED, g->operation, WEFT_ERR_MISMATCH,
                            weft_dev_member_pe(&g->m, member), g->m.number,
                            (const void *)(uintptr_t)(k ? second : first), 0, own.word[k], theirs,
                            0);
            weft_dev_fail(WEFT_ERR_MISMATCH);
        }
        return WEFT_ERR_MISMATCH;
    }
    return WEFT_OK;
}

/* Whether there is a third round; depends on arguments that the other rounds have found equal. */
WEFT_DEVICE int weft_dev_has_more(const struct weft_dev_args *args)
{
    return args->operation == WEFT_DEV_OP_ALLREDUCE ||
           args->operation == WEFT_DEV_OP_REDUCESCATTER ||
           (args->operation == WEFT_DEV_OP_ALLTOALL && args->detail);
}

/* All threads of the scope have compared before one of them begins what may be the next round. */
WEFT_DEVICE_NOINLINE int weft_dev_compare_args(int scope, int team, struct weft_dev_args args)
{
    struct weft_dev_group g;
    int status = weft_dev_group_begin(&g, scope, team, args.operation);
    if (status)
        return status;
    args.wrong = weft_dev_args_check(&args);
    status = weft_dev_compare_words(&g, &args,
                                    weft_dev_words_of(weft_dev_kind_of(&args, g.m.n), args.bytes),
                                    WEFT_DEV_ARG_KIND, WEFT_DEV_ARG_BYTES);
    if (!status)
        status = weft_dev_compare_words(&g, &args,
                                        weft_dev_words_of(args.detail, weft_dev_arg_place(args.to)),
                                        WEFT_DEV_ARG_DETAIL, WEFT_DEV_ARG_TO);
    if (!status && weft_dev_has_more(&args))
        status = weft_dev_compare_words(
            &g, &args, weft_dev_words_of(weft_dev_arg_place(args.from), args.element),
            WEFT_DEV_ARG_FROM, WEFT_DEV_ARG_ELEMENT);
    weft_dev_scope_sync(scope);
    return status;
}

#endif
