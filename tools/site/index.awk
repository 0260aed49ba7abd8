# SPDX-License-Identifier: Apache-2.0
# Of a page of the site: one line "PAGE<tab>ID<tab>HEADING<tab>TEXT" for each anchor, with the text
# up to the next one, without figures of tables; of long ones, the beginning of it. Of the
# lists of functions, and of code and output of Python, only the functions' names; a text before a
# declaration is the function's.
#   awk -f index.awk -v page=PAGE TEXT

function bare(text) {
    gsub(/<td[^>]*>[-0-9., %()\/]*<\/td>/, " ", text) # figures of tables
    gsub(/<a class="anchor"[^>]*>#<\/a>/, "", text)
    gsub(/<\/(td|th|p|li|div|h[1-6])>|<br\/?>/, " ", text)
    gsub(/<[^>]*>/, "", text)
    gsub(/&lt;/, "<", text)
    gsub(/&gt;/, ">", text)
    gsub(/&quot;/, "\"", text)
    gsub(/&amp;/, "\\&", text)
    gsub(/[ \t]+/, " ", text)
    return text
}

function entry() {
    gsub(/ +/, " ", text)
    if (page ~ /^measurements\/|^changelog|coverage/)
        text = substr(text, 1, 150)
    if (!before_declaration)
        print page "\t" id "\t" heading "\t" text
    before_declaration = 0
    text = ""
}

# Names of functions in the code of a list of functions, and of Python; of anything else all.
function words(line,    out) {
    if (!in_code || (page !~ /reference/ && !in_python))
        return bare(line)
    out = ""
    while (match(line, /[a-z_0-9]+\(/)) {
        if (substr(line, RSTART, RLENGTH - 1) != heading)
            out = out " " substr(line, RSTART, RLENGTH - 1)
        line = substr(line, RSTART + RLENGTH)
    }
    return out
}

/<pre/ {
    in_code = 1
    in_python = /language-(python|text)/
}
/^<p>/ && tag == "span" {
    entry()
    before_declaration = 1
    tag = "p"
}
{
    rest = $0
    while (match(rest, /<(h[1-6]|p|td|span)[^>]* id="[^"]*"[^>]*>/)) {
        before = substr(rest, 1, RSTART - 1)
        id_tag = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        text = text words(before) " "
        is_declaration = id_tag ~ /^<span/
        if (!is_declaration)
            before_declaration = 0
        carried = is_declaration && tag != "span" ? text : ""
        entry()
        text = carried
        id = id_tag
        sub(/.* id="/, "", id)
        sub(/".*/, "", id)
        tag = id_tag
        sub(/^</, "", tag)
        sub(/ .*/, "", tag)
        heading = rest
        sub("</" tag ">.*", "", heading)
        heading = bare(heading)
        sub(/ +$/, "", heading)
        sub(".*</" tag ">", "", rest)
    }
    text = text words(rest) " "
}
/<\/pre>/ { in_code = 0 }
END { entry() }
