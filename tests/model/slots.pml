/* SPDX-License-Identifier: Apache-2.0 */
/* Reuse of a team's synchronisation area (src/job/team.c): destroy is a sync of the team, after
 * which each member clears its own area. A new team on the same slot begins after a collective of
 * the parent.
 *
 * Claim: clearing loses no notification of the new team, and no notification of the old team is
 * taken for one of the new team. Without the parent's collective (-DNO_PARENT) a fast member
 * notifies in an area that a slow one has not cleared yet, and the notification is lost: a
 * deadlock. */
#define N 3
#define TEAMS 2
byte flag[N * N];   /* to * N + from: the team's area */
byte parent[N * N]; /* the parent's own */

#define notify_all(area, value) \
    k = 0; \
    do \
    :: k == N -> break \
    :: k < N && k == me -> k++ \
    :: k < N && k != me -> area[k * N + me] = value; k++ \
    od

#define await_all(area, value) \
    k = 0; \
    do \
    :: k == N -> break \
    :: k < N && k == me -> k++ \
    :: k < N && k != me -> area[me * N + k] >= value; k++ \
    od

inline clear() {
    k = 0;
    do
    :: k == N -> break
    :: k < N -> flag[me * N + k] = 0; k++
    od
}

proctype member(byte me) {
    byte team = 0, k;
    do
    :: team == TEAMS -> break
    :: else ->
#ifndef NO_PARENT
        notify_all(parent, team + 1);
        await_all(parent, team + 1);
#endif
        notify_all(flag, 1); /* a sync of the team */
        await_all(flag, 1);
        notify_all(flag, 2); /* the sync in destroy */
        await_all(flag, 2);
        clear();
        team++
    od
}

init {
    atomic { run member(0); run member(1); run member(2) }
}
