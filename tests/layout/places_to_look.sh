#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints what is large: places to look at, not failures.
#   places_to_look.sh SOURCE_FOLDER
# Files over 600 lines, headers over 250, folders over 25 files, structs over 20 fields, and pairs of files of one
# folder that include each other's headers.
set -euo pipefail
cd "$1"
folders=(src cli standin include)

lines() { find "${folders[@]}" -name "$1" -exec wc -l {} + | awk -v most="$2" '$2 != "total" && $1 > most { print "  " $2 ": " $1 }' | sort -t: -k2 -rn; }

echo 'files over 600 lines:'
lines '*.c' 600
echo 'headers over 250 lines:'
lines '*.h' 250
echo 'folders over 25 files:'
find "${folders[@]}" -type f -printf '%h\n' | sort | uniq -c | sort -rn | awk '$1 > 25 { print "  " $2 ": " $1 }'
echo 'structs over 20 fields:'
find "${folders[@]}" -name '*.[ch]' -print0 | xargs -0 awk '
    /^struct [a-z_0-9]+ \{/ { name = $2; fields = depth = 0; inside = 1; next }
    inside && /^};/ || inside && /^} / { if (fields > 20) print "  " FILENAME ": struct " name ": " fields; inside = 0 }
    inside { line = $0; gsub(/\/\*.*\*\//, "", line); sub(/\/\*.*/, "", line); if (line !~ /^ *\*/) fields += gsub(/;/, ";", line) }'
echo 'files of one folder that include each other (a header and its .c file count as one):'
find src cli standin -name '*.[ch]' | while read -r file; do
    sed -nE 's/^ *# *include *"([^"]+)".*/\1/p' "$file" | while read -r name; do
        for to in "${file%/*}/$name" "src/$name" "cli/$name"; do
            [ ! -e "$to" ] || { [ "${file%.*}" = "${to%.*}" ] || echo "${file%.*} ${to%.*}"; break; }
        done
    done
done | sort -u | awk '{ pair[$1 " " $2] = 1 }
    END { for (p in pair) { split(p, f, " "); if (f[1] < f[2] && (f[2] " " f[1]) in pair) print "  " f[1] ", " f[2] } }' | sort
