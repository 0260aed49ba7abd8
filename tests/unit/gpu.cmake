# SPDX-License-Identifier: Apache-2.0
# The GPU side, over a stand-in of the CUDA driver.
weft_unit_test(gpu SOURCES test_gpu.c ENV LD_LIBRARY_PATH=${FAKE_CUDA_FOLDER})
add_dependencies(test_gpu fakecuda)
weft_unit_test(gpu_proof SOURCES test_gpu_proof.c)
target_compile_options(test_gpu_proof PRIVATE -Wno-missing-prototypes)
weft_unit_test(gpu_limit SOURCES test_gpu_limit.c)
target_compile_options(test_gpu_limit PRIVATE -Wno-missing-prototypes)
weft_unit_test(gpu_calls SOURCES test_gpu_calls.c)
target_link_options(test_gpu_calls PRIVATE LINKER:--wrap=gpu_bounce)
# With tests/unit/counted.h.
set(WRAP_COUNTED LINKER:--wrap=pthread_mutex_lock,--wrap=pthread_mutex_trylock
                 LINKER:--wrap=pthread_mutex_unlock,--wrap=malloc,--wrap=calloc,--wrap=realloc
                 LINKER:--wrap=strdup,--wrap=free)
weft_unit_test(gpu_pin SOURCES test_gpu_pin.c)
target_link_options(test_gpu_pin PRIVATE ${WRAP_COUNTED})
weft_unit_test(gpu_map SOURCES test_gpu_map.c)
target_link_options(test_gpu_map PRIVATE ${WRAP_COUNTED} LINKER:--wrap=map_test)
weft_unit_test(gpu_map_start SOURCES test_gpu_map_start.c)
target_link_options(test_gpu_map_start PRIVATE ${WRAP_COUNTED} LINKER:--wrap=map_test
                    LINKER:--wrap=gpu_export_dmabuf,--wrap=rm_open,--wrap=rm_close
                    LINKER:--wrap=rm_abandon,--wrap=rm_import,--wrap=rm_map,--wrap=rm_unmap
                    LINKER:--wrap=rm_release)
weft_unit_test(gpu_map_own SOURCES test_gpu_map_own.c)
target_link_options(test_gpu_map_own PRIVATE ${WRAP_COUNTED} LINKER:--wrap=gpu_copy,--wrap=fopen)
weft_unit_test(gpu_bounce SOURCES test_gpu_bounce.c)
target_link_options(test_gpu_bounce PRIVATE ${WRAP_COUNTED} LINKER:--wrap=gpu_copy
                    LINKER:--wrap=gpu_place_of
                    LINKER:--wrap=gpu_wait_stream,--wrap=thread_start
                    LINKER:--wrap=clock_now_ns,--wrap=sched_getaffinity,--wrap=proof_cache_load_numbers
                    LINKER:--wrap=proof_cache_store_numbers)
weft_unit_test(gpu_map_test SOURCES test_gpu_map_test.c)
target_link_options(test_gpu_map_test PRIVATE ${WRAP_COUNTED} LINKER:--wrap=gpu_copy
                    LINKER:--wrap=gpu_place_of
                    LINKER:--wrap=wc_store,--wrap=wc_load,--wrap=clock_now_ns
                    LINKER:--wrap=proof_cache_load_numbers,--wrap=proof_cache_store_numbers)
weft_unit_test(gpu_prove SOURCES test_gpu_prove.c)
target_link_options(test_gpu_prove PRIVATE ${WRAP_COUNTED} LINKER:--wrap=gpu_launch
                    LINKER:--wrap=gpu_wait_stream
                    LINKER:--wrap=gpu_relay_add_fallback,--wrap=gpu_heap_drop
                    LINKER:--wrap=proof_cache_contains,--wrap=proof_cache_add)
