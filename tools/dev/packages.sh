# SPDX-License-Identifier: Apache-2.0
# Sourced by ./dev: which packages of Debian 12 and Ubuntu 24.04 a verb needs, and how to get them.

clang_package() {
    case $(. /etc/os-release 2>/dev/null && echo "${VERSION_CODENAME:-}") in
    noble) echo clang-18 ;;
    *) echo clang-19 ;;
    esac
}

# The clang that compiles kernels, as CMake finds it.
have_clang() {
    local version
    for version in 22 21 20 19 18; do
        ! command -v clang-$version || return 0
    done
    version=$(clang -dumpversion) && [ "${version%%.*}" -ge 18 ] && command -v clang
}

# The linker of code for AMD GPUs, of that clang's version.
lld_package() {
    local clang
    clang=$(have_clang 2>/dev/null) || clang=$(clang_package)
    echo "lld-$("$clang" -dumpversion 2>/dev/null | grep -oE '^[0-9]+' || echo "${clang##*-}")"
}

have_lld() {
    local clang
    clang=$(have_clang) && [ -x "$("$clang" -print-prog-name=lld)" ]
}

# PACKAGE PROBE for each; a package whose probe succeeds is not asked for, wherever it came from.
packages_build='
gcc             command -v cc
libc6-dev       have_header stdio.h
cmake           command -v cmake
ninja-build     command -v ninja
pkg-config      command -v pkg-config
libjansson-dev  pkg-config --exists jansson
libhwloc-dev    pkg-config --exists hwloc
libexpat1-dev   pkg-config --exists expat
libpng-dev      pkg-config --exists libpng
libpmix-dev     pkg-config --exists pmix
libibverbs-dev  pkg-config --exists libibverbs
librdmacm-dev   have_header rdma/rsocket.h
libfabric-dev   pkg-config --exists libfabric
lz4             command -v lz4
'
# The compiler of kernels: clang 18 or newer, under the name that the release has it.
packages_kernels="
$(clang_package) have_clang
$(lld_package) have_lld
"
packages_test='
g++             command -v c++
libcmocka-dev   pkg-config --exists cmocka
spin            command -v spin
openmpi-bin     command -v mpirun
procps          command -v pgrep
python3-numpy      /usr/bin/python3 -c "import numpy"
python3-pytest     /usr/bin/python3 -c "import pytest"
python3-hypothesis /usr/bin/python3 -c "import hypothesis"
mypy               /usr/bin/python3 -m mypy --version
'
# torch for CPUs, where the release has it: Debian. (Ubuntu 24.04 has none.)
case $(. /etc/os-release 2>/dev/null && echo "${ID:-}") in
debian) packages_test+='
python3-torch [ -e /usr/lib/python3/dist-packages/torch/version.py ]
' ;;
esac
packages_wheel='
python3-venv    python3 -c "import venv, ensurepip"
'
packages_hosts='
iproute2        command -v ip
slurmd          [ -x /usr/sbin/slurmd ]
slurmctld       [ -x /usr/sbin/slurmctld ]
slurm-client    command -v srun
munge           [ -x /usr/sbin/munged ]
openssh-server  [ -x /usr/sbin/sshd ]
'
packages_vm='
qemu-system-x86 command -v qemu-system-x86_64
busybox-static  [ -x /bin/busybox ] && ! ldd /bin/busybox
cpio            command -v cpio
kmod            command -v modprobe
xz-utils        command -v xz
make            command -v make
binutils        command -v strip
iproute2        command -v rdma
procps          command -v pgrep
ibverbs-providers ls /etc/libibverbs.d/rxe.driver
perftest        command -v ib_write_bw
libfabric-bin   command -v fi_info
openssh-server  [ -x /usr/sbin/sshd ]
openssh-client  command -v ssh-keygen
v4l-utils       command -v v4l2-ctl
'
# Of another architecture, which apt_install() adds. (Debian; Ubuntu has arm64 on other servers.)
packages_cross='
gcc-aarch64-linux-gnu    command -v aarch64-linux-gnu-gcc
qemu-user-static         command -v qemu-aarch64-static
libc6-dev:arm64          have_arm libc.so
libfabric-dev:arm64      have_arm libfabric.so
'
packages_arm_test='
libcmocka-dev:arm64      have_arm libcmocka.so
'
packages_arm_build='
libjansson-dev:arm64     have_arm libjansson.so
libhwloc-dev:arm64       have_arm libhwloc.so
libpng-dev:arm64         have_arm libpng.so
libexpat1-dev:arm64      have_arm libexpat.so
libibverbs-dev:arm64     have_arm libibverbs.so
librdmacm-dev:arm64      have_arm librdmacm.so
'
packages_docs='
scdoc           command -v scdoc
'
packages_site='
mandoc          command -v mandoc
cmark-gfm       command -v cmark-gfm
jq              command -v jq
python3         command -v python3
'
packages_coverage='
gcovr           command -v gcovr
'
packages_packages='
dpkg-dev        command -v dpkg-shlibdeps
file            command -v file
lintian         command -v lintian
'
packages_chroot='
debootstrap     command -v debootstrap
'
# The formatter is settled at one version, because each formats a little differently.
packages_format='
clang-format-14 find_tool clang-format 14
'
packages_tidy='
clang-tidy-14   find_tool clang-tidy 14
'
packages_lint='
cppcheck        command -v cppcheck
'
packages_fuzz='
clang           command -v clang
libclang-rt-dev have_fuzzer
'

