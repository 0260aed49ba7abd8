#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# rails.sh BUILD [CASE...]: path net over several NICs per host. Hosts are network namespaces with
# two interfaces each, eth0 on 10.77.0.0/24 and eth1 on 10.78.0.0/24. Their counters show which of
# them carried the data.
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/net.sh"
enter_own_world "$0" "$@"
build=$1
shift
weft=$build/bin/weft bad=0 skipped=0 out=$(mktemp)
trap 'rm -f "$out"' EXIT
export WEFT_RSH="ip netns exec" WEFT_BOOT_LIMIT=20s WEFT_WAIT_LIMIT=60s WEFT_HEAP_SIZE=64M WEFT_FABRIC_INTERFACE=eth0,eth1

fail() {
    echo "FAILED: $case: $*"
    sed 's/^/    /' "$out"
    bad=1
}
says() { grep -qE -- "$1" "$out" || fail "nobody says: $1"; }
says_not() { ! grep -qE -- "$1" "$out" || fail "somebody says: $1"; }
times() { [ "$(grep -cE -- "$2" "$out")" = "$1" ] || fail "not $1 times: $2"; }

# run STATUS COMMAND...
run() {
    local wanted=$1 status
    shift
    timeout -k 5 100 "$@" >"$out" 2>&1
    status=$?
    [ $status = "$wanted" ] || fail "status $status in place of $wanted: $*"
}

# second_net HOST...: eth1, on a bridge of its own.
second_net() {
    local name n=0
    ip link add hub1 type bridge
    ip link set hub1 up
    for name in "$@"; do
        n=$((n + 1))
        ip link add "to1-$name" type veth peer name eth1 netns "$name"
        ip link set "to1-$name" master hub1 up
        ip -n "$name" addr add "10.78.0.$n/24" dev eth1
        ip -n "$name" link set eth1 up
    done
}

# sent HOST INTERFACE: bytes so far.
sent() { ip netns exec "$1" cat "/sys/class/net/$2/statistics/tx_bytes"; }

# share HOST COMMAND...: sets first and second to what went over eth0 and eth1 meanwhile, in KiB.
share() {
    local host=$1
    shift
    first=$(sent "$host" eth0) second=$(sent "$host" eth1)
    "$@"
    first=$((($(sent "$host" eth0) - first) / 1024)) second=$((($(sent "$host" eth1) - second) / 1024))
}

# at_least WHAT NUMBER LEAST
at_least() { [ "$2" -ge "$3" ] || fail "$1: $2 and not at least $3"; }
at_most() { [ "$2" -le "$3" ] || fail "$1: $2 and not at most $3"; }

# Both carry a part, which depends on what else the CPUs do; what is not large goes over the first.
both() {
    WEFT_RAILS=2 WEFT_TEST_FABRIC_STRIPE=64K share a run 0 "$weft" run --hosts a,b "$build/bin/rails" 2
    says '^PE 0: .*net: provider .* on eth0 \(10\.77\.0\.0/24\).*; large transfers over eth0,eth1'
    at_least "KiB over eth0" $first $(((first + second) / 20))
    at_least "KiB over eth1" $second $(((first + second) / 20))
    at_least "KiB over eth1" $second 3000
    WEFT_RAILS=2 WEFT_TEST_FABRIC_STRIPE=32M share a run 0 "$weft" run --hosts a,b "$build/bin/rails" 1
    at_most "KiB over eth1, below the threshold" $second 200
    WEFT_RAILS=2 WEFT_TEST_FABRIC_STRIPE=0 share a run 0 "$weft" run --hosts a,b "$build/bin/rails" 1
    at_most "KiB over eth1, striped never" $second 200
}

# With a provider to which each local buffer is registered, memory of the program's own is, with both: for as long as a
# transfer takes, which the stand-in for libfabric sees to.
registered() {
    local from
    for from in "" own; do
        LD_LIBRARY_PATH=$build/fakefabric WEFT_FABRIC_PROVIDER=verbs WEFT_RAILS=2 WEFT_TEST_FABRIC_STRIPE=64K \
            share a run 0 "$weft" run --hosts a,b "$build/bin/rails" 1 2000003 $from
        says '^PE 0: .*provider verbs;ofi_rxm on eth0 .*; large transfers over eth0,eth1'
        at_least "KiB over eth0" $first 1000
        at_least "KiB over eth1" $second 1000
    done
}

