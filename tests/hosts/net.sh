# SPDX-License-Identifier: Apache-2.0
# Sourced. Hosts are network namespaces of this kernel, joined by a bridge. enter_own_world runs the
# script again in new namespaces, which are invisible from outside and disappear when the script
# ends in any way: processes, networks, and files, which are in a separate file system. Without the
# right to create namespaces the test is skipped.

# enter_own_world SCRIPT ARGUMENT...
enter_own_world() {
    [ -z "${HOSTS_OWN_WORLD:-}" ] || {
        mount -t tmpfs none /run
        mkdir /run/tmp
        export TMPDIR=/run/tmp
        return 0
    }
    local own=(--net --mount --uts --pid --fork --kill-child --mount-proc)
    [ "$(id -u)" = 0 ] || own+=(--user --map-root-user)
    if ! command -v ip >/dev/null || ! unshare "${own[@]}" sh -c \
        'mount -t tmpfs none /run && ip link add veth0 type veth peer name veth1 && ip netns add own' \
        >/dev/null 2>&1; then
        echo "skipped: network namespaces cannot be made here (root or user namespaces; iproute2)"
        exit 77
    fi
    export HOSTS_OWN_WORLD=1
    exec unshare "${own[@]}" bash "$@"
}

# make_hosts NAME...: each with address 10.77.0.1, .2, ... on eth0; we have 10.77.0.254.
make_hosts() {
    ip link set lo up
    ip link add hub type bridge
    ip addr add 10.77.0.254/24 dev hub
    ip link set hub up
    hosts_made=0
    make_hosts_more "$@"
}

make_hosts_more() {
    local name
    for name in "$@"; do
        hosts_made=$((hosts_made + 1))
        ip netns add "$name"
        ip link add "to-$name" type veth peer name eth0 netns "$name"
        ip link set "to-$name" master hub up
        ip -n "$name" link set lo up
        ip -n "$name" addr add "10.77.0.$hosts_made/24" dev eth0
        ip -n "$name" link set eth0 up
    done
}

# name_hosts: the hosts, and we as "hub", are found by name.
name_hosts() {
    local name number=0
    hostname hub
    {
        printf '127.0.0.1 localhost\n10.77.0.254 hub\n'
        for name in "$@"; do
            number=$((number + 1))
            printf '10.77.0.%d %s\n' $number "$name"
        done
    } >/run/hosts
    mount --bind /run/hosts /etc/hosts
}

# on_host NAME COMMAND...: with the network and the name of that host, and in our file systems.
on_host() {
    local name=$1
    shift
    # shellcheck disable=SC2016
    nsenter "--net=/run/netns/$name" unshare --uts sh -c 'hostname "$0"; exec "$@"' "$name" "$@"
}

# slow_net DELAY LOSS REORDER: every host sends so from now on; false where the kernel has no netem.
slow_net() {
    local name
    for name in $(ip netns list | cut -d' ' -f1); do
        ip netns exec "$name" tc qdisc replace dev eth0 root netem delay "$1" loss "$2" reorder "$3" \
            2>/dev/null || return 1
    done
}

cut_off() { ip link set "to-$1" down; }
join_again() { ip link set "to-$1" up; }

# left NAME...: processes with these names, zombies not counted.
left() {
    local name
    for name in "$@"; do
        ps -eo stat=,comm= | awk -v name="$name" '$2 == substr(name, 1, 15) && $1 !~ /^Z/'
    done
}

# await SECONDS COMMAND...: until it succeeds.
await() {
    local until=$((SECONDS + $1 + 1))
    shift
    while ! "$@"; do
        [ $SECONDS -lt $until ] || return 1
        sleep 0.05
    done
}
