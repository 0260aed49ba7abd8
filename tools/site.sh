#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: site.sh BUILD
# The documentation as a site of HTML in BUILD/site: README as its start page, guides, measurements,
# the pages that make_pages.sh left in BUILD/docs (cmark-gfm), manual pages (scdoc and mandoc), and
# a gallery of pictures that BUILD/bin/weft draws. Each page has the navigation of all pages, and
# search. The site loads nothing from elsewhere and needs no server. tools/site/check.sh follows
# every link.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 out=$1/site tools=tools/site
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
rm -rf "$out"
mkdir -p "$out"/{man,measurements,gallery} "$scratch"/text/{man,measurements}
cp -r docs/pictures "$out/pictures"
cp $tools/weft.css $tools/site.js "$out"

# Groups of the navigation with their pages, in reading order.
groups=(
    'Start:index demo coming-from nccl gallery status glossary'
    'Python:python python-arrays python-put python-signals python-collectives python-streams
            python-kernels python-experts deep-ep torch python-files python-notebooks python-machine python-reference'
    'Programs:examples launching hosts device experts files abi security'
    'Machines and networks:machine net gda man/weft-reasons.7'
    'References:reference device-reference shmem-reference shmem-coverage nvshmem-reference
                variables'
    'Manual pages:manual'
    'Measurements:measurements/index'
    'Work on Weft:architecture contributing benchmarks simt hca vm changelog'
)
# Made only where the tests of OpenSHMEM are built.
coverage=shmem-coverage
if [ ! -e "$build/docs/$coverage.md" ]; then
    groups=("${groups[@]/$coverage/}")
    coverage=
fi

title_of() {
    sed -nE 's/^# +//p' "$1" | head -n 1 | tr -d '`'
}

