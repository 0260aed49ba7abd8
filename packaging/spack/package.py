# SPDX-License-Identifier: Apache-2.0
# Spack 1.0 and newer. This file is packages/weft/package.py of a repository (spack repo create).
# `spack install --no-checksum weft` is called in the folder with the tarball of ./dev release.
import os

from spack_repo.builtin.build_systems.cmake import CMakePackage, generator

from spack.package import *


class Weft(CMakePackage):
    """GPU communication on one symmetric memory over hosts and GPUs: a library and a command."""

    url = f"file://{os.getcwd()}/weft-0.2.0.tar.gz"
    manual_download = True

    license("Apache-2.0")

    version("0.2.0")

    generator("ninja")

    depends_on("c", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("llvm@18: +clang +lld targets=nvptx,amdgpu", type="build")
    depends_on("lz4", type="build")
    depends_on("jansson")
    depends_on("hwloc")
    depends_on("expat")
    depends_on("libpng")
    depends_on("pmix")
    depends_on("rdma-core")
    depends_on("libfabric")

    def cmake_args(self):
        return ["-DBUILD_TESTING=OFF", "-DWEFT_WERROR=OFF", "-DWEFT_KERNEL_COMPILER=clang"]