weft_unit_test(gpu_adopt SOURCES test_gpu_adopt.c)
target_link_options(test_gpu_adopt PRIVATE ${WRAP_COUNTED} LINKER:--wrap=boot_agree
                    LINKER:--wrap=gpu_heap_map
                    LINKER:--wrap=gpu_heap_export,--wrap=gpu_heap_import,--wrap=gpu_heap_unmap)
weft_unit_test(gpu_third SOURCES test_gpu_third.c)
target_link_options(test_gpu_third PRIVATE ${WRAP_COUNTED} LINKER:--wrap=gpu_device_find
                    LINKER:--wrap=gpu_links_read
                    LINKER:--wrap=gpu_relays_assign,--wrap=gpu_device_open,--wrap=gpu_resources_init
                    LINKER:--wrap=gpu_resources_start LINKER:--wrap=gpu_resources_stop
                    LINKER:--wrap=gpu_resources_end
                    LINKER:--wrap=gpu_heap_open_to,--wrap=gpu_heap_unmap_unused,--wrap=gpu_enter
                    LINKER:--wrap=gpu_leave,--wrap=gpu_copy,--wrap=gpu_place_of)
weft_unit_test(gpu_stripe_measure SOURCES test_gpu_stripe_measure.c)
target_link_options(test_gpu_stripe_measure PRIVATE LINKER:--wrap=gpu_stripe_parts
                    LINKER:--wrap=gpu_wait_stream)
