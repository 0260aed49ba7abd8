#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# files_of_others.sh WEFT: finding A23. Files that the user names but another user may have created:
# a pipe without a writer gives an error, a pipe with a writer is read, and names in a file reach
# the terminal without their control characters.
set -u
weft=$1 failures=0
dir=$(mktemp -d /tmp/weft-test-files.XXXXXX) && trap 'rm -rf "$dir"' EXIT
fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}
mkfifo "$dir/pipe"
"$weft" topo --machine '2 gpu' --record "$dir/machine" || exit 1

# All at once, since each waits for ten seconds.
refused() {
    local name=$1 status
    shift
    timeout 30 "$@" >"$dir/out.$name" 2>&1
    status=$?
    if [ $status != 1 ] && [ $status != 2 ]; then
        fail "$name: status $status"
    elif ! grep -q "$dir/pipe: nothing was written to it for 10 s" "$dir/out.$name"; then
        fail "$name: $(cat "$dir/out.$name")"
    else
        return 0
    fi
    return 1
}
refused machine "$weft" topo --machine "$dir/pipe" & jobs=($!)
refused against "$weft" doctor --quick --against "$dir/pipe" & jobs+=($!)
refused hostfile "$weft" run --hostfile "$dir/pipe" true & jobs+=($!)
for job in "${jobs[@]}"; do
    wait "$job" || failures=$((failures + 1))
done

"$weft" topo --machine <(sleep 0.3; cat "$dir/machine") >"$dir/out" || fail "a pipe with a slow writer is refused"
"$weft" topo --machine "$dir/machine" >"$dir/expected"
cmp -s <(sed 's,file [^ ]*,,' "$dir/out") <(sed 's,file [^ ]*,,' "$dir/expected") || fail "a pipe is read otherwise than a file"

# ESC ] 0 ; … BEL sets the title of a terminal; 0x9b begins a sequence by itself.
sed 's/"name": "[^"]*"/"name": "a\\u001b]0;owned\\u0007\\u009b31mb"/' "$dir/machine" >"$dir/evil"
printf 'host\033]0;owned\007 slots=1\n' >"$dir/hosts"
raw=$(printf '\033\\|\007\\|\302\233')
for command in "topo" "topo --full" "topo --tree" "topo --json" "topo --routes" "doctor" "explain gpu0 gpu1" "topo --svg=-" \
    "topo --nccl=-" "topo --assign"; do
    # shellcheck disable=SC2086
    "$weft" $command --machine "$dir/evil" >"$dir/out" 2>&1
    ! grep -qa "$raw" "$dir/out" || fail "weft $command prints control characters: $(grep -am 1 "$raw" "$dir/out" | cat -v)"
done
WEFT_RSH=false timeout 20 "$weft" run --hostfile "$dir/hosts" true >"$dir/out" 2>&1
[ -s "$dir/out" ] || fail "weft run says nothing of a host that cannot be reached"
! grep -qa "$raw" "$dir/out" || fail "weft run prints control characters of a host: $(cat -v "$dir/out")"
printf '{"weft-machine": 1, "gpus": "\033]0;owned\007"}' >"$dir/evil"
"$weft" topo --machine "$dir/evil" >"$dir/out" 2>&1 && fail "a machine with no list of GPUs is accepted"
! grep -qa "$raw" "$dir/out" || fail "an error repeats control characters: $(cat -v "$dir/out")"
echo "$failures failures"
[ $failures = 0 ]
