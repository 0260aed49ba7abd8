# SPDX-License-Identifier: Apache-2.0
# Programs whose kernels are one source for two targets (<weft/launch.h>).
#
#   weft_add_program(NAME SOURCES FILE... [HOST_SOURCES FILE...] [NVCC])
#       An executable; SOURCES are compiled for both targets, HOST_SOURCES by the C compiler alone.
#   weft_kernels(TARGET FILE... [NVCC])
#       Adds files that are compiled for both targets to an executable or library of C. With NVCC
#       they use CUDA C++ or CUDA's runtime, and only nvcc compiles them for cuda.
#
# Every file is compiled by the C compiler (simt and the host's code) and for cuda by clang, whose PTX
# libweft loads and launches through the driver, or by nvcc, with the CUDA runtime. Variables:
#   WEFT_KERNEL_COMPILER   clang, nvcc, or empty: clang where it is, else nvcc; none: simt only
#   WEFT_CLANG             clang 18 or newer; OFF: none
#   WEFT_CLANG_FLAGS       further options for clang
#   WEFT_PTX_ISA           version of the PTX that clang writes, times 10: 64 for drivers from 460 on;
#                          83 (drivers from 545 on) makes packets of 16 bytes
#   WEFT_CUBIN_ARCHITECTURES compute capabilities (80, 90, 100) for which ptxas assembles the PTX; on
#                          others the driver compiles it at its first use, which takes seconds; empty: none
#   WEFT_PTXAS             ptxas
#   WEFT_HIP_ARCHITECTURES AMD GPUs for which clang compiles too, of gfx90a and gfx942; empty: none
#   WEFT_NVCC              nvcc; empty or OFF: none
#   WEFT_CUDA_GENCODE      nvcc's options for what GPUs to compile for
#   WEFT_NVCC_FLAGS        further options for nvcc; for one target: its property WEFT_NVCC_OPTIONS

# Device code needs clang 18 or newer, with LLVM's back end for NVIDIA GPUs. WEFT_CLANG_NOTE says why
# there is none.
function(_weft_find_clang)
  set(names clang-22 clang-21 clang-20 clang-19 clang-18 clang)
  if(WEFT_CLANG)
    set(names ${WEFT_CLANG})
  elseif(DEFINED WEFT_CLANG)
    set(WEFT_CLANG_NOTE "WEFT_CLANG is off" PARENT_SCOPE)
    return()
  endif()
  set(packages "Debian 12: package clang-19, Ubuntu 24.04: clang-18")
  set(note "clang is not here (${packages})")
  foreach(name ${names})
    find_program(clang NAMES ${name} NO_CACHE)
    if(NOT clang)
      continue()
    endif()
    execute_process(COMMAND ${clang} -dumpversion OUTPUT_VARIABLE version ERROR_QUIET
                    OUTPUT_STRIP_TRAILING_WHITESPACE)
    execute_process(COMMAND ${clang} --print-targets OUTPUT_VARIABLE targets ERROR_QUIET)
    if(version VERSION_GREATER_EQUAL 18 AND targets MATCHES "nvptx64")
      set(WEFT_CLANG ${clang} CACHE FILEPATH "clang 18 or newer, for device code; OFF: none")
      return()
    endif()
    set(note "${clang} is clang ${version}, and device code needs 18 or newer with nvptx64 (${packages})")
    unset(clang)
  endforeach()
  if(WEFT_CLANG)
    message(FATAL_ERROR "WEFT_CLANG: ${note}")
  endif()
  set(WEFT_CLANG_NOTE "${note}" PARENT_SCOPE)
endfunction()
_weft_find_clang()

set(WEFT_KERNEL_COMPILER "" CACHE STRING "compiler of kernels: clang, nvcc, none; empty: the first that is there")
set(WEFT_CLANG_FLAGS "" CACHE STRING "further clang options for kernels")
set(WEFT_PTX_ISA 64 CACHE STRING "version of the PTX that clang writes for programs, times 10")
set(_weft_clang_flags -x cuda --cuda-device-only -nocudainc -nocudalib --cuda-gpu-arch=sm_70 -S -O3
    -std=c++17 -ffreestanding -fdeclspec -ffp-contract=fast -Wno-unknown-cuda-version)
# Without loop strength reduction, which keeps one more address per access in registers, so that others
# go to the stack: with 64 registers (blocks of 1024 threads) put with signal spills 31 values, else 15.
set(_weft_clang_program_flags ${_weft_clang_flags} -mllvm -disable-lsr)

# AMD GPUs: clang with LLVM's back end for them links code objects with lld. WEFT_HIP_NOTE says why
# it cannot.
set(WEFT_HIP_ARCHITECTURES "" CACHE STRING "AMD GPUs for which kernels are compiled: gfx90a, gfx942")
set(_weft_hip_flags -x hip --cuda-device-only --no-gpu-bundle-output -nogpuinc -nogpulib -O3 -std=c++17
    -ffreestanding -fdeclspec -ffp-contract=fast-honor-pragmas)
