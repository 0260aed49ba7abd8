/* SPDX-License-Identifier: Apache-2.0 */
/* The packet room of a team (state.h): its slots, the numbers of its rounds, and waiting for a
 * packet in it; and the round in which members tell each other two words each, by which they also
 * compare their calls in checking mode. Knows nothing of what packets carry otherwise; reduce.h
 * sends its elements in them.
 *
 * A packet carries its number, so there is neither fence nor sync: one trip over the link. The room
 * has two sets of slots, used in turn, and who sends in round r has to know that nobody still reads
 * what stands in this set, of round r - 2 or before. In most rounds all send to all; in some
 * (reduce_to) all send to one, the root, and nobody else waits for anything.
 *
 *   Round r - 1 was to all: this member has had a packet of it from every other, sent when all
 *     threads of that one had ended round r - 2. So it is, too, where round r - 1 was to this
 *     member.
 *   Rounds r - 1 and r - 2 were to one each: of r - 2 its root alone has read anything. It sets a
 *     flag at the others when all of its threads have ended that round, and this member waits for
 *     the flag. The root had heard from all by then, packets that were sent when their senders had
 *     ended round r - 3: so nobody reads an older one of this set.
 *   Round r - 1 was to one, r - 2 to all: the flag of the root of r - 1 says that it has heard from
 *     all in r - 1, so that all have ended r - 2. This member waits for that.
 *
 * So a root is two rounds late at most, and who sends on and on to one root waits for a flag that
 * was set a round ago. What is to be awaited is noted when a round to one ends
 * (weft_dev_rooted_end()), which is all that such rounds cost others: one comparison. The flags are
 * those of data collectives, whose numbers only grow. Litmus tests reduce and rooted;
 * tests/model/room.pml.
 *
 * The own slot of the own room nobody sends to: what a team over other paths combines stands
 * there. */
#ifndef WEFT_DEVICE_ROOM_H
#define WEFT_DEVICE_ROOM_H

#include <weft/device/collective.h>
#include <weft/device/packet.h>

enum {
    WEFT_DEV_NUMBER_BIT = 0x40000000, /* numbers have it: never 0, as in a new room */
    WEFT_DEV_RENEW_MASK = 0x1fffffff, /* of rounds, see weft_dev_renews() */
};

/* Where the packets of a round are. */
struct weft_dev_room {
    uint64_t offset; /* of this round's set, from the start of the areas */
    uint32_t slot;   /* bytes */
    uint32_t number;
};

/* Payload bytes that a slot of the team takes. */
WEFT_DEVICE size_t weft_dev_room_payload(int team)
{
    return weft_dev_state.slot_bytes[team >= WEFT_DEV_WIDE_TEAMS] / 2;
}

WEFT_DEVICE struct weft_dev_room weft_dev_room_of(int team, uint64_t round)
{
    struct weft_dev_room room;
    int narrow = team >= WEFT_DEV_WIDE_TEAMS;
    uint64_t slots = 2 * (uint64_t)(uint32_t)weft_dev_state.n_pes;
    room.slot = weft_dev_state.slot_bytes[narrow];
    room.offset = weft_dev_state.rooms + (uint64_t)(uint32_t)team * slots * room.slot;
    if (narrow)
        room.offset += WEFT_DEV_WIDE_TEAMS * slots * (weft_dev_state.slot_bytes[0] - room.slot);
    if (round & 1)
        room.offset += slots / 2 * room.slot;
    room.number = ((uint32_t)round & (WEFT_DEV_NUMBER_BIT - 1)) | WEFT_DEV_NUMBER_BIT;
    return room;
}

/* Slot `member` of the own room. */
WEFT_DEVICE char *weft_dev_room_slot(const struct weft_dev_room *room, int member)
{
    return (char *)(uintptr_t)(weft_dev_state.segment[WEFT_DEV_AREAS].base + room->offset +
                               (uint64_t)(uint32_t)member * room->slot);
}

/* Whether this round sends whole slots. Numbers come again after 2^30 rounds, and a packet that has
 * not been written since would look new; so two rounds, one for each set, of every 2^29 write
 * all. */
WEFT_DEVICE int weft_dev_renews(uint64_t round)
{
    return (round & WEFT_DEV_RENEW_MASK) < 2;
}

/* Polls until the packet at `at` has the number. Out of line, since a thread that waits has time
 * and the code around needs the registers; with its arguments by value, since a structure whose
 * address is taken would be kept in memory. */
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

/* Before this member sends in round `number`, which is behind one to a root. Out of line, as
 * weft_dev_slot_wait(). */
