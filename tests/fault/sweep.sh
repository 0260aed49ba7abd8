#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sweep.sh WEFT ONCE FAIL_AT_MODULE [MOST]: every use of each system call in the table of fail_at.c
# fails once (at most the first MOST uses), in the launcher and in PE 1 of two. The job must end
# without a crash and without a wrong result, and it must report a failure.
set -u
weft=$1 once=$2 module=$3 most=${4:-100000} failures=0 runs=0
log=$(mktemp /tmp/weft-test-sweep.XXXXXX) && trap 'rm -f "$log"' EXIT
export WEFT_HEAP_SIZE=4M WEFT_WAIT_LIMIT=10s ASAN_OPTIONS=verify_asan_link_order=0
complain() { echo "$place, $call number $k: $*"; sed 's/^/    /' "$log"; failures=$((failures + 1)); }

for place in launcher 1; do
    for call in socketpair epoll_create1 epoll_ctl epoll_wait pipe2 memfd_create ftruncate mmap sendmsg \
        recvmsg calloc malloc; do
        for ((k = 1; k <= most; k++)); do
            FAIL_CALL=$call FAIL_AT=$k FAIL_IN=$place LD_PRELOAD=$module \
                timeout -k 1 30 "$weft" run -n 2 --prefix "$once" >"$log" 2>&1
            status=$?
            runs=$((runs + 1))
            grep -q "fail_at: $call" "$log" || { # no k-th use: the sweep of this call is over
                [ $status = 0 ] || complain "fails without a failed call, status $status"
                break
            }
            [ $status = 124 ] && complain "does not end"
            [ $status -gt 128 ] && complain "ends by signal $((status - 128))"
            [ $status = 4 ] && complain "a failure without a sentence"
            grep -q 'CHECK(' "$log" && complain "a wrong result"
            [ $status = 0 ] || grep -qE 'weft run:|once: WEFT_ERR' "$log" || complain "says nothing"
        done
    done
done
echo "sweep: $runs runs, $failures failures"
[ $failures = 0 ]
