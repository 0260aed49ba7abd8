# SPDX-License-Identifier: Apache-2.0
# Sourced by ./dev: what a release consists of, in build-release/.

# check_release [--draft]: the tree is committed, and all places name one version. Sets `version`.
check_release() {
    local heading
    git rev-parse --git-dir >/dev/null 2>&1 ||
        fail "a release is made from a git repository; this is none"
    [ -z "$(git status --porcelain)" ] ||
        fail "the tree has changes that are not committed (git status); commit or remove them first"
    version=$(sed -nE 's/^#define WEFT_VERSION_(MAJOR|MINOR|PATCH) +([0-9]+)$/\2/p' include/weft.h |
        paste -sd .)
    heading=$(sed -n 's/^## //p' CHANGELOG.md | head -n 1)
    case "${1:-} $heading" in
    *" $version - "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9] | "--draft $version (unreleased)") ;;
    *" $version (unreleased)")
        fail "CHANGELOG.md says \"$heading\"; write \"## $version - $(date +%F)\" and commit it" ;;
    *) fail "include/weft.h has version $version, and CHANGELOG.md begins with \"$heading\"" ;;
    esac
    tests/install/versions.sh . || fail "not all places name version $version"
}

# The commit as a tarball whose bytes depend on the commit alone, not on settings of git.
make_tarball() {
    git -c tar.umask=0022 archive --format=tar --prefix="weft-$version/" HEAD | gzip -9n >"build-release/$name.tar.gz"
}

# The packages and the site are made of the tarball, so that it is known to be whole.
make_of_tarball() {
    local tree=build-release/$name
    tar -xzf "$tree.tar.gz" -C build-release &&
        (cd "$tree" && ./dev -y packages) &&
        find "$tree/build-packages" -name _CPack_Packages -prune -o \
            \( -name '*.deb' -o -name '*.rpm' \) -exec mv -t build-release {} + &&
        tar -C "$tree/build-packages" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 \
            --numeric-owner -c site | gzip -9n >"$tree-site.tar.gz" &&
        rm -rf "${tree:?}"
}

# ./dev release [--draft] [short]: short makes the tarball alone.
verb_release() {
    local version name draft=
    [ "${1:-}" != --draft ] || { draft=$1 && shift; }
    case ${1:-} in
    '' | short) ;;
    *) fail "./dev release takes --draft and short, not \"$1\"" ;;
    esac
    check_release "$draft"
    name=weft-$version
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
    export SOURCE_DATE_EPOCH
    rm -rf build-release
    mkdir build-release
    step "tarball of $(git rev-parse --short HEAD)" make_tarball || exit 1
    [ "${1:-}" = short ] || step "packages and site of the tarball" make_of_tarball || exit 1
    (cd build-release && sha256sum -- * >SHA256SUMS)
    cat build-release/SHA256SUMS
    say "in build-release/; to check: cd build-release && sha256sum -c SHA256SUMS"
}
