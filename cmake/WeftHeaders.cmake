# SPDX-License-Identifier: Apache-2.0
# The folder of headers in the build tree: links to those of the source, and weft_device_all.h, all
# device headers as one, for compilers that take a source from memory. `weft include` prints it.
set(folder ${CMAKE_BINARY_DIR}/include)
file(GLOB names RELATIVE ${PROJECT_SOURCE_DIR}/include CONFIGURE_DEPENDS include/*)
foreach(name ${names})
  file(MAKE_DIRECTORY ${folder})
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/include/${name} ${folder}/${name} SYMBOLIC)
endforeach()
file(GLOB headers CONFIGURE_DEPENDS include/*.h include/weft/*.h include/weft/device/*.h)
set(script ${PROJECT_SOURCE_DIR}/cmake/amalgamate.awk)
add_custom_command(OUTPUT ${folder}/weft_device_all.h DEPENDS ${headers} ${script} VERBATIM
                   COMMAND awk -f ${script} ${PROJECT_SOURCE_DIR}/include > ${folder}/weft_device_all.h
                   COMMENT "weft_device_all.h")
add_custom_target(weft_headers ALL DEPENDS ${folder}/weft_device_all.h)
add_dependencies(weft weft_headers)
install(FILES ${folder}/weft_device_all.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