WEFT_DEVICE_NOINLINE int weft_dev_owed_wait(int operation, int team, uint64_t number)
{
    struct weft_dev_group g;
    g.m = weft_dev_members_of(team);
    g.operation = operation;
    const struct weft_dev_area *own = weft_dev_own_area(&g);
    int by = (int)weft_dev_load_u64(&own->owed_by[number & 1], WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    g.number = weft_dev_load_u64(&own->owed[number & 1], WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    return weft_dev_flag_await(&g, &own->flags[weft_dev_state.n_pes + by], by);
}

/* By each thread that sends in round g->number; rooted: of the own area. */
WEFT_DEVICE int weft_dev_set_await(const struct weft_dev_group *g, uint64_t rooted)
{
    if (WEFT_DEV_LIKELY(rooted + 1 != g->number))
        return WEFT_OK;
    return weft_dev_owed_wait(g->operation, g->m.number, g->number);
}

WEFT_DEVICE void weft_dev_owe(struct weft_dev_area *own, uint64_t round, uint64_t flag, int by)
{
    weft_dev_store_u64(&own->owed[round & 1], flag, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    weft_dev_store_u64(&own->owed_by[round & 1], (uint64_t)by, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
}

/* By one thread, when the others that know of the round have read the area: round g->number was to
 * `root`, which sets its flag to `flag` when it has ended it. What is owed to the round after the
 * next; to the next one, the same where the round before was to all, else what is noted. A root has
 * heard from all, and waits for nothing. */
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

/* Whether all of the team reach each other by load and store; the same answer at every member. */
WEFT_DEVICE int weft_dev_team_all_direct(int team)
{
    return WEFT_DEV_LIKELY(weft_dev_state.all_direct) || weft_dev_state.teams[team].all_direct;
}

/* ---------------------------------------------------------------------------------- telling
 *
 * Each member tells every other two words, which stay to be read until this PE begins another round
 * of the team: sizes that the others do not know, places for their blocks, factors. */
struct weft_dev_words {
    uint64_t word[2];           /* for all alike, unless `at`: */
    const uint64_t *at, *bytes; /* by member: at[i], and bytes[i], or 0 where these do not end */
    uint64_t end;               /* by here */
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

/* By one thread: packet k of the member's slot there. To one without direct address as two words,
 * each of which carries the number. */
WEFT_DEVICE void weft_dev_tell_to(const struct weft_dev_group *g, const struct weft_dev_room *room,
                                  int member, int k, uint64_t value)
{
    int pe = weft_dev_member_pe(&g->m, member);
    uint64_t part = weft_dev_part(WEFT_DEV_AREAS, pe);
    uint64_t place = room->offset + (uint64_t)(uint32_t)g->m.me * room->slot + 16 * (uint64_t)k;
    if (WEFT_DEV_LIKELY(part != 0)) {
        weft_dev_packet_store((char *)(uintptr_t)(part + place), value, room->number);
        return;
    }
    char *own = (char *)(uintptr_t)(weft_dev_state.segment[WEFT_DEV_AREAS].base + place);
    uint64_t number = (uint64_t)room->number << 32;
    weft_dev_remote_word(WEFT_DEV_OP_FLAG, 0, own, 8, (value & 0xffffffffu) | number, 0, pe);
    weft_dev_remote_word(WEFT_DEV_OP_FLAG, 0, own + 8, 8, value >> 32 | number, 0, pe);
}

/* Two packets to each other member, and the rest of its slot where the round renews it. */
WEFT_DEVICE void weft_dev_tell_all(const struct weft_dev_group *g, const struct weft_dev_room *room,
                                   const struct weft_dev_words *words)
{
    int renewed = weft_dev_renews(g->number) && weft_dev_team_all_direct(g->m.number)
                      ? (int)(room->slot / 16)
                      : 2;
    for (int i = (int)g->rank; i < g->m.n - 1; i += (int)g->threads) {
        int member = weft_dev_turned_member(g, i);
        for (int k = 0; k < renewed; k++)
            weft_dev_tell_to(g, room, member, k, k < 2 ? weft_dev_word_for(words, member, k) : 0);
    }
}

/* Called by a scope, all members alike, with arguments that have been checked; returns when all
 * others have told. */
WEFT_DEVICE_NOINLINE int weft_dev_tell(int scope, int team, int operation,
                                       struct weft_dev_words words)
{
    struct weft_dev_group g;
    int status = weft_dev_group_begin(&g, scope, team, operation);
    if (status)
        return status;
    struct weft_dev_area *own = weft_dev_own_area(&g);
    g.number = weft_dev_load_u64(&own->packets, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU) + 1;
    uint64_t rooted = weft_dev_load_u64(&own->rooted, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    struct weft_dev_room room = weft_dev_room_of(team, g.number);
    weft_dev_scope_sync(scope); /* all have read the count, and what they were told before */
    status = weft_dev_set_await(&g, rooted);
    if (!status)
        weft_dev_tell_all(&g, &room, &words);
    for (int i = (int)g.rank; i < g.m.n && !status; i += (int)g.threads)
        for (int k = 0; k < 2 && !status && i != g.m.me; k++)
            status = weft_dev_slot_wait(operation, team, i, weft_dev_room_slot(&room, i) + 16 * k,
                                        room.number);
    return weft_dev_group_end(&g, &own->packets, status);
}

/* Of the round in which the members have told each other last. */
WEFT_DEVICE struct weft_dev_room weft_dev_told_room(const struct weft_dev_group *g)
{
    return weft_dev_room_of(g->m.number, weft_dev_load_u64(&weft_dev_own_area(g)->packets,
                                                           WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU));
}

/* Word k of another member. */
WEFT_DEVICE uint64_t weft_dev_told(const struct weft_dev_room *room, int member, int k)
{
    return weft_dev_packet_value(
        weft_dev_load_vec16_relaxed(weft_dev_room_slot(room, member) + 16 * k));
}

/* --------------------------------------------------------------------------- checking mode
 *
 * Words are those of enum weft_dev_told (state.h), the first of which are as the kernels of streams
 * have them, so that the host tells of both alike. A round takes two of them. */
WEFT_DEVICE uint64_t weft_dev_kind_of(const struct weft_dev_asked *asked, int members)
{
    return (uint64_t)(uint8_t)asked->operation | (uint64_t)(uint8_t)asked->type << 8 |
           (uint64_t)(uint8_t)asked->op << 16 | (uint64_t)(uint16_t)(asked->root + 1) << 24 |
           (uint64_t)(uint16_t)members << 40 | (uint64_t)asked->wrong << 56 |
           (uint64_t)(asked->grid != 0) << 63;
}

/* What this member itself sees wrong in its call. */
WEFT_DEVICE_NOINLINE int weft_dev_refuse_asked(int team, const struct weft_dev_asked *asked,
                                               int record)
{
    int overlap = asked->wrong == WEFT_DEV_WRONG_OVERLAP;
    int status = overlap ? WEFT_ERR_ARGUMENT : WEFT_ERR_RANGE;
    if (record) {
        weft_dev_record(WEFT_DEV_RECORD_REFUSED, asked->operation, status, -1, team,
                        (const void *)(uintptr_t)asked->dst, WEFT_EQ,
                        overlap ? asked->src : asked->dst_bytes, asked->dst_bytes,
                        asked->src_bytes);
        weft_dev_fail(status);
    }
    return status;
}

/* Tells two words, which are `first` and `second` of enum weft_dev_told, and looks at all members':
 * each thread does, so that all have the same answer. What is wrong here is told to the others
 * before it is on record. */
WEFT_DEVICE int weft_dev_compare_words(const struct weft_dev_group *g,
                                       const struct weft_dev_asked *asked,
                                       struct weft_dev_words own, int first, int second)
{
    int status = weft_dev_tell(g->scope, g->m.number, g->operation, own);
    if (!WEFT_DEV_LIKELY(g->m.direct)) { /* what carries operations stops when the job fails */
        weft_dev_remote_order(1);
        weft_dev_scope_sync(g->scope);
    }
    if (status || asked->wrong)
        return status ? status : weft_dev_refuse_asked(g->m.number, asked, g->rank == 0);
    struct weft_dev_room room = weft_dev_told_room(g);
    for (int i = 0; i < 2 * g->m.n; i++) {
        int member = i >> 1, k = i & 1;
        uint64_t theirs = member == g->m.me ? own.word[k] : weft_dev_told(&room, member, k);
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

/* Whether there is a third round, by what has been found equal in the others. */
WEFT_DEVICE int weft_dev_has_more(const struct weft_dev_asked *asked)
{
    return asked->operation == WEFT_DEV_OP_REDUCE ||
           asked->operation == WEFT_DEV_OP_REDUCESCATTER ||
           (asked->operation == WEFT_DEV_OP_ALLTOALL && asked->detail);
}

/* All threads of the scope have looked before one of them goes on to what may be the next round. */
WEFT_DEVICE_NOINLINE int weft_dev_compare_asked(int scope, int team, struct weft_dev_asked asked)
{
    struct weft_dev_group g;
    int status = weft_dev_group_begin(&g, scope, team, asked.operation);
    if (status)
        return status;
    asked.wrong = weft_dev_asked_wrong(&asked);
    status = weft_dev_compare_words(&g, &asked,
                                    weft_dev_words_of(weft_dev_kind_of(&asked, g.m.n), asked.bytes),
                                    WEFT_DEV_TOLD_KIND, WEFT_DEV_TOLD_BYTES);
    if (!status)
        status = weft_dev_compare_words(
            &g, &asked, weft_dev_words_of(asked.detail, weft_dev_place_told(asked.to)),
            WEFT_DEV_TOLD_DETAIL, WEFT_DEV_TOLD_TO);
    if (!status && weft_dev_has_more(&asked))
        status = weft_dev_compare_words(
            &g, &asked, weft_dev_words_of(weft_dev_place_told(asked.from), asked.element),
            WEFT_DEV_TOLD_FROM, WEFT_DEV_TOLD_ELEMENT);
    weft_dev_scope_sync(scope);
    return status;
}

#endif
