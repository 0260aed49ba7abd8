# SPDX-License-Identifier: Apache-2.0
# Sourced, after net.sh. Starts a Slurm (munged, slurmctld, and a slurmd for each host) with its own
# configuration, which ends with the script. Needs root, and Debian's packages slurmd, slurmctld,
# slurm-client, munge.

slurm_is_here() {
    local program
    for program in munged slurmctld slurmd srun; do
        command -v $program >/dev/null || {
            echo "skipped: no $program (packages slurmd, slurmctld, slurm-client, munge)"
            return 1
        }
    done
    [ "$(id -u)" = 0 ] || {
        echo "skipped: slurmd wants root"
        return 1
    }
}

slurm_idle() { [ "$(sinfo -h -o '%T %D' 2>/dev/null)" = "idle ${SLURM_HOSTS:-}" ]; }

# start_munge FOLDER
start_munge() {
    mkdir -p "$1"
    head -c 1024 /dev/urandom >"$1/key"
    chmod 400 "$1/key"
    munged --foreground --force --key-file="$1/key" --socket="$1/socket" --pid-file="$1/pid" \
        --log-file="$1/log" --seed-file="$1/seed" --num-threads=1 >"$1/said" 2>&1 &
    await 5 test -S "$1/socket" || { cat "$1/said" && return 1; }
}

# slurm_configuration FOLDER HOST...: each node has folders of its own, for on one machine they share names.
slurm_configuration() {
    local dir=$1 name number=0
    shift
    cat <<END
ClusterName=weft
SlurmctldHost=hub(10.77.0.254)
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
TmpFS=$dir/tmp/%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=3
MpiDefault=pmix
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
PartitionName=all Nodes=$(echo "$@" | tr ' ' ,) Default=YES MaxTime=10 State=UP OverSubscribe=FORCE:4
END
    for name in "$@"; do
        number=$((number + 1))
        echo "NodeName=$name NodeAddr=10.77.0.$number CPUs=16 State=UNKNOWN"
    done
}

# start_slurm HOST...: hosts of make_hosts that are found by name. Ends the script where it does not start.
start_slurm() {
    local dir name
    dir=$(mktemp -d)
    chmod 755 "$dir"
    mount -t tmpfs none /var/log
    mkdir -p "$dir/state" "$dir/spool" "$dir/tmp"
    start_munge "$dir/munge" || { echo "FAILED: munged did not start" && exit 1; }
    slurm_configuration "$dir" "$@" >"$dir/slurm.conf"
    export SLURM_CONF=$dir/slurm.conf SLURM_HOSTS=$#
    slurmctld -D >"$dir/slurmctld" 2>&1 &
    for name in "$@"; do
        mkdir "$dir/spool/$name" "$dir/tmp/$name"
        on_host "$name" slurmd -D >"$dir/slurmd.$name" 2>&1 &
    done
    disown -a
    await 30 slurm_idle && return
    echo "FAILED: Slurm did not start"
    sinfo
    tail -n 20 "$dir"/slurm*.log "$dir/slurmctld" "$dir"/slurmd.?
    exit 1
}
