#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: prefix.sh BUILD SOURCE
# Installs the build into a new prefix that no loader searches, and builds the README's program
# there with the README's own line; then moves the prefix, and builds programs with NVSHMEM_HOME set
# to it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
cmake --install "$1" --prefix "$prefix" >"$prefix/log" 2>&1 || { cat "$prefix/log"; exit 1; }
PATH=$prefix/bin:$PATH
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name weft.pc)")
export PATH PKG_CONFIG_PATH
case $(pkg-config --libs weft) in
*-Wl,-rpath,*) ;;
*) echo "weft.pc gives no run path for a prefix of its own: $(pkg-config --libs weft)"; exit 1 ;;
esac
"$here/readme_program.sh" "$2/README.md"

mkdir "$prefix/moved"
mv "$prefix/bin" "$prefix/lib" "$prefix/include" "$prefix/share" "$prefix/moved"
# Test nvshmem.user_builds compiles the headers as C++, too.
CXX=none sh "$here/../nvshmem/user_builds.sh" "$prefix/moved/bin/weft"

# Where the loader looks by itself, no run path is left in programs.
DESTDIR=$prefix/root cmake --install "$1" --prefix /usr >"$prefix/log" 2>&1 || { cat "$prefix/log"; exit 1; }
if grep rpath "$(find "$prefix/root" -name weft.pc)"; then
    echo "weft.pc gives a run path for /usr"
    exit 1
fi
