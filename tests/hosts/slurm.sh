#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# slurm.sh BUILD: a Slurm of one node (munged, slurmctld, slurmd), with a configuration of its own, on the
# loopback interface of a network namespace of its own; jobs of Weft by srun with PMIx; then it is ended.
# Needs root, and Debian's packages slurmd, slurmctld, slurm-client and munge.
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/net.sh"
PATH=$PATH:/usr/sbin
for program in munged slurmctld slurmd srun; do
    command -v $program >/dev/null || {
        echo "skipped: no $program (packages slurmd, slurmctld, slurm-client, munge)"
        exit 77
    }
done
[ "$(id -u)" = 0 ] || {
    echo "skipped: slurmd wants root"
    exit 77
}
enter_own_world "$0" "$@"
build=$1 bad=0 dir=$(mktemp -d)
# The daemons end with the namespace of processes.
trap 'rm -rf "$dir"' EXIT
make_hosts # a bridge alone: Slurm resolves nothing where there is only loopback
mount -t tmpfs none /var/log
mkdir -p "$dir/munge" "$dir/state" "$dir/spool" "$dir/tmp"
chmod 755 "$dir"
head -c 1024 /dev/urandom >"$dir/munge/key"
chmod 400 "$dir/munge/key"
munged --foreground --force --key-file="$dir/munge/key" --socket="$dir/munge/socket" \
    --pid-file="$dir/munge/pid" --log-file="$dir/munge/log" --seed-file="$dir/munge/seed" \
    --num-threads=1 >"$dir/munged" 2>&1 &

name=$(hostname)
cat >"$dir/slurm.conf" <<END
ClusterName=weft
SlurmctldHost=$name(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
TmpFS=$dir/tmp
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=pmix
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
NodeName=$name NodeAddr=127.0.0.1 CPUs=16 State=UNKNOWN
PartitionName=all Nodes=$name Default=YES MaxTime=10 State=UP OverSubscribe=FORCE:4
END
export SLURM_CONF=$dir/slurm.conf WEFT_WAIT_LIMIT=60s WEFT_HEAP_SIZE=4M
await 5 test -S "$dir/munge/socket" || { echo "FAILED: munged" && cat "$dir/munged" && exit 1; }
slurmctld -D >"$dir/slurmctld" 2>&1 &
slurmd -D >"$dir/slurmd" 2>&1 &
disown -a
idle() { sinfo -h -o %T 2>/dev/null | grep -q '^idle'; }
await 30 idle || {
    echo "FAILED: Slurm did not start"
    sinfo
    tail -n 20 "$dir"/slurm*.log "$dir/slurmctld" "$dir/slurmd"
    exit 1
}

# run STATUS COMMAND...
run() {
    local wanted=$1 status
    shift
    await 20 idle # the job before has left
    timeout -k 5 100 "$@" >"$dir/out" 2>&1
    status=$?
    [ $status = "$wanted" ] && return
    echo "FAILED: status $status in place of $wanted: $*"
    sed 's/^/    /' "$dir/out"
    bad=1
}

says() {
    grep -qE -- "$1" "$dir/out" && return
    echo "FAILED: nobody says: $1"
    sed 's/^/    /' "$dir/out"
    bad=1
}

run 0 srun --mpi=list
says pmix
run 0 srun -n 4 --mpi=pmix "$build/bin/job_boot_exchange" 4
run 0 srun -n 4 --mpi=pmix "$build/bin/job_collective"
WEFT_NODE_PES=2 run 0 srun -n 4 --mpi=pmix "$build/bin/job_collective"
WEFT_NODE_PES=3 run 0 srun -n 4 --mpi=pmix "$build/bin/job_boot_exchange" 4 3
# A PE dies: those of its node are told, and Slurm ends the job.
run 137 srun -n 3 --mpi=pmix --kill-on-bad-exit=1 "$build/bin/steady" 30 1
# Without PMIx each process is alone, and says so.
run 0 srun -n 2 --mpi=none "$build/bin/job_boot_exchange" 1
says 'SLURM_NTASKS is 2, but this process found no way to the others .* srun --mpi=pmix'
[ $bad = 0 ] || tail -n 15 "$dir/slurmd.log"
[ $bad = 0 ] && echo "slurm: passed"
exit $bad