# Every program's sizes, over rails wherever there are two.
programs() {
    local program
    for program in rma atomic team collective; do
        WEFT_TEST_NODE_PES=2 WEFT_HEAP_SIZE=4M WEFT_RAILS=2 WEFT_TEST_FABRIC_STRIPE=4K run 0 "$weft" run --hosts a:2,b:2 \
            "$build/bin/job_$program"
    done
    WEFT_FABRIC_INTERFACE='' WEFT_RAILS=2 WEFT_TEST_FABRIC_STRIPE=4K run 0 "$weft" run --hosts a,b,c "$build/bin/job_net" moves
}

# GPU memory, of a stand-in for its driver, through pinned memory.
gpu() {
    LD_LIBRARY_PATH=$build/fakecuda WEFT_GPU_HEAP_SIZE=1G WEFT_HEAP_SIZE=16M WEFT_RAILS=2 WEFT_TEST_FABRIC_STRIPE=64K \
        share a run 0 "$weft" run --hosts a,b "$build/bin/job_gpu_net" moves
    at_least "KiB over eth0" $first 2000
    at_least "KiB over eth1" $second 500
}

# Unasked each PE takes one, the next PE the next one.
shared_out() {
    WEFT_FABRIC_INTERFACE='' share a run 0 "$weft" run --hosts a:2,b:2 "$build/bin/rails" 1
    says '^PE 0: .* on eth[01] .*; one of 2 at unknown distance(;|$)'
    says '^PE 1: .* on eth[01] .*; one of 2 at unknown distance; large transfers over eth[01](;|$)'
    says_not ' alone'
    at_least "KiB over eth0" $first 2000
    at_least "KiB over eth1" $second 2000
}

# All on one, though there are two: said once for each node.
crowd() {
    WEFT_FABRIC_INTERFACE=eth0 run 0 "$weft" run --hosts a:3,b:2 "$build/bin/rails" 0 100000
    times 1 'path net: all 3 PEs of this node use eth0 alone, while eth[01],eth[01] can be used; list all of them in WEFT_FABRIC_INTERFACE'
    times 1 'path net: all 2 PEs of this node use eth0 alone'
    WEFT_FABRIC_INTERFACE=eth0,eth1 run 0 "$weft" run --hosts a:2,b:2 "$build/bin/rails" 0 100000
    says_not ' alone'
    WEFT_FABRIC_INTERFACE=eth1 run 0 "$weft" run --hosts a,b "$build/bin/rails" 0 100000
    says '^PE 0: .* on eth1 \(10\.78\.0\.0/24\)'
    says_not ' alone'
}

bad_input() {
    WEFT_FABRIC_INTERFACE=eth0,moon1 run 1 "$weft" run --hosts a,b "$build/bin/rails" 0
    says 'WEFT_FABRIC_INTERFACE names "moon1", which libfabric does not offer here; it offers eth[01], eth[01], lo(, shm)?'
    ip -n a link add only0 type veth peer name only1
    ip -n a addr add 10.99.0.1/24 dev only0
    ip -n a link set only0 up
    ip -n a link set only1 up
    WEFT_FABRIC_INTERFACE=only0 run 1 "$weft" run --hosts a,b "$build/bin/rails" 0
    times 3 'WEFT_FABRIC_INTERFACE is "only0", which libfabric does not offer here; it offers eth[01], eth[01], lo(, shm)?'
    says 'WEFT_ERR_CONFIG: PE 1 on b: WEFT_FABRIC_INTERFACE is "only0"'
    says_not 'PE 1 on b: PE 1'
    ip -n a link del only0
    WEFT_FABRIC_INTERFACE=, run 1 "$weft" run --hosts a,b "$build/bin/rails" 0
    says 'WEFT_FABRIC_INTERFACE names "", which'
    WEFT_RAILS=9 run 2 "$weft" run --hosts a,b "$build/bin/rails" 0
    says 'WEFT_RAILS is "9", which is not 0'
    WEFT_RAILS=two run 2 "$weft" run --hosts a,b "$build/bin/rails" 0
    says 'WEFT_RAILS'
    # shellcheck disable=SC2016
    run 1 "$weft" run --hosts a,b sh -c 'ulimit -n 16; exec "$0" 0' "$build/bin/rails"
    says 'fi_[a-z]+: .* \(provider tcp;ofi_rxm on eth[01]\); the limit of open files \(ulimit -n\) is 16, and (9|1[0-6]) are open'
    WEFT_TEST_FABRIC_STRIPE=much run 2 "$weft" run --hosts a,b "$build/bin/rails" 0
    says 'WEFT_TEST_FABRIC_STRIPE'
}

