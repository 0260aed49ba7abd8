# SPDX-License-Identifier: Apache-2.0
# A page of the site around the HTML of its text: navigation, contents, the pages before and after.
#   awk -f frame.awk -v self=PAGE -v root=ROOT -v navigation=FILE TEXT TEXT
# The file of the navigation has lines "GROUP<tab>PAGE<tab>TITLE", in reading order.

function bare(text) {
    gsub(/<a class="anchor".*<\/a>/, "", text)
    gsub(/<[^>]*>/, "", text)
    sub(/^ +/, "", text)
    sub(/ +$/, "", text)
    return text
}

function link(i, class) {
    return "<a" class " href=\"" root page[i] "\">" title[i] "</a>"
}

function print_navigation(    i, open) {
    print "<input type=\"checkbox\" id=\"menu\" class=\"menu\">"
    print "<label for=\"menu\" class=\"menu\">Menu</label>"
    print "<nav class=\"site\" aria-label=\"all pages\">"
    for (i = 1; i <= n; i++) {
        if (group[i] != group[i - 1]) {
            if (i > 1)
                print "</ul></details>"
            open = group[i] == group[at] || i == 1
            print "<details" (open ? " open" : "") "><summary>" group[i] "</summary><ul>"
        }
        print "<li>" link(i, i == at ? " aria-current=\"page\"" : "") "</li>"
    }
    print "</ul></details>"
    print "</nav>"
}

function print_contents(    i) {
    if (contents < 4)
        return
    print "<details class=\"contents" (contents > 80 ? " long" : "") "\">"
    print "<summary>On this page</summary><ul>"
    for (i = 1; i <= contents; i++)
        print "<li" (deep[i] ? " class=\"deep\"" : "") ">" \
            "<a href=\"#" place[i] "\">" heading[i] "</a></li>"
    print "</ul></details>"
}

function print_head() {
    for (at = n; at > 0 && page[at] != self; at--)
        ;
    print "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">"
    print "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
    print "<meta name=\"color-scheme\" content=\"light dark\">"
    print "<title>" (self == "index.html" ? "Weft" : title[at] " - Weft") "</title>"
    print "<link rel=\"stylesheet\" href=\"" root "weft.css\">\n</head>"
    print "<body" (self == "index.html" ? " class=\"start\"" : "") ">"
    print "<a class=\"skip\" href=\"#text\">Skip to the text</a>"
    print "<header><a class=\"home\" href=\"" root "index.html\">Weft</a>"
    print "<form role=\"search\" hidden>"
    print "<input type=\"search\" id=\"search\" name=\"q\" autocomplete=\"off\""
    print "  placeholder=\"Search (key /)\" aria-label=\"search the documentation\">"
    print "</form></header>"
    print "<div id=\"found\" hidden></div>"
    print "<div class=\"columns\">"
    print_navigation()
    print_contents()
    print "<main id=\"text\">"
}

BEGIN {
    while ((getline line < navigation) > 0) {
        split(line, field, "\t")
        n++
        group[n] = field[1]
        page[n] = field[2]
        title[n] = field[3]
    }
}
NR == FNR {
    if (match($0, /<h[23] id="[^"]*">/)) {
        contents++
        deep[contents] = substr($0, RSTART + 2, 1) == 3
        place[contents] = substr($0, RSTART + 8, RLENGTH - 10)
        heading[contents] = bare($0)
    }
    next
}
FNR == 1 { print_head() }
{ print }
END {
    print "</main>"
    print "<nav class=\"along\" aria-label=\"the pages before and after\">"
    if (at > 1)
        print link(at - 1, " rel=\"prev\"")
    if (at && at < n)
        print link(at + 1, " rel=\"next\"")
    print "</nav>\n</div>"
    print "<script src=\"" root "site.js\" data-root=\"" root "\"></script>\n</body>\n</html>"
}
