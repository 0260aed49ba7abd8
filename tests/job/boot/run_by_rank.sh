#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run_by_rank.sh N PORT PROGRAM [ARGUMENT...]: starts N processes as torchrun does, with RANK,
# WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, and returns the first failing status. PORT 0:
# a free one, so that several such jobs can run at the same time.
n=$1 port=$2
shift 2
[ "$port" -ne 0 ] || port=$((20000 + $$ % 12000))
export WORLD_SIZE="$n" MASTER_ADDR="${MASTER_ADDR:-127.0.0.1}" MASTER_PORT="$port"
pids=
rank=$((n - 1)) # the first PE last: the others have to wait for it
while [ "$rank" -ge 0 ]; do
    RANK=$rank LOCAL_RANK=$rank "$@" &
    pids="$pids $!"
    rank=$((rank - 1))
done
result=0
for pid in $pids; do
    wait "$pid" || { status=$?; [ "$result" -ne 0 ] || result=$status; }
done
exit "$result"
