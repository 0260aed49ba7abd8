#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: check_install.sh BUILD VERSION
# Installs the build into a fresh prefix, builds the program beside this script against it in C and
# C++, by the CMake package and by pkg-config, shared and static, and runs each. What it prints is
# compared. Exit status 77 when C passed and no C++ compiler is here.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
cmake --install "$1" --prefix "$prefix/weft" >"$prefix/log" 2>&1 || { cat "$prefix/log"; exit 1; }

languages=C
command -v c++ >/dev/null && languages='C;CXX'

runs() {
    said=$("$@")
    [ "$said" = "$version 42" ] || { echo "$*: said \"$said\", not \"$version 42\""; exit 1; }
    echo "$* is good"
}
version=$2

# CMake package; programs of a build tree find the shared library by themselves.
cmake -G Ninja -S "$here" -B "$prefix/cmake" -DCMAKE_PREFIX_PATH="$prefix/weft" \
    -DCONSUMER_LANGUAGES="$languages" >"$prefix/log" 2>&1 &&
    cmake --build "$prefix/cmake" >>"$prefix/log" 2>&1 || { cat "$prefix/log"; exit 1; }
for program in "$prefix"/cmake/weft_c "$prefix"/cmake/weft_static_c; do
    runs "$program"
done

# pkg-config
PKG_CONFIG_PATH=$(dirname "$(find "$prefix/weft" -name weft.pc)")
export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir weft)
[ "$(pkg-config --modversion weft)" = "$version" ]
# shellcheck disable=SC2046  # flags are words
cc -Wall -Werror "$here/consumer.c" -o "$prefix/c" $(pkg-config --cflags --libs weft)
runs env LD_LIBRARY_PATH="$libdir" "$prefix/c"
# shellcheck disable=SC2046
cc "$here/consumer.c" -o "$prefix/c_static" $(pkg-config --cflags weft) "$libdir/libweft.a" \
    $(pkg-config --libs-only-l --static weft | sed 's/-lweft//')
runs "$prefix/c_static"

# A name of version 0.1 ends the compilation, and the message has the new name, which exists.
sed -nE 's/^#define (weft_[a-z_]+)\(\.\.\.\) +WEFT_RENAMED\((weft_[a-z_]+)\)$/\1 \2/p' \
    "$prefix/weft/include/weft/renamed.h" >"$prefix/renamed"
[ "$(wc -l <"$prefix/renamed")" -ge 28 ]
printf '#include <weft/stream.h>\n#include <weft_device.h>\n' | tee "$prefix/old.c" >"$prefix/new.c"
sed -E 's/^([a-z_]+) ([a-z_]+)$/void *at_\2(void) { return (void *)\2; }/' "$prefix/renamed" >>"$prefix/new.c"
sed -E 's/^([a-z_]+) ([a-z_]+)$/int at_\1(void) { return \1(0, 0); }/' "$prefix/renamed" >>"$prefix/old.c"
# shellcheck disable=SC2046
cc -fsyntax-only "$prefix/new.c" $(pkg-config --cflags weft)
# shellcheck disable=SC2046
! cc -fsyntax-only "$prefix/old.c" $(pkg-config --cflags weft) 2>"$prefix/log"
while read -r old new; do
    grep -q "now_$new\\b" "$prefix/log" ||
        { echo "$old: the compiler does not name $new:" && cat "$prefix/log" && exit 1; }
done <"$prefix/renamed"

# Installed files: the command runs, and the pages and headers are where they belong.
[ "$("$prefix/weft/bin/weft" version)" = "weft $version" ]
[ -e "$prefix/weft/include/weft.h" ]
readelf -d "$libdir/libweft.so" | grep -q 'SONAME.*\[libweft\.so\.0\]'

[ "$languages" != C ] || { echo "skipped: no C++ compiler here (package g++)"; exit 77; }
for program in "$prefix"/cmake/weft_cxx "$prefix"/cmake/weft_static_cxx; do
    runs "$program"
done
# shellcheck disable=SC2046
c++ -Wall -Werror -x c++ "$here/consumer.c" -o "$prefix/cxx" $(pkg-config --cflags --libs weft)
runs env LD_LIBRARY_PATH="$libdir" "$prefix/cxx"
