#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# completion.sh WEFT SOURCE bash|zsh|fish: the shell completes commands, options, reason codes and
# files. Exits with 77 without the shell.
set -u
PATH=$(dirname "$1"):$PATH
cd "$2" || exit 2
shell=$3
command -v "$shell" > /dev/null || { echo "skipped: there is no $shell"; exit 77; }
home=$(mktemp -d)
trap 'rm -r "$home"' EXIT
export HOME=$home XDG_CONFIG_HOME=$home XDG_DATA_HOME=$home
failures=0

complete_bash() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _weft
    printf '%s\n' "${COMPREPLY[@]}"
}

complete_fish() {
    fish --no-config -c 'source cli/completions/weft.fish
        complete --do-complete $argv[1]' -- "$*" | cut -f 1
}

# An interactive zsh on a pseudo-terminal, in which compadd writes what it is given to a file.
complete_zsh() {
    line=$* hits=$home/hits zsh -f -c '
        zmodload zsh/zpty
        rm -f $hits
        zpty shell zsh -f -i
        zpty -w shell "fpath=($PWD/cli/completions \$fpath); autoload -U compinit; compinit -u -D"
        zpty -w shell "compadd() {
            if [[ \${@[1,(i)(-|--)]} == *-(O|A|D)* ]]; then builtin compadd \"\$@\"; return; fi
            local -a all; builtin compadd -A all \"\$@\"; print -rl -- \$all >> $hits; return 1 }"
        zpty -w shell "complete_and_end() { zle complete-word; print end >> $hits }"
        zpty -w shell "zle -N complete_and_end; bindkey \"^I\" complete_and_end"
        zpty -w -n shell "$line"$'"'\\t'"'
        for (( i = 0; i < 200; i++ )); do
            grep -qsx end $hits && break
            zpty -r -t shell output
            sleep 0.05
        done
        zpty -d shell'
    grep -vx end "$home/hits"
}

# expected words (all of them, in any order), what is typed
expect() {
    local wanted=$1 got
    shift
    got=$("complete_$shell" "$@" | sort -u | tr '\n' ' ')
    [ "$got" = "$wanted " ] ||
        { echo "$shell completes \"$*\" to: $got; expected: $wanted"; failures=1; }
}
takes== # options with a value end with it
[ "$shell" = bash ] || takes=
[ "$shell" != bash ] || . cli/completions/weft.bash
expect topo weft to
expect 'demo doctor' weft help d
expect "--machine$takes" weft topo --ma
expect "--host$takes --hostfile$takes --hosts$takes" weft run --ho
expect "--per-node$takes --pes$takes" weft explain experts --pe
expect P2P-ACS weft explain P2P-A
files='cli/completions/weft.bash cli/completions/weft.fish'
[ "$shell" != zsh ] || files='weft.bash weft.fish'
expect "$files" weft topo cli/completions/weft.
if [ "$shell" = bash ] && [ "$(complete -p weft)" != 'complete -F _weft weft' ]; then
    echo 'weft is not completed'
    failures=1
fi
exit $failures
