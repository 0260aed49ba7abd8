# SPDX-License-Identifier: Apache-2.0
# Completion of `weft` in fish, as the command itself lists commands, options and reason codes.
function __weft_commands
    weft help 2>/dev/null | string match -r '^  [a-z]+ .*' | string replace -r '^  ([a-z]+) +' '$1\t'
end
function __weft_options
    set -l words (commandline -opc)
    set -l command $words[2]
    test "$words[2] $words[3]" != "explain experts" || set command explain experts
    weft $command --help 2>/dev/null | string match -ra -- '--[a-z][a-z-]*' | sort -u
end
complete -c weft -n 'test (count (commandline -opc)) -eq 1' -f -a '(__weft_commands)'
complete -c weft -n 'test (count (commandline -opc)) -gt 1' -a '(__weft_options)'
complete -c weft -n '__fish_seen_subcommand_from help' -f -a '(__weft_commands)'
complete -c weft -n '__fish_seen_subcommand_from explain' -a '(weft explain --codes | string match -r "^[A-Z0-9-]+")'
