#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: release.sh SOURCE
# `./dev release --draft short` in two repositories with the same commit, of what a release looks at:
# the same tarball, with all files. What is not committed, or names another version, is refused. Status 77: no git here.
set -u
command -v git >/dev/null || { echo "skipped: no git here"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$1" || exit 2
export GIT_AUTHOR_DATE="2026-01-02T03:04:05Z" GIT_COMMITTER_DATE="2026-01-02T03:04:05Z"
commit() {
    git -c core.autocrlf=false add -A &&
        git -c user.name=Weft -c user.email=weft@localhost -c commit.gpgsign=false commit -qm "$1"
}
for copy in one two; do
    mkdir "$folder/$copy"
    tar -c .gitignore dev CHANGELOG.md README.md docs/*.md include/weft.h packaging python/weft/__init__.py tools/dev \
        tests/install tests/unit/consumer | tar -x -C "$folder/$copy"
    (cd "$folder/$copy" && git init -q && commit "all") || exit 1
done
cd "$folder/one" || exit 1
version=$(sed -nE 's/^#define WEFT_VERSION_(MAJOR|MINOR|PATCH) +([0-9]+)$/\2/p' include/weft.h | paste -sd .)
failures=0
# expect STATUS TEXT COMMAND...
expect() {
    local status=$1 text=$2 got
    shift 2
    "$@" >"$folder/out" 2>&1 </dev/null
    got=$?
    [ $got = "$status" ] && grep -qF -- "$text" "$folder/out" && return
    echo "$*: status $got, expected $status and \"$text\":"
    cat "$folder/out"
    failures=$((failures + 1))
}

sed -i "0,/^## .*/s//## $version (unreleased)/" CHANGELOG.md
[ -z "$(git status --porcelain)" ] || commit "unreleased"
expect 1 "CHANGELOG.md says \"$version (unreleased)\"; write \"## $version - " ./dev release short
expect 0 "weft-$version.tar.gz" ./dev release --draft short
expect 0 "weft-$version.tar.gz: OK" sh -c 'cd build-release && sha256sum -c SHA256SUMS'
cp build-release/SHA256SUMS "$folder/sums"
tar -tzf "build-release/weft-$version.tar.gz" | grep -v '/$' | sed "s,^weft-$version/,," | sort >"$folder/have"
git ls-files | sort | diff - "$folder/have" >"$folder/out" || {
    echo "the tarball has not the files of the commit"
    head -n 10 "$folder/out"
    failures=$((failures + 1))
}
! tar -tvzf "build-release/weft-$version.tar.gz" | grep '^.....w' || {
    echo "files above of the tarball may be written by a group"
    failures=$((failures + 1))
}
(
    cd "$folder/two" || exit 1
    git config tar.umask 0077
    sed -i "0,/^## .*/s//## $version (unreleased)/" CHANGELOG.md
    [ -z "$(git status --porcelain)" ] || commit "unreleased"
    sleep 1.1 # another second on the clock
    expect 0 "$(cat "$folder/sums")" ./dev release --draft short
    exit $failures
) || failures=$((failures + 1))

sed -i "0,/^## .*/s//## $version - 2026-01-02/" CHANGELOG.md
expect 1 "not committed" ./dev release short
commit "the date"
expect 0 "weft-$version.tar.gz" ./dev release short
sed -i "0,/^## .*/s//## 9.8.7 - 2026-01-02/" CHANGELOG.md
commit "another version"
expect 1 "include/weft.h has version $version, and CHANGELOG.md begins with \"9.8.7 - " ./dev release short
expect 1 'CHANGELOG.md has "^## +9.8.7"' tests/install/versions.sh .
# Refused before any package is installed for it.
mkdir "$folder/bin"
printf '#!/bin/sh\necho "$*" >>"%s"\nexit 1\n' "$folder/installs" >"$folder/bin/apt-get"
chmod +x "$folder/bin/apt-get"
expect 1 '"longer"' env PATH="$folder/bin:$PATH" ./dev -y release longer
[ ! -e "$folder/installs" ] || {
    echo "./dev release longer: apt-get $(cat "$folder/installs")"
    failures=$((failures + 1))
}
[ $failures = 0 ]
