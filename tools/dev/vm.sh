# SPDX-License-Identifier: Apache-2.0
# Sourced by ./dev: jobs over real verbs and over lines that lose packets, in virtual machines (tests/vm).

prepare_vm() {
    local tree=$PWD vm=$PWD/build/vm
    . tests/vm/machine.sh
    vm_prepare
}

prepare_siw() {
    local tree=$PWD vm=$PWD/build/vm kernel
    . tests/vm/machine.sh
    kernel=$(cat "$vm/kernel")
    vm_make_siw
}

# in_guests WORDS CASE...
in_guests() {
    local words=$1
    shift
    check "$words" nice tests/vm/vm.sh "$@"
    sed -n '/^== /,$p' "$log" | tac | sed '/^== /q' | tac | grep -E '^(rxe|siw|two cables|two guests|hosts|hca|frames|files)[^:]*: [0-9]+ s' |
        sed 's/^/    /' || true
}

# ./dev vm [short | rxe CASE... | siw CASE... | rails CASE... | pair KIND CASE... | lines CASE... | hca CASE... | frames CASE... |
#           files CASE...]
verb_vm() {
    build default all || exit 1
    step "installing to build/vm/installed" cmake --install build --prefix build/vm/installed || exit 1
    step "a guest's kernel, and what it starts with" prepare_vm || exit 1
    case "${1:-all}:${2:-}" in
    short: | rxe:* | rails:* | lines:* | hca:* | frames:* | files:* | pair:rxe) ;;
    *) step "soft iWARP for that kernel" prepare_siw || fail "no siw.ko; see $log" ;;
    esac
    case ${1:-all} in
    short) in_guests "soft RoCE, two ports" rxe rma words ;;
    all)
        in_guests "soft RoCE, two ports" rxe link rma moves words
        in_guests "soft RoCE, jobs" rxe jobs
        in_guests "soft RoCE, litmus" rxe litmus
        in_guests "soft RoCE, shmem and device code" rxe shmem device
        in_guests "soft RoCE, faults" rxe loss reorder asked port_down kill_anywhere
        in_guests "soft RoCE, two cables" rails both own moves silent killed loss reorder down
        in_guests "soft RoCE, two guests" pair rxe rma nodes moves ranks words
        in_guests "soft RoCE, two guests, faults" pair rxe loss dead hiccup parted
        in_guests "soft iWARP, two ports" siw link rma words asked memory_limit
        in_guests "soft iWARP, two guests" pair siw rma moves words loss dead parted
        in_guests "software HCA and soft RoCE" hca talk perftest loss double reorder
        in_guests "TCP over bad lines" lines exchange bad_line bad_hiccup bad_dead bad_parted
        in_guests "frames of a camera" frames ways picture lost faults words killed
        in_guests "files on NVMe" files nvme over_tcp over_rdma nfs several power
        ;;
    files)
        [ $# -gt 1 ] || set -- files nvme over_tcp over_rdma nfs several power
        in_guests "files on NVMe" "$@"
        ;;
    frames)
        [ $# -gt 1 ] || set -- frames ways picture lost faults words killed
        in_guests "frames of a camera" "$@"
        ;;
    hca)
        [ $# -gt 1 ] || set -- hca talk perftest loss double reorder
        in_guests "software HCA and soft RoCE" "$@"
        ;;
    *) in_guests "$*" "$@" ;;
    esac
    summary
}
