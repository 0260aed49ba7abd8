#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Files into memory by Weft, plain read and copy, fio, and cuFile in its compatibility mode, in one run: on ext4 on a
# loop device over memory, so that the disk is not what is measured, and direct I/O is; and on two of them at once. Root, or nothing is mounted and
# the current folder is measured as it is.
#   bench/compare/file.sh [BUILD_FOLDER]
# FIO: fio's path, where it is not in PATH. SIZE (2G): bytes of the file. Nothing is left mounted.
set -u
cd "$(dirname "$0")/../.." || exit 1
weft=$(realpath "${1:-build}")/bin/weft
size=${SIZE:-2G}
half=$(($(numfmt --from=iec "$size") / 2))
[ -n "${FIO:-}" ] && PATH=$(dirname "$(realpath "$FIO")"):$PATH
for folder in /usr/local/cuda/lib64 /usr/local/cuda/targets/x86_64-linux/lib; do
    [ -e "$folder/libcufile.so.0" ] && export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder && break
done
export CUFILE_LOGFILE_PATH=${CUFILE_LOGFILE_PATH:-/dev/null}

folder=$(mktemp -d /tmp/weft_test_files.XXXXXX)
entry=''
clean() {
    cd /
    [ -n "$entry" ] && rm -f "$entry" && rmdir -p --ignore-fail-on-non-empty "${entry%/*}" 2> /dev/null
    for each in disk second memory; do
        mountpoint -q "$folder/$each" && umount "$folder/$each"
    done
    rmdir "$folder/disk" "$folder/second" "$folder/memory" "$folder" 2> /dev/null
}
trap clean EXIT

make_disk() { # NAME, of the file below it and of where it is mounted
    truncate -s $(($(numfmt --from=iec "$size") * 3 / 2)) "$folder/memory/$1" &&
        mkfs.ext4 -q -F "$folder/memory/$1" && mount -o loop "$folder/memory/$1" "$folder/$1"
}
make_disks() {
    mkdir "$folder/disk" "$folder/second" "$folder/memory" &&
        mount -t tmpfs -o size=$(($(numfmt --from=iec "$size") * 3)) tmpfs "$folder/memory" && make_disk disk && make_disk second
}
# Without udev's entry for the disk cuFile takes no file of it.
make_entry() {
    entry=/run/udev/data/b$(stat -c %Hd:%Ld "$1")
    [ -e "$entry" ] && entry="" && return
    mkdir -p "${entry%/*}"
    printf 'I:1\nE:ID_FS_USAGE=filesystem\nE:ID_FS_TYPE=%s\n' "$(stat -f -c %T "$1" | sed 's/ext2.ext3/ext4/')" > "$entry"
}
if [ "$(id -u)" = 0 ] && make_disks > "$folder.log" 2>&1; then
    cd "$folder/disk" && make_entry "$folder/disk"
else
    echo "not on a disk of its own: $(tail -n 1 "$folder.log" 2> /dev/null)"
fi
rm -f "$folder.log"
lscpu | sed -n 's/^Model name: *//p'
echo "== host memory"
"$weft" bench file --size "$size" --blocks 128K,1M,4M --depths 1,4,16
if mountpoint -q "$folder/second"; then
    echo "== host memory, two disks at once"
    "$weft" bench file --folders "$folder/disk,$folder/second" --size "$half" --blocks 1M,4M --depths 4,16
fi
"$weft" explain gpu0 . > /dev/null 2>&1
if ls /dev/nvidia0 > /dev/null 2>&1 || [ -n "${GPU_TOO:-}" ]; then
    head -c "$size" /dev/urandom > some # cuFile takes no file without a name
    echo "== GPU memory"
    "$weft" bench file --memory gpu --file some --blocks 1M,4M --depths 4,16 --window 64M
    echo "== GPU memory, write"
    "$weft" bench file --memory gpu --size "$size" --blocks 1M,4M --depths 4,16 --window 64M --write
    if mountpoint -q "$folder/second"; then
        echo "== GPU memory, two disks at once, of two GPUs where there are as many"
        for direction in "" --write; do
            "$weft" bench file --memory gpu --folders "$folder/disk,$folder/second" --size "$half" --blocks 1M,4M --depths 4,16 \
                --window 64M --methods weft,plain,fio $direction
        done
    fi
    # Whether cuFile takes memory of the heap: Weft by cuFile's compatibility mode, to compare only.
    echo "== GPU memory, Weft over cuFile's compatibility mode"
    WEFT_FILE_GPU=compat "$weft" bench file --memory gpu --file some --blocks 4M --depths 4,16 --window 64M --methods weft
    "$weft" explain gpu0 ./some
    rm -f some
fi
