# SPDX-License-Identifier: Apache-2.0
# Debian packages by CPack, from the components of WeftInstall.cmake: libweft0, libweft-dev, weft (the
# small command), weft-bench (the whole one, WEFT_SPLIT), weft-doc, python3-weft, and weft-hca where the
# software HCA is built. `./dev packages` makes them from a build that is configured for /usr, and checks them.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME weft)
set(CPACK_PACKAGE_VENDOR "The Weft authors")
set(CPACK_PACKAGE_CONTACT "The Weft authors <authors@weft.invalid>")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ
    GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL library development command)
if(CMAKE_CROSSCOMPILING) # with cmake/aarch64.cmake; weft-doc is the same for all
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
else()
  list(APPEND CPACK_COMPONENTS_ALL documentation python)
endif()
if(WEFT_SPLIT)
  list(APPEND CPACK_COMPONENTS_ALL bench)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

# what: package, section, one line; the text after the first line is the extended description.
set(about "Weft gives the processes of a job one symmetric memory, on the host
and on GPUs, with one-sided puts, gets, atomics, signals and
collectives on it. It takes for every pair of memories the best path
that the machine has, proves it before it is used, and runs without a
GPU too.

")
function(weft_package component package section line more)
  string(TOUPPER ${component} C)
  set(CPACK_DEBIAN_${C}_PACKAGE_NAME ${package} PARENT_SCOPE)
  set(CPACK_DEBIAN_${C}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_COMPONENT_${C}_DESCRIPTION "${line}\n${about}${more}" PARENT_SCOPE)
  set(CPACK_DEBIAN_${C}_DESCRIPTION "${line}\n${about}${more}" PARENT_SCOPE)
endfunction()
weft_package(library libweft0 libs "GPU communication on one symmetric memory - library"
             "This package holds the shared library.")
weft_package(development libweft-dev libdevel
             "GPU communication on one symmetric memory - development"
             "This package holds the headers, the static library, the compiler wrappers\nof OpenSHMEM, a folder that stands for an installation of NVSHMEM, and\nthe manual pages of the functions.")
weft_package(command weft net "GPU communication on one symmetric memory - command"
             "This package holds the command weft, which starts jobs, shows the machine,\nfinds what makes its GPU communication slow, and explains its paths.")
weft_package(bench weft-bench net "GPU communication on one symmetric memory - measurements"
             "This package holds what the command weft needs to measure GPUs, NICs and\nfiles, to look into a running job, and for the demo.")
weft_package(documentation weft-doc doc
             "GPU communication on one symmetric memory - manuals"
             "This package holds the guides and all manual pages as a site in HTML.")
weft_package(python python3-weft python
             "GPU communication on one symmetric memory - Python 3"
             "This package holds the Python package weft: symmetric arrays that numpy,\ntorch, CuPy and JAX share, and operations on them.")
if(TARGET weft_hca)
  list(APPEND CPACK_COMPONENTS_ALL hca)
endif()
weft_package(hca weft-hca net "RDMA NIC in software - for tests of what writes work requests"
             "This package holds an RDMA NIC of the mlx5 family in software, under the\nnames of libibverbs and libmlx5 in a folder of its own: for tests of programs\nthat write work requests. It says nothing about a NIC's speed.")
set(CPACK_DEBIAN_HCA_PACKAGE_SUGGESTS "weft")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libweft0 (= ${PROJECT_VERSION}-1), libc6-dev")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "weft, weft-doc")
set(CPACK_DEBIAN_COMMAND_PACKAGE_SUGGESTS "weft-bench, libweft-dev, weft-doc")
set(CPACK_DEBIAN_BENCH_PACKAGE_DEPENDS "weft (= ${PROJECT_VERSION}-1)")
set(CPACK_DEBIAN_DOCUMENTATION_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_DOCUMENTATION_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_PYTHON_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "python3 (>= 3.9), libweft0 (= ${PROJECT_VERSION}-1), weft (= ${PROJECT_VERSION}-1)")
set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS "python3-numpy, weft-hca, libweft-dev, weft-doc")
file(WRITE ${CMAKE_BINARY_DIR}/packages/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${CMAKE_BINARY_DIR}/packages/triggers)
# Compiled modules are made and removed with the package, as Debian's Python policy has it.
file(WRITE ${CMAKE_BINARY_DIR}/packages/python/postinst
     "#!/bin/sh\nset -e\nif [ \"$1\" = configure ]; then\n    py3compile -p python3-weft\nfi\n")
file(WRITE ${CMAKE_BINARY_DIR}/packages/python/prerm "#!/bin/sh\nset -e\npy3clean -p python3-weft\n")
file(CHMOD ${CMAKE_BINARY_DIR}/packages/python/postinst ${CMAKE_BINARY_DIR}/packages/python/prerm
     PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA
    "${CMAKE_BINARY_DIR}/packages/python/postinst;${CMAKE_BINARY_DIR}/packages/python/prerm")

# What every package has: copyright, change log.
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${CMAKE_BINARY_DIR}/packages/changelog
     "weft (${PROJECT_VERSION}-1) unstable; urgency=medium\n\n  * See changelog.gz for what changed.\n\n -- ${CPACK_PACKAGE_CONTACT}  ${now}\n")
file(WRITE ${CMAKE_BINARY_DIR}/packages/copyright
     "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: weft\n\nFiles: *\nCopyright: 2026 The Weft authors\nLicense: Apache-2.0\n On Debian systems the full text of the Apache License 2.0 is in\n /usr/share/common-licenses/Apache-2.0.\n")
execute_process(COMMAND gzip -9nc ${CMAKE_BINARY_DIR}/packages/changelog
                OUTPUT_FILE ${CMAKE_BINARY_DIR}/packages/changelog.Debian.gz)
execute_process(COMMAND gzip -9nc ${PROJECT_SOURCE_DIR}/CHANGELOG.md
                OUTPUT_FILE ${CMAKE_BINARY_DIR}/packages/changelog.gz)
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  foreach(c LIBRARY DEVELOPMENT COMMAND BENCH DOCUMENTATION PYTHON HCA)
    string(TOLOWER ${c} component)
    install(FILES ${CMAKE_BINARY_DIR}/packages/copyright ${CMAKE_BINARY_DIR}/packages/changelog.gz
                  ${CMAKE_BINARY_DIR}/packages/changelog.Debian.gz
            DESTINATION share/doc/${CPACK_DEBIAN_${c}_PACKAGE_NAME} COMPONENT ${component})
  endforeach()
  install(DIRECTORY ${CMAKE_BINARY_DIR}/site/ DESTINATION share/doc/weft-doc/html
          COMPONENT documentation)
  install(DIRECTORY python/weft DESTINATION lib/python3/dist-packages COMPONENT python
          FILES_MATCHING PATTERN "*.py" PATTERN "py.typed" PATTERN "__pycache__" EXCLUDE)
endif()
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/package_files.cmake)
set(CPACK_POST_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/package_scripts.cmake)
include(CPack)
