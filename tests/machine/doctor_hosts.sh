#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# doctor_hosts.sh WEFT MACHINES: `weft doctor --hosts` over hosts that are recorded machines. The
# test's own remote shell runs the command on this machine with the file that has the host's name,
# or fails as real ones do. Also `--prometheus`, whose output is checked against the text format.
set -u
weft=$1 machines=$2
folder=$(mktemp -d)
out=$folder/out bad=0
trap 'rm -rf "$folder"' EXIT
unset WEFT_RSH SLURM_JOB_NODELIST

fail() {
    echo "FAILED: $*"
    sed 's/^/    /' "$out"
    bad=1
}
run() { # STATUS COMMAND...
    local wanted=$1 status
    shift
    "$@" >"$out" 2>&1
    status=$?
    [ $status = "$wanted" ] || fail "status $status in place of $wanted: $*"
}
says() { grep -qE -- "$1" "$out" || fail "nobody says: $1"; }
says_not() { ! grep -qE -- "$1" "$out" || fail "somebody says: $1"; }

# Gets the host's name and a command. n1 ... n9: a machine with NVLink; those below are its faults.
cat >"$folder/rsh" <<'END'
#!/usr/bin/env bash
host=$1 base=$MACHINES/dgx-a100.json
shift
good() { exec "$@" --machine "$base"; }
case $host in
n[0-9] | n[0-9][0-9]) good "$@" ;;
bare) exec "$@" --machine "$MACHINES/no-gpu.json" ;;
slow) exec "$@" --machine "$base" --what-if 'set ports[0].mbit 100000; set gpus[3].pcie_width 8' ;;
old | older) exec "$@" --machine "$base" --what-if 'set drivers.driver 535.1; set drivers.nvidia_module 535.1' ;;
broken) exec "$@" --machine "$base" --what-if 'set gpus[2].ecc_uncorrected 3; set gpus[6].ecc_uncorrected 1' ;;
talks) echo "Welcome to $host"; echo weft-node-report of yesterday; good "$@" ;;
away) echo "ssh: connect to host away port 22: No route to host" >&2; exit 255 ;;
without) echo "bash: line 1: $1: No such file or directory" >&2; exit 127 ;;
mute) exit 0 ;;
cut) "$@" --machine "$base" | head -c 700; exit 0 ;;
later) printf 'weft-node-report\n{"weft-node-report":9}\n'; exit 0 ;;
fork) (sleep 20) & good "$@" ;;
hangs) echo "The authenticity of host cannot be established" >&2; exec sleep 100 ;;
dies) kill -9 $$ ;;
esac
END
chmod +x "$folder/rsh"
export MACHINES=$machines
doctor=("$weft" doctor --full --rsh "$folder/rsh")

# Alike, in whatever order they answer; the first is not the measure.
run 0 "${doctor[@]}" --hosts 'n1,n2,n[3-5]'
says '^5 nodes, compared with the majority of them$'
says '^alike +5 nodes n\[1-5\]$'
says '^5 alike, 0 deviate, 0 not reached$'
run 0 "${doctor[@]}" --hosts 'n[08-11]' --hosts talks
says 'n\[08-11\],talks$'

# Outliers, one line each, equal ones together.
run 1 "${doctor[@]}" --hosts 'slow,n[1-4],old,n5,older,broken,bare'
says '^alike +5 nodes n\[1-5\]$'
says '^DIFFERS +slow: gpu_pcie_width 8, 16 expected; port_mbit_per_s 100000, 200000 expected; NIC-RATE at mlx5_0$'
says '^DIFFERS +2 nodes old,older: driver 535\.1, 550\.54\.15 expected; nvidia_module 535\.1, 550\.54\.15 expected$'
says '^FAULT +broken: GPU-ECC at gpu2, gpu6$'
says '^DIFFERS +bare: .*gpus 0, 8 expected'
says '^5 alike, 5 deviate, 0 not reached$'
[ "$(wc -l <"$out")" = 7 ] || fail "not a line for each"

# No line has more than 100 columns, and the words are the same.
"${doctor[@]}" --hosts 'slow,n[1-4],old,n5,older,broken,bare,away' >"$folder/full" 2>&1
run 1 "$weft" doctor --rsh "$folder/rsh" --hosts 'slow,n[1-4],old,n5,older,broken,bare,away'
! awk 'length($0) > 100 { bad = 1 } END { exit !bad }' "$out" || fail "more than 100 columns"
[ "$(wc -l <"$out")" -gt 8 ] || fail "nothing was folded"
diff <(tr -s ' \n' '\n\n' <"$folder/full") <(tr -s ' \n' '\n\n' <"$out") >/dev/null || fail "other words without --full"

