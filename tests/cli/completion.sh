#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# completion.sh WEFT SOURCE: bash completes commands, options, reason codes and files.
set -u
PATH=$(dirname "$1"):$PATH
cd "$2" || exit 2
. cli/completions/weft.bash
failures=0
# expected words (all of them, in any order), what is typed
expect() {
    local wanted=$1
    shift
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _weft
    [ "$(printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' ')" = "$wanted " ] ||
        { echo "weft completes \"$*\" to: ${COMPREPLY[*]}; expected: $wanted"; failures=1; }
}
expect topo weft to
expect 'demo doctor' weft help d
expect --machine= weft topo --ma
expect '--host= --hostfile= --hosts=' weft run --ho
expect P2P-ACS weft explain P2P-A
expect 'cli/completions/weft.bash cli/completions/weft.fish' weft topo cli/completions/weft.
[ "$(complete -p weft)" = 'complete -F _weft weft' ] || { echo 'weft is not completed'; failures=1; }
exit $failures
