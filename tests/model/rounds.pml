/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds of src/gpu/coll/kernels.cu in any mixture: exchanges and broadcasts by LL packets in two
 * slot sets used in turn, exchanges by LL128 lines in two other sets, simple rounds with flags, and
 * rounds of one block in which members only synchronize, before and after copies. A kernel has B
 * blocks, each of which works with the block of the same number at the other members. Kernels of a
 * member run one after the other. RESIDENT blocks of a kernel run at a time, in any order, and the
 * ticket that a block draws is its number.
 *
 * Claims: no packet is overwritten before it was taken; each member takes the packets of the round;
 * a simple store or a copy begins only after the destination's round has begun; no process waits
 * forever.
 *
 * A claim fails
 *   - without the wait for free slots (-DNO_WAIT: a root overruns its receivers),
 *   - without `here` of members that only receive (-DNO_HERE: the root waits forever),
 *   - with a root that treats a broadcast as an exchange (-DBEGUN_BY_ROOT),
 *   - with one set (-DSETS=1),
 *   - without the wait of a synchronization (-DNO_MEETING),
 *   - with lines in the sets of packets (-DSHARED_SETS: payload of a line is where a packet has its
 *     number, and looks like a later number),
 *   - if a block of the next kernel starts before the others have ended the round
 *     (-DNO_KERNEL_END),
 *   - if the number of a block is its index in the grid (-DBY_PLACE: members wait for blocks of
 *     each other that do not run). */
#ifndef N
#define N 3
#endif
#ifndef B
#define B 1
#endif
#ifndef RESIDENT
#define RESIDENT B
#endif
#ifndef SETS
#define SETS 2
#endif
#ifndef CALLS
#define CALLS 3
#endif
#define EXCHANGE 0 /* otherwise: broadcast from member program - 1, or one of the following */
#define DIRECT (N + 1)
#define MEET (N + 2)
#define LINES (N + 3)
#define ALL_SLOTS (N * N * SETS * B) /* of packets; the slots of lines follow */
#define SLOT(to, from, set, b) (((to) * N + (from)) * SETS + (set)) * B + (b) + lines * ALL_SLOTS

byte slot[2 * ALL_SLOTS];  /* sequence number of the packet or line in the slot */
byte taken[2 * ALL_SLOTS]; /* sequence number of the last one taken */
byte here[N * N];             /* to * N + from */
byte done[N * N * B];
byte begun[N];
byte ended[N]; /* number of blocks that have ended, over all rounds */
byte tickets[N];
byte running[N];
byte program[CALLS + 1];

inline tell_here() {
    k = 0;
    do
    :: k == N -> break
    :: k < N && k == me -> k++
    :: k < N && k != me -> here[k * N + me] = r; k++
    od
}

inline await_here(number) {
    k = 0;
    do
    :: k == N -> break
    :: k < N && k == me -> k++
    :: k < N && k != me -> here[me * N + k] >= number; k++
    od
}

inline await_slots() {
#ifndef NO_WAIT
    if
    :: begun[me] + 1 < r -> await_here(r - 1)
    :: else
    fi
#else
    skip
#endif
}

inline send_all() {
    k = 0;
    do
    :: k == N -> break
    :: k < N && k == me -> k++
    :: k < N && k != me ->
        atomic {
            assert(slot[SLOT(k, me, r % SETS, b)] == taken[SLOT(k, me, r % SETS, b)]);
            slot[SLOT(k, me, r % SETS, b)] = r;
#ifdef SHARED_SETS
            if
            :: lines ->
                slot[SLOT(k, me, r % SETS, b) - ALL_SLOTS] = r + SETS;
                taken[SLOT(k, me, r % SETS, b) - ALL_SLOTS] = r + SETS
            :: else
            fi
#endif
        };
        k++
    od
}

inline take(from) {
    atomic {
        slot[SLOT(me, from, r % SETS, b)] == r;
        assert(ended[from] >= B * (r - 1)); /* the packet was sent in this round */
        taken[SLOT(me, from, r % SETS, b)] = r
    }
}

inline take_all() {
    k = 0;
    do
    :: k == N -> break
    :: k < N && k == me -> k++
    :: k < N && k != me -> take(k); k++
    od
}

inline direct() {
    if
    :: b == 0 -> tell_here()
    :: else
    fi;
    await_here(r);
    k = 0;
    do
    :: k == N -> break
    :: k < N && k == me -> k++
    :: k < N && k != me ->
        assert(ended[k] >= B * (r - 1)); /* earlier kernels of that member no longer use the destination */
        done[(k * N + me) * B + b] = r;
        k++
    od;
    k = 0;
    do
    :: k == N -> break
    :: k < N && k == me -> k++
    :: k < N && k != me -> done[(me * N + k) * B + b] >= r; k++
    od
}

inline meet() {
    if
    :: b == 0 ->
        tell_here();
#ifndef NO_MEETING
        await_here(r);
#endif
        k = 0; /* the copies after the synchronization */
        do
        :: k == N -> break
        :: k < N -> assert(ended[k] >= B * (r - 1)); k++
        od
    :: else
    fi
}

inline set_begun() {
    if
    :: b == 0 -> begun[me] = r
    :: else
    fi
}

proctype block(byte me, place) {
    byte r = 1, k, b;
    bit lines;
    do
    :: r > CALLS -> break
    :: else ->
#ifndef NO_KERNEL_END
        ended[me] >= B * (r - 1);
#endif
        atomic {
            running[me] < RESIDENT -> running[me]++;
#ifdef BY_PLACE
            b = place
#else
            b = tickets[me] % B
#endif
            ;
            tickets[me]++
        };
        if
        :: program[r] == EXCHANGE || program[r] == LINES ->
            lines = program[r] == LINES;
            await_slots();
            send_all();
            take_all();
            set_begun();
            lines = 0
        :: program[r] == DIRECT -> direct()
        :: program[r] == MEET -> meet()
        :: else ->
            if
#ifndef NO_HERE
            :: b == 0 -> tell_here()
#endif
            :: else
            fi;
            if
            :: program[r] == me + 1 ->
                await_slots();
                send_all();
#ifdef BEGUN_BY_ROOT
                set_begun()
#endif
            :: else -> take(program[r] - 1)
            fi
        fi;
        ended[me]++;
        running[me]--;
        r++
    od
}

init {
    byte i = 1, j;
    do
    :: i > CALLS -> break
    :: else ->
        if
        :: program[i] = EXCHANGE
        :: program[i] = 1
        :: program[i] = 2
        :: program[i] = DIRECT
        :: program[i] = MEET
        :: program[i] = LINES
        fi;
        i++
    od;
    atomic {
        i = 0;
        do
        :: i == N -> break
        :: else ->
            j = 0;
            do
            :: j == B -> break
            :: else -> run block(i, j); j++
            od;
            i++
        od
    }
}
