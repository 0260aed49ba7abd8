#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Walks the calls of docs/architecture.md ("Calls, followed") with a debugger: runs each on two PEs, PE 0 under gdb, and
# compares the functions that it enters with the list: those of the list come in its order, but for those of another
# branch (else:). Exit status 77: no gdb here, or one list cannot be walked.
#   walk.sh SOURCE_FOLDER WEFT WALK_PROGRAM FAKE_CUDA_FOLDER
set -euo pipefail
source=$1 weft=$2 program=$3 standins=$4
command -v gdb >/dev/null || { echo "skipped: no debugger here (package gdb)"; exit 77; }
gdb -batch -ex 'set startup-with-shell off' -ex starti -ex kill /bin/true 2>&1 </dev/null | grep -q 'killed' ||
    { echo "skipped: gdb may not trace a process here"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export WEFT_HEAP_SIZE=16M WEFT_WAIT_LIMIT=60s ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0
cd "$source"
head -c 200000 /dev/urandom >"$folder/data"
# PE 0 under the debugger. The launcher's variable names the PE.
cat >"$folder/pe" <<'END'
if [ "${WEFT_PE:-0}" = 0 ]; then
    # The next run takes the index of symbols that the one before it made.
    exec gdb -batch -q -iex 'set index-cache enabled on' -iex "set index-cache directory $WALK_INDEX" \
        -x "$WALK_SCRIPT" --args "$@" >"$WALK_SEEN.log" 2>&1 </dev/null
fi
exec "$@"
END
failures=0
# walk NUMBER NAME [VARIABLE=VALUE...]: the list of that number
walk() {
    local number=$1 name=$2
    shift 2
    awk -v number="$number" '/^```calls$/ { listing = ++n == number; next } /^```/ { listing = 0 } listing && $3 != "else:" { print $1 ":" $2 }' \
        docs/architecture.md >"$folder/list"
    rm -f "$folder/seen"
    timeout 100 env "$@" WALK="$(tr '\n' ' ' <"$folder/list")" WALK_SEEN="$folder/seen" \
        WALK_INDEX="$folder/index" WALK_SCRIPT="$source/tests/layout/walk.py" \
        "$weft" run -n 2 bash "$folder/pe" "$program" "$name" "$folder/data" >"$folder/out" 2>&1 || true
    if [ ! -s "$folder/seen" ]; then
        echo "walk $name: the program did not come to its end:" && cat "$folder/out" "$folder/seen.log" || true
        failures=$((failures + 1))
        return
    fi
    # Each function of the list must follow those before it.
    awk -v name="$name" 'FILENAME == ARGV[1] { sub(/:.*/, ""); wanted[++n] = $0; next } { seen[++m] = $0 }
        END {
            for (i = 1; i <= n; i++) {
                while (++at <= m && seen[at] != wanted[i]);
                if (at > m) {
                    printf "walk %s: %s() is not entered after %s(); entered were:", name, wanted[i], wanted[i - 1]
                    for (k = 1; k <= m; k++) printf " %s", seen[k]
                    print ""
                    exit 1
                }
            }
            printf "walk %s: %d functions in the order of the list\n", name, n
        }' "$folder/list" "$folder/seen" || failures=$((failures + 1))
}
walk 1 p2p WEFT_PATH=p2p
walk 2 net WEFT_PATH=net WEFT_FABRIC_PROVIDER=tcp
walk 3 gda WEFT_PATH=gda WEFT_HCA=soft
walk 4 device WEFT_TARGET=simt
walk 5 reduce LD_LIBRARY_PATH="$standins" WEFT_GPU_HEAP_SIZE=64M
if WEFT_FILE_BACKEND=uring "$weft" run -n 1 "$program" file "$folder/data" >"$folder/out" 2>&1; then
    walk 6 file WEFT_FILE_BACKEND=uring
else
    echo "skipped: walk file, because the system refuses io_uring: $(tail -n 1 "$folder/out")"
    [ $failures -gt 0 ] || exit 77
fi
exit $((failures > 0))