# A rail with a small part of the speed carries a small part, also where the CPUs do not keep up with the fast one.
slow_rail() {
    local name
    for name in a b; do
        ip netns exec $name tc qdisc add dev eth0 root tbf rate 800mbit burst 256kb latency 50ms 2>/dev/null &&
            ip netns exec $name tc qdisc add dev eth1 root tbf rate 30mbit burst 64kb latency 50ms 2>/dev/null ||
            {
                echo "skipped: $case: this kernel has no tbf (sch_tbf)"
                skipped=1
                return
            }
    done
    WEFT_RAILS=2 share a run 0 "$weft" run --hosts a,b "$build/bin/rails" 6
    at_least "KiB over eth1" $second 1000
    at_most "KiB over the slow eth1" $second $((first / 3))
    for name in a b; do
        ip netns exec $name tc qdisc del dev eth0 root
        ip netns exec $name tc qdisc del dev eth1 root
    done
}

start() { start_program rails "$@"; }

start_program() {
    local program=$1
    shift
    : >"$out" # what the case before has said is not this job's
    WEFT_RAILS=${rails:-2} "$weft" run --hosts a,b "$build/bin/$program" "$@" >"$out" 2>&1 &
    launcher=$!
    await 30 grep -q ready "$out" || fail "the job did not begin"
    sleep 0.5
}

# lose HOST, find_again HOST: what HOST sends and gets over eth1 is lost, while both ends have a carrier.
lose() { bridge link set dev "to1-$1" state 0 || fail "the bridge loses nothing"; }
find_again() { bridge link set dev "to1-$1" state 3 || fail "the bridge loses all"; }

# What goes over the second rail is lost for a second, in the midst of transfers.
rail_hiccup() {
    start 6
    lose b
    sleep 1
    find_again b
    wait $launcher || fail "a rail that lost its packets for a second has ended the job"
    says_not 'given up'
    says '^PE 1: [0-9]+ rounds'
}

# It is lost for good: the transfers go on over the other, no byte is wrong, and it is said why.
rail_silent() {
    start 14
    lose b
    wait $launcher || fail "a rail that lost its packets has ended the job"
    says 'path net: eth1 is given up, since transfers to PE [01] failed \(provider .*\): no transfer completed for 6 s; large transfers continue over eth0'
    says '^PE 1: [0-9]+ rounds'
    find_again b
}

# The cable is pulled at one end.
rail_down() {
    start 6
    ip link set to1-b down
    wait $launcher || fail "a rail that went down has ended the job"
    says 'path net: eth1 is given up, since transfers to PE 0 failed \(provider .*\): its link has no carrier; large transfers continue over eth0'
    says_not 'no transfer completed'
    says '^PE 1: [0-9]+ rounds'
    ip link set to1-b up
}

# Its connections end, again and again, until that was in the midst of a transfer.
rail_reset() {
    local again
    start 6
    [ -n "$(ip netns exec b ss -KHn src 10.78.0.2 2>/dev/null)" ] || fail "no connection on eth1"
    for again in {1..100}; do
        ! grep -q 'given up' "$out" || break
        ip netns exec b ss -KHn src 10.78.0.2 >/dev/null 2>&1
        sleep 0.02
    done
    wait $launcher || fail "a rail whose connections were cut has ended the job"
    says '^PE 1: [0-9]+ rounds'
    if ! zgrep -q INET_DIAG_DESTROY=y /proc/config.gz 2>/dev/null; then
        echo "skipped: $case: whether this kernel closes sockets on demand is not known"
        skipped=1
        return
    fi
    says 'path net: eth1 is given up, since transfers to PE [01] failed \(provider .*\): '
}

