#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: demo.sh WEFT SOURCE. The demo says that all is good, gives the same picture for any number
# of PEs, and refuses in words what it cannot do.
set -eu
weft=$1
picture=$2/examples/data/weave.ppm
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fault() {
    echo "$*"
    exit 1
}

# A grey picture, small enough for more PEs than there is work.
awk 'BEGIN { print "P2 24 20 199"; for (i = 0; i < 480; i++) print i * i % 200 }' >"$folder/grey.pgm"
awk 'BEGIN { print "P3 40 30 255"; for (i = 0; i < 3600; i++) print i * (i % 7) % 256 }' >"$folder/colour.ppm"
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
mends "$picture" 2
mends "$folder/colour.ppm" 2 3
mends "$folder/grey.pgm" 2 5

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
printf 'P5 8 8 255\nshort' >"$folder/short.pgm"
refused 1 "short.pgm: byte 11, line 2: 8 x 8 pixels" --image "$folder/short.pgm"
refused 1 "/nonexistent.ppm: opening: No such file" --image /nonexistent.ppm
refused 1 "choose another with --output" --output /nonexistent/folder
refused 2 "from 2 to 1024" --pes 1
refused 2 "from 2 to 1024" --pes two
