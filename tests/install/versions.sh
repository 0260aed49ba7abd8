#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: versions.sh SOURCE
# The version of include/weft.h, from which CMake has it, is the one that every other place names.
set -u
cd "$1" || exit 2
status=0
version=$(sed -nE 's/^#define WEFT_VERSION_(MAJOR|MINOR|PATCH) +([0-9]+)$/\2/p' include/weft.h |
    paste -sd .)
number=$(sed -nE 's/^#define WEFT_VERSION +([0-9]+)$/\1/p' include/weft.h)
if [ "$number" != "$(awk -F. '{ print $1 * 1000000 + $2 * 1000 + $3 }' <<<"$version")" ]; then
    echo "include/weft.h has version $version, and WEFT_VERSION is $number"
    status=1
fi
# FILE|text in front of a version, or of the beginning of one.
while IFS='|' read -r file text; do
    found=$(grep -oE -e "$text[0-9]+(\.[0-9]+)+" "$file" | head -n 1 | grep -oE '[0-9.]+$')
    case $version. in
    "${found:-none}".*) ;;
    *)
        echo "include/weft.h has version $version, and $file has \"$text${found:-no version}\""
        status=1
        ;;
    esac
done <<'END'
CHANGELOG.md|^## +
README.md|find_package\(weft +
docs/abi.md|find_package\(weft +
docs/demo.md|Weft +
tests/unit/consumer/CMakeLists.txt|find_package\(weft +
END
exit $status
