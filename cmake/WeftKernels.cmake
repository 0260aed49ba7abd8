# SPDX-License-Identifier: Apache-2.0
# Programs whose kernels are one source for two targets (<weft/launch.h>).
#
#   weft_add_program(NAME SOURCES FILE... [HOST_SOURCES FILE...])
#       An executable; SOURCES are compiled for both targets, HOST_SOURCES by the C compiler alone.
#   weft_kernel_sources(TARGET FILE...)
#       Adds files that are compiled for both targets to an executable or library of C.
#
# Every file is compiled by the C compiler (simt and the host's code) and, where nvcc is found, also
# by `nvcc -x cu` (cuda). Variables:
#   WEFT_NVCC              the compiler; empty or OFF: simt only
#   WEFT_CUDA_GENCODE      nvcc's options for what GPUs to compile for
#   WEFT_NVCC_FLAGS        further options for nvcc, for the library's kernels too; for one target: its property WEFT_NVCC_OPTIONS

# clang that compiles device code without a CUDA toolkit: 18 or newer, with LLVM's back end for
# NVIDIA GPUs. WEFT_CLANG_NOTE says why there is none.
function(_weft_find_clang)
  if(DEFINED WEFT_CLANG)
    return()
  endif()
  set(note "no clang (Debian 12: package clang-19, Ubuntu 24.04: clang-18)")
  foreach(name clang-22 clang-21 clang-20 clang-19 clang-18 clang)
    find_program(clang NAMES ${name} NO_CACHE)
    if(NOT clang)
      continue()
    endif()
    execute_process(COMMAND ${clang} -dumpversion OUTPUT_VARIABLE version ERROR_QUIET
                    OUTPUT_STRIP_TRAILING_WHITESPACE)
    execute_process(COMMAND ${clang} --print-targets OUTPUT_VARIABLE targets ERROR_QUIET)
    if(version VERSION_GREATER_EQUAL 18 AND targets MATCHES "nvptx64")
      set(WEFT_CLANG ${clang} CACHE FILEPATH "clang 18 or newer, for device code; OFF: none" FORCE)
      return()
    endif()
    set(note "${clang} is clang ${version}; device code needs 18 or newer with nvptx64 (Debian 12: package clang-19, Ubuntu 24.04: clang-18)")
    unset(clang)
  endforeach()
  set(WEFT_CLANG OFF CACHE FILEPATH "clang 18 or newer, for device code; OFF: none" FORCE)
  set(WEFT_CLANG_NOTE "${note}" CACHE INTERNAL "")
endfunction()
_weft_find_clang()

# PTX ISA 6.4 and sm_70: nothing here needs what came later, and drivers from 430 on compile it.
set(_weft_clang_flags -x cuda --cuda-device-only -nocudainc -nocudalib --cuda-gpu-arch=sm_70
    --cuda-feature=+ptx64 -S -O3 -std=c++17 -ffreestanding -fdeclspec -ffp-contract=fast
    -Wno-unknown-cuda-version)

# One pass of the compiler for both: nothing here needs instructions that came later.
set(WEFT_CUDA_GENCODE "-gencode=arch=compute_75,code=[sm_90,compute_75]"
    CACHE STRING "nvcc options: the GPUs that kernels are compiled for")
set(WEFT_NVCC_FLAGS "" CACHE STRING "further nvcc options for kernels")
find_program(WEFT_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda /opt/cuda
             PATH_SUFFIXES bin DOC "CUDA compiler; without it kernels are built for simt only")
if(WEFT_NVCC)
  cmake_path(GET WEFT_NVCC PARENT_PATH WEFT_CUDA_BIN)
  find_library(WEFT_CUDART cudart_static HINTS ${WEFT_CUDA_BIN}/.. PATH_SUFFIXES lib64 lib
               targets/x86_64-linux/lib targets/sbsa-linux/lib NO_CACHE)
endif()

# The CUDA half of one file, as an object of `target`.
function(_weft_cuda_object target file)
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
    COMMAND ${WEFT_NVCC} -x cu -c ${source} -o ${object} -MD -MF ${object}.d -MT ${object}
            -std=c++17 -O3 -lineinfo -Xfatbin=-compress-all ${WEFT_CUDA_GENCODE} ${WEFT_NVCC_FLAGS}
            "$<TARGET_PROPERTY:${target},WEFT_NVCC_OPTIONS>"
            -Xcompiler=-fPIC,-fno-exceptions,-fno-threadsafe-statics
            "$<$<BOOL:${includes}>:-I$<JOIN:${includes},;-I>>"
            "$<$<BOOL:${definitions}>:-D$<JOIN:${definitions},;-D>>")
  target_sources(${target} PRIVATE ${object})
  set_source_files_properties(${object} PROPERTIES GENERATED TRUE EXTERNAL_OBJECT TRUE)
endfunction()

function(weft_kernel_sources target)
  target_sources(${target} PRIVATE ${ARGN})
  if(NOT WEFT_NVCC OR NOT WEFT_CUDART)
    return()
  endif()
  foreach(file ${ARGN})
    _weft_cuda_object(${target} ${file})
  endforeach()
  # The program brings its own CUDA runtime; libweft links none.
  target_link_libraries(${target} PRIVATE ${WEFT_CUDART} ${CMAKE_DL_LIBS} pthread rt)
endfunction()

function(weft_add_program name)
  cmake_parse_arguments(P "" "" "SOURCES;HOST_SOURCES" ${ARGN})
  add_executable(${name} ${P_HOST_SOURCES})
  if(TARGET weft::weft)
    target_link_libraries(${name} PRIVATE weft::weft)
  else()
    target_link_libraries(${name} PRIVATE weft)
  endif()
  weft_kernel_sources(${name} ${P_SOURCES})
endfunction()
