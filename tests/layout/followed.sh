#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the lists of calls in docs/architecture.md ("Calls, followed"): each function is defined in the file that is
# named, and calls the functions one step deeper in the order of the list.
#   followed.sh SOURCE_FOLDER
set -euo pipefail
cd "$1"
awk '
    # The body of a function: from the line that begins its definition to the first "}" at the margin.
    function body_of(name, file,    line, inside, text, head) {
        if ((file, name) in bodies) return bodies[file, name]
        while ((getline line < file) > 0) {
            if (!inside && line ~ "^[A-Za-z_].*[ *]" name "\\(" && line !~ /;[ \t]*$/) inside = 1
            if (inside) text = text line "\n"
            if (inside && line ~ /;[ \t]*$/ && text !~ /\{/) { inside = 0; text = "" } # a declaration
            if (inside && line ~ /^}/) break
        }
        close(file)
        return bodies[file, name] = text
    }
    function fault(message) { print "docs/architecture.md:" NR ": " message; bad = 1 }
    /^```calls$/ { listing = 1; delete stack; lists++; next }
    /^```/ { listing = 0; next }
    listing {
        match($0, /^ */)
        depth = RLENGTH / 2
        name = $1
        file = $2
        text = body_of(name, file)
        functions++
        if (text == "") { fault(name "() is not defined in " file); next }
        if (depth > 0) {
            caller = stack[depth - 1]
            rest = substr(body_of(caller, files[caller]), after[depth - 1])
            call = index($0, "->") ? "(->|\\.)" member($0) "\\(" : "[^A-Za-z0-9_](" name "\\(|WEFT_DEV_CALL_(RARELY|SLOW)\\(" name ",)"
            at = match(rest, call)
            if (!at) fault(caller "() does not call " name "() here")
            else after[depth - 1] += at + RLENGTH - 1
        }
        stack[depth] = name
        files[name] = file
        after[depth] = index(text, "{")
    }
    function member(line,    m) { m = line; sub(/.*->/, "", m); sub(/[^a-z_].*/, "", m); return m }
    END {
        if (lists < 6) { print "docs/architecture.md has " lists + 0 " lists of calls, not 6"; bad = 1 }
        if (!bad) print functions " calls in " lists " lists"
        exit bad
    }' docs/architecture.md
