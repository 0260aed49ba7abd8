# SPDX-License-Identifier: Apache-2.0
# Makes the page of all functions of nvshmem.h from the output of functions.sh: those of one family
# are listed under its name, with TYPE, OP or SIZE for the variable part.
BEGIN {
    FS = "\t"
    types = "bfloat16|half|float|double|char|short|schar|int|long|longlong|uchar|ushort|uint|ulong|ulonglong|int8|int16|int32|int64|uint8|uint16|uint32|uint64|size|ptrdiff"
    said["host"] = "Host."
    said["device"] = "Device code."
    said["both"] = "Host and device code."
}
{
    family = $3
    if (match(family, "^nvshmemx?_(" types ")_")) {
        start = family ~ /^nvshmemx_/ ? 10 : 9
        family = substr(family, 1, start - 1) "TYPE" substr(family, RLENGTH)
        sub(/_(and|or|xor|min|max|sum|prod)_reduce/, "_OP_reduce", family)
    }
    sub(/(put|get)(8|16|32|64|128)/, "&SIZE", family)
    sub(/(8|16|32|64|128)SIZE/, "SIZE", family)
    if (!(family in lines)) {
        order[++n] = family
        where[family] = $1
    }
    lines[family] = lines[family] $2 ($2 ~ /\*$/ ? "" : " ") $3 $4 ";\n"
    count++
}
END {
    print "# NVSHMEM reference\n"
    print "Every function of `nvshmem.h` and `nvshmemx.h`. Made from the headers by `./dev docs`. What"
    print "differs from NVSHMEM and what is left out: weft-nvshmem(7). " count " functions in " n " families."
    for (i = 1; i <= n; i++)
        printf "\n## %s\n\n%s\n\n```c\n%s```\n", order[i], said[where[order[i]]], lines[order[i]]
}