# Who cannot be reached is named with the reason, the others are judged all the same.
run 1 "${doctor[@]}" --hosts 'n1,away,without,mute,cut,later,dies,n2'
says '^alike +2 nodes n\[1,2\]$'
says '^NOT REACHED +away: the remote shell ended with status 255: ssh: connect to host away port 22: No route to host$'
says '^NOT REACHED +without: the remote shell ended with status 127: bash: .*No such file'
says '^NOT REACHED +mute: it sent no report$'
says '^NOT REACHED +cut: its report is truncated$'
says '^NOT REACHED +later: its report has version 9, this weft reads 1'
says '^NOT REACHED +dies: the remote shell was killed by signal 9$'
says '^2 alike, 0 deviate, 6 not reached$'

# A host that hangs has its time, and nothing of its shell is left; one that leaves something behind is judged.
run 1 "${doctor[@]}" --limit 12s --hosts 'hangs,n1,fork'
says '^NOT REACHED +hangs: no answer in 12 s: The authenticity of host cannot be established$'
says '^alike +2 nodes n1,fork$'

# Beside an expectation.
echo '{"weft-expect": 1, "gpus": 8, "driver": ">= 545", "nics": 9}' >"$folder/expect.json"
run 1 "${doctor[@]}" --hosts 'n[1-2],old' --against "$folder/expect.json"
says "^3 nodes, compared with $folder/expect.json"
says '^DIFFERS +2 nodes n\[1,2\]: nics 8, 9 expected$'
says '^DIFFERS +old: driver 535\.1, >= 545 expected; nics 8, 9 expected$'
run 0 "${doctor[@]}" --hosts 'n1,n2' --against "$machines/dgx-a100.json"
says '^as expected +2 nodes n\[1,2\]$'

# JSON.
run 1 "${doctor[@]}" --json --hosts 'n1,n2,slow,away'
says '"expected_by": "majority"'
says '"deviating": 1,?$'
says '"not_reached": 1'
says '"why": "the remote shell ended with status 255'
says '"fact": "port_mbit_per_s"'

# A Slurm allocation: srun is the shell, unless another was named.
run 2 "$weft" doctor --allocation
says 'SLURM_JOB_NODELIST is not set'
mkdir "$folder/bin"
# shellcheck disable=SC2016
printf '#!/bin/sh\n[ "$1 $2 $3 $4 $5" = "--overlap --quiet --nodes=1 --ntasks=1 --nodelist" ] || exit 9\nshift 5\nexec "%s/rsh" "$@"\n' \
    "$folder" >"$folder/bin/srun"
chmod +x "$folder/bin/srun"
run 0 env PATH="$folder/bin:$PATH" SLURM_JOB_NODELIST='n[1-3],n07' "$weft" doctor --allocation
says '^alike +4 nodes n\[1-3\],n07$'

# What cannot be meant.
run 2 "${doctor[@]}" --hosts 'n[1-'
says 'expected numbers in the brackets'
run 2 "${doctor[@]}" --hosts 'n[4-1]'
run 2 "${doctor[@]}" --hosts 'n[1-99999999]'
run 2 "${doctor[@]}" --hosts 'n1;reboot'
says 'weft doctor: .*is not the name of a host'
run 2 "${doctor[@]}" --hosts n1 --machine "$machines/no-gpu.json"
run 2 "${doctor[@]}" --hosts n1 --limit soon
run 2 "${doctor[@]}" --hosts n1 --against "$folder/rsh"
run 2 "$weft" doctor --job --quick
says 'is not a PE of a job'

# In a job on one node PE 0 speaks for all.
"$weft" run -n 3 "$weft" doctor --quick >"$out" 2>&1
[ "$(grep -c '^machine live$' "$out")" = 1 ] || fail "not one judgement of 3 PEs"

# --- metrics ---------------------------------------------------------------------------------------

