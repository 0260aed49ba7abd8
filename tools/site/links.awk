# SPDX-License-Identifier: Apache-2.0
# Links from a name in running text to the page that describes it: weft-topo(1), weft_put(),
# `weft topo`, WEFT_PATH, P2P-ACS. The variable names is a file with lines "NAME<tab>PAGE"; root
# leads to the site's top.

BEGIN {
    while ((getline entry < names) > 0) {
        tab = index(entry, "\t")
        if (!(substr(entry, 1, tab - 1) in page_of))
            page_of[substr(entry, 1, tab - 1)] = substr(entry, tab + 1)
    }
    used["text"] = 1 # of frame.awk
    word = "[A-Za-z_][A-Za-z0-9_+-]*"
    pattern = "</?(a|pre|h[1-6])[^>]*>|<[^>]*>|weft [a-z]+|" word "(</b>)?\\([1-8]?\\)|" word
}

function link_names(text,    out, token, key, goal) {
    out = ""
    while (match(text, pattern)) {
        token = substr(text, RSTART, RLENGTH)
        out = out substr(text, 1, RSTART - 1)
        text = substr(text, RSTART + RLENGTH)
        if (token ~ /^<(a|pre|h[1-6])[ >]/)
            inside++
        else if (token ~ /^<\/(a|pre|h[1-6])>/)
            inside--
        key = token
        sub(/<\/b>/, "", key)
        goal = inside || !(key in page_of) ? "" : page_of[key]
        if (goal == "" || index(goal "#", self "#") == 1) {
            if (!(key in page_of) && self != "changelog.html") {
                if (key ~ /^(weft|osh)[a-z0-9_-]*\([1-8]\)$/)
                    print self ": there is no page " key > missing
                if (key ~ /^weft_[a-z0-9_]+\(\)$/)
                    print self ": there is no function " key > missing
            }
            out = out token
        } else {
            if (token ~ /<\/b>/) {
                sub(/<b>$/, "", out)
                token = "<b>" token
            }
            out = out "<a href=\"" root goal "\">" token "</a>"
        }
    }
    return out text
}

# A name for the link to a heading, unique in its page.
function heading_id(text,    id, n) {
    gsub(/<[^>]*>/, "", text)
    gsub(/&[a-z]+;/, "", text)
    id = tolower(text)
    gsub(/[^a-z0-9 _-]/, "", id)
    gsub(/ /, "-", id)
    n = used[id]++
    return n ? id "-" n : id
}

function anchor(id) {
    return " <a class=\"anchor\" href=\"#" id "\" aria-label=\"link to this section\">#</a>"
}
