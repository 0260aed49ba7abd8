# SPDX-License-Identifier: Apache-2.0
# Sourced in a guest, in the source tree: links with verbs, jobs over them, and what is seen of both.
# Tools come from the host's /usr; nothing is kept when the guest ends.
build=$tree/build
weft=$build/vm/installed/bin/weft
bad=0
out=/tmp/out

# Modules are not where modprobe looks.
modules() { /bb/mp -a "$@"; }

begin() { case=$1 && : >$out && began=$(cut -d. -f1 /proc/uptime); }

fail() {
    echo "FAILED: $case: $*"
    tail -n 40 $out | sed 's/^/    /'
    bad=$((bad + 1))
}

end() { echo "$case: $(($(cut -d. -f1 /proc/uptime) - began)) s${1:+, $1}"; }

says() { grep -qE -- "$1" $out || fail "nobody says: $1"; }
says_not() { ! grep -qE -- "$1" $out || fail "somebody says: $1"; }

# Two ports on one cable, va 10.1.0.1 and vb 10.1.0.2, both of this kernel: soft RoCE of this kernel knows no
# other network namespace. The rules send over the cable what is for the other port; without them the kernel would
# see its own address, and loop.
make_cable() {
    local port
    modules veth
    ip link add va mtu 4200 type veth peer name vb mtu 4200
    ip addr add 10.1.0.1/24 dev va
    ip addr add 10.1.0.2/24 dev vb
    for port in all va vb; do
        echo 1 >/proc/sys/net/ipv4/conf/$port/accept_local
        echo 0 >/proc/sys/net/ipv4/conf/$port/rp_filter
    done
    for port in va vb; do
        echo 1 >/proc/sys/net/ipv4/conf/$port/arp_ignore
        ip link set $port up
    done
    ip rule add pref 100 lookup local
    ip rule add pref 10 iif lo to 10.1.0.2 lookup 101
    ip rule add pref 11 iif lo to 10.1.0.1 lookup 102
    ip route add 10.1.0.2 dev va src 10.1.0.1 table 101
    ip route add 10.1.0.1 dev vb src 10.1.0.2 table 102
    ip rule del pref 0
}

# Devices rdmaa on va and rdmab on vb, of the kind rxe or siw.
make_verbs() {
    case $1 in
    rxe) modules rdma_rxe rdma_ucm ;;
    siw) modules siw rdma_ucm ;;
    esac
    kind=$1
    rdma link add ${kind}a type $kind netdev va && rdma link add ${kind}b type $kind netdev vb
}

drop_verbs() {
    rdma link del ${kind}a
    rdma link del ${kind}b
}

# Bytes that have left the ports so far.
sent() { cat /sys/class/net/${1:-va}/statistics/tx_bytes; }

# What all programs are told. Devices lock what they register; soft iWARP minds the limit for root too.
ulimit -l unlimited
export WEFT_HEAP_SIZE=4M WEFT_WAIT_LIMIT=60s WEFT_BOOT_LIMIT=60s JOB_ROUNDS=400

# run STATUS COMMAND...: what it says goes to $out; nothing of it is left.
run() {
    local wanted=$1 status
    shift
    timeout -k 5 "${limit:-240}" "$@" >$out 2>&1
    status=$?
    [ $status = "$wanted" ] || fail "status $status in place of $wanted: $*"
    nothing_left
}

# Programs of the job that are there, dead ones not counted.
left() {
    ps -eo stat=,comm= | awk '$2 ~ /^(weft|job_|device_|steady|asked_dead|by_id|boot_victim|torture)/ && $1 !~ /^Z/'
}

nothing_left() {
    local round
    for round in $(seq 100); do
        [ -n "$(left)" ] || return 0
        sleep 0.1
    done
    fail "left behind: $(left)"
}

# await SECONDS COMMAND...: until it succeeds.
await() {
    local until=$(($(cut -d. -f1 /proc/uptime) + $1))
    shift
    while ! "$@"; do
        [ "$(cut -d. -f1 /proc/uptime)" -lt $until ] || return 1
        sleep 0.1
    done
}