# README; the list of its section Documentation stands below the picture.
start_page() {
    awk '
        /^## / { doors = /^## Documentation$/ }
        FNR == NR { if (doors && /^(-|  )/) list = list $0 "\n"; next }
        doors { next }
        /^```/ && !done++ { printf "<div class=\"doors\">\n\n%s\n</div>\n\n", list }
        { print }' README.md README.md
}

# finish SCRIPT [variable...] of a page's HTML.
finish() {
    local script=$1
    shift
    awk -f $tools/links.awk -f "$tools/$script" -v names="$scratch/names" \
        -v missing="$scratch/missing" "$@"
}

# page SOURCE TARGET FOLDER: the text of a page of Markdown; links in it are relative to FOLDER.
page() {
    local source=$1 target=$2 root=
    case $target in measurements/*) root=../ ;; esac
    cmark-gfm --unsafe -e table -e autolink "$source" |
        finish markdown.awk -v folder="$3" -v self="$target" -v root="$root" \
            >"$scratch/text/$target"
    printf '%s\t%s\n' "$target" "$(title_of "$source")" >>"$scratch/titles"
}

# manual_page SOURCE: empty lines and indents of code are kept.
manual_page() {
    local file
    file=$(basename "$1" .scd)
    scdoc <"$1" | sed '/^\.nf/,/^\.fi/{s/^$/\\ /; s/^ /\\\& /}' | mandoc -Thtml -O fragment |
        finish manual.awk -v title="${file%.*}(${file##*.})" -v self="man/$file.html" -v root=../ \
            >"$scratch/text/man/$file.html"
    printf 'man/%s.html\t%s(%s)\n' "$file" "${file%.*}" "${file##*.}" >>"$scratch/titles"
}

manual_index() {
    local section source file
    echo '# Manual pages'
    for section in '1:Commands' '3:Functions' '7:Overviews'; do
        printf '\n## %s\n\n| page | what it describes |\n| --- | --- |\n' "${section#*:}"
        for source in "${manual[@]}"; do
            file=$(basename "$source" .scd)
            [ "${file##*.}" = "${section%%:*}" ] || continue
            echo "| ${file%.*}(${file##*.}) | $(sed -n '/^# NAME/{n;n;s/.* - //p;q}' "$source") |"
        done
    done
}

# names: lines "NAME<tab>PAGE" of what is linked wherever it is named; the first line of a name
# counts. functions: lines "PAGE<tab>FUNCTION<tab>WORDS" of the manual.
names() {
    local source file list
    for source in "${manual[@]}"; do
        file=$(basename "$source" .scd)
        sed -n '/^# NAME/{n;n;p;q}' "$source" |
            awk -v page="man/$file.html" -v name="${file%.*}" -v section="${file##*.}" \
                -v functions="$scratch/functions" '
                {
                    print name "(" section ")\t" page
                    words = $0
                    sub(/.* - /, "", words)
                    sub(/ - .*/, "")
                    n = split($0, names, ", ")
                    for (i = 1; i <= n; i++) {
                        print names[i] "(" section ")\t" page
                        if (section == 3) {
                            print names[i] "()\t" page
                            print page "\t" names[i] "\t" words >>functions
                        }
                    }
                    if (section == 1 && sub(/^weft-/, "", name))
                        print "weft " name "\t" page
                }'
    done
    sed -nE 's/^\*([A-Z0-9]+(-[A-Z0-9]+)+)\*$/\1\tman\/weft-reasons.7.html#\1/p' \
        "$build"/docs/man/weft-reasons.7.scd
    sed -nE 's/^\| `(WEFT_[A-Z0-9_]+)`.*/\1\tvariables.html#\1/p' "$build"/docs/variables.md
    for list in reference device-reference; do
        grep -oE '\bweft_[a-z0-9_]+\(' "$build/docs/$list.md" | sort -u |
            sed "s/\(.*\)(/\1()\t$list.html#\1/"
    done
    # Functions of the headers that no page describes by name exist, but have no page.
    grep -rhoE '\bweft_[a-z0-9_]+' include | sort -u | sed 's/$/()\t/'
    for list in device-reference shmem-reference $coverage nvshmem-reference; do
        printf '%s\t%s.html\n' $list $list
    done
}

mapfile -t manual < <(printf '%s\n' docs/man/*.scd "$build"/docs/man/*.scd |
    awk -F / '{ print $NF "\t" $0 }' | LC_ALL=C sort -t . -k 2,2 -k 1,1 | cut -f 2)
names >"$scratch/names"
start_page >"$scratch/index.md"
manual_index >"$scratch/manual.md"
page "$scratch/index.md" index.html .
page "$scratch/manual.md" manual.html docs
page $tools/gallery.md gallery.html docs
for source in CHANGELOG.md CONTRIBUTING.md docs/*.md docs/measurements/*.md "$build"/docs/*.md; do
    target=${source#"$build"/}
    folder=$(dirname "$target")
    target=$(echo "${target#docs/}" | tr '[:upper:]' '[:lower:]')
    page "$source" "${target%.md}.html" "$folder"
done
for source in "${manual[@]}"; do
    manual_page "$source"
done

# What the gallery shows: the indented lines of its page are commands.
case $build in /*) bin=$build/bin ;; *) bin=$PWD/$build/bin ;; esac
sed -n 's/^    //p' $tools/gallery.md | (cd "$out/gallery" && PATH=$bin:$PATH bash -eu >/dev/null)

# Lines "GROUP<tab>PAGE<tab>TITLE"; manual pages and measurements stand behind the list of them.
for group in "${groups[@]}"; do
    pages=()
    for name in ${group#*:}; do
        pages+=("$name.html")
        case $name in
        manual)
            for source in "${manual[@]}"; do
                file=man/$(basename "$source" .scd)
                [[ "${groups[*]}" == *" $file"* ]] || pages+=("$file.html")
            done
            ;;
        measurements/index)
            for source in $(printf '%s\n' docs/measurements/20*.md | sort -r); do
                source=${source%.md}
                pages+=("${source#docs/}.html")
            done
            ;;
        esac
    done
    for name in "${pages[@]}"; do
        awk -F '\t' -v group="${group%%:*}" -v page="$name" '
            $1 == page { print group "\t" page "\t" $2; n++ }
            END { exit n != 1 }' "$scratch/titles" ||
            { echo "the navigation names $name, and there is no such page" >&2; exit 1; }
    done
done >"$scratch/navigation"
awk -F '\t' '
    NR == FNR { there[$2] = 1; next }
    !($1 in there) { print "the page " $1 " is in no group of tools/site.sh"; n++ }
    END { exit n > 0 }' "$scratch/navigation" "$scratch/titles" >&2

while IFS=$'\t' read -r target _; do
    root=
    case $target in */*) root=../ ;; esac
    awk -f $tools/frame.awk -v self="$target" -v root="$root" -v navigation="$scratch/navigation" \
        "$scratch/text/$target" "$scratch/text/$target" >"$out/$target"
    awk -f $tools/index.awk -v page="$target" "$scratch/text/$target"
done <"$scratch/titles" >"$scratch/entries"

# The index of site.js. Results of manual pages come before those of measurements.
{
    printf 'const weft_index = '
    jq -Rnc --rawfile navigation "$scratch/navigation" --rawfile functions "$scratch/functions" '
        def weight:
            {"Manual pages": 1.5, "Start": 1.2, "Python": 0.7, "Measurements": 0.5,
             "Work on Weft": 0.7}[.] // 1;
        def lines: split("\n")[] | select(. != "") | split("\t");
        [$navigation | lines | [.[1], .[2], (.[0] | weight)]] as $pages
        | ($pages | to_entries | map({key: .value[0], value: .key}) | from_entries) as $number
        | [$functions | lines | [.[0], "", .[1], .[2]]] as $named
        | {pages: $pages, entries: [
            ($named[], (inputs | split("\t")))
            | [$number[.[0]], .[1], .[2], (.[3] | sub("^ +"; "") | sub(" +$"; ""))]]}' \
        "$scratch/entries"
} >"$out/index.js"

status=0
if [ -e "$scratch/missing" ]; then
    sort -u "$scratch/missing" >&2
    status=1
fi
$tools/check.sh "$out" || status=1
echo "$(find "$out" -name '*.html' | wc -l) pages in $out"
exit $status
