# SPDX-License-Identifier: Apache-2.0
# PTX of the library's kernels and of the software adapter's, made by clang, or by nvcc where there is
# no clang that can; and code objects of the library's kernels for AMD GPUs.
# PTX ISA 6.4 and sm_70: nothing here needs what came later.
option(WEFT_GPU_KERNELS "compile the library's kernels for GPUs" ON)
set(weft_ptx_compiler ${WEFT_KERNEL_COMPILER})
if(NOT WEFT_GPU_KERNELS OR WEFT_KERNEL_COMPILER STREQUAL "none")
  set(weft_ptx_compiler none)
elseif(NOT weft_ptx_compiler AND WEFT_CLANG)
  set(weft_ptx_compiler clang)
elseif(NOT weft_ptx_compiler AND WEFT_NVCC)
  set(weft_ptx_compiler nvcc)
elseif(NOT weft_ptx_compiler)
  message(FATAL_ERROR "The library's GPU kernels need a compiler: ${WEFT_CLANG_NOTE}, and no nvcc. "
                      "Install one, or build without GPUs: -DWEFT_GPU_KERNELS=OFF")
endif()
if((weft_ptx_compiler STREQUAL "clang" AND NOT WEFT_CLANG) OR (weft_ptx_compiler STREQUAL "nvcc" AND NOT WEFT_NVCC))
  message(FATAL_ERROR "WEFT_KERNEL_COMPILER=${weft_ptx_compiler}, which is not here: ${WEFT_CLANG_NOTE}")
endif()

# weft_ptx(OUTPUT SOURCE [INCLUDE_FOLDER...]): makes OUTPUT. Comments are left out, and hints that old
# drivers refuse.
function(weft_ptx output source)
  set(includes -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}/src -I${PROJECT_SOURCE_DIR}/standin/hca)
  list(TRANSFORM ARGN PREPEND -I OUTPUT_VARIABLE more)
  list(APPEND includes ${more})
  set(depends -MD -MF ${output}.d -MT ${output})
  if(weft_ptx_compiler STREQUAL "clang")
    set(command ${CMAKE_C_COMPILER_LAUNCHER} ${WEFT_CLANG} ${_weft_clang_flags} --cuda-feature=+ptx64 -DWEFT_PTX_ISA=64 ${includes} ${depends})
  else()
    set(command ${WEFT_NVCC} -x cu -std=c++17 -ptx -arch=compute_75 -DWEFT_PTX_ISA=64 ${includes} ${depends})
  endif()
  file(RELATIVE_PATH shown ${PROJECT_SOURCE_DIR} ${source})
  add_custom_command(OUTPUT ${output} DEPENDS ${source} DEPFILE ${output}.d VERBATIM
    COMMAND ${command} ${source} -o ${output}
    COMMAND sed -i -e "/^[[:space:]]*\\/\\//d" -e "/\\.pragma \"used_bytes_mask/d"
            -e "s/^\\.version .*/.version 6.4/" -e "s/^\\.target .*/.target sm_70/" ${output}
    COMMENT "PTX of ${shown} (${weft_ptx_compiler})")
endfunction()

# The architectures of the code objects, empty where none can be made.
option(WEFT_HIP_KERNELS "compile the library's kernels for AMD GPUs (gfx90a, gfx942) where clang and lld can" ON)
set(weft_hip_architectures)
if(weft_ptx_compiler STREQUAL "clang" AND WEFT_HIP_KERNELS AND NOT WEFT_HIP_NOTE)
  set(weft_hip_architectures ${_weft_hip_known})
elseif(weft_ptx_compiler STREQUAL "none" OR NOT WEFT_HIP_KERNELS)
  set(WEFT_HIP_NOTE "WEFT_HIP_KERNELS or WEFT_GPU_KERNELS is off")
elseif(NOT WEFT_HIP_NOTE)
  set(WEFT_HIP_NOTE "clang is not the compiler of the kernels")
endif()

# weft_hip(OUTPUT SOURCE ARCH): makes OUTPUT, a code object.
function(weft_hip output source arch)
  file(RELATIVE_PATH shown ${PROJECT_SOURCE_DIR} ${source})
  add_custom_command(OUTPUT ${output} DEPENDS ${source} DEPFILE ${output}.d VERBATIM
    COMMAND ${CMAKE_C_COMPILER_LAUNCHER} ${WEFT_CLANG} ${_weft_hip_flags} --offload-arch=${arch}
            -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}/src -MD -MF ${output}.d -MT ${output}
            -c ${source} -o ${output}
    COMMENT "Code of ${shown} for ${arch}")
endfunction()