# The cable of the NIC that messages go over is pulled, and each message, atomic and signal is counted once over the
# other.
home_moves() {
    WEFT_FABRIC_INTERFACE=eth1,eth0 start_program counted 6
    says '^PE 0: .*net: provider .* on eth1 '
    ip link set to1-b down
    wait $launcher || fail "a NIC that went down has ended the job"
    says 'path net: eth1 is given up, since transfers to PE 0 failed \(provider .*\): its link has no carrier; messages and transfers continue over eth0'
    says_not 'nothing received'
    says '^PE 0: counted [0-9]+ steps'
    says '^PE 1: counted [0-9]+ steps'
    ip link set to1-b up
}

# What goes over it is lost, while both ends have a carrier.
home_silent() {
    WEFT_FABRIC_INTERFACE=eth1,eth0 start_program counted 16
    lose b
    wait $launcher || fail "a NIC whose packets are lost has ended the job"
    says 'path net: eth1 is given up, since transfers to PE [01] failed \(provider .*\): nothing received for [6-9] s; messages and transfers continue over eth0'
    says '^PE 0: counted [0-9]+ steps'
    says '^PE 1: counted [0-9]+ steps'
    find_again b
}

# Both cables are pulled, and are back after a second: a NIC is given up only where another one reaches the peer.
home_both() {
    WEFT_FABRIC_INTERFACE=eth1,eth0 start_program counted 6
    # At once: while one is back and the other is not, the other is rightly given up.
    printf 'link set %s down\n' to1-b to-b | ip -batch -
    sleep 1
    printf 'link set %s up\n' to1-b to-b | ip -batch -
    wait $launcher || fail "a host that was unplugged for a second has ended the job"
    says_not 'eth0 is given up'
    says '^PE 1: counted [0-9]+ steps'
}

# Only what b sends is lost, since it knows a by a wrong address: what a had sent has come, goes again, and counts once.
home_one_way() {
    WEFT_FABRIC_INTERFACE=eth1,eth0 start_program counted 16 one
    ip -n b neigh replace 10.78.0.1 lladdr 02:00:00:00:00:99 dev eth1 nud permanent
    wait $launcher || fail "a NIC whose packets are lost has ended the job"
    says 'path net: eth1 is given up, since .*; messages and transfers continue over eth0'
    says '^PE 0: counted [0-9]+ steps'
    says '^PE 1: counted [0-9]+ steps'
    ip -n b neigh del 10.78.0.1 dev eth1
}

# Large transfers over both at the same time.
home_moves_large() {
    WEFT_FABRIC_INTERFACE=eth1,eth0 start 8
    ip link set to1-b down
    wait $launcher || fail "a NIC that went down has ended the job"
    says 'path net: eth1 is given up, since .*; messages and transfers continue over eth0'
    says '^PE 1: [0-9]+ rounds'
    ip link set to1-b up
}

# Lost for a second: nobody moves.
home_hiccup() {
    WEFT_FABRIC_INTERFACE=eth1,eth0 start_program counted 6
    lose b
    sleep 1
    find_again b
    wait $launcher || fail "a NIC whose packets were lost for a second has ended the job"
    says_not 'given up'
    says '^PE 1: counted [0-9]+ steps'
}

# Its connections end: the provider reports an error.
home_reset() {
    WEFT_FABRIC_INTERFACE=eth1,eth0 start_program counted 6
    if [ -z "$(ip netns exec b ss -KHn src 10.78.0.2 2>/dev/null)" ]; then
        echo "skipped: $case: this kernel does not close sockets on demand"
        skipped=1
    fi
    # Connections on which nothing is under way are made again, and nothing is noticed.
    for _ in {1..30}; do
        [ $skipped = 0 ] && ! grep -q 'eth1 is given up' "$out" || break
        sleep 0.1
        ip netns exec b ss -KHn src 10.78.0.2 >/dev/null
    done
    wait $launcher || fail "a NIC whose connections were cut has ended the job"
    [ $skipped = 1 ] || says 'path net: eth1 is given up, since .*; messages and transfers continue over eth0'
    says '^PE 1: counted [0-9]+ steps'
}

