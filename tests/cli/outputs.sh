#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The output of the smaller commands: env, version, help, explain of a running job, topo --svg,
# --html, --nccl and --watch, on described machines and over the stand-ins of the GPU drivers.
#   outputs.sh WEFT SOURCE FOLDER_OF_THE_STAND-INS JSON_GET HANGING_PROGRAM
set -u
weft=$1 machines=$2/tests/machine/machines standins=$3 json_get=$4 hang=$5
folder=$(mktemp -d)
trap 'kill $launcher 2> /dev/null; wait 2> /dev/null; rm -rf "$folder"' EXIT
launcher=
failures=0
fail() {
    printf 'FAILED: %s\n' "$*"
    [ -s "$folder/out" ] && head -n 40 "$folder/out"
    failures=$((failures + 1))
}
# expected status, text that must be in the output, command
expect() {
    local status=$1 text=$2
    shift 2
    timeout 100 "$@" > "$folder/out" 2>&1
    local got=$?
    [ $got -eq "$status" ] && { [ -z "$text" ] || grep -qF -- "$text" "$folder/out"; } || fail "$*: status $got, expected $status and \"$text\""
}
# paths, expected
json() {
    local seen
    seen=$("$json_get" $1 < "$folder/out")
    [ "$seen" = "$2" ] || fail "$1: $seen, not $2"
}

# --- version, help, wrong usage
version=$("$weft" version) || fail version
[[ $version =~ ^weft\ ([0-9]+\.[0-9]+\.[0-9]+)$ ]] || fail "version: $version"
expect 0 "$version" "$weft" --version
expect 0 "{\"version\": \"${BASH_REMATCH[1]}\"}" "$weft" version --json
expect 0 'weft COMMAND --help' "$weft" help
expect 2 'usage: weft COMMAND' "$weft"
expect 2 'there is no command "benhc"' "$weft" benhc
expect 2 'there is no option --jsonx; nearest: --json' "$weft" env --jsonx
expect 0 "$version" "$weft" -V
expect 0 'weft COMMAND --help' "$weft" -h
expect 0 'Usage: weft topo' "$weft" help topo
expect 0 'Usage: weft topo' "$weft" topo -h
expect 0 '-h' "$weft" run -n 1 echo -h # the program's own
expect 1 'WEFT_PATH names "foo", which is not a path' env WEFT_PATH=p2p,foo "$weft" env
cpu=$(taskset -cp $$ | sed 's/.*: //; s/[,-].*//')
expect 2 '--pes 5: at most 4 here' taskset -c "$cpu" "$weft" demo -n 5

# --- colours: on a terminal only, and neither where NO_COLOR is set nor where the terminal is dumb.
coloured() { # yes or no, setting of the environment, option
    timeout 100 env -u NO_COLOR TERM=xterm "$2" script -qec "$weft doctor -m $machines/no-gpu.json $3" /dev/null \
        > "$folder/out" 2>&1 < /dev/null
    grep -q 'nothing to fix' "$folder/out" || fail "a terminal, $2 $3: no verdict"
    case $1:$(grep -c $'\033\\[32mnothing to fix\033\\[0m' "$folder/out") in
    yes:1 | no:0) ;;
    *) fail "colours on a terminal, $2 $3: not $1" ;;
    esac
}
coloured yes A=1 ''
coloured yes NO_COLOR= ''
coloured no NO_COLOR=1 ''
coloured yes NO_COLOR=1 --color
coloured no TERM=dumb ''
coloured no A=1 --color=never

# --- more than four PEs for each CPU are asked for twice, at a terminal.
many=$((5 * $(nproc)))
answer() {
    (echo "$1"; sleep 2) |
        timeout 100 script -qec "$weft run -n $many sh -c 'echo started; exit 7'" /dev/null
}
answer n > "$folder/out" 2>&1
[ $? = 2 ] && grep -q "$many PEs on .* Start them? \[y/N\]" "$folder/out" &&
    ! grep -q 'started' "$folder/out" || fail "$many PEs refused at a terminal"
answer y > "$folder/out" 2>&1
[ $? = 7 ] && grep -q 'started' "$folder/out" || fail "$many PEs confirmed at a terminal"
expect 7 started "$weft" run -n $many sh -c 'echo started; exit 7'

