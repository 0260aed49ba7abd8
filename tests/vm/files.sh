# SPDX-License-Identifier: Apache-2.0
# files.sh CASE...: in a guest: files on an NVMe drive (QEMU's), on the same over NVMe/TCP and over
# NVMe/RDMA (soft RoCE) from this kernel's own target, and as block devices; on several drives at
# once; on NFS from this kernel's own server; and the test that cuts the power.
. tests/vm/guest.sh
modules nvme ext4 loop
await 20 test -b /dev/nvme0n1 || { echo "no /dev/nvme0n1"; exit 1; }
export JOB_ROUNDS=60 WEFT_HEAP_SIZE=64M

# programs FOLDER WORDS: the tests of files there, which say on what they are.
programs() {
    local backend
    export JOB_FOLDER=$1
    for backend in uring threads; do
        export WEFT_FILE_BACKEND=$backend WEFT_TEST_FILE_CHUNK=8K WEFT_TEST_FILE_DEPTH=3
        run 0 "$weft" run -n 2 "$build/bin/job_file_model"
        says "^$backend direct on $2, 3 x 8192 bytes"
        JOB_ROUNDS=4 run 0 "$weft" run -n 2 "$build/bin/job_file_shared"
        unset WEFT_TEST_FILE_CHUNK WEFT_TEST_FILE_DEPTH
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
    mount "$1" /mnt || { fail "mount $1" && return; }
    programs /mnt "ext4 \($2\)"
    umount /mnt || fail "the file system is still in use"
    figures "$1" "none on $2"
}

nvme() { on /dev/nvme0n1 "NVMe on PCIe"; }

# over TRANSPORT ADDRESS: a subsystem of the kernel's target with the second drive, and this kernel as its initiator.
over() {
    local target=/sys/kernel/config/nvmet
    modules "nvmet-$1" "nvme-$1"
    mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
    mkdir -p $target/subsystems/weft/namespaces/1 $target/ports/1
    echo 1 >$target/subsystems/weft/attr_allow_any_host
    echo -n /dev/nvme1n1 >$target/subsystems/weft/namespaces/1/device_path
    echo 1 >$target/subsystems/weft/namespaces/1/enable
    echo "$2" >$target/ports/1/addr_traddr
    echo "$1" >$target/ports/1/addr_trtype
    echo 4420 >$target/ports/1/addr_trsvcid
    echo ipv4 >$target/ports/1/addr_adrfam
    ln -s $target/subsystems/weft $target/ports/1/subsystems/weft
    echo "transport=$1,traddr=$2,trsvcid=4420,nqn=weft,hostnqn=nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555" \
        >/dev/nvme-fabrics || { fail "no connection to the target" && return; }
    await 20 test -b /dev/nvme2n1 || { fail "no /dev/nvme2n1" && return; }
    on /dev/nvme2n1 "NVMe over $1"
    echo 1 >"$(echo /sys/class/nvme-fabrics/ctl/nvme*/delete_controller)"
    rm $target/ports/1/subsystems/weft
    rmdir $target/ports/1 $target/subsystems/weft/namespaces/1 $target/subsystems/weft
}

over_tcp() { over tcp 127.0.0.1; }

# Two ports of soft RoCE on one cable, which the bytes must have crossed.
cable() {
    [ -e /sys/class/net/va ] || { make_cable va vb 10.1.0 0 && make_verbs rxe va vb; } || fail "no cable"
}

crossed() { echo $(($(sent va) + $(sent vb) - $1)); }

over_rdma() {
    local before
    cable
    before=$(crossed 0)
    over rdma 10.1.0.2
    [ "$(crossed "$before")" -ge 32000000 ] || fail "$(crossed "$before") bytes have crossed the cable"
}

