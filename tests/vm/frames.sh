# SPDX-License-Identifier: Apache-2.0
# frames.sh CASE...: in a guest: examples/video on the kernel's virtual camera (vivid), whose
# controls set its image, losses and faults.
. tests/vm/guest.sh
modules videodev
/bb/mp vivid n_devs=1 node_types=0x101 || exit 1 # /dev/video0 captures, /dev/video1 shows
video=$build/bin/example_video
[ -c /dev/video0 ] || { echo "vivid has made no /dev/video0"; exit 1; }

control() { v4l2-ctl -d /dev/video0 "$@" || fail "v4l2-ctl $*"; }
at_rest() {
    control -c test_pattern=0,osd_text_mode=0,percentage_of_dropped_buffers=0,timestamp_source=1
    control -v width=640,height=360,pixelformat=YUYV
}

# frames STATUS OPTION...: what the program says goes to $out.
frames() {
    run "$1" "$video" --rate 25 "${@:2}"
    ! pgrep -x example_video >/dev/null || fail "it is still there"
}

# counted FRAMES: so many came, none was bad, and those that are told lost are those whose numbers are missing. (A busy
# machine loses some.) The number of them is in $lost.
counted() {
    local first last
    lost=$(sed -n "s/^$1 frames .*; \([0-9]*\) lost, 0 bad/\1/p" $out)
    first=$(sed -n 's/^frame \([0-9]*\): checksum.*/\1/p' $out | head -n 1)
    last=$(sed -n 's/^frame \([0-9]*\): checksum.*/\1/p' $out | tail -n 1)
    [ "$(grep -c '^frame .*checksum' $out)" = "$1" ] && [ $((last - first + 1)) = $(($1 + lost)) ] ||
        fail "$1 frames from $first to $last, ${lost:-?} lost"
}

# Each way to memory: every frame is whole, and as the CPU sees it; pictures move, so their checksums differ.
ways() {
    local way
    at_rest
    for way in userptr mmap copy; do
        frames 0 --frames 50 --each --memory $way
        counted 50
        says '^latency, from the start of its exposure \(driver.s time\) to the end of the kernel: min [0-9.]+ ms, median'
        [ "$(grep -o 'checksum [0-9a-f]*' $out | sort -u | wc -l)" = 50 ] || fail "$way: frames are alike"
        grep -hE '^latency|^50 frames' $out | sed "s/^/    $way: /"
    done
    frames 0 --frames 3
    says 'written by the driver into the host heap \(user pointers\), which the kernels read; 4 buffers of 460800 bytes'
    frames 0 --frames 3 --memory copy
    says 'copied by the CPU from the driver.s buffers into the host heap'
}

# What the kernel counts is the camera's picture: white is of one brightness (vivid rounds it down), squares of two.
picture() {
    local format white
    at_rest
    control -c osd_text_mode=2,test_pattern=6
    for format in YUYV:234 UYVY:234 NV12:234 YU12:234 GREY:254 RGB3:255 BGR3:255; do
        white=${format#*:}
        frames 0 --frames 3 --each --format "${format%:*}"
        [ "$(grep -cE "brightness $white to $white, mean $white.00" $out)" = 3 ] || fail "white is not white"
    done
    control -c test_pattern=10
    frames 0 --frames 2 --each --size 320x180 --format YUYV
    says 'brightness 16 to 234, mean 12[0-9]'
    says ', 320 x 180, '
}

# Frames that the driver leaves out are counted by its numbers.
lost() {
    at_rest
    control -c percentage_of_dropped_buffers=30
    frames 0 --frames 60 --each
    counted 60
    [ "${lost:-0}" -gt 0 ] || fail "none was lost"
    says '^[0-9]+ lost: frame [0-9]+ came where [0-9]+ was due'
    echo "    $lost lost of $((60 + lost))"
    at_rest
}

# Faults of the driver, each told in words.
faults() {
    at_rest
    "$video" --rate 25 --frames 100 >$out 2>&1 &
    await 20 grep -q 'kernels on' $out
    sleep 1
    control -c inject_v4l2_buf_flag_error=1
    wait $! && fail "a damaged frame passed for a good one"
    says '^frame [0-9]+ is bad: the driver says that it is damaged'
    says '^100 frames in .* [1-9][0-9]* bad$'
    "$video" --rate 25 --frames 1000 >$out 2>&1 &
    await 20 grep -q 'kernels on' $out
    sleep 1
    control -c inject_fatal_streaming_error=1
    wait $! && fail "a broken stream passed for a good one"
    says '^video: /dev/video0: '
    control -c inject_vidioc_reqbufs_error=1
    frames 0 --frames 3
    says 'the driver.s own buffers, mapped, .*; not userptr \(VIDIOC_REQBUFS: Invalid argument\)'
    control -c inject_vidioc_streamon_error=1
    frames 2 --frames 3
    says 'VIDIOC_STREAMON: Invalid argument'
    control -c timestamp_source=0
    frames 0 --frames 5
    says 'from its arrival here \(the driver.s times are [0-9]+ ms ahead\)'
    at_rest
}

# What is no camera, and what a camera does not have.
words() {
    at_rest
    frames 2 /dev/video1
    says '^video: /dev/video1 captures no pictures; cameras here: /dev/video0'
    frames 2 /dev/video7
    says '^video: /dev/video7 cannot be opened: No such file or directory; cameras here: /dev/video0'
    frames 2 /dev/null
    says '^video: /dev/null is not a V4L2 device; cameras here: /dev/video0'
    frames 2 --format MJPG
    says '^video: /dev/video0: pixels of format MJPG are not available; the device offers YUYV, .*; supported here: YUYV, UYVY, NV12, YU12, GREY, RGB3, BGR3'
    v4l2-ctl -d /dev/video0 --stream-mmap --stream-count=200 >/dev/null 2>&1 &
    sleep 1
    frames 2 --frames 3 --size 320x180
    says '^video: /dev/video0 is in use by another program'
    kill $!
    wait $!
}

# Killed in the middle, it leaves the camera to the next one.
killed() {
    local way
    at_rest
    for way in userptr mmap copy; do
        "$video" --rate 25 --frames 1000 --memory $way >$out 2>&1 &
        await 20 grep -q 'kernels on' $out
        sleep 0.3
        kill -9 $!
        wait $! 2>/dev/null
        frames 0 --frames 5
    done
    "$video" --rate 25 --frames 1000 >$out 2>&1 &
    await 20 grep -q 'kernels on' $out
    sleep 1
    kill -INT $!
    wait $! || fail "status $? after an interrupt"
    says 'frames in .* 0 bad$'
}

for each in "$@"; do
    begin "frames $each"
    declare -F "$each" >/dev/null || fail "there is no such case"
    $each
    end
done
[ $bad = 0 ]