# The text format: names, one HELP and TYPE before the samples of a name and all of them together, counters end
# in _total, labels quoted, a number behind, no sample twice, a newline at the end.
check_format() {
    awk '
    function bad(why) { print FILENAME ":" FNR ": " why ": " $0; faults++ }
    /^# HELP / { if (helped[$3]++) bad("a second HELP"); name = $3; next }
    /^# TYPE / {
        if ($3 != name) bad("TYPE of another name");
        if ($4 != "gauge" && $4 != "counter") bad("no type");
        if (($4 == "counter") != (name ~ /_total$/)) bad("only counters end in _total");
        if (typed[$3]++) bad("a second TYPE");
        next
    }
    {
        if (!match($0, /^[a-zA-Z_:][a-zA-Z0-9_:]*/)) { bad("no name"); next }
        if (substr($0, 1, RLENGTH) != name) bad("outside its block");
        if (!typed[name]) bad("no TYPE");
        rest = substr($0, RLENGTH + 1);
        if (rest ~ /^\{/ && !match(rest, /^\{[a-zA-Z_][a-zA-Z0-9_]*="([^"\\]|\\\\|\\"|\\n)*"(,[a-zA-Z_][a-zA-Z0-9_]*="([^"\\]|\\\\|\\"|\\n)*")*\}/)) { bad("labels"); next }
        labels = rest ~ /^\{/ ? substr(rest, 1, RLENGTH) : "";
        value = substr(rest, length(labels) + 1);
        if (value !~ /^ (-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?|NaN|[-+]Inf)$/) bad("value");
        if (seen[name labels]++) bad("twice");
        samples++
    }
    END { if (!samples) { print "no sample"; faults++ } exit faults > 0 }' "$1" >"$out" || fail "format of $1"
    [ -z "$(tail -c 1 "$1")" ] || fail "$1 does not end in a newline"
}
for file in "$machines"/*.json; do
    "$weft" doctor --machine "$file" --prometheus >"$folder/metrics.txt" 2>"$out" || [ $? = 1 ] || fail "$file"
    check_format "$folder/metrics.txt"
done
# The check itself sees what is wrong.
for wrong in 'weft_x 1' '# HELP a b\n# TYPE a gauge\na{b="c} 1' '# HELP a b\n# TYPE a gauge\na 1\na 1' \
    '# HELP a b\n# TYPE a counter\na 1' '# HELP a b\n# TYPE a gauge\na one' '# HELP a b\n# TYPE a gauge\nb 1'; do
    printf '%b\n' "$wrong" >"$folder/wrong.txt"
    before=$bad
    check_format "$folder/wrong.txt" >/dev/null
    [ $bad = 1 ] || { bad=1 && echo "FAILED: taken for metrics: $wrong"; continue; }
    bad=$before
done

# Values in base units; whole or not at all, readable for the collector, nothing left beside it.
mkdir "$folder/textfile"
run 0 "$weft" doctor --machine "$machines/dgx-a100.json" --prometheus="$folder/textfile/weft.prom" \
    --against "$machines/dgx-a100.json"
cp "$folder/textfile/weft.prom" "$out"
says '^weft_nic_port_rate_bytes_per_second\{nic="mlx5_0",port="1"\} 25000000000$'
says '^weft_link_line_rate_bytes_per_second\{gpu="0",link="0"\} 25000000000$'
says '^weft_gpu_memory_bytes\{gpu="7"\} 85899345920$'
says '^weft_doctor_faults\{check="rdma"\} 0$'
says '^weft_doctor_differences 0$'
[ "$(ls -A "$folder/textfile")" = weft.prom ] || fail "something is left beside the file"
[ "$(stat -c %a "$folder/textfile/weft.prom")" = 644 ] || fail "the collector may not read it"
run 1 "$weft" doctor --machine "$machines/dgx-a100.json" --what-if 'set gpus[2].ecc_uncorrected 3;
    set pci[0000:03:00.0].aer_correctable 5; set ports[2].retransmits 7; set gpus[1].rows_uncorrected 2' \
    --prometheus="$folder/textfile/weft.prom"
cp "$folder/textfile/weft.prom" "$out"
says '^weft_doctor_findings\{code="GPU-ECC",weight="[a-z]+",place="gpu2"\} 1$'
says '^weft_gpu_ecc_uncorrected_errors_total\{gpu="2"\} 3$'
says '^weft_pci_corrected_errors_total\{pci="0000:03:00.0"\} 5$'
says '^weft_nic_port_retransmits_total\{nic="mlx5_2",port="1"\} 7$'
says '^weft_gpu_remapped_rows\{gpu="1"\} 2$'
says_not differences
run 2 "$weft" doctor --machine "$machines/dgx-a100.json" --prometheus=/nowhere/weft.prom
says '/nowhere/weft.prom: No such file or directory'
"${doctor[@]}" --hosts 'n1,slow,away' --prometheus="$folder/textfile/nodes.prom" >"$out" 2>&1
check_format "$folder/textfile/nodes.prom"
cp "$folder/textfile/nodes.prom" "$out"
says '^weft_node_reached\{node="away"\} 0$'
says '^weft_node_differences\{node="slow"\} 2$'
says_not 'weft_node_faults\{node="away"'

[ $bad = 0 ] && echo "doctor over hosts: passed"
exit $bad
