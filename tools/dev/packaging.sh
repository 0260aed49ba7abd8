# SPDX-License-Identifier: Apache-2.0
# Sourced by ./dev after checks.sh: Debian packages, and whether they are as packages have to be; the
# recipes of packaging/, as far as this machine has what builds or checks them.

# What lintian is not asked for, each with its reason. The packages are made for whoever builds them,
# not uploaded: there is no number of a bug that asked for them. libweft-nccl.so has the functions of
# NCCL, whose version it reports; programs find it by LD_PRELOAD or through libnccl.so.2.
not_asked=initial-upload-closes-no-bugs,shared-library-lacks-version

# debian_packages FOLDER [option of cmake ...]: for 64-bit Arm with its toolchain; weft-doc, which is
# for all architectures, comes without.
debian_packages() {
    local folder=$1 architecture=
    shift
    rm -f "$folder"/*.deb
    [ $# = 0 ] || architecture=arm64
    step "configuring $folder" cmake --preset default -B "$folder" -DBUILD_TESTING=OFF \
        -DCMAKE_INSTALL_PREFIX=/usr -DWEFT_OSH_PREFIX=lib/weft -DWEFT_SPLIT=ON \
        -DWEFT_WERROR="$(werror default "${architecture:+aarch64-linux-gnu-g}cc")" "$@" || exit 1
    step "building $folder" nice cmake --build "$folder" -j "$cores" --target weft_installed || exit 1
    if [ -z "$architecture" ]; then
        step "making the pages of all functions" tools/make_pages.sh "$folder" || exit 1
        step "making the site" tools/site.sh "$folder" || exit 1
    fi
    # dpkg-shlibdeps looks at libraries of that architecture.
    step "packing" env ${architecture:+DEB_HOST_ARCH=$architecture} sh -c "cd $folder && cpack -G DEB" || exit 1
    step "checking with lintian" lintian --fail-on error,warning --suppress-tags "$not_asked" \
        --allow-root "$folder"/*.deb || exit 1
    ls -1s --block-size=K "$folder"/*.deb
    say "to install them: apt-get install ./$folder/*.deb"
}

# make_source_tarball FILE FOLDER: the tree as it is, in FOLDER of the archive.
make_source_tarball() {
    tar --exclude='./build*' --exclude=./.git --transform "s,^\.,$2,S" -czf "$1" .
}

# Without a look at what is installed, which another system's package manager knows by other names.
rpm_packages() {
    local top=$PWD/build-packages/rpm version
    version=$(sed -n 's/^Version: *//p' packaging/weft.spec)
    rm -rf "$top" && mkdir -p "$top/SOURCES" &&
        make_source_tarball "$top/SOURCES/weft-$version.tar.gz" "weft-$version" &&
        nice rpmbuild -bb --nodeps --define "_topdir $top" --define "_smp_mflags -j$cores" \
            packaging/weft.spec && rm -rf "$top/BUILD" "$top/BUILDROOT" && rpm_packages_run "$top"
}

# rpm_packages_run FOLDER: the command from the unpacked packages, of both weft and weft-bench.
rpm_packages_run() {
    local root=$1/root package
    rm -rf "$root" && mkdir "$root" || return
    for package in "$1"/RPMS/*/*.rpm; do
        rpm2archive "$package" && tar -xzf "$package.tgz" -C "$root" && rm "$package.tgz" || return
    done
    "$root/usr/bin/weft" topo --machine tests/machine/machines/h200-2-vm.json | grep '^gpu1 ' &&
        "$root/usr/bin/weft" bench --list | grep '^put ' && rm -rf "$root"
}

# recipe TOOL WORDS COMMAND...: a check where TOOL is here.
recipe() {
    local tool=$1 words=$2
    shift 2
    if command -v "$tool" >/dev/null; then
        check "$words" "$@"
    else
        skip "$words: $tool is not here"
    fi
}

# The packages for 64-bit Arm, and the command of them by qemu-user.
arm_packages() {
    local root=build-packages-arm64/root package
    register_arm_step || exit 1
    debian_packages build-packages-arm64 --toolchain cmake/aarch64.cmake \
        -DCMAKE_INSTALL_LIBDIR=lib/aarch64-linux-gnu \
        -DWEFT_PMIX_INCLUDE="$(pkg-config --variable=includedir pmix)"
    rm -rf "$root"
    for package in build-packages-arm64/*.deb; do
        dpkg-deb -x "$package" "$root" || exit 1
    done
    check "the command of the packages, on 64-bit Arm" arm_packages_run "$root"
    rm -rf "$root"
    summary
}

# arm_packages_run FOLDER: the small command, the whole one, and a program of two PEs. Those are
# started by rank variables, because qemu-user lacks what `weft run` needs.
arm_packages_run() {
    local library=$1/usr/lib/aarch64-linux-gnu rank
    "$1/usr/bin/weft" topo --machine tests/machine/machines/gh200.json | grep '^gpu0 .*memory NUMA 1$' &&
        "$1/usr/bin/weft" bench --list | grep '^put ' &&
        aarch64-linux-gnu-gcc -I"$1/usr/include" -Iexamples examples/ring.c -o "$1/ring" \
            -L"$library" -lweft || return
    for rank in 0 1; do
        timeout 60 env RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 \
            MASTER_PORT=$((20000 + $$ % 10000)) LD_LIBRARY_PATH="$library" "$1/ring" &
    done | grep 'expected 3$'
}

# ./dev packages [arm64]
verb_packages() {
    case ${1:-} in
    '') ;;
    arm64)
        arm_packages
        return
        ;;
    *) fail "./dev packages takes arm64 or nothing, not \"$1\"" ;;
    esac
    debian_packages build-packages
    check "versions and dependencies of all recipes" tests/install/versions.sh .
    recipe rpmlint "RPM spec" rpmlint -r packaging/weft.rpmlintrc packaging/weft.spec
    recipe rpmbuild "RPM packages in build-packages/rpm" rpm_packages
    recipe conda-build "conda package" conda-build packaging/conda
    recipe spack "Spack package" spack python -c 'exec(open("packaging/spack/package.py").read())'
    recipe hadolint "Containerfile" hadolint packaging/Containerfile
    summary
}
