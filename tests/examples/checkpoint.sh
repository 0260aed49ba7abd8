#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# checkpoint.sh CHECKPOINT WEFT FAKE_CUDA_FOLDER FOLDER: the checkpoint example: written by some PEs
# and read by others, in host memory and in GPU memory (over the stand-in of the driver); killed at
# every moment; damaged files; locations that cannot be written. Files go below FOLDER, on a file
# system other than tmpfs.
set -u
checkpoint=$1 weft=$2 fake_cuda=$3 bad=0
mkdir -p "$4"
folder=$(mktemp -d "$4/checkpoint.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
export WEFT_HEAP_SIZE=16M WEFT_GPU_HEAP_SIZE=64M

# job STATUS PES OPTION...
job() {
    local status
    timeout 60 "$weft" run -n "$2" "$checkpoint" --elements "${elements:-60013}" "${@:3}" >out 2>&1
    status=$?
    [ $status = "$1" ] || { echo "status $status in place of $1: $2 PEs, ${*:3}" && sed 's/^/    /' out && bad=1; }
}
says() { grep -qE -- "$1" out || { echo "nobody says: $1" && sed 's/^/    /' out && bad=1; }; }
fail() { echo "$*" && bad=1; }
on_gpus() { LD_LIBRARY_PATH=$fake_cuda job "$@" --gpu; }

# From one number of PEs to the next; the third one in GPU memory, and back.
pes_before=
for pes in 3 5 1 7 2; do
    job 0 $pes --steps $((10 * ${step:=1})) --every 4 state
    says "^step $((10 * step)): all elements are right$"
    [ -z "$pes_before" ] || says "^$pes PEs resume from step $((10 * step - 10)) of state, read in"
    pes_before=$pes step=$((step + 1))
    if [ $pes = 1 ]; then
        on_gpus 0 3 --check state
        says ': 0 elements are wrong'
        on_gpus 0 2 --steps $((10 * step)) state
        says "^2 PEs resume from step $((10 * step - 10))"
        says "^step $((10 * step)): all elements are right$"
        step=$((step + 1))
    fi
done
[ "$(ls)" = $'out\nstate' ] || fail "left behind: $(ls)"
# More fragments than PEs, and more PEs than elements of an array.
elements=300007 job 0 2 --steps 1 large
elements=300007 job 0 3 --check large
says ': 0 elements are wrong'
elements=5 job 0 4 --steps 3 small
elements=5 job 0 3 --check small
says ': 0 elements are wrong'

# Killed at each moment of the second checkpoint: the first one is valid until the second has its
# name.
for moment in 1 2 3 4 5 6; do
    rm -f killed killed.new
    job 137 3 --steps 20 --every 5 --die $moment killed
    [ $moment = 6 ] || [ -e killed.new ] || fail "moment $moment: no new file was begun"
    job 0 $((1 + moment % 4)) --check killed
    says "^step $((moment < 6 ? 5 : 10)): 0 elements are wrong$"
done
job 0 2 --steps 15 killed # what was left behind is no hindrance, and goes
[ ! -e killed.new ] || fail "killed.new is still there"

# The whole job is killed at any moment: the checkpoint is valid, and not older than before. The PEs
# notice the end of `weft run` a moment later and may print until then, which must not mix with the
# output of the next job.
last=15
for round in 1 2 3 4; do
    setsid timeout 60 "$weft" run -n 3 "$checkpoint" --elements 60013 --steps 100000 --every 1 killed >/dev/null 2>&1 &
    sleep 0.$((17 * round + RANDOM % 17))
    kill -9 -- -$!
    wait $! 2>/dev/null
    job 0 $((1 + round)) --check killed
    says ': 0 elements are wrong'
    now=$(sed -n 's/^step \([0-9]*\): 0 elements.*/\1/p' out)
    [ "${now:-0}" -ge "$last" ] || fail "step $now after step $last"
    last=${now:-$last}
done 2>/dev/null

# damage WORDS OFFSET: changes one byte of a copy.
size=$(stat -c %s state)
damage() {
    cp state damaged
    printf '\xa5' | dd of=damaged bs=1 seek="$2" conv=notrunc 2>dd.err || cat dd.err
    cmp -s state damaged && printf '\x5a' | dd of=damaged bs=1 seek="$2" conv=notrunc 2>dd.err
    job 2 "${3:-3}" --check damaged
    says "^checkpoint: PE [0-2]: $1"
}
damage 'damaged is not a checkpoint' 1
damage 'damaged is a checkpoint of version [0-9]+; this program reads version 1' 9
damage 'the checksums of damaged are damaged; use an older checkpoint' 17
damage 'the header of damaged is damaged' 33
damage 'damaged holds array .ield of' 64
damage 'the checksums of damaged are damaged' 4096
damage 'elements 0 to 30005 of array field are damaged' 100000 2 # as many as have written it
damage 'elements [0-9]+ to [0-9]+ of array field are damaged \(checksum [0-9a-f]{8} instead of [0-9a-f]{8}\); use an older' 300000
damage 'elements [0-9]+ to [0-9]+ of array pair are damaged' $((size - 4096))
head -c $((size - 4096)) state >damaged
job 2 2 --check damaged
says 'damaged has [0-9]+ of its [0-9]+ bytes: it is truncated'
head -c 100 state >damaged
job 2 2 --check damaged
says 'damaged has 100 bytes: it is not a checkpoint'
elements=60017 job 2 2 --check state
says 'state holds array field of 60013 elements of 8 bytes, the program has field of 60017 of 8: start it with'
mkdir place
job 2 2 --steps 1 place
says '^checkpoint: PE 0: .*place'
job 2 3 --steps 1 nowhere/state
says '^checkpoint: PE 0: .*nowhere/state.new.*No such file or directory'
job 2 1 --steps 0 state
says '^checkpoint: --steps 0: expected a whole number from 1 to'

# A full disk: the old checkpoint stays, and nothing else. (Skipped without the permission to
# mount.)
mkdir -p disk
cat >full.sh <<'END'
mount -t tmpfs -o size=1100k none disk && cp state disk/full && "$@"
status=$?
cmp state disk/full && [ ! -e disk/full.new ] && [ $status = 2 ]
END
if unshare -rm true 2>/dev/null; then
    timeout 60 unshare -rm bash full.sh "$weft" run -n 2 "$checkpoint" --elements 60013 --steps 100 disk/full >out 2>&1 ||
        { echo "a full disk" && sed 's/^/    /' out && bad=1; }
    says '^checkpoint: PE [01]: .*No space left on device'
fi
exit $bad
