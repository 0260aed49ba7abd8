# SPDX-License-Identifier: Apache-2.0
# verbs.sh KIND CASE...: in a guest with two ports of soft RoCE (rxe) or soft iWARP (siw): jobs with
# PEs on both ports, over path net with the provider verbs. The programs compare their data; the
# counters of the ports show that it crossed the cable.
. tests/vm/guest.sh
kind=$1
shift
make_cable va vb 10.1.0 0 && make_verbs "$kind" va vb || exit 1
export WEFT_PATH=net WEFT_FABRIC_PROVIDER=verbs VM_PORTS="${kind}a ${kind}b"
over=tests/vm/on_port.sh

# crosses LEAST PES PROGRAM...: it does well, and LEAST bytes leave each port meanwhile.
crosses() {
    local least=$1 pes=$2 va vb
    va=$(sent va) vb=$(sent vb)
    shift 2
    run 0 "$weft" run -n "$pes" $over "$@"
    va=$(($(sent va) - va)) vb=$(($(sent vb) - vb))
    [ $va -ge "$least" ] && [ $vb -ge "$least" ] ||
        fail "$*: $va and $vb bytes have left the ports, fewer than $least"
    echo "    $pes x ${*##*/}: $va and $vb bytes"
}

# What the link itself does, without Weft.
link() {
    local before
    before=$(sent)
    ib_write_bw -d ${kind}b -R -F -n 200 -s 65536 >/tmp/server 2>&1 &
    sleep 1
    timeout 50 ib_write_bw -d ${kind}a -R -F -n 200 -s 65536 10.1.0.2 >$out 2>&1 || fail "ib_write_bw: status $?"
    wait
    [ $(($(sent) - before)) -ge 13000000 ] || fail "$(($(sent) - before)) bytes have left va"
}

rma() { crosses 100000 2 build/bin/job_rma; }

jobs() {
    crosses 100000 2 build/bin/job_atomic
    crosses 100000 2 build/bin/job_wait
    crosses 100000 4 build/bin/job_rma
    crosses 100000 3 build/bin/job_collective
    crosses 3000 2 build/bin/job_wait_types
    crosses 10000 2 build/bin/job_bounds
    crosses 3000 2 build/bin/job_promises net
    crosses 10000 3 build/bin/job_team
}

# Large transfers across the pieces in which memory is registered; what the path says of itself.
moves() {
    WEFT_HEAP_SIZE=64M crosses 40000000 2 build/bin/job_net moves verbs
}

# PEs that are threads of one process, each with threads of its own: over one port, which loops.
threads() { WEFT_FABRIC_INTERFACE=${kind}a run 0 build/bin/job_threads; }

litmus() {
    local test
    for test in fence_orders_puts fence_orders_atomics signal_follows_data source_is_free_after_put \
        quiet_completes_nbi quiet_completes_get store_buffering barrier_completes; do
        crosses 1000 2 build/bin/job_litmus $test
    done
    for test in fence_of_context quiet_of_context_completes_atomics end_of_context_completes; do
        crosses 1000 2 build/bin/job_contexts $test
    done
}

shmem() {
    local program
    for program in rma_generic amo_generic signal order globals collectives_generic; do
        crosses 1000 2 build/bin/job_shmem_$program
    done
}

# Device code on the target simt, whose operations go through the proxy.
device() {
    local program
    export WEFT_TARGET=simt WEFT_HEAP_SIZE=16M
    for program in rma signal packet atomics; do
        crosses 10000 2 build/bin/device_$program
    done
    export WEFT_HEAP_SIZE=4M
    unset WEFT_TARGET
}

# What is said of the path, of a device that is not there, and of the machine.
words() {
    "$weft" run -n 2 $over build/bin/steady 20 >$out 2>&1 &
    launcher=$!
    await 120 grep -q ready $out || fail "the job did not begin"
    "$weft" explain --job "$(pgrep -x steady | head -n 1)" 0 1 >>$out 2>&1
    says "net: provider verbs;ofi_rxm on ${kind}[ab]"
    kill -TERM $launcher
    wait $launcher
    nothing_left
    WEFT_FABRIC_INTERFACE=mlx5_7 run 1 "$weft" run -n 2 build/bin/job_rma
    says "WEFT_FABRIC_INTERFACE is \"mlx5_7\", which provider verbs does not offer here; it offers .*${kind}a.*, ${kind}b"
    run 0 "$weft" topo
    says "${kind}a"
}

# Packets are lost, or come late and out of order; the devices see to it that nobody notices.
on_bad_cable() {
    local port
    modules sch_netem
    for port in va vb; do
        tc qdisc replace dev $port root netem "$@"
    done
    crosses 100000 2 build/bin/job_rma
    crosses 1000 2 build/bin/steady 3
    for port in va vb; do
        tc -s qdisc show dev $port | sed -n 's/.*(dropped \([0-9]*\).*/    \1 packets lost/p'
        tc qdisc del dev $port root
    done
}
loss() { on_bad_cable loss 2%; }
reorder() { on_bad_cable delay 1ms reorder 10% 50%; }

# A peer that dies while it is asked.
asked() {
    local what
    for what in get put atomic; do
        run 137 "$weft" run -n 2 $over build/bin/asked_dead $what
        says 'asked: WEFT_ERR_PEER_DEAD: .*PE 1 .*; again: WEFT_ERR_PEER_DEAD'
    done
}

kill_anywhere() { limit=300 run 0 build/bin/random_kills run "$weft" build/bin/torture 5; }

start_steady() {
    "$weft" run -n 2 $over build/bin/steady "$1" >$out 2>&1 &
    launcher=$!
    await 120 grep -q ready $out || fail "the job did not begin"
}

# The port goes down for a second: the provider carries it, or all are told by whom and why.
port_down() {
    local status
    export WEFT_WAIT_LIMIT=10s
    start_steady 10
    ip link set vb down
    sleep 1
    ip link set vb up
    route_cable va vb 10.1.0 0
    wait $launcher
    status=$?
    sed 's/^/    /' $out
    # Some kernels keep a PE's thread meanwhile; then the other's wait expires.
    [ $status = 0 ] || says '^told [01]: WEFT_ERR_([A-Z_]*: .*PE [01].*provider verbs|TIMEOUT: path net to PE [01] over rxe[ab]: )'
    nothing_left
    export WEFT_WAIT_LIMIT=120s
}

# Devices lock what they register, and a process may lock so much. The limit is named.
memory_limit() {
    (ulimit -l 2048 && timeout 60 "$weft" run -n 2 $over build/bin/job_rma) >$out 2>&1 &&
        fail "2 MiB of locked memory were enough"
    says '\(provider verbs;ofi_rxm on siw[ab]\): Cannot allocate memory.*; the limit of locked memory \(ulimit -l\) is 2048 KiB'
    nothing_left
}

for each in "$@"; do
    begin "$kind $each"
    declare -F "$each" >/dev/null || fail "there is no such case"
    $each
    end
done
[ $bad = 0 ]
