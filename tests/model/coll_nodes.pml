/* SPDX-License-Identifier: Apache-2.0 */
/* A reduction of GPU memory passes from node to node, and its results return (run_step() in
 * src/ops/coll/nodes_fold.c). The owner of each node takes the same steps: in step s it puts the
 * result of chunk s - 2 (last node - i), which is in its destination by then, to the node before; and
 * it combines chunk s with what is in a slot, two in turn, and puts that into a slot of the next
 * node. The last node combines first. A put arrives at any time until it is completed. Then the owner sets a flag at the next
 * node, and one at the node before.
 *
 * Claim: each slot has the chunk of the step when it is read, each result is there when it is passed
 * back, and in the end all owners have all results. It fails with one slot (-DONE_SLOT), if a node
 * does not wait for the next one (-DNO_WAIT), if results are passed back too early (-DEARLY), and if
 * puts are not completed before the flags (-DNO_QUIET). */
#define NODES  3
#define CHUNKS 5
#define LAST   (NODES - 1)
#ifdef ONE_SLOT
#define SLOT(step) 0
#else
#define SLOT(step) (step % 2)
#endif
#ifdef EARLY
#define BEHIND(i) (LAST - i)
#else
#define BEHIND(i) (2 * (LAST - i))
#endif
#define AT(i, k) ((i) * 8 + (k)) /* element k of node i */

byte in[NODES * 8], out[NODES * 8]; /* slots: number of the chunk + 1 */
bool result[NODES * 8];             /* the destination has the result of a chunk */
byte before[NODES], next[NODES];    /* flags: steps that the node before, and the next, have ended */
bool forward[NODES], back[NODES];   /* puts under way, and their slot or chunk */
byte forward_at[NODES], back_at[NODES];

proctype network(byte i) {
end:
    do
    :: forward[i] -> atomic {
        in[AT(i + 1, forward_at[i])] = out[AT(i, forward_at[i])];
        forward[i] = false
    }
    :: back[i] -> atomic {
        result[AT(i - 1, back_at[i])] = result[AT(i, back_at[i])];
        back[i] = false
    }
    od
}

inline pass_back(i, s) {
    assert(result[AT(i, s - BEHIND(i))]);
    if
    :: i > 0 -> atomic {
        back_at[i] = s - BEHIND(i);
        back[i] = true
    }
    :: else
    fi
}

proctype owner(byte i) {
    byte s = 0;
    do
    :: s < CHUNKS + BEHIND(i) ->
        if
        :: i > 0 && s < CHUNKS -> before[i] > s
        :: else
        fi;
#ifndef NO_WAIT
        if
        :: i < LAST && s >= 2 -> next[i] >= s - 1
        :: else
        fi;
#endif
        if
        :: i < LAST && s >= BEHIND(i) -> pass_back(i, s)
        :: else
        fi;
        if
        :: s < CHUNKS ->
            assert(i == 0 || in[AT(i, SLOT(s))] == s + 1);
            if
            :: i < LAST -> atomic {
                out[AT(i, SLOT(s))] = s + 1;
                forward_at[i] = SLOT(s);
                forward[i] = true
            }
            :: else -> result[AT(i, s)] = true
            fi
        :: else
        fi;
        if
        :: i == LAST -> pass_back(i, s)
        :: else
        fi;
#ifndef NO_QUIET
        !forward[i] && !back[i];
#endif
        if
        :: i < LAST && s < CHUNKS -> before[i + 1] = s + 1
        :: else
        fi;
        if
        :: i > 0 -> next[i - 1] = s + 1
        :: else
        fi;
        s++
    :: else -> break
    od;
    for (s : 0 .. CHUNKS - 1) {
        assert(result[AT(i, s)])
    }
}

init {
    byte i;
    atomic {
        for (i : 0 .. LAST) {
            run owner(i);
            run network(i)
        }
    }
}
