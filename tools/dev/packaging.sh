# SPDX-License-Identifier: Apache-2.0
# Sourced by ./dev after checks.sh: Debian packages, and whether they are as packages have to be; the
# recipes of packaging/, as far as this machine has what builds or checks them.

# What lintian is not asked for, each with its reason. The packages are made for whoever builds them,
# not uploaded: there is no number of a bug that asked for them.
not_asked=initial-upload-closes-no-bugs

debian_packages() {
    local folder=build-packages
    rm -f $folder/*.deb
    step "configuring $folder" cmake --preset default -B $folder -DBUILD_TESTING=OFF \
        -DCMAKE_INSTALL_PREFIX=/usr -DWEFT_OSH_PREFIX=lib/weft -DWEFT_SPLIT=ON \
        -DWEFT_WERROR="$(werror default cc)" || exit 1
    step "building $folder" nice cmake --build $folder -j "$cores" --target weft weft_static \
        weft_nvshmem_device weft_command weft_bitcode weft_small weft_hca man || exit 1
    step "making the pages of all functions" tools/make_pages.sh $folder || exit 1
    step "making the site" tools/site.sh $folder || exit 1
    step "packing" sh -c "cd $folder && cpack -G DEB" || exit 1
    step "checking with lintian" lintian --fail-on error,warning --suppress-tags "$not_asked" \
        --allow-root $folder/*.deb || exit 1
    ls -1s --block-size=K $folder/*.deb
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

verb_packages() {
    debian_packages
    check "versions and dependencies of all recipes" tests/install/versions.sh .
    recipe rpmlint "RPM spec" rpmlint -r packaging/weft.rpmlintrc packaging/weft.spec
    recipe rpmbuild "RPM packages in build-packages/rpm" rpm_packages
    recipe conda-build "conda package" conda-build packaging/conda
    recipe spack "Spack package" spack python -c 'exec(open("packaging/spack/package.py").read())'
    recipe hadolint "Containerfile" hadolint packaging/Containerfile
    summary
}
