#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: site.sh BUILD
# The documentation as a site of HTML in BUILD/site: README, guides, measurements and the references that
# make_pages.sh left in BUILD/docs (cmark-gfm), manual pages (scdoc and mandoc), one index; links between
# them lead to the made pages.
# Every link into the site is followed; one that leads nowhere is a fault.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 out=$1/site
rm -rf "$out"
mkdir -p "$out/man" "$out/measurements"
cp -r docs/pictures "$out/pictures"

cat >"$out/weft.css" <<'END'
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
nav { border-bottom: 1px solid #ccc; margin-bottom: 1rem }
pre, code { font: 14px/1.4 ui-monospace, monospace; background: #f5f5f3 }
pre { padding: .6rem; overflow-x: auto }
table { border-collapse: collapse; display: block; overflow-x: auto }
td, th { border: 1px solid #ccc; padding: .2rem .6rem; text-align: left; vertical-align: top }
table.head, table.foot, table.head td, table.foot td { border: 0; width: 100% }
a { color: #035 }
img { max-width: 100%; background: #fff }
@media (prefers-color-scheme: dark) { body { background: #181818; color: #ddd } pre, code { background: #222 } a { color: #9cf } }
END

# frame TITLE ROOT: what comes on stdin as a page; ROOT leads from it to the site's top.
frame() {
    printf '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    printf '<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>%s</title>\n' "$1"
    printf '<link rel="stylesheet" href="%sweft.css">\n</head>\n<body>\n<nav><a href="%sindex.html">Weft</a></nav>\n' "$2" "$2"
    cat
    printf '</body>\n</html>\n'
}

title_of() {
    sed -nE 's/^# +//p' "$1" | head -n 1
}

# page SOURCE TARGET: links to a page of Markdown lead to the page made of it; headings get names; links
# to other files of the source are text.
page() {
    local source=$1 target=$2 root=
    case $target in measurements/*) root=../ ;; esac
    cmark-gfm --unsafe -e table -e autolink "$source" |
        awk -v folder="$(dirname "$source")" '
            function name(text) {
                gsub(/<[^>]*>/, "", text); gsub(/&[a-z]+;/, "", text)
                text = tolower(text); gsub(/[^a-z0-9 _-]/, "", text); gsub(/ /, "-", text)
                return text
            }
            function local_target(link,    path, anchor) {
                path = link; anchor = ""
                if (match(path, /#/)) { anchor = substr(path, RSTART); path = substr(path, 1, RSTART - 1) }
                if (path == "") return link
                if (folder == ".") sub(/^docs\//, "", path)
                if (path ~ /^man\/.*\.scd$/) { sub(/\.scd$/, ".html", path); return path anchor }
                if (path ~ /^(\.\.\/)+README\.md$/ && folder == "docs") return "readme.html" anchor
                if (path ~ /^\.\.\/(CHANGELOG|CONTRIBUTING)\.md$/) { sub(/^\.\.\//, "", path) }
                if (path ~ /README\.md$/) return folder == "." && path == "README.md" ? "readme.html" anchor : ""
                if (path ~ /\.md$/) { sub(/\.md$/, ".html", path); return tolower(path) anchor }
                return ""
            }
            {
                if (match($0, /^<h[1-6]>.*<\/h[1-6]>$/))
                    $0 = substr($0, 1, 3) " id=\"" name($0) "\">" substr($0, 5)
                gsub(/<img src="docs\//, "<img src=\"")
                line = ""
                while (match($0, /<a href="[^"]*">/)) {
                    line = line substr($0, 1, RSTART - 1)
                    link = substr($0, RSTART + 9, RLENGTH - 11)
                    $0 = substr($0, RSTART + RLENGTH)
                    if (link !~ /^[a-z]+:/) {
                        link = local_target(link)
                        if (link == "") { sub(/<\/a>/, ""); continue }
                    }
                    line = line "<a href=\"" link "\">"
                }
                print line $0
            }' |
        frame "$(title_of "$source")" "$root" >"$out/$target"
}

pages=()
for source in README.md CHANGELOG.md CONTRIBUTING.md docs/*.md docs/measurements/*.md "$build"/docs/*.md; do
    target=${source#"$build"/}
    target=$(echo "${target#docs/}" | tr '[:upper:]' '[:lower:]')
    target=${target%.md}.html
    page "$source" "$target"
    pages+=("$target|$(title_of "$source")")
done

# Manual pages; a name in bold with its section leads to the page that tells of it.
manual=(docs/man/*.scd "$build"/docs/man/*.scd)
names=$out/names
: >"$names"
for source in "${manual[@]}"; do
    file=$(basename "$source" .scd)
    sed -n '/^# NAME/{n;n;s/ - .*//;s/, */\n/g;p;q}' "$source" | sed "s,\$,.${file##*.} $file," >>"$names"
    echo "$file $file" >>"$names"
done
for source in "${manual[@]}"; do
    file=$(basename "$source" .scd)
    scdoc <"$source" | mandoc -Thtml -O fragment |
        awk -v names="$names" -v self="$file" -v missing="$out/missing" '
            BEGIN { while ((getline < names) > 0) page[$1] = $2 }
            {
                line = ""
                while (match($0, /<b>[A-Za-z0-9_+-]+<\/b>\([1-8]\)/)) {
                    text = substr($0, RSTART, RLENGTH)
                    line = line substr($0, 1, RSTART - 1)
                    $0 = substr($0, RSTART + RLENGTH)
                    name = text; gsub(/<\/?b>|\)/, "", name); sub(/\(/, ".", name)
                    if (name in page && page[name] != self)
                        text = "<a href=\"" page[name] ".html\">" text "</a>"
                    else if (name ~ /^(weft|osh)[a-z0-9_-]*\.[0-9]$/ && !(name in page))
                        print self ": there is no page " name > missing
                    line = line text
                }
                print line $0
            }' | frame "${file%.*}(${file##*.})" ../ >"$out/man/$file.html"
done

{
    echo '<h1>Weft</h1>'
    for group in 'Start here:readme demo examples coming-from status changelog contributing' 'Guides:architecture glossary launching hosts security net gda hca files device simt machine benchmarks vm abi' \
        'References:reference device-reference shmem-reference shmem-coverage nvshmem-reference reasons'; do
        echo "<h2>${group%%:*}</h2><ul>"
        for name in ${group#*:}; do
            for entry in "${pages[@]}"; do
                [ "${entry%%|*}" != "$name.html" ] || echo "<li><a href=\"$name.html\">${entry#*|}</a></li>"
            done
        done
        echo '</ul>'
    done
    echo '<h2>Measurements</h2><ul>'
    for entry in "${pages[@]}"; do
        case $entry in measurements/*) echo "<li><a href=\"${entry%%|*}\">${entry#*|}</a></li>" ;; esac
    done
    echo '</ul>'
    for section in '1:Commands' '3:Functions' '7:Overviews'; do
        echo "<h2>Manual: ${section#*:}</h2><ul>"
        for source in "${manual[@]}"; do
            [[ $source == *."${section%%:*}".scd ]] || continue
            file=$(basename "$source" .scd)
            about=$(sed -n '/^# NAME/{n;n;s/.* - //p;q}' "$source")
            echo "<li><a href=\"man/$file.html\">${file%.*}(${file##*.})</a> - $about</li>"
        done
        echo '</ul>'
    done
} | frame Weft '' >"$out/index.html"

# Every page is in the index, and every link leads somewhere.
status=0
if [ -e "$out/missing" ]; then
    cat "$out/missing" >&2
    rm "$out/missing"
    status=1
fi
for entry in "${pages[@]}"; do
    grep -qF "href=\"${entry%%|*}\"" "$out/index.html" || { echo "${entry%%|*} is not in the index" >&2; status=1; }
done
while IFS=: read -r file link; do
    case $link in [a-z]*:*) continue ;; esac
    path=${link%%#*} anchor=
    case $link in *'#'*) anchor=${link#*#} ;; esac
    goal=$file
    [ -z "$path" ] || goal=$(dirname "$file")/$path
    if [ ! -e "$goal" ]; then
        echo "${file#"$out"/}: the link $link leads nowhere" >&2
        status=1
    elif [ -n "$anchor" ] && ! grep -qE "id=\"$anchor\"" "$goal"; then
        echo "${file#"$out"/}: there is no heading $anchor in ${goal#"$out"/}" >&2
        status=1
    fi
done < <(find "$out" -name '*.html' -exec grep -oHE '(href|src)="[^"]*"' {} + | sed -E 's/(href|src)="([^"]*)"/\2/')
rm -f "$names"
echo "$(find "$out" -name '*.html' | wc -l) pages in $out"
exit $status
