#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: pythons.sh list | test BUILD
# The CPythons from 3.9 at hand: in PATH, and as pyenv and uv install them; one of each minor
# version. list: their programs. test: the tests of the package over the library of BUILD, by each,
# in an environment in .deps/pythons with pytest, numpy and hypothesis (from PyPI, the first time).
set -euo pipefail
cd "$(dirname "$0")/.."

list() {
    local found seen=' ' version
    for found in /usr/bin/python3 $(compgen -c python3. 2>/dev/null | sort -u) \
        "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python3 \
        "${XDG_DATA_HOME:-$HOME/.local/share}"/uv/python/*/bin/python3; do
        # Left out: what is no interpreter, and a name of pyenv in PATH, which fails
        # where that version is not chosen.
        version=$("$found" -c 'import sys
if sys.implementation.name == "cpython" and sys.version_info >= (3, 9):
    print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
        case $seen in *" $version "*) continue ;; esac
        [ -z "$version" ] || command -v "$found"
        seen="$seen$version "
    done
}

test_all() {
    local build python folder status=0
    build=$(realpath "$1")
    for python in $(list); do
        folder=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        folder=$PWD/.deps/pythons/$folder
        "$folder/bin/python" -c 'import pytest, numpy, hypothesis' 2>/dev/null || {
            rm -rf "$folder"
            "$python" -m venv "$folder"
            "$folder/bin/pip" install -q --disable-pip-version-check pytest numpy hypothesis
        }
        echo "== $("$folder/bin/python" -VV)"
        # Style and types are those of one version; the pages print what one numpy prints.
        WEFT_WAIT_LIMIT=60s PYTHONPATH=$PWD/python PYTHONDONTWRITEBYTECODE=1 \
            LIBWEFT=$build/lib/libweft.so.0 HYPOTHESIS_STORAGE_DIRECTORY=$folder/hypothesis \
            "$folder/bin/python" -m pytest -q -p no:cacheprovider tests/python \
            --ignore tests/python/test_style.py \
            --ignore tests/python/test_docs.py --ignore tests/python/test_bindings.py || {
            [ $? = 77 ] || status=1 # 77: tests that need other packages were skipped
        }
    done
    return $status
}

case ${1:-} in
list) list ;;
test) test_all "$2" ;;
*) sed -n 's/^# //; 3,6p' "$0" && exit 2 ;;
esac
