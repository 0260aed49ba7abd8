# SPDX-License-Identifier: Apache-2.0
# Sourced in a guest, in the source tree: links with verbs, jobs over them, and checks of both.
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

# make_cable FIRST SECOND NET NUMBER: two ports, NET.1 and NET.2, both of this kernel: soft RoCE of this kernel knows
# no other network namespace. The rules send over the cable what is for the other port; without them the kernel would
# see its own address, and loop.
make_cable() {
    local first=$1 second=$2 net=$3 table=$((100 + 2 * $4)) port
    modules veth
    ip link add "$first" mtu 4200 type veth peer name "$second" mtu 4200
    ip addr add "$net.1/24" dev "$first"
    ip addr add "$net.2/24" dev "$second"
    for port in all "$first" "$second"; do
        echo 1 >"/proc/sys/net/ipv4/conf/$port/accept_local"
        echo 0 >"/proc/sys/net/ipv4/conf/$port/rp_filter"
    done
    for port in "$first" "$second"; do
        echo 1 >"/proc/sys/net/ipv4/conf/$port/arp_ignore"
        ip link set "$port" up
    done
    ip rule add pref $table iif lo to "$net.2" lookup $table
    ip rule add pref $((table + 1)) iif lo to "$net.1" lookup $((table + 1))
    route_cable "$@"
    ! ip rule show pref 0 | grep -q . || { ip rule add pref 1000 lookup local && ip rule del pref 0; }
}

# The routes of a cable, which go when a port goes down.
route_cable() {
    local table=$((100 + 2 * $4))
    ip route replace "$3.2" dev "$1" src "$3.1" table $table
    ip route replace "$3.1" dev "$2" src "$3.2" table $((table + 1))
}

# make_verbs KIND PORT...: devices of the kind rxe or siw, whose names end in the port's last letter.
make_verbs() {
    local port
    kind=$1
    shift
    case $kind in
    rxe) modules rdma_rxe rdma_ucm ;;
    siw) modules siw rdma_ucm ;;
    esac
    for port; do
        rdma link add "$kind${port#v}" type "$kind" netdev "$port" || return 1
    done
}

# Bytes that have left the ports so far.
sent() { cat /sys/class/net/${1:-va}/statistics/tx_bytes; }

# What all programs are told. Devices lock what they register; soft iWARP minds the limit for root too.
ulimit -l unlimited
export WEFT_HEAP_SIZE=4M WEFT_WAIT_LIMIT=120s WEFT_BOOT_LIMIT=120s JOB_ROUNDS=400

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
    ps -eo stat=,comm= | awk '$2 ~ /^(weft|job_|device_|rails|steady|asked_dead|by_id|boot_victim|torture)/ && $1 !~ /^Z/'
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
