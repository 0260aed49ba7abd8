# SPDX-License-Identifier: Apache-2.0
# Sourced by ./dev: what each verb does, needs and takes. The usage, `./dev VERB --help` and the
# packages that a verb asks for are read from this table.

# VERB ARGUMENTS | groups of packages (packages.sh) | time and disk | what it does
verbs='
demo [option ...] | build | 75 s | build, then run `weft demo` with these options
test | build kernels test docs site fuzz format tidy | | build, then every test and check; what CI runs
check NAME | build kernels test | | build what a test needs, and run it; NAME is what ctest calls it, or the beginning up to a dot
build | build kernels | 0.9 GB with tests | configure and build into build/
bench [argument ...] | build kernels | | build, then run `weft bench` with these arguments
long | build kernels test | | every test, also those that `test` leaves out
paths | build kernels test | | the tests that force a path, path by path
hosts | build kernels test hosts | | jobs over several hosts, which are network namespaces; under Slurm
arm [short] [regex] | build test cross arm_test arm_build | | cross-build for 64-bit Arm, and run unit, job, shmem, simt and device tests by qemu-user (Debian); short: a dozen of them, as `test` does where what they need is installed
vm [short] | build kernels test vm | 22 min | real verbs (soft RoCE, soft iWARP), bad lines, a camera, in virtual machines (Debian 12)
faults [rounds] | build kernels test | | foreign calls that fail at their k-th use; PEs killed at any moment (200)
kernels | build kernels | | registers, stack and spills of the kernels of libweft, for each compute capability (needs ptxas)
coverage | build test coverage | | lines of each folder that tests run; fails where a module is under 85 %
asan [regex] | build test fuzz | 1 GB | tests under AddressSanitizer with UBSan
tsan [regex] | build test | | tests under ThreadSanitizer
fuzz [seconds] | build test fuzz | | run each fuzz target for so long (60)
mutants [regex] | build test | 2 GB | seed faults into a copy, and list those that no test notices (--short, --resume); --random N --seed S [FOLDER...]: faults made by rule at lines that tests execute
soak [minutes] | build kernels test | | job, litmus and fault tests again and again until one fails (10)
format | format | | rewrite the sources as .clang-format says
lint | build kernels test format tidy lint | | check the format; clang-tidy; cppcheck; list what is large
docs | build kernels test docs site | | all documentation, with lists of all functions, as a site in build/site
install [prefix] | build kernels docs | | build and install (/usr/local)
wheel [arm64] | build kernels wheel | | the wheel of the Python package in build-wheel/, made by auditwheel (from PyPI, the first time), and tried in an empty environment of each CPython at hand (arm64: cross-built in build-arm64-wheel/, and run by qemu-user)
pythons | build kernels wheel | 3 min | the tests of the Python package by each CPython from 3.9 that is at hand (PATH, pyenv, uv), in environments in .deps/pythons (from PyPI, the first time)
packages [arm64] | build kernels docs site packages | | Debian packages in build-packages/, checked by lintian (arm64: cross-built in build-packages-arm64/, and run by qemu-user); the recipes of packaging/ (RPM, conda, Spack, container) built or checked as far as their tools are here
release [--draft] [short] | build kernels docs site packages | | tarball, packages, site and SHA256SUMS in build-release/, once the tree is clean and all versions agree; --draft: also before CHANGELOG.md has the date; short: the tarball alone
chroot [release] | chroot | | install and packages tried in a bare Debian 12 (noble: Ubuntu 24.04); as root
'

# read_verb VERB: sets arguments, groups, cost and text; false when there is no such verb.
read_verb() {
    local call
    while IFS='|' read -r call groups cost text; do
        [ "${call%% *}" = "$1" ] || continue
        arguments=${call#"$1"} text=${text# } cost=${cost# }
        arguments=${arguments% } cost=${cost% }
        return 0
    done <<<"$verbs"
    return 1
}

usage() {
    local call groups cost text
    printf 'usage: ./dev [-y] VERB [argument ...]\n\n'
    while IFS='|' read -r call groups cost text; do
        [ -n "$call" ] || continue
        text=${text# } cost=${cost# } cost=${cost% }
        printf '%s\n' "$text${cost:+ ($cost)}" | fold -s -w 74 |
            awk -v call="  $call" '{ sub(/ +$/, ""); printf "%-24s%s\n", NR == 1 ? call : "", $0 }'
    done <<<"$verbs"
    cat <<'END'

`./dev VERB --help` says more and does nothing. Time and disk are from a fresh clone on 2 CPUs.
Before packages are installed as root, a terminal is asked; -y and CI (the variable) mean yes.
What a verb does goes to build/log; when it fails, its end is shown.
END
}

# help_verb VERB: what it does, takes and needs here.
help_verb() {
    read_verb "$1" || return
    local missing
    # shellcheck disable=SC2086  # one word a group
    missing=$(missing_packages $groups)
    printf 'usage: ./dev %s\n\n' "$1$arguments"
    printf '%s.\n' "${text^}" | fold -s -w 98 | sed 's/ *$//'
    [ -z "$cost" ] || printf 'Takes from a fresh clone on 2 CPUs: %s.\n' "$cost"
    printf 'Packages to install first: %s\n' "${missing:-none}"
    case $1 in
    demo | bench) printf 'Options: weft-%s(1), or build/bin/weft %s --help after the build.\n' "$1" "$1" ;;
    esac
}
