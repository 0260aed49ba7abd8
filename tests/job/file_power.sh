#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Simulates a loss of power on a file system on a loop device, whose disk is a file in memory. The
# script copies the disk at the moment when weft_file_sync() has returned, and mounts the copy,
# which replays its journal: it must contain the whole file under its name. Without the sync, the
# copy must not contain it; otherwise the test would show nothing. Needs root.
#   file_power.sh PROGRAM [FILE_SYSTEM ...]
set -u
program=$1
shift
skip() {
    echo "skipped: $*"
    exit 77
}
[ "$(id -u)" = 0 ] || skip "a loop device needs root"
command -v losetup mkfs.ext4 > /dev/null || skip "losetup or mkfs.ext4 is not here"
work=$(mktemp -d /dev/shm/weft_test_power.XXXXXX) || exit 1
victim=
clean() {
    [ -z "$victim" ] || kill -9 "$victim" 2> /dev/null
    wait 2> /dev/null
    for folder in "$work"/mount "$work"/copy.mount; do
        ! mountpoint -q "$folder" || unmount "$folder" || umount -l "$folder"
    done
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 1' INT TERM
export WEFT_HEAP_SIZE=16M WEFT_TEST_FILE_CHUNK=64K
bad=0

# The kernel ends the requests of a killed process behind its back, and holds its files so long.
unmount() {
    local i
    for i in $(seq 100); do
        ! umount "$1" 2> /dev/null || return 0
        sleep 0.05
    done
    umount "$1"
}

# cut FILE_SYSTEM sync|none: 0 the file is there and whole, 3 it is not.
cut_power() {
    local words
    rm -f "$work/disk" "$work/copy"
    truncate -s 64M "$work/disk"
    case $1 in
    ext4) mkfs.ext4 -q -F "$work/disk" ;;
    ext4-writeback) mkfs.ext4 -q -F -E lazy_itable_init=0 "$work/disk" && tune2fs -o journal_data_writeback "$work/disk" > /dev/null ;;
    ext4-1k) mkfs.ext4 -q -F -b 1024 "$work/disk" ;;
    *) "mkfs.$1" -q "$work/disk" ;;
    esac || return 9
    mkdir -p "$work/mount" "$work/copy.mount"
    mount -o loop "$work/disk" "$work/mount" || return 77
    mkdir "$work/mount/folder" && sync -f "$work/mount"
    coproc VICTIM { exec "$program" "$work/mount/folder" "$2"; }
    victim=$VICTIM_PID
    read -r -t 60 words <&"${VICTIM[0]}" && [ "$words" = ready ] || return 9
    cp --sparse=always "$work/disk" "$work/copy" # the moment
    kill -9 "$victim"
    wait "$victim" 2> /dev/null
    victim=
    unmount "$work/mount" || return 9
    mount -o loop "$work/copy" "$work/copy.mount" || return 9
    "$program" "$work/copy.mount/folder" check
    local found=$?
    unmount "$work/copy.mount" || return 9
    return $found
}

for system in "${@:-ext4}"; do
    cut_power "$system" sync
    found=$?
    [ $found != 77 ] || skip "no loop device can be mounted here"
    [ $found = 0 ] || { echo "FAILED: $system: after weft_file_sync() the file is not whole ($found)"; bad=1; }
    cut_power "$system" none
    found=$?
    [ $found = 3 ] || { echo "FAILED: $system: without weft_file_sync() the file is there too ($found)"; bad=1; }
    echo "$system: whole after weft_file_sync(), not without"
done
exit $bad
