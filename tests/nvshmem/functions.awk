# SPDX-License-Identifier: Apache-2.0
# Reads the preprocessed headers, with the qualifiers of a definition replaced by markers
# (surface.h), and prints each function: where TAB result TAB name TAB parameters. where: host,
# device or both.
{ text = text " " $0 }
END {
    gsub(/[ \t]+/, " ", text)
    n = split(text, parts, /WEFT_MARK_/)
    for (i = 2; i <= n; i++) {
        part = parts[i]
        where = tolower(substr(part, 1, index(part, " ") - 1))
        part = substr(part, index(part, " ") + 1)
        brace = index(part, "{")
        if (!brace)
            continue
        head = substr(part, 1, brace - 1)
        if (!match(head, /nvshmemx?_[A-Za-z0-9_]+ ?\(/))
            continue
        result = substr(head, 1, RSTART - 1)
        name = substr(head, RSTART, RLENGTH - 1)
        params = substr(head, RSTART + RLENGTH - 1)
        sub(/ $/, "", name); sub(/ +$/, "", result); sub(/ +$/, "", params)
        gsub(/\* /, "*", params); gsub(/\( /, "(", params); gsub(/ ,/, ",", params)
        if (result ~ /[,(]/ || name in seen)
            continue
        seen[name] = 1
        print where "\t" result "\t" name "\t" params
    }
}
