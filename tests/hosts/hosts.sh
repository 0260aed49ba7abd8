#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# hosts.sh BUILD [CASE...]: `weft run --hosts` and jobs by rank over hosts that are network
# namespaces. Each case checks the output, the exit status, and that nothing of the job is left on
# any host.
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/net.sh"
. "$here/judge.sh"
enter_own_world "$0" "$@"
build=$1
shift
weft=$build/bin/weft out=$(mktemp)
leftover="weft weft-guard job_boot_exchange boot_victim steady by_id slow_peer sleep other_version job_rma job_collective"
trap 'rm -f "$out"' EXIT
export WEFT_RSH="ip netns exec" WEFT_BOOT_LIMIT=20s WEFT_WAIT_LIMIT=60s

exchange() {
    run 0 "$weft" run --hosts a:2,b:2 "$build/bin/job_boot_exchange" 4 2
    run 0 "$weft" run -n 7 --hosts a:3,b:3,c:3 "$build/bin/job_boot_exchange" 7 3
}

output() {
    printf 'one\ntwo\n' >"$out.in"
    # shellcheck disable=SC2016
    run 0 sh -c "'$weft' run --hosts b,a:2 --prefix --env FRUIT=a=pple sh -c '
        if [ \$WEFT_PE = 0 ]; then cat; else echo \$WEFT_PE of \$WEFT_PES \$FRUIT; echo oops >&2; fi' <'$out.in'"
    rm -f "$out.in"
    says '^\[b 0\] two$'
    says '^\[a 1\] 1 of 3 a=pple$'
    says '^\[a 2\] oops$'
    run 0 sh -c "echo 7 | '$weft' run --hosts a,b sh -c 'test \$WEFT_PE = 1 || read x; test \$WEFT_PE = 1 || test \$x = 7'"
    printf '# mine\na:1\nb slots=2\n' >"$out.hosts"
    # shellcheck disable=SC2016
    run 0 "$weft" run --hostfile "$out.hosts" sh -c 'echo "$WEFT_PE at $WEFT_BOOT_HOST"'
    rm -f "$out.hosts"
    says '^0 at a$'
    says '^2 at b$'
}

# One judgement of the nodes, however many PEs there are and whoever started them.
doctor() {
    run 0 "$weft" run --hosts a:2,b:2,c "$weft" doctor --quick
    says '^3 nodes, compared with the majority of them$'
    says '^alike +3 nodes a,b,c$'
    [ "$(wc -l <"$out")" = 3 ] || fail "more than one judgement"
    echo '{"weft-expect": 1, "gpus": 5000}' >"$out.expect"
    run 1 "$weft" run --hosts a:2,b:2 "$weft" doctor --quick --against "$out.expect"
    says '^DIFFERS +2 nodes a,b: gpus [0-9]+, 5000 expected$'
    by_rank '1 0 0' 'a b b' "$weft" doctor --quick --job --against "$out.expect"
    says '^DIFFERS +2 nodes .*: gpus [0-9]+, 5000 expected$'
    rm -f "$out.expect"
    run 1 "$weft" doctor --quick --hosts a,b,nowhere
    says '^alike +2 nodes a,b$'
    says '^NOT REACHED +nowhere: the remote shell ended with status'
}