weft_unit_test(gpu_links SOURCES test_gpu_links.c)
target_link_options(test_gpu_links PRIVATE LINKER:--wrap=nvml_open,--wrap=nvml_close)
weft_unit_test(wc SOURCES test_wc.c)
weft_unit_test(gpu_module SOURCES test_gpu_module.c)
weft_unit_test(gpu_program SOURCES test_gpu_program.c ENV LD_LIBRARY_PATH=${FAKE_CUDA_FOLDER})
weft_unit_test(lz4 SOURCES test_lz4.c)
# Registers, stack and spills of the library's kernels.
if(NOT WEFT_SANITIZE)
  add_test(NAME unit.gpu_kernels COMMAND tools/kernels.sh ${PROJECT_BINARY_DIR} --check
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(unit.gpu_kernels PROPERTIES LABELS unit TIMEOUT 60 SKIP_RETURN_CODE 77)
endif()
weft_unit_test(gpu_peers SOURCES test_gpu_peers.c ENV LD_LIBRARY_PATH=${FAKE_CUDA_FOLDER})
add_dependencies(test_gpu_peers fakecuda)
weft_unit_test(gpu_relay SOURCES test_gpu_relay.c ENV LD_LIBRARY_PATH=${FAKE_CUDA_FOLDER})
add_dependencies(test_gpu_relay fakecuda)

weft_unit_test(gpu_ways SOURCES test_gpu_ways.c ENV LD_LIBRARY_PATH=${FAKE_CUDA_FOLDER})
add_dependencies(test_gpu_ways fakecuda fakenvml)
target_compile_definitions(test_gpu_ways PRIVATE
                           GOLDEN="${CMAKE_CURRENT_SOURCE_DIR}/golden/gpu_ways.txt")
weft_unit_test(gpu_proof_cache SOURCES test_gpu_proof_cache.c)
weft_unit_test(gpu_stripe SOURCES test_gpu_stripe.c ENV LD_LIBRARY_PATH=${FAKE_CUDA_FOLDER})
add_dependencies(test_gpu_stripe fakecuda fakenvml)
set_tests_properties(unit.gpu_stripe PROPERTIES LABELS "unit;long")
weft_unit_test(gpu_api_faults SOURCES test_gpu_api_faults.c ENV LD_LIBRARY_PATH=${FAKE_CUDA_FOLDER})
add_dependencies(test_gpu_api_faults fakecuda)
weft_unit_test(gpu_holders SOURCES test_gpu_holders.c ENV LD_LIBRARY_PATH=${FAKE_CUDA_FOLDER})
add_dependencies(test_gpu_holders fakenvml)

# Every call made to fail once more, on a driver that does its work later.
foreach(order delayed reordered)
  foreach(program gpu gpu_peers gpu_api_faults)
    add_test(NAME unit.${program}.${order} COMMAND test_${program})
    set_property(GLOBAL PROPERTY COMMAND_OF_unit.${program}.${order} test_${program})
    set_tests_properties(unit.${program}.${order} PROPERTIES LABELS unit TIMEOUT ${WEFT_TEST_TIMEOUT}
                         SKIP_RETURN_CODE 77
                         ENVIRONMENT "LD_LIBRARY_PATH=${FAKE_CUDA_FOLDER};FAKE_CUDA_ORDER=${order}")
  endforeach()
endforeach()
set_tests_properties(unit.gpu.delayed unit.gpu_peers.delayed unit.gpu_api_faults.delayed
                     unit.gpu_api_faults.reordered
                     PROPERTIES LABELS "unit;long")


# Our declarations beside NVIDIA's, where those are found.
find_path(CUDA_H cuda.h HINTS ENV CUDA_HOME PATHS /usr/local/cuda/include PATH_SUFFIXES include)
if(CUDA_H)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/driver/gpu_api.h)
  file(STRINGS ${PROJECT_SOURCE_DIR}/src/driver/gpu_api.h rows REGEX "^    X\\(CU[A-Z0-9_]+, [0-9]+\\)")
  string(REGEX REPLACE "    X\\((CU[A-Z0-9_]+), [0-9]+\\)[^;]*" "\\1" names "${rows}")
  list(JOIN names ",\n" names)
  file(CONFIGURE OUTPUT cuda_abi_constants.inc CONTENT "@names@,\n" @ONLY)
  weft_unit_test(cuda_abi SOURCES test_cuda_abi.c cuda_abi_theirs.c)
  target_include_directories(test_cuda_abi PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
  set_property(SOURCE cuda_abi_theirs.c APPEND PROPERTY INCLUDE_DIRECTORIES ${CUDA_H})
endif()
find_path(HIP_H hip/hip_runtime_api.h HINTS ENV ROCM_PATH PATHS /opt/rocm/include PATH_SUFFIXES include)
if(HIP_H)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/driver/hip.h)
  file(STRINGS ${PROJECT_SOURCE_DIR}/src/driver/hip.h rows REGEX "^    X\\([A-Za-z0-9_]+, [A-Z0-9_x]+\\)")
  string(REGEX REPLACE "    X\\(([A-Za-z0-9_]+), [^;]*" "\\1" names "${rows}")
  list(JOIN names ",\n" names)
  file(CONFIGURE OUTPUT hip_abi_constants.inc CONTENT "@names@,\n" @ONLY)
  weft_unit_test(hip_abi SOURCES test_hip_abi.c hip_abi_theirs.c)
  target_include_directories(test_hip_abi PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
  set_property(SOURCE hip_abi_theirs.c APPEND PROPERTY INCLUDE_DIRECTORIES ${HIP_H})
  set_property(SOURCE hip_abi_theirs.c APPEND PROPERTY COMPILE_OPTIONS -w)
endif()
# gpu_ways has links that only NVML counts.
weft_amd_tests(USUAL unit.gpu unit.gpu_peers unit.gpu_relay unit.gpu_program EXCEPT unit.gpu_ways)
# HIP, over its stand-in; and without one, where a message must name the right library.
weft_unit_test(hip SOURCES test_hip.c ENV LD_LIBRARY_PATH=${FAKE_CUDA_FOLDER})
target_link_options(test_hip PRIVATE LINKER:--wrap=access)
add_dependencies(test_hip fakehip)
add_test(NAME unit.hip.absent COMMAND test_hip absent)
set_tests_properties(unit.hip.absent PROPERTIES LABELS unit TIMEOUT ${WEFT_TEST_TIMEOUT})
