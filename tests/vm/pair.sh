# SPDX-License-Identifier: Apache-2.0
# pair.sh NODE KIND CASE...: in each of two guests joined by a cable: node 1 runs an ssh server and
# waits, node 0 starts jobs whose PEs are on both, by `weft run --hosts` or by rank variables.
. tests/vm/guest.sh
node=$1 kind=$2
shift 2
port=$(ls /sys/class/net | grep -v '^lo$')
modules sch_netem
ip link set "$port" mtu 4200
ip addr add "10.2.0.$((node + 1))/24" dev "$port"
ip link set "$port" up
case $kind in
rxe) modules rdma_rxe rdma_ucm ;;
siw) modules siw rdma_ucm ;;
esac
rdma link add ${kind}0 type "$kind" netdev "$port" || exit 1
export WEFT_RSH="ssh -F /w/keys/ssh -x -o BatchMode=yes"

sshd_here() {
    cat >/run/sshd.conf <<END
HostKey /run/host
AuthorizedKeysFile /run/authorized
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
END
    install -m 600 /w/keys/host /run/host
    install -m 600 /w/keys/user.pub /run/authorized
    /usr/sbin/sshd -D -e -f /run/sshd.conf 2>/w/sshd$node.log &
}

# on1 COMMAND...: at the other node.
on1() { ssh -F /w/keys/ssh -x -o BatchMode=yes 10.2.0.2 "$@"; }

left_anywhere() { left; on1 ps -eo stat=,comm= | awk '$2 ~ /^(weft|job_|device_|rails|steady|asked_dead|by_id|boot_victim|torture)/ && $1 !~ /^Z/'; }

nothing_left() {
    await 20 sh -c 'true' # one round at least
    local round
    for round in $(seq 20); do
        [ -n "$(left_anywhere)" ] || return 0
        sleep 0.5
    done
    fail "left behind: $(left_anywhere)"
}

moved() { cat "/sys/class/net/$port/statistics/$1_bytes"; }

# crosses LEAST PROGRAM...: a PE on each node, or as $hosts says; LEAST bytes go each way. Nothing is chosen by
# variables: the fastest class that both nodes have.
crosses() {
    local least=$1 out_bytes in_bytes
    shift
    out_bytes=$(moved tx) in_bytes=$(moved rx)
    run 0 "$weft" run --hosts "${hosts:-10.2.0.1,10.2.0.2}" "$@"
    out_bytes=$(($(moved tx) - out_bytes)) in_bytes=$(($(moved rx) - in_bytes))
    [ $out_bytes -ge "$least" ] && [ $in_bytes -ge "$least" ] ||
        fail "$*: $out_bytes bytes have left and $in_bytes have come, fewer than $least"
    echo "    ${*##*/}: $out_bytes and $in_bytes bytes"
}

rma() { crosses 100000 build/bin/job_rma; }

# Two PEs on each node: p2p within, net between them.
nodes() { hosts=10.2.0.1:2,10.2.0.2:2 crosses 100000 build/bin/job_collective; }

# Large transfers across the pieces in which memory is registered.
moves() { WEFT_HEAP_SIZE=64M crosses 40000000 build/bin/job_net moves verbs; }

# Without a launcher.
ranks() {
    local before
    before=$(moved tx)
    export MASTER_ADDR=10.2.0.1 MASTER_PORT=29400 WORLD_SIZE=2 WEFT_SECRET=0123456789abcdef0123
    on1 "cd $tree && RANK=1 MASTER_ADDR=$MASTER_ADDR MASTER_PORT=$MASTER_PORT WORLD_SIZE=2 \
        WEFT_SECRET=$WEFT_SECRET WEFT_HEAP_SIZE=4M timeout 60 build/bin/job_rma" >$out.1 2>&1 &
    RANK=0 timeout 60 build/bin/job_rma >$out 2>&1 || fail "PE 0 has failed"
    wait $! || fail "PE 1 has failed: $(cat $out.1)"
    unset MASTER_ADDR MASTER_PORT WORLD_SIZE WEFT_SECRET
    [ $(($(moved tx) - before)) -ge 100000 ] || fail "$(($(moved tx) - before)) bytes have left"
    nothing_left
}

start_steady() {
    "$weft" run --hosts 10.2.0.1:2,10.2.0.2:2 build/bin/steady "$@" >$out 2>&1 &
    launcher=$!
    await 120 grep -q ready $out || fail "the job did not begin"
}

words() {
    start_steady 20
    "$weft" explain --job "$(pgrep -x steady | head -n 1)" 0 3 >>$out 2>&1
    says "net: provider verbs;ofi_rxm on ${kind}0"
    says 'PE 3 of the job .* is on another machine'
    kill -TERM $launcher
    wait $launcher
    nothing_left
}

# Two of a hundred packets are lost.
loss() {
    tc qdisc replace dev "$port" root netem loss 2%
    crosses 100000 build/bin/job_rma
    tc qdisc del dev "$port" root
}

dead() {
    run 137 "$weft" run --hosts 10.2.0.1:2,10.2.0.2:2 build/bin/steady 30 3
    says '^weft run: PE 3 \(pid [0-9]+ on 10.2.0.2\) was killed by signal 9 \(Killed\); ending'
    says '^told 0: WEFT_ERR_PEER_DEAD: .*PE 3 \(pid [0-9]+ on 10.2.0.2\) was killed by signal 9'
}

# Nothing gets through for a second.
hiccup() {
    start_steady 8
    tc qdisc replace dev "$port" root netem loss 100%
    sleep 1
    tc qdisc del dev "$port" root
    wait $launcher || fail "a second without the link has ended the job"
    nothing_left
}

# A node is cut off for good, and is there again when all has been said.
parted() {
    local status
    export WEFT_WAIT_LIMIT=20s # also of the start
    start_steady 100
    tc qdisc replace dev "$port" root netem loss 100%
    wait $launcher
    status=$?
    tc qdisc del dev "$port" root
    [ $status != 0 ] || fail "nobody has noticed"
    says '^weft run: (host 10.2.0.2.* with PEs 2 to 3 is lost|PE [0-3] \(pid [0-9]+ on )'
    says '^told [01]: .*(PE [23]|host 10.2.0.2)'
    nothing_left
    export WEFT_WAIT_LIMIT=120s
}

if [ "$node" = 1 ]; then
    sshd_here
    : >/w/pair.ready
    await 600 test -e /w/pair.done
    exit 0
fi
sshd_here
await 60 test -e /w/pair.ready && await 30 on1 true 2>/dev/null || echo "node 1 does not answer"
for each in "$@"; do
    begin "two guests, $kind $each"
    declare -F "$each" >/dev/null || fail "there is no such case"
    $each
    end
done
: >/w/pair.done
[ $bad = 0 ]
