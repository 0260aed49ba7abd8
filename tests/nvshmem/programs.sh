#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: programs.sh SOURCE BUILD WEFT host|cuda NVCC|cuda_front NVCC|mpi|mpi_first
# Programs in NVSHMEM's style compile unchanged and without a warning, and have the right values
# where target simt can run them. cuda: with nvcc, which also links them; cuda_front: one program,
# only to PTX. mpi, mpi_first: the PEs of a communicator, with MPI's header after or before ours;
# exits with 77 without MPI. LINK_OPTIONS: further options that this build of the library needs.
set -u
source=$1 build=$2 weft=$3 what=$4
programs=$source/tests/nvshmem/programs
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
status=0
warnings='-Wall -Wextra'
link="$build/lib/libweft.a -ldl -lpthread -lm ${LINK_OPTIONS-}"
export WEFT_TARGET=simt WEFT_HEAP_SIZE=16M

# NAME COMMAND...
runs() {
    name=$1
    shift
    if ! timeout 60 "$@" > "$folder/said" 2>&1; then
        echo "$name fails ($*):" >&2
        tail -5 "$folder/said" >&2
        status=1
    fi
}

case $what in
cuda_front)
    runs exchange.cu "$5" -std=c++17 -arch=compute_75 -Werror all-warnings -Xcompiler -Wall \
        -I "$source/include" "$programs/exchange.cu" -ptx -o "$folder/exchange.ptx"
    ;;
cuda)
    for program in ring jacobi exchange; do
        runs "$program.cu" "$5" -std=c++17 -arch=sm_90 -Xptxas -O0 -Werror all-warnings -Xcompiler -Wall \
            -I "$source/include" "$programs/$program.cu" -o "$folder/$program" $link
    done
    # g bypasses the L1 cache, unless the unit requests the cached form.
    printf '#include <nvshmem.h>\n__global__ void k(float *to, const float *from, int pe)\n{\n%s\n}\n' \
        '    *to = nvshmem_float_g(from + threadIdx.x, pe);' > "$folder/g.cu"
    for form in -UWEFT_NVSHMEM_CACHED_G -DWEFT_NVSHMEM_CACHED_G; do
        runs "g ($form)" "$5" -std=c++17 -arch=sm_90 -ptx $form -I "$source/include" "$folder/g.cu" \
            -o "$folder/g$form.ptx"
        sed -n '/\.entry _Z1kPfPKfi/,/^}/p' "$folder/g$form.ptx" > "$folder/g$form"
    done
    if ! grep -q 'ld\.volatile' "$folder/g-UWEFT_NVSHMEM_CACHED_G" ||
        grep -q 'ld\.volatile' "$folder/g-DWEFT_NVSHMEM_CACHED_G"; then
        echo "g is not read as it is documented" >&2
        status=1
    fi
    # A host file of the same program, which launches with dim3 and uses half.
    runs host.cpp "$5" -x c++ -std=c++17 -Xcompiler -Wall,-Wextra,-Werror -I "$source/include" \
        "$programs/host.cpp" -c -o "$folder/host.o"
    ;;
host)
    runs host.cpp ${CXX:-c++} -std=c++17 $warnings -Werror -I "$source/include" \
        "$programs/host.cpp" -c -o "$folder/host.o"
    # Without the CUDA runtime programs that use it are not linked.
    runs host.cpp ${CXX:-c++} -std=c++11 $warnings -Werror -DWEFT_NV_CUDA_HEADERS=0 \
        -I "$source/include" "$programs/host.cpp" -o "$folder/host" $link
    runs unique_id.c ${CC:-cc} -std=c11 -D_GNU_SOURCE $warnings -Werror -I "$source/include" \
        "$programs/unique_id.c" -o "$folder/unique_id" $link
    runs host "$weft" run -n 3 "$folder/host"
    for rank in 1 2; do
        timeout 60 "$folder/unique_id" $rank 3 "$folder/id" > "$folder/rank$rank" 2>&1 || \
            echo failed >> "$folder/rank$rank" &
    done
    runs unique_id "$folder/unique_id" 0 3 "$folder/id"
    wait
    if grep failed "$folder/rank1" "$folder/rank2" >&2; then
        status=1
    fi
    ;;
mpi | mpi_first)
    # mpicxx may be there without the headers, which have a package of their own.
    echo '#include <mpi.h>' | mpicxx -E -x c++ - > /dev/null 2>&1 && command -v mpirun > /dev/null ||
        exit 77
    order=last option=-DMPI_LAST
    [ "$what" = mpi ] || order=first option=
    runs "mpi.cpp ($order)" mpicxx -std=c++17 $option -I "$source/include" \
        "$programs/mpi.cpp" -o "$folder/mpi_$order" $link
    # The launcher refuses root and few CPUs unless told otherwise.
    set -- mpirun --allow-run-as-root --oversubscribe -n 4
    mpirun --version 2>&1 | grep -q 'Open MPI\|OpenRTE' || set -- mpirun -n 4
    runs "mpi_$order" "$@" "$folder/mpi_$order"
    runs "mpi_$order of half the ranks" "$@" "$folder/mpi_$order" split
    ;;
esac
exit $status
