#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: versions.sh SOURCE
# The version of include/weft.h, from which CMake has it, is the one that every other place names, and
# what ./dev installs to build Weft is what each recipe of packaging/ asks for.
set -u
cd "$1" || exit 2
status=0
version=$(sed -nE 's/^#define WEFT_VERSION_(MAJOR|MINOR|PATCH) +([0-9]+)$/\2/p' include/weft.h |
    paste -sd .)
number=$(sed -nE 's/^#define WEFT_VERSION +([0-9]+)$/\1/p' include/weft.h)
if [ "$number" != "$(awk -F. '{ print $1 * 1000000 + $2 * 1000 + $3 }' <<<"$version")" ]; then
    echo "include/weft.h has version $version, and WEFT_VERSION is $number"
    status=1
fi
# FILE|text in front of a version, or of the beginning of one.
while IFS='|' read -r file text; do
    found=$(grep -oE -e "$text[0-9]+(\.[0-9]+)+" "$file" | head -n 1 | grep -oE '[0-9.]+$')
    case $version. in
    "${found:-none}".*) ;;
    *)
        echo "include/weft.h has version $version, and $file has \"$text${found:-no version}\""
        status=1
        ;;
    esac
done <<'END'
CHANGELOG.md|^## +
README.md|find_package\(weft +
docs/abi.md|find_package\(weft +
docs/demo.md|Weft +
tests/unit/consumer/CMakeLists.txt|find_package\(weft +
packaging/weft.spec|^Version: +
packaging/weft.spec|The Weft authors - +
packaging/conda/meta.yaml|version = "+
python/weft/__init__.py|^__version__ = "
packaging/spack/package.py|version\("+
packaging/spack/package.py|/weft-+
END

# How Debian, RPM, conda-forge and Spack call the same; "-": not asked for.
names='
gcc            gcc                 compiler   c
libc6-dev      -                   -          -
cmake          cmake               cmake      cmake
ninja-build    ninja-build         ninja      ninja
pkg-config     pkgconf-pkg-config  pkg-config pkgconfig
libjansson-dev jansson-devel       jansson    jansson
libhwloc-dev   hwloc-devel         libhwloc   hwloc
libexpat1-dev  expat-devel         libexpat   expat
libpng-dev     libpng-devel        libpng     libpng
libpmix-dev    pmix-devel          -          pmix
libibverbs-dev rdma-core-devel     rdma-core  rdma-core
librdmacm-dev  rdma-core-devel     rdma-core  rdma-core
libfabric-dev  libfabric-devel     libfabric  libfabric
lz4            lz4                 lz4        lz4
clang-19       clang               clang      llvm
lld-19         lld                 lld        llvm
scdoc          scdoc               -          -
'
# same COLUMN FILE < names: the names that FILE asks for are those of the column.
same() {
    local difference
    difference=$(diff <(awk -v c="$1" '$c && $c != "-" { print $c }' <<<"$names" | sort -u) <(sort -u)) ||
        {
            echo "$2 does not ask for what tests/install/versions.sh lists (<: missing, >: not listed):"
            grep '^[<>]' <<<"$difference"
            status=1
        }
}
same 1 tools/dev/packages.sh < <(
    . tools/dev/packages.sh
    # shellcheck disable=SC2154  # set by packages.sh
    awk 'NF { sub(/clang-18/, "clang-19", $1); sub(/lld-[0-9]+/, "lld-19", $1); print $1 }' <<<"$packages_build$packages_kernels$packages_docs"
)
same 2 packaging/weft.spec < <(awk '$1 == "BuildRequires:" { print $2 }' packaging/weft.spec)
same 3 packaging/conda/meta.yaml < <(
    awk '/^[a-z]/ { asks = 0 } /^  (build|host):$/ && inside { asks = 1 } /^  run:$/ { asks = 0 }
         /^requirements:/ { inside = 1 } asks && $1 == "-" { print $2 == "{{" ? "compiler" : $2 }' \
        packaging/conda/meta.yaml
)
same 4 packaging/spack/package.py < <(
    sed -nE 's/^    (depends_on|generator)\("([a-z0-9-]+).*/\2/p' packaging/spack/package.py
)
exit $status