# It is the peer that has failed, not a NIC.
home_killed() {
    WEFT_FABRIC_INTERFACE=eth1,eth0 start_program counted 60 quiet
    pkill -9 -o -x counted
    wait $launcher && fail "nobody has noticed that a PE was killed"
    says '^told [01]: .*WEFT_ERR_PEER_DEAD'
    says_not 'given up'
}

# The NIC that messages go over is gone and is the only one, while the launcher is reached over another: it ends within the limit, and is
# told with the peer's name.
home_down() {
    export WEFT_WAIT_LIMIT=8s
    rails=1 WEFT_FABRIC_INTERFACE=eth1,eth0 start 90
    ip link set to1-b down
    sleep 40
    ! kill -0 $launcher 2>/dev/null || fail "it still runs, 40 s later"
    wait $launcher && fail "nobody has noticed"
    says '^told [01]: .*(WEFT_ERR_TIMEOUT: .*PE [01]: .* waited .*nothing has moved for|WEFT_ERR_PATH: .*PE [01])'
    ip link set to1-b up
    export WEFT_WAIT_LIMIT=60s
}

# The launcher reaches both, they do not reach each other: the pair, the address and the cause are told.
unreached() {
    ip -n b addr del 10.78.0.2/24 dev eth1
    ip -n b addr add 10.79.0.2/24 dev eth1
    WEFT_FABRIC_INTERFACE=eth1 run 1 "$weft" run --hosts a,b "$build/bin/rails" 0
    says 'from PE 0 to PE 1: no path is left .*: a message to PE 1 at 10\.79\.0\.2:[0-9]+ failed \(provider .* on eth1\): Network is unreachable|from PE 1 to PE 0: no path is left .*: a message to PE 0 at 10\.78\.0\.1:[0-9]+ failed'
    ip -n b addr del 10.79.0.2/24 dev eth1
    ip -n b addr add 10.78.0.2/24 dev eth1
    # What goes to the other is lost: that ends with the start's limit, long before a wait's, and the address is told.
    ip -n a neigh replace 10.78.0.2 lladdr 02:00:00:00:00:99 dev eth1 nud permanent
    WEFT_BOOT_LIMIT=3s WEFT_FABRIC_INTERFACE=eth1 run 1 "$weft" run --hosts a,b "$build/bin/rails" 0
    says 'path net to PE [01] at 10\.78\.0\.[12]:[0-9]+ over eth1: PE [01]: get waited .*nothing has moved for [0-9.]+ s \(limit WEFT_BOOT_LIMIT\)'
    ip -n a neigh del 10.78.0.2 dev eth1
}

# An address that both hosts have leads nowhere, though it is on a network of that name at both.
containers() {
    local name
    for name in a b; do
        ip -n $name link add aaa0 type veth peer name aaa1
        ip -n $name addr add 172.17.0.1/16 dev aaa0
        ip -n $name link set aaa0 up
        ip -n $name link set aaa1 up
    done
    WEFT_FABRIC_INTERFACE='' WEFT_RAILS=3 run 0 "$weft" run --hosts a,b "$build/bin/rails" 1
    says '^PE 0: .* on eth[01] .*; large transfers over eth[01],eth[01](;|$)'
    says_not 'aaa0'
    for name in a b; do
        ip -n $name link del aaa0
    done
}

make_hosts a b c
second_net a b
[ $# -gt 0 ] || set -- both registered programs gpu shared_out crowd bad_input slow_rail rail_hiccup rail_silent rail_down rail_reset home_moves home_silent home_one_way home_both home_moves_large home_hiccup home_reset home_killed home_down unreached containers
for case in "$@"; do
    "$case"
done
[ -z "${HOSTS_SHOW:-}" ] || cat "$out"
[ $bad = 0 ] || exit 1
[ $skipped = 0 ] || exit 77
echo "rails: $* passed"
