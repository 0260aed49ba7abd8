# SPDX-License-Identifier: Apache-2.0
# A build for machines without jansson, hwloc, libpng and cmocka (a bare machine with a GPU, say):
# the whole library, of the command only run and version, of the tests those that need no package.
option(WEFT_REDUCED "build without jansson, hwloc, libpng and cmocka" OFF)
if(WEFT_REDUCED)
  message(STATUS "WEFT_REDUCED: the command has only run and version; unit and machine tests are left out")
endif()

# For the short forms of the sanitizers, whose tests need no more of it.
option(WEFT_RUN_ONLY "of the command only run and version" OFF)

# For builds whose tests look for faults and not for speed. With a sanitizer the library then takes
# half the time to compile.
option(WEFT_UNITY "compile each folder of the library as one source; with instruments by -O0" OFF)

# For `./dev arm short`, whose tests need no more: reduced, but with unit tests, without verbs and the
# interfaces of OpenSHMEM and NVSHMEM.
option(WEFT_SHORT "of the library the core; with WEFT_UNITY" OFF)
if(WEFT_SHORT)
  set(WEFT_UNITY ON)
endif()
# weft_unity(TARGET): with WEFT_UNITY, compiles its sources so.
function(weft_unity target)
  if(NOT WEFT_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    cmake_path(GET source PARENT_PATH folder)
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    set_property(SOURCE ${source} TARGET_DIRECTORY ${target} PROPERTY UNITY_GROUP "group${folder}")
  endforeach()
endfunction()

# Where oshcc, oshrun and their relatives go (cli/osh).
set(WEFT_OSH_PREFIX "" CACHE STRING "a folder below the prefix for the commands of OpenSHMEM; else bin")

# Warnings, sanitizers and the flags that every target of the project shares.
add_compile_definitions(_GNU_SOURCE)
add_compile_options(-Wall -Wextra -Wno-unused-parameter -Wstrict-prototypes -Wmissing-prototypes
                    -Wvla -Wpointer-arith)
if(WEFT_WERROR)
  add_compile_options(-Werror)
endif()
# The same bits on every CPU: gcc fuses multiplications and additions where a CPU can (64-bit Arm, or
# a later x86-64 than the first).
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" OR CMAKE_C_FLAGS MATCHES "-march|-mfma")
  add_compile_options(-ffp-contract=off)
endif()
# -O3 for the copy and reduction loops; frame pointers so that a hung job can be read, and line
# tables. More debug information would take a third more time to compile.
set(CMAKE_C_FLAGS_RELEASE "-O3 -g1 -fno-omit-frame-pointer")
# For what is not waited for: half the time to compile.
set(WEFT_NOT_HOT $<$<CONFIG:Release>:-O1>)
# Device code that runs on simt alone, which shows that it works: a third of the time to compile, as
# functions are not inlined by force.
set(WEFT_SIMT_ALONE "")
if(NOT WEFT_ALL_KERNELS)
  set(WEFT_SIMT_ALONE ${WEFT_NOT_HOT} "-DWEFT_DEVICE=static inline __attribute__((unused))")
endif()
# Line tables are all that a sanitizer's report needs; more would double the time to compile.
if(NOT WEFT_SANITIZE STREQUAL "" OR WEFT_FUZZ)
  set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O1 -g1 -fno-omit-frame-pointer")
  if(WEFT_UNITY)
    set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O0 -g1 -fno-omit-frame-pointer")
    # So compiled, gcc knows less of what a format makes, and warns of more.
    add_compile_options($<$<C_COMPILER_ID:GNU>:-Wno-format-truncation>)
  endif()
endif()
# What instruments find nothing in that they do not find elsewhere, and take long to compile.
set(WEFT_NO_SANITIZE "")
if(WEFT_SANITIZE MATCHES "^(address|thread)$")
  set(WEFT_NO_SANITIZE -O0 -fno-sanitize=all)
endif()
if(WEFT_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
  if(CMAKE_C_COMPILER_ID STREQUAL "Clang")
    # As gcc does: functions that a unit test replaces are then not those of the instruments.
    execute_process(COMMAND ${CMAKE_C_COMPILER} -print-resource-dir OUTPUT_VARIABLE instruments
                    OUTPUT_STRIP_TRAILING_WHITESPACE)
    add_link_options(-shared-libasan -Wl,-rpath,${instruments}/lib/linux)
    add_compile_definitions(__SANITIZE_ADDRESS__) # which gcc defines
  endif()
elseif(WEFT_SANITIZE STREQUAL "thread")
  # ThreadSanitizer does not model fences; base/sanitizer.h says what stands in for them.
  add_compile_options(-fsanitize=thread $<$<C_COMPILER_ID:GNU>:-Wno-tsan>)
  add_link_options(-fsanitize=thread)
elseif(WEFT_SANITIZE STREQUAL "coverage")
  # Counters are added atomically: PEs may be threads.
  add_compile_options(--coverage -fprofile-update=atomic)
  add_link_options(--coverage)
elseif(NOT WEFT_SANITIZE STREQUAL "")
  message(FATAL_ERROR "WEFT_SANITIZE is \"${WEFT_SANITIZE}\"; use \"address\", \"thread\" or \"coverage\"")
endif()
