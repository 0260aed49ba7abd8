#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: demo.sh WEFT SOURCE short|all. The demo reports success, gives the same image for any
# number of PEs, and refuses with a message what it cannot do.
set -eu
weft=$1
picture=$2/examples/data/weave.png
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fault() {
    echo "$*"
    exit 1
}

# Small enough for more PEs than there is work, and not smooth: the i-th sample of grey.png (24 x 20) is
# i * i mod 200, that of colour.png (40 x 30) i * (i mod 7) mod 256.
grey=$2/tests/job/grey.png colour=$2/tests/job/colour.png
# mends IMAGE PES...
mends() {
    image=$1
    shift
    for pes; do
        out=$folder/$(basename "$image").$pes
        "$weft" demo --json --pes "$pes" --image "$image" --output "$out" >"$out.json" ||
            fault "weft demo --pes $pes --image $image: exit status $?"
        grep -q '"good": true' "$out.json" || fault "$out.json does not say \"good\": true"
        [ "$(grep -c '"identical": true' "$out.json")" -ge 2 ] || fault "fewer runs than expected"
        cmp "$out/after.png" "$folder/$(basename "$image").2/after.png"
        ! cmp -s "$out/after.png" "$out/before.png" || fault "nothing was mended"
    done
}
# The picture that a newcomer sees; small ones for more PEs, which may have to share two busy CPUs.
if [ "$3" = short ]; then
    mends "$colour" 2
    mends "$grey" 2 3
else
    mends "$picture" 2
    mends "$grey" 2 5
    mends "$colour" 2 3
fi

# refused STATUS WORDS OPTION...
refused() {
    wanted=$1 words=$2 status=0
    shift 2
    said=$("$weft" demo --output "$folder/none" "$@" 2>&1) || status=$?
    [ "$status" = "$wanted" ] || fault "weft demo $*: exit status $status, not $wanted"
    case $said in
    *"$words"*) ;;
    *) fault "weft demo $*: \"$said\" does not name \"$words\"" ;;
    esac
}
head -c 100 "$colour" >"$folder/short.png"
refused 1 "short.png: the image is damaged or truncated" --image "$folder/short.png"
printf 'P5 1 1 255\nx' >"$folder/grey.pgm"
refused 1 "grey.pgm: not a PNG image" --image "$folder/grey.pgm"
refused 1 "/nonexistent.png: opening: No such file" --image /nonexistent.png
refused 1 "choose another with --output" --output /nonexistent/folder
refused 2 "from 2 to 1024" --pes 1
refused 2 "from 2 to 1024" --pes two
