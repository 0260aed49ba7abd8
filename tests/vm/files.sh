# SPDX-License-Identifier: Apache-2.0
# files.sh CASE...: in a guest: files on a drive of NVMe (QEMU's), on the same over NVMe/TCP from this kernel's own
# target, and on both as block devices; and the test that cuts the power.
. tests/vm/guest.sh
modules nvme ext4 loop
await 20 test -b /dev/nvme0n1 || { echo "no /dev/nvme0n1"; exit 1; }
export JOB_ROUNDS=60 WEFT_HEAP_SIZE=64M

# programs FOLDER WORDS: the tests of files there, which say on what they are.
programs() {
    local backend
    export JOB_FOLDER=$1
    for backend in uring threads; do
        export WEFT_FILE_BACKEND=$backend WEFT_FILE_CHUNK=8K WEFT_FILE_DEPTH=3
        run 0 "$weft" run -n 2 "$build/bin/job_file_model"
        says "^$backend direct on $2, 3 x 8192 bytes"
        JOB_ROUNDS=4 run 0 "$weft" run -n 2 "$build/bin/job_file_shared"
        unset WEFT_FILE_CHUNK WEFT_FILE_DEPTH
        run 0 "$weft" run -n 2 "$build/bin/job_file_team"
    done
    unset WEFT_FILE_BACKEND JOB_FOLDER
    [ -z "$(ls -A "$1" | grep -v lost+found)" ] || fail "left behind: $(ls -A "$1")"
}

# figures FILE...: rows without a fault, by what the command says of the store.
figures() {
    run 0 "$weft" bench file --file "$1" --size 16M --blocks 256K --depths 4 --repetitions 1 --methods weft,plain
    says "$2; weft by uring direct"
    says '^ +256K +4 +1 +[0-9.]+ +[0-9.]+ '
}

# on DEVICE WORDS: a file system on it, and the device itself.
on() {
    mkfs.ext4 -q -F "$1" >$out 2>&1 || fail "mkfs.ext4 $1"
    mount "$1" /mnt || fail "mount $1"
    programs /mnt "ext4 \($2\)"
    umount /mnt || fail "the file system is still in use"
    figures "$1" "none on $2"
}

nvme() { on /dev/nvme0n1 "NVMe on PCIe"; }

# A subsystem of the kernel's target with the second drive, and this kernel as its initiator.
tcp() {
    local target=/sys/kernel/config/nvmet device
    modules nvmet-tcp nvme-tcp
    mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
    mkdir -p $target/subsystems/weft/namespaces/1 $target/ports/1
    echo 1 >$target/subsystems/weft/attr_allow_any_host
    echo -n /dev/nvme1n1 >$target/subsystems/weft/namespaces/1/device_path
    echo 1 >$target/subsystems/weft/namespaces/1/enable
    echo 127.0.0.1 >$target/ports/1/addr_traddr
    echo tcp >$target/ports/1/addr_trtype
    echo 4420 >$target/ports/1/addr_trsvcid
    echo ipv4 >$target/ports/1/addr_adrfam
    ln -s $target/subsystems/weft $target/ports/1/subsystems/weft
    echo "transport=tcp,traddr=127.0.0.1,trsvcid=4420,nqn=weft,hostnqn=nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555" \
        >/dev/nvme-fabrics || fail "no connection to the target"
    await 20 test -b /dev/nvme2n1 || fail "no /dev/nvme2n1"
    on /dev/nvme2n1 "NVMe over tcp"
}

# The disk's power is cut, so to speak: tests/job/file_power.sh, whose file system has other code here.
power() {
    run 0 tests/job/file_power.sh "$build/bin/file_power" ext4
    says 'whole after weft_file_sync\(\), not without'
}

for each in "$@"; do
    begin "files $each"
    declare -F "$each" >/dev/null || fail "there is no such case"
    $each
    end
done
[ $bad = 0 ]
