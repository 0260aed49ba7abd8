# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where: headers, libraries, pkg-config files and CMake package. The
# components library, development, command and documentation become packages (WeftPackages.cmake).
set(libdir ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(TARGETS weft weft_static EXPORT weft-targets
        LIBRARY DESTINATION ${libdir} COMPONENT library NAMELINK_COMPONENT development
        ARCHIVE DESTINATION ${libdir} COMPONENT development)
install(TARGETS weft_nccl LIBRARY DESTINATION ${libdir} COMPONENT library)
install(TARGETS weft_nccl_name LIBRARY DESTINATION ${libdir}/weft-nccl COMPONENT library)
install(EXPORT weft-targets NAMESPACE weft:: DESTINATION ${libdir}/cmake/weft COMPONENT development)

configure_package_config_file(cmake/weft-config.cmake.in weft-config.cmake
                              INSTALL_DESTINATION ${libdir}/cmake/weft)
write_basic_package_version_file(weft-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/weft-config.cmake ${CMAKE_BINARY_DIR}/weft-config-version.cmake
              cmake/WeftKernels.cmake
        DESTINATION ${libdir}/cmake/weft COMPONENT development)
install(PROGRAMS cmake/weft_image.sh DESTINATION ${libdir}/cmake/weft COMPONENT development)

# Paths in weft.pc are relative to the file itself, so that the tree may be moved anywhere. Where the
# loader does not look by itself, what is linked with `pkg-config --libs weft` gets a run path; that
# depends on the prefix, which `cmake --install --prefix` may name as late as now.
file(RELATIVE_PATH PREFIX_FROM_PC /prefix/${libdir}/pkgconfig /prefix)
configure_file(cmake/weft.pc.in weft.pc.in @ONLY)
configure_file(cmake/install_pc.cmake.in install_pc.cmake @ONLY)
install(SCRIPT ${CMAKE_BINARY_DIR}/install_pc.cmake COMPONENT development)
install(FILES ${CMAKE_BINARY_DIR}/weft-installed.pc DESTINATION ${libdir}/pkgconfig RENAME weft.pc
        COMPONENT development)

# The loader's cache names what lies in its folders only after ldconfig.
install(SCRIPT cmake/loader_cache.cmake COMPONENT library)

# All that is installed, without tests, examples and benchmarks (tests/install/targets.sh).
add_custom_target(weft_installed)
add_dependencies(weft_installed weft weft_static weft_nccl weft_nccl_name weft_headers weft_hca)
foreach(target weft_nvshmem_device weft_command weft_small weft_bitcode man)
  if(TARGET ${target})
    add_dependencies(weft_installed ${target})
  endif()
endforeach()