have_header() {
    echo "#include <$1>" | cc -E -
}

have_arm() {
    [ -e "/usr/lib/aarch64-linux-gnu/$1" ]
}

have_fuzzer() {
    echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' |
        clang -fsanitize=fuzzer -x c -o /dev/null -
}

# find_tool NAME VERSION: prints the command, NAME-VERSION or a NAME that says it has the version.
find_tool() {
    command -v "$1-$2" && return
    "$1" --version 2>/dev/null | grep -q "version $2\." && command -v "$1"
}

# missing_packages GROUP...: those whose probe fails.
missing_packages() {
    local group table package probe
    for group; do
        table=packages_$group
        while read -r package probe; do
            [ -z "$package" ] || eval "$probe" >/dev/null 2>&1 </dev/null || printf '%s ' "$package"
        done <<<"${!table}"
    done
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

# apt_install PACKAGE...: nothing is removed for them. (Some libraries of arm64 take the place of this
# machine's own, which apt-get would remove without asking.)
apt_install() {
    local install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-remove --no-install-recommends)
    case " $* " in
    *:arm64\ *)
        dpkg --print-foreign-architectures | grep -qx arm64 ||
            { as_root dpkg --add-architecture arm64 && as_root apt-get update; } || return
        ;;
    esac
    # On a fresh system there are no package lists yet; with lists, no time is spent on new ones.
    as_root "${install[@]}" "$@" || { as_root apt-get update && as_root "${install[@]}" "$@"; }
}

# agree_packages PACKAGE...: on a terminal, asks whether they are to be installed. Elsewhere, with -y
# and under CI they are, as scripts expect, and this says so.
agree_packages() {
    local answer
    if [ -n "${packages_agreed:-}${CI:-}" ] || [ ! -t 0 ] || [ ! -t 1 ]; then
        say "installs with apt-get, as root: $*"
        return 0
    fi
    read -r -p "Install with apt-get, as root: $*? [Y/n] " answer || answer=n
    case $answer in
    '' | [Yy] | [Yy][Ee][Ss]) ;;
    *) fail "not installed: $*. ./dev needs them; to install them: sudo apt-get install $*" ;;
    esac
}

# need_packages GROUP...: installs what is missing, or says who can.
need_packages() {
    local missing
    missing=$(missing_packages "$@")
    missing=${missing% }
    [ -n "$missing" ] || return 0
    command -v apt-get >/dev/null ||
        fail "missing here: $missing (names of Debian packages). This system has no apt-get;" \
            "install them its own way, then run this again"
    [ "$(id -u)" = 0 ] || command -v sudo >/dev/null ||
        fail "missing packages: $missing. Installing needs root, and there is no sudo;" \
            "let an administrator run: apt-get install $missing"
    # shellcheck disable=SC2086  # one word a package
    agree_packages $missing
    if [ "$(id -u)" != 0 ] && ! sudo -n true 2>/dev/null; then
        say "sudo asks for your password to install: $missing"
        sudo true || fail "without sudo an administrator must run: apt-get install $missing"
    fi
    # shellcheck disable=SC2086  # one word a package
    step "installing $missing" apt_install $missing ||
        fail "apt-get could not install them; is there a network, and are the names known to" \
            "this system's release (Debian 12 and Ubuntu 24.04 have them)?"
    missing=$(missing_packages "$@")
    [ -z "$missing" ] || fail "installed, but still not found: $missing"
}
