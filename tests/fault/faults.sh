#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# faults.sh BUILD [KILLS]: KILLS random kills under each launcher (1000), then the sweep, in which
# every use of every system call fails once. This takes long; CTest has the short form.
set -u
build=$1 kills=${2:-1000} bad=0
module=$(find "$build" -name '*fail_at.so' | head -n 1)
for launcher in run rank mpirun; do
    [ $launcher = mpirun ] && ! command -v mpirun >/dev/null && continue
    count=$kills
    [ $launcher = run ] || count=$(((kills + 9) / 10)) # these start slowly
    "$build/bin/random_kills" $launcher "$build/bin/weft" "$build/bin/torture" "$count" || bad=1
done
"$(dirname "$0")/sweep.sh" "$build/bin/weft" "$build/bin/once" "$module" || bad=1
exit $bad
