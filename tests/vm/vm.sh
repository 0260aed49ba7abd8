#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# vm.sh CASE...: boots virtual machines (machine.sh) for each case and prints their output. Each
# case is a set of guests and the tests in them. Status 0: all passed.
set -u
tree=$(cd "$(dirname "$0")/../.." && pwd)
cd "$tree" || exit 1
vm=$tree/build/vm
. tools/dev/packages.sh
. tests/vm/machine.sh

stop() {
    local pid
    for pid in $(jobs -p); do
        kill "$pid" 2>/dev/null
    done
    wait
}
trap stop EXIT
trap 'exit 1' INT TERM

# one COMMAND: a guest.
one() {
    vm_boot one 2 "$1"
    cat "$vm/w/one.out" 2>/dev/null
    vm_status one
}

# pair ARGUMENT...: two guests on one cable.
pair() {
    local nic=romfile=,host_mtu=4200,netdev=n mac=mac=52:54:00:00:00:0 status=0 first
    rm -rf "$vm/cable" "$vm"/w/pair.* "$vm/w/keys"
    mkdir "$vm/w/keys"
    ssh-keygen -q -t ed25519 -N '' -f "$vm/w/keys/host" && ssh-keygen -q -t ed25519 -N '' -f "$vm/w/keys/user" || return 1
    cat >"$vm/w/keys/ssh" <<END
Host *
 IdentityFile /run/user.key
 UserKnownHostsFile /run/known
 StrictHostKeyChecking no
 LogLevel ERROR
 ConnectTimeout 20
END
    local cable=stream,id=n,addr.type=unix,addr.path=$vm/cable
    vm_boot pair0 1 "install -m 600 /w/keys/user /run/user.key; bash tests/vm/pair.sh 0 $*" \
        -netdev "$cable,server=on" -device "virtio-net-pci,$nic,${mac}1" &
    first=$!
    for _ in $(seq 100); do
        [ ! -S "$vm/cable" ] || break
        sleep 0.1
    done
    vm_boot pair1 1 "bash tests/vm/pair.sh 1 $*" -netdev "$cable,server=off" \
        -device "virtio-net-pci,$nic,${mac}2"
    wait $first
    cat "$vm/w/pair0.out" 2>/dev/null
    vm_status pair0 || status=1
    vm_status pair1 || { status=1; tail -n 20 "$vm/w/pair1.out"; }
    rm -rf "$vm/w/keys" "$vm/cable"
    return $status
}

# drives COMMAND: a guest with two drives of NVMe.
drives() {
    local i arguments=()
    for i in 0 1; do
        rm -f "$vm/w/drive$i" && truncate -s 256M "$vm/w/drive$i"
        arguments+=(-drive "file=$vm/w/drive$i,if=none,format=raw,id=d$i" -device "nvme,drive=d$i,serial=weft$i")
    done
    vm_boot drives 2 "$1" "${arguments[@]}"
    cat "$vm/w/drives.out" 2>/dev/null
    rm -f "$vm"/w/drive[01]
    vm_status drives
}

case ${1:-} in
rxe | siw) one "bash tests/vm/verbs.sh $*" ;;
pair) shift; pair "$@" ;;
rails) shift; one "bash tests/vm/rails.sh $*" ;;
lines) shift; one "bash tests/vm/lines.sh $*" ;;
hca) shift; one "bash tests/vm/hca.sh $*" ;;
files) shift; drives "bash tests/vm/files.sh $*" ;;
frames) shift; one "bash tests/vm/frames.sh $*" ;;
*) sed -n 3,5p "$0"; exit 2 ;;
esac
