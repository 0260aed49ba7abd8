# SPDX-License-Identifier: Apache-2.0
# Makes the page of all functions of weft.h, and of the types:
#   awk -f tools/reference.awk include/weft.h include/weft/types.h
# Every name stands there in full, those made by a list macro too, so that a text search finds it.
# What it relies on in the header: a section begins with a ruler comment; a comment at the
# beginning of a line is about what follows it; WEFT_ATOMIC_DECLARE(width, type) declares functions.

BEGIN {
    print "# Reference of weft.h"
    print ""
    print "Made from `include/weft.h` by `./dev docs`. The man pages `weft_*.3` tell"
    print "more about each group. An index of all functions is at the end."
}

function open_code() { if (!in_code) { print ""; print "```c"; in_code = 1 } }
function close_code() { if (in_code) { print "```"; in_code = 0 } }

# Notes the functions that a declaration declares.
function note_names(text,    name) {
    while (match(text, /weft_[a-z0-9_]+\(/)) {
        name = substr(text, RSTART, RLENGTH - 1)
        text = substr(text, RSTART + RLENGTH)
        if (!(name in section_of)) {
            section_of[name] = section
            names[++n_names] = name
        }
    }
}

function print_text(text,    lines, n, i, line, bare) {
    close_code()
    print ""
    n = split(text, lines, "\n")
    for (i = 1; i <= n; i++) {
        line = lines[i]
        bare = line
        sub(/^ +/, "", bare)
        if (line ~ /^  +[^ ]/ && line !~ /^   /)
            bare = "- " (match(bare, /^[a-z_]+  +/) ? "`" substr(bare, 1, index(bare, " ") - 1) "`: " \
                substr(bare, RLENGTH + 1) : bare)
        print bare
    }
}

# The body of WEFT_ATOMIC_DECLARE for one width.
function expand(width, ctype,    i, line) {
    open_code()
    for (i = 1; i <= n_body; i++) {
        line = body[i]
        gsub(/##width/, width, line)
        line = " " line
        gsub(/[ (]type /, "&\001", line)
        gsub(/type \001/, ctype " ", line)
        sub(/^ +/, i > 1 && body[i - 1] !~ /;/ ? "        " : "", line)
        print line
        note_names(line)
    }
}

FNR == 1 { started = 0 }
/^#define WEFT_H$/ { started = 1; next }
FILENAME ~ /types\.h$/ && /^\/\* -+ .* \*\/$/ { started = 1 }
!started {
    # The head comment: what the library is and what a program may rely on.
    if (/^\/\* Weft:/) { head = 1; sub(/^\/\* /, "") }
    if (head) {
        line = $0
        last = sub(/ \*\/$/, "", line)
        sub(/^ \* ?/, "", line)
        text = text line "\n"
        if (last) { print_text(text); text = ""; head = 0 }
    }
    next
}

/^\/\* -+ .* \*\/$/ {
    close_code()
    section = $0
    sub(/^\/\* -+ /, "", section)
    sub(/ \*\/$/, "", section)
    print ""
    print "## " toupper(substr(section, 1, 1)) substr(section, 2)
    next
}

# A macro with a continued body: the atomics are expanded, the lists are shown.
/^#define WEFT_ATOMIC_DECLARE/ { gathering = 1; n_body = 0; next }
gathering {
    line = $0
    more = sub(/ *\\$/, "", line)
    body[++n_body] = line
    if (!more) { gathering = 0; expand("32", "uint32_t"); expand("64", "uint64_t") }
    next
}
/^WEFT_[A-Z_]+LIST\(/ || /^#undef/ { next }

# The C++ spelling of a declaration is left out, and what is only for the preprocessor.
/^#ifdef __cplusplus/ { cplusplus = 1; next }
cplusplus && /^#(else|endif)/ { cplusplus = 0; next }
cplusplus { next }
/^#(ifdef|ifndef|else|endif|include)/ { next }

/^\/\*/ {
    in_comment = 1
    text = ""
    sub(/^\/\* ?/, "")
}
in_comment {
    line = $0
    last = sub(/ *\*\/.*$/, "", line)
    sub(/^ \* ?/, "", line)
    text = text (text == "" ? "" : "\n") line
    if (last) { in_comment = 0; print_text(text) }
    next
}

/^$/ { if (in_code) blank = 1; next }
{
    if (blank && in_code) print ""
    blank = 0
    open_code()
    line = $0
    sub(/ +\\$/, " \\", line)
    print line
    if (!/^#/ && !/^ *X\(/ && !/^ *WEFT_[A-Z]/)
        note_names($0)
}

END {
    close_code()
    print ""
    print "## Index"
    print ""
    for (i = 2; i <= n_names; i++)
        for (j = i; j > 1 && names[j] < names[j - 1]; j--) {
            swap = names[j]; names[j] = names[j - 1]; names[j - 1] = swap
        }
    for (i = 1; i <= n_names; i++)
        print "- `" names[i] "` (" section_of[names[i]] ")"
}