set(_weft_hip_known gfx90a gfx942)
function(_weft_find_hip)
  if(NOT WEFT_CLANG)
    set(WEFT_HIP_NOTE "there is no clang: ${WEFT_CLANG_NOTE}" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND ${WEFT_CLANG} --print-targets OUTPUT_VARIABLE targets ERROR_QUIET)
  execute_process(COMMAND ${WEFT_CLANG} -print-prog-name=lld OUTPUT_VARIABLE lld ERROR_QUIET
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT targets MATCHES "amdgcn")
    set(WEFT_HIP_NOTE "${WEFT_CLANG} has no back end amdgcn" PARENT_SCOPE)
  elseif(NOT IS_ABSOLUTE "${lld}" OR NOT EXISTS "${lld}")
    set(WEFT_HIP_NOTE "${WEFT_CLANG} finds no lld (Debian 12: package lld-19, Ubuntu 24.04: lld-18)" PARENT_SCOPE)
  endif()
endfunction()
_weft_find_hip()
foreach(arch ${WEFT_HIP_ARCHITECTURES})
  if(NOT arch IN_LIST _weft_hip_known)
    message(FATAL_ERROR "WEFT_HIP_ARCHITECTURES names ${arch}, which is not gfx90a or gfx942: Weft's "
                        "device code for AMD GPUs is compiled for these two; name one of them")
  endif()
endforeach()
if(WEFT_HIP_ARCHITECTURES AND WEFT_HIP_NOTE)
  message(FATAL_ERROR "WEFT_HIP_ARCHITECTURES is ${WEFT_HIP_ARCHITECTURES}, but ${WEFT_HIP_NOTE}")
endif()

set(WEFT_CUBIN_ARCHITECTURES "" CACHE STRING "compute capabilities for which ptxas assembles kernels of programs: 80, 90, 100")
find_program(WEFT_PTXAS ptxas HINTS ENV CUDA_HOME PATHS /usr/local/cuda/bin PATH_SUFFIXES bin
             DOC "CUDA's assembler; without it the driver compiles kernels at their first use")
if(WEFT_CUBIN_ARCHITECTURES AND NOT WEFT_PTXAS)
  message(FATAL_ERROR "WEFT_CUBIN_ARCHITECTURES is ${WEFT_CUBIN_ARCHITECTURES}, but ptxas is not here: "
                      "install the CUDA toolkit (or name it: WEFT_PTXAS), or leave it to the driver")
endif()
find_program(WEFT_LZ4 lz4 DOC "packs kernels; without it they are embedded as they are")
set(_weft_image_script ${CMAKE_CURRENT_LIST_DIR}/weft_image.sh)

# One pass of the compiler for both: nothing here needs instructions that came later.
set(WEFT_CUDA_GENCODE "-gencode=arch=compute_75,code=[sm_90,compute_75]"
    CACHE STRING "nvcc options: the GPUs that kernels are compiled for")
set(WEFT_NVCC_FLAGS "" CACHE STRING "further nvcc options for kernels")
find_program(WEFT_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda /opt/cuda
             PATH_SUFFIXES bin DOC "CUDA compiler")
if(WEFT_NVCC)
  cmake_path(GET WEFT_NVCC PARENT_PATH WEFT_CUDA_BIN)
  find_library(WEFT_CUDART cudart_static HINTS ${WEFT_CUDA_BIN}/.. PATH_SUFFIXES lib64 lib
               targets/x86_64-linux/lib targets/sbsa-linux/lib NO_CACHE)
endif()

