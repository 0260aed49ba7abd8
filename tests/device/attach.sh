#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `weft attach` shows what a hanging kernel waits for: operation, block, thread, values. With
# `proxied` it also shows the current operation of the proxy and the number of waiting ones in its
# ring, for slow gets of 32 lanes, and that the lanes wait.
#   attach.sh WEFT DEVICE_ERRORS [proxied]
set -u
out=$(mktemp)
case=hang pes=1 waiting=
wanted='kernel block 0 thread 0: signal_wait has been waiting .*expected >= 42, seen 0'
if [ "${3:-}" = proxied ]; then
    case=many_gets pes=2
    wanted='proxy: [0-9]* operations executed, [0-9]* complete; get .*in progress for [0-9.]* s, at least [1-3][0-9] queued behind it'
    waiting='kernel block 0 thread [0-9]*: get has been waiting .*expected >= [1-9]'
    export WEFT_PATH=slow WEFT_TEST_SLOW=delay=20000us
fi
"$1" run -n $pes "$2" $case > /dev/null 2>&1 &
launcher=$!
found=1
for attempt in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    sleep 0.25
    for pid in $(ps -e -o pid= -o args= | grep "[0-9] $2 $case" | awk '{print $1}'); do
        "$1" attach "$pid" > "$out" 2>&1 || continue
        grep -q "$wanted" "$out" && grep -q "$waiting" "$out" && found=0
    done
    [ $found -eq 0 ] && break
done
[ $found -eq 0 ] || cat "$out"
kill $launcher 2> /dev/null
wait $launcher 2> /dev/null
rm -f "$out"
exit $found