# by_rank STATUSES HOSTS COMMAND...: PE i on the i-th of these hosts, as torchrun starts it; the statuses that
# are meant, in the order of the PEs.
by_rank() {
    local wanted=$1 hosts pe pids=() status=""
    read -ra hosts <<<"$2"
    shift 2
    : >"$out"
    export MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 WORLD_SIZE=${#hosts[@]}
    export WEFT_SECRET=${SECRET-0123456789abcdef0123}
    for pe in "${!hosts[@]}"; do
        RANK=$pe LOCAL_RANK=$(echo "${hosts[*]:0:pe}" | grep -ow "${hosts[pe]}" | wc -l) \
            LOCAL_WORLD_SIZE=$(echo "${hosts[*]}" | grep -ow "${hosts[pe]}" | wc -l) \
            on_host "${hosts[pe]}" timeout -k 5 60 "$@" >>"$out" 2>&1 &
        pids+=($!)
    done
    for pe in "${pids[@]}"; do
        wait "$pe"
        status+=" $?"
    done
    [ "${status# }" = "$wanted" ] || fail "status$status in place of $wanted"
    unset MASTER_ADDR MASTER_PORT WORLD_SIZE WEFT_SECRET
    gone
}

rank() {
    by_rank "0 0 0 0 0" "a a b b c" "$build/bin/job_boot_exchange" 5 2
    WEFT_TEST_NODE_PES=2 WEFT_HEAP_SIZE=4M by_rank "0 0 0 0" "a a b b" "$build/bin/job_rma"
}

# The members of a node do not follow one another.
by_turns() {
    WEFT_HEAP_SIZE=4M by_rank "0 0 0 0 0" "a b a b a" "$build/bin/job_collective"
    WEFT_HEAP_SIZE=16M by_rank "0 0 0 0 0 0 0 0 0" "a c b a c a c c c" "$build/bin/job_placed" -
}

# A PE is killed in the midst of a job: the others are told which, and where.
rank_dead() {
    by_rank "3 3 3 137" "a a b b" "$build/bin/steady" 60 3
    says 'told 0: WEFT_ERR_PEER_DEAD: PE 3 on b has ended: its connection to PE 0 on a was closed'
    says 'told 1: WEFT_ERR_PEER_DEAD: PE 3 on b has ended: its connection to PE [02] on [ab] was closed'
    says 'told 2: WEFT_ERR_PEER_DEAD: PE 3 on b has ended: its connection to PE [02] on [ab] was closed'
}

# A PE is killed before it has connected: missed when WEFT_BOOT_LIMIT has passed, by all that have come.
rank_early() {
    export WEFT_BOOT_LIMIT=2s
    # shellcheck disable=SC2016
    by_rank "3 3 137 3" "a a b b" sh -c 'test $RANK != 2 || kill -9 $$; exec "$0" nobody 9' "$build/bin/boot_victim"
    [ "$(grep -c 'WEFT_ERR_TIMEOUT: TCP start: 1 of 3 members did not connect within WEFT_BOOT_LIMIT .*: 2$' "$out")" = 3 ] ||
        fail "not all three were told of PE 2"
    # shellcheck disable=SC2016
    by_rank "137 3 3" "a b b" sh -c 'test $RANK != 0 || kill -9 $$; exec "$0" nobody 9' "$build/bin/boot_victim"
    says 'no process answered there; is the first PE running, .*tried 10\.77\.0\.1:29501: Connection refused'
    export WEFT_BOOT_LIMIT=20s
}

# One host has another secret, another version, or no way to PE 0.
rank_strangers() {
    export WEFT_BOOT_LIMIT=2s
    # shellcheck disable=SC2016
    by_rank "3 3 3" "a a b" sh -c 'test $RANK != 2 || WEFT_SECRET=98765432109876543210; exec "$0" nobody 9' \
        "$build/bin/boot_victim"
    says 'dropped an unauthenticated peer, 10\.77\.0\.2:[0-9]+: it closed the connection after the hub.s proof: its WEFT_SECRET differs'
    says 'the process that listens at 10\.77\.0\.1:29501 does not know this PE.s WEFT_SECRET'
    says 'or the first PE was given another secret'
    says '1 of 2 members did not connect within WEFT_BOOT_LIMIT .*: 2$'
    SECRET='' by_rank "3 3" "a b" "$build/bin/boot_victim" nobody 9
    says 'MASTER_ADDR is "10.77.0.1", so this job may span machines, .*set WEFT_SECRET'
    export WEFT_BOOT_LIMIT=20s
    # shellcheck disable=SC2016
    by_rank "3 3 3" "a a b" sh -c 'test $RANK != 2 || exec "$0"/other_version 5; exec "$0"/steady 5' "$build/bin"
    says 'WEFT_ERR_VERSION: .*PE 0 on a runs Weft [0-9.]+ and PE 2 on b Weft 99\.9\.9'
    export WEFT_BOOT_LIMIT=2s
    ip -n b route add unreachable 10.77.0.1
    by_rank "3 3 3" "a a b" "$build/bin/boot_victim" nobody 9
    says 'no connection within WEFT_BOOT_LIMIT .*tried 10\.77\.0\.1:29501: No route to host'
    says '1 of 2 members did not connect within WEFT_BOOT_LIMIT .*: 2$'
    ip -n b route del unreachable 10.77.0.1
    export WEFT_BOOT_LIMIT=20s
}

# No launcher: the program hands an id around.
unique_id() {
    local pe pids=() status=0 hosts=(a a b c)
    for pe in 0 1 2 3; do
        ip netns exec "${hosts[pe]}" timeout 60 "$build/bin/by_id" $pe 4 "$out.id" >>"$out" 2>&1 &
        pids+=($!)
    done
    for pe in "${pids[@]}"; do
        wait "$pe" || status=1
    done
    rm -f "$out".id.*
    [ $status = 0 ] || fail "a PE has failed"
    gone
}

# One PE with the id does not come.
id_early() {
    local pe pids=() hosts=(a a b)
    : >"$out"
    export WEFT_BOOT_LIMIT=2s
    for pe in 0 1 2; do
        on_host "${hosts[pe]}" timeout 60 "$build/bin/by_id" $pe 4 "$out.id" >>"$out" 2>&1 &
        pids+=($!)
    done
    for pe in "${pids[@]}"; do
        ! wait "$pe" || fail "a PE has not noticed"
    done
    rm -f "$out".id.*
    [ "$(grep -c '1 of 3 members did not connect within WEFT_BOOT_LIMIT .*: 3$' "$out")" = 3 ] ||
        fail "not all three were told of PE 3"
    export WEFT_BOOT_LIMIT=20s
    gone
}

# Whole jobs: p2p within a host, net between them.
jobs() {
    local program
    for program in ${HOSTS_JOBS:-rma atomic wait team collective}; do
        WEFT_HEAP_SIZE=4M WEFT_TEST_NODE_PES=2 run 0 "$weft" run --hosts a:2,b:2 \
            "$build/bin/job_$program"
    done
}

# Path gda between the hosts: software HCAs that speak RoCE v2 by UDP. That it went over the cable is seen at a port.
came_from_a() { ip -s link show dev to-a | awk '/RX:/ { getline; print $1 }'; }
gda() {
    local program before addresses
    ip -n a addr add fd77::1/64 dev eth0 nodad && ip -n b addr add fd77::2/64 dev eth0 nodad ||
        fail "no IPv6 here"
    # By RC and, with no RC peers, by DC.
    for addresses in 10.77.0.1,10.77.0.2 fd77::1,fd77::2; do
        for program in rma:-1 atomic:-1 rma:0 atomic:0; do
            before=$(came_from_a)
            WEFT_HEAP_SIZE=4M WEFT_PATH=gda WEFT_HCA=soft run 0 "$weft" run --hosts a,b --env SOFT_HCA_LINK=roce \
                --env SOFT_HCA_ADDRESS=$addresses --env SOFT_HCA_ICRC=check \
                --env WEFT_TEST_GDA_RC=${program#*:} "$build/bin/job_${program%:*}"
            [ $(($(came_from_a) - before)) -gt 100000 ] ||
                fail "job_$program over $addresses: too little has left host a"
        done
    done
    # One PE with an IPv4 address, one with an IPv6 address: path net takes its place.
    WEFT_HEAP_SIZE=4M WEFT_HCA=soft run 0 "$weft" run --hosts a,b --env SOFT_HCA_LINK=roce \
        --env SOFT_HCA_ADDRESS=10.77.0.1,fd77::2 "$build/bin/job_rma"
    says 'path gda: the adapter of PE 0 \(mlx5_soft0\) has the IPv4 address ::ffff:10.77.0.1, that of PE 1 the IPv6 address fd77::2: give the interfaces of both an IPv4 address, or neither'
    WEFT_HEAP_SIZE=4M WEFT_PATH=gda WEFT_HCA=soft run 1 "$weft" run --hosts a,b --env SOFT_HCA_LINK=roce \
        --env SOFT_HCA_ADDRESS=10.77.0.9 "$build/bin/job_rma"
    says 'mlx5_soft0 gets no address of SOFT_HCA_ADDRESS=10.77.0.9 at UDP port 4791: Cannot assign requested address'
}

# Adapters whose packets get nowhere, in a job that is connected: path net takes their place, with the reason, and
# soon: the job does not wait until the adapters give up.
gda_silent() {
    local started=$SECONDS
    ip -n a addr add fd77::1/64 dev eth0 nodad && ip -n b addr add fd77::2/64 dev eth0 nodad &&
        ip -n a -6 route add blackhole fd77::2/128 && ip -n b -6 route add blackhole fd77::1/128 ||
        fail "no IPv6 here"
    WEFT_HEAP_SIZE=4M WEFT_HCA=soft run 0 "$weft" run --hosts a,b --env SOFT_HCA_LINK=roce \
        --env SOFT_HCA_ADDRESS=fd77::1,fd77::2 "$build/bin/job_rma"
    says 'no PE uses path gda for host memory: PE 0: atomic waited .* for PE 1: .* \(limit of a path test\)'
    [ $((SECONDS - started)) -le 18 ] || fail "the job took $((SECONDS - started)) s"
}

# Two PEs to a host, each with an adapter of its own: p2p within a host and gda between hosts, as the library
# chooses. The adapters' atomics are a load and a store, so those within a host go by them too.
gda_beside_p2p() {
    local addresses=10.77.0.1,10.77.0.11,10.77.0.2,10.77.0.12 program before
    ip -n a addr add 10.77.0.11/24 dev eth0
    ip -n b addr add 10.77.0.12/24 dev eth0
    for program in "job_mixed chosen" "job_mixed words" "job_mixed order" job_rma job_collective \
        "device_words" "device_rma" "device_collective"; do
        before=$(came_from_a)
        # shellcheck disable=SC2086
        WEFT_HEAP_SIZE=4M WEFT_HCA=soft run 0 "$weft" run --hosts a:2,b:2 --env SOFT_HCA_LINK=roce \
            --env SOFT_HCA_ADDRESS=$addresses --env SOFT_HCA_ATOMICS=weak --env WEFT_TARGET=simt \
            "$build/bin/"$program
        [ $(($(came_from_a) - before)) -gt 10000 ] || fail "$program: too little has left host a"
    done
    ip -n a addr del 10.77.0.11/24 dev eth0
    ip -n b addr del 10.77.0.12/24 dev eth0
}

received() { ip -s link show dev "$1" | awk '/RX:/ { getline; print $1 }'; }
passed() { [ "$(received "$1")" -gt "$2" ]; }
# pull_after BYTES CABLE: pulls it when so many have gone through it.
pull_after() {
    await 30 passed "$2" $(($(received "$2") + $1)) && ip link set "$2" down
}
under_load() {
    WEFT_HEAP_SIZE=4M WEFT_HCA=soft WEFT_RAILS=2 run 0 "$weft" run --hosts a,b --env SOFT_HCA_LINK=roce \
        --env SOFT_HCA_DEVICES=2 --env SOFT_HCA_ADDRESS=10.78.0.1,10.79.0.1,10.78.0.2,10.79.0.2 \
        --env SOFT_HCA_ATOMICS=weak --env SOFT_HCA_LOG=none --env JOB_ROUNDS=800 "$build/bin/job_failover" none 0 -1
    grep -oE 'PE [01]: the longest round took [0-9]+ ms' "$out"
}

# Two adapters to a host, each on a network of its own. One network is cut off, and the other adapter takes the
# requests; then both are, and path net does, over the network of the start.
gda_pulled() {
    local host network
    for network in 78 79; do
        ip link add hub$network type bridge && ip link set hub$network up
        for host in a b; do
            ip link add to-$host$network type veth peer name eth$network netns $host
            ip link set to-$host$network master hub$network up
            ip -n $host addr add 10.$network.0.$([ $host = a ] && echo 1 || echo 2)/24 dev eth$network
            ip -n $host link set eth$network up
        done
    done
    # The NIC of path net stays.
    export WEFT_FABRIC_INTERFACE=eth0
    for network in 78 79; do
        pull_after 300000 to-a$network &
        under_load
        wait $!
        says "queue pair .* of mlx5_soft$((network - 78)), port 1: the port is down; its requests"
        says 'the longest round took .*requests of failed queues by mlx5_soft'
        says_not 'the longest round took .*requests of failed queues by path net'
        ip link set to-a$network up
    done
    pull_after 200000 to-a79 &
    pull_after 350000 to-a78 &
    under_load
    wait
    says 'the longest round took .*requests of failed queues by path net'
    ip link set to-a78 up && ip link set to-a79 up
    # Path net loses its NIC, too, and takes another, as soon as it sees that the link has no carrier.
    export WEFT_FABRIC_INTERFACE=eth79,eth0
    pull_after 300000 to-a79 &
    under_load
    wait
    says 'the longest round took .*requests of failed queues by mlx5_soft0'
    says 'path net: eth79 is given up, .*: its link has no carrier; messages and transfers continue over eth0'
    unset WEFT_FABRIC_INTERFACE
}

# 64 PEs on 8 hosts: they start, compute and end.
many() {
    local program
    make_hosts_more d e f g h
    for program in boot_exchange rma atomic wait; do
        WEFT_HEAP_SIZE=4M run 0 "$weft" run --hosts a:8,b:8,c:8,d:8,e:8,f:8,g:8,h:8 \
            "$build/bin/job_$program"
    done
}

# start_steady SECONDS: a job that has begun.
start_steady() {
    : >"$out" # what the job before has said is not this one's
    "$weft" run --hosts a:2,b:2 "$build/bin/steady" "$1" >"$out" 2>&1 &
    launcher=$!
    await 30 grep -q ready "$out" || fail "the job did not begin"
}

# For killed.sh: a job that goes on.
stay() {
    start_steady 90
    wait $launcher
}

# The link is down for a second: the lines carry it, and nobody notices but by the time it takes.
hiccup() {
    start_steady 4
    cut_off b
    sleep 1
    join_again b
    wait $launcher || fail "a link that was down for a second has ended the job"
    gone
}

# A host is cut off in the midst of a job: PEs on both sides are told, and it is named.
parted() {
    local status
    export WEFT_WAIT_LIMIT=6s
    start_steady 60
    cut_off b
    wait $launcher
    status=$?
    [ $status != 0 ] || fail "nobody has noticed"
    says '^weft run: (host b \(10.77.0.2\) with PEs 2 to 3 is lost|PE [0-3] \(pid [0-9]+ on [ab]\))'
    says '^told [01]: .*(PE [23]|host b)'
    gone
    join_again b
    export WEFT_WAIT_LIMIT=60s
}

# A wait for a PE of another host lasts as long as that one works, and no longer.
patience() {
    export WEFT_WAIT_LIMIT=3s
    run 0 "$weft" run --hosts a,b "$build/bin/slow_peer" 8
    run 1 "$weft" run --hosts a,b "$build/bin/slow_peer" 60 idle
    says '^PE 0: wait_until waited [0-9.]+ s: .* nothing has moved for [0-9.]+ s'
    export WEFT_WAIT_LIMIT=60s
}

# `weft attach` says of which node the PEs are that it shows.
attach() {
    "$weft" run --hosts a:2,b "$build/bin/slow_peer" 90 >"$out" 2>&1 &
    launcher=$!
    await 20 sh -c '[ "$(pgrep -cx slow_peer)" = 3 ]' || fail "the job did not start"
    waits() {
        local pid
        for pid in $(pgrep -x slow_peer); do
            "$weft" attach "$pid" >"$out.attach" 2>&1
            ! grep -q -- '--wait_until-->' "$out.attach" || return 0
        done
        return 1
    }
    await 40 waits || fail "nobody waits: $(cat "$out.attach")"
    grep -Eq '^node [01] of the job, on .*: [12] of its 3 PEs' "$out.attach" ||
        fail "of which node? $(cat "$out.attach")"
    rm -f "$out.attach"
    kill -TERM $launcher
    wait $launcher
    gone
}

# A PE dies in the midst of a job; the PEs of the other host are told which.
dead() {
    run 137 "$weft" run --hosts a:2,b:2 "$build/bin/steady" 30 3
    says '^weft run: PE 3 \(pid [0-9]+ on b\) was killed by signal 9 \(Killed\); ending'
    says '^told 0: WEFT_ERR_PEER_DEAD: PE 3 \(pid [0-9]+ on b\) was killed by signal 9'
}

# Delay, loss and packets out of order.
over_bad_lines() {
    if ! slow_net 1ms 1% 5%; then
        echo "skipped: $case: this kernel has no netem (sch_netem); ./dev vm has one"
        skipped=1
        return
    fi
    "$1"
}
bad_line() { over_bad_lines jobs; }
bad_hiccup() { over_bad_lines hiccup; }
bad_dead() { over_bad_lines dead; }
bad_parted() { over_bad_lines parted; }

# A PE in the job is killed, exits, or aborts.
deaths() {
    run 137 "$weft" run --hosts a:2,b:2 "$build/bin/boot_victim" gather 3
    says '^weft run: PE 3 \(pid [0-9]+ on b\) was killed by signal 9 \(Killed\); ending the job$'
    run 7 "$weft" run --hosts a:2,b:2 sh -c "test \$WEFT_PE != 2 || exit 7; exec sleep 50"
    says 'PE 2 \(pid [0-9]+ on b\) exited with status 7'
    # shellcheck disable=SC2016
    run 143 "$weft" run --hosts a:2,b sh -c 'trap "" HUP; test $WEFT_PE != 2 || kill -TERM $PPID; exec sleep 50'
    says 'PE 2 \(pid [0-9]+ on b\) was killed by signal 15'
}

start_victims() {
    "$weft" run --hosts a:2,b:2 sleep 60 >"$out" 2>&1 &
    launcher=$!
    await 10 sh -c '[ $(pgrep -cx sleep) -ge 4 ]' || fail "the PEs did not start"
}

agents() { pgrep -x weft | grep -vx $launcher; }

# Whoever is killed, nothing is left.
kills() {
    local status
    start_victims
    kill -9 $launcher
    wait $launcher 2>/dev/null
    gone
    start_victims
    kill -9 "$(agents | tail -n 1)"
    wait $launcher
    status=$?
    [ $status = 1 ] || fail "status $status after an agent's death"
    says '^weft run: host [ab] \(10\.77\.0\.[12]\) with PEs [0-9] to [0-9] is lost: .*; ending the job$'
    gone
    start_victims
    kill -TERM $launcher
    wait $launcher
    status=$?
    [ $status = 143 ] || fail "status $status after SIGTERM"
    gone
}

# The cable is pulled: noticed at both ends, and named.
cable() {
    local status
    export WEFT_WAIT_LIMIT=4s
    start_victims
    cut_off b
    wait $launcher
    status=$?
    [ $status = 1 ] || fail "status $status when a host was cut off"
    says '^weft run: host b \(10.77.0.2\) with PEs 2 to 3 is lost: (it does not answer any more: |this host does not answer its agent)'
    says '^weft run on b: the launcher is lost \(it does not answer any more: '
    gone
    join_again b
    export WEFT_WAIT_LIMIT=60s
}

# tamper WORDS: a remote shell that changes what agents are told, sed's way, in as many bytes.
tamper() {
    printf '#!/bin/sh\nhost=$1; shift\nsed -uz "%s" | exec ip netns exec $host "$@"\n' "$1" >"$out.sh"
    chmod +x "$out.sh"
}

strangers() {
    export WEFT_BOOT_LIMIT=2s
    tamper 's/^secret=......../secret=00000000/'
    run 1 "$weft" run --rsh "$out.sh" --hosts a,b true
    says 'weft run --hosts: dropped an unauthenticated peer, 10.77.0.[12]:[0-9]+: it closed the connection after the hub.s proof'
    says 'weft run on [ab]: connecting to the launcher: .*the process that answered does not know the secret of this job'
    tamper 's/version=./version=9/'
    run 1 "$weft" run --rsh "$out.sh" --hosts a,b true
    says 'weft run on [ab]: the launcher is Weft 9.* and this host has Weft '
    rm -f "$out.sh"
    export WEFT_BOOT_LIMIT=20s
}

# The remote shell works, the way back does not.
unreachable() {
    export WEFT_BOOT_LIMIT=2s
    cut_off b
    run 1 "$weft" run --hosts a,b true
    says 'weft run on b: connecting to the launcher: .*10\.77\.0\.254:[0-9]+: (No route to host|Connection timed out)'
    says 'weft run: (host b: .* ended with status 1 before weft started there|weft run --hosts: 1 of 2 members did not connect .*: b$)'
    join_again b
    run 1 "$weft" run --hosts a,nowhere true
    says 'weft run: host nowhere: .ip netns exec nowhere .* ended with status'
    run 1 "$weft" run --rsh "ip netns exec" --weft /nowhere/weft --hosts a,b true
    export WEFT_BOOT_LIMIT=20s
    run 127 "$weft" run --hosts a,b no-such-program
    says 'weft run on [ab]: no-such-program: there is no such program'
    run 2 "$weft" run --hosts a:0 true
    run 2 "$weft" run -n 5 --hosts a:2,b:2 true
    run 2 "$weft" run --hosts -oProxyCommand=true true
}

# The real remote shell: a server of ssh on each host, with keys of its own.
real_ssh() {
    local dir host sshd servers=()
    sshd=$(PATH=$PATH:/usr/sbin command -v sshd) || {
        echo "skipped: $case: no sshd (package openssh-server)"
        skipped=1
        return
    }
    dir=$(mktemp -d)
    mkdir -p /run/sshd
    ssh-keygen -q -t ed25519 -N '' -f "$dir/host"
    ssh-keygen -q -t ed25519 -N '' -f "$dir/user"
    cp "$dir/user.pub" "$dir/authorized"
    cat >"$dir/sshd" <<END
HostKey $dir/host
AuthorizedKeysFile $dir/authorized
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
END
    printf 'Host *\n IdentityFile %s\n UserKnownHostsFile %s\n StrictHostKeyChecking no\n LogLevel ERROR\n' \
        "$dir/user" "$dir/known" >"$dir/ssh"
    for host in a b; do
        ip netns exec $host "$sshd" -D -e -f "$dir/sshd" 2>"$dir/log-$host" &
        servers+=($!)
    done
    export WEFT_RSH="ssh -F $dir/ssh -x -o BatchMode=yes -o ConnectTimeout=5"
    await 10 ssh -F "$dir/ssh" -o BatchMode=yes 10.77.0.1 true 2>/dev/null || fail "sshd: $(cat "$dir/log-a")"
    run 0 "$weft" run --weft "$(readlink -f "$weft")" --hosts 10.77.0.1:2,root@10.77.0.2:2 \
        "$(readlink -f "$build")/bin/job_boot_exchange" 4 2
    # shellcheck disable=SC2016
    run 0 sh -c "echo pear | '$weft' run --prefix --hosts 10.77.0.1,10.77.0.2 sh -c '
        test \$WEFT_PE = 1 || cat; test \$WEFT_PE = 0 || echo \"two  words\" \$WEFT_PE'"
    says '^\[10.77.0.1 0\] pear$'
    says '^\[10.77.0.2 1\] two  words 1$'
    run 137 "$weft" run --hosts 10.77.0.1:2,10.77.0.2:2 "$(readlink -f "$build")/bin/boot_victim" gather 3
    says 'PE 3 \(pid [0-9]+ on 10.77.0.2\) was killed by signal 9'
    run 1 "$weft" run --hosts 10.77.0.1,10.77.0.9 true
    says 'ssh: connect to host 10.77.0.9 port 22: (No route to host|Connection timed out)'
    says 'weft run: host 10.77.0.9: .* ended with status 255 before weft started there'
    "$weft" run --hosts 10.77.0.1:2,10.77.0.2:2 sleep 60 >"$out" 2>&1 &
    launcher=$!
    await 10 sh -c '[ $(pgrep -cx sleep) -ge 4 ]' || fail "the PEs did not start"
    kill -9 $launcher
    wait $launcher 2>/dev/null
    gone
    kill "${servers[@]}"
    wait
    rm -rf "$dir"
    export WEFT_RSH="ip netns exec"
}

# Nobody sees the secret: not in a command line, not in an environment.
secret() {
    local secret
    printf '#!/bin/sh\nhost=$1; shift\ntee %s.told | exec ip netns exec $host "$@"\n' "$out" >"$out.sh"
    chmod +x "$out.sh"
    "$weft" run --rsh "$out.sh" --hosts b:2 sleep 60 >"$out" 2>&1 &
    launcher=$!
    await 10 sh -c '[ $(pgrep -cx sleep) -ge 2 ]' || fail "the PEs did not start"
    secret=$(tr '\0' '\n' <"$out.told" | sed -n 's/^secret=//p')
    [ ${#secret} -ge 32 ] || fail "no secret was told"
    printf '%s' "$secret" >"$out.secret"
    ! cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | grep -qaF -f "$out.secret" ||
        fail "the secret stands where others can read it"
    kill -TERM $launcher
    wait $launcher
    rm -f "$out.sh" "$out.told" "$out.secret"
    gone
}

make_hosts a b c
name_hosts a b c
[ $# -gt 0 ] || set -- exchange jobs output doctor rank by_turns rank_dead rank_early rank_strangers unique_id id_early deaths kills cable strangers unreachable secret real_ssh hiccup parted dead patience attach bad_line many
for case in "$@"; do
    "$case"
done
verdict "$@"