# The kernel's server, told by hand what mountd would tell it: whoever comes has the folder, whose number is 0.
serve_nfs() {
    local flags=$((0x2000 | 2 | 0x10)) # fsid, any port, async
    mkdir -p /var/lib/nfs/v4recovery
    mount -t nfsd none /proc/fs/nfsd || return 1
    echo 10 >/proc/fs/nfsd/nfsv4leasetime # the least; so long clients of before may come back, and new ones wait
    echo 10 >/proc/fs/nfsd/nfsv4gracetime
    echo "-3 +4 +4.1 +4.2" >/proc/fs/nfsd/versions # what is older wants rpcbind
    echo "nfsd 10.1.0.1 2000000000 anyone" >/proc/net/rpc/auth.unix.ip/channel
    echo "nfsd 10.1.0.2 2000000000 anyone" >/proc/net/rpc/auth.unix.ip/channel
    echo "anyone $1 2000000000 $flags -2 -2 0" >/proc/net/rpc/nfsd.export/channel
    echo "anyone 1 \\x00000000 2000000000 $1" >/proc/net/rpc/nfsd.fh/channel
    echo "tcp 2049" >/proc/fs/nfsd/portlist
    echo 4 >/proc/fs/nfsd/threads
}

nfs() {
    local before
    modules nfsd nfsv4
    cable
    mkfs.ext4 -q -F /dev/nvme0n1 >$out 2>&1 && mkdir -p /run/served && mount /dev/nvme0n1 /run/served ||
        fail "no file system to serve"
    serve_nfs /run/served || fail "no server"
    before=$(crossed 0)
    mount -i -t nfs4 -o addr=10.1.0.2,clientaddr=10.1.0.1,vers=4.2,sec=sys 10.1.0.2:/ /mnt || { fail "mount" && return; }
    rm -rf /run/served/lost+found
    JOB_ROUNDS=20 programs /mnt "nfs4 \(network\)"
    run 0 dd if=/dev/urandom of=/mnt/some bs=1M count=16
    figures /mnt/some "nfs4 on network"
    rm -f /mnt/some
    [ "$(crossed "$before")" -ge 32000000 ] || fail "$(crossed "$before") bytes have crossed the cable"
    umount /mnt
    echo 0 >/proc/fs/nfsd/threads
    echo 0 >/proc/net/rpc/nfsd.export/flush
    umount /proc/fs/nfsd /run/served || fail "the file system is still in use"
}

# Sectors that a drive has written and read.
moved() { awk '{ print $3 + $7 }' "/sys/block/$1/stat"; }

# Two drives at once: a PE for each, and a PE with files on both.
several() {
    local i first second
    for i in 0 1; do
        mkfs.ext4 -q -F /dev/nvme${i}n1 >$out 2>&1 && mkdir -p /run/disk$i && mount /dev/nvme${i}n1 /run/disk$i ||
            fail "no file system on drive $i"
    done
    export WEFT_TEST_FILE_CHUNK=64K
    for i in 1 2; do
        first=$(moved nvme0n1) second=$(moved nvme1n1)
        run 0 "$weft" run -n $i "$build/bin/job_file_disks" /run/disk0 /run/disk1
        says "PE 0, /run/disk0: ext4 \(NVMe on PCIe\), uring direct"
        says "PE $((i - 1)), /run/disk1: ext4 \(NVMe on PCIe\), uring direct"
        sync
        first=$(($(moved nvme0n1) - first)) second=$(($(moved nvme1n1) - second))
        [ $first -ge $((i * 40000)) ] && [ $second -ge $((i * 40000)) ] ||
            fail "drives have moved $first and $second sectors"
    done
    first=$(moved nvme0n1) second=$(moved nvme1n1)
    run 0 "$weft" run -n 2 sh -c "exec '$build/bin/job_file_disks' /run/disk\$WEFT_PE"
    says "PE 0, /run/disk0:"
    says "PE 1, /run/disk1:"
    first=$(($(moved nvme0n1) - first)) second=$(($(moved nvme1n1) - second))
    [ $first -ge 40000 ] && [ $second -ge 40000 ] || fail "drives have moved $first and $second sectors"
    unset WEFT_TEST_FILE_CHUNK
    umount /run/disk0 /run/disk1 || fail "a file system is still in use"
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
