#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Unmodified programs of other projects over the software HCA; they were written for the verbs of
# rdma-core, not for this implementation.
#   programs.sh FOLDER_OF_THE_HCA [short]
# The script lists the programs that are not installed as skipped (packages perftest, ibverbs-utils,
# rdmacm-utils). Exit 77: none is installed.
set -u
export LD_LIBRARY_PATH=$1
port=$((20000 + $$ % 20000)) ran=0 failed=0
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# here PROGRAM: whether it is installed; told once where it is not.
declare -A told
here() {
    command -v "$1" >/dev/null && return
    [ -n "${told[$1]-}" ] || echo "skipped: $1 is not installed"
    told[$1]=1
    return 1
}

# Until the server listens at the port; one that another socket has, or had, does not count.
await_listener() {
    for _ in $(seq 50); do
        grep -qE ": [0-9A-F]+:$(printf %04X $port) 0+:0000 0A" /proc/net/tcp /proc/net/tcp6 && return
        sleep 0.1
    done
}

# pair LINK PROGRAM...: a server and a client; both must end well.
pair() {
    local link=$1 server
    shift
    here "$1" || return 0
    port=$((port + 1)) ran=$((ran + 1))
    SOFT_HCA_LINK=$link timeout -k 1 60 "$@" -p $port >"$out/server" 2>&1 &
    server=$!
    await_listener
    if SOFT_HCA_LINK=$link timeout -k 1 60 "$@" -p $port 127.0.0.1 >"$out/client" 2>&1 &&
        wait $server && ! grep -q '^mlx5_soft.*:' "$out/server" "$out/client"; then
        echo "$link: $*: good"
    else
        echo "$link: $*: failed"
        tail -n 5 "$out/server" "$out/client"
        failed=1
    fi
}

# connected LINK PROGRAM...: likewise, connected by the connection manager.
connected() {
    local link=$1 server to
    shift
    here "$1" || return 0
    if [ ! -e "$LD_LIBRARY_PATH/librdmacm.so.1" ]; then
        echo "skipped: $*: the software HCA was built without librdmacm-dev"
        return 0
    fi
    port=$((port + 1)) ran=$((ran + 1))
    case $1 in
    rping) to="-c -a 127.0.0.1" ;;
    ucmatose) to="-s 127.0.0.1" ;;
    *) to=127.0.0.1 ;;
    esac
    SOFT_HCA_LINK=$link timeout -k 1 60 "$@" -p $port $([ "$1" != rping ] || echo -s) >"$out/server" 2>&1 &
    server=$!
    await_listener
    # shellcheck disable=SC2086  # words
    if SOFT_HCA_LINK=$link timeout -k 1 60 "$@" -p $port $to >"$out/client" 2>&1 && wait $server; then
        echo "$link: $*: good"
    else
        echo "$link: $*: failed"
        tail -n 5 "$out/server" "$out/client"
        failed=1
    fi
}

if here ibv_devinfo; then
    ran=$((ran + 1))
    ibv_devinfo -v | grep -q 'hca_id:.*mlx5_soft0' || { echo "ibv_devinfo: no device" && failed=1; }
fi
pair ib ib_write_bw -n 20 -s 5000
connected ib rping -C 10 -v -V
pair roce ib_atomic_bw -n 20 -A FETCH_AND_ADD
if [ "${2-}" != short ]; then
    connected roce rping -C 50 -S 3000 -v -V
    connected ib ucmatose -C 20 -S 5000
    connected ib ib_write_bw -R -n 20
    pair ib ib_read_bw -n 50
    pair roce ib_write_bw -n 50
    pair ib ib_write_bw -n 50 --use_old_post_send
    pair ib ib_atomic_bw -n 100 -A CMP_AND_SWAP
    pair ib ib_send_lat -n 20
    pair ib ib_write_lat -n 20
    pair ib ib_send_bw -n 100 -e
    pair ib ib_send_bw -n 100 --use-srq
    pair ib ib_send_bw -n 50 -q 4
    pair ib ibv_rc_pingpong -n 50 -c
    pair ib ibv_rc_pingpong -n 50 -e
    pair ib ibv_srq_pingpong -n 50 -q 4 -c
fi
[ $ran -gt 0 ] || exit 77
exit $failed
