#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Jobs whose PEs have files on several disks at once: file systems on loop devices with blocks of 4
# KiB and of 1 KiB, and in memory; one disk for each PE, and all disks for every PE; and with one
# disk that runs full while the others continue. Each disk must have transferred the bytes meant for
# it. Needs root.
#   file_disks.sh WEFT PROGRAM [gpu]
set -u
weft=$1 program=$2 kind=${3:-}
skip() {
    echo "skipped: $*"
    exit 77
}
[ "$(id -u)" = 0 ] || skip "a loop device needs root"
command -v losetup mkfs.ext4 > /dev/null || skip "losetup or mkfs.ext4 is not here"
work=$(mktemp -d /dev/shm/weft_test_disks.XXXXXX) || exit 1
bad=0
fail() {
    echo "FAILED: $*"
    bad=1
}
clean() {
    local folder
    for folder in "$work"/?; do
        ! mountpoint -q "$folder" || umount "$folder" 2> /dev/null || umount -l "$folder"
    done
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 1' INT TERM

disk() { # NAME MEBIBYTES OPTION...
    truncate -s "$2M" "$work/disk_$1" && mkfs.ext4 -q -F "${@:3}" "$work/disk_$1" && mkdir "$work/$1" &&
        mount -o loop "$work/disk_$1" "$work/$1"
}
disk a 96 && disk b 96 -b 1024 && disk c 24 || skip "no loop device can be mounted here"

# Sectors that a disk has written.
written() { awk '{ print $7 }' "/sys/dev/block/$(mountpoint -d "$work/$1")/stat"; }

# job PES DISKS WHAT COMMAND...: the PEs end well, and each of the disks has got at least 2 MiB.
job() {
    local n=$1 disks=$2 what=$3 each before=()
    shift 3
    for each in $disks; do before+=("$(written "$each")"); done
    "$weft" run -n "$n" "$@" > "$work/words" 2>&1 || fail "$what: status $?: $(grep -E "CHECK|gave|exited" "$work/words")"
    for each in $disks; do
        sync -f "$work/$each"
        [ $(($(written "$each") - before[0])) -ge 4096 ] || fail "$what: disk $each has written $(($(written "$each") - before[0])) sectors"
        before=("${before[@]:1}")
        [ -z "$(ls -A "$work/$each" | grep -v lost+found)" ] || fail "$what: left behind on disk $each"
        rm -rf "${work:?}/$each"/weft_test_disks.*
    done
}

export WEFT_TEST_FILE_CHUNK=64K WEFT_TEST_FILE_DEPTH=3 WEFT_WAIT_LIMIT=20s WEFT_HEAP_SIZE=${WEFT_HEAP_SIZE:-32M}
for backend in uring threads; do
    export WEFT_FILE_BACKEND=$backend
    job 2 "a b c" "$backend, every PE on all" "$program" $kind "$work/a" "$work/b" "$work/c" /dev/shm
    job 3 "a b c" "$backend, a disk for each PE" sh -c \
        "case \$WEFT_PE in 0) d=a ;; 1) d=b ;; *) d=c ;; esac; exec '$program' $kind $work/\$d"
    job 2 "a b c" "$backend, one runs full" "$program" $kind full "$work/a" "$work/b" "$work/c"
done
[ $bad = 0 ] && echo "good"
exit $bad
