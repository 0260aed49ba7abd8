#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Registers, stack and spills of the library's kernels, as ptxas told the build.
#   tools/kernels.sh BUILD           prints a line for each kernel and compute capability
#   tools/kernels.sh BUILD --check   fails where one is above its line in tests/gpu/kernels.txt, or has
#                                    none; 77 when the build has no cubins
set -eu
build=$1
logs=$(ls "$build"/src/gpu/*.cubin.txt 2>/dev/null) || {
    echo "$build has no cubins of the library: ptxas (CUDA toolkit) was not there"
    exit 77
}
# shellcheck disable=SC2086  # one word a file
figures=$(awk '
    FNR == 1 { arch = FILENAME; sub(/\.cubin\.txt$/, "", arch); sub(/.*\./, "", arch) }
    /Compiling entry function/ { name = $7; gsub("\047", "", name) }
    /Function properties for/ { own = $NF == name }
    /bytes stack frame/ && own { stack = $1; spill = $5 + $9; own = 0 }
    /Used [0-9]+ registers/ { print name, arch, $5, stack, spill }' $logs | sort)
if [ "${2:-}" != --check ]; then
    printf '%s\n' "kernel arch registers stack spills" "$figures" | column -t
    exit
fi
awk 'NR == FNR { if (!/^#/ && NF) { registers[$1] = $2; stack[$1] = $3; spill[$1] = $4 }; next }
     !($1 in registers) { print "tests/gpu/kernels.txt has no line for " $1; bad = 1; next }
     $3 > registers[$1] || $4 > stack[$1] || $5 > spill[$1] {
         print $1 " for sm_" $2 ": " $3 " registers, " $4 " bytes of stack, " $5 " of spills; at most " \
               registers[$1] ", " stack[$1] ", " spill[$1]
         bad = 1
     }
     END { exit bad }' tests/gpu/kernels.txt - <<<"$figures"
