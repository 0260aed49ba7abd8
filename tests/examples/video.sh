#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# video.sh VIDEO WEFT: the frames example on clips: valid, with a missing frame, torn, truncated;
# and on files that are no clip and no camera. (A camera: tests/vm/frames.sh.)
set -u
video=$1 weft=$2 bad=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

# run STATUS COMMAND...
run() {
    local status
    timeout 60 "${@:2}" >out 2>&1
    status=$?
    [ $status = "$1" ] || { echo "status $status in place of $1: ${*:2}" && sed 's/^/    /' out && bad=1; }
}
says() { grep -qE -- "$1" out || { echo "nobody says: $1" && sed 's/^/    /' out && bad=1; }; }

# A frame of 67 x 41 pixels has 2747 bytes of brightness and 2 x 34 x 21 of colour; its line has 31.
frame=$((31 + 2747 + 1428))
run 0 "$video" --make clip.y4m --size 67x41 --frames 9
first=$(head -n 1 clip.y4m | wc -c)
[ "$(wc -c <clip.y4m)" = $((first + 9 * frame)) ] || { echo "the clip has another size" && bad=1; }

run 0 "$video" --each clip.y4m
says '^9 frames in .*; 0 lost, 0 bad$'
says '^latency, from the beginning of its read to the end of the kernel: min [0-9.]+ ms, median [0-9.]+ ms, p99 [0-9.]+ ms'
told=$(sed -n 's/^frame [0-9]*: checksum \([0-9a-f]*\),.*/\1/p' out)
[ "$told" = "$(grep -aoE 'XWEFT=[0-9]+:[0-9a-f]+' clip.y4m | cut -d: -f2)" ] ||
    { echo "the kernels' checksums are not those of the clip" && bad=1; }
[ "$(sort -u <<<"$told" | wc -l)" = 9 ] || { echo "frames are alike" && bad=1; }
run 0 "$video" --each --frames 4 --buffers 1 clip.y4m
says '^4 frames .*; 0 lost, 0 bad$'

# The kernel's counts: a clip of known brightness, whose pixels end within 16 bytes, and one with
# colour.
{ printf 'YUV4MPEG2 W7 H3 F25:1 Cmono\nFRAME\nABABABABABABABABABABa' && printf 'FRAME\nZZZZZZZZZZZZZZZZZZZZZ'; } >mono.y4m
run 0 "$video" --each mono.y4m
says '^frame 0: checksum [0-9a-f]*, brightness 65 to 97, mean 67.00,'
says '^frame 1: checksum [0-9a-f]*, brightness 90 to 90, mean 90.00,'
{ printf 'YUV4MPEG2 W4 H2 C422\nFRAME\nHHHHHHHIuuuuvvvv'; } >colour.y4m
run 0 "$video" --each colour.y4m
says 'brightness 72 to 73, mean 72.12,'

# Frame 4 is missing; the lower half of frame 3 is that of frame 2; frame 8 is truncated.
{ head -c $((first + 4 * frame)) clip.y4m && tail -c +$((first + 5 * frame + 1)) clip.y4m; } >lost.y4m
run 0 "$video" lost.y4m
says '^1 lost: frame 5 arrived, expected 4$'
says '^8 frames in .*; 1 lost, 0 bad$'
cp clip.y4m torn.y4m
dd if=clip.y4m of=torn.y4m bs=1 skip=$((first + 2 * frame + 2000)) seek=$((first + 3 * frame + 2000)) \
    count=1500 conv=notrunc 2>dd.err || cat dd.err
run 1 "$video" torn.y4m
says '^frame 3 is bad: it differs from what was written$'
says '^9 frames in .*; 0 lost, 1 bad$'
run 1 "$video" --check 0 torn.y4m # the kernel's checksum alone tells
says '^9 frames in .*; 0 lost, 1 bad$'
head -c $((first + 8 * frame + 500)) clip.y4m >short.y4m
run 1 "$video" short.y4m
says '^video: short.y4m: frame 8 has 469 of its 4175 bytes: the file is truncated$'
says '^8 frames in .*; 0 lost, 0 bad$'
{ head -c $((first + 2 * frame)) clip.y4m && printf 'FRUME\n'; } >damaged.y4m
run 1 "$video" damaged.y4m
says 'no frame begins where number 2 should; the file is damaged there'
run 0 "$video" - <clip.y4m
says '^9 frames in .*; 0 lost, 0 bad$'

# refused STATUS WORDS ARGUMENT...
refused() {
    run "$1" "$video" "${@:3}"
    says "^video: $2"
}
printf 'RIFF and more' >film.avi
printf 'YUV4MPEG2 W4 H2 C420p10\nFRAME\n' >deep.y4m
printf 'YUV4MPEG2 W4 H-2\nFRAME\n' >size.y4m
printf 'YUV4MPEG2 W99999 H2\nFRAME\n' >wide.y4m
refused 2 'film.avi is not a clip: it does not begin with YUV4MPEG2. ffmpeg makes one' film.avi
refused 2 'deep.y4m: its pixels are of format C420p10, which is not supported; supported are C420' deep.y4m
refused 2 'size.y4m: its first line gives no width \(W\) and height \(H\) from 1 to 16384' size.y4m
refused 2 'wide.y4m: its first line gives no width' wide.y4m
refused 2 'absent.y4m: No such file or directory. Without a camera, make a clip: video --make' absent.y4m
refused 2 '\. is a folder; give a camera \(/dev/video0\) or a clip' .
refused 2 '/dev/null is not a V4L2 device' /dev/null
refused 2 '/dev/video63 cannot be opened: No such file or directory' /dev/video63
refused 2 '--frames 0: expected a whole number from 1 to ' --frames 0 clip.y4m
refused 2 '--size 7: expected WIDTHxHEIGHT' --size 7 clip.y4m
refused 2 '--memory heap: expected auto, userptr, mmap or copy' --memory heap clip.y4m
refused 2 '/dev/full: could not be written: No space left on device' --make /dev/full
refused 2 'nowhere/clip.y4m: No such file or directory' --make nowhere/clip.y4m
run 2 "$video" --no-such-option
says '^usage: video '
run 2 "$weft" run -n 2 "$video" clip.y4m
says '^video: a camera has one reader: start it as one PE, not 2'
exit $bad
