#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: functions.sh SOURCE [CC-OPTION...]
# Every function that nvshmem.h and nvshmemx.h define: where TAB result TAB name TAB parameters.
set -eu
source=$1
shift
printf '#include <nvshmem.h>\n#include <nvshmemx.h>\n' |
    ${CC:-cc} -E -P -I "$source/include" -DWEFT_NV_MARKS "$@" -x c - |
    tr '\n' ' ' | # a text that grows line by line takes seconds
    awk -f "$source/tests/nvshmem/functions.awk"
