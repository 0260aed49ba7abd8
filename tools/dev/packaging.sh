# SPDX-License-Identifier: Apache-2.0
# Sourced by ./dev: Debian packages, and whether they are as packages have to be.

# What lintian is not asked for, each with its reason. The packages are made for whoever builds them,
# not uploaded: there is no number of a bug that asked for them.
not_asked=initial-upload-closes-no-bugs

verb_packages() {
    local folder=build-packages
    rm -f $folder/*.deb
    step "configuring $folder" cmake --preset default -B $folder -DBUILD_TESTING=OFF \
        -DCMAKE_INSTALL_PREFIX=/usr -DWEFT_OSH_PREFIX=lib/weft -DWEFT_SPLIT=ON \
        -DWEFT_WERROR="$(werror default cc)" || exit 1
    step "building $folder" nice cmake --build $folder -j "$cores" --target weft weft_static \
        weft_nvshmem_device weft_command weft_small weft_hca man || exit 1
    step "making the pages of all functions" tools/make_pages.sh $folder || exit 1
    step "making the site" tools/site.sh $folder || exit 1
    step "packing" sh -c "cd $folder && cpack -G DEB" || exit 1
    step "checking with lintian" lintian --fail-on error,warning --suppress-tags "$not_asked" \
        --allow-root $folder/*.deb || exit 1
    ls -1s --block-size=K $folder/*.deb
    say "to install them: apt-get install ./$folder/*.deb"
}
