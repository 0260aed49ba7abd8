# SPDX-License-Identifier: Apache-2.0
# The GPU side of the path room. With nvcc the library's kernels are also compiled to a fat binary;
# without it the committed PTX text alone is embedded, and the driver compiles that.
target_sources(weft_obj PRIVATE gpu.c gpu_copy.c gpu_image.c gpu_module.c gpu_ops.c gpu_pin.c proof_cache.c prove_gpu.c)

set(ptx ${CMAKE_CURRENT_SOURCE_DIR}/gpu_kernels.ptx)
set_property(SOURCE gpu_image.c TARGET_DIRECTORY weft_obj APPEND PROPERTY OBJECT_DEPENDS ${ptx})
set_property(SOURCE gpu_image.c TARGET_DIRECTORY weft_obj APPEND PROPERTY COMPILE_DEFINITIONS WEFT_GPU_PTX="${ptx}")

find_program(WEFT_NVCC nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda/bin
             DOC "CUDA compiler; without it the embedded kernels are PTX text only")
option(WEFT_GPU_KERNELS "compile the library's kernels with nvcc when it is there" ON)
if(WEFT_NVCC AND WEFT_GPU_KERNELS)
  execute_process(COMMAND ${WEFT_NVCC} --list-gpu-code OUTPUT_VARIABLE known ERROR_QUIET)
  set(targets)
  # One real architecture of each generation; cubins run on later minor versions of the same one.
  foreach(arch 70 80 90 100)
    if(known MATCHES "sm_${arch}[^0-9]")
      list(APPEND targets -gencode arch=compute_${arch},code=sm_${arch})
      set(newest ${arch})
    endif()
  endforeach()
  set(fatbin ${CMAKE_CURRENT_BINARY_DIR}/gpu_kernels.fatbin)
  add_custom_command(OUTPUT ${fatbin}
    COMMAND ${WEFT_NVCC} -x cu -std=c++17 -fatbin ${targets}
            -gencode arch=compute_${newest},code=compute_${newest}
            -I${PROJECT_SOURCE_DIR}/include -I${CMAKE_CURRENT_SOURCE_DIR}
            ${CMAKE_CURRENT_SOURCE_DIR}/gpu_kernels.cu -o ${fatbin}
    DEPENDS gpu_kernels.cu gpu_kernels.h ${PROJECT_SOURCE_DIR}/include/weft/device/simt.h
            ${PROJECT_SOURCE_DIR}/include/weft/device/target_cuda.h
    COMMENT "Kernels of the library (sm_70 ... sm_100 as this nvcc knows them)" VERBATIM)
  add_custom_target(weft_gpu_fatbin DEPENDS ${fatbin})
  add_dependencies(weft_obj weft_gpu_fatbin)
  set_property(SOURCE gpu_image.c TARGET_DIRECTORY weft_obj APPEND PROPERTY OBJECT_DEPENDS ${fatbin})
  set_property(SOURCE gpu_image.c TARGET_DIRECTORY weft_obj APPEND PROPERTY COMPILE_DEFINITIONS WEFT_GPU_FATBIN="${fatbin}")
else()
  message(STATUS "nvcc is not here: the library's GPU kernels are embedded as PTX text only")
endif()
