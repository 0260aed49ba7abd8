#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the same OpenSHMEM benchmark with Weft and with other libraries, in turn, several rounds, and
# prints medians side by side. What is not installed is said to be absent.
#
#   bench/compare/run.sh [-r ROUNDS] [-n PES] [-b BUILD] [-q] [-s] [-t] [-h]
#     -r  rounds (5)          -n  PEs of the benchmark (2)
#     -b  Weft's build folder (build)
#     -q  8 bytes alone, no start-up and memory
#     -s  start-up and memory only
#     -t  over TCP on the loopback interface, no start-up and memory: Weft's path net (libfabric), Open MPI's UCX
#
# Peers: ompi (Debian: openmpi-bin, libopenmpi-dev).
set -euo pipefail
cd "$(dirname "$0")/../.."

rounds=5 pes=2 build=build only_start= small= tcp=
while getopts r:n:b:qsth option; do
    case $option in
    r) rounds=$OPTARG ;;
    n) pes=$OPTARG ;;
    b) build=$OPTARG ;;
    q) small=small ;;
    s) only_start=1 ;;
    t) tcp=1 ;;
    *) sed -n '3,15s/^# \{0,1\}//p' "$0"; [ "$option" = h ] && exit 0; exit 2 ;;
    esac
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
here=bench/compare
cpus=$(nproc)
export WEFT_HEAP_SIZE=1G SHMEM_SYMMETRIC_SIZE=512M

# ------------------------------------------------------------------------------------- peers
# Each side: NAME_bench and NAME_hello in $work, and start_NAME PES PROGRAM.
sides=() absent=()

if [ -n "$tcp" ]; then
    export WEFT_PATH=net WEFT_FABRIC_PROVIDER=tcp WEFT_FABRIC_INTERFACE=lo
    export UCX_TLS=tcp,self UCX_NET_DEVICES=lo
fi

start_weft() { "$build/bin/weft" run -n "$1" "$2" $small; }
start_weft_api() { start_weft "$@"; }

# Open MPI's one-sided component `rdma` crashes in shmem_finalize as Debian 12 packages it.
start_ompi() {
    local place=(--oversubscribe)
    [ "$1" -le "$cpus" ] && place=(--bind-to core)
    # Left alone it takes UCX for RDMA alone.
    [ -z "$tcp" ] || place+=(-mca pml ucx -mca spml ucx -mca opal_common_ucx_tls any
        -mca opal_common_ucx_devices any -x UCX_TLS -x UCX_NET_DEVICES)
    mpirun --allow-run-as-root "${place[@]}" -mca osc ^rdma -x SHMEM_SYMMETRIC_SIZE -np "$1" "$2" $small
}

for name in weft weft_api; do
    if [ -x "$build/bin/compare_bench_$name" ]; then
        for program in bench hello; do
            cp "$build/bin/compare_${program}_$name" "$work/${name}_$program"
        done
        sides+=("$name")
    else
        absent+=("$name: $build/bin/compare_bench_$name is not there; build Weft first")
    fi
done
if command -v oshcc >/dev/null && command -v mpirun >/dev/null; then
    for program in bench hello; do
        oshcc -O3 -o "$work/ompi_$program" "$here/shmem_$program.c"
    done
    sides+=(ompi)
else
    absent+=("ompi: no oshcc or mpirun; apt-get install openmpi-bin libopenmpi-dev")
fi
if [ ${#sides[@]} -eq 0 ]; then
    printf '%s\n' "${absent[@]}" >&2
    exit 1
fi

# --------------------------------------------------------------------------------- conditions
say() { [ -t 2 ] && printf '\r\033[K%s' "$*" >&2 || true; }

echo "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $cpus CPUs, Linux $(uname -r)," \
     "load $(cut -d' ' -f1 /proc/loadavg)"
for side in "${sides[@]}"; do
    case $side in
    weft) echo "weft      $("$build/bin/weft" version), its shmem.h" ;;
    weft_api) echo "weft_api  $("$build/bin/weft" version), weft.h called directly" ;;
    ompi) echo "ompi      $(mpirun --version | head -1), OpenSHMEM as packaged, -mca osc ^rdma" ;;
    esac
