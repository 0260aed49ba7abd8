#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests of host and device operations over path gda, with the software HCA in adversarial mode, for
# many seeds. The number of the seed also selects one of two queue lengths, one or several queues
# per PE, one or two adapters per PE, the wire (between processes or UDP, which loses, duplicates,
# reorders and damages packets), and 2 or 3 PEs. Atomics are a load and a store, so all atomics on
# one word must use one adapter.
#   seeds.sh BUILD [FIRST [LAST [PROGRAMS]]]      default: seeds 1 to 50; PROGRAMS: a pattern, e.g.
#   '^device_'
# Exit status 1: a test failed; the printed command line runs it alone.
set -u
bin=$1/bin first=${2:-1} last=${3:-50} pattern=${4:-.}
programs='device_rma device_atomics device_runs device_signal device_wait device_collective
    device_packet device_own device_words device_split device_turns job_rma job_atomic job_wait
    job_collective job_team job_wait_types job_bounds job_shmem_signal job_shmem_order
    job_shmem_lock job_shmem_rma_typed job_shmem_amo_typed job_shmem_teams job_nvshmem_rma
    job_nvshmem_sync job_nvshmem_extensions'
failed=0 runs=0
output=$(mktemp)
trap 'rm -f "$output"' EXIT
for seed in $(seq "$first" "$last"); do
    settings="WEFT_PATH=gda WEFT_HCA=soft WEFT_TARGET=simt WEFT_WAIT_LIMIT=100s"
    settings+=" SOFT_HCA_MODE=adversarial SOFT_HCA_SEED=$seed"
    settings+=" WEFT_TEST_GDA_DEPTH=$((seed % 2 ? 128 : 1024)) WEFT_GDA_QUEUES=$((1 + seed / 2 % 3))"
    adapters=$((1 + seed / 3 % 2))
    settings+=" SOFT_HCA_DEVICES=$adapters WEFT_RAILS=$adapters SOFT_HCA_ATOMICS=weak"
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
