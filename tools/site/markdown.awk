# SPDX-License-Identifier: Apache-2.0
# Of the HTML of a Markdown file: links to another file of Markdown lead to the page made of it,
# links to other files of the source become text; headings, functions and the names in a table's first
# column get anchors; tables get a box to scroll in.
#   awk -f links.awk -f markdown.awk -v folder=SOURCE -v self=PAGE -v root=ROOT -v names=FILE

function local_target(link,    path, place) {
    path = link
    place = ""
    if (match(path, /#/)) {
        place = substr(path, RSTART)
        path = substr(path, 1, RSTART - 1)
    }
    if (path == "")
        return link
    if (path ~ /^(\.\.\/)*(SECURITY|CODE_OF_CONDUCT)\.md$/)
        return ""
    if (folder == ".")
        sub(/^docs\//, "", path)
    if (path ~ /^man\/.*\.scd$/) {
        sub(/\.scd$/, ".html", path)
        return path place
    }
    sub(/^\.\.\/(\.\.\/)?/, folder ~ /\/measurements$/ ? "../" : "", path)
    if (path ~ /^(\.\.\/)?README\.md$/)
        return substr(path, 1, length(path) - 9) "index.html" place
    if (path ~ /README\.md$/)
        return ""
    if (path !~ /\.md$/)
        return path ~ /^gallery\// ? path : ""
    sub(/\.md$/, ".html", path)
    return tolower(path) place
}

# The functions that a line of code declares, each an anchor.
function declare(line,    out, name) {
    out = ""
    while (match(line, /weft_[a-z0-9_]+\(/)) {
        name = substr(line, RSTART, RLENGTH - 1)
        out = out substr(line, 1, RSTART - 1)
        out = out (used[name]++ ? name : "<span id=\"" name "\">" name "</span>") "("
        line = substr(line, RSTART + RLENGTH)
    }
    return out line
}

match($0, /^<h[1-6]>.*<\/h[1-6]>$/) {
    text = substr($0, 5, length($0) - 9)
    id = heading_id(text)
    $0 = substr($0, 1, 3) " id=\"" id "\">" text (/^<h1/ ? "" : anchor(id)) \
        substr($0, length($0) - 4)
}

self ~ /reference/ && /^<pre>/ { in_code = 1 }
in_code && !/^( |#|typedef)/ { $0 = declare($0) }
/<\/pre>/ { in_code = 0 }

# Readers search these tables by the name in the first column.
previous == "<tr>" && self ~ /^(glossary|variables)\.html$/ && /^<td>/ {
    id = substr($0, 5, length($0) - 9)
    id = id ~ /^<code>/ ? substr(id, 7, length(id) - 13) : heading_id(id)
    $0 = "<td id=\"" id "\"" substr($0, 4)
}
{ previous = $0 }

{
    gsub(/<img src="docs\//, "<img src=\"")
    gsub(/<table>/, "<div class=\"scroll\"><table>")
    gsub(/<\/table>/, "</table></div>")
    line = ""
    while (match($0, /<a href="[^"]*">/)) {
        line = line substr($0, 1, RSTART - 1)
        link = substr($0, RSTART + 9, RLENGTH - 11)
        $0 = substr($0, RSTART + RLENGTH)
        if (link !~ /^[a-z]+:/) {
            link = local_target(link)
            if (link == "") {
                sub(/<\/a>/, "")
                continue
            }
        }
        line = line "<a href=\"" link "\">"
        if (/^[a-z-]+\.md<\/a>/)
            sub(/\.md/, "")
    }
    print link_names(line $0)
}
