# SPDX-License-Identifier: Apache-2.0
# find_package(NVSHMEM) gives Weft by NVSHMEM's names:
#   nvshmem::nvshmem_host    libweft.so, and the headers
#   nvshmem::nvshmem_device  the headers; what is linked is empty
#   nvshmem::nvshmem         libweft.a, and the headers
get_filename_component(_nvshmem_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(NVSHMEM_INCLUDE_DIR "${_nvshmem_prefix}/include")
set(NVSHMEM_INCLUDE_DIRS "${NVSHMEM_INCLUDE_DIR}")
set(NVSHMEM_LIBRARY_DIR "${_nvshmem_prefix}/lib")
set(NVSHMEM_LIBRARIES nvshmem::nvshmem_host nvshmem::nvshmem_device)

if(NOT TARGET nvshmem::nvshmem_host)
  add_library(nvshmem::nvshmem_host SHARED IMPORTED)
  set_target_properties(nvshmem::nvshmem_host PROPERTIES
                        IMPORTED_LOCATION "${NVSHMEM_LIBRARY_DIR}/libnvshmem_host.so"
                        INTERFACE_INCLUDE_DIRECTORIES "${NVSHMEM_INCLUDE_DIR}")
  add_library(nvshmem::nvshmem_device STATIC IMPORTED)
  set_target_properties(nvshmem::nvshmem_device PROPERTIES
                        IMPORTED_LOCATION "${NVSHMEM_LIBRARY_DIR}/libnvshmem_device.a"
                        INTERFACE_INCLUDE_DIRECTORIES "${NVSHMEM_INCLUDE_DIR}")
  add_library(nvshmem::nvshmem STATIC IMPORTED)
  set_target_properties(nvshmem::nvshmem PROPERTIES
                        IMPORTED_LOCATION "${NVSHMEM_LIBRARY_DIR}/libnvshmem.a"
                        INTERFACE_LINK_LIBRARIES "pthread;dl;m"
                        INTERFACE_INCLUDE_DIRECTORIES "${NVSHMEM_INCLUDE_DIR}")
endif()
unset(_nvshmem_prefix)
