# SPDX-License-Identifier: Apache-2.0
# hca.sh CASE...: in a guest: the software HCA at one end of a cable and the kernel's soft RoCE at
# the other, in both roles. The kernel uses the RoCE port in its network namespace, so the software
# HCA is in another one.
. tests/vm/guest.sh
modules veth rdma_rxe sch_netem
ip netns add soft
ip link add va mtu 4200 type veth peer name vb mtu 4200
ip link set va netns soft
ip -n soft addr add 10.1.0.1/24 dev va
ip -n soft link set va up
ip -n soft link set lo up
ip addr add 10.1.0.2/24 dev vb
ip link set vb up
rdma link add rxeb type rxe netdev vb || exit 1
talk=$build/bin/hca_talk port=7000

# soft COMMAND...: over the software HCA.
soft() {
    ip netns exec soft env LD_LIBRARY_PATH="$build/lib/weft-hca" SOFT_HCA_LINK=roce SOFT_HCA_ADDRESS=10.1.0.1 \
        SOFT_HCA_LOG=none timeout 100 "$@"
}
rxe() { timeout 100 "$@"; }

counter() { cat "/sys/class/infiniband/rxeb/ports/1/hw_counters/$1"; }
note() { read -r packets doubled gaps <<<"$(counter rcvd_pkts) $(counter duplicate_request) $(counter out_of_seq_request)"; }
seen() {
    echo "    soft RoCE: $(($(counter rcvd_pkts) - packets)) packets came, $(($(counter duplicate_request) - doubled)) requests twice, $(($(counter out_of_seq_request) - gaps)) out of turn"
}

# both SERVER CLIENT WORDS...: two ends, each `soft` or `rxe`, with the words for both; both must end well.
both() {
    local server=$1 client=$2 pid status=0
    declare -A device=([soft]=mlx5_soft0 [rxe]=rxeb) address=([soft]=10.1.0.1 [rxe]=10.1.0.2)
    shift 2
    port=$((port + 1))
    note
    if [ "$1" = talk ]; then
        $server "$talk" "${device[$server]}" 1 $port >$out.server 2>&1 &
        pid=$!
        $client "$talk" "${device[$client]}" 1 $port "${address[$server]}" >$out 2>&1 || status=$?
    else
        $server "$@" -d "${device[$server]}" -x 1 -F -p $port >$out.server 2>&1 &
        pid=$!
        sleep 1.5
        $client "$@" -d "${device[$client]}" -x 1 -F -p $port "${address[$server]}" >$out 2>&1 || status=$?
    fi
    wait $pid || status="$status, server $?"
    cat $out.server >>$out
    [ "$status" = 0 ] || fail "$client to $server: $*: status $status"
    [ $(($(counter rcvd_pkts) - packets)) -ge 10 ] || fail "$client to $server: $*: packets did not come by soft RoCE"
    echo "    $client to $server: $*"
    seen
}

# Our own program, which compares all data and ends with a write that is refused.
talk() {
    both soft rxe talk
    both rxe soft talk
}

perftest() {
    local roles
    for roles in "soft rxe" "rxe soft"; do
        # shellcheck disable=SC2086  # two words
        set -- $roles
        both $roles ib_write_bw -n 50 -s 65536
        both $roles ib_read_bw -n 50 -s 65536 -o 4
        both $roles ib_send_lat -n 50
        both $roles ib_atomic_bw -n 50 -o 4
        both $roles ib_atomic_bw -n 50 -o 4 -A CMP_AND_SWAP
    done
}

# on_bad_cable WHAT...: what each end sends is treated so.
on_bad_cable() {
    ip netns exec soft tc qdisc replace dev va root netem "$@"
    tc qdisc replace dev vb root netem "$@"
    note
    local gaps_before=$gaps doubled_before=$doubled
    talk
    tc -s qdisc show dev vb | sed -n 's/.*(dropped \([0-9]*\).*/    \1 packets of soft RoCE were lost/p'
    ip netns exec soft tc qdisc del dev va root
    tc qdisc del dev vb root
    gaps=$(($(counter out_of_seq_request) - gaps_before)) doubled=$(($(counter duplicate_request) - doubled_before))
}
loss() {
    TALK_LOSES=1 on_bad_cable loss 2%
    [ "$gaps" -gt 0 ] || fail "soft RoCE saw no gap"
    [ "$doubled" -gt 0 ] || fail "soft RoCE saw no request twice"
}
double() {
    on_bad_cable duplicate 5%
    [ "$doubled" -gt 0 ] || fail "soft RoCE saw no request twice"
}
reorder() { on_bad_cable delay 1ms reorder 10% 50%; }

for each in "$@"; do
    begin "hca $each"
    declare -F "$each" >/dev/null || fail "there is no such case"
    $each
    end
done
[ $bad = 0 ]