# --- bench --compare: times by the repetitions, rates, rows of one run only.
cat > "$folder/a.json" << 'END'
{"bench": "put", "path": "p2p", "pes": 2, "bytes": 8, "us": 1.0, "us_min": 0.9, "us_max": 1.4}
{"bench": "put", "path": "p2p", "pes": 2, "bytes": 4096, "us": 2.0, "us_min": 1.9, "us_max": 2.2}
{"bench": "get", "path": "p2p", "pes": 2, "bytes": 8, "us": 3.0, "us_min": 2.9, "us_max": 3.1}
{"bench": "get", "path": "p2p", "pes": 2, "bytes": 16, "us": 3.0, "us_min": 2.5, "us_max": 3.1}
{"bench": "coll", "op": "allreduce", "way": "auto", "pes": 2, "bytes": 8, "graph_us": null, "stream_us": 5.0, "stream_min_us": 4.5}
{"bench": "file", "direction": "read", "block": 4096, "depth": 4, "bytes": 1048576, "weft_gbytes_per_s": 5.0}
{"bench": "only_a", "us": 1.0}
END
cat > "$folder/b.json" << 'END'
{"bench": "file", "direction": "read", "block": 4096, "depth": 4, "bytes": 1048576, "weft_gbytes_per_s": 4.0}
{"bench": "put", "path": "p2p", "pes": 2, "bytes": 8, "us": 1.3, "us_min": 0.95, "us_max": 1.4}
{"bench": "put", "path": "p2p", "pes": 2, "bytes": 4096, "us": 2.5, "us_min": 2.1, "us_max": 2.7}
{"bench": "get", "path": "p2p", "pes": 2, "bytes": 8, "us": 1.5, "us_min": 1.4, "us_max": 1.6}
{"bench": "get", "path": "p2p", "pes": 2, "bytes": 16, "us": 2.6, "us_min": 2.4, "us_max": 2.9}
{"bench": "coll", "op": "allreduce", "way": "auto", "pes": 2, "bytes": 8, "graph_us": 3.0, "stream_us": 5.1, "stream_min_us": 5.05}
END
cat > "$folder/expected" << END
A: $folder/a.json
B: $folder/b.json

benchmark                                    bytes         A         B    B/A
put                                            8 B   1.00 us   1.30 us  1.300
put                                          4 KiB   2.00 us   2.50 us  1.250  slower
get                                            8 B   3.00 us   1.50 us  0.500  faster
get                                           16 B   3.00 us   2.60 us  0.867
coll allreduce auto, on a stream               8 B   5.00 us   5.10 us  1.020
file, weft                                   1 MiB      5.00      4.00  0.800  slower

2 slower, 1 faster, 3 the same (less than 3 % apart, or within the repetitions)
weft bench: --compare: 1 rows are only in $folder/a.json, 0 only in $folder/b.json
END
expect 1 '2 slower' "$weft" bench --compare "$folder/a.json" "$folder/b.json"
sort "$folder/expected" | diff - <(sort "$folder/out") || fail "bench --compare prints something else"
sed -n 4p "$folder/a.json" | sed 's/"path": "p2p"/"path": "weak"/' >> "$folder/b.json"
expect 1 'get, path p2p ' "$weft" bench --compare "$folder/b.json" "$folder/a.json"
expect 1 '"figure":"us","a":2.0,"b":2.5,"b_over_a":1.25,"verdict":"slower"}' \
    "$weft" bench --compare "$folder/a.json" "$folder/b.json" --json
tail -n 1 "$folder/a.json" > "$folder/c.json"
expect 0 '1 the same' "$weft" bench --compare "$folder/a.json" "$folder/c.json"
expect 2 'name the second file' "$weft" bench --compare "$folder/a.json"
expect 2 'has no row of' "$weft" bench --compare "$folder/a.json" /dev/null
expect 2 'object 1: ' "$weft" bench --compare "$weft" "$folder/a.json"
expect 2 'nowhere.json: No such file' "$weft" bench --compare "$folder/a.json" nowhere.json
expect 2 'takes two files' "$weft" bench --compare "$folder/a.json" "$folder/b.json" c.json

# --- with --json a child that fails has its say: here the remote shell that does not exist.
expect 1 'nowhere/rsh: No such file or directory' "$weft" doctor --hosts a --rsh /nowhere/rsh --json --limit 20s

# --- info: the stand-in of the CUDA driver is found, and a library that is absent is named
expect 0 'CUDA driver         CUDA 1' env LD_LIBRARY_PATH="$standins" "$weft" info
expect 0 '"sanitizer":' "$weft" info --json
expect 0 'not found' env LD_LIBRARY_PATH=/nowhere "$weft" info

