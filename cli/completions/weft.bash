# SPDX-License-Identifier: Apache-2.0
# Completion of `weft` in bash: commands, options and reason codes, as the command itself lists them.
_weft_options() {
    "$1" $2 --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]*=?' | sort -u
}
_weft() {
    local word=${COMP_WORDS[COMP_CWORD]} weft=${COMP_WORDS[0]} command=${COMP_WORDS[1]} list=
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        list=$("$weft" help 2>/dev/null | awk '/^  [a-z]/ { print $1 }')
        COMPREPLY=($(compgen -W "$list help" -- "$word"))
        return
    fi
    # After its program, `weft run` has no options any more.
    case $command:$word in
    help:*) list=$("$weft" help 2>/dev/null | awk '/^  [a-z]/ { print $1 }') ;;
    explain:-*)
        [ "${COMP_WORDS[2]}" != experts ] || command='explain experts'
        list=$(_weft_options "$weft" "$command")
        ;;
    *:-*) list=$(_weft_options "$weft" "$command") ;;
    explain:[A-Z]*) list=$("$weft" explain --codes 2>/dev/null | awk '/^[A-Z0-9-]+ / { print $1 }') ;;
    esac
    COMPREPLY=($(compgen -W "$list" -- "$word"))
    [ -n "${COMPREPLY[0]:-}" ] && [ "${COMPREPLY[0]: -1}" = = ] && compopt -o nospace 2>/dev/null
    [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "$word"))
}
complete -F _weft weft
