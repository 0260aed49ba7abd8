#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: check.sh SITE
# A fault where a link, an anchor or a picture of the site leads nowhere, no page has a link to a
# page, a page would load something from elsewhere, the index of the search lacks words that must be
# found, or (with node) the search lists a place too late.
set -euo pipefail
tools=$(realpath "$(dirname "$0")")
cd "$1"
status=0
fault() {
    echo "$*" >&2
    status=1
}

# Each link, each anchor: "FILE LINK" and "FILE#ID", as paths from the site's top.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
find . -name '*.html' -printf '%P\n' | sort >"$scratch/pages"
find . -type f -printf '%P\n' >"$scratch/goals"
xargs grep -oHE ' id="[^"]*"' <"$scratch/pages" |
    sed -E 's/^([^:]*): id="(.*)"$/\1#\2/' >"$scratch/anchors"
sort "$scratch/anchors" | uniq -d | sed 's/$/ stands twice/' >"$scratch/faults"
xargs grep -oHE ' (href|src)="[^"]*"' <"$scratch/pages" |
    sed -E 's/^([^:]*): (href|src)="(.*)"$/\1 \3/' | sort -u |
    awk -v goals="$scratch/goals" -v anchors="$scratch/anchors" '
        BEGIN {
            while ((getline goal < goals) > 0) there[goal] = 1
            while ((getline goal < anchors) > 0) there[goal] = 1
        }
        {
            link = substr($0, length($1) + 2)
            if (link ~ /^[a-z]+:/) next
            goal = link
            if (goal ~ /^#/)
                goal = $1 goal
            else if ($1 ~ /\//) {
                folder = $1
                sub(/[^\/]*$/, "", folder)
                goal = folder goal
                while (sub(/[^\/]+\/\.\.\//, "", goal)) ;
            }
            seen[goal] = 1
            if (!(goal in there)) print $1 ": the link " link " leads nowhere"
        }
        END {
            for (goal in there)
                if (goal ~ /\.(html|svg|png)$/ && !(goal in seen))
                    print "no page has a link to " goal
        }' >>"$scratch/faults"
while read -r line; do fault "$line"; done <"$scratch/faults"

# Only an <a> may name another site.
tags='link|script|img|iframe|source|object|embed|use'
found=$(grep -rnoE "<($tags)[^>]*(src|href)=\"?(https?:)?//[^>]*" . || true)
found+=$(grep -rnoE '(@import|url\(|fetch\(|XMLHttpRequest|https?://).*' ./*.css site.js || true)
[ -z "$found" ] || fault "the site loads what it does not have: $found"

# What must be found, and where.
[ "$(wc -c <index.js)" -lt 1000000 ] ||
    fault "index.js has over 1 MB, which is much for a page: let tools/site/index.awk leave text out"
cat >"$scratch/words" <<'END'
man/weft_put.3.html weft_put_nbi
reference.html#weft_put_nbi weft_put_nbi
device-reference.html#weft_block_put_nbi weft_block_put_nbi
python-reference.html#put_signal put_signal
python-collectives.html#teams split_2d
man/weft-reasons.7.html#P2P-ACS Access Control Services
man/weft-topo.1.html#--what-if --what-if
variables.html#WEFT_PATH WEFT_PATH
shmem-reference.html#shmem_team_split_2d shmem_team_split_2d
nvshmem-reference.html#nvshmem_type_p nvshmem_float_p
glossary.html#doorbell NIC register
coming-from.html#nccl ncclAllReduce
coming-from.html#ucx ucp_put_nbx
status.html#limits x86-64
index.html#install ./dev install
END
found=$(sed 's/^const weft_index = //' index.js | jq -r --rawfile words "$scratch/words" '
    .pages as $pages
    | [.entries[] | {
        place: ($pages[.[0]][0] + "#" + .[1] | sub("#$"; "")),
        text: (.[2] + " " + .[3] | ascii_downcase)}] as $entries
    | $words | split("\n")[] | select(. != "") | capture("^(?<place>[^ ]+) (?<words>.*)")
    | .place as $place | (.words | ascii_downcase) as $lower
    | select(any($entries[]; .place == $place and (.text | contains($lower))) | not)
    | "search: \(.words) is not found at \(.place)"')
[ -z "$found" ] || fault "$found"

# What a reader types, and a place that must be among the first three.
if command -v node >"$scratch/node"; then
    while IFS=: read -r words place; do
        node "$tools/search.js" . "$words" >"$scratch/first"
        grep -qF "$(printf '\t')$place" "$scratch/first" ||
            fault "search: \"$words\" does not list $place among the first three: $(cat "$scratch/first")"
    done <<'END'
put:reference.html#put-and-get
allreduce:man/weft_collective.3.html
NCCL slow:man/weft-doctor.1.html
ACS:man/weft-reasons.7.html#P2P-ACS
WEFT_PATH:variables.html#WEFT_PATH
shmem_put:shmem-reference.html#
install:index.html#install
numpy:python
END
else
    echo "skipped: the order of the search, which needs node" >&2
fi
exit $status
