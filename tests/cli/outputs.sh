#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the smaller commands print: env, version, help, explain of a running job, topo --svg, --nccl and
# --watch, on written machines and over the stand-ins of the GPU drivers.
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
expect 2 'unrecognized option' "$weft" env --jsonx

# --- env
expect 0 'WEFT_HEAP_SIZE' env -u WEFT_HEAP_SIZE "$weft" env
grep -qE '^WEFT_HEAP_SIZE +=.*\(default\)$' "$folder/out" || fail 'origin of a default'
expect 0 'WEFT_HEAP_SIZE' env WEFT_HEAP_SIZE=64M "$weft" env
grep -qE '^WEFT_HEAP_SIZE +=  *64M +\(environment\)$' "$folder/out" || fail 'origin of a value'
grep -qF '[auto|cuda|simt]' "$folder/out" || fail 'choices'
expect 0 '"WEFT_HEAP_SIZE"' env WEFT_HEAP_SIZE=64M "$weft" env --json
"$json_get" '#' < "$folder/out" | grep -qE '^[2-9][0-9]$' || fail 'number of variables'
json '0.name 0.value 0.origin 0.default' 'WEFT_LOG warn default warn'
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

# --- drawing: a dot of our own shows what it is given, and how it ends
mkdir "$folder/bin"
printf '#!/bin/sh\ncat > "$3"; exit "${DOT_STATUS:-0}"\n' > "$folder/bin/dot"
chmod +x "$folder/bin/dot"
dot() {
    local status=$1 text=$2
    shift 2
    expect "$status" "$text" env PATH="$folder/bin:$PATH" "$weft" topo --machine "$@" --svg "$folder/graph"
}
dot 0 '' "$machines/dgx-a100.json"
for line in 'nvswitch \[shape=hexagon, label="NVSwitch"\];' 'nvswitch -- "[0-9a-f:.]*" \[label="12x"' \
    '\[shape=box, style=filled, fillcolor="#d5e8d4", label="gpu0  ' 'fillcolor="#dae8fc", label="mlx5_0"' \
    '\[shape=cylinder, .* label="nvme' '\[label="PCIe 4 x16"\]' '^}$'; do
    grep -q "$line" "$folder/graph" || fail "the graph has no $line"
done
dot 0 '' "$machines/dgx-1v.json"
grep -qE '"[0-9a-f:.]+" -- "[0-9a-f:.]+" \[label="2x", color="#76b900", penwidth=3' "$folder/graph" || fail 'direct links'
DOT_STATUS=3 dot 1 'dot ended with status 3' "$machines/dgx-1v.json"
expect 1 'apt-get install graphviz' env PATH=/nowhere "$weft" topo --machine "$machines/dgx-1v.json" --svg "$folder/graph"

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
expect 0 'uses 0 GPUs: no pair to explain' "$weft" explain --job "$pid"
FAKE_NVML_PIDS=0:$pid expect 0 'uses 1 GPU: no pair to explain' "$weft" explain --job "$pid"
# PE 1 is found through the launcher that PE 0 has, too
other=$(ps -o pid= --ppid $launcher | tr -d ' ' | grep -vx "$pid" | head -n 1)
FAKE_NVML_PIDS=0:$pid,1:$other expect 0 'gpu0 -> gpu1' "$weft" explain --job "$pid"
grep -q '^gpu1 -> gpu0' "$folder/out" || fail 'both directions'
FAKE_NVML_PIDS=0:$pid,1:$other expect 0 '"a": "gpu0"' "$weft" explain --job "$pid" --json
json '# 0.a 0.b 1.a 1.b' '2 gpu0 gpu1 gpu1 gpu0'
FAKE_NVML_PIDS=0:1,1:$other expect 0 'uses 1 GPU: no pair to explain' "$weft" explain --job "$pid"
expect 1 'there is no process 4194305' "$weft" explain --job 4194305
exit $((failures > 0))
