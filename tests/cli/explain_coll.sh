#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# explain_coll.sh WEFT: the output and exit status of `weft explain coll`.
weft=$1
failed=0
says() { # status, text, arguments ...
    wanted=$1 text=$2
    shift 2
    out=$("$weft" explain coll "$@" 2>&1)
    status=$?
    if [ $status -ne "$wanted" ] || ! printf '%s' "$out" | grep -q -- "$text"; then
        echo "weft explain coll $*: status $status (wanted $wanted), without \"$text\": $out"
        failed=1
    fi
}
says 0 'LL128  .* taken: ' allreduce 8 4
says 0 'LL128  .* taken: ' allgather 64K 4
WEFT_PROVE=off says 0 'LL  .* taken: ' allgather 16K 4
WEFT_COLL=lines says 0 'LL128  .* taken: one-shot in lines' allgather 64K 4
WEFT_COLL=twolines says 0 'two-shot LL128  .* taken: ' allreduce 512K 4
WEFT_COLL=lines says 0 'uses LL instead where the LL128 test at' allgather 64K 4
WEFT_COLL=two says 0 'two-shot LL  .* taken: ' allreduce 256K 4
WEFT_COLL=lines says 0 'WEFT_COLL asks for LL128$' allreduce 8 4
WEFT_COLL=lines WEFT_PROVE=off says 0 'which is not possible here' allreduce 4K
WEFT_PROVE=off says 0 'LL128  *not possible' allreduce 64K 4
says 0 'simple  .* taken: ' allgather 4M
says 0 'copy engines  .* taken: copies between two barriers' allgather 256M 4
says 0 'one block of 32 threads at each barrier$' alltoall 64M 4
says 0 'copy engines  *not possible' allreduce 64M
says 0 'on the GPUs of 8 PEs' allgather 16M
says 0 '^alltoalls of 67108864 bytes from or for each on the GPUs of 4 PEs' alltoalls 64M 4
says 0 'copy engines  *not possible' alltoalls 64M 4
says 0 'LL128  *not possible' alltoalls 4K 4
says 0 'simple  *not possible' reduce 64M
says 0 'staged  .* taken: stores into a team buffer' reduce 64M
WEFT_COLL=packets says 0 'in rounds of' reduce 64M
WEFT_COLL=scratch says 0 'WEFT_COLL asks for staged$' allgather 64M 4
says 0 'forwarded in 16 chunks' broadcast 64M 4
says 0 'The PEs exchange sizes by LL packets' alltoallv 4K
WEFT_COLL=direct says 0 'WEFT_COLL asks for simple$' allreduce 8 4
WEFT_COLL=two says 0 'which is not possible here' allgather 8 4
WEFT_COLL=copies says 0 'no kernel runs' allreduce 1M
WEFT_COLL=engines says 0 'WEFT_COLL asks for copy engines$' gather 8 4
WEFT_COLL=engines says 0 'which is not possible here' allreduce 8 4
WEFT_COLL_SMS=0 says 0 'copy engines  .* taken: ' alltoall 8 2
WEFT_COLL_SMS=0 says 0 "the other PEs forward" broadcast 64M 4
WEFT_COLL_SMS=0 says 0 ' 1 block of' allreduce 64M 2
WEFT_COLL_SMS=5 says 0 '4 blocks of' allreduce 64M 2
says 0 '^  estimated rates: spread_us$' allreduce 8 --full
WEFT_COLL=scratch says 0 'stores its blocks into a team buffer' collect 4K
WEFT_COLL=scratch says 0 'the other PEs forward the root' broadcast 64M 4
says 0 "\"algorithm\": \"two-shot LL128\"," allreduce 1M 4 -j
says 0 "two-shot LL128" --full allreduce 1M 4
says 2 'unknown operation "sum"; known are broadcast' sum 8
says 2 'unknown operation "fcollect"; it is now called allgather$' fcollect 8 4
says 2 'unknown operation "reduce_to"; it is now called reduce$' reduce_to 8 4
says 2 'invalid size "x"; expected bytes' allreduce x
says 2 'invalid size "0"' allreduce 0
says 2 'invalid number of PEs "65"; expected 1 to 64' allreduce 8 65
# Several nodes.
says 0 '^allreduce of 8 bytes on the GPUs of 128 PEs, 16 nodes of 8$' allreduce 8 16x8
says 0 'taken: in host memory, by the CPUs of the nodes$' allreduce 8 16x8
says 0 'as vectors of more than 262144 bytes go' allreduce 8 16x8 --full
WEFT_TEST_COLL_BUFFER=0 says 0 'taken: from node to node, by kernels' allreduce 8 16x8
says 0 'taken: from node to node, by kernels' allreduce 1M 16x8
says 0 'taken: along a tree of nodes' broadcast 64K 80x2
says 0 'in chunks$' broadcast 64M 16x8
says 0 'whose times were continued' broadcast 64M 1250x2 --full
says 0 'taken: each block once' collect 64K 3x2
says 0 'taken: each block to its' alltoall 64K 3x2
says 0 '100 Gbit/s of the NIC of each GPU, 2.5 us' allgather 1M 4x8 --gbit 100 --latency 2.5 --full
says 0 '"us_by_kernels": null' allreduce 1M 16x8 -j
says 2 'alltoallv over several nodes is not estimated' alltoallv 8 4x8
WEFT_COLL=copies says 2 'WEFT_COLL=copies over several nodes is not estimated' allreduce 8 4x8
says 0 'taken: from node to node, by kernels' reduce 1M 4x1
says 2 'allreduce of 8 bytes over nodes of one GPU is not estimated: reductions of up to 262144 bytes are' allreduce 8 4x1
says 2 'invalid number of nodes "2000x60"; expected nodes of 1 to 64 PEs, 16384 in all' allreduce 8 2000x60
says 0 "taken: through the GPUs of the root's node" scatter 1M 3x2
says 0 'taken: each block to its' scatter 128K 3x2
says 0 'taken: each block to its' gather 1M 3x1
says 2 'invalid number of nodes "0x8"' allreduce 8 0x8
says 2 'invalid number of nodes "2049x8"' allreduce 8 2049x8
says 2 'invalid number of PEs "4x65"; expected 1 to 64 of each node' allreduce 8 4x65
says 2 'invalid number of PEs "4x"' allreduce 8 4x
says 2 'invalid number of PEs "-4x8"; expected 1 to 64, or nodes' allreduce 8 -- -4x8
says 2 'name nodes, such as 16x8' allreduce 8 4 --gbit 100
says 2 'expected Gbit/s such as 400' allreduce 8 4x8 --gbit 0
says 2 'name OPERATION BYTES \[PES|NODESxPES\], e.g. allreduce 1M 4' allreduce
# No line is longer than a terminal, unless all are wanted; the words are the same.
for what in 'allreduce 8' 'allreduce 8 30x2' 'broadcast 1G 100x2' 'broadcast 64M 4' 'alltoallv 1M' 'allgather 64K 4' 'alltoall 256M'; do
    for way in auto lines engines copies; do
        case "$what $way" in *x2\ copies) continue ;; esac # refused, see above
        WEFT_COLL=$way "$weft" explain coll $what > folded.$$
        WEFT_COLL=$way "$weft" explain coll $what --full > whole.$$
        awk 'length($0) > 100 { exit 1 }' folded.$$ || { echo "$what by $way: over 100 columns: $(cat folded.$$)"; failed=1; }
        [ "$(tr -s ' \n' '  ' < folded.$$)" = "$(tr -s ' \n' '  ' < whole.$$)" ] || { echo "$what by $way: other words with --full"; failed=1; }
    done
done
awk 'length($0) > 100 { long = 1 } END { exit !long }' whole.$$ || { echo "--full folds"; failed=1; }
rm -f folded.$$ whole.$$
exit $failed
