#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Draws the matrix of includes between the rooms and fails on an arrow upward:
#   arrows.sh SOURCE_FOLDER [OBJECT_FOLDER [LIBRARY_FLAGS]]
# A file includes only its own room and rooms below it; the command, besides, only weft.h and its
# relatives, the machine's model and the inner interface (src/tool); the stand-ins only base. With
# OBJECT_FOLDER (of weft_obj) the same is asked of what the objects call. Functions of the public API
# stand in the top rooms alone.
set -euo pipefail
source=$1 objects=${2:-}
cd "$source"

# From the ground up. Rooms in one word, split by "=", are beside each other: neither includes the other.
order='base driver machine=boot memory box gpu path proxy job file ops shmem=nvshmem tool'
may_export='ops shmem nvshmem'
failed=0

rooms() { echo "$order" | tr ' =' '\n\n'; }

# src/boot/tcp.c is of boot; standin and cli are rooms of their own. Of what is included, a name that is no room is a
# folder of the same room (cli/bench, standin/simt).
edges() {
    grep -rE --include='*.[ch]' --include='*.cu' '^ *# *include *"[a-z_]+/' src standin cli |
        awk -v rooms="$(cd src && printf '%s ' */)" '
            BEGIN { n = split(rooms, names, "/ *"); for (i = 1; i < n; i++) is_room[names[i]] = 1 }
            {
                file = substr($0, 1, index($0, ":") - 1)
                split(file, part, "/")
                to = $0
                sub(/^[^"]*"/, "", to)
                sub(/\/.*/, "", to)
                room = part[1] == "src" && part[3] ? part[2] : part[1]
                print room, to in is_room ? to : room, file
            }' | sort
}

edges >"${TMPDIR:-/tmp}/house-arrows.$$"
trap 'rm -f "${TMPDIR:-/tmp}/house-arrows.$$"' EXIT

judge() {
    awk -v order="$order" -v what="$1" '
        BEGIN {
            n = split(order, levels, " ")
            for (i = 1; i <= n; i++) {
                m = split(levels[i], beside, "=")
                for (j = 1; j <= m; j++) { rank[beside[j]] = i; names[++count] = beside[j] }
            }
            allowed["cli tool"] = allowed["cli machine"] = allowed["standin base"] = 1
        }
        $1 == $2 { inside[$1]++; next }
        { number[$1 " " $2]++; seen[$1] = 1 }
        ($1 in rank) && ($2 in rank) && rank[$2] < rank[$1] { next }
        allowed[$1 " " $2] { next }
        { print "arrow upward (" what "): " $3 ": " $1 " -> " $2 ($4 ? " (" $4 ")" : ""); bad = 1 }
        END {
            names[++count] = "standin"; names[++count] = "cli"
            printf "%-9s", what
            for (j = 1; j <= count - 2; j++) printf "%8s", names[j]
            print ""
            for (i = 1; i <= count; i++) {
                printf "%-9s", names[i]
                for (j = 1; j <= count - 2; j++)
                    printf "%8s", names[i] == names[j] ? "." : number[names[i] " " names[j]]
                print ""
            }
            exit bad
        }'
}

judge includes <"${TMPDIR:-/tmp}/house-arrows.$$" || failed=1

while read -r room; do
    case " $may_export " in *" $room "*) continue ;; esac
    [ -d "src/$room" ] || continue
    ! grep -nH '^WEFT_EXPORT' -r "src/$room" --include='*.c' ||
        { echo "public functions in room $room: they belong to ops" && failed=1; }
done < <(rooms)

# calls: DEFINED symbols of a room's objects that another room's objects need.
symbols() {
    local room sources
    while read -r room; do
        [ -d "$objects/$room" ] || continue
        # An object whose source is gone is left over from an earlier build.
        mapfile -t sources < <(cd "src/$room" && ls)
        (cd "$objects/$room" && nm -A $(comm -12 <(ls) <(printf '%s.o\n' "${sources[@]}" | sort))) |
            awk -v room="$room" '
            { kind = $(NF - 1); split($1, at, ":"); sub(/.*\//, "", at[1]) }
            kind ~ /^[TDBRVWC]$/ { print "D", $NF, room }
            kind == "U" { print "U", $NF, room, at[1] }'
    done < <(rooms) | awk '
        $1 == "D" { room[$2] = $3 }
        $1 == "U" { need[$2 " " $3 " " $4] = 1 }
        END {
            for (key in need) {
                split(key, k, " ")
                if (k[1] in room) print k[2], room[k[1]], k[3], k[1]
            }
        }'
}

if [ -n "$objects" ]; then
    calls=$(symbols | sort)
    # No call at all means that the objects were not found, not that all is well.
    [ -n "$calls" ] || { echo "no objects of the rooms in $objects" && failed=1; }
    judge calls <<<"$calls" || failed=1
fi
exit $failed
