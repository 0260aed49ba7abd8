#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# coll_dead.sh WEFT PROGRAM WHEN [FORM...]: the kernels of three PEs are in a collective, and PE 1
# is killed, for each operation of device_coll_dead or job_gpu_coll_dead in these forms, or in all.
# The status of the other PEs names PE 1 and the collective; their kernels and processes end, and no
# process or file in /dev/shm is left.
#   WHEN: amid, small or large, as defined by the programs; all: each of these;
#   turns: one of them for each operation, in turn; some: the same, for every third operation
# coll_dead.sh WEFT PROGRAM names KIND HEADER CC...: the program has exactly the collectives and
# forms that CC finds in the header; KIND: device, or those of streams and hosts
set -u
weft=$1 program=$2 when=$3 failed=0
shift 3
said=$(mktemp -d)
trap 'rm -rf "$said"' EXIT

functions() { # of the header in $said/text, as `form operation`
    if [ "$1" = device ]; then
        grep -oE 'int weft_(thread|warp|block|grid|blocks)_[a-z_]+\( ?(unsigned blocks, ?)?int team *[,)]' |
            sed -E 's/int weft_([a-z]+)_([a-z_]+)\(.*/\1 \2/'
    else
        grep -oE 'weft_status weft_[a-z_]+\( ?weft_team \*team *[,)]' | grep -vE 'weft_(coll|ctx|team|messages)_' |
            sed -E 's/weft_status weft_([a-z_]+)\(.*/host \1/; s/host (.*)_on_stream/stream \1/'
    fi
}
names() {
    local kind=$1 header=$2
    shift 2
    "$@" -E -P "$header" > "$said/text" || return 1
    tr '\n' ' ' < "$said/text" | functions "$kind" | sort -u > "$said/header"
    "$program" list | cut -d' ' -f1,2 | sort -u > "$said/table"
    [ -s "$said/header" ] && diff "$said/header" "$said/table" && return 0
    echo "FAILED: collectives that stand in $header (<) and in the program's list (>) differ"
    return 1
}

# told PE [COLLECTIVE]: PE was told that PE 1 is dead, and which collective it was in.
told() {
    local in="; PE $1 was in ${2:-} of team 0(, waiting for (PE [012]|blocks of its own))?"
    [ $# = 2 ] || in="(; PE .*)?"
    grep -qE "^PE $1 was told after .*: WEFT_ERR_PEER_DEAD: PE 1 \(pid [0-9]+\) was killed by signal 9 \(Killed\)$in\$" "$said/job"
}
nothing_of() {
    [ ! -e "/proc/$1" ] && ! ls /dev/shm | grep -qw "$1"
}
one() { # FORM OPERATION TOLD WHEN
    local status process wrong=""
    timeout 100 "$weft" run --grace=20s -n 3 "$program" "$1" "$2" "$4" 2> "$said/job"
    status=$?
    [ "$status" = 137 ] || wrong+="; the exit status is $status, which is not 137"
    # Amid the calls, one of the others may be told between two of them: it waits for nobody.
    if [ "$4" = amid ] && told 0 && told 2; then
        told 0 "$3" || told 2 "$3" || wrong+="; neither PE 0 nor PE 2 was told of $3"
    else
        told 0 "$3" || wrong+="; PE 0 was not told of $3"
        told 2 "$3" || wrong+="; PE 2 was not told of $3"
    fi
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
    turns | some)
        moments=$(set -- amid small large && shift $(((turn + turn / 3) % 3)) && echo "$1")
        turn=$((turn + 1))
        [ "$when" = turns ] || [ $((turn % 3)) = 1 ] || continue
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
