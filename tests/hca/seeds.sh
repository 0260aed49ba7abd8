#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests of the host's and of device code's operations over path gda, where the software HCA does the worst that the rules
# permit, by many seeds. By its number a seed also takes one of two lengths of queues, one or several queues to each PE, one
# or two adapters for each, the wire between processes or UDP (which then loses, doubles, swaps and damages packets), and 2
# or 3 PEs. Atomics are a load and a store: of one word they must all come to one adapter.
#   seeds.sh BUILD [FIRST [LAST [PROGRAMS]]]      seeds 1 to 50 unless told; PROGRAMS: a pattern, e.g. '^device_'
# Exit status 1 when any failed; its line can be run by itself.
set -u
bin=$1/bin first=${2:-1} last=${3:-50} pattern=${4:-.}
programs='device_rma device_atomics device_runs device_signal device_wait device_collective device_packet
    device_own device_words device_turns job_rma job_atomic job_wait job_collective job_team job_wait_types job_bounds
    job_shmem_signal job_shmem_order job_shmem_lock job_shmem_rma_typed job_shmem_amo_typed job_shmem_teams
    job_nvshmem_rma job_nvshmem_sync job_nvshmem_extensions'
failed=0 runs=0
output=$(mktemp)
trap 'rm -f "$output"' EXIT
for seed in $(seq "$first" "$last"); do
    settings="WEFT_PATH=gda WEFT_HCA=soft WEFT_TARGET=simt WEFT_WAIT_LIMIT=100s"
    settings+=" SOFT_HCA_MODE=adversarial SOFT_HCA_SEED=$seed"
    settings+=" WEFT_GDA_DEPTH=$((seed % 2 ? 128 : 1024)) WEFT_GDA_QUEUES=$((1 + seed / 2 % 3))"
    adapters=$((1 + seed / 3 % 2))
    settings+=" SOFT_HCA_DEVICES=$adapters WEFT_GDA_ADAPTERS=$adapters SOFT_HCA_WEAK_ATOMICS=1"
    [ $((seed % 4)) != 3 ] || settings+=' SOFT_HCA_LINK=roce SOFT_HCA_ADDRESS=lo SOFT_HCA_ICRC=check'
    for program in $programs; do
        [[ $program =~ $pattern ]] && [ -x "$bin/$program" ] || continue
        heap=16M
        [[ $program != job_* || $program == *shmem* ]] || heap=4M
        command="env $settings WEFT_HEAP_SIZE=$heap $bin/weft run -n $((2 + seed / 4 % 2)) $bin/$program"
        timeout 200 $command >"$output" 2>&1
        status=$? runs=$((runs + 1))
        [ $status = 77 ] || [ $status = 0 ] && continue
        failed=$((failed + 1))
        printf 'FAILED with status %d: %s\n' "$status" "$command"
        tail -5 "$output"
    done
done
printf '%d runs, %d failed\n' "$runs" "$failed"
[ $failed = 0 ] && [ $runs != 0 ]
