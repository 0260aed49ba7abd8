#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Usage: packages.sh FOLDER README      (as root, in a disposable system: it installs and removes
# packages)
# Installs the packages of FOLDER next to Open MPI's, which has commands of the same names, and uses
# all their parts as the manuals say. Their removal leaves no file behind.
set -euo pipefail
folder=$(readlink -f "$1") readme=$(readlink -f "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export DEBIAN_FRONTEND=noninteractive
install=(apt-get install -y --no-install-recommends)
# What runs on a system without a terminal: manual pages as plain text.
export MANPAGER=cat MANWIDTH=80

# Every file and folder that is not a record of the package manager or of what runs.
files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /tmp -o -path /run -o -path /weft -o -path /var/cache \
        -o -path /var/log -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path "$work" \) -prune -o -print | sort
}
# needs WORD COMMAND...: what the command says has the word.
needs() {
    local word=$1
    shift
    timeout 120 "$@" >"$work/said" 2>&1 || { cat "$work/said"; echo "$*: failed"; exit 1; }
    grep -q -e "$word" "$work/said" || { head -n 20 "$work/said"; echo "$*: says nothing of \"$word\""; exit 1; }
}

# What the packages depend on stays when they go, so it comes first.
depends=$(for package in "$folder"/*.deb; do dpkg-deb -f "$package" Depends; done | tr ',' '\n' |
    sed -E 's/ *\(.*//; s/^ +//' | grep -v weft | sort -u)
# shellcheck disable=SC2086  # one word a package
"${install[@]}" man-db openmpi-bin $depends >"$work/log" 2>&1 || { tail "$work/log"; exit 1; }
files >"$work/before"
packages="libweft0 libweft-dev weft weft-bench weft-doc weft-hca python3-weft"
for package in $packages; do
    ls "$folder/${package}_"*.deb >/dev/null || exit 1
done

# The small package alone.
"${install[@]}" "$folder"/weft_*.deb >"$work/log" 2>&1 || { tail "$work/log"; exit 1; }
[ "$(dpkg-query -W -f '${Installed-Size}' weft)" -lt 2048 ] || { echo "weft takes 2 MB and more"; exit 1; }
needs '275 GB/s' weft explain gpu0 gpu1 --machine '8 a100, nvswitch'
needs 'RDMA' weft doctor
! weft bench put >"$work/said" 2>&1 || exit 1
grep -q 'needs the package weft-bench' "$work/said" || { cat "$work/said"; exit 1; }

"${install[@]}" "$folder"/*.deb >"$work/log" 2>&1 || { tail "$work/log"; exit 1; }

"$(dirname "$0")/readme_program.sh" "$readme"
needs "$(pkg-config --modversion weft)" weft version
needs 'every result was right' weft demo --pes 2 --output "$work/demo"
for page in weft weft-run weft-nvshmem weft_init weft_put weft_quiet weft-shmem weft-reasons weft-hca; do
    needs "$page" man "$page"
done
cat >"$work/six.py" <<'END'
import weft
job = weft.init()
x, y = job.full(4, job.rank, dtype="f4"), job.zeros(4, dtype="f4")
job.put(y, x, to=(job.rank + 1) % job.size)
job.barrier()
print(f"{job.rank} {y}\n", end="")
END
needs '^3 .2.*2.*2.*2' python3 -m weft run -n 4 "$work/six.py"
needs '/usr/include' python3 -c 'import weft; print(weft.include())'
needs 'weft_put' cat /usr/share/doc/weft-doc/html/reference.html
needs 'Apache-2.0' cat /usr/share/doc/libweft0/copyright

# What makefiles written for NVSHMEM are told.
sh "$(dirname "$0")/../nvshmem/user_builds.sh" "$(command -v weft)"

# The commands that OpenSHMEM demands are Open MPI's in /usr/bin, and ours where their manual says.
needs 'Open MPI' mpirun --version
(
    PATH=/usr/lib/weft/bin:$PATH
    cd "$work"
    cat >hello.c <<'END'
#include <shmem.h>
#include <stdio.h>

static long given;

int main(void)
{
    shmem_init();
    shmem_long_p(&given, 7 + shmem_my_pe(), (shmem_my_pe() + 1) % shmem_n_pes());
    shmem_barrier_all();
    printf("given %ld\n", given);
    shmem_finalize();
    return 0;
}
END
    oshcc hello.c -o hello
    needs 'given 7' oshrun -np 2 ./hello
    needs 'given 8' env WEFT_PATH=gda WEFT_HCA=soft oshrun -np 2 ./hello
    needs 'given 8' mpirun --allow-run-as-root --oversubscribe -n 2 ./hello
    needs 'with Weft' man oshcc
    needs 'weft-run' man oshrun
)

# shellcheck disable=SC2086  # one word a package
apt-get purge -y $packages >"$work/log" 2>&1 || { tail "$work/log"; exit 1; }
files >"$work/after"
if ! diff "$work/before" "$work/after" >"$work/left"; then
    head -n 30 "$work/left"
    echo "the packages left behind what stands after >, or took away what stands after <"
    exit 1
fi
! ldconfig -p | grep weft || exit 1
echo "the packages install, serve and go"
