#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks names and lines of all C sources. Prints each place that breaks a rule, and fails.
#   names.sh SOURCE_FOLDER
# 1. No static name stands in two files of one module (src/gpu, src/path/net, cli, standin/hca, ...).
#    No constant of an enum stands in two files of one folder: WEFT_UNITY compiles, and clang-tidy
#    checks, each folder as one source.
# 2. A struct, union or enum tag is defined once.
# 3. No line has more than 100 columns.
# 4. No word or idiom stands in sources and documentation that has a plain equivalent (the list below).
set -euo pipefail
cd "$1"
export LC_ALL=C.UTF-8
failed=0
folders=(src cli standin include)

[ "$(find "${folders[@]}" -name '*.c' | wc -l)" -gt 100 ] || { echo "the sources are not in $PWD" && exit 1; }

# grep, of which an error ends the test and finding nothing does not.
search() { grep "$@" || [ $? = 1 ]; }

# report HEADING PLACES. PLACES stand in a variable first: an error in $() as an argument would go unseen.
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
found=$(
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
        }' | twice)
report 'static names in two files of one module:' "$found"

# The constants of "enum { A, B = 2, C };" that begins a line.
found=$(
    find src cli -name '*.c' -print0 | xargs -0 awk '
        FNR == 1 { inside = 0 }
        /^enum .*\{|^enum \{$/ { inside = 1; text = "" }
        inside { text = text " " $0 }
        inside && /\};/ {
            inside = 0
            gsub(/\/\*([^*]|\*[^\/])*\*\//, "", text)
            sub(/^[^{]*\{/, "", text)
            sub(/\}.*/, "", text)
            n = split(text, part, ",")
            folder = FILENAME
            sub(/\/[^\/]*$/, "", folder)
            for (i = 1; i <= n; i++) {
                sub(/=.*/, "", part[i])
                gsub(/[^A-Za-z0-9_]/, "", part[i])
                if (part[i] ~ /^[A-Z]/) print folder, part[i], FILENAME
            }
        }' | twice)
report 'constants in two files of one folder:' "$found"

# Both halves of an #if may define a tag: that is one file.
found=$(
    search -rnE --include='*.[ch]' '^(struct|union|enum) [a-z_0-9]+ \{' "${folders[@]}" |
        sed -E 's/^([^:]+):[0-9]+:(struct|union|enum) ([a-z_0-9]+) .*/\2 \3 \1/' | twice)
report 'tags that are defined twice:' "$found"

found=$(search -rnE --include='*.[ch]' --include='*.cu' '^.{101,}' "${folders[@]}" bench examples tests tools)
report 'lines of more than 100 columns:' "$found"

# Invented or old words, and what to say instead.
words=(
    'parcels?|fragment' 'desk|mailbox' 'rovers?|sliding window' 'rove|sliding window' 'panes?|window'
    'restless|needs polling' 'deaf|not accepting' 'napping|backing off' 'on leave|suspended' 'astray|retransmitted'
    'far call|host callback' 'ow(e|es|ed)|reuse gate' 'told|reported' 'telling|exchange record' 'whoever|name the actor'
    'nobody|name the actor' 'somebody|name the actor' 'mended|fixed' 'strangers?|unauthenticated peer' 'wherein|in which'
    'thereby|so' 'thus|so' 'for good|permanently' 'in vain|without result' 'by which way|how' 'comes about|say what happens'
    'comes round|say what happens' 'goes without saying|leave it out' 'is at it|say what it does' 'adopt(s|ed)?|register'
    'holders|users' 'settle[sd]?|complete, flush or drain'
)
found=$(
    for word in "${words[@]}"; do
        search -rniwE --include='*.[ch]' --include='*.cu' --include='*.md' --include='*.scd' \
            "${word%|*}" "${folders[@]}" bench examples docs ./*.md | sed "s/\$/   (say: ${word##*|})/"
    done)
report 'words that have a plain equivalent:' "$found"
exit $failed