# --- env
expect 0 'WEFT_HEAP_SIZE' env -u WEFT_HEAP_SIZE "$weft" env
grep -qE '^WEFT_HEAP_SIZE +=.*\(default\)$' "$folder/out" || fail 'origin of a default'
expect 0 'WEFT_HEAP_SIZE' env WEFT_HEAP_SIZE=64M "$weft" env
grep -qE '^WEFT_HEAP_SIZE +=  *64M +\(environment\)$' "$folder/out" || fail 'origin of a value'
grep -qF '[auto|cuda|simt]' "$folder/out" || fail 'choices'
env_json=$("$weft" env --json) && grep -qF '"name": "WEFT_COLL_RATES"' <<<"$env_json" &&
    grep -A8 -F '"name": "WEFT_COLL_RATES"' <<<"$env_json" | sed '/}/q' | grep -q '"rates": ' ||
    fail "env --json: WEFT_COLL_RATES says nothing about rates"
expect 0 '"WEFT_HEAP_SIZE"' env WEFT_HEAP_SIZE=64M "$weft" env --json
"$json_get" '#' < "$folder/out" | grep -qE '^[2-9][0-9]$' || fail 'number of variables'
json '1.name 1.value 1.origin 1.default' 'WEFT_LOG warn default warn'
! grep -q WEFT_TEST_ "$folder/out" || fail 'a switch for tests that is not set is shown'
expect 0 'WEFT_TEST_SLOW' env WEFT_TEST_SLOW=seed=1 "$weft" env
! grep -q WEFT_TEST_SPIN "$folder/out" || fail 'another switch for tests is shown'
expect 0 'WEFT_TEST_SPIN' "$weft" env --all
expect 0 '"WEFT_TEST_SPIN"' "$weft" env --all --json
expect 1 'WEFT_SLOW has been replaced by WEFT_TEST_SLOW' env WEFT_SLOW=seed=1 "$weft" env
expect 1 'WEFT_HEAP_SIZ' env WEFT_HEAP_SIZ=1 "$weft" env
expect 1 'WEFT_TARGET' env WEFT_TARGET=gpu "$weft" env
expect 0 'WEFT_SECRET' env WEFT_SECRET=correct-horse-battery "$weft" env
grep -q 'correct-horse' "$folder/out" && fail 'the secret is printed'

# --- addresses that are empty or unknown end every output, --nccl included
sed '/"index"/s/"bdf": "0000:4[34]:00.0"/"bdf": ""/' "$machines/geforce-2-acs.json" > "$folder/empty.json"
sed 's/"bdf": "0000:4[34]:00.0"/"bdf": null/' "$machines/geforce-2-acs.json" > "$folder/null.json"
cat > "$folder/loop.json" << 'END'
{"weft-machine": 1, "pci": [{"bdf": "", "parent": "", "numa": 0, "kind": "root-port"},
 {"bdf": "", "parent": "", "numa": 0, "kind": "upstream"}], "gpus": [{"index": 0, "bdf": ""}]}
END
expect 2 'pci[0]: bdf is empty' "$weft" topo --machine "$folder/loop.json" --nccl
for machine in empty null loop; do
    for output in '' --nccl --tree --links --routes --json; do
        timeout 20 "$weft" topo --machine "$folder/$machine.json" $output > "$folder/out" 2>&1
        status=$?
        [ $status -le 2 ] || fail "topo --machine $machine $output: status $status"
    done
    timeout 20 "$weft" doctor --machine "$folder/$machine.json" > "$folder/out" 2>&1
    [ $? -le 2 ] || fail "doctor --machine $machine"
done
expect 0 '<nvlink target="ffff:ff:00.0" count="18"' "$weft" topo --machine "$machines/h200-2-vm.json" --nccl

# --- drawing: SVG and HTML, whole and with nothing from elsewhere
expect 0 '' "$weft" topo --machine "$machines/dgx-a100.json" --svg "$folder/graph.svg"
for line in '<svg xmlns="http://www.w3.org/2000/svg" width=' '>8 x NVIDIA A100-SXM4-80GB, NVLink through NVSwitch, 8 NICs<' \
    '>gpu0<' '>PCIe 4 x16<' '>mlx5_0<' '>200 Gbit/s<' '>nvme0n1<' '>PCIe switch<' '>NVSwitch<' '>12x<' '^</svg>$'; do
    grep -q "$line" "$folder/graph.svg" || fail "the picture has no $line"
