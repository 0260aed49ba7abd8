# SPDX-License-Identifier: Apache-2.0
# rails.sh CASE...: in a guest with two cables and four ports of soft RoCE: PE 0 has rxea and rxec,
# PE 1 has rxeb and rxed at their other ends. Large transfers are spread over both cables; one of
# them fails. The programs compare their data; the counters of the ports show which cable carried
# it.
. tests/vm/guest.sh
make_cable va vb 10.1.0 0 && make_cable vc vd 10.3.0 1 && make_verbs rxe va vb vc vd || exit 1
export WEFT_PATH=net WEFT_FABRIC_PROVIDER=verbs WEFT_RAILS=2 WEFT_TEST_FABRIC_STRIPE=64K WEFT_HEAP_SIZE=16M \
    VM_PORTS="rxea,rxec rxeb,rxed"
over=tests/vm/on_port.sh
bytes=2000003

carried() { echo "$(sent va) $(sent vb) $(sent vc) $(sent vd)"; }

# over_both LEAST COMMAND...: it does well, and LEAST bytes leave each of the four ports meanwhile; with may_give_up set
# any number, where a NIC was given up on the way.
may_give_up=
over_both() {
    local least=$1 before port
    read -ra before <<<"$(carried)"
    shift
    run 0 "$weft" run -n 2 $over "$@"
    [ -z "$may_give_up" ] || ! grep -q 'is given up' $out || least=1
    for port in 0 1 2 3; do
        read -ra now <<<"$(carried)"
        now[port]=$((now[port] - before[port]))
        went[port]=${now[port]}
        [ "${went[port]}" -ge "$least" ] || fail "$*: ${went[*]} bytes have left the ports, fewer than $least"
    done
    echo "    ${*##*/}: ${went[*]} bytes"
}

both() {
    over_both 500000 build/bin/rails 2 $bytes
    says '^PE 0: .*provider verbs;ofi_rxm on rxea.*; large transfers over rxea,rxec'
    says '^PE 1: .*provider verbs;ofi_rxm on rxeb.*; large transfers over rxeb,rxed'
    says_not 'given up'
}

# From and to memory of the program's own, which is registered with both for as long as a transfer takes.
own() { over_both 500000 build/bin/rails 2 $bytes own; }

# Across the pieces in which memory is registered.
moves() { WEFT_HEAP_SIZE=64M over_both 5000000 build/bin/job_net moves verbs; }

start() {
    "$weft" run -n 2 $over build/bin/rails "$@" >$out 2>&1 &
    launcher=$!
    await 120 grep -q ready $out || fail "the job did not begin"
    sleep 1
}

said() { sed -n 's/.*\(rxe. is given up.*\)/    \1/p; s/^\(PE.*rounds.*\)/    \1/p' $out; }

# goes_on CABLE: the job ends well, over what is left, and has said why.
goes_on() {
    wait $launcher || fail "the loss of a cable has ended the job"
    says "path net: rxe[$1] is given up, since transfers to PE [01] failed \(provider verbs;ofi_rxm\): .*; large transfers continue over rxe[ab]"
    says '^PE 1: [0-9]+ rounds'
    said
    nothing_left
}

# The port of the second cable goes down for good in the midst of transfers. The last case of a guest: jobs after it were
# seen to send next to nothing over that port.
down() {
    start 6 $bytes
    ip link set vd down
    goes_on cd
    ip link set vd up
}

# Nothing gets through any more, and no port says so; what was under way goes again from memory that was registered for
# it.
silent() {
    start 20 $bytes own
    sleep 2
    tc qdisc replace dev vc root netem loss 100%
    tc qdisc replace dev vd root netem loss 100%
    goes_on cd
    tc qdisc del dev vc root
    tc qdisc del dev vd root
}

# on_bad_cables WHAT...: on both. A cable may be given up, since soft RoCE takes seconds for a few lost packets.
on_bad_cables() {
    local port
    for port in va vb vc vd; do
        tc qdisc replace dev $port root netem "$@"
    done
    may_give_up=1 over_both 500000 build/bin/rails 2 $bytes
    said
    for port in va vb vc vd; do
        tc -s qdisc show dev $port | sed -n 's/.*(dropped \([0-9]*\).*/    \1 packets lost/p'
        tc qdisc del dev $port root
    done
}
loss() { on_bad_cables loss 2%; }
reorder() { on_bad_cables delay 1ms reorder 10% 50%; }
late() { on_bad_cables delay 5ms 3ms; }

# A PE dies in the midst of a transfer over both.
killed() {
    start 60 $bytes
    kill -9 "$(pgrep -x rails | tail -n 1)"
    wait $launcher
    [ $? = 137 ] || fail "the launcher's status"
    says '^weft run: PE [01] \(pid [0-9]+\) was killed by signal 9 \(Killed\)'
    says '^told [01]: .*WEFT_ERR_PEER_DEAD: .*PE [01] .*was killed by signal 9'
    nothing_left
}

modules sch_netem
for each in "$@"; do
    begin "two cables, $each"
    declare -F "$each" >/dev/null || fail "there is no such case"
    $each
    end
done
[ $bad = 0 ]
