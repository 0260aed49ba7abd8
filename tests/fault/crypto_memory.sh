#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# crypto_memory.sh PROGRAM FAIL_AT_MODULE: finding A23. When any malloc in the first HMAC fails, the
# call returns an error, and the crypto library does not crash.
set -u
program=$1 module=$2 failures=0 failed=0
"$program" || { echo "without a failure: status $?"; exit 1; }
for k in $(seq 1 60) $(seq 61 97 3000); do
    said=$(FAIL_CALL=malloc FAIL_AT=$k FAIL_IN=launcher LD_PRELOAD=$module "$program" 2>&1)
    status=$?
    [[ $said != *fail_at* ]] || failed=$((failed + 1))
    case $status in
    0 | 3 | 4) ;;
    *)
        echo "malloc number $k fails: status $status"
        failures=$((failures + 1))
        ;;
    esac
done
echo "$failed calls of malloc failed, $failures of them not as they should"
[ $failures = 0 ] && [ $failed -gt 10 ]