done
expect 0 '>8 lines of 2x NVLink 2, 48.4 GB/s expected in one direction<' "$weft" topo --machine "$machines/dgx-1v.json" --svg -
sed 's/"name": "NVIDIA A100[^"]*"/"name": "<A\&B>"/' "$machines/dgx-a100.json" > "$folder/odd.json"
expect 0 '8 x &lt;A&amp;B&gt;' "$weft" topo --machine "$folder/odd.json" --svg -
expect 0 '>node 1<' "$weft" topo --machine "2 node, 2 socket, 4 gpu each, h100, nvswitch" --svg -
expect 2 'NCCL reads one file per node' "$weft" topo --machine "2 node, 2 socket, 4 gpu each, h100, nvswitch" --nccl
expect 1 'open /nowhere/graph.svg' "$weft" topo --machine "$machines/dgx-1v.json" --svg /nowhere/graph.svg
expect 0 '<td class="good">396<small>of 396</small></td>' "$weft" topo --machine "$machines/h200-2-measured.json" --html -
expect 0 '<td class="none">275<small>not verified</small></td>' "$weft" topo --machine "$machines/dgx-a100.json" --html -
"$weft" topo --machine "$machines/dgx-1v.json" --html - > "$folder/page.html"
grep -q '<svg' "$folder/page.html" || fail 'the page has no picture'
grep -qE '<script|<link|<img|src=|@import|url\(' "$folder/page.html" && fail 'the page asks for something from elsewhere'
"$weft" topo --machine "$folder/odd.json" --html - | grep -q '<A&B>' && fail 'a name is taken for HTML'

# --- counters as they grow
export LD_LIBRARY_PATH=$standins FAKE_CUDA_MEMORY=128
watch() {
    local status=$1 text=$2
    shift 2
    expect "$status" "$text" env "$@" "$weft" topo --watch=0.01 --times 4
}
watch 0 '2 GPUs, counters of NVLink and PCIe every 0.01 s' FAKE_CUDA_DEVICES=2
grep -q '+' "$folder/out" && fail 'growth where there is none'
watch 1 'gpu1 link 3 crc data +1' FAKE_NVML_GROW=2
[ "$(grep -c '^gpu1 link 3 crc data +1$' "$folder/out")" -eq 4 ] || fail 'one growth in each round'
watch 1 'gpu1 link 3 crc data +1' FAKE_NVML_GROW=1
[ "$(grep -c '^gpu1 link 3' "$folder/out")" -eq 1 ] || fail 'a growth is told once'
watch 0 '1 GPU, counters' FAKE_CUDA_DEVICES=1
expect 2 '--watch takes seconds' "$weft" topo --watch=0
unset LD_LIBRARY_PATH
expect 1 'weft topo: --watch: ' "$weft" topo --watch=0.01 --times 1

# --- the GPUs of a job that runs, and the path to its GPU memory
export LD_LIBRARY_PATH=$standins
gpu_path() {
    expect 0 "\"path\":\"$1\",\"memory\":\"gpu\"" env WEFT_HEAP_SIZE=64M WEFT_PATH="$2" "$weft" bench put \
        --memory gpu --sizes 1000 --iters 3 --repetitions 1 --json
}
gpu_path p2p ''
gpu_path weak weak
WEFT_HEAP_SIZE=16M "$weft" run -n 2 "$hang" > "$folder/pid" 2>&1 &
launcher=$!
for attempt in {1..200}; do
    pid=$(head -n 1 "$folder/pid")
    [ -n "$pid" ] && break
    sleep 0.05
done
expect 0 'host      p2p: 0->1, 1->0, tested; ' "$weft" explain --job "$pid"
# A job of another library is known by its GPUs alone.
sleep 60 &
foreign=$!
expect 0 'uses 0 GPUs: no pair to explain' "$weft" explain --job "$foreign"
FAKE_NVML_PIDS=0:$foreign expect 0 'uses 1 GPU: no pair to explain' "$weft" explain --job "$foreign"
FAKE_NVML_PIDS=0:1,1:$foreign expect 0 'uses 1 GPU: no pair to explain' "$weft" explain --job "$foreign"
kill $foreign
# PE 1 is found through the launcher that PE 0 has, too
other=$(ps -o pid= --ppid $launcher | tr -d ' ' | grep -vx "$pid" | head -n 1)
FAKE_NVML_PIDS=0:$pid,1:$other expect 0 'gpu0 -> gpu1' "$weft" explain --job "$pid"
grep -q '^gpu1 -> gpu0' "$folder/out" || fail 'both directions'
FAKE_NVML_PIDS=0:$pid,1:$other expect 0 '"a": "gpu0"' "$weft" explain --job "$pid" --json
json 'gpus.# gpus.0.a gpus.0.b gpus.1.a gpus.1.b' '2 gpu0 gpu1 gpu1 gpu0'
expect 1 'there is no process 4194305' "$weft" explain --job 4194305
exit $((failures > 0))
