#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# coll_dead.sh WEFT PROGRAM WHEN [FORM...]: of three PEs whose kernels are in a collective of device code the second is killed,
# for each operation of device_coll_dead by these forms, or by all. The others are told which PE it was and what they were in,
# their kernels end, and so do they, with nothing of theirs left running or in /dev/shm.
#   WHEN: amid, small or large, as device_coll_dead has them; all: each of these; turns: one of them for each, in turn
# coll_dead.sh WEFT PROGRAM names HEADER CC...: the program has every collective and form that CC finds in the header, and no other
set -u
weft=$1 program=$2 when=$3 failed=0
shift 3
said=$(mktemp -d)
trap 'rm -rf "$said"' EXIT

names() {
    local header=$1
    shift
    "$@" -E -P "$header" > "$said/text" || return 1
    tr '\n' ' ' < "$said/text" |
        grep -oE 'int weft_(thread|warp|block|grid|blocks)_[a-z_]+\( ?(unsigned blocks, ?)?int team *[,)]' |
        sed -E 's/int weft_([a-z]+)_([a-z_]+)\(.*/\1 \2/' | sort -u > "$said/header"
    "$program" list | cut -d' ' -f1,2 | sort -u > "$said/table"
    [ -s "$said/header" ] && diff "$said/header" "$said/table" && return 0
    echo "FAILED: device collectives that stand in the header (<) and in tests/device/coll_dead.c (>) differ"
    return 1
}

told() {
    grep -qE "^PE $1 was told after .*: WEFT_ERR_PEER_DEAD: PE 1 \(pid [0-9]+\) was killed by signal 9 \(Killed\); PE $1 was in $2 of team 0, waiting for PE [012]; its kernel had ended" "$said/job"
}
nothing_of() {
    [ ! -e "/proc/$1" ] && ! ls /dev/shm | grep -qw "$1"
}
one() { # FORM OPERATION TOLD WHEN
    local status process wrong=""
    timeout 100 "$weft" run --grace=20s -n 3 "$program" "$1" "$2" "$4" 2> "$said/job"
    status=$?
    [ "$status" = 137 ] || wrong+="; the exit status is $status, which is not 137"
    told 0 "$3" || wrong+="; PE 0 was not told of $3"
    told 2 "$3" || wrong+="; PE 2 was not told of $3"
    [ "$(grep -c '^process' "$said/job")" = 3 ] || wrong+="; not three processes"
    while read -r _ process; do
        nothing_of "$process" || wrong+="; something of process $process is left"
    done < <(grep '^process' "$said/job")
    [ -z "$wrong" ] && return
    echo "FAILED: $1 $2 $4$wrong"
    cat "$said/job"
    failed=1
}

if [ "$when" = names ]; then
    names "$@"
    exit
fi
turn=0 done=0
while read -r form operation word; do
    [ $# = 0 ] || [[ " $* " == *" $form "* ]] || continue
    case $when in
    all) moments="amid small large" ;;
    turns)
        moments=$(set -- amid small large && shift $((turn % 3)) && echo "$1")
        turn=$((turn + 1))
        ;;
    *) moments=$when ;;
    esac
    for moment in $moments; do
        one "$form" "$operation" "$word" "$moment"
        done=$((done + 1))
    done
done < <("$program" list)
echo "$done jobs of which a PE was killed"
[ "$done" -gt 0 ] && exit $failed
