# SPDX-License-Identifier: Apache-2.0
# Of mandoc's HTML of a manual page: its headings are one level lower, below the page's name; each
# option or name that a paragraph of its own explains gets an anchor.
#   mandoc -Thtml -O fragment | awk -f links.awk -f manual.awk -v title='NAME(SECTION)' ...

function flush() {
    if (held == "")
        return
    if (/^<div class="Bd-indent">/ && held ~ /^<p class="Pp"><b>/) {
        id = held
        if (match(id, /<b>--[a-z-]+/))
            id = substr(id, RSTART + 3, RLENGTH - 3)
        else {
            sub(/^<p class="Pp"><b>/, "", id)
            sub(/<.*/, "", id)
        }
        gsub(/ /, "-", id)
        if (id != "" && !used[id]++)
            sub(/^<p class="Pp"/, "<p class=\"term\" id=\"" id "\"", held)
    }
    print link_names(held)
    held = ""
}

BEGIN { print "<h1>" title "</h1>" }
/^<table class="(head|foot)">/ { skip = 1 }
skip {
    if (/^<\/table>/)
        skip = 0
    next
}
# Headings and paragraphs are of one line each.
broken != "" {
    sub(/^ +/, "")
    $0 = broken $0
    broken = ""
}
/^<(h[12]|p) / && !/<\/(h[12]|p)>/ {
    broken = $0 " "
    next
}
/^<h[12] class="S[hs]"/ {
    match($0, /id="[^"]*"/)
    id = substr($0, RSTART + 4, RLENGTH - 5)
    level = substr($0, 3, 1) + 1
    text = $0
    gsub(/<[^>]*>/, "", text)
    $0 = "<h" level " id=\"" id "\">" text anchor(id) "</h" level ">"
    used[id]++
}
/^&#x00A0;$/ { $0 = "" }
/<table/ { sub(/<table/, "<div class=\"scroll\"><table") }
/<\/table>/ { sub(/<\/table>/, "</table></div>") }
{
    flush()
    if (/^<p class="Pp"><b>.*<\/p>$/)
        held = $0
    else
        print link_names($0)
}
END { $0 = ""; flush() }
