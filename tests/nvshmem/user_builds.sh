#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: user_builds.sh WEFT [NVCC]
# Finding D: programs build like NVSHMEM projects, with only NVSHMEM_HOME=$(weft nvshmem) set, and
# run by nvshmrun: a makefile with -lnvshmem_host -lnvshmem_device, one with -lnvshmem,
# find_package(NVSHMEM), pkg-config nvshmem. Every header of NVSHMEM's paths compiles in C and C++;
# cudaStream_t is the type of CUDA's headers, wherever those are included. With NVCC: the same
# makefile and project with -rdc=true and no other change.
set -eu
weft=$1 nvcc=${2-}
unset LD_LIBRARY_PATH PKG_CONFIG_PATH
NVSHMEM_HOME=$("$weft" nvshmem)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export WEFT_TARGET=simt WEFT_HEAP_SIZE=16M
CC=${CC:-cc} CXX=${CXX:-c++}
export CC CXX

fault() {
    echo "$*" >&2
    [ ! -e log ] || tail -n 20 log >&2
    exit 1
}
# prints WANTED COMMAND...: the sorted output lines of the command must be these.
prints() {
    wanted=$1
    shift
    timeout 120 "$@" >said 2>log || fault "$* fails"
    [ "$(sort said | tr '\n' ' ')" = "$wanted" ] || fault "$* prints \"$(cat said)\", not \"$wanted\""
}
builds() {
    "$@" >log 2>&1 || fault "$* fails"
}

# -------------------------------------------------------- a program with a kernel, and without one
cat >program.c <<'END'
#ifndef __CUDACC__
#define NVSHMEM_HOSTLIB_ONLY
#endif
#include <nvshmem.h>
#include <nvshmemx.h>

#ifdef __CUDACC__
__global__ void pass(int *slot, int value, int pe)
{
    nvshmemx_region_attrs_t attrs = NVSHMEMX_REGION_ATTRS_INITIALIZER;
    nvshmemx_region_handle_t region;
    uint64_t *signal = (uint64_t *)slot + 1;
    nvshmemx_region_start_block(&region, &attrs);
    nvshmemx_putmem_signal_counted_nbi_block(slot + 1, slot, 4, signal, pe);
    nvshmemx_region_stop_block(region);
    nvshmemx_signal_counted_wait_until(signal, 4);
    nvshmemx_signal_counted_reset(signal);
    cooperative_groups::this_grid().sync();
    nvshmem_int_p(slot, value, pe);
    nvshmem_quiet();
    nvshmem_sync(NVSHMEM_TEAM_WORLD);
}
#endif

int main(void)
{
    nvshmem_init();
    int me = nvshmem_my_pe(), pes = nvshmem_n_pes();
    int *slot = (int *)nvshmem_malloc(sizeof(int));
    nvshmem_int_p(slot, 40 + me, (me + 1) % pes);
    nvshmem_barrier_all();
    printf("%d\n", *slot);
#ifdef __CUDACC__
    if (pes > 100) { /* compiled and linked, not launched */
        nvshmemx_collective_launch_attr_t attr{};
        void *args[] = {&slot, &me, &pes};
        attr.cuda_config.gridDim = attr.cuda_config.blockDim = dim3(1);
        nvshmemx_collective_launch_attr(&attr, (const void *)pass, args);
        CUdevice device = 0; /* cuda.h came along */
        return (int)device;
    }
#endif
    nvshmem_free(slot);
    nvshmem_finalize();
    return 0;
}
END
cp program.c program.cu

if [ -n "$nvcc" ]; then
    cat >Makefile <<'END'
program: program.cu
	$(NVCC) -std=c++17 -rdc=true -arch=sm_90 -I$(NVSHMEM_HOME)/include $< -o $@ \
	    -L$(NVSHMEM_HOME)/lib -lnvshmem_host -lnvshmem_device
archive: program.cu
	$(NVCC) -std=c++17 -rdc=true -arch=sm_90 -I$(NVSHMEM_HOME)/include $< -o $@ -L$(NVSHMEM_HOME)/lib -lnvshmem
END
    builds make NVSHMEM_HOME="$NVSHMEM_HOME" NVCC="$nvcc" program archive
    prints '40 41 42 ' "$NVSHMEM_HOME/bin/nvshmrun" -n 3 ./program
    prints '40 41 42 ' "$NVSHMEM_HOME/bin/nvshmrun" -n 3 ./archive
    mkdir project
    cat >project/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES CUDA CXX)
find_package(NVSHMEM 3.4 REQUIRED)
add_executable(program ../program.cu)
set_target_properties(program PROPERTIES CUDA_SEPARABLE_COMPILATION ON)
target_link_libraries(program PRIVATE nvshmem::nvshmem_host nvshmem::nvshmem_device)
END
    builds cmake -G Ninja -S project -B project/build -DCMAKE_PREFIX_PATH="$NVSHMEM_HOME" \
        -DCMAKE_CUDA_COMPILER="$nvcc" -DCMAKE_CUDA_ARCHITECTURES=90
    builds cmake --build project/build
    prints '40 41 ' "$weft" run -n 2 project/build/program
    exit 0
fi

