#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# experts.sh EXPERTS WEFT short|all: dispatch and combine of the experts' example, which compares
# itself bit for bit with a serial loop: 1 to 4 PEs, also on two nodes; balanced and skewed routing,
# and all tokens to one expert; experts without tokens, PEs without experts, one expert for each
# token; more rows than room; a PE that is killed; invalid use. The short form leaves out two PEs
# and three with uniform routing.
set -u
experts=$1 weft=$2 form=$3 bad=0
folder=$(mktemp -d "$PWD/experts.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

# run STATUS OPTION...: with $pes PEs
pes=1
run() {
    local status start=()
    [ $pes = 1 ] || start=("$weft" run -n "$pes")
    timeout 60 "${start[@]}" "$experts" --tokens 37 --hidden 72 --experts 10 --top 3 --steps 2 "${@:2}" >out 2>&1
    status=$?
    [ $status = "$1" ] || { echo "status $status in place of $1: $pes PEs, ${*:2}" && sed 's/^/    /' out && bad=1; }
}
says() { grep -qE -- "$1" out || { echo "nobody says: $1" && sed 's/^/    /' out && bad=1; }; }
right() {
    run 0 "$@"
    says '^check: results, and gradients of tokens, weights and experts, are identical in every bit to a serial loop$'
}

several="1 2 3 4"
[ "$form" = all ] || several="1 4"
for pes in $several; do
    right
    right --routing skewed --experts 40 --seed 5
    right --top 1 --tokens 5
    right --experts 3 --top 3 --tokens 1 --hidden 8 # with 4 PEs one has none
done
says '^kernels on simt; experts of a PE: 0 to 1$'
says '^not replayed from a graph: not supported on simt$'
[ "$(grep -cE '^(dispatch|combine)(, backward)? +[0-9.]+ us, [0-9.]+ GB/s over the links$' out)" = 4 ] ||
    { echo "not four figures" && cat out && bad=1; }
pes=2
right --routing skewed --experts 64
says '^[1-9][0-9]* experts have no token'
pes=3
right --routing one # the three experts of all tokens are at one PE, and each token goes there once
says '^7 experts have no token, the busiest expert has 111$'
says '^a token goes to 1\.00 PEs, 0\.67 of them others; '
right --routing one --rows 111
run 1 --routing one --rows 110
says '111 rows were sent to PE 0, and rows is 110: those beyond were dropped'
# Rows moved by paths without direct stores are also visible after the barrier.
for path in staged net; do
    WEFT_PATH=$path right
done
# Dispatch and combine of one kernel each.
pes=3
WEFT_TEST_EXPERTS=short right --routing skewed
pes=2
WEFT_TEST_EXPERTS=short right
# Two nodes, where results of the other one are added first.
pes=4
WEFT_TEST_NODE_PES=2 WEFT_FABRIC_PROVIDER=tcp WEFT_FABRIC_INTERFACE=lo right

# A wrong bit is detected: another seed at one PE.
cat > one << 'END'
[ "$WEFT_PE" = 1 ] && set -- "$@" --seed 2
exec "$@"
END
timeout 60 "$weft" run -n 2 bash ./one "$experts" --tokens 9 --hidden 16 --steps 1 >out 2>&1 && { echo "not seen" && bad=1; }
says '^experts: PE [01]: .*element [0-9]+ is .* instead of '

# A PE is killed: the others end and report it.
cat > dies << 'END'
[ "$WEFT_PE" = 2 ] && { (sleep 0.5; kill -9 $$) & }
exec "$@"
END
WEFT_WAIT_LIMIT=20s timeout 60 "$weft" run -n 3 bash ./dies "$experts" --steps 1000000 >out 2>&1
status=$?
[ $status = 137 ] || { echo "killed: status $status" && cat out && bad=1; }
says 'PE 2 .*killed by signal 9'

pes=1
refused() { # WORDS OPTION...
    run 2 "${@:2}"
    says "^experts: $1"
}
refused '--hidden 12: expected a multiple of 8' --hidden 12
refused '--top 11: expected at most --experts 10' --top 11
refused '--tokens 0: expected a whole number from 1 to 1048576' --tokens 0
refused '--routing away: expected uniform, skewed or one' --routing away
refused '--rows x: expected a whole number' --rows x
refused 'unexpected operand more; see --help' more
run 2 --no-such
says '^usage: experts'
run 0 --help
says '--rows N +tokens that a PE accepts'
exit $bad