done
[ -z "$tcp" ] || echo "wire      TCP on lo: weft by libfabric (WEFT_PATH=net), ompi by UCX (UCX_TLS=tcp,self)"
[ ${#absent[@]} -eq 0 ] || printf 'absent    %s\n' "${absent[@]}"
awk '{exit !($1 > 0.7)}' /proc/loadavg && echo "WARNING   this machine is busy; figures are not to be trusted"
echo

# Prints, for the lines "side metric bytes value" on stdin, a table of medians with the ratio of
# the last side (the peer) to the first, and the machine's own figure beside it where there is one.
table() {
    awk -v sides="${sides[*]}" -v unit="$1" -v column="$2" '
        function median(key,   n, i, j, t, v) {
            n = split(values[key], v, " ")
            for (i = 2; i <= n; i++)
                for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) {
                    t = v[j]; v[j] = v[j - 1]; v[j - 1] = t
                }
            return n ? (n % 2 ? v[(n + 1) / 2] + 0 : (v[n / 2] + v[n / 2 + 1]) / 2) : -1
        }
        function text(value) {
            if (value < 0) return "-"
            if (unit != "us") return sprintf("%.2f %s", value, unit)
            return value < 1 ? sprintf("%.1f ns", value * 1000) : sprintf("%.2f us", value)
        }
        $1 == "floor" {floors = 1}
        {
            row = $2 " " $3
            if (!(row in seen)) { seen[row] = 1; rows[++count] = row }
            values[$1 " " row] = values[$1 " " row] " " $4
        }
        END {
            n = split(sides, side, " ")
            printf "%-12s %9s", "metric", column
            for (i = 1; i <= n; i++) printf " %13s", side[i]
            if (n > 1) printf "  %9s", side[n] "/" side[1]
            if (floors) printf " %13s", "bare machine"
            printf "\n"
            for (r = 1; r <= count; r++) {
                split(rows[r], part, " ")
                printf "%-12s %9s", part[1], part[2]
                for (i = 1; i <= n; i++) {
                    m[i] = median(side[i] " " rows[r])
                    printf " %13s", text(m[i])
                }
                if (n > 1 && m[1] > 0 && m[n] > 0) printf "  %9.2f", m[n] / m[1]
                if (floors) printf " %13s", text(median("floor " rows[r]))
                printf "\n"
            }
        }'
}

failed=
one_run() { # side program pes
    if ! "start_$1" "$3" "$work/$1_$2" >"$work/out" 2>"$work/err"; then
        failed=1
        say ""
        echo "FAILED    $1 $2 with $3 PEs: $(tail -1 "$work/err")"
    fi
    grep '^WRONG' "$work/out" || true
}

# What the machine does without a library, in the same round: memcpy, cache lines, single accesses.
floors() {
    [ "$pes" -gt 1 ] && [ -z "$tcp" ] || return 0
    "$build/bin/weft" bench put --json --no-verify --pes "$pes" --sizes 8,1K,64K,1M,64M \
        >"$work/out" 2>"$work/err" || return 0
    awk '
        function field(name) {
            if (!match($0, "\"" name "\":[-0-9.e]+"))
                return "-"
            return substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3)
        }
        {
            print "floor put", field("bytes"), field("memcpy_us")
            print "floor get", field("bytes"), field("memcpy_us")
        }
        NR == 1 {
            print "floor p 8", field("store_us")
            print "floor g 8", field("load_us")
            print "floor fetch_add 8", field("atomic_us")
            print "floor add 8", field("atomic_us")
            print "floor ping_pong 8", field("two_lines_us")
            print "floor barrier 0", field("two_lines_us")
            print "floor sync 0", field("two_lines_us")
        }' "$work/out" >>"$work/figures"
}

# ------------------------------------------------------------------------------- the figures
if [ -z "$only_start" ]; then
    for round in $(seq "$rounds"); do
        for side in "${sides[@]}"; do
            say "round $round of $rounds: $side"
            one_run "$side" bench "$pes"
            awk -v s="$side" 'NF == 3 && $2 ~ /^[0-9]+$/ {print s, $0}' "$work/out" >>"$work/figures"
        done
        floors
    done
    say ""
    echo "$pes PEs, median of $rounds runs each, taken in turn"
    table us bytes <"$work/figures"
    echo
fi
[ -z "$small$tcp" ] || exit "${failed:-0}"

for round in $(seq "$rounds"); do
    for n in 2 4 16; do
        for side in "${sides[@]}"; do
            say "start-up, round $round of $rounds: $side, $n PEs"
            from=$(date +%s%N)
            one_run "$side" hello "$n"
            to=$(date +%s%N)
            awk -v s="$side" -v n="$n" -v ns=$((to - from)) '
                /^rss_kb/ {rss += $2; pss += $4; k++}
                END {
                    print s, "wall", n, ns / 1e6 > "/dev/stdout"
                    if (k) print s, "rss", n, rss / k / 1024 > "/dev/stderr"
                    if (k) print s, "pss", n, pss / k / 1024 > "/dev/stderr"
                }' "$work/out" >>"$work/walls" 2>>"$work/memory"
        done
    done
done
say ""
echo "hello: wall time of the whole program, launcher and all"
table ms PEs <"$work/walls"
echo
echo "hello: memory per PE (rss: resident; pss: shared pages counted in parts)"
table MiB PEs <"$work/memory"
[ -z "$failed" ]
