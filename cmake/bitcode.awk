# SPDX-License-Identifier: Apache-2.0
# Makes the source of weft_device.bc from the preprocessed <weft_device.h>, in which "@" stands before
# each device function: the operations that one thread, warp or block calls, in two forms,
#   weft_state_block_put(state, dst, src, bytes, pe)   with the address of the state, and
#   weft_block_put(dst, src, bytes, pe)                with the state in weft_dev_state.
# Compilers of other languages call them: addresses and sizes are numbers of 64 bits, enumerations
# of 32, and every function has a result, 0 where the operation has none.
#   -v small=1   the first form alone, and of the collectives only meet, sync and barrier

BEGIN {
    RS = "@"
    print "/* Made by cmake/bitcode.awk. */"
    print "#define WEFT_STATE_BY_POINTER"
    print "#include <weft_device.h>\n"
    print "extern \"C\" {"
    if (!small)
        print "__attribute__((weak)) __constant__ struct weft_dev weft_dev_state;\n"
    print "__device__ int weft_state_version(void)\n{\n    return WEFT_DEV_VERSION;\n}"
}

# The type by which another language passes or gets a C type.
function outer(type) {
    if (type == "void")
        return "int"
    if (type ~ /\*/ || type == "size_t")
        return "uint64_t"
    if (type == "ptrdiff_t")
        return "int64_t"
    return type ~ /^weft_/ ? "int" : type
}

# Splits "const void *src" into the variables type and name.
function split_declaration(text) {
    gsub(/^ +| +$/, "", text)
    match(text, /[a-z0-9_]+$/)
    name = substr(text, RSTART)
    type = substr(text, 1, RSTART - 1)
    gsub(/ +$/, "", type)
}

function form(called, first, state, result, member, params, values) {
    print "\n__device__ " outer(result) " " called "(" first (first != "" && params != "" ? ", " : "") params ")"
    print "{\n    struct weft_device weft = {" state "};"
    if (result == "void")
        print "    weft." member "(" values ");\n    return 0;\n}"
    else
        print "    return (" outer(result) ")weft." member "(" values ");\n}"
}

match($0, /^[^({]*\([^)]*\)[ \n]*\{/) {
    head = substr($0, 1, RLENGTH - 1)
    gsub(/[ \n]+/, " ", head)
    open = index(head, "(")
    split_declaration(substr(head, 1, open - 1))
    member = name
    result = type
    if (member !~ /^weft_(thread|warp|block)_|^weft_dev_(my_pe|n_pes|ptr|team_my_pe|team_n_pes|team_translate)$/)
        next
    if (small && member ~ /broadcast|gather|scatter|alltoall|collect|reduce/)
        next
    list = substr(head, open + 1)
    sub(/\) *$/, "", list)
    params = values = ""
    n = list == "void" ? 0 : split(list, each, ",")
    for (i = 1; i <= n; i++) {
        split_declaration(each[i])
        params = params (i > 1 ? ", " : "") outer(type) " " name
        values = values (i > 1 ? ", " : "") "(" type ")" name
    }
    bare = member
    sub(/^weft_(dev_)?/, "", bare)
    form("weft_state_" bare, "uint64_t state", "*(const struct weft_dev *)state", result, member, params, values)
    if (!small)
        form(member, "", "weft_dev_state", result, member, params, values)
}

END { print "\n}" }
