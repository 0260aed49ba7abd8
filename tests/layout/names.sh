#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks names and lines of all C sources. Prints each place that breaks a rule, and fails.
#   names.sh SOURCE_FOLDER
# 1. No static name stands in two files of one module (src/gpu, src/path/net, cli, standin/hca, ...).
# 2. A struct, union or enum tag is defined once.
# 3. No line has more than 100 columns.
set -euo pipefail
cd "$1"
export LC_ALL=C.UTF-8
failed=0
folders=(src cli standin include)

# report HEADING PLACES
report() {
    [ -n "$2" ] || return 0
    printf '%s\n%s\n' "$1" "$2"
    failed=1
}

# Lines "scope name file": each name that a scope has in several files.
twice() {
    sort -u | awk '{ key = $1 " " $2; files[key] = files[key] " " $3; count[key]++ }
        END { for (key in count) if (count[key] > 1) { split(key, k, " "); print "  " k[2] ":" files[key] } }' | sort
}

# "static T name(", "static T name[" or "static T name =" at the beginning of a line.
report 'static names in two files of one module:' "$(
    find "${folders[@]}" -name '*.c' -print0 | xargs -0 awk '
        /^static / {
            line = $0
            sub(/ *__attribute__\(\([^)]*\)+/, "", line)
            at = match(line, /[(=[;]/)
            if (!at) next
            name = substr(line, 1, at - 1)
            sub(/ +$/, "", name)
            sub(/.*[ *]/, "", name)
            n = split(FILENAME, part, "/")
            module = part[1] == "cli" ? "cli" : part[1] "/" part[2]
            if (part[2] == "path" && n > 3) module = module "/" part[3]
            if (name != "") print module, name, FILENAME
        }' | twice)"

# Both halves of an #if may define a tag: that is one file.
report 'tags that are defined twice:' "$(
    grep -rnE --include='*.[ch]' '^(struct|union|enum) [a-z_0-9]+ \{' "${folders[@]}" |
        sed -E 's/^([^:]+):[0-9]+:(struct|union|enum) ([a-z_0-9]+) .*/\2 \3 \1/' | twice)"

report 'lines of more than 100 columns:' "$(
    grep -rnE --include='*.[ch]' --include='*.cu' '^.{101,}' "${folders[@]}" bench examples tests tools)"
exit $failed
