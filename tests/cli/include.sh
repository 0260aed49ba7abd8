#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: include.sh WEFT
# `weft include` prints the folder of the headers: in the build tree, where an installation was moved,
# and, without headers, a sentence.
set -eu
weft=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fault() {
    echo "$*" >&2
    exit 1
}
built=$("$weft" include)
for header in weft.h weft_device.h weft_device_all.h weft/types.h; do
    [ -r "$built/$header" ] || fault "$built has no $header"
done
moved="$folder/a \"quoted\" place"
mkdir -p "$moved/bin" "$moved/include"
ln "$weft" "$moved/bin/weft" 2>/dev/null || cp "$weft" "$moved/bin/weft"
said=$("$moved/bin/weft" include 2>&1) && fault "without headers: \"$said\", and status 0"
case $said in
*"no folder $moved/bin/../include with weft_device.h; install libweft-dev"*) ;;
*) fault "without headers: \"$said\"" ;;
esac
cp "$built/weft_device.h" "$moved/include"
said=$("$moved/bin/weft" include)
[ "$said" = "$moved/include" ] || fault "moved to $moved: \"$said\""
said=$("$moved/bin/weft" include --json)
[ "$said" = "{\"folder\": \"$folder/a \\\"quoted\\\" place/include\"}" ] || fault "--json: $said"
