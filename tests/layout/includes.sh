#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Draws who includes whom, between the modules and between the folders of each module, and fails where an include
# leads upward or folders include each other in a cycle:
#   includes.sh SOURCE_FOLDER [OBJECT_FOLDER]
# A file includes only its own module and modules below it. The command, besides, includes only weft.h and its
# relatives, the model of the machine (src/machine) and the inner interface (src/tool); the stand-ins only src/base.
# With OBJECT_FOLDER (of weft_obj) the same is asked of what the objects call. Public functions stand in the top
# modules alone.
# Inside a module the headers of a folder are below the folders in it, and its .c files above them.
set -euo pipefail
source=$1 objects=${2:-}
cd "$source"

# From the bottom up. Modules in one word, split by "=", are at one height: neither includes the other.
order='base driver machine=boot memory box gpu path proxy job file ops shmem=nvshmem=nccl tool'
may_export='ops shmem nvshmem nccl'
failed=0

modules() { echo "$order" | tr ' =' '\n\n'; }

# file TAB included file, both from the top folder. A quoted name is found next to the file, in src or in cli.
includes() {
    grep -rE --include='*.[ch]' --include='*.cu' '^ *# *include *"' src standin cli |
        awk -F: '
            function exists(path,    line, found) {
                if (path in known) return known[path]
                found = (getline line < path) >= 0
                close(path)
                return known[path] = found
            }
            {
                name = $2
                sub(/^[^"]*"/, "", name)
                sub(/".*/, "", name)
                folder = $1
                sub(/[^\/]*$/, "", folder)
                split("src/ cli/ standin/ standin/hca/", roots, " ")
                if (exists(folder name)) to = folder name
                else if (exists(roots[1] name)) to = roots[1] name
                else if (exists(roots[2] name)) to = roots[2] name
                else if (exists(roots[3] name)) to = roots[3] name
                else if (exists(roots[4] name)) to = roots[4] name
                else next
                print $1 "\t" to
            }' | sort
}

# module module file: of src/boot/tcp.c the module is boot; cli and standin are modules of their own.
between_modules() {
    awk -F '\t' '
        function module(path, part) { split(path, part, "/"); return part[1] == "src" ? part[2] : part[1] }
        { print module($1), module($2), $1 }'
}

judge() {
    awk -v order="$order" -v what="$1" '
        BEGIN {
            n = split(order, levels, " ")
            for (i = 1; i <= n; i++) {
                m = split(levels[i], same, "=")
                for (j = 1; j <= m; j++) { rank[same[j]] = i; names[++count] = same[j] }
            }
            allowed["cli tool"] = allowed["cli machine"] = allowed["standin base"] = 1
        }
        $1 == $2 { next }
        { number[$1 " " $2]++ }
        ($1 in rank) && ($2 in rank) && rank[$2] < rank[$1] { next }
        allowed[$1 " " $2] { next }
        { print "upward (" what "): " $3 ": " $1 " -> " $2 ($4 ? " (" $4 ")" : ""); bad = 1 }
        END {
            names[++count] = "standin"; names[++count] = "cli"
            printf "%-9s", what
            for (j = 1; j <= count - 2; j++) printf "%8s", names[j]
            print ""
            for (i = 1; i <= count; i++) {
                printf "%-9s", names[i]
                for (j = 1; j <= count - 2; j++)
                    printf "%8s", names[i] == names[j] ? "." : number[names[i] " " names[j]]
                print ""
            }
            exit bad
        }'
}

# Each folder of a module that has folders, and how often it includes another: of a folder that has folders itself,
# "src/gpu(.c)" are its .c files and "src/gpu(.h)" its headers. Fails on a cycle, and where such a header includes
# a file of a folder in it.
folders_of_modules() {
    local edges
    edges=$(awk -F '\t' '
        function module(path, part, n) {
            n = split(path, part, "/")
            return part[1] == "cli" ? "cli" : part[1] "/" part[2]
        }
        function parent(path) { sub(/\/?[^\/]*$/, "", path); return path }
        function place(path,    folder) {
            folder = parent(path)
            return folder in has ? folder (path ~ /\.c$/ ? "(.c)" : "(.h)") : folder
        }
        {
            from_file[NR] = $1
            to_file[NR] = $2
            for (i = 1; i <= 2; i++)
                for (folder = parent($i); folder ~ /\//; folder = parent(folder)) has[parent(folder)]
        }
        END {
            for (i = 1; i <= NR; i++) {
                if (module(from_file[i]) != module(to_file[i])) continue
                from = place(from_file[i])
                to = place(to_file[i])
                if (from != to) count[from " " to]++
                if (from ~ /\(\.h\)$/ && index(parent(to_file[i]), parent(from_file[i]) "/") == 1)
                    print "upward: " from_file[i] " includes " to_file[i]
            }
            for (pair in count) print pair, count[pair]
        }' | sort)
    printf '\nfolders inside modules (who, whom, includes)\n'
    awk '$1 != "upward:" { printf "  %-24s %-24s %4d\n", $1, $2, $3 }' <<<"$edges"
    if ! awk '$1 != "upward:" { print $1, $2 }' <<<"$edges" | tsort >/dev/null; then
        echo 'folders include each other in a cycle: see the lines of tsort'
        return 1
    fi
    ! grep '^upward: ' <<<"$edges"
}

all=$(includes)
# No include at all means that the sources were not found, not that all is well.
[ -n "$all" ] || { echo "no includes in $source" && failed=1; }
between_modules <<<"$all" | judge includes || failed=1
folders_of_modules <<<"$all" || failed=1

while read -r module; do
    case " $may_export " in *" $module "*) continue ;; esac
    [ -d "src/$module" ] || continue
    ! grep -nH '^WEFT_EXPORT' -r "src/$module" --include='*.c' ||
        { echo "public functions in module $module: they belong to src/ops" && failed=1; }
done < <(modules)

# Symbols that the objects of a module define, and those that they need. An object whose source is gone is left over
# from an earlier build.
symbols() {
    local module file name
    while read -r module; do
        [ -d "$objects/$module" ] || continue
        find "$objects/$module" -name '*.o' | while read -r file; do
            name=${file#"$objects"/}
            [ ! -e "src/$name" ] && [ ! -e "src/${name%.o}" ] || echo "$file"
        done | xargs nm -A | awk -v module="$module" -v objects="$objects/" '
            { kind = $(NF - 1); split($1, at, ":"); sub(objects, "", at[1]) }
            kind ~ /^[TDBRVWC]$/ { print "D", $NF, module }
            kind == "U" { print "U", $NF, module, at[1] }'
    done < <(modules) | awk '
        $1 == "D" { module[$2] = $3 }
        $1 == "U" { need[$2 " " $3 " " $4] = 1 }
        END {
            for (key in need) {
                split(key, k, " ")
                if (k[1] in module) print k[2], module[k[1]], k[3], k[1]
            }
        }'
}

if [ -n "$objects" ]; then
    calls=$(symbols | sort)
    # No call at all means that the objects were not found, not that all is well.
    [ -n "$calls" ] || { echo "no objects of the modules in $objects" && failed=1; }
    echo
    judge calls <<<"$calls" || failed=1
fi
exit $failed