# The CUDA half of one file, as an object of `target`.
function(_weft_nvcc_object target file)
  cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE
             OUTPUT_VARIABLE source)
  string(MAKE_C_IDENTIFIER "${file}" name)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${target}.cuda/${name}.o)
  file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${target}.cuda)
  set(includes $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
  set(definitions $<TARGET_PROPERTY:${target},COMPILE_DEFINITIONS>)
  # The C linker links the object: nothing in it may need the C++ runtime.
  add_custom_command(OUTPUT ${object} DEPENDS ${source} DEPFILE ${object}.d VERBATIM
    COMMAND_EXPAND_LISTS COMMENT "Building CUDA half of ${file}"
    COMMAND ${CMAKE_C_COMPILER_LAUNCHER} ${WEFT_NVCC} -x cu -c ${source} -o ${object} -MD -MF ${object}.d -MT ${object}
            -std=c++17 -O3 -lineinfo -Xfatbin=-compress-all ${WEFT_CUDA_GENCODE} ${WEFT_NVCC_FLAGS}
            "$<TARGET_PROPERTY:${target},WEFT_NVCC_OPTIONS>"
            -Xcompiler=-fPIC,-fno-exceptions,-fno-threadsafe-statics
            "$<$<BOOL:${includes}>:-I$<JOIN:${includes},;-I>>"
            "$<$<BOOL:${definitions}>:-D$<JOIN:${definitions},;-D>>")
  target_sources(${target} PRIVATE ${object})
  set_source_files_properties(${object} PROPERTIES GENERATED TRUE EXTERNAL_OBJECT TRUE)
endfunction()

# The PTX of one file, and the C file that makes it a part of `target`.
function(_weft_clang_object target file)
  cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE
             OUTPUT_VARIABLE source)
  string(MAKE_C_IDENTIFIER "${file}" name)
  set(ptx ${CMAKE_CURRENT_BINARY_DIR}/${target}.cuda/${name}.ptx)
  set(image ${CMAKE_CURRENT_BINARY_DIR}/${target}.cuda/${name}_image.c)
  file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${target}.cuda)
  set(includes $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
  set(definitions $<TARGET_PROPERTY:${target},COMPILE_DEFINITIONS>)
  add_custom_command(OUTPUT ${ptx} DEPENDS ${source} DEPFILE ${ptx}.d VERBATIM
    COMMAND_EXPAND_LISTS COMMENT "PTX of ${file}"
    COMMAND ${CMAKE_C_COMPILER_LAUNCHER} ${WEFT_CLANG} ${_weft_clang_program_flags} --cuda-feature=+ptx${WEFT_PTX_ISA}
            -DWEFT_PTX_ISA=${WEFT_PTX_ISA} ${WEFT_CLANG_FLAGS} -MD -MF ${ptx}.d -MT ${ptx}
            "$<$<BOOL:${includes}>:-I$<JOIN:${includes},;-I>>"
            "$<$<BOOL:${definitions}>:-D$<JOIN:${definitions},;-D>>" ${source} -o ${ptx})
  set(codes)
  set(objects)
  foreach(arch ${WEFT_CUBIN_ARCHITECTURES})
    set(code ${CMAKE_CURRENT_BINARY_DIR}/${target}.cuda/${name}.sm_${arch})
    add_custom_command(OUTPUT ${code} DEPENDS ${ptx} VERBATIM COMMENT "Assembling ${file} for sm_${arch}"
                       COMMAND ${WEFT_PTXAS} -arch=sm_${arch} ${ptx} -o ${code})
    list(APPEND codes sm_${arch}=${code})
    list(APPEND objects ${code})
  endforeach()
  foreach(arch ${WEFT_HIP_ARCHITECTURES})
    set(code ${CMAKE_CURRENT_BINARY_DIR}/${target}.cuda/${name}.${arch})
    add_custom_command(OUTPUT ${code} DEPENDS ${source} DEPFILE ${code}.d VERBATIM
      COMMAND_EXPAND_LISTS COMMENT "Code of ${file} for ${arch}"
      COMMAND ${CMAKE_C_COMPILER_LAUNCHER} ${WEFT_CLANG} ${_weft_hip_flags} --offload-arch=${arch}
              ${WEFT_CLANG_FLAGS} -MD -MF ${code}.d -MT ${code}
              "$<$<BOOL:${includes}>:-I$<JOIN:${includes},;-I>>"
              "$<$<BOOL:${definitions}>:-D$<JOIN:${definitions},;-D>>" ${source} -o ${code})
    list(APPEND codes ${arch}=${code})
    list(APPEND objects ${code})
  endforeach()
  add_custom_command(OUTPUT ${image} DEPENDS ${ptx} ${objects} ${_weft_image_script} VERBATIM COMMENT ""
    COMMAND sh ${_weft_image_script} ${file} ${ptx} ${image} "${WEFT_LZ4}" ${codes})
  target_sources(${target} PRIVATE ${image})
  set_source_files_properties(${image} PROPERTIES OBJECT_DEPENDS "${ptx};${objects}")
endfunction()

function(weft_kernels target)
  cmake_parse_arguments(PARSE_ARGV 1 K "NVCC" "" "")
  set(files ${K_UNPARSED_ARGUMENTS})
  target_sources(${target} PRIVATE ${files})
  set(compiler ${WEFT_KERNEL_COMPILER})
  if(K_NVCC OR (NOT compiler AND NOT WEFT_CLANG))
    set(compiler nvcc)
  elseif(NOT compiler)
    set(compiler clang)
  endif()
  if(WEFT_KERNEL_COMPILER STREQUAL "none" OR (compiler STREQUAL "nvcc" AND (NOT WEFT_NVCC OR NOT WEFT_CUDART)))
    return()
  endif()
  foreach(file ${files})
    cmake_language(CALL _weft_${compiler}_object ${target} ${file})
  endforeach()
  if(compiler STREQUAL "nvcc")
    # The program brings its own CUDA runtime; libweft links none.
    target_link_libraries(${target} PRIVATE ${WEFT_CUDART} ${CMAKE_DL_LIBS} pthread rt)
  endif()
endfunction()

# The name until 0.1.
function(weft_kernel_sources)
  message(FATAL_ERROR "weft_kernel_sources() is called weft_kernels() now")
endfunction()

function(weft_add_program name)
  cmake_parse_arguments(P "NVCC" "" "SOURCES;HOST_SOURCES" ${ARGN})
  add_executable(${name} ${P_HOST_SOURCES})
  if(TARGET weft::weft)
    target_link_libraries(${name} PRIVATE weft::weft)
  else()
    target_link_libraries(${name} PRIVATE weft)
  endif()
  set(by_nvcc)
  if(P_NVCC)
    set(by_nvcc NVCC)
  endif()
  weft_kernels(${name} ${P_SOURCES} ${by_nvcc})
endfunction()
