#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: targets.sh BUILD
# What packages are made of is built by the target weft_installed: every file that `cmake --install`
# takes from the build folder, and that ninja makes. Status 77: another generator.
set -u
build=$1
[ -e "$build/build.ninja" ] || { echo "skipped: not a build by ninja"; exit 77; }
list=$(mktemp -d)
trap 'rm -rf "$list"' EXIT
find "$build" -name cmake_install.cmake -not -path '*/tests/*' -exec grep -ohE "\"$build/[^\"]+\"" {} + |
    tr -d '"' | sed "s,^$build/,," | sort -u >"$list/installed"
# But for a second name of a library, which comes with the first.
ninja -C "$build" -t targets all | sed -n '/\.so\.0: /!s/: [A-Za-z_].*//p' | sort -u >"$list/made"
ninja -C "$build" -t graph weft_installed | sed -nE 's/.*\[label="([^"]*)".*/\1/p' |
    sed "s,^$build/,," | sort -u >"$list/built"
comm -12 "$list/installed" "$list/made" >"$list/wanted"
[ "$(wc -l <"$list/wanted")" -gt 20 ] || { echo "too few installed files: $(cat "$list/wanted")"; exit 1; }
comm -23 "$list/wanted" "$list/built" >"$list/missing"
[ -s "$list/missing" ] || exit 0
echo "installed, but not built by the target weft_installed (cmake/WeftInstall.cmake):"
cat "$list/missing"
exit 1
