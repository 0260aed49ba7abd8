#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The small command of the package weft: what it says of machines, of itself and of its variables is
# what the whole one says; what it lacks it names; where the whole one is installed it starts it.
#   small.sh SMALL WHOLE SOURCE
set -u
small=$1 whole=$2 machines=$3/tests/machine/machines
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0

fail() {
    printf 'FAILED: %s\n' "$*"
    head -n 20 "$folder/small"
    failures=$((failures + 1))
}

# same ARGUMENT...: status and output of both are equal.
same() {
    "$small" "$@" >"$folder/small" 2>&1 </dev/null
    local got=$?
    "$whole" "$@" >"$folder/whole" 2>&1 </dev/null
    local wanted=$?
    [ $got = $wanted ] && cmp -s "$folder/small" "$folder/whole" || fail "weft $*: status $got, not $wanted"
}
# refuses TEXT ARGUMENT...: status 1, and the text.
refuses() {
    local text=$1
    shift
    "$small" "$@" >"$folder/small" 2>&1 </dev/null
    local got=$?
    [ $got = 1 ] && grep -qF -- "$text" "$folder/small" || fail "weft $*: status $got, expected \"$text\""
}

for machine in dgx-a100 h200-8-vm geforce-2-acs; do
    same topo --machine "$machines/$machine.json"
    same topo --json --machine "$machines/$machine.json"
    same explain gpu0 gpu1 --machine "$machines/$machine.json"
    same doctor --machine "$machines/$machine.json"
done
same version
same help
same explain --codes
same run -n 1 --prefix sh -c 'echo "$WEFT_PE of 1"'
WEFT_PATH=p2p,staeged "$small" env >"$folder/small" 2>&1
grep -q 'WEFT_PATH names "staeged"' "$folder/small" || fail "weft env does not check WEFT_PATH"
for command in attach bench demo; do
    refuses "weft $command: this command needs the package weft-bench" $command 1
done
refuses "a collective needs the package weft-bench" explain coll allreduce 8
refuses "this command needs the package weft-bench" explain experts
refuses "the table of all pairs of PEs needs the package weft-bench" explain --job $$
"$small" explain host / >"$folder/small" 2>&1
grep -qF "a file needs the package weft-bench" "$folder/small" || fail "explain host FILE"
size=$(cp "$small" "$folder/stripped" && strip "$folder/stripped" && stat -c %s "$folder/stripped")
[ "$size" -lt 1500000 ] || fail "the small command has $size bytes"

# As the packages install them.
mkdir -p "$folder/bin" "$folder/libexec/weft"
cp "$small" "$folder/bin/weft"
cp "$whole" "$folder/libexec/weft/weft"
"$folder/bin/weft" bench --list >"$folder/small" 2>&1 && grep -q '^ *put' "$folder/small" ||
    fail "the small command does not start the whole one"
ln -s bin/weft "$folder/link"
"$folder/link" explain coll allreduce 8 >"$folder/small" 2>&1 || fail "not started by a link"
# The whole one calls itself, and other hosts, by the small one's name.
"$folder/bin/weft" run --hosts localhost,other --rsh false true >"$folder/small" 2>&1
grep -qF "$folder/bin/weft" "$folder/small" || fail "other hosts are not asked for bin/weft"
printf x >"$folder/libexec/weft/weft"
chmod -x "$folder/libexec/weft/weft"
"$folder/bin/weft" version >"$folder/small" 2>&1 &&
    grep -q "libexec/weft/weft: Permission denied; reinstall" "$folder/small" || fail "a whole one that does not run"
[ $failures = 0 ]
