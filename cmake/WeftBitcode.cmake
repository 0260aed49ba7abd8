# SPDX-License-Identifier: Apache-2.0
# The operations of <weft_device.h> for compilers of other languages: weft_device.bc, LLVM bitcode
# (Triton), and weft_device.ptx (Numba). The list of functions is made from the header. `weft include
# --bitcode` prints where they are.
set(folder ${CMAKE_BINARY_DIR}/share/weft)
add_custom_target(weft_bitcode ALL)
if(NOT WEFT_CLANG OR weft_ptx_compiler STREQUAL "none")
  message(STATUS "LLVM bitcode of the device operations: none (it needs clang)")
  return()
endif()
set(work ${CMAKE_BINARY_DIR}/bitcode)
file(MAKE_DIRECTORY ${folder} ${work})
set(include -I${PROJECT_SOURCE_DIR}/include)
set(script ${PROJECT_SOURCE_DIR}/cmake/bitcode.awk)
set(strip ${PROJECT_SOURCE_DIR}/cmake/bitcode.sed)
set(clang ${CMAKE_C_COMPILER_LAUNCHER} ${WEFT_CLANG} ${_weft_clang_flags} --cuda-feature=+ptx64 -DWEFT_PTX_ISA=64 ${include})
add_custom_command(OUTPUT ${work}/weft_device.i DEPENDS ${headers} VERBATIM COMMENT ""
  COMMAND ${WEFT_CLANG} -E -P -x c -DWEFT_DEVICE=@ ${include} ${PROJECT_SOURCE_DIR}/include/weft_device.h
          -o ${work}/weft_device.i)
add_custom_command(OUTPUT ${folder}/weft_device.bc DEPENDS ${work}/weft_device.i ${script} ${strip} VERBATIM
  COMMAND awk -f ${script} ${work}/weft_device.i > ${work}/bitcode.cu
  COMMAND ${clang} -emit-llvm ${work}/bitcode.cu -o ${work}/whole.ll
  COMMAND sed -f ${strip} ${work}/whole.ll > ${work}/bitcode.ll
  COMMAND ${WEFT_CLANG} --target=nvptx64-nvidia-cuda -x ir -c -emit-llvm -Xclang -disable-llvm-passes
          ${work}/bitcode.ll -o ${folder}/weft_device.bc
  COMMENT "LLVM bitcode of the device operations")
add_custom_command(OUTPUT ${folder}/weft_device.ptx DEPENDS ${work}/weft_device.i ${script} VERBATIM
  COMMAND awk -v small=1 -f ${script} ${work}/weft_device.i > ${work}/ptx.cu
  COMMAND ${clang} ${work}/ptx.cu -o ${folder}/weft_device.ptx
  COMMAND sed -i -e "/^[[:space:]]*\\/\\//d" -e "s/^\\.version .*/.version 6.4/" ${folder}/weft_device.ptx
  COMMENT "PTX of the device operations")
add_custom_target(weft_bitcode_files DEPENDS ${folder}/weft_device.bc ${folder}/weft_device.ptx)
add_dependencies(weft_bitcode weft_bitcode_files)
install(FILES ${folder}/weft_device.bc ${folder}/weft_device.ptx
        DESTINATION ${CMAKE_INSTALL_DATADIR}/weft COMPONENT development)
