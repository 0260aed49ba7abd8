#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: chroot.sh RELEASE [MIRROR]      (as root; RELEASE: bookworm or noble)
# In a bare system of that release: `./dev demo`; `./dev install /usr/local`, then the lines of the
# README; the same with another prefix; then, after their removal, the packages are built, checked,
# used and purged there. Status 77: the release's mirror cannot be reached.
set -euo pipefail
release=$1
case $release in
noble | jammy) mirror=${2:-http://archive.ubuntu.com/ubuntu} components=main,universe ;;
*) mirror=${2:-http://deb.debian.org/debian} components=main ;;
esac
here=$(cd "$(dirname "$0")/../.." && pwd)
cd "$here"
root=$(mktemp -d /var/tmp/weft-chroot-XXXXXX)
finish() {
    umount "$root/proc" "$root/dev/shm" 2>/dev/null || true
    rm -rf --one-file-system "$root"
}
trap finish EXIT

if ! timeout 30 bash -c "exec 3<>/dev/tcp/$(echo "$mirror" | cut -d/ -f3)/80" 2>/dev/null; then
    http_proxy=${http_proxy:-}
    [ -n "$http_proxy" ] || { echo "skipped: $mirror cannot be reached"; exit 77; }
fi
# A debootstrap older than the release does it as it did the ones before.
script=/usr/share/debootstrap/scripts/$release
[ -e "$script" ] || script=${script%/*}/gutsy
keyring=()
[ "$components" = main ] || [ -e /usr/share/keyrings/ubuntu-archive-keyring.gpg ] || keyring=(--no-check-gpg)
debootstrap --variant=minbase --components="$components" "${keyring[@]}" "$release" "$root" "$mirror" "$script" \
    >"$root.log" 2>&1 || { tail -n 5 "$root.log"; echo "skipped: $release cannot be fetched from $mirror"; exit 77; }
rm -f "$root.log"
cp /etc/resolv.conf "$root/etc/"
mount -t proc proc "$root/proc"

mkdir "$root/weft"
git ls-files -z --cached --others --exclude-standard | tar --null -T - -c | tar -x -C "$root/weft"
inside() {
    echo "== in $release: $*"
    chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
        LC_ALL=C.UTF-8 ${http_proxy:+http_proxy="$http_proxy"} bash -euo pipefail -c "cd /weft && $*"
}
inside ./dev demo
inside ./dev install /usr/local
inside tests/install/readme_program.sh README.md
inside 'xargs -d "\n" rm <build/install_manifest.txt && ldconfig &&
    find /usr/local -depth -type d -empty -path "*weft*" -delete'
inside ./dev install /opt/weft
inside 'PATH=/opt/weft/bin:$PATH PKG_CONFIG_PATH=$(dirname $(find /opt/weft -name weft.pc)) \
    tests/install/readme_program.sh README.md'
inside 'rm -r /opt/weft && ! find / -xdev -path /weft -prune -o -name "*weft*" -print | grep .'
inside ./dev packages
inside tests/install/packages.sh build-packages README.md
echo "$release: installed and run in every way"