# ------------------------------------------------------------------------------------- headers
(cd "$NVSHMEM_HOME/include" && find . -type f ! -path './weft/*' | sed 's|^\./||' | sort) >headers
[ "$(wc -l <headers)" -gt 20 ] || fault "there are $(wc -l <headers) headers"
# cuda.h and cuda_runtime.h declare the type like this; twice, because programs include them before
# or after.
stream='typedef struct CUstream_st *cudaStream_t;'
{
    echo "$stream"
    sed 's|.*|#include <&>|' headers
    echo "#include <nvshmem_host.h>"
    echo "$stream"
    echo 'void (*quiet)(cudaStream_t) = nvshmemx_quiet_on_stream;'
    echo 'int (*barrier)(nvshmem_team_t, struct CUstream_st *) = nvshmemx_barrier_on_stream;'
    echo 'nvshmemx_init_attr_v1 attr = NVSHMEMX_INIT_ATTR_INITIALIZER;'
    echo 'int main(void) { return nvshmem_my_pe(); }'
} >headers.c
cp headers.c headers.cc
options="-DWEFT_NV_CUDA_HEADERS=0 -I$NVSHMEM_HOME/include -Wall -Wextra -Werror -fsyntax-only"
# shellcheck disable=SC2086  # several words
for language in 'c -std=c99' 'c -std=gnu17'; do
    builds $CC -x $language $options headers.c
done
# shellcheck disable=SC2086
if command -v "$CXX" >/dev/null; then
    builds $CXX -std=c++11 $options headers.cc
fi

# ------------------------------------------------------------------------------------ makefiles
cat >Makefile <<'END'
program: program.c
	$(CC) -I$(NVSHMEM_HOME)/include $< -o $@ -L$(NVSHMEM_HOME)/lib -lnvshmem_host -lnvshmem_device
archive: program.c
	$(CC) -I$(NVSHMEM_HOME)/include $< -o $@ -L$(NVSHMEM_HOME)/lib -lnvshmem -lpthread -ldl -lm
END
builds make NVSHMEM_HOME="$NVSHMEM_HOME" program archive
prints '40 41 42 ' "$NVSHMEM_HOME/bin/nvshmrun" -n 3 ./program
prints '40 41 ' "$NVSHMEM_HOME/bin/nvshmrun" -n 2 -ppn 2 ./archive
prints '40 ' ./archive

# ------------------------------------------------------------------------------ CMake, pkg-config
mkdir project
cat >project/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C)
find_package(NVSHMEM 3.4 REQUIRED)
if(NOT EXISTS ${NVSHMEM_INCLUDE_DIR}/host/nvshmem_api.h)
  message(FATAL_ERROR "NVSHMEM_INCLUDE_DIR is \"${NVSHMEM_INCLUDE_DIR}\"")
endif()
add_executable(program ../program.c)
target_link_libraries(program PRIVATE nvshmem::nvshmem_host nvshmem::nvshmem_device)
add_executable(archive ../program.c)
target_link_libraries(archive PRIVATE nvshmem::nvshmem)
END
builds cmake -G Ninja -S project -B project/build -DCMAKE_PREFIX_PATH="$NVSHMEM_HOME"
builds cmake --build project/build
prints '40 41 ' "$weft" run -n 2 project/build/program
prints '40 41 ' "$weft" run -n 2 project/build/archive
sed -i 's/NVSHMEM 3.4/NVSHMEM 4/' project/CMakeLists.txt
! cmake -G Ninja -S project -B project/newer -DCMAKE_PREFIX_PATH="$NVSHMEM_HOME" >log 2>&1 ||
    fault "find_package(NVSHMEM 4) finds a version 3"
PKG_CONFIG_PATH=$NVSHMEM_HOME/lib/pkgconfig
export PKG_CONFIG_PATH
# shellcheck disable=SC2046,SC2086  # options are words
builds $CC program.c -o with_pkg_config $(pkg-config --cflags --libs nvshmem)
prints '40 41 ' "$weft" run -n 2 ./with_pkg_config

# --------------------------------------------------------------------------------------- commands
version=$(pkg-config --modversion nvshmem)
prints "$version " "$NVSHMEM_HOME/bin/nvshmem-info" -n
"$NVSHMEM_HOME/bin/nvshmem-info" -a >said || fault "nvshmem-info -a fails"
for words in "NVSHMEM v$version (Weft)" "prefix:    $NVSHMEM_HOME" WEFT_HEAP_SIZE; do
    grep -qF "$words" said || fault "nvshmem-info -a says nothing of \"$words\""
done
status=0
"$NVSHMEM_HOME/bin/nvshmem-info" --nothing >said 2>&1 || status=$?
[ $status = 2 ] || fault "nvshmem-info --nothing ends with $status"
[ "$("$weft" nvshmem --json)" = "{\"prefix\": \"$NVSHMEM_HOME\"}" ] || fault "weft nvshmem --json"

# A weft that was copied elsewhere does not guess the folder.
cp "$weft" alone
status=0
./alone nvshmem >said 2>&1 || status=$?
if [ $status != 1 ] || ! grep -q 'install libweft-dev' said; then
    fault "weft alone: $status, $(cat said)"
fi
