# SPDX-License-Identifier: Apache-2.0
# Cross-compiles for 64-bit Arm with Debian's packages, and runs tests by qemu-user:
#   cmake -S . -B build-arm --toolchain cmake/aarch64.cmake      (./dev arm does it)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
